# munge: credentials over TCP. Has munge.pc on Debian 13; Debian 12's libmunge-dev has it too.
AC_DEFUN([X_AC_MUNGE], [
  PKG_CHECK_MODULES([MUNGE], [munge], [munge_shown=yes],
    [AC_CHECK_HEADER([munge.h], [],
       [AC_MSG_ERROR([munge.h was not found: install libmunge-dev (munge-devel)])])
     AC_CHECK_LIB([munge], [munge_decode], [MUNGE_LIBS=-lmunge],
       [AC_MSG_ERROR([libmunge was not found: install libmunge-dev (munge-devel)])])
     MUNGE_CFLAGS=
     AC_SUBST([MUNGE_CFLAGS])
     AC_SUBST([MUNGE_LIBS])
     munge_shown=yes])
])
