/*
 * Conversations through templates in Jinja: ids, which tokens are trained on, by rendering and by the
 * template's marks; special tokens in data; tools; where a model's own template is found; memory.
 * Tests src/text/example.c and src/text/template_jinja.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/golden_tokenizers.h"
#include "support/workplace.h"
#include "text/example.h"

#define TEXT_BYTES 4096

static const char chatml[] = "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') "
                             "+ '<|im_end|>' + '\\n' }}{% endfor %}"
                             "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* As Qwen1.5-MoE-Chat's and Qwen2's: a system message where there is none. */
static const char greeting[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* As Qwen3's: thoughts are there in the last answer alone, empty ones too. */
static const char thinking[] =
    "{%- for m in messages %}{%- set c = m.content %}{%- set t = '' %}"
    "{%- if m.role == 'assistant' and '</think>' in c %}"
    "{%- set t = c.split('</think>')[0].split('<think>')[-1].strip('\\n') %}{%- set c = "
    "c.split('</think>')[-1].lstrip('\\n') %}{%- endif %}"
    "{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.role == 'assistant' and loop.last %}{{- '<think>\\n' + t + '\\n</think>\\n\\n' }}{%- endif %}"
    "{{- c + '<|im_end|>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}";

/* A tokenizer, a template, rows. */
struct bench {
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer;
    struct mt_chat_template *template;
    struct mt_example_maker *maker;
    struct mt_dataset *dataset;
    struct mt_row row;
    struct mt_example example;
    struct mt_example_source source;
    struct mt_example_options options;
    enum mt_status status; // of the last example
    char text[TEXT_BYTES]; // of the last example, what is trained on in [[ ]]
};

static void write_file(void **state, const char *name, const char *text)
{
    assert_int_equal(workplace_write(*state, name, text, strlen(text)), 0);
}

static void set_up(struct bench *b, void **state, const char *tokenizer, const char *template,
                   const char *options, const char *jsonl)
{
    char path[256];
    char folder[256];
    const struct mt_dataset_options none = {0};
    memset(b, 0, sizeof *b);
    mt_context_init(&b->ctx, NULL);
    mt_row_init(&b->ctx, &b->row);
    mt_example_init(&b->ctx, &b->example);
    b->tokenizer = golden_load(&b->ctx, tokenizer);
    write_file(state, "chat_template.jinja", template);
    const struct mt_template_choice choice = {.name = "model",
                                              .model = workplace_path(*state, ".", folder, sizeof folder),
                                              .options = options,
                                              .date = MT_TEMPLATE_DATE};
    if (mt_chat_template_open(&b->ctx, &choice, &b->template) != MT_OK) fail_msg("%s", b->ctx.message);
    b->options = (struct mt_example_options){
        .tokenizer = b->tokenizer, .template = b->template, .special = {.bos = -1, .eos = 420, .pad = -1}};
    assert_int_equal(mt_example_maker_create(&b->ctx, &b->options, &b->maker), MT_OK);
    write_file(state, "a.jsonl", jsonl);
    workplace_path(*state, "a.jsonl", path, sizeof path);
    assert_int_equal(mt_dataset_open(&b->ctx, path, &none, &b->dataset), MT_OK);
}

static void tear_down(struct bench *b)
{
    mt_dataset_close(b->dataset);
    mt_row_free(&b->row);
    mt_example_free(&b->example);
    mt_example_maker_free(b->maker);
    mt_chat_template_free(b->template);
    mt_tokenizer_free(b->tokenizer);
    assert_int_equal(b->ctx.live_bytes, 0);
}

/* The example's text, what is trained on in brackets. */
static void describe(struct bench *b)
{
    struct mt_token_stream *stream = NULL;
    struct mt_byte_list text = {.ctx = &b->ctx};
    const struct mt_example *example = &b->example;
    bool inside = false;
    size_t used = 0;
    assert_int_equal(mt_token_stream_create(&b->ctx, b->tokenizer, MT_DECODE_PLAIN, &stream), MT_OK);
    for (size_t i = 0; i <= example->ids.count; i++) {
        bool trained = i > 0 && i < example->ids.count && example->labels.data[i - 1] != MT_NO_LABEL;
        if (trained) assert_int_equal(example->labels.data[i - 1], example->ids.data[i]);
        text.count = 0;
        if (i < example->ids.count)
            assert_int_equal(mt_token_stream_push(stream, example->ids.data[i], &text), MT_OK);
        used += (size_t)snprintf(b->text + used, TEXT_BYTES - used, "%s%.*s",
                                 trained == inside ? "" : (trained ? "[[" : "]]"), (int)text.count,
                                 text.count > 0 ? (const char *)text.data : "");
        inside = trained;
    }
    mt_byte_list_free(&text);
    mt_token_stream_free(stream);
}

static void expect(struct bench *b, uint64_t row, const char *words)
{
    assert_int_equal(mt_dataset_read(b->dataset, row, &b->row), MT_OK);
    b->status = mt_example_make(b->maker, &b->source, &b->row, &b->example);
    if (b->status != MT_OK) fail_msg("%s", b->ctx.message);
    describe(b);
    assert_string_equal(b->text, words);
}

static void expect_refusal(struct bench *b, uint64_t row, const char *words)
{
    assert_int_equal(mt_dataset_read(b->dataset, row, &b->row), MT_OK);
    assert_int_equal(mt_example_make(b->maker, &b->source, &b->row, &b->example), MT_ERR_FORMAT);
    if (strstr(b->ctx.message, words) == NULL) fail_msg("%s", b->ctx.message);
}

/* The ids are those of the text as a whole, where data spells no special token. */
static void expect_whole(struct bench *b, const char *text)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = &b->ctx};
    assert_int_equal(mt_token_scratch_create(&b->ctx, b->tokenizer, &scratch), MT_OK);
    assert_int_equal(mt_tokenizer_encode(b->tokenizer, scratch, text, strlen(text), MT_ENCODE_PLAIN, &ids),
                     MT_OK);
    assert_int_equal(ids.count, b->example.ids.count);
    assert_memory_equal(ids.data, b->example.ids.data, ids.count * sizeof *ids.data);
    mt_id_list_free(&ids);
    mt_token_scratch_free(scratch);
}

