/* Values of columns as JSON: numbers, texts, dates and times, decimals. */
#include "formats/columnar/value_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/exact.h"
#include "formats/text/utf8.h"
#include "tensor/dtype.h"

#define SECONDS_OF_DAY 86400
#define EPOCH_JULIAN   2440588 // the Julian number of 1970-01-01

static enum mt_status add_text(struct mt_row_text *out, const char *text)
{
    return mt_row_text_add(out, text, strlen(text));
}

static enum mt_status add_quoted(struct mt_row_text *out, const char *text)
{
    return mt_row_text_quoted(out, text, strlen(text));
}

// ------------------------------------------------------------------ dates and times

/* Rounds down, so that times before 1970 have a fraction that counts forwards. */
static int64_t divide(int64_t a, int64_t b, int64_t *rest)
{
    int64_t quotient = a / b;
    *rest = a % b;
    if (*rest < 0) {
        *rest += b;
        quotient--;
    }
    return quotient;
}

/* The Gregorian date of a day since 1970: eras of 400 years that begin on a first of March. */
static void print_date(int64_t days, char *text, size_t bytes)
{
    int64_t rest = 0;
    int64_t day_of_era = 0;
    int64_t era = divide(days, 146097, &day_of_era);
    era += divide(day_of_era + 719468, 146097, &day_of_era);
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t march = (5 * day_of_year + 2) / 153; // months since March
    int64_t day = day_of_year - (153 * march + 2) / 5 + 1;
    int64_t month = divide(march + 2, 12, &rest);
    int64_t year = year_of_era + era * 400 + month;
    (void)snprintf(text, bytes, "%04lld-%02d-%02d", (long long)year, (int)rest + 1, (int)day);
}

/* "13:05:00" of a second of the day, and its fraction where it is not zero. */
static void print_time(int64_t second, int64_t fraction, int digits, char *text, size_t bytes)
{
    int length = snprintf(text, bytes, "%02d:%02d:%02d", (int)(second / 3600), (int)(second / 60 % 60),
                          (int)(second % 60));
    if (fraction != 0)
        (void)snprintf(text + length, bytes - (size_t)length, ".%0*lld", digits, (long long)fraction);
}

static int64_t units_of_second(int digits)
{
    int64_t units = 1;
    for (int i = 0; i < digits; i++) units *= 10;
    return units;
}

static enum mt_status add_moment(struct mt_row_text *out, int64_t days, int64_t second, int64_t fraction,
                                 const struct mt_value_type *type)
{
    char date[40];
    char clock[40];
    char text[96];
    print_date(days, date, sizeof date);
    print_time(second, fraction, type->digits, clock, sizeof clock);
    (void)snprintf(text, sizeof text, "%sT%s%s", date, clock, type->utc ? "Z" : "");
    return add_quoted(out, text);
}

static enum mt_status add_timestamp(struct mt_row_text *out, const struct mt_value_type *type, int64_t units)
{
    int64_t fraction = 0;
    int64_t second = 0;
    int64_t seconds = divide(units, units_of_second(type->digits), &fraction);
    int64_t days = divide(seconds, SECONDS_OF_DAY, &second);
    return add_moment(out, days, second, fraction, type);
}

static enum mt_status add_int96(struct mt_row_text *out, const uint8_t *data)
{
    static const struct mt_value_type nanoseconds = {.digits = 9};
    int64_t of_day = 0;
    uint32_t julian = 0;
    int64_t fraction = 0;
    int64_t second = 0;
    memcpy(&of_day, data, 8);
    memcpy(&julian, data + 8, 4);
    int64_t seconds = divide(of_day, 1000000000, &fraction);
    int64_t days = divide(seconds, SECONDS_OF_DAY, &second) + julian - EPOCH_JULIAN;
    return add_moment(out, days, second, fraction, &nanoseconds);
}

