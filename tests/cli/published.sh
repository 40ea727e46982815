#!/bin/sh
# Quantised folders from outside: an adapter trained on weights in 4 or 8 bits is merged into floats and into codes,
# and every verb takes the folder in codes as it is; what is broken is refused. Usage: published.sh METIER
set -u
metier=$1
. "$(dirname "$0")/../support/expect.sh"
"$(dirname "$0")/../support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml
base=$place/model
weights=adapter/adapter_model.safetensors
samples=$(dirname "$0")/../../share/samples
parts='quantize.parts=[routed_experts,attention]'

# Trained on weights quantised as they were loaded: merged into floats, and into codes of the same format.
for format in fp8 nf4 mxfp4; do
    expect 0 "" train "$config" out="$place/$format" quantize.format=$format "$parts" --quiet
    expect 0 "tolerance" merge "$base" --adapter "$place/$format/adapter" --out "$place/$format-floats" --verify
    same model/config.json $format-floats/config.json
    expect 0 "merged, $format" merge "$base" --adapter "$place/$format/adapter" --out "$place/$format-codes" --requantise --verify
    grep -q "routed experts .* [0-9]" "$place/text" && grep -q "merged, floats " "$place/text"
    result $? "merge does not show what writing in $format again costs"
    [ ! -e "$place/$format-codes.tmp.floats" ]
    result $? "the merge into floats for --verify is left behind"
    expect 0 "expected tensors are there, and no others" inspect "$place/$format-codes"
    grep -q "format .*matrices" "$place/text"
    result $? "inspect does not say the format"
done
# Random weights written in codes are those that floats of the same seed are quantised to.
"$metier" init --config "$place/config.json" --seed 3 --dtype bf16 --out "$place/drawn" >/dev/null 2>&1 || fail init
for format in fp8 nf4 nf4,single mxfp4; do
    expect 0 "parameters" init --config "$place/config.json" --seed 3 --dtype bf16 --quantize $format,routed_experts,attention --out "$place/drawn-$format"
    expect 0 "" forward "$place/drawn-$format" --ids 5,17,3 --out "$place/$format.st"
    expect 0 "" forward "$place/drawn" --quantize $format,routed_experts,attention --ids 5,17,3 --out "$place/floats.st"
    same $format.st floats.st
    expect 0 "expected tensors are there, and no others" inspect "$place/drawn-$format"
done
expect 2 "metier cannot write a folder in int8" init --config "$place/config.json" --quantize int8 --out "$place/x"
expect 2 "has a quantization_config of its own" init --config "$place/drawn-nf4/config.json" --quantize nf4 --out "$place/x"
expect 2 "'q4' is not a format" init --config "$place/config.json" --quantize q4 --out "$place/x"
[ ! -e "$place/x" ]
result $? "init leaves a folder after a refusal"

expect 0 "" train "$config" out="$place/int8" quantize.format=int8 --quiet
expect 2 "trained on weights in int8, a format that metier does not write" merge "$base" --adapter "$place/int8/adapter" --out "$place/x" --requantise
expect 0 "tolerance" merge "$base" --adapter "$place/int8/adapter" --out "$place/int8-floats" --verify
expect 0 "" train "$config" out="$place/plain" --quiet
expect 2 "is not quantised: leave out --requantise" merge "$base" --adapter "$place/plain/adapter" --out "$place/x" --requantise
expect 2 "--dtype means nothing with --requantise" merge "$base" --adapter "$place/nf4/adapter" --out "$place/x" --requantise --dtype f32

# Every verb takes a folder in codes.
for format in fp8 nf4 mxfp4; do
    model=$place/$format-codes
    expect 0 "" forward "$model" --ids 5,17,3
    expect 0 "" generate "$model" --prompt '3 plus 3 is' --max-new 4
    expect 0 "" eval gsm8k --data "$samples" --model "$model" --limit 2 --max-new 4 --out "$place/$format-eval"
    printf '3 plus 3 is\n' | "$metier" chat "$model" --template plain --max-new 4 >"$place/text" 2>&1
    result $? "chat with $format: $(tail -n 1 "$place/text")"
    expect 0 "same experts %" analyze --model "$model" --against none --data "$place/data.jsonl" --tokens 200 --out "$place/$format-seen"
    expect 0 "MaxVio" analyze --model "$model" --base "$base" --data "$place/data.jsonl" --tokens 200 --out "$place/$format-beside"
    cat >"$place/compare.yaml" <<END
model: $model
out: $place/$format-compare
methods: [none, aux]
seeds: [1]
device: cpu
domains: [{name: sums, train: $place/data.jsonl, test: $place/data.jsonl}]
tasks: [gsm8k]
evaluation: {data: $samples, limit: 2, max_tokens: 4}
training: {steps: 2, data.max_length: 32, batch: {examples: 4, tokens: 64}, lora: {rank: 2, alpha: 4}}
analysis.sample: 64
END
    expect 0 "trained on sums" compare "$place/compare.yaml" --quiet
    expect 0 "$format" plan "$model" --ranks 2
    expect 0 "" train "$config" model="$model" out="$place/dry" --dry-run
    expect 1 "fewer targets, a higher" train "$config" model="$model" out="$place/no" memory.limit=1MB
    expect 0 "" train "$config" model="$model" out="$place/$format-on" --quiet
    expect 0 "" train "$config" model="$model" out="$place/$format-threads" recompute=full --threads 3 --quiet
    same $format-on/$weights $format-threads/$weights
    expect 0 "merged, $format" merge "$model" --adapter "$place/$format-on/adapter" --out "$place/$format-again" --requantise --verify
    same $format-codes/config.json $format-again/config.json
    expect 0 "tolerance" merge "$model" --adapter "$place/$format-on/adapter" --out "$place/$format-plain" --verify
    ! grep -q quantization_config "$place/$format-plain/config.json"
    result $? "the config of a merge into floats says it is in codes"
    expect 2 "the model's folder has it quantised, and quantised weights cannot be trained" train "$config" model="$model" out="$place/no" train=full
done

# What is broken.
broken=$place/broken
cp -r "$place/nf4-codes" "$broken"
bytes=$(wc -c <"$broken/model.safetensors")
for left in $((bytes - 1)) $((bytes / 2)) 100 0; do
    head -c "$left" "$place/nf4-codes/model.safetensors" >"$broken/model.safetensors"
    expect 2 "model.safetensors" forward "$broken" --ids 5
done
cp "$place/fp8-codes/model.safetensors" "$broken/"
expect 2 "weights and config do not fit" forward "$broken" --ids 5
cp "$place/nf4-codes/model.safetensors" "$broken/"
sed 's/"bitsandbytes"/"gptq"/' "$place/nf4-codes/config.json" >"$broken/config.json"
expect 2 'quant_method is "gptq"; read are fp8' forward "$broken" --ids 5
sed 's/"nf4"/"fp4"/' "$place/nf4-codes/config.json" >"$broken/config.json"
expect 2 'bnb_4bit_quant_type is "fp4"' inspect "$broken"
sed 's/qwen3_moe/qwen3_next/' "$place/mxfp4-codes/config.json" >"$broken/config.json"
expect 2 'model_type is "qwen3_next"; known are' inspect "$broken"

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
