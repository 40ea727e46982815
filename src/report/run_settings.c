/* config.yaml of a run, as keys and values. */
#include <stdio.h>
#include <string.h>

#include "formats/text/yaml.h"
#include "report/run.h"

#define KEY_BYTES   512
#define VALUE_BYTES 1024
#define MOST_DEPTH  16

/* The end of the list of settings. */
struct cursor {
    struct mt_run *run;
    struct mt_run_setting **end;
};

static enum mt_status add(struct cursor *cursor, const char *key, const char *value)
{
    struct mt_arena *arena = &cursor->run->arena;
    void *memory = NULL;
    char *key_copy = NULL;
    char *value_copy = NULL;
    enum mt_status status = mt_arena_allocate(arena, sizeof(struct mt_run_setting), &memory);
    if (status == MT_OK) status = mt_arena_copy_text(arena, key, strlen(key), &key_copy);
    if (status == MT_OK) status = mt_arena_copy_text(arena, value, strlen(value), &value_copy);
    if (status != MT_OK) return status;
    struct mt_run_setting *setting = memory;
    *setting = (struct mt_run_setting){.key = key_copy, .value = value_copy};
    *cursor->end = setting;
    cursor->end = &setting->next;
    return MT_OK;
}

/* A list of plain texts, "a, b"; false when it holds anything else. */
static bool join(const struct mt_yaml_node *list, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct mt_yaml_node *item = list->first; item != NULL; item = item->next) {
        if (item->kind != MT_YAML_SCALAR) return false;
        int wrote = snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "", item->text);
        if (wrote < 0) return false;
        used += (size_t)wrote;
        if (used >= bytes) return true; // cut
    }
    return true;
}

// The parser bounds the nesting (mt_yaml_file_limits), and with it the recursion.
static enum mt_status flatten(struct cursor *cursor, const struct mt_yaml_node *node, const char *prefix,
                              int depth)
{
    char key[KEY_BYTES];
    char value[VALUE_BYTES];
    size_t index = 0;
    enum mt_status status = MT_OK;
    if (node->kind == MT_YAML_SCALAR) return add(cursor, prefix, node->text);
    if (depth == MOST_DEPTH) return MT_OK;
    if (node->kind == MT_YAML_LIST && join(node, value, sizeof value)) return add(cursor, prefix, value);
    for (const struct mt_yaml_node *child = node->first; child != NULL && status == MT_OK;
         child = child->next) {
        if (child->key != NULL) {
            (void)snprintf(key, sizeof key, "%.240s%s%.240s", prefix, prefix[0] != '\0' ? "." : "",
                           child->key);
        } else {
            (void)snprintf(key, sizeof key, "%.240s[%zu]", prefix, index);
        }
        index++;
        status = flatten(cursor, child, key, depth + 1);
    }
    return status;
}

enum mt_status mt_run_read_settings(struct mt_run *run, const char *path)
{
    struct mt_yaml_node *root = NULL;
    struct cursor cursor = {.run = run, .end = &run->settings};
    enum mt_status status = mt_yaml_read(run->ctx, path, &mt_yaml_file_limits, &run->arena, &root);
    return status == MT_OK ? flatten(&cursor, root, "", 0) : status;
}
