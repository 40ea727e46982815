/*
 * Expressions, by precedence as in jinja2:
 * condition, or, and, not, comparison, + -, ~, * / // %, **, sign, then what follows a primary: .x [x] (x) |
 * is.
 */
#include <string.h>

#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

typedef enum mt_status (*parse_fn)(struct jinja_parser *parser, struct jinja_node **node);

static enum mt_status parse_or(struct jinja_parser *parser, struct jinja_node **node);
static enum mt_status parse_unary(struct jinja_parser *parser, bool filters, struct jinja_node **node);

/* A node of one or two parts. */
static enum mt_status make(struct jinja_parser *parser, enum jinja_node_kind kind, int line,
                           struct jinja_node *a, struct jinja_node *b, struct jinja_node **node)
{
    struct jinja_node *made = NULL;
    enum mt_status status = jinja_node_new(parser, kind, line, &made);
    if (status != MT_OK) return status;
    made->a = a;
    made->b = b;
    *node = made;
    return jinja_node_finish(parser, made);
}

static enum mt_status make_constant(struct jinja_parser *parser, int line, struct mt_value value,
                                    struct jinja_node **node)
{
    enum mt_status status = jinja_node_new(parser, JINJA_CONSTANT, line, node);
    if (status == MT_OK) (*node)->value = value;
    return status;
}

static enum mt_status adopt(struct jinja_parser *parser, struct jinja_node *node,
                            const struct jinja_node_list *list)
{
    node->items = list->items;
    node->count = list->count;
    return jinja_node_finish(parser, node);
}

// ------------------------------------------------------------------ primaries

static enum mt_status mention(struct jinja_parser *parser, struct mt_marked name)
{
    void *items = parser->mentioned;
    enum mt_status status = jinja_arena_grow(parser->arena, &items, &parser->mentioned_capacity,
                                             sizeof *parser->mentioned, parser->mentioned_count + 1);
    if (status != MT_OK) return status;
    parser->mentioned = items;
    parser->mentioned[parser->mentioned_count++] = name;
    parser->names_caller = parser->names_caller || marked_is(name, "caller");
    parser->names_kwargs = parser->names_kwargs || marked_is(name, "kwargs");
    parser->names_varargs = parser->names_varargs || marked_is(name, "varargs");
    return MT_OK;
}

static enum mt_status parse_name(struct jinja_parser *parser, bool member, struct jinja_node **node)
{
    const struct jinja_token *token = jinja_current(parser);
    struct mt_marked name = {token->text, NULL, token->bytes};
    jinja_advance(parser);
    bool yes = marked_is(name, "true") || marked_is(name, "True");
    if (yes || marked_is(name, "false") || marked_is(name, "False"))
        return make_constant(parser, token->line, mt_jinja_bool(yes), node);
    if (marked_is(name, "none") || marked_is(name, "None"))
        return make_constant(parser, token->line, mt_jinja_none(), node);
    bool is_member = member && jinja_skip_operator(parser, ".");
    enum mt_status status = mention(parser, name);
    if (status == MT_OK)
        status = jinja_node_new(parser, is_member ? JINJA_MEMBER : JINJA_NAME, token->line, node);
    if (status != MT_OK) return status;
    (*node)->text = name;
    if (!is_member) return MT_OK;
    struct mt_marked attribute;
    status = jinja_expect_name(parser, &attribute);
    (*node)->value.string = attribute;
    return status;
}

/* One or several literals beside each other. */
static enum mt_status parse_string(struct jinja_parser *parser, struct jinja_node **node)
{
    int line = jinja_current(parser)->line;
    size_t bytes = 0;
    size_t first = parser->at;
    for (; jinja_current(parser)->kind == JINJA_TOKEN_STRING; jinja_advance(parser))
        bytes += jinja_current(parser)->bytes;
    void *memory = NULL;
    enum mt_status status = mt_arena_allocate(parser->arena, bytes + 1, &memory);
    if (status != MT_OK) return status;
    char *text = memory;
    size_t at = 0;
    for (size_t i = first; i < parser->at; i++) {
        const struct jinja_token *token = &parser->tokens.data[i];
        memcpy(text + at, token->text, token->bytes);
        at += token->bytes;
    }
    return make_constant(parser, line, marked_value((struct mt_marked){text, NULL, bytes}), node);
}

