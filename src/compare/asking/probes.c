/* Problems asked on the way, and with experts taken away. */
#include "compare/asking/probes.h"

#include <string.h>

#include "compare/asking/answers.h"
#include "model/collect.h"
#include "model/prune.h"

/* Adds the share 1/parts of what a domain answers. */
static enum mt_status ask(struct mt_answering *answering, size_t domain, size_t parts,
                          struct mt_cell_probe *probe)
{
    const char *path = NULL;
    struct mt_answers answers = {0};
    enum mt_status status = mt_cell_test_data(answering->job, domain, &path);
    if (status == MT_OK) status = mt_answering_run(answering, path, 0, NULL, &answers);
    probe->accuracy += mt_answers_accuracy(&answers) / (double)parts;
    probe->loss += mt_answers_loss(&answers) / (double)parts;
    return status;
}

enum mt_status mt_cell_ask(const struct mt_cell_job *job, const struct mt_cell *cell,
                           const struct mt_train_settings *training, struct mt_model *model,
                           struct mt_cell_probe *probe)
{
    struct mt_answering answering;
    size_t parts = 0;
    const size_t *own = mt_compare_parts(job->settings, cell->domain, &parts);
    size_t peak = job->ctx->peak_bytes; // what is held here is not the training's
    enum mt_status status = mt_answering_open(job, training, model, &answering);
    *probe = (struct mt_cell_probe){0};
    for (size_t i = 0; i < parts && status == MT_OK; i++) status = ask(&answering, own[i], parts, probe);
    mt_answering_close(&answering);
    job->ctx->peak_bytes = peak;
    return status;
}

// ------------------------------------------------------------------ experts taken away

struct pruner {
    struct mt_answering answering;
    const struct mt_cell *cell;
    size_t domain; // at hand, one of those it was trained on
    struct mt_arena arena;
    struct mt_collector_options options;
    struct mt_figures figures; // of its training data
    const bool **flags;        // [layers]: NULL, or [n] of a layer with experts
    bool *all;                 // [MoE layers,n]: what they point into
};

/* Loads of the experts on training data, about as many problems of it as are held out. */
static enum mt_status count_loads(struct pruner *p)
{
    const struct mt_cell_job *job = p->answering.job;
    struct mt_collector *collector = NULL;
    struct mt_answers answers;
    const char *path = NULL;
    enum mt_status status = mt_cell_train_data(job, p->domain, p->cell->seed, &path);
    mt_figures_free(&p->figures);
    if (status == MT_OK) status = mt_collector_create(p->answering.device, &p->options, &collector);
    if (status == MT_OK)
        status = mt_answering_run(&p->answering, path, job->settings->test_problems, collector, &answers);
    if (status == MT_OK) status = mt_collector_finish(collector, NULL, &p->figures);
    mt_collector_destroy(collector);
    return status;
}

static enum mt_status prepare(struct pruner *p)
{
    const struct mt_model_desc *desc = mt_model_description(p->answering.model);
    size_t layers = (size_t)desc->layers;
    size_t n = (size_t)desc->experts;
    void *number = NULL;
    void *flags = NULL;
    void *all = NULL;
    enum mt_status status = mt_arena_allocate(&p->arena, layers * sizeof(int64_t), &number);
    if (status == MT_OK) status = mt_arena_allocate(&p->arena, layers * sizeof(bool *), &flags);
    if (status == MT_OK) status = mt_arena_allocate(&p->arena, layers * n * sizeof(bool), &all);
    if (status != MT_OK) return status;
    memset(flags, 0, layers * sizeof(bool *));
    p->flags = flags;
    p->all = all;
    (void)mt_collector_options_of(desc, number, &p->options);
    p->options.width = 0;
    return MT_OK;
}

static enum mt_status ask_pruned(struct pruner *p, int64_t count, size_t parts, struct mt_cell_probe *probe)
{
    struct mt_pruning pruning;
    size_t n = (size_t)p->options.experts;
    for (int i = 0; i < p->options.layers; i++) {
        bool *flags = p->all + (size_t)i * n;
        const struct mt_layer_figures *layer = &p->figures.layer[i];
        mt_prune_least(layer->load, p->options.experts, (int)(count < (int64_t)n ? count : (int64_t)n),
                       flags);
        p->flags[layer->number] = flags;
    }
    enum mt_status status = mt_pruning_begin(p->answering.model, p->flags, &pruning);
    if (status == MT_OK) status = ask(&p->answering, p->domain, parts, probe);
    enum mt_status ended = mt_pruning_end(&pruning);
    return status == MT_OK ? ended : status;
}

static enum mt_status prune(const struct mt_cell_job *job, const struct mt_cell *cell,
                            const struct mt_train_settings *training, struct mt_model *model,
                            struct mt_cell_result *result)
{
    const struct mt_compare_probes *counts = &job->settings->prune;
    struct pruner pruner = {.cell = cell};
    size_t parts = 0;
    const size_t *own = mt_compare_parts(job->settings, cell->domain, &parts);
    if (counts->count == 0) return MT_OK;
    mt_arena_init(&pruner.arena, job->ctx, 4096);
    enum mt_status status = mt_answering_open(job, training, model, &pruner.answering);
    if (status == MT_OK) status = prepare(&pruner);
    for (size_t i = 0; i < counts->count; i++) result->pruned[i] = (struct mt_cell_probe){0};
    for (size_t d = 0; d < parts && status == MT_OK; d++) {
        pruner.domain = own[d];
        status = count_loads(&pruner);
        for (size_t i = 0; i < counts->count && status == MT_OK; i++)
            status = ask_pruned(&pruner, counts->value[i], parts, &result->pruned[i]);
    }
    mt_figures_free(&pruner.figures);
    mt_answering_close(&pruner.answering);
    mt_arena_free(&pruner.arena);
    return status;
}

enum mt_status mt_cell_ask_more(const struct mt_cell_job *job, const struct mt_cell *cell,
                                const struct mt_train_settings *training, struct mt_model *model,
                                struct mt_cell_result *result)
{
    enum mt_status status = prune(job, cell, training, model, result);
    return status == MT_OK ? mt_cell_ask_fewer(job, cell, training, model, result) : status;
}
