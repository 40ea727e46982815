/*
 * The methods: one row each. A row is a whole configuration with the published strengths; keys change single
 * fields of a copy (options.c). What the sources say, and where they disagree: docs/lab/sources.md.
 */
#include <string.h>

#include "base/given.h"
#include "base/nearest.h"
#include "metier/objective.h"
#include "objective/options.h"

#define NEAR 4 // edits past which two names have nothing to do with each other

// What every row starts from: fields that matter only once a term or a brake is switched on by a key.
#define FIELDS_BUT_RATE                                                                                      \
    .running_decay = 0.9, .brake_target = 2.5, .router_orth_groups = 1, .bias_momentum = 0.5,                \
    .bias_clamp = 2.0, .erc_alpha = 1.0, .erc_noise = 1.0
#define COMMON_FIELDS FIELDS_BUT_RATE, .bias_rate = 1e-3

// A form that is not named is the first of its kind, and those are the paper's equations made computable:
// batch-level balance, pairwise over a token's experts, mean over tokens, variance over tokens, scale=once.
static const struct mt_method methods[] = {
    {
        .name = "none",
        .summary = "the task's loss alone",
        .source = "baseline",
        .config = {.method = "none", COMMON_FIELDS},
    },
    {
        .name = "aux",
        .summary = "load balance: the batch-level auxiliary loss",
        .source = "DeepSeekMoE (2401.06066); aux_loss_alpha of the released configs",
        .config = {.method = "aux", COMMON_FIELDS, .coefficient = {[MT_TERM_AUX] = 1e-3}},
    },
    {
        .name = "global-batch",
        .summary = "load balance over the whole step, all micro-batches and ranks together",
        .source = "Qwen (2501.11873); router_aux_loss_coef of the released configs",
        .config = {.method = "global-batch",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-3},
                   .aux = MT_AUX_GLOBAL},
    },
    {
        .name = "pool",
        .summary =
            "each sequence chooses from a pool of experts of its own, balance over the whole step, z-loss",
        .source = "EMO (2605.06663), released code (allenai/EMO)",
        // 0.1 and 1e-3, divided by the 16 layers of its models as its code does
        .config = {.method = "pool",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 6.25e-3, [MT_TERM_Z] = 6.25e-5},
                   .aux = MT_AUX_GLOBAL,
                   .pool = true},
    },
    {
        .name = "gshard",
        .summary = "balance of first choices, random drop of later ones, capacity",
        .source = "GShard (2006.16668), in the scale of Mesh TensorFlow",
        .config = {.method = "gshard",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-2},
                   .aux = MT_AUX_SWITCH,
                   .drop_threshold = 0.2,
                   .capacity_factor = 1.0},
    },
    {
        .name = "st-moe",
        .summary = "balance of first choices, z-loss, random drop, capacity, input jitter",
        .source = "ST-MoE (2202.08906)",
        .config = {.method = "st-moe",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-2, [MT_TERM_Z] = 1e-3},
                   .aux = MT_AUX_SWITCH,
                   .drop_threshold = 0.2,
                   .capacity_factor = 1.25,
                   .capacity_minimum = 4,
                   .jitter = 1e-2},
    },
    {
        .name = "loss-free",
        .summary = "no loss: a selection bias moves against the loads after every step",
        .source = "Loss-Free Balancing (2408.15664)",
        .config = {.method = "loss-free", COMMON_FIELDS, .bias_rule = MT_BIAS_SIGN},
    },
    {
        .name = "smebu",
        .summary = "loss-free, softly clamped and with momentum",
        .source = "Arcee Trinity Large (2602.17004)",
        .config = {.method = "smebu", FIELDS_BUT_RATE, .bias_rule = MT_BIAS_SMEBU, .bias_rate = 5e-4},
    },
    {
        .name = "quantile",
        .summary = "no loss: a selection bias that would have balanced the step before, without a rate",
        .source = "Quantile Balancing (kexue.fm/archives/11619), Megatron-LM's code",
        .config = {.method = "quantile", COMMON_FIELDS, .bias_rule = MT_BIAS_QUANTILE},
    },
    {
        .name = "densemixer",
        .summary = "no loss: experts that were not chosen send gradients to the router, too",
        .source = "DenseMixer, released code (yaof20/DenseMixer)",
        .config = {.method = "densemixer", COMMON_FIELDS, .dense_router = true},
    },
    {
        .name = "ernie",
        .summary = "balance over all k choices, orthogonal router rows, z-loss",
        .source = "ERNIE 4.5, released training code",
        .config = {.method = "ernie",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-2, [MT_TERM_Z] = 1e-4, [MT_TERM_ROUTER_ORTH] = 1e-2},
                   .aux = MT_AUX_ERNIE},
    },
    {
        .name = "simbal",
        .summary = "orthonormal router rows instead of a balance loss, z-loss",
        .source = "SimBal (2506.14038)",
        .config = {.method = "simbal",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_Z] = 1e-5, [MT_TERM_SIMBAL] = 0.1}},
    },
    {
        .name = "erc",
        .summary = "balance; experts and router's rows coupled: each expert answers its own row most",
        .source = "Expert-Router Coupling (2512.23447)",
        .config = {.method = "erc",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-2, [MT_TERM_ERC] = 1.0}},
    },
    {
        .name = "intra-cross",
        .summary = "balance, different activations within a layer, coherent choices across layers",
        .source = "Synergistic Intra- and Cross-Layer Losses (2602.14159), as others report it",
        .config = {.method = "intra-cross",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-2, [MT_TERM_SP] = 2e-3, [MT_TERM_CP] = 1e-3}},
    },
    {
        .name = "paper",
        .summary = "balance, orthogonal expert outputs, varied scores: the equations, made computable",
        .source = "Advancing Expert Specialization (2505.22323), equations",
        .config = {.method = "paper",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-3, [MT_TERM_O] = 1e-3, [MT_TERM_V] = 1e-3}},
    },
    {
        .name = "paper-code",
        .summary =
            "what the authors released: outputs grouped by expert, spans, powers of ten; for comparison",
        .source = "Advancing Expert Specialization (2505.22323), released code",
        .config = {.method = "paper-code",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-3, [MT_TERM_O] = 1e-4, [MT_TERM_V] = 1e-3},
                   .aux = MT_AUX_SEQUENCE,
                   .grouping = MT_GROUPING_EXPERT_CONCAT,
                   .form = MT_ORTHO_SPAN,
                   .axis = MT_AXIS_TOKEN,
                   .full_scores = true,
                   .scale = MT_SCALE_ONCE_POW10},
    },
    {
        .name = "metier",
        .summary = "our own: scale-free orthogonality, stronger, and a variance term that knows when to stop",
        .source = "the pilots of this project",
        .config = {.method = "metier",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-3, [MT_TERM_O] = 1e-2, [MT_TERM_V] = 3e-3},
                   .form = MT_ORTHO_COSINE,
                   .exclude_first = true,
                   .brake = MT_BRAKE_TARGET},
    },
    {
        .name = "paper-wo-lv",
        .summary = "ablation: paper without L_v",
        .source = "Advancing Expert Specialization (2505.22323), ablations",
        .config = {.method = "paper-wo-lv",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-3, [MT_TERM_O] = 1e-3}},
    },
    {
        .name = "paper-wo-lo",
        .summary = "ablation: paper without L_o",
        .source = "Advancing Expert Specialization (2505.22323), ablations",
        .config = {.method = "paper-wo-lo",
                   COMMON_FIELDS,
                   .coefficient = {[MT_TERM_AUX] = 1e-3, [MT_TERM_V] = 1e-3}},
    },
    {
        .name = "paper-only-aux",
        .summary = "ablation: paper with its balance loss alone",
        .source = "Advancing Expert Specialization (2505.22323), ablations",
        .config = {.method = "paper-only-aux", COMMON_FIELDS, .coefficient = {[MT_TERM_AUX] = 1e-3}},
    },
    {
        .name = "paper-wo-all",
        .summary = "ablation: paper without any of its terms",
        .source = "Advancing Expert Specialization (2505.22323), ablations",
        .config = {.method = "paper-wo-all", COMMON_FIELDS},
    },
};