static enum mt_status parse_list(struct jinja_parser *parser, const char *end, bool pairs,
                                 struct jinja_node **node)
{
    struct jinja_node_list list = {0};
    int line = jinja_current(parser)->line;
    jinja_advance(parser);
    while (!jinja_is_operator(jinja_current(parser), end)) {
        struct jinja_node *item = NULL;
        enum mt_status status = list.count > 0 ? jinja_expect_operator(parser, ",") : MT_OK;
        if (status == MT_OK && jinja_is_operator(jinja_current(parser), end)) break;
        if (status == MT_OK) status = jinja_parse_expression(parser, true, &item);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, item);
        if (status == MT_OK && pairs) status = jinja_expect_operator(parser, ":");
        if (status == MT_OK && pairs) status = jinja_parse_expression(parser, true, &item);
        if (status == MT_OK && pairs) status = jinja_node_list_add(parser, &list, item);
        if (status != MT_OK) return status;
    }
    jinja_advance(parser);
    enum mt_status status = jinja_node_new(parser, pairs ? JINJA_DICT_OF : JINJA_LIST_OF, line, node);
    return status == MT_OK ? adopt(parser, *node, &list) : status;
}

static bool is_tuple_end(const struct jinja_parser *parser, const char *end)
{
    const struct jinja_token *token = jinja_current(parser);
    if (token->kind == JINJA_TOKEN_VARIABLE_END || token->kind == JINJA_TOKEN_BLOCK_END) return true;
    return jinja_is_operator(token, ")") || (end != NULL && jinja_is_name(token, end));
}

static enum mt_status parse_primary(struct jinja_parser *parser, bool member, struct jinja_node **node);

/* What a tuple consists of: expressions, or what can be assigned to. */
struct tuple_form {
    bool condition;
    bool targets;
    bool member;
    bool parentheses;
    const char *end;
};

