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
TESTS += tests/unit/test_cli tests/unit/cli.sh tests/unit/doctor.sh tests/unit/etc.sh tests/unit/man.sh
EXTRA_DIST += tests/unit/tap.sh tests/unit/cli.sh tests/unit/doctor.sh tests/unit/etc.sh tests/unit/man.sh \
	tests/unit/data/cli/status.json tests/unit/data/cli/explain.json

# what make install leaves, and that programs find the library there
TESTS += tests/unit/install.sh
EXTRA_DIST += tests/unit/install.sh

# predictor
check_PROGRAMS += tests/unit/test_predictor_learner tests/unit/test_predictor_terms \
	tests/unit/test_predictor_files tests/unit/test_predictor_fit
EXTRA_DIST += tests/unit/predict.sh
TESTS += tests/unit/predict.sh tests/unit/test_predictor_learner tests/unit/test_predictor_terms \
	tests/unit/test_predictor_files tests/unit/test_predictor_fit
tests_unit_test_predictor_learner_SOURCES = tests/unit/test_predictor_learner.c tests/unit/predictor_sim.h
tests_unit_test_predictor_learner_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_predictor_learner_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_predictor_learner_LDADD = libadl_predictor.la $(CMOCKA_LIBS)
tests_unit_test_predictor_terms_SOURCES = tests/unit/test_predictor_terms.c tests/unit/rng.h
tests_unit_test_predictor_terms_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_predictor_terms_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_predictor_terms_LDADD = libadl_predictor.la $(CMOCKA_LIBS)
tests_unit_test_predictor_files_SOURCES = tests/unit/test_predictor_files.c tests/unit/rng.h
tests_unit_test_predictor_files_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_predictor_files_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_predictor_files_LDADD = libadl_predictor.la libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_predictor_fit_SOURCES = tests/unit/test_predictor_fit.c tests/unit/rng.h
tests_unit_test_predictor_fit_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_predictor_fit_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_predictor_fit_LDADD = libadl_predictor.la $(CMOCKA_LIBS)

