/*
 * The manifest. Whole numbers are strings of digits, because JSON's numbers stop being exact at 2^53 for most
 * readers; doubles are hexadecimal floats in strings, exact and with NaN. The last value is the checksum of
 * every byte before it, so the file ends in a fixed form: 32 digits, a quote, a newline, "}", a newline.
 */
#include "train/state/state_manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/text/json.h"
#include "formats/text/printable.h"

#define FORMAT_NAME "metier run state"
#define SUM_KEY     "xxh3_128"

static const char ending[] = "\"\n}\n"; // behind the checksum

struct field {
    const char *name;
    size_t offset;      // in struct mt_run_numbers
    const char *absent; // what it is in manifests of older versions, which lack it; NULL: none does
};

#define FIELD(member) offsetof(struct mt_run_numbers, member)

static const struct field whole_numbers[] = {
    {"step", FIELD(step), NULL},
    {"position_epoch", FIELD(position.epoch), NULL},
    {"position_index", FIELD(position.index), NULL},
    {"position_step", FIELD(position.step), NULL},
    {"draws", FIELD(counts.draws), NULL},
    {"examples", FIELD(counts.examples), NULL},
    {"bad_rows", FIELD(counts.bad_rows), NULL},
    {"without_answer", FIELD(counts.without_answer), NULL},
    {"truncated", FIELD(counts.truncated), NULL},
    {"drawn_tokens", FIELD(counts.tokens), NULL},
    {"answer_tokens", FIELD(counts.answer_tokens), NULL},
    {"lost_tokens", FIELD(counts.lost_tokens), NULL},
    {"lost_answer", FIELD(counts.lost_answer), NULL},
    {"drawn_steps", FIELD(counts.steps), NULL},
    {"tokens", FIELD(tokens), NULL},
    {"best_step", FIELD(best_step), NULL},
    {"evaluations", FIELD(evaluations), NULL},
    {"fruitless", FIELD(fruitless), NULL},
    {"metrics_bytes", FIELD(metrics_bytes), NULL},
    {"steps", FIELD(steps), NULL},
    {"epoch_draws", FIELD(epoch_draws), NULL},
    {"data_bytes", FIELD(data_bytes), NULL},
    {"concentration_low", FIELD(concentration.low), "0"},
    {"concentration_reported", FIELD(concentration.reported), "0"},
};

static const struct field real_numbers[] = {
    {"seconds", FIELD(seconds), NULL},
    {"best_loss", FIELD(best_loss), NULL},
    {"concentration_start", FIELD(concentration.start), "nan"},
    {"concentration_last", FIELD(concentration.last), "nan"},
};

#define WHOLE_NUMBERS (sizeof whole_numbers / sizeof whole_numbers[0])
#define REAL_NUMBERS  (sizeof real_numbers / sizeof real_numbers[0])

// A new field of these must be listed above.
_Static_assert(sizeof(struct mt_run_numbers) ==
                   WHOLE_NUMBERS * sizeof(uint64_t) + REAL_NUMBERS * sizeof(double) + sizeof(uint64_t),
               "every number of a run is saved");

struct mt_state_name mt_state_file_name(size_t rank)
{
    struct mt_state_name name = {MT_STATE_TENSORS};
    if (rank > 0) (void)snprintf(name.text, sizeof name.text, "state-%zu.safetensors", rank);
    return name;
}

// ------------------------------------------------------------------ writing

static void put_numbers(const struct mt_run_numbers *numbers, struct mt_json_text *text)
{
    const char *base = (const char *)numbers;
    for (size_t i = 0; i < WHOLE_NUMBERS; i++) {
        uint64_t value = 0;
        memcpy(&value, base + whole_numbers[i].offset, sizeof value);
        mt_json_text_format(text, "    \"%s\": \"%" PRIu64 "\",\n", whole_numbers[i].name, value);
    }
    for (size_t i = 0; i < REAL_NUMBERS; i++) {
        double value = 0.0;
        memcpy(&value, base + real_numbers[i].offset, sizeof value);
        mt_json_text_format(text, "    \"%s\": \"%a\",\n", real_numbers[i].name, value);
    }
    mt_json_text_format(text, "    \"finished\": %s\n", numbers->finished ? "true" : "false");
}

