/*
 * Language: the regular grammar of English, on invented words where the rule is what counts and on real ones
 * where the meaning is.
 */
#include "synth/item.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof((list)[0])))
#define WORD_BYTES  16

static const char *const nouns[] = {"cat",  "dog",  "cow",  "hen",  "boy",  "girl",  "king",  "bird",
                                    "car",  "tree", "boat", "lamp", "goat", "bear",  "duck",  "frog",
                                    "ship", "star", "rock", "door", "cook", "nurse", "pilot", "clown"};
static const char *const verbs[] = {"run",  "sing", "eat",  "sleep", "jump", "fall", "swim", "walk",
                                    "look", "stay", "help", "rest",  "play", "wait", "turn", "move"};

/* An invented word of some syllables that ends in one of `endings`. */
static void invent(struct mt_synth_draw *draw, int syllables, const char *const *endings, int ending_count,
                   char word[WORD_BYTES])
{
    static const char *const onsets[] = {"b", "d", "f", "g", "k",  "l",  "m",  "n",  "p",  "r",
                                         "t", "v", "w", "z", "bl", "dr", "gr", "pl", "st", "tr"};
    static const char vowels[] = "aeiou";
    size_t used = 0;
    for (int i = 0; i < syllables; i++) {
        const char *onset = onsets[mt_synth_below(draw, COUNT(onsets))];
        char vowel = vowels[mt_synth_below(draw, 5)];
        const char *end = i + 1 < syllables ? "" : endings[mt_synth_below(draw, ending_count)];
        used += (size_t)snprintf(word + used, WORD_BYTES - used, "%s%c%s", onset, vowel, end);
    }
}

/* How many syllables invented words have. */
static int syllables_at(struct mt_synth_draw *draw, int difficulty)
{
    static const int fewest[MT_SYNTH_HARDEST] = {1, 1, 2, 2, 3};
    static const int most[MT_SYNTH_HARDEST] = {1, 2, 3, 3, 3};
    return mt_synth_between(draw, fewest[difficulty - 1], most[difficulty - 1]);
}

/* True for "ly", false for "ay" and for "l". */
static bool ends_in_consonant_y(const char *word)
{
    size_t length = strlen(word);
    return length >= 2 && word[length - 1] == 'y' && strchr("aeiou", word[length - 2]) == NULL;
}

/* "plural of brax:" is braxes */
static void plural(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const char *const endings[] = {"b", "d", "g", "k",  "l",  "m",  "n",  "p",  "t", "r",
                                          "x", "s", "z", "sh", "ch", "ly", "dy", "ty", "y"};
    char word[WORD_BYTES];
    invent(draw, syllables_at(draw, difficulty), endings, COUNT(endings), word);
    mt_synth_ask(item, "plural of %s:", word);
    bool hisses = mt_ends_with(word, "s") || mt_ends_with(word, "x") || mt_ends_with(word, "z") ||
                  mt_ends_with(word, "sh") || mt_ends_with(word, "ch");
    if (ends_in_consonant_y(word))
        mt_synth_answer(item, "%.*sies", (int)strlen(word) - 1, word);
    else
        mt_synth_answer(item, "%s%s", word, hisses ? "es" : "s");
}

/* "past of drake:" is draked */
static void past(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const char *const endings[] = {"lk", "nt", "rd", "sh", "mp", "rm", "ke",
                                          "te", "ve", "me", "ry", "ly", "dy", "y"};
    char word[WORD_BYTES];
    invent(draw, syllables_at(draw, difficulty), endings, COUNT(endings), word);
    mt_synth_ask(item, "past of %s:", word);
    if (ends_in_consonant_y(word))
        mt_synth_answer(item, "%.*sied", (int)strlen(word) - 1, word);
    else
        mt_synth_answer(item, "%s%s", word, mt_ends_with(word, "e") ? "d" : "ed");
}

static const char *const word_endings[] = {"b", "d", "lk", "m", "n", "p", "st", "x", "ke", "ra", "ry", "sh"};

/* "pig latin trake:" is aketray: what stands before the first vowel goes to the end, "ay" follows */
static void pig_latin(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char word[WORD_BYTES];
    invent(draw, syllables_at(draw, difficulty), word_endings, COUNT(word_endings), word);
    int onset = (int)strcspn(word, "aeiou");
    mt_synth_ask(item, "pig latin %s:", word);
    mt_synth_answer(item, "%s%.*say", word + onset, onset, word);
}

