/* The file of forms: parts put into patterns, patterns compiled. */
#include "eval/answers/forms.h"

#include <ctype.h>

#include "base/arena.h"
#include "formats/keys/keys.h"
#include "formats/text/printable.h"
#include "formats/text/yaml.h"

#define ARENA_BYTES  ((size_t)32 << 10)
#define MOST_DEPTH   16 // of parts in parts
#define MOST_PATTERN ((size_t)256 << 10)

static const char *const kinds[MT_STATE_KINDS] = {"letter", "word", "text"};

struct reader {
    struct mt_context *ctx;
    const char *file;
    const struct mt_yaml_node *root;
    const char *const *words;
    struct mt_byte_list pattern; // in the making
};

static enum mt_status refuse(const struct reader *reader, const struct mt_yaml_node *node, const char *what,
                             const char *name)
{
    return mt_fail(reader->ctx, MT_ERR_FORMAT, "%s:%d: %s '%s'", reader->file, node->line, what,
                   mt_printable(name).text);
}

static const struct mt_yaml_node *member(const struct mt_yaml_node *map, const char *name)
{
    const struct mt_yaml_node *child = map != NULL && map->kind == MT_YAML_MAP ? map->first : NULL;
    while (child != NULL && strcmp(child->key, name) != 0) child = child->next;
    return child;
}

// ------------------------------------------------------------------ patterns

/* Appends "(?i:yes|no)", what is special in a pattern escaped. */
static enum mt_status append_words(const struct reader *reader, struct mt_byte_list *out)
{
    enum mt_status status = mt_byte_list_append_text(out, "(?i:");
    for (size_t i = 0; reader->words != NULL && reader->words[i] != NULL && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(out, "|");
        for (const char *at = reader->words[i]; *at != '\0' && *at != '=' && status == MT_OK; at++) {
            bool plain = isalnum((unsigned char)*at) || (unsigned char)*at >= 128;
            if (!plain) status = mt_byte_list_append_text(out, "\\");
            if (status == MT_OK) status = mt_byte_list_append(out, at, 1);
        }
    }
    return status == MT_OK ? mt_byte_list_append_text(out, ")(?![A-Za-z0-9_])") : status;
}

/* Appends the text of a node with parts in the place of their names. */
static enum mt_status append(struct reader *reader, const struct mt_yaml_node *node, int depth)
{
    if (node == NULL) return MT_OK;
    if (node->kind != MT_YAML_SCALAR) return refuse(reader, node, "no pattern:", node->key);
    enum mt_status status = MT_OK;
    struct mt_text rest = mt_text_of(node->text);
    while (status == MT_OK && rest.bytes > 0) {
        char name[64];
        size_t at = mt_text_find(rest, 0, "{{");
        while (mt_text_has(rest, at, "{{{")) at++; // a brace of the pattern's own before it
        status = mt_byte_list_append(&reader->pattern, rest.text, at);
        if (at == rest.bytes || status != MT_OK) return status;
        size_t end = mt_text_find(rest, at, "}}");
        size_t length = end - at - 2;
        if (end == rest.bytes || length >= sizeof name)
            return refuse(reader, node, "an open {{ in", node->key);
        memcpy(name, rest.text + at + 2, length);
        name[length] = '\0';
        rest = mt_text_from(rest, end + 2);
        const struct mt_yaml_node *part = member(member(reader->root, "parts"), name);
        if (strcmp(name, "words") == 0) {
            status = append_words(reader, &reader->pattern);
        } else if (part == NULL) {
            return refuse(reader, node, "there is no part", name);
        } else if (depth == MOST_DEPTH || reader->pattern.count > MOST_PATTERN) {
            return refuse(reader, node, "parts without end:", name);
        } else {
            status = append(reader, part, depth + 1);
        }
    }
    return status;
}

/* The pattern that has been made; a failure names the place it is from. */
static enum mt_status compile(struct reader *reader, const struct mt_yaml_node *node,
                              struct mt_pattern **pattern)
{
    enum mt_status status = mt_byte_list_append(&reader->pattern, "", 1);
    if (status == MT_OK) status = mt_pattern_create(reader->ctx, (const char *)reader->pattern.data, pattern);
    reader->pattern.count = 0;
    if (status == MT_OK || status == MT_ERR_MEMORY) return status;
    return mt_fail_within(reader->ctx, MT_ERR_FORMAT, "%s:%d", reader->file, node->line);
}

// ------------------------------------------------------------------ forms

/* A value of a form that is one of some names; NULL: it is not given. */
static enum mt_status check_name(const struct reader *reader, const struct mt_yaml_node *form,
                                 const char *key, const char *names, const char **value)
{
    const struct mt_yaml_node *node = member(form, key);
    *value = NULL;
    if (node == NULL) return MT_OK;
    if (node->kind != MT_YAML_SCALAR || mt_key_place_of_word(names, node->text) < 0)
        return refuse(reader, node, "expected one of", names);
    *value = node->text;
    return MT_OK;
}

/* True for a form of a kind. */
static bool is_for(const struct mt_yaml_node *form, const char *kind)
{
    const struct mt_yaml_node *list = member(form, "for");
    for (const struct mt_yaml_node *one = list != NULL ? list->first : NULL; one != NULL; one = one->next) {
        if (one->kind == MT_YAML_SCALAR && strcmp(one->text, kind) == 0) return true;
    }
    return false;
}

