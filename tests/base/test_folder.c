/* Folders that appear whole or not at all: new, replacing, exchanged, removed, locked; and checksums of
 * files. */
#include "base/files/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/digest.h"
#include "base/files/file.h"
#include "base/files/folder_lock.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static bool exists(const struct workplace *place, const char *name)
{
    char path[256];
    struct stat info;
    return lstat(workplace_path(place, name, path, sizeof path), &info) == 0;
}

static enum mt_status write_into(struct mt_context *ctx, const struct mt_folder *folder, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return mt_file_write_all(ctx, path, name, strlen(name));
}

static void new_and_replaced(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_folder folder;
    char path[128];
    mt_context_init(&ctx, NULL);
    (void)workplace_path(place, "a", path, sizeof path);
    assert_int_equal(mt_folder_open(&ctx, path, &folder), MT_OK);
    assert_int_equal(write_into(&ctx, &folder, "one"), MT_OK);
    assert_false(exists(place, "a"));
    assert_int_equal(mt_folder_commit(&folder), MT_OK);
    assert_true(exists(place, "a/one"));
    assert_int_equal(mt_folder_open(&ctx, path, &folder), MT_ERR_USAGE);
    // Replacing: until the commit the old one is there, afterwards only the new one.
    for (int commit = 0; commit < 2; commit++) {
        assert_int_equal(mt_folder_open_replacing(&ctx, path, &folder), MT_OK);
        assert_int_equal(write_into(&ctx, &folder, "two"), MT_OK);
        assert_true(exists(place, "a/one"));
        if (commit == 0) {
            mt_folder_abandon(&folder);
        } else {
            assert_int_equal(mt_folder_commit(&folder), MT_OK);
        }
        assert_true(exists(place, "a/one") == (commit == 0) && exists(place, "a/two") == (commit == 1));
        assert_int_equal(workplace_entries(place), 1);
    }
    // A file in the way is not replaced.
    assert_int_equal(workplace_write(place, "file", "x", 1), 0);
    (void)workplace_path(place, "file", path, sizeof path);
    assert_int_equal(mt_folder_open_replacing(&ctx, path, &folder), MT_OK);
    assert_int_equal(mt_folder_commit(&folder), MT_ERR_IO);
    assert_int_equal(workplace_entries(place), 2);
    workplace_remove_folder(place, "a");
    assert_int_equal(ctx.live_bytes, 0);
}

static void made_and_removed(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[128];
    mt_context_init(&ctx, NULL);
    (void)workplace_path(place, "a", path, sizeof path);
    assert_int_equal(mt_folder_make(&ctx, path), MT_OK);
    assert_int_equal(mt_folder_make(&ctx, path), MT_OK);
    assert_int_equal(workplace_write(place, "a/file", "x", 1), 0);
    assert_int_equal(mt_folder_remove(&ctx, path), MT_OK);
    assert_int_equal(workplace_entries(place), 0);
    assert_int_equal(mt_folder_remove(&ctx, path), MT_ERR_IO);
    assert_int_equal(workplace_entries(place), 0);
    // With all that is in it.
    (void)workplace_path(place, "a/b/c", path, sizeof path);
    assert_int_equal(mt_folder_make_all(&ctx, path), MT_OK);
    assert_int_equal(workplace_write(place, "a/b/c/file", "x", 1), 0);
    assert_int_equal(workplace_write(place, "a/b/file", "x", 1), 0);
    (void)workplace_path(place, "a", path, sizeof path);
    assert_int_equal(mt_folder_remove(&ctx, path), MT_OK);
    assert_int_equal(workplace_entries(place), 0);
    (void)workplace_path(place, "b/c", path, sizeof path);
    assert_int_equal(mt_folder_make(&ctx, path), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "b/c: cannot make the folder"));
    assert_int_equal(ctx.live_bytes, 0);
}

/* What killed processes left of one name goes; what only looks like it stays. */
static void swept(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[128];
    mt_context_init(&ctx, NULL);
    static const char *const files[] = {"a/tmp.1", "a.tmp.12.0/file", "a.tmp.7.1", "aa.tmp.1.0", "a.tm"};
    (void)workplace_path(place, "a", path, sizeof path);
    assert_int_equal(mt_folder_make(&ctx, path), MT_OK);
    (void)workplace_path(place, "a.tmp.12.0", path, sizeof path);
    assert_int_equal(mt_folder_make(&ctx, path), MT_OK);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_int_equal(workplace_write(place, files[i], "x", 1), 0);
    (void)workplace_path(place, "a", path, sizeof path);
    assert_int_equal(mt_folder_sweep(&ctx, path), MT_OK);
    assert_false(exists(place, "a.tmp.12.0") || exists(place, "a.tmp.7.1"));
    assert_true(exists(place, "a/tmp.1") && exists(place, "aa.tmp.1.0") && exists(place, "a.tm"));
    assert_int_equal(mt_folder_remove(&ctx, path), MT_OK);
    (void)workplace_path(place, "none/a", path, sizeof path);
    assert_int_equal(mt_folder_sweep(&ctx, path), MT_ERR_IO);
    workplace_clear(place);
    assert_int_equal(ctx.live_bytes, 0);
}