static enum mt_status parse_tuple_form(struct jinja_parser *parser, struct tuple_form form,
                                       struct jinja_node **node)
{
    struct jinja_node_list list = {0};
    bool is_tuple = false;
    int line = jinja_current(parser)->line;
    for (;;) {
        struct jinja_node *item = NULL;
        if (is_tuple_end(parser, form.end)) break;
        enum mt_status status = form.targets ? parse_primary(parser, form.member, &item)
                                             : jinja_parse_expression(parser, form.condition, &item);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, item);
        if (status != MT_OK) return status;
        if (!jinja_skip_operator(parser, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && list.count == 1) {
        *node = list.items[0];
        return MT_OK;
    }
    if (!is_tuple && !form.parentheses) return jinja_unexpected(parser, "an expression");
    enum mt_status status = jinja_node_new(parser, JINJA_TUPLE_OF, line, node);
    return status == MT_OK ? adopt(parser, *node, &list) : status;
}

enum mt_status jinja_parse_tuple(struct jinja_parser *parser, bool condition, const char *end,
                                 struct jinja_node **node)
{
    return parse_tuple_form(parser, (struct tuple_form){.condition = condition, .end = end}, node);
}

static bool can_assign(const struct jinja_node *node)
{
    if (node->kind == JINJA_NAME || node->kind == JINJA_MEMBER) return true;
    bool all = node->kind == JINJA_TUPLE_OF;
    for (size_t i = 0; all && i < node->count; i++) all = can_assign(node->items[i]);
    return all;
}

enum mt_status jinja_parse_target(struct jinja_parser *parser, const char *end, bool member,
                                  struct jinja_node **node)
{
    int line = jinja_current(parser)->line;
    enum mt_status status =
        parse_tuple_form(parser, (struct tuple_form){.targets = true, .member = member, .end = end}, node);
    if (status == MT_OK && !can_assign(*node))
        return jinja_parse_fail(parser, MT_ERR_FORMAT, line, "this cannot be assigned to");
    return status;
}

static enum mt_status parse_primary(struct jinja_parser *parser, bool member, struct jinja_node **node)
{
    const struct jinja_token *token = jinja_current(parser);
    if (token->kind == JINJA_TOKEN_NAME) return parse_name(parser, member, node);
    if (token->kind == JINJA_TOKEN_STRING) return parse_string(parser, node);
    if (token->kind == JINJA_TOKEN_INTEGER || token->kind == JINJA_TOKEN_REAL) {
        bool whole = token->kind == JINJA_TOKEN_INTEGER;
        jinja_advance(parser);
        return make_constant(parser, token->line,
                             whole ? mt_jinja_integer(token->integer) : mt_jinja_real(token->real), node);
    }
    bool round = jinja_is_operator(token, "(");
    bool square = jinja_is_operator(token, "[");
    if (!round && !square && !jinja_is_operator(token, "{")) return jinja_unexpected(parser, "an expression");
    enum mt_status status = jinja_enter(parser);
    if (status != MT_OK) return status;
    if (round) {
        jinja_advance(parser);
        status = parse_tuple_form(parser, (struct tuple_form){.condition = true, .parentheses = true}, node);
        if (status == MT_OK) status = jinja_expect_operator(parser, ")");
    } else {
        status = parse_list(parser, square ? "]" : "}", !square, node);
    }
    jinja_leave(parser);
    return status;
}

// ------------------------------------------------------------------ what follows a primary

static enum mt_status parse_bound(struct jinja_parser *parser, struct jinja_node **node)
{
    const struct jinja_token *token = jinja_current(parser);
    *node = NULL;
    if (jinja_is_operator(token, ":") || jinja_is_operator(token, "]") || jinja_is_operator(token, ","))
        return MT_OK;
    return jinja_parse_expression(parser, true, node);
}

/* An index, or a slice "a:b:c" whose parts may be missing. */
static enum mt_status parse_subscript(struct jinja_parser *parser, struct jinja_node **node)
{
    struct jinja_node *first = NULL;
    struct jinja_node *slice = NULL;
    int line = jinja_current(parser)->line;
    enum mt_status status = MT_OK;
    if (!jinja_is_operator(jinja_current(parser), ":")) {
        status = jinja_parse_expression(parser, true, &first);
        if (status != MT_OK) return status;
        if (!jinja_is_operator(jinja_current(parser), ":")) {
            *node = first;
            return MT_OK;
        }
    }
    jinja_advance(parser);
    status = make(parser, JINJA_SLICE_OF, line, first, NULL, &slice);
    if (status == MT_OK) status = parse_bound(parser, &slice->b);
    if (status == MT_OK && jinja_skip_operator(parser, ":")) status = parse_bound(parser, &slice->c);
    *node = slice;
    return status == MT_OK ? jinja_node_finish(parser, slice) : status;
}

/* "[...]": one index, or several, which are a tuple. */
static enum mt_status parse_brackets(struct jinja_parser *parser, struct jinja_node **index)
{
    struct jinja_node_list list = {0};
    int line = jinja_current(parser)->line;
    while (!jinja_is_operator(jinja_current(parser), "]")) {
        struct jinja_node *item = NULL;
        enum mt_status status = list.count > 0 ? jinja_expect_operator(parser, ",") : MT_OK;
        if (status == MT_OK) status = parse_subscript(parser, &item);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, item);
        if (status != MT_OK) return status;
        if (list.count > 1 && (item->kind == JINJA_SLICE_OF || list.items[0]->kind == JINJA_SLICE_OF)) {
            return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line,
                                    "several slices in one index are not known here");
        }
    }
    jinja_advance(parser);
    if (list.count == 1) {
        *index = list.items[0];
        return MT_OK;
    }
    enum mt_status status = jinja_node_new(parser, JINJA_TUPLE_OF, line, index);
    return status == MT_OK ? adopt(parser, *index, &list) : status;
}