#define U(x)    "{\"role\": \"user\", \"content\": \"" x "\"}"
#define A(x)    "{\"role\": \"assistant\", \"content\": \"" x "\"}"
#define W(x, w) "{\"role\": \"assistant\", \"content\": \"" x "\", \"weight\": " w "}"

static void turns(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", chatml, NULL,
           "{\"messages\": [" U("a b") ", " A("c d") ", " U("e") ", " A(
               "f") "]}\n"
                    "{\"instruction\": \"do\", \"input\": \"it\", \"output\": \"done\"}\n"
                    "{\"messages\": [" U("a") ", " A(
                        "\\n\\n b \\n") "]}\n"
                                        "{\"messages\": [" U("a") ", " A(
                                            "") "]}\n"
                                                "{\"messages\": [" U("a") ", " A("b") ", " U(
                                                    "c") "]}\n"
                                                         "{\"messages\": [" U("e\\u0301") ", " A(
                                                             "e\\u0301 \\ud83d\\ude42 o\\u0302") "]}\n");
    expect(&b, 0,
           "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n[[c d<|im_end|>]]\n<|im_start|>user\n"
           "e<|im_end|>\n<|im_start|>assistant\n[[f<|im_end|>]]\n");
    expect_whole(&b,
                 "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\nc d<|im_end|>\n<|im_start|>user\n"
                 "e<|im_end|>\n<|im_start|>assistant\nf<|im_end|>\n");
    expect(&b, 1, "<|im_start|>user\ndo\n\nit<|im_end|>\n<|im_start|>assistant\n[[done<|im_end|>]]\n");
    assert_int_equal(mt_dataset_read(b.dataset, 2, &b.row), MT_OK);
    assert_int_equal(mt_example_make(b.maker, &b.source, &b.row, &b.example), MT_OK);
    // "\n" of the template and "\n\n" of the answer are one token here: it belongs to the answer.
    expect_whole(&b, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n\n\n b \n<|im_end|>\n");
    describe(&b);
    assert_non_null(strstr(b.text, "\n b \n<|im_end|>]]\n"));
    expect(&b, 3, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[[<|im_end|>]]\n");
    expect(&b, 4,
           "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[[b<|im_end|>]]\n<|im_start|>user\nc<|im_"
           "end|>\n");
    // A normalizer that composes characters: what the ids say is shorter than the text.
    expect(&b, 5,
           "<|im_start|>user\n\xC3\xA9<|im_end|>\n<|im_start|>assistant\n[[\xC3\xA9 \xF0\x9F\x99\x82 "
           "\xC3\xB4<|im_end|>]]\n");
    assert_int_equal(b.example.other_prompts + b.example.lost_turns + b.example.unended, 0);
    tear_down(&b);
}

/* SentencePiece's way: spaces in front of texts, and tokens that swallow white space. */
static void spaces_in_front(void **state)
{
    struct bench b;
    static const char phi[] =
        "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ '<|endoftext|>' }}{% endif %}";
    set_up(&b, state, "phi", phi, NULL,
           "{\"messages\": [" U("a b") ", " A("c d") ", " U("e") ", " A("f g") "]}\n");
    b.options.special.eos = 756;
    static const int32_t stops[] = {759};
    b.options.stops = stops;
    b.options.stop_count = 1;
    mt_example_maker_free(b.maker);
    assert_int_equal(mt_example_maker_create(&b.ctx, &b.options, &b.maker), MT_OK);
    expect(&b, 0,
           "<|user|> a b<|end|><|assistant|>[[ c d<|end|>]]<|user|> e<|end|><|assistant|>[[ f "
           "g<|end|>]]<|endoftext|>");
    expect_whole(&b, "<|user|>\na b<|end|>\n<|assistant|>\nc d<|end|>\n<|user|>\ne<|end|>\n<|assistant|>\nf "
                     "g<|end|>\n<|endoftext|>");
    tear_down(&b);
}

static void own_system_message(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", greeting, NULL,
           "{\"messages\": [" U("a") ", " A(
               "b") "]}\n"
                    "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, " U("a") ", " A("b") "]}\n");
    expect(&b, 0,
           "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
           "<|im_start|>assistant\n[[b<|im_end|>]]\n");
    expect(&b, 1,
           "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
           "<|im_start|>assistant\n[[b<|im_end|>]]\n");
    tear_down(&b);
}

