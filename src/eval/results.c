/* Files of samples: appending, continuing. */
#include "eval/results.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "formats/json.h"
#include "formats/utf8.h"

#define MOST_BYTES     ((size_t)8 << 30) // of a file to continue
#define SYNC_RECORDS   64
#define SYNC_SECONDS   5.0
#define FIRST_CAPACITY 256

/* A sample done: a key made of id and prompt, 0 where the slot is free. */
struct slot {
    uint64_t key;
    struct mt_outcome outcome;
};

struct mt_results {
    struct mt_context *ctx;
    char *path;
    int descriptor;
    struct slot *slots; // [capacity], a power of two, at most half full
    size_t capacity;
    size_t count;
    struct mt_byte_list line;
    int unsynced;
    double synced;
};

// ------------------------------------------------------------------ keys

static uint64_t key_of_digits(const char *id, const char *digits)
{
    struct mt_digest_text name = mt_digest_of(id, strlen(id));
    uint64_t key = 0;
    for (int i = 0; i < 16; i++) {
        char pair[3] = {name.digits[i], digits[i], '\0'};
        key = key * 31 + (uint64_t)strtoul(pair, NULL, 16);
    }
    return key != 0 ? key : 1;
}

static struct slot *slot_of(const struct mt_results *results, uint64_t key)
{
    size_t at = (size_t)key & (results->capacity - 1);
    while (results->slots[at].key != 0 && results->slots[at].key != key)
        at = (at + 1) & (results->capacity - 1);
    return &results->slots[at];
}

static enum mt_status remember(struct mt_results *results, uint64_t key, const struct mt_outcome *outcome)
{
    if (2 * (results->count + 1) > results->capacity) {
        struct slot *old = results->slots;
        size_t old_capacity = results->capacity;
        void *memory = NULL;
        size_t capacity = old_capacity > 0 ? 2 * old_capacity : FIRST_CAPACITY;
        enum mt_status status = mt_allocate_array(results->ctx, capacity, sizeof *results->slots, &memory);
        if (status != MT_OK) return status;
        results->slots = memory;
        results->capacity = capacity;
        for (size_t i = 0; i < old_capacity; i++) {
            if (old[i].key != 0) *slot_of(results, old[i].key) = old[i];
        }
        mt_release(results->ctx, old, old_capacity * sizeof *old);
    }
    struct slot *slot = slot_of(results, key);
    results->count += slot->key == 0 ? 1 : 0;
    *slot = (struct slot){.key = key, .outcome = *outcome};
    return MT_OK;
}

bool mt_results_empty(const struct mt_results *results)
{
    return results->count == 0;
}

bool mt_results_find(const struct mt_results *results, const char *id, struct mt_text prompt,
                     struct mt_outcome *outcome)
{
    if (results->capacity == 0) return false;
    struct mt_digest_text digest = mt_digest_of(prompt.text, prompt.bytes);
    const struct slot *slot = slot_of(results, key_of_digits(id, digest.digits));
    if (slot->key == 0) return false;
    *outcome = slot->outcome;
    return true;
}

// ------------------------------------------------------------------ reading what is there

static double number_in(const struct mt_json_node *root, const char *key)
{
    double value = NAN;
    if (mt_json_has(root, key)) (void)mt_json_get_real(root, key, -1e300, 1e300, &value);
    return value;
}

