/* The verbs, in the order --help lists them. */
#include "cli/verbs.h"

const struct cli_verb cli_verbs[] = {
    {
        .name = "devices",
        .summary = "what can compute here, and with which kernels",
        .arguments = "",
        .examples = "  metier devices\n  METIER_CPU_LEVEL=v3 metier devices --threads 1",
        .run = cli_devices,
    },
    {
        .name = "tokenize",
        .summary = "text to token ids, and back",
        .arguments = "DIR",
        .details =
            "DIR holds tokenizer.json or tiktoken.model, or is one of these files. The whole of FILE is one\n"
            "text; its ids go to standard output, one per line. Special tokens spelled out in the text "
            "become\n"
            "their ids; those the tokenizer puts around a text are added only with --special. Bytes that "
            "are\n"
            "not UTF-8 count as U+FFFD.",
        .examples = "  metier tokenize models/moe --file letter.txt --special\n"
                    "  metier tokenize models/moe --file - --count < letter.txt\n"
                    "  metier tokenize models/moe --file ids.txt --decode",
        .run = cli_tokenize,
    },
    {0},
};
