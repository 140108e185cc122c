/* adloader status: nodes and members as the controller sees them, now. */
#include "config.h"

#include "status.h"

#include "cli.h"
#include "cpus.h"
#include "table.h"

#include <ctype.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the document ------------------------------------------------------------------------- */

const struct doc_rule status_controller_rules[] = {
    {"version", DOC_TEXT, false, NULL},         {"uptime_s", DOC_NUMBER, false, NULL},
    {"policy", DOC_TEXT, false, NULL},          {"guarantee", DOC_TEXT, false, NULL},
    {"settling", DOC_FLAG, false, NULL},        {"agents", DOC_NUMBER, false, NULL},
    {"nodes", DOC_NUMBER, false, NULL},         {"role", DOC_TEXT, false, NULL},
    {"address", DOC_TEXT, false, NULL},         {"serving", DOC_FLAG, false, NULL},
    {"serving_instead", DOC_TEXT, false, NULL}, {NULL, DOC_TEXT, false, NULL},
};

const struct doc_rule status_borrow_rules[] = {
    {"id", DOC_TEXT, true, NULL},
    {"cpus", DOC_TEXT, false, NULL},
    {NULL, DOC_TEXT, false, NULL},
};

static const struct doc_rule node_rules[] = {
    {"name", DOC_TEXT, true, NULL},       {"topology", DOC_TEXT, false, NULL},
    {"pus", DOC_NUMBER, false, NULL},     {"pool_cpus", DOC_TEXT, false, NULL},
    {"free_cpus", DOC_TEXT, false, NULL}, {"reserved_cpus", DOC_TEXT, false, NULL},
    {"members", DOC_NUMBER, false, NULL}, {NULL, DOC_TEXT, false, NULL},
};

static const struct doc_rule member_rules[] = {
    STATUS_MEMBER_RULES,
    {NULL, DOC_TEXT, false, NULL},
};

static const struct doc_rule status_rules[] = {
    {"controller", DOC_OBJECT, true, status_controller_rules},
    {"nodes", DOC_OBJECTS, true, node_rules},
    {"members", DOC_OBJECTS, true, member_rules},
    {NULL, DOC_TEXT, false, NULL},
};

/* ---- the filter --------------------------------------------------------------------------- */

bool status_is_job(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 10)
        return false;
    if (text[digits] == '\0')
        return true;
    if (text[digits] != '.')
        return false;
    const char *step = text + digits + 1;
    size_t length = strlen(step);
    if (length == 0 || length > 32)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!islower((unsigned char)step[i]) && !isdigit((unsigned char)step[i]))
            return false;
    return true;
}

bool status_filter_options(const struct cli *cli, struct status_filter *filter)
{
    filter->job = cli_value(cli, "job");
    filter->node = cli_value(cli, "node");
    if (filter->job != NULL && !status_is_job(filter->job)) {
        (void)cli_usage_error(cli, "--job %s: give a job or a step, 12 or 12.0", filter->job);
        return false;
    }
    if (filter->node != NULL && filter->node[0] == '\0') {
        (void)cli_usage_error(cli, "--node: give the name of a node");
        return false;
    }
    return true;
}

/* Does the member's id ("12.0") belong to what was asked for ("12", "12.0")? */
static bool is_of_job(const char *id, const char *job)
{
    size_t length = strlen(job);

    return strncmp(id, job, length) == 0 &&
           (id[length] == '\0' || (id[length] == '.' && strchr(job, '.') == NULL));
}

static bool member_wanted(struct json_object *member, const struct status_filter *filter)
{
    return (filter->job == NULL || is_of_job(doc_text(member, "id"), filter->job)) &&
           (filter->node == NULL || strcmp(doc_text(member, "node"), filter->node) == 0);
}

static bool has_member_on(struct json_object *members, const char *node)
{
    for (size_t i = 0; i < doc_count(members); i++)
        if (strcmp(doc_text(doc_at(members, i), "node"), node) == 0)
            return true;
    return false;
}

