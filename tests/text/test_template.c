/* Templates that come along, written out; names and files that are refused; memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"
#include "text/template_jinja.h"

static const char *folder(void)
{
    const char *given = getenv("METIER_TEMPLATES");
    return given != NULL ? given : "share/templates";
}

/* What is written: tokens by their names, what is trained on between << and >>. */
static void write_out(const struct mt_jinja_output *output, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < output->bytes; i++) {
        unsigned mark = 0;
        bool first = false;
        bool last = false;
        for (size_t j = 0; j < output->mark_count && output->marks[j].start <= i; j++)
            mark = output->marks[j].mark;
        for (size_t j = 0; j < output->generation_count; j++) {
            first |= output->generations[j].start == i;
            last |= output->generations[j].end == i + 1;
        }
        const char *token = mark == MT_BOS_MARK   ? "(bos)"
                            : mark == MT_EOS_MARK ? "(eos)"
                            : mark == MT_PAD_MARK ? "(pad)"
                                                  : NULL;
        at += (size_t)snprintf(out + at, size - at, "%s%.*s%s", first ? "<<" : "",
                               token != NULL ? (int)strlen(token) : 1,
                               token != NULL ? token : output->text + i, last ? ">>" : "");
        assert_true(at < size);
    }
}

static struct mt_turn turn(enum mt_role role, const char *text)
{
    return (struct mt_turn){.role = role, .text = text, .bytes = strlen(text)};
}

static enum mt_status open_named(struct mt_context *ctx, const char *name, struct mt_chat_template **template)
{
    const struct mt_template_choice choice = {.name = name, .folder = folder()};
    return mt_chat_template_open(ctx, &choice, template);
}

static enum mt_status render(const struct mt_chat_asked *asked, bool generate, char *out, size_t size)
{
    struct mt_chat_rendering rendering = {0};
    struct mt_jinja_output output = {0};
    enum mt_status status = mt_chat_rendering_begin(asked, &rendering);
    if (status == MT_OK)
        status = mt_chat_rendering_run(&rendering, asked->conversation->count, generate, &output);
    if (status == MT_OK) write_out(&output, out, size);
    mt_jinja_output_free(&output);
    mt_chat_rendering_end(&rendering);
    return status;
}

static void expect(const struct mt_chat_template *template, struct mt_context *ctx, struct mt_turn *turns,
                   size_t count, bool generate, const char *expected)
{
    char out[2048];
    const struct mt_conversation conversation = {.ctx = ctx, .turns = turns, .count = count};
    const struct mt_chat_asked asked = {.template = template, .conversation = &conversation, .bos = true};
    if (render(&asked, generate, out, sizeof out) != MT_OK) fail_msg("%s", ctx->message);
    assert_string_equal(out, expected);
}

/* What each template makes of system s, user u, assistant a, user v, assistant b, and of a lone user u. */
static const struct {
    const char *name;
    const char *whole;
    const char *prompt;
} expected[] = {
    {"deepseek", "(bos)s\n\nUser: u\n\nAssistant:<< a(eos)>>User: v\n\nAssistant:<< b(eos)>>",
     "(bos)User: u\n\nAssistant:"},
    {"deepseek-v2", "(bos)s\n\nUser: u\n\nAssistant:<< a(eos)>>User: v\n\nAssistant:<< b(eos)>>",
     "(bos)User: u\n\nAssistant:"},
    {"moonlight",
     "<|im_system|>system<|im_middle|>s<|im_end|><|im_user|>user<|im_middle|>u<|im_end|>"
     "<|im_assistant|>assistant<|im_middle|><<a<|im_end|>>><|im_user|>user<|im_middle|>v<|im_end|>"
     "<|im_assistant|>assistant<|im_middle|><<b<|im_end|>>>",
     "<|im_system|>system<|im_middle|>You are a helpful assistant<|im_end|><|im_user|>user<|im_middle|>u"
     "<|im_end|><|im_assistant|>assistant<|im_middle|>"},
    {"mixtral", "(bos)[INST] s\n\nu [/INST]<<a(eos)>>[INST] v [/INST]<<b(eos)>>", "(bos)[INST] u [/INST]"},
    {"phi-3.5",
     "<|system|>\ns<|end|>\n<|user|>\nu<|end|>\n<|assistant|>\n<<a<|end|>>>\n<|user|>\nv<|end|>\n"
     "<|assistant|>\n<<b<|end|>>>\n(eos)",
     "<|user|>\nu<|end|>\n<|assistant|>\n"},
    {"olmoe",
     "<|endoftext|><|system|>\ns\n<|user|>\nu\n<|assistant|>\n<<a<|endoftext|>>>\n<|user|>\nv\n"
     "<|assistant|>\n<<b<|endoftext|>>>",
     "<|endoftext|><|user|>\nu\n<|assistant|>\n"},
    {"chatml",
     "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n<<a<|im_end|>>>"
     "\n"
     "<|im_start|>user\nv<|im_end|>\n<|im_start|>assistant\n<<b<|im_end|>>>\n",
     "<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"},
    {"llama-3",
     "(bos)<|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|><|start_header_id|>user<|end_header_id|>"
     "\n\n"
     "u<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<<a<|eot_id|>>><|start_header_id|>user"
     "<|end_header_id|>\n\nv<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<<b<|eot_id|>>>",
     "(bos)<|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|><|start_header_id|>assistant"
     "<|end_header_id|>\n\n"},
    {"authors",
     "<|start_header_id|>system<|end_header_id|>\n\ns<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
     "u<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<<a<|eot_id|>(pad)>><|start_header_id|>user"
     "<|end_header_id|>\n\nv<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n<<b<|eot_id|>(pad)>>",
     "<|start_header_id|>user<|end_header_id|>\n\nu<|eot_id|><|start_header_id|>assistant"
     "<|end_header_id|>\n\n"},
    {"alpaca",
     "(bos)s\n\n### Instruction:\nu\n\n### Response:<<a(eos)>>\n\n### Instruction:\nv\n\n### "
     "Response:<<b(eos)>>",
     "(bos)Below is an instruction that describes a task. Write a response that appropriately completes the "
     "request.\n\n### Instruction:\nu\n\n### Response:"},
    {"plain", "(bos)s\n\nu<<a(eos)>>v<<b(eos)>>", "(bos)u"},
};

