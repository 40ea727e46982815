/* Domains: built-in ones, files, recipes, and mixes of these. */
#include <stddef.h>
#include <string.h>

#include "compare/settings/settings_read.h"
#include "formats/text/printable.h"
#include "synth/synth.h"

#define DOMAIN(field) offsetof(struct mt_compare_domain, field)

// ------------------------------------------------------------------ one domain

static enum mt_status read_parts(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target);
static enum mt_status add_weight(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target);

static const struct mt_key_row domain_rows[] = {
    {"name", MT_KEY_NAME, DOMAIN(name), "NAME", "required",
     .meaning = "name of the domain, usable as a file name"},
    {"train", MT_KEY_NAME, DOMAIN(train), "FILE", "required", .meaning = "examples to train on"},
    {"recipe", MT_KEY_NAME, DOMAIN(recipe), "NAME", "required",
     .meaning = "instead of train: a recipe that makes the examples (metier recipe --list)"},
    {"test", MT_KEY_NAME, DOMAIN(test), "FILE", "required",
     .meaning = "examples to measure with; default: a held-out share of train"},
    {"of", MT_KEY_OWN, 0, "LIST OF DOMAINS", "none",
     .meaning = "for a mix: domains to train on at once and measure separately; names or maps",
     .set = read_parts},
    {"weights", MT_KEY_EACH, 0, "NUMBERS > 0", "1 each",
     .meaning = "for a mix: how often an epoch draws each row of a part", .set = add_weight},
    {"tasks", MT_KEY_LIST, DOMAIN(tasks), "LIST OF TASKS", "all",
     .meaning = "entries of tasks for the cells of this domain"},
    {0},
};

static const struct mt_key_part domain_parts[] = {{.rows = domain_rows}, {0}};
const struct mt_keys mt_compare_domain_keys = {.parts = domain_parts, .what = "a domain has"};

/* What stands in a map that cannot be there. */
static enum mt_status check_map(const struct mt_keys_reader *members, const struct mt_key_entry *entry,
                                const struct mt_compare_domain *domain)
{
    const char *made = domain->train != NULL ? "train" : "recipe";
    const char *rows = domain->train != NULL ? domain->train : domain->recipe;
    const struct mt_key_entry *weights = mt_keys_given(members, "weights");
    const struct mt_key_entry *own = mt_keys_given(members, "train|recipe|test");
    if (domain->mix && domain->name == NULL) return mt_key_fail(members, entry, NULL, "a mix needs a name");
    if (domain->mix && own != NULL)
        return mt_key_fail(members, own, NULL, "a mix has no key '%s': its parts do", own->name);
    if (domain->mix && weights != NULL && domain->weights != domain->parts)
        return mt_key_fail(members, weights, NULL, "weights has %zu values, and the mix %s %zu parts",
                           domain->weights, domain->name, domain->parts);
    if (domain->mix) return MT_OK;
    if (weights != NULL)
        return mt_key_fail(members, weights, NULL, "weights means nothing without of: only a mix has parts");
    if (!domain->trained && rows != NULL)
        return mt_key_fail(members, mt_keys_given(members, made), NULL,
                           "a domain of others has no key '%s'; expected name, test", made);
    if (domain->train != NULL && domain->recipe != NULL)
        return mt_key_fail(members, mt_keys_given(members, "recipe"), NULL,
                           "a domain has one of train and recipe");
    if (domain->name == NULL || (domain->trained ? rows : domain->test) == NULL)
        return mt_key_fail(members, entry, NULL, "a domain of files needs name, %s",
                           domain->trained ? "train or recipe" : "test");
    return MT_OK;
}

static enum mt_status read_domain_map(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                      struct mt_compare_domain *domain)
{
    struct mt_keys_reader members = mt_keys_reader_within(reader, &mt_compare_domain_keys, domain);
    enum mt_status status = mt_keys_read_map(&members, entry->node, entry->word);
    if (status != MT_OK) return status;
    if (!domain->trained && domain->mix)
        return mt_key_fail(reader, mt_keys_given(&members, "of"), NULL,
                           "a domain of others has no key 'of': they are measured apart anyway");
    if (!domain->trained && domain->tasks != NULL)
        return mt_key_fail(reader, mt_keys_given(&members, "tasks"), NULL,
                           "a domain of others has no key 'tasks': nothing is trained on it");
    status = check_map(&members, entry, domain);
    if (status != MT_OK) return status;
    return mt_compare_check_name(reader, mt_keys_given(&members, "name"), "name", domain->name);
}

