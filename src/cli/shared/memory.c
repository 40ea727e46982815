/* Memory line by line, its sum beside what is free. */
#include "cli/shared/memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/host_memory.h"
#include "cli/shared/short_number.h"
#include "cli/shared/table.h"

/* A line of the table of memory. */
static void print_bytes(const char *name, double bytes, const char *remark)
{
    printf("  %-20s %12s%s%s\n", name, cli_short_bytes(bytes).text, remark[0] != '\0' ? "   " : "", remark);
}

/* The sum, beside what there is; where that is less, what would help. */
static void print_sum(const char *whose, size_t bytes, const struct mt_memory_room *room,
                      const struct mt_run_memory *memory)
{
    char remark[96] = "";
    if (room->total > 0)
        (void)snprintf(remark, sizeof remark, "%s free of %s", cli_short_bytes((double)room->free).text,
                       cli_short_bytes((double)room->total).text);
    print_bytes("in all", (double)bytes, remark);
    if (room->total == 0 || bytes <= room->free) return;
    printf("  warning: this is more than is free %s: ", whose);
    if (memory->recompute != MT_TRAIN_RECOMPUTE_FULL) printf("recompute: full keeps fewer activations; ");
    printf("a smaller batch.tokens (now %" PRId64 ") or fewer targets need less\n", memory->tokens);
}

/* What lies in the memory the device computes on. */
static void print_buffers(const struct mt_run_memory *memory)
{
    const struct mt_model_bytes *model = &memory->model;
    size_t named = 0;
    const struct {
        const char *name;
        size_t bytes;
    } lines[] = {
        {"weights, copied", model->copies},    {"weights, quantised", model->codes},
        {"a layer unpacked", model->unpacked}, {"trained values", model->masters},
        {"gradients", model->gradients},       {"moments", memory->moments},
        {"activations", model->activations},   {"work", model->work},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        named += lines[i].bytes;
        if (lines[i].bytes > 0) print_bytes(lines[i].name, (double)lines[i].bytes, "");
    }
    print_bytes("statistics", (double)memory->buffers - (double)named, "of the objective and the log");
}

void cli_print_memory(const struct mt_run_memory *memory)
{
    struct mt_memory_room host = {0};
    if (memory->on_host) {
        printf("\nmemory of the host\n");
        print_bytes("weights, mapped", (double)memory->model.mapped, "from the file");
        print_buffers(memory);
        print_bytes("data and the rest", (double)memory->held, "");
        print_sum("here", memory->all, &memory->room, memory);
        return;
    }
    printf("\nmemory of the device %s\n", memory->device);
    print_buffers(memory);
    if (memory->room.own > 0)
        print_bytes("the device's own", (double)memory->room.own, "its context and kernels, about");
    print_sum("on the device", memory->all, &memory->room, memory);
    mt_host_memory(&host.free, &host.total);
    printf("\nmemory of the host\n");
    size_t beside = memory->model.beside;
    if (beside > 0) print_bytes("embedding", (double)beside, "the device reads a step's rows from here");
    print_bytes("data and the rest", (double)memory->held, "weights are read through, once");
    print_sum("here", memory->held + beside, &host, memory);
}

/* A limit that somebody has set is kept. What is free may turn out to be more, so the run is tried. */
static void print_no_fit(const struct mt_fit *fit, const struct mt_memory_bound *bound)
{
    const struct mt_fit_sizes *sizes = &fit->tried[fit->chosen].sizes;
    if (bound->given)
        printf("  nothing fits: this run would be refused\n");
    else
        printf("  nothing fits what is free now: the run would be tried with recompute: %s and batch.tokens: "
               "%" PRId64 ", and may run out of memory\n",
               mt_recompute_name(sizes->recompute), sizes->tokens);
}

enum mt_status cli_print_fit(struct mt_context *ctx, const struct mt_train_settings *settings,
                             const struct mt_fit *fit, const struct mt_memory_bound *bound)
{
    static const struct cli_column columns[] = {
        {"  recompute", false}, {"batch.tokens", true}, {"memory", true}, {"", false}};
    double room = (double)bound->buffers;
    struct cli_table table;
    if (bound->whole == 0) return MT_OK; // nobody knows what there is
    printf("\nwhat fits into %s (memory.limit: %s), the fastest first\n", cli_short_bytes(room).text,
           settings->memory_limit);
    cli_table_init(&table, ctx, columns, 4);
    for (int i = 0; i < fit->count; i++) {
        const struct mt_fit_try *try = &fit->tried[i];
        double bytes = (double)try->bytes;
        char verdict[64] = "fits";
        if (bytes > room)
            (void)snprintf(verdict, sizeof verdict, "%s too much", cli_short_bytes(bytes - room).text);
        cli_table_add(&table, "  %s\t%" PRId64 "\t%s\t%s%s%s", mt_recompute_name(try->sizes.recompute),
                      try->sizes.tokens, cli_short_bytes(bytes).text, verdict,
                      i == fit->chosen && fit->fits ? ", taken" : "",
                      try->sizes.host_embedding ? ", embedding in the host's memory" : "");
    }
    enum mt_status status = cli_table_print(&table, stdout);
    if (status == MT_OK && !fit->fits) print_no_fit(fit, bound);
    if (status != MT_OK || fit->chosen == 0) return status;
    const struct mt_fit_try *taken = &fit->tried[fit->chosen];
    const struct mt_fit_try *faster = taken - 1;
    bool left = taken->sizes.host_embedding && !faster->sizes.host_embedding;
    if (fit->fits)
        printf("  with %s more, recompute: %s and batch.tokens: %" PRId64 "%s would fit, which is faster\n",
               cli_short_bytes((double)faster->bytes - room).text, mt_recompute_name(faster->sizes.recompute),
               faster->sizes.tokens, left ? " with the embedding on the device" : "");
    return MT_OK;
}
