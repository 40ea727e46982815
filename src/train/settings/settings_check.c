/* Combinations that cannot be. Each is reported at a key that was given, with what would cure it. */
#include <math.h>
#include <string.h>

#include "formats/text/printable.h"
#include "train/settings/settings_parts.h"

/* The entry of the first of two keys that was given. */
static const struct mt_settings_entry *either(const struct mt_settings_reader *reader, const char *first,
                                              const char *second)
{
    const struct mt_settings_entry *entry = mt_settings_given(reader, first);
    return entry != NULL ? entry : mt_settings_given(reader, second);
}

static enum mt_status check_required(const struct mt_settings_reader *reader)
{
    const struct mt_train_settings *settings = reader->settings;
    if (settings->model == NULL) {
        return mt_settings_fail(reader, NULL, "there is no 'model': the folder of the model to train");
    }
    if (settings->out == NULL) {
        return mt_settings_fail(reader, NULL, "there is no 'out': the folder the run writes to");
    }
    if (settings->source_count == 0) {
        return mt_settings_fail(reader, either(reader, "data.sources", "data.path"),
                                "there is nothing to train on: set data.path or data.sources");
    }
    if (strcmp(settings->model, settings->out) == 0) {
        return mt_settings_fail(reader, mt_settings_given(reader, "out"),
                                "out is the model's own folder; the run needs one of its own");
    }
    return MT_OK;
}

bool mt_settings_are_the_adapters(const char *name)
{
    return strcmp(name, "targets") == 0 || strcmp(name, "lora.rank") == 0 || strcmp(name, "lora.alpha") == 0;
}

/* What the adapter decides is not asked for. A word adapter=... over a file makes void what that says. */
static enum mt_status check_adapter(const struct mt_settings_reader *reader)
{
    const struct mt_settings_entry *adapter = mt_settings_given(reader, "adapter");
    if (reader->settings->adapter == NULL) return MT_OK;
    for (const struct mt_settings_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        if (!mt_settings_are_the_adapters(entry->name)) continue;
        if (adapter->word != NULL && entry->word == NULL) continue;
        return mt_settings_fail(reader, entry, "%s is what the adapter in %s says; leave it out", entry->name,
                                mt_printable(reader->settings->adapter).text);
    }
    return MT_OK;
}

static enum mt_status check_learning(const struct mt_settings_reader *reader)
{
    const struct mt_train_settings *settings = reader->settings;
    if (settings->targets[0] == NULL) {
        return mt_settings_fail(reader, mt_settings_given(reader, "targets"),
                                "targets is empty: nothing would learn");
    }
    if (settings->train == MT_TRAIN_LORA) return check_adapter(reader);
    // A word train=full over a file for LoRA is meant: what the file says about LoRA is then void.
    const struct mt_settings_entry *train = mt_settings_given(reader, "train");
    for (const struct mt_settings_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        if (strncmp(entry->name, "lora.", 5) != 0) continue;
        if (train->word != NULL && entry->word == NULL) continue;
        return mt_settings_fail(reader, entry, "%s means nothing with train: full; leave it out",
                                entry->name);
    }
    if (settings->adapter != NULL) {
        return mt_settings_fail(reader, mt_settings_given(reader, "adapter"),
                                "an adapter cannot start train: full; put it into the model first (metier "
                                "merge) or set train: lora");
    }
    return MT_OK;
}

static enum mt_status check_data(const struct mt_settings_reader *reader)
{
    const struct mt_train_settings *settings = reader->settings;
    if (settings->tokens < settings->max_length) {
        return mt_settings_fail(reader, either(reader, "batch.tokens", "data.max_length"),
                                "batch.tokens is %lld, less than one example may have (data.max_length is "
                                "%lld)",
                                (long long)settings->tokens, (long long)settings->max_length);
    }
    if (settings->examples == 0 && settings->batching != MT_LAYOUT_PACKED) {
        return mt_settings_fail(reader, mt_settings_given(reader, "batch.examples"),
                                "batch.examples is 0, which only data.layout: packed can do");
    }
    if (settings->window != 0 && settings->batching == MT_LAYOUT_IN_ORDER) {
        return mt_settings_fail(reader, mt_settings_given(reader, "data.window"),
                                "data.window means nothing with data.layout: in-order");
    }
    return MT_OK;
}

