# common/: floor 0. libadl_common is all that the plugin links; libadl_conf adds the configuration file.
# These libraries do not contain each other: a program lists all that it needs, users first.
noinst_LTLIBRARIES += libadl_common.la libadl_conf.la libadl_file.la
libadl_common_la_SOURCES = \
	common/clock.c common/clock.h \
	common/cpus.c common/cpus.h \
	common/hints.c common/hints.h \
	common/log.c common/log.h \
	common/msg.c common/msg.h \
	common/netaddr.c common/netaddr.h \
	common/wire.c common/wire.h
libadl_common_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libadl_conf_la_SOURCES = \
	common/conf.c common/conf.h \
	common/conf_keys.c common/conf_keys.h \
	common/hostlist.c
libadl_conf_la_CFLAGS = $(AM_CFLAGS) $(INIH_CFLAGS)
libadl_conf_la_LIBADD = $(INIH_LIBS)
# Files that are written as a whole; apart, since the plugin has no use for it.
libadl_file_la_SOURCES = common/replacefile.c common/replacefile.h
libadl_file_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
