/* The file of codes: what it was made of, reading it, making it. */
#include "model/params/codes_cache.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/folder.h"
#include "base/files/folder_lock.h"
#include "formats/fingerprint.h"
#include "formats/safetensors/safetensors_writer.h"
#include "model/params/quantised.h"
#include "model/params/stream.h"

#define FOLDER      "quantised"
#define FORMAT_NAME "metier codes"
#define VERSION     "1" // another where a matrix's image or the rules of rounding change
#define METADATA    4
#define SUM_BYTES   sizeof(uint64_t) // behind an image

struct cache {
    struct mt_context *ctx;
    const struct mt_checkpoint *checkpoint;
    const struct mt_train_selection *selection;
    struct mt_params_items *items;
    char *folder, *path; // owned
    char how[MT_QUANTISE_TEXT_BYTES];
    struct mt_digest_text weights;                     // what they are quantised from
    struct mt_safetensors_metadata metadata[METADATA]; // that the file has, or it is another
};

static bool is_kept(const struct mt_params_item *item)
{
    return item->quantised && !item->published;
}

static size_t image_bytes(const struct cache *cache, const struct mt_params_item *item)
{
    struct mt_quantised matrix;
    return mt_quantised_image(&cache->selection->quantise, &item->tensor, NULL, &matrix);
}

/* The name is part of it: a matrix in another's place is found out. */
static uint64_t sum_of(const struct mt_params_item *item, const void *image, size_t bytes)
{
    return mt_digest_short(image, bytes, mt_stream_of_name(item->tensor.name));
}

// ------------------------------------------------------------------ of what

/* The weights by headers and samples, and, as samples may miss a change, by the times of their files. */
static enum mt_status identify(struct cache *cache)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(cache->ctx, &digest);
    if (status != MT_OK) return status;
    mt_fingerprint_sum_checkpoint(cache->checkpoint, digest);
    for (size_t i = 0; i < cache->checkpoint->shard_count; i++) {
        struct stat found = {0};
        (void)stat(cache->checkpoint->shards[i].path, &found);
        const int64_t time[] = {found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
        mt_digest_add(digest, time, sizeof time);
    }
    cache->weights = mt_digest_finish(digest);
    mt_digest_free(digest);
    return MT_OK;
}

static enum mt_status name_file(struct cache *cache)
{
    char name[MT_QUANTISE_TEXT_BYTES + 16];
    (void)snprintf(name, sizeof name, "%s.safetensors",
                   mt_quantise_text(&cache->selection->quantise, cache->how));
    for (char *comma = strchr(name, ','); comma != NULL; comma = strchr(comma, ',')) *comma = '-';
    enum mt_status status = mt_path_join(cache->ctx, cache->selection->folder, FOLDER, &cache->folder);
    return status == MT_OK ? mt_path_join(cache->ctx, cache->folder, name, &cache->path) : status;
}

static enum mt_status describe(struct cache *cache)
{
    enum mt_status status = name_file(cache);
    if (status == MT_OK) status = identify(cache);
    const struct mt_safetensors_metadata metadata[METADATA] = {{"format", FORMAT_NAME},
                                                               {"version", VERSION},
                                                               {"quantize", cache->how},
                                                               {"weights", cache->weights.digits}};
    memcpy(cache->metadata, metadata, sizeof metadata);
    return status;
}

// ------------------------------------------------------------------ reading

static const char *value_of(const struct mt_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->metadata_count; i++) {
        if (strcmp(file->metadata[i].key, key) == 0) return file->metadata[i].value;
    }
    return "";
}

static enum mt_status check_metadata(const struct cache *cache, const struct mt_safetensors *file)
{
    for (int i = 0; i < METADATA; i++) {
        const struct mt_safetensors_metadata *own = &cache->metadata[i];
        if (strcmp(value_of(file, own->key), own->value) == 0) continue;
        if (own->value == cache->weights.digits)
            return mt_fail(cache->ctx, MT_ERR_FORMAT, "%s: the weights have changed since it was made",
                           cache->path);
        return mt_fail(cache->ctx, MT_ERR_FORMAT, "%s: its %s is not '%s'", cache->path, own->key,
                       own->value);
    }
    return MT_OK;
}

static enum mt_status find_codes(const struct cache *cache, const struct mt_safetensors *file)
{
    for (size_t i = 0; i < cache->items->count; i++) {
        struct mt_params_item *item = &cache->items->item[i];
        if (!is_kept(item) || item->elsewhere) continue;
        const struct mt_safetensors_tensor *found = mt_safetensors_find(file, item->tensor.name);
        bool fits = found != NULL && found->bytes == image_bytes(cache, item) + SUM_BYTES &&
                    (uintptr_t)found->data % sizeof(float) == 0;
        if (!fits)
            return mt_fail(cache->ctx, MT_ERR_FORMAT, "%s: has no codes of %s, or others", cache->path,
                           item->tensor.name);
        item->kept = found->data;
    }
    return MT_OK;
}

static enum mt_status check_sums(const struct cache *cache)
{
    int broken = 0; // no reduction: clang's would show a symbol of its own in the library
#pragma omp parallel for num_threads(omp_get_max_threads()) schedule(dynamic)
    for (size_t i = 0; i < cache->items->count; i++) {
        const struct mt_params_item *item = &cache->items->item[i];
        uint64_t noted = 0;
        if (item->kept == NULL) continue;
        size_t bytes = image_bytes(cache, item);
        memcpy(&noted, (const char *)item->kept + bytes, sizeof noted);
        if (sum_of(item, item->kept, bytes) == noted) continue;
#pragma omp atomic write
        broken = 1;
    }
    if (broken == 0) return MT_OK;
    return mt_fail(cache->ctx, MT_ERR_FORMAT, "%s: is not what was written", cache->path);
}

