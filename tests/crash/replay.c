/*
 * Crashes made from the log of a program (log.h, loss.h, whole.h).
 *
 *   crash_replay mark LOG                 notes that a program has ended well
 *   crash_replay whole LOG OUT            makes the folder as the program left it, out of the log alone
 *   crash_replay crash LOG SEED OUT       makes the folder as one crash leaves it
 *   crash_replay check LOG FIRST COUNT [--folder GLOB]... [--lines GLOB]... [--free GLOB]... [--promise
 * TEXT]... looks at so many crashes; 1 when something is not whole. The last line counts, the one before has
 * the seeds that left something torn or old
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "crash/whole.h"

#define PATH_BYTES 4096

static void write_file(const char *path, const struct crash_content *content)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) crash_die("%s: %s", path, strerror(errno));
    size_t written = fwrite(content->data, 1, content->bytes, file);
    if (fclose(file) != 0 || written != content->bytes) crash_die("%s: cannot be written", path);
}

static void write_folder(const struct crash_state *state, size_t node, const char *path)
{
    if (mkdir(path, 0777) != 0) crash_die("%s: %s", path, strerror(errno));
    for (size_t i = 0; i < state->tree.entries; i++) {
        const struct crash_entry *entry = &state->tree.entry[i];
        char inner[PATH_BYTES];
        if (entry->folder != node) continue;
        (void)snprintf(inner, sizeof inner, "%s/%s", path, entry->name);
        if (state->history->node[entry->node].folder) {
            write_folder(state, entry->node, inner);
            continue;
        }
        struct crash_content content = crash_state_file(state, entry->node);
        write_file(inner, &content);
        free(content.data);
    }
}

static int mark(const char *path)
{
    const struct crash_header header = {.kind = CRASH_MARK};
    FILE *file = fopen(path, "ab");
    if (file == NULL) crash_die("%s: %s", path, strerror(errno));
    size_t written = fwrite(&header, sizeof header, 1, file);
    if (fclose(file) != 0 || written != 1) crash_die("%s: cannot be written", path);
    return 0;
}

static uint64_t number(const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') crash_die("'%s' is not a number", text);
    return value;
}

static int make(const struct crash_history *history, const char *seed, const char *out)
{
    struct crash_state state =
        seed != NULL ? crash_lose(history, number(seed)) : crash_keep_all(history, history->ops);
    write_folder(&state, 0, out);
    printf("after operation %zu of %zu\n", state.at, history->ops);
    crash_state_free(&state);
    return 0;
}

static void add_pattern(const char *list[CRASH_PATTERNS], const char *pattern)
{
    size_t used = 0;
    while (used < CRASH_PATTERNS && list[used] != NULL) used++;
    if (used == CRASH_PATTERNS) crash_die("too many patterns");
    list[used] = pattern;
}

static struct crash_rules read_rules(int count, char **words)
{
    struct crash_rules rules = {0};
    for (int i = 0; i < count; i += 2) {
        if (i + 1 == count) crash_die("%s: a pattern is missing", words[i]);
        if (strcmp(words[i], "--folder") == 0) {
            add_pattern(rules.folder, words[i + 1]);
        } else if (strcmp(words[i], "--lines") == 0) {
            add_pattern(rules.lines, words[i + 1]);
        } else if (strcmp(words[i], "--free") == 0) {
            add_pattern(rules.free, words[i + 1]);
        } else if (strcmp(words[i], "--promise") == 0) {
            add_pattern(rules.promise, words[i + 1]);
        } else {
            crash_die("%s: unknown", words[i]);
        }
    }
    return rules;
}

static int check(const struct crash_history *history, uint64_t first, uint64_t count,
                 const struct crash_rules *rules)
{
    struct crash_moments moments = crash_moments_find(history);
    struct crash_tally tally = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct crash_state state = crash_lose(history, seed);
        crash_check(&state, &moments, rules, &tally);
        crash_state_free(&state);
    }
    int status = tally.broken > 0 ? 1 : 0;
    printf("marred:");
    for (size_t i = 0; i < tally.marred_count; i++) printf(" %llu", (unsigned long long)tally.marred[i]);
    printf(
        "\n%zu crashes of %zu operations: names lost in %zu, %zu older, %zu missing, %zu torn, %zu broken\n",
        tally.crashes, history->ops, tally.lost_names, tally.older, tally.missing, tally.torn, tally.broken);
    crash_tally_free(&tally);
    crash_moments_free(&moments);
    return status;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "mark") == 0 && argc == 3) return mark(argv[2]);
    bool whole = strcmp(what, "whole") == 0 && argc == 4;
    bool crash = strcmp(what, "crash") == 0 && argc == 5;
    bool checks = strcmp(what, "check") == 0 && argc >= 5;
    if (!whole && !crash && !checks)
        crash_die("mark LOG | whole LOG OUT | crash LOG SEED OUT | check LOG FIRST COUNT ...");
    struct crash_history history = crash_history_read(argv[2]);
    if (history.ops == 0) crash_die("%s: is empty", argv[2]);
    struct crash_rules rules = checks ? read_rules(argc - 5, argv + 5) : (struct crash_rules){0};
    int status = 0;
    if (whole) status = make(&history, NULL, argv[3]);
    if (crash) status = make(&history, argv[3], argv[4]);
    if (checks) {
        uint64_t first = number(argv[3]);
        status = check(&history, first, number(argv[4]), &rules);
    }
    crash_history_free(&history);
    return status;
}
