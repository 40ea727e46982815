/* Trials as programs: the Python of src/eval/python with the texts at its end. */
#include "eval/code/code_trial.h"

#include <stdio.h>

#include "eval/code/code_python.h"

/* Appends bytes as Python writes them: b'...'. */
static enum mt_status append_literal(struct mt_byte_list *text, const struct mt_text *bytes)
{
    enum mt_status status = mt_byte_list_append_text(text, "b'");
    for (size_t i = 0; i < bytes->bytes && status == MT_OK; i++) {
        char byte = bytes->text[i];
        char escaped[8];
        bool plain = byte >= ' ' && byte <= '~' && byte != '\'' && byte != '\\';
        if (plain) status = mt_byte_list_append(text, &byte, 1);
        if (plain) continue;
        (void)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)(unsigned char)byte);
        status = mt_byte_list_append_text(text, escaped);
    }
    return status == MT_OK ? mt_byte_list_append_text(text, "'") : status;
}

/* The Python of one side, then its texts by name, each on a line of its own: tracebacks quote lines. */
static enum mt_status append_program(struct mt_byte_list *text, const char *python,
                                     const struct mt_code_trial *trial,
                                     const char *const names[MT_TRIAL_PARTS], const char *last_line)
{
    enum mt_status status = mt_byte_list_append_text(text, mt_python_wire);
    if (status == MT_OK) status = mt_byte_list_append_text(text, python);
    for (int i = 0; i < MT_TRIAL_PARTS && status == MT_OK; i++) {
        if (names[i] == NULL) continue;
        status = mt_byte_list_append_text(text, names[i]);
        if (status == MT_OK) status = append_literal(text, &trial->part[i]);
        if (status == MT_OK) status = mt_byte_list_append_text(text, "\n");
    }
    return status == MT_OK ? mt_byte_list_append_text(text, last_line) : status;
}

enum mt_status mt_code_trial_program(const struct mt_code_trial *trial, struct mt_byte_list *text)
{
    static const char *const names[MT_TRIAL_PARTS] = {[MT_TRIAL_ANSWER] = "ANSWER = "};
    // An answer without a program must not pass as one that does nothing.
    if (trial->part[MT_TRIAL_ANSWER].bytes == 0)
        return mt_byte_list_append_text(text, "raise SystemExit(1)\n");
    return append_program(text, mt_python_answer, trial, names, "Server().run(ANSWER)\n");
}

enum mt_status mt_code_trial_judge(const struct mt_code_trial *trial, struct mt_byte_list *text)
{
    static const char *const names[MT_TRIAL_PARTS] = {
        [MT_TRIAL_GIVEN] = "GIVEN = ", [MT_TRIAL_TESTS] = "TESTS = ", [MT_TRIAL_CALLS] = "CALLS = "};
    return append_program(text, mt_python_tests, trial, names, "judge(GIVEN, TESTS, CALLS)\n");
}
