/* The table of forms, and choices and texts that stand in them. Numbers: statement_number.c. */
#include "eval/answers/statement.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

#include "eval/answers/extract.h"
#include "formats/text/utf8.h"

// ------------------------------------------------------------------ plain characters

enum mt_status mt_statement_plain(struct mt_text text, struct mt_byte_list *plain)
{
    static const struct {
        uint32_t first, last;
        const char *plain;
    } table[] = {
        {0xA0, 0xA0, " "},     {0xD7, 0xD7, "*"},     {0xF7, 0xF7, "/"},     {0x2000, 0x200A, " "},
        {0x200B, 0x200D, ""},  {0x2010, 0x2015, "-"}, {0x2018, 0x201B, "'"}, {0x201C, 0x201F, "\""},
        {0x2026, 0x2026, "."}, {0x202F, 0x202F, " "}, {0x2044, 0x2044, "/"}, {0x205F, 0x205F, " "},
        {0x2212, 0x2212, "-"}, {0x3000, 0x3000, " "}, {0x3001, 0x3001, ","}, {0x3002, 0x3002, "."},
        {0x300C, 0x300F, "'"}, {0x3010, 0x3010, "["}, {0x3011, 0x3011, "]"}, {0xFEFF, 0xFEFF, ""},
        {0xFE63, 0xFE63, "-"}, {0xFFE5, 0xFFE5, "$"},
    };
    enum mt_status status = mt_byte_list_reserve(plain, plain->count + text.bytes);
    for (size_t at = 0, bytes = 1; at < text.bytes && status == MT_OK; at += bytes) {
        uint32_t character = mt_utf8_decode((const uint8_t *)text.text + at, &bytes);
        const char *other = NULL;
        for (size_t i = 0; character >= 0xA0 && i < sizeof table / sizeof table[0] && other == NULL; i++) {
            if (character >= table[i].first && character <= table[i].last) other = table[i].plain;
        }
        char ascii = (char)(character - 0xFF01 + '!'); // of a full-width character
        bool wide = character >= 0xFF01 && character <= 0xFF5E;
        if (other != NULL) {
            status = mt_byte_list_append_text(plain, other);
        } else {
            status = mt_byte_list_append(plain, wide ? &ascii : text.text + at, wide ? 1 : bytes);
        }
    }
    return status;
}

// ------------------------------------------------------------------ forms

/* Where a value stands in a form. What a repeat has taken (++) it does not give back: nothing else could take
 * it, and trying takes a time quadratic in a run of spaces. */
#define CLOSING "[)\\]}*_\"'`$]*+"
#define OPENING                                                                                              \
    "(?:[\\s*_$(\\[{\"'`<>]++|\\\\(?:boxed|fbox|text|textbf|mathrm|mathbf|bf|rm)[ ]?+\\{|\\\\[(\\[]|"        \
    "(?i:not [^\\s,.]{1,16},?[ ](?:but|rather|instead)|option|choice|letter|answer|either|both|indeed|then|" \
    "thus|clearly|therefore|simply|definitely|actually|probably|most|likely|still|now|just|only|hence|"      \
    "certainly|obviously|again|the|that|it is|it's|number|statement)[,:]?[ ]){0,12}"

/* How an answer is announced: a noun, perhaps what it answers, and a verb or a colon. Not as a condition, and
 * not as a wrong one. */
#define NOUN                                                                                                 \
    "\\b(?<!if the )(?<!whether the )(?<!why the )(?<!wrong )(?<!incorrect )(?<!possible )(?<!first )"       \
    "(?<!initial )(?:answers?|choice|option|conclusion|solution|response|verdict|selection|result|pick)\\b"
#define VERB                                                                                                 \
    "(?:(?:'s|(?:is|are|would be|must be|should be|has to be|will be|seems to be|appears to be|remains|"     \
    "becomes|therefore is)\\b)[:,]?+|[:=]|-+>?)"
