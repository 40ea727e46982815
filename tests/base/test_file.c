/* Files: atomic writing under failure and under concurrency, refusals when reading, mapping, paths. */
#define _XOPEN_SOURCE 700 // mkdtemp

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

struct place {
    char directory[64];
    char path[96];
};

static int place_open(void **state)
{
    static struct place place;
    (void)snprintf(place.directory, sizeof place.directory, "/tmp/metier-test-XXXXXX");
    if (mkdtemp(place.directory) == NULL) return -1;
    (void)snprintf(place.path, sizeof place.path, "%s/file", place.directory);
    *state = &place;
    return 0;
}

/* Entries of the directory; `remove` deletes them. */
static int entries(const char *directory, bool remove)
{
    int count = 0;
    DIR *listing = opendir(directory);
    if (listing == NULL) return -1;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (entry->d_name[0] == '.') continue;
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (remove && unlink(path) != 0) (void)rmdir(path);
        count++;
    }
    (void)closedir(listing);
    return count;
}

static int place_close(void **state)
{
    struct place *place = *state;
    (void)chmod(place->directory, 0755);
    (void)entries(place->directory, true);
    return rmdir(place->directory);
}

static void expect_content(const char *path, const char *expected)
{
    struct mt_context ctx;
    void *data = NULL;
    size_t bytes = 0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_read_all(&ctx, path, 1 << 20, &data, &bytes), MT_OK);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(data, expected, bytes);
    mt_release(&ctx, data, bytes);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ writing

static void write_and_replace(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct mt_file_writer writer;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "old", 3), MT_OK);
    expect_content(place->path, "old");
    assert_int_equal(mt_file_writer_open(&ctx, place->path, &writer), MT_OK);
    assert_int_equal(mt_file_writer_write(&writer, "new ", 4), MT_OK);
    assert_int_equal(mt_file_writer_write(&writer, NULL, 0), MT_OK);
    assert_int_equal(mt_file_writer_write(&writer, "text", 4), MT_OK);
    expect_content(place->path, "old"); // nothing shows before the commit
    assert_int_equal(entries(place->directory, false), 2);
    assert_int_equal(mt_file_writer_commit(&writer), MT_OK);
    expect_content(place->path, "new text");
    assert_int_equal(entries(place->directory, false), 1);
    mt_file_writer_abandon(&writer); // closed: nothing to do
    assert_int_equal(mt_file_write_all(&ctx, place->path, NULL, 0), MT_OK);
    expect_content(place->path, "");
    assert_int_equal(ctx.live_bytes, 0);
}

static void abandoning_keeps_the_old_file(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct mt_file_writer writer;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "old", 3), MT_OK);
    assert_int_equal(mt_file_writer_open(&ctx, place->path, &writer), MT_OK);
    assert_int_equal(mt_file_writer_write(&writer, "new", 3), MT_OK);
    mt_file_writer_abandon(&writer);
    expect_content(place->path, "old");
    assert_int_equal(entries(place->directory, false), 1);
    writer = (struct mt_file_writer){0};
    mt_file_writer_abandon(&writer);
    assert_int_equal(ctx.live_bytes, 0);
}

static void permissions_follow_the_umask(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct stat info;
    mt_context_init(&ctx, NULL);
    mode_t before = umask(027);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "x", 1), MT_OK);
    (void)umask(before);
    assert_int_equal(stat(place->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

static void a_leftover_is_stepped_over(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    char leftover[160];
    mt_context_init(&ctx, NULL);
    (void)snprintf(leftover, sizeof leftover, "%s.tmp.%ld.0", place->path, (long)getpid());
    assert_int_equal(mt_file_write_all(&ctx, leftover, "half", 4), MT_OK);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "whole", 5), MT_OK);
    expect_content(place->path, "whole");
    expect_content(leftover, "half");
}

static void names_without_a_directory(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    char before[4096];
    mt_context_init(&ctx, NULL);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(place->directory), 0);
    enum mt_status status = mt_file_write_all(&ctx, "file", "here", 4);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(status, MT_OK);
    expect_content(place->path, "here");
}

static void expect_refusal(struct mt_context *ctx, const char *path, const char *part)
{
    struct mt_file_writer writer;
    enum mt_status status = mt_file_writer_open(ctx, path, &writer);
    assert_true(status == MT_ERR_IO || status == MT_ERR_USAGE);
    assert_non_null(strstr(ctx->message, path));
    assert_non_null(strstr(ctx->message, part));
    mt_file_writer_abandon(&writer);
    assert_int_equal(ctx->live_bytes, 0);
}

