/* metier eval: how a training run wrote conversations is how its adapter or model is asked. */
#define _DEFAULT_SOURCE // realpath
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/eval/eval.h"
#include "formats/text/printable.h"
#include "formats/text/yaml.h"
#include "model/files/carried_files.h"

#define MOST_PATH (PATH_MAX + 64)

/* The text of `data.KEY` in a run's config.yaml; NULL: it says nothing. */
static const char *setting(const struct mt_yaml_node *root, const char *key)
{
    if (root->kind != MT_YAML_MAP) return NULL;
    for (const struct mt_yaml_node *part = root->first; part != NULL; part = part->next) {
        if (part->kind != MT_YAML_MAP || strcmp(part->key, "data") != 0) continue;
        for (const struct mt_yaml_node *node = part->first; node != NULL; node = node->next) {
            if (node->kind == MT_YAML_SCALAR && strcmp(node->key, key) == 0)
                return mt_yaml_is_nothing(node) ? NULL : node->text;
        }
    }
    return NULL;
}

/* The config.yaml of the run that RUN/adapter or RUN/model is the result of; "": there is none. */
static void find_config(const struct infer_settings *infer, char path[MOST_PATH])
{
    char whole[PATH_MAX];
    path[0] = '\0';
    if (realpath(infer->adapter != NULL ? infer->adapter : infer->directory, whole) == NULL) return;
    *strrchr(whole, '/') = '\0';
    (void)snprintf(path, MOST_PATH, "%s/config.yaml", whole);
    if (access(path, R_OK) != 0) path[0] = '\0';
}

/* An adapter that was moved away from its run still has a template in Jinja with it. */
static bool brings_template(const char *adapter)
{
    char path[MOST_PATH];
    int length = adapter != NULL ? snprintf(path, sizeof path, "%s/" MT_CHAT_TEMPLATE_FILE, adapter) : -1;
    return length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0;
}

enum mt_status cli_eval_take_template(struct mt_arena *arena, struct eval_arguments *arguments, bool talks)
{
    struct infer_settings *infer = &arguments->infer;
    char path[MOST_PATH];
    struct mt_yaml_node *root = NULL;
    if (infer->directory == NULL || infer->template_name != NULL) return MT_OK;
    find_config(infer, path);
    if (path[0] != '\0') {
        enum mt_status status = mt_yaml_read(arena->ctx, path, &mt_yaml_file_limits, arena, &root);
        if (status != MT_OK)
            return mt_fail_within(arena->ctx, status,
                                  "cannot tell which template the run was trained with; --template says so");
        infer->template_name = setting(root, "template");
    }
    if (infer->template_name == NULL) {
        if (brings_template(infer->adapter)) infer->template_name = "model";
        return MT_OK;
    }
    arguments->template_taken = true;
    const char *options = setting(root, "template_options");
    if (options != NULL && infer->template_options.count == 0) {
        infer->template_options = (struct cli_list){.item = {options}, .count = 1};
        infer->options_taken = true;
    }
    const char *date = setting(root, "template_date");
    if (date != NULL) infer->template_date = date;
    if (talks && !arguments->quiet)
        (void)fprintf(stderr, "template: %s, as in %s (--template none: plain texts)\n",
                      mt_printable(infer->template_name).text, mt_printable(path).text);
    return MT_OK;
}
