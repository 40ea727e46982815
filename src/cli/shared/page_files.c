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

static enum mt_status save_folders(const struct mt_page *page, const struct cli_page_files *files,
                                   const char *indent)
{
    enum mt_status status = MT_OK;
    if (files->png != NULL) {
        status = mt_save_pictures(page, files->png, MT_PICTURE_PNG);
        if (status == MT_OK) printf("%s%s: pictures, PNG\n", indent, files->png);
    }
    if (status == MT_OK && files->svg != NULL) {
        status = mt_save_pictures(page, files->svg, MT_PICTURE_SVG);
        if (status == MT_OK) printf("%s%s: pictures, SVG\n", indent, files->svg);
    }
    if (status == MT_OK && files->csv != NULL) {
        status = mt_save_tables(page, files->csv);
        if (status == MT_OK) printf("%s%s: CSV of every table\n", indent, files->csv);
    }
    if (status == MT_OK && files->data != NULL) {
        status = mt_save_numbers(page, files->data);
        if (status == MT_OK) printf("%s%s: CSV and JSON of every figure\n", indent, files->data);
    }
    return status;
}

enum mt_status cli_save_page(const struct mt_page *page, const struct cli_page_files *files,
                             const char *indent)
{
    size_t bytes = 0;
    enum mt_status status = save_folders(page, files, indent);
    if (status == MT_OK && files->markdown != NULL) {
        status = mt_save_markdown(page, files->png, files->markdown, &bytes);
        if (status == MT_OK) printf("%s%s: %zu bytes\n", indent, files->markdown, bytes);
    }
    if (status == MT_OK && files->latex != NULL) {
        status = mt_save_latex(page, files->png, files->latex, &bytes);
        if (status == MT_OK) printf("%s%s: %zu bytes\n", indent, files->latex, bytes);
    }
    if (status == MT_OK && files->html != NULL) {
        status = cli_save_html(page, files->chart_js, files->html, &bytes);
        if (status == MT_OK) printf("%s%s: %zu bytes\n", indent, files->html, bytes);
    }
    return status;
}
