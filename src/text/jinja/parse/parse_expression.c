/*
 * Expressions, by precedence as in jinja2:
 * condition, or, and, not, comparison, + -, ~, * / // %, **, sign, then what follows a primary: .x [x] (x) |
 * is.
 */
#include <string.h>

#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

static struct jinja_node *parse_or(struct jinja_parser *parser);
static struct jinja_node *parse_unary(struct jinja_parser *parser, bool filters);
static struct jinja_node *parse_primary(struct jinja_parser *parser, bool member);

/* A node of one or two parts and a text. */
static struct jinja_node *make(struct jinja_parser *parser, enum jinja_node_kind kind, int line,
                               struct jinja_node *a, struct jinja_node *b, struct mt_marked text)
{
    struct jinja_node *made = mt_jinja_node_new(parser, kind, line);
    made->a = a;
    made->b = b;
    made->text = text;
    return mt_jinja_node_finish(parser, made);
}

static struct jinja_node *make_plain(struct jinja_parser *parser, enum jinja_node_kind kind, int line,
                                     struct jinja_node *a, struct jinja_node *b)
{
    return make(parser, kind, line, a, b, marked_of(""));
}

static struct jinja_node *make_constant(struct jinja_parser *parser, int line, struct mt_value value)
{
    struct jinja_node *made = mt_jinja_node_new(parser, JINJA_CONSTANT, line);
    made->value = value;
    return made;
}

static struct mt_marked token_text(const struct jinja_token *token)
{
    return (struct mt_marked){token->text, NULL, token->bytes};
}

// ------------------------------------------------------------------ primaries

static struct jinja_node *parse_name(struct jinja_parser *parser, bool member)
{
    const struct jinja_token *token = mt_jinja_current(parser);
    struct mt_marked name = token_text(token);
    mt_jinja_advance(parser);
    bool yes = marked_is(name, "true") || marked_is(name, "True");
    if (yes || marked_is(name, "false") || marked_is(name, "False"))
        return make_constant(parser, token->line, mt_jinja_bool(yes));
    if (marked_is(name, "none") || marked_is(name, "None"))
        return make_constant(parser, token->line, mt_jinja_none());
    bool is_member = member && mt_jinja_skip_operator(parser, ".");
    parser->names_caller = parser->names_caller || marked_is(name, "caller");
    parser->names_kwargs = parser->names_kwargs || marked_is(name, "kwargs");
    parser->names_varargs = parser->names_varargs || marked_is(name, "varargs");
    struct jinja_node *node = mt_jinja_node_new(parser, is_member ? JINJA_MEMBER : JINJA_NAME, token->line);
    node->text = name;
    if (is_member) node->value.string = mt_jinja_expect_name(parser);
    return node;
}

/* One or several literals beside each other. */
static struct jinja_node *parse_string(struct jinja_parser *parser)
{
    int line = mt_jinja_current(parser)->line;
    size_t bytes = 0;
    size_t first = parser->at;
    size_t at = 0;
    void *memory = NULL;
    for (; mt_jinja_current(parser)->kind == JINJA_TOKEN_STRING; mt_jinja_advance(parser))
        bytes += mt_jinja_current(parser)->bytes;
    if (!mt_jinja_parse_check(parser, mt_arena_allocate(parser->arena, bytes + 1, &memory)))
        return &parser->nothing;
    char *text = memory;
    for (size_t i = first; i < parser->at; i++) {
        const struct jinja_token *token = &parser->tokens.data[i];
        memcpy(text + at, token->text, token->bytes);
        at += token->bytes;
    }
    return make_constant(parser, line, marked_value((struct mt_marked){text, NULL, bytes}));
}

