/*
 * metier objective as a program: what it writes for a good record, against formulas worked out here, and what
 * it says about each bad one. Tests src/cli/objective.
 */
#define _DEFAULT_SOURCE // popen, MAP_ANONYMOUS

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/safetensors/safetensors_writer.h"
#include "support/cmocka_all.h"
#include "support/workplace.h"

#define TOKENS  6
#define EXPERTS 4
#define SLOTS   2
#define WIDTH   3

static const char *program;

// ------------------------------------------------------------------ running the program

struct outcome {
    int status;
    char text[32768]; // standard output, then, unless it was sent elsewhere, standard error
};

/* Runs "metier objective ARGUMENTS" in the workplace; the arguments may redirect. */
static void objective(const struct workplace *place, struct outcome *outcome, const char *arguments)
{
    char command[2048];
    (void)snprintf(command, sizeof command, "cd %s && %s objective %s 2>&1", place->directory, program,
                   arguments);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): the command is ours
    assert_non_null(pipe);
    size_t bytes = fread(outcome->text, 1, sizeof outcome->text - 1, pipe);
    outcome->text[bytes] = '\0';
    int status = pclose(pipe);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const struct workplace *place, const char *arguments, int status, const char *said)
{
    static struct outcome outcome;
    objective(place, &outcome, arguments);
    if (outcome.status != status || strstr(outcome.text, said) == NULL) {
        fail_msg("%s: exit %d, expected %d and '%s' in:\n%s", arguments, outcome.status, status, said,
                 outcome.text);
    }
}

static json_t *expect_json(const struct workplace *place, const char *arguments)
{
    static struct outcome outcome;
    objective(place, &outcome, arguments);
    if (outcome.status != 0) fail_msg("%s: exit %d: %s", arguments, outcome.status, outcome.text);
    json_error_t error;
    json_t *root = json_loads(outcome.text, 0, &error);
    if (root == NULL) fail_msg("%s: not JSON: %s\n%s", arguments, error.text, outcome.text);
    return root;
}

// ------------------------------------------------------------------ records

/* One layer's arrays. Token 5 is padding; tokens 0-2 and 3-5 are two sequences. */
struct record {
    float logits[TOKENS][EXPERTS];
    float outputs[TOKENS][SLOTS][WIDTH];
    int32_t mask[TOKENS];
    int32_t sequence[TOKENS];
    float router_weight[EXPERTS][WIDTH];
    float router_bias[EXPERTS];
};

static struct record sample_record(void)
{
    struct record record = {.mask = {1, 1, 1, 1, 1, 0}, .sequence = {7, 7, 7, -3, -3, -3}};
    for (int i = 0; i < TOKENS; i++) {
        for (int j = 0; j < EXPERTS; j++) record.logits[i][j] = (float)sin(1.3 * i + 2.1 * j + 0.4);
        for (int s = 0; s < SLOTS; s++) {
            for (int c = 0; c < WIDTH; c++) record.outputs[i][s][c] = (float)cos(0.7 * i + 1.9 * s + 2.3 * c);
        }
    }
    for (int j = 0; j < EXPERTS; j++) {
        for (int c = 0; c < WIDTH; c++) record.router_weight[j][c] = (float)sin(3.0 * j + 1.7 * c);
        record.router_bias[j] = 0.01f * (float)j;
    }
    return record;
}

/* A tensor of a file to write. `bytes` of data are given; the shape decides how many are written. */
struct entry {
    const char *name; // NULL ends a list
    enum mt_safetensors_dtype dtype;
    int rank;
    int64_t dim[4];
    const void *data;
};

#define MAX_ENTRIES 8

