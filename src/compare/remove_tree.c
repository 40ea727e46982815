/* A folder and everything below it, deepest first. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): nftw is not in plain POSIX

#include "compare/remove_tree.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>

#define FOLDERS_AT_ONCE 16

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)found;
    (void)kind;
    (void)place;
    return remove(path);
}

enum mt_status mt_remove_tree(struct mt_context *ctx, const char *path)
{
    if (nftw(path, remove_one, FOLDERS_AT_ONCE, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0) return MT_OK;
    return mt_fail(ctx, MT_ERR_IO, "%s: cannot be removed: %s", path, strerror(errno));
}