static enum mt_status read_line(struct mt_results *results, const char *text, size_t bytes, size_t number)
{
    const struct mt_json_limits limits = {
        .max_bytes = (size_t)256 << 20, .max_values = 1000000, .max_depth = 16};
    char where[512];
    struct mt_json json = {0};
    const char *id = NULL;
    const char *digits = NULL;
    (void)snprintf(where, sizeof where, "%.480s:%zu", results->path, number);
    enum mt_status status = mt_json_parse(results->ctx, where, text, bytes, &limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = mt_json_get_string(&root, "id", &id);
    if (status == MT_OK) status = mt_json_get_string(&root, "prompt_hash", &digits);
    if (status == MT_OK && strlen(digits) != MT_DIGEST_DIGITS)
        status = mt_fail(results->ctx, MT_ERR_FORMAT, "%s: prompt_hash is no checksum", where);
    if (status == MT_OK) {
        struct mt_outcome outcome = {.score = number_in(&root, "score"),
                                     .predicted = number_in(&root, "predicted"),
                                     .gold = number_in(&root, "gold")};
        status = mt_json_get_integer(&root, "tries", 0, 1000000, &outcome.tries);
        if (status == MT_OK) status = mt_json_get_integer(&root, "passed", 0, 1000000, &outcome.passed);
        if (status == MT_OK) status = remember(results, key_of_digits(id, digits), &outcome);
    }
    mt_json_free(&json);
    return status;
}

/* Reads the whole lines; *kept is how many bytes they are. */
static enum mt_status read_lines(struct mt_results *results, size_t *kept)
{
    void *data = NULL;
    size_t bytes = 0;
    size_t number = 1;
    enum mt_status status = mt_file_read_all(results->ctx, results->path, MOST_BYTES, &data, &bytes);
    const char *text = data;
    *kept = 0;
    while (status == MT_OK && *kept < bytes) {
        const char *end = memchr(text + *kept, '\n', bytes - *kept);
        if (end == NULL) break; // torn
        status = read_line(results, text + *kept, (size_t)(end - text) - *kept, number++);
        *kept = (size_t)(end - text) + 1;
    }
    mt_release(results->ctx, data, bytes);
    return status;
}

static enum mt_status fail_io(struct mt_results *results, const char *what)
{
    return mt_fail(results->ctx, MT_ERR_IO, "%s: cannot %s: %s", results->path, what, strerror(errno));
}

enum mt_status mt_results_open(struct mt_context *ctx, const char *path, struct mt_results **results)
{
    void *memory = NULL;
    size_t kept = 0;
    *results = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **results, &memory);
    if (status != MT_OK) return status;
    struct mt_results *made = memory;
    made->ctx = ctx;
    made->descriptor = -1;
    made->line.ctx = ctx;
    made->synced = mt_clock_seconds();
    status = mt_path_join(ctx, "", path, &made->path);
    if (status == MT_OK) {
        made->descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (made->descriptor < 0) status = fail_io(made, "open it");
    }
    if (status == MT_OK) status = read_lines(made, &kept);
    if (status == MT_OK && ftruncate(made->descriptor, (off_t)kept) != 0)
        status = fail_io(made, "cut a torn line off");
    if (status != MT_OK) {
        (void)mt_results_close(made);
        return status;
    }
    *results = made;
    return MT_OK;
}

static enum mt_status sync_now(struct mt_results *results)
{
    if (results->unsynced == 0) return MT_OK;
    results->unsynced = 0;
    results->synced = mt_clock_seconds();
    return fsync(results->descriptor) == 0 ? MT_OK : fail_io(results, "bring it to the disk");
}

enum mt_status mt_results_close(struct mt_results *results)
{
    if (results == NULL) return MT_OK;
    struct mt_context *ctx = results->ctx;
    enum mt_status status = results->descriptor >= 0 ? sync_now(results) : MT_OK;
    if (results->descriptor >= 0 && close(results->descriptor) != 0 && status == MT_OK)
        status = fail_io(results, "close it");
    mt_byte_list_free(&results->line);
    mt_release(ctx, results->slots, results->capacity * sizeof *results->slots);
    mt_path_release(ctx, results->path);
    mt_release(ctx, results, sizeof *results);
    return status;
}

// ------------------------------------------------------------------ writing

enum mt_status mt_results_append_string(struct mt_byte_list *out, struct mt_text text)
{
    struct mt_byte_list valid = {.ctx = out->ctx};
    enum mt_status status = mt_utf8_append_repaired(&valid, (const uint8_t *)text.text, text.bytes);
    if (status == MT_OK) status = mt_byte_list_append_text(out, "\"");
    for (size_t i = 0; i < valid.count && status == MT_OK; i++) {
        uint8_t byte = valid.data[i];
        char escaped[8];
        if (byte == '"' || byte == '\\') {
            (void)snprintf(escaped, sizeof escaped, "\\%c", byte);
        } else if (byte == '\n') {
            (void)snprintf(escaped, sizeof escaped, "\\n");
        } else if (byte == '\0') {
            // Valid in JSON, but many readers, ours among them, refuse it.
            (void)snprintf(escaped, sizeof escaped, "\\ufffd");
        } else if (byte < 0x20) {
            (void)snprintf(escaped, sizeof escaped, "\\u%04x", byte);
        } else {
            status = mt_byte_list_append(out, &byte, 1);
            continue;
        }
        status = mt_byte_list_append_text(out, escaped);
    }
    if (status == MT_OK) status = mt_byte_list_append_text(out, "\"");
    mt_byte_list_free(&valid);
    return status;
}

