# Draw what happened to two steps on two CPUs as SVG: who might use which CPU, and how fast each
# trained. Read from three tab-separated files, times in milliseconds since the same moment:
#
#   masks.tsv    time  step  CPU list of its loader threads (several lists: separated by spaces)
#   rates.tsv    time  step  samples/s
#   static.tsv   the same of the run without adloader, with its own zero
#
#   awk -f timeline.awk -v cpus="0 1" masks.tsv rates.tsv static.tsv > timeline.svg
#
# POSIX awk only.

function x(ms) { return left + (width * ms) / span }
function y(rate) { return chart_bottom - (chart_height * rate) / top_rate }

function listed(list, cpu,    parts, n, i, range) {
    n = split(list, parts, /[ ,]+/)
    for (i = 1; i <= n; i++) {
        if (split(parts[i], range, "-") == 1)
            range[2] = range[1]
        if (cpu + 0 >= range[1] + 0 && cpu + 0 <= range[2] + 0)
            return 1
    }
    return 0
}

function text(px, py, size, anchor, fill, what) {
    printf "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", px, py, size, anchor, fill, what
}

function curve(name, step, dash,    i, n, d) {
    d = ""
    n = count[name, step]
    for (i = 1; i <= n; i++)
        d = d sprintf("%s%.1f %.1f ", (i == 1 ? "M" : "L"), x(when[name, step, i]), y(value[name, step, i]))
    if (d != "")
        printf "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"%s/>\n", d, colour[step], (dash ? 1.5 : 2.5), (dash ? " stroke-dasharray=\"5 4\" opacity=\"0.7\"" : "")
}

# A rectangle for each stretch of time in which the step's loaders might use the CPU.
function lane(step, cpu, top, height,    i, n, from, on, until) {
    n = count["masks", step]
    on = 0
    for (i = 1; i <= n + 1; i++) {
        if (i <= n && listed(value["masks", step, i], cpu)) {
            if (!on) { from = when["masks", step, i]; on = 1 }
            until = when["masks", step, i]
        } else if (on) {
            if (i <= n) until = when["masks", step, i]
            printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" opacity=\"0.85\"/>\n", x(from), top, x(until) - x(from) + 1, height, colour[step]
            on = 0
        }
    }
}

BEGIN {
    FS = "\t"
    left = 90; width = 760; chart_height = 220
    colour["A"] = "#1f77b4"; colour["B"] = "#e07b00"
    span = 1; top_rate = 1
}

FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\.tsv$/, "", file) }

NF >= 3 && ($2 == "A" || $2 == "B") {
    i = ++count[file, $2]
    when[file, $2, i] = $1 + 0
    value[file, $2, i] = $3
    if ($1 + 0 > span) span = $1 + 0
    if (file != "masks" && $3 + 0 > top_rate) top_rate = $3 + 0
}

END {
    ncpus = split(cpus, cpu, " ")
    span = span * 1.02
    top_rate = top_rate * 1.1
    lane_top = 60; lane_height = 20
    chart_top = lane_top + ncpus * (2 * lane_height + 14) + 30
    chart_bottom = chart_top + chart_height
    height = chart_bottom + 60
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n", left + width + 30, height, left + width + 30, height
    printf "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
    text(left, 24, 16, "start", "#222", "adloader: the CPUs that the loader threads of two steps may use (masks read from /proc)")
    text(left, 44, 13, "start", colour["A"], "step A")
    text(left + 60, 44, 13, "start", colour["B"], "step B")

    for (i = 1; i <= ncpus; i++) {
        row = lane_top + (i - 1) * (2 * lane_height + 14)
        text(left - 10, row + lane_height + 5, 13, "end", "#222", "CPU " cpu[i])
        printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f2f2f2\"/>\n", left, row, width, 2 * lane_height
        lane("A", cpu[i], row, lane_height)
        lane("B", cpu[i], row + lane_height, lane_height)
    }

    text(left, chart_top - 8, 13, "start", "#222", "samples/s (dashed: the same steps without adloader)")
    printf "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#bbb\"/>\n", left, chart_top, width, chart_height
    tick = 10 ^ int(log(top_rate) / log(10))
    while (top_rate / tick > 5) tick *= 2
    for (rate = 0; rate <= top_rate; rate += tick) {
        printf "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e5e5e5\"/>\n", left, y(rate), left + width, y(rate)
        text(left - 10, y(rate) + 4, 12, "end", "#555", sprintf("%d", rate))
    }
    for (second = 0; second * 1000 <= span; second += 5)
        text(x(second * 1000), chart_bottom + 18, 12, "middle", "#555", second " s")
    curve("static", "A", 1); curve("static", "B", 1)
    curve("rates", "A", 0); curve("rates", "B", 0)
    text(left, chart_bottom + 44, 12, "start", "#555", "JPEG decoding is real, the GPU is emulated by a timed wait.")
    print "</svg>"
}
