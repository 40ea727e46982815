/* One spelling for mathematics: what only shapes the print goes, what has several spellings gets one. */
#include <ctype.h>
#include <string.h>

#include "eval/math/tree.h"

struct replacement {
    const char *from;
    const char *to;
};

/* Commands, without their backslash, several that become the same; a command not listed stays. */
static const struct replacement commands[] = {
    {"left right big Big bigl bigr Bigl Bigr bigg Bigg biggl biggr Biggl Biggr limits boxed fbox ensuremath",
     ""},
    {"vec hat widehat underline overrightarrow overleftrightarrow mathstrut nolimits mathopen mathclose", ""},
    {"displaystyle textstyle scriptstyle quad qquad thinspace", " "},
    {"implies to Rightarrow rightarrow Longrightarrow longrightarrow", "\\implies "},
    {"iff Leftrightarrow leftrightarrow", "\\iff "},
    {"enspace medspace thickspace", " "},
    {"tiny scriptsize footnotesize small normalsize large Large LARGE huge Huge bfseries itshape rmfamily "
     "sffamily",
     " "},
    {"dfrac tfrac cfrac", "\\frac"},
    {"dbinom tbinom", "\\binom"},
    {"cdot times ast", "*"},
    {"div", "/"},
    {"backslash smallsetminus", "\\setminus "},
    {"textdollar", "\\usd "},
    {"euro texteuro", "\\eur "},
    {"leq leqslant leqq", "\\le "},
    {"geq geqslant geqq", "\\ge "},
    {"neq", "\\ne "},
    {"lt", "<"},
    {"gt", ">"},
    {"lbrace", "\\{"},
    {"rbrace", "\\}"},
    {"lbrack", "["},
    {"rbrack", "]"},
    {"langle", "("},
    {"rangle", ")"},
    {"lvert rvert vert", "|"},
    {"mid", "\\mid "},
    {"degree circ degrees", "\\deg "},
    {"textbf textit textrm textsf texttt textnormal mbox hbox", "\\text"},
    {"dots ldots cdots", "..."},
    {"emptyset varnothing", "\\text{empty}"},
    {"approx simeq", "\\approx "},
    {"colon", ":"},
    {"lor vee", "\\or "},
    {"land wedge", "\\and "},
    {"tg", "\\tan "},
    {"ctg cotg", "\\cot "},
    {"arctg", "\\arctan "},
    {"cosec", "\\csc "},
    {"R reals Reals", "(-\\infty,\\infty)"},
};

/* Commands that set letters in another face: one letter or a function's name stays what it is. */
static const char faces[] = "mathrm mathbf mathit mathsf mathtt mathcal mathfrak boldsymbol bm rm bf it "
                            "operatorname mathop mathbb";

/* Commands whose braces hold nothing of the answer. */
static const char spaces[] = "hspace vspace phantom hphantom vphantom label tag color textcolor";

