#!/bin/sh
# The cards beside adapters and models: README.md and .eval_results of metier train, merge, adapter and eval --card, what
# they say, and that nothing private is in them. Usage: card.sh METIER SHARE
set -u
metier=$1
share=$2
. "$(dirname "$0")/../support/expect.sh"
base=$share/models/tiny-mixtral
cd "$place" || exit 1

# has FILE TEXT, lacks FILE TEXT
has() {
    grep -qF -- "$2" "$1"
    result $? "$1 does not say: $2"
}
lacks() {
    ! grep -qF -- "$2" "$1"
    result $? "$1 says: $2"
}

mkdir private
"$metier" synth --domain math --count 60 --out private/secret.jsonl >/dev/null
printf 'model: %s\nout: run\ndata.path: %s/private/secret.jsonl\nsteps: 2\nmethod: paper\nevaluation.split: 0.2\n' \
    "$base" "$place" >run.yaml
expect 0 'as trained' train run.yaml --quiet
for folder in run/adapter run/adapter-best; do
    card=$folder/README.md
    [ "$(head -n 1 $card)" = --- ]
    result $? "$card does not begin with a front matter"
    has $card 'library_name: peft'
    has $card 'base_model: "tiny-mixtral"'
    has $card 'base_model_relation: adapter'
    has $card '| method | paper |'
    has $card '| data | `secret.jsonl` |'
    has $card "Made by metier $("$metier" --version | sed -n 's/^metier //p')"
    has $card 'nats a token, after step 2'
    lacks $card "$place"
    lacks $card private
    lacks $card "$(sed -n '1s/.*"prompt": *"\([^"]*\)".*/\1/p' private/secret.jsonl)"
done

# The settings of the card are those of the run.
sed -n '/^```yaml/,/^```$/p' run/adapter/README.md | sed '1d;$d' >again.yaml
has again.yaml 'evaluation.split: 0.2'
ln -s "$base" tiny-mixtral
ln -s private/secret.jsonl secret.jsonl
expect 0 'as trained' train again.yaml out=again --quiet
same run/adapter/adapter_model.safetensors again/adapter/adapter_model.safetensors
same run/adapter/README.md again/adapter/README.md

# Other layouts and mended adapters keep the card.
expect 0 '' adapter run/adapter --model "$base" --layout vllm --out vllm
same run/adapter/README.md vllm/README.md
rm vllm/README.md
expect 0 '' adapter vllm --model "$base" --out plain
has plain/README.md 'library_name: peft'
lacks plain/README.md "$place"

# A merged folder: its command, and how the adapter was made.
expect 0 'merged' merge "$base" --adapter run/adapter --out merged --dtype f32
has merged/README.md 'library_name: transformers'
has merged/README.md 'base_model_relation: finetune'
has merged/README.md 'metier merge tiny-mixtral --adapter adapter --out merged --dtype f32'
has merged/README.md '| method | paper |'
lacks merged/README.md "$place"

# The model's own name in the hub's cache; names that are none are left out.
mkdir -p hub/models--some-org--A-Model.1/snapshots 'odd|`name'
ln -s "$base" hub/models--some-org--A-Model.1/snapshots/0123
expect 0 '' adapter vllm --model hub/models--some-org--A-Model.1/snapshots/0123 --out cached
has cached/README.md 'base_model: "some-org/A-Model.1"'
ln -s "$base" 'odd|`name/---'
expect 0 '' adapter vllm --model 'odd|`name/---' --out odd
lacks odd/README.md 'base_model'

# What is no card does not stop a merge.
head -c 3000000 /dev/zero >vllm/README.md
expect 0 'merged' merge "$base" --adapter vllm --out merged-large
has merged-large/README.md 'metier merge'
rm vllm/README.md
ln -s /dev/zero vllm/README.md
expect 0 'merged' merge "$base" --adapter vllm --out merged-endless

# Figures: a row for each task, once, and a file for the hub if all of its questions were asked.
mkdir -p data
printf '{"q": "1 + 2 = ", "a": "3"}\n{"q": "3 + 4 = ", "a": "7"}\n' >data/two.jsonl
printf 'title: two\ndomain: math\nhub: some/data adding 2\ndata: two.jsonl\nprompt: "{q}"\nanswer: "{a}"\nmax_tokens: 4\nmetrics: [exact_match]\n' >two.yaml
sed 's/adding 2/adding 3/' two.yaml >three.yaml
ask() { expect 0 'README.md' eval "$place/$1.yaml" --data data --model "$base" --adapter run/adapter --out "asked-$1" --card --quiet; }
ask two
[ "$(grep -c '^| two | exact_match | ' run/adapter/README.md)" = 1 ]
result $? "no row of the task two"
has run/adapter/.eval_results/two.yaml 'id: some/data'
has run/adapter/.eval_results/two.yaml 'task_id: adding'
has run/adapter/.eval_results/two.yaml 'value: '
ask three
ask two
[ "$(grep -c '^| two | ' run/adapter/README.md)" = 1 ] && [ "$(grep -c '^| three | ' run/adapter/README.md)" = 1 ]
result $? "not one row for each task: $(cat run/adapter/README.md)"
[ ! -e run/adapter/.eval_results/three.yaml ]
result $? "a file for the hub, although it has other questions"
lacks run/adapter/README.md "$place"
expect 0 'merged' merge "$base" --adapter run/adapter --out merged-later
lacks merged-later/README.md '| two |'
[ ! -e merged-later/.eval_results ]
result $? "results of the adapter are with the merged model"

# A card that somebody else wrote stays.
printf 'mine\n' >merged/README.md
expect 2 'metier did not write' eval "$place/two.yaml" --data data --model merged --out asked-mine --card --quiet
[ "$(cat merged/README.md)" = mine ]
result $? "a card that is not ours was changed"
rm merged/README.md
mkfifo merged/README.md
expect 2 'metier did not write' eval "$place/two.yaml" --data data --model merged --out asked-mine --card --quiet
expect 2 '--card means nothing' eval "$place/two.yaml" --data data --answers two.jsonl --out x --card

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
