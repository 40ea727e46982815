/* Fuzz target: bytes as the file of a comparison; what is accepted is used (support/settings_use.h). */
// With: -Itests tests/support/settings_use.c src/compare/settings/*.c src/synth/*.c
// With: src/recipe/recipe_read.c src/recipe/source.c src/eval/text.c src/eval/tasks/*.c
// With: src/eval/answers/*.c src/eval/math/*.c src/eval/livebench/*.c
// With: src/eval/code/code_block.c src/eval/code/code_names.c
#include <stdint.h>

#include "support/settings_use.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[64];
    (void)use_compare((const char *)data, size, why, sizeof why);
    return 0;
}
