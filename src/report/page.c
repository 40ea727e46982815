/* Building a page. */
#include "report/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/lists.h"
#include "formats/text/utf8.h"
#include "report/page_parts.h"

#define BLOCK_BYTES     16384
#define PARAGRAPH_BYTES 1000
#define ID_BYTES        64

void mt_page_free(struct mt_page *page)
{
    if (page->ctx == NULL) return;
    for (struct mt_section *section = page->first; section != NULL; section = section->next) {
        for (struct mt_block *block = section->first; block != NULL; block = block->next) {
            if (block->figure != NULL) mt_figure_free(block->figure);
        }
    }
    mt_arena_free(&page->arena);
    *page = (struct mt_page){0};
}

enum mt_status mt_page_status(const struct mt_page *page)
{
    return page->status;
}

bool mt_page_check(struct mt_page *page, enum mt_status status)
{
    if (page->status == MT_OK) page->status = status;
    return page->status == MT_OK;
}

// ------------------------------------------------------------------ texts

const char *mt_page_keep(struct mt_page *page, const char *text)
{
    struct mt_byte_list valid = {.ctx = page->ctx};
    const char *copy = NULL;
    if (page->status != MT_OK || text == NULL || text[0] == '\0') return "";
    page->status = mt_utf8_append_repaired(&valid, (const uint8_t *)text, strlen(text));
    if (page->status == MT_OK)
        page->status = mt_arena_copy_text(&page->arena, (const char *)valid.data, valid.count, &copy);
    mt_byte_list_free(&valid);
    return page->status == MT_OK ? copy : "";
}

void mt_page_init(struct mt_page *page, struct mt_context *ctx, const char *title)
{
    *page = (struct mt_page){.ctx = ctx, .subtitle = ""};
    mt_arena_init(&page->arena, ctx, BLOCK_BYTES);
    page->title = mt_page_keep(page, title);
}

void *mt_page_make(struct mt_page *page, size_t bytes)
{
    void *memory = NULL;
    if (page->status == MT_OK) page->status = mt_arena_allocate(&page->arena, bytes, &memory);
    return page->status == MT_OK ? memory : NULL;
}

/* Sections and figures do not take each other's ids: a figure's is the name of its files. */
static bool id_is_taken(const struct mt_page *page, const char *id, bool of_section)
{
    for (const struct mt_section *section = page->first; section != NULL; section = section->next) {
        if (of_section && section->id != NULL && strcmp(section->id, id) == 0) return true;
        for (const struct mt_block *block = section->first; block != NULL && !of_section;
             block = block->next) {
            if (block->figure != NULL && block->figure->id != NULL && strcmp(block->figure->id, id) == 0)
                return true;
        }
    }
    return false;
}

const char *mt_page_id(struct mt_page *page, const char *title, bool of_section)
{
    char id[ID_BYTES + 24];
    size_t length = 0;
    for (const char *at = title; *at != '\0' && length < ID_BYTES - 1; at++) {
        char c = *at;
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (good) {
            id[length++] = c;
        } else if (length > 0 && id[length - 1] != '-') {
            id[length++] = '-';
        }
    }
    while (length > 0 && id[length - 1] == '-') length--;
    if (length == 0) id[length++] = 'x';
    id[length] = '\0';
    for (unsigned number = 2; id_is_taken(page, id, of_section); number++)
        (void)snprintf(id + length, sizeof id - length, "-%u", number);
    return mt_page_keep(page, id);
}

void mt_page_subtitle(struct mt_page *page, const char *text)
{
    page->subtitle = mt_page_keep(page, text);
}

void mt_page_card(struct mt_page *page, const char *name, const char *value, const char *note)
{
    struct mt_card *card = mt_page_make(page, sizeof *card);
    if (card == NULL) return;
    *card = (struct mt_card){.name = mt_page_keep(page, name)};
    card->value = mt_page_keep(page, value);
    card->note = mt_page_keep(page, note);
    if (page->last_card != NULL) page->last_card->next = card;
    if (page->first_card == NULL) page->first_card = card;
    page->last_card = card;
}

static struct mt_section *add_section(struct mt_page *page, const char *title)
{
    struct mt_section *section = mt_page_make(page, sizeof *section);
    if (section == NULL) return NULL;
    *section = (struct mt_section){.title = mt_page_keep(page, title)};
    section->id = mt_page_id(page, section->title, true);
    if (page->last != NULL) page->last->next = section;
    if (page->first == NULL) page->first = section;
    page->last = section;
    return section;
}

void mt_page_section(struct mt_page *page, const char *title)
{
    (void)add_section(page, title);
}

void mt_page_verdict(struct mt_page *page, const char *title)
{
    struct mt_section *section = add_section(page, title);
    if (section != NULL) section->verdict = true;
}

struct mt_block *mt_page_add_block(struct mt_page *page)
{
    if (page->last == NULL) mt_page_section(page, "");
    struct mt_block *block = mt_page_make(page, sizeof *block);
    if (block == NULL || page->last == NULL) return NULL;
    *block = (struct mt_block){0};
    if (page->last->last != NULL) page->last->last->next = block;
    if (page->last->first == NULL) page->last->first = block;
    page->last->last = block;
    return block;
}

static struct mt_block *add_text(struct mt_page *page, const char *format, va_list args)
{
    char text[PARAGRAPH_BYTES + 1];
    (void)vsnprintf(text, sizeof text, format, args);
    const char *copy = mt_page_keep(page, text);
    struct mt_block *block = mt_page_add_block(page);
    if (block != NULL) block->text = copy;
    return block;
}

void mt_page_text(struct mt_page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)add_text(page, format, args);
    va_end(args);
}

void mt_page_finding(struct mt_page *page, enum mt_tone tone, const char *headline, const char *format, ...)
{
    va_list args;
    const char *copy = mt_page_keep(page, headline);
    va_start(args, format);
    struct mt_block *block = add_text(page, format, args);
    va_end(args);
    if (block == NULL) return;
    block->headline = copy;
    block->tone = tone;
}
