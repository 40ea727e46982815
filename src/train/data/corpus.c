/* Opening tokenizer, template and files; the split; counting steps. */
#include "train/data/corpus.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "formats/hf/hf_generation.h"
#include "text/plain_text.h"
#include "text/row_identity.h"

#define ARENA_BYTES    4096
#define LOOKED_AT      64    // rows of a source, to see how answers begin
#define SURVEYED_DRAWS 10000 // so few are always gone through, to say at once what is wrong with them

// ------------------------------------------------------------------ files and their parts

/* The source of a dataset. */
static const struct mt_train_source *source_at(const struct mt_train_settings *settings, size_t index)
{
    if (index < settings->source_count) return &settings->sources[index];
    return &settings->held_out[index - settings->source_count];
}

static enum mt_status open_datasets(struct mt_corpus *corpus, const struct mt_train_settings *settings)
{
    void *memory = NULL;
    corpus->dataset_count = settings->source_count + settings->held_out_count;
    enum mt_status status =
        mt_allocate_array(corpus->ctx, corpus->dataset_count, sizeof(struct mt_dataset *), &memory);
    corpus->datasets = memory;
    for (size_t i = 0; status == MT_OK && i < corpus->dataset_count; i++) {
        const struct mt_train_source *source = source_at(settings, i);
        const struct mt_dataset_options options = {
            .format = source->format, .columns = source->columns, .text_rows = source->text_rows};
        status = mt_dataset_open(corpus->ctx, source->path, &options, &corpus->datasets[i]);
    }
    return status;
}

/* The rows of a source: how many are held back, and how many are trained on. */
struct parts {
    uint64_t held, trained;
};

static struct parts parts_of(const struct mt_corpus *corpus, const struct mt_train_settings *settings,
                             size_t index)
{
    const struct mt_train_source *source = source_at(settings, index);
    uint64_t rows = mt_dataset_rows(corpus->datasets[index]);
    if (source->limit > 0 && source->limit < rows) rows = source->limit;
    if (index >= settings->source_count) return (struct parts){.held = rows};
    uint64_t held = (uint64_t)floor(settings->split * (double)rows);
    return (struct parts){.held = held, .trained = rows - held};
}

/* How the rows of dataset `index` are read. */
static struct mt_batch_source batch_source(const struct mt_corpus *corpus,
                                           const struct mt_train_settings *settings, size_t index)
{
    const struct mt_train_source *source = source_at(settings, index);
    return (struct mt_batch_source){.dataset = corpus->datasets[index],
                                    .example = {.form = source->form, .mapping = source->fields},
                                    .weight = source->weight,
                                    .order = index};
}

static struct mt_example_options example_options(const struct mt_corpus *corpus,
                                                 const struct mt_train_settings *settings)
{
    return (struct mt_example_options){.tokenizer = corpus->tokenizer,
                                       .template = corpus->template,
                                       .special = corpus->special,
                                       .stops = corpus->stops.data,
                                       .stop_count = corpus->stops.count,
                                       .max_length = settings->max_length,
                                       .vocabulary = corpus->vocabulary};
}

static struct mt_batch_options batch_options(struct mt_corpus *corpus,
                                             const struct mt_train_settings *settings)
{
    return (struct mt_batch_options){.example = example_options(corpus, settings),
                                     .layout = settings->batching,
                                     .examples = settings->examples,
                                     .tokens = settings->tokens,
                                     .window = settings->window,
                                     .seed = settings->seed,
                                     .stop_at_bad_row = settings->stop_at_bad_row,
                                     .log = corpus->log,
                                     .faults = &corpus->faults};
}

