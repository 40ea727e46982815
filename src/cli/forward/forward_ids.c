/* The ids metier forward runs on: from the command line or a file, packed. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "cli/forward/forward.h"
#include "formats/text/printable.h"

#define MAX_FILE_BYTES ((size_t)1 << 30)

static bool is_between(char byte)
{
    return byte == ',' || byte == ' ' || byte == '\t' || byte == '\r';
}

/* One number of text[*at ...end). */
static enum mt_status read_id(struct mt_context *ctx, const char *where, const char *text, size_t end,
                              size_t *at, int32_t *id)
{
    size_t start = *at;
    int64_t value = 0;
    while (*at < end && isdigit((unsigned char)text[*at]) && value <= INT32_MAX) {
        value = value * 10 + (text[*at] - '0');
        *at += 1;
    }
    bool whole = *at == end || is_between(text[*at]);
    if (*at == start || !whole || value > INT32_MAX) {
        size_t stop = start;
        while (stop < end && !is_between(text[stop])) stop++;
        return mt_fail(ctx, MT_ERR_USAGE, "%s: '%s' is not an id", where,
                       mt_printable_bytes(text + start, stop - start).text);
    }
    *id = (int32_t)value;
    return MT_OK;
}

/* One sequence; a line without ids is none. */
static enum mt_status read_sequence(struct mt_context *ctx, const char *where, const char *text, size_t end,
                                    struct forward_ids *ids)
{
    size_t at = 0;
    size_t first = ids->ids.count;
    for (;;) {
        while (at < end && is_between(text[at])) at++;
        if (at == end) break;
        int32_t id = 0;
        enum mt_status status = read_id(ctx, where, text, end, &at, &id);
        if (status == MT_OK) status = mt_id_list_append(&ids->ids, id);
        if (status != MT_OK) return status;
        if (ids->ids.count > INT32_MAX / 2) return mt_fail(ctx, MT_ERR_USAGE, "%s: too many ids", where);
    }
    size_t length = ids->ids.count - first;
    if (length == 0) return MT_OK;
    if ((int64_t)length > ids->longest) ids->longest = (int64_t)length;
    return mt_id_list_append(&ids->offsets, (int32_t)ids->ids.count);
}

static enum mt_status read_lines(struct mt_context *ctx, const char *path, struct forward_ids *ids)
{
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: there is no such file", path);
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, MAX_FILE_BYTES, &data, &bytes);
    if (status != MT_OK) return status;
    const char *text = data;
    for (size_t start = 0; status == MT_OK && start < bytes;) {
        size_t end = start;
        while (end < bytes && text[end] != '\n') end++;
        status = read_sequence(ctx, path, text + start, end - start, ids);
        start = end + 1;
    }
    mt_release(ctx, data, bytes);
    return status;
}

/* The next id of the same sequence. */
static enum mt_status make_labels(struct forward_ids *ids)
{
    for (size_t b = 0; b + 1 < ids->offsets.count; b++) {
        int32_t end = ids->offsets.data[b + 1];
        for (int32_t i = ids->offsets.data[b]; i < end; i++) {
            enum mt_status status = mt_id_list_append(&ids->labels, i + 1 < end ? ids->ids.data[i + 1] : -1);
            if (status != MT_OK) return status;
        }
    }
    return MT_OK;
}

enum mt_status cli_forward_ids_read(struct mt_context *ctx, const struct forward_settings *settings,
                                    struct forward_ids *ids)
{
    *ids = (struct forward_ids){.ids = {.ctx = ctx}, .offsets = {.ctx = ctx}, .labels = {.ctx = ctx}};
    if ((settings->ids == NULL) == (settings->ids_file == NULL))
        return mt_fail(ctx, MT_ERR_USAGE, "one of --ids and --ids-file is needed");
    enum mt_status status = mt_id_list_append(&ids->offsets, 0);
    if (status != MT_OK) return status;
    if (settings->ids != NULL) {
        status = read_sequence(ctx, "--ids", settings->ids, strlen(settings->ids), ids);
    } else {
        status = read_lines(ctx, settings->ids_file, ids);
    }
    if (status != MT_OK) return status;
    if (ids->ids.count == 0)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: there are no ids",
                       settings->ids != NULL ? "--ids" : settings->ids_file);
    if (settings->grads && ids->longest < 2)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--grads needs a sequence of two ids or more: the loss predicts the next id");
    return make_labels(ids);
}

void cli_forward_ids_free(struct forward_ids *ids)
{
    mt_id_list_free(&ids->ids);
    mt_id_list_free(&ids->offsets);
    mt_id_list_free(&ids->labels);
}

enum mt_status cli_forward_ids_check(struct mt_context *ctx, const struct forward_ids *ids,
                                     int64_t vocabulary)
{
    for (size_t i = 0; i < ids->ids.count; i++) {
        if (ids->ids.data[i] < vocabulary) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "id %" PRId32 " is outside the model's vocabulary of %" PRId64,
                       ids->ids.data[i], vocabulary);
    }
    return MT_OK;
}
