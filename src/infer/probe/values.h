/*
 * The values a probe compares: log-probabilities of some tokens after some texts. First those of our own
 * likeliest tokens after every candidate, to choose texts; then those of the tokens that the server names.
 */
#ifndef MT_INFER_PROBE_VALUES_H
#define MT_INFER_PROBE_VALUES_H

#include "eval/text.h"
#include "infer/probe/asked.h"

struct mt_probe_values {
    const struct mt_probe_text *texts; // borrowed
    size_t text_count;
    size_t *text;   // [count], ascending: which text a value belongs to
    int32_t *id;    // [count]
    double *server; // [count] what the server says; unused where nobody was asked
    size_t count;
    size_t unknown; // tokens of the server's without a token of ours
};

/* The values of our own likeliest tokens. Arrays are the arena's. */
enum mt_status mt_probe_values_own(struct mt_arena *arena, struct mt_variants *variants,
                                   const struct mt_probe_text *texts, size_t count,
                                   struct mt_probe_values *values);

/* Those of the tokens the server names, which are looked for among our likeliest by their text. */
enum mt_status mt_probe_values_asked(struct mt_arena *arena, struct mt_variants *variants,
                                     const struct mt_probe_text *texts, size_t count,
                                     const struct mt_asked_place *places, struct mt_probe_values *values);

/* Ours with parts at their strengths: logs[values->count]. */
enum mt_status mt_probe_values_run(struct mt_variants *variants, const struct mt_probe_values *values,
                                   const float *strength, double *logs);

#endif
