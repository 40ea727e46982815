/* Where the pilots saw damage begin, and what a first batch could not tell: one warning per line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "objective/objective.h"

#define VALUE_SHARE   0.10 // Σ β·L_o over the task's loss: harmless at 6 %, costly from 26 % on
#define ROUTER_SHARE  0.10 // of L_v's gradient in the logits
#define EXPERTS_SHARE 0.50 // of L_o's gradient in the expert outputs

/* Text that is cut, never overrun. */
struct notes {
    char *text;
    size_t bytes;
    size_t used;
};

static void add(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct notes *notes, const char *format, ...)
{
    if (notes->used + 1 >= notes->bytes) return;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(notes->text + notes->used, notes->bytes - notes->used, format, arguments);
    va_end(arguments);
    if (written > 0) notes->used += (size_t)written;
    if (notes->used >= notes->bytes) notes->used = notes->bytes - 1;
}

/* Mean over layers of a measured gradient norm; NaN when it was not measured. */
static double mean_gradient(const struct mt_objective *objective, enum mt_term term)
{
    double sum = 0.0;
    int layers = objective->shape.layers;
    for (int layer = 0; layer < layers; layer++) sum += objective->layers[layer].report.gradient[term];
    return sum / layers;
}

static double contribution(const struct mt_objective *objective, enum mt_term term)
{
    double sum = 0.0;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        const struct mt_layer_report *report = &objective->layers[layer].report;
        if (report->weight[term] != 0.0) sum += report->weight[term] * report->loss[term];
    }
    return sum;
}

const char *mt_objective_danger(const struct mt_objective_config *config)
{
    if (!mt_term_is_on(config, MT_TERM_O) || !config->ortho_sum) return NULL;
    return "reduce=sum grows with the batch and destroyed the model in every pilot run";
}

static void warn_of_settings(const struct mt_objective *objective, struct notes *notes)
{
    const struct mt_objective_config *config = &objective->config;
    bool ortho = mt_term_is_on(config, MT_TERM_O);
    if (ortho && config->ortho_sum) {
        add(notes,
            "reduce=sum adds L_o up over tokens, as printed: it grows with the batch and destroyed the model "
            "in every pilot run; reduce=mean is the default\n");
    }
    if (config->scale == MT_SCALE_ONCE_POW10 && (ortho || mt_term_is_on(config, MT_TERM_V))) {
        add(notes,
            "scale=once-pow10 scales L_o by the router's rows, not by L_o: its real strength is known only "
            "from the values printed\n");
    }
    if (ortho && objective->shape.slots == 1) {
        add(notes, "each token has one expert: L_o is 0\n");
    }
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (objective->state->unscaled[term] == 0.0) continue;
        add(notes,
            "term %s could not be scaled: it or L_aux was 0 or not a number on the first batch; its weight "
            "is its coefficient, %g\n",
            mt_term_name((enum mt_term)term), config->coefficient[term]);
    }
}

void mt_objective_warnings(const struct mt_objective *objective, const struct mt_task_norms *task, char *text,
                           size_t bytes)
{
    if (bytes == 0) return;
    text[0] = '\0';
    struct notes notes = {.text = text, .bytes = bytes};
    warn_of_settings(objective, &notes);
    double share = contribution(objective, MT_TERM_O) / task->loss;
    if (task->loss > 0.0 && share > VALUE_SHARE) {
        add(&notes,
            "L_o starts at %.3g %% of the task's loss; above %g %% the pilots saw damage: lower beta\n",
            100.0 * share, 100.0 * VALUE_SHARE);
    }
    share = mean_gradient(objective, MT_TERM_V) / task->router_gradient;
    if (task->router_gradient > 0.0 && share > ROUTER_SHARE) {
        add(&notes,
            "L_v's gradient on the router is %.3g %% of the task's; above %g %% the pilots saw damage: lower "
            "gamma\n",
            100.0 * share, 100.0 * ROUTER_SHARE);
    }
    share = mean_gradient(objective, MT_TERM_O) / task->experts_gradient;
    if (task->experts_gradient > 0.0 && share > EXPERTS_SHARE) {
        add(&notes,
            "L_o's gradient on the experts is %.3g %% of the task's; above %g %% the pilots saw damage: "
            "lower "
            "beta\n",
            100.0 * share, 100.0 * EXPERTS_SHARE);
    }
}
