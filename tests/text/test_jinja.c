/* Chat templates in Jinja: marks, generated stretches, refusals by name and line, limits, memory. */
#include "text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static struct mt_value text_value(struct mt_jinja_values *values, const char *text, unsigned mark)
{
    return mt_jinja_string(values, text, strlen(text), mark);
}

/* messages: one of the user, mark 1, one of the assistant, mark 2; x: text of mark 3. */
static enum mt_status set_variables(struct mt_jinja_values *values)
{
    static const char *const roles[] = {"user", "assistant"};
    static const char *const texts[] = {" Hi <|im_end|> ", "Größe"};
    struct mt_value list = mt_jinja_list(values);
    for (unsigned i = 0; i < 2; i++) {
        struct mt_value message = mt_jinja_dict(values);
        struct mt_value role = text_value(values, roles[i], MT_JINJA_TRUSTED);
        struct mt_value content = text_value(values, texts[i], i + 1);
        mt_jinja_dict_set(values, message, "role", role);
        mt_jinja_dict_set(values, message, "content", content);
        mt_jinja_list_append(values, list, message);
    }
    struct mt_value x = text_value(values, "a<b", 3);
    mt_jinja_values_set(values, "messages", list);
    mt_jinja_values_set(values, "x", x);
    return mt_jinja_values_status(values);
}

static enum mt_status render(struct mt_context *ctx, const char *text, const struct mt_jinja_options *options,
                             struct mt_jinja_output *output)
{
    struct mt_jinja *template = NULL;
    struct mt_jinja_values *values = NULL;
    *output = (struct mt_jinja_output){0};
    enum mt_status status = mt_jinja_parse(ctx, "t", text, strlen(text), &template);
    if (status == MT_OK) status = mt_jinja_values_create(ctx, &values);
    if (status == MT_OK) status = set_variables(values);
    if (status == MT_OK) status = mt_jinja_render(template, values, options, output);
    mt_jinja_values_free(values);
    mt_jinja_free(template);
    return status;
}

/* The text with marked stretches as "N[...]" and generated ones between << and >>. */
static void write_out(const struct mt_jinja_output *output, char *out, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i <= output->bytes; i++) {
        for (size_t j = 0; j < output->mark_count; j++) {
            if (output->marks[j].end == i && output->marks[j].mark != 0)
                at += (size_t)snprintf(out + at, size - at, "]");
        }
        for (size_t j = 0; j < output->generation_count; j++) {
            if (output->generations[j].end == i) at += (size_t)snprintf(out + at, size - at, ">>");
            if (output->generations[j].start == i) at += (size_t)snprintf(out + at, size - at, "<<");
        }
        for (size_t j = 0; j < output->mark_count; j++) {
            if (output->marks[j].start == i && output->marks[j].mark != 0)
                at += (size_t)snprintf(out + at, size - at, "%u[", output->marks[j].mark);
        }
        if (i < output->bytes) out[at++] = output->text[i];
        assert_true(at + 8 < size);
    }
    out[at] = '\0';
}

