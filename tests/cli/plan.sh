#!/bin/bash
# The memory metier plan predicts is what a dry run on as many ranks counts, line by line, and what a run then holds, within
# two percent: architectures, LoRA and full training, recomputation, quantised weights, 1 to 8 ranks. Links from a
# table, whose broken rows are named. Usage: plan.sh METIER
set -u
metier=$(realpath "$1")
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

# model ARCHITECTURE: in $place/ARCHITECTURE, with a tokenizer; a folder with its config alone beside it.
model() {
    "$here/support/any-model" "$metier" "$1" "$place/$1" >/dev/null 2>&1 || fail "no model of $1"
    mkdir -p "$place/$1-config"
    cp "$place/$1/config.json" "$place/$1-config"
}
awk 'BEGIN { for (i = 0; i < 80; i++) printf "{\"prompt\": \"%d plus %d is\", \"completion\": \" %d\"}\n", i, i % 7, i + i % 7 }' >"$place/data.jsonl"
cat >"$place/run.yaml" <<END
out: $place/run
data: {path: $place/data.jsonl, max_length: 32}
batch: {examples: 16, tokens: 64}
steps: 2
device: cpu
threads: 1
log: {tensorboard: false}
END

# memory FILE: the lines of memory, without what a run holds of its data.
memory() {
    awk '/^memory of/ { on = 1; next } /^$/ { on = 0 } on && !/data and the rest|in all/ { print }' "$1"
}

# same ARCHITECTURE RANKS WORDS...
same() {
    local name=$1 ranks=$2
    shift 2
    "$metier" launch -n "$ranks" train "$place/run.yaml" model="$place/$name" "$@" --dry-run >"$place/dry" 2>"$place/said" ||
        fail "dry run of $name $ranks $*: $(tail -n 1 "$place/said")"
    for folder in "$name" "$name-config"; do
        "$metier" plan "$place/run.yaml" --ranks "$ranks" model="$place/$folder" "$@" >"$place/plan" 2>"$place/said" ||
            fail "plan of $folder $ranks $*: $(tail -n 1 "$place/said")"
        diff <(memory "$place/dry") <(memory "$place/plan") >"$place/difference" && [ "$(memory "$place/plan" | wc -l)" -ge 6 ]
        result $? "$folder, $ranks ranks, $*: a dry run and a plan differ: $(cat "$place/difference")"
    done
}
for name in olmoe qwen3_moe deepseek_v2 deepseek_v3 mixtral gpt_oss; do model $name; done
for name in olmoe deepseek_v2 deepseek_v3 mixtral gpt_oss; do same $name 2 parallel.experts=2; done
same qwen3_moe 1 train=full method=none
for recompute in none moe full; do same qwen3_moe 4 parallel.experts=2 recompute=$recompute method=paper; done
same qwen3_moe 8 train=full recompute=moe
same olmoe 8 parallel.experts=4 lora.rank=3 activations=bf16 parallel.room=1.5
same deepseek_v3 4 parallel.experts=4 quantize.format=nf4
same olmoe 4 quantize.format=fp8 method=aux

