/*
 * Replicas of broken adapters, for adapter_check.sh and probe.sh:
 *
 *     adapter_faults FAULT FROM TO EXPERTS    FROM, TO: adapter_model.safetensors; EXPERTS of a layer
 *
 *     expert-order    Unsloth until September 2026: columns of a stack's B expert by expert
 *     peft-0.18       in and out of stacks exchanged: lora_A is Bᵀ, lora_B is Aᵀ, each in its own order
 *     shards          one rank's eighth of the rows of every lora_B, the rest zero
 *     ranks           one rank's eighth of the experts: zero in the other lora_B
 *     exchanged       each expert has the pairs of the one before it
 *     zero            every lora_B zero, as before the first step
 *     nan, huge       one NaN in the first lora_B; all of lora_B a thousand times as large
 *     half            without the first lora_B
 *     renamed         "language_model." in front of the modules
 *     unknown         "model.layers." is "model.blocks."
 *     stray           one tensor more
 *     narrow          the first lora_A without its last column
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "formats/safetensors/safetensors_writer.h"

#define MOST          4096
#define NAME_BYTES    256
#define LARGEST_BYTES (1 << 20) // of a tensor

struct replica {
    const char *fault;
    int64_t experts;
    struct mt_safetensors file;
    struct mt_safetensors_spec spec[MOST];
    char name[MOST][NAME_BYTES];
    float *values[MOST]; // f32, each owned
    size_t count;
};

static bool is_fault(const struct replica *replica, const char *fault)
{
    return strcmp(replica->fault, fault) == 0;
}

static int64_t count_of(const struct mt_safetensors_spec *spec)
{
    return spec->dim[0] * spec->dim[1];
}

static bool is_b(const char *name)
{
    return strstr(name, ".lora_B.") != NULL;
}

static bool is_stack(const char *name)
{
    return strstr(name, ".experts.lora_") != NULL || strstr(name, ".experts.base_layer.lora_") != NULL;
}

static bool is_expert(const char *name)
{
    return strstr(name, ".experts.") != NULL && !is_stack(name);
}

/* Column k·n + e becomes column e·R + k. */
static void by_expert(const struct mt_safetensors_spec *spec, int64_t experts, const float *from, float *to)
{
    int64_t rank = spec->dim[1] / experts;
    for (int64_t o = 0; o < spec->dim[0]; o++) {
        for (int64_t c = 0; c < spec->dim[1]; c++) {
            int64_t target = c % experts * rank + c / experts;
            to[o * spec->dim[1] + target] = from[o * spec->dim[1] + c];
        }
    }
}

/* The other matrix's transpose, with its ranks in this one's order: rows e·R + k, columns k·n + e. */
static void exchange(const struct replica *replica, size_t i, size_t other, float *to)
{
    const struct mt_safetensors_spec *from = &replica->spec[other];
    bool to_b = is_b(replica->name[i]);
    int64_t ranks = to_b ? from->dim[0] : from->dim[1];
    int64_t width = to_b ? from->dim[1] : from->dim[0];
    int64_t rank = ranks / replica->experts;
    const float *values = replica->file.tensors[other].data;
    for (int64_t e = 0; e < replica->experts; e++) {
        for (int64_t k = 0; k < rank; k++) {
            int64_t row = e * rank + k;
            int64_t column = k * replica->experts + e;
            for (int64_t x = 0; x < width; x++) {
                if (to_b)
                    to[x * ranks + column] = values[row * width + x];
                else
                    to[row * width + x] = values[x * ranks + column];
            }
        }
    }
}

static size_t other_half(const struct replica *replica, size_t i)
{
    char name[NAME_BYTES];
    (void)snprintf(name, sizeof name, "%s", replica->name[i]);
    char *letter = strstr(name, ".lora_") + strlen(".lora_");
    *letter = *letter == 'A' ? 'B' : 'A';
    for (size_t k = 0; k < replica->file.tensor_count; k++) {
        if (strcmp(replica->file.tensors[k].name, name) == 0) return k;
    }
    abort();
}

/* What the numbers of one tensor become. */
static void change_values(struct replica *replica, size_t i, bool first)
{
    const struct mt_safetensors_spec *spec = &replica->spec[i];
    const float *from = replica->file.tensors[i].data;
    const char *name = replica->name[i];
    float *to = replica->values[i];
    if (is_fault(replica, "expert-order") && is_b(name) && is_stack(name))
        by_expert(spec, replica->experts, from, to);
    if (is_fault(replica, "peft-0.18") && is_stack(name)) exchange(replica, i, other_half(replica, i), to);
    if (!is_b(name)) return;
    if (is_fault(replica, "nan") && first) to[1] = NAN;
    for (int64_t x = 0; x < count_of(spec); x++) {
        int64_t row = x / spec->dim[1];
        int64_t column = x % spec->dim[1];
        if (is_fault(replica, "zero")) to[x] = 0.0f;
        if (is_fault(replica, "huge")) to[x] *= 1000.0f;
        if (is_fault(replica, "shards") && row >= (spec->dim[0] + 7) / 8) to[x] = 0.0f;
        if (is_fault(replica, "ranks") && is_stack(name) &&
            column % replica->experts >= (replica->experts + 7) / 8)
            to[x] = 0.0f;
        if (is_fault(replica, "ranks") && is_expert(name) &&
            strtol(strstr(name, ".experts.") + 9, NULL, 10) > 0)
            to[x] = 0.0f;
    }
}