static void write_entries(const struct workplace *place, const char *name, const struct entry *entries)
{
    struct mt_context ctx;
    struct mt_safetensors_writer writer;
    struct mt_safetensors_spec specs[MAX_ENTRIES] = {{0}};
    char path[128];
    size_t count = 0;
    mt_context_init(&ctx, NULL);
    for (; entries[count].name != NULL; count++) {
        specs[count] = (struct mt_safetensors_spec){
            .name = entries[count].name, .dtype = entries[count].dtype, .rank = entries[count].rank};
        for (int i = 0; i < entries[count].rank; i++) specs[count].dim[i] = entries[count].dim[i];
    }
    workplace_path(place, name, path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, count, NULL, 0, &writer), MT_OK);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = mt_safetensors_dtype_bytes(specs[i].dtype);
        for (int j = 0; j < specs[i].rank; j++) bytes *= (size_t)specs[i].dim[j];
        assert_int_equal(mt_safetensors_writer_write(&writer, entries[i].data, bytes), MT_OK);
    }
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The sample record with one tensor replaced (`other`, by name; added when new) or left out (`without`). */
static void write_record(const struct workplace *place, const char *name, const struct record *record,
                         const struct entry *other, const char *without)
{
    const struct entry whole[] = {
        {"logits", MT_SAFETENSORS_F32, 2, {TOKENS, EXPERTS}, record->logits},
        {"expert_outputs", MT_SAFETENSORS_F32, 3, {TOKENS, SLOTS, WIDTH}, record->outputs},
        {"mask", MT_SAFETENSORS_I32, 1, {TOKENS}, record->mask},
        {"sequence", MT_SAFETENSORS_I32, 1, {TOKENS}, record->sequence},
        {"router_weight", MT_SAFETENSORS_F32, 2, {EXPERTS, WIDTH}, record->router_weight},
        {"router_bias", MT_SAFETENSORS_F32, 1, {EXPERTS}, record->router_bias},
    };
    struct entry entries[MAX_ENTRIES] = {{0}};
    size_t count = 0;
    bool replaced = other == NULL;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (without != NULL && strcmp(whole[i].name, without) == 0) continue;
        bool this_one = other != NULL && strcmp(whole[i].name, other->name) == 0;
        entries[count++] = this_one ? *other : whole[i];
        replaced = replaced || this_one;
    }
    if (!replaced) entries[count] = *other;
    write_entries(place, name, entries);
}

// ------------------------------------------------------------------ answers

struct answer {
    struct mt_context ctx;
    struct mt_safetensors file;
};

static void open_answer(const struct workplace *place, const char *name, struct answer *answer)
{
    char path[128];
    mt_context_init(&answer->ctx, NULL);
    workplace_path(place, name, path, sizeof path);
    assert_int_equal(mt_safetensors_open(&answer->ctx, path, &answer->file), MT_OK);
}

static void close_answer(struct answer *answer)
{
    mt_safetensors_close(&answer->file);
    assert_int_equal(answer->ctx.live_bytes, 0);
}

/* The numbers of a tensor; checks type and shape. */
static void get(const struct answer *answer, const char *name, enum mt_safetensors_dtype dtype, int rank,
                const int64_t *dim, void *target)
{
    const struct mt_safetensors_tensor *info = mt_safetensors_find(&answer->file, name);
    if (info == NULL) fail_msg("the answer has no %s", name);
    assert_int_equal(info->dtype, dtype);
    assert_int_equal(info->rank, rank);
    for (int i = 0; i < rank; i++) assert_int_equal(info->dim[i], dim[i]);
    memcpy(target, info->data, info->bytes);
}

static double get_number(const struct answer *answer, const char *name)
{
    float number = 0.0f;
    get(answer, name, MT_SAFETENSORS_F32, 0, NULL, &number);
    return number;
}

static void assert_near(double found, double expected, double tolerance)
{
    if (fabs(found - expected) > tolerance * fmax(fabs(expected), 1e-3)) {
        fail_msg("%.9g, expected %.9g", found, expected);
    }
}

/* What the sample record's router does, in double. */
struct routed {
    double probs[TOKENS][EXPERTS];
    int32_t expert[TOKENS][SLOTS];
    double load[EXPERTS]; // of unmasked tokens
};

static struct routed route(const struct record *record)
{
    struct routed routed = {0};
    for (int i = 0; i < TOKENS; i++) {
        double sum = 0.0;
        for (int j = 0; j < EXPERTS; j++) sum += exp((double)record->logits[i][j]);
        for (int j = 0; j < EXPERTS; j++) routed.probs[i][j] = exp((double)record->logits[i][j]) / sum;
        int first = 0;
        for (int j = 1; j < EXPERTS; j++) first = routed.probs[i][j] > routed.probs[i][first] ? j : first;
        int second = first == 0 ? 1 : 0;
        for (int j = 0; j < EXPERTS; j++) {
            if (j != first && routed.probs[i][j] > routed.probs[i][second]) second = j;
        }
        routed.expert[i][0] = first;
        routed.expert[i][1] = second;
        if (record->mask[i] == 0) continue;
        routed.load[first] += 1.0;
        routed.load[second] += 1.0;
    }
    return routed;
}

