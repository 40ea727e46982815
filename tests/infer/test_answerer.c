/*
 * A session as an answerer: the same bits in any company, the engine's own scores, answers that end where
 * they should, prompts that are too long, stops in the middle, every allocation failing in turn.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/answerer.h"
#include "infer/routing_watch.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/golden_tokenizers.h"
#include "support/small_models.h"

#define QUESTIONS 7
#define CHOICES   3
#define SAMPLES   3
#define CONTEXT   64

static const char config[] =
    "{\"model_type\": \"deepseek_v3\", \"first_k_dense_replace\": 1, \"hidden_size\": 24, "
    "\"intermediate_size\": 44, \"kv_lora_rank\": 14, \"max_position_embeddings\": 128, "
    "\"moe_intermediate_size\": 10, \"n_group\": 4, \"n_routed_experts\": 8, \"n_shared_experts\": 2, "
    "\"norm_topk_prob\": true, \"num_attention_heads\": 3, \"num_experts_per_tok\": 3, "
    "\"num_hidden_layers\": 3, \"num_key_value_heads\": 3, \"q_lora_rank\": null, \"qk_nope_head_dim\": 10, "
    "\"qk_rope_head_dim\": 6, \"rms_norm_eps\": 1e-05, \"rope_theta\": 50000.0, "
    "\"routed_scaling_factor\": 2.446, \"scoring_func\": \"sigmoid\", \"topk_group\": 2, "
    "\"topk_method\": \"noaux_tc\", \"v_head_dim\": 12, \"vocab_size\": 440, \"bos_token_id\": 420, "
    "\"eos_token_id\": 421, \"initializer_range\": 0.3}";

static const char *const prompts[QUESTIONS] = {
    "2 + 2 =",
    "The capital of France is ",
    "Is this a sentence?\nAnswer:",
    "one two three",
    "x",
    "Question: why?\nAnswer:",
    "a longer text, to be cut into more pieces than the others are"};
static const char *const choices[CHOICES] = {" no", " yes, it is", " A"};

/* What a runner does, as far as a test needs it. */
struct bench {
    struct mt_context ctx;
    struct mt_session session;
    struct mt_session_answerer *answerer;
    struct mt_answerer face;
    int answered[QUESTIONS];
    int64_t tokens;
    int calls_left; // go_on says no after so many calls; negative: never
};

static enum mt_status note_answer(void *self, size_t index)
{
    struct bench *bench = self;
    bench->answered[index]++;
    return MT_OK;
}

static bool note_progress(void *self, int64_t tokens)
{
    struct bench *bench = self;
    bench->tokens = tokens;
    if (bench->calls_left > 0) bench->calls_left--;
    return bench->calls_left != 0;
}

static void make_model(const struct workplace *place)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct golden_file tokenizer = golden_read(&ctx, "deepseek.json");
    assert_int_equal(small_model_make(place, config, MT_HF_BFLOAT16, 3), 0);
    assert_int_equal(workplace_write(place, "tokenizer.json", tokenizer.data, tokenizer.bytes), 0);
    golden_free(&tokenizer);
}

static enum mt_status try_open(struct bench *bench, const struct workplace *place,
                               const struct mt_allocator *allocator, int64_t slots, const char *template)
{
    const struct mt_text_form form = {
        .name = "test", .template = template, .talks = template != NULL, .why = "the test says so"};
    const struct mt_session_options options = {.directory = place->directory,
                                               .form = &form,
                                               .templates = getenv("METIER_TEMPLATES"),
                                               .device = "cpu",
                                               .threads = 1,
                                               .slots = slots,
                                               .context = CONTEXT};
    const struct mt_session_answerer_options answering = {
        .name = "small", .temperature = -1.0, .watched = true};
    *bench = (struct bench){.calls_left = -1};
    mt_context_init(&bench->ctx, allocator);
    enum mt_status status = mt_session_open(&bench->ctx, &options, &bench->session);
    if (status == MT_OK) status = mt_session_answerer_create(&bench->session, &answering, &bench->answerer);
    if (status == MT_OK) bench->face = mt_session_answerer_face(bench->answerer);
    return status;
}

static void open_bench(struct bench *bench, const struct workplace *place, int64_t slots,
                       const char *template)
{
    if (try_open(bench, place, NULL, slots, template) != MT_OK) fail_msg("%s", bench->ctx.message);
}

static void close_bench(struct bench *bench)
{
    mt_session_answerer_destroy(bench->answerer);
    mt_session_close(&bench->session);
}

static struct mt_text text_of(const char *text)
{
    return (struct mt_text){.text = text, .bytes = strlen(text)};
}

