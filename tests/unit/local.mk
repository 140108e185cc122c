
# The tool, the manual and the examples: shell tests, their helpers and the recorded answers.
check_PROGRAMS += fake_ctld conf_table
fake_ctld_SOURCES = tests/unit/fake_ctld.c
fake_ctld_CFLAGS = $(AM_CFLAGS) $(MUNGE_CFLAGS)
fake_ctld_LDADD = libadl_common.la $(MUNGE_LIBS)
conf_table_SOURCES = tests/unit/conf_table.c
conf_table_LDADD = libadl_conf.la libadl_common.la
check_PROGRAMS += tests/unit/test_cli
tests_unit_test_cli_SOURCES = tests/unit/test_cli.c
tests_unit_test_cli_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/cli
tests_unit_test_cli_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cli_LDADD = $(ADL_CLI_LIBS) $(CMOCKA_LIBS)
TESTS += tests/unit/test_cli tests/unit/cli.sh tests/unit/etc.sh tests/unit/man.sh
EXTRA_DIST += tests/unit/tap.sh tests/unit/cli.sh tests/unit/etc.sh tests/unit/man.sh \
	tests/unit/data/cli/status.json tests/unit/data/cli/explain.json

# predictor
check_PROGRAMS += tests/unit/test_predictor_learner
TESTS += tests/unit/test_predictor_learner
tests_unit_test_predictor_learner_SOURCES = tests/unit/test_predictor_learner.c tests/unit/predictor_sim.h
tests_unit_test_predictor_learner_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_predictor_learner_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_predictor_learner_LDADD = libadl_predictor.la $(CMOCKA_LIBS)

# spank: what of the plugin does not know SPANK, and the agent on a training program of its own
ADL_SPANK_TEST_LIBS = libadl_spank.la libadl_common.la $(MUNGE_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/agent_victim tests/unit/test_agent
TESTS += tests/unit/test_agent
tests_unit_agent_victim_SOURCES = tests/unit/agent_victim.c
tests_unit_agent_victim_LDADD = libadloader.la
tests_unit_agent_victim_LDFLAGS = $(AM_LDFLAGS) -no-install
tests_unit_test_agent_SOURCES = tests/unit/test_agent.c
tests_unit_test_agent_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_agent_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_agent_LDADD = $(ADL_SPANK_TEST_LIBS)
