/*
 * Keys and tags of a run's records. Numbers of a step are a table, numbers of a layer another: JSON and
 * TensorBoard go through the same ones.
 */
#include "train/log/runlog_records.h"

#include <math.h>
#include <stdio.h>

#define NAME_BYTES  64 // of a key or tag, its frills included
#define SLACK_BYTES 4096

// Numbers of a step that are neither counts nor a term's.
static const struct step_number {
    const char *key;
    const char *tag;
    size_t offset; // in struct mt_step_record
} step_numbers[] = {
    {"epoch", "run/epoch", offsetof(struct mt_step_record, epoch)},
    {"learning_rate", "run/learning_rate", offsetof(struct mt_step_record, learning_rate)},
    {"loss", "loss/total", offsetof(struct mt_step_record, loss)},
    {"task", "loss/task", offsetof(struct mt_step_record, task)},
    {"gradient_norm", "gradient/norm", offsetof(struct mt_step_record, gradient_norm)},
    {"max_violation", "router/max_violation", offsetof(struct mt_step_record, max_violation)},
    {"max_violation_running", "router/max_violation_running",
     offsetof(struct mt_step_record, max_violation_running)},
    {"load_entropy", "router/load_entropy", offsetof(struct mt_step_record, load_entropy)},
    {"effective_experts", "router/effective_experts", offsetof(struct mt_step_record, effective_experts)},
    {"effective_scores", "router/effective_scores", offsetof(struct mt_step_record, effective_scores)},
    {"experts_90", "router/experts_90", offsetof(struct mt_step_record, experts_90)},
    {"jaccard_90", "router/jaccard_90", offsetof(struct mt_step_record, jaccard_90)},
    {"together_90", "router/together_90", offsetof(struct mt_step_record, together_90)},
    {"agreement", "router/agreement", offsetof(struct mt_step_record, agreement)},
    {"seconds", "run/seconds", offsetof(struct mt_step_record, seconds)},
    {"tokens_per_second", "run/tokens_per_second", offsetof(struct mt_step_record, tokens_per_second)},
};

static const struct layer_number {
    const char *key; // also the tag's end
    size_t offset;   // in struct mt_layer_record
} layer_numbers[] = {
    {"load_entropy", offsetof(struct mt_layer_record, load_entropy)},
    {"max_violation", offsetof(struct mt_layer_record, max_violation)},
    {"max_violation_running", offsetof(struct mt_layer_record, max_violation_running)},
    {"variance_expert_topk", offsetof(struct mt_layer_record, variance_expert_topk)},
    {"variance_expert_full", offsetof(struct mt_layer_record, variance_expert_full)},
    {"variance_token", offsetof(struct mt_layer_record, variance_token)},
    {"effective_experts", offsetof(struct mt_layer_record, effective_experts)},
    {"effective_scores", offsetof(struct mt_layer_record, effective_scores)},
    {"experts_90", offsetof(struct mt_layer_record, experts_90)},
    {"jaccard_90", offsetof(struct mt_layer_record, jaccard_90)},
    {"together_90", offsetof(struct mt_layer_record, together_90)},
    {"agreement", offsetof(struct mt_layer_record, agreement)},
    {"rows_sent", offsetof(struct mt_layer_record, rows_sent)},
};

// What a layer says about each term; keys are "term_o", "weight_o", "gradient_o".
static const struct layer_term {
    const char *prefix;
    size_t offset; // of an array [MT_TERM_COUNT]
} layer_terms[] = {
    {"term", offsetof(struct mt_layer_record, loss)},
    {"weight", offsetof(struct mt_layer_record, weight)},
    {"gradient", offsetof(struct mt_layer_record, gradient)},
};

enum {
    STEP_NUMBERS = sizeof step_numbers / sizeof step_numbers[0],
    LAYER_NUMBERS = sizeof layer_numbers / sizeof layer_numbers[0],
    LAYER_TERMS = sizeof layer_terms / sizeof layer_terms[0],
    LAYER_ARRAYS = 2 + LAYER_NUMBERS + LAYER_TERMS * MT_TERM_COUNT, // with numbers and loads
};