#define COUNTED 5.0 // unmasked tokens of the sample record

static double aux_loss(const struct routed *routed)
{
    double loss = 0.0;
    for (int j = 0; j < EXPERTS; j++) {
        double mean = 0.0;
        for (int i = 0; i < (int)COUNTED; i++) mean += routed->probs[i][j] / COUNTED;
        loss += EXPERTS * routed->load[j] / (COUNTED * SLOTS) * mean;
    }
    return loss;
}

static double pairwise_loss(const struct record *record)
{
    double loss = 0.0;
    for (int i = 0; i < (int)COUNTED; i++) {
        double gram[SLOTS][SLOTS] = {{0}};
        for (int a = 0; a < SLOTS; a++) {
            for (int b = 0; b < SLOTS; b++) {
                for (int c = 0; c < WIDTH; c++) {
                    gram[a][b] += (double)record->outputs[i][a][c] * (double)record->outputs[i][b][c];
                }
            }
        }
        loss += gram[0][1] * gram[0][1] * (1.0 / gram[0][0] + 1.0 / gram[1][1]) / COUNTED;
    }
    return loss;
}

static double variance_loss(const struct routed *routed)
{
    double loss = 0.0;
    for (int j = 0; j < EXPERTS; j++) {
        double sum = 0.0;
        double squares = 0.0;
        for (int i = 0; i < (int)COUNTED; i++) {
            bool chosen = routed->expert[i][0] == j || routed->expert[i][1] == j;
            sum += chosen ? routed->probs[i][j] : 0.0;
            squares += chosen ? routed->probs[i][j] * routed->probs[i][j] : 0.0;
        }
        loss -= (squares / COUNTED - sum * sum / (COUNTED * COUNTED)) / EXPERTS;
    }
    return loss;
}

// ------------------------------------------------------------------ tests

static void paper_by_hand(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    struct routed routed = route(&record);
    struct answer answer;
    write_record(place, "in", &record, NULL, "router_bias");
    expect(place, "--record in --router softmax --top-k 2 --method paper --out out", 0, "written: out");
    open_answer(place, "out", &answer);
    assert_near(get_number(&answer, "loss.aux"), aux_loss(&routed), 1e-5);
    assert_near(get_number(&answer, "loss.o"), pairwise_loss(&record), 1e-5);
    assert_near(get_number(&answer, "loss.v"), variance_loss(&routed), 1e-5);
    // scale=once: every term starts at its coefficient times L_aux, and here all coefficients are 1e-3.
    assert_near(get_number(&answer, "scale.aux"), 1e-3, 1e-6);
    assert_near(get_number(&answer, "scale.o"), 1e-3 * aux_loss(&routed) / pairwise_loss(&record), 1e-5);
    assert_near(get_number(&answer, "total"),
                get_number(&answer, "scale.aux") * get_number(&answer, "loss.aux") +
                    get_number(&answer, "scale.o") * get_number(&answer, "loss.o") +
                    get_number(&answer, "scale.v") * get_number(&answer, "loss.v"),
                1e-5);
    int32_t expert[TOKENS][SLOTS];
    float weight[TOKENS][SLOTS];
    float doutputs[TOKENS][SLOTS][WIDTH];
    float dweight[EXPERTS][WIDTH];
    get(&answer, "experts", MT_SAFETENSORS_I32, 2, (int64_t[]){TOKENS, SLOTS}, expert);
    get(&answer, "weights", MT_SAFETENSORS_F32, 2, (int64_t[]){TOKENS, SLOTS}, weight);
    get(&answer, "grad.expert_outputs", MT_SAFETENSORS_F32, 3, (int64_t[]){TOKENS, SLOTS, WIDTH}, doutputs);
    get(&answer, "grad.router_weight", MT_SAFETENSORS_F32, 2, (int64_t[]){EXPERTS, WIDTH}, dweight);
    for (int i = 0; i < (int)COUNTED; i++) {
        for (int s = 0; s < SLOTS; s++) {
            assert_int_equal(expert[i][s], routed.expert[i][s]);
            assert_near((double)weight[i][s], routed.probs[i][expert[i][s]], 1e-5);
        }
    }
    for (int c = 0; c < WIDTH; c++) assert_true(doutputs[TOKENS - 1][0][c] == 0.0f); // the masked token
    for (int j = 0; j < EXPERTS; j++) assert_true(dweight[j][0] == 0.0f);            // no term on router rows
    assert_null(mt_safetensors_find(&answer.file, "loss.z"));
    assert_null(mt_safetensors_find(&answer.file, "router_bias"));
    close_answer(&answer);
}

