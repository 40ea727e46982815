/* Cases of a row: base64, zlib and the pickle of a str are taken off; every case is looked at. */
#define ZLIB_CONST

#include "eval/code/row_cases.h"

#include <ctype.h>
#include <stdio.h>
#include <zlib.h>

#define PACKED_HEAD  4096               // characters of base64 that hold the first bytes of a pickle
#define PICKLE_HEAD  32                 // bytes: more than what stands before its text
#define PICKLE_TAIL  24                 // the same of what stands behind
#define MOST_DIGITS  300                // of a number that are looked at
#define MOST_PROGRAM ((size_t)60 << 20) // bytes of the cases in the judge's program (sandbox.h)

// ------------------------------------------------------------------ base64 and zlib

static int base64_value(char byte)
{
    if (byte >= 'A' && byte <= 'Z') return byte - 'A';
    if (byte >= 'a' && byte <= 'z') return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9') return byte - '0' + 52;
    if (byte == '+') return 62;
    return byte == '/' ? 63 : -1;
}

static enum mt_status fail(const struct mt_row *row, const char *what)
{
    return mt_row_fail(row, "private_test_cases %s", what);
}

/* Appends what groups of four spell, of which the last may be padded. */
static enum mt_status decode(const struct mt_row *row, struct mt_text text, struct mt_byte_list *out)
{
    static const char wrong[] = "is neither a list in JSON nor base64";
    enum mt_status status = mt_byte_list_reserve(out, text.bytes / 4 * 3);
    if (status != MT_OK) return status;
    if (text.bytes % 4 != 0) return fail(row, wrong);
    for (size_t at = 0; at < text.bytes; at += 4) {
        bool last = at + 4 == text.bytes;
        size_t padding = last && text.text[at + 3] == '=' ? (text.text[at + 2] == '=' ? 2 : 1) : 0;
        uint32_t bits = 0;
        for (size_t i = 0; i < 4; i++) {
            int value = i >= 4 - padding ? 0 : base64_value(text.text[at + i]);
            if (value < 0) return fail(row, wrong);
            bits = bits << 6 | (uint32_t)value;
        }
        for (size_t i = 0; i < 3 - padding; i++) out->data[out->count++] = (uint8_t)(bits >> (16 - 8 * i));
    }
    return MT_OK;
}

/* Appends what is packed, up to `most` bytes; *whole: that was all there is. */
static enum mt_status inflate_list(const struct mt_row *row, const struct mt_byte_list *packed, size_t most,
                                   struct mt_byte_list *out, bool *whole)
{
    enum mt_status status = mt_byte_list_reserve(out, most);
    if (status != MT_OK) return status;
    z_stream stream = {.next_in = packed->data,
                       .avail_in = (unsigned)packed->count,
                       .next_out = out->data,
                       .avail_out = (unsigned)most};
    if (inflateInit(&stream) != Z_OK)
        return mt_fail(row->ctx, MT_ERR_MEMORY, "out of memory while unpacking");
    int outcome = inflate(&stream, Z_FINISH);
    (void)inflateEnd(&stream);
    out->count = most - stream.avail_out;
    *whole = outcome == Z_STREAM_END && stream.avail_in == 0;
    if (outcome == Z_MEM_ERROR) return mt_fail(row->ctx, MT_ERR_MEMORY, "out of memory while unpacking");
    bool sound = outcome == Z_STREAM_END || outcome == Z_OK || outcome == Z_BUF_ERROR;
    return sound ? MT_OK : fail(row, "is not what zlib packs");
}

/* Unpacks up to `most` bytes; *whole: that was all there is. */
static enum mt_status unpack(const struct mt_row *row, struct mt_text text, size_t most,
                             struct mt_byte_list *out, bool *whole)
{
    struct mt_byte_list packed = {.ctx = row->ctx};
    enum mt_status status = decode(row, text, &packed);
    if (status == MT_OK) status = inflate_list(row, &packed, most, out, whole);
    mt_byte_list_free(&packed);
    return status;
}

// ------------------------------------------------------------------ the pickle of a str

#define PICKLE_PROTOCOL   0x80 // and its number
#define PICKLE_FRAME      0x95 // and 8 bytes
#define PICKLE_SHORT_TEXT 0x8C // its length in 1 byte, the text
#define PICKLE_TEXT       'X'  // in 4
#define PICKLE_LONG_TEXT  0x8D // in 8
#define PICKLE_MEMOIZE    0x94
#define PICKLE_PUT        'q' // and 1 byte
#define PICKLE_LONG_PUT   'r' // and 4
#define PICKLE_STOP       '.'

/* Takes one operation, its argument of so many bytes included; false: another stands there. */
static bool take(const struct mt_byte_list *pickle, size_t *at, int operation, size_t argument)
{
    bool there = *at < pickle->count && pickle->data[*at] == operation && pickle->count - *at > argument;
    if (there) *at += 1 + argument;
    return there;
}