/* "first of kab,kum,dot:" is dot: which word a dictionary has first */
static void dictionary(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int counts[MT_SYNTH_HARDEST] = {2, 2, 3, 4, 5};
    char word[WORD_BYTES];
    char first[WORD_BYTES] = "";
    mt_synth_ask(item, "first of ");
    for (int i = 0; i < counts[difficulty - 1]; i++) {
        invent(draw, 1, word_endings, COUNT(word_endings), word);
        mt_synth_ask(item, i == 0 ? "%s" : ",%s", word);
        if (i == 0 || strcmp(word, first) < 0) memcpy(first, word, sizeof first);
    }
    mt_synth_ask(item, ":");
    mt_synth_answer(item, "%s", first);
}

/* "the cats by the dog, run:" is run; "the cat by the dogs, run:" is runs */
static void agreement(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const char *const places[] = {"by", "near", "behind", "with"};
    bool many = mt_synth_below(draw, 2) == 1;
    const char *verb = verbs[mt_synth_below(draw, COUNT(verbs))];
    mt_synth_ask(item, "the %s%s", nouns[mt_synth_below(draw, COUNT(nouns))], many ? "s" : "");
    int attractors = difficulty < 2 ? 0 : difficulty < 5 ? 1 : 2;
    for (int i = 0; i < attractors; i++) {
        const char *place = places[mt_synth_below(draw, COUNT(places))];
        const char *noun = nouns[mt_synth_below(draw, COUNT(nouns))];
        mt_synth_ask(item, " %s the %s%s", place, noun, mt_synth_below(draw, 2) == 1 ? "s" : "");
    }
    mt_synth_ask(item, ", %s:", verb);
    mt_synth_answer(item, "%s%s", verb, many ? "" : "s");
}

/* "the cat is not hot but:" is cold */
static void opposite(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const char *const pairs[][2] = {
        {"hot", "cold"},    {"big", "small"},   {"old", "new"},    {"fast", "slow"},  {"high", "low"},
        {"wet", "dry"},     {"good", "bad"},    {"hard", "soft"},  {"rich", "poor"},  {"full", "empty"},
        {"long", "short"},  {"dark", "light"},  {"loud", "quiet"}, {"thick", "thin"}, {"clean", "dirty"},
        {"weak", "strong"}, {"wide", "narrow"}, {"near", "far"},   {"open", "shut"},  {"brave", "timid"},
    };
    static const char *const times[] = {"is", "was", "looks", "seems", "became"};
    const char *const *pair = pairs[mt_synth_below(draw, 4 * difficulty)];
    int side = mt_synth_below(draw, 2);
    const char *time = times[mt_synth_below(draw, COUNT(times))];
    const char *noun = nouns[mt_synth_below(draw, COUNT(nouns))];
    mt_synth_ask(item, "the %s %s not %s but:", noun, time, pair[side]);
    mt_synth_answer(item, "%s", pair[1 - side]);
}

/* "ask: the dog can run:" is "can the dog run?" */
static void question(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const char *const helpers[] = {"can", "will", "must", "may", "should", "could"};
    const char *noun = nouns[mt_synth_below(draw, COUNT(nouns))];
    const char *helper = helpers[mt_synth_below(draw, difficulty < 3 ? 3 : COUNT(helpers))];
    const char *verb = verbs[mt_synth_below(draw, COUNT(verbs))];
    const char *many = mt_synth_below(draw, 2) == 1 ? "s" : "";
    mt_synth_ask(item, "ask: the %s%s %s %s:", noun, many, helper, verb);
    mt_synth_answer(item, "%s the %s%s %s?", helper, noun, many, verb);
}

static int by_letter(const void *a, const void *b)
{
    return *(const char *)a - *(const char *)b;
}

/* "sort qbz:" is bqz */
static void sort_letters(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char letters[16] = "";
    int count = mt_synth_between(draw, 2 + difficulty, 4 + difficulty);
    mt_synth_choose(draw, "abcdefghijklmnopqrstuvwxyz", count, letters);
    mt_synth_ask(item, "sort %s:", letters);
    qsort(letters, (size_t)count, 1, by_letter);
    mt_synth_answer(item, "%s", letters);
}

const struct mt_synth_task mt_synth_language_tasks[] = {
    {"plural", "the plural of an invented noun", MT_DOMAIN_LANGUAGE, plural},
    {"past", "the past tense of an invented verb", MT_DOMAIN_LANGUAGE, past},
    {"latin", "an invented word in pig latin", MT_DOMAIN_LANGUAGE, pig_latin},
    {"dictionary", "which word comes first in a dictionary", MT_DOMAIN_LANGUAGE, dictionary},
    {"agreement", "a verb in the number of its subject", MT_DOMAIN_LANGUAGE, agreement},
    {"opposite", "the opposite of an adjective", MT_DOMAIN_LANGUAGE, opposite},
    {"question", "a statement turned into a question", MT_DOMAIN_LANGUAGE, question},
    {"sort", "letters in alphabetical order", MT_DOMAIN_LANGUAGE, sort_letters},
    {0},
};
