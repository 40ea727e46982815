#!/bin/bash
# metier recipe from the outside: every recipe on the samples, draws, overlaps, what training makes of the rows, hostile
# files, a teacher. Usage: recipe.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
share=$here/../share
samples=$share/samples
. "$here/support/expect.sh"
cd "$place" || exit 1

# rows RECIPE [options]: makes rows.jsonl of it, silently; table and complaints stay in text.
rows() {
    recipe=$1
    shift
    "$metier" recipe "$recipe" --out rows.jsonl --quiet "$@" >text 2>&1
}
# count FILE: its lines
count() { wc -l <"$1" | tr -d ' '; }
# has TEXT [FILE]: text, or another file, has it
has() { grep -qF -- "$1" "${2:-text}"; result $? "no '$1' in ${2:-text}: $(cat "${2:-text}")"; }

# Every recipe makes rows of the samples, each with a prompt, an answer and where it is from; and its manifest.
for file in "$share"/recipes/*.yaml; do
    name=$(basename "$file" .yaml)
    rm -f rows.jsonl rows.jsonl.json
    rows "$name" --data "$samples" --skip-missing
    result $? "$name: $(cat text)"
    [ -s rows.jsonl ] && ! grep -qv '^{"prompt": "..*", "completion": "..*", "domain": "[a-z]*", "task": "[a-z0-9_]*", "source": "[a-z0-9_]*", "id": "[^"]*"}$' rows.jsonl
    result $? "$name: its rows are: $(head -n 3 rows.jsonl)"
    has "\"recipe\": \"$name\"" rows.jsonl.json
    python3 -c 'import json, sys; m = json.load(open("rows.jsonl.json")); sys.exit(m["rows"] != len(list(open("rows.jsonl"))))'
    result $? "$name: the manifest's number of rows"
done
has 'glue_cola' <("$metier" recipe --list)
expect 0 'what the model is to write' recipe --keys

# What formats become.
rows math --data "$samples" && has 'x = \\boxed{5}$.", "domain": "math", "task": "math500_chat"' rows.jsonl
rows flan_cot --data "$samples" --skip-missing
has 'Options:\n(A) 40 km/h\n(B) 60 km/h' rows.jsonl
has '"completion": "A square has 4 sides.\n2 * 4 = 8\nSo the answer is (C)."' rows.jsonl
rows mbpp --data "$samples" --skip-missing
has '```python\ndef vowels(s):\n    return sum' rows.jsonl
[ "$(count rows.jsonl)" -eq 1 ]
result $? "mbpp: only problems 601 to 974"
rows glue_mnli --data "$samples" && has '"completion": "False"' rows.jsonl
has 'glue_mnli: 1 row cannot be used and is left out'
rows mmlu_auxiliary --data "$samples" --skip-missing && has '"completion": "C"' rows.jsonl
has '7 files are not there and left out'
rows numina_pairs --data "$samples" && has 'Problem: Compute $2^5 - 3^2$.' rows.jsonl
rows mmlu_pro --data "$samples" && has '"completion": "Spiders have eight legs. The answer is (B)."' rows.jsonl

# A larger set: 500 problems, of which some are in the test.
mkdir -p data/gsm8k data/math500
python3 - <<'END'
import json
def row(question, answer): return json.dumps({"question": question, "answer": answer}) + "\n"
long = "Mara keeps 17 hens in the yard behind her house and every one of them lays two eggs on each day of the week"
with open("data/gsm8k/test.jsonl", "w") as f:
    f.write(row(long + ". How many eggs are there after one week?", "#### 238"))
    f.write(row("What is 6 times 7?", "#### 42"))
with open("data/math500/test.jsonl", "w") as f:
    f.write(json.dumps({"problem": "Find the length of the longest path through a garden with nine round beds and four gates",
                        "answer": "5", "unique_id": "a/1.json"}) + "\n")
with open("data/gsm8k/train.jsonl", "w") as f:
    for i in range(500):
        f.write(row("Number %d: how many are %d pears and %d plums?" % (i, i, 2 * i), "#### %d" % (3 * i)))
    f.write(row(long.upper().replace(" ", "  ") + "!!! How many?", "#### 1"))         # another dress
    f.write(row("A longer story: " + long + ". And so on, for ever.", "#### 2"))        # within a text
    f.write(row("what is 6 TIMES 7", "#### 42"))                                      # a short one
    f.write(row("What is 6 times 8?", "#### 48"))                                     # only alike
    f.write(row(long.replace("17", "19").replace("behind", "before").replace("day", "morning"), "#### 3")) # other numbers
    f.write(row("Think.", "Find the length of the longest path through a garden with nine round beds, he said.\n#### 5"))
END
rows gsm8k --data data --overlap-out removed.jsonl
result $? "500 problems: $(cat text)"
has 'gsm8k   gsm8k_chat   506         0            3   503        all    503'
has '3 rows removed: 13 words in a row, or a whole shorter question, of 2 test questions of 1 task'
has 'gsm8k   gsm8k_chat         2            1'
[ "$(count rows.jsonl)" -eq 503 ] && [ "$(count removed.jsonl)" -eq 3 ]
result $? "what was written"
has '"id": "502", "task": "gsm8k_chat", "test_id": "1", "by": "question", "words": "what is 6 times 7"' removed.jsonl
has 'What is 6 times 8?' rows.jsonl
has '"id": "504"' rows.jsonl
grep -q '"id": "50[012]"' rows.jsonl
[ $? -eq 1 ]
result $? "a test question is left"
rows gsm8k --data data --against math500 && has 'gsm8k   math500            1            0'
rows gsm8k --data data --words 8 && has 'gsm8k   gsm8k_chat         3            1' # other numbers, too
rows gsm8k --data data --words 0 && has 'not compared with test questions'
[ "$(count rows.jsonl)" -eq 506 ]
result $? "--words 0"

# The same bytes for the same seed; more rows are the same and others; no row twice; packed files are the same data.
rows gsm8k --data data --count 50 --seed 1 && cp rows.jsonl a && cp rows.jsonl.json a.json
rows gsm8k --data data --count 50 --seed 1 && cp rows.jsonl b
same a b "one seed"
rows gsm8k --data data --count 50 --seed 2 && cp rows.jsonl b
differ a b "another seed"
rows gsm8k --data data --count 90 --seed 1 && cp rows.jsonl b
[ "$(sort a b | uniq -d | wc -l)" -eq 50 ] && [ "$(sort -u b | wc -l)" -eq 90 ]
result $? "90 rows are the 50 and others"
# Rows that are excluded are not drawn, in whatever form they are known; the draw is otherwise the same.
cp a a.jsonl
rows gsm8k --data data --seed 1 --exclude a.jsonl && has '50 rows left out: excluded (--exclude)' && has '"excluded": 50' rows.jsonl.json
[ "$(count rows.jsonl)" -eq 453 ] && [ "$(sort a rows.jsonl | uniq -d | wc -l)" -eq 0 ]
result $? "rows that are excluded: $(cat text)"
sed 's/^{"prompt": \(".*"\), "completion": \(".*"\), "domain".*/{"messages": [{"role": "user", "content": \1}, {"role": "assistant", "content": \2}]}/' \
    a >said.jsonl
