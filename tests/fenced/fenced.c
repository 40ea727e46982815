/* The fence: every buffer is mapped by itself, without access until an op or a copy opens all of them. */
#define _DEFAULT_SOURCE // for MAP_ANONYMOUS
#include "fenced/fenced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ops/cpu/cpu.h"

#define MOST_REGIONS 64
#define MOST_PINNED  8

struct region {
    char *data;
    size_t bytes; // as asked for; the mapping has whole pages
};

/* The arguments of any op. */
union any_args {
#define FENCED_ARGS(name) struct mt_##name##_args name;
    MT_OP_LIST(FENCED_ARGS)
#undef FENCED_ARGS
};

/* An op that was taken down. What its arguments borrow on the stack of the caller is copied. */
struct note {
    enum mt_op op;
    union any_args args;
    struct mt_product_term terms[2][MT_MAX_TERMS];
    struct note *next;
};

struct fence {
    struct mt_op_impl inner[MT_OP_COUNT][MT_OP_VARIANTS];
    int depth; // of ops that run ops
    struct region region[MOST_REGIONS];
    int regions;
    struct region pinned[MOST_PINNED]; // of the host, which ops may read; always open
    int pins;
    size_t total; // bytes the card has; 0: any number
    bool recording;
    struct note *first, *last; // of the recording at hand
    int replayed;
};

static struct fence *fence_of(const struct mt_device *device)
{
    return device->state;
}

static enum mt_status set_access(struct mt_device *device, int access)
{
    const struct fence *fence = fence_of(device);
    for (int i = 0; i < fence->regions; i++) {
        if (mprotect(fence->region[i].data, fence->region[i].bytes, access) == 0) continue;
        return mt_fail(device->ctx, MT_ERR_INTERNAL, "the fence cannot be moved");
    }
    return MT_OK;
}

// ------------------------------------------------------------------ memory

static void release_region(struct mt_buffer *buffer)
{
    struct fence *fence = fence_of(buffer->owner);
    int place = 0;
    while (fence->region[place].data != buffer->data) place++;
    (void)munmap(buffer->data, fence->region[place].bytes);
    fence->region[place] = fence->region[--fence->regions];
}

static size_t used_bytes(const struct fence *fence)
{
    size_t used = 0;
    for (int i = 0; i < fence->regions; i++) used += fence->region[i].bytes;
    return used;
}

static enum mt_status buffer_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    struct fence *fence = fence_of(device);
    size_t mapped = bytes > 0 ? bytes : 1;
    *buffer = (struct mt_buffer){0};
    if (fence->total > 0 && used_bytes(fence) + bytes > fence->total) {
        return mt_fail(device->ctx, MT_ERR_MEMORY,
                       "the card has no room for %zu bytes: %zu of its %zu are used", bytes,
                       used_bytes(fence), fence->total);
    }
    if (fence->regions == MOST_REGIONS) {
        return mt_fail(device->ctx, MT_ERR_INTERNAL, "more than %d buffers at a time", MOST_REGIONS);
    }
    void *data = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return mt_fail(device->ctx, MT_ERR_MEMORY, "%zu bytes behind the fence", bytes);
    memset(data, 0xff, mapped); // NaN in every float type, -1 in i32: nobody counts on zeros
    (void)mprotect(data, mapped, PROT_NONE);
    fence->region[fence->regions++] = (struct region){.data = data, .bytes = mapped};
    *buffer = (struct mt_buffer){.data = data,
                                 .bytes = bytes,
                                 .kind = MT_MEMORY_DEVICE,
                                 .owned = true,
                                 .owner = device,
                                 .release = release_region};
    return MT_OK;
}

static void release_pinned(struct mt_buffer *buffer)
{
    struct fence *fence = fence_of(buffer->owner);
    int place = 0;
    while (fence->pinned[place].data != buffer->data) place++;
    free(buffer->data);
    fence->pinned[place] = fence->pinned[--fence->pins];
}

static enum mt_status staging_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    struct fence *fence = fence_of(device);
    *buffer = (struct mt_buffer){0};
    void *data = fence->pins < MOST_PINNED ? malloc(bytes > 0 ? bytes : 1) : NULL;
    if (data == NULL) return mt_fail(device->ctx, MT_ERR_MEMORY, "no more pinned memory: %zu bytes", bytes);
    fence->pinned[fence->pins++] = (struct region){.data = data, .bytes = bytes};
    *buffer = (struct mt_buffer){.data = data,
                                 .bytes = bytes,
                                 .kind = MT_MEMORY_PINNED,
                                 .owned = true,
                                 .owner = device,
                                 .release = release_pinned};
    return MT_OK;
}

