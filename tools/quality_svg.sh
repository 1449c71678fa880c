#!/usr/bin/env bash
# tools/quality_svg.sh FILE.tsv: the picture of a table of divergences (doc/quality.tsv), as SVG on standard output: a dot for each
# type at its bits a weight, and one with an importance matrix.
set -euo pipefail
[ $# -eq 1 ] && [ -r "$1" ] || { echo "usage: tools/quality_svg.sh FILE.tsv >FILE.svg" >&2; exit 2; }
awk -F '\t' '
function x(bits) { return left + (bits - 1.4) / (6.8 - 1.4) * width }
function y(kl) { return top + (log(2) - log(kl)) / (log(2) - log(0.0003)) * height }
/^#/ || $1 == "type" { next }
NF == 8 { n++; name[n] = $1; bits[n] = $2; kl[n] = $3; im[n] = $6 }
END {
    if (!n) { print "quality_svg: no lines with divergences" >"/dev/stderr"; exit 1 }
    left = 74; top = 46; width = 660; height = 330; base = top + height
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 %d\" width=\"760\" height=\"%d\" font-family=\"DejaVu Sans, Arial, sans-serif\" font-size=\"13\">\n", base + 52, base + 52
    print "  <title>Divergence from Q8_0 by bits a weight</title>"
    printf "  <rect width=\"760\" height=\"%d\" fill=\"#ffffff\"/>\n", base + 52
    printf "  <circle cx=\"%d\" cy=\"20\" r=\"5\" fill=\"#b9c4cb\"/><text x=\"%d\" y=\"25\" fill=\"#222\">without an importance matrix</text>\n", left + 6, left + 18
    printf "  <circle cx=\"%d\" cy=\"20\" r=\"5\" fill=\"#2c5d7c\"/><text x=\"%d\" y=\"25\" fill=\"#222\">with one</text>\n", left + 236, left + 248
    for (v = 0.001; v < 2; v *= 10) {
        printf "  <path d=\"M%d %.1f H%d\" stroke=\"#e3e6e8\"/>\n", left, y(v), left + width
        printf "  <text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n", left - 8, y(v) + 5, v
    }
    for (b = 2; b <= 6; b++)
        printf "  <text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#555\">%d</text>\n", x(b), base + 20, b
    printf "  <path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"#888\"/>\n", left, top, base, left + width
    for (i = 1; i <= n; i++) {
        printf "  <path d=\"M%.1f %.1f V%.1f\" stroke=\"#c7ced3\"/>\n", x(bits[i]), y(kl[i]), y(im[i])
        printf "  <circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#b9c4cb\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#2c5d7c\"/>\n", x(bits[i]), y(kl[i]), x(bits[i]), y(im[i])
        at = (y(kl[i]) + y(im[i])) / 2 + 4; side = 1 # the name goes to the left where one to the right would be over another
        for (j = 1; j < i; j++)
            if (right[j] && (at - right[j]) ^ 2 < 150 && (x(bits[i]) - x(bits[j])) ^ 2 < 1000)
                side = -1
        if (side > 0) right[i] = at
        printf "  <text x=\"%.1f\" y=\"%.1f\"%s fill=\"#222\" font-size=\"11\">%s</text>\n", x(bits[i]) + 7 * side, at, side < 0 ? " text-anchor=\"end\"" : "", name[i]
    }
    printf "  <text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#555\">bits a weight; divergence in nats a token, logarithmic</text>\n", left + width / 2, base + 42
    print "</svg>"
}' "$1"
