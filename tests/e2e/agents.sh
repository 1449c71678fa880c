# tests/e2e/agents.sh: sessions of agents against a model that answers by heart; sourced after serve.sh. An agent is asked to
# change a word of a file: it reads the file, edits it, and says so.
#
# agent_serve NAME FOLDER [options]: a server for this agent, whose file is FOLDER/notes.txt; as `serve`
agent_model=models/zinc-demo.gguf
agent_done='Done, as you asked.'
agents="claude codex opencode"

agent_ids() { printf "%s" "$1" | "$zinc" tokenize -m $agent_model; }

# agent_call TOOL [PARAMETER VALUE]...: a call as the demo model's chat format writes it
agent_call()
{
    printf '<tool_call>\n<function=%s>\n' "$1"
    shift
    while [ $# -gt 0 ]; do
        printf '<parameter=%s>\n%s\n</parameter>\n' "$1" "$2"
        shift 2
    done
    printf '</function>\n</tool_call>'
}

# agent_line WHEN ANSWER: WHEN may be empty. The pieces at its ends must be whole tokens in any text.
agent_line() { echo "${1:+$(agent_ids "$1") : }$(agent_ids "$2<|im_end|>")"; }

# The last step first: what a sequence has in it tells how far the session is.
agent_script() # NAME FOLDER
{
    local file=$2/notes.txt
    case $1 in
    claude)
        agent_line ' has been updated' "$agent_done"
        agent_line '<tool_response>' "$(agent_call Edit file_path "$file" old_string two new_string zwei)"
        agent_line '<tools' "$(agent_call Read file_path "$file")"
        ;;
    codex)
        agent_line '<tool_response>' "$agent_done"
        agent_line '<tools' "$(agent_call exec_command cmd "sed -i s/two/zwei/ notes.txt" workdir "$2")"
        ;;
    opencode)
        agent_line ' applied success' "$agent_done"
        agent_line '<tool_response>' "$(agent_call edit filePath "$file" oldString two newString zwei)"
        agent_line '<tools' "$(agent_call read filePath "$file")"
        ;;
    esac
    agent_line '' 'A title' # of the conversation: some ask for one
}

agent_serve()
{
    local name=$1 folder=$2
    shift 2
    agent_script "$name" "$folder" >"$work/$name.script"
    ZINC_NULL_SCRIPT=$work/$name.script serve "$name" -m $agent_model --tier null --ctx 131072 --slots 1 --no-think --alias '*' "$@"
}
