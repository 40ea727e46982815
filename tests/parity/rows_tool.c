/*
 * For parquet_parity.py: the rows of a dataset as our reader has them, a line of JSON each, or what is wrong.
 *
 *     rows_tool FILE           prints them
 *     rows_tool --count FILE   reads all and prints how many, and the most memory that took (VmHWM)
 */
#include <stdio.h>
#include <string.h>

#include "formats/data/dataset.h"

static void print_count(uint64_t rows)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    printf("%llu rows\n", (unsigned long long)rows);
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) printf("%s", line);
    }
    if (status != NULL) (void)fclose(status);
}

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
    if (only_count) print_count(mt_dataset_rows(dataset));
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