static void targets_that_cannot_be_written(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    char path[160];
    mt_context_init(&ctx, NULL);
    expect_refusal(&ctx, "", "name a file");
    expect_refusal(&ctx, "/tmp/", "name a file");
    expect_refusal(&ctx, place->directory, "not a regular file");
    expect_refusal(&ctx, "/dev/null", "not a regular file");
    (void)snprintf(path, sizeof path, "%s/missing/file", place->directory);
    expect_refusal(&ctx, path, "No such file or directory");
    assert_int_equal(mt_file_write_all(&ctx, place->path, "x", 1), MT_OK);
    (void)snprintf(path, sizeof path, "%s/below", place->path);
    expect_refusal(&ctx, path, "Not a directory");
    assert_int_equal(entries(place->directory, false), 1);
}

static void unwritable_directory(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "old", 3), MT_OK);
    assert_int_equal(chmod(place->directory, 0555), 0);
    // Permissions do not bind root: the attempt is made as nobody.
    bool root = geteuid() == 0;
    if (root) assert_int_equal(seteuid(65534), 0);
    enum mt_status status = mt_file_write_all(&ctx, place->path, "new", 3);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(status, MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "Permission denied"));
    assert_non_null(strstr(ctx.message, place->path));
    expect_content(place->path, "old");
    assert_int_equal(entries(place->directory, false), 1);
    assert_int_equal(ctx.live_bytes, 0);
}

static void full_disk(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct mt_file_writer writer;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "old", 3), MT_OK);
    assert_int_equal(mt_file_writer_open(&ctx, place->path, &writer), MT_OK);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0) skip();
    assert_true(dup2(full, writer.descriptor) >= 0); // from here on the disk is full
    (void)close(full);
    assert_int_equal(mt_file_writer_write(&writer, "new", 3), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "No space left on device"));
    assert_non_null(strstr(ctx.message, place->path));
    mt_file_writer_abandon(&writer);
    expect_content(place->path, "old");
    assert_int_equal(entries(place->directory, false), 1);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A write that is cut short in the middle, then refused: the limit on file sizes does both. */
static void short_write(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct rlimit before;
    static char data[100000];
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "old", 3), MT_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = 50000, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum mt_status status = mt_file_write_all(&ctx, place->path, data, sizeof data);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "File too large"));
    expect_content(place->path, "old");
    assert_int_equal(entries(place->directory, false), 1);
}

/* The target turns into a directory meanwhile: the last step fails, and cleans up. */
static void failing_rename(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct mt_file_writer writer;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_writer_open(&ctx, place->path, &writer), MT_OK);
    assert_int_equal(mt_file_writer_write(&writer, "new", 3), MT_OK);
    assert_int_equal(mkdir(place->path, 0755), 0);
    assert_int_equal(mt_file_writer_commit(&writer), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "put in place"));
    assert_int_equal(entries(place->directory, false), 1);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ concurrency

#define PIECES      64
#define PIECE_BYTES 1024

/* PIECES pieces of one letter: a mixture or a short file would be a torn one. */
static enum mt_status write_letters(struct mt_context *ctx, const char *path, char letter)
{
    char piece[PIECE_BYTES];
    struct mt_file_writer writer;
    memset(piece, letter, sizeof piece);
    enum mt_status status = mt_file_writer_open(ctx, path, &writer);
    for (int i = 0; i < PIECES && status == MT_OK; i++) {
        status = mt_file_writer_write(&writer, piece, sizeof piece);
    }
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    return status;
}

static bool is_whole(struct mt_context *ctx, const char *path)
{
    void *data = NULL;
    size_t bytes = 0;
    if (mt_file_read_all(ctx, path, 1 << 20, &data, &bytes) != MT_OK) return false;
    const char *text = data;
    bool whole = bytes == (size_t)PIECES * PIECE_BYTES;
    for (size_t i = 1; i < bytes && whole; i++) whole = text[i] == text[0];
    mt_release(ctx, data, bytes);
    return whole;
}

static void a_reader_never_sees_half_a_file(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(write_letters(&ctx, place->path, 'a'), MT_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool ok = true;
        for (int i = 0; i < 60 && ok; i++)
            ok = write_letters(&ctx, place->path, (char)('a' + i % 26)) == MT_OK;
        _exit(ok ? 0 : 1);
    }
    int outcome = 0;
    int reads = 0;
    while (waitpid(child, &outcome, WNOHANG) == 0) {
        assert_true(is_whole(&ctx, place->path));
        reads++;
    }
    assert_true(reads > 0);
    assert_true(WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0);
    assert_true(is_whole(&ctx, place->path));
    assert_int_equal(entries(place->directory, false), 1);
}

