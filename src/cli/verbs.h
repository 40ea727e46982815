/* One function per verb, each in the file of its verb. */
#ifndef MT_CLI_VERBS_H
#define MT_CLI_VERBS_H

#include "cli/cli.h"

int cli_adapter(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_analyze(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_chat(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_compare(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_devices(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_eval(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_forward(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_generate(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_init(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_inspect(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_judge(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_merge(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_objective(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_plan(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_report(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_review(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_sandbox(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_synth(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_tokenize(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);
int cli_train(struct mt_context *ctx, const struct cli_verb *verb, int argc, char **argv);

#endif
