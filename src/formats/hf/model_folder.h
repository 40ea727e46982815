/*
 * Folders that come from elsewhere: models, adapters, tokenizers. Nothing is downloaded here, and people give
 * names of the Hugging Face hub where a folder is wanted.
 */
#ifndef MT_FORMATS_MODEL_FOLDER_H
#define MT_FORMATS_MODEL_FOLDER_H

#include "metier/context.h"

/*
 * Refuses a path that is not there, with the command that fetches a folder: in full where the path reads like
 * a name of the hub ("org/name", or its address).
 */
enum mt_status mt_model_folder_check(struct mt_context *ctx, const char *path);

/* The path of a file in a folder that passed; the caller releases it with mt_path_release. */
enum mt_status mt_model_folder_file(struct mt_context *ctx, const char *folder, const char *name,
                                    char **path);

#endif
