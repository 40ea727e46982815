/* Expressions: a walk over the tree. */
#include "text/jinja/run.h"

static enum mt_status evaluate_items(struct jinja_run *run, const struct jinja_node *node,
                                     struct mt_value *value)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_list_new(run, node->count, &list);
    for (size_t i = 0; status == MT_OK && i < node->count; i++) {
        struct mt_value item;
        status = jinja_evaluate(run, node->items[i], &item);
        if (status == MT_OK) status = jinja_list_add(run, list, item);
    }
    *value = jinja_object(node->kind == JINJA_LIST_OF ? JINJA_LIST : JINJA_TUPLE, list);
    return status;
}

static enum mt_status evaluate_dict(struct jinja_run *run, const struct jinja_node *node,
                                    struct mt_value *value)
{
    struct jinja_dict *dict = NULL;
    enum mt_status status = jinja_dict_new(run, &dict);
    for (size_t i = 0; status == MT_OK && i < node->count; i += 2) {
        struct mt_value key;
        struct mt_value item;
        status = jinja_evaluate(run, node->items[i], &key);
        if (status == MT_OK) status = jinja_evaluate(run, node->items[i + 1], &item);
        if (status == MT_OK) status = jinja_dict_put(run, dict, key, item);
    }
    *value = jinja_object(JINJA_DICT, dict);
    return status;
}

/* and, or: the operand that decides. */
static enum mt_status evaluate_junction(struct jinja_run *run, const struct jinja_node *node,
                                        struct mt_value *value)
{
    bool truth = false;
    enum mt_status status = jinja_evaluate(run, node->a, value);
    if (status == MT_OK) status = jinja_truth(run, *value, &truth);
    if (status != MT_OK || truth == (node->kind == JINJA_OR)) return status;
    return jinja_evaluate(run, node->b, value);
}

static enum mt_status evaluate_condition(struct jinja_run *run, const struct jinja_node *node,
                                         struct mt_value *value)
{
    bool truth = false;
    enum mt_status status = jinja_evaluate(run, node->b, value);
    if (status == MT_OK) status = jinja_truth(run, *value, &truth);
    if (status != MT_OK) return status;
    if (truth) return jinja_evaluate(run, node->a, value);
    if (node->c != NULL) return jinja_evaluate(run, node->c, value);
    *value = jinja_undefined(marked_of("an if without else"));
    return MT_OK;
}

/* a < b < c: each pair, until one fails. */
static enum mt_status evaluate_comparison(struct jinja_run *run, const struct jinja_node *node,
                                          struct mt_value *value)
{
    struct mt_value left;
    bool holds = true;
    enum mt_status status = jinja_evaluate(run, node->a, &left);
    for (size_t i = 0; status == MT_OK && holds && i < node->count; i++) {
        struct mt_value right;
        status = jinja_evaluate(run, node->items[i]->a, &right);
        if (status == MT_OK) status = jinja_compare(run, left, node->items[i]->text, right, &holds);
        left = right;
    }
    *value = mt_jinja_bool(holds);
    return status;
}

static enum mt_status evaluate_binary(struct jinja_run *run, const struct jinja_node *node,
                                      struct mt_value *value)
{
    struct mt_value left;
    struct mt_value right;
    enum mt_status status = jinja_evaluate(run, node->a, &left);
    if (status == MT_OK) status = jinja_evaluate(run, node->b, &right);
    return status == MT_OK ? jinja_binary(run, left, node->text, right, value) : status;
}

static enum mt_status evaluate_concatenation(struct jinja_run *run, const struct jinja_node *node,
                                             struct mt_value *value)
{
    struct jinja_builder builder = {0};
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < node->count; i++) {
        struct mt_value part;
        status = jinja_evaluate(run, node->items[i], &part);
        if (status == MT_OK) status = jinja_write(run, &builder, part);
    }
    *value = marked_value(jinja_built(&builder));
    return status;
}

