/*
 * For safetensors_parity.py: reads with our reader and writes with our writer, so that the reference
 * library can be put on either side.
 *   safetensors_tool check FILE...            prints "ok COUNT" or "refused MESSAGE" for each file
 *   safetensors_tool copy FILE FILE           one file, all tensors and metadata, in the order of the data
 *   safetensors_tool shard FILE DIR BYTES     a sharded checkpoint
 *   safetensors_tool join DIR FILE            and back
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors/checkpoint.h"
#include "formats/safetensors/checkpoint_writer.h"

#define PIECE 1000 // bytes at a time: writing in pieces is part of what is compared

static int compare_places(const void *left, const void *right)
{
    const struct mt_safetensors_tensor *a = *(const struct mt_safetensors_tensor *const *)left;
    const struct mt_safetensors_tensor *b = *(const struct mt_safetensors_tensor *const *)right;
    if (a->data != b->data) return (const char *)a->data < (const char *)b->data ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The tensors of a checkpoint in the order of their data, and the specs to write them again. */
struct listing {
    const struct mt_safetensors_tensor **tensors;
    struct mt_safetensors_spec *specs;
    size_t count;
};

static struct listing list_tensors(const struct mt_safetensors *files, size_t file_count)
{
    struct listing listing = {0};
    for (size_t f = 0; f < file_count; f++) listing.count += files[f].tensor_count;
    listing.tensors = calloc(listing.count + 1, sizeof(void *));
    listing.specs = calloc(listing.count + 1, sizeof *listing.specs);
    if (listing.tensors == NULL || listing.specs == NULL) exit(1);
    size_t used = 0;
    for (size_t f = 0; f < file_count; f++) {
        size_t first = used;
        for (size_t i = 0; i < files[f].tensor_count; i++) listing.tensors[used++] = &files[f].tensors[i];
        qsort((void *)(listing.tensors + first), used - first, sizeof(void *), compare_places);
    }
    for (size_t i = 0; i < listing.count; i++) {
        const struct mt_safetensors_tensor *tensor = listing.tensors[i];
        listing.specs[i] =
            (struct mt_safetensors_spec){.name = tensor->name, .dtype = tensor->dtype, .rank = tensor->rank};
        memcpy(listing.specs[i].dim, tensor->dim, sizeof tensor->dim);
    }
    return listing;
}

static void free_listing(struct listing *listing)
{
    free((void *)listing->tensors);
    free(listing->specs);
}

static enum mt_status write_file(struct mt_context *ctx, const struct listing *listing,
                                 const struct mt_safetensors_metadata *metadata, size_t metadata_count,
                                 const char *path)
{
    struct mt_safetensors_writer writer;
    enum mt_status status = mt_safetensors_writer_open(ctx, path, listing->specs, listing->count, metadata,
                                                       metadata_count, &writer);
    for (size_t i = 0; i < listing->count && status == MT_OK; i++) {
        const char *data = listing->tensors[i]->data;
        uint64_t left = listing->tensors[i]->bytes;
        while (left > 0 && status == MT_OK) {
            size_t piece = left < PIECE ? (size_t)left : PIECE;
            status = mt_safetensors_writer_write(&writer, data, piece);
            data += piece;
            left -= piece;
        }
    }
    return status == MT_OK ? mt_safetensors_writer_finish(&writer) : status;
}

static enum mt_status write_shards(struct mt_context *ctx, const struct listing *listing,
                                   const char *directory, uint64_t shard_bytes)
{
    struct mt_checkpoint_writer writer;
    enum mt_status status =
        mt_checkpoint_writer_open(ctx, directory, listing->specs, listing->count, shard_bytes, &writer);
    for (size_t i = 0; i < listing->count && status == MT_OK; i++) {
        status = mt_checkpoint_writer_write(&writer, listing->tensors[i]->data,
                                            (size_t)listing->tensors[i]->bytes);
    }
    return status == MT_OK ? mt_checkpoint_writer_finish(&writer) : status;
}

static enum mt_status from_file(struct mt_context *ctx, int argc, char **argv)
{
    struct mt_safetensors file;
    enum mt_status status = mt_safetensors_open(ctx, argv[2], &file);
    if (status != MT_OK) return status;
    struct listing listing = list_tensors(&file, 1);
    if (argc == 5) {
        status = write_shards(ctx, &listing, argv[3], strtoull(argv[4], NULL, 10));
    } else {
        status = write_file(ctx, &listing, file.metadata, file.metadata_count, argv[3]);
    }
    free_listing(&listing);
    mt_safetensors_close(&file);
    return status;
}

static enum mt_status from_directory(struct mt_context *ctx, char **argv)
{
    struct mt_checkpoint checkpoint;
    enum mt_status status = mt_checkpoint_open(ctx, argv[2], &checkpoint);
    if (status != MT_OK) return status;
    struct listing listing = list_tensors(checkpoint.shards, checkpoint.shard_count);
    status = write_file(ctx, &listing, NULL, 0, argv[3]);
    free_listing(&listing);
    mt_checkpoint_close(&checkpoint);
    return status;
}

static void check_files(struct mt_context *ctx, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        struct mt_safetensors file;
        if (mt_safetensors_open(ctx, argv[i], &file) == MT_OK) {
            printf("ok %zu\n", file.tensor_count);
            mt_safetensors_close(&file);
        } else {
            printf("refused %s\n", ctx->message);
        }
    }
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    enum mt_status status = MT_ERR_USAGE;
    if (argc >= 3 && strcmp(argv[1], "check") == 0) {
        check_files(&ctx, argc, argv);
        return 0;
    }
    if ((argc == 4 && strcmp(argv[1], "copy") == 0) || (argc == 5 && strcmp(argv[1], "shard") == 0)) {
        status = from_file(&ctx, argc, argv);
    } else if (argc == 4 && strcmp(argv[1], "join") == 0) {
        status = from_directory(&ctx, argv);
    }
    if (status != MT_OK) (void)fprintf(stderr, "safetensors_tool: %s\n", ctx.message);
    return status == MT_OK ? 0 : 1;
}
