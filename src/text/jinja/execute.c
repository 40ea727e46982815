/* Statements: a walk over the tree that writes. */
#include "text/jinja/run.h"

static enum mt_status assign_target(struct jinja_run *run, const struct jinja_node *target,
                                    struct mt_value value);

enum mt_status jinja_capture(struct jinja_run *run, const struct jinja_node *body, struct mt_marked *text)
{
    struct jinja_builder builder = {0};
    struct jinja_builder *out = run->out;
    run->out = &builder;
    enum mt_status status = jinja_execute(run, body);
    run->out = out;
    *text = jinja_built(&builder);
    return status;
}

/* What a block gives; jinja2 joins it with its surroundings as it is, so it must be text. */
static enum mt_status put_string(struct jinja_run *run, struct mt_value value)
{
    if (value.kind == JINJA_STRING) return jinja_put(run, run->out, value.string);
    return jinja_fail(run, MT_ERR_FORMAT, "expected a str from the block, got '%s'", jinja_type_name(value));
}

// ------------------------------------------------------------------ assignment

static enum mt_status assign_member(struct jinja_run *run, const struct jinja_node *target,
                                    struct mt_value value)
{
    struct mt_value subject = jinja_lookup(run, target->text);
    struct mt_marked member = target->value.string;
    if (subject.kind != JINJA_NAMESPACE)
        return jinja_fail(run, MT_ERR_FORMAT, "cannot assign attribute on non-namespace object");
    if (member.bytes > 0 && member.text[0] == '_')
        return jinja_fail(run, MT_ERR_FORMAT, "a namespace cannot have the attribute '%.*s'",
                          marked_width(member), member.text);
    return jinja_dict_put(run, subject.object, marked_value(member), value);
}

static enum mt_status assign_tuple(struct jinja_run *run, const struct jinja_node *target,
                                   struct mt_value value)
{
    struct jinja_list *list = NULL;
    enum mt_status status = jinja_walk(run, value, &list);
    if (status != MT_OK) return status;
    if (list->count != target->count) {
        return jinja_fail(run, MT_ERR_FORMAT, "%s values to unpack (expected %zu, got %zu)",
                          list->count < target->count ? "not enough" : "too many", target->count,
                          list->count);
    }
    for (size_t i = 0; status == MT_OK && i < target->count; i++)
        status = assign_target(run, target->items[i], list->items[i]);
    return status;
}

static enum mt_status assign_target(struct jinja_run *run, const struct jinja_node *target,
                                    struct mt_value value)
{
    if (target->kind == JINJA_NAME) return jinja_assign(run, target->text, value);
    if (target->kind == JINJA_MEMBER) return assign_member(run, target, value);
    return assign_tuple(run, target, value);
}

static enum mt_status execute_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value value;
    enum mt_status status = jinja_evaluate(run, node->b, &value);
    run->line = node->line;
    return status == MT_OK ? assign_target(run, node->a, value) : status;
}

/* Filters of a block: a chain whose innermost subject is the block's text. */
static enum mt_status apply_filters(struct jinja_run *run, const struct jinja_node *filter,
                                    struct mt_value text, struct mt_value *value)
{
    struct mt_value subject = text;
    struct jinja_arguments arguments;
    enum mt_status status = jinja_enter_run(run);
    if (status == MT_OK && filter->a != NULL) status = apply_filters(run, filter->a, text, &subject);
    if (status == MT_OK) status = jinja_evaluate_arguments(run, filter, &arguments);
    if (status == MT_OK) status = jinja_call_filter(run, filter->text, subject, &arguments, value);
    jinja_leave_run(run);
    return status;
}

/* Runs a body in a scope of its own, and leaves that. */
static enum mt_status capture_scoped(struct jinja_run *run, const struct jinja_node *body,
                                     struct mt_marked *text)
{
    struct jinja_scope *scope = run->scope;
    enum mt_status status = jinja_scope_push(run, scope);
    if (status == MT_OK) status = jinja_capture(run, body, text);
    run->scope = scope;
    return status;
}

static enum mt_status execute_set_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_marked text = {0};
    enum mt_status status = capture_scoped(run, node->c, &text);
    struct mt_value value = marked_value(text);
    if (status != MT_OK || run->flow != JINJA_GOES_ON) return status;
    if (node->b != NULL) status = apply_filters(run, node->b, marked_value(text), &value);
    run->line = node->line;
    return status == MT_OK ? assign_target(run, node->a, value) : status;
}

static enum mt_status execute_filter_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_marked text = {0};
    struct mt_value value;
    enum mt_status status = capture_scoped(run, node->c, &text);
    if (status != MT_OK || run->flow != JINJA_GOES_ON) return status;
    status = apply_filters(run, node->a, marked_value(text), &value);
    return status == MT_OK ? put_string(run, value) : status;
}

