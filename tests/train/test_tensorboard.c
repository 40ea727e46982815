/* TensorBoard's event file: checksums by known vectors, frames and messages byte by byte. */
#include "train/log/tensorboard.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static void known_checksums(void **state)
{
    (void)state;
    uint32_t table[256];
    unsigned char bytes[32];
    mt_crc32c_table(table);
    assert_int_equal(mt_crc32c(table, "", 0), 0);
    assert_int_equal(mt_crc32c(table, "123456789", 9), 0xe3069283u);
    // RFC 3720, B.4
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(mt_crc32c(table, bytes, sizeof bytes), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(mt_crc32c(table, bytes, sizeof bytes), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(mt_crc32c(table, bytes, sizeof bytes), 0x46dd794eu);
    assert_int_equal(mt_crc32c_masked(0), 0xa282ead8u);
    assert_int_equal(mt_crc32c_masked(0xe3069283u), 0xc78ab0e5u);
}

static void folder_of(const struct workplace *place, char *path, size_t bytes)
{
    (void)workplace_path(place, "board", path, bytes);
}

/* The number of files in the folder; the name of the last in order. */
static int last_file(const char *folder, char *path, size_t bytes)
{
    char last[256] = "";
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (entry->d_name[0] == '.') continue;
        assert_int_equal(strncmp(entry->d_name, "events.out.tfevents.", 20), 0);
        if (strcmp(entry->d_name, last) > 0) (void)snprintf(last, sizeof last, "%s", entry->d_name);
        count++;
    }
    (void)closedir(listing);
    (void)snprintf(path, bytes, "%s/%s", folder, last);
    return count;
}

static uint64_t little(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = count - 1; i >= 0; i--) value = value << 8 | bytes[i];
    return value;
}

/* Checks a record's frame; returns its data and moves on. */
static const unsigned char *next_record(const unsigned char **at, const unsigned char *end, size_t *bytes)
{
    uint32_t table[256];
    mt_crc32c_table(table);
    assert_true(end - *at >= 16);
    *bytes = (size_t)little(*at, 8);
    assert_int_equal(little(*at + 8, 4), mt_crc32c_masked(mt_crc32c(table, *at, 8)));
    const unsigned char *data = *at + 12;
    assert_true((size_t)(end - data) >= *bytes + 4);
    assert_int_equal(little(data + *bytes, 4), mt_crc32c_masked(mt_crc32c(table, data, *bytes)));
    assert_int_equal(data[0], 0x09); // wall_time, eight bytes
    *at = data + *bytes + 4;
    return data + 9;
}

static void records_byte_by_byte(void **state)
{
    char folder[256];
    char path[512];
    struct mt_context ctx;
    struct mt_tensorboard board;
    mt_context_init(&ctx, NULL);
    folder_of(*state, folder, sizeof folder);
    assert_int_equal(mt_tensorboard_open(&ctx, folder, 3, 299, &board), MT_OK);
    mt_context_forbid_allocation(&ctx, "a record");
    mt_tensorboard_scalar(&board, "a/b", 1.5);
    mt_tensorboard_scalar(&board, "gone", NAN);
    mt_tensorboard_scalar(&board, "c", -2.0);
    assert_int_equal(mt_tensorboard_record(&board, 300), MT_OK);
    assert_int_equal(mt_tensorboard_record(&board, 301), MT_OK); // nothing to say
    mt_context_forbid_allocation(&ctx, NULL);
    mt_tensorboard_close(&board);
    assert_int_equal(last_file(folder, path, sizeof path), 1);
    void *data = NULL;
    size_t bytes = 0;
    assert_int_equal(mt_file_read_all(&ctx, path, 1 << 20, &data, &bytes), MT_OK);
    const unsigned char *at = data;
    const unsigned char *end = at + bytes;
    size_t length = 0;
    const unsigned char *event = next_record(&at, end, &length);
    assert_memory_equal(event,
                        "\x10\x00\x1a\x0d"
                        "brain.Event:2",
                        17);
    assert_int_equal(length, 9 + 17);
    event = next_record(&at, end, &length);
    assert_memory_equal(event, "\x10\xac\x02\x3a\x02\x08\x01", 7); // a session starts at step 300
    assert_int_equal(length, 9 + 7);
    event = next_record(&at, end, &length);
    static const unsigned char summary[] = {0x10, 0xac, 0x02, 0x2a, 22,   0x0a, 10,   0x0a, 3,
                                            'a',  '/',  'b',  0x15, 0,    0,    0xc0, 0x3f, 0x0a,
                                            8,    0x0a, 1,    'c',  0x15, 0,    0,    0,    0xc0};
    assert_memory_equal(event, summary, sizeof summary);
    assert_int_equal(length, 9 + sizeof summary);
    assert_ptr_equal(at, end);
    mt_release(&ctx, data, bytes);
    assert_int_equal(ctx.live_bytes, 0);
    workplace_remove_folder(*state, "board");
}

static void a_start_a_file(void **state)
{
    char folder[256];
    char path[512];
    struct mt_context ctx;
    struct mt_tensorboard board;
    mt_context_init(&ctx, NULL);
    folder_of(*state, folder, sizeof folder);
    for (int start = 1; start <= 3; start++) {
        assert_int_equal(mt_tensorboard_open(&ctx, folder, 3, 0, &board), MT_OK);
        mt_tensorboard_close(&board);
        assert_int_equal(last_file(folder, path, sizeof path), start);
    }
    mt_tensorboard_close(&board);
    workplace_remove_folder(*state, "board");
}

static void too_many_scalars(void **state)
{
    char folder[256];
    struct mt_context ctx;
    struct mt_tensorboard board;
    mt_context_init(&ctx, NULL);
    folder_of(*state, folder, sizeof folder);
    assert_int_equal(mt_tensorboard_open(&ctx, folder, 2, 0, &board), MT_OK);
    uint64_t before = board.file.bytes;
    for (int i = 0; i < 1000; i++) mt_tensorboard_scalar(&board, "x", i);
    assert_int_equal(mt_tensorboard_record(&board, 1), MT_ERR_INTERNAL);
    assert_int_equal(board.file.bytes, before);
    mt_tensorboard_scalar(&board, "x", 1.0);
    assert_int_equal(mt_tensorboard_record(&board, 1), MT_OK);
    assert_true(board.file.bytes > before);
    mt_tensorboard_close(&board);
    workplace_remove_folder(*state, "board");
    // A folder that cannot be made.
    assert_int_equal(mt_tensorboard_open(&ctx, "/dev/null/board", 2, 0, &board), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "/dev/null/board"));
    mt_tensorboard_close(&board);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status open_and_write(struct mt_context *ctx, const void *self)
{
    char folder[256];
    struct mt_tensorboard board;
    folder_of(self, folder, sizeof folder);
    enum mt_status status = mt_tensorboard_open(ctx, folder, 4, 0, &board);
    if (status == MT_OK) mt_tensorboard_scalar(&board, "x", 1.0);
    if (status == MT_OK) status = mt_tensorboard_record(&board, 1);
    mt_tensorboard_close(&board);
    workplace_remove_folder(self, "board");
    return status;
}

static void failing_allocations(void **state)
{
    assert_every_allocation_may_fail(open_and_write, *state, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_checksums),
        cmocka_unit_test_setup_teardown(records_byte_by_byte, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(a_start_a_file, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(too_many_scalars, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(failing_allocations, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
