# cli/: the adloader tool, one file a subcommand; cli.h says how to add one. All but main() is a
# library, for the tests.
noinst_LTLIBRARIES += libadl_cli.la
libadl_cli_la_SOURCES = \
	cli/cli.c cli/cli.h \
	cli/client.c cli/client.h \
	cli/doc.c cli/doc.h \
	cli/suggest.c cli/suggest.h \
	cli/table.c cli/table.h \
	cli/words.c cli/words.h \
	cli/status.c cli/status.h \
	cli/explain.c cli/explain.h \
	cli/top.c \
	cli/topology.c
libadl_cli_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld -I$(top_srcdir)/cli
libadl_cli_la_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
ADL_CLI_LIBS = libadl_cli.la libadl_alloc.la libadl_predictor.la libadl_conf.la libadl_common.la \
	$(JSON_C_LIBS) $(MUNGE_LIBS)

bin_PROGRAMS += adloader
adloader_SOURCES = cli/main.c
adloader_CPPFLAGS = $(libadl_cli_la_CPPFLAGS)
adloader_CFLAGS = $(libadl_cli_la_CFLAGS)
adloader_LDADD = $(ADL_CLI_LIBS)
