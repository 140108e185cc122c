# client/: libadloader, for applications.
lib_LTLIBRARIES += libadloader.la
include_HEADERS += client/adloader.h
libadloader_la_SOURCES = client/adloader.c client/adloader.h
libadloader_la_CFLAGS = $(AM_CFLAGS) -fvisibility=hidden
libadloader_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^adloader_'
libadloader_la_LIBADD = libadl_common.la
