/* safetensors, one file: what is read, what is refused, writing, and files cut or flipped anywhere. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "formats/safetensors/safetensors_writer.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define FILE_BYTES 4096

struct image {
    unsigned char bytes[FILE_BYTES];
    size_t count;
};

/* A file of this header and so many bytes of data 0, 1, 2, ... */
static struct image make_image(const char *header, size_t data_bytes)
{
    struct image image = {.count = 8 + strlen(header) + data_bytes};
    assert_true(image.count <= sizeof image.bytes);
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++) image.bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(image.bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) image.bytes[8 + length + i] = (unsigned char)i;
    return image;
}

static const char good_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
    "\"flag\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[32,33]},"
    "\"late\":{\"dtype\":\"F16\",\"shape\":[1,2,1],\"data_offsets\":[33,37]},"
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[37,37]}}   ";

#define GOOD_DATA 37

static void a_good_file_is_read(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct image image = make_image(good_header, GOOD_DATA);
    struct mt_safetensors file;
    assert_int_equal(mt_safetensors_open_memory(&ctx, "good", image.bytes, image.count, &file), MT_OK);
    assert_int_equal(file.tensor_count, 5);
    assert_int_equal(file.metadata_count, 1);
    assert_string_equal(file.metadata[0].key, "format");
    assert_string_equal(file.metadata[0].value, "pt");
    assert_null(mt_safetensors_find(&file, "c"));
    assert_null(mt_safetensors_find(&file, "__metadata__"));
    const struct mt_safetensors_tensor *b = mt_safetensors_find(&file, "b");
    assert_non_null(b);
    assert_int_equal(b->dtype, MT_SAFETENSORS_F32);
    assert_int_equal(b->rank, 2);
    assert_int_equal(b->dim[1], 3);
    assert_ptr_equal(b->data, image.bytes + image.count - GOOD_DATA);
    const struct mt_safetensors_tensor *flag = mt_safetensors_find(&file, "flag");
    assert_int_equal(flag->rank, 0);
    assert_int_equal(flag->bytes, 1);
    const struct mt_safetensors_tensor *none = mt_safetensors_find(&file, "none");
    assert_int_equal(none->bytes, 0);
    mt_safetensors_close(&file);
    assert_int_equal(ctx.live_bytes, 0);
}

static void views_of_tensors(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct image image = make_image(good_header, GOOD_DATA);
    struct mt_safetensors file;
    assert_int_equal(mt_safetensors_open_memory(&ctx, "good", image.bytes, image.count, &file), MT_OK);
    struct mt_tensor view;
    struct mt_buffer copy;
    // One of the two lies at an odd address, whatever the address of the image: it is copied.
    int copied = 0;
    const char *const names[] = {"a", "late"};
    for (int i = 0; i < 2; i++) {
        const struct mt_safetensors_tensor *info = mt_safetensors_find(&file, names[i]);
        assert_int_equal(mt_safetensors_view(&ctx, info, &view, &copy), MT_OK);
        assert_int_equal((uintptr_t)view.data % 2, 0);
        assert_memory_equal(view.data, info->data, info->bytes);
        assert_true(mt_tensor_is_contiguous(&view));
        copied += copy.data != NULL;
        mt_buffer_release(&copy);
    }
    assert_int_equal(copied, 1);
    assert_int_equal(mt_safetensors_view(&ctx, mt_safetensors_find(&file, "flag"), &view, &copy),
                     MT_ERR_DTYPE);
    assert_non_null(strstr(ctx.message, "flag is BOOL"));
    mt_safetensors_close(&file);
    assert_int_equal(ctx.live_bytes, 0);
}

struct refusal {
    const char *header;
    size_t data_bytes;
    const char *said; // part of the message
};

