/* Batches: permutations, mixtures, the three layouts, resuming anywhere, bad rows, memory, real files. */
#include "train/data/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/golden_tokenizers.h"
#include "support/workplace.h"
#include "train/data/shuffle.h"

enum { BOS = 420, EOS = 421 }; // of the golden "deepseek"

/* Two files of rows "N" -> digits, told apart by their lengths and their numbers. */
struct bench {
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer;
    struct mt_chat_template *template;
    struct mt_dataset *datasets[2];
    struct mt_batch_source sources[2];
    struct mt_batch_options options;
};

static struct mt_dataset *write_rows(struct bench *b, void **state, const char *name, int rows, int base)
{
    static char content[65536];
    char path[256];
    int at = 0;
    const struct mt_dataset_options none = {0};
    struct mt_dataset *dataset = NULL;
    for (int i = 0; i < rows; i++) {
        // The prompt is the row's own number; the answer has 1 to 7 digits.
        at +=
            snprintf(content + at, sizeof content - (size_t)at,
                     "{\"prompt\": \"%d\", \"completion\": \"%.*s\"}\n", base + i, 1 + i * 5 % 7, "9999999");
    }
    assert_int_equal(workplace_write(*state, name, content, (size_t)at), 0);
    if (mt_dataset_open(&b->ctx, workplace_path(*state, name, path, sizeof path), &none, &dataset) != MT_OK) {
        fail_msg("%s", b->ctx.message);
    }
    return dataset;
}

static void set_up(struct bench *b, void **state)
{
    const char *folder = getenv("METIER_TEMPLATES");
    memset(b, 0, sizeof *b);
    mt_context_init(&b->ctx, NULL);
    b->tokenizer = golden_load(&b->ctx, "deepseek");
    const struct mt_template_choice choice = {.name = "plain",
                                              .folder = folder != NULL ? folder : "share/templates"};
    assert_int_equal(mt_chat_template_open(&b->ctx, &choice, &b->template), MT_OK);
    b->datasets[0] = write_rows(b, state, "a.jsonl", 40, 100);
    b->datasets[1] = write_rows(b, state, "b.jsonl", 30, 500);
    b->sources[0].dataset = b->datasets[0];
    b->sources[1].dataset = b->datasets[1];
    b->options = (struct mt_batch_options){.sources = b->sources,
                                           .source_count = 2,
                                           .example = {.tokenizer = b->tokenizer,
                                                       .template = b->template,
                                                       .special = {.bos = BOS, .eos = EOS, .pad = -1},
                                                       .max_length = 16},
                                           .examples = 8,
                                           .tokens = 32,
                                           .window = 3,
                                           .seed = 7};
}

static void tear_down(struct bench *b)
{
    mt_dataset_close(b->datasets[0]);
    mt_dataset_close(b->datasets[1]);
    mt_chat_template_free(b->template);
    mt_tokenizer_free(b->tokenizer);
    assert_int_equal(b->ctx.live_bytes, 0);
}

static struct mt_batches *create(struct bench *b)
{
    struct mt_batches *batches = NULL;
    if (mt_batches_create(&b->ctx, &b->options, &batches) != MT_OK) fail_msg("%s", b->ctx.message);
    return batches;
}

static struct mt_step next(struct bench *b, struct mt_batches *batches)
{
    struct mt_step step;
    if (mt_batches_next(batches, &step) != MT_OK) fail_msg("%s", b->ctx.message);
    return step;
}

/* The number a sequence's prompt spells: bos, then three digits as the tokenizer writes them. */
static int number_of(struct bench *b, const struct mt_batch *batch, int64_t sequence)
{
    struct mt_byte_list text = {.ctx = &b->ctx};
    const int32_t *ids = batch->ids + batch->offsets[sequence];
    assert_int_equal(ids[0], BOS);
    assert_int_equal(mt_tokenizer_decode(b->tokenizer, &b->ctx, ids + 1, 3, MT_DECODE_PLAIN, &text), MT_OK);
    char digits[4] = {0};
    assert_int_equal(text.count, 3);
    memcpy(digits, text.data, 3);
    mt_byte_list_free(&text);
    return (int)strtol(digits, NULL, 10);
}

