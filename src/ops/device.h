/*
 * What a device is made of. Only src/ops and the device folders below it include this.
 */
#ifndef MT_OPS_DEVICE_H
#define MT_OPS_DEVICE_H

#include "metier/buffer.h"
#include "metier/device.h"
#include "metier/ops.h"

/* Computes. Arguments are checked, device->scratch holds at least what `scratch` asked for. */
typedef enum mt_status (*mt_op_run_fn)(struct mt_device *device, const void *args);

/* Bytes of scratch the call will need; NULL means none. */
typedef size_t (*mt_op_scratch_fn)(const struct mt_device *device, const void *args);

/* Whether it takes these arguments; NULL means all. */
typedef bool (*mt_op_fits_fn)(const struct mt_device *device, const void *args);

/* One variant of an op. */
struct mt_op_impl {
    mt_op_run_fn run; // NULL: this device has no such op
    mt_op_scratch_fn scratch;
    mt_op_fits_fn fits;
};

#define MT_OP_VARIANTS 3 // of an op on a device, at most

struct mt_device {
    // What a device folder fills in.
    const char *name;                                    // as listed
    char description[96];                                // for people
    struct mt_op_impl impl[MT_OP_COUNT][MT_OP_VARIANTS]; // best first; the first that fits is taken
    bool own[MT_OP_COUNT];                               // true where the first is not ref's
    enum mt_memory_kind memory;                          // where its tensors live
    bool shares_addresses;               // libraries that know devices read its memory by address
    int threads;                         // >= 1
    enum mt_dtype activations;           // what it computes fastest on: f32 unless the folder says otherwise
    void *state;                         // the folder's own, or NULL
    const struct mt_device_place *place; // while it is created: whose stream it takes; NULL: one of its own

    // Optional; the default serves devices that compute on host memory.
    enum mt_status (*buffer_create)(struct mt_device *device, size_t bytes, struct mt_buffer *buffer);
    enum mt_status (*staging_create)(struct mt_device *device, size_t bytes, struct mt_buffer *buffer);
    enum mt_status (*upload)(struct mt_device *device, void *target, const void *host, size_t bytes);
    enum mt_status (*download)(struct mt_device *device, void *host, const void *source, size_t bytes);
    enum mt_status (*synchronise)(struct mt_device *device);
    enum mt_status (*enter)(struct mt_device *device);
    // Whether memory is the device's own; where it is set, operands that are not are refused.
    bool (*holds)(const struct mt_device *device, const void *data, size_t bytes);
    // Its memory, where that is not the host's. NULL: unknown.
    void (*memory_room)(struct mt_device *device, struct mt_memory_room *room);
    void (*destroy_state)(struct mt_device *device);

    // What src/ops keeps.
    struct mt_context *ctx;          // borrowed
    struct mt_buffer scratch;        // grown by mt_op_run
    struct mt_buffer scratch_beside; // of the side that does not issue now (ops/beside.h)
    bool apart;                      // something was begun beside and not joined
    struct mt_buffer owned;          // the device's own scratch, while another one is lent to it
    const void *lent;                // where that lies; NULL: none is
    bool planning;
    bool dry;         // buffers are addresses without memory; planning for good
    size_t dry_bytes; // of those that are there
    // Of buffers in memory of its own; on the host the context counts.
    size_t held_bytes, peak_bytes;
    size_t limit_bytes;                               // 0: none
    bool limits_host;                                 // the context's limit is ours,
    size_t host_limit_before;                         // and was this
    void (*release_buffer)(struct mt_buffer *buffer); // the folder's, behind the one that counts
    struct mt_op_time *times;                         // [MT_OP_COUNT], borrowed; NULL: ops are not timed

    // Optional, all or none: what is issued is taken down, and issued again by `replay` from what record_end
    // made.
    enum mt_status (*record_begin)(struct mt_device *device);
    enum mt_status (*record_end)(struct mt_device *device, void **recorded);
    enum mt_status (*replay)(struct mt_device *device, void *recorded);
    void (*release_recorded)(struct mt_device *device, void *recorded);

    // Optional, all or none: two devices on one GPU (ops/streams.h). When the device comes to it, add_time
    // adds the clock's time.
    enum mt_status (*follow)(struct mt_device *device, struct mt_device *other);
    enum mt_status (*add_time)(struct mt_device *device, double *when);
    void *(*stream)(const struct mt_device *device);

    // Optional, all or none: work beside other work (ops/beside.h).
    enum mt_status (*beside_begin)(struct mt_device *device);
    enum mt_status (*beside_end)(struct mt_device *device);
    enum mt_status (*join)(struct mt_device *device);
};

/*
 * From now on what goes beyond is refused with a sentence: of the device's buffers, or, where it computes on
 * the host, of everything that comes from its context, whose own limit stays where that is less. 0, and the
 * end of the device: as before.
 */
void mt_device_set_limit(struct mt_device *device, size_t bytes);

/* Bytes that count for that limit: now, and at the most so far. */
struct mt_memory_use {
    size_t held, peak;
};
struct mt_memory_use mt_device_memory_use(const struct mt_device *device);

/*
 * The variant that computes these arguments. Scratch and run both follow from it, so that they are always of
 * one kernel.
 */
const struct mt_op_impl *mt_op_choose(const struct mt_device *device, enum mt_op op, const void *args);

/* Fills name, description, impl, memory, threads, and the optional hooks. One line each in registry.c. */
typedef enum mt_status (*mt_device_init_fn)(struct mt_device *device, int threads);

struct mt_device_kind {
    const char *name;
    mt_device_init_fn init;
    enum mt_device_use automatic; // what `auto` takes it for (ops/choose.h); MT_USE_ASKED: only by name
    bool streams;                 // it can be created on somebody's stream
    bool (*is_there)(void);       // NULL: always
};

/* All devices, there or not; ends with a NULL name. */
extern const struct mt_device_kind mt_device_kinds[];

/* The next kind that is there, from this one on; NULL: there is none. */
const struct mt_device_kind *mt_device_kind_there(const struct mt_device_kind *kind);

#endif
