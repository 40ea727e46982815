#!/bin/sh
# metier adapter --check and --repair: replicas of broken adapters are found by name, mended ones give the logits of good
# ones, and nothing is found in good adapters. Usage: adapter_check.sh METIER ADAPTER_FAULTS SHARE_MODELS
set -u
metier=$1
faults=$2
share=$3
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

weights=adapter_model.safetensors

# write NAME MODEL TARGETS LAYOUT: an adapter with drawn pairs.
write() {
    "$metier" forward "$2" --ids 5,17,3 --grads --train lora --targets "$3" --rank 3 --lora-b-std 0.1 \
        --save-adapter "$place/$1" --adapter-layout "$4" >"$place/text" 2>&1
}

# break_it NAME FROM FAULT EXPERTS
break_it() {
    cp -r "$place/$2" "$place/$1"
    rm "$place/$1/$weights"
    "$faults" "$3" "$place/$2/$weights" "$place/$1/$weights" "$4"
    result $? "adapter_faults $3"
}

# finds NAME MODEL FINDING: only this one.
finds() {
    expect 1 "$1: 1 finding: $3" adapter "$place/$1" --model "$2" --check
    grep -q "^$3: " "$place/text"
    result $? "$1: $3 is not explained"
}

# mends NAME MODEL GOOD: the mended adapter gives the good one's logits.
mends() {
    expect 1 "finding" adapter "$place/$1" --model "$2" --check
    expect 0 "written, mended" adapter "$place/$1" --model "$2" --repair "$place/$1-mended"
    expect 0 "nothing is wrong with it" adapter "$place/$1-mended" --model "$2" --check
    for adapter in "$1-mended" "$3"; do
        expect 0 "" forward "$2" --ids 5,17,3,8 --adapter "$place/$adapter" --out "$place/$adapter.logits"
    done
    same "$1-mended.logits" "$3.logits"
}

# Good ones: every architecture, part and layout.
good=0
for arch in deepseek deepseek_v2 deepseek_v3 mixtral phimoe olmoe qwen2_moe qwen3_moe glm4_moe glm4_moe_lite dots1 ernie4_5_moe gpt_oss; do
    model=$here/model/golden/$arch
    for targets in attention router routed_experts shared_experts dense_mlp lm_head '*'; do
        rm -rf "$place/good"
        write good "$model" "$targets" auto || continue # a part the model does not have
        expect 0 "nothing is wrong with it" adapter "$place/good" --model "$model" --check
        good=$((good + 1))
    done
    for layout in per-expert vllm; do
        expect 0 "" adapter "$place/good" --model "$model" --layout $layout --out "$place/$arch-$layout"
        expect 0 "nothing is wrong with it" adapter "$place/$arch-$layout" --model "$model" --check
        good=$((good + 1))
    done
done
[ $good -ge 100 ]
result $? "only $good good adapters"

# Trained by a few steps: columns that the structure says nothing about.
"$metier" synth --domain math --count 200 --out "$place/math.jsonl" >/dev/null
printf 'model: %s\nout: %s\ndata.path: %s\nmethod: none\nsteps: 3\ntargets: ["*.experts.*.w2"]\n' \
    "$share/tiny-mixtral" "$place/run" "$place/math.jsonl" >"$place/run.yaml"
"$metier" train "$place/run.yaml" --quiet >"$place/text" 2>&1
result $? "training"
mv "$place/run/adapter" "$place/trained"
expect 0 "nothing is wrong with it" adapter "$place/trained" --model "$share/tiny-mixtral" --check
break_it unsloth trained expert-order 8
finds unsloth "$share/tiny-mixtral" expert-order
mends unsloth "$share/tiny-mixtral" trained

# Stacks: their structure decides.
model=$here/model/golden/qwen2_moe
experts=$(sed -n 's/.*"num_experts": *\([0-9]*\).*/\1/p' "$model/config.json")
write stacks "$model" 'attention,routed_experts' fused
for fault in expert-order:expert-order peft-0.18:peft-0.18-stacks; do
    name=${fault%%:*}
    break_it "$name" stacks "$name" "$experts"
    finds "$name" "$model" "${fault#*:}"
    mends "$name" "$model" stacks
done
break_it both peft-0.18 expert-order "$experts"
"$metier" adapter "$place/both" --model "$model" --check >"$place/text" 2>&1
grep -q "peft-0.18-stacks" "$place/text"
result $? "in and out exchanged, another order: not found"

# Names.
write single "$model" 'attention,routed_experts,shared_experts' per-expert
break_it renamed single renamed "$experts"
finds renamed "$model" other-names
mends renamed "$model" single
for fault in unknown:unknown-module stray:stray-tensors half:half-pair narrow:shape nan:not-finite huge:enormous \
    zero:changes-nothing; do
    name=${fault%%:*}
    break_it "$name" single "$name" "$experts"
    finds "$name" "$model" "${fault#*:}"
    expect 2 "cannot be sure how to repair" adapter "$place/$name" --model "$model" --repair "$place/x"
done

# What parallel training loses, in both layouts.
for layout in single stacks; do
    break_it "shards-$layout" $layout shards "$experts"
    finds "shards-$layout" "$model" lost-shards
    break_it "ranks-$layout" $layout ranks "$experts"
    finds "ranks-$layout" "$model" still-experts
done

# Configs.
write shared "$model" shared_experts per-expert
sed -i 's/"target_modules": \[/"target_modules": ["gate_proj", "up_proj", "down_proj",/' "$place/shared/adapter_config.json"
finds shared "$model" experts-untrained
cp -r "$place/single" "$place/pattern"
sed -i 's/"rank_pattern": {}/"rank_pattern": {"mlp.expert.gate_up_proj": 8}/' "$place/pattern/adapter_config.json"
finds pattern "$model" unused-pattern
cp -r "$place/single" "$place/rank"
sed -i 's/"r": 3/"r": 6/' "$place/rank/adapter_config.json"
finds rank "$model" rank
cp -r "$place/single" "$place/dora"
sed -i 's/"use_dora": false/"use_dora": true/' "$place/dora/adapter_config.json"
finds dora "$model" more-than-lora

# What single programs leave out of a good adapter.
write mla "$here/model/golden/deepseek_v2" attention per-expert
expect 0 "never applies the pairs of kv_b_proj" adapter "$place/mla" --model "$here/model/golden/deepseek_v2" --check

# Hostile folders: a sentence.
cp -r "$place/single" "$place/cut"
head -c 1000 "$place/single/$weights" >"$place/cut/$weights"
expect 2 "$weights" adapter "$place/cut" --model "$model" --check
printf '{"r": "many"}' >"$place/cut/adapter_config.json"
cp "$place/single/$weights" "$place/cut/$weights"
expect 2 "adapter_config.json: r is the string" adapter "$place/cut" --model "$model" --check
printf '[' >"$place/cut/adapter_config.json"
expect 2 "adapter_config.json" adapter "$place/cut" --model "$model" --check
expect 1 "cannot open" adapter "$place/nowhere" --model "$model" --check
expect 0 "there is nothing to mend" adapter "$place/single" --model "$model" --repair "$place/x"
expect 2 "exists and is not empty" adapter "$place/unsloth" --model "$share/tiny-mixtral" --repair "$place/single"
expect 2 "--layout means nothing with --check or --repair" adapter "$place/single" --model "$model" --check --layout vllm
if ls "$place"/*.tmp.* >/dev/null 2>&1 || [ -e "$place/x" ]; then
    fail "something is left behind"
fi

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
