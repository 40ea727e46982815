/* Rows that were drawn, read once more for their hashes. */
#include "train/data/rows_read.h"

#include "text/row_identity.h"

static enum mt_status add_source(struct mt_context *ctx, const struct mt_dataset *dataset,
                                 const struct mt_train_source *source, const unsigned char *drawn,
                                 struct mt_row_hashes *rows)
{
    const struct mt_example_source form = {.form = source->form, .mapping = source->fields};
    struct mt_row_identifier identifier;
    struct mt_row row;
    enum mt_status status = MT_OK;
    mt_row_init(ctx, &row);
    mt_row_identifier_init(ctx, &identifier);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && status == MT_OK; i++) {
        struct mt_row_identity identity;
        if (drawn[i] == 0) continue;
        status = mt_dataset_read(dataset, i, &row);
        if (status == MT_OK) status = mt_row_identify(&identifier, &form, &row, &identity);
        if (status == MT_OK) status = mt_row_hashes_add(rows, identity.asked, NULL);
        if (status == MT_ERR_FORMAT) status = MT_OK;
    }
    mt_row_identifier_free(&identifier);
    mt_row_free(&row);
    return status;
}

enum mt_status mt_rows_read_add(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                struct mt_row_hashes *rows)
{
    struct mt_arena arena;
    enum mt_status status = MT_OK;
    mt_arena_init(&arena, corpus->ctx, 4096);
    unsigned char **drawn = mt_arena_array(&arena, settings->source_count, sizeof *drawn, &status);
    for (size_t i = 0; i < settings->source_count && status == MT_OK; i++)
        drawn[i] = mt_arena_array(&arena, mt_dataset_rows(corpus->datasets[i]), 1, &status);
    if (status == MT_OK) status = mt_batches_mark_drawn(corpus->training, drawn);
    for (size_t i = 0; i < settings->source_count && status == MT_OK; i++)
        status = add_source(corpus->ctx, corpus->datasets[i], &settings->sources[i], drawn[i], rows);
    mt_arena_free(&arena);
    return status;
}
