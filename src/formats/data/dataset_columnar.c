/*
 * Parquet and Arrow as datasets: their rows are written as lines of JSON to a temporary file, or for bytes in
 * memory to memory, and read from there in any order. Shards become one text in the same way.
 */
#include <string.h>

#include "formats/columnar/columnar.h"
#include "formats/data/dataset_private.h"
#include "formats/data/shards.h"
#include "formats/data/spool.h"

#define ROWS_PER_BYTE 4096 // bytes of rows for each of the file

// The rest is JSONL's, which their rows have become.
const struct mt_dataset_reader mt_dataset_parquet = {.name = "parquet", .endings = {".parquet", ".pq"}};
const struct mt_dataset_reader mt_dataset_arrow = {.name = "arrow",
                                                   .endings = {".arrow", ".feather", ".ipc"}};

struct writing {
    struct mt_row_text out; // first: a hand_on gets its address
    struct mt_spool spool;
};

bool mt_dataset_is_columnar(enum mt_dataset_format format)
{
    return format == MT_DATASET_PARQUET || format == MT_DATASET_ARROW;
}

static enum mt_status to_spool(struct mt_row_text *out)
{
    struct writing *writing = (struct writing *)(void *)out;
    enum mt_status status = mt_spool_write(&writing->spool, out->text.data, out->text.count);
    out->text.count = 0;
    return status;
}

/* A shard of lines, which keeps them; the last may lack its end. */
static enum mt_status copy_lines(const struct mt_file_mapping *file, struct writing *writing)
{
    const char *text = file->data;
    enum mt_status status = mt_spool_write(&writing->spool, text, file->bytes);
    if (status == MT_OK && file->bytes > 0 && text[file->bytes - 1] != '\n')
        status = mt_spool_write(&writing->spool, "\n", 1);
    return status;
}

/* A few bytes of a columnar file can stand for any number of rows. So many for each byte are allowed, beyond
 * a GiB. */
static void allow(const struct mt_dataset *dataset, const struct mt_file_mapping *file,
                  struct mt_row_text *out)
{
    uint64_t most = dataset->options.max_unpacked;
    uint64_t more = ((uint64_t)1 << 30) + ROWS_PER_BYTE * file->bytes;
    out->most = out->written < most && more < most - out->written ? out->written + more : most;
}

static enum mt_status append_file(const struct mt_dataset *dataset, const struct mt_file_mapping *file,
                                  bool mapped, struct writing *writing)
{
    allow(dataset, file, &writing->out);
    switch (dataset->options.format) {
    case MT_DATASET_PARQUET: return mt_parquet_rows(file, mapped, &writing->out);
    case MT_DATASET_ARROW: return mt_arrow_rows(file, mapped, &writing->out);
    default: return copy_lines(file, writing);
    }
}

static enum mt_status append_shards(struct mt_dataset *dataset, struct writing *writing)
{
    struct mt_shards shards;
    enum mt_status status = mt_shards_find(dataset->ctx, dataset->path, &shards);
    for (size_t i = 0; i < shards.count && status == MT_OK; i++) {
        struct mt_file_mapping file = {0};
        writing->out.file = shards.paths[i];
        status = mt_dataset_map(dataset->ctx, shards.paths[i], &dataset->options, &file);
        if (status == MT_OK) status = append_file(dataset, &file, true, writing);
        mt_file_unmap(&file);
    }
    if (status == MT_OK) status = to_spool(&writing->out);
    mt_shards_free(dataset->ctx, &shards);
    return status == MT_OK ? mt_spool_map(&writing->spool, &dataset->mapping) : status;
}

enum mt_status mt_dataset_write_rows(struct mt_dataset *dataset, bool memory)
{
    const struct mt_dataset_options *options = &dataset->options;
    bool lines = options->format == MT_DATASET_JSONL;
    struct writing writing = {.out = {.ctx = dataset->ctx,
                                      .file = dataset->path,
                                      .text = {.ctx = dataset->ctx},
                                      .max_row_bytes = options->max_row_bytes}};
    enum mt_status status = MT_OK;
    if (memory) {
        status = append_file(dataset, &dataset->mapping, false, &writing);
        dataset->gathered = writing.out.text;
        dataset->mapping =
            (struct mt_file_mapping){.data = dataset->gathered.data, .bytes = dataset->gathered.count};
        return status;
    }
    if (!lines && !mt_dataset_is_columnar(options->format))
        return mt_fail(dataset->ctx, MT_ERR_USAGE,
                       "%s: a * in a name can only stand for jsonl, parquet or arrow files", dataset->path);
    writing.out.hand_on = to_spool;
    status = mt_spool_open(dataset->ctx, dataset->path, options->spool_folder, options->max_unpacked,
                           &writing.spool);
    if (status == MT_OK) status = append_shards(dataset, &writing);
    mt_spool_close(&writing.spool);
    mt_byte_list_free(&writing.out.text);
    return status;
}
