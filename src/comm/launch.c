/*
 * Who started us: mpirun, srun or a person, told apart by what launchers put into the environment. Only a job
 * of several ranks loads the module that talks MPI, so that a program started alone pays nothing for it.
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

/* Ranks of the job as the launcher says; 1: there is none. */
static long ranks_of_job(const char **launcher)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        *launcher = sizes[i];
        if (number_of(sizes[i]) > 0) return number_of(sizes[i]);
    }
    // srun tells the number of tasks even to programs it starts without MPI: these have no PMIX_RANK.
    *launcher = "SLURM_NTASKS";
    if (getenv("PMIX_RANK") != NULL && number_of("SLURM_NTASKS") > 0) return number_of("SLURM_NTASKS");
    return 1;
}

int mt_comm_job_size(void)
{
    const char *launcher = NULL;
    long ranks = ranks_of_job(&launcher);
    return ranks < INT_MAX ? (int)ranks : INT_MAX;
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
    const char *launcher = NULL;
    char path[PATH_BYTES];
    long ranks = ranks_of_job(&launcher);
    *transport = NULL;
    if (ranks == 1) return MT_OK;
    if (!module_path(path)) return mt_fail(ctx, MT_ERR_IO, "cannot tell where this program lies");
    // Open MPI loads plugins of its own, which look for its symbols. The module stays until the process ends.
    void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (module == NULL) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "started as one of %ld ranks (%s), but the module for MPI cannot be loaded: %.600s; "
                       "build metier where Open MPI is installed",
                       ranks, launcher, dlerror());
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