static void gradient_by_hand(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    struct routed routed = route(&record);
    struct answer answer;
    float dlogits[TOKENS][EXPERTS];
    static const char *const devices[] = {"ref", "cpu --threads 1", "cpu --threads 2"};
    write_entries(place, "in",
                  (struct entry[]){{"logits", MT_SAFETENSORS_F32, 2, {TOKENS, EXPERTS}, record.logits},
                                   {"mask", MT_SAFETENSORS_I32, 1, {TOKENS}, record.mask},
                                   {0}});
    for (size_t device = 0; device < sizeof devices / sizeof devices[0]; device++) {
        char arguments[256];
        (void)snprintf(arguments, sizeof arguments,
                       "--record in --top-k 2 --method aux alpha=0.5 --out out --device %s", devices[device]);
        expect(place, arguments, 0, "written: out");
        open_answer(place, "out", &answer);
        get(&answer, "grad.logits", MT_SAFETENSORS_F32, 2, (int64_t[]){TOKENS, EXPERTS}, dlogits);
        for (int i = 0; i < TOKENS; i++) {
            double mean = 0.0;
            for (int m = 0; m < EXPERTS; m++) {
                mean += EXPERTS * routed.load[m] / (COUNTED * SLOTS) * routed.probs[i][m];
            }
            for (int j = 0; j < EXPERTS; j++) {
                double share = EXPERTS * routed.load[j] / (COUNTED * SLOTS);
                double expected = record.mask[i] * 0.5 * routed.probs[i][j] * (share - mean) / COUNTED;
                assert_true(fabs((double)dlogits[i][j] - expected) < 1e-6);
            }
        }
        assert_null(mt_safetensors_find(&answer.file, "grad.expert_outputs"));
        close_answer(&answer);
    }
}

/* The same mask and sequences, spelt in other types, give the same file, byte for byte. */
static void other_types(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    const unsigned char bytes[TOKENS] = {1, 1, 1, 1, 1, 0};
    const int64_t wide[TOKENS] = {9, 9, 9, -5, -5, 0};
    const int64_t ids[TOKENS] = {7, 7, 7, -3, -3, -3};
    const struct entry others[] = {
        {"mask", MT_SAFETENSORS_BOOL, 1, {TOKENS}, bytes},
        {"mask", MT_SAFETENSORS_U8, 1, {TOKENS}, bytes},
        {"mask", MT_SAFETENSORS_I64, 1, {TOKENS}, wide},
        {"sequence", MT_SAFETENSORS_I64, 1, {TOKENS}, ids},
    };
    static struct outcome outcome;
    write_record(place, "in", &record, NULL, NULL);
    expect(place, "--record in --top-k 2 --method paper-code --out first", 0, "written");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        write_record(place, "in", &record, &others[i], NULL);
        objective(place, &outcome,
                  "--record in --top-k 2 --method paper-code --out out 2> /dev/null && cmp first out");
        if (outcome.status != 0) fail_msg("%zu: %s", i, outcome.text);
    }
}