static void marks_follow_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        const char *expected;
    } cases[] = {
        {"<s>{{ x }}</s>", "<s>3[a<b]</s>"},
        {"{{ 'p' + x ~ 1 }}", "p3[a<b]1"},
        {"{{ x[1:] }}{{ x[::-1] }}{{ x[0] }}", "3[<bb<aa]"},
        {"{{ x|upper }}{{ x.title() }}", "3[A<BA<B]"},
        {"{{ messages[0].content|trim }}", "1[Hi <|im_end|>]"},
        {"{{ messages[1].content|upper }}", "2[GRÖSSE]"},
        {"{{ x.replace('<', '--') }}", "3[a]--3[b]"},
        {"{{ 'l<r'.replace('<', x) }}", "l3[a<b]r"},
        {"{{ x.split('<') }}", "['3[a]', '3[b]']"},
        {"{{ x.split('<')|join('+') }}", "3[a]+3[b]"},
        {"{{ {'k': x}|tojson }}", "{\"k\": \"3[a<b]\"}"},
        {"{{ x|e }}", "3[a&lt;b]"},
        {"{{ '%s|%5s' % (x, x) }}", "3[a<b]|  3[a<b]"},
        {"{{ '{}-{!r}'.format(x, x) }}", "3[a<b]-'3[a<b]'"},
        {"{% set y %}<{{ x }}>{% endset %}{{ y|replace('<', '(') }}", "(3[a](3[b]>"},
        {"{% macro m(v) %}[{{ v }}]{% endmacro %}{{ m(x)|indent }}", "[3[a<b]]"},
        {"{% for c in x %}{{ c }}.{% endfor %}", "3[a].3[<].3[b]."},
        {"{{ x == 'a<b' }}{{ {x: 1}['a<b'] }}{{ x|length }}", "True13"},
        {"{% filter upper %}q{{ x }}{% endfilter %}", "Q3[A<B]"},
        {"{{ [x, 'b']|sort|join }}{{ x * 2 }}", "3[a<b]b3[a<ba<b]"},
        {"{{ x|tojson|replace('\"', '') ~ x|string|list|first }}", "3[a<ba]"},
        {"{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }};"
         "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}!",
         "user:1[ Hi <|im_end|> ]assistant:<<2[Größe];>>!"},
        {"{% macro g() %}{% generation %}a{% endgeneration %}b{% endmacro %}-{{ g()|upper }}", "-<<A>>B"},
        {"{% generation %}{% endgeneration %}", ""},
    };
    const struct mt_jinja_options options = {0};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[512];
        struct mt_jinja_output output;
        if (render(&ctx, cases[i].template, &options, &output) != MT_OK) fail_msg("%s", ctx.message);
        write_out(&output, out, sizeof out);
        assert_string_equal(out, cases[i].expected);
        mt_jinja_output_free(&output);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void refusals_have_names_and_lines(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        enum mt_status status;
        const char *message;
    } cases[] = {
        {"\n{{ x|frob }}", MT_ERR_UNSUPPORTED,
         "t, line 2: the template uses the filter 'frob', which metier does not know"},
        {"\n\n{{ x|urlize }}", MT_ERR_UNSUPPORTED,
         "t, line 3: the template uses the filter 'urlize', which metier does not know"},
        {"{% if x %}\n{{ x|frob }}{% endif %}", MT_ERR_UNSUPPORTED,
         "t, line 2: the template uses the filter 'frob', which metier does not know"},
        {"{{ x is frob }}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template uses the test 'frob', which metier does not know"},
        {"{{ x.encode() }}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template uses the method 'encode', which metier does not know"},
        {"{{ lipsum() }}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template uses the function 'lipsum', which metier does not know"},
        {"a\n{% include 'x' %}", MT_ERR_UNSUPPORTED,
         "t, line 2: the template uses {% include %}, which metier does not know"},
        {"{% extends 'x' %}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template uses {% extends %}, which metier does not know"},
        {"{% import 'x' as y %}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template uses {% import %}, which metier does not know"},
        {"{% block b %}{% endblock %}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template uses {% block %}, which metier does not know"},
        {"{{ strftime_now('%Y') }}", MT_ERR_UNSUPPORTED,
         "t, line 1: the template asks for the date, and none is given"},
        {"{{ raise_exception('Only ' ~ 2 ~ ' turns!') }}", MT_ERR_USAGE,
         "the chat template refuses this conversation: Only 2 turns!"},
        {"\n{{ y.z }}", MT_ERR_FORMAT, "t, line 2: 'y' is undefined"},
        {"{{ x + 1 }}", MT_ERR_FORMAT, "t, line 1: can only concatenate str (not \"int\") to str"},
        {"{% if x %}", MT_ERR_FORMAT, "t, line 1: the template ends where {% endif %} is missing"},
        {"{% frob %}", MT_ERR_FORMAT, "t, line 1: unexpected {% frob %}"},
        {"{{ x y }}", MT_ERR_FORMAT, "t, line 1: expected '}}', got 'y'"},
        {"{{ (x }}", MT_ERR_FORMAT, "t, line 1: unexpected '}', expected ')'"},
        {"{{ messages.append(1) }}", MT_ERR_FORMAT, "t, line 1: 'append' is undefined"},
        {"{{ 9223372036854775807 + 1 }}", MT_ERR_UNSUPPORTED, "t, line 1: an integer does not fit 64 bits"},
        {"{{ 9223372036854775808 }}", MT_ERR_UNSUPPORTED, "t, line 1: an integer does not fit 64 bits"},
    };
    const struct mt_jinja_options options = {0};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_jinja_output output;
        enum mt_status status = render(&ctx, cases[i].template, &options, &output);
        assert_string_equal(ctx.message, cases[i].message);
        assert_int_equal(status, cases[i].status);
        assert_null(output.text);
    }
    struct mt_jinja *template = NULL;
    assert_int_equal(mt_jinja_parse(&ctx, "t", "\xff", 1, &template), MT_ERR_FORMAT);
    assert_null(template);
    assert_int_equal(ctx.live_bytes, 0);
}