/* Other texts. Longer ones first where one begins another. */
static const struct replacement signs[] = {
    {"\\\\", "\\\\"},
    {"\\text{\\$}", "\\usd "},
    {"\\text{€}", "\\eur "},
    {"\\text{£}", "\\gbp "},
    {"\\text{%}", "%"},
    {"\\text{\\%}", "%"},
    {"\\text{ %}", "%"},
    {"\\text{ \\%}", "%"},
    {"\\mathrm{%}", "%"},
    {"\\mathrm{\\%}", "%"},
    {"\\text{positive infinity}", "\\infty "},
    {"\\text{negative infinity}", "-\\infty "},
    {"\\text{infinity}", "\\infty "},
    {"\\text{Infinity}", "\\infty "},
    {"\\text{inf}", "\\infty "},
    {"\\mu\\text{", "\\text{micro"},
    {"\\mu \\text{", "\\text{micro"},
    {"\\mu\\mathrm{", "\\text{micro"},
    {"\\mu \\mathrm{", "\\text{micro"},
    {"μm", "\\text{ micrometers}"},
    {"µm", "\\text{ micrometers}"},
    {"\\%", "%"},
    {"\\$", "\\usd "},
    {"\\&", "&"},
    {"\\#", "#"},
    {"\\!", ""},
    {"\\;", " "},
    {"\\:", " "},
    {"\\>", " "},
    {"\\ ", " "},
    {"\\\n", " "},
    {"\\/", ""},
    {"\\(", ""},
    {"\\)", ""},
    {"\\[", ""},
    {"\\]", ""},
    {"$", ""},
    {"~", " "},
    {"**", "^"},
    {"−", "-"},
    {"–", "-"},
    {"‐", "-"},
    {"×", "*"},
    {"·", "*"},
    {"⋅", "*"},
    {"∙", "*"},
    {"÷", "/"},
    {"∕", "/"},
    {"⁄", "/"},
    {"π", "\\pi "},
    {"√", "\\sqrt "},
    {"∛", "\\sqrt[3] "},
    {"∜", "\\sqrt[4] "},
    {"⇒", "\\implies "},
    {"→", "\\implies "},
    {"⇔", "\\iff "},
    {"Ω", "\\Omega "},
    {"⁰", "^0"},
    {"¹", "^1"},
    {"²", "^2"},
    {"³", "^3"},
    {"⁴", "^4"},
    {"⁵", "^5"},
    {"⁶", "^6"},
    {"⁷", "^7"},
    {"⁸", "^8"},
    {"⁹", "^9"},
    {"½", "\\frac12 "},
    {"¼", "\\frac14 "},
    {"¾", "\\frac34 "},
    {"⅓", "\\frac13 "},
    {"⅔", "\\frac23 "},
    {"⅛", "\\frac18 "},
    {"∞", "\\infty "},
    {"infinity", "\\infty "},
    {"Infinity", "\\infty "},
    {"≤", "\\le "},
    {"≥", "\\ge "},
    {"⩽", "\\le "},
    {"⩾", "\\ge "},
    {"≠", "\\ne "},
    {"±", "\\pm "},
    {"∓", "\\mp "},
    {"°", "\\deg "},
    {"º", "\\deg "},
    {"∪", "\\cup "},
    {"∩", "\\cap "},
    {"∈", "\\in "},
    {"∖", "\\setminus "},
    {"ℝ", "(-\\infty,\\infty)"},
    {"α", "\\alpha "},
    {"β", "\\beta "},
    {"θ", "\\theta "},
    {"λ", "\\lambda "},
    {"φ", "\\phi "},
    {"∅", "\\text{empty}"},
    {"\xC2\xA0", " "},
    {"\xE2\x80\x89", " "},
    {"\xE2\x80\xAF", " "},
    {"¢", "\\text{ cents}"},
    {"€", "\\eur "},
    {"£", "\\gbp "},
    {"<=", "\\le "},
    {">=", "\\ge "},
    {"!=", "\\ne "},
    {"≈", "\\approx "},
    {"’", "'"},
    {"…", "..."},
    {"“", "\""},
    {"”", "\""},
};

static bool digit_at(const char *text, size_t bytes, size_t at)
{
    return at < bytes && isdigit((unsigned char)text[at]);
}

/* How many digits stand at `at`, and how many end there. */
static size_t digits_from(const char *text, size_t bytes, size_t at)
{
    size_t count = 0;
    while (digit_at(text, bytes, at + count)) count++;
    return count;
}

static size_t digits_before(const char *text, size_t at)
{
    size_t count = 0;
    while (count < at && isdigit((unsigned char)text[at - 1 - count])) count++;
    return count;
}

/*
 * Marks between digits that only group them, \, and {,} and so on: before three digits they go, so that the
 * number is one. {,} before others is a decimal comma, and so it is behind a lone 0. Returns the bytes of the
 * mark, 0: there is none; *becomes is what stands for it.
 */
