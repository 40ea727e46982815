/* Drawing rows, making windows of their examples, arranging those into steps; the position and its return. */
#include "train/data/batches.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/shuffle.h"

#define MOST_WINDOW 1000000 // examples

// Streams of the random generator: one for each use of the seed, an epoch (and a source) apart.
enum stream { STREAM_SELECT = 1, STREAM_DRAWS = 2, STREAM_ROWS = 3, STREAM_STEPS = 4 };

static uint64_t stream_of(enum stream use, uint64_t epoch, uint64_t source)
{
    return (uint64_t)use << 60 | (epoch & 0xFFFFFFFu) << 32 | (source & 0xFFFFFFFFu);
}

// ------------------------------------------------------------------ the window

/* An example of the window: where its tokens lie, and which step it went to. */
struct window_example {
    size_t start; // in window ids and labels
    size_t tokens;
    size_t answer_tokens;
    uint32_t order; // as drawn
    uint32_t step;
    uint32_t source; // among those of the batches
};

struct window_step {
    size_t first; // of the examples, once arranged
    size_t count;
    size_t tokens;
};

struct window {
    struct mt_context *ctx; // borrowed
    struct mt_id_list ids;
    struct mt_id_list labels;
    struct window_example *examples;
    size_t example_count;
    size_t example_capacity;
    struct window_step *steps;
    size_t step_count;
    size_t step_capacity;
};

static void window_clear(struct window *window)
{
    window->ids.count = 0;
    window->labels.count = 0;
    window->example_count = 0;
    window->step_count = 0;
}

static void window_free(struct window *window)
{
    mt_id_list_free(&window->ids);
    mt_id_list_free(&window->labels);
    mt_release(window->ctx, window->examples, window->example_capacity * sizeof *window->examples);
    mt_release(window->ctx, window->steps, window->step_capacity * sizeof *window->steps);
    *window = (struct window){0};
}

static enum mt_status append_ids(struct mt_id_list *list, const struct mt_id_list *more)
{
    enum mt_status status = mt_id_list_reserve(list, more->count);
    if (status != MT_OK) return status;
    memcpy(list->data + list->count, more->data, more->count * sizeof *more->data);
    list->count += more->count;
    return MT_OK;
}

static enum mt_status window_add(struct window *window, const struct mt_example *example, uint32_t source)
{
    enum mt_status status = MT_OK;
    window->examples = mt_list_reserve(window->ctx, window->examples, &window->example_capacity,
                                       sizeof *window->examples, window->example_count + 1, &status);
    size_t start = window->ids.count;
    if (status == MT_OK) status = append_ids(&window->ids, &example->ids);
    if (status == MT_OK) status = append_ids(&window->labels, &example->labels);
    if (status != MT_OK) return status;
    window->examples[window->example_count] =
        (struct window_example){.start = start,
                                .tokens = example->ids.count,
                                .answer_tokens = (size_t)example->answer_tokens,
                                .order = (uint32_t)window->example_count,
                                .source = source};
    window->example_count++;
    return MT_OK;
}

static enum mt_status add_step(struct window *window)
{
    enum mt_status status = MT_OK;
    window->steps = mt_list_reserve(window->ctx, window->steps, &window->step_capacity, sizeof *window->steps,
                                    window->step_count + 1, &status);
    if (status == MT_OK) window->steps[window->step_count++] = (struct window_step){0};
    return status;
}

/* Shorter first; as drawn among equals, so that the order is one and the same everywhere. */
static int compare_length(const void *left, const void *right)
{
    const struct window_example *a = left;
    const struct window_example *b = right;
    if (a->tokens != b->tokens) return a->tokens < b->tokens ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

static int compare_step(const void *left, const void *right)
{
    const struct window_example *a = left;
    const struct window_example *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* Steps of `examples` examples as they lie. */
static enum mt_status cut(struct window *window, size_t examples)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < window->example_count; i++) {
        if (i % examples == 0) status = add_step(window);
        window->examples[i].step = (uint32_t)(i / examples);
    }
    return status;
}

