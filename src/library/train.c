/* metier/train.h: the optimizer, and whole runs. */
#include "metier/train.h"

#include <math.h>

#include "library/lm.h"
#include "train/optimizer.h"
#include "train/trainer.h"

#define ARENA_BLOCK_BYTES 16384

// ------------------------------------------------------------------ the optimizer

struct mt_adamw {
    struct mt_lm *lm; // borrowed
    struct mt_optimizer optimizer;
    uint64_t steps;
};

static double given(double value, double usual)
{
    return value != 0.0 ? value : usual;
}

static enum mt_status check(struct mt_context *ctx, const struct mt_optimizer_options *options)
{
    if (options->beta1 >= 0.0 && options->beta1 < 1.0 && options->beta2 >= 0.0 && options->beta2 < 1.0 &&
        options->epsilon > 0.0 && isfinite(options->epsilon) && options->weight_decay >= 0.0 &&
        isfinite(options->weight_decay) && options->clip >= 0.0)
        return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "AdamW: beta1 %g, beta2 %g (0 to 1), epsilon %g, weight_decay %g, clip %g (not negative)",
                   options->beta1, options->beta2, options->epsilon, options->weight_decay, options->clip);
}

enum mt_status mt_adamw_create(struct mt_lm *lm, const struct mt_adamw_options *options,
                               struct mt_adamw **adamw)
{
    const struct mt_adamw_options none = {0};
    const struct mt_gradient_groups alone = {0};
    const struct mt_adamw_options *asked = options != NULL ? options : &none;
    const struct mt_optimizer_options numbers = {.beta1 = given(asked->beta1, 0.9),
                                                 .beta2 = given(asked->beta2, 0.999),
                                                 .epsilon = given(asked->epsilon, 1e-8),
                                                 .weight_decay = asked->weight_decay,
                                                 .clip = asked->clip};
    void *memory = NULL;
    enum mt_status status = mt_given(mt_lm_context(lm), "mt_adamw_create", "adamw", adamw);
    if (status != MT_OK) return status;
    *adamw = NULL;
    status = mt_given(NULL, "mt_adamw_create", "lm", lm);
    if (status != MT_OK) return status;
    if (lm->training == MT_LM_FROZEN)
        return mt_fail(lm->ctx, MT_ERR_USAGE, "the model was not opened for training");
    status = check(lm->ctx, &numbers);
    if (status == MT_OK) status = mt_allocate_array(lm->ctx, 1, sizeof **adamw, &memory);
    if (status != MT_OK) return status;
    struct mt_adamw *made = memory;
    made->lm = lm;
    status = mt_optimizer_create(mt_model_params(lm->model), &alone, &numbers, &made->optimizer);
    if (status == MT_OK)
        *adamw = made;
    else
        mt_adamw_destroy(made);
    return status;
}

void mt_adamw_destroy(struct mt_adamw *adamw)
{
    if (adamw == NULL) return;
    mt_optimizer_free(&adamw->optimizer);
    mt_release(adamw->lm->ctx, adamw, sizeof *adamw);
}

static enum mt_status fail_gradient(struct mt_adamw *adamw, double norm)
{
    const struct mt_param *bad = NULL;
    enum mt_status status = mt_optimizer_find_bad_gradient(&adamw->optimizer, &bad);
    if (status != MT_OK) return status;
    return mt_fail(adamw->lm->ctx, MT_ERR_NUMERIC,
                   "the norm of the gradients is %g: that of %s is not finite", norm,
                   bad != NULL ? bad->name : "no single one");
}

enum mt_status mt_adamw_step(struct mt_adamw *adamw, double learning_rate, double *norm)
{
    double found = 0.0;
    bool clipped = false;
    enum mt_status status = mt_given(NULL, "mt_adamw_step", "adamw", adamw);
    if (status != MT_OK) return status;
    if (!(learning_rate >= 0.0) || !isfinite(learning_rate))
        return mt_fail(adamw->lm->ctx, MT_ERR_USAGE, "the learning rate is %g", learning_rate);
    status = mt_optimizer_norm(&adamw->optimizer, &found);
    if (norm != NULL) *norm = found;
    if (status == MT_OK && !isfinite(found)) status = fail_gradient(adamw, found);
    if (status == MT_OK)
        status = mt_optimizer_step(&adamw->optimizer, adamw->steps + 1, learning_rate, found, &clipped);
    if (status != MT_OK) return status;
    adamw->steps++;
    status = mt_lm_move_biases(adamw->lm);
    return status == MT_OK ? mt_lm_clear_gradients(adamw->lm) : status;
}

// ------------------------------------------------------------------ a whole run

static enum mt_status run(struct mt_arena *arena, const struct mt_train_settings *settings,
                          const struct mt_train_options *options, struct mt_train_result *result)
{
    struct mt_context *ctx = arena->ctx;
    struct mt_log log;
    struct mt_trainer *trainer = NULL;
    struct mt_run_outcome outcome;
    mt_log_init(&log, options->terminal, MT_LOG_WARNING);
    struct mt_trainer_options trainer_options = {.settings = settings,
                                                 .log = &log,
                                                 .terminal = options->terminal,
                                                 .stepped = options->stepped,
                                                 .self = options->self};
    enum mt_status status = mt_library_templates(arena, &trainer_options.templates);
    if (status == MT_OK) status = mt_trainer_open(ctx, &trainer_options, &trainer);
    if (status == MT_OK) status = mt_trainer_run(trainer, &outcome);
    if (status == MT_OK) {
        *result = (struct mt_train_result){.steps = outcome.step,
                                           .before = outcome.end == MT_RUN_FINISHED_BEFORE,
                                           .best_loss = outcome.best_step > 0 ? outcome.best_loss : NAN};
        int written = snprintf(result->folder, sizeof result->folder, "%s", outcome.result);
        if (written < 0 || (size_t)written >= sizeof result->folder)
            status = mt_fail(ctx, MT_ERR_LIMIT, "%.500s...: the path is too long", outcome.result);
    }
    mt_trainer_close(trainer);
    return status;
}

enum mt_status mt_train_run(struct mt_context *ctx, const char *config, const char *const *words,
                            size_t count, const struct mt_train_options *options,
                            struct mt_train_result *result)
{
    const struct mt_train_options none = {0};
    struct mt_train_settings settings;
    struct mt_arena arena;
    enum mt_status status = mt_given(NULL, "mt_train_run", "ctx", ctx);
    if (status == MT_OK) status = mt_given(ctx, "mt_train_run", "config", config);
    if (status == MT_OK) status = mt_given(ctx, "mt_train_run", "result", result);
    if (status == MT_OK && count > 0) status = mt_given(ctx, "mt_train_run", "words", words);
    for (size_t i = 0; status == MT_OK && i < count; i++)
        status = mt_given(ctx, "mt_train_run", "one of words", words[i]);
    if (status != MT_OK) return status;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    status = mt_train_settings_read(ctx, config, NULL, 0, words, count, &arena, &settings);
    if (status == MT_OK) status = run(&arena, &settings, options != NULL ? options : &none, result);
    mt_arena_free(&arena);
    return status;
}
