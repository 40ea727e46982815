/* Checksums of the files a run reads: made, noted, compared. */
#include "formats/fingerprint.h"

#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "formats/data/dataset.h"
#include "formats/data/shards.h"
#include "formats/text/json.h"
#include "formats/text/json_text.h"
#include "formats/text/lists.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 4096
#define FORMAT_NAME       "metier inputs"
#define VERSION           1
#define WHOLE_BYTES       ((uint64_t)1 << 20) // tensors of up to so many are summed whole
#define STRETCH_BYTES     ((uint64_t)1 << 20) // of larger ones a block out of each such stretch
#define BLOCK_BYTES       ((uint64_t)4096)

// ------------------------------------------------------------------ the list

void mt_fingerprint_init(struct mt_context *ctx, struct mt_fingerprint *print)
{
    *print = (struct mt_fingerprint){0};
    mt_arena_init(&print->arena, ctx, ARENA_BLOCK_BYTES);
}

void mt_fingerprint_release(struct mt_fingerprint *print)
{
    struct mt_context *ctx = print->arena.ctx;
    if (ctx == NULL) return;
    mt_release(ctx, print->entries, print->capacity * sizeof *print->entries);
    mt_arena_free(&print->arena);
    *print = (struct mt_fingerprint){0};
}

static struct mt_fingerprint_entry *find(const struct mt_fingerprint *print, const char *path)
{
    for (size_t i = 0; i < print->count; i++) {
        if (strcmp(print->entries[i].path, path) == 0) return &print->entries[i];
    }
    return NULL;
}

static enum mt_status append(struct mt_fingerprint *print, const char *path, const char *digits, bool free)
{
    struct mt_context *ctx = print->arena.ctx;
    const char *copy = NULL;
    enum mt_status status = MT_OK;
    print->entries = mt_list_reserve(ctx, print->entries, &print->capacity, sizeof *print->entries,
                                     print->count + 1, &status);
    if (status == MT_OK) status = mt_arena_copy_text(&print->arena, path, strlen(path), &copy);
    if (status != MT_OK) return status;
    struct mt_fingerprint_entry *entry = &print->entries[print->count++];
    *entry = (struct mt_fingerprint_entry){.path = copy, .free = free};
    memcpy(entry->sum.digits, digits, strlen(digits) + 1);
    return MT_OK;
}

// ------------------------------------------------------------------ summing

/* A tensor: whole, or a block out of every stretch. */
static void add_tensor(struct mt_digest *digest, const struct mt_safetensors_tensor *tensor)
{
    const char *data = tensor->data;
    if (tensor->bytes <= WHOLE_BYTES) {
        mt_digest_add(digest, data, (size_t)tensor->bytes);
        return;
    }
    for (uint64_t at = 0; at < tensor->bytes; at += STRETCH_BYTES) {
        uint64_t left = tensor->bytes - at;
        uint64_t stretch = left < STRETCH_BYTES ? left : STRETCH_BYTES;
        uint64_t block = stretch < BLOCK_BYTES ? stretch : BLOCK_BYTES;
        uint64_t place = mt_digest_short(&at, sizeof at, 0) % (stretch - block + 1);
        mt_digest_add(digest, data + at + place, (size_t)block);
    }
}

static void add_safetensors(struct mt_digest *digest, const struct mt_safetensors *file)
{
    uint64_t bytes = file->mapping.bytes;
    // Read ahead, a sample would bring in the stretch around it.
    mt_file_advise(&file->mapping, MT_FILE_RANDOM);
    mt_digest_add(digest, &bytes, sizeof bytes);
    mt_digest_add(digest, file->mapping.data, (size_t)(bytes - file->data_bytes));
    for (size_t i = 0; i < file->tensor_count; i++) add_tensor(digest, &file->tensors[i]);
    mt_file_advise(&file->mapping, MT_FILE_USUAL);
}

void mt_fingerprint_sum_checkpoint(const struct mt_checkpoint *checkpoint, struct mt_digest *digest)
{
    for (size_t i = 0; i < checkpoint->shard_count; i++) add_safetensors(digest, &checkpoint->shards[i]);
}

