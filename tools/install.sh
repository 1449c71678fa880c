#!/bin/sh
# tools/install.sh put|remove BUILD PREFIX: the files of an installation, each where its readers look for it (the file
# system hierarchy of man hier; completions as bash-completion, zsh and fish document their folders).
set -eu
what=$1 build=$2 prefix=$3
version=$(sed -n 's/^Version: //p' "$build/libzinc.pc" 2>/dev/null || :)

file() # MODE FROM TO
{
    case $what in
    put) [ -e "$2" ] || return 0; install -D -m "$1" "$2" "$prefix/$3" ;;
    remove) rm -f "$prefix/$3" ;;
    esac
}

link() # TO NAME
{
    case $what in
    put) ln -sf "$1" "$prefix/$2" ;;
    remove) rm -f "$prefix/$2" ;;
    esac
}

for p in zinc mkmodel quantize streamdump streamdiff pm4dump vkstats mmbench grammarbench loadgen amdsim; do
    file 755 "$build/$p" "bin/$p"
done
file 644 "$build/libamdsim.so" lib/zinc/libamdsim.so
[ "$what" = put ] || rm -f "$prefix"/lib/libzinc.so.* # whatever version it was
if [ "$what" = remove ] || [ -e "$build/libzinc.so.0" ]; then
    file 644 include/zinc.h include/zinc.h
    file 644 "$build/libzinc.so.0" "lib/libzinc.so.$version"
    link "libzinc.so.$version" lib/libzinc.so.0
    link libzinc.so.0 lib/libzinc.so
    file 644 "$build/libzinc.pc" lib/pkgconfig/libzinc.pc
    file 644 python/zinc.py share/zinc/python/zinc.py
    file 644 examples/answer.c share/doc/zinc/examples/answer.c
fi
file 644 "$build/zinc.1" share/man/man1/zinc.1
for d in README.md CONTRIBUTING.md LICENSE doc/*.md doc/*.svg doc/*.png doc/img/*.png share/openapi.json share/zinc.service \
    share/grafana-dashboard.json share/prometheus-alerts.yml Containerfile $(find share/kubernetes share/helm -type f); do
    file 644 "$d" "share/doc/zinc/$d"
done
file 644 share/zinc.service share/zinc/zinc.service
file 644 share/grafana-dashboard.json share/zinc/grafana-dashboard.json
file 644 share/prometheus-alerts.yml share/zinc/prometheus-alerts.yml
file 644 share/openapi.json share/zinc/openapi.json
file 644 models/zinc-demo.gguf share/zinc/zinc-demo.gguf
file 644 models/zinc-demo.eval.jsonl share/zinc/zinc-demo.eval.jsonl

completion() # SHELL TO
{
    case $what in
    put)
        mkdir -p "$prefix/$(dirname "$2")"
        "$build/zinc" completion "$1" >"$prefix/$2"
        ;;
    remove) rm -f "$prefix/$2" ;;
    esac
}
completion bash share/bash-completion/completions/zinc
completion zsh share/zsh/site-functions/_zinc
completion fish share/fish/vendor_completions.d/zinc.fish

case $what in
put) echo "installed below $prefix: bin/zinc and its tools, libzinc with its header, share/doc/zinc, share/zinc, the manual page and completions" ;;
remove)
    for d in share/doc/zinc/share/kubernetes share/doc/zinc/share/helm/zinc/templates share/doc/zinc/share/helm/zinc \
        share/doc/zinc/share/helm share/doc/zinc/doc/img share/doc/zinc/doc share/doc/zinc/share share/doc/zinc/examples \
        share/doc/zinc share/zinc/python share/zinc lib/zinc lib/pkgconfig; do
        rmdir "$prefix/$d" 2>/dev/null || :
    done
    ;;
esac
