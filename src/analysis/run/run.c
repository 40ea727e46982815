/* Data through models: domains, batches, collectors that watch. */
#include "analysis/run/run.h"

#include <stdio.h>
#include <string.h>

#include "analysis/run/weights.h"
#include "comm/rank_progress.h"
#include "model/adapters/adapter.h"
#include "model/collect.h"
#include "model/kept.h"
#include "train/data/corpus.h"

#define ARENA_BLOCK_BYTES 65536
#define MOST_CHOICES      (1 << 20) // tokens of a domain whose experts are compared with the base's, or cached
#define PATH_TOKENS       (1 << 16) // tokens of a domain whose experts are followed through the layers
#define BATCH_TOKENS      2048      // of a batch that the model computes, unless a sequence is longer
#define LEAST_TOKENS      1024      // of a batch of MaxVio_batch
#define MOST_GROUPS       4096      // about, of a domain's batches

// ------------------------------------------------------------------ domains

/* "data/math.jsonl.gz" is math. */
static enum mt_status name_of_file(struct mt_analysis *run, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    const char *start = slash != NULL ? slash + 1 : path;
    size_t length = strcspn(start, ".");
    if (length == 0) length = strlen(start);
    return mt_arena_copy_text(&run->arena, start, length, name);
}

static void add_file(struct mt_analysis *run, const char *path, const char *name)
{
    int at = 0;
    while (at < run->domains && strcmp(run->domain[at].name, name) != 0) at++;
    struct mt_analysis_domain *domain = &run->domain[at];
    if (at == run->domains) {
        *domain = (struct mt_analysis_domain){.name = name};
        run->domains++;
    }
    domain->sources[domain->source_count++] = (struct mt_train_source){.path = path, .weight = 1.0};
}

static enum mt_status find_domains(struct mt_analysis *run)
{
    for (size_t i = 0; i < run->settings->data_count; i++) {
        const char *item = run->settings->data[i];
        const char *equals = strrchr(item, '=');
        const char *name = equals != NULL ? equals + 1 : NULL;
        const char *path = NULL;
        size_t length = equals != NULL ? (size_t)(equals - item) : strlen(item);
        if (length == 0 || (name != NULL && name[0] == '\0'))
            return mt_fail(run->ctx, MT_ERR_USAGE, "--data is '%s', expected FILE or FILE=DOMAIN", item);
        enum mt_status status = mt_arena_copy_text(&run->arena, item, length, &path);
        if (status == MT_OK && name == NULL) status = name_of_file(run, path, &name);
        if (status != MT_OK) return status;
        add_file(run, path, name);
    }
    return MT_OK;
}

enum mt_status mt_analysis_open(struct mt_context *ctx, const struct mt_analysis_settings *settings,
                                struct mt_analysis **analysis)
{
    void *memory = NULL;
    *analysis = NULL;
    if (settings->data_count > MT_ANALYSIS_FILES)
        return mt_fail(ctx, MT_ERR_USAGE, "%zu files to analyse, expected at most %d", settings->data_count,
                       MT_ANALYSIS_FILES);
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **analysis, &memory);
    if (status != MT_OK) return status;
    *analysis = memory;
    (*analysis)->ctx = ctx;
    (*analysis)->settings = settings;
    mt_arena_init(&(*analysis)->arena, ctx, ARENA_BLOCK_BYTES);
    return find_domains(*analysis);
}

static void free_side(struct mt_analysis_side *side)
{
    for (int i = 0; i <= MT_ANALYSIS_FILES; i++) {
        mt_figures_free(&side->figures[i]);
        mt_collector_destroy(side->collector[i]);
    }
}

void mt_analysis_close(struct mt_analysis *analysis)
{
    if (analysis == NULL) return;
    free_side(&analysis->model);
    free_side(&analysis->base);
    mt_arena_free(&analysis->arena);
    mt_release(analysis->ctx, analysis, sizeof *analysis);
}

// ------------------------------------------------------------------ a model

static int64_t batch_tokens(const struct mt_analysis *run)
{
    return run->settings->length > BATCH_TOKENS ? run->settings->length : BATCH_TOKENS;
}

/* Batches that begin within so many tokens are one group: of two batches, the first of which is no smaller
 * than the least of MaxVio_batch, each has its own. */
