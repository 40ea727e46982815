/* Keys of what cells are asked besides the end of training: on the way, and with fewer experts. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "compare/settings/settings_read.h"
#include "formats/text/printable.h"

#define AT(field)    offsetof(struct mt_compare_settings, field)
#define PRUNE(field) offsetof(struct mt_compare_pruning, field)

static enum mt_status read_whole(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 const struct mt_key_row *row, int64_t *value)
{
    struct mt_key_entry element = *entry;
    element.row = row;
    return mt_key_store(reader, &element, value);
}

static enum mt_status add_value(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                struct mt_compare_probes *probes, int64_t value)
{
    if (probes->count == MT_COMPARE_MOST_PROBES)
        return mt_key_fail(reader, entry, NULL, "%s has more than %d values", entry->name,
                           MT_COMPARE_MOST_PROBES);
    probes->value[probes->count++] = value;
    return MT_OK;
}

static enum mt_status add_probe(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_WHOLE, .values = "WHOLE NUMBERS >= 0"};
    struct mt_compare_probes *probes = (void *)((char *)target + entry->row->offset);
    int64_t value = 0;
    enum mt_status status = read_whole(reader, entry, &row, &value);
    for (size_t i = 0; i < probes->count && status == MT_OK; i++) {
        if (probes->value[i] >= value)
            status = mt_key_fail(reader, entry, NULL, "%s has %lld after %lld, expected rising numbers",
                                 entry->name, (long long)value, (long long)probes->value[i]);
    }
    return status == MT_OK ? add_value(reader, entry, probes, value) : status;
}

/* A number of experts, each once. */
static enum mt_status add_count(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    static const struct mt_key_row row = {
        .kind = MT_KEY_WHOLE, .values = "WHOLE NUMBERS >= 1", .most = 1 << 20};
    struct mt_compare_probes *counts = (void *)((char *)target + entry->row->offset);
    int64_t value = 0;
    enum mt_status status = read_whole(reader, entry, &row, &value);
    for (size_t i = 0; i < counts->count && status == MT_OK; i++) {
        if (counts->value[i] == value)
            status = mt_key_fail(reader, entry, NULL, "%s has %lld twice", entry->name, (long long)value);
    }
    return status == MT_OK ? add_value(reader, entry, counts, value) : status;
}

// ------------------------------------------------------------------ prune as a map

static enum mt_status read_text(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                const char **text)
{
    static const struct mt_key_row row = {.kind = MT_KEY_NAME, .values = "TEXT"};
    struct mt_key_entry element = *entry;
    element.row = &row;
    return mt_key_store(reader, &element, text);
}

/* "8" or "25%"; what a model has of it is known when that is read. */
static bool is_amount(const char *text)
{
    char *end = NULL;
    size_t digits = strspn(text, "0123456789");
    size_t length = strlen(text);
    bool share = length > 0 && text[length - 1] == '%';
    if (digits == 0 || strspn(text, "0123456789.") != length - (share ? 1 : 0)) return false;
    if (!share) return digits == length && digits < 10 && strtol(text, NULL, 10) > 0;
    double value = strtod(text, &end);
    return *end == '%' && value > 0.0 && value <= 100.0;
}

static enum mt_status add_keep(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                               void *target)
{
    struct mt_compare_pruning *pruning = target;
    const char *text = NULL;
    enum mt_status status = read_text(reader, entry, &text);
    if (status != MT_OK) return status;
    if (!is_amount(text) || strlen(text) > 12)
        return mt_key_fail(reader, entry, NULL,
                           "prune.keep has '%s', expected a number of experts or a share, as 8 or 25%%",
                           mt_printable(text).text);
    if (pruning->keeps == MT_COMPARE_MOST_PROBES)
        return mt_key_fail(reader, entry, NULL, "prune.keep has more than %d values", MT_COMPARE_MOST_PROBES);
    for (size_t i = 0; i < pruning->keeps; i++) {
        if (strcmp(pruning->keep[i], text) == 0)
            return mt_key_fail(reader, entry, NULL, "prune.keep has %s twice", text);
    }
    pruning->keep[pruning->keeps++] = text;
    return MT_OK;
}

static const char *score_at(int index)
{
    return index < MT_EXPERT_SCORES ? mt_expert_score_kind((enum mt_expert_score)index)->name : NULL;
}

static enum mt_status add_score(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    struct mt_compare_pruning *pruning = target;
    enum mt_expert_score score = MT_SCORE_USE;
    const char *text = NULL;
    enum mt_status status = read_text(reader, entry, &text);
    if (status != MT_OK) return status;
    status = mt_expert_score_named(reader->ctx, "prune.score", text, &score);
    if (status != MT_OK) return mt_key_fail_within(reader, entry);
    for (size_t i = 0; i < pruning->scores; i++) {
        if (pruning->score[i] == score)
            return mt_key_fail(reader, entry, NULL, "prune.score has %s twice", text);
    }
    pruning->score[pruning->scores++] = score;
    return MT_OK;
}

static const char *by_at(int index)
{
    static const char *const names[] = {"own", "mix", "other"};
    return index < MT_COMPARE_BYS ? names[index] : NULL;
}

const char *mt_compare_by_name(enum mt_compare_by by)
{
    return by_at((int)by);
}

