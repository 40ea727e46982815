/* Statements: {% ... %}, and the text and {{ ... }} between them. */
#include <string.h>

#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

typedef enum mt_status (*statement_fn)(struct jinja_parser *parser, int line, struct jinja_node **node);

static enum mt_status parse_body(struct jinja_parser *parser, const char *const *ends,
                                 struct jinja_node **body);

/* "%}", statements up to one of the names in `ends` (NULL-terminated), which is then the current token. */
static enum mt_status parse_block(struct jinja_parser *parser, const char *const *ends,
                                  struct jinja_node **body)
{
    (void)jinja_skip_operator(parser, ":"); // as in Python
    enum mt_status status = jinja_expect_block_end(parser);
    if (status == MT_OK) status = jinja_enter(parser);
    if (status != MT_OK) return status;
    status = parse_body(parser, ends, body);
    jinja_leave(parser);
    if (status == MT_OK && jinja_current(parser)->kind == JINJA_TOKEN_END) {
        return jinja_parse_fail(parser, MT_ERR_FORMAT, jinja_current(parser)->line,
                                "the template ends where {%% %s %%} is missing", ends[0]);
    }
    return status;
}

/* The same with a single end, which is stepped over. */
static enum mt_status parse_until(struct jinja_parser *parser, const char *end, struct jinja_node **body)
{
    const char *const ends[] = {end, NULL};
    enum mt_status status = parse_block(parser, ends, body);
    if (status == MT_OK) jinja_advance(parser);
    return status;
}

static enum mt_status parse_if(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    struct jinja_node *first = NULL;
    struct jinja_node **place = &first;
    struct jinja_node *chain[JINJA_DEPTH]; // of elif, finished from the last to the first
    size_t count = 0;
    enum mt_status status = MT_OK;
    for (;;) {
        if (count == JINJA_DEPTH)
            return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line, "an if has more than %d branches",
                                    JINJA_DEPTH);
        status = jinja_node_new(parser, JINJA_IF, line, place);
        if (status != MT_OK) return status;
        struct jinja_node *branch = *place;
        chain[count++] = branch;
        status = jinja_parse_tuple(parser, false, NULL, &branch->a);
        if (status == MT_OK) status = parse_block(parser, ends, &branch->b);
        if (status != MT_OK) return status;
        place = &branch->c;
        line = jinja_current(parser)->line;
        if (jinja_skip_name(parser, "elif")) continue;
        if (jinja_skip_name(parser, "else"))
            status = parse_until(parser, "endif", place);
        else
            jinja_advance(parser);
        break;
    }
    while (status == MT_OK && count > 0) status = jinja_node_finish(parser, chain[--count]);
    *node = first;
    return status;
}

static enum mt_status parse_for(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    enum mt_status status = jinja_node_new(parser, JINJA_FOR, line, node);
    if (status != MT_OK) return status;
    struct jinja_node *loop = *node;
    status = jinja_parse_target(parser, "in", false, &loop->a);
    if (status == MT_OK && !jinja_skip_name(parser, "in")) status = jinja_unexpected(parser, "'in'");
    if (status == MT_OK) status = jinja_parse_tuple(parser, false, "recursive", &loop->b);
    if (status == MT_OK && jinja_skip_name(parser, "if"))
        status = jinja_parse_expression(parser, true, &loop->e);
    if (status != MT_OK) return status;
    loop->recursive = jinja_skip_name(parser, "recursive");
    parser->loops++;
    status = parse_block(parser, ends, &loop->c);
    parser->loops--;
    if (status == MT_OK && jinja_skip_name(parser, "else")) {
        status = parse_until(parser, "endfor", &loop->d);
    } else if (status == MT_OK) {
        jinja_advance(parser);
    }
    return status == MT_OK ? jinja_node_finish(parser, loop) : status;
}

static enum mt_status parse_set(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    struct jinja_node *target = NULL;
    enum mt_status status = jinja_parse_target(parser, NULL, true, &target);
    if (status != MT_OK) return status;
    bool assigned = jinja_skip_operator(parser, "=");
    status = jinja_node_new(parser, assigned ? JINJA_SET : JINJA_SET_BLOCK, line, node);
    if (status != MT_OK) return status;
    (*node)->a = target;
    if (assigned) {
        status = jinja_parse_tuple(parser, true, NULL, &(*node)->b);
    } else {
        status = jinja_parse_filters(parser, false, NULL, &(*node)->b);
        if (status == MT_OK) status = parse_until(parser, "endset", &(*node)->c);
    }
    return status == MT_OK ? jinja_node_finish(parser, *node) : status;
}

