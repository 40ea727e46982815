/* The table of forms, and choices and texts that stand in them. Numbers: statement_number.c; what is read at
 * all: statement_plain.c. */
#include "eval/answers/statement.h"

#include <assert.h>
#include <ctype.h>
#include <strings.h>

#include "eval/answers/extract.h"

// ------------------------------------------------------------------ forms

/* Where a value stands in a form. What a repeat has taken (++) it does not give back: nothing else could take
 * it, and trying takes a time quadratic in a run of spaces. */
#define CLOSING "[)\\]}*_\"'`$]*+"
#define OPENING                                                                                              \
    "(?:[\\s*_$(\\[{}\"'`<>]++|\\\\(?:boxed|fbox|text|textbf|mathrm|mathbf|bf|rm)[ ]?+\\{|\\\\[(\\[ ]|"      \
    "(?i:not [^\\s,.]{1,16},?[ "                                                                             \
    "](?:but|rather|instead)|option|choice|letter|lettre|category|answer|either|both|indeed|then|"           \
    "thus|clearly|therefore|simply|definitely|actually|probably|most|likely|still|now|just|only|hence|"      \
    "certainly|obviously|again|donc|also|the|la|le|that|it is|it's|number|statement)[,:]?[ ]){0,12}"

/* How an answer is announced: a noun, perhaps what it answers, and a verb or a colon. Not as a condition, and
 * not as a wrong one. */
#define NO_CONDITION                                                                                         \
    "\\b(?<!if the )(?<!whether the )(?<!why the )(?<!wrong )(?<!incorrect )(?<!possible )(?<!first )"       \
    "(?<!initial )(?<!each )(?<!every )(?<!second )(?<!seems the )(?<!appears the )(?<!might think the "     \
    "|might say the |would think the |may think the )"
#define ANSWER "ans(?:wers?)?|antwort|lösung|(?:respuesta|resposta|risposta|réponse)(?: corr[a-z]+)?"
#define CHOICE                                                                                               \
    "choice|option|letter|conclusion|solution|response|verdict|selection|result|pick|guess|(?:correct|"      \
    "right|best) "                                                                                           \
    "one"
#define VERB                                                                                                 \
    "(?:(?:'s|\\b(?:is|are|would be|must be|should be|has to be|will be|seems to be|appears to be|remains|"  \
    "becomes|therefore is|ist|lautet|est?)\\b)[:,]?+|[:=]|-+>?)"
#define ANNOUNCED_AS(noun)                                                                                   \
    "(?i:\\bif\\b[^.\\n]{0,100}?\\banswer would(?: have)?+ be(*SKIP)(*FAIL)|" NO_CONDITION "(?:" noun        \
    ")\\b(?:[ \\t]++(?:to|for|of|here|in|among|that|which)\\b[^.:\\n]{0,80}?|,[ ][^,.:\\n]{1,40},)?"         \
    "[ \\t*_\"'`)\\],]*+(?:" VERB "|[*_: \\t]*+\\n))"
#define ANNOUNCED ANNOUNCED_AS(ANSWER "|" CHOICE)
#define ANNOUNCED_ZH                                                                                         \
    "(?:答案|正确选项|正解)"                                                                         \
    "[\\]\\s]*+(?:应该|应|就)?+"                                                                         \
    "(?:是|为|选|は|:|\\s)*+"
#define CORRECTED                                                                                            \
    "(?i:\\b(?:chang(?:e|ing)|revis(?:e|ing)|switch(?:ing)?|correct(?:ing)?) (?:my|the|this|it)(?: "         \
    "answer)? to|\\b(?:it|that|this)[ ](?:should|must|has to|ought to)[ ](?:actually |really |instead )?be)"
#define CHOSEN                                                                                               \
    "(?i:(?:\\b(?<!students |people |others |many |some |mistake is |tempted |tempting )"                    \
    "(?:I|we|you|one|would|will|must|should|to|so|thus|therefore|hence|'d|'ll),?[ ](?:[a-z]+ly )?|"          \
    "(?<![^.!?\\n])[ \\t]*+)(?:choose|pick|select|prefer|recommend)|\\b(?:go|going|went) "                   \
    "with|\\bopt for|\\bsettle "                                                                             \
    "(?:on|for)|"                                                                                            \
    "(?:'m|am|are) (?:choosing|picking|selecting)|\\b(?<!some )(?<!many )(?<!other "                         \
    ")(?:I|we|people|one)(?:'d| would| will| must) "                                                         \
    "(?:say|answer))\\b"
