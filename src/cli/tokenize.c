/* metier tokenize: the ids of a text, or the text of ids; --train: a tokenizer learnt from texts. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "cli/cli.h"
#include "formats/data/dataset.h"
#include "formats/text/printable.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/train.h"

#define MAX_TEXT_BYTES ((size_t)4 * 1024 * 1024 * 1024)
#define READ_BYTES     65536

struct settings {
    const char *tokenizer; // path
    const char *file;      // "-": standard input
    bool special;
    bool decode;
    bool skip_special;
    bool count;
    struct cli_list train; // files to learn from
    int64_t vocabulary;    // tokens to learn
    bool quiet;
};

static enum mt_status read_standard_input(struct mt_byte_list *text)
{
    for (;;) {
        enum mt_status status = mt_byte_list_reserve(text, READ_BYTES);
        if (status != MT_OK) return status;
        size_t got = fread(text->data + text->count, 1, READ_BYTES, stdin);
        text->count += got;
        if (text->count > MAX_TEXT_BYTES)
            return mt_fail(text->ctx, MT_ERR_USAGE, "standard input is too long");
        if (got == READ_BYTES) continue;
        if (ferror(stdin))
            return mt_fail(text->ctx, MT_ERR_IO, "cannot read standard input: %s", strerror(errno));
        return MT_OK;
    }
}

static enum mt_status read_text(struct mt_context *ctx, const char *path, struct mt_byte_list *text)
{
    if (strcmp(path, "-") == 0) return read_standard_input(text);
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: there is no such file", path);
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, MAX_TEXT_BYTES, &data, &bytes);
    if (status != MT_OK) return status;
    *text = (struct mt_byte_list){.ctx = ctx, .data = data, .count = bytes, .capacity = bytes};
    return MT_OK;
}

/* Ids are whole numbers with white space between. */
static enum mt_status parse_ids(struct mt_context *ctx, const struct mt_byte_list *text, const char *file,
                                struct mt_id_list *ids)
{
    size_t at = 0;
    for (;;) {
        while (at < text->count && isspace(text->data[at])) at++;
        if (at == text->count) return MT_OK;
        int64_t id = 0;
        size_t start = at;
        for (; at < text->count && isdigit(text->data[at]); at++) {
            id = id * 10 + (text->data[at] - '0');
            if (id > INT32_MAX) break;
        }
        if (at == start || (at < text->count && !isspace(text->data[at]))) {
            size_t end = start;
            while (end < text->count && end - start < 24 && !isspace(text->data[end])) end++;
            return mt_fail(ctx, MT_ERR_USAGE, "%s: '%.*s' is not an id", file, (int)(end - start),
                           (const char *)text->data + start);
        }
        enum mt_status status = mt_id_list_append(ids, (int32_t)id);
        if (status != MT_OK) return status;
    }
}

static enum mt_status encode(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                             const struct settings *settings, const struct mt_byte_list *text)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    enum mt_status status = mt_token_scratch_create(ctx, tokenizer, &scratch);
    if (status == MT_OK) {
        unsigned flags = settings->special ? MT_ENCODE_ADD_SPECIAL : MT_ENCODE_PLAIN;
        status = mt_tokenizer_encode(tokenizer, scratch, text->data, text->count, flags, &ids);
    }
    if (status == MT_OK && settings->count) printf("%zu\n", ids.count);
    for (size_t i = 0; status == MT_OK && !settings->count && i < ids.count; i++)
        printf("%d\n", (int)ids.data[i]);
    mt_token_scratch_free(scratch);
    mt_id_list_free(&ids);
    return status;
}

static enum mt_status decode(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                             const struct settings *settings, const struct mt_byte_list *text)
{
    struct mt_id_list ids = {.ctx = ctx};
    struct mt_byte_list decoded = {.ctx = ctx};
    enum mt_status status = parse_ids(ctx, text, settings->file, &ids);
    unsigned flags = settings->skip_special ? MT_DECODE_SKIP_SPECIAL : MT_DECODE_PLAIN;
    if (status == MT_OK) status = mt_tokenizer_decode(tokenizer, ctx, ids.data, ids.count, flags, &decoded);
    if (status == MT_OK && settings->count) printf("%zu\n", ids.count);
    if (status == MT_OK && !settings->count && decoded.count != 0) {
        (void)mt_show_text(stdout, (const char *)decoded.data, decoded.count);
    }
    mt_id_list_free(&ids);
    mt_byte_list_free(&decoded);
    return status;
}