static void concurrent_writers(void **state)
{
    struct place *place = *state;
    int failures = 0;
#pragma omp parallel for num_threads(4) schedule(static, 1) reduction(+ : failures)
    for (int i = 0; i < 32; i++) {
        struct mt_context ctx; // one per thread, as contexts want
        mt_context_init(&ctx, NULL);
        failures += write_letters(&ctx, place->path, (char)('a' + i % 26)) != MT_OK;
        failures += !is_whole(&ctx, place->path);
    }
    assert_int_equal(failures, 0);
    assert_int_equal(entries(place->directory, false), 1);
}

// ------------------------------------------------------------------ reading and mapping

static void refusals_when_reading(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    void *data = &ctx;
    size_t bytes = 7;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_read_all(&ctx, place->path, 10, &data, &bytes), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "No such file"));
    assert_null(data);
    assert_int_equal(bytes, 0);
    assert_int_equal(mt_file_read_all(&ctx, place->directory, 10, &data, &bytes), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "is a directory"));
    assert_int_equal(mt_file_read_all(&ctx, "/dev/zero", 10, &data, &bytes), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "not a regular file"));
    assert_int_equal(mt_file_write_all(&ctx, place->path, "12345678901", 11), MT_OK);
    assert_int_equal(mt_file_read_all(&ctx, place->path, 10, &data, &bytes), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "11 bytes, more than the 10 allowed"));
    assert_int_equal(mt_file_read_all(&ctx, place->path, 11, &data, &bytes), MT_OK);
    mt_release(&ctx, data, bytes);
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(mkfifo(place->path, 0600), 0);
    assert_int_equal(mt_file_read_all(&ctx, place->path, 10, &data, &bytes), MT_ERR_IO); // without waiting
    struct mt_file_mapping mapping;
    assert_int_equal(mt_file_map(&ctx, place->path, &mapping), MT_ERR_IO);
    assert_int_equal(ctx.live_bytes, 0);
}

struct resizer {
    const char *path;
    long size;
};

