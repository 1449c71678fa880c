#!/bin/sh
# tools/gen/inline_page.sh INDEX: the page with its parts written into it. A line `<!-- include FILE -->` is replaced by
# the file of that name beside INDEX, in <style> or <script> by its ending; @SCRIPTS@ by the scripts' hashes, as a content
# security policy names them: a browser runs these and no others.
set -eu
index=${1:?usage: inline_page.sh INDEX}
dir=$(dirname "$index")
hashes=
for f in $(sed -n 's/^<!-- include \([A-Za-z0-9_.-]*\.js\) -->$/\1/p' "$index"); do
    if grep -q '</script\|<!--' "$dir/$f"; then
        echo "inline_page.sh: $dir/$f holds </script or <!--, which would end it early" >&2
        exit 1
    fi
    sum=$({ echo && cat "$dir/$f"; } | sha256sum | cut -c 1-64 | tr a-f A-F | basenc --base16 -d | base64)
    hashes="$hashes 'sha256-$sum'"
done
exec awk -v dir="$dir" -v hashes="${hashes# }" '
function put(file, tag,    line, n) {
    print "<" tag ">"
    while ((n = (getline line < (dir "/" file))) > 0)
        print line
    close(dir "/" file)
    if (n < 0) {
        print "inline_page.sh: no " dir "/" file >"/dev/stderr"
        exit 1
    }
    print "</" tag ">"
}
/^<!-- include [A-Za-z0-9_.-]+ -->$/ {
    put($3, $3 ~ /\.css$/ ? "style" : "script")
    next
}
{ sub(/@SCRIPTS@/, hashes); print }' "$index"
