/* Many programs at a time, each alone or with another that judges it. */
#define _GNU_SOURCE
#include "eval/code/sandbox_many.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define PROGRAM_GONE      3    // exit status of a judge that says so (src/eval/code/python/tests.py)
#define MOST_STARTS       4    // of one program, where its sandbox fails
#define REST_SECONDS      0.25 // before it is started again, times the failures so far

#define DESCRIPTORS_EACH  24 // a program and its judge hold up to 20
#define OTHER_DESCRIPTORS 64 // metier's own

/* A program and its judge. */
struct judged_pair {
    struct mt_sandbox program;
    struct mt_sandbox judge; // not running: the program stands alone
    bool judged;             // there is a judge
    bool running;
    struct mt_sandbox_result result; // complete once `running` is false
};

#define PAIR_DESCRIPTORS (2 * MT_SANDBOX_DESCRIPTORS)

// ------------------------------------------------------------------ two programs that talk

static void stop_pair(struct judged_pair *pair)
{
    mt_sandbox_stop(&pair->program);
    mt_sandbox_stop(&pair->judge);
    pair->running = false;
}

/* A judge without text: the program stands alone, and passes by itself. */
static enum mt_status start_pair(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                 struct mt_text program, struct mt_text judge, struct judged_pair *pair)
{
    memset(pair, 0, sizeof *pair);
    pair->judged = judge.bytes > 0;
    pair->result.outcome = MT_SANDBOX_COULD_NOT_START;
    int ends[2] = {0, 0};
    if (pair->judged && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "cannot join two programs: %s", strerror(errno));
    struct mt_sandbox_options own = *options;
    own.talk = ends[0];
    enum mt_status status = mt_sandbox_start(ctx, &own, program.text, program.bytes, &pair->program);
    own.talk = ends[1];
    if (status == MT_OK && pair->judged)
        status = mt_sandbox_start(ctx, &own, judge.text, judge.bytes, &pair->judge);
    pair->judge.judged = &pair->program;
    // With ours closed, the end of one program is the end of the other's channel.
    for (int i = 0; i < 2 && pair->judged; i++) (void)close(ends[i]);
    if (status != MT_OK) stop_pair(pair);
    pair->running = status == MT_OK;
    return status;
}

/* The judge's word, unless the program ended before it in a way of its own. */
static void conclude(struct judged_pair *pair, bool program_ended)
{
    const struct mt_sandbox_result *program = &pair->program.result;
    const struct mt_sandbox_result *judge = &pair->judge.result;
    bool own_end = !pair->judged || (program_ended && program->outcome != MT_SANDBOX_PASSED);
    pair->result = own_end ? *program : *judge;
    if (!pair->judged) return;
    if (program->peak_memory > pair->result.peak_memory) pair->result.peak_memory = program->peak_memory;
    if (judge->seconds > pair->result.seconds) pair->result.seconds = judge->seconds;
}

/*
 * A judge that found the program gone is seen to end, at times, before the program. How that ends is the
 * outcome; one that only closed its channel has its time limit.
 */
static bool awaits_program(const struct judged_pair *pair)
{
    return pair->judged && pair->program.running && pair->judge.result.exit_status == PROGRAM_GONE;
}

static enum mt_status step_pair(struct judged_pair *pair)
{
    if (!pair->running) return MT_OK;
    enum mt_status status = mt_sandbox_step(&pair->program);
    if (status == MT_OK) status = mt_sandbox_step(&pair->judge);
    bool ended = pair->judged ? !pair->judge.running : !pair->program.running;
    if (status == MT_OK && (!ended || awaits_program(pair))) return MT_OK;
    bool program_ended = !pair->program.running;
    stop_pair(pair);
    if (status == MT_OK) conclude(pair, program_ended);
    return status;
}

// ------------------------------------------------------------------ many

struct crowd_slot {
    size_t index;
    int failures;    // of its sandbox
    double again_at; // clock; when it is started again; 0: it is not
    struct judged_pair pair;
};

struct crowd {
    struct mt_context *ctx;
    const struct mt_sandbox_options *options;
    const struct mt_sandbox_batch *batch;
    struct mt_byte_list text;
    struct mt_byte_list judge;
    struct crowd_slot *slots; // [at_once]
    struct pollfd *waits;     // [at_once · PAIR_DESCRIPTORS]
    size_t at_once;
    size_t next; // program to start
    size_t done;
};

/* How many programs there are descriptors for: with many processors the usual limit of 1,024 is too few. */
static size_t room_for_descriptors(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
    rlim_t left = files.rlim_cur > OTHER_DESCRIPTORS ? files.rlim_cur - OTHER_DESCRIPTORS : 0;
    return left > DESCRIPTORS_EACH ? (size_t)(left / DESCRIPTORS_EACH) : 1;
}

