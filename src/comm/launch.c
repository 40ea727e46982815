/*
 * Who started us: mpirun, srun or a person, told apart by what launchers put into the environment. Only a job
 * of several ranks loads the module that talks MPI, so that a program started alone pays nothing for it. What
 * a launcher says and what MPI finds must be the same: ranks that do not know of each other would each do the
 * whole work.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/group.h"

#define PATH_BYTES   4096
#define MODULE_PATH  "../lib/metier/metier_mpi.so" // from where the program lies

#define RANK_TIMEOUT 60 // seconds: more than a busy machine keeps a thread waiting
#define MOST_TIMEOUT 86400

/* A whole number above zero in the environment; 0: not there, or no such number. */
static long number_of(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (text == NULL) return 0;
    long number = strtol(text, &end, 10);
    return end != text && *end == '\0' && number > 0 ? number : 0;
}

#define NO_STEP 0xFFFFFFF0L // Slurm numbers what is no step of srun's from here on: batch, interactive

/* True in a task that srun started. A batch script's own shell is in no step, whatever its job may use. */
static bool is_in_step(void)
{
    const char *text = getenv("SLURM_STEP_ID");
    char *end = NULL;
    if (text == NULL) text = getenv("SLURM_STEPID");
    if (text == NULL) return false;
    long step = strtol(text, &end, 10);
    return end != text && *end == '\0' && step >= 0 && step < NO_STEP;
}

static void add_claim(const char *name, struct mt_launch *launch)
{
    long ranks = number_of(name);
    if (ranks > 0) launch->claims[launch->count++] = (struct mt_launch_claim){.name = name, .ranks = ranks};
}

/* PMIx tells a rank, and no number of ranks: there are more than it. -1: it tells nothing. */
static long rank_of_pmix(void)
{
    const char *text = getenv("PMIX_RANK");
    char *end = NULL;
    if (text == NULL) return -1;
    long rank = strtol(text, &end, 10);
    return end != text && *end == '\0' && rank >= 0 ? rank : -1;
}

struct mt_launch mt_launch_read(void)
{
    struct mt_launch launch = {.pmix_rank = rank_of_pmix()};
    add_claim("OMPI_COMM_WORLD_SIZE", &launch);
    // The others' are then left over from around mpirun: from the step of srun it was called in, or that it
    // started its own daemons with.
    if (launch.count > 0) return launch;
    add_claim("PMI_SIZE", &launch); // MPICH, Intel MPI, srun --mpi=pmi2
    bool step = is_in_step() && number_of("SLURM_STEP_NUM_TASKS") > 0;
    if (step) add_claim("SLURM_STEP_NUM_TASKS", &launch);
    if (!step && launch.pmix_rank >= 0) add_claim("SLURM_NTASKS", &launch);
    if (getenv("RANK") != NULL) add_claim("WORLD_SIZE", &launch); // torchrun
    return launch;
}

int mt_comm_job_size(void)
{
    struct mt_launch launch = mt_launch_read();
    long ranks = launch.count == 0 ? launch.pmix_rank + 1 : 1;
    for (size_t i = 0; i < launch.count; i++) {
        if (launch.claims[i].ranks > ranks) ranks = launch.claims[i].ranks;
    }
    return ranks < 1 ? 1 : ranks < INT_MAX ? (int)ranks : INT_MAX;
}

/* Whether MPI is asked for the ranks, because of which variable; of how many ranks, 0: it will tell. */
static bool asks_for_mpi(const struct mt_launch *launch, struct mt_launch_claim *by)
{
    long pmix = launch->pmix_rank;
    *by = (struct mt_launch_claim){.name = "PMIX_RANK", .ranks = pmix > 0 ? pmix + 1 : 0};
    for (size_t i = 0; i < launch->count; i++) {
        const struct mt_launch_claim *claim = &launch->claims[i];
        // srun tells the number of tasks even to programs it starts without MPI, torchrun to all.
        bool mpi = strncmp(claim->name, "OMPI", 4) == 0 || strncmp(claim->name, "PMI", 3) == 0 ||
                   (pmix >= 0 && strncmp(claim->name, "SLURM", 5) == 0);
        if (!mpi || claim->ranks == 1) continue;
        *by = *claim;
        return true;
    }
    return launch->count == 0 && pmix >= 0;
}

enum mt_status mt_transport_check(struct mt_context *ctx, const struct mt_launch *launch, int size)
{
    const struct mt_launch_claim *wrong = NULL;
    bool right = false;
    for (size_t i = 0; i < launch->count; i++) {
        right = right || launch->claims[i].ranks == size;
        if (wrong == NULL && launch->claims[i].ranks != size) wrong = &launch->claims[i];
    }
    // Ranks that found each other are the job; a program that found nobody is alone only if all say so.
    if (wrong != NULL && !(right && size > 1)) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "%s says %ld ranks, but %d found each other: %s. Start it with Open MPI's mpirun or with "
            "srun --mpi=pmix; unset %s to run it alone",
            wrong->name, wrong->ranks, size,
            size == 1 ? "each would do the whole work, into the same files"
                      : "the launcher belongs to another MPI, or not all were started",
            wrong->name);
    }
    if (launch->count == 0 && launch->pmix_rank >= size) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "PMIX_RANK says rank %ld, but %d found each other: each would do the whole work, into the "
            "same files. Start it with Open MPI's mpirun; unset PMIX_RANK to run it alone",
            launch->pmix_rank, size);
    }
    return MT_OK;
}

/* The module lies beside the program's folder, built and installed. */
static bool module_path(char path[PATH_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - sizeof MODULE_PATH);
    if (length <= 0 || length >= (ssize_t)(PATH_BYTES - sizeof MODULE_PATH)) return false;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL) return false;
    (void)snprintf(slash + 1, sizeof MODULE_PATH, "%s", MODULE_PATH);
    return true;
}

enum mt_status mt_transport_find(struct mt_context *ctx, const struct mt_launch *launch,
                                 const struct mt_transport **transport)
{
    struct mt_launch_claim by;
    char path[PATH_BYTES];
    *transport = NULL;
    if (!asks_for_mpi(launch, &by)) return MT_OK;
    if (!module_path(path)) return mt_fail(ctx, MT_ERR_IO, "cannot tell where this program lies");
    // Open MPI loads plugins of its own, which look for its symbols. The module stays until the process ends.
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (module == NULL && by.ranks == 0) return MT_OK; // perhaps alone; mt_transport_check knows the others
    if (module == NULL) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "started as one of %ld ranks (%s), but the module for MPI cannot be loaded: %.600s; "
                       "build metier where Open MPI is installed",
                       by.ranks, by.name, dlerror());
    }
    const struct mt_transport *found = dlsym(module, MT_TRANSPORT_MPI_SYMBOL);
    if (found == NULL)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "%.900s: is not the module of this program", path);
    *transport = found;
    return MT_OK;
}

enum mt_status mt_transport_timeout(struct mt_context *ctx, int *seconds)
{
    const char *text = getenv("METIER_RANK_TIMEOUT");
    char *end = NULL;
    *seconds = RANK_TIMEOUT;
    if (text == NULL || text[0] == '\0') return MT_OK;
    long number = strtol(text, &end, 10);
    if (*end != '\0' || number < 0 || number > MOST_TIMEOUT) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "METIER_RANK_TIMEOUT is '%.40s', expected seconds, 0 (wait for ever) to %d", text,
                       MOST_TIMEOUT);
    }
    *seconds = (int)number;
    return MT_OK;
}
