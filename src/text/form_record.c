/* text_form.json, both ways. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "formats/text/json.h"
#include "text/text_form.h"

#define VERSION    1
#define MOST_NAME  128
#define MOST_WORDS 4096

static const struct mt_json_limits limits = {.max_bytes = 1 << 20, .max_values = 256, .max_depth = 4};
static const char *const bos_names[MT_BOS_RULES] = {"tokenizer", "yes", "no"};

enum mt_bos_rule mt_example_beginning(const struct mt_example *example, const struct mt_special_ids *special)
{
    bool begins = special->bos >= 0 && example->ids.count > 0 && example->ids.data[0] == special->bos;
    return begins ? MT_BOS_YES : MT_BOS_NO;
}

// ------------------------------------------------------------------ writing

static void put_text(struct mt_json_text *text, const char *key, const char *value)
{
    if (value == NULL) return;
    mt_json_text_format(text, ",\n \"%s\": ", key);
    mt_json_text_string(text, value);
}

/* A file's name without its folder, in plain characters. */
static void put_name(struct mt_json_text *text, const char *name)
{
    char plain[MOST_NAME + 1];
    size_t count = 0;
    for (const char *at = mt_text_form_short(name); *at != '\0' && count < MOST_NAME; at++, count++)
        plain[count] = *at > ' ' && *at < 0x7F && (count > 0 || *at != '.') ? *at : '_';
    plain[count] = '\0';
    put_text(text, "template", count > 0 ? plain : "_");
}

enum mt_status mt_form_record_put(struct mt_json_text *text, const struct mt_form_record *record)
{
    mt_json_text_format(text, "{\n \"text_form\": %d", VERSION);
    put_name(text, record->name);
    put_text(text, "options", record->options);
    put_text(text, "date", record->date);
    put_text(text, "rows", !record->texts ? "answers" : record->answers ? "both" : "texts");
    put_text(text, "bos", bos_names[record->bos]);
    return mt_json_text_format(text, ",\n \"space\": %s\n}\n", record->spaced ? "true" : "false");
}

// ------------------------------------------------------------------ reading

static enum mt_status take_text(struct mt_arena *arena, const struct mt_json_node *root, const char *key,
                                size_t most, const char **text)
{
    const char *found = NULL;
    enum mt_status status = mt_json_optional_string(root, key, &found);
    *text = NULL;
    if (status != MT_OK || found == NULL) return status;
    if (strlen(found) > most) return mt_json_fail(root, "has %s of more than %zu bytes", key, most);
    return mt_arena_copy_text(arena, found, strlen(found), text);
}

/* A name is shown to people and looked for among templates: it leads to no other folder. */
static enum mt_status check_name(const struct mt_json_node *root, const char *name)
{
    bool sound = name != NULL && name[0] != '\0' && name[0] != '.';
    for (const char *at = name; sound && *at != '\0'; at++) sound = *at > ' ' && *at < 0x7F && *at != '/';
    return sound ? MT_OK : mt_json_fail(root, "does not name a template");
}

static enum mt_status take_rows(const struct mt_json_node *root, struct mt_form_record *record)
{
    const char *rows = NULL;
    const char *bos = bos_names[MT_BOS_TOKENIZER];
    enum mt_status status = mt_json_get_string(root, "rows", &rows);
    if (status == MT_OK) status = mt_json_optional_string(root, "bos", &bos);
    if (status == MT_OK) status = mt_json_optional_bool(root, "space", &record->spaced);
    if (status != MT_OK) return status;
    bool both = strcmp(rows, "both") == 0;
    record->answers = both || strcmp(rows, "answers") == 0;
    record->texts = both || strcmp(rows, "texts") == 0;
    record->bos = mt_bos_rule_named(bos);
    if (!record->answers && !record->texts)
        return mt_json_fail(root, "has rows that are not answers, texts or both");
    if (record->bos == MT_BOS_RULES) return mt_json_fail(root, "has a bos that is not tokenizer, yes or no");
    return MT_OK;
}

static enum mt_status take_all(struct mt_arena *arena, const struct mt_json_node *root,
                               struct mt_form_record *record)
{
    int64_t version = 0;
    enum mt_status status = mt_json_expect_object(root);
    if (status == MT_OK) status = mt_json_get_integer(root, "text_form", 1, INT32_MAX, &version);
    if (status == MT_OK && version > VERSION)
        return mt_json_fail(root, "has the text_form %lld: a newer metier wrote it", (long long)version);
    const char *name = NULL;
    const char *keys = NULL;
    if (status == MT_OK) status = take_text(arena, root, "template", MOST_NAME, &name);
    if (status == MT_OK) status = check_name(root, name);
    if (status == MT_OK) status = take_text(arena, root, "keys", (size_t)1 << 16, &keys);
    if (status == MT_OK) status = take_text(arena, root, "options", MOST_WORDS, &record->options);
    if (status == MT_OK) status = take_text(arena, root, "date", MOST_NAME, &record->date);
    if (status == MT_OK) status = take_rows(root, record);
    record->name = name;
    record->keys = keys != NULL;
    return status;
}

enum mt_status mt_form_record_read(struct mt_arena *arena, const char *folder, struct mt_form_record *record,
                                   const char **path)
{
    struct mt_json json = {0};
    struct stat info;
    char *joined = NULL;
    *record = (struct mt_form_record){0};
    *path = NULL;
    enum mt_status status = mt_path_join(arena->ctx, folder, MT_TEXT_FORM_FILE, &joined);
    if (status == MT_OK && stat(joined, &info) == 0) {
        status = mt_arena_copy_text(arena, joined, strlen(joined), path);
        if (status == MT_OK) status = mt_json_read(arena->ctx, *path, &limits, &json);
        if (status == MT_OK) {
            struct mt_json_node root = mt_json_root(&json);
            status = take_all(arena, &root, record);
        }
        mt_json_free(&json);
    }
    mt_path_release(arena->ctx, joined);
    return status;
}
