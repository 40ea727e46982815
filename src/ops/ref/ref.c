/* The reference device's table: it has every op. */
#include "ops/ref/ref.h"

#include <stdio.h>

#define MT_REF_RUN(name)                                                                                     \
    static enum mt_status run_##name(struct mt_device *device, const void *args)                             \
    {                                                                                                        \
        (void)device;                                                                                        \
        mt_ref_##name(args);                                                                                 \
        return MT_OK;                                                                                        \
    }
MT_OP_LIST(MT_REF_RUN)
#undef MT_REF_RUN

enum mt_status mt_ref_init(struct mt_device *device, int threads)
{
    static const mt_op_run_fn table[MT_OP_COUNT] = {
#define MT_REF_ENTRY(name) [MT_OP_##name] = run_##name,
        MT_OP_LIST(MT_REF_ENTRY)
#undef MT_REF_ENTRY
    };
    (void)threads; // always one: the definition has no order but its own
    for (int op = 0; op < MT_OP_COUNT; op++) {
        device->impl[op][0] = (struct mt_op_impl){.run = table[op]};
        device->own[op] = true;
    }
    device->threads = 1;
    (void)snprintf(device->description, sizeof device->description, "ref, plain loops in double, 1 thread");
    return MT_OK;
}
