/* Statements: {% ... %}, and the text and {{ ... }} between them. */
#include <string.h>

#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

static struct jinja_node *parse_body(struct jinja_parser *parser, const char *const *ends);

/* "%}", statements up to one of the names in `ends` (NULL-terminated), which is then the current token. */
static struct jinja_node *parse_block(struct jinja_parser *parser, const char *const *ends)
{
    (void)mt_jinja_skip_operator(parser, ":"); // as in Python
    mt_jinja_expect_end(parser, JINJA_TOKEN_BLOCK_END);
    if (!mt_jinja_enter(parser)) return &parser->nothing;
    struct jinja_node *body = parse_body(parser, ends);
    mt_jinja_leave(parser);
    if (mt_jinja_current(parser)->kind == JINJA_TOKEN_END)
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, mt_jinja_current(parser)->line,
                            "the template ends where {%% %s %%} is missing", ends[0]);
    return body;
}

/* The same with a single end, which is stepped over. */
static struct jinja_node *parse_until(struct jinja_parser *parser, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct jinja_node *body = parse_block(parser, ends);
    mt_jinja_advance(parser);
    return body;
}

static struct jinja_node *parse_if(struct jinja_parser *parser, struct jinja_node *node)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    struct jinja_node *chain[JINJA_DEPTH] = {node}; // of elif, finished from the last to the first
    size_t count = 1;
    for (;;) {
        struct jinja_node *branch = chain[count - 1];
        branch->a = mt_jinja_parse_tuple(parser, false, NULL);
        branch->b = parse_block(parser, ends);
        int line = mt_jinja_current(parser)->line;
        if (!mt_jinja_skip_name(parser, "elif")) break;
        if (count == JINJA_DEPTH) {
            mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line, "an if has more than %d branches",
                                JINJA_DEPTH);
            return node;
        }
        branch->c = chain[count++] = mt_jinja_node_new(parser, JINJA_IF, line);
    }
    if (mt_jinja_skip_name(parser, "else"))
        chain[count - 1]->c = parse_until(parser, "endif");
    else
        mt_jinja_advance(parser);
    while (count > 1) (void)mt_jinja_node_finish(parser, chain[--count]);
    return mt_jinja_node_finish(parser, node);
}

static struct jinja_node *parse_for(struct jinja_parser *parser, struct jinja_node *loop)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    loop->a = mt_jinja_parse_target(parser, "in", false);
    if (!mt_jinja_skip_name(parser, "in")) mt_jinja_unexpected(parser, "'in'");
    loop->b = mt_jinja_parse_tuple(parser, false, "recursive");
    if (mt_jinja_skip_name(parser, "if")) loop->e = mt_jinja_parse_expression(parser, true);
    loop->recursive = mt_jinja_skip_name(parser, "recursive");
    parser->loops++;
    loop->c = parse_block(parser, ends);
    parser->loops--;
    if (mt_jinja_skip_name(parser, "else"))
        loop->d = parse_until(parser, "endfor");
    else
        mt_jinja_advance(parser);
    return mt_jinja_node_finish(parser, loop);
}

static struct jinja_node *parse_set(struct jinja_parser *parser, struct jinja_node *node)
{
    node->a = mt_jinja_parse_target(parser, NULL, true);
    if (mt_jinja_skip_operator(parser, "=")) {
        node->b = mt_jinja_parse_tuple(parser, true, NULL);
    } else {
        node->kind = JINJA_SET_BLOCK;
        node->b = mt_jinja_parse_filters(parser, false, NULL);
        node->c = parse_until(parser, "endset");
    }
    return mt_jinja_node_finish(parser, node);
}

static struct jinja_node *parse_with(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node_list list = {0};
    while (mt_jinja_current(parser)->kind != JINJA_TOKEN_BLOCK_END && !mt_jinja_parse_failed(parser)) {
        if (list.count > 0) mt_jinja_expect_operator(parser, ",");
        mt_jinja_node_list_add(parser, &list, mt_jinja_parse_target(parser, NULL, false));
        mt_jinja_expect_operator(parser, "=");
        mt_jinja_node_list_add(parser, &list, mt_jinja_parse_expression(parser, true));
    }
    node->c = parse_until(parser, "endwith");
    return mt_jinja_node_adopt(parser, node, &list);
}

