#!/bin/sh
# metier probe against metier serve: adapters that are applied, not applied, and of which parts are dead; and servers that
# answer something else. Usage: probe.sh METIER ADAPTER_FAULTS
set -u
metier=$1
faults=$2
. "$(dirname "$0")/../support/expect.sh"
here=$(cd "$(dirname "$0")" && pwd)
base=$here/../../share/models/tiny-deepseek-v2
export OMP_NUM_THREADS=1

expect 2 '--model NAME is missing' probe http://127.0.0.1:1
expect 2 '--adapter DIR is missing' probe http://127.0.0.1:1 --model a
expect 2 '--base DIR is missing' probe http://127.0.0.1:1 --model a --adapter "$place"
expect 2 '--texts is 1' probe http://127.0.0.1:1 --model a --adapter "$place" --base "$base" --texts 1
expect 0 'examples:' probe --help
"$metier" probe ftp://nowhere --model a --adapter "$place" --base "$base" >"$place/text" 2>&1 && fail "ftp is taken"
if grep -q 'without libcurl\|was not there when it was compiled' "$place/text"; then
    printf 'probe.sh: built without libcurl, nothing can be asked\n'
    exit 77
fi
"$metier" serve "$base" --port 0 --address nowhere >"$place/text" 2>&1
if grep -q 'without libmicrohttpd\|was not there when it was compiled' "$place/text"; then
    printf 'probe.sh: built without libmicrohttpd, there is no server to ask\n'
    exit 77
fi
command -v python3 >/dev/null || { printf 'probe.sh: no python3\n'; exit 77; }

# write NAME TARGETS [STD]: pairs are drawn by their names, so that those of one name are the same everywhere.
write() {
    "$metier" forward "$base" --threads 1 --ids 5,17,3 --grads --train lora --targets "$2" --rank 8 --lora-b-std "${3:-0.05}" \
        --save-adapter "$place/$1" --adapter-layout per-expert >"$place/text" 2>&1 || fail "forward: $(cat "$place/text")"
}
most=router,shared_experts,dense_mlp
write whole "attention,routed_experts,$most"
write unexpert "attention,$most"
write unkey "*.q_proj,*.kv_a_proj_with_mqa,*.o_proj,routed_experts,$most"
write begun 'model.layers.0.*,model.layers.1.*'
write half "attention,routed_experts,$most" 0.025
cp -r "$place/whole" "$place/exchanged"
"$faults" exchanged "$place/whole/adapter_model.safetensors" "$place/exchanged/adapter_model.safetensors" 16
result $? "adapter_faults exchanged"
write faint "attention,routed_experts,$most" 0.0000001

"$metier" serve "$base" --threads 1 --adapter whole="$place/whole" --adapter unexpert="$place/unexpert" \
    --adapter unkey="$place/unkey" --adapter begun="$place/begun" --adapter half="$place/half" --adapter exchanged="$place/exchanged" --port 0 \
    >"$place/served" 2>"$place/serve.log" &
server=$!
until grep -q listening "$place/served" || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
url=$(sed -n 's/listening on //p' "$place/served")
printf '1 + 2 =\n7 * 8 =\nmercury at\nx = 3\nThe cat\ndef f(\nab ab a\n2, 4, 6\nif a is\nred, bl\n3 - 1\nwater\n' >"$place/texts"

# probes STATUS VERDICT NAME [ADAPTER]: the first line is the verdict.
probes() {
    expect "$1" "$2" probe "$url" --threads 1 --texts 10 --data "$place/texts" --model "$3" --adapter "$place/${4:-whole}" \
        --base "$base"
    [ "$(head -n 1 "$place/text" | cut -c "1-${#2}")" = "$2" ]
    result $? "$3: the verdict is not the first line: $(head -n 1 "$place/text")"
}
probes 0 'applied' whole
! grep -q 'not to be told\|dead' "$place/text"
result $? "whole: something is dead"
probes 1 'not applied' tiny-deepseek-v2
probes 1 'applied, but these parts are dead: routed experts' unexpert
[ "$(head -n 1 "$place/text")" = 'applied, but these parts are dead: routed experts' ]
result $? "unexpert: $(head -n 1 "$place/text")"
probes 1 'applied, but these parts are dead: kv_b_proj' unkey
[ "$(head -n 1 "$place/text")" = 'applied, but these parts are dead: kv_b_proj' ]
result $? "unkey: $(head -n 1 "$place/text")"
probes 1 'applied, but these parts are dead: ' begun
for part in q_proj kv_b_proj o_proj 'routed experts'; do
    head -n 1 "$place/text" | grep -q "$part of layers 2 to 3"
    result $? "begun: $part of layers 2 to 3 are not named: $(head -n 1 "$place/text")"
done
probes 1 "applied, but experts have each other's pairs: expert 0 has those of 15, 1 of 0, 2 of 1, 3 of 2" exchanged
probes 1 'applied with 0.50 times its strength' half
probes 1 'cannot say: the adapter changes next to nothing' whole faint
expect 2 "there is no model 'nobody'" probe "$url" --threads 1 --data "$place/texts" --model nobody --adapter "$place/whole" \
    --base "$base"
kill $server
wait $server

# Weights in 8 bits: applied, after as many texts as that takes.
"$metier" serve "$base" --threads 1 --adapter whole="$place/whole" --port 0 \
    --quantize fp8,routed_experts,shared_experts,dense_mlp,attention >"$place/rounded" 2>"$place/serve.log" &
server=$!
until grep -q listening "$place/rounded" || ! kill -0 $server 2>/dev/null; do sleep 0.05; done
url=$(sed -n 's/listening on //p' "$place/rounded")
probes 0 'applied' whole
grep -q "the server's weights seem to be rounded to fp8" "$place/text"
result $? "fp8 is not named: $(cat "$place/text")"
kill $server
wait $server

# Servers that are something else.
python3 "$here/probe_servers.py" "$place/ports" &
others=$!
until [ -s "$place/ports" ] || ! kill -0 $others 2>/dev/null; do sleep 0.05; done
# says KIND TEXT: an exit status that is not 0, and a sentence.
says() {
    port=$(sed -n "s/^$1 //p" "$place/ports")
    "$metier" probe "http://127.0.0.1:$port" --threads 1 --data "$place/texts" --texts 4 --retries 1 --backoff 0 --timeout 1 \
        --model m --adapter "$place/whole" --base "$base" >"$place/text" 2>&1
    [ $? -ne 0 ] && grep -qF -- "$2" "$place/text"
    result $? "$1: $(cat "$place/text")"
}
says nothing 'the server gives no log-probabilities'
says null 'the server gives no log-probabilities'
says nan 'reply is not JSON'
says garbage 'reply is not JSON'
says positive 'top_logprobs'
says foreign 'it serves another model'
says refusing 'the server refuses: HTTP status 400'
says hung 'after 2 tries'
says chance 'cannot say: '
kill $others
wait $others 2>/dev/null
printf '%d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
