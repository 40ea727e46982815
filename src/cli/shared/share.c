/* Where the program's own files are: told by the environment, or beside the program. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compare.h"
#include "cli/shared/share.h"
#include "report/render.h"

#define PATH_BYTES  4096
#define BLOCK_BYTES 4096
#define MOST_FILES  1024

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
        return mt_arena_copy_text(arena, path, strlen(path), folder);
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
    if (status != MT_OK || *folder != NULL || name == NULL || access(name, R_OK) == 0) return status;
    (void)snprintf(what, sizeof what, "chat templates to look for '%.64s' in", name);
    return missing(arena->ctx, what);
}

enum mt_status cli_save_html(const struct mt_page *page, const char *charts, const char *path, size_t *bytes)
{
    struct mt_arena arena;
    const char *folder = NULL;
    char missing[MT_MISSING_BYTES] = "";
    mt_arena_init(&arena, page->ctx, BLOCK_BYTES);
    enum mt_status status = cli_find_share(&arena, "report", "the page's style and script", &folder);
    if (status == MT_OK)
        status = mt_save_html(page, folder, charts != NULL ? charts : MT_CHARTS_FILE, path, bytes, missing);
    if (status == MT_OK && missing[0] != '\0')
        (void)fprintf(stderr, "metier: warning: %s: %s\n", path, missing);
    mt_arena_free(&arena);
    return status;
}

void cli_check_html(struct mt_arena *arena, const char *charts)
{
    const char *folder = NULL;
    struct mt_html_parts parts = {0};
    enum mt_status status = cli_find_share(arena, "report", "the page's style and script", &folder);
    if (status == MT_OK)
        status = mt_html_parts_read(arena->ctx, folder, charts != NULL ? charts : MT_CHARTS_FILE, &parts);
    if (status != MT_OK)
        (void)fprintf(stderr, "metier: warning: the page will be missing: %s\n", arena->ctx->message);
    if (status == MT_OK && parts.missing[0] != '\0')
        (void)fprintf(stderr, "metier: warning: %s\n", parts.missing);
    mt_html_parts_free(&parts);
}

enum mt_status cli_list_yaml(struct mt_arena *arena, const char *folder, const char *const **names,
                             size_t *count)
{
    enum mt_status status = MT_OK;
    const char **made = mt_arena_array(arena, MOST_FILES, sizeof *made, &status);
    *names = made;
    *count = 0;
    DIR *directory = status == MT_OK ? opendir(folder) : NULL;
    if (status == MT_OK && directory == NULL)
        return mt_fail(arena->ctx, MT_ERR_IO, "%s: cannot read it: %s", folder, strerror(errno));
    for (struct dirent *entry = directory != NULL ? readdir(directory) : NULL;
         entry != NULL && status == MT_OK && *count < MOST_FILES; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        status = mt_arena_copy_text(arena, entry->d_name, length, &made[(*count)++]);
    }
    if (directory != NULL) (void)closedir(directory);
    if (status == MT_OK) qsort(made, *count, sizeof made[0], mt_by_text);
    return status;
}
