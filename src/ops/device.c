/*
 * Devices: creation by name, memory, scratch. The defaults here serve every device that computes on
 * host memory; others override the hooks.
 */
#define _DEFAULT_SOURCE // for MAP_ANONYMOUS and MAP_NORESERVE
#include "ops/device.h"

#include <string.h>
#include <sys/mman.h>

#include "base/given.h"
#include "base/host_memory.h"

const struct mt_device_kind *mt_device_kind_there(const struct mt_device_kind *kind)
{
    while (kind->name != NULL && kind->is_there != NULL && !kind->is_there()) kind++;
    return kind->name != NULL ? kind : NULL;
}

static const struct mt_device_kind *find_kind(const char *name)
{
    const struct mt_device_kind *kind = mt_device_kind_there(mt_device_kinds);
    while (kind != NULL && strcmp(kind->name, name) != 0) kind = mt_device_kind_there(kind + 1);
    return kind;
}

static enum mt_status create(struct mt_context *ctx, const char *name, int threads,
                             const struct mt_device_place *place, struct mt_device **device)
{
    enum mt_status status = mt_given(NULL, "mt_device_create", "ctx", ctx);
    if (status == MT_OK) status = mt_given(ctx, "mt_device_create", "device", device);
    if (status != MT_OK) return status;
    *device = NULL;
    status = mt_given(ctx, "mt_device_create", "name", name);
    if (status != MT_OK) return status;
    const struct mt_device_kind *kind = find_kind(name);
    if (kind == NULL) {
        bool cuda = strcmp(name, "cuda") == 0 || strcmp(name, "cuda-bf16") == 0;
        return mt_fail(ctx, MT_ERR_USAGE, "device '%s' is not built in%s", name,
                       cuda ? ": scripts/install --cuda builds it in; or compute on the device cpu"
                            : "; metier devices lists those that are");
    }
    if (place != NULL && !kind->streams)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "device '%s' has no streams", name);
    if (threads < 0 || threads > 4096) {
        return mt_fail(ctx, MT_ERR_USAGE, "device '%s': %d threads asked for, expected 0 to 4096", name,
                       threads);
    }
    void *memory = NULL;
    status = mt_allocate_array(ctx, 1, sizeof **device, &memory);
    if (status != MT_OK) return status;
    struct mt_device *made = memory;
    made->ctx = ctx;
    made->name = kind->name;
    made->memory = MT_MEMORY_HOST;
    made->activations = MT_F32;
    made->place = place;
    status = kind->init(made, threads);
    made->place = NULL;
    if (status != MT_OK) {
        mt_device_destroy(made);
        return status;
    }
    *device = made;
    return MT_OK;
}

enum mt_status mt_device_create(struct mt_context *ctx, const char *name, int threads,
                                struct mt_device **device)
{
    return create(ctx, name, threads, NULL, device);
}

enum mt_status mt_device_create_on(struct mt_context *ctx, const char *name,
                                   const struct mt_device_place *place, struct mt_device **device)
{
    enum mt_status status = mt_given(ctx, "mt_device_create_on", "place", place);
    return status == MT_OK ? create(ctx, name, 0, place, device) : status;
}

enum mt_status mt_device_enter(struct mt_device *device)
{
    if (device == NULL) return MT_ERR_USAGE;
    return device->enter != NULL ? device->enter(device) : MT_OK;
}

void mt_device_set_limit(struct mt_device *device, size_t bytes)
{
    struct mt_context *ctx = device->ctx;
    if (!mt_device_on_host(device)) {
        device->limit_bytes = bytes;
        return;
    }
    if (device->limits_host) ctx->limit_bytes = device->host_limit_before;
    device->limits_host = bytes > 0;
    device->host_limit_before = ctx->limit_bytes;
    bool tighter = bytes > 0 && (ctx->limit_bytes == 0 || bytes < ctx->limit_bytes);
    if (tighter) ctx->limit_bytes = bytes;
}

struct mt_memory_use mt_device_memory_use(const struct mt_device *device)
{
    if (!mt_device_on_host(device))
        return (struct mt_memory_use){.held = device->held_bytes, .peak = device->peak_bytes};
    return (struct mt_memory_use){.held = device->ctx->live_bytes, .peak = device->ctx->peak_bytes};
}

void mt_device_destroy(struct mt_device *device)
{
    if (device == NULL) return;
    mt_device_set_limit(device, 0);
    mt_buffer_release(&device->scratch);
    mt_buffer_release(&device->scratch_beside);
    if (device->destroy_state != NULL) device->destroy_state(device);
    mt_release(device->ctx, device, sizeof *device);
}

const char *mt_device_name(const struct mt_device *device)
{
    return device != NULL ? device->name : NULL;
}

const char *mt_device_description(const struct mt_device *device)
{
    return device != NULL ? device->description : NULL;
}

bool mt_device_on_host(const struct mt_device *device)
{
    return device != NULL && device->memory != MT_MEMORY_DEVICE;
}

enum mt_dtype mt_device_activations(const struct mt_device *device)
{
    return device != NULL ? device->activations : MT_F32;
}

struct mt_context *mt_device_context(const struct mt_device *device)
{
    return device != NULL ? device->ctx : NULL;
}

const char *mt_device_listed(int index)
{
    const struct mt_device_kind *kind = mt_device_kind_there(mt_device_kinds);
    if (index < 0) return NULL;
    for (int i = 0; kind != NULL && i < index; i++) kind = mt_device_kind_there(kind + 1);
    return kind != NULL ? kind->name : NULL;
}

bool mt_device_shares_addresses(const struct mt_device *device)
{
    return device != NULL && device->shares_addresses;
}

