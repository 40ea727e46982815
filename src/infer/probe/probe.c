/* Texts that show the parts, the server's values, and which parts explain them. */
#include "infer/probe/probe.h"

#include <math.h>

#include "infer/probe/experts.h"
#include "infer/probe/values.h"

#define ARENA_BYTES  65536
#define BEGINNINGS   8    // of a candidate that are texts, too
#define LEAST_TOKENS 3    // of them
#define ROUNDS       4    // of toggling parts, until nothing moves
#define CUTS         7    // of kinds into halves
#define SURE         4.0  // standard errors
#define LIKELY       2.0  // of them, to look further
#define PREFERRED    2.0  // of them, texts have to prefer a part's state to the other
#define FAR          0.25 // from 0 and from 1: neither there nor not
#define LOUD         2.0  // noise against what the adapter changes
#define LEAST_CHANGE 1e-4 // nats that an adapter must change to be seen at all
#define LEAST_VALUES 3    // of a text, in the mean
#define GOOD         0.3  // of the noise before: an explanation that is better by far
#define BETTER       0.7 // of the noise before: dead layers explain half of its square, which chance does not
#define EXPLAINED    0.4 // of the noise before: an order of experts that chance does not find
#define SHARE        0.02 // of what changes: with more noise, orders of experts and rounding are looked for
#define HIDDEN       0.4 // of what the adapter changes: with a part of that size unclear, it is not "applied"
#define STEP         0.05 // of an adapter's strength, for its derivative

struct probe {
    struct mt_context *ctx;
    const struct mt_probe_options *options;
    struct mt_probe_result *result;
    struct mt_variants variants;
    struct mt_arena arena;
    struct mt_probe_text *candidate; // [candidates]: beginnings of texts, those of one text in a row
    size_t *rank;                    // [candidates]: 0 shows the parts best
    struct mt_asked_place *reply;    // [candidates]
    size_t candidates, asked;        // of them those of the lowest ranks
    struct mt_probe_text *texts;     // [text_count]: what is compared, in the candidates' order
    struct mt_asked_place *places;   // [text_count]
    size_t text_count;
    struct mt_probe_values values;
    bool dead[MT_VARIANTS_PARTS];
    double *ours;    // [values] with dead parts left out
    double *rest;    // [values] the server's above ours
    double *scratch; // [values]
    double *effect;  // [MT_VARIANTS_PARTS,values] what a part adds
};

// ------------------------------------------------------------------ texts

/* The last few beginnings of a text, all of it among them. */
static void add_beginnings(struct probe *probe, const int32_t *ids, size_t count)
{
    size_t first = count > BEGINNINGS ? count - BEGINNINGS + 1 : 1;
    if (first < LEAST_TOKENS) first = count < LEAST_TOKENS ? count : LEAST_TOKENS;
    for (size_t n = first; n <= count; n++)
        probe->candidate[probe->candidates++] = (struct mt_probe_text){.ids = ids, .count = n};
}

static enum mt_status encode_candidates(struct probe *probe)
{
    const struct mt_probe_options *options = probe->options;
    struct mt_arena *arena = &probe->arena;
    enum mt_status status = MT_OK;
    struct mt_id_list ids = {.ctx = probe->ctx};
    size_t most = options->candidate_count * BEGINNINGS;
    probe->candidate = mt_arena_array(arena, most, sizeof *probe->candidate, &status);
    probe->rank = mt_arena_array(arena, most, sizeof *probe->rank, &status);
    probe->reply = mt_arena_array(arena, most, sizeof *probe->reply, &status);
    probe->texts = mt_arena_array(arena, most, sizeof *probe->texts, &status);
    probe->places = mt_arena_array(arena, most, sizeof *probe->places, &status);
    for (size_t i = 0; i < options->candidate_count && status == MT_OK; i++) {
        const struct mt_text *text = &options->candidates[i];
        ids.count = 0;
        status = mt_variants_encode(&probe->variants, text->text, text->bytes, &ids);
        if (status != MT_OK || ids.count == 0) continue;
        int32_t *copy = mt_arena_array(arena, ids.count, sizeof *copy, &status);
        if (status != MT_OK) break;
        memcpy(copy, ids.data, ids.count * sizeof *copy);
        add_beginnings(probe, copy, ids.count);
    }
    mt_id_list_free(&ids);
    if (status == MT_OK && probe->candidates < 2)
        status = mt_fail(probe->ctx, MT_ERR_USAGE, "there are fewer than two texts to ask about");
    return status;
}