static size_t grouping(const char *text, size_t bytes, size_t at, const char **becomes)
{
    static const char *const marks[] = {"\\,", "{,}", ",\\!", "\\!"};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t length = strlen(marks[i]);
        if (at + length > bytes || memcmp(text + at, marks[i], length) != 0) continue;
        size_t lead = digits_before(text, at);
        size_t after = at + length;
        while (i == 2 && after < bytes && text[after] == ' ') after++; // ",\! 111"
        size_t next = digits_from(text, bytes, after);
        if (lead == 0 || next == 0) return 0;
        bool zero = lead == 1 && text[at - 1] == '0' && (at < 2 || text[at - 2] != ',');
        *becomes = i == 1 && (next != 3 || zero) ? "." : (next == 3 ? "" : (i == 3 ? "" : NULL));
        return *becomes != NULL ? after - at : 0;
    }
    return 0;
}

/* True for one of the words between spaces. */
static bool has_word(const char *words, const char *word, size_t bytes)
{
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        if (length == bytes && memcmp(words, word, bytes) == 0) return true;
        words += length + strspn(words + length, " ");
    }
    return false;
}

/* The bytes of {...} at `at`, whose inside is returned; 0: no such group. */
static size_t group_at(const char *text, size_t bytes, size_t at, const char **inside, size_t *inside_bytes)
{
    size_t start = at;
    int open = 0;
    while (at < bytes && text[at] == ' ') at++;
    if (at < bytes && at > start && isalpha((unsigned char)text[at])) { // \mathbb Z
        *inside = text + at;
        *inside_bytes = 1;
        return at + 1 - start;
    }
    if (at == bytes || text[at] != '{') return 0;
    *inside = text + at + 1;
    for (; at < bytes; at++) {
        open += text[at] == '{' ? 1 : 0;
        open -= text[at] == '}' ? 1 : 0;
        if (open == 0) break;
    }
    if (at == bytes) return 0;
    *inside_bytes = (size_t)(text + at - *inside);
    while (*inside_bytes > 0 && strchr(" ~", **inside) != NULL) {
        (*inside)++;
        (*inside_bytes)--;
    }
    while (*inside_bytes > 0 && (*inside)[*inside_bytes - 1] == ' ') (*inside_bytes)--;
    return at + 1 - start;
}

/* \mathrm{...} and its like; *done is false where it is none, or its braces hold more than a name. */
static enum mt_status clean_face(const char *text, size_t bytes, size_t *at, const char *name,
                                 size_t name_bytes, struct mt_byte_list *out, bool *done)
{
    static const char functions[] = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh "
                                    "log ln lg exp tg ctg arctg";
    const char *inside = NULL;
    size_t inside_bytes = 0;
    *done = has_word(spaces, name, name_bytes);
    bool face = has_word(faces, name, name_bytes);
    if (!*done && !face) return MT_OK;
    size_t length = group_at(text, bytes, *at, &inside, &inside_bytes);
    if (*done) {
        *at += length;
        return mt_byte_list_append_text(out, " ");
    }
    bool letter = length > 0 && inside_bytes == 1;
    bool function = length > 0 && inside_bytes > 0 && has_word(functions, inside, inside_bytes);
    bool reals = letter && inside[0] == 'R' && has_word("mathbb mathbf", name, name_bytes);
    *done = letter || function;
    if (!*done) {
        *done = true; // several letters are words
        return mt_byte_list_append_text(out, "\\text");
    }
    *at += length;
    if (reals) return mt_byte_list_append_text(out, "(-\\infty,\\infty)");
    enum mt_status status = mt_byte_list_append_text(out, " ");
    if (!function) return status == MT_OK ? mt_byte_list_append(out, inside, inside_bytes) : status;
    if (has_word("tg", inside, inside_bytes)) return mt_byte_list_append_text(out, "\\tan ");
    if (has_word("ctg", inside, inside_bytes)) return mt_byte_list_append_text(out, "\\cot ");
    if (has_word("arctg", inside, inside_bytes)) return mt_byte_list_append_text(out, "\\arctan ");
    if (status == MT_OK) status = mt_byte_list_append_text(out, "\\");
    if (status == MT_OK) status = mt_byte_list_append(out, inside, inside_bytes);
    return status == MT_OK ? mt_byte_list_append_text(out, " ") : status;
}