static enum mt_status try_score(struct bench *bench, struct mt_choice_score scores[QUESTIONS][CHOICES])
{
    struct mt_choice_question questions[QUESTIONS];
    struct mt_text texts[CHOICES];
    const struct mt_answer_listener listener = {
        .self = bench, .answered = note_answer, .go_on = note_progress};
    for (int i = 0; i < CHOICES; i++) texts[i] = text_of(choices[i]);
    for (int i = 0; i < QUESTIONS; i++) {
        questions[i] = (struct mt_choice_question){.task = "t",
                                                   .id = "1",
                                                   .prefix = text_of(prompts[i]),
                                                   .continuations = texts,
                                                   .count = CHOICES,
                                                   .scores = scores[i]};
    }
    memset(bench->answered, 0, sizeof bench->answered);
    return bench->face.score(bench->face.self, questions, QUESTIONS, &listener);
}

static enum mt_status try_write(struct bench *bench, int64_t samples, const char *const *stop,
                                struct mt_byte_list *answers)
{
    struct mt_question questions[QUESTIONS];
    const struct mt_answer_options options = {.max_tokens = 9, .stop = stop, .samples = samples, .seed = 4};
    const struct mt_answer_listener listener = {
        .self = bench, .answered = note_answer, .go_on = note_progress};
    for (int i = 0; i < QUESTIONS; i++) {
        questions[i] = (struct mt_question){
            .task = "t", .id = "1", .number = (uint64_t)i, .prompt = text_of(prompts[i])};
    }
    for (int i = 0; i < QUESTIONS * SAMPLES; i++) answers[i] = (struct mt_byte_list){.ctx = &bench->ctx};
    memset(bench->answered, 0, sizeof bench->answered);
    return bench->face.generate(bench->face.self, questions, QUESTIONS, &options, &listener, answers);
}

static void free_answers(struct mt_byte_list *answers)
{
    for (int i = 0; i < QUESTIONS * SAMPLES; i++) mt_byte_list_free(&answers[i]);
}

static void check_same_texts(const struct mt_byte_list *a, const struct mt_byte_list *b, int count)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(a[i].count, b[i].count);
        if (a[i].count > 0) assert_memory_equal(a[i].data, b[i].data, a[i].count);
    }
}

static void test_company(void **state)
{
    const struct workplace *place = *state;
    static const char *const none[] = {NULL};
    static const int64_t slots[] = {1, 3, 8};
    struct mt_choice_score first[QUESTIONS][CHOICES];
    struct mt_byte_list drawn[QUESTIONS * SAMPLES];
    struct mt_byte_list greedy[QUESTIONS * SAMPLES];
    struct bench keeper;
    make_model(place);
    open_bench(&keeper, place, slots[0], NULL);
    assert_int_equal(try_score(&keeper, first), MT_OK);
    assert_int_equal(try_write(&keeper, SAMPLES, none, drawn), MT_OK);
    assert_int_equal(try_write(&keeper, 1, none, greedy), MT_OK);
    assert_true(keeper.tokens > 0);
    for (int i = 0; i < QUESTIONS; i++) {
        assert_int_equal(keeper.answered[i], 1);
        for (int k = 0; k < CHOICES; k++) {
            assert_true(isfinite(first[i][k].log_likelihood) && first[i][k].log_likelihood < 0.0);
        }
    }
    // Samples of one question are not all the same text.
    bool differ = false;
    for (int i = 0; i < QUESTIONS; i++) {
        const struct mt_byte_list *two = &drawn[i * SAMPLES];
        differ =
            differ || two[0].count != two[1].count || memcmp(two[0].data, two[1].data, two[0].count) != 0;
    }
    assert_true(differ);
    for (int n = 1; n < 3; n++) {
        struct bench bench;
        struct mt_choice_score scores[QUESTIONS][CHOICES];
        struct mt_byte_list answers[QUESTIONS * SAMPLES];
        open_bench(&bench, place, slots[n], NULL);
        assert_int_equal(try_score(&bench, scores), MT_OK);
        for (int i = 0; i < QUESTIONS; i++) {
            for (int k = 0; k < CHOICES; k++) {
                assert_true(scores[i][k].log_likelihood == first[i][k].log_likelihood);
                assert_int_equal(scores[i][k].greedy, first[i][k].greedy);
            }
        }
        assert_int_equal(try_write(&bench, SAMPLES, none, answers), MT_OK);
        check_same_texts(answers, drawn, QUESTIONS * SAMPLES);
        free_answers(answers);
        assert_int_equal(try_write(&bench, 1, none, answers), MT_OK);
        check_same_texts(answers, greedy, QUESTIONS);
        free_answers(answers);
        close_bench(&bench);
        assert_int_equal(bench.ctx.live_bytes, 0);
    }
    free_answers(drawn);
    free_answers(greedy);
    close_bench(&keeper);
}

