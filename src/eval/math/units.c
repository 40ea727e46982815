/* Units. */
#include "eval/math/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOST_WORDS 6

struct known_unit {
    const char *names; // singular, between spaces
    const char *quantity;
    int64_t over, under; // in the quantity's own unit
};

static const struct known_unit known[] = {
    {"microm micrometer micrometre micron", "length", 1, 1000000},
    {"mm millimeter millimetre", "length", 1, 1000},
    {"cm centimeter centimetre", "length", 1, 100},
    {"dm decimeter decimetre", "length", 1, 10},
    {"m meter metre", "length", 1, 1},
    {"km kilometer kilometre", "length", 1000, 1},
    {"in inch inche", "length", 254, 10000},
    {"ft foot feet", "length", 3048, 10000},
    {"yd yard", "length", 9144, 10000},
    {"mi mile", "length", 1609344, 1000},
    {"mg milligram", "mass", 1, 1000},
    {"g gram gramme", "mass", 1, 1},
    {"kg kilogram kilo", "mass", 1000, 1},
    {"t tonne", "mass", 1000000, 1},
    {"lb pound", "mass", 45359237, 100000},
    {"oz ounce", "mass", 45359237, 1600000},
    {"s sec second", "time", 1, 1},
    {"ms millisecond", "time", 1, 1000},
    {"micros microsecond", "time", 1, 1000000},
    {"min minute", "time", 60, 1},
    {"h hr hour", "time", 3600, 1},
    {"day", "time", 86400, 1},
    {"week wk", "time", 604800, 1},
    {"month", "month", 1, 1},
    {"yr year", "month", 12, 1},
    {"ml milliliter millilitre", "volume", 1, 1000},
    {"l liter litre", "volume", 1, 1},
    {"gal gallon", "gallon", 1, 1},
    {"cent", "dollar", 1, 100},
    {"dollar usd", "dollar", 1, 1},
    {"euro eur", "euro", 1, 1},
    {"gbp", "gbp", 1, 1},
    {"rad radian", "radian", 1, 1},
    {"hz hertz", "hertz", 1, 1},
    {"khz kilohertz", "hertz", 1000, 1},
    {"n newton", "newton", 1, 1},
    {"j joule", "joule", 1, 1},
    {"w watt", "watt", 1, 1},
    {"v volt", "volt", 1, 1},
};

static const struct known_unit factors[] = {
    {"dozen", NULL, 12, 1},        {"hundred", NULL, 100, 1},        {"thousand", NULL, 1000, 1},
    {"million", NULL, 1000000, 1}, {"billion", NULL, 1000000000, 1}, {"trillion", NULL, 1000000000000, 1},
};

/* Words for what is counted: any other word may stand in their place, or none. */
static const char neutral[] =
    "unit time way solution integer number value total people person student point "
    "side of a the each about exactly different possible arrangement possibility "
    "possibilitie outcome choice pair triple element digit answer coin ball book card "
    "page step game item object piece";

/* Words that say something about the value, so that it is not the value alone. */
static const char binding[] =
    "or more less least most than not at and plus minus times over under nor only if";

/* Words that shape the unit next to them. */
static const char shapes[] = "per sq square cubic cubed squared";

static bool has_word(const char *words, const char *word, size_t bytes)
{
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        if (length == bytes && strncasecmp(words, word, bytes) == 0) return true;
        words += length + strspn(words + length, " ");
    }
    return false;
}

/* The singular's bytes. */
static size_t singular(const char *word, size_t bytes)
{
    return bytes > 2 && tolower((unsigned char)word[bytes - 1]) == 's' ? bytes - 1 : bytes;
}

static const struct known_unit *find(const struct known_unit *list, size_t count, const char *word,
                                     size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        if (has_word(list[i].names, word, bytes)) return &list[i];
        if (has_word(list[i].names, word, singular(word, bytes))) return &list[i];
    }
    return NULL;
}

static const struct known_unit *find_unit(const char *word, size_t bytes)
{
    return find(known, sizeof known / sizeof known[0], word, bytes);
}

static const struct known_unit *find_factor(const char *word, size_t bytes)
{
    return find(factors, sizeof factors / sizeof factors[0], word, bytes);
}

bool mt_unit_is_word(const char *word, size_t bytes, bool behind)
{
    if (has_word("mph kph percent degree degrees", word, bytes)) return true;
    if (bytes == 1) return behind && strchr("mgshL", word[0]) != NULL;
    if (has_word("in min sec ms mi t", word, bytes) && !behind) return false; // products of letters, or "in"
    if (find_unit(word, bytes) != NULL || find_factor(word, bytes) != NULL) return true;
    return bytes > 3 && (has_word(shapes, word, bytes) || has_word(neutral, word, singular(word, bytes)));
}

static void add_part(struct mt_unit *unit, const char *name, size_t bytes, int power)
{
    struct mt_unit_part part = {.power = power};
    if (bytes >= sizeof part.name) bytes = sizeof part.name - 1;
    for (size_t i = 0; i < bytes; i++) part.name[i] = (char)tolower((unsigned char)name[i]);
    int at = 0;
    while (at < unit->count && strcmp(unit->parts[at].name, part.name) < 0) at++;
    if (at < unit->count && strcmp(unit->parts[at].name, part.name) == 0) {
        unit->parts[at].power += power;
        return;
    }
    if (unit->count == MT_UNIT_PARTS) {
        unit->binding = true; // too long to be a unit
        return;
    }
    memmove(&unit->parts[at + 1], &unit->parts[at], (size_t)(unit->count - at) * sizeof part);
    unit->parts[at] = part;
    unit->count++;
}

