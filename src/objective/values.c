/*
 * From the terms' numbers to their values and gradients: on the host, term by term, or by one op on the
 * device, where nobody waits for what the values are.
 */
#include "objective/objective.h"

/* A term's products; 0: it has none. */
static int products_of(const struct mt_objective *objective, enum mt_term term,
                       struct mt_stat_product products[MT_TERM_PRODUCTS])
{
    const struct mt_term_kind *kind = mt_term_kind(term);
    int count = kind->products != NULL ? kind->products(objective, products) : 0;
    for (int i = 0; i < count; i++) products[i].loss = (int)term;
    return count;
}

// ------------------------------------------------------------------ on the host

/* Adds to the gradient; returns the value. As stat_values does it. */
static double add_product(const struct mt_stat_product *product, const double *numbers, double *gradient)
{
    double over = product->over < 0 ? 1.0 : numbers[product->over];
    if (!(over > 0.0)) return 0.0;
    double share = product->factor;
    for (int i = 0; i < product->power; i++) share /= over;
    double value = 0.0;
    for (int64_t i = 0; i < product->count; i++) {
        double x = numbers[product->x + i];
        double y = product->y < 0 ? 1.0 : numbers[product->y + i];
        value += share * y * x;
        gradient[product->x + i] = share * y * (product->y == product->x ? 2.0 : 1.0);
    }
    return value;
}

void mt_values_find(struct mt_objective *objective, enum mt_term term)
{
    struct mt_stat_product products[MT_TERM_PRODUCTS];
    const struct mt_term_kind *kind = mt_term_kind(term);
    int count = kind->value == NULL ? products_of(objective, term, products) : 0;
    size_t offset = objective->offset[term];
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        double *numbers = mt_objective_numbers(objective->statistics, objective, layer);
        double *gradient = mt_objective_numbers(objective->gradient, objective, layer);
        struct mt_term_view *view = &objective->views[layer];
        *view = (struct mt_term_view){
            .tokens = objective->layers[layer].tokens,
            .segments = objective->layers[layer].segments,
            .statistics = numbers + offset,
            .gradient = gradient + offset,
        };
        for (int i = 0; i < count; i++) view->loss += add_product(&products[i], numbers, gradient);
    }
    if (kind->value != NULL) kind->value(objective, objective->views);
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        objective->layers[layer].report.loss[term] = objective->views[layer].loss;
    }
}

// ------------------------------------------------------------------ on the device

/* All terms' products; -1: a term has none, and is the host's. */
static int all_products(const struct mt_objective *objective, struct mt_stat_product *products)
{
    int count = 0;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!objective->active[term]) continue;
        int found = products_of(objective, (enum mt_term)term, products + count);
        if (found == 0) return -1;
        count += found;
    }
    return count;
}

/* Brings the reports' weights to the device, if they are not there. */
static enum mt_status place_weights(struct mt_objective *objective)
{
    bool same = true;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        const double *weight = objective->layers[layer].report.weight;
        double *there = objective->uploaded_weight + (size_t)layer * MT_TERM_COUNT;
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            same = same && there[term] == weight[term];
            there[term] = weight[term];
        }
    }
    if (same) return MT_OK;
    size_t bytes = (size_t)mt_tensor_count(&objective->device_weight) * sizeof(double);
    return mt_device_upload(objective->device, objective->device_weight.data, objective->uploaded_weight,
                            bytes);
}

enum mt_status mt_values_issue(struct mt_objective *objective, const struct mt_objective_step *step,
                               const struct mt_tensor *total, bool *waited)
{
    struct mt_stat_product products[MT_TERM_COUNT * MT_TERM_PRODUCTS];
    _Static_assert(MT_TERM_COUNT * MT_TERM_PRODUCTS <= MT_STAT_PRODUCTS, "all terms have room");
    int count = all_products(objective, products);
    *waited = objective->reduction.sum != NULL || count < 0 || !mt_scale_is_known(objective);
    if (*waited) {
        double value = 0.0;
        enum mt_status status = mt_objective_finish(objective, step, &value);
        if (status != MT_OK) return status;
        return mt_fill(objective->device, &(struct mt_fill_args){.y = *total, .value = (float)value});
    }
    enum mt_status status = mt_objective_check_step(objective, step);
    if (status != MT_OK) return status;
    objective->loss_scale = step->loss_scale;
    mt_scale_weigh(objective, false, step->progress);
    status = place_weights(objective);
    if (status != MT_OK) return status;
    int64_t layers = objective->shape.layers;
    int64_t stride = (int64_t)objective->stride;
    return mt_stat_values(objective->device,
                          &(struct mt_stat_values_args){
                              .numbers = mt_tensor_2d(objective->device_statistics, MT_F64, layers, stride),
                              .weight = objective->device_weight,
                              .gradient = mt_tensor_2d(objective->device_gradient, MT_F64, layers, stride),
                              .total = *total,
                              .products = products,
                              .products_count = count,
                              .scale = step->loss_scale,
                          });
}
