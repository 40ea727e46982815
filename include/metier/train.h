/*
 * Training: the optimizer for a loop of one's own, or a whole run as `metier train` makes it.
 *
 * Threads: as in metier/model.h.
 */
#ifndef METIER_TRAIN_H
#define METIER_TRAIN_H

#include <stdio.h>

#include "metier/export.h"
#include "metier/model.h"

MT_PUBLIC_BEGIN

// ------------------------------------------------------------------ a loop of one's own

struct mt_adamw; // opaque

struct mt_adamw_options {
    double beta1;        // 0: 0.9
    double beta2;        // 0: 0.999
    double epsilon;      // 0: 1e-8
    double weight_decay; // of everything trainable
    double clip;         // the norm of all gradients at most; 0: any
};

/* Takes memory for the moments. NULL options: all as said there. The caller destroys, before the model. */
enum mt_status mt_adamw_create(struct mt_lm *lm, const struct mt_adamw_options *options,
                               struct mt_adamw **adamw);
void mt_adamw_destroy(struct mt_adamw *adamw); // NULL is allowed

/*
 * One step: everything trainable moves by the gradients, which are 0 afterwards; routers' biases move where
 * the method has such. *norm, unless NULL, is that of the gradients before they were clipped. A gradient that
 * is not finite is MT_ERR_NUMERIC with the parameter's name, and nothing moves.
 */
enum mt_status mt_adamw_step(struct mt_adamw *adamw, double learning_rate, double *norm);

// ------------------------------------------------------------------ a whole run

struct mt_train_options {
    FILE *terminal; // progress and warnings; borrowed; NULL: silence
    void (*stepped)(void *self, uint64_t step, uint64_t steps); // after every step; NULL: nobody counts
    void *self;                                                 // handed to it
};

struct mt_train_result {
    uint64_t steps;    // done, in earlier calls too
    bool before;       // the run had finished already
    double best_loss;  // of the held-out data; NaN without
    char folder[4096]; // of the adapter or model
};

/*
 * Runs a configuration to its end, as `metier train CONFIG WORDS...` does (docs/training.md): data,
 * schedule, evaluations, checkpoints; a run that was ended by whatever means goes on. words[count] are
 * "key=value"; options may be NULL. Signals are the caller's own.
 */
enum mt_status mt_train_run(struct mt_context *ctx, const char *config, const char *const *words,
                            size_t count, const struct mt_train_options *options,
                            struct mt_train_result *result);

MT_PUBLIC_END

#endif
