/*
 * The keys of a training run: one row each, in the order they are printed. The keys of the objective are a
 * table of their own (src/objective/options.c) and stand behind `method`.
 */
#include <stddef.h>
#include <string.h>

#include "arch/quantise.h"
#include "formats/text/printable.h"
#include "objective/options.h"
#include "train/settings/foreign.h"
#include "train/settings/settings.h"

#define AT(field)     offsetof(struct mt_train_settings, field)
#define SOURCE(field) offsetof(struct mt_train_source, field)

#define MOST_STEPS    1e12 // a whole number every double holds exactly
#define MOST_TOKENS   16777216.0

// Words of a choice stand for the numbers of an enum.
_Static_assert(sizeof(enum mt_train_kind) == sizeof(int), "choices are stored as int");
_Static_assert(MT_TRAIN_FULL == 1 && MT_SCHEDULE_CONSTANT == 2, "in order");
_Static_assert(MT_ADAPTER_AUTO == 0 && MT_ADAPTER_PER_EXPERT == 1 && MT_ADAPTER_FUSED == 2 &&
                   MT_ADAPTER_VLLM == 3,
               "in order");
_Static_assert(MT_LAYOUT_IN_ORDER == 0 && MT_LAYOUT_BUCKETS == 1 && MT_LAYOUT_PACKED == 2, "in order");
_Static_assert(MT_TRAIN_RECOMPUTE_AUTO == 0 && MT_TRAIN_RECOMPUTE_NONE == 1 && MT_TRAIN_RECOMPUTE_MOE == 2 &&
                   MT_TRAIN_RECOMPUTE_FULL == 3,
               "in order");
_Static_assert(MT_STATISTICS_GLOBAL == 0 && MT_STATISTICS_LOCAL == 1, "in order");
_Static_assert(MT_DATASET_BY_NAME == 0 && MT_DATASET_JSONL == 1 && MT_DATASET_JSON == 2 &&
                   MT_DATASET_CSV == 3 && MT_DATASET_TSV == 4 && MT_DATASET_PARQUET == 5 &&
                   MT_DATASET_ARROW == 6 && MT_DATASET_TEXT == 7,
               "in order");
_Static_assert(MT_QUANTISED_FP8 == 0 && MT_QUANTISED_INT8 == 1 && MT_QUANTISED_NF4 == 2 &&
                   MT_QUANTISED_MXFP4 == 3,
               "in order");
_Static_assert(MT_TEXT_PARAGRAPHS == 0 && MT_TEXT_LINES == 1 && MT_TEXT_PIECES == 2, "in order");
_Static_assert(MT_FORM_AUTO == 0 && MT_FORM_MESSAGES == 1 && MT_FORM_INSTRUCTION == 2 &&
                   MT_FORM_PROMPT == 3 && MT_FORM_QUESTION == 4 && MT_FORM_TEXT == 5,
               "in order");

// ------------------------------------------------------------------ lists of files

static const struct mt_key_row source_rows[] = {
    {"path", MT_KEY_NAME, SOURCE(path), "FILE", "required",
     .meaning = "JSONL, JSON, CSV, TSV or text (each also as .gz), Parquet or Arrow", .also = "file|name"},
    {"format", MT_KEY_CHOICE, SOURCE(format), "auto|jsonl|json|csv|tsv|parquet|arrow|text", "auto",
     .meaning = "auto: from the ending of the name", .also = "type"},
    {"text_rows", MT_KEY_CHOICE, SOURCE(text_rows), "paragraphs|lines|pieces", "paragraphs",
     .meaning = "how plain text is split into examples; pieces: about 8 KiB each"},
    {"columns", MT_KEY_TEXT, SOURCE(columns), "\"NAME,NAME\"", "none",
     .meaning = "names of the columns, for CSV and TSV without a header line"},
    {"form", MT_KEY_CHOICE, SOURCE(form), "auto|messages|instruction|prompt|question|text", "auto",
     .meaning = "which fields make an example; auto: from the fields that exist"},
    {"fields", MT_KEY_TEXT, SOURCE(fields), "\"FIELD=COLUMN,...\"", "none",
     .meaning = "columns of the form's fields, where their names differ", .also = "mapping"},
    {"weight", MT_KEY_NUMBER, SOURCE(weight), "NUMBER > 0", "1",
     .meaning = "how often an epoch draws each row", .most = 1e6},
    {"limit", MT_KEY_SEED, SOURCE(limit), "WHOLE NUMBER >= 0", "0",
     .meaning = "maximum number of rows, chosen by the seed; 0: all", .also = "max_samples"},
    {0},
};

