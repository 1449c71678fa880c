#!/usr/bin/env bash
# The dashboard and the alerts of share/ ask for nothing that /metrics does not have, and are files that their readers take.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
command -v python3 >/dev/null || skip "python3 is not installed"
make_model llama Q8_0 "$work/m.gguf" || finish
serve one -m "$work/m.gguf" --ctx 64 --slots 1 --cache-dir "$work/prefixes" || finish
curl -s -o "$work/answer" -H 'Content-Type: application/json' "$url/v1/completions" -d '{"prompt":"a b c","max_tokens":3,"ignore_eos":true}'
grep -q '"choices"' "$work/answer" || miss "no answer: $(head -c 300 "$work/answer")"
curl -s "$url/metrics" | grep -o '^zinc_[a-z_]*' | sort -u >"$work/have"

# All that FILE asks for, at least LEAST metrics, is there.
check_names() # FILE LEAST
{
    grep -o 'zinc_[a-z_]*' "$1" | sort -u >"$work/asked"
    [ "$(wc -l <"$work/asked")" -ge "$2" ] || miss "$1: only $(wc -l <"$work/asked") metrics are asked for"
    local unknown
    unknown=$(comm -23 "$work/asked" "$work/have" | tr '\n' ' ')
    [ -z "$unknown" ] || miss "$1 asks for metrics that are not there: $unknown"
    echo "$1: $(wc -l <"$work/asked") metrics, all there"
}
check_names share/grafana-dashboard.json 30
check_names share/prometheus-alerts.yml 8

# panels: each has a name of its own, a place that no other one has, and a query
python3 - share/grafana-dashboard.json <<'EOF' || miss "the dashboard is not well made"
import json, sys
d = json.load(open(sys.argv[1]))
cells, ids = set(), set()
for p in d["panels"]:
    g = p["gridPos"]
    assert g["x"] + g["w"] <= 24, p["title"]
    assert p["id"] not in ids, p["title"]
    ids.add(p["id"])
    for x in range(g["x"], g["x"] + g["w"]):
        for y in range(g["y"], g["y"] + g["h"]):
            assert (x, y) not in cells, p["title"]
            cells.add((x, y))
    assert p["targets"] and all(t["expr"].count("(") == t["expr"].count(")") for t in p["targets"]), p["title"]
EOF
serve_end one "$pid"
finish