static void bad_headers_are_refused(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {"[]", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"{", 0, "not valid JSON"},
        {"{}", 1, "end at byte 0 of the data, the file holds 1"},
        {"{\"t\":3}", 0, "t is a whole number, expected an object"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "duplicate"},
        {"{\"t\":{\"dtype\":\"F8_E5M2\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "F8_E5M2; known are F64 F32 F16 BF16 I64 I32 I16 I8 U8 F8_E4M3 F8_E8M0 BOOL"},
        {"{\"t\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has the data type f32"},
        {"{\"t\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "t.dtype is missing"},
        {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "t.shape is missing"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "has 2 keys"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "has 4 keys"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "t.shape[0] is -1"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "expected a whole number"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "has 9 dimensions, the limit is 8"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
         "too large to address"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "too large to address"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
         "covers 4 bytes, the shape and F32 make 8"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
         "ends (0) before it begins (4)"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "has 3 numbers"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4,
         "ends at 8, but the file holds 4 bytes of data"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "the file holds 5"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "there is a gap"},
        {"{\"s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
         6, "they overlap"},
        {"{\"s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[2,2]}}",
         4, "they overlap"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__.a is a whole number, expected a string"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is an array, expected an object"},
        {"{\"t\":{\"dtype\":\"F32\",\"shape\":[[1]],\"data_offsets\":[0,4]}}", 4, "nested more than 3"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        struct image image = make_image(refusals[i].header, refusals[i].data_bytes);
        struct mt_safetensors file;
        enum mt_status status = mt_safetensors_open_memory(&ctx, "bad", image.bytes, image.count, &file);
        assert_int_not_equal(status, MT_OK);
        if (strstr(ctx.message, refusals[i].said) == NULL)
            fail_msg("%s: %s", refusals[i].header, ctx.message);
        assert_non_null(strstr(ctx.message, "bad"));
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void bad_lengths_are_refused(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_safetensors file;
    unsigned char bytes[16] = {0};
    assert_int_equal(mt_safetensors_open_memory(&ctx, "f", bytes, 7, &file), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "too short"));
    assert_int_equal(mt_safetensors_open_memory(&ctx, "f", bytes, 16, &file), MT_ERR_FORMAT); // length 0
    bytes[0] = 9;
    assert_int_equal(mt_safetensors_open_memory(&ctx, "f", bytes, 16, &file), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "cut short?"));
    memset(bytes, 0xff, 8);
    assert_int_equal(mt_safetensors_open_memory(&ctx, "f", bytes, 16, &file), MT_ERR_FORMAT);
    assert_non_null(strstr(ctx.message, "the limit is 100000000"));
}

/* What an accepted file must satisfy; every byte of every tensor is read, so that a sanitizer sees it. */
static void check_accepted(const struct mt_safetensors *file, const unsigned char *bytes, size_t count)
{
    uint64_t sum = 0;
    unsigned touched = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &file->tensors[i];
        const unsigned char *data = tensor->data;
        assert_true(data >= bytes && data + tensor->bytes <= bytes + count);
        for (uint64_t j = 0; j < tensor->bytes; j++) touched += data[j];
        assert_ptr_equal(mt_safetensors_find(file, tensor->name), tensor);
        sum += tensor->bytes;
    }
    assert_int_equal(sum, file->data_bytes);
    assert_true(touched < 256u * FILE_BYTES);
}

/* Opens a copy that ends exactly where its memory block ends. */
static bool try_bytes(const unsigned char *bytes, size_t count)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    unsigned char *exact = malloc(count == 0 ? 1 : count);
    assert_non_null(exact);
    memcpy(exact, bytes, count);
    struct mt_safetensors file;
    enum mt_status status = mt_safetensors_open_memory(&ctx, "hostile", exact, count, &file);
    if (status == MT_OK) {
        check_accepted(&file, exact, count);
        mt_safetensors_close(&file);
    } else {
        assert_int_not_equal(strlen(ctx.message), 0);
    }
    assert_int_equal(ctx.live_bytes, 0);
    free(exact);
    return status == MT_OK;
}

static void cut_anywhere(void **state)
{
    (void)state;
    struct image image = make_image(good_header, GOOD_DATA);
    for (size_t count = 0; count < image.count; count++) assert_false(try_bytes(image.bytes, count));
    assert_true(try_bytes(image.bytes, image.count));
}