/* "experts.3." becomes "experts.4.", the last one the first. */
static void exchange_name(const struct replica *replica, char *name)
{
    char rest[NAME_BYTES];
    char *number = strstr(name, ".experts.") + strlen(".experts.");
    char *end = NULL;
    long expert = strtol(number, &end, 10);
    (void)snprintf(rest, sizeof rest, "%s", end);
    (void)snprintf(number, NAME_BYTES - (size_t)(number - name), "%ld%s",
                   (expert + 1) % (long)replica->experts, rest);
}

static void change_name(const struct replica *replica, char *name)
{
    char rest[NAME_BYTES];
    if (is_fault(replica, "exchanged") && is_expert(name)) exchange_name(replica, name);
    char *layers = strstr(name, "model.layers.");
    if (layers == NULL) return;
    (void)snprintf(rest, sizeof rest, "%s", layers);
    if (is_fault(replica, "renamed"))
        (void)snprintf(layers, NAME_BYTES - (size_t)(layers - name), "model.language_model.%s",
                       rest + strlen("model."));
    if (is_fault(replica, "unknown"))
        (void)snprintf(layers, NAME_BYTES - (size_t)(layers - name), "model.blocks.%s",
                       rest + strlen("model.layers."));
}

static void add_tensor(struct replica *replica, size_t i)
{
    const struct mt_safetensors_tensor *stored = &replica->file.tensors[i];
    struct mt_safetensors_spec *spec = &replica->spec[i];
    (void)snprintf(replica->name[i], NAME_BYTES, "%s", stored->name);
    *spec = (struct mt_safetensors_spec){.dtype = stored->dtype, .rank = stored->rank};
    memcpy(spec->dim, stored->dim, sizeof spec->dim);
    if (stored->dtype != MT_SAFETENSORS_F32 || stored->rank != 2) abort();
    replica->values[i] = malloc(LARGEST_BYTES);
    if (replica->values[i] == NULL || stored->bytes > LARGEST_BYTES) abort();
    memcpy(replica->values[i], stored->data, stored->bytes);
}

static void make(struct replica *replica)
{
    bool first = true;
    replica->count = replica->file.tensor_count;
    if (replica->count + 1 > MOST) abort();
    for (size_t i = 0; i < replica->count; i++) add_tensor(replica, i);
    for (size_t i = 0; i < replica->count; i++) {
        change_values(replica, i, first);
        if (is_b(replica->name[i])) first = false;
    }
    for (size_t i = 0; i < replica->count; i++) {
        if (is_fault(replica, "peft-0.18") && is_stack(replica->name[i])) {
            const struct mt_safetensors_tensor *other = &replica->file.tensors[other_half(replica, i)];
            replica->spec[i].dim[0] = other->dim[1];
            replica->spec[i].dim[1] = other->dim[0];
        }
    }
    for (size_t i = 0; i < replica->count; i++) change_name(replica, replica->name[i]);
    if (is_fault(replica, "narrow")) replica->spec[0].dim[1]--;
    if (is_fault(replica, "stray")) {
        size_t more = replica->count++;
        (void)snprintf(replica->name[more], NAME_BYTES, "base_model.model.score.modules_to_save.weight");
        replica->spec[more] = replica->spec[0];
        replica->values[more] = calloc((size_t)count_of(&replica->spec[0]), sizeof(float));
        if (replica->values[more] == NULL) abort();
    }
    for (size_t i = 0; i < replica->count; i++) replica->spec[i].name = replica->name[i];
}

int main(int argc, char **argv)
{
    static struct replica replica;
    struct mt_context ctx;
    struct mt_safetensors_writer writer;
    mt_context_init(&ctx, NULL);
    if (argc != 5) return 2;
    replica.fault = argv[1];
    replica.experts = (int)strtol(argv[4], NULL, 10);
    enum mt_status status = mt_safetensors_open(&ctx, argv[2], &replica.file);
    if (status == MT_OK) make(&replica);
    size_t first = is_fault(&replica, "half") ? 1 : 0;
    if (first == 1 && !is_b(replica.name[1])) return 2; // sorted: the first A, then its B
    if (first == 1) {                                   // the A takes its place
        free(replica.values[1]);
        replica.values[1] = replica.values[0];
        replica.spec[1] = replica.spec[0];
    }
    if (status == MT_OK)
        status = mt_safetensors_writer_open(&ctx, argv[3], replica.spec + first, replica.count - first, NULL,
                                            0, &writer);
    for (size_t i = first; i < replica.count && status == MT_OK; i++)
        status = mt_safetensors_writer_write(&writer, replica.values[i],
                                             (size_t)count_of(&replica.spec[i]) * sizeof(float));
    if (status == MT_OK) status = mt_safetensors_writer_finish(&writer);
    if (status != MT_OK) (void)fprintf(stderr, "adapter_faults: %s\n", ctx.message);
    for (size_t i = first; i < replica.count; i++) free(replica.values[i]);
    mt_safetensors_close(&replica.file);
    return status == MT_OK ? 0 : 1;
}
