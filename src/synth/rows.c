/* Rows of problems, collected and written in pieces. */
#include "synth/rows.h"

#include <inttypes.h>

#include "formats/text/json_text.h"

#define WRITE_BYTES 65536 // rows are collected until there is so much

static enum mt_status append_item(struct mt_json_text *text, const struct mt_synth_item *item,
                                  const struct mt_synth_task *task)
{
    enum mt_status status = mt_json_text_format(text, "{\"prompt\": ");
    if (status == MT_OK) status = mt_json_text_string(text, item->prompt);
    if (status == MT_OK) status = mt_json_text_format(text, ", \"completion\": ");
    if (status == MT_OK) status = mt_json_text_string(text, item->completion);
    if (status != MT_OK) return status;
    return mt_json_text_format(text, ", \"domain\": \"%s\", \"task\": \"%s\", \"id\": \"%016" PRIx64 "\"}\n",
                               mt_domain_name(task->domain), task->name, mt_synth_hash(item->prompt));
}

enum mt_status mt_synth_write_rows(struct mt_context *ctx, struct mt_synth *const *sources,
                                   size_t source_count, int64_t count, struct mt_file_writer *writer)
{
    struct mt_json_text text;
    enum mt_status status = MT_OK;
    mt_json_text_init(&text, ctx);
    for (int64_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_synth_item item;
        const struct mt_synth_task *task = NULL;
        status = mt_synth_next(sources[(size_t)i % source_count], &item, &task);
        if (status == MT_OK) status = append_item(&text, &item, task);
        if (status == MT_OK && (text.length >= WRITE_BYTES || i + 1 == count)) {
            status = mt_file_writer_write(writer, text.bytes, text.length);
            text.length = 0;
        }
    }
    mt_json_text_free(&text);
    return status;
}
