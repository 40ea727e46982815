/* Text and numbers in fields of a width, for "%" and str.format. */
#include <math.h>
#include <stdio.h>

#include "text/jinja/library/format.h"

/* sign and digits with what fills the field around them; `numeric` is what the value likes. */
static void put_aligned(struct jinja_builder *out, const struct jinja_field *field, const char *sign,
                        struct mt_marked text, bool numeric)
{
    struct mt_marked fill = field->fill.bytes != 0 ? field->fill : marked_of(field->zero ? "0" : " ");
    size_t length = strlen(sign) + mt_jinja_characters(text);
    size_t missing = field->width > length ? field->width - length : 0;
    char align = field->align;
    if (align == 0) align = !numeric ? '<' : field->zero ? '=' : '>';
    size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    size_t inside = align == '=' ? missing : 0;
    mt_jinja_put_repeated(out, fill, before);
    mt_jinja_put_text(out, sign);
    mt_jinja_put_repeated(out, fill, inside);
    mt_jinja_put(out, text);
    mt_jinja_put_repeated(out, fill, missing - before - inside);
}

void mt_jinja_put_text_field(struct jinja_builder *out, const struct jinja_field *field,
                             struct mt_marked text)
{
    if (field->precision >= 0)
        text = marked_part(text, 0, mt_jinja_character_at(text, (size_t)field->precision));
    put_aligned(out, field, "", text, false);
}

static const char *sign_of(const struct jinja_field *field, bool negative)
{
    if (negative) return "-";
    return field->sign == '+' ? "+" : field->sign == ' ' ? " " : "";
}

/* Digits, where it is asked for with a comma before every third from the point. */
static void put_digits(struct jinja_builder *out, struct mt_marked digits, bool grouped)
{
    size_t whole = 0;
    while (whole < digits.bytes && digits.text[whole] >= '0' && digits.text[whole] <= '9') whole++;
    for (size_t i = 0; grouped && i < whole; i++) {
        if (i > 0 && (whole - i) % 3 == 0) mt_jinja_put_text(out, ",");
        mt_jinja_put(out, marked_part(digits, i, i + 1));
    }
    mt_jinja_put(out, marked_part(digits, grouped ? whole : 0, digits.bytes));
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

void mt_jinja_put_integer_field(struct jinja_builder *out, const struct jinja_field *field, int64_t integer)
{
    char text[72];
    char sign[8];
    struct jinja_builder padded = {.run = out->run};
    struct jinja_builder grouped = {.run = out->run};
    if (field->type != 0 && strchr("eEfFgG%", field->type) != NULL) {
        mt_jinja_put_real_field(out, field, (double)integer);
        return;
    }
    if (field->type != 0 && strchr("dbxXo", field->type) == NULL) {
        (void)mt_jinja_fail(out->run, MT_ERR_UNSUPPORTED,
                            "integers are not written with the format code '%c' here", field->type);
        return;
    }
    uint64_t size = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    struct mt_marked digits = marked_of(write_digits(size, field->type, text));
    bool prefixed = field->alternate && field->type != 0 && field->type != 'd';
    (void)snprintf(sign, sizeof sign, prefixed ? "%s0%c" : "%s", sign_of(field, integer < 0), field->type);
    if (field->precision > (int)digits.bytes)
        mt_jinja_put_repeated(&padded, marked_of("0"), (size_t)field->precision - digits.bytes);
    mt_jinja_put(&padded, digits);
    put_digits(&grouped, mt_jinja_built(&padded), field->grouped);
    put_aligned(out, field, sign, mt_jinja_built(&grouped), true);
}

/* A number that is not negative, in the form of its type; *form: what printf calls that. */
static void put_real(struct jinja_builder *out, const struct jinja_field *field, char type, double real)
{
    char form[16];
    int precision = field->precision >= 0 ? field->precision : 6;
    size_t bytes = (size_t)precision + 400;
    char *memory = mt_jinja_allocate(out->run, bytes);
    if (memory == NULL) return;
    (void)snprintf(form, sizeof form, field->alternate ? "%%#.*%c" : "%%.*%c", type);
// The form is one of six, made above.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(memory, bytes, form, precision, real);
#pragma GCC diagnostic pop
    mt_jinja_put_text(out, memory);
}

void mt_jinja_put_real_field(struct jinja_builder *out, const struct jinja_field *field, double real)
{
    struct jinja_builder digits = {.run = out->run};
    struct jinja_builder whole = {.run = out->run};
    bool percent = field->type == '%';
    char type = percent ? 'f' : field->type;
    bool negative = signbit(real) != 0 && !isnan(real);
    if (type != 0 && strchr("eEfFgG", type) == NULL)
        (void)mt_jinja_fail(out->run, MT_ERR_FORMAT, "Unknown format code '%c' for object of type 'float'",
                            type);
    else if (type == 0 && (field->precision >= 0 || field->alternate))
        (void)mt_jinja_fail(out->run, MT_ERR_UNSUPPORTED, "a precision without f, e or g is not known here");
    if (mt_jinja_failed(out->run)) return;
    real = fabs(percent ? real * 100 : real);
    if (type == 0)
        mt_jinja_write_real(&digits, real);
    else
        put_real(&digits, field, type, real);
    put_digits(&whole, mt_jinja_built(&digits), field->grouped);
    if (percent) mt_jinja_put_text(&whole, "%");
    put_aligned(out, field, sign_of(field, negative), mt_jinja_built(&whole), true);
}
