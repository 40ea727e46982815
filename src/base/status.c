/* Texts of the status codes, from the one list in metier/status.h. */
#include "metier/status.h"

const char *mt_status_text(enum mt_status status)
{
    static const char *const texts[] = {
#define MT_STATUS_TEXT(name, text) [name] = (text),
        MT_STATUS_LIST(MT_STATUS_TEXT)
#undef MT_STATUS_TEXT
    };
    if ((unsigned)status >= MT_STATUS_COUNT) return "unknown status";
    return texts[status];
}
