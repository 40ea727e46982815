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

enum mt_status chat_line_edit(struct chat_line_editor *editor, const char **text, int *bytes)
{
    (void)editor;
    *text = NULL;
    *bytes = 0;
    return MT_OK;
}

enum mt_status chat_line_watch(struct chat_line_editor *editor, bool *stop)
{
    (void)editor;
    *stop = false;
    return MT_OK;
}
