# Sourced by tests that start ranks: many of them on few processors, as root in a container too.
if ! command -v mpirun >/dev/null || [ ! -e "$(dirname "$1")/../lib/metier/metier_mpi.so" ]; then
    echo "skipped: built without MPI"
    exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A rank that waits lets others run: on a busy machine those it waits for.
export OMPI_MCA_mpi_yield_when_idle=1
# MPI keeps what it has allocated until the process ends.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# in_time SECONDS COMMAND...: ends what hangs; machines that are slow or emulated have more time.
patience=${METIER_TEST_PATIENCE:-1}
# Seconds of silence after which a rank counts as lost: tests wait for them in full, so patience has an end here.
silence=$((5 * (patience < 8 ? patience : 8)))
in_time() {
    local seconds=$1
    shift
    timeout -k 5 $((seconds * patience)) "$@"
}

# ranks N COMMAND...: N processes of it, at most a minute, or as METIER_RANKS_LIMIT says.
ranks() {
    local count=$1
    shift
    in_time "${METIER_RANKS_LIMIT:-60}" mpirun --oversubscribe --bind-to none -n "$count" "$@"
}

# result OK TEXT...: complains; `failed` is the test's exit status.
failed=0
result() {
    [ "$1" -eq 0 ] && return
    shift
    printf 'FAIL %s\n' "$*"
    failed=1
}
