/* Whether a text is JSON. jansson is stricter than what answers are held against: keys twice, NaN. */
#include <ctype.h>
#include <string.h>

#include "eval/livebench/text.h"

#define MOST_DEPTH 512

struct scan {
    const char *at;
    const char *end;
    bool in_object[MOST_DEPTH]; // of every open bracket, whether it is a brace
    int depth;
};

static void skip_space(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at != '\0' && strchr(" \t\r\n", *scan->at) != NULL) scan->at++;
}

static bool take(struct scan *scan, const char *word)
{
    size_t bytes = strlen(word);
    if ((size_t)(scan->end - scan->at) < bytes || memcmp(scan->at, word, bytes) != 0) return false;
    scan->at += bytes;
    return true;
}

static bool take_string(struct scan *scan)
{
    if (!take(scan, "\"")) return false;
    while (scan->at < scan->end) {
        unsigned char byte = (unsigned char)*scan->at++;
        if (byte == '"') return true;
        if (byte < 0x20) return false;
        if (byte != '\\') continue;
        if (scan->at == scan->end) return false;
        char escape = *scan->at++;
        if (escape == 'u') {
            for (int i = 0; i < 4; i++, scan->at++) {
                if (scan->at == scan->end || !isxdigit((unsigned char)*scan->at)) return false;
            }
        } else if (escape == '\0' || strchr("\"\\/bfnrt", escape) == NULL) {
            return false;
        }
    }
    return false;
}

static bool take_digits(struct scan *scan)
{
    const char *start = scan->at;
    while (scan->at < scan->end && isdigit((unsigned char)*scan->at)) scan->at++;
    return scan->at > start;
}

static bool take_number(struct scan *scan)
{
    (void)take(scan, "-");
    if (take(scan, "Infinity")) return true;
    if (!take(scan, "0") && !take_digits(scan)) return false;
    if (take(scan, ".") && !take_digits(scan)) return false;
    if (!take(scan, "e") && !take(scan, "E")) return true;
    if (!take(scan, "+")) (void)take(scan, "-");
    return take_digits(scan);
}

/* A value without others in it. */
static bool take_scalar(struct scan *scan)
{
    return take_string(scan) || take(scan, "true") || take(scan, "false") || take(scan, "null") ||
           take(scan, "NaN") || take_number(scan);
}

/* The key and colon of a member, where the innermost bracket is a brace. */
static bool take_key(struct scan *scan)
{
    if (!scan->in_object[scan->depth - 1]) return true;
    skip_space(scan);
    if (!take_string(scan)) return false;
    skip_space(scan);
    return take(scan, ":");
}

/* Behind a value: closes brackets until a comma asks for another value. False: neither fits. */
static bool take_end(struct scan *scan)
{
    while (scan->depth > 0) {
        skip_space(scan);
        if (take(scan, ",")) return take_key(scan);
        if (!take(scan, scan->in_object[scan->depth - 1] ? "}" : "]")) return false;
        scan->depth--;
    }
    return true;
}

bool mt_livebench_is_json(struct mt_text text)
{
    struct scan scan = {.at = text.text, .end = text.text + text.bytes};
    do {
        skip_space(&scan);
        bool brace = take(&scan, "{");
        if (!brace && !take(&scan, "[")) {
            if (!take_scalar(&scan) || !take_end(&scan)) return false;
            continue;
        }
        if (scan.depth == MOST_DEPTH) return false;
        scan.in_object[scan.depth++] = brace;
        skip_space(&scan);
        if (take(&scan, brace ? "}" : "]")) {
            scan.depth--;
            if (!take_end(&scan)) return false;
        } else if (!take_key(&scan)) {
            return false;
        }
    } while (scan.depth > 0);
    skip_space(&scan);
    return scan.at == scan.end;
}