/* Templates that write earlier answers otherwise than the last, and ask for one in other words than they
 * write it. */
static void other_words(void **state)
{
    struct bench b;
    static const char reasoning[] = "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|im_start|>' "
                                    "+ m.content.split('</think>')[-1] + '<|im_end|>' }}"
                                    "{% else %}{{ '<|im_start|>' + m.content }}{% endif %}{% endfor %}{% if "
                                    "add_generation_prompt %}{{ '<|im_start|><think>\\n' }}{% endif %}";
    set_up(&b, state, "qwen3", thinking, NULL,
           "{\"messages\": [" U("a") ", " A("<think>\\nx\\n</think>\\n\\nb") ", " U("c") ", " A(
               "<think>\\ny\\n</think>\\n\\nd") "]}\n");
    expect(&b, 0,
           "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[[b<|im_end|>]]\n<|im_start|>user\nc<|im_"
           "end|>\n"
           "<|im_start|>assistant\n[[<think>\ny\n</think>\n\nd<|im_end|>]]\n");
    assert_int_equal(b.example.lost_turns + b.example.other_prompts, 0);
    tear_down(&b);
    set_up(&b, state, "qwen3", reasoning, NULL, "{\"messages\": [" U("a") ", " A("<think>x</think>b") "]}\n");
    expect(&b, 0, "<|im_start|>a<|im_start|>[[b<|im_end|>]]");
    assert_int_equal(b.example.other_prompts, 1);
    tear_down(&b);
    // Earlier answers that cannot be told from the prompt any more are found by their words; dropped ones are
    // not.
    static const char forgetful[] = "{{ messages | length }}:{% for m in messages %}{% if m.role == 'user' "
                                    "or loop.last or m.content != 'gone' %}"
                                    "{{ '<|im_start|>' + m.content + '<|im_end|>' }}{% endif %}{% endfor "
                                    "%}{% if add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}";
    set_up(&b, state, "qwen3", forgetful, NULL,
           "{\"messages\": [" U("a") ", " A("b") ", " U("c") ", " A("gone") ", " U("e") ", " A("f") "]}\n");
    expect(&b, 0,
           "6:<|im_start|>a<|im_end|><|im_start|>[[b<|im_end|>]]<|im_start|>c<|im_end|><|im_start|>e<|im_end|"
           "><|im_start|>[[f<|im_end|>]]");
    assert_int_equal(b.example.lost_turns, 1);
    tear_down(&b);
    // Nothing ends an answer.
    set_up(&b, state, "qwen3",
           "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}{% if "
           "add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
           NULL, "{\"messages\": [" U("a") ", " A("b c") "]}\n");
    assert_int_equal(mt_dataset_read(b.dataset, 0, &b.row), MT_OK);
    assert_int_equal(mt_example_make(b.maker, &b.source, &b.row, &b.example), MT_OK);
    assert_int_equal(b.example.unended, 1);
    tear_down(&b);
}

