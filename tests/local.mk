# tests/: unit (cmocka, TAP), slurm (a private cluster, run by ./check), fuzz, bench.
EXTRA_DIST += tests/cmocka-tap.sh tests/vm tests/matrix tests/tables
UNIT_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/ctld
UNIT_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
if HAVE_CMOCKA
include tests/unit/local.mk
endif
include tests/fuzz/local.mk
include tests/bench/local.mk
