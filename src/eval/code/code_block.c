/* Finding blocks of code in a text, and choosing among them by the names they define and use. */
#include "eval/code/code_block.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>

#include "eval/code/code_names.h"

#define MOST_BLOCKS 256 // of one answer; what comes behind them is not looked at

struct block {
    struct mt_text text;
    size_t strip; // white space to take off the beginnings of its lines
    bool python;  // its fence says so, or says nothing
    bool taken;
};

struct blocks {
    struct block each[MOST_BLOCKS];
    size_t count;
};

static size_t indentation(struct mt_text line)
{
    size_t at = 0;
    while (at < line.bytes && (line.text[at] == ' ' || line.text[at] == '\t')) at++;
    return at;
}

static void add_block(struct blocks *blocks, struct mt_text text, size_t strip, bool python)
{
    if (mt_text_trimmed(text).bytes == 0 || blocks->count == MOST_BLOCKS) return;
    blocks->each[blocks->count++] = (struct block){.text = text, .strip = strip, .python = python};
}

// ------------------------------------------------------------------ thoughts

/* True when a quote stands on either side of a piece of text: it is a string of the program. */
static bool is_quoted(struct mt_text text, size_t from, size_t to)
{
    char before = from > 0 ? text.text[from - 1] : ' ';
    char behind = to < text.bytes ? text.text[to] : ' ';
    return before == '\'' || before == '"' || behind == '\'' || behind == '"';
}

/* What is left behind the last tag that ends a thought, up to one that begins another and does not end. */
static struct mt_text without_thoughts(struct mt_text text)
{
    static const char *const tags[][2] = {{"<think>", "</think>"},
                                          {"<thinking>", "</thinking>"},
                                          {"<thought>", "</thought>"},
                                          {"<reasoning>", "</reasoning>"}};
    size_t from = 0;
    size_t to = text.bytes;
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        size_t length = strlen(tags[i][1]);
        for (size_t at = mt_text_find(text, 0, tags[i][1]); at < text.bytes;
             at = mt_text_find(text, at + length, tags[i][1])) {
            if (!is_quoted(text, at, at + length) && at + length > from) from = at + length;
        }
    }
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        size_t at = mt_text_find(text, from, tags[i][0]);
        if (at < to && !is_quoted(text, at, at + strlen(tags[i][0]))) to = at;
    }
    return (struct mt_text){.text = text.text + from, .bytes = to - from};
}

// ------------------------------------------------------------------ fences

struct fence {
    char mark;     // ` or ~
    size_t length; // marks
    size_t column; // where they begin in their line
    size_t indent; // of the line
    struct mt_text info;
};

/* The first run of three marks or more in a line. Tildes have a line of their own. */
static bool find_fence(struct mt_text line, struct fence *fence)
{
    size_t at = indentation(line);
    bool tildes = mt_text_has(line, at, "~~~");
    *fence = (struct fence){.mark = tildes ? '~' : '`', .indent = at};
    fence->column = tildes ? at : mt_text_find(line, 0, "```");
    if (fence->column == line.bytes) return false;
    size_t end = fence->column;
    while (end < line.bytes && line.text[end] == fence->mark) end++;
    fence->length = end - fence->column;
    fence->info = mt_text_trimmed(mt_text_from(line, end));
    return true;
}

/* True when a fence opens a block: one in the middle of a sentence has one word behind it at the most. */
static bool opens_block(const struct fence *fence)
{
    if (fence->column == fence->indent) return true;
    for (size_t i = 0; i < fence->info.bytes; i++) {
        if (!isalnum((unsigned char)fence->info.text[i])) return false;
    }
    return true;
}

/*
 * Where the block behind a fence ends, and where the text goes on. A fence that is much deeper than the
 * opening one stands in a docstring, unless there is no other.
 */