static struct jinja_node *parse_list(struct jinja_parser *parser, const char *end, bool pairs)
{
    struct jinja_node_list list = {0};
    int line = mt_jinja_current(parser)->line;
    mt_jinja_advance(parser);
    while (!mt_jinja_at_operator(parser, end) && !mt_jinja_parse_failed(parser)) {
        if (list.count > 0) mt_jinja_expect_operator(parser, ",");
        if (mt_jinja_at_operator(parser, end)) break;
        mt_jinja_node_list_add(parser, &list, mt_jinja_parse_expression(parser, true));
        if (!pairs) continue;
        mt_jinja_expect_operator(parser, ":");
        mt_jinja_node_list_add(parser, &list, mt_jinja_parse_expression(parser, true));
    }
    mt_jinja_advance(parser);
    struct jinja_node *node = mt_jinja_node_new(parser, pairs ? JINJA_DICT_OF : JINJA_LIST_OF, line);
    return mt_jinja_node_adopt(parser, node, &list);
}

static bool is_tuple_end(const struct jinja_parser *parser, const char *end)
{
    const struct jinja_token *token = mt_jinja_current(parser);
    if (token->kind == JINJA_TOKEN_VARIABLE_END || token->kind == JINJA_TOKEN_BLOCK_END) return true;
    return mt_jinja_is_operator(token, ")") || (end != NULL && mt_jinja_is_name(token, end));
}

/* What a tuple consists of: expressions, or what can be assigned to. */
struct tuple_form {
    bool condition;
    bool targets;
    bool member;
    bool parentheses;
    const char *end;
};

static struct jinja_node *parse_tuple_form(struct jinja_parser *parser, struct tuple_form form)
{
    struct jinja_node_list list = {0};
    bool is_tuple = false;
    int line = mt_jinja_current(parser)->line;
    while (!is_tuple_end(parser, form.end)) {
        struct jinja_node *item = form.targets ? parse_primary(parser, form.member)
                                               : mt_jinja_parse_expression(parser, form.condition);
        mt_jinja_node_list_add(parser, &list, item);
        if (!mt_jinja_skip_operator(parser, ",")) break;
        is_tuple = true;
    }
    if (!is_tuple && list.count == 1) return list.items[0];
    if (!is_tuple && !form.parentheses) mt_jinja_unexpected(parser, "an expression");
    return mt_jinja_node_adopt(parser, mt_jinja_node_new(parser, JINJA_TUPLE_OF, line), &list);
}

struct jinja_node *mt_jinja_parse_tuple(struct jinja_parser *parser, bool condition, const char *end)
{
    return parse_tuple_form(parser, (struct tuple_form){.condition = condition, .end = end});
}

static bool can_assign(const struct jinja_node *node)
{
    if (node->kind == JINJA_NAME || node->kind == JINJA_MEMBER) return true;
    bool all = node->kind == JINJA_TUPLE_OF;
    for (size_t i = 0; all && i < node->count; i++) all = can_assign(node->items[i]);
    return all;
}

struct jinja_node *mt_jinja_parse_target(struct jinja_parser *parser, const char *end, bool member)
{
    int line = mt_jinja_current(parser)->line;
    const struct tuple_form form = {.targets = true, .member = member, .end = end};
    struct jinja_node *node = parse_tuple_form(parser, form);
    if (!mt_jinja_parse_failed(parser) && !can_assign(node))
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, line, "this cannot be assigned to");
    return node;
}

static struct jinja_node *parse_primary(struct jinja_parser *parser, bool member)
{
    const struct jinja_token *token = mt_jinja_current(parser);
    struct jinja_node *node = &parser->nothing;
    if (token->kind == JINJA_TOKEN_NAME) return parse_name(parser, member);
    if (token->kind == JINJA_TOKEN_STRING) return parse_string(parser);
    if (token->kind == JINJA_TOKEN_INTEGER || token->kind == JINJA_TOKEN_REAL) {
        bool whole = token->kind == JINJA_TOKEN_INTEGER;
        mt_jinja_advance(parser);
        return make_constant(parser, token->line,
                             whole ? mt_jinja_integer(token->integer) : mt_jinja_real(token->real));
    }
    bool round = mt_jinja_is_operator(token, "(");
    bool square = mt_jinja_is_operator(token, "[");
    if (!round && !square && !mt_jinja_is_operator(token, "{")) mt_jinja_unexpected(parser, "an expression");
    if (!mt_jinja_enter(parser)) return node;
    if (round) {
        mt_jinja_advance(parser);
        node = parse_tuple_form(parser, (struct tuple_form){.condition = true, .parentheses = true});
        mt_jinja_expect_operator(parser, ")");
    } else {
        node = parse_list(parser, square ? "]" : "}", !square);
    }
    mt_jinja_leave(parser);
    return node;
}

