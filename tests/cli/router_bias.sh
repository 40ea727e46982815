#!/bin/bash
# Loss-free balancing on architectures without a correction bias: what training balanced stays balanced wherever the
# result is read. Usage: router_bias.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

awk 'BEGIN { for (i = 0; i < 120; i++) {
    answer = i + i % 7; for (j = 0; j < i % 4; j++) answer = answer " ok"
    printf "{\"prompt\": \"%d plus %d is\", \"completion\": \" %s\"}\n", i, i % 7, answer } }' >"$place/data.jsonl"
# Every step sees all of the data, so that step 21 measures it with what step 20 has left.
cat >"$place/run.yaml" <<END
model: $place/mixtral
out: $place/run
data: {path: $place/data.jsonl, max_length: 32}
batch: {examples: 120, tokens: 4096}
noise: false
method: loss-free
objective: {bias_rate: 0.01}
optimizer: {lr: 1e-3, schedule: constant, warmup: 0}
steps: 20
log: {every: 1, measure_every: 0, tensorboard: false}
checkpoint: {every: 0}
END

# maxvio NAME MODEL [ADAPTER]: every layer's of the data, as metier analyze sees it.
maxvio() {
    rm -rf "$place/seen-$1"
    "$metier" analyze --model "$2" ${3:+--adapter "$3"} --data "$place/data.jsonl" --sample 50 --queries 20 \
        --out "$place/seen-$1" >/dev/null 2>&1
    python3 -c 'import json, sys
print(*["%.6f" % layer["maxvio"] for layer in json.load(open(sys.argv[1]))["overall"]["layers"]])' "$place/seen-$1/analysis.json"
}

# trained RUN STEP: the same as the training step saw it.
trained() {
    python3 -c 'import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
row = [r for r in rows if r["kind"] == "step" and r["step"] == int(sys.argv[2])][0]
print(*["%.6f" % v for v in row["layers"]["max_violation"]])' "$place/$1/metrics.jsonl" "$2"
}

# equal WHAT A B, unequal WHAT A B: texts, none of them empty.
equal() {
    [ -n "$2" ] && [ "$2" = "$3" ]
    result $? "$1: $2 and $3"
}
unequal() {
    [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ]
    result $? "$1: $2 and $3"
}

for architecture in deepseek deepseek_v2 mixtral olmoe qwen3_moe qwen2_moe; do
    model=$place/$architecture
    "$here/support/any-model" "$metier" $architecture "$model" || exit 1
    for kind in lora full; do
        [ $kind = full ] && [ $architecture != mixtral ] && [ $architecture != qwen3_moe ] && continue
        run=$place/$architecture-$kind
        expect 0 "and route without them" train "$place/run.yaml" model="$model" train=$kind out="$run" --quiet
        expect 0 "" train "$place/run.yaml" model="$model" train=$kind out="$run-more" steps=21 --quiet
        balanced=$(trained "$architecture-$kind-more" 21)
        if [ $kind = lora ]; then
            file=$run/adapter/router_bias.safetensors
            set -- "$model" "$run/adapter"
        else
            file=$run/model/router_bias.metier
            set -- "$run/model"
        fi
        equal "$architecture, $kind, trained and analyzed" "$balanced" "$(maxvio with "$@")"
        mv "$file" "$place/aside"
        unequal "$architecture, $kind, without the file" "$balanced" "$(maxvio without "$@")"
        mv "$place/aside" "$file"
    done
done

