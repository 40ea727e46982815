/* metier tokenize: the ids of a text, or the text of ids. */
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "cli/cli.h"
#include "formats/tokenizer/tokenizer.h"

#define MAX_TEXT_BYTES ((size_t)4 * 1024 * 1024 * 1024)
#define READ_BYTES     65536

struct settings {
    const char *tokenizer; // path
    const char *file;      // "-": standard input
    bool special;
    bool decode;
    bool skip_special;
    bool count;
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
        (void)fwrite(decoded.data, 1, decoded.count, stdout);
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

static enum mt_status run_verb(struct cli_call *call)
{
    struct settings settings = {0};
    const struct cli_option options[] = {
        {"--file", CLI_TEXT, &settings.file, "FILE",
         "the text (or, with --decode, the ids); - is standard input"},
        {"--special", CLI_FLAG, &settings.special, NULL,
         "add the special tokens the tokenizer puts around a text"},
        {"--decode", CLI_FLAG, &settings.decode, NULL,
         "read ids, separated by white space, and write their text"},
        {"--skip-special", CLI_FLAG, &settings.skip_special, NULL, "with --decode: leave special tokens out"},
        {"--count", CLI_FLAG, &settings.count, NULL, "print only how many ids there are"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (settings.file == NULL) return mt_fail(call->ctx, MT_ERR_USAGE, "--file FILE is missing");
    if (settings.decode && settings.special)
        return mt_fail(call->ctx, MT_ERR_USAGE,
                       "--special adds tokens when encoding; it has no meaning with --decode");
    if (settings.skip_special && !settings.decode)
        return mt_fail(call->ctx, MT_ERR_USAGE, "--skip-special is for --decode");
    const struct cli_void rules[] = {
        {settings.count, "--skip-special", "with --count: ids are counted, not written"}};
    status = cli_refuse_void(call, rules, 1);
    settings.tokenizer = call->positional[0];
    return status == MT_OK ? run(call->ctx, &settings) : status;
}

const struct cli_verb cli_verb_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids, and back",
    .arguments = "DIR",
    .wanted = "a folder with tokenizer.json or tiktoken.model",
    .details = "DIR holds tokenizer.json or tiktoken.model, or is one of these files. The whole of FILE is\n"
               "one text; its ids go to standard output, one per line. Special tokens spelled out in the\n"
               "text become their ids; those the tokenizer puts around a text are added only with\n"
               "--special. Bytes that are not UTF-8 count as U+FFFD.",
    .examples = "  metier tokenize models/moe --file letter.txt --special\n"
                "  metier tokenize models/moe --file - --count < letter.txt\n"
                "  metier tokenize models/moe --file ids.txt --decode",
    .run = run_verb,
};
