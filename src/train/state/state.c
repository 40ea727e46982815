/*
 * Saving and loading a run.
 *
 * The checksum of the tensors is made of the bytes on their way to the file, not by reading the file back: so
 * it speaks for what the run held, and a disk that stored something else is found out when it is read. It is
 * read with read(2) before it is mapped, because a mapping answers a bad sector with a signal.
 *
 * Folders are looked through anew for every question instead of being listed once: a run keeps a handful of
 * them, and nothing needs memory.
 */
#include "train/state/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "base/files/folder.h"

#define ARENA_BLOCK_BYTES 4096

struct mt_state_reader {
    struct mt_context *ctx; // borrowed
    char *directory;        // owned
    struct mt_arena arena;  // settings, lists
    struct mt_state_manifest manifest;
    struct mt_safetensors *files; // [manifest.file_count], the arena's; those not open are zeroed
    struct mt_state_pieces pieces;
};

// ------------------------------------------------------------------ folders

#define NAME_BYTES       32
#define NAME_START       "step-"
#define NAME_DIGITS      8 // at least
#define ASIDE            ".superseded"
#define ASIDE_ATTEMPTS   1000
#define ASIDE_NAME_BYTES (NAME_BYTES + 32)

/* "step-00000200" */
static void folder_name(uint64_t step, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, NAME_START "%0*" PRIu64, NAME_DIGITS, step);
}

/* The step of a name that begins like a checkpoint's; *rest is what follows. */
static bool parse_name(const char *name, uint64_t *step, const char **rest)
{
    char again[NAME_BYTES];
    if (strncmp(name, NAME_START, strlen(NAME_START)) != 0) return false;
    const char *digit = name + strlen(NAME_START);
    uint64_t value = 0;
    while (*digit >= '0' && *digit <= '9') {
        uint64_t next = (uint64_t)(*digit++ - '0');
        if (value > (UINT64_MAX - next) / 10) return false;
        value = 10 * value + next;
    }
    // Only one spelling of a step: too few or too many zeros are somebody else's.
    folder_name(value, again);
    size_t length = (size_t)(digit - name);
    *step = value;
    *rest = digit;
    return strlen(again) == length && memcmp(again, name, length) == 0;
}

