/*
 * Every key of every kind of file, given what a file can say and nobody means: nothing, empty texts and
 * lists, lists for texts and texts for lists, numbers beyond any, marks of YAML and of templates, very long
 * texts. Each is refused with a sentence, or can be used. The tables of keys say which keys there are, so
 * that a new one is tried without a line here. Tests src/formats/keys.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/settings/settings.h"
#include "recipe/recipe.h"
#include "support/cmocka_all.h"
#include "support/settings_use.h"
#include "train/settings/settings.h"

#define LONG_BYTES 5000 // of a text that is longer than any buffer of a message
#define TEXT_BYTES 16384

static const char *const values[] = {
    "",
    "\"\"",
    "''",
    "|",
    ">",
    "|\n  \n",
    "~",
    "null",
    "' '",
    "\"\\n\"",
    "[]",
    "{}",
    "[~]",
    "['']",
    "[' ']",
    "[[]]",
    "[{}]",
    "[[a]]",
    "{a: b}",
    "{'': ''}",
    "[a, a]",
    "[a, [b]]",
    "[a, {b: c}]",
    "&x y",
    "*x",
    "!!int 3",
    "0",
    "-1",
    "1e999",
    "1e-999",
    "99999999999999999999",
    "18446744073709551615",
    "9223372036854775807",
    "2147483648",
    "0x10",
    ".nan",
    "nan",
    "inf",
    "-0",
    "1.5",
    "'1'",
    "true",
    "yes",
    "none",
    "auto",
    "\"\\e[31m\\a\"",
    "\"\\u202e\\u009b\"",
    "\"\\0\"",
    "\"\\ud800\"",
    "'{'",
    "'}'",
    "'{}'",
    "'{{}}'",
    "'{a|after:}'",
    "'{a|none}'",
    "'{question|option:n}'",
    "'{subtask}'",
    "'{choices}'",
    "'{letter}'",
    "','",
    "'a,,b'",
    "' ,a'",
    "'='",
    "'a=,=b'",
    "/",
    "a/",
    "/.yaml",
    ".",
    "..",
    "'%s%n'",
    "n 1-2",
    "n 2-1",
    "'n is '",
    "[regex: '(']",
    "[regex: '(a+)+$']",
    "[words: []]",
    "[words: [~]]",
    "[regex: [a]]",
    "[boxed: x]",
    "[acc, acc, acc, acc, acc]",
    "[pass]",
    "a: b: c",
    "\"",
    "[",
    "- a",
    "\t",
};

/* A file that is fine, a line for each key. Lines of other keys stay when a key is given another value. */
struct base {
    const char *lines[12];
};

static const struct base tasks[] = {
    {{"title: t", "domain: math", "data: d.jsonl", "prompt: '{question}'", "answer: '{answer}'"}},
    {{"title: t", "domain: math", "data: d.jsonl", "prompt: '{question}'", "answer: '{answer}'",
      "kind: choose", "choices: [a, b]", "few_shot: 1", "few_shot_data: d.jsonl", "shuffle: true"}},
    {{"title: t", "domain: math", "data: d.jsonl", "prompt: '{question}'", "answer: '{answer}'",
      "kind: choose", "choice_fields: [x, y]"}},
    {{"title: t", "domain: code", "data: d.jsonl", "prompt: '{question}'", "answer: '{answer}'",
      "compare: code", "program: '{completion}'", "tests: '{answer}'", "metrics: [pass]", "samples: 4"}},
    {{"title: t", "domain: math", "members: [a, b]"}},
};

static const struct base recipes[] = {
    {{"title: t", "task: t", "data: d.jsonl", "response: '{answer}'"}},
    {{"title: t", "data: d.jsonl", "response: '{answer}'", "prompt: '{question}'", "domain: math"}},
    {{"title: t", "sources: [a, {recipe: b, count: 3}]", "count: 9"}},
};

static const struct base comparisons[] = {
    {{"model: m", "out: o", "methods: [aux, paper]", "domains: [math, {name: law, recipe: r}]"}},
    {{"models: [m, n]", "out: o", "methods: [aux]", "domains: [{name: law, train: l.jsonl, test: k.jsonl}]",
      "tasks: [gsm8k]", "grid.method: paper", "grid.alpha: [0.1]"}},
};