#define TAGGED                                                                                               \
    "(?i:<(?:final_?)?(?:answer|choice)?>|\\bans\\.|\"(?:final_?)?(?:answer|choice)\"[ ]?:|"                 \
    "\\bfinal(?: choice| decision| verdict| result| total| count| amount| value| number)?[*_ ]*+:)"
/* 选 or 选择, neither 选项 nor behind 不 */
#define CHOSEN_ZH "(?<!不)(?<!不能)(?<!不应)选(?:择)?+"
/* Not as a condition: "B would be right at a higher pressure". */
#define WOULD_BE "would be(?![^.\\n]{0,40} (?i:if|under|at|when|for|had|were)\\b)"
#define IS_THE_ANSWER                                                                                        \
    CLOSING                                                                                                  \
    "[ ](?i:(?:remains and )?(?:is|" WOULD_BE "|must be|should be|remains)[ ](?:clearly |therefore |thus |"  \
    "indeed |definitely |probably |likely )?(?:the|my|our)[ ](?:single |only |most |one )?(?:correct "       \
    "|right |"                                                                                               \
    "best |final |proper |appropriate |accurate |likely |suitable "                                          \
    ")*(?:(?:answer|choice|option|pick)\\b|"                                                                 \
    "one\\b(?=\\s*+(?:[.,;!]|\\z)))|[ ]it is(?=[.,;! ]*+(?:\\n|\\z)))"
#define IS_RIGHT                                                                                             \
    CLOSING                                                                                                  \
    "(?i:[ ](?:is|are|must be|" WOULD_BE                                                                     \
    "|seems|looks|(?:appears|seems) to be)[ ](?:the |clearly |therefore |"                                   \
    "thus |definitely |also |indeed |both |likely |probably |most likely )*+"                                \
    "(?:correct|right|best|better|sarcastic|true|what|most [a-z]++|more (?:plausible|likely|accurate|"       \
    "reasonable|appropriate|convincing|suitable)|only (?:one|option|choice|possible|"                        \
    "plausible|viable|consistent|valid)(?! (?:in[cv]|not|wrong|false)))\\b|[ ](?:makes more sense|fits "     \
    "better)\\b|[ ]it "                                                                                      \
    "is\\b|[ ]best "                                                                                         \
    "[a-z]+s\\b|[ ][a-z]+s (?:[a-z]+ ){0,3}?best\\b|"                                                        \
    "[ ](?:as )?the (?:correct|right|best|answer)\\b|[ ]is a better\\b|[ ]is(?=\\s*+(?:[.;!]|\\z))|"         \
    "[ ](?:is|must be|has to be)[ ]it\\b|[ "                                                                 \
    "](?:(?:ist|es|est|è)[ ])?(?:(?:die|la)[ ])?"                                                           \
    "(?:richtige?|korrekt|correct[ae]|bonne)\\b|[ ]is the "                                                  \
    "(?:sarcastic|ironic|humorous|correct|right|matching|appropriate) (?:one|statement|sentence)\\b)"
/* Marked in a list of options. */
#define TICKED                                                                                               \
    "[)\\].:]*+[^\\n✓✔✅←✗✘❌☒<]{0,60}+(?:✓|✔|✅|←|<-)|"                                \
    "[)\\].*_\"]*+(?:[ ]?[:?|-][\\s*_\"]*+(?i:true|correct|right|yes)|[ ](?i:correct|yes)|"                  \
    "(?<=[)\\].*_\"])[ ](?i:right))\\b"                                                                      \
    "(?=[*_\" ]*+(?:[.,;:!|\\n}(-]|\\z))|[)\\].:][^\\n-]{1,60}?(?:-+>?|→|⇒|=>)[ "                        \
    "](?i:true|correct|right|yes)(?=[.! "                                                                    \
    "]*+(?:\\n|\\z))"
/* "C) This is the correct answer", "C) This matches" */
#define LABELS_RIGHT                                                                                         \
    "[)\\].:*_]++[ ](?i:(?:this|that|it)(?: option| choice| statement| answer| one)?[ "                      \
    "](?:matches|fits|(?:is|"                                                                                \
    "must be)[ ](?:the |clearly |therefore |indeed |also )*+(?:correct|right|true|best)))\\b"                \
    "(?![^.\\n]{0,30}\\b(?i:but|only|except|if|however)\\b)"
