/* Memory line by line, its sum beside what is free. */
#include "cli/shared/memory.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/host_memory.h"
#include "cli/shared/short_number.h"

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
