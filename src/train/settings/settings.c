/* Settings: what the table reads, then what follows from several keys, and combinations that cannot be. */
#include "train/settings/settings.h"

#include <math.h>
#include <string.h>

#include "formats/text/printable.h"
#include "objective/objective.h"
#include "objective/options.h"
#include "ops/limit.h"
#include "text/template.h"

#define AUTO_TOKENS      4096
#define OBJECTIVE_PREFIX "objective."

/* Keys of LoRA without LoRA, and those that an adapter decides. */
static bool is_void_of_lora(const struct mt_train_settings *settings, const char *name)
{
    if (settings->train != MT_TRAIN_LORA) return strncmp(name, "lora.", 5) == 0;
    return settings->adapter != NULL && mt_key_place_of_word("targets|lora.rank|lora.alpha", name) >= 0;
}

/* Keys that mean nothing beside another one, which is so now. */
struct void_rule {
    bool now; // whether it holds
    const char *names, *by, *why;
};

static bool is_nf4(const struct mt_train_settings *settings)
{
    return settings->quantise_format == MT_QUANTISED_NF4 + 1;
}

/* The rule by which a key means nothing; false: it does mean something. */
static bool find_void_rule(const struct mt_train_settings *settings, const char *name,
                           struct void_rule *found)
{
    const char *unmeasured = mt_train_key_idle(&settings->objective, settings->noise, "log.measure_every");
    const struct void_rule rules[] = {
        {settings->steps > 0, "epochs", "steps",
         "steps says how long the run is; set steps to 0 to go by epochs"},
        {settings->expert_ranks == 1, "parallel.room|parallel.transfer", "parallel.experts",
         "parallel.experts is 1: no ranks share experts"},
        {!settings->noise, "lora.dropout", "noise", "noise is false: nothing is dropped"},
        {settings->quantise_format == 0, "quantize.parts|quantize.double|quantize.cache", "quantize.format",
         "quantize.format is none: weights stay as they are"},
        {settings->quantise_format != 0 && !is_nf4(settings), "quantize.double", "quantize.format",
         "only nf4's scales are quantised"},
        {!mt_chat_template_has_variables(settings->template_name), "data.template_options|data.template_date",
         "data.template", "the data.template that is named has neither options nor dates"},
        {unmeasured != NULL, "log.measure_every", "method", unmeasured},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (!rules[i].now || mt_key_place_of_word(rules[i].names, name) < 0) continue;
        *found = rules[i];
        return true;
    }
    return false;
}

static bool is_void(const struct mt_train_settings *settings, const char *name)
{
    struct void_rule rule;
    return find_void_rule(settings, name, &rule);
}

static const char *const no_words[] = {NULL};

/* Keys that mean nothing are as if nobody had set them. */
static enum mt_status reset(const struct mt_keys_reader *reader,
                            bool (*means_nothing)(const struct mt_train_settings *settings, const char *name))
{
    struct mt_train_settings *settings = reader->target;
    struct mt_key key = {0};
    enum mt_status status = MT_OK;
    while (status == MT_OK && mt_key_next(reader->keys, &key)) {
        if (!means_nothing(settings, key.name)) continue;
        status = mt_key_store_standard(reader, &key);
        if (strcmp(key.name, "targets") == 0) settings->targets = NULL;
        if (strcmp(key.name, "quantize.parts") == 0) settings->quantise_parts = no_words;
        if (strcmp(key.name, "data.template_options") == 0) settings->template_options = NULL;
    }
    return status;
}

/* Defaults that other keys decide: what LoRA adapts is every linear layer of the layers. */
static void store_default_lists(struct mt_train_settings *settings)
{
    static const char *const lora[] = {"model.layers.*", NULL};
    static const char *const full[] = {"*", NULL};
    static const char *const experts[] = {"routed_experts", NULL};
    if (settings->targets == NULL) settings->targets = settings->train == MT_TRAIN_LORA ? lora : full;
    if (settings->freeze == NULL) settings->freeze = no_words;
    if (settings->quantise_parts == NULL)
        settings->quantise_parts = settings->quantise_format != 0 ? experts : no_words;
}