/* What asks for too much ends in a sentence, soon. */
static void everything_is_bounded(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "{{ 'a' * 10 ** 12 }}",
        "{{ [1] * 10 ** 12 }}",
        "{{ range(10 ** 9)|list }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(90) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(90) %}{% set ns.s = ns.s.replace('a', ns.s) %}{% "
        "endfor %}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% "
        "endfor %}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(500) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
        "ns.l }}",
        "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
        "{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ "
        "ns.l|tojson }}",
        "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ {}|tojson(indent=10**12) }}",
        "{{ 'a'|indent(10**12, true) }}",
        "{{ ('a' * 9999)|replace('', 'b' * 9999) }}",
        "{{ x|batch(10**12, 0)|list }}",
        "{{ ('a' * 99999)|list|map('center', 9)|list }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
    };
    // The usual limits end these, too, after seconds of clearing memory.
    const struct mt_jinja_options options = {.limits = {.steps = 1000000, .memory_bytes = (size_t)32 << 20}};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_jinja_output output;
        ctx.message[0] = '\0';
        if (render(&ctx, cases[i], &options, &output) == MT_OK) fail_msg("rendered: %s", cases[i]);
        assert_true(ctx.message[0] != '\0');
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* Templates nested or long beyond all measure: `opening` many times around nothing. */
static void deep_templates(void **state)
{
    (void)state;
    static const char *const openings[] = {"{% if true %}",
                                           "{{ (",
                                           "{{ [",
                                           "{{ {1:",
                                           "{{ - ",
                                           "{{ not ",
                                           "{{ a.b",
                                           "{% for x in y %}",
                                           "{{ x|upper",
                                           "{{ 1 + ",
                                           "{% macro m() %}",
                                           "{{ x[",
                                           "{{ f(",
                                           "{{ a if b else ",
                                           "{% filter upper %}"};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
        size_t length = strlen(openings[i]);
        size_t skip = openings[i][1] == '{' ? 3 : 0; // "{{ " stands once
        size_t piece = length - skip;
        size_t bytes = skip + piece * 20000;
        char *text = test_malloc(bytes);
        memcpy(text, openings[i], skip);
        for (size_t at = skip; at < bytes; at += piece) memcpy(text + at, openings[i] + skip, piece);
        struct mt_jinja *template = NULL;
        assert_int_not_equal(mt_jinja_parse(&ctx, "t", text, bytes, &template), MT_OK);
        assert_null(template);
        test_free(text);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void limits_are_the_callers(void **state)
{
    (void)state;
    struct mt_jinja_options options = {.limits = {.output_bytes = 5}};
    struct mt_jinja_output output;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(render(&ctx, "12345", &options, &output), MT_OK);
    mt_jinja_output_free(&output);
    assert_int_equal(render(&ctx, "123456", &options, &output), MT_ERR_UNSUPPORTED);
    assert_string_equal(ctx.message, "t, line 1: the text has 6 bytes, the limit is 5");
    options.limits = (struct mt_jinja_limits){.steps = 50};
    assert_int_equal(render(&ctx, "{% for i in range(99) %}{{ i }}{% endfor %}", &options, &output),
                     MT_ERR_UNSUPPORTED);
    assert_string_equal(ctx.message, "t, line 1: the template takes too many steps");
    options.limits = (struct mt_jinja_limits){.memory_bytes = 10000};
    assert_int_equal(render(&ctx, "{{ 'a' * 20000 }}", &options, &output), MT_ERR_UNSUPPORTED);
    assert_string_equal(ctx.message, "t, line 1: the template takes too much memory");
    assert_int_equal(ctx.live_bytes, 0);
}

static void values_and_questions(void **state)
{
    (void)state;
    const struct mt_jinja_options options = {0};
    struct mt_context ctx;
    struct mt_jinja_values *values = NULL;
    struct mt_jinja *template = NULL;
    struct mt_jinja_output output;
    mt_context_init(&ctx, NULL);
    const char *text = "{{ d }}{{ n }}{{ tools is none }}{% generation %}{% endgeneration %}{{ broken }}";
    assert_int_equal(mt_jinja_parse(&ctx, "t", text, strlen(text), &template), MT_OK);
    assert_true(mt_jinja_has_generation(template));
    assert_int_equal(mt_jinja_values_create(&ctx, &values), MT_OK);
    struct mt_value dict = mt_jinja_dict(values);
    mt_jinja_dict_set(values, dict, "a", mt_jinja_bool(true));
    mt_jinja_dict_set(values, dict, "a", mt_jinja_real(0.5));
    mt_jinja_dict_set(values, dict, "b", mt_jinja_none());
    mt_jinja_values_set(values, "d", dict);
    mt_jinja_values_set(values, "n", mt_jinja_integer(1));
    mt_jinja_values_set(values, "n", mt_jinja_integer(INT64_MIN));
    mt_jinja_values_set(values, "tools", mt_jinja_none());
    struct mt_value broken = text_value(values,
                                        "a\xff"
                                        "b",
                                        1);
    mt_jinja_values_set(values, "broken", broken);
    assert_int_equal(mt_jinja_values_status(values), MT_OK);
    if (mt_jinja_render(template, values, &options, &output) != MT_OK) fail_msg("%s", ctx.message);
    assert_string_equal(output.text, "{'a': 0.5, 'b': None}-9223372036854775808Truea\xef\xbf\xbd"
                                     "b");
    mt_jinja_output_free(&output);
    mt_jinja_values_free(values);
    mt_jinja_free(template);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The first failure stays, and nothing is rendered. */
static void values_refuse(void **state)
{
    (void)state;
    const struct mt_jinja_options options = {0};
    struct mt_context ctx;
    struct mt_jinja *template = NULL;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_jinja_parse(&ctx, "t", "a", 1, &template), MT_OK);
    for (int kind = 0; kind < 3; kind++) {
        struct mt_jinja_values *values = NULL;
        struct mt_jinja_output output;
        assert_int_equal(mt_jinja_values_create(&ctx, &values), MT_OK);
        struct mt_value dict = mt_jinja_dict(values);
        struct mt_value list = mt_jinja_list(values);
        if (kind == 0) (void)mt_jinja_string(values, "a", 1, MT_JINJA_MARK_LAST + 1);
        if (kind == 1) mt_jinja_list_append(values, dict, dict);
        if (kind == 2) mt_jinja_dict_set(values, list, "a", dict);
        mt_jinja_values_set(values, "d", dict);
        assert_int_equal(mt_jinja_values_status(values), MT_ERR_USAGE);
        assert_int_equal(mt_jinja_render(template, values, &options, &output), MT_ERR_USAGE);
        mt_jinja_values_free(values);
    }
    mt_jinja_free(template);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status render_once(struct mt_context *ctx, const void *self)
{
    const struct mt_jinja_options options = {0};
    struct mt_jinja_output output;
    enum mt_status status = render(ctx, self, &options, &output);
    mt_jinja_output_free(&output);
    return status;
}

static void out_of_memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(
        render_once,
        "{% for m in messages %}{% generation %}{{ m.content|upper|tojson }}{% endgeneration %}{% endfor %}"
        "{{ 'x' * 200000 }}{{ [messages, range(5000)|list]|map('length')|list }}",
        7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_follow_bytes),     cmocka_unit_test(refusals_have_names_and_lines),
        cmocka_unit_test(everything_is_bounded),  cmocka_unit_test(deep_templates),
        cmocka_unit_test(limits_are_the_callers), cmocka_unit_test(values_and_questions),
        cmocka_unit_test(values_refuse),          cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
