#!/bin/sh
# metier generate and metier chat from outside: what they print, write and refuse. Usage: generate.sh METIER GOLDEN
set -u
metier=$1
golden=$2
. "$(dirname "$0")/../support/expect.sh"

model=$place/model
"$(dirname "$0")/../support/deepseek-model" "$metier" "$place" 128 440 ', "bos_token_id": 420, "eos_token_id": 421' ||
    fail "metier init"
cp "$golden/tokenizers/deepseek.json" "$model/tokenizer.json" || fail "no tokenizer"
i=0
while [ $i -lt 11 ]; do
    printf '{"prompt": "number %d of %d"}\n' $i $((i * i * i)) >>"$place/in.jsonl"
    i=$((i + 1))
done
printf '{"messages": [{"role": "user", "content": "hi"}]}\n' >"$place/chats.jsonl"

expect 0 '"finish": "length"' generate "$model" --in "$place/in.jsonl" --max-new 4 --ids
expect 0 '4 written' generate "$model" --prompt 'The end' --max-new 4
expect 0 '"tokens": 3' generate "$model" --in "$place/chats.jsonl" --template chatml --max-new 3
expect 2 'chats.jsonl:1: messages need a chat template' generate "$model" --in "$place/chats.jsonl" --template none
expect 0 'the model has no chat template of its own' generate "$model" --in "$place/chats.jsonl" --max-new 3
expect 2 'there is room for 6' generate "$model" --prompt 'a much longer text than six tokens' --context 6
expect 2 'give either' generate "$model"
expect 2 'model folder' generate --prompt x
expect 2 '--stop is an empty text' generate "$model" --prompt x --stop ''
expect 2 'top-p is 2' generate "$model" --prompt x --temperature 1 --top-p 2
expect 2 '--batch means nothing with --prompt' generate "$model" --prompt x --batch 4
expect 2 '--ids means nothing with --prompt' generate "$model" --prompt x --ids
expect 2 '--top-p means nothing with --temperature 0' generate "$model" --prompt x --temperature 0 --top-p 0.5
expect 2 '--seed means nothing without --temperature' generate "$model" --prompt x --seed 3
for template in none chatml; do
    expect 2 '--template-option means nothing with this --template' generate "$model" --prompt x --template $template --template-option a=b
done
expect 2 '--template-option means nothing here: the model has no chat template' generate "$model" --prompt x --template-option a=b
expect 0 'together: 32 sequences of 128 tokens, prompts ' generate "$model" --in "$place/in.jsonl" --max-new 2
expect 2 "--batch wants a whole number or auto, not 'many'" generate "$model" --in "$place/in.jsonl" --batch many
expect 2 '--batch is 0' generate "$model" --in "$place/in.jsonl" --batch 0
expect 2 "there is no chat template 'nothere'" generate "$model" --prompt x --template nothere
expect 0 'examples:' generate --help
expect 0 'Ctrl-C' chat --help
expect 0 'the model has no chat template of its own' chat "$model"

# Counts of one, and where the answers went.
expect 0 '1 answer: ' generate "$model" --prompt 'The end' --max-new 4
expect 0 '11 answers: ' generate "$model" --in "$place/in.jsonl" --max-new 1 --out "$place/counted"
grep -q "^written: $place/counted" "$place/text" || fail "--out does not say where the answers are"

# On a terminal: progress is never on a line with an answer, whether both are written there or a pipe is between.
cat >"$place/screen.py" <<'END'
import json, re, sys
lines = open(sys.argv[1], encoding="utf-8", newline="").read().replace("\r\n", "\n").split("\n")
shown = [re.sub(r"\x1b\[K", "", line.split("\r")[-1]) for line in lines]  # what a wiped and redrawn line leaves
answers = [json.loads(line) for line in shown if line.startswith("{")]
assert [a["index"] for a in answers] == list(range(11)), shown
assert not any("{" in line and not line.startswith("{") for line in shown), shown
drawn = [part for line in lines for part in line.split("\r") if "%" in part]
assert len(drawn) >= int(sys.argv[2]), drawn
END
for pipe in '' '| cat'; do
    least=3
    [ -z "$pipe" ] || least=0
    TERM=xterm script -qec "'$metier' generate '$model' --in '$place/in.jsonl' --max-new 20 --batch 1 $pipe" /dev/null \
        >"$place/screen" </dev/null || fail "generate on a terminal"
    python3 "$place/screen.py" "$place/screen" $least || fail "progress and answers mix on a terminal $pipe"