static size_t close_of(struct mt_text text, size_t from, const struct fence *open, size_t *behind)
{
    for (int loose = 0; loose < 2; loose++) {
        struct mt_text line;
        struct fence fence;
        size_t at = from;
        while (mt_text_next_line(text, &at, &line)) {
            if (!find_fence(line, &fence) || fence.mark != open->mark || fence.info.bytes > 0) continue;
            bool alone = fence.column == fence.indent;
            bool deep = fence.indent > open->indent + 3;
            if (loose == 0 && (fence.length < open->length || (alone && deep))) continue;
            size_t start = (size_t)(line.text - text.text);
            *behind = at;
            return alone ? start : start + fence.column; // "return x```"
        }
    }
    *behind = text.bytes;
    return text.bytes;
}

/* How far the lines of a block are indented: as its fence, less where a line is, or as a definition that it
 * begins with. */
static size_t strip_of(struct mt_text text, size_t strip)
{
    struct mt_text line;
    size_t at = 0;
    bool first = true;
    while (mt_text_next_line(text, &at, &line)) {
        size_t indent = indentation(line);
        if (mt_text_trimmed(line).bytes == 0) continue;
        if (indent < strip || (first && mt_python_begins(mt_text_from(line, indent)))) strip = indent;
        first = false;
    }
    return strip;
}

static bool is_python(struct mt_text info)
{
    for (size_t i = 0; i + 2 <= info.bytes; i++) {
        if (strncasecmp(info.text + i, "py", 2) == 0) return true;
    }
    return info.bytes == 0;
}

static void find_fenced(struct mt_text text, struct blocks *blocks)
{
    struct mt_text line;
    struct fence fence;
    size_t at = 0;
    while (blocks->count < MOST_BLOCKS && mt_text_next_line(text, &at, &line)) {
        if (!find_fence(line, &fence) || !opens_block(&fence)) continue;
        size_t inner = mt_text_find(fence.info, 0, "```");
        if (inner < fence.info.bytes) { // all in one line
            add_block(blocks, (struct mt_text){.text = fence.info.text, .bytes = inner}, 0, true);
            continue;
        }
        size_t from = at < text.bytes ? at : text.bytes;
        size_t behind = 0;
        size_t end = close_of(text, from, &fence, &behind);
        struct mt_text inside = {.text = text.text + from, .bytes = end - from};
        add_block(blocks, inside, strip_of(inside, fence.indent), is_python(fence.info));
        at = behind;
    }
}

// ------------------------------------------------------------------ lines that look like code

/* True when the triple quotes of a line leave a text open that was closed, or the other way round. */
static bool flips_quotes(struct mt_text line)
{
    bool flips = false;
    for (size_t at = 0; at + 3 <= line.bytes; at++) {
        if (!mt_text_has(line, at, "\"\"\"") && !mt_text_has(line, at, "'''")) continue;
        flips = !flips;
        at += 2;
    }
    return flips;
}

/* Runs of lines as a program has them: from one that looks like code to one that is prose. */
static void find_unfenced(struct mt_text text, struct blocks *blocks)
{
    struct mt_text line;
    size_t at = 0;
    size_t start = 0;
    size_t strip = 0;
    bool inside = false;
    bool quoted = false;
    while (mt_text_next_line(text, &at, &line)) {
        size_t begin = (size_t)(line.text - text.text);
        size_t indent = indentation(line);
        struct mt_text words = mt_text_trimmed(line);
        bool looks = mt_python_looks(words);
        bool goes_on = inside && (quoted || words.bytes == 0 || indent > strip || (indent == strip && looks));
        if (inside && !goes_on)
            add_block(blocks, (struct mt_text){.text = text.text + start, .bytes = begin - start}, strip,
                      true);
        if (!goes_on) quoted = false;
        if (!goes_on && looks) start = begin;
        if (!goes_on && looks) strip = indent;
        inside = goes_on || looks;
        if (inside && flips_quotes(line)) quoted = !quoted;
    }
    if (inside) add_block(blocks, mt_text_from(text, start), strip, true);
}

// ------------------------------------------------------------------ the choice