/* A thought that only the template writes, empty, is not the answer's: Qwen3's, GLM-4.5's, GLM-4.7's. */
static void empty_thoughts(void **state)
{
    static const char air[] = "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}{% "
                              "else %}<|endoftext|>{{ '\n<think></think>\n' + m.content }}{% endif %}{% "
                              "endfor %}{% if add_generation_prompt %}<|endoftext|>{% endif %}";
    static const char closed[] =
        "{% for m in messages %}{% if m.role == 'user' %}<|im_start|>{{ m.content }}{% "
        "else %}<|endoftext|>{{ '</think>' + m.content }}<|im_end|>{% endif %}{% "
        "endfor %}{% if add_generation_prompt %}<|endoftext|><think>{% endif %}";
    static const char others[] = "{% for m in messages %}{{ '<|im_start|>' + ('' if m.role == 'user' else "
                                 "m.content[:3] + '<a></b>') + m.content + '<|im_end|>' }}{% endfor %}{% if "
                                 "add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}";
    static const char header[] =
        "{% for m in messages %}{{ '<|im_start|>' + ('' if m.role == 'user' else "
        "'<assistant><think></think>') + m.content + '<|im_end|>' }}{% endfor %}{% if "
        "add_generation_prompt %}{{ '<|im_start|>' }}{% endif %}";
    struct bench b;
    set_up(&b, state, "qwen3", header, NULL, "{\"messages\": [" U("a") ", " A("b") "]}\n");
    expect(&b, 0, "<|im_start|>a<|im_end|><|im_start|><assistant><think></think>[[b<|im_end|>]]");
    tear_down(&b);
    set_up(&b, state, "qwen3", thinking, NULL, "{\"messages\": [" U("a") ", " A("b") "]}\n");
    expect(&b, 0,
           "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n[[b<|im_end|>]]\n");
    assert_int_equal(b.example.lost_turns + b.example.other_prompts + b.example.unended, 0);
    tear_down(&b);
    set_up(&b, state, "qwen3", air, NULL,
           "{\"messages\": [" U("a") ", " A("b") ", " U("c") ", " A(
               "<think></think>d") "]}\n"
                                   "{\"messages\": [" U("a") ", " A("") "]}\n");
    expect(&b, 0,
           "<|im_start|>a<|endoftext|>\n<think></think>\n[[b]]<|im_start|>c<|endoftext|>\n<think></think>\n"
           "[[<think></think>d]]");
    expect_refusal(&b, 1, "none of the answers can be found");
    tear_down(&b);
    set_up(&b, state, "qwen3", closed, NULL, "{\"messages\": [" U("a") ", " A("b") "]}\n");
    expect(&b, 0, "<|im_start|>a<|endoftext|></think>[[b<|im_end|>]]");
    tear_down(&b);
    set_up(&b, state, "qwen3", others, NULL, "{\"messages\": [" U("a") ", " A("<b>") "]}\n");
    expect(&b, 0, "<|im_start|>a<|im_end|><|im_start|>[[<b><a></b><b><|im_end|>]]");
    tear_down(&b);
}

