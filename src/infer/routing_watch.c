/* Names for the tokens of an engine's passes, which a collector counts. */
#include "infer/routing_watch.h"

#include <string.h>

#include "base/rng.h"
#include "infer/answerer.h"
#include "model/collect.h"

#define BATCH_TOKENS     4096                // of MaxVio over batches: about what a training step has
#define OUTPUT_BYTES     ((int64_t)64 << 20) // for expert outputs kept to compare, of all layers together
#define MOST_KEPT_TOKENS 256
#define MOST_GROUPS      1024 // of questions that follow each other

struct mt_routing_watch {
    struct mt_context *ctx;     // borrowed
    struct mt_session *session; // borrowed
    struct mt_collector_options options;
    int64_t *number; // [layers]: of the MoE layers in the model
    // Of the tokens of a pass, [named_tokens] each:
    int64_t *names; // [2,named_tokens]: numbers and groups
    int32_t *mask;  // 0 where the token was counted before
    int64_t named_tokens;
    uint64_t group_questions; // of a group
    struct mt_collection collection;
};

// ------------------------------------------------------------------ names

static void free_names(struct mt_routing_watch *watch)
{
    size_t tokens = (size_t)watch->named_tokens;
    mt_release(watch->ctx, watch->names, 2 * tokens * sizeof *watch->names);
    mt_release(watch->ctx, watch->mask, tokens * sizeof *watch->mask);
    watch->names = NULL;
    watch->mask = NULL;
    watch->named_tokens = 0;
}

static enum mt_status make_room(struct mt_routing_watch *watch, int64_t tokens)
{
    void *names = NULL;
    void *mask = NULL;
    if (tokens <= watch->named_tokens) return MT_OK;
    free_names(watch);
    enum mt_status status = mt_allocate_array(watch->ctx, (size_t)tokens, 2 * sizeof *watch->names, &names);
    if (status != MT_OK) return status;
    status = mt_allocate_array(watch->ctx, (size_t)tokens, sizeof *watch->mask, &mask);
    if (status != MT_OK) {
        mt_release(watch->ctx, names, 2 * (size_t)tokens * sizeof *watch->names);
        return status;
    }
    watch->names = names;
    watch->mask = mask;
    watch->named_tokens = tokens;
    return MT_OK;
}

/* A token's number: drawn from its place in its request, so that no two are likely to have the same. */
static int64_t number_of(const struct mt_engine_sequence *sequence, int64_t position)
{
    uint64_t part = position < sequence->prefix ? 0 : sequence->later;
    struct mt_rng_block words = mt_rng_words(sequence->request, part, (uint64_t)position);
    return (int64_t)(((uint64_t)words.word[0] << 32 | words.word[1]) >> 1);
}

/* The names outlive the step: its records may be counted in a later one. */
static enum mt_status name_tokens(void *self, int64_t tokens)
{
    struct mt_routing_watch *watch = self;
    const struct mt_engine *engine = watch->session->engine;
    const int32_t *is_new = mt_engine_new_tokens(engine);
    enum mt_status status = make_room(watch, tokens);
    if (status != MT_OK) return status;
    int64_t *number = watch->names;
    int64_t *group = watch->names + watch->named_tokens;
    int64_t at = 0;
    for (int64_t i = 0; i < mt_engine_sequences(engine); i++) {
        const struct mt_engine_sequence sequence = mt_engine_sequence(engine, i);
        uint64_t own = sequence.request / MT_ANSWERER_NUMBERS / watch->group_questions;
        uint64_t last = (uint64_t)watch->options.groups - 1;
        for (int64_t k = 0; k < sequence.tokens; k++, at++) {
            number[at] = number_of(&sequence, sequence.position + k);
            group[at] = (int64_t)(own < last ? own : last);
        }
    }
    if (is_new != NULL) memcpy(watch->mask, is_new, (size_t)tokens * sizeof *watch->mask);
    mt_collector_name(
        watch->collection.collector,
        &(struct mt_token_names){
            .tokens = at, .number = number, .group = group, .mask = is_new != NULL ? watch->mask : NULL});
    return MT_OK;
}

