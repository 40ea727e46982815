#!/bin/sh
# metier merge and forward --save-adapter from outside. Usage: merge.sh METIER
set -u
metier=$1
. "$(dirname "$0")/../support/expect.sh"

cat >"$place/config.json" <<'END'
{"model_type": "qwen3_moe", "hidden_size": 24, "intermediate_size": 44, "moe_intermediate_size": 10,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "num_experts": 6,
 "num_experts_per_tok": 2, "norm_topk_prob": true, "vocab_size": 53, "max_position_embeddings": 256,
 "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "initializer_range": 0.2, "tie_word_embeddings": false}
END
model=$place/model
lora="--grads --train lora --targets attention,router,routed_experts --rank 3 --lora-b-std 0.1"
"$metier" init --config "$place/config.json" --seed 1 --dtype f32 --out "$model" >/dev/null 2>&1

# shellcheck disable=SC2086
{
    expect 0 "" forward "$model" --ids 5,17,3 $lora --save-adapter "$place/single" --adapter-layout per-expert
    expect 0 "" forward "$model" --ids 5,17,3 $lora --save-adapter "$place/fused" --adapter-layout fused
    expect 2 "expected auto, per-expert, fused or vllm" forward "$model" --ids 5,17 $lora --save-adapter "$place/x" --adapter-layout odd
    expect 2 "exists and is not empty" forward "$model" --ids 5,17 $lora --save-adapter "$place/fused"
}
expect 2 "--save-adapter needs" forward "$model" --ids 5 --save-adapter "$place/x"
# From one layout to the other and back.
expect 0 "" forward "$model" --ids 5 --adapter "$place/fused" --save-adapter "$place/back" --adapter-layout per-expert
same single/adapter_model.safetensors back/adapter_model.safetensors
same single/adapter_config.json back/adapter_config.json

expect 0 "tolerance 1e-04" merge "$model" --adapter "$place/single" --out "$place/one" --verify
expect 0 "tensors merged" merge "$model" --adapter "$place/fused" --out "$place/two" --threads 2
same one/model.safetensors two/model.safetensors
same model/config.json two/config.json
expect 0 "tolerance 2e-02" merge "$model" --adapter "$place/fused" --out "$place/narrow" --dtype bf16 --verify
# The template an adapter was trained with comes along, over the model's own; without one, the model's stays.
cp -r "$model" "$place/talking"
printf '{{ "the model" }}' >"$place/talking/chat_template.jinja"
# What was merged, checked from outside: in f32 and bf16, with the right adapter, another one, and none merged at all.
expect 0 "merged as the adapter says" merge "$model" --adapter "$place/single" --check "$place/one"
expect 0 "merged as the adapter says" merge "$model" --adapter "$place/fused" --check "$place/narrow"
expect 1 "not what the adapter says" merge "$model" --adapter "$place/single" --check "$model"
expect 0 "$place/one: against" merge "$model" --check "$place/one"
expect 2 "--out means nothing with --check" merge "$model" --check "$place/one" --out "$place/x"
expect 1 "there is no such file or folder" merge "$place/nowhere" --check "$place/one"
expect 0 "" merge "$place/talking" --adapter "$place/fused" --out "$place/own"
same talking/chat_template.jinja own/chat_template.jinja
printf '{{ "the adapter" }}\n' >"$place/fused/chat_template.jinja"
for base in talking model; do
    expect 0 "" merge "$place/$base" --adapter "$place/fused" --out "$place/of-$base"
    same fused/chat_template.jinja "of-$base/chat_template.jinja"
done
expect 0 "" adapter "$place/fused" --model "$model" --layout per-expert --out "$place/rewritten"
same fused/chat_template.jinja rewritten/chat_template.jinja
expect 0 "" forward "$model" --ids 5 --adapter "$place/fused" --save-adapter "$place/saved"
same fused/chat_template.jinja saved/chat_template.jinja
expect 2 "exists and is not empty" merge "$model" --adapter "$place/fused" --out "$place/one"
expect 2 "--adapter DIR is missing" merge "$model" --out "$place/x"
expect 2 "--device means nothing without --verify" merge "$model" --adapter "$place/fused" --out "$place/x" --device cpu
expect 2 "--out DIR is missing" merge "$model" --adapter "$place/fused"
expect 2 "expected f32 or bf16" merge "$model" --adapter "$place/fused" --out "$place/x" --dtype f8
expect 2 "a model folder is missing" merge
expect 0 "metier merge DIR" merge --help
if ls "$place"/*.tmp.* >/dev/null 2>&1 || [ -e "$place/x" ]; then
    printf 'FAIL something is left behind\n'
    failed=$((failed + 1))
fi

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