static int64_t group_tokens(const struct mt_analysis *run)
{
    int64_t few_groups = run->settings->tokens / MOST_GROUPS;
    return few_groups > LEAST_TOKENS ? few_groups : LEAST_TOKENS;
}

static enum mt_status open_model(struct mt_analysis *run, const struct mt_analysis_side *side,
                                 const char *directory, const char *adapter_directory,
                                 struct mt_model **model)
{
    bool otherwise = side == &run->base && run->settings->against != NULL;
    struct mt_log log;
    struct mt_adapter adapter = {0};
    struct mt_model_options options = {.tokens = batch_tokens(run),
                                       .sequences = batch_tokens(run) / 2,
                                       .positions = run->settings->length,
                                       .expert_ranks = run->settings->expert_ranks};
    enum mt_status status = MT_OK;
    if (adapter_directory != NULL) {
        status = mt_adapter_open_for(run->ctx, adapter_directory, directory, &adapter);
        if (status == MT_OK) mt_adapter_select(&adapter, &options.selection);
        if (run->settings->quantise == NULL) run->quantise = adapter.quantise;
    }
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    options.selection.quantise = otherwise ? run->against : run->quantise;
    options.selection.log = &log;
    if (status == MT_OK) status = mt_model_open(run->device, directory, &options, model);
    if (status == MT_OK && adapter_directory != NULL)
        status = mt_adapter_apply(&adapter, mt_model_params(*model));
    mt_adapter_close(&adapter);
    return status;
}

/* Notes the shape of the first model; refuses a base of another. */
static enum mt_status learn_shape(struct mt_analysis *run, const struct mt_model *model,
                                  const char *directory)
{
    const struct mt_model_desc *desc = mt_model_description(model);
    int layers = mt_model_moe_layers(desc, NULL);
    if (layers == 0) return mt_fail(run->ctx, MT_ERR_USAGE, "%s: no layer has experts", directory);
    if (run->layers > 0) {
        if (run->layers == layers && run->experts == desc->experts && run->slots == desc->router.slots &&
            run->width == desc->width)
            return MT_OK;
        return mt_fail(run->ctx, MT_ERR_USAGE, "%s: the base and the model have different shapes", directory);
    }
    enum mt_status status = MT_OK;
    run->number = mt_arena_array(&run->arena, (size_t)layers, sizeof(int64_t), &status);
    if (status != MT_OK) return status;
    run->layers = layers;
    run->experts = desc->experts;
    run->slots = desc->router.slots;
    run->groups = desc->router.groups > 1 ? desc->router.groups : 1;
    run->width = desc->width;
    (void)mt_model_moe_layers(desc, run->number);
    status = mt_analysis_read_caches(run);
    if (status != MT_OK || run->settings->keep == NULL) return status;
    status =
        mt_experts_keep_parse(run->ctx, "--keep", run->settings->keep, run->experts, run->slots, &run->keep);
    return status == MT_OK ? mt_kept_check(run->ctx, desc, run->keep) : status;
}

// ------------------------------------------------------------------ a domain

/* Names the tokens of a batch by their places in the domain, so that figures do not depend on ranks. */
static void name_tokens(const struct mt_analysis *run, struct mt_collector *collector, int64_t first,
                        int64_t tokens)
{
    int64_t *number = run->token_names;
    int64_t *group = run->token_names + batch_tokens(run);
    for (int64_t i = 0; i < tokens; i++) {
        number[i] = first + i;
        group[i] = first / group_tokens(run);
    }
    mt_collector_name(collector,
                      &(struct mt_token_names){.tokens = tokens, .number = number, .group = group});
}

/* A domain on its way through a model. */
struct passage {
    struct mt_analysis *run;
    struct mt_model *model;
    struct mt_batches *batches;
    struct mt_collector *collector;
    struct mt_rank_progress *ranks;
    int64_t seen; // tokens of all ranks' batches so far
    int64_t done; // of them, computed by this rank
    int64_t turn; // batches so far: ranks take turns
};

/* Sequences are whole, and a domain may have fewer tokens: how many there are to be, as far as is known. */
static void expect_tokens(const struct passage *passage, bool ended)
{
    struct mt_analysis *run = passage->run;
    int64_t wanted = run->settings->tokens;
    int64_t domain = ended || passage->seen > wanted ? passage->seen : wanted;
    mt_progress_total(&run->progress, run->tokens_done + domain + run->passes_left * wanted);
}

