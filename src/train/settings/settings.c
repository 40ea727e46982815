/* Settings: defaults, then the file, then the words, then the objective and what depends on other keys. */
#include "train/settings/settings.h"

#include <string.h>

#include "base/files/file.h"
#include "train/settings/settings_parts.h"

static enum mt_status store_standards(const struct mt_settings_reader *reader)
{
    enum mt_status status = MT_OK;
    for (int i = 0; mt_settings_row(i) != NULL && status == MT_OK; i++) {
        status = mt_settings_store_standard(reader, mt_settings_row(i), reader->settings);
    }
    return status;
}

static enum mt_status store_entries(const struct mt_settings_reader *reader)
{
    enum mt_status status = MT_OK;
    for (const struct mt_settings_entry *entry = reader->entries; entry != NULL && status == MT_OK;
         entry = entry->next) {
        const struct mt_settings_row *row = mt_settings_row_named(entry->name);
        // The objective's keys have no row here, and follow their method.
        if (row == NULL || row->kind == MT_SETTING_METHOD) continue;
        bool sources = row->kind == MT_SETTING_SOURCES || row->kind == MT_SETTING_SOURCE;
        status = sources ? mt_settings_store_sources(reader, entry, row)
                         : mt_settings_store(reader, entry, entry->node, row, row->name, reader->settings);
    }
    return status;
}

/* Without LoRA its keys are as if nobody had set them, and so are those that an adapter decides. */
static enum mt_status reset_lora(const struct mt_settings_reader *reader)
{
    enum mt_status status = MT_OK;
    bool lora = reader->settings->train == MT_TRAIN_LORA;
    if (lora && reader->settings->adapter == NULL) return MT_OK;
    for (int i = 0; mt_settings_row(i) != NULL && status == MT_OK; i++) {
        const struct mt_settings_row *row = mt_settings_row(i);
        bool void_now = lora ? mt_settings_are_the_adapters(row->name) : strncmp(row->name, "lora.", 5) == 0;
        if (!void_now) continue;
        status = mt_settings_store_standard(reader, row, reader->settings);
    }
    if (lora) reader->settings->targets = NULL;
    return status;
}

/* Keys that mean nothing are as if nobody had set them. */
static enum mt_status reset_void(const struct mt_settings_reader *reader)
{
    enum mt_status status = MT_OK;
    for (int i = 0; mt_settings_row(i) != NULL && status == MT_OK; i++) {
        const struct mt_settings_row *row = mt_settings_row(i);
        if (mt_settings_is_void(reader->settings, row->name))
            status = mt_settings_store_standard(reader, row, reader->settings);
    }
    return status;
}

/* Defaults that other keys decide: what LoRA adapts is every linear map of the layers. */
static void store_default_lists(struct mt_train_settings *settings)
{
    static const char *const lora[] = {"model.layers.*", NULL};
    static const char *const full[] = {"*", NULL};
    static const char *const none[] = {NULL};
    if (settings->targets == NULL) settings->targets = settings->train == MT_TRAIN_LORA ? lora : full;
    if (settings->freeze == NULL) settings->freeze = none;
}

enum mt_status mt_train_settings_parse(struct mt_context *ctx, const char *name, const char *text,
                                       size_t bytes, const char *const *words, size_t word_count,
                                       struct mt_arena *arena, struct mt_train_settings *settings)
{
    struct mt_settings_reader reader = {.ctx = ctx, .file = name, .arena = arena, .settings = settings};
    struct mt_yaml_node *root = NULL;
    *settings = (struct mt_train_settings){0};
    enum mt_status status = mt_yaml_parse(ctx, name, text, bytes, &mt_yaml_file_limits, arena, &root);
    if (status == MT_OK) status = mt_settings_take_file(&reader, root);
    for (size_t i = 0; i < word_count && status == MT_OK; i++) {
        status = mt_settings_take_word(&reader, words[i]);
    }
    if (status == MT_OK) status = store_standards(&reader);
    if (status == MT_OK) status = store_entries(&reader);
    if (status == MT_OK) status = reset_lora(&reader);
    if (status == MT_OK) status = mt_settings_store_objective(&reader);
    store_default_lists(settings);
    if (status == MT_OK) status = mt_settings_check(&reader);
    return status == MT_OK ? reset_void(&reader) : status;
}

enum mt_status mt_train_settings_read(struct mt_context *ctx, const char *path, const char *const *words,
                                      size_t word_count, struct mt_arena *arena,
                                      struct mt_train_settings *settings)
{
    void *text = NULL;
    size_t bytes = 0;
    *settings = (struct mt_train_settings){0};
    enum mt_status status = mt_file_read_all(ctx, path, mt_yaml_file_limits.max_bytes, &text, &bytes);
    if (status != MT_OK) return status;
    status = mt_train_settings_parse(ctx, path, text, bytes, words, word_count, arena, settings);
    mt_release(ctx, text, bytes);
    return status;
}