/* Checks a step's shape and counts its numbers; returns a hash of all that is in it. */
static uint64_t look(struct bench *b, struct mt_batches *batches, const struct mt_step *step, int seen[1000])
{
    uint64_t hash = 1469598103934665603u + step->epoch;
    int64_t examples = 0;
    int64_t tokens = 0;
    int64_t answers = 0;
    for (size_t m = 0; m < step->micro_batches; m++) {
        struct mt_batch batch = {0};
        mt_batches_micro(batches, m, &batch);
        assert_true(batch.tokens > 0 && batch.tokens <= b->options.tokens);
        assert_int_equal(batch.offsets[0], 0);
        assert_int_equal(batch.offsets[batch.sequences], batch.tokens);
        assert_int_equal(batch.first_sequence, examples); // of the step
        for (int64_t s = 0; s < batch.sequences; s++) {
            assert_true(batch.offsets[s + 1] > batch.offsets[s]);
            assert_int_equal(batch.labels[batch.offsets[s + 1] - 1], MT_NO_LABEL); // never the neighbour's
            assert_int_equal(batch.ids[batch.offsets[s + 1] - 1], EOS);
            if (seen != NULL) seen[number_of(b, &batch, s)]++;
        }
        for (int64_t i = 0; i < batch.tokens; i++) {
            hash = (hash ^ (uint64_t)(uint32_t)batch.ids[i]) * 1099511628211u;
            hash = (hash ^ (uint64_t)(uint32_t)batch.labels[i]) * 1099511628211u;
            answers += batch.labels[i] >= 0;
        }
        examples += batch.sequences;
        tokens += batch.tokens;
    }
    assert_int_equal(examples, step->examples);
    assert_int_equal(tokens, step->tokens);
    assert_int_equal(answers, step->answer_tokens);
    return hash;
}

static void permutations(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097};
    static unsigned char seen[4097];
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < counts[c]; i++) seen[mt_shuffle(3, c, counts[c], i)]++;
        for (uint64_t i = 0; i < counts[c]; i++) assert_int_equal(seen[i], 1);
    }
    // Every value is about as likely at every place: chi-squared over 4000 streams, 10 places by 10 values.
    int table[10][10] = {{0}};
    double chi = 0.0;
    for (uint64_t stream = 0; stream < 4000; stream++) {
        for (uint64_t i = 0; i < 10; i++) table[i][mt_shuffle(11, stream, 10, i)]++;
    }
    for (int place = 0; place < 10; place++) {
        for (int value = 0; value < 10; value++) {
            double off = table[place][value] - 400.0;
            chi += off * off / 400.0;
        }
    }
    assert_true(chi < 81 + 4 * 12.7); // 81 degrees of freedom
    assert_true(mt_shuffle(1, 2, UINT64_C(1) << 40, 5) != mt_shuffle(1, 3, UINT64_C(1) << 40, 5));
}

static void every_row_once(void **state)
{
    struct bench b;
    set_up(&b, state);
    for (int layout = 0; layout < MT_LAYOUTS; layout++) {
        b.options.layout = (enum mt_batch_layout)layout;
        b.options.window = layout == MT_LAYOUT_PACKED ? 20 : 3;
        struct mt_batches *batches = create(&b);
        assert_int_equal(mt_batches_draws(batches), 70);
        struct mt_batch_counts survey;
        assert_int_equal(mt_batches_survey(batches, 0, &survey), MT_OK);
        assert_int_equal(survey.examples, 70);
        int seen[1000] = {0};
        uint64_t steps = 0;
        int64_t examples = 0;
        while (examples < 70) {
            struct mt_step step = next(&b, batches);
            (void)look(&b, batches, &step, seen);
            assert_true(step.examples <= 8);
            if (layout == MT_LAYOUT_PACKED) assert_int_equal(step.micro_batches, 1);
            assert_int_equal(step.epoch, 0);
            examples += step.examples;
            steps++;
        }
        assert_int_equal(steps, survey.steps);
        for (int i = 0; i < 70; i++) assert_int_equal(seen[i < 40 ? 100 + i : 460 + i], 1);
        struct mt_batch_counts counts = mt_batches_counts(batches);
        assert_int_equal(counts.tokens, survey.tokens);
        assert_int_equal(counts.answer_tokens, survey.answer_tokens);
        struct mt_step step = next(&b, batches);
        assert_int_equal(step.epoch, 1);
        mt_batches_free(batches);
    }
    tear_down(&b);
}