#define IS_RIGHT_ZH CLOSING "\\s*+(?:选?项)?+(?:是|为)?+(?:正确|对)"
#define SO                                                                                                   \
    "(?i:\\b(?:(?:therefore|thus|hence|so|consequently|finally|overall|in conclusion)\\b|i\\.e\\.)[,:]?+)"
/* Takes back what was stated before: "Wait, no, it's", "make that". */
#define TAKEN_BACK                                                                                           \
    "(?i:\\b(?:wait|no|actually|oops|sorry|correction|scratch that|but|rather|disregard)\\b"                 \
    "(?:\\S*+[ ](?:\\S++[ ]){0,16}?(?:it's|it is|that's|make (?:that|it))|(?:[ "                             \
    ",.:;!-]|wait|no|actually){0,12}+))"
#define IT_IS                                                                                                \
    "(?i:\\b(?:must be\\b|(?:it|this|that|which|there)(?:'s|[ ](?:is|must be|can only be|would "             \
    "be|gives|means|matches|corresponds "                                                                    \
    "to|points to|"                                                                                          \
    "leaves))(?:[ ](?:us with|only))?\\b))"
#define SUBJECT_IS                                                                                           \
    "(?<=[a-z)])(?<!wrong answer)(?<!incorrect answer)(?<!wrong option)(?<!incorrect option)(?<!wrong "      \
    "choice)"                                                                                                \
    "[ ]is[ ]"
#define ENDS         CLOSING "(?:[ ](?:then|here|instead))?+(?=[ \\t]*+(?:[.,;:!?\\n]|\\z|-[ ]|\\(|that\\b))"
#define ALONE_BEFORE "(?<![\\w'/\\\\°.-])(?<![Ss]tatement )(?<![Pp]remise )(?<!or )"
/* A mention that is denied is no choice. */
#define NOT_DENIED                                                                                           \
    "(?!" CLOSING "(?:[ ]\\([^)\\n]*\\))?+"                                                                  \
    "[.:]?+,?+\\s++(?i:(?:is|are|was|seems?|looks?|est|ist|es)[ ](?:[a-z]+ly |also |the only one |both )*+"  \
    "(?:not|wrong|incorrect[ae]?|fals[a-z]++|faus[a-z]++|nicht|inconsistent|invalid|out|impossible|"         \
    "unlikely|irrelevant|too|less|ruled|"                                                                    \
    "eliminated|crossed|discarded|rejected|excluded|dismissed|about)|(?:this|that|it)(?: option| choice| "   \
    "statement| answer)? is (?:not (?:the "                                                                  \
    ")?(?:correct|right|true|best)|incorrect|wrong|false)|cannot|can't|isn't|does(?:n't| not)|do(?:n't| "    \
    "not)|makes? no|can be "                                                                                 \
    "(?:excl|elim|rul|rej)[a-z]+|fails?|contradicts?|violates?|would|wäre|serait|sería|"                   \
    "could|might|ignores?)\\b)(?!" CLOSING                                                                   \
    "(?:[:?]\\s*+[*_]*+(?i:wrong|incorrect|no|false)|[ ]-[ ](?i:wrong|incorrect))\\b)"

/* Labels behind which no choice stands: "Eliminated: B". */
#define NO_LABEL "(?![^\\n:]{0,40}(?i:wrong|incorrect|eliminat|exclud|reject|reason|not |false))"

#define L        (1u << MT_STATE_LETTER)
#define W        (1u << MT_STATE_WORD)
#define T        (1u << MT_STATE_TEXT)
#define BEHIND   (1u << 3u) // only behind another statement, which it corrects
#define ONCE     (1u << 4u) // marks one of a list: several are none

/* A form: the value stands between two patterns. Letters have three kinds of values: any (in lower case, too,
 * as what follows tells it from a word), capitals that may be several, and one capital. */
enum value { ANY, CAPITALS, CAPITAL };

