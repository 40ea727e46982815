/* A first look at the sources: can any row be used, and does the template suit model and data? */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "train/data/corpus_parts.h"

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
    if (fault == NULL) {
        return mt_fail(corpus->ctx, MT_ERR_FORMAT,
                       "%s: not one of its %" PRIu64 " rows has an answer within data.max_length", path,
                       rows);
    }
    return mt_fail(corpus->ctx, MT_ERR_FORMAT,
                   "%s: not one of its %" PRIu64 " rows can be used; of %" PRIu64 " this is true: %s", path,
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
        enum mt_status status = mt_dataset_read(source->dataset, i, row);
        if (status == MT_OK)
            status = mt_example_make(looking->maker, &source->example, row, &looking->example);
        if (status == MT_OK && looking->example.answer_tokens > 0) return MT_OK;
        if (status == MT_ERR_FORMAT)
            status = mt_row_faults_add(&looking->faults, row->file, corpus->ctx->message, &fresh);
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
            "%s asks for an answer in other words than those it writes one out with: what is trained "
            "on does not quite begin as answers will (data.template_options may help)",
            name);
    }
    if (example->unended > 0 && !warned->unended) {
        warned->unended = true;
        mt_log_warning(
            corpus->log,
            "%s ends an answer with no token that is special: the model may not learn where to stop", name);
    }
}

enum mt_status mt_corpus_look(struct mt_corpus *corpus, const struct mt_train_settings *settings)
{
    struct mt_context *ctx = corpus->ctx;
    struct looking looking = {.faults = {.ctx = ctx}, .foreign = {.ctx = ctx}};
    struct warned warned = {0};
    struct mt_example_options options = mt_corpus_example_options(corpus, settings);
    // What a model's own template writes, its authors have seen.
    if (!mt_chat_template_is_models(corpus->template)) options.foreign = &looking.foreign;
    mt_row_init(ctx, &looking.row);
    mt_example_init(ctx, &looking.example);
    enum mt_status status = mt_example_maker_create(ctx, &options, &looking.maker);
    for (size_t i = 0; i < corpus->dataset_count && status == MT_OK; i++) {
        struct mt_batch_source source = mt_corpus_source(corpus, settings, i);
        mt_row_faults_free(&looking.faults);
        status = look_at(corpus, &looking, &source);
        if (status == MT_OK) status = keep_first(corpus, &looking);
        if (status == MT_OK) warn_of_template(corpus, &looking.example, &warned);
    }
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
