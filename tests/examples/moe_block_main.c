/*
 * Trains the block of moe_block.c twice, without and with the orthogonality loss L_o, and shows what the
 * experts became: a table, and a map of which expert serves which domain.
 */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/progress.h"
#include "examples/moe_block.h"

#define STEPS         400
#define SEED          1 // one fixed seed for the task and the parameters: both runs start equal
#define LEARNING_RATE 3e-3f
#define ALPHA         1e-2f
#define MOST_THREADS  1024

static const char *const domain_names[DOMAINS] = {"language", "reasoning", "science", "math", "code"};

struct outcome {
    float beta;
    struct moe_step last;           // means over the last tenth of the steps
    double seconds;                 // for all steps
    double share[EXPERTS][DOMAINS]; // of each domain's slots that an expert gets, on fresh tokens
    double specialisation;          // normalised mutual information between expert and domain, 0 to 1
};

/* I(expert; domain) / H(domain), from counts of (expert, domain) slots. */
static double mutual_information(const double counts[EXPERTS][DOMAINS], double total)
{
    double information = 0.0;
    double entropy = 0.0;
    double domain_total[DOMAINS] = {0};
    for (int e = 0; e < EXPERTS; e++) {
        for (int c = 0; c < DOMAINS; c++) domain_total[c] += counts[e][c];
    }
    for (int c = 0; c < DOMAINS; c++) entropy -= domain_total[c] / total * log(domain_total[c] / total);
    for (int e = 0; e < EXPERTS; e++) {
        double expert_total = 0.0;
        for (int c = 0; c < DOMAINS; c++) expert_total += counts[e][c];
        for (int c = 0; c < DOMAINS; c++) {
            if (counts[e][c] == 0.0) continue;
            information +=
                counts[e][c] / total * log(counts[e][c] * total / (expert_total * domain_total[c]));
        }
    }
    return information / entropy;
}

/* Routes tokens the training never saw, and counts which expert serves which domain. */
static enum mt_status measure(struct moe_block *block, struct outcome *outcome)
{
    double counts[EXPERTS][DOMAINS] = {{0}};
    double domain_slots[DOMAINS] = {0};
    double total = 0.0;
    for (uint64_t batch = 0; batch < 4; batch++) {
        struct moe_step unused;
        moe_block_draw(block, SEED, STEPS + batch);
        enum mt_status status = moe_block_step(block, 1, 0.0f, 0.0f, 0.0f, &unused);
        if (status != MT_OK) return status;
        const int32_t *expert = block->expert.data;
        for (int slot = 0; slot < ROWS; slot++) {
            int32_t domain = block->domain[slot / SLOTS];
            counts[expert[slot]][domain] += 1.0;
            domain_slots[domain] += 1.0;
            total += 1.0;
        }
    }
    for (int e = 0; e < EXPERTS; e++) {
        for (int c = 0; c < DOMAINS; c++) outcome->share[e][c] = counts[e][c] / domain_slots[c];
    }
    outcome->specialisation = mutual_information((const double(*)[DOMAINS])counts, total);
    return MT_OK;
}

static enum mt_status train(struct mt_context *ctx, struct moe_block *block, struct mt_progress *progress,
                            struct outcome *outcome)
{
    const int tail = STEPS / 10;
    for (int64_t step = 1; step <= STEPS; step++) {
        struct moe_step report;
        moe_block_draw(block, SEED, (uint64_t)step);
        double start = mt_clock_seconds();
        enum mt_status status = moe_block_step(block, step, LEARNING_RATE, ALPHA, outcome->beta, &report);
        if (status != MT_OK) return status;
        outcome->seconds += mt_clock_seconds() - start; // the step alone, without drawing its data
        if (step == 1) mt_context_forbid_allocation(ctx, "training");
        if (step > STEPS - tail) {
            outcome->last.loss += report.loss / tail;
            outcome->last.cosine += report.cosine / tail;
            outcome->last.violation += report.violation / tail;
        }
        mt_progress_note(progress, "loss %.4f  cos² %.4f  MaxVio %.2f", report.loss, report.cosine,
                         report.violation);
        mt_progress_update(progress, step);
    }
    mt_progress_finish(progress);
    return measure(block, outcome);
}

