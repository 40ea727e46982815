/*
 * Fuzz target: the first byte chooses format and options, the rest is the file. Every row is read, forwards
 * and backwards; every byte handed out must be readable. A file as .gz goes through the disk.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/data/conversation.h"
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

static void walk_row(const struct mt_row *row)
{
    struct mt_conversation made = {.ctx = row->ctx};
    struct mt_conversation *conversation = &made;
    for (size_t i = 0; i < row->field_count; i++) {
        const struct mt_row_field *field = &row->fields[i];
        touch(field->name, strlen(field->name));
        demand(mt_row_field(row, field->name) != NULL);
        if (field->kind == MT_FIELD_TEXT) touch(field->text, field->bytes);
        struct mt_json_node node;
        if (field->kind != MT_FIELD_OTHER) continue;
        demand(mt_row_value(row, field->name, &node));
        // Either it is a conversation, or there is a sentence that says why not.
        if (mt_conversation_read(conversation, row, &node) != MT_OK) demand(row->ctx->message[0] != '\0');
        (void)mt_conversation_read_tools(conversation, row, field->name);
        for (size_t j = 0; j < conversation->count; j++)
            touch(conversation->turns[j].text, conversation->turns[j].bytes);
        mt_conversation_clear(conversation);
    }
    mt_conversation_free(conversation);
}

static void read_row(struct mt_context *ctx, const struct mt_dataset *dataset, uint64_t index,
                     struct mt_row *row)
{
    enum mt_status status = mt_dataset_read(dataset, index, row);
    demand(row->line >= 1);
    if (status == MT_OK) walk_row(row);
    if (status != MT_OK) demand(ctx->message[0] != '\0');
}

static void read_rows(struct mt_context *ctx, struct mt_dataset *dataset)
{
    struct mt_row row;
    uint64_t rows = mt_dataset_rows(dataset);
    if (rows > MOST_ROWS) rows = MOST_ROWS;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < rows; i++) read_row(ctx, dataset, i, &row);
    for (uint64_t i = rows; i > 0; i--) read_row(ctx, dataset, i - 1, &row);
    mt_row_free(&row);
    mt_dataset_close(dataset);
}

static void try_packed(struct mt_context *ctx, const uint8_t *data, size_t size,
                       const struct mt_dataset_options *options)
{
    char path[64];
    struct mt_dataset *dataset = NULL;
    (void)snprintf(path, sizeof path, "/tmp/fuzz_dataset.%ld.gz", (long)getpid());
    FILE *file = fopen(path, "wb");
    if (file == NULL) return;
    size_t written = fwrite(data, 1, size, file);
    demand(fclose(file) == 0 && written == size);
    if (mt_dataset_open(ctx, path, options, &dataset) == MT_OK) read_rows(ctx, dataset);
    (void)remove(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    struct mt_context ctx;
    struct mt_dataset *dataset = NULL;
    struct mt_dataset_options options = {
        .format = (enum mt_dataset_format)(MT_DATASET_JSONL + data[0] % 5),
        .columns = (data[0] & 0x20) != 0 ? "a,b" : NULL,
        .text_rows = (enum mt_text_rows)((data[0] >> 6) % 3),
        .piece_bytes = 16,
        .max_row_bytes = 4096,
        .max_unpacked = 1 << 20,
    };
    mt_context_init(&ctx, NULL);
    bool packed = size > 3 && data[1] == 0x1F && data[2] == 0x8B;
    if (packed) try_packed(&ctx, data + 1, size - 1, &options);
    if (mt_dataset_open_memory(&ctx, "fuzz", data + 1, size - 1, &options, &dataset) == MT_OK) {
        read_rows(&ctx, dataset);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