static enum mt_status execute_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *scope = run->scope;
    struct jinja_list *values = NULL;
    enum mt_status status = jinja_list_new(run, node->count / 2, &values);
    for (size_t i = 1; status == MT_OK && i < node->count; i += 2) {
        struct mt_value value;
        status = jinja_evaluate(run, node->items[i], &value);
        if (status == MT_OK) status = jinja_list_add(run, values, value);
    }
    if (status == MT_OK) status = jinja_scope_push(run, scope);
    for (size_t i = 0; status == MT_OK && i < node->count / 2; i++)
        status = assign_target(run, node->items[2 * i], values->items[i]);
    if (status == MT_OK) status = jinja_execute(run, node->c);
    run->scope = scope;
    return status;
}

// ------------------------------------------------------------------ loops

/* What passes the filter of "for x in items if ..."; each item is looked at in a scope of its own. */
static enum mt_status filter_items(struct jinja_run *run, const struct jinja_node *node,
                                   struct jinja_scope *outer, const struct jinja_list *items,
                                   struct jinja_list *kept)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < items->count; i++) {
        struct mt_value verdict;
        bool keep = true;
        status = jinja_scope_push(run, outer);
        if (status == MT_OK) status = assign_target(run, node->a, items->items[i]);
        if (status == MT_OK) status = jinja_evaluate(run, node->e, &verdict);
        if (status == MT_OK) status = jinja_truth(run, verdict, &keep);
        if (status == MT_OK && keep) status = jinja_list_add(run, kept, items->items[i]);
    }
    run->scope = outer;
    return status;
}

/* *through: an iteration came to its end, neither broken off nor continued; else, jinja2 runs the else
 * branch. */
static enum mt_status run_iterations(struct jinja_run *run, struct jinja_loop *loop, bool *through)
{
    const struct jinja_node *node = loop->node;
    enum mt_status status = MT_OK;
    for (loop->index = 0; status == MT_OK && loop->index < loop->items.count; loop->index++) {
        status = jinja_scope_push(run, loop->scope);
        if (status == MT_OK) status = jinja_assign(run, marked_of("loop"), jinja_object(JINJA_LOOP, loop));
        run->line = node->line;
        if (status == MT_OK) status = assign_target(run, node->a, loop->items.items[loop->index]);
        if (status == MT_OK) status = jinja_execute(run, node->c);
        enum jinja_flow flow = run->flow;
        *through = *through || flow == JINJA_GOES_ON;
        run->flow = JINJA_GOES_ON;
        if (flow == JINJA_BREAKS) break;
    }
    return status;
}

static enum mt_status run_loop(struct jinja_run *run, const struct jinja_node *node,
                               struct jinja_scope *outer, struct mt_value items, int64_t depth)
{
    struct jinja_scope *scope = run->scope;
    struct jinja_list *list = NULL;
    struct jinja_list *kept = NULL;
    void *memory = NULL;
    bool through = false;
    enum mt_status status = jinja_walk(run, items, &list);
    if (status == MT_OK && node->e != NULL) {
        status = jinja_list_new(run, 0, &kept);
        run->scope = outer;
        if (status == MT_OK) status = filter_items(run, node, outer, list, kept);
        list = kept;
    }
    if (status == MT_OK) status = jinja_allocate(run, sizeof(struct jinja_loop), &memory);
    if (status == MT_OK) {
        struct jinja_loop *loop = memory;
        *loop = (struct jinja_loop){.node = node, .scope = outer, .items = *list, .depth = depth};
        status = run_iterations(run, loop, &through);
    }
    run->scope = outer;
    if (status == MT_OK && !through && node->d != NULL) {
        status = jinja_scope_push(run, outer);
        if (status == MT_OK) status = jinja_execute(run, node->d);
    }
    run->scope = scope;
    return status;
}

static enum mt_status execute_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value items;
    enum mt_status status = jinja_evaluate(run, node->b, &items);
    run->line = node->line;
    return status == MT_OK ? run_loop(run, node, run->scope, items, 0) : status;
}

enum mt_status jinja_loop_again(struct jinja_run *run, struct jinja_loop *loop, struct mt_value items,
                                struct mt_value *result)
{
    struct jinja_builder builder = {0};
    struct jinja_builder *out = run->out;
    if (!loop->node->recursive)
        return jinja_fail(run, MT_ERR_FORMAT, "a loop must be marked recursive to be called");
    run->out = &builder;
    enum mt_status status = run_loop(run, loop->node, loop->scope, items, loop->depth + 1);
    run->out = out;
    *result = marked_value(jinja_built(&builder));
    return status;
}

