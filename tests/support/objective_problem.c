/* Building and running small objectives in double. */
#include "support/objective_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { STREAM_LOGITS = 1, STREAM_OUTPUTS, STREAM_ROUTER, STREAM_BIAS };

/* What a broken set-up is worth: an end with a sentence, so that no assertion is needed here. */
static void require(const struct problem *problem, enum mt_status status, const char *what)
{
    if (status == MT_OK) return;
    (void)fprintf(stderr, "%s: %s (%s)\n", what, problem->ctx.message, mt_status_text(status));
    abort();
}

/* Logits of a token are a shuffled ladder with steps of 0.3 to 0.5: no selection is near a tie by itself. */
static void draw_logits(struct problem *p, uint64_t seed)
{
    for (int64_t i = 0; i < p->tokens; i++) {
        double *row = p->x.logits + i * p->experts;
        uint64_t place = (uint64_t)i * 64;
        for (int j = 0; j < p->experts; j++) {
            double noise = 0.1 * ((double)mt_rng_uniform(seed, STREAM_LOGITS, place + (uint64_t)j) - 0.5);
            row[j] = 0.4 * (j - p->experts / 2.0) + noise;
        }
        for (int j = p->experts - 1; j > 0; j--) {
            uint64_t other = mt_rng_below(seed, STREAM_LOGITS, 4096 + place + (uint64_t)j, (uint64_t)j + 1);
            double kept = row[j];
            row[j] = row[other];
            row[other] = kept;
        }
    }
}

/* True when some product of rows is so near its aim that SimBal's sign could turn within a small step. */
static bool has_kink(const struct problem *p)
{
    for (int e = 0; e < p->experts; e++) {
        for (int f = 0; f <= e; f++) {
            double product = e == f ? -1.0 : 0.0;
            for (int64_t i = 0; i < p->width; i++) {
                product += p->x.router_weight[e * p->width + i] * p->x.router_weight[f * p->width + i];
            }
            if (fabs(product) < 0.02) return true;
        }
    }
    return false;
}

static void draw_router_weight(struct problem *p, uint64_t seed)
{
    uint64_t place = 0;
    do {
        for (int64_t i = 0; i < p->experts * p->width; i++) {
            p->x.router_weight[i] = 0.6 * (double)mt_rng_normal(seed, STREAM_ROUTER, place++);
        }
    } while (has_kink(p));
}

void problem_open(struct problem *problem, uint64_t seed)
{
    mt_context_init(&problem->ctx, NULL);
    require(problem, mt_device_create(&problem->ctx, "ref", 1, &problem->device), "device");
    draw_logits(problem, seed);
    int64_t outputs = problem->tokens * problem->router.slots * problem->width;
    for (int64_t i = 0; i < outputs; i++) {
        problem->x.outputs[i] = (double)mt_rng_normal(seed, STREAM_OUTPUTS, (uint64_t)i);
    }
    draw_router_weight(problem, seed);
    for (int j = 0; j < problem->experts; j++) {
        problem->bias[j] = 0.05 * (double)mt_rng_normal(seed, STREAM_BIAS, (uint64_t)j);
    }
    problem->segments = problem->sequenced ? 3 : 1;
    for (int64_t i = 0; i < problem->tokens; i++) {
        problem->mask[i] = i % 4 != 2;
        problem->segment[i] = (int32_t)(3 * i / problem->tokens);
    }
}

void problem_close(struct problem *problem)
{
    mt_release(&problem->ctx, problem->memory, problem->memory_bytes);
    mt_device_destroy(problem->device);
    problem->memory = NULL;
    if (problem->ctx.live_bytes != 0) require(problem, MT_ERR_INTERNAL, "memory left");
}

void problem_configure(struct problem *problem, const char *method, const char *settings)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_objective_config_method(&ctx, method, &problem->config);
    char text[256];
    (void)snprintf(text, sizeof text, "%s", settings);
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word != NULL && status == MT_OK;
         word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = '\0';
        status = mt_objective_config_set(&ctx, &problem->config, word, value + 1);
    }
    problem->ctx = ctx; // problem_open prepares it afresh; until then it carries the message
    require(problem, status, settings);
}

struct mt_evaluation_inputs problem_inputs(struct problem *problem)
{
    int64_t rows = problem->tokens * problem->router.slots;
    struct mt_evaluation_inputs inputs = {
        .logits = mt_tensor_2d(problem->x.logits, MT_F64, problem->tokens, problem->experts),
        .expert_outputs = mt_tensor_2d(problem->x.outputs, MT_F64, rows, problem->width),
        .segments = problem->segments,
        .router_weight = mt_tensor_2d(problem->x.router_weight, MT_F64, problem->experts, problem->width),
    };
    if (problem->masked) inputs.mask = mt_tensor_1d(problem->mask, MT_I32, problem->tokens);
    if (problem->sequenced) inputs.segment = mt_tensor_1d(problem->segment, MT_I32, problem->tokens);
    if (problem->biased) inputs.bias = mt_tensor_1d(problem->bias, MT_F64, problem->experts);
    return inputs;
}

void problem_begin(struct problem *problem)
{
    struct mt_evaluation_sizes sizes = {
        .tokens = problem->tokens,
        .experts = problem->experts,
        .width = problem->width,
        .segments = problem->segments,
        .dtype = MT_F64,
    };
    mt_release(&problem->ctx, problem->memory, problem->memory_bytes);
    problem->memory = NULL;
    problem->memory_bytes = mt_evaluation_bytes(&problem->config, &problem->router, &sizes);
    require(problem, mt_allocate(&problem->ctx, problem->memory_bytes, &problem->memory), "memory");
    require(problem,
            mt_evaluation_place(problem->device, &problem->config, &problem->router, &sizes, problem->memory,
                                &problem->evaluation),
            "place");
}

double problem_forward(struct problem *problem)
{
    struct mt_evaluation_inputs inputs = problem_inputs(problem);
    double total = NAN;
    require(problem, mt_evaluation_forward(&problem->evaluation, &inputs, &total), "forward");
    return total;
}

void problem_backward(struct problem *problem)
{
    struct mt_evaluation_inputs inputs = problem_inputs(problem);
    struct mt_evaluation_gradients gradients = {
        .dlogits = mt_tensor_2d(problem->dx.logits, MT_F64, problem->tokens, problem->experts),
        .dexpert_outputs = inputs.expert_outputs,
        .drouter_weight = inputs.router_weight,
    };
    gradients.dexpert_outputs.data = problem->dx.outputs;
    gradients.drouter_weight.data = problem->dx.router_weight;
    require(problem, mt_evaluation_backward(&problem->evaluation, &inputs, &gradients), "backward");
}
