/* Where the program's own files are: told by the environment, beside the program, or in its source tree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/train.h"

#ifndef METIER_SOURCE_SHARE
#define METIER_SOURCE_SHARE "share"
#endif

#define PATH_BYTES 4096

/* "BIN/../share/metier" of the running program; "" where that cannot be known. */
static void beside_program(char *path, size_t bytes)
{
    char program[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    path[0] = '\0';
    if (length <= 0) return;
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) return;
    *slash = '\0';
    int written = snprintf(path, bytes, "%s/../share/metier", program);
    if (written < 0 || (size_t)written >= bytes) path[0] = '\0';
}

static bool has_templates(const char *share, char *path, size_t bytes)
{
    if (share == NULL || share[0] == '\0') return false;
    int written = snprintf(path, bytes, "%s/templates", share);
    return written > 0 && (size_t)written < bytes && access(path, R_OK | X_OK) == 0;
}

enum mt_status train_find_templates(struct mt_context *ctx, struct mt_arena *arena, const char *name,
                                    const char **folder)
{
    char beside[PATH_BYTES];
    char path[PATH_BYTES];
    const char *told = getenv("METIER_SHARE");
    *folder = NULL;
    beside_program(beside, sizeof beside);
    const char *const places[] = {told, beside, METIER_SOURCE_SHARE};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!has_templates(places[i], path, sizeof path)) continue;
        char *copy = NULL;
        enum mt_status status = mt_arena_copy_text(arena, path, strlen(path), &copy);
        *folder = copy;
        return status;
    }
    if (access(name, R_OK) == 0) return MT_OK;
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "there is no folder of chat templates to look for '%.64s' in: looked at $METIER_SHARE (%.200s), "
        "%.200s and %.200s",
        name, told != NULL ? told : "not set", beside, METIER_SOURCE_SHARE);
}
