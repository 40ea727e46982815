#!/bin/sh
# The program's manners: exit status 0/1/2, results on standard output, complaints on standard error.
# Usage: cli.sh PATH-TO-METIER
set -u
metier=$1
share=$(cd "$(dirname "$0")/../../share" && pwd)
failed=0
output=$(mktemp -d) || exit 1
trap 'rm -rf "$output"' EXIT

# expect STATUS TEXT-ON-STDOUT TEXT-ON-STDERR arguments...   (an empty text means: nothing on that stream)
expect() {
    status=$1
    stdout_text=$2
    stderr_text=$3
    shift 3
    "$metier" "$@" >"$output/out" 2>"$output/err"
    got=$?
    problem=
    [ $got -eq "$status" ] || problem="exit status $got, expected $status"
    for stream in out err; do
        text=$stdout_text
        [ $stream = out ] || text=$stderr_text
        if [ -z "$text" ]; then
            [ ! -s "$output/$stream" ] || problem="$problem; unexpected text on std$stream"
        else
            grep -qF -- "$text" "$output/$stream" || problem="$problem; no '$text' on std$stream"
        fi
    done
    if [ -n "$problem" ]; then
        printf 'FAIL metier %s: %s\n' "$*" "$problem"
        cat "$output/out" "$output/err"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

passed=0
expect 2 "" "usage: metier VERB"
expect 0 "usage: metier VERB" "" --help
expect 0 "metier " "" --version
expect 0 "devices: ref cpu" "" --version
expect 0 "share/metier" "" --share
expect 0 "usage: metier VERB" "" help
expect 0 "usage: metier devices" "" help devices
expect 0 ".SH NAME" "" help devices --man
expect 2 "" "there is no verb 'device'" help device
expect 2 "" "expected bash, zsh or fish" help --complete sh
expect 2 "" "--complete means nothing with a verb" help devices --complete bash
for verb in train compare eval recipe; do expect 0 '"$schema"' "" $verb --schema; done
expect 0 '"lora.rank"' "" train --schema
expect 0 "--schema" "" train --help
expect 2 "" "unknown option --schema" devices --schema

# completed WORD...: what bash would offer for the last of them; = is a word of its own, as bash has it.
"$metier" help --complete bash >"$output/completions"
completed() {
    bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _metier; echo "${COMPREPLY[*]}"' "$output/completions" "$@"
}
# offers EXPECTED WORD...
offers() {
    wanted=$1
    shift
    got=$(completed "$@")
    [ "$got" = "$wanted" ] && return
    echo "FAIL $*: bash offers '$got', expected '$wanted'"
    failed=$((failed + 1))
}
offers train "$metier" tr
offers --schema "$metier" train --sch
offers "lora.rank= lora.alpha= lora.dropout= lora.layout=" "$metier" train run.yaml lora.
offers "auto per-expert fused vllm" "$metier" train run.yaml lora.layout =
offers "loss-free" "$metier" train run.yaml method = loss
offers "method=loss-free" "$metier" train run.yaml method=loss
offers "true" "$metier" train run.yaml noise = t
offers "" "$metier" train run.y
offers "" "$metier" train run.yaml data.path = x
offers "training.optimizer.lr=" "$metier" compare c.yaml training.optimizer.l
offers "constant" "$metier" compare c.yaml training.optimizer.schedule = cons
offers "synth_math" "$metier" eval synth_ma
offers "gsm8k,humaneval gsm8k,humaneval_chat gsm8k,humaneval_plus" "$metier" eval --tasks gsm8k,human
offers "gsm8k" "$metier" recipe gsm8
offers "loss-free" "$metier" forward --method loss
offers "ref" "$metier" objective --device re

expect 2 "" "did you mean 'devices'" device
expect 2 "" "there is no verb 'xyzzy'" xyzzy
expect 0 "cpu" "" devices
expect 0 "1 thread" "" devices --threads 1
expect 0 "1 thread" "" devices --threads=1
expect 0 "examples:" "" devices --help
expect 2 "" "did you mean --threads" devices --thread 1
expect 2 "" "wants a value" devices --threads
expect 2 "" "wants a whole number" devices --threads two
expect 2 "" "--threads must not be negative" devices --threads -3
expect 2 "" "unexpected argument 'x'" devices x
expect 2 "" "unexpected argument '--threads'" devices -- --threads
expect 2 "" "expected a model folder" plan
expect 2 "" "does not divide 4 ranks" plan --ranks 4 "$share/models/tiny-mixtral" parallel.experts=3
expect 1 "" "hf download ORG/NAME --local-dir $output/nowhere" plan "$output/nowhere"

# Names of the hub where a folder is wanted: every verb says what to do instead, and leaves nothing behind.
cd "$output" || exit 1
mkdir place && cd place || exit 1
fetch="hf download Org-1/moe_2.b --local-dir models/moe_2.b"
name=Org-1/moe_2.b
echo '{}' >../rows.jsonl
printf 'model: %s\nout: run\ndata.path: ../rows.jsonl\n' "$name" >../run.yaml
printf 'model: %s\nout: run\nmethods: [aux]\ndomains: [math]\n' "$name" >../compare.yaml
expect 2 "" "$fetch" inspect "$name"
expect 2 "" "$fetch" inspect "$name/"
expect 2 "" "$fetch" inspect "https://huggingface.co/$name"
expect 2 "" "$fetch" inspect "https://huggingface.co/$name/tree/main"
expect 2 "" "$fetch" forward "$name" --ids 1
expect 2 "" "$fetch" generate "$name" --prompt x
expect 2 "" "$fetch" generate "$name" --prompt x --context 64
expect 2 "" "$fetch" chat "$name" --template chatml
expect 2 "" "$fetch" analyze --model "$name" --data ../rows.jsonl --out analysis
expect 2 "" "$fetch" merge "$name" --adapter x --out merged
expect 2 "" "$fetch" prune "$name" --keep 2 --data ../rows.jsonl --out pruned
expect 2 "" "$fetch" plan "$name"
expect 2 "" "$fetch" tokenize "$name" --file ../rows.jsonl
expect 2 "" "$fetch" eval gsm8k --data .. --model "$name"
expect 2 "" "$fetch" train ../run.yaml
expect 2 "" "$fetch" train ../run.yaml --dry-run
expect 2 "" "$fetch" compare ../compare.yaml
[ -z "$(ls)" ] || { echo "FAIL a name of the hub leaves behind: $(ls)"; failed=$((failed + 1)); }
for path in ./"$name" "$output/$name" models/moe runs/a/adapter moe Org-1/a/b; do
    expect 1 "" "cannot open" inspect "$path"
done
# A folder of one's own that is not there: the same, where nothing is known of whose it is.
missing="models/moe: cannot open: there is no such file or folder, and metier downloads nothing; a folder of the Hugging Face hub comes with: hf download ORG/NAME --local-dir models/moe "
sed -i 's,^model: .*,model: models/moe,' ../run.yaml ../compare.yaml
expect 1 "" "$missing" inspect models/moe
expect 1 "" "$missing" forward models/moe --ids 1
expect 1 "" "$missing" generate models/moe --prompt x
expect 1 "" "$missing" chat models/moe --template chatml
expect 1 "" "$missing" analyze --model models/moe --data ../rows.jsonl --out analysis
expect 1 "" "$missing" merge models/moe --adapter x --out merged
expect 1 "" "$missing" adapter x --model models/moe
expect 1 "" "$missing" plan models/moe
expect 1 "" "$missing" tokenize models/moe --file ../rows.jsonl
expect 1 "" "$missing" eval gsm8k --data .. --model models/moe
expect 1 "" "$missing" train ../run.yaml
expect 1 "" "$missing" train ../run.yaml --dry-run
expect 1 "" "$missing" train ../run.yaml --record-choices choices
expect 1 "" "$missing" compare ../compare.yaml
expect 1 "" "$missing" compare ../compare.yaml --dry-run
expect 1 "" "$missing" init --upcycle models/moe --out upcycled
[ -z "$(ls)" ] || { echo "FAIL a folder that is not there leaves behind: $(ls)"; failed=$((failed + 1)); }
mkdir lfs
cp "$share/models/tiny-mixtral/config.json" lfs
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' >lfs/model.safetensors
expect 2 "" "git lfs pull" inspect lfs
mkdir Org-1
expect 1 "" "cannot open" inspect "$name"
cd ..
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
