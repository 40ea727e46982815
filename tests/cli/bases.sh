#!/bin/bash
# The bases that read any text: the data they are made of is worded as the tasks word it and has no test split in it; the
# two in share/models load, read, answer and evaluate. Usage: bases.sh METIER
set -u
metier=$(realpath "$1")
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
samples=$here/../share/samples
models=$here/../share/models

# A folder of benchmarks and corpora, small; what must not be learned says so.
data=$place/data
mkdir -p "$data/flan" "$data/corpora" "$data/mmlu/val" "$place/usr/lib/python3.11" "$place/usr/share/doc/python3.11/html/_sources/a"
cp -r "$samples/gsm8k" "$samples/glue" "$samples/mbpp" "$samples/mmlu" "$data/"
printf '%s\n' '{"question": "SECRET", "answer": "#### 1"}' >>"$data/gsm8k/test.jsonl"
printf '%s\n' '{"question": "A \"b\" \\ c?", "answer": "2+2=<<2+2=4>>4\n#### 4"}' >>"$data/gsm8k/train.jsonl"
printf '%s\n' 'SECRET,a,b,c,d,A' >>"$data/mmlu/test/astronomy_test.csv"
printf '"Two ""quoted"" lines\nand a comma, here?",1,"2, or 3",3,\\frac{1}{2},D\n' >"$data/mmlu/val/astronomy_val.csv"
head -n 2 "$samples/mbpp/mbpp.jsonl" | sed 's/"task_id": 11,/"task_id": 601,/; t; s/"text": "/&SECRET /' >"$data/mbpp/mbpp.jsonl"
for name in aqua qasc strategyqa; do
    printf 'How many "x"?\\nOptions:\\n(A) 1\\n(B) 2\t(B)\tA \\frac of\\na reason\n' >"$data/flan/${name}_train.tsv"
done
for set in CoLA SST-2 MRPC; do
    mv "$data/glue/$set/dev.tsv" "$data/glue/$set/train.tsv"
    echo SECRET >"$data/glue/$set/dev.tsv"
done
for name in tinyshakespeare jargon wikitext-2.valid; do
    awk 'BEGIN { for (i = 0; i < 400; i++) printf "Line %d\tof \"a\" \\text.\n%s", i, i % 5 ? "" : "\n" }' >"$data/corpora/$name.txt"
done
gzip "$data/corpora/jargon.txt"
cp "$data/corpora/tinyshakespeare.txt" "$place/usr/lib/python3.11/a.py"
cp "$data/corpora/tinyshakespeare.txt" "$place/usr/share/doc/python3.11/html/_sources/a/a.rst.txt"
tar -C "$place" -czf "$data/corpora/python3.11-stdlib-src.tar.gz" usr/lib
tar -C "$place" -czf "$data/corpora/python3.11-doc.rst.tar.gz" usr/share
"$here/../scripts/base-data" "$data" "$place/texts"
result $? "scripts/base-data"
! grep -l SECRET "$place"/texts/*
result $? "a test split was read"

# The same questions, asked by the tasks themselves: the training split in the place of the test split.
cp -r "$data" "$place/asked"
cp "$data/gsm8k/train.jsonl" "$place/asked/gsm8k/test.jsonl"
cat "$data"/mmlu/dev/astronomy_dev.csv "$data"/mmlu/val/astronomy_val.csv >"$place/asked/mmlu/test/astronomy_test.csv"
sed 's/"task_id": 11,/"task_id": 9,/; s/"task_id": 601,/"task_id": 11,/' "$data/mbpp/mbpp.jsonl" | grep '"task_id": 11,' >"$place/asked/mbpp/mbpp.jsonl"
for set in CoLA SST-2 MRPC; do cp "$data/glue/$set/train.tsv" "$place/asked/glue/$set/dev.tsv"; done
for pair in gsm8k=gsm8k_chat mmlu=mmlu_chat_astronomy mbpp=mbpp_chat cola=glue_cola sst2=glue_sst2 mrpc=glue_mrpc; do
    "$metier" eval "${pair#*=}" --data "$place/asked" --questions "$place/questions.jsonl"
    result $? "no questions of ${pair#*=}"
    python3 - "$place/questions.jsonl" "$place/texts/${pair%=*}.jsonl" <<'END'
import json, sys
asked, made = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
assert len(asked) == len(made) > 0, (len(asked), len(made))
for question, row in zip(asked, made):
    prompt, text = question["prompt"].replace(" \n", "\n"), row["text"]  # texts of SST-2 come without the space at their end
    assert text.startswith(prompt) and len(text) > len(prompt) and "<<" not in text, (prompt, text)
END
    result $? "${pair%=*} is not worded as ${pair#*=} is"
done
python3 - "$place"/texts/*.jsonl <<'END'
import json, sys
texts = {name.split("/")[-1]: [json.loads(line)["text"] for line in open(name)] for name in sys.argv[1:]}
assert len(texts) == 14, sorted(texts)
assert texts["aqua.jsonl"][0].endswith("A \\frac of\na reason\nSo the answer is (B)."), texts["aqua.jsonl"]
assert "".join(texts["jargon.jsonl"]).startswith('Line 0\tof "a" \\text.\n\nLine 1\t'), texts["jargon.jsonl"][0]
END
result $? "texts are not what they were"
"$here/../scripts/base-data" "$place/nowhere" "$place/texts" 2>"$place/text"
[ $? -eq 2 ]
result $? "a folder that is not there"
METIER="$metier" METIER_DATA='' "$here/../scripts/make-base" large 2>"$place/text"
[ $? -eq 2 ] && grep -q "there is no base large" "$place/text"
result $? "a base there is not"

# The two of them: one tokenizer; text is read in fewer bits than the 4.7 that the frequencies of its bytes are worth.
cmp -s "$models/small-deepseek-v2/tokenizer.json" "$models/small-mixtral/tokenizer.json"
result $? "two tokenizers"
bytes=$(wc -c <"$here/../docs/reading.md")
for model in small-deepseek-v2 small-mixtral; do
    [ "$(du -sk "$models/$model" | cut -f1)" -le 10240 ]
    result $? "$model is larger than 10 MB"
    expect 0 "" generate "$models/$model" --prompt "Question: Tom has 3 pens. Grüße, 你好." --max-new 8 --threads 1
    expect 0 "glue_sst2" eval gsm8k_chat mmlu_astronomy glue_sst2 bbh_chat_truth_boolean_expressions synth --data "$samples" \
        --skip-missing --limit 2 --max-new 8 --model "$models/$model" --out "$place/$model" --threads 1 --quiet
    # A step that moves nothing: what is wanted is the loss on a text.
    printf '%s\n' "model: $models/$model" "out: $place/run-$model" "data.path: $place/texts/gsm8k.jsonl" "method: aux" \
        "data.template: plain" "evaluation: {sources: [$here/../docs/reading.md]}" "steps: 1" "optimizer.lr: 1e-9" >"$place/run.yaml"
    expect 0 "held-out loss" train "$place/run.yaml" threads=1
    tokens=$("$metier" tokenize "$models/$model" --file "$here/../docs/reading.md" --count)
    sed -n 's/.*held-out loss \([0-9.]*\).*/\1/p' "$place/text" | tail -1 |
        awk -v tokens="$tokens" -v bytes="$bytes" '{ bits = $1 / log(2) * tokens / bytes; print bits " bits a byte" } END { exit !(bits > 0.5 && bits < 3.7) }'
    result $? "$model does not read"
done

printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
