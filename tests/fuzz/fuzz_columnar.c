/*
 * Fuzz target: the first byte chooses Parquet or Arrow and how long rows may be, the rest is the file. Every
 * row that comes out is a line; each is read, and what is handed out must be readable. Compressed pages of
 * real writers are in the seeds.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/data/dataset.h"

#define MOST_ROWS 300 // reading more takes longer than a try should

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void touch(const char *text, size_t bytes)
{
    volatile char last = 0;
    for (size_t i = 0; i < bytes; i++) last = text[i];
    (void)last;
}

static void read_rows(struct mt_context *ctx, struct mt_dataset *dataset)
{
    struct mt_row row;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && i < MOST_ROWS; i++) {
        enum mt_status status = mt_dataset_read(dataset, i, &row);
        demand(row.line == i + 1);
        demand(status == MT_OK || ctx->message[0] != '\0');
        for (size_t k = 0; status == MT_OK && k < row.field_count; k++) {
            touch(row.fields[k].name, strlen(row.fields[k].name));
            if (row.fields[k].kind == MT_FIELD_TEXT) touch(row.fields[k].text, row.fields[k].bytes);
        }
    }
    mt_row_free(&row);
    mt_dataset_close(dataset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    struct mt_context ctx;
    struct mt_dataset *dataset = NULL;
    const struct mt_dataset_options options = {
        .format = (data[0] & 1) != 0 ? MT_DATASET_ARROW : MT_DATASET_PARQUET,
        .max_row_bytes = (data[0] & 2) != 0 ? 64 : 4096,
        .max_unpacked = 1 << 20,
    };
    mt_context_init(&ctx, NULL);
    if (mt_dataset_open_memory(&ctx, "fuzz", data + 1, size - 1, &options, &dataset) == MT_OK) {
        read_rows(&ctx, dataset);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