static enum mt_status evaluate_slice(struct jinja_run *run, const struct jinja_node *slice,
                                     struct mt_value subject, struct mt_value *value)
{
    const struct jinja_node *parts[3] = {slice->a, slice->b, slice->c};
    struct mt_value bounds[3] = {{0}, {0}, {0}};
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < 3; i++) {
        if (parts[i] != NULL) status = jinja_evaluate(run, parts[i], &bounds[i]);
    }
    return status == MT_OK ? jinja_slice(run, subject, bounds, value) : status;
}

static enum mt_status evaluate_item(struct jinja_run *run, const struct jinja_node *node,
                                    struct mt_value *value)
{
    struct mt_value subject;
    struct mt_value index;
    enum mt_status status = jinja_evaluate(run, node->a, &subject);
    if (status != MT_OK) return status;
    if (node->b->kind == JINJA_SLICE_OF) return evaluate_slice(run, node->b, subject, value);
    status = jinja_evaluate(run, node->b, &index);
    return status == MT_OK ? jinja_item(run, subject, index, value) : status;
}

// ------------------------------------------------------------------ calls

struct argument_lists {
    struct jinja_list *items;
    struct jinja_keyword *keywords;
    size_t keyword_count;
    size_t keyword_capacity;
};

static enum mt_status add_keyword(struct jinja_run *run, struct argument_lists *lists, struct mt_marked name,
                                  struct mt_value value)
{
    for (size_t i = 0; i < lists->keyword_count; i++) {
        if (marked_equal(lists->keywords[i].name, name))
            return jinja_fail(run, MT_ERR_FORMAT, "the argument '%.*s' is given twice", marked_width(name),
                              name.text);
    }
    if (lists->keyword_count == lists->keyword_capacity) {
        void *memory = NULL;
        size_t capacity = lists->keyword_capacity * 2 + 4;
        enum mt_status status = jinja_allocate(run, capacity * sizeof *lists->keywords, &memory);
        if (status != MT_OK) return status;
        if (lists->keyword_count != 0)
            memcpy(memory, lists->keywords, lists->keyword_count * sizeof *lists->keywords);
        lists->keywords = memory;
        lists->keyword_capacity = capacity;
    }
    lists->keywords[lists->keyword_count++] = (struct jinja_keyword){name, value};
    return jinja_spend(run, 1 + lists->keyword_count / 8);
}

static enum mt_status add_starred(struct jinja_run *run, struct argument_lists *lists, struct mt_value value,
                                  bool pairs)
{
    struct jinja_list *list = NULL;
    enum mt_status status = MT_OK;
    if (!pairs) {
        status = jinja_walk(run, value, &list);
        for (size_t i = 0; status == MT_OK && i < list->count; i++)
            status = jinja_list_add(run, lists->items, list->items[i]);
        return status;
    }
    if (value.kind != JINJA_DICT)
        return jinja_fail(run, MT_ERR_FORMAT, "argument after ** must be a mapping, not %s",
                          jinja_type_name(value));
    const struct jinja_dict *dict = value.object;
    for (size_t i = 0; status == MT_OK && i < dict->count; i++) {
        if (dict->pairs[i].key.kind != JINJA_STRING)
            return jinja_fail(run, MT_ERR_FORMAT, "keywords must be strings");
        status = add_keyword(run, lists, dict->pairs[i].key.string, dict->pairs[i].value);
    }
    return status;
}

enum mt_status jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node,
                                        struct jinja_arguments *arguments)
{
    struct argument_lists lists = {0};
    *arguments = (struct jinja_arguments){0};
    if (node->count == 0) return MT_OK;
    enum mt_status status = jinja_list_new(run, node->count, &lists.items);
    for (size_t i = 0; status == MT_OK && i < node->count; i++) {
        const struct jinja_node *item = node->items[i];
        bool starred = item->kind == JINJA_STAR || item->kind == JINJA_DOUBLE_STAR;
        bool keyword = item->kind == JINJA_KEYWORD;
        struct mt_value value;
        status = jinja_evaluate(run, starred || keyword ? item->a : item, &value);
        if (status != MT_OK) return status;
        if (starred)
            status = add_starred(run, &lists, value, item->kind == JINJA_DOUBLE_STAR);
        else if (keyword)
            status = add_keyword(run, &lists, item->text, value);
        else
            status = jinja_list_add(run, lists.items, value);
    }
    *arguments =
        (struct jinja_arguments){lists.items->items, lists.items->count, lists.keywords, lists.keyword_count};
    return status;
}