/* Tells the other ranks, and shows what all have done. False: all come back now. */
static bool beat(struct passage *passage, bool finished, bool failed)
{
    struct mt_analysis *run = passage->run;
    const struct mt_rank_progress_state mine = {
        .done = passage->done, .finished = finished, .failed = failed};
    bool over = mt_rank_progress_update(passage->ranks, &mine);
    mt_progress_update(&run->progress, run->tokens_done + mt_rank_progress_done(passage->ranks));
    return !over;
}

/* Ranks that share the experts wait for what will not come from here. */
static enum mt_status fail_alone(const struct mt_analysis *run, enum mt_status status)
{
    struct mt_comm *ranks = run->settings->expert_ranks;
    return status == MT_OK || ranks == NULL ? status : mt_comm_abort(ranks, run->ctx, status, stderr);
}

/* A rank that gets no batch in the last turn takes part all the same, with a token that counts for nothing.
 */
static enum mt_status fill_turn(const struct passage *passage)
{
    static const int32_t zero[1] = {0};
    static const int32_t offsets[2] = {0, 1};
    const struct mt_batch batch = {.tokens = 1,
                                   .sequences = 1,
                                   .ids = zero,
                                   .offsets = offsets,
                                   .mask = zero,
                                   .progress = 1.0,
                                   .loss_only = true};
    const struct mt_analysis *run = passage->run;
    int64_t last = passage->turn % mt_comm_size(run->comm);
    struct mt_model_loss loss;
    if (run->settings->expert_ranks == NULL || last == 0 || mt_comm_rank(run->comm) < last) return MT_OK;
    return fail_alone(run, mt_model_forward(passage->model, &batch, &loss));
}

static enum mt_status run_batch(struct passage *passage, size_t index, bool *go_on)
{
    struct mt_analysis *run = passage->run;
    struct mt_batch batch = {.progress = 1.0};
    struct mt_model_loss loss;
    enum mt_status status = MT_OK;
    int64_t first = passage->seen;
    mt_batches_micro(passage->batches, index, &batch);
    // The sequence that reaches what is wanted is whole, and the last.
    while (batch.sequences > 1 && first + batch.offsets[batch.sequences - 1] >= run->settings->tokens)
        batch.sequences--;
    batch.tokens = batch.offsets[batch.sequences];
    batch.labels = NULL;
    batch.loss_only = true;
    passage->seen += batch.tokens;
    expect_tokens(passage, false);
    if (passage->turn++ % mt_comm_size(run->comm) == mt_comm_rank(run->comm)) {
        name_tokens(run, passage->collector, first, batch.tokens);
        status = fail_alone(run, mt_model_forward(passage->model, &batch, &loss));
        passage->done += batch.tokens;
        *go_on = beat(passage, false, status != MT_OK);
    }
    return status;
}

static enum mt_status run_batches(struct passage *passage)
{
    struct mt_analysis *run = passage->run;
    enum mt_status status = MT_OK;
    bool go_on = true;
    while (go_on && passage->seen < run->settings->tokens) {
        struct mt_step step;
        status = mt_batches_next(passage->batches, &step);
        if (status != MT_OK) return status;
        if (step.epoch > 0) { // the domain has no more
            expect_tokens(passage, true);
            return MT_OK;
        }
        for (size_t i = 0; i < step.micro_batches && go_on && passage->seen < run->settings->tokens; i++) {
            status = run_batch(passage, i, &go_on);
            if (status != MT_OK) return status;
        }
    }
    return MT_OK;
}

/* This rank's batches, then until the others have theirs, and all in the collector of the first. */
static enum mt_status pass(struct passage *passage)
{
    struct mt_analysis *run = passage->run;
    run->passes_left--;
    enum mt_status status =
        mt_comm_agree(run->comm, run->ctx, mt_rank_progress_create(run->comm, run->ctx, &passage->ranks));
    if (status == MT_OK) {
        mt_model_collect(passage->model, passage->collector);
        status = run_batches(passage);
        mt_model_collect(passage->model, NULL);
        if (status == MT_OK) status = fill_turn(passage);
        bool failed = status != MT_OK;
        while (beat(passage, !failed, failed)) mt_rank_progress_rest();
        status = mt_comm_agree(run->comm, run->ctx, status);
    }
    mt_rank_progress_free(passage->ranks);
    run->tokens_done += passage->seen;
    return status == MT_OK ? mt_collector_gather(passage->collector, run->comm) : status;
}

