/*
 * Adapters on stacked experts. transformers 5 keeps the routed experts of a layer as two tensors,
 * gate_up_proj [n, 2I, d] (gate above up) and down_proj [n, d, I]. PEFT's target_parameters adapts each with
 *
 *     A [n·R, in]    rows e·R … e·R+R-1 are expert e's A
 *     B [out, R·n]   column k·n + e is column k of expert e's B
 *
 * Where both are adapted the wrappers nest: "experts" is down_proj's, "experts.base_layer" gate_up_proj's.
 *
 * Separate pairs of rank r for gate and up are one pair of rank R = 2r: A = [A_gate; A_up] and
 * B = [B_gate 0; 0 B_up]. Such a B is taken apart again; any other pair of gate_up_proj is read as two of
 * rank R that share A. Experts whose A and B are all zero have no pair.
 *
 * gpt-oss has gate's and up's rows in turns: B's rows are, too. That its stacks are transposed changes
 * nothing: PEFT asks the module, and A and B keep their sides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/printable.h"
#include "model/adapters/adapter_parts.h"

const char *mt_adapter_in_layer(const char *name, int64_t *layer)
{
    static const char before[] = "model.layers.";
    if (strncmp(name, before, sizeof before - 1) != 0) return NULL;
    const char *digits = name + sizeof before - 1;
    char *end = NULL;
    if (*digits < '0' || *digits > '9') return NULL;
    long long number = strtoll(digits, &end, 10);
    if (number > INT32_MAX || *end != '.') return NULL;
    *layer = number;
    return end + 1;
}

bool mt_adapter_is_stack(const char *module, int64_t *layer)
{
    const char *rest = mt_adapter_in_layer(module, layer);
    return rest != NULL && (strcmp(rest, "mlp.experts") == 0 || strcmp(rest, "mlp.experts.base_layer") == 0);
}

size_t mt_adapter_stack_most(const struct mt_model_desc *desc)
{
    return 2 * (size_t)desc->experts;
}

/* The stored matrices of one stack. */
struct stack {
    const struct mt_safetensors_tensor *a, *b;
    int64_t layer, experts;
    int64_t rank; // R
    double scale;
    int64_t in, out;  // out = 2I for gate_up_proj
    bool interleaved; // gate_up_proj's rows are gate's and up's in turns
};

bool mt_adapter_pair_is_zero(const struct mt_adapter_pair *pair)
{
    for (int64_t k = 0; k < pair->rank; k++) {
        for (int64_t i = 0; i < pair->in; i++) {
            if (mt_adapter_value(pair->a, (pair->a_row + k) * pair->in + i) != 0.0f) return false;
        }
        int64_t column = pair->b_column + k * pair->b_stride;
        for (int64_t o = 0; o < pair->out; o++) {
            if (mt_adapter_value(pair->b, (pair->b_row + o * pair->b_row_step) * pair->b->dim[1] + column) !=
                0.0f)
                return false;
        }
    }
    return true;
}

static enum mt_status add_pair(struct mt_adapter *adapter, const struct mt_model_desc *desc,
                               const struct stack *stack, int64_t expert, const char *map,
                               struct mt_adapter_pair pair)
{
    char module[MT_PARAMS_NAME_BYTES];
    pair.a = stack->a;
    pair.b = stack->b;
    pair.in = stack->in;
    pair.b_stride = stack->experts;
    pair.scale = stack->scale;
    if (mt_adapter_pair_is_zero(&pair)) return MT_OK;
    (void)snprintf(module, sizeof module, "model.layers.%lld.%s.%lld.%s", (long long)stack->layer,
                   desc->names.experts, (long long)expert, map);
    enum mt_status status = mt_arena_copy_text(&adapter->arena, module, strlen(module), &pair.module);
    if (status == MT_OK) adapter->pairs[adapter->module_count++] = pair;
    return status;
}

