/* The program over the op case list: picks a mode and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/yardstick.h"

static const struct {
    const char *name;
    int (*run)(const struct case_list *list, const struct mode_options *options);
} modes[] = {
    {"compare", mode_compare}, {"gradient", mode_gradient}, {"speed", mode_speed},
    {"memory", mode_memory},   {"threads", mode_threads},   {"support", mode_support},
};

static void usage(FILE *stream)
{
    (void)fprintf(
        stream,
        "usage: op_cases MODE [--device cpu] [--level v3,v4] [--filter TEXT] [--verbose] [--markdown]\n"
        "                     [--least-tolerance X] [--bf16-inputs] [--threads N]\n"
        "\n"
        "  compare   device against ref, and the same bits for 1, 2 and 4 threads\n"
        "  gradient  backward of ref against finite differences, in double\n"
        "  speed     share of what sgemm, memcpy or multiplications reach in the same run\n"
        "  memory    every allocation failing in turn\n"
        "  threads   every case once, in four threads: for the thread sanitizer\n"
        "  support   which device has which op\n"
        "\n"
        "  op_cases compare --filter 'attention|rope T=7' --verbose\n");
}

/* A device, or a level (NULL: its own), that the machine lacks is skipped, visibly. */
static bool level_missing(const char *device_name, const char *level)
{
    struct mt_context ctx;
    if (level != NULL && setenv("METIER_CPU_LEVEL", level, 1) != 0) return true;
    mt_context_init(&ctx, NULL);
    struct mt_device *device = NULL;
    if (mt_device_create(&ctx, device_name, 1, &device) != MT_OK) {
        printf("skipped: %s\n", ctx.message);
        return true;
    }
    mt_device_destroy(device);
    return false;
}

/* The levels of a list with commas that the machine has. */
static void take_levels(char *list, struct mode_options *options)
{
    char *rest = NULL;
    for (char *level = strtok_r(list, ",", &rest); level != NULL; level = strtok_r(NULL, ",", &rest)) {
        if (options->levels < OP_CASE_LEVELS && !level_missing(options->device, level))
            options->level[options->levels++] = level;
    }
}

int main(int argc, char **argv)
{
    char *wanted_levels = NULL;
    struct mode_options options = {.device = "cpu"};
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    for (int i = 2; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--device") == 0 && has_value) {
            options.device = argv[++i];
        } else if (strcmp(argv[i], "--level") == 0 && has_value) {
            wanted_levels = argv[++i];
        } else if (strcmp(argv[i], "--filter") == 0 && has_value) {
            options.filter = argv[++i];
        } else if (strcmp(argv[i], "--least-tolerance") == 0 && has_value) {
            options.least_tolerance = strtod(argv[++i], NULL);
        } else if (strcmp(argv[i], "--threads") == 0 && has_value) {
            options.threads = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--bf16-inputs") == 0) {
            options.bf16_inputs = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            options.verbose = true;
        } else if (strcmp(argv[i], "--markdown") == 0) {
            options.markdown = true;
        } else {
            usage(stderr);
            return 2;
        }
    }
    if (strcmp(argv[1], "speed") == 0) yardstick_use_best_openblas(argv);
    if (wanted_levels != NULL) take_levels(wanted_levels, &options);
    // 77: there is nothing to run on; ctest shows it as skipped.
    if (wanted_levels != NULL ? options.levels == 0 : level_missing(options.device, NULL)) return 77;

    struct case_list list = {0};
#define CASE_FILE_ADD(name) cases_##name(&list);
    CASE_FILES(CASE_FILE_ADD)
#undef CASE_FILE_ADD
    int failures = -1;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(argv[1], modes[i].name) == 0) failures = modes[i].run(&list, &options);
    }
    free(list.items);
    if (failures < 0) {
        usage(stderr);
        return 2;
    }
    return failures == 0 ? 0 : 1;
}