# What the plan chooses by itself, and why: all experts on every rank where there is room, else the fewest ranks that do.
# Of a config alone, whose experts outweigh all else.
mkdir "$place/wide"
cat >"$place/wide/config.json" <<'END'
{"model_type": "qwen3_moe", "hidden_size": 256, "intermediate_size": 256, "moe_intermediate_size": 512,
 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 32,
 "num_experts_per_tok": 2, "norm_topk_prob": true, "vocab_size": 440, "max_position_embeddings": 256,
 "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
END
alone() { "$metier" plan "$place/wide" --ranks 8 batch.tokens=64 data.max_length=32 "$@" | awk '/^  in all/ { print $3 * ($4 == "MB" ? 1000 : 1) }'; }
one=$(alone parallel.experts=1) two=$(alone parallel.experts=2) four=$(alone parallel.experts=4)
awk "BEGIN { exit !($one > $two && $two > $four && $four > 0) }"
result $? "more ranks that share experts hold no less: $one, $two, $four kB"
small="batch.tokens=64 data.max_length=32 recompute=none memory.limit"
room=16778 # what saving takes for a while: 16 MiB
for case in "1 $one" "2 $two" "4 $four"; do
    expect 0 "experts over ${case% *}, 64 tokens" plan "$place/wide" --ranks 8 parallel.experts=auto ${small}=$(awk "BEGIN { print ${case#* } + $room + 10 }")kB
done
expect 0 "4 of 8 ranks share the experts: a rank with all of them needs at least" plan "$place/wide" --ranks 8 \
    parallel.experts=auto ${small}=$(awk "BEGIN { print $four + $room + 10 }")kB
expect 0 "nothing fits: with the experts over 8 of 8 ranks" plan "$place/wide" --ranks 8 parallel.experts=auto ${small}=1MB
expect 0 "data parallel, every rank with all experts" plan "$place/wide" --ranks 8 parallel.experts=auto

# Links.
cat >"$place/links.yaml" <<'END'
pigeon: {bandwidth: 0.001, latency: 100000, source: "RFC 1149"}
nvlink-4: {bandwidth: 450, latency: 3, source: "data sheet"}
END
expect 0 "RFC 1149" plan "$place/olmoe" --links "$place/links.yaml" --link pigeon
slow=$(sed -n 's/.*time of a step *\([0-9.]*\).*/\1/p' "$place/text")
expect 0 "nvlink-5" plan "$place/olmoe" --link nvlink-5
fast=$(sed -n 's/.*time of a step *\([0-9.]*\).*/\1/p' "$place/text")
awk "BEGIN { exit !($slow > 1000 * $fast && $fast > 0) }"
result $? "a step takes $slow ms with pigeons and $fast over NVLink"
expect 2 "--link is 'infiniband-ndr', and $place/links.yaml has pigeon, nvlink-4" plan "$place/olmoe" --links "$place/links.yaml"
# The dry run of two ranks sends what their plan does; a rank's tokens of a step are the mean of its data's.
"$metier" launch -n 2 train "$place/run.yaml" model="$place/olmoe" --dry-run >"$place/dry" 2>/dev/null
"$metier" plan "$place/run.yaml" model="$place/olmoe" --ranks 2 >"$place/text"
diff <(awk '/^  nvlink-4/ { print $2, $3, $4 }' "$place/dry") <(awk '/^  nvlink-4/ { print $2, $3, $4 }' "$place/text") >"$place/difference" &&
    grep -q '^  nvlink-4 ' "$place/dry"
result $? "a dry run and a plan send gradients in other times: $(cat "$place/difference")"
# broken TEXT SENTENCE
broken() {
    printf '%s\n' "$1" >"$place/broken.yaml"
    expect 2 "$2" plan "$place/olmoe" --links "$place/broken.yaml"
}
broken 'a: {bandwidth: 1, source: x}' "broken.yaml:1: a needs bandwidth, latency and source"
broken 'a: {bandwidth: 0, latency: 1, source: x}' "broken.yaml:1: bandwidth is 0, expected NUMBER > 0"
broken 'a: {bandwidth: -5, latency: 1, source: x}' "broken.yaml:1: bandwidth is -5"
broken 'a: {bandwidth: 1, latency: soon, source: x}' "broken.yaml:1: latency is soon"
broken 'a: {bandwith: 1, latency: 1, source: x}' "did you mean 'bandwidth'"
broken 'a: fast' "broken.yaml:1: a is a text, expected {bandwidth"
broken '' "expected links by name"
broken '[1, 2]' "expected links by name"
expect 1 "none.yaml" plan "$place/olmoe" --links "$place/none.yaml"

# What cannot be.
expect 2 "parallel.experts is 3, which does not divide 4 ranks" plan "$place/olmoe" --ranks 4 parallel.experts=3
expect 2 "experts cannot be spread over 16 ranks" plan "$place/olmoe" --ranks 16 parallel.experts=16
expect 2 "lora.rnak" plan "$place/olmoe" lora.rnak=3
expect 2 "expected a model folder" plan
expect 1 "there is no such file or folder" plan "$place/nowhere"

printf '%d as expected, %d not\n' $passed $failed
[ $failed -eq 0 ]
