#!/usr/bin/env bash
# zinc pull and zinc model against a server that does what it should not (pull_server.py): files come whole and right or not
# at all, what came of them is gone on with, and tokens stay where they belong.
source tests/e2e/lib.sh
command -v python3 >/dev/null || skip "no python3: the server of this test is written in it"
files=$work/files models=$work/models
mkdir -p "$files/repo"
python3 - "$files" <<'END' || exit 1
import os, random, sys
random.seed(1)
def put(name, n):
    with open(os.path.join(sys.argv[1], name), "wb") as f:
        f.write(b"GGUF" + random.randbytes(n - 4))
put("m.gguf", 5000001)
put("repo/m-Q2_K.gguf", 70000)
put("repo/m-UD-Q4_K_XL.gguf", 90000)
for i in (1, 2, 3):
    put("repo/m-F16-0000%d-of-00003.gguf" % i, 1200000 + i)
END
cp models/zinc-demo.gguf "$files/repo/m-Q8_0.gguf"
unset HF_TOKEN HF_HOME http_proxy HTTP_PROXY all_proxy ALL_PROXY
export ZINC_MODELS=$models HOME=$work no_proxy=127.0.0.1

certificate= # TLS is tested where openssl makes one
if command -v openssl >/dev/null && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null; then
    certificate=$work/both.pem
    cat "$work/cert.pem" "$work/key.pem" >"$certificate"
fi
mkfifo "$work/end"
python3 tests/e2e/pull_server.py "$files" "$work/ready" $certificate <"$work/end" 2>"$work/server.log" &
server=$!
exec 9>"$work/end" # the server ends when this is closed
trap 'exec 9>&-; kill -KILL $server $pulls 2>/dev/null; wait 2>/dev/null; umount "$work/small" 2>/dev/null; rm -rf "$work"' EXIT
pulls=
await eval '[ -s "$work/ready" ] || ended $server'
read -r port other tls <"$work/ready" || { miss "the server did not start: $(cat "$work/server.log")"; finish; }
base=http://127.0.0.1:$port
export HF_ENDPOINT=$base
"$zinc" pull "$base/plain/none.gguf" 2>&1 | grep -q 'without libcurl' && skip "this zinc was built without libcurl"

# pull ARGS...: into $out and $err; sets $rc
pull() { "$zinc" pull "$@" >"$work/out" 2>"$work/err"; rc=$?; out=$(cat "$work/out") err=$(cat "$work/err"); }
place() { echo "$models/http/127.0.0.1:$port/$1"; }
# comes NAME FILE: it does, whole, and its path is printed
comes()
{
    pull "$1"
    [ $rc -eq 0 ] || { miss "$1: exit $rc: $err"; return; }
    cmp -s "$out" "$files/$2" || miss "$1: '$out' is not $2"
    nothing_begun "$1"
}
# fails NAME WORDS: in one line with these words, and nothing gets the file's name
fails()
{
    pull $1
    [ $rc -eq 1 ] || miss "$1: exit $rc, 1 is expected: $err"
    grep -qF -- "$2" "$work/err" || miss "$1: '$2' is expected: $err"
    [ "$(grep -c '^zinc: ' "$work/err")" = 1 ] || miss "$1: one line is expected: $err"
    [ -z "$out" ] || miss "$1: it prints $out"
}
nothing_begun() { [ -z "$(find "$models" -name '*.part*')" ] || miss "$1: left behind: $(find "$models" -name '*.part*')"; }
requests() { wc -l <"$files/log"; }
asked() { grep -c " $1" "$files/log"; } # how often for a path that begins so

# ---- as it should be, and what is mended without a word
comes "$base/plain/m.gguf" m.gguf
[ "$(grep ' /plain/m.gguf bytes=' "$files/log" | sort -u | wc -l)" -ge 5 ] || miss "plain: not in several ranges: $(cat "$files/log")"
before=$(requests)
comes "$base/plain/m.gguf" m.gguf
[ "$(requests)" = "$before" ] || miss "a file that is here is asked for again"
comes "$base/cutonce/m.gguf" m.gguf
comes "$base/cut/m.gguf" m.gguf
comes "$base/whole/m.gguf" m.gguf
comes "$base/busy/m.gguf" m.gguf
comes "$base/away/m.gguf" m.gguf
fails "$base/secret/m.gguf" "asks for a token"
echo good >"$work/token"
pull --token-file "$work/token" "$base/secret/m.gguf"
cmp -s "$out" "$files/m.gguf" || miss "--token-file with an address: $err"

