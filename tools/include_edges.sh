#!/usr/bin/env bash
# tools/include_edges.sh [-v]: prints which folder includes which ("graph -> model  12"), from the #include lines, and
# fails where one is not allowed by the table below, which is that of doc/layout.md: includes point down only.
# -v lists the lines behind each edge.
set -u
cd "$(dirname "$0")/.." || exit 1

# folder: what it may include beside itself; a header's path allows that header only
rules='
base:
kernels:
pull:     base
jinja:    base
model:    base kernels jinja/jinja.h
graph:    base kernels model
rt:       base kernels graph/stream.h
rt/pm4:   base
rt/amd:   base kernels graph/stream.h rt rt/pm4
rt/kfd:   base kernels graph/stream.h rt rt/pm4 rt/amd/winsys.h rt/amd/ring.h rt/amd/tier.h rt/amd/ladder.h
rt/umq:   base kernels graph/stream.h rt rt/pm4 rt/amd/winsys.h rt/amd/ring.h rt/amd/tier.h rt/amd/ladder.h
oracle:   base kernels graph/stream.h rt/tier.h
vk:       base kernels graph/stream.h rt
cuda:     base kernels graph/stream.h rt
metal:    base kernels graph/stream.h rt
engine:   base kernels model graph rt engine/sample engine/grammar engine/answer
engine/sample:  base kernels
engine/grammar: base model/tok_buf.h
engine/answer:  base model engine/grammar
engine/serve:   base engine engine/grammar
engine/proof:   base kernels model graph rt engine
server:   base engine/engine.h engine/generate.h engine/answer/answer.h engine/grammar engine/serve/sched.h pull/curl_lib.h
cli:      base engine/engine.h engine/generate.h engine/dialog.h engine/look.h engine/roof.h engine/answer/answer.h engine/serve/sched.h engine/proof pull server
lib:      base engine/engine.h engine/generate.h engine/dialog.h engine/look.h engine/answer/answer.h engine/serve/sched.h include/zinc.h
include:
examples: include/zinc.h
tests:    *
tools:    *
'

find . \( -path './.*' -o -path ./build \) -prune -o -name '*.[ch]' -print | sed 's/^..//' | sort |
    xargs grep -n -H '^ *# *include *"' |
    awk -v rules="$rules" -v verbose="${1:-}" '
function folder(path,   i, f) { # the longest folder of the table that holds the path
    for (f = path; sub(/\/[^\/]*$/, "", f);)
        if (f in may)
            return f
    return ""
}
BEGIN {
    n = split(rules, line, "\n")
    for (i = 1; i <= n; i++)
        if (split(line[i], part, ":") == 2)
            may[part[1]] = part[2] " "
}
{
    split($0, at, ":")
    file = at[1]
    match($0, /"[^"]*"/)
    header = substr($0, RSTART + 1, RLENGTH - 2)
    if (header !~ /\//) # beside the file, or generated into build/gen
        next
    from = folder(file)
    to = folder(header)
    if (from == "" && !seen[file]++) {
        bad++
        print file ": its folder is not in the table of tools/include_edges.sh"
    }
    if (to == "" || from == to)
        next
    edge = from " -> " to
    count[edge]++
    lines[edge] = lines[edge] "    " file ":" at[2] ": " header "\n"
    if (!index(" " may[from], " " to " ") && !index(" " may[from], " " header " ") && !index(may[from], "*")) {
        bad++
        print file ":" at[2] ": " from " may not include " header
    }
}
END {
    for (e in count) {
        printf "%-20s %4d\n", e, count[e] | "sort"
        if (verbose == "-v")
            printf "%s", lines[e] | "sort"
    }
    close("sort")
    if (!NR)
        print "no sources found"
    exit !NR || bad > 0
}'