static void mixture(void **state)
{
    struct bench b;
    set_up(&b, state);
    b.sources[0].weight = 2.5;
    b.sources[1].first = 5; // of the shuffled order: 10 rows
    b.sources[1].count = 10;
    struct mt_batches *batches = create(&b);
    assert_int_equal(mt_batches_draws(batches), 110);
    int first[1000] = {0};
    int both[1000] = {0};
    for (int64_t examples = 0; examples < 220;) {
        struct mt_step step = next(&b, batches);
        (void)look(&b, batches, &step, both);
        if (step.epoch == 0) (void)look(&b, batches, &step, first);
        examples += step.examples;
    }
    int thrice = 0;
    int differ = 0;
    for (int i = 100; i < 140; i++) {
        assert_true(first[i] == 2 || first[i] == 3);
        thrice += first[i] == 3;
        differ += both[i] - first[i] != first[i];
    }
    assert_int_equal(thrice, 20);
    assert_true(differ > 5); // another half in another epoch
    int rows = 0;
    for (int i = 500; i < 530; i++) {
        rows += first[i];
        assert_int_equal(both[i], 2 * first[i]); // the same ten rows
    }
    assert_int_equal(rows, 10);
    mt_batches_free(batches);
    // The rest of the rows, by another mixture with the same seed, has none of them.
    b.sources[0] = b.sources[1];
    b.sources[0].first = 15;
    b.sources[0].count = 0;
    b.options.source_count = 1;
    batches = create(&b);
    int rest[1000] = {0};
    for (int64_t examples = 0; examples < 15;) {
        struct mt_step step = next(&b, batches);
        (void)look(&b, batches, &step, rest);
        examples += step.examples;
    }
    for (int i = 500; i < 530; i++) assert_true(rest[i] + first[i] <= 1);
    mt_batches_free(batches);
    tear_down(&b);
}

static void resuming(void **state)
{
    enum { STEPS = 40 };
    struct bench b;
    set_up(&b, state);
    b.sources[1].weight = 0.7;
    for (int layout = 0; layout < MT_LAYOUTS; layout++) {
        b.options.layout = (enum mt_batch_layout)layout;
        b.options.window = layout == MT_LAYOUT_PACKED ? 20 : 3;
        uint64_t hashes[STEPS];
        struct mt_batch_position positions[STEPS];
        struct mt_batch_counts counts[STEPS + 1];
        struct mt_batches *batches = create(&b);
        for (int i = 0; i < STEPS; i++) {
            positions[i] = mt_batches_position(batches);
            counts[i] = mt_batches_counts(batches);
            struct mt_step step = next(&b, batches);
            hashes[i] = look(&b, batches, &step, NULL);
        }
        counts[STEPS] = mt_batches_counts(batches);
        mt_batches_free(batches);
        for (int start = 0; start < STEPS; start++) {
            batches = create(&b);
            assert_int_equal(mt_batches_seek(batches, positions[start], &counts[start]), MT_OK);
            for (int i = start; i < STEPS; i++) {
                struct mt_step step = next(&b, batches);
                assert_true(look(&b, batches, &step, NULL) == hashes[i]);
                if (i != start + 1) continue;
                struct mt_batch_counts survey; // in between it changes nothing
                assert_int_equal(mt_batches_survey(batches, 1, &survey), MT_OK);
            }
            struct mt_batch_counts end = mt_batches_counts(batches);
            assert_memory_equal(&end, &counts[STEPS], sizeof end);
            mt_batches_free(batches);
        }
        b.options.seed++;
        batches = create(&b);
        struct mt_step step = next(&b, batches);
        assert_true(look(&b, batches, &step, NULL) != hashes[0]);
        assert_int_equal(mt_batches_seek(batches, (struct mt_batch_position){.index = 1000}, NULL),
                         MT_ERR_USAGE);
        mt_batches_free(batches);
    }
    tear_down(&b);
}

static void layouts(void **state)
{
    struct bench b;
    set_up(&b, state);
    b.options.in_file_order = true;
    struct mt_batches *batches = create(&b);
    struct mt_step step = next(&b, batches);
    struct mt_batch batch = {0};
    assert_int_equal(step.examples, 8);
    assert_true(step.micro_batches > 1);
    mt_batches_micro(batches, 0, &batch);
    assert_int_equal(number_of(&b, &batch, 0), 100);
    assert_int_equal(number_of(&b, &batch, 1), 101);
    mt_batches_free(batches);
    // Buckets: within a step, lengths are closer together than within a window.
    b.options.in_file_order = false;
    b.options.layout = MT_LAYOUT_BUCKETS;
    b.options.window = 8;
    batches = create(&b);
    for (int i = 0; i < 8; i++) {
        int shortest = 100;
        int longest = 0;
        step = next(&b, batches);
        for (size_t m = 0; m < step.micro_batches; m++) {
            mt_batches_micro(batches, m, &batch);
            for (int64_t s = 0; s < batch.sequences; s++) {
                int length = batch.offsets[s + 1] - batch.offsets[s];
                if (length < shortest) shortest = length;
                if (length > longest) longest = length;
            }
        }
        assert_true(longest - shortest <= 2);
    }
    mt_batches_free(batches);
    // Packed: full steps, but for what the window's end leaves.
    b.options.layout = MT_LAYOUT_PACKED;
    b.options.window = 70;
    b.options.examples = 0;
    b.options.tokens = 64;
    batches = create(&b);
    struct mt_batch_counts survey;
    assert_int_equal(mt_batches_survey(batches, 0, &survey), MT_OK);
    assert_true(survey.steps <= survey.tokens / 64 + 2);
    mt_batches_free(batches);
    tear_down(&b);
}

