/* Templates: every one that comes along, written out; what is refused; memory. */
#include "text/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static const char *folder(void)
{
    const char *given = getenv("METIER_TEMPLATES");
    return given != NULL ? given : "share/templates";
}

/* The text of pieces: tokens by their names, what is trained between << and >>. */
static void write_out(const struct mt_piece_list *pieces, char *out, size_t size)
{
    static const char *const tokens[] = {"", "", "(bos)", "(bos?)", "(eos)", "(pad)"};
    size_t at = 0;
    bool trained = false;
    for (size_t i = 0; i <= pieces->count; i++) {
        bool now = i < pieces->count && pieces->data[i].trained;
        if (now != trained) at += (size_t)snprintf(out + at, size - at, now ? "<<" : ">>");
        trained = now;
        if (i == pieces->count) break;
        const struct mt_piece *piece = &pieces->data[i];
        bool text = piece->kind <= MT_PIECE_CONTENT;
        at += (size_t)snprintf(out + at, size - at, "%.*s", text ? (int)piece->bytes : 8,
                               text ? piece->text : tokens[piece->kind]);
        assert_true(at < size);
    }
}

static struct mt_turn turn(enum mt_role role, const char *text)
{
    return (struct mt_turn){.role = role, .text = text, .bytes = strlen(text)};
}

static void expect(const struct mt_chat_template *template, struct mt_context *ctx,
                   const struct mt_turn *turns, size_t count, bool generate, const char *expected)
{
    char out[2048];
    struct mt_piece_list pieces = {.ctx = ctx};
    if (mt_chat_template_render(template, turns, count, generate, &pieces) != MT_OK)
        fail_msg("%s", ctx->message);
    write_out(&pieces, out, sizeof out);
    assert_string_equal(out, expected);
    mt_piece_list_free(&pieces);
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
     "(bos?)s\n\n### Instruction:\nu\n\n### Response:<<a(eos)>>\n\n### Instruction:\nv\n\n### "
     "Response:<<b(eos)>>",
     "(bos?)Below is an instruction that describes a task. Write a response that appropriately completes the "
     "request.\n\n### Instruction:\nu\n\n### Response:"},
    {"plain", "(bos?)s\n\nu<<a(eos)>>v<<b(eos)>>", "(bos?)u"},
};

static void all_templates(void **state)
{
    (void)state;
    const struct mt_turn turns[] = {turn(MT_ROLE_SYSTEM, "s"), turn(MT_ROLE_USER, "u"),
                                    turn(MT_ROLE_ASSISTANT, "a"), turn(MT_ROLE_USER, "v"),
                                    turn(MT_ROLE_ASSISTANT, "b")};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct mt_chat_template *template = NULL;
        if (mt_chat_template_read(&ctx, folder(), expected[i].name, &template) != MT_OK)
            fail_msg("%s", ctx.message);
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
    assert_int_equal(mt_chat_template_read(&ctx, folder(), "alpaca", &template), MT_OK);
    expect(template, &ctx, turns, 2, false,
           "(bos?)Below is an instruction that describes a task, paired with an input that provides further "
           "context. Write a response that appropriately completes the request.\n\n### Instruction:\n do \n\n"
           "### Input:\nthis\n\n### Response:<< a\n(eos)>>");
    struct mt_piece_list pieces = {.ctx = &ctx};
    char out[64];
    assert_int_equal(mt_chat_template_render_text(template, "words", 5, &pieces), MT_OK);
    write_out(&pieces, out, sizeof out);
    assert_string_equal(out, "(bos?)<<words(eos)>>");
    mt_piece_list_free(&pieces);
    mt_chat_template_free(template);
    assert_int_equal(mt_chat_template_read(&ctx, folder(), "authors", &template), MT_OK);
    turns[0].text = "do ";
    turns[0].bytes = 3;
    expect(template, &ctx, turns, 2, false,
           "<|start_header_id|>user<|end_header_id|>\n\ndo this<|eot_id|><|start_header_id|>assistant"
           "<|end_header_id|>\n\n<< a\n<|eot_id|>(pad)>>");
    mt_chat_template_free(template);
    assert_int_equal(mt_chat_template_read(&ctx, folder(), "llama-3", &template), MT_OK);
    turns[0] = turn(MT_ROLE_USER, " \n");
    expect(template, &ctx, turns, 2, false,
           "(bos)<|start_header_id|>user<|end_header_id|>\n\n<|eot_id|><|start_header_id|>assistant"
           "<|end_header_id|>\n\n<<a<|eot_id|>>>");
    mt_chat_template_free(template);
    assert_int_equal(ctx.live_bytes, 0);
}