/* Adds to each text's score how much of a part's effect it shows, against the text that shows most. */
static void add_scores(const struct mt_probe_values *values, const double *full, const double *without,
                       double *shown, double *score)
{
    double most = 0.0;
    for (size_t t = 0; t < values->text_count; t++) shown[t] = 0.0;
    for (size_t i = 0; i < values->count; i++) {
        double difference = full[i] - without[i];
        shown[values->text[i]] += difference * difference;
    }
    for (size_t t = 0; t < values->text_count; t++) most = shown[t] > most ? shown[t] : most;
    for (size_t t = 0; t < values->text_count && most > 0.0; t++) score[t] += sqrt(shown[t] / most);
}

/* Of the same score the first comes first. */
static void rank_texts(struct probe *probe, const double *score)
{
    for (size_t i = 0; i < probe->candidates; i++) {
        probe->rank[i] = 0;
        for (size_t t = 0; t < probe->candidates; t++) {
            bool earlier = t < i;
            probe->rank[i] += score[t] > score[i] || (earlier && score[t] == score[i]) ? 1 : 0;
        }
    }
}

static enum mt_status choose_texts(struct probe *probe)
{
    float strength[MT_VARIANTS_PARTS];
    struct mt_probe_values values;
    enum mt_status status = encode_candidates(probe);
    if (status == MT_OK)
        status = mt_probe_values_own(&probe->arena, &probe->variants, probe->candidate, probe->candidates,
                                     &values);
    if (status != MT_OK) return status;
    double *full = mt_arena_array(&probe->arena, values.count, sizeof *full, &status);
    double *without = mt_arena_array(&probe->arena, values.count, sizeof *without, &status);
    double *shown = mt_arena_array(&probe->arena, values.text_count, sizeof *shown, &status);
    double *score = mt_arena_array(&probe->arena, values.text_count, sizeof *score, &status);
    if (status != MT_OK) return status;
    for (int p = 0; p < MT_VARIANTS_PARTS; p++) strength[p] = 1.0F;
    status = mt_probe_values_run(&probe->variants, &values, strength, full);
    for (int p = 0; p < probe->variants.parts && status == MT_OK; p++) {
        strength[p] = 0.0F;
        status = mt_probe_values_run(&probe->variants, &values, strength, without);
        strength[p] = 1.0F;
        if (status == MT_OK) add_scores(&values, full, without, shown, score);
    }
    if (status == MT_OK) rank_texts(probe, score);
    return status;
}

// ------------------------------------------------------------------ the server

/* Takes the texts of the ranks from `first` on, below `end`. */
static void take_texts(struct probe *probe, size_t first, size_t end)
{
    probe->text_count = 0;
    for (size_t i = 0; i < probe->candidates; i++) {
        if (probe->rank[i] < first || probe->rank[i] >= end) continue;
        probe->places[probe->text_count] = probe->reply[i];
        probe->texts[probe->text_count++] = probe->candidate[i];
    }
}

static enum mt_status ask_about_more(struct probe *probe, size_t wanted)
{
    take_texts(probe, probe->asked, wanted);
    enum mt_status status =
        mt_ask_places(&probe->arena, &probe->options->server, probe->texts, probe->text_count, probe->places);
    for (size_t i = 0, next = 0; i < probe->candidates && status == MT_OK; i++) {
        if (probe->rank[i] < probe->asked || probe->rank[i] >= wanted) continue;
        probe->reply[i] = probe->places[next++];
    }
    probe->asked = wanted;
    take_texts(probe, 0, wanted);
    return status;
}