static const struct base trainings[] = {
    {{"model: m", "out: o", "data.sources: [{path: a.jsonl, weight: 2}]", "method: paper",
      "evaluation.split: 0.1"}},
};

/* Reads and writes a training run's settings, which must read back. */
static bool use_training(const char *text, size_t bytes, char *why, size_t why_bytes)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_train_settings settings;
    const char *written = NULL;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, TEXT_BYTES);
    enum mt_status status = mt_train_settings_read(&ctx, "t.yaml", text, bytes, NULL, 0, &arena, &settings);
    assert_true(status == MT_OK || ctx.message[0] != '\0');
    (void)snprintf(why, why_bytes, "%s", ctx.message);
    if (status == MT_OK) {
        assert_int_equal(mt_train_settings_text(&ctx, &settings, &arena, &written), MT_OK);
        assert_int_equal(
            mt_train_settings_read(&ctx, "again", written, strlen(written), NULL, 0, &arena, &settings),
            MT_OK);
    }
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
    return status == MT_OK;
}

// ------------------------------------------------------------------ one key

static bool is_line_of(const char *line, const char *key)
{
    size_t length = strlen(key);
    return strncmp(line, key, length) == 0 && line[length] == ':';
}

/* The base with "key: value" in place of the key's line; an element's key stands in a list of one map. */
static void compose(const struct base *base, const struct mt_key *key, const char *value,
                    char text[TEXT_BYTES])
{
    const char *member = strstr(key->name, "[].");
    char name[MT_KEY_NAME_BYTES];
    int length = member != NULL ? (int)(member - key->name) : (int)strlen(key->name);
    (void)snprintf(name, sizeof name, "%.*s", length, key->name);
    size_t used = 0;
    for (size_t i = 0; i < 12 && base->lines[i] != NULL; i++) {
        const char *instead = key->row->instead;
        if (is_line_of(base->lines[i], name) || (instead != NULL && is_line_of(base->lines[i], instead)))
            continue;
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s\n", base->lines[i]);
    }
    const char *first = key->part->rows[0].name; // what an element cannot do without
    if (member == NULL) {
        (void)snprintf(text + used, TEXT_BYTES - used, "%s: %s\n", name, value);
    } else if (strcmp(member + 3, first) == 0) {
        (void)snprintf(text + used, TEXT_BYTES - used, "%s:\n  - %s: %s\n", name, first, value);
    } else {
        (void)snprintf(text + used, TEXT_BYTES - used, "%s:\n  - %s: a\n    %s: %s\n", name, first,
                       member + 3, value);
    }
}

/* A sentence: its place first, and nothing that drives a terminal. */
static void expect_sentence(const char *text, const char *why)
{
    bool good = strncmp(why + 1, ".yaml:", 6) == 0 && strlen(why) > 12;
    for (const char *at = why; *at != '\0'; at++) good = good && (unsigned char)*at >= 0x20 && *at != 0x7F;
    if (!good) print_message("%s\nis refused as: %s\n", text, why);
    assert_true(good);
}

static void try_key(const struct base *base, const struct mt_key *key, const char *value, settings_use *use)
{
    char text[TEXT_BYTES];
    char why[MT_MESSAGE_BYTES];
    compose(base, key, value, text);
    if (!use(text, strlen(text), why, sizeof why)) expect_sentence(text, why);
}

/* Twice is never meant. */
static void try_twice(const struct base *base, const struct mt_key *key, settings_use *use)
{
    char text[TEXT_BYTES];
    char why[MT_MESSAGE_BYTES];
    compose(base, key, "1", text);
    size_t used = strlen(text);
    (void)snprintf(text + used, TEXT_BYTES - used, "%s: 1\n", key->name);
    assert_false(use(text, strlen(text), why, sizeof why));
    expect_sentence(text, why);
}

