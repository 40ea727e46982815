/*
 * Saving and loading a run.
 *
 * The checksum of the tensors is made of the bytes on their way to the file, not by reading the file back: so
 * it speaks for what the run held, and a disk that stored something else is found out when it is read. It is
 * read with read(2) before it is mapped, because a mapping answers a bad sector with a signal.
 */
#include "train/state/state.h"

#include <inttypes.h>
#include <string.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "train/state/state_folders.h"
#include "train/state/state_manifest.h"
#include "train/state/state_tensors.h"

#define ARENA_BLOCK_BYTES 4096

struct mt_state_reader {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;  // the settings
    struct mt_state_manifest manifest;
    struct mt_safetensors file;
};

// ------------------------------------------------------------------ saving

static enum mt_status write_manifest(struct mt_context *ctx, const char *directory,
                                     const struct mt_state_manifest *manifest)
{
    struct mt_json_text text;
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, directory, MT_STATE_MANIFEST, &path);
    if (status != MT_OK) return status;
    mt_json_text_init(&text, ctx);
    (void)mt_state_manifest_text(manifest, &text);
    status = mt_json_text_save(&text, path);
    mt_path_release(ctx, path);
    return status;
}

static enum mt_status write_files(struct mt_device *device, const char *directory,
                                  const struct mt_state_tensors *list, struct mt_state_manifest *manifest)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_digest *digest = NULL;
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, directory, MT_STATE_TENSORS, &path);
    if (status == MT_OK) status = mt_digest_create(ctx, &digest);
    if (status == MT_OK) status = mt_state_tensors_write(device, list, path, digest);
    if (status == MT_OK) {
        manifest->tensors_bytes = mt_digest_bytes(digest);
        manifest->tensors_sum = mt_digest_finish(digest);
        status = write_manifest(ctx, directory, manifest);
    }
    mt_digest_free(digest);
    mt_path_release(ctx, path);
    return status;
}

static enum mt_status write_folder(struct mt_device *device, const char *target,
                                   const struct mt_state_tensors *list, struct mt_state_manifest *manifest)
{
    struct mt_folder folder;
    enum mt_status status = mt_folder_open_replacing(mt_device_context(device), target, &folder);
    if (status != MT_OK) return status;
    status = write_files(device, folder.path, list, manifest);
    if (status == MT_OK) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return status;
}

enum mt_status mt_state_save(struct mt_device *device, const char *folder,
                             const struct mt_run_numbers *numbers, const struct mt_run_tensors *tensors,
                             const char *settings_text)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_state_manifest manifest = {.numbers = *numbers, .settings = settings_text};
    struct mt_state_tensors list;
    char name[MT_STATE_NAME_BYTES];
    char *target = NULL;
    mt_state_folder_name(numbers->step, name);
    enum mt_status status = mt_state_tensors_list(ctx, tensors, false, &list);
    if (status != MT_OK) return status;
    status = mt_path_join(ctx, folder, name, &target);
    if (status == MT_OK) status = write_folder(device, target, &list, &manifest);
    if (status == MT_OK) status = mt_state_set_aside(ctx, folder, numbers->step);
    mt_path_release(ctx, target);
    mt_state_tensors_free(&list);
    if (status == MT_OK) return MT_OK;
    return mt_fail_within(ctx, status, "step %" PRIu64 " is not saved", numbers->step);
}

// ------------------------------------------------------------------ opening

static enum mt_status read_manifest(struct mt_state_reader *reader, const char *directory)
{
    char *path = NULL;
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_path_join(reader->ctx, directory, MT_STATE_MANIFEST, &path);
    if (status == MT_OK) status = mt_file_read_all(reader->ctx, path, MT_STATE_MANIFEST_BYTES, &text, &bytes);
    if (status == MT_OK) {
        status = mt_state_manifest_parse(&reader->arena, path, text, bytes, &reader->manifest);
    }
    mt_release(reader->ctx, text, bytes);
    mt_path_release(reader->ctx, path);
    return status;
}

