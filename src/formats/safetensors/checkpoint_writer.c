/* Sharded writing: the shards are planned from the declared tensors, so their count is known beforehand. */
#include "formats/safetensors/checkpoint_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors/checkpoint.h"
#include "formats/text/json_text.h"

#define ARENA_BLOCK_BYTES 4096
#define SHARD_NAME_BYTES  64

static const struct mt_safetensors_metadata format_metadata = {"format", "pt"};

// ------------------------------------------------------------------ the plan

static void shard_name(size_t shard, size_t count, char *name)
{
    if (count == 1) {
        (void)snprintf(name, SHARD_NAME_BYTES, "%s", MT_CHECKPOINT_SINGLE);
    } else {
        (void)snprintf(name, SHARD_NAME_BYTES, "model-%05zu-of-%05zu.safetensors", shard + 1, count);
    }
}

/* Cuts the list greedily; with shards == NULL only counts. There is always at least one shard. */
static enum mt_status cut(struct mt_checkpoint_writer *writer, uint64_t max_shard_bytes,
                          struct mt_checkpoint_shard *shards, size_t *count)
{
    uint64_t used = 0;
    size_t first = 0;
    writer->total_bytes = 0;
    *count = 0;
    for (size_t i = 0; i < writer->spec_count; i++) {
        const struct mt_safetensors_spec *spec = &writer->specs[i];
        uint64_t bytes = 0;
        enum mt_status status = mt_safetensors_size(writer->ctx, writer->directory, spec->name, spec->dtype,
                                                    spec->rank, spec->dim, &bytes);
        if (status != MT_OK) return status;
        if (bytes > (uint64_t)INT64_MAX - writer->total_bytes) {
            return mt_fail(writer->ctx, MT_ERR_USAGE, "%s: the tensors together are too large to address",
                           writer->directory);
        }
        writer->total_bytes += bytes;
        bool full = bytes > max_shard_bytes || used > max_shard_bytes - bytes;
        if (i > first && full) {
            if (shards != NULL)
                shards[*count] = (struct mt_checkpoint_shard){.first = first, .count = i - first};
            *count += 1;
            first = i;
            used = 0;
        }
        used += bytes;
    }
    if (shards != NULL) {
        shards[*count] = (struct mt_checkpoint_shard){.first = first, .count = writer->spec_count - first};
    }
    *count += 1;
    return MT_OK;
}

static enum mt_status plan(struct mt_checkpoint_writer *writer, uint64_t max_shard_bytes)
{
    size_t count = 0;
    enum mt_status status = cut(writer, max_shard_bytes, NULL, &count);
    if (status != MT_OK) return status;
    writer->shards = mt_arena_array(&writer->arena, count, sizeof *writer->shards, &status);
    if (status != MT_OK) return status;
    status = cut(writer, max_shard_bytes, writer->shards, &writer->shard_count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        char name[SHARD_NAME_BYTES];
        shard_name(i, count, name);
        char *joined = NULL;
        status = mt_path_join(writer->ctx, writer->directory, name, &joined);
        if (status == MT_OK)
            status = mt_arena_copy_text(&writer->arena, joined, strlen(joined), &writer->shards[i].path);
        mt_path_release(writer->ctx, joined);
    }
    return status;
}

/* Refuses a directory with a checkpoint in it. */
static enum mt_status check_directory(struct mt_checkpoint_writer *writer)
{
    static const char *const names[] = {MT_CHECKPOINT_SINGLE, MT_CHECKPOINT_INDEX};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool found = false;
        enum mt_status status = mt_checkpoint_has_file(writer->ctx, writer->directory, names[i], &found);
        if (status != MT_OK) return status;
        if (found) {
            return mt_fail(writer->ctx, MT_ERR_USAGE,
                           "%s: already has %s; write to an empty directory, or remove it first",
                           writer->directory, names[i]);
        }
    }
    return MT_OK;
}

// ------------------------------------------------------------------ the shards

static enum mt_status open_shard(struct mt_checkpoint_writer *writer)
{
    const struct mt_checkpoint_shard *shard = &writer->shards[writer->current];
    return mt_safetensors_writer_open(writer->ctx, shard->path, writer->specs + shard->first, shard->count,
                                      &format_metadata, 1, &writer->shard);
}

/* Gives the current shard its name. Even a failure may come after the renaming, so it counts as placed. */
static enum mt_status place_shard(struct mt_checkpoint_writer *writer)
{
    bool complete = writer->shard.current == writer->shard.spec_count;
    if (complete) writer->placed = writer->current + 1;
    return mt_safetensors_writer_finish(&writer->shard);
}

