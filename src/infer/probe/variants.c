/* Pairs by part, their lora_B scaled on the device, and passes over short texts. */
#include "infer/probe/variants.h"

#include <stdio.h>

#define BATCH_TOKENS    256
#define BATCH_SEQUENCES 64
#define NOT_YET         SIZE_MAX

struct mt_variant_pair {
    const struct mt_param *b; // lora_B
    const struct mt_param *a; // lora_A, of routed experts; else NULL
    int part;
    size_t at, count;     // of lora_B in `saved`
    size_t a_at, a_count; // of lora_A
    size_t peers;         // in `peers`, of routed experts; NOT_YET: not looked for
    size_t source;        // the pair it has on the device
    float strength;       // that it has there
};

// ------------------------------------------------------------------ parts

/* What a pair is called: the last word of its module in attention, else the part of the model. */
static void name_kind(const struct mt_param *param, char kind[MT_VARIANTS_KIND_BYTES])
{
    const char *end = strstr(param->name, ".lora_B.");
    const char *start = end;
    while (start > param->name && start[-1] != '.') start--;
    if (param->part == MT_PART_ATTENTION)
        (void)snprintf(kind, MT_VARIANTS_KIND_BYTES, "%.*s", (int)(end - start), start);
    else
        (void)snprintf(kind, MT_VARIANTS_KIND_BYTES, "%s", mt_model_part_name(param->part));
}

bool mt_variants_is_routed(const struct mt_variant_part *part)
{
    return strcmp(part->kind, mt_model_part_name(MT_PART_EXPERTS)) == 0;
}

static enum mt_status find_part(struct mt_variants *variants, const struct mt_param *param, int *part)
{
    char kind[MT_VARIANTS_KIND_BYTES];
    name_kind(param, kind);
    int at = 0;
    while (at < variants->parts && strcmp(variants->part[at].kind, kind) != 0) at++;
    struct mt_variant_part *found = &variants->part[at];
    if (at == MT_VARIANTS_PARTS)
        return mt_fail(variants->ctx, MT_ERR_UNSUPPORTED, "the adapter has more than %d kinds of pairs",
                       MT_VARIANTS_PARTS);
    if (at == variants->parts) {
        variants->parts++;
        memcpy(found->kind, kind, sizeof kind);
        found->first = found->last = param->layer;
    }
    if (param->layer < found->first) found->first = param->layer;
    if (param->layer > found->last) found->last = param->layer;
    *part = at;
    return MT_OK;
}

enum mt_status mt_variants_unite(struct mt_variants *variants)
{
    enum mt_status status = MT_OK;
    variants->parts = 0;
    for (size_t i = 0; i < variants->pairs && status == MT_OK; i++)
        status = find_part(variants, variants->pair[i].b, &variants->pair[i].part);
    return status;
}

bool mt_variants_split(struct mt_variants *variants, int part, int64_t border)
{
    struct mt_variant_part *old = &variants->part[part];
    if (border < old->first || border >= old->last || variants->parts == MT_VARIANTS_PARTS) return false;
    struct mt_variant_part *added = &variants->part[variants->parts];
    *added = *old;
    added->first = old->last;
    old->last = old->first;
    for (size_t i = 0; i < variants->pairs; i++) {
        struct mt_variant_pair *pair = &variants->pair[i];
        int64_t layer = pair->b->layer;
        if (pair->part != part) continue;
        if (layer > border) {
            pair->part = variants->parts;
            if (layer < added->first) added->first = layer;
        } else if (layer > old->last) {
            old->last = layer;
        }
    }
    variants->parts++;
    return true;
}

// ------------------------------------------------------------------ opening

static bool is_b(const struct mt_param *param)
{
    return strstr(param->name, ".lora_B.") != NULL;
}

/* The lora_A of a lora_B. */
static const struct mt_param *find_a(const struct mt_params *params, const struct mt_param *b)
{
    size_t letter = (size_t)(strstr(b->name, ".lora_B.") - b->name) + strlen(".lora_");
    for (size_t i = (size_t)(b - params->trained); i-- > 0;) { // right before it
        const struct mt_param *a = &params->trained[i];
        if (strlen(a->name) > letter && a->name[letter] == 'A' && strncmp(a->name, b->name, letter) == 0)
            return a;
    }
    return NULL;
}

