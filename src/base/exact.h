/* Numbers as text that gives the same number again. */
#ifndef MT_BASE_EXACT_H
#define MT_BASE_EXACT_H

#define MT_EXACT_BYTES 32 // room for any double

/* The shortest of 15 to 17 digits that reads back as the same double. Returns text. */
const char *mt_exact_text(double number, char text[MT_EXACT_BYTES]);

#endif
