/*
 * Templates of keys: reading one (KEY = "TEXT", line by line; whatever is not understood is refused with its
 * line), and writing a conversation out with it: which texts stand where, and what is trained on.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/nearest.h"
#include "formats/text/printable.h"
#include "formats/text/utf8.h"
#include "text/template_private.h"

#define KEY_BYTES 64

static const struct {
    const char *name;
    bool required;
} keys[MT_CHAT_TEMPLATE_KEYS] = {
    [MT_KEY_START] = {"start", true},
    [MT_KEY_FINISH] = {"finish", false},
    [MT_KEY_SYSTEM_DEFAULT] = {"system.default", false},
    [MT_KEY_SYSTEM_DEFAULT_WITH_INPUT] = {"system.default_with_input", false},
    [MT_KEY_SYSTEM_BEFORE] = {"system.before", false},
    [MT_KEY_SYSTEM_AFTER] = {"system.after", false},
    [MT_KEY_SYSTEM_JOIN] = {"system.join", false},
    [MT_KEY_USER_BEFORE] = {"user.before", true},
    [MT_KEY_USER_AFTER] = {"user.after", true},
    [MT_KEY_ASSISTANT_PROMPT] = {"assistant.prompt", true},
    [MT_KEY_ASSISTANT_START] = {"assistant.start", false},
    [MT_KEY_ASSISTANT_END] = {"assistant.end", true},
    [MT_KEY_ASSISTANT_AFTER] = {"assistant.after", false},
    [MT_KEY_ASSISTANT_BETWEEN] = {"assistant.between", false},
    [MT_KEY_INPUT_JOIN] = {"input.join", false},
    [MT_KEY_TEXT_END] = {"text.end", false},
    [MT_KEY_TRIM] = {"trim", false},
};

static const struct {
    const char *text;
    enum mt_piece_kind kind;
} marks[] = {
    {"{bos}", MT_PIECE_BOS},
    {"{bos?}", MT_PIECE_BOS_IF_ANY},
    {"{eos}", MT_PIECE_EOS},
    {"{pad}", MT_PIECE_PAD},
};

/* The line being read. */
struct line {
    struct mt_chat_template *template;
    const char *at;
    const char *end;
    int number;
};

static enum mt_status refuse(const struct line *line, const char *problem, const char *word)
{
    return mt_fail(line->template->ctx, MT_ERR_FORMAT, "%s:%d: %s%s", line->template->name, line->number,
                   problem, mt_printable(word).text);
}

static void skip_spaces(struct line *line)
{
    while (line->at < line->end && (*line->at == ' ' || *line->at == '\t')) line->at++;
}