static enum mt_status parse_dot(struct jinja_parser *parser, struct jinja_node **node)
{
    const struct jinja_token *token = jinja_current(parser);
    struct jinja_node *index = NULL;
    jinja_advance(parser);
    if (token->kind == JINJA_TOKEN_NAME) {
        enum mt_status status = make(parser, JINJA_ATTRIBUTE, token->line, *node, NULL, node);
        if (status == MT_OK) (*node)->text = (struct mt_marked){token->text, NULL, token->bytes};
        return status;
    }
    if (token->kind != JINJA_TOKEN_INTEGER)
        return jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "expected a name or number after '.'");
    enum mt_status status = make_constant(parser, token->line, mt_jinja_integer(token->integer), &index);
    return status == MT_OK ? make(parser, JINJA_ITEM, token->line, *node, index, node) : status;
}

static enum mt_status parse_call(struct jinja_parser *parser, struct jinja_node **node)
{
    struct jinja_node *call = NULL;
    enum mt_status status = jinja_node_new(parser, JINJA_CALL, jinja_current(parser)->line, &call);
    if (status != MT_OK) return status;
    call->a = *node;
    *node = call;
    return jinja_parse_arguments(parser, call);
}

static enum mt_status parse_postfix(struct jinja_parser *parser, struct jinja_node **node)
{
    enum mt_status status = MT_OK;
    while (status == MT_OK) {
        int line = jinja_current(parser)->line;
        if (jinja_is_operator(jinja_current(parser), "(")) {
            status = parse_call(parser, node);
        } else if (jinja_skip_operator(parser, ".")) {
            status = parse_dot(parser, node);
        } else if (jinja_skip_operator(parser, "[")) {
            struct jinja_node *index = NULL;
            status = jinja_enter(parser);
            if (status != MT_OK) return status;
            status = parse_brackets(parser, &index);
            jinja_leave(parser);
            if (status == MT_OK) status = make(parser, JINJA_ITEM, line, *node, index, node);
        } else {
            return MT_OK;
        }
    }
    return status;
}

static enum mt_status call_syntax(const struct jinja_parser *parser)
{
    return jinja_parse_fail(parser, MT_ERR_FORMAT, jinja_current(parser)->line,
                            "invalid order of arguments in a call");
}

static enum mt_status parse_argument(struct jinja_parser *parser, struct jinja_node_list *list, bool seen[3])
{
    struct jinja_node *value = NULL;
    struct jinja_node *argument = NULL;
    int line = jinja_current(parser)->line;
    struct mt_marked name = {0};
    enum jinja_node_kind kind = JINJA_CONSTANT; // of a plain argument
    if (jinja_skip_operator(parser, "*"))
        kind = JINJA_STAR;
    else if (jinja_skip_operator(parser, "**"))
        kind = JINJA_DOUBLE_STAR;
    else if (jinja_current(parser)->kind == JINJA_TOKEN_NAME && jinja_is_operator(jinja_ahead(parser), "=")) {
        kind = JINJA_KEYWORD;
        (void)jinja_expect_name(parser, &name);
        jinja_advance(parser);
    }
    bool refused = seen[2] || (kind == JINJA_STAR && seen[1]);
    refused = refused || (kind == JINJA_CONSTANT && (seen[0] || seen[1]));
    if (refused) return call_syntax(parser);
    seen[0] = seen[0] || kind == JINJA_KEYWORD;
    seen[1] = seen[1] || kind == JINJA_STAR;
    seen[2] = seen[2] || kind == JINJA_DOUBLE_STAR;
    enum mt_status status = jinja_parse_expression(parser, true, &value);
    if (status == MT_OK && kind == JINJA_CONSTANT) return jinja_node_list_add(parser, list, value);
    if (status == MT_OK) status = make(parser, kind, line, value, NULL, &argument);
    if (status == MT_OK) argument->text = name;
    return status == MT_OK ? jinja_node_list_add(parser, list, argument) : status;
}

