# client/: libadloader, for applications. What it exports is named by the regular expression; its
# other symbols, and those of libadl_common, stay inside.
lib_LTLIBRARIES += libadloader.la
include_HEADERS += client/adloader.h
libadloader_la_SOURCES = client/adloader.c client/adloader.h client/agent_link.c client/agent_link.h
libadloader_la_CFLAGS = $(AM_CFLAGS)
libadloader_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^adloader_'
libadloader_la_LIBADD = libadl_common.la

# The same from Python: one file, in a folder that PYTHONPATH may name.
adlpythondir = $(pkgdatadir)/python
dist_adlpython_DATA = client/adloader.py
