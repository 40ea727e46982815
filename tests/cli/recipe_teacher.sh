# Sourced by recipe.sh: the part with a teacher behind an endpoint, obedient and hostile.
OPENAI_API_KEY=sk-very-secret-0123456789
export OPENAI_API_KEY
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy
python3 "$here/cli/eval/endpoint_server.py" "$place" &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$place"' EXIT
while [ ! -s port ] && kill -0 $server 2>/dev/null; do sleep 0.05; done
port=$(cat port)

# Three questions the teacher knows, one it gets wrong. Its answers end at STOP.
mkdir -p lesson/gsm8k && cp data/gsm8k/test.jsonl lesson/gsm8k
sed -e 's/^stop: .*/stop: [STOP]/' "$share/tasks/gsm8k.yaml" >lesson.yaml
mkdir recipes && sed 's/^task: .*/task: .\/lesson.yaml/' "$share/recipes/gsm8k.yaml" >recipes/gsm8k.yaml
cat >lesson/gsm8k/train.jsonl <<'END'
{"question": "Mira has nine nuts twice. How many?", "answer": "the file's words #### 18"}
{"question": "A tank takes 30 l. How many?", "answer": "the file's words #### 30"}
{"question": "Jon counts to 200. How far?", "answer": "the file's words #### 200"}
{"question": "Mira has five nuts. How many?", "answer": "the file's words #### 5"}
END

# teach MOOD STATUS [options]: rows of the lesson; what was asked is in requests and bodies
teach() {
    mood=$1
    expected=$2
    shift 2
    : >requests
    : >bodies
    "$metier" recipe recipes/gsm8k.yaml --data lesson --out taught.jsonl --quiet --teacher "http://127.0.0.1:$port/$mood/v1" \
        --teacher-model the/teacher --backoff 0.01 "$@" >text 2>&1
    got=$?
    [ $got -eq "$expected" ]
    result $? "$mood: exit status $got, expected $expected: $(cat text)"
    ! cat text taught.jsonl* taught.jsonl.teacher/* taught.jsonl.teacher/*/* 2>/dev/null | grep -q very-secret
    result $? "$mood: the key was written"
}
anew() { rm -rf taught.jsonl*; }
asked() { # N: so many requests came for the mood
    got=$(grep -c "^/$mood/" requests)
    [ "$got" -eq "$1" ]
    result $? "$mood: $got requests, expected $1"
}

anew
teach good 0
asked 4
has 'questions go to http://127.0.0.1'
has 'gsm8k   ./lesson.yaml     4         0            0     4        all      4      3'
has '3 rows in '
[ "$(count taught.jsonl)" -eq 3 ] && ! grep -q "the file's words" taught.jsonl && ! grep -q 'five nuts' taught.jsonl
result $? "what the teacher got right: $(cat taught.jsonl)"
has '"completion": "So it is\n#### 18", "domain": "math", "task": "lesson", "source": "gsm8k"' taught.jsonl
has '"teacher": {"model": "the/teacher", "temperature": 0' taught.jsonl.json
grep -q "file's words\|\"18\"" bodies
[ $? -eq 1 ]
result $? "a right answer went out"
# Nothing that was answered is asked again; the same rows come out.
cp taught.jsonl first
teach good 0
asked 0
same taught.jsonl first "the same answers"
teach stranger 0
asked 0
# More rows ask only for what is new.
anew
teach good 0 --count 2
asked 2
teach good 0
asked 2
same taught.jsonl first "in two steps"
# Another teacher, or another way to ask, is not mixed in.
teach good 2 --temperature 0.5
has 'holds answers of another teacher'
# A second try for what was wrong, and no more than that.
anew
teach second 0 --samples 2
asked 8
has '4      3'
grep -q '"temperature": 0.8' bodies && [ "$(grep -o '"seed": [0-9]*' bodies | sort -u | wc -l)" -eq 8 ]
result $? "tries are drawn by seeds of their own"
anew
teach good 0 --samples 3
asked 6
# Wrong answers make way for other questions, while there are some.
anew
seed=0
while seed=$((seed + 1)) && [ $seed -lt 20 ]; do # one that draws the question the teacher gets wrong
    rows recipes/gsm8k.yaml --data lesson --count 3 --seed $seed && grep -q 'five nuts' rows.jsonl && break
