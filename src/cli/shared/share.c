/* Where the program's own files are: told by the environment, or beside the program. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/shared/share.h"
#include "report/render.h"

#define PATH_BYTES  4096
#define BLOCK_BYTES 4096

/* Cuts the last part off a path; false: there is none. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    return true;
}

/* "PREFIX/share/metier" of a program that is PREFIX/bin/metier; "" where that cannot be known. */
static void beside_program(char *path, size_t bytes)
{
    char program[PATH_BYTES];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    path[0] = '\0';
    if (length <= 0) return;
    program[length] = '\0';
    bool known = cut(program);
    if (known) known = cut(program);
    int written = known ? snprintf(path, bytes, "%s/share/metier", program) : 0;
    if (written < 0 || (size_t)written >= bytes) path[0] = '\0';
}

/* part "": the folder itself. */
static bool has_part(const char *share, const char *part, char *path, size_t bytes)
{
    if (share == NULL || share[0] == '\0') return false;
    int written = snprintf(path, bytes, "%s%s%s", share, part[0] != '\0' ? "/" : "", part);
    return written > 0 && (size_t)written < bytes && access(path, R_OK | X_OK) == 0;
}

/* NULL: nowhere. */
static enum mt_status find(struct mt_arena *arena, const char *part, const char **folder)
{
    char beside[PATH_BYTES];
    char path[PATH_BYTES];
    *folder = NULL;
    beside_program(beside, sizeof beside);
    const char *const places[] = {getenv("METIER_SHARE"), beside};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!has_part(places[i], part, path, sizeof path)) continue;
        char *copy = NULL;
        enum mt_status status = mt_arena_copy_text(arena, path, strlen(path), &copy);
        *folder = copy;
        return status;
    }
    return MT_OK;
}

static enum mt_status missing(struct mt_context *ctx, const char *what)
{
    char beside[PATH_BYTES];
    const char *told = getenv("METIER_SHARE");
    beside_program(beside, sizeof beside);
    return mt_fail(ctx, MT_ERR_USAGE, "there is no folder of %s: looked at $METIER_SHARE (%.300s) and %.300s",
                   what, told != NULL ? told : "not set", beside);
}

enum mt_status cli_find_share(struct mt_arena *arena, const char *part, const char *what, const char **folder)
{
    enum mt_status status = find(arena, part, folder);
    return status == MT_OK && *folder == NULL ? missing(arena->ctx, what) : status;
}

enum mt_status cli_find_templates(struct mt_arena *arena, const char *name, const char **folder)
{
    char what[128];
    enum mt_status status = find(arena, "templates", folder);
    if (status != MT_OK || *folder != NULL || access(name, R_OK) == 0) return status;
    (void)snprintf(what, sizeof what, "chat templates to look for '%.64s' in", name);
    return missing(arena->ctx, what);
}

enum mt_status cli_save_html(const struct mt_page *page, const char *charts, const char *path, size_t *bytes)
{
    struct mt_arena arena;
    const char *folder = NULL;
    mt_arena_init(&arena, page->ctx, BLOCK_BYTES);
    enum mt_status status = cli_find_share(&arena, "report", "the page's style and script", &folder);
    if (status == MT_OK)
        status = mt_save_html(page, folder, charts != NULL ? charts : MT_CHARTS_FILE, path, bytes);
    mt_arena_free(&arena);
    return status;
}
