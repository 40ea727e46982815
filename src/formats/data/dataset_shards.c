/*
 * Paths with a *: the hub cuts a split into shards, train-00000-of-00003.parquet and so on. Files come in the
 * order of their names. A name that says how many shards there are is held to it.
 */
#define _DEFAULT_SOURCE // scandir
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/data/dataset_private.h"
#include "formats/data/shards.h"

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

bool mt_shards_named(const char *path)
{
    return strchr(name_in(path), '*') != NULL && access(path, F_OK) != 0;
}

/* One * stands for any characters. */
static bool matches(const char *name, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    size_t before = (size_t)(star - pattern);
    size_t after = strlen(star + 1);
    size_t length = strlen(name);
    return name[0] != '.' && length >= before + after && memcmp(name, pattern, before) == 0 &&
           memcmp(name + length - after, star + 1, after) == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

// ------------------------------------------------------------------ numbered names

struct numbered {
    int before; // bytes of the name before "-00001-of-00003"
    int digits;
    unsigned long number;
    unsigned long total;
};

/* The last "-DIGITS-of-DIGITS" of a name. */
static bool read_number(const char *name, struct numbered *read)
{
    bool found = false;
    for (const char *at = strchr(name, '-'); at != NULL; at = strchr(at + 1, '-')) {
        size_t digits = strspn(at + 1, "0123456789");
        const char *of = at + 1 + digits;
        if (digits == 0 || digits > 9 || strncmp(of, "-of-", 4) != 0) continue;
        size_t more = strspn(of + 4, "0123456789");
        if (more == 0 || more > 9) continue;
        *read = (struct numbered){.before = (int)(at - name),
                                  .digits = (int)digits,
                                  .number = strtoul(at + 1, NULL, 10),
                                  .total = strtoul(of + 4, NULL, 10)};
        found = true;
    }
    return found;
}

static enum mt_status fail_missing(struct mt_context *ctx, const char *path, const char *name,
                                   const struct numbered *number, unsigned long missing)
{
    return mt_fail(ctx, MT_ERR_USAGE, "%s: %.*s-%0*lu-of-%0*lu is missing", path, number->before, name,
                   number->digits, missing, number->digits, number->total);
}

/* Names in order: the numbers of one split count from 0 to the last. */
static enum mt_status check_whole(struct mt_context *ctx, const char *path, const struct mt_shards *shards)
{
    struct numbered last = {0};
    const char *last_name = "";
    bool open = false; // a split has begun
    for (size_t i = 0; i <= shards->count; i++) {
        struct numbered now = {0};
        const char *name = i < shards->count ? name_in(shards->paths[i]) : "";
        bool numbered = i < shards->count && read_number(name, &now);
        bool goes_on =
            open && numbered && now.before == last.before && memcmp(name, last_name, (size_t)now.before) == 0;
        unsigned long expected = goes_on ? last.number + 1 : 0;
        if (open && !goes_on && last.number + 1 < last.total)
            return fail_missing(ctx, path, last_name, &last, last.number + 1);
        if (goes_on && now.total != last.total)
            return mt_fail(ctx, MT_ERR_USAGE,
                           "%s: matches shards of two sets, one of %lu files and one of %lu", path,
                           last.total, now.total);
        if (numbered && now.number != expected) return fail_missing(ctx, path, name, &now, expected);
        open = numbered;
        last = now;
        last_name = name;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ files

static enum mt_status add_path(struct mt_context *ctx, const char *folder, const char *name,
                               struct mt_shards *shards)
{
    enum mt_status status = MT_OK;
    shards->paths = mt_list_reserve(ctx, shards->paths, &shards->capacity, sizeof *shards->paths,
                                    shards->count + 1, &status);
    if (status == MT_OK) status = mt_path_join(ctx, folder, name, &shards->paths[shards->count]);
    if (status == MT_OK) shards->count++;
    return status;
}

enum mt_status mt_shards_find(struct mt_context *ctx, const char *path, struct mt_shards *shards)
{
    *shards = (struct mt_shards){0};
    if (!mt_shards_named(path)) return add_path(ctx, "", path, shards);
    const char *pattern = name_in(path);
    char *folder = NULL;
    struct dirent **entries = NULL;
    enum mt_status status = mt_path_join(ctx, "", pattern == path ? "." : path, &folder);
    if (status != MT_OK) return status;
    size_t length = strlen(folder);
    if (pattern != path) folder[pattern - path] = '\0';
    int count = scandir(folder, &entries, NULL, by_bytes);
    if (count < 0) status = mt_file_fail(ctx, path, "read the folder", errno);
    for (int i = 0; i < count; i++) {
        if (status == MT_OK && matches(entries[i]->d_name, pattern))
            status = add_path(ctx, pattern != path ? folder : "", entries[i]->d_name, shards);
        free(entries[i]);
    }
    free(entries);
    mt_release(ctx, folder, length + 1);
    if (status == MT_OK && shards->count == 0)
        status = mt_fail(ctx, MT_ERR_IO, "%s: there is no such file", path);
    return status == MT_OK ? check_whole(ctx, path, shards) : status;
}

void mt_shards_free(struct mt_context *ctx, struct mt_shards *shards)
{
    for (size_t i = 0; i < shards->count; i++) mt_path_release(ctx, shards->paths[i]);
    mt_release(ctx, shards->paths, shards->capacity * sizeof *shards->paths);
    *shards = (struct mt_shards){0};
}

bool mt_dataset_exists(const char *path)
{
    char folder[4096];
    size_t length = (size_t)(name_in(path) - path);
    if (access(path, R_OK) == 0) return true;
    if (strchr(name_in(path), '*') == NULL || length >= sizeof folder) return false;
    memcpy(folder, length > 0 ? path : ".", length > 0 ? length : 1);
    folder[length > 0 ? length : 1] = '\0';
    DIR *listing = opendir(folder);
    if (listing == NULL) return false;
    bool found = false;
    for (struct dirent *entry = readdir(listing); entry != NULL && !found; entry = readdir(listing))
        found = matches(entry->d_name, name_in(path));
    (void)closedir(listing);
    return found;
}
