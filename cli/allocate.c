/* adloader allocate: the allocator and placement as a pure function of a document, for what-if. */
#include "config.h"

#include "cli.h"
#include "number.h"
#include "place.h"
#include "strict.h"
#include "table.h"
#include "whatif.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- what moved between whom --------------------------------------------------------------- */

static unsigned count_of(const struct cpus *a, const struct cpus *b, bool inside)
{
    unsigned n = 0;

    for (long c = cpus_next(a, 0); c >= 0; c = cpus_next(a, (unsigned long)c + 1))
        n += cpus_isset(b, (unsigned)c) == inside;
    return n;
}

static unsigned borrowed(const struct whatif_member *m)
{
    return count_of(&m->cpus, &m->claim, false);
}

/* Of its own loader cores, those in use by others. */
static unsigned lent(const struct whatif *w, const struct whatif_member *m)
{
    const struct whatif_node *node = &w->nodes[m->node];
    unsigned n = 0;

    for (size_t k = 0; k < node->nmembers; k++) {
        const struct whatif_member *other = &w->members[w->by_node[node->first + k]];

        if (other != m)
            n += count_of(&m->claim, &other->cpus, true);
    }
    return n;
}

/* ---- for people ---------------------------------------------------------------------------- */

static void table_cpus(struct table *table, const struct cpus *cpus)
{
    char *text = cpus_to_string(cpus);

    table_cell(table, text);
    free(text);
}

static int print_table(const struct whatif *w)
{
    static const struct table_column columns[] = {
        {"MEMBER", false},   {"NODE", false},    {"OWN", true},       {"CORES", true},
        {"LENT", true},      {"BORROWED", true}, {"RATE", true},      {"RATE-OWN", true},
        {"RATE-EVEN", true}, {"GPU-BUSY", true}, {"GPU-LOCAL", true}, {"FLOOR", false},
        {"MAIN", false},     {"CPUS", false}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

    for (size_t i = 0; i < w->nmembers; i++) {
        const struct whatif_member *m = &w->members[i];

        table_cell(table, m->id);
        table_cell(table, w->nodes[m->node].name);
        table_number(table, w->input[i].own, 0);
        table_number(table, m->cores, 0);
        table_number(table, lent(w, m), 0);
        table_number(table, borrowed(m), 0);
        table_number(table, m->rate_now, 1);
        table_number(table, m->rate_own, 1);
        table_number(table, m->rate_even, 1);
        table_cellf(table, "%.1f%%", 100 * m->rate_now / m->gpu_rate);
        if (isnan(m->local))
            table_cell(table, NULL);
        else
            table_cellf(table, "%.0f%%", 100 * m->local);
        table_cell(table, m->floor_kept ? "kept" : "missed");
        table_cpus(table, &m->main);
        table_cpus(table, &m->cpus);
    }
    int result = table_print(table, stdout);
    table_free(table);
    return result;
}

static const char *value_unit(enum alloc_policy policy)
{
    switch (policy) {
    case ALLOC_NASH:
        return "sum of weight x log of samples/s";
    case ALLOC_MAX_MIN:
        return "lowest share of a GPU's time that is busy";
    case ALLOC_MAKESPAN:
        return "lowest samples/s over samples left, 1/s";
    case ALLOC_GPU_BUSY:
    case ALLOC_EVEN:
    case ALLOC_STATIC:
        break;
    }
    return "GPUs kept busy, by weight";
}

static int print_people(const struct whatif *w)
{
    const struct alloc_result *r = &w->result;

    if (print_table(w) < 0)
        return CLI_FAILURE;
    printf("\nPolicy %s, guarantee %s: value %.6g (%s)", alloc_policy_name(w->policy),
           alloc_guarantee_name(w->guarantee), r->value, value_unit(w->policy));
    if (w->policy != ALLOC_EVEN && w->policy != ALLOC_STATIC) {
        if (r->upper_bound <= r->value + 1e-9 * fabs(r->value))
            printf(", the optimum");
        else if (r->kept && r->moves == 0)
            printf(", at most %.6g; not worth moving anything", r->upper_bound);
        else
            printf(", at most %.6g", r->upper_bound);
    }
    printf(". Moves: %u cores.\n", r->moves);
    return CLI_OK;
}

/* ---- for programs -------------------------------------------------------------------------- */

static void add_cpus(struct json_object *object, const char *key, const struct cpus *cpus)
{
    char *text = cpus_to_string(cpus);

    json_object_object_add(object, key, json_object_new_string(text != NULL ? text : ""));
    free(text);
}

static void add_number(struct json_object *object, const char *key, double value)
{
    json_object_object_add(object, key, number_json(value));
}

static void add_count(struct json_object *object, const char *key, unsigned value)
{
    json_object_object_add(object, key, json_object_new_int64(value));
}

static struct json_object *member_document(const struct whatif *w, size_t i)
{
    const struct whatif_member *m = &w->members[i];
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "id", json_object_new_string(m->id));
    json_object_object_add(object, "job", json_object_new_string(m->job));
    json_object_object_add(object, "node", json_object_new_string(w->nodes[m->node].name));
    add_count(object, "loader_cores", m->cores);
    add_count(object, "own_loader_cores", w->input[i].own);
    add_cpus(object, "cpus", &m->cpus);
    add_cpus(object, "main_cpus", &m->main);
    add_number(object, "rate_samples_per_s", m->rate_now);
    add_number(object, "rate_own_samples_per_s", m->rate_own);
    add_number(object, "rate_even_samples_per_s", m->rate_even);
    add_number(object, "gpu_busy_share", m->rate_now / m->gpu_rate);
    add_number(object, "gpu_local_share", m->local);
    json_object_object_add(object, "floor_kept", json_object_new_boolean(m->floor_kept));
    add_count(object, "lent", lent(w, m));
    add_count(object, "borrowed", borrowed(m));
    return object;
}

