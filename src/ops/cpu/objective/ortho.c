/*
 * ortho on LANES tokens at a time: their Gram matrices are transposed into gram[pair][lane], as doubles, and
 * every step of every form is then one vector operation. A masked token, a closed gate and a lane past the
 * last token are zeros, which come out as zeros.
 */
#include <omp.h>

#include "ops/cpu/level.h"
#include "ops/cpu/objective/ortho_span.h"
#include "ops/ref/tokens.h"

/* What forward and backward read. */
struct input {
    const struct mt_tensor *gram, *weight, *mask;
    int k;
    float gate;
};

static bool is_masked(const struct input *in, int64_t i)
{
    return mt_tensor_present(in->mask) && ((const int32_t *)in->mask->data)[i] == 0;
}

static void load_token(const struct input *in, int64_t i, int lane, lanes *gram)
{
    int k = in->k;
    const float *source = (const float *)in->gram->data + i * in->gram->stride[0];
    for (int a = 0; a < k; a++) {
        const float *row = source + a * in->gram->stride[1];
        for (int b = 0; b < k; b++) gram[a * k + b][lane] = (double)row[b];
    }
    if (!mt_tensor_present(in->weight)) return;
    const float *weight = cpu_row(in->weight, i);
    for (int s = 0; s < k; s++) {
        if (!(weight[s] <= in->gate)) continue;
        for (int m = 0; m < k; m++) {
            gram[s * k + m][lane] = 0.0;
            gram[m * k + s][lane] = 0.0;
        }
    }
}

/* Tokens [start, start + count) into gram [k,k]. */
static void load_tokens(const struct input *in, int64_t start, int64_t count, lanes *gram)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (lane < count && !is_masked(in, start + lane)) {
            load_token(in, start + lane, lane, gram);
            continue;
        }
        for (int pair = 0; pair < in->k * in->k; pair++) gram[pair][lane] = 0.0;
    }
}

// ------------------------------------------------------------------ pairwise, cosine and signed

static lanes pairwise_loss(int k, const lanes *gram, double epsilon)
{
    lanes loss = {0};
    for (int b = 0; b < k; b++) {
        lanes square = gram[b * k + b];
        lanes over = lanes_inverse(square + epsilon);
        lanes squares = {0}; // Σ_{a≠b} q²
        for (int a = 0; a < k; a++) {
            if (a != b) squares += gram[a * k + b] * gram[a * k + b];
        }
        loss += squares * square * over * over;
    }
    return loss;
}

static void pairwise_gradient(int k, const lanes *gram, double epsilon, lanes *gradient)
{
    for (int b = 0; b < k; b++) {
        lanes square = gram[b * k + b];
        lanes over = lanes_inverse(square + epsilon);
        lanes factor = 2.0 * square * over * over;
        lanes squares = {0};
        for (int a = 0; a < k; a++) {
            lanes q = gram[a * k + b];
            gradient[a * k + b] = q * factor;
            if (a != b) squares += q * q;
        }
        gradient[b * k + b] = squares * (epsilon - square) * over * over * over;
    }
}

/* The paper's printed gradient is a coupling by itself: not symmetric, nothing on the diagonal. */
static void printed_coupling(int k, const lanes *gram, double epsilon, lanes *coupling)
{
    for (int b = 0; b < k; b++) {
        lanes over = lanes_inverse(gram[b * k + b] + epsilon);
        for (int a = 0; a < k; a++) coupling[a * k + b] = gram[a * k + b] * over;
        coupling[b * k + b] = (lanes){0};
    }
}

static lanes cosine_loss(int k, const lanes *gram, double epsilon)
{
    lanes over[MT_MAX_SLOTS];
    for (int b = 0; b < k; b++) over[b] = lanes_inverse(gram[b * k + b] + epsilon);
    lanes loss = {0};
    for (int a = 0; a < k; a++) {
        lanes sum = {0};
        for (int b = 0; b < k; b++) {
            if (a != b) sum += gram[a * k + b] * gram[a * k + b] * over[b];
        }
        loss += sum * over[a];
    }
    return k > 1 ? loss / (double)(k * (k - 1)) : loss;
}