// ------------------------------------------------------------------ combinations that cannot be

/* Sentences that need no numbers. */
static enum mt_status check_sentences(const struct mt_keys_reader *reader)
{
    const struct mt_train_settings *s = reader->target;
    bool named = s->model != NULL && s->out != NULL;
    const struct mt_key_check checks[] = {
        {s->model == NULL, "", "there is no 'model': the folder of the model to train"},
        {s->out == NULL, "", "there is no 'out': the folder the run writes to"},
        {s->source_count == 0, "data.sources|data.path",
         "there is nothing to train on: set data.path or data.sources"},
        {named && strcmp(s->model, s->out) == 0, "out",
         "out is the model's own folder; the run needs one of its own"},
        {s->targets[0] == NULL, "targets", "targets is empty: nothing would learn"},
        {s->quantise_format != 0 && s->quantise_parts[0] == NULL, "quantize.parts",
         "quantize.parts is empty: nothing would be quantised; set quantize.format: none"},
        {s->train == MT_TRAIN_FULL && s->adapter != NULL, "adapter",
         "an adapter cannot start train: full; put it into the model first (metier merge) or set train: "
         "lora"},
        {s->examples == 0 && s->batching != MT_LAYOUT_PACKED, "batch.examples",
         "batch.examples is 0, which only data.layout: packed can do"},
        {s->window != 0 && s->batching == MT_LAYOUT_IN_ORDER, "data.window",
         "data.window means nothing with data.layout: in-order"},
        {s->choices != NULL && mt_selection_has_bias(&s->objective), "data.choices",
         "data.choices decides which experts a token gets: a bias that moves would choose none; set "
         "objective.bias_rule: none, or take another method"},
        {s->record_rows && s->train != MT_TRAIN_FULL, "data.record_rows",
         "data.record_rows means nothing with train: lora: an adapter has no record of the rows it has read"},
        {s->choices != NULL && mt_selection_pools(&s->objective), "data.choices",
         "data.choices decides which experts a token gets, and these need not be in its sequence's pool; set "
         "objective.pool: false, or take another method"},
        {s->epochs == 0.0 && s->steps == 0, "epochs|steps",
         "epochs and steps are both 0: nothing would be trained"},
        {s->schedule == MT_SCHEDULE_CONSTANT && s->final_rate != 0.0, "optimizer.final",
         "optimizer.final means nothing with optimizer.schedule: constant"},
    };
    return mt_keys_check(reader, checks, sizeof checks / sizeof checks[0]);
}

int64_t mt_train_auto_tokens(const struct mt_train_settings *settings)
{
    return settings->max_length > AUTO_TOKENS ? settings->max_length : AUTO_TOKENS;
}

static enum mt_status check_limit(const struct mt_keys_reader *reader)
{
    const struct mt_train_settings *settings = reader->target;
    struct mt_memory_limit limit;
    if (mt_memory_limit_read(settings->memory_limit, &limit)) return MT_OK;
    return mt_key_fail(reader, mt_keys_given(reader, "memory.limit"), NULL,
                       "memory.limit is %s, expected auto, an amount as 22GiB or 24GB, or a share as 90%%",
                       mt_printable(settings->memory_limit).text);
}

static enum mt_status check_numbers(const struct mt_keys_reader *reader)
{
    const struct mt_train_settings *settings = reader->target;
    double warmup = settings->warmup;
    if (settings->tokens > 0 && settings->tokens < settings->max_length) {
        return mt_key_fail(reader, mt_keys_given(reader, "batch.tokens|data.max_length"), NULL,
                           "batch.tokens is %lld, less than one example may have (data.max_length is %lld)",
                           (long long)settings->tokens, (long long)settings->max_length);
    }
    if (warmup >= 1.0 && warmup != floor(warmup)) {
        return mt_key_fail(
            reader, mt_keys_given(reader, "optimizer.warmup"), NULL,
            "optimizer.warmup is %g, expected a whole number of steps, or a share of them below 1", warmup);
    }
    if (settings->steps > 0 && warmup > (double)settings->steps) {
        return mt_key_fail(reader, mt_keys_given(reader, "optimizer.warmup|steps"), NULL,
                           "optimizer.warmup is %g steps, more than all steps (%lld)", warmup,
                           (long long)settings->steps);
    }
    return MT_OK;
}

