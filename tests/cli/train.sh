#!/bin/bash
# metier train from outside: dry run, runs, kills, signals, damage, refusals. Usage: train.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"

"$here/support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml
weights=adapter/adapter_model.safetensors

expect 0 "metier train CONFIG.yaml" train --help
expect 0 "optimizer.lr" train --keys
expect 2 "a configuration file is missing" train
expect 2 "is a setting" train steps=3
expect 1 "cannot open" train "$place/nothing.yaml"
expect 2 "lora.rank" train "$config" lora.rnak=3
# Attention alone, as people write it: refused under a method with terms, with words that work as they stand.
expect 2 "would act through lower layers alone" train "$config" "targets=[q_proj, v_proj]" out="$place/attention" --dry-run
words=$(grep '^metier train:' "$place/text" | grep -o '[a-z_.]*=[a-z]*')
[ "$(printf '%s' "$words" | tr '\n' ' ')" = "method=none objective.allow_indirect=true" ]
result $? "the refusal names $words"
for word in $words; do expect 0 "attention        8" train "$config" "targets=[q_proj, v_proj]" "$word" --dry-run; done
expect 0 "live through layers below alone" train "$config" targets=q_proj,v_proj objective.allow_indirect=true --dry-run
expect 0 "attention" train "$config" targets=q_proj,v_proj,router,routed_experts --dry-run
expect 2 "did you mean 'q_proj'?" train "$config" targets=q_porj --dry-run
expect 2 "did you mean 'targets'?" train "$config" lora_target_modules=q_proj --dry-run
expect 0 "live: the router is trainable in 2" train "$config" targets=all-linear --dry-run
expect 2 "is frozen in every layer" train "$config" targets=router,routed_experts freeze=router --dry-run
expect 2 "freeze: 'router' selects nothing that is trained" train "$config" targets=routed_experts freeze=router --dry-run
expect 2 "--timeline means nothing with --dry-run" train "$config" --dry-run --timeline "$place/t.json"
expect 2 "unexpected argument 'x.yaml' with --keys" train --keys x.yaml
expect 0 "objective.seed changes nothing: neither method nor router draws at random" train "$config" objective.seed=9 --dry-run
expect 2 "epochs=2: epochs means nothing here: steps says how long" train "$config" epochs=2 --dry-run
expect 0 "steps" train "$config" epochs=2 steps=0 --dry-run
expect 2 "there is no chat template 'nothing'; expected model (the model's own), alpaca, authors, chatml, deepseek, deepseek-v2, deepseek-v3" train "$config" data.template=nothing --dry-run

# A tokenizer with more tokens than the model, and a config of the user's own in the folder to write to.
sed 's/"vocab_size": 440/"vocab_size": 300/' "$place/config.json" >"$place/narrow.json"
"$metier" init --config "$place/narrow.json" --dtype f32 --out "$place/narrow" >/dev/null 2>&1
cp "$place/model/tokenizer.json" "$place/narrow"
expect 2 "is this its tokenizer?" train "$config" model="$place/narrow" out="$place/deep/down/none" --dry-run
mkdir "$place/mine"
cp "$config" "$place/mine/config.yaml"
expect 2 "not the folder of a run" train "$place/mine/config.yaml" out="$place/mine"
same run.yaml mine/config.yaml

sed 's/"vocab_size": [0-9]*/"vocab_size": 440/' "$here/model/golden/deepseek_v2/config.json" >"$place/latent.json"
"$metier" init --config "$place/latent.json" --dtype f32 --out "$place/latent" >/dev/null 2>&1
cp "$place/model/tokenizer.json" "$place/latent"
expect 0 "trainable" train "$config" --dry-run
grep -q "in all" "$place/text" && grep -q "live: the router is trainable in 2" "$place/text" && grep -q "120 examples" "$place/text"
result $? "the dry run says less than it should"
[ ! -e "$place/run" ]
result $? "the dry run wrote something"

# How the adapter is written, what its readers would leave out, and what cannot be written at all.
expect 0 "adapter: written in the fused layout" train "$config" --dry-run
expect 0 "adapter: written in the vllm layout" train "$config" lora.layout=vllm --dry-run
expect 0 "warning: vLLM never applies the pairs of kv_b_proj" train "$config" model="$place/latent" targets=attention method=none lora.layout=vllm --dry-run
expect 2 "no class for this model" train "$config" model="$here/model/golden/deepseek" lora.layout=fused --dry-run