/* A product of two vectors: what comes next is one, and no number stands before it. */
static bool is_vector_at(const char *text, size_t bytes, size_t at)
{
    size_t end = at + 1;
    while (at < bytes && text[at] == ' ') end = ++at + 1;
    if (at == bytes || text[at] != '\\') return false;
    while (end < bytes && isalpha((unsigned char)text[end])) end++;
    return has_word("vec mathbf boldsymbol bm overrightarrow hat", text + at + 1, end - at - 1);
}

static enum mt_status clean_command(const char *text, size_t bytes, size_t *at, struct mt_byte_list *out)
{
    size_t start = *at + 1;
    size_t end = start;
    bool done = false;
    while (end < bytes && isalpha((unsigned char)text[end])) end++;
    *at = end;
    enum mt_status status = clean_face(text, bytes, at, text + start, end - start, out, &done);
    if (status != MT_OK || done) return status;
    // a × b is not a · b.
    bool cross = has_word("times", text + start, end - start) && is_vector_at(text, bytes, end);
    if (cross && (start < 2 || !isdigit((unsigned char)text[start - 2])))
        return mt_byte_list_append_text(out, "\\cross ");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (has_word(commands[i].from, text + start, end - start))
            return mt_byte_list_append_text(out, commands[i].to);
    }
    return mt_byte_list_append(out, text + start - 1, end - start + 1);
}

/* A raised o that means degrees, ^o, ^{\text{o}}: behind a number. Its bytes; 0: none. */
static size_t degree_at(const char *text, size_t bytes, size_t at)
{
    static const char *const forms[] = {"^{\\text{o}}", "^{\\text{ o}}", "^{\\mathrm{o}}", "^\\text{o}",
                                        "^\\mathrm{o}", "^{o}",          "^{ o}",          "^o"};
    size_t before = at;
    while (before > 0 && text[before - 1] == ' ') before--;
    if (before == 0 || (!isdigit((unsigned char)text[before - 1]) && strchr("})", text[before - 1]) == NULL))
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t length = strlen(forms[i]);
        bool there = at + length <= bytes && memcmp(text + at, forms[i], length) == 0;
        if (there && (at + length == bytes || !isalpha((unsigned char)text[at + length]))) return length;
    }
    return 0;
}

static enum mt_status clean_next(const char *text, size_t bytes, size_t *at, struct mt_byte_list *out)
{
    const char *becomes = NULL;
    size_t length = grouping(text, bytes, *at, &becomes);
    if (length > 0) {
        *at += length;
        return mt_byte_list_append_text(out, becomes);
    }
    length = degree_at(text, bytes, *at);
    if (length > 0) {
        *at += length;
        return mt_byte_list_append_text(out, "\\deg ");
    }
    if (*at + 1 < bytes && text[*at] == '\\' && text[*at + 1] == ',') {
        *at += 2;
        return mt_byte_list_append_text(out, " ");
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        length = strlen(signs[i].from);
        if (*at + length > bytes || memcmp(text + *at, signs[i].from, length) != 0) continue;
        *at += length;
        return mt_byte_list_append_text(out, signs[i].to);
    }
    if (text[*at] == '\\' && *at + 1 < bytes && isalpha((unsigned char)text[*at + 1])) {
        return clean_command(text, bytes, at, out);
    }
    char byte = isspace((unsigned char)text[*at]) ? ' ' : text[*at];
    (*at)++;
    return mt_byte_list_append(out, &byte, 1);
}

enum mt_status mt_math_clean(const char *text, size_t bytes, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    size_t at = 0;
    size_t start = out->count;
    // The backslash of "\\," goes with it, and so does one that stands at the end.
    // What goes on after digits, "0.33...", stays.
    while (bytes > 0 && strchr(" \t\r\n.,;:\\", text[bytes - 1]) != NULL) {
        if (bytes > 3 && memcmp(text + bytes - 3, "...", 3) == 0 && digit_at(text, bytes, bytes - 4)) break;
        bytes--;
    }
    while (status == MT_OK && at < bytes) status = clean_next(text, bytes, &at, out);
    if (status == MT_OK) status = mt_math_repeat(out, start);
    // What goes on without repeating, "1.414...", is as good as what is written.
    while (out->count >= start + 4 && memcmp(out->data + out->count - 3, "...", 3) == 0 &&
           isdigit(out->data[out->count - 4]))
        out->count -= 3;
    if (status == MT_OK && out->count > start) status = mt_math_respell(out, start);
    return status == MT_OK && out->count > start ? mt_math_qualify(out, start) : status;
}

