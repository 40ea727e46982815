/* Files of cases, and rules. */
#include "support/eval_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

static struct mt_dataset *open_cases(struct mt_context *ctx, const char *name, uint64_t least)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_dataset *cases = NULL;
    char path[1024];
    const char *folder = getenv("METIER_EVAL_CASES");
    assert_non_null(folder);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    enum mt_status status = mt_dataset_open(ctx, path, &options, &cases);
    if (status != MT_OK) print_message("%s\n", ctx->message);
    assert_int_equal(status, MT_OK);
    assert_true(mt_dataset_rows(cases) >= least);
    return cases;
}

void eval_cases_check(const char *name, uint64_t least,
                      bool (*right)(struct mt_context *ctx, const struct mt_row *row))
{
    struct mt_context ctx;
    struct mt_row row;
    int wrong = 0;
    mt_context_init(&ctx, NULL);
    mt_row_init(&ctx, &row);
    struct mt_dataset *cases = open_cases(&ctx, name, least);
    for (uint64_t i = 0; i < mt_dataset_rows(cases); i++) {
        assert_int_equal(mt_dataset_read(cases, i, &row), MT_OK);
        if (right(&ctx, &row)) continue;
        wrong++;
        print_message("that was case %d of %s\n", (int)i + 1, name);
    }
    assert_int_equal(wrong, 0);
    mt_row_free(&row);
    mt_dataset_close(cases);
    assert_int_equal(ctx.live_bytes, 0);
}

struct mt_text eval_case_text(const struct mt_row *row, const char *name)
{
    const struct mt_row_field *found = mt_row_field(row, name);
    assert_non_null(found);
    return (struct mt_text){.text = found->text, .bytes = found->bytes};
}

struct mt_text text_of(const char *text)
{
    return (struct mt_text){.text = text, .bytes = strlen(text)};
}

enum mt_status eval_rule_score(struct mt_context *ctx, eval_rule rule, const char *rows, const char *answer,
                               double *score)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_row_init(ctx, &row);
    enum mt_status status = mt_dataset_open_memory(ctx, "rows.jsonl", rows, strlen(rows), &options, &dataset);
    if (status == MT_OK) status = mt_dataset_read(dataset, 0, &row);
    if (status == MT_OK) status = rule(ctx, &row, text_of(answer), score);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

void eval_rule_refuses(eval_rule rule, const char *rows, const char *words)
{
    struct mt_context ctx;
    double score = 0.0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(eval_rule_score(&ctx, rule, rows, "answer", &score), MT_ERR_FORMAT);
    if (strstr(ctx.message, words) == NULL) print_message("%s\n", ctx.message);
    assert_non_null(strstr(ctx.message, words));
    assert_int_equal(ctx.live_bytes, 0);
}
