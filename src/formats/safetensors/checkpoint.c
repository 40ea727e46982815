/* A directory of weights: one file, or shards and an index that says which tensor is in which of them. */
#include "formats/safetensors/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/compare.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 65536

static const char shard_ending[] = ".safetensors";

// ------------------------------------------------------------------ the index

static int compare_names(const void *left, const void *right)
{
    const struct mt_checkpoint_name *a = left;
    const struct mt_checkpoint_name *b = right;
    return strcmp(a->name, b->name);
}

/* A shard is a plain file name: an index must not reach files outside its directory. */
static enum mt_status check_shard_name(const struct mt_json_node *item, const char *shard)
{
    size_t length = strlen(shard);
    size_t ending = sizeof shard_ending - 1;
    if (strchr(shard, '/') != NULL || strchr(shard, '\\') != NULL || strstr(shard, "..") != NULL) {
        return mt_json_fail(item, "names the file \"%s\", which may lie outside the directory",
                            mt_printable(shard).text);
    }
    if (length <= ending || strcmp(shard + length - ending, shard_ending) != 0) {
        return mt_json_fail(item, "names the file \"%s\", expected one ending in %s",
                            mt_printable(shard).text, shard_ending);
    }
    return MT_OK;
}

/* The different file names of the map, sorted; borrowed from the document. */
static enum mt_status collect_shards(struct mt_checkpoint_index *index, const struct mt_json_node *map)
{
    size_t count = mt_json_count(map);
    enum mt_status status = MT_OK;
    const char **all = mt_arena_array(&index->arena, count, sizeof *index->shards, &status);
    if (status != MT_OK) return status;
    size_t used = 0;
    struct mt_json_node item;
    for (void *position = NULL; mt_json_next(map, &position, &item);) {
        status = mt_json_as_string(&item, &all[used]);
        if (status == MT_OK) status = check_shard_name(&item, all[used]);
        if (status != MT_OK) return status;
        used++;
    }
    qsort((void *)all, used, sizeof *all, mt_by_text);
    index->shards = all;
    for (size_t i = 0; i < used; i++) {
        if (i > 0 && strcmp(all[i], all[index->shard_count - 1]) == 0) continue;
        const char **place = &all[index->shard_count++];
        status = mt_arena_copy_text(&index->arena, all[i], strlen(all[i]), place);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

static enum mt_status collect_names(struct mt_checkpoint_index *index, const struct mt_json_node *map)
{
    size_t count = mt_json_count(map);
    enum mt_status status = MT_OK;
    index->names = mt_arena_array(&index->arena, count, sizeof *index->names, &status);
    if (status != MT_OK) return status;
    struct mt_json_node item;
    for (void *position = NULL; mt_json_next(map, &position, &item);) {
        const char *shard = NULL;
        const char *copy = NULL;
        status = mt_json_as_string(&item, &shard);
        if (status == MT_OK) status = mt_arena_copy_text(&index->arena, item.key, strlen(item.key), &copy);
        if (status != MT_OK) return status;
        const char **place = bsearch((const void *)&shard, (const void *)index->shards, index->shard_count,
                                     sizeof *index->shards, mt_by_text);
        index->names[index->name_count++] = (struct mt_checkpoint_name){
            .name = copy,
            .shard = (size_t)(place - index->shards),
        };
    }
    qsort(index->names, index->name_count, sizeof *index->names, compare_names);
    return MT_OK;
}

static enum mt_status read_index(struct mt_checkpoint_index *index, const struct mt_json_node *root)
{
    enum mt_status status = mt_json_expect_object(root);
    if (status != MT_OK) return status;
    struct mt_json_node metadata;
    struct mt_json_node total;
    bool present = false;
    index->total_size = -1;
    status = mt_json_optional_object(root, "metadata", &metadata, &present);
    if (status != MT_OK) return status;
    // Some writers give the total as a real number; it is information only, so such a one is passed over.
    if (present && mt_json_member(&metadata, "total_size", &total) &&
        mt_json_kind(&total) == MT_JSON_INTEGER) {
        status = mt_json_as_integer(&total, 0, MT_CHECKPOINT_MAX_BYTES, &index->total_size);
        if (status != MT_OK) return status;
    }
    struct mt_json_node map;
    status = mt_json_get_object(root, "weight_map", &map);
    if (status != MT_OK) return status;
    if (mt_json_count(&map) == 0) return mt_json_fail(&map, "is empty");
    status = collect_shards(index, &map);
    if (status == MT_OK) status = collect_names(index, &map);
    return status;
}

enum mt_status mt_checkpoint_index_read(struct mt_context *ctx, const char *path, const void *text,
                                        size_t bytes, struct mt_checkpoint_index *index)
{
    struct mt_json json;
    *index = (struct mt_checkpoint_index){0};
    enum mt_status status = text != NULL ? mt_json_parse(ctx, path, text, bytes, &mt_json_file_limits, &json)
                                         : mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    mt_arena_init(&index->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(&json);
    status = read_index(index, &root);
    mt_json_free(&json);
    if (status != MT_OK) mt_checkpoint_index_free(index);
    return status;
}

void mt_checkpoint_index_free(struct mt_checkpoint_index *index)
{
    if (index->arena.ctx != NULL) mt_arena_free(&index->arena);
    *index = (struct mt_checkpoint_index){0};
}

// ------------------------------------------------------------------ the weights

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
    const struct mt_checkpoint_name key = {.name = name};
    const struct mt_checkpoint_name *found =
        bsearch(&key, index->names, index->name_count, sizeof key, compare_names);
    return found != NULL && found->shard == shard;
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
    return mt_fail(checkpoint->ctx, MT_ERR_INTERNAL,
                   "index and shards differ, but the difference was not found");
}

static enum mt_status open_sharded(struct mt_checkpoint *checkpoint, const char *directory)
{
    char *path = NULL;
    struct mt_checkpoint_index index;
    enum mt_status status = mt_path_join(checkpoint->ctx, directory, MT_CHECKPOINT_INDEX, &path);
    if (status != MT_OK) return status;
    status = mt_checkpoint_index_read(checkpoint->ctx, path, NULL, 0, &index);
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
    if (checkpoint->arena.ctx != NULL) mt_arena_free(&checkpoint->arena);
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
