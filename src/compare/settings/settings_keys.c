/* The keys of a comparison: one row each, and how lists of models, methods and seeds are read. */
#include <stddef.h>
#include <string.h>

#include "compare/settings/settings_read.h"
#include "formats/text/printable.h"
#include "objective/options.h"
#include "train/settings/foreign.h"
#include "train/settings/settings.h"

#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-"
#define MOST_NAME       64

_Static_assert(sizeof(enum mt_compare_ranks) == sizeof(int), "choices are stored as int");
_Static_assert(sizeof(enum mt_compare_draw) == sizeof(int), "choices are stored as int");
_Static_assert(sizeof(enum mt_compare_keep) == sizeof(int), "choices are stored as int");

#define AT(field)    offsetof(struct mt_compare_settings, field)
#define MODEL(field) offsetof(struct mt_compare_model, field)

enum mt_status mt_compare_check_name(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const char *what, const char *name)
{
    size_t length = strlen(name);
    if (length > 0 && length <= MOST_NAME && strspn(name, NAME_CHARACTERS) == length && name[0] != '.')
        return MT_OK;
    return mt_key_fail(reader, entry, NULL, "%s is '%s', expected letters, digits and . _ + -, at most %d",
                       what, mt_printable(name).text, MOST_NAME);
}

enum mt_status mt_compare_read_name(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    const char *what, const struct mt_yaml_node *node, const char **name)
{
    struct mt_key_entry here = *entry;
    here.node = node;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node) || node->text[0] == '\0')
        return mt_key_fail(reader, &here, NULL, "%s is %s, expected a text", what, mt_yaml_kind_text(node));
    *name = node->text;
    return mt_compare_check_name(reader, &here, what, *name);
}

// ------------------------------------------------------------------ models

static const struct mt_key_row model_rows[] = {
    {"name", MT_KEY_NAME, MODEL(name), "NAME", "required",
     .meaning = "name of the model, usable as a file name"},
    {"path", MT_KEY_NAME, MODEL(path), "FOLDER", "required", .meaning = "folder of the model"},
    {0},
};

static const struct mt_key_part model_parts[] = {{.rows = model_rows}, {0}};
static const struct mt_keys model_keys = {.parts = model_parts, .what = "a model has"};

/* The last part of a path, in the arena. */
static enum mt_status name_of_path(const struct mt_keys_reader *reader, const char *path, const char **name)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    return mt_arena_copy_text(reader->arena, path + start, end - start, name);
}

static enum mt_status add_model(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_NAME, .values = "FOLDER"};
    struct mt_compare_settings *settings = target;
    struct mt_compare_model model = {0};
    enum mt_status status = MT_OK;
    if (settings->models == MT_COMPARE_MOST_MODELS)
        return mt_key_fail(reader, entry, NULL, "more than %d models", MT_COMPARE_MOST_MODELS);
    if (entry->node->kind == MT_YAML_MAP) {
        struct mt_keys_reader members = mt_keys_reader_within(reader, &model_keys, &model);
        status = mt_keys_read_map(&members, entry->node, entry->word);
        if (status == MT_OK && model.path == NULL)
            status = mt_key_fail(reader, entry, NULL, "a model needs path");
    } else {
        struct mt_key_entry folder = *entry;
        folder.row = &row;
        status = mt_key_store(reader, &folder, &model.path);
    }
    if (status == MT_OK && model.name == NULL) status = name_of_path(reader, model.path, &model.name);
    // One model names no cell.
    if (status == MT_OK && strcmp(entry->name, "models") == 0)
        status = mt_compare_check_name(reader, entry, "the name of a model", model.name);
    for (size_t i = 0; i < settings->models && status == MT_OK; i++) {
        if (strcmp(settings->model[i].name, model.name) == 0)
            status = mt_key_fail(reader, entry, NULL,
                                 "two models are called %s; give {name: N, path: FOLDER}", model.name);
    }
    if (status == MT_OK) settings->model[settings->models++] = model;
    return status;
}

// ------------------------------------------------------------------ methods

static enum mt_status set_grid_method(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                      void *target)
{
    struct mt_compare_settings *settings = target;
    return mt_compare_read_name(reader, entry, entry->name, entry->node, &settings->grid.method);
}

