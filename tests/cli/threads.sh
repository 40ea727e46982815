#!/bin/sh
# The verbs that compute, with one thread and with four: the same bytes. Under the thread sanitizer (preset tsan) it is
# the threads themselves that are looked at. Usage: threads.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
"$here/support/train-bench" "$metier" "$place" || exit 1

# Wide enough for loops to be cut into pieces: the bench's own model is too small for that.
sed 's/"hidden_size": 32/"hidden_size": 128/; s/"moe_intermediate_size": 16/"moe_intermediate_size": 96/' \
    "$place/config.json" >"$place/wide.json"
model=$place/1.model
cat >"$place/wide.yaml" <<END
model: $model
data: {path: $place/data.jsonl, max_length: 32}
batch: {examples: 32, tokens: 256}
method: metier
lora: {rank: 8, alpha: 8, dropout: 0.1}
steps: 4
device: cpu
log: {every: 1}
checkpoint: {every: 2}
END
awk 'BEGIN { for (i = 0; i < 12; i++) printf "{\"prompt\": \"%d plus %d is\"}\n", i, i % 7 }' >"$place/prompts.jsonl"
samples=$here/../share/samples
sandbox=
echo pass >"$place/nothing.py"
if "$metier" sandbox "$place/nothing.py" >/dev/null 2>&1; then sandbox=yes; else echo "no sandbox here: no programs"; fi

for threads in 1 4; do
    out=$place/$threads
    expect 0 "" init --config "$place/wide.json" --seed 1 --dtype bf16 --out "$out.model" --threads $threads
    cp "$place/model/tokenizer.json" "$out.model"
    expect 0 "" train "$place/wide.yaml" out="$out.lora" --threads $threads --quiet
    expect 0 "" train "$place/wide.yaml" out="$out.full" train=full targets=routed_experts,router steps=2 recompute=full \
        --threads $threads --quiet
    expect 0 "" merge "$model" --adapter "$place/1.lora/adapter" --out "$out.merged" --threads $threads
    expect 0 "" generate "$model" --adapter "$place/1.lora/adapter" --in "$place/prompts.jsonl" --max-new 12 --context 64 \
        --temperature 0.8 --batch 6 --out "$out.answers" --threads $threads
    expect 0 "" analyze --model "$model" --data "$place/data.jsonl" --tokens 600 --out "$out.analysis" --threads $threads
    expect 0 "" eval gsm8k mmlu_astronomy glue_cola --data "$samples" --model "$model" --out "$out.eval" --context 250 \
        --slots 4 --threads $threads --quiet
    if [ -n "$sandbox" ]; then
        # Programs that a model wrote run side by side there.
        expect 0 "" eval humaneval mbpp --samples 3 --seed 7 --data "$samples" --model "$model" --out "$out.code" \
            --context 250 --slots 4 --threads $threads --quiet
    fi
    cat "$out.eval"/samples_*.jsonl "$out.code"/samples_*.jsonl 2>/dev/null | sort >"$out.samples"
done
same 1.model/model.safetensors 4.model/model.safetensors
same 1.lora/adapter/adapter_model.safetensors 4.lora/adapter/adapter_model.safetensors
same 1.full/model/model.safetensors 4.full/model/model.safetensors
same 1.merged/model.safetensors 4.merged/model.safetensors
same 1.answers 4.answers
same 1.analysis/analysis.json 4.analysis/analysis.json
same 1.samples 4.samples
[ -s "$place/4.samples" ]
result $? "no samples"

exit $((failed > 0))
