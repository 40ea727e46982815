#!/bin/bash
# Power failures. Every verb that writes is run once with all it does to its files recorded; out of that record the
# disk is made as crashes leave it, which lose or reorder what was not synced (loss.h), and looked at (whole.h): folders
# are a whole older or newer state, files of lines have whole lines and at most a torn end. Some of them are then given
# to the verb, which has to go on and end as if nothing had been. Seeds are counted from 1: each crash can be made again.
# Usage: lost_writes.sh METIER RECORDER REPLAY WRITERS [CRASHES [RESUMES [PART...]]]
#   CRASHES: looked at, of each part (100); RESUMES: gone on from, of each part (2)
#   PART: writers, lora, full, ranks, eval, card, folders, compare (all)
set -u
metier=$1
recorder=$2
replay=$3
writers=$4
crashes=${5:-100}
resumes=${6:-2}
shift $(($# < 6 ? $# : 6))
parts=${*:-writers lora full ranks eval card folders compare}
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
place=$(cd "$place" && pwd -P)
# The recorder has to come before the sanitizer's library, which is fine as long as it does not mind.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"

# record COMMAND...: what it does below $place/disk goes into $place/log.
record() {
    LD_PRELOAD=$recorder CRASH_FOLDER=$place/disk CRASH_LOG=$place/log "$@" >"$place/text" 2>&1
    recorded=$?
    [ $recorded -eq 0 ] || { cat "$place/text"; fail "$*: exit status $recorded"; }
    return $recorded
}

# begin: an empty disk.
begin() {
    rm -rf "$place/disk" "$place/log"
    mkdir "$place/disk"
}

# finished COMMAND...: record, and what it wrote is safe from here on.
finished() {
    record "$@" && "$replay" mark "$place/log"
}

# The record has everything: replayed, it makes the same files.
complete() {
    rm -rf "$place/whole"
    "$replay" whole "$place/log" "$place/whole" >"$place/text" 2>&1 && diff -r "$place/disk" "$place/whole" >>"$place/text" 2>&1
    result $? "$1: the record does not make the same files: $(head -n 5 "$place/text")"
}

# look PART RULES...: looks at crashes.
look() {
    part=$1
    shift
    complete "$part"
    "$replay" check "$place/log" 1 "$crashes" "$@" >"$place/text" 2>&1
    result $? "$part: $(head -n 20 "$place/text")"
    printf '%-8s %s\n' "$part" "$(tail -n 1 "$place/text")"
    marred=$(sed -n 's/^marred: *//p' "$place/text")
}

# seeds: those to go on from: half of them left something torn or old, where there are such.
seeds() {
    # shellcheck disable=SC2086
    printf '%s\n' $marred $(seq 1 "$resumes") | awk -v most="$resumes" -v marred="$(echo $marred | wc -w)" '
        !seen[$1]++ && (NR > marred ? rest++ < most : old++ < (most + 1) / 2)' | head -n "$resumes"
}

# goes_on PART VERB SAME: after crashes VERB, given the folder, ends well, and SAME finds the undisturbed run's result.
goes_on() {
    rm -rf "$place/undisturbed"
    mv "$place/disk" "$place/undisturbed"
    for seed in $(seeds); do
        rm -rf "$place/disk"
        when="after crash $seed, $("$replay" crash "$place/log" "$seed" "$place/disk" 2>&1)"
        "$2" "$place/disk" >"$place/text" 2>&1
        result $? "$1: $when it does not go on: $(cat "$place/text")"
        "$3" "$place/undisturbed" "$place/disk" >"$place/text" 2>&1
        result $? "$1: $when the result is another: $(head -n 5 "$place/text")"
    done
}

# ---------------------------------------------------------------- the simulation itself

# find_fault STATUS WAY: writing in that way is found to be right (0), wrong (1) or not recorded (2).
find_fault() {
    begin
    finished "$writers" "$2" "$place/disk"
    "$replay" check "$place/log" 1 200 --folder model --lines '*.jsonl' >"$place/text" 2>&1
    found=$?
    [ $found -eq "$1" ]
    result $? "writing that is $2: $found, not $1: $(tail -n 1 "$place/text")"
}

try_writers() {
    for way in right right-folder right-lines; do
        find_fault 0 $way
        complete $way
    done
    for way in unsynced-file unsynced-name in-place unsynced-folder removed-in-place unsynced-lines unnamed-lines; do
        find_fault 1 $way
        complete $way
    done
    for way in stream mapping; do find_fault 2 $way; done
    begin
    record "$writers" unseen "$place/disk"
    "$replay" whole "$place/log" "$place/unseen" >/dev/null
    ! diff -r "$place/disk" "$place/unseen" >/dev/null
    result $? "a write past the C library is not missed"
}

# ---------------------------------------------------------------- train

settings="checkpoint.every=2 checkpoint.keep=1 optimizer.lr=0.3 evaluation.split=0.1 evaluation.every=2 log.every=1
    log.tensorboard=true threads=1 --quiet"

lora() {
    # shellcheck disable=SC2086
    "$metier" train "$place/run.yaml" "out=$1/runs/one" steps=8 $settings
}

full() {
    # shellcheck disable=SC2086
    "$metier" train "$place/run.yaml" "out=$1/one" train=full steps=4 $settings
}

# same_folders RUN RUN NAME...: and the same steps in the log.
same_folders() {
    one=$1
    two=$2
    shift 2
    for name; do diff -r "$one/$name" "$two/$name" || return 1; done
    cmp <(steps_of "$one") <(steps_of "$two")
}

steps_of() {
    sed -n 's/.*"kind": *"step", *"step": *\([0-9]*\).*/\1/p' "$1/metrics.jsonl"
}

same_lora() { same_folders "$1/runs/one" "$2/runs/one" adapter adapter-best; }
same_full() { same_folders "$1/one" "$2/one" model model-best; }

# look_at_runs PART RUNS: those folders are runs.
look_at_runs() {
    look "$1" --folder "$2/checkpoints/step-*" --folder "$2/adapter*" --folder "$2/model*" --lines "$2/metrics.jsonl" \
        --free "$2/lock" --free "$2/tensorboard/*" --promise '"event":"checkpoint"'
}

# Twice: the second time from an old checkpoint on, over what the first has logged.
try_lora() {
    begin
    finished lora "$place/disk"
    cp -r "$place/disk/runs/one" "$place/first"
    for name in adapter adapter-best checkpoints/step-00000008; do
        record mv "$place/disk/runs/one/$name" "$place/disk/runs/one/$name.tmp.old"
    done
    finished lora "$place/disk"
    same_folders "$place/first" "$place/disk/runs/one" adapter adapter-best
    result $? "lora: gone on, the result is another"
    look_at_runs lora runs/one
    goes_on lora lora same_lora
}

try_full() {
    begin
    finished full "$place/disk"
    look_at_runs full one
    goes_on full full same_full
}

# Two ranks, each of which writes its part of a checkpoint. MPI keeps what it has allocated until the process ends.
ranks() {
    # shellcheck disable=SC2086
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 \
        ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" mpirun --oversubscribe --bind-to none -n 2 "$metier" train "$place/run.yaml" "out=$1/one" steps=8 $settings
}

same_ranks() { same_folders "$1/one" "$2/one" adapter adapter-best; }

try_ranks() {
    if ! command -v mpirun >/dev/null || [ ! -e "$(dirname "$metier")/../lib/metier/metier_mpi.so" ]; then
        echo "ranks    skipped: built without MPI"
        return
    fi
    begin
    finished ranks "$place/disk"
    look_at_runs ranks one
    goes_on ranks ranks same_ranks
}

# ---------------------------------------------------------------- eval

evaluate() {
    "$metier" eval --tasks glue_cola --data "$place/questions" --questions "$1/asked.jsonl" || return 1
    "$metier" eval --tasks glue_cola,glue_sst2 --data "$place/questions" --model "$place/model" --out "$1/eval/one" \
        --threads 1 --quiet
}

same_eval() {
    for task in glue_cola glue_sst2; do
        cmp "$1/eval/one/samples_$task.jsonl" "$2/eval/one/samples_$task.jsonl" || return 1
    done
    cmp "$1/asked.jsonl" "$2/asked.jsonl"
}

try_eval() {
    mkdir -p "$place/questions/glue/CoLA" "$place/questions/glue/SST-2"
    awk 'BEGIN { for (i = 0; i < 90; i++) printf "s1\t%d\t\tThe %d dogs bark.\n", i % 2, i }' \
        >"$place/questions/glue/CoLA/dev.tsv"
    awk 'BEGIN { print "sentence\tlabel"; for (i = 0; i < 30; i++) printf "the %d films are fine .\t%d\n", i, i % 2 }' \
        >"$place/questions/glue/SST-2/dev.tsv"
    begin
    finished evaluate "$place/disk"
    look eval --lines 'eval/one/samples_*.jsonl' --free 'eval/one/lock'
    goes_on eval evaluate same_eval
}

# ---------------------------------------------------------------- eval --card

make_adapter() {
    [ -d "$place/adapter" ] || "$metier" forward "$place/model" --ids 5,17,3 --grads --train lora --rank 3 --lora-b-std 0.1 \
        --targets attention,router,routed_experts --save-adapter "$place/adapter" >/dev/null 2>&1
    result $? "no adapter"
}

card() {
    [ -d "$1/adapter" ] || "$metier" adapter "$place/adapter" --model "$place/model" --layout vllm --out "$1/adapter" || return 1
    "$metier" eval "$place/two.yaml" --data "$place" --model "$place/model" --adapter "$1/adapter" --out "$place/asked" \
        --threads 1 --card --quiet
}

try_card() {
    make_adapter
    printf '{"q": "1 + 2 = ", "a": "3"}\n{"q": "3 + 4 = ", "a": "7"}\n' >"$place/two.jsonl"
    printf '%s\n' 'title: two' 'domain: math' 'hub: some/data adding 2' 'data: two.jsonl' 'prompt: "{q}"' 'answer: "{a}"' \
        'max_tokens: 4' 'metrics: [exact_match]' >"$place/two.yaml"
    begin
    finished card "$place/disk"
    look card
    goes_on card card same_all
}

# ---------------------------------------------------------------- merge, prune, adapter, init; synth, recipe, tokenize, choices, forward

# Verbs that write one folder, which is not written again where it is, or one file.
folders() {
    [ -d "$1/out/init" ] || "$metier" init --config "$place/config.json" --seed 3 --out "$1/out/init" || return 1
    [ -d "$1/out/merged" ] || "$metier" merge "$place/model" --adapter "$place/adapter" --out "$1/out/merged" || return 1
    [ -d "$1/out/pruned" ] || "$metier" prune "$place/model" --keep 50% --data "$place/data.jsonl" --out "$1/out/pruned" --speed 0 || return 1
    [ -d "$1/vllm" ] || "$metier" adapter "$place/adapter" --model "$place/model" --layout vllm --out "$1/vllm" || return 1
    "$metier" synth --domain math --count 200 --out "$1/new/problems.jsonl" || return 1
    "$metier" recipe gsm8k --data "$here/../share/samples" --out "$1/new/rows.jsonl" --overlap-out "$1/new/removed.jsonl" || return 1
    "$metier" tokenize "$1/words" --train "$place/data.jsonl" --vocabulary 262 --quiet || return 1
    "$metier" train "$place/run.yaml" --record-choices "$1/choices.safetensors" --quiet || return 1
    "$metier" forward "$place/model" --ids 5,17,3 --out "$1/logits.safetensors"
}

same_all() { diff -r -x '*.tmp.*' "$1" "$2"; }

try_folders() {
    make_adapter
    begin
    finished folders "$place/disk"
    look folders --folder 'out/*' --folder vllm
    goes_on folders folders same_all
}

# ---------------------------------------------------------------- compare

compare() {
    "$metier" compare "$place/compare.yaml" "out=$1/out/cmp" --chart-js "$place/chart.js" --quiet
}

same_compare() {
    cmp <(grep -v '"times' "$1/out/cmp/compare.json") <(grep -v '"times' "$2/out/cmp/compare.json")
}

# Twice: the second time one cell has not been measured, and is trained again from nothing.
try_compare() {
    head -n 30 "$place/data.jsonl" >"$place/test.jsonl"
    echo '/* stands for Chart.js v3.0 */' >"$place/chart.js"
    cat >"$place/compare.yaml" <<END
model: $place/model
methods: [aux, paper]
seeds: [1]
domains: [{name: sums, train: $place/data.jsonl, test: $place/test.jsonl}, math]
others: []
problems: {train: 40, test: 10}
training:
    steps: 4
    data: {max_length: 64}
    batch: {examples: 8, tokens: 64}
    lora: {rank: 4, alpha: 8}
    checkpoint: {every: 2}
threads: 1
END
    begin
    finished compare "$place/disk"
    record rm "$place/disk/out/cmp/cells/aux-sums-s1/cell.json"
    finished compare "$place/disk"
    look_at_runs compare 'out/cmp/cells/*/run'
    goes_on compare compare same_compare
}

"$here/support/train-bench" "$metier" "$place" || exit 1
for part in $parts; do "try_$part"; done
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