#define ANNOUNCED                                                                                            \
    "(?i:" NOUN "(?:[ \\t]++(?:to|for|of|here|in)\\b[^.:\\n]{0,80}?)?[ \\t*_\"'`)\\]]*+(?:" VERB             \
    "|[*_: \\t]*+\\n))"
#define ANNOUNCED_ZH                                                                                         \
    "(?:答案|正确选项)"                                                                                \
    "[\\]\\s]*+(?:应该|应|就)?+"                                                                         \
    "(?:是|为|选|:|\\s)*+"
#define CORRECTED                                                                                            \
    "(?i:\\b(?:it|that|this)[ ](?:should|must|has to|ought to)[ ](?:actually |really |instead )?be)"
#define CHOSEN                                                                                               \
    "(?i:\\b(?:(?<!not )(?:choose|pick|select|choosing)|(?:go|going|went) with|opt for|settle (?:on|for)))"
/* 选 or 选择, neither 选项 nor behind 不 */
#define CHOSEN_ZH "(?<!不)(?<!不能)(?<!不应)选(?:择)?+"
#define IS_THE_ANSWER                                                                                        \
    CLOSING                                                                                                  \
    "[ ](?i:(?:is|would be|must be|should be|remains)[ ](?:clearly |therefore |thus |indeed |"               \
    "definitely |probably |likely )?(?:the|my|our)[ ](?:single |only |most |one )?(?:correct |right |"       \
    "best |final |proper |appropriate |accurate |likely |suitable "                                          \
    ")*(?:answer|choice|option|one|pick)\\b)"
#define IS_RIGHT                                                                                             \
    CLOSING                                                                                                  \
    "(?i:[ ](?:is|are|would be|must be|seems|looks)[ ](?:the |clearly |therefore |thus |definitely |"        \
    "also |indeed |both )?(?:correct|right|best|true)\\b)"
#define IS_RIGHT_ZH CLOSING "\\s*+(?:选?项)?+(?:是|为)?+(?:正确|对)"
#define SO          "(?i:\\b(?:therefore|thus|hence|so|consequently|finally|overall|in conclusion)\\b[,:]?+)"
#define IT_IS                                                                                                \
    "(?i:\\b(?:it|this|that|which|there)(?:'s|[ ](?:is|must be|would be|matches|corresponds to|points to|"   \
    "leaves))(?:[ ](?:us with|only))?\\b)"
#define ENDS         CLOSING "(?=\\s*+(?:[.,;:!?]|\\z|\\n|-[ ]|\\())"
#define ALONE_BEFORE "(?<![\\w'/\\\\°.-])"
#define REJECTED_BEFORE                                                                                      \
    "(?<!not )(?<!not \\()(?<!than )(?<!eliminate )(?<!exclude )(?<!reject )(?<!out )(?<!neither )(?<!nor )" \
    "(?<!except )(?<!instead of )(?<!unlike )(?<!not option )(?<!neither option )(?<!out option )"
/* A mention that something is said of is no choice, unless that is praise. */
#define NOTHING_SAID                                                                                         \
    "(?!" CLOSING                                                                                            \
    "[.:]?+,?+\\s++(?i:is|are|was|can|cannot|can't|isn't|does|doesn't|do|fails?|would|could|might|"          \
    "has|says?|states?|implies|describes|suggests|refers|seems|looks|contradicts|violates)\\b(?!\\s++(?i:"   \
    "the )?"                                                                                                 \
    "(?i:best|correct|right|most|consistent)))(?!" CLOSING "\\s*+(?:选?项)?+(?:不|错))"

#define L (1u << MT_STATE_LETTER)
#define W (1u << MT_STATE_WORD)
#define T (1u << MT_STATE_TEXT)

/* A form: the value stands between two patterns. `VALUE` in the place of a text of its own is that of the
 * kind; letters have three: any (in lower case, too, as what follows tells it from a word), capitals that may
 * be several, and one capital. */