// ------------------------------------------------------------------ what follows a primary

/* A bound of a slice, which may be missing. */
static struct jinja_node *parse_bound(struct jinja_parser *parser)
{
    bool missing = mt_jinja_at_operator(parser, ":") || mt_jinja_at_operator(parser, "]") ||
                   mt_jinja_at_operator(parser, ",");
    return missing ? NULL : mt_jinja_parse_expression(parser, true);
}

/* An index, or a slice "a:b:c" whose parts may be missing. */
static struct jinja_node *parse_subscript(struct jinja_parser *parser)
{
    int line = mt_jinja_current(parser)->line;
    struct jinja_node *first =
        mt_jinja_at_operator(parser, ":") ? NULL : mt_jinja_parse_expression(parser, true);
    if (!mt_jinja_skip_operator(parser, ":")) return first;
    struct jinja_node *slice = mt_jinja_node_new(parser, JINJA_SLICE_OF, line);
    slice->a = first;
    slice->b = parse_bound(parser);
    if (mt_jinja_skip_operator(parser, ":")) slice->c = parse_bound(parser);
    return mt_jinja_node_finish(parser, slice);
}

/* "[...]": one index, or several, which are a tuple. */
static struct jinja_node *parse_brackets(struct jinja_parser *parser)
{
    struct jinja_node_list list = {0};
    int line = mt_jinja_current(parser)->line;
    if (!mt_jinja_enter(parser)) return &parser->nothing;
    while (!mt_jinja_at_operator(parser, "]") && !mt_jinja_parse_failed(parser)) {
        if (list.count > 0) mt_jinja_expect_operator(parser, ",");
        struct jinja_node *item = parse_subscript(parser);
        mt_jinja_node_list_add(parser, &list, item);
        if (list.count > 1 && (item->kind == JINJA_SLICE_OF || list.items[0]->kind == JINJA_SLICE_OF))
            mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line,
                                "several slices in one index are not known here");
    }
    mt_jinja_leave(parser);
    mt_jinja_advance(parser);
    if (list.count == 1) return list.items[0];
    return mt_jinja_node_adopt(parser, mt_jinja_node_new(parser, JINJA_TUPLE_OF, line), &list);
}

static struct jinja_node *parse_dot(struct jinja_parser *parser, struct jinja_node *node)
{
    const struct jinja_token *token = mt_jinja_current(parser);
    mt_jinja_advance(parser);
    if (token->kind == JINJA_TOKEN_NAME)
        return make(parser, JINJA_ATTRIBUTE, token->line, node, NULL, token_text(token));
    if (token->kind != JINJA_TOKEN_INTEGER)
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, token->line, "expected a name or number after '.'");
    struct jinja_node *index = make_constant(parser, token->line, mt_jinja_integer(token->integer));
    return make_plain(parser, JINJA_ITEM, token->line, node, index);
}

/* Adds an argument; `given` says of keywords, * and ** whether they came before. */
static void parse_argument(struct jinja_parser *parser, struct jinja_node_list *list, bool given[3])
{
    int line = mt_jinja_current(parser)->line;
    struct mt_marked name = marked_of("");
    enum jinja_node_kind kind = JINJA_CONSTANT; // of a plain argument
    if (mt_jinja_skip_operator(parser, "*"))
        kind = JINJA_STAR;
    else if (mt_jinja_skip_operator(parser, "**"))
        kind = JINJA_DOUBLE_STAR;
    else if (mt_jinja_current(parser)->kind == JINJA_TOKEN_NAME &&
             mt_jinja_is_operator(mt_jinja_ahead(parser), "=")) {
        kind = JINJA_KEYWORD;
        name = mt_jinja_expect_name(parser);
        mt_jinja_advance(parser);
    }
    if (given[2] || (kind == JINJA_STAR && given[1]) || (kind == JINJA_CONSTANT && (given[0] || given[1])))
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, mt_jinja_current(parser)->line,
                            "invalid order of arguments in a call");
    given[0] = given[0] || kind == JINJA_KEYWORD;
    given[1] = given[1] || kind == JINJA_STAR;
    given[2] = given[2] || kind == JINJA_DOUBLE_STAR;
    struct jinja_node *argument = mt_jinja_parse_expression(parser, true);
    if (kind != JINJA_CONSTANT) argument = make(parser, kind, line, argument, NULL, name);
    mt_jinja_node_list_add(parser, list, argument);
}