/* Sorted, cut, and the steps in a shuffled order. */
static enum mt_status fill_buckets(struct window *window, const struct mt_batch_options *options,
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
static enum mt_status pack(struct window *window, const struct mt_batch_options *options)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < window->example_count; i++) {
        struct window_example *example = &window->examples[i];
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

/* Arranges examples into steps; `stream` is the window's own, for shuffling steps. */
static enum mt_status window_arrange(struct window *window, const struct mt_batch_options *options,
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
    for (size_t i = 0; i < window->step_count; i++) window->steps[i] = (struct window_step){0};
    for (size_t i = 0; i < window->example_count; i++) {
        struct window_step *step = &window->steps[window->examples[i].step];
        if (step->count == 0) step->first = i;
        step->count++;
        step->tokens += window->examples[i].tokens;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ batches

struct source {
    struct mt_batch_source given;
    uint64_t rows;       // of its part
    uint64_t first_draw; // of an epoch
    uint64_t draws;
};

/* A micro-batch of the step at hand: from `first_offset` on in offsets, which begin anew at 0. */
struct micro {
    size_t first_token;
    size_t tokens;
    size_t first_offset;
    size_t sequences;
};

struct mt_batches {
    struct mt_context *ctx; // borrowed
    struct mt_batch_options options;
    struct source *sources;
    uint64_t draws; // of an epoch
    struct mt_example_maker *maker;
    struct mt_row row;
    struct mt_example example;
    struct window window;
    bool window_ready;
    uint64_t window_end; // the draw after the window's last
    struct mt_batch_position position;
    struct mt_batch_counts counts;
    uint64_t barren; // draws since the last example
    bool surveying;  // an epoch is being gone through; whoever asked for it tells of its bad rows
    bool surveyed;   // that was done: they have been told of
    size_t ranks;    // that take a step's micro-batches in rounds; 0 counts as 1
    // The step at hand.
    struct mt_id_list ids;
    struct mt_id_list labels;
    struct mt_id_list offsets;
    struct mt_id_list token_sources; // of each token
    struct micro *micros;
    size_t micro_count;
    size_t micro_capacity;
};

// ------------------------------------------------------------------ setting up

static enum mt_status check_options(struct mt_context *ctx, const struct mt_batch_options *o)
{
    if (o->source_count == 0) return mt_fail(ctx, MT_ERR_USAGE, "there is no data to train on");
    if (o->layout < 0 || o->layout >= MT_LAYOUTS) return mt_fail(ctx, MT_ERR_USAGE, "unknown batch layout");
    if (o->example.max_length < 2 || o->example.max_length > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE, "max_length is %lld, expected at least 2",
                       (long long)o->example.max_length);
    }
    if (o->tokens < o->example.max_length || o->tokens > INT32_MAX) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "a micro-batch of %lld tokens must hold the longest example of %lld, and fit 31 bits",
                       (long long)o->tokens, (long long)o->example.max_length);
    }
    if (o->examples < (o->layout == MT_LAYOUT_PACKED ? 0 : 1) || o->examples > MOST_WINDOW) {
        return mt_fail(ctx, MT_ERR_USAGE, "a step cannot have %lld examples", (long long)o->examples);
    }
    int64_t unit = o->layout == MT_LAYOUT_BUCKETS ? o->examples : 1;
    if (o->window < 0 || o->window > MOST_WINDOW / unit) {
        return mt_fail(ctx, MT_ERR_USAGE, "the window is %lld, expected at most %d examples",
                       (long long)o->window, MOST_WINDOW);
    }
    return MT_OK;
}

