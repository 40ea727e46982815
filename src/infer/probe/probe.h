/*
 * Does a server apply an adapter? Its log-probabilities of next tokens after a few texts are compared with
 * ours: with the adapter, without it, and with single parts of it left out.
 *
 *     presence of a part   how much of what the part changes is in the server's values, by a robust fit of
 *                          all parts (fit.h): 1 all of it, 0 nothing
 *     applied, dead        presence is above, or below, a half by four standard errors, and most texts agree
 *                          when ours with and without the part are compared as they are; else it is unclear
 *
 * Parts that are dead are then left out of ours, and all is measured again until nothing moves; a kind that
 * is partly there is cut by layers. What ours cannot explain in the end is the noise: it makes the errors,
 * and a presence that stays far from both 0 and 1 makes the verdict "cannot say". As long as the verdict is
 * not sure the server is asked about twice as many texts: beginnings of the candidates, those that show the
 * parts best first.
 */
#ifndef MT_INFER_PROBE_H
#define MT_INFER_PROBE_H

#include "eval/text.h"
#include "infer/probe/asked.h"
#include "infer/probe/fit.h"

#define MT_PROBE_CANDIDATES 256 // texts to choose from, at the most
#define MT_PROBE_GROWTH     16  // times as many are asked about, at the most

enum mt_probe_state {
    MT_PROBE_APPLIED,
    MT_PROBE_DEAD,
    MT_PROBE_UNCLEAR,
};

enum mt_probe_verdict {
    MT_PROBE_IS_APPLIED,
    MT_PROBE_NOT_APPLIED,
    MT_PROBE_PARTLY,    // some parts are dead
    MT_PROBE_EXCHANGED, // experts have each other's pairs; other parts may be dead
    MT_PROBE_STRENGTH,  // all of it, but weaker or stronger than it should be
    MT_PROBE_CANNOT_SAY,
};

struct mt_probe_options {
    struct mt_variants_options model;
    struct mt_asking server;
    const struct mt_text *candidates; // [candidate_count]; borrowed
    size_t candidate_count;
    size_t texts; // that the server is asked about at first
};

struct mt_probe_result {
    enum mt_probe_verdict verdict;
    const char *why; // it cannot say; NULL otherwise
    struct mt_variant_part part[MT_VARIANTS_PARTS];
    struct mt_fitted fitted[MT_VARIANTS_PARTS];
    double effect[MT_VARIANTS_PARTS]; // root mean square of what the part changes, in nats
    enum mt_probe_state state[MT_VARIANTS_PARTS];
    bool
        or_wrong; // the noise is as large as what the dead parts change: something else may be in their place
    int parts;
    struct mt_fitted whole; // of the adapter as one part
    double change;          // root mean square of what the adapter changes
    double noise;           // of what is left unexplained: root mean square of the median text
    double rounded;         // the same if the base's weights were rounded to fp8; 0: not looked for
    double strength;        // of MT_PROBE_STRENGTH: so many times its own
    int32_t *source;        // [experts] of MT_PROBE_EXCHANGED: whose pairs each expert has; owned
    int64_t experts;
    size_t texts, values; // compared
    size_t unknown;       // tokens the server named that are not among our likeliest
    bool biases;          // the adapter also moves router biases, which were not looked for
};

/* The caller releases the result, also after a failure. */
enum mt_status mt_probe(struct mt_context *ctx, const struct mt_probe_options *options,
                        struct mt_probe_result *result);

void mt_probe_result_release(struct mt_context *ctx, struct mt_probe_result *result);

#endif
