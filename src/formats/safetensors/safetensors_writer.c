/* safetensors writer: header first, then exactly the bytes the header announced. */
#include "formats/safetensors/safetensors_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "formats/text/json_text.h"
#include "formats/text/printable.h"

#define LENGTH_BYTES 8
#define HEADER_ALIGN 8 // the data begins at a multiple of this, as the reference writes it

// ------------------------------------------------------------------ the declared tensors

enum mt_status mt_safetensors_check_names(struct mt_context *ctx, const char *path,
                                          const struct mt_safetensors_spec *specs, size_t spec_count)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(ctx, spec_count, sizeof(const char *), &memory);
    if (status != MT_OK) return status;
    const char **names = memory;
    for (size_t i = 0; i < spec_count; i++) names[i] = specs[i].name;
    if (spec_count > 0) qsort((void *)names, spec_count, sizeof *names, mt_by_text);
    for (size_t i = 0; i < spec_count && status == MT_OK; i++) {
        if (strcmp(names[i], "__metadata__") == 0) {
            status = mt_fail(ctx, MT_ERR_USAGE, "%s: a tensor cannot be called __metadata__", path);
        } else if (i > 0 && strcmp(names[i], names[i - 1]) == 0) {
            status = mt_fail(ctx, MT_ERR_USAGE, "%s: two tensors are called %s", path,
                             mt_printable(names[i]).text);
        }
    }
    mt_release(ctx, memory, spec_count * sizeof(const char *));
    return status;
}

// ------------------------------------------------------------------ the header

static enum mt_status append_metadata(struct mt_json_text *header,
                                      const struct mt_safetensors_metadata *metadata, size_t count)
{
    enum mt_status status = mt_json_text_format(header, "\"__metadata__\":{");
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        if (i > 0) status = mt_json_text_format(header, ",");
        if (status == MT_OK) status = mt_json_text_string(header, metadata[i].key);
        if (status == MT_OK) status = mt_json_text_format(header, ":");
        if (status == MT_OK) status = mt_json_text_string(header, metadata[i].value);
    }
    if (status == MT_OK) status = mt_json_text_format(header, "}");
    return status;
}

