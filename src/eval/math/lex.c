/* Tokens of cleaned mathematics. */
#include "eval/math/lex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 400

/* Greek letters and other names of symbols; the place gives the symbol's number after MT_SYMBOL_PI. */
static const char *const symbol_names[] = {
    "pi",    "alpha",  "beta",  "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta",  "iota",
    "kappa", "lambda", "mu",    "nu",    "xi",    "rho",     "sigma",      "tau",  "phi", "varphi", "chi",
    "psi",   "omega",  "Gamma", "Delta", "Theta", "Lambda",  "Sigma",      "Phi",  "Psi", "Omega",  "ell",
};

/* Words that are functions or signs even without a backslash. */
static const char *const plain_commands[] = {"sqrt", "sin", "cos",   "tan",      "cot",    "sec",    "csc",
                                             "log",  "ln",  "exp",   "abs",      "arcsin", "arccos", "arctan",
                                             "or",   "and", "infty", "infinity", "floor",  "ceil"};

/* Singular forms; an s may follow. */
static const char *const units[] = {
    "inch",      "inche",      "foot",   "feet",     "yard",   "mile",    "meter",   "metre",   "centimeter",
    "kilometer", "millimeter", "gram",   "kilogram", "pound",  "ounce",   "ton",     "liter",   "litre",
    "second",    "minute",     "hour",   "day",      "week",   "month",   "year",    "dollar",  "cent",
    "euro",      "degree",     "radian", "unit",     "point",  "percent", "mph",     "kph",     "cm",
    "mm",        "km",         "kg",     "mg",       "ml",     "mL",      "ft",      "hr",      "min",
    "sec",       "sq",         "square", "cubic",    "people", "person",  "student", "time",    "way",
    "coin",      "ball",       "book",   "card",     "page",   "step",    "game",    "integer", "solution",
    "per",       "USD",        "Hz",     "kHz",      "rad",    "lb",      "oz",      "gallon",  "side",
};

static bool same(const char *word, size_t bytes, const char *name)
{
    return strlen(name) == bytes && memcmp(word, name, bytes) == 0;
}

static bool is_unit(const char *word, size_t bytes)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (same(word, bytes, units[i])) return true;
        if (bytes > 2 && word[bytes - 1] == 's' && same(word, bytes - 1, units[i])) return true;
    }
    return false;
}

static int symbol_named(const char *word, size_t bytes)
{
    for (size_t i = 0; i < sizeof symbol_names / sizeof symbol_names[0]; i++) {
        if (same(word, bytes, symbol_names[i])) return MT_SYMBOL_PI + (int)i;
    }
    return 0;
}

// ------------------------------------------------------------------ numbers

/* Bytes of ",234,567" after a number's first one to three digits; 0: the commas separate. */
static size_t thousands(const char *at, const char *end)
{
    const char *next = at;
    while (end - next >= 4 && next[0] == ',' && isdigit((unsigned char)next[1]) &&
           isdigit((unsigned char)next[2]) && isdigit((unsigned char)next[3])) {
        next += 4;
        if (next < end && isdigit((unsigned char)*next)) return 0;
    }
    return (size_t)(next - at);
}

/* The value of a number's text, commas and all. */
static void read_number(struct mt_math_token *token)
{
    char text[MOST_DIGITS + 1];
    size_t length = 0;
    __int128 over = 0;
    __int128 under = 1;
    int exponent = 0;
    bool point = false;
    bool fits = true;
    for (size_t i = 0; i < token->bytes && length < MOST_DIGITS; i++) {
        char byte = token->start[i];
        if (byte == ',') continue;
        text[length++] = byte;
        if (byte == '.') point = true;
        if (byte == 'e' || byte == 'E') {
            exponent = (int)strtol(token->start + i + 1, NULL, 10);
            memcpy(text + length, token->start + i + 1, token->bytes - i - 1);
            length += token->bytes - i - 1;
            break;
        }
        if (!isdigit((unsigned char)byte)) continue;
        fits = fits && over < ((__int128)1 << 110) && under < ((__int128)1 << 110);
        if (!fits) continue;
        over = over * 10 + (byte - '0');
        if (point) under *= 10;
    }
    text[length] = '\0';
    token->value = strtod(text, NULL);
    struct mt_rational scale;
    fits = fits && mt_rational_make(over, under, &token->number);
    fits = fits && mt_rational_power(mt_rational_whole(10), exponent, &scale);
    token->exact = fits && mt_rational_multiply(token->number, scale, &token->number);
}

