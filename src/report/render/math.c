/* Formulas: reading them, and writing them as MathML. */
#include "report/render/math.h"

#include <stdbool.h>
#include <string.h>

#define DEEPEST 16 // groups in groups

// A name that is followed by what it is of: ln p.
#define FUNCTION "<mo movablelimits=\"true\" lspace=\"0.1em\" rspace=\"0.16em\">"

// What a sign with a name is in MathML.
static const struct sign {
    const char *name;
    const char *character;
    enum { LETTER, OPERATOR, WIDE } kind; // WIDE: what belongs to it stands below and above
} signs[] = {
    {"alpha", "α", LETTER},   {"beta", "β", LETTER},     {"gamma", "γ", LETTER},    {"lambda", "λ", LETTER},
    {"sigma", "σ", LETTER},   {"mu", "μ", LETTER},       {"Delta", "Δ", LETTER},    {"infty", "∞", LETTER},
    {"ell", "ℓ", LETTER},     {"ln", "ln", LETTER},      {"cos", "cos", LETTER},    {"exp", "exp", LETTER},
    {"max", "max", WIDE},     {"min", "min", WIDE},      {"sum", "∑", WIDE},        {"cdot", "·", OPERATOR},
    {"times", "×", OPERATOR}, {"pm", "±", OPERATOR},     {"le", "≤", OPERATOR},     {"ge", "≥", OPERATOR},
    {"ne", "≠", OPERATOR},    {"in", "∈", OPERATOR},     {"approx", "≈", OPERATOR}, {"cap", "∩", OPERATOR},
    {"lVert", "‖", OPERATOR}, {"rVert", "‖", OPERATOR},  {"lvert", "|", OPERATOR},  {"rvert", "|", OPERATOR},
    {"dots", "…", OPERATOR},  {"langle", "⟨", OPERATOR}, {"rangle", "⟩", OPERATOR}, {"top", "⊤", LETTER},
};

enum { SIGNS = sizeof signs / sizeof signs[0] };