static bool lies_in(const struct region *regions, int count, const void *data, size_t bytes)
{
    const char *first = data;
    for (int i = 0; i < count; i++) {
        if (first >= regions[i].data && first + bytes <= regions[i].data + regions[i].bytes) return true;
    }
    return false;
}

static bool is_inside(const struct mt_device *device, const void *data, size_t bytes)
{
    const struct fence *fence = fence_of(device);
    return lies_in(fence->region, fence->regions, data, bytes);
}

/* What an op may be given. */
static bool holds(const struct mt_device *device, const void *data, size_t bytes)
{
    const struct fence *fence = fence_of(device);
    return is_inside(device, data, bytes) || lies_in(fence->pinned, fence->pins, data, bytes);
}

static enum mt_status check_copy(struct mt_device *device, const void *inside, const void *outside,
                                 size_t bytes)
{
    if (fence_of(device)->recording)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "a copy of %zu bytes in a recording", bytes);
    if (!is_inside(device, inside, bytes)) {
        return mt_fail(device->ctx, MT_ERR_USAGE,
                       "a copy of %zu bytes from or to host memory as the device's", bytes);
    }
    if (is_inside(device, outside, 1)) {
        return mt_fail(device->ctx, MT_ERR_USAGE,
                       "a copy of %zu bytes from or to device memory as the host's", bytes);
    }
    return set_access(device, PROT_READ | PROT_WRITE);
}

static enum mt_status upload(struct mt_device *device, void *target, const void *host, size_t bytes)
{
    enum mt_status status = check_copy(device, target, host, bytes);
    if (status != MT_OK) return status;
    memcpy(target, host, bytes);
    return set_access(device, PROT_NONE);
}

static enum mt_status download(struct mt_device *device, void *host, const void *source, size_t bytes)
{
    enum mt_status status = check_copy(device, source, host, bytes);
    if (status != MT_OK) return status;
    memcpy(host, source, bytes);
    return set_access(device, PROT_NONE);
}

// ------------------------------------------------------------------ ops

static void borrow_terms(struct mt_grouped_sum_args *sum, struct mt_product_term *terms)
{
    memcpy(terms, sum->terms, (size_t)sum->count * sizeof *terms);
    sum->terms = terms;
}

static enum mt_status take_down(struct mt_device *device, enum mt_op op, const void *args)
{
    static const size_t bytes[MT_OP_COUNT] = {
#define FENCED_BYTES(name) [MT_OP_##name] = sizeof(struct mt_##name##_args),
        MT_OP_LIST(FENCED_BYTES)
#undef FENCED_BYTES
    };
    struct fence *fence = fence_of(device);
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(device->ctx, 1, sizeof(struct note), &memory);
    if (status != MT_OK) return status;
    struct note *note = memory;
    note->op = op;
    memcpy(&note->args, args, bytes[op]);
    if (op == MT_OP_grouped_sum) borrow_terms(&note->args.grouped_sum, note->terms[0]);
    if (op == MT_OP_grouped_swiglu) {
        borrow_terms(&note->args.grouped_swiglu.gate, note->terms[0]);
        borrow_terms(&note->args.grouped_swiglu.up, note->terms[1]);
    }
    if (fence->last != NULL) fence->last->next = note;
    if (fence->first == NULL) fence->first = note;
    fence->last = note;
    return MT_OK;
}

static enum mt_status run_inside(struct mt_device *device, enum mt_op op, const void *args)
{
    struct fence *fence = fence_of(device);
    if (fence->recording) return take_down(device, op, args);
    const struct mt_op_impl *impl = fence->inner[op];
    while (impl->fits != NULL && !impl->fits(device, args)) impl++;
    enum mt_status status = set_access(device, PROT_READ | PROT_WRITE);
    if (status != MT_OK) return status;
    fence->depth++;
    status = impl->run(device, args);
    fence->depth--;
    enum mt_status closed = fence->depth == 0 ? set_access(device, PROT_NONE) : MT_OK;
    return status != MT_OK ? status : closed;
}

