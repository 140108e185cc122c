#!/bin/sh
# Run a test program and correct one thing in its TAP: cmocka calls a skipped test "not ok N # SKIP",
# which automake counts as a failure. Exit status (also of a crash) and order of lines stay.
exec 4>&1
status=$(
    {
        { "$@" 3>&- 4>&-; echo $? >&3; } |
            sed -u 's/^not ok \([0-9][0-9]*\) # SKIP/ok \1 # SKIP/' >&4
    } 3>&1
)
exit "$status"