done

# The token that begins texts: this tokenizer adds it, a stripped one does not, --bos decides.
count() {
    "$metier" generate "$model" --in "$place/one.jsonl" --max-new 1 --quiet "$@" 2>"$place/said-bos" |
        sed 's/.*"prompt_tokens": \([0-9]*\).*/\1/'
}
printf '{"prompt": "hi"}\n' >"$place/one.jsonl"
with=$(count)
[ "$(count --bos no)" -eq $((with - 1)) ] || fail "--bos no leaves a token in front"
[ "$(count --bos yes)" -eq "$with" ] || fail "--bos yes adds a second token"
printf '{"add_bos_token": true, "bos_token": "<｜begin▁of▁sentence｜>"}' >"$model/tokenizer_config.json"
[ "$(count)" -eq "$with" ] || fail "add_bos_token changes a tokenizer that adds the token"
[ -s "$place/said-bos" ] && fail "a warning without a reason: $(cat "$place/said-bos")"
python3 - "$model/tokenizer.json" <<'END' || fail "no stripped tokenizer"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    tokenizer = json.load(file)
tokenizer["post_processor"] = None
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(tokenizer, file)
END
[ "$(count)" -eq $((with - 1)) ] || fail "a tokenizer that adds nothing got a token in front"
grep -qF -- '--bos yes adds it' "$place/said-bos" || fail "nothing said of add_bos_token"
[ "$(count --bos yes)" -eq "$with" ] || fail "--bos yes adds no token"
[ -s "$place/said-bos" ] && fail "a warning without a reason: $(cat "$place/said-bos")"
cp "$golden/tokenizers/deepseek.json" "$model/tokenizer.json"
rm "$model/tokenizer_config.json"
expect 2 "--bos is 'maybe'" generate "$model" --prompt x --bos maybe
expect 2 '--bos is for plain texts' generate "$model" --prompt x --bos yes --template chatml

# Company changes nothing, whether drawn or not; a seed does.
for batch in 1 3 8 auto; do
    "$metier" generate "$model" --in "$place/in.jsonl" --max-new 12 --ids --quiet --batch $batch \
        --out "$place/greedy-$batch" || fail "batch $batch"
    "$metier" generate "$model" --in "$place/in.jsonl" --max-new 12 --ids --quiet --batch $batch \
        --temperature 0.9 --top-p 0.95 --seed 5 --out "$place/drawn-$batch" || fail "batch $batch, drawn"
done
same greedy-1 greedy-3 "greedy"
same greedy-1 greedy-8 "greedy"
same greedy-1 greedy-auto "greedy"
same drawn-1 drawn-3 "drawn"
same drawn-1 drawn-8 "drawn"
same drawn-1 drawn-auto "drawn"
differ greedy-1 drawn-1 "drawing"
"$metier" generate "$model" --in "$place/in.jsonl" --max-new 12 --ids --quiet --temperature 0.9 --top-p 0.95 \
    --seed 6 --out "$place/other" || fail "another seed"
differ drawn-1 other "another seed"
[ "$(wc -l <"$place/greedy-3")" -eq 11 ] || fail "eleven rows, $(wc -l <"$place/greedy-3") answers"

# What generation_config.json says is what happens.
printf '{"do_sample": true, "temperature": 0.9, "top_p": 0.95, "top_k": 0, "max_new_tokens": 12}' \
    >"$model/generation_config.json"
"$metier" generate "$model" --in "$place/in.jsonl" --ids --quiet --seed 5 --out "$place/said" || fail "defaults"
same drawn-1 said "generation_config.json"
"$metier" generate "$model" --in "$place/in.jsonl" --ids --quiet --temperature 0 --out "$place/told" || fail "told"
same greedy-1 told "options over generation_config.json"
rm "$model/generation_config.json"