static enum mt_status run(struct mt_context *ctx, const struct settings *settings)
{
    struct mt_tokenizer *tokenizer = NULL;
    struct mt_byte_list text = {.ctx = ctx};
    enum mt_status status = mt_tokenizer_load(ctx, settings->tokenizer, &tokenizer);
    if (status == MT_OK) status = read_text(ctx, settings->file, &text);
    if (status == MT_OK) {
        status = settings->decode ? decode(ctx, tokenizer, settings, &text)
                                  : encode(ctx, tokenizer, settings, &text);
    }
    mt_byte_list_free(&text);
    mt_tokenizer_free(tokenizer);
    return status;
}

// ------------------------------------------------------------------ learning a tokenizer

/* Adds the texts of a row: those of its fields that training reads. */
static enum mt_status add_row(struct mt_tokenizer_trainer *trainer, const struct mt_row *row)
{
    static const char *const read[] = {"text",        "prompt", "completion", "question", "answer",
                                       "instruction", "input",  "output",     "response", "system"};
    bool any = false;
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        const struct mt_row_field *field = mt_row_field(row, read[i]);
        if (field == NULL || field->kind != MT_FIELD_TEXT) continue;
        enum mt_status status = mt_tokenizer_trainer_add(trainer, field->text, field->bytes);
        if (status != MT_OK) return status;
        any = true;
    }
    return any ? MT_OK : mt_row_fail(row, "no field is a text to learn from (text, prompt, question, ...)");
}

static enum mt_status add_file(struct mt_context *ctx, struct mt_tokenizer_trainer *trainer, const char *path)
{
    const struct mt_dataset_options options = {.text_rows = MT_TEXT_PIECES};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    enum mt_status status = mt_dataset_open(ctx, path, &options, &dataset);
    if (status != MT_OK) return status;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; status == MT_OK && i < mt_dataset_rows(dataset); i++) {
        status = mt_dataset_read(dataset, i, &row);
        if (status == MT_OK) status = add_row(trainer, &row);
    }
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

/* Writes what was learnt into the folder. */
static enum mt_status write_tokenizer(struct mt_context *ctx, const struct mt_tokenizer_trainer *trainer,
                                      const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    enum mt_status status = mt_folder_make_all(ctx, folder);
    for (int i = 0; status == MT_OK && i < 2; i++) {
        struct mt_json_text json;
        char *path = NULL;
        status = mt_path_join(ctx, folder, names[i], &path);
        if (status != MT_OK) return status;
        mt_json_text_init(&json, ctx);
        (void)(i == 0 ? mt_tokenizer_trainer_write(trainer, &json) : mt_tokenizer_config_write(&json));
        status = mt_json_text_save(&json, path);
        if (status == MT_OK) printf("%s%s\n", i == 0 ? "written: " : "         ", path);
        mt_path_release(ctx, path);
    }
    return status;
}

static enum mt_status train(struct mt_context *ctx, const struct settings *settings)
{
    struct mt_tokenizer_trainer *trainer = NULL;
    struct mt_progress progress;
    enum mt_status status = mt_tokenizer_trainer_create(ctx, &trainer);
    for (int i = 0; status == MT_OK && i < settings->train.count; i++)
        status = add_file(ctx, trainer, settings->train.item[i]);
    if (status == MT_OK) {
        uint64_t in_all = 0;
        size_t words = mt_tokenizer_trainer_words(trainer, &in_all);
        if (!settings->quiet) printf("%" PRIu64 " words, %zu different ones\n", in_all, words);
        mt_progress_start(&progress, &(struct mt_progress_options){.stream = settings->quiet ? NULL : stderr,
                                                                   .label = "tokens",
                                                                   .unit = "tok",
                                                                   .total = settings->vocabulary});
        status = mt_tokenizer_trainer_learn(trainer, (size_t)settings->vocabulary, &progress);
        mt_progress_finish(&progress);
    }
    if (status == MT_OK) status = write_tokenizer(ctx, trainer, settings->tokenizer);
    mt_tokenizer_trainer_free(trainer);
    return status;
}