/* A score is the engine's own for the ids of the text, whole. */
static void test_scores(void **state)
{
    const struct workplace *place = *state;
    struct bench bench;
    struct mt_choice_score scores[QUESTIONS][CHOICES];
    make_model(place);
    open_bench(&bench, place, 4, NULL);
    assert_int_equal(try_score(&bench, scores), MT_OK);
    for (int i = 0; i < QUESTIONS; i++) {
        for (int k = 0; k < CHOICES; k++) {
            char text[256];
            struct mt_id_list prefix = {.ctx = &bench.ctx};
            struct mt_id_list whole = {.ctx = &bench.ctx};
            size_t bytes = strlen(prompts[i]);
            while (bytes > 0 && prompts[i][bytes - 1] == ' ') bytes--;
            int length = snprintf(text, sizeof text, "%s%s", prompts[i], choices[k]);
            assert_int_equal(mt_session_encode_text(&bench.session, prompts[i], bytes, &prefix), MT_OK);
            assert_int_equal(mt_session_encode_text(&bench.session, text, (size_t)length, &whole), MT_OK);
            struct mt_continuation continuation = {.ids = whole.data + prefix.count,
                                                   .count = (int64_t)(whole.count - prefix.count)};
            const struct mt_scoring scoring = {.ids = prefix.data,
                                               .count = (int64_t)prefix.count,
                                               .continuation = &continuation,
                                               .continuations = 1};
            assert_int_equal(mt_engine_add_scoring(bench.session.engine, &scoring), MT_OK);
            for (bool working = true; working;)
                assert_int_equal(mt_engine_step(bench.session.engine, &working), MT_OK);
            assert_true(fabs(continuation.log_probability - scores[i][k].log_likelihood) < 1e-4);
            mt_id_list_free(&prefix);
            mt_id_list_free(&whole);
        }
    }
    close_bench(&bench);
}

static void test_stops(void **state)
{
    const struct workplace *place = *state;
    static const char *const none[] = {NULL};
    struct bench bench;
    struct mt_byte_list whole[QUESTIONS * SAMPLES];
    struct mt_byte_list cut[QUESTIONS * SAMPLES];
    struct mt_choice_score scores[QUESTIONS][CHOICES];
    make_model(place);
    open_bench(&bench, place, 2, NULL);
    assert_int_equal(try_write(&bench, 1, none, whole), MT_OK);
    // A text from the middle of the first answer that is long enough ends that answer before it.
    int long_one = 0;
    while (long_one < QUESTIONS && whole[long_one].count < 6) long_one++;
    assert_true(long_one < QUESTIONS);
    char end[3] = {(char)whole[long_one].data[3], (char)whole[long_one].data[4], '\0'};
    const char *const stop[] = {"never there", end, NULL};
    assert_int_equal(try_write(&bench, 1, stop, cut), MT_OK);
    assert_true(cut[long_one].count <= 3);
    assert_memory_equal(cut[long_one].data, whole[long_one].data, cut[long_one].count);
    free_answers(whole);
    free_answers(cut);
    // Somebody says no in the middle: some are answered, and the next call begins afresh.
    bench.calls_left = 4;
    assert_int_equal(try_score(&bench, scores), MT_OK);
    int answered = 0;
    for (int i = 0; i < QUESTIONS; i++) answered += bench.answered[i];
    assert_true(answered < QUESTIONS);
    assert_int_equal(mt_engine_requests(bench.session.engine), 0);
    bench.calls_left = -1;
    assert_int_equal(try_score(&bench, scores), MT_OK);
    for (int i = 0; i < QUESTIONS; i++) assert_int_equal(bench.answered[i], 1);
    close_bench(&bench);
}

/* What does not fit loses its beginning; what cannot fit is refused with the sample's name. */
static void test_long(void **state)
{
    const struct workplace *place = *state;
    static const char *const none[] = {NULL};
    struct bench bench;
    char text[1500];
    struct mt_choice_score score[2] = {{0}};
    struct mt_text continuations[2];
    make_model(place);
    open_bench(&bench, place, 2, NULL);
    const struct mt_answer_listener listener = {
        .self = &bench, .answered = note_answer, .go_on = note_progress};
    for (size_t i = 0; i < sizeof text - 1; i++) text[i] = (char)('a' + i % 7);
    text[sizeof text - 1] = '\0';
    continuations[0] = text_of(" no");
    continuations[1] = text_of(" something longer");
    struct mt_choice_question question = {.task = "t",
                                          .id = "long",
                                          .prefix = text_of(text),
                                          .continuations = continuations,
                                          .count = 2,
                                          .scores = score};
    assert_int_equal(bench.face.score(bench.face.self, &question, 1, &listener), MT_OK);
    assert_true(isfinite(score[0].log_likelihood) && isfinite(score[1].log_likelihood));
    assert_true(score[1].prompt_cut);
    struct mt_byte_list answer = {.ctx = &bench.ctx};
    struct mt_answer_end end = {0};
    const struct mt_question ask = {.task = "t", .id = "long", .prompt = text_of(text), .ends = &end};
    const struct mt_answer_options options = {.max_tokens = 9, .stop = none, .samples = 1};
    assert_int_equal(bench.face.generate(bench.face.self, &ask, 1, &options, &listener, &answer), MT_OK);
    assert_true(end.prompt_cut);
    question.prefix = text_of("x");
    continuations[0] = text_of(text);
    assert_int_equal(bench.face.score(bench.face.self, &question, 1, &listener), MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "sample long"));
    mt_byte_list_free(&answer);
    close_bench(&bench);
}

