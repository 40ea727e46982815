/*
 * First the sequences of all steps, each once; then these through the model, as many at a time as a
 * micro-batch holds.
 */
#include "train/choices_record.h"

#include <inttypes.h>

#include "base/progress.h"
#include "formats/safetensors/safetensors_writer.h"
#include "ops/choose.h"

#define NARROW_EXPERTS 256 // so many fit U8

struct recording {
    struct mt_context *ctx; // borrowed
    const struct mt_trainer_options *options;
    struct mt_train_settings settings; // with the device and the sizes chosen
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_choice_shape shape;
    struct mt_corpus corpus;
    struct mt_adapter adapter;
    struct mt_device *device;
    struct mt_model *model;
    // The sequences: ids end to end, and where each begins.
    struct mt_id_list ids;
    int64_t *offsets;
    size_t offset_capacity;
    struct mt_sequence_index index;
    // The batch at hand.
    int64_t most_sequences;
    int32_t *starts; // [most_sequences + 1]
    int32_t *chosen; // [T,k]: of one layer
    int32_t *wide;   // [T,L,k]
    uint8_t *narrow; // the same
    struct mt_safetensors_writer writer;
};

// ------------------------------------------------------------------ what is trained on

static enum mt_status add_sequence(struct recording *r, const int32_t *ids, int64_t length)
{
    size_t number = 0;
    if (mt_sequence_index_find(&r->index, ids, length, &number)) return MT_OK;
    enum mt_status status = MT_OK;
    r->offsets = mt_list_reserve(r->ctx, r->offsets, &r->offset_capacity, sizeof *r->offsets,
                                 r->index.count + 2, &status);
    if (status == MT_OK) status = mt_id_list_reserve(&r->ids, (size_t)length);
    r->index.ids = r->ids.data; // both may have moved
    r->index.offsets = r->offsets;
    if (status == MT_OK) status = mt_sequence_index_reserve(&r->index, r->index.count + 1);
    if (status != MT_OK) return status;
    memcpy(r->ids.data + r->ids.count, ids, (size_t)length * sizeof *ids);
    r->offsets[0] = 0;
    r->ids.count += (size_t)length;
    r->offsets[r->index.count + 1] = (int64_t)r->ids.count;
    mt_sequence_index_add(&r->index);
    return MT_OK;
}

static enum mt_status find_sequences(struct recording *r)
{
    struct mt_run_length length;
    enum mt_status status = mt_corpus_length(&r->corpus, &r->settings, false, &length);
    for (uint64_t i = 0; i < length.steps && status == MT_OK; i++) {
        struct mt_step step;
        status = mt_batches_next(r->corpus.training, &step);
        for (size_t m = 0; status == MT_OK && m < step.micro_batches; m++) {
            struct mt_batch batch = {0};
            mt_batches_micro(r->corpus.training, m, &batch);
            for (int64_t b = 0; status == MT_OK && b < batch.sequences; b++)
                status =
                    add_sequence(r, batch.ids + batch.offsets[b], batch.offsets[b + 1] - batch.offsets[b]);
        }
    }
    return status;
}

static enum mt_status open_data(struct recording *r)
{
    const struct mt_trainer_options *options = r->options;
    enum mt_status status = mt_hf_config_read_folder(r->ctx, r->settings.model, &r->config);
    if (status == MT_OK) status = mt_model_describe(r->ctx, &r->config, &r->desc);
    if (status != MT_OK) return status;
    r->shape = (struct mt_choice_shape){.layers = mt_model_moe_layers(&r->desc, NULL),
                                        .slots = r->desc.router.slots,
                                        .experts = r->desc.experts};
    if (r->shape.layers == 0)
        return mt_fail(r->ctx, MT_ERR_USAGE, "%s: the model has no experts to choose", r->settings.model);
    if (r->settings.tokens == 0) r->settings.tokens = mt_train_auto_tokens(&r->settings);
    status = mt_corpus_open(r->ctx, &r->settings, &r->config, options->templates, options->log, &r->corpus);
    return status == MT_OK ? find_sequences(r) : status;
}

