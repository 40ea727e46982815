#!/bin/sh
# Standard streams that are closed, full or gone; limits of a file's size; numbers that are none.
# Usage: streams.sh PATH-TO-METIER
set -u
metier=$1
share=$(cd "$(dirname "$0")/../../share" && pwd) || exit 1
model=$share/models/tiny-deepseek-v2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# check DESCRIPTION COMMAND...: the command succeeds.
check() {
    what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        printf 'FAIL %s\n' "$what"
        failed=$((failed + 1))
    fi
}

# refused STATUS TEXT ARGUMENTS...: that exit status, and the text on standard error.
refused() {
    wanted=$1
    text=$2
    shift 2
    "$metier" "$@" >"$work/out" 2>"$work/err"
    got=$?
    check "metier $*: exit status $got, wanted $wanted" [ $got -eq "$wanted" ]
    check "metier $*: no '$text' in: $(cat "$work/err")" grep -qF -- "$text" "$work/err"
}

# A full disk behind standard output is a failure of every verb.
for line in "--help" "--version" "devices" "inspect $model" "tokenize $model --file $model/config.json" "objective --methods" \
    "train --keys" "train --help" "compare --keys" "eval --list" "synth --show 1" "plan $model" \
    "synth --list" "objective --keys" "forward $model --ids 1,2" "init --config $model/config.json --out $work/full" \
    "generate $model --prompt 1+1 --max-new 2"; do
    # shellcheck disable=SC2086 # words
    "$metier" $line >/dev/full 2>"$work/err"
    check "metier $line into a full disk" [ $? -eq 1 ]
    check "metier $line into a full disk says so" grep -q 'standard output' "$work/err"
done
# Whoever closes a pipe has read enough: nothing is said about it.
mkfifo "$work/gone" # says that the reader is gone
for line in "objective --methods" "train --keys" "synth --show 1" "inspect $model" "plan $model"; do
    # shellcheck disable=SC2086 # words
    { read -r _ <"$work/gone"; "$metier" $line 2>"$work/err"; } | { exec <&-; echo >"$work/gone"; }
    check "metier $line into a closed pipe says nothing: $(cat "$work/err")" [ ! -s "$work/err" ]
done
"$metier" devices >&- 2>"$work/err"
check "closed standard output" [ $? -eq 1 ]

# Messages never land in an output file that was given the number of a closed stream.
"$metier" synth --domain math --count 40 --seed 1 --out "$work/data.jsonl" >/dev/null 2>&1
cat >"$work/run.yaml" <<END
model: $model
device: cpu
data.path: $work/data.jsonl
method: none
targets: [attention]
seed: 1
END
run() { # NAME: init, train, merge and generate into a folder
    "$metier" init --config "$model/config.json" --seed 1 --out "$work/$1/init" &&
        "$metier" train "$work/run.yaml" out="$work/$1/run" steps=3 &&
        "$metier" merge "$model" --adapter "$work/$1/run/adapter" --out "$work/$1/merged" &&
        "$metier" generate "$model" --device cpu --prompt 'what is 2 plus 3' --max-new 4 --out "$work/$1/answers.jsonl"
}
mkdir "$work/open" "$work/closed" "$work/none"
run open >/dev/null 2>&1
check "the commands run" [ $? -eq 0 ]
run closed >/dev/null 2>&-
check "the commands run without standard error" [ $? -eq 0 ]
run none >/dev/null 2>&- <&-
check "the commands run without standard input and error" [ $? -eq 0 ]
for way in closed none; do
    for file in init/model.safetensors run/adapter/adapter_model.safetensors merged/model.safetensors answers.jsonl; do
        check "$way: $file is the same" cmp -s "$work/open/$file" "$work/$way/$file"
    done
done

# Who reads the output may leave; the run goes on.
"$metier" train "$work/run.yaml" out="$work/head" steps=20 2>&1 | head -n 1 >/dev/null
check "training whose output nobody reads" [ -s "$work/head/adapter/adapter_model.safetensors" ]

# A file that may not grow is a sentence, not a signal.
(
    ulimit -f 64
    "$metier" init --config "$model/config.json" --seed 1 --out "$work/limited" >"$work/out" 2>"$work/err"
)
check "past the limit of a file's size" [ $? -eq 1 ]
check "past the limit of a file's size, a sentence: $(cat "$work/err")" grep -q 'File too large' "$work/err"

# Numbers that are none.
for option in --temperature --top-p --repetition-penalty; do
    refused 2 "$option wants a number" generate "$model" --prompt x $option nan
    refused 2 "$option wants a number" generate "$model" --prompt x $option inf
    refused 2 "$option must not be negative" generate "$model" --prompt x $option -1
done
refused 2 "--std wants a number" init --config "$model/config.json" --out "$work/std" --std nan
refused 2 "--std must not be negative" init --config "$model/config.json" --out "$work/std" --std -0.1
refused 2 "--threads must not be negative" generate "$model" --prompt x --threads -1

# Weights that are no numbers: the last of the file are the last norm's.
cp -r "$model" "$work/nan"
chmod -R u+w "$work/nan"
size=$(wc -c <"$work/nan/model.safetensors")
printf '\377\377\377\377\377\377\377\377' |
    dd of="$work/nan/model.safetensors" bs=1 seek=$((size - 8)) conv=notrunc 2>/dev/null
refused 1 "are not finite" generate "$work/nan" --device cpu --prompt 'what is 2 plus 3' --max-new 4
refused 1 "are not finite" eval gsm8k --device cpu --data "$share/samples" --model "$work/nan" --limit 2 --out "$work/eval"
refused 1 "are not finite" forward "$work/nan" --device cpu --ids 1,2,3 --out "$work/nan.safetensors"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
