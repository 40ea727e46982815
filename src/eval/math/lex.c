/* Tokens of cleaned mathematics. */
#include "eval/math/lex.h"

#include <ctype.h>
#include <string.h>

#include "eval/math/units.h"

#define MOST_DIGITS 4000
#define MOST_SHIFT  1000000000

/* Greek letters and other names of symbols; the place gives the symbol's number after MT_SYMBOL_PI. */
static const char *const symbol_names[] = {
    "pi",    "alpha",  "beta",  "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta",  "iota",
    "kappa", "lambda", "mu",    "nu",    "xi",    "rho",     "sigma",      "tau",  "phi", "varphi", "chi",
    "psi",   "omega",  "Gamma", "Delta", "Theta", "Lambda",  "Sigma",      "Phi",  "Psi", "Omega",  "ell",
};

/* Words that are functions or signs even without a backslash. */
static const char *const plain_commands[] = {"sqrt", "sin", "cos",   "tan",      "cot",    "sec",    "csc",
                                             "log",  "ln",  "exp",   "abs",      "arcsin", "arccos", "arctan",
                                             "or",   "and", "infty", "infinity", "floor",  "ceil",   "to",
                                             "oder", "und", "sinh",  "cosh",     "tanh"};

static bool same(const char *word, size_t bytes, const char *name)
{
    return strlen(name) == bytes && memcmp(word, name, bytes) == 0;
}

static int64_t symbol_named(const char *word, size_t bytes)
{
    for (size_t i = 0; i < sizeof symbol_names / sizeof symbol_names[0]; i++) {
        if (same(word, bytes, symbol_names[i])) return MT_SYMBOL_PI + (int64_t)i;
    }
    return 0;
}

// ------------------------------------------------------------------ numbers

/* Bytes of ",234,567" or " 234 567" after a number's first one to three digits; 0: the marks separate. */
static size_t thousands(const char *at, const char *end, char mark)
{
    const char *next = at;
    while (end - next >= 4 && next[0] == mark && isdigit((unsigned char)next[1]) &&
           isdigit((unsigned char)next[2]) && isdigit((unsigned char)next[3])) {
        next += 4;
        if (next < end && isdigit((unsigned char)*next)) return 0;
    }
    return (size_t)(next - at);
}

/* What stands behind the e of "1e-3"; no further than MOST_SHIFT, which no number is taken at. */
static int64_t read_exponent(const char *next, const char *end)
{
    bool negative = next < end && *next == '-';
    int64_t value = 0;
    if (next < end && strchr("+-", *next) != NULL) next++;
    for (; next < end && isdigit((unsigned char)*next) && value < MOST_SHIFT; next++)
        value = value * 10 + (*next - '0');
    return negative ? -value : value;
}

/* The value of a number's text, separators and all. */
static void read_number(struct mt_math_parser *parser, struct mt_math_token *token)
{
    char digits[MOST_DIGITS + 1] = "0";
    size_t length = 1;
    int64_t shift = 0;
    bool point = false;
    for (size_t i = 0; i < token->bytes; i++) {
        char byte = token->start[i];
        if (byte == '.') point = true;
        if (byte == 'e' || byte == 'E') {
            shift += read_exponent(token->start + i + 1, token->start + token->bytes);
            break;
        }
        if (!isdigit((unsigned char)byte)) continue;
        digits[length++] = byte;
        if (point) shift--;
    }
    digits[length] = '\0';
    token->number = mt_rational_read(&parser->numbers, digits, shift);
    if (parser->numbers.failed) token->kind = MT_TOKEN_UNKNOWN;
}

/* The digits of \overline{...}, \bar{...}, \dot{...} or (...) at `next`; 0 bytes: no such thing. */
static size_t repeated(const char *next, const char *end, const char **digits, size_t *count)
{
    static const char *const opens[] = {"\\overline{", "\\bar{", "\\dot{", "\\overline ", "\\bar ", "("};
    for (size_t i = 0; i < sizeof opens / sizeof opens[0]; i++) {
        size_t length = strlen(opens[i]);
        if ((size_t)(end - next) <= length || memcmp(next, opens[i], length) != 0) continue;
        const char *at = next + length;
        *digits = at;
        bool bare = opens[i][length - 1] == ' ';
        while (at < end && isdigit((unsigned char)*at) && !(bare && at > *digits)) at++;
        *count = (size_t)(at - *digits);
        if (*count == 0 || *count > 100) return 0;
        if (bare) return (size_t)(at - next);
        if (at == end || *at != (opens[i][0] == '(' ? ')' : '}')) return 0;
        return (size_t)(at + 1 - next);
    }
    return 0;
}

/* 0.1\overline{6}: adds the digits that come back for ever, behind `places` others. Returns the bytes taken.
 */