/* "(a, b)" behind what is called. */
static struct jinja_node *parse_arguments(struct jinja_parser *parser, struct jinja_node *call)
{
    struct jinja_node_list list = {0};
    bool given[3] = {false, false, false};
    mt_jinja_expect_operator(parser, "(");
    if (!mt_jinja_enter(parser)) return call;
    while (!mt_jinja_at_operator(parser, ")") && !mt_jinja_parse_failed(parser)) {
        if (list.count > 0) mt_jinja_expect_operator(parser, ",");
        if (list.count > 0 && mt_jinja_at_operator(parser, ")")) break;
        parse_argument(parser, &list, given);
    }
    mt_jinja_leave(parser);
    mt_jinja_expect_operator(parser, ")");
    return mt_jinja_node_adopt(parser, call, &list);
}

static struct jinja_node *parse_call(struct jinja_parser *parser, struct jinja_node *node)
{
    struct jinja_node *call = mt_jinja_node_new(parser, JINJA_CALL, mt_jinja_current(parser)->line);
    call->a = node;
    return parse_arguments(parser, call);
}

static struct jinja_node *parse_postfix(struct jinja_parser *parser, struct jinja_node *node)
{
    for (;;) {
        int line = mt_jinja_current(parser)->line;
        if (mt_jinja_at_operator(parser, "("))
            node = parse_call(parser, node);
        else if (mt_jinja_skip_operator(parser, "."))
            node = parse_dot(parser, node);
        else if (mt_jinja_skip_operator(parser, "["))
            node = make_plain(parser, JINJA_ITEM, line, node, parse_brackets(parser));
        else
            return node;
    }
}

/* "name", which the library must have where it is sure to be reached. */
static struct mt_marked parse_known(struct jinja_parser *parser, bool is_test)
{
    int line = mt_jinja_current(parser)->line;
    struct mt_marked name = mt_jinja_expect_name(parser);
    bool dotted = mt_jinja_at_operator(parser, ".");
    bool known = is_test ? mt_jinja_has_test(name) : mt_jinja_has_filter(name);
    if (dotted || (!known && parser->conditions == 0))
        mt_jinja_parse_fail(parser, MT_ERR_UNSUPPORTED, line,
                            "the template uses the %s '%.*s', which metier does not know",
                            is_test ? "test" : "filter", marked_width(name), name.text);
    return name;
}

struct jinja_node *mt_jinja_parse_filters(struct jinja_parser *parser, bool first, struct jinja_node *subject)
{
    while (first || mt_jinja_skip_operator(parser, "|")) {
        int line = mt_jinja_current(parser)->line;
        first = false;
        struct mt_marked name = parse_known(parser, false);
        subject = make(parser, JINJA_FILTER, line, subject, NULL, name);
        if (mt_jinja_at_operator(parser, "(")) subject = parse_arguments(parser, subject);
    }
    return subject;
}

/* Whether a test is followed by an argument without parentheses ("is divisibleby 3"). */
static bool has_bare_argument(const struct jinja_token *token)
{
    if (token->kind == JINJA_TOKEN_NAME)
        return !mt_jinja_is_name(token, "else") && !mt_jinja_is_name(token, "or") &&
               !mt_jinja_is_name(token, "and");
    return token->kind == JINJA_TOKEN_STRING || token->kind == JINJA_TOKEN_INTEGER ||
           token->kind == JINJA_TOKEN_REAL || mt_jinja_is_operator(token, "[") ||
           mt_jinja_is_operator(token, "{");
}