static bool is_folder(DIR *directory, const char *name)
{
    struct stat info;
    return fstatat(dirfd(directory), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

static enum mt_status open_folder(struct mt_context *ctx, const char *folder, DIR **directory)
{
    *directory = opendir(folder);
    if (*directory != NULL || errno == ENOENT) return MT_OK;
    return mt_fail(ctx, MT_ERR_IO, "%s: cannot be read: %s", folder, strerror(errno));
}

/*
 * The largest step below `below` that has a folder; other names, links and files are passed over. *found is
 * false when there is none, or no such folder at all.
 */
static enum mt_status step_below(struct mt_context *ctx, const char *folder, uint64_t below, bool *found,
                                 uint64_t *step)
{
    DIR *directory = NULL;
    *found = false;
    *step = 0;
    enum mt_status status = open_folder(ctx, folder, &directory);
    if (status != MT_OK || directory == NULL) return status;
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        uint64_t one = 0;
        const char *rest = NULL;
        if (!parse_name(entry->d_name, &one, &rest) || *rest != '\0') continue;
        if (one >= below || (*found && one <= *step) || !is_folder(directory, entry->d_name)) continue;
        *found = true;
        *step = one;
    }
    (void)closedir(directory);
    return MT_OK;
}

/* Gives one folder the first aside name that is free. */
static enum mt_status set_one_aside(struct mt_context *ctx, const char *folder, uint64_t step)
{
    char name[NAME_BYTES];
    char aside_name[ASIDE_NAME_BYTES];
    char *path = NULL;
    char *aside = NULL;
    int error = EEXIST;
    folder_name(step, name);
    enum mt_status status = mt_path_join(ctx, folder, name, &path);
    for (int i = 1; i <= ASIDE_ATTEMPTS && status == MT_OK && error != 0; i++) {
        (void)snprintf(aside_name, sizeof aside_name, i == 1 ? "%s" ASIDE : "%s" ASIDE ".%d", name, i);
        status = mt_path_join(ctx, folder, aside_name, &aside);
        if (status != MT_OK) break;
        error = rename(path, aside) == 0 ? 0 : errno;
        mt_path_release(ctx, aside);
        if (error != 0 && error != EEXIST && error != ENOTEMPTY) break;
    }
    if (status == MT_OK && error != 0)
        status =
            mt_fail(ctx, MT_ERR_IO, "%s: cannot be renamed to %s: %s", path, aside_name, strerror(error));
    mt_path_release(ctx, path);
    return status;
}

/* Renames the checkpoints of steps above `step` to step-NNNNNNNN.superseded. */
static enum mt_status set_aside(struct mt_context *ctx, const char *folder, uint64_t step)
{
    bool found = true;
    bool any = false;
    enum mt_status status = MT_OK;
    while (status == MT_OK && found) {
        uint64_t later = 0;
        status = step_below(ctx, folder, UINT64_MAX, &found, &later);
        if (status != MT_OK || later <= step) break;
        status = set_one_aside(ctx, folder, later);
        any = true;
    }
    return status == MT_OK && any ? mt_file_sync_folder(ctx, folder) : status;
}

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

/* This rank's file. */
static enum mt_status write_file(struct mt_device *device, const char *directory,
                                 const struct mt_run_tensors *tensors, struct mt_state_file *file)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_state_tensors list;
    struct mt_digest *digest = NULL;
    char *path = NULL;
    const struct mt_state_name name = mt_state_file_name((size_t)mt_comm_rank(tensors->comm));
    enum mt_status status = mt_state_tensors_list(ctx, tensors, false, &list);
    if (status != MT_OK) return status;
    status = mt_path_join(ctx, directory, name.text, &path);
    if (status == MT_OK) status = mt_digest_create(ctx, &digest);
    if (status == MT_OK) status = mt_state_tensors_write(device, &list, path, digest);
    if (status == MT_OK)
        *file = (struct mt_state_file){.bytes = mt_digest_bytes(digest), .sum = mt_digest_finish(digest)};
    mt_digest_free(digest);
    mt_path_release(ctx, path);
    mt_state_tensors_free(&list);
    return status;
}

/* All ranks' files; `files` has what became of them, [ranks]. */
static enum mt_status write_files(struct mt_device *device, const struct mt_folder *folder,
                                  const struct mt_run_tensors *tensors, struct mt_state_file *files)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_comm *comm = tensors->comm;
    struct mt_state_file own = {0};
    char directory[PATH_MAX] = "";
    if (mt_comm_rank(comm) == 0) (void)snprintf(directory, sizeof directory, "%s", folder->path);
    mt_comm_broadcast(comm, directory, sizeof directory, 0);
    enum mt_status status = mt_comm_agree(comm, ctx, write_file(device, directory, tensors, &own));
    if (status == MT_OK) mt_comm_gather(comm, &own, sizeof own, files);
    return status;
}

/* What is there counts from the moment the first rank has put the folder in place. */
static enum mt_status write_folder(struct mt_device *device, const char *target,
                                   const struct mt_run_tensors *tensors, struct mt_state_file *files,
                                   const struct mt_state_manifest *manifest)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_comm *comm = tensors->comm;
    struct mt_folder folder = {0};
    bool first = mt_comm_rank(comm) == 0;
    enum mt_status status = first ? mt_folder_open_replacing(ctx, target, &folder) : MT_OK;
    status = mt_comm_agree(comm, ctx, status);
    if (status == MT_OK) status = write_files(device, &folder, tensors, files);
    if (status == MT_OK && first) status = write_manifest(ctx, folder.path, manifest);
    if (status == MT_OK && first) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return status;
}

