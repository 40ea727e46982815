/*
 * Answers of language, reasoning and code, worked out again from the prompts. Tests src/synth/language.c,
 * src/synth/reasoning.c and src/synth/code.c.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/synth_solvers.h"

static bool is_vowel(char letter)
{
    return letter == 'a' || letter == 'e' || letter == 'i' || letter == 'o' || letter == 'u';
}

// ------------------------------------------------------------------ language

/* The last letters decide, as a grammar book says it. */
static bool plural(const char *prompt, char *answer)
{
    char word[MATCHED_BYTES];
    if (!synth_match(prompt, "plural of @:", word)) return false;
    size_t length = strlen(word);
    char last = word[length - 1];
    char before = word[length - 2];
    if (last == 'y' && !is_vowel(before))
        (void)snprintf(answer, SOLVED_BYTES, "%.*sies", (int)length - 1, word);
    else if (strchr("sxz", last) != NULL || (last == 'h' && strchr("sc", before) != NULL))
        (void)snprintf(answer, SOLVED_BYTES, "%ses", word);
    else
        (void)snprintf(answer, SOLVED_BYTES, "%ss", word);
    return true;
}

static bool past(const char *prompt, char *answer)
{
    char word[MATCHED_BYTES];
    if (!synth_match(prompt, "past of @:", word)) return false;
    size_t length = strlen(word);
    if (word[length - 1] == 'e')
        (void)snprintf(answer, SOLVED_BYTES, "%sd", word);
    else if (word[length - 1] == 'y' && !is_vowel(word[length - 2]))
        (void)snprintf(answer, SOLVED_BYTES, "%.*sied", (int)length - 1, word);
    else
        (void)snprintf(answer, SOLVED_BYTES, "%sed", word);
    return true;
}

/* Letters go to the end one by one until a vowel leads. */
static bool pig_latin(const char *prompt, char *answer)
{
    char word[MATCHED_BYTES];
    if (!synth_match(prompt, "pig latin @:", word)) return false;
    size_t length = strlen(word);
    for (size_t turns = 0; !is_vowel(word[0]) && turns < length; turns++) {
        char first = word[0];
        memmove(word, word + 1, length - 1);
        word[length - 1] = first;
    }
    (void)snprintf(answer, SOLVED_BYTES, "%say", word);
    return is_vowel(word[0]);
}

/* The word no other is before. */
static bool dictionary(const char *prompt, char *answer)
{
    char words[5][MATCHED_BYTES];
    int count = 0;
    const char *at = prompt + strlen("first of ");
    for (; *at != '\0' && count < 5; at++) {
        if (!synth_match(at, "@*", words[count])) return false;
        at += strlen(words[count++]);
    }
    for (int i = 0; i < count; i++) {
        int before = 0;
        for (int k = 0; k < count; k++) before += strcmp(words[k], words[i]) < 0 ? 1 : 0;
        if (before == 0) memcpy(answer, words[i], MATCHED_BYTES);
    }
    return *at == '\0' && count >= 2;
}

/* No noun ends in s but in the plural, and the subject is the first. */
static bool agreement(const char *prompt, char *answer)
{
    char noun[MATCHED_BYTES];
    const char *comma = strchr(prompt, ',');
    if (comma == NULL || !synth_match(prompt, "the @*", noun)) return false;
    const char *verb = comma + 2;
    (void)snprintf(answer, SOLVED_BYTES, "%.*s%s", (int)strcspn(verb, ":"), verb,
                   noun[strlen(noun) - 1] == 's' ? "" : "s");
    return true;
}

static bool opposite(const char *prompt, char *answer)
{
    static const char *const pairs =
        " hot=cold big=small old=new fast=slow high=low wet=dry good=bad hard=soft "
        "rich=poor full=empty long=short dark=light loud=quiet thick=thin "
        "clean=dirty weak=strong wide=narrow near=far open=shut brave=timid ";
    char word[MATCHED_BYTES];
    char pattern[40];
    const char *not_word = strstr(prompt, " not ");
    if (not_word == NULL || !synth_match(not_word, " not @ but:", word)) return false;
    (void)snprintf(pattern, sizeof pattern, " %s=", word);
    const char *found = strstr(pairs, pattern);
    if (found != NULL) return synth_match(strchr(found, '=') + 1, "@*", answer);
    (void)snprintf(pattern, sizeof pattern, "=%s ", word);
    found = strstr(pairs, pattern);
    if (found == NULL) return false;
    const char *start = found;
    while (start[-1] != ' ') start--;
    (void)snprintf(answer, SOLVED_BYTES, "%.*s", (int)(found - start), start);
    return true;
}

static bool question(const char *prompt, char *answer)
{
    char noun[MATCHED_BYTES];
    char helper[MATCHED_BYTES];
    char verb[MATCHED_BYTES];
    if (!synth_match(prompt, "ask: the @ @ @:", noun, helper, verb)) return false;
    (void)snprintf(answer, SOLVED_BYTES, "%.15s the %.15s %.15s?", helper, noun, verb);
    return true;
}