/* For several ranks: the same examples in the same order, no more rounds, and as even as order allows. */
static void shared_among_ranks(void **state)
{
    struct bench b;
    set_up(&b, state);
    for (int layout = 0; layout < MT_LAYOUTS; layout++) {
        b.options.layout = (enum mt_batch_layout)layout;
        struct mt_batches *full = create(&b);
        struct mt_batches *even = create(&b);
        for (size_t i = 0; i < 24; i++) {
            size_t ranks = 2 + i % 4;
            mt_batches_share(even, ranks);
            struct mt_step whole = next(&b, full);
            struct mt_step step = next(&b, even);
            int seen[1000] = {0};
            (void)look(&b, even, &step, seen);
            assert_int_equal(step.tokens, whole.tokens);
            assert_int_equal(step.answer_tokens, whole.answer_tokens);
            assert_int_equal((step.micro_batches + ranks - 1) / ranks,
                             (whole.micro_batches + ranks - 1) / ranks);
            int64_t before = 0; // the longest micro-batch
            int64_t after = 0;
            struct mt_batch batch = {0};
            for (size_t m = 0; m < whole.micro_batches; m++) {
                mt_batches_micro(full, m, &batch);
                if (batch.tokens > before) before = batch.tokens;
            }
            for (size_t m = 0; m < step.micro_batches; m++) {
                mt_batches_micro(even, m, &batch);
                if (batch.tokens > after) after = batch.tokens;
            }
            assert_true(after <= before);
            // Another micro-batch was free, and no example is longer than 16.
            bool spare = step.micro_batches > whole.micro_batches;
            if (spare) assert_true(after < before || after <= 16);
            if (layout == MT_LAYOUT_PACKED && whole.examples > 1) assert_true(step.micro_batches > 1);
        }
        mt_batches_free(full);
        mt_batches_free(even);
    }
    tear_down(&b);
}

static void bad_rows(void **state)
{
    static const char content[] = "{\"prompt\": \"100\", \"completion\": \"1\"}\nnonsense\n{\"other\": 1}\n"
                                  "{\"prompt\": \"1000000000000000000000\", \"completion\": \"1\"}\n"
                                  "{\"prompt\": \"101\", \"completion\": \"123456789012345678\"}\n";
    struct bench b;
    char path[256];
    const struct mt_dataset_options none = {0};
    set_up(&b, state);
    mt_dataset_close(b.datasets[0]);
    assert_int_equal(workplace_write(*state, "c.jsonl", content, strlen(content)), 0);
    workplace_path(*state, "c.jsonl", path, sizeof path);
    assert_int_equal(mt_dataset_open(&b.ctx, path, &none, &b.datasets[0]), MT_OK);
    b.sources[0].dataset = b.datasets[0];
    b.options.source_count = 1;
    FILE *stream = tmpfile();
    struct mt_log log;
    mt_log_init(&log, stream, MT_LOG_WARNING);
    b.options.log = &log;
    struct mt_row_faults faults = {.ctx = &b.ctx};
    b.options.faults = &faults;
    struct mt_batches *batches = create(&b);
    struct mt_step step = next(&b, batches);
    struct mt_batch_counts counts = mt_batches_counts(batches);
    assert_int_equal(step.examples, 2);
    assert_int_equal(counts.draws, 5);
    assert_int_equal(counts.bad_rows, 2);
    assert_int_equal(counts.without_answer, 1);
    assert_int_equal(counts.truncated, 2);
    assert_int_equal(counts.lost_tokens, 9 + 7); // of 25 and 23 tokens, bos and eos included, 16 stay
    assert_int_equal(counts.lost_answer, 2 + 7);
    mt_batches_free(batches);
    rewind(stream);
    char text[1024] = {0};
    assert_true(fread(text, 1, sizeof text - 1, stream) > 0);
    assert_non_null(strstr(text, "c.jsonl:2: not valid JSON"));
    assert_non_null(strstr(text, "c.jsonl:3: the fields of the row"));
    (void)fclose(stream);
    mt_row_faults_free(&faults);
    b.options.faults = NULL;
    b.options.log = NULL;
    b.options.stop_at_bad_row = true;
    b.options.faults = &faults;
    batches = create(&b);
    assert_int_equal(mt_batches_next(batches, &step), MT_ERR_FORMAT);
    // A survey finds them all, whatever the order.
    assert_int_equal(mt_batches_survey(batches, 1, &counts), MT_OK);
    assert_int_equal(counts.bad_rows, 2);
    assert_non_null(strstr(mt_row_faults_first(&faults)->first, "c.jsonl:2: not valid JSON"));
    mt_batches_free(batches);
    mt_row_faults_free(&faults);
    b.options.faults = NULL;
    b.options.stop_at_bad_row = false;
    b.sources[0].example.form = MT_FORM_TEXT;
    batches = create(&b);
    assert_int_equal(mt_batches_next(batches, &step), MT_ERR_FORMAT);
    assert_non_null(strstr(b.ctx.message, "no row of the data gives an example"));
    mt_batches_free(batches);
    tear_down(&b);
}