cp rows.jsonl c
rows gsm8k --data data --seed 1 --exclude said.jsonl
same rows.jsonl c "rows in another form"
expect 2 "--exclude means nothing with --list" recipe --list --exclude a
cp -r data packed && gzip packed/gsm8k/train.jsonl
rows gsm8k --data packed --count 50 --seed 1
cmp -s rows.jsonl a && cmp -s rows.jsonl.json a.json
result $? "a packed file makes other rows"
[ "$(cksum <a)" = "3584762846 13178" ]
result $? "other rows than elsewhere: their cksum is $(cksum <a)"
rows gsm8k --data data --count 9000 && has 'warning: gsm8k has 503 rows, 9000 were asked for'

# Mixtures, beside the file or of the program; shares; what comes twice.
cat >pears.yaml <<'END'
title: pears
domain: math
data: gsm8k/train.jsonl
prompt: "{question}"
response: "{answer|after:####|trim}"
END
cat >mixed.yaml <<'END'
title: mixed
count: 100
sources:
  - recipe: pears
    weight: 3
  - recipe: gsm8k
    weight: 1
END
rows ./mixed.yaml --data data
result $? "a mixture: $(cat text)"
has 'pears   -            506         0            3   503         75     75'
has 'gsm8k   gsm8k_chat   506         0            3   503         25     25'
[ "$(grep -c '"source": "pears"' rows.jsonl)" -eq 75 ] && [ "$(head -n 20 rows.jsonl | grep -c '"source": "pears"')" -lt 20 ]
result $? "75 pears, mixed"
sed 's/weight: 1/count: 60/' mixed.yaml >counted.yaml
rows ./counted.yaml --data data --count 90 && [ "$(grep -c '"source": "pears"' rows.jsonl)" -eq 30 ]
result $? "a count, then the rest: $(cat text)"
rows ./mixed.yaml --data data --count 5000 && has 'warning: mixed has 1006 rows in all, 5000 were asked for'
refused() { # WORDS ARGUMENT...: exit status 2, the words, no file
    rm -f rows.jsonl rows.jsonl.json
    words=$1
    shift
    expect 2 "$words" recipe "$@" --out rows.jsonl
    [ ! -e rows.jsonl ] && [ ! -e rows.jsonl.json ]
    result $? "a file was left: $*"
}
printf 'title: t\nsources: [gsm8k, ./mixed.yaml]\n' >twice.yaml
refused 'recipe gsm8k is in the mixture twice' ./twice.yaml --data data
printf 'title: t\nsources: [./loop.yaml]\n' >loop.yaml
refused 'mixtures contain each other' ./loop.yaml --data data
refused "did you mean 'gsm8k'" gsm8 --data data
refused 'is not there' ./nothing.yaml --data data
refused 'name a recipe or a recipe file' --data data
refused '--data DIR is missing' gsm8k
expect 2 '--out FILE is missing' recipe gsm8k --data data
refused "data/math/train.jsonl (or .gz) is not there" math --data data
mv data/math500 data/elsewhere
refused 'test questions that no row may overlap with (--skip-missing leaves them out): task math500' gsm8k --data data --against math500
rows gsm8k --data data --against math500 --skip-missing && has 'math500: 1 test file is not there: rows were not compared'
mv data/elsewhere data/math500
refused "there is no task 'math5000'" gsm8k --data data --against math5000
refused 'means nothing without --teacher' gsm8k --data data --samples 3
refused 'means nothing with --words 0' gsm8k --data data --words 0 --against math500
sed '/count:/d' mixed.yaml >free.yaml
refused 'the weight of pears means nothing without a count' ./free.yaml --data data

