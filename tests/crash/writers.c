/*
 * Programs that write a file in several ways, most of them wrong: what the simulation has to find.
 * Usage: crash_writers WAY FOLDER; each replaces FOLDER/file, or makes FOLDER/model with two files in it.
 */
#define _DEFAULT_SOURCE // syscall
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES 20000

static const char *folder;

static const char *at(const char *name)
{
    static char path[2][4096];
    static int turn;
    turn = 1 - turn;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static bool sync_folder(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY);
    bool synced = descriptor >= 0 && fsync(descriptor) == 0;
    if (descriptor >= 0) (void)close(descriptor);
    return synced;
}

/* A file of one letter, under its own name. */
static bool write_file(const char *path, char letter, bool sync)
{
    char data[BYTES];
    memset(data, letter, sizeof data);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    bool written = descriptor >= 0 && write(descriptor, data, sizeof data) == BYTES;
    if (sync) written = written && fsync(descriptor) == 0;
    if (descriptor >= 0) (void)close(descriptor);
    return written;
}

static bool replace(char letter, bool sync_it, bool sync_name)
{
    bool done = write_file(at("file.tmp.1"), letter, sync_it) && rename(at("file.tmp.1"), at("file")) == 0;
    return done && (!sync_name || sync_folder(folder));
}

/* A folder of two files that is renamed; unnamed: its own names are not synced. */
static bool make_model(bool sync_names)
{
    bool done = mkdir(at("model.tmp.1"), 0777) == 0;
    done = done && write_file(at("model.tmp.1/config"), 'c', true);
    done = done && write_file(at("model.tmp.1/weights"), 'w', true);
    done = done && (!sync_names || sync_folder(at("model.tmp.1")));
    done = done && rename(at("model.tmp.1"), at("model")) == 0;
    return done && sync_folder(folder);
}

/* Lines, synced every now and then; the file's name at first or in the end, the last lines in the end or
 * never. */
static bool write_lines(bool sync_name, bool sync_last)
{
    char line[100];
    bool done = true;
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    int descriptor = open(at("log.jsonl"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (sync_name) done = sync_folder(folder);
    for (int i = 0; i < 200 && done; i++) {
        done = write(descriptor, line, sizeof line) == (ssize_t)sizeof line;
        if (i % 60 == 0) done = done && fsync(descriptor) == 0;
    }
    if (sync_last) done = done && fsync(descriptor) == 0;
    (void)close(descriptor);
    return done && sync_folder(folder);
}

/* Past the C library: nothing that is preloaded sees it. */
static bool write_unseen(void)
{
    int descriptor = open(at("file"), O_WRONLY | O_CREAT, 0666);
    bool written = descriptor >= 0 && syscall(SYS_write, descriptor, "unseen", (size_t)6) == 6;
    if (descriptor >= 0) (void)close(descriptor);
    return written;
}

static bool write_stream(void)
{
    FILE *file = fopen(at("file"), "w");
    bool written = file != NULL && fputs("a stream", file) >= 0;
    return file != NULL && fclose(file) == 0 && written;
}

static bool write_mapping(void)
{
    bool done = write_file(at("file"), 'm', true);
    int descriptor = open(at("file"), O_RDWR);
    char *memory =
        descriptor >= 0 ? mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    if (memory != MAP_FAILED) memory[0] = 'n';
    if (descriptor >= 0) (void)close(descriptor);
    return done && memory != MAP_FAILED && munmap(memory, BYTES) == 0;
}

int main(int argc, char **argv)
{
    const char *way = argc == 3 ? argv[1] : "";
    bool done = false;
    folder = argc == 3 ? argv[2] : "";
    if (strcmp(way, "right") == 0) done = replace('a', true, true) && replace('b', true, true);
    if (strcmp(way, "unsynced-file") == 0) done = replace('a', false, true) && replace('b', false, true);
    if (strcmp(way, "unsynced-name") == 0) done = replace('a', true, false);
    if (strcmp(way, "in-place") == 0)
        done = write_file(at("file"), 'a', true) && write_file(at("file"), 'b', true) && sync_folder(folder);
    if (strcmp(way, "right-folder") == 0) done = make_model(true);
    if (strcmp(way, "unsynced-folder") == 0) done = make_model(false);
    if (strcmp(way, "right-lines") == 0) done = write_lines(true, true);
    if (strcmp(way, "unsynced-lines") == 0) done = write_lines(true, false);
    if (strcmp(way, "unnamed-lines") == 0) done = write_lines(false, true);
    if (strcmp(way, "removed-in-place") == 0)
        done = make_model(true) && unlink(at("model/config")) == 0 && unlink(at("model/weights")) == 0 &&
               rmdir(at("model")) == 0 && sync_folder(folder);
    if (strcmp(way, "unseen") == 0) done = write_unseen();
    if (strcmp(way, "stream") == 0) done = write_stream();
    if (strcmp(way, "mapping") == 0) done = write_mapping();
    if (!done) (void)fprintf(stderr, "crash_writers: %s: failed\n", way);
    return done ? 0 : 1;
}