const struct mt_method *mt_method_listed(int index)
{
    int count = (int)(sizeof methods / sizeof methods[0]);
    return index >= 0 && index < count ? &methods[index] : NULL;
}

const char *mt_method_name(int index)
{
    const struct mt_method *method = mt_method_listed(index);
    return method != NULL ? method->name : NULL;
}

/* What people call a method elsewhere, and what it is here. */
static const struct {
    const char *names; // between bars
    const char *advice;
} elsewhere[] = {
    {"dpo|ipo|kto|orpo|simpo|cpo|ppo|grpo|gspo|dapo|rloo|rlhf|reinforce|rl|online_dpo|xpo|nash_md|reward|"
     "reward_modeling|distillation|gkd",
     "metier trains with a supervised loss. For DPO, GRPO and the like use TRL, with metier.attach for the "
     "objective (docs/pytorch.md)"},
    {"sft|supervised|finetune|fine_tune|finetuning|ce|cross_entropy|causal_lm|task|baseline|default|base",
     "every method is supervised fine-tuning; 'none' adds nothing to its loss"},
    {"lora|qlora|full|freeze|dora|adapter|esft|pretrain|pt",
     "method names what is added to the loss; the keys train and targets say which weights are trained, "
     "quantize.format how frozen ones are stored"},
    {"balance|balanced|load_balancing|load_balance|switch|auxiliary|aux_loss", "did you mean 'aux'?"},
    {"emo|expert_pool|document_pool|two_level|twolevel", "did you mean 'pool'?"},
    {"lossfree|aux_free|auxfree|auxiliary_loss_free|aux_loss_free|bias", "did you mean 'loss-free'?"},
};

static const char *advice_on(const char *name)
{
    size_t count = sizeof elsewhere / sizeof elsewhere[0];
    size_t i = 0;
    while (i < count && !mt_is_among(elsewhere[i].names, name)) i++;
    return i < count ? elsewhere[i].advice : NULL;
}

enum mt_status mt_objective_config_method(struct mt_context *ctx, const char *name,
                                          struct mt_objective_config *config)
{
    enum mt_status status = mt_given(ctx, "mt_objective_config_method", "name", name);
    if (status == MT_OK) status = mt_given(ctx, "mt_objective_config_method", "config", config);
    if (status != MT_OK) return status;
    const struct mt_method *nearest = NULL;
    int distance = mt_near_enough(name, NEAR);
    for (int i = 0; mt_method_listed(i) != NULL; i++) {
        const struct mt_method *method = mt_method_listed(i);
        if (strcmp(method->name, name) == 0) {
            *config = method->config;
            return MT_OK;
        }
        bool spelled = mt_is_among(method->name, name); // but for its case, or _ for -
        if (spelled || mt_nearer(name, method->name, &distance)) nearest = method;
        if (spelled) distance = 0;
    }
    const char *advice = advice_on(name);
    if (advice != NULL) return mt_fail(ctx, MT_ERR_USAGE, "there is no method '%.60s'; %s", name, advice);
    if (nearest != NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "there is no method '%.60s'; did you mean '%s'?", name,
                       nearest->name);
    return mt_fail(ctx, MT_ERR_USAGE, "there is no method '%.60s'; metier objective --methods lists them",
                   name);
}
