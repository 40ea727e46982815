/* Comparing a crash with what a program left. */
#define _GNU_SOURCE // memmem
#include "crash/whole.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES 4096
#define TEMPORARY  ".tmp."

struct paths {
    char **path; // owned
    size_t count;
};

static void free_paths(struct paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) free(paths->path[i]);
    free(paths->path);
}

static char *copy_text(const char *text)
{
    char *copy = crash_grow(NULL, strlen(text) + 1, 1);
    memcpy(copy, text, strlen(text) + 1);
    return copy;
}

static void add_path(struct paths *paths, const char *path)
{
    for (size_t i = 0; i < paths->count; i++) {
        if (strcmp(paths->path[i], path) == 0) return;
    }
    paths->path = crash_grow(paths->path, paths->count + 1, sizeof *paths->path);
    paths->path[paths->count++] = copy_text(path);
}

/* A path and all below it; nothing of what is temporary. */
static void add_below(const struct crash_tree *tree, size_t node, const char *path, struct paths *paths)
{
    if (strstr(path, TEMPORARY) != NULL) return;
    if (path[0] != '\0') add_path(paths, path);
    for (size_t i = 0; i < tree->entries; i++) {
        char inner[PATH_BYTES];
        if (tree->entry[i].folder != node) continue;
        (void)snprintf(inner, sizeof inner, "%s%s%s", path, path[0] != '\0' ? "/" : "", tree->entry[i].name);
        add_below(tree, tree->entry[i].node, inner, paths);
    }
}

// ------------------------------------------------------------------ digests

/* FNV-1a, of 64 bits. */
static uint64_t digest_bytes(uint64_t digest, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) digest = (digest ^ byte[i]) * 0x100000001B3u;
    return digest;
}

static uint64_t digest_node(const struct crash_state *state, size_t node)
{
    uint64_t digest = 0xCBF29CE484222325u;
    const struct crash_tree *tree = &state->tree;
    if (!state->history->node[node].folder) {
        struct crash_content content = crash_state_file(state, node);
        digest = digest_bytes(digest, content.data, content.bytes);
        free(content.data);
        return digest | 1u;
    }
    // A sum, because entries have no order.
    for (size_t i = 0; i < tree->entries; i++) {
        const struct crash_entry *entry = &tree->entry[i];
        if (entry->folder != node || strstr(entry->name, TEMPORARY) != NULL) continue;
        uint64_t inner = digest_node(state, entry->node);
        inner = digest_bytes(inner, entry->name, strlen(entry->name));
        digest += inner;
    }
    return digest | 1u;
}

static uint64_t digest_at(const struct crash_state *state, const char *path)
{
    size_t node = crash_tree_at(&state->tree, path);
    return node == CRASH_NONE ? 0 : digest_node(state, node);
}

// ------------------------------------------------------------------ moments

/* Where a folder is; false for one that has no name any more. */
static bool find_folder(const struct crash_tree *tree, size_t node, char path[PATH_BYTES])
{
    path[0] = '\0';
    if (node == 0) return true;
    for (size_t i = 0; i < tree->entries; i++) {
        if (tree->entry[i].node != node) continue;
        if (!find_folder(tree, tree->entry[i].folder, path)) return false;
        size_t used = strlen(path);
        (void)snprintf(path + used, PATH_BYTES - used, "%s/", tree->entry[i].name);
        return true;
    }
    return false;
}

/* What is at the names of an operation, and below. */
static void add_named(const struct crash_tree *tree, const struct crash_op *op, struct paths *paths)
{
    for (int i = 0; i < 2 && op->kind != CRASH_CREATE && op->kind != CRASH_MKDIR; i++) {
        char path[PATH_BYTES];
        if (op->folder[i] == CRASH_NONE || !find_folder(tree, op->folder[i], path)) continue;
        size_t used = strlen(path);
        (void)snprintf(path + used, PATH_BYTES - used, "%s", op->name[i]);
        add_below(tree, crash_tree_at(tree, path), path, paths);
    }
}