static enum mt_status sum_weights(struct mt_context *ctx, const char *path, struct mt_digest *digest)
{
    struct mt_safetensors file;
    enum mt_status status = mt_safetensors_open(ctx, path, &file);
    if (status != MT_OK) return status;
    add_safetensors(digest, &file);
    mt_safetensors_close(&file);
    return MT_OK;
}

/* The files that a path with a * stands for, one behind the other. */
static enum mt_status sum_shards(struct mt_context *ctx, const char *path, struct mt_digest *digest)
{
    struct mt_shards shards;
    enum mt_status status = mt_shards_find(ctx, path, &shards);
    for (size_t i = 0; i < shards.count && status == MT_OK; i++)
        status = mt_file_digest(ctx, shards.paths[i], digest);
    mt_shards_free(ctx, &shards);
    return status;
}

typedef enum mt_status (*sum_fn)(struct mt_context *ctx, const char *path, struct mt_digest *digest);

static enum mt_status add(struct mt_fingerprint *print, const char *path, bool free, sum_fn sum)
{
    struct mt_context *ctx = print->arena.ctx;
    struct mt_digest *digest = NULL;
    if (find(print, path) != NULL) return MT_OK;
    if (!mt_dataset_exists(path)) return append(print, path, "", free);
    if (mt_shards_named(path)) sum = sum_shards;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status == MT_OK) status = sum(ctx, path, digest);
    if (status == MT_OK) status = append(print, path, mt_digest_finish(digest).digits, free);
    mt_digest_free(digest);
    return status;
}

enum mt_status mt_fingerprint_add(struct mt_fingerprint *print, const char *path)
{
    return add(print, path, false, mt_file_digest);
}

enum mt_status mt_fingerprint_add_free(struct mt_fingerprint *print, const char *path)
{
    return add(print, path, true, mt_file_digest);
}

static enum mt_status add_in_folder(struct mt_fingerprint *print, const char *folder, const char *name,
                                    sum_fn sum)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(print->arena.ctx, folder, name, &path);
    if (status == MT_OK) status = add(print, path, false, sum);
    mt_path_release(print->arena.ctx, path);
    return status;
}

enum mt_status mt_fingerprint_add_named(struct mt_fingerprint *print, const char *folder, const char *name)
{
    return add_in_folder(print, folder, name, mt_file_digest);
}

enum mt_status mt_fingerprint_add_weights(struct mt_fingerprint *print, const char *folder, const char *name)
{
    return add_in_folder(print, folder, name, sum_weights);
}

enum mt_status mt_fingerprint_add_checkpoint(struct mt_fingerprint *print, const char *folder)
{
    struct mt_context *ctx = print->arena.ctx;
    struct mt_checkpoint_index index;
    char *path = NULL;
    bool single = false;
    bool shards = false;
    enum mt_status status = mt_fingerprint_add_weights(print, folder, MT_CHECKPOINT_SINGLE);
    if (status == MT_OK) status = mt_checkpoint_has_file(ctx, folder, MT_CHECKPOINT_SINGLE, &single);
    if (status == MT_OK && !single)
        status = mt_checkpoint_has_file(ctx, folder, MT_CHECKPOINT_INDEX, &shards);
    if (status != MT_OK || !shards) return status;
    status = mt_fingerprint_add_named(print, folder, MT_CHECKPOINT_INDEX);
    if (status == MT_OK) status = mt_path_join(ctx, folder, MT_CHECKPOINT_INDEX, &path);
    if (status == MT_OK) status = mt_checkpoint_index_read(ctx, path, NULL, 0, &index);
    if (status == MT_OK) {
        for (size_t i = 0; i < index.shard_count && status == MT_OK; i++)
            status = mt_fingerprint_add_weights(print, folder, index.shards[i]);
        mt_checkpoint_index_free(&index);
    }
    mt_path_release(ctx, path);
    return status;
}

// ------------------------------------------------------------------ as a file

