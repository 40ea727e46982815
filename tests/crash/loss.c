/* Choosing what a crash leaves. */
#include "crash/loss.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 4096u

// ------------------------------------------------------------------ chance

/* A number for a place: the finisher of SplitMix64 on all of it. */
static uint64_t draw(uint64_t seed, uint64_t one, uint64_t two)
{
    uint64_t value = seed;
    const uint64_t parts[] = {one, two};
    for (int i = 0; i < 2; i++) {
        value = (value ^ parts[i]) + 0x9E3779B97F4A7C15u;
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
        value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
        value ^= value >> 31;
    }
    return value;
}

/* Uses of chance: the first word of a place. */
enum { DRAW_PLACE = 1, DRAW_NEAR, DRAW_ORDER, DRAW_NAME_SHARE, DRAW_DATA_SHARE, DRAW_NAMES, DRAW_FILES };

static const unsigned shares[] = {0, 25, 50, 75, 100};

static unsigned draw_share(uint64_t seed, uint64_t use)
{
    return shares[draw(seed, use, 0) % (sizeof shares / sizeof shares[0])];
}

// ------------------------------------------------------------------ names

static bool touches(const struct crash_op *op, size_t folder)
{
    return op->folder[0] == folder || (op->folder[1] != CRASH_NONE && op->folder[1] == folder);
}

static bool same_name(const struct crash_op *one, const struct crash_op *two)
{
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            if (one->folder[i] == CRASH_NONE || one->folder[i] != two->folder[j]) continue;
            if (strcmp(one->name[i], two->name[j]) == 0) return true;
        }
    }
    return false;
}

/* True when `op` cannot be on disk without the earlier one. */
static bool stands_on(const struct crash_op *op, const struct crash_op *earlier)
{
    if (same_name(op, earlier)) return true;
    size_t gone = op->kind == CRASH_RMDIR ? op->node : op->kind == CRASH_RENAME ? op->other : CRASH_NONE;
    return gone != CRASH_NONE && touches(earlier, gone);
}

/* Marks what syncs have made safe. */
static void keep_synced(const struct crash_history *history, size_t at, bool *kept)
{
    for (size_t i = 0; i < at; i++) {
        const struct crash_op *sync = &history->op[i];
        bool all = sync->kind == CRASH_SYNC_ALL;
        if (!all && (sync->kind != CRASH_SYNC || !history->node[sync->node].folder)) continue;
        for (size_t j = 0; j < i; j++) {
            const struct crash_op *op = &history->op[j];
            if (crash_op_names(op) && (all || touches(op, sync->node))) kept[j] = true;
        }
    }
}

/* With everything that is kept goes what it stands on. */
static void keep_needed(const struct crash_history *history, size_t at, bool *kept)
{
    for (size_t i = at; i-- > 0;) {
        for (size_t j = 0; j < i && kept[i]; j++) {
            if (kept[j] || !crash_op_names(&history->op[j])) continue;
            kept[j] = stands_on(&history->op[i], &history->op[j]);
        }
    }
}

static void choose_names(const struct crash_history *history, uint64_t seed, size_t at, bool *kept)
{
    memset(kept, 0, history->ops * sizeof *kept);
    keep_synced(history, at, kept);
    keep_needed(history, at, kept);
    if (draw(seed, DRAW_ORDER, 0) % 2 == 0) {
        size_t last = 0;
        for (size_t i = 0; i < at; i++) last = kept[i] ? i + 1 : last;
        size_t end = last + draw(seed, DRAW_ORDER, 1) % (at - last + 1);
        for (size_t i = 0; i < end; i++) kept[i] = crash_op_names(&history->op[i]);
        return;
    }
    unsigned share = draw_share(seed, DRAW_NAME_SHARE);
    for (size_t i = 0; i < at; i++) {
        bool keep = crash_op_names(&history->op[i]) && draw(seed, DRAW_NAMES, i) % 100 < share;
        kept[i] = kept[i] || keep;
    }
    keep_needed(history, at, kept);
}

// ------------------------------------------------------------------ states

/* When: of four crashes one comes anywhere, two after what is not just one more write, one when a program has
 * ended. */
static bool is_time(const struct crash_op *op, uint64_t near)
{
    if (near == 3) return op->kind == CRASH_MARK;
    return near == 0 || op->kind != CRASH_WRITE;
}

static size_t choose_time(const struct crash_history *history, uint64_t seed)
{
    uint64_t near = draw(seed, DRAW_NEAR, 0) % 4;
    size_t count = 0;
    for (size_t i = 0; i < history->ops; i++) count += is_time(&history->op[i], near) ? 1 : 0;
    size_t left = count > 0 ? draw(seed, DRAW_PLACE, 0) % count + 1 : 0;
    size_t at = 0;
    while (at < history->ops && left > 0) left -= is_time(&history->op[at++], near) ? 1 : 0;
    return at > 0 ? at : history->ops;
}

