# tests/peer/locate.sh: peer_locate sets LLAMA_PEER_LIBS to the folder of llama.cpp's libraries, installing the npm package
# of $peer_version into build/peer where no copy is found; 1, and the reason in peer_missing, when there is none to be had.
# Of several that ask at the same time one installs. Sourced by tests/peer/run, tests/bench and tests/real.
peer_version=3.22.1

peer_locate()
{
    local rc=0
    mkdir -p build/peer
    exec {peer_lock}>build/peer/lock
    flock "$peer_lock"
    peer_locate_alone || rc=1
    exec {peer_lock}>&-
    return $rc
}

peer_locate_alone()
{
    local version=$peer_version arch dir log=build/peer/install.log
    peer_missing=
    if [ -n "${LLAMA_PEER_LIBS:-}" ]; then
        return 0
    fi
    case $(uname -sm) in
    'Linux x86_64') arch=linux-x64 ;;
    'Linux aarch64') arch=linux-arm64 ;;
    *)
        peer_missing="no build of the peer for $(uname -sm)"
        return 1
        ;;
    esac
    for dir in ${ZINC_PEER_DIR:+"$ZINC_PEER_DIR"} build/peer; do
        peer_libs "$dir" "$arch" && return 0
    done
    if ! command -v npm >/dev/null; then
        peer_missing="npm is not installed (apt-get install npm), and no copy of the peer in ZINC_PEER_DIR"
        return 1
    fi
    mkdir -p build/peer
    echo "  installing @node-llama-cpp/$arch@$version into build/peer (about 40 MB)"
    if ! timeout 300 npm install --prefix build/peer --no-audit --no-fund --ignore-scripts --no-save \
        "@node-llama-cpp/$arch@$version" >"$log" 2>&1; then
        peer_missing="npm cannot install the peer: $(grep -m 1 -E 'code|ERR' "$log")"
        return 1
    fi
    peer_libs build/peer "$arch" || {
        peer_missing="the npm package holds no libllama"
        return 1
    }
}

# peer_libs DIR ARCH: true and LLAMA_PEER_LIBS set when DIR holds the package
peer_libs()
{
    local libs="$1/node_modules/@node-llama-cpp/$2/bins/$2"
    ls "$libs"/libllama.*.so >/dev/null 2>&1 || return 1
    LLAMA_PEER_LIBS=$libs
    export LLAMA_PEER_LIBS
}