/* The part of the rows that is used, and how many draws of an epoch are of this source. */
static enum mt_status set_source(struct mt_batches *b, size_t index)
{
    struct source *source = &b->sources[index];
    const struct mt_batch_source *given = &source->given;
    const char *path = mt_dataset_path(given->dataset);
    uint64_t rows = mt_dataset_rows(given->dataset);
    double weight = given->weight == 0.0 ? 1.0 : given->weight;
    enum mt_status status = mt_example_check_source(b->ctx, &given->example);
    if (status != MT_OK) return mt_fail_within(b->ctx, status, "%s", path);
    if (!(weight > 0.0) || weight > 1e6) {
        return mt_fail(b->ctx, MT_ERR_USAGE, "%s: the weight is %g, expected more than 0 and at most 1e6",
                       path, weight);
    }
    if (given->first >= rows) {
        return mt_fail(b->ctx, MT_ERR_USAGE, "%s: has only %llu rows, but row %llu is where to begin", path,
                       (unsigned long long)rows, (unsigned long long)given->first);
    }
    source->rows = rows - given->first;
    if (given->count != 0 && given->count < source->rows) source->rows = given->count;
    double draws = floor(weight * (double)source->rows + 0.5);
    if (!(draws + (double)b->draws < 0x1p62))
        return mt_fail(b->ctx, MT_ERR_USAGE, "%s: too many draws", path);
    source->first_draw = b->draws;
    source->draws = (uint64_t)draws;
    b->draws += source->draws;
    return MT_OK;
}

static enum mt_status set_up(struct mt_batches *b)
{
    void *memory = NULL;
    size_t count = b->options.source_count;
    enum mt_status status = mt_allocate_array(b->ctx, count, sizeof *b->sources, &memory);
    b->sources = memory;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        b->sources[i].given = b->options.sources[i];
        status = set_source(b, i);
    }
    b->options.sources = NULL; // copied
    if (status == MT_OK && b->draws == 0) status = mt_fail(b->ctx, MT_ERR_USAGE, "the weights leave no rows");
    if (status == MT_OK) status = mt_example_maker_create(b->ctx, &b->options.example, &b->maker);
    return status;
}

enum mt_status mt_batches_create(struct mt_context *ctx, const struct mt_batch_options *options,
                                 struct mt_batches **batches)
{
    void *memory = NULL;
    *batches = NULL;
    enum mt_status status = check_options(ctx, options);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof **batches, &memory);
    if (status != MT_OK) return status;
    struct mt_batches *made = memory;
    made->ctx = ctx;
    made->options = *options;
    if (made->options.window == 0) made->options.window = options->layout == MT_LAYOUT_BUCKETS ? 16 : 256;
    mt_row_init(ctx, &made->row);
    mt_example_init(ctx, &made->example);
    made->window = (struct window){.ctx = ctx, .ids = {.ctx = ctx}, .labels = {.ctx = ctx}};
    made->ids.ctx = ctx;
    made->labels.ctx = ctx;
    made->token_sources.ctx = ctx;
    made->offsets.ctx = ctx;
    status = set_up(made);
    if (status != MT_OK) {
        mt_batches_free(made);
        return status;
    }
    *batches = made;
    return MT_OK;
}

void mt_batches_free(struct mt_batches *b)
{
    if (b == NULL) return;
    struct mt_context *ctx = b->ctx;
    if (b->sources != NULL) mt_release(ctx, b->sources, b->options.source_count * sizeof *b->sources);
    mt_example_maker_free(b->maker);
    mt_row_free(&b->row);
    mt_example_free(&b->example);
    window_free(&b->window);
    mt_id_list_free(&b->ids);
    mt_id_list_free(&b->labels);
    mt_id_list_free(&b->token_sources);
    mt_id_list_free(&b->offsets);
    mt_release(ctx, b->micros, b->micro_capacity * sizeof *b->micros);
    mt_release(ctx, b, sizeof *b);
}

// ------------------------------------------------------------------ draws

/* The source and the row of a draw. */
static const struct source *draw(const struct mt_batches *b, uint64_t epoch, uint64_t index, uint64_t *row)
{
    uint64_t seed = b->options.seed;
    bool shuffled = !b->options.in_file_order;
    uint64_t place = shuffled ? mt_shuffle(seed, stream_of(STREAM_DRAWS, epoch, 0), b->draws, index) : index;
    size_t s = 0;
    while (place >= b->sources[s].first_draw + b->sources[s].draws) s++;
    const struct source *source = &b->sources[s];
    // Whole rounds take every row; a part of a round takes the first of an order of the epoch's own.
    uint64_t number = (place - source->first_draw) % source->rows;
    if (shuffled) number = mt_shuffle(seed, stream_of(STREAM_ROWS, epoch, s), source->rows, number);
    number += source->given.first;
    uint64_t total = mt_dataset_rows(source->given.dataset);
    // One order for all who share the seed: a held-out part and its rest must not overlap.
    bool part = source->rows < total;
    *row = part ? mt_shuffle(seed, stream_of(STREAM_SELECT, 0, 0), total, number) : number;
    return source;
}