enum value { ANY, CAPITALS, CAPITAL };

static const struct form {
    int rank;
    unsigned kinds;
    enum value value; // of letters
    const char *before, *after;
} forms[] = {
    {0, L | W | T, ANY, ANNOUNCED OPENING, ""},
    {0, L | W | T, ANY, ANNOUNCED_ZH OPENING, ""},
    {0, L | W | T, ANY, CORRECTED OPENING, ""},
    {0, L | W, ANY, "\\\\(?:boxed|fbox)[ ]?+\\{" OPENING, ""},
    {0, L, ANY, CHOSEN OPENING, ""},
    {0, L, ANY, CHOSEN_ZH OPENING, ""},
    {0, L, CAPITALS, ALONE_BEFORE, IS_THE_ANSWER},
    {0, L, CAPITALS,
     "(?i:\\banswer)[ ]"
     "[(\\[*\"]*+",
     NOTHING_SAID},
    {0, L, CAPITAL, ANNOUNCED "(?:(?!\\b(?i:not|wrong|incorrect)\\b|n't|\\b[B-HJ-Z]\\b)[^.\\n(]){0,80}?\\(",
     "\\)"},
    {0, L, CAPITAL,
     ANNOUNCED
     "(?:(?!\\b(?i:not|wrong|incorrect)\\b|n't|\\b[B-HJ-Z]\\b)[^.\\n(]){0,80}?(?i:option|choice)[ ]",
     ""},
    {0, L, ANY, "\\A[\\s*_(\\[\"'`]*+", "[)\\]*_\"'`.:]*+\\s*+\\z"},
    {1, L, CAPITALS, ALONE_BEFORE, IS_RIGHT},
    {1, L, CAPITALS, "", IS_RIGHT_ZH},
    {1, L, CAPITALS, SO OPENING, ENDS},
    {1, L, CAPITALS, IT_IS OPENING, ENDS},
    {1, W, ANY,
     "(?i:\\b(?:evaluates?|simplifies|reduces|equals?|results in|returns?|gives?|yields?|becomes)[ ](?:down "
     ")?"
     "(?:to |as )?)" OPENING,
     ""},
    {1, W, ANY,
     "(?i:\\b(?:argument|statement|inference|reasoning|syllogism|expression|logic|sentence)[ ](?:above "
     "|itself )?"
     "(?:is|would be)[ ](?:[a-z]+ly |considered |thus )*)" OPENING,
     ""},
    {1, W, ANY, SO OPENING, ""},
    {2, L, CAPITALS, "(?m)^[^A-Za-z0-9\\n]*+", "[^A-Za-z0-9\\n]*+$"},
    {2, W, ANY, "(?m)^[^A-Za-z0-9\\n]*+", "[^A-Za-z0-9\\n]*+$"},
    {3, L, CAPITAL, "(?m)^[^\\w\\n]*+", "(?:[)\\]]|[.:](?!\\w))[)*_]*+[ \\t]++(?=\\S)"},
    {3, L, CAPITAL, "\\A[^\\w]*+", "[)*_]*+(?:,|[ ]-|[ ](?:because|since|as))[ ]"},
    {3, W, ANY, "\\A[^A-Za-z0-9]*+",
     "(?=\\s*+(?:[.,;:!*-]|\\n|\\z)|[ ](?i:it|the|this|that|they|he|she|because|since|we|you|there)\\b)"},
    {4, L, CAPITALS, REJECTED_BEFORE "(?i:\\b(?:option|choice|candidate|letter))[ ][(\\[*\"]*+",
     NOTHING_SAID},
    {4, L, CAPITALS, REJECTED_BEFORE "(?:(?<![\\w)])\\(|\\*\\*\\(?|(?<!\\w)[\"'`])",
     "[)\\].:*\"'`]" NOTHING_SAID},
    {4, L, CAPITALS,
     "(?<=[ \\n*])" REJECTED_BEFORE
     "(?<! is )(?<![Vv]itamin )(?<![Tt]ype )(?<![Pp]oint )(?<![Hh]epatitis )(?<![Gg]rade )(?<![Pp]lan )",
     "\\)|[.!]?+[*\"]*+\\s*+(?:\\z|\\n)"},
    {4, W, ANY, "(?<![A-Za-z0-9_])", ""},
};

