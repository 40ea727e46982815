/* Quantised matrices written as published.h describes them: so other programs, and metier, read them again.
 */
#ifndef MT_ARCH_PUBLISHED_WRITE_H
#define MT_ARCH_PUBLISHED_WRITE_H

#include "arch/published/published.h"
#include "arch/published/stacks_write.h"

/*
 * The tensors of a matrix, in the order they are written in, named by `names`, which is borrowed; returns
 * their number. Of the matrix only the shapes count. int8 has no published form: 0.
 */
int mt_published_specs(const struct mt_published_names *names, const struct mt_quantised *matrix,
                       struct mt_safetensors_spec specs[MT_PUBLISHED_PARTS]);

/* Their data, in the same order. `dtype` is what the matrix was in floats: nf4's state says so. */
enum mt_status mt_published_write(struct mt_stacks_writer *writer, const struct mt_quantised *matrix,
                                  enum mt_hf_float dtype);

/* The quant_method of folders in a format; MT_HF_QUANT_NONE: the format has no published form. */
enum mt_hf_quant_method mt_published_method(enum mt_quantised_format format);

/* What config.json says of such a folder, as a JSON object; lives forever. NULL: the format has no such form.
 */
const char *mt_published_config(enum mt_quantised_format format, bool nested);

#endif
