/* Askings as JSON, both ways. */
#include "compare/asking/asked_file.h"

#include <math.h>

/* Which numbers an outcome has, by domain and over them. */
static const struct part {
    const char *key;
    size_t offset;
    bool kept; // of prune alone
} of_answer[] = {
    {"accuracy", offsetof(struct mt_cell_answer, accuracy), false},
    {"loss", offsetof(struct mt_cell_answer, loss), false},
    {"served", offsetof(struct mt_cell_answer, served), true},
};

static const struct part of_all[] = {
    {"experts", offsetof(struct mt_cell_asked, experts), false},
    {"union", offsetof(struct mt_cell_asked, together), true},
    {"jaccard", offsetof(struct mt_cell_asked, jaccard), true},
};

enum { ANSWER = sizeof of_answer / sizeof of_answer[0], ALL = sizeof of_all / sizeof of_all[0] };

static double *at(void *from, const struct part *part)
{
    return (double *)(void *)((char *)from + part->offset);
}

static bool is_asked(const struct mt_cell_answer *answer)
{
    return !isnan(answer->accuracy) || !isnan(answer->loss);
}

enum mt_status mt_cell_asked_make(const struct mt_cell_job *job, struct mt_cell_asked **asked)
{
    const struct mt_cell_answer nothing = {(double)NAN, (double)NAN, (double)NAN};
    size_t count = mt_compare_askings(job->settings);
    enum mt_status status = MT_OK;
    *asked = count > 0 ? mt_arena_array(job->arena, count, sizeof **asked, &status) : NULL;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_cell_asked *one = &(*asked)[i];
        *one = (struct mt_cell_asked){nothing, (double)NAN, (double)NAN, (double)NAN, {nothing}};
        for (size_t d = 0; d < MT_COMPARE_MOST_DOMAINS; d++) one->domain[d] = nothing;
    }
    return status;
}

// ------------------------------------------------------------------ writing

static void put_parts(struct mt_json_text *text, const struct part *part, int count, bool kept, void *from)
{
    bool first = true;
    for (int i = 0; i < count; i++) {
        if (part[i].kept && !kept) continue;
        mt_json_text_format(text, "%s\"%s\": ", first ? "" : ", ", part[i].key);
        mt_json_text_number(text, *at(from, &part[i]));
        first = false;
    }
}

static void put_one(struct mt_json_text *text, const struct mt_compare_settings *settings, bool kept,
                    struct mt_cell_asked asked)
{
    bool first = true;
    mt_json_text_format(text, "{");
    put_parts(text, of_all, ALL, kept, &asked);
    mt_json_text_format(text, ", ");
    put_parts(text, of_answer, ANSWER, kept, &asked.mean);
    mt_json_text_format(text, ", \"domains\": {");
    for (size_t d = 0; d < settings->domains; d++) {
        if (!is_asked(&asked.domain[d])) continue;
        mt_json_text_format(text, first ? "" : ", ");
        mt_json_text_string(text, settings->domain[d].name);
        mt_json_text_format(text, ": {");
        put_parts(text, of_answer, ANSWER, kept, &asked.domain[d]);
        mt_json_text_format(text, "}");
        first = false;
    }
    mt_json_text_format(text, "}}");
}

void mt_cell_asked_put(struct mt_json_text *text, const struct mt_compare_settings *settings,
                       const struct mt_cell_result *result, const char *indent)
{
    int before = -1; // the kind
    size_t count = result->asked != NULL ? mt_compare_askings(settings) : 0;
    for (size_t i = 0; i < count; i++) {
        struct mt_compare_asking asking = mt_compare_asking(settings, i);
        if ((int)asking.kind != before)
            mt_json_text_format(text, "%s,\n%s\"%s\": {\n%s ", before >= 0 ? "}" : "", indent,
                                mt_asking_key(asking.kind), indent);
        else
            mt_json_text_format(text, ",\n%s ", indent);
        before = (int)asking.kind;
        mt_json_text_string(text, asking.name);
        mt_json_text_format(text, ": ");
        put_one(text, settings, asking.kind == MT_ASK_KEPT, result->asked[i]);
    }
    if (before >= 0) mt_json_text_format(text, "}");
}

// ------------------------------------------------------------------ reading

static enum mt_status read_parts(const struct mt_json_node *object, const struct part *part, int count,
                                 bool kept, void *into)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < count && status == MT_OK; i++) {
        struct mt_json_node child;
        if (part[i].kept && !kept) continue;
        if (!mt_json_member(object, part[i].key, &child))
            return mt_json_fail(object, "has no %s", part[i].key);
        if (mt_json_kind(&child) == MT_JSON_NULL) continue; // not known
        status = mt_json_as_real(&child, -HUGE_VAL, HUGE_VAL, at(into, &part[i]));
    }
    return status;
}

static enum mt_status read_one(const struct mt_compare_settings *settings, const struct mt_json_node *object,
                               bool kept, struct mt_cell_asked *asked)
{
    struct mt_json_node domains, one;
    enum mt_status status = read_parts(object, of_all, ALL, kept, asked);
    if (status == MT_OK) status = read_parts(object, of_answer, ANSWER, kept, &asked->mean);
    if (status == MT_OK) status = mt_json_get_object(object, "domains", &domains);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++) {
        if (!mt_json_member(&domains, settings->domain[d].name, &one)) continue;
        status = read_parts(&one, of_answer, ANSWER, kept, &asked->domain[d]);
    }
    return status;
}

enum mt_status mt_cell_asked_read(const struct mt_cell_job *job, const struct mt_json_node *root,
                                  struct mt_cell_result *result)
{
    enum mt_status status = mt_cell_asked_make(job, &result->asked);
    for (size_t i = 0; i < mt_compare_askings(job->settings) && status == MT_OK; i++) {
        struct mt_compare_asking asking = mt_compare_asking(job->settings, i);
        struct mt_json_node kind, one;
        status = mt_json_get_object(root, mt_asking_key(asking.kind), &kind);
        if (status == MT_OK) status = mt_json_get_object(&kind, asking.name, &one);
        if (status == MT_OK)
            status = read_one(job->settings, &one, asking.kind == MT_ASK_KEPT, &result->asked[i]);
    }
    return status;
}
