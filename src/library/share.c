/* Where the library's own files are: PREFIX/share/metier of a library in PREFIX/lib or in a folder of it. */
#define _GNU_SOURCE // dladdr
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "library/lm.h"
#include "metier/version.h"

#define LEVELS 3 // lib/ARCHITECTURE/libmetier.so

/* The file that holds this code: the shared library, or the program it was linked into. */
static bool own_file(char path[PATH_MAX])
{
    Dl_info info;
    const char *(*function)(void) = mt_version;
    void *address = NULL;
    memcpy(&address, &function, sizeof address);
    return dladdr(address, &info) != 0 && info.dli_fname != NULL && realpath(info.dli_fname, path) != NULL;
}

enum mt_status mt_library_templates(struct mt_arena *arena, const char **folder)
{
    char path[PATH_MAX];
    char found[PATH_MAX + sizeof "/share/metier/templates"];
    *folder = NULL;
    if (!own_file(path)) return MT_OK;
    for (int level = 0; level < LEVELS; level++) {
        char *slash = strrchr(path, '/');
        if (slash == NULL) return MT_OK;
        *slash = '\0';
        (void)snprintf(found, sizeof found, "%s/share/metier/templates", path);
        if (access(found, R_OK | X_OK) != 0) continue;
        return mt_arena_copy_text(arena, found, strlen(found), folder);
    }
    return MT_OK;
}