/* The index-th double of a struct's member at `offset`. */
static double number_at(const void *record, size_t offset, int index)
{
    const char *member = (const char *)record + offset;
    return ((const double *)(const void *)member)[index];
}

size_t mt_records_line_bytes(size_t layers, int experts)
{
    size_t per_layer =
        LAYER_ARRAYS * (size_t)MT_JSON_NUMBER_BYTES + (size_t)experts * MT_JSON_NUMBER_BYTES + 8;
    size_t names = (LAYER_ARRAYS + STEP_NUMBERS + 2 * MT_TERM_COUNT + 16) * (size_t)NAME_BYTES;
    size_t numbers = (STEP_NUMBERS + 2 * MT_TERM_COUNT + 16) * (size_t)MT_JSON_NUMBER_BYTES;
    // An escaped byte of an event's text takes six.
    return SLACK_BYTES + 6 * MT_EVENT_TEXT_MOST + names + numbers + layers * per_layer;
}

size_t mt_records_scalars(size_t layers)
{
    return STEP_NUMBERS + 2 * MT_TERM_COUNT + 16 + layers * (LAYER_NUMBERS + LAYER_TERMS * MT_TERM_COUNT);
}

// ------------------------------------------------------------------ JSON

/* An array with one number per layer; null when every one is unknown. */
static void layer_array(struct mt_json_line *text, const struct mt_step_record *record, const char *key,
                        size_t offset, int index)
{
    bool known = false;
    for (size_t l = 0; l < record->layer_count; l++) {
        if (!isnan(number_at(&record->layers[l], offset, index))) known = true;
    }
    if (!known) {
        mt_json_put_number(text, key, NAN);
        return;
    }
    mt_json_put_open(text, key, '[');
    for (size_t l = 0; l < record->layer_count; l++) {
        mt_json_put_number(text, NULL, number_at(&record->layers[l], offset, index));
    }
    mt_json_put_close(text, ']');
}

static void layers_object(struct mt_json_line *text, const struct mt_step_record *record)
{
    char key[NAME_BYTES];
    mt_json_put_open(text, "layers", '{');
    mt_json_put_open(text, "layer", '[');
    for (size_t l = 0; l < record->layer_count; l++) {
        mt_json_put_number(text, NULL, (double)record->layers[l].layer);
    }
    mt_json_put_close(text, ']');
    for (size_t i = 0; i < LAYER_NUMBERS; i++) {
        layer_array(text, record, layer_numbers[i].key, layer_numbers[i].offset, 0);
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        for (size_t i = 0; i < LAYER_TERMS; i++) {
            (void)snprintf(key, sizeof key, "%s_%s", layer_terms[i].prefix, mt_term_name((enum mt_term)term));
            layer_array(text, record, key, layer_terms[i].offset, term);
        }
    }
    mt_json_put_open(text, "load", '[');
    for (size_t l = 0; l < record->layer_count; l++) {
        mt_json_put_open(text, NULL, '[');
        for (int j = 0; j < record->experts && record->layers[l].load != NULL; j++) {
            mt_json_put_number(text, NULL, record->layers[l].load[j]);
        }
        mt_json_put_close(text, ']');
    }
    mt_json_put_close(text, ']');
    mt_json_put_close(text, '}');
}