static enum mt_status add_names(struct mt_name_set *set, const struct block *block, unsigned roles)
{
    return mt_names_collect(set, block->text, block->strip, roles);
}

/* The names that tests want and some block defines; all that are defined, where there are no tests. */
static enum mt_status find_wanted(const struct blocks *blocks, struct mt_text tests, struct mt_name_set *both)
{
    struct mt_name_set asked = {.ctx = both->ctx};
    struct mt_name_set defined = {.ctx = both->ctx};
    enum mt_status status = mt_names_collect(&asked, tests, 0, MT_NAME_USED);
    for (size_t i = 0; i < blocks->count && status == MT_OK; i++) {
        if (blocks->each[i].python) status = add_names(&defined, &blocks->each[i], MT_NAME_DEFINED);
    }
    mt_names_sort(&asked);
    for (size_t i = 0; i < defined.count && status == MT_OK; i++) {
        if (tests.bytes == 0 || mt_names_have(&asked, defined.each[i]))
            status = mt_names_add(both, defined.each[i]);
    }
    mt_names_sort(both);
    mt_names_free(&asked);
    mt_names_free(&defined);
    return status;
}

/* True when the block has a name of `roles` that is in one set and not in the other. */
static enum mt_status has_name(const struct block *block, unsigned roles, const struct mt_name_set *in,
                               const struct mt_name_set *not_in, bool *has)
{
    struct mt_name_set own = {.ctx = in->ctx};
    enum mt_status status = add_names(&own, block, roles);
    *has = false;
    for (size_t i = 0; i < own.count && !*has; i++)
        *has = mt_names_have(in, own.each[i]) && (not_in == NULL || !mt_names_have(not_in, own.each[i]));
    mt_names_free(&own);
    return status;
}

/* Takes, for every wanted name, the last block that defines it. */
static enum mt_status take_wanted(struct blocks *blocks, const struct mt_name_set *wanted)
{
    struct mt_name_set defined = {.ctx = wanted->ctx};
    enum mt_status status = MT_OK;
    for (size_t i = blocks->count; i-- > 0 && status == MT_OK;) {
        struct block *block = &blocks->each[i];
        if (!block->python) continue;
        status = has_name(block, MT_NAME_DEFINED, wanted, &defined, &block->taken);
        if (status == MT_OK && block->taken) status = add_names(&defined, block, MT_NAME_DEFINED);
        mt_names_sort(&defined);
    }
    mt_names_free(&defined);
    return status;
}

/* Takes the last block that defines something; else the last that does not call what was asked for, and so is
 * no example; else the last. */
static enum mt_status take_last(struct blocks *blocks, struct mt_text tests, struct mt_context *ctx)
{
    struct mt_name_set asked = {.ctx = ctx};
    struct block *best = NULL;
    int best_rank = -1;
    enum mt_status status = mt_names_collect(&asked, tests, 0, MT_NAME_USED);
    mt_names_sort(&asked);
    for (size_t i = blocks->count; i-- > 0 && status == MT_OK;) {
        struct block *block = &blocks->each[i];
        struct mt_name_set defined = {.ctx = ctx};
        bool calls = false;
        status = add_names(&defined, block, MT_NAME_DEFINED);
        if (status == MT_OK) status = has_name(block, MT_NAME_USED, &asked, NULL, &calls);
        int rank = !block->python ? 0 : defined.count > 0 ? 3 : !calls ? 2 : 1;
        mt_names_free(&defined);
        if (rank > best_rank) best = block;
        if (rank > best_rank) best_rank = rank;
    }
    if (best != NULL) best->taken = true;
    mt_names_free(&asked);
    return status;
}

