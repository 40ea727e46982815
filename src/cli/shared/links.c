/* Links by name, and what a step's messages take on each. */
#include "cli/shared/links.h"

#include <stdio.h>
#include <string.h>

#include "cli/shared/share.h"
#include "cli/shared/table.h"
#include "formats/keys/keys.h"
#include "formats/text/printable.h"

#define AT(field) offsetof(struct cli_link, field)

static const struct mt_key_row rows[] = {
    {"bandwidth", MT_KEY_NUMBER, AT(gigabytes), "NUMBER > 0", "required", .most = 1e6,
     .meaning = "GB/s that one card sends, in one direction"},
    {"latency", MT_KEY_NUMBER, AT(microseconds), "NUMBER >= 0", "required", .most = 1e6,
     .meaning = "microseconds of a message"},
    {"source", MT_KEY_NAME, AT(source), "TEXT", "required", .meaning = "where the numbers are from"},
    {0},
};
static const struct mt_key_part parts[] = {{.rows = rows}, {0}};
static const struct mt_keys keys = {.parts = parts, .what = "a link has"};

static enum mt_status read_rows(struct mt_context *ctx, struct mt_arena *arena, struct cli_links *links)
{
    struct mt_yaml_node *root = NULL;
    enum mt_status status = mt_yaml_read(ctx, links->file, &mt_yaml_file_limits, arena, &root);
    if (status != MT_OK) return status;
    if (root->kind != MT_YAML_MAP || root->count == 0)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "%s: expected links by name: {bandwidth: GB/s, latency: microseconds, "
                       "source: TEXT}",
                       links->file);
    links->list = mt_arena_array(arena, root->count, sizeof *links->list, &status);
    for (const struct mt_yaml_node *node = root->first; node != NULL && status == MT_OK; node = node->next) {
        struct cli_link *link = &links->list[links->count++];
        struct mt_keys_reader reader = {
            .ctx = ctx, .arena = arena, .file = links->file, .keys = &keys, .target = link};
        link->name = node->key;
        if (node->kind != MT_YAML_MAP)
            return mt_fail(ctx, MT_ERR_USAGE,
                           "%s:%d: %s is %s, expected {bandwidth: ..., latency: ..., source: ...}",
                           links->file, node->line, mt_printable(node->key).text, mt_yaml_kind_text(node));
        status = mt_keys_read_map(&reader, node, NULL);
        bool whole = link->gigabytes > 0.0 && link->source != NULL;
        if (status == MT_OK && (!whole || mt_keys_given(&reader, "latency") == NULL))
            return mt_fail(ctx, MT_ERR_USAGE, "%s:%d: %s needs bandwidth, latency and source", links->file,
                           node->line, mt_printable(node->key).text);
    }
    return status;
}

enum mt_status cli_links_read(struct mt_context *ctx, struct mt_arena *arena, const char *file,
                              struct cli_links *links)
{
    *links = (struct cli_links){.file = file};
    enum mt_status status = MT_OK;
    if (file == NULL) {
        char path[1024];
        const char *folder = NULL;
        status = cli_find_share(arena, "plan", "the table of links", &folder);
        if (status != MT_OK) return status;
        (void)snprintf(path, sizeof path, "%s/links.yaml", folder);
        status = mt_arena_copy_text(arena, path, strlen(path), &links->file);
    }
    return status == MT_OK ? read_rows(ctx, arena, links) : status;
}

static struct mt_wire wire_of(const struct cli_link *link)
{
    return (struct mt_wire){.bandwidth = link->gigabytes * 1e9, .latency = link->microseconds * 1e-6};
}

enum mt_status cli_links_find(struct mt_context *ctx, const struct cli_links *links, const char *option,
                              const char *name, struct mt_wire *wire)
{
    char names[512] = "";
    for (size_t i = 0; i < links->count; i++) {
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                       mt_printable(links->list[i].name).text);
        if (strcmp(links->list[i].name, name) != 0) continue;
        *wire = wire_of(&links->list[i]);
        return MT_OK;
    }
    return mt_fail(ctx, MT_ERR_USAGE, "%s is '%s', and %s has %s", option, mt_printable(name).text,
                   links->file, names);
}

enum mt_status cli_links_print(struct mt_context *ctx, const struct cli_links *links,
                               const struct mt_hf_config *config, const struct mt_layout *layout)
{
    static const struct cli_column columns[] = {
        {"  link", false}, {"GB/s", true},          {"µs", true},     {"gradients ms", true},
        {"rows ms", true}, {"statistics ms", true}, {"source", false}};
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 7);
    for (size_t i = 0; i < links->count; i++) {
        const struct cli_link *link = &links->list[i];
        struct mt_scaling s;
        // Without arithmetic nothing hides: these are the messages themselves.
        const struct mt_cluster cluster = {.flops = 1e300, .wire = wire_of(link)};
        mt_scaling_predict(config, &cluster, layout, &s);
        cli_table_add(&table, "  %s\t%g\t%g\t%.3f\t%.3f\t%.3f\t%s", link->name, link->gigabytes,
                      link->microseconds, s.gradients * 1e3, s.experts * 1e3, s.statistics * 1e3,
                      link->source);
    }
    return cli_table_print(&table, stdout);
}
