#!/bin/bash
# What a launcher says about the number of ranks must be what is found. Each variable of each launcher, without its launcher: a
# program that stands for several ranks and is alone is refused, with both numbers; one that is said to be alone runs.
# Usage: launchers.sh METIER
set -u
metier=$1
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/comm/launch.sh"
place=$(mktemp -d) || exit 1
trap 'rm -rf "$place"' EXIT
"$here/support/train-bench" "$metier" "$place" || exit 1
cd "$place" || exit 1
unset PMI_SIZE PMI_RANK PMIX_RANK OMPI_COMM_WORLD_SIZE SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NUM_TASKS SLURM_NTASKS

# refused TEXT VARIABLE=VALUE...: nothing is trained, and the sentence says so.
refused() {
    local text=$1
    shift
    env "$@" "$metier" train run.yaml --dry-run >text 2>&1
    got=$?
    [ $got -ne 0 ] && [ $got -lt 124 ] && grep -q "^metier train: $text" text
    result $? "$*: exit status $got: $(head -n 3 text)"
}

# runs VARIABLE=VALUE...
runs() {
    env "$@" "$metier" train run.yaml --dry-run >text 2>&1
    result $? "$*: refused: $(head -n 3 text)"
}

refused 'OMPI_COMM_WORLD_SIZE says 2 ranks, but 1 found each other' OMPI_COMM_WORLD_SIZE=2
refused 'PMI_SIZE says 2 ranks, but 1 found each other' PMI_SIZE=2 PMI_RANK=0
refused 'SLURM_STEP_NUM_TASKS says 4 ranks, but 1 found each other' SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4
refused 'WORLD_SIZE says 8 ranks, but 1 found each other' RANK=0 WORLD_SIZE=8 METIER_TRANSPORT=mpi
refused "METIER_TRANSPORT is 'udp', expected auto, mpi or tcp" METIER_TRANSPORT=udp
# Ranks that should find each other over TCP: what is missing or impossible is named.
here="MASTER_ADDR=127.0.0.1 MASTER_PORT=9"
far="MASTER_ADDR=node0.invalid MASTER_PORT=9"
# shellcheck disable=SC2086
{
    refused 'one of several ranks, but MASTER_PORT is not set' RANK=0 WORLD_SIZE=8
    refused 'one of several ranks, but MASTER_ADDR is not set' RANK=0 WORLD_SIZE=8 MASTER_PORT=9
    refused "MASTER_PORT is '0', expected 1 to 65535" RANK=0 WORLD_SIZE=8 MASTER_ADDR=127.0.0.1 MASTER_PORT=0
    refused "MASTER_PORT is '65535', expected 1 to 65534" RANK=0 WORLD_SIZE=8 MASTER_ADDR=::1 MASTER_PORT=65535 TORCHELASTIC_USE_AGENT_STORE=True
    refused "RANK is '8', expected 0 to 7" RANK=8 WORLD_SIZE=8 $here
    refused "RANK is 'one', expected 0 to 7" RANK=one WORLD_SIZE=8 $here
    refused "WORLD_SIZE is '9999', expected 1 to 4096" RANK=0 WORLD_SIZE=9999 $here
    refused 'ranks that meet at node0.invalid need a token' RANK=0 WORLD_SIZE=8 $far
    refused 'METIER_TOKEN has 4 characters, which can be guessed' RANK=0 WORLD_SIZE=8 METIER_TOKEN=abcd $far
    refused 'rank 1 did not reach rank 0 at node0.invalid port 9 in 1 seconds (METIER_RANK_TIMEOUT): node0.invalid is not the name' \
        RANK=1 WORLD_SIZE=8 METIER_TOKEN=0123456789abcdef METIER_RANK_TIMEOUT=1 $far
    # Two launchers that do not say the same.
    refused 'WORLD_SIZE is 8 and OMPI_COMM_WORLD_SIZE is 2: two launchers disagree' OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 RANK=0 WORLD_SIZE=8 $here
    refused 'RANK is 0 and OMPI_COMM_WORLD_RANK is 1: two launchers disagree' OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=1 RANK=0 WORLD_SIZE=8 $here
    refused 'WORLD_SIZE is 8 and PMI_SIZE is 2: two' PMI_SIZE=2 PMI_RANK=0 RANK=0 WORLD_SIZE=8 $here
    refused 'WORLD_SIZE is 8 and SLURM_STEP_NUM_TASKS is 2: two' SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 RANK=0 WORLD_SIZE=8 $here
    refused 'RANK is 0 and SLURM_PROCID is 1: two' SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=8 SLURM_PROCID=1 RANK=0 WORLD_SIZE=8 $here
    # torchrun within a step of srun counts for itself.
    runs TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 PMIX_RANK=1 $here
}
refused 'PMIX_RANK says rank 1, but 1 found each other' PMIX_RANK=1 PMIX_NAMESPACE=x
runs PMI_SIZE=1 PMI_RANK=0
runs OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0
runs RANK=0 WORLD_SIZE=1
runs WORLD_SIZE=8
# A batch script's shell, and an interactive one: their jobs may have tasks, they are none of them.
runs SLURM_NTASKS=4
runs SLURM_NTASKS=4 SLURM_STEP_ID=4294967291 SLURM_STEP_NUM_TASKS=4
runs SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1
# mpirun within a step, as in a shell that srun --pty gave: its own number counts.
runs OMPI_COMM_WORLD_SIZE=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 PMI_SIZE=4
env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 PMI_SIZE=1 mpirun --oversubscribe --bind-to none -n 2 "$metier" train run.yaml --dry-run >text 2>&1
result $? "mpirun within a step: $(head -n 3 text)"
# Every verb that shares its work, and those that would write the same files.
for verb in eval analyze compare merge; do
    PMI_SIZE=2 "$metier" $verb run.yaml >text 2>&1
    got=$?
    [ $got -ne 0 ] && [ $got -lt 124 ] && grep -q "^metier $verb: " text
    result $? "$verb: exit status $got: $(head -n 3 text)"
done
# MPICH's own launcher, where there is one beside Open MPI's.
if command -v mpiexec.hydra >/dev/null; then
    mpiexec.hydra -n 2 "$metier" train run.yaml out=hydra >text 2>&1
    [ $? -ne 0 ] && grep -q 'PMI_SIZE says 2 ranks, but 1 found each other' text && [ ! -e hydra/metrics.jsonl ]
    result $? "mpiexec.hydra: $(head -n 3 text)"
fi
exit $failed
