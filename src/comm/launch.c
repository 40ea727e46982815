/*
 * Who started us: mpirun, srun, torchrun, metier launch or a person, told apart by what launchers put into
 * the environment. Only a job of several ranks loads the module that talks MPI, so that a program started
 * alone pays nothing for it; ranks that know where rank 0 is find each other over TCP. What a launcher says
 * and what is found must be the same: ranks that do not know of each other would each do the whole work.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/group.h"
#include "comm/tcp/tcp.h"

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
    bool torch = getenv("RANK") != NULL; // torchrun's names, which metier launch and people use, too
    if (torch && getenv("TORCHELASTIC_RUN_ID") != NULL) { // torchrun itself, whatever that was started by
        launch.pmix_rank = -1;
        add_claim("WORLD_SIZE", &launch);
        return launch;
    }
    add_claim("OMPI_COMM_WORLD_SIZE", &launch);
    if (torch) add_claim("WORLD_SIZE", &launch);
    // With mpirun the others' are left over from around it: from the step of srun it was called in, or that
    // it started its own daemons with.
    if (launch.count > 0 && strcmp(launch.claims[0].name, "OMPI_COMM_WORLD_SIZE") == 0) return launch;
    add_claim("PMI_SIZE", &launch); // MPICH, Intel MPI, srun --mpi=pmi2
    bool step = is_in_step() && number_of("SLURM_STEP_NUM_TASKS") > 0;
    if (step) add_claim("SLURM_STEP_NUM_TASKS", &launch);
    if (!step && launch.pmix_rank >= 0) add_claim("SLURM_NTASKS", &launch);
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

static bool begins(const char *name, const char *start)
{
    return strncmp(name, start, strlen(start)) == 0;
}

/* Whether MPI is asked for the ranks, because of which variable; of how many ranks, 0: it will tell. */
static bool asks_for_mpi(const struct mt_launch *launch, struct mt_launch_claim *by)
{
    long pmix = launch->pmix_rank;
    *by = (struct mt_launch_claim){.name = "PMIX_RANK", .ranks = pmix > 0 ? pmix + 1 : 0};
    for (size_t i = 0; i < launch->count; i++) {
        const struct mt_launch_claim *claim = &launch->claims[i];
        // srun tells the number of tasks even to programs it starts without MPI.
        bool mpi = begins(claim->name, "OMPI") || begins(claim->name, "PMI") ||
                   (pmix >= 0 && begins(claim->name, "SLURM"));
        if (!mpi || claim->ranks == 1) continue;
        *by = *claim;
        return true;
    }
    return launch->count == 0 && pmix >= 0;
}

/* Whether ranks find each other over TCP: somebody counts them, and says where rank 0 is. srun does not: a
 * person has to, or it is refused later as ranks that cannot find each other. */
static bool asks_for_tcp(const struct mt_launch *launch)
{
    bool told = getenv("MASTER_ADDR") != NULL && getenv("MASTER_PORT") != NULL;
    for (size_t i = 0; i < launch->count; i++) {
        const struct mt_launch_claim *claim = &launch->claims[i];
        if (claim->ranks > 1 &&
            (strcmp(claim->name, "WORLD_SIZE") == 0 || (told && begins(claim->name, "SLURM"))))
            return true;
    }
    return false;
}

/* Refuses two variables that are both there and say different numbers. */
static enum mt_status compare_numbers(struct mt_context *ctx, const char *one, const char *other)
{
    const char *a = getenv(one);
    const char *b = getenv(other);
    if (a == NULL || b == NULL || strtol(a, NULL, 10) == strtol(b, NULL, 10)) return MT_OK;
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "%s is %.20s and %s is %.20s: two launchers disagree. Unset the variables of the one that did "
        "not start these ranks",
        one, a, other, b);
}

/* torchrun's names beside another launcher's: left over, or made from them. */
static enum mt_status compare_launchers(struct mt_context *ctx, const struct mt_launch *launch)
{
    enum mt_status status = MT_OK;
    bool torch = false;
    for (size_t i = 0; i < launch->count; i++)
        torch = torch || strcmp(launch->claims[i].name, "WORLD_SIZE") == 0;
    for (size_t i = 0; i < launch->count && torch && status == MT_OK; i++) {
        const char *name = launch->claims[i].name;
        const char *rank = begins(name, "OMPI")  ? "OMPI_COMM_WORLD_RANK"
                           : begins(name, "PMI") ? "PMI_RANK"
                                                 : "SLURM_PROCID";
        if (strcmp(name, "WORLD_SIZE") == 0) continue;
        status = compare_numbers(ctx, "WORLD_SIZE", name);
        if (status == MT_OK) status = compare_numbers(ctx, "RANK", rank);
    }
    return status;
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
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s says %ld ranks, but %d found each other: %s. Start it with metier launch, Open "
                       "MPI's mpirun or "
                       "srun --mpi=pmix, or set MASTER_ADDR and MASTER_PORT; unset %s to run it alone",
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

static enum mt_status load_mpi(struct mt_context *ctx, const struct mt_launch_claim *by,
                               const struct mt_transport **transport)
{
    char path[PATH_BYTES];
    if (!module_path(path)) return mt_fail(ctx, MT_ERR_IO, "cannot tell where this program is");
    // Open MPI loads plugins of its own, which look for its symbols. The module stays until the process ends.
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (module == NULL && by->ranks == 0) return MT_OK; // perhaps alone; mt_transport_check knows the others
    if (module == NULL) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "started as one of %ld ranks (%s), but the module for MPI cannot be loaded: %.600s; "
                       "build metier where Open MPI is installed",
                       by->ranks, by->name, dlerror());
    }
    const struct mt_transport *found = dlsym(module, MT_TRANSPORT_MPI_SYMBOL);
    if (found == NULL)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "%.900s: is not the module of this program", path);
    *transport = found;
    return MT_OK;
}

enum mt_status mt_transport_find(struct mt_context *ctx, const struct mt_launch *launch,
                                 const struct mt_transport **transport)
{
    const char *wish = getenv("METIER_TRANSPORT");
    struct mt_launch_claim by;
    *transport = NULL;
    if (wish == NULL || wish[0] == '\0') wish = "auto";
    bool any = strcmp(wish, "auto") == 0;
    bool mpi = asks_for_mpi(launch, &by) && (any || strcmp(wish, "mpi") == 0);
    bool tcp = !mpi && asks_for_tcp(launch) && (any || strcmp(wish, "tcp") == 0);
    if (!any && strcmp(wish, "mpi") != 0 && strcmp(wish, "tcp") != 0)
        return mt_fail(ctx, MT_ERR_USAGE, "METIER_TRANSPORT is '%.40s', expected auto, mpi or tcp", wish);
    enum mt_status status = compare_launchers(ctx, launch);
    if (status != MT_OK) return status;
    if (tcp) *transport = &mt_transport_tcp;
    return mpi ? load_mpi(ctx, &by, transport) : MT_OK;
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
