/*
 * adloader explain: one job or step in words. Which cores are its own and which it has, who lent
 * them, the predicted curve around the present point, why it is this number, and how it came to it.
 */
#include "config.h"

#include "explain.h"

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
    {"flat_from_cores", DOC_NUMBER, false, NULL},
    {"flat_because", DOC_TEXT, false, NULL},
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

static void label(FILE *out, const char *name)
{
    fprintf(out, "  %-12s", name);
}

static void line(FILE *out, const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    label(out, name);
    print_clean(out, text, "");
    fputc('\n', out);
}

/* "0-2 (3 CPUs)"; how many is left out where a list that came from outside is not one. */
static void print_cpus(FILE *out, const char *list)
{
    struct cpus cpus = CPUS_EMPTY;

    print_clean(out, list != NULL && list[0] != '\0' ? list : NULL, "none");
    if (list != NULL && list[0] != '\0' && cpus_parse(&cpus, list) == 0)
        fprintf(out, " (%u CPU%s)", cpus_count(&cpus), cpus_count(&cpus) == 1 ? "" : "s");
    cpus_free(&cpus);
}

static void print_loans(FILE *out, const char *name, const char *word, struct json_object *loans)
{
    for (size_t i = 0; i < doc_count(loans); i++) {
        struct json_object *loan = doc_at(loans, i);
        label(out, name);
        print_cpus(out, doc_text(loan, "cpus"));
        fprintf(out, " %s ", word);
        print_clean(out, doc_text(loan, "id"), "?");
        fputc('\n', out);
    }
}

static void print_cores(FILE *out, struct json_object *member)
{
    const char *placement = doc_text(member, "placement");

    label(out, "own CPUs");
    print_cpus(out, doc_text(member, "own_cpus"));
    fprintf(out, ", of them for main threads: ");
    print_cpus(out, doc_text(member, "main_cpus"));
    fputc('\n', out);
    label(out, "loaders on");
    print_cpus(out, doc_text(member, "loader_cpus"));
    if (placement != NULL && strcmp(placement, "own") == 0)
        fprintf(out, ", which is Slurm's own placement");
    fputc('\n', out);
    print_loans(out, "borrowed", "from", doc_member(member, "borrowed_from"));
    print_loans(out, "lent", "to", doc_member(member, "lent_to"));
}

/* "12.3 word" behind a separator, nothing when unknown. Returns the next separator. */
static const char *amount(FILE *out, const char *before, double value, int decimals,
                          const char *word)
{
    if (isnan(value))
        return before;
    fprintf(out, "%s%.*f%s", before, decimals, value, word);
    return ", ";
}

static void print_measured(FILE *out, struct json_object *member)
{
    double busy = doc_number(member, "gpu_busy_share");
    double age = doc_number(member, "report_age_s");
    const char *before = "";
    char text[64];

    label(out, "measured");
    before = amount(out, before, doc_number(member, "loader_tasks"), 0, " loader tasks");
    before = amount(out, before, doc_number(member, "workers"), 0, " workers");
    before = amount(out, before, doc_number(member, "loader_use_cores"), 2, " cores in use");
    before = amount(out, before, 100 * busy, 0, " % GPU-busy");
    before = amount(out, before, doc_number(member, "samples_per_s"), 1, " samples/s");
    if (before[0] == '\0')
        fprintf(out, "nothing yet");
    else if (!isnan(age))
        fprintf(out, "; %s ago", format_age(age, text, sizeof(text)));
    fputc('\n', out);
    double drift = doc_number(member, "drift"), failed = doc_number(member, "failed_binds");
    if (drift > 0 || failed > 0) {
        label(out, "masks");
        before = amount(out, "", drift > 0 ? drift : NAN, 0, " changed by somebody else");
        (void)amount(
            out, before, failed > 0 ? failed : NAN, 0,
            " binds that did not hold (a cpuset or the program keeps the loaders elsewhere)");
        fputc('\n', out);
    }
}