/* Finds the text by what stands before it: little-endian, as long as it may be. */
static bool find_text(const struct mt_byte_list *pickle, size_t *begin, size_t *end)
{
    size_t at = 0;
    (void)take(pickle, &at, PICKLE_PROTOCOL, 1);
    (void)take(pickle, &at, PICKLE_FRAME, 8);
    size_t before = at;
    bool text = take(pickle, &at, PICKLE_SHORT_TEXT, 1) || take(pickle, &at, PICKLE_TEXT, 4) ||
                take(pickle, &at, PICKLE_LONG_TEXT, 8);
    uint64_t length = 0;
    for (size_t i = at; i > before + 1; i--) length = length << 8 | pickle->data[i - 1];
    if (!text || length > MT_ROW_CASES_MOST) return false;
    *begin = at;
    *end = at + (size_t)length;
    return true;
}

/* What stands behind the text ends the pickle, and changes nothing. */
static bool ends_well(const struct mt_byte_list *pickle, size_t at)
{
    (void)take(pickle, &at, PICKLE_FRAME, 8);
    if (!take(pickle, &at, PICKLE_MEMOIZE, 0) && !take(pickle, &at, PICKLE_PUT, 1))
        (void)take(pickle, &at, PICKLE_LONG_PUT, 4);
    return take(pickle, &at, PICKLE_STOP, 0) && at == pickle->count;
}

// ------------------------------------------------------------------ fields

static enum mt_status find_field(const struct mt_row *row, const char *name, struct mt_text *text)
{
    const struct mt_row_field *field = mt_row_field(row, name);
    if (field == NULL) return mt_row_fail(row, "there is no field '%s'", name);
    if (field->kind != MT_FIELD_TEXT || field->bytes == 0)
        return mt_row_fail(row, "the field '%s' is not a text", name);
    *text = (struct mt_text){.text = field->text, .bytes = field->bytes};
    return MT_OK;
}

/* JSON within a field. The caller frees. */
static enum mt_status parse(const struct mt_row *row, const char *name, struct mt_text text, char where[512],
                            struct mt_json *json)
{
    const struct mt_json_limits limits = {
        .max_bytes = MT_ROW_CASES_MOST, .max_values = 4000000, .max_depth = 64, .integers_as_real = true};
    (void)snprintf(where, 512, "%.400s:%llu: %s", row->file, (unsigned long long)row->line, name);
    return mt_json_parse(row->ctx, where, text.text, text.bytes, &limits, json);
}

static bool is_name(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
    return length > 0 && text[length] == '\0' && !isdigit((unsigned char)text[0]);
}

static enum mt_status find_function(const struct mt_row *row, struct mt_row_cases *cases)
{
    char where[512];
    const char *name = "";
    struct mt_text text = mt_text_of("");
    struct mt_json json = {0};
    enum mt_status status = find_field(row, "metadata", &text);
    if (status == MT_OK) status = parse(row, "metadata", text, where, &json);
    if (status != MT_OK) return status;
    const struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK) status = mt_json_optional_string(&root, "func_name", &name);
    bool fits =
        status == MT_OK && strlen(name) < sizeof cases->function && (name[0] == '\0' || is_name(name));
    if (status == MT_OK && !fits)
        status = mt_row_fail(row, "metadata: func_name is not the name of a function");
    if (fits) memcpy(cases->function, name, strlen(name) + 1);
    mt_json_free(&json);
    return status;
}

enum mt_status mt_row_cases_find(const struct mt_row *row, struct mt_row_cases *cases)
{
    *cases = (struct mt_row_cases){0};
    bool whole = false;
    struct mt_byte_list head = {.ctx = row->ctx};
    enum mt_status status = find_field(row, "public_test_cases", &cases->public_cases);
    if (status == MT_OK) status = find_field(row, "private_test_cases", &cases->private_cases);
    if (status == MT_OK) status = find_function(row, cases);
    struct mt_text rest = mt_text_trimmed(cases->private_cases);
    if (status != MT_OK || mt_text_take(&rest, "[")) return status;
    struct mt_text begin = cases->private_cases;
    if (begin.bytes > PACKED_HEAD) begin.bytes = PACKED_HEAD;
    status = unpack(row, begin, PICKLE_HEAD, &head, &whole);
    if (status == MT_OK && !find_text(&head, &cases->begin, &cases->end))
        status = fail(row, "does not unpack to a pickle of one text");
    mt_byte_list_free(&head);
    return status;
}

enum mt_status mt_row_cases_write(const struct mt_row_cases *cases, struct mt_byte_list *text)
{
    char words[192];
    (void)snprintf(words, sizeof words, "%zu %zu %s", cases->begin, cases->end, cases->function);
    return mt_byte_list_append_text(text, words);
}

// ------------------------------------------------------------------ every case

