/*
 * For parquet_parity.py: prints the rows of a dataset as our reader has them, a line of JSON each, or what is
 * wrong. rows_tool FILE           the rows rows_tool --count FILE   how many; every row is read, nothing else
 * is printed
 */
#include <stdio.h>
#include <string.h>

#include "formats/data/dataset.h"

static enum mt_status print_rows(struct mt_context *ctx, const char *path, bool only_count)
{
    static const struct mt_dataset_options options = {0};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    enum mt_status status = mt_dataset_open(ctx, path, &options, &dataset);
    if (status != MT_OK) return status;
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && status == MT_OK; i++) {
        status = mt_dataset_read(dataset, i, &row);
        if (status != MT_OK || only_count) continue;
        (void)fwrite(row.source, 1, row.source_bytes, stdout);
        (void)putchar('\n');
    }
    if (only_count) printf("%llu\n", (unsigned long long)mt_dataset_rows(dataset));
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

int main(int count, char **arguments)
{
    struct mt_context ctx;
    bool only_count = count == 3 && strcmp(arguments[1], "--count") == 0;
    if (count != 2 && !only_count) {
        fprintf(stderr, "usage: rows_tool [--count] FILE\n");
        return 2;
    }
    mt_context_init(&ctx, NULL);
    if (print_rows(&ctx, arguments[count - 1], only_count) == MT_OK) return 0;
    fprintf(stderr, "%s\n", ctx.message);
    return 1;
}
