/* Asks that find no memory: whichever allocation fails, that one is refused, and those beside it get their
 * answer. */
#include <stdlib.h>
#include <string.h>

#include "serve/ask.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

#define BODY   "{\"prompt\": [\"1+\", \"x\"], \"max_tokens\": 2, \"logprobs\": 1, \"echo\": true}"
#define ROUTED "{\"prompt\": \"7\", \"max_tokens\": 2, \"temperature\": 1, \"metier\": {\"routing\": true}}"

/* What a client got: an exchange is the address of one. */
struct client {
    int code; // 0: nothing yet
    size_t bytes;
    char text[65536];
};

enum mt_status __wrap_mt_exchange_answer(struct mt_exchange *exchange, int code, const char *type,
                                         const void *body, size_t bytes);

enum mt_status __wrap_mt_exchange_answer(struct mt_exchange *exchange, int code, const char *type,
                                         const void *body, size_t bytes)
{
    struct client *client = (struct client *)(void *)exchange;
    (void)type;
    assert_int_equal(client->code, 0); // one answer each
    assert_true(bytes < sizeof client->text);
    client->code = code;
    client->bytes = bytes;
    if (bytes > 0) memcpy(client->text, body, bytes);
    return MT_OK;
}

static enum mt_status open_session(void *self, const char *directory, const char *adapter,
                                   const struct mt_session *beside, struct mt_session *session)
{
    const struct mt_session_options options = {.directory = directory,
                                               .adapter = adapter,
                                               .beside = beside,
                                               .templates = getenv("METIER_TEMPLATES"),
                                               .device = "cpu",
                                               .threads = 1,
                                               .slots = 8,
                                               .context = 64};
    return mt_session_open(self, &options, session);
}

static int open_models(void **state)
{
    static struct mt_context ctx;
    static struct mt_served_models models;
    char folder[4096];
    mt_context_init(&ctx, NULL);
    models = (struct mt_served_models){.ctx = &ctx, .opener = {.self = &ctx, .open = open_session}};
    (void)snprintf(folder, sizeof folder, "%s/../share/models/tiny-deepseek-v2", getenv("METIER_TESTS"));
    *state = &models;
    return mt_served_models_add(&models, "m", folder, NULL, NULL) == MT_OK ? 0 : 1;
}

static int close_models(void **state)
{
    mt_served_models_close(*state);
    return 0;
}

/* An ask whose memory is ctx's, from its body to the end of its choices, some of which were not begun. */
static enum mt_status begin(struct mt_ask *ask, struct mt_context *ctx, struct mt_served_models *models,
                            const char *body, struct client *client)
{
    *client = (struct client){0};
    *ask = (struct mt_ask){0};
    enum mt_status status = mt_ask_read(ask, ctx, models, false, body, strlen(body), 1);
    ask->exchange = status == MT_OK ? (struct mt_exchange *)(void *)client : NULL;
    while (status == MT_OK && ask->exchange != NULL && ask->started < ask->choice_count)
        mt_ask_start_choice(ask);
    return status;
}

static void compute(const struct mt_served_models *models)
{
    for (bool working = true; working;)
        assert_int_equal(mt_engine_step(models->first->session.engine, &working), MT_OK);
}

static void finish(struct mt_ask *ask, const struct client *client)
{
    if (mt_ask_send(ask) != MT_OK) mt_ask_refuse(ask, 503, "no memory is left for an answer");
    assert_true(client->code == 200 || client->code == 503);
    assert_true(mt_ask_is_over(ask));
    mt_ask_free(ask);
}

/* What an answer says behind its number and the time. */
static const char *answer_of(const struct client *client)
{
    const char *choices = strstr(client->text, "\"choices\"");
    assert_non_null(choices);
    return choices;
}

struct run {
    struct mt_served_models *models;
    const char *body;
    const char *other; // that is beside it
    const char *wanted;
};

static enum mt_status ask_beside_another(struct mt_context *ctx, const void *self)
{
    const struct run *run = self;
    static struct client client, beside;
    struct mt_ask ask;
    struct mt_ask good;
    assert_int_equal(begin(&good, run->models->ctx, run->models, run->other, &beside), MT_OK);
    enum mt_status status = begin(&ask, ctx, run->models, run->body, &client);
    compute(run->models);
    finish(&good, &beside);
    assert_int_equal(beside.code, 200);
    assert_string_equal(answer_of(&beside), run->wanted);
    if (status != MT_OK) {
        assert_true(ctx->message[0] != '\0');
        mt_ask_free(&ask);
        return status;
    }
    finish(&ask, &client);
    return client.code == 200 ? MT_OK : mt_fail(ctx, MT_ERR_MEMORY, "refused");
}

static void test_memory(void **state)
{
    static const char *const bodies[] = {BODY, ROUTED};
    static struct client alone;
    for (int i = 0; i < 2; i++) {
        struct run run = {.models = *state, .body = bodies[i], .other = bodies[0]};
        struct mt_ask ask;
        assert_int_equal(begin(&ask, run.models->ctx, run.models, run.other, &alone), MT_OK);
        compute(run.models);
        finish(&ask, &alone);
        assert_int_equal(alone.code, 200);
        run.wanted = answer_of(&alone);
        assert_every_allocation_may_fail(ask_beside_another, &run, 20);
    }
}

/* The experts of an answer change nothing of it, draws with a seed included. */
static void test_routing_changes_nothing(void **state)
{
    static const char *const bodies[] = {
        "{\"prompt\": \"7 * 8 =\", \"max_tokens\": 20, \"temperature\": 5, \"seed\": 3}",
        "{\"prompt\": \"7 * 8 =\", \"max_tokens\": 20, \"temperature\": 5, \"seed\": 3, "
        "\"metier\": {\"routing\": true}}"};
    static struct client clients[2];
    struct mt_served_models *models = *state;
    for (int i = 0; i < 2; i++) {
        struct mt_ask ask;
        assert_int_equal(begin(&ask, models->ctx, models, bodies[i], &clients[i]), MT_OK);
        compute(models);
        finish(&ask, &clients[i]);
    }
    const char *usage = strstr(answer_of(&clients[0]), "\"usage\"");
    assert_non_null(usage);
    assert_memory_equal(answer_of(&clients[0]), answer_of(&clients[1]),
                        (size_t)(usage - answer_of(&clients[0])));
    assert_non_null(strstr(clients[1].text, "\"routing\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_routing_changes_nothing)};
    return cmocka_run_group_tests(tests, open_models, close_models);
}