static struct jinja_node *parse_test(struct jinja_parser *parser, struct jinja_node *subject)
{
    int line = mt_jinja_current(parser)->line;
    bool negated = mt_jinja_skip_name(parser, "not");
    struct mt_marked name = parse_known(parser, true);
    struct jinja_node *test = make(parser, JINJA_TEST, line, subject, NULL, name);
    if (mt_jinja_at_operator(parser, "(")) {
        test = parse_arguments(parser, test);
    } else if (mt_jinja_is_name(mt_jinja_current(parser), "is")) {
        mt_jinja_parse_fail(parser, MT_ERR_FORMAT, line, "tests cannot be chained with is");
    } else if (has_bare_argument(mt_jinja_current(parser))) {
        struct jinja_node_list list = {0};
        struct jinja_node *argument = parse_primary(parser, false);
        mt_jinja_node_list_add(parser, &list, parse_postfix(parser, argument));
        test = mt_jinja_node_adopt(parser, test, &list);
    }
    return negated ? make_plain(parser, JINJA_NOT, line, test, NULL) : test;
}

static struct jinja_node *parse_filters_and_tests(struct jinja_parser *parser, struct jinja_node *node)
{
    for (;;) {
        if (mt_jinja_at_operator(parser, "|"))
            node = mt_jinja_parse_filters(parser, false, node);
        else if (mt_jinja_skip_name(parser, "is"))
            node = parse_test(parser, node);
        else if (mt_jinja_at_operator(parser, "("))
            node = parse_call(parser, node);
        else
            return node;
    }
}

// ------------------------------------------------------------------ operators

static struct jinja_node *parse_signed(struct jinja_parser *parser, const char *sign)
{
    int line = mt_jinja_current(parser)->line;
    mt_jinja_advance(parser);
    if (!mt_jinja_enter(parser)) return &parser->nothing;
    struct jinja_node *operand = parse_unary(parser, false);
    mt_jinja_leave(parser);
    return make(parser, JINJA_UNARY, line, operand, NULL, marked_of(sign));
}

static struct jinja_node *parse_unary(struct jinja_parser *parser, bool filters)
{
    struct jinja_node *node = NULL;
    if (mt_jinja_at_operator(parser, "-"))
        node = parse_signed(parser, "-");
    else if (mt_jinja_at_operator(parser, "+"))
        node = parse_signed(parser, "+");
    else
        node = parse_primary(parser, false);
    node = parse_postfix(parser, node);
    return filters ? parse_filters_and_tests(parser, node) : node;
}

// Left-associative operators, from the loosest to the tightest.
enum precedence { SUM, PRODUCT, POWER };

static struct jinja_node *parse_concatenation(struct jinja_parser *parser);

static struct jinja_node *parse_binary(struct jinja_parser *parser, enum precedence precedence);

static struct jinja_node *parse_tighter(struct jinja_parser *parser, enum precedence than)
{
    if (than == SUM) return parse_concatenation(parser);
    return than == PRODUCT ? parse_binary(parser, POWER) : parse_unary(parser, true);
}

/* The operator at the current place, if it is one of some (NULL-terminated), or NULL; steps over it. */
static const char *skip_one_of(struct jinja_parser *parser, const char *const *operators)
{
    while (*operators != NULL && !mt_jinja_skip_operator(parser, *operators)) operators++;
    return *operators;
}

static struct jinja_node *parse_binary(struct jinja_parser *parser, enum precedence precedence)
{
    static const char *const operators[][5] = {
        [SUM] = {"+", "-", NULL}, [PRODUCT] = {"*", "/", "//", "%", NULL}, [POWER] = {"**", NULL}};
    struct jinja_node *node = parse_tighter(parser, precedence);
    for (;;) {
        int line = mt_jinja_current(parser)->line;
        const char *found = skip_one_of(parser, operators[precedence]);
        if (found == NULL) return node;
        struct jinja_node *right = parse_tighter(parser, precedence);
        node = make(parser, JINJA_BINARY, line, node, right, marked_of(found));
    }
}