static void flipped_anywhere(void **state)
{
    (void)state;
    static const unsigned char flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff};
    struct image image = make_image(good_header, GOOD_DATA);
    size_t header_end = image.count - GOOD_DATA;
    int accepted = 0;
    for (size_t i = 0; i < header_end; i++) {
        unsigned char original = image.bytes[i];
        for (size_t f = 0; f < sizeof flips; f++) {
            image.bytes[i] = original ^ flips[f];
            accepted += try_bytes(image.bytes, image.count);
        }
        const char *const replacements = "\"0{}[],: -9";
        for (const char *byte = replacements; *byte != '\0'; byte++) {
            image.bytes[i] = (unsigned char)*byte;
            accepted += try_bytes(image.bytes, image.count);
        }
        image.bytes[i] = 0;
        accepted += try_bytes(image.bytes, image.count);
        image.bytes[i] = original;
    }
    assert_true(accepted > 0); // names may change
}

// ------------------------------------------------------------------ writing

static const struct mt_safetensors_spec specs[] = {
    {.name = "double \"quoted\" \xc3\xa9", .dtype = MT_SAFETENSORS_F64, .rank = 1, .dim = {3}},
    {.name = "empty", .dtype = MT_SAFETENSORS_F32, .rank = 2, .dim = {0, 5}},
    {.name = "bytes", .dtype = MT_SAFETENSORS_U8, .rank = 2, .dim = {3, 1}},
    {.name = "scalar", .dtype = MT_SAFETENSORS_F32, .rank = 0},
    {.name = "deep", .dtype = MT_SAFETENSORS_BF16, .rank = 8, .dim = {1, 2, 1, 2, 1, 1, 1, 1}},
};
#define SPEC_COUNT (sizeof specs / sizeof specs[0])
#define SPEC_BYTES (24 + 3 + 4 + 8)

static enum mt_status write_specs(struct mt_context *ctx, const char *path, size_t piece)
{
    static const struct mt_safetensors_metadata metadata[] = {{"format", "pt"}, {"note", "a\nb"}};
    static const size_t sizes[] = {24, 3, 4, 8};
    struct mt_safetensors_writer writer;
    unsigned char data[32];
    unsigned char next = 0;
    enum mt_status status = mt_safetensors_writer_open(ctx, path, specs, SPEC_COUNT, metadata, 2, &writer);
    for (size_t t = 0; t < 4 && status == MT_OK; t++) {
        for (size_t done = 0; done < sizes[t] && status == MT_OK;) {
            size_t count = sizes[t] - done < piece ? sizes[t] - done : piece;
            for (size_t i = 0; i < count; i++) data[i] = next++;
            status = mt_safetensors_writer_write(&writer, data, count);
            done += count;
        }
    }
    if (status == MT_OK) status = mt_safetensors_writer_finish(&writer);
    return status;
}

static void what_is_written_is_read(void **state)
{
    const struct workplace *place = *state;
    char path[128];
    workplace_path(place, "t.safetensors", path, sizeof path);
    for (size_t piece = 1; piece < 30; piece += 7) {
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        assert_int_equal(write_specs(&ctx, path, piece), MT_OK);
        struct mt_safetensors file;
        assert_int_equal(mt_safetensors_open(&ctx, path, &file), MT_OK);
        assert_int_equal(file.tensor_count, SPEC_COUNT);
        assert_int_equal(file.data_bytes, SPEC_BYTES);
        assert_int_equal((file.mapping.bytes - SPEC_BYTES) % 8, 0);
        assert_string_equal(file.metadata[1].value, "a\nb");
        for (size_t i = 0; i < SPEC_COUNT; i++) {
            const struct mt_safetensors_tensor *tensor = mt_safetensors_find(&file, specs[i].name);
            assert_non_null(tensor);
            assert_int_equal(tensor->dtype, specs[i].dtype);
            assert_int_equal(tensor->rank, specs[i].rank);
            assert_memory_equal(tensor->dim, specs[i].dim, sizeof specs[i].dim);
            const unsigned char *data = tensor->data;
            for (uint64_t j = 0; j < tensor->bytes; j++) assert_int_equal(data[j], tensor->offset + j);
        }
        mt_safetensors_close(&file);
        assert_int_equal(ctx.live_bytes, 0);
        assert_int_equal(workplace_entries(place), 1);
    }
}

