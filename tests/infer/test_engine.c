/*
 * The engine against the model's own forward over whole sequences: the same choices, the same probabilities,
 * for every architecture, with sliding windows, latent attention, LongRoPE's switch, with and without LoRA;
 * and the same bits in any company.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/engine_bench.h"
#include "support/every_allocation.h"

#define POSITIONS  48
#define VOCABULARY 53
#define CLOSE      2e-5 // of log-probabilities: sums in another order

static const struct mt_engine_options three = {.slots = 3, .positions = POSITIONS, .piece = 8};

// Pieces that latent attention takes as prompts (MT_PROMPT_TOKENS), the second with keys before it.
static const struct mt_engine_options prompts = {.slots = 3, .positions = POSITIONS, .piece = 16};

/* log p of every token of the sequence given those before, by one forward without the cache. */
static void whole_scores(struct engine_bench *bench, const int32_t *ids, int64_t count, float *logits)
{
    int32_t offsets[2] = {0, (int32_t)count};
    struct mt_batch batch = {
        .tokens = count, .sequences = 1, .ids = ids, .offsets = offsets, .loss_only = true};
    struct mt_model_loss loss;
    struct mt_tensor target = mt_tensor_2d(logits, MT_F32, count, VOCABULARY);
    assert_int_equal(mt_model_forward(bench->whole, &batch, &loss), MT_OK);
    assert_int_equal(mt_model_logits(bench->whole, &target), MT_OK);
}

static double score_of(const float *logits, int32_t id)
{
    double sum = 0.0;
    for (int i = 0; i < VOCABULARY; i++) sum += exp((double)logits[i] - (double)logits[id]);
    return -log(sum);
}