static enum mt_status run(struct mt_context *ctx, const char *device_name, int threads,
                          struct outcome *outcome)
{
    struct mt_device *device = NULL;
    enum mt_status status = mt_device_create(ctx, device_name, threads, &device);
    if (status != MT_OK) return status;
    struct moe_block block;
    status = moe_block_create(device, SEED, &block);
    if (status == MT_OK) {
        char label[32];
        struct mt_progress progress;
        (void)snprintf(label, sizeof label, "training, beta = %g", (double)outcome->beta);
        mt_progress_start(&progress, &(struct mt_progress_options){
                                         .stream = stderr, .label = label, .unit = "step", .total = STEPS});
        status = train(ctx, &block, &progress, outcome);
    }
    mt_context_forbid_allocation(ctx, NULL);
    moe_block_free(&block);
    mt_device_destroy(device);
    return status;
}

static void print_table(const struct outcome *outcomes, int count)
{
    printf("\n%-10s %12s %22s %10s %16s %10s\n", "", "loss", "cos² of a token's", "MaxVio", "specialisation",
           "ms/step");
    printf("%-10s %12s %22s %10s %16s %10s\n", "", "(mse)", "experts (L_o)", "", "(0 to 1)", "");
    for (int i = 0; i < count; i++) {
        const struct outcome *o = &outcomes[i];
        printf("β = %-6g %12.4f %22.4f %10.2f %16.3f %10.2f\n", (double)o->beta, o->last.loss, o->last.cosine,
               o->last.violation, o->specialisation, o->seconds * 1000.0 / STEPS);
    }
}

/* One cell per expert and domain, darker for a larger share of the domain's tokens. */
static void print_map(const struct outcome *outcome)
{
    static const char *const shades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    printf("\nWho serves whom, β = %g (share of a domain's slots an expert gets)\n\n%12s",
           (double)outcome->beta, "");
    for (int e = 0; e < EXPERTS; e++) printf("  E%d  ", e);
    printf("\n");
    for (int c = 0; c < DOMAINS; c++) {
        printf("%12s", domain_names[c]);
        for (int e = 0; e < EXPERTS; e++) {
            double share = outcome->share[e][c];
            int shade = (int)(share * 8.0 + 0.5);
            printf(" %s%3.0f", shades[shade > 4 ? 4 : shade], share * 100.0);
        }
        printf("  %%\n");
    }
}

int main(int argc, char **argv)
{
    int threads = 0;
    if (argc == 3 && strcmp(argv[1], "--threads") == 0) {
        char *end = NULL;
        errno = 0;
        long given = strtol(argv[2], &end, 10);
        if (errno != 0 || *end != '\0' || end == argv[2] || given < 1 || given > MOST_THREADS) {
            (void)fprintf(stderr, "moe_block: --threads takes a number from 1 to %d, not '%s'\n",
                          MOST_THREADS, argv[2]);
            return 2;
        }
        threads = (int)given;
    } else if (argc != 1) {
        (void)fprintf(stderr,
                      "usage: moe_block [--threads N]\n\nTrains a small MoE block without and with L_o.\n");
        return 2;
    }
    (void)setlocale(LC_CTYPE, "");
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct outcome outcomes[] = {{.beta = 0.0f}, {.beta = 0.1f}};
    printf("One MoE block, %d experts, %d per token, on five domains; %d steps of %d tokens.\n", EXPERTS,
           SLOTS, STEPS, TOKENS);
    (void)fflush(stdout);
    for (int i = 0; i < 2; i++) {
        enum mt_status status = run(&ctx, "cpu", threads, &outcomes[i]);
        if (status != MT_OK) {
            (void)fprintf(stderr, "moe_block: %s\n",
                          ctx.message[0] != '\0' ? ctx.message : mt_status_text(status));
            return 1;
        }
    }
    print_table(outcomes, 2);
    print_map(&outcomes[0]);
    print_map(&outcomes[1]);
    return 0;
}
