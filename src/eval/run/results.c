/* Files of samples: appending, continuing. */
#include "eval/run/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/run/line_file.h"

#define FIRST_CAPACITY 256

/* A sample done: a key made of id and prompt, 0 where the slot is free. */
struct done_sample {
    uint64_t key;
    struct mt_digest_text content; // "": not known
    struct mt_outcome outcome;
    size_t old; // of answers that another judged: behind their place in old_answers; 0: the judge is the same
};

struct mt_results {
    struct mt_context *ctx;
    struct mt_line_file file;
    struct done_sample *slots; // [capacity], a power of two, at most half full
    size_t capacity;
    size_t count;
    const struct mt_judged_by *by;
    char old_judge[MT_JUDGED_BY_BYTES];
    struct mt_byte_list old_answers; // of each: numbers of answers and scores, lengths and texts, scores
    size_t asked_otherwise;
    struct mt_text_writer line;
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

static struct done_sample *slot_of(const struct mt_results *results, uint64_t key)
{
    size_t at = (size_t)key & (results->capacity - 1);
    while (results->slots[at].key != 0 && results->slots[at].key != key)
        at = (at + 1) & (results->capacity - 1);
    return &results->slots[at];
}

static enum mt_status remember(struct mt_results *results, uint64_t key, const char *content,
                               const struct mt_outcome *outcome, size_t answers)
{
    if (2 * (results->count + 1) > results->capacity) {
        struct done_sample *old = results->slots;
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
    struct done_sample *slot = slot_of(results, key);
    results->count += slot->key == 0 ? 1 : 0;
    *slot = (struct done_sample){.key = key, .outcome = *outcome, .old = answers};
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
    const struct done_sample *slot = slot_of(results, key_of_digits(id, digest.digits));
    if (slot->key == 0) return false;
    if (slot->content.digits[0] != '\0' && strcmp(slot->content.digits, content->digits) != 0) return false;
    *outcome = slot->outcome;
    return true;
}

// ------------------------------------------------------------------ answers that another judged

bool mt_results_old(const struct mt_results *results, const char *id, struct mt_text prompt,
                    struct mt_old_answers *old)
{
    if (results->capacity == 0) return false;
    struct mt_digest_text digest = mt_digest_of(prompt.text, prompt.bytes);
    const struct done_sample *slot = slot_of(results, key_of_digits(id, digest.digits));
    if (slot->key == 0 || slot->old == 0) return false;
    *old = (struct mt_old_answers){.results = results, .at = slot->old - 1};
    memcpy(&old->answers, results->old_answers.data + old->at, sizeof old->answers);
    memcpy(&old->scores, results->old_answers.data + old->at + sizeof old->answers, sizeof old->scores);
    return true;
}

/* The place behind so many answers. */
static size_t skip_answers(const struct mt_old_answers *old, uint64_t count)
{
    size_t at = old->at + 2 * sizeof(uint64_t);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length = 0;
        memcpy(&length, old->results->old_answers.data + at, sizeof length);
        at += sizeof length + (size_t)length;
    }
    return at;
}

struct mt_text mt_old_answer(const struct mt_old_answers *old, size_t index)
{
    const uint8_t *data = old->results->old_answers.data + skip_answers(old, index);
    uint64_t length = 0;
    memcpy(&length, data, sizeof length);
    return (struct mt_text){.text = (const char *)data + sizeof length, .bytes = (size_t)length};
}

struct mt_choice_score mt_old_score(const struct mt_old_answers *old, size_t index)
{
    double score = NAN;
    uint64_t likeliest = 0;
    const uint8_t *data = old->results->old_answers.data + skip_answers(old, old->answers) +
                          index * (sizeof score + sizeof likeliest);
    memcpy(&score, data, sizeof score);
    memcpy(&likeliest, data + sizeof score, sizeof likeliest);
    return (struct mt_choice_score){.log_likelihood = score, .greedy = likeliest != 0};
}

const char *mt_results_old_judge(const struct mt_results *results)
{
    return results->old_judge;
}

size_t mt_results_asked_otherwise(const struct mt_results *results)
{
    return results->asked_otherwise;
}

// ------------------------------------------------------------------ reading what is there

static double number_in(const struct mt_json_node *root, const char *key)
{
    double value = NAN;
    if (mt_json_has(root, key)) (void)mt_json_get_real(root, key, -1e300, 1e300, &value);
    return value;
}

/* Scores by the task's other filters, in its order. */
static enum mt_status read_filters(const struct mt_json_node *line, struct mt_outcome *outcome)
{
    struct mt_json_node filters;
    bool present = false;
    enum mt_status status = mt_json_optional_array(line, "filters", &filters, &present);
    size_t count = status == MT_OK && present ? mt_json_count(&filters) : 0;
    for (size_t i = 0; i < MT_MOST_FILTERS - 1; i++) {
        outcome->other[i] = NAN;
        if (i >= count) continue;
        struct mt_json_node one = mt_json_element(&filters, i);
        if (mt_json_kind(&one) == MT_JSON_OBJECT) outcome->other[i] = number_in(&one, "score");
    }
    return status;
}

/* A list of true, false and null: which instructions are followed, and which are open. */
static enum mt_status read_bits(const struct mt_json_node *line, const char *key, uint32_t *count,
                                uint32_t *set, uint32_t *open)
{
    struct mt_json_node list;
    enum mt_status status = mt_json_get_array(line, key, &list);
    if (status != MT_OK) return status;
    if (mt_json_count(&list) > MT_MOST_INSTRUCTIONS) return mt_json_fail(&list, "is too long");
    *count = (uint32_t)mt_json_count(&list);
    for (size_t i = 0; i < *count && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(&list, i);
        bool followed = false;
        const uint32_t bit = (uint32_t)1 << i;
        if (mt_json_kind(&item) == MT_JSON_NULL) {
            *open |= bit;
            continue;
        }
        status = mt_json_as_bool(&item, &followed);
        *set |= followed ? bit : 0;
    }
    return status;
}

static enum mt_status read_marks(const struct mt_json_node *line, struct mt_instruction_marks *marks)
{
    enum mt_status status = read_bits(line, "strict", &marks->count, &marks->strict, &marks->strict_open);
    uint32_t count = 0;
    if (status == MT_OK) status = read_bits(line, "loose", &count, &marks->loose, &marks->loose_open);
    if (status == MT_OK && count != marks->count) return mt_json_fail(line, "has lists of two lengths");
    return status;
}

static enum mt_status keep_number(struct mt_results *results, const void *number)
{
    return mt_byte_list_append(&results->old_answers, number, sizeof(uint64_t));
}

/* A log-likelihood, which may be null, and whether its tokens were the likeliest. */
static enum mt_status keep_score(struct mt_results *results, const struct mt_json_node *line,
                                 const struct mt_json_node *scores, size_t index)
{
    struct mt_json_node item = mt_json_element(scores, index);
    struct mt_json_node flags;
    double score = NAN;
    bool greedy = false;
    bool flagged = false;
    enum mt_status status = mt_json_optional_array(line, "greedy", &flags, &flagged);
    if (status == MT_OK && mt_json_kind(&item) != MT_JSON_NULL)
        status = mt_json_as_real(&item, -1e300, 1e300, &score);
    if (status == MT_OK && flagged && index < mt_json_count(&flags)) {
        struct mt_json_node flag = mt_json_element(&flags, index);
        status = mt_json_as_bool(&flag, &greedy);
    }
    uint64_t likeliest = greedy ? 1 : 0;
    if (status == MT_OK) status = keep_number(results, &score);
    return status == MT_OK ? keep_number(results, &likeliest) : status;
}

/* Keeps the answers of a line that somebody else judged. */
static enum mt_status keep_answers(struct mt_results *results, const struct mt_json_node *line, size_t *old)
{
    struct mt_json_node answers;
    struct mt_json_node scores = {0};
    bool scored = false;
    *old = results->old_answers.count + 1;
    enum mt_status status = mt_json_get_array(line, "resps", &answers);
    if (status == MT_OK) status = mt_json_optional_array(line, "log_likelihoods", &scores, &scored);
    if (status != MT_OK) return status;
    uint64_t counts[2] = {mt_json_count(&answers), scored ? mt_json_count(&scores) : 0};
    for (int i = 0; i < 2 && status == MT_OK; i++) status = keep_number(results, &counts[i]);
    for (size_t i = 0; i < counts[0] && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(&answers, i);
        const char *text = NULL;
        status = mt_json_as_string(&item, &text);
        uint64_t length = status == MT_OK ? strlen(text) : 0;
        if (status == MT_OK) status = keep_number(results, &length);
        if (status == MT_OK) status = mt_byte_list_append(&results->old_answers, text, (size_t)length);
    }
    for (size_t i = 0; i < counts[1] && status == MT_OK; i++) status = keep_score(results, line, &scores, i);
    return status;
}

/* Whose verdict it is, and whether the question was put as it would be now. Lines of older versions say
 * neither: they are judged again. */
static enum mt_status read_judge(struct mt_results *results, const struct mt_json_node *line, size_t *old,
                                 bool *otherwise)
{
    const char *judge = "";
    const char *asked = "";
    enum mt_status status = mt_json_optional_string(line, "judged_by", &judge);
    if (status == MT_OK) status = mt_json_optional_string(line, "asked", &asked);
    if (status != MT_OK) return status;
    *otherwise = asked[0] != '\0' && strcmp(asked, results->by->asked.digits) != 0;
    if (*otherwise) results->asked_otherwise++;
    if (*otherwise || strcmp(judge, results->by->judge) == 0) return MT_OK;
    if (results->old_judge[0] == '\0')
        (void)snprintf(results->old_judge, sizeof results->old_judge, "%s", judge);
    return keep_answers(results, line, old);
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
        status = mt_fail(results->ctx, MT_ERR_FORMAT, "%s: prompt_hash is not a checksum", line->file);
    if (status == MT_OK) status = mt_json_optional_string(line, "sample_hash", &content);
    if (status == MT_OK && content[0] != '\0' && strlen(content) != MT_DIGEST_DIGITS)
        status = mt_fail(results->ctx, MT_ERR_FORMAT, "%s: sample_hash is not a checksum", line->file);
    if (status != MT_OK) return status;
    struct mt_outcome outcome = {.score = number_in(line, "score"),
                                 .predicted = number_in(line, "predicted"),
                                 .gold = number_in(line, "gold"),
                                 .normalized = number_in(line, "normalized")};
    status = mt_json_get_integer(line, "tries", 0, 1000000, &outcome.tries);
    if (status == MT_OK) status = mt_json_get_integer(line, "passed", 0, 1000000, &outcome.passed);
    const struct {
        const char *key;
        int64_t *count;
    } counts[] = {{"cut", &outcome.cut},
                  {"empty", &outcome.empty},
                  {"unclosed", &outcome.unclosed},
                  {"cut_prompts", &outcome.cut_prompts},
                  {"not_finite", &outcome.not_finite},
                  {"unjudged", &outcome.unjudged}};
    for (size_t i = 0; status == MT_OK && i < sizeof counts / sizeof counts[0]; i++)
        status = mt_json_optional_integer(line, counts[i].key, 0, 1000000, counts[i].count);
    if (status == MT_OK) status = read_filters(line, &outcome);
    uint32_t filters = 0;
    uint32_t open = 0;
    if (status == MT_OK && mt_json_has(line, "in_form"))
        status = read_bits(line, "in_form", &filters, &outcome.found, &open);
    if (status == MT_OK && mt_json_has(line, "strict") && mt_json_has(line, "loose"))
        status = read_marks(line, &outcome.marks);
    size_t old = 0;
    bool otherwise = false;
    if (status == MT_OK) status = read_judge(results, line, &old, &otherwise);
    if (status != MT_OK || otherwise) return status;
    return remember(results, key_of_digits(id, digits), content, &outcome, old);
}

enum mt_status mt_results_open(struct mt_context *ctx, const char *path, const struct mt_judged_by *by,
                               struct mt_results **results)
{
    void *memory = NULL;
    *results = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **results, &memory);
    if (status != MT_OK) return status;
    struct mt_results *made = memory;
    made->ctx = ctx;
    made->by = by;
    made->old_answers.ctx = ctx;
    made->line.text.ctx = ctx;
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
    mt_byte_list_free(&results->line.text);
    mt_byte_list_free(&results->old_answers);
    mt_release(ctx, results->slots, results->capacity * sizeof *results->slots);
    mt_release(ctx, results, sizeof *results);
    return status;
}