static enum mt_status add_by(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                             void *target)
{
    struct mt_compare_pruning *pruning = target;
    const char *text = NULL;
    int by = 0;
    enum mt_status status = read_text(reader, entry, &text);
    if (status != MT_OK) return status;
    while (by < MT_COMPARE_BYS && strcmp(by_at(by), text) != 0) by++;
    if (by == MT_COMPARE_BYS)
        return mt_key_fail(reader, entry, NULL, "prune.by has '%s', expected own, mix or other",
                           mt_printable(text).text);
    for (size_t i = 0; i < pruning->bys; i++) {
        if ((int)pruning->by[i] == by) return mt_key_fail(reader, entry, NULL, "prune.by has %s twice", text);
    }
    pruning->by[pruning->bys++] = (enum mt_compare_by)by;
    return MT_OK;
}

static const struct mt_key_row prune_rows[] = {
    {"keep", MT_KEY_EACH, 0, "EXPERTS OF A LAYER, as 8 or 25%", "required",
     .meaning = "number or share of experts to keep in every layer", .set = add_keep},
    {"score", MT_KEY_EACH, 0, "SCORES", "use", .meaning = "scores that rank the experts (metier prune)",
     .set = add_score, .name_at = score_at},
    {"by", MT_KEY_EACH, 0, "own, mix, other", "own",
     .meaning = "training data for the scores: the measured domain's, equal shares of all trained domains, "
                "or the next domain's",
     .set = add_by, .name_at = by_at},
    {"rows", MT_KEY_WHOLE, PRUNE(rows), "WHOLE NUMBER >= 1", "2000",
     .meaning = "rows of the domain's data for the scores", .most = 1e9},
    {"mix_rows", MT_KEY_WHOLE, PRUNE(mix_rows), "WHOLE NUMBER >= 1", "400",
     .meaning = "rows of each domain's data, for mix", .most = 1e9},
    {0},
};

static const struct mt_key_part prune_parts[] = {{.rows = prune_rows}, {0}};
static const struct mt_keys prune_keys = {.parts = prune_parts, .what = "prune has"};

static enum mt_status read_prune_map(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     struct mt_compare_pruning *pruning)
{
    struct mt_keys_reader members = mt_keys_reader_within(reader, &prune_keys, pruning);
    enum mt_status status = mt_keys_read_map(&members, entry->node, entry->word);
    if (status != MT_OK) return status;
    if (pruning->keeps == 0)
        return mt_key_fail(reader, entry, NULL, "prune needs keep, as {keep: [8, 25%%]}");
    if (pruning->scores == 0) pruning->score[pruning->scores++] = MT_SCORE_USE;
    if (pruning->bys == 0) pruning->by[pruning->bys++] = MT_COMPARE_BY_OWN;
    const struct mt_key_entry *rows = mt_keys_given(&members, "mix_rows");
    bool mix = false;
    for (size_t i = 0; i < pruning->bys; i++) mix = mix || pruning->by[i] == MT_COMPARE_BY_MIX;
    if (mix || rows == NULL) return MT_OK;
    return mt_key_fail(&members, rows, NULL, "prune.mix_rows means nothing without by: mix; leave it out");
}

/* Numbers of experts that are taken away, or one map. */
static enum mt_status add_prune(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    struct mt_compare_settings *settings = target;
    bool map = entry->node->kind == MT_YAML_MAP;
    if (settings->pruning.keeps > 0 || (map && settings->prune.count > 0))
        return mt_key_fail(reader, entry, NULL, "prune is a list of numbers, or one map");
    return map ? read_prune_map(reader, entry, &settings->pruning) : add_probe(reader, entry, target);
}

enum mt_status mt_compare_check_asked(const struct mt_keys_reader *reader)
{
    const struct mt_compare_settings *settings = reader->target;
    size_t sources = 0;
    for (size_t d = 0; d < settings->domains; d++)
        sources += mt_compare_has_rows(&settings->domain[d]) ? 1 : 0;
    for (size_t i = 0; i < settings->pruning.bys; i++) {
        enum mt_compare_by by = settings->pruning.by[i];
        if (by != MT_COMPARE_BY_OWN && sources < 2)
            return mt_key_fail(reader, mt_keys_given(reader, "prune"), NULL,
                               "prune has by: %s, and there is one domain to train on",
                               mt_compare_by_name(by));
    }
    return MT_OK;
}

// ------------------------------------------------------------------ the table

const struct mt_key_row mt_compare_asking_rows[] = {
    {"prune", MT_KEY_EACH, AT(prune), "NUMBERS", "none",
     .meaning = "measure cells again without this many experts of every layer, the least used first; or a "
                "map {keep: [8, 25%], score: [reap], by: [own, mix, other], rows: N, mix_rows: N}: with only "
                "the best experts",
     .set = add_prune, .members = &prune_keys},
    {"experts_per_token", MT_KEY_EACH, AT(slots), "NUMBERS", "none",
     .meaning = "measure cells again with this many (fewer) experts a token",
     .also = "num_experts_per_tok|top_k|slots", .set = add_count},
    {"silence", MT_KEY_FLAG, AT(silence), "true|false", "false",
     .meaning = "measure cells again without the routed experts' output; shared experts stay"},
    {"cache", MT_KEY_EACH, AT(cache), "NUMBERS", "none",
     .meaning = "misses per token of a cache with room for this many experts of a layer, on the held-out "
                "problems (metier analyze --cache)",
     .set = add_count},
    {"evaluate_at", MT_KEY_EACH, AT(at), "NUMBERS", "none",
     .meaning = "also measure cells after these steps of training; 0: before the first", .set = add_probe},
    {0},
};
