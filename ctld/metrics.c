/* The controller's figures in Prometheus' text form. See metrics.h. */
#include "config.h"

#include "metrics.h"

#include "clock.h"
#include "ctld.h"
#include "recorder.h"
#include "server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    (void)fprintf(out, "# HELP %s %s\n# TYPE %s counter\n%s %" PRIu64 "\n", name, help, name, name,
                  value);
}

static void gauge(FILE *out, const char *name, const char *help, double value)
{
    (void)fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %.9g\n", name, help, name, name, value);
}

/* Sums over the registry, taken in one walk. */
struct totals {
    uint64_t states[4], verdicts[VERDICTS];
    uint64_t pool, free_cpus, own, borrowed, loader_tasks;
    double use;
};

static void add_member(struct totals *t, const struct member *m)
{
    const struct recon_member *p = &m->place;
    unsigned assigned = cpus_count(&p->target.cpus), own = cpus_count(&p->loader);

    t->states[m->state]++;
    t->verdicts[member_is_bystander(m) ? VERDICT_UNMANAGED : verdict_kind(&m->verdict)]++;
    t->own += own;
    if (assigned > own)
        t->borrowed += assigned - own;
    t->loader_tasks += m->loader_tasks;
    if (m->learner.use > 0)
        t->use += m->learner.use;
}

static void sum(const struct ctld *ctld, struct totals *t)
{
    for (size_t i = 0; i < ctld->registry.node_buckets; i++) {
        for (const struct node *n = ctld->registry.nodes[i]; n != NULL; n = n->next) {
            t->pool += cpus_count(&n->pool);
            t->free_cpus += cpus_count(&n->free);
            for (size_t k = 0; k < n->nmembers; k++)
                add_member(t, n->members[k]);
        }
    }
}

static void write_states(FILE *out, const struct totals *t)
{
    (void)fputs("# HELP adloader_members Registered steps on nodes, by state\n"
                "# TYPE adloader_members gauge\n",
                out);
    for (int s = MEMBER_LEARNING; s <= MEMBER_SETTLING; s++)
        (void)fprintf(out, "adloader_members{state=\"%s\"} %" PRIu64 "\n",
                      member_state_name((enum member_state)s), t->states[s]);
}

static void write_verdicts(FILE *out, const struct totals *t)
{
    (void)fputs(
        "# HELP adloader_verdict_members Registered steps on nodes, by why their GPUs wait\n"
        "# TYPE adloader_verdict_members gauge\n",
        out);
    for (int v = VERDICT_UNKNOWN; v < VERDICTS; v++)
        (void)fprintf(out, "adloader_verdict_members{verdict=\"%s\"} %" PRIu64 "\n",
                      verdict_name((enum verdict)v), t->verdicts[v]);
}

static void write_records(FILE *out, const struct ctld *ctld)
{
    struct recorder_counts records;

    recorder_get_counts(ctld, &records);
    gauge(out, "adloader_records_pending", "Jobs whose record is not written yet",
          (double)records.pending);
    counter(out, "adloader_records_written_total", "Records written into jobs' fields",
            records.written);
    counter(out, "adloader_records_foreign_total", "Records left out for a foreign text",
            records.foreign);
    counter(out, "adloader_records_dropped_total", "Records given up", records.dropped);
    counter(out, "adloader_record_failures_total", "Attempts that Slurm did not answer or refused",
            records.failures);
}

static void write_all(FILE *out, const struct ctld *ctld, const struct totals *t)
{
    const struct control *control = &ctld->control;

    (void)fprintf(out,
                  "# HELP adloader_build_info Version of the controller\n"
                  "# TYPE adloader_build_info gauge\nadloader_build_info{version=\"%s\"} 1\n",
                  CTLD_VERSION);
    gauge(out, "adloader_uptime_seconds", "Time since the controller started",
          (double)(clock_monotonic_ms() - ctld->started_ms) / 1000);
    (void)fprintf(
        out,
        "# HELP adloader_role Which of several controllers this is: only, primary, backup\n"
        "# TYPE adloader_role gauge\nadloader_role{role=\"%s\"} 1\n",
        role_name(ctld));
    gauge(out, "adloader_serving", "1 if agents are admitted, 0 while another controller serves",
          role_serves(ctld));
    counter(out, "adloader_takeovers_total", "Times that a backup began to serve",
            role_takeovers(ctld));
    gauge(out, "adloader_settling", "1 while nothing moves after a start", control->settling);
    gauge(out, "adloader_agents", "Connected agents", (double)ctld->server->nagents);
    gauge(out, "adloader_nodes", "Nodes with members", (double)ctld->registry.nnodes);
    gauge(out, "adloader_jobs", "Jobs with members", (double)ctld->registry.njobs);
    write_states(out, t);
    write_verdicts(out, t);
    gauge(out, "adloader_pool_cpus", "CPUs to divide between loaders", (double)t->pool);
    gauge(out, "adloader_free_cpus", "Of them, assigned to nobody", (double)t->free_cpus);
    gauge(out, "adloader_own_loader_cpus", "Loader CPUs that members brought along",
          (double)t->own);
    gauge(out, "adloader_borrowed_cpus", "CPUs that members have beyond their own",
          (double)t->borrowed);
    gauge(out, "adloader_loader_tasks", "Loader tasks seen by agents", (double)t->loader_tasks);
    gauge(out, "adloader_loader_use_cores", "CPU time that loaders use, in cores", t->use);
    counter(out, "adloader_registrations_total", "Agents that registered", ctld->registrations);
    counter(out, "adloader_releases_total", "Agents that said goodbye", ctld->releases);
    counter(out, "adloader_losses_total", "Agents whose connection was lost", ctld->losses);
    counter(out, "adloader_refusals_total", "Peers that were refused", ctld->refusals);
    counter(out, "adloader_reports_total", "Reports received", ctld->reports);
    counter(out, "adloader_assignments_total", "Assignments sent", ctld->assignments);
    counter(out, "adloader_acks_total", "Assignments confirmed", ctld->acks);
    counter(out, "adloader_queries_total", "Queries answered", ctld->queries_total);
    counter(out, "adloader_decisions_total", "Allocations computed", control->decisions);
    counter(out, "adloader_changes_total", "Members whose cores were changed", control->changes);
    (void)fprintf(out,
                  "# HELP adloader_decide_seconds_total Time spent deciding and sending\n"
                  "# TYPE adloader_decide_seconds_total counter\n"
                  "adloader_decide_seconds_total %.9f\n",
                  (double)control->decide_ns / 1e9);
    gauge(out, "adloader_decide_seconds_max", "Longest round of decisions",
          (double)control->decide_ns_max / 1e9);
    write_records(out, ctld);
}

char *metrics_text(const struct ctld *ctld)
{
    struct totals totals = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int failed;

    if (out == NULL)
        return NULL;
    sum(ctld, &totals);
    write_all(out, ctld, &totals);
    failed = ferror(out);
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}