/* Puts complete shards in place and opens the next, until one wants data. The last is left for finish. */
static enum mt_status advance(struct mt_checkpoint_writer *writer)
{
    while (writer->current + 1 < writer->shard_count && writer->shard.current == writer->shard.spec_count) {
        enum mt_status status = place_shard(writer);
        if (status != MT_OK) return status;
        writer->current++;
        status = open_shard(writer);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_checkpoint_writer_open(struct mt_context *ctx, const char *directory,
                                         const struct mt_safetensors_spec *specs, size_t spec_count,
                                         uint64_t max_shard_bytes, struct mt_checkpoint_writer *writer)
{
    *writer = (struct mt_checkpoint_writer){
        .ctx = ctx, .directory = directory, .specs = specs, .spec_count = spec_count, .open = true};
    mt_arena_init(&writer->arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = check_directory(writer);
    if (status == MT_OK) status = mt_safetensors_check_names(ctx, directory, specs, spec_count);
    if (status == MT_OK) status = plan(writer, max_shard_bytes);
    if (status == MT_OK) status = open_shard(writer);
    if (status == MT_OK) status = advance(writer);
    if (status != MT_OK) mt_checkpoint_writer_abandon(writer);
    return status;
}

enum mt_status mt_checkpoint_writer_write(struct mt_checkpoint_writer *writer, const void *data, size_t bytes)
{
    if (!writer->open) {
        return mt_fail(writer->ctx, MT_ERR_USAGE, "%s: is not open for writing", writer->directory);
    }
    enum mt_status status = mt_safetensors_writer_write(&writer->shard, data, bytes);
    if (status == MT_OK) status = advance(writer);
    if (status != MT_OK) mt_checkpoint_writer_abandon(writer);
    return status;
}

// ------------------------------------------------------------------ the index

static int compare_rows(const void *left, const void *right)
{
    const struct mt_checkpoint_name *a = left;
    const struct mt_checkpoint_name *b = right;
    return strcmp(a->name, b->name);
}

static enum mt_status make_index(const struct mt_checkpoint_writer *writer,
                                 const struct mt_checkpoint_name *rows, struct mt_json_text *text)
{
    enum mt_status status = mt_json_text_format(
        text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n", writer->total_bytes);
    if (status == MT_OK) status = mt_json_text_format(text, "  \"weight_map\": {\n");
    for (size_t i = 0; i < writer->spec_count && status == MT_OK; i++) {
        char name[SHARD_NAME_BYTES];
        shard_name(rows[i].shard, writer->shard_count, name);
        status = mt_json_text_format(text, "    ");
        if (status == MT_OK) status = mt_json_text_string(text, rows[i].name);
        if (status == MT_OK) {
            status = mt_json_text_format(text, ": \"%s\"%s\n", name, i + 1 < writer->spec_count ? "," : "");
        }
    }
    if (status == MT_OK) status = mt_json_text_format(text, "  }\n}\n");
    return status;
}

static enum mt_status write_index(struct mt_checkpoint_writer *writer)
{
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(writer->ctx, writer->spec_count, sizeof(struct mt_checkpoint_name), &memory);
    if (status != MT_OK) return status;
    struct mt_checkpoint_name *rows = memory;
    for (size_t s = 0; s < writer->shard_count; s++) {
        const struct mt_checkpoint_shard *shard = &writer->shards[s];
        for (size_t i = shard->first; i < shard->first + shard->count; i++) {
            rows[i] = (struct mt_checkpoint_name){.name = writer->specs[i].name, .shard = s};
        }
    }
    qsort(rows, writer->spec_count, sizeof *rows, compare_rows);
    struct mt_json_text text;
    mt_json_text_init(&text, writer->ctx);
    char *path = NULL;
    status = make_index(writer, rows, &text);
    if (status == MT_OK) status = mt_path_join(writer->ctx, writer->directory, MT_CHECKPOINT_INDEX, &path);
    if (status == MT_OK) status = mt_file_write_all(writer->ctx, path, text.bytes, text.length);
    // As with a shard: a failure may come after the renaming.
    if (status != MT_OK && path != NULL) (void)unlink(path);
    mt_path_release(writer->ctx, path);
    mt_json_text_free(&text);
    mt_release(writer->ctx, memory, writer->spec_count * sizeof *rows);
    return status;
}

enum mt_status mt_checkpoint_writer_finish(struct mt_checkpoint_writer *writer)
{
    if (!writer->open) {
        return mt_fail(writer->ctx, MT_ERR_USAGE, "%s: is not open for writing", writer->directory);
    }
    // With data missing this is not the last shard, or not a complete one: finishing it says which tensor.
    enum mt_status status = place_shard(writer);
    if (status == MT_OK && writer->shard_count > 1) status = write_index(writer);
    if (status != MT_OK) {
        mt_checkpoint_writer_abandon(writer);
        return status;
    }
    mt_arena_free(&writer->arena);
    writer->open = false;
    return MT_OK;
}

void mt_checkpoint_writer_abandon(struct mt_checkpoint_writer *writer)
{
    if (!writer->open) return;
    mt_safetensors_writer_abandon(&writer->shard);
    for (size_t i = 0; i < writer->placed; i++) (void)unlink(writer->shards[i].path);
    mt_arena_free(&writer->arena);
    writer->open = false;
}
