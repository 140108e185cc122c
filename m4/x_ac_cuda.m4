# CUDA runtime and cuBLAS, optional: calibration and adltrain's GPU step. nvcc is not needed, as
# our GPU work is library calls. Found when headers and libraries are there; no device is needed.
#   --with-cuda[=PREFIX], --without-cuda
AC_DEFUN([X_AC_CUDA], [
  AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda@<:@=PREFIX@:>@], [use CUDA @<:@auto: /usr/local/cuda, /usr@:>@])],
    [], [with_cuda=auto])
  have_cuda=no
  CUDA_CPPFLAGS= CUDA_LIBS=
  cuda_shown="no (switched off)"
  AS_IF([test "x$with_cuda" != xno], [
    AS_CASE([$with_cuda], [yes|auto], [x_cuda_dirs="/usr/local/cuda /usr"], [x_cuda_dirs=$with_cuda])
    cuda_shown="no (cuda_runtime.h and cublas_v2.h not found): GPU parts say so at run time"
    for x_dir in $x_cuda_dirs; do
      AS_IF([test "x$have_cuda" = xno && test -e "$x_dir/include/cuda_runtime.h" && test -e "$x_dir/include/cublas_v2.h"], [
        for x_lib in "$x_dir/lib64" "$x_dir/lib/x86_64-linux-gnu" "$x_dir/targets/x86_64-linux/lib" "$x_dir/lib"; do
          AS_IF([test "x$have_cuda" = xno && test -e "$x_lib/libcudart.so" && test -e "$x_lib/libcublas.so"], [
            have_cuda=yes
            CUDA_CPPFLAGS="-isystem $x_dir/include"
            CUDA_LIBS="-L$x_lib -Wl,-rpath,$x_lib -lcublas -lcudart"
            cuda_shown="$x_dir"
          ])
        done
      ])
    done
    AS_IF([test "x$have_cuda" = xyes], [
      x_saved_cppflags=$CPPFLAGS x_saved_libs=$LIBS
      CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS" LIBS="$CUDA_LIBS $LIBS"
      AC_MSG_CHECKING([that a CUDA program links])
      AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda_runtime.h>]], [[int n; return cudaGetDeviceCount(&n) != 0;]])],
        [AC_MSG_RESULT([yes])
         AC_DEFINE([HAVE_CUDA], [1], [CUDA runtime and cuBLAS are there])],
        [AC_MSG_RESULT([no])
         have_cuda=no CUDA_CPPFLAGS= CUDA_LIBS= cuda_shown="no (found but does not link, see config.log)"])
      CPPFLAGS=$x_saved_cppflags LIBS=$x_saved_libs
    ])
    AS_IF([test "x$have_cuda" = xno && test "x$with_cuda" != xauto],
      [AC_MSG_ERROR([--with-cuda was asked for, but CUDA was not found or does not link])])
  ])
  AC_SUBST([CUDA_CPPFLAGS])
  AC_SUBST([CUDA_LIBS])
  AM_CONDITIONAL([HAVE_CUDA], [test "x$have_cuda" = xyes])
])