struct crash_moments crash_moments_find(const struct crash_history *history)
{
    struct crash_moments moments = {0};
    struct crash_state state = {.history = history, .whole = true};
    for (size_t i = 0; i < history->ops; i++) {
        const struct crash_op *op = &history->op[i];
        struct paths paths = {0};
        add_named(&state.tree, op, &paths);
        crash_tree_apply(&state.tree, op);
        state.at = i + 1;
        add_named(&state.tree, op, &paths);
        if (op->kind == CRASH_MARK) add_below(&state.tree, 0, "", &paths);
        moments.moment = crash_grow(moments.moment, moments.count + paths.count, sizeof *moments.moment);
        for (size_t p = 0; p < paths.count; p++) {
            uint64_t digest = digest_at(&state, paths.path[p]);
            moments.moment[moments.count++] = (struct crash_moment){copy_text(paths.path[p]), i, digest};
        }
        free_paths(&paths);
    }
    crash_state_free(&state);
    return moments;
}

void crash_moments_free(struct crash_moments *moments)
{
    for (size_t i = 0; i < moments->count; i++) free(moments->moment[i].path);
    free(moments->moment);
    *moments = (struct crash_moments){0};
}

// ------------------------------------------------------------------ checking

static bool matches(const char *const patterns[CRASH_PATTERNS], const char *path)
{
    for (size_t i = 0; i < CRASH_PATTERNS && patterns[i] != NULL; i++) {
        if (fnmatch(patterns[i], path, FNM_PATHNAME) == 0) return true;
    }
    return false;
}

/* True for what lies in a folder that is one thing, and is looked at with it. */
static bool is_inside(const struct crash_rules *rules, const char *path)
{
    char above[PATH_BYTES];
    (void)snprintf(above, sizeof above, "%s", path);
    for (char *slash = strrchr(above, '/'); slash != NULL; slash = strrchr(above, '/')) {
        *slash = '\0';
        if (matches(rules->folder, above)) return true;
    }
    return false;
}

static bool is_promise(const struct crash_op *op, const struct crash_rules *rules)
{
    for (size_t i = 0; op->kind == CRASH_WRITE && i < CRASH_PATTERNS && rules->promise[i] != NULL; i++) {
        if (memmem(op->data, (size_t)op->bytes, rules->promise[i], strlen(rules->promise[i])) != NULL)
            return true;
    }
    return false;
}

/* The operations up to the last mark before the crash, or, with rules, the last promise. */
static size_t marked(const struct crash_state *state, const struct crash_rules *rules)
{
    for (size_t i = state->at; i-- > 0;) {
        const struct crash_op *op = &state->history->op[i];
        if (op->kind == CRASH_MARK || (rules != NULL && is_promise(op, rules))) return i + 1;
    }
    return 0;
}

enum wholeness { BROKEN, OLDER, NEWEST };

static enum wholeness judge(const struct crash_state *state, const struct crash_moments *moments,
                            const struct crash_rules *rules, const char *path, uint64_t digest)
{
    size_t mark = marked(state, rules);
    uint64_t newest = 0;
    bool found = digest == 0; // before the first moment it was not there
    for (size_t i = 0; i < moments->count && moments->moment[i].op < state->at; i++) {
        const struct crash_moment *moment = &moments->moment[i];
        if (strcmp(moment->path, path) != 0) continue;
        newest = moment->digest;
        found = moment->digest == digest || (found && moment->op >= mark);
    }
    if (!found) return BROKEN;
    return digest == newest ? NEWEST : OLDER;
}

/* The bytes of the lines that count. */
static size_t count_lines(const struct crash_content *content)
{
    size_t bytes = 0;
    for (size_t i = 0; i < content->bytes && content->data[i] != '\0'; i++) {
        if (content->data[i] == '\n') bytes = i + 1;
    }
    return bytes;
}

/* What a program that has ended has left in a file must be there, unless it was cut since. */
static size_t safe_bytes(const struct crash_state *state, size_t node)
{
    const struct crash_node *file = &state->history->node[node];
    const struct crash_state ended = {.history = state->history, .at = marked(state, NULL), .whole = true};
    for (size_t i = 0; i < file->ops; i++) {
        bool since = file->op[i] >= ended.at && file->op[i] < state->at;
        if (since && state->history->op[file->op[i]].kind == CRASH_TRUNCATE) return 0;
    }
    struct crash_content content = crash_state_file(&ended, node);
    size_t bytes = count_lines(&content);
    free(content.data);
    return bytes;
}

/* True when the program had a file that began like this: as it was at the crash, or before it was ever cut.
 */
