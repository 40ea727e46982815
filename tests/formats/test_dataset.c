/* Datasets: rows of every format, bad rows with their lines, limits, gzip, and the real files. */
#include "formats/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

/* An open dataset, a row for it, and the context of both. */
struct opened {
    struct mt_context ctx;
    struct mt_dataset *dataset;
    struct mt_row row;
    char path[256];
    enum mt_status status;
};

static void open_file(struct opened *o, void **state, const char *name, const char *content,
                      const struct mt_dataset_options *options)
{
    const struct mt_dataset_options none = {0};
    mt_context_init(&o->ctx, NULL);
    mt_row_init(&o->ctx, &o->row);
    workplace_path(*state, name, o->path, sizeof o->path);
    if (content != NULL) assert_int_equal(workplace_write(*state, name, content, strlen(content)), 0);
    o->status = mt_dataset_open(&o->ctx, o->path, options != NULL ? options : &none, &o->dataset);
}

static void close_file(struct opened *o)
{
    mt_row_free(&o->row);
    mt_dataset_close(o->dataset);
    assert_int_equal(o->ctx.live_bytes, 0);
}

static void expect_rows(struct opened *o, uint64_t rows)
{
    if (o->status != MT_OK) fail_msg("%s", o->ctx.message);
    assert_int_equal(mt_dataset_rows(o->dataset), rows);
}

static void expect_field(struct opened *o, uint64_t index, const char *name, const char *text)
{
    if (mt_dataset_read(o->dataset, index, &o->row) != MT_OK) fail_msg("%s", o->ctx.message);
    const struct mt_row_field *field = mt_row_field(&o->row, name);
    if (field == NULL) fail_msg("row %d has no field %s", (int)index, name);
    assert_int_equal(field->kind, MT_FIELD_TEXT);
    assert_int_equal(field->bytes, strlen(text));
    assert_memory_equal(field->text, text, field->bytes);
}

/* The row is refused, with a message that begins with its file and line and holds `words`. */
static void expect_bad(struct opened *o, uint64_t index, uint64_t line, const char *words)
{
    char where[300];
    assert_int_equal(mt_dataset_read(o->dataset, index, &o->row), MT_ERR_FORMAT);
    (void)snprintf(where, sizeof where, "%s:%d: ", o->path, (int)line);
    if (strncmp(o->ctx.message, where, strlen(where)) != 0 || strstr(o->ctx.message, words) == NULL) {
        fail_msg("expected '%s... %s...', got '%s'", where, words, o->ctx.message);
    }
}

/* Opening fails with these words. */
static void expect_refused(void **state, const char *name, const char *content, const char *words)
{
    struct opened o;
    open_file(&o, state, name, content, NULL);
    assert_int_not_equal(o.status, MT_OK);
    if (strstr(o.ctx.message, words) == NULL) fail_msg("%s: %s", name, o.ctx.message);
    assert_null(o.dataset);
    close_file(&o);
}

// ------------------------------------------------------------------ JSON

static void jsonl(void **state)
{
    struct opened o;
    open_file(&o, state, "a.jsonl",
              "\xEF\xBB\xBF{\"q\": \"one\\n\", \"n\": 3, \"x\": 0.1, \"ok\": true, \"no\": null}\r\n"
              "\n"
              "{\"q\": broken}\n"
              "[1]\n"
              "{\"q\": \"last\", \"deep\": {\"a\": 1}, \"list\": [1, 2]}",
              NULL);
    expect_rows(&o, 4);
    expect_field(&o, 3, "q", "last");
    assert_int_equal(mt_row_field(&o.row, "deep")->kind, MT_FIELD_OTHER);
    assert_int_equal(mt_row_field(&o.row, "list")->kind, MT_FIELD_OTHER);
    assert_int_equal(o.row.line, 5);
    expect_field(&o, 0, "q", "one\n");
    expect_field(&o, 0, "n", "3");
    expect_field(&o, 0, "x", "0.1");
    expect_field(&o, 0, "ok", "true");
    expect_field(&o, 0, "no", "");
    assert_null(mt_row_field(&o.row, "absent"));
    expect_bad(&o, 1, 3, "not valid JSON");
    expect_bad(&o, 2, 4, "must be a JSON object");
    expect_field(&o, 3, "q", "last");
    close_file(&o);
}

