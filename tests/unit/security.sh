#!/bin/sh
# docs/security.md: each claim names tests, and the tests that it names are there.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

doc=$ADL_SRCDIR/docs/security.md
claims=$(grep -c '^[0-9]*\. ' "$doc")
is "$(grep '^[0-9]*\. ' "$doc" | cut -d. -f1 | tr '\n' ' ')" "$(seq "$claims" | tr '\n' ' ')" "the claims are numbered in order"

# A case is there if its file has a function of that name that it also runs, or a description of those words.
has_case()
{
    case $1 in
    *.c) grep -q "^static void $2(void \*\*state)" "$ADL_SRCDIR/$1" && [ "$(grep -c "\\b$2\\b" "$ADL_SRCDIR/$1")" -ge 2 ] ;;
    *) grep -qF -e "\"$2\"" -e "$2\"" "$ADL_SRCDIR/$1" ;;
    esac
}

number=0
grep '^[0-9]*\. ' "$doc" | while IFS= read -r claim; do
    number=$((number + 1))
    tests=$(printf '%s\n' "$claim" | grep -o '`tests/[^`]*`' | tr -d '`')
    [ -n "$tests" ] || echo "claim $number names no test"
    printf '%s\n' "$tests" | while IFS= read -r test; do
        file=${test%%: *}
        [ -f "$ADL_SRCDIR/$file" ] || { echo "claim $number: there is no $file"; continue; }
        case $test in
        *": "*) has_case "$file" "${test#*: }" || echo "claim $number: $file has no case \"${test#*: }\"" ;;
        tests/fuzz/*) ;;
        *) echo "claim $number: $test names no case" ;;
        esac
    done
done > "${TMPDIR:-/tmp}/adl-security.$$"
missing=$(cat "${TMPDIR:-/tmp}/adl-security.$$")
rm -f "${TMPDIR:-/tmp}/adl-security.$$"
is "$missing" "" "every claim names tests that are there"
done_testing
