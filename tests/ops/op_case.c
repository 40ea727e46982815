/* Building cases and their tensors. */
#include "ops/op_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/dtype.h"

#define PERIOD 1000003 // elements after which FILL_REPEATED begins again: no multiple of a row

struct op_case *case_new(struct case_list *list, enum mt_op op, const char *label_format, ...)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
        struct op_case *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) {
            (void)fprintf(stderr, "op_cases: out of memory\n");
            exit(1);
        }
        list->items = items;
        list->capacity = capacity;
    }
    struct op_case *c = &list->items[list->count++];
    memset(c, 0, sizeof *c);
    c->op = op;
    c->backward_op = op;
    c->tolerance = 1e-5;
    va_list args;
    va_start(args, label_format);
    (void)vsnprintf(c->label, sizeof c->label, label_format, args);
    va_end(args);
    return c;
}

int case_slot(struct op_case *c, const char *name, enum slot_role role, enum mt_dtype dtype, int rank,
              const int64_t *dims)
{
    if (c->slots == CASE_MAX_SLOTS) {
        (void)fprintf(stderr, "op_cases: %s has too many slots\n", c->label);
        exit(1);
    }
    struct op_slot *slot = &c->slot[c->slots];
    *slot = (struct op_slot){.name = name, .role = role, .dtype = dtype, .rank = rank, .scale = 1.0};
    memcpy(slot->dim, dims, (size_t)rank * sizeof *dims);
    return c->slots++;
}

int case_input(struct op_case *c, const char *name, int rank, const int64_t *dims)
{
    return case_slot(c, name, SLOT_INPUT, MT_F32, rank, dims);
}

int case_output(struct op_case *c, const char *name, int rank, const int64_t *dims)
{
    return case_slot(c, name, SLOT_OUTPUT, MT_F32, rank, dims);
}

int case_index(struct op_case *c, const char *name, int rank, const int64_t *dims)
{
    int index = case_slot(c, name, SLOT_INPUT, MT_I32, rank, dims);
    c->slot[index].fill = FILL_CUSTOM;
    return index;
}

static int case_gradient(struct op_case *c, const char *name, enum slot_role role, int of)
{
    int index = case_slot(c, name, role, MT_F32, c->slot[of].rank, c->slot[of].dim);
    c->slot[index].of = of;
    return index;
}

int case_grad_in(struct op_case *c, const char *name, int of)
{
    return case_gradient(c, name, SLOT_GRAD_IN, of);
}

int case_grad_out(struct op_case *c, const char *name, int of)
{
    return case_gradient(c, name, SLOT_GRAD_OUT, of);
}

void case_retype(struct op_case *c, enum mt_dtype dtype, int count, const int *slots)
{
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " %s activations", mt_dtype_name(dtype));
    for (int i = 0; i < count; i++) c->slot[slots[i]].dtype = dtype;
}

void case_pad(struct op_case *c, int64_t padding)
{
    for (int i = 0; i < c->slots; i++) {
        if (c->slot[i].rank > 1) c->slot[i].row_padding = padding;
    }
}

void case_only_timed(struct op_case *c, bool only_device)
{
    c->only_speed = true;
    c->only_device = only_device;
    for (int i = 0; i < c->slots; i++) {
        if (c->slot[i].fill != FILL_CUSTOM) c->slot[i].fill = FILL_REPEATED;
    }
}

bool slot_written_by_forward(const struct op_slot *slot)
{
    return slot->role == SLOT_OUTPUT || slot->role == SLOT_UPDATED;
}

bool slot_written_by_backward(const struct op_slot *slot)
{
    return slot->role == SLOT_GRAD_OUT || slot->role == SLOT_GRAD_SUM;
}

/* Elements the slot's memory spans, padding included. */
static int64_t slot_span(const struct op_slot *slot)
{
    int64_t span = 1;
    for (int axis = 0; axis < slot->rank; axis++) {
        span *= slot->dim[axis] + (axis == slot->rank - 1 && slot->rank > 1 ? slot->row_padding : 0);
    }
    return span;
}

static struct mt_tensor slot_view(const struct op_slot *slot, enum mt_dtype dtype, void *data)
{
    struct mt_tensor view = {.data = data, .dtype = dtype, .rank = slot->rank};
    int64_t stride = 1;
    for (int axis = slot->rank - 1; axis >= 0; axis--) {
        view.dim[axis] = slot->dim[axis];
        view.stride[axis] = stride;
        stride *= slot->dim[axis] + (axis == slot->rank - 1 && slot->rank > 1 ? slot->row_padding : 0);
    }
    return view;
}

/* Elements [from, span) as the one PERIOD before each. */
static void repeat(struct mt_tensor *t, int64_t from, int64_t span)
{
    size_t bytes = mt_dtype_bytes(t->dtype);
    unsigned char *data = t->data;
    for (int64_t i = from; i < span; i += PERIOD) {
        int64_t count = span - i < PERIOD ? span - i : PERIOD;
        memcpy(data + (size_t)i * bytes, data + (size_t)(i - PERIOD) * bytes, (size_t)count * bytes);
    }
}

