# shellcheck shell=bash
# Tables in documents that a command writes: between the lines "<!-- NAME begins ... -->" and
# "<!-- NAME ends -->" all is replaced, and nothing else is touched.

# section_write FILE NAME: standard input becomes the section's text.
section_write() {
    local file=$1 name=$2 text
    text=$(cat)
    if ! grep -q "^<!-- $name begins" "$file" || ! grep -q "^<!-- $name ends" "$file"; then
        echo "section: $file has no section '$name'" >&2
        return 1
    fi
    awk -v name="$name" '
        NR == FNR { text = text $0 "\n"; next }
        index($0, "<!-- " name " ends") == 1 { within = 0 }
        !within
        index($0, "<!-- " name " begins") == 1 { within = 1; printf "\n%s\n", text }' \
        <(printf '%s\n' "$text") "$file" >"$file.new" && mv "$file.new" "$file"
}