/* An exponent "e-3" at `next`, at most three digits; 0 bytes: none. */
static size_t exponent_bytes(const char *next, const char *end)
{
    const char *start = next;
    if (next == end || (*next != 'e' && *next != 'E')) return 0;
    next++;
    if (next < end && (*next == '-' || *next == '+')) next++;
    const char *digits = next;
    while (next < end && isdigit((unsigned char)*next)) next++;
    return next > digits && next - digits <= 3 ? (size_t)(next - start) : 0;
}

static void lex_number(struct mt_math_parser *parser, struct mt_math_token *token)
{
    const char *next = parser->at;
    while (next < parser->end && isdigit((unsigned char)*next)) next++;
    if (next - parser->at <= 3 && next > parser->at && parser->inside == 0) {
        next += thousands(next, parser->end);
    }
    token->whole = true;
    bool fraction = parser->end - next >= 2 && next[0] == '.' && isdigit((unsigned char)next[1]);
    if (fraction) {
        next++;
        while (next < parser->end && isdigit((unsigned char)*next)) next++;
    } else if (next < parser->end && *next == '.') {
        next++; // "5."
    }
    size_t exponent = exponent_bytes(next, parser->end);
    token->whole = !fraction && exponent == 0;
    next += exponent;
    token->kind = next - parser->at < MOST_DIGITS ? MT_TOKEN_NUMBER : MT_TOKEN_UNKNOWN;
    token->bytes = (size_t)(next - parser->at);
    if (token->kind == MT_TOKEN_NUMBER) read_number(token);
    parser->at = next;
}

void mt_math_first_digit(struct mt_math_parser *parser)
{
    struct mt_math_token *token = &parser->token;
    if (token->kind != MT_TOKEN_NUMBER || !token->whole || token->bytes < 2) return;
    parser->at = token->start + 1;
    token->bytes = 1;
    read_number(token);
}

// ------------------------------------------------------------------ words

/* \text{...} with its braces matched; what is inside becomes the token. */
static void lex_text(struct mt_math_parser *parser, struct mt_math_token *token)
{
    while (parser->at < parser->end && *parser->at == ' ') parser->at++;
    token->kind = MT_TOKEN_TEXT;
    token->start = parser->at;
    token->bytes = 0;
    if (parser->at == parser->end) return;
    if (*parser->at != '{') { // \text x
        parser->at++;
        token->bytes = 1;
        return;
    }
    int open = 1;
    const char *next = parser->at + 1;
    while (next < parser->end && open > 0) {
        open += *next == '{' ? 1 : 0;
        open -= *next == '}' ? 1 : 0;
        next++;
    }
    if (open > 0) token->kind = MT_TOKEN_UNKNOWN;
    token->start = parser->at + 1;
    token->bytes = open > 0 ? 0 : (size_t)(next - 1 - token->start);
    parser->at = next;
    while (token->bytes > 0 && token->start[0] == ' ') {
        token->start++;
        token->bytes--;
    }
    while (token->bytes > 0 && token->start[token->bytes - 1] == ' ') token->bytes--;
}

