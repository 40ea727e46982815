/*
 * Tables of HTML, as pandas' read_html takes them: the names are the rows of <thead>, or where there is none
 * the first rows of nothing but <th>; there must be one that is not empty. Tags that do not close are closed
 * by what follows. Rows of several tables follow each other where the names are the same. Cells that span
 * others are not repeated. A cell of digits, dots, dashes and commas is written without the commas.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "eval/livebench/table.h"
#include "eval/livebench/text.h"
#include "formats/text/utf8.h"

#define MOST_NAME 16
#define MOST_TAG  4096 // bytes of a tag

struct page {
    struct mt_table *table;
    const char *at, *end;
    struct mt_byte_list cell;
    bool in_table, in_head, in_row, in_cell;
    bool has_head;   // a row of names was read in this table
    bool row_has_td; // the row in hand has a cell that is no <th>
    bool first_table;
    struct mt_text *fields; // of the row in hand
    size_t field_count, field_capacity;
    size_t rows; // behind the names, of all tables
};

// ------------------------------------------------------------------ cells

/* Appends the character an entity stands for; false: it is none of those known. */
static bool append_entity(struct mt_byte_list *out, const char *name, size_t bytes, enum mt_status *status)
{
    static const struct {
        const char *name;
        uint32_t character;
    } known[] = {{"amp", '&'},      {"lt", '<'},       {"gt", '>'},       {"quot", '"'},      {"apos", '\''},
                 {"nbsp", 0xA0},    {"ndash", 0x2013}, {"mdash", 0x2014}, {"hellip", 0x2026}, {"deg", 0xB0},
                 {"eacute", 0xE9},  {"copy", 0xA9},    {"reg", 0xAE},     {"euro", 0x20AC},   {"times", 0xD7},
                 {"rsquo", 0x2019}, {"lsquo", 0x2018}, {"rdquo", 0x201D}, {"ldquo", 0x201C}};
    uint32_t character = 0;
    uint8_t utf8[4];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (mt_text_is((struct mt_text){.text = name, .bytes = bytes}, known[i].name))
            character = known[i].character;
    }
    if (bytes > 1 && name[0] == '#') {
        bool hex = name[1] == 'x' || name[1] == 'X';
        for (size_t i = hex ? 2 : 1; i < bytes && character <= 0x10FFFF; i++) {
            int digit = (unsigned char)name[i];
            if (!(hex ? isxdigit(digit) : isdigit(digit))) return false;
            int value = isdigit(digit) ? digit - '0' : tolower(digit) - 'a' + 10;
            character = character * (hex ? 16 : 10) + (uint32_t)value;
        }
    }
    if (character == 0 || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) return false;
    *status = mt_byte_list_append(out, utf8, mt_utf8_encode(character, utf8));
    return true;
}

/* Text of a cell up to the next tag. */
static enum mt_status read_text(struct page *page)
{
    enum mt_status status = MT_OK;
    while (page->at < page->end && *page->at != '<' && status == MT_OK) {
        size_t left = (size_t)(page->end - page->at);
        const char *semicolon = *page->at == '&' ? memchr(page->at, ';', left < 12 ? left : 12) : NULL;
        if (page->in_cell && semicolon != NULL &&
            append_entity(&page->cell, page->at + 1, (size_t)(semicolon - page->at - 1), &status)) {
            page->at = semicolon + 1;
            continue;
        }
        if (page->in_cell) status = mt_byte_list_append(&page->cell, page->at, 1);
        page->at++;
    }
    return status;
}

/* Bytes of white space that become one space: a run of line ends, or two and more of any kind. */
static size_t space_run(struct mt_text text, size_t at)
{
    size_t run = 0;
    while (at + run < text.bytes && (text.text[at + run] == '\n' || text.text[at + run] == '\r')) run++;
    if (run > 0) return run;
    while (at + run < text.bytes && isspace((unsigned char)text.text[at + run])) run++;
    return run > 1 ? run : 0;
}

/* White space as read_html leaves it, and numbers without commas. */
static void tidy(struct mt_byte_list *cell)
{
    struct mt_text text = mt_livebench_stripped(mt_text_in(cell));
    size_t kept = 0;
    bool digits = text.bytes > 0;
    for (size_t i = 0; i < text.bytes;) {
        size_t run = space_run(text, i);
        char byte = run > 0 ? ' ' : text.text[i];
        i += run > 0 ? run : 1;
        digits = digits && (isdigit((unsigned char)byte) || (byte != '\0' && strchr("-.,^", byte) != NULL));
        cell->data[kept++] = (uint8_t)byte;
    }
    cell->count = kept;
    if (!digits) return;
    kept = 0;
    for (size_t i = 0; i < cell->count; i++) {
        if (cell->data[i] != ',') cell->data[kept++] = cell->data[i];
    }
    cell->count = kept;
}

static enum mt_status close_cell(struct page *page)
{
    const char *copy = NULL;
    if (!page->in_cell) return MT_OK;
    page->in_cell = false;
    if (page->cell.count > 0) tidy(&page->cell);
    enum mt_status status = MT_OK;
    page->fields = mt_list_reserve(page->table->ctx, page->fields, &page->field_capacity,
                                   sizeof *page->fields, page->field_count + 1, &status);
    struct mt_text cell = mt_text_in(&page->cell);
    if (status == MT_OK) status = mt_arena_copy_text(&page->table->arena, cell.text, cell.bytes, &copy);
    if (status == MT_OK)
        page->fields[page->field_count++] = (struct mt_text){.text = copy, .bytes = page->cell.count};
    return status;
}