// ------------------------------------------------------------------ the model

static enum mt_status open_model(struct recording *r)
{
    const struct mt_train_settings *settings = &r->settings;
    struct mt_model_options options = {
        .tokens = settings->tokens, .sequences = r->most_sequences, .positions = settings->max_length};
    enum mt_status status =
        mt_device_choose(r->ctx, NULL, settings->device, MT_USE_FAST, &r->settings.device);
    if (status == MT_OK)
        status = mt_device_create(r->ctx, settings->device, (int)settings->threads, &r->device);
    if (status == MT_OK && settings->adapter != NULL) {
        status = mt_adapter_open(r->ctx, settings->adapter, &r->desc, &r->adapter);
        if (status == MT_OK) mt_adapter_select(&r->adapter, &options.selection);
    }
    if (status == MT_OK) status = mt_train_quantise(r->ctx, settings, &options.selection.quantise);
    if (status != MT_OK) return status;
    options.activations = mt_device_activations(r->device);
    if (settings->activations == MT_ACTIVATIONS_F32) options.activations = MT_F32;
    if (settings->activations == MT_ACTIVATIONS_BF16) options.activations = MT_BF16;
    status = mt_model_open(r->device, settings->model, &options, &r->model);
    if (status == MT_OK && settings->adapter != NULL)
        status = mt_adapter_apply(&r->adapter, mt_model_params(r->model));
    return status;
}

/* A layer's choice goes to its place in [T,L,k]. */
static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    struct recording *r = self;
    int64_t slots = r->shape.slots;
    (void)input;
    enum mt_status status = mt_device_download(r->device, r->chosen, record->chosen.data,
                                               (size_t)(record->tokens * slots) * sizeof *r->chosen);
    for (int64_t i = 0; status == MT_OK && i < record->tokens; i++) {
        memcpy(r->wide + (i * r->shape.layers + moe_layer) * slots, r->chosen + i * slots,
               (size_t)slots * sizeof *r->wide);
    }
    return status;
}

/* Sequences from `first` on, as many as fit: through the model and into the file. */
static enum mt_status record_batch(struct recording *r, size_t *first)
{
    struct mt_batch batch = {
        .ids = r->ids.data + r->offsets[*first], .offsets = r->starts, .loss_only = true};
    struct mt_model_loss loss;
    size_t end = *first;
    while (end < r->index.count && batch.sequences < r->most_sequences &&
           r->offsets[end + 1] - r->offsets[*first] <= r->settings.tokens) {
        batch.tokens = r->offsets[end + 1] - r->offsets[*first];
        batch.sequences++;
        r->starts[batch.sequences] = (int32_t)batch.tokens;
        end++;
    }
    enum mt_status status = mt_model_forward(r->model, &batch, &loss);
    if (status != MT_OK) return status;
    int64_t count = batch.tokens * r->shape.layers * r->shape.slots;
    *first = end;
    if (r->shape.experts > NARROW_EXPERTS)
        return mt_safetensors_writer_write(&r->writer, r->wide, (size_t)count * sizeof *r->wide);
    for (int64_t i = 0; i < count; i++) r->narrow[i] = (uint8_t)r->wide[i];
    return mt_safetensors_writer_write(&r->writer, r->narrow, (size_t)count);
}

// ------------------------------------------------------------------ the file

