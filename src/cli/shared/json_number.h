/* A number in what --json prints. */
#ifndef CLI_JSON_NUMBER_H
#define CLI_JSON_NUMBER_H

#include <jansson.h>

/* A new value, the caller's: null for what is not finite, which JSON has no number for. */
json_t *cli_json_number(double value);

#endif