/*
 * LoRA's keys without LoRA, and what an adapter decides, are not asked for. A word train=full or adapter=...
 * over a file is meant: what the file says is then void.
 */
static enum mt_status check_lora(const struct mt_keys_reader *reader)
{
    const struct mt_train_settings *settings = reader->target;
    bool lora = settings->train == MT_TRAIN_LORA;
    const struct mt_key_entry *cause = mt_keys_given(reader, lora ? "adapter" : "train");
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        if (!is_void_of_lora(settings, entry->name)) continue;
        if (cause->word != NULL && entry->word == NULL) continue;
        if (!lora)
            return mt_key_fail(reader, entry, NULL, "%s means nothing with train: full; leave it out",
                               entry->name);
        return mt_key_fail(reader, entry, NULL, "%s is what the adapter in %s says; leave it out",
                           entry->name, mt_printable(settings->adapter).text);
    }
    return MT_OK;
}

static enum mt_status check_evaluation(const struct mt_keys_reader *reader)
{
    static const char *const names[] = {"evaluation.every", "evaluation.examples", "evaluation.patience"};
    const struct mt_train_settings *settings = reader->target;
    const int64_t values[] = {settings->evaluate_every, settings->evaluate_examples, settings->patience};
    bool held_out = settings->held_out_count > 0 || settings->split > 0.0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (held_out || values[i] == 0) continue;
        return mt_key_fail(reader, mt_keys_given(reader, names[i]), NULL,
                           "%s is set, but nothing is held out: set evaluation.split or "
                           "evaluation.sources",
                           names[i]);
    }
    for (size_t i = 0; i < settings->held_out_count; i++) {
        for (size_t j = 0; j < settings->source_count; j++) {
            if (strcmp(settings->held_out[i].path, settings->sources[j].path) != 0) continue;
            return mt_key_fail(reader, mt_keys_given(reader, "evaluation.sources"), NULL,
                               "%s is also trained on; to hold a part of it out, set evaluation.split",
                               mt_printable(settings->held_out[i].path).text);
        }
    }
    return MT_OK;
}

/* True when the field of a key holds its default, or nothing that it could switch on. */
static enum mt_status is_off(const struct mt_keys_reader *reader, const struct mt_key_entry *entry, bool *off)
{
    struct mt_byte_list text = {.ctx = reader->ctx};
    struct mt_key key;
    (void)mt_key_find(reader->keys, entry->name, &key); // of an entry it is there
    enum mt_status status = mt_key_append(&key, reader->target, &text);
    if (status == MT_OK) status = mt_byte_list_append(&text, "", 1);
    const char *value = status == MT_OK ? (const char *)text.data : "";
    *off = mt_key_place_of_word("0|null", value) >= 0 || strcmp(value, key.standard) == 0;
    mt_byte_list_free(&text);
    return status;
}

/* A word over a file is meant: what that says about the other key is then void, and not refused. */
static enum mt_status check_void(const struct mt_keys_reader *reader)
{
    const struct mt_train_settings *settings = reader->target;
    if (reader->recorded) return MT_OK;
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        struct void_rule rule;
        bool off = false;
        if (!find_void_rule(settings, entry->name, &rule)) continue;
        const struct mt_key_entry *cause = mt_keys_given(reader, rule.by);
        if (cause != NULL && cause->word != NULL && entry->word == NULL) continue;
        enum mt_status status = is_off(reader, entry, &off);
        if (status != MT_OK) return status;
        if (!off) return mt_key_fail(reader, entry, NULL, "%s means nothing here: %s", entry->name, rule.why);
    }
    return MT_OK;
}

