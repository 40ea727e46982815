/* What verbs that write adapters share. */
#ifndef MT_CLI_ADAPTER_H
#define MT_CLI_ADAPTER_H

#include "model/adapters/adapter.h"

/* The layout an option names. */
enum mt_status cli_read_layout(struct mt_context *ctx, const char *option, const char *word,
                               enum mt_adapter_layout *layout);

/*
 * Prints the lines of Python that load an adapter on its model, both folders by their absolute names; in the
 * vllm layout vLLM's, otherwise PEFT's. What has to be known beside them stands before, as Python's comments.
 */
enum mt_status cli_print_adapter_lines(struct mt_context *ctx, const char *model, const char *directory);

#endif