static void lex_command(struct mt_math_parser *parser, struct mt_math_token *token)
{
    const char *next = parser->at + 1;
    if (next < parser->end && (*next == '{' || *next == '}')) {
        // \{ and \} are brackets; bare braces only group.
        *token = (struct mt_math_token){
            .kind = MT_TOKEN_SIGN, .start = parser->at, .bytes = 2, .sign = *next == '{' ? 'S' : 'T'};
        parser->at += 2;
        return;
    }
    if (next < parser->end && *next == '\\') {
        *token = (struct mt_math_token){.kind = MT_TOKEN_SIGN, .start = parser->at, .bytes = 2, .sign = 'R'};
        parser->at += 2;
        return;
    }
    while (next < parser->end && isalpha((unsigned char)*next)) next++;
    token->start = parser->at + 1;
    token->bytes = (size_t)(next - token->start);
    parser->at = next;
    token->kind = MT_TOKEN_COMMAND;
    token->symbol = symbol_named(token->start, token->bytes);
    if (token->symbol != 0) token->kind = MT_TOKEN_SYMBOL;
    if (same(token->start, token->bytes, "text")) lex_text(parser, token);
}

static void lex_word(struct mt_math_parser *parser, struct mt_math_token *token)
{
    const char *next = parser->at;
    while (next < parser->end && isalpha((unsigned char)*next)) next++;
    token->bytes = (size_t)(next - parser->at);
    token->kind = MT_TOKEN_SYMBOL;
    token->symbol = token->bytes > 1 ? symbol_named(token->start, token->bytes) : 0;
    for (size_t i = 0; i < sizeof plain_commands / sizeof plain_commands[0]; i++) {
        if (same(token->start, token->bytes, plain_commands[i])) token->kind = MT_TOKEN_COMMAND;
    }
    if (token->kind == MT_TOKEN_COMMAND || token->symbol != 0) {
        parser->at = next;
    } else if (token->bytes > 1 && is_unit(token->start, token->bytes)) {
        token->kind = MT_TOKEN_UNIT;
        parser->at = next;
    } else if (token->bytes > 3) {
        token->kind = MT_TOKEN_WORD;
        parser->at = next;
    } else { // a product of one-letter symbols
        token->symbol = (unsigned char)*parser->at;
        token->bytes = 1;
        parser->at++;
    }
}

void mt_math_advance(struct mt_math_parser *parser)
{
    const char *before = parser->at;
    while (parser->at < parser->end && *parser->at == ' ') parser->at++;
    struct mt_math_token token = {.start = parser->at, .spaced = parser->at > before};
    if (parser->at == parser->end) {
        token.kind = MT_TOKEN_END;
    } else {
        char byte = *parser->at;
        bool decimal = byte == '.' && parser->end - parser->at > 1 && isdigit((unsigned char)parser->at[1]);
        if (isdigit((unsigned char)byte) || decimal) {
            lex_number(parser, &token);
        } else if (byte == '\\') {
            lex_command(parser, &token);
        } else if (isalpha((unsigned char)byte)) {
            lex_word(parser, &token);
        } else {
            token.kind = (unsigned char)byte < 128 ? MT_TOKEN_SIGN : MT_TOKEN_UNKNOWN;
            token.sign = byte;
            token.bytes = 1;
            parser->at++;
        }
    }
    token.spaced = before < token.start && *before == ' ';
    parser->token = token;
}

bool mt_math_is_sign(const struct mt_math_parser *parser, char sign)
{
    return parser->token.kind == MT_TOKEN_SIGN && parser->token.sign == sign;
}

bool mt_math_is_command(const struct mt_math_parser *parser, const char *name)
{
    return parser->token.kind == MT_TOKEN_COMMAND && same(parser->token.start, parser->token.bytes, name);
}

bool mt_math_take(struct mt_math_parser *parser, char sign)
{
    if (!mt_math_is_sign(parser, sign)) return false;
    mt_math_advance(parser);
    return true;
}

bool mt_math_take_command(struct mt_math_parser *parser, const char *name)
{
    if (!mt_math_is_command(parser, name)) return false;
    mt_math_advance(parser);
    return true;
}