static enum mt_status check_quantise(const struct mt_keys_reader *reader)
{
    struct mt_quantise_options options;
    const struct mt_key_entry *parts = mt_keys_given(reader, "quantize.parts");
    if (parts != NULL && mt_train_quantise(reader->ctx, reader->target, &options) != MT_OK)
        return mt_key_fail_within(reader, parts);
    return MT_OK;
}

// ------------------------------------------------------------------ the objective

/* The first given key of the objective, the one to name when they contradict each other. */
static const struct mt_key_entry *first_key(const struct mt_keys_reader *reader)
{
    const struct mt_key_entry *entry = reader->entries;
    while (entry != NULL && strncmp(entry->name, OBJECTIVE_PREFIX, strlen(OBJECTIVE_PREFIX)) != 0)
        entry = entry->next;
    return entry != NULL ? entry : mt_keys_given(reader, "method");
}

/* Nothing but the task's loss acts, so that a run has no objective at all. */
static bool is_task_only(const struct mt_objective_config *config)
{
    return !mt_selection_is_on(config) && config->jitter == 0.0 && !config->dense_router &&
           !mt_objective_has_terms(config);
}

const char *mt_train_key_idle(const struct mt_objective_config *config, bool noise, const char *name)
{
    size_t prefix = strlen(OBJECTIVE_PREFIX);
    if (strcmp(name, "log.measure_every") == 0 && !mt_objective_has_terms(config))
        return "no term is on: there are no gradients of terms";
    if (strncmp(name, OBJECTIVE_PREFIX, prefix) != 0) return NULL;
    const char *key = name + prefix;
    if (!noise && mt_objective_key_is_noise(key)) return "noise is false: nothing is drawn or dropped";
    if (strcmp(key, "seed") == 0 && is_task_only(config)) return "the method draws nothing at random";
    return mt_objective_key_idle(config, key);
}

/* A method or strength given as a word over a file is meant: keys of the file that it makes idle are void. */
static bool is_meant(const struct mt_keys_reader *reader, const struct mt_key_entry *idle)
{
    static const char causes[] = "method|objective.alpha|objective.beta|objective.gamma|objective.bias_rule|"
                                 "objective.capacity|noise";
    bool meant = reader->recorded;
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next)
        meant = meant || (entry->word != NULL && mt_key_place_of_word(causes, entry->name) >= 0);
    return meant && idle->word == NULL;
}

/* Refuses a key that changes nothing, unless it says what the method says anyway. */
static enum mt_status check_idle(const struct mt_keys_reader *reader, const struct mt_key_entry *entry)
{
    struct mt_train_settings *settings = reader->target;
    struct mt_objective_config *config = &settings->objective;
    struct mt_objective_config plain;
    char methods[MT_KEY_NAME_BYTES];
    char given[MT_KEY_NAME_BYTES];
    int index = (int)(entry->row - mt_objective_rows);
    const char *why = mt_train_key_idle(config, settings->noise, entry->name);
    if (why == NULL) return MT_OK;
    enum mt_status status = mt_objective_config_method(reader->ctx, config->method, &plain);
    if (status != MT_OK) return status;
    plain.seed = settings->seed;
    mt_objective_key_value(&plain, index, methods, sizeof methods);
    mt_objective_key_value(config, index, given, sizeof given);
    if (strcmp(methods, given) == 0) return MT_OK;
    if (is_meant(reader, entry))
        return mt_objective_config_set(reader->ctx, config, entry->row->name, methods);
    return mt_key_fail(
        reader, entry, NULL, "%s means nothing here: %s%s", entry->name, why,
        mt_keys_given(reader, "method") != NULL ? "" : " (method is " MT_TRAIN_DEFAULT_METHOD " by default)");
}

static enum mt_status check_objective(const struct mt_keys_reader *reader)
{
    struct mt_train_settings *settings = reader->target;
    const struct mt_objective_config *config = &settings->objective;
    settings->method_given = mt_keys_given(reader, "method") != NULL;
    if (mt_keys_given(reader, OBJECTIVE_PREFIX "seed") == NULL) settings->objective.seed = settings->seed;
    if (mt_objective_config_check(reader->ctx, config) != MT_OK)
        return mt_key_fail_within(reader, first_key(reader));
    enum mt_status status = MT_OK;
    for (const struct mt_key_entry *entry = first_key(reader); entry != NULL && status == MT_OK;
         entry = entry->next) {
        if (strncmp(entry->name, OBJECTIVE_PREFIX, strlen(OBJECTIVE_PREFIX)) == 0)
            status = check_idle(reader, entry);
    }
    settings->task_only = is_task_only(config);
    return status;
}