/* a ~ b, between sums and products. */
static struct jinja_node *parse_concatenation(struct jinja_parser *parser)
{
    struct jinja_node_list list = {0};
    int line = mt_jinja_current(parser)->line;
    struct jinja_node *node = parse_binary(parser, PRODUCT);
    if (!mt_jinja_at_operator(parser, "~")) return node;
    mt_jinja_node_list_add(parser, &list, node);
    while (mt_jinja_skip_operator(parser, "~"))
        mt_jinja_node_list_add(parser, &list, parse_binary(parser, PRODUCT));
    return mt_jinja_node_adopt(parser, mt_jinja_node_new(parser, JINJA_CONCATENATION, line), &list);
}

/* The comparison at the current place, or NULL; steps over it. */
static const char *skip_comparison(struct jinja_parser *parser)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "<", ">", NULL};
    const char *found = skip_one_of(parser, operators);
    if (found != NULL) return found;
    if (mt_jinja_skip_name(parser, "in")) return "in";
    if (!mt_jinja_is_name(mt_jinja_current(parser), "not") || !mt_jinja_is_name(mt_jinja_ahead(parser), "in"))
        return NULL;
    mt_jinja_advance(parser);
    mt_jinja_advance(parser);
    return "not in";
}

static struct jinja_node *parse_comparison(struct jinja_parser *parser)
{
    struct jinja_node_list list = {0};
    int line = mt_jinja_current(parser)->line;
    struct jinja_node *node = parse_binary(parser, SUM);
    for (const char *found = skip_comparison(parser); found != NULL; found = skip_comparison(parser)) {
        struct jinja_node *right = parse_binary(parser, SUM);
        right = make(parser, JINJA_COMPARE_WITH, line, right, NULL, marked_of(found));
        mt_jinja_node_list_add(parser, &list, right);
    }
    if (list.count == 0) return node;
    return mt_jinja_node_adopt(parser, make_plain(parser, JINJA_COMPARISON, line, node, NULL), &list);
}

static struct jinja_node *parse_not(struct jinja_parser *parser)
{
    int line = mt_jinja_current(parser)->line;
    if (!mt_jinja_skip_name(parser, "not")) return parse_comparison(parser);
    if (!mt_jinja_enter(parser)) return &parser->nothing;
    struct jinja_node *operand = parse_not(parser);
    mt_jinja_leave(parser);
    return make_plain(parser, JINJA_NOT, line, operand, NULL);
}

static struct jinja_node *parse_and(struct jinja_parser *parser)
{
    struct jinja_node *node = parse_not(parser);
    for (;;) {
        int line = mt_jinja_current(parser)->line;
        if (!mt_jinja_skip_name(parser, "and")) return node;
        node = make_plain(parser, JINJA_AND, line, node, parse_not(parser));
    }
}

static struct jinja_node *parse_or(struct jinja_parser *parser)
{
    struct jinja_node *node = parse_and(parser);
    for (;;) {
        int line = mt_jinja_current(parser)->line;
        if (!mt_jinja_skip_name(parser, "or")) return node;
        node = make_plain(parser, JINJA_OR, line, node, parse_and(parser));
    }
}

static struct jinja_node *parse_condition(struct jinja_parser *parser)
{
    struct jinja_node *node = parse_or(parser);
    for (;;) {
        int line = mt_jinja_current(parser)->line;
        if (!mt_jinja_skip_name(parser, "if")) return node;
        struct jinja_node *made = mt_jinja_node_new(parser, JINJA_CONDITION, line);
        made->a = node;
        made->b = parse_or(parser);
        if (mt_jinja_skip_name(parser, "else")) made->c = mt_jinja_parse_expression(parser, true);
        node = mt_jinja_node_finish(parser, made);
    }
}

struct jinja_node *mt_jinja_parse_expression(struct jinja_parser *parser, bool condition)
{
    if (!mt_jinja_enter(parser)) return &parser->nothing;
    struct jinja_node *node = condition ? parse_condition(parser) : parse_or(parser);
    mt_jinja_leave(parser);
    return node;
}
