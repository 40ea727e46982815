/* Trials as programs: the Python of src/eval/python with the texts at its end. */
#include "eval/code_trial.h"

#include <stdio.h>

#include "eval/code_python.h"

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

enum mt_status mt_code_trial_program(const struct mt_code_trial *trial, struct mt_byte_list *text)
{
    // An answer without a program must not pass as one that does nothing.
    if (trial->part[MT_TRIAL_ANSWER].bytes == 0)
        return mt_byte_list_append_text(text, "raise SystemExit(1)\n");
    const char *const before[] = {mt_python_wire, mt_python_answer, "\nServer().run("};
    enum mt_status status = MT_OK;
    for (int i = 0; i < 3 && status == MT_OK; i++) status = mt_byte_list_append_text(text, before[i]);
    if (status == MT_OK) status = append_literal(text, &trial->part[MT_TRIAL_ANSWER]);
    return status == MT_OK ? mt_byte_list_append_text(text, ")\n") : status;
}

enum mt_status mt_code_trial_judge(const struct mt_code_trial *trial, struct mt_byte_list *text)
{
    static const enum mt_trial_part parts[] = {MT_TRIAL_GIVEN, MT_TRIAL_TESTS, MT_TRIAL_CALLS};
    const char *const before[] = {mt_python_wire, mt_python_tests, "\njudge("};
    enum mt_status status = MT_OK;
    for (int i = 0; i < 3 && status == MT_OK; i++) status = mt_byte_list_append_text(text, before[i]);
    for (int i = 0; i < 3 && status == MT_OK; i++) {
        status = append_literal(text, &trial->part[parts[i]]);
        if (status == MT_OK) status = mt_byte_list_append_text(text, i < 2 ? ", " : ")\n");
    }
    return status;
}