static const struct form {
    int rank;
    unsigned kinds;
    enum value value; // of letters
    const char *before, *after;
} forms[] = {
    {0, L | W, ANY, ANNOUNCED OPENING, ""},
    {0, T, ANY, ANNOUNCED_AS(ANSWER) OPENING, ""}, // a result may be one of many
    {0, L | W | T, ANY, ANNOUNCED_ZH OPENING, ""},
    {0, L | W | T, ANY, CORRECTED OPENING, ""},
    {0, L | W, ANY, "\\\\(?:boxed|fbox)[ ]?+\\{" OPENING, ""},
    {0, L | W | T, ANY, TAGGED OPENING, ""},
    {0, L | W, ANY, CHOSEN OPENING, ""},
    {0, L, ANY, CHOSEN_ZH OPENING, ""},
    {0, L, CAPITALS, ALONE_BEFORE, IS_THE_ANSWER},
    {0, L, ANY, "(?i:\\b(?:answer|antwort|respuesta|réponse))(?:[ ]|(?=\\())[(\\[*\"]*+", NOT_DENIED},
    {0, L, CAPITAL, ANNOUNCED "(?:(?!\\b(?i:not|wrong|incorrect)\\b|n't|\\b[B-HJ-Z]\\b)[^.\\n(]){0,80}?\\(",
     "\\)(?!\\s*+(?:or|and)\\b)"},
    {0, L, CAPITAL,
     ANNOUNCED
     "(?:(?!\\b(?i:not|wrong|incorrect)\\b|n't|\\b[B-HJ-Z]\\b)[^.\\n(]){0,80}?(?i:option|choice)[ ]",
     ""},
    {0, L, ANY, "\\A" OPENING, "[)\\]}*_\"'`.:$]*+\\s*+\\z"},
    {0, L | W | BEHIND, ANY, TAKEN_BACK OPENING, ENDS},
    {0, T | BEHIND, ANY, TAKEN_BACK OPENING "(?=-?\\d)", ""},
    {0, T, ANY, "(?i:\\b(?:I|I'll|I'd|we|we'll|let's)(?: will| would)? (?:stay|stick|go) with)" OPENING,
     "[$]?+[\\d,.]++(?=\\s*+\\z)"},
    {1, L, CAPITALS, ALONE_BEFORE, IS_RIGHT},
    {1, L, ANY, "(?i:\\b(?:option|choice)[ ])", IS_RIGHT},
    {1, L, CAPITAL, "(?i:\\b(?:option|choice|answer|one)), \\(?+", "\\)?+,[ ](?i:is|would be|has)\\b"},
    {1, L, CAPITALS, "(?i:\\b(?:all|everything|all options|all of them) (?:but|except)[ ])" OPENING, ""},
    {1, L, CAPITALS, "", IS_RIGHT_ZH},
    {1, L | ONCE, CAPITAL, "(?<!\\w)", TICKED},
    {1, L | ONCE, CAPITAL, "(?m)^[^\\w\\n]*+(?i:option |choice |statement )?+", LABELS_RIGHT},
    {1, L | ONCE, CAPITAL, "(?i:\\bstatement )\\(?+(?!I\\b)", IS_RIGHT},
    {1, L, ANY, "(?<!\\w)\\(", IS_RIGHT},
    {1, L, CAPITAL, "(?i:\\bonly (?:option |choice )?)[(*]*+", NOT_DENIED},
    {1, L, CAPITALS, "(?:(?:(?<=\\S )-|:)[ ](?i:option|choice|answer)|→|[-=]>)[ ][(*]*+", ENDS},
    {1, L, CAPITAL, "(?<=[.!?:,\\n])[ \\t]*+\\(", "\\)[.*]*+\\s*+\\z"},
    {1, L, CAPITALS,
     "(?i:(?<!or )\\b(?:probably|likely|definitely|certainly|perhaps|maybe|surely|(?:closest|best|nearest) "
     "is|gives|"
     "giving|namely))" OPENING,
     ENDS},
    {1, L, CAPITALS, SO OPENING, ENDS NOT_DENIED},
    {1, L, CAPITALS, SO "[ ]\\(", "\\)" NOT_DENIED},
    {1, L, CAPITALS, "(?:→|⇒|[-=]>)[ ][*]*+\\(", "\\)" NOT_DENIED},
    {1, L | ONCE, CAPITAL, "(?<![A-Z] )(?<!\\) )(?:✅|✔|✓|☑)\\x{FE0F}?+[ *]*+\\(?+",
     "(?:[).]|[* ]*+(?:\\n|\\z))" NOT_DENIED},
    {1, L, CAPITALS, "(?<!不)是[ ]?+[(*]*+", ENDS},
    {1, L, CAPITALS,
     "(?i:\\b(?<!not )(?<!not very )(?<!never )(?:confident|sure|certain|convinced)(?: that)?(?: it's| it "
     "is| in)?)" OPENING,
     NOT_DENIED},
    {1, L, CAPITALS, "(?i:\\b(?:corresponds? to|points to|closest to|leaves|leaving|matching))" OPENING,
     CLOSING "(?=[ ]*+(?:[.,;:!?\\n(]|\\z)|[ ]in (?:this|the|our) (?:list|options))"},
    {1, L, CAPITALS, ALONE_BEFORE "(?<!if )(?<!If )(?<!whether )(?<!that )(?<!nor )",
     CLOSING "[ ](?:matches|fits|agrees|works)(?:[ ][a-z]+ly)?+(?=[.!]|\\n|\\z)"},
    {2, L, CAPITAL, "(?m)^" NO_LABEL "[^\\n:(]{1,40}+:[*_ ]*+\\(", "\\)[*_. ]*+$"},
    {1, L, ANY, "(?m)^[*_ ]*+(?i:question|problem)[ ]\\d++[.:)][*_ ]*+", ENDS},
    {1, L, CAPITALS, IT_IS OPENING, ENDS},
    {1, L, CAPITALS, SUBJECT_IS OPENING, ENDS},
    {1, W, ANY,
     "(?i:\\b(?:evaluates?|comes out|simplifies|reduces|equals?|results in|returns?|gives?|yields?|becomes)[ "
     "](?:down "
     ")?"
     "(?:to |as )?)" OPENING,
     ""},
    {1, W, ANY,
     "(?i:\\b(?:argument|statement|inference|reasoning|syllogism|expression|logic|sentence)[ ](?:above "
     "|itself )?"
     "(?:is|would be)[ ](?:(?!hardly)[a-z]+ly |considered |thus )*)" OPENING,
     ""},
    {0, W, ANY, "(?m)^A:[ ](?!(?s:.{0,400}?)\\nB:)" OPENING, ""},
    {1, W, ANY, SO OPENING, ""},
    {1, L | W, CAPITALS, "(?m)^(?!-[ ])[^A-Za-z0-9\\n]*+", "[^A-Za-z0-9\\n]*+\\z"},
    {1, W, ANY, "(?:⟹|⇒|→|[-=]>)[ ]" OPENING, ""},
    {1, W, ANY, IT_IS OPENING, ENDS},
    {1, L, CAPITAL, "\\A\\s*+\\*\\*\\(?+", "[).:][^*\\n]++\\*\\*[ ]*+\\n[ ]*+\\n"},
    {2, L, CAPITALS, "(?m)^[^A-Za-z0-9\\n]*+", "[^A-Za-z0-9\\n]*+$"},
    {2, L, CAPITALS, "(?m)^[^A-Za-z0-9\\n]*+(?i:(?:option|choice|answer)[ ])", "[)*_.! ]*+\\s*+\\z"},
    {2, W, ANY, "(?m)^[^A-Za-z0-9\\n]*+", "[^A-Za-z0-9\\n]*+$"},
    {2, L, ANY,
     "\\A[^\\w]*+(?i:(?:option|choice) )?+(?!(?i:A[).:](?s:.){0,400}?\\n[^\\w\\n]*+(?:(?:option|choice) "
     ")?+B[).:]))",
     NOT_DENIED "(?:[)\\]]|[.:](?!\\w))[)*_]*+[ \\t]++(?=\\S)"},
    {3, L, CAPITAL, "(?m)^[^\\w\\n]*+", NOT_DENIED "(?:[)\\]]|[.:](?!\\w))[)*_]*+[ \\t]++(?=\\S)"},
    {3, L, CAPITAL, "(?m)^" NO_LABEL "[^\\n:(]{1,40}+:[*_ ]*+", "[.)][*_]*+[ ]++(?=\\S)"},
    {3, L, CAPITAL, "(?<!\\w)(?<!if )(?<!If )", "\\)?+ is (?:indeed )?true(?=[.;!\\n]|\\z)"},
    {3, L, CAPITAL, "\\A[^\\w]*+",
     NOT_DENIED "[)*_]*+(?:,[ ]|[ ]-[ ]|[ ](?:because|since|as|rather|instead)[ ]|[ ][(\\[])"},
    {3, W, ANY, "(?m)^[^A-Za-z0-9\\n]*+",
     "(?=\\s*+(?:[.,;:!*-]|\\n|\\z)|[ ](?i:it|the|this|that|they|he|she|because|since|we|you|there)\\b)"},
    {4, L, ANY, "(?:(?i:\\b(?:option|choice|candidate|letter))[ ]|选项[ ]?+)[(\\[*\"]*+", NOT_DENIED},
    {4, L, CAPITALS, "(?:(?<![\\w)])\\(|\\*\\*\\(?|(?<!\\w)[\"'`])", "[)\\].:*\"'`]" NOT_DENIED},
    {4, L, CAPITALS,
     "(?<=[ \\n*])(?<! is )(?<!\\d )(?<![Vv]itamin )(?<![Tt]ype )(?<![Pp]oint "
     ")(?<![Hh]epatitis )(?<![Gg]rade )(?<![Pp]lan )",
     "\\)|[.!]?+[*\"]*+\\s*+(?:\\z|\\n)|,?[ ]I[ ](?:think|believe|guess)"},
    // not "there is no such"
    {4, W, ANY, "(?<![A-Za-z0-9_])",
     "(?<!\\b[Nn]o)|(?![ ](?!(?:because|since|as|for|and|or|but|is|if|it|he|she|they|the)\\b)[A-Za-z])"},
};

