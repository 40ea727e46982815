/* metier analyze: what the routers and experts of a model do with data. */
#include "cli/analyze/analyze.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "cli/shared/device.h"
#include "cli/shared/ranks.h"
#include "cli/train/train.h"
#include "cli/verbs.h"
#include "formats/text/json_text.h"

#define ARENA_BLOCK_BYTES 65536

static enum mt_status check_number(struct mt_context *ctx, const char *option, int64_t value, int64_t least,
                                   int64_t most)
{
    if (value >= least && value <= most) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE, "%s is %" PRId64 ", expected %" PRId64 " to %" PRId64, option, value,
                   least, most);
}

static enum mt_status check(struct mt_context *ctx, const struct analyze_settings *settings,
                            const struct cli_arguments *given)
{
    if (given->positional_count > 0)
        return mt_fail(ctx, MT_ERR_USAGE, "unexpected argument '%s'", given->positional[0]);
    if (settings->model == NULL) return mt_fail(ctx, MT_ERR_USAGE, "--model DIR is missing");
    if (settings->data.count == 0) return mt_fail(ctx, MT_ERR_USAGE, "--data FILE is missing");
    if (!(settings->share > 0.0 && settings->share <= 1.0))
        return mt_fail(ctx, MT_ERR_USAGE, "--share is %g, expected more than 0 and at most 1",
                       settings->share);
    if (settings->out == NULL && !settings->json && settings->experts == NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "--out DIR is missing; --json prints instead of writing");
    const struct {
        const char *option;
        int64_t value, least, most;
    } numbers[] = {
        {"--threads", settings->threads, 0, 4096},      {"--tokens", settings->tokens, 1, INT64_C(1) << 40},
        {"--length", settings->length, 2, 1 << 20},     {"--sample", settings->sample, 1, 1 << 20},
        {"--queries", settings->queries, 0, INT32_MAX}, {"--neighbours", settings->neighbours, 1, 4096},
        {"--seed", settings->seed, 0, INT64_MAX},
    };
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < sizeof numbers / sizeof numbers[0]; i++)
        status = check_number(ctx, numbers[i].option, numbers[i].value, numbers[i].least, numbers[i].most);
    const struct cli_void rules[] = {{settings->json, "--layers", "with --json, which has every layer"}};
    return status == MT_OK ? cli_refuse_void(ctx, given, rules, 1) : status;
}

static enum mt_status hand_over(struct analyze *run)
{
    struct mt_json_text text;
    char *path = NULL;
    const char *out = run->settings->out;
    mt_json_text_init(&text, run->ctx);
    enum mt_status status = analyze_write(run, &text);
    if (status == MT_OK && out != NULL) status = mt_folder_make_all(run->ctx, out);
    if (status == MT_OK && out != NULL) status = mt_path_join(run->ctx, out, "analysis.json", &path);
    if (status == MT_OK && out != NULL) status = mt_file_write_all(run->ctx, path, text.bytes, text.length);
    if (status == MT_OK && run->settings->json) (void)fwrite(text.bytes, 1, text.length, stdout);
    if (status == MT_OK && !run->settings->json) {
        status = analyze_print(run);
        if (status == MT_OK) printf("\n");
        if (status == MT_OK && out != NULL) printf("written: %s\n", path);
    }
    if (status == MT_OK && run->settings->experts != NULL) status = analyze_write_experts(run);
    mt_path_release(run->ctx, path);
    mt_json_text_free(&text);
    return status;
}

static enum mt_status analyze(struct analyze *run)
{
    const struct analyze_settings *settings = run->settings;
    enum mt_status status = analyze_find_domains(run);
    if (status == MT_OK)
        status = train_find_templates(run->ctx, &run->arena, settings->template_name, &run->templates);
    int threads = (int)mt_comm_threads(run->comm, settings->threads);
    const char *device = NULL;
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status == MT_OK)
        status = mt_device_choose(run->ctx, run->comm, settings->device, MT_USE_FAST, &device);
    if (status == MT_OK) status = mt_device_create(run->ctx, device, threads, &run->device);
    status = mt_comm_agree(run->comm, run->ctx, status);
    if (status == MT_OK && mt_comm_rank(run->comm) == 0) cli_name_device(run->device, settings->threads);
    if (status == MT_OK) status = analyze_run(run);
    if (status == MT_OK && mt_comm_rank(run->comm) == 0) status = hand_over(run);
    analyze_side_free(&run->model);
    analyze_side_free(&run->base);
    mt_device_destroy(run->device);
    return status;
}