static enum mt_status read_form(struct reader *reader, const struct mt_yaml_node *node,
                                enum mt_statement_kind kind, struct mt_forms *forms)
{
    static const char *const keys[] = {"rank", "for", "value", "before", "after", "only"};
    const char *rank = NULL;
    const char *letter = NULL;
    const char *only = NULL;
    if (node->kind != MT_YAML_MAP)
        return refuse(reader, node, "a form is a map of", "rank, for, before, after");
    for (const struct mt_yaml_node *child = node->first; child != NULL; child = child->next) {
        if (mt_name_place(keys, 6, child->key) == 6)
            return refuse(reader, child, "a form has no key", child->key);
    }
    enum mt_status status = check_name(reader, node, "rank", "0|1|2|3|4", &rank);
    if (status == MT_OK) status = check_name(reader, node, "value", "any|capitals|capital", &letter);
    if (status == MT_OK) status = check_name(reader, node, "only", "corrects|once", &only);
    if (status != MT_OK) return status;
    if (rank == NULL) return refuse(reader, node, "a form lacks its", "rank");
    if (!is_for(node, kinds[kind])) return MT_OK;
    if (forms->count == MT_FORMS_MOST) return refuse(reader, node, "too many forms of", kinds[kind]);
    const char *name = kind == MT_STATE_LETTER ? letter : kinds[kind];
    const struct mt_yaml_node *value = name != NULL ? member(member(reader->root, "values"), name) : NULL;
    if (value == NULL) return refuse(reader, node, "there is no value for", kinds[kind]);
    struct mt_form *form = &forms->each[forms->count++];
    *form = (struct mt_form){.rank = rank[0] - '0',
                             .corrects = only != NULL && strcmp(only, "corrects") == 0,
                             .once = only != NULL && strcmp(only, "once") == 0};
    status = append(reader, member(node, "before"), 0);
    if (status == MT_OK) status = append(reader, value, 0);
    if (status == MT_OK) status = mt_byte_list_append_text(&reader->pattern, "(?:");
    if (status == MT_OK) status = append(reader, member(node, "after"), 0);
    if (status == MT_OK) status = mt_byte_list_append_text(&reader->pattern, ")");
    return status == MT_OK ? compile(reader, node, &form->pattern) : status;
}

static enum mt_status read_all(struct reader *reader, enum mt_statement_kind kind, struct mt_forms *forms)
{
    static const char *const sections[] = {"parts", "values", "denials", "forms"};
    for (const struct mt_yaml_node *child = reader->root->first; child != NULL; child = child->next) {
        if (mt_name_place(sections, 4, child->key) == 4)
            return refuse(reader, child, "there is no section", child->key);
    }
    const struct mt_yaml_node *denial = member(member(reader->root, "denials"), kinds[kind]);
    const struct mt_yaml_node *list = member(reader->root, "forms");
    enum mt_status status = append(reader, denial, 0);
    if (status == MT_OK && denial != NULL) status = compile(reader, denial, &forms->denial);
    if (status != MT_OK) return status;
    if (list == NULL || list->kind != MT_YAML_LIST)
        return refuse(reader, reader->root, "there is no list of", "forms");
    for (const struct mt_yaml_node *node = list->first; node != NULL && status == MT_OK; node = node->next)
        status = read_form(reader, node, kind, forms);
    return status;
}

enum mt_status mt_forms_read(struct mt_context *ctx, const char *file, struct mt_text text,
                             enum mt_statement_kind kind, const char *const *words, struct mt_forms *forms)
{
    struct mt_arena arena;
    struct mt_yaml_node *root = NULL;
    *forms = (struct mt_forms){0};
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status =
        mt_yaml_parse(ctx, file, text.text, text.bytes, &mt_yaml_file_limits, &arena, &root);
    if (status == MT_OK && root->kind != MT_YAML_MAP)
        status = mt_fail(ctx, MT_ERR_FORMAT, "%s:%d: forms are a map", file, root->line);
    struct reader reader = {.ctx = ctx, .file = file, .root = root, .words = words, .pattern = {.ctx = ctx}};
    if (status == MT_OK) status = read_all(&reader, kind, forms);
    mt_byte_list_free(&reader.pattern);
    mt_arena_free(&arena);
    return status;
}

enum mt_status mt_forms_open(struct mt_context *ctx, enum mt_statement_kind kind, const char *const *words,
                             struct mt_forms *forms)
{
    return mt_forms_read(ctx, "share/answers/forms.yaml", mt_text_of(mt_answer_forms), kind, words, forms);
}

void mt_forms_free(struct mt_forms *forms)
{
    for (size_t i = 0; i < forms->count; i++) mt_pattern_free(forms->each[i].pattern);
    mt_pattern_free(forms->denial);
    *forms = (struct mt_forms){0};
}

enum mt_status mt_forms_status(const struct mt_forms *forms)
{
    enum mt_status status = forms->denial != NULL ? mt_pattern_status(forms->denial) : MT_OK;
    for (size_t i = 0; i < forms->count && status == MT_OK; i++)
        status = mt_pattern_status(forms->each[i].pattern);
    return status;
}
