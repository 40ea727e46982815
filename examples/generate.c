/*
 * Answers of a model, several at once. Usage: generate MODEL ADAPTER PROMPT...   (ADAPTER "-": none)
 *
 *     cc generate.c $(pkg-config --cflags --libs metier) -o generate
 */
#include <stdio.h>
#include <string.h>

#include "metier/generate.h"

#define MOST 16 // prompts

/* An answer as it comes: pieces of many arrive in turn, so each is collected. */
struct answer {
    char text[512];
    size_t bytes;
};

static enum mt_status take(void *self, const char *text, size_t bytes, bool *stop)
{
    struct answer *answer = (struct answer *)self;
    size_t room = sizeof answer->text - answer->bytes;
    size_t taken = bytes < room ? bytes : room;
    memcpy(answer->text + answer->bytes, text, taken);
    answer->bytes += taken;
    *stop = taken < bytes;
    return MT_OK;
}

int main(int argc, char **argv)
{
    static struct answer answers[MOST];
    struct mt_generate_request requests[MOST];
    struct mt_generator_options options;
    struct mt_context ctx;
    struct mt_generator *generator = NULL;
    int count = argc - 3;
    if (count < 1 || count > MOST) return fprintf(stderr, "usage: generate MODEL ADAPTER PROMPT...\n"), 2;
    memset(&options, 0, sizeof options);
    if (strcmp(argv[2], "-") != 0) options.adapter = argv[2];
    mt_context_init(&ctx, NULL);
    enum mt_status status = mt_generator_open(&ctx, argv[1], &options, &generator);
    for (int i = 0; i < count && status == MT_OK; i++) {
        requests[i] = mt_generate_prepare(generator, argv[3 + i], strlen(argv[3 + i]));
        requests[i].max_new = 20;
        requests[i].text = take;
        requests[i].self = &answers[i];
    }
    if (status == MT_OK) status = mt_generate(generator, requests, (size_t)count);
    if (status != MT_OK) fprintf(stderr, "generate: %s\n", ctx.message);
    for (int i = 0; i < count && status == MT_OK; i++) {
        printf("%s%.*s\n", argv[3 + i], (int)answers[i].bytes, answers[i].text);
        printf("    %lld tokens, %s\n", (long long)requests[i].tokens,
               requests[i].end == MT_GENERATE_ENDED ? "ended" : "cut");
    }
    mt_generator_close(generator);
    return status == MT_OK ? 0 : 1;
}