expect 0 "as trained, 30 steps" train "$config" out="$place/one" --threads 1
[ "$(tail -n 1 "$place/text")" = "model = peft.PeftModel.from_pretrained(base, \"$place/one/adapter\")" ]
result $? "the lines that load the adapter are not printed"
expect 0 "this run has finished" train "$config" out="$place/one"
grep -qF "AutoModelForCausalLM.from_pretrained(\"$place/model\")" "$place/text"
result $? "the lines are printed but once"
expect 0 "may make another model" train "$config" out="$place/each" lora.layout=per-expert steps=1 --quiet
expect 0 "" train "$config" out="$place/two" --threads 2 --quiet
same one/$weights two/$weights
expect 2 "not the folder of a run" train "$config" out="$place"
expect 2 "optimizer.lr" train "$config" out="$place/one" optimizer.lr=1
# Without a method it is none, which is said; a run that began under another one goes on under that.
grep -v '^method' "$config" >"$place/unnamed.yaml"
expect 0 "objective: none, as no method is given" train "$place/unnamed.yaml" --dry-run
expect 0 "method: paper asks for the paper's objective" train "$place/unnamed.yaml" out="$place/unnamed" steps=2
expect 0 "" train "$config" out="$place/old" checkpoint.keep=9 --quiet
rm -r "$place/old/adapter" "$place"/old/checkpoints/*30
expect 0 "LoRA, paper -> $place/old" train "$place/unnamed.yaml" out="$place/old" checkpoint.keep=9
same one/$weights old/$weights
# A folder that other verbs have written into.
expect 0 "written" analyze --model "$place/model" --data "$place/data.jsonl" --out "$place/looked"
expect 0 "" eval gsm8k --data "$here/../share/samples" --model "$place/model" --limit 2 --out "$place/looked"
expect 0 "" train "$config" out="$place/looked" --quiet
same one/$weights looked/$weights
# A key for many ranks, on one.
expect 0 "parallel.statistics is local, which changes nothing: there is one rank" train "$config" out="$place/alone" \
    parallel.statistics=local
same one/$weights alone/$weights

# Killed at random points and started again, until it ends by itself.
RANDOM=$$
# steps_in FOLDER: lines of a run's log.
steps_in() { cat "$1/metrics.jsonl" 2>/dev/null | wc -l; }
for threads in 1 2; do
    lives=0
    while [ ! -d "$place/killed$threads/adapter" ] && [ $lives -lt 100 ]; do
        lives=$((lives + 1))
        "$metier" train "$config" out="$place/killed$threads" checkpoint.every=3 --threads $threads --quiet >"$place/text" 2>&1 &
        process=$!
        # Some steps further than it began, or at once, and at some moment between two steps.
        further=$((RANDOM % 7))
        began=$(steps_in "$place/killed$threads")
        while [ $((began + further)) -gt "$(steps_in "$place/killed$threads")" ] && kill -0 $process 2>/dev/null; do sleep 0.01; done
        sleep "0.0$((RANDOM % 10))"
        kill -KILL $process 2>/dev/null
        wait $process 2>/dev/null
    done
    same one/$weights killed$threads/$weights
done

# SIGTERM and SIGINT: the step is finished, saved, and how to go on is said.
for signal in TERM INT; do
    out=$place/stopped$signal
    # A job in the background ignores SIGINT unless it is told otherwise.
    (trap - INT; exec "$metier" train "$config" out="$out" steps=100000 checkpoint.every=0 evaluation.split=0 --quiet) >"$place/text" 2>&1 &
    process=$!
    while [ ! -s "$out/metrics.jsonl" ] && kill -0 $process 2>/dev/null; do sleep 0.05; done
    sleep 0.2
    kill -$signal $process
    wait $process
    got=$?
    expected=143
    [ $signal = INT ] && expected=130
    [ $got -eq $expected ]
    result $? "SIG$signal: exit status $got"
    grep -q "to go on: metier train" "$place/text"
    result $? "SIG$signal: nothing is said about going on"
    ls "$out"/checkpoints/step-* >/dev/null 2>&1
    result $? "SIG$signal: nothing is saved"
done

# A second signal does not wait for the step, which would take minutes here; nothing of it is saved.
out=$place/impatient
"$metier" train "$config" out="$out" "data.sources=[{path: $place/data.jsonl, weight: 5000}]" batch.examples=600000 evaluation.split=0 --quiet >"$place/text" 2>&1 &
process=$!
while [ ! -s "$out/config.yaml" ] && kill -0 $process 2>/dev/null; do sleep 0.05; done
kill -TERM $process
sleep 0.2
kill -0 $process
result $? "the first SIGTERM ended a step"
# Two that come at once are one: until it has ended.
while kill -TERM $process 2>/dev/null; do sleep 0.2; done
wait $process
[ $? -eq 143 ] && [ ! -e "$out/checkpoints" ]
result $? "the second SIGTERM waited for the step"

# Lost rows, and a log that lost its end: --quiet is silent about progress alone.
{
    cat "$place/data.jsonl"
    printf '{"prompt": "no answer"}\nnot json\n'
} >"$place/bad.jsonl"
expect 0 "bad.jsonl:121" train "$config" out="$place/lossy" data.path="$place/bad.jsonl" --quiet
grep -q "metier: warning: .*step 30: of [0-9]* rows drawn, [1-9][0-9]* were bad and skipped" "$place/text"
result $? "--quiet hides rows that were left out"
grep -q "tok/s\|checkpoint" "$place/text"
[ $? -eq 1 ]
result $? "--quiet shows progress"
# go_on OPTIONS...: some more steps of a run without end, whose log is emptied before, until it is interrupted.
go_on() {
    [ ! -e "$place/halves/metrics.jsonl" ] || : >"$place/halves/metrics.jsonl"
    (trap - INT; exec "$metier" train "$config" out="$place/halves" steps=100000 evaluation.split=0 "$@") >"$place/text" 2>&1 &
    process=$!
    while ! grep -q '"learning_rate"' "$place/halves/metrics.jsonl" 2>/dev/null && kill -0 $process 2>/dev/null; do sleep 0.05; done
    kill -INT $process
    wait $process
}
go_on --quiet
steps=$(sed -n 's/.*stopped after step \([0-9]*\),.*/\1/p' "$place/text")
go_on
grep -q "^this part: steps $((steps + 1)) to [0-9]* of 100000, [0-9.k]* tokens in " "$place/text"
result $? "the summary of a resumed run does not count its part"
last=$(sed -n 's/^the whole: \([0-9]*\) steps, [0-9.k]* tokens in .*/\1/p' "$place/text")
[ -n "$last" ] && [ "$last" -gt "$steps" ]
result $? "the summary of a resumed run does not count the whole"
go_on --quiet
grep -q "metier: warning: .*records are missing" "$place/text"
result $? "--quiet hides records that are missing"

