/* Built-in problems as a whole: form, splits, repetition, exhaustion, memory. */
#include "synth/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

// ------------------------------------------------------------------ form

static void expect_printable(const char *text, size_t limit)
{
    assert_in_range(strlen(text), 1, limit - 1);
    for (const char *at = text; *at != '\0'; at++) assert_in_range(*at, ' ', '~');
}

static void items_are_short_ascii(void **state)
{
    (void)state;
    for (int domain = 0; domain < MT_DOMAINS; domain++) {
        size_t count = 0;
        const struct mt_synth_task *tasks = mt_synth_tasks((enum mt_task_domain)domain, &count);
        assert_true(count >= 4);
        for (size_t t = 0; t < count; t++) {
            assert_int_equal(tasks[t].domain, domain);
            for (size_t other = 0; other < t; other++)
                assert_string_not_equal(tasks[t].name, tasks[other].name);
            for (int i = 0; i < 2000; i++) {
                struct mt_synth_item item;
                mt_synth_make(&tasks[t], 3, 1 + i % MT_SYNTH_HARDEST, (uint64_t)i, &item);
                assert_false(item.cut);
                expect_printable(item.prompt, sizeof item.prompt);
                expect_printable(item.completion, sizeof item.completion);
            }
        }
    }
}

static void domains_have_names(void **state)
{
    (void)state;
    enum mt_task_domain domain;
    assert_true(mt_synth_domain("code", &domain));
    assert_int_equal(domain, MT_DOMAIN_CODE);
    assert_false(mt_synth_domain("cod", &domain));
    assert_false(mt_synth_domain("", &domain));
}

// ------------------------------------------------------------------ rows of items

#define MOST_KEPT 120000

/* Items of several rows, to be sorted and compared. */
struct kept {
    char prompt[MT_SYNTH_PROMPT_BYTES];
    char completion[MT_SYNTH_ANSWER_BYTES];
    enum mt_synth_split split;
    int row;
};

struct collection {
    struct kept *items;
    size_t count;
    int rows;
};

static void collect(struct collection *all, enum mt_task_domain domain, enum mt_synth_split split,
                    uint64_t seed, int difficulty, int count)
{
    struct mt_context ctx;
    struct mt_synth *synth = NULL;
    const struct mt_synth_options options = {domain, split, seed, difficulty, NULL};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_synth_create(&ctx, &options, &synth), MT_OK);
    for (int i = 0; i < count; i++) {
        struct mt_synth_item item;
        const struct mt_synth_task *task = NULL;
        if (mt_synth_next(synth, &item, &task) != MT_OK) fail_msg("%s", ctx.message);
        assert_int_equal(task->domain, domain);
        // Its prompt is in the form rows are compared in: its hash is the row's.
        struct mt_byte_list form = {.ctx = &ctx};
        assert_int_equal(mt_row_text_append(&form, item.prompt, strlen(item.prompt)), MT_OK);
        assert_int_equal(mt_row_hash(form.data, form.count), mt_synth_hash(item.prompt));
        mt_byte_list_free(&form);
        assert_true(all->count < MOST_KEPT);
        struct kept *kept = &all->items[all->count++];
        memcpy(kept->prompt, item.prompt, sizeof kept->prompt);
        memcpy(kept->completion, item.completion, sizeof kept->completion);
        kept->split = split;
        kept->row = all->rows;
    }
    all->rows++;
    mt_synth_free(synth);
    assert_int_equal(ctx.live_bytes, 0);
}

static int by_prompt(const void *a, const void *b)
{
    const struct kept *left = a;
    const struct kept *right = b;
    int order = strcmp(left->prompt, right->prompt);
    return order != 0 ? order : left->row - right->row;
}

/*
 * 10^5 items of all domains and splits, made with different seeds and difficulties: no prompt is in two
 * splits, none twice in a row, none has two answers.
 */