static enum mt_status make_training(struct mt_corpus *corpus, const struct mt_train_settings *settings)
{
    struct mt_batch_options options = batch_options(corpus, settings);
    size_t bytes = settings->source_count * sizeof(struct mt_batch_source);
    void *memory = NULL;
    enum mt_status status = mt_allocate(corpus->ctx, bytes, &memory);
    if (status != MT_OK) return status;
    struct mt_batch_source *sources = memory;
    for (size_t i = 0; status == MT_OK && i < settings->source_count; i++) {
        struct parts parts = parts_of(corpus, settings, i);
        sources[i] = batch_source(corpus, settings, i);
        sources[i].first = parts.held;
        sources[i].count = parts.trained;
        if (parts.held + parts.trained == 0) {
            status = mt_fail(corpus->ctx, MT_ERR_FORMAT, "%s: has no rows", settings->sources[i].path);
        } else if (parts.trained == 0) {
            status = mt_fail(corpus->ctx, MT_ERR_USAGE, "%s: evaluation.split leaves no row to train on",
                             settings->sources[i].path);
        }
    }
    options.sources = sources;
    options.source_count = settings->source_count;
    if (status == MT_OK) status = mt_batches_create(corpus->ctx, &options, &corpus->training);
    mt_release(corpus->ctx, memory, bytes);
    return status;
}

/* Held-out rows of all sources, at most evaluate_examples of them, from each its share. */
static size_t held_out_sources(const struct mt_corpus *corpus, const struct mt_train_settings *settings,
                               struct mt_batch_source *sources)
{
    double all = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < corpus->dataset_count; i++) all += (double)parts_of(corpus, settings, i).held;
    for (size_t i = 0; i < corpus->dataset_count; i++) {
        uint64_t held = parts_of(corpus, settings, i).held;
        double most = (double)settings->evaluate_examples;
        if (most > 0.0 && all > most) held = (uint64_t)ceil((double)held * most / all);
        if (held == 0) continue;
        sources[count] = batch_source(corpus, settings, i);
        sources[count].weight = 1.0;
        sources[count++].count = held;
    }
    return count;
}

static enum mt_status make_held_out(struct mt_corpus *corpus, const struct mt_train_settings *settings)
{
    bool wanted = settings->split > 0.0 || settings->held_out_count > 0;
    struct mt_batch_options options = batch_options(corpus, settings);
    size_t bytes = corpus->dataset_count * sizeof(struct mt_batch_source);
    void *memory = NULL;
    if (!wanted) return MT_OK;
    enum mt_status status = mt_allocate(corpus->ctx, bytes, &memory);
    if (status != MT_OK) return status;
    options.in_file_order = true;
    options.sources = memory;
    options.source_count = held_out_sources(corpus, settings, memory);
    if (options.source_count == 0) {
        status = mt_fail(corpus->ctx, MT_ERR_USAGE,
                         "evaluation.split is %g, which holds out no row of these sources", settings->split);
    }
    if (status == MT_OK) status = mt_batches_create(corpus->ctx, &options, &corpus->held_out);
    mt_release(corpus->ctx, memory, bytes);
    if (status == MT_OK) status = mt_batches_survey(corpus->held_out, 0, &corpus->held_out_size);
    return status;
}

// ------------------------------------------------------------------ the template

/* `model` is the form of what the run starts from, where that is recorded. */
static enum mt_status open_template(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                    const char *tokenizer, const char *templates)
{
    const struct mt_form_request request = {.model = tokenizer,
                                            .adapter = settings->adapter,
                                            .given = settings->template_name,
                                            .by = "data.template says so",
                                            .options = settings->template_options,
                                            .date = settings->template_date};
    struct mt_text_form form;
    enum mt_status status = mt_text_form_find(&corpus->arena, &request, &form);
    if (status == MT_OK)
        status = mt_text_form_open(corpus->ctx, &form, templates, tokenizer, &corpus->template);
    if (status != MT_OK) return status;
    if (corpus->template == NULL)
        return mt_fail(
            corpus->ctx, MT_ERR_USAGE,
            "the template '%s' is only for questions; choose another one for rows, such as 'plain'",
            form.name);
    corpus->form.name = mt_chat_template_stands_in(corpus->template) ? "plain" : form.name;
    corpus->form.options = form.options;
    corpus->form.date = form.date;
    return MT_OK;
}

