/* Which tensors the new folder has, in which order and type, and where each comes from. */
#include <string.h>

#include "arch/published/published_write.h"
#include "model/files/rewrite_parts.h"
#include "model/params/params.h"

#define PIECE             ((int64_t)1 << 20) // elements at a time, at least a row
#define ARENA_BLOCK_BYTES 65536

static bool is_correction(const char *name)
{
    static const char ending[] = ".e_score_correction_bias";
    size_t length = strlen(name);
    return length >= sizeof ending - 1 && strcmp(name + length - (sizeof ending - 1), ending) == 0;
}

static enum mt_dtype type_of(enum mt_hf_float dtype)
{
    switch (dtype) {
    case MT_HF_FLOAT32: return MT_F32;
    case MT_HF_FLOAT16: return MT_F16;
    default: return MT_BF16;
    }
}

static bool is_float(const struct mt_safetensors_tensor *stored)
{
    return stored->dtype == MT_SAFETENSORS_F32 || stored->dtype == MT_SAFETENSORS_BF16 ||
           stored->dtype == MT_SAFETENSORS_F16;
}

/* A tensor of the checkpoint as it is stored: floats, or bytes that nobody here reads. */
static struct mt_rewrite_tensor stored_tensor(const struct mt_rewriter *rewriter,
                                              const struct mt_safetensors_tensor *stored, int part)
{
    enum mt_hf_float dtype = rewriter->options->dtype;
    struct mt_rewrite_tensor tensor = {.name = stored->name,
                                       .rank = stored->rank,
                                       .part = part,
                                       .stored = stored,
                                       .count = 1,
                                       .from = MT_U8,
                                       .to = MT_U8,
                                       .row = 1};
    for (int axis = 0; axis < stored->rank; axis++) {
        tensor.dim[axis] = stored->dim[axis];
        tensor.count *= stored->dim[axis];
    }
    if (!is_float(stored)) {
        tensor.count = (int64_t)stored->bytes;
        return tensor;
    }
    tensor.from = mt_params_stored_type(stored);
    // Choices of experts hang on the bias's last digits: it stays as it is.
    bool as_stored = dtype == MT_HF_FLOAT_UNKNOWN || is_correction(stored->name);
    tensor.to = as_stored ? tensor.from : type_of(dtype);
    if (rewriter->options->verbatim) return tensor;
    rewriter->source->choose(rewriter->source->self, &tensor);
    if (tensor.quantised) tensor.row = tensor.dim[1];
    return tensor;
}

/* A matrix of the folder in codes; its name and parts are copied to the arena. */
static enum mt_status coded_tensor(struct mt_rewriter *rewriter, const struct mt_model_tensor *expected,
                                   const struct mt_published *found, struct mt_rewrite_tensor *tensor)
{
    enum mt_hf_float dtype = rewriter->options->dtype;
    const char *name = NULL;
    void *published = NULL;
    enum mt_status status =
        mt_arena_copy_text(&rewriter->arena, expected->name, strlen(expected->name), &name);
    if (status == MT_OK) status = mt_arena_allocate(&rewriter->arena, sizeof *found, &published);
    if (status != MT_OK) return status;
    *(struct mt_published *)published = *found;
    *tensor = (struct mt_rewrite_tensor){
        .name = name,
        .rank = 2,
        .dim = {expected->dim[0], expected->dim[1]},
        .part = (int)expected->part,
        .count = expected->dim[0] * expected->dim[1],
        .to = type_of(dtype != MT_HF_FLOAT_UNKNOWN ? dtype : rewriter->config->dtype),
        .row = expected->dim[1],
        .published = published,
        .format = found->matrix.format,
        .nested = mt_tensor_present(&found->matrix.nested_scales),
    };
    rewriter->source->choose(rewriter->source->self, tensor);
    return MT_OK;
}

// ------------------------------------------------------------------ the list

/* Tensors as they are found, and which tensors of the checkpoint are accounted for. */
struct listing {
    struct mt_rewrite_tensor *tensors;
    size_t count;
    int *parts; // of each tensor of the checkpoint: the model's part, NO_PART or IN_CODES
};

#define NO_PART  (-1)
#define IN_CODES (-2)