/* "(a, b = 1)". */
static void parse_parameters(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node_list list = {0};
    bool defaults = false;
    mt_jinja_expect_operator(parser, "(");
    while (!mt_jinja_at_operator(parser, ")") && !mt_jinja_parse_failed(parser)) {
        if (list.count > 0) mt_jinja_expect_operator(parser, ",");
        struct jinja_node *parameter =
            mt_jinja_node_new(parser, JINJA_PARAMETER, mt_jinja_current(parser)->line);
        parameter->text = mt_jinja_expect_name(parser);
        if (mt_jinja_skip_operator(parser, "=")) {
            defaults = true;
            parameter->a = mt_jinja_parse_expression(parser, true);
        } else if (defaults) {
            mt_jinja_parse_fail(parser, MT_ERR_FORMAT, parameter->line,
                                "a parameter without default follows one with a default");
        }
        mt_jinja_node_list_add(parser, &list, mt_jinja_node_finish(parser, parameter));
    }
    mt_jinja_advance(parser);
    node->items = list.items;
    node->count = list.count;
}

/* The body of what is a function to jinja2: break does not reach out of it, and caller is looked for. */
static struct jinja_node *parse_function(struct jinja_parser *parser, const char *end,
                                         struct jinja_node *node)
{
    const bool caller = parser->names_caller;
    const bool kwargs = parser->names_kwargs;
    const bool varargs = parser->names_varargs;
    const int loops = parser->loops;
    parser->loops = 0;
    parser->names_caller = parser->names_kwargs = parser->names_varargs = false;
    node->c = parse_until(parser, end);
    node->wants_caller = parser->names_caller;
    node->wants_kwargs = parser->names_kwargs;
    node->wants_varargs = parser->names_varargs;
    parser->loops = loops;
    parser->names_caller = caller || parser->names_caller;
    parser->names_kwargs = kwargs || parser->names_kwargs;
    parser->names_varargs = varargs || parser->names_varargs;
    return mt_jinja_node_finish(parser, node);
}

static struct jinja_node *parse_macro(struct jinja_parser *parser, struct jinja_node *node)
{
    node->text = mt_jinja_expect_name(parser);
    parse_parameters(parser, node);
    return parse_function(parser, "endmacro", node);
}

static struct jinja_node *parse_call_block(struct jinja_parser *parser, struct jinja_node *node)
{
    if (mt_jinja_at_operator(parser, "(")) parse_parameters(parser, node);
    node->a = mt_jinja_parse_expression(parser, true);
    if (node->a->kind != JINJA_CALL)
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, node->line, "a call block needs a call");
    node->text = marked_of("caller");
    return parse_function(parser, "endcall", node);
}

static struct jinja_node *parse_filter_block(struct jinja_parser *parser, struct jinja_node *node)
{
    node->a = mt_jinja_parse_filters(parser, true, NULL);
    node->c = parse_until(parser, "endfilter");
    return mt_jinja_node_finish(parser, node);
}

static struct jinja_node *parse_generation(struct jinja_parser *parser, struct jinja_node *node)
{
    parser->has_generation = true;
    return parse_function(parser, "endgeneration", node);
}

static struct jinja_node *parse_print(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node_list list = {0};
    while (mt_jinja_current(parser)->kind != JINJA_TOKEN_BLOCK_END && !mt_jinja_parse_failed(parser)) {
        if (list.count > 0) mt_jinja_expect_operator(parser, ",");
        struct jinja_node *output = mt_jinja_node_new(parser, JINJA_OUTPUT, node->line);
        output->a = mt_jinja_parse_expression(parser, true);
        mt_jinja_node_list_add(parser, &list, mt_jinja_node_finish(parser, output));
    }
    return mt_jinja_node_adopt(parser, node, &list);
}

