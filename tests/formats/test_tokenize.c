/* metier tokenize as a program: what it writes, and its exit status. Tests src/cli/tokenize.c. */
#define _XOPEN_SOURCE 700 // popen

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/cmocka_all.h"
#include "support/golden_tokenizers.h"
#include "support/workplace.h"

static const char *program;

struct outcome {
    int status;
    size_t bytes;
    char text[8192]; // standard output and standard error
};

static void run(struct outcome *outcome, const char *command)
{
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): the command is ours
    assert_non_null(pipe);
    outcome->bytes = fread(outcome->text, 1, sizeof outcome->text - 1, pipe);
    outcome->text[outcome->bytes] = '\0';
    int status = pclose(pipe);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs "metier tokenize ARGUMENTS" in the workplace. */
static void tokenize(const struct workplace *place, struct outcome *outcome, const char *arguments)
{
    char command[1024];
    (void)snprintf(command, sizeof command, "cd %s && %s tokenize %s 2>&1", place->directory, program,
                   arguments);
    run(outcome, command);
}

static void expect(const struct workplace *place, const char *arguments, int status, const char *said)
{
    struct outcome outcome;
    tokenize(place, &outcome, arguments);
    if (outcome.status != status || strstr(outcome.text, said) == NULL) {
        fail_msg("%s: exit %d, expected %d and '%s' in:\n%s", arguments, outcome.status, status, said,
                 outcome.text);
    }
}

static void copy_golden(const struct workplace *place, const char *name, const char *as)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct golden_file file = golden_read(&ctx, name);
    assert_int_equal(workplace_write(place, as, file.data, file.bytes), 0);
    golden_free(&file);
}

static void there_and_back(void **state)
{
    const struct workplace *place = *state;
    static const char text[] = "  caf\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD\r\n\t<s> tail  ";
    struct outcome outcome;
    copy_golden(place, "deepseek.json", "tokenizer.json");
    assert_int_equal(workplace_write(place, "text", text, sizeof text - 1), 0);
    tokenize(place, &outcome, ". --file text");
    assert_int_equal(outcome.status, 0);
    assert_int_equal(workplace_write(place, "ids", outcome.text, outcome.bytes), 0);
    int lines = 0;
    for (size_t i = 0; i < outcome.bytes; i++) lines += outcome.text[i] == '\n';
    char count[16];
    (void)snprintf(count, sizeof count, "%d\n", lines);
    tokenize(place, &outcome, ". --file text --count");
    assert_string_equal(outcome.text, count);
    (void)snprintf(count, sizeof count, "%d\n", lines + 1);
    tokenize(place, &outcome, "tokenizer.json --file - --special --count < text");
    assert_string_equal(outcome.text, count);
    tokenize(place, &outcome, ". --file ids --decode");
    assert_int_equal(outcome.status, 0);
    assert_int_equal(outcome.bytes, sizeof text - 1);
    assert_memory_equal(outcome.text, text, sizeof text - 1);
    tokenize(place, &outcome, ". --file - < /dev/null");
    assert_int_equal(outcome.status, 0);
    assert_int_equal(outcome.bytes, 0);
}

static void tiktoken_folder(void **state)
{
    const struct workplace *place = *state;
    struct outcome outcome;
    copy_golden(place, "tiktoken.model", "tiktoken.model");
    copy_golden(place, "tiktoken.config", "tokenizer_config.json");
    assert_int_equal(workplace_write(place, "text", "[EOS]", 5), 0);
    tokenize(place, &outcome, ". --file text");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.text, "701\n");
    assert_int_equal(workplace_write(place, "ids", "701 65 701\n", 11), 0);
    tokenize(place, &outcome, ". --file ids --decode --skip-special");
    assert_int_equal(outcome.bytes, 1);
}

