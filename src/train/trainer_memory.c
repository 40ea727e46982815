/*
 * The memory of a run: its limit, the sizes that fit it, and what to change when it runs out. Each way to
 * compute a step is opened on a device that takes no memory, and counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "train/trainer_internal.h"

#define ADVICE       "; what helps: "
#define ADVICE_BYTES 400

// ------------------------------------------------------------------ counting

static enum mt_status count_on(struct mt_trainer *trainer, struct mt_device *dry,
                               const struct mt_fit_sizes *sizes, size_t *bytes)
{
    struct mt_model_options options;
    struct mt_rank_memory memory;
    enum mt_status status = mt_trainer_model_options(trainer, sizes, &options);
    if (status == MT_OK)
        status = mt_rank_memory(dry, trainer->settings, &options, sizes, mt_comm_rank(trainer->comm),
                                mt_comm_size(trainer->comm),
                                (int)mt_batches_sources(trainer->corpus.training), &memory);
    if (status != MT_OK) return status;
    *bytes = mt_rank_memory_bytes(dry, &memory);
    trainer->memory.mapped = memory.model.mapped;
    return MT_OK;
}

/* The most that any rank would take: all of them choose alike. */
static enum mt_status count_bytes(void *self, const struct mt_fit_sizes *sizes, size_t *bytes)
{
    struct mt_trainer *trainer = self;
    struct mt_device *dry = NULL;
    *bytes = 0;
    enum mt_status status = mt_device_create(trainer->ctx, trainer->settings->device, trainer->threads, &dry);
    if (status == MT_OK) mt_device_set_dry(dry);
    if (status == MT_OK) status = count_on(trainer, dry, sizes, bytes);
    mt_device_destroy(dry);
    status = mt_comm_agree(trainer->comm, trainer->ctx, mt_trainer_fail_memory(trainer, status));
    int64_t most = (int64_t)*bytes;
    if (status == MT_OK) mt_comm_max_i64(trainer->comm, &most, 1);
    *bytes = (size_t)most;
    return status;
}

// ------------------------------------------------------------------ words

static void add(char text[ADVICE_BYTES], const char *word)
{
    size_t used = strlen(text);
    (void)snprintf(text + used, ADVICE_BYTES - used, "%s%s", used > 0 ? ", " : "", word);
}

/* What would make this run need less. One that has begun keeps what decides its result. */
static void advise(const struct mt_trainer *trainer, const struct mt_fit_sizes *sizes,
                   char text[ADVICE_BYTES])
{
    const struct mt_train_settings *s = trainer->settings;
    bool begun = trainer->numbers.step > 0;
    char word[96];
    text[0] = '\0';
    if (sizes->recompute != MT_RECOMPUTE_FULL) add(text, "recompute: full");
    if (s->activations == MT_ACTIVATIONS_F32 ||
        (s->activations == MT_ACTIVATIONS_AUTO && mt_device_activations(trainer->device) == MT_F32))
        add(text, "activations: bf16");
    (void)snprintf(word, sizeof word, "a smaller batch.tokens (now %" PRId64 ")", sizes->tokens);
    if (!begun && sizes->tokens > s->max_length) add(text, word);
    (void)snprintf(word, sizeof word, "a smaller data.max_length (now %" PRId64 ")", s->max_length);
    if (!begun) add(text, word);
    (void)snprintf(word, sizeof word, "a smaller lora.rank (now %" PRId64 ")", s->lora_rank);
    if (!begun && s->train == MT_TRAIN_LORA && s->adapter == NULL) add(text, word);
    if (!begun && s->train == MT_TRAIN_FULL) add(text, "train: lora");
    if (!begun && s->adapter == NULL) add(text, "fewer targets");
    const struct mt_quantise_options *quantise = &trainer->selection.quantise;
    const struct mt_hf_config *config = trainer->desc.config;
    bool published = config != NULL && config->quant.method != MT_HF_QUANT_NONE;
    if (!begun && !quantise->on && !published) add(text, "quantize.format");
    if (!begun && quantise->on && quantise->format != MT_QUANTISED_NF4) add(text, "quantize.format: nf4");
    if (!begun && quantise->on && !quantise->part[MT_PART_ATTENTION]) add(text, "more quantize.parts");
    add(text, trainer->memory.bound.given ? "a higher memory.limit" : "a device with more memory");
}

const struct mt_fit_try *mt_trainer_chosen(const struct mt_trainer *trainer)
{
    const struct mt_fit *fit = &trainer->memory.fit;
    return &fit->tried[fit->chosen];
}

