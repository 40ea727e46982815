/* What people know from PEFT, TRL, transformers, axolotl, LLaMA-Factory, DeepSpeed and Megatron. */
#include "train/settings/foreign.h"

const struct mt_key_foreign mt_train_foreign[] = {
    {"gradient_accumulation_steps|gradient_accumulation|accumulation_steps|grad_accum|grad_accum_steps|"
     "accumulate_grad_batches|iters_to_accumulate",
     "batch.examples is a whole step: batch size × accumulation steps × devices. Micro-batches of at most "
     "batch.tokens are cut from it"},
    {"per_device_train_batch_size|per_device_batch_size|per_gpu_train_batch_size|micro_batch_size|"
     "train_micro_batch_size_per_gpu|device_batch_size",
     "batch.examples is a whole step: batch size × accumulation steps × devices. batch.tokens is what one "
     "device computes at a time"},
    {"per_device_eval_batch_size|eval_batch_size", "evaluation takes batch.tokens at a time"},
    {"auto_find_batch_size", "batch.tokens: auto and recompute: auto fit a run to its memory.limit"},

    {"bf16|fp16|tf32|float16|half|mixed_precision|precision|torch_dtype|dtype|amp|bf16_full_eval|"
     "bnb_4bit_compute_dtype|compute_dtype",
     "device says what computes (cuda-bf16: in bf16), activations what lies between the layers; weights keep "
     "the type of their files"},
    {"load_in_4bit|bnb_4bit_quant_type|qlora", "quantize.format: nf4 stores frozen weights in 4 bits"},
    {"load_in_8bit|load_in_fp8|fp8", "quantize.format: int8 (or fp8) stores frozen weights in 8 bits"},
    {"quantization_config|quantization_bit|quantization_method|bnb_config",
     "quantize.format stores frozen weights in 8 or 4 bits: nf4, mxfp4, fp8 or int8"},
    {"flash_attention|flash_attn|flash_attention_2|use_flash_attn|attn_implementation|sdp_attention|"
     "xformers_attention|liger_kernel|use_liger_kernel|torch_compile|use_cache|unsloth|use_unsloth|"
     "enable_liger_kernel",
     "metier has its own kernels and chooses them itself: leave this out"},
    {"deepspeed|deepspeed_config|fsdp|fsdp_config|ddp|ddp_timeout|ddp_find_unused_parameters|zero_stage|"
     "num_gpus|world_size|num_nodes|tensor_parallel|tensor_parallel_size|tensor_model_parallel_size|"
     "pipeline_model_parallel_size|context_parallel_size",
     "several GPUs or machines: start metier with mpirun; parallel.experts shares the experts between them "
     "(docs/scaling.md)"},
    {"device_map|cuda_visible_devices|use_cpu|no_cuda|local_rank|n_gpu",
     "device names what computes (metier devices lists them); start metier with mpirun for several GPUs"},
    {"trust_remote_code", "metier runs no code of a model folder: leave this out"},

    {"use_peft|peft_type|peft|peft_config|task_type|use_lora|lora_enable",
     "train: lora is the default; train: full trains the weights themselves"},
    {"use_rslora|rslora|lora_use_rslora|peft_use_rslora",
     "lora.alpha / lora.rank multiplies what LoRA adds; for rsLoRA set lora.alpha to alpha × √rank"},
    {"use_dora|dora|lora_use_dora|peft_use_dora|init_lora_weights|peft_init_lora_weights|pissa_init|"
     "loftq_config|loraplus_lr_ratio|lora_bias|lora_modules_to_save|modules_to_save|layers_to_transform|"
     "rank_pattern|alpha_pattern|loraplus_lr_embedding",
     "metier has plain LoRA, one rank and alpha for all targets; targets and freeze say which weights "
     "(docs/adapters.md)"},
    {"unfrozen_parameters|trainable_modules|freeze_trainable_layers",
     "train: full with targets says which weights are trained"},

    {"optim|optimizer|optimizer_type|optim_args|adam_bits",
     "the optimizer is AdamW; its keys are optimizer.lr, optimizer.weight_decay and so on"},
    {"save_strategy|save_only_model|save_safetensors|saves_per_epoch|load_best_model_at_end|"
     "metric_for_best_model|greater_is_better",
     "checkpoint.every says how often; with held-out data the best model is kept as well"},
    {"eval_strategy|evaluation_strategy|do_eval|evals_per_epoch|eval_on_start|do_predict|"
     "eval_accumulation_steps",
     "evaluation.every says how often, evaluation.sources or evaluation.split on what"},
    {"overwrite_output_dir|overwrite_cache",
     "a run goes on in its folder; to begin again, set another out or delete the folder"},
    {"wandb|wandb_project|wandb_entity|wandb_run_id|wandb_mode|use_wandb|run_name|mlflow_tracking_uri|"
     "mlflow_experiment_name|swanlab_project|logging_dir|logging_strategy|logging_first_step|plot_loss|"
     "use_tensorboard|comet_project_name",
     "metier writes metrics.jsonl and TensorBoard's files into out (log.every, log.tensorboard)"},
    {"hub_model_id|push_to_hub|hub_token|hub_strategy|hub_private_repo|push_dataset_to_hub",
     "metier uploads nothing: hf upload sends the adapter's folder"},

    {"train_on_inputs|train_on_input|train_on_prompt|mask_prompt|mask_history|assistant_only_loss|"
     "completion_only_loss|roles_to_train|train_on_eos|dataset_kwargs",
     "answers are trained on, prompts are not; data.sources with form: text trains on everything "
     "(docs/data.md)"},
    {"dataset_text_field|field|field_messages|dataset_type|prompt_template|formatting_func|data_collator|"
     "remove_unused_columns|columns_mapping|dataset_format|input_column",
     "data.sources has form and fields for what rows look like (docs/data.md)"},
    {"dataset_prepared_path|dataset_num_proc|dataloader_num_workers|dataloader_pin_memory|"
     "preprocessing_num_workers|dataset_processes|streaming|dataset_shards|shuffle_merged_datasets|"
     "dataset_dir|dataloader_drop_last",
     "data needs no preparation: data.path names the file, and it is read while training"},
    {"pad_to_sequence_len|pad_to_multiple_of|padding|padding_side|padding_free|eval_sample_packing",
     "nothing is padded: sequences lie end to end; data.layout: packed fills steps by tokens"},
    {"packing|sample_packing|neat_packing|multipack|packed", "data.layout: packed fills steps by tokens"},
    {"group_by_length|length_grouped", "data.layout: buckets puts examples of like length together"},
    {"gradient_checkpointing|activation_checkpointing|gradient_checkpointing_kwargs|use_reentrant_gc|"
     "disable_gradient_checkpointing",
     "recompute: full (or moe) computes activations again instead of keeping them; auto does what memory "
     "asks "
     "for"},
    {"special_tokens|added_tokens_overrides|resize_vocab|resize_token_embeddings|tokenizer_use_fast",
     "the tokenizer is used as its folder has it; the key tokenizer names another folder"},
    {"neftune_noise_alpha|noisy_embedding_alpha|label_smoothing|label_smoothing_factor|average_tokens_across_"
     "devices",
     "there is nothing like it here: leave this out"},

    {"router_aux_loss_coef|aux_loss_coef|aux_loss_alpha|moe_aux_loss_coeff|moe_aux_loss_coef|"
     "output_router_logits|router_aux_loss|load_balancing_loss|moe_loss_coeff|balance_loss_coef",
     "method: aux adds a balance loss, and objective.alpha is its strength (docs/objective.md)"},
    {"router_z_loss_coef|z_loss_coef|moe_z_loss_coeff|router_z_loss",
     "objective.zeta is the strength of the router's z-loss (docs/objective.md)"},
    {"stage|trainer_type|rl|rl_type|trl|dpo_beta|pref_beta|pref_loss|pref_ftx|reward_model|reward_funcs|"
     "ref_model|ref_model_name_or_path|num_generations|max_prompt_length|max_completion_length|kto_beta|"
     "simpo_gamma|orpo_alpha|orpo_beta|cpo_alpha|loss_type|rl_beta|reward_weights|use_vllm",
     "metier trains with a supervised loss. For DPO, GRPO and the like use TRL, with metier.attach for the "
     "objective (docs/pytorch.md)"},
    {"do_train|strict|plugins|gpu_memory_fraction|torchdistx_path|report_to_all|disable_tqdm|log_level|"
     "skip_memory_metrics|full_determinism|project|ddp_backend",
     "there is no need for it here: leave it out"},
    {0},
};
