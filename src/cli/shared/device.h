/* The device of a verb: chosen, made, and named to whoever reads. */
#ifndef MT_CLI_DEVICE_H
#define MT_CLI_DEVICE_H

#include "ops/choose.h"

/* For option tables of verbs that train, answer or analyse. */
#define CLI_QUANTISE_HELP                                                                                    \
    "weights in fewer bits: fp8, int8, nf4 or mxfp4, parts, cache, with commas (as the adapter was trained)"
#define CLI_DEVICE_HELP "device to compute on, see metier devices (auto: cuda-bf16 with a GPU, else cpu)"

/* Likewise, for the memory they hold (ops/limit.h). */
#define CLI_MEMORY_HELP "memory limit: 22GiB, 24GB, 90% of the free memory (auto: the free memory)"

/* Makes the device for a use and says on standard error which it is. The caller destroys it. */
enum mt_status cli_open_device(struct mt_context *ctx, const char *asked, enum mt_device_use use, int threads,
                               struct mt_device **device);

/*
 * "device: ..." on standard error; threads that were asked for (0: none) are no use to a GPU, which it says.
 * Where the choice was ours (automatic), it also says what was left idle.
 */
void cli_name_device(const struct mt_device *device, int64_t threads, bool automatic);

#endif