static int print_document(const struct whatif *w)
{
    struct json_object *document = json_object_new_object(), *members = json_object_new_array();

    json_object_object_add(document, "policy",
                           json_object_new_string(alloc_policy_name(w->policy)));
    json_object_object_add(document, "guarantee",
                           json_object_new_string(alloc_guarantee_name(w->guarantee)));
    for (size_t i = 0; i < w->nmembers; i++)
        json_object_array_add(members, member_document(w, i));
    json_object_object_add(document, "members", members);
    add_number(document, "value", w->result.value);
    add_number(document, "upper_bound", w->result.upper_bound);
    add_number(document, "value_now", w->result.value_now);
    add_count(document, "moves", w->result.moves);
    json_object_object_add(document, "kept", json_object_new_boolean(w->result.kept));
    int status = cli_print_json(document);
    json_object_put(document);
    return status;
}

/* ---- the subcommand ------------------------------------------------------------------------ */

static const char *tables_folder(const struct cli *cli)
{
    const char *given = cli_value(cli, "tables");

    return given != NULL ? given : ADL_DATADIR;
}

static int run(const struct cli *cli)
{
    char error[1024] = "";
    size_t length = 0;
    char *text = strict_read(cli->argv[0], &length, error, sizeof(error));
    struct whatif *w = NULL;
    int status = CLI_FAILURE;

    if (text != NULL)
        w = whatif_read(text, length, tables_folder(cli), error, sizeof(error));
    if (w == NULL || whatif_solve(w, error, sizeof(error)) < 0)
        cli_error("%s", error);
    else
        status = cli->json ? print_document(w) : print_people(w);
    whatif_free(w);
    free(text);
    return status;
}

static const struct cli_option options[] = {
    {"tables", "FOLDER", "where models.csv and gpus.csv are"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_allocate = {
    .name = "allocate",
    .arguments = "FILE",
    .summary = "Divide cores between the members that FILE describes (what-if)",
    .text = "FILE is a JSON document, see adloader-allocate(5); - is standard input.\n"
            "Nothing is asked of the controller, and nothing is changed.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
