/* model.safetensors.index.json: which tensor is in which shard. */
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/checkpoint.h"
#include "formats/text/json.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 65536

static const char shard_ending[] = ".safetensors";

static int compare_text_pointers(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

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
    void *memory = NULL;
    size_t count = mt_json_count(map);
    enum mt_status status = mt_arena_allocate(&index->arena, count * sizeof *index->shards, &memory);
    if (status != MT_OK) return status;
    const char **all = memory;
    size_t used = 0;
    struct mt_json_node item;
    for (void *position = NULL; mt_json_next(map, &position, &item);) {
        status = mt_json_as_string(&item, &all[used]);
        if (status == MT_OK) status = check_shard_name(&item, all[used]);
        if (status != MT_OK) return status;
        used++;
    }
    qsort((void *)all, used, sizeof *all, compare_text_pointers);
    index->shards = all;
    for (size_t i = 0; i < used; i++) {
        if (i > 0 && strcmp(all[i], all[index->shard_count - 1]) == 0) continue;
        char *copy = NULL;
        status = mt_arena_copy_text(&index->arena, all[i], strlen(all[i]), &copy);
        if (status != MT_OK) return status;
        all[index->shard_count++] = copy;
    }
    return MT_OK;
}

static enum mt_status collect_names(struct mt_checkpoint_index *index, const struct mt_json_node *map)
{
    void *memory = NULL;
    size_t count = mt_json_count(map);
    enum mt_status status = mt_arena_allocate(&index->arena, count * sizeof *index->names, &memory);
    if (status != MT_OK) return status;
    index->names = memory;
    struct mt_json_node item;
    for (void *position = NULL; mt_json_next(map, &position, &item);) {
        const char *shard = NULL;
        char *copy = NULL;
        status = mt_json_as_string(&item, &shard);
        if (status == MT_OK) status = mt_arena_copy_text(&index->arena, item.key, strlen(item.key), &copy);
        if (status != MT_OK) return status;
        const char **place = bsearch((const void *)&shard, (const void *)index->shards, index->shard_count,
                                     sizeof *index->shards, compare_text_pointers);
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

static enum mt_status build(struct mt_context *ctx, const struct mt_json *json,
                            struct mt_checkpoint_index *index)
{
    mt_arena_init(&index->arena, ctx, ARENA_BLOCK_BYTES);
    struct mt_json_node root = mt_json_root(json);
    enum mt_status status = read_index(index, &root);
    if (status != MT_OK) mt_checkpoint_index_free(index);
    return status;
}

enum mt_status mt_checkpoint_index_parse(struct mt_context *ctx, const char *path, const void *text,
                                         size_t bytes, struct mt_checkpoint_index *index)
{
    *index = (struct mt_checkpoint_index){0};
    struct mt_json json;
    enum mt_status status = mt_json_parse(ctx, path, text, bytes, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    status = build(ctx, &json, index);
    mt_json_free(&json);
    return status;
}

enum mt_status mt_checkpoint_index_read(struct mt_context *ctx, const char *path,
                                        struct mt_checkpoint_index *index)
{
    *index = (struct mt_checkpoint_index){0};
    struct mt_json json;
    enum mt_status status = mt_json_read(ctx, path, &mt_json_file_limits, &json);
    if (status != MT_OK) return status;
    status = build(ctx, &json, index);
    mt_json_free(&json);
    return status;
}

void mt_checkpoint_index_free(struct mt_checkpoint_index *index)
{
    if (index->arena.ctx != NULL) mt_arena_free(&index->arena);
    *index = (struct mt_checkpoint_index){0};
}