static void lists_and_objects(void **state)
{
    struct opened o;
    struct mt_json_node node;
    open_file(&o, state, "a.jsonl", "{\"messages\": [{\"role\": \"user\"}], \"o\": {}, \"t\": \"x\"}\n",
              NULL);
    expect_rows(&o, 1);
    assert_int_equal(mt_dataset_read(o.dataset, 0, &o.row), MT_OK);
    assert_int_equal(mt_row_field(&o.row, "messages")->kind, MT_FIELD_OTHER);
    assert_int_equal(mt_row_field(&o.row, "o")->kind, MT_FIELD_OTHER);
    assert_true(mt_row_value(&o.row, "messages", &node));
    assert_int_equal(mt_json_count(&node), 1);
    assert_false(mt_row_value(&o.row, "absent", &node));
    close_file(&o);
}

static void json_documents(void **state)
{
    static const char *const documents[] = {
        "[{\"q\": \"a]}\\\"\"},\n {\"q\": \"b\"} ]",
        "{\"canary\": \"x\", \"no\": [], \"n\": 2, \"rows\": [\n{\"q\": \"a]}\\\"\"}, {\"q\": \"b\"}]}",
        "{\"0\": {\"q\": \"a]}\\\"\"}, \"1\"\n: {\"q\": \"b\"}}",
    };
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        struct opened o;
        open_file(&o, state, "a.json", documents[i], NULL);
        expect_rows(&o, 2);
        expect_field(&o, 1, "q", "b");
        assert_int_equal(o.row.line, 2);
        expect_field(&o, 0, "q", "a]}\"");
        close_file(&o);
    }
    struct opened o;
    open_file(&o, state, "a.json", "[]", NULL);
    expect_rows(&o, 0);
    close_file(&o);
    open_file(&o, state, "a.json", "[{\"q\": \"a\"}, {\"q\": nope}, 7, {\"q\": \"b\"}]", NULL);
    expect_rows(&o, 4);
    expect_bad(&o, 1, 1, "not valid JSON");
    expect_bad(&o, 2, 1, "JSON");
    expect_field(&o, 3, "q", "b");
    close_file(&o);
}

static void json_refused(void **state)
{
    expect_refused(state, "a.json", "", "expected a JSON array");
    expect_refused(state, "a.json", "\n7", "a.json:2: expected a JSON array");
    expect_refused(state, "a.json", "[{\"q\": \"a\"},\n{\"q\": \"b\"", "does not end");
    expect_refused(state, "a.json", "[{\"q\": \"a\"},]", "does not end");
    expect_refused(state, "a.json", "[{\"q\": \"a\"} {\"q\": \"b\"}]", "does not end");
    expect_refused(state, "a.json", "{\"q\" \"a\"}", "expected a key and a colon");
    expect_refused(state, "a.json", "{\"q\": \"a", "does not end");
    expect_refused(state, "a.json", "{\"a\": {}} {\"a\": {}}", "something follows");
    expect_refused(state, "a.json", "[{\"a\": 1}]\n[{\"a\": 1}]",
                   "a.json:2: not valid JSON: something follows");
    expect_refused(state, "a.json", "{\"a\": [{}] 7}", "something follows");
}

// ------------------------------------------------------------------ tables and text

