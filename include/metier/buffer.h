/*
 * Buffer: a stretch of memory with its kind and its owner. Tensors are views into buffers and never
 * own. Host buffers are made here; a device makes its own kind (metier/device.h). A buffer is made and
 * released by the thread its context belongs to.
 */
#ifndef METIER_BUFFER_H
#define METIER_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "metier/context.h"
#include "metier/export.h"

MT_PUBLIC_BEGIN

enum mt_memory_kind {
    MT_MEMORY_HOST,
    MT_MEMORY_PINNED, // host memory a device can copy from at full speed
    MT_MEMORY_DEVICE, // not addressable from the host
};

struct mt_buffer {
    void *data;
    size_t bytes;
    enum mt_memory_kind kind;
    bool owned;                                // false: a loan, releasing it frees nothing
    void *owner;                               // what `release` needs: the context, or the device
    void (*release)(struct mt_buffer *buffer); // frees owned memory; set by whoever made the buffer
};

/* Host memory from the context's allocator, undefined content. The caller releases it. */
enum mt_status mt_buffer_create(struct mt_context *ctx, size_t bytes, struct mt_buffer *buffer);

/* A buffer over memory somebody else owns; it must outlive the buffer. */
struct mt_buffer mt_buffer_borrow(void *data, size_t bytes, enum mt_memory_kind kind);

/* Frees what is owned and clears the struct; a cleared or zeroed buffer is allowed. */
void mt_buffer_release(struct mt_buffer *buffer);

MT_PUBLIC_END

#endif