#define LETTER_END "(?![\\w^]|-\\w|'[a-z]|\\.[A-Za-z])"
/* Behind A and I, which may be words. */
#define NO_WORD                                                                                              \
    "(?!\\s(?!(?:because|since|as|and|or|is|are|but|with|for|due|which|given|by|in|on|at|if|not|rather|"     \
    "would|"                                                                                                 \
    "must|should|remains|over|only)\\b)[a-z])(?!\\sam\\b)"
#define ONE   "(?:[B-HJ-Z]|[AI]" NO_WORD ")" LETTER_END
#define LOWER "[a-z](?=[)\\].,;:!?*_\"'`}$]|\\s*+\\z|[ \\t]*+\\n|\\s(?:because|since)\\b)" LETTER_END
#define MORE                                                                                                  \
    "(?:" CLOSING "\\s*+(?:,\\s*+(?:and\\b|or\\b)?+|/|&|;|\\+|and/or\\b|and\\b|or\\b|nor\\b|和|或|与|及)" \
    "\\s*+[(\\[{*_\"'`$]*+(?i:option |choice |answer )?[(\\[*_\"]*+[A-Za-z](?!\\w)(?=" CLOSING                \
    "\\s*+(?:\\z|[.,;:!?]|and\\b|or\\b|are\\b|were\\b|because\\b|both\\b|和|或|都)))"
#define NEGATED                                                                                              \
    "(?:(?i:[a-z]{2,6}n't|not|cannot|never|hardly)\\b(?: "                                                   \
    "(?!but\\b|and\\b|only\\b|just\\b|or\\b)[a-z]++){0,3}? )?"

/* Appends "(?i:yes|no)", what is special in a pattern escaped. */
static enum mt_status append_words(struct mt_byte_list *out, const char *const *words)
{
    enum mt_status status = mt_byte_list_append_text(out, "(?i:");
    for (size_t i = 0; words[i] != NULL && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(out, "|");
        for (const char *at = words[i]; *at != '\0' && status == MT_OK; at++) {
            bool plain = isalnum((unsigned char)*at) || (unsigned char)*at >= 128;
            if (!plain) status = mt_byte_list_append_text(out, "\\");
            if (status == MT_OK) status = mt_byte_list_append(out, at, 1);
        }
    }
    return status == MT_OK ? mt_byte_list_append_text(out, ")(?![A-Za-z0-9_])") : status;
}

static enum mt_status append_value(struct mt_byte_list *out, enum mt_statement_kind kind, enum value value,
                                   const char *const *words)
{
    static const char *const letters[] = {[ANY] = "((?:" ONE "|" LOWER ")" MORE "*+)",
                                          [CAPITALS] = "(" ONE MORE "*+)",
                                          [CAPITAL] = "(" ONE ")"};
    if (kind == MT_STATE_LETTER) return mt_byte_list_append_text(out, letters[value]);
    // What the rest of a line holds is found out later: another statement may stand in it.
    if (kind == MT_STATE_TEXT) return mt_byte_list_append_text(out, "(?=([^\\n]*+))");
    enum mt_status status = mt_byte_list_append_text(out, "(" NEGATED);
    if (status == MT_OK) status = append_words(out, words);
    if (status == MT_OK) status = mt_byte_list_append_text(out, "(?:\\s*+(?:or|and|nor|/)\\s*+");
    if (status == MT_OK) status = append_words(out, words);
    return status == MT_OK ? mt_byte_list_append_text(out, ")*+)") : status;
}

#define FORMS (sizeof forms / sizeof forms[0])
#define RANKS 5