/* The readers are those of training and name its keys: options instead, and what to do where there is none.
 */
static enum mt_status fail_by_options(struct mt_context *ctx, enum mt_status status)
{
    static const char length[] = "data.max_length";
    char message[MT_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "%s", ctx->message);
    const char *found = strstr(message, length);
    if (found != NULL) {
        return mt_fail(ctx, status, "%.*s--length%s", (int)(found - message), message,
                       found + sizeof length - 1);
    }
    found = strstr(message, "data.sources[].fields");
    while (found != NULL && found > message && *found != ';') found--;
    if (found == NULL) return status;
    return mt_fail(ctx, status, "%.*s; rename its columns for --data", (int)(found - message), message);
}

static enum mt_status run_domain(struct mt_analysis *run, struct mt_model *model, int index,
                                 struct mt_collector *collector)
{
    const struct mt_analysis_settings *settings = run->settings;
    const struct mt_analysis_domain *domain = &run->domain[index];
    struct mt_log log;
    struct mt_corpus corpus = {0};
    bool talks = mt_comm_rank(run->comm) == 0;
    const struct mt_train_settings reading = {.model = settings->model,
                                              .adapter = settings->adapter,
                                              .sources = domain->sources,
                                              .source_count = domain->source_count,
                                              .template_name = settings->template_name,
                                              .template_date = MT_TEMPLATE_DATE,
                                              .max_length = settings->length,
                                              .batching = MT_LAYOUT_PACKED,
                                              .tokens = batch_tokens(run),
                                              .seed = (uint64_t)settings->seed};
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    enum mt_status status = mt_corpus_open(run->ctx, &reading, mt_model_description(model)->config,
                                           settings->templates, talks ? &log : NULL, &corpus);
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status == MT_OK) {
        struct passage passage = {
            .run = run, .model = model, .batches = corpus.training, .collector = collector};
        status = pass(&passage);
    }
    mt_corpus_close(&corpus);
    return status == MT_OK ? MT_OK : fail_by_options(run->ctx, status);
}

static enum mt_status make_collector(struct mt_analysis *run, int stream, bool vectors,
                                     struct mt_collector **collector)
{
    const struct mt_analysis_settings *settings = run->settings;
    int64_t most = run->with_base || run->caches > 0 ? MOST_CHOICES : PATH_TOKENS;
    int64_t choices = settings->tokens < most ? settings->tokens + batch_tokens(run) : most;
    int64_t outputs = (settings->sample + run->slots - 1) / run->slots;
    struct mt_collector_options options = {
        .layers = run->layers,
        .number = run->number,
        .experts = run->experts,
        .slots = run->slots,
        .width = vectors ? run->width : 0,
        .inputs = settings->sample,
        .outputs = outputs,
        .batch_tokens = LEAST_TOKENS, // what is left over at the end of a window joins the next
        .groups = stream < run->domains ? (settings->tokens + batch_tokens(run)) / group_tokens(run) + 1 : 0,
        .choices = choices,
        .scores = vectors ? settings->scores : 0,
        .seed = (uint64_t)settings->seed,
        .stream = (uint64_t)stream,
    };
    if (stream == run->domains) options.choices *= run->domains; // of all domains together
    return mt_collector_create(run->device, &options, collector);
}

// ------------------------------------------------------------------ routers

/* The router's weight as f32 [n,d]. */
static enum mt_status read_router(struct mt_analysis *run, const struct mt_linear *router, float *target)
{
    size_t count = (size_t)run->experts * (size_t)run->width;
    struct mt_buffer buffer = {0};
    enum mt_status status = mt_device_buffer_create(run->device, count * sizeof(float), &buffer);
    if (status != MT_OK) return status;
    struct mt_tensor sum = mt_tensor_2d(buffer.data, MT_F32, run->experts, run->width);
    status = mt_router_weight(run->device, router, &sum);
    if (status == MT_OK) status = mt_device_download(run->device, target, sum.data, count * sizeof(float));
    mt_buffer_release(&buffer);
    return status;
}

/* What the weights say; all ranks hold the same. */
static enum mt_status look_at_weights(struct mt_analysis *run, struct mt_model *model,
                                      struct mt_analysis_side *side)
{
    enum mt_status status = MT_OK;
    side->coupling = mt_arena_array(&run->arena, (size_t)run->layers, sizeof *side->coupling, &status);
    return status == MT_OK ? mt_model_coupling(model, side->coupling) : status;
}

