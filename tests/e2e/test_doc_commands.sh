#!/usr/bin/env bash
# The commands that the pages show run as they stand there. A block of code says what it is: ```sh is run, line by line as a
# person would, in a folder where build/, models/, MODEL.gguf and the like are; any other word is no command. Before a block
# that takes a card, minutes or the network stands <!-- not run: WHY -->; those are listed.
. tests/e2e/lib.sh
here=$PWD
"$build/mkmodel" tiny-qwen3 "$work/model.gguf" 2>/dev/null || { miss "mkmodel"; finish; }

# What stands in for zinc and curl: servers listen where a port is free, and are asked there.
mkdir -p "$work/bin"
cat >"$work/bin/zinc" <<END
#!/usr/bin/env bash
real=$(readlink -f "$zinc")
case " \$* " in
*" serve "* | *" -p 8080"*) ;;
*) exec "\$real" "\$@" ;;
esac
[ ! -s server.pid ] || { kill "\$(cat server.pid)"; while kill -0 "\$(cat server.pid)" 2>/dev/null; do sleep 0.05; done; }
rm -f ready
set -- "\${@/#unix:*/unix:\$PWD/zinc.sock}"
"\$real" "\$@" \$([[ " \$* " = *" unix:"* ]] || echo --port 0) --ready-file "\$PWD/ready" -q </dev/null >/dev/null 2>server.err &
pid=\$!
echo \$pid >server.pid
until [ -s ready ]; do
    kill -0 \$pid 2>/dev/null || { cat server.err >&2; exit 1; }
    sleep 0.05
done
END
cat >"$work/bin/curl" <<END
#!/usr/bin/env bash
at=\$(sed -nE 's|.*//([^/]*).*|\1|p' ready)
set -- "\${@//127.0.0.1:8080/\$at}"
exec $(command -v curl || echo false) -fsS "\${@//\/run\/zinc.sock/\$PWD/zinc.sock}"
END
chmod +x "$work/bin/zinc" "$work/bin/curl"

# page FILE: its blocks into $work/page.sh; prints those that are not run, and lines that the page has wrong
blocks()
{
    awk -v page="$1" '
        /^<!-- not run: .* -->$/ { why = $0; sub(/^<!-- not run: /, "", why); sub(/ -->$/, "", why); next }
        !inside && /^```/ {
            inside = 1
            kind = substr($0, 4)
            if (kind == "")
                print "MISS: " page ":" NR ": a block that does not say what it is (sh, text, ...)"
            if (kind == "sh" && why != "")
                print "not run: " page ":" NR ": " why
            run = kind == "sh" && why == ""
            if (run)
                print "at=" NR >script
            why = ""
            next
        }
        inside && /^```/ { inside = 0; next }
        inside { if (run) { gsub("/tmp/", "./"); print >script } next }
        NF { why = "" }' script="$work/page.sh" "$1"
}

run_page()
{
    local dir=$work/page
    rm -rf "$dir" "$work/page.sh"
    : >"$work/page.sh"
    mkdir -p "$dir/build"
    blocks "$1" | tee -a "$work/said"
    [ -s "$work/page.sh" ] || return 0
    for f in "$here/$build"/*; do
        ln -sfn "$f" "$dir/build/"
    done
    ln -sfn "$work/bin/zinc" "$dir/build/zinc"
    for f in models share tools tests include examples python; do
        ln -s "$here/$f" "$dir/$f"
    done
    ln -s "$work/model.gguf" "$dir/model.gguf"
    ln -s "$work/model.gguf" "$dir/MODEL.gguf"
    cat "$here"/doc/server.md >"$dir/TEXT"
    (
        cd "$dir" || exit 1
        { echo 'trap "echo \"block at line \$at\" >&2; exit 1" ERR'; cat "$work/page.sh"; } >../page_all.sh
        PATH=$work/bin:$dir/build:$PATH timeout 120 bash ../page_all.sh </dev/null >../out 2>../err
    ) || miss "$1: $(tail -n 3 "$work/err" | tr '\n' '|')"
    [ ! -s "$dir/server.pid" ] || { kill "$(cat "$dir/server.pid")"; tail --pid="$(cat "$dir/server.pid")" -f /dev/null; }
}

: >"$work/said"
for page in README.md CONTRIBUTING.md doc/*.md; do
    case $page:$build in doc/libzinc.md:*/sanitize | doc/libzinc.md:*/thread)
        echo "skipped: 1 cases: $page: a program without the sanitizer cannot load its library: the release build's"
        continue
        ;;
    esac
    run_page "$page"
done
misses=$((misses + $(grep -c '^MISS' "$work/said")))
finish
