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

/* What the environment says about the number of ranks. */
struct claim {
    const char *name; // the variable
    long ranks;
};

#define MOST_CLAIMS 4
#define NO_STEP     0xFFFFFFF0L // Slurm numbers what is no step of srun's from here on: batch, interactive

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

static void add_claim(const char *name, struct claim claims[MOST_CLAIMS], size_t *count)
{
    long ranks = number_of(name);
    if (ranks > 0) claims[(*count)++] = (struct claim){.name = name, .ranks = ranks};
}

/*
 * All that launchers say. Where mpirun of Open MPI does, the others' variables are left over from around it:
 * from the step of srun it was called in, or that it started its own daemons with.
 */
static size_t find_claims(struct claim claims[MOST_CLAIMS])
{
    size_t count = 0;
    add_claim("OMPI_COMM_WORLD_SIZE", claims, &count);
    if (count > 0) return count;
    add_claim("PMI_SIZE", claims, &count); // MPICH, Intel MPI, srun --mpi=pmi2
    bool step = is_in_step() && number_of("SLURM_STEP_NUM_TASKS") > 0;
    if (step) add_claim("SLURM_STEP_NUM_TASKS", claims, &count);
    if (!step && getenv("PMIX_RANK") != NULL) add_claim("SLURM_NTASKS", claims, &count);
    if (getenv("RANK") != NULL) add_claim("WORLD_SIZE", claims, &count); // torchrun
    return count;
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

int mt_comm_job_size(void)
{
    struct claim claims[MOST_CLAIMS];
    size_t count = find_claims(claims);
    long ranks = count == 0 ? rank_of_pmix() + 1 : 1;
    for (size_t i = 0; i < count; i++) {
        if (claims[i].ranks > ranks) ranks = claims[i].ranks;
    }
    return ranks < 1 ? 1 : ranks < INT_MAX ? (int)ranks : INT_MAX;
}

/* Whether MPI is asked for the ranks, because of which variable; of how many ranks, 0: it will tell. */
static bool asks_for_mpi(struct claim *by)
{
    struct claim claims[MOST_CLAIMS];
    size_t count = find_claims(claims);
    long pmix = rank_of_pmix();
    *by = (struct claim){.name = "PMIX_RANK", .ranks = pmix > 0 ? pmix + 1 : 0};
    for (size_t i = 0; i < count; i++) {
        // srun tells the number of tasks even to programs it starts without MPI, torchrun to all.
        bool mpi = strncmp(claims[i].name, "OMPI", 4) == 0 || strncmp(claims[i].name, "PMI", 3) == 0 ||
                   (pmix >= 0 && strncmp(claims[i].name, "SLURM", 5) == 0);
        if (!mpi || claims[i].ranks == 1) continue;
        *by = claims[i];
        return true;
    }
    return count == 0 && pmix >= 0;
}

enum mt_status mt_transport_check(struct mt_context *ctx, int size)
{
    struct claim claims[MOST_CLAIMS];
    size_t count = find_claims(claims);
    const struct claim *wrong = NULL;
    bool right = false;
    for (size_t i = 0; i < count; i++) {
        right = right || claims[i].ranks == size;
        if (wrong == NULL && claims[i].ranks != size) wrong = &claims[i];
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
    if (count == 0 && rank_of_pmix() >= size) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "PMIX_RANK says rank %ld, but %d found each other: each would do the whole work, into the "
            "same files. Start it with Open MPI's mpirun; unset PMIX_RANK to run it alone",
            rank_of_pmix(), size);
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

enum mt_status mt_transport_find(struct mt_context *ctx, const struct mt_transport **transport)
{
    struct claim by;
    char path[PATH_BYTES];
    *transport = NULL;
    if (!asks_for_mpi(&by)) return MT_OK;
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