/* A bad row: counted, and named or fatal. */
static enum mt_status bad_row(struct mt_batches *b, enum mt_status status, const struct source *source,
                              uint64_t row)
{
    bool fresh = false;
    bool stop = b->options.stop_at_bad_row;
    const struct mt_row_place place = {.source = source->given.order, .row = row};
    b->counts.bad_rows++;
    if (stop && !b->surveying) return status;
    // Other epochs would name the same rows again, and so does what follows a survey.
    bool again = b->position.epoch > 0 || b->surveyed;
    if (b->options.faults == NULL || (again && !stop)) return MT_OK;
    status = mt_row_faults_add(b->options.faults, b->row.file, place, b->ctx->message, &fresh);
    // While training, a kind is told of when it is met; how many there were, at the end of the epoch.
    if (status == MT_OK && fresh && !b->surveying)
        mt_log_warning(b->options.log, "%s; rows like this are skipped", b->ctx->message);
    return status;
}

/* Makes the example of a draw and adds it to the window, if there is anything to learn from it. */
static enum mt_status take_draw(struct mt_batches *b, uint64_t index)
{
    uint64_t row = 0;
    const struct source *source = draw(b, b->position.epoch, index, &row);
    struct mt_example *example = &b->example;
    b->counts.draws++;
    b->barren++;
    enum mt_status status = mt_dataset_read(source->given.dataset, row, &b->row);
    if (status == MT_OK) status = mt_example_make(b->maker, &source->given.example, &b->row, example);
    if (status == MT_ERR_FORMAT) return bad_row(b, status, source, row);
    if (status != MT_OK) return status;
    b->counts.truncated += example->lost_tokens > 0;
    b->counts.lost_tokens += (uint64_t)example->lost_tokens;
    b->counts.lost_answer += (uint64_t)example->lost_answer;
    if (b->options.faults != NULL && b->position.epoch == 0 && !b->surveyed)
        b->options.faults->lost_turns += (uint64_t)example->lost_turns;
    if (example->answer_tokens == 0) {
        b->counts.without_answer++;
        return MT_OK;
    }
    b->counts.examples++;
    b->barren = 0;
    b->counts.tokens += example->ids.count;
    b->counts.answer_tokens += (uint64_t)example->answer_tokens;
    return window_add(&b->window, example, (uint32_t)(source - b->sources));
}

// ------------------------------------------------------------------ windows and steps

static size_t window_examples(const struct mt_batch_options *options)
{
    switch (options->layout) {
    case MT_LAYOUT_BUCKETS: return (size_t)(options->window * options->examples);
    case MT_LAYOUT_PACKED: return (size_t)options->window;
    default: return (size_t)options->examples;
    }
}

/* Fills the window from position.index on; the epoch's end ends it early. */
static enum mt_status make_window(struct mt_batches *b)
{
    size_t wanted = window_examples(&b->options);
    uint64_t index = b->position.index;
    const struct mt_batch_counts counted = b->counts;
    enum mt_status status = MT_OK;
    window_clear(&b->window);
    while (status == MT_OK && index < b->draws && b->window.example_count < wanted) {
        status = take_draw(b, index++);
    }
    b->window_end = index;
    if (b->position.step > 0) b->counts = counted; // a window made again, in the middle of it
    if (status == MT_OK) {
        // Steps are shuffled apart from one window to the next.
        uint64_t stream = stream_of(STREAM_STEPS, b->position.epoch, b->position.index);
        status = window_arrange(&b->window, &b->options, stream);
    }
    b->window_ready = status == MT_OK;
    return status;
}

