#!/bin/bash
# Ranks on two hosts that share a network cable and nothing else: two network namespaces with a pair of virtual
# interfaces between them, Open MPI or our own TCP. Training and evaluating as on one; a host that dies ends the job.
# Skipped where the machine lets nobody make namespaces. Usage: hosts.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"

# The script starts itself again on the first host: as root, or as the root of a user namespace.
if [ "${2:-}" != inside ]; then
    for tool in ip unshare nsenter; do
        command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
    done
    for user in "" "--user --map-root-user"; do
        # shellcheck disable=SC2086
        if unshare $user --net --uts ip link add name a type veth peer name b 2>/dev/null; then
            exec unshare $user --net --uts "$0" "$metier" inside
        fi
    done
    echo "skipped: network namespaces are not allowed here"
    exit 77
fi

place=$(mktemp -d) || exit 1
export TMPDIR=$place # Open MPI's own files go with the rest
other=
trap '[ -n "$other" ] && kill $other 2>/dev/null; rm -rf "$place"' EXIT

# The second host is the namespaces of a process that sleeps.
unshare --net --uts sleep infinity &
other=$!
apart() { [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; }
until_true $other apart
there() { nsenter --target $other --net --uts "$@"; }
hostname metier-one && there hostname metier-two &&
    ip link add name wire type veth peer name wire netns $other &&
    ip address add 10.77.0.1/24 dev wire && there ip address add 10.77.0.2/24 dev wire &&
    ip link set lo up && there ip link set lo up && ip link set wire up && there ip link set wire up
result $? "no second host"
[ $failed -eq 0 ] || exit 1

# What Open MPI starts a program on another host with: HOST COMMAND...
printf '#!/bin/sh\nshift\nexec nsenter --target %d --net --uts sh -c "$*"\n' $other >"$place/remote-shell"
chmod +x "$place/remote-shell"

# on_hosts ARGUMENTS...: metier on both, a rank each, over the wire alone.
on_hosts() {
    local second got
    if [ "$launcher" = tcp ]; then
        set -- env WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 METIER_TOKEN=0123456789abcdef "$metier" "$@"
        there timeout -k 5 $((1000 * patience)) env RANK=1 "$@" >"$place/text-1" 2>&1 &
        second=$!
        in_time env RANK=0 "$@" >"$place/text" 2>&1
        got=$?
        wait $second && return $got
        cat "$place/text-1" >>"$place/text"
        return 1
    fi
    in_time mpirun --mca plm_rsh_agent "$place/remote-shell" --mca pml ob1 --mca btl tcp,self \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none \
        --host 10.77.0.1:1,10.77.0.2:1 -n 2 "$metier" "$@" >"$place/text" 2>&1
}

"$here/support/train-bench" "$metier" "$place" || exit 1
# Scales follow each rank's own micro-batches: without them one rank has the same losses.
settings="parallel.experts=2 parallel.statistics=local objective.scale=none lora.dropout=0 log.every=1 --quiet"
weights=adapter/adapter_model.safetensors

# sent: bytes that left this host over the wire so far.
sent() { sed -n 's/^ *wire://p' /proc/net/dev | awk '{ print $9 }'; }

sent_before=$(sent)
# shellcheck disable=SC2086
on_hosts train "$place/run.yaml" out="$place/hosts" steps=2 $settings
result $? "training on two hosts: $(head -n 5 "$place/text")"
sent=$(($(sent) - sent_before))
# shellcheck disable=SC2086
ranks 2 "$metier" train "$place/run.yaml" out="$place/ranks" steps=2 $settings >"$place/text" 2>&1
result $? "training on one host: $(head -n 5 "$place/text")"
cmp -s "$place/hosts/$weights" "$place/ranks/$weights"
result $? "two hosts and one host with two ranks gave other bytes"
# shellcheck disable=SC2086
"$metier" train "$place/run.yaml" out="$place/alone" steps=2 ${settings/parallel.experts=2/} >"$place/text" 2>&1
result $? "training alone: $(head -n 5 "$place/text")"
python3 - "$place" "$sent" <<'END'
import json, sys
place, wire = sys.argv[1], int(sys.argv[2])
def losses(name):
    lines = [json.loads(line) for line in open(f"{place}/{name}/metrics.jsonl")]
    return [line["loss"] for line in lines if line["kind"] == "step"]
hosts, alone = losses("hosts"), losses("alone")
assert len(hosts) == 2 and len(alone) == 2, (hosts, alone)
assert all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(hosts, alone)), (hosts, alone)
assert wire > 10000, f"only {wire} bytes went over the wire"
END
result $? "two hosts and one rank have other losses"

# Evaluation, too.
samples=$here/../share/samples
for out in hosts alone; do
    run=on_hosts
    [ $out = alone ] && run="$metier"
    # shellcheck disable=SC2086
    $run eval gsm8k glue_cola --data "$samples" --model "$place/model" --out "$place/eval-$out" --quiet >"$place/said" 2>&1
    result $? "eval: $out: $(head -n 5 "$place/text" "$place/said")"
done
for file in samples_gsm8k.jsonl samples_glue_cola.jsonl routing_gsm8k.json; do
    cmp -s "$place/eval-hosts/$file" "$place/eval-alone/$file"
    result $? "$file: two hosts and one differ"
done

# The other host dies, with all that runs there: the job ends, and its last checkpoint goes on alone.
# shellcheck disable=SC2086
on_hosts train "$place/run.yaml" out="$place/died" steps=2000 $settings checkpoint.every=2 &
job=$!
# Any of them: old ones go as new ones come.
saved() { ls "$place/died/checkpoints" 2>/dev/null | grep -qx "step-[0-9]*"; }
until_true $job saved
there_net=$(readlink /proc/$other/ns/net)
for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [ "$pid" != $other ] && [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$there_net" ] && kill -KILL "$pid"
done
wait $job
got=$?
[ $got -ne 0 ] && [ $got -ne 124 ]
result $? "a host died: exit status $got, $(head -n 3 "$place/text")"
step=$(ls "$place/died/checkpoints" | grep -v tmp | tail -n 1)
# shellcheck disable=SC2086
"$metier" train "$place/run.yaml" out="$place/died" ${settings/parallel.experts=2/} steps=2000 checkpoint.every=2 \
    >"$place/text" 2>&1 &
job=$!
further() { [ "$(ls "$place/died/checkpoints" | grep -v tmp | tail -n 1)" != "$step" ]; }
until_true $job further
kill -TERM $job
wait $job
grep -q "which is saved" "$place/text"
result $? "going on after a host died, from $step: $(head -n 3 "$place/text")"
exit $failed
