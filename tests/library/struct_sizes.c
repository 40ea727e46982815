/* Prints where the fields of public structs are, for the test that holds the bindings' copies against them.
 */
#include <stddef.h>
#include <stdio.h>

#include "metier/device.h"
#include "metier/layers.h"

#define FIELD(type, field) printf("%s %s %zu\n", #type, #field, offsetof(struct type, field));
#define SIZE(type)         printf("%s - %zu\n", #type, sizeof(struct type));

int main(void)
{
    FIELD(mt_context, live_bytes)
    FIELD(mt_context, message)
    SIZE(mt_context)
    FIELD(mt_device_place, stream)
    SIZE(mt_device_place)
    FIELD(mt_router_config, normalise)
    FIELD(mt_router_config, scale)
    FIELD(mt_router_config, groups_kept)
    FIELD(mt_router_config, jitter)
    SIZE(mt_router_config)
    FIELD(mt_objective_shape, tokens)
    FIELD(mt_objective_shape, segments)
    FIELD(mt_objective_shape, width)
    FIELD(mt_objective_shape, router)
    SIZE(mt_objective_shape)
    FIELD(mt_layers_options, settings)
    FIELD(mt_layers_options, given)
    SIZE(mt_layers_options)
    FIELD(mt_layer_arrays, dtype)
    FIELD(mt_layer_arrays, logits)
    FIELD(mt_layer_arrays, outputs)
    FIELD(mt_layer_arrays, row_of_slot)
    FIELD(mt_layer_arrays, probs)
    FIELD(mt_layer_arrays, weight)
    FIELD(mt_layer_arrays, slot_of_row)
    FIELD(mt_layer_arrays, gram)
    FIELD(mt_layer_arrays, dy)
    FIELD(mt_layer_arrays, coupling)
    FIELD(mt_layer_arrays, doutputs_terms)
    FIELD(mt_layer_arrays, dlogits)
    FIELD(mt_layer_arrays, drouter_weight)
    SIZE(mt_layer_arrays)
    FIELD(mt_layer_chain, doutputs)
    SIZE(mt_layer_chain)
    FIELD(mt_objective_step, loss_scale)
    SIZE(mt_objective_step)
    SIZE(mt_layer_paths)
    FIELD(mt_term_info, path)
    FIELD(mt_method, source)
    SIZE(mt_objective_key)
    return 0;
}