// ------------------------------------------------------------------ the whole

/* What the table cannot know. */
static enum mt_status finish(const struct mt_keys_reader *reader)
{
    enum mt_status status = reset(reader, is_void_of_lora);
    if (status == MT_OK) status = check_objective(reader);
    store_default_lists(reader->target);
    if (status == MT_OK) status = check_sentences(reader);
    if (status == MT_OK) status = check_lora(reader);
    if (status == MT_OK) status = check_numbers(reader);
    if (status == MT_OK) status = check_limit(reader);
    if (status == MT_OK) status = check_evaluation(reader);
    if (status == MT_OK) status = check_quantise(reader);
    if (status == MT_OK) status = check_void(reader);
    return status == MT_OK ? reset(reader, is_void) : status;
}

enum mt_status mt_train_quantise(struct mt_context *ctx, const struct mt_train_settings *settings,
                                 struct mt_quantise_options *options)
{
    int number = settings->quantise_format;
    const char *format = number == 0 ? "none" : mt_quantised_name((enum mt_quantised_format)(number - 1));
    enum mt_status status =
        mt_quantise_read(ctx, format, settings->quantise_nested, settings->quantise_parts, options);
    options->cache = settings->quantise_cache && options->on;
    return status;
}

static enum mt_status read_settings(struct mt_keys_reader *reader, const char *text, size_t bytes,
                                    const char *const *words, size_t word_count)
{
    struct mt_train_settings *settings = reader->target;
    *settings = (struct mt_train_settings){0};
    enum mt_status status =
        mt_objective_config_method(reader->ctx, MT_TRAIN_DEFAULT_METHOD, &settings->objective);
    if (status == MT_OK) status = mt_keys_read(reader, text, bytes, words, word_count);
    return status == MT_OK ? finish(reader) : status;
}

enum mt_status mt_train_settings_read(struct mt_context *ctx, const char *path, const char *text,
                                      size_t bytes, const char *const *words, size_t word_count,
                                      struct mt_arena *arena, struct mt_train_settings *settings)
{
    struct mt_keys_reader reader = {
        .ctx = ctx, .arena = arena, .file = path, .keys = &mt_train_keys, .target = settings};
    return read_settings(&reader, text, bytes, words, word_count);
}

enum mt_status mt_train_settings_read_saved(struct mt_context *ctx, const char *saved, struct mt_arena *arena,
                                            struct mt_train_settings *settings)
{
    struct mt_keys_reader reader = {.ctx = ctx,
                                    .arena = arena,
                                    .file = "the saved settings",
                                    .keys = &mt_train_keys,
                                    .target = settings,
                                    .recorded = true};
    return read_settings(&reader, saved, strlen(saved), NULL, 0);
}

/* Keys that would be refused beside others. */
static bool is_left_out(const void *source, const char *name)
{
    const struct mt_train_settings *settings = source;
    if (strcmp(name, "evaluation.sources") == 0) return settings->held_out_count == 0;
    if (strcmp(name, "evaluation.split") == 0) return settings->held_out_count > 0;
    if (strcmp(name, "quantize.parts") == 0) return settings->quantise_format == 0;
    if (strcmp(name, "quantize.cache") == 0) return settings->quantise_format == 0;
    if (strcmp(name, "quantize.double") == 0) return !is_nf4(settings);
    return is_void_of_lora(settings, name);
}

enum mt_status mt_train_settings_text(struct mt_context *ctx, const struct mt_train_settings *settings,
                                      struct mt_arena *arena, const char **text)
{
    return mt_keys_text(ctx, &mt_train_keys, settings, is_left_out, arena, text);
}
