/*
 * Where an objective lies: one host block and one device block, both counted before they exist by the same
 * functions that hand them out.
 */
#include <inttypes.h>
#include <string.h>

#include "base/given.h"
#include "objective/objective.h"

#define ALIGNMENT 64

void *mt_carve(struct mt_carver *carver, size_t bytes)
{
    void *memory = carver->memory != NULL ? carver->memory + carver->used : NULL;
    carver->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return memory;
}

struct mt_tensor mt_carve_tensor(struct mt_carver *carver, struct mt_tensor shape)
{
    shape.data = mt_carve(carver, (size_t)mt_tensor_count(&shape) * mt_dtype_bytes(shape.dtype));
    return shape;
}

enum mt_status mt_objective_shape_check(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_objective_shape *shape)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } sizes[] = {
        {"layers", shape->layers, 1, 1024},
        {"experts", shape->experts, 1, 16384},
        {"slots", shape->slots, 1, shape->experts},
        {"tokens", shape->tokens, 0, INT32_MAX / (shape->slots > 0 ? shape->slots : 1)},
        {"segments", shape->segments, 1, shape->tokens > 0 ? shape->tokens : 1},
        {"width", shape->width, 0, 1 << 24},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value >= sizes[i].low && sizes[i].value <= sizes[i].high) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "objective: %s is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                       sizes[i].name, sizes[i].value, sizes[i].low, sizes[i].high);
    }
    if (shape->router.slots != shape->slots) {
        return mt_fail(ctx, MT_ERR_USAGE, "objective: slots is %d, but the router chooses %d experts",
                       shape->slots, shape->router.slots);
    }
    enum mt_status status = mt_router_config_check(ctx, &shape->router, shape->experts);
    if (status != MT_OK) return status;
    bool compares = mt_term_is_on(config, MT_TERM_O) || mt_term_is_on(config, MT_TERM_SP);
    if (compares && shape->slots > MT_MAX_SLOTS) {
        return mt_fail(ctx, MT_ERR_USAGE, "objective: %s compares at most %d experts of a token, not %d",
                       mt_term_is_on(config, MT_TERM_O) ? "L_o" : "L_sp", MT_MAX_SLOTS, shape->slots);
    }
    int groups = config->router_orth_groups;
    if (mt_term_is_on(config, MT_TERM_ROUTER_ORTH) && groups > 1 && shape->experts % groups != 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "orth_groups is %d, which does not divide %d experts", groups,
                       shape->experts);
    }
    bool needs_width = mt_terms_need(config, MT_NEEDS_ROWS) ||
                       mt_terms_need(config, MT_NEEDS_ROUTER_WEIGHT) || mt_scale_needs_router(config);
    if (shape->width == 0 && needs_width) {
        return mt_fail(ctx, MT_ERR_USAGE, "objective: the width is 0, but a term needs it");
    }
    return MT_OK;
}

/* Hands out everything; sizes depend on what objective->config, shape, dtype and active say. */
static void lay_out(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    size_t layers = (size_t)objective->shape.layers;
    size_t measured = mt_selection_measures(&objective->config, objective->shape.experts);
    objective->stride = (size_t)objective->shape.experts + 1 + measured;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        objective->offset[term] = objective->stride;
        if (objective->active[term]) objective->stride += mt_term_numbers(objective, (enum mt_term)term);
    }
    size_t numbers = layers * objective->stride * sizeof(double);
    objective->statistics = mt_carve(&memory->host, numbers);
    objective->gradient = mt_carve(&memory->host, numbers);
    objective->own_statistics = mt_carve(&memory->device, numbers);
    objective->device_statistics = objective->own_statistics;
    objective->device_gradient = mt_carve(&memory->device, numbers);
    objective->device_weight =
        mt_carve_tensor(&memory->device, mt_tensor_2d(NULL, MT_F64, objective->shape.layers, MT_TERM_COUNT));
    objective->uploaded_weight = mt_carve(&memory->host, layers * MT_TERM_COUNT * sizeof(double));
    objective->layers = mt_carve(&memory->host, layers * sizeof *objective->layers);
    if (mt_terms_need(&objective->config, MT_NEEDS_NEIGHBOURS))
        objective->records = mt_carve(&memory->host, layers * sizeof *objective->records);
    if (mt_objective_counts_steps(&objective->config))
        objective->counts =
            mt_carve(&memory->host, layers * ((size_t)objective->shape.experts + 1) * sizeof(double));
    objective->views = mt_carve(&memory->host, layers * sizeof *objective->views);
    size_t rules = layers * mt_selection_memory(&objective->config, objective->shape.experts);
    size_t state = sizeof *objective->state + layers * sizeof *objective->layer_state;
    objective->state = mt_carve(&memory->host, state + rules * sizeof(double));
    if (objective->state != NULL) {
        objective->layer_state = (struct mt_layer_state *)(objective->state + 1);
        objective->rule_memory = (double *)(objective->layer_state + layers);
    }
    if (measured > 0)
        objective->rule_work =
            mt_carve_tensor(&memory->device, mt_tensor_2d(NULL, objective->dtype, objective->shape.experts,
                                                          objective->shape.tokens));
    mt_measure_place(objective, memory);
    mt_scale_place(objective, memory);
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (objective->active[term] && kind->place != NULL) kind->place(objective, memory);
    }
}