static enum mt_status ask_server(struct probe *probe, size_t wanted)
{
    enum mt_status status = ask_about_more(probe, wanted);
    if (status == MT_OK)
        status = mt_probe_values_asked(&probe->arena, &probe->variants, probe->texts, probe->text_count,
                                       probe->places, &probe->values);
    if (status != MT_OK) return status;
    size_t count = probe->values.count;
    if (count < LEAST_VALUES * probe->text_count || count < probe->values.unknown)
        return mt_fail(probe->ctx, MT_ERR_UNSUPPORTED,
                       "only %zu of %zu tokens that the server names are likely for this model: it serves "
                       "another model, or does not name tokens by their text",
                       count, count + probe->values.unknown);
    probe->ours = mt_arena_array(&probe->arena, count, sizeof *probe->ours, &status);
    probe->rest = mt_arena_array(&probe->arena, count, sizeof *probe->rest, &status);
    probe->scratch = mt_arena_array(&probe->arena, count, sizeof *probe->scratch, &status);
    probe->effect = mt_arena_array(&probe->arena, MT_VARIANTS_PARTS * count, sizeof *probe->effect, &status);
    return status;
}

// ------------------------------------------------------------------ parts

/* Ours with dead parts left out, but for one that is turned round (-1: none). */
static enum mt_status run_state(struct probe *probe, int turned, double *logs)
{
    float strength[MT_VARIANTS_PARTS];
    for (int p = 0; p < MT_VARIANTS_PARTS; p++) strength[p] = probe->dead[p] == (p == turned) ? 1.0F : 0.0F;
    return mt_probe_values_run(&probe->variants, &probe->values, strength, logs);
}

static double find_rest(struct probe *probe)
{
    for (size_t i = 0; i < probe->values.count; i++)
        probe->rest[i] = probe->values.server[i] - probe->ours[i];
    return mt_fit_typical(probe->rest, probe->values.text, probe->values.count, probe->scratch);
}

/* Presence of every part, seen from the state that is taken for the server's. */
static enum mt_status fit_parts(struct probe *probe)
{
    struct mt_probe_result *result = probe->result;
    size_t count = probe->values.count;
    enum mt_status status = run_state(probe, -1, probe->ours);
    result->parts = probe->variants.parts;
    if (status == MT_OK) result->noise = find_rest(probe);
    for (int p = 0; p < result->parts && status == MT_OK; p++) {
        double *effect = probe->effect + (size_t)p * count;
        status = run_state(probe, p, effect);
        for (size_t i = 0; i < count && status == MT_OK; i++)
            effect[i] = probe->dead[p] ? effect[i] - probe->ours[i] : probe->ours[i] - effect[i];
        if (status == MT_OK) result->effect[p] = mt_fit_rms(effect, count);
    }
    const struct mt_fit_values values = {.count = count,
                                         .text = probe->values.text,
                                         .rest = probe->rest,
                                         .parts = result->parts,
                                         .effect = probe->effect};
    if (status == MT_OK) status = mt_fit(probe->ctx, &values, result->fitted);
    for (int p = 0; p < result->parts && status == MT_OK; p++) {
        struct mt_fitted *fitted = &result->fitted[p];
        double *effect = probe->effect + (size_t)p * count;
        double other = probe->dead[p] ? -1.0 : 1.0; // the rest's change if it were the other way
        fitted->presence += probe->dead[p] ? 0.0 : 1.0;
        for (size_t i = 0; i < count; i++) effect[i] *= other;
        fitted->preference = other * mt_fit_preference(&values, effect, probe->scratch);
    }
    return status;
}

/* Toggles parts until the fit agrees with what is taken for dead. */
static enum mt_status settle(struct probe *probe)
{
    struct mt_probe_result *result = probe->result;
    enum mt_status status = MT_OK;
    bool moved = true;
    for (int round = 0; round < ROUNDS && moved && status == MT_OK; round++) {
        status = fit_parts(probe);
        moved = false;
        for (int p = 0; p < result->parts && status == MT_OK && round + 1 < ROUNDS; p++) {
            const struct mt_fitted *fitted = &result->fitted[p];
            bool dead = fitted->presence < 0.5;
            if (dead == probe->dead[p] || !isfinite(fitted->error)) continue;
            probe->dead[p] = dead;
            moved = true;
        }
    }
    return status;
}

