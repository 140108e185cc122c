# spank/: the plugin. It exports SPANK's symbols only and stays mapped (nodelete), so that a thread
# that is late to end never runs in unmapped memory.
plugin_LTLIBRARIES += spank_adloader.la
spank_adloader_la_SOURCES = spank/plugin.c
spank_adloader_la_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CPPFLAGS)
spank_adloader_la_CFLAGS = $(AM_CFLAGS) $(MUNGE_CFLAGS) -fvisibility=hidden
spank_adloader_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,-z,nodelete \
	-Wl,--version-script=$(top_srcdir)/spank/spank_adloader.map
spank_adloader_la_LIBADD = libadl_common.la $(MUNGE_LIBS)
EXTRA_spank_adloader_la_DEPENDENCIES = spank/spank_adloader.map
EXTRA_DIST += spank/spank_adloader.map