enum mt_status mt_state_save(struct mt_device *device, const char *folder,
                             const struct mt_run_numbers *numbers, const struct mt_run_tensors *tensors,
                             const char *settings_text)
{
    struct mt_context *ctx = mt_device_context(device);
    struct mt_arena arena;
    size_t ranks = (size_t)mt_comm_size(tensors->comm);
    char name[NAME_BYTES];
    char *target = NULL;
    folder_name(numbers->step, name);
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_path_join(ctx, folder, name, &target);
    struct mt_state_file *files = mt_arena_array(&arena, ranks, sizeof *files, &status);
    status = mt_comm_agree(tensors->comm, ctx, status);
    const struct mt_state_manifest manifest = {
        .numbers = *numbers, .settings = settings_text, .files = files, .file_count = ranks};
    if (status == MT_OK) status = write_folder(device, target, tensors, files, &manifest);
    if (status == MT_OK && mt_comm_rank(tensors->comm) == 0) status = set_aside(ctx, folder, numbers->step);
    // What the first rank has put in place is the checkpoint of all.
    status = mt_comm_agree(tensors->comm, ctx, status);
    mt_path_release(ctx, target);
    mt_arena_free(&arena);
    if (status == MT_OK) return MT_OK;
    return mt_fail_within(ctx, status, "step %" PRIu64 " is not saved", numbers->step);
}

// ------------------------------------------------------------------ opening

static enum mt_status read_manifest(struct mt_state_reader *reader)
{
    char *path = NULL;
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_path_join(reader->ctx, reader->directory, MT_STATE_MANIFEST, &path);
    if (status == MT_OK) status = mt_file_read_all(reader->ctx, path, MT_STATE_MANIFEST_BYTES, &text, &bytes);
    if (status == MT_OK) {
        status = mt_state_manifest_parse(&reader->arena, path, text, bytes, &reader->manifest);
    }
    mt_release(reader->ctx, text, bytes);
    mt_path_release(reader->ctx, path);
    return status;
}

static enum mt_status check_file(struct mt_context *ctx, const char *path,
                                 const struct mt_state_file *written)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status == MT_OK) status = mt_file_digest(ctx, path, digest);
    if (status == MT_OK && mt_digest_bytes(digest) != written->bytes) {
        status = mt_fail(ctx, MT_ERR_FORMAT, "%s: has %" PRIu64 " bytes, but %" PRIu64 " were written", path,
                         mt_digest_bytes(digest), written->bytes);
    }
    if (status == MT_OK && strcmp(mt_digest_finish(digest).digits, written->sum.digits) != 0)
        status = mt_fail(ctx, MT_ERR_FORMAT, "%s: is damaged: its checksum is not the manifest's", path);
    mt_digest_free(digest);
    return status;
}

static enum mt_status open_file(struct mt_state_reader *reader, size_t rank)
{
    char *path = NULL;
    enum mt_status status =
        mt_path_join(reader->ctx, reader->directory, mt_state_file_name(rank).text, &path);
    if (status == MT_OK) status = check_file(reader->ctx, path, &reader->manifest.files[rank]);
    if (status == MT_OK) status = mt_safetensors_open(reader->ctx, path, &reader->files[rank]);
    mt_path_release(reader->ctx, path);
    return status;
}