static struct mt_objective described(const struct mt_objective_config *config,
                                     const struct mt_objective_shape *shape, enum mt_dtype dtype)
{
    struct mt_objective objective = {.config = *config, .shape = *shape, .dtype = dtype, .loss_scale = 1.0};
    for (int term = 0; term < MT_TERM_COUNT; term++)
        objective.active[term] = mt_term_is_on(config, (enum mt_term)term);
    if (mt_scale_needs_aux(config)) objective.active[MT_TERM_AUX] = true;
    return objective;
}

void mt_objective_bytes(const struct mt_objective_config *config, const struct mt_objective_shape *shape,
                        enum mt_dtype dtype, size_t *host_bytes, size_t *device_bytes)
{
    struct mt_objective objective = described(config, shape, dtype);
    struct mt_objective_memory memory = {0};
    mt_carve(&memory.host, sizeof objective);
    lay_out(&objective, &memory);
    *host_bytes = memory.host.used;
    *device_bytes = memory.device.used;
}

enum mt_status mt_objective_place(struct mt_device *device, const struct mt_objective_config *config,
                                  const struct mt_objective_shape *shape, enum mt_dtype dtype, void *host,
                                  void *device_memory, struct mt_objective **objective)
{
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    mt_objective_bytes(config, shape, dtype, &host_bytes, &device_bytes);
    memset(host, 0, host_bytes);
    struct mt_objective_memory memory = {.host = {.memory = host}, .device = {.memory = device_memory}};
    struct mt_objective *made = mt_carve(&memory.host, sizeof *made);
    *made = described(config, shape, dtype);
    made->device = device;
    made->host_bytes = host_bytes;
    made->device_memory = mt_buffer_borrow(device_memory, device_bytes, MT_MEMORY_DEVICE);
    lay_out(made, &memory);
    *objective = made;
    // A planned step computes nothing: statistics that say "no tokens" keep it from deciding anything.
    // Numbers that no value depends on have gradients nobody writes.
    size_t numbers = (size_t)shape->layers * made->stride * sizeof(double);
    enum mt_status status = mt_device_upload(device, made->device_statistics, made->statistics, numbers);
    if (status == MT_OK) status = mt_device_upload(device, made->device_gradient, made->gradient, numbers);
    if (status != MT_OK) return status;
    size_t weights = (size_t)shape->layers * MT_TERM_COUNT * sizeof(double);
    return mt_device_upload(device, made->device_weight.data, made->uploaded_weight, weights);
}

enum mt_status mt_objective_create_typed(struct mt_device *device, const struct mt_objective_config *config,
                                         const struct mt_objective_shape *shape, enum mt_dtype dtype,
                                         struct mt_objective **objective)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status status = mt_given(ctx, "mt_objective_create", "objective", objective);
    if (status != MT_OK) return status;
    *objective = NULL;
    status = mt_given(NULL, "mt_objective_create", "device", device);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_create", "shape", shape);
    if (status == MT_OK) status = mt_objective_config_check(ctx, config);
    if (status != MT_OK) return status;
    status = mt_objective_shape_check(ctx, config, shape);
    if (status != MT_OK) return status;
    size_t host_bytes = 0;
    size_t device_bytes = 0;
    mt_objective_bytes(config, shape, dtype, &host_bytes, &device_bytes);
    struct mt_buffer buffer;
    status = mt_device_buffer_create(device, device_bytes, &buffer);
    if (status != MT_OK) return mt_fail_within(ctx, status, "memory of the objective");
    void *host = NULL;
    status = mt_allocate(ctx, host_bytes, &host);
    if (status != MT_OK) {
        mt_buffer_release(&buffer);
        return mt_fail_within(ctx, status, "memory of the objective");
    }
    status = mt_objective_place(device, config, shape, dtype, host, buffer.data, objective);
    if (status != MT_OK) {
        mt_buffer_release(&buffer);
        mt_release(ctx, host, host_bytes);
        *objective = NULL;
        return status;
    }
    (*objective)->device_memory = buffer;
    return MT_OK;
}

enum mt_status mt_objective_create(struct mt_device *device, const struct mt_objective_config *config,
                                   const struct mt_objective_shape *shape, struct mt_objective **objective)
{
    return mt_objective_create_typed(device, config, shape, MT_F32, objective);
}

void mt_objective_destroy(struct mt_objective *objective)
{
    if (objective == NULL) return;
    struct mt_context *ctx = mt_device_context(objective->device);
    mt_buffer_release(&objective->device_memory);
    mt_release(ctx, objective, objective->host_bytes);
}