enum mt_status mt_statement_compile(struct mt_context *ctx, enum mt_statement_kind kind,
                                    const char *const *words, struct mt_pattern *patterns[MT_STATEMENT_FORMS])
{
    static_assert(FORMS <= MT_STATEMENT_FORMS, "a pattern for each form");
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < FORMS && status == MT_OK; i++) {
        struct mt_byte_list text = {.ctx = ctx};
        if ((forms[i].kinds >> kind & 1u) == 0) continue;
        status = mt_byte_list_append_text(&text, forms[i].before);
        if (status == MT_OK) status = append_value(&text, kind, forms[i].value, words);
        if (status == MT_OK) status = mt_byte_list_append_text(&text, "(?:");
        if (status == MT_OK) status = mt_byte_list_append_text(&text, forms[i].after);
        if (status == MT_OK) status = mt_byte_list_append(&text, ")", sizeof ")");
        if (status == MT_OK) status = mt_pattern_create(ctx, (const char *)text.data, &patterns[i]);
        mt_byte_list_free(&text);
    }
    return status;
}

/* The next match behind *from, which moves behind its value. */
static bool next(struct mt_pattern *pattern, struct mt_text text, size_t *from, struct mt_text *value)
{
    struct mt_pattern_match match;
    if (*from >= text.bytes || !mt_pattern_find(pattern, text.text, text.bytes, *from, &match)) return false;
    *value = (struct mt_text){.text = text.text + match.start, .bytes = match.end - match.start};
    *from = match.to > *from ? match.to : *from + 1;
    while (*from < text.bytes && ((unsigned char)text.text[*from] & 0xC0u) == 0x80u) ++*from;
    return true;
}

/* What a value says: the place of a letter or word, SEVERAL for more than one, NOTHING for none. */
#define NOTHING (-1)
#define SEVERAL (-2)

/* How values are read. */
struct reading {
    int (*of)(struct mt_text value, const void *self);
    const void *self;
    int agree_from; // the rank from which on statements must agree
};

/* Of the best rank that says something: what its last statement says. */
static int read_statements(struct mt_pattern *const *patterns, struct mt_text plain,
                           const struct reading *reading)
{
    int found = NOTHING;
    for (int rank = 0; rank < RANKS && found == NOTHING; rank++) {
        const char *last = NULL; // where the one found stands
        for (size_t i = 0; i < FORMS; i++) {
            struct mt_text value;
            size_t from = 0;
            if (forms[i].rank != rank || patterns[i] == NULL) continue;
            while (next(patterns[i], plain, &from, &value)) {
                int here = reading->of(value, reading->self);
                if (here == NOTHING || (here == SEVERAL && rank + 1 == RANKS)) continue;
                bool differs = rank >= reading->agree_from && last != NULL && here != found;
                if (last == NULL || value.text >= last) {
                    found = here;
                    last = value.text;
                }
                if (differs) found = SEVERAL;
            }
        }
    }
    return found;
}

// ------------------------------------------------------------------ letters

/* The letter of a value, 0 for A. `self`: how many there are. */
static int letter_of(struct mt_text value, const void *self)
{
    int found = NOTHING;
    for (size_t i = 0; i < value.bytes; i++) {
        bool alone = isalpha((unsigned char)value.text[i]) &&
                     (i == 0 || !isalpha((unsigned char)value.text[i - 1])) &&
                     (i + 1 == value.bytes || !isalpha((unsigned char)value.text[i + 1]));
        if (!alone) continue;
        int letter = toupper((unsigned char)value.text[i]) - 'A';
        if (found >= 0 && letter != found) return SEVERAL;
        found = letter;
    }
    return found < *(const int *)self ? found : NOTHING;
}

