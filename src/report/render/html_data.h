/* A figure's numbers in a page of HTML: JSON that report.js draws from and offers for download. */
#ifndef MT_REPORT_RENDER_HTML_DATA_H
#define MT_REPORT_RENDER_HTML_DATA_H

#include "report/output.h"
#include "report/thin.h"

/* "table", "lines": as the page's style and script call it. */
const char *mt_figure_kind_name(const struct mt_figure *figure);

/* The rows that `thinned` keeps; safe inside <script>. */
void mt_put_figure_data(struct mt_output *out, const struct mt_figure *figure,
                        const struct mt_thinned *thinned);

#endif
