/* Rows of tokens sorted by expert, and the experts of a placement. */
#include "model/experts/compute.h"

#include "metier/ops.h"

static struct mt_linear some_of(const struct mt_linear *all, int first, int count)
{
    struct mt_linear some = *all;
    some.weight.count = count;
    some.weight.stored = all->weight.stored + first;
    if (all->weight.quantised != NULL) some.weight.quantised = all->weight.quantised + first;
    if (all->dweight != NULL) some.dweight = all->dweight + first;
    if (all->biases != NULL) some.biases = all->biases + first;
    if (all->dbiases != NULL) some.dbiases = all->dbiases + first;
    if (all->a == NULL) return some;
    some.a = all->a + first;
    some.b = all->b + first;
    if (all->da != NULL) some.da = all->da + first;
    if (all->db != NULL) some.db = all->db + first;
    if (all->rounded_a != NULL) some.rounded_a = all->rounded_a + first;
    if (all->rounded_b != NULL) some.rounded_b = all->rounded_b + first;
    return some;
}

struct mt_mlp_params mt_experts_some(const struct mt_mlp_params *all, int first, int count)
{
    return (struct mt_mlp_params){.gate = some_of(&all->gate, first, count),
                                  .up = some_of(&all->up, first, count),
                                  .down = some_of(&all->down, first, count)};
}

enum mt_status mt_experts_gather(const struct mt_pass *pass, const struct mt_routing *record,
                                 const struct mt_tensor *x, const struct mt_tensor *rows)
{
    return mt_dispatch_forward(pass->device, &(struct mt_dispatch_forward_args){
                                                 .x = *x,
                                                 .slot_of_row = record->slot_of_row,
                                                 .row_of_slot = record->row_of_slot,
                                                 .rows = *rows,
                                                 .slots = record->slots,
                                             });
}