static enum mt_status add_method(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target)
{
    struct mt_compare_settings *settings = target;
    struct mt_compare_method method = {0};
    const struct mt_yaml_node *name = entry->node;
    bool map = name->kind == MT_YAML_MAP;
    if (settings->methods == MT_COMPARE_MOST_METHODS)
        return mt_key_fail(reader, entry, NULL, "more than %d methods", MT_COMPARE_MOST_METHODS);
    if (map) {
        name = entry->node->first;
        while (name != NULL && strcmp(name->key, "name") != 0) name = name->next;
    }
    if (name == NULL) return mt_key_fail(reader, entry, NULL, "a method without a name");
    enum mt_status status =
        mt_compare_read_name(reader, entry, map ? "name" : "a method", name, &method.name);
    if (status == MT_OK) status = mt_compare_set_word(reader->arena, &method.words, "method", method.name);
    // A map's other keys are those of metier train.
    if (status == MT_OK && map) status = mt_compare_take_words(reader, entry, true, &method.words);
    if (status == MT_OK && strcmp(method.name, "base") == 0)
        status = mt_key_fail(reader, entry, NULL,
                             "a method is called base, as tables call the model before training");
    for (size_t i = 0; i < settings->methods && status == MT_OK; i++) {
        if (strcmp(settings->method[i].name, method.name) == 0)
            status = mt_key_fail(reader, entry, NULL, "the method %s comes twice", method.name);
    }
    if (status == MT_OK) settings->method[settings->methods++] = method;
    return status;
}

// ------------------------------------------------------------------ numbers, training

/* An element of a list by the kind of a row. */
static enum mt_status read_element(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   const struct mt_key_row *row, void *value)
{
    struct mt_key_entry element = *entry;
    element.row = row;
    return mt_key_store(reader, &element, value);
}

static enum mt_status add_seed(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                               void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_WHOLE, .values = "WHOLE NUMBERS >= 0"};
    struct mt_compare_settings *settings = target;
    int64_t seed = 0;
    if (settings->seeds == MT_COMPARE_MOST_SEEDS)
        return mt_key_fail(reader, entry, NULL, "more than %d seeds", MT_COMPARE_MOST_SEEDS);
    enum mt_status status = read_element(reader, entry, &row, &seed);
    for (size_t i = 0; status == MT_OK && i < settings->seeds; i++) {
        if (settings->seed[i] == (uint64_t)seed)
            status = mt_key_fail(reader, entry, NULL, "the seed %lld comes twice", (long long)seed);
    }
    if (status == MT_OK) settings->seed[settings->seeds++] = (uint64_t)seed;
    return status;
}

static enum mt_status add_grid_value(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_NUMBER, .values = "NUMBERS >= 0"};
    struct mt_compare_axis *axis = (void *)((char *)target + entry->row->offset);
    double value = 0.0;
    enum mt_status status = read_element(reader, entry, &row, &value);
    if (status != MT_OK) return status;
    if (axis->count == MT_COMPARE_MOST_GRID)
        return mt_key_fail(reader, entry, NULL, "%s has more than %d values", entry->name,
                           MT_COMPARE_MOST_GRID);
    for (size_t i = 0; i < axis->count; i++) {
        if (axis->value[i] == value)
            return mt_key_fail(reader, entry, NULL, "%s has %g twice", entry->name, value);
    }
    axis->value[axis->count++] = value;
    return MT_OK;
}

static enum mt_status set_training(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   void *target)
{
    struct mt_compare_settings *settings = target;
    if (mt_yaml_is_nothing(entry->node)) return MT_OK;
    if (entry->node->kind != MT_YAML_MAP)
        return mt_key_fail(reader, entry, NULL, "training is %s, expected keys of metier train",
                           mt_yaml_kind_text(entry->node));
    return mt_compare_take_words(reader, entry, false, &settings->training);
}

// ------------------------------------------------------------------ the table