// ------------------------------------------------------------------ a first look

/* What goes through a source until a row can be used. */
struct looking {
    struct mt_example_maker *maker;
    struct mt_row row;
    struct mt_example example;
    struct mt_row_faults faults;
    struct mt_byte_list foreign; // special tokens the template writes and the tokenizer lacks
};

static enum mt_status fail_source(const struct mt_corpus *corpus, const struct looking *looking,
                                  const char *path, uint64_t rows)
{
    const struct mt_row_fault *fault = mt_row_faults_commonest(&looking->faults);
    if (fault == NULL && rows == 1)
        return mt_fail(corpus->ctx, MT_ERR_FORMAT, "%s: its only row has no answer within data.max_length",
                       path);
    if (fault == NULL) {
        return mt_fail(corpus->ctx, MT_ERR_FORMAT,
                       "%s: none of its %" PRIu64 " rows has an answer within data.max_length", path, rows);
    }
    if (rows == 1)
        return mt_fail(corpus->ctx, MT_ERR_FORMAT, "%s: its only row cannot be used: %s", path, fault->first);
    return mt_fail(corpus->ctx, MT_ERR_FORMAT,
                   "%s: none of its %" PRIu64 " rows can be used; for %" PRIu64 " the reason is: %s", path,
                   rows, fault->count, fault->first);
}

/* Goes through a source's rows until one can be used; fails when none can. */
static enum mt_status look_at(struct mt_corpus *corpus, struct looking *looking,
                              const struct mt_batch_source *source)
{
    uint64_t rows = mt_dataset_rows(source->dataset);
    struct mt_row *row = &looking->row;
    for (uint64_t i = 0; i < rows; i++) {
        bool fresh = false;
        const struct mt_row_place place = {.source = source->order, .row = i};
        enum mt_status status = mt_dataset_read(source->dataset, i, row);
        if (status == MT_OK)
            status = mt_example_make(looking->maker, &source->example, row, &looking->example);
        if (status == MT_OK && looking->example.answer_tokens > 0) return MT_OK;
        if (status == MT_ERR_FORMAT)
            status = mt_row_faults_add(&looking->faults, row->file, place, corpus->ctx->message, &fresh);
        if (status != MT_OK) return status;
    }
    return fail_source(corpus, looking, mt_dataset_path(source->dataset), rows);
}

/* The first example is kept, to be shown. */
static enum mt_status keep_first(struct mt_corpus *corpus, const struct looking *looking)
{
    char place[4096];
    const struct mt_example *example = &looking->example;
    enum mt_status status = MT_OK;
    if (corpus->first.ids.count > 0) return MT_OK;
    for (size_t i = 0; i < example->ids.count && status == MT_OK; i++) {
        status = mt_id_list_append(&corpus->first.ids, example->ids.data[i]);
        if (status == MT_OK) status = mt_id_list_append(&corpus->first.labels, example->labels.data[i]);
    }
    (void)snprintf(place, sizeof place, "%s:%" PRIu64, looking->row.file, looking->row.line);
    return status == MT_OK ? mt_path_join(corpus->ctx, "", place, &corpus->first_place) : status;
}

/* Each is told once, by the first source that shows it. */
struct warned {
    bool plain, prompt, unended;
};

static void warn_of_template(const struct mt_corpus *corpus, const struct mt_example *example,
                             struct warned *warned)
{
    const char *name = mt_chat_template_name(corpus->template);
    if (example->messages && mt_chat_template_stands_in(corpus->template) && !warned->plain) {
        warned->plain = true;
        mt_log_warning(corpus->log,
                       "the model has no chat template of its own: conversations are written out "
                       "plainly (data.template: plain); data.template names another");
    }
    if (example->other_prompts > 0 && !warned->prompt) {
        warned->prompt = true;
        mt_log_warning(
            corpus->log,
            "%s asks for an answer with a beginning that it does not write in training: generated answers "
            "will begin a little differently from trained ones (data.template_options may help)",
            name);
    }
    if (example->unended > 0 && !warned->unended) {
        warned->unended = true;
        mt_log_warning(
            corpus->log,
            "%s ends an answer with no token that is special: the model may not learn where to stop", name);
    }
}

