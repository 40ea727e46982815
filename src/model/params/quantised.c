/* Quantised weights of a model: their layout, and their codes. */
#include "model/params/quantised.h"

#include <omp.h>
#include <string.h>

// ------------------------------------------------------------------ layout

void mt_quantised_layout_begin(struct mt_quantised_layout *layout, const struct mt_quantise_options *options,
                               const struct mt_params *params)
{
    size_t behind_shared = layout->behind_shared;
    *layout = (struct mt_quantised_layout){.options = options,
                                           .codes = {.base = params->codes.data},
                                           .copies = params->unpacked.data,
                                           .behind_shared = behind_shared,
                                           .layer = -1};
    if (options->on && options->nested) layout->map = mt_plan_1d(&layout->codes, MT_F32, MT_NF4_NESTED_CODES);
}

static size_t at_least(size_t most, size_t bytes)
{
    return most > bytes ? most : bytes;
}

/* Memory of every part that has none. */
static void plan_matrix(struct mt_planner *planner, struct mt_quantised *matrix)
{
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        if (!mt_tensor_present(parts[i]) || parts[i]->data != NULL) continue;
        struct mt_tensor flat = mt_plan_1d(planner, parts[i]->dtype, mt_tensor_count(parts[i]));
        parts[i]->data = flat.data;
    }
}

/* One that is to be made; the map of nested scales is one for all. */
static struct mt_quantised shape_of(const struct mt_quantise_options *options,
                                    const struct mt_model_tensor *tensor)
{
    struct mt_quantised matrix =
        mt_quantised_shape(options->format, options->nested, tensor->dim[0], tensor->dim[1]);
    matrix.nested_map = (struct mt_tensor){0};
    return matrix;
}

size_t mt_quantised_image(const struct mt_quantise_options *options, const struct mt_model_tensor *tensor,
                          const void *image, struct mt_quantised *matrix)
{
    struct mt_planner planner = {.base = (char *)image}; // written by who made the memory alone
    *matrix = shape_of(options, tensor);
    plan_matrix(&planner, matrix);
    return planner.bytes;
}

/* The routers of a published folder may be in codes; they are read beside the shared experts. */
static enum mt_model_part beside(enum mt_model_part part)
{
    return part == MT_PART_ROUTER ? MT_PART_SHARED : part;
}

/* Where a copy begins: after the others of its part in this layer, or an expert's own place. */
static size_t place_of(struct mt_quantised_layout *layout, const struct mt_model_tensor *tensor,
                       const struct mt_quantised_expert *expert, size_t bytes)
{
    if (expert == NULL) {
        enum mt_model_part part = beside(tensor->part);
        size_t place = layout->used[part];
        layout->used[part] += bytes;
        layout->most[part] = at_least(layout->most[part], layout->used[part]);
        return place;
    }
    size_t all = (size_t)expert->here * bytes;
    size_t before = expert->projection == 1 ? all : 0; // gate; down has its place again
    layout->most[MT_PART_EXPERTS] = at_least(layout->most[MT_PART_EXPERTS], before + all);
    return layout->behind_shared + before + (size_t)expert->number * bytes;
}

void mt_quantised_lay_out(struct mt_quantised_layout *layout, const struct mt_model_tensor *tensor,
                          const struct mt_quantised_expert *expert, const struct mt_quantised *found,
                          struct mt_quantised *matrix, struct mt_tensor *copy)
{
    int64_t out = tensor->dim[0];
    int64_t in = tensor->dim[1];
    if (tensor->layer != layout->layer) memset(layout->used, 0, sizeof layout->used);
    layout->layer = tensor->layer;
    *matrix = found != NULL ? *found : shape_of(layout->options, tensor);
    plan_matrix(&layout->codes, matrix);
    if (mt_tensor_present(&matrix->nested_scales) && !mt_tensor_present(&matrix->nested_map))
        matrix->nested_map = layout->map;
    struct mt_planner size = {0};
    (void)mt_plan_2d(&size, MT_BF16, out, in);
    size_t place = place_of(layout, tensor, expert, size.bytes);
    *copy = mt_tensor_2d(layout->copies != NULL ? layout->copies + place : NULL, MT_BF16, out, in);
}

size_t mt_quantised_copy_bytes(struct mt_quantised_layout *layout)
{
    layout->behind_shared = layout->most[MT_PART_SHARED];
    size_t moe = layout->most[MT_PART_SHARED] + layout->most[MT_PART_EXPERTS];
    size_t others = at_least(layout->most[MT_PART_DENSE], layout->most[MT_PART_LM_HEAD]);
    return at_least(at_least(moe, layout->most[MT_PART_ATTENTION]), others);
}

// ------------------------------------------------------------------ what cannot be

static enum mt_status refuse_training(struct mt_context *ctx, const struct mt_params_item *item)
{
    const char *part = mt_model_part_key(item->tensor.part);
    if (item->published) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "%s is trained in full, but the model's folder has it quantised, and quantised weights cannot be "
            "trained. Train it with LoRA (train: lora), or leave %s out of the targets",
            item->tensor.name, part);
    }
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "%s is trained in full, but quantize would quantise it, and quantised weights cannot be trained. "
        "Train it with LoRA (train: lora), leave %s out of the targets, or leave it out of quantize.parts",
        item->tensor.name, part);
}

