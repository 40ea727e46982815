#!/bin/sh
# metier serve and metier chat from outside (serve_checks.py, serve_load.py, chat_terminal.py), and what it refuses before it listens. Usage: serve.sh METIER
set -u
metier=$1
. "$(dirname "$0")/../support/expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
share=$here/../../share

expect 2 'the folder of a model is missing' serve
expect 2 '--slots is 0' serve "$share/models/tiny-deepseek-v2" --slots 0
expect 2 '--port is 70000' serve "$share/models/tiny-deepseek-v2" --port 70000
expect 2 'expected NAME=DIR' serve "$share/models/tiny-deepseek-v2" --adapter folder
expect 0 'examples:' serve --help
"$metier" serve "$share/models/tiny-deepseek-v2" --port 0 --address nowhere >"$place/text" 2>&1
if grep -q 'without libmicrohttpd\|was not there when it was compiled' "$place/text"; then
    printf 'serve.sh: built without libmicrohttpd, the server is not tested\n'
    exit 77
fi
grep -q "'nowhere' is not a numeric address" "$place/text" || fail "an address in words: $(cat "$place/text")"
expect 2 "there is a model 'a' already" serve "a=$share/models/tiny-deepseek-v2" "a=$share/models/tiny-deepseek-v2"
expect 2 "a model's name has" serve "a b=$share/models/tiny-deepseek-v2"
printf '' >"$place/empty"
expect 2 'expected a key' serve "$share/models/tiny-deepseek-v2" --key-file "$place/empty"

command -v python3 >/dev/null || { printf 'serve.sh: no python3\n'; exit 77; }
"$metier" synth --domain math --count 64 --seed 1 --out "$place/math.jsonl" >/dev/null || fail "synth"
printf 'model: %s\nout: %s\ndata.path: %s\nsteps: 4\noptimizer.lr: 0.02\n' "$share/models/tiny-deepseek-v2" "$place/run" \
    "$place/math.jsonl" >"$place/run.yaml"
"$metier" train "$place/run.yaml" >/dev/null 2>"$place/text" || fail "train: $(cat "$place/text")"
mkdir "$place/adapters" && cp -r "$place/run/adapter" "$place/adapters/math" || fail "adapter"
python3 "$here/chat_terminal.py" "$metier" "$share" "$place" || fail "chat_terminal.py"
python3 "$here/serve_checks.py" "$metier" "$share" "$place" || fail "serve_checks.py"
python3 "$here/serve_load.py" "$metier" "$share" "$place" 200 || fail "serve_load.py"
printf '%d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
