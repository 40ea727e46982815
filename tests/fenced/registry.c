/*
 * The devices of programs under test: those of the product, the fenced one, and under the names of a GPU's
 * fenced ones that are there only where a card is pretended. Stands in for ops/registry.c.
 */
#include "fenced/fenced.h"
#include "ops/cpu/cpu.h"
#include "ops/ref/ref.h"

const struct mt_device_kind mt_device_kinds[] = {
    {"ref", mt_ref_init, MT_USE_ASKED, false, NULL},
    {"cpu", mt_cpu_init, MT_USE_ASKED, false, NULL},
    {"fenced", fenced_init, MT_USE_ASKED, false, NULL},
    {"cuda", fenced_card_init, MT_USE_EXACT, false, NULL},
    {"cuda-bf16", fenced_card_bf16_init, MT_USE_FAST, false, NULL},
    {0},
};