/* The experts of one projection follow each other, and are computed together. */
static enum mt_status check_alike(struct mt_context *ctx, const struct mt_params_item *item)
{
    const struct mt_params_item *before = item - 1;
    if (item->tensor.expert < 1) return MT_OK;
    if (item->published != before->published) {
        return mt_fail(ctx, MT_ERR_FORMAT,
                       "%s is in %s and the expert before it in %s, but a layer's experts must all be stored "
                       "in the same way",
                       item->tensor.name, item->published ? "codes" : "floats",
                       item->published ? "floats" : "codes");
    }
    if (item->nested == before->nested) return MT_OK;
    return mt_fail(ctx, MT_ERR_FORMAT, "%s has nested scales or has none, and the expert before it otherwise",
                   item->tensor.name);
}

enum mt_status mt_quantised_check(struct mt_context *ctx, const struct mt_quantise_options *options,
                                  const struct mt_params_items *items)
{
    bool found[MT_MODEL_PART_COUNT] = {false};
    for (size_t i = 0; i < items->count; i++) {
        const struct mt_params_item *item = &items->item[i];
        found[item->tensor.part] = found[item->tensor.part] || item->quantised;
        if (item->quantised && item->trainable == MT_TRAINABLE_FULL) return refuse_training(ctx, item);
        enum mt_status status = check_alike(ctx, item);
        if (status != MT_OK) return status;
    }
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        if (!options->on || !options->part[part] || found[part]) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "quantize.parts names %s, but the model has none",
                       mt_model_part_key((enum mt_model_part)part));
    }
    return MT_OK;
}

// ------------------------------------------------------------------ codes

enum mt_status mt_quantised_make(struct mt_context *ctx, const struct mt_params_item *item,
                                 const struct mt_quantised *matrix)
{
    enum mt_dtype dtype = mt_params_stored_type(item->stored);
    size_t bytes = (size_t)item->stored->bytes;
    const void *values = item->stored->data;
    void *aligned = NULL;
    bool in_place = mt_safetensors_whole(item->stored) && (uintptr_t)values % mt_dtype_bytes(dtype) == 0;
    if (!in_place) { // a tensor in the file may lie at any address, or inside a stack
        enum mt_status status = mt_allocate(ctx, bytes, &aligned);
        if (status != MT_OK) return status;
        mt_safetensors_read(item->stored, 0, (int64_t)(bytes / mt_dtype_bytes(dtype)), aligned);
        values = aligned;
    }
    struct mt_quantised made = *matrix;
    float map[MT_NF4_NESTED_CODES];
    mt_nf4_nested_map(map);
    made.nested_map = mt_tensor_1d(map, MT_F32, MT_NF4_NESTED_CODES);
    bool finite = mt_quantise_threaded(dtype, values, &made, omp_get_max_threads());
    if (aligned != NULL) mt_release(ctx, aligned, bytes);
    if (finite) return MT_OK;
    return mt_fail(ctx, MT_ERR_NUMERIC, "a number is not finite, which %s has no code for",
                   mt_quantised_name(matrix->format));
}

static size_t bytes_of(const struct mt_tensor *tensor)
{
    return (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype);
}

/* All tensors but the map, from an image in host memory. */
static enum mt_status upload(struct mt_device *device, struct mt_quantised *here,
                             const struct mt_quantised *matrix)
{
    struct mt_quantised there = *matrix;
    struct mt_tensor *source[MT_QUANTISED_TENSORS];
    struct mt_tensor *target[MT_QUANTISED_TENSORS];
    mt_quantised_each(here, source);
    mt_quantised_each(&there, target);
    enum mt_status status = MT_OK;
    for (int i = 0; i < MT_QUANTISED_TENSORS - 1 && status == MT_OK; i++) {
        if (mt_tensor_present(source[i]))
            status = mt_device_upload(device, target[i]->data, source[i]->data, bytes_of(source[i]));
    }
    return status;
}

enum mt_status mt_quantised_fill(struct mt_device *device, const struct mt_quantise_options *options,
                                 const struct mt_params_item *item, const struct mt_quantised *matrix)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_quantised here;
    if (mt_device_on_host(device)) return item->kept != NULL ? MT_OK : mt_quantised_make(ctx, item, matrix);
    size_t bytes = mt_quantised_image(options, &item->tensor, item->kept, &here);
    if (item->kept != NULL) return upload(device, &here, matrix);
    void *image = NULL; // of one matrix
    enum mt_status status = mt_allocate(ctx, bytes, &image);
    if (status != MT_OK) return status;
    (void)mt_quantised_image(options, &item->tensor, image, &here);
    status = mt_quantised_make(ctx, item, &here);
    if (status == MT_OK) status = upload(device, &here, matrix);
    mt_release(ctx, image, bytes);
    return status;
}

enum mt_status mt_quantised_fill_map(struct mt_device *device, const struct mt_quantised_layout *layout)
{
    if (!mt_tensor_present(&layout->map)) return MT_OK;
    float map[MT_NF4_NESTED_CODES];
    mt_nf4_nested_map(map);
    return mt_device_upload(device, layout->map.data, map, sizeof map);
}