static void splits_are_disjoint(void **state)
{
    (void)state;
    struct collection all = {.items = malloc(MOST_KEPT * sizeof(struct kept))};
    assert_non_null(all.items);
    for (int domain = 0; domain < MT_DOMAINS; domain++) {
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_TRAIN, 1, 3, 10000);
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_TRAIN, 2, 2, 3000);
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_VALID, 3, 3, 2000);
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_TEST, 1, 3, 2500);
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_TEST, 9, 4, 2500);
    }
    assert_int_equal(all.count, 100000);
    qsort(all.items, all.count, sizeof all.items[0], by_prompt);
    size_t repeated = 0;
    for (size_t i = 1; i < all.count; i++) {
        const struct kept *one = &all.items[i - 1];
        const struct kept *next = &all.items[i];
        if (strcmp(one->prompt, next->prompt) != 0) continue;
        repeated++;
        if (one->split != next->split || one->row == next->row ||
            strcmp(one->completion, next->completion) != 0)
            fail_msg("'%s' is in splits %d and %d, rows %d and %d, answers '%s' and '%s'", one->prompt,
                     (int)one->split, (int)next->split, one->row, next->row, one->completion,
                     next->completion);
    }
    assert_true(repeated > 0); // else nothing was compared across seeds
    free(all.items);
}

static void seeds_decide(void **state)
{
    (void)state;
    struct collection all = {.items = malloc(MOST_KEPT * sizeof(struct kept))};
    assert_non_null(all.items);
    collect(&all, MT_DOMAIN_CODE, MT_SYNTH_TRAIN, 5, 3, 500);
    collect(&all, MT_DOMAIN_CODE, MT_SYNTH_TRAIN, 5, 3, 500);
    collect(&all, MT_DOMAIN_CODE, MT_SYNTH_TRAIN, 6, 3, 500);
    size_t other = 0;
    for (size_t i = 0; i < 500; i++) {
        assert_string_equal(all.items[i].prompt, all.items[500 + i].prompt);
        assert_string_equal(all.items[i].completion, all.items[500 + i].completion);
        if (strcmp(all.items[i].prompt, all.items[1000 + i].prompt) != 0) other++;
    }
    assert_true(other > 490);
    free(all.items);
}

/* Files made elsewhere must stay apart from those made here: the hash is part of the format. */
static void hashes_are_fixed(void **state)
{
    (void)state;
    assert_int_equal(mt_synth_hash("94+1="), UINT64_C(0x345a92f979e886ff));
    assert_int_equal(mt_synth_hash("the hen seems not long but:"), UINT64_C(0x24a17df66250bd61));
    size_t counts[MT_SYNTH_SPLITS] = {0};
    for (uint64_t hash = 0; hash < 100; hash++) counts[mt_synth_split_of(hash)]++;
    assert_int_equal(counts[MT_SYNTH_TRAIN], 80);
    assert_int_equal(counts[MT_SYNTH_VALID], 10);
    assert_int_equal(counts[MT_SYNTH_TEST], 10);
}

/* Harder items are longer or larger. */
static void difficulty_counts(void **state)
{
    (void)state;
    for (int domain = 0; domain < MT_DOMAINS; domain++) {
        struct collection all = {.items = malloc(MOST_KEPT * sizeof(struct kept))};
        size_t bytes[2] = {0};
        assert_non_null(all.items);
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_TRAIN, 1, 1, 300);
        collect(&all, (enum mt_task_domain)domain, MT_SYNTH_TRAIN, 1, 5, 300);
        for (size_t i = 0; i < all.count; i++)
            bytes[i / 300] += strlen(all.items[i].prompt) + strlen(all.items[i].completion);
        assert_true(bytes[1] > bytes[0] + bytes[0] / 10);
        free(all.items);
    }
}

/* Draws until there are no more, at most `most`; every prompt goes into the set. */
static size_t draw_all(struct mt_context *ctx, const struct mt_synth_options *options, size_t most,
                       struct mt_row_hashes *prompts, size_t *again, size_t *left_out)
{
    struct mt_synth *synth = NULL;
    struct mt_synth_item item;
    const struct mt_synth_task *task = NULL;
    size_t count = 0;
    *again = 0;
    assert_int_equal(mt_synth_create(ctx, options, &synth), MT_OK);
    while (count < most && mt_synth_next(synth, &item, &task) == MT_OK) {
        bool fresh = false;
        assert_int_equal(mt_row_hashes_add(prompts, mt_synth_hash(item.prompt), &fresh), MT_OK);
        *again += fresh ? 0 : 1;
        count++;
    }
    *left_out = mt_synth_excluded(synth);
    mt_synth_free(synth);
    return count;
}