// ------------------------------------------------------------------ memory

static void release_dry(struct mt_buffer *buffer)
{
    struct mt_device *device = buffer->owner;
    (void)munmap(buffer->data, buffer->bytes > 0 ? buffer->bytes : 1);
    device->dry_bytes -= buffer->bytes;
}

/* Addresses, which cost nothing until somebody writes there. */
static enum mt_status create_dry(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    *buffer = (struct mt_buffer){0};
    void *data = mmap(NULL, bytes > 0 ? bytes : 1, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return mt_fail(device->ctx, MT_ERR_MEMORY, "cannot allocate %zu bytes: too large to address", bytes);
    device->dry_bytes += bytes;
    *buffer = (struct mt_buffer){.data = data,
                                 .bytes = bytes,
                                 .kind = device->memory,
                                 .owned = true,
                                 .owner = device,
                                 .release = release_dry};
    return MT_OK;
}

void mt_device_set_dry(struct mt_device *device)
{
    if (device == NULL) return;
    device->dry = true;
    device->planning = true;
}

bool mt_device_is_dry(const struct mt_device *device)
{
    return device != NULL && device->dry;
}

size_t mt_device_dry_bytes(const struct mt_device *device)
{
    return device != NULL ? device->dry_bytes : 0;
}

void mt_device_room(struct mt_device *device, struct mt_memory_room *room)
{
    if (room == NULL) return;
    *room = (struct mt_memory_room){0};
    if (device == NULL) return;
    if (mt_device_on_host(device)) {
        mt_host_memory(&room->free, &room->total);
    } else if (device->memory_room != NULL) {
        device->memory_room(device, room);
    }
}

static void release_counted(struct mt_buffer *buffer)
{
    struct mt_device *device = buffer->owner;
    device->held_bytes -= buffer->bytes;
    device->release_buffer(buffer);
}

/* Memory of the device's own, within its limit. */
static enum mt_status create_counted(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    size_t limit = device->limit_bytes;
    *buffer = (struct mt_buffer){0};
    if (limit > 0 && (bytes > limit || device->held_bytes > limit - bytes)) {
        return mt_fail(device->ctx, MT_ERR_MEMORY,
                       "cannot allocate %zu bytes on the device: %zu are in use and the limit is %zu", bytes,
                       device->held_bytes, limit);
    }
    enum mt_status status = device->buffer_create(device, bytes, buffer);
    if (status != MT_OK) return status;
    device->release_buffer = buffer->release;
    buffer->release = release_counted;
    device->held_bytes += bytes;
    if (device->held_bytes > device->peak_bytes) device->peak_bytes = device->held_bytes;
    return MT_OK;
}

enum mt_status mt_device_buffer_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    enum mt_status status = mt_given(mt_device_context(device), "mt_device_buffer_create", "buffer", buffer);
    if (status != MT_OK || device == NULL) return MT_ERR_USAGE;
    if (device->dry) return create_dry(device, bytes, buffer);
    if (device->buffer_create != NULL) return create_counted(device, bytes, buffer);
    return mt_buffer_create(device->ctx, bytes, buffer);
}

enum mt_status mt_device_staging_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    enum mt_status status = mt_given(mt_device_context(device), "mt_device_staging_create", "buffer", buffer);
    if (status != MT_OK || device == NULL) return MT_ERR_USAGE;
    // A plan copies nothing, and pages that nobody touches cost nothing.
    if (device->staging_create != NULL && !device->dry) return device->staging_create(device, bytes, buffer);
    return mt_buffer_create(device->ctx, bytes, buffer);
}

/* Both ends of a copy of something. */
static enum mt_status check_copy(const struct mt_device *device, const void *target, const void *source,
                                 size_t bytes)
{
    if (device == NULL) return MT_ERR_USAGE;
    if (bytes == 0 || (target != NULL && source != NULL)) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_USAGE, "%zu bytes are to be copied, but their %s is NULL", bytes,
                   target == NULL ? "target" : "source");
}

/* Nothing can be copied. On the host it can: checks of planned ops read what index tensors hold. */
static bool is_hollow(const struct mt_device *device)
{
    return device->dry && !mt_device_on_host(device);
}

enum mt_status mt_device_upload(struct mt_device *device, void *target, const void *host, size_t bytes)
{
    enum mt_status status = check_copy(device, target, host, bytes);
    if (status != MT_OK || bytes == 0 || is_hollow(device)) return status;
    if (device->upload != NULL) return device->upload(device, target, host, bytes);
    memmove(target, host, bytes);
    return MT_OK;
}

enum mt_status mt_device_download(struct mt_device *device, void *host, const void *source, size_t bytes)
{
    enum mt_status status = check_copy(device, host, source, bytes);
    if (status != MT_OK || bytes == 0) return status;
    if (is_hollow(device)) {
        memset(host, 0, bytes);
        return MT_OK;
    }
    if (device->download != NULL) return device->download(device, host, source, bytes);
    memmove(host, source, bytes);
    return MT_OK;
}

enum mt_status mt_device_synchronise(struct mt_device *device)
{
    if (device == NULL) return MT_ERR_USAGE;
    return device->synchronise != NULL ? device->synchronise(device) : MT_OK;
}

void mt_device_set_planning(struct mt_device *device, bool planning)
{
    if (device != NULL) device->planning = planning || device->dry;
}

void mt_device_set_timing(struct mt_device *device, struct mt_op_time *times)
{
    if (device != NULL) device->times = times;
}

size_t mt_device_scratch_bytes(const struct mt_device *device)
{
    return device == NULL ? 0 : device->scratch.bytes + device->scratch_beside.bytes;
}
