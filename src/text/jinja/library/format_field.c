/* Text and numbers in fields of a width, for "%" and str.format. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "text/jinja/library/format.h"

static enum mt_status put_fill(struct jinja_run *run, struct jinja_builder *out,
                               const struct jinja_field *field, size_t count)
{
    enum mt_status status = MT_OK;
    struct mt_marked fill = field->fill.bytes != 0 ? field->fill : marked_of(field->zero ? "0" : " ");
    for (size_t i = 0; status == MT_OK && i < count; i++) status = jinja_put(run, out, fill);
    return status;
}

/* sign and digits with what fills the field around them; `numeric` is what the value likes. */
static enum mt_status put_aligned(struct jinja_run *run, struct jinja_builder *out,
                                  const struct jinja_field *field, const char *sign, struct mt_marked text,
                                  bool numeric)
{
    size_t length = strlen(sign) + jinja_characters(text);
    size_t missing = field->width > length ? field->width - length : 0;
    char align = field->align;
    if (align == 0) align = !numeric ? '<' : field->zero ? '=' : '>';
    size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    size_t inside = align == '=' ? missing : 0;
    enum mt_status status = put_fill(run, out, field, before);
    if (status == MT_OK) status = jinja_put_text(run, out, sign);
    if (status == MT_OK) status = put_fill(run, out, field, inside);
    if (status == MT_OK) status = jinja_put(run, out, text);
    return status == MT_OK ? put_fill(run, out, field, missing - before - inside) : status;
}

enum mt_status jinja_put_text_field(struct jinja_run *run, struct jinja_builder *out,
                                    const struct jinja_field *field, struct mt_marked text)
{
    if (field->precision >= 0)
        text = marked_part(text, 0, jinja_character_at(text, (size_t)field->precision));
    return put_aligned(run, out, field, "", text, false);
}

static const char *sign_of(const struct jinja_field *field, bool negative)
{
    if (negative) return "-";
    return field->sign == '+' ? "+" : field->sign == ' ' ? " " : "";
}

/* Digits with a comma before every third from the point. */
static enum mt_status group(struct jinja_run *run, struct mt_marked digits, struct mt_marked *grouped)
{
    struct jinja_builder out = {0};
    size_t whole = 0;
    enum mt_status status = MT_OK;
    while (whole < digits.bytes && digits.text[whole] >= '0' && digits.text[whole] <= '9') whole++;
    for (size_t i = 0; status == MT_OK && i < whole; i++) {
        if (i > 0 && (whole - i) % 3 == 0) status = jinja_put_text(run, &out, ",");
        if (status == MT_OK) status = jinja_put(run, &out, marked_part(digits, i, i + 1));
    }
    if (status == MT_OK) status = jinja_put(run, &out, marked_part(digits, whole, digits.bytes));
    *grouped = jinja_built(&out);
    return status;
}

/* The digits of a number in base 2, 8, 10 or 16. */
static const char *write_digits(uint64_t number, char type, char text[72])
{
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    const char *digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char *at = text + 71;
    *at = '\0';
    do {
        *--at = digits[number % base];
        number /= base;
    } while (number != 0);
    return at;
}

enum mt_status jinja_put_integer_field(struct jinja_run *run, struct jinja_builder *out,
                                       const struct jinja_field *field, int64_t integer)
{
    char text[72];
    char sign[8];
    struct jinja_builder padded = {0};
    if (field->type != 0 && strchr("eEfFgG%", field->type) != NULL)
        return jinja_put_real_field(run, out, field, (double)integer);
    if (field->type != 0 && strchr("dbxXo", field->type) == NULL)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "integers are not written with the format code '%c' here",
                          field->type);
    uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    struct mt_marked digits = marked_of(write_digits(size, field->type, text));
    bool prefixed = field->alternate && field->type != 0 && field->type != 'd';
    (void)snprintf(sign, sizeof sign, prefixed ? "%s0%c" : "%s", sign_of(field, integer < 0), field->type);
    enum mt_status status = MT_OK;
    if (field->precision > (int)digits.bytes) {
        status = jinja_put_repeated(run, &padded, "0", (size_t)field->precision - digits.bytes);
        if (status == MT_OK) status = jinja_put(run, &padded, digits);
        digits = jinja_built(&padded);
    }
    if (status == MT_OK && field->grouped) status = group(run, digits, &digits);
    return status == MT_OK ? put_aligned(run, out, field, sign, digits, true) : status;
}

enum mt_status jinja_put_real_field(struct jinja_run *run, struct jinja_builder *out,
                                    const struct jinja_field *field, double real)
{
    struct jinja_builder shortest = {0};
    struct mt_marked digits = {0};
    char form[16];
    bool percent = field->type == '%';
    char type = percent ? 'f' : field->type;
    bool negative = signbit(real) != 0 && !isnan(real);
    enum mt_status status = MT_OK;
    if (type != 0 && strchr("eEfFgG", type) == NULL)
        return jinja_fail(run, MT_ERR_FORMAT, "Unknown format code '%c' for object of type 'float'", type);
    if (type == 0 && (field->precision >= 0 || field->alternate))
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "a precision without f, e or g is not known here");
    real = fabs(percent ? real * 100 : real);
    if (type == 0) {
        status = jinja_write_real(run, &shortest, real);
        digits = jinja_built(&shortest);
    } else {
        (void)snprintf(form, sizeof form, field->alternate ? "%%#.*%c" : "%%.*%c", type);
        int precision = field->precision >= 0 ? field->precision : 6;
        void *memory = NULL;
        status = jinja_allocate(run, (size_t)precision + 400, &memory);
        if (status != MT_OK) return status;
// The form is one of six, made above.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(memory, (size_t)precision + 400, form, precision, real);
#pragma GCC diagnostic pop
        digits = marked_of(memory);
    }
    if (status == MT_OK && field->grouped) status = group(run, digits, &digits);
    struct jinja_builder whole = {0};
    if (status == MT_OK && percent) {
        status = jinja_put(run, &whole, digits);
        if (status == MT_OK) status = jinja_put_text(run, &whole, "%");
        digits = jinja_built(&whole);
    }
    return status == MT_OK ? put_aligned(run, out, field, sign_of(field, negative), digits, true) : status;
}
