#!/bin/bash
# One rank of several comes to grief, in every way we know: all end, the first line printed says what and
# where, and what was saved before goes on. Usage: failures.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"
# Neither MPI nor its launcher may need large files of their own: ranks get limits here.
export OMPI_MCA_btl=self,tcp PMIX_MCA_gds=hash
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT

"$here/support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml
weights=adapter/adapter_model.safetensors

# The first line of a job; hwloc's own about a machine without /sys come before anything of ours.
first_line() { grep -v '^\[hwloc' "$place/text" | head -n 1; }

# Two ranks as they are, and a third that runs differently. WHERE: the number of the odd one, 0 or 2. ODD: a shell command
# that ends in the program. ends WHERE TEXT ODD ARGUMENTS...: the job fails, TEXT (a pattern) is told first.
ends() {
    local where=$1 text=$2 odd=$3
    shift 3
    local even=(-n 2 "$metier" "$@") other=(-n 1 bash -c "$odd" "$metier" "$@")
    local got
    if [ "$where" -eq 0 ]; then
        in_time "${start[@]}" "${other[@]}" : "${even[@]}"
    else
        in_time "${start[@]}" "${even[@]}" : "${other[@]}"
    fi >"$place/text" 2>&1
    got=$?
    [ $got -ne 0 ] && [ $got -ne 124 ] && [ $got -ne 137 ] && first_line | grep -q "$text"
    result $? "$odd $*: exit status $got, expected '$text', got $(head -n 3 "$place/text")"
}

as_is='exec "$0" "$@"'

# Files that one rank cannot read.
cp -r "$place/model" "$place/bent"
truncate -s -100 "$place/bent/model.safetensors"
ends 2 '^metier train: rank 2: .*bent/model.safetensors' 'exec "$0" "$@" "model='"$place"'/bent"' train "$config" out="$place/a" --quiet
ends 0 '^metier train: rank 0: .*bent/model.safetensors' 'exec "$0" "$@" "model='"$place"'/bent"' train "$config" out="$place/b" --quiet
ends 2 '^metier train: rank 2: .*nothing.jsonl' 'exec "$0" "$@" "data.path='"$place"'/nothing.jsonl"' train "$config" \
    out="$place/c" --quiet
for name in a b c; do
    [ -z "$(ls "$place/$name/checkpoints" 2>/dev/null)" ]
    result $? "a run that could not be opened left checkpoints"
done

# Memory that one rank does not get: the sanitizer's own takes any limit, and the user-mode emulator of other processors
# keeps none, so that the program runs there in 10 MB.
if nm -D "$metier" 2>/dev/null | grep -q __asan_init || (ulimit -v 10000 && "$metier" --help >/dev/null 2>&1); then
    echo "failures.sh: limits of memory do not bind here: not tried"
else
    ends 2 '^metier train: rank 2: out of memory: .*what helps: ' 'ulimit -v 500000; exec "$0" "$@"' train "$config" out="$place/d" --quiet \
        batch.tokens=200000 batch.examples=800 data.max_length=250
    kilobytes=500000
    [ "$launcher" = mpirun ] || kilobytes=350000 # MPI itself needs the rest
    ends 2 '^metier eval: rank 2: .*\(cannot allocate\|out of memory\)' "ulimit -v $kilobytes;"' exec "$0" "$@"' eval gsm8k --data "$here/../share/samples" \
        --model "$place/model" --context 250 --slots 4000 --out "$place/e" --quiet
fi

# A disk that is full when the first rank saves, or another its part: what was saved before is whole, and the run ends as
# if nothing was.
ranks 3 "$metier" train "$config" out="$place/calm" steps=9 checkpoint.every=3 --quiet >"$place/text" 2>&1
result $? "an undisturbed run: $(head -n 3 "$place/text")"
saved() { ls "$place/full/checkpoints" 2>/dev/null | grep -qx "step-[0-9]*"; }
until [ -d "$place/full" ] && [ ! -e "$place/full/adapter" ]; do # it may be over before it is killed
    rm -rf "$place/full"
    ranks 3 "$metier" train "$config" out="$place/full" steps=60 checkpoint.every=20 --quiet >"$place/text" 2>&1 &
    job=$!
    until_true $job saved
    result $? "no checkpoint: $(head -n 3 "$place/text")"
    for pid in $(pgrep -f "metier train $config out=$place/full"); do
        grep -qz $rank_variable= "/proc/$pid/environ" 2>/dev/null && kill -KILL "$pid"
    done
    wait $job
done
step=$(ls "$place/full/checkpoints" | grep -v tmp | tail -n 1)
for rank in 0 2; do
    name=state-$rank.safetensors
    [ $rank -ne 0 ] || name=state.safetensors
    ends $rank "^metier train: step [0-9]* is not saved: rank $rank: .*$name: .*File too large" \
        'trap "" XFSZ; ulimit -f 40; exec "$0" "$@"' train "$config" out="$place/full" steps=60 checkpoint.every=20 --quiet
    [ "$(ls "$place/full/checkpoints" | tail -n 1)" = "$step" ]
    result $? "the last checkpoint is not $step: $(ls "$place/full/checkpoints")"
done
ranks 2 "$metier" train "$config" out="$place/full" steps=60 checkpoint.every=20 --quiet >"$place/text" 2>&1
result $? "going on after a full disk: $(head -n 3 "$place/text")"
[ -s "$place/full/$weights" ]
result $? "no adapter after a full disk"
mkdir -p "$place/rows/glue/RTE"
awk 'BEGIN { print "index\tsentence1\tsentence2\tlabel"; for (i = 0; i < 60; i++)
    printf "%d\tThere are %d.\tThere are some.\tentailment\n", i, i }' >"$place/rows/glue/RTE/dev.tsv"
narrow="glue_rte --data $place/rows --model $place/model --out $place/narrow --quiet"
# shellcheck disable=SC2086
ends 2 '^metier eval: rank 2: .*part_2_.*File too large' 'trap "" XFSZ; ulimit -f 1; exec "$0" "$@"' eval $narrow
# shellcheck disable=SC2086
ranks 3 "$metier" eval $narrow >"$place/text" 2>&1
result $? "going on after a full disk: $(head -n 3 "$place/text")"
[ "$(wc -l <"$place/narrow/samples_glue_rte.jsonl")" -eq 60 ]
result $? "not all samples after a full disk"

# A number that is none, met by one rank after some steps: the checkpoint before is whole, and leads there again.
"$here/support/poisoned-model" "$metier" "$place/model" "$place/poisoned" || exit 1
(cat "$place/data.jsonl"; echo '{"prompt": "Z", "completion": " ok"}') >"$place/poison.jsonl"
words="model=$place/poisoned data.path=$place/poison.jsonl out=$place/nan checkpoint.every=1 checkpoint.keep=2 --quiet"
for life in first second; do
    # shellcheck disable=SC2086
    ends 2 '^metier train: rank [012]: step [0-9]*: .*not finite' "$as_is" train "$config" $words
    told=$(first_line | sed 's/.*: step \([0-9]*\):.*/\1/')
    newest=$(ls "$place/nan/checkpoints" 2>/dev/null | grep -v tmp | tail -n 1)
    [ "$((10#${newest#step-} + 1))" -eq "$told" ]
    result $? "$life: a number that is none in step $told, the newest checkpoint is '$newest'"
done
exit $failed