/* How many answers were looked at, and how many of them begin with a space. */
struct spaces {
    uint64_t answers, spaced;
};

/* Rows of a source beside its first one: whether their answers begin with a space. */
static enum mt_status look_for_spaces(struct looking *looking, const struct mt_batch_source *source,
                                      struct spaces *spaces)
{
    uint64_t rows = mt_dataset_rows(source->dataset);
    uint64_t step = rows > LOOKED_AT ? rows / LOOKED_AT : 1;
    for (uint64_t i = 0; i < rows; i += step) {
        enum mt_status status = mt_dataset_read(source->dataset, i, &looking->row);
        if (status == MT_OK)
            status = mt_example_make(looking->maker, &source->example, &looking->row, &looking->example);
        if (status == MT_ERR_FORMAT) continue; // told of where it is trained on
        if (status != MT_OK) return status;
        if (looking->example.text) continue;
        spaces->answers++;
        if (looking->example.spaced) spaces->spaced++;
    }
    return MT_OK;
}

/* What is trained on, as far as texts that are evaluated depend on it. */
static enum mt_status note_rows(struct mt_corpus *corpus, struct looking *looking,
                                const struct mt_batch_source *source, struct spaces *spaces)
{
    bool text = looking->example.text;
    corpus->form.texts |= text;
    corpus->form.answers |= !text;
    if (text) corpus->form.bos = mt_example_beginning(&looking->example, &corpus->special);
    return text ? MT_OK : look_for_spaces(looking, source, spaces);
}

static void settle_spaces(struct mt_corpus *corpus, const struct spaces *spaces)
{
    corpus->form.spaced = spaces->spaced > 0 && spaces->spaced == spaces->answers;
    if (spaces->spaced == 0 || corpus->form.spaced) return;
    mt_log_warning(corpus->log,
                   "%" PRIu64 " of %" PRIu64 " answers looked at begin with a space and the others do not: "
                   "choices of benchmarks are asked without",
                   spaces->spaced, spaces->answers);
}

/*
 * Looks at each source until a row can be used; a source without one is refused. Keeps the first example, and
 * warns of what it shows about the template.
 */
static enum mt_status look_at_sources(struct mt_corpus *corpus, const struct mt_train_settings *settings)
{
    struct mt_context *ctx = corpus->ctx;
    struct looking looking = {.faults = {.ctx = ctx}, .foreign = {.ctx = ctx}};
    struct warned warned = {0};
    struct spaces spaces = {0};
    struct mt_example_options options = example_options(corpus, settings);
    // What a model's own template writes, its authors have seen.
    if (!mt_chat_template_is_models(corpus->template)) options.foreign = &looking.foreign;
    mt_row_init(ctx, &looking.row);
    mt_example_init(ctx, &looking.example);
    enum mt_status status = mt_example_maker_create(ctx, &options, &looking.maker);
    for (size_t i = 0; i < corpus->dataset_count && status == MT_OK; i++) {
        struct mt_batch_source source = batch_source(corpus, settings, i);
        mt_row_faults_free(&looking.faults);
        status = look_at(corpus, &looking, &source);
        if (status == MT_OK) status = keep_first(corpus, &looking);
        if (status == MT_OK) warn_of_template(corpus, &looking.example, &warned);
        if (status == MT_OK && i < settings->source_count)
            status = note_rows(corpus, &looking, &source, &spaces);
    }
    if (status == MT_OK) settle_spaces(corpus, &spaces);
    if (status == MT_OK && looking.foreign.count > 0) {
        mt_log_warning(corpus->log,
                       "%s writes %.*s, for which the tokenizer has no token: ordinary text to the model",
                       mt_chat_template_name(corpus->template), (int)looking.foreign.count,
                       (const char *)looking.foreign.data);
    }
    mt_row_faults_free(&looking.faults);
    mt_byte_list_free(&looking.foreign);
    mt_example_maker_free(looking.maker);
    mt_example_free(&looking.example);
    mt_row_free(&looking.row);
    return status;
}

