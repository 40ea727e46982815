/* Large numbers as people read them. */
#include "cli/shared/short_number.h"

#include <stddef.h>
#include <stdio.h>

/* names[4]: of trillions, billions, millions, thousands; whole: what stands behind a smaller number. */
static struct cli_short_number short_number(double amount, const char *const *names, const char *whole)
{
    static const double units[] = {1e12, 1e9, 1e6, 1e3};
    struct cli_short_number number;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (amount < units[i]) continue;
        (void)snprintf(number.text, sizeof number.text, "%.2f %s", amount / units[i], names[i]);
        return number;
    }
    (void)snprintf(number.text, sizeof number.text, "%.0f%s", amount, whole);
    return number;
}

struct cli_short_number cli_short_count(int64_t count)
{
    static const char *const names[] = {"T", "B", "M", "k"};
    return short_number((double)count, names, "");
}

struct cli_short_number cli_short_bytes(double bytes)
{
    static const char *const names[] = {"TB", "GB", "MB", "kB"};
    return short_number(bytes, names, " bytes");
}