static void exchanged(void **state)
{
    static int (*const exchange[])(const char *, const char *) = {mt_folder_exchange,
                                                                  mt_folder_exchange_by_turns};
    const struct workplace *place = *state;
    for (size_t i = 0; i < 2; i++) {
        char a[128];
        char b[128];
        (void)workplace_path(place, "a", a, sizeof a);
        (void)workplace_path(place, "b", b, sizeof b);
        assert_int_equal(mkdir(a, 0777), 0);
        assert_int_equal(exchange[i](a, b), ENOENT);
        assert_true(exists(place, "a"));
        assert_int_equal(mkdir(b, 0777), 0);
        assert_int_equal(workplace_write(place, "a/old", "x", 1), 0);
        assert_int_equal(workplace_write(place, "b/new", "x", 1), 0);
        assert_int_equal(exchange[i](a, b), 0);
        assert_true(exists(place, "a/new") && exists(place, "b/old"));
        workplace_remove_folder(place, "a");
        // One that is missing: the other is as before.
        assert_int_not_equal(exchange[i](a, b), 0);
        assert_true(exists(place, "b/old"));
        workplace_remove_folder(place, "b");
        assert_int_equal(workplace_entries(place), 0);
    }
}

/* The published checksum of nothing, and pieces against the whole. */
static void digests(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    struct mt_digest *digest = NULL;
    static char data[3000000];
    char path[128];
    mt_context_init(&ctx, NULL);
    assert_string_equal(mt_digest_of("", 0).digits, "99aa06d3014798d86001c324468d497f");
    for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i * i >> 3);
    assert_int_equal(mt_digest_create(&ctx, &digest), MT_OK);
    for (size_t first = 0; first < sizeof data; first += 700001) {
        size_t count = sizeof data - first < 700001 ? sizeof data - first : 700001;
        mt_digest_add(digest, data + first, count);
    }
    struct mt_digest_text whole = mt_digest_of(data, sizeof data);
    assert_string_equal(mt_digest_finish(digest).digits, whole.digits);
    mt_digest_free(digest);
    assert_int_equal(workplace_write(place, "file", data, sizeof data), 0);
    (void)workplace_path(place, "file", path, sizeof path);
    assert_int_equal(mt_digest_create(&ctx, &digest), MT_OK);
    assert_int_equal(mt_file_digest(&ctx, path, digest), MT_OK);
    assert_true(mt_digest_bytes(digest) == sizeof data);
    assert_string_equal(mt_digest_finish(digest).digits, whole.digits);
    assert_int_equal(mt_file_digest(&ctx, place->directory, digest), MT_ERR_IO);
    mt_digest_free(digest);
    assert_int_equal(ctx.live_bytes, 0);
}

static void one_at_a_time(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[128];
    int first = 0;
    int second = 0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_folder_lock(&ctx, place->directory, "painting", &first), MT_OK);
    assert_int_equal(mt_folder_lock(&ctx, place->directory, "painting", &second), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, ": another process is painting there"));
    assert_int_equal(second, MT_FOLDER_UNLOCKED);
    assert_int_equal(workplace_entries(place), 0);
    mt_folder_unlock(first);
    assert_int_equal(mt_folder_lock(&ctx, place->directory, "painting", &second), MT_OK);
    mt_folder_unlock(second);
    mt_folder_unlock(MT_FOLDER_UNLOCKED);
    (void)workplace_path(place, "nowhere", path, sizeof path);
    assert_int_equal(mt_folder_lock(&ctx, path, "painting", &first), MT_ERR_IO);
}

/* A folder that was removed and made anew, moved, or is only another way to the same. */
static void held_folders_are_known_again(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[128];
    char link[128];
    char moved[128];
    int held = 0;
    mt_context_init(&ctx, NULL);
    (void)workplace_path(place, "a", path, sizeof path);
    (void)workplace_path(place, "b", moved, sizeof moved);
    (void)workplace_path(place, "link", link, sizeof link);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(mt_folder_hold(&ctx, link, &held), MT_OK);
    assert_int_equal(mt_folder_check(&ctx, path, held), MT_OK);
    assert_int_equal(mt_folder_check(&ctx, link, held), MT_OK);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(mt_folder_check(&ctx, path, held), MT_ERR_IO);
    assert_int_equal(rename(moved, path), 0);
    assert_int_equal(mt_folder_check(&ctx, path, held), MT_OK);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mt_folder_check(&ctx, path, held), MT_ERR_IO);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(mt_folder_check(&ctx, path, held), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "was moved, removed or replaced"));
    assert_int_equal(mt_folder_check(&ctx, path, MT_FOLDER_UNLOCKED), MT_OK);
    mt_folder_unlock(held);
    assert_int_equal(mt_folder_hold(&ctx, moved, &held), MT_ERR_IO);
    assert_int_equal(held, MT_FOLDER_UNLOCKED);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(unlink(link), 0);
}

static enum mt_status replace_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_folder folder;
    char path[128];
    (void)workplace_path(place, "a", path, sizeof path);
    enum mt_status status = mt_folder_open_replacing(ctx, path, &folder);
    if (status == MT_OK) status = write_into(ctx, &folder, "two");
    if (status == MT_OK) status = mt_folder_commit(&folder);
    mt_folder_abandon(&folder);
    return workplace_entries(place) == 1 ? status : MT_ERR_INTERNAL;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    char path[128];
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_folder_make(&ctx, workplace_path(place, "a", path, sizeof path)), MT_OK);
    assert_int_equal(workplace_write(place, "a/one", "x", 1), 0);
    assert_every_allocation_may_fail(replace_once, place, 1);
    assert_true(exists(place, "a/two") && !exists(place, "a/one"));
    workplace_remove_folder(place, "a");
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(new_and_replaced),
        AT_A_PLACE(made_and_removed),
        AT_A_PLACE(swept),
        AT_A_PLACE(exchanged),
        AT_A_PLACE(digests),
        AT_A_PLACE(every_allocation_may_fail),
        AT_A_PLACE(one_at_a_time),
        AT_A_PLACE(held_folders_are_known_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