enum mt_status mt_trainer_check_fit(const struct mt_trainer *trainer)
{
    const struct mt_fit *fit = &trainer->memory.fit;
    const struct mt_memory_bound *bound = &trainer->memory.bound;
    const struct mt_fit_try *least = &fit->tried[fit->count - 1];
    char advice[ADVICE_BYTES];
    if (fit->fits || !bound->given) return MT_OK;
    advise(trainer, &least->sizes, advice);
    return mt_fail(trainer->ctx, MT_ERR_MEMORY,
                   "memory.limit is %s, which leaves %s, and with recompute: %s and batch.tokens: %" PRId64
                   "%s this run takes %s" ADVICE "%s",
                   trainer->settings->memory_limit, mt_bytes_in_words(bound->buffers).text,
                   mt_recompute_name(least->sizes.recompute), least->sizes.tokens,
                   trainer->numbers.step > 0 ? ", with which it began," : "",
                   mt_bytes_in_words(least->bytes).text, advice);
}

enum mt_status mt_trainer_fail_memory(const struct mt_trainer *trainer, enum mt_status status)
{
    struct mt_memory_room room;
    char advice[ADVICE_BYTES];
    char message[MT_MESSAGE_BYTES];
    if (status != MT_ERR_MEMORY || trainer->device == NULL) return status;
    if (strstr(trainer->ctx->message, ADVICE) != NULL) return status; // said already
    struct mt_memory_use use = mt_device_memory_use(trainer->device);
    mt_device_room(trainer->device, &room);
    char free[48] = "what is free is not known";
    if (room.total > 0) (void)snprintf(free, sizeof free, "%s are free", mt_bytes_in_words(room.free).text);
    advise(trainer, &mt_trainer_chosen(trainer)->sizes, advice);
    (void)snprintf(message, sizeof message, "%s", trainer->ctx->message);
    return mt_fail(trainer->ctx, status, "out of memory: %.400s; the device %s holds %s, %s" ADVICE "%s",
                   message, mt_device_name(trainer->device), mt_bytes_in_words(use.held).text, free, advice);
}

size_t mt_trainer_peak(const struct mt_trainer *trainer)
{
    if (trainer->device == NULL) return 0; // a run that has finished before
    size_t mapped = mt_device_on_host(trainer->device) ? trainer->memory.mapped : 0;
    return mt_device_memory_use(trainer->device).peak + mapped;
}

// ------------------------------------------------------------------ choosing

/* The least that any rank may hold; `each`: an amount, which every rank has for itself. */
static void share_bound(struct mt_trainer *trainer, bool each)
{
    struct mt_memory_bound *bound = &trainer->memory.bound;
    if (!each && mt_device_on_host(trainer->device)) {
        bound->whole /= (size_t)mt_comm_host_ranks(trainer->comm);
        bound->buffers /= (size_t)mt_comm_host_ranks(trainer->comm);
    }
    int64_t least[2] = {-(int64_t)bound->whole, -(int64_t)bound->buffers};
    mt_comm_max_i64(trainer->comm, least, 2);
    bound->whole = (size_t)-least[0];
    bound->buffers = (size_t)-least[1];
}

/* From now on what goes beyond is refused. Mapped weights are none of the context's. */
static void set_limit(struct mt_trainer *trainer)
{
    size_t bytes = trainer->memory.bound.buffers;
    if (mt_device_on_host(trainer->device))
        bytes = bytes > trainer->memory.mapped ? bytes - trainer->memory.mapped : 1;
    mt_device_set_limit(trainer->device, bytes);
}

/* In the first lines of a run: what it takes of what there is, and how. */
static void tell(const struct mt_trainer *trainer)
{
    const struct mt_trainer_memory *memory = &trainer->memory;
    const struct mt_fit_try *chosen = mt_trainer_chosen(trainer);
    FILE *terminal = trainer->options.terminal;
    if (terminal != NULL && memory->spread[0] != '\0')
        (void)fprintf(terminal, "parallel.experts: %s\n", memory->spread);
    if (terminal == NULL || memory->bound.whole == 0) return;
    (void)fprintf(terminal, "memory: %s of %s (%s), recompute: %s, batch.tokens: %" PRId64 "%s\n",
                  mt_bytes_in_words(chosen->bytes).text, mt_bytes_in_words(memory->bound.buffers).text,
                  memory->bound.given ? "memory.limit" : "free", mt_recompute_name(chosen->sizes.recompute),
                  chosen->sizes.tokens,
                  chosen->sizes.host_embedding ? ", the embedding in the host's memory" : "");
    if (memory->fit.count == 1 || !memory->fit.fits) return;
    const struct mt_fit_try *first = &memory->fit.tried[0];
    (void)fprintf(
        terminal,
        "        chosen to fit; faster with recompute: %s, batch.tokens: %" PRId64 ", which take %s\n",
        mt_recompute_name(first->sizes.recompute), first->sizes.tokens, mt_bytes_in_words(first->bytes).text);
}

