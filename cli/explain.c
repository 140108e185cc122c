/*
 * adloader explain: one job or step in words. Which cores are its own and which it has, who lent
 * them, the predicted curve around the present point, why it is this number, and how it came to it.
 */
#include "config.h"

#include "cli.h"
#include "cpus.h"
#include "status.h"
#include "table.h"
#include "words.h"

#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct doc_rule curve_rules[] = {
    {"unit", DOC_TEXT, false, NULL},
    {"rate", DOC_NUMBERS, false, NULL},
    {"low", DOC_NUMBERS, false, NULL},
    {"high", DOC_NUMBERS, false, NULL},
    {"limit", DOC_TEXTS, false, NULL},
    {"gpu_rate", DOC_NUMBER, false, NULL},
    {"demand_cores", DOC_NUMBER, false, NULL},
    {"source", DOC_TEXT, false, NULL},
    {NULL, DOC_TEXT, false, NULL},
};

static const struct doc_rule history_rules[] = {
    {"age_s", DOC_NUMBER, false, NULL}, {"cores", DOC_NUMBER, false, NULL},
    {"cpus", DOC_TEXT, false, NULL},    {"reason", DOC_TEXT, false, NULL},
    {NULL, DOC_TEXT, false, NULL},
};

static const struct doc_rule member_rules[] = {
    STATUS_MEMBER_RULES,
    {"curve", DOC_OBJECT, false, curve_rules},
    {"rate_now", DOC_NUMBER, false, NULL},
    {"rate_own", DOC_NUMBER, false, NULL},
    {"rate_even", DOC_NUMBER, false, NULL},
    {"predicted_error", DOC_NUMBER, false, NULL},
    {"reason", DOC_TEXT, false, NULL},
    {"history", DOC_OBJECTS, false, history_rules},
    {NULL, DOC_TEXT, false, NULL},
};

static const struct doc_rule explain_rules[] = {
    {"controller", DOC_OBJECT, true, status_controller_rules},
    {"members", DOC_OBJECTS, true, member_rules},
    {NULL, DOC_TEXT, false, NULL},
};

#define BAR_WIDTH 40 /* characters of the whole GPU rate */
#define AROUND    4  /* rows of the curve on each side of the present point */

static void label(const char *name)
{
    printf("  %-12s", name);
}

static void line(const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    label(name);
    print_clean(stdout, text, "");
    putchar('\n');
}

/* "0-2 (3 CPUs)"; how many is left out where a list that came from outside is not one. */
static void print_cpus(const char *list)
{
    struct cpus cpus = CPUS_EMPTY;

    print_clean(stdout, list != NULL && list[0] != '\0' ? list : NULL, "none");
    if (list != NULL && list[0] != '\0' && cpus_parse(&cpus, list) == 0)
        printf(" (%u CPU%s)", cpus_count(&cpus), cpus_count(&cpus) == 1 ? "" : "s");
    cpus_free(&cpus);
}

static void print_loans(const char *name, const char *word, struct json_object *loans)
{
    for (size_t i = 0; i < doc_count(loans); i++) {
        struct json_object *loan = doc_at(loans, i);
        label(name);
        print_cpus(doc_text(loan, "cpus"));
        printf(" %s ", word);
        print_clean(stdout, doc_text(loan, "id"), "?");
        putchar('\n');
    }
}

static void print_cores(struct json_object *member)
{
    const char *placement = doc_text(member, "placement");

    label("own CPUs");
    print_cpus(doc_text(member, "own_cpus"));
    printf(", of them for main threads: ");
    print_cpus(doc_text(member, "main_cpus"));
    putchar('\n');
    label("loaders on");
    print_cpus(doc_text(member, "loader_cpus"));
    if (placement != NULL && strcmp(placement, "own") == 0)
        printf(", which is Slurm's own placement");
    putchar('\n');
    print_loans("borrowed", "from", doc_member(member, "borrowed_from"));
    print_loans("lent", "to", doc_member(member, "lent_to"));
}

/* "12.3 word" behind a separator, nothing when unknown. Returns the next separator. */
static const char *amount(const char *before, double value, int decimals, const char *word)
{
    if (isnan(value))
        return before;
    printf("%s%.*f%s", before, decimals, value, word);
    return ", ";
}

