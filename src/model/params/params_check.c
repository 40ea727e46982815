/* A checkpoint that does not fit its config, as one message that names what is wrong. */
#include <stdio.h>
#include <string.h>

#include "arch/model_check.h"
#include "formats/text/printable.h"
#include "model/params/params_parts.h"

#define NAMED 4 // of a kind; the rest is counted

static void append(char *text, size_t bytes, const char *addition)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, bytes - used, "%s", addition);
}

/* "; missing: A, B and 7 more" */
static void append_findings(char *text, size_t bytes, const char *kind,
                            const struct mt_model_findings *findings)
{
    char piece[512];
    if (findings->count == 0) return;
    append(text, bytes, text[0] == '\0' ? "" : "; ");
    append(text, bytes, kind);
    size_t named = findings->count < NAMED ? findings->count : NAMED;
    for (size_t i = 0; i < named; i++) {
        const struct mt_model_finding *finding = &findings->listed[i];
        (void)snprintf(piece, sizeof piece, "%s %s%s%s", i == 0 ? ":" : ",", mt_printable(finding->name).text,
                       finding->text != NULL ? " " : "", finding->text != NULL ? finding->text : "");
        append(text, bytes, piece);
    }
    if (findings->count > named) {
        (void)snprintf(piece, sizeof piece, " and %zu more", findings->count - named);
        append(text, bytes, piece);
    }
}

enum mt_status mt_params_check(struct mt_context *ctx, const struct mt_model_desc *desc,
                               const struct mt_checkpoint *checkpoint)
{
    struct mt_model_check check;
    enum mt_status status = mt_model_check_checkpoint(ctx, desc->config, checkpoint, &check);
    if (status != MT_OK) return status;
    char text[MT_MESSAGE_BYTES] = "";
    append_findings(text, sizeof text, "missing", &check.missing);
    append_findings(text, sizeof text, "wrong", &check.wrong);
    append_findings(text, sizeof text, "unexpected", &check.unexpected);
    if (text[0] != '\0') {
        bool shape_only = check.missing.count == 0 && check.unexpected.count == 0;
        status = mt_fail(ctx, shape_only ? MT_ERR_SHAPE : MT_ERR_FORMAT, "weights and config do not fit: %s",
                         text);
    }
    mt_model_check_free(&check);
    return status;
}