static size_t add_repeated(struct mt_math_parser *parser, struct mt_math_token *token, size_t places)
{
    struct mt_numbers *numbers = &parser->numbers;
    const char *digits = NULL;
    size_t count = 0;
    char text[128];
    size_t bytes = repeated(parser->at, parser->end, &digits, &count);
    if (bytes == 0) return 0;
    memcpy(text, digits, count);
    text[count] = '\0';
    struct mt_rational part = mt_rational_read(numbers, text, -(int64_t)places);
    struct mt_rational cycle = mt_rational_power(numbers, mt_rational_make(numbers, 10, 1), (int64_t)count);
    cycle = mt_rational_add(numbers, cycle, mt_rational_make(numbers, -1, 1));
    part = mt_rational_divide(numbers, part, cycle);
    token->number = mt_rational_add(numbers, token->number, part);
    if (numbers->failed) token->kind = MT_TOKEN_UNKNOWN;
    return bytes;
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
    if (next - parser->at <= 3 && next > parser->at) {
        size_t groups = parser->inside == 0 ? thousands(next, parser->end, ',') : 0;
        if (groups == 0 && *parser->at != '0') groups = thousands(next, parser->end, ' ');
        next += groups;
    }
    const char *point = next;
    bool fraction = parser->end - next >= 2 && next[0] == '.' && isdigit((unsigned char)next[1]);
    if (fraction) {
        next++;
        while (next < parser->end && isdigit((unsigned char)*next)) next++;
    } else if (next < parser->end && *next == '.') {
        next++; // "5."
    }
    size_t places = next > point ? (size_t)(next - point) - 1 : 0;
    size_t exponent = exponent_bytes(next, parser->end);
    token->whole = !fraction && exponent == 0;
    next += exponent;
    token->kind = next - parser->at < MOST_DIGITS ? MT_TOKEN_NUMBER : MT_TOKEN_UNKNOWN;
    token->bytes = (size_t)(next - parser->at);
    if (token->kind == MT_TOKEN_NUMBER) read_number(parser, token);
    parser->at = next;
    if (next[-1 - (int)exponent] == '.' || (fraction && exponent == 0)) {
        size_t bytes = add_repeated(parser, token, places);
        token->whole = token->whole && bytes == 0;
        parser->at += bytes;
        token->bytes += bytes;
    }
}

void mt_math_first_digit(struct mt_math_parser *parser)
{
    struct mt_math_token *token = &parser->token;
    if (token->kind != MT_TOKEN_NUMBER || !token->whole || token->bytes < 2) return;
    parser->at = token->start + 1;
    token->bytes = 1;
    read_number(parser, token);
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
    bool words = false;
    const char *next = parser->at + 1;
    while (next < parser->end && open > 0) {
        open += *next == '{' ? 1 : 0;
        open -= *next == '}' ? 1 : 0;
        words |= isalpha((unsigned char)*next) != 0 || (unsigned char)*next >= 128;
        next++;
    }
    const char *inside = parser->at + 1;
    while (inside < next && *inside == ' ') inside++;
    bool number = isdigit((unsigned char)*inside) || (next - inside > 4 && memcmp(inside, "\\usd", 4) == 0);
    if ((!words || number) && open == 0) { // \textbf{36}, \text{36 cm}: braces that only group
        *token = (struct mt_math_token){.kind = MT_TOKEN_SIGN, .start = parser->at, .bytes = 1, .sign = '{'};
        parser->at++;
        return;
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
    bool spaced = parser->at > parser->begin && parser->at[-1] == ' ';
    while (next < parser->end && isalpha((unsigned char)*next)) next++;
    token->bytes = (size_t)(next - parser->at);
    token->kind = MT_TOKEN_SYMBOL;
    token->symbol = token->bytes > 1 ? symbol_named(token->start, token->bytes) : 0;
    for (size_t i = 0; i < sizeof plain_commands / sizeof plain_commands[0]; i++) {
        if (same(token->start, token->bytes, plain_commands[i])) token->kind = MT_TOKEN_COMMAND;
    }
    if (token->kind == MT_TOKEN_COMMAND || token->symbol != 0) {
        parser->at = next;
    } else if (mt_unit_is_word(token->start, token->bytes, spaced && parser->token.kind == MT_TOKEN_NUMBER)) {
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
            token.kind = MT_TOKEN_SIGN;
            token.sign = byte;
            token.bytes = 1;
            parser->at++;
            while ((unsigned char)byte >= 128 && parser->at < parser->end &&
                   (unsigned char)*parser->at >= 128) {
                token.kind = MT_TOKEN_TEXT; // a word of another script
                token.bytes++;
                parser->at++;
            }
            if ((unsigned char)byte >= 128 && token.bytes == 1) token.kind = MT_TOKEN_UNKNOWN;
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
