#!/bin/sh
# metier eval with an endpoint that answers, obedient and hostile. Usage: endpoint.sh METIER
set -u
metier=$1
folder=$(mktemp -d) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
samples=$here/../../../share/samples
failed=0
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$folder"' EXIT

fail() { printf 'endpoint.sh: %s\n' "$*"; failed=1; }

OPENAI_API_KEY=sk-very-secret-0123456789
export OPENAI_API_KEY
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy

# Nobody there: a sentence, at once.
"$metier" eval gsm8k_chat --data "$samples" --endpoint http://127.0.0.1:9/v1 --model m --retries 0 --out "$folder/none" \
    >/dev/null 2>"$folder/err" && fail "nobody there"
if grep -q 'without libcurl' "$folder/err"; then
    printf 'endpoint.sh: built without libcurl, the endpoint is not tested\n'
    exit 77
fi
grep -q '127.0.0.1: .*after 1 try$' "$folder/err" || { cat "$folder/err"; fail "nobody there: why"; }
command -v python3 >/dev/null || { printf 'endpoint.sh: no python3\n'; exit 77; }

python3 "$here/endpoint_server.py" "$folder" &
server=$!
while [ ! -s "$folder/port" ] && kill -0 $server 2>/dev/null; do sleep 0.05; done
port=$(cat "$folder/port") || exit 1

# The samples of STOP are those of GSM8K, their answers end at a text.
cat >"$folder/stop.yaml" <<'END'
title: answers that end at a text
domain: math
data: gsm8k/test.jsonl
prompt: "Question: {question}"
answer: "{answer|after:####|trim}"
extract: [last_number]
compare: math
metrics: [exact_match]
stop: ["STOP", "b", "c", "d", "e"]
max_tokens: 77
END