static void open_bench(struct engine_bench *bench, const struct workplace *place,
                       const struct mt_engine_options *options, bool lora)
{
    enum mt_status status = engine_bench_open(bench, place, NULL, 2, options, lora);
    if (status == MT_OK) status = engine_bench_open_whole(bench, place, POSITIONS, lora);
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static void add(struct engine_bench *bench, const struct bench_generation *generation)
{
    assert_int_equal(mt_engine_add_generation(bench->engine, &generation->request), MT_OK);
}

static void run(struct engine_bench *bench)
{
    enum mt_status status = engine_bench_run(bench);
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

/* Every token of a greedy answer is what the whole sequence's forward finds most likely. */
static void check_greedy(struct engine_bench *bench, const struct bench_generation *generation)
{
    static float logits[POSITIONS * VOCABULARY];
    int32_t ids[2 * BENCH_TOKENS];
    int64_t count = generation->request.count;
    memcpy(ids, generation->prompt, (size_t)count * sizeof *ids);
    assert_true(generation->finished);
    for (int64_t i = 0; i < generation->answered; i++) {
        whole_scores(bench, ids, count, logits);
        const float *last = logits + (count - 1) * VOCABULARY;
        int32_t best = mt_logits_highest(last, VOCABULARY);
        if (best != generation->answer[i] &&
            score_of(last, best) - score_of(last, generation->answer[i]) > CLOSE)
            fail_msg("token %d of the answer is %d, not %d", (int)i, generation->answer[i], best);
        ids[count++] = generation->answer[i];
    }
}

static void check_generation(const struct workplace *place, const struct mt_engine_options *options,
                             bool lora)
{
    struct engine_bench bench;
    static struct bench_generation generation[6];
    static const int lengths[] = {1, 7, 8, 20, 27, 33};
    open_bench(&bench, place, options, lora);
    for (int i = 0; i < 6; i++) {
        bench_generation_make(&generation[i], lengths[i], 10 + i, VOCABULARY, (uint64_t)i + 1);
        add(&bench, &generation[i]);
    }
    run(&bench);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(generation[i].answered, 10 + i);
        assert_int_equal(generation[i].why, MT_FINISH_LENGTH);
        check_greedy(&bench, &generation[i]);
    }
    assert_int_equal(mt_engine_requests(bench.engine), 0);
    engine_bench_close(&bench);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

/* A prefix and continuations, some of which run over LongRoPE's edge. */
struct scoring_case {
    int32_t prefix[BENCH_TOKENS];
    int32_t ids[4][16];
    float each[4][16];
    struct mt_continuation continuation[4];
    struct mt_scoring scoring;
};

static void make_scoring(struct scoring_case *c, int64_t prefix, size_t continuations)
{
    static const int lengths[] = {1, 4, 2, 12};
    memset(c, 0, sizeof *c);
    for (int64_t i = 0; i < prefix; i++) c->prefix[i] = (int32_t)((i * 7 + 3) % VOCABULARY);
    for (size_t i = 0; i < continuations; i++) {
        for (int j = 0; j < lengths[i]; j++) c->ids[i][j] = (int32_t)(i * 11 + (size_t)j * 5) % VOCABULARY;
        c->continuation[i] =
            (struct mt_continuation){.ids = c->ids[i], .count = lengths[i], .each = c->each[i]};
    }
    c->scoring = (struct mt_scoring){
        .ids = c->prefix, .count = prefix, .continuation = c->continuation, .continuations = continuations};
}

static void check_scores(struct engine_bench *bench, const struct scoring_case *c)
{
    static float logits[POSITIONS * VOCABULARY];
    int32_t ids[2 * BENCH_TOKENS];
    int64_t prefix = c->scoring.count;
    for (size_t i = 0; i < c->scoring.continuations; i++) {
        const struct mt_continuation *continuation = &c->continuation[i];
        memcpy(ids, c->prefix, (size_t)prefix * sizeof *ids);
        memcpy(ids + prefix, continuation->ids, (size_t)(continuation->count - 1) * sizeof *ids);
        whole_scores(bench, ids, prefix + continuation->count - 1, logits);
        double sum = 0.0;
        bool greedy = true;
        for (int64_t j = 0; j < continuation->count; j++) {
            const float *row = logits + (prefix - 1 + j) * VOCABULARY;
            double score = score_of(row, continuation->ids[j]);
            sum += score;
            greedy = greedy && mt_logits_highest(row, VOCABULARY) == continuation->ids[j];
            assert_true(fabs(score - (double)continuation->each[j]) < CLOSE);
        }
        assert_true(fabs(sum - continuation->log_probability) < 10 * CLOSE);
        assert_int_equal(greedy, continuation->greedy);
    }
}

static void check_scoring(const struct workplace *place, const struct mt_engine_options *options, bool lora)
{
    struct engine_bench bench;
    static struct scoring_case c[4];
    static const int prefixes[] = {1, 9, 24, 30};
    open_bench(&bench, place, options, lora);
    for (int i = 0; i < 4; i++) {
        make_scoring(&c[i], prefixes[i], i == 1 ? 1 : 4);
        if (i == 1) c[i].continuation[0].count = 5; // ids beyond the first are 0
        assert_int_equal(mt_engine_add_scoring(bench.engine, &c[i].scoring), MT_OK);
    }
    run(&bench);
    for (int i = 0; i < 4; i++) check_scores(&bench, &c[i]);
    assert_int_equal(mt_engine_requests(bench.engine), 0);
    engine_bench_close(&bench);
}

static void test_architectures(void **state)
{
    const struct workplace *place = *state;
    static const struct mt_engine_options one = {.slots = 1, .positions = POSITIONS, .piece = 64};
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        const char *config = small_model_config(model);
        assert_int_equal(small_model_make(place, config, MT_HF_FLOAT32, 11), 0);
        for (int lora = 0; lora < 2; lora++) {
            check_generation(place, &three, lora != 0);
            check_generation(place, &prompts, lora != 0);
            check_scoring(place, &three, lora != 0);
            check_scoring(place, &prompts, lora != 0);
            check_scoring(place, &one, lora != 0);
        }
        workplace_clear(place);
    }
}

/* Scores and drawn answers of a request alone and among others, in engines of other sizes. */
static void check_company(const struct workplace *place, int64_t piece)
{
    static struct bench_generation alone[6];
    static struct bench_generation together[6];
    static struct scoring_case scored;
    static struct scoring_case among;
    const struct mt_engine_options one = {.slots = 1, .positions = POSITIONS, .piece = piece};
    const struct mt_engine_options five = {.slots = 5, .positions = POSITIONS, .piece = piece};
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct engine_bench bench;
        const char *config = small_model_config(model);
        assert_int_equal(small_model_make(place, config, MT_HF_BFLOAT16, 11), 0);
        make_scoring(&scored, 19, 4);
        make_scoring(&among, 19, 4);
        open_bench(&bench, place, &one, true);
        for (int i = 0; i < 6; i++) {
            bench_generation_make(&alone[i], 3 + 5 * i, 12, VOCABULARY, (uint64_t)i + 1);
            alone[i].request.sampling.temperature = i < 2 ? 0.0 : 1.2;
            alone[i].request.sampling.top_k = i == 3 ? 9 : 0;
            alone[i].request.sampling.top_p = i == 4 ? 0.8 : 1.0;
            memcpy(&together[i], &alone[i], sizeof alone[i]);
            together[i].request.ids = together[i].prompt;
            together[i].request.self = &together[i];
            add(&bench, &alone[i]);
            run(&bench);
        }
        assert_int_equal(mt_engine_add_scoring(bench.engine, &scored.scoring), MT_OK);
        run(&bench);
        engine_bench_close(&bench);
        open_bench(&bench, place, &five, true);
        for (int i = 5; i >= 0; i--) {
            add(&bench, &together[i]);
            if (i == 3) assert_int_equal(mt_engine_add_scoring(bench.engine, &among.scoring), MT_OK);
        }
        run(&bench);
        engine_bench_close(&bench);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(alone[i].answered, together[i].answered);
            assert_memory_equal(alone[i].answer, together[i].answer, sizeof alone[i].answer);
        }
        assert_memory_equal(scored.each, among.each, sizeof scored.each);
        workplace_clear(place);
    }
}