/* Ids that end texts, by generation_config.json: a template may end its answers with any of them. */
static enum mt_status read_stops(struct mt_corpus *corpus, const char *model,
                                 const struct mt_hf_config *config)
{
    char path[4096];
    struct mt_hf_generation generation = {0};
    enum mt_status status = MT_OK;
    int length = snprintf(path, sizeof path, "%s/generation_config.json", model);
    if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0)
        status = mt_hf_generation_read(corpus->ctx, path, NULL, 0, &generation);
    for (size_t i = 0; i < generation.eos_count && status == MT_OK; i++)
        status = mt_id_list_append(&corpus->stops, (int32_t)generation.eos[i]);
    for (size_t i = 0; i < config->eos_count && status == MT_OK; i++)
        status = mt_id_list_append(&corpus->stops, (int32_t)config->eos[i]);
    mt_hf_generation_free(&generation);
    return status;
}

// ------------------------------------------------------------------ the way in

enum mt_status mt_corpus_open(struct mt_context *ctx, const struct mt_train_settings *settings,
                              const struct mt_hf_config *config, const char *templates,
                              const struct mt_log *log, struct mt_corpus *corpus)
{
    const char *tokenizer = settings->tokenizer != NULL ? settings->tokenizer : settings->model;
    *corpus = (struct mt_corpus){.ctx = ctx,
                                 .vocabulary = config->vocab_size,
                                 .log = log,
                                 .faults = {.ctx = ctx},
                                 .stops = {.ctx = ctx}};
    mt_example_init(ctx, &corpus->first);
    mt_arena_init(&corpus->arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_tokenizer_load(ctx, tokenizer, &corpus->tokenizer);
    if (status == MT_OK)
        status = mt_special_ids_find(ctx, corpus->tokenizer, tokenizer, config, &corpus->special);
    if (status == MT_OK) status = open_template(corpus, settings, tokenizer, templates);
    if (status == MT_OK) status = read_stops(corpus, settings->model, config);
    if (status == MT_OK) status = open_datasets(corpus, settings);
    if (status == MT_OK) status = make_training(corpus, settings);
    if (status == MT_OK) status = look_at_sources(corpus, settings);
    if (status == MT_OK) status = make_held_out(corpus, settings);
    if (status != MT_OK) mt_corpus_close(corpus);
    return status;
}

void mt_corpus_close(struct mt_corpus *corpus)
{
    if (corpus->ctx == NULL) return;
    mt_batches_free(corpus->training);
    mt_batches_free(corpus->held_out);
    for (size_t i = 0; corpus->datasets != NULL && i < corpus->dataset_count; i++)
        mt_dataset_close(corpus->datasets[i]);
    mt_release(corpus->ctx, corpus->datasets, corpus->dataset_count * sizeof(struct mt_dataset *));
    mt_row_faults_free(&corpus->faults);
    mt_id_list_free(&corpus->stops);
    mt_example_free(&corpus->first);
    mt_path_release(corpus->ctx, corpus->first_place);
    mt_chat_template_free(corpus->template);
    mt_arena_free(&corpus->arena);
    mt_tokenizer_free(corpus->tokenizer);
    *corpus = (struct mt_corpus){0};
}

enum mt_status mt_corpus_length(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                bool survey, struct mt_run_length *length)
{
    bool given = settings->steps > 0;
    bool short_data = mt_batches_draws(corpus->training) <= SURVEYED_DRAWS;
    double epochs = given ? (survey || short_data ? 1.0 : 0.0) : settings->epochs;
    *length = (struct mt_run_length){0};
    for (uint64_t epoch = 0; (double)epoch < epochs; epoch++) {
        struct mt_batch_counts counts;
        enum mt_status status = mt_batches_survey(corpus->training, epoch, &counts);
        if (status != MT_OK) return status;
        if (epoch == 0) length->epoch = counts;
        double part = fmin(1.0, epochs - (double)epoch);
        // 0.07 of 100 steps are 7, though the product is a little above.
        length->steps += (uint64_t)ceil(part * (double)counts.steps - 1e-6);
        if (settings->stop_at_bad_row && corpus->faults.count > 0) break;
    }
    const struct mt_row_fault *fault = mt_row_faults_first(&corpus->faults);
    if (settings->stop_at_bad_row && fault != NULL)
        return mt_fail(corpus->ctx, MT_ERR_FORMAT, "%s", fault->first);
    if (corpus->held_out != NULL && corpus->held_out_size.steps == 0)
        return mt_fail(corpus->ctx, MT_ERR_FORMAT, "no held-out row gives an example");
    mt_row_faults_tell(&corpus->faults, corpus->log);
    length->epoch_steps = length->epoch.steps;
    if (given) length->steps = (uint64_t)settings->steps;
    if (length->steps > 0) return MT_OK;
    return mt_fail(
        corpus->ctx, MT_ERR_FORMAT,
        "no row of the data gives an example (%llu bad, %llu without an answer within data.max_length)",
        (unsigned long long)length->epoch.bad_rows, (unsigned long long)length->epoch.without_answer);
}

uint64_t mt_corpus_bytes(const struct mt_corpus *corpus, const struct mt_train_settings *settings)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < settings->source_count; i++) bytes += mt_dataset_bytes(corpus->datasets[i]);
    return bytes;
}

