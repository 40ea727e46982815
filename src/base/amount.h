/* Amounts as people read them, written into a buffer of the caller's. */
#ifndef MT_BASE_AMOUNT_H
#define MT_BASE_AMOUNT_H

#include <stddef.h>
#include <stdint.h>

/* "999", "12.3k", "4.10M" */
void mt_amount_count(char *text, size_t bytes, uint64_t count);

/* "12.3k tok/s", or "20.0 s/tok" when slow; unit NULL: "12.3k/s", "20.0 s each". "" for a rate not above 0.
 */
void mt_amount_rate(char *text, size_t bytes, double rate, const char *unit);

/* A count with the word that fits it, to stand among the arguments of a printf: "1 answer", "2 answers". */
struct mt_counted {
    char text[80];
};

/* `one` for a count of 1, else `many`; both may go on: ("row is", "rows are"). */
struct mt_counted mt_counted(uint64_t count, const char *one, const char *many);

/* "0:47", "5:33:00", "2d 23h"; "--:--" for what is not finite. */
void mt_amount_duration(char *text, size_t bytes, double seconds);

/* "18.20 GB", of 10^9 bytes, in MB or kB where it is less: for messages. */
struct mt_bytes_text {
    char text[32];
};
struct mt_bytes_text mt_bytes_in_words(size_t bytes);

#endif
