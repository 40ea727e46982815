/* Small training runs in a workplace. */
#define _XOPEN_SOURCE 700 // nftw

#include "support/training_bench.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_WORDS 32
#define WORD_BYTES 2048

/* The small model's config with the tokenizer's vocabulary, and its special tokens. */
static int write_model(const struct workplace *place, const char *config)
{
    static const char key[] = "\"vocab_size\": 53";
    const char *found = strstr(config, key);
    char text[4096];
    if (found == NULL) return -1;
    (void)snprintf(text, sizeof text,
                   "%.*s\"vocab_size\": %d, \"bos_token_id\": 420, \"eos_token_id\": 421%s",
                   (int)(found - config), config, TRAINING_BENCH_VOCABULARY, found + strlen(key));
    return small_model_make(place, text, MT_HF_FLOAT32, 5);
}

static int copy_tokenizer(const struct workplace *place)
{
    const char *golden = getenv("METIER_GOLDEN");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tokenizers/deepseek.json",
                   golden != NULL ? golden : "tests/formats/golden");
    FILE *file = fopen(path, "rb");
    if (file == NULL) return -1;
    static char text[1 << 20];
    size_t bytes = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    return workplace_write(place, "tokenizer.json", text, bytes);
}

int training_bench_make_of(const struct workplace *place, const char *config)
{
    char text[8192];
    int at = 0;
    workplace_clear(place);
    for (int i = 0; i < 60; i++) {
        at += snprintf(text + at, sizeof text - (size_t)at,
                       "{\"prompt\": \"%d plus %d is\", \"completion\": \" %d%s\"}\n", i, i % 7, i + i % 7,
                       i % 3 == 0 ? " ok" : "");
    }
    if (workplace_write(place, "data.jsonl", text, (size_t)at) != 0) return -1;
    if (write_model(place, config) != 0) return -1;
    return copy_tokenizer(place);
}

int training_bench_make(const struct workplace *place, const struct mt_arch *model)
{
    return training_bench_make_of(place, small_model_config(model));
}

/* Cuts "a=1 b=2" at its spaces. */
static size_t cut(char *text, const char *words[MOST_WORDS])
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word != NULL && count < MOST_WORDS; word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

enum mt_status training_run_open(struct training_run *run, const struct workplace *place, const char *out,
                                 const char *words)
{
    const char *templates = getenv("METIER_TEMPLATES");
    const char *list[MOST_WORDS];
    char text[1024];
    char copy[WORD_BYTES];
    mt_context_init(&run->ctx, run->allocator);
    mt_arena_init(&run->arena, &run->ctx, 4096);
    run->trainer = NULL;
    int length =
        snprintf(text, sizeof text,
                 "model: %s\nout: %s/%s\ndata: {path: %s/data.jsonl, max_length: 24}\n"
                 "batch: {examples: 6, tokens: 48}\noptimizer: {lr: 5e-3}\nsteps: 8\n"
                 "log: {every: 2, tensorboard: false}\ncheckpoint: {every: 3}\nthreads: 1\nmethod: paper\n%s",
                 place->directory, place->directory, out, place->directory,
                 strstr(words, "train=full") != NULL ? "" : "lora: {rank: 2, alpha: 4}\n");
    (void)snprintf(copy, sizeof copy, "%s", words);
    size_t count = cut(copy, list);
    enum mt_status status = mt_train_settings_read(&run->ctx, "bench.yaml", text, (size_t)length, list, count,
                                                   &run->arena, &run->settings);
    if (status != MT_OK) return status;
    run->options.settings = &run->settings;
    run->options.templates = templates != NULL ? templates : "share/templates";
    return mt_trainer_open(&run->ctx, &run->options, &run->trainer);
}

void training_run_close(struct training_run *run)
{
    mt_trainer_close(run->trainer);
    run->trainer = NULL;
    mt_arena_free(&run->arena);
}

enum mt_status training_run_all(struct training_run *run, const struct workplace *place, const char *out,
                                const char *words)
{
    enum mt_status status = training_run_open(run, place, out, words);
    if (status == MT_OK) status = mt_trainer_run(run->trainer, &run->outcome);
    training_run_close(run);
    return status;
}

static FILE *open_file(const struct workplace *place, const char *name)
{
    char path[512];
    return fopen(workplace_path(place, name, path, sizeof path), "rb");
}

int training_bench_compare(const struct workplace *place, const char *one, const char *other)
{
    FILE *a = open_file(place, one);
    FILE *b = open_file(place, other);
    int different = a == NULL || b == NULL;
    while (!different) {
        int x = fgetc(a);
        int y = fgetc(b);
        different = x != y;
        if (x == EOF || y == EOF) break;
    }
    if (a != NULL) (void)fclose(a);
    if (b != NULL) (void)fclose(b);
    return different;
}

bool training_bench_has(const struct workplace *place, const char *path)
{
    char whole[512];
    return access(workplace_path(place, path, whole, sizeof whole), F_OK) == 0;
}

static int remove_entry(const char *path, const struct stat *entry, int kind, struct FTW *place)
{
    (void)entry;
    (void)kind;
    (void)place;
    return remove(path);
}

void training_bench_remove(const struct workplace *place, const char *name)
{
    char path[512];
    (void)nftw(workplace_path(place, name, path, sizeof path), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

bool training_bench_takes(const struct mt_arch *model, const struct mt_method *method)
{
    enum mt_bias_rule rule = method->config.bias_rule;
    bool groups = strstr(small_model_config(model), "\"n_group\"") != NULL;
    if (model == &mt_arch_phimoe)
        return rule == MT_BIAS_NONE && !method->config.dense_router && !method->config.pool;
    return !groups || (rule != MT_BIAS_QUANTILE && !method->config.pool);
}