enum mt_status mt_fingerprint_write(const struct mt_fingerprint *print, const char *path)
{
    struct mt_context *ctx = print->arena.ctx;
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    enum mt_status status = mt_json_text_format(
        &text, "{\n  \"format\": \"" FORMAT_NAME "\",\n  \"version\": %d,\n  \"files\": {", VERSION);
    for (size_t i = 0; i < print->count && status == MT_OK; i++) {
        const char *digits = print->entries[i].sum.digits;
        const char *quote = digits[0] != '\0' ? "\"" : "";
        status = mt_json_text_format(&text, "%s\n    ", i > 0 ? "," : "");
        if (status == MT_OK) status = mt_json_text_string(&text, print->entries[i].path);
        if (status == MT_OK)
            status =
                mt_json_text_format(&text, ": %s%s%s", quote, digits[0] != '\0' ? digits : "null", quote);
    }
    if (status == MT_OK) status = mt_json_text_format(&text, "\n  }\n}\n");
    if (status == MT_OK) status = mt_file_write_all(ctx, path, text.bytes, text.length);
    mt_json_text_free(&text);
    return status;
}

static enum mt_status read_entry(const struct mt_json_node *node, struct mt_fingerprint *before)
{
    const char *digits = "";
    if (mt_json_kind(node) != MT_JSON_NULL) {
        enum mt_status status = mt_json_as_string(node, &digits);
        if (status != MT_OK) return status;
        if (strlen(digits) != MT_DIGEST_DIGITS || strspn(digits, "0123456789abcdef") != MT_DIGEST_DIGITS)
            return mt_json_fail(node, "is not a checksum of 32 hexadecimal digits");
    }
    return append(before, node->key, digits, false);
}

static enum mt_status read_root(const struct mt_json_node *root, struct mt_fingerprint *before)
{
    const char *format = NULL;
    int64_t version = 0;
    struct mt_json_node files;
    struct mt_json_node entry;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_get_string(root, "format", &format);
    if (status == MT_OK && strcmp(format, FORMAT_NAME) != 0)
        status = mt_json_fail(root, "is not a list of inputs: its format is '%s'", mt_printable(format).text);
    if (status == MT_OK) status = mt_json_get_integer(root, "version", 1, VERSION, &version);
    if (status == MT_OK) status = mt_json_get_object(root, "files", &files);
    for (void *position = NULL; status == MT_OK && mt_json_next(&files, &position, &entry);)
        status = read_entry(&entry, before);
    return status;
}

static enum mt_status read_file(const char *path, struct mt_fingerprint *before)
{
    static const struct mt_json_limits limits = {
        .max_bytes = (size_t)64 << 20, .max_values = 100000, .max_depth = 4};
    struct mt_json json;
    enum mt_status status = mt_json_read(before->arena.ctx, path, &limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = read_root(&root, before);
    mt_json_free(&json);
    return status;
}

// ------------------------------------------------------------------ comparing

/* A file that both know. */
static enum mt_status compare(struct mt_context *ctx, const struct mt_fingerprint_entry *was,
                              const struct mt_fingerprint_entry *is, const struct mt_fingerprint_words *words,
                              bool ended, const struct mt_log *log)
{
    const char *how = "its content has changed";
    bool gone = is->sum.digits[0] == '\0';
    if (strcmp(was->sum.digits, is->sum.digits) == 0 || (gone && ended)) return MT_OK;
    if (gone) how = "it is gone, or cannot be read";
    if (was->sum.digits[0] == '\0') how = "there was no such file";
    if (is->free) {
        mt_log_warning(log, "%s: is not what it was when %s (%s)", is->path, words->since, how);
        return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "%s: is not what it was when %s (%s): %s", is->path, words->since, how,
                   words->cure);
}

enum mt_status mt_fingerprint_compare(struct mt_fingerprint *print, const char *path,
                                      const struct mt_fingerprint_words *words, bool ended,
                                      const struct mt_log *log, bool *known)
{
    struct mt_context *ctx = print->arena.ctx;
    struct mt_fingerprint before;
    *known = access(path, F_OK) == 0;
    if (!*known) return MT_OK;
    mt_fingerprint_init(ctx, &before);
    enum mt_status status = read_file(path, &before);
    for (size_t i = 0; i < before.count && status == MT_OK; i++) {
        const struct mt_fingerprint_entry *was = &before.entries[i];
        const struct mt_fingerprint_entry *is = find(print, was->path);
        status = is != NULL ? compare(ctx, was, is, words, ended, log)
                            : append(print, was->path, was->sum.digits, was->free);
    }
    mt_fingerprint_release(&before);
    return status;
}