static enum mt_status check_evaluation(const struct mt_settings_reader *reader)
{
    static const char *const names[] = {"evaluation.every", "evaluation.examples", "evaluation.patience"};
    const struct mt_train_settings *settings = reader->settings;
    const int64_t values[] = {settings->evaluate_every, settings->evaluate_examples, settings->patience};
    bool held_out = settings->held_out_count > 0 || settings->split > 0.0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (held_out || values[i] == 0) continue;
        return mt_settings_fail(reader, mt_settings_given(reader, names[i]),
                                "%s is set, but nothing is held out: set evaluation.split or "
                                "evaluation.sources",
                                names[i]);
    }
    for (size_t i = 0; i < settings->held_out_count; i++) {
        for (size_t j = 0; j < settings->source_count; j++) {
            if (strcmp(settings->held_out[i].path, settings->sources[j].path) != 0) continue;
            return mt_settings_fail(reader, mt_settings_given(reader, "evaluation.sources"),
                                    "%s is also trained on; to hold a part of it out, set evaluation.split",
                                    mt_printable(settings->held_out[i].path).text);
        }
    }
    return MT_OK;
}

static enum mt_status check_length(const struct mt_settings_reader *reader)
{
    const struct mt_train_settings *settings = reader->settings;
    double warmup = settings->warmup;
    if (settings->epochs == 0.0 && settings->steps == 0) {
        return mt_settings_fail(reader, either(reader, "epochs", "steps"),
                                "epochs and steps are both 0: nothing would be trained");
    }
    if (warmup >= 1.0 && warmup != floor(warmup)) {
        return mt_settings_fail(reader, mt_settings_given(reader, "optimizer.warmup"),
                                "optimizer.warmup is %g, expected a whole number of steps, or a share of "
                                "them below 1",
                                warmup);
    }
    if (settings->steps > 0 && warmup > (double)settings->steps) {
        return mt_settings_fail(reader, either(reader, "optimizer.warmup", "steps"),
                                "optimizer.warmup is %g steps, more than all steps (%lld)", warmup,
                                (long long)settings->steps);
    }
    if (settings->schedule == MT_SCHEDULE_CONSTANT && settings->final_rate != 0.0) {
        return mt_settings_fail(reader, mt_settings_given(reader, "optimizer.final"),
                                "optimizer.final means nothing with optimizer.schedule: constant");
    }
    return MT_OK;
}

// ------------------------------------------------------------------ keys that mean nothing beside others

/* A key, and the one beside which it means nothing; *why says what that one is. */
static bool is_void(const struct mt_train_settings *settings, const char *name, const char **by,
                    const char **why)
{
    const struct {
        const char *name, *by, *why;
        bool now;
    } rules[] = {
        {"epochs", "steps", "steps says how long the run is; set steps to 0 to go by epochs",
         settings->steps > 0},
        {"parallel.room", "parallel.experts", "parallel.experts is 1: no ranks share experts",
         settings->expert_ranks == 1},
        {"parallel.transfer", "parallel.experts", "parallel.experts is 1: no ranks share experts",
         settings->expert_ranks == 1},
        {"lora.dropout", "noise", "noise is false: nothing is dropped", !settings->noise},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (strcmp(rules[i].name, name) != 0) continue;
        *by = rules[i].by;
        *why = rules[i].why;
        return rules[i].now;
    }
    return false;
}

bool mt_settings_is_void(const struct mt_train_settings *settings, const char *name)
{
    const char *by = NULL;
    const char *why = NULL;
    return is_void(settings, name, &by, &why);
}

/* True when the field of a row holds its default, or nothing that it could switch on. */
static enum mt_status is_off(const struct mt_settings_reader *reader, const struct mt_settings_row *row,
                             bool *off)
{
    struct mt_byte_list text = {.ctx = reader->ctx};
    enum mt_status status = mt_settings_append_value(row, reader->settings, &text);
    if (status == MT_OK) status = mt_byte_list_append(&text, "", 1);
    const char *value = status == MT_OK ? (const char *)text.data : "";
    *off = strcmp(value, row->standard) == 0 || strcmp(value, "0") == 0;
    mt_byte_list_free(&text);
    return status;
}

/* A word over a file is meant: what that says about the other key is then void, and not refused. */
static enum mt_status check_void(const struct mt_settings_reader *reader)
{
    for (const struct mt_settings_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        const char *by = NULL;
        const char *why = NULL;
        bool off = false;
        if (!is_void(reader->settings, entry->name, &by, &why)) continue;
        const struct mt_settings_entry *cause = mt_settings_given(reader, by);
        if (cause != NULL && cause->word != NULL && entry->word == NULL) continue;
        enum mt_status status = is_off(reader, mt_settings_row_named(entry->name), &off);
        if (status != MT_OK) return status;
        if (!off) return mt_settings_fail(reader, entry, "%s means nothing here: %s", entry->name, why);
    }
    return MT_OK;
}

enum mt_status mt_settings_check(const struct mt_settings_reader *reader)
{
    enum mt_status status = check_required(reader);
    if (status == MT_OK) status = check_learning(reader);
    if (status == MT_OK) status = check_data(reader);
    if (status == MT_OK) status = check_evaluation(reader);
    if (status == MT_OK) status = check_length(reader);
    if (status == MT_OK) status = check_void(reader);
    return status;
}