# Hostile files: a sentence each, and nothing is written.
mkdir bad
hostile() { # WORDS: the recipe bad.yaml is refused
    cp -r data/gsm8k bad/ 2>/dev/null
    refused "$1" ./bad.yaml --data data
}
printf '\000\001\377binary' >bad.yaml && hostile 'bad.yaml'
printf 'title: x\nsources: &a [*a]\n' >bad.yaml && hostile 'bad.yaml:2'
head -c 100000 /dev/zero | tr '\0' '[' >bad.yaml && hostile 'bad.yaml'
printf 'title: t\ntask: gsm8k\ndata: ../../../../etc/passwd\nformat: jsonl\nresponse: r\n' >bad.yaml && hostile 'no row is left'
printf 'title: t\ntask: mmlu\ndata: gsm8k/train.jsonl\nresponse: r\n' >bad.yaml && hostile 'must name {subtask}'
printf 'title: t\ntask: gsm8k\ndata: gsm8k/train.jsonl\nresponse: "{nothing}"\n' >bad.yaml && hostile 'no row is left'
# Rows of bytes, of 20 MB, of nothing, torn ones: those that can be used are.
mkdir -p torn/gsm8k && cp data/gsm8k/test.jsonl torn/gsm8k
{
    printf '\000\377\376\n{"question": "\377\376", "answer": "#### 1"}\n'
    printf '{"question": "'; head -c 20000000 /dev/zero | tr '\0' a; printf '", "answer": "#### 1"}\n'
    printf '[]\n"text"\n{"question": 3, "answer": "#### 3"}\n{"question": ["a"], "answer": "#### 3"}\n'
    printf '{"question": "Is it so?", "answer": "Yes. #### 1"}\n{"question": "torn'
} >torn/gsm8k/train.jsonl
rows gsm8k --data torn
result $? "torn rows: $(cat text)"
has 'gsm8k: 7 rows cannot be used and are left out; the first: torn/gsm8k/train.jsonl:1: '
[ "$(count rows.jsonl)" -eq 2 ]
result $? "two rows of the torn file: $(cat text)"
# A folder of files where some are none; and a file where nothing can be written.
mkdir -p odd/math/train/a odd/math500 && cp "$samples"/math/train/algebra/1.json odd/math/train/a && cp data/math500/test.jsonl odd/math500
mkdir odd/math/train/b.json && printf 'no' >odd/math/train/c.json && ln -s nowhere odd/math/train/d.json && printf x >odd/math/train/e.txt
rows math --data odd && has '1 row cannot be used' && [ "$(count rows.jsonl)" -eq 1 ]
result $? "an odd folder: $(cat text)"
: >file
expect 1 'file: cannot make the folder' recipe gsm8k --data data --out file/rows.jsonl

# Training takes the rows.
"$here/support/train-bench" "$metier" "$place" >/dev/null || fail "no model to train"
rows gsm8k --data data --count 40 --seed 5
printf 'model: model\nout: run\ndata.path: rows.jsonl\nsteps: 2\n' >train.yaml
expect 0 '' train train.yaml data.template=plain device=cpu
[ -s run/adapter/adapter_model.safetensors ]
result $? "training on the rows: $(tail -n 5 text)"

# A teacher. The server of endpoint.sh answers as its moods are.
"$metier" recipe gsm8k --data data --out rows.jsonl --teacher http://127.0.0.1:9/v1 --teacher-model m --retries 0 >text 2>&1
if grep -q 'without libcurl' text || ! command -v python3 >/dev/null; then
    printf 'recipe.sh: no libcurl or no python3, the teacher is not tested\n'
else
    . "$here/cli/recipe_teacher.sh"
fi
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
