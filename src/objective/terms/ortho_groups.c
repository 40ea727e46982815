/*
 * grouping=expert-concat: the rows of unmasked tokens in expert order, cut into groups of k neighbours, as in
 * the authors' code: for comparison only. The order is found on the host, so forward waits for the device.
 */
#include <string.h>

#include "objective/objective.h"

/* Copies an index tensor to the host. */
static enum mt_status fetch(struct mt_objective *objective, const struct mt_tensor *index, int32_t *host)
{
    if (!mt_tensor_is_contiguous(index)) {
        return mt_fail(mt_device_context(objective->device), MT_ERR_SHAPE,
                       "grouping=expert-concat: the record's index tensors must be contiguous");
    }
    size_t bytes = (size_t)mt_tensor_count(index) * sizeof *host;
    return mt_device_download(objective->device, host, index->data, bytes);
}

/* Lists the rows that count, in expert order; returns how many. A wild index ends the list. */
static int64_t list_rows(const struct mt_ortho_work *work, const struct mt_routing *record, bool masked)
{
    int64_t pairs = record->tokens * record->slots;
    int64_t count = 0;
    for (int64_t r = 0; r < pairs; r++) {
        int32_t pair = work->host_slots[r];
        if (pair < 0 || pair >= pairs) break; // later rows belong to no slot
        if (masked && work->host_mask[pair / record->slots] == 0) continue;
        work->host_groups[count++] = work->host_rows[pair];
    }
    return count;
}

enum mt_status mt_ortho_groups_find(const struct mt_term_call *call)
{
    struct mt_objective *objective = call->objective;
    struct mt_ortho_work *work = &objective->ortho;
    const struct mt_routing *record = call->record;
    const struct mt_tensor *mask = objective->config.exclude_first ? &record->ortho_mask : &record->mask;
    enum mt_status status = fetch(objective, &record->slot_of_row, work->host_slots);
    if (status != MT_OK) return status;
    status = fetch(objective, &record->row_of_slot, work->host_rows);
    if (status != MT_OK) return status;
    bool masked = mt_tensor_present(mask);
    if (masked) {
        status = fetch(objective, mask, work->host_mask);
        if (status != MT_OK) return status;
    }
    int64_t rows = list_rows(work, record, masked);
    work->groups[call->layer] = rows / record->slots; // a rest shorter than k is left out
    struct mt_tensor groups = mt_tensor_at(&work->group_rows, call->layer);
    size_t bytes = (size_t)(work->groups[call->layer] * record->slots) * sizeof(int32_t);
    return mt_device_upload(objective->device, groups.data, work->host_groups, bytes);
}

/* The layer's groups: i32 [M,k]. */
static struct mt_tensor groups_of(const struct mt_term_call *call)
{
    const struct mt_ortho_work *work = &call->objective->ortho;
    struct mt_tensor all = mt_tensor_at(&work->group_rows, call->layer);
    return mt_tensor_rows(&all, 0, work->groups[call->layer]);
}

/* Zeros, [M,k]: combine's own weights have no part in this. */
static enum mt_status clear_weight(const struct mt_term_call *call, int64_t groups, struct mt_tensor *weight)
{
    *weight = mt_tensor_rows(&call->objective->ortho.group_weight, 0, groups);
    return mt_fill(call->objective->device, &(struct mt_fill_args){.y = *weight, .value = 0.0f});
}

enum mt_status mt_ortho_groups_gram(const struct mt_term_call *call, struct mt_tensor *gram)
{
    const struct mt_ortho_work *work = &call->objective->ortho;
    struct mt_tensor groups = groups_of(call);
    *gram = mt_tensor_rows(&work->group_gram, 0, groups.dim[0]);
    struct mt_tensor weight;
    enum mt_status status = clear_weight(call, groups.dim[0], &weight);
    if (status != MT_OK) return status;
    return mt_combine_forward(call->objective->device,
                              &(struct mt_combine_forward_args){
                                  .rows = call->record->rows,
                                  .row_of_slot = groups,
                                  .weight = weight,
                                  .y = mt_tensor_rows(&work->group_space, 0, groups.dim[0]),
                                  .gram = *gram,
                              });
}

enum mt_status mt_ortho_groups_backward(const struct mt_term_call *call, const struct mt_tensor *coupling)
{
    struct mt_device *device = call->objective->device;
    const struct mt_ortho_work *work = &call->objective->ortho;
    struct mt_tensor groups = groups_of(call);
    int64_t rows = call->record->rows.dim[0];
    struct mt_tensor dy = mt_tensor_rows(&work->group_space, rows, groups.dim[0]);
    struct mt_tensor drows = mt_tensor_rows(&work->group_space, 0, rows);
    struct mt_tensor weight;
    enum mt_status status = clear_weight(call, groups.dim[0], &weight);
    if (status != MT_OK) return status;
    // Rows in no group stay zero.
    struct mt_tensor used = mt_tensor_rows(&work->group_space, 0, rows + groups.dim[0]);
    status = mt_fill(device, &(struct mt_fill_args){.y = used, .value = 0.0f});
    if (status != MT_OK) return status;
    struct mt_tensor dweight = mt_tensor_2d(work->group_gram.data, work->group_gram.dtype, groups.dim[0],
                                            groups.dim[1]); // not wanted; the Gram matrices are used up
    status = mt_combine_backward(device, &(struct mt_combine_backward_args){
                                             .dy = dy,
                                             .rows = call->record->rows,
                                             .row_of_slot = groups,
                                             .weight = weight,
                                             .coupling = *coupling,
                                             .drows = drows,
                                             .dweight = dweight,
                                         });
    if (status != MT_OK) return status;
    return mt_axpby(device,
                    &(struct mt_axpby_args){.x = drows, .y = *call->drows, .alpha = 1.0f, .beta = 1.0f});
}
