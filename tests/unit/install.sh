#!/bin/sh
# make install and make uninstall below a DESTDIR: no .la file is left, a program finds libadloader
# through pkg-config, and what was installed goes again.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/adl-install.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
root=$work/root

# build TARGET: a make of its own, with nothing from the one that runs this test
build()
{
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$ADL_BUILDDIR" "$1" DESTDIR="$root" > "$work/$1.log" 2>&1
    status=$?
    result $status "make $1"
    [ $status -eq 0 ] || tail -n 20 "$work/$1.log" | sed 's/^/# /'
}

# setting NAME: as the Makefile has it, with all variables in it replaced
setting()
{
    printf 'adl-setting:\n\t@echo "$(%s)"\n' "$1" |
        env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$ADL_BUILDDIR" --no-print-directory \
            -f Makefile -f - adl-setting
}

# files PATTERN: installed ones of that name
files()
{
    find "$root" ! -type d -name "$1" | sort
}

build install
is "$(files '*.la')" "" "no .la file is installed"
libdir=$(setting libdir)
plugindir=$(setting plugindir)
[ -f "$root$plugindir/spank_adloader.so" ]
result $? "the plugin is"
[ -e "$root$libdir/libadloader.so" ]
result $? "libadloader is"
[ -f "$root$libdir/pkgconfig/libadloader.pc" ]
result $? "libadloader.pc is"
unlike "$(cat "$root$libdir/pkgconfig/libadloader.pc")" '@[A-Za-z_]+@' "nothing in it is left unfilled"

# a program of somebody else, with nothing but what pkg-config says
cat > "$work/program.c" << 'END'
#include <adloader.h>
#include <stdio.h>
int main(void)
{
    adloader_t *handle = adloader_open();
    printf("%d %u\n", adloader_connected(handle), adloader_workers(handle, 7));
    adloader_close(handle);
    return 0;
}
END
if command -v pkg-config > /dev/null; then
    # asks what is installed below DESTDIR, and nothing of this machine; /usr is no place of its own there
    pc()
    {
        PKG_CONFIG_LIBDIR=$root$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH='' \
            PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config "$@" libadloader
    }
    is "$(pc --modversion)" "$(setting PACKAGE_VERSION)" "pkg-config knows libadloader's version"
    flags=$(pc --cflags --libs)
    cd "$work" || exit 99
    # shellcheck disable=SC2046,SC2086 # words
    $(setting CC) $(setting CFLAGS) program.c -o program $flags > "$work/program.log" 2>&1
    result $? "a program compiles and links with what pkg-config says: $(printf '%s' "$flags" | sed "s,$root,DESTDIR,g")"
    sed 's/^/# /' "$work/program.log"
    is "$(env -u ADLOADER_SOCKET -u ADLOADER_WORKERS LD_LIBRARY_PATH="$root$libdir" ./program)" "0 7" "it runs with the installed library"
    cd "$ADL_BUILDDIR" || exit 99
else
    skip "a program compiles and links through pkg-config" "no pkg-config"
fi

build uninstall
is "$(files '*')" "" "make uninstall leaves nothing"
done_testing