/* Nobody has asked for a limit, and it may be that the system finds more: the run is tried. */
static void warn(const struct mt_trainer *trainer)
{
    const struct mt_fit_try *chosen = mt_trainer_chosen(trainer);
    char advice[ADVICE_BYTES];
    if (!mt_trainer_writes(trainer)) return;
    advise(trainer, &chosen->sizes, advice);
    mt_log_warning(trainer->options.log, "this run takes %s, and %s are free" ADVICE "%s",
                   mt_bytes_in_words(chosen->bytes).text, mt_bytes_in_words(trainer->memory.bound.free).text,
                   advice);
}

/* How many ranks share the experts. All count alike and agree on the bytes, so all choose the same. */
static enum mt_status spread_experts(struct mt_trainer *trainer, const struct mt_fit_freedom *freedom,
                                     size_t room)
{
    char *why = trainer->memory.spread;
    struct mt_spread spread = {.ranks = mt_comm_size(trainer->comm), .experts = trainer->desc.experts};
    enum mt_status status = mt_fit_spread(freedom, room, count_bytes, trainer, &spread);
    if (status != MT_OK) return status;
    trainer->resolved.expert_ranks = spread.expert_ranks;
    mt_spread_sentence(&spread, room, why);
    if (spread.fits || trainer->options.plan_only) return MT_OK;
    return mt_fail(trainer->ctx, MT_ERR_MEMORY, "parallel.experts is auto, and %s", why);
}

enum mt_status mt_trainer_fit(struct mt_trainer *trainer)
{
    struct mt_train_settings *settings = &trainer->resolved;
    struct mt_trainer_memory *memory = &trainer->memory;
    struct mt_memory_limit limit;
    (void)mt_memory_limit_read(settings->memory_limit, &limit); // as the settings were checked
    memory->bound = mt_device_bound(trainer->device, &limit);
    share_bound(trainer, limit.bytes > 0.0);
    struct mt_fit_freedom freedom = mt_train_freedom(settings, memory->tokens_open);
    freedom.host_embedding = mt_train_embedding_may_leave(settings, &trainer->desc, trainer->device);
    size_t room = memory->bound.whole > 0 ? memory->bound.buffers : SIZE_MAX;
    enum mt_status status = settings->expert_ranks == 0 ? spread_experts(trainer, &freedom, room) : MT_OK;
    freedom.first.expert_ranks = settings->expert_ranks;
    if (status == MT_OK) status = mt_fit_choose(&freedom, room, count_bytes, trainer, &memory->fit);
    if (status != MT_OK) return status;
    const struct mt_fit_sizes *sizes = &mt_trainer_chosen(trainer)->sizes;
    settings->tokens = sizes->tokens;
    settings->recompute = (enum mt_train_recompute)(sizes->recompute + MT_TRAIN_RECOMPUTE_NONE);
    if (memory->tokens_open && settings->batching != MT_LAYOUT_PACKED)
        mt_corpus_cut(&trainer->corpus, settings->tokens);
    if (trainer->options.plan_only) return MT_OK;
    status = mt_trainer_check_fit(trainer);
    if (status != MT_OK) return status;
    tell(trainer);
    if (!memory->fit.fits) warn(trainer);
    if (memory->fit.fits && memory->bound.whole > 0) set_limit(trainer);
    return MT_OK;
}

void mt_run_memory(const struct mt_run_outline *outline, struct mt_run_memory *memory)
{
    *memory = (struct mt_run_memory){.device = mt_device_name(outline->device),
                                     .on_host = mt_device_on_host(outline->device),
                                     .model = outline->model,
                                     .moments = outline->moments,
                                     .buffers = mt_device_dry_bytes(outline->device),
                                     .held = outline->host_bytes,
                                     .recompute = outline->settings->recompute,
                                     .tokens = outline->settings->tokens};
    struct mt_memory_room *room = &memory->room;
    mt_device_room(outline->device, room);
    memory->all = memory->buffers + (memory->on_host ? memory->model.mapped + memory->held : room->own);
    if (memory->on_host) return;
    room->free += room->own; // ours is there already
    if (room->free > room->total) room->free = room->total;
}
