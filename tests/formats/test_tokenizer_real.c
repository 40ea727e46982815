/* Real tokenizers from the shared data folder; skipped where it is absent. Tests src/formats/tokenizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "support/golden_tokenizers.h"

#define MOST_BYTES ((size_t)64 * 1024 * 1024)

static const char *shared;

/* Unpacks a .gz file into memory, which the caller frees; fails the test when that cannot be done. */
static struct mt_byte_list unpack(struct mt_context *ctx, const char *name)
{
    struct mt_byte_list content = {.ctx = ctx};
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json.gz", shared, name);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    int got = 0;
    do {
        assert_int_equal(mt_byte_list_reserve(&content, 1 << 20), MT_OK);
        got = gzread(file, content.data + content.count, 1 << 20);
        assert_true(got >= 0);
        content.count += (size_t)got;
    } while (got > 0 && content.count < MOST_BYTES);
    (void)gzclose(file);
    return content;
}

static struct mt_tokenizer *load_real(struct mt_context *ctx, const char *name)
{
    struct mt_tokenizer *tokenizer = NULL;
    struct mt_byte_list file = unpack(ctx, name);
    enum mt_status status = mt_tokenizer_load_json(ctx, name, file.data, file.count, &tokenizer);
    mt_byte_list_free(&file);
    if (status != MT_OK) fail_msg("%s", ctx->message);
    return tokenizer;
}

static void real_tokenizer(void **state)
{
    const char *name = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = load_real(&ctx, name);
    struct golden_file expected = golden_read(&ctx, "real.expected");
    ((char *)expected.data)[expected.bytes - 1] = '\0';
    assert_int_equal(golden_compare(&ctx, tokenizer, name, expected.data, name), 0);
    golden_free(&expected);
    mt_tokenizer_free(tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

/* One string of llama.cpp's list against one line of its ids. */
static void compare_line(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                         struct mt_token_scratch *scratch, const char *text, size_t bytes, const char **line)
{
    struct mt_id_list ids = {.ctx = ctx};
    assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, text, bytes, MT_ENCODE_PLAIN, &ids), MT_OK);
    const char *end = strchr(*line, '\n');
    assert_non_null(end);
    size_t count = 0;
    char *next = NULL;
    for (long id = strtol(*line, &next, 10); next != *line && next <= end; id = strtol(*line, &next, 10)) {
        assert_true(count < ids.count);
        assert_int_equal(ids.data[count], id);
        count++;
        *line = next;
        while (**line == ' ') (*line)++;
        if (**line == '\n') break;
    }
    assert_int_equal(count, ids.count);
    *line = end + 1;
    mt_id_list_free(&ids);
}

static void llama_cpp_vectors(void **state)
{
    (void)state;
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[512];
    struct mt_context ctx;
    struct mt_token_scratch *scratch = NULL;
    struct golden_file input = {.ctx = &ctx};
    struct golden_file output = {.ctx = &ctx};
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = load_real(&ctx, "deepseek-llm");
    assert_int_equal(mt_token_scratch_create(&ctx, tokenizer, &scratch), MT_OK);
    (void)snprintf(path, sizeof path, "%s/tokenizers/llama.cpp/ggml-vocab-deepseek-llm.gguf.inp", shared);
    assert_int_equal(mt_file_read_all(&ctx, path, MOST_BYTES, &input.data, &input.bytes), MT_OK);
    (void)snprintf(path, sizeof path, "%s/tokenizers/llama.cpp/ggml-vocab-deepseek-llm.gguf.out", shared);
    assert_int_equal(mt_file_read_all(&ctx, path, MOST_BYTES, &output.data, &output.bytes), MT_OK);
    ((char *)input.data)[input.bytes - 1] = '\0'; // the newline behind the last separator
    ((char *)output.data)[output.bytes - 1] = '\0';
    const char *text = input.data;
    const char *line = output.data;
    int strings = 0;
    for (const char *end = strstr(text, separator); end != NULL; end = strstr(text, separator)) {
        compare_line(&ctx, tokenizer, scratch, text, (size_t)(end - text), &line);
        text = end + sizeof separator - 1;
        strings++;
    }
    assert_true(strings >= 45);
    golden_free(&input);
    golden_free(&output);
    mt_token_scratch_free(scratch);
    mt_tokenizer_free(tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    char path[512];
    shared = getenv("METIER_SHARED_DATA");
    if (shared == NULL) shared = "../shared/data";
    (void)snprintf(path, sizeof path, "%s/tokenizers/deepseek-llm/tokenizer.json.gz", shared);
    if (access(path, R_OK) != 0) {
        (void)printf("skipped: %s is not there\n", path);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        {.name = "deepseek-llm", .test_func = real_tokenizer, .initial_state = (void *)"deepseek-llm"},
        {.name = "deepseek_v3", .test_func = real_tokenizer, .initial_state = (void *)"deepseek_v3"},
        {.name = "mixtral", .test_func = real_tokenizer, .initial_state = (void *)"mixtral"},
        cmocka_unit_test(llama_cpp_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