static void note(const struct mt_checkpoint *checkpoint, const char *name, int part, struct listing *listing)
{
    size_t low = 0;
    size_t high = checkpoint->tensor_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(checkpoint->tensors[middle].info->name, name);
        if (order == 0) listing->parts[middle] = part;
        if (order == 0) return;
        if (order < 0) low = middle + 1;
        if (order > 0) high = middle;
    }
}

/* Of each tensor of the model: matrices in codes into the list, of the others which part they are. */
static enum mt_status list_model(struct mt_rewriter *rewriter, struct listing *listing)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(rewriter->config);
    struct mt_model_tensor expected;
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_model_tensors_next(&walk, &expected)) {
        struct mt_published found;
        status = mt_published_find(rewriter->config, rewriter->checkpoint, &expected, &found);
        if (status != MT_OK) break;
        if (!found.quantised) {
            note(rewriter->checkpoint, expected.name, (int)expected.part, listing);
            continue;
        }
        for (int i = 0; i < MT_PUBLISHED_PARTS; i++) {
            if (found.part[i] != NULL) note(rewriter->checkpoint, found.part[i]->name, IN_CODES, listing);
        }
        status = coded_tensor(rewriter, &expected, &found, &listing->tensors[listing->count]);
        listing->count++;
    }
    return status;
}

static void list_stored(struct mt_rewriter *rewriter, struct listing *listing)
{
    // Beside codes that become floats, what is read by nobody here would be left in a format of its own.
    bool leave = rewriter->config->quant.method != MT_HF_QUANT_NONE && !rewriter->options->requantise;
    for (size_t i = 0; i < rewriter->checkpoint->tensor_count; i++) {
        int part = listing->parts[i];
        if (part == IN_CODES) continue;
        if (part == NO_PART && leave) {
            rewriter->result.left_out++;
            continue;
        }
        listing->tensors[listing->count++] =
            stored_tensor(rewriter, rewriter->checkpoint->tensors[i].info, part);
    }
}

static enum mt_status list_tensors(struct mt_rewriter *rewriter, struct listing *listing)
{
    size_t stored = rewriter->checkpoint->tensor_count;
    struct mt_model_tensors walk = mt_model_tensors_begin(rewriter->config);
    struct mt_model_tensor expected;
    void *parts = NULL;
    void *tensors = NULL;
    size_t most = stored;
    while (mt_model_tensors_next(&walk, &expected)) most++; // a stored tensor may hold many matrices
    enum mt_status status = mt_arena_allocate(&rewriter->arena, stored * sizeof(int), &parts);
    if (status == MT_OK)
        status = mt_arena_allocate(&rewriter->arena, most * sizeof *listing->tensors, &tensors);
    if (status != MT_OK) return status;
    *listing = (struct listing){.tensors = tensors, .parts = parts};
    for (size_t i = 0; i < stored; i++) listing->parts[i] = NO_PART;
    if (!rewriter->options->verbatim) status = list_model(rewriter, listing);
    if (status == MT_OK) list_stored(rewriter, listing);
    return status;
}

// ------------------------------------------------------------------ the order

enum { IN_ORDER_CODES, IN_ORDER_WIDE, IN_ORDER_NARROW, IN_ORDER_BYTES, ORDERS };

/* Codes of a matrix keep their own order; then wide types come first, so that every tensor is aligned. */
static int order_of(const struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor)
{
    if (rewriter->options->requantise && mt_rewrite_reads_codes(tensor)) return IN_ORDER_CODES;
    if (tensor->to == MT_U8) return IN_ORDER_BYTES;
    return mt_dtype_bytes(tensor->to) == 4 ? IN_ORDER_WIDE : IN_ORDER_NARROW;
}

static enum mt_status specify_codes(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor)
{
    struct mt_quantised shape =
        mt_quantised_shape(tensor->format, tensor->nested, tensor->dim[0], tensor->dim[1]);
    void *names = NULL;
    enum mt_status status = mt_arena_allocate(&rewriter->arena, sizeof(struct mt_published_names), &names);
    if (status != MT_OK) return status;
    mt_published_names(mt_published_method(tensor->format), tensor->name, names);
    int count = mt_published_specs(names, &shape, rewriter->specs + rewriter->spec_count);
    if (count == 0) {
        return mt_fail(rewriter->ctx, MT_ERR_UNSUPPORTED,
                       "%s is read in %s, a format that metier does not write: leave out --requantise",
                       tensor->name, mt_quantised_name(tensor->format));
    }
    rewriter->spec_count += (size_t)count;
    rewriter->result.codes++;
    return MT_OK;
}

