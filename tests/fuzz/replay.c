/*
 * Runs a fuzz target over the files of the folders named on the command line, without a fuzzer: the seeds
 * are an ordinary test that way, and a finding can be replayed.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    size_t capacity = (size_t)1 << 20;
    uint8_t *bytes = malloc(capacity);
    if (bytes == NULL) exit(1);
    size_t size = fread(bytes, 1, capacity, file);
    (void)fclose(file);
    // A block of exactly the right size, so that a sanitizer sees a read past its end.
    uint8_t *exact = realloc(bytes, size == 0 ? 1 : size);
    if (exact == NULL) exit(1);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (folder == NULL) {
            count += replay_file(argv[i]);
            continue;
        }
        for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
            char path[4096];
            if (entry->d_name[0] == '.') continue;
            (void)snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            count += replay_file(path);
        }
        (void)closedir(folder);
    }
    printf("%d inputs\n", count);
    return count > 0 ? 0 : 1;
}