# Where it is read: forward, generate; merged; trained on from there.
model=$place/mixtral
adapter=$place/mixtral-lora/adapter
cp -r "$adapter" "$place/bare"
rm "$place/bare/router_bias.safetensors"
printf '{"prompt": "%s"}\n' "7 plus 3 is" "12 plus 5 is" "one" >"$place/prompts.jsonl"
for name in mixtral-lora/adapter bare; do
    out=$place/${name##*/}
    expect 0 "" forward "$model" --ids 5,17,3,90,211,400,33,8,71,5,17 --adapter "$place/$name" --out "$out.logits"
    expect 0 "" generate "$model" --adapter "$place/$name" --in "$place/prompts.jsonl" --out "$out.jsonl" --max-new 24
done
differ adapter.logits bare.logits "forward"
differ adapter.jsonl bare.jsonl "generate"
expect 0 "the merged model routes without them" merge "$model" --adapter "$adapter" --out "$place/merged" --verify
grep -q "tolerance 1e-04" "$place/text" && grep -q "without it, as other programs read the folder, the root mean square is" "$place/text"
result $? "verify claims more than it looked at"
equal "merged" "$(maxvio adapter "$model" "$adapter")" "$(maxvio merged "$place/merged")"
expect 0 "" generate "$place/merged" --in "$place/prompts.jsonl" --out "$place/merged.jsonl" --max-new 24
same adapter.jsonl merged.jsonl "merged, generate"
expect 0 "tensors merged" merge "$model" --adapter "$place/bare" --out "$place/plain" --verify
! grep -q "router_bias" "$place/text" && [ ! -e "$place/plain/router_bias.metier" ]
result $? "a merged model has biases from nowhere"

# An adapter, or a model, that training starts from: its biases act, and go along, whatever the method.
expect 0 "router_bias.safetensors in it" train "$place/run.yaml" out="$place/on" adapter="$adapter" method=none steps=1 --quiet
equal "going on from an adapter" "$(maxvio on "$model" "$adapter")" "$(trained on 1)"
same mixtral-lora/adapter/router_bias.safetensors on/adapter/router_bias.safetensors
expect 0 "router_bias.safetensors in it" train "$place/run.yaml" out="$place/over" model="$place/merged" method=none steps=1 --quiet
same mixtral-lora/adapter/router_bias.safetensors over/adapter/router_bias.safetensors
expect 0 "" train "$place/run.yaml" out="$place/free" adapter="$adapter" steps=1 --quiet
differ mixtral-lora/adapter/router_bias.safetensors free/adapter/router_bias.safetensors

# What goes on after a stop ends with the same bytes, the biases', too.
expect 0 "" train "$place/run.yaml" out="$place/parts" checkpoint.every=7 checkpoint.keep=9 --quiet
rm -r "$place/parts/adapter" "$place/parts/checkpoints/step-00000020"
expect 0 "as trained, 20 steps" train "$place/run.yaml" out="$place/parts" checkpoint.every=7 checkpoint.keep=9 --quiet
same mixtral-lora/adapter/router_bias.safetensors parts/adapter/router_bias.safetensors
same mixtral-lora/adapter/adapter_model.safetensors parts/adapter/adapter_model.safetensors

# The dry run says what will be written; DeepSeek-V3 has tensors for it; SparseMixer chooses without.
expect 0 "the routers' biases are written as router_bias.safetensors" train "$place/run.yaml" --dry-run
for architecture in deepseek_v3 phimoe; do "$here/support/any-model" "$metier" $architecture "$place/$architecture" || exit 1; done
expect 0 "as trained" train "$place/run.yaml" model="$place/deepseek_v3" train=full out="$place/v3" steps=1 --quiet
! grep -q "router_bias" "$place/text" && [ ! -e "$place/v3/model/router_bias.metier" ]
result $? "DeepSeek-V3 got a file it has no need of"
# ERNIE's has another name and shape in memory: lines of Python must not pretend to load it.
"$here/support/any-model" "$metier" ernie4_5_moe "$place/ernie" || exit 1
expect 0 "is not loaded: the merged model" train "$place/run.yaml" model="$place/ernie" out="$place/e" steps=1 --quiet
expect 0 "correction biases of 2 layers" merge "$place/ernie" --adapter "$place/e/adapter" --out "$place/em"
expect 2 "SparseMixer chooses without a bias" train "$place/run.yaml" model="$place/phimoe" out="$place/phi" --dry-run

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
