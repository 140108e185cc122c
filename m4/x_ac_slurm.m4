# Slurm's headers and version. Debian ships no slurm.pc, so the headers are looked for themselves.
#   --with-slurm=PREFIX      where include/slurm lies (default: the compiler's own path)
#   --with-plugindir=DIR     where the plugin is installed
AC_DEFUN([X_AC_SLURM], [
  AC_ARG_WITH([slurm],
    [AS_HELP_STRING([--with-slurm=PREFIX], [where Slurm's include/slurm is])],
    [SLURM_CPPFLAGS="-I$withval/include"], [SLURM_CPPFLAGS=])
  AC_SUBST([SLURM_CPPFLAGS])
  x_saved_cppflags=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $SLURM_CPPFLAGS"
  AC_CHECK_HEADERS([slurm/slurm_version.h slurm/spank.h], [],
    [AC_MSG_ERROR([Slurm's headers were not found: install libslurm-dev (slurm-devel), or use --with-slurm=PREFIX])],
    [#include <stdint.h>
     #include <sys/types.h>])
  AC_COMPUTE_INT([slurm_major], [(SLURM_VERSION_NUMBER >> 16) & 0xff], [#include <slurm/slurm_version.h>])
  AC_COMPUTE_INT([slurm_minor], [(SLURM_VERSION_NUMBER >> 8) & 0xff], [#include <slurm/slurm_version.h>])
  AC_COMPUTE_INT([slurm_micro], [SLURM_VERSION_NUMBER & 0xff], [#include <slurm/slurm_version.h>])
  # libslurm is needed by the helper that writes jobs' records alone
  x_saved_libs=$LIBS
  x_saved_ldflags=$LDFLAGS
  AS_IF([test "x$with_slurm" != x && test "x$with_slurm" != xyes],
    [SLURM_LIBS="-L$with_slurm/lib"], [SLURM_LIBS=])
  LDFLAGS="$LDFLAGS $SLURM_LIBS"
  have_libslurm=yes
  AC_CHECK_LIB([slurm], [slurm_update_job], [:], [have_libslurm=no])
  AC_CHECK_LIB([slurm], [slurmdb_job_modify], [SLURM_LIBS="$SLURM_LIBS -lslurm"], [have_libslurm=no])
  LIBS=$x_saved_libs
  LDFLAGS=$x_saved_ldflags
  AC_SUBST([SLURM_LIBS])
  AM_CONDITIONAL([HAVE_LIBSLURM], [test "x$have_libslurm" = xyes])
  AS_IF([test "x$have_libslurm" = xyes],
    [AC_DEFINE([HAVE_LIBSLURM], [1], [the helper that writes jobs' records is built])
     libslurm_shown="records of jobs can be written"],
    [libslurm_shown="no: jobs get no record for sacct (needs libslurm, and --with-slurm if it is elsewhere)"])
  CPPFLAGS=$x_saved_cppflags
  # adloader report runs it
  AC_PATH_PROG([SACCT], [sacct], [], [$PATH:/usr/bin:/usr/local/bin])
  AS_IF([test "x$SACCT" != x], [AC_DEFINE_UNQUOTED([ADL_SACCT], ["$SACCT"], [where sacct was found])])
  # Slurm packs its numbers so that 0x160508 is 22.05.8
  slurm_version=$(printf '%d.%02d.%d' "$slurm_major" "$slurm_minor" "$slurm_micro")
  AC_MSG_CHECKING([for the Slurm version that the plugin will match])
  AC_MSG_RESULT([$slurm_version])
  AC_DEFINE_UNQUOTED([SLURM_VERSION_TEXT], ["$slurm_version"], [the Slurm that the plugin is built for])
  AC_SUBST([slurm_version])

  # Debian's Slurm keeps its plugins in slurm-wlm, others in slurm; below our own libdir either way.
  x_plugin_name=slurm
  for x_dir in /usr/lib/*/slurm-wlm; do
    test -d "$x_dir" && x_plugin_name=slurm-wlm
  done
  AC_ARG_WITH([plugindir],
    [AS_HELP_STRING([--with-plugindir=DIR], [where the SPANK plugin goes @<:@LIBDIR/slurm or LIBDIR/slurm-wlm@:>@])],
    [plugindir=$withval; plugindir_shown=$withval],
    [plugindir='${libdir}'/$x_plugin_name; plugindir_shown="LIBDIR/$x_plugin_name"])
  AC_SUBST([plugindir])
])
