/* metier eval taken apart: lists, questions, what answers, the run. */
#ifndef MT_CLI_EVAL_H
#define MT_CLI_EVAL_H

#include "cli/infer.h"
#include "comm/comm.h"
#include "eval/run/runner.h"

struct eval_arguments {
    bool list, keys, quiet, skip_missing, without_sandbox, no_routing;
    const char *tasks; // names between commas
    const char *data, *answers, *out, *questions, *merge_review;
    int64_t limit;
    int64_t shots;               // -1: as the task says
    int64_t samples;             // answers to each question of programs; 0: as the task says
    int64_t pass_k;              // 0: as many as samples
    struct infer_settings infer; // directory: --model; NULL: no model
};

/*
 * Where results go when nobody said: "eval-MODEL" or "eval-MODEL-RUN" in the folder at hand. The text lives
 * in the arena.
 */
enum mt_status eval_default_out(struct mt_arena *arena, const struct eval_arguments *arguments,
                                const char **out);

#define EVAL_DEVICE_BYTES 64

/*
 * What answers are computed on: as asked for, or where that is `auto` as OUT/source.json says, so that a run
 * that goes on stays where it was. All ranks call it, and get the same.
 */
enum mt_status eval_choose_device(struct mt_context *ctx, const struct eval_arguments *arguments,
                                  struct mt_comm *comm, char device[EVAL_DEVICE_BYTES]);

/*
 * Notes in OUT/source.json whose answers these are, and in OUT/inputs.json what the files hold that they come
 * from; refuses a folder that holds answers of another model, of the same one asked in another way, computed
 * on another device, or made of files that have changed since.
 */
enum mt_status eval_claim_folder(struct mt_context *ctx, const struct eval_arguments *arguments,
                                 const struct mt_task_list *list, const char *device,
                                 const struct mt_log *log);

/*
 * Runs the tasks on all ranks; the first of them prints the table. *signal: what stopped it, else 0. Agreed
 * on.
 */
enum mt_status eval_run_tasks(struct mt_context *ctx, const struct eval_arguments *arguments,
                              const struct mt_task_list *list, struct mt_comm *comm, int *signal);

#endif
