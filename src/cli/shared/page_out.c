/* A page as a file of HTML. */
#include "cli/shared/page_out.h"

#include "cli/shared/share.h"
#include "report/render.h"

#define BLOCK_BYTES 4096

enum mt_status cli_page_write_html(const struct mt_page *page, const char *chart_js, const char *path,
                                   size_t *bytes)
{
    struct mt_context *ctx = page->ctx;
    struct mt_html_parts parts = {0};
    struct mt_arena arena;
    struct mt_output out;
    const char *folder = NULL;
    mt_arena_init(&arena, ctx, BLOCK_BYTES);
    mt_output_init(&out, ctx);
    enum mt_status status = cli_find_share(&arena, "report", "the page's style and script", &folder);
    if (status == MT_OK)
        status = mt_html_parts_read(ctx, folder, chart_js != NULL ? chart_js : MT_CHARTS_FILE, &parts);
    if (status == MT_OK) status = mt_render_html(page, &parts, &out);
    if (status == MT_OK) status = mt_output_save(&out, path);
    if (bytes != NULL) *bytes = out.text.count;
    mt_html_parts_free(&parts);
    mt_output_free(&out);
    mt_arena_free(&arena);
    return status;
}
