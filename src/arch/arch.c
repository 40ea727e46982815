/* The table of architectures. */
#include "arch/arch.h"

#include <string.h>

const struct mt_arch *const mt_archs[MT_ARCH_COUNT] = {
#define ARCH_ADDRESS(name) &mt_arch_##name,
    MT_ARCH_LIST(ARCH_ADDRESS)
#undef ARCH_ADDRESS
};

const struct mt_arch *mt_arch_find(const char *model_type)
{
    for (size_t i = 0; i < MT_ARCH_COUNT; i++) {
        if (strcmp(mt_archs[i]->name, model_type) == 0) return mt_archs[i];
    }
    return NULL;
}

const char *mt_arch_names(void)
{
#define ARCH_WORD(name) " " #name
    return MT_ARCH_LIST(ARCH_WORD);
#undef ARCH_WORD
}