# spank: what of the plugin does not know SPANK, and the agent on a training program of its own
ADL_SPANK_TEST_LIBS = libadl_spank.la libadl_common.la $(MUNGE_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/agent_victim tests/unit/test_agent \
	tests/unit/test_args tests/unit/test_classify tests/unit/test_tasks
TESTS += tests/unit/test_agent tests/unit/test_args tests/unit/test_classify tests/unit/test_tasks
tests_unit_agent_victim_SOURCES = tests/unit/agent_victim.c
tests_unit_agent_victim_LDADD = libadloader.la
tests_unit_agent_victim_LDFLAGS = $(AM_LDFLAGS) -no-install
tests_unit_test_agent_SOURCES = tests/unit/test_agent.c tests/unit/agent_scene.c tests/unit/agent_scene.h
tests_unit_test_agent_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_agent_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_agent_LDADD = $(ADL_SPANK_TEST_LIBS)
tests_unit_test_args_SOURCES = tests/unit/test_args.c
tests_unit_test_args_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_args_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_args_LDADD = $(ADL_SPANK_TEST_LIBS)
tests_unit_test_classify_SOURCES = tests/unit/test_classify.c
tests_unit_test_classify_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_classify_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_classify_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_recognition
TESTS += tests/unit/test_recognition
tests_unit_test_recognition_SOURCES = tests/unit/test_recognition.c tests/unit/fake_proc.c tests/unit/fake_proc.h
tests_unit_test_recognition_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_recognition_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_recognition_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_elfword
TESTS += tests/unit/test_elfword
tests_unit_test_elfword_SOURCES = tests/unit/test_elfword.c tests/unit/rng.h
tests_unit_test_elfword_CPPFLAGS = $(UNIT_CPPFLAGS) -I$(top_srcdir)/cli $(SLURM_CPPFLAGS)
tests_unit_test_elfword_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_elfword_LDADD = $(ADL_CLI_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_exported
TESTS += tests/unit/test_exported tests/unit/security.sh
EXTRA_DIST += tests/unit/security.sh
tests_unit_test_exported_SOURCES = tests/unit/test_exported.c
tests_unit_test_exported_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_exported_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_exported_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_executor
TESTS += tests/unit/test_executor
tests_unit_test_executor_SOURCES = tests/unit/test_executor.c
tests_unit_test_executor_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_executor_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_executor_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_cpubind
TESTS += tests/unit/test_cpubind
tests_unit_test_cpubind_SOURCES = tests/unit/test_cpubind.c
tests_unit_test_cpubind_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_cpubind_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cpubind_LDADD = $(ADL_SPANK_TEST_LIBS)
TESTS += tests/unit/adloader_py.sh
EXTRA_DIST += tests/unit/adloader_py.sh
check_LTLIBRARIES += fake_nvml.la
fake_nvml_la_SOURCES = tests/unit/fake_nvml.c
fake_nvml_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(abs_top_builddir)
check_PROGRAMS += tests/unit/test_nvml
TESTS += tests/unit/test_nvml
tests_unit_test_nvml_SOURCES = tests/unit/test_nvml.c
tests_unit_test_nvml_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_nvml_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_nvml_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_bind
TESTS += tests/unit/test_bind
tests_unit_test_bind_SOURCES = tests/unit/test_bind.c tests/unit/fake_proc.c tests/unit/fake_proc.h
tests_unit_test_bind_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_bind_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_bind_LDADD = $(ADL_SPANK_TEST_LIBS)
tests_unit_test_bind_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=syscall
check_PROGRAMS += tests/unit/test_verdict
TESTS += tests/unit/test_verdict
tests_unit_test_verdict_SOURCES = tests/unit/test_verdict.c tests/unit/rng.h
tests_unit_test_verdict_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_verdict_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_verdict_LDADD = libadl_ctld.la libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_worktime
TESTS += tests/unit/test_worktime
tests_unit_test_worktime_SOURCES = tests/unit/test_worktime.c
tests_unit_test_worktime_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_worktime_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_worktime_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_curvecap
TESTS += tests/unit/test_curvecap
tests_unit_test_curvecap_SOURCES = tests/unit/test_curvecap.c
tests_unit_test_curvecap_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_curvecap_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_curvecap_LDADD = libadl_ctld.la libadl_predictor.la libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_tasks_SOURCES = tests/unit/test_tasks.c
tests_unit_test_tasks_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_tasks_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_tasks_LDADD = $(ADL_SPANK_TEST_LIBS)

# the node's cpusets
check_PROGRAMS += tests/unit/test_cpuset
TESTS += tests/unit/test_cpuset
tests_unit_test_cpuset_SOURCES = tests/unit/test_cpuset.c
tests_unit_test_cpuset_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_cpuset_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cpuset_LDADD = $(ADL_SPANK_TEST_LIBS)
check_PROGRAMS += tests/unit/test_loan
TESTS += tests/unit/test_loan
tests_unit_test_loan_SOURCES = tests/unit/test_loan.c
tests_unit_test_loan_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_loan_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_loan_LDADD = $(ADL_SPANK_TEST_LIBS)

# several agents of a node, and several controllers
check_PROGRAMS += tests/unit/test_cpulock tests/unit/test_two_agents
TESTS += tests/unit/test_cpulock tests/unit/test_two_agents
tests_unit_test_cpulock_SOURCES = tests/unit/test_cpulock.c tests/unit/rng.h
tests_unit_test_cpulock_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_cpulock_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cpulock_LDADD = $(ADL_SPANK_TEST_LIBS)
tests_unit_test_two_agents_SOURCES = tests/unit/test_two_agents.c tests/unit/agent_scene.c tests/unit/agent_scene.h
tests_unit_test_two_agents_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_two_agents_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_two_agents_LDADD = $(ADL_SPANK_TEST_LIBS)

# common
check_PROGRAMS += tests/unit/test_cpus
TESTS += tests/unit/test_cpus
tests_unit_test_cpus_SOURCES = tests/unit/test_cpus.c tests/unit/rng.h
tests_unit_test_cpus_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_cpus_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_cpus_LDADD = libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_cpus_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=syscall
check_PROGRAMS += tests/unit/test_replacefile
TESTS += tests/unit/test_replacefile
tests_unit_test_replacefile_SOURCES = tests/unit/test_replacefile.c
tests_unit_test_replacefile_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_replacefile_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_replacefile_LDADD = libadl_file.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_wire
TESTS += tests/unit/test_wire
tests_unit_test_wire_SOURCES = tests/unit/test_wire.c tests/unit/rng.h
tests_unit_test_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_wire_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_wire_LDADD = libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_msg
TESTS += tests/unit/test_msg
tests_unit_test_msg_SOURCES = tests/unit/test_msg.c tests/unit/rng.h tests/unit/msg_samples.c tests/unit/msg_samples.h
tests_unit_test_msg_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_msg_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_msg_LDADD = libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_hints
TESTS += tests/unit/test_hints
tests_unit_test_hints_SOURCES = tests/unit/test_hints.c tests/unit/rng.h
tests_unit_test_hints_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_hints_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_hints_LDADD = libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_conf
TESTS += tests/unit/test_conf
tests_unit_test_conf_SOURCES = tests/unit/test_conf.c tests/unit/rng.h
tests_unit_test_conf_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_conf_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_conf_LDADD = libadl_conf.la libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_log
TESTS += tests/unit/test_log
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_log_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_log_LDADD = libadl_common.la $(CMOCKA_LIBS)
# end of common

# allocator, placement, topology
TESTS += tests/unit/allocate.sh
EXTRA_DIST += tests/unit/allocate.sh
check_PROGRAMS += tests/unit/test_place tests/unit/test_place_golden
TESTS += tests/unit/test_place tests/unit/test_place_golden
tests_unit_test_place_SOURCES = tests/unit/test_place.c tests/unit/shared.c tests/unit/shared.h \
	tests/unit/alloc_cases.c tests/unit/alloc_cases.h
tests_unit_test_place_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_place_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_place_LDADD = libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_place_golden_SOURCES = tests/unit/test_place_golden.c tests/unit/shared.c tests/unit/shared.h
tests_unit_test_place_golden_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_place_golden_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_place_golden_LDADD = libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)
EXTRA_DIST += \
	tests/unit/golden/place-cpuset-holes.txt \
	tests/unit/golden/place-cts1-pascal.txt \
	tests/unit/golden/place-dgx2-cgroup.txt \
	tests/unit/golden/place-epyc-corona.txt \
	tests/unit/golden/place-epyc9654-l3.txt \
	tests/unit/golden/place-g4dnmetal.txt \
	tests/unit/golden/place-gb10-biglittle.txt \
	tests/unit/golden/place-interleaved.txt \
	tests/unit/golden/place-knl-cpuless.txt \
	tests/unit/golden/place-near-first.txt \
	tests/unit/golden/place-offline-holes.txt \
	tests/unit/golden/place-one-pu-per-core.txt \
	tests/unit/golden/place-power8-sparse.txt \
	tests/unit/golden/place-raptorlake-hybrid.txt \
	tests/unit/golden/place-synthetic-2048.txt
check_PROGRAMS += tests/unit/test_topo
TESTS += tests/unit/test_topo
tests_unit_test_topo_SOURCES = tests/unit/test_topo.c tests/unit/shared.c tests/unit/shared.h \
	tests/unit/alloc_cases.c tests/unit/alloc_cases.h
tests_unit_test_topo_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_topo_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_topo_LDADD = libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_alloc
TESTS += tests/unit/test_alloc
tests_unit_test_alloc_SOURCES = tests/unit/test_alloc.c tests/unit/alloc_cases.c tests/unit/alloc_cases.h
tests_unit_test_alloc_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_alloc_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_alloc_LDADD = libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_alloc_oracle
TESTS += tests/unit/test_alloc_oracle
tests_unit_test_alloc_oracle_SOURCES = tests/unit/test_alloc_oracle.c tests/unit/alloc_cases.c tests/unit/alloc_cases.h
tests_unit_test_alloc_oracle_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_alloc_oracle_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_alloc_oracle_LDADD = libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)