enum mt_status mt_batches_mark_drawn(struct mt_batches *b, unsigned char *const *drawn)
{
    enum mt_status status = MT_OK;
    bool within = b->position.step > 0;
    if (within && !b->window_ready) status = make_window(b); // put back, and not gone on from
    for (uint64_t epoch = 0; epoch <= b->position.epoch && status == MT_OK; epoch++) {
        uint64_t end = within ? b->window_end : b->position.index;
        if (epoch < b->position.epoch) end = b->draws;
        for (uint64_t i = 0; i < end; i++) {
            uint64_t row = 0;
            const struct source *source = draw(b, epoch, i, &row);
            drawn[source - b->sources][row] = 1;
        }
    }
    return status;
}

/* Makes sure that position.step is a step of the window, going to the next windows and epochs if need be. */
static enum mt_status find_step(struct mt_batches *b)
{
    for (;;) {
        if (!b->window_ready) {
            enum mt_status status = make_window(b);
            if (status != MT_OK) return status;
        }
        if (b->position.step < b->window.step_count) return MT_OK;
        b->window_ready = false;
        b->position.index = b->window_end;
        b->position.step = 0;
        if (b->position.index < b->draws) continue;
        if (b->barren >= b->draws) {
            return mt_fail(b->ctx, MT_ERR_FORMAT,
                           "no row of the data gives an example (%llu bad, %llu without an answer within "
                           "data.max_length)",
                           (unsigned long long)b->counts.bad_rows,
                           (unsigned long long)b->counts.without_answer);
        }
        if (b->position.epoch == 0 && b->options.faults != NULL)
            mt_row_faults_tell(b->options.faults, b->options.log);
        b->position.index = 0;
        b->position.epoch++;
    }
}

/* Opens a micro-batch at the end of what the step holds so far. */
static enum mt_status add_micro(struct mt_batches *b)
{
    enum mt_status status = MT_OK;
    b->micros = mt_list_reserve(b->ctx, b->micros, &b->micro_capacity, sizeof *b->micros, b->micro_count + 1,
                                &status);
    if (status != MT_OK) return status;
    b->micros[b->micro_count++] =
        (struct micro){.first_token = b->ids.count, .first_offset = b->offsets.count};
    return mt_id_list_append(&b->offsets, 0);
}

/* How many micro-batches of at most `limit` tokens a step's examples make, in their order. */
static size_t count_micros(const struct mt_batches *b, const struct window_step *step, size_t limit)
{
    size_t count = 0;
    size_t held = 0;
    for (size_t i = 0; i < step->count; i++) {
        size_t tokens = b->window.examples[step->first + i].tokens;
        if (count == 0 || held + tokens > limit) {
            count++;
            held = 0;
        }
        held += tokens;
    }
    return count;
}

/* The fewest tokens a micro-batch can be held to without one round more. */
static size_t find_limit(const struct mt_batches *b, const struct window_step *step)
{
    size_t high = (size_t)b->options.tokens;
    if (b->ranks <= 1) return high;
    size_t most = (count_micros(b, step, high) + b->ranks - 1) / b->ranks * b->ranks;
    size_t low = 1; // a limit below the longest example is none for it: it gets a micro-batch of its own
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (count_micros(b, step, middle) <= most) high = middle;
        if (high != middle) low = middle + 1;
    }
    return high;
}

void mt_batches_share(struct mt_batches *b, size_t ranks)
{
    b->ranks = ranks;
}

void mt_batches_cut(struct mt_batches *b, int64_t tokens)
{
    assert(b->options.layout != MT_LAYOUT_PACKED && tokens >= b->options.example.max_length);
    b->options.tokens = tokens;
}

static enum mt_status add_example(struct mt_batches *b, const struct window_example *example, size_t limit)
{
    enum mt_status status = MT_OK;
    size_t held = b->micro_count > 0 ? b->micros[b->micro_count - 1].tokens : 0;
    if (b->micro_count == 0 || held + example->tokens > limit) status = add_micro(b);
    if (status == MT_OK) status = mt_id_list_reserve(&b->ids, example->tokens);
    if (status == MT_OK) status = mt_id_list_reserve(&b->labels, example->tokens);
    if (status == MT_OK) status = mt_id_list_reserve(&b->token_sources, example->tokens);
    if (status != MT_OK) return status;
    size_t bytes = example->tokens * sizeof *b->ids.data;
    memcpy(b->ids.data + b->ids.count, b->window.ids.data + example->start, bytes);
    memcpy(b->labels.data + b->labels.count, b->window.labels.data + example->start, bytes);
    b->ids.count += example->tokens;
    b->labels.count += example->tokens;
    for (size_t i = 0; i < example->tokens; i++)
        b->token_sources.data[b->token_sources.count++] = (int32_t)example->source;
    struct micro *micro = &b->micros[b->micro_count - 1];
    micro->tokens += example->tokens;
    micro->sequences++;
    return mt_id_list_append(&b->offsets, (int32_t)micro->tokens);
}

