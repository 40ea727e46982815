/* The files a page is written to: options that `metier report` and `metier compare` share. */
#ifndef MT_CLI_PAGE_FILES_H
#define MT_CLI_PAGE_FILES_H

#include "report/page.h"

/* Paths, borrowed; NULL: not asked for. */
struct cli_page_files {
    const char *html;
    const char *markdown, *latex; // both refer to the pictures of `png`
    const char *csv;              // folder: every table
    const char *png, *svg;        // folders: every picture
    const char *data;             // folder: every figure's numbers
    const char *chart_js;         // NULL: where Debian puts it
};

bool cli_page_files_any(const struct cli_page_files *files);

/* Writes all of them, and a line for each on standard output, beginning with `indent`. One that cannot be
 * written keeps none of the others from it; the first failure is returned. */
enum mt_status cli_save_page(const struct mt_page *page, const struct cli_page_files *files,
                             const char *indent);

#endif
