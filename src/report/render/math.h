/*
 * Texts with formulas. What stands between two dollar signs and is of the part of TeX below is a formula:
 * MathML in HTML, TeX in LaTeX and Markdown. Everything else, a formula of other TeX included, is text and
 * escaped as such, so that no text can do harm.
 *
 *     x 12 + ( ) [ ] | , = < > and so on       letters, numbers, signs
 *     x_i  x^2  x_{ij}  x_i^2                   below and above
 *     {...}  \frac{a}{b}  \sqrt{a}  \bar{a}     groups
 *     \text{of all}  \operatorname{var}         words
 *     \alpha  \sum  \cdot  \max  \lVert ...     signs with names: the table in math.c
 */
#ifndef MT_REPORT_RENDER_MATH_H
#define MT_REPORT_RENDER_MATH_H

#include "report/output.h"

void mt_put_html_math(struct mt_output *out, const char *text);
void mt_put_latex_math(struct mt_output *out, const char *text);
void mt_put_markdown_math(struct mt_output *out, const char *text);

#endif