static void test_company(void **state)
{
    check_company(*state, three.piece);
    check_company(*state, prompts.piece);
}

/* Many pieces a pass, of one prompt and of several, leave the same bits as one at a time. */
static void test_passes(void **state)
{
    const struct workplace *place = *state;
    static struct bench_generation small[6];
    static struct bench_generation large[6];
    static struct scoring_case scored;
    static struct scoring_case again;
    static const struct mt_engine_options piece = {
        .slots = 3, .positions = POSITIONS, .piece = 4, .pass_tokens = 1};
    static const struct mt_engine_options many = {
        .slots = 4, .positions = POSITIONS, .piece = 4, .pass_tokens = 90};
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        struct engine_bench bench;
        assert_int_equal(small_model_make(place, small_model_config(mt_archs[at]), MT_HF_BFLOAT16, 11), 0);
        int64_t steps[2];
        for (int wide = 0; wide < 2; wide++) {
            struct bench_generation *generation = wide ? large : small;
            struct scoring_case *c = wide ? &again : &scored;
            assert_int_equal(engine_bench_open(&bench, place, NULL, 2, wide ? &many : &piece, true), MT_OK);
            make_scoring(c, 27, 4);
            assert_int_equal(mt_engine_add_scoring(bench.engine, &c->scoring), MT_OK);
            for (int i = 0; i < 6; i++) {
                bench_generation_make(&generation[i], 6 + 6 * i, 5, VOCABULARY, (uint64_t)i + 1);
                generation[i].request.sampling.temperature = 1.0;
                add(&bench, &generation[i]);
            }
            mt_context_forbid_allocation(&bench.ctx, "a step");
            run(&bench);
            mt_context_forbid_allocation(&bench.ctx, NULL);
            steps[wide] = mt_engine_counts(bench.engine).steps;
            engine_bench_close(&bench);
        }
        for (int i = 0; i < 6; i++)
            assert_memory_equal(small[i].answer, large[i].answer, sizeof small[i].answer);
        assert_memory_equal(scored.each, again.each, sizeof scored.each);
        assert_true(3 * steps[1] < 2 * steps[0]);
        workplace_clear(place);
    }
}

#define SHARERS 7
#define SHARED  18 // ids that they begin with: 4 whole pieces of 4

/* Generations and scorings that begin alike, and what they got. */
struct sharers {
    struct bench_generation generation[SHARERS];
    struct scoring_case scored[2];
    int64_t prompt_tokens;
    int64_t again; // prompt tokens of the last generation, asked once more
};

static void begin_alike(int32_t *ids)
{
    for (int i = 0; i < SHARED; i++) ids[i] = (int32_t)(i * 5 + 2) % VOCABULARY;
}

