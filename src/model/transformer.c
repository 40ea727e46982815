/* The stack of layers, and how far down a backward pass has to go. */
#include "model/transformer.h"

bool mt_transformer_keeps_hidden(const struct mt_transformer *transformer)
{
    return transformer->plan.backward || transformer->plan.hidden;
}

// ------------------------------------------------------------------ memory

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What linear layers need for a moment, elements: of the largest rank-r product, of the largest of exact
 * linear layers, and of what these make.
 */
struct linear_work {
    int64_t xa, exact_xa, exact_out;
};

static void need_linear(struct linear_work *work, const struct mt_linear *linear, int64_t rows)
{
    if (linear->exact) work->exact_out = larger(work->exact_out, rows * linear->weight.out);
    if (!mt_linear_has_lora(linear)) return;
    work->xa = larger(work->xa, rows * linear->rank);
    if (linear->exact) work->exact_xa = larger(work->exact_xa, rows * linear->rank);
}

static struct linear_work linear_work_of(const struct mt_params *params, const struct mt_model_desc *desc,
                                         int64_t tokens, int64_t rows)
{
    struct linear_work work = {0};
    need_linear(&work, &params->head, tokens);
    for (int64_t i = 0; i < desc->layers; i++) {
        struct mt_linear *linears[MT_LAYER_LINEARS];
        mt_layer_linears(&params->layer[i], linears);
        for (int j = 0; j < MT_LAYER_LINEARS; j++)
            need_linear(&work, linears[j], j < MT_LAYER_ROUTED ? tokens : rows);
    }
    return work;
}

/* What all layers read, and the memory linear layers share. */
static void plan_pass(struct mt_transformer *t, const struct mt_batch_shape *shape,
                      struct mt_regions *regions)
{
    struct mt_pass *pass = &t->pass;
    int64_t tokens = shape->tokens;
    pass->tokens = tokens;
    pass->sequences = shape->sequences;
    pass->cached.prompt_sequences = shape->prompt_sequences;
    pass->cached.prompt_tokens = shape->prompt_tokens;
    pass->cached.prompt_keys = shape->prompt_keys;
    pass->ids = mt_plan_1d(&regions->index, MT_I32, tokens);
    pass->positions = mt_plan_1d(&regions->index, MT_I32, tokens);
    pass->offsets = mt_plan_1d(&regions->index, MT_I32, shape->sequences + 1);
    pass->segment = mt_plan_1d(&regions->index, MT_I32, tokens);
    t->labels = mt_plan_1d(&regions->index, MT_I32, tokens);
    struct mt_tensor mask = mt_plan_1d(&regions->index, MT_I32, tokens);
    struct mt_tensor ortho_mask = mt_plan_1d(&regions->index, MT_I32, tokens);
    pass->moe.mask = shape->mask ? mask : (struct mt_tensor){0};
    pass->moe.ortho_mask = shape->ortho_mask ? ortho_mask : (struct mt_tensor){0};
    pass->moe.given = (struct mt_tensor){0};
    if (shape->given) {
        int64_t layers = mt_model_moe_layers(pass->desc, NULL);
        pass->moe.given = mt_plan_3d(&regions->index, MT_I32, layers, tokens, pass->desc->router.slots);
    }
    if (pass->cached.cache != NULL) {
        pass->cached.key_offsets = mt_plan_1d(&regions->index, MT_I32, shape->sequences + 1);
        pass->cached.key_starts = mt_plan_1d(&regions->index, MT_I32, shape->sequences);
        pass->cached.places = mt_plan_1d(&regions->index, MT_I32, tokens);
        pass->cached.prompt_offsets = mt_plan_1d(&regions->index, MT_I32, shape->prompt_sequences + 1);
        pass->cached.prompt_key_offsets = mt_plan_1d(&regions->index, MT_I32, shape->prompt_sequences + 1);
        pass->cached.prompt_key_places = mt_plan_1d(&regions->index, MT_I32, shape->prompt_keys);
        pass->cached.prompt_turns = mt_plan_1d(&regions->index, MT_I32, shape->prompt_keys);
    }
    int64_t rows = pass->moe.placement->most_rows(pass);
    if (mt_pass_needs(pass, MT_NEEDS_PROXIES)) rows = larger(rows, mt_proxies_rows(pass->desc));
    struct linear_work work = linear_work_of(t->params, pass->desc, tokens, rows);
    for (int i = 0; i < MT_LORA_LINEARS; i++)
        pass->work.xa[i] = mt_plan_1d(&regions->work, pass->type, work.xa);
    if (pass->type == pass->exact) return;
    pass->work.exact_xa = mt_plan_1d(&regions->work, pass->exact, work.exact_xa);
    pass->work.rounded = mt_plan_1d(&regions->work, pass->type, work.exact_out);
}

