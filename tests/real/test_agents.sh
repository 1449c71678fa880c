#!/usr/bin/env bash
# Claude Code, Codex and OpenCode as npm has them change a file by their tools, against a model that answers by heart. With
# AGENTS_RECORD=DIR what they send is kept there, for tests/e2e/test_serve_agents.sh. The packages have 600 MB:
# tests/real/fetch agents brings them, nothing else does.
. tests/real/lib.sh
. tests/e2e/serve.sh
. tests/e2e/agents.sh
[ -e build/real/agents/packages ] || skip "no agents (tests/real/fetch agents, 600 MB)"
need_real agents
bin=$PWD/$real_agents
root=$PWD

# In the folder, with $to; nothing is asked of anybody but the server.
run_claude()
{
    ANTHROPIC_BASE_URL=$to ANTHROPIC_API_KEY=any CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 \
        "$bin"/claude -p "In notes.txt, make two zwei." --model claude-x --permission-mode acceptEdits
}
run_codex()
{
    mkdir -p "$HOME/codex"
    cat >"$HOME/codex/config.toml" <<END
model = "x"
model_provider = "zinc"
[model_providers.zinc]
name = "zinc"
base_url = "$to/v1"
wire_api = "responses"
env_key = "ANY_KEY"
END
    CODEX_HOME=$HOME/codex ANY_KEY=any "$bin"/codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
        "In notes.txt, make two zwei."
}
run_opencode()
{
    cat >opencode.json <<END
{"autoupdate": false, "share": "disabled", "model": "zinc/x", "small_model": "zinc/x",
 "permission": {"edit": "allow", "bash": "allow", "external_directory": "allow"},
 "provider": {"zinc": {"npm": "@ai-sdk/openai-compatible", "name": "zinc", "options": {"baseURL": "$to/v1", "apiKey": "any"},
  "models": {"x": {"name": "x", "limit": {"context": 100000, "output": 4000}}}}}}
END
    OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1 \
        "$bin"/opencode run "In notes.txt, make two zwei."
}

for name in $agents; do
    folder=$work/session-$name
    mkdir -p "$folder" "$work/home-$name"
    printf 'one\ntwo\nthree\n' >"$folder/notes.txt"
    agent_serve $name "$folder" --quiet || finish
    to=$url
    if [ -n "${AGENTS_RECORD:-}" ]; then
        mkdir -p "$AGENTS_RECORD"
        node "$root/tests/real/record.mjs" "$url" "$AGENTS_RECORD/$name" "$folder" >"$work/$name.port" &
        serve_pids="$serve_pids $!"
        await test -s "$work/$name.port"
        to=http://127.0.0.1:$(cat "$work/$name.port")
    fi
    (cd "$folder" && HOME=$work/home-$name && export HOME && run_$name) </dev/null >"$work/$name.said" 2>&1 &
    client=$!
    await ended $client || { miss "$name: it does not end"; kill $client; }
    wait $client || miss "$name: exit $?: $(tail -n 5 "$work/$name.said" | tr '\n' ' ')"
    [ "$(tr '\n' ' ' <"$folder/notes.txt")" = "one zwei three " ] ||
        miss "$name: the file is $(tr '\n' ' ' <"$folder/notes.txt"): $(tail -n 5 "$work/$name.said" | tr '\n' ' ')"
    grep -q "$agent_done" "$work/$name.said" || miss "$name: it does not say what the model said: $(tail -n 5 "$work/$name.said" | tr '\n' ' ')"
    serve_end $name $pid
done
finish
