/* The report's last part: what the runs were told. */
#include <string.h>

#include "report/report.h"

static bool differs(const struct mt_run *runs, size_t count, const char *key)
{
    const char *first = mt_run_setting(&runs[0], key);
    for (size_t r = 1; r < count; r++) {
        const char *other = mt_run_setting(&runs[r], key);
        if ((first == NULL) != (other == NULL)) return true;
        if (first != NULL && strcmp(first, other) != 0) return true;
    }
    return false;
}

/* True when a run before this one has the key: its row is there. */
static bool seen(const struct mt_run *runs, size_t before, const char *key)
{
    for (size_t r = 0; r < before; r++) {
        if (mt_run_setting(&runs[r], key) != NULL) return true;
    }
    return false;
}

static void add_settings(struct mt_page *page, const struct mt_run *runs, size_t count, bool only_different)
{
    struct mt_figure *table = mt_page_figure(
        page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                       .title = only_different ? "Settings that differ" : "Settings",
                                       .meaning = only_different
                                                      ? "What makes the runs different."
                                                      : "Everything the runs were told, defaults included."});
    mt_figure_column(table, MT_COLUMN_LABEL, "key");
    for (size_t r = 0; r < count; r++) mt_figure_column(table, MT_COLUMN_LABEL, runs[r].name);
    for (size_t r = 0; r < count; r++) {
        for (const struct mt_run_setting *one = runs[r].settings; one != NULL; one = one->next) {
            if (seen(runs, r, one->key) || (only_different && !differs(runs, count, one->key))) continue;
            mt_figure_text(table, one->key);
            for (size_t k = 0; k < count; k++) {
                const char *value = mt_run_setting(&runs[k], one->key);
                mt_figure_text(table, value != NULL ? value : "–");
            }
        }
    }
}

void mt_report_settings(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    bool known = false;
    for (size_t r = 0; r < count; r++) known |= runs[r].settings != NULL;
    mt_page_section(page, "Settings");
    if (!known) {
        mt_page_text(page, "No config.yaml: metier train writes its settings into the folder of a run.");
        return;
    }
    if (count > 1) add_settings(page, runs, count, true);
    add_settings(page, runs, count, false);
}
