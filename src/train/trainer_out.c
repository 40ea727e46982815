/* What a finished run leaves: the adapter or the model, as it is at the end and as it was at its best. */
#include "model/export.h"
#include "train/trainer_parts.h"

bool mt_trainer_has_results(const struct mt_trainer *trainer, const struct mt_run_numbers *numbers)
{
    if (!mt_run_folder_has(trainer->folder.result)) return false;
    return numbers->best_step == 0 || mt_run_folder_has(trainer->folder.best);
}

/* The parameters as they are now, as a folder. One that is there already was written by this very run. */
static enum mt_status write_result(struct mt_trainer *trainer, const char *directory)
{
    if (mt_run_folder_has(directory)) return MT_OK;
    const struct mt_train_settings *settings = trainer->settings;
    if (settings->train == MT_TRAIN_FULL) {
        const struct mt_export_options options = {
            .directory = settings->model, .out = directory, .progress = trainer->options.terminal};
        return mt_model_export(trainer->tensors.params, &trainer->desc, &options, NULL);
    }
    const struct mt_adapter_write_options options = {.directory = directory,
                                                     .layout = settings->layout,
                                                     .base_model = settings->model,
                                                     .selection = &trainer->selection,
                                                     .biases = true};
    return mt_adapter_write(trainer->tensors.params, &trainer->desc, &options);
}

enum mt_status mt_trainer_write_results(struct mt_trainer *trainer)
{
    const struct mt_run_numbers *numbers = &trainer->numbers;
    enum mt_status status = write_result(trainer, trainer->folder.result);
    if (status != MT_OK || numbers->best_step == 0) return status;
    if (mt_run_folder_has(trainer->folder.best)) return MT_OK;
    if (numbers->best_step != numbers->step) {
        struct mt_state_reader *reader = NULL;
        status = mt_state_open(trainer->ctx, trainer->folder.checkpoints, numbers->best_step, &reader);
        if (status == MT_OK) status = mt_state_load(trainer->device, reader, &trainer->tensors);
        mt_state_close(reader);
        if (status != MT_OK) return status;
    }
    return write_result(trainer, trainer->folder.best);
}
