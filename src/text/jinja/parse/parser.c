/* What the parsing of expressions and of statements share: tokens, nodes, limits, messages. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

enum mt_status jinja_parse_fail(const struct jinja_parser *parser, enum mt_status status, int line,
                                const char *format, ...)
{
    char message[MT_MESSAGE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return mt_fail(parser->ctx, status, "%s, line %d: %s", parser->name, line, message);
}

const struct jinja_token *jinja_current(const struct jinja_parser *parser)
{
    return &parser->tokens.data[parser->at];
}

const struct jinja_token *jinja_ahead(const struct jinja_parser *parser)
{
    bool last = parser->at + 1 == parser->tokens.count;
    return &parser->tokens.data[parser->at + (last ? 0 : 1)];
}

void jinja_advance(struct jinja_parser *parser)
{
    if (parser->at + 1 < parser->tokens.count) parser->at++;
}

static bool is_text(const struct jinja_token *token, const char *text)
{
    return token->bytes == strlen(text) && memcmp(token->text, text, token->bytes) == 0;
}

bool jinja_is_operator(const struct jinja_token *token, const char *text)
{
    return token->kind == JINJA_TOKEN_OPERATOR && is_text(token, text);
}

bool jinja_is_name(const struct jinja_token *token, const char *text)
{
    return token->kind == JINJA_TOKEN_NAME && is_text(token, text);
}

bool jinja_skip_operator(struct jinja_parser *parser, const char *text)
{
    bool there = jinja_is_operator(jinja_current(parser), text);
    if (there) jinja_advance(parser);
    return there;
}

bool jinja_skip_name(struct jinja_parser *parser, const char *text)
{
    bool there = jinja_is_name(jinja_current(parser), text);
    if (there) jinja_advance(parser);
    return there;
}

enum mt_status jinja_unexpected(const struct jinja_parser *parser, const char *expected)
{
    static const char *const kinds[] = {
        [JINJA_TOKEN_END] = "the end of the template",
        [JINJA_TOKEN_DATA] = "text",
        [JINJA_TOKEN_BLOCK_BEGIN] = "'{%'",
        [JINJA_TOKEN_BLOCK_END] = "'%}'",
        [JINJA_TOKEN_VARIABLE_BEGIN] = "'{{'",
        [JINJA_TOKEN_VARIABLE_END] = "'}}'",
        [JINJA_TOKEN_STRING] = "a string",
        [JINJA_TOKEN_INTEGER] = "a number",
        [JINJA_TOKEN_REAL] = "a number",
    };
    const struct jinja_token *token = jinja_current(parser);
    if (token->kind == JINJA_TOKEN_NAME || token->kind == JINJA_TOKEN_OPERATOR) {
        return jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "expected %s, got '%.*s'", expected,
                                (int)(token->bytes < 64 ? token->bytes : 64), token->text);
    }
    return jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "expected %s, got %s", expected,
                            kinds[token->kind]);
}

enum mt_status jinja_expect_operator(struct jinja_parser *parser, const char *text)
{
    char quoted[8];
    if (jinja_skip_operator(parser, text)) return MT_OK;
    (void)snprintf(quoted, sizeof quoted, "'%s'", text);
    return jinja_unexpected(parser, quoted);
}

enum mt_status jinja_expect_name(struct jinja_parser *parser, struct mt_marked *name)
{
    const struct jinja_token *token = jinja_current(parser);
    if (token->kind != JINJA_TOKEN_NAME) return jinja_unexpected(parser, "a name");
    *name = (struct mt_marked){token->text, NULL, token->bytes};
    jinja_advance(parser);
    return MT_OK;
}

enum mt_status jinja_expect_block_end(struct jinja_parser *parser)
{
    if (jinja_current(parser)->kind != JINJA_TOKEN_BLOCK_END) return jinja_unexpected(parser, "'%}'");
    jinja_advance(parser);
    return MT_OK;
}

enum mt_status jinja_enter(struct jinja_parser *parser)
{
    if (parser->depth == JINJA_DEPTH) {
        return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, jinja_current(parser)->line,
                                "the template is nested deeper than %d", JINJA_DEPTH);
    }
    parser->depth++;
    return MT_OK;
}

void jinja_leave(struct jinja_parser *parser)
{
    parser->depth--;
}

enum mt_status jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind, int line,
                              struct jinja_node **node)
{
    void *memory = NULL;
    if (parser->nodes == JINJA_NODES) {
        return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line, "the template has more than %d parts",
                                JINJA_NODES);
    }
    parser->nodes++;
    enum mt_status status = mt_arena_allocate(parser->arena, sizeof **node, &memory);
    if (status != MT_OK) return status;
    *node = memory;
    (*node)->kind = kind;
    (*node)->line = line;
    (*node)->height = 1;
    return MT_OK;
}

enum mt_status jinja_node_finish(struct jinja_parser *parser, struct jinja_node *node)
{
    const struct jinja_node *parts[] = {node->a, node->b, node->c, node->d, node->e};
    int highest = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i] != NULL && parts[i]->height > highest) highest = parts[i]->height;
    }
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->height > highest) highest = node->items[i]->height;
    }
    node->height = highest + 1;
    if (node->height <= JINJA_HEIGHT) return MT_OK;
    return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, node->line,
                            "an expression or block is longer or deeper than %d parts", JINJA_HEIGHT);
}

enum mt_status jinja_node_list_add(struct jinja_parser *parser, struct jinja_node_list *list,
                                   struct jinja_node *node)
{
    void *items = list->items;
    enum mt_status status = jinja_arena_grow(parser->arena, &items, &list->capacity,
                                             sizeof(struct jinja_node *), list->count + 1);
    if (status != MT_OK) return status;
    list->items = items;
    list->items[list->count++] = node;
    return MT_OK;
}

static enum mt_status parse(struct mt_jinja *template, const char *text, size_t bytes)
{
    struct jinja_parser parser = {.ctx = template->ctx, .arena = &template->arena, .name = template->name};
    struct jinja_node *body = NULL;
    enum mt_status status = jinja_lex(&parser, text, bytes);
    if (status == MT_OK) status = jinja_parse_template(&parser, &body);
    template->body = body;
    template->has_generation = parser.has_generation;
    template->mentioned = parser.mentioned;
    template->mentioned_count = parser.mentioned_count;
    return status;
}

enum mt_status mt_jinja_parse(struct mt_context *ctx, const char *name, const char *text, size_t bytes,
                              struct mt_jinja **template)
{
    void *memory = NULL;
    char *copy = NULL;
    *template = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **template, &memory);
    if (status != MT_OK) return status;
    struct mt_jinja *made = memory;
    made->ctx = ctx;
    mt_arena_init(&made->arena, ctx, (size_t)16 << 10);
    status = mt_arena_copy_text(&made->arena, name, strlen(name), &copy);
    made->name = copy;
    if (status == MT_OK) status = parse(made, text, bytes);
    if (status != MT_OK) {
        mt_jinja_free(made);
        return status;
    }
    *template = made;
    return MT_OK;
}

void mt_jinja_free(struct mt_jinja *template)
{
    if (template == NULL) return;
    mt_arena_free(&template->arena);
    mt_release(template->ctx, template, sizeof *template);
}

bool mt_jinja_has_generation(const struct mt_jinja *template)
{
    return template->has_generation;
}

bool mt_jinja_mentions(const struct mt_jinja *template, const char *variable)
{
    for (size_t i = 0; i < template->mentioned_count; i++) {
        if (marked_is(template->mentioned[i], variable)) return true;
    }
    return false;
}
