#!/bin/sh
# pack/chart.sh VERSION OUT: the Helm chart as an archive, as `helm package` names and lays it out; prints its path.
set -eu
version=$1 out=$2
for key in version appVersion; do
    grep -qx "$key: $version" share/helm/zinc/Chart.yaml || { echo "pack/chart.sh: share/helm/zinc/Chart.yaml has $(grep "^$key:" share/helm/zinc/Chart.yaml), expected $version" >&2; exit 1; }
done
mkdir -p "$out"
tar -C share/helm --sort=name --format=gnu --mtime="@$(pack/epoch.sh)" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    -cf - zinc | gzip -9n >"$out/zinc-$version.tgz"
echo "$out/zinc-$version.tgz"