static void csv(void **state)
{
    struct opened o;
    open_file(&o, state, "a.csv",
              "q,\"the \"\"answer\"\"\",n\r\n"
              "plain,\"with, comma\",1\r\n"
              "\"two\nlines\",\"say \"\"hi\"\"\",\r\n"
              "\r\n"
              "5\" wide,\"\",\"\"\n"
              "too,few\n"
              "too,many,by,one\n"
              "\"after\" quote,b,c\n"
              "last,row,3",
              NULL);
    expect_rows(&o, 7);
    expect_field(&o, 0, "the \"answer\"", "with, comma");
    expect_field(&o, 1, "q", "two\nlines");
    expect_field(&o, 1, "the \"answer\"", "say \"hi\"");
    expect_field(&o, 1, "n", "");
    expect_field(&o, 2, "q", "5\" wide");
    assert_int_equal(o.row.line, 6);
    expect_field(&o, 2, "n", "");
    expect_bad(&o, 3, 7, "2 fields, but there are 3 columns");
    expect_bad(&o, 4, 8, "more fields than the 3 columns");
    expect_bad(&o, 5, 9, "text after a closing quote in column 1");
    expect_field(&o, 6, "n", "3");
    close_file(&o);
}

static void columns(void **state)
{
    struct opened o;
    const struct mt_dataset_options options = {.columns = "q,a"};
    open_file(&o, state, "a.csv", "x,y\nz,w\n", &options);
    expect_rows(&o, 2);
    expect_field(&o, 0, "a", "y");
    close_file(&o);
    open_file(&o, state, "a.tsv", "\"x\ty, z\nz\tw\n", &options);
    expect_rows(&o, 2);
    expect_field(&o, 0, "q", "\"x");
    expect_field(&o, 0, "a", "y, z");
    close_file(&o);
    open_file(&o, state, "a.tsv", "", NULL);
    expect_rows(&o, 0);
    close_file(&o);
    expect_refused(state, "a.csv", "a,b,a\n1,2,3\n", "a.csv:1: columns 1 and 3 are both named 'a'");
    expect_refused(state, "a.csv", "a,\"b\n", "not closed");
}

static void unclosed_quote(void **state)
{
    struct opened o;
    const struct mt_dataset_options options = {.max_row_bytes = 40};
    open_file(&o, state, "a.csv",
              "a,b\n1,2\n\"open,3\n1111111111,2222222222\n1111111111,2222222222\n5,6\n7,8\n", &options);
    expect_rows(&o, 4);
    expect_bad(&o, 1, 3, "not closed");
    expect_field(&o, 2, "a", "5");
    expect_field(&o, 3, "b", "8");
    assert_int_equal(o.row.line, 7);
    close_file(&o);
}

static void texts(void **state)
{
    static const char content[] = "one\ntwo\n \t\n\nthree \xC3\xA9\xC3\xA9\xC3\xA9 long\nfour\n";
    struct opened o;
    struct mt_dataset_options options = {0};
    open_file(&o, state, "a.txt", content, &options);
    expect_rows(&o, 2);
    expect_field(&o, 0, "text", "one\ntwo");
    expect_field(&o, 1, "text", "three \xC3\xA9\xC3\xA9\xC3\xA9 long\nfour");
    assert_int_equal(o.row.line, 5);
    close_file(&o);
    options.text_rows = MT_TEXT_LINES;
    open_file(&o, state, "a.txt", content, &options);
    expect_rows(&o, 4);
    expect_field(&o, 3, "text", "four");
    assert_int_equal(o.row.line, 6);
    close_file(&o);
    options = (struct mt_dataset_options){.text_rows = MT_TEXT_PIECES, .piece_bytes = 9};
    open_file(&o, state, "a.txt", content, &options);
    expect_rows(&o, 4);
    expect_field(&o, 0, "text", "one\ntwo");
    expect_field(&o, 1, "text", "three \xC3\xA9");
    expect_field(&o, 2, "text", "\xC3\xA9\xC3\xA9 long");
    expect_field(&o, 3, "text", "four");
    assert_int_equal(o.row.line, 6);
    close_file(&o);
}

