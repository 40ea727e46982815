/*
 * Conversations as ids, for scripts: conversation_tool FOLDER TEMPLATE ROWS.jsonl [OPTIONS]
 *
 * FOLDER has tokenizer.json and tokenizer_config.json, TEMPLATE is "model" or a file. For every row one line:
 * {"ids": [...], "trained": [0, 1, ...], "prompt": [...]} (the prompt: the row's turns, asking for an
 * answer), or
 * {"error": "..."}.
 */
#include <stdio.h>
#include <string.h>

#include "formats/text/json_text.h"
#include "text/example.h"
#include "text/plain_text.h"

/* Everything one run needs. */
struct tool {
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer;
    struct mt_chat_template *template;
    struct mt_example_maker *maker;
    struct mt_dataset *dataset;
    struct mt_row row;
    struct mt_example example;
    struct mt_conversation conversation;
    struct mt_id_list prompt;
};

static enum mt_status open_all(struct tool *tool, char **arguments, int count)
{
    const struct mt_hf_config config = {.bos = -1, .pad = -1};
    const struct mt_dataset_options none = {0};
    const struct mt_template_choice choice = {.name = arguments[2],
                                              .model = arguments[1],
                                              .options = count > 4 ? arguments[4] : NULL,
                                              .date = MT_TEMPLATE_DATE};
    struct mt_example_options options = {0};
    enum mt_status status = mt_tokenizer_load(&tool->ctx, arguments[1], &tool->tokenizer);
    if (status == MT_OK)
        status = mt_special_ids_find(&tool->ctx, tool->tokenizer, arguments[1], &config, &options.special);
    if (status == MT_OK) status = mt_chat_template_open(&tool->ctx, &choice, &tool->template);
    options.tokenizer = tool->tokenizer;
    options.template = tool->template;
    if (status == MT_OK) status = mt_example_maker_create(&tool->ctx, &options, &tool->maker);
    if (status == MT_OK) status = mt_dataset_open(&tool->ctx, arguments[3], &none, &tool->dataset);
    return status;
}

static void print_ids(const char *name, const struct mt_id_list *ids)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < ids->count; i++) printf("%s%d", i > 0 ? ", " : "", (int)ids->data[i]);
    printf("]");
}

static enum mt_status answer(struct tool *tool, uint64_t index)
{
    const struct mt_example_source source = {.form = MT_FORM_MESSAGES};
    struct mt_json_node list = {0};
    enum mt_status status = mt_dataset_read(tool->dataset, index, &tool->row);
    if (status == MT_OK) status = mt_example_make(tool->maker, &source, &tool->row, &tool->example);
    mt_conversation_clear(&tool->conversation);
    tool->prompt.count = 0;
    if (status == MT_OK && mt_row_value(&tool->row, "messages", &list))
        status = mt_conversation_read(&tool->conversation, &tool->row, &list);
    if (status == MT_OK) status = mt_conversation_read_tools(&tool->conversation, &tool->row, "tools");
    // Some templates cannot ask for an answer after one: that is no failure.
    if (status != MT_OK) return status;
    if (mt_example_prompt(tool->maker, &tool->conversation, &tool->prompt) != MT_OK) tool->prompt.count = 0;
    printf("{");
    print_ids("ids", &tool->example.ids);
    printf(", \"trained\": [");
    for (size_t i = 0; i < tool->example.ids.count; i++)
        printf("%s%d", i > 0 ? ", " : "", i > 0 && tool->example.labels.data[i - 1] != MT_NO_LABEL);
    printf("], ");
    print_ids("prompt", &tool->prompt);
    printf(", \"lost\": %d, \"other\": %d, \"unended\": %d}\n", (int)tool->example.lost_turns,
           (int)tool->example.other_prompts, (int)tool->example.unended);
    return MT_OK;
}

static void complain(struct tool *tool)
{
    struct mt_json_text text;
    mt_json_text_init(&text, &tool->ctx);
    char message[MT_MESSAGE_BYTES];
    (void)snprintf(message, sizeof message, "%s", tool->ctx.message);
    if (mt_json_text_string(&text, message) == MT_OK)
        printf("{\"error\": %.*s}\n", (int)text.length, text.bytes);
    else
        printf("{\"error\": \"\"}\n");
    mt_json_text_free(&text);
}

int main(int count, char **arguments)
{
    struct tool tool = {0};
    if (count < 4) return 2;
    mt_context_init(&tool.ctx, NULL);
    mt_row_init(&tool.ctx, &tool.row);
    mt_example_init(&tool.ctx, &tool.example);
    tool.conversation.ctx = &tool.ctx;
    tool.prompt.ctx = &tool.ctx;
    enum mt_status status = open_all(&tool, arguments, count);
    if (status != MT_OK) (void)fprintf(stderr, "%s\n", tool.ctx.message);
    for (uint64_t i = 0; status == MT_OK && i < mt_dataset_rows(tool.dataset); i++) {
        if (answer(&tool, i) != MT_OK) complain(&tool);
    }
    mt_conversation_free(&tool.conversation);
    mt_id_list_free(&tool.prompt);
    mt_example_free(&tool.example);
    mt_row_free(&tool.row);
    mt_dataset_close(tool.dataset);
    mt_example_maker_free(tool.maker);
    mt_chat_template_free(tool.template);
    mt_tokenizer_free(tool.tokenizer);
    return status == MT_OK ? 0 : 1;
}