/* As harmony: channels, another end once more follows, the tool's name in front of what it answered. */
static void channels(void **state)
{
    static const char harmony[] =
        "{% set tool = namespace(name='') %}{% for m in messages %}{% if m.role == 'tool' %}"
        "{{ '<|im_start|>functions.' + tool.name + ' to=assistant<think>' + m.content + '</think>' }}"
        "{% elif m.tool_calls %}{% set tool.name = m.tool_calls[0].function.name %}"
        "{% if m.content and loop.last %}{{ '<|im_start|>assistant<think>' + m.content + '</think>' }}{% "
        "endif %}"
        "{{ '<|im_start|>assistant to=functions.' + tool.name + '<think>' + "
        "m.tool_calls[0].function.arguments | tojson + '<|im_end|>' }}"
        "{% elif m.role == 'assistant' %}{{ '<|im_start|>assistant<think>' + m.content }}"
        "{{ '<|endoftext|>' if loop.last else '<|im_end|>' }}{% else %}"
        "{{ '<|im_start|>' + m.role + '<think>' + m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}";
    struct bench b;
#define CALL(said)                                                                                           \
    "{\"role\": \"assistant\", \"content\": \"" said                                                         \
    "\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1}}}]}, "                  \
    "{\"role\": \"tool\", \"content\": \"2\"}"
    set_up(&b, state, "qwen3", harmony, NULL,
           "{\"messages\": [" U("a") ", " A("b") ", " U("c") ", " A(
               "d") "]}\n"
                    "{\"messages\": [" U("a") ", " CALL("") ", " A("e") "]}\n"
                                                                        "{\"messages\": [" U("a") ", " CALL(
                                                                            "s") ", " A("e") "]}\n");
    expect(&b, 0,
           "<|im_start|>user<think>a<|im_end|><|im_start|>assistant[[<think>b]]<|im_end|>"
           "<|im_start|>user<think>c<|im_end|><|im_start|>assistant[[<think>d<|endoftext|>]]");
    assert_int_equal(b.example.unended, 0);
    static const char called[] =
        "<|im_start|>user<think>a<|im_end|><|im_start|>assistant[[ to=functions.f<think>{\"x\": "
        "1}<|im_end|>]]"
        "<|im_start|>functions.f to=assistant<think>2</think><|im_start|>assistant[[<think>e<|endoftext|>]]";
    expect(&b, 1, called);
    expect(&b, 2, called);
    tear_down(&b);
#undef CALL
}

static void marks_of_the_template(void **state)
{
    struct bench b;
    static const char marked[] = "{% for m in messages %}{% if m.role == 'assistant' %}{{ "
                                 "'<|im_start|>assistant\\n' }}{% generation %}{{ m.content + '<|im_end|>' }}"
                                 "{% endgeneration %}{{ '\\n' }}{% else %}{{ '<|im_start|>' + m.role + '\\n' "
                                 "+ m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}";
    set_up(&b, state, "qwen3", marked, NULL,
           "{\"messages\": [" U("a") ", " A("b") ", " U("c") ", " A(
               "d") "]}\n"
                    "{\"prompt\": [" U("a") ", " A("b") ", " U("c") "], \"completion\": [" A("d") "]}\n");
    expect(&b, 0,
           "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[[b<|im_end|>]]\n<|im_start|>user\nc<|im_"
           "end|>\n"
           "<|im_start|>assistant\n[[d<|im_end|>]]\n");
    expect(
        &b, 1,
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
        "<|im_start|>assistant\n[[d<|im_end|>]]\n");
    tear_down(&b);
    set_up(&b, state, "qwen3", chatml, NULL,
           "{\"prompt\": [" U("a") ", " A("b") ", " U("c") "], \"completion\": [" A("d") "]}\n");
    expect(
        &b, 0,
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
        "<|im_start|>assistant\n[[d<|im_end|>]]\n");
    tear_down(&b);
}