static void place(struct mt_variants *variants, const struct mt_param *param, size_t *at, size_t *count)
{
    *at = variants->elements;
    *count = (size_t)mt_tensor_count(&param->value);
    variants->elements += *count;
    if (*count > variants->largest) variants->largest = *count;
}

static enum mt_status list_pairs(struct mt_variants *variants)
{
    const struct mt_params *params = mt_model_params(variants->model);
    void *memory = NULL;
    for (size_t i = 0; i < params->trained_count; i++) variants->pairs += is_b(&params->trained[i]) ? 1 : 0;
    if (variants->pairs == 0)
        return mt_fail(variants->ctx, MT_ERR_UNSUPPORTED, "the adapter has no LoRA pairs to look for");
    enum mt_status status =
        mt_allocate_array(variants->ctx, variants->pairs, sizeof *variants->pair, &memory);
    if (status != MT_OK) return status;
    variants->pair = memory;
    size_t filled = 0;
    for (size_t i = 0; i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        if (!is_b(param)) continue;
        struct mt_variant_pair *pair = &variants->pair[filled];
        *pair = (struct mt_variant_pair){.b = param, .source = filled, .peers = NOT_YET, .strength = 1.0F};
        filled++;
        place(variants, param, &pair->at, &pair->count);
        if (param->expert >= 0) pair->a = find_a(params, param);
        if (pair->a != NULL) place(variants, pair->a, &pair->a_at, &pair->a_count);
    }
    return mt_variants_unite(variants);
}

/* Two pairs of one map: their names are the same but for the expert's number. */
static bool is_peer(const struct mt_param *one, const struct mt_param *other)
{
    const char *end = strrchr(one->name, '.'); // of ".weight", then ".lora_B", then the map
    for (int i = 0; i < 2; i++) {
        do end--;
        while (*end != '.');
    }
    size_t bytes = strlen(end);
    size_t length = strlen(other->name);
    return one->layer == other->layer && other->expert >= 0 && length > bytes &&
           strcmp(other->name + length - bytes, end) == 0;
}

/* The peers of a layer's map are found once, by its first pair, for all of them. */
static enum mt_status find_peers(struct mt_variants *variants)
{
    void *memory = NULL;
    variants->experts = mt_model_description(variants->model)->experts;
    for (size_t i = 0; i < variants->pairs; i++) variants->peer_count += variants->pair[i].a != NULL ? 1 : 0;
    variants->peer_count *= (size_t)variants->experts;
    if (variants->peer_count == 0) return MT_OK;
    enum mt_status status =
        mt_allocate_array(variants->ctx, variants->peer_count, sizeof *variants->peers, &memory);
    if (status != MT_OK) return status;
    variants->peers = memory;
    size_t next = 0;
    for (size_t i = 0; i < variants->pairs; i++) {
        struct mt_variant_pair *pair = &variants->pair[i];
        if (pair->a == NULL || pair->peers != NOT_YET) continue;
        for (int64_t e = 0; e < variants->experts; e++) variants->peers[next + (size_t)e] = -1;
        for (size_t j = i; j < variants->pairs; j++) {
            struct mt_variant_pair *other = &variants->pair[j];
            if (other->a == NULL || !is_peer(pair->b, other->b)) continue;
            variants->peers[next + (size_t)other->b->expert] = (int32_t)j;
            other->peers = next;
        }
        next += (size_t)variants->experts;
    }
    return MT_OK;
}

static enum mt_status save_pairs(struct mt_variants *variants)
{
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(variants->ctx, variants->elements, sizeof *variants->saved, &memory);
    variants->saved = memory;
    if (status != MT_OK) return status;
    status = mt_allocate_array(variants->ctx, variants->largest, sizeof *variants->scaled, &memory);
    variants->scaled = status == MT_OK ? memory : NULL;
    for (size_t i = 0; i < variants->pairs && status == MT_OK; i++) {
        const struct mt_variant_pair *pair = &variants->pair[i];
        status = mt_device_download(variants->device, variants->saved + pair->at, pair->b->value.data,
                                    pair->count * sizeof *variants->saved);
        if (status == MT_OK && pair->a != NULL)
            status = mt_device_download(variants->device, variants->saved + pair->a_at, pair->a->value.data,
                                        pair->a_count * sizeof *variants->saved);
    }
    return status;
}

