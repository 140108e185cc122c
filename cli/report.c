/*
 * adloader report: what the controller wrote into the accounting record of a job, for people and as
 * JSON. Asks sacct, so that it works for jobs that are long gone, and without the controller.
 */
#include "config.h"

#include "cli.h"
#include "msg.h"
#include "record.h"
#include "sacct.h"
#include "table.h"
#include "words.h"

#include <ctype.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define JOBS_MAX 100u

/* ---- which jobs ---------------------------------------------------------------------------- */

struct jobs {
    char list[2048]; /* for sacct */
    char *names[JOBS_MAX];
    size_t count;
};

static size_t digits(const char *text, size_t max)
{
    size_t n = strspn(text, "0123456789");

    return n <= max ? n : 0;
}

/* "12", "12_3" or "12+1" */
static bool is_job(const char *text)
{
    size_t n = digits(text, 10), more;

    if (n == 0 || text[n] == '\0')
        return n > 0;
    if (text[n] != '_' && text[n] != '+')
        return false;
    more = digits(text + n + 1, 10);
    return more > 0 && text[n + 1 + more] == '\0';
}

/* All arguments, each a job or several with commas. Cuts text in pieces. */
static int read_jobs(const struct cli *cli, char *text, struct jobs *jobs)
{
    size_t used = 0;

    for (char *name = text, *next; name != NULL; name = next) {
        next = strchr(name, ',');
        if (next != NULL)
            *next++ = '\0';
        if (name[0] == '\0')
            return cli_usage_error(cli, "a job is missing beside a comma");
        if (!is_job(name))
            return cli_usage_error(
                cli, "'%.40s' is no job; write 12, 12_3 (of an array) or 12+1 (of a het job)",
                name);
        if (jobs->count >= JOBS_MAX)
            return cli_usage_error(cli, "at most %u jobs at once", JOBS_MAX);
        jobs->names[jobs->count++] = name;
        used += (size_t)snprintf(jobs->list + used, sizeof(jobs->list) - used, "%s%s",
                                 used > 0 ? "," : "", name);
        if (used >= sizeof(jobs->list))
            return cli_usage_error(cli, "too many jobs at once");
    }
    return jobs->count > 0 ? CLI_OK : cli_usage_error(cli, "give a job");
}

/* Is the row what was asked for? Of "12" also the tasks 12_3 and components 12+1. */
static bool row_is_of(const struct sacct_row *row, const char *name)
{
    size_t n = strlen(name);
    const char *job = row->column[SACCT_JOB];

    if (strcmp(row->column[SACCT_RAW_JOB], name) == 0)
        return true;
    return strncmp(job, name, n) == 0 &&
           (job[n] == '\0' || ((job[n] == '_' || job[n] == '+') && strpbrk(name, "_+") == NULL));
}

/* ---- what stands in a row ------------------------------------------------------------------ */

struct finding {
    const struct sacct_row *row;
    const char *field; /* where the record is; NULL: there is none */
    struct record record;
    const char *trouble; /* why there is none, a sentence; NULL */
    char reason[RECORD_REASON_SIZE + 80];
};

static bool is_state(const struct finding *f, const char *state)
{
    return strncmp(f->row->column[SACCT_STATE], state, strlen(state)) == 0;
}

static void look_into(struct finding *f, const char *field, const char *text)
{
    char reason[RECORD_REASON_SIZE];

    if (f->field != NULL || !record_is_ours(text))
        return;
    if (record_parse(text, &f->record, reason) == 0) {
        f->field = field;
        f->trouble = NULL;
        return;
    }
    (void)snprintf(f->reason, sizeof(f->reason), "its %s starts like a record, but is none: %s",
                   field, reason);
    f->trouble = f->reason;
}