static enum mt_status read_routers(struct mt_analysis *run, struct mt_model *model,
                                   struct mt_analysis_side *side)
{
    size_t one = (size_t)run->experts * (size_t)run->width;
    enum mt_status status = MT_OK;
    side->router = mt_arena_array(&run->arena, (size_t)run->layers * one, sizeof(float), &status);
    for (int i = 0; status == MT_OK && i < run->layers; i++) {
        const struct mt_layer_params *layer = &mt_model_params(model)->layer[run->number[i]];
        status = read_router(run, &layer->router, side->router + (size_t)i * one);
    }
    return status;
}

// ------------------------------------------------------------------ all of it

/* One model: every domain on its own, then together. */
static enum mt_status run_side(struct mt_analysis *run, const char *directory, const char *adapter,
                               bool vectors, struct mt_analysis_side *side)
{
    struct mt_model *model = NULL;
    enum mt_status status = open_model(run, side, directory, adapter, &model);
    if (status == MT_OK) status = learn_shape(run, model, directory);
    if (status == MT_OK && run->with_base) status = read_routers(run, model, side);
    status = mt_comm_agree(run->comm, run->ctx, status); // experts are looked at together
    if (status == MT_OK && vectors && !run->settings->only_scores) status = look_at_weights(run, model, side);
    for (int i = 0; status == MT_OK && i < run->domains; i++)
        status = make_collector(run, i, vectors, &side->collector[i]);
    status = mt_comm_agree(run->comm, run->ctx, status);
    for (int i = 0; status == MT_OK && i < run->domains; i++)
        status = run_domain(run, model, i, side->collector[i]);
    mt_model_close(model);
    if (status != MT_OK || mt_comm_rank(run->comm) != 0) return status;
    status = make_collector(run, run->domains, vectors, &side->collector[run->domains]);
    for (int i = 0; status == MT_OK && i < run->domains; i++)
        status = mt_collector_merge(side->collector[run->domains], side->collector[i]);
    return status;
}

static enum mt_status finish_side(struct mt_analysis *run, bool vectors, struct mt_analysis_side *side)
{
    const struct mt_analysis_settings *settings = run->settings;
    vectors = vectors && !settings->only_scores;
    const struct mt_geometry_options geometry = {.neighbours = (int)settings->neighbours,
                                                 .queries = settings->queries,
                                                 .seed = (uint64_t)settings->seed,
                                                 .threads = (int)settings->threads};
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i <= run->domains; i++) {
        status = mt_collector_finish(side->collector[i], vectors ? &geometry : NULL, &side->figures[i]);
        if (status == MT_OK && vectors) mt_figures_take_coupling(&side->figures[i], side->coupling);
        if (status == MT_OK) mt_progress_update(&run->progress, run->progress.done + 1);
    }
    return status;
}

/* The figures, on the first rank; the others rest meanwhile, so that it has the processors. */
static enum mt_status finish_sides(struct mt_analysis *run)
{
    struct mt_rank_progress *ranks = NULL;
    enum mt_status status =
        mt_comm_agree(run->comm, run->ctx, mt_rank_progress_create(run->comm, run->ctx, &ranks));
    if (status != MT_OK) return status;
    if (mt_comm_rank(run->comm) == 0) {
        int64_t streams = ((int64_t)run->domains + 1) * (run->with_base ? 2 : 1);
        mt_progress_start(&run->progress, &(struct mt_progress_options){.stream = run->settings->terminal,
                                                                        .label = "measuring",
                                                                        .total = streams});
        status = finish_side(run, true, &run->model);
        if (status == MT_OK && run->with_base) status = finish_side(run, false, &run->base);
        if (status == MT_OK) status = mt_analysis_replay_caches(run);
        mt_progress_finish(&run->progress);
    }
    const struct mt_rank_progress_state mine = {.finished = true};
    while (!mt_rank_progress_update(ranks, &mine)) mt_rank_progress_rest();
    mt_rank_progress_free(ranks);
    return mt_comm_agree(run->comm, run->ctx, status);
}

static enum mt_status parse_formats(struct mt_analysis *run)
{
    const struct mt_analysis_settings *settings = run->settings;
    enum mt_status status = MT_OK;
    if (settings->quantise != NULL) status = mt_quantise_parse(run->ctx, settings->quantise, &run->quantise);
    if (status == MT_OK && settings->against != NULL)
        status = mt_quantise_parse(run->ctx, settings->against, &run->against);
    return status;
}