static enum mt_status open_model(struct mt_variants *variants, const struct mt_variants_options *options)
{
    struct mt_model_options model = {
        .tokens = BATCH_TOKENS, .sequences = BATCH_SEQUENCES, .positions = MT_VARIANTS_TEXT_TOKENS};
    struct mt_adapter adapter = {0};
    enum mt_status status = mt_adapter_open_for(variants->ctx, options->adapter, options->base, &adapter);
    if (status != MT_OK) return status;
    mt_adapter_select(&adapter, &model.selection);
    if (options->quantise != NULL) model.selection.quantise = *options->quantise;
    model.selection.log = options->log;
    variants->biases = adapter.biases.tensor_count > 0;
    status = mt_device_create(variants->ctx, options->device, options->threads, &variants->device);
    if (status == MT_OK) {
        model.activations = mt_device_activations(variants->device);
        status = mt_model_open(variants->device, options->base, &model, &variants->model);
    }
    if (status == MT_OK) status = mt_adapter_apply(&adapter, mt_model_params(variants->model));
    mt_adapter_close(&adapter);
    return status;
}

static enum mt_status open_texts(struct mt_variants *variants, const char *directory)
{
    struct mt_context *ctx = variants->ctx;
    const struct mt_model_desc *desc = mt_model_description(variants->model);
    struct mt_special_ids special = {0};
    void *memory = NULL;
    enum mt_status status = mt_tokenizer_load(ctx, directory, &variants->tokenizer);
    if (status == MT_OK) status = mt_token_scratch_create(ctx, variants->tokenizer, &variants->scratch);
    if (status == MT_OK)
        status = mt_special_ids_find(ctx, variants->tokenizer, directory, desc->config, &special);
    variants->beginning = (struct mt_text_beginning){.rule = MT_BOS_TOKENIZER, .id = special.bos};
    if (status == MT_OK)
        status = mt_device_buffer_create(
            variants->device, (size_t)(BATCH_TOKENS * desc->vocabulary) * sizeof(float), &variants->logits);
    if (status == MT_OK)
        status = mt_allocate_array(ctx, (size_t)desc->vocabulary, sizeof *variants->row, &memory);
    if (status == MT_OK) variants->row = memory;
    return status;
}

enum mt_status mt_variants_open(struct mt_context *ctx, const struct mt_variants_options *options,
                                struct mt_variants *variants)
{
    *variants = (struct mt_variants){.ctx = ctx, .silent_last = -1};
    enum mt_status status = open_model(variants, options);
    if (status == MT_OK) status = list_pairs(variants);
    if (status == MT_OK) status = find_peers(variants);
    if (status == MT_OK) status = save_pairs(variants);
    if (status == MT_OK) status = open_texts(variants, options->base);
    if (status != MT_OK) mt_variants_close(variants);
    return status;
}

void mt_variants_close(struct mt_variants *variants)
{
    struct mt_context *ctx = variants->ctx;
    if (ctx == NULL) return;
    size_t vocabulary =
        variants->model != NULL ? (size_t)mt_model_description(variants->model)->vocabulary : 0;
    mt_release(ctx, variants->row, vocabulary * sizeof *variants->row);
    mt_buffer_release(&variants->logits);
    mt_token_scratch_free(variants->scratch);
    mt_tokenizer_free(variants->tokenizer);
    mt_release(ctx, variants->saved, variants->elements * sizeof *variants->saved);
    mt_release(ctx, variants->scaled, variants->largest * sizeof *variants->scaled);
    mt_release(ctx, variants->peers, variants->peer_count * sizeof *variants->peers);
    mt_release(ctx, variants->pair, variants->pairs * sizeof *variants->pair);
    mt_model_close(variants->model);
    mt_device_destroy(variants->device);
    *variants = (struct mt_variants){0};
}

// ------------------------------------------------------------------ running

enum mt_status mt_variants_encode(struct mt_variants *variants, const char *text, size_t bytes,
                                  struct mt_id_list *ids)
{
    size_t before = ids->count;
    enum mt_status status =
        mt_plain_text_encode(variants->tokenizer, variants->scratch, &variants->beginning, text, bytes, ids);
    if (ids->count > before + MT_VARIANTS_TEXT_TOKENS) ids->count = before + MT_VARIANTS_TEXT_TOKENS;
    return status;
}

