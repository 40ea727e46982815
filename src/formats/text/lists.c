/* Growing of lists: doubling, overflow-checked. */
#include "formats/text/lists.h"

#define FIRST_CAPACITY 64

void *mt_list_reserve(struct mt_context *ctx, void *data, size_t *capacity, size_t item_bytes, size_t needed,
                      enum mt_status *status)
{
    if (*status != MT_OK || needed <= *capacity) return data;
    size_t grown = *capacity < FIRST_CAPACITY ? FIRST_CAPACITY : *capacity;
    while (grown < needed) {
        if (grown > SIZE_MAX / 2) {
            grown = needed;
            break;
        }
        grown *= 2;
    }
    if (grown > SIZE_MAX / item_bytes) {
        *status = mt_fail(ctx, MT_ERR_MEMORY, "cannot allocate %zu items of %zu bytes: too large to address",
                          grown, item_bytes);
        return data;
    }
    *status = mt_reallocate(ctx, *capacity * item_bytes, grown * item_bytes, &data);
    if (*status == MT_OK) *capacity = grown;
    return data;
}

enum mt_status mt_byte_list_reserve(struct mt_byte_list *list, size_t extra)
{
    if (extra > SIZE_MAX - list->count)
        return mt_fail(list->ctx, MT_ERR_MEMORY, "a text too long to address");
    enum mt_status status = MT_OK;
    list->data = mt_list_reserve(list->ctx, list->data, &list->capacity, 1, list->count + extra, &status);
    return status;
}

enum mt_status mt_id_list_reserve(struct mt_id_list *list, size_t extra)
{
    if (extra > SIZE_MAX - list->count) return mt_fail(list->ctx, MT_ERR_MEMORY, "too many ids to address");
    enum mt_status status = MT_OK;
    list->data = mt_list_reserve(list->ctx, list->data, &list->capacity, sizeof *list->data,
                                 list->count + extra, &status);
    return status;
}

void mt_byte_list_free(struct mt_byte_list *list)
{
    mt_release(list->ctx, list->data, list->capacity);
    *list = (struct mt_byte_list){.ctx = list->ctx};
}

void mt_id_list_free(struct mt_id_list *list)
{
    mt_release(list->ctx, list->data, list->capacity * sizeof *list->data);
    *list = (struct mt_id_list){.ctx = list->ctx};
}