/* The verdict or state with what it means. */
static void print_word(FILE *out, const char *name, const char *word, const char *meaning)
{
    if (word == NULL)
        return;
    label(out, name);
    print_clean(out, word, "");
    if (meaning != NULL)
        fprintf(out, ": %s", meaning);
    fputc('\n', out);
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

/* More cores than so many bring nothing, for another reason than that the GPU has all it can take.
 */
static void print_cap(FILE *out, struct json_object *curve)
{
    double cores = doc_number(curve, "flat_from_cores");

    if (isnan(cores))
        return;
    label(out, "flat");
    fprintf(out, "more than %.0f core%s would bring nothing: limited by ", cores,
            cores == 1 ? "" : "s");
    print_clean(out, doc_text(curve, "flat_because"), "what is not known");
    fputc('\n', out);
}

static void print_rates(FILE *out, struct json_object *member)
{
    struct json_object *curve = doc_member(member, "curve");
    const char *unit = unit_of(curve);
    double now = doc_number(member, "rate_now"), error = doc_number(member, "predicted_error");
    double demand = doc_number(member, "demand_cores");
    char text[64];

    if (doc_number(member, "loader_cores") == 0) {
        label(out, "predicted");
        fputs("not predicted: it has no core for its loaders alone, and they run on the main "
              "threads' cores\n",
              out);
    } else if (!isnan(now)) {
        double with_own =
            doc_number(member, "own_loader_cores") == 0 ? NAN : doc_number(member, "rate_own");

        label(out, "predicted");
        fprintf(out, "%.1f %s", now, unit);
        snprintf(text, sizeof(text), " %s with its own cores", unit);
        const char *before = amount(out, "; ", with_own, 1, text);
        snprintf(text, sizeof(text), " %s with an even split", unit);
        (void)amount(out, before, doc_number(member, "rate_even"), 1, text);
        if (!isnan(error))
            fprintf(out, "; so far off by %.0f %%", 100 * error);
        fputc('\n', out);
    }
    if (!isnan(demand)) {
        label(out, "demand");
        fprintf(out, "the loaders no longer hold the GPU back from about %.1f cores\n", demand);
    }
    print_cap(out, curve);
}

/* ---- the curve ---------------------------------------------------------------------------- */

static bool is_core(double value, size_t c)
{
    return fabs(value - (double)c) < 0.5; /* false for NAN */
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

static int print_curve(FILE *out, struct json_object *member)
{
    static const struct table_column columns[] = {
        {"CORES", true}, {"RATE", true}, {"BAND", true}, {"", false}, {"LIMIT", false}, {"", false},
    };
    struct json_object *curve = doc_member(member, "curve");
    size_t count = doc_count(doc_member(curve, "rate"));
    double top = top_of(curve);

    if (count == 0 || top <= 0)
        return 0;
    fprintf(out, "\n  curve: predicted %s by loader cores (source: ", unit_of(curve));
    print_clean(out, doc_text(curve, "source"), "unknown");
    fputc(')', out);
    double gpu = doc_number(curve, "gpu_rate");
    if (!isnan(gpu))
        fprintf(out, "; a full bar is the GPU's own rate, %.1f", gpu);
    fprintf(out, "\n");
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t c = 0; c < count; c++)
        if (row_wanted(member, c, count - 1))
            add_curve_row(table, member, curve, c, top);
    int result = table_print(table, out);
    table_free(table);
    return result;
}

/* Which limit binds at the present point, and what one core more or less would change there. */
static void print_margin(FILE *out, struct json_object *member)
{
    struct json_object *curve = doc_member(member, "curve");
    struct json_object *rates = doc_member(curve, "rate");
    double cores = doc_number(member, "loader_cores");

    if (!(cores >= 0) || cores >= (double)doc_count(rates))
        return;
    size_t c = (size_t)cores;
    double now = doc_number_at(rates, c);
    double more = c + 1 < doc_count(rates) ? doc_number_at(rates, c + 1) : NAN;
    double less = c > 0 ? doc_number_at(rates, c - 1) : NAN;
    const char *limit = doc_text_at(doc_member(curve, "limit"), c);

    if (isnan(now) || (isnan(more) && isnan(less)))
        return;
    fputs("  at the margin: limited by ", out);
    print_clean(out, limit, "what is not known");
    if (!isnan(more))
        fprintf(out, "; a core more would bring %+.1f", more - now);
    if (!isnan(less))
        fprintf(out, "; a core less would cost %.1f", now - less);
    fprintf(out, " %s\n", unit_of(curve));
}

static int print_history(FILE *out, struct json_object *history)
{
    static const struct table_column columns[] = {
        {"AGO", true}, {"CORES", true}, {"CPUS", false}, {"REASON", false}};
    char age[64];

    if (doc_count(history) == 0)
        return 0;
    fprintf(out, "\n  history, newest last:\n");
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < doc_count(history); i++) {
        struct json_object *entry = doc_at(history, i);
        table_cellf(table, "    %s", format_age(doc_number(entry, "age_s"), age, sizeof(age)));
        table_number(table, doc_number(entry, "cores"), 0);
        table_cell(table, doc_text(entry, "cpus"));
        table_cell(table, doc_text(entry, "reason"));
    }
    int result = table_print(table, out);
    table_free(table);
    return result;
}

static int print_member(FILE *out, struct json_object *member)
{
    char age[64];

    fputs("Step ", out);
    print_clean(out, doc_text(member, "id"), "?");
    fputs(" on node ", out);
    print_clean(out, doc_text(member, "node"), "?");
    double seconds = doc_number(member, "age_s");
    if (!isnan(seconds))
        fprintf(out, ", running for %s", format_age(seconds, age, sizeof(age)));
    fputc('\n', out);
    print_cores(out, member);
    print_measured(out, member);
    print_word(out, "verdict", doc_text(member, "verdict"),
               words_verdict(doc_text(member, "verdict")));
    line(out, "seen", doc_text(member, "evidence"));
    line(out, "advice", doc_text(member, "advice"));
    print_word(out, "state", doc_text(member, "state"), words_state(doc_text(member, "state")));
    line(out, "cpu-bind", doc_text(member, "cpu_bind"));
    if (has_loaders(member))
        print_rates(out, member);
    line(out, "why", doc_text(member, "reason"));
    line(out, "hints", doc_text(member, "hints"));
    if (has_loaders(member))
        print_margin(out, member);
    if (has_loaders(member) && print_curve(out, member) != 0)
        return -1;
    return print_history(out, doc_member(member, "history"));
}

int explain_print(struct json_object *document, FILE *out)
{
    struct json_object *members = doc_member(document, "members");

    status_print_controller(doc_member(document, "controller"), out);
    for (size_t i = 0; i < doc_count(members); i++) {
        fputc('\n', out);
        if (print_member(out, doc_at(members, i)) != 0)
            return -1;
    }
    return 0;
}

struct json_object *explain_parse(const char *text, size_t length, char *error, size_t error_size)
{
    return doc_parse(text, length, explain_rules, error, error_size);
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
    struct json_object *document = explain_parse(text, length, why, sizeof(why));
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
    if (cli->json) {
        status = cli_print_json(document);
    } else if (explain_print(document, stdout) == 0) {
        status = CLI_OK;
    } else {
        cli_error("not enough memory for the tables");
        status = CLI_FAILURE;
    }
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