# A damaged newest checkpoint: the one before is taken, with a warning, and the end is the same.
"$metier" train "$config" out="$place/damaged" checkpoint.every=5 checkpoint.keep=4 --quiet >/dev/null 2>&1
rm -r "$place/damaged/adapter"
newest=$(find "$place/damaged/checkpoints" -name 'step-*' | sort | tail -n 1)
printf 'x' | dd of="$newest/state.safetensors" bs=1 seek=2000 conv=notrunc 2>/dev/null
expect 0 "as trained, 30 steps" train "$config" out="$place/damaged" checkpoint.every=5 checkpoint.keep=4 --quiet
grep -q "${newest##*/}" "$place/text"
result $? "the damaged checkpoint is not named"
same one/$weights damaged/$weights

# Files that have become others under a run, their length and time the same: each is named. Put back, the run goes on.
# swap FILE FROM TO: other bytes of the same number in place.
swap() {
    touch -r "$1" "$place/time"
    sed "s/$2/$3/" "$1" >"$place/swapped" && cat "$place/swapped" >"$1"
    touch -r "$place/time" "$1"
}
changed=$place/changed
"$metier" train "$config" out="$changed" --quiet >/dev/null 2>&1
rm -r "$changed/adapter" "$changed/checkpoints/step-00000030" # as if it had been killed after step 20
cp -r "$changed" "$place/unnoted"
swap "$place/data.jsonl" '"9 plus' '"8 plus'
expect 2 "data.jsonl: is not what it was when this run began (its content has changed): put it back to go on" train "$config" out="$changed" --quiet
expect 2 "data.jsonl: is not what it was" train "$config" out="$changed" --dry-run
swap "$place/data.jsonl" '"8 plus 2' '"9 plus 2'
swap "$place/model/tokenizer.json" '"padding":null' '"padding":nul '
expect 2 "model/tokenizer.json: is not what it was" train "$config" out="$changed" --quiet
swap "$place/model/tokenizer.json" '"padding":nul ' '"padding":null'
cp "$place/model/model.safetensors" "$place/weights"
"$metier" init --config "$place/config.json" --seed 2 --dtype f32 --out "$place/other" >/dev/null 2>&1
cat "$place/other/model.safetensors" >"$place/model/model.safetensors"
expect 2 "model/model.safetensors: is not what it was" train "$config" out="$changed" --quiet
cat "$place/weights" >"$place/model/model.safetensors"
echo '{"eos_token_id": 7}' >"$place/model/generation_config.json"
expect 2 "generation_config.json: is not what it was when this run began (there was no such file)" train "$config" out="$changed" --quiet
rm "$place/model/generation_config.json"
expect 0 "as trained, 30 steps" train "$config" out="$changed" --quiet
same one/$weights changed/$weights
# A run that noted nothing, as older versions did, goes on and says so; a list that is damaged is named.
echo '{' >"$place/unnoted/inputs.json"
expect 2 "unnoted/inputs.json" train "$config" out="$place/unnoted" --quiet
rm "$place/unnoted/inputs.json"
expect 0 "unnoted/inputs.json: is missing: metier cannot tell whether data, tokenizer and model" train "$config" out="$place/unnoted" --quiet
same one/$weights unnoted/$weights
# Held-out data is free to change, as the settings that name it are; that it did is told.
head -n 9 "$place/data.jsonl" >"$place/held.jsonl"
"$metier" train "$config" out="$place/held" "evaluation.sources=[$place/held.jsonl]" --quiet >/dev/null 2>&1
rm -r "$place/held/adapter" "$place/held/adapter-best" "$place/held/checkpoints/step-00000030"
swap "$place/held.jsonl" '"8 plus' '"9 plus'
expect 0 "held.jsonl: is not what it was when this run began" train "$config" out="$place/held" "evaluation.sources=[$place/held.jsonl]" --quiet