static bool sort_letters(const char *prompt, char *answer)
{
    size_t used = 0;
    for (int letter = 'a'; letter <= 'z'; letter++) {
        if (strchr(prompt + strlen("sort "), letter) != NULL) answer[used++] = (char)letter;
    }
    answer[used] = '\0';
    return used + strlen("sort :") == strlen(prompt);
}

static void language(void **state)
{
    (void)state;
    static const struct synth_solver solvers[] = {
        {"plural", plural},       {"past", past},         {"latin", pig_latin},   {"dictionary", dictionary},
        {"agreement", agreement}, {"opposite", opposite}, {"question", question}, {"sort", sort_letters},
    };
    assert_int_equal(synth_compare(MT_DOMAIN_LANGUAGE, solvers, sizeof solvers / sizeof solvers[0], 400), 0);
}

// ------------------------------------------------------------------ reasoning

/* The largest is on no right side, the smallest on no left one. */
static bool order(const char *prompt, char *answer)
{
    bool larger[256] = {false};
    bool smaller[256] = {false};
    const char *at = prompt;
    for (; at[1] == '>'; at += 4) {
        larger[(unsigned char)at[0]] = true;
        smaller[(unsigned char)at[2]] = true;
    }
    bool largest = strcmp(at, "max:") == 0;
    for (int letter = 'a'; letter <= 'z'; letter++) {
        bool left = larger[letter];
        bool right = smaller[letter];
        if (largest ? left && !right : right && !left) (void)snprintf(answer, SOLVED_BYTES, "%c", letter);
    }
    return largest || strcmp(at, "min:") == 0;
}

static bool path(const char *prompt, char *answer)
{
    char next[256] = {0};
    const char *at = prompt;
    for (; at[1] != ' '; at += 3) next[(unsigned char)at[0]] = at[1];
    char here;
    int steps;
    if (!synth_match(at, "~ #:", &here, &steps)) return false;
    for (; steps > 0; steps--) here = next[(unsigned char)here];
    (void)snprintf(answer, SOLVED_BYTES, "%c", here);
    return here != '\0';
}

static bool neighbour(const char *prompt, char *answer)
{
    char row[MATCHED_BYTES];
    char side[MATCHED_BYTES];
    char who;
    int distance = 1;
    if (!synth_match(prompt, "@ # @ of ~:", row, &distance, side, &who)) {
        distance = 1;
        if (!synth_match(prompt, "@ @ of ~:", row, side, &who)) return false;
    }
    const char *at = strchr(row, who);
    if (at == NULL) return false;
    (void)snprintf(answer, SOLVED_BYTES, "%c", strcmp(side, "left") == 0 ? at[-distance] : at[distance]);
    return true;
}

/* Replaces what can be computed by its value until one letter is left. */
static bool truth(const char *prompt, char *answer)
{
    static const char *const rules[][2] = {
        {"!T", "F"},  {"!F", "T"},  {"(T)", "T"}, {"(F)", "F"}, {"T&T", "T"}, {"T&F", "F"},
        {"F&T", "F"}, {"F&F", "F"}, {"T|T", "T"}, {"T|F", "T"}, {"F|T", "T"}, {"F|F", "F"},
        {"T^T", "F"}, {"T^F", "T"}, {"F^T", "T"}, {"F^F", "F"},
    };
    char text[SOLVED_BYTES];
    (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(prompt, ":"), prompt);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0];) {
        char *found = strstr(text, rules[i][0]);
        if (found == NULL) {
            i++;
            continue;
        }
        size_t length = strlen(rules[i][0]);
        found[0] = rules[i][1][0];
        memmove(found + 1, found + length, strlen(found + length) + 1);
        i = 0;
    }
    (void)snprintf(answer, SOLVED_BYTES, "%s", text);
    return strlen(text) == 1;
}

static bool odd_one(const char *prompt, char *answer)
{
    int alone[2] = {0, 0};
    int counts[2] = {0, 0};
    for (const char *at = prompt + strlen("odd one"); *at == ' ';) {
        char *rest = NULL;
        int number = (int)strtol(at, &rest, 10);
        alone[number % 2] = number;
        counts[number % 2]++;
        at = rest;
    }
    (void)snprintf(answer, SOLVED_BYTES, "%d", alone[counts[1] == 1 ? 1 : 0]);
    return (counts[0] == 1) != (counts[1] == 1);
}