/* A word of a unit to a power. */
static void add_word(struct mt_numbers *numbers, struct mt_unit *unit, const char *word, size_t bytes,
                     int power)
{
    const struct known_unit *factor = find_factor(word, bytes);
    const struct known_unit *part = find_unit(word, bytes);
    if (factor != NULL) {
        struct mt_rational scale = mt_rational_make(numbers, factor->over, factor->under);
        unit->factor = mt_rational_multiply(numbers, unit->factor, scale);
    } else if (part != NULL) {
        struct mt_rational scale = mt_rational_make(numbers, part->over, part->under);
        scale = mt_rational_power(numbers, scale, power);
        unit->scale = mt_rational_multiply(numbers, unit->scale, scale);
        add_part(unit, part->quantity, strlen(part->quantity), power);
    } else if (has_word("mph kph", word, bytes)) {
        add_word(numbers, unit, word[0] == 'm' ? "mile" : "km", word[0] == 'm' ? 4 : 2, power);
        add_word(numbers, unit, "hour", 4, -power);
    } else if (has_word(binding, word, bytes)) {
        unit->binding = true;
        add_part(unit, word, bytes, power);
    } else if (!has_word(neutral, word, singular(word, bytes))) {
        add_part(unit, word, singular(word, bytes), power);
    }
}

/* The number of a base in words. */
static size_t base_name(const char *word, size_t bytes, char *name, size_t room)
{
    static const char *const bases[] = {"two",   "three", "four", "five", "six",
                                        "seven", "eight", "nine", "ten"};
    for (int i = 0; i < 9; i++) {
        if (strlen(bases[i]) == bytes && strncasecmp(bases[i], word, bytes) == 0)
            return (size_t)snprintf(name, room, "base%d", i + 2);
    }
    return 0;
}

/* "^2", "^{-1}" or "squared" behind a word; 1: none. *at moves behind it. */
static int power_behind(const char **at)
{
    const char *next = *at;
    while (*next == '}' || *next == ' ') next++;
    if (strncasecmp(next, "squared", 7) == 0 || strncasecmp(next, "cubed", 5) == 0) {
        *at = next + (tolower((unsigned char)*next) == 's' ? 7 : 5);
        return tolower((unsigned char)*next) == 's' ? 2 : 3;
    }
    if (*next != '^') return 1;
    next++;
    while (*next == '{' || *next == ' ') next++;
    int sign = *next == '-' ? -1 : 1;
    if (*next == '-') next++;
    if (!isdigit((unsigned char)*next)) return 1;
    int power = *next - '0';
    while (isdigit((unsigned char)*next)) next++;
    *at = next;
    return sign * power;
}

void mt_unit_read(struct mt_numbers *numbers, const char *text, struct mt_unit *unit)
{
    int side = 1;  // -1 behind "per" or "/"
    int shape = 1; // of "square"
    int words = 0;
    const char *at = text;
    char name[24];
    while (*at != '\0') {
        if (*at == '/') side = -1;
        if (*at == '(' && strchr(at, ')') != NULL) { // the same in other words
            at = strchr(at, ')') + 1;
            continue;
        }
        if (strncmp(at, "\\text", 5) == 0) {
            at += 5;
            continue;
        }
        if (isdigit((unsigned char)*at)) { // the base of a number
            const char *digits = at;
            while (isdigit((unsigned char)*at)) at++;
            int length = snprintf(name, sizeof name, "base%.*s", (int)(at - digits), digits);
            add_part(unit, name, (size_t)length, 1);
            continue;
        }
        const char *word = at;
        while (isalpha((unsigned char)*at) || ((unsigned char)*at >= 128)) at++;
        size_t bytes = (size_t)(at - word);
        size_t base = base_name(word, bytes, name, sizeof name);
        if (bytes > 0) words++;
        if (words > MOST_WORDS) unit->binding = true; // a sentence
        if (bytes == 0) {
            at++;
        } else if (base > 0) {
            add_part(unit, name, base, 1);
        } else if (has_word("per", word, bytes)) {
            side = -1;
        } else if (has_word("sq square cubic", word, bytes)) {
            shape = has_word("cubic", word, bytes) ? 3 : 2;
        } else if (has_word("in", word, bytes) && *at == ' ' && isalpha((unsigned char)at[1]) &&
                   strncmp(at, " per", 4) != 0) {
            shape = 1; // "in total" is no inch
        } else {
            int power = power_behind(&at);
            add_word(numbers, unit, word, bytes, side * shape * power);
            shape = 1;
        }
    }
}

bool mt_unit_same(const struct mt_unit *a, const struct mt_unit *b)
{
    bool may_miss = !a->binding && !b->binding;
    if (may_miss && (a->count == 0 || b->count == 0)) return true;
    if (a->count != b->count || a->binding != b->binding) return false;
    for (int i = 0; i < a->count; i++) {
        if (strcmp(a->parts[i].name, b->parts[i].name) != 0 || a->parts[i].power != b->parts[i].power)
            return false;
    }
    return true;
}