/* The pair that a pair's expert has; variants->pairs: none. */
static size_t source_of(const struct mt_variants *variants, size_t i)
{
    const struct mt_variant_pair *pair = &variants->pair[i];
    if (variants->source == NULL || pair->a == NULL) return i;
    int32_t peer = variants->peers[pair->peers + (size_t)variants->source[pair->b->expert]];
    return peer < 0 ? variants->pairs : (size_t)peer;
}

/* Puts pair `source` at `strength` where pair i is. */
static enum mt_status put(struct mt_variants *variants, size_t i, size_t source, float strength)
{
    struct mt_variant_pair *pair = &variants->pair[i];
    const struct mt_variant_pair *from = &variants->pair[source];
    for (size_t j = 0; j < pair->count; j++) variants->scaled[j] = strength * variants->saved[from->at + j];
    enum mt_status status = mt_device_upload(variants->device, pair->b->value.data, variants->scaled,
                                             pair->count * sizeof *variants->scaled);
    if (status == MT_OK && source != pair->source)
        status = mt_device_upload(variants->device, pair->a->value.data, variants->saved + from->a_at,
                                  pair->a_count * sizeof *variants->saved);
    pair->source = source;
    pair->strength = strength;
    return status;
}

static enum mt_status set_strength(struct mt_variants *variants, const float *strength)
{
    bool changed = false;
    for (size_t i = 0; i < variants->pairs; i++) {
        struct mt_variant_pair *pair = &variants->pair[i];
        int64_t layer = pair->b->layer;
        size_t source = source_of(variants, i);
        bool silent = layer >= variants->silent_first && layer <= variants->silent_last;
        float wanted = silent || source == variants->pairs ? 0.0F : strength[pair->part];
        if (wanted == 0.0F) source = pair->source;
        if (pair->strength == wanted && pair->source == source) continue;
        enum mt_status status = put(variants, i, source, wanted);
        if (status != MT_OK) return status;
        changed = true;
    }
    return changed ? mt_params_round(mt_model_params(variants->model)) : MT_OK;
}

/* The texts from `first` on that fill a batch; *next: the first that does not. */
static enum mt_status run_batch(struct mt_variants *variants, const struct mt_probe_text *texts, size_t count,
                                size_t first, size_t *next, const struct mt_probe_visitor *visitor)
{
    int32_t ids[BATCH_TOKENS];
    int32_t offsets[BATCH_SEQUENCES + 1] = {0};
    struct mt_batch batch = {.ids = ids, .offsets = offsets, .progress = 1.0, .loss_only = true};
    struct mt_model_loss loss;
    size_t end = first;
    while (end < count && batch.sequences < BATCH_SEQUENCES) {
        size_t longest = end;
        while (longest + 1 < count && texts[longest + 1].ids == texts[end].ids) longest++;
        if (batch.tokens + (int64_t)texts[longest].count > BATCH_TOKENS) break;
        memcpy(ids + batch.tokens, texts[longest].ids, texts[longest].count * sizeof *ids);
        batch.tokens += (int64_t)texts[longest].count;
        offsets[++batch.sequences] = (int32_t)batch.tokens;
        end = longest + 1;
    }
    int64_t vocabulary = mt_model_description(variants->model)->vocabulary;
    const struct mt_tensor logits = mt_tensor_2d(variants->logits.data, MT_F32, batch.tokens, vocabulary);
    enum mt_status status = mt_model_forward(variants->model, &batch, &loss);
    if (status == MT_OK) status = mt_model_logits(variants->model, &logits);
    for (size_t i = first, sequence = 0; i < end && status == MT_OK; i++) {
        if (i > first && texts[i].ids != texts[i - 1].ids) sequence++;
        int64_t token = offsets[sequence] + (int64_t)texts[i].count - 1;
        const float *row = (const float *)variants->logits.data + token * vocabulary;
        status = mt_device_download(variants->device, variants->row, row, (size_t)vocabulary * sizeof *row);
        if (status == MT_OK) status = visitor->visit(visitor->self, i, variants->row, vocabulary);
    }
    *next = end;
    return status;
}

enum mt_status mt_variants_run(struct mt_variants *variants, const float *strength,
                               const struct mt_probe_text *texts, size_t count,
                               const struct mt_probe_visitor *visitor)
{
    enum mt_status status = set_strength(variants, strength);
    for (size_t next = 0; next < count && status == MT_OK;)
        status = run_batch(variants, texts, count, next, &next, visitor);
    return status;
}
