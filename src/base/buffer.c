/* Host buffers; the release of every kind goes through the function its maker set. */
#include "metier/buffer.h"

static void release_host(struct mt_buffer *buffer)
{
    mt_release(buffer->owner, buffer->data, buffer->bytes);
}

enum mt_status mt_buffer_create(struct mt_context *ctx, size_t bytes, struct mt_buffer *buffer)
{
    if (buffer == NULL) return mt_fail(ctx, MT_ERR_USAGE, "mt_buffer_create: buffer is NULL");
    *buffer = (struct mt_buffer){0};
    void *data = NULL;
    enum mt_status status = mt_allocate(ctx, bytes, &data);
    if (status != MT_OK) return status;
    *buffer = (struct mt_buffer){
        .data = data,
        .bytes = bytes,
        .kind = MT_MEMORY_HOST,
        .owned = true,
        .owner = ctx,
        .release = release_host,
    };
    return MT_OK;
}

struct mt_buffer mt_buffer_borrow(void *data, size_t bytes, enum mt_memory_kind kind)
{
    return (struct mt_buffer){.data = data, .bytes = bytes, .kind = kind, .owned = false};
}

void mt_buffer_release(struct mt_buffer *buffer)
{
    if (buffer == NULL) return;
    if (buffer->owned && buffer->release != NULL) buffer->release(buffer);
    *buffer = (struct mt_buffer){0};
}
