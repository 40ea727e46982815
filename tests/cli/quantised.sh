#!/bin/bash
# Quantised weights from outside: training in nf4, killed and gone on with, gives the same bytes; every verb takes the
# weights as the adapter was trained beside them; what cannot be is refused. Usage: quantised.sh METIER [KILLS]
set -u
metier=$1
kills=${2:-4}
. "$(dirname "$0")/../support/expect.sh"
"$(dirname "$0")/../support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml
weights=adapter/adapter_model.safetensors

# Every format trains, to a result of its own; the dry run says what weights take.
expect 0 "" train "$config" out="$place/plain" --quiet
for format in fp8 int8 nf4 mxfp4; do
    expect 0 "" train "$config" out="$place/$format" quantize.format=$format --quiet
    differ plain/$weights $format/$weights
done
expect 0 "" train "$config" out="$place/single" quantize.format=nf4 quantize.double=false --quiet
differ nf4/$weights single/$weights
expect 0 "" train "$config" out="$place/wide" quantize.format=nf4 'quantize.parts=[routed_experts,attention]' --quiet
differ nf4/$weights wide/$weights
expect 0 "weights, quantised" train "$config" out="$place/dry" quantize.format=nf4 --dry-run
grep -q "a layer unpacked" "$place/text"
result $? "the dry run does not say what unpacked weights take"

# The same bytes whatever the number of threads, and what is recomputed.
expect 0 "" train "$config" out="$place/threads" quantize.format=nf4 recompute=full --threads 3 --quiet
same nf4/$weights threads/$weights

# Killed at random points and started again: so many times at the least, then until it ends.
RANDOM=7
lives=0
steps=$((30 + 20 * kills))
expect 0 "" train "$config" out="$place/whole" quantize.format=nf4 steps=$steps --quiet
while [ ! -d "$place/killed/adapter" ] && [ $lives -lt $((kills + 100)) ]; do
    lives=$((lives + 1))
    "$metier" train "$config" out="$place/killed" quantize.format=nf4 steps=$steps checkpoint.every=1 --quiet >"$place/text" 2>&1 &
    process=$!
    step=$(find "$place/killed/checkpoints" -maxdepth 1 -name 'step-????????' 2>/dev/null | sort | tail -n 1)
    if [ $lives -le "$kills" ]; then
        # Killed once it has made a step, at some moment after that.
        while kill -0 $process 2>/dev/null &&
            [ "$(find "$place/killed/checkpoints" -maxdepth 1 -name 'step-????????' 2>/dev/null | sort | tail -n 1)" = "$step" ]; do
            sleep 0.01
        done
        sleep "0.00$((RANDOM % 10))"
        kill -KILL $process 2>/dev/null
    fi
    wait $process 2>/dev/null
done
[ $lives -gt "$kills" ]
result $? "the run ended after $lives lives, before it was killed $kills times"
same whole/$weights killed/$weights
expect 2 "quantize.format was nf4 when this run began and is fp8 now" train "$config" out="$place/killed" steps=$steps quantize.format=fp8

# Every verb: as the adapter was trained, unless another word is given.
model=$place/model
run=$place/nf4/adapter
expect 0 "" forward "$model" --adapter "$run" --ids 1,2,3,4,5,6 --out "$place/own.st"
expect 0 "" forward "$model" --adapter "$run" --ids 1,2,3,4,5,6 --out "$place/said.st" --quantize nf4
expect 0 "" forward "$model" --adapter "$run" --ids 1,2,3,4,5,6 --out "$place/none.st" --quantize none
same own.st said.st
differ own.st none.st
expect 0 "" generate "$model" --adapter "$run" --prompt '3 plus 3 is' --max-new 4
expect 0 "" generate "$model" --quantize mxfp4,routed_experts,attention --prompt '3 plus 3 is' --max-new 4
expect 0 "MaxVio" analyze --model "$model" --adapter "$run" --data "$place/data.jsonl" --tokens 400 --out "$place/analysis"
expect 0 "" eval gsm8k --data "$(dirname "$0")/../../share/samples" --model "$model" --adapter "$run" --limit 2 --max-new 4 --out "$place/eval"
expect 0 "" eval gsm8k --data "$(dirname "$0")/../../share/samples" --model "$model" --quantize fp8 --limit 2 --max-new 4 --out "$place/eval8"
expect 2 "another" eval gsm8k --data "$(dirname "$0")/../../share/samples" --model "$model" --quantize int8 --limit 2 --max-new 4 --out "$place/eval8"
expect 0 "" adapter "$run" --model "$model" --layout per-expert --out "$place/rewritten"
expect 0 "" forward "$model" --adapter "$place/rewritten" --ids 1,2,3,4,5,6 --out "$place/again.st"
same own.st again.st