enum mt_status jinja_parse_arguments(struct jinja_parser *parser, struct jinja_node *call)
{
    struct jinja_node_list list = {0};
    bool seen[3] = {false, false, false}; // keywords, *, **
    enum mt_status status = jinja_expect_operator(parser, "(");
    if (status == MT_OK) status = jinja_enter(parser);
    if (status != MT_OK) return status;
    while (status == MT_OK && !jinja_is_operator(jinja_current(parser), ")")) {
        if (list.count > 0) status = jinja_expect_operator(parser, ",");
        if (status == MT_OK && list.count > 0 && jinja_is_operator(jinja_current(parser), ")")) break;
        if (status == MT_OK) status = parse_argument(parser, &list, seen);
    }
    jinja_leave(parser);
    if (status == MT_OK) status = jinja_expect_operator(parser, ")");
    return status == MT_OK ? adopt(parser, call, &list) : status;
}

/* "name" or "a.b", and whether the library has it. */
static enum mt_status parse_known(struct jinja_parser *parser, bool is_test, struct mt_marked *name)
{
    int line = jinja_current(parser)->line;
    enum mt_status status = jinja_expect_name(parser, name);
    if (status != MT_OK) return status;
    bool dotted = jinja_is_operator(jinja_current(parser), ".");
    bool known = is_test ? jinja_has_test(*name) : jinja_has_filter(*name);
    if (!dotted && (known || parser->conditions > 0)) return MT_OK;
    return jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line,
                            "the template uses the %s '%.*s', which metier does not know",
                            is_test ? "test" : "filter", marked_width(*name), name->text);
}