static enum mt_status parse_with(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    struct jinja_node_list list = {0};
    enum mt_status status = jinja_node_new(parser, JINJA_WITH, line, node);
    while (status == MT_OK && jinja_current(parser)->kind != JINJA_TOKEN_BLOCK_END) {
        struct jinja_node *part = NULL;
        if (list.count > 0) status = jinja_expect_operator(parser, ",");
        if (status == MT_OK) status = jinja_parse_target(parser, NULL, false, &part);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, part);
        if (status == MT_OK) status = jinja_expect_operator(parser, "=");
        if (status == MT_OK) status = jinja_parse_expression(parser, true, &part);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, part);
    }
    if (status == MT_OK) status = parse_until(parser, "endwith", &(*node)->c);
    if (status != MT_OK) return status;
    (*node)->items = list.items;
    (*node)->count = list.count;
    return jinja_node_finish(parser, *node);
}

/* "(a, b = 1)". */
static enum mt_status parse_parameters(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node_list list = {0};
    bool defaults = false;
    enum mt_status status = jinja_expect_operator(parser, "(");
    while (status == MT_OK && !jinja_is_operator(jinja_current(parser), ")")) {
        struct jinja_node *parameter = NULL;
        if (list.count > 0) status = jinja_expect_operator(parser, ",");
        if (status == MT_OK)
            status = jinja_node_new(parser, JINJA_PARAMETER, jinja_current(parser)->line, &parameter);
        if (status == MT_OK) status = jinja_expect_name(parser, &parameter->text);
        if (status != MT_OK) return status;
        if (jinja_skip_operator(parser, "=")) {
            defaults = true;
            status = jinja_parse_expression(parser, true, &parameter->a);
        } else if (defaults) {
            return jinja_parse_fail(parser, MT_ERR_FORMAT, parameter->line,
                                    "a parameter without default follows one with a default");
        }
        if (status == MT_OK) status = jinja_node_finish(parser, parameter);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, parameter);
    }
    if (status != MT_OK) return status;
    jinja_advance(parser);
    node->items = list.items;
    node->count = list.count;
    return MT_OK;
}

/* The body of what is a function to jinja2: break does not reach out of it, and caller is looked for. */
static enum mt_status parse_function(struct jinja_parser *parser, const char *end, struct jinja_node *node)
{
    struct jinja_parser outer = *parser;
    parser->loops = 0;
    parser->names_caller = parser->names_kwargs = parser->names_varargs = false;
    enum mt_status status = parse_until(parser, end, &node->c);
    node->wants_caller = parser->names_caller;
    node->wants_kwargs = parser->names_kwargs;
    node->wants_varargs = parser->names_varargs;
    parser->loops = outer.loops;
    parser->names_caller = outer.names_caller || parser->names_caller;
    parser->names_kwargs = outer.names_kwargs || parser->names_kwargs;
    parser->names_varargs = outer.names_varargs || parser->names_varargs;
    return status == MT_OK ? jinja_node_finish(parser, node) : status;
}

static enum mt_status parse_macro(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    enum mt_status status = jinja_node_new(parser, JINJA_MACRO_DEF, line, node);
    if (status == MT_OK) status = jinja_expect_name(parser, &(*node)->text);
    if (status == MT_OK) status = parse_parameters(parser, *node);
    return status == MT_OK ? parse_function(parser, "endmacro", *node) : status;
}

static enum mt_status parse_call_block(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    enum mt_status status = jinja_node_new(parser, JINJA_CALL_BLOCK, line, node);
    if (status == MT_OK && jinja_is_operator(jinja_current(parser), "("))
        status = parse_parameters(parser, *node);
    if (status == MT_OK) status = jinja_parse_expression(parser, true, &(*node)->a);
    if (status != MT_OK) return status;
    if ((*node)->a->kind != JINJA_CALL)
        return jinja_parse_fail(parser, MT_ERR_FORMAT, line, "a call block needs a call");
    (*node)->text = marked_of("caller");
    return parse_function(parser, "endcall", *node);
}

static enum mt_status parse_filter_block(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    enum mt_status status = jinja_node_new(parser, JINJA_FILTER_BLOCK, line, node);
    if (status == MT_OK) status = jinja_parse_filters(parser, true, NULL, &(*node)->a);
    if (status == MT_OK) status = parse_until(parser, "endfilter", &(*node)->c);
    return status == MT_OK ? jinja_node_finish(parser, *node) : status;
}

static enum mt_status parse_generation(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    enum mt_status status = jinja_node_new(parser, JINJA_GENERATION, line, node);
    parser->has_generation = true;
    return status == MT_OK ? parse_function(parser, "endgeneration", *node) : status;
}