static void print_measured(struct json_object *member)
{
    double busy = doc_number(member, "gpu_busy_share");
    double age = doc_number(member, "report_age_s");
    const char *before = "";
    char text[64];

    label("measured");
    before = amount(before, doc_number(member, "loader_tasks"), 0, " loader tasks");
    before = amount(before, doc_number(member, "workers"), 0, " workers");
    before = amount(before, doc_number(member, "loader_use_cores"), 2, " cores in use");
    before = amount(before, 100 * busy, 0, " % GPU-busy");
    before = amount(before, doc_number(member, "samples_per_s"), 1, " samples/s");
    if (before[0] == '\0')
        printf("nothing yet");
    else if (!isnan(age))
        printf("; %s ago", format_age(age, text, sizeof(text)));
    putchar('\n');
    double drift = doc_number(member, "drift"), failed = doc_number(member, "failed_binds");
    if (drift > 0 || failed > 0) {
        label("masks");
        before = amount("", drift > 0 ? drift : NAN, 0, " changed by somebody else");
        (void)amount(
            before, failed > 0 ? failed : NAN, 0,
            " binds that did not hold (a cpuset or the program keeps the loaders elsewhere)");
        putchar('\n');
    }
}

/* The verdict or state with what it means. */
static void print_word(const char *name, const char *word, const char *meaning)
{
    if (word == NULL)
        return;
    label(name);
    print_clean(stdout, word, "");
    if (meaning != NULL)
        printf(": %s", meaning);
    putchar('\n');
}

static const char *unit_of(struct json_object *curve)
{
    const char *unit = doc_text(curve, "unit");

    /* relative: one unit is what one loader core does, see predictor.h */
    return unit != NULL && strcmp(unit, "relative") == 0 ? "core loads" : "samples/s";
}

/* Without loaders there is nothing to predict, whatever the curve says. */
static bool has_loaders(struct json_object *member)
{
    return doc_number(member, "loader_tasks") > 0;
}

static void print_rates(struct json_object *member)
{
    struct json_object *curve = doc_member(member, "curve");
    const char *unit = unit_of(curve);
    double now = doc_number(member, "rate_now"), error = doc_number(member, "predicted_error");
    double demand = doc_number(member, "demand_cores");
    char text[64];

    if (!isnan(now)) {
        label("predicted");
        printf("%.1f %s", now, unit);
        snprintf(text, sizeof(text), " %s with its own cores", unit);
        const char *before = amount("; ", doc_number(member, "rate_own"), 1, text);
        snprintf(text, sizeof(text), " %s with an even split", unit);
        (void)amount(before, doc_number(member, "rate_even"), 1, text);
        if (!isnan(error))
            printf("; so far off by %.0f %%", 100 * error);
        putchar('\n');
    }
    if (!isnan(demand)) {
        label("demand");
        printf("the loaders no longer hold the GPU back from about %.1f cores\n", demand);
    }
}

/* ---- the curve ---------------------------------------------------------------------------- */

static bool is_core(double value, size_t c)
{
    return !isnan(value) && value >= 0 && (size_t)(value + 0.5) == c;
}

/* Which rows to show: none, the own number, those around the present one, and the end. */
static bool row_wanted(struct json_object *member, size_t c, size_t last)
{
    double now = doc_number(member, "loader_cores");

    return last <= 2 * AROUND + 4 || c == 0 || c == last ||
           is_core(doc_number(member, "own_loader_cores"), c) ||
           (!isnan(now) && fabs(now - (double)c) <= AROUND);
}

/* A bar for rate of top, with the band from low to high drawn behind its end. */
static void format_bar(double rate, double high, double top, char bar[BAR_WIDTH + 1])
{
    double end = rate / top * BAR_WIDTH, far = high / top * BAR_WIDTH;

    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i + 0.5 < end ? '#' : i + 0.5 < far ? '-' : ' ';
    bar[BAR_WIDTH] = '\0';
}

static void add_curve_row(struct table *table, struct json_object *member,
                          struct json_object *curve, size_t c, double top)
{
    double rate = doc_number_at(doc_member(curve, "rate"), c);
    double low = doc_number_at(doc_member(curve, "low"), c);
    double high = doc_number_at(doc_member(curve, "high"), c);
    bool own = is_core(doc_number(member, "own_loader_cores"), c);
    bool now = is_core(doc_number(member, "loader_cores"), c);
    char bar[BAR_WIDTH + 1];

    table_cellf(table, "    %zu", c);
    table_number(table, rate, 1);
    if (isnan(low) || isnan(high))
        table_cell(table, NULL);
    else
        table_cellf(table, "%.1f..%.1f", low, high);
    format_bar(rate, high, top, bar);
    table_cellf(table, "|%s|", bar);
    table_cell(table, doc_text_at(doc_member(curve, "limit"), c));
    table_cell(table, own && now ? "<- now, own" : now ? "<- now" : own ? "<- own" : " ");
}

/* The rate that fills a bar: the GPU's, or the largest one predicted; 0: nothing to draw. */
static double top_of(struct json_object *curve)
{
    struct json_object *rates = doc_member(curve, "rate");
    double top = doc_number(curve, "gpu_rate");

    if (!isnan(top) && top > 0)
        return top;
    top = 0;
    for (size_t c = 0; c < doc_count(rates); c++)
        top = fmax(top, doc_number_at(rates, c));
    return top;
}