static size_t how_many(const struct mt_sandbox_batch *batch)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t at_once = batch->at_once > 0 ? (size_t)batch->at_once : processors > 0 ? (size_t)processors : 1;
    size_t room = room_for_descriptors();
    if (at_once > MT_SANDBOX_MOST_AT_ONCE) at_once = MT_SANDBOX_MOST_AT_ONCE;
    if (at_once > room) at_once = room;
    return at_once < batch->count ? at_once : batch->count;
}

/*
 * A sandbox that fails although sandboxes work here: the machine is short of something (namespaces,
 * processes, memory of the kernel's), mostly for a moment. False: it has failed often enough.
 */
static bool is_put_off(struct crowd_slot *slot, enum mt_status status)
{
    if (status != MT_ERR_UNSUPPORTED) return false;
    slot->failures++;
    slot->again_at = mt_clock_seconds() + REST_SECONDS * slot->failures;
    return slot->failures < MOST_STARTS;
}

/* Starts the slot's program. */
static enum mt_status start(struct crowd *crowd, struct crowd_slot *slot)
{
    struct mt_sandbox_options options = *crowd->options;
    crowd->text.count = 0;
    crowd->judge.count = 0;
    slot->again_at = 0;
    const struct mt_sandbox_batch *batch = crowd->batch;
    enum mt_status status = batch->program(batch->self, slot->index, &crowd->text, &options);
    if (status == MT_OK && batch->judge != NULL)
        status = batch->judge(batch->self, slot->index, &crowd->judge);
    if (status != MT_OK) return status;
    status =
        start_pair(crowd->ctx, &options, mt_text_in(&crowd->text), mt_text_in(&crowd->judge), &slot->pair);
    return is_put_off(slot, status) ? MT_OK : status;
}

static enum mt_status start_next(struct crowd *crowd, struct crowd_slot *slot)
{
    slot->index = crowd->next++;
    slot->failures = 0;
    return start(crowd, slot);
}

/* The slot's program goes on, ends, or is put off. */
static enum mt_status step_slot(struct crowd *crowd, struct crowd_slot *slot)
{
    enum mt_status status = step_pair(&slot->pair);
    if (status != MT_OK) return is_put_off(slot, status) ? MT_OK : status;
    if (slot->pair.running) return MT_OK;
    crowd->done++;
    return crowd->batch->done(crowd->batch->self, slot->index, &slot->pair.result);
}

static void wait_for_any(struct crowd *crowd)
{
    size_t count = 0;
    for (size_t i = 0; i < crowd->at_once; i++) {
        count += (size_t)mt_sandbox_descriptors(&crowd->slots[i].pair.program, crowd->waits + count);
        count += (size_t)mt_sandbox_descriptors(&crowd->slots[i].pair.judge, crowd->waits + count);
    }
    (void)poll(crowd->waits, (nfds_t)count, (int)(MT_SANDBOX_WATCH_SECONDS * 1000));
}

static enum mt_status step_all(struct crowd *crowd)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < crowd->at_once && status == MT_OK; i++) {
        struct crowd_slot *slot = &crowd->slots[i];
        if (slot->pair.running) status = step_slot(crowd, slot);
        if (status != MT_OK || slot->pair.running) continue;
        if (slot->again_at > 0) {
            if (mt_clock_seconds() >= slot->again_at) status = start(crowd, slot);
        } else if (crowd->next < crowd->batch->count) {
            status = start_next(crowd, slot);
        }
    }
    return status;
}

enum mt_status mt_sandbox_run_many(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                   const struct mt_sandbox_batch *batch)
{
    if (batch->count == 0) return MT_OK;
    struct crowd crowd = {
        .ctx = ctx, .options = options, .batch = batch, .text = {.ctx = ctx}, .judge = {.ctx = ctx}};
    crowd.at_once = how_many(batch);
    size_t waits = crowd.at_once * PAIR_DESCRIPTORS;
    void *block = NULL;
    enum mt_status status = mt_allocate_array(ctx, crowd.at_once, sizeof *crowd.slots, &block);
    if (status != MT_OK) return status;
    crowd.slots = block;
    block = NULL;
    status = mt_allocate_array(ctx, waits, sizeof *crowd.waits, &block);
    crowd.waits = block;
    while (status == MT_OK && crowd.done < batch->count) {
        status = step_all(&crowd);
        if (status == MT_OK && crowd.done < batch->count) wait_for_any(&crowd);
    }
    for (size_t i = 0; i < crowd.at_once; i++) stop_pair(&crowd.slots[i].pair);
    mt_byte_list_free(&crowd.text);
    mt_byte_list_free(&crowd.judge);
    mt_release(ctx, crowd.waits, waits * sizeof *crowd.waits);
    mt_release(ctx, crowd.slots, crowd.at_once * sizeof *crowd.slots);
    return status;
}