# The controller: its pure parts, and the program itself with agents that the test plays.
check_PROGRAMS += tests/unit/test_ctld tests/unit/test_claims tests/unit/test_reconcile
TESTS += tests/unit/test_ctld tests/unit/test_claims tests/unit/test_reconcile
tests_unit_test_claims_SOURCES = tests/unit/test_claims.c tests/unit/rng.h
tests_unit_test_claims_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_claims_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_claims_LDADD = libadl_ctld.la libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_reconcile_SOURCES = tests/unit/test_reconcile.c tests/unit/rng.h
tests_unit_test_reconcile_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_reconcile_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_reconcile_LDADD = libadl_ctld.la libadl_alloc.la libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_ctld_SOURCES = tests/unit/test_ctld.c tests/unit/fake_agents.c tests/unit/fake_agents.h
tests_unit_test_ctld_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_ctld_CFLAGS = $(UNIT_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
tests_unit_test_ctld_LDADD = libadl_alloc.la libadl_common.la $(JSON_C_LIBS) $(MUNGE_LIBS) $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_warnonce
TESTS += tests/unit/test_warnonce
tests_unit_test_warnonce_SOURCES = tests/unit/test_warnonce.c
tests_unit_test_warnonce_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_warnonce_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_warnonce_LDADD = libadl_ctld.la libadl_common.la $(CMOCKA_LIBS)

# Several controllers, and agents that keep the node's rule (spank/cpulock.h).
check_PROGRAMS += tests/unit/test_failover
TESTS += tests/unit/test_failover
tests_unit_test_failover_SOURCES = tests/unit/test_failover.c tests/unit/fake_agents.c tests/unit/fake_agents.h tests/unit/rng.h
tests_unit_test_failover_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_unit_test_failover_CFLAGS = $(UNIT_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
tests_unit_test_failover_LDADD = $(ADL_SPANK_TEST_LIBS) $(JSON_C_LIBS) $(MUNGE_LIBS)

# The job's record in Slurm's accounting.
check_PROGRAMS += tests/unit/test_record
TESTS += tests/unit/test_record tests/unit/report.sh
EXTRA_DIST += tests/unit/report.sh
tests_unit_test_record_SOURCES = tests/unit/test_record.c tests/unit/rng.h
tests_unit_test_record_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_record_CFLAGS = $(UNIT_CFLAGS) $(JSON_C_CFLAGS)
tests_unit_test_record_LDADD = libadl_record.la libadl_ctld.la $(JSON_C_LIBS) $(CMOCKA_LIBS)
if HAVE_LIBSLURM
check_PROGRAMS += tests/unit/test_recorder tests/unit/fake_slurmjob
TESTS += tests/unit/test_recorder
tests_unit_fake_slurmjob_SOURCES = tests/unit/fake_slurmjob.c
tests_unit_fake_slurmjob_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_recorder_SOURCES = tests/unit/test_recorder.c tests/unit/rng.h \
	tests/unit/fake_agents.c tests/unit/fake_agents.h \
	ctld/jobwriter.c ctld/memberuse.c ctld/spool.c
tests_unit_test_recorder_CPPFLAGS = $(UNIT_CPPFLAGS) -DADL_PKGLIBEXECDIR='"$(pkglibexecdir)"'
tests_unit_test_recorder_CFLAGS = $(UNIT_CFLAGS) $(LIBEVENT_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
tests_unit_test_recorder_LDADD = libadl_record.la libadl_ctld.la libadl_common.la \
	$(LIBEVENT_LIBS) $(JSON_C_LIBS) $(MUNGE_LIBS) $(CMOCKA_LIBS)
else
EXTRA_DIST += tests/unit/test_recorder.c tests/unit/fake_slurmjob.c
endif

# client and workload: the client library against an agent of the test's own; adltrain's parts, then
# the program
ADL_WORKLOAD_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/workload
ADL_WORKLOAD_TEST_CFLAGS = $(UNIT_CFLAGS) $(JPEG_CFLAGS)
ADL_WORKLOAD_TEST_LIBS = $(WORKLOAD_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/test_client tests/unit/test_adltrain_data \
	tests/unit/test_adltrain_pool tests/unit/test_adltrain_ring tests/unit/test_adltrain_store \
	tests/unit/test_adltrain_gpu
TESTS += tests/unit/test_client tests/unit/test_adltrain_data tests/unit/test_adltrain_pool \
	tests/unit/test_adltrain_ring tests/unit/test_adltrain_store tests/unit/test_adltrain_gpu \
	tests/unit/adltrain.sh
EXTRA_DIST += tests/unit/adltrain.sh
# adltrain's CUDA module, with a CUDA of the test's own below it
TESTS += tests/unit/adltrain_cuda.sh
EXTRA_DIST += tests/unit/adltrain_cuda.sh
if HAVE_CUDA
check_LTLIBRARIES += fake_cuda.la
fake_cuda_la_SOURCES = tests/unit/fake_cuda.c
fake_cuda_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(NCCL_CPPFLAGS)
fake_cuda_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -rpath $(abs_top_builddir)
else
EXTRA_DIST += tests/unit/fake_cuda.c
endif
tests_unit_test_client_SOURCES = tests/unit/test_client.c
tests_unit_test_client_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_test_client_CFLAGS = $(UNIT_CFLAGS)
tests_unit_test_client_LDADD = libadloader.la libadl_common.la $(CMOCKA_LIBS)
tests_unit_test_adltrain_data_SOURCES = tests/unit/test_adltrain_data.c
tests_unit_test_adltrain_data_CPPFLAGS = $(ADL_WORKLOAD_TEST_CPPFLAGS)
tests_unit_test_adltrain_data_CFLAGS = $(ADL_WORKLOAD_TEST_CFLAGS)
tests_unit_test_adltrain_data_LDADD = $(ADL_WORKLOAD_TEST_LIBS)
tests_unit_test_adltrain_pool_SOURCES = tests/unit/test_adltrain_pool.c
tests_unit_test_adltrain_pool_CPPFLAGS = $(ADL_WORKLOAD_TEST_CPPFLAGS)
tests_unit_test_adltrain_pool_CFLAGS = $(ADL_WORKLOAD_TEST_CFLAGS)
tests_unit_test_adltrain_pool_LDADD = $(ADL_WORKLOAD_TEST_LIBS)
tests_unit_test_adltrain_store_SOURCES = tests/unit/test_adltrain_store.c
tests_unit_test_adltrain_store_CPPFLAGS = $(ADL_WORKLOAD_TEST_CPPFLAGS)
tests_unit_test_adltrain_store_CFLAGS = $(ADL_WORKLOAD_TEST_CFLAGS)
tests_unit_test_adltrain_store_LDADD = $(ADL_WORKLOAD_TEST_LIBS)
tests_unit_test_adltrain_gpu_SOURCES = tests/unit/test_adltrain_gpu.c
tests_unit_test_adltrain_gpu_CPPFLAGS = $(ADL_WORKLOAD_TEST_CPPFLAGS)
tests_unit_test_adltrain_gpu_CFLAGS = $(ADL_WORKLOAD_TEST_CFLAGS)
tests_unit_test_adltrain_gpu_LDADD = $(ADL_WORKLOAD_TEST_LIBS)
tests_unit_test_adltrain_ring_SOURCES = tests/unit/test_adltrain_ring.c
tests_unit_test_adltrain_ring_CPPFLAGS = $(ADL_WORKLOAD_TEST_CPPFLAGS)
tests_unit_test_adltrain_ring_CFLAGS = $(ADL_WORKLOAD_TEST_CFLAGS)
tests_unit_test_adltrain_ring_LDADD = $(ADL_WORKLOAD_TEST_LIBS)
