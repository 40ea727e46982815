#!/bin/bash
# The examples of every --help, pasted one after the other into an empty folder with a small model: each works, and reads
# what another wrote. What needs the network, many ranks or a larger model is left out by name. Usage: examples.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/support/expect.sh"
mkdir "$place/bin" "$place/user" "$place/user/models"
ln -s "$metier" "$place/bin/metier"
PATH=$place/bin:$PATH
export METIER_SHARE="$here/../share"

# What a user brings along: a model and others of the names the examples have, texts, rows, somebody's answers.
"$here/support/train-bench" "$metier" "$place" || exit 1
cd "$place/user" || exit 1
mv "$place/model" models/moe
"$metier" train "$place/run.yaml" model=models/moe out="$place/fp8" steps=2 quantize.format=fp8 --quiet >/dev/null 2>&1 &&
    "$metier" merge models/moe --adapter "$place/fp8/adapter" --out models/moe-fp8 --requantise >/dev/null 2>&1 || exit 1
for name in OLMoE-1B-7B Mixtral-8x7B Moonlight-16B-A3B DeepSeek-V3; do ln -s moe "models/$name"; done
ln -s "$here/../share" share
cp -r share/samples data
cp "$place/config.json" .
printf 'Some words. Others.\n\nMore words, and so on.\n' | tee letter.txt >wiki.txt
printf '1\n30\n46\n' >ids.txt
printf '1,30,46\n5 6\n' >sequences.txt
printf '{"prompt": "1 plus 1 is"}\n' >prompts.jsonl
printf '{"messages": [{"role": "user", "content": "hi"}]}\n' >chats.jsonl
cp prompts.jsonl texts.jsonl
printf 'def twice(x):\n    return 2 * x\n' >solution.py
printf 'assert twice(3) == 6\n' >tests.py
python3 - <<'END' || exit 1
import json, random, struct
draw = random.Random(1)
def tensor(*shape):
    count = 1
    for size in shape: count *= size
    return shape, struct.pack("<%df" % count, *(draw.gauss(0, 1) for _ in range(count)))
tensors = {"logits": tensor(12, 64), "expert_outputs": tensor(12, 6, 4)}
header, data = {}, b""
for name, (shape, values) in tensors.items():
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
    data += values
text = json.dumps(header).encode()
open("layer.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
END

# examples VERB: its examples, one a line.
examples() {
    "$metier" "$1" --help | sed -e '1,/^examples:/d' -e 's/^  //' | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}'
}

# leave_out COMMAND: true for what cannot be tried here.
leave_out() {
    case $1 in
    'hf download '* | 'mpirun '* | 'METIER_TOKEN='* | 'METIER_CPU_LEVEL='* | 'metier judge '* | 'metier probe '* | *' --endpoint '* | *' --teacher '* | *Moonlight-16B-A3B-Instruct*) return 0 ;;
    *--group-rule*) return 0 ;; # of another record
    *' --routing '*) return 0 ;; # serve_checks.py
    *compare-paper* | *'sandbox --check') return 0 ;; # long
    'metier sandbox '* | *humaneval*) ! "$metier" sandbox solution.py >/dev/null 2>&1 ;;
    *) return 1 ;;
    esac
}

# shorter COMMAND: the same with less to compute.
shorter() {
    case $1 in
    'metier compare '*) # a key is given once
        echo "$(echo "$1" | sed 's/ \(seeds\|training.steps\)=[^ ]*//g') training.steps=2 problems.train=50 problems.test=10 seeds=[1]"
        ;;
    'metier serve '*) # until it listens; what the one before has said does not count
        echo "rm -f served; $1 --port 0 >served & until grep -qs listening served || ! kill -0 \$!; do sleep 0.05; done; kill \$!; wait \$!" ;;
    *' --vocabulary 4096') echo "${1/4096/262}" ;; # of little text
    'metier forward '*) echo "${1//1,306,4658/1,30,46}" ;; # of a small vocabulary
    'metier train run.yaml out='* | 'metier launch -n 2 train '*) echo "$1 steps=5" ;;
    'metier plan '*) echo "$1" | sed 's/experts=[0-9][0-9]*/experts=2/' ;; # of few experts
    *'--keep 16 '*) echo "${1/--keep 16/--keep 3}" ;; # of six
    *'--count 100000'*) echo "${1//100000/1000}" ;;
    *mmlu*) echo "$1 --skip-missing --limit 2" ;; # the samples have not all of its subjects
    *'eval '*--model*) echo "$1 --limit 2" ;;
    *) echo "$1" ;;
    esac
}

# Verbs in the order in which one has what the next reads.
verbs="help synth recipe init inspect plan tokenize objective devices train launch adapter merge forward generate chat analyze prune eval review judge
    compare report sandbox serve probe"
for verb in $("$metier" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    [[ " $(echo $verbs) " == *" $verb "* ]]
    result $? "the examples of $verb are not tried"
done
for verb in $verbs; do
    tried=0
    while IFS= read -r command; do
        tried=$((tried + 1))
        leave_out "$command" && continue
        # What others make of questions, and of a page of answers.
        case $command in
        *'--answers theirs.jsonl'*)
            sed 's/}$/, "answer": "7"}/' questions.jsonl >theirs.jsonl ;;
        'metier adapter downloaded '*) cp -r runs/first/adapter downloaded ;;
        *' review.json'*) echo '{"format": "metier-review", "version": 1, "marks": []}' >review.json ;;
        esac
        (eval "$(shorter "${command%%  *#*}")") >"$place/text" 2>&1 </dev/null
        result $? "metier $verb --help: $command: $(tail -n 3 "$place/text")"
    done < <(examples "$verb")
    [ $tried -gt 0 ]
    result $? "$verb --help has no examples"
done

# One folder, one run: training, benchmarks and analysis of the examples are on one page, and nothing is missing there.
if grep -q 'No results.json\|No analysis.json\|No metrics' first.html; then fail "the report of runs/first lacks something"; fi
grep -q 'Training loss' first.html && grep -q 'gsm8k' first.html && grep -q 'Experts and domains' first.html
result $? "the report of runs/first does not have all that was written there"
printf '%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