// ------------------------------------------------------------------ rows

static bool is_blank(const struct page *page)
{
    for (size_t i = 0; i < page->field_count; i++) {
        if (page->fields[i].bytes > 0) return false;
    }
    return true;
}

/* A row of names: the first table's are the table's, another's must be the same. */
static enum mt_status take_names(struct page *page)
{
    struct mt_table *table = page->table;
    enum mt_status status = MT_OK;
    if (page->has_head) table->broken = true; // names in two rows
    page->has_head = true;
    for (size_t i = 0; i < page->field_count && page->first_table && status == MT_OK; i++)
        status = mt_table_add_column(table, page->fields[i]);
    if (page->first_table) return status;
    if (page->field_count != table->columns) table->broken = true;
    for (size_t i = 0; i < page->field_count && !table->broken; i++)
        table->broken = !mt_text_same(table->names[i], page->fields[i]);
    return status;
}

static enum mt_status take_row(struct page *page)
{
    struct mt_table *table = page->table;
    enum mt_status status = MT_OK;
    if (page->field_count > table->columns || !page->has_head) table->broken = true;
    if (table->columns == 1 && is_blank(page)) return MT_OK; // as lines without anything
    for (size_t i = 0; i < page->field_count && !table->broken && status == MT_OK; i++)
        status = mt_table_put(table, page->rows, i,
                              (struct mt_table_cell){.kind = MT_CELL_TEXT, .text = page->fields[i]});
    page->rows++;
    return status;
}

static enum mt_status close_row(struct page *page)
{
    enum mt_status status = close_cell(page);
    if (!page->in_row || status != MT_OK) return status;
    page->in_row = false;
    if (page->field_count == 0) return MT_OK;
    bool names = page->in_head || (!page->has_head && !page->row_has_td);
    if (names && is_blank(page)) return MT_OK;
    return names ? take_names(page) : take_row(page);
}

static void open_row(struct page *page)
{
    page->in_row = true;
    page->row_has_td = false;
    page->field_count = 0;
}

// ------------------------------------------------------------------ tags

static enum mt_status take_tag(struct page *page, const char *name, bool closing)
{
    bool td = strcasecmp(name, "td") == 0;
    bool th = strcasecmp(name, "th") == 0;
    enum mt_status status = MT_OK;
    if (strcasecmp(name, "table") == 0) {
        status = close_row(page);
        if (page->in_table) page->first_table = false;
        page->in_table = !closing;
        page->has_head = page->in_head = false;
    } else if (strcasecmp(name, "thead") == 0) {
        status = close_row(page);
        page->in_head = !closing;
    } else if (strcasecmp(name, "tbody") == 0 || strcasecmp(name, "tfoot") == 0) {
        status = close_row(page);
        page->in_head = false;
    } else if (strcasecmp(name, "tr") == 0) {
        status = close_row(page);
        if (!closing && page->in_table) open_row(page);
    } else if (td || th) {
        status = close_cell(page);
        if (!closing && page->in_table && !page->in_row) open_row(page);
        page->in_cell = !closing && page->in_table;
        page->row_has_td = page->row_has_td || (td && !closing);
        page->cell.count = 0;
    } else if (strcasecmp(name, "br") == 0 && page->in_cell) {
        status = mt_byte_list_append(&page->cell, "\n", 1);
    }
    return status;
}

/* What stands at a '<': a comment, a tag, or the character itself. */
static enum mt_status read_tag(struct page *page)
{
    char name[MOST_NAME];
    size_t length = 0;
    size_t left = (size_t)(page->end - page->at);
    if (left >= 4 && memcmp(page->at, "<!--", 4) == 0) {
        while (page->at < page->end && (page->end - page->at < 3 || memcmp(page->at, "-->", 3) != 0))
            page->at++;
        page->at = page->end - page->at >= 3 ? page->at + 3 : page->end;
        return MT_OK;
    }
    const char *close = memchr(page->at, '>', left < MOST_TAG ? left : MOST_TAG);
    bool closing = left > 1 && page->at[1] == '/';
    const char *at = page->at + (closing ? 2 : 1);
    if (close == NULL || at >= page->end || !isalpha((unsigned char)*at)) {
        page->at++;
        return page->in_cell ? mt_byte_list_append(&page->cell, "<", 1) : MT_OK;
    }
    while (at < close && isalnum((unsigned char)*at) && length < MOST_NAME - 1) name[length++] = *at++;
    name[length] = '\0';
    page->at = close + 1;
    return take_tag(page, name, closing);
}

enum mt_status mt_table_read_html(struct mt_table *table, struct mt_text text)
{
    struct page page = {.table = table,
                        .at = text.text,
                        .end = text.text + text.bytes,
                        .cell = {.ctx = table->ctx},
                        .first_table = true};
    enum mt_status status = MT_OK;
    while (page.at < page.end && status == MT_OK && !table->broken)
        status = *page.at == '<' ? read_tag(&page) : read_text(&page);
    if (status == MT_OK) status = close_row(&page);
    if (status == MT_OK) status = mt_table_finish(table, page.rows);
    if (status == MT_OK && !table->broken) mt_table_infer_texts(table);
    mt_release(table->ctx, page.fields, page.field_capacity * sizeof *page.fields);
    mt_byte_list_free(&page.cell);
    return status;
}