static bool began_like(const struct crash_state *state, size_t node, const unsigned char *data, size_t bytes)
{
    const struct crash_node *file = &state->history->node[node];
    bool found = false;
    for (size_t i = 0; i <= file->ops && !found; i++) {
        bool last = i == file->ops || file->op[i] >= state->at;
        if (!last && state->history->op[file->op[i]].kind != CRASH_TRUNCATE) continue;
        const struct crash_state before = {
            .history = state->history, .at = last ? state->at : file->op[i], .whole = true};
        struct crash_content content = crash_state_file(&before, node);
        found = content.bytes >= bytes && memcmp(content.data, data, bytes) == 0;
        free(content.data);
        if (last) break;
    }
    return found;
}

static bool check_lines(const struct crash_state *state, size_t node, struct crash_tally *tally)
{
    struct crash_content content = crash_state_file(state, node);
    size_t bytes = count_lines(&content);
    bool fine = bytes >= safe_bytes(state, node) && began_like(state, node, content.data, bytes);
    if (bytes < content.bytes) tally->torn++;
    free(content.data);
    return fine;
}

/* True for a file of lines that a program synced before it wrote on: it counts on the file's name. */
static bool is_counted_on(const struct crash_state *before, const char *path)
{
    size_t node = crash_tree_at(&before->tree, path);
    bool synced = false;
    for (size_t i = 0; node != CRASH_NONE && i < before->history->node[node].ops; i++) {
        size_t op = before->history->node[node].op[i];
        if (op >= before->at) break;
        enum crash_kind kind = before->history->op[op].kind;
        if (synced && kind == CRASH_WRITE) return true;
        synced = synced || kind == CRASH_SYNC;
    }
    return false;
}

/* `before`: as the program left it when the crash came. */
static bool check_path(const struct crash_state *state, const struct crash_state *before,
                       const struct crash_moments *moments, const struct crash_rules *rules, const char *path,
                       struct crash_tally *tally)
{
    size_t node = crash_tree_at(&state->tree, path);
    bool plain_folder =
        node != CRASH_NONE && state->history->node[node].folder && !matches(rules->folder, path);
    if (plain_folder || matches(rules->free, path) || is_inside(rules, path)) return true;
    if (node != CRASH_NONE && matches(rules->lines, path)) return check_lines(state, node, tally);
    if (matches(rules->lines, path) && is_counted_on(before, path)) return false;
    enum wholeness found = judge(state, moments, rules, path, digest_at(state, path));
    if (found == OLDER && node != CRASH_NONE) tally->older++;
    if (found == OLDER && node == CRASH_NONE) tally->missing++;
    return found != BROKEN;
}

void crash_check(const struct crash_state *state, const struct crash_moments *moments,
                 const struct crash_rules *rules, struct crash_tally *tally)
{
    struct paths paths = {0};
    struct crash_state before = crash_keep_all(state->history, state->at);
    add_below(&state->tree, 0, "", &paths);
    add_below(&before.tree, 0, "", &paths);
    for (size_t i = 0; i < moments->count; i++) {
        if (moments->moment[i].op < state->at) add_path(&paths, moments->moment[i].path);
    }
    size_t marred = tally->older + tally->missing + tally->torn;
    tally->crashes++;
    tally->lost_names += state->lost_names > 0 ? 1 : 0;
    for (size_t i = 0; i < paths.count; i++) {
        if (check_path(state, &before, moments, rules, paths.path[i], tally)) continue;
        bool there = crash_tree_at(&state->tree, paths.path[i]) != CRASH_NONE;
        printf("seed %llu, after operation %zu of %zu: %s is %s\n", (unsigned long long)state->seed,
               state->at, state->history->ops, paths.path[i],
               there ? "neither an older nor a newer state" : "gone, though it was finished");
        tally->broken++;
    }
    if (tally->older + tally->missing + tally->torn > marred) {
        tally->marred = crash_grow(tally->marred, tally->marred_count + 1, sizeof *tally->marred);
        tally->marred[tally->marred_count++] = state->seed;
    }
    crash_state_free(&before);
    free_paths(&paths);
}

void crash_tally_free(struct crash_tally *tally)
{
    free(tally->marred);
    *tally = (struct crash_tally){0};
}
