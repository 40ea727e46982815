/*
 * The op case list: every op with the shapes it must get right, written once, used in five modes.
 *
 *   compare   the device against ref, tolerance per case; and the same bits for 1, 2 and 4 threads
 *   gradient  ref's backward against finite differences of ref's forward, all in double
 *   speed     GFLOP/s and GB/s, as a share of what sgemm, memcpy, multiplications reach in the same run
 *   memory    every allocation failing in turn: a clean error, nothing leaked
 *   support   which device has which op -> docs/ops.md
 *
 * A case is a list of named tensors ("slots") and one or two functions that call ops on them. To add
 * one: write a function that calls case_new, case_slot..., and list it in the cases_X function of its
 * file; a new cases_X.c is picked up by CMake and listed in case_files.h.
 */
#ifndef MT_TESTS_OP_CASE_H
#define MT_TESTS_OP_CASE_H

#include "metier/buffer.h"
#include "metier/ops.h"

#define CASE_MAX_SLOTS  24
#define CASE_MAX_PARAMS 8

enum slot_role {
    SLOT_INPUT,    // filled before forward; never written
    SLOT_OUTPUT,   // written by forward, compared; backward may read it
    SLOT_UPDATED,  // filled before forward, then read and written by it, compared
    SLOT_GRAD_IN,  // the gradient arriving at output `of`: filled, read by backward
    SLOT_GRAD_OUT, // the gradient of input `of`: written by backward, compared, checked numerically
    SLOT_GRAD_SUM, // as GRAD_OUT, but accumulated: filled before backward
};

enum slot_fill {
    FILL_NORMAL,   // standard normal times scale
    FILL_UNIFORM,  // uniform in [0, 1) times scale
    FILL_ONES,     // 1 + a little noise times scale: norm weights
    FILL_REPEATED, // as FILL_NORMAL, a million numbers over and over: large tensors whose speed is measured
    FILL_CUSTOM,   // the case's `fill` writes it (index tensors, tables)
};

struct op_slot {
    const char *name;
    enum slot_role role;
    enum mt_dtype dtype;
    int rank;
    int64_t dim[MT_MAX_RANK];
    int64_t row_padding; // extra elements between rows: exercises strides
    enum slot_fill fill;
    double scale;
    int of;           // for gradients: the slot they belong to
    bool no_numeric;  // GRAD_OUT without a finite-difference check (say why at the call)
    double tolerance; // 0: the case's
};

struct op_case {
    enum mt_op op;          // the op the case is filed under
    enum mt_op backward_op; // what backward is filed under; the same op when there is none
    char label[112];        // shapes, for people
    struct op_slot slot[CASE_MAX_SLOTS];
    int slots;
    int64_t param[CASE_MAX_PARAMS]; // the case's own numbers (flags, counts)
    float real[CASE_MAX_PARAMS];
    double tolerance; // allowed error, relative to the rms of the reference plus the element itself
    bool bf16_inputs; // the options': floats are filled with numbers that bf16 has
    bool only_speed;  // too large for the other modes
    bool only_device; // for devices with memory of their own alone: too large for a host
    bool no_gradient; // nothing to differentiate
    // For speed. A case with flops is held against sgemm, one with multiplications against those, on a host;
    // one with bytes alone against memcpy.
    double flops; // of forward
    double
        multiplications; // of 32-bit words, both halves of the product used, that forward needs at the least
    double bytes;        // read and written by forward at the least
    double backward_flops;
    double backward_bytes;
    int64_t sgemm[3]; // M, N, K of the sgemm to compare with; 0: 1024 each

    /* Writes FILL_CUSTOM slots of the host tensors t[slots]. Optional. */
    void (*fill)(const struct op_case *c, struct mt_tensor *t);
    /* Calls the op. */
    enum mt_status (*forward)(struct mt_device *device, const struct op_case *c, struct mt_tensor *t);
    /* Calls the backward op(s); NULL where there is none. */
    enum mt_status (*backward)(struct mt_device *device, const struct op_case *c, struct mt_tensor *t);
};

