/* Text being put together. */
#include "formats/text/utf8.h"
#include "text/jinja/run.h"

uint16_t jinja_mark_at(struct mt_marked text, size_t at)
{
    return text.marks != NULL && at < text.bytes ? text.marks[at] : 0;
}

struct mt_marked jinja_built(const struct jinja_builder *builder)
{
    return (struct mt_marked){builder->bytes != 0 ? builder->text : "", builder->marks, builder->bytes};
}

static enum mt_status add_marks(struct jinja_run *run, struct jinja_builder *builder)
{
    void *memory = NULL;
    enum mt_status status = jinja_allocate(run, builder->capacity * sizeof *builder->marks, &memory);
    builder->marks = memory;
    return status;
}

static enum mt_status reserve(struct jinja_run *run, struct jinja_builder *builder, size_t extra)
{
    if (builder->capacity - builder->bytes >= extra) return MT_OK;
    if (extra > run->memory_left)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too much memory");
    size_t needed = builder->bytes + extra;
    size_t wanted = builder->capacity * 2 > needed ? builder->capacity * 2 : needed + 16;
    void *memory = NULL;
    enum mt_status status = jinja_allocate(run, wanted, &memory);
    if (status != MT_OK) return status;
    if (builder->bytes != 0) memcpy(memory, builder->text, builder->bytes);
    builder->text = memory;
    builder->capacity = wanted;
    if (builder->marks == NULL) return MT_OK;
    const uint16_t *old = builder->marks;
    status = add_marks(run, builder);
    if (status == MT_OK) memcpy(builder->marks, old, builder->bytes * sizeof *old);
    return status;
}

enum mt_status jinja_put(struct jinja_run *run, struct jinja_builder *builder, struct mt_marked text)
{
    if (text.bytes == 0) return MT_OK;
    enum mt_status status = reserve(run, builder, text.bytes);
    if (status == MT_OK && text.marks != NULL && builder->marks == NULL) status = add_marks(run, builder);
    if (status != MT_OK) return status;
    memcpy(builder->text + builder->bytes, text.text, text.bytes);
    if (text.marks != NULL)
        memcpy(builder->marks + builder->bytes, text.marks, text.bytes * sizeof *text.marks);
    builder->bytes += text.bytes;
    return MT_OK;
}

enum mt_status jinja_put_text(struct jinja_run *run, struct jinja_builder *builder, const char *text)
{
    return jinja_put(run, builder, marked_of(text));
}

enum mt_status jinja_put_repeated(struct jinja_run *run, struct jinja_builder *builder, const char *text,
                                  size_t times)
{
    size_t bytes = strlen(text);
    enum mt_status status = MT_OK;
    if (bytes != 0 && times > run->memory_left / bytes)
        return jinja_fail(run, MT_ERR_UNSUPPORTED, "the template takes too much memory");
    status = reserve(run, builder, bytes * times);
    for (size_t i = 0; status == MT_OK && i < times; i++) status = jinja_put_text(run, builder, text);
    return status;
}

enum mt_status jinja_put_character(struct jinja_run *run, struct jinja_builder *builder, uint32_t character,
                                   uint16_t mark)
{
    uint8_t bytes[4];
    uint16_t marks[4] = {mark, mark, mark, mark};
    size_t count = mt_utf8_encode(character, bytes);
    return jinja_put(run, builder, (struct mt_marked){(const char *)bytes, mark != 0 ? marks : NULL, count});
}