if [ -n "$certificate" ]; then
    export SSL_CERT_FILE=$work/cert.pem
    comes "https://127.0.0.1:$tls/plain/m.gguf" m.gguf
    fails "https://127.0.0.1:$tls/away/m.gguf" "an https address is expected"
    unset SSL_CERT_FILE
    fails "https://127.0.0.1:$tls/whole/m.gguf" "certificate"
fi

# ---- servers that lie, or do not end
fails "$base/nolength/m.gguf" "does not tell how long"
fails "$base/endless/m.gguf" "more bytes than it said"
fails "$base/liesize/m.gguf" "GB are needed"
fails "$base/otherrange/m.gguf" "with others"
fails "$base/changes/m.gguf" "changed on the server"
fails "$base/headers/m.gguf" "bytes of headers"
fails "$base/loop/m.gguf" "redirects"
fails "$base/file/m.gguf" "file:///"
fails "$base/page/m.gguf" "no GGUF file"
fails "$base/plain/no.gguf" "there is no such file"
fails "--sha256 $(printf %064d 0) $base/plain/repo/m-Q2_K.gguf" "wrong sum"
fails "--sha256 12 $base/plain/repo/m-Q2_K.gguf" "64 hex digits"
rm -rf "$models/http" # endless has begun

# ---- a limit on files, as a full disk is
(ulimit -f 1024; fails "$base/plain/m.gguf" "File too large"; [ $misses -eq 0 ]) || miss "with a limit on files"
nothing_begun "with a limit on files"

mkdir "$work/small"
if mount -t tmpfs -o size=3m zinc-test "$work/small" 2>/dev/null; then
    ZINC_MODELS=$work/small fails "$base/plain/m.gguf" "GB are needed"
    ZINC_MODELS=$work/small fails hf:me/r:F16 "GB are needed" # its first two parts alone would fit
    [ -z "$(find "$work/small" -type f)" ] || miss "on a small disk: left behind: $(find "$work/small" -type f)"
    umount "$work/small"
fi

fails "$base/secret/m.gguf?key=hidden" "asks for a token"
grep -q hidden "$work/err" && miss "the query is shown: $err"

# ---- interrupted and killed: what came is gone on with
begun() { [ "$(head -c 4 "$1" 2>/dev/null | tr -d '\0')" = GGUF ]; } # its first bytes came
"$zinc" pull "$base/slow/m.gguf" >/dev/null 2>"$work/err" &
pulls=$!
await begun "$(place slow/m.gguf.part)" || miss "slow: nothing came"
kill -INT $pulls
wait $pulls
rc=$?
[ $rc -eq 130 ] || miss "slow: exit $rc after SIGINT: $(cat "$work/err")"
[ -s "$(place slow/m.gguf.part.json)" ] || miss "slow: no state after SIGINT"
"$zinc" model list | grep -q 'begun.*slow/m.gguf' || miss "list does not show what was begun: $("$zinc" model list)"
"$zinc" pull "$base/slow/m.gguf" >/dev/null 2>"$work/err" &
pulls=$!
grep -q '"done":\[[1-9]' "$(place slow/m.gguf.part.json)" || miss "slow: nothing is counted: $(cat "$(place slow/m.gguf.part.json)")"
rm "$(place slow/m.gguf.part.json)"
await test -s "$(place slow/m.gguf.part.json)" || miss "slow: the state is not saved while it goes on"
kill -KILL $pulls
wait $pulls 2>/dev/null
touch "$files/go"
comes "$base/slow/m.gguf" m.gguf
grep -q 'going on where' "$work/err" || miss "slow: begins anew after SIGKILL: $err"
rm "$files/go"

# ---- two at once: one brings it, the other waits
rm -rf "$models/http"
: >"$files/log"
"$zinc" pull "$base/slow/m.gguf" >"$work/one.out" 2>"$work/one.err" &
one=$!
await begun "$(place slow/m.gguf.part)" || miss "two: nothing came"
held() { [ "$(grep ' /slow/m.gguf bytes=' "$files/log" | grep -vc 'bytes=0-0 ')" -ge 4 ]; }
await held || miss "two: not four ranges at a time: $(cat "$files/log")" # each is held after 64 KiB
"$zinc" pull "$base/slow/m.gguf" >"$work/two.out" 2>"$work/two.err" &
two=$!
pulls="$one $two"
await grep -q 'another pull' "$work/two.err" || miss "two: the second does not say that it waits: $(cat "$work/two.err")"
touch "$files/go"
wait $one && wait $two || miss "two: exit $?: $(cat "$work/one.err" "$work/two.err")"
pulls=
cmp -s "$(cat "$work/two.out")" "$files/m.gguf" && cmp -s "$work/one.out" "$work/two.out" || miss "two: not the same file: $(cat "$work"/{one,two}.out)"
[ "$(asked /slow/m.gguf)" = "$(sort -u "$files/log" | wc -l)" ] || miss "two: both bring it: $(cat "$files/log")"