static void all_templates(void **state)
{
    (void)state;
    struct mt_turn turns[] = {turn(MT_ROLE_SYSTEM, "s"), turn(MT_ROLE_USER, "u"),
                              turn(MT_ROLE_ASSISTANT, "a"), turn(MT_ROLE_USER, "v"),
                              turn(MT_ROLE_ASSISTANT, "b")};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct mt_chat_template *template = NULL;
        if (open_named(&ctx, expected[i].name, &template) != MT_OK) fail_msg("%s", ctx.message);
        expect(template, &ctx, turns, 5, false, expected[i].whole);
        expect(template, &ctx, turns + 1, 1, true, expected[i].prompt);
        mt_chat_template_free(template);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void inputs_and_texts(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_chat_template *template = NULL;
    struct mt_turn turns[] = {turn(MT_ROLE_USER, " do "), turn(MT_ROLE_ASSISTANT, " a\n")};
    turns[0].input = "this";
    turns[0].input_bytes = 4;
    assert_int_equal(open_named(&ctx, "alpaca", &template), MT_OK);
    expect(template, &ctx, turns, 2, false,
           "(bos)Below is an instruction that describes a task, paired with an input that provides further "
           "context. Write a response that appropriately completes the request.\n\n### Instruction:\n do \n\n"
           "### Input:\nthis\n\n### Response:<< a\n(eos)>>");
    char out[64];
    const struct mt_row_field text = {.kind = MT_FIELD_TEXT, .text = "words", .bytes = 5};
    const struct mt_conversation none = {.ctx = &ctx};
    struct mt_chat_asked asked = {.template = template, .conversation = &none, .text = &text, .bos = true};
    assert_int_equal(render(&asked, false, out, sizeof out), MT_OK);
    assert_string_equal(out, "(bos)<<words(eos)>>");
    asked.bos = false;
    assert_int_equal(render(&asked, false, out, sizeof out), MT_OK);
    assert_string_equal(out, "<<words(eos)>>");
    mt_chat_template_free(template);
    assert_int_equal(open_named(&ctx, "authors", &template), MT_OK);
    turns[0].text = "do ";
    turns[0].bytes = 3;
    expect(template, &ctx, turns, 2, false,
           "<|start_header_id|>user<|end_header_id|>\n\ndo this<|eot_id|><|start_header_id|>assistant"
           "<|end_header_id|>\n\n<< a\n<|eot_id|>(pad)>>");
    mt_chat_template_free(template);
    assert_int_equal(open_named(&ctx, "llama-3", &template), MT_OK);
    turns[0] = turn(MT_ROLE_USER, " \n");
    expect(template, &ctx, turns, 2, false,
           "(bos)<|start_header_id|>user<|end_header_id|>\n\n<|eot_id|><|start_header_id|>assistant"
           "<|end_header_id|>\n\n<<a<|eot_id|>>>");
    mt_chat_template_free(template);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A conversation a template cannot say, a model without the token it needs, names that are none. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum mt_role first;
        bool bos;
        const char *message;
    } cases[] = {
        {"mixtral", MT_ROLE_SYSTEM, true, "mixtral has no place for this system message"},
        {"plain", MT_ROLE_TOOL, true, "plain has no place for calls of tools and their answers"},
        {"llama-3", MT_ROLE_USER, false, "the model has no token that begins texts"},
    };
    char out[256];
    struct mt_context ctx;
    struct mt_chat_template *template = NULL;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_turn first = turn(cases[i].first, "s");
        const struct mt_conversation conversation = {.ctx = &ctx, .turns = &first, .count = 1};
        assert_int_equal(open_named(&ctx, cases[i].name, &template), MT_OK);
        const struct mt_chat_asked asked = {
            .template = template, .conversation = &conversation, .bos = cases[i].bos};
        assert_int_equal(render(&asked, false, out, sizeof out), MT_ERR_USAGE);
        if (strstr(ctx.message, cases[i].message) == NULL) fail_msg("%s", ctx.message);
        mt_chat_template_free(template);
    }
    assert_int_equal(open_named(&ctx, "no-such", &template), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "(the model's own), alpaca, authors, chatml,"));
    assert_int_equal(open_named(&ctx, "./no-such.jinja", &template), MT_ERR_IO);
    assert_int_equal(ctx.live_bytes, 0);
}