static bool is_built_in(const char *name)
{
    enum mt_task_domain known;
    return mt_synth_domain(name, &known);
}

static enum mt_status refuse_name(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  const char *name, bool trained)
{
    return mt_key_fail(reader, entry, NULL,
                       "there is no built-in domain '%s': language, reasoning, science, math, "
                       "code; or give {name: N, %s: FILE}",
                       name, trained ? "train" : "test");
}

enum mt_status mt_compare_add_domain(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     void *target)
{
    struct mt_compare_settings *settings = target;
    struct mt_compare_domain domain = {.trained = strcmp(entry->name, "domains") == 0};
    enum mt_status status = MT_OK;
    if (settings->domains == MT_COMPARE_MOST_DOMAINS)
        return mt_key_fail(reader, entry, NULL, "more than %d domains", MT_COMPARE_MOST_DOMAINS);
    if (entry->node->kind == MT_YAML_MAP) {
        status = read_domain_map(reader, entry, &domain);
    } else {
        status = mt_compare_read_name(reader, entry, "a domain", entry->node, &domain.name);
        if (status == MT_OK && !is_built_in(domain.name))
            status = refuse_name(reader, entry, domain.name, domain.trained);
    }
    if (status != MT_OK) return status;
    for (size_t i = 0; i < settings->domains; i++) {
        if (strcmp(settings->domain[i].name, domain.name) == 0)
            return mt_key_fail(reader, entry, NULL, "the domain %s comes twice", domain.name);
    }
    settings->domain[settings->domains++] = domain;
    if (domain.trained) settings->trained++;
    return MT_OK;
}

// ------------------------------------------------------------------ mixes

/* A part as its mix names it: a name, which may be that of any domain, or a map. */
static enum mt_status read_part(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                struct mt_compare_domain *part)
{
    *part = (struct mt_compare_domain){.trained = true};
    if (entry->node->kind != MT_YAML_MAP)
        return mt_compare_read_name(reader, entry, "a part of a mix", entry->node, &part->name);
    enum mt_status status = read_domain_map(reader, entry, part);
    if (status != MT_OK) return status;
    if (part->mix) return mt_key_fail(reader, entry, NULL, "a mix of mixes: name the parts themselves");
    if (part->tasks != NULL)
        return mt_key_fail(reader, entry, NULL, "a part of a mix has no key 'tasks': the mix does");
    return MT_OK;
}

static enum mt_status read_parts(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target)
{
    struct mt_compare_domain *domain = target;
    const struct mt_yaml_node *node = entry->node;
    enum mt_status status = MT_OK;
    if (node->kind != MT_YAML_LIST || node->count == 0)
        return mt_key_fail(reader, entry, NULL, "of is %s, expected a list of domains",
                           node->kind == MT_YAML_LIST ? "empty" : mt_yaml_kind_text(node));
    if (node->count > MT_COMPARE_MOST_DOMAINS)
        return mt_key_fail(reader, entry, NULL, "a mix of more than %d domains", MT_COMPARE_MOST_DOMAINS);
    struct mt_compare_domain *parts = mt_arena_array(reader->arena, node->count, sizeof *parts, &status);
    const struct mt_yaml_node *item = node->first;
    for (size_t i = 0; i < node->count && status == MT_OK; i++, item = item->next) {
        struct mt_key_entry element = *entry;
        element.node = item;
        domain->weight[i] = 1.0; // weights, which come later, replace it
        status = read_part(reader, &element, &parts[i]);
        for (size_t k = 0; k < i && status == MT_OK; k++) {
            if (strcmp(parts[k].name, parts[i].name) == 0)
                status = mt_key_fail(reader, &element, NULL, "a mix has %s twice", parts[i].name);
        }
    }
    domain->mix = true;
    domain->of = parts;
    domain->parts = node->count;
    return status;
}