static void every_method(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    write_record(place, "in", &record, NULL, NULL);
    json_t *methods = expect_json(place, "--methods --json");
    assert_true(json_array_size(methods) >= 14);
    size_t index = 0;
    json_t *method = NULL;
    json_array_foreach(methods, index, method)
    {
        const char *name = json_string_value(json_object_get(method, "name"));
        char arguments[256];
        json_t *coefficients = json_object_get(method, "coefficients");
        if (json_object_get(coefficients, "erc") != NULL || json_object_get(coefficients, "sp") != NULL) {
            (void)snprintf(arguments, sizeof arguments, "--record in --top-k 2 --method %s --out out", name);
            expect(place, arguments, 2, "which a single layer does not have");
            continue;
        }
        (void)snprintf(arguments, sizeof arguments, "--record in --top-k 2 --method %s --json --out out",
                       name);
        json_t *answer = expect_json(place, arguments);
        json_t *terms = json_object_get(answer, "terms");
        assert_int_equal(json_object_size(terms), json_object_size(json_object_get(method, "coefficients")));
        double total = 0.0;
        const char *term = NULL;
        json_t *entry = NULL;
        json_object_foreach(terms, term, entry)
        {
            total += json_real_value(json_object_get(entry, "contribution"));
            assert_true(json_real_value(json_object_get(entry, "gradient_norm")) > 0.0);
        }
        assert_near(json_real_value(json_object_get(answer, "total")), total, 1e-12);
        json_t *load = json_object_get(answer, "load");
        assert_int_equal(json_array_size(json_object_get(load, "slots")), EXPERTS);
        assert_true(json_real_value(json_object_get(load, "entropy")) <= log(EXPERTS) + 1e-12);
        json_decref(answer);
    }
    json_decref(methods);
}

static void other_routers(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    write_record(place, "in", &record, NULL, "router_bias");
    expect(place, "--record in --top-k 2 --router sigmoid --normalise --routed-scale 2.5", 0,
           "router sigmoid");
    expect(place, "--record in --top-k 2 --router sparsemixer --jitter 0.1", 0, "router sparsemixer");
    expect(place, "--record in --top-k 2 --router sigmoid --groups 2 --groups-kept 1 --group-rule top2-sum",
           0, "total");
    expect(place, "--record in --top-k 2 --groups 2 --groups-kept 1 --group-rule max", 0, "total");
    struct answer answer;
    float weight[TOKENS][SLOTS];
    expect(place, "--record in --top-k 2 --normalise --normalise-epsilon 0 --routed-scale 3 --out out", 0,
           "");
    open_answer(place, "out", &answer);
    get(&answer, "weights", MT_SAFETENSORS_F32, 2, (int64_t[]){TOKENS, SLOTS}, weight);
    for (int i = 0; i < (int)COUNTED; i++) {
        assert_near((double)weight[i][0] + (double)weight[i][1], 3.0, 1e-6);
    }
    close_answer(&answer);
}

static void loss_free_bias(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    struct answer answer;
    float bias[EXPERTS];
    memset(record.router_bias, 0, sizeof record.router_bias);
    struct routed routed = route(&record);
    write_record(place, "in", &record, NULL, NULL);
    expect(place, "--record in --top-k 2 --method loss-free bias_rate=0.25 --out out", 0,
           "bias after this step");
    open_answer(place, "out", &answer);
    get(&answer, "router_bias", MT_SAFETENSORS_F32, 1, (int64_t[]){EXPERTS}, bias);
    for (int j = 0; j < EXPERTS; j++) {
        double error = COUNTED * SLOTS / EXPERTS - routed.load[j];
        assert_near((double)bias[j], error > 0.0 ? 0.25 : error < 0.0 ? -0.25 : 0.0, 1e-6);
    }
    close_answer(&answer);
}