enum mt_status jinja_parse_filters(struct jinja_parser *parser, bool first, struct jinja_node *subject,
                                   struct jinja_node **node)
{
    *node = subject;
    while (first || jinja_skip_operator(parser, "|")) {
        struct jinja_node *filter = NULL;
        struct mt_marked name = {0};
        int line = jinja_current(parser)->line;
        first = false;
        enum mt_status status = parse_known(parser, false, &name);
        if (status == MT_OK) status = make(parser, JINJA_FILTER, line, *node, NULL, &filter);
        if (status != MT_OK) return status;
        filter->text = name;
        *node = filter;
        if (!jinja_is_operator(jinja_current(parser), "(")) continue;
        status = jinja_parse_arguments(parser, filter);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

/* Whether a test is followed by an argument without parentheses ("is divisibleby 3"). */
static bool has_bare_argument(const struct jinja_token *token)
{
    if (token->kind == JINJA_TOKEN_NAME)
        return !jinja_is_name(token, "else") && !jinja_is_name(token, "or") && !jinja_is_name(token, "and");
    if (token->kind == JINJA_TOKEN_STRING || token->kind == JINJA_TOKEN_INTEGER) return true;
    if (token->kind == JINJA_TOKEN_REAL) return true;
    return jinja_is_operator(token, "[") || jinja_is_operator(token, "{");
}

static enum mt_status parse_test(struct jinja_parser *parser, struct jinja_node **node)
{
    struct jinja_node *test = NULL;
    struct mt_marked name = {0};
    int line = jinja_current(parser)->line;
    bool negated = jinja_skip_name(parser, "not");
    enum mt_status status = parse_known(parser, true, &name);
    if (status == MT_OK) status = make(parser, JINJA_TEST, line, *node, NULL, &test);
    if (status != MT_OK) return status;
    test->text = name;
    if (jinja_is_operator(jinja_current(parser), "(")) {
        status = jinja_parse_arguments(parser, test);
    } else if (jinja_is_name(jinja_current(parser), "is")) {
        return jinja_parse_fail(parser, MT_ERR_FORMAT, line, "tests cannot be chained with is");
    } else if (has_bare_argument(jinja_current(parser))) {
        struct jinja_node_list list = {0};
        struct jinja_node *argument = NULL;
        status = parse_primary(parser, false, &argument);
        if (status == MT_OK) status = parse_postfix(parser, &argument);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, argument);
        if (status == MT_OK) status = adopt(parser, test, &list);
    }
    *node = test;
    if (status == MT_OK && negated) status = make(parser, JINJA_NOT, line, test, NULL, node);
    return status;
}

static enum mt_status parse_filters_and_tests(struct jinja_parser *parser, struct jinja_node **node)
{
    enum mt_status status = MT_OK;
    while (status == MT_OK) {
        if (jinja_is_operator(jinja_current(parser), "|")) {
            status = jinja_parse_filters(parser, false, *node, node);
        } else if (jinja_skip_name(parser, "is")) {
            status = parse_test(parser, node);
        } else if (jinja_is_operator(jinja_current(parser), "(")) {
            status = parse_call(parser, node);
        } else {
            return MT_OK;
        }
    }
    return status;
}

// ------------------------------------------------------------------ operators

static enum mt_status parse_signed(struct jinja_parser *parser, const char *sign, struct jinja_node **node)
{
    int line = jinja_current(parser)->line;
    struct jinja_node *operand = NULL;
    jinja_advance(parser);
    enum mt_status status = jinja_enter(parser);
    if (status != MT_OK) return status;
    status = parse_unary(parser, false, &operand);
    jinja_leave(parser);
    if (status == MT_OK) status = make(parser, JINJA_UNARY, line, operand, NULL, node);
    if (status == MT_OK) (*node)->text = marked_of(sign);
    return status;
}

static enum mt_status parse_unary(struct jinja_parser *parser, bool filters, struct jinja_node **node)
{
    enum mt_status status = MT_OK;
    if (jinja_is_operator(jinja_current(parser), "-"))
        status = parse_signed(parser, "-", node);
    else if (jinja_is_operator(jinja_current(parser), "+"))
        status = parse_signed(parser, "+", node);
    else
        status = parse_primary(parser, false, node);
    if (status == MT_OK) status = parse_postfix(parser, node);
    if (status == MT_OK && filters) status = parse_filters_and_tests(parser, node);
    return status;
}

static enum mt_status parse_operand(struct jinja_parser *parser, struct jinja_node **node)
{
    return parse_unary(parser, true, node);
}

/* Left-associative operators of one precedence. */
static enum mt_status parse_binary(struct jinja_parser *parser, const char *const *operators, parse_fn next,
                                   struct jinja_node **node)
{
    enum mt_status status = next(parser, node);
    while (status == MT_OK) {
        const char *found = NULL;
        int line = jinja_current(parser)->line;
        for (size_t i = 0; operators[i] != NULL && found == NULL; i++) {
            if (jinja_skip_operator(parser, operators[i])) found = operators[i];
        }
        if (found == NULL) return MT_OK;
        struct jinja_node *right = NULL;
        status = next(parser, &right);
        if (status == MT_OK) status = make(parser, JINJA_BINARY, line, *node, right, node);
        if (status == MT_OK) (*node)->text = marked_of(found);
    }
    return status;
}

static enum mt_status parse_power(struct jinja_parser *parser, struct jinja_node **node)
{
    static const char *const operators[] = {"**", NULL};
    return parse_binary(parser, operators, parse_operand, node);
}

static enum mt_status parse_product(struct jinja_parser *parser, struct jinja_node **node)
{
    static const char *const operators[] = {"*", "/", "//", "%", NULL};
    return parse_binary(parser, operators, parse_power, node);
}

static enum mt_status parse_concatenation(struct jinja_parser *parser, struct jinja_node **node)
{
    struct jinja_node_list list = {0};
    int line = jinja_current(parser)->line;
    enum mt_status status = parse_product(parser, node);
    if (status != MT_OK || !jinja_is_operator(jinja_current(parser), "~")) return status;
    status = jinja_node_list_add(parser, &list, *node);
    while (status == MT_OK && jinja_skip_operator(parser, "~")) {
        status = parse_product(parser, node);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, *node);
    }
    if (status == MT_OK) status = jinja_node_new(parser, JINJA_CONCATENATION, line, node);
    return status == MT_OK ? adopt(parser, *node, &list) : status;
}

static enum mt_status parse_sum(struct jinja_parser *parser, struct jinja_node **node)
{
    static const char *const operators[] = {"+", "-", NULL};
    return parse_binary(parser, operators, parse_concatenation, node);
}