/* So many values of JSON, one a line: what a function gets, or its result. */
static enum mt_status check_values(const struct mt_row *row, const char *what, const char *text, bool lines)
{
    char where[512];
    struct mt_json json = {0};
    struct mt_byte_list list = {.ctx = row->ctx};
    size_t count = 1;
    enum mt_status status = mt_byte_list_append_text(&list, "[");
    size_t digits = 0; // in a row: Python has whole numbers of any length, and the parser here has not
    for (const char *at = text; *at != '\0' && status == MT_OK; at++) {
        bool line_end = lines && *at == '\n';
        count += line_end ? 1 : 0;
        digits = isdigit((unsigned char)*at) ? digits + 1 : 0;
        if (digits < MOST_DIGITS) status = mt_byte_list_append(&list, line_end ? "," : at, 1);
    }
    if (status == MT_OK) status = mt_byte_list_append_text(&list, "]");
    if (status == MT_OK) status = parse(row, what, mt_text_in(&list), where, &json);
    if (status == MT_OK) {
        const struct mt_json_node root = mt_json_root(&json);
        if (mt_json_count(&root) != count)
            status = mt_row_fail(row, "%s is not one value of JSON a line", what);
    }
    mt_json_free(&json);
    mt_byte_list_free(&list);
    return status;
}

static enum mt_status check_case(const struct mt_row *row, const char *name, const struct mt_json_node *one,
                                 size_t number, const struct mt_row_cases *cases)
{
    const char *input = NULL;
    const char *output = NULL;
    const char *type = NULL;
    char what[64];
    bool called = cases->function[0] != '\0';
    enum mt_status status = mt_json_expect_object(one);
    if (status == MT_OK) status = mt_json_get_string(one, "input", &input);
    if (status == MT_OK) status = mt_json_get_string(one, "output", &output);
    if (status == MT_OK) status = mt_json_get_string(one, "testtype", &type);
    if (status != MT_OK) return status;
    if (strcmp(type, called ? "functional" : "stdin") != 0)
        return mt_row_fail(row, "%s: the testtype of case %zu is '%.40s', and %s", name, number, type,
                           called ? "metadata names a function" : "metadata names no function");
    if (strlen(input) > MT_ROW_CASES_MOST_ONE || strlen(output) > MT_ROW_CASES_MOST_ONE)
        return mt_row_fail(row, "%s: case %zu is longer than %zu MiB", name, number,
                           MT_ROW_CASES_MOST_ONE >> 20);
    if (!called) return MT_OK;
    (void)snprintf(what, sizeof what, "%s: the input of case %zu", name, number);
    status = check_values(row, what, input, true);
    (void)snprintf(what, sizeof what, "%s: the output of case %zu", name, number);
    return status == MT_OK ? check_values(row, what, output, false) : status;
}

static enum mt_status check_list(const struct mt_row *row, const char *name, struct mt_text text,
                                 const struct mt_row_cases *cases, size_t *count)
{
    char where[512];
    struct mt_json json = {0};
    enum mt_status status = parse(row, name, text, where, &json);
    if (status != MT_OK) return status;
    const struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_array(&root);
    for (size_t i = 0; status == MT_OK && i < mt_json_count(&root); i++) {
        const struct mt_json_node one = mt_json_element(&root, i);
        status = check_case(row, name, &one, i + 1, cases);
        ++*count;
    }
    mt_json_free(&json);
    return status;
}

/* What the bytes take in the program of the judge, at the most: backslashes are doubled, others spelled out.
 */
static size_t in_program(struct mt_text text)
{
    size_t bytes = text.bytes;
    for (size_t i = 0; i < text.bytes; i++) {
        char byte = text.text[i];
        if (byte == '\\')
            bytes++;
        else if (byte < ' ' || byte > '~' || byte == '\'')
            bytes += 3;
    }
    return bytes;
}

/* The private cases, unpacked. */
static enum mt_status check_packed(const struct mt_row *row, const struct mt_row_cases *cases, size_t *count)
{
    bool whole = false;
    struct mt_byte_list pickle = {.ctx = row->ctx};
    enum mt_status status = unpack(row, cases->private_cases, cases->end + PICKLE_TAIL, &pickle, &whole);
    if (status == MT_OK && pickle.count < cases->end) status = fail(row, "is cut off");
    if (status == MT_OK && (!whole || !ends_well(&pickle, cases->end)))
        status = fail(row, "does not unpack to a pickle of one text");
    if (status == MT_OK) {
        struct mt_text text = mt_text_in(&pickle);
        text.bytes = cases->end;
        status = check_list(row, "private_test_cases", mt_text_from(text, cases->begin), cases, count);
    }
    mt_byte_list_free(&pickle);
    return status;
}

enum mt_status mt_row_cases_check(const struct mt_row *row)
{
    struct mt_row_cases cases;
    size_t count = 0;
    enum mt_status status = mt_row_cases_find(row, &cases);
    if (status != MT_OK) return status;
    if (in_program(cases.public_cases) + in_program(cases.private_cases) > MOST_PROGRAM)
        return mt_row_fail(row, "its cases take more than the %zu MiB that can be judged",
                           MOST_PROGRAM >> 20);
    status = check_list(row, "public_test_cases", cases.public_cases, &cases, &count);
    if (status == MT_OK && cases.end > 0) status = check_packed(row, &cases, &count);
    if (status == MT_OK && cases.end == 0)
        status = check_list(row, "private_test_cases", cases.private_cases, &cases, &count);
    if (status == MT_OK && count == 0) status = mt_row_fail(row, "there are no test cases");
    return status;
}
