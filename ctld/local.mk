# ctld/: the controller. Its pure parts (allocation, placement, topology) are a library that the
# tool and the tests share.
noinst_LTLIBRARIES += libadl_alloc.la
libadl_alloc_la_SOURCES = \
	ctld/alloc.c ctld/alloc.h ctld/alloc_internal.h \
	ctld/alloc_back.c ctld/alloc_check.c ctld/alloc_fill.c ctld/alloc_floors.c ctld/alloc_graph.c \
	ctld/alloc_names.c ctld/alloc_worth.c \
	ctld/alloc_even.c ctld/alloc_levels.c ctld/alloc_lowest.c ctld/alloc_sum.c ctld/alloc_tied.c \
	ctld/alloc_choice.c ctld/alloc_choice.h ctld/alloc_row.c ctld/alloc_branch.c ctld/alloc_dual.c \
	ctld/alloc_lp.c ctld/alloc_lp.h \
	ctld/place.c ctld/place.h \
	ctld/topo.c ctld/topo.h ctld/topo_child.c ctld/topo_internal.h ctld/topo_text.c
libadl_alloc_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
libadl_alloc_la_LIBADD = $(HWLOC_LIBS)

# Pure parts of the controller that tests and tools use without it.
noinst_LTLIBRARIES += libadl_ctld.la
libadl_ctld_la_SOURCES = ctld/claims.c ctld/claims.h ctld/reconcile.c ctld/reconcile.h \
	ctld/curvecap.c ctld/curvecap.h ctld/verdict.c ctld/verdict.h \
	ctld/warnonce.c ctld/warnonce.h

# The job's record in Slurm's accounting: for the controller and the tool.
noinst_LTLIBRARIES += libadl_record.la
libadl_record_la_SOURCES = ctld/record.c ctld/record.h
libadl_record_la_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS)
libadl_record_la_LIBADD = $(JSON_C_LIBS)

# The controller's helper: alone in it is libslurm, which may end or stop its process.
if HAVE_LIBSLURM
pkglibexec_PROGRAMS += adloader-slurmjob
adloader_slurmjob_SOURCES = ctld/slurmjob_main.c ctld/slurmjob.c ctld/slurmjob.h \
	ctld/slurm_compat.h ctld/record.h
adloader_slurmjob_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
adloader_slurmjob_LDADD = $(SLURM_LIBS)
endif

sbin_PROGRAMS += adloaderctld
adloaderctld_SOURCES = ctld/main.c ctld/ctld.h \
	ctld/jobwriter.c ctld/jobwriter.h ctld/slurmjob.h \
	ctld/memberuse.c ctld/memberuse.h \
	ctld/recorder.c ctld/recorder.h ctld/spool.c ctld/spool.h \
	ctld/agent.c ctld/agent.h \
	ctld/answer.c ctld/answer.h \
	ctld/auth.c ctld/auth.h \
	ctld/confcheck.c ctld/confcheck.h \
	ctld/control.c ctld/control.h \
	ctld/daemon.c ctld/daemon.h \
	ctld/decide.c ctld/decide.h \
	ctld/demand.c ctld/demand.h \
	ctld/hostaddr.c ctld/hostaddr.h \
	ctld/loans.c ctld/loans.h \
	ctld/metrics.c ctld/metrics.h \
	ctld/query.c ctld/query.h \
	ctld/registry.c ctld/registry.h \
	ctld/reload.c ctld/reload.h \
	ctld/role.c ctld/role.h \
	ctld/server.c ctld/server.h \
	ctld/session.c ctld/session.h \
	ctld/topostore.c ctld/topostore.h \
	ctld/offload.c ctld/offload.h
adloaderctld_CPPFLAGS = $(AM_CPPFLAGS) -DADL_PKGLIBEXECDIR='"$(pkglibexecdir)"'
adloaderctld_CFLAGS = $(AM_CFLAGS) $(LIBEVENT_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
adloaderctld_LDADD = libadl_record.la libadl_ctld.la libadl_alloc.la libadl_predictor.la libadl_conf.la libadl_common.la \
	$(LIBEVENT_LIBS) $(JSON_C_LIBS) $(MUNGE_LIBS)