struct crash_state crash_lose(const struct crash_history *history, uint64_t seed)
{
    struct crash_state state = {.history = history, .seed = seed};
    bool *kept = crash_grow(NULL, history->ops, sizeof *kept);
    state.at = choose_time(history, seed);
    state.keep = draw_share(seed, DRAW_DATA_SHARE);
    choose_names(history, seed, state.at, kept);
    for (size_t i = 0; i < state.at; i++) {
        if (kept[i]) crash_tree_apply(&state.tree, &history->op[i]);
        if (!kept[i] && crash_op_names(&history->op[i])) state.lost_names++;
    }
    free(kept);
    return state;
}

struct crash_state crash_keep_all(const struct crash_history *history, size_t at)
{
    struct crash_state state = {.history = history, .at = at, .whole = true};
    for (size_t i = 0; i < at; i++) crash_tree_apply(&state.tree, &history->op[i]);
    return state;
}

void crash_state_free(struct crash_state *state)
{
    crash_tree_free(&state->tree);
}

// ------------------------------------------------------------------ bytes

/* The operations of a file that happened before a crash. */
struct past {
    const struct crash_history *history;
    const size_t *op;
    size_t count;
    size_t synced; // so many of them are safe
};

static struct past past_of(const struct crash_state *state, size_t node)
{
    const struct crash_node *file = &state->history->node[node];
    struct past past = {.history = state->history, .op = file->op};
    while (past.count < file->ops && file->op[past.count] < state->at) {
        enum crash_kind kind = state->history->op[file->op[past.count]].kind;
        past.count++;
        if (kind == CRASH_SYNC || kind == CRASH_SYNC_ALL) past.synced = past.count;
    }
    return past;
}

static const struct crash_op *past_op(const struct past *past, size_t i)
{
    return &past->history->op[past->op[i]];
}

static uint64_t size_after(const struct past *past, size_t count)
{
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const struct crash_op *op = past_op(past, i);
        uint64_t end = op->offset + op->bytes;
        if (op->kind == CRASH_TRUNCATE || (op->kind == CRASH_WRITE && end > size)) size = end;
    }
    return size;
}

/* How many operations a block has seen: one that the size says was cut cannot have missed the cutting. */
static size_t choose_version(const struct crash_state *state, const struct past *past, size_t node,
                             uint64_t block, size_t sized)
{
    size_t least = past->synced;
    if (state->whole) return past->count;
    for (size_t i = least; i < sized; i++) {
        const struct crash_op *op = past_op(past, i);
        if (op->kind == CRASH_TRUNCATE && op->offset < (block + 1) * BLOCK_BYTES) least = i + 1;
    }
    uint64_t chance = draw(draw(state->seed, DRAW_FILES, node), 1, block);
    if (chance % 100 < state->keep) return past->count;
    return least + (chance >> 32) % (past->count - least + 1);
}

/* Does to one block of a file what an operation did. */
static void apply_to_block(unsigned char *data, uint64_t block, const struct crash_op *op)
{
    uint64_t start = block * BLOCK_BYTES;
    uint64_t end = start + BLOCK_BYTES;
    uint64_t from = op->offset > start ? op->offset : start;
    if (op->kind == CRASH_TRUNCATE && from < end) memset(data + from, 0, (size_t)(end - from));
    if (op->kind != CRASH_WRITE) return;
    uint64_t to = op->offset + op->bytes < end ? op->offset + op->bytes : end;
    if (from < to) memcpy(data + from, op->data + (from - op->offset), (size_t)(to - from));
}

/* Every operation that reached its block, block by block, in order. */
static void fill(const struct crash_state *state, const struct past *past, size_t node, size_t sized,
                 unsigned char *data, size_t blocks)
{
    size_t *version = crash_grow(NULL, blocks, sizeof *version);
    for (size_t b = 0; b < blocks; b++) version[b] = choose_version(state, past, node, b, sized);
    for (size_t i = 0; i < past->count; i++) {
        const struct crash_op *op = past_op(past, i);
        size_t first = (size_t)(op->offset / BLOCK_BYTES);
        size_t end = (size_t)((op->offset + op->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
        if (op->kind == CRASH_TRUNCATE) end = blocks;
        for (size_t b = first; b < end && b < blocks; b++) {
            if (i < version[b]) apply_to_block(data, b, op);
        }
    }
    free(version);
}

struct crash_content crash_state_file(const struct crash_state *state, size_t node)
{
    struct past past = past_of(state, node);
    size_t sized = past.count;
    uint64_t chance = draw(draw(state->seed, DRAW_FILES, node), 0, 0);
    if (!state->whole && chance % 100 >= state->keep)
        sized = past.synced + (size_t)((chance >> 32) % (past.count - past.synced + 1));
    struct crash_content content = {.bytes = (size_t)size_after(&past, sized)};
    size_t blocks = (content.bytes + BLOCK_BYTES - 1) / BLOCK_BYTES;
    content.data = crash_grow(NULL, blocks, BLOCK_BYTES);
    memset(content.data, 0, blocks * BLOCK_BYTES);
    fill(state, &past, node, sized, content.data, blocks);
    return content;
}
