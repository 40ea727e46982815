/* What becomes of a page: HTML, Markdown, LaTeX, pictures, files of numbers. Nothing here changes the page.
 */
#ifndef MT_REPORT_RENDER_H
#define MT_REPORT_RENDER_H

#include "report/output.h"
#include "report/page.h"

#define MT_MISSING_BYTES 1024

/* What a page of HTML is put together with; texts of files, borrowed. */
struct mt_html_parts {
    struct mt_byte_list style;      // share/report/report.css
    struct mt_byte_list program;    // share/report/report.js
    struct mt_byte_list charts;     // Chart.js
    char missing[MT_MISSING_BYTES]; // why there is no Chart.js, and how to get it; "": there is
};

/* Where Debian's and Ubuntu's package libjs-chart.js puts Chart.js. */
#define MT_CHARTS_FILE "/usr/share/javascript/chart.js/chart.min.js"

/*
 * Reads the parts: the first two from a folder, Chart.js from a file. A page can do without Chart.js: where
 * it cannot be read, or is another version, `missing` says so. The caller frees, also after a failure.
 */
enum mt_status mt_html_parts_read(struct mt_context *ctx, const char *folder, const char *charts,
                                  struct mt_html_parts *parts);
void mt_html_parts_free(struct mt_html_parts *parts);

/* One HTML file that needs nothing else: no network, no other file. Without Chart.js its figures are SVG, and
 * the page says what is missing. */
enum mt_status mt_render_html(const struct mt_page *page, const struct mt_html_parts *parts,
                              struct mt_output *out);

/* Markdown; `pictures`: the folder of mt_save_pictures as the file should link to it, NULL: no pictures. */
enum mt_status mt_render_markdown(const struct mt_page *page, const char *pictures, struct mt_output *out);

/* Tables of the page for \\input in a LaTeX document, one float each (render/latex.c); `pictures` as above.
 */
enum mt_status mt_render_latex(const struct mt_page *page, const char *pictures, struct mt_output *out);

/* A figure's numbers, all of them. CSV as RFC 4180 has it. JSON: id, title, meaning, formula, columns, rows.
 */
enum mt_status mt_render_csv(const struct mt_figure *figure, struct mt_output *out);
enum mt_status mt_render_json(const struct mt_figure *figure, struct mt_output *out);

/* True unless the figure is a table or empty. */
bool mt_figure_has_picture(const struct mt_figure *figure);

/* A PNG of 1600 pixels in width, or an SVG of 640 points, letters as outlines; cairo allocates with malloc,
 * not through the context. */
enum mt_status mt_render_png(const struct mt_figure *figure, struct mt_output *out);
enum mt_status mt_render_svg(const struct mt_figure *figure, struct mt_output *out);

enum mt_picture { MT_PICTURE_PNG, MT_PICTURE_SVG };

/* FOLDER/ID.png or ID.svg of every figure that has a picture; the folder is made unless it is there. */
enum mt_status mt_save_pictures(const struct mt_page *page, const char *folder, enum mt_picture format);

/* FOLDER/ID.csv and ID.json of every figure. */
enum mt_status mt_save_numbers(const struct mt_page *page, const char *folder);

/* FOLDER/ID.csv of every table and grid. */
enum mt_status mt_save_tables(const struct mt_page *page, const char *folder);

/* The page as one file; *bytes: how long it is. Folder and charts are those of mt_html_parts_read, `missing`
 * is what it says. */
enum mt_status mt_save_html(const struct mt_page *page, const char *folder, const char *charts,
                            const char *path, size_t *bytes, char missing[MT_MISSING_BYTES]);
enum mt_status mt_save_markdown(const struct mt_page *page, const char *pictures, const char *path,
                                size_t *bytes);
enum mt_status mt_save_latex(const struct mt_page *page, const char *pictures, const char *path,
                             size_t *bytes);

#endif
