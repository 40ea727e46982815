/*
 * Devices: who computes, and where its memory is. A device is created by name ("ref", "cpu", "cuda");
 * everything above src/ops sees only this header and the op table (metier/ops.h).
 *
 * What may be NULL is said where it is declared. Anything else that is NULL is MT_ERR_USAGE, with a sentence
 * where there is a device or a context to carry it; functions without a status then return NULL, false or 0.
 *
 * Threads: a device, its context and everything that lies on it belong to one thread at a time; devices with
 * contexts of their own may work side by side. Within a call a device uses threads of its own.
 */
#ifndef METIER_DEVICE_H
#define METIER_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "metier/context.h"
#include "metier/export.h"
#include "metier/tensor.h"

MT_PUBLIC_BEGIN

struct mt_device; // opaque
struct mt_buffer; // metier/buffer.h

/* What a device is wanted for, where `auto` chooses it. */
enum mt_device_use {
    MT_USE_ASKED, // only by its name: never chosen
    MT_USE_EXACT, // values that are looked at: products in f32
    MT_USE_FAST,  // training and answering: products in bf16
};

/*
 * Creates a device. threads 0 means as many as the machine has; "ref" always uses one. The context is
 * borrowed and outlives the device. The caller destroys it.
 */
enum mt_status mt_device_create(struct mt_context *ctx, const char *name, int threads,
                                struct mt_device **device);

/* A GPU and a stream that other code of the process uses, too. */
struct mt_device_place {
    int gpu;      // its number, as the process sees it
    void *stream; // a cudaStream_t of that GPU, borrowed for the device's life; NULL: the default one
};

/*
 * Creates a device that computes on somebody else's stream, so that what is issued there before and after
 * needs no waiting for. Refused for devices without streams ("ref", "cpu"). Otherwise as mt_device_create.
 */
enum mt_status mt_device_create_on(struct mt_context *ctx, const char *name,
                                   const struct mt_device_place *place, struct mt_device **device);

/* Makes the device's GPU that of the calling thread, where threads take turns; nothing elsewhere. */
enum mt_status mt_device_enter(struct mt_device *device);

/* Frees the device and its scratch; NULL is allowed. */
void mt_device_destroy(struct mt_device *device);

/* "ref", "cpu", ... */
const char *mt_device_name(const struct mt_device *device);

/* What kernels were picked, for people: "cpu x86-64-v4, 2 threads". */
const char *mt_device_description(const struct mt_device *device);

/* True when its tensors lie in memory the host can read. */
bool mt_device_on_host(const struct mt_device *device);

/* True when a library that knows such devices, an MPI that is CUDA-aware, can be given its addresses. */
bool mt_device_shares_addresses(const struct mt_device *device);

/* The type activations are best kept in: what the setting `activations: auto` means. */
enum mt_dtype mt_device_activations(const struct mt_device *device);

/* The context the device was created with. */
struct mt_context *mt_device_context(const struct mt_device *device);

/* Names of the devices that are there, built in or beside the library: index 0, 1, ...; NULL past the last.
 */
const char *mt_device_listed(int index);

/* The name of the device that is best for a use on this machine: a GPU where there is one that can be used,
 * else "cpu". It lives forever. */
enum mt_status mt_device_best(struct mt_context *ctx, enum mt_device_use use, const char **name);

/* Memory the device computes on; released with mt_buffer_release, before the device is destroyed. */
enum mt_status mt_device_buffer_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer);

/* Memory of the host that the device copies from and to at full speed, and its ops may read; released
 * likewise. */
enum mt_status mt_device_staging_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer);

/* Copies between host memory and the device's. Complete on return. */
enum mt_status mt_device_upload(struct mt_device *device, void *target, const void *host, size_t bytes);
enum mt_status mt_device_download(struct mt_device *device, void *host, const void *source, size_t bytes);

/* Waits for everything issued so far. */
enum mt_status mt_device_synchronise(struct mt_device *device);

/* Room in a memory, in bytes; zeros where it is not known. */
struct mt_memory_room {
    size_t free, total;
    size_t own; // what the device itself takes beside buffers: its context, kernels, workspaces; about
};

/* Room in the memory its buffers lie in: the host's, or its own. */
void mt_device_room(struct mt_device *device, struct mt_memory_room *room);

/*
 * For a plan: from now on buffers are addresses without memory behind them, and ops are planned and not run.
 * On a device with memory of its own nothing is copied, and what is read back is zeros; the host's memory is
 * taken only where something is copied to. What would have been allocated is counted. There is no way back.
 */
void mt_device_set_dry(struct mt_device *device);
bool mt_device_is_dry(const struct mt_device *device);
size_t mt_device_dry_bytes(const struct mt_device *device); // of the buffers there are

/*
 * While planning, ops check their arguments and record how much scratch they need, and compute nothing:
 * running a step this way sizes the scratch exactly before the first real one.
 */
void mt_device_set_planning(struct mt_device *device, bool planning);

/*
 * What was issued once, to be issued again in one go: on a device that works on its own, telling it a
 * thousand small things takes longer than doing them. Addresses and sizes are those of the first time; what
 * memory holds is read anew.
 */
struct mt_recording; // opaque

/* Whether it would pay now: false where ops compute on host memory, while planning and while ops are timed.
 */
bool mt_device_records(const struct mt_device *device);

/*
 * From begin to end ops are taken down instead of run. They must have run before with the same shapes, so
 * that nothing is left to prepare. Memory cannot be read or written by the host meanwhile: that, like every
 * other failure, ends in a recording that mt_device_record_end refuses. The caller frees.
 */
enum mt_status mt_device_record_begin(struct mt_device *device);
enum mt_status mt_device_record_end(struct mt_device *device, struct mt_recording **recording);

/* False once the device's scratch has moved: what was recorded would write to where it was. */
bool mt_recording_is_usable(const struct mt_recording *recording);

/* Issues all of it. */
enum mt_status mt_device_replay(struct mt_device *device, const struct mt_recording *recording);

/* NULL is allowed; before the device is destroyed. */
void mt_recording_free(struct mt_recording *recording);

/* Where an op's time goes. */
struct mt_op_time {
    double seconds;
    long long calls;
};

/*
 * From now on every op is waited for, and its time added to times[op]: an array with an entry for every op
 * (metier/ops.h), the caller's, which must outlive the timing. NULL ends it. Waiting slows a device down that
 * works on its own: shares are what to read.
 */
void mt_device_set_timing(struct mt_device *device, struct mt_op_time *times);

/* Scratch now held, in bytes. */
size_t mt_device_scratch_bytes(const struct mt_device *device);

MT_PUBLIC_END

#endif