// ------------------------------------------------------------------ macros and blocks

static enum mt_status make_macro(struct jinja_run *run, const struct jinja_node *node, struct mt_value *value)
{
    void *memory = NULL;
    enum mt_status status = jinja_allocate(run, sizeof(struct jinja_macro), &memory);
    if (status != MT_OK) return status;
    *(struct jinja_macro *)memory = (struct jinja_macro){node, run->scope};
    *value = jinja_object(JINJA_MACRO, memory);
    return MT_OK;
}

/* {% call f(x) %}: f gets the body as its argument "caller". */
static enum mt_status execute_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value callee;
    struct mt_value result;
    struct mt_value caller;
    struct jinja_arguments arguments = {0};
    void *memory = NULL;
    enum mt_status status = jinja_evaluate(run, node->a->a, &callee);
    if (status == MT_OK) status = jinja_evaluate_arguments(run, node->a, &arguments);
    if (status == MT_OK) status = make_macro(run, node, &caller);
    size_t count = arguments.keyword_count;
    if (status == MT_OK) status = jinja_allocate(run, (count + 1) * sizeof *arguments.keywords, &memory);
    if (status != MT_OK) return status;
    struct jinja_keyword *keywords = memory;
    if (count != 0) memcpy(keywords, arguments.keywords, count * sizeof *keywords);
    keywords[count] = (struct jinja_keyword){marked_of("caller"), caller};
    arguments.keywords = keywords;
    arguments.keyword_count = count + 1;
    run->line = node->line;
    status = jinja_call(run, callee, &arguments, &result);
    return status == MT_OK ? put_string(run, result) : status;
}

/* What the block writes goes out as it is, its bytes noted as generated. */
static enum mt_status execute_generation(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_marked text = {0};
    void *memory = NULL;
    enum mt_status status = capture_scoped(run, node->c, &text);
    if (status == MT_OK) status = jinja_allocate(run, text.bytes * sizeof *text.marks, &memory);
    if (status != MT_OK) return status;
    uint16_t *marks = memory;
    for (size_t i = 0; i < text.bytes; i++) marks[i] = jinja_mark_at(text, i) | JINJA_GENERATED;
    text.marks = marks;
    return jinja_put(run, run->out, text);
}

static enum mt_status execute_if(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value verdict;
    bool truth = false;
    enum mt_status status = jinja_evaluate(run, node->a, &verdict);
    if (status == MT_OK) status = jinja_truth(run, verdict, &truth);
    if (status != MT_OK) return status;
    if (truth) return jinja_execute(run, node->b);
    return node->c != NULL ? jinja_execute(run, node->c) : MT_OK;
}

static enum mt_status execute_macro(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value macro;
    enum mt_status status = make_macro(run, node, &macro);
    return status == MT_OK ? jinja_assign(run, node->text, macro) : status;
}

static enum mt_status execute_output(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value value;
    enum mt_status status = jinja_evaluate(run, node->a, &value);
    return status == MT_OK ? jinja_write(run, run->out, value) : status;
}

static enum mt_status execute_body(struct jinja_run *run, const struct jinja_node *node)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && run->flow == JINJA_GOES_ON && i < node->count; i++)
        status = jinja_execute(run, node->items[i]);
    return status;
}

static enum mt_status execute_inner(struct jinja_run *run, const struct jinja_node *node)
{
    switch (node->kind) {
    case JINJA_DATA: return jinja_put(run, run->out, node->text);
    case JINJA_OUTPUT: return execute_output(run, node);
    case JINJA_IF: return execute_if(run, node);
    case JINJA_FOR: return execute_for(run, node);
    case JINJA_SET: return execute_set(run, node);
    case JINJA_SET_BLOCK: return execute_set_block(run, node);
    case JINJA_WITH: return execute_with(run, node);
    case JINJA_MACRO_DEF: return execute_macro(run, node);
    case JINJA_CALL_BLOCK: return execute_call_block(run, node);
    case JINJA_FILTER_BLOCK: return execute_filter_block(run, node);
    case JINJA_GENERATION: return execute_generation(run, node);
    case JINJA_BREAK: run->flow = JINJA_BREAKS; return MT_OK;
    case JINJA_CONTINUE: run->flow = JINJA_CONTINUES; return MT_OK;
    case JINJA_BODY: return execute_body(run, node);
    default: return jinja_fail(run, MT_ERR_INTERNAL, "not a statement");
    }
}

enum mt_status jinja_execute(struct jinja_run *run, const struct jinja_node *node)
{
    enum mt_status status = jinja_enter_run(run);
    run->line = node->line;
    if (status == MT_OK) status = execute_inner(run, node);
    jinja_leave_run(run);
    return status;
}