/* After a failure the file is closed, and no item has codes of it. */
static enum mt_status read_file(const struct cache *cache, struct mt_safetensors *file)
{
    enum mt_status status = mt_safetensors_open(cache->ctx, cache->path, file);
    if (status != MT_OK) return status;
    status = check_metadata(cache, file);
    if (status == MT_OK) status = find_codes(cache, file);
    if (status == MT_OK) status = check_sums(cache);
    if (status == MT_OK) return MT_OK;
    for (size_t i = 0; i < cache->items->count; i++) cache->items->item[i].kept = NULL;
    mt_safetensors_close(file);
    return status;
}

// ------------------------------------------------------------------ making

/* One for each matrix, other ranks' experts too; returns the bytes of the largest. */
static size_t fill_specs(const struct cache *cache, struct mt_safetensors_spec *specs)
{
    size_t most = 0;
    for (size_t i = 0; i < cache->items->count; i++) {
        const struct mt_params_item *item = &cache->items->item[i];
        if (!is_kept(item)) continue;
        size_t bytes = image_bytes(cache, item) + SUM_BYTES;
        *specs++ = (struct mt_safetensors_spec){
            .name = item->tensor.name, .dtype = MT_SAFETENSORS_U8, .rank = 1, .dim = {(int64_t)bytes}};
        if (bytes > most) most = bytes;
    }
    return most;
}

static enum mt_status write_matrix(const struct cache *cache, const struct mt_params_item *item, char *image,
                                   struct mt_safetensors_writer *writer)
{
    struct mt_quantised matrix;
    size_t bytes = mt_quantised_image(&cache->selection->quantise, &item->tensor, image, &matrix);
    memset(image, 0, bytes); // there are gaps between tensors
    enum mt_status status = mt_quantised_make(cache->ctx, item, &matrix);
    if (status != MT_OK) return mt_fail_within(cache->ctx, status, "%s", item->tensor.name);
    uint64_t sum = sum_of(item, image, bytes);
    memcpy(image + bytes, &sum, sizeof sum);
    return mt_safetensors_writer_write(writer, image, bytes + sizeof sum);
}

static enum mt_status write_file(const struct cache *cache, size_t count)
{
    struct mt_context *ctx = cache->ctx;
    struct mt_safetensors_writer writer = {0};
    void *specs = NULL;
    void *image = NULL;
    size_t most = 0;
    enum mt_status status = mt_allocate_array(ctx, count, sizeof(struct mt_safetensors_spec), &specs);
    if (status == MT_OK) most = fill_specs(cache, specs);
    if (status == MT_OK) status = mt_allocate(ctx, most, &image);
    if (status == MT_OK)
        status =
            mt_safetensors_writer_open(ctx, cache->path, specs, count, cache->metadata, METADATA, &writer);
    for (size_t i = 0; i < cache->items->count && status == MT_OK; i++) {
        const struct mt_params_item *item = &cache->items->item[i];
        if (is_kept(item)) status = write_matrix(cache, item, image, &writer);
    }
    if (status == MT_OK) status = mt_safetensors_writer_finish(&writer);
    mt_safetensors_writer_abandon(&writer);
    mt_release(ctx, image, most);
    mt_release(ctx, specs, count * sizeof(struct mt_safetensors_spec));
    return status;
}

/* One process at a time; *busy: another is at it. */
static enum mt_status make_file(const struct cache *cache, size_t count, bool *busy)
{
    int lock = MT_FOLDER_UNLOCKED;
    enum mt_status status = mt_folder_make(cache->ctx, cache->folder);
    if (status == MT_OK) {
        status = mt_folder_lock(cache->ctx, cache->folder, "keeping codes", &lock);
        *busy = status == MT_ERR_USAGE;
    }
    if (status == MT_OK) status = mt_folder_sweep(cache->ctx, cache->path);
    if (status == MT_OK) status = write_file(cache, count);
    mt_folder_unlock(lock);
    return status;
}

// ------------------------------------------------------------------ the way in

static enum mt_status open_or_make(struct cache *cache, size_t count, struct mt_safetensors *file, bool *busy)
{
    enum mt_status status = describe(cache);
    if (status != MT_OK) return status;
    if (access(cache->path, F_OK) == 0) {
        if (read_file(cache, file) == MT_OK) return MT_OK;
        mt_log_warning(cache->selection->log, "%s; it is made again", cache->ctx->message);
    }
    status = make_file(cache, count, busy);
    return status == MT_OK ? read_file(cache, file) : status;
}

void mt_codes_cache_open(struct mt_context *ctx, const struct mt_checkpoint *checkpoint,
                         const struct mt_train_selection *selection, struct mt_params_items *items,
                         struct mt_safetensors *file)
{
    struct cache cache = {.ctx = ctx, .checkpoint = checkpoint, .selection = selection, .items = items};
    size_t count = 0;
    bool busy = false;
    for (size_t i = 0; i < items->count; i++) count += is_kept(&items->item[i]) ? 1 : 0;
    if (count == 0) return;
    enum mt_status status = open_or_make(&cache, count, file, &busy);
    if (busy)
        mt_log_info(selection->log, "%s: another process is making it", cache.path);
    else if (status != MT_OK)
        mt_log_warning(selection->log, "codes are not kept: %s", ctx->message);
    mt_path_release(ctx, cache.folder);
    mt_path_release(ctx, cache.path);
}