enum mt_status mt_batches_next(struct mt_batches *b, struct mt_step *step)
{
    b->ids.count = 0;
    b->labels.count = 0;
    b->offsets.count = 0;
    b->token_sources.count = 0;
    b->micro_count = 0;
    enum mt_status status = find_step(b);
    if (status != MT_OK) return status;
    const struct window_step *made = &b->window.steps[b->position.step];
    size_t limit = find_limit(b, made);
    *step = (struct mt_step){.epoch = b->position.epoch};
    for (size_t i = 0; status == MT_OK && i < made->count; i++) {
        const struct window_example *example = &b->window.examples[made->first + i];
        status = add_example(b, example, limit);
        step->answer_tokens += (int64_t)example->answer_tokens;
    }
    if (status != MT_OK) return status;
    step->examples = (int64_t)made->count;
    step->tokens = (int64_t)made->tokens;
    step->micro_batches = b->micro_count;
    b->position.step++;
    b->counts.steps++;
    return MT_OK;
}

void mt_batches_micro(const struct mt_batches *b, size_t index, struct mt_batch *batch)
{
    assert(index < b->micro_count);
    const struct micro *micro = &b->micros[index];
    batch->tokens = (int64_t)micro->tokens;
    batch->sequences = (int64_t)micro->sequences;
    batch->ids = b->ids.data + micro->first_token;
    batch->labels = b->labels.data + micro->first_token;
    batch->offsets = b->offsets.data + micro->first_offset;
    batch->mask = NULL;
    batch->first_sequence = micro->first_offset - index; // each before it has one offset more than sequences
}

size_t mt_batches_sources(const struct mt_batches *b)
{
    return b->options.source_count;
}

const int32_t *mt_batches_micro_sources(const struct mt_batches *b, size_t index)
{
    assert(index < b->micro_count);
    return b->token_sources.data + b->micros[index].first_token;
}

// ------------------------------------------------------------------ position and counts

uint64_t mt_batches_draws(const struct mt_batches *b)
{
    return b->draws;
}

struct mt_batch_position mt_batches_position(const struct mt_batches *b)
{
    return b->position;
}

enum mt_status mt_batches_seek(struct mt_batches *b, struct mt_batch_position position,
                               const struct mt_batch_counts *counts)
{
    if (position.index > b->draws) {
        return mt_fail(
            b->ctx, MT_ERR_USAGE,
            "the run stopped at draw %llu of an epoch, but an epoch has %llu: has the data changed?",
            (unsigned long long)position.index, (unsigned long long)b->draws);
    }
    b->position = position;
    b->window_ready = false;
    b->barren = 0;
    if (counts != NULL) b->counts = *counts;
    return MT_OK;
}

struct mt_batch_counts mt_batches_counts(const struct mt_batches *b)
{
    return b->counts;
}

enum mt_status mt_batches_survey(struct mt_batches *b, uint64_t epoch, struct mt_batch_counts *counts)
{
    const struct mt_batch_position before = b->position;
    const struct mt_batch_counts counted = b->counts;
    b->counts = (struct mt_batch_counts){0};
    b->position = (struct mt_batch_position){.epoch = epoch};
    b->surveying = true;
    enum mt_status status = MT_OK;
    while (status == MT_OK && b->position.index < b->draws) {
        status = make_window(b);
        b->counts.steps += b->window.step_count;
        b->position.index = b->window_end;
    }
    *counts = b->counts;
    b->counts = counted;
    b->surveying = false;
    b->surveyed = true;
    b->position = before;
    b->barren = 0;
    b->window_ready = false;
    return status;
}