/* Cancels pairs until none is left, then mirrors the rest. */
static bool brackets(const char *prompt, char *answer)
{
    static const char *const pairs[] = {"()", "[]", "{}"};
    char text[SOLVED_BYTES];
    (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(prompt + 6, ":"), prompt + 6);
    for (size_t i = 0; i < 3;) {
        char *found = strstr(text, pairs[i]);
        if (found != NULL) memmove(found, found + 2, strlen(found + 2) + 1);
        i = found != NULL ? 0 : i + 1;
    }
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        char open = text[length - 1 - i];
        if (strchr("([{", open) == NULL) return false;
        answer[i] = (char)(open == '(' ? ')' : open + 2);
    }
    answer[length] = '\0';
    return length > 0;
}

static void reasoning(void **state)
{
    (void)state;
    static const struct synth_solver solvers[] = {
        {"order", order}, {"path", path},   {"neighbour", neighbour},
        {"truth", truth}, {"odd", odd_one}, {"brackets", brackets},
    };
    assert_int_equal(synth_compare(MT_DOMAIN_REASONING, solvers, sizeof solvers / sizeof solvers[0], 400), 0);
}

// ------------------------------------------------------------------ code

/* The string a prompt begins with, and what follows it. */
static const char *quoted(const char *prompt, char text[SOLVED_BYTES])
{
    const char *end = prompt[0] == '"' ? strchr(prompt + 1, '"') : NULL;
    if (end == NULL) return "";
    (void)snprintf(text, SOLVED_BYTES, "%.*s", (int)(end - prompt - 1), prompt + 1);
    return end + 1;
}

static bool index_of(const char *prompt, char *answer)
{
    char text[SOLVED_BYTES];
    int at;
    if (!synth_match(quoted(prompt, text), "[#]>", &at)) return false;
    (void)snprintf(answer, SOLVED_BYTES, "%c", at < 0 ? text[strlen(text) - (size_t)-at] : text[at]);
    return true;
}

static bool slice(const char *prompt, char *answer)
{
    char text[SOLVED_BYTES];
    int from, to;
    if (!synth_match(quoted(prompt, text), "[#:#]>", &from, &to)) return false;
    text[to] = '\0';
    (void)snprintf(answer, SOLVED_BYTES, "%s", text + from);
    return true;
}

static bool reverse(const char *prompt, char *answer)
{
    char text[SOLVED_BYTES];
    if (strcmp(quoted(prompt, text), "[::-1]>") != 0) return false;
    size_t length = strlen(text);
    for (size_t i = 0; i <= length; i++) answer[i] = i < length ? text[length - 1 - i] : '\0';
    return true;
}

/* An interpreter of "NAME=TERM;...;TERM>", a TERM being a number, or a name, a sign and a number. */
static bool assign(const char *prompt, char *answer)
{
    int values[256] = {0};
    for (const char *at = prompt; *at != '\0';) {
        char target = at[1] == '=' ? at[0] : '\0';
        if (target != '\0') at += 2;
        int base = islower((unsigned char)*at) ? values[(unsigned char)*at++] : 0;
        char *rest = NULL;
        int value = base + (int)strtol(at, &rest, 10);
        if (rest == at) return false;
        values[(unsigned char)target] = value;
        if (*rest == '>') {
            (void)snprintf(answer, SOLVED_BYTES, "%d", value);
            return target == '\0';
        }
        at = rest + 1;
    }
    return false;
}

static bool branch(const char *prompt, char *answer)
{
    int yes, left, right, no;
    char sign;
    if (!synth_match(prompt, "# if #~# else #>", &yes, &left, &sign, &right, &no)) return false;
    bool holds = sign == '<' ? right > left : right < left;
    (void)snprintf(answer, SOLVED_BYTES, "%d", holds ? yes : no);
    return true;
}

static bool count(const char *prompt, char *answer)
{
    char text[SOLVED_BYTES];
    char letter;
    int found = 0;
    if (!synth_match(quoted(prompt, text), ".count(\"~\")>", &letter)) return false;
    for (const char *at = strchr(text, letter); at != NULL; at = strchr(at + 1, letter)) found++;
    (void)snprintf(answer, SOLVED_BYTES, "%d", found);
    return true;
}

static bool replace(const char *prompt, char *answer)
{
    char text[SOLVED_BYTES];
    char old, new;
    if (!synth_match(quoted(prompt, text), ".replace(\"~\",\"~\")>", &old, &new)) return false;
    if (old != new) {
        for (char *at = strchr(text, old); at != NULL; at = strchr(text, old)) *at = new;
    }
    (void)snprintf(answer, SOLVED_BYTES, "%s", text);
    return true;
}

static void code(void **state)
{
    (void)state;
    static const struct synth_solver solvers[] = {
        {"index", index_of}, {"slice", slice}, {"reverse", reverse}, {"assign", assign},
        {"branch", branch},  {"count", count}, {"replace", replace},
    };
    assert_int_equal(synth_compare(MT_DOMAIN_CODE, solvers, sizeof solvers / sizeof solvers[0], 400), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(language),
        cmocka_unit_test(reasoning),
        cmocka_unit_test(code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