static void notes_and_warnings(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    const struct entry one_slot = {
        "expert_outputs", MT_SAFETENSORS_F32, 3, {TOKENS, 1, WIDTH}, record.outputs};
    const struct entry misspelt = {"masks", MT_SAFETENSORS_I32, 1, {TOKENS}, record.mask};
    write_record(place, "one", &record, &one_slot, NULL);
    write_record(place, "misspelt", &record, &misspelt, "mask");
    write_record(place, "in", &record, NULL, NULL);
    write_record(place, "whole", &record, NULL, "sequence");
    expect(place, "--record one --top-k 1", 0, "warning: each token has one expert: L_o is 0");
    expect(place, "--record misspelt --top-k 2", 0, "not looked at in the record: masks");
    expect(place, "--record whole --top-k 2 --method paper-code", 0, "all tokens count as one sequence");
    expect(place, "--record in --top-k 2 --method none", 0, "every gradient is 0");
    expect(place, "--record in --top-k 2 --method st-moe", 0, "jitter acts on the router's input");
    expect(place, "--record in --top-k 2 --method metier", 0, "the brake acts on later steps");
    expect(place, "--record in --top-k 2 --method gshard capacity=0.5 capacity_min=1", 0,
           "slots are dropped");
    expect(place, "--record in --top-k 2 reduce=sum", 0, "warning: ");
    expect(place, "--record in --top-k 2 --method paper-code", 0, "warning: ");
    expect(place, "--record whole --top-k 2 c_o=10 alpha=0.01 --json", 0, "\"beta\": \"0.1\"");
    json_t *answer = expect_json(place, "--record in --top-k 2 reduce=sum --json");
    assert_int_equal(json_array_size(json_object_get(answer, "warnings")), 1);
    json_decref(answer);
}

static void bad_words(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    write_record(place, "in", &record, NULL, NULL);
    expect(place, "", 2, "--record FILE is missing");
    expect(place, "--record in", 2, "--top-k K is missing");
    expect(place, "--record in --top-k 0.5", 2, "whole number");
    expect(place, "--record in --top-k -1", 2, "--top-k must not be negative");
    expect(place, "--record in --top-k 65", 2, "--top-k is 65, expected 1 to 64");
    expect(place, "--record in --top-k 5", 2, "--top-k is 5, but logits has only 4 experts");
    expect(place, "--record in --top-k 2 --router soft", 2, "expected softmax, sigmoid or sparsemixer");
    expect(place, "--record in --top-k 2 --method papr", 2, "did you mean 'paper'?");
    expect(place, "--record in --top-k 2 betta=1", 2, "did you mean 'beta'?");
    expect(place, "--record in --top-k 2 beta", 2, "keys are set as key=value");
    expect(place, "--record in --top-k 2 =1", 2, "keys are set as key=value");
    expect(place, "--record in --top-k 2 beta=many", 2, "beta=many");
    expect(place, "--record in --top-k 2 form=round", 2, "pairwise|span|cosine");
    expect(place, "--record in --top-k 2 form=cosine gradient=paper", 2, "gradient");
    expect(place, "--record in --top-k 2 --normalise-epsilon 1", 2, "without --normalise");
    expect(place, "--record in --top-k 2 --normalise --normalise-epsilon nan", 2, "wants a number");
    expect(place, "--record in --top-k 2 --routed-scale 0", 2, "--routed-scale is 0");
    expect(place, "--record in --top-k 2 --jitter 0.1", 2, "needs --router sparsemixer");
    expect(place, "--record in --top-k 1 --router sparsemixer alpha=1", 2, "");
    expect(place, "--record in --top-k 2 --groups 2", 2, "go together");
    expect(place, "--record in --top-k 2 --groups 2 --groups-kept 3 --group-rule max", 2,
           "--groups-kept is 3");
    expect(place, "--record in --top-k 2 --groups 3 --groups-kept 1 --group-rule max", 2, "3 groups");
    expect(place, "--record in --top-k 2 --groups 2 --groups-kept 1 --group-rule min", 2, "max or top2-sum");
    expect(place, "--record in --top-k 2 --device gpu", 2, "expected ref or cpu");
    expect(place, "--record in --top-k 2 --threads 5000", 2, "expected 0 to 4096");
    expect(place, "--methods --keys", 2, "give one of them");
    expect(place, "--methods beta=1", 2, "unexpected argument");
    expect(place, "--record in --top-k 2 --out in", 2, "--out is the file of the record");
    expect(place, "--record in --top-k 2 --out nowhere/out", 1, "nowhere/out");
    expect(place, "--record in --top-k 2 --out .", 1, "");
    expect(place, "--record in --top-k 2 > /dev/full", 1, "");
    expect(place, "--record absent --top-k 2", 2, "absent: there is no such file");
    expect(place, "--record . --top-k 2", 1, ".");
}

