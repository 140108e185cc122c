# shellcheck shell=sh
# TAP for shell tests: source it, call ok/is/like, end with done_testing.
tap_count=0
tap_failed=0

# result STATUS NAME: one test point
result()
{
    tap_count=$((tap_count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $tap_count - $2"
    else
        echo "not ok $tap_count - $2"
        tap_failed=$((tap_failed + 1))
    fi
}

# is GOT WANTED NAME
is()
{
    if [ "$1" = "$2" ]; then
        result 0 "$3"
    else
        result 1 "$3"
        printf '%s\n' "got:" "$1" "wanted:" "$2" | sed 's/^/# /'
    fi
}

# like TEXT PATTERN NAME: an extended regular expression somewhere in the text
like()
{
    if printf '%s\n' "$1" | grep -Eq -e "$2"; then
        result 0 "$3"
    else
        result 1 "$3"
        printf '%s\n' "got:" "$1" "wanted something like:" "$2" | sed 's/^/# /'
    fi
}

# unlike TEXT PATTERN NAME
unlike()
{
    if printf '%s\n' "$1" | grep -Eq -e "$2"; then
        result 1 "$3"
        printf '%s\n' "got:" "$1" "wanted nothing like:" "$2" | sed 's/^/# /'
    else
        result 0 "$3"
    fi
}

# skip NAME REASON
skip()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

done_testing()
{
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ]
}
