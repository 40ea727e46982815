/* Statements: a walk over the tree that writes. */
#include "text/jinja/run.h"

struct mt_marked mt_jinja_capture(struct jinja_run *run, const struct jinja_node *body)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_builder *out = run->out;
    run->out = &builder;
    mt_jinja_execute(run, body);
    run->out = out;
    return mt_jinja_built(&builder);
}

/* What a block gives; jinja2 joins it with its surroundings as it is, so it must be text. */
static void put_string(struct jinja_run *run, struct mt_value value)
{
    if (value.kind == JINJA_STRING)
        mt_jinja_put(run->out, value.string);
    else
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "expected a str from the block, got '%s'",
                            mt_jinja_type_name(value));
}

// ------------------------------------------------------------------ assignment

static void assign_member(struct jinja_run *run, const struct jinja_node *target, struct mt_value value)
{
    struct mt_value subject = mt_jinja_lookup(run, target->text);
    struct mt_marked member = target->value.string;
    if (subject.kind != JINJA_NAMESPACE)
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "cannot assign attribute on non-namespace object");
    else if (member.bytes > 0 && member.text[0] == '_')
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "a namespace cannot have the attribute '%.*s'",
                            marked_width(member), member.text);
    else
        mt_jinja_dict_put(run, subject.object, marked_value(member), value);
}

static void assign_target(struct jinja_run *run, const struct jinja_node *target, struct mt_value value)
{
    if (target->kind == JINJA_NAME) {
        mt_jinja_assign(run, target->text, value);
        return;
    }
    if (target->kind == JINJA_MEMBER) {
        assign_member(run, target, value);
        return;
    }
    const struct jinja_list *list = mt_jinja_walk(run, value);
    if (list->count != target->count)
        (void)mt_jinja_fail(run, MT_ERR_FORMAT, "%s values to unpack (expected %zu, got %zu)",
                            list->count < target->count ? "not enough" : "too many", target->count,
                            list->count);
    for (size_t i = 0; i < target->count && !mt_jinja_failed(run); i++)
        assign_target(run, target->items[i], list->items[i]);
}

static void execute_set(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value value = mt_jinja_evaluate(run, node->b);
    run->line = node->line;
    assign_target(run, node->a, value);
}

/* Filters of a block: a chain whose innermost subject is the block's text. */
static struct mt_value apply_filters(struct jinja_run *run, const struct jinja_node *filter,
                                     struct mt_value text)
{
    struct mt_value value = text;
    if (mt_jinja_enter_run(run)) {
        struct mt_value subject = filter->a != NULL ? apply_filters(run, filter->a, text) : text;
        struct jinja_arguments arguments = mt_jinja_evaluate_arguments(run, filter);
        if (!mt_jinja_failed(run)) value = mt_jinja_call_filter(run, filter->text, subject, &arguments);
    }
    mt_jinja_leave_run(run);
    return value;
}

/* Runs a body in a scope of its own, and leaves that. */
static struct mt_marked capture_scoped(struct jinja_run *run, const struct jinja_node *body)
{
    struct jinja_scope *scope = run->scope;
    mt_jinja_scope_push(run, scope);
    struct mt_marked text = mt_jinja_capture(run, body);
    run->scope = scope;
    return text;
}

/* {% set x %} and {% filter f %}: the text of a block, through filters. */
static void execute_captured(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_node *filter = node->kind == JINJA_SET_BLOCK ? node->b : node->a;
    struct mt_value value = marked_value(capture_scoped(run, node->c));
    if (mt_jinja_failed(run) || run->flow != JINJA_GOES_ON) return;
    if (filter != NULL) value = apply_filters(run, filter, value);
    if (node->kind == JINJA_SET_BLOCK) {
        run->line = node->line;
        assign_target(run, node->a, value);
    } else {
        put_string(run, value);
    }
}

static void execute_with(struct jinja_run *run, const struct jinja_node *node)
{
    struct jinja_scope *scope = run->scope;
    struct jinja_list *values = mt_jinja_list_new(run, node->count / 2);
    for (size_t i = 1; i < node->count && !mt_jinja_failed(run); i += 2) {
        struct mt_value value = mt_jinja_evaluate(run, node->items[i]);
        mt_jinja_list_add(run, values, value);
    }
    mt_jinja_scope_push(run, scope);
    for (size_t i = 0; i < values->count; i++) assign_target(run, node->items[2 * i], values->items[i]);
    mt_jinja_execute(run, node->c);
    run->scope = scope;
}

// ------------------------------------------------------------------ loops

/* What passes the filter of "for x in items if ..."; each item is looked at in a scope of its own. */
static struct jinja_list *filter_items(struct jinja_run *run, const struct jinja_node *node,
                                       struct jinja_scope *outer, const struct jinja_list *items)
{
    struct jinja_list *kept = mt_jinja_list_new(run, 0);
    for (size_t i = 0; i < items->count && !mt_jinja_failed(run); i++) {
        mt_jinja_scope_push(run, outer);
        assign_target(run, node->a, items->items[i]);
        struct mt_value verdict = mt_jinja_evaluate(run, node->e);
        if (mt_jinja_truth(run, verdict)) mt_jinja_list_add(run, kept, items->items[i]);
    }
    run->scope = outer;
    return kept;
}

/* True: an iteration came to its end, neither broken off nor continued; else, jinja2 runs the else branch. */
static bool run_iterations(struct jinja_run *run, struct jinja_loop *loop)
{
    const struct jinja_node *node = loop->node;
    bool through = false;
    for (loop->index = 0; loop->index < loop->items.count && !mt_jinja_failed(run); loop->index++) {
        mt_jinja_scope_push(run, loop->scope);
        mt_jinja_assign(run, marked_of("loop"), mt_jinja_object(JINJA_LOOP, loop));
        run->line = node->line;
        assign_target(run, node->a, loop->items.items[loop->index]);
        mt_jinja_execute(run, node->c);
        enum jinja_flow flow = run->flow;
        through = through || flow == JINJA_GOES_ON;
        run->flow = JINJA_GOES_ON;
        if (flow == JINJA_BREAKS) break;
    }
    return through;
}

