/*
 * ortho, for a token with Gram matrix G of its k rows (q = G_ab, A = G_aa, B = G_bb), sums over a ≠ b:
 *   pairwise  Σ q² B / (B + ε)²                 ∂/∂q = 2 q B / (B + ε)²,  ∂/∂B = q² (ε - B) / (B + ε)³
 *   span      see ops/span.h
 *   cosine    Σ q² / ((A + ε)(B + ε)) / (k(k-1))
 *   signed    Σ q / √((A + ε)(B + ε)) / (k(k-1))
 * Backward: coupling = scale · factor · (Γ + Γᵀ), Γ_ab = ∂ loss / ∂ G_ab. A division by zero (ε = 0, zero
 * row) is a term that is not there.
 */
#include <float.h>
#include <math.h>

#include "ops/ref/tokens.h"
#include "ops/span.h"

#define MOST MT_MAX_SLOTS

/* What a token's loss is made of, in double. */
struct token {
    int k;
    double gram[MOST * MOST]; // [k,k]; zero rows and columns where the gate is closed
};

/* False for a masked token, which is not read at all. */
static bool read_token(struct token *token, const struct mt_tensor *gram, const struct mt_tensor *weight,
                       const struct mt_tensor *mask, float gate, int64_t i)
{
    if (mt_tensor_present(mask) && ref_int1(mask, i) == 0) return false;
    int k = (int)gram->dim[1];
    token->k = k;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            bool closed = mt_tensor_present(weight) &&
                          (ref_get2(weight, i, a) <= (double)gate || ref_get2(weight, i, b) <= (double)gate);
            token->gram[a * k + b] = closed ? 0.0 : ref_get3(gram, i, a, b);
        }
    }
    return true;
}

/* Of gram's entries, for span. */
static double rounding_of(const struct mt_tensor *gram)
{
    return gram->dtype == MT_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
}

static double span_loss(const struct token *token, double epsilon, double rounding)
{
    double workspace[MT_ORTHO_SPAN_VALUE_WORKSPACE(MOST)];
    return mt_ortho_span_value(token->gram, token->k, token->k, epsilon, rounding, workspace);
}

/* 1 / x, or 0 where that does not exist. */
static double inverse(double x)
{
    return x == 0.0 ? 0.0 : 1.0 / x;
}

static double pairwise_loss(const struct token *token, double epsilon)
{
    int k = token->k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token->gram[a * k + b];
            double square = token->gram[b * k + b];
            double over = inverse(square + epsilon);
            if (a != b) sum += q * q * square * over * over;
        }
    }
    return sum;
}

static void pairwise_gradient(const struct token *token, double epsilon, double *gradient)
{
    int k = token->k;
    for (int b = 0; b < k; b++) {
        double square = token->gram[b * k + b];
        double over = inverse(square + epsilon);
        double squares = 0.0;
        for (int a = 0; a < k; a++) {
            double q = token->gram[a * k + b];
            gradient[a * k + b] = 2.0 * q * square * over * over;
            if (a != b) squares += q * q;
        }
        gradient[b * k + b] = squares * (epsilon - square) * over * over * over;
    }
}

static double cosine_loss(const struct token *token, double epsilon)
{
    int k = token->k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double q = token->gram[a * k + b];
            double over_a = inverse(token->gram[a * k + a] + epsilon);
            double over_b = inverse(token->gram[b * k + b] + epsilon);
            if (a != b) sum += q * q * over_a * over_b;
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

static void cosine_gradient(const struct token *token, double epsilon, double *gradient)
{
    int k = token->k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = inverse(token->gram[a * k + a] + epsilon);
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times A + ε
        for (int b = 0; b < k; b++) {
            double q = token->gram[a * k + b];
            double other = token->gram[b * k + a];
            double over_b = inverse(token->gram[b * k + b] + epsilon);
            gradient[a * k + b] = mean * 2.0 * q * over_a * over_b;
            if (a != b) pulls += (q * q + other * other) * over_b;
        }
        gradient[a * k + a] = -mean * pulls * over_a * over_a;
    }
}

/* 1 / √(x + ε), or 0 for a row of zeros, which has no direction. */
static double inverse_length(double square, double epsilon)
{
    return square > 0.0 ? 1.0 / sqrt(square + epsilon) : 0.0;
}

static double signed_loss(const struct token *token, double epsilon)
{
    int k = token->k;
    double sum = 0.0;
    for (int a = 0; a < k; a++) {
        for (int b = 0; b < k; b++) {
            double over_a = inverse_length(token->gram[a * k + a], epsilon);
            double over_b = inverse_length(token->gram[b * k + b], epsilon);
            if (a != b) sum += token->gram[a * k + b] * over_a * over_b;
        }
    }
    return k > 1 ? sum / (double)(k * (k - 1)) : 0.0;
}