enum mt_status mt_analysis_run(struct mt_analysis *run, struct mt_device *device, struct mt_comm *comm)
{
    const struct mt_analysis_settings *settings = run->settings;
    const char *base = settings->base != NULL ? settings->base : settings->model;
    const char *base_adapter = settings->against != NULL ? settings->adapter : NULL;
    run->device = device;
    run->comm = comm;
    run->with_base = !settings->only_scores &&
                     (settings->base != NULL || settings->adapter != NULL || settings->against != NULL);
    enum mt_status status = parse_formats(run);
    if (status != MT_OK) return status;
    run->passes_left = (int64_t)run->domains * (run->with_base ? 2 : 1);
    mt_progress_start(&run->progress, &(struct mt_progress_options){
                                          .stream = mt_comm_rank(comm) == 0 ? settings->terminal : NULL,
                                          .label = "analysing",
                                          .unit = "tok",
                                          .total = settings->tokens * run->passes_left});
    run->token_names =
        mt_arena_array(&run->arena, 2 * (size_t)batch_tokens(run), sizeof *run->token_names, &status);
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status == MT_OK) status = run_side(run, settings->model, settings->adapter, true, &run->model);
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status == MT_OK && run->with_base) status = run_side(run, base, base_adapter, false, &run->base);
    mt_progress_finish(&run->progress);
    status = mt_comm_agree(run->comm, run->ctx, status);
    return status == MT_OK ? finish_sides(run) : status;
}

void mt_analysis_drift(const struct mt_analysis *run, int domain, int layer, struct mt_drift_figures *drift)
{
    int64_t count = 0;
    int64_t base_count = 0;
    size_t one = (size_t)run->experts * (size_t)run->width;
    const uint16_t *choices = mt_collector_choices(run->model.collector[domain], layer, &count);
    const uint16_t *base = mt_collector_choices(run->base.collector[domain], layer, &base_count);
    mt_drift_choices(choices, base, count < base_count ? count : base_count, run->slots, drift);
    drift->load_shift = mt_drift_load(run->model.figures[domain].layer[layer].load,
                                      run->base.figures[domain].layer[layer].load, run->experts);
    drift->router_change = mt_drift_weights(run->model.router + (size_t)layer * one,
                                            run->base.router + (size_t)layer * one, (int64_t)one);
}

void mt_analysis_mean_drift(const struct mt_analysis *run, int domain, struct mt_drift_figures *mean)
{
    *mean = (struct mt_drift_figures){0};
    for (int i = 0; i < run->layers; i++) {
        struct mt_drift_figures drift;
        mt_analysis_drift(run, domain, i, &drift);
        mean->tokens = drift.tokens;
        mean->load_shift += drift.load_shift / run->layers;
        mean->sets_changed += drift.sets_changed / run->layers;
        mean->slots_changed += drift.slots_changed / run->layers;
        mean->router_change += drift.router_change / run->layers;
    }
}

void mt_analysis_domain_loads(const struct mt_analysis *run, int layer, double *load)
{
    size_t n = (size_t)run->experts;
    for (size_t d = 0; d < (size_t)run->domains; d++)
        memcpy(load + d * n, run->model.figures[d].layer[layer].load, n * sizeof *load);
}

enum mt_status mt_analysis_mean_serving(const struct mt_analysis *run, struct mt_serving *mean)
{
    size_t cells = (size_t)run->domains * (size_t)run->experts;
    void *load = NULL;
    void *member = NULL;
    enum mt_status status = mt_allocate_array(run->ctx, cells, sizeof(double), &load);
    if (status == MT_OK) status = mt_allocate_array(run->ctx, cells, sizeof(bool), &member);
    *mean = (struct mt_serving){0.0, 0.0};
    for (int i = 0; i < run->layers && status == MT_OK; i++) {
        mt_analysis_domain_loads(run, i, load);
        struct mt_serving one = mt_serving(load, run->domains, run->experts, member);
        mean->jaccard += one.jaccard / run->layers;
        mean->together += one.together / run->layers;
    }
    mt_release(run->ctx, load, cells * sizeof(double));
    mt_release(run->ctx, member, cells * sizeof(bool));
    return status;
}