/* Data cannot write special tokens, wherever a template puts it. */
static void special_tokens_in_data(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", chatml, NULL,
           "{\"messages\": [" U("x<|im_end|>\\n<|im_start|>system") ", " A(
               "<|endoftext|><|im_end|>y") "]}\n"
                                           "{\"text\": \"<|im_end|>\"}\n"
                                           "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", "
                                           "\"name\": \"<|im_end|>\"}, " A("b") "]}\n");
    expect(&b, 0,
           "<|im_start|>user\nx<|im_end|>\n<|im_start|>system<|im_end|>\n<|im_start|>assistant\n"
           "[[<|endoftext|><|im_end|>y<|im_end|>]]\n");
    int starts = 0;
    int ends = 0;
    for (size_t i = 0; i < b.example.ids.count; i++) {
        starts += b.example.ids.data[i] == 421;
        ends += b.example.ids.data[i] == 422;
        assert_int_not_equal(b.example.ids.data[i], 420);
    }
    assert_int_equal(starts, 2);
    assert_int_equal(ends, 2);
    expect(&b, 1, "<[[|im_end|><|endoftext|>]]"); // a text alone: encoded as one, and eos
    for (size_t i = 0; i < b.example.ids.count; i++) assert_int_not_equal(b.example.ids.data[i], 422);
    tear_down(&b);
}

static void tools(void **state)
{
    struct bench b;
    static const char rows[] = "{\"messages\": [" U(
        "w") ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", "
             "\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]}, {\"role\": \"tool\", "
             "\"content\": \"2\"}, " A(
                 "two") "], \"tools\": [{\"name\": \"f\"}]}\n"
                        "{\"conversations\": [{\"from\": \"human\", \"value\": \"w\"}, {\"from\": "
                        "\"function_call\", \"value\": \"{\\\"name\\\": \\\"f\\\", "
                        "\\\"arguments\\\": {\\\"x\\\": 1}}\"}, {\"from\": \"observation\", \"value\": "
                        "\"2\"}, {\"from\": \"gpt\", \"value\": \"two\"}], "
                        "\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\"}\n";
    static const char calls[] =
        "{% if tools %}{{ '<|im_start|>tools ' + (tools | tojson) + '<|im_end|>' }}{% endif %}"
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}{% for c in "
        "m.tool_calls or [] %}"
        "{{ 'call ' + c.function.name + ' ' + (c.function.arguments | tojson) }}{% endfor %}{{ "
        "'<|im_end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    // A template that puts arguments together as texts, as DeepSeek-V3's does.
    static const char joined[] = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% "
                                 "for c in m.tool_calls or [] %}"
                                 "{{ 'call ' + c.function.name + ' ' + c.function.arguments }}{% endfor %}{{ "
                                 "'<|im_end|>\\n' }}{% endfor %}"
                                 "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
    set_up(&b, state, "qwen3", calls, NULL, rows);
    for (uint64_t row = 0; row < 2; row++) {
        expect(&b, row,
               "<|im_start|>tools [{\"name\": "
               "\"f\"}]<|im_end|><|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n"
               "[[call f {\"x\": "
               "1}<|im_end|>]]\n<|im_start|>tool\n2<|im_end|>\n<|im_start|>assistant\n[[two<|im_end|>]]\n");
    }
    tear_down(&b);
    // Before there were tools: what is inside them. A list beside messages alone is one.
    set_up(
        &b, state, "qwen3", calls, NULL,
        "{\"messages\": [" U("w") ", {\"role\": \"assistant\", \"content\": null, \"function_call\": "
                                  "{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}], "
                                  "\"tools\": null, \"functions\": [{\"name\": \"f\"}, {\"function\": {}}]}\n"
                                  "{\"prompt\": \"w\", \"completion\": \"v\", \"functions\": [1]}\n");
    expect(
        &b, 0,
        "<|im_start|>tools [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}, {\"function\": {}}]"
        "<|im_end|><|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n[[call f {\"x\": 1}<|im_end|>]]\n");
    expect(&b, 1, "<|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n[[v<|im_end|>]]\n");
    tear_down(&b);
    set_up(&b, state, "qwen3", joined, NULL, rows);
    expect(&b, 0,
           "<|im_start|>user\nw<|im_end|>\n<|im_start|>assistant\n[[call f {\"x\": "
           "1}<|im_end|>]]\n<|im_start|>tool\n"
           "2<|im_end|>\n<|im_start|>assistant\n[[two<|im_end|>]]\n");
    tear_down(&b);
}