static bool is_between(const struct mt_fitted *fitted, double margin, double sure)
{
    double error = sure * fitted->error;
    return isfinite(error) && fabs(fitted->presence) > margin + error &&
           fabs(fitted->presence - 1.0) > margin + error;
}

/* Cuts kinds that are partly there by their layers. */
static bool cut(struct probe *probe)
{
    bool any = false;
    int parts = probe->variants.parts;
    for (int p = 0; p < parts; p++) {
        if (!is_between(&probe->result->fitted[p], 0.0, LIKELY)) continue;
        if (fabs(probe->result->fitted[p].presence - (probe->dead[p] ? 0.0 : 1.0)) < FAR / 5.0) continue;
        const struct mt_variant_part *part = &probe->variants.part[p];
        if (!mt_variants_split(&probe->variants, p, part->first + (part->last - part->first) / 2)) continue;
        probe->dead[probe->variants.parts - 1] = probe->dead[p];
        any = true;
    }
    return any;
}

// ------------------------------------------------------------------ the adapter as a whole

static enum mt_status run_strength(struct probe *probe, double strength, double *logs)
{
    float all[MT_VARIANTS_PARTS];
    for (int p = 0; p < MT_VARIANTS_PARTS; p++) all[p] = (float)strength;
    return mt_probe_values_run(&probe->variants, &probe->values, all, logs);
}

static enum mt_status fit_one(struct probe *probe, struct mt_fitted *fitted)
{
    const struct mt_fit_values values = {.count = probe->values.count,
                                         .text = probe->values.text,
                                         .rest = probe->rest,
                                         .parts = 1,
                                         .effect = probe->effect};
    return mt_fit(probe->ctx, &values, fitted);
}

/* Presence of all of it, and what is nearer to begin with: all parts applied, or all dead. */
static enum mt_status fit_whole(struct probe *probe)
{
    struct mt_probe_result *result = probe->result;
    size_t count = probe->values.count;
    enum mt_status status = run_strength(probe, 1.0, probe->effect);
    if (status == MT_OK) status = run_strength(probe, 0.0, probe->ours);
    if (status != MT_OK) return status;
    (void)find_rest(probe);
    for (size_t i = 0; i < count; i++) probe->effect[i] -= probe->ours[i];
    result->change = mt_fit_rms(probe->effect, count);
    status = fit_one(probe, &result->whole);
    for (int p = 0; p < MT_VARIANTS_PARTS; p++) probe->dead[p] = result->whole.presence < 0.5;
    return status;
}

/* Whether the adapter at another strength explains the server better by far; then the strength is told. */
static enum mt_status try_strength(struct probe *probe, bool *found)
{
    struct mt_probe_result *result = probe->result;
    double strength = result->whole.presence;
    enum mt_status status = MT_OK;
    *found = false;
    for (int i = 0; i < 4 && status == MT_OK && fabs(strength) < 64.0; i++) {
        struct mt_fitted step;
        status = run_strength(probe, strength + STEP, probe->effect);
        if (status == MT_OK) status = run_strength(probe, strength, probe->ours);
        if (status != MT_OK) return status;
        double noise = find_rest(probe);
        if (noise < GOOD * result->noise && noise < GOOD * result->change) {
            *found = true;
            result->strength = strength;
            result->noise = noise;
        }
        for (size_t j = 0; j < probe->values.count; j++)
            probe->effect[j] = (probe->effect[j] - probe->ours[j]) / STEP;
        status = fit_one(probe, &step);
        strength += step.presence;
    }
    return status;
}

// ------------------------------------------------------------------ whole layers

/* The noise if everything of some layers is left out, and nothing else. */
static enum mt_status run_layers(struct probe *probe, int64_t first, int64_t last, double *noise)
{
    probe->variants.silent_first = first;
    probe->variants.silent_last = last;
    enum mt_status status = run_strength(probe, 1.0, probe->ours);
    probe->variants.silent_first = 0;
    probe->variants.silent_last = -1;
    *noise = find_rest(probe);
    return status;
}

