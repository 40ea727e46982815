/* Small tokenizers of every kind against what the reference libraries said. Tests src/formats/tokenizer. */
#include <stdio.h>

#include "support/cmocka_all.h"
#include "support/golden_tokenizers.h"

static const char *const names[] = {
    "deepseek",
    "qwen3",
    "olmoe",
    "llama3",
    "kimi_pattern",
    "o200k",
    "prefix_space",
    "digits",
    "byte_level_inside",
    "missing_bytes",
    "phi",
    "some_bytes",
    "fused_unknown",
    "metaspace_always_split",
    "metaspace_always_whole",
    "metaspace_first_split",
    "metaspace_first_whole",
    "metaspace_never_split",
    "metaspace_never_whole",
    "metaspace_stripped",
    "words",
    "no_unknown",
    "nfkd",
    "flags",
    "split_removed_regex_invert",
    "split_isolated_regex",
    "split_isolated_empty",
    "split_isolated_lines",
    "split_merged_with_previous_regex",
    "split_merged_with_next_regex",
    "split_contiguous_text",
    "tiktoken",
};

static void golden(void **state)
{
    const char *name = *state;
    char file[64];
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = golden_load(&ctx, name);
    (void)snprintf(file, sizeof file, "%s.expected", name);
    struct golden_file expected = golden_read(&ctx, file);
    // The file ends in a newline, which may become the end of the text.
    ((char *)expected.data)[expected.bytes - 1] = '\0';
    assert_int_equal(golden_compare(&ctx, tokenizer, name, expected.data, NULL), 0);
    golden_free(&expected);
    mt_tokenizer_free(tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    struct CMUnitTest tests[sizeof names / sizeof names[0]];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tests[i] =
            (struct CMUnitTest){.name = names[i], .test_func = golden, .initial_state = (void *)names[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