static enum mt_status add_weight(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_NUMBER, .values = "NUMBERS > 0", .most = 1e6};
    struct mt_compare_domain *domain = target;
    struct mt_key_entry element = *entry;
    element.row = &row;
    if (domain->weights == MT_COMPARE_MOST_DOMAINS)
        return mt_key_fail(reader, entry, NULL, "weights has more than %d values", MT_COMPARE_MOST_DOMAINS);
    return mt_key_store(reader, &element, &domain->weight[domain->weights++]);
}

/* The domains in their order, in the making. */
struct arranging {
    const struct mt_keys_reader *reader;
    struct mt_compare_domain domain[MT_COMPARE_MOST_DOMAINS];
    size_t count;
};

static size_t place_of(const struct arranging *all, const char *name)
{
    size_t place = 0;
    while (place < all->count && strcmp(all->domain[place].name, name) != 0) place++;
    return place;
}

static enum mt_status append_domain(struct arranging *all, const struct mt_compare_domain *domain)
{
    if (all->count == MT_COMPARE_MOST_DOMAINS)
        return mt_key_fail(all->reader, mt_keys_given(all->reader, "domains"), NULL,
                           "more than %d domains, with the parts of mixes", MT_COMPARE_MOST_DOMAINS);
    all->domain[all->count++] = *domain;
    return MT_OK;
}

/* The place of a part, which is added where no domain has its name. */
static enum mt_status place_part(struct arranging *all, const struct mt_compare_domain *mix,
                                 const struct mt_compare_domain *part, size_t *place)
{
    const struct mt_key_entry *key = mt_keys_given(all->reader, "domains");
    bool map = part->train != NULL || part->recipe != NULL;
    *place = place_of(all, part->name);
    bool found = *place < all->count;
    if (found && map) return mt_key_fail(all->reader, key, NULL, "the domain %s comes twice", part->name);
    if (found && all->domain[*place].mix)
        return mt_key_fail(all->reader, key, NULL,
                           "the mix %s has the part %s, which is a mix: name the parts themselves", mix->name,
                           part->name);
    if (found) return MT_OK;
    if (!map && !is_built_in(part->name)) return refuse_name(all->reader, key, part->name, true);
    return append_domain(all, part);
}

enum mt_status mt_compare_arrange_domains(const struct mt_keys_reader *reader)
{
    struct mt_compare_settings *settings = reader->target;
    struct arranging all = {.reader = reader};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->trained; i++) all.domain[all.count++] = settings->domain[i];
    for (size_t i = 0; i < settings->trained && status == MT_OK; i++) {
        struct mt_compare_domain *mix = &all.domain[i];
        for (size_t k = 0; mix->mix && k < mix->parts && status == MT_OK; k++)
            status = place_part(&all, mix, &mix->of[k], &mix->part[k]);
        mix->of = NULL;
    }
    for (size_t i = settings->trained; i < settings->domains && status == MT_OK; i++) {
        const struct mt_compare_domain *other = &settings->domain[i];
        if (place_of(&all, other->name) < all.count)
            status = mt_key_fail(reader, mt_keys_given(reader, "others"), NULL,
                                 "the domain %s comes twice: it is part of a mix, and measured as such",
                                 other->name);
        if (status == MT_OK) status = append_domain(&all, other);
    }
    if (status != MT_OK) return status;
    for (size_t i = 0; i < all.count; i++) {
        struct mt_compare_domain *domain = &all.domain[i];
        if (domain->mix) continue;
        domain->part[0] = i;
        domain->weight[0] = 1.0;
        domain->parts = 1;
    }
    memcpy(settings->domain, all.domain, sizeof settings->domain);
    settings->domains = all.count;
    return MT_OK;
}

const size_t *mt_compare_parts(const struct mt_compare_settings *settings, size_t domain, size_t *count)
{
    *count = settings->domain[domain].parts;
    return settings->domain[domain].part;
}

bool mt_compare_is_part(const struct mt_compare_settings *settings, size_t domain, size_t part)
{
    bool found = false;
    for (size_t i = 0; i < settings->domain[domain].parts; i++)
        found = found || settings->domain[domain].part[i] == part;
    return found;
}

bool mt_compare_has_mix(const struct mt_compare_settings *settings)
{
    bool found = false;
    for (size_t d = 0; d < settings->trained; d++) found = found || settings->domain[d].mix;
    return found;
}
