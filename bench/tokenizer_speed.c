/*
 * How fast a tokenizer encodes, on one thread.
 *
 *     tokenizer_speed TOKENIZER TEXT [ROUNDS]
 *
 * The whole file is one text; every round starts with an empty cache, as a fresh process would. Prints
 * "seconds ids bytes" of the fastest round.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/files/file.h"
#include "formats/tokenizer/tokenizer.h"

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum mt_status measure(struct mt_context *ctx, const struct mt_tokenizer *tokenizer, const void *text,
                              size_t bytes, double *seconds, size_t *count)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    double start = now();
    enum mt_status status = mt_token_scratch_create(ctx, tokenizer, &scratch);
    if (status == MT_OK) status = mt_tokenizer_encode(tokenizer, scratch, text, bytes, MT_ENCODE_PLAIN, &ids);
    *seconds = now() - start;
    *count = ids.count;
    mt_id_list_free(&ids);
    mt_token_scratch_free(scratch);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: tokenizer_speed TOKENIZER TEXT [ROUNDS]\n");
        return 2;
    }
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = NULL;
    void *text = NULL;
    size_t bytes = 0;
    size_t count = 0;
    double best = 0.0;
    long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 3;
    enum mt_status status = mt_tokenizer_load(&ctx, argv[1], &tokenizer);
    if (status == MT_OK) status = mt_file_read_all(&ctx, argv[2], SIZE_MAX / 2, &text, &bytes);
    for (long i = 0; status == MT_OK && i < rounds; i++) {
        double seconds = 0.0;
        status = measure(&ctx, tokenizer, text, bytes, &seconds, &count);
        if (i == 0 || seconds < best) best = seconds;
    }
    if (status == MT_OK) printf("%.6f %zu %zu\n", best, count, bytes);
    if (status != MT_OK) (void)fprintf(stderr, "tokenizer_speed: %s\n", ctx.message);
    mt_release(&ctx, text, bytes);
    mt_tokenizer_free(tokenizer);
    return status == MT_OK ? 0 : 1;
}
