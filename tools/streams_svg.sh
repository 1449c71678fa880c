#!/usr/bin/env bash
# tools/streams_svg.sh FILE.tsv: the picture of a table of speeds (doc/streams.tsv), as SVG on standard output: a group of bars for
# each column, in it a bar for each line.
set -euo pipefail
[ $# -eq 1 ] && [ -r "$1" ] || { echo "usage: tools/streams_svg.sh FILE.tsv >FILE.svg" >&2; exit 2; }
awk -F '\t' '
function spaced(n) { return n < 1000 ? sprintf("%d", n) : sprintf("%d,%03d", n / 1000, n % 1000) }
/^#/ { next }
!columns { columns = NF - 1; for (i = 1; i <= columns; i++) head[i] = $(i + 1); next }
NF > 1 {
    name[++lines] = $1
    for (i = 1; i <= columns; i++) { v[lines, i] = $(i + 1); if ($(i + 1) > most) most = $(i + 1) }
}
END {
    if (!lines) { print "streams_svg: no lines with speeds" >"/dev/stderr"; exit 1 }
    split("#2c5d7c #b9c4cb #b5771c #7a5aa6", colour, " ")
    width = 760; left = 20; top = 64; height = 220; base = top + height
    group = (width - 2 * left) / columns; bar = group * 0.76 / lines
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" font-family=\"DejaVu Sans, Arial, sans-serif\" font-size=\"14\">\n", width, base + 56, width, base + 56
    print "  <title>Generated tokens per second by number of clients</title>"
    printf "  <rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, base + 56
    for (l = 1; l <= lines; l++) {
        printf "  <rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" rx=\"2\" fill=\"%s\"/>\n", left + (l - 1) * 330, 16, colour[l]
        printf "  <text x=\"%d\" y=\"27\" fill=\"#222\">%s</text>\n", left + 19 + (l - 1) * 330, name[l]
    }
    for (i = 1; i <= columns; i++) {
        for (l = 1; l <= lines; l++) {
            h = height * v[l, i] / most
            x = left + (i - 1) * group + group * 0.12 + (l - 1) * bar
            printf "  <rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"3\" fill=\"%s\"/>\n", x, base - h, bar - 4, h, colour[l]
            printf "  <text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#222\" font-size=\"13\">%s</text>\n", x + (bar - 4) / 2, base - h - 6, spaced(v[l, i])
        }
        printf "  <text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#222\">%s client%s</text>\n", left + (i - 0.5) * group, base + 22, head[i], head[i] == 1 ? "" : "s"
    }
    printf "  <path d=\"M%d %d H%d\" stroke=\"#888\"/>\n", left, base, width - left
    printf "  <text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#555\" font-size=\"13\">generated tokens per second, all clients together</text>\n", width / 2, base + 45
    print "</svg>"
}' "$1"
