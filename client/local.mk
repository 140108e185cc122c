# client/: libadloader, for applications. What it exports is named by the regular expression; its
# other symbols, and those of libadl_common, stay inside.
lib_LTLIBRARIES += libadloader.la
include_HEADERS += client/adloader.h
libadloader_la_SOURCES = client/adloader.c client/adloader.h client/agent_link.c client/agent_link.h
libadloader_la_CFLAGS = $(AM_CFLAGS)
libadloader_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(ADL_CURRENT):$(ADL_REVISION):$(ADL_AGE) \
	-export-symbols-regex '^adloader_'
libadloader_la_LIBADD = libadl_common.la
# as libtool counts the versions of an interface, and the files that it makes of them
ADL_CURRENT = 0
ADL_REVISION = 0
ADL_AGE = 0
ADL_SONAME = libadloader.so.$$(($(ADL_CURRENT) - $(ADL_AGE)))
LIBADLOADER_FILES = libadloader.a libadloader.so $(ADL_SONAME) $(ADL_SONAME).$(ADL_AGE).$(ADL_REVISION)
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = client/libadloader.pc

# The same from Python: one file, in a folder that PYTHONPATH may name.
adlpythondir = $(pkgdatadir)/python
dist_adlpython_DATA = client/adloader.py
