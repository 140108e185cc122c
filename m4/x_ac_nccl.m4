# NCCL, optional, needs CUDA: gradient exchange of adltrain and its calibration.
#   --with-nccl[=PREFIX], --without-nccl
AC_DEFUN([X_AC_NCCL], [
  AC_ARG_WITH([nccl],
    [AS_HELP_STRING([--with-nccl@<:@=PREFIX@:>@], [use NCCL @<:@auto: where CUDA is, /usr@:>@])],
    [], [with_nccl=auto])
  have_nccl=no
  NCCL_CPPFLAGS= NCCL_LIBS=
  nccl_shown="no (switched off)"
  AS_IF([test "x$with_nccl" != xno && test "x$have_cuda" = xno], [nccl_shown="no (needs CUDA)"])
  AS_IF([test "x$with_nccl" != xno && test "x$have_cuda" = xyes], [
    AS_CASE([$with_nccl], [yes|auto], [NCCL_LIBS="-lnccl"],
      [NCCL_CPPFLAGS="-isystem $with_nccl/include" NCCL_LIBS="-L$with_nccl/lib -Wl,-rpath,$with_nccl/lib -lnccl"])
    x_saved_cppflags=$CPPFLAGS x_saved_libs=$LIBS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS $NCCL_CPPFLAGS" LIBS="$NCCL_LIBS $CUDA_LIBS $LIBS"
    AC_MSG_CHECKING([that an NCCL program links])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]], [[int v; return ncclGetVersion(&v) != 0;]])],
      [AC_MSG_RESULT([yes])
       have_nccl=yes nccl_shown=yes
       AC_DEFINE([HAVE_NCCL], [1], [NCCL is there])],
      [AC_MSG_RESULT([no])
       NCCL_CPPFLAGS= NCCL_LIBS= nccl_shown="no (nccl.h or libnccl not found)"])
    CPPFLAGS=$x_saved_cppflags LIBS=$x_saved_libs
  ])
  AS_IF([test "x$have_nccl" = xno && test "x$with_nccl" != xauto && test "x$with_nccl" != xno],
    [AC_MSG_ERROR([--with-nccl was asked for, but NCCL is not to be had ($nccl_shown)])])
  AC_SUBST([NCCL_CPPFLAGS])
  AC_SUBST([NCCL_LIBS])
  AM_CONDITIONAL([HAVE_NCCL], [test "x$have_nccl" = xyes])
])
