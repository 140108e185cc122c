# cli/: the adloader tool, one file a subcommand; cli.h says how to add one.
bin_PROGRAMS += adloader
adloader_SOURCES = \
	cli/cli.h cli/main.c \
	cli/client.c cli/client.h \
	cli/doc.c cli/doc.h \
	cli/suggest.c cli/suggest.h \
	cli/table.c cli/table.h \
	cli/words.c cli/words.h \
	cli/status.c cli/status.h \
	cli/explain.c \
	cli/top.c \
	cli/topology.c
adloader_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/cli
adloader_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
adloader_LDADD = libadl_alloc.la libadl_predictor.la libadl_conf.la libadl_common.la $(JSON_C_LIBS) $(MUNGE_LIBS)
