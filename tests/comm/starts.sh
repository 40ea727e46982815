#!/bin/bash
# The same run, however its ranks are started: mpirun, torchrun's variables, srun's variables and metier launch give the same
# bytes. metier launch itself: what it refuses, what it tells ranks, how it ends. Usage: starts.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
LAUNCHER=tcp . "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
config=$place/run.yaml
weights=adapter/adapter_model.safetensors
launchers="tcp srun launch"
if command -v mpirun >/dev/null && [ -e "$(dirname "$metier")/../lib/metier/metier_mpi.so" ]; then
    launchers="$launchers mpirun"
else
    echo "starts.sh: built without MPI: not compared with mpirun"
fi

for count in 2 4; do
    for launcher in $launchers; do
        for verb in train eval; do
            out=$place/$verb-$launcher-$count
            words="$config out=$out steps=6 checkpoint.every=3 parallel.experts=2 --quiet"
            [ $verb = train ] || words="gsm8k glue_cola --data $here/../share/samples --model $place/model --out $out --quiet"
            # launch.sh reads LAUNCHER when it is sourced.
            # shellcheck disable=SC2016,SC2086
            LAUNCHER=$launcher bash -c '. "$0"; shift; ranks "$@"' "$here/comm/launch.sh" "$metier" $count "$metier" $verb $words \
                >"$place/text" 2>&1
            result $? "$count ranks, $launcher, $verb: $(head -n 3 "$place/text")"
        done
        for file in $weights checkpoints/step-00000003/state.safetensors checkpoints/step-00000006/state.safetensors; do
            cmp "$place/train-tcp-$count/$file" "$place/train-$launcher-$count/$file"
            result $? "$count ranks: $launcher gave other bytes"
        done
        for file in samples_gsm8k.jsonl samples_glue_cola.jsonl routing_gsm8k.json; do
            cmp "$place/eval-tcp-2/$file" "$place/eval-$launcher-$count/$file"
            result $? "$count ranks: $launcher gave other samples"
        done
    done
done
! cmp -s "$place/train-tcp-2/$weights" "$place/train-tcp-4/$weights"
result $? "4 ranks are told as 2"

# refused TEXT WORDS...
refused() {
    local text=$1
    shift
    in_time "$metier" launch "$@" >"$place/text" 2>&1
    local got=$?
    [ $got -eq 2 ] && grep -q "^metier launch: $text" "$place/text"
    result $? "launch $*: exit status $got: $(head -n 3 "$place/text")"
}
refused '-n is missing' train run.yaml
refused '-n is 0, expected 1 to' -n 0 train run.yaml
refused 'the verb that ranks run is missing' -n 2
refused 'ranks cannot launch ranks' -n 2 launch -n 2 train run.yaml
refused '--nodes needs --node' -n 2 --nodes 2 train run.yaml
refused '--node means nothing without --nodes' -n 2 --node 0 train run.yaml
refused '--node is 2, expected 0 to 1' -n 2 --nodes 2 --node 2 --address a:1 train run.yaml
refused '--address is .nowhere., expected HOST:PORT' -n 2 --nodes 2 --node 1 --address nowhere train run.yaml
refused 'ranks on several machines need a token' -n 2 --nodes 2 --node 1 --address there:29500 train run.yaml
in_time "$metier" launch -n 2 inspect "$place/model" >"$place/text" 2>&1
[ $? -ne 0 ] && [ "$(grep -c '^metier inspect: 2 ranks were started' "$place/text")" -eq 1 ]
result $? "a verb that is one program: $(head -n 3 "$place/text")"
in_time "$metier" launch -n 3 -- train "$config" lora.rnak=3 >"$place/text" 2>&1
[ $? -ne 0 ] && [ "$(wc -l <"$place/text")" -eq 1 ] && grep -q 'lora.rank' "$place/text"
result $? "a mistake is told more than once: $(head -n 3 "$place/text")"

# Two machines, as far as one can be two. The launcher around it, mpirun or srun, is not asked.
export METIER_TOKEN=0123456789abcdef
port=$((10000 + $$ % 22000))
words="train $config out=$place/nodes steps=6 checkpoint.every=3 parallel.experts=2 --quiet"
# shellcheck disable=SC2086
OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 in_time "$metier" launch -n 2 --nodes 2 --node=1 --address 127.0.0.1:$port $words >"$place/text-1" 2>&1 &
other=$!
# shellcheck disable=SC2086
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 in_time "$metier" launch -n 2 --nodes 2 --node=0 --address 127.0.0.1:$port $words >"$place/text" 2>&1
result $? "the first of two machines: $(head -n 3 "$place/text")"
wait $other
result $? "the second of two machines"
cmp "$place/nodes/$weights" "$place/train-tcp-4/$weights"
result $? "two machines gave other bytes"
unset METIER_TOKEN