static struct jinja_node *parse_jump(struct jinja_parser *parser, struct jinja_node *node)
{
    if (parser->loops == 0)
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, node->line, "%s outside of a loop",
                            node->kind == JINJA_BREAK ? "break" : "continue");
    return node;
}

static const struct {
    const char *name;
    struct jinja_node *(*parse)(struct jinja_parser *parser,
                                struct jinja_node *node); // NULL: known to jinja2, refused here
    enum jinja_node_kind kind;
} statements[] = {
    {"if", parse_if, JINJA_IF},
    {"for", parse_for, JINJA_FOR},
    {"set", parse_set, JINJA_SET},
    {"with", parse_with, JINJA_WITH},
    {"macro", parse_macro, JINJA_MACRO_DEF},
    {"call", parse_call_block, JINJA_CALL_BLOCK},
    {"filter", parse_filter_block, JINJA_FILTER_BLOCK},
    {"generation", parse_generation, JINJA_GENERATION},
    {"print", parse_print, JINJA_BODY},
    {"break", parse_jump, JINJA_BREAK},
    {"continue", parse_jump, JINJA_CONTINUE},
    {.name = "include"},
    {.name = "import"},
    {.name = "from"},
    {.name = "extends"},
    {.name = "block"},
    {.name = "autoescape"},
};

/* What follows "{%". Inside if, for and the like an unknown filter may never be reached: jinja2 then says
 * nothing. */
static struct jinja_node *parse_statement(struct jinja_parser *parser)
{
    const struct jinja_token *token = mt_jinja_current(parser);
    if (token->kind != JINJA_TOKEN_NAME) mt_jinja_unexpected(parser, "the name of a statement");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!mt_jinja_is_name(token, statements[i].name)) continue;
        if (statements[i].parse == NULL) {
            mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, token->line,
                                "the template uses {%% %s %%}, which metier does not know",
                                statements[i].name);
            return &parser->nothing;
        }
        bool soft = statements[i].kind == JINJA_IF;
        mt_jinja_advance(parser);
        parser->conditions += soft;
        struct jinja_node *node = mt_jinja_node_new(parser, statements[i].kind, token->line);
        node = statements[i].parse(parser, node);
        parser->conditions -= soft;
        mt_jinja_expect_end(parser, JINJA_TOKEN_BLOCK_END);
        return node;
    }
    mt_jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "unexpected {%% %.*s %%}",
                        (int)(token->bytes < 64 ? token->bytes : 64), token->text);
    return &parser->nothing;
}

static bool is_end(const struct jinja_parser *parser, const char *const *ends)
{
    for (size_t i = 0; ends != NULL && ends[i] != NULL; i++) {
        if (mt_jinja_is_name(mt_jinja_current(parser), ends[i])) return true;
    }
    return false;
}

static struct jinja_node *parse_body(struct jinja_parser *parser, const char *const *ends)
{
    struct jinja_node_list list = {0};
    int line = mt_jinja_current(parser)->line;
    while (mt_jinja_current(parser)->kind != JINJA_TOKEN_END) {
        const struct jinja_token *token = mt_jinja_current(parser);
        struct jinja_node *node = NULL;
        mt_jinja_advance(parser);
        if (token->kind == JINJA_TOKEN_DATA) {
            node = mt_jinja_node_new(parser, JINJA_DATA, token->line);
            node->text = (struct mt_marked){token->text, NULL, token->bytes};
        } else if (token->kind == JINJA_TOKEN_VARIABLE_BEGIN) {
            node = mt_jinja_node_new(parser, JINJA_OUTPUT, token->line);
            node->a = mt_jinja_parse_tuple(parser, true, NULL);
            mt_jinja_expect_end(parser, JINJA_TOKEN_VARIABLE_END);
            node = mt_jinja_node_finish(parser, node);
        } else {
            if (is_end(parser, ends)) break;
            node = parse_statement(parser);
        }
        mt_jinja_node_list_add(parser, &list, node);
    }
    return mt_jinja_node_adopt(parser, mt_jinja_node_new(parser, JINJA_BODY, line), &list);
}

struct jinja_node *mt_jinja_parse_template(struct jinja_parser *parser)
{
    return parse_body(parser, NULL);
}
