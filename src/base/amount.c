/* Amounts as people read them. */
#include "base/amount.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

/* At least three digits and a prefix: 12.3k, 4.10M. */
static void short_amount(char *text, size_t bytes, double amount)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t step = 0;
    while (amount >= 999.5 && step + 1 < sizeof prefixes / sizeof prefixes[0]) {
        amount /= 1000.0;
        step++;
    }
    int decimals = amount < 9.995 ? 2 : amount < 99.95 ? 1 : 0;
    (void)snprintf(text, bytes, "%.*f%s", decimals, amount, prefixes[step]);
}

void mt_amount_count(char *text, size_t bytes, uint64_t count)
{
    if (count < 1000) {
        (void)snprintf(text, bytes, "%" PRIu64, count);
    } else {
        short_amount(text, bytes, (double)count);
    }
}

struct mt_counted mt_counted(uint64_t count, const char *one, const char *many)
{
    struct mt_counted counted;
    (void)snprintf(counted.text, sizeof counted.text, "%" PRIu64 " %s", count, count == 1 ? one : many);
    return counted;
}

void mt_amount_rate(char *text, size_t bytes, double rate, const char *unit)
{
    char amount[32];
    text[0] = '\0';
    if (!(rate > 0.0)) return;
    if (rate < 0.1) {
        (void)snprintf(text, bytes, "%.1f s%s%s", 1.0 / rate, unit != NULL ? "/" : " each",
                       unit != NULL ? unit : "");
        return;
    }
    short_amount(amount, sizeof amount, rate);
    (void)snprintf(text, bytes, "%s%s%s/s", amount, unit != NULL ? " " : "", unit != NULL ? unit : "");
}

void mt_amount_duration(char *text, size_t bytes, double seconds)
{
    if (!(seconds < 1e9)) { // also NaN and infinity
        (void)snprintf(text, bytes, "--:--");
        return;
    }
    int64_t whole = (int64_t)(seconds > 0.0 ? seconds + 0.5 : 0.0);
    int64_t hours = whole / 3600;
    if (hours >= 48) {
        (void)snprintf(text, bytes, "%" PRId64 "d %02" PRId64 "h", hours / 24, hours % 24);
    } else if (hours > 0) {
        (void)snprintf(text, bytes, "%" PRId64 ":%02" PRId64 ":%02" PRId64, hours, whole / 60 % 60,
                       whole % 60);
    } else {
        (void)snprintf(text, bytes, "%" PRId64 ":%02" PRId64, whole / 60, whole % 60);
    }
}

struct mt_bytes_text mt_bytes_in_words(size_t bytes)
{
    static const double units[] = {1e9, 1e6, 1e3};
    static const char *const names[] = {"GB", "MB", "kB"};
    struct mt_bytes_text text;
    size_t i = bytes >= 1000000000 ? 0 : bytes >= 1000000 ? 1 : 2;
    (void)snprintf(text.text, sizeof text.text, "%.2f %s", (double)bytes / units[i], names[i]);
    return text;
}