static void write_file(void **state, const char *name, const char *text, size_t bytes)
{
    assert_int_equal(workplace_write(*state, name, text, bytes), 0);
}

/* Files of one's own: what makes no template, and files of keys, which are told how to become one. */
static void files(void **state)
{
    static const char own[] =
        MT_TEMPLATE_APART "\n{%- for m in messages %}{{ m.content }}|{{ m.input }}"
                          "{% generation %}{{ pad_token * 2 }}{% endgeneration %}{% endfor %}";
    char path[256];
    struct mt_context ctx;
    struct mt_chat_template *template = NULL;
    struct mt_turn user = turn(MT_ROLE_USER, "u");
    mt_context_init(&ctx, NULL);
    write_file(state, "own.jinja", own, strlen(own));
    if (open_named(&ctx, workplace_path(*state, "own.jinja", path, sizeof path), &template) != MT_OK)
        fail_msg("%s", ctx.message);
    expect(template, &ctx, &user, 1, true, "u|None<<(pad)(pad)>>");
    mt_chat_template_free(template);
    write_file(state, "own.jinja", MT_TEMPLATE_APART "x", strlen(MT_TEMPLATE_APART) + 1);
    assert_int_equal(open_named(&ctx, path, &template), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "no {% generation %} marks them"));
    write_file(state, "own.jinja", "a\0b", 3);
    assert_int_equal(open_named(&ctx, path, &template), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "a template is text"));
    assert_int_equal(open_named(&ctx, "folder/mine.tmpl", &template), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "folder/mine.tmpl is a file of keys, which metier no longer reads"));
    assert_non_null(strstr(ctx.message, ": " MT_TEMPLATE_APART " {%- for m in messages %}"));
    assert_non_null(strstr(ctx.message, "{%- if add_generation_prompt %}assistant.prompt{% endif %}"));
    assert_int_equal(ctx.live_bytes, 0);
}

/* The lines of that sentence are a template, with something in place of the keys. */
static void lines_of_the_sentence(void **state)
{
    char path[256];
    struct mt_context ctx;
    struct mt_chat_template *template = NULL;
    struct mt_turn turns[] = {turn(MT_ROLE_USER, "u"), turn(MT_ROLE_ASSISTANT, "a"), turn(MT_ROLE_USER, "v")};
    mt_context_init(&ctx, NULL);
    assert_int_equal(open_named(&ctx, "mine.tmpl", &template), MT_ERR_USAGE);
    const char *lines = strstr(ctx.message, MT_TEMPLATE_APART);
    assert_non_null(lines);
    write_file(state, "mine.jinja", lines, strlen(lines));
    if (open_named(&ctx, workplace_path(*state, "mine.jinja", path, sizeof path), &template) != MT_OK)
        fail_msg("%s", ctx.message);
    expect(template, &ctx, turns, 3, true,
           "user.beforeuuser.afterassistant.prompt<<aassistant.end>>user.beforevuser.afterassistant.prompt");
    mt_chat_template_free(template);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status read_and_render(struct mt_context *ctx, const void *self)
{
    char out[1024];
    struct mt_turn user = turn(MT_ROLE_USER, "u");
    struct mt_chat_template *template = NULL;
    const struct mt_conversation conversation = {.ctx = ctx, .turns = &user, .count = 1};
    enum mt_status status = open_named(ctx, self, &template);
    const struct mt_chat_asked asked = {.template = template, .conversation = &conversation, .bos = true};
    if (status == MT_OK) status = render(&asked, true, out, sizeof out);
    mt_chat_template_free(template);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(read_and_render, "alpaca", 6);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_templates),     cmocka_unit_test(inputs_and_texts),
        cmocka_unit_test(refused),           IN_WORKPLACE(files),
        IN_WORKPLACE(lines_of_the_sentence), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
