#!/usr/bin/env bash
# What Claude Code, Codex and OpenCode sent while they changed a file (tests/real/test_agents.sh records it), sent again: each
# request is answered to its end in its dialect, by the call that the model makes, and evaluates little of what came before.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
. tests/e2e/agents.sh
[ -e $agent_model ] || skip "no $agent_model"
command -v curl >/dev/null || skip "curl is not installed"
command -v python3 >/dev/null || skip "python3 is not installed"

# What each answer has in it, and what is its last event.
claude_end='event: message_stop' codex_end='event: response.completed' opencode_end='data: \[DONE\]'
claude_says=('"type":"tool_use",[^{}]*"name":"Read"' '"type":"tool_use",[^{}]*"name":"Edit"' "$agent_done")
codex_says=('"type":"function_call",[^{}]*"name":"exec_command"' "$agent_done")
opencode_says=('A title' '"function":{"name":"read"' '"function":{"name":"edit"' "$agent_done")

# a script that is none
refuses() # PATTERN TEXT
{
    printf "$2" >"$work/bad"
    ZINC_NULL_SCRIPT=$work/bad "$zinc" run -m $agent_model --tier null -p x -n 1 >"$work/out" 2>"$work/err" && miss "a script of '$2' is taken"
    grep -q "$1" "$work/err" || miss "a script of '$2': $(cat "$work/err")"
}
refuses 'no answer in it' '# nothing\n'
refuses 'line 2: expected token ids' '1 2\n3 x\n'
refuses 'line 1: expected token ids' '1 2:\n'
refuses 'token 99999, the model' '1 : 99999\n'

for name in $agents; do
    agent_serve $name /work || finish
    declare -n says=${name}_says end=${name}_end
    for ((i = 0; i < ${#says[@]}; i++)); do
        python3 - "tests/e2e/agents/$name-$i.json" "$work/body" >"$work/args" <<'END'
import json, sys
kept = json.load(open(sys.argv[1]))
json.dump(kept["body"], open(sys.argv[2], "w"))
print(kept["path"], *(f"{k}: {v}" for k, v in kept["headers"].items()), sep="\n")
END
        mapfile -t args <"$work/args"
        headers=()
        for h in "${args[@]:1}"; do headers+=(-H "$h"); done
        : >"$work/answer"
        curl -s -N -w '%{http_code}' -o "$work/answer" "$url${args[0]}" -H 'Content-Type: application/json' \
            "${headers[@]}" --data-binary "@$work/body" >"$work/status"
        [ "$(cat "$work/status")" = 200 ] || {
            miss "$name $i: status $(cat "$work/status"): $(head -c 300 "$work/answer")"
            finish
        }
        grep -oE '"(content|text)":"[^"]*"' "$work/answer" | cut -d '"' -f 4 | tr -d '\n' >"$work/text"
        grep -q "${says[i]}" "$work/answer" "$work/text" || miss "$name $i: no ${says[i]} in: $(tail -c 600 "$work/answer")"
        grep -q "^$end" "$work/answer" || miss "$name $i: no $end at the end: $(tail -c 300 "$work/answer")"
    done
    # the last request goes on from the one before
    await eval '[ "$(grep -c method=POST "$work/$name.log")" -eq ${#says[@]} ]' || miss "$name: not all requests are in the log"
    grep method=POST "$work/$name.log" | tail -n 1 | tr ' ' '\n' | awk -F= '$1 == "prompt" { p = $2 } $1 == "reused" { r = $2 }
        END { exit !(p > 1000 && r > 0.9 * p) }' || miss "$name: what came before is evaluated again: $(tail -n 1 "$work/$name.log")"
    serve_end $name $pid
done
finish