static const struct mt_key_part source_parts[] = {{.rows = source_rows}, {0}};
static const struct mt_keys source_keys = {.parts = source_parts, .what = "a source has"};

static enum mt_status check_source(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                   const struct mt_train_source *source)
{
    if (source->path == NULL) return mt_key_fail(reader, entry, NULL, "a source has no path");
    enum mt_dataset_format format = source->format;
    if (format == MT_DATASET_BY_NAME) format = mt_dataset_format_of(source->path);
    bool table = format == MT_DATASET_CSV || format == MT_DATASET_TSV;
    if (source->columns != NULL && format != MT_DATASET_BY_NAME && !table) {
        return mt_key_fail(reader, mt_keys_given(reader, "columns"), NULL,
                           "columns are for csv and tsv, this is %s", mt_dataset_format_name(format));
    }
    if (source->text_rows != MT_TEXT_PARAGRAPHS && format != MT_DATASET_BY_NAME &&
        format != MT_DATASET_TEXT) {
        return mt_key_fail(reader, mt_keys_given(reader, "text_rows"), NULL,
                           "text_rows is for text, this is %s", mt_dataset_format_name(format));
    }
    const struct mt_example_source example = {.form = source->form, .mapping = source->fields};
    if (mt_example_check_source(reader->ctx, &example) == MT_OK) return MT_OK;
    const struct mt_key_entry *fields = mt_keys_given(reader, "fields");
    return mt_key_fail_within(reader, fields != NULL ? fields : entry);
}

static bool is_held_out(const char *name)
{
    return strcmp(name, "evaluation.sources") == 0;
}

/* A path, or a map of a source's keys. */
static enum mt_status read_source(const struct mt_keys_reader *reader, const struct mt_key_entry *list,
                                  const struct mt_yaml_node *node, struct mt_train_source *source)
{
    static const struct mt_yaml_node no_keys = {.kind = MT_YAML_MAP};
    const struct mt_key_entry path = {.name = "path", .row = source_rows, .node = node, .word = list->word};
    struct mt_keys_reader members = mt_keys_reader_within(reader, &source_keys, source);
    if (node->kind == MT_YAML_LIST || mt_yaml_is_nothing(node)) {
        return mt_key_fail(reader, list, node, "%s holds %s, expected a path or a map with a path",
                           list->name, mt_yaml_kind_text(node));
    }
    bool map = node->kind == MT_YAML_MAP;
    enum mt_status status = mt_keys_read_map(&members, map ? node : &no_keys, list->word);
    if (status == MT_OK && !map) status = mt_key_store(&members, &path, source);
    if (status == MT_OK && source->weight != 1.0 && is_held_out(list->name) && !reader->recorded)
        return mt_key_fail(reader, mt_keys_given(&members, "weight"), NULL,
                           "weight means nothing in evaluation.sources: every row is looked at once");
    return status == MT_OK ? check_source(&members, &path, source) : status;
}

/* data.path is a list of one. */
static enum mt_status set_sources(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  void *target)
{
    struct mt_train_settings *settings = target;
    const struct mt_yaml_node *node = entry->node;
    bool single = strcmp(entry->name, "data.path") == 0;
    bool none = mt_yaml_is_nothing(node);
    if (!none && node->kind != (single ? MT_YAML_SCALAR : MT_YAML_LIST)) {
        return mt_key_fail(reader, entry, NULL, "%s is %s, expected %s", entry->name, mt_yaml_kind_text(node),
                           single ? "a path" : "a list of files");
    }
    size_t count = none ? 0 : (single ? 1 : node->count);
    enum mt_status status = MT_OK;
    struct mt_train_source *sources = mt_arena_array(reader->arena, count, sizeof *sources, &status);
    const struct mt_yaml_node *item = single ? node : node->first;
    for (size_t i = 0; i < count && status == MT_OK; i++, item = item->next) {
        status = read_source(reader, entry, item, &sources[i]);
    }
    *(is_held_out(entry->name) ? &settings->held_out : &settings->sources) = sources;
    *(is_held_out(entry->name) ? &settings->held_out_count : &settings->source_count) = count;
    return status;
}

static enum mt_status append_sources(const struct mt_key *key, const void *source, struct mt_byte_list *text)
{
    const struct mt_train_settings *settings = source;
    bool held_out = is_held_out(key->name);
    size_t count = held_out ? settings->held_out_count : settings->source_count;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = mt_keys_append_element(&source_keys,
                                        held_out ? &settings->held_out[i] : &settings->sources[i], text);
    }
    return status;
}

