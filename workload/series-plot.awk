# Draw one repeat of a series as SVG: a panel for each policy, in it a lane for each job; the height of its
# bar is the number of loader cores that it had, the colour its model; pale: cores, full: GPU busy.
#
# Input, tab-separated: policy job model from to cores busy (seconds since the first submission).
# Variables: order (policies), cores (of the machine).

function x(seconds) { return left + seconds / span * width }

function label(px, py, size, anchor, colour, words) {
    printf "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", px, py, size, anchor, colour, words
}

function box(px, py, w, h, colour, opacity) {
    if (w > 0 && h > 0) printf "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" opacity=\"%.2f\"/>\n", px, py, w, h, colour, opacity
}

BEGIN {
    FS = "\t"
    left = 70; width = 820; lane = 26; gap = 4
    npolicies = split(order, policy, " ")
    split("#1f77b4 #e07b00 #2ca02c #9467bd #8c564b #d62728", palette, " ")
}

{
    rows++
    p[rows] = $1; j[rows] = $2; m[rows] = $3; from[rows] = $4; to[rows] = $5; c[rows] = $6; busy[rows] = $7
    if ($5 > span) span = $5
    if ($6 > top) top = $6
    if (!($2 in lane_of)) { lane_of[$2] = njobs++; name[njobs] = $2 }
    if (!($3 in colour)) { colour[$3] = palette[nmodels++ % 6 + 1]; models = models " " $3 }
}

END {
    if (!rows) exit 1
    span *= 1.02
    panel = njobs * (lane + gap) + 46
    height = npolicies * panel + 70
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n", left + width + 30, height, left + width + 30, height
    printf "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
    label(left, 22, 14, "start", "#222", "Loader cores of each job over time (pale, full height " top ") and the GPU-busy share (full colour)")
    nm = split(models, known, " ")
    for (i = 1; i <= nm; i++) {
        box(left + (i - 1) * 110, 32, 12, 12, colour[known[i]], 1)
        label(left + (i - 1) * 110 + 17, 43, 12, "start", "#222", known[i])
    }
    for (i = 1; i <= npolicies; i++) {
        y0 = 66 + (i - 1) * panel
        label(left, y0 + 4, 13, "start", "#222", policy[i])
        for (k = 1; k <= njobs; k++) {
            y = y0 + 12 + (k - 1) * (lane + gap)
            label(left - 8, y + lane - 7, 12, "end", "#444", name[k])
            box(left, y, width, lane, "#888888", 0.08)
        }
        for (r = 1; r <= rows; r++) {
            if (p[r] != policy[i]) continue
            y = y0 + 12 + lane_of[j[r]] * (lane + gap)
            box(x(from[r]), y + lane * (1 - c[r] / top), x(to[r]) - x(from[r]), lane * c[r] / top, colour[m[r]], 0.35)
            box(x(from[r]), y + lane * (1 - busy[r]), x(to[r]) - x(from[r]), 2, colour[m[r]], 1)
        }
        y = y0 + 12 + njobs * (lane + gap)
        step = span > 150 ? 20 : span > 60 ? 10 : 5
        for (s = 0; s <= span; s += step) label(x(s), y + 12, 11, "middle", "#555", s " s")
    }
    print "</svg>"
}