void mt_records_step_line(struct mt_json_line *text, const struct mt_step_record *record)
{
    char key[NAME_BYTES];
    mt_json_put_open(text, NULL, '{');
    mt_json_put_string(text, "kind", "step", 16);
    mt_json_put_count(text, "step", record->step);
    mt_json_put_count(text, "steps", record->steps);
    for (size_t i = 0; i < STEP_NUMBERS; i++) {
        mt_json_put_number(text, step_numbers[i].key, number_at(record, step_numbers[i].offset, 0));
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        (void)snprintf(key, sizeof key, "term_%s", mt_term_name((enum mt_term)term));
        mt_json_put_number(text, key, record->term[term]);
        (void)snprintf(key, sizeof key, "weighted_%s", mt_term_name((enum mt_term)term));
        mt_json_put_number(text, key, record->weighted[term]);
    }
    mt_json_put_bool(text, "clipped", record->clipped);
    mt_json_put_number(text, "tokens", (double)record->tokens);
    mt_json_put_number(text, "answer_tokens", (double)record->answer_tokens);
    mt_json_put_number(text, "examples", (double)record->examples);
    mt_json_put_count(text, "tokens_total", record->tokens_total);
    mt_json_put_count(text, "slots", (uint64_t)record->slots);
    if (record->layers != NULL) layers_object(text, record);
    mt_json_put_close(text, '}');
    mt_json_put_newline(text);
}

void mt_records_evaluation_line(struct mt_json_line *text, const struct mt_evaluation_record *record)
{
    mt_json_put_open(text, NULL, '{');
    mt_json_put_string(text, "kind", "evaluation", 16);
    mt_json_put_count(text, "step", record->step);
    mt_json_put_number(text, "loss", record->loss);
    mt_json_put_number(text, "perplexity", record->perplexity);
    mt_json_put_number(text, "answer_tokens", (double)record->answer_tokens);
    mt_json_put_bool(text, "best", record->best);
    mt_json_put_number(text, "seconds", record->seconds);
    mt_json_put_close(text, '}');
    mt_json_put_newline(text);
}

void mt_records_event_line(struct mt_json_line *text, uint64_t step, const char *kind, const char *event)
{
    mt_json_put_open(text, NULL, '{');
    mt_json_put_string(text, "kind", "event", 16);
    mt_json_put_count(text, "step", step);
    mt_json_put_string(text, "event", kind, NAME_BYTES);
    mt_json_put_string(text, "text", event, MT_EVENT_TEXT_MOST);
    mt_json_put_close(text, '}');
    mt_json_put_newline(text);
}

// ------------------------------------------------------------------ TensorBoard

static void layer_scalars(struct mt_tensorboard *board, const struct mt_layer_record *layer)
{
    char tag[NAME_BYTES];
    for (size_t i = 0; i < LAYER_NUMBERS; i++) {
        (void)snprintf(tag, sizeof tag, "layer/%02lld/%s", (long long)layer->layer, layer_numbers[i].key);
        mt_tensorboard_scalar(board, tag, number_at(layer, layer_numbers[i].offset, 0));
    }
    for (size_t i = 0; i < LAYER_TERMS; i++) {
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            (void)snprintf(tag, sizeof tag, "layer/%02lld/%s_%s", (long long)layer->layer,
                           layer_terms[i].prefix, mt_term_name((enum mt_term)term));
            mt_tensorboard_scalar(board, tag, number_at(layer, layer_terms[i].offset, term));
        }
    }
}

void mt_records_step_scalars(struct mt_tensorboard *board, const struct mt_step_record *record)
{
    char tag[NAME_BYTES];
    for (size_t i = 0; i < STEP_NUMBERS; i++) {
        mt_tensorboard_scalar(board, step_numbers[i].tag, number_at(record, step_numbers[i].offset, 0));
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        (void)snprintf(tag, sizeof tag, "term/%s", mt_term_name((enum mt_term)term));
        mt_tensorboard_scalar(board, tag, record->term[term]);
        (void)snprintf(tag, sizeof tag, "weighted/%s", mt_term_name((enum mt_term)term));
        mt_tensorboard_scalar(board, tag, record->weighted[term]);
    }
    mt_tensorboard_scalar(board, "run/tokens_total", (double)record->tokens_total);
    for (size_t l = 0; record->layers != NULL && l < record->layer_count; l++) {
        layer_scalars(board, &record->layers[l]);
    }
}

void mt_records_evaluation_scalars(struct mt_tensorboard *board, const struct mt_evaluation_record *record)
{
    mt_tensorboard_scalar(board, "evaluation/loss", record->loss);
    mt_tensorboard_scalar(board, "evaluation/perplexity", record->perplexity);
}