/* Which options go together. */
static enum mt_status check(struct cli_call *call, const struct settings *settings)
{
    bool learns = settings->train.count > 0;
    const struct cli_void rules[] = {
        {learns, "--file --special --decode --skip-special --count", "with --train: no text is encoded"},
        {!learns, "--vocabulary", "without --train"},
        {settings->count, "--skip-special", "with --count: ids are counted, not written"}};
    const struct cli_limit limits[] = {
        {"--vocabulary", settings->vocabulary, MT_TOKENIZER_LEAST, MT_TOKENIZER_MOST}};
    enum mt_status status = cli_refuse_void(call, rules, 2);
    if (status != MT_OK || learns) return status != MT_OK ? status : cli_check_limits(call->ctx, limits, 1);
    if (settings->file == NULL) return mt_fail(call->ctx, MT_ERR_USAGE, "--file FILE is missing");
    if (settings->decode && settings->special)
        return mt_fail(call->ctx, MT_ERR_USAGE,
                       "--special adds tokens when encoding; it has no meaning with --decode");
    if (settings->skip_special && !settings->decode)
        return mt_fail(call->ctx, MT_ERR_USAGE, "--skip-special is for --decode");
    return cli_refuse_void(call, rules + 2, 1);
}

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {.vocabulary = 2048};
    const struct cli_option options[] = {
        {"--file", CLI_TEXT, &settings.file, "FILE",
         "the text (or, with --decode, the ids); - is standard input"},
        {"--special", CLI_FLAG, &settings.special, NULL,
         "add the special tokens the tokenizer puts around a text"},
        {"--decode", CLI_FLAG, &settings.decode, NULL,
         "read ids, separated by white space, and write their text"},
        {"--skip-special", CLI_FLAG, &settings.skip_special, NULL, "with --decode: leave special tokens out"},
        {"--count", CLI_FLAG, &settings.count, NULL, "print only how many ids there are"},
        {"--train", CLI_LIST, &settings.train, "FILE",
         "learn a tokenizer from the texts of FILE and write it into DIR; several times for several files"},
        {"--vocabulary", CLI_INTEGER, &settings.vocabulary, "N", "with --train: tokens to learn (2048)"},
        {"--quiet", CLI_FLAG, &settings.quiet, NULL, "with --train: no progress and no summary"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    status = check(call, &settings);
    if (status != MT_OK) return status;
    settings.tokenizer = call->positional[0];
    return settings.train.count > 0 ? train(call->ctx, &settings) : run(call->ctx, &settings);
}

const struct cli_verb cli_verb_tokenize = {
    .name = "tokenize",
    .summary = "turn text into token ids, and back; learn a tokenizer",
    .arguments = "DIR",
    .wanted = "a folder with tokenizer.json or tiktoken.model",
    .details =
        "DIR holds tokenizer.json or tiktoken.model, or is one of these files. The whole of FILE is one "
        "text;\n"
        "its ids go to standard output, one per line. Special tokens that the text spells out become their\n"
        "ids. The special tokens that the tokenizer puts around a text are added only with --special. Bytes\n"
        "that are not UTF-8 count as U+FFFD.\n"
        "\n"
        "--train learns a byte-level BPE from files as metier train reads them (docs/bases.md): plain "
        "texts,\n"
        "or rows with the fields text, prompt, completion, ... The same texts give the same tokenizer, in "
        "any\n"
        "order.",
    .examples = "  metier tokenize models/moe --file letter.txt --special\n"
                "  metier tokenize models/moe --file - --count < letter.txt\n"
                "  metier tokenize models/moe --file ids.txt --decode\n"
                "  metier tokenize models/mine --train wiki.txt --train texts.jsonl --vocabulary 4096",
    .run = run_verb,
};