void mt_corpus_cut(struct mt_corpus *corpus, int64_t tokens)
{
    mt_batches_cut(corpus->training, tokens);
    if (corpus->held_out != NULL) mt_batches_cut(corpus->held_out, tokens);
}

int64_t mt_corpus_most_sequences(const struct mt_train_settings *settings, int64_t tokens)
{
    int64_t most = tokens / 2;
    return settings->examples > 0 && settings->examples < most ? settings->examples : most;
}

// ------------------------------------------------------------------ rows that were drawn

static enum mt_status add_drawn_of(struct mt_context *ctx, const struct mt_dataset *dataset,
                                   const struct mt_train_source *source, const unsigned char *drawn,
                                   struct mt_row_hashes *rows)
{
    const struct mt_example_source form = {.form = source->form, .mapping = source->fields};
    struct mt_row_identifier identifier;
    struct mt_row row;
    enum mt_status status = MT_OK;
    mt_row_init(ctx, &row);
    mt_row_identifier_init(ctx, &identifier);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && status == MT_OK; i++) {
        struct mt_row_identity identity;
        if (drawn[i] == 0) continue;
        status = mt_dataset_read(dataset, i, &row);
        if (status == MT_OK) status = mt_row_identify(&identifier, &form, &row, &identity);
        if (status == MT_OK) status = mt_row_hashes_add(rows, identity.asked, NULL);
        if (status == MT_ERR_FORMAT) status = MT_OK;
    }
    mt_row_identifier_free(&identifier);
    mt_row_free(&row);
    return status;
}

enum mt_status mt_corpus_add_drawn(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                   struct mt_row_hashes *rows)
{
    struct mt_arena arena;
    enum mt_status status = MT_OK;
    mt_arena_init(&arena, corpus->ctx, ARENA_BYTES);
    unsigned char **drawn = mt_arena_array(&arena, settings->source_count, sizeof *drawn, &status);
    for (size_t i = 0; i < settings->source_count && status == MT_OK; i++)
        drawn[i] = mt_arena_array(&arena, mt_dataset_rows(corpus->datasets[i]), 1, &status);
    if (status == MT_OK) status = mt_batches_mark_drawn(corpus->training, drawn);
    for (size_t i = 0; i < settings->source_count && status == MT_OK; i++)
        status = add_drawn_of(corpus->ctx, corpus->datasets[i], &settings->sources[i], drawn[i], rows);
    mt_arena_free(&arena);
    return status;
}
