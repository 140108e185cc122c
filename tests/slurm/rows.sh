# shellcheck shell=bash
# Rows of the tables in docs/robustness.md. A test prints them as it goes, as TAP notes "# row TABLE | ... |";
# tests/tables collects them. What a row says is what was seen in that run, wanted or not; whether it
# is as wanted is for the test's cases to say.

# row TABLE CELL...
row() {
    local table=$1 cell line=''
    shift
    for cell in "$@"; do
        cell=${cell//$'\n'/; }
        line+=" ${cell//|/\\|} |"
    done
    printf '# row %s |%s\n' "$table" "$line"
}