/*
 * Kinds hide each other where all of them are dead in the same layers. So the first layers, and the last
 * ones, are also left out as a whole; if that explains the server better by far, every kind is cut there.
 */
static enum mt_status try_layers(struct probe *probe, bool *found)
{
    struct mt_variants *variants = &probe->variants;
    int64_t layers = mt_model_description(variants->model)->layers;
    double best = GOOD * probe->result->noise;
    int64_t border = -1;
    bool first_dead = false;
    enum mt_status status = MT_OK;
    for (int64_t l = 0; l + 1 < layers && status == MT_OK; l++) {
        double without_first = 0.0;
        double without_last = 0.0;
        status = run_layers(probe, 0, l, &without_first);
        if (status == MT_OK) status = run_layers(probe, l + 1, layers - 1, &without_last);
        if (fmin(without_first, without_last) >= best) continue;
        best = fmin(without_first, without_last);
        border = l;
        first_dead = without_first < without_last;
    }
    *found = status == MT_OK && border >= 0;
    for (int p = 0, parts = variants->parts; p < parts && *found; p++)
        (void)mt_variants_split(variants, p, border);
    for (int p = 0; p < variants->parts && *found; p++) {
        bool first = variants->part[p].last <= border;
        probe->dead[p] = variants->part[p].last >= 0 && first == first_dead;
    }
    return status;
}

// ------------------------------------------------------------------ experts

/*
 * Whether the server's experts have each other's pairs, if that may be what is not explained. Then the model
 * has them so from here on.
 */
static enum mt_status try_experts(struct probe *probe, bool *found)
{
    struct mt_probe_result *result = probe->result;
    struct mt_variants *variants = &probe->variants;
    float strength[MT_VARIANTS_PARTS];
    int routed = 0;
    *found = false;
    while (routed < variants->parts && !mt_variants_is_routed(&variants->part[routed])) routed++;
    if (routed == variants->parts || result->noise < SHARE * result->effect[routed]) return MT_OK;
    void *memory = NULL;
    enum mt_status status =
        mt_allocate_array(probe->ctx, (size_t)variants->experts, sizeof *result->source, &memory);
    if (status != MT_OK) return status;
    result->source = memory;
    result->experts = variants->experts;
    struct mt_experts_search search = {.variants = variants,
                                       .values = &probe->values,
                                       .strength = strength,
                                       .logs = probe->ours,
                                       .scratch = probe->scratch,
                                       .enough = EXPLAINED * result->noise,
                                       .source = result->source,
                                       .noise = result->noise};
    // Parts may look dead for what experts do: with all of them first, then without.
    for (int all = 1; all >= 0 && status == MT_OK && search.noise > search.enough; all--) {
        for (int p = 0; p < MT_VARIANTS_PARTS; p++)
            strength[p] = all == 0 && probe->dead[p] && p != routed ? 0.0F : 1.0F;
        status = mt_experts_search(&search);
    }
    if (status != MT_OK || search.noise > search.enough) {
        mt_probe_result_release(probe->ctx, result);
        return status;
    }
    *found = true;
    variants->source = result->source;
    for (int p = 0; p < variants->parts; p++) probe->dead[p] = strength[p] == 0.0F;
    return settle(probe);
}

// ------------------------------------------------------------------ verdict

static enum mt_probe_state state_of(const struct mt_fitted *fitted)
{
    double error = SURE * fitted->error;
    if (fitted->presence - error > 0.5) return MT_PROBE_APPLIED;
    if (fitted->presence + error < 0.5) return MT_PROBE_DEAD;
    return MT_PROBE_UNCLEAR;
}

/* States of all parts; counts[state] have each. */
static void find_states(struct mt_probe_result *result, int counts[3])
{
    counts[MT_PROBE_APPLIED] = counts[MT_PROBE_DEAD] = counts[MT_PROBE_UNCLEAR] = 0;
    for (int p = 0; p < result->parts; p++) {
        result->state[p] = state_of(&result->fitted[p]);
        double preference = result->fitted[p].preference;
        bool agree = result->state[p] == MT_PROBE_DEAD ? preference < -PREFERRED : preference > PREFERRED;
        if (!agree) result->state[p] = MT_PROBE_UNCLEAR;
        counts[result->state[p]]++;
    }
}

