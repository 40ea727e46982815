/*
 * The engine for scripts: infer_tool DIR SLOTS POSITIONS PIECE [ADAPTER] < REQUESTS
 *
 * A request is a line of words: "generate MAX_NEW ID ID ..." or "score ID ID ... | ID ... | ID ...": a prefix
 * and its continuations. All are computed together. The answers come in order, one line each: the ids
 * generated; or for every continuation "LOG_PROBABILITY GREEDY EACH EACH ... |".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/engine.h"
#include "model/adapters/adapter.h"

#define MOST_REQUESTS      256
#define MOST_TOKENS        1024
#define MOST_CONTINUATIONS 16

struct request {
    struct mt_generation generation;
    struct mt_scoring scoring;
    struct mt_continuation continuation[MOST_CONTINUATIONS];
    int32_t ids[MOST_TOKENS];
    float each[MOST_TOKENS];
    int32_t answer[MOST_TOKENS];
    int64_t answered;
    bool scores;
};

static enum mt_status take_token(void *self, int32_t id, bool *stop)
{
    struct request *request = self;
    request->answer[request->answered++] = id;
    *stop = request->answered == MOST_TOKENS;
    return MT_OK;
}

static void read_generation(char *line, struct request *request)
{
    char *word = line;
    request->generation = (struct mt_generation){.ids = request->ids,
                                                 .sampling = {.top_p = 1.0, .repetition_penalty = 1.0},
                                                 .max_new = strtoll(word, &word, 10),
                                                 .self = request,
                                                 .token = take_token};
    int64_t count = 0;
    for (char *end = word; count < MOST_TOKENS; word = end) {
        int32_t id = (int32_t)strtol(word, &end, 10);
        if (end == word) break;
        request->ids[count++] = id;
    }
    request->generation.count = count;
}

static void read_scoring(char *line, struct request *request)
{
    int64_t used = 0;
    int64_t part = -1; // -1: the prefix
    request->scores = true;
    request->scoring = (struct mt_scoring){.continuation = request->continuation};
    for (char *text = strtok(line, "|"); text != NULL && part < MOST_CONTINUATIONS;
         text = strtok(NULL, "|")) {
        int64_t first = used;
        char *word = text;
        for (char *end = word; used < MOST_TOKENS; word = end) {
            int32_t id = (int32_t)strtol(word, &end, 10);
            if (end == word) break;
            request->ids[used++] = id;
        }
        if (part < 0) {
            request->scoring.ids = request->ids;
            request->scoring.count = used;
        } else {
            request->continuation[part] = (struct mt_continuation){
                .ids = request->ids + first, .count = used - first, .each = request->each + first};
        }
        part++;
    }
    request->scoring.continuations = (size_t)(part > 0 ? part : 0);
}

static size_t read_requests(struct request *requests)
{
    static char line[16 * MOST_TOKENS];
    size_t count = 0;
    while (count < MOST_REQUESTS && fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "generate ", 9) == 0) {
            read_generation(line + 9, &requests[count++]);
        } else if (strncmp(line, "score ", 6) == 0) {
            read_scoring(line + 6, &requests[count++]);
        }
    }
    return count;
}

static void print_answer(const struct request *request)
{
    for (int64_t i = 0; i < request->answered; i++) printf("%d ", request->answer[i]);
    for (size_t i = 0; i < request->scoring.continuations; i++) {
        const struct mt_continuation *continuation = &request->continuation[i];
        printf("%.9g %d", continuation->log_probability, continuation->greedy ? 1 : 0);
        for (int64_t j = 0; j < continuation->count; j++) printf(" %.9g", (double)continuation->each[j]);
        printf(" | ");
    }
    printf("\n");
}

static enum mt_status compute(struct mt_engine *engine, const struct request *requests, size_t count)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < count; i++) {
        status = requests[i].scores ? mt_engine_add_scoring(engine, &requests[i].scoring)
                                    : mt_engine_add_generation(engine, &requests[i].generation);
    }
    for (bool working = true; status == MT_OK && working;) status = mt_engine_step(engine, &working);
    return status;
}

static enum mt_status run(struct mt_context *ctx, int argc, char **argv, struct request *requests)
{
    struct mt_engine_options options = {.slots = strtoll(argv[2], NULL, 10),
                                        .positions = strtoll(argv[3], NULL, 10),
                                        .piece = strtoll(argv[4], NULL, 10)};
    struct mt_model_options model_options = {0};
    struct mt_device *device = NULL;
    struct mt_model *model = NULL;
    struct mt_engine *engine = NULL;
    struct mt_adapter adapter = {0};
    enum mt_status status = MT_OK;
    size_t count = read_requests(requests);
    mt_engine_model_options(&options, &model_options);
    if (argc > 5) {
        status = mt_adapter_open_for(ctx, argv[5], argv[1], &adapter);
        if (status == MT_OK) mt_adapter_select(&adapter, &model_options.selection);
    }
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_model_open(device, argv[1], &model_options, &model);
    if (status == MT_OK && argc > 5) status = mt_adapter_apply(&adapter, mt_model_params(model));
    if (status == MT_OK) status = mt_engine_create(model, &options, &engine);
    if (status == MT_OK) status = compute(engine, requests, count);
    for (size_t i = 0; status == MT_OK && i < count; i++) print_answer(&requests[i]);
    mt_engine_destroy(engine);
    mt_model_close(model);
    mt_device_destroy(device);
    mt_adapter_close(&adapter);
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct request *requests = calloc(MOST_REQUESTS, sizeof *requests);
    if (argc < 5 || requests == NULL) {
        (void)fprintf(stderr, "usage: infer_tool DIR SLOTS POSITIONS PIECE [ADAPTER] < REQUESTS\n");
        free(requests);
        return 2;
    }
    enum mt_status status = run(&ctx, argc, argv, requests);
    if (status != MT_OK) (void)fprintf(stderr, "infer_tool: %s\n", ctx.message);
    free(requests);
    return status == MT_OK ? 0 : 1;
}