static enum mt_status open_checkpoint(struct mt_state_reader *reader, uint64_t step)
{
    enum mt_status status = read_manifest(reader);
    if (status == MT_OK && reader->manifest.numbers.step != step) {
        status = mt_fail(reader->ctx, MT_ERR_FORMAT, "%s: is of step %" PRIu64, reader->directory,
                         reader->manifest.numbers.step);
    }
    size_t count = reader->manifest.file_count;
    reader->files = mt_arena_array(&reader->arena, count, sizeof *reader->files, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = open_file(reader, i);
    if (status != MT_OK) return status;
    return mt_state_pieces_list(&reader->arena, reader->directory, reader->files, count, &reader->pieces);
}

enum mt_status mt_state_open(struct mt_context *ctx, const char *folder, uint64_t step,
                             struct mt_state_reader **reader)
{
    char name[NAME_BYTES];
    void *memory = NULL;
    *reader = NULL;
    folder_name(step, name);
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **reader, &memory);
    if (status != MT_OK) return status;
    struct mt_state_reader *opened = memory;
    opened->ctx = ctx;
    mt_arena_init(&opened->arena, ctx, ARENA_BLOCK_BYTES);
    status = mt_path_join(ctx, folder, name, &opened->directory);
    if (status == MT_OK) status = open_checkpoint(opened, step);
    if (status == MT_OK)
        *reader = opened;
    else
        mt_state_close(opened);
    return status;
}

void mt_state_close(struct mt_state_reader *reader)
{
    if (reader == NULL) return;
    for (size_t i = 0; reader->files != NULL && i < reader->manifest.file_count; i++)
        mt_safetensors_close(&reader->files[i]);
    mt_path_release(reader->ctx, reader->directory);
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
        enum mt_status status = step_below(ctx, folder, below, &found, &step);
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
    status = mt_state_tensors_read(device, &list, &reader->pieces, with_moments);
    mt_state_tensors_free(&list);
    return status == MT_OK ? mt_params_round(tensors->params) : status;
}

// ------------------------------------------------------------------ pruning

static enum mt_status remove_named(struct mt_context *ctx, const char *folder, const char *name)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK) status = mt_folder_remove(ctx, path);
    mt_path_release(ctx, path);
    return status;
}

/* One temporary folder after the other; *found is false when there was none. */
static enum mt_status remove_a_temporary(struct mt_context *ctx, const char *folder, bool *found)
{
    DIR *directory = NULL;
    char name[sizeof((struct dirent){0}.d_name)] = "";
    *found = false;
    enum mt_status status = open_folder(ctx, folder, &directory);
    if (status != MT_OK || directory == NULL) return status;
    for (const struct dirent *entry = readdir(directory); entry != NULL && !*found;
         entry = readdir(directory)) {
        uint64_t step = 0;
        const char *rest = NULL;
        if (!parse_name(entry->d_name, &step, &rest)) continue;
        if (strncmp(rest, MT_FOLDER_TEMPORARY, strlen(MT_FOLDER_TEMPORARY)) != 0) continue;
        if (!is_folder(directory, entry->d_name)) continue;
        (void)snprintf(name, sizeof name, "%s", entry->d_name);
        *found = true;
    }
    (void)closedir(directory);
    return *found ? remove_named(ctx, folder, name) : MT_OK;
}

enum mt_status mt_state_sweep(struct mt_context *ctx, const char *folder)
{
    bool found = true;
    enum mt_status status = MT_OK;
    while (found && status == MT_OK) status = remove_a_temporary(ctx, folder, &found);
    return status;
}

enum mt_status mt_state_prune(struct mt_context *ctx, const char *folder, int64_t keep, uint64_t best_step)
{
    uint64_t below = UINT64_MAX;
    bool found = true;
    if (keep < 1)
        return mt_fail(ctx, MT_ERR_USAGE, "%" PRId64 " checkpoints are to be kept, expected at least 1",
                       keep);
    enum mt_status status = MT_OK;
    for (int64_t kept = 0; found && status == MT_OK; kept++) {
        uint64_t step = 0;
        status = step_below(ctx, folder, below, &found, &step);
        below = step;
        if (status != MT_OK || !found || kept < keep || (best_step != 0 && step == best_step)) continue;
        char name[NAME_BYTES];
        folder_name(step, name);
        status = remove_named(ctx, folder, name);
    }
    return status == MT_OK ? mt_state_sweep(ctx, folder) : status;
}
