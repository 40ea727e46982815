/* What files hold, noted and compared: every kind of change, weights by samples, lists that are not ours. */
#include "formats/fingerprint.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/safetensors/safetensors_writer.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define LARGE_BYTES ((size_t)5 << 20) // of a tensor that is sampled
#define SMALL_BYTES ((size_t)1 << 20) // of one that is not

static const struct mt_fingerprint_words words = {.since = "the day broke", .cure = "put it back"};

/* Puts one byte of a file to another value, its length and time as they were. */
static void change_byte(const struct workplace *place, const char *name, long at)
{
    char path[256];
    struct stat info;
    FILE *file = fopen(workplace_path(place, name, path, sizeof path), "r+");
    assert_non_null(file);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int byte = fgetc(file);
    assert_true(byte != EOF);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Notes the files "a", "b" (not there) and the weights, or compares with what is noted. */
static enum mt_status note_or_compare(struct mt_context *ctx, const struct workplace *place, bool note,
                                      bool ended, bool *known)
{
    struct mt_fingerprint print;
    char path[256];
    char list[256];
    (void)workplace_path(place, MT_FINGERPRINT_FILE, list, sizeof list);
    mt_fingerprint_init(ctx, &print);
    enum mt_status status = mt_fingerprint_add(&print, workplace_path(place, "a", path, sizeof path));
    if (status == MT_OK) status = mt_fingerprint_add_named(&print, place->directory, "b");
    if (status == MT_OK) status = mt_fingerprint_add_checkpoint(&print, place->directory);
    if (status == MT_OK)
        status = mt_fingerprint_add_free(&print, workplace_path(place, "c", path, sizeof path));
    if (status == MT_OK && note) status = mt_fingerprint_write(&print, list);
    if (status == MT_OK && !note) status = mt_fingerprint_compare(&print, list, &words, ended, NULL, known);
    mt_fingerprint_release(&print);
    return status;
}

static enum mt_status compare(struct mt_context *ctx, const struct workplace *place)
{
    bool known = false;
    enum mt_status status = note_or_compare(ctx, place, false, false, &known);
    assert_true(known);
    return status;
}

static void refused(struct mt_context *ctx, const struct workplace *place, const char *name, const char *how)
{
    char path[256];
    char expected[512];
    assert_int_equal(compare(ctx, place), MT_ERR_USAGE);
    (void)snprintf(expected, sizeof expected, "%s: is not what it was when the day broke (%s): put it back",
                   workplace_path(place, name, path, sizeof path), how);
    assert_string_equal(ctx->message, expected);
}

static void make_files(struct mt_context *ctx, const struct workplace *place)
{
    assert_int_equal(workplace_write(place, "a", "content", 7), 0);
    assert_int_equal(workplace_write(place, "c", "free", 4), 0);
    assert_int_equal(note_or_compare(ctx, place, true, false, NULL), MT_OK);
    assert_int_equal(compare(ctx, place), MT_OK);
}

static void changes_are_noticed(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[256];
    bool known = true;
    mt_context_init(&ctx, NULL);
    assert_int_equal(note_or_compare(&ctx, place, false, false, &known), MT_OK);
    assert_false(known);
    make_files(&ctx, place);
    change_byte(place, "a", 3);
    refused(&ctx, place, "a", "its content has changed");
    change_byte(place, "a", 3);
    assert_int_equal(compare(&ctx, place), MT_OK);
    // Written anew with the same content: the same.
    assert_int_equal(workplace_write(place, "a", "content", 7), 0);
    assert_int_equal(compare(&ctx, place), MT_OK);
    assert_int_equal(workplace_write(place, "b", "", 0), 0);
    refused(&ctx, place, "b", "there was no such file");
    assert_int_equal(unlink(workplace_path(place, "b", path, sizeof path)), 0);
    assert_int_equal(unlink(workplace_path(place, "a", path, sizeof path)), 0);
    refused(&ctx, place, "a", "it is gone, or cannot be read");
    // Nobody reads it any more.
    assert_int_equal(note_or_compare(&ctx, place, false, true, &known), MT_OK);
    assert_int_equal(workplace_write(place, "a", "content", 7), 0);
    // One that may change is told of, no more.
    change_byte(place, "c", 0);
    assert_int_equal(compare(&ctx, place), MT_OK);
    // Whatever is no file is refused, and not waited for.
    assert_int_equal(unlink(workplace_path(place, "a", path, sizeof path)), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(note_or_compare(&ctx, place, false, false, &known), MT_ERR_IO);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ weights

/* model.safetensors: `value` all over, a large tensor behind a small one. */
static void write_weights(struct mt_context *ctx, const struct workplace *place, int value)
{
    const struct mt_safetensors_spec specs[] = {
        {.name = "small", .dtype = MT_SAFETENSORS_U8, .rank = 1, .dim = {(int64_t)SMALL_BYTES}},
        {.name = "large", .dtype = MT_SAFETENSORS_U8, .rank = 1, .dim = {(int64_t)LARGE_BYTES}}};
    struct mt_safetensors_writer writer;
    char path[256];
    char *data = malloc(LARGE_BYTES);
    assert_non_null(data);
    memset(data, value, LARGE_BYTES);
    (void)workplace_path(place, "model.safetensors", path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(ctx, path, specs, 2, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, data, SMALL_BYTES), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, data, LARGE_BYTES), MT_OK);
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
    free(data);
}

static void weights_are_sampled(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    write_weights(&ctx, place, 7);
    make_files(&ctx, place);
    write_weights(&ctx, place, 7);
    assert_int_equal(compare(&ctx, place), MT_OK);
    write_weights(&ctx, place, 8);
    refused(&ctx, place, "model.safetensors", "its content has changed");
    write_weights(&ctx, place, 7);
    // Any byte of the header or of the small tensor.
    long small = -(long)(LARGE_BYTES + SMALL_BYTES);
    const long places[] = {small, small + 12345, small + (long)SMALL_BYTES - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        change_byte(place, "model.safetensors", places[i]);
        refused(&ctx, place, "model.safetensors", "its content has changed");
        change_byte(place, "model.safetensors", places[i]);
    }
    // A stretch of the large one that is as long as two steps of sampling holds a sample, wherever it lies.
    for (long at = -(long)LARGE_BYTES; at + (2 << 20) <= 0; at += 1000000) {
        for (long i = 0; i < 2 << 20; i += 4096) change_byte(place, "model.safetensors", at + i);
        refused(&ctx, place, "model.safetensors", "its content has changed");
        write_weights(&ctx, place, 7);
    }
    assert_int_equal(compare(&ctx, place), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
}

static void shards_are_found_by_their_index(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char one[256];
    char shard[256];
    static const char index[] =
        "{\"weight_map\": {\"small\": \"x.safetensors\", \"large\": \"x.safetensors\"}}";
    mt_context_init(&ctx, NULL);
    write_weights(&ctx, place, 7);
    (void)workplace_path(place, "model.safetensors", one, sizeof one);
    (void)workplace_path(place, "x.safetensors", shard, sizeof shard);
    assert_int_equal(rename(one, shard), 0);
    assert_int_equal(workplace_write(place, "model.safetensors.index.json", index, sizeof index - 1), 0);
    make_files(&ctx, place);
    change_byte(place, "x.safetensors", -(long)LARGE_BYTES - 1);
    refused(&ctx, place, "x.safetensors", "its content has changed");
    change_byte(place, "x.safetensors", -(long)LARGE_BYTES - 1);
    // A file that would be taken instead of the shards.
    write_weights(&ctx, place, 7);
    refused(&ctx, place, "model.safetensors", "there was no such file");
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ the list

/* Paths that only one side has are no difference, and none is forgotten. */
/* A path with a * is its shards: one that changes is noticed, and so is one that goes. */
static void shards_of_data_are_summed(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"r-00000-of-00002.jsonl", "r-00001-of-00002.jsonl"};
    struct mt_context ctx;
    struct mt_digest_text sums[3];
    char path[256];
    mt_context_init(&ctx, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(workplace_write(place, names[i], "{\"a\": 1}\n", 9), 0);
    for (int i = 0; i < 3; i++) {
        struct mt_fingerprint print;
        mt_fingerprint_init(&ctx, &print);
        enum mt_status status =
            mt_fingerprint_add(&print, workplace_path(place, "r-*.jsonl", path, sizeof path));
        assert_int_equal(status, MT_OK);
        sums[i] = print.entries[0].sum;
        assert_int_equal(strlen(sums[i].digits), 32);
        mt_fingerprint_release(&print);
        if (i == 1) change_byte(place, names[1], 3);
    }
    assert_string_equal(sums[0].digits, sums[1].digits);
    assert_string_not_equal(sums[1].digits, sums[2].digits);
    workplace_clear(place);
}

static void lists_grow(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_fingerprint print;
    char list[256];
    char path[256];
    bool known = false;
    mt_context_init(&ctx, NULL);
    make_files(&ctx, place);
    assert_int_equal(workplace_write(place, "d", "d", 1), 0);
    (void)workplace_path(place, MT_FINGERPRINT_FILE, list, sizeof list);
    mt_fingerprint_init(&ctx, &print);
    assert_int_equal(mt_fingerprint_add_named(&print, place->directory, "d"), MT_OK);
    assert_int_equal(mt_fingerprint_compare(&print, list, &words, false, NULL, &known), MT_OK);
    assert_int_equal(mt_fingerprint_write(&print, list), MT_OK);
    mt_fingerprint_release(&print);
    change_byte(place, "a", 0);
    refused(&ctx, place, "a", "its content has changed");
    change_byte(place, "a", 0);
    change_byte(place, "d", 0);
    mt_fingerprint_init(&ctx, &print);
    assert_int_equal(mt_fingerprint_add(&print, workplace_path(place, "d", path, sizeof path)), MT_OK);
    assert_int_equal(mt_fingerprint_compare(&print, list, &words, false, NULL, &known), MT_ERR_USAGE);
    mt_fingerprint_release(&print);
    assert_int_equal(ctx.live_bytes, 0);
}

static void lists_of_others_are_refused(void **state)
{
    const struct workplace *place = *state;
    static const char *const texts[] = {
        "",
        "[]",
        "{",
        "{\"format\": \"metier inputs\", \"version\": 1}",
        "{\"format\": \"something\", \"version\": 1, \"files\": {}}",
        "{\"format\": \"metier inputs\", \"version\": 2, \"files\": {}}",
        "{\"format\": \"metier inputs\", \"version\": 1, \"files\": []}",
        "{\"format\": \"metier inputs\", \"version\": 1, \"files\": {\"a\": 1}}",
        "{\"format\": \"metier inputs\", \"version\": 1, \"files\": {\"a\": \"12\"}}",
        ("{\"format\": \"metier inputs\", \"version\": 1, \"files\": {\"a\": "
         "\"0123456789abcdef0123456789abcdeg\"}}"),
        "{\"format\": \"metier inputs\", \"version\": 1, \"files\": {\"a\": null, \"a\": null}}",
    };
    struct mt_context ctx;
    bool known = false;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(workplace_write(place, MT_FINGERPRINT_FILE, texts[i], strlen(texts[i])), 0);
        enum mt_status status = note_or_compare(&ctx, place, false, false, &known);
        if (status != MT_ERR_FORMAT || strstr(ctx.message, MT_FINGERPRINT_FILE) == NULL)
            fail_msg("%s: status %d, \"%s\"", texts[i], status, ctx.message);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status note_and_compare(struct mt_context *ctx, const void *self)
{
    bool known = false;
    enum mt_status status = note_or_compare(ctx, self, true, false, NULL);
    return status == MT_OK ? note_or_compare(ctx, self, false, false, &known) : status;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    write_weights(&ctx, place, 7);
    make_files(&ctx, place);
    assert_every_allocation_may_fail(note_and_compare, place, 10);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(changes_are_noticed),
        AT_A_PLACE(weights_are_sampled),
        AT_A_PLACE(shards_are_found_by_their_index),
        AT_A_PLACE(shards_of_data_are_summed),
        AT_A_PLACE(lists_grow),
        AT_A_PLACE(lists_of_others_are_refused),
        AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
