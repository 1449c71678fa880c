#!/usr/bin/env bash
# tools/record_first_minutes.sh: types a stranger's first minutes into a terminal of 80 columns (tmux) and writes what the
# terminal showed as doc/first-minutes.md. Speeds differ from run to run; nothing else should. Run from the root of a built tree.
set -euo pipefail
page=${1:-doc/first-minutes.md}
command -v tmux >/dev/null || { echo "record_first_minutes: no tmux (apt-get install tmux)" >&2; exit 1; }
[ -x build/zinc ] || { echo "record_first_minutes: no build/zinc: make first" >&2; exit 1; }
work=$(mktemp -d)
t="tmux -L zinc-record-$$"
trap '$t kill-server 2>/dev/null || true; sleep 0.3; rm -rf "$work"' EXIT

# A shell with a plain prompt; HOME is empty, as a stranger's is.
$t -f /dev/null new-session -d -x 80 -y 2000 \
    "env -i HOME=$work PATH=$PWD/build:/usr/bin:/bin TERM=screen LC_ALL=C.UTF-8 PS1='\$ ' bash --noprofile --norc"
screen() { $t capture-pane -p; }

# await PATTERN N: until the last line of the screen has it, and there are more lines than N
await()
{
    local end=$((SECONDS + 180))
    until screen | sed '/^$/d' | tail -n 1 | grep -qE -- "$1" && [ "$(screen | sed '/^$/d' | grep -c '')" -gt "$2" ]; do
        [ $SECONDS -lt $end ] || { echo "record_first_minutes: no '$1' on the terminal:" >&2; screen | sed '/^$/d' | tail -n 5 >&2; exit 1; }
        sleep 0.1
    done
}
type_line() # PROMPT TEXT [KEYS...]: types it when PROMPT is there, and waits until it is there again
{
    local prompt=$1 before
    before=$(screen | sed '/^$/d' | grep -c '')
    $t send-keys -l -- "$2"
    shift 2
    $t send-keys "$@" Enter
    await "$prompt" "$before"
}
shell='^\$ *$'
chat='^> *$'

section() # TITLE TEXT
{
    printf '\n## %s\n\n%s\n\n```text\n' "$1" "$2"
}
shown() # what the terminal shows since the last `begin`, without the prompt that waits
{
    screen | sed '/./,$!d' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' | sed '$d' | sed 's/[[:space:]]*$//'
    printf '```\n'
}
begin()
{
    $t send-keys -R "" 
    $t send-keys -l clear
    $t send-keys Enter
    sleep 0.5
    $t clear-history
}

await "$shell" 0
{
    printf '# First minutes\n\nA stranger'"'"'s first session after `./bootstrap demo`, as a terminal of 80 columns showed it. Recorded by\n`tools/record_first_minutes.sh` on two cores of a shared machine; the model is the demo'"'"'s, of 11 million parameters.\n'

    begin
    type_line "$shell" 'zinc'
    section 'What is there' 'Without arguments `zinc` says what it can do (and exits with 2).'
    shown

    begin
    type_line "$shell" 'zinc check models/zinc-demo.gguf'
    section 'Does it run here' '`zinc check` looks at the machine, at every tier, and tries the model.'
    shown

    begin
    type_line "$shell" 'zinc run models/zinc-demo.gguf --chat "What is 27 + 48?"'
    type_line "$shell" 'echo "What is 12 + 30?" | zinc run -q models/zinc-demo.gguf --chat'
    section 'One answer' 'A model and a prompt; a pipe works as well, and `-q` leaves the answer alone.'
    shown

    begin
    type_line "$chat" 'zinc models/zinc-demo.gguf --temp 0'
    type_line "$chat" 'What is 27 + 48?'
    type_line "$chat" 'Sort these numbers: 5 3 9 1'
    type_line "$chat" '/undo'
    type_line "$chat" '/stats'
    type_line "$shell" '/exit'
    section 'A conversation' 'The model alone, on a terminal, is a chat. Lines are edited and remembered; `/help` lists the commands.'
    shown

    begin
    type_line "$shell" 'zinc run models/zinc-demo.gguf --tmep 0 "Hi"'
    type_line "$shell" 'zinc run models/zinc-demo.gguf --top-p 7 "Hi"'
    type_line "$shell" 'zinc run nosuch.gguf "Hi"'
    section 'Mistakes' 'One line each: what was tried, what is expected.'
    shown

    begin
    type_line "$shell" 'zinc bench models/zinc-demo.gguf -p 0 -n 32'
    section 'How fast' 'Tokens per second, and for generation the percentage of the memory bandwidth that was measured beside it.'
    shown
} >"$work/page.md"
mv "$work/page.md" "$page"
echo "$page: $(grep -c '' "$page") lines"