/* A new array of the entries that are wanted; NULL on lack of memory. */
static struct json_object *filter_members(struct json_object *all,
                                          const struct status_filter *filter)
{
    struct json_object *kept = json_object_new_array();

    for (size_t i = 0; kept != NULL && i < doc_count(all); i++) {
        struct json_object *member = doc_at(all, i);
        if (!member_wanted(member, filter))
            continue;
        if (json_object_array_add(kept, json_object_get(member)) != 0) {
            json_object_put(member);
            json_object_put(kept);
            return NULL;
        }
    }
    return kept;
}

static struct json_object *filter_nodes(struct json_object *all, struct json_object *members,
                                        const struct status_filter *filter)
{
    struct json_object *kept = json_object_new_array();

    for (size_t i = 0; kept != NULL && i < doc_count(all); i++) {
        struct json_object *node = doc_at(all, i);
        const char *name = doc_text(node, "name");
        if (filter->node != NULL && strcmp(name, filter->node) != 0)
            continue;
        if (filter->job != NULL && !has_member_on(members, name))
            continue;
        if (json_object_array_add(kept, json_object_get(node)) != 0) {
            json_object_put(node);
            json_object_put(kept);
            return NULL;
        }
    }
    return kept;
}

/* Narrow the document to what is wanted; 0 or -1 (no memory). */
static int apply_filter(struct json_object *document, const struct status_filter *filter)
{
    if (filter->job == NULL && filter->node == NULL)
        return 0;
    struct json_object *members = filter_members(doc_member(document, "members"), filter);
    if (members == NULL)
        return -1;
    struct json_object *nodes = filter_nodes(doc_member(document, "nodes"), members, filter);
    if (nodes == NULL || json_object_object_add(document, "nodes", nodes) != 0) {
        json_object_put(nodes);
        json_object_put(members);
        return -1;
    }
    if (json_object_object_add(document, "members", members) != 0) {
        json_object_put(members);
        return -1;
    }
    return 0;
}

struct json_object *status_parse(const char *text, size_t length, char *error, size_t error_size)
{
    return doc_parse(text, length, status_rules, error, error_size);
}

struct json_object *status_fetch(const struct client_address *address,
                                 const struct status_filter *filter, char *error, size_t error_size)
{
    char *text = NULL;
    size_t length = 0;
    char why[512];

    /* the controller picks out what it can; the filter below makes sure */
    if (client_query(address, "status", filter->job != NULL ? filter->job : "",
                     filter->node != NULL ? filter->node : "", &text, &length, error,
                     error_size) != CLIENT_OK)
        return NULL;
    struct json_object *document = status_parse(text, length, why, sizeof(why));
    free(text);
    if (document == NULL) {
        snprintf(error, error_size, "the answer of the controller at %s is malformed: %s",
                 address->shown, why);
        return NULL;
    }
    if (apply_filter(document, filter) != 0) {
        snprintf(error, error_size, "not enough memory");
        json_object_put(document);
        return NULL;
    }
    return document;
}

/* ---- for people ---------------------------------------------------------------------------- */

/* Which of several controllers this is, and whether it serves. */
static void print_role(struct json_object *controller, FILE *out)
{
    if (doc_text(controller, "address") == NULL)
        return;
    fputs("\nIt is ", out);
    print_clean(out, doc_text(controller, "address"), "");
    fputs(", ", out);
    print_clean(out, doc_text(controller, "role"), "of unknown role");
    if (doc_text(controller, "serving_instead") == NULL) {
        fputs(", and serves.", out);
        return;
    }
    fputs(", and stands by for ", out);
    print_clean(out, doc_text(controller, "serving_instead"), "");
    fputc('.', out);
}