# Codes kept beside the model: the same numbers, whoever makes the file, and a run may go on without.
codes=$model/quantised
kept=$codes/nf4-routed_experts.safetensors
cached() { expect 0 "$1" forward "$model" --ids 1,2,3,4,5,6 --quantize nf4,cache --out "$place/cached.st"; }
expect 0 "" forward "$model" --ids 1,2,3,4,5,6 --quantize nf4 --out "$place/made.st"
expect 0 "" train "$config" out="$place/dry" quantize.format=nf4 quantize.cache=true --dry-run
expect 0 "" generate "$model" --quantize nf4 --prompt '3 plus 3 is' --max-new 4
[ ! -e "$codes" ]
result $? "codes are kept although nobody asked for it"
for i in 1 2 3 4; do
    "$metier" forward "$model" --ids 1,2,3,4,5,6 --quantize nf4,cache --out "$place/at-once-$i.st" >/dev/null 2>&1 &
done
wait
for i in 1 2 3 4; do same made.st at-once-$i.st; done
[ "$(ls "$codes")" = "${kept##*/}" ]
result $? "beside the codes that were made at once there is more: $(ls "$codes")"
number=$(stat -c %i "$kept")
expect 0 "" train "$config" out="$place/cached" quantize.format=nf4 quantize.cache=true --quiet
same nf4/$weights cached/$weights
same nf4/adapter/adapter_config.json cached/adapter/adapter_config.json
expect 0 "" train "$config" out="$place/cached" quantize.format=nf4 --quiet
expect 0 "" generate "$model" --adapter "$run" --quantize nf4,cache --prompt '3 plus 3 is' --max-new 4
expect 0 "MaxVio" analyze --model "$model" --quantize nf4,cache --against nf4 --data "$place/data.jsonl" --tokens 400 --out "$place/kept"
expect 0 "" eval gsm8k --data "$(dirname "$0")/../../share/samples" --model "$model" --quantize fp8,cache --limit 2 --max-new 4 --out "$place/eval8"
printf '3 plus 3 is\n' | "$metier" chat "$model" --quantize nf4,cache --template plain --max-new 4 >"$place/text" 2>&1
result $? "chat with codes that are kept: $(tail -n 1 "$place/text")"
[ "$(stat -c %i "$kept")" = "$number" ]
result $? "codes are made again although nothing has changed"
head -c 5000 "$kept" >"$place/short" && cp "$place/short" "$kept"
cached "it is made again"
same made.st cached.st
touch "$model/model.safetensors"
cached "the weights have changed since it was made; it is made again"
same made.st cached.st
# A disk that is full: nothing is left there, and the model is loaded all the same.
rm "$kept"
(
    trap '' XFSZ
    ulimit -f 4
    exec "$metier" forward "$model" --ids 1,2,3,4,5,6 --quantize nf4,cache >"$place/full" 2>&1
)
result $? "forward with a full disk: $(tail -n 1 "$place/full")"
grep -q "codes are not kept: .*nf4-routed_experts" "$place/full" && [ "$(ls "$codes")" = fp8-routed_experts.safetensors ]
result $? "a full disk: $(cat "$place/full" && ls "$codes")"
expect 2 "cache means nothing here" init --config "$place/config.json" --quantize nf4,cache --out "$place/no"
expect 2 "quantize.cache means nothing here" train "$config" out="$place/no" quantize.cache=true

# What helps a run that does not fit is not what it has already.
expect 1 "fewer targets, quantize.format, a higher" train "$config" out="$place/no" memory.limit=1MB
expect 1 "fewer targets, quantize.format: nf4, more quantize.parts, a higher" train "$config" out="$place/no" memory.limit=1MB quantize.format=fp8
expect 1 "fewer targets, a higher" train "$config" out="$place/no" memory.limit=1MB quantize.format=nf4 'quantize.parts=[routed_experts,attention]'

# What cannot be.
expect 2 "is trained in full, but quantize would quantise it" train "$config" out="$place/no" train=full quantize.format=nf4
expect 2 "only nf4's scales are quantised" train "$config" out="$place/no" quantize.format=fp8 quantize.double=false
expect 2 "quantize.format is none" train "$config" out="$place/no" quantize.parts=attention
expect 2 "lm_head cannot be quantised" train "$config" out="$place/no" quantize.format=nf4 'quantize.parts=[lm_head]'
expect 2 "quantize.parts is empty" train "$config" out="$place/no" quantize.format=nf4 'quantize.parts=[]'
expect 2 "'q4' is not a format" generate "$model" --quantize q4 --prompt x
expect 2 "the model has none" generate "$model" --quantize nf4,shared_experts --prompt x

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
