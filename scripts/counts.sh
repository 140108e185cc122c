# shellcheck shell=bash
# How many cases a log tells of, each as "PASSED FAILED SKIPPED": what ./check and the matrix count with.

# Of make check: a line a case, written by automake's TAP driver.
counts_of_unit_log() {
    awk '/^(PASS|XFAIL): / { p++ } /^(FAIL|XPASS|ERROR): / { f++ } /^SKIP: / { s++ }
        END { print p + 0, f + 0, s + 0 }' "$1"
}

# Of tests/slurm/run: its last line. Nothing, and false, if it did not come to its end.
counts_of_slurm_log() {
    sed -n 's/^slurm: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$1" | grep . | tail -n 1
}