#define FENCED_RUN(name)                                                                                     \
    static enum mt_status run_##name(struct mt_device *device, const void *args)                             \
    {                                                                                                        \
        return run_inside(device, MT_OP_##name, args);                                                       \
    }
MT_OP_LIST(FENCED_RUN)
#undef FENCED_RUN

// ------------------------------------------------------------------ recordings

static enum mt_status record_begin(struct mt_device *device)
{
    fence_of(device)->recording = true;
    return MT_OK;
}

static enum mt_status record_end(struct mt_device *device, void **recorded)
{
    struct fence *fence = fence_of(device);
    *recorded = fence->first;
    fence->recording = false;
    fence->first = NULL;
    fence->last = NULL;
    return MT_OK;
}

static enum mt_status replay(struct mt_device *device, void *recorded)
{
    enum mt_status status = MT_OK;
    fence_of(device)->replayed++;
    for (const struct note *note = recorded; status == MT_OK && note != NULL; note = note->next)
        status = run_inside(device, note->op, &note->args);
    return status;
}

static void release_recorded(struct mt_device *device, void *recorded)
{
    struct note *next = NULL;
    for (struct note *note = recorded; note != NULL; note = next) {
        next = note->next;
        mt_release(device->ctx, note, sizeof *note);
    }
}

int fenced_replayed(const struct mt_device *device)
{
    return fence_of(device)->replayed;
}

static void destroy_state(struct mt_device *device)
{
    mt_release(device->ctx, device->state, sizeof(struct fence));
    device->state = NULL;
}

enum mt_status fenced_init(struct mt_device *device, int threads)
{
    static const mt_op_run_fn table[MT_OP_COUNT] = {
#define FENCED_ENTRY(name) [MT_OP_##name] = run_##name,
        MT_OP_LIST(FENCED_ENTRY)
#undef FENCED_ENTRY
    };
    void *memory = NULL;
    enum mt_status status = mt_cpu_init(device, threads);
    if (status == MT_OK) status = mt_allocate_array(device->ctx, 1, sizeof(struct fence), &memory);
    if (status != MT_OK) return status;
    struct fence *fence = memory;
    device->state = fence;
    device->destroy_state = destroy_state;
    memcpy(fence->inner, device->impl, sizeof fence->inner);
    for (int op = 0; op < MT_OP_COUNT; op++) {
        for (int i = 0; i < MT_OP_VARIANTS; i++) device->impl[op][i].run = table[op];
        device->own[op] = true;
    }
    device->memory = MT_MEMORY_DEVICE;
    device->buffer_create = buffer_create;
    device->staging_create = staging_create;
    device->upload = upload;
    device->download = download;
    device->holds = holds;
    device->record_begin = record_begin;
    device->record_end = record_end;
    device->replay = replay;
    device->release_recorded = release_recorded;
    (void)snprintf(device->description, sizeof device->description, "fenced, the cpu's ops, %d threads",
                   device->threads);
    return MT_OK;
}

// ------------------------------------------------------------------ a card

static void memory_room(struct mt_device *device, struct mt_memory_room *room)
{
    const struct fence *fence = fence_of(device);
    size_t used = used_bytes(fence);
    *room = (struct mt_memory_room){.total = fence->total};
    room->free = used < fence->total ? fence->total - used : 0;
}

static enum mt_status init_card(struct mt_device *device, int threads, enum mt_dtype activations)
{
    const char *bytes = getenv("METIER_FENCED_CARD");
    if (bytes == NULL)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                       "device %s: there is no card; compute on the device cpu", device->name);
    if (strcmp(bytes, "broken") == 0)
        return mt_fail(device->ctx, MT_ERR_INTERNAL, "device %s: the card is broken", device->name);
    enum mt_status status = fenced_init(device, threads);
    if (status != MT_OK) return status;
    fence_of(device)->total = (size_t)strtoull(bytes, NULL, 10);
    device->memory_room = memory_room;
    device->activations = activations;
    (void)snprintf(device->description, sizeof device->description, "%s, a fenced card", device->name);
    return MT_OK;
}

enum mt_status fenced_card_init(struct mt_device *device, int threads)
{
    return init_card(device, threads, MT_F32);
}

enum mt_status fenced_card_bf16_init(struct mt_device *device, int threads)
{
    return init_card(device, threads, MT_BF16);
}
