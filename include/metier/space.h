/*
 * Scratch from memory that is at hand. A device keeps as much scratch as its hungriest op needs, all the
 * time; an op that needs far more than the others may borrow memory of the device that nobody uses meanwhile.
 */
#ifndef METIER_SPACE_H
#define METIER_SPACE_H

#include <stddef.h>

#include "metier/export.h"
#include "metier/ops.h"

MT_PUBLIC_BEGIN

struct mt_space {
    void *data; // of the device, aligned to 64 bytes; NULL: none
    size_t bytes;
};

/* As mt_op_run, with scratch in `space` if that is larger than the device's own, of which it may need none.
 */
enum mt_status mt_op_run_in(struct mt_device *device, struct mt_space space, enum mt_op op, const void *args);

/* All ops have their scratch in `space`, if that is larger than the device's own, until the loan ends. One at
 * a time. */
void mt_device_lend_scratch(struct mt_device *device, struct mt_space space);
void mt_device_end_loan(struct mt_device *device); // nothing where nothing was lent

MT_PUBLIC_END

#endif