static enum mt_status check_tensors(struct mt_state_reader *reader, const char *path)
{
    struct mt_digest *digest = NULL;
    const struct mt_state_manifest *manifest = &reader->manifest;
    enum mt_status status = mt_digest_create(reader->ctx, &digest);
    if (status == MT_OK) status = mt_file_digest(reader->ctx, path, digest);
    if (status == MT_OK && mt_digest_bytes(digest) != manifest->tensors_bytes) {
        status =
            mt_fail(reader->ctx, MT_ERR_FORMAT, "%s: has %" PRIu64 " bytes, but %" PRIu64 " were written",
                    path, mt_digest_bytes(digest), manifest->tensors_bytes);
    }
    if (status == MT_OK && strcmp(mt_digest_finish(digest).digits, manifest->tensors_sum.digits) != 0) {
        status =
            mt_fail(reader->ctx, MT_ERR_FORMAT, "%s: is damaged: its checksum is not the manifest's", path);
    }
    mt_digest_free(digest);
    return status;
}

static enum mt_status open_checkpoint(struct mt_state_reader *reader, const char *directory, uint64_t step)
{
    char *path = NULL;
    enum mt_status status = read_manifest(reader, directory);
    if (status == MT_OK && reader->manifest.numbers.step != step) {
        status = mt_fail(reader->ctx, MT_ERR_FORMAT, "%s: is of step %" PRIu64, directory,
                         reader->manifest.numbers.step);
    }
    if (status == MT_OK) status = mt_path_join(reader->ctx, directory, MT_STATE_TENSORS, &path);
    if (status == MT_OK) status = check_tensors(reader, path);
    if (status == MT_OK) status = mt_safetensors_open(reader->ctx, path, &reader->file);
    mt_path_release(reader->ctx, path);
    return status;
}

enum mt_status mt_state_open(struct mt_context *ctx, const char *folder, uint64_t step,
                             struct mt_state_reader **reader)
{
    char name[MT_STATE_NAME_BYTES];
    char *directory = NULL;
    void *memory = NULL;
    *reader = NULL;
    mt_state_folder_name(step, name);
    enum mt_status status = mt_path_join(ctx, folder, name, &directory);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof **reader, &memory);
    if (status == MT_OK) {
        struct mt_state_reader *opened = memory;
        opened->ctx = ctx;
        mt_arena_init(&opened->arena, ctx, ARENA_BLOCK_BYTES);
        status = open_checkpoint(opened, directory, step);
        if (status == MT_OK) {
            *reader = opened;
        } else {
            mt_state_close(opened);
        }
    }
    mt_path_release(ctx, directory);
    return status;
}

void mt_state_close(struct mt_state_reader *reader)
{
    if (reader == NULL) return;
    mt_safetensors_close(&reader->file);
    mt_arena_free(&reader->arena);
    mt_release(reader->ctx, reader, sizeof *reader);
}

enum mt_status mt_state_find(struct mt_context *ctx, const char *folder, const struct mt_log *log,
                             struct mt_state_reader **reader)
{
    uint64_t below = UINT64_MAX;
    bool found = true;
    enum mt_status failure = MT_OK; // of the last one tried
    *reader = NULL;
    while (true) {
        uint64_t step = 0;
        enum mt_status status = mt_state_step_below(ctx, folder, below, &found, &step);
        if (status != MT_OK) return status;
        if (!found) break;
        status = mt_state_open(ctx, folder, step, reader);
        // Too little memory says nothing about the checkpoint: going back would lose steps for no reason.
        if (status == MT_OK || status == MT_ERR_MEMORY || status == MT_ERR_INTERNAL) return status;
        mt_log_warning(log, "the checkpoint of step %" PRIu64 " cannot be used: %s", step, ctx->message);
        failure = status;
        below = step;
    }
    if (failure == MT_OK) return MT_OK;
    return mt_fail_within(ctx, failure, "%s: no checkpoint in it can be used; the oldest", folder);
}

const char *mt_state_settings(const struct mt_state_reader *reader)
{
    return reader->manifest.settings;
}

const struct mt_run_numbers *mt_state_numbers(const struct mt_state_reader *reader)
{
    return &reader->manifest.numbers;
}

enum mt_status mt_state_load(struct mt_device *device, const struct mt_state_reader *reader,
                             const struct mt_run_tensors *tensors)
{
    struct mt_state_tensors list;
    bool with_moments = mt_tensor_present(&tensors->first);
    enum mt_status status = mt_state_tensors_list(mt_device_context(device), tensors, true, &list);
    if (status != MT_OK) return status;
    status = mt_state_tensors_read(device, &list, &reader->file, with_moments);
    mt_state_tensors_free(&list);
    return status == MT_OK ? mt_params_round(tensors->params) : status;
}
