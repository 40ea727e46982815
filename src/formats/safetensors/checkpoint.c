/* A directory of weights: one file or shards, and the agreement between shards and index. */
#include "formats/safetensors/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats/text/printable.h"

enum mt_status mt_checkpoint_has_file(struct mt_context *ctx, const char *directory, const char *name,
                                      bool *found)
{
    *found = false;
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, directory, name, &path);
    if (status != MT_OK) return status;
    struct stat information;
    *found = lstat(path, &information) == 0;
    if (!*found && errno != ENOENT && errno != ENOTDIR) {
        status = mt_fail(ctx, MT_ERR_IO, "%s: %s", path, strerror(errno));
    }
    mt_path_release(ctx, path);
    return status;
}

static int compare_tensors(const void *left, const void *right)
{
    const struct mt_checkpoint_tensor *a = left;
    const struct mt_checkpoint_tensor *b = right;
    return strcmp(a->info->name, b->info->name);
}

/* Opens the named files one after the other; shard_count tells how many are open. */
static enum mt_status open_shards(struct mt_checkpoint *checkpoint, const char *directory, const char **names,
                                  size_t count)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(checkpoint->ctx, count, sizeof *checkpoint->shards, &memory);
    if (status != MT_OK) return status;
    checkpoint->shards = memory;
    checkpoint->shard_count = count; // unopened ones are zeroed, which closing allows
    for (size_t i = 0; i < count; i++) {
        char *path = NULL;
        status = mt_path_join(checkpoint->ctx, directory, names[i], &path);
        if (status == MT_OK) status = mt_safetensors_open(checkpoint->ctx, path, &checkpoint->shards[i]);
        mt_path_release(checkpoint->ctx, path);
        if (status != MT_OK) return status;
        checkpoint->tensor_count += checkpoint->shards[i].tensor_count;
        checkpoint->data_bytes += checkpoint->shards[i].data_bytes;
        if (checkpoint->data_bytes > (uint64_t)MT_CHECKPOINT_MAX_BYTES) {
            return mt_fail(checkpoint->ctx, MT_ERR_FORMAT, "%s: more than %lld bytes of tensors", directory,
                           (long long)MT_CHECKPOINT_MAX_BYTES);
        }
    }
    return MT_OK;
}

static enum mt_status sort_tensors(struct mt_checkpoint *checkpoint)
{
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(checkpoint->ctx, checkpoint->tensor_count, sizeof *checkpoint->tensors, &memory);
    if (status != MT_OK) return status;
    checkpoint->tensors = memory;
    size_t used = 0;
    for (size_t s = 0; s < checkpoint->shard_count; s++) {
        const struct mt_safetensors *shard = &checkpoint->shards[s];
        for (size_t i = 0; i < shard->tensor_count; i++) {
            checkpoint->tensors[used++] =
                (struct mt_checkpoint_tensor){.info = &shard->tensors[i], .shard = s};
        }
    }
    if (used > 0) qsort(checkpoint->tensors, used, sizeof *checkpoint->tensors, compare_tensors);
    return MT_OK;
}

static bool index_names(const struct mt_checkpoint_index *index, const char *name, size_t shard)
{
    size_t low = 0;
    size_t high = index->name_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(index->names[middle].name, name);
        if (order == 0) return index->names[middle].shard == shard;
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

static enum mt_status check_against_index(const struct mt_checkpoint *checkpoint,
                                          const struct mt_checkpoint_index *index)
{
    for (size_t i = 0; i < index->name_count; i++) {
        const struct mt_checkpoint_name *entry = &index->names[i];
        const struct mt_safetensors *shard = &checkpoint->shards[entry->shard];
        if (mt_safetensors_find(shard, entry->name) == NULL) {
            return mt_fail(checkpoint->ctx, MT_ERR_FORMAT, "%s: has no tensor %s, which the index puts there",
                           shard->path, mt_printable(entry->name).text);
        }
    }
    // Names are unique on both sides, so equal counts mean equal sets.
    if (checkpoint->tensor_count == index->name_count) return MT_OK;
    for (size_t s = 0; s < checkpoint->shard_count; s++) {
        const struct mt_safetensors *shard = &checkpoint->shards[s];
        for (size_t i = 0; i < shard->tensor_count; i++) {
            if (index_names(index, shard->tensors[i].name, s)) continue;
            return mt_fail(checkpoint->ctx, MT_ERR_FORMAT,
                           "%s: holds tensor %s, which the index does not put there", shard->path,
                           mt_printable(shard->tensors[i].name).text);
        }
    }
    return mt_fail(checkpoint->ctx, MT_ERR_INTERNAL, "index and shards differ without a difference");
}

static enum mt_status open_sharded(struct mt_checkpoint *checkpoint, const char *directory)
{
    char *path = NULL;
    struct mt_checkpoint_index index;
    enum mt_status status = mt_path_join(checkpoint->ctx, directory, MT_CHECKPOINT_INDEX, &path);
    if (status != MT_OK) return status;
    status = mt_checkpoint_index_read(checkpoint->ctx, path, &index);
    mt_path_release(checkpoint->ctx, path);
    if (status != MT_OK) return status;
    status = open_shards(checkpoint, directory, index.shards, index.shard_count);
    if (status == MT_OK) status = check_against_index(checkpoint, &index);
    mt_checkpoint_index_free(&index);
    return status;
}

enum mt_status mt_checkpoint_open(struct mt_context *ctx, const char *directory,
                                  struct mt_checkpoint *checkpoint)
{
    *checkpoint = (struct mt_checkpoint){.ctx = ctx};
    bool single = false;
    bool sharded = false;
    enum mt_status status = mt_checkpoint_has_file(ctx, directory, MT_CHECKPOINT_SINGLE, &single);
    if (status == MT_OK) status = mt_checkpoint_has_file(ctx, directory, MT_CHECKPOINT_INDEX, &sharded);
    if (status == MT_OK && !single && !sharded) {
        status = mt_fail(ctx, MT_ERR_IO, "%s: has neither %s nor %s", directory, MT_CHECKPOINT_SINGLE,
                         MT_CHECKPOINT_INDEX);
    }
    if (status == MT_OK && single) {
        const char *name = MT_CHECKPOINT_SINGLE;
        status = open_shards(checkpoint, directory, &name, 1);
    } else if (status == MT_OK) {
        status = open_sharded(checkpoint, directory);
    }
    if (status == MT_OK) status = sort_tensors(checkpoint);
    if (status != MT_OK) mt_checkpoint_close(checkpoint);
    return status;
}

void mt_checkpoint_close(struct mt_checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->shard_count; i++) mt_safetensors_close(&checkpoint->shards[i]);
    if (checkpoint->ctx != NULL) {
        mt_release(checkpoint->ctx, checkpoint->shards, checkpoint->shard_count * sizeof *checkpoint->shards);
        mt_release(checkpoint->ctx, checkpoint->tensors,
                   checkpoint->tensor_count * sizeof *checkpoint->tensors);
    }
    *checkpoint = (struct mt_checkpoint){0};
}

const struct mt_safetensors_tensor *mt_checkpoint_find(const struct mt_checkpoint *checkpoint,
                                                       const char *name)
{
    if (checkpoint->tensor_count == 0) return NULL;
    const struct mt_safetensors_tensor wanted = {.name = name};
    const struct mt_checkpoint_tensor key = {.info = &wanted};
    const struct mt_checkpoint_tensor *found =
        bsearch(&key, checkpoint->tensors, checkpoint->tensor_count, sizeof key, compare_tensors);
    return found == NULL ? NULL : found->info;
}