static void signed_gradient(const struct token *token, double epsilon, double *gradient)
{
    int k = token->k;
    double mean = inverse((double)(k * (k - 1)));
    for (int a = 0; a < k; a++) {
        double over_a = inverse_length(token->gram[a * k + a], epsilon);
        double pulls = 0.0; // Σ_b of the terms (a,b) and (b,a), times √(A + ε)
        for (int b = 0; b < k; b++) {
            double over_b = inverse_length(token->gram[b * k + b], epsilon);
            gradient[a * k + b] = mean * over_a * over_b;
            if (a != b) pulls += (token->gram[a * k + b] + token->gram[b * k + a]) * over_b;
        }
        gradient[a * k + a] = -0.5 * mean * pulls * over_a * over_a * over_a;
    }
}

enum mt_status mt_ref_ortho_forward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_ortho_forward_args *a = args;
    double total = 0.0;
    for (int64_t i = 0; i < a->gram.dim[0]; i++) {
        struct token token;
        double epsilon = (double)a->epsilon;
        double loss = 0.0;
        if (read_token(&token, &a->gram, &a->weight, &a->mask, a->gate, i)) {
            switch (a->form) {
            case MT_ORTHO_PAIRWISE: loss = pairwise_loss(&token, epsilon); break;
            case MT_ORTHO_SPAN: loss = span_loss(&token, epsilon, rounding_of(&a->gram)); break;
            case MT_ORTHO_COSINE: loss = cosine_loss(&token, epsilon); break;
            case MT_ORTHO_SIGNED: loss = signed_loss(&token, epsilon); break;
            }
        }
        ref_set1(&a->loss, i, loss);
        total += ref_get1(&a->loss, i); // as it was rounded
    }
    if (mt_tensor_present(&a->sum)) ref_set1(&a->sum, 0, total);
    if (mt_tensor_present(&a->rows)) ref_set1(&a->rows, 0, ref_tokens(&a->mask, a->gram.dim[0]));
    return MT_OK;
}

/* The paper's printed gradient is a coupling by itself: not symmetric, nothing on the diagonal. */
static void store_printed(const struct mt_ortho_backward_args *a, const struct token *token, double scale,
                          int64_t i)
{
    int k = token->k;
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++) {
            double over = inverse(token->gram[m * k + m] + (double)a->epsilon);
            double coupling = s == m ? 0.0 : scale * token->gram[s * k + m] * over;
            ref_set3(&a->coupling, i, s, m, coupling);
        }
    }
}

static void store_exact(const struct mt_ortho_backward_args *a, const struct token *token, double scale,
                        int64_t i)
{
    int k = token->k;
    double epsilon = (double)a->epsilon;
    double gradient[MOST * MOST]; // [k,k]
    double workspace[MT_ORTHO_SPAN_GRADIENT_WORKSPACE(MOST)];
    switch (a->form) {
    case MT_ORTHO_PAIRWISE: pairwise_gradient(token, epsilon, gradient); break;
    case MT_ORTHO_SPAN:
        mt_ortho_span_gradient(token->gram, k, epsilon, rounding_of(&a->gram), gradient, workspace);
        break;
    case MT_ORTHO_COSINE: cosine_gradient(token, epsilon, gradient); break;
    case MT_ORTHO_SIGNED: signed_gradient(token, epsilon, gradient); break;
    }
    for (int s = 0; s < k; s++) {
        for (int m = 0; m < k; m++) {
            ref_set3(&a->coupling, i, s, m, scale * (gradient[s * k + m] + gradient[m * k + s]));
        }
    }
}

enum mt_status mt_ref_ortho_backward(struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_ortho_backward_args *a = args;
    int64_t slots = a->gram.dim[1];
    double scale = (double)ref_scale(a->scale, &a->factor);
    for (int64_t i = 0; i < a->gram.dim[0]; i++) {
        struct token token;
        if (!read_token(&token, &a->gram, &a->weight, &a->mask, a->gate, i)) {
            for (int64_t pair = 0; pair < slots * slots; pair++) {
                ref_set3(&a->coupling, i, pair / slots, pair % slots, 0.0);
            }
        } else if (a->printed_gradient) {
            store_printed(a, &token, scale, i);
        } else {
            store_exact(a, &token, scale, i);
        }
    }
    return MT_OK;
}
