/*
 * Concentration: a run whose tokens drift towards one expert pays for k and uses one. The figure is effective
 * experts, 1/Σ w² of a token's weights, Σ w² a mean over tokens and layers (docs/objective.md).
 *
 * A drift: it began at 1.2 or above, is below 1.5 now (nearer to one than to two), and has lost more than
 * half of what it had above 1. It is reported once, when two looks in a row, ten steps apart, see it, or the
 * one at the run's last step.
 *
 * So a model with k = 1, and one whose routers are concentrated from the start, is never reported.
 */
#ifndef MT_OBJECTIVE_CONCENTRATION_H
#define MT_OBJECTIVE_CONCENTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_CONCENTRATION_EVERY 10 // steps between looks, however rarely a run is logged

/* What a run remembers, saved with it. */
struct mt_concentration {
    double start; // effective experts at the first look, which comes before the weights move; NaN: none yet
    double last;  // at the last look; NaN: none yet
    uint64_t low; // looks in a row that saw a drift
    uint64_t reported; // at this step; 0: not yet
};

#define MT_CONCENTRATION_NONE ((struct mt_concentration){.start = (double)NAN, .last = (double)NAN})

/* Whether a step is one to look at: the first, and every tenth. */
bool mt_concentration_due(uint64_t step);

/* A look at a step that is due, or the last; what is not finite is not seen. True, once, when to be reported.
 */
bool mt_concentration_look(struct mt_concentration *memory, uint64_t step, bool last, double effective);

bool mt_concentration_is_drift(double start, double now);

/* What of a method drives scores together. */
struct mt_concentration_cause {
    double gamma;     // of L_v; 0: off
    bool target;      // its brake is target
    double lambda_cp; // of L_cp; 0: off
};

#define MT_CONCENTRATION_TEXT_BYTES 384

/* "1.21 effective experts a token, 2.60 at the start; ..." and the keys that would stop it. */
void mt_concentration_text(double start, double now, const struct mt_concentration_cause *cause,
                           char text[MT_CONCENTRATION_TEXT_BYTES]);

#endif