/* The number as slot type `dtype` has it, and with `bf16` as bf16 has it, too. */
static double rounded(enum mt_dtype dtype, bool bf16, double value)
{
    unsigned char element[8];
    if (bf16 && mt_dtype_is_float(dtype)) {
        mt_store(MT_BF16, element, 0, value);
        value = mt_load(MT_BF16, element, 0);
    }
    mt_store(dtype, element, 0, value);
    return mt_load(dtype, element, 0);
}

static void fill_slot(const struct op_slot *slot, uint64_t stream, bool bf16, struct mt_tensor *t)
{
    int64_t span = slot_span(slot);
    int64_t drawn = slot->fill == FILL_REPEATED && span > PERIOD ? PERIOD : span;
    const uint64_t seed = 20251115;
    bool garbage = slot->role == SLOT_OUTPUT || slot->role == SLOT_GRAD_OUT;
    for (int64_t i = 0; i < drawn; i++) {
        double value = 0.0;
        if (garbage) {
            // An output must not depend on what was there: a value that would be noticed.
            value = t->dtype == MT_I32 ? -77.0 : 1e30;
        } else if (slot->fill == FILL_NORMAL || slot->fill == FILL_REPEATED) {
            value = slot->scale * (double)mt_rng_normal(seed, stream, (uint64_t)i);
        } else if (slot->fill == FILL_UNIFORM) {
            value = slot->scale * (double)mt_rng_uniform(seed, stream, (uint64_t)i);
        } else if (slot->fill == FILL_ONES) {
            value = 1.0 + 0.1 * slot->scale * (double)mt_rng_normal(seed, stream, (uint64_t)i);
        }
        // Round to the slot's own type first: the run in double then sees the same numbers.
        mt_store(t->dtype, t->data, i, rounded(slot->dtype, bf16 && !garbage, value));
    }
    if (drawn < span) repeat(t, drawn, span);
}

void case_free(const struct op_case *c, struct case_tensors *made)
{
    for (int i = 0; i < c->slots; i++) mt_buffer_release(&made->buffer[i]);
}

enum mt_status case_make_host(struct mt_context *ctx, const struct op_case *c, bool in_double,
                              struct case_tensors *made)
{
    memset(made, 0, sizeof *made);
    for (int i = 0; i < c->slots; i++) {
        const struct op_slot *slot = &c->slot[i];
        enum mt_dtype dtype = in_double && mt_dtype_is_float(slot->dtype) ? MT_F64 : slot->dtype;
        size_t bytes = (size_t)slot_span(slot) * mt_dtype_bytes(dtype);
        enum mt_status status = mt_buffer_create(ctx, bytes, &made->buffer[i]);
        if (status != MT_OK) {
            case_free(c, made);
            return status;
        }
        made->tensor[i] = slot_view(slot, dtype, made->buffer[i].data);
        fill_slot(slot, (uint64_t)i, c->bf16_inputs, &made->tensor[i]);
    }
    if (c->fill != NULL) c->fill(c, made->tensor);
    return MT_OK;
}

enum mt_status case_copy_to(struct mt_device *device, const struct op_case *c,
                            const struct case_tensors *host, struct case_tensors *made)
{
    memset(made, 0, sizeof *made);
    for (int i = 0; i < c->slots; i++) {
        enum mt_status status = mt_device_buffer_create(device, host->buffer[i].bytes, &made->buffer[i]);
        if (status == MT_OK) {
            made->tensor[i] = host->tensor[i];
            made->tensor[i].data = made->buffer[i].data;
            status =
                mt_device_upload(device, made->buffer[i].data, host->buffer[i].data, host->buffer[i].bytes);
        }
        if (status != MT_OK) {
            case_free(c, made);
            return status;
        }
    }
    return MT_OK;
}

enum mt_status case_fetch(struct mt_device *device, int index, const struct case_tensors *source,
                          struct case_tensors *host)
{
    return mt_device_download(device, host->buffer[index].data, source->buffer[index].data,
                              host->buffer[index].bytes);
}

bool case_selected(const struct op_case *c, const struct mode_options *options)
{
    char text[192];
    char wanted[192];
    const char *rest = options->filter;
    if (rest == NULL) return true;
    (void)snprintf(text, sizeof text, "%s %s", mt_op_name(c->op), c->label);
    while (true) {
        size_t length = strcspn(rest, "|");
        (void)snprintf(wanted, sizeof wanted, "%.*s", (int)length, rest);
        if (strstr(text, wanted) != NULL) return true;
        if (rest[length] == '\0') return false;
        rest += length + 1;
    }
}

enum mt_status case_run(struct mt_context *ctx, const struct op_case *c, const char *device_name, int threads)
{
    struct mt_device *device = NULL;
    struct case_tensors host;
    struct case_tensors on_device;
    enum mt_status status = case_make_host(ctx, c, false, &host);
    if (status != MT_OK) return status;
    status = mt_device_create(ctx, device_name, threads, &device);
    if (status == MT_OK) {
        status = case_copy_to(device, c, &host, &on_device);
        if (status == MT_OK) {
            status = c->forward(device, c, on_device.tensor);
            if (status == MT_OK && c->backward != NULL) status = c->backward(device, c, on_device.tensor);
            case_free(c, &on_device);
        }
    }
    mt_device_destroy(device);
    case_free(c, &host);
    return status;
}