# share/launch/slurm.sbatch, with stand-ins for Slurm's commands: two machines of two ranks. What Slurm sends before the time is
# over makes all save and the job queue itself again; then the same command goes on, and ends as if nothing was.
mkdir "$place/bin"
ln -s "$metier" "$place/bin/metier"
cat >"$place/bin/scontrol" <<'END'
#!/bin/bash
case $1 in
show) echo 127.0.0.1 ;;
requeue) echo "$2" >"$REQUEUED" ;;
esac
END
cat >"$place/bin/srun" <<'END'
#!/bin/bash
[ "$1" = --kill-on-bad-exit=1 ] && shift
for node in 0 1; do SLURM_NNODES=2 SLURM_NODEID=$node SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$node PMIX_RANK=$node "$@" & done
status=0
for node in 0 1; do
    wait -n
    got=$?
    [ $got -gt $status ] && status=$got
done
exit $status
END
chmod +x "$place/bin/srun" "$place/bin/scontrol"
submit() {
    REQUEUED=$place/requeued PATH=$place/bin:$PATH SLURM_JOB_NODELIST=node[0-1] SLURM_JOB_ID=$$ SLURM_GPUS_ON_NODE=2 in_time \
        bash "$here/../share/launch/slurm.sbatch" "$config" out="$place/$1" steps=200 checkpoint.every=10 --quiet >"$place/text" 2>&1
}
submit slurm &
job=$!
name=slurm
saved() { find "$place/$name/checkpoints" -name 'step-[0-9]*' ! -name '*.tmp*' 2>/dev/null | grep -q .; }
until_true $job saved
pkill -TERM -f "metier launch -n 2 --nodes 2 .* train $config out=$place/slurm "
wait $job
[ $? -eq 143 ] && [ "$(cat "$place/requeued")" = $$ ] && [ ! -e "$place/slurm/adapter" ]
result $? "Slurm's time is over: $(tail -n 3 "$place/text")"
submit slurm
result $? "Slurm goes on: $(tail -n 3 "$place/text")"
in_time "$metier" launch -n 4 train "$config" out="$place/calm" steps=200 checkpoint.every=10 --quiet >"$place/text" 2>&1
cmp "$place/slurm/$weights" "$place/calm/$weights"
result $? "queued again, other bytes"
# The YAML is such, by our own reader, which knows none of its keys.
"$metier" train "$here/../share/launch/kubernetes.yaml" 2>&1 | grep -q "there is no key 'apiVersion'"
result $? "kubernetes.yaml cannot be read"

# begin NAME: a long run of three ranks, as $job; waits until it has saved something.
begin() {
    name=$1
    "$metier" launch -n 3 train "$config" out="$place/$name" steps=100000 checkpoint.every=2 >"$place/text" 2>&1 &
    job=$!
    until_true $job saved
}
rank_of() { pgrep -f "metier train $config out=$place/$name " | while read -r pid; do
    grep -qz "^RANK=$1\$" "/proc/$pid/environ" 2>/dev/null && echo "$pid"; done; }
none_left() { [ -z "$(rank_of '[0-9]')" ]; }

begin killed
kill -KILL "$(rank_of 2)"
wait $job
[ $? -eq 137 ] && grep -q '^metier launch: rank 2 was ended by a signal: Killed' "$place/text" && none_left
result $? "a rank was killed: $(cat "$place/text")"
grep -q '^metier: rank 0 of 3: rank 2 has ended' "$place/text" && grep -q '^metier: rank 1 of 3: rank 2 has ended' "$place/text"
result $? "not everybody named rank 2: $(cat "$place/text")"

begin asked
kill -TERM $job
wait $job
[ $? -ne 0 ] && [ "$(grep -c 'stopped after step .* is saved' "$place/text")" -eq 1 ] && none_left
result $? "asked to end: $(tail -n 3 "$place/text")"

# Launch itself is killed: its ranks end after their step. They are nobody's children then.
begin orphans
kill -KILL $job
wait $job
until none_left; do sleep 0.05; done
grep -q 'stopped after step .* is saved' "$place/text"
result $? "launch was killed: $(tail -n 3 "$place/text")"
exit $failed