/* An allocator that changes the file's size between the size being learnt and the reading. */
static void *allocate_and_resize(void *self, size_t bytes, size_t alignment)
{
    const struct resizer *resizer = self;
    if (truncate(resizer->path, resizer->size) != 0) return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_plain(void *self, void *block, size_t bytes)
{
    (void)self;
    (void)bytes;
    free(block);
}

static void size_changing_while_read(void **state)
{
    struct place *place = *state;
    static const struct {
        long size;
        const char *part;
    } changes[] = {{3, "shrank"}, {0, "shrank"}, {6, "grew"}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct mt_context plain;
        mt_context_init(&plain, NULL);
        assert_int_equal(mt_file_write_all(&plain, place->path, "12345", 5), MT_OK);
        struct resizer resizer = {place->path, changes[i].size};
        struct mt_allocator allocator = {allocate_and_resize, release_plain, &resizer};
        struct mt_context ctx;
        void *data = NULL;
        size_t bytes = 0;
        mt_context_init(&ctx, &allocator);
        assert_int_equal(mt_file_read_all(&ctx, place->path, 100, &data, &bytes), MT_ERR_IO);
        assert_non_null(strstr(ctx.message, changes[i].part));
        assert_non_null(strstr(ctx.message, place->path));
        assert_null(data);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void mapping(void **state)
{
    struct place *place = *state;
    struct mt_context ctx;
    struct mt_file_mapping mapping;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_file_map(&ctx, place->path, &mapping), MT_ERR_IO);
    assert_int_equal(mt_file_map(&ctx, place->directory, &mapping), MT_ERR_IO);
    assert_non_null(strstr(ctx.message, "is a directory"));
    assert_int_equal(mt_file_write_all(&ctx, place->path, "", 0), MT_OK);
    assert_int_equal(mt_file_map(&ctx, place->path, &mapping), MT_OK);
    assert_null(mapping.data);
    assert_int_equal(mapping.bytes, 0);
    mt_file_advise(&mapping, MT_FILE_SOON);
    mt_file_unmap(&mapping);
    assert_int_equal(mt_file_write_all(&ctx, place->path, "content", 7), MT_OK);
    assert_int_equal(mt_file_map(&ctx, place->path, &mapping), MT_OK);
    assert_int_equal(mapping.bytes, 7);
    assert_memory_equal(mapping.data, "content", 7);
    mt_file_advise(&mapping, MT_FILE_SEQUENTIAL);
    mt_file_advise(&mapping, MT_FILE_RANDOM);
    // What was read may be forgotten, and read again; what lies elsewhere is left alone.
    char elsewhere[] = "elsewhere";
    mt_file_forget(&mapping, (const char *)mapping.data + 1, mapping.bytes - 1);
    mt_file_forget(&mapping, elsewhere, sizeof elsewhere);
    assert_string_equal(elsewhere, "elsewhere");
    mt_file_advise(&mapping, MT_FILE_SOON);
    // Replacing the file atomically leaves the mapped one intact.
    assert_int_equal(mt_file_write_all(&ctx, place->path, "other", 5), MT_OK);
    assert_memory_equal(mapping.data, "content", 7);
    mt_file_unmap(&mapping);
    assert_null(mapping.data);
    mt_file_unmap(&mapping);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ paths and memory

static void joined_paths(void **state)
{
    (void)state;
    static const struct {
        const char *directory, *name, *expected;
    } cases[] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"},      {"", "b", "b"},
        {"a", "/b", "/b"}, {"a", "", "a/"},    {".", "b/c", "./b/c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        char *path = NULL;
        mt_context_init(&ctx, NULL);
        assert_int_equal(mt_path_join(&ctx, cases[i].directory, cases[i].name, &path), MT_OK);
        assert_string_equal(path, cases[i].expected);
        mt_path_release(&ctx, path);
        mt_path_release(&ctx, NULL);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static enum mt_status write_and_read(struct mt_context *ctx, const void *self)
{
    const struct place *place = self;
    void *data = NULL;
    size_t bytes = 0;
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, place->directory, "file", &path);
    if (status != MT_OK) return status;
    status = mt_file_write_all(ctx, path, "data", 4);
    if (status == MT_OK) status = mt_file_read_all(ctx, path, 100, &data, &bytes);
    mt_release(ctx, data, bytes);
    mt_path_release(ctx, path);
    return status;
}

static void every_allocation_failing(void **state)
{
    struct place *place = *state;
    struct failing_report report = fail_each_allocation(write_and_read, place);
    assert_string_equal(report.problem, "");
    assert_int_equal(report.allocations, 4);
    assert_int_equal(entries(place->directory, false), 1);
}

/* What is appended to stays in the file of that name: no link, no second name, no pipe. */
static void growing_files(void **state)
{
    const struct place *place = *state;
    static const char *const names[] = {"link", "dangling", "hard", "pipe", "folder"};
    static const char *const reasons[] = {"symbolic link", "symbolic link", "hard link", "not a regular file",
                                          "Is a directory"};
    static const int access[] = {O_WRONLY | O_APPEND, O_RDWR};
    struct mt_context ctx;
    char target[256];
    char paths[5][256];
    int descriptor = 0;
    mt_context_init(&ctx, NULL);
    (void)snprintf(target, sizeof target, "%s/target", place->directory);
    for (size_t i = 0; i < 5; i++)
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", place->directory, names[i]);
    assert_int_equal(mt_file_open_growing(&ctx, target, O_RDWR, &descriptor), MT_OK);
    assert_int_equal(write(descriptor, "x", 1), 1);
    assert_int_equal(close(descriptor), 0);
    assert_int_equal(mt_file_open_growing(&ctx, target, O_RDWR | O_EXCL, &descriptor), MT_OK);
    assert_int_equal(descriptor, -1);
    assert_int_equal(mt_file_open_growing(&ctx, target, O_WRONLY | O_APPEND, &descriptor), MT_OK);
    assert_int_equal(close(descriptor), 0);
    assert_int_equal(symlink(target, paths[0]), 0);
    assert_int_equal(symlink("/nowhere/at/all", paths[1]), 0);
    assert_int_equal(link(target, paths[2]), 0);
    assert_int_equal(mkfifo(paths[3], 0600), 0);
    assert_int_equal(mkdir(paths[4], 0700), 0);
    for (size_t i = 0; i < 10; i++) {
        enum mt_status status = mt_file_open_growing(&ctx, paths[i % 5], access[i / 5], &descriptor);
        if (status != MT_ERR_IO || strstr(ctx.message, reasons[i % 5]) == NULL || descriptor != -1)
            fail_msg("%s: status %d, \"%s\"", paths[i % 5], status, ctx.message);
    }
    assert_int_equal(rmdir(paths[4]), 0);
    for (size_t i = 0; i < 4; i++) assert_int_equal(unlink(paths[i]), 0);
}

#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, place_open, place_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_PLACE(write_and_replace),
        IN_A_PLACE(abandoning_keeps_the_old_file),
        IN_A_PLACE(permissions_follow_the_umask),
        IN_A_PLACE(a_leftover_is_stepped_over),
        IN_A_PLACE(names_without_a_directory),
        IN_A_PLACE(targets_that_cannot_be_written),
        IN_A_PLACE(unwritable_directory),
        IN_A_PLACE(full_disk),
        IN_A_PLACE(short_write),
        IN_A_PLACE(failing_rename),
        IN_A_PLACE(a_reader_never_sees_half_a_file),
        IN_A_PLACE(concurrent_writers),
        IN_A_PLACE(refusals_when_reading),
        IN_A_PLACE(size_changing_while_read),
        IN_A_PLACE(mapping),
        IN_A_PLACE(growing_files),
        cmocka_unit_test(joined_paths),
        IN_A_PLACE(every_allocation_failing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