void mt_transformer_plan(struct mt_transformer *transformer, const struct mt_batch_shape *shape,
                         struct mt_regions *regions)
{
    struct mt_transformer *t = transformer;
    const struct mt_model_desc *desc = t->pass.desc;
    plan_pass(t, shape, regions);
    mt_head_plan(&t->head, &t->pass, t->params, t->plan.backward, regions);
    size_t of_layers = regions->work.bytes; // where theirs begins
    if (t->plan.backward) t->dhidden = mt_plan_2d(&regions->kept, t->pass.type, shape->tokens, desc->width);
    int moe_layers = 0;
    t->hidden[0] = mt_plan_2d(&regions->kept, t->pass.type, shape->tokens, desc->width);
    for (int64_t i = 0; i < desc->layers; i++) {
        struct mt_layer *layer = &t->layer[i];
        // Without a backward two tensors are enough: layers read one and write the other in turn.
        bool own = i < 1 || mt_transformer_keeps_hidden(t);
        t->hidden[i + 1] =
            own ? mt_plan_2d(&regions->kept, t->pass.type, shape->tokens, desc->width) : t->hidden[i - 1];
        layer->number = i;
        layer->moe.layer = i;
        layer->moe.number = moe_layers;
        if (t->params->layer[i].moe) moe_layers++;
        mt_layer_plan(layer, &t->pass, &t->params->layer[i], &t->plan, regions);
    }
    mt_regions_rewind_work(regions, 0);
    if (regions->work_bytes > t->work_bytes) t->work_bytes = regions->work_bytes;
    if (regions->work.base == NULL) return;
    t->head.space =
        (struct mt_space){.data = regions->work.base + of_layers, .bytes = t->work_bytes - of_layers};
}

// ------------------------------------------------------------------ forward

enum mt_status mt_transformer_forward(struct mt_transformer *transformer)
{
    struct mt_transformer *t = transformer;
    const struct mt_pass *pass = &t->pass;
    enum mt_status status = mt_embedding_forward(
        pass->device, &(struct mt_embedding_forward_args){
                          .table = t->params->embedding, .ids = pass->ids, .y = t->hidden[0]});
    if (status != MT_OK) return status;
    for (int64_t i = 0; i < pass->desc->layers; i++) {
        struct mt_layer *layer = &t->layer[i];
        const struct mt_layer_params *params = &t->params->layer[i];
        status = mt_layer_forward(pass, params, layer, &t->hidden[i], &t->hidden[i + 1]);
        if (status == MT_OK && params->moe && pass->moe.objective != NULL)
            status = mt_objective_forward(pass->moe.objective, layer->moe.number, &layer->moe.record);
        if (status == MT_OK && params->moe && t->observer.look != NULL) {
            struct mt_routing seen = layer->moe.record;
            seen.residual = layer->middle;
            status = t->observer.look(t->observer.self, layer->moe.number, &seen, &layer->normed);
        }
        if (status != MT_OK)
            return mt_fail_within(mt_device_context(pass->device), status, "layer %lld", (long long)i);
    }
    return mt_head_normalise(pass, t->params, &t->head, &t->hidden[pass->desc->layers]);
}

// ------------------------------------------------------------------ backward

static bool embedding_is_trained(const struct mt_transformer *t)
{
    return mt_tensor_present(&t->params->dembedding);
}

/* The lowest layer that is trained: 0 when the embedding does, past the last one when none does. */
static int64_t lowest_layer(const struct mt_transformer *t)
{
    int64_t layer = 0;
    if (embedding_is_trained(t)) return layer;
    while (layer < t->pass.desc->layers && !mt_layer_is_trained(&t->pass, &t->params->layer[layer])) layer++;
    return layer;
}

static bool final_norm_is_trained(const struct mt_transformer *t)
{
    return mt_tensor_present(&t->params->norm.dweight) || mt_tensor_present(&t->params->norm.dbias);
}

enum mt_status mt_transformer_loss(struct mt_transformer *transformer, float loss_weight, bool gradients)
{
    struct mt_transformer *t = transformer;
    bool below = lowest_layer(t) < t->pass.desc->layers || final_norm_is_trained(t);
    return mt_head_loss(&t->pass, t->params, &t->head, &t->labels, loss_weight, gradients,
                        gradients && below ? &t->dhidden : NULL);
}

enum mt_status mt_transformer_backward(struct mt_transformer *transformer)
{
    struct mt_transformer *t = transformer;
    const struct mt_pass *pass = &t->pass;
    int64_t layers = pass->desc->layers;
    int64_t lowest = lowest_layer(t);
    if (lowest == layers && !final_norm_is_trained(t)) return MT_OK;
    enum mt_status status = mt_head_backward(pass, t->params, &t->head, &t->hidden[layers], &t->dhidden);
    for (int64_t i = layers - 1; status == MT_OK && i >= lowest; i--) {
        bool below = i > lowest || embedding_is_trained(t);
        status = mt_layer_backward(pass, &t->params->layer[i], &t->layer[i], &t->hidden[i], &t->hidden[i + 1],
                                   below, &t->dhidden);
        if (status == MT_OK && t->hook.layer_done != NULL) status = t->hook.layer_done(t->hook.self, i);
        if (status != MT_OK)
            return mt_fail_within(mt_device_context(pass->device), status, "layer %lld", (long long)i);
    }
    if (status != MT_OK || !embedding_is_trained(t)) return status;
    return mt_embedding_backward(pass->device,
                                 &(struct mt_embedding_backward_args){
                                     .dy = t->dhidden, .ids = pass->ids, .dtable = t->params->dembedding});
}
