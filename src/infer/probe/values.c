/* log p = logit - log Σ exp(logit), in double; tokens by their texts. */
#include "infer/probe/values.h"

#include <math.h>

#include "infer/sampler.h"

#define OWN   20  // likeliest tokens of a candidate
#define KNOWN 500 // among which the server's tokens are looked for
#define NEAR  40  // two tokens that look alike are told apart only if one of them is not among these

static enum mt_status make_room(struct mt_arena *arena, const struct mt_probe_text *texts, size_t count,
                                size_t each, struct mt_probe_values *values)
{
    enum mt_status status = MT_OK;
    *values = (struct mt_probe_values){.texts = texts, .text_count = count};
    values->text = mt_arena_array(arena, count * each, sizeof *values->text, &status);
    values->id = mt_arena_array(arena, count * each, sizeof *values->id, &status);
    values->server = mt_arena_array(arena, count * each, sizeof *values->server, &status);
    return status;
}

static void add_value(struct mt_probe_values *values, size_t text, int32_t id, double server)
{
    values->text[values->count] = text;
    values->id[values->count] = id;
    values->server[values->count] = server;
    values->count++;
}

static const float *all_there(float strength[MT_VARIANTS_PARTS])
{
    for (int p = 0; p < MT_VARIANTS_PARTS; p++) strength[p] = 1.0F;
    return strength;
}

// ------------------------------------------------------------------ our own tokens

static enum mt_status visit_own(void *self, size_t text, const float *logits, int64_t vocabulary)
{
    struct mt_likely likely[OWN];
    int found = mt_logits_likeliest(logits, vocabulary, likely, OWN);
    for (int i = 0; i < found; i++) add_value(self, text, likely[i].id, 0.0);
    return MT_OK;
}

enum mt_status mt_probe_values_own(struct mt_arena *arena, struct mt_variants *variants,
                                   const struct mt_probe_text *texts, size_t count,
                                   struct mt_probe_values *values)
{
    float strength[MT_VARIANTS_PARTS];
    const struct mt_probe_visitor visitor = {.self = values, .visit = visit_own};
    enum mt_status status = make_room(arena, texts, count, OWN, values);
    if (status != MT_OK) return status;
    return mt_variants_run(variants, all_there(strength), texts, count, &visitor);
}

// ------------------------------------------------------------------ the server's tokens

struct naming {
    struct mt_variants *variants;
    const struct mt_asked_place *places;
    struct mt_probe_values *values;
    struct mt_byte_list bytes; // of the likeliest tokens, one after the other
    size_t start[KNOWN + 1];
};

static enum mt_status decode(struct naming *naming, const struct mt_likely *likely, int count)
{
    const struct mt_variants *variants = naming->variants;
    enum mt_status status = MT_OK;
    naming->bytes.count = 0;
    naming->start[0] = 0;
    for (int i = 0; i < count && status == MT_OK; i++) {
        status = mt_tokenizer_decode(variants->tokenizer, variants->ctx, &likely[i].id, 1,
                                     MT_DECODE_SKIP_UNKNOWN, &naming->bytes);
        naming->start[i + 1] = naming->bytes.count;
    }
    return status;
}

/* Some servers lose the space that a word begins with, and so does decoding a token alone. */
static struct mt_text without_space(struct mt_text text)
{
    return text.bytes > 1 && text.text[0] == ' ' ? mt_text_from(text, 1) : text;
}

/* The place of a token among the likeliest; -1: none, or two that cannot be told apart. */
static int find_token(const struct naming *naming, int count, struct mt_text wanted, bool exactly)
{
    int found = -1;
    if (!exactly) wanted = without_space(wanted);
    for (int i = 0; i < count; i++) {
        struct mt_text own = {.text = (const char *)naming->bytes.data + naming->start[i],
                              .bytes = naming->start[i + 1] - naming->start[i]};
        if (!mt_text_same(exactly ? own : without_space(own), wanted)) continue;
        if (found >= 0) return i < NEAR ? -1 : found;
        found = i;
    }
    return found;
}

static enum mt_status visit_asked(void *self, size_t text, const float *logits, int64_t vocabulary)
{
    struct naming *naming = self;
    struct mt_likely likely[KNOWN];
    bool taken[KNOWN] = {false};
    const struct mt_asked_place *place = &naming->places[text];
    int count = mt_logits_likeliest(logits, vocabulary, likely, KNOWN);
    enum mt_status status = decode(naming, likely, count);
    for (int i = 0; i < place->count && status == MT_OK; i++) {
        struct mt_text wanted = mt_text_of(place->token[i].text);
        bool broken = mt_text_find(wanted, 0, "\xef\xbf\xbd") < wanted.bytes; // a part of a character
        int at = broken || wanted.bytes == 0 ? -1 : find_token(naming, count, wanted, true);
        if (at < 0 && !broken && wanted.bytes > 0) at = find_token(naming, count, wanted, false);
        if (at < 0 || taken[at]) {
            naming->values->unknown++;
            continue;
        }
        taken[at] = true;
        add_value(naming->values, text, likely[at].id, place->token[i].log);
    }
    return status;
}

enum mt_status mt_probe_values_asked(struct mt_arena *arena, struct mt_variants *variants,
                                     const struct mt_probe_text *texts, size_t count,
                                     const struct mt_asked_place *places, struct mt_probe_values *values)
{
    float strength[MT_VARIANTS_PARTS];
    struct naming naming = {
        .variants = variants, .places = places, .values = values, .bytes = {.ctx = variants->ctx}};
    const struct mt_probe_visitor visitor = {.self = &naming, .visit = visit_asked};
    enum mt_status status = make_room(arena, texts, count, MT_ASKED_MOST, values);
    if (status == MT_OK) status = mt_variants_run(variants, all_there(strength), texts, count, &visitor);
    mt_byte_list_free(&naming.bytes);
    return status;
}

// ------------------------------------------------------------------ ours

struct reading {
    const struct mt_probe_values *values;
    double *logs;
    size_t next; // value
};

static enum mt_status visit_values(void *self, size_t text, const float *logits, int64_t vocabulary)
{
    struct reading *reading = self;
    const struct mt_probe_values *values = reading->values;
    double all = mt_logits_log_sum(logits, vocabulary);
    for (; reading->next < values->count && values->text[reading->next] == text; reading->next++)
        reading->logs[reading->next] = (double)logits[values->id[reading->next]] - all;
    return MT_OK;
}

enum mt_status mt_probe_values_run(struct mt_variants *variants, const struct mt_probe_values *values,
                                   const float *strength, double *logs)
{
    struct reading reading = {.values = values, .logs = logs};
    const struct mt_probe_visitor visitor = {.self = &reading, .visit = visit_values};
    enum mt_status status = mt_variants_run(variants, strength, values->texts, values->text_count, &visitor);
    for (size_t i = 0; i < values->count && status == MT_OK; i++) {
        if (!isfinite(logs[i]))
            status =
                mt_fail(variants->ctx, MT_ERR_NUMERIC,
                        "metier's own log-probabilities are not finite; metier adapter --check may say why");
    }
    return status;
}