/* What every rank knows. */
struct analyzing {
    struct mt_context *ctx;
    const struct analyze_settings *settings;
    const struct cli_arguments *given;
};

static enum mt_status run_with_room(void *self, struct mt_comm *comm, int *exit_status)
{
    (void)exit_status;
    const struct analyzing *analyzing = self;
    struct mt_context *ctx = analyzing->ctx;
    void *memory = NULL;
    enum mt_status status = check(ctx, analyzing->settings, analyzing->given);
    if (status == MT_OK) status = mt_allocate_array(ctx, 1, sizeof(struct analyze), &memory);
    status = mt_comm_agree(comm, ctx, status);
    struct analyze *run = memory;
    if (status != MT_OK) {
        mt_release(ctx, memory, sizeof(struct analyze));
        return status;
    }
    run->ctx = ctx;
    run->comm = comm;
    run->settings = analyzing->settings;
    mt_arena_init(&run->arena, ctx, ARENA_BLOCK_BYTES);
    status = analyze(run);
    mt_arena_free(&run->arena);
    mt_release(ctx, memory, sizeof(struct analyze));
    return status;
}

int cli_analyze(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv)
{
    struct analyze_settings settings = {.template_name = "model",
                                        .device = MT_DEVICE_AUTO,
                                        .tokens = 20000,
                                        .length = 512,
                                        .sample = 2048,
                                        .neighbours = 10,
                                        .share = 0.2};
    const struct cli_option options[] = {
        {"--model", CLI_TEXT, &settings.model, "DIR", "a Hugging Face model folder"},
        {"--adapter", CLI_TEXT, &settings.adapter, "DIR",
         "a PEFT adapter to run with; the model without it is the base"},
        {"--base", CLI_TEXT, &settings.base, "DIR", "another model folder: report the drift from it"},
        {"--data", CLI_LIST, &settings.data, "FILE[=DOMAIN]",
         "rows as training reads them, or text; may come several times"},
        {"--out", CLI_TEXT, &settings.out, "DIR", "where analysis.json goes"},
        {"--experts", CLI_TEXT, &settings.experts, "FILE",
         "write the busiest experts of every layer, for train's key experts (ESFT)"},
        {"--share", CLI_REAL, &settings.share, "P", "of the slots that these serve together (0.2)"},
        {"--tokens", CLI_INTEGER, &settings.tokens, "N", "of each domain (20000)"},
        {"--length", CLI_INTEGER, &settings.length, "N", "tokens of a sequence at the most (512)"},
        {"--template", CLI_TEXT, &settings.template_name, "NAME",
         "how conversations are written out: a name of share/templates or a file (model: its own)"},
        {"--sample", CLI_INTEGER, &settings.sample, "N",
         "vectors kept per layer and domain, for overlap, silhouette and PCA (2048)"},
        {"--queries", CLI_INTEGER, &settings.queries, "N",
         "points of the sample that are asked; errors are stated (0: all, exact)"},
        {"--neighbours", CLI_INTEGER, &settings.neighbours, "K", "of the overlap (10)"},
        {"--seed", CLI_INTEGER, &settings.seed, "S", "of shuffling and sampling (0)"},
        {"--layers", CLI_FLAG, &settings.layers, NULL, "a row of the table for every layer"},
        {"--json", CLI_FLAG, &settings.json, NULL, "print analysis.json instead of tables"},
        {"--device", CLI_TEXT, &settings.device, "NAME", CLI_DEVICE_HELP},
        {"--threads", CLI_INTEGER, &settings.threads, "N", "0: as many as the machine has"},
    };
    struct cli_arguments given;
    enum mt_status status =
        cli_parse(ctx, verb, options, (int)(sizeof options / sizeof options[0]), argc, argv, &given);
    if (status == MT_OK && given.help_shown) return 0;
    if (status != MT_OK) return cli_fail(ctx, verb, status);
    struct analyzing analyzing = {.ctx = ctx, .settings = &settings, .given = &given};
    return cli_run_ranks(ctx, verb, run_with_room, &analyzing);
}