/* Whether B is [B_gate 0; 0 B_up] for every expert. */
static bool is_block_diagonal(const struct stack *stack)
{
    int64_t columns = stack->b->dim[1];
    if (stack->rank % 2 != 0) return false;
    for (int64_t o = 0; o < stack->out; o++) {
        // Of gate's rows the second half of the ranks, of up's the first.
        bool gate = stack->interleaved ? o % 2 == 0 : o < stack->out / 2;
        int64_t first = gate ? columns / 2 : 0;
        for (int64_t c = first; c < first + columns / 2; c++) {
            if (mt_adapter_value(stack->b, o * columns + c) != 0.0f) return false;
        }
    }
    return true;
}

static enum mt_status add_gate_up(struct mt_adapter *adapter, const struct mt_model_desc *desc,
                                  const struct stack *stack)
{
    bool apart = is_block_diagonal(stack);
    int64_t half = stack->out / 2;
    int64_t rank = apart ? stack->rank / 2 : stack->rank;
    int64_t second = apart ? rank : 0; // rank at which up begins
    int64_t step = stack->interleaved ? 2 : 1;
    enum mt_status status = MT_OK;
    for (int64_t e = 0; e < stack->experts && status == MT_OK; e++) {
        struct mt_adapter_pair gate = {
            .rank = rank, .out = half, .a_row = e * stack->rank, .b_row_step = step, .b_column = e};
        struct mt_adapter_pair up = {.rank = rank,
                                     .out = half,
                                     .a_row = e * stack->rank + second,
                                     .b_row = stack->interleaved ? 1 : half,
                                     .b_row_step = step,
                                     .b_column = second * stack->experts + e};
        status = add_pair(adapter, desc, stack, e, desc->names.gate, gate);
        if (status == MT_OK) status = add_pair(adapter, desc, stack, e, desc->names.up, up);
    }
    return status;
}

static enum mt_status add_down(struct mt_adapter *adapter, const struct mt_model_desc *desc,
                               const struct stack *stack)
{
    enum mt_status status = MT_OK;
    for (int64_t e = 0; e < stack->experts && status == MT_OK; e++) {
        struct mt_adapter_pair down = {
            .rank = stack->rank, .out = stack->out, .a_row = e * stack->rank, .b_row_step = 1, .b_column = e};
        status = add_pair(adapter, desc, stack, e, desc->names.down, down);
    }
    return status;
}

enum mt_status mt_adapter_add_stack(struct mt_adapter *adapter, const struct mt_model_desc *desc,
                                    const struct mt_safetensors_tensor *a,
                                    const struct mt_safetensors_tensor *b, int64_t layer)
{
    struct stack stack = {.a = a,
                          .b = b,
                          .layer = layer,
                          .experts = desc->experts,
                          .in = a->dim[1],
                          .out = b->dim[0],
                          .interleaved = desc->stored.interleaved};
    bool gate_up = stack.in == desc->width && stack.out == 2 * desc->expert_width;
    bool down = stack.in == desc->expert_width && stack.out == desc->width;
    char name[MT_PARAMS_NAME_BYTES];
    if (layer >= desc->layers || !mt_model_layer_is_moe(desc, layer)) {
        return mt_fail(adapter->ctx, MT_ERR_USAGE, "%s: %s adapts experts, which the layer does not have",
                       adapter->file.path, mt_printable(a->name).text);
    }
    (void)snprintf(name, sizeof name, "model.layers.%lld.mlp.experts.%s", (long long)layer,
                   gate_up ? "gate_up_proj" : "down_proj");
    mt_adapter_config_rank(adapter, name, &stack.rank, &stack.scale);
    int64_t ranks = stack.rank * stack.experts;
    if (!(gate_up || down) || a->dim[0] != ranks || b->dim[1] != ranks) {
        return mt_fail(adapter->ctx, MT_ERR_SHAPE,
                       "%s: %s is [%lld, %lld] and its counterpart [%lld, %lld], which fits neither "
                       "gate_up_proj nor down_proj of %d experts with rank %lld",
                       adapter->file.path, mt_printable(a->name).text, (long long)a->dim[0],
                       (long long)a->dim[1], (long long)b->dim[0], (long long)b->dim[1], desc->experts,
                       (long long)stack.rank);
    }
    return gate_up ? add_gate_up(adapter, desc, &stack) : add_down(adapter, desc, &stack);
}