static enum mt_status parse_print(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    struct jinja_node_list list = {0};
    enum mt_status status = jinja_node_new(parser, JINJA_BODY, line, node);
    while (status == MT_OK && jinja_current(parser)->kind != JINJA_TOKEN_BLOCK_END) {
        struct jinja_node *output = NULL;
        if (list.count > 0) status = jinja_expect_operator(parser, ",");
        if (status == MT_OK) status = jinja_node_new(parser, JINJA_OUTPUT, line, &output);
        if (status == MT_OK) status = jinja_parse_expression(parser, true, &output->a);
        if (status == MT_OK) status = jinja_node_finish(parser, output);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, output);
    }
    if (status != MT_OK) return status;
    (*node)->items = list.items;
    (*node)->count = list.count;
    return jinja_node_finish(parser, *node);
}

static enum mt_status parse_break(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    if (parser->loops == 0) return jinja_parse_fail(parser, MT_ERR_FORMAT, line, "break outside of a loop");
    return jinja_node_new(parser, JINJA_BREAK, line, node);
}

static enum mt_status parse_continue(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    if (parser->loops == 0)
        return jinja_parse_fail(parser, MT_ERR_FORMAT, line, "continue outside of a loop");
    return jinja_node_new(parser, JINJA_CONTINUE, line, node);
}

static const struct {
    const char *name;
    statement_fn parse; // NULL: known to jinja2, refused here
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"with", parse_with},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"generation", parse_generation},
    {"print", parse_print},
    {"break", parse_break},
    {"continue", parse_continue},
    {"include", NULL},
    {"import", NULL},
    {"from", NULL},
    {"extends", NULL},
    {"block", NULL},
    {"autoescape", NULL},
};

/* What follows "{%". Inside if, for and the like an unknown filter may never be reached: jinja2 then says
 * nothing. */
static enum mt_status parse_statement(struct jinja_parser *parser, struct jinja_node **node)
{
    const struct jinja_token *token = jinja_current(parser);
    if (token->kind != JINJA_TOKEN_NAME) return jinja_unexpected(parser, "the name of a statement");
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (!jinja_is_name(token, statements[i].name)) continue;
        if (statements[i].parse == NULL) {
            return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, token->line,
                                    "the template uses {%% %s %%}, which metier does not know",
                                    statements[i].name);
        }
        bool soft = statements[i].parse == parse_if;
        jinja_advance(parser);
        parser->conditions += soft;
        enum mt_status status = statements[i].parse(parser, token->line, node);
        parser->conditions -= soft;
        return status == MT_OK ? jinja_expect_block_end(parser) : status;
    }
    return jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "unexpected {%% %.*s %%}",
                            (int)(token->bytes < 64 ? token->bytes : 64), token->text);
}

static bool is_end(const struct jinja_parser *parser, const char *const *ends)
{
    for (size_t i = 0; ends != NULL && ends[i] != NULL; i++) {
        if (jinja_is_name(jinja_current(parser), ends[i])) return true;
    }
    return false;
}

static enum mt_status parse_output(struct jinja_parser *parser, int line, struct jinja_node **node)
{
    enum mt_status status = jinja_node_new(parser, JINJA_OUTPUT, line, node);
    if (status == MT_OK) status = jinja_parse_tuple(parser, true, NULL, &(*node)->a);
    if (status != MT_OK) return status;
    if (jinja_current(parser)->kind != JINJA_TOKEN_VARIABLE_END) return jinja_unexpected(parser, "'}}'");
    jinja_advance(parser);
    return jinja_node_finish(parser, *node);
}

static enum mt_status parse_data(struct jinja_parser *parser, struct jinja_node **node)
{
    const struct jinja_token *token = jinja_current(parser);
    enum mt_status status = jinja_node_new(parser, JINJA_DATA, token->line, node);
    if (status == MT_OK) (*node)->text = (struct mt_marked){token->text, NULL, token->bytes};
    jinja_advance(parser);
    return status;
}

static enum mt_status parse_body(struct jinja_parser *parser, const char *const *ends,
                                 struct jinja_node **body)
{
    struct jinja_node_list list = {0};
    int line = jinja_current(parser)->line;
    enum mt_status status = MT_OK;
    while (status == MT_OK && jinja_current(parser)->kind != JINJA_TOKEN_END) {
        struct jinja_node *node = NULL;
        const struct jinja_token *token = jinja_current(parser);
        if (token->kind == JINJA_TOKEN_DATA) {
            status = parse_data(parser, &node);
        } else if (token->kind == JINJA_TOKEN_VARIABLE_BEGIN) {
            jinja_advance(parser);
            status = parse_output(parser, token->line, &node);
        } else {
            jinja_advance(parser);
            if (is_end(parser, ends)) break;
            status = parse_statement(parser, &node);
        }
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, node);
    }
    if (status == MT_OK) status = jinja_node_new(parser, JINJA_BODY, line, body);
    if (status != MT_OK) return status;
    (*body)->items = list.items;
    (*body)->count = list.count;
    return jinja_node_finish(parser, *body);
}

enum mt_status jinja_parse_template(struct jinja_parser *parser, struct jinja_node **body)
{
    return parse_body(parser, NULL, body);
}
