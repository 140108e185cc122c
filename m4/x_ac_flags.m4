# Compiler flags: warnings, hardening, threads. Each flag is tried, so that gcc and clang of any age serve.
AC_DEFUN([X_AC_TRY_CFLAG], [
  x_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_MSG_CHECKING([whether the compiler takes $1])
  AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes]); $2="${$2} $1"], [AC_MSG_RESULT([no])])
  CFLAGS=$x_saved_cflags
])

AC_DEFUN([X_AC_WARNINGS], [
  WARN_CFLAGS=
  X_AC_TRY_CFLAG([-Wall], [WARN_CFLAGS])
  X_AC_TRY_CFLAG([-Wextra], [WARN_CFLAGS])
  X_AC_TRY_CFLAG([-Wshadow], [WARN_CFLAGS])
  X_AC_TRY_CFLAG([-Wconversion], [WARN_CFLAGS])
  X_AC_TRY_CFLAG([-Wvla], [WARN_CFLAGS])
  X_AC_TRY_CFLAG([-Wstrict-prototypes], [WARN_CFLAGS])
  X_AC_TRY_CFLAG([-Wmissing-prototypes], [WARN_CFLAGS])
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [make warnings errors])],
    [AS_IF([test "x$enableval" = xyes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])])
  AC_SUBST([WARN_CFLAGS])
])

AC_DEFUN([X_AC_HARDENING], [
  HARDEN_CFLAGS= HARDEN_LDFLAGS=
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers], [AddressSanitizer and UndefinedBehaviorSanitizer in programs and tests])],
    [], [enable_sanitizers=no])
  AS_IF([test "x$enable_sanitizers" = xyes], [
    HARDEN_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    HARDEN_LDFLAGS="-fsanitize=address,undefined"
  ], [
    X_AC_TRY_CFLAG([-fstack-protector-strong], [HARDEN_CFLAGS])
    X_AC_TRY_CFLAG([-fstack-clash-protection], [HARDEN_CFLAGS])
    X_AC_TRY_CFLAG([-fcf-protection], [HARDEN_CFLAGS])
    AS_CASE([" $CFLAGS $CPPFLAGS "], [*_FORTIFY_SOURCE*], [],
      [*" -O0 "*], [], [HARDEN_CFLAGS="$HARDEN_CFLAGS -D_FORTIFY_SOURCE=2"])
    HARDEN_LDFLAGS="-Wl,-z,relro -Wl,-z,now"
  ])
  AC_SUBST([HARDEN_CFLAGS])
  AC_SUBST([HARDEN_LDFLAGS])
])

AC_DEFUN([AX_PTHREAD_FLAGS], [
  PTHREAD_FLAGS=-pthread
  AC_SUBST([PTHREAD_FLAGS])
])