# ---- the hub: types, parts, sums, names, tokens
comes hf:me/r:m-Q2_K.gguf repo/m-Q2_K.gguf
grep -q 'sha256 as told' "$work/err" || miss "the hub's sum is not looked at: $err"
comes hf:me/r:Q8_0 repo/m-Q8_0.gguf
comes hf:me/r:f16 repo/m-F16-00001-of-00003.gguf
cmp -s "$models/hf/me/r/m-F16-00003-of-00003.gguf" "$files/repo/m-F16-00003-of-00003.gguf" || miss "the third part is not there"
comes hf:me/expiring:m-Q8_0.gguf repo/m-Q8_0.gguf
fails hf:me/r:Q4_K_M "there are: F16 Q2_K Q8_0 UD-Q4_K_XL"
fails hf:me/badsum:m-Q2_K.gguf "wrong sum"
[ -z "$(find "$models/hf/me/badsum" -type f 2>/dev/null)" ] || miss "badsum: left behind: $(find "$models/hf/me/badsum" -type f)"
fails "--sha256 $(printf %064d 0) hf:me/r:UD-Q4_K_XL" "another file than is expected"
fails hf:me/badsize:Q2_K "bytes are expected"
fails hf:me/hostile:Q2_K "no GGUF file"
fails hf:me/endless:Q2_K "longer than"
fails hf:me/nojson:Q2_K "no JSON"
fails hf:me/r:../m-Q2_K.gguf "not one that is taken"
fails hf:me/gated:m-Q2_K.gguf "asks for a token"
: >"$files/log"
HF_TOKEN=good comes hf:me/gated:m-Q2_K.gguf repo/m-Q2_K.gguf
pull --token-file "$work/token" hf:me/gated:m-Q8_0.gguf
[ $rc -eq 0 ] || miss "--token-file: $err"
grep -q '^0 .*Bearer good' "$files/log" || miss "the hub was sent no token"
grep '^1 ' "$files/log" | grep -q Bearer && miss "the token went to another server: $(cat "$files/log")"
grep -q '^1 ' "$files/log" || miss "nothing was asked of the other server"

"$zinc" inspect hf:me/other:Q8_0 2>/dev/null | grep -q "$models/hf/me/other/m-Q8_0.gguf" || miss "inspect pulls nothing"

# ---- what is here: list, path, rm, without the network; and -m
exec 9>&-
wait $server
export ZINC_OFFLINE=1
[ "$("$zinc" model path hf:me/r:Q8_0)" = "$models/hf/me/r/m-Q8_0.gguf" ] || miss "model path"
"$zinc" model list --json | python3 -c '
import json, sys
m = {x["name"]: x for x in json.load(sys.stdin)}
x = m["hf:me/r:m-F16-00001-of-00003.gguf"]
assert x["files"] == 3 and x["whole"] and x["bytes"] == 3600006, x' || miss "model list --json: $("$zinc" model list --json)"
"$zinc" inspect hf:me/r:Q8_0 | grep -q '^model *zinc demo' || miss "inspect takes no name"
"$zinc" run -m hf:me/r:Q8_0 --tier cpu --chat "What is 27 + 48?" --temp 0 2>/dev/null | grep -q 75 || miss "run -m takes no name"
fails hf:me/r:UD-Q4_K_XL "offline"
"$zinc" run -m hf:me/r:UD-Q4_K_XL x 2>&1 | grep -q offline || miss "run -m pulls offline"
"$zinc" model path hf:me/r 2>&1 | grep -q 'name one' || miss "one of several is taken in silence"
"$zinc" model rm hf:me/r:f16 || miss "model rm"
[ -z "$(find "$models" -name '*F16*')" ] || miss "rm leaves parts: $(find "$models" -name '*F16*')"
"$zinc" model rm hf:me/r:f16 2>/dev/null && miss "rm of what is not here"
"$zinc" model search embedding | grep -q '^qwen3-embedding' || miss "model search"
"$zinc" model search nothing-like-it >/dev/null 2>&1 && miss "model search finds nothing and succeeds"
finish
