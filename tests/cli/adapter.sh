#!/bin/sh
# metier adapter from outside: every layout into every other, warnings, the lines that load. Usage: adapter.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

weights=adapter_model.safetensors
model=$here/model/golden/deepseek_v2
everything="--grads --train lora --targets attention,router,routed_experts,shared_experts,dense_mlp,lm_head --rank 3 --lora-b-std 0.1"

# From every layout to every other, and back to the same bytes.
for from in per-expert fused vllm; do
    # shellcheck disable=SC2086
    expect 0 "" forward "$model" --ids 5,17,3 $everything --save-adapter "$place/$from" --adapter-layout $from
done
for from in per-expert fused vllm; do
    for to in per-expert fused vllm; do
        expect 0 "$to layout" adapter "$place/$from" --model "$model" --layout $to --out "$place/$from-$to"
        same $to/$weights $from-$to/$weights
        same $to/adapter_config.json $from-$to/adapter_config.json
    done
done

# What is written without a word about it is what PEFT loads.
# shellcheck disable=SC2086
expect 0 "" forward "$model" --ids 5,17,3 $everything --save-adapter "$place/auto"
same fused/$weights auto/$weights
expect 0 "fused layout" adapter "$place/vllm" --model "$model" --out "$place/default"
same fused/$weights default/$weights

# vLLM: what it leaves out is said, what it needs is there.
expect 0 "never applies the pairs of kv_b_proj" adapter "$place/fused" --model "$model" --layout vllm --out "$place/warned"
expect 0 "refuses a pair on lm_head" adapter "$place/fused" --model "$model" --layout vllm --out "$place/warned2"
expect 0 "may make another model" adapter "$place/fused" --model "$model" --layout per-expert --out "$place/warned3"
expect 0 "enable_lora=True, max_lora_rank=8" adapter "$place/vllm" --model "$model"
for key in rank_pattern alpha_pattern; do
    grep -q "\"$key\": {}" "$place/vllm/adapter_config.json"
    result $? "vllm: the config has a $key"
done
grep -q '"target_parameters": null' "$place/vllm/adapter_config.json"
result $? "vllm: the config has parameters"

# The lines: three of Python, with absolute names, whatever these hold.
expect 0 "fused layout, 42 pairs of rank 3, alpha 16" adapter "$place/fused" --model "$model"
[ "$(grep -vc '^#\|layout,' "$place/text")" -eq 3 ]
result $? "there are not three lines"
mkdir "$place/a \"b\\c"
cp "$place/fused"/* "$place/a \"b\\c"
metier_path=$metier
case $metier in /*) ;; *) metier_path=$(pwd)/$metier ;; esac
(cd "$place" && "$metier_path" adapter 'a "b\c' --model "$model") >"$place/text" 2>&1
grep -qF "PeftModel.from_pretrained(base, \"$place/a \\\"b\\\\c\")" "$place/text"
result $? "the adapter's name is not a Python string"
expect 0 "" forward "$here/model/golden/deepseek" --ids 5,17 --grads --train lora --save-adapter "$place/first"
expect 0 "trust_remote_code=True" adapter "$place/first" --model "$here/model/golden/deepseek"
expect 0 "" forward "$here/model/golden/deepseek_v3" --ids 5,17 --grads --train lora --save-adapter "$place/third"
expect 0 "third/router_bias.safetensors" adapter "$place/third" --model "$here/model/golden/deepseek_v3"

# llama.cpp's file: what it does not apply is named and refused, or left out.
expect 2 "llama.cpp does not apply self_attn.q" adapter "$place/fused" --model "$model" --to gguf --out "$place/x"
expect 0 "left out, because llama.cpp does not apply it: self_attn.q" adapter "$place/fused" --model "$model" --to gguf --drop --out "$place/lora.gguf"
expect 0 "llama-server -m MODEL.gguf --lora $place/lora.gguf" adapter "$place/vllm" --model "$model" --to gguf --drop --out "$place/lora.gguf"
[ "$(head -c 4 "$place/lora.gguf")" = GGUF ]
result $? "lora.gguf is no GGUF file"
expect 2 "expected gguf" adapter "$place/fused" --model "$model" --to onnx --out "$place/x"
expect 2 "--to needs --out FILE" adapter "$place/fused" --model "$model" --to gguf
expect 2 "--layout cannot be used with --to gguf" adapter "$place/fused" --model "$model" --to gguf --layout vllm --out "$place/x"
expect 2 "--drop needs --to gguf" adapter "$place/fused" --model "$model" --drop --out "$place/x"
expect 1 "cannot" adapter "$place/fused" --model "$model" --to gguf --drop --out "$place/nowhere/x"

expect 2 "no class for this model" adapter "$place/first" --model "$here/model/golden/deepseek" --layout fused --out "$place/x"
expect 2 "exists and is not empty" adapter "$place/fused" --model "$model" --out "$place/vllm"
expect 2 "expected auto, per-expert, fused or vllm" adapter "$place/fused" --model "$model" --layout odd --out "$place/x"
expect 2 "--layout needs --out" adapter "$place/fused" --model "$model" --layout vllm
expect 2 "--model DIR is missing" adapter "$place/fused"
expect 2 "an adapter's folder is missing" adapter --model "$model"
expect 2 "unexpected argument" adapter "$place/fused" "$place/vllm" --model "$model"
expect 1 "cannot open" adapter "$place/nothing" --model "$model"
expect 2 "fits neither" adapter "$place/fused" --model "$here/model/golden/mixtral" --layout vllm --out "$place/x"
expect 0 "metier adapter ADAPTER --model DIR" adapter --help
if ls "$place"/*.tmp.* >/dev/null 2>&1 || [ -e "$place/x" ]; then
    fail "something is left behind"
fi

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