// ------------------------------------------------------------------ the watch

static void choose_options(struct mt_routing_watch *watch, const struct mt_model_desc *desc)
{
    const struct mt_model *model = watch->session->model;
    if (!mt_collector_options_of(desc, watch->number, &watch->options)) return;
    int64_t bytes = watch->options.layers * desc->router.slots * desc->width * (int64_t)sizeof(float);
    int64_t kept = bytes > 0 ? OUTPUT_BYTES / bytes : 0;
    watch->options.outputs = kept < MOST_KEPT_TOKENS ? kept : MOST_KEPT_TOKENS;
    watch->options.grams = mt_model_keeps_records(model);
    watch->options.batch_tokens = BATCH_TOKENS;
}

enum mt_status mt_routing_watch_create(struct mt_session *session, struct mt_routing_watch **watch)
{
    struct mt_context *ctx = session->ctx;
    const struct mt_model_desc *desc = mt_model_description(session->model);
    void *memory = NULL;
    void *number = NULL;
    *watch = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **watch, &memory);
    if (status != MT_OK) return status;
    struct mt_routing_watch *made = memory;
    made->ctx = ctx;
    made->session = session;
    made->collection = (struct mt_collection){.model = session->model, .self = made, .name = name_tokens};
    status = mt_allocate_array(ctx, (size_t)desc->layers, sizeof *made->number, &number);
    made->number = number;
    if (status == MT_OK) {
        choose_options(made, desc);
        if (made->options.layers > 0) status = mt_routing_watch_begin(made, 1);
        if (status == MT_OK && made->options.layers > 0) status = mt_collection_begin(&made->collection);
    }
    if (status != MT_OK || made->options.layers == 0) {
        mt_routing_watch_destroy(made);
        return status;
    }
    *watch = made;
    return MT_OK;
}

void mt_routing_watch_destroy(struct mt_routing_watch *watch)
{
    if (watch == NULL) return;
    mt_collector_destroy(watch->collection.collector);
    mt_collection_end(&watch->collection);
    free_names(watch);
    size_t layers = (size_t)mt_model_description(watch->session->model)->layers;
    mt_release(watch->ctx, watch->number, layers * sizeof *watch->number);
    mt_release(watch->ctx, watch, sizeof *watch);
}

enum mt_status mt_routing_watch_begin(struct mt_routing_watch *watch, size_t questions)
{
    mt_collection_forget(&watch->collection);
    mt_collector_destroy(watch->collection.collector);
    watch->collection.collector = NULL;
    if (questions < 1) questions = 1;
    watch->group_questions = (questions + MOST_GROUPS - 1) / MOST_GROUPS;
    watch->options.groups = (int64_t)((questions + watch->group_questions - 1) / watch->group_questions);
    return mt_collector_create(watch->session->device, &watch->options, &watch->collection.collector);
}

enum mt_status mt_routing_watch_settle(struct mt_routing_watch *watch)
{
    return mt_collection_settle(&watch->collection);
}

struct mt_collector *mt_routing_watch_collector(struct mt_routing_watch *watch)
{
    return watch->collection.collector;
}

enum mt_status mt_routing_watch_figures(struct mt_routing_watch *watch, struct mt_comm *comm,
                                        struct mt_figures *figures)
{
    *figures = (struct mt_figures){0};
    struct mt_collector *collector = watch->collection.collector;
    enum mt_status status = mt_comm_agree(comm, watch->ctx, mt_routing_watch_settle(watch));
    if (status == MT_OK) status = mt_collector_gather(collector, comm);
    if (status == MT_OK && mt_comm_rank(comm) == 0) status = mt_collector_finish(collector, NULL, figures);
    return mt_comm_agree(comm, watch->ctx, status);
}