static void cosine_gradient(int k, const lanes *gram, double epsilon, lanes *gradient)
{
    lanes over[MT_MAX_SLOTS];
    for (int b = 0; b < k; b++) over[b] = lanes_inverse(gram[b * k + b] + epsilon);
    double mean = k > 1 ? 1.0 / (double)(k * (k - 1)) : 0.0;
    for (int a = 0; a < k; a++) {
        lanes factor = 2.0 * mean * over[a];
        lanes pulls = {0}; // Σ_b of the terms (a,b) and (b,a), times A + ε
        for (int b = 0; b < k; b++) {
            lanes q = gram[a * k + b];
            lanes other = gram[b * k + a];
            gradient[a * k + b] = q * factor * over[b];
            if (a != b) pulls += (q * q + other * other) * over[b];
        }
        gradient[a * k + a] = -mean * pulls * over[a] * over[a];
    }
}

/* 1 / √(x + ε), or 0 for a row of zeros, which has no direction. */
static lanes inverse_length(lanes square, double epsilon)
{
    return lanes_where((lane_mask)(square > 0.0), 1.0 / lanes_sqrt(square + epsilon));
}

static lanes signed_loss(int k, const lanes *gram, double epsilon)
{
    lanes over[MT_MAX_SLOTS];
    for (int b = 0; b < k; b++) over[b] = inverse_length(gram[b * k + b], epsilon);
    lanes loss = {0};
    for (int a = 0; a < k; a++) {
        lanes sum = {0};
        for (int b = 0; b < k; b++) {
            if (a != b) sum += gram[a * k + b] * over[b];
        }
        loss += sum * over[a];
    }
    return k > 1 ? loss / (double)(k * (k - 1)) : loss;
}

static void signed_gradient(int k, const lanes *gram, double epsilon, lanes *gradient)
{
    lanes over[MT_MAX_SLOTS];
    for (int b = 0; b < k; b++) over[b] = inverse_length(gram[b * k + b], epsilon);
    double mean = k > 1 ? 1.0 / (double)(k * (k - 1)) : 0.0;
    for (int a = 0; a < k; a++) {
        lanes pulls = {0}; // Σ_b of the terms (a,b) and (b,a), times √(A + ε)
        for (int b = 0; b < k; b++) {
            gradient[a * k + b] = mean * over[a] * over[b];
            if (a != b) pulls += (gram[a * k + b] + gram[b * k + a]) * over[b];
        }
        gradient[a * k + a] = -0.5 * mean * pulls * over[a] * over[a] * over[a];
    }
}

// ------------------------------------------------------------------ the ops

/* Threads worth waking: span's work per token grows with the fourth power of k. */
static int threads_for(const struct mt_device *device, int64_t tokens, int64_t k, enum mt_ortho_form form)
{
    return cpu_threads(device, form == MT_ORTHO_SPAN ? tokens * k * k * k : tokens * k * k);
}

/* Numbers one thread needs: gram, and for backward its gradient, then span's own. */
static int64_t thread_space(int64_t k, enum mt_ortho_form form, bool backward)
{
    return k * k * (backward ? 2 : 1) + (form == MT_ORTHO_SPAN ? span_workspace(k, backward) : 0);
}

static size_t scratch_bytes(const struct mt_device *device, int64_t k, enum mt_ortho_form form, bool backward)
{
    return (size_t)device->threads * (size_t)thread_space(k, form, backward) * sizeof(lanes);
}

static struct mt_reduce_args sum_of_losses(const struct mt_ortho_forward_args *a)
{
    return (struct mt_reduce_args){.x = a->loss, .out = a->sum, .kind = MT_REDUCE_SUM};
}

size_t MT_CPU(ortho_forward_scratch)(const struct mt_device *device, const struct mt_ortho_forward_args *a)
{
    struct mt_reduce_args sum = sum_of_losses(a);
    size_t own = scratch_bytes(device, a->gram.dim[1], a->form, false);
    size_t summing = MT_CPU(reduce_scratch)(device, &sum);
    return own > summing ? own : summing;
}

size_t MT_CPU(ortho_backward_scratch)(const struct mt_device *device, const struct mt_ortho_backward_args *a)
{
    return scratch_bytes(device, a->gram.dim[1], a->form, true);
}

