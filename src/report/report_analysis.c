/* The report's part on what the experts became. */
#include "report/report.h"

void mt_report_analysis(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    bool analysed = false;
    for (size_t r = 0; r < count; r++) analysed |= runs[r].analysis.root != NULL;
    mt_page_section(page, "Specialisation of experts");
    if (!analysed)
        mt_page_text(page,
                     "No analysis.json: metier analyze --model DIR --data FILE --out RUN measures overlap, "
                     "silhouette, affinity and drift into the folder of a run.");
}