static void misuse_leaves_nothing(void **state)
{
    const struct workplace *place = *state;
    char path[128];
    workplace_path(place, "t.safetensors", path, sizeof path);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_safetensors_writer writer;
    unsigned char data[64] = {0};
    // A piece that reaches into the next tensor.
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, SPEC_COUNT, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, data, 25), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "0 of 24 bytes"));
    assert_int_equal(mt_safetensors_writer_write(&writer, data, 1), MT_ERR_USAGE); // closed
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_ERR_USAGE);
    assert_int_equal(workplace_entries(place), 0);
    // Data missing at the end.
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs, SPEC_COUNT, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, data, 24), MT_OK);
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "tensor bytes has 0 of its 3 bytes"));
    assert_int_equal(workplace_entries(place), 0);
    // Too much data.
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, specs + 1, 1, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, data, 1), MT_ERR_USAGE);
    // Names.
    const struct mt_safetensors_spec twice[] = {specs[2], specs[1], specs[2]};
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, twice, 3, NULL, 0, &writer), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "two tensors are called bytes"));
    struct mt_safetensors_spec odd = specs[2];
    odd.name = "\xff\xfe";
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, &odd, 1, NULL, 0, &writer), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "not UTF-8"));
    odd.name = "__metadata__";
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, &odd, 1, NULL, 0, &writer), MT_ERR_USAGE);
    odd = specs[0];
    odd.dim[0] = INT64_MAX;
    assert_int_equal(mt_safetensors_writer_open(&ctx, path, &odd, 1, NULL, 0, &writer), MT_ERR_FORMAT);
    assert_int_equal(workplace_entries(place), 0);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status write_and_open(struct mt_context *ctx, const void *self)
{
    enum mt_status status = write_specs(ctx, self, 8);
    if (status != MT_OK) return status;
    struct mt_safetensors file;
    status = mt_safetensors_open(ctx, self, &file);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < file.tensor_count && status == MT_OK; i++) {
        struct mt_tensor view;
        struct mt_buffer copy;
        if (file.tensors[i].dtype == MT_SAFETENSORS_U8 || file.tensors[i].rank > MT_MAX_RANK) continue;
        status = mt_safetensors_view(ctx, &file.tensors[i], &view, &copy);
        mt_buffer_release(&copy);
    }
    mt_safetensors_close(&file);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    const struct workplace *place = *state;
    char path[128];
    workplace_path(place, "t.safetensors", path, sizeof path);
    assert_every_allocation_may_fail(write_and_open, path, 6);
}

/* 40 GB that take no disk: opening reads the header only. */
static void a_sparse_giant_opens_at_once(void **state)
{
    const struct workplace *place = *state;
    char path[128];
    char header[256];
    workplace_path(place, "giant.safetensors", path, sizeof path);
    int64_t bytes = 40000000000;
    (void)snprintf(header, sizeof header,
                   "{\"w\":{\"dtype\":\"BF16\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                   (long long)bytes / 2, (long long)bytes);
    struct image image = make_image(header, 0);
    assert_int_equal(workplace_write(place, "giant.safetensors", image.bytes, image.count), 0);
    if (truncate(path, (off_t)image.count + bytes) != 0) {
        print_message("this file system has no room for a sparse file of 40 GB: skipped\n");
        skip();
    }
    int descriptor = open(path, O_RDONLY);
    void *space = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, descriptor, 0);
    (void)close(descriptor);
    if (space == MAP_FAILED) {
        print_message("this machine, emulated perhaps, maps no 40 GB: skipped\n");
        skip();
    }
    (void)munmap(space, (size_t)bytes);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_safetensors file;
    struct rusage before;
    struct rusage after;
    (void)getrusage(RUSAGE_SELF, &before);
    assert_int_equal(mt_safetensors_open(&ctx, path, &file), MT_OK);
    (void)getrusage(RUSAGE_SELF, &after);
    const unsigned char *data = mt_safetensors_find(&file, "w")->data;
    assert_int_equal(data[bytes - 1], 0);
    print_message("40 GB opened: %ld kB of memory more at the peak, %zu bytes allocated\n",
                  after.ru_maxrss - before.ru_maxrss, ctx.live_bytes);
    assert_true(after.ru_maxrss - before.ru_maxrss < 16384);
    mt_safetensors_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(views_of_tensors),
        cmocka_unit_test(bad_headers_are_refused),
        cmocka_unit_test(bad_lengths_are_refused),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(flipped_anywhere),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(misuse_leaves_nothing, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(a_sparse_giant_opens_at_once, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