static void refused(void **state)
{
    struct bench b;
    struct mt_batches *batches = NULL;
    set_up(&b, state);
    struct mt_batch_options wrong[] = {b.options, b.options, b.options, b.options, b.options, b.options};
    struct mt_batch_source heavy = {.dataset = b.datasets[0], .weight = -1.0};
    struct mt_batch_source beyond = {.dataset = b.datasets[0], .first = 40};
    wrong[0].source_count = 0;
    wrong[1].example.max_length = 0;
    wrong[2].tokens = 15;
    wrong[3].examples = 0;
    wrong[4].sources = &heavy;
    wrong[4].source_count = 1;
    wrong[5].sources = &beyond;
    wrong[5].source_count = 1;
    static const char *const words[] = {"no data",    "max_length is 0", "15 tokens",
                                        "0 examples", "weight is -1",    "only 40 rows"};
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(mt_batches_create(&b.ctx, &wrong[i], &batches), MT_ERR_USAGE);
        if (strstr(b.ctx.message, words[i]) == NULL) fail_msg("%s", b.ctx.message);
        assert_null(batches);
    }
    tear_down(&b);
}

static enum mt_status some_steps(struct mt_context *ctx, const void *self)
{
    struct mt_batches *batches = NULL;
    struct mt_step step;
    enum mt_status status = mt_batches_create(ctx, self, &batches);
    for (int i = 0; status == MT_OK && i < 4; i++) status = mt_batches_next(batches, &step);
    mt_batches_free(batches);
    return status;
}

static void out_of_memory(void **state)
{
    struct bench b;
    set_up(&b, state);
    b.options.layout = MT_LAYOUT_BUCKETS;
    assert_every_allocation_may_fail(some_steps, &b.options, 21);
    tear_down(&b);
}

static void real_file(void **state)
{
    const char *shared = getenv("METIER_SHARED_DATA");
    if (shared == NULL || access(shared, R_OK) != 0) {
        print_message("skipped: METIER_SHARED_DATA does not name the folder of real files\n");
        skip();
    }
    struct bench b;
    char path[512];
    const struct mt_dataset_options none = {0};
    set_up(&b, state);
    mt_dataset_close(b.datasets[0]);
    (void)snprintf(path, sizeof path, "%s/gsm8k/train.jsonl.gz", shared);
    assert_int_equal(mt_dataset_open(&b.ctx, path, &none, &b.datasets[0]), MT_OK);
    b.sources[0] = (struct mt_batch_source){.dataset = b.datasets[0], .count = 6000};
    b.options.source_count = 1;
    b.options.examples = 32;
    b.options.example.max_length = 512;
    b.options.tokens = 4096;
    struct mt_batches *batches = create(&b);
    struct mt_batch_counts survey;
    assert_int_equal(mt_batches_survey(batches, 0, &survey), MT_OK);
    assert_int_equal(survey.draws, 6000);
    assert_int_equal(survey.bad_rows, 0);
    assert_int_equal(survey.examples + survey.without_answer, 6000);
    assert_int_equal(survey.steps, (survey.examples + 31) / 32);
    mt_batches_free(batches);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations),
        cmocka_unit_test_setup_teardown(every_row_once, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(mixture, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(resuming, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(layouts, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(shared_among_ranks, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(bad_rows, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refused, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(real_file, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
