#!/usr/bin/env bash
# The chart through Helm's own library, what it makes and the manifests of share/kubernetes through Kubernetes' schemas, and the
# Containerfile through hadolint. No cluster is asked, and no image is built (doc/packages.md says what that leaves open).
. tests/real/lib.sh
need_real kubernetes
version=$("$zinc" --version | sed -nE '1s/^zinc ([^ ]*).*/\1/p')
"$real_python" tests/real/kubernetes.py "$version" >"$work/out" 2>&1 || miss "kubernetes.py: $(grep -v ^MISS "$work/out" | tail -n 3)"
cat "$work/out"
misses=$((misses + $(grep -c ^MISS "$work/out")))
"${real_python%/*}/hadolint" --no-color Containerfile >"$work/out" 2>&1 || miss "hadolint: $(head -c 500 "$work/out")"
finish