bool mt_statement_letter(struct mt_pattern *const *patterns, struct mt_text plain, int choices,
                         struct mt_text *letter)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (choices <= 0 || choices > 26) choices = 26;
    const struct reading reading = {.of = letter_of, .self = &choices, .agree_from = 3};
    int found = read_statements(patterns, plain, &reading);
    if (found >= 0) *letter = (struct mt_text){.text = alphabet + found, .bytes = 1};
    return found >= 0;
}

// ------------------------------------------------------------------ words

static bool is_word_byte(struct mt_text text, size_t at)
{
    return at < text.bytes && (isalnum((unsigned char)text.text[at]) || text.text[at] == '_');
}

/* The place of the word a value holds. Before the first one only "not" can stand. `self`: the words. */
static int word_of(struct mt_text value, const void *self)
{
    const char *const *words = self;
    int found = NOTHING;
    int count = 0;
    bool negated = true;
    for (; words[count] != NULL; count++) {
        size_t length = strlen(words[count]);
        for (size_t i = 0; i + length <= value.bytes; i++) {
            if (strncasecmp(value.text + i, words[count], length) != 0) continue;
            if ((i > 0 && is_word_byte(value, i - 1)) || is_word_byte(value, i + length)) continue;
            if (found >= 0 && found != count) return SEVERAL;
            found = count;
            negated = negated && i > 0;
        }
    }
    return negated && count == 2 && found >= 0 ? 1 - found : found;
}

bool mt_statement_word(struct mt_pattern *const *patterns, const char *const *words, struct mt_text plain,
                       struct mt_text *word)
{
    const struct reading reading = {.of = word_of, .self = words, .agree_from = RANKS};
    int found = read_statements(patterns, plain, &reading);
    if (found >= 0) *word = mt_text_of(words[found]);
    return found >= 0;
}

// ------------------------------------------------------------------ texts

/* Where the sentence that begins a text ends: at a full stop, or at words that give reasons. */
static size_t sentence_end(struct mt_text text)
{
    static const char *const reasons[] = {" because", " since ", ", which ", ", so ", ", as ", NULL};
    size_t most = mt_text_until(text, reasons).bytes;
    for (size_t at = 0; at < most; at++) {
        bool stop = text.text[at] == '.' || text.text[at] == '!' || text.text[at] == '?';
        if (stop && (at + 1 == text.bytes || isspace((unsigned char)text.text[at + 1]))) return at;
    }
    return most;
}

/* Without markup, quotes, white space and full stops at the ends. A bracket stays: it may be the answer's. */
static struct mt_text bare(struct mt_text text)
{
    static const char dropped[] = " \t\r*_`\"'$.:";
    for (size_t before = text.bytes + 1; text.bytes < before;) {
        before = text.bytes;
        while (text.bytes > 0 && strchr(dropped, text.text[0]) != NULL) text = mt_text_from(text, 1);
        while (text.bytes > 0 && strchr(dropped, text.text[text.bytes - 1]) != NULL) text.bytes--;
        if (mt_text_has(text, 0, "\\(") || mt_text_has(text, 0, "\\[")) text = mt_text_from(text, 2);
        bool closes = text.bytes > 1 &&
                      (mt_text_has(text, text.bytes - 2, "\\)") || mt_text_has(text, text.bytes - 2, "\\]"));
        if (closes) text.bytes -= 2;
    }
    return text;
}

bool mt_statement_text(struct mt_pattern *const *patterns, struct mt_text plain, struct mt_text *text)
{
    struct mt_text value;
    size_t from = 0;
    bool found = false;
    for (size_t i = 0; i < FORMS; from = 0, i++) {
        while (patterns[i] != NULL && next(patterns[i], plain, &from, &value)) {
            value.bytes = sentence_end(value);
            value = bare(value);
            if (value.bytes == 0 || (found && value.text < text->text)) continue;
            *text = value;
            found = true;
        }
    }
    // A box that stands behind it, or within it, is the answer.
    if (mt_extract_boxed(plain, &value) && (!found || value.text >= text->text)) {
        *text = value;
        found = true;
    }
    return found;
}