static enum mt_status write_file(struct recording *r, const char *path)
{
    int64_t tokens = (int64_t)r->ids.count;
    bool narrow = r->shape.experts <= NARROW_EXPERTS;
    const struct mt_safetensors_spec specs[] = {
        {.name = "offsets", .dtype = MT_SAFETENSORS_I64, .rank = 1, .dim = {(int64_t)r->index.count + 1}},
        {.name = "ids", .dtype = MT_SAFETENSORS_I32, .rank = 1, .dim = {tokens}},
        {.name = "experts",
         .dtype = narrow ? MT_SAFETENSORS_U8 : MT_SAFETENSORS_I32,
         .rank = 3,
         .dim = {tokens, r->shape.layers, r->shape.slots}},
    };
    struct mt_progress progress;
    enum mt_status status = mt_safetensors_writer_open(r->ctx, path, specs, 3, NULL, 0, &r->writer);
    if (status == MT_OK)
        status =
            mt_safetensors_writer_write(&r->writer, r->offsets, (r->index.count + 1) * sizeof *r->offsets);
    if (status == MT_OK)
        status = mt_safetensors_writer_write(&r->writer, r->ids.data, r->ids.count * sizeof *r->ids.data);
    mt_progress_start(
        &progress, &(struct mt_progress_options){
                       .stream = r->options->terminal, .label = "recording", .unit = "tok", .total = tokens});
    mt_model_observe(r->model, &(struct mt_layer_observer){.self = r, .look = look});
    for (size_t first = 0; status == MT_OK && first < r->index.count;) {
        status = record_batch(r, &first);
        if (status == MT_OK) mt_progress_update(&progress, r->offsets[first]);
    }
    mt_progress_finish(&progress);
    return status == MT_OK ? mt_safetensors_writer_finish(&r->writer) : status;
}

static size_t chosen_bytes(const struct recording *r)
{
    return (size_t)r->settings.tokens * (size_t)r->shape.slots * sizeof *r->chosen;
}

static size_t starts_bytes(const struct recording *r)
{
    return ((size_t)r->most_sequences + 1) * sizeof *r->starts;
}

static enum mt_status make_room(struct recording *r)
{
    void *starts = NULL;
    void *chosen = NULL;
    void *wide = NULL;
    void *narrow = NULL;
    size_t layers = (size_t)r->shape.layers;
    r->most_sequences = mt_corpus_most_sequences(&r->settings, r->settings.tokens);
    enum mt_status status = mt_allocate_array(r->ctx, 1, starts_bytes(r), &starts);
    if (status == MT_OK) status = mt_allocate_array(r->ctx, 1, chosen_bytes(r), &chosen);
    if (status == MT_OK) status = mt_allocate_array(r->ctx, layers, chosen_bytes(r), &wide);
    if (status == MT_OK)
        status = mt_allocate_array(r->ctx, layers, chosen_bytes(r) / sizeof *r->chosen, &narrow);
    r->starts = starts;
    r->chosen = chosen;
    r->wide = wide;
    r->narrow = narrow;
    return status;
}

static void release(struct recording *r)
{
    size_t layers = (size_t)r->shape.layers;
    mt_safetensors_writer_abandon(&r->writer);
    mt_release(r->ctx, r->narrow, layers * chosen_bytes(r) / sizeof *r->chosen);
    mt_release(r->ctx, r->wide, layers * chosen_bytes(r));
    mt_release(r->ctx, r->chosen, chosen_bytes(r));
    mt_release(r->ctx, r->starts, starts_bytes(r));
    mt_sequence_index_free(&r->index);
    mt_release(r->ctx, r->offsets, r->offset_capacity * sizeof *r->offsets);
    mt_id_list_free(&r->ids);
    mt_model_close(r->model);
    mt_device_destroy(r->device);
    mt_adapter_close(&r->adapter);
    mt_corpus_close(&r->corpus);
    mt_hf_config_free(&r->config);
}

enum mt_status mt_choices_record(struct mt_context *ctx, const struct mt_trainer_options *options,
                                 const char *path, struct mt_choices_recorded *recorded)
{
    struct recording r = {.ctx = ctx,
                          .options = options,
                          .settings = *options->settings,
                          .ids = {.ctx = ctx},
                          .index = {.ctx = ctx}};
    enum mt_status status = open_data(&r);
    if (status == MT_OK) status = make_room(&r);
    if (status == MT_OK) status = open_model(&r);
    if (status == MT_OK) status = write_file(&r, path);
    *recorded = (struct mt_choices_recorded){
        .sequences = r.index.count, .tokens = (int64_t)r.ids.count, .shape = r.shape};
    release(&r);
    return status;
}