/* The comparison at the current place, or NULL; steps over it. */
static const char *skip_comparison(struct jinja_parser *parser)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (jinja_skip_operator(parser, operators[i])) return operators[i];
    }
    if (jinja_skip_name(parser, "in")) return "in";
    if (!jinja_is_name(jinja_current(parser), "not") || !jinja_is_name(jinja_ahead(parser), "in"))
        return NULL;
    jinja_advance(parser);
    jinja_advance(parser);
    return "not in";
}

static enum mt_status parse_comparison(struct jinja_parser *parser, struct jinja_node **node)
{
    struct jinja_node_list list = {0};
    int line = jinja_current(parser)->line;
    enum mt_status status = parse_sum(parser, node);
    while (status == MT_OK) {
        struct jinja_node *right = NULL;
        struct jinja_node *with = NULL;
        const char *found = skip_comparison(parser);
        if (found == NULL) break;
        status = parse_sum(parser, &right);
        if (status == MT_OK) status = make(parser, JINJA_COMPARE_WITH, line, right, NULL, &with);
        if (status == MT_OK) with->text = marked_of(found);
        if (status == MT_OK) status = jinja_node_list_add(parser, &list, with);
    }
    if (status != MT_OK || list.count == 0) return status;
    status = make(parser, JINJA_COMPARISON, line, *node, NULL, node);
    return status == MT_OK ? adopt(parser, *node, &list) : status;
}

static enum mt_status parse_not(struct jinja_parser *parser, struct jinja_node **node)
{
    int line = jinja_current(parser)->line;
    if (!jinja_skip_name(parser, "not")) return parse_comparison(parser, node);
    struct jinja_node *operand = NULL;
    enum mt_status status = jinja_enter(parser);
    if (status != MT_OK) return status;
    status = parse_not(parser, &operand);
    jinja_leave(parser);
    return status == MT_OK ? make(parser, JINJA_NOT, line, operand, NULL, node) : status;
}

static enum mt_status parse_and(struct jinja_parser *parser, struct jinja_node **node)
{
    enum mt_status status = parse_not(parser, node);
    while (status == MT_OK && jinja_is_name(jinja_current(parser), "and")) {
        struct jinja_node *right = NULL;
        int line = jinja_current(parser)->line;
        jinja_advance(parser);
        status = parse_not(parser, &right);
        if (status == MT_OK) status = make(parser, JINJA_AND, line, *node, right, node);
    }
    return status;
}

static enum mt_status parse_or(struct jinja_parser *parser, struct jinja_node **node)
{
    enum mt_status status = parse_and(parser, node);
    while (status == MT_OK && jinja_is_name(jinja_current(parser), "or")) {
        struct jinja_node *right = NULL;
        int line = jinja_current(parser)->line;
        jinja_advance(parser);
        status = parse_and(parser, &right);
        if (status == MT_OK) status = make(parser, JINJA_OR, line, *node, right, node);
    }
    return status;
}

static enum mt_status parse_condition(struct jinja_parser *parser, struct jinja_node **node)
{
    enum mt_status status = parse_or(parser, node);
    while (status == MT_OK && jinja_is_name(jinja_current(parser), "if")) {
        struct jinja_node *made = NULL;
        status = jinja_node_new(parser, JINJA_CONDITION, jinja_current(parser)->line, &made);
        if (status != MT_OK) return status;
        jinja_advance(parser);
        made->a = *node;
        status = parse_or(parser, &made->b);
        if (status == MT_OK && jinja_skip_name(parser, "else"))
            status = jinja_parse_expression(parser, true, &made->c);
        *node = made;
        if (status == MT_OK) status = jinja_node_finish(parser, made);
    }
    return status;
}

enum mt_status jinja_parse_expression(struct jinja_parser *parser, bool condition, struct jinja_node **node)
{
    enum mt_status status = jinja_enter(parser);
    if (status != MT_OK) return status;
    status = condition ? parse_condition(parser, node) : parse_or(parser, node);
    jinja_leave(parser);
    return status;
}
