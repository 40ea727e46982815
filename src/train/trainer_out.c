/* What a finished run leaves: the adapter or the model, as it is at the end and as it was at its best. */
#include "model/adapters/router_bias.h"
#include "model/files/export.h"
#include "train/trainer_internal.h"

bool mt_trainer_has_results(const struct mt_trainer *trainer, const struct mt_run_numbers *numbers)
{
    if (!mt_run_folder_has(trainer->folder.result)) return false;
    return numbers->best_step == 0 || mt_run_folder_has(trainer->folder.best);
}

const char *mt_trainer_bias_file(const struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    bool moved = !settings->task_only && settings->objective.bias_rule != MT_BIAS_NONE;
    bool own_tensors = trainer->desc.correction_bias; // biases are weights like any other
    bool brought =
        !own_tensors && trainer->model != NULL && mt_router_bias_present(mt_model_params(trainer->model));
    if (!moved && !brought) return NULL;
    if (settings->train == MT_TRAIN_LORA) return MT_ROUTER_BIAS_OF_ADAPTER;
    return own_tensors ? NULL : MT_ROUTER_BIAS_OF_MODEL;
}

/* The parameters as they are now, as a folder. One that is there already was written by this very run. */
static enum mt_status write_folder(struct mt_trainer *trainer, const void *self)
{
    const char *directory = self;
    enum mt_status status = mt_run_folder_check(&trainer->folder);
    if (status != MT_OK || mt_run_folder_has(directory)) return status;
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_chat_template *template = trainer->corpus.template;
    if (settings->train == MT_TRAIN_FULL) {
        bool own = mt_chat_template_is_models(template); // carried over as it is
        const struct mt_export_options options = {.directory = settings->model,
                                                  .out = directory,
                                                  .progress = trainer->options.terminal,
                                                  .chat_template =
                                                      own ? NULL : mt_chat_template_jinja(template)};
        return mt_model_export(trainer->tensors.params, &trainer->desc, &options, NULL);
    }
    const struct mt_adapter_write_options options = {.directory = directory,
                                                     .layout = settings->layout,
                                                     .base_model = settings->model,
                                                     .selection = &trainer->selection,
                                                     .biases = true,
                                                     .chat_template = mt_chat_template_jinja(template),
                                                     .log = trainer->options.log};
    return mt_adapter_write(trainer->tensors.params, &trainer->desc, &options);
}

static enum mt_status write_result(struct mt_trainer *trainer, const char *directory)
{
    enum mt_status status = mt_trainer_write(trainer, write_folder, directory);
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

/* Everything that learns, as it was at its best. */
static enum mt_status take_best(struct mt_trainer *trainer)
{
    struct mt_state_reader *reader = NULL;
    enum mt_status status =
        mt_state_open(trainer->ctx, trainer->folder.checkpoints, trainer->numbers.best_step, &reader);
    if (status == MT_OK) status = mt_state_load(trainer->device, reader, &trainer->tensors);
    mt_state_close(reader);
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

enum mt_status mt_trainer_write_results(struct mt_trainer *trainer)
{
    const struct mt_run_numbers *numbers = &trainer->numbers;
    enum mt_status status = write_result(trainer, trainer->folder.result);
    if (status != MT_OK || numbers->best_step == 0) return status;
    // One rank looks: it may write before another has looked.
    int64_t wanted = mt_trainer_writes(trainer) && !mt_run_folder_has(trainer->folder.best) ? 1 : 0;
    mt_comm_max_i64(trainer->comm, &wanted, 1);
    if (wanted == 0) return MT_OK;
    if (numbers->best_step != numbers->step) status = take_best(trainer);
    return status == MT_OK ? write_result(trainer, trainer->folder.best) : status;
}
