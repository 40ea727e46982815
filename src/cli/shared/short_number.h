/* Large numbers as people read them, to stand among the arguments of a printf. */
#ifndef MT_CLI_SHORT_NUMBER_H
#define MT_CLI_SHORT_NUMBER_H

#include <stdint.h>

struct cli_short_number {
    char text[32];
};

struct cli_short_number cli_short_count(int64_t count); // 46702792704 -> "46.70 B"
struct cli_short_number cli_short_bytes(double bytes);  // 93405585408 -> "93.41 GB"

#endif
