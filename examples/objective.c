/*
 * The objective in somebody else's trainer: raw arrays in, losses and gradients out.
 *
 * The "trainer" here is a MoE layer of linear experts in plain C, with nothing of metier in it. Per step it
 * hands logits and the chosen experts' outputs to mt_objective_evaluate and gets back the gradient of
 *
 *     α·L_aux + β·L_o + γ·L_v
 *
 * in both, which it carries on to its own parameters. A real trainer would add the gradient of its task.
 * Everything is owned by the caller; after the first call nothing is allocated.
 *
 *     cc objective.c $(pkg-config --cflags --libs metier) -o objective
 *
 * Ends with status 0 when the very first step lowered the objective and the last one left it lower still.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metier/device.h"
#include "metier/objective.h"

#define TOKENS    48 // N
#define EXPERTS   8  // n
#define SLOTS     2  // k: experts per token
#define WIDTH     16 // d
#define SEQUENCES 3
#define STEPS     50
#define RATE      20.0f // large, because the coefficients (1e-3) make the gradient small

struct layer {
    // Parameters.
    float router[EXPERTS][WIDTH];
    float expert[EXPERTS][WIDTH][WIDTH]; // E_j(x) = x · expert[j]
    // One batch.
    float input[TOKENS][WIDTH];
    int32_t mask[TOKENS];     // 0: padding, which the objective never looks at
    int32_t sequence[TOKENS]; // which text a token belongs to
    // What forward computes.
    float logits[TOKENS][EXPERTS];
    int32_t chosen[TOKENS][SLOTS];
    float outputs[TOKENS][SLOTS][WIDTH]; // E_chosen(x), before it is weighted
    // What the objective gives back.
    float dlogits[TOKENS][EXPERTS];
    float doutputs[TOKENS][SLOTS][WIDTH];
};

/* Repeatable numbers in [-1, 1). */
static float next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

/* Experts start out alike, and the router prefers the first ones: there is something to repair. */
static void fill(struct layer *layer)
{
    uint32_t state = 1;
    float common[WIDTH][WIDTH];
    for (int a = 0; a < WIDTH; a++) {
        for (int b = 0; b < WIDTH; b++) common[a][b] = next_number(&state);
    }
    for (int e = 0; e < EXPERTS; e++) {
        for (int a = 0; a < WIDTH; a++) {
            layer->router[e][a] = 0.5f * next_number(&state);
            for (int b = 0; b < WIDTH; b++) {
                layer->expert[e][a][b] = 0.5f * common[a][b] + 0.3f * next_number(&state);
            }
        }
    }
    for (int i = 0; i < TOKENS; i++) {
        for (int a = 0; a < WIDTH; a++) layer->input[i][a] = next_number(&state) + 0.2f * layer->router[0][a];
        layer->sequence[i] = i * SEQUENCES / TOKENS;
        layer->mask[i] = i < TOKENS - 5; // the last text ends early
    }
}

/* The k largest logits, falling, ties to the lowest index: the slot order the objective expects. */
static void choose(const float logits[EXPERTS], int32_t chosen[SLOTS])
{
    for (int s = 0; s < SLOTS; s++) {
        chosen[s] = -1;
        for (int32_t e = 0; e < EXPERTS; e++) {
            int taken = 0;
            for (int t = 0; t < s; t++) taken = taken || chosen[t] == e;
            if (!taken && (chosen[s] < 0 || logits[e] > logits[chosen[s]])) chosen[s] = e;
        }
    }
}

static void forward(struct layer *layer)
{
    for (int i = 0; i < TOKENS; i++) {
        for (int e = 0; e < EXPERTS; e++) {
            layer->logits[i][e] = 0.0f;
            for (int a = 0; a < WIDTH; a++) layer->logits[i][e] += layer->input[i][a] * layer->router[e][a];
        }
        choose(layer->logits[i], layer->chosen[i]);
        for (int s = 0; s < SLOTS; s++) {
            for (int b = 0; b < WIDTH; b++) {
                float sum = 0.0f;
                for (int a = 0; a < WIDTH; a++) {
                    sum += layer->input[i][a] * layer->expert[layer->chosen[i][s]][a][b];
                }
                layer->outputs[i][s][b] = sum;
            }
        }
    }
}