// ------------------------------------------------------------------ limits, gzip, hostile input

static void limits(void **state)
{
    struct opened o;
    const struct mt_dataset_options options = {.max_row_bytes = 20};
    open_file(&o, state, "a.jsonl", "{\"q\": \"aaaaaaaaaaaaaaaaaaaa\"}\n{\"q\": \"b\"}\n", &options);
    expect_rows(&o, 2);
    expect_bad(&o, 0, 1, "a row of 29 bytes, the limit is 20");
    expect_field(&o, 1, "q", "b");
    close_file(&o);
    char deep[512] = "{\"q\": ";
    memset(deep + 6, '[', 400);
    open_file(&o, state, "a.jsonl", deep, NULL);
    expect_rows(&o, 1);
    expect_bad(&o, 0, 1, "nested more than 64");
    close_file(&o);
    expect_refused(state, "a.orc", "x", "the name does not say the format");
    expect_refused(state, "gone.jsonl", NULL, "gone.jsonl: cannot open");
}

static void write_gzip(void **state, const char *name, const char *mode, const char *content)
{
    char path[256];
    gzFile file = gzopen(workplace_path(*state, name, path, sizeof path), mode);
    assert_non_null(file);
    assert_int_equal(gzwrite(file, content, (unsigned)strlen(content)), strlen(content));
    assert_int_equal(gzclose(file), Z_OK);
}

static void gzip(void **state)
{
    struct opened o;
    const struct workplace *place = *state;
    struct mt_dataset_options options = {.spool_folder = place->directory};
    write_gzip(state, "a.jsonl.gz", "wb", "{\"q\": \"a\"}\n");
    write_gzip(state, "a.jsonl.gz", "ab", "{\"q\": \"b\"}\n"); // a second member
    open_file(&o, state, "a.jsonl.gz", NULL, &options);
    expect_rows(&o, 2);
    expect_field(&o, 1, "q", "b");
    assert_int_equal(workplace_entries(place), 1); // the spool has no name
    close_file(&o);
    options.max_unpacked = 15;
    open_file(&o, state, "a.jsonl.gz", NULL, &options);
    assert_int_equal(o.status, MT_ERR_FORMAT);
    assert_non_null(strstr(o.ctx.message, "unpacks to more than 15 bytes"));
    assert_int_equal(workplace_entries(place), 1);
    close_file(&o);
    char path[256];
    assert_int_equal(truncate(workplace_path(place, "a.jsonl.gz", path, sizeof path), 20), 0);
    expect_refused(state, "a.jsonl.gz", NULL, "cut off");
    expect_refused(state, "b.jsonl.gz", "{\"q\": \"a\"}\n", "not a sound gzip file");
    expect_refused(state, "c.jsonl.gz", "", "not a gzip file");
    options = (struct mt_dataset_options){.spool_folder = "/nowhere"};
    write_gzip(state, "a.jsonl.gz", "wb", "{\"q\": \"a\"}\n");
    open_file(&o, state, "a.jsonl.gz", NULL, &options);
    assert_int_equal(o.status, MT_ERR_IO);
    assert_non_null(strstr(o.ctx.message, "/nowhere"));
    close_file(&o);
}

/* Pseudo-random bytes of the kind parsers stumble over: whatever is in them, rows are read or refused. */
static void noise(void **state)
{
    static const char *const names[] = {"n.jsonl", "n.json", "n.csv", "n.tsv", "n.txt", "n.jsonl.gz"};
    static const char alphabet[] = "[]{}\",:\\\n\r\t a1\xC3\xA9\xFF";
    uint32_t number = 1;
    for (int round = 0; round < 1200; round++) {
        char content[80];
        size_t bytes = (size_t)round % (sizeof content - 1);
        for (size_t i = 0; i < bytes; i++) {
            number = number * 1664525u + 1013904223u;
            content[i] = alphabet[(number >> 16) % (sizeof alphabet - 1)];
        }
        content[bytes] = '\0';
        if (round % 3 == 0 && bytes > 1) content[0] = '[';
        struct opened o;
        const struct mt_dataset_options options = {
            .max_row_bytes = 30, .text_rows = (enum mt_text_rows)(round % 3), .piece_bytes = 5};
        open_file(&o, state, names[round % 6], content, &options);
        uint64_t rows = o.dataset != NULL ? mt_dataset_rows(o.dataset) : 0;
        for (uint64_t i = 0; i < rows; i++) {
            enum mt_status status = mt_dataset_read(o.dataset, i, &o.row);
            assert_true(status == MT_OK || status == MT_ERR_FORMAT);
        }
        close_file(&o);
    }
}

