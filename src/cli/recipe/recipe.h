/* What the files of `metier recipe` share. */
#ifndef MT_CLI_RECIPE_H
#define MT_CLI_RECIPE_H

#include "cli/cli.h"
#include "cli/shared/endpoint.h"
#include "eval/code/code_judge.h"
#include "eval/code/sandbox_cgroup.h"
#include "eval/endpoint/endpoint.h"
#include "recipe/write.h"

struct recipe_arguments {
    const char *data, *out, *overlaps, *against;
    struct cli_list exclude;
    int64_t count, seed, words;
    bool list, keys, skip_missing, quiet;
    // The teacher.
    struct cli_endpoint endpoint;
    const char *model;
    double temperature, top_p;
    int64_t samples, slots, max_new;
    bool fill, without_sandbox;
};

/* A teacher behind an endpoint, and what judges its programs. */
struct recipe_teacher {
    struct mt_endpoint *endpoint;
    struct mt_sandbox_judge judge;
    struct mt_sandbox_cgroups cgroups;
    struct mt_code_judge face;
    char settings[1024];
    struct mt_recipe_teacher teacher; // what mt_recipe_write is given
};

/* Refuses what cannot be asked; opens the sandbox where a source's answers are programs. Nothing is sent.
 * Closed whatever it returned. */
enum mt_status recipe_teacher_open(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                   const struct mt_recipe *recipe, const char *tasks, struct mt_arena *arena,
                                   struct recipe_teacher *teacher);
void recipe_teacher_close(struct recipe_teacher *teacher);

#endif
