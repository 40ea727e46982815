/*
 * A text in the making, in whatever language the call says. Writing does not fail call by call: the first
 * failure stays in `status` and everything after it does nothing. Strings given are valid UTF-8 (page.h sees
 * to that).
 */
#ifndef MT_REPORT_OUTPUT_H
#define MT_REPORT_OUTPUT_H

#include <stdbool.h>

#include "formats/text/lists.h"

struct mt_output {
    struct mt_byte_list text; // owned
    enum mt_status status;
};

void mt_output_init(struct mt_output *out, struct mt_context *ctx);
void mt_output_free(struct mt_output *out);

/* Writes the text to a file, atomically; fails with whatever went wrong before. */
enum mt_status mt_output_save(struct mt_output *out, const char *path);

void mt_put(struct mt_output *out, const char *text);
void mt_put_bytes(struct mt_output *out, const void *bytes, size_t count);

/* Formatted, at most 512 bytes. */
void mt_putf(struct mt_output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Escaped for HTML's text and quoted attributes. */
void mt_put_html(struct mt_output *out, const char *text);

/* A quoted JSON string; also safe inside <script>: '<', '>' and '&' are written as \u003c and so on. */
void mt_put_json(struct mt_output *out, const char *text);

/* A field of CSV (RFC 4180): quoted where needed. A text a spreadsheet would take for a formula gets a ' in
 * front. */
void mt_put_csv(struct mt_output *out, const char *text);

/* Text of a Markdown table: on one line, without characters that would mean something. */
void mt_put_markdown(struct mt_output *out, const char *text);

/* Text of a LaTeX document, for any engine and with no package: signs that mean something, and characters
 * beyond Latin ones, are written as commands; what has none is named, [U+4E2D]. */
void mt_put_latex(struct mt_output *out, const char *text);

/* The shortest decimal that reads back as the same double; `none` for what is not finite. */
void mt_put_exact(struct mt_output *out, double number, const char *none);

#define MT_NUMBER_BYTES 32

/* A number for people: four digits that count, whole numbers whole, "–" for NaN. */
const char *mt_number_text(char text[MT_NUMBER_BYTES], double number);

/* A number with so many decimals, "–" for NaN; is_signed: "+1.2". A minus is a real one, "−". */
const char *mt_fixed_text(char text[MT_NUMBER_BYTES], double number, int decimals, bool is_signed);

#endif