# A log that leads elsewhere is not written to, nor waited for.
mkdir "$place/linked"
"$metier" train "$config" out="$place/linked" steps=3 --quiet >/dev/null 2>&1
for kind in symbolic hard pipe; do
    rm -rf "$place/linked/metrics.jsonl" "$place/linked/adapter" "$place/linked/checkpoints"
    echo precious >"$place/precious"
    case $kind in
    symbolic) ln -s "$place/precious" "$place/linked/metrics.jsonl" ;;
    hard) ln "$place/precious" "$place/linked/metrics.jsonl" ;;
    pipe) mkfifo "$place/linked/metrics.jsonl" ;;
    esac
    timeout 1000 "$metier" train "$config" out="$place/linked" steps=3 --quiet >"$place/text" 2>&1
    [ $? -eq 1 ] && grep -q "linked/metrics.jsonl: " "$place/text" && [ "$(cat "$place/precious")" = precious ]
    result $? "metrics.jsonl is a $kind link: $(cat "$place/text")"
done
# The lock, too, which is emptied and written.
rm -rf "$place/linked"
mkdir "$place/linked"
ln -s "$place/precious" "$place/linked/lock"
expect 1 "linked/lock: exists and is a symbolic link" train "$config" out="$place/linked" --quiet
[ "$(cat "$place/precious")" = precious ]
result $? "the lock was written through a link"

# A folder that is removed and made anew under a run: the run ends, and the new folder stays as it is.
out=$place/lost
"$metier" train "$config" out="$out" steps=100000 checkpoint.every=5 evaluation.split=0 --quiet >"$place/text" 2>&1 &
process=$!
while ! ls -d "$out"/checkpoints/step-???????? >/dev/null 2>&1 && kill -0 $process 2>/dev/null; do sleep 0.05; done
mv "$out" "$place/taken"
mkdir "$out"
echo mine >"$out/mine"
wait $process
[ $? -eq 1 ] && grep -q "lost: was moved, removed or replaced while this process was writing there" "$place/text" && [ "$(ls -A "$out")" = mine ]
result $? "a folder made anew was written to: $(ls -A "$out"); $(cat "$place/text")"
rm -r "$place/taken" # it may have been in the middle of a checkpoint

# From nothing, on plain text, everything learns.
printf 'One two three four five.\nSix seven eight nine ten.\n\nAnother paragraph of a few words.\n' >"$place/text.txt"
grep -v '^lora' "$config" >"$place/full.yaml"
expect 0 "as trained, 5 steps" train "$place/full.yaml" out="$place/full" train=full method=none steps=5 data.path="$place/text.txt" --quiet
[ -s "$place/full/model/model.safetensors" ] && [ -s "$place/full/model/config.json" ]
result $? "no model came out"
expect 0 "model" inspect "$place/full/model"

# But for a run that was killed while it wrote the last of its files, with nobody to go on.
left=$(find "$place" -path "$place/killed*" -prune -o -name '*.tmp.*' -print)
[ -z "$left" ]
result $? "something is left behind: $left"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