static const char small[] = "start=\"{bos}a{{b\\n\\t\\\"\\\\{eos}{pad}\"\r\n"
                            "user.before = \"\" # why\n\n# comment\n"
                            "user.after = \"\"\nassistant.prompt=\"\"\nassistant.end=\"{eos}\"";

static void own_template(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_chat_template *template = NULL;
    if (mt_chat_template_parse(&ctx, "t", small, strlen(small), &template) != MT_OK)
        fail_msg("%s", ctx.message);
    const struct mt_turn turns[] = {turn(MT_ROLE_USER, "u"), turn(MT_ROLE_SYSTEM, "s")};
    expect(template, &ctx, turns, 1, false, "(bos)a{b\n\t\"\\(eos)(pad)u");
    struct mt_piece_list pieces = {.ctx = &ctx};
    assert_int_equal(mt_chat_template_render(template, turns, 2, false, &pieces), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "t has no place for this system message");
    const struct mt_turn result = turn(MT_ROLE_TOOL, "4");
    assert_int_equal(mt_chat_template_render(template, &result, 1, false, &pieces), MT_ERR_USAGE);
    assert_string_equal(ctx.message, "t has no place for answers of tools");
    mt_piece_list_free(&pieces);
    mt_chat_template_free(template);
    assert_int_equal(mt_role_named("human"), MT_ROLE_USER);
    assert_int_equal(mt_role_named("tool"), MT_ROLE_TOOL);
    assert_int_equal(mt_role_named("narrator"), MT_ROLES);
    assert_int_equal(ctx.live_bytes, 0);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"start = \"\"\nuser.befor = \"\"", "t:2: unknown key 'user.befor'; did you mean 'user.before'?"},
        {"zzzzzzzzzzzz = \"\"", "t:1: unknown key 'zzzzzzzzzzzz'"},
        {"start \"\"", "t:1: expected '=' after start"},
        {"start = \"\"\nstart = \"\"", "t:2: a second line for start"},
        {"start = x", "t:1: expected a text in quotes"},
        {"start =", "t:1: expected a text in quotes"},
        {"start = \"x", "t:1: the text does not end with a quote"},
        {"start = \"\\x\"", "t:1: a backslash needs one of n, t, \" and \\ behind it"},
        {"start = \"\\", "t:1: a backslash needs one of n, t, \" and \\ behind it"},
        {"start = \"{unk}\"", "t:1: a brace must begin {bos}, {bos?}, {eos} or {pad}, or be written {{"},
        {"start = \"\" x", "t:1: something follows the value"},
        {"trim = maybe", "t:1: expected yes or no"},
        {"trim = yes", "t: has no start"},
        {"\xFF", "t: a template is UTF-8 text of at most 65536 bytes"},
        {"start=\"\"\nuser.before=\"\"\nuser.after=\"\"\nassistant.prompt=\"\"\nassistant.end=\"\"\n"
         "system.before=\"\"",
         "t: system.before and system.after need each other"},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_chat_template *template = NULL;
        assert_int_equal(mt_chat_template_parse(&ctx, "t", cases[i].text, strlen(cases[i].text), &template),
                         MT_ERR_FORMAT);
        assert_string_equal(ctx.message, cases[i].message);
        assert_null(template);
    }
    struct mt_chat_template *template = NULL;
    assert_int_equal(mt_chat_template_read(&ctx, folder(), "no-such", &template), MT_ERR_USAGE);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status read_and_render(struct mt_context *ctx, const void *self)
{
    const struct mt_turn user = turn(MT_ROLE_USER, "u");
    struct mt_chat_template *template = NULL;
    struct mt_piece_list pieces = {.ctx = ctx};
    enum mt_status status = mt_chat_template_read(ctx, folder(), self, &template);
    if (status == MT_OK) status = mt_chat_template_render(template, &user, 1, true, &pieces);
    mt_piece_list_free(&pieces);
    mt_chat_template_free(template);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(read_and_render, "alpaca", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_templates), cmocka_unit_test(inputs_and_texts), cmocka_unit_test(own_template),
        cmocka_unit_test(refused),       cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