enum mt_status mt_state_manifest_text(const struct mt_state_manifest *manifest, struct mt_json_text *text)
{
    mt_json_text_format(text, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"numbers\": {\n", FORMAT_NAME,
                        MT_STATE_VERSION);
    put_numbers(&manifest->numbers, text);
    mt_json_text_format(text, "  },\n  \"settings\": ");
    mt_json_text_string(text, manifest->settings);
    mt_json_text_format(text, ",\n  \"files\": {");
    for (size_t i = 0; i < manifest->file_count; i++)
        mt_json_text_format(text, "%s\n    \"%s\": {\"bytes\": \"%" PRIu64 "\", \"" SUM_KEY "\": \"%s\"}",
                            i > 0 ? "," : "", mt_state_file_name(i).text, manifest->files[i].bytes,
                            manifest->files[i].sum.digits);
    mt_json_text_format(text, "\n  },\n  \"" SUM_KEY "\": \"");
    if (text->status != MT_OK) return text->status;
    struct mt_digest_text sum = mt_digest_of(text->bytes, text->length);
    mt_json_text_format(text, "%s%s", sum.digits, ending);
    if (text->status == MT_OK && text->length > MT_STATE_MANIFEST_BYTES)
        text->status = mt_fail(text->ctx, MT_ERR_USAGE, "the settings are too long to be saved: %zu bytes",
                               strlen(manifest->settings));
    return text->status;
}

// ------------------------------------------------------------------ reading

static enum mt_status check_version(const struct mt_json_node *root)
{
    const char *format = NULL;
    int64_t version = 0;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_get_string(root, "format", &format);
    if (status == MT_OK && strcmp(format, FORMAT_NAME) != 0) {
        status =
            mt_json_fail(root, "is not the manifest of a run: its format is '%s'", mt_printable(format).text);
    }
    if (status == MT_OK) status = mt_json_get_integer(root, "version", 1, INT32_MAX, &version);
    if (status == MT_OK && version > MT_STATE_VERSION) {
        status = mt_fail(root->ctx, MT_ERR_UNSUPPORTED,
                         "%s: has version %" PRId64 ", written by a newer metier; this one reads up to %d",
                         root->file, version, MT_STATE_VERSION);
    }
    return status;
}

/* The checksum at the end against the bytes before it. */
static enum mt_status check_sum(struct mt_context *ctx, const char *file, const char *text, size_t bytes)
{
    size_t tail = MT_DIGEST_DIGITS + sizeof ending - 1;
    bool fine = bytes > tail && memcmp(text + bytes - (sizeof ending - 1), ending, sizeof ending - 1) == 0;
    if (fine) {
        struct mt_digest_text sum = mt_digest_of(text, bytes - tail);
        fine = memcmp(sum.digits, text + bytes - tail, MT_DIGEST_DIGITS) == 0;
    }
    if (fine) return MT_OK;
    return mt_fail(ctx, MT_ERR_FORMAT, "%s: is damaged: its checksum does not match its content", file);
}

/* A string that may be missing where *text says what it is then. */
static enum mt_status get_text(const struct mt_json_node *object, const char *key, const char **text)
{
    return *text != NULL ? mt_json_optional_string(object, key, text) : mt_json_get_string(object, key, text);
}

/* Digits only, without leading zeros: what is written here, and nothing else. */
static enum mt_status get_whole(const struct mt_json_node *object, const char *key, const char *absent,
                                uint64_t *value)
{
    const char *text = absent;
    enum mt_status status = get_text(object, key, &text);
    if (status != MT_OK) return status;
    uint64_t sum = 0;
    bool fine = text[0] != '\0' && (text[0] != '0' || text[1] == '\0');
    for (const char *c = text; fine && *c != '\0'; c++) {
        fine = *c >= '0' && *c <= '9' && sum <= (UINT64_MAX - (uint64_t)(*c - '0')) / 10;
        if (fine) sum = 10 * sum + (uint64_t)(*c - '0');
    }
    *value = sum;
    if (fine) return MT_OK;
    return mt_json_fail(object, "has a %s of '%s', which is not a whole number below 2^64", key,
                        mt_printable(text).text);
}

