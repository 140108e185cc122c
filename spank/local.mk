# spank/: the plugin. It exports SPANK's symbols only and stays mapped (nodelete), so that a thread
# that is late to end never runs in unmapped memory. libadl_spank is all of it that does not know
# SPANK, which the tests use too.
noinst_LTLIBRARIES += libadl_spank.la
libadl_spank_la_SOURCES = \
	spank/agent.c spank/agent.h spank/agent_place.c spank/agent_state.h spank/agent_talk.c \
	spank/args.c spank/args.h \
	spank/bind.c spank/bind.h \
	spank/classify.c spank/classify.h \
	spank/clients.c spank/clients.h \
	spank/cpubind.c spank/cpubind.h \
	spank/cpulock.c spank/cpulock.h \
	spank/cpuset.c spank/cpuset.h \
	spank/credential.c spank/credential.h \
	spank/executor.c spank/executor.h \
	spank/exported.c spank/exported.h \
	spank/launch.c spank/launch.h \
	spank/link.c spank/link.h \
	spank/loan.c spank/loan.h \
	spank/nodedir.c spank/nodedir.h \
	spank/nvml.c spank/nvml.h \
	spank/options.c spank/options.h \
	spank/own.c spank/own.h \
	spank/procfs.c spank/procfs.h \
	spank/quota.c spank/quota.h \
	spank/sample.c spank/sample.h \
	spank/stepgroup.c spank/stepgroup.h \
	spank/steprecord.c spank/steprecord.h \
	spank/tasks.c spank/tasks.h \
	spank/thread.c spank/thread.h \
	spank/threadmasks.c spank/threadmasks.h \
	spank/worktime.c spank/worktime.h
libadl_spank_la_CFLAGS = $(AM_CFLAGS) $(MUNGE_CFLAGS) -fvisibility=hidden

plugin_LTLIBRARIES += spank_adloader.la
spank_adloader_la_SOURCES = \
	spank/contained.h \
	spank/plugin.c \
	spank/remote.c spank/remote.h \
	spank/submit.c spank/submit.h \
	spank/topology.c spank/topology.h
spank_adloader_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
spank_adloader_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
spank_adloader_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
	-Wl,--version-script=$(top_srcdir)/spank/spank_adloader.map
spank_adloader_la_LIBADD = libadl_spank.la libadl_common.la $(MUNGE_LIBS)
EXTRA_spank_adloader_la_DEPENDENCIES = spank/spank_adloader.map
EXTRA_DIST += spank/spank_adloader.map

# how fast an agent binds, and what it costs: built by make check, run by hand
if HAVE_CMOCKA
check_PROGRAMS += tests/bench/agent-bind
tests_bench_agent_bind_SOURCES = tests/bench/agent-bind.c
tests_bench_agent_bind_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/spank
tests_bench_agent_bind_LDADD = libadl_spank.la libadl_common.la $(MUNGE_LIBS)
endif
