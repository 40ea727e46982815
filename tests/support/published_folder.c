/* Folders in codes, out of folders in floats: a rewriting that changes nothing. */
#include "support/published_folder.h"

#include <stdio.h>

#include "arch/published/published_write.h"
#include "arch/published/stacks.h"
#include "model/files/rewrite.h"

static void choose(void *self, struct mt_rewrite_tensor *tensor)
{
    const struct published_folder *wanted = self;
    bool linear = tensor->rank == 2 && tensor->part != MT_PART_EMBEDDING && tensor->part != MT_PART_LM_HEAD &&
                  (tensor->part != MT_PART_ROUTER || wanted->routers) && tensor->part >= 0;
    tensor->quantised = linear && (!wanted->experts || tensor->part == MT_PART_EXPERTS);
    tensor->format = wanted->format;
    tensor->nested = wanted->nested;
}

int published_folder_make(struct mt_context *ctx, const char *from, const char *to,
                          const struct published_folder *wanted)
{
    struct published_folder copy = *wanted;
    struct mt_hf_config config = {0};
    struct mt_checkpoint checkpoint = {0};
    struct mt_rewrite_result result;
    const struct mt_rewrite_source source = {.self = &copy, .choose = choose};
    const struct mt_rewrite_options options = {
        .directory = from,
        .out = to,
        .requantise = true,
        .quantisation = mt_published_config(wanted->format, wanted->nested),
    };
    enum mt_status status = mt_hf_config_read_folder(ctx, from, &config);
    if (status == MT_OK) status = mt_stacks_open(ctx, from, &config, &checkpoint);
    if (status == MT_OK) status = mt_rewrite(ctx, &config, &checkpoint, &source, &options, &result);
    if (status != MT_OK) (void)fprintf(stderr, "published_folder_make: %s\n", ctx->message);
    mt_checkpoint_close(&checkpoint);
    mt_hf_config_free(&config);
    return status == MT_OK && result.codes > 0 ? 0 : 1;
}
