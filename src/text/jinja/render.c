/* A rendering from beginning to end, and its output as spans. */
#include "formats/text/lists.h"
#include "text/jinja/run.h"

#define USUAL_STEPS  ((size_t)20000000)
#define USUAL_OUTPUT ((size_t)64 << 20)
#define USUAL_MEMORY ((size_t)512 << 20)

static size_t limit_or(size_t limit, size_t usual)
{
    return limit != 0 ? limit : usual;
}

struct span_list {
    struct mt_context *ctx;
    struct mt_jinja_span *data;
    size_t count;
    size_t capacity;
};

/* Adds bytes to the list: to its last span, where that ends here and has the same mark. */
static enum mt_status add_span(struct span_list *list, size_t start, size_t end, unsigned mark)
{
    struct mt_jinja_span *last = list->count != 0 ? &list->data[list->count - 1] : NULL;
    if (last != NULL && last->end == start && last->mark == mark) {
        last->end = end;
        return MT_OK;
    }
    enum mt_status status = MT_OK;
    list->data =
        mt_list_reserve(list->ctx, list->data, &list->capacity, sizeof *list->data, list->count + 1, &status);
    if (status != MT_OK) return status;
    list->data[list->count++] = (struct mt_jinja_span){start, end, mark};
    return MT_OK;
}

/* Shrinks a list to its items, so that it can be freed by their number. */
static enum mt_status settle(struct span_list *list, struct mt_jinja_span **spans, size_t *count)
{
    void *data = list->data;
    enum mt_status status = mt_reallocate(list->ctx, list->capacity * sizeof *list->data,
                                          list->count * sizeof *list->data, &data);
    if (status != MT_OK) {
        mt_release(list->ctx, list->data, list->capacity * sizeof *list->data);
        return status;
    }
    *spans = data;
    *count = list->count;
    return MT_OK;
}

static enum mt_status make_spans(struct mt_marked text, struct mt_jinja_output *output)
{
    struct span_list marks = {.ctx = output->ctx};
    struct span_list generations = {.ctx = output->ctx};
    enum mt_status status = MT_OK;
    for (size_t at = 0, end = 0; status == MT_OK && at < text.bytes; at = end) {
        uint16_t mark = mt_jinja_mark_at(text, at);
        end = text.marks == NULL ? text.bytes : at + 1;
        while (end < text.bytes && text.marks[end] == mark) end++;
        status = add_span(&marks, at, end, mark & MT_JINJA_MARK_LAST);
        if (status == MT_OK && (mark & JINJA_GENERATED) != 0)
            status = add_span(&generations, at, end, mark & JINJA_SECOND);
    }
    for (size_t i = 0; i < generations.count; i++) generations.data[i].mark = 0;
    if (status != MT_OK) {
        mt_release(output->ctx, marks.data, marks.capacity * sizeof *marks.data);
        mt_release(output->ctx, generations.data, generations.capacity * sizeof *generations.data);
        return status;
    }
    status = settle(&marks, &output->marks, &output->mark_count);
    if (status != MT_OK) {
        mt_release(output->ctx, generations.data, generations.capacity * sizeof *generations.data);
        return status;
    }
    return settle(&generations, &output->generations, &output->generation_count);
}

static enum mt_status make_output(struct jinja_run *run, struct mt_marked text, size_t most,
                                  struct mt_jinja_output *output)
{
    void *memory = NULL;
    if (text.bytes > most)
        (void)mt_jinja_fail(run, MT_ERR_UNSUPPORTED, "the text has %zu bytes, the limit is %zu", text.bytes,
                            most);
    if (mt_jinja_failed(run)) return run->status;
    enum mt_status status = mt_allocate(run->ctx, text.bytes + 1, &memory);
    if (status != MT_OK) return status;
    output->text = memory;
    output->bytes = text.bytes;
    if (text.bytes != 0) memcpy(output->text, text.text, text.bytes);
    output->text[text.bytes] = '\0';
    return make_spans(text, output);
}

enum mt_status mt_jinja_render(const struct mt_jinja *template, const struct mt_jinja_values *values,
                               const struct mt_jinja_options *options, struct mt_jinja_output *output)
{
    struct jinja_builder builder = {0};
    struct jinja_scope caller = values->scope;
    struct jinja_run run = {
        .ctx = values->run.ctx, .template = template, .options = options, .out = &builder};
    builder.run = &run;
    run.steps_left = limit_or(options->limits.steps, USUAL_STEPS);
    run.memory_left = limit_or(options->limits.memory_bytes, USUAL_MEMORY);
    *output = (struct mt_jinja_output){.ctx = values->run.ctx};
    run.status = values->run.status;
    mt_arena_init(&run.arena, values->run.ctx, (size_t)64 << 10);
    run.scope = &caller;
    mt_jinja_scope_push(&run, &caller);
    mt_jinja_execute(&run, template->body);
    size_t most = limit_or(options->limits.output_bytes, USUAL_OUTPUT);
    enum mt_status status = make_output(&run, mt_jinja_built(&builder), most, output);
    mt_arena_free(&run.arena);
    if (status != MT_OK) mt_jinja_output_free(output);
    return status;
}

void mt_jinja_output_free(struct mt_jinja_output *output)
{
    if (output->ctx == NULL) return;
    if (output->text != NULL) mt_release(output->ctx, output->text, output->bytes + 1);
    mt_release(output->ctx, output->marks, output->mark_count * sizeof *output->marks);
    mt_release(output->ctx, output->generations, output->generation_count * sizeof *output->generations);
    *output = (struct mt_jinja_output){0};
}
