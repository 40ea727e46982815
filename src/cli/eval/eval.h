/* metier eval taken apart: lists, questions, what answers, the run. */
#ifndef MT_CLI_EVAL_H
#define MT_CLI_EVAL_H

#include "cli/infer.h"
#include "cli/shared/endpoint.h"
#include "comm/comm.h"
#include "eval/run/runner.h"

struct eval_arguments {
    bool list, keys, quiet, again, skip_missing, without_sandbox, no_routing;
    bool card;         // put figures into the card of what was evaluated
    const char *tasks; // names between commas
    const char *data, *answers, *out, *questions, *merge_review;
    int64_t limit;
    int64_t shots;               // -1: as the task says
    int64_t samples;             // answers to each question of programs; 0: as the task says
    int64_t pass_k;              // 0: as many as samples
    int64_t expert_ranks;        // ranks that share the experts
    struct infer_settings infer; // directory: --model, NULL: no model here; max_new 0: as the task says
    const char *templates;       // the folder of those that come along; NULL: there is none
    struct cli_endpoint endpoint;
    const char *endpoint_model;  // --model beside --endpoint
    struct mt_http_options http; // of the endpoint
};

/*
 * Runs the tasks on all ranks; the first of them prints the table. *exit_status: 128 and the signal that
 * stopped it, 1 where questions got no answer, else 0. Agreed on.
 */
enum mt_status cli_eval_run_tasks(struct mt_context *ctx, const struct eval_arguments *arguments,
                                  const struct mt_task_list *list, struct mt_comm *comm, int *exit_status);

/* Puts the figures of a finished evaluation into the card of the adapter, or of the model, that answered. */
enum mt_status cli_eval_write_card(struct mt_context *ctx, const struct eval_arguments *arguments,
                                   const struct mt_task_list *list, const struct mt_task_result *results);

#endif
