/* Files of cases. */
#include "support/eval_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

struct mt_dataset *eval_cases_open(struct mt_context *ctx, const char *name, uint64_t least)
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