static void specify(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor)
{
    struct mt_safetensors_spec *spec = &rewriter->specs[rewriter->spec_count++];
    *spec = (struct mt_safetensors_spec){.name = tensor->name, .rank = tensor->rank};
    spec->dtype = tensor->to == MT_U8 ? tensor->stored->dtype : mt_safetensors_dtype_of(tensor->to);
    for (int axis = 0; axis < tensor->rank; axis++) spec->dim[axis] = tensor->dim[axis];
}

static enum mt_status enter(struct mt_rewriter *rewriter, const struct mt_rewrite_tensor *tensor, int order)
{
    struct mt_rewrite_result *result = &rewriter->result;
    rewriter->elements += tensor->count;
    result->changed += tensor->change != NULL ? 1 : 0;
    result->replaced += tensor->data != NULL ? 1 : 0;
    if (tensor->change != NULL && tensor->to != MT_F32) result->narrow = true;
    if (tensor->row > rewriter->piece) rewriter->piece = tensor->row;
    rewriter->tensors[rewriter->count++] = *tensor;
    if (order == IN_ORDER_CODES) return specify_codes(rewriter, tensor);
    specify(rewriter, tensor);
    return MT_OK;
}

/* The listed tensors, those that lie in a stack one after the other. */
static enum mt_status arrange(struct mt_rewriter *rewriter, struct listing *listing)
{
    size_t count = listing->count;
    enum mt_status status = MT_OK;
    rewriter->stacked = mt_stacks_wanted(rewriter->config, rewriter->checkpoint);
    if (!rewriter->stacked || count == 0) return MT_OK;
    const char **names = mt_arena_array(&rewriter->arena, count, sizeof *names, &status);
    size_t *order = status == MT_OK ? mt_arena_array(&rewriter->arena, count, sizeof *order, &status) : NULL;
    struct mt_rewrite_tensor *arranged =
        status == MT_OK ? mt_arena_array(&rewriter->arena, count, sizeof *arranged, &status) : NULL;
    for (size_t i = 0; i < count && status == MT_OK; i++) names[i] = listing->tensors[i].name;
    if (status == MT_OK) status = mt_stacks_order(rewriter->ctx, rewriter->config, true, names, count, order);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < count; i++) arranged[i] = listing->tensors[order[i]];
    listing->tensors = arranged;
    return MT_OK;
}

enum mt_status mt_rewrite_plan(struct mt_rewriter *rewriter)
{
    struct listing listing = {0};
    void *tensors = NULL;
    void *specs = NULL;
    void *values = NULL;
    void *room = NULL;
    mt_arena_init(&rewriter->arena, rewriter->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = list_tensors(rewriter, &listing);
    if (status == MT_OK) status = arrange(rewriter, &listing);
    if (status == MT_OK)
        status = mt_arena_allocate(&rewriter->arena, listing.count * sizeof *rewriter->tensors, &tensors);
    if (status == MT_OK)
        status = mt_arena_allocate(&rewriter->arena,
                                   listing.count * MT_PUBLISHED_PARTS * sizeof *rewriter->specs, &specs);
    rewriter->tensors = tensors;
    rewriter->specs = specs;
    rewriter->piece = PIECE;
    for (int order = 0; order < ORDERS; order++) {
        for (size_t i = 0; i < listing.count && status == MT_OK; i++) {
            if (order_of(rewriter, &listing.tensors[i]) == order)
                status = enter(rewriter, &listing.tensors[i], order);
        }
    }
    rewriter->result.tensors = rewriter->count;
    size_t bytes = (size_t)rewriter->piece * sizeof(float);
    if (status == MT_OK) status = mt_arena_allocate(&rewriter->arena, bytes, &values);
    if (status == MT_OK) status = mt_arena_allocate(&rewriter->arena, bytes, &room);
    rewriter->values = values;
    rewriter->room = room;
    return status;
}
