/* What the parsing of expressions and of statements share: tokens, nodes, limits, messages. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

bool mt_jinja_parse_check(struct jinja_parser *parser, enum mt_status status)
{
    if (status == MT_OK) return true;
    parser->status = status;
    if (parser->tokens.count > 0) parser->at = parser->tokens.count - 1;
    return false;
}

void mt_jinja_parse_fail(struct jinja_parser *parser, enum mt_status status, int line, const char *format,
                         ...)
{
    char message[MT_MESSAGE_BYTES / 2];
    va_list arguments;
    if (mt_jinja_parse_failed(parser)) return;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    status = mt_fail(parser->ctx, status, "%s, line %d: %s", parser->name, line, message);
    (void)mt_jinja_parse_check(parser, status);
}

const struct jinja_token *mt_jinja_current(const struct jinja_parser *parser)
{
    return &parser->tokens.data[parser->at];
}

const struct jinja_token *mt_jinja_ahead(const struct jinja_parser *parser)
{
    bool last = parser->at + 1 == parser->tokens.count;
    return &parser->tokens.data[parser->at + (last ? 0 : 1)];
}

void mt_jinja_advance(struct jinja_parser *parser)
{
    if (parser->at + 1 < parser->tokens.count) parser->at++;
}

static bool is_text(const struct jinja_token *token, const char *text)
{
    return token->bytes == strlen(text) && memcmp(token->text, text, token->bytes) == 0;
}

bool mt_jinja_is_operator(const struct jinja_token *token, const char *text)
{
    return token->kind == JINJA_TOKEN_OPERATOR && is_text(token, text);
}

bool mt_jinja_is_name(const struct jinja_token *token, const char *text)
{
    return token->kind == JINJA_TOKEN_NAME && is_text(token, text);
}

bool mt_jinja_at_operator(const struct jinja_parser *parser, const char *text)
{
    return mt_jinja_is_operator(mt_jinja_current(parser), text);
}

bool mt_jinja_skip_operator(struct jinja_parser *parser, const char *text)
{
    bool there = mt_jinja_at_operator(parser, text);
    if (there) mt_jinja_advance(parser);
    return there;
}

bool mt_jinja_skip_name(struct jinja_parser *parser, const char *text)
{
    bool there = mt_jinja_is_name(mt_jinja_current(parser), text);
    if (there) mt_jinja_advance(parser);
    return there;
}

void mt_jinja_unexpected(struct jinja_parser *parser, const char *expected)
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
    const struct jinja_token *token = mt_jinja_current(parser);
    if (token->kind == JINJA_TOKEN_NAME || token->kind == JINJA_TOKEN_OPERATOR)
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "expected %s, got '%.*s'", expected,
                            (int)(token->bytes < 64 ? token->bytes : 64), token->text);
    else
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "expected %s, got %s", expected,
                            kinds[token->kind]);
}

void mt_jinja_expect_operator(struct jinja_parser *parser, const char *text)
{
    char quoted[8];
    (void)snprintf(quoted, sizeof quoted, "'%s'", text);
    if (!mt_jinja_skip_operator(parser, text)) mt_jinja_unexpected(parser, quoted);
}

struct mt_marked mt_jinja_expect_name(struct jinja_parser *parser)
{
    const struct jinja_token *token = mt_jinja_current(parser);
    if (token->kind != JINJA_TOKEN_NAME) {
        mt_jinja_unexpected(parser, "a name");
        return marked_of("");
    }
    mt_jinja_advance(parser);
    return (struct mt_marked){token->text, NULL, token->bytes};
}

void mt_jinja_expect_end(struct jinja_parser *parser, enum jinja_token_kind kind)
{
    if (mt_jinja_current(parser)->kind == kind)
        mt_jinja_advance(parser);
    else
        mt_jinja_unexpected(parser, kind == JINJA_TOKEN_BLOCK_END ? "'%}'" : "'}}'");
}

bool mt_jinja_enter(struct jinja_parser *parser)
{
    if (parser->depth == JINJA_DEPTH)
        mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, mt_jinja_current(parser)->line,
                            "the template is nested deeper than %d", JINJA_DEPTH);
    if (mt_jinja_parse_failed(parser)) return false;
    parser->depth++;
    return true;
}

void mt_jinja_leave(struct jinja_parser *parser)
{
    parser->depth--;
}

struct jinja_node *mt_jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind, int line)
{
    enum mt_status status = MT_OK;
    if (parser->nodes == JINJA_NODES)
        mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line, "the template has more than %d parts",
                            JINJA_NODES);
    if (mt_jinja_parse_failed(parser)) return &parser->nothing;
    parser->nodes++;
    struct jinja_node *node = mt_arena_array(parser->arena, 1, sizeof *node, &status);
    if (!mt_jinja_parse_check(parser, status)) return &parser->nothing;
    *node = (struct jinja_node){.kind = kind, .line = line, .height = 1};
    return node;
}

struct jinja_node *mt_jinja_node_finish(struct jinja_parser *parser, struct jinja_node *node)
{
    const struct jinja_node *parts[] = {node->a, node->b, node->c, node->d, node->e};
    int highest = 0;
    if (mt_jinja_parse_failed(parser)) return node;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i] != NULL && parts[i]->height > highest) highest = parts[i]->height;
    }
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->height > highest) highest = node->items[i]->height;
    }
    node->height = highest + 1;
    if (node->height > JINJA_HEIGHT)
        mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, node->line,
                            "an expression or block is longer or deeper than %d parts", JINJA_HEIGHT);
    return node;
}

void mt_jinja_node_list_add(struct jinja_parser *parser, struct jinja_node_list *list,
                            struct jinja_node *node)
{
    void *items = list->items;
    if (mt_jinja_parse_failed(parser)) return;
    enum mt_status status =
        mt_jinja_arena_grow(parser->arena, &items, &list->capacity, sizeof(void *), list->count + 1);
    if (!mt_jinja_parse_check(parser, status)) return;
    list->items = items;
    list->items[list->count++] = node;
}

struct jinja_node *mt_jinja_node_adopt(struct jinja_parser *parser, struct jinja_node *node,
                                       const struct jinja_node_list *list)
{
    node->items = list->items;
    node->count = list->count;
    return mt_jinja_node_finish(parser, node);
}

static enum mt_status parse(struct mt_jinja *template, const char *text, size_t bytes)
{
    struct jinja_parser parser = {.ctx = template->ctx, .arena = &template->arena, .name = template->name};
    mt_jinja_lex(&parser, text, bytes);
    if (!mt_jinja_parse_failed(&parser)) template->body = mt_jinja_parse_template(&parser);
    template->has_generation = parser.has_generation;
    return parser.status;
}

enum mt_status mt_jinja_parse(struct mt_context *ctx, const char *name, const char *text, size_t bytes,
                              struct mt_jinja **template)
{
    void *memory = NULL;
    *template = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **template, &memory);
    if (status != MT_OK) return status;
    struct mt_jinja *made = memory;
    made->ctx = ctx;
    mt_arena_init(&made->arena, ctx, (size_t)16 << 10);
    status = mt_arena_copy_text(&made->arena, name, strlen(name), &made->name);
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