static enum mt_status read_all(struct mt_context *ctx, const void *self)
{
    const struct mt_dataset_options options = {0};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_row_init(ctx, &row);
    enum mt_status status = mt_dataset_open(ctx, self, &options, &dataset);
    for (uint64_t i = 0; status == MT_OK && i < mt_dataset_rows(dataset); i++) {
        status = mt_dataset_read(dataset, i, &row);
    }
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

static void out_of_memory(void **state)
{
    char path[256];
    write_gzip(state, "a.csv.gz", "wb", "a,b\n\"x\"\"y\",2\n3,4\n");
    assert_every_allocation_may_fail(read_all, workplace_path(*state, "a.csv.gz", path, sizeof path), 8);
    static const char line[] = "{\"n\": 1, \"m\": [{\"role\": \"user\", \"content\": \"x\"}]}\n";
    assert_int_equal(workplace_write(*state, "a.jsonl", line, strlen(line)), 0);
    assert_every_allocation_may_fail(read_all, workplace_path(*state, "a.jsonl", path, sizeof path), 1);
}

// ------------------------------------------------------------------ real files

static void real_files(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *columns;
        int rows;
        const char *field; // that every row has
    } files[] = {
        {"gsm8k/train.jsonl.gz", NULL, 7473, "question"},
        {"gsm8k/test.jsonl", NULL, 1319, "answer"},
        {"mmlu/dev/anatomy_dev.csv", "question,a,b,c,d,answer", 5, "answer"},
        {"glue/SST-2/train.tsv.gz", NULL, 67349, "sentence"},
        {"glue/MRPC/train.tsv.gz", NULL, 3667, "Quality"},
        {"glue/subset_QQP/train.json.gz", NULL, 8999, "text_a"},
        {"bbh/tasks/boolean_expressions.json", NULL, 250, "target"},
        {"flan/sni_train_2k.jsonl.gz", NULL, 1998, "instruction"},
        {"corpora/tinyshakespeare.txt.gz", NULL, 7222, "text"},
    };
    const char *shared = getenv("METIER_SHARED_DATA");
    if (shared == NULL || access(shared, R_OK) != 0) {
        print_message("skipped: METIER_SHARED_DATA does not name the folder of real files\n");
        skip();
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct opened o;
        const struct mt_dataset_options options = {.columns = files[i].columns};
        mt_context_init(&o.ctx, NULL);
        mt_row_init(&o.ctx, &o.row);
        (void)snprintf(o.path, sizeof o.path, "%s/%s", shared, files[i].name);
        o.status = mt_dataset_open(&o.ctx, o.path, &options, &o.dataset);
        expect_rows(&o, (uint64_t)files[i].rows);
        for (uint64_t row = mt_dataset_rows(o.dataset); row-- > 0;) {
            if (mt_dataset_read(o.dataset, row, &o.row) != MT_OK) fail_msg("%s", o.ctx.message);
            assert_non_null(mt_row_field(&o.row, files[i].field));
        }
        close_file(&o);
    }
}

