/* What metier adapter --check prints: the verdict, a table of what is trained, findings, readers. */
#include "cli/adapter_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/compare.h"
#include "base/files/folder.h"
#include "cli/shared/table.h"
#include "formats/text/printable.h"
#include "model/adapters/check/check.h"

// ------------------------------------------------------------------ what it is

static void print_verdict(const struct mt_checked_adapter *checked, const struct mt_findings *findings)
{
    char text[1024] = "nothing is wrong with it";
    size_t used = 0;
    for (int i = 0; i < findings->count && used < sizeof text; i++) {
        if (i == 0)
            used = (size_t)snprintf(
                text, sizeof text, "%s: ", mt_counted((uint64_t)findings->count, "finding", "findings").text);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? ", " : "",
                                 findings->finding[i].name);
    }
    printf("%s: %s\n", checked->directory, text);
}

static void print_origin(const struct mt_checked_adapter *checked)
{
    const struct mt_adapter *read = &checked->read;
    printf("written by %s; %s layout, r %lld, alpha %g%s\n\n", checked->writer,
           mt_adapter_layout_name(checked->layout), (long long)read->config_rank, read->config_alpha,
           read->root_scale ? ", rsLoRA" : "");
}

/* One line of the table. */
struct part {
    size_t layers;       // linear layers with a pair
    size_t still;        // of these, those whose lora_B is zero
    int64_t least, most; // rank
    double *ratio;       // of each pair: change over weight
    size_t ratios;
};

static void add_pair(struct part *part, const struct mt_checked_pair *pair)
{
    size_t projections = pair->kind == MT_CHECKED_GATE_UP ? 2 : 1;
    const struct mt_checked_numbers *numbers = &pair->numbers;
    part->layers += mt_checked_layers(pair);
    part->still += projections * (size_t)numbers->still;
    if (!pair->fits) return;
    if (part->least == 0 || pair->rank < part->least) part->least = pair->rank;
    if (pair->rank > part->most) part->most = pair->rank;
    if (numbers->weight > 0.0 && numbers->change > 0.0)
        part->ratio[part->ratios++] = numbers->change / numbers->weight;
}

static void add_row(struct cli_table *table, const char *name, const struct part *part)
{
    char rank[48];
    char middle[24] = "–";
    char largest[24] = "–";
    (void)snprintf(rank, sizeof rank, part->least == part->most ? "%lld" : "%lld–%lld",
                   (long long)part->least, (long long)part->most);
    if (part->ratios > 0) {
        qsort(part->ratio, part->ratios, sizeof *part->ratio, mt_by_number);
        (void)snprintf(middle, sizeof middle, "%.2e", part->ratio[part->ratios / 2]);
        (void)snprintf(largest, sizeof largest, "%.2e", part->ratio[part->ratios - 1]);
    }
    cli_table_add(table, "%s\t%zu\t%s\t%s\t%s\t%zu", name, part->layers, rank, middle, largest, part->still);
}

static enum mt_status print_table(const struct mt_checked_adapter *checked)
{
    static const struct cli_column columns[] = {{"part", false},   {"linear layers", true},
                                                {"rank", true},    {"change", true},
                                                {"largest", true}, {"lora_B zero", true}};
    struct cli_table table;
    void *memory = NULL;
    size_t count = checked->pair_count + 1;
    enum mt_status status = mt_allocate_array(checked->ctx, count, sizeof(double), &memory);
    if (status != MT_OK) return status;
    cli_table_init(&table, checked->ctx, columns, 6);
    for (int p = 0; p < MT_MODEL_PART_COUNT; p++) {
        struct part part = {.ratio = memory};
        for (size_t i = 0; i < checked->pair_count; i++) {
            const struct mt_checked_pair *pair = &checked->pair[i];
            if (pair->kind != MT_CHECKED_NOWHERE && (int)pair->part == p) add_pair(&part, pair);
        }
        if (part.layers > 0) add_row(&table, mt_model_part_name((enum mt_model_part)p), &part);
    }
    status = cli_table_print(&table, stdout);
    mt_release(checked->ctx, memory, count * sizeof(double));
    printf("change: of a weight, relative to its size; in the middle, and the largest\n");
    return status;
}

// ------------------------------------------------------------------ findings, readers

static void print_findings(const struct mt_findings *findings)
{
    for (int i = 0; i < findings->count; i++) {
        char text[1024];
        const struct mt_finding *finding = &findings->finding[i];
        printf("\n%s: ", finding->name);
        cli_print_text((int)strlen(finding->name) + 2, finding->text);
        (void)snprintf(text, sizeof text, "concerns: %s", finding->affected);
        printf("    ");
        cli_print_text(4, text);
        (void)snprintf(text, sizeof text, "mend it: %s", finding->fix);
        printf("    ");
        cli_print_text(4, text);
    }
}

static void print_readers(const struct mt_checked_adapter *checked)
{
    const char *program = NULL;
    const char *sentence = NULL;
    for (int i = 0; mt_checked_reader(checked, i, &program, &sentence); i++) {
        if (i == 0) printf("\nwhat single programs do not read:\n");
        printf("    %s ", program);
        cli_print_text(5 + (int)strlen(program), sentence);
    }
}

// ------------------------------------------------------------------ repair

/* The mended adapter must be one that nothing is wrong with. */
static enum mt_status check_mended(struct mt_context *ctx, const char *folder, const char *model,
                                   const char *out)
{
    struct mt_checked_adapter checked;
    struct mt_findings findings;
    enum mt_status status = mt_checked_open(ctx, folder, model, &checked);
    if (status != MT_OK) return status;
    mt_checked_find(&checked, &findings);
    if (findings.count > 0)
        status = mt_fail(ctx, MT_ERR_UNSUPPORTED,
                         "%s: cannot be written: after the repair the adapter still has %s: %s", out,
                         findings.finding[0].name, findings.finding[0].text);
    mt_checked_close(&checked);
    return status;
}

static enum mt_status repair(const struct mt_checked_adapter *checked, const char *out)
{
    struct mt_context *ctx = checked->ctx;
    struct mt_folder folder = {0};
    enum mt_status status = mt_folder_make_above(ctx, out);
    if (status == MT_OK) status = mt_folder_open(ctx, out, &folder);
    if (status == MT_OK) status = mt_checked_repair(checked, folder.path);
    if (status == MT_OK) status = check_mended(ctx, folder.path, checked->model, out);
    if (status == MT_OK) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    if (status == MT_OK) printf("\n%s: written, mended\n", out);
    return status;
}

enum mt_status cli_adapter_check(struct mt_context *ctx, const struct cli_adapter_check *check, bool *sound)
{
    struct mt_checked_adapter checked;
    struct mt_findings findings;
    enum mt_status status = mt_checked_open(ctx, check->directory, check->model, &checked);
    if (status != MT_OK) return status;
    mt_checked_find(&checked, &findings);
    print_verdict(&checked, &findings);
    print_origin(&checked);
    status = print_table(&checked);
    if (status == MT_OK) print_findings(&findings);
    if (status == MT_OK) print_readers(&checked);
    (void)fflush(stdout);
    if (status == MT_OK && check->out != NULL && findings.count == 0)
        printf("\nthere is nothing to mend: %s is not written\n", check->out);
    if (status == MT_OK && check->out != NULL && findings.count > 0) status = repair(&checked, check->out);
    *sound = findings.count == 0 || check->out != NULL;
    mt_checked_close(&checked);
    return status;
}