// ------------------------------------------------------------------ writing

static void put_texts(struct mt_text_writer *line, const char *before, const struct mt_text *texts,
                      size_t count)
{
    mt_text_put(line, before);
    for (size_t i = 0; i < count; i++) mt_text_put_string(line, i > 0 ? ", " : "", texts[i]);
    mt_text_put(line, "]");
}

static void put_bits(struct mt_text_writer *line, const char *before, uint32_t count, uint32_t set,
                     uint32_t open)
{
    mt_text_put(line, before);
    for (uint32_t i = 0; i < count; i++) {
        const char *value = (set >> i & 1u) != 0 ? "true" : (open >> i & 1u) != 0 ? "null" : "false";
        mt_text_putf(line, "%s%s", i > 0 ? ", " : "", value);
    }
    mt_text_put(line, "]");
}

/* What lm-evaluation-harness calls the loglikelihood responses: a sum and whether it is the greedy text. */
static void put_choices(struct mt_text_writer *line, const struct mt_choice_question *choosing)
{
    const struct mt_choice_score *scores = choosing->scores;
    if (choosing->prefixes != NULL) put_texts(line, ", \"prompts\": [", choosing->prefixes, choosing->count);
    put_texts(line, ", \"choices\": [", choosing->continuations, choosing->count);
    mt_text_put(line, ", \"log_likelihoods\": [");
    for (size_t i = 0; i < choosing->count; i++)
        mt_text_put_number(line, i > 0 ? ", " : "", scores[i].log_likelihood);
    mt_text_put(line, "], \"greedy\": [");
    for (size_t i = 0; i < choosing->count; i++)
        mt_text_putf(line, "%s%s", i > 0 ? ", " : "", scores[i].greedy ? "true" : "false");
    mt_text_put(line, "]");
}