void status_print_controller(struct json_object *controller, FILE *out)
{
    char age[64];

    fputs("adloaderctld ", out);
    print_clean(out, doc_text(controller, "version"), "of unknown version");
    fprintf(out, ", up %s, policy ",
            format_age(doc_number(controller, "uptime_s"), age, sizeof(age)));
    print_clean(out, doc_text(controller, "policy"), "unknown");
    fputs(", guarantee ", out);
    print_clean(out, doc_text(controller, "guarantee"), "unknown");
    double agents = doc_number(controller, "agents"), nodes = doc_number(controller, "nodes");
    if (!isnan(agents) && !isnan(nodes))
        fprintf(out, ", %.0f member%s on %.0f node%s", agents, agents == 1 ? "" : "s", nodes,
                nodes == 1 ? "" : "s");
    print_role(controller, out);
    if (doc_flag(controller, "settling"))
        fputs("\nIt started a moment ago and waits for its agents before it changes anything.",
              out);
    fputc('\n', out);
}

static int print_nodes(struct json_object *nodes, FILE *out)
{
    static const struct table_column columns[] = {
        {"NODE", false}, {"TOPOLOGY", false}, {"PUS", true},       {"MEMBERS", true},
        {"POOL", false}, {"FREE", false},     {"RESERVED", false},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

    for (size_t i = 0; i < doc_count(nodes); i++) {
        struct json_object *node = doc_at(nodes, i);
        table_cell(table, doc_text(node, "name"));
        table_cell(table, doc_text(node, "topology"));
        table_number(table, doc_number(node, "pus"), 0);
        table_number(table, doc_number(node, "members"), 0);
        table_cell(table, doc_text(node, "pool_cpus"));
        table_cell(table, doc_text(node, "free_cpus"));
        table_cell(table, doc_text(node, "reserved_cpus"));
    }
    int result = table_print(table, out);
    table_free(table);
    return result;
}

/* How many CPUs the loans name; a text that is no CPU list counts nothing. */
static double loan_cores(struct json_object *loans)
{
    struct cpus cpus = CPUS_EMPTY;
    double cores = 0;

    for (size_t i = 0; i < doc_count(loans); i++) {
        const char *list = doc_text(doc_at(loans, i), "cpus");
        if (list != NULL && cpus_parse(&cpus, list) == 0)
            cores += cpus_count(&cpus);
    }
    cpus_free(&cpus);
    return cores;
}

/* "2" cores and with whom: "2 from 13.0", "3 from 13.0, 14.0, pool". The pool also has CPUs of no
 * member, which an admin added. */
static void add_loan(struct table *table, double cores, const char *word, struct json_object *loans)
{
    char text[128];
    int used = snprintf(text, sizeof(text), "%.0f", cores);
    const char *before = word;

    if (isnan(cores) || cores <= 0) {
        table_cell(table, NULL);
        return;
    }
    for (size_t i = 0; i < doc_count(loans) && used > 0 && (size_t)used < sizeof(text); i++) {
        int n = snprintf(text + used, sizeof(text) - (size_t)used, "%s%s", before,
                         doc_text(doc_at(loans, i), "id"));
        used = n < 0 ? -1 : used + n;
        before = ", ";
    }
    if (used > 0 && (size_t)used < sizeof(text) && loan_cores(loans) < cores)
        (void)snprintf(text + used, sizeof(text) - (size_t)used, "%spool", before);
    table_cell(table, text);
}

/* own loader cores and what they became: "6", "6 -> 8" */
static void add_cores(struct table *table, struct json_object *member)
{
    double own = doc_number(member, "own_loader_cores"), now = doc_number(member, "loader_cores");

    if (isnan(own) || isnan(now) || own == now)
        table_number(table, isnan(now) ? own : now, 0);
    else
        table_cellf(table, "%.0f -> %.0f", own, now);
}

static void add_member(struct table *table, struct json_object *member)
{
    double busy = doc_number(member, "gpu_busy_share");

    table_cell(table, doc_text(member, "id"));
    table_cell(table, doc_text(member, "node"));
    table_cell(table, doc_text(member, "state"));
    add_cores(table, member);
    add_loan(table, doc_number(member, "borrowed_cores"), " from ",
             doc_member(member, "borrowed_from"));
    add_loan(table, doc_number(member, "lent_cores"), " to ", doc_member(member, "lent_to"));
    table_cell(table, doc_text(member, "loader_cpus"));
    table_number(table, doc_number(member, "loader_use_cores"), 2);
    if (isnan(busy))
        table_cell(table, NULL);
    else
        table_cellf(table, "%.0f %%", 100 * busy);
    table_number(table, doc_number(member, "samples_per_s"), 1);
    table_cell(table, doc_text(member, "verdict"));
}

static int print_members(struct json_object *members, FILE *out)
{
    static const struct table_column columns[] = {
        {"MEMBER", false},   {"NODE", false},     {"STATE", false},   {"LOADER-CORES", true},
        {"BORROWED", false}, {"LENT", false},     {"CPUS", false},    {"USE", true},
        {"GPU-BUSY", true},  {"SAMPLES/S", true}, {"VERDICT", false},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

    for (size_t i = 0; i < doc_count(members); i++)
        add_member(table, doc_at(members, i));
    int result = table_print(table, out);
    table_free(table);
    return result;
}

int status_print(struct json_object *document, FILE *out)
{
    struct json_object *nodes = doc_member(document, "nodes");
    struct json_object *members = doc_member(document, "members");

    status_print_controller(doc_member(document, "controller"), out);
    if (doc_count(nodes) > 0) {
        fputc('\n', out);
        if (print_nodes(nodes, out) != 0)
            return -1;
    }
    fputc('\n', out);
    if (doc_count(members) == 0)
        return fputs("No step with --adloader is running here.\n", out) < 0 ? -1 : 0;
    return print_members(members, out);
}

/* Is what was asked for not there at all? Then says so in a sentence. */
static bool says_unknown(struct json_object *document, const struct status_filter *filter,
                         char *text, size_t size)
{
    if (filter->node != NULL && doc_count(doc_member(document, "nodes")) == 0)
        (void)snprintf(text, size,
                       "no node %s is known; nodes are, while a step with --adloader "
                       "runs there",
                       filter->node);
    else if (filter->job != NULL && doc_count(doc_member(document, "members")) == 0)
        (void)snprintf(text, size, "no running step of job %s with --adloader is known%s%s",
                       filter->job, filter->node != NULL ? " on node " : "",
                       filter->node != NULL ? filter->node : "");
    else
        return false;
    return true;
}

/* With --json, the document says it, too. */
static int refuse_unknown(const struct cli *cli, struct json_object *document, const char *text)
{
    struct json_object *sentence = cli->json ? json_object_new_string(text) : NULL;

    if (sentence != NULL && json_object_object_add(document, "error", sentence) != 0)
        json_object_put(sentence);
    if (cli->json)
        (void)cli_print_json(document);
    cli_error("%s; 'adloader status' lists all", text);
    return CLI_FAILURE;
}

static int run(const struct cli *cli)
{
    struct client_address address;
    struct status_filter filter;
    char error[1024];
    int status;

    if (!status_filter_options(cli, &filter))
        return CLI_USAGE;
    if (client_address(cli, &address, &status) != 0)
        return status;
    struct json_object *document = status_fetch(&address, &filter, error, sizeof(error));
    if (document == NULL) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    if (says_unknown(document, &filter, error, sizeof(error))) {
        status = refuse_unknown(cli, document, error);
    } else if (cli->json) {
        status = cli_print_json(document);
    } else if (status_print(document, stdout) == 0) {
        status = CLI_OK;
    } else {
        cli_error("not enough memory for the table");
        status = CLI_FAILURE;
    }
    json_object_put(document);
    return status;
}

static const struct cli_option options[] = {
    {"job", "JOB[.STEP]", "only this job or step"},
    {"node", "NODE", "only this node"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_status = {
    .name = "status",
    .arguments = "",
    .summary = "Show nodes and members: cores, loans, use, verdict",
    .text = "LOADER-CORES are a member's own loader cores and, behind the arrow, how many its\n"
            "loaders may use now. USE is how many of them they do use. VERDICT says why a GPU\n"
            "waits, or that it does not; adloader(7) explains the words.",
    .options = options,
    .run = run,
};