static void run_loop(struct jinja_run *run, const struct jinja_node *node, struct jinja_scope *outer,
                     struct mt_value items, int64_t depth)
{
    struct jinja_scope *scope = run->scope;
    const struct jinja_list *list = mt_jinja_walk(run, items);
    run->scope = outer;
    if (node->e != NULL) list = filter_items(run, node, outer, list);
    struct jinja_loop *loop = mt_jinja_allocate(run, sizeof *loop);
    if (loop != NULL) {
        *loop = (struct jinja_loop){.node = node, .scope = outer, .items = *list, .depth = depth};
        bool through = run_iterations(run, loop);
        run->scope = outer;
        if (!through && node->d != NULL) {
            mt_jinja_scope_push(run, outer);
            mt_jinja_execute(run, node->d);
        }
    }
    run->scope = scope;
}

static void execute_for(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value items = mt_jinja_evaluate(run, node->b);
    run->line = node->line;
    run_loop(run, node, run->scope, items, 0);
}

struct mt_value mt_jinja_loop_again(struct jinja_run *run, struct jinja_loop *loop, struct mt_value items)
{
    struct jinja_builder builder = {.run = run};
    struct jinja_builder *out = run->out;
    if (!loop->node->recursive)
        return mt_jinja_fail(run, MT_ERR_FORMAT, "a loop must be marked recursive to be called");
    run->out = &builder;
    run_loop(run, loop->node, loop->scope, items, loop->depth + 1);
    run->out = out;
    return mt_jinja_built_value(&builder);
}

// ------------------------------------------------------------------ macros and blocks

static struct mt_value make_macro(struct jinja_run *run, const struct jinja_node *node)
{
    const struct jinja_macro macro = {node, run->scope};
    return mt_jinja_kept(run, JINJA_MACRO, &macro, sizeof macro);
}

/* {% call f(x) %}: f gets the body as its argument "caller". */
static void execute_call_block(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value callee = mt_jinja_evaluate(run, node->a->a);
    struct jinja_arguments arguments = mt_jinja_evaluate_arguments(run, node->a);
    struct mt_value caller = make_macro(run, node);
    size_t count = arguments.keyword_count;
    struct jinja_keyword *keywords = mt_jinja_allocate(run, (count + 1) * sizeof *keywords);
    if (keywords == NULL) return;
    if (count != 0) memcpy(keywords, arguments.keywords, count * sizeof *keywords);
    keywords[count] = (struct jinja_keyword){marked_of("caller"), caller};
    arguments.keywords = keywords;
    arguments.keyword_count = count + 1;
    run->line = node->line;
    put_string(run, mt_jinja_call(run, callee, &arguments));
}

/* What the block writes goes out as it is, its bytes noted as generated. */
static void execute_generation(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_marked text = capture_scoped(run, node->c);
    uint16_t *marks = mt_jinja_allocate(run, text.bytes * sizeof *marks);
    if (marks == NULL) return;
    run->second = !run->second;
    unsigned block = JINJA_GENERATED | (run->second ? JINJA_SECOND : 0u);
    for (size_t i = 0; i < text.bytes; i++)
        marks[i] = (uint16_t)((mt_jinja_mark_at(text, i) & MT_JINJA_MARK_LAST) | block);
    text.marks = marks;
    mt_jinja_put(run->out, text);
}

static void execute_if(struct jinja_run *run, const struct jinja_node *node)
{
    struct mt_value verdict = mt_jinja_evaluate(run, node->a);
    const struct jinja_node *branch = mt_jinja_truth(run, verdict) ? node->b : node->c;
    if (branch != NULL) mt_jinja_execute(run, branch);
}

static void execute_inner(struct jinja_run *run, const struct jinja_node *node)
{
    switch (node->kind) {
    case JINJA_DATA: mt_jinja_put(run->out, node->text); return;
    case JINJA_OUTPUT: mt_jinja_write(run->out, mt_jinja_evaluate(run, node->a)); return;
    case JINJA_IF: execute_if(run, node); return;
    case JINJA_FOR: execute_for(run, node); return;
    case JINJA_SET: execute_set(run, node); return;
    case JINJA_SET_BLOCK:
    case JINJA_FILTER_BLOCK: execute_captured(run, node); return;
    case JINJA_WITH: execute_with(run, node); return;
    case JINJA_MACRO_DEF: mt_jinja_assign(run, node->text, make_macro(run, node)); return;
    case JINJA_CALL_BLOCK: execute_call_block(run, node); return;
    case JINJA_GENERATION: execute_generation(run, node); return;
    case JINJA_BREAK: run->flow = JINJA_BREAKS; return;
    case JINJA_CONTINUE: run->flow = JINJA_CONTINUES; return;
    case JINJA_BODY:
        for (size_t i = 0; i < node->count && run->flow == JINJA_GOES_ON && !mt_jinja_failed(run); i++)
            mt_jinja_execute(run, node->items[i]);
        return;
    default: (void)mt_jinja_fail(run, MT_ERR_INTERNAL, "not a statement");
    }
}

void mt_jinja_execute(struct jinja_run *run, const struct jinja_node *node)
{
    if (mt_jinja_failed(run)) return;
    bool entered = mt_jinja_enter_run(run);
    run->line = node->line;
    if (entered) execute_inner(run, node);
    mt_jinja_leave_run(run);
}
