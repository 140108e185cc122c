# ctld/: the controller. Its pure parts (allocation, placement, topology) are a library that the
# tool and the tests share.
noinst_LTLIBRARIES += libadl_alloc.la
libadl_alloc_la_SOURCES = \
	ctld/alloc.c ctld/alloc.h ctld/alloc_internal.h \
	ctld/alloc_even.c ctld/alloc_jobs.c ctld/alloc_levels.c ctld/alloc_lowest.c ctld/alloc_node.c \
	ctld/place.c ctld/place.h \
	ctld/topo.c ctld/topo.h ctld/topo_internal.h ctld/topo_text.c
libadl_alloc_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
libadl_alloc_la_LIBADD = $(HWLOC_LIBS)

sbin_PROGRAMS += adloaderctld
adloaderctld_SOURCES = ctld/main.c
adloaderctld_CPPFLAGS = $(AM_CPPFLAGS)
adloaderctld_CFLAGS = $(AM_CFLAGS) $(LIBEVENT_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
adloaderctld_LDADD = libadl_alloc.la libadl_predictor.la libadl_conf.la libadl_common.la \
	$(LIBEVENT_LIBS) $(JSON_C_LIBS) $(MUNGE_LIBS)