static void try_table(const struct mt_keys *keys, const struct base *bases, size_t count, settings_use *use)
{
    char many[LONG_BYTES + 8] = "[";
    char text[LONG_BYTES + 1];
    char why[MT_MESSAGE_BYTES];
    struct mt_key key = {0};
    size_t tried = 0;
    memset(text, 'x', LONG_BYTES);
    text[LONG_BYTES] = '\0';
    for (size_t i = 1; i + 8 < LONG_BYTES; i += 6) (void)snprintf(many + i, 8, "%4zu, ", i);
    (void)strcat(many, "1]");
    for (size_t b = 0; b < count; b++) {
        const struct mt_key none = {.part = keys->parts, .row = keys->parts->rows, .name = "none"};
        char fine[TEXT_BYTES];
        compose(&bases[b], &none, "", fine);
        fine[strlen(fine) - strlen("none: \n")] = '\0';
        if (!use(fine, strlen(fine), why, sizeof why)) fail_msg("%s\nis refused: %s", fine, why);
        while (mt_key_next(keys, &key)) {
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
                try_key(&bases[b], &key, values[v], use);
            try_key(&bases[b], &key, text, use);
            try_key(&bases[b], &key, many, use);
            if (!key.part->of_elements) try_twice(&bases[b], &key, use);
            tried++;
        }
        key = (struct mt_key){0};
    }
    assert_true(tried >= 15 * count);
}

static void every_key_of_a_task(void **state)
{
    (void)state;
    try_table(&mt_task_keys, tasks, sizeof tasks / sizeof tasks[0], use_task);
}

static void every_key_of_a_recipe(void **state)
{
    (void)state;
    try_table(&mt_recipe_keys, recipes, sizeof recipes / sizeof recipes[0], use_recipe);
}

/* Maps within a comparison's lists, "%s" for the value: their tables are their readers' own. */
static const char *const elements[] = {
    "models: [{name: %s, path: p}, q]",
    "models: [{path: %s, name: n}, q]",
    "methods: [{name: %s, method: aux}]",
    "methods: [{name: a, method: %s}]",
    "methods: [{name: a, steps: %s}]",
    "methods: [{name: a, lora: %s}]",
    "methods: [{name: a, data: {path: %s}}]",
    "domains: [{name: %s, train: t}]",
    "domains: [{name: a, train: %s}]",
    "domains: [{name: a, recipe: %s}]",
    "domains: [{name: a, train: t, test: %s}]",
    "domains: [{name: a, train: t, tasks: %s}]",
    "others: [{name: a, test: %s}]",
    "tasks: [{task: %s}]",
    "tasks: [{task: a, name: %s}]",
    "tasks: [{task: a, limit: %s}]",
    "tasks: [{task: a, shots: %s}]",
    "tasks: [{task: a, template: %s}]",
    "tasks: [{task: a, max_tokens: %s}]",
    "training: {steps: %s}",
    "training: {targets: [%s, a]}",
    "training: {lora: {rank: %s}}",
};

static void every_element_of_a_comparison(void **state)
{
    (void)state;
    static const char *const lines[] = {"models: [m]", "out: o", "methods: [aux]", "domains: [math]"};
    char why[MT_MESSAGE_BYTES];
    for (size_t e = 0; e < sizeof elements / sizeof elements[0]; e++) {
        const char *hole = strstr(elements[e], "%s");
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            char text[TEXT_BYTES] = "";
            size_t used = 0;
            for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
                if (strncmp(lines[i], elements[e], strcspn(elements[e], ":") + 1) == 0) continue;
                used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s\n", lines[i]);
            }
            (void)snprintf(text + used, TEXT_BYTES - used, "%.*s%s%s\n", (int)(hole - elements[e]),
                           elements[e], values[v], hole + 2);
            if (!use_compare(text, strlen(text), why, sizeof why)) expect_sentence(text, why);
        }
    }
}

static void every_key_of_a_comparison(void **state)
{
    (void)state;
    try_table(&mt_compare_keys, comparisons, sizeof comparisons / sizeof comparisons[0], use_compare);
}

static void every_key_of_training(void **state)
{
    (void)state;
    try_table(&mt_train_keys, trainings, sizeof trainings / sizeof trainings[0], use_training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_of_a_task),       cmocka_unit_test(every_key_of_a_recipe),
        cmocka_unit_test(every_key_of_a_comparison), cmocka_unit_test(every_element_of_a_comparison),
        cmocka_unit_test(every_key_of_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