static const struct mt_key_row rows[] = {
    {"model", MT_KEY_OWN, 0, "FOLDER", "required", .meaning = "the model every cell starts from",
     .set = add_model, .members = &model_keys},
    {"models", MT_KEY_EACH, 0, "FOLDERS", "none",
     .meaning = "several models: folders, or maps {name: N, path: FOLDER}; each is compared by itself",
     .instead = "model", .set = add_model, .members = &model_keys},
    {"out", MT_KEY_NAME, AT(out), "FOLDER", "required",
     .meaning = "where cells, compare.json and report.html go"},
    {"methods", MT_KEY_EACH, 0, "NAMES", "required",
     .meaning =
         "methods of metier objective --methods, or maps {name: N, method: M, KEY: VALUE ...} with keys of "
         "metier train",
     .also = "method", .set = add_method, .name_at = mt_method_name},
    {"reference", MT_KEY_TEXT, AT(reference), "NAME", "the first of methods",
     .meaning = "the method the others are compared with"},
    {"seeds", MT_KEY_EACH, 0, "NUMBERS", "[1]", .meaning = "train each method once with each seed",
     .also = "seed", .set = add_seed},
    {"domains", MT_KEY_EACH, 0, "NAMES", "required",
     .meaning = "domains to train on: built-in ones (metier synth), or maps {name: N, train: FILE, test: "
                "FILE}, or {name: N, recipe: NAME} (metier recipe); without test a tenth is held out; {name: "
                "N, of: [math, code]}: several at once, measured separately",
     .set = mt_compare_add_domain, .members = &mt_compare_domain_keys},
    {"others", MT_KEY_EACH, 0, "NAMES", "none",
     .meaning = "other domains to measure: built-in ones, or maps {name: N, test: FILE}",
     .set = mt_compare_add_domain, .members = &mt_compare_domain_keys},
    {"training", MT_KEY_OWN, 0, "KEYS", "none", .meaning = "keys of metier train, for every cell",
     .set = set_training, .members = &mt_train_keys},
    {"problems.train", MT_KEY_WHOLE, AT(train_problems), "WHOLE NUMBER >= 1", "6000",
     .meaning = "built-in problems of a domain, or rows of a recipe, to train on", .most = 1e7},
    {"problems.test", MT_KEY_WHOLE, AT(test_problems), "WHOLE NUMBER >= 1", "300",
     .meaning = "built-in problems of a domain to measure with, or maximum of held-out rows", .most = 1e6},
    {"problems.seed", MT_KEY_WHOLE, AT(problem_seed), "WHOLE NUMBER >= 0", "1",
     .meaning = "seed of the built-in problems and of a recipe's draws"},
    {"problems.draw", MT_KEY_CHOICE, AT(draw), "once|seed", "once",
     .meaning = "training rows: the same for all seeds, or drawn for each by problems.seed + seed; held-out "
                "rows stay the same"},
    {"problems.difficulty", MT_KEY_WHOLE, AT(difficulty), "1 to 5", "3",
     .meaning = "difficulty of the built-in problems"},
    {"allow_read_rows", MT_KEY_FLAG, AT(allow_read_rows), "true|false", "false",
     .meaning = "also train on rows that a model has read (its rows_read.hashes); false: refuse files with "
                "such rows, and draw others"},
    {"analysis.sample", MT_KEY_WHOLE, AT(sample), "WHOLE NUMBER >= 16", "1024",
     .meaning = "vectors kept per layer, for overlap, silhouette, PCA", .most = 1 << 20},
    {"analysis.neighbours", MT_KEY_WHOLE, AT(neighbours), "WHOLE NUMBER >= 1", "10",
     .meaning = "number of neighbours for the overlap", .most = 4096},
    {"analysis.agreement", MT_KEY_FLAG, AT(agreement), "true|false", "false",
     .meaning = "for quantised cells: share of tokens that choose the same experts as with unquantised "
                "weights; needs the memory of these"},
    {"grid.method", MT_KEY_OWN, 0, "NAME", "none",
     .meaning = "a method whose coefficients the sensitivity grid varies", .set = set_grid_method,
     .name_at = mt_method_name},
    {"grid.alpha", MT_KEY_EACH, AT(grid.alpha), "NUMBERS", "as the method has it",
     .meaning = "strengths of L_aux", .set = add_grid_value},
    {"grid.beta", MT_KEY_EACH, AT(grid.beta), "NUMBERS", "as the method has it",
     .meaning = "strengths of L_o", .set = add_grid_value},
    {"grid.gamma", MT_KEY_EACH, AT(grid.gamma), "NUMBERS", "as the method has it",
     .meaning = "strengths of L_v", .set = add_grid_value},
    {"device", MT_KEY_NAME, AT(device), "NAME", "auto",
     .meaning = "where to compute (metier devices lists devices); auto: cuda-bf16 with a GPU, else cpu"},
    {"threads", MT_KEY_WHOLE, AT(threads), "WHOLE NUMBER >= 0", "0",
     .meaning = "number of threads; 0: all the machine has", .most = 4096},
    {"ranks", MT_KEY_CHOICE, AT(ranks), "share|each", "share",
     .meaning = "ranks of mpirun share the cells, or train each cell together"},
    {"keep", MT_KEY_CHOICE, AT(keep), "runs|figures", "runs",
     .meaning = "what to keep of a finished cell: its run with the adapter, or only its figures"},
    {0},
};

static const struct mt_key_part parts[] = {
    {.rows = rows}, {.rows = mt_compare_asking_rows}, {.rows = mt_compare_task_rows}, {0}};

const struct mt_keys mt_compare_keys = {
    .parts = parts,
    .foreign = mt_train_foreign,
    .hint = "keys of metier train belong under training, the others are listed by metier compare --keys",
};