/* A formula being read; positions are before `end`. */
struct reader {
    const char *end;
    struct mt_output *out; // NULL: it is only looked at
    int depth;
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The name behind a backslash; false where there is none. */
static bool read_name(const struct reader *reader, const char *at, const char **name_end)
{
    const char *end = at;
    while (end < reader->end && is_letter(*end)) end++;
    *name_end = end;
    return end > at;
}

static bool is_name(const char *at, const char *end, const char *name)
{
    return strlen(name) == (size_t)(end - at) && strncmp(at, name, (size_t)(end - at)) == 0;
}

static const struct sign *find_sign(const char *at, const char *end)
{
    for (int i = 0; i < SIGNS; i++) {
        if (is_name(at, end, signs[i].name)) return &signs[i];
    }
    return NULL;
}

static void put(const struct reader *reader, const char *text)
{
    if (reader->out != NULL) mt_put(reader->out, text);
}

/* Some bytes of the formula, escaped. */
static void put_bytes(const struct reader *reader, const char *from, const char *end)
{
    char one[2] = "";
    for (const char *at = from; at < end && reader->out != NULL; at++) {
        one[0] = *at;
        mt_put_html(reader->out, one);
    }
}

// Each of these reads what begins at `at`, writes it, and returns where it ends; NULL: it is not of our TeX.
static const char *read_row(struct reader *reader, const char *at, char closing);
static const char *read_atom(struct reader *reader, const char *at);

/* {...}, as one row. */
static const char *read_group(struct reader *reader, const char *at)
{
    if (at == NULL || at >= reader->end || *at != '{' || reader->depth == DEEPEST) return NULL;
    reader->depth++;
    put(reader, "<mrow>");
    at = read_row(reader, at + 1, '}');
    put(reader, "</mrow>");
    reader->depth--;
    return at;
}

/* {words}: letters, digits, spaces and harmless signs. */
static const char *read_words(const struct reader *reader, const char *at, const char *open,
                              const char *close)
{
    if (at >= reader->end || *at != '{') return NULL;
    const char *from = at + 1;
    for (at = from; at < reader->end && *at != '}'; at++) {
        if (!is_letter(*at) && !is_digit(*at) && (*at == '\0' || strchr(" -.,'()/|", *at) == NULL))
            return NULL;
    }
    if (at == reader->end) return NULL;
    put(reader, open);
    put_bytes(reader, from, at);
    put(reader, close);
    return at + 1;
}

static const char *read_command(struct reader *reader, const char *at)
{
    const char *end = NULL;
    if (at < reader->end && (*at == ',' || *at == ' ')) {
        put(reader, "<mspace width=\"0.2em\"/>");
        return at + 1;
    }
    if (at < reader->end && *at == '%') {
        put(reader, "<mo>%</mo>");
        return at + 1;
    }
    if (!read_name(reader, at, &end)) return NULL;
    if (is_name(at, end, "text")) return read_words(reader, end, "<mtext>", "</mtext>");
    if (is_name(at, end, "operatorname")) return read_words(reader, end, FUNCTION, "</mo>");
    if (is_name(at, end, "frac")) {
        put(reader, "<mfrac>");
        at = read_group(reader, end);
        at = read_group(reader, at);
        put(reader, "</mfrac>");
        return at;
    }
    if (is_name(at, end, "sqrt")) {
        put(reader, "<msqrt>");
        at = read_group(reader, end);
        put(reader, "</msqrt>");
        return at;
    }
    if (is_name(at, end, "bar")) {
        put(reader, "<mover accent=\"true\">");
        at = read_group(reader, end);
        put(reader, "<mo>¯</mo></mover>");
        return at;
    }
    const struct sign *sign = find_sign(at, end);
    if (sign == NULL) return NULL;
    bool function = is_letter(sign->character[0]);
    bool letter = sign->kind == LETTER && !function;
    put(reader, letter ? "<mi>" : (function ? FUNCTION : "<mo>"));
    put(reader, sign->character);
    put(reader, letter ? "</mi>" : "</mo>");
    return end;
}

static const char *read_atom(struct reader *reader, const char *at)
{
    if (at == NULL || at >= reader->end) return NULL;
    if (*at == '{') return read_group(reader, at);
    if (*at == '\\') return read_command(reader, at + 1);
    const char *end = at + 1;
    if (is_digit(*at)) {
        while (end < reader->end &&
               (is_digit(*end) || (*end == '.' && end + 1 < reader->end && is_digit(end[1]))))
            end++;
        put(reader, "<mn>");
        put_bytes(reader, at, end);
        put(reader, "</mn>");
        return end;
    }
    if (is_letter(*at)) {
        put(reader, "<mi>");
        put_bytes(reader, at, end);
        put(reader, "</mi>");
        return end;
    }
    if (*at == '\0' || strchr("+-=<>()[]|,./:;!*'", *at) == NULL) return NULL;
    put(reader, strchr("()[]|", *at) != NULL ? "<mo stretchy=\"false\">" : "<mo>");
    if (*at == '-')
        put(reader, "−");
    else
        put_bytes(reader, at, end);
    put(reader, "</mo>");
    return end;
}

/* The tag around an atom with scripts; which: 1 below, 2 above, 3 both, 0 none. */
static void put_tag(const struct reader *reader, const char *open, bool wide, int which)
{
    static const char *const tags[2][4] = {{"", "msub", "msup", "msubsup"},
                                           {"", "munder", "mover", "munderover"}};
    if (which == 0) return;
    put(reader, open);
    put(reader, tags[wide ? 1 : 0][which]);
    put(reader, ">");
}

/* An atom and what stands below and above it. */
static const char *read_scripted(struct reader *reader, const char *at)
{
    struct reader look = {.end = reader->end, .depth = reader->depth};
    const char *base_end = read_atom(&look, at);
    const char *next = base_end;
    const char *script[2] = {NULL, NULL}; // below, above
    bool wide = false;
    for (int i = 0; i < 2 && next != NULL && next < reader->end && (*next == '_' || *next == '^'); i++) {
        int place = *next == '_' ? 0 : 1;
        if (script[place] != NULL) return NULL;
        script[place] = next + 1;
        next = read_atom(&look, next + 1);
    }
    if (next == NULL || reader->out == NULL) return next;
    if (*at == '\\') {
        const char *name_end = NULL;
        const struct sign *sign = read_name(reader, at + 1, &name_end) ? find_sign(at + 1, name_end) : NULL;
        wide = sign != NULL && sign->kind == WIDE;
    }
    int which = (script[0] != NULL ? 1 : 0) + (script[1] != NULL ? 2 : 0);
    put_tag(reader, "<", wide, which);
    (void)read_atom(reader, at);
    for (int i = 0; i < 2; i++) {
        if (script[i] != NULL) (void)read_atom(reader, script[i]);
    }
    put_tag(reader, "</", wide, which);
    return next;
}

/* Up to the closing sign, or to the end where that is 0. */
static const char *read_row(struct reader *reader, const char *at, char closing)
{
    while (at != NULL && at < reader->end) {
        if (*at == ' ') {
            at++;
        } else if (closing != '\0' && *at == closing) {
            return at + 1;
        } else {
            at = read_scripted(reader, at);
        }
    }
    return closing == '\0' ? at : NULL;
}

// ------------------------------------------------------------------ texts

typedef void put_text(struct mt_output *out, const char *text);
typedef void put_formula(struct mt_output *out, const char *from, const char *end);

static void formula_html(struct mt_output *out, const char *from, const char *end)
{
    struct reader reader = {.end = end, .out = out};
    mt_put(out, "<math><mrow>");
    (void)read_row(&reader, from, '\0');
    mt_put(out, "</mrow></math>");
}

static void formula_tex(struct mt_output *out, const char *from, const char *end)
{
    mt_put(out, "$");
    mt_put_bytes(out, from, (size_t)(end - from));
    mt_put(out, "$");
}

/* A dollar sign with a space inside is money. */
static bool is_formula(const char *from, const char *end)
{
    struct reader look = {.end = end};
    return end > from && *from != ' ' && end[-1] != ' ' && read_row(&look, from, '\0') == end;
}

/* A piece of text, which the escapers want as a string of its own. */
static void put_piece(struct mt_output *out, const char *from, const char *end, put_text *text)
{
    char piece[128];
    while (from < end) {
        size_t length = (size_t)(end - from) < sizeof piece - 1 ? (size_t)(end - from) : sizeof piece - 1;
        // Not in the middle of a character.
        while (length > 1 && from + length < end && ((unsigned char)from[length] & 0xC0u) == 0x80u) length--;
        memcpy(piece, from, length);
        piece[length] = '\0';
        text(out, piece);
        from += length;
    }
}

static void put_mixed(struct mt_output *out, const char *text, put_text *plain, put_formula *formula)
{
    const char *start = text;
    for (const char *at = strchr(text, '$'); at != NULL; at = strchr(at, '$')) {
        const char *end = strchr(at + 1, '$');
        if (end == NULL) break;
        if (!is_formula(at + 1, end)) {
            at++;
            continue;
        }
        put_piece(out, start, at, plain);
        formula(out, at + 1, end);
        at = end + 1;
        start = at;
    }
    put_piece(out, start, start + strlen(start), plain);
}

void mt_put_html_math(struct mt_output *out, const char *text)
{
    put_mixed(out, text, mt_put_html, formula_html);
}

void mt_put_latex_math(struct mt_output *out, const char *text)
{
    put_mixed(out, text, mt_put_latex, formula_tex);
}

void mt_put_markdown_math(struct mt_output *out, const char *text)
{
    put_mixed(out, text, mt_put_markdown, formula_tex);
}
