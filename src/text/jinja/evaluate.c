/* Expressions: a walk over the tree. */
#include "text/jinja/run.h"

static struct mt_value evaluate_items(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_list *list = mt_jinja_list_new(run, node->count);
    for (size_t i = 0; i < node->count && !mt_jinja_failed(run); i++) {
        struct mt_value item = mt_jinja_evaluate(run, node->items[i]);
        mt_jinja_list_add(run, list, item);
    }
    return mt_jinja_object(node->kind == JINJA_LIST_OF ? JINJA_LIST : JINJA_TUPLE, list);
}

static struct mt_value evaluate_dict(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_dict *dict = mt_jinja_dict_new(run);
    for (size_t i = 0; i < node->count && !mt_jinja_failed(run); i += 2) {
        struct mt_value key = mt_jinja_evaluate(run, node->items[i]);
        struct mt_value item = mt_jinja_evaluate(run, node->items[i + 1]);
        mt_jinja_dict_put(run, dict, key, item);
    }
    return mt_jinja_object(JINJA_DICT, dict);
}

/* and, or: the operand that decides. */
static struct mt_value evaluate_junction(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value value = mt_jinja_evaluate(run, node->a);
    if (mt_jinja_truth(run, value) == (node->kind == JINJA_OR)) return value;
    return mt_jinja_evaluate(run, node->b);
}

static struct mt_value evaluate_condition(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value verdict = mt_jinja_evaluate(run, node->b);
    if (mt_jinja_truth(run, verdict)) return mt_jinja_evaluate(run, node->a);
    if (node->c != NULL) return mt_jinja_evaluate(run, node->c);
    return mt_jinja_undefined(marked_of("an if without else"));
}

/* a < b < c: each pair, until one fails. */
static struct mt_value evaluate_comparison(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value left = mt_jinja_evaluate(run, node->a);
    bool holds = true;
    for (size_t i = 0; holds && i < node->count && !mt_jinja_failed(run); i++) {
        struct mt_value right = mt_jinja_evaluate(run, node->items[i]->a);
        holds = mt_jinja_compare(run, left, node->items[i]->text, right);
        left = right;
    }
    return mt_jinja_bool(holds);
}

static struct mt_value evaluate_binary(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value left = mt_jinja_evaluate(run, node->a);
    struct mt_value right = mt_jinja_evaluate(run, node->b);
    return mt_jinja_failed(run) ? mt_jinja_none() : mt_jinja_binary(run, left, node->text, right);
}

static struct mt_value evaluate_concatenation(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_builder out = {.run = run};
    for (size_t i = 0; i < node->count && !mt_jinja_failed(run); i++) {
        struct mt_value part = mt_jinja_evaluate(run, node->items[i]);
        mt_jinja_write(&out, part);
    }
    return mt_jinja_built_value(&out);
}

static struct mt_value evaluate_item(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value subject = mt_jinja_evaluate(run, node->a);
    if (node->b->kind != JINJA_SLICE_OF) {
        struct mt_value index = mt_jinja_evaluate(run, node->b);
        return mt_jinja_failed(run) ? mt_jinja_none() : mt_jinja_item(run, subject, index);
    }
    const struct jinja_node *parts[3] = {node->b->a, node->b->b, node->b->c};
    struct mt_value bounds[3] = {{0}, {0}, {0}};
    for (int i = 0; i < 3; i++) {
        if (parts[i] != NULL) bounds[i] = mt_jinja_evaluate(run, parts[i]);
    }
    return mt_jinja_failed(run) ? mt_jinja_none() : mt_jinja_slice(run, subject, bounds);
}

// ------------------------------------------------------------------ calls

struct argument_lists {
    struct jinja_list *items;
    struct jinja_keyword *keywords;
    size_t keyword_count;
    size_t keyword_capacity;
};

static void add_keyword(struct jinja_run *run, struct argument_lists *lists, struct mt_marked name,
                        struct mt_value value)
{
    for (size_t i = 0; i < lists->keyword_count; i++) {
        if (marked_equal(lists->keywords[i].name, name))
            (void)mt_jinja_fail(run, MT_ERR_FORMAT, "the argument '%.*s' is given twice", marked_width(name),
                                name.text);
    }
    if (lists->keyword_count == lists->keyword_capacity) {
        size_t capacity = lists->keyword_capacity * 2 + 4;
        void *memory = mt_jinja_allocate(run, capacity * sizeof *lists->keywords);
        if (memory == NULL) return;
        if (lists->keyword_count != 0)
            memcpy(memory, lists->keywords, lists->keyword_count * sizeof *lists->keywords);
        lists->keywords = memory;
        lists->keyword_capacity = capacity;
    }
    lists->keywords[lists->keyword_count++] = (struct jinja_keyword){name, value};
    mt_jinja_spend(run, 1 + lists->keyword_count / 8);
}