static void run_sharers(const struct workplace *place, int64_t slots, int64_t common, struct sharers *sharers)
{
    struct engine_bench bench;
    const struct mt_engine_options options = {
        .slots = slots, .positions = POSITIONS, .piece = 4, .pass_tokens = 12};
    assert_int_equal(engine_bench_open(&bench, place, NULL, 2, &options, true), MT_OK);
    for (int i = 0; i < 2; i++) {
        struct scoring_case *c = &sharers->scored[i];
        make_scoring(c, 25, i == 0 ? 1 : 4);
        if (i == 0) c->continuation[0].count = 5;
        begin_alike(c->prefix);
        c->scoring.common = common;
        assert_int_equal(mt_engine_add_scoring(bench.engine, &c->scoring), MT_OK);
    }
    for (int i = 0; i < SHARERS; i++) {
        struct bench_generation *generation = &sharers->generation[i];
        bench_generation_make(generation, SHARED + 1 + i, 6, VOCABULARY, (uint64_t)i + 1);
        begin_alike(generation->prompt);
        if (i == 3) generation->prompt[6] = 0; // leaves the others in the second piece
        generation->request.common = common;
        generation->request.sampling.temperature = 1.0;
        add(&bench, generation);
    }
    mt_context_forbid_allocation(&bench.ctx, "a step");
    run(&bench);
    sharers->prompt_tokens = mt_engine_counts(bench.engine).prompt_tokens;
    mt_context_forbid_allocation(&bench.ctx, NULL);
    add(&bench, &sharers->generation[SHARERS - 1]);
    run(&bench);
    sharers->again = mt_engine_counts(bench.engine).prompt_tokens - sharers->prompt_tokens;
    assert_int_equal(mt_engine_requests(bench.engine), 0);
    engine_bench_close(&bench);
}

/* What requests begin with alike is computed once, in any number of slots, and no bit tells. */
static void test_sharing(void **state)
{
    const struct workplace *place = *state;
    static struct sharers alone;
    static struct sharers together;
    static const int64_t slots[] = {1, 2, 4, 9};
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        assert_int_equal(small_model_make(place, small_model_config(mt_archs[at]), MT_HF_BFLOAT16, 11), 0);
        run_sharers(place, 1, 0, &alone);
        for (int n = 0; n < 4; n++) {
            run_sharers(place, slots[n], INT64_MAX, &together);
            for (int i = 0; i < SHARERS; i++)
                assert_memory_equal(alone.generation[i].answer, together.generation[i].answer,
                                    sizeof alone.generation[i].answer);
            for (int i = 0; i < 2; i++)
                assert_memory_equal(alone.scored[i].each, together.scored[i].each,
                                    sizeof alone.scored[i].each);
            if (together.prompt_tokens >= alone.prompt_tokens)
                fail_msg("%s in %d slots: %d tokens of prompts, unshared %d", mt_archs[at]->name,
                         (int)slots[n], (int)together.prompt_tokens, (int)alone.prompt_tokens);
            if (mt_archs[at] != &mt_arch_mixtral) continue;
            // One slot may lose what it held; with several, six of seven generations have four pieces, one
            // has one, and the second scoring has all pieces of the first's prefix.
            if (slots[n] > 1) assert_int_equal(alone.prompt_tokens - together.prompt_tokens, 6 * 16 + 4 + 24);
            assert_int_equal(alone.again, SHARED + SHARERS);
            if (slots[n] > 1) assert_true(together.again <= SHARED + SHARERS - 16);
        }
        workplace_clear(place);
    }
}

static void test_ends(void **state)
{
    const struct workplace *place = *state;
    struct engine_bench bench;
    static struct bench_generation full;
    static struct bench_generation stopped;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_olmoe), MT_HF_FLOAT32, 11), 0);
    open_bench(&bench, place, &three, false);
    // No room is left: the answer may have one token that is not computed with.
    bench_generation_make(&full, POSITIONS - 3, 20, VOCABULARY, 4);
    add(&bench, &full);
    run(&bench);
    assert_int_equal(full.answered, 4);
    assert_int_equal(full.why, MT_FINISH_LENGTH);
    bench_generation_make(&stopped, POSITIONS - 3, 20, VOCABULARY, 4);
    int32_t stop[] = {-1, full.answer[2]};
    stopped.request.stop_ids = stop;
    stopped.request.stop_count = 2;
    add(&bench, &stopped);
    run(&bench);
    assert_int_equal(stopped.why, MT_FINISH_STOP_TOKEN);
    assert_true(stopped.answered <= 2);
    assert_memory_equal(stopped.answer, full.answer, (size_t)stopped.answered * sizeof(int32_t));
    engine_bench_close(&bench);
}

