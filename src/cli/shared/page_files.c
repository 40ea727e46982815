/* The files a page is written to. */
#include "cli/shared/page_files.h"

#include <stdio.h>

#include "cli/shared/share.h"
#include "report/render.h"

bool cli_page_files_any(const struct cli_page_files *files)
{
    return files->html != NULL || files->markdown != NULL || files->latex != NULL || files->csv != NULL ||
           files->png != NULL || files->svg != NULL || files->data != NULL;
}

/* What was written so far: each file is tried, whatever became of the others. */
struct saving {
    struct mt_context *ctx;
    const char *indent;
    enum mt_status status; // the first failure
    char message[MT_MESSAGE_BYTES];
};

/* After an attempt to write PATH: says so, or keeps the first failure. */
static void note(struct saving *saving, enum mt_status status, const char *path, const char *what)
{
    if (status == MT_OK) {
        printf("%s%s: %s\n", saving->indent, path, what);
    } else if (saving->status == MT_OK) {
        saving->status = status;
        (void)snprintf(saving->message, sizeof saving->message, "%s", saving->ctx->message);
    }
}

static void note_bytes(struct saving *saving, enum mt_status status, const char *path, size_t bytes)
{
    char what[32];
    (void)snprintf(what, sizeof what, "%zu bytes", bytes);
    note(saving, status, path, what);
}

enum mt_status cli_save_page(const struct mt_page *page, const struct cli_page_files *files,
                             const char *indent)
{
    struct saving saving = {.ctx = page->ctx, .indent = indent};
    size_t bytes = 0;
    if (files->png != NULL)
        note(&saving, mt_save_pictures(page, files->png, MT_PICTURE_PNG), files->png, "pictures, PNG");
    if (files->svg != NULL)
        note(&saving, mt_save_pictures(page, files->svg, MT_PICTURE_SVG), files->svg, "pictures, SVG");
    if (files->csv != NULL) note(&saving, mt_save_tables(page, files->csv), files->csv, "CSV of every table");
    if (files->data != NULL)
        note(&saving, mt_save_numbers(page, files->data), files->data, "CSV and JSON of every figure");
    if (files->markdown != NULL) {
        enum mt_status status = mt_save_markdown(page, files->png, files->markdown, &bytes);
        note_bytes(&saving, status, files->markdown, bytes);
    }
    if (files->latex != NULL) {
        enum mt_status status = mt_save_latex(page, files->png, files->latex, &bytes);
        note_bytes(&saving, status, files->latex, bytes);
    }
    if (files->html != NULL) {
        enum mt_status status = cli_save_html(page, files->chart_js, files->html, &bytes);
        note_bytes(&saving, status, files->html, bytes);
    }
    return saving.status == MT_OK ? MT_OK : mt_fail(page->ctx, saving.status, "%s", saving.message);
}