/* The keywords of "**value". */
static void add_keywords(struct jinja_run *run, struct argument_lists *lists, struct mt_value value)
{
    if (value.kind != JINJA_DICT) {
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "argument after ** must be a mapping, not %s",
                            mt_jinja_type_name(value));
        return;
    }
    const struct jinja_dict *dict = value.object;
    for (size_t i = 0; i < dict->count && !mt_jinja_failed(run); i++) {
        if (dict->pairs[i].key.kind == JINJA_STRING)
            add_keyword(run, lists, dict->pairs[i].key.string, dict->pairs[i].value);
        else
            (void)mt_jinja_fail(run, MT_ERR_FORMAT, "keywords must be strings");
    }
}

struct jinja_arguments mt_jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node)
{
    if (node->count == 0) return (struct jinja_arguments){0};
    struct argument_lists lists = {.items = mt_jinja_list_new(run, node->count)};
    for (size_t i = 0; i < node->count && !mt_jinja_failed(run); i++) {
        const struct jinja_node *item = node->items[i];
        bool plain =
            item->kind != JINJA_STAR && item->kind != JINJA_DOUBLE_STAR && item->kind != JINJA_KEYWORD;
        struct mt_value value = mt_jinja_evaluate(run, plain ? item : item->a);
        if (mt_jinja_failed(run)) break;
        if (item->kind == JINJA_STAR) {
            const struct jinja_list *list = mt_jinja_walk(run, value);
            mt_jinja_list_add_all(run, lists.items, list->items, list->count);
        } else if (item->kind == JINJA_DOUBLE_STAR) {
            add_keywords(run, &lists, value);
        } else if (item->kind == JINJA_KEYWORD) {
            add_keyword(run, &lists, item->text, value);
        } else {
            mt_jinja_list_add(run, lists.items, value);
        }
    }
    return (struct jinja_arguments){lists.items->items, lists.items->count, lists.keywords,
                                    lists.keyword_count};
}

static struct mt_value evaluate_call(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value subject = mt_jinja_evaluate(run, node->a);
    struct jinja_arguments arguments = mt_jinja_evaluate_arguments(run, node);
    if (mt_jinja_failed(run)) return mt_jinja_none();
    run->line = node->line;
    if (node->kind == JINJA_CALL) return mt_jinja_call(run, subject, &arguments);
    if (node->kind == JINJA_FILTER) return mt_jinja_call_filter(run, node->text, subject, &arguments);
    return mt_jinja_bool(mt_jinja_call_test(run, node->text, subject, &arguments));
}

// ------------------------------------------------------------------ the walk

static struct mt_value evaluate_part(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value subject = mt_jinja_evaluate(run, node->a);
    if (mt_jinja_failed(run)) return subject;
    run->line = node->line;
    if (node->kind == JINJA_NOT) return mt_jinja_bool(!mt_jinja_truth(run, subject));
    if (node->kind == JINJA_UNARY) return mt_jinja_unary(run, node->text, subject);
    return mt_jinja_attribute(run, subject, node->text);
}

static struct mt_value evaluate_inner(struct jinja_run *run, const struct jinja_node *node)
{
    switch (node->kind) {
    case JINJA_CONSTANT: return node->value;
    case JINJA_NAME: return mt_jinja_lookup(run, node->text);
    case JINJA_TUPLE_OF:
    case JINJA_LIST_OF: return evaluate_items(run, node);
    case JINJA_DICT_OF: return evaluate_dict(run, node);
    case JINJA_CONDITION: return evaluate_condition(run, node);
    case JINJA_OR:
    case JINJA_AND: return evaluate_junction(run, node);
    case JINJA_COMPARISON: return evaluate_comparison(run, node);
    case JINJA_BINARY: return evaluate_binary(run, node);
    case JINJA_CONCATENATION: return evaluate_concatenation(run, node);
    case JINJA_NOT:
    case JINJA_UNARY:
    case JINJA_ATTRIBUTE: return evaluate_part(run, node);
    case JINJA_ITEM: return evaluate_item(run, node);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST: return evaluate_call(run, node);
    default: return mt_jinja_fail(run, MT_ERR_INTERNAL, "not an expression");
    }
}

struct mt_value mt_jinja_evaluate(struct jinja_run *run, const struct jinja_node *node)
{
    if (mt_jinja_failed(run)) return mt_jinja_none();
    bool entered = mt_jinja_enter_run(run);
    run->line = node->line;
    struct mt_value value = entered ? evaluate_inner(run, node) : mt_jinja_none();
    mt_jinja_leave_run(run);
    return value;
}