done
teach good 0 --count 3 --seed $seed
[ "$(count taught.jsonl)" -eq 2 ]
result $? "one of three is wrong: $(cat text)"
teach good 0 --count 3 --seed $seed --fill
asked 1
has '4      3'
[ "$(count taught.jsonl)" -eq 3 ]
result $? "--fill: $(cat text)"
anew
teach good 0 --fill
asked 4
# Trouble: one question's own is counted and asked again; the server's ends the run, and what is there is kept.
anew
teach picky 1
has 'got no answer'
[ "$(count taught.jsonl)" -eq 2 ]
result $? "picky: two rows"
teach good 0
asked 1
[ "$(count taught.jsonl)" -eq 3 ]
result $? "picky: the third"
for bad in garbage shapeless deep huge refuse; do
    anew
    teach $bad 2
    has 'answered no question right'
    [ ! -e taught.jsonl ]
    result $? "$bad: rows were written"
done
anew
teach dead 1 --retries 1
[ ! -e taught.jsonl ]
result $? "dead: rows were written"
teach redirect 2
teach nowhere 2
anew
teach held 1 --timeout 0.3 --retries 0
# Stopped: what was answered is kept, the same command goes on.
anew
: >requests
echo 1 >go # one answer, no more
"$metier" recipe recipes/gsm8k.yaml --data lesson --out taught.jsonl --quiet --teacher "http://127.0.0.1:$port/held/v1" \
    --teacher-model the/teacher --slots 1 >text 2>&1 &
pid=$!
kept=taught.jsonl.teacher/round-1/samples_gsm8k.jsonl
while [ "$(cat $kept 2>/dev/null | wc -l)" -lt 1 ] && kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -TERM $pid
wait $pid
[ $? -eq 143 ]
result $? "stopped: $(cat text)"
has 'the same command goes on'
[ ! -e taught.jsonl ]
result $? "stopped: rows were written"
[ "$(cat $kept | wc -l)" -eq 1 ]
result $? "stopped: what was answered is kept"
teach good 0
asked 3
same taught.jsonl first "stopped and gone on"
# Programs are judged by running them: this teacher writes none.
printf pass >nothing.py
if "$metier" sandbox nothing.py >/dev/null 2>&1; then
    mood=good
    : >requests
    "$metier" recipe mbpp --data "$samples" --skip-missing --out programs.jsonl --quiet --teacher-model m \
        --teacher "http://127.0.0.1:$port/good/v1" >text 2>&1
    [ $? -eq 2 ]
    result $? "programs: $(cat text)"
    has 'the teacher answered no question right'
    asked 1
    has '"score": 0' programs.jsonl.teacher/round-1/samples_mbpp.jsonl
fi
# Refused before anything is sent.
anew
teach good 2 --samples 0
teach good 2 --key-env NOT_SET_ANYWHERE
has '$NOT_SET_ANYWHERE is not set'
"$metier" recipe flan_cot --data "$samples" --skip-missing --out t.jsonl --teacher "http://127.0.0.1:$port/good/v1" \
    --teacher-model m >text 2>&1
[ $? -eq 2 ]
result $? "a recipe without a task"
has "names no task, so a teacher's answers cannot be judged"
"$metier" recipe glue_stsb --data "$samples" --out t.jsonl --teacher "http://127.0.0.1:$port/good/v1" --teacher-model m >text 2>&1
has 'neither right nor wrong'
expect 2 '--teacher-model NAME is missing' recipe gsm8k --data lesson --out t.jsonl --teacher "http://127.0.0.1:$port/good/v1"
kill $server
