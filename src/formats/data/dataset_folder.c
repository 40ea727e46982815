/*
 * A folder as a dataset: every .json file below it is a row, in the order of their paths. MATH is published
 * so, a file for each problem. The files become lines of one text: JSON has line ends between its values
 * only, where a space says the same.
 */
#define _DEFAULT_SOURCE // scandir
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/data/dataset_private.h"

#define MOST_DEPTH 8
#define MOST_BYTES ((size_t)1 << 30) // of all files together

static int is_seen(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* By their bytes: what a locale thinks of names would make other rows first elsewhere. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum mt_status append_file(struct mt_dataset *dataset, const char *path)
{
    struct mt_byte_list *text = &dataset->gathered;
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status =
        mt_file_read_all(dataset->ctx, path, dataset->options.max_row_bytes, &data, &bytes);
    if (status == MT_OK && MOST_BYTES - text->count <= bytes)
        status = mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s: the files of the folder have more than %zu bytes",
                         dataset->path, MOST_BYTES);
    size_t start = text->count;
    if (status == MT_OK) status = mt_byte_list_append(text, data, bytes);
    for (size_t i = start; status == MT_OK && i < text->count; i++) {
        if (text->data[i] == '\n' || text->data[i] == '\r') text->data[i] = ' ';
    }
    if (status == MT_OK) status = mt_byte_list_append(text, "\n", 1);
    mt_release(dataset->ctx, data, bytes);
    return status;
}

static enum mt_status walk_folder(struct mt_dataset *dataset, const char *folder, int depth)
{
    struct dirent **entries = NULL;
    enum mt_status status = MT_OK;
    int count = scandir(folder, &entries, is_seen, by_bytes);
    if (count < 0) return mt_file_fail(dataset->ctx, folder, "read the folder", errno);
    for (int i = 0; i < count; i++) {
        char *path = NULL;
        struct stat about;
        size_t length = strlen(entries[i]->d_name);
        if (status == MT_OK) status = mt_path_join(dataset->ctx, folder, entries[i]->d_name, &path);
        bool there = status == MT_OK && stat(path, &about) == 0;
        if (there && S_ISDIR(about.st_mode)) {
            status = depth < MOST_DEPTH
                         ? walk_folder(dataset, path, depth + 1)
                         : mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s: more than %d folders within each other",
                                   path, MOST_DEPTH);
        } else if (there && length > 5 && strcmp(entries[i]->d_name + length - 5, ".json") == 0) {
            status = append_file(dataset, path);
        }
        mt_path_release(dataset->ctx, path);
        free(entries[i]);
    }
    free(entries);
    return status;
}

bool mt_dataset_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

enum mt_status mt_dataset_gather(struct mt_dataset *dataset)
{
    enum mt_status status = walk_folder(dataset, dataset->path, 0);
    if (status == MT_OK && dataset->gathered.count == 0)
        status = mt_fail(dataset->ctx, MT_ERR_FORMAT, "%s: a folder without .json files", dataset->path);
    dataset->borrowed = true;
    dataset->mapping =
        (struct mt_file_mapping){.data = dataset->gathered.data, .bytes = dataset->gathered.count};
    return status;
}