/* What is excluded is not drawn, others are; with all excluded there is nothing, and that is said. */
static void excluded_items_are_replaced(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_synth_options options = {MT_DOMAIN_MATH, MT_SYNTH_TRAIN, 1, 1, NULL};
    size_t again = 0;
    size_t left_out = 0;
    mt_context_init(&ctx, NULL);
    struct mt_row_hashes first = {.ctx = &ctx};
    struct mt_row_hashes all = {.ctx = &ctx};
    assert_int_equal(draw_all(&ctx, &options, 500, &first, &again, &left_out), 500);
    assert_int_equal(left_out, 0);
    assert_int_equal(draw_all(&ctx, &options, 500, &all, &again, &left_out), 500);
    options.exclude = &first; // the very same draw
    assert_int_equal(draw_all(&ctx, &options, 500, &all, &again, &left_out), 500);
    assert_int_equal(again, 0);
    assert_true(left_out >= 490 && left_out <= 500);
    size_t some = draw_all(&ctx, &options, 1000000, &all, &again, &left_out);
    assert_int_equal(left_out, 500);
    assert_non_null(strstr(ctx.message, "different items in the split train at difficulty 1, without 500"));
    assert_int_equal(some + 500, all.count);
    options.exclude = &all;
    options.seed = 2;
    assert_true(draw_all(&ctx, &options, 1000000, &first, &again, &left_out) < 10); // those nobody had found
    mt_row_hashes_free(&first);
    mt_row_hashes_free(&all);
    assert_int_equal(ctx.live_bytes, 0);
}

static void exhaustion_is_a_sentence(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_synth *synth = NULL;
    struct mt_synth_options options = {MT_DOMAIN_MATH, MT_SYNTH_TEST, 1, 1, NULL};
    struct mt_synth_item item;
    const struct mt_synth_task *task = NULL;
    enum mt_status status = MT_OK;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_synth_create(&ctx, &options, &synth), MT_OK);
    size_t count = 0;
    for (; status == MT_OK && count < 100000; count++) status = mt_synth_next(synth, &item, &task);
    assert_int_equal(status, MT_ERR_USAGE);
    assert_in_range(count, 100, 2000);
    if (strstr(ctx.message, "math has only") == NULL || strstr(ctx.message, "split test") == NULL)
        fail_msg("%s", ctx.message);
    assert_int_equal(mt_synth_next(synth, &item, &task), MT_ERR_USAGE);
    mt_synth_free(synth);
    options.difficulty = 6;
    assert_int_equal(mt_synth_create(&ctx, &options, &synth), MT_ERR_USAGE);
    assert_null(synth);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status make_many(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_synth *synth = NULL;
    const struct mt_synth_options options = {MT_DOMAIN_LANGUAGE, MT_SYNTH_TRAIN, 1, 3, NULL};
    enum mt_status status = mt_synth_create(ctx, &options, &synth);
    for (int i = 0; i < 3000 && status == MT_OK; i++) {
        struct mt_synth_item item;
        const struct mt_synth_task *task = NULL;
        status = mt_synth_next(synth, &item, &task);
    }
    mt_synth_free(synth);
    return status;
}

static void memory_can_run_out(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(make_many, NULL, 5); // the table grew
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_short_ascii),    cmocka_unit_test(domains_have_names),
        cmocka_unit_test(splits_are_disjoint),      cmocka_unit_test(seeds_decide),
        cmocka_unit_test(hashes_are_fixed),         cmocka_unit_test(difficulty_counts),
        cmocka_unit_test(exhaustion_is_a_sentence), cmocka_unit_test(excluded_items_are_replaced),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