static void refusals(void **state)
{
    const struct workplace *place = *state;
    copy_golden(place, "deepseek.json", "tokenizer.json");
    assert_int_equal(workplace_write(place, "text", "a", 1), 0);
    assert_int_equal(workplace_write(place, "beyond", "1 2 1000000", 11), 0);
    assert_int_equal(workplace_write(place, "word", "1 two", 5), 0);
    assert_int_equal(workplace_write(place, "huge", "99999999999999999999", 20), 0);
    assert_int_equal(workplace_write(place, "broken.json", "{\"model\":", 9), 0);
    assert_int_equal(workplace_write(place, "config.json", "{\"model_type\":\"olmoe\"}", 22), 0);
    expect(place, "", 2, "is missing");
    expect(place, ".", 2, "--file FILE is missing");
    expect(place, ". --file absent", 2, "absent: there is no such file");
    expect(place, "absent --file text", 1, "absent: cannot open: there is no such file or folder");
    expect(place, "/ --file text", 2, "neither tokenizer.json nor tiktoken.model");
    expect(place, "text --file text", 2, "text: line 1");
    expect(place, "broken.json --file text", 2, "broken.json");
    expect(place, "config.json --file text", 2, "config.json");
    expect(place, ". --decode --file beyond", 2, "no token has the id 1000000");
    expect(place, ". --decode --file word", 2, "'two' is not an id");
    expect(place, ". --decode --file huge", 2, "is not an id");
    expect(place, ". . --file text", 2, "unexpected argument");
    expect(place, ". --file text --decode --special", 2, "--special");
    expect(place, ". --file text --skip-special", 2, "--skip-special");
    expect(place, ". --file .", 1, ".");
    expect(place, "--help", 0, "usage: metier tokenize DIR");
    expect(place, ". --file text > /dev/full", 1, "");
}

/* --train: a folder that --file reads, from files of several forms; and what it refuses. */
static void learning(void **state)
{
    const struct workplace *place = *state;
    static const char rows[] = "{\"prompt\": \"low lower\", \"completion\": \"lowest\", \"id\": \"zzzz\"}\n";
    struct outcome outcome;
    assert_int_equal(workplace_write(place, "rows.jsonl", rows, sizeof rows - 1), 0);
    assert_int_equal(workplace_write(place, "text.txt", "low low", 7), 0);
    assert_int_equal(workplace_write(place, "empty.txt", "", 0), 0);
    assert_int_equal(workplace_write(place, "other.jsonl", "{\"title\": \"low\"}\n", 17), 0);
    expect(place, "a --train rows.jsonl --train text.txt --vocabulary 262", 0, "written: a/tokenizer.json");
    expect(place, "c --train text.txt --train rows.jsonl --vocabulary 262 --quiet", 0, "written: c");
    tokenize(place, &outcome, "a --file text.txt");
    assert_string_equal(outcome.text, "260\n261\n"); // lo, low, " low"; ids 259 to 261
    char command[1024];
    (void)snprintf(command, sizeof command, "cd %s && cmp a/tokenizer.json c/tokenizer.json",
                   place->directory);
    run(&outcome, command);
    assert_int_equal(outcome.status, 0);
    expect(place, "d --train text.txt", 2, "the texts give only 261 tokens of 2048");
    expect(place, "d --train empty.txt --vocabulary 300", 2, "the texts give only 259 tokens");
    expect(place, "d --train other.jsonl", 2, "other.jsonl:1: no field is a text");
    expect(place, "d --train absent.txt", 1, "absent.txt");
    expect(place, "d --train text.txt --vocabulary 258", 2, "--vocabulary is 258");
    expect(place, "d --train text.txt --vocabulary 65537", 2, "--vocabulary is 65537");
    expect(place, "d --train text.txt --count", 2, "--count means nothing with --train");
    expect(place, "a --file text.txt --vocabulary 300", 2, "--vocabulary means nothing without --train");
    expect(place, "text.txt --train text.txt --vocabulary 259", 1, "text.txt");
    workplace_remove_folder(place, "a");
    workplace_remove_folder(place, "c");
}

int main(void)
{
    program = getenv("METIER_PROGRAM");
    if (program == NULL) {
        (void)printf("skipped: METIER_PROGRAM does not name the program\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_and_back, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(tiktoken_folder, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(refusals, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(learning, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
