/*
 * The cpu device. Its kernels are written once in portable C and compiled once per instruction-set
 * level (on x86-64: v1, v3 with AVX2+FMA, v4 with AVX-512, amx with the tile unit; on aarch64:
 * neon, sve, bf16 with its matrix products).
 * The program picks the highest level the machine has when the device is created, so a binary runs anywhere.
 */
#ifndef MT_OPS_CPU_H
#define MT_OPS_CPU_H

#include "ops/device.h"

/*
 * METIER_CPU_LEVEL in the environment picks a lower level by name (v1, v3, v4, amx; neon, sve, bf16): for
 * tests, and for comparing bits between machines.
 */
enum mt_status mt_cpu_init(struct mt_device *device, int threads);

#endif