/* space [thread_space] */
static lanes loss_of(const struct mt_ortho_forward_args *a, int k, lanes *space)
{
    const lanes *gram = space;
    double epsilon = (double)a->epsilon;
    if (a->form == MT_ORTHO_PAIRWISE) return pairwise_loss(k, gram, epsilon);
    if (a->form == MT_ORTHO_COSINE) return cosine_loss(k, gram, epsilon);
    if (a->form == MT_ORTHO_SIGNED) return signed_loss(k, gram, epsilon);
    struct span span = span_at(space + (int64_t)k * k, k, false);
    return span_value(&span, gram, epsilon);
}

void MT_CPU(ortho_forward)(struct mt_device *device, const struct mt_ortho_forward_args *a)
{
    int64_t tokens = a->gram.dim[0];
    int k = (int)a->gram.dim[1];
    struct input in = {&a->gram, &a->weight, &a->mask, k, a->gate};
#pragma omp parallel for num_threads(threads_for(device, tokens, k, a->form)) schedule(static)
    for (int64_t start = 0; start < tokens; start += LANES) {
        lanes *space = (lanes *)device->scratch.data + omp_get_thread_num() * thread_space(k, a->form, false);
        int64_t count = cpu_min(LANES, tokens - start);
        load_tokens(&in, start, count, space);
        lanes loss = loss_of(a, k, space);
        for (int64_t lane = 0; lane < count; lane++)
            ((float *)a->loss.data)[start + lane] = (float)loss[lane];
    }
    if (mt_tensor_present(&a->rows)) ref_set1(&a->rows, 0, ref_tokens(&a->mask, tokens));
    struct mt_reduce_args sum = sum_of_losses(a);
    if (mt_tensor_present(&a->sum)) MT_CPU(reduce)(device, &sum);
}

/* space [thread_space]: gram in, the coupling left right after it. */
static void couple(const struct mt_ortho_backward_args *a, int k, double scale, lanes *space)
{
    const lanes *gram = space;
    lanes *coupling = space + (int64_t)k * k;
    double epsilon = (double)a->epsilon;
    if (a->printed_gradient) {
        printed_coupling(k, gram, epsilon, coupling);
        for (int pair = 0; pair < k * k; pair++) coupling[pair] *= scale;
        return;
    }
    if (a->form == MT_ORTHO_SPAN) {
        struct span span = span_at(coupling + (int64_t)k * k, k, true);
        span_gradient(&span, gram, epsilon, coupling);
    } else if (a->form == MT_ORTHO_PAIRWISE) {
        pairwise_gradient(k, gram, epsilon, coupling);
    } else if (a->form == MT_ORTHO_SIGNED) {
        signed_gradient(k, gram, epsilon, coupling);
    } else {
        cosine_gradient(k, gram, epsilon, coupling);
    }
    for (int s = 0; s < k; s++) {
        for (int m = 0; m <= s; m++) {
            lanes both = scale * (coupling[s * k + m] + coupling[m * k + s]);
            coupling[s * k + m] = both;
            coupling[m * k + s] = both;
        }
    }
}

void MT_CPU(ortho_backward)(struct mt_device *device, const struct mt_ortho_backward_args *a)
{
    int64_t tokens = a->gram.dim[0];
    int k = (int)a->gram.dim[1];
    double scale = (double)ref_scale(a->scale, &a->factor);
    struct input in = {&a->gram, &a->weight, &a->mask, k, a->gate};
#pragma omp parallel for num_threads(threads_for(device, tokens, k, a->form)) schedule(static)
    for (int64_t start = 0; start < tokens; start += LANES) {
        lanes *space = (lanes *)device->scratch.data + omp_get_thread_num() * thread_space(k, a->form, true);
        int64_t count = cpu_min(LANES, tokens - start);
        load_tokens(&in, start, count, space); // all of them first: coupling may be gram
        couple(a, k, scale, space);
        const lanes *coupling = space + (int64_t)k * k;
        for (int lane = 0; lane < count; lane++) {
            float *target = (float *)a->coupling.data + (start + lane) * a->coupling.stride[0];
            for (int s = 0; s < k; s++) {
                float *row = target + s * a->coupling.stride[1];
                for (int m = 0; m < k; m++) row[m] = (float)coupling[s * k + m][lane];
            }
        }
    }
}
