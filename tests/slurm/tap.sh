# shellcheck shell=bash
# TAP for shell tests: a case a call, the plan at the end, reasons as '#' lines.

tap_count=0
tap_failures=0

tap_note() {
    local text=$*
    printf '# %s\n' "${text//$'\n'/$'\n'# }"
}

tap_pass() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1"
}

# tap_fail DESCRIPTION [EXPLANATION...]
tap_fail() {
    tap_count=$((tap_count + 1))
    tap_failures=$((tap_failures + 1))
    echo "not ok $tap_count - $1"
    shift
    (($# == 0)) || tap_note "$@"
}

tap_skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

# tap_is GOT WANTED DESCRIPTION
tap_is() {
    if [[ $1 == "$2" ]]; then
        tap_pass "$3"
    else
        tap_fail "$3" "got '$1', wanted '$2'"
    fi
}

# tap_like TEXT PATTERN(extended regular expression) DESCRIPTION
tap_like() {
    if grep -Eq -- "$2" <<<"$1"; then
        tap_pass "$3"
    else
        tap_fail "$3" "no match for /$2/ in:" "$1"
    fi
}

# tap_true DESCRIPTION COMMAND...
tap_true() {
    local description=$1
    shift
    if "$@"; then
        tap_pass "$description"
    else
        tap_fail "$description" "failed: $*"
    fi
}

# tap_within SECONDS DESCRIPTION COMMAND...: becomes true before the deadline (wait_until of proc.sh)
tap_within() {
    local patience=$1 description=$2
    shift 2
    if wait_until "$patience" "$@"; then
        tap_pass "$description"
    else
        tap_fail "$description" "not within $patience s: $*"
    fi
}

tap_skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

tap_done() {
    echo "1..$tap_count"
    ((tap_failures == 0))
}
