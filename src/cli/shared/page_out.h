/* A page as a file of HTML, with the parts that come along. */
#ifndef MT_CLI_PAGE_OUT_H
#define MT_CLI_PAGE_OUT_H

#include <stddef.h>

#include "report/page.h"

/* chart_js NULL: where Debian puts it. *bytes: how long the file is; NULL: not wanted. */
enum mt_status cli_page_write_html(const struct mt_page *page, const char *chart_js, const char *path,
                                   size_t *bytes);

#endif
