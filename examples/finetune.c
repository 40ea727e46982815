/*
 * A whole fine-tuning: LoRA on all layers of an MoE model under the paper's objective, on sums made up here.
 * What comes out is an adapter for PEFT. Usage: finetune MODEL OUT
 *
 *     cc finetune.c $(pkg-config --cflags --libs metier) -o finetune
 */
#include <stdio.h>
#include <string.h>

#include "metier/adapter.h"
#include "metier/train.h"

#define STEPS  40
#define ROWS   16   // sums in a step
#define TOKENS 1024 // of them all, at the most

struct batch {
    int32_t ids[TOKENS], labels[TOKENS], offsets[ROWS + 1];
};

/* Sums as rows of training data: only the tokens of the answers are learnt. */
static enum mt_status draw(struct mt_lm *lm, unsigned *state, struct batch *batch)
{
    enum mt_status status = MT_OK;
    size_t used = 0;
    batch->offsets[0] = 0;
    for (int i = 0; i < ROWS && status == MT_OK; i++) {
        char row[128];
        size_t count = 0;
        *state = *state * 1664525u + 1013904223u;
        int a = (int)(*state >> 16) % 50, b = (int)(*state >> 24) % 50;
        int bytes =
            snprintf(row, sizeof row, "{\"prompt\": \"%d+%d=\", \"completion\": \"%d\"}", a, b, a + b);
        status = mt_lm_encode_row(lm, row, (size_t)bytes, batch->ids + used, batch->labels + used,
                                  TOKENS - used, &count);
        used += count;
        batch->offsets[i + 1] = (int32_t)used;
    }
    return status;
}

static enum mt_status train(struct mt_lm *lm, struct mt_adamw *adamw, double losses[STEPS])
{
    static struct batch rows;
    unsigned state = 1;
    enum mt_status status = MT_OK;
    for (int step = 0; step < STEPS && status == MT_OK; step++) {
        struct mt_lm_batch batch;
        struct mt_lm_loss loss;
        memset(&batch, 0, sizeof batch);
        status = draw(lm, &state, &rows);
        batch.tokens = rows.offsets[ROWS];
        batch.sequences = ROWS;
        batch.ids = rows.ids;
        batch.labels = rows.labels;
        batch.offsets = rows.offsets;
        if (status == MT_OK) status = mt_lm_forward(lm, &batch, &loss);
        if (status == MT_OK) status = mt_lm_backward(lm);
        if (status == MT_OK) status = mt_adamw_step(adamw, 1e-3 * (STEPS - step) / STEPS, NULL);
        if (status != MT_OK) break;
        losses[step] = loss.task;
        if (step % 10 == 0) printf("%4d  loss %.4f  terms %.6f\n", step, loss.task, loss.terms);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct mt_device *device = NULL;
    const char *name = "cpu"; // a GPU where there is one
    struct mt_lm *lm = NULL;
    struct mt_adamw *adamw = NULL;
    struct mt_objective_config method;
    struct mt_lm_options options;
    double losses[STEPS] = {0};
    if (argc != 3) return fprintf(stderr, "usage: finetune MODEL OUT\n"), 2;
    memset(&options, 0, sizeof options);
    options.tokens = TOKENS;
    options.training = MT_LM_LORA;
    options.rank = 8;
    options.objective = &method;
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_objective_config_method(&ctx, "paper", &method);
    if (status == MT_OK) status = mt_device_best(&ctx, MT_USE_FAST, &name);
    if (status == MT_OK) status = mt_device_create(&ctx, name, 0, &device);
    if (status == MT_OK) status = mt_lm_open(device, argv[1], &options, &lm);
    if (status == MT_OK) status = mt_adamw_create(lm, NULL, &adamw);
    if (status == MT_OK) status = train(lm, adamw, losses);
    if (status == MT_OK) status = mt_lm_save_adapter(lm, argv[2], NULL);
    if (status != MT_OK) fprintf(stderr, "finetune: %s\n", ctx.message);
    if (status == MT_OK)
        printf("%s: an adapter; the loss fell from %.4f to %.4f\n", argv[2], losses[0], losses[STEPS - 1]);
    mt_adamw_destroy(adamw);
    mt_lm_close(lm);
    mt_device_destroy(device);
    return status == MT_OK && losses[STEPS - 1] < losses[0] ? 0 : 1;
}