static int print_curve(struct json_object *member)
{
    static const struct table_column columns[] = {
        {"CORES", true}, {"RATE", true}, {"BAND", true}, {"", false}, {"LIMIT", false}, {"", false},
    };
    struct json_object *curve = doc_member(member, "curve");
    size_t count = doc_count(doc_member(curve, "rate"));
    double top = top_of(curve);

    if (count == 0 || top <= 0)
        return 0;
    printf("\n  curve: predicted %s by loader cores (source: ", unit_of(curve));
    print_clean(stdout, doc_text(curve, "source"), "unknown");
    putchar(')');
    double gpu = doc_number(curve, "gpu_rate");
    if (!isnan(gpu))
        printf("; a full bar is the GPU's own rate, %.1f", gpu);
    printf("\n");
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t c = 0; c < count; c++)
        if (row_wanted(member, c, count - 1))
            add_curve_row(table, member, curve, c, top);
    int result = table_print(table, stdout);
    table_free(table);
    return result;
}

static int print_history(struct json_object *history)
{
    static const struct table_column columns[] = {
        {"AGO", true}, {"CORES", true}, {"CPUS", false}, {"REASON", false}};
    char age[64];

    if (doc_count(history) == 0)
        return 0;
    printf("\n  history, newest last:\n");
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < doc_count(history); i++) {
        struct json_object *entry = doc_at(history, i);
        table_cellf(table, "    %s", format_age(doc_number(entry, "age_s"), age, sizeof(age)));
        table_number(table, doc_number(entry, "cores"), 0);
        table_cell(table, doc_text(entry, "cpus"));
        table_cell(table, doc_text(entry, "reason"));
    }
    int result = table_print(table, stdout);
    table_free(table);
    return result;
}

static int print_member(struct json_object *member)
{
    char age[64];

    fputs("Step ", stdout);
    print_clean(stdout, doc_text(member, "id"), "?");
    fputs(" on node ", stdout);
    print_clean(stdout, doc_text(member, "node"), "?");
    double seconds = doc_number(member, "age_s");
    if (!isnan(seconds))
        printf(", running for %s", format_age(seconds, age, sizeof(age)));
    putchar('\n');
    print_cores(member);
    print_measured(member);
    print_word("verdict", doc_text(member, "verdict"), words_verdict(doc_text(member, "verdict")));
    print_word("state", doc_text(member, "state"), words_state(doc_text(member, "state")));
    if (has_loaders(member))
        print_rates(member);
    line("why", doc_text(member, "reason"));
    line("hints", doc_text(member, "hints"));
    if (has_loaders(member) && print_curve(member) != 0)
        return -1;
    return print_history(doc_member(member, "history"));
}

static int print_document(struct json_object *document)
{
    struct json_object *members = doc_member(document, "members");

    status_print_controller(doc_member(document, "controller"), stdout);
    for (size_t i = 0; i < doc_count(members); i++) {
        putchar('\n');
        if (print_member(doc_at(members, i)) != 0) {
            cli_error("not enough memory for the tables");
            return CLI_FAILURE;
        }
    }
    return CLI_OK;
}

static struct json_object *fetch(const struct client_address *address, const char *job)
{
    char error[1024], why[512];
    char *text = NULL;
    size_t length = 0;

    switch (client_query(address, "explain", job, "", &text, &length, error, sizeof(error))) {
    case CLIENT_OK:
        break;
    case CLIENT_UNKNOWN:
        cli_error("%s. Only running steps that were started with --adloader can be explained; "
                  "'adloader status' lists them",
                  error);
        return NULL;
    default:
        cli_error("%s", error);
        return NULL;
    }
    struct json_object *document = doc_parse(text, length, explain_rules, why, sizeof(why));
    free(text);
    if (document == NULL) {
        cli_error("the answer of the controller at %s is malformed: %s", address->shown, why);
    } else if (doc_count(doc_member(document, "members")) == 0) {
        cli_error("job %s has no running step with --adloader; 'adloader status' lists them", job);
        json_object_put(document);
        document = NULL;
    }
    return document;
}

static int run(const struct cli *cli)
{
    const char *job = cli->argv[0];
    struct client_address address;
    int status;

    if (!status_is_job(job))
        return cli_usage_error(cli, "'%s' is no job or step: give 12, 12.0 or 12.batch", job);
    if (client_address(cli, &address, &status) != 0)
        return status;
    struct json_object *document = fetch(&address, job);
    if (document == NULL)
        return CLI_FAILURE;
    status = cli->json ? cli_print_json(document) : print_document(document);
    json_object_put(document);
    return status;
}

const struct cli_command cli_command_explain = {
    .name = "explain",
    .arguments = "JOB[.STEP]",
    .summary = "Explain one job: its cores, its curve, and why it has what it has",
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