// ------------------------------------------------------------------ the method

static enum mt_status set_method(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target)
{
    struct mt_train_settings *settings = target;
    const struct mt_yaml_node *node = entry->node;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node)) {
        return mt_key_fail(reader, entry, NULL, "method is %s, expected the name of one",
                           mt_yaml_kind_text(node));
    }
    struct mt_printable name = mt_printable(node->text);
    if (mt_objective_config_method(reader->ctx, name.text, &settings->objective) == MT_OK) return MT_OK;
    return mt_key_fail_within(reader, entry);
}

static enum mt_status append_method(const struct mt_key *key, const void *source, struct mt_byte_list *text)
{
    (void)key;
    return mt_byte_list_append_text(text, ((const struct mt_train_settings *)source)->objective.method);
}

// ------------------------------------------------------------------ the table

static const struct mt_key_row rows_to_method[] = {
    {"model", MT_KEY_NAME, AT(model), "FOLDER", "required",
     .meaning = "config.json, weights and tokenizer, as Hugging Face saves them", .title = "The run",
     .also = "model_name_or_path|base_model|checkpoint|model_path"},
    {"tokenizer", MT_KEY_TEXT, AT(tokenizer), "FOLDER|FILE", "none",
     .meaning = "use this tokenizer instead of the model's own", .also = "tokenizer_path|tokenizer_name"},
    {"out", MT_KEY_NAME, AT(out), "FOLDER", "required", .meaning = "where the run writes",
     .also = "output|output_dir|out_dir|save_dir", .may_differ = true},

    {"train", MT_KEY_CHOICE, AT(train), "lora|full", "lora",
     .meaning = "train LoRA pairs on frozen weights, or the weights themselves", .title = "What is trained",
     .also = "finetuning_type|tuning|mode"},
    {"targets", MT_KEY_LIST, AT(targets), "LIST", "model.layers.*, full: *",
     .meaning =
         "what to train: parts (attention, router, ...), words (q_proj, all-linear, ...) or globs on names",
     .also = "target_modules|lora_target|lora.targets|lora_targets|lora_target_modules|lora.target_modules|"
             "target_parameters|lora_target_linear"},
    {"freeze", MT_KEY_LIST, AT(freeze), "LIST", "none",
     .meaning = "parts to keep frozen even if targets includes them", .also = "frozen"},
    {"experts", MT_KEY_TEXT, AT(experts), "FILE", "none",
     .meaning = "train only these routed experts (ESFT); metier analyze --select-experts writes the file",
     .also = "expert_config|expert_cfg"},
    {"adapter", MT_KEY_TEXT, AT(adapter), "FOLDER", "none",
     .meaning = "start from this adapter (its rank, alpha and targets are used)",
     .also = "adapter_name_or_path|adapter_path"},
    {"lora.rank", MT_KEY_WHOLE, AT(lora_rank), "WHOLE NUMBER >= 1", "32", .meaning = "r of LoRA's pairs",
     .also = "lora_r|lora_rank|r|lora.r", .most = 16384.0},
    {"lora.alpha", MT_KEY_NUMBER, AT(lora_alpha), "NUMBER > 0", "128",
     .meaning = "strength of the pairs: alpha / r multiplies their output", .also = "lora_alpha",
     .most = 1e9},
    {"lora.dropout", MT_KEY_NUMBER, AT(lora_dropout), "NUMBER >= 0 and < 1", "0.1",
     .meaning = "dropout of the pairs' input", .also = "lora_dropout"},
    {"lora.layout", MT_KEY_CHOICE, AT(layout), "auto|per-expert|fused|vllm", "auto",
     .meaning = "format of the saved adapter (docs/adapters.md); auto: for PEFT with transformers 5"},

    {"method", MT_KEY_OWN, 0, "METHOD", MT_TRAIN_DEFAULT_METHOD,
     .meaning = "the objective: none, aux, loss-free, paper, metier, ... (metier objective --methods)",
     .title = "The objective", .also = "loss|objective.method", .set = set_method, .append = append_method,
     .name_at = mt_method_name},
    {0},
};