/* The objective's gradients, carried on to the parameters, and a step of plain gradient descent. */
static void step(struct layer *layer)
{
    for (int i = 0; i < TOKENS; i++) {
        for (int e = 0; e < EXPERTS; e++) {
            for (int a = 0; a < WIDTH; a++) {
                layer->router[e][a] -= RATE * layer->dlogits[i][e] * layer->input[i][a];
            }
        }
        for (int s = 0; s < SLOTS; s++) {
            for (int a = 0; a < WIDTH; a++) {
                for (int b = 0; b < WIDTH; b++) {
                    layer->expert[layer->chosen[i][s]][a][b] -=
                        RATE * layer->input[i][a] * layer->doutputs[i][s][b];
                }
            }
        }
    }
}

/*
 * mt_objective_evaluate looks at one batch and knows no other: with scale=once it would choose new weights
 * in every step. What the first batch gave is therefore written into the configuration.
 */
static void keep_weights(struct mt_objective_config *config, const struct mt_objective_results *results)
{
    config->scale = MT_SCALE_NONE;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (config->coefficient[term] != 0.0) config->coefficient[term] = results->weight[term];
    }
}

static enum mt_status train(struct mt_context *ctx, struct mt_device *device, struct layer *layer,
                            double totals[STEPS + 1])
{
    // A row of the methods table, with one thing changed. docs/objective.md says what there is.
    struct mt_objective_config config;
    enum mt_status status = mt_objective_config_method(ctx, "metier", &config);
    if (status == MT_OK) status = mt_objective_config_set(ctx, &config, "exclude_first", "false");
    if (status != MT_OK) return status;

    struct mt_router_config router;
    memset(&router, 0, sizeof router);
    router.kind = MT_ROUTER_SOFTMAX;
    router.slots = SLOTS;
    router.normalise = true;
    struct mt_objective_arrays arrays;
    memset(&arrays, 0, sizeof arrays);
    arrays.tokens = TOKENS;
    arrays.experts = EXPERTS;
    arrays.width = WIDTH;
    arrays.logits = &layer->logits[0][0];
    arrays.expert_outputs = &layer->outputs[0][0][0];
    arrays.mask = layer->mask;
    arrays.sequence = layer->sequence;
    struct mt_objective_results results;
    memset(&results, 0, sizeof results);
    results.dlogits = &layer->dlogits[0][0];
    results.dexpert_outputs = &layer->doutputs[0][0][0];
    size_t scratch_bytes = mt_objective_evaluate_bytes(&config, &router, &arrays);
    void *scratch = malloc(scratch_bytes);
    if (scratch == NULL) return mt_fail(ctx, MT_ERR_MEMORY, "out of memory for %zu bytes", scratch_bytes);

    printf("%4s %12s %10s %10s %10s %8s\n", "step", "objective", "L_aux", "L_o", "L_v", "MaxVio");
    for (int i = 0; i <= STEPS && status == MT_OK; i++) {
        forward(layer);
        status = mt_objective_evaluate(device, &config, &router, &arrays, &results, scratch, scratch_bytes);
        if (status != MT_OK) break;
        if (i == 0) {
            keep_weights(&config, &results);
            mt_context_forbid_allocation(ctx, "training"); // from here on it would be an error
        }
        if (i % 10 == 0) {
            printf("%4d %12.8f %10.5f %10.5f %10.5f %8.3f\n", i, results.total, results.loss[MT_TERM_AUX],
                   results.loss[MT_TERM_O], results.loss[MT_TERM_V], results.report.max_violation);
        }
        totals[i] = results.total;
        step(layer);
    }
    mt_context_forbid_allocation(ctx, NULL);
    free(scratch);
    return status;
}

int main(void)
{
    static struct layer layer; // too large for the stack of small systems
    double totals[STEPS + 1] = {0};
    struct mt_context ctx;
    struct mt_device *device = NULL;
    mt_context_init(&ctx, NULL);
    fill(&layer);
    enum mt_status status = mt_device_create(&ctx, "cpu", 1, &device);
    if (status == MT_OK) status = train(&ctx, device, &layer, totals);
    mt_device_destroy(device);
    if (status != MT_OK) {
        (void)fprintf(stderr, "objective: %s\n",
                      ctx.message[0] != '\0' ? ctx.message : mt_status_text(status));
        return 1;
    }
    if (totals[1] >= totals[0] || totals[STEPS] >= totals[1]) {
        (void)fprintf(stderr, "objective: the objective did not fall (%.8f, %.8f, ..., %.8f)\n", totals[0],
                      totals[1], totals[STEPS]);
        return 1;
    }
    return 0;
}
