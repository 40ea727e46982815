/* Texts for LaTeX. */
#include "formats/text/utf8.h"
#include "report/output.h"

// What LaTeX's own fonts cannot set as it stands, and how they can.
static const struct replacement {
    uint32_t character;
    const char *command;
} replacements[] = {
    {'\\', "\\textbackslash{}"},
    {'{', "\\{"},
    {'}', "\\}"},
    {'$', "\\$"},
    {'&', "\\&"},
    {'#', "\\#"},
    {'%', "\\%"},
    {'_', "\\_"},
    {'^', "\\textasciicircum{}"},
    {'~', "\\textasciitilde{}"},
    {'<', "\\textless{}"},
    {'>', "\\textgreater{}"},
    {'|', "\\textbar{}"},
    {'"', "''"},
    {'`', "{`}"},
    {0xD7, "$\\times$"},
    {0xB1, "$\\pm$"},
    {0xB2, "$^2$"},
    {0xB7, "$\\cdot$"},
    {0xF7, "$\\div$"},
    {0x394, "$\\Delta$"},
    {0x3A3, "$\\Sigma$"},
    {0x3B1, "$\\alpha$"},
    {0x3B2, "$\\beta$"},
    {0x3B3, "$\\gamma$"},
    {0x3BB, "$\\lambda$"},
    {0x3BC, "$\\mu$"},
    {0x3C3, "$\\sigma$"},
    {0x2013, "--"},
    {0x2014, "---"},
    {0x2018, "`"},
    {0x2019, "'"},
    {0x201C, "``"},
    {0x201D, "''"},
    {0x2026, "\\dots{}"},
    {0x2190, "$\\leftarrow$"},
    {0x2191, "$\\uparrow$"},
    {0x2192, "$\\rightarrow$"},
    {0x2193, "$\\downarrow$"},
    {0x2211, "$\\sum$"},
    {0x2212, "$-$"},
    {0x221E, "$\\infty$"},
    {0x2248, "$\\approx$"},
    {0x2260, "$\\neq$"},
    {0x2264, "$\\leq$"},
    {0x2265, "$\\geq$"},
};

enum { REPLACEMENTS = sizeof replacements / sizeof replacements[0] };

/* Letters that LaTeX makes of a plain one and an accent in any encoding of fonts. */
static bool is_accented(uint32_t character)
{
    return character >= 0xC0 && character <= 0xFF && (character & 0xDFu) != 0xD0 &&
           (character & 0xDFu) != 0xDE;
}

static const char *command_of(uint32_t character)
{
    for (int i = 0; i < REPLACEMENTS; i++) {
        if (replacements[i].character == character) return replacements[i].command;
    }
    return NULL;
}

void mt_put_latex(struct mt_output *out, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    while (*at != '\0') {
        size_t bytes = 0;
        uint32_t character = mt_utf8_decode(at, &bytes);
        const char *command = command_of(character);
        if (character == '-' && at[1] == '-') {
            mt_put(out, "-{}"); // two of them would become a dash
        } else if (command != NULL) {
            mt_put(out, command);
        } else if (character < 0x20 || character == 0x7F || character == 0xA0) {
            mt_put(out, " ");
        } else if (character < 0x7F || is_accented(character)) {
            mt_put_bytes(out, at, bytes);
        } else {
            mt_putf(out, "[U+%04X]", (unsigned)character);
        }
        at += bytes;
    }
}
