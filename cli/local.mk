# cli/: the adloader tool, one file a subcommand.
bin_PROGRAMS += adloader
adloader_SOURCES = cli/main.c
adloader_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld
adloader_CFLAGS = $(AM_CFLAGS) $(JSON_C_CFLAGS) $(MUNGE_CFLAGS)
adloader_LDADD = libadl_alloc.la libadl_predictor.la libadl_conf.la libadl_common.la $(JSON_C_LIBS) $(MUNGE_LIBS)