/* Whether what ours cannot explain is as large as what the dead parts change. */
static bool is_loud(const struct mt_probe_result *result)
{
    double effect = 0.0;
    for (int p = 0; p < result->parts; p++)
        effect = result->state[p] == MT_PROBE_DEAD ? fmax(effect, result->effect[p]) : effect;
    return result->noise > 0.5 * effect;
}

static void judge(struct mt_probe_result *result)
{
    int counts[3];
    bool odd = false;
    for (int p = 0; p < result->parts; p++) odd = odd || is_between(&result->fitted[p], FAR, SURE);
    find_states(result, counts);
    double hidden = 0.0; // what an unclear part changes
    for (int p = 0; p < result->parts; p++)
        hidden = result->state[p] == MT_PROBE_UNCLEAR ? fmax(hidden, result->effect[p]) : hidden;
    enum mt_probe_state whole = state_of(&result->whole);
    result->verdict = MT_PROBE_CANNOT_SAY;
    if (result->change < LEAST_CHANGE)
        result->why = "the adapter changes next to nothing after these texts";
    else if (result->noise > LOUD * result->change)
        result->why = "the server differs from the model by far more than the adapter changes";
    else if (odd && (counts[MT_PROBE_APPLIED] == 0 || counts[MT_PROBE_DEAD] == 0))
        result->why = "the server differs from the model in something else than parts of the adapter";
    else if (counts[MT_PROBE_DEAD] == 0 && counts[MT_PROBE_APPLIED] > 0 && hidden > HIDDEN * result->change)
        result->why = "the noise hides whether a large part is applied";
    else if (counts[MT_PROBE_APPLIED] > 0)
        result->verdict = counts[MT_PROBE_DEAD] > 0 ? MT_PROBE_PARTLY : MT_PROBE_IS_APPLIED;
    else if (counts[MT_PROBE_DEAD] > 0 && whole == MT_PROBE_DEAD)
        result->verdict = MT_PROBE_NOT_APPLIED;
    else if (counts[MT_PROBE_DEAD] == 0 && whole != MT_PROBE_UNCLEAR)
        result->verdict = whole == MT_PROBE_APPLIED ? MT_PROBE_IS_APPLIED : MT_PROBE_NOT_APPLIED;
    else
        result->why = "the noise hides what the adapter changes";
    result->or_wrong = is_loud(result);
}

static void note_parts(struct probe *probe)
{
    memcpy(probe->result->part, probe->variants.part, sizeof probe->variants.part);
}

/* Which parts explain the server. */
static enum mt_status explain(struct probe *probe)
{
    struct mt_probe_result *result = probe->result;
    struct mt_probe_result kinds;
    int partly = 0;
    bool strength = false;
    bool layers = false;
    bool experts = false;
    enum mt_status status = mt_variants_unite(&probe->variants);
    if (status == MT_OK) status = fit_whole(probe);
    if (status == MT_OK) status = settle(probe);
    note_parts(probe);
    kinds = *result;
    for (int p = 0; p < result->parts && status == MT_OK; p++)
        partly += is_between(&result->fitted[p], 0.05, LIKELY) ? 1 : 0;
    if (partly > 0 && status == MT_OK) status = try_strength(probe, &strength);
    if (!strength && status == MT_OK) status = try_experts(probe, &experts);
    if (experts) kinds = *result;
    if (partly > 0 && !strength && !experts && status == MT_OK) status = try_layers(probe, &layers);
    if (layers && status == MT_OK) status = settle(probe);
    for (int i = 0; i < CUTS && !strength && status == MT_OK && cut(probe); i++) status = settle(probe);
    if (status != MT_OK) return status;
    note_parts(probe);
    if (!strength && result->noise > BETTER * kinds.noise) *result = kinds;
    judge(result);
    if (experts) result->verdict = MT_PROBE_EXCHANGED;
    if (strength) result->verdict = MT_PROBE_STRENGTH;
    if (experts || strength) result->why = NULL;
    return MT_OK;
}

