/* The window: collecting examples, and the three ways to arrange them into steps. */
#include "train/data/window.h"

#include <stdlib.h>
#include <string.h>

#include "train/data/shuffle.h"

void mt_window_clear(struct mt_window *window)
{
    window->ids.count = 0;
    window->labels.count = 0;
    window->example_count = 0;
    window->step_count = 0;
}

void mt_window_free(struct mt_window *window)
{
    mt_id_list_free(&window->ids);
    mt_id_list_free(&window->labels);
    mt_release(window->ctx, window->examples, window->example_capacity * sizeof *window->examples);
    mt_release(window->ctx, window->steps, window->step_capacity * sizeof *window->steps);
    *window = (struct mt_window){0};
}

static enum mt_status append_ids(struct mt_id_list *list, const struct mt_id_list *more)
{
    enum mt_status status = mt_id_list_reserve(list, more->count);
    if (status != MT_OK) return status;
    memcpy(list->data + list->count, more->data, more->count * sizeof *more->data);
    list->count += more->count;
    return MT_OK;
}

enum mt_status mt_window_add(struct mt_window *window, const struct mt_example *example, uint32_t source)
{
    enum mt_status status = MT_OK;
    window->examples = mt_list_reserve(window->ctx, window->examples, &window->example_capacity,
                                       sizeof *window->examples, window->example_count + 1, &status);
    size_t start = window->ids.count;
    if (status == MT_OK) status = append_ids(&window->ids, &example->ids);
    if (status == MT_OK) status = append_ids(&window->labels, &example->labels);
    if (status != MT_OK) return status;
    window->examples[window->example_count] =
        (struct mt_window_example){.start = start,
                                   .tokens = example->ids.count,
                                   .answer_tokens = (size_t)example->answer_tokens,
                                   .order = (uint32_t)window->example_count,
                                   .source = source};
    window->example_count++;
    return MT_OK;
}

static enum mt_status add_step(struct mt_window *window)
{
    enum mt_status status = MT_OK;
    window->steps = mt_list_reserve(window->ctx, window->steps, &window->step_capacity, sizeof *window->steps,
                                    window->step_count + 1, &status);
    if (status == MT_OK) window->steps[window->step_count++] = (struct mt_window_step){0};
    return status;
}

/* Shorter first; as drawn among equals, so that the order is one and the same everywhere. */
static int compare_length(const void *left, const void *right)
{
    const struct mt_window_example *a = left;
    const struct mt_window_example *b = right;
    if (a->tokens != b->tokens) return a->tokens < b->tokens ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static int compare_step(const void *left, const void *right)
{
    const struct mt_window_example *a = left;
    const struct mt_window_example *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Steps of `examples` examples as they lie. */
static enum mt_status cut(struct mt_window *window, size_t examples)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < window->example_count; i++) {
        if (i % examples == 0) status = add_step(window);
        window->examples[i].step = (uint32_t)(i / examples);
    }
    return status;
}

/* Sorted, cut, and the steps in a shuffled order. */
static enum mt_status fill_buckets(struct mt_window *window, const struct mt_batch_options *options,
                                   uint64_t stream)
{
    qsort(window->examples, window->example_count, sizeof *window->examples, compare_length);
    enum mt_status status = cut(window, (size_t)options->examples);
    if (options->in_file_order) return status;
    for (size_t i = 0; status == MT_OK && i < window->example_count; i++) {
        uint32_t *step = &window->examples[i].step;
        *step = (uint32_t)mt_shuffle(options->seed, stream, window->step_count, *step);
    }
    return status;
}

/* Each example, as drawn, to the first step with room for it. */
static enum mt_status pack(struct mt_window *window, const struct mt_batch_options *options)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < window->example_count; i++) {
        struct mt_window_example *example = &window->examples[i];
        size_t step = 0;
        while (step < window->step_count &&
               (window->steps[step].tokens + example->tokens > (size_t)options->tokens ||
                (options->examples > 0 && window->steps[step].count == (size_t)options->examples))) {
            step++;
        }
        if (step == window->step_count) status = add_step(window);
        if (status != MT_OK) break;
        example->step = (uint32_t)step;
        window->steps[step].tokens += example->tokens;
        window->steps[step].count++;
    }
    return status;
}

enum mt_status mt_window_arrange(struct mt_window *window, const struct mt_batch_options *options,
                                 uint64_t stream)
{
    if (window->example_count == 0) return MT_OK;
    enum mt_status status = MT_OK;
    switch (options->layout) {
    case MT_LAYOUT_BUCKETS: status = fill_buckets(window, options, stream); break;
    case MT_LAYOUT_PACKED: status = pack(window, options); break;
    default: status = cut(window, (size_t)options->examples); break;
    }
    if (status != MT_OK) return status;
    qsort(window->examples, window->example_count, sizeof *window->examples, compare_step);
    for (size_t i = 0; i < window->step_count; i++) window->steps[i] = (struct mt_window_step){0};
    for (size_t i = 0; i < window->example_count; i++) {
        struct mt_window_step *step = &window->steps[window->examples[i].step];
        if (step->count == 0) step->first = i;
        step->count++;
        step->tokens += window->examples[i].tokens;
    }
    return MT_OK;
}