/* Takes blocks that have what the taken ones use and lack. Variables only where the block is no example. */
static enum mt_status take_helpers(struct blocks *blocks, const struct mt_name_set *wanted)
{
    struct mt_name_set used = {.ctx = wanted->ctx};
    struct mt_name_set bound = {.ctx = wanted->ctx};
    enum mt_status status = MT_OK;
    for (bool more = true; more && status == MT_OK;) {
        more = false;
        used.count = 0;
        bound.count = 0;
        for (size_t i = 0; i < blocks->count && status == MT_OK; i++) {
            if (!blocks->each[i].taken) continue;
            status = add_names(&used, &blocks->each[i], MT_NAME_USED);
            if (status == MT_OK) status = add_names(&bound, &blocks->each[i], MT_NAME_BOUND);
        }
        mt_names_sort(&used);
        mt_names_sort(&bound);
        for (size_t i = blocks->count; i-- > 0 && !more && status == MT_OK;) {
            struct block *block = &blocks->each[i];
            bool example = false;
            if (block->taken || !block->python) continue;
            status = has_name(block, MT_NAME_USED, wanted, NULL, &example);
            unsigned roles = MT_NAME_DEFINED | MT_NAME_IMPORTED | (example ? 0u : MT_NAME_ASSIGNED);
            if (status == MT_OK) status = has_name(block, roles, &used, &bound, &block->taken);
            more = block->taken;
        }
    }
    mt_names_free(&used);
    mt_names_free(&bound);
    return status;
}

// ------------------------------------------------------------------ the program

/* Appends a block, each line without the white space that the block as a whole is indented by. */
static enum mt_status append_block(const struct block *block, struct mt_byte_list *out)
{
    struct mt_text line;
    enum mt_status status = MT_OK;
    size_t at = 0;
    if (block->strip == 0) return mt_byte_list_append(out, block->text.text, block->text.bytes);
    while (status == MT_OK && mt_text_next_line(block->text, &at, &line)) {
        size_t strip = indentation(line);
        if (strip > block->strip) strip = block->strip;
        status = mt_byte_list_append(out, line.text + strip, line.bytes - strip);
        if (status == MT_OK && at <= block->text.bytes) status = mt_byte_list_append(out, "\n", 1);
    }
    return status;
}

static enum mt_status append_taken(const struct blocks *blocks, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < blocks->count && status == MT_OK; i++) {
        if (!blocks->each[i].taken) continue;
        if (out->count > 0 && out->data[out->count - 1] != '\n') status = mt_byte_list_append(out, "\n", 1);
        if (status == MT_OK) status = append_block(&blocks->each[i], out);
    }
    return status;
}

/* The blocks of a text, and which of the wanted names they define: fenced ones, unless only others do. */
static enum mt_status find_blocks(struct mt_text text, struct mt_text tests, struct blocks *blocks,
                                  struct mt_name_set *wanted)
{
    *blocks = (struct blocks){0};
    find_fenced(text, blocks);
    enum mt_status status = find_wanted(blocks, tests, wanted);
    bool fenced = blocks->count > 0;
    if (status != MT_OK || wanted->count > 0) return status;
    *blocks = (struct blocks){0};
    find_unfenced(text, blocks);
    status = find_wanted(blocks, tests, wanted);
    if (status != MT_OK || wanted->count > 0) return status;
    *blocks = (struct blocks){0};
    if (fenced) find_fenced(text, blocks);
    if (!fenced) add_block(blocks, text, 0, true);
    return MT_OK;
}

enum mt_status mt_code_find(struct mt_text answer, struct mt_text wanted, struct mt_byte_list *out,
                            bool *found)
{
    struct mt_name_set names = {.ctx = out->ctx};
    struct blocks blocks;
    size_t before = out->count;
    enum mt_status status = find_blocks(without_thoughts(answer), wanted, &blocks, &names);
    if (status == MT_OK)
        status = names.count > 0 && wanted.bytes > 0 ? take_wanted(&blocks, &names)
                                                     : take_last(&blocks, wanted, out->ctx);
    if (status == MT_OK) status = take_helpers(&blocks, &names);
    if (status == MT_OK) status = append_taken(&blocks, out);
    mt_names_free(&names);
    *found = status == MT_OK && out->count > before;
    return status;
}
