/* Counting rows that cannot be used. */
#include "eval/tasks/dropped_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "eval/tasks/field_place.h"

/* What a message says behind its place. */
static const char *reason(const struct mt_row *row)
{
    char place[512];
    const char *message = row->ctx->message;
    int length = snprintf(place, sizeof place, "%s:%" PRIu64 ": ", row->file, row->line);
    bool placed = length > 0 && (size_t)length < sizeof place && strncmp(message, place, (size_t)length) == 0;
    return placed ? message + length : message;
}

enum mt_status mt_dropped_rows_add(struct mt_dropped_rows *dropped, const struct mt_row *row)
{
    char why[MT_DROPPED_MESSAGE];
    (void)snprintf(why, sizeof why, "%.480s", reason(row));
    bool unanswered = strcmp(why, MT_ROW_UNANSWERED) == 0;
    struct mt_byte_list names = {.ctx = row->ctx};
    enum mt_status status = unanswered ? MT_OK : mt_row_append_names(row, &names);
    size_t length = strlen(why);
    if (status == MT_OK && names.count > 0)
        (void)snprintf(why + length, sizeof why - length, " (the row has %.*s)",
                       (int)(names.count < 400 ? names.count : 400), (const char *)names.data);
    mt_byte_list_free(&names);
    if (status != MT_OK) return status;
    dropped->count++;
    if (unanswered) dropped->unanswered++;
    size_t at = 0;
    while (at < dropped->kind_count && strcmp(dropped->kinds[at].why, why) != 0) at++;
    if (at == MT_DROPPED_KINDS) {
        dropped->others++;
        return MT_OK;
    }
    struct mt_dropped_kind *kind = &dropped->kinds[at];
    if (at == dropped->kind_count) {
        dropped->kind_count++;
        kind->line = row->line;
        memcpy(kind->why, why, sizeof why);
    }
    kind->count++;
    return MT_OK;
}

enum mt_status mt_dropped_rows_describe(const struct mt_dropped_rows *dropped, struct mt_byte_list *out)
{
    char text[MT_DROPPED_MESSAGE + 128];
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < dropped->kind_count && status == MT_OK; i++) {
        const struct mt_dropped_kind *kind = &dropped->kinds[i];
        int length = snprintf(text, sizeof text, "%sline %" PRIu64 ": %.620s", i > 0 ? "; " : "", kind->line,
                              kind->why);
        if (kind->count > 1 && length > 0)
            (void)snprintf(text + length, sizeof text - (size_t)length, " and %s like it",
                           mt_counted(kind->count - 1, "row", "rows").text);
        status = mt_byte_list_append_text(out, text);
    }
    if (status != MT_OK || dropped->others == 0) return status;
    (void)snprintf(text, sizeof text, "; %s", mt_counted(dropped->others, "other", "others").text);
    return mt_byte_list_append_text(out, text);
}
