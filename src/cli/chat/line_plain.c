/* Without libedit there is no editor. */
#include "cli/chat/line.h"

struct chat_line_editor *chat_line_editor_create(struct mt_context *ctx, struct mt_interrupt *signals)
{
    (void)ctx;
    (void)signals;
    return NULL;
}

void chat_line_editor_destroy(struct chat_line_editor *editor)
{
    (void)editor;
}

const char *chat_line_edit(struct chat_line_editor *editor, int *bytes)
{
    (void)editor;
    *bytes = 0;
    return NULL;
}
