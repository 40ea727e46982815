/*
 * Growable lists of bytes and of ids, the currency of the tokenizers: encoding appends ids, decoding
 * appends bytes. A list owns its memory, which comes from the context it was made with; a zeroed list with a
 * context is an empty one.
 */
#ifndef MT_FORMATS_LISTS_H
#define MT_FORMATS_LISTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "metier/context.h"

struct mt_byte_list {
    struct mt_context *ctx; // borrowed; outlives the list
    uint8_t *data;
    size_t count;
    size_t capacity;
};

struct mt_id_list {
    struct mt_context *ctx; // borrowed; outlives the list
    int32_t *data;
    size_t count;
    size_t capacity;
};

/*
 * Makes room for `needed` items of `item_bytes` in an array of *capacity items, at least doubling it when it
 * grows, and gives back where it lies now. Nothing changes where *status is a failure already, or becomes
 * one.
 */
void *mt_list_reserve(struct mt_context *ctx, void *data, size_t *capacity, size_t item_bytes, size_t needed,
                      enum mt_status *status);

/* Makes room for `extra` more items. */
enum mt_status mt_byte_list_reserve(struct mt_byte_list *list, size_t extra);
enum mt_status mt_id_list_reserve(struct mt_id_list *list, size_t extra);

/* Frees the memory; the list is empty afterwards and can be used again. */
void mt_byte_list_free(struct mt_byte_list *list);
void mt_id_list_free(struct mt_id_list *list);

/* Appends `bytes` bytes; `data` must not point into the list. */
static inline enum mt_status mt_byte_list_append(struct mt_byte_list *list, const void *data, size_t bytes)
{
    if (list->capacity - list->count < bytes) {
        enum mt_status status = mt_byte_list_reserve(list, bytes);
        if (status != MT_OK) return status;
    }
    if (bytes != 0) memcpy(list->data + list->count, data, bytes);
    list->count += bytes;
    return MT_OK;
}

/* Appends a NUL-terminated text, without its end. */
static inline enum mt_status mt_byte_list_append_text(struct mt_byte_list *list, const char *text)
{
    return mt_byte_list_append(list, text, strlen(text));
}

static inline enum mt_status mt_id_list_append(struct mt_id_list *list, int32_t id)
{
    if (list->capacity == list->count) {
        enum mt_status status = mt_id_list_reserve(list, 1);
        if (status != MT_OK) return status;
    }
    list->data[list->count++] = id;
    return MT_OK;
}

#endif
