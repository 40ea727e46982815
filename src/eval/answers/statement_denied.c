/* What the words left of a letter or word make of it: "I don't think it is B", "far from valid". */
#include <ctype.h>

#include "eval/answers/statement.h"

// ------------------------------------------------------------------ emphasis

/* The end of words in emphasis that begins at `at`, before the marks that close it; 0: none does. A letter
 * alone may be an option's, and its marks a sign that it is chosen. */
static size_t emphasis_end(struct mt_text text, size_t at, size_t marks)
{
    size_t begin = at + marks;
    size_t length = 0; // of this word
    size_t end = begin;
    for (; end < text.bytes && end - begin < 60 && text.text[end] != text.text[at]; end++) {
        char byte = text.text[end];
        if (!isalpha((unsigned char)byte) && strchr(" '-", byte) == NULL) return 0;
        if (byte == ' ' && length < 2) return 0;
        length = byte == ' ' ? 0 : length + 1;
    }
    size_t closing = end;
    while (closing < text.bytes && text.text[closing] == text.text[at]) closing++;
    bool follows = closing < text.bytes && isalnum((unsigned char)text.text[closing]);
    return length > 1 && closing - end == marks && !follows ? end : 0;
}

/* Appends the text without marks of emphasis around words: "*not* valid". */
static enum mt_status append_unmarked(struct mt_text text, struct mt_byte_list *out)
{
    enum mt_status status = mt_byte_list_reserve(out, text.bytes);
    size_t close = 0; // where marks that are left out stand
    for (size_t at = 0; at < text.bytes && status == MT_OK;) {
        size_t marks = 0;
        while ((text.text[at] == '*' || text.text[at] == '_') && at + marks < text.bytes &&
               text.text[at + marks] == text.text[at])
            marks++;
        bool behind = at > 0 && isalnum((unsigned char)text.text[at - 1]);
        bool closes = marks > 0 && close > 0 && at == close;
        size_t end = marks > 0 && marks < 4 && !closes && !behind ? emphasis_end(text, at, marks) : 0;
        if (end > 0) close = end;
        if (end == 0 && !closes) status = mt_byte_list_append(out, text.text + at, marks > 0 ? marks : 1);
        at += marks > 0 ? marks : 1;
    }
    return status;
}

// ------------------------------------------------------------------ denials

/* What may stand between a denial and its letter. */
#define MARKS "[ (\\[*_\"'`$]*+"
#define NOUNS                                                                                                \
    "(?:(?:options?|choices?|answers?|statement|letter|the|la|le|die|both|either|even|be|being|also|as)\\b"  \
    "[ (\\[*_\"'`$]*+)*+"
#define LISTED                                                                                               \
    "(?:(?:(?:[A-Z][)\\]*_]*+,[ ][(\\[*_]*+)++[A-Z][)\\]*_]*+,?|[A-Z][)\\]*_]*+)[ ](?:and|or)[ ]" MARKS      \
        NOUNS ")?"
#define NOT "(?:n't|\\b(?:not|cannot|never|hardly|nobody|no one))\\b"
/* The rest of a clause. */
#define CLAUSE                                                                                               \
    "(?:(?!\\b(?:but|so|because|since|hence|thus|therefore|however|and|if|which|who|other|anything|"         \
    "instead|rather|unless|than|still)\\b|[ ]-|[-=]>|→|⇒)[^.,;:!?=\\n])*+"
/* Who says so denies it: "We cannot conclude that", "It is false that", "I doubt that". */
#define DENIED_BY_WORDS                                                                                      \
    "(?:" NOT                                                                                                \
    "(?:[ ][a-z]++){0,2}?[ ](?:think|believe|say|saying|conclude|claim|agree|accept|suppose|argue|"          \
    "assert|infer|convinced)\\b|\\b(?:false|untrue|incorrect|wrong|mistake|doubtful|unlikely|"               \
    "(?:not|(?<=n't)) (?:true|the case|correct))[ ](?:that|to "                                              \
    "(?:say|claim|conclude|call|think|assume|choose|pick|select))\\b|(?<!no )(?<!little )(?<!any )"          \
    "(?<!without )(?<!without a )(?<!beyond )\\bdoubt\\b|\\bno way\\b|"                                      \
    "(\\b(?:whether|(?:see|check|decide|determine|know|tell) if)\\b))" CLAUSE