/* What the first answer is by the task's other filters. */
static void put_filters(struct mt_text_writer *line, const struct mt_result_record *record)
{
    if (record->filter_count < 2) return;
    put_bits(line, ", \"in_form\": [", (uint32_t)record->filter_count, record->outcome.found, 0);
    mt_text_put(line, ", \"filters\": [");
    for (size_t i = 1; i < record->filter_count; i++) {
        mt_text_put_string(line,
                           i > 1 ? ", {\"filter\": " : "{\"filter\": ", mt_text_of(record->filters[i].name));
        mt_text_put_string(line, ", \"filtered_resps\": [", record->other[i - 1]);
        mt_text_put_number(line, "], \"score\": ", record->outcome.other[i - 1]);
        mt_text_put(line, "}");
    }
    mt_text_put(line, "]");
}

/* What is seldom there is left out where it is not. */
static void put_count(struct mt_text_writer *line, const char *before, int64_t count)
{
    if (count > 0) mt_text_putf(line, "%s%lld", before, (long long)count);
}

enum mt_status mt_results_add(struct mt_results *results, const struct mt_result_record *record)
{
    struct mt_text_writer *line = &results->line;
    const struct mt_outcome *outcome = &record->outcome;
    struct mt_digest_text digest = mt_digest_of(record->prompt.text, record->prompt.bytes);
    line->text.count = 0;
    line->status = MT_OK;
    mt_text_putf(line, "{\"doc_id\": %zu", record->number);
    mt_text_put_string(line, ", \"id\": ", mt_text_of(record->id));
    mt_text_put_string(line, ", \"prompt_hash\": ", mt_text_of(digest.digits));
    mt_text_put_string(line, ", \"sample_hash\": ", mt_text_of(record->content.digits));
    mt_text_put_string(line, ", \"prompt\": ", record->prompt);
    if (record->form != NULL) mt_text_put_string(line, ", \"form\": ", mt_text_of(record->form));
    mt_text_put_string(line, ", \"target\": ", record->target);
    put_texts(line, ", \"resps\": [", record->answers, record->count);
    put_texts(line, ", \"filtered_resps\": [", record->found, record->count);
    if (record->why != NULL) put_texts(line, ", \"why\": [", record->why, record->count);
    if (record->choosing != NULL) put_choices(line, record->choosing);
    mt_text_put_number(line, ", \"score\": ", outcome->score);
    mt_text_put_number(line, ", \"predicted\": ", outcome->predicted);
    mt_text_put_number(line, ", \"gold\": ", outcome->gold);
    if (!isnan(outcome->normalized)) mt_text_put_number(line, ", \"normalized\": ", outcome->normalized);
    put_filters(line, record);
    mt_text_putf(line, ", \"tries\": %lld, \"passed\": %lld", (long long)outcome->tries,
                 (long long)outcome->passed);
    mt_text_put_string(line, ", \"judged_by\": ", mt_text_of(results->by->judge));
    mt_text_put_string(line, ", \"asked\": ", mt_text_of(results->by->asked.digits));
    put_count(line, ", \"cut\": ", outcome->cut);
    put_count(line, ", \"empty\": ", outcome->empty);
    put_count(line, ", \"unclosed\": ", outcome->unclosed);
    put_count(line, ", \"cut_prompts\": ", outcome->cut_prompts);
    put_count(line, ", \"not_finite\": ", outcome->not_finite);
    put_count(line, ", \"unjudged\": ", outcome->unjudged);
    const struct mt_instruction_marks *marks = &outcome->marks;
    if (marks->count > 0) {
        put_bits(line, ", \"strict\": [", marks->count, marks->strict, marks->strict_open);
        put_bits(line, ", \"loose\": [", marks->count, marks->loose, marks->loose_open);
    }
    mt_text_put(line, "}\n");
    enum mt_status status = line->status;
    if (status == MT_OK) status = mt_line_file_append(&results->file, &line->text);
    if (status != MT_OK) return status;
    return remember(results, key_of_digits(record->id, digest.digits), record->content.digits, outcome, 0);
}