static void find_record(struct finding *f, const struct sacct_row *row)
{
    *f = (struct finding){.row = row};
    look_into(f, "AdminComment", row->column[SACCT_ADMIN_COMMENT]);
    look_into(f, "Comment", row->column[SACCT_COMMENT]);
    if (f->field != NULL || f->trouble != NULL)
        return;
    if (is_state(f, "RUNNING") || is_state(f, "SUSPENDED"))
        f->trouble = "it has not ended, and sacct shows the record of a job that has; 'adloader "
                     "explain' tells about its running steps";
    else if (is_state(f, "PENDING"))
        f->trouble = "it has not started";
    else if (row->column[SACCT_ADMIN_COMMENT][0] != '\0')
        f->trouble = "its AdminComment holds something else, which adloader leaves alone";
    else
        f->trouble = "no step of it was started with --adloader, or the controller could not write "
                     "(yet), see its log";
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static bool put(json_object *object, const char *key, json_object *value)
{
    if (value != NULL && json_object_object_add(object, key, value) == 0)
        return true;
    json_object_put(value);
    return false;
}

static bool put_null(json_object *object, const char *key)
{
    return json_object_object_add(object, key, NULL) == 0;
}

static bool put_number(json_object *object, const char *key, double value)
{
    char text[40];

    if (!isfinite(value))
        return put_null(object, key);
    (void)snprintf(text, sizeof(text), "%.10g", value);
    return put(object, key, json_object_new_double_s(value, text));
}

static bool put_text(json_object *object, const char *key, const char *text)
{
    return text == NULL ? put_null(object, key) : put(object, key, json_object_new_string(text));
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : (double)NAN;
}

static bool put_use(json_object *o, const struct record_use *use)
{
    bool cores = use->cores_known_s > 0;

    return put_number(o, "nodes", use->members) &&
           put_number(o, "time_s", share(use->life_s, use->members)) &&
           put_number(o, "loader_core_s", use->loader_core_s) &&
           put_number(o, "loader_cores_min", cores ? (double)use->cores_min : (double)NAN) &&
           put_number(o, "loader_cores_mean", share(use->cores_s, use->cores_known_s)) &&
           put_number(o, "loader_cores_max", cores ? (double)use->cores_max : (double)NAN) &&
           put_number(o, "moves", use->moves) && put_number(o, "drift", use->drift) &&
           put_text(o, "verdict", verdict_name(record_use_verdict(use))) &&
           put_number(o, "stall_share", share(use->wait_s, use->loop_s)) &&
           put_number(o, "stall_known_s", use->loop_s > 0 ? use->loop_s : (double)NAN) &&
           put_number(o, "gpu_busy_share", share(use->gpu_busy_s, use->gpu_known_s)) &&
           put_number(o, "samples", use->samples_known ? use->samples : (double)NAN);
}

static const char *step_name(uint32_t step, char *buf, size_t size)
{
    if (step == MSG_STEP_BATCH)
        return "batch";
    if (step == MSG_STEP_INTERACTIVE)
        return "interactive";
    (void)snprintf(buf, size, "%u", step);
    return buf;
}

static json_object *steps_array(const struct record *record)
{
    json_object *array = json_object_new_array();

    for (unsigned i = 0; array != NULL && i < record->nsteps; i++) {
        json_object *step = json_object_new_object();
        char name[16];

        if (step == NULL ||
            !put_text(step, "step", step_name(record->steps[i].step, name, sizeof(name))) ||
            !put_use(step, &record->steps[i].use) || json_object_array_add(array, step) != 0) {
            json_object_put(step);
            json_object_put(array);
            return NULL;
        }
    }
    return array;
}

static json_object *use_object(const struct record_use *use, uint32_t steps)
{
    json_object *o = json_object_new_object();

    if (o != NULL && put_number(o, "steps", steps) && put_use(o, use))
        return o;
    json_object_put(o);
    return NULL;
}

static uint32_t all_steps(const struct record *record, struct record_use *sum)
{
    *sum = record->other;
    for (unsigned i = 0; i < record->nsteps; i++)
        record_use_add(sum, &record->steps[i].use);
    return record->nsteps + record->others;
}

static json_object *record_object(const struct record *record)
{
    json_object *o = json_object_new_object();
    struct record_use sum;
    uint32_t steps = all_steps(record, &sum);

    if (o != NULL && put_number(o, "restarts", record->restart) &&
        put(o, "steps", steps_array(record)) &&
        (record->others > 0 ? put(o, "other_steps", use_object(&record->other, record->others))
                            : put_null(o, "other_steps")) &&
        put(o, "total", use_object(&sum, steps)))
        return o;
    json_object_put(o);
    return NULL;
}

static double number_of(const char *text)
{
    double value;

    return cli_number(text, 0, 1e15, &value) ? value : (double)NAN;
}

static json_object *job_object(const struct finding *f)
{
    const char *const *column = f->row->column;
    json_object *o = json_object_new_object();

    if (o != NULL && put_text(o, "job", column[SACCT_JOB]) &&
        put_number(o, "job_id", number_of(column[SACCT_RAW_JOB])) &&
        put_text(o, "state", column[SACCT_STATE]) && put_text(o, "user", column[SACCT_USER]) &&
        put_text(o, "name", column[SACCT_NAME]) &&
        put_number(o, "nodes", number_of(column[SACCT_NODES])) &&
        put_number(o, "elapsed_s", number_of(column[SACCT_ELAPSED_S])) &&
        put_text(o, "field", f->field) &&
        (f->field != NULL ? put(o, "record", record_object(&f->record)) : put_null(o, "record")) &&
        put_text(o, "trouble", f->trouble))
        return o;
    json_object_put(o);
    return NULL;
}

/* ---- for people ---------------------------------------------------------------------------- */

static void add_share(struct table *table, double value)
{
    if (isnan(value))
        table_cell(table, NULL);
    else
        table_cellf(table, "%.0f %%", 100 * value);
}

/* single: of one step, so that nodes and lifetime mean something */
static void add_use(struct table *table, const char *step, const struct record_use *use,
                    bool single)
{
    char age[64];
    double seconds = share(use->life_s, use->members);

    table_cell(table, step);
    table_number(table, single ? (double)use->members : (double)NAN, 0);
    table_cell(table, single ? format_age(seconds, age, sizeof(age)) : NULL);
    table_number(table, use->loader_core_s, use->loader_core_s < 100 ? 1 : 0);
    if (use->cores_known_s > 0)
        table_cellf(table, "%u / %.1f / %u", use->cores_min, use->cores_s / use->cores_known_s,
                    use->cores_max);
    else
        table_cell(table, NULL);
    table_number(table, use->moves, 0);
    add_share(table, share(use->wait_s, use->loop_s));
    add_share(table, share(use->gpu_busy_s, use->gpu_known_s));
    table_number(table, use->samples_known ? use->samples : (double)NAN, 0);
    table_number(table, use->drift, 0);
    table_cell(table, verdict_name(record_use_verdict(use)));
}

static int print_steps(const struct record *record)
{
    static const struct table_column columns[] = {
        {"STEP", false},   {"NODES", true}, {"TIME", true},     {"LOADER-CPU-S", true},
        {"CORES", true},   {"MOVES", true}, {"WAITED", true},   {"GPU-BUSY", true},
        {"SAMPLES", true}, {"DRIFT", true}, {"VERDICT", false},
    };
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    struct record_use sum;
    uint32_t steps = all_steps(record, &sum);
    char name[32];
    int rc;

    for (unsigned i = 0; i < record->nsteps; i++)
        add_use(table, step_name(record->steps[i].step, name, sizeof(name)), &record->steps[i].use,
                true);
    if (record->others > 0) {
        (void)snprintf(name, sizeof(name), "%u others", record->others);
        add_use(table, name, &record->other, false);
    }
    if (steps > 1)
        add_use(table, "all", &sum, false);
    rc = table_print(table, stdout);
    table_free(table);
    return rc;
}

/* The verdicts that occur, each explained once. */
static void print_verdicts(const struct record *record)
{
    bool said[VERDICTS] = {false};
    struct record_use sum;

    (void)all_steps(record, &sum);
    said[record_use_verdict(&sum)] = true;
    for (unsigned i = 0; i < record->nsteps; i++)
        said[record_use_verdict(&record->steps[i].use)] = true;
    for (int v = VERDICT_UNKNOWN + 1; v < VERDICTS; v++) {
        const char *name = verdict_name((enum verdict)v);

        if (said[v] && words_verdict(name) != NULL)
            printf("%s: %s.\n", name, words_verdict(name));
    }
    if (said[VERDICT_UNKNOWN])
        printf("unknown: %s.\n", sum.cores_known_s > 0 ? "nothing was measured that would tell"
                                                       : "no data loader was seen");
}

static void print_head(const struct finding *f)
{
    const char *const *column = f->row->column;
    char age[64];

    fputs("Job ", stdout);
    print_clean(stdout, column[SACCT_JOB], "?");
    if (strcmp(column[SACCT_JOB], column[SACCT_RAW_JOB]) != 0) {
        fputs(" (", stdout);
        print_clean(stdout, column[SACCT_RAW_JOB], "?");
        fputs(")", stdout);
    }
    fputs(", ", stdout);
    print_clean(stdout, column[SACCT_NAME], "without a name");
    fputs(", of ", stdout);
    print_clean(stdout, column[SACCT_USER], "?");
    fputs(": ", stdout);
    print_clean(stdout, column[SACCT_STATE], "?");
    printf(" after %s", format_age(number_of(column[SACCT_ELAPSED_S]), age, sizeof(age)));
    if (f->field != NULL && f->record.restart > 0)
        printf(", restarted %u time%s", f->record.restart, f->record.restart == 1 ? "" : "s");
    putchar('\n');
}

static int print_finding(const struct finding *f)
{
    print_head(f);
    if (f->field == NULL) {
        fputs("  No record: ", stdout);
        print_clean(stdout, f->trouble, "");
        fputs(".\n", stdout);
        return 0;
    }
    if (record_is_empty(&f->record)) {
        puts("  An empty record: no step took part.");
        return 0;
    }
    if (print_steps(&f->record) < 0)
        return -1;
    print_verdicts(&f->record);
    return 0;
}

/* ---- the subcommand ------------------------------------------------------------------------ */

/* Jobs that sacct knows nothing of, said on standard error. */
static bool complain_of_missing(const struct sacct *sacct, const struct jobs *jobs)
{
    bool missing = false;

    for (size_t i = 0; i < jobs->count; i++) {
        bool found = false;

        for (size_t k = 0; k < sacct->nrows && !found; k++)
            found = row_is_of(&sacct->rows[k], jobs->names[i]);
        if (!found)
            cli_error("sacct knows no job %s (or you may not see it)", jobs->names[i]);
        missing = missing || !found;
    }
    return missing;
}

static int print_all(const struct sacct *sacct, bool json, bool *any)
{
    json_object *root = json ? json_object_new_object() : NULL,
                *array = json ? json_object_new_array() : NULL;
    int rc = CLI_OK;

    for (size_t i = 0; i < sacct->nrows && rc == CLI_OK; i++) {
        struct finding f;

        find_record(&f, &sacct->rows[i]);
        *any = *any || f.field != NULL;
        if (json) {
            json_object *job = job_object(&f);

            if (job == NULL || array == NULL || json_object_array_add(array, job) != 0) {
                json_object_put(job);
                rc = CLI_FAILURE;
            }
        } else {
            if (i > 0)
                putchar('\n');
            rc = print_finding(&f) < 0 ? CLI_FAILURE : CLI_OK;
        }
    }
    if (!json)
        return rc;
    if (rc == CLI_OK && root != NULL && array != NULL && put(root, "jobs", array)) {
        rc = cli_print_json(root);
    } else {
        json_object_put(array);
        rc = CLI_FAILURE;
    }
    json_object_put(root);
    return rc;
}

static int run_for(const struct cli *cli, const struct jobs *jobs)
{
    struct sacct sacct;
    char error[1024] = "not enough memory";
    bool any = false, missing;
    int rc;

    if (sacct_run(cli_value(cli, "sacct"), jobs->list, &sacct, error, sizeof(error)) < 0) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    missing = complain_of_missing(&sacct, jobs);
    rc = print_all(&sacct, cli->json, &any);
    sacct_free(&sacct);
    if (rc != CLI_OK) {
        cli_error("not enough memory, or standard output cannot be written to");
        return rc;
    }
    return missing || !any ? CLI_FAILURE : CLI_OK;
}

static int run(const struct cli *cli)
{
    struct jobs jobs = {.count = 0};
    char *text = strdup(cli->argv[0]);
    int rc;

    if (text == NULL) {
        cli_error("not enough memory");
        return CLI_FAILURE;
    }
    rc = read_jobs(cli, text, &jobs);
    if (rc == CLI_OK)
        rc = run_for(cli, &jobs);
    free(text);
    return rc;
}

static const struct cli_option options[] = {
    {"sacct", "PROGRAM", "run PROGRAM instead of Slurm's sacct"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_report = {
    .name = "report",
    .arguments = "JOB[,JOB...]",
    .summary = "tell from the accounting what adloader did for a job that has ended",
    .text =
        "JOB is a number as sacct shows it: 12, 12_3 (a task of an array) or 12+1 (a component\n"
        "of a het job); 12 alone also means all its tasks or components. All runs of a requeued\n"
        "job are shown. The exit status is 1 where no record was found.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