struct case_list {
    struct op_case *items;
    size_t count;
    size_t capacity;
};

/* Appends a zeroed case and returns it; the pointer is valid until the next call. Exits on no memory. */
struct op_case *case_new(struct case_list *list, enum mt_op op, const char *label_format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Adds a slot and returns its index. dims are given outermost first; unused ones are 0. role, type and
 * fill as above, scale 1.
 */
int case_slot(struct op_case *c, const char *name, enum slot_role role, enum mt_dtype dtype, int rank,
              const int64_t *dims);

/* Short forms: f32, FILL_NORMAL. */
int case_input(struct op_case *c, const char *name, int rank, const int64_t *dims);
int case_output(struct op_case *c, const char *name, int rank, const int64_t *dims);
int case_index(struct op_case *c, const char *name, int rank, const int64_t *dims); // i32, FILL_CUSTOM
int case_grad_in(struct op_case *c, const char *name, int of);
int case_grad_out(struct op_case *c, const char *name, int of);

/* Gives some slots another float type, as 16-bit activations are, and says so in the label. */
void case_retype(struct op_case *c, enum mt_dtype dtype, int count, const int *slots);

/* Extra elements between the rows of every slot that has rows. */
void case_pad(struct op_case *c, int64_t padding);

/* For speed alone, on devices with memory of their own alone if that is said: drawn numbers are repeated. */
void case_only_timed(struct op_case *c, bool only_device);

/* The tensors of one run of a case, on one device. */
struct case_tensors {
    struct mt_buffer buffer[CASE_MAX_SLOTS];
    struct mt_tensor tensor[CASE_MAX_SLOTS];
};

/* Deterministic host data for a case: floats as `float_type` if that is MT_F64, else as the slots say. */
enum mt_status case_make_host(struct mt_context *ctx, const struct op_case *c, bool in_double,
                              struct case_tensors *made);

/* The same data in a device's memory. */
enum mt_status case_copy_to(struct mt_device *device, const struct op_case *c,
                            const struct case_tensors *host, struct case_tensors *made);

/* Fetches slot `index` of device tensors into the host tensors. */
enum mt_status case_fetch(struct mt_device *device, int index, const struct case_tensors *source,
                          struct case_tensors *host);

void case_free(const struct op_case *c, struct case_tensors *made);

/* Forward and backward on a device made for it; what comes out is looked at by nobody. */
enum mt_status case_run(struct mt_context *ctx, const struct op_case *c, const char *device_name,
                        int threads);

/* True for the roles forward (or backward) writes. */
bool slot_written_by_forward(const struct op_slot *slot);
bool slot_written_by_backward(const struct op_slot *slot);

enum { OP_CASE_LEVELS = 8 };

struct mode_options {
    const char *device; // "cpu"
    const char *filter; // substrings of "op label", of which one will do, with | between; NULL: all
    const char *level[OP_CASE_LEVELS]; // compare: of the cpu, one after the other
    int levels;                        // 0: the machine's own
    double
        least_tolerance; // compare: of every result that need not be exact; for devices that round operands
    int threads;         // compare: with this number only; 0: with 1, 2 and 4
    bool bf16_inputs;    // compare: inputs are numbers that bf16 has, errors are relative to their row
    bool verbose;
    bool markdown;
};

/* Modes: each prints its own table and returns the number of failures (-1: could not run at all). */
int mode_compare(const struct case_list *list, const struct mode_options *options);
int mode_gradient(const struct case_list *list, const struct mode_options *options);
int mode_speed(const struct case_list *list, const struct mode_options *options);
int mode_support(const struct case_list *list, const struct mode_options *options);
int mode_memory(const struct case_list *list, const struct mode_options *options);
int mode_threads(const struct case_list *list, const struct mode_options *options);

/* True when the case's "op label" contains one of the filter's texts. */
bool case_selected(const struct op_case *c, const struct mode_options *options);

#endif
