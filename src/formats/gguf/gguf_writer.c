/*
 * GGUF writer:
 *
 *     "GGUF", u32 version, u64 tensors, u64 keys
 *     of each key:    text name, u32 type, value
 *     of each tensor: text name, u32 rank, u64 dim[rank], u32 type, u64 offset from the beginning of the data
 *     the data, every tensor at a multiple of 32
 *
 * A text is its length as u64, then its bytes. All numbers are little-endian.
 */
#include "formats/gguf/gguf_writer.h"

#include <string.h>

#include "formats/text/lists.h"

#define VERSION   3
#define ALIGNMENT 32 // what a file without the key general.alignment has

// Types of values and of tensors, as the format numbers them.
enum { VALUE_F32 = 6, VALUE_TEXT = 8, TENSOR_F32 = 0 };

size_t mt_gguf_count(const struct mt_gguf_spec *spec)
{
    size_t count = 1;
    for (int i = 0; i < spec->rank; i++) count *= (size_t)spec->dim[i];
    return count;
}

static size_t padding(size_t bytes)
{
    return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
}

// ------------------------------------------------------------------ the header

static enum mt_status append_number(struct mt_byte_list *header, uint64_t number, int bytes)
{
    uint8_t little[8];
    for (int i = 0; i < bytes; i++) little[i] = (uint8_t)(number >> (8 * i));
    return mt_byte_list_append(header, little, (size_t)bytes);
}

static enum mt_status append_text(struct mt_byte_list *header, const char *text)
{
    enum mt_status status = append_number(header, strlen(text), 8);
    return status == MT_OK ? mt_byte_list_append_text(header, text) : status;
}

static enum mt_status append_key(struct mt_byte_list *header, const struct mt_gguf_key *key)
{
    uint32_t bits = 0;
    memcpy(&bits, &key->number, sizeof bits);
    enum mt_status status = append_text(header, key->name);
    if (status == MT_OK) status = append_number(header, key->text != NULL ? VALUE_TEXT : VALUE_F32, 4);
    if (status != MT_OK) return status;
    return key->text != NULL ? append_text(header, key->text) : append_number(header, bits, 4);
}

static enum mt_status append_tensor(struct mt_byte_list *header, const struct mt_gguf_spec *spec,
                                    uint64_t offset)
{
    if (strlen(spec->name) > MT_GGUF_MAX_NAME)
        return mt_fail(header->ctx, MT_ERR_UNSUPPORTED, "%s: llama.cpp reads names of at most %d bytes",
                       spec->name, MT_GGUF_MAX_NAME);
    enum mt_status status = append_text(header, spec->name);
    if (status == MT_OK) status = append_number(header, (uint64_t)spec->rank, 4);
    for (int i = 0; i < spec->rank && status == MT_OK; i++)
        status = append_number(header, (uint64_t)spec->dim[i], 8);
    if (status == MT_OK) status = append_number(header, TENSOR_F32, 4);
    return status == MT_OK ? append_number(header, offset, 8) : status;
}

static enum mt_status make_header(const struct mt_gguf_key *keys, size_t key_count,
                                  const struct mt_gguf_spec *specs, size_t spec_count,
                                  struct mt_byte_list *header)
{
    static const uint8_t zeros[ALIGNMENT] = {0};
    uint64_t offset = 0;
    enum mt_status status = mt_byte_list_append_text(header, "GGUF");
    if (status == MT_OK) status = append_number(header, VERSION, 4);
    if (status == MT_OK) status = append_number(header, spec_count, 8);
    if (status == MT_OK) status = append_number(header, key_count, 8);
    for (size_t i = 0; i < key_count && status == MT_OK; i++) status = append_key(header, &keys[i]);
    for (size_t i = 0; i < spec_count && status == MT_OK; i++) {
        size_t bytes = mt_gguf_count(&specs[i]) * sizeof(float);
        status = append_tensor(header, &specs[i], offset);
        offset += bytes + padding(bytes);
    }
    return status == MT_OK ? mt_byte_list_append(header, zeros, padding(header->count)) : status;
}

// ------------------------------------------------------------------ the file

enum mt_status mt_gguf_writer_open(struct mt_context *ctx, const char *path, const struct mt_gguf_key *keys,
                                   size_t key_count, const struct mt_gguf_spec *specs, size_t spec_count,
                                   struct mt_gguf_writer *writer)
{
    struct mt_byte_list header = {.ctx = ctx};
    *writer = (struct mt_gguf_writer){.ctx = ctx, .path = path, .specs = specs, .spec_count = spec_count};
    enum mt_status status = make_header(keys, key_count, specs, spec_count, &header);
    if (status == MT_OK) status = mt_file_writer_open(ctx, path, &writer->out);
    if (status == MT_OK) status = mt_file_writer_write(&writer->out, header.data, header.count);
    mt_byte_list_free(&header);
    return status;
}

enum mt_status mt_gguf_writer_write(struct mt_gguf_writer *writer, const float *values, size_t count)
{
    static const uint8_t zeros[ALIGNMENT] = {0};
    size_t whole = writer->current < writer->spec_count ? mt_gguf_count(&writer->specs[writer->current]) : 0;
    if (count > whole - writer->done) {
        mt_gguf_writer_abandon(writer);
        return mt_fail(writer->ctx, MT_ERR_INTERNAL, "%s: more numbers than tensor %zu holds", writer->path,
                       writer->current);
    }
    enum mt_status status = mt_file_writer_write(&writer->out, values, count * sizeof *values);
    writer->done += count;
    if (status != MT_OK || writer->done < whole) return status;
    writer->current++;
    writer->done = 0;
    return mt_file_writer_write(&writer->out, zeros, padding(whole * sizeof *values));
}

enum mt_status mt_gguf_writer_finish(struct mt_gguf_writer *writer)
{
    if (writer->current < writer->spec_count) {
        mt_gguf_writer_abandon(writer);
        return mt_fail(writer->ctx, MT_ERR_INTERNAL, "%s: tensor %zu is not complete", writer->path,
                       writer->current);
    }
    return mt_file_writer_commit(&writer->out);
}

void mt_gguf_writer_abandon(struct mt_gguf_writer *writer)
{
    mt_file_writer_abandon(&writer->out);
}