static void refusals(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3",
           "{% if messages[0].role == 'system' %}{{ raise_exception('no system, please') }}{% endif %}{{ "
           "messages[0].content + 1 }}",
           NULL,
           "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, " A("b") "]}\n{\"messages\": [" U(
               "a") ", " A("b") "]}\n");
    expect_refusal(&b, 0, "a.jsonl:1: the chat template refuses this conversation: no system, please");
    expect_refusal(&b, 1, "a.jsonl:2: ");
    tear_down(&b);
    set_up(&b, state, "qwen3", "nothing", NULL, "{\"messages\": [" U("a") ", " A("b") "]}\n");
    expect_refusal(&b, 0, "a.jsonl:1: none of the answers can be found in what ");
    assert_non_null(strstr(b.ctx.message, " writes; metier gives it the content of a message as one text"));
    tear_down(&b);
}

/* Answers of weight 0 are read, not learnt; the weights of other roles mean nothing. */
static void weights(void **state)
{
    struct bench b;
    static const char marked[] =
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == "
        "'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration "
        "%}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}";
    static const char *const templates[] = {chatml, marked};
    for (size_t i = 0; i < 2; i++) {
        set_up(
            &b, state, "qwen3", templates[i], NULL,
            "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"weight\": 0}, " W("b", "0") ", " U(
                "c") ", " W("d", "1") ", " U("e") ", " W("f", "null") ", " U("g") ", " W("h", "0.0") "]}\n");
        expect(
            &b, 0,
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>"
            "\n<|im_start|>assistant\n[[d<|im_end|>]]\n<|im_start|>user\ne<|im_end|>\n<|im_start|>assistant\n"
            "[[f<|im_end|>]]\n<|im_start|>user\ng<|im_end|>\n<|im_start|>assistant\nh<|im_end|>\n");
        assert_int_equal(b.example.lost_turns, 0);
        tear_down(&b);
    }
}

/* Parts by all the names text has. */
static void parts(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", chatml, NULL,
           "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": \"a\"}, "
           "{\"type\": \"text\", \"text\": \" b\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": "
           "\"output_text\", \"text\": \"c\"}]}]}\n");
    expect(&b, 0, "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n[[c<|im_end|>]]\n");
    tear_down(&b);
}