# Weights that are not numbers: no answer is made up of them, and --quiet does not hide it.
cp -r "$model" "$place/broken"
python3 - "$place/broken/model.safetensors" <<'END' || fail "no broken model"
import json, struct, sys
with open(sys.argv[1], "r+b") as file:
    size = struct.unpack("<Q", file.read(8))[0]
    at = json.loads(file.read(size))["model.norm.weight"]["data_offsets"]
    file.seek(8 + size + at[0])
    file.write(b"\xff" * (at[1] - at[0]))
END
for options in '' '--temperature 1'; do
    # shellcheck disable=SC2086
    expect 1 'are not finite numbers' generate "$place/broken" --in "$place/in.jsonl" --max-new 4 --quiet $options
done
grep -q '"index"' "$place/text" && fail "answers of a broken model"
printf 'hi\n' | "$metier" chat "$place/broken" --template chatml --max-new 4 >"$place/text" 2>&1
grep -q 'are not finite numbers' "$place/text" || fail "chat with a broken model"

# A stop text ends an answer, and is not part of it.
"$metier" generate "$model" --prompt 'The end' --max-new 12 --quiet >"$place/whole" || fail "whole"
stop=$(cut -c 4-5 "$place/whole")
"$metier" generate "$model" --prompt 'The end' --max-new 12 --quiet --stop "$stop" >"$place/cut" || fail "cut"
[ "$(wc -c <"$place/cut")" -lt "$(wc -c <"$place/whole")" ] || fail "--stop cut nothing"
if grep -qF -- "$stop" "$place/cut"; then fail "--stop '$stop' is still there"; fi

# An adapter is applied; one whose B is zero changes nothing.
for std in 0 0.3; do
    "$metier" forward "$model" --ids 1,2 --grads --train lora --targets attention,routed_experts --rank 2 --alpha 4 \
        --lora-b-std $std --save-adapter "$place/adapter-$std" >/dev/null 2>&1 || fail "no adapter"
    "$metier" generate "$model" --adapter "$place/adapter-$std" --in "$place/in.jsonl" --max-new 12 --ids --quiet \
        --out "$place/adapted-$std" || fail "adapter $std"
done
same greedy-1 adapted-0 "an adapter of zeros"
differ greedy-1 adapted-0.3 "an adapter"

# A conversation: /reset forgets, so the same question gets the same answer; /quit ends.
printf 'hi there\nmore\n/reset\nhi there\n/quit\nnever\n' |
    "$metier" chat "$model" --template chatml --max-new 6 >"$place/talk" 2>/dev/null || fail "chat"
printf 'hi there' | "$metier" chat "$model" --template chatml --max-new 6 >"$place/once" 2>/dev/null || fail "chat"
[ -s "$place/once" ] || fail "chat said nothing"
cat "$place/once" >"$place/expected"
head -c "$(wc -c <"$place/once")" "$place/talk" >"$place/first"
tail -c "$(wc -c <"$place/once")" "$place/talk" >"$place/last"
same expected first "the first answer"
same expected last "the answer after /reset"
printf 'one\ntwo\nthree\n' | "$metier" chat "$model" --template chatml --max-new 2 --context 60 >"$place/text" 2>&1 ||
    fail "a long conversation"
grep -q 'there is room for 60' "$place/text" || fail "a conversation that is too long is not said to be"

# README's example and others of its kind get the right answer from the model that comes along.
tiny=$(dirname "$0")/../../share/models/tiny-deepseek-v2
shown=$(sed -n "s/^metier generate .*--prompt '\([^']*\)'.*# \([a-z]*\);.*/\1=\2/p" "$(dirname "$0")/../../README.md")
[ -n "$shown" ] || fail "README.md shows no prompt with its answer"
for pair in "$shown" 'gold at 900 C:=solid' 'ethanol at 149 C:=gas' 'iron at 2000 C:=liquid' 'water at 120 C:=gas' 'max 12,97,45==97'; do
    answer=$("$metier" generate "$tiny" --prompt "${pair%=*}" --max-new 20 --quiet 2>/dev/null)
    [ "$answer" = "${pair##*=}" ] || fail "'${pair%=*}' is answered with '$answer'"
done

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