static enum mt_status unknown_key(const struct line *line, const char *word)
{
    int distance = 4;
    const char *nearest = NULL;
    for (int key = 0; key < MT_CHAT_TEMPLATE_KEYS; key++) {
        if (mt_nearer(word, keys[key].name, &distance)) nearest = keys[key].name;
    }
    return mt_fail(line->template->ctx, MT_ERR_FORMAT, "%s:%d: unknown key '%s'%s%s%s", line->template->name,
                   line->number, mt_printable(word).text, nearest != NULL ? "; did you mean '" : "",
                   nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

/* KEY and its equals sign. */
static enum mt_status read_key(struct line *line, enum mt_chat_template_key *key)
{
    char word[KEY_BYTES];
    size_t length = 0;
    while (line->at < line->end && strchr(" \t=", *line->at) == NULL) {
        if (length == sizeof word - 1) return refuse(line, "a key that is too long", "");
        word[length++] = *line->at++;
    }
    word[length] = '\0';
    int found = 0;
    while (found < MT_CHAT_TEMPLATE_KEYS && strcmp(keys[found].name, word) != 0) found++;
    if (found == MT_CHAT_TEMPLATE_KEYS) return unknown_key(line, word);
    skip_spaces(line);
    if (line->at == line->end || *line->at != '=') return refuse(line, "expected '=' after ", word);
    line->at++;
    skip_spaces(line);
    *key = (enum mt_chat_template_key)found;
    if (line->template->texts[found].given) return refuse(line, "a second line for ", word);
    line->template->texts[found].given = true;
    return MT_OK;
}

/* Appends pieces; all of them are trained on, or none. */
static enum mt_status append(struct mt_piece_list *list, const struct mt_piece *pieces, size_t count,
                             bool trained)
{
    enum mt_status status = MT_OK;
    list->data = mt_list_reserve(list->ctx, list->data, &list->capacity, sizeof *list->data,
                                 list->count + count, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        list->data[list->count] = pieces[i];
        list->data[list->count++].trained = trained;
    }
    return status;
}

/* Appends one byte to the piece being written; a new one begins after a mark. The bytes have the room. */
static enum mt_status add_byte(struct mt_chat_template *template, struct mt_chat_template_text *text,
                               char byte)
{
    struct mt_piece_list *pieces = &template->pieces;
    bool fresh = pieces->count == text->first || pieces->data[pieces->count - 1].kind != MT_PIECE_TEMPLATE;
    if (fresh) {
        const struct mt_piece piece = {.kind = MT_PIECE_TEMPLATE,
                                       .text = (const char *)template->bytes.data + template->bytes.count};
        enum mt_status status = append(pieces, &piece, 1, false);
        if (status != MT_OK) return status;
    }
    template->bytes.data[template->bytes.count++] = (uint8_t)byte;
    pieces->data[pieces->count - 1].bytes++;
    return MT_OK;
}

/* A backslash and what follows it. */
static enum mt_status read_escape(struct line *line, struct mt_chat_template_text *text)
{
    char meant = '\0';
    switch (line->at + 1 < line->end ? line->at[1] : '\0') {
    case 'n': meant = '\n'; break;
    case 't': meant = '\t'; break;
    case '"': meant = '"'; break;
    case '\\': meant = '\\'; break;
    default: return refuse(line, "a backslash needs one of n, t, \" and \\ behind it", "");
    }
    line->at += 2;
    return add_byte(line->template, text, meant);
}

/* An opening brace: a mark, or {{. */
static enum mt_status read_mark(struct line *line, struct mt_chat_template_text *text)
{
    size_t left = (size_t)(line->end - line->at);
    if (left >= 2 && line->at[1] == '{') {
        line->at += 2;
        return add_byte(line->template, text, '{');
    }
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t length = strlen(marks[i].text);
        if (left < length || memcmp(line->at, marks[i].text, length) != 0) continue;
        line->at += length;
        const struct mt_piece piece = {.kind = marks[i].kind, .text = ""};
        return append(&line->template->pieces, &piece, 1, false);
    }
    return refuse(line, "a brace must begin {bos}, {bos?}, {eos} or {pad}, or be written {{", "");
}

static enum mt_status read_text(struct line *line, struct mt_chat_template_text *text)
{
    text->first = line->template->pieces.count;
    if (line->at == line->end || *line->at != '"') return refuse(line, "expected a text in quotes", "");
    line->at++;
    enum mt_status status = MT_OK;
    while (status == MT_OK && line->at < line->end && *line->at != '"') {
        if (*line->at == '\\') {
            status = read_escape(line, text);
        } else if (*line->at == '{') {
            status = read_mark(line, text);
        } else {
            status = add_byte(line->template, text, *line->at++);
        }
    }
    if (status != MT_OK) return status;
    if (line->at == line->end) return refuse(line, "the text does not end with a quote", "");
    line->at++;
    text->count = line->template->pieces.count - text->first;
    return MT_OK;
}

static enum mt_status read_yes_or_no(struct line *line, bool *value)
{
    size_t left = (size_t)(line->end - line->at);
    bool yes = left >= 3 && memcmp(line->at, "yes", 3) == 0;
    bool no = left >= 2 && memcmp(line->at, "no", 2) == 0;
    if (!yes && !no) return refuse(line, "expected yes or no", "");
    line->at += yes ? 3 : 2;
    *value = yes;
    return MT_OK;
}

static enum mt_status read_line(struct line *line)
{
    enum mt_chat_template_key key = MT_KEY_START;
    skip_spaces(line);
    if (line->at == line->end || *line->at == '#') return MT_OK;
    enum mt_status status = read_key(line, &key);
    if (status != MT_OK) return status;
    status = key == MT_KEY_TRIM ? read_yes_or_no(line, &line->template->trim)
                                : read_text(line, &line->template->texts[key]);
    if (status != MT_OK) return status;
    skip_spaces(line);
    if (line->at < line->end && *line->at != '#') return refuse(line, "something follows the value", "");
    return MT_OK;
}

static enum mt_status read_lines(struct mt_chat_template *template, const char *text, size_t bytes)
{
    const char *end = text + bytes;
    struct line line = {.template = template, .at = text};
    for (line.number = 1; line.at < end; line.number++) {
        const char *stop = memchr(line.at, '\n', (size_t)(end - line.at));
        const char *next = stop != NULL ? stop + 1 : end;
        line.end = stop != NULL ? stop : end;
        if (line.end > line.at && line.end[-1] == '\r') line.end--;
        enum mt_status status = read_line(&line);
        if (status != MT_OK) return status;
        line.at = next;
    }
    const struct mt_chat_template_text *texts = template->texts;
    for (int key = 0; key < MT_CHAT_TEMPLATE_KEYS; key++) {
        if (!keys[key].required || texts[key].given) continue;
        return mt_fail(template->ctx, MT_ERR_FORMAT, "%s: has no %s", template->name, keys[key].name);
    }
    if (texts[MT_KEY_SYSTEM_BEFORE].given != texts[MT_KEY_SYSTEM_AFTER].given) {
        return mt_fail(template->ctx, MT_ERR_FORMAT, "%s: system.before and system.after need each other",
                       template->name);
    }
    if (texts[MT_KEY_SYSTEM_BEFORE].given && texts[MT_KEY_SYSTEM_JOIN].given) {
        return mt_fail(template->ctx, MT_ERR_FORMAT, "%s: system.join is for templates without system.before",
                       template->name);
    }
    return MT_OK;
}

enum mt_status mt_chat_template_parse(struct mt_context *ctx, const char *name, const char *text,
                                      size_t bytes, struct mt_chat_template **template)
{
    *template = NULL;
    if (bytes > MT_TEMPLATE_KEYS_BYTES || !mt_utf8_valid((const uint8_t *)text, bytes)) {
        return mt_fail(ctx, MT_ERR_FORMAT, "%s: a template is UTF-8 text of at most %d bytes", name,
                       MT_TEMPLATE_KEYS_BYTES);
    }
    struct mt_chat_template *made = NULL;
    enum mt_status status = mt_chat_template_create(ctx, name, &made);
    // Texts are never longer than the file: with the room made now, no piece's text moves later.
    if (status == MT_OK) status = mt_byte_list_reserve(&made->bytes, bytes + 1);
    if (status == MT_OK) status = mt_byte_list_append(&made->source, text, bytes);
    if (status == MT_OK) status = mt_byte_list_append(&made->source, "", 1);
    if (status == MT_OK) status = read_lines(made, text, bytes);
    if (status != MT_OK) {
        mt_chat_template_free(made);
        return status;
    }
    *template = made;
    return MT_OK;
}

// ------------------------------------------------------------------ rendering

void mt_piece_list_free(struct mt_piece_list *pieces)
{
    mt_release(pieces->ctx, pieces->data, pieces->capacity * sizeof *pieces->data);
    *pieces = (struct mt_piece_list){.ctx = pieces->ctx};
}

/* A rendering under way; after a failure the rest does nothing. */
struct rendering {
    const struct mt_chat_template *template;
    struct mt_piece_list *pieces;
    enum mt_status status;
};

static void add_pieces(struct rendering *r, const struct mt_piece *pieces, size_t count, bool trained)
{
    if (r->status == MT_OK && count > 0) r->status = append(r->pieces, pieces, count, trained);
}

/* What the template says for a key; nothing when it does not. */
static void add_key(struct rendering *r, enum mt_chat_template_key key, bool trained)
{
    const struct mt_chat_template_text *text = &r->template->texts[key];
    if (text->given) add_pieces(r, r->template->pieces.data + text->first, text->count, trained);
}

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* What a message says, trimmed where the template wants that. */
static void add_content(struct rendering *r, const char *text, size_t bytes, bool trained)
{
    if (r->template->trim) {
        while (bytes > 0 && is_space(text[bytes - 1])) bytes--;
        while (bytes > 0 && is_space(text[0])) {
            text++;
            bytes--;
        }
    }
    const struct mt_piece piece = {.kind = MT_PIECE_CONTENT, .text = text, .bytes = bytes};
    if (bytes > 0) add_pieces(r, &piece, 1, trained);
}

/* The system message of a conversation that brings none. */
static void add_default_system(struct rendering *r, const struct mt_turn *turns, size_t count)
{
    enum mt_chat_template_key key = MT_KEY_SYSTEM_DEFAULT;
    bool with_input = count > 0 && turns[0].role == MT_ROLE_USER && turns[0].input != NULL;
    if (with_input && r->template->texts[MT_KEY_SYSTEM_DEFAULT_WITH_INPUT].given) {
        key = MT_KEY_SYSTEM_DEFAULT_WITH_INPUT;
    }
    if (!r->template->texts[key].given) return;
    add_key(r, MT_KEY_SYSTEM_BEFORE, false);
    add_key(r, key, false);
    add_key(r, MT_KEY_SYSTEM_AFTER, false);
}

static void add_user(struct rendering *r, const struct mt_turn *turn, const struct mt_turn *joined_system)
{
    add_key(r, MT_KEY_USER_BEFORE, false);
    if (joined_system != NULL) {
        add_content(r, joined_system->text, joined_system->bytes, false);
        add_key(r, MT_KEY_SYSTEM_JOIN, false);
    }
    add_content(r, turn->text, turn->bytes, false);
    if (turn->input != NULL) {
        add_key(r, MT_KEY_INPUT_JOIN, false);
        add_content(r, turn->input, turn->input_bytes, false);
    }
    add_key(r, MT_KEY_USER_AFTER, false);
}

static void add_assistant(struct rendering *r, const struct mt_turn *turn, bool last)
{
    bool trained = !turn->context;
    add_key(r, MT_KEY_ASSISTANT_PROMPT, false);
    add_key(r, MT_KEY_ASSISTANT_START, trained);
    add_content(r, turn->text, turn->bytes, trained);
    add_key(r, MT_KEY_ASSISTANT_END, trained);
    add_key(r, MT_KEY_ASSISTANT_AFTER, false);
    if (!last) add_key(r, MT_KEY_ASSISTANT_BETWEEN, false);
}

enum mt_status mt_chat_template_render(const struct mt_chat_template *template, const struct mt_turn *turns,
                                       size_t count, bool generate, struct mt_piece_list *pieces)
{
    struct rendering r = {.template = template, .pieces = pieces};
    const struct mt_turn *joined_system = NULL; // waits for the user's message it is put in front of
    add_key(&r, MT_KEY_START, false);
    if (count == 0 || turns[0].role != MT_ROLE_SYSTEM) add_default_system(&r, turns, count);
    for (size_t i = 0; i < count && r.status == MT_OK; i++) {
        const struct mt_turn *turn = &turns[i];
        bool last = i + 1 == count && !generate;
        if (turn->calls || turn->role == MT_ROLE_TOOL) {
            return mt_fail(pieces->ctx, MT_ERR_USAGE, "%s has no place for %s", template->name,
                           turn->calls ? "calls of tools" : "answers of tools");
        }
        if (turn->role == MT_ROLE_USER) {
            add_user(&r, turn, joined_system);
            joined_system = NULL;
        } else if (turn->role == MT_ROLE_ASSISTANT) {
            add_assistant(&r, turn, last);
        } else if (template->texts[MT_KEY_SYSTEM_BEFORE].given) {
            add_key(&r, MT_KEY_SYSTEM_BEFORE, false);
            add_content(&r, turn->text, turn->bytes, false);
            add_key(&r, MT_KEY_SYSTEM_AFTER, false);
        } else if (template->texts[MT_KEY_SYSTEM_JOIN].given && i + 1 < count &&
                   turns[i + 1].role == MT_ROLE_USER) {
            joined_system = turn;
        } else {
            return mt_fail(pieces->ctx, MT_ERR_USAGE, "%s has no place for this system message",
                           template->name);
        }
    }
    add_key(&r, generate ? MT_KEY_ASSISTANT_PROMPT : MT_KEY_FINISH, false);
    return r.status;
}

enum mt_status mt_chat_template_render_text(const struct mt_chat_template *template, const char *text,
                                            size_t bytes, struct mt_piece_list *pieces)
{
    const struct mt_piece content = {.kind = MT_PIECE_CONTENT, .text = text, .bytes = bytes};
    const struct mt_piece eos = {.kind = MT_PIECE_EOS, .text = ""};
    struct rendering r = {.template = template, .pieces = pieces};
    add_key(&r, MT_KEY_START, false);
    add_pieces(&r, &content, bytes > 0 ? 1 : 0, true);
    if (template->texts[MT_KEY_TEXT_END].given) {
        add_key(&r, MT_KEY_TEXT_END, true);
    } else {
        add_pieces(&r, &eos, 1, true);
    }
    return r.status;
}