static enum mt_status get_real(const struct mt_json_node *object, const char *key, const char *absent,
                               double *value)
{
    const char *text = absent;
    char *end = NULL;
    enum mt_status status = get_text(object, key, &text);
    if (status != MT_OK) return status;
    *value = strtod(text, &end);
    if (end != text && *end == '\0') return MT_OK;
    return mt_json_fail(object, "has a %s of '%s', which is not a number", key, mt_printable(text).text);
}

static enum mt_status read_numbers(const struct mt_json_node *root, struct mt_run_numbers *numbers)
{
    struct mt_json_node object;
    char *base = (char *)numbers;
    enum mt_status status = mt_json_get_object(root, "numbers", &object);
    for (size_t i = 0; i < WHOLE_NUMBERS && status == MT_OK; i++) {
        uint64_t value = 0;
        status = get_whole(&object, whole_numbers[i].name, whole_numbers[i].absent, &value);
        memcpy(base + whole_numbers[i].offset, &value, sizeof value);
    }
    for (size_t i = 0; i < REAL_NUMBERS && status == MT_OK; i++) {
        double value = 0.0;
        status = get_real(&object, real_numbers[i].name, real_numbers[i].absent, &value);
        memcpy(base + real_numbers[i].offset, &value, sizeof value);
    }
    if (status == MT_OK) status = mt_json_get_bool(&object, "finished", &numbers->finished);
    return status;
}

static enum mt_status read_file(const struct mt_json_node *files, size_t rank, struct mt_state_file *file)
{
    struct mt_json_node node;
    const char *sum = NULL;
    const struct mt_state_name name = mt_state_file_name(rank);
    enum mt_status status = mt_json_get_object(files, name.text, &node);
    if (status == MT_OK) status = get_whole(&node, "bytes", NULL, &file->bytes);
    if (status == MT_OK) status = mt_json_get_string(&node, SUM_KEY, &sum);
    if (status != MT_OK) return status;
    if (strlen(sum) != MT_DIGEST_DIGITS || strspn(sum, "0123456789abcdef") != MT_DIGEST_DIGITS)
        return mt_json_fail(&node, "has no checksum of 32 hexadecimal digits");
    memcpy(file->sum.digits, sum, MT_DIGEST_DIGITS + 1);
    return MT_OK;
}

/* One of each rank that saved, none left out. */
static enum mt_status read_files(struct mt_arena *arena, const struct mt_json_node *root,
                                 struct mt_state_manifest *manifest)
{
    struct mt_json_node node;
    enum mt_status status = mt_json_get_object(root, "files", &node);
    if (status != MT_OK) return status;
    size_t count = mt_json_count(&node);
    if (count == 0 || count > MT_STATE_MOST_FILES)
        return mt_json_fail(&node, "has %zu files, expected 1 to %d", count, MT_STATE_MOST_FILES);
    struct mt_state_file *files = mt_arena_array(arena, count, sizeof *files, &status);
    for (size_t i = 0; i < count && status == MT_OK; i++) status = read_file(&node, i, &files[i]);
    manifest->files = files;
    manifest->file_count = count;
    return status;
}

static enum mt_status read_root(struct mt_arena *arena, const struct mt_json_node *root, const char *text,
                                size_t bytes, struct mt_state_manifest *manifest)
{
    const char *settings = NULL;
    // The version comes first: another one may end differently.
    enum mt_status status = check_version(root);
    if (status == MT_OK) status = check_sum(arena->ctx, root->file, text, bytes);
    if (status == MT_OK) status = read_numbers(root, &manifest->numbers);
    if (status == MT_OK) status = read_files(arena, root, manifest);
    if (status == MT_OK) status = mt_json_get_string(root, "settings", &settings);
    if (status == MT_OK) status = mt_arena_copy_text(arena, settings, strlen(settings), &manifest->settings);
    return status;
}

enum mt_status mt_state_manifest_parse(struct mt_arena *arena, const char *file, const void *text,
                                       size_t bytes, struct mt_state_manifest *manifest)
{
    static const struct mt_json_limits limits = {
        .max_bytes = MT_STATE_MANIFEST_BYTES, .max_values = 1000 + 6 * MT_STATE_MOST_FILES, .max_depth = 8};
    struct mt_json json;
    *manifest = (struct mt_state_manifest){0};
    enum mt_status status = mt_json_parse(arena->ctx, file, text, bytes, &limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = read_root(arena, &root, text, bytes, manifest);
    mt_json_free(&json);
    return status;
}
