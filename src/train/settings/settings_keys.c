/*
 * The keys of a training run: one row each, in the order they are printed. The keys of the objective are a
 * table of their own (src/objective/options.c) and stand behind `method`.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "train/settings/settings_parts.h"

#define FIELD(name)      offsetof(struct mt_train_settings, name)
#define SOURCE(name)     offsetof(struct mt_train_source, name)

#define OBJECTIVE_PREFIX "objective."
#define SOURCE_PREFIX    "data.sources[]."
#define MOST_STEPS       1e12 // a whole number every double holds exactly
#define MOST_TOKENS      16777216.0

static const char *const titles[MT_SECTIONS] = {
    [MT_SECTION_RUN] = "The run",
    [MT_SECTION_LEARNS] = "What learns",
    [MT_SECTION_OBJECTIVE] = "The objective",
    [MT_SECTION_DATA] = "Data",
    [MT_SECTION_EVALUATION] = "Evaluation while training",
    [MT_SECTION_LENGTH] = "Steps",
    [MT_SECTION_OPTIMIZER] = "The optimizer (AdamW)",
    [MT_SECTION_CHECKPOINT] = "Checkpoints",
    [MT_SECTION_LOG] = "Records",
    [MT_SECTION_MACHINE] = "The machine",
};

static const struct mt_settings_row rows[] = {
    {.name = "model",
     .values = "FOLDER",
     .standard = "required",
     .meaning = "config.json, weights and tokenizer, as Hugging Face saves them",
     .also = "model_name_or_path|base_model|checkpoint|model_path",
     .kind = MT_SETTING_NAME,
     .offset = FIELD(model),
     .no_standard = true},
    {.name = "tokenizer",
     .values = "FOLDER|FILE",
     .standard = "none",
     .meaning = "another tokenizer than the model's own",
     .also = "tokenizer_path|tokenizer_name",
     .kind = MT_SETTING_TEXT,
     .offset = FIELD(tokenizer),
     .no_standard = true},
    {.name = "out",
     .values = "FOLDER",
     .standard = "required",
     .meaning = "where the run writes",
     .also = "output|output_dir|out_dir|save_dir",
     .kind = MT_SETTING_NAME,
     .offset = FIELD(out),
     .no_standard = true,
     .may_differ = true},

    {.name = "train",
     .values = "lora|full",
     .standard = "lora",
     .meaning = "LoRA pairs beside frozen weights, or the weights themselves",
     .also = "finetuning_type|tuning|mode",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(train)},
    {.name = "targets",
     .values = "LIST",
     .standard = "model.layers.*, full: *",
     .meaning =
         "what learns: parts (attention, router, ...), words (q_proj, all-linear, ...) or globs on names",
     .also = "target_modules|lora_target|lora.targets|lora_targets|lora_target_modules|lora.target_modules|"
             "target_parameters|lora_target_linear",
     .kind = MT_SETTING_LIST,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(targets),
     .no_standard = true},
    {.name = "freeze",
     .values = "LIST",
     .standard = "none",
     .meaning = "what does not, though a target names it",
     .also = "frozen",
     .kind = MT_SETTING_LIST,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(freeze),
     .no_standard = true},
    {.name = "experts",
     .values = "FILE",
     .standard = "none",
     .meaning = "JSON {\"LAYER\": [expert, ...]}: the routed experts that learn (ESFT)",
     .also = "expert_config|expert_cfg",
     .kind = MT_SETTING_TEXT,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(experts),
     .no_standard = true},
    {.name = "adapter",
     .values = "FOLDER",
     .standard = "none",
     .meaning = "an adapter LoRA starts from; rank, alpha and targets are then its own",
     .also = "adapter_name_or_path|adapter_path",
     .kind = MT_SETTING_TEXT,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(adapter),
     .no_standard = true},
    {.name = "lora.rank",
     .values = "WHOLE NUMBER >= 1",
     .standard = "32",
     .meaning = "r of LoRA's pairs",
     .also = "lora_r|lora_rank|r|lora.r",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(lora_rank),
     .low = 1.0,
     .high = 16384.0},
    {.name = "lora.alpha",
     .values = "NUMBER > 0",
     .standard = "128",
     .meaning = "their strength: alpha / r multiplies what they add",
     .also = "lora_alpha",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(lora_alpha),
     .low_is_open = true,
     .high = 1e9},
    {.name = "lora.dropout",
     .values = "NUMBER >= 0 and < 1",
     .standard = "0.1",
     .meaning = "of their input",
     .also = "lora_dropout",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(lora_dropout),
     .high = 1.0,
     .high_is_open = true},
    {.name = "lora.layout",
     .values = "auto|per-expert|fused|vllm",
     .standard = "auto",
     .meaning = "how an adapter is saved: what PEFT with transformers 5 loads, or as docs/adapters.md says",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_LEARNS,
     .offset = FIELD(layout)},

    {.name = "method",
     .values = "METHOD",
     .standard = "paper",
     .meaning = "a row of the methods: none, aux, loss-free, paper, metier, ...",
     .also = "loss|objective.method",
     .kind = MT_SETTING_METHOD,
     .section = MT_SECTION_OBJECTIVE,
     .offset = FIELD(objective)},

    {.name = "data.path",
     .values = "FILE",
     .standard = "none",
     .meaning = "short for data.sources with one file",
     .also = "dataset|data.file|train_file|data_path|dataset_path",
     .kind = MT_SETTING_SOURCE,
     .section = MT_SECTION_DATA,
     .offset = FIELD(sources),
     .count = FIELD(source_count),
     .no_standard = true},
    {.name = "data.sources",
     .values = "LIST",
     .standard = "required",
     .meaning = "files to train on: paths, or maps of path, weight, form, ...",
     .also = "datasets|data.files",
     .kind = MT_SETTING_SOURCES,
     .section = MT_SECTION_DATA,
     .offset = FIELD(sources),
     .count = FIELD(source_count),
     .no_standard = true},
    {.name = "data.template",
     .values = "model|NAME|FILE",
     .standard = "model",
     .meaning = "how a conversation is written out: the model's own way, a name of share/templates, a file",
     .also = "template|chat_template",
     .kind = MT_SETTING_NAME,
     .section = MT_SECTION_DATA,
     .offset = FIELD(template_name)},
    {.name = "data.template_options",
     .values = "\"NAME=VALUE,...\"",
     .standard = "none",
     .meaning = "variables of a template in Jinja, such as enable_thinking=false",
     .also = "chat_template_kwargs|template_options",
     .kind = MT_SETTING_TEXT,
     .section = MT_SECTION_DATA,
     .offset = FIELD(template_options),
     .no_standard = true},
    {.name = "data.template_date",
     .values = "YYYY-MM-DD",
     .standard = MT_TEMPLATE_DATE,
     .meaning = "what a template that asks for today's date is told",
     .kind = MT_SETTING_NAME,
     .section = MT_SECTION_DATA,
     .offset = FIELD(template_date)},
    {.name = "data.max_length",
     .values = "WHOLE NUMBER >= 2",
     .standard = "512",
     .meaning = "tokens of an example; what is longer loses its end",
     .also = "cutoff_len|max_seq_length|sequence_len|max_seq_len|block_size",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_DATA,
     .offset = FIELD(max_length),
     .low = 2.0,
     .high = MOST_TOKENS},
    {.name = "data.layout",
     .values = "in-order|buckets|packed",
     .standard = "in-order",
     .meaning = "a step: the next examples, some of like length, or as many as fit batch.tokens",
     .also = "packing|group_by_length",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_DATA,
     .offset = FIELD(batching)},
    {.name = "data.window",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "steps (buckets) or examples (packed) arranged together; 0: 16, 256",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_DATA,
     .offset = FIELD(window),
     .high = 1048576.0},
    {.name = "data.bad_rows",
     .values = "skip|stop",
     .standard = "skip",
     .meaning = "a row that makes no sense is named and skipped, or ends the run",
     .kind = MT_SETTING_SWITCH,
     .section = MT_SECTION_DATA,
     .offset = FIELD(stop_at_bad_row)},

    {.name = "evaluation.sources",
     .values = "LIST",
     .standard = "none",
     .meaning = "files never trained on, as data.sources",
     .also = "eval_dataset|test_file|validation_file|evaluation.path",
     .kind = MT_SETTING_SOURCES,
     .section = MT_SECTION_EVALUATION,
     .offset = FIELD(held_out),
     .count = FIELD(held_out_count),
     .no_standard = true,
     .may_differ = true},
    {.name = "evaluation.split",
     .values = "NUMBER >= 0 and < 1",
     .standard = "0",
     .meaning = "share of every file of data.sources kept out of training, instead",
     .also = "val_size|val_set_size|test_size",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_EVALUATION,
     .offset = FIELD(split),
     .high = 1.0,
     .high_is_open = true},
    {.name = "evaluation.every",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "steps between evaluations; 0: at the end of every epoch",
     .also = "eval_steps",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_EVALUATION,
     .offset = FIELD(evaluate_every),
     .high = MOST_STEPS,
     .may_differ = true},
    {.name = "evaluation.examples",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "examples used at most; 0: all",
     .also = "max_eval_samples",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_EVALUATION,
     .offset = FIELD(evaluate_examples),
     .high = MOST_STEPS,
     .may_differ = true},
    {.name = "evaluation.patience",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "evaluations without gain before the run stops; 0: it never does",
     .also = "early_stopping_patience|early_stopping",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_EVALUATION,
     .offset = FIELD(patience),
     .high = 1e6,
     .may_differ = true},

    {.name = "batch.examples",
     .values = "WHOLE NUMBER >= 0",
     .standard = "32",
     .meaning = "examples of a step; packed: at most, 0: any number",
     .also = "batch_size|per_device_train_batch_size|batch.size|micro_batch_size",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_LENGTH,
     .offset = FIELD(examples),
     .high = 1048576.0},
    {.name = "batch.tokens",
     .values = "WHOLE NUMBER >= 2",
     .standard = "4096",
     .meaning = "tokens computed together at most; bounds memory",
     .also = "max_tokens",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_LENGTH,
     .offset = FIELD(tokens),
     .low = 2.0,
     .high = MOST_TOKENS},
    {.name = "epochs",
     .values = "NUMBER >= 0",
     .standard = "3",
     .meaning = "times through the data; may be a fraction",
     .also = "num_train_epochs|num_epochs",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_LENGTH,
     .offset = FIELD(epochs),
     .high = 1e6},
    {.name = "steps",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "exactly so many steps instead; 0: as epochs say",
     .also = "max_steps|num_steps|iterations|max_iters",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_LENGTH,
     .offset = FIELD(steps),
     .high = MOST_STEPS},

    {.name = "optimizer.lr",
     .values = "NUMBER > 0",
     .standard = "1e-4",
     .meaning = "the highest learning rate",
     .also = "learning_rate|optimizer.learning_rate",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(learning_rate),
     .low_is_open = true,
     .high = 1e3},
    {.name = "optimizer.beta1",
     .values = "NUMBER >= 0 and < 1",
     .standard = "0.9",
     .meaning = "decay of the gradient's mean",
     .also = "adam_beta1",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(beta1),
     .high = 1.0,
     .high_is_open = true},
    {.name = "optimizer.beta2",
     .values = "NUMBER >= 0 and < 1",
     .standard = "0.999",
     .meaning = "decay of its square's mean",
     .also = "adam_beta2",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(beta2),
     .high = 1.0,
     .high_is_open = true},
    {.name = "optimizer.epsilon",
     .values = "NUMBER > 0",
     .standard = "1e-8",
     .meaning = "added to the root of that",
     .also = "adam_epsilon|optimizer.eps",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(epsilon),
     .low_is_open = true,
     .high = 1.0},
    {.name = "optimizer.weight_decay",
     .values = "NUMBER >= 0",
     .standard = "0",
     .meaning = "pull of every weight towards 0, times the learning rate",
     .also = "wd|optimizer.wd",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(weight_decay),
     .high = 1e3},
    {.name = "optimizer.clip",
     .values = "NUMBER >= 0",
     .standard = "1",
     .meaning = "norm of the gradient at most; 0: any",
     .also = "max_grad_norm|grad_clip|gradient_clipping",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(clip),
     .high = 1e12},
    {.name = "optimizer.schedule",
     .values = "cosine|linear|constant",
     .standard = "cosine",
     .meaning = "how the learning rate falls after the warmup",
     .also = "lr_scheduler_type|lr_scheduler|scheduler",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(schedule)},
    {.name = "optimizer.warmup",
     .values = "NUMBER >= 0",
     .standard = "0.03",
     .meaning = "its rise: steps when 1 or more, a share of all steps when less",
     .also = "warmup_steps|warmup_ratio",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(warmup),
     .high = MOST_STEPS},
    {.name = "optimizer.final",
     .values = "NUMBER >= 0 and <= 1",
     .standard = "0",
     .meaning = "share of the learning rate that is left at the end",
     .also = "min_lr_ratio|min_lr",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_OPTIMIZER,
     .offset = FIELD(final_rate),
     .high = 1.0},

    {.name = "checkpoint.every",
     .values = "WHOLE NUMBER >= 0",
     .standard = "200",
     .meaning = "steps between checkpoints; 0: only at the end",
     .also = "save_steps",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_CHECKPOINT,
     .offset = FIELD(checkpoint_every),
     .high = MOST_STEPS,
     .may_differ = true},
    {.name = "checkpoint.keep",
     .values = "WHOLE NUMBER >= 1",
     .standard = "2",
     .meaning = "checkpoints that stay on disk",
     .also = "save_total_limit",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_CHECKPOINT,
     .offset = FIELD(checkpoint_keep),
     .low = 1.0,
     .high = 1e6,
     .may_differ = true},
    {.name = "checkpoint.resume",
     .values = "true|false",
     .standard = "true",
     .meaning = "go on from the newest checkpoint in out, if there is one",
     .also = "resume_from_checkpoint|auto_resume",
     .kind = MT_SETTING_FLAG,
     .section = MT_SECTION_CHECKPOINT,
     .offset = FIELD(resume),
     .may_differ = true},

    {.name = "log.every",
     .values = "WHOLE NUMBER >= 1",
     .standard = "10",
     .meaning = "steps between records",
     .also = "logging_steps",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_LOG,
     .offset = FIELD(log_every),
     .low = 1.0,
     .high = MOST_STEPS,
     .may_differ = true},
    {.name = "log.measure_every",
     .values = "WHOLE NUMBER >= 0",
     .standard = "100",
     .meaning = "steps between gradient norms of each term; 0: never",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_LOG,
     .offset = FIELD(measure_every),
     .high = MOST_STEPS,
     .may_differ = true},
    {.name = "log.tensorboard",
     .values = "true|false",
     .standard = "true",
     .meaning = "write TensorBoard's files, too",
     .also = "report_to",
     .kind = MT_SETTING_FLAG,
     .section = MT_SECTION_LOG,
     .offset = FIELD(tensorboard),
     .may_differ = true},

    {.name = "device",
     .values = "NAME",
     .standard = "auto",
     .meaning = "what computes; `metier devices` lists them; auto: cuda-bf16 with a GPU, else cpu",
     .also = "accelerator",
     .kind = MT_SETTING_NAME,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(device),
     .may_differ = true},
    {.name = "threads",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "0: as many as the machine has; the result does not depend on it",
     .also = "num_threads|workers",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(threads),
     .high = 4096.0,
     .may_differ = true},
    {.name = "recompute",
     .values = "none|moe|full",
     .standard = "none",
     .meaning = "what backward computes again instead of keeping; saves memory, changes no bit",
     .also = "gradient_checkpointing|activation_checkpointing",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(recompute),
     .may_differ = true},
    {.name = "parallel.experts",
     .values = "WHOLE NUMBER >= 1",
     .standard = "1",
     .meaning = "ranks that share the routed experts between them; must divide the number of ranks",
     .also = "expert_parallel_size|ep",
     .kind = MT_SETTING_WHOLE,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(expert_ranks),
     .low = 1.0,
     .high = 65536.0,
     .may_differ = true},
    {.name = "parallel.room",
     .values = "NUMBER >= 0",
     .standard = "0",
     .meaning = "where ranks share experts: rows a rank has room for, over those it sends; 0: for all",
     .kind = MT_SETTING_NUMBER,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(expert_room),
     .high = 65536.0,
     .may_differ = true},
    {.name = "parallel.transfer",
     .values = "auto|staged|direct",
     .standard = "auto",
     .meaning =
         "rows of shared experts on a GPU: through the host's memory, or from GPU to GPU by an MPI that can",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(transfer),
     .may_differ = true},
    {.name = "parallel.statistics",
     .values = "global|local",
     .standard = "global",
     .meaning = "on many ranks: L_aux, L_v and the like over all ranks' tokens, or each rank's own",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(statistics)},
    {.name = "activations",
     .values = "auto|f32|bf16",
     .standard = "auto",
     .meaning = "what lies between the layers' parts; auto: bf16 on cuda-bf16, f32 elsewhere",
     .also = "activation_dtype|compute_dtype|bf16",
     .kind = MT_SETTING_CHOICE,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(activations),
     .may_differ = true},
    {.name = "seed",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "of everything drawn at random: order, splits, LoRA, dropout",
     .also = "random_seed|data_seed",
     .kind = MT_SETTING_SEED,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(seed)},
    {.name = "noise",
     .values = "true|false",
     .standard = "true",
     .meaning = "false: train as the model is evaluated, without dropout, jitter, sampling or drops",
     .also = "deterministic",
     .kind = MT_SETTING_FLAG,
     .section = MT_SECTION_MACHINE,
     .offset = FIELD(noise)},
};

static const struct mt_settings_row source_rows[] = {
    {.name = "path",
     .values = "FILE",
     .standard = "required",
     .meaning = "JSONL, JSON, CSV, TSV or text, each also as .gz",
     .also = "file|name",
     .kind = MT_SETTING_NAME,
     .offset = SOURCE(path),
     .no_standard = true},
    {.name = "format",
     .values = "auto|jsonl|json|csv|tsv|text",
     .standard = "auto",
     .meaning = "auto: what the name ends in",
     .also = "type",
     .kind = MT_SETTING_CHOICE,
     .offset = SOURCE(format)},
    {.name = "text_rows",
     .values = "paragraphs|lines|pieces",
     .standard = "paragraphs",
     .meaning = "an example of a plain text; pieces: about 8 KiB each",
     .kind = MT_SETTING_CHOICE,
     .offset = SOURCE(text_rows)},
    {.name = "columns",
     .values = "\"NAME,NAME\"",
     .standard = "none",
     .meaning = "of CSV and TSV without a line that names them",
     .kind = MT_SETTING_TEXT,
     .offset = SOURCE(columns),
     .no_standard = true},
    {.name = "form",
     .values = "auto|messages|instruction|prompt|question|text",
     .standard = "auto",
     .meaning = "which fields make an example; auto: those that are there",
     .kind = MT_SETTING_CHOICE,
     .offset = SOURCE(form)},
    {.name = "fields",
     .values = "\"FIELD=COLUMN,...\"",
     .standard = "none",
     .meaning = "columns that have other names than the form's fields",
     .also = "mapping",
     .kind = MT_SETTING_TEXT,
     .offset = SOURCE(fields),
     .no_standard = true},
    {.name = "weight",
     .values = "NUMBER > 0",
     .standard = "1",
     .meaning = "how often an epoch draws each row",
     .kind = MT_SETTING_NUMBER,
     .offset = SOURCE(weight),
     .low_is_open = true,
     .high = 1e6},
    {.name = "limit",
     .values = "WHOLE NUMBER >= 0",
     .standard = "0",
     .meaning = "rows used at most, chosen by the seed; 0: all",
     .also = "max_samples",
     .kind = MT_SETTING_SEED,
     .offset = SOURCE(limit)},
};

// Words of a choice stand for the numbers of an enum.
_Static_assert(sizeof(enum mt_train_kind) == sizeof(int), "choices are stored as int");
_Static_assert(MT_TRAIN_FULL == 1 && MT_SCHEDULE_CONSTANT == 2, "in order");
_Static_assert(MT_ADAPTER_AUTO == 0 && MT_ADAPTER_PER_EXPERT == 1 && MT_ADAPTER_FUSED == 2 &&
                   MT_ADAPTER_VLLM == 3,
               "in order");
_Static_assert(MT_LAYOUT_IN_ORDER == 0 && MT_LAYOUT_BUCKETS == 1 && MT_LAYOUT_PACKED == 2, "in order");
_Static_assert(MT_RECOMPUTE_NONE == 0 && MT_RECOMPUTE_MOE == 1 && MT_RECOMPUTE_FULL == 2, "in order");
_Static_assert(MT_STATISTICS_GLOBAL == 0 && MT_STATISTICS_LOCAL == 1, "in order");
_Static_assert(MT_DATASET_BY_NAME == 0 && MT_DATASET_JSONL == 1 && MT_DATASET_JSON == 2 &&
                   MT_DATASET_CSV == 3 && MT_DATASET_TSV == 4 && MT_DATASET_TEXT == 5,
               "in order");
_Static_assert(MT_TEXT_PARAGRAPHS == 0 && MT_TEXT_LINES == 1 && MT_TEXT_PIECES == 2, "in order");
_Static_assert(MT_FORM_AUTO == 0 && MT_FORM_MESSAGES == 1 && MT_FORM_INSTRUCTION == 2 &&
                   MT_FORM_PROMPT == 3 && MT_FORM_QUESTION == 4 && MT_FORM_TEXT == 5,
               "in order");

// ------------------------------------------------------------------ finding

const struct mt_settings_row *mt_settings_row(int index)
{
    int count = (int)(sizeof rows / sizeof rows[0]);
    return index >= 0 && index < count ? &rows[index] : NULL;
}

const struct mt_settings_row *mt_source_row(int index)
{
    int count = (int)(sizeof source_rows / sizeof source_rows[0]);
    return index >= 0 && index < count ? &source_rows[index] : NULL;
}

const char *mt_settings_section_title(enum mt_settings_section section)
{
    return titles[section];
}

const struct mt_settings_row *mt_settings_row_named(const char *name)
{
    const struct mt_settings_row *row = NULL;
    for (int i = 0; mt_settings_row(i) != NULL && row == NULL; i++) {
        if (strcmp(mt_settings_row(i)->name, name) == 0) row = mt_settings_row(i);
    }
    return row;
}

int mt_settings_objective_key(const char *name)
{
    struct mt_objective_key key;
    size_t prefix = strlen(OBJECTIVE_PREFIX);
    if (strncmp(name, OBJECTIVE_PREFIX, prefix) != 0) return -1;
    for (int i = 0; mt_objective_key_listed(i, &key); i++) {
        if (strcmp(key.name, name + prefix) == 0) return i;
    }
    return -1;
}

bool mt_settings_is_group(const char *name)
{
    size_t length = strlen(name);
    if (strcmp(name, "objective") == 0) return true;
    for (int i = 0; mt_settings_row(i) != NULL; i++) {
        const char *known = mt_settings_row(i)->name;
        if (strncmp(known, name, length) == 0 && known[length] == '.') return true;
    }
    return false;
}

// ------------------------------------------------------------------ listing

static void list_row(const struct mt_settings_row *row, const char *prefix, struct mt_train_key *key)
{
    *key = (struct mt_train_key){.values = row->values, .meaning = row->meaning};
    (void)snprintf(key->name, sizeof key->name, "%s%s", prefix, row->name);
    (void)snprintf(key->standard, sizeof key->standard, "%s", row->standard);
}

static void list_objective(const struct mt_objective_key *known, struct mt_train_key *key)
{
    bool seed = strcmp(known->name, "seed") == 0;
    *key = (struct mt_train_key){.values = known->values, .meaning = known->meaning};
    (void)snprintf(key->name, sizeof key->name, OBJECTIVE_PREFIX "%s", known->name);
    (void)snprintf(key->standard, sizeof key->standard, "%s", seed ? "seed" : "the method's");
}

/* The keys of a source follow data.sources, those of the objective follow method. */
bool mt_train_key_listed(int index, struct mt_train_key *key)
{
    struct mt_objective_key known;
    if (index < 0) return false;
    for (int i = 0; mt_settings_row(i) != NULL; i++) {
        const struct mt_settings_row *row = mt_settings_row(i);
        if (index-- == 0) {
            list_row(row, "", key);
            return true;
        }
        bool sources = strcmp(row->name, "data.sources") == 0;
        for (int j = 0; sources && mt_source_row(j) != NULL; j++) {
            if (index-- > 0) continue;
            list_row(mt_source_row(j), SOURCE_PREFIX, key);
            return true;
        }
        for (int j = 0; row->kind == MT_SETTING_METHOD && mt_objective_key_listed(j, &known); j++) {
            if (index-- > 0) continue;
            list_objective(&known, key);
            return true;
        }
    }
    return false;
}