static enum mt_status add_time(struct mt_row_text *out, const struct mt_value_type *type, int64_t units)
{
    char text[40];
    int64_t fraction = 0;
    int64_t second = divide(units, units_of_second(type->digits), &fraction);
    if (second < 0 || second >= SECONDS_OF_DAY) {
        return mt_fail(out->ctx, MT_ERR_FORMAT,
                       "%s: row %llu has a time of day of %lld seconds, expected 0 to 86399", out->file,
                       (unsigned long long)out->rows + 1, (long long)second);
    }
    print_time(second, fraction, type->digits, text, sizeof text);
    return add_quoted(out, text);
}

// ------------------------------------------------------------------ numbers

/* The fewest digits that are the same number in so many bits: 4.8 of 32 bits is no 4.800000190734863. */
static void print_real(double value, int bits, char text[MT_EXACT_BYTES])
{
    bool same = false;
    if (bits == 0 || bits == 64) (void)mt_exact_text(value, text);
    for (int digits = 1; (bits == 16 || bits == 32) && !same && digits <= 9; digits++) {
        (void)snprintf(text, MT_EXACT_BYTES, "%.*g", digits, value);
        float back = strtof(text, NULL);
        same = bits == 32 ? back == (float)value : mt_float_to_f16(back) == mt_float_to_f16((float)value);
    }
}

static enum mt_status add_real(struct mt_row_text *out, const struct mt_value_type *type, double value)
{
    char text[MT_EXACT_BYTES];
    if (isnan(value)) return add_quoted(out, "NaN");
    if (isinf(value)) return add_quoted(out, value < 0 ? "-Infinity" : "Infinity");
    print_real(value, type->bits, text);
    enum mt_status status = add_text(out, text);
    // A whole number stays one of floating point: 3 would be another kind of JSON than 3.5.
    return status == MT_OK && strpbrk(text, ".eE") == NULL ? add_text(out, ".0") : status;
}

/* The decimal digits of a number of two's complement, the last first; returns how many, at least one. */
static int digits_of(const uint8_t *data, size_t bytes, bool *negative, char digits[80])
{
    uint8_t left[MT_DECIMAL_BYTES];
    int count = 0;
    bool more = true;
    *negative = bytes > 0 && (data[0] & 0x80) != 0;
    unsigned carry = 1;
    for (size_t i = bytes; i > 0; i--) {
        unsigned byte = *negative ? (unsigned)(uint8_t)~data[i - 1] + carry : data[i - 1];
        left[i - 1] = (uint8_t)byte;
        carry = byte >> 8;
    }
    while (more) {
        unsigned rest = 0;
        more = false;
        for (size_t i = 0; i < bytes; i++) {
            unsigned part = rest * 256 + left[i];
            left[i] = (uint8_t)(part / 10);
            rest = part % 10;
            more = more || left[i] != 0;
        }
        digits[count++] = (char)('0' + rest);
    }
    return count;
}

static enum mt_status add_decimal(struct mt_row_text *out, const struct mt_value_type *type,
                                  const struct mt_value *value)
{
    char digits[80];
    char text[2 + 80 + 2 * MT_DECIMAL_SCALE];
    int length = 0;
    bool negative = false;
    if (value->bytes > MT_DECIMAL_BYTES) {
        return mt_fail(out->ctx, MT_ERR_FORMAT, "%s: row %llu has a decimal of %zu bytes, the limit is %d",
                       out->file, (unsigned long long)out->rows + 1, value->bytes, MT_DECIMAL_BYTES);
    }
    int count = digits_of(value->data, value->bytes, &negative, digits);
    if (negative) text[length++] = '-';
    for (int i = count > type->scale ? count : type->scale + 1; i > 0; i--) {
        if (i == type->scale) text[length++] = '.';
        text[length++] = i <= count ? digits[i - 1] : '0';
    }
    for (int i = type->scale; i < 0; i++) text[length++] = '0';
    return mt_row_text_quoted(out, text, (size_t)length);
}

