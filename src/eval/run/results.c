/* Files of samples: appending, continuing. */
#include "eval/run/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exact.h"
#include "base/files/digest.h"
#include "eval/run/line_file.h"
#include "formats/text/utf8.h"

#define FIRST_CAPACITY 256

/* A sample done: a key made of id and prompt, 0 where the slot is free. */
struct slot {
    uint64_t key;
    struct mt_digest_text content; // "": not known
    struct mt_outcome outcome;
};

struct mt_results {
    struct mt_context *ctx;
    struct mt_line_file file;
    struct slot *slots; // [capacity], a power of two, at most half full
    size_t capacity;
    size_t count;
    struct mt_byte_list line;
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

static enum mt_status remember(struct mt_results *results, uint64_t key, const char *content,
                               const struct mt_outcome *outcome)
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
    memcpy(slot->content.digits, content, strlen(content) + 1);
    return MT_OK;
}

bool mt_results_empty(const struct mt_results *results)
{
    return results->count == 0;
}

bool mt_results_find(const struct mt_results *results, const char *id, struct mt_text prompt,
                     const struct mt_digest_text *content, struct mt_outcome *outcome)
{
    if (results->capacity == 0) return false;
    struct mt_digest_text digest = mt_digest_of(prompt.text, prompt.bytes);
    const struct slot *slot = slot_of(results, key_of_digits(id, digest.digits));
    if (slot->key == 0) return false;
    if (slot->content.digits[0] != '\0' && strcmp(slot->content.digits, content->digits) != 0) return false;
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

static enum mt_status read_line(void *self, const struct mt_json_node *line)
{
    struct mt_results *results = self;
    const char *id = NULL;
    const char *digits = NULL;
    const char *content = "";
    enum mt_status status = mt_json_get_string(line, "id", &id);
    if (status == MT_OK) status = mt_json_get_string(line, "prompt_hash", &digits);
    if (status == MT_OK && strlen(digits) != MT_DIGEST_DIGITS)
        status = mt_fail(results->ctx, MT_ERR_FORMAT, "%s: prompt_hash is no checksum", line->file);
    if (status == MT_OK) status = mt_json_optional_string(line, "sample_hash", &content);
    if (status == MT_OK && content[0] != '\0' && strlen(content) != MT_DIGEST_DIGITS)
        status = mt_fail(results->ctx, MT_ERR_FORMAT, "%s: sample_hash is no checksum", line->file);
    if (status != MT_OK) return status;
    struct mt_outcome outcome = {.score = number_in(line, "score"),
                                 .predicted = number_in(line, "predicted"),
                                 .gold = number_in(line, "gold")};
    status = mt_json_get_integer(line, "tries", 0, 1000000, &outcome.tries);
    if (status == MT_OK) status = mt_json_get_integer(line, "passed", 0, 1000000, &outcome.passed);
    if (status == MT_OK && mt_json_has(line, "unjudged"))
        status = mt_json_get_integer(line, "unjudged", 0, 1000000, &outcome.unjudged);
    return status == MT_OK ? remember(results, key_of_digits(id, digits), content, &outcome) : status;
}

enum mt_status mt_results_open(struct mt_context *ctx, const char *path, struct mt_results **results)
{
    void *memory = NULL;
    *results = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **results, &memory);
    if (status != MT_OK) return status;
    struct mt_results *made = memory;
    made->ctx = ctx;
    made->line.ctx = ctx;
    status = mt_line_file_open(ctx, path, read_line, made, &made->file);
    if (status != MT_OK) {
        (void)mt_results_close(made);
        return status;
    }
    *results = made;
    return MT_OK;
}

enum mt_status mt_results_close(struct mt_results *results)
{
    if (results == NULL) return MT_OK;
    struct mt_context *ctx = results->ctx;
    enum mt_status status = mt_line_file_close(&results->file);
    mt_byte_list_free(&results->line);
    mt_release(ctx, results->slots, results->capacity * sizeof *results->slots);
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
    char digits[MT_EXACT_BYTES];
    return mt_byte_list_append_text(out, isfinite(number) ? mt_exact_text(number, digits) : "null");
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
    (void)snprintf(counts, sizeof counts, ", \"tries\": %lld, \"passed\": %lld", (long long)outcome->tries,
                   (long long)outcome->passed);
    if (status == MT_OK) status = mt_byte_list_append_text(line, counts);
    (void)snprintf(counts, sizeof counts, ", \"unjudged\": %lld", (long long)outcome->unjudged);
    if (status == MT_OK && outcome->unjudged > 0) status = mt_byte_list_append_text(line, counts);
    return status == MT_OK ? mt_byte_list_append_text(line, "}\n") : status;
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
    if (status == MT_OK) {
        struct mt_text hash = {.text = record->content.digits, .bytes = MT_DIGEST_DIGITS};
        status = append_named(line, ", \"sample_hash\": ", hash);
    }
    if (status == MT_OK) status = append_named(line, ", \"prompt\": ", record->prompt);
    if (status == MT_OK) status = append_named(line, ", \"target\": ", record->target);
    if (status == MT_OK) status = append_texts(line, ", \"resps\": [", record->answers, record->count);
    if (status == MT_OK) status = append_texts(line, ", \"filtered_resps\": [", record->found, record->count);
    if (status == MT_OK && record->choosing != NULL) status = append_choices(line, record->choosing);
    if (status == MT_OK) status = append_outcome(line, &record->outcome);
    if (status == MT_OK) status = mt_line_file_append(&results->file, line);
    if (status == MT_OK)
        status = remember(results, key_of_digits(record->id, digest.digits), record->content.digits,
                          &record->outcome);
    return status;
}