static enum mt_status read_memory(struct mt_context *ctx, const void *self)
{
    const struct mt_dataset_options none = {0};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_row_init(ctx, &row);
    enum mt_status status = mt_dataset_open_memory(ctx, "m.tsv", self, strlen(self), &none, &dataset);
    if (status == MT_OK) status = mt_dataset_read(dataset, 1, &row);
    if (status == MT_OK) {
        assert_int_equal(mt_dataset_rows(dataset), 2);
        assert_int_equal(row.line, 3);
        assert_memory_equal(mt_row_field(&row, "b")->text, "four", 4);
    }
    mt_row_free(&row);
    mt_dataset_close(dataset);
    return status;
}

static void memory(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(read_memory, "a\tb\n1\t2\n3\tfour\n", 5);
}

/* Fields by other names than the file's, in JSON and in tables. */
static void renamed_fields(void **state)
{
    struct opened o;
    const char *text = NULL;
    size_t bytes = 0;
    struct mt_json_node node;
    const struct mt_dataset_options options = {.fields = "question=q,list=l"};
    open_file(&o, state, "renamed.jsonl", "{\"q\": \"why\", \"l\": [\"a\", \"b\"], \"x\": \"y\"}\n",
              &options);
    expect_rows(&o, 1);
    expect_field(&o, 0, "question", "why");
    expect_field(&o, 0, "q", "why");
    expect_field(&o, 0, "x", "y");
    assert_int_equal(mt_row_items(&o.row, "list"), 2);
    assert_true(mt_row_item(&o.row, "list", 1, &text, &bytes));
    assert_true(mt_row_value(&o.row, "list", &node));
    assert_null(mt_row_field(&o.row, "quest"));
    close_file(&o);
    open_file(&o, state, "renamed.tsv", "q\tl\n1\t2\n", &options);
    expect_field(&o, 0, "question", "1");
    expect_field(&o, 0, "list", "2");
    close_file(&o);
    assert_true(mt_dataset_fields_valid("a=b"));
    assert_true(mt_dataset_fields_valid("a=b,c=d e"));
    assert_false(mt_dataset_fields_valid(""));
    assert_false(mt_dataset_fields_valid("a"));
    assert_false(mt_dataset_fields_valid("a=b,c"));
    assert_false(mt_dataset_fields_valid("=b"));
    assert_false(mt_dataset_fields_valid("a="));
}

/* A folder, where that is wanted: a .json file is a row, in the order of names; packed text has the same sum.
 */
static void folder_of_files(void **state)
{
    struct opened o;
    char path[300];
    const struct mt_dataset_options options = {.folders = true};
    workplace_path(*state, "tree", path, sizeof path);
    assert_int_equal(mkdir(path, 0700), 0);
    open_file(&o, state, "tree", NULL, &options);
    assert_int_equal(o.status, MT_ERR_FORMAT);
    assert_non_null(strstr(o.ctx.message, "a folder without .json files"));
    close_file(&o);
    assert_int_equal(workplace_write(*state, "tree/b.json", "{\n \"q\": \"2\"\r\n}\n", 15), 0);
    assert_int_equal(workplace_write(*state, "tree/a.json", "{\"q\": \"1\"}", 10), 0);
    assert_int_equal(workplace_write(*state, "tree/c.txt", "{\"q\": \"3\"}", 10), 0);
    open_file(&o, state, "tree", NULL, &options);
    expect_rows(&o, 2);
    expect_field(&o, 0, "q", "1");
    expect_field(&o, 1, "q", "2");
    assert_int_equal(strlen(mt_dataset_sum(o.dataset).digits), MT_DIGEST_DIGITS);
    close_file(&o);
    expect_refused(state, "tree", NULL, "tree");
    workplace_remove_folder(*state, "tree");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jsonl, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(lists_and_objects, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(json_documents, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(json_refused, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(csv, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(columns, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(unclosed_quote, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(texts, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(limits, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(gzip, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(renamed_fields, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(folder_of_files, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(noise, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
        cmocka_unit_test(memory),
        cmocka_unit_test(real_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
