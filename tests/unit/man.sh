#!/bin/sh
# The manual pages: mandoc has no complaint, every option of --help and every key of the configuration
# is explained, and what they explain exists.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

man=$ADL_SRCDIR/man
if ! command -v mandoc > /dev/null; then
    skip "manual pages" "no mandoc to read them with"
    done_testing
    exit
fi

# text PAGE: as plain text, no line breaks inside of words
text()
{
    mandoc -Tascii -Owidth=900 "$man/$1" | sed "s/.$(printf "\\b")//g" | tr -s ' \t' ' '
}

for page in adloader.1 adloader-allocate.5 adloader-trace.5 adltrain.1 adloader.conf.5 adloader.7 adloaderctld.8 spank_adloader.8; do
    # cross references to pages of Slurm and munge need not be installed here
    is "$(mandoc -Tlint -Wwarning "$man/$page" 2>&1)" "" "$page: mandoc has no complaint"
done

# options TEXT: the long options in a --help, one a line
options()
{
    printf '%s\n' "$1" | grep -Eo -e '(^|[ ,|[(])--[a-z][a-z0-9-]*' | sed 's/^[^-]*//' | sort -u
}

# compare PROGRAM-NAME PAGE HELP: both ways
compare()
{
    documented=$(options "$(text "$2")")
    for option in $(options "$3"); do
        printf '%s\n' "$documented" | grep -qxe "$option"
        result $? "$2 explains $1 $option"
    done
}

# of the page's options, which ones does no --help have? --adloader is Slurm's.
surplus()
{
    for option in $(options "$(text "$2")" | grep -vxe --adloader); do
        printf '%s\n' "$3" | grep -qe "$option\\b" || echo "$option"
    done
}

adloader=$ADL_BUILDDIR/adloader
all=$("$adloader" --help)
is $? 0 "adloader --help"
compare adloader adloader.1 "$all"
for sub in $(printf '%s\n' "$all" | sed -n '/^Subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    help=$("$adloader" "$sub" --help)
    is $? 0 "adloader $sub --help"
    like "$(text adloader.1)" "^ *adloader $sub *$" "adloader.1 has a section for $sub"
    compare "adloader $sub" adloader.1 "$help"
    all="$all
$help"
done
is "$(surplus adloader adloader.1 "$all")" "" "adloader.1 explains no option that is not there"

for program in adltrain:adltrain.1 adloaderctld:adloaderctld.8; do
    name=${program%%:*}
    page=${program#*:}
    help=$("$ADL_BUILDDIR/$name" --help)
    is $? 0 "$name --help"
    compare "$name" "$page" "$help"
    is "$(surplus "$name" "$page" "$help")" "" "$page explains no option that is not there"
done

# the verdicts that the tool explains
words=$(sed -n '/verdicts\[\]/,/^};/s/^    {"\([a-z-]*\)",.*/\1/p' "$ADL_SRCDIR/cli/words.c")
like "$words" "gpu-bound" "the verdicts are found"
verdicts=$(text adloader.7 | sed -n '/^VERDICTS/,/^ENVIRONMENT/p')
for word in $words; do
    like "$verdicts" "^ *$word( |\$)" "adloader.7 explains the verdict $word"
done

# the configuration: every key, with its default and bounds where they are numbers or times
conf=$(text adloader.conf.5)
tab=$(printf '\t')
"$ADL_BUILDDIR/conf_table" keys > /dev/null
is $? 0 "the table of keys"
"$ADL_BUILDDIR/conf_table" keys | {
    tap_count=0
    tap_failed=0
    # a subshell: count on its own, and report as one
    while IFS=$tab read -r key preset _ allowed; do
        entry=$(printf '%s\n' "$conf" | awk -v key="$key" '
            !found && $1 == key { found = 1 }
            found && NF == 0 { exit }
            found { print }')
        [ -n "$entry" ] || { echo "$key: not explained"; continue; }
        case $key:$preset in
        *:- | *:'""' | ControllerSocket:*) ;;
        *) printf '%s\n' "$entry" | grep -qF -e "$preset" || echo "$key: default $preset not said" ;;
        esac
        bounds=$(printf '%s\n' "$allowed" | sed -En 's/.*from ([0-9.a-z]+) to ([0-9.a-z]+).*/\1 to \2/p')
        [ -z "$bounds" ] || [ "$preset" = - ] || printf '%s\n' "$entry" | grep -qF -e "$bounds" ||
            echo "$key: bounds $bounds not said"
    done
} > "${TMPDIR:-/tmp}/adl-man.$$"
complaints=$(cat "${TMPDIR:-/tmp}/adl-man.$$")
rm -f "${TMPDIR:-/tmp}/adl-man.$$"
is "$complaints" "" "adloader.conf.5 explains every key with its default and bounds"
done_testing
