#!/usr/bin/env bash
# A server with --cache-dir that is started anew goes on with what the one before it had evaluated: the same answer, and the
# prompt's tokens are cached ones. A second server beside it uses the same files, another model none of them, and what cannot
# be read or written is told in a line and changes nothing. The time of the first token is printed, not judged.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
command -v python3 >/dev/null || skip "python3 is not installed"
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"

python3 - >"$work/request" <<'END'
import json
system = " ".join(f"The cat with the number {i} sat on the mat." for i in range(150))
print(json.dumps({"messages": [{"role": "system", "content": system}, {"role": "user", "content": "Tell me a story."}],
                  "max_tokens": 12, "temperature": 0}))
END

# ask NAME: into $work/NAME the answer's text; sets $cached and $first_ms
ask()
{
    local line
    curl -s -H 'Content-Type: application/json' -d "@$work/request" "$url/v1/chat/completions" >"$work/$1.json"
    line=$(python3 - "$work/$1.json" "$work/$1" <<'END'
import json, sys
a = json.load(open(sys.argv[1]))
open(sys.argv[2], "w").write(json.dumps(a["choices"][0]["message"]))
print(a["usage"]["prompt_tokens_details"]["cached_tokens"], a["usage"]["prompt_tokens"], a["timings"]["prompt_ms"])
END
    ) || miss "$1: no answer: $(head -c 200 "$work/$1.json")"
    read -r cached prompt first_ms <<<"$line"
}

same() { cmp -s "$work/first" "$work/$1" || miss "$1: another answer: $(cat "$work/$1"), at first $(cat "$work/first")"; }

serve first -m $model --tier cpu --ctx 4096 --quiet --cache-dir "$work/cache" || finish
ask first
uncached_ms=$first_ms
[ "$cached" = 0 ] || miss "the first server finds $cached tokens in an empty folder"
first=$pid first_url=$url
await metric_is_over zinc_prefix_disk_files 4 "$url" || miss "nothing is written to the folder"
serve beside -m $model --tier cpu --ctx 4096 --quiet --cache-dir "$work/cache" || finish
ask beside
same beside
[ "$cached" -gt 0 ] || miss "a server beside the first one finds nothing in their folder"
serve_end beside $pid
serve_end first $first

serve again -m $model --tier cpu --ctx 4096 --quiet --cache-dir "$work/cache" || finish
ask again
same again
[ "$cached" -gt $((prompt * 9 / 10)) ] || miss "after a restart $cached of $prompt tokens are cached"
[ "$(metric zinc_prefix_tokens_fetched_total "$url")" = "$cached" ] || miss "not all that is cached came from the disk"
echo "first token of $prompt: $uncached_ms ms, after a restart $first_ms ms with $cached of them from disk"
serve_end again $pid

# All files are cut: each that is looked at is told, none is used, and they are written anew.
truncate -s 300 "$work"/cache/*
serve cut -m $model --tier cpu --ctx 4096 --quiet --cache-dir "$work/cache" || finish
ask cut
same cut
[ "$cached" = 0 ] || miss "$cached tokens come from files that were cut"
grep -q 'a prefix on disk is not used: .*a file of 300 bytes, expected' "$work/cut.log" || miss "nothing tells of the files that were cut"
serve_end cut $pid
serve mended -m $model --tier cpu --ctx 4096 --quiet --cache-dir "$work/cache" || finish
ask mended
same mended
[ "$cached" -gt 0 ] || miss "files that were cut are not written anew"
serve_end mended $pid

: >"$work/file"
timeout 60 "$zinc" serve -m $model --tier cpu --port 0 --cache-dir "$work/file" >"$work/out" 2>&1 && miss "a file passes for a folder"
grep -q "$work/file: expected a folder for prefixes" "$work/out" || miss "--cache-dir FILE: $(tail -n 1 "$work/out")"
timeout 60 "$zinc" serve -m $model --cache-disk-mib 5 >"$work/out" 2>&1 && miss "--cache-disk-mib passes alone"
grep -q 'expected --cache-dir DIR' "$work/out" || miss "--cache-disk-mib alone: $(tail -n 1 "$work/out")"
finish