enum mt_status mt_results_append_number(struct mt_byte_list *out, double number)
{
    char text[64];
    if (!isfinite(number)) return mt_byte_list_append_text(out, "null");
    (void)snprintf(text, sizeof text, "%.15g", number);
    if (strtod(text, NULL) != number) (void)snprintf(text, sizeof text, "%.17g", number);
    return mt_byte_list_append_text(out, text);
}

static enum mt_status append_named(struct mt_byte_list *line, const char *name, struct mt_text text)
{
    enum mt_status status = mt_byte_list_append_text(line, name);
    return status == MT_OK ? mt_results_append_string(line, text) : status;
}

static enum mt_status append_texts(struct mt_byte_list *line, const char *name, const struct mt_text *texts,
                                   size_t count)
{
    enum mt_status status = mt_byte_list_append_text(line, name);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(line, ", ");
        if (status == MT_OK) status = mt_results_append_string(line, texts[i]);
    }
    return status == MT_OK ? mt_byte_list_append_text(line, "]") : status;
}

/* What lm-evaluation-harness calls the loglikelihood responses: a sum and whether it is the greedy text. */
static enum mt_status append_choices(struct mt_byte_list *line, const struct mt_choice_question *choosing)
{
    enum mt_status status = append_texts(line, ", \"choices\": [", choosing->continuations, choosing->count);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"log_likelihoods\": [");
    for (size_t i = 0; i < choosing->count && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(line, ", ");
        if (status == MT_OK) status = mt_results_append_number(line, choosing->scores[i].log_likelihood);
    }
    if (status == MT_OK) status = mt_byte_list_append_text(line, "], \"greedy\": [");
    for (size_t i = 0; i < choosing->count && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(line, ", ");
        if (status == MT_OK)
            status = mt_byte_list_append_text(line, choosing->scores[i].greedy ? "true" : "false");
    }
    return status == MT_OK ? mt_byte_list_append_text(line, "]") : status;
}

static enum mt_status append_outcome(struct mt_byte_list *line, const struct mt_outcome *outcome)
{
    char counts[96];
    enum mt_status status = mt_byte_list_append_text(line, ", \"score\": ");
    if (status == MT_OK) status = mt_results_append_number(line, outcome->score);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"predicted\": ");
    if (status == MT_OK) status = mt_results_append_number(line, outcome->predicted);
    if (status == MT_OK) status = mt_byte_list_append_text(line, ", \"gold\": ");
    if (status == MT_OK) status = mt_results_append_number(line, outcome->gold);
    (void)snprintf(counts, sizeof counts, ", \"tries\": %lld, \"passed\": %lld}\n", (long long)outcome->tries,
                   (long long)outcome->passed);
    return status == MT_OK ? mt_byte_list_append_text(line, counts) : status;
}

/* One write per line, so that at most the last line of a killed process is torn. */
static enum mt_status write_line(struct mt_results *results)
{
    size_t done = 0;
    while (done < results->line.count) {
        ssize_t wrote = write(results->descriptor, results->line.data + done, results->line.count - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_io(results, "write to it");
        done += (size_t)wrote;
    }
    results->unsynced++;
    bool due = results->unsynced >= SYNC_RECORDS || mt_clock_seconds() - results->synced > SYNC_SECONDS;
    return due ? sync_now(results) : MT_OK;
}

enum mt_status mt_results_add(struct mt_results *results, const struct mt_result_record *record)
{
    struct mt_byte_list *line = &results->line;
    struct mt_digest_text digest = mt_digest_of(record->prompt.text, record->prompt.bytes);
    char head[64];
    line->count = 0;
    (void)snprintf(head, sizeof head, "{\"doc_id\": %zu, \"id\": ", record->number);
    struct mt_text id = {.text = record->id, .bytes = strlen(record->id)};
    enum mt_status status = append_named(line, head, id);
    if (status == MT_OK) {
        struct mt_text hash = {.text = digest.digits, .bytes = MT_DIGEST_DIGITS};
        status = append_named(line, ", \"prompt_hash\": ", hash);
    }
    if (status == MT_OK) status = append_named(line, ", \"target\": ", record->target);
    if (status == MT_OK) status = append_texts(line, ", \"resps\": [", record->answers, record->count);
    if (status == MT_OK) status = append_texts(line, ", \"filtered_resps\": [", record->found, record->count);
    if (status == MT_OK && record->choosing != NULL) status = append_choices(line, record->choosing);
    if (status == MT_OK) status = append_outcome(line, &record->outcome);
    if (status == MT_OK) status = write_line(results);
    if (status == MT_OK)
        status = remember(results, key_of_digits(record->id, digest.digits), &record->outcome);
    return status;
}
