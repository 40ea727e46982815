# Sourced by tests that start ranks: many of them on few processors, as root in a container too. LAUNCHER says how:
# mpirun (default), tcp (torchrun's variables, over TCP), srun (srun's, over TCP) or launch (metier launch).
launcher=${LAUNCHER:-mpirun}
if [ "$launcher" = mpirun ] && { ! command -v mpirun >/dev/null || [ ! -e "$(dirname "$1")/../lib/metier/metier_mpi.so" ]; }; then
    echo "skipped: built without MPI"
    exit 77
fi
# Not this job's: whatever runs the tests may itself have been launched.
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT METIER_TOKEN METIER_TRANSPORT TORCHELASTIC_RUN_ID
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A rank that waits lets others run: on a busy machine those it waits for.
export OMPI_MCA_mpi_yield_when_idle=1
# MPI keeps what it has allocated until the process ends.
[ "$launcher" != mpirun ] || export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# in_time COMMAND...: ends what hangs, with status 124. No job here takes a minute; a busy machine may take ten times that.
patience=${METIER_TEST_PATIENCE:-1}
# Seconds of silence after which a rank counts as lost: tests wait for them in full, so patience has an end here.
silence=$((10 * (patience < 4 ? patience : 4)))
in_time() {
    timeout -k 5 $((1000 * patience)) "$@"
}

# What starts ranks: -n N COMMAND... [: -n N COMMAND...]; and the variable that has a rank's number.
start=(mpirun --oversubscribe --bind-to none)
rank_variable=OMPI_COMM_WORLD_RANK
if [ "$launcher" != mpirun ]; then
    start=("$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/start-ranks")
    rank_variable=RANK
fi
if [ "$launcher" = srun ]; then
    export NAMES=srun
    rank_variable=SLURM_PROCID
fi

# ranks N COMMAND...: N processes of it. Only metier itself can be started by metier launch.
ranks() {
    local count=$1
    shift
    if [ "$launcher" = launch ] && [ "$(basename "$1")" = metier ]; then
        set -- "$1" launch -n "$count" "${@:2}"
        in_time "$@"
    else
        in_time "${start[@]}" -n "$count" "$@"
    fi
}

# until_true JOB COMMAND...: waits until a command succeeds, or a job has ended.
until_true() {
    local job=$1
    shift
    until "$@"; do
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.02
    done
}

# result OK TEXT...: complains; `failed` is the test's exit status.
failed=0
result() {
    [ "$1" -eq 0 ] && return
    shift
    printf 'FAIL %s\n' "$*"
    failed=1
}