/* Through a template other tokens come before the answer, and no space does. */
static void test_template(void **state)
{
    const struct workplace *place = *state;
    struct bench bench;
    struct mt_choice_score plain[QUESTIONS][CHOICES];
    struct mt_choice_score asked[QUESTIONS][CHOICES];
    make_model(place);
    open_bench(&bench, place, 2, NULL);
    assert_int_equal(try_score(&bench, plain), MT_OK);
    close_bench(&bench);
    open_bench(&bench, place, 2, "chatml");
    assert_int_equal(try_score(&bench, asked), MT_OK);
    assert_true(plain[0][0].log_likelihood != asked[0][0].log_likelihood);
    close_bench(&bench);
}

/* Every token of a request is counted once, in any company. */
static void test_routing(void **state)
{
    const struct workplace *place = *state;
    static const char *const none[] = {NULL};
    double load[8] = {0};
    int64_t tokens = 0;
    make_model(place);
    for (int n = 0; n < 2; n++) {
        struct bench bench;
        struct mt_routing_watch *watch = NULL;
        struct mt_comm *alone = NULL;
        struct mt_figures figures = {0};
        struct mt_choice_score scores[QUESTIONS][CHOICES];
        struct mt_byte_list answers[QUESTIONS * SAMPLES];
        open_bench(&bench, place, n == 0 ? 1 : 8, NULL);
        assert_int_equal(mt_routing_watch_create(&bench.session, &watch), MT_OK);
        assert_int_equal(try_score(&bench, scores), MT_OK);
        assert_int_equal(try_write(&bench, 1, none, answers), MT_OK);
        free_answers(answers);
        struct mt_engine_counts counts = mt_engine_counts(bench.session.engine);
        assert_int_equal(mt_comm_open_alone(&bench.ctx, &alone), MT_OK);
        assert_int_equal(mt_routing_watch_figures(watch, alone, &figures), MT_OK);
        mt_comm_close(alone);
        assert_int_equal(figures.layers, 2);
        // An answer's last token is not computed with.
        assert_true(figures.layer[0].tokens >= counts.prompt_tokens);
        assert_true(figures.layer[0].tokens <= counts.prompt_tokens + counts.generated_tokens);
        double served = 0.0;
        for (int i = 0; i < figures.experts; i++) served += figures.layer[1].load[i];
        assert_true(served == (double)(figures.slots * figures.layer[1].tokens));
        assert_int_equal(figures.experts, 8);
        assert_true(n == 0 || figures.layer[1].tokens == tokens);
        for (int i = 0; i < 8; i++) assert_true(n == 0 || figures.layer[1].load[i] == load[i]);
        tokens = figures.layer[1].tokens;
        memcpy(load, figures.layer[1].load, sizeof load);
        mt_figures_free(&figures);
        mt_routing_watch_destroy(watch);
        close_bench(&bench);
        assert_int_equal(bench.ctx.live_bytes, 0);
    }
}

static enum mt_status whole_run(struct mt_context *ctx, const void *self)
{
    static const char *const none[] = {NULL};
    struct bench bench;
    struct mt_choice_score scores[QUESTIONS][CHOICES];
    struct mt_byte_list answers[QUESTIONS * SAMPLES];
    enum mt_status status = try_open(&bench, self, &ctx->allocator, 2, NULL);
    if (status == MT_OK) status = try_score(&bench, scores);
    if (status == MT_OK) {
        status = try_write(&bench, 1, none, answers);
        free_answers(answers);
    }
    memcpy(ctx->message, bench.ctx.message, sizeof ctx->message);
    close_bench(&bench);
    return status;
}

static void test_memory(void **state)
{
    const struct workplace *place = *state;
    make_model(place);
    assert_every_allocation_may_fail(whole_run, place, 51);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(test_company), IN_WORKPLACE(test_scores),   IN_WORKPLACE(test_stops),
        IN_WORKPLACE(test_long),    IN_WORKPLACE(test_template), IN_WORKPLACE(test_routing),
        IN_WORKPLACE(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