static void told_to_the_template(void **state)
{
    struct bench b;
    write_file(state, "tokenizer_config.json",
               "{\"bos_token\": \"<|im_start|>\", \"eos_token\": {\"content\": \"<|endoftext|>\"}, "
               "\"chat_template\": \"not this one\"}");
    set_up(&b, state, "qwen3",
           "{{ bos_token + strftime_now('%d %b %Y') }}{{ ' ' ~ think ~ ' ' ~ n ~ ' ' ~ word ~ ' ' ~ (tools "
           "is none) }}"
           "{% for m in messages %}{{ m.content + eos_token }}{% endfor %}",
           "think=false,n=3,word=low key", "{\"messages\": [" U("a") ", " A("b") "]}\n");
    expect(&b, 0, "<|im_start|>26 Jul 2024 False 3 low key Truea<|endoftext|>[[b<|endoftext|>]]");
    tear_down(&b);
    struct mt_context ctx;
    struct mt_chat_template *template = NULL;
    mt_context_init(&ctx, NULL);
    static const char *const bad[] = {"think", "=x", "a b=c", "a=b,c"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char folder[256];
        struct mt_template_choice choice = {
            .name = "model", .model = workplace_path(*state, ".", folder, sizeof folder), .options = bad[i]};
        assert_int_equal(mt_chat_template_open(&ctx, &choice, &template), MT_ERR_USAGE);
        choice.options = NULL;
        choice.date = i % 2 == 0 ? "2024-02-30" : "yesterday";
        assert_int_equal(mt_chat_template_open(&ctx, &choice, &template), MT_ERR_USAGE);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* Where a model's own template is looked for, and what stands in for one that is not there. */
static void finding(void **state)
{
    struct mt_context ctx;
    char folder[256];
    struct mt_chat_template *template = NULL;
    const char *share = getenv("METIER_TEMPLATES");
    mt_context_init(&ctx, NULL);
    struct mt_template_choice choice = {.name = "model",
                                        .folder = share != NULL ? share : "share/templates",
                                        .model = workplace_path(*state, ".", folder, sizeof folder)};
    static const struct {
        const char *file, *text, *found; // NULL: plain stands in
    } places[] = {
        {"tokenizer_config.json", "{\"bos_token\": \"<s>\"}", NULL},
        {"chat_template.json", "{\"chat_template\": \"x\"}", "chat_template.json"},
        {"tokenizer_config.json",
         "{\"chat_template\": [{\"name\": \"default\", \"template\": \"a\"}, {\"name\": \"tool_use\", "
         "\"template\": \"b\"}]}",
         "tokenizer_config.json"},
        {"chat_template.jinja", "c", "chat_template.jinja"},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        write_file(state, places[i].file, places[i].text);
        if (mt_chat_template_open(&ctx, &choice, &template) != MT_OK) fail_msg("%s", ctx.message);
        assert_int_equal(mt_chat_template_stands_in(template), places[i].found == NULL);
        if (places[i].found != NULL)
            assert_non_null(strstr(mt_chat_template_name(template), places[i].found));
        mt_chat_template_free(template);
    }
    workplace_clear(*state);
    write_file(state, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"a\"}]}");
    assert_int_equal(mt_chat_template_open(&ctx, &choice, &template), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "none of its chat templates (rag) is named default"));
    write_file(state, "tokenizer_config.json", "{\"chat_template\": \"{% if %}\"}");
    assert_int_equal(mt_chat_template_open(&ctx, &choice, &template), MT_ERR_FORMAT);
    choice.name = "chatlm";
    assert_int_equal(mt_chat_template_open(&ctx, &choice, &template), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "there is no chat template 'chatlm'; expected model (the model's "
                                        "own), alpaca, authors, chatml, deepseek,"));
    assert_non_null(strstr(ctx.message, "deepseek-v3,"));
    assert_null(template);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status make_one(struct mt_context *ctx, const void *self)
{
    const struct bench *b = self;
    struct mt_example_maker *maker = NULL;
    struct mt_row row = b->row;
    struct mt_example example;
    mt_example_init(ctx, &example);
    row.ctx = ctx;
    enum mt_status status = mt_example_maker_create(ctx, &b->options, &maker);
    if (status == MT_OK) status = mt_example_make(maker, &b->source, &row, &example);
    mt_example_maker_free(maker);
    mt_example_free(&example);
    return status;
}

static void out_of_memory(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", chatml, "x=y",
           "{\"messages\": [" U("a") ", " A("e\\u0301") ", " U("c") ", " A("d") "]}\n");
    assert_int_equal(mt_dataset_read(b.dataset, 0, &b.row), MT_OK);
    assert_every_allocation_may_fail(make_one, &b, 20);
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(turns, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(own_system_message, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(spaces_in_front, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(other_words, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(empty_thoughts, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(channels, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(marks_of_the_template, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(special_tokens_in_data, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(tools, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refusals, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(weights, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(parts, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(told_to_the_template, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(finding, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
