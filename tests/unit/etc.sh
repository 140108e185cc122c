#!/bin/sh
# The examples in etc/: what they state is accepted, is the default, and leaves no key out.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

table=$ADL_BUILDDIR/conf_table
example=$ADL_BUILDDIR/etc/adloader.conf.example
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-etc.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT

"$table" check "$example"
result $? "adloader.conf.example is accepted as it is"
: > "$work/empty"
is "$("$table" print "$example")" "$("$table" print "$work/empty")" "and changes nothing"

# every line that is #Key=... set to work
sed -E 's/^#([A-Z][A-Za-z]*=)/\1/' "$example" > "$work/all"
"$table" check "$work/all"
result $? "it is accepted with all comments removed"
sed '/^NodeName=/d' "$work/all" > "$work/global"
is "$("$table" print "$work/global")" "$("$table" print "$work/empty")" "and then states the defaults"
"$table" keys > "$work/keys"
tab=$(printf '\t')
while IFS=$tab read -r key _; do
    grep -Eq "(^|^NodeName=.* )$key=" "$work/all"
    result $? "it has $key"
done < "$work/keys"
while IFS=$tab read -r key _ meaning _; do
    case $(grep -ciF -- "$meaning" "$example") in
    0) result 1 "it says what $key means: $meaning" ;;
    *) result 0 "it says what $key means" ;;
    esac
done < "$work/keys"

# the unit: an independent reader, where there is one
unit=$ADL_BUILDDIR/etc/adloaderctld.service
like "$(cat "$unit")" '^Type=notify$' "the unit waits for readiness"
unlike "$(cat "$unit" "$ADL_BUILDDIR/etc/tmpfiles.d/adloader.conf" "$ADL_BUILDDIR/etc/plugstack.conf.example")" \
    '@[a-z]+@' "no template is left unfilled"
if command -v systemd-analyze > /dev/null; then
    # the program is not installed yet: let it check another one's path
    sed 's,^ExecStart=[^ ]*,ExecStart=/bin/true,' "$unit" > "$work/adloaderctld.service"
    complaints=$(systemd-analyze verify --man=no "$work/adloaderctld.service" 2>&1 |
        grep -F adloaderctld.service)
    is "$complaints" "" "systemd-analyze verify has no complaint"
else
    skip "systemd-analyze verify has no complaint" "no systemd-analyze"
fi
done_testing
