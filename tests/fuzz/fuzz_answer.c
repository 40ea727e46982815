/*
 * Fuzz target: bytes as two mathematical answers, apart at the first NUL, and as a text to extract from.
 * Both must end, leave nothing behind, and extraction must find what it says it found.
 */
// With: src/eval/math/*.c src/eval/answers/extract*.c src/eval/answers/normalize.c src/eval/answers/pattern.c
// With: src/eval/answers/statement*.c src/eval/answers/sentence.c src/eval/answers/number.c
// With: src/eval/text.c src/eval/code/code_block.c src/eval/code/code_names.c
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/extract.h"
#include "eval/math/answer_math.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void extract_all(struct mt_context *ctx, const char *text, size_t bytes)
{
    static const char *const words[] = {"yes", "no", NULL};
    struct mt_byte_list out = {.ctx = ctx};
    for (int kind = 1; kind < MT_EXTRACT_KINDS; kind++) {
        const struct mt_extract_step step = {.kind = (enum mt_extract_kind)kind, .words = words};
        struct mt_extractor *extractor = NULL;
        bool found = false;
        demand(mt_extractor_create(ctx, &step, 1, &extractor) == MT_OK);
        demand(mt_extract(extractor, text, bytes, 4, &out, &found) == MT_OK);
        demand(found == (out.count > 0));
        mt_extractor_free(extractor);
    }
    mt_byte_list_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    const char *text = (const char *)data;
    const char *end = size > 0 ? memchr(text, '\0', size) : NULL;
    size_t first = end != NULL ? (size_t)(end - text) : size;
    size_t second = end != NULL ? size - first - 1 : 0;
    const char *other = end != NULL ? end + 1 : "";
    bool forth = false;
    bool back = false;
    demand(mt_math_compare(&ctx, size > 0 ? text : "", first, other, second, &forth) == MT_OK);
    demand(mt_math_compare(&ctx, other, second, size > 0 ? text : "", first, &back) == MT_OK);
    extract_all(&ctx, size > 0 ? text : "", size);
    demand(ctx.live_bytes == 0);
    return 0;
}
