/* Which version this is. */
#include "metier/version.h"

#include "commit.h"

#define TEXT_OF(number)                   #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *mt_version(void)
{
    return VERSION_TEXT(MT_VERSION_MAJOR, MT_VERSION_MINOR, MT_VERSION_PATCH);
}

const char *mt_version_commit(void)
{
    return METIER_COMMIT;
}