#define DENIED_LETTER                                                                                        \
    "\\b(?:not|than|unlike) (?:an? |the )?+[a-z]++ \\((?:option |choice )?+|"                                \
    "(?:" NOT "(?: (?:choose|pick|select|go with|say|accept))?|\\b(?:pas|nicht|no es|than|unlike|neither|"   \
    "nor|instead of|anything but|unlikely to|far from|avoid|(?:eliminat|exclud|disregard|discard|dismiss|"   \
    "reject)(?:e|ed|es|s|ing)?|(?:rul(?:e|ed|es|ing)|cross(?:ed|es|ing)?) (?:out|off)|(?<!all )(?<!"         \
    "everything )(?<!options )(?<!them )(?-i:except)))[ ]" MARKS NOUNS LISTED
/* "While B looks right", "If it were constant, it would be B", "Students often pick B" */
#define NO_STATEMENT                                                                                         \
    "\\b(?:(?:while|although|though|whereas)[ ]|students (?:[a-z]++ )?(?:pick|choose|select|say|answer)[ "   \
    "])" MARKS NOUNS                                                                                         \
    "|\\bif\\b[^.;\\n]{0,80}?\\b(?:were|had(?! to))\\b[^.;\\n]{0,80}?\\b(?:would|could|might)\\b"            \
    "(?:(?!\\b(?:but|so|however|thus|hence|therefore)\\b)[^.;\\n])*+"
#define CROSSED   "(?m:^)[^\\w\\n]*?(?:❌|✗|✘|☒)\\x{FE0F}?+" MARKS
#define DENIED_ZH "(?:不是|并非|而非|排除|不选|不能选|不应选|不可能是|不会是)(?:选项|答案)?+" MARKS
/* Why something is so has denials of its own. */
#define REASON "\\b(?:since|because)\\b[^.,;:!?\\n]*+(*SKIP)(*F)"
#define DENIED_WORD                                                                                          \
    "\\b(?:(?:by no means|in no way|far from|no longer|(?:is|are|was) anything but|neither(?: [a-z]++ "      \
    "nor)?)"                                                                                                 \
    "(?: (?:being|an?|[a-z]+ly))*+[ ]" MARKS ")"

const char *mt_statement_denial(enum mt_statement_kind kind)
{
    if (kind == MT_STATE_WORD) return "(?i)" REASON "|" DENIED_BY_WORDS "|" DENIED_WORD;
    return "(?i)" DENIED_BY_WORDS "|" DENIED_LETTER "|" NO_STATEMENT "|" CROSSED "|" DENIED_ZH;
}

enum mt_status mt_clauses_read(struct mt_pattern *const *patterns, struct mt_text plain,
                               struct mt_clauses *clauses)
{
    struct mt_pattern_match match;
    enum mt_status status = append_unmarked(plain, &clauses->text);
    struct mt_text text = mt_text_in(&clauses->text);
    for (size_t at = 0; at <= text.bytes && status == MT_OK; at++)
        status = mt_byte_list_append(&clauses->denials, "", 1); // none, and one behind the text
    for (size_t from = 0; status == MT_OK && from < text.bytes &&
                          mt_pattern_find(patterns[MT_STATEMENT_DENIAL], text.text, text.bytes, from, &match);
         from = match.to) {
        // Only "whether" is a group.
        uint8_t found = match.end < match.to ? MT_DENIAL_OPEN : MT_DENIAL_FOUND;
        memset(clauses->denials.data + match.from + 1, found, match.to - match.from);
    }
    return status;
}

void mt_clauses_free(struct mt_clauses *clauses)
{
    mt_byte_list_free(&clauses->text);
    mt_byte_list_free(&clauses->denials);
}
