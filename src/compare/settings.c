/* Settings of a comparison: defaults, the file, the words over it, the grid's methods, what cannot be. */
#include "compare/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "base/nearest.h"
#include "compare/settings_parts.h"
#include "formats/text/printable.h"
#include "ops/choose.h"

#define MOST_ROWS      32
#define NAME_BYTES     64
#define NEAR           4
#define TRAINING_BYTES 9 // of "training."

/* What was given for each row; NULL: nothing. */
struct given {
    const struct mt_yaml_node *node[MOST_ROWS];
};

static int row_named(const char *name)
{
    for (int i = 0; mt_compare_row(i) != NULL; i++) {
        if (strcmp(mt_compare_row(i)->key.name, name) == 0) return i;
    }
    return -1;
}

static bool is_group(const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; mt_compare_row(i) != NULL; i++) {
        const char *key = mt_compare_row(i)->key.name;
        if (strncmp(key, name, length) == 0 && key[length] == '.') return true;
    }
    return false;
}

static enum mt_status refuse_unknown(const struct mt_compare_reader *reader, const struct mt_yaml_node *node,
                                     const char *name)
{
    const char *nearest = NULL;
    int distance = NEAR;
    for (int i = 0; mt_compare_row(i) != NULL; i++) {
        if (mt_nearer(name, mt_compare_row(i)->key.name, &distance)) nearest = mt_compare_row(i)->key.name;
    }
    if (nearest != NULL)
        return mt_compare_fail(reader, node, "there is no key '%s'; did you mean '%s'?",
                               mt_printable(name).text, nearest);
    return mt_compare_fail(reader, node,
                           "there is no key '%s'; keys of metier train belong under training, the others are "
                           "listed by metier compare --keys",
                           mt_printable(name).text);
}

static enum mt_status take_map(const struct mt_compare_reader *reader, const char *prefix,
                               const struct mt_yaml_node *map, struct given *given)
{
    enum mt_status status = MT_OK;
    for (const struct mt_yaml_node *child = map->first; child != NULL && status == MT_OK;
         child = child->next) {
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        int row = row_named(name);
        if (row >= 0) {
            if (given->node[row] != NULL) return mt_compare_fail(reader, child, "'%s' is given twice", name);
            given->node[row] = child;
        } else if (prefix[0] == '\0' && is_group(name) && child->kind == MT_YAML_MAP) {
            status = take_map(reader, name, child, given);
        } else {
            status = refuse_unknown(reader, child, name);
        }
    }
    return status;
}

/* A word replaces what the file says; "training.KEY=VALUE" comes over the file's training. */
static enum mt_status take_word(const struct mt_compare_reader *reader, const char *word, struct given *given)
{
    struct mt_yaml_node *node = NULL;
    char name[NAME_BYTES];
    const char *equals = strchr(word, '=');
    if (equals == NULL || equals == word || (size_t)(equals - word) >= sizeof name)
        return mt_fail(reader->ctx, MT_ERR_USAGE, "unexpected argument '%s'; settings are given as key=value",
                       mt_printable(word).text);
    if (strncmp(word, "training.", TRAINING_BYTES) == 0) return MT_OK;
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - word), word);
    enum mt_status status = mt_yaml_parse(reader->ctx, NULL, equals + 1, strlen(equals + 1),
                                          &mt_yaml_file_limits, reader->arena, &node);
    if (status == MT_ERR_FORMAT)
        return mt_fail_within(reader->ctx, MT_ERR_USAGE, "%s", mt_printable(word).text);
    if (status != MT_OK) return status;
    int row = row_named(name);
    if (row < 0)
        return mt_fail_within(reader->ctx, refuse_unknown(reader, node, name), "%s", mt_printable(word).text);
    given->node[row] = node;
    if (mt_compare_row(row)->kind == MT_KEY_METHODS) reader->settings->methods_over = true;
    return MT_OK;
}

static enum mt_status store_all(const struct mt_compare_reader *reader, const struct given *given,
                                const char *const *words, size_t word_count)
{
    enum mt_status status = MT_OK;
    for (int i = 0; mt_compare_row(i) != NULL && status == MT_OK; i++) {
        if (given->node[i] == NULL) continue;
        status = mt_compare_store(reader, mt_compare_row(i), given->node[i]);
    }
    for (size_t i = 0; i < word_count && status == MT_OK; i++) {
        if (strncmp(words[i], "training.", TRAINING_BYTES) != 0) continue;
        const char *word = words[i] + TRAINING_BYTES;
        status = mt_compare_check_word(reader, NULL, word, false);
        if (status == MT_OK) status = mt_compare_add_word(reader->arena, &reader->settings->training, word);
        if (status == MT_OK)
            status = mt_compare_add_word(reader->arena, &reader->settings->training_over, word);
    }
    return status;
}

// ------------------------------------------------------------------ the grid

static enum mt_status set_coefficient(const struct mt_compare_reader *reader, const char *key, double value,
                                      struct mt_compare_method *method)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%g", value);
    return mt_compare_set_word(reader->arena, &method->words, key, text);
}

