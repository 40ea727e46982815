/* metier compare taken apart: the table on the terminal, the files it writes. */
#ifndef MT_CLI_COMPARE_H
#define MT_CLI_COMPARE_H

#include "compare/compare.h"

struct compare_outputs {
    const char *markdown; // NULL: none
    const char *png;      // folder of pictures beside it; NULL: none
    const char *chart_js; // NULL: where Debian puts it
};

/* Prints the table of methods. */
enum mt_status compare_print(const struct mt_comparison *comparison);

/* Writes OUT/compare.json, OUT/report.html and what `outputs` asks for, and says so. */
enum mt_status compare_write(const struct mt_comparison *comparison, const struct compare_outputs *outputs);

#endif
