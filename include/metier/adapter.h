/*
 * What training leaves: LoRA pairs as a PEFT adapter, whole models as folders for transformers, and adapters
 * merged into their models. A folder appears whole or not at all.
 *
 * Threads: as in metier/model.h.
 */
#ifndef METIER_ADAPTER_H
#define METIER_ADAPTER_H

#include "metier/export.h"
#include "metier/model.h"

MT_PUBLIC_BEGIN

/*
 * Writes a model's LoRA pairs. The folder must not exist, or be empty. layout: "auto", "per-expert", "fused"
 * or "vllm" (docs/adapters.md); NULL: auto, what PEFT with the current transformers loads.
 */
enum mt_status mt_lm_save_adapter(struct mt_lm *lm, const char *folder, const char *layout);

/* Writes a model of which tensors were trained as they are (MT_LM_FULL), with its tokenizer and so on. */
enum mt_status mt_lm_save_model(struct mt_lm *lm, const char *folder);

/*
 * A complete model folder at `out`, weights W + (alpha / r) · B · A, without a device and whatever the size.
 * threads 0: as many as the machine has.
 */
enum mt_status mt_merge_adapter(struct mt_context *ctx, const char *model, const char *adapter,
                                const char *out, int threads);

MT_PUBLIC_END

#endif