/* One point; an axis without values is left as the method has it. */
static enum mt_status add_point(const struct mt_compare_reader *reader, size_t a, size_t b, size_t g)
{
    struct mt_compare_settings *settings = reader->settings;
    const struct mt_compare_grid *grid = &settings->grid;
    struct mt_compare_method *method = &settings->method[settings->methods];
    char name[128];
    char *copy = NULL;
    if (settings->methods == MT_COMPARE_MOST_METHODS)
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: grid makes more than %d methods", settings->file,
                       MT_COMPARE_MOST_METHODS);
    *method = (struct mt_compare_method){
        .in_grid = true, .alpha = grid->alpha[a], .beta = grid->beta[b], .gamma = grid->gamma[g]};
    (void)snprintf(name, sizeof name, "grid-%.40s-a%g-b%g-g%g", grid->method, method->alpha, method->beta,
                   method->gamma);
    enum mt_status status = mt_arena_copy_text(reader->arena, name, strlen(name), &copy);
    method->name = copy;
    if (status == MT_OK) status = mt_compare_set_word(reader->arena, &method->words, "method", grid->method);
    if (status == MT_OK && grid->alphas > 0)
        status = set_coefficient(reader, "objective.alpha", method->alpha, method);
    if (status == MT_OK && grid->betas > 0)
        status = set_coefficient(reader, "objective.beta", method->beta, method);
    if (status == MT_OK && grid->gammas > 0)
        status = set_coefficient(reader, "objective.gamma", method->gamma, method);
    settings->methods++;
    return status;
}

static enum mt_status expand_grid(const struct mt_compare_reader *reader)
{
    const struct mt_compare_grid *grid = &reader->settings->grid;
    enum mt_status status = MT_OK;
    bool axes = grid->alphas + grid->betas + grid->gammas > 0;
    if (grid->method == NULL && !axes) return MT_OK;
    if (grid->method == NULL || !axes)
        return mt_fail(reader->ctx, MT_ERR_USAGE,
                       "%s: a grid needs grid.method and one of grid.alpha, grid.beta, grid.gamma",
                       reader->settings->file);
    size_t alphas = grid->alphas > 0 ? grid->alphas : 1;
    size_t betas = grid->betas > 0 ? grid->betas : 1;
    size_t gammas = grid->gammas > 0 ? grid->gammas : 1;
    for (size_t i = 0; i < alphas * betas * gammas && status == MT_OK; i++)
        status = add_point(reader, i / gammas / betas, i / gammas % betas, i % gammas);
    return status;
}

// ------------------------------------------------------------------ the whole

size_t mt_compare_reference(const struct mt_compare_settings *settings)
{
    size_t index = 0;
    while (index < settings->methods && strcmp(settings->method[index].name, settings->reference) != 0)
        index++;
    return index;
}

static enum mt_status check(const struct mt_compare_reader *reader)
{
    struct mt_compare_settings *settings = reader->settings;
    const char *missing = NULL;
    if (settings->methods == 0) missing = "methods";
    if (settings->trained == 0) missing = "domains";
    if (settings->out == NULL) missing = "out";
    if (settings->model == NULL) missing = "model";
    if (missing != NULL)
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: %s is missing", settings->file, missing);
    if (settings->reference == NULL) settings->reference = settings->method[0].name;
    if (mt_compare_reference(settings) == settings->methods)
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: reference is '%s', which is none of the methods",
                       settings->file, settings->reference);
    return MT_OK;
}

/* Keys of built-in problems mean nothing where every domain has files of its own. */
static enum mt_status check_problems(const struct mt_compare_reader *reader, const struct given *given)
{
    const struct mt_compare_settings *settings = reader->settings;
    for (size_t d = 0; d < settings->domains; d++) {
        if (settings->domain[d].test == NULL) return MT_OK;
    }
    for (int i = 0; mt_compare_row(i) != NULL; i++) {
        const char *name = mt_compare_row(i)->key.name;
        if (given->node[i] == NULL || strncmp(name, "problems.", strlen("problems.")) != 0) continue;
        return mt_compare_fail(reader, given->node[i],
                               "%s means nothing: no domain is built in, all have files; leave it out", name);
    }
    return MT_OK;
}

enum mt_status mt_compare_settings_parse(struct mt_context *ctx, const char *name, const char *text,
                                         size_t bytes, const char *const *words, size_t word_count,
                                         struct mt_arena *arena, struct mt_compare_settings *settings)
{
    struct mt_compare_reader reader = {.ctx = ctx, .arena = arena, .settings = settings};
    struct mt_yaml_node *root = NULL;
    struct given given = {{NULL}};
    *settings = (struct mt_compare_settings){.file = name,
                                             .train_problems = 6000,
                                             .test_problems = 300,
                                             .problem_seed = 1,
                                             .difficulty = 3,
                                             .sample = 1024,
                                             .neighbours = 10,
                                             .device = MT_DEVICE_AUTO};
    enum mt_status status = mt_yaml_parse(ctx, name, text, bytes, &mt_yaml_file_limits, arena, &root);
    if (status == MT_OK && root->kind != MT_YAML_MAP && !mt_yaml_is_nothing(root))
        status = mt_compare_fail(&reader, root, "%s, expected lines of key: value", mt_yaml_kind_text(root));
    if (status == MT_OK) status = take_map(&reader, "", root, &given);
    for (size_t i = 0; i < word_count && status == MT_OK; i++) status = take_word(&reader, words[i], &given);
    if (status == MT_OK) status = store_all(&reader, &given, words, word_count);
    if (status == MT_OK && settings->seeds == 0) settings->seed[settings->seeds++] = 1;
    if (status == MT_OK) status = expand_grid(&reader);
    if (status == MT_OK) status = check(&reader);
    return status == MT_OK ? check_problems(&reader, &given) : status;
}

enum mt_status mt_compare_settings_read(struct mt_context *ctx, const char *path, const char *const *words,
                                        size_t word_count, struct mt_arena *arena,
                                        struct mt_compare_settings *settings)
{
    void *text = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, mt_yaml_file_limits.max_bytes, &text, &bytes);
    if (status != MT_OK) return status;
    status = mt_compare_settings_parse(ctx, path, text, bytes, words, word_count, arena, settings);
    mt_release(ctx, text, bytes);
    return status;
}
