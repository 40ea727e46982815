/* Settings as a card shows them. */
#include <string.h>

#include "model/files/card.h"
#include "train/settings/settings.h"

#define STANDARD_BYTES 256

/* A path becomes a name. */
static enum mt_status shorten(struct mt_arena *arena, const char **path)
{
    return *path != NULL ? mt_card_name(arena, *path, path) : MT_OK;
}

/* A copy in which files and folders are names. */
static enum mt_status shorten_all(struct mt_arena *arena, struct mt_train_settings *settings)
{
    const char **const paths[] = {&settings->model,   &settings->tokenizer, &settings->experts,
                                  &settings->adapter, &settings->choices,   &settings->template_name};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && status == MT_OK; i++)
        status = shorten(arena, paths[i]);
    struct mt_train_source *sources = mt_arena_array(arena, settings->source_count, sizeof *sources, &status);
    for (size_t i = 0; i < settings->source_count && status == MT_OK; i++) {
        sources[i] = settings->sources[i];
        status = shorten(arena, &sources[i].path);
    }
    settings->sources = sources;
    return status;
}

/* What the settings would be with this method and kind of training, and nothing else said. */
static enum mt_status read_standard(struct mt_context *ctx, const struct mt_train_settings *settings,
                                    struct mt_arena *arena, struct mt_train_settings *standard)
{
    char text[STANDARD_BYTES];
    struct mt_key method;
    struct mt_byte_list word = {.ctx = ctx};
    bool found = mt_key_find(&mt_train_keys, "method", &method);
    enum mt_status status = found ? mt_key_append(&method, settings, &word) : MT_OK;
    int length = snprintf(text, sizeof text, "model: m\nout: o\ndata.path: d\ntrain: %s\nmethod: %.*s\n",
                          settings->train == MT_TRAIN_FULL ? "full" : "lora", (int)word.count,
                          word.count > 0 ? (const char *)word.data : MT_TRAIN_DEFAULT_METHOD);
    if (status == MT_OK)
        status = mt_train_settings_read(ctx, "the standard", text, (size_t)length, NULL, 0, arena, standard);
    mt_byte_list_free(&word);
    return status;
}

static bool is_same(const struct mt_byte_list *one, const struct mt_byte_list *other)
{
    return one->count == other->count && (one->count == 0 || memcmp(one->data, other->data, one->count) == 0);
}

/* "key: value"; elements of a list stand in lines of their own. */
static enum mt_status append_line(struct mt_byte_list *text, const char *key,
                                  const struct mt_byte_list *value)
{
    bool list = value->count > 1 && value->data[0] == '-' && value->data[1] == ' ';
    enum mt_status status = mt_byte_list_append_text(text, key);
    if (status == MT_OK) status = mt_byte_list_append_text(text, list ? ":\n    " : ": ");
    for (size_t i = 0; i < value->count && status == MT_OK; i++) {
        bool more = i + 1 < value->count;
        if (!more && value->data[i] == '\n') break;
        status = mt_byte_list_append(text, value->data + i, 1);
        if (status == MT_OK && list && value->data[i] == '\n')
            status = mt_byte_list_append_text(text, "    ");
    }
    return status == MT_OK ? mt_byte_list_append_text(text, "\n") : status;
}

enum mt_status mt_train_settings_brief(struct mt_context *ctx, const struct mt_train_settings *settings,
                                       struct mt_arena *arena, const char **text)
{
    struct mt_train_settings brief = *settings;
    struct mt_train_settings standard;
    struct mt_byte_list whole = {.ctx = ctx};
    struct mt_byte_list value = {.ctx = ctx};
    struct mt_byte_list usual = {.ctx = ctx};
    struct mt_key key = {0};
    enum mt_status status = shorten_all(arena, &brief);
    if (status == MT_OK) status = read_standard(ctx, settings, arena, &standard);
    while (status == MT_OK && mt_key_next(&mt_train_keys, &key)) {
        bool method = strcmp(key.name, "method") == 0;
        if (!mt_key_is_written(&key) || key.row->may_differ) continue;
        value.count = usual.count = 0;
        status = mt_key_append(&key, &brief, &value);
        if (status == MT_OK) status = mt_key_append(&key, &standard, &usual);
        if (status != MT_OK || (is_same(&value, &usual) && !method)) continue;
        status = append_line(&whole, key.name, &value);
    }
    if (status == MT_OK) status = mt_arena_copy_text(arena, (const char *)whole.data, whole.count, text);
    mt_byte_list_free(&whole);
    mt_byte_list_free(&value);
    mt_byte_list_free(&usual);
    return status;
}