// ------------------------------------------------------------------ texts

static enum mt_status add_base64(struct mt_row_text *out, const uint8_t *data, size_t bytes)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum mt_status status = mt_row_text_add(out, "\"", 1);
    for (size_t i = 0; i < bytes && status == MT_OK; i += 3) {
        size_t left = bytes - i;
        uint32_t three = (uint32_t)data[i] << 16;
        if (left > 1) three |= (uint32_t)data[i + 1] << 8;
        if (left > 2) three |= data[i + 2];
        char four[4] = {letters[three >> 18], letters[three >> 12 & 63], letters[three >> 6 & 63],
                        letters[three & 63]};
        if (left < 2) four[2] = '=';
        if (left < 3) four[3] = '=';
        status = mt_row_text_add(out, four, sizeof four);
    }
    return status == MT_OK ? mt_row_text_add(out, "\"", 1) : status;
}

/* Many writers leave out that their bytes are texts. A NUL is in none, and our parser of JSON refuses it. */
static bool is_text(const struct mt_value *value)
{
    return mt_utf8_valid(value->data, value->bytes) && memchr(value->data, '\0', value->bytes) == NULL;
}

static enum mt_status add_uuid(struct mt_row_text *out, const uint8_t *data)
{
    char text[40];
    int length = 0;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[length++] = '-';
        length += snprintf(text + length, 3, "%02x", data[i]);
    }
    return add_quoted(out, text);
}

static enum mt_status add_value(struct mt_row_text *out, const struct mt_value_type *type,
                                const struct mt_value *value)
{
    char text[32];
    uint64_t whole = (uint64_t)value->whole;
    switch (type->kind) {
    case MT_VALUE_NULL: return add_text(out, "null");
    case MT_VALUE_BOOL: return add_text(out, value->whole != 0 ? "true" : "false");
    case MT_VALUE_SIGNED: (void)snprintf(text, sizeof text, "%lld", (long long)value->whole); break;
    case MT_VALUE_UNSIGNED:
        // Our parser of JSON knows no whole number beyond 63 bits.
        (void)snprintf(text, sizeof text, whole > INT64_MAX ? "\"%llu\"" : "%llu", (unsigned long long)whole);
        break;
    case MT_VALUE_REAL: return add_real(out, type, value->real);
    case MT_VALUE_DECIMAL: return add_decimal(out, type, value);
    case MT_VALUE_TEXT: return mt_row_text_quoted(out, (const char *)value->data, value->bytes);
    case MT_VALUE_BINARY:
        return is_text(value) ? mt_row_text_quoted(out, (const char *)value->data, value->bytes)
                              : add_base64(out, value->data, value->bytes);
    case MT_VALUE_UUID: return add_uuid(out, value->data);
    case MT_VALUE_DATE: {
        char date[40];
        print_date(value->whole, date, sizeof date);
        return add_quoted(out, date);
    }
    case MT_VALUE_TIME: return add_time(out, type, value->whole);
    case MT_VALUE_TIMESTAMP: return add_timestamp(out, type, value->whole);
    case MT_VALUE_INT96: return add_int96(out, value->data);
    }
    return add_text(out, text);
}

enum mt_status mt_row_text_value(struct mt_row_text *out, const struct mt_value_type *type,
                                 const struct mt_value *value, bool as_key)
{
    bool quoted = type->kind >= MT_VALUE_DECIMAL;
    if (!as_key || quoted) return add_value(out, type, value);
    // What is no text becomes one; where it is one already (NaN), its quotes are kept.
    size_t at = out->text.count;
    enum mt_status status = add_value(out, type, value);
    if (status != MT_OK || at == out->text.count || out->text.data[at] == '"') return status;
    char text[MT_EXACT_BYTES + 2];
    size_t bytes = out->text.count - at;
    memcpy(text, out->text.data + at, bytes);
    out->text.count = at;
    return mt_row_text_quoted(out, text, bytes);
}