#define LETTER_END "(?![A-Za-z0-9^+]|_[A-Za-z0-9]|-\\w|'[a-z]|\\.(?:[a-z]|[A-Z](?![a-z]|[^\\x00-\\x7F])))"
/* Behind A and I, which may be words. */
#define NO_WORD                                                                                              \
    "(?!\\s(?!(?:because|since|as|and|or|is|are|but|with|for|due|which|given|by|in|on|at|if|not|rather|"     \
    "would|"                                                                                                 \
    "must|should|remains|over|only|here|again|it|to|was|yes|no|ist|est|richtig)\\b)[a-z])(?!\\sam\\b)"
#define ONE   "(?:[B-HJ-Z]|[AI]" NO_WORD ")" LETTER_END
#define LOWER "[a-z](?=[)\\].,;:!?*_\"'`}$<]|\\s*+\\z|[ \\t]*+\\n|\\s(?:because|since|is)\\b)" LETTER_END
#define MORE                                                                                                  \
    "(?:" CLOSING "\\s*+(?:,\\s*+(?:and\\b|or\\b)?+|/|&|;|\\+|and/or\\b|and\\b|or\\b|nor\\b|和|或|与|及)" \
    "\\s*+[(\\[{*_\"'`$]*+(?i:option |choice |answer )?[(\\[*_\"]*+[A-Za-z](?!\\w)(?=" CLOSING                \
    "\\s*+(?:\\z|[.,;:!?]|and\\b|or\\b|are\\b|were\\b|because\\b|both\\b|和|或|都)))"