# again MOOD STATUS TASK [options]: goes on in $folder/run; output in out, err
again() {
    mood=$1
    expected=$2
    task=$3
    shift 3
    : >"$folder/requests"
    : >"$folder/bodies"
    "$metier" eval "$task" --data "$samples" --endpoint "http://127.0.0.1:$port/$mood/v1" --model the/model --backoff 0.01 \
        --out "$folder/run" --quiet "$@" >"$folder/out" 2>"$folder/err"
    got=$?
    [ $got -eq "$expected" ] || { cat "$folder/out" "$folder/err"; fail "$mood: exit status $got, expected $expected"; }
    cat "$folder/out" "$folder/err" "$folder"/run/* 2>/dev/null | grep -q 'very-secret' && fail "$mood: the key was written"
}
ask() {
    rm -rf "$folder/run"
    again "$@"
}
# requests MOOD: how many came for it; one that was given up on may be written down late, under its own mood
requests() { grep -c "^/$1/" "$folder/requests"; }
lines() { cat "$folder/run/samples_$1.jsonl" 2>/dev/null | wc -l; }
# said TEXT: standard error has it
said() { grep -q -- "$1" "$folder/err" || { cat "$folder/err"; fail "$mood: no '$1'"; }; }

# Answers in writing: what goes out, is said first; stop texts, lengths and temperature are passed on, and stops hold.
ask good 0 "$folder/stop.yaml"
said "^stop: 3 questions go to http://127.0.0.1:$port/good/v1/chat/completions, the model is the/model\$"
grep -q 'stop .* 3 *exact_match *1.0000' "$folder/out" || { cat "$folder/out"; fail "good: three right answers"; }
grep -q "^written: $folder/run/results.json" "$folder/out" || fail "good: where results went"
grep -q '"model_args": "the/model at http://127.0.0.1' "$folder/run/results.json" || fail "good: who answered"
grep -q STOP "$folder/run/samples_stop.jsonl" && fail "good: a stop text is left in"
grep -q '"max_tokens": 77, "temperature": 0, "stop": \["STOP", "b", "c", "d"\]}' "$folder/bodies" || fail "good: the request"
[ "$(grep -c 'with key' "$folder/requests")" -eq 3 ] || fail "good: three requests with a key"
# Requests run at the same time: nobody is answered before two have asked.
ask together 0 "$folder/stop.yaml"
# Nothing is asked twice, and the folder is this model's; another server of it may go on.
again stranger 0 "$folder/stop.yaml"
[ "$(requests stranger)" -eq 0 ] || fail "again: something was sent"
grep -q '^of 3 samples, 0 judged now and 3 before$' "$folder/out" || fail "again: what is new"
grep -q 'questions\{0,1\} go' "$folder/err" && fail "again: nothing goes out"
again good 2 "$folder/stop.yaml" --max-new 5
said 'was evaluated without --max-new; you asked for 5. Use another --out, or --again'
ask good 0 gsm8k_chat --max-tokens 5 --slots 1 --template none
grep -q '"max_tokens": 5,' "$folder/bodies" || fail "--max-tokens"
grep -q '^/good/v1/completions .*"prompt": "Question' "$folder/bodies" || fail "--template none is a plain text"
grep -q ' [23] with' "$folder/requests" && fail "--slots 1: requests run at the same time"
ask good 0 gsm8k_chat --temperature 0.5 --top-p 0.9 --seed 3 --limit 1
grep -q '"temperature": 0.5, "top_p": 0.9[0-9]*, "seed": [0-9]*[,}]' "$folder/bodies" || { cat "$folder/bodies"; fail "drawing"; }
said '^gsm8k_chat: 1 question goes to'

# Several answers of each: other seeds.
echo pass >"$folder/nothing.py"
if "$metier" sandbox "$folder/nothing.py" >/dev/null 2>&1; then
    ask good 0 humaneval_chat --samples 3 --limit 1
    [ "$(grep -o '"seed": [0-9]*' "$folder/bodies" | sort -u | wc -l)" -eq 3 ] || fail "three seeds"
    grep -q '"temperature": 0.8' "$folder/bodies" || fail "several answers are drawn"
fi

# Trouble that passes, and trouble that does not.
ask busy 0 gsm8k_chat
[ "$(requests busy)" -eq 9 ] || fail "busy: nine requests, not $(requests busy)"
ask broken 0 gsm8k_chat
ask dead 1 gsm8k_chat --retries 2 --slots 1
said '503: no room for .*after 3 tries'
ask held 1 gsm8k_chat --timeout 0.3 --retries 1
said "imeout"
ask endless 1 gsm8k_chat --timeout 0.5 --retries 0
ask truncated 1 gsm8k_chat --retries 1
ask redirect 2 gsm8k_chat
said 'metier follows no redirects'
ask stranger 2 gsm8k_chat
said 'does not accept the key'
ask nowhere 2 gsm8k_chat
# One question's trouble is its own: counted, left out of the figures, asked again.
ask picky 1 "$folder/stop.yaml"
said 'task stop: 1 question got no answer, left out of the figures; .*sample 1: HTTP status 400: too long'
grep -q 'stop .* 2 *exact_match *1.0000' "$folder/out" || { cat "$folder/out"; fail "picky: figures of two"; }
grep -q '"unanswered,none": 1' "$folder/run/results.json" || fail "picky: the summary"
[ "$(lines stop)" -eq 2 ] || fail "picky: two samples"
again good 0 "$folder/stop.yaml"
[ "$(requests good)" -eq 1 ] || fail "picky: one is asked again, not $(requests good)"
grep -q 'stop .* 3 *exact_match *1.0000' "$folder/out" || fail "picky: figures of three"
for bad in garbage shapeless deep huge refuse; do
    ask $bad 1 gsm8k_chat
    said '3 questions got no answer'
done
said 'status 400: too long'
for bad in header headers; do
    ask $bad 1 gsm8k_chat
    said '3 questions got no answer, .*header is longer than 64 KiB'
done
ask refuse 1 gsm8k_chat
grep -q "$(printf '\033')" "$folder/err" && fail "refuse: control characters reach the terminal"
ask echo 0 gsm8k_chat
ask escaped 0 gsm8k_chat
ask thinking 0 gsm8k_chat
grep -q '"resps": \[""\]' "$folder/run/samples_gsm8k_chat.jsonl" || fail "thinking: an answer of nothing"
# All of many: the run ends early.
mkdir -p "$folder/data/gsm8k"
for i in 1 2 3 4 5 6 7 8 9 10; do cat "$samples/gsm8k/test.jsonl"; done >"$folder/data/gsm8k/test.jsonl"
"$metier" eval gsm8k_chat --data "$folder/data" --endpoint "http://127.0.0.1:$port/garbage" --model m --slots 2 \
    --out "$folder/many" --quiet >"$folder/out" 2>"$folder/err" && fail "many: garbage"
said 'none of the first 20 questions got an answer (.*not JSON'

# Stopped by a signal, and killed: what is finished is not asked again. begin COUNT: until so many are answered in all.
begin() {
    : >"$folder/requests"
    echo "$1" >"$folder/go.new" && mv "$folder/go.new" "$folder/go"
    env --default-signal=INT "$metier" eval gsm8k_chat --data "$folder/data" --endpoint "http://127.0.0.1:$port/held/v1" \
        --model m --slots 4 --out "$folder/stopped" --quiet >"$folder/out" 2>"$folder/err" </dev/null &
    process=$!
    while [ "$(cat "$folder/stopped/samples_gsm8k_chat.jsonl" 2>/dev/null | wc -l)" -lt "$1" ] && kill -0 $process 2>/dev/null; do
        sleep 0.05
    done
}
begin 4
kill -INT $process
wait $process
got=$?
[ $got -eq 130 ] || { cat "$folder/err"; fail "SIGINT: exit status $got"; }
said 'the same command goes on'
begin 8
kill -KILL $process
wait $process 2>/dev/null
done=$(wc -l <"$folder/stopped/samples_gsm8k_chat.jsonl")
[ "$done" -eq 8 ] || fail "killed: $done samples are kept, 8 were answered"
: >"$folder/requests"
"$metier" eval gsm8k_chat --data "$folder/data" --endpoint "http://127.0.0.1:$port/good/v1" --model m --slots 16 \
    --out "$folder/stopped" --quiet >"$folder/out" 2>"$folder/err" || { cat "$folder/err"; fail "going on"; }
[ "$(requests good)" -eq $((30 - done)) ] || fail "going on: $(requests good) requests, $done were done"

# Log-likelihoods: whatever the tokens look like, those of the continuation count.
for kind in good bos stripped raw; do
    ask $kind 0 glue_cola
    said "^glue_cola: 2 questions go to http://127.0.0.1:$port/$kind/v1/completions,"
    [ "$(grep -c '"log_likelihoods": \[-1.5, -2\(.0\)\{0,1\}\], "greedy": \[true, true\]' "$folder/run/samples_glue_cola.jsonl")" -eq 2 ] ||
        { cat "$folder/run/samples_glue_cola.jsonl"; fail "$kind: log-likelihoods"; }
    grep -q '^/'$kind'/v1/completions .*"echo": true, "logprobs": 1' "$folder/bodies" || fail "$kind: the request"
    [ "$(requests $kind)" -eq 4 ] || fail "$kind: four requests"
done
for kind in llama answer_only uneven; do
    ask $kind 2 glue_cola
    said 'task glue_cola needs log-likelihoods, and http://127.0.0.1.* gives no log-probabilities of a prompt'
done
for kind in wild nan holes certain garbage refuse; do
    ask $kind 1 glue_cola
    said '2 questions got no answer'
    [ "$(lines glue_cola)" -eq 0 ] || fail "$kind: a sample was written"
done
ask dead 1 glue_cola --retries 0

# refuse SENTENCE options: nothing is sent
: >"$folder/requests"
refuse() {
    sentence=$1
    shift
    "$metier" eval gsm8k_chat --data "$samples" --quiet --out "$folder/refused" "$@" 2>"$folder/err" >/dev/null &&
        fail "not refused: $*"
    grep -q -- "$sentence" "$folder/err" || { cat "$folder/err"; fail "no '$sentence' for $*"; }
}
url=http://127.0.0.1:$port/never
refuse '--model NAME is missing' --endpoint "$url"
refuse 'plain http to example.org' --endpoint http://example.org/v1 --model m
refuse 'user name' --endpoint https://me:pass@example.org/v1 --model m
refuse 'not set' --endpoint "$url" --model m --key-env METIER_NO_SUCH_KEY
refuse '--slots is 1000, expected 1 to 256' --endpoint "$url" --model m --slots 1000
refuse '--device means nothing with --endpoint' --endpoint "$url" --model m --device cpu
refuse '--timeout means nothing without --endpoint' --model "$folder" --timeout 3
refuse "--template is 'chatml'" --endpoint "$url" --model m --template chatml
refuse '--timeout is 0' --endpoint "$url" --model m --timeout 0
refuse 'one of --model DIR' --endpoint "$url" --model m --answers "$folder/nothing.py"
[ "$(requests never)" -eq 0 ] || fail "something was sent"
url=http://127.0.0.1:$port/good
(cd "$folder" && "$metier" eval gsm8k_chat --data "$samples" --endpoint "$url" --model the/model --quiet >/dev/null 2>&1) ||
    fail "no --out"
[ -s "$folder/eval-model/results.json" ] || fail "results do not go to eval-model"
exit $failed