/* Nothing that more texts could show is open. */
static bool is_sure(const struct mt_probe_result *result)
{
    if (result->change < LEAST_CHANGE) return true; // the first texts were those that show most
    if (result->verdict == MT_PROBE_CANNOT_SAY) return false;
    if (result->verdict == MT_PROBE_EXCHANGED || result->verdict == MT_PROBE_STRENGTH) return true;
    for (int p = 0; p < result->parts; p++)
        if (result->state[p] == MT_PROBE_UNCLEAR && isfinite(result->fitted[p].error)) return false;
    return true;
}

/* Asks about more texts until the verdict is sure. */
static enum mt_status ask_until_sure(struct probe *probe)
{
    size_t first = probe->options->texts;
    size_t most = first * MT_PROBE_GROWTH < probe->candidates ? first * MT_PROBE_GROWTH : probe->candidates;
    enum mt_status status = MT_OK;
    for (size_t wanted = first < most ? first : most; probe->asked < most && status == MT_OK;) {
        mt_probe_result_release(probe->ctx, probe->result);
        *probe->result = (struct mt_probe_result){.verdict = MT_PROBE_CANNOT_SAY};
        probe->variants.source = NULL;
        status = ask_server(probe, wanted);
        if (status == MT_OK) status = explain(probe);
        if (status == MT_OK && is_sure(probe->result)) break;
        wanted = 3 * wanted < most ? 2 * wanted : most; // never a few at the end
    }
    return status;
}

// ------------------------------------------------------------------ rounding

/* What fp8 would leave unexplained. The model is opened again, its linear layers rounded. */
static enum mt_status measure_rounding(struct probe *probe)
{
    const struct mt_hf_config *config = mt_model_description(probe->variants.model)->config;
    struct mt_variants_options options = probe->options->model;
    struct mt_quantise_options fp8 = {.on = true, .format = MT_QUANTISED_FP8};
    struct mt_model_tensor tensor;
    if (config->quant.method != MT_HF_QUANT_NONE) return MT_OK;
    for (struct mt_model_tensors walk = mt_model_tensors_begin(config);
         mt_model_tensors_next(&walk, &tensor);)
        if (mt_model_tensor_is_linear(&tensor) && tensor.part != MT_PART_ROUTER) fp8.part[tensor.part] = true;
    options.quantise = &fp8;
    enum mt_status status = run_strength(probe, 1.0, probe->effect);
    mt_variants_close(&probe->variants);
    if (status == MT_OK) status = mt_variants_open(probe->ctx, &options, &probe->variants);
    if (status == MT_OK) status = run_strength(probe, 1.0, probe->ours);
    for (size_t i = 0; i < probe->values.count && status == MT_OK; i++)
        probe->rest[i] = probe->effect[i] - probe->ours[i];
    if (status == MT_OK)
        probe->result->rounded =
            mt_fit_typical(probe->rest, probe->values.text, probe->values.count, probe->scratch);
    return status;
}

enum mt_status mt_probe(struct mt_context *ctx, const struct mt_probe_options *options,
                        struct mt_probe_result *result)
{
    struct probe probe = {.ctx = ctx, .options = options, .result = result};
    *result = (struct mt_probe_result){.verdict = MT_PROBE_CANNOT_SAY};
    mt_arena_init(&probe.arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_variants_open(ctx, &options->model, &probe.variants);
    if (status == MT_OK) status = choose_texts(&probe);
    if (status == MT_OK) status = ask_until_sure(&probe);
    result->texts = probe.text_count;
    result->values = probe.values.count;
    result->unknown = probe.values.unknown;
    result->biases = probe.variants.biases;
    bool applied = result->verdict == MT_PROBE_IS_APPLIED || result->verdict == MT_PROBE_PARTLY;
    if (status == MT_OK && applied && result->noise > SHARE * result->change)
        status = measure_rounding(&probe);
    mt_variants_close(&probe.variants);
    mt_arena_free(&probe.arena);
    return status;
}

void mt_probe_result_release(struct mt_context *ctx, struct mt_probe_result *result)
{
    mt_release(ctx, result->source, (size_t)result->experts * sizeof *result->source);
    result->source = NULL;
}
