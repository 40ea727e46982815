/* The files of the op case list: one line each, in the order of metier/ops.h. */
#ifndef MT_TESTS_CASE_FILES_H
#define MT_TESTS_CASE_FILES_H

#include "ops/op_case.h"

// clang-format off
#define CASE_FILES(X)  \
    X(gemm)            \
    X(grouped_gemm)    \
    X(head_gemm)       \
    X(grouped_sum)     \
    X(lora_sums)       \
    X(grouped_swiglu)  \
    X(dequantize)      \
    X(lora)            \
    X(embedding)       \
    X(rmsnorm)         \
    X(layernorm)       \
    X(rope)            \
    X(mla_key)         \
    X(attention)       \
    X(attention_sink)  \
    X(swiglu)          \
    X(bias)            \
    X(grouped_bias)    \
    X(sigmoid_gate)    \
    X(elementwise)     \
    X(random_multiply) \
    X(dropout_bits)    \
    X(router)          \
    X(sparsemixer)     \
    X(dispatch)        \
    X(combine)         \
    X(cross_entropy)   \
    X(adamw)           \
    X(reduce)          \
    X(logit_summary)   \
    X(stats)           \
    X(router_zloss)    \
    X(slot_drop)       \
    X(balance_quantile) \
    X(unchosen)        \
    X(given_experts)   \
    X(expert_pool)     \
    X(router_orth)     \
    X(ortho)           \
    X(stat_values)     \
    X(model_terms)     \
    // end of list
// clang-format on

#define CASE_FILE_DECLARE(name) void cases_##name(struct case_list *list);
CASE_FILES(CASE_FILE_DECLARE)
#undef CASE_FILE_DECLARE

#endif
