/* The devices of programs under test: those of the product, and the fenced one. Stands in for ops/registry.c.
 */
#include "fenced/fenced.h"
#include "ops/cpu/cpu.h"
#include "ops/ref/ref.h"

const struct mt_device_kind mt_device_kinds[] = {
    {"ref", mt_ref_init},
    {"cpu", mt_cpu_init},
    {"fenced", fenced_init},
    {0},
};