#define UNCONDITIONAL "(?!" CLOSING "\\s(?:if|under|unless|were|is (?:true|false|wrong|incorrect|not))\\b)"
/* "B) ❌", "B不正确" */
#define NOT_CROSSED "(?![)\\].:*_| \\t-]*+(?:❌|✗|✘|☒)|" CLOSING "\\s*+(?:选?项)?+(?:是|为)?+(?:不(?!选)|错))"
#define NEGATED                                                                                              \
    "(?:(?i:[a-z]{2,6}n't|not|cannot|never|hardly|fails?)\\b(?: "                                            \
    "(?!but\\b|and\\b|only\\b|just\\b|or\\b|whether\\b)[a-z]++){0,3}? )?"

/* Appends "(?i:yes|no)", what is special in a pattern escaped. */
static enum mt_status append_words(struct mt_byte_list *out, const char *const *words)
{
    enum mt_status status = mt_byte_list_append_text(out, "(?i:");
    for (size_t i = 0; words[i] != NULL && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(out, "|");
        for (const char *at = words[i]; *at != '\0' && *at != '=' && status == MT_OK; at++) {
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
    static const char *const letters[] = {[ANY] = "((?:" ONE "|" LOWER ")" MORE
                                                  "{0,9}+)" UNCONDITIONAL NOT_CROSSED,
                                          [CAPITALS] = "(" ONE MORE "{0,9}+)" UNCONDITIONAL NOT_CROSSED,
                                          [CAPITAL] = "(" ONE ")" NOT_CROSSED};
    if (kind == MT_STATE_LETTER) return mt_byte_list_append_text(out, letters[value]);
    // What the rest of a line holds is found out later: another statement may stand in it.
    if (kind == MT_STATE_TEXT) return mt_byte_list_append_text(out, "(?=([^\\n]*+))");
    enum mt_status status = mt_byte_list_append_text(out, "(?:-[ ])?+(" NEGATED);
    if (status == MT_OK) status = append_words(out, words);
    if (status == MT_OK) status = mt_byte_list_append_text(out, "(?:\\s*+(?:or|and|nor|/)\\s*+");
    if (status == MT_OK) status = append_words(out, words);
    return status == MT_OK ? mt_byte_list_append_text(out, ")*+)(?!\\sif\\b)") : status;
}

#define FORMS (sizeof forms / sizeof forms[0])
#define RANKS 5

enum mt_status mt_statement_compile(struct mt_context *ctx, enum mt_statement_kind kind,
                                    const char *const *words, struct mt_pattern *patterns[MT_STATEMENT_FORMS])
{
    static_assert(FORMS <= MT_STATEMENT_DENIAL, "a pattern for each form, and that of denials");
    enum mt_status status = MT_OK;
    if (kind != MT_STATE_TEXT)
        status = mt_pattern_create(ctx, mt_statement_denial(kind), &patterns[MT_STATEMENT_DENIAL]);
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
    while (*from < text.bytes && ((unsigned char)text.text[*from] & 0xC0u) == 0x80u) ++*from;
    if (*from >= text.bytes || !mt_pattern_find(pattern, text.text, text.bytes, *from, &match)) return false;
    *value = (struct mt_text){.text = text.text + match.start, .bytes = match.end - match.start};
    *from = match.to > *from ? match.to : *from + 1;
    return true;
}

/* What a value says: the place of a letter or word, SEVERAL for more than one, NOTHING for none. */
#define NOTHING (-1)
#define SEVERAL (-2)

/* How values are read. */
struct reading {
    int (*of)(struct mt_text value, const void *self);
    const void *self;
    int agree_from, agree_to; // the ranks whose statements must agree
    int ranks;                // how many count
    bool two;                 // what is not the one is the other
};

bool mt_statement_corrects(size_t form)
{
    return form < FORMS && (forms[form].kinds & BEHIND) != 0;
}

static bool is_word_byte(struct mt_text text, size_t at)
{
    return at < text.bytes && (isalnum((unsigned char)text.text[at]) || text.text[at] == '_');
}

static bool starts_with_word(struct mt_text text, size_t at, const char *word)
{
    size_t length = strlen(word);
    return text.bytes - at >= length && strncasecmp(text.text + at, word, length) == 0 &&
           !is_word_byte(text, at + length);
}

/* The end of a question a value stands in, behind "Is it valid?"; 0: it stands in none. */
static size_t question_end(struct mt_text plain, struct mt_text value)
{
    size_t at = (size_t)(value.text - plain.text) + value.bytes;
    plain.bytes = plain.bytes - at < 200 ? plain.bytes : at + 200; // work stays linear
    while (at < plain.bytes && strchr(".!?\n", plain.text[at]) == NULL) at++;
    if (at == plain.bytes || plain.text[at] != '?') return 0;
    while (at < plain.bytes && strchr("? \n*_\"'", plain.text[at]) != NULL) at++;
    return at;
}

/* What a value says in its clause, which may deny it, or ask for it. */
static int said_by(const struct mt_clauses *clauses, struct mt_text value, const struct reading *reading)
{
    int said = reading->of(value, reading->self);
    if (said == NOTHING) return NOTHING;
    struct mt_text plain = mt_text_in(&clauses->text);
    uint8_t found = clauses->denials.data[value.text - plain.text];
    if (found == MT_DENIAL_OPEN) return NOTHING;
    bool denied = found == MT_DENIAL_FOUND;
    size_t answer = reading->two ? question_end(plain, value) : 0;
    if (answer > 0) {
        bool no = starts_with_word(plain, answer, "no");
        if (!no && !starts_with_word(plain, answer, "yes")) return NOTHING;
        denied = denied != no;
    }
    if (!denied) return said;
    return reading->two && said >= 0 ? 1 - said : NOTHING;
}

/* True when two matches of a pattern say different things. */
static bool differ(struct mt_pattern *pattern, const struct mt_clauses *clauses,
                   const struct reading *reading)
{
    struct mt_text value;
    size_t from = 0;
    int said = NOTHING;
    while (next(pattern, mt_text_in(&clauses->text), &from, &value)) {
        int here = said_by(clauses, value, reading);
        if (here != NOTHING && said != NOTHING && here != said) return true;
        if (here != NOTHING) said = here;
    }
    return false;
}

/* Of the best rank that says something: what its last statement says. Where that is several answers, a
 * conclusion behind it may say which. */
static int read_statements(struct mt_pattern *const *patterns, const struct mt_clauses *clauses,
                           const struct reading *reading)
{
    struct mt_text plain = mt_text_in(&clauses->text);
    int found = NOTHING;
    const char *behind = plain.text; // of statements: what stands before it is settled
    for (int rank = 0; rank < reading->ranks && (found == NOTHING || (found == SEVERAL && rank < 3));
         rank++) {
        int said = NOTHING;
        struct mt_text last = {.text = behind}; // what says so
        for (size_t i = 0; i < FORMS; i++) {
            struct mt_text value;
            size_t from = 0;
            if (forms[i].rank != rank || patterns[i] == NULL) continue;
            if (mt_statement_corrects(i) && said == NOTHING) continue;
            bool several = (forms[i].kinds & ONCE) != 0 && differ(patterns[i], clauses, reading);
            while (next(patterns[i], plain, &from, &value)) {
                int here = said_by(clauses, value, reading);
                if (here == NOTHING) from = (size_t)(value.text - plain.text) + 1;
                if (here >= 0 && several) here = SEVERAL;
                if (here == NOTHING || (here == SEVERAL && rank > 1)) continue;
                bool agree = rank >= reading->agree_from && rank <= reading->agree_to;
                bool differs = agree && said != NOTHING && here != said;
                if (value.text >= last.text) {
                    said = here;
                    last = value;
                }
                if (differs) said = SEVERAL;
            }
        }
        if (said == NOTHING) continue;
        found = said;
        behind = last.text + last.bytes;
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

bool mt_statement_letter(struct mt_pattern *const *patterns, const struct mt_clauses *clauses, int choices,
                         struct mt_text *letter)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (choices <= 0 || choices > 26) choices = 26;
    const struct reading reading = {
        .of = letter_of, .self = &choices, .agree_from = 3, .agree_to = 4, .ranks = RANKS};
    int found = read_statements(patterns, clauses, &reading);
    if (found >= 0) *letter = (struct mt_text){.text = alphabet + found, .bytes = 1};
    return found >= 0;
}

// ------------------------------------------------------------------ words

/* True when two words of a list stand for no other. */
static bool are_two(const char *const *words)
{
    int count = 0;
    for (; *words != NULL; words++) count += strchr(*words, '=') == NULL ? 1 : 0;
    return count == 2;
}

/* The place of the word a value holds. Before the first one only "not" can stand. `self`: the words. */
static int word_of(struct mt_text value, const void *self)
{
    const char *const *words = self;
    int found = NOTHING;
    bool negated = true;
    for (int k = 0; words[k] != NULL; k++) {
        size_t length = strcspn(words[k], "=");
        int meaning = k;
        if (words[k][length] == '=') {
            meaning = 0;
            while (words[meaning] != NULL && strcmp(words[meaning], words[k] + length + 1) != 0) meaning++;
            if (words[meaning] == NULL) continue;
        }
        for (size_t i = 0; i + length <= value.bytes; i++) {
            if (strncasecmp(value.text + i, words[k], length) != 0) continue;
            if ((i > 0 && is_word_byte(value, i - 1)) || is_word_byte(value, i + length)) continue;
            if (found >= 0 && found != meaning) return SEVERAL;
            found = meaning;
            negated = negated && i > 0;
        }
    }
    return negated && are_two(words) && found >= 0 ? 1 - found : found;
}

bool mt_statement_word(struct mt_pattern *const *patterns, const char *const *words,
                       const struct mt_clauses *clauses, struct mt_text *word)
{
    // Who is cut off in the middle, "= False or", has concluded nothing.
    static const char *const open_ends[] = {" and", " or", " not", "=", "("};
    struct mt_text whole = mt_text_trimmed(mt_text_in(&clauses->text));
    bool cut_off = false;
    for (size_t i = 0; i < sizeof open_ends / sizeof open_ends[0]; i++) {
        size_t length = strlen(open_ends[i]);
        cut_off = cut_off || (whole.bytes > length && mt_text_has(whole, whole.bytes - length, open_ends[i]));
    }
    const struct reading reading = {.of = word_of,
                                    .self = words,
                                    .agree_from = 2,
                                    .agree_to = 2,
                                    .ranks = cut_off ? 1 : RANKS,
                                    .two = are_two(words)};
    int found = read_statements(patterns, clauses, &reading);
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
            if (mt_statement_corrects(i) && !found) continue;
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
