/* Many programs, some of them at a time: slots, each with a program on its way. */
#include "eval/code/sandbox_many.h"

#include <unistd.h>

struct slot {
    size_t index;
    struct mt_sandbox_pair pair;
};

struct crowd {
    struct mt_context *ctx;
    const struct mt_sandbox_options *options;
    const struct mt_sandbox_batch *batch;
    struct mt_byte_list text;
    struct mt_byte_list judge;
    struct slot *slots;   // [at_once]
    struct pollfd *waits; // [at_once · MT_SANDBOX_PAIR_DESCRIPTORS]
    size_t at_once;
    size_t next; // program to start
    size_t done;
};

static size_t how_many(const struct mt_sandbox_batch *batch)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t at_once = batch->at_once > 0 ? (size_t)batch->at_once : processors > 0 ? (size_t)processors : 1;
    if (at_once > MT_SANDBOX_MOST_AT_ONCE) at_once = MT_SANDBOX_MOST_AT_ONCE;
    return at_once < batch->count ? at_once : batch->count;
}

static enum mt_status start_next(struct crowd *crowd, struct slot *slot)
{
    struct mt_sandbox_options options = *crowd->options;
    crowd->text.count = 0;
    crowd->judge.count = 0;
    slot->index = crowd->next++;
    const struct mt_sandbox_batch *batch = crowd->batch;
    enum mt_status status = batch->program(batch->self, slot->index, &crowd->text, &options);
    if (status == MT_OK && batch->judge != NULL)
        status = batch->judge(batch->self, slot->index, &crowd->judge);
    if (status != MT_OK) return status;
    struct mt_text program = {.text = (const char *)crowd->text.data, .bytes = crowd->text.count};
    struct mt_text judge = {.text = (const char *)crowd->judge.data, .bytes = crowd->judge.count};
    return mt_sandbox_pair_start(crowd->ctx, &options, program, judge, &slot->pair);
}

static void wait_for_any(struct crowd *crowd)
{
    size_t count = 0;
    for (size_t i = 0; i < crowd->at_once; i++) {
        count += (size_t)mt_sandbox_pair_descriptors(&crowd->slots[i].pair, crowd->waits + count);
    }
    (void)poll(crowd->waits, (nfds_t)count, (int)(MT_SANDBOX_WATCH_SECONDS * 1000));
}

static enum mt_status step_all(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->at_once; i++) {
        struct slot *slot = &crowd->slots[i];
        enum mt_status status = MT_OK;
        if (slot->pair.running) {
            status = mt_sandbox_pair_step(&slot->pair);
            if (status == MT_OK && slot->pair.running) continue;
            if (status == MT_OK)
                status = crowd->batch->done(crowd->batch->self, slot->index, &slot->pair.result);
            crowd->done++;
        }
        if (status == MT_OK && crowd->next < crowd->batch->count) status = start_next(crowd, slot);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_sandbox_run_many(struct mt_context *ctx, const struct mt_sandbox_options *options,
                                   const struct mt_sandbox_batch *batch)
{
    if (batch->count == 0) return MT_OK;
    struct crowd crowd = {
        .ctx = ctx, .options = options, .batch = batch, .text = {.ctx = ctx}, .judge = {.ctx = ctx}};
    crowd.at_once = how_many(batch);
    size_t waits = crowd.at_once * MT_SANDBOX_PAIR_DESCRIPTORS;
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
    for (size_t i = 0; i < crowd.at_once; i++) mt_sandbox_pair_stop(&crowd.slots[i].pair);
    mt_byte_list_free(&crowd.text);
    mt_byte_list_free(&crowd.judge);
    mt_release(ctx, crowd.waits, waits * sizeof *crowd.waits);
    mt_release(ctx, crowd.slots, crowd.at_once * sizeof *crowd.slots);
    return status;
}