/* Drops quotes and punctuation that stand around a whole text; of words also brackets. */
static void trim_ends(struct mt_byte_list *out, size_t start)
{
    bool number = false;
    for (size_t i = start; i < out->count; i++) number |= isdigit(out->data[i]) != 0;
    const char *around = number ? "\"'.,;:?" : "\"'.,;:?!()[]";
    size_t begin = start;
    while (out->count > begin && strchr(around, out->data[out->count - 1]) != NULL) out->count--;
    while (begin < out->count && strchr(around, out->data[begin]) != NULL) begin++;
    memmove(out->data + start, out->data + begin, out->count - begin);
    out->count -= begin - start;
}

/* Texts that say the same of a set or a limit, folded. */
static const struct replacement phrases[] = {
    {"emptyset nosolution nosolutions nosolutionexist nosolutionsexist norealsolution norealsolutions "
     "nosolutionexists none thereisnosolution therearenosolutions",
     "empty"},
    {"doesnotexist undefined notdefined", "dne"},
};

static enum mt_status replace_phrase(struct mt_byte_list *out, size_t start)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0] && out->count > start; i++) {
        if (!has_word(phrases[i].from, (const char *)out->data + start, out->count - start)) continue;
        out->count = start;
        return mt_byte_list_append_text(out, phrases[i].to);
    }
    return MT_OK;
}

enum mt_status mt_math_fold(const char *text, size_t bytes, struct mt_byte_list *out)
{
    static const char *const wrappers[] = {"\\text", "\\{", "\\}", "\\", "{", "}", " "};
    size_t start = out->count;
    enum mt_status status = MT_OK;
    for (size_t at = 0; status == MT_OK && at < bytes;) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof wrappers / sizeof wrappers[0] && skip == 0; i++) {
            size_t length = strlen(wrappers[i]);
            if (at + length <= bytes && memcmp(text + at, wrappers[i], length) == 0) skip = length;
        }
        // "20th" is 20.
        static const char *const ordinals[] = {"st", "nd", "rd", "th"};
        for (size_t i = 0; i < 4 && at > 0 && isdigit((unsigned char)text[at - 1]); i++) {
            bool ends = at + 2 == bytes || (at + 2 < bytes && !isalpha((unsigned char)text[at + 2]));
            if (ends && memcmp(text + at, ordinals[i], 2) == 0) skip = 2;
        }
        // "A and C" is "A, C", and "(A)" is A.
        static const char joint[] = " and ";
        if (at + 5 < bytes && memcmp(text + at, joint, 5) == 0) {
            bool comma = out->count > start && out->data[out->count - 1] == ',';
            if (!comma) status = mt_byte_list_append_text(out, ",");
            skip = 5;
        }
        if (text[at] == '(' && at + 2 < bytes && isalpha((unsigned char)text[at + 1]) &&
            text[at + 2] == ')' && (at == 0 || strchr(" ,{", text[at - 1]) != NULL)) {
            uint8_t letter = (uint8_t)tolower((unsigned char)text[at + 1]);
            status = mt_byte_list_append(out, &letter, 1);
            skip = 3;
        }
        // "a.m." is am.
        if (text[at] == '.' && at > 0 && isalpha((unsigned char)text[at - 1]) &&
            (at + 1 == bytes || isalpha((unsigned char)text[at + 1])))
            skip = 1;
        // "1 2" is not 12.
        if (text[at] == ' ' && digits_before(text, at) > 0 && digits_from(text, bytes, at + 1) > 0) skip = 0;
        if (skip == 0) {
            uint8_t byte = (uint8_t)tolower((unsigned char)text[at]);
            status = mt_byte_list_append(out, &byte, 1);
            skip = 1;
        }
        at += skip;
    }
    if (status == MT_OK && out->count > start) trim_ends(out, start);
    return status == MT_OK ? replace_phrase(out, start) : status;
}