static enum mt_status append_tensor(struct mt_json_text *header, const struct mt_safetensors_spec *spec,
                                    uint64_t begin, uint64_t end)
{
    enum mt_status status = mt_json_text_string(header, spec->name);
    if (status == MT_OK) {
        status = mt_json_text_format(header, ":{\"dtype\":\"%s\",\"shape\":[",
                                     mt_safetensors_dtype_name(spec->dtype));
    }
    for (int i = 0; i < spec->rank && status == MT_OK; i++) {
        status = mt_json_text_format(header, "%s%" PRId64, i > 0 ? "," : "", spec->dim[i]);
    }
    if (status == MT_OK) {
        status = mt_json_text_format(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
    }
    return status;
}

static enum mt_status make_header(const struct mt_safetensors_writer *writer,
                                  const struct mt_safetensors_metadata *metadata, size_t metadata_count,
                                  struct mt_json_text *header)
{
    enum mt_status status = mt_json_text_format(header, "{");
    if (status == MT_OK && metadata_count > 0) status = append_metadata(header, metadata, metadata_count);
    uint64_t begin = 0;
    for (size_t i = 0; i < writer->spec_count && status == MT_OK; i++) {
        const struct mt_safetensors_spec *spec = &writer->specs[i];
        uint64_t bytes = 0;
        status = mt_safetensors_size(writer->ctx, writer->path, spec->name, spec->dtype, spec->rank,
                                     spec->dim, &bytes);
        if (status == MT_OK && bytes > (uint64_t)INT64_MAX - begin) {
            status = mt_fail(writer->ctx, MT_ERR_USAGE, "%s: the tensors together are too large to address",
                             writer->path);
        }
        if (status == MT_OK && (i > 0 || metadata_count > 0)) status = mt_json_text_format(header, ",");
        if (status == MT_OK) status = append_tensor(header, spec, begin, begin + bytes);
        begin += bytes;
    }
    if (status == MT_OK) status = mt_json_text_format(header, "}");
    while (status == MT_OK && header->length % HEADER_ALIGN != 0) status = mt_json_text_format(header, " ");
    if (status == MT_OK && header->length > MT_SAFETENSORS_HEADER_BYTES) {
        status = mt_fail(writer->ctx, MT_ERR_USAGE, "%s: the header needs %zu bytes, the limit is %d",
                         writer->path, header->length, MT_SAFETENSORS_HEADER_BYTES);
    }
    return status;
}

static enum mt_status write_header(struct mt_safetensors_writer *writer,
                                   const struct mt_safetensors_metadata *metadata, size_t metadata_count)
{
    struct mt_json_text header;
    mt_json_text_init(&header, writer->ctx);
    enum mt_status status = make_header(writer, metadata, metadata_count, &header);
    if (status == MT_OK) {
        unsigned char length[LENGTH_BYTES];
        for (int i = 0; i < LENGTH_BYTES; i++)
            length[i] = (unsigned char)((uint64_t)header.length >> (8 * i));
        status = mt_file_writer_write(&writer->out, length, sizeof length);
    }
    if (status == MT_OK) status = mt_file_writer_write(&writer->out, header.bytes, header.length);
    mt_json_text_free(&header);
    return status;
}

// ------------------------------------------------------------------ the data

/* Moves to tensor `index`, and past those without data. */
static void move_to(struct mt_safetensors_writer *writer, size_t index)
{
    writer->current = index;
    writer->current_done = 0;
    writer->current_bytes = 0;
    while (writer->current < writer->spec_count && writer->current_bytes == 0) {
        const struct mt_safetensors_spec *spec = &writer->specs[writer->current];
        // Cannot fail: the same sizes were computed for the header.
        (void)mt_safetensors_size(writer->ctx, writer->path, spec->name, spec->dtype, spec->rank, spec->dim,
                                  &writer->current_bytes);
        if (writer->current_bytes == 0) writer->current++;
    }
}

enum mt_status mt_safetensors_writer_open(struct mt_context *ctx, const char *path,
                                          const struct mt_safetensors_spec *specs, size_t spec_count,
                                          const struct mt_safetensors_metadata *metadata,
                                          size_t metadata_count, struct mt_safetensors_writer *writer)
{
    return mt_safetensors_writer_open_digest(ctx, path, specs, spec_count, metadata, metadata_count, NULL,
                                             writer);
}

enum mt_status mt_safetensors_writer_open_digest(struct mt_context *ctx, const char *path,
                                                 const struct mt_safetensors_spec *specs, size_t spec_count,
                                                 const struct mt_safetensors_metadata *metadata,
                                                 size_t metadata_count, struct mt_digest *digest,
                                                 struct mt_safetensors_writer *writer)
{
    *writer =
        (struct mt_safetensors_writer){.ctx = ctx, .path = path, .specs = specs, .spec_count = spec_count};
    enum mt_status status = mt_safetensors_check_names(ctx, path, specs, spec_count);
    if (status == MT_OK) status = mt_file_writer_open(ctx, path, &writer->out);
    if (status != MT_OK) return status;
    writer->open = true;
    writer->out.digest = digest;
    status = write_header(writer, metadata, metadata_count);
    if (status != MT_OK) {
        mt_safetensors_writer_abandon(writer);
        return status;
    }
    move_to(writer, 0);
    return MT_OK;
}

enum mt_status mt_safetensors_writer_write(struct mt_safetensors_writer *writer, const void *data,
                                           size_t bytes)
{
    if (!writer->open) return mt_fail(writer->ctx, MT_ERR_USAGE, "%s: is not open for writing", writer->path);
    if (bytes == 0) return MT_OK;
    enum mt_status status = MT_OK;
    if (writer->current == writer->spec_count) {
        status = mt_fail(writer->ctx, MT_ERR_USAGE, "%s: %zu bytes more than its tensors hold", writer->path,
                         bytes);
    } else if (bytes > writer->current_bytes - writer->current_done) {
        status = mt_fail(writer->ctx, MT_ERR_USAGE,
                         "%s: a piece of %zu bytes for tensor %s, of which %" PRIu64 " of %" PRIu64
                         " bytes are already written",
                         writer->path, bytes, mt_printable(writer->specs[writer->current].name).text,
                         writer->current_done, writer->current_bytes);
    } else {
        status = mt_file_writer_write(&writer->out, data, bytes);
    }
    if (status != MT_OK) {
        mt_safetensors_writer_abandon(writer);
        return status;
    }
    writer->current_done += bytes;
    if (writer->current_done == writer->current_bytes) move_to(writer, writer->current + 1);
    return MT_OK;
}

enum mt_status mt_safetensors_writer_finish(struct mt_safetensors_writer *writer)
{
    if (!writer->open) return mt_fail(writer->ctx, MT_ERR_USAGE, "%s: is not open for writing", writer->path);
    if (writer->current < writer->spec_count) {
        enum mt_status status =
            mt_fail(writer->ctx, MT_ERR_USAGE, "%s: tensor %s has %" PRIu64 " of its %" PRIu64 " bytes",
                    writer->path, mt_printable(writer->specs[writer->current].name).text,
                    writer->current_done, writer->current_bytes);
        mt_safetensors_writer_abandon(writer);
        return status;
    }
    writer->open = false;
    return mt_file_writer_commit(&writer->out);
}

void mt_safetensors_writer_abandon(struct mt_safetensors_writer *writer)
{
    mt_file_writer_abandon(&writer->out);
    writer->open = false;
}
