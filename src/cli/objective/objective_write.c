/*
 * metier objective: OUT, one safetensors file. Single numbers are F32 of rank 0.
 *
 *     loss.TERM, scale.TERM, total           for the terms that are on; total = the sum of scale · loss
 *     grad.logits [N,n]
 *     grad.expert_outputs [N,k,d]            if IN has them
 *     grad.router_weight [n,d]               if IN has it
 *     experts I32 [N,k], weights F32 [N,k]   the choice, -1 where dropped
 *     router_bias [n]                        after this step, if the method moves it
 */
#include <stdio.h>

#include "cli/objective/objective.h"
#include "formats/safetensors/safetensors_writer.h"

#define MAX_TENSORS  (2 * MT_TERM_COUNT + 7)
#define NAME_BYTES   32
#define MAX_METADATA 64
#define VALUE_BYTES  64

/* What will be written, in order. */
struct plan {
    struct mt_safetensors_spec specs[MAX_TENSORS];
    char names[MAX_TENSORS][NAME_BYTES];
    const void *data[MAX_TENSORS];
    float numbers[MAX_TENSORS]; // the data of single numbers
    size_t count;
};

static void plan_array(struct plan *plan, const char *name, enum mt_safetensors_dtype dtype, const void *data,
                       int rank, const int64_t *dim)
{
    size_t at = plan->count++;
    (void)snprintf(plan->names[at], NAME_BYTES, "%s", name);
    plan->specs[at] = (struct mt_safetensors_spec){.name = plan->names[at], .dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) plan->specs[at].dim[i] = dim[i];
    plan->data[at] = data;
}

static void plan_number(struct plan *plan, const char *name, double value)
{
    plan->numbers[plan->count] = (float)value;
    plan_array(plan, name, MT_SAFETENSORS_F32, &plan->numbers[plan->count], 0, NULL);
}

static void plan_all(struct plan *plan, const struct objective_question *question,
                     const struct objective_record *record, const struct objective_answer *answer)
{
    const struct mt_objective_results *results = &answer->results;
    int64_t tokens = record->arrays.tokens;
    int64_t experts = record->arrays.experts;
    int64_t slots = question->router.slots;
    int64_t width = record->arrays.width;
    char name[NAME_BYTES];
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&question->config, (enum mt_term)term)) continue;
        (void)snprintf(name, sizeof name, "loss.%s", mt_term_name((enum mt_term)term));
        plan_number(plan, name, results->loss[term]);
        (void)snprintf(name, sizeof name, "scale.%s", mt_term_name((enum mt_term)term));
        plan_number(plan, name, results->weight[term]);
    }
    plan_number(plan, "total", results->total);
    plan_array(plan, "grad.logits", MT_SAFETENSORS_F32, results->dlogits, 2, (int64_t[]){tokens, experts});
    if (results->dexpert_outputs != NULL) {
        plan_array(plan, "grad.expert_outputs", MT_SAFETENSORS_F32, results->dexpert_outputs, 3,
                   (int64_t[]){tokens, slots, width});
    }
    if (results->drouter_weight != NULL) {
        plan_array(plan, "grad.router_weight", MT_SAFETENSORS_F32, results->drouter_weight, 2,
                   (int64_t[]){experts, width});
    }
    plan_array(plan, "experts", MT_SAFETENSORS_I32, results->expert, 2, (int64_t[]){tokens, slots});
    plan_array(plan, "weights", MT_SAFETENSORS_F32, results->slot_weight, 2, (int64_t[]){tokens, slots});
    if (answer->bias != NULL) {
        plan_array(plan, "router_bias", MT_SAFETENSORS_F32, answer->bias, 1, (int64_t[]){experts});
    }
}

/* The question as metadata: the file says what it is the answer to. */
static size_t describe_question(const struct objective_question *question,
                                struct mt_safetensors_metadata *metadata, char (*values)[VALUE_BYTES])
{
    size_t count = 0;
    metadata[count++] = (struct mt_safetensors_metadata){"method", question->config.method};
    metadata[count++] = (struct mt_safetensors_metadata){"router", question->router_name};
    struct mt_objective_key key;
    for (int i = 0; count < MAX_METADATA && mt_objective_key_listed(i, &key); i++) {
        mt_objective_key_value(&question->config, i, values[count], VALUE_BYTES);
        metadata[count] = (struct mt_safetensors_metadata){key.name, values[count]};
        count++;
    }
    return count;
}

enum mt_status cli_objective_write(struct mt_context *ctx, const struct objective_question *question,
                                   const struct objective_record *record,
                                   const struct objective_answer *answer)
{
    struct plan plan = {.count = 0};
    plan_all(&plan, question, record, answer);
    struct mt_safetensors_metadata metadata[MAX_METADATA];
    char values[MAX_METADATA][VALUE_BYTES];
    size_t metadata_count = describe_question(question, metadata, values);
    struct mt_safetensors_writer writer;
    enum mt_status status = mt_safetensors_writer_open(ctx, question->out_path, plan.specs, plan.count,
                                                       metadata, metadata_count, &writer);
    for (size_t i = 0; i < plan.count && status == MT_OK; i++) {
        size_t bytes = mt_safetensors_dtype_bytes(plan.specs[i].dtype);
        for (int j = 0; j < plan.specs[i].rank; j++) bytes *= (size_t)plan.specs[i].dim[j];
        status = mt_safetensors_writer_write(&writer, plan.data[i], bytes);
    }
    if (status != MT_OK) return status; // the writer has closed itself
    return mt_safetensors_writer_finish(&writer);
}
