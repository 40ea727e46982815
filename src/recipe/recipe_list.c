/* Names to recipes, and mixtures to their sources. */
#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"
#include "formats/text/yaml_name.h"
#include "recipe/recipe.h"

#define MOST_DEPTH  8 // of mixtures in mixtures
#define MOST_LEAVES 1024

static enum mt_status refuse(struct mt_context *ctx, const char *folder, const char *name)
{
    if (mt_yaml_is_path(name)) return mt_fail(ctx, MT_ERR_USAGE, "%s: is not there", mt_printable(name).text);
    return mt_yaml_refuse(ctx, "recipe", folder, name);
}

/* `beside` is the folder of the file that names it, NULL: nobody does. */
static enum mt_status resolve(struct mt_context *ctx, const char *folder, const char *beside,
                              const char *name, int depth, struct mt_arena *arena,
                              const struct mt_recipe **recipe)
{
    char path[MT_YAML_PATH_BYTES];
    char own[MT_YAML_PATH_BYTES];
    enum mt_status status = MT_OK;
    if (depth > MOST_DEPTH)
        return mt_fail(ctx, MT_ERR_USAGE, "recipe '%s': mixtures contain each other",
                       mt_printable(name).text);
    if (!(beside != NULL && mt_yaml_find(beside, name, path)) && !mt_yaml_find(folder, name, path))
        return refuse(ctx, folder, name);
    struct mt_recipe *made = mt_arena_array(arena, 1, sizeof *made, &status);
    if (status == MT_OK) status = mt_recipe_read(ctx, path, NULL, 0, arena, made);
    const char *slash = strrchr(path, '/');
    (void)snprintf(own, sizeof own, "%.*s", slash != NULL ? (int)(slash - path) : 1,
                   slash != NULL ? path : ".");
    for (size_t i = 0; status == MT_OK && i < made->source_count; i++)
        status = resolve(ctx, folder, own, made->sources[i].name, depth + 1, arena, &made->sources[i].recipe);
    *recipe = made;
    return status;
}

static enum mt_status collect(const struct mt_recipe *recipe, struct mt_arena *arena,
                              const struct mt_recipe **leaves, size_t *count)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < recipe->source_count && status == MT_OK; i++)
        status = collect(recipe->sources[i].recipe, arena, leaves, count);
    if (recipe->sources != NULL) return status;
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(leaves[i]->name, recipe->name) == 0)
            return mt_fail(arena->ctx, MT_ERR_USAGE,
                           "recipe %s is in the mixture twice, so its rows would be, too", recipe->name);
    }
    if (*count == MOST_LEAVES)
        return mt_fail(arena->ctx, MT_ERR_USAGE, "the mixture has more than %d sources", MOST_LEAVES);
    leaves[(*count)++] = recipe;
    return MT_OK;
}

enum mt_status mt_recipe_leaves(const struct mt_recipe *recipe, struct mt_arena *arena,
                                const struct mt_recipe *const **leaves, size_t *count)
{
    enum mt_status status = MT_OK;
    const struct mt_recipe **made = mt_arena_array(arena, MOST_LEAVES, sizeof(void *), &status);
    *leaves = made;
    *count = 0;
    return status == MT_OK ? collect(recipe, arena, made, count) : status;
}

enum mt_status mt_recipe_resolve(struct mt_context *ctx, const char *folder, const char *name,
                                 struct mt_arena *arena, const struct mt_recipe **recipe)
{
    const struct mt_recipe *const *leaves = NULL;
    size_t count = 0;
    enum mt_status status = resolve(ctx, folder, NULL, name, 0, arena, recipe);
    return status == MT_OK ? mt_recipe_leaves(*recipe, arena, &leaves, &count) : status;
}