static void bad_records(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    static const float zeros[256];
    static const int64_t huge[TOKENS] = {1, 2, 3, 4, 5, (int64_t)1 << 40};
    static const struct {
        struct entry entry;
        const char *said;
    } cases[] = {
        {{"logits", MT_SAFETENSORS_F16, 2, {TOKENS, EXPERTS}, zeros}, "logits is F16 [6, 4], expected F32"},
        {{"logits", MT_SAFETENSORS_F64, 2, {TOKENS, EXPERTS}, zeros}, "logits is F64 [6, 4], expected F32"},
        {{"logits", MT_SAFETENSORS_F32, 1, {TOKENS}, zeros}, "logits is F32 [6], expected F32 [N, n]"},
        {{"logits", MT_SAFETENSORS_F32, 2, {0, EXPERTS}, zeros}, "expected 1 to"},
        {{"logits", MT_SAFETENSORS_F32, 2, {TOKENS, 0}, zeros}, "expected 1 to"},
        {{"expert_outputs", MT_SAFETENSORS_BF16, 3, {TOKENS, SLOTS, WIDTH}, zeros}, "expected F32"},
        {{"expert_outputs", MT_SAFETENSORS_F32, 2, {TOKENS, SLOTS}, zeros}, "expected F32 [6, 2, d]"},
        {{"expert_outputs", MT_SAFETENSORS_F32, 3, {TOKENS, 3, WIDTH}, zeros}, "expected F32 [6, 2, d]"},
        {{"expert_outputs", MT_SAFETENSORS_F32, 3, {5, SLOTS, WIDTH}, zeros}, "expected F32 [6, 2, d]"},
        {{"expert_outputs", MT_SAFETENSORS_F32, 3, {TOKENS, SLOTS, 0}, zeros}, ""},
        {{"mask", MT_SAFETENSORS_F32, 1, {TOKENS}, zeros}, "mask is F32 [6], expected BOOL, U8, I32 or I64"},
        {{"mask", MT_SAFETENSORS_I32, 1, {5}, zeros}, "mask is I32 [5], expected [6]"},
        {{"mask", MT_SAFETENSORS_I32, 2, {2, 3}, zeros}, "mask is I32 [2, 3], expected [6]"},
        {{"mask", MT_SAFETENSORS_I32, 1, {TOKENS}, zeros}, "mask leaves out every token"},
        {{"sequence", MT_SAFETENSORS_U8, 1, {TOKENS}, zeros}, "sequence is U8 [6], expected I32 or I64"},
        {{"sequence", MT_SAFETENSORS_I32, 1, {7}, zeros}, "sequence is I32 [7], expected [6]"},
        {{"sequence", MT_SAFETENSORS_I64, 1, {TOKENS}, huge}, "1099511627776 (element 5)"},
        {{"router_weight", MT_SAFETENSORS_F32, 2, {WIDTH, EXPERTS}, zeros}, "expected F32 [4, d]"},
        {{"router_weight", MT_SAFETENSORS_F32, 2, {EXPERTS, 5}, zeros}, "the width of expert_outputs"},
        {{"router_bias", MT_SAFETENSORS_F32, 1, {3}, zeros}, "router_bias is F32 [3], expected F32 [4]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_record(place, "in", &record, &cases[i].entry, NULL);
        expect(place, "--record in --top-k 2 --out out", 2, cases[i].said);
    }
    write_record(place, "in", &record, NULL, "logits");
    expect(place, "--record in --top-k 2", 2, "there is no tensor logits");
    write_record(place, "in", &record, NULL, "expert_outputs");
    expect(place, "--record in --top-k 2", 2, "in: L_o needs the expert outputs");
    expect(place, "--record in --top-k 2 beta=0", 0, "total");
    write_record(place, "in", &record, NULL, "router_weight");
    expect(place, "--record in --top-k 2 --method ernie", 2, "router_weight");
    expect(place, "--record in --top-k 2 --method simbal", 2, "router_weight");
    expect(place, "--record in --top-k 2 --method paper-code", 2, "router_weight");
    assert_int_equal(workplace_write(place, "in", "not a safetensors file", 22), 0);
    expect(place, "--record in --top-k 2", 2, "in: ");
}

static void numbers_that_are_none(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    record.logits[2][3] = NAN;
    write_record(place, "in", &record, NULL, NULL);
    expect(place, "--record in --top-k 2", 2, "logits[2, 3] is nan; every number must be finite");
    record = sample_record();
    record.outputs[5][1][2] = -INFINITY;
    write_record(place, "in", &record, NULL, NULL);
    expect(place, "--record in --top-k 2", 2, "expert_outputs[5, 1, 2] is -inf");
    record = sample_record();
    record.router_bias[1] = INFINITY;
    write_record(place, "in", &record, NULL, NULL);
    expect(place, "--record in --top-k 2", 2, "router_bias[1] is inf");
}

/* A failure leaves an older answer as it was, and nothing beside it. */
static void nothing_half_written(void **state)
{
    const struct workplace *place = *state;
    struct record record = sample_record();
    static struct outcome outcome;
    write_record(place, "in", &record, NULL, NULL);
    assert_int_equal(workplace_write(place, "out", "old", 3), 0);
    record.logits[0][0] = NAN;
    write_record(place, "broken", &record, NULL, NULL);
    expect(place, "--record broken --top-k 2 --out out", 2, "nan");
    objective(place, &outcome, "--help > /dev/null && cat out");
    assert_string_equal(outcome.text, "old");
    assert_int_equal(workplace_entries(place), 3);
    expect(place, "--record in --top-k 2 --out out", 0, "written");
    assert_int_equal(workplace_entries(place), 3);
}

/* Whether RLIMIT_AS binds: the user-mode emulator of other processors takes the limit and does not keep it.
 */
static bool memory_limit_binds(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit limit = {.rlim_cur = 600000 * 1024UL, .rlim_max = 600000 * 1024UL};
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
        void *more = mmap(NULL, 1UL << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _exit(more == MAP_FAILED ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status == 0;
}

/* More memory than allowed: a sentence and status 1. Skipped where limits do not bind, and where the program
 * needs more than that anyway.
 */
static void too_little_memory(void **state)
{
    const struct workplace *place = *state;
    static struct outcome outcome;
    char path[128];
    const int64_t tokens = 4096;
    const int64_t experts = 16384; // 256 MB of logits, mapped; as much again for their gradient
    const uint64_t bytes = (uint64_t)(tokens * experts) * sizeof(float);
    char header[256] = "";
    int length = snprintf(header + 8, sizeof header - 8,
                          "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],\"data_offsets\":[0,%llu]}}",
                          (long long)tokens, (long long)experts, (unsigned long long)bytes);
    header[0] = (char)length;
    FILE *file = fopen(workplace_path(place, "in", path, sizeof path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, 1, (size_t)length + 8, file), (size_t)length + 8);
    assert_int_equal(fseek(file, (long)bytes - 1, SEEK_CUR), 0);
    assert_int_equal(fputc(0, file), 0);
    assert_int_equal(fclose(file), 0);
    if (!memory_limit_binds()) skip();
    objective(place, &outcome, "--help > /dev/null; ulimit -v 600000 && $METIER_PROGRAM devices --threads 1");
    if (outcome.status != 0) skip();
    objective(place, &outcome,
              "--help > /dev/null; ulimit -v 600000 && "
              "$METIER_PROGRAM objective --record in --top-k 2 --method aux --threads 1");
    if (outcome.status != 1 || strstr(outcome.text, "cannot allocate") == NULL) {
        fail_msg("exit %d: %s", outcome.status, outcome.text);
    }
}

static void help_and_lists(void **state)
{
    const struct workplace *place = *state;
    expect(place, "--help", 0, "usage: metier objective --record IN");
    expect(place, "--help", 0, "F32 of rank 0");
    expect(place, "--methods", 0, "method");
    expect(place, "--methods", 0, "paper-code");
    expect(place, "--keys", 0, "form");
    json_t *keys = expect_json(place, "--keys --json");
    assert_true(json_array_size(keys) > 20);
    json_decref(keys);
}

int main(void)
{
    program = getenv("METIER_PROGRAM");
    if (program == NULL) {
        (void)printf("skipped: METIER_PROGRAM does not name the program\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(paper_by_hand, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(gradient_by_hand, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(other_types, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(every_method, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(other_routers, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(loss_free_bias, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(notes_and_warnings, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(bad_words, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(bad_records, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(numbers_that_are_none, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(nothing_half_written, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(too_little_memory, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(help_and_lists, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