static void expect_refused(struct engine_bench *bench, const struct bench_generation *generation,
                           const char *words)
{
    assert_int_equal(mt_engine_add_generation(bench->engine, &generation->request), MT_ERR_USAGE);
    if (strstr(bench->ctx.message, words) == NULL) fail_msg("'%s' misses '%s'", bench->ctx.message, words);
}

static void test_refusals(void **state)
{
    const struct workplace *place = *state;
    struct engine_bench bench;
    static struct bench_generation generation;
    static struct scoring_case c;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_olmoe), MT_HF_FLOAT32, 11), 0);
    open_bench(&bench, place, &three, false);
    bench_generation_make(&generation, POSITIONS + 1, 2, VOCABULARY, 1);
    expect_refused(&bench, &generation, "there is room for 48");
    generation.request.count = 0;
    expect_refused(&bench, &generation, "no tokens");
    bench_generation_make(&generation, 3, 0, VOCABULARY, 1);
    expect_refused(&bench, &generation, "max_new is 0");
    bench_generation_make(&generation, 3, 1, VOCABULARY, 1);
    generation.prompt[1] = VOCABULARY;
    expect_refused(&bench, &generation, "the token 53");
    generation.prompt[1] = 0;
    generation.request.sampling.top_p = 0.0;
    expect_refused(&bench, &generation, "top-p");
    make_scoring(&c, POSITIONS, 4);
    assert_int_equal(mt_engine_add_scoring(bench.engine, &c.scoring), MT_ERR_USAGE);
    make_scoring(&c, 4, 0);
    assert_int_equal(mt_engine_add_scoring(bench.engine, &c.scoring), MT_ERR_USAGE);
    assert_int_equal(mt_engine_requests(bench.engine), 0);
    engine_bench_close(&bench);
}

static void test_no_allocation(void **state)
{
    const struct workplace *place = *state;
    static struct bench_generation generation[6];
    static struct scoring_case c;
    static const struct mt_arch *const models[] = {&mt_arch_deepseek_v2, &mt_arch_phimoe};
    for (size_t m = 0; m < 4; m++) {
        struct engine_bench bench;
        assert_int_equal(small_model_make(place, small_model_config(models[m / 2]), MT_HF_BFLOAT16, 11), 0);
        // Nothing else may use the device, whose scratch would then be larger than planned.
        assert_int_equal(engine_bench_open(&bench, place, NULL, 2, m % 2 == 0 ? &three : &prompts, true),
                         MT_OK);
        for (int i = 0; i < 6; i++) {
            bench_generation_make(&generation[i], 5 + 4 * i, 15, VOCABULARY, (uint64_t)i);
            add(&bench, &generation[i]);
        }
        make_scoring(&c, 22, 4);
        assert_int_equal(mt_engine_add_scoring(bench.engine, &c.scoring), MT_OK);
        mt_context_forbid_allocation(&bench.ctx, "a step");
        run(&bench);
        mt_context_forbid_allocation(&bench.ctx, NULL);
        engine_bench_close(&bench);
        workplace_clear(place);
    }
}

static enum mt_status whole_run(struct mt_context *ctx, const void *self)
{
    struct engine_bench bench;
    static struct bench_generation generation;
    bench_generation_make(&generation, 9, 4, VOCABULARY, 1);
    enum mt_status status = engine_bench_open(&bench, self, &ctx->allocator, 1, &three, true);
    if (status == MT_OK) status = mt_engine_add_generation(bench.engine, &generation.request);
    if (status == MT_OK) status = engine_bench_run(&bench);
    memcpy(ctx->message, bench.ctx.message, sizeof ctx->message);
    engine_bench_close(&bench);
    return status;
}

static void test_memory(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v3), MT_HF_BFLOAT16, 11),
                     0);
    assert_every_allocation_may_fail(whole_run, place, 21);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORKPLACE(test_architectures), IN_WORKPLACE(test_company), IN_WORKPLACE(test_passes),
        IN_WORKPLACE(test_sharing),       IN_WORKPLACE(test_ends),    IN_WORKPLACE(test_refusals),
        IN_WORKPLACE(test_no_allocation), IN_WORKPLACE(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
