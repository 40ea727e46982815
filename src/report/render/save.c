/* A figure's numbers as CSV and JSON; folders of them, and of pictures. */
#include <stdio.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "report/render.h"

static void put_cell(struct mt_output *out, const struct mt_column_part *part, size_t row, bool json)
{
    const struct mt_column *column = part->column;
    if (part->part == MT_PART_SPREAD) {
        mt_put_exact(out, column->spreads[row], json ? "null" : "");
        return;
    }
    if (column->kind != MT_COLUMN_LABEL && part->part == MT_PART_VALUE) {
        mt_put_exact(out, column->numbers[row], json ? "null" : "");
        return;
    }
    const char *text =
        part->part == MT_PART_MARKS ? mt_marks_text(column->marks[row]) : mt_column_text(column, row);
    if (json) {
        mt_put_json(out, text);
    } else {
        mt_put_csv(out, text);
    }
}

enum mt_status mt_render_csv(const struct mt_figure *figure, struct mt_output *out)
{
    struct mt_column_part parts[MT_FIGURE_MOST_PARTS];
    char name[MT_PART_NAME_BYTES];
    size_t rows = mt_figure_rows(figure);
    size_t count = mt_figure_parts(figure, parts);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) mt_put(out, ",");
        mt_put_csv(out, mt_part_name(name, &parts[i]));
    }
    mt_put(out, "\r\n");
    for (size_t row = 0; row < rows && out->status == MT_OK; row++) {
        for (size_t i = 0; i < count; i++) {
            if (i > 0) mt_put(out, ",");
            put_cell(out, &parts[i], row, false);
        }
        mt_put(out, "\r\n");
    }
    return out->status;
}

static void put_member(struct mt_output *out, const char *name, const char *text)
{
    mt_putf(out, "\"%s\": ", name);
    mt_put_json(out, text);
    mt_put(out, ",\n ");
}

enum mt_status mt_render_json(const struct mt_figure *figure, struct mt_output *out)
{
    struct mt_column_part parts[MT_FIGURE_MOST_PARTS];
    char name[MT_PART_NAME_BYTES];
    size_t rows = mt_figure_rows(figure);
    size_t count = mt_figure_parts(figure, parts);
    mt_put(out, "{");
    put_member(out, "id", figure->id);
    put_member(out, "title", figure->head.title);
    put_member(out, "meaning", figure->head.meaning);
    put_member(out, "formula", figure->head.formula);
    mt_put(out, "\"columns\": [");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) mt_put(out, ", ");
        mt_put_json(out, mt_part_name(name, &parts[i]));
    }
    mt_put(out, "],\n \"rows\": [");
    for (size_t row = 0; row < rows && out->status == MT_OK; row++) {
        mt_put(out, row > 0 ? ",\n  [" : "\n  [");
        for (size_t i = 0; i < count; i++) {
            if (i > 0) mt_put(out, ", ");
            put_cell(out, &parts[i], row, true);
        }
        mt_put(out, "]");
    }
    mt_put(out, "]}\n");
    return out->status;
}

/* Renders a figure and writes it as FOLDER/ID.ENDING. */
static enum mt_status save(const struct mt_figure *figure, const char *folder, const char *ending,
                           enum mt_status (*render)(const struct mt_figure *figure, struct mt_output *out))
{
    struct mt_context *ctx = figure->page->ctx;
    struct mt_output name;
    struct mt_output out;
    char *path = NULL;
    mt_output_init(&name, ctx);
    mt_output_init(&out, ctx);
    mt_put(&name, figure->id);
    mt_put(&name, ending);
    mt_put_bytes(&name, "", 1);
    enum mt_status status = name.status;
    if (status == MT_OK) status = mt_path_join(ctx, folder, (const char *)name.text.data, &path);
    if (status == MT_OK) status = render(figure, &out);
    if (status == MT_OK) status = mt_output_save(&out, path);
    mt_path_release(ctx, path);
    mt_output_free(&out);
    mt_output_free(&name);
    return status;
}

typedef enum mt_status render_figure(const struct mt_figure *figure, struct mt_output *out);

/* FOLDER/IDENDING of every figure of which `wanted` says so. */
static enum mt_status save_all(const struct mt_page *page, const char *folder, const char *ending,
                               bool (*wanted)(const struct mt_figure *figure), render_figure *render)
{
    enum mt_status status = mt_folder_make_all(page->ctx, folder);
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        for (const struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (status == MT_OK && block->figure != NULL && wanted(block->figure))
                status = save(block->figure, folder, ending, render);
        }
    }
    return status;
}

static bool is_any(const struct mt_figure *figure)
{
    (void)figure;
    return true;
}

static bool is_table(const struct mt_figure *figure)
{
    return figure->head.kind == MT_FIGURE_TABLE || figure->head.kind == MT_FIGURE_GRID;
}

bool mt_figure_has_picture(const struct mt_figure *figure)
{
    return figure->head.kind != MT_FIGURE_TABLE && mt_figure_rows(figure) > 0;
}

enum mt_status mt_save_numbers(const struct mt_page *page, const char *folder)
{
    enum mt_status status = save_all(page, folder, ".csv", is_any, mt_render_csv);
    return status == MT_OK ? save_all(page, folder, ".json", is_any, mt_render_json) : status;
}

enum mt_status mt_save_tables(const struct mt_page *page, const char *folder)
{
    return save_all(page, folder, ".csv", is_table, mt_render_csv);
}

enum mt_status mt_save_pictures(const struct mt_page *page, const char *folder, enum mt_picture format)
{
    bool vector = format == MT_PICTURE_SVG;
    return save_all(page, folder, vector ? ".svg" : ".png", mt_figure_has_picture,
                    vector ? mt_render_svg : mt_render_png);
}

// ------------------------------------------------------------------ the whole page

enum mt_status mt_save_html(const struct mt_page *page, const char *folder, const char *charts,
                            const char *path, size_t *bytes, char missing[MT_MISSING_BYTES])
{
    struct mt_html_parts parts = {0};
    struct mt_output out;
    mt_output_init(&out, page->ctx);
    enum mt_status status = mt_html_parts_read(page->ctx, folder, charts, &parts);
    if (status == MT_OK) status = mt_render_html(page, &parts, &out);
    if (status == MT_OK) status = mt_output_save(&out, path);
    *bytes = out.text.count;
    (void)snprintf(missing, MT_MISSING_BYTES, "%s", parts.missing);
    mt_html_parts_free(&parts);
    mt_output_free(&out);
    return status;
}

static enum mt_status save_text(const struct mt_page *page, const char *pictures, const char *path,
                                size_t *bytes,
                                enum mt_status (*render)(const struct mt_page *page, const char *pictures,
                                                         struct mt_output *out))
{
    struct mt_output out;
    mt_output_init(&out, page->ctx);
    enum mt_status status = render(page, pictures, &out);
    if (status == MT_OK) status = mt_output_save(&out, path);
    *bytes = out.text.count;
    mt_output_free(&out);
    return status;
}

enum mt_status mt_save_markdown(const struct mt_page *page, const char *pictures, const char *path,
                                size_t *bytes)
{
    return save_text(page, pictures, path, bytes, mt_render_markdown);
}

enum mt_status mt_save_latex(const struct mt_page *page, const char *pictures, const char *path,
                             size_t *bytes)
{
    return save_text(page, pictures, path, bytes, mt_render_latex);
}