static const struct mt_key_row rows_to_sources[] = {
    {"data.path", MT_KEY_OWN, 0, "FILE", "none", .meaning = "short for data.sources with one file",
     .title = "Data", .also = "dataset|data.file|train_file|data_path|dataset_path",
     .instead = "data.sources", .set = set_sources},
    {"data.sources", MT_KEY_OWN, 0, "LIST", "required",
     .meaning = "files to train on: paths, or maps of path, weight, form, ...", .also = "datasets|data.files",
     .set = set_sources, .append = append_sources, .members = &source_keys},
    {0},
};

static const struct mt_key_row rows_from_template[] = {
    {"data.template", MT_KEY_NAME, AT(template_name), "model|NAME|FILE", "model",
     .meaning = "chat template: the model's own, a name in share/templates, or a file",
     .also = "template|chat_template"},
    {"data.template_options", MT_KEY_TEXT, AT(template_options), "\"NAME=VALUE,...\"", "none",
     .meaning = "variables of the template, such as enable_thinking=false",
     .also = "chat_template_kwargs|template_options"},
    {"data.template_date", MT_KEY_NAME, AT(template_date), "YYYY-MM-DD", MT_TEMPLATE_DATE,
     .meaning = "the date for templates that ask for today's date"},
    {"data.max_length", MT_KEY_WHOLE, AT(max_length), "WHOLE NUMBER >= 2", "512",
     .meaning = "maximum tokens per example; longer examples are truncated",
     .also = "cutoff_len|max_seq_length|sequence_len|max_seq_len|block_size", .most = MOST_TOKENS},
    {"data.layout", MT_KEY_CHOICE, AT(batching), "in-order|buckets|packed", "in-order",
     .meaning = "a step: the next examples, examples of similar length, or as many as fit batch.tokens",
     .also = "batching"},
    {"data.window", MT_KEY_WHOLE, AT(window), "WHOLE NUMBER >= 0", "0",
     .meaning = "steps (buckets) or examples (packed) arranged together; 0: 16 or 256", .most = 1048576.0},
    {"data.bad_rows", MT_KEY_SWITCH, AT(stop_at_bad_row), "skip|stop", "skip",
     .meaning = "skip invalid rows (and report them), or stop"},
    {"data.record_rows", MT_KEY_FLAG, AT(record_rows), "true|false", "false",
     .meaning = "with train: full, save hashes of the training rows with the model (rows_read.hashes)",
     .may_differ = true},
    {"data.choices", MT_KEY_TEXT, AT(choices), "FILE", "none",
     .meaning = "recorded experts for every token, instead of the router's choice (R3; docs/formats.md)",
     .also = "routed_experts|routing_replay|router_replay"},

    {"evaluation.sources", MT_KEY_OWN, 0, "LIST", "none",
     .meaning = "held-out files, in the same form as data.sources", .title = "Evaluation while training",
     .also = "eval_dataset|test_file|validation_file|evaluation.path", .set = set_sources,
     .append = append_sources, .may_differ = true, .members = &source_keys},
    {"evaluation.split", MT_KEY_NUMBER, AT(split), "NUMBER >= 0 and < 1", "0",
     .meaning = "share of every file of data.sources to hold out, instead of evaluation.sources",
     .instead = "evaluation.sources", .also = "val_size|val_set_size|test_size"},
    {"evaluation.every", MT_KEY_WHOLE, AT(evaluate_every), "WHOLE NUMBER >= 0", "0",
     .meaning = "steps between evaluations; 0: at the end of every epoch", .also = "eval_steps",
     .most = MOST_STEPS, .may_differ = true},
    {"evaluation.examples", MT_KEY_WHOLE, AT(evaluate_examples), "WHOLE NUMBER >= 0", "0",
     .meaning = "maximum number of held-out examples; 0: all", .also = "max_eval_samples", .most = MOST_STEPS,
     .may_differ = true},
    {"evaluation.patience", MT_KEY_WHOLE, AT(patience), "WHOLE NUMBER >= 0", "0",
     .meaning = "stop after this many evaluations without improvement; 0: never",
     .also = "early_stopping_patience|early_stopping", .most = 1e6, .may_differ = true},

    {"batch.examples", MT_KEY_WHOLE, AT(examples), "WHOLE NUMBER >= 0", "32",
     .meaning = "examples per step; packed: the maximum (0: no limit)", .title = "Steps",
     .also = "batch_size|batch.size|global_batch_size|train_batch_size|total_batch_size|effective_batch_size",
     .most = 1048576.0},
    {"batch.tokens", MT_KEY_WHOLE, AT(tokens), "auto|WHOLE NUMBER >= 2", "auto",
     .meaning = "maximum tokens computed together; auto: 4096, or fewer if memory.limit requires it",
     .also = "max_tokens", .most = MOST_TOKENS},
    {"epochs", MT_KEY_NUMBER, AT(epochs), "NUMBER >= 0", "3",
     .meaning = "passes over the data; may be a fraction", .also = "num_train_epochs|num_epochs",
     .most = 1e6},
    {"steps", MT_KEY_WHOLE, AT(steps), "WHOLE NUMBER >= 0", "0",
     .meaning = "number of steps, instead of epochs; 0: use epochs",
     .also = "max_steps|num_steps|iterations|max_iters", .most = MOST_STEPS},

    {"optimizer.lr", MT_KEY_NUMBER, AT(learning_rate), "NUMBER > 0", "1e-4", .meaning = "peak learning rate",
     .title = "The optimizer (AdamW)", .also = "learning_rate|optimizer.learning_rate", .most = 1e3},
    {"optimizer.beta1", MT_KEY_NUMBER, AT(beta1), "NUMBER >= 0 and < 1", "0.9",
     .meaning = "decay of the running mean of the gradient", .also = "adam_beta1"},
    {"optimizer.beta2", MT_KEY_NUMBER, AT(beta2), "NUMBER >= 0 and < 1", "0.999",
     .meaning = "decay of the running mean of its square", .also = "adam_beta2"},
    {"optimizer.epsilon", MT_KEY_NUMBER, AT(epsilon), "NUMBER > 0", "1e-8",
     .meaning = "added to the root of the latter", .also = "adam_epsilon|optimizer.eps", .most = 1.0},
    {"optimizer.weight_decay", MT_KEY_NUMBER, AT(weight_decay), "NUMBER >= 0", "0",
     .meaning = "decoupled weight decay, multiplied by the learning rate", .also = "wd|optimizer.wd",
     .most = 1e3},
    {"optimizer.clip", MT_KEY_NUMBER, AT(clip), "NUMBER >= 0", "1",
     .meaning = "maximum norm of the gradient; 0: no clipping",
     .also = "max_grad_norm|grad_clip|gradient_clipping", .most = 1e12},
    {"optimizer.schedule", MT_KEY_CHOICE, AT(schedule), "cosine|linear|constant", "cosine",
     .meaning = "how the learning rate falls after the warmup",
     .also = "lr_scheduler_type|lr_scheduler|scheduler"},
    {"optimizer.warmup", MT_KEY_NUMBER, AT(warmup), "NUMBER >= 0", "0.03",
     .meaning = "length of the warmup: steps if 1 or more, else a share of all steps",
     .also = "warmup_steps|warmup_ratio", .most = MOST_STEPS},
    {"optimizer.final", MT_KEY_NUMBER, AT(final_rate), "NUMBER >= 0 and <= 1", "0",
     .meaning = "final learning rate, as a share of the peak", .also = "min_lr_ratio|min_lr"},

    {"checkpoint.every", MT_KEY_WHOLE, AT(checkpoint_every), "WHOLE NUMBER >= 0", "200",
     .meaning = "steps between checkpoints; 0: only at the end", .title = "Checkpoints", .also = "save_steps",
     .most = MOST_STEPS, .may_differ = true},
    {"checkpoint.keep", MT_KEY_WHOLE, AT(checkpoint_keep), "WHOLE NUMBER >= 1", "2",
     .meaning = "number of newest checkpoints to keep", .also = "save_total_limit", .most = 1e6,
     .may_differ = true},
    {"checkpoint.resume", MT_KEY_FLAG, AT(resume), "true|false", "true",
     .meaning = "go on from the newest checkpoint in out, if there is one",
     .also = "resume_from_checkpoint|auto_resume", .may_differ = true},

    {"log.every", MT_KEY_WHOLE, AT(log_every), "WHOLE NUMBER >= 1", "10", .meaning = "steps between records",
     .title = "Records", .also = "logging_steps", .most = MOST_STEPS, .may_differ = true},
    {"log.measure_every", MT_KEY_WHOLE, AT(measure_every), "WHOLE NUMBER >= 0", "100",
     .meaning = "steps between measurements of each term's gradient norm; 0: never", .most = MOST_STEPS,
     .may_differ = true},
    {"log.tensorboard", MT_KEY_FLAG, AT(tensorboard), "true|false", "true",
     .meaning = "also write files for TensorBoard", .also = "report_to", .may_differ = true},

    {"quantize.format", MT_KEY_CHOICE, AT(quantise_format), MT_QUANTISE_FORMATS, "none",
     .meaning = "store frozen weights in 8 or 4 bits, quantised while loading (docs/quantised.md)",
     .title = "Quantised weights", .also = "quantization|quantize|quant_format"},
    {"quantize.parts", MT_KEY_LIST, AT(quantise_parts), "LIST", "routed_experts",
     .meaning = "parts to quantise: routed_experts, shared_experts, dense_mlp, attention"},
    {"quantize.double", MT_KEY_FLAG, AT(quantise_nested), "true|false", "true",
     .meaning = "nf4: also quantise the scales", .also = "bnb_4bit_use_double_quant|double_quantization"},
    {"quantize.cache", MT_KEY_FLAG, AT(quantise_cache), "true|false", "false",
     .meaning = "keep the codes in the model's folder and read them from there next time",
     .may_differ = true},

    {"device", MT_KEY_NAME, AT(device), "NAME", "auto",
     .meaning = "where to compute (`metier devices` lists devices); auto: cuda-bf16 with a GPU, else cpu",
     .title = "The machine", .also = "accelerator", .may_differ = true},
    {"threads", MT_KEY_WHOLE, AT(threads), "WHOLE NUMBER >= 0", "0",
     .meaning = "number of threads; 0: all the machine has; the result does not depend on it",
     .also = "num_threads|workers", .most = 4096.0, .may_differ = true},
    {"memory.limit", MT_KEY_NAME, AT(memory_limit), "auto|AMOUNT|SHARE%", "auto",
     .meaning = "limit of the device's memory: 22GiB, 24GB, 90% of the free memory; auto: the free memory",
     .also = "max_memory|memory|gpu_memory_limit|gpu_memory_utilization", .may_differ = true},
    {"recompute", MT_KEY_CHOICE, AT(recompute), "auto|none|moe|full", "auto",
     .meaning =
         "what backward recomputes to save memory, with the same bits; auto: as little as memory allows",
     .also = "recomputation", .may_differ = true},
    {"parallel.experts", MT_KEY_WHOLE, AT(expert_ranks), "auto|WHOLE NUMBER >= 1", "1",
     .meaning = "ranks that share one set of routed experts, a divisor of the number of ranks; auto: 1 if "
                "memory allows, else as few as possible",
     .also = "expert_parallel_size|ep", .most = 65536.0, .may_differ = true},
    {"parallel.room", MT_KEY_NUMBER, AT(expert_room), "NUMBER >= 0", "0",
     .meaning = "if ranks share experts: rows a rank has memory for, as a multiple of those it sends; 0: all",
     .most = 65536.0, .may_differ = true},
    {"parallel.transport", MT_KEY_CHOICE, AT(transport), "auto|host|nccl", "auto",
     .meaning = "on GPUs: gradients and rows travel through the host's memory, or from card to card (NCCL)",
     .may_differ = true},
    {"parallel.transfer", MT_KEY_CHOICE, AT(transfer), "auto|staged|direct", "auto",
     .meaning =
         "rows of shared experts through the host: copied there, or read by the network (CUDA-aware MPI)",
     .may_differ = true},
    {"parallel.statistics", MT_KEY_CHOICE, AT(statistics), "global|local", "global",
     .meaning = "on many ranks: compute L_aux, L_v and the like over all ranks' tokens, or each rank's own"},
    {"activations", MT_KEY_CHOICE, AT(activations), "auto|f32|bf16", "auto",
     .meaning = "type of the activations; auto: bf16 on cuda-bf16, f32 elsewhere", .also = "activation_dtype",
     .may_differ = true},
    {"seed", MT_KEY_SEED, AT(seed), "WHOLE NUMBER >= 0", "0",
     .meaning = "seed of everything random: order, splits, LoRA, dropout", .also = "random_seed|data_seed"},
    {"noise", MT_KEY_FLAG, AT(noise), "true|false", "true",
     .meaning = "false: no dropout, jitter, sampling or drops, as in evaluation"},
    {0},
};

static const struct mt_key_part parts[] = {
    {.rows = rows_to_method},
    {.rows = mt_objective_rows, .prefix = "objective.", .base = AT(objective), .standard = "the method's"},
    {.rows = rows_to_sources},
    {.rows = source_rows, .prefix = "data.sources[].", .of_elements = true},
    {.rows = rows_from_template},
    {0},
};

const struct mt_keys mt_train_keys = {.parts = parts, .foreign = mt_train_foreign};