static enum mt_status evaluate_call(struct jinja_run *run, const struct jinja_node *node,
                                    struct mt_value *value)
{
    struct mt_value subject = {0};
    struct jinja_arguments arguments;
    enum mt_status status = jinja_evaluate(run, node->a, &subject);
    if (status == MT_OK) status = jinja_evaluate_arguments(run, node, &arguments);
    if (status != MT_OK) return status;
    run->line = node->line;
    if (node->kind == JINJA_CALL) return jinja_call(run, subject, &arguments, value);
    if (node->kind == JINJA_FILTER) return jinja_call_filter(run, node->text, subject, &arguments, value);
    value->kind = JINJA_BOOL;
    return jinja_call_test(run, node->text, subject, &arguments, &value->truth);
}

// ------------------------------------------------------------------ the walk

static enum mt_status evaluate_not(struct jinja_run *run, const struct jinja_node *node,
                                   struct mt_value *value)
{
    bool truth = false;
    enum mt_status status = jinja_evaluate(run, node->a, value);
    if (status == MT_OK) status = jinja_truth(run, *value, &truth);
    *value = mt_jinja_bool(!truth);
    return status;
}

static enum mt_status evaluate_part(struct jinja_run *run, const struct jinja_node *node,
                                    struct mt_value *value)
{
    enum mt_status status = jinja_evaluate(run, node->a, value);
    if (status != MT_OK) return status;
    struct mt_value subject = *value;
    run->line = node->line;
    if (node->kind == JINJA_UNARY) return jinja_unary(run, node->text, subject, value);
    return jinja_attribute(run, subject, node->text, value);
}

static enum mt_status evaluate_inner(struct jinja_run *run, const struct jinja_node *node,
                                     struct mt_value *value)
{
    switch (node->kind) {
    case JINJA_CONSTANT: *value = node->value; return MT_OK;
    case JINJA_NAME: *value = jinja_lookup(run, node->text); return MT_OK;
    case JINJA_TUPLE_OF:
    case JINJA_LIST_OF: return evaluate_items(run, node, value);
    case JINJA_DICT_OF: return evaluate_dict(run, node, value);
    case JINJA_CONDITION: return evaluate_condition(run, node, value);
    case JINJA_OR:
    case JINJA_AND: return evaluate_junction(run, node, value);
    case JINJA_NOT: return evaluate_not(run, node, value);
    case JINJA_COMPARISON: return evaluate_comparison(run, node, value);
    case JINJA_BINARY: return evaluate_binary(run, node, value);
    case JINJA_CONCATENATION: return evaluate_concatenation(run, node, value);
    case JINJA_UNARY:
    case JINJA_ATTRIBUTE: return evaluate_part(run, node, value);
    case JINJA_ITEM: return evaluate_item(run, node, value);
    case JINJA_CALL:
    case JINJA_FILTER:
    case JINJA_TEST: return evaluate_call(run, node, value);
    default: return jinja_fail(run, MT_ERR_INTERNAL, "not an expression");
    }
}

enum mt_status jinja_evaluate(struct jinja_run *run, const struct jinja_node *node, struct mt_value *value)
{
    *value = (struct mt_value){.kind = JINJA_NONE};
    enum mt_status status = jinja_enter_run(run);
    run->line = node->line;
    if (status == MT_OK) status = evaluate_inner(run, node, value);
    jinja_leave_run(run);
    return status;
}
