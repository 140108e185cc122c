/* The simulator: see sim.h. */
#include "config.h"

#include "sim.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_RUNNING ((size_t)-1)
#define EFFORT      2e5   /* for jobs that couple nodes: a part of what the controller spends */
#define RATIO_MAX   100.0 /* of a rate over one that is next to nothing */

enum phase {           /* of a job that holds its GPUs */
             STARTING, /* trains not yet, and keeps its own cores */
             LEARNING, /* trains; has its own cores or more, since nobody knows yet what it needs */
             TRAINING, /* trains with what the policy gives it */
             ENDING    /* trains no more, and keeps its own cores */
};

struct running {
    size_t job;
    enum phase phase;
    unsigned *nodes;      /* [job.nodes] */
    unsigned *cores;      /* [job.nodes], in force */
    double *seen, *truth; /* [width]: predicted and true rate of one member by its cores */
    double seen_gpu_rate, gpu_rate; /* of one member */
    double left, rate;              /* samples; samples/s of all members */
    double even_rate, own_rate;     /* what other divisions would give now */
    double since, trains_since, learned_at;
    double vs_even, vs_own, below_own; /* integrals over time */
    unsigned version;
    unsigned visit;
};

struct machine {
    unsigned free_gpus;
    size_t *jobs; /* running on it: index into sim.running */
    unsigned njobs;
    unsigned visit, local;
};

struct finish {
    double time_s;
    size_t slot;
    unsigned version;
};

struct sim {
    const struct trace *trace;
    const struct sim_options *options;
    struct sim_result *result;
    struct machine *nodes;
    struct running *running; /* slots */
    size_t *free_slots, nfree;
    struct finish *heap;
    size_t nheap, heap_room;
    double now;
    size_t next_arrival, next_start; /* jobs arrived; jobs started, in order */
    double busy_gpus, trained_s;     /* of all jobs that are through */
    unsigned walk;
    size_t series_room;
    /* of one problem */
    struct alloc_member *members;
    struct alloc_node *pools;
    unsigned *counts, *even, *touched;
    size_t *part_jobs;
    size_t members_room;
};

/* ---- curves -------------------------------------------------------------------------------- */

/* A GPU's rate with a fractional number of cores. */
static double curve_at(const struct trace_curve *curve, double cores)
{
    double last = curve->nrate - 1;
    unsigned below;

    if (cores >= last)
        return curve->rate[curve->nrate - 1];
    below = (unsigned)cores;
    return curve->rate[below] + (cores - below) * (curve->rate[below + 1] - curve->rate[below]);
}

static size_t width(const struct sim *s)
{
    return (size_t)s->trace->cores + 1;
}

/*
 * The member's true curve, and one as a predictor would have it that is wrong about both the rate
 * of a core and G: T'(c) = g T(c k / g), with lognormal factors k and g of the job's own.
 */
static void make_curves(struct sim *s, struct running *r)
{
    const struct trace_job *job = &s->trace->jobs[r->job];
    const struct trace_curve *curve = &s->trace->curves[job->curve];
    uint64_t state = s->options->seed * 1000003u + r->job * 0x9e3779b97f4a7c15ULL;
    double k = exp(s->options->error * trace_normal(&state));
    double g = exp(s->options->error * trace_normal(&state));

    for (size_t c = 0; c < width(s); c++) {
        double each = (double)c / job->gpus;

        r->truth[c] = job->gpus * curve_at(curve, each);
        r->seen[c] = job->gpus * g * curve_at(curve, each * k / g);
    }
    r->gpu_rate = job->gpus * curve->gpu_rate;
    r->seen_gpu_rate = r->gpu_rate * g;
}

/* Loader cores of the slots of a job's GPUs on one node. */
static unsigned own_cores(const struct trace *t, const struct trace_job *job)
{
    unsigned slot = t->cores / t->gpus;

    return slot > t->main_per_gpu ? (slot - t->main_per_gpu) * job->gpus : 0;
}

static bool trains(const struct running *r)
{
    return r->phase == LEARNING || r->phase == TRAINING;
}

/* What may be divided: own cores of those who train, and with pool=all those of idle GPUs. */
static unsigned pool_of(const struct sim *s, const struct machine *node)
{
    const struct trace *t = s->trace;
    unsigned own = 0, kept = 0;

    for (unsigned i = 0; i < node->njobs; i++) {
        const struct running *r = &s->running[node->jobs[i]];

        *(trains(r) ? &own : &kept) += own_cores(t, &t->jobs[r->job]);
    }
    return t->pool_all ? t->cores - t->main_per_gpu * (t->gpus - node->free_gpus) - kept : own;
}

/* ---- the heap of ends ---------------------------------------------------------------------- */

static bool sooner(const struct finish *a, const struct finish *b)
{
    return a->time_s < b->time_s || (a->time_s <= b->time_s && a->slot < b->slot);
}

static int heap_push(struct sim *s, struct finish f)
{
    size_t i;

    if (s->nheap == s->heap_room) {
        size_t room = s->heap_room == 0 ? 256 : 2 * s->heap_room;
        struct finish *more = reallocarray(s->heap, room, sizeof(*more));

        if (more == NULL)
            return -1;
        s->heap = more;
        s->heap_room = room;
    }
    for (i = s->nheap++; i > 0 && sooner(&f, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = f;
    return 0;
}

static void heap_pop(struct sim *s)
{
    struct finish last = s->heap[--s->nheap];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= s->nheap)
            break;
        if (child + 1 < s->nheap && sooner(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!sooner(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
}

/* The next end that is still true. */
static const struct finish *next_finish(struct sim *s)
{
    while (s->nheap > 0) {
        const struct finish *f = &s->heap[0];

        if (s->running[f->slot].job != NOT_RUNNING && s->running[f->slot].version == f->version)
            return f;
        heap_pop(s);
    }
    return NULL;
}

/* ---- a job's progress ---------------------------------------------------------------------- */

static double ratio(double rate, double other)
{
    if (other <= 0)
        return rate <= 0 ? 1 : RATIO_MAX;
    return fmin(RATIO_MAX, rate / other);
}

static double gpus_of(const struct sim *s, const struct running *r)
{
    const struct trace_job *job = &s->trace->jobs[r->job];

    return (double)job->gpus * job->nodes;
}

static double busy_of(const struct sim *s, const struct running *r)
{
    return gpus_of(s, r) * r->rate / (r->gpu_rate * s->trace->jobs[r->job].nodes);
}

/* Account for the time since the last change of its rate. */
static void advance(struct sim *s, struct running *r)
{
    double dt = s->now - r->since;

    r->left -= r->rate * dt;
    r->vs_even += dt * ratio(r->rate, r->even_rate);
    r->vs_own += dt * ratio(r->rate, r->own_rate);
    if (r->rate < (1 - ALLOC_FLOOR_TOLERANCE - 1e-6) * r->own_rate)
        r->below_own += dt;
    r->since = s->now;
}

/* Its rate from now on; what comes next for it is that it is known, or that it is done. */
static int set_rate(struct sim *s, size_t slot, double rate)
{
    struct running *r = &s->running[slot];

    s->busy_gpus -= busy_of(s, r);
    r->rate = rate;
    s->busy_gpus += busy_of(s, r);
    s->result->worst_vs_own = fmin(s->result->worst_vs_own, ratio(r->rate, r->own_rate));
    r->version++;
    double next = rate > 0 ? s->now + fmax(0, r->left) / rate : INFINITY;
    if (r->phase == LEARNING)
        next = fmin(next, r->learned_at);
    if (isinf(next))
        return 0; /* it stands still until something changes */
    return heap_push(s, (struct finish){next, slot, r->version});
}

/* ---- one decision -------------------------------------------------------------------------- */

struct part {
    size_t nnodes, njobs, nmembers;
};

static int reserve_members(struct sim *s, size_t n)
{
    size_t room = 2 * n;

    if (n <= s->members_room)
        return 0;
    free(s->members);
    free(s->counts);
    free(s->even);
    s->members = calloc(room, sizeof(*s->members));
    s->counts = calloc(room, sizeof(*s->counts));
    s->even = calloc(room, sizeof(*s->even));
    s->members_room = room;
    return s->members != NULL && s->counts != NULL && s->even != NULL ? 0 : -1;
}

/* All nodes and jobs that hang together with a node. */
static struct part gather(struct sim *s, unsigned from)
{
    struct part part = {0, 0, 0};

    s->nodes[from].visit = s->walk;
    s->touched[part.nnodes++] = from;
    for (size_t i = 0; i < part.nnodes; i++) {
        struct machine *node = &s->nodes[s->touched[i]];

        node->local = (unsigned)i;
        for (unsigned k = 0; k < node->njobs; k++) {
            struct running *r = &s->running[node->jobs[k]];
            unsigned n = s->trace->jobs[r->job].nodes;

            if (r->visit == s->walk)
                continue;
            r->visit = s->walk;
            if (!trains(r))
                continue;
            s->part_jobs[part.njobs++] = node->jobs[k];
            part.nmembers += n;
            for (unsigned o = 0; o < n; o++)
                if (s->nodes[r->nodes[o]].visit != s->walk) {
                    s->nodes[r->nodes[o]].visit = s->walk;
                    s->touched[part.nnodes++] = r->nodes[o];
                }
        }
    }
    return part;
}

static unsigned least_cores(const struct sim *s, const struct running *r)
{
    return r->phase == LEARNING ? own_cores(s->trace, &s->trace->jobs[r->job]) : 0;
}

static void fill_members(struct sim *s, const struct part *part)
{
    size_t n = 0;

    for (size_t j = 0; j < part->njobs; j++) {
        const struct running *r = &s->running[s->part_jobs[j]];
        const struct trace_job *job = &s->trace->jobs[r->job];

        for (unsigned k = 0; k < job->nodes; k++)
            s->members[n++] = (struct alloc_member){.job = (unsigned)j,
                                                    .node = s->nodes[r->nodes[k]].local,
                                                    .own = own_cores(s->trace, job),
                                                    .min = least_cores(s, r),
                                                    .now = r->cores[k],
                                                    .weight = job->weight,
                                                    .gpus = job->gpus,
                                                    .rate = r->seen,
                                                    .nrate = (unsigned)width(s),
                                                    .gpu_rate = r->seen_gpu_rate,
                                                    .uncertainty = s->options->uncertainty,
                                                    .work = fmax(0, r->left) / job->nodes};
    }
    for (size_t i = 0; i < part->nnodes; i++)
        s->pools[i].pool = pool_of(s, &s->nodes[s->touched[i]]);
}

/* The true rate of a job with these cores: the slowest member sets the pace. */
static double true_rate(const struct sim *s, const struct running *r, const unsigned *cores)
{
    double least = INFINITY;
    unsigned n = s->trace->jobs[r->job].nodes;

    for (unsigned k = 0; k < n; k++) {
        size_t c = cores[k] < width(s) ? cores[k] : width(s) - 1;

        least = fmin(least, r->truth[c]);
    }
    return least * n;
}

static int apply(struct sim *s, const struct part *part)
{
    size_t n = 0;

    for (size_t j = 0; j < part->njobs; j++) {
        struct running *r = &s->running[s->part_jobs[j]];
        const struct trace_job *job = &s->trace->jobs[r->job];
        unsigned own = own_cores(s->trace, job);

        advance(s, r);
        r->even_rate = true_rate(s, r, s->even + n);
        r->own_rate = job->nodes * r->truth[own < width(s) ? own : width(s) - 1];
        for (unsigned k = 0; k < job->nodes; k++) {
            if (r->trains_since < s->now && s->counts[n + k] > r->cores[k])
                s->result->moves += s->counts[n + k] - r->cores[k];
            r->cores[k] = s->counts[n + k];
        }
        n += job->nodes;
        if (set_rate(s, s->part_jobs[j], true_rate(s, r, r->cores)) < 0)
            return -1;
    }
    return 0;
}

static int decide_part(struct sim *s, unsigned node, char *error, size_t error_size)
{
    struct part part = gather(s, node);
    struct alloc_problem p = {.policy = s->options->policy,
                              .guarantee = s->options->guarantee,
                              .nodes = s->pools,
                              .nnodes = part.nnodes,
                              .njobs = part.njobs,
                              .nmembers = part.nmembers,
                              .io_bytes_per_s = NAN,
                              .effort = EFFORT,
                              .min_gain = s->options->min_gain};
    struct alloc_result result;

    if (part.njobs == 0)
        return 0;
    if (reserve_members(s, part.nmembers) < 0) {
        snprintf(error, error_size, "not enough memory");
        return -1;
    }
    fill_members(s, &part);
    p.members = s->members;
    result = (struct alloc_result){.cores = s->counts};
    if (alloc_solve(&p, &result, error, error_size) < 0)
        return -1;
    p.policy = ALLOC_EVEN;
    result = (struct alloc_result){.cores = s->even};
    if (alloc_solve(&p, &result, error, error_size) < 0)
        return -1;
    s->result->solved += part.nmembers;
    return apply(s, &part);
}

/* ---- starts and ends ----------------------------------------------------------------------- */

/* Nodes with the fewest free GPUs that suffice, so that large jobs find room later. */
static bool find_nodes(const struct sim *s, const struct trace_job *job, unsigned *nodes)
{
    unsigned found = 0;

    for (unsigned free_gpus = job->gpus; free_gpus <= s->trace->gpus; free_gpus++)
        for (unsigned n = 0; n < s->trace->nnodes; n++) {
            if (s->nodes[n].free_gpus != free_gpus)
                continue;
            nodes[found++] = n;
            if (found == job->nodes)
                return true;
        }
    return false;
}

static void running_free(struct running *r)
{
    free(r->nodes);
    free(r->cores);
    free(r->seen);
    free(r->truth);
    *r = (struct running){.job = NOT_RUNNING, .version = r->version};
}

static void begin_training(const struct sim *s, struct running *r)
{
    r->phase = s->trace->learn_s > 0 ? LEARNING : TRAINING;
    r->since = r->trains_since = s->now;
    r->learned_at = s->now + s->trace->learn_s;
}

static int start(struct sim *s, size_t job_index, const unsigned *nodes)
{
    const struct trace_job *job = &s->trace->jobs[job_index];
    size_t slot = s->free_slots[--s->nfree];
    struct running *r = &s->running[slot];

    *r = (struct running){.job = job_index, .left = job->work_samples, .version = r->version + 1};
    r->nodes = calloc(job->nodes, sizeof(*r->nodes));
    r->cores = calloc(job->nodes, sizeof(*r->cores));
    r->seen = calloc(width(s), sizeof(*r->seen));
    r->truth = calloc(width(s), sizeof(*r->truth));
    if (r->nodes == NULL || r->cores == NULL || r->seen == NULL || r->truth == NULL)
        return -1;
    memcpy(r->nodes, nodes, job->nodes * sizeof(*nodes));
    make_curves(s, r);
    for (unsigned k = 0; k < job->nodes; k++) {
        struct machine *node = &s->nodes[nodes[k]];

        node->free_gpus -= job->gpus;
        node->jobs[node->njobs++] = slot;
    }
    s->result->start_s[job_index] = s->now;
    if (s->trace->start_s <= 0) {
        begin_training(s, r);
        return 0;
    }
    r->phase = STARTING;
    return heap_push(s, (struct finish){s->now + s->trace->start_s, slot, r->version});
}

static void leave_node(struct machine *node, size_t slot, unsigned gpus)
{
    unsigned i = 0;

    while (i < node->njobs && node->jobs[i] != slot)
        i++;
    memmove(node->jobs + i, node->jobs + i + 1, (node->njobs - i - 1) * sizeof(*node->jobs));
    node->njobs--;
    node->free_gpus += gpus;
}

static void end_training(struct sim *s, struct running *r)
{
    const struct trace_job *job = &s->trace->jobs[r->job];
    double lasted;

    advance(s, r);
    s->busy_gpus -= busy_of(s, r);
    r->rate = 0;
    lasted = fmax(1e-9, s->now - r->trains_since);
    s->trained_s += lasted;
    s->result->mean_vs_even += r->vs_even / lasted;
    s->result->mean_vs_own += r->vs_own / lasted;
    s->result->below_own_share += r->below_own;
    s->result->mean_gpu_busy += fmin(1, job->work_samples / (r->gpu_rate * job->nodes) / lasted);
}

static void leave(struct sim *s, size_t slot)
{
    struct running *r = &s->running[slot];
    const struct trace_job *job = &s->trace->jobs[r->job];

    s->result->end_s[r->job] = s->now;
    for (unsigned k = 0; k < job->nodes; k++)
        leave_node(&s->nodes[r->nodes[k]], slot, job->gpus);
    running_free(r);
    s->free_slots[s->nfree++] = slot;
    s->result->events++;
}

/* The job's next phase. */
static int go_on(struct sim *s, size_t slot)
{
    struct running *r = &s->running[slot];

    switch (r->phase) {
    case STARTING:
        begin_training(s, r);
        return 0;
    case LEARNING:
        if (s->now < r->learned_at)
            break;
        r->phase = TRAINING;
        return 0;
    case TRAINING:
        break;
    case ENDING:
        leave(s, slot);
        return 0;
    }
    end_training(s, r);
    if (s->trace->end_s <= 0) {
        leave(s, slot);
        return 0;
    }
    r->phase = ENDING;
    r->version++;
    return heap_push(s, (struct finish){s->now + s->trace->end_s, slot, r->version});
}

/* Mark nodes for a new decision: those of an ended or a started job. */
struct marks {
    unsigned *nodes;
    size_t n;
};

static int start_waiting(struct sim *s, unsigned *nodes, struct marks *marks)
{
    while (s->next_start < s->next_arrival) {
        const struct trace_job *job = &s->trace->jobs[s->next_start];

        if (!find_nodes(s, job, nodes))
            return 0;
        if (start(s, s->next_start, nodes) < 0)
            return -1;
        memcpy(marks->nodes + marks->n, nodes, job->nodes * sizeof(*nodes));
        marks->n += job->nodes;
        s->next_start++;
        s->result->events++;
    }
    return 0;
}

static int record(struct sim *s)
{
    struct sim_result *r = s->result;

    if (!s->options->keep_series)
        return 0;
    if (r->nseries == s->series_room) {
        size_t room = s->series_room == 0 ? 1024 : 2 * s->series_room;
        struct sim_point *more = reallocarray(r->series, room, sizeof(*more));

        if (more == NULL)
            return -1;
        r->series = more;
        s->series_room = room;
    }
    r->series[r->nseries++] =
        (struct sim_point){s->now, s->busy_gpus / ((double)s->trace->nnodes * s->trace->gpus)};
    return 0;
}

/* One event: a job arrives or ends, whatever comes first; then decide anew where it matters. */
static int step(struct sim *s, unsigned *nodes, struct marks *marks, char *error, size_t error_size)
{
    const struct finish *f = next_finish(s);
    double arrival =
        s->next_arrival < s->trace->njobs ? s->trace->jobs[s->next_arrival].arrival_s : INFINITY;

    marks->n = 0;
    if (f == NULL && isinf(arrival)) {
        snprintf(error, error_size,
                 "job %s stands still: nobody gives it a core that it needs to go on",
                 s->trace->jobs[s->next_start < s->trace->njobs ? s->next_start : 0].name);
        return -1;
    }
    if (f != NULL && f->time_s <= arrival) {
        size_t slot = f->slot;
        const struct running *r = &s->running[slot];
        unsigned n = s->trace->jobs[r->job].nodes;

        s->now = fmax(s->now, f->time_s);
        heap_pop(s);
        memcpy(marks->nodes, r->nodes, n * sizeof(*r->nodes));
        marks->n = n;
        if (go_on(s, slot) < 0) {
            snprintf(error, error_size, "not enough memory");
            return -1;
        }
    } else {
        s->now = fmax(s->now, arrival);
        s->next_arrival++;
    }
    if (start_waiting(s, nodes, marks) < 0) {
        snprintf(error, error_size, "not enough memory");
        return -1;
    }
    s->walk++;
    for (size_t i = 0; i < marks->n; i++)
        if (s->nodes[marks->nodes[i]].visit != s->walk &&
            decide_part(s, marks->nodes[i], error, error_size) < 0)
            return -1;
    return record(s);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int summarise(struct sim *s)
{
    struct sim_result *r = s->result;
    size_t n = s->trace->njobs;
    double *completion = calloc(n, sizeof(*completion)), work = 0;

    if (completion == NULL)
        return -1;
    for (size_t j = 0; j < n; j++) {
        completion[j] = r->end_s[j] - s->trace->jobs[j].arrival_s;
        r->mean_completion_s += completion[j] / (double)n;
        r->makespan_s = fmax(r->makespan_s, r->end_s[j]);
        work += s->trace->jobs[j].work_samples;
    }
    qsort(completion, n, sizeof(*completion), compare_double);
    r->p95_completion_s = completion[(size_t)ceil(0.95 * (double)n) - 1]; /* n is not 0 */
    r->samples_per_s = work / r->makespan_s;
    r->mean_vs_even /= (double)n;
    r->mean_vs_own /= (double)n;
    r->mean_gpu_busy /= (double)n;
    r->below_own_share /= fmax(1e-9, s->trained_s);
    free(completion);
    return 0;
}

static int sim_alloc(struct sim *s)
{
    const struct trace *t = s->trace;
    size_t slots = (size_t)t->nnodes * t->gpus;

    s->nodes = calloc(t->nnodes, sizeof(*s->nodes));
    s->running = calloc(slots, sizeof(*s->running));
    s->free_slots = calloc(slots, sizeof(*s->free_slots));
    s->part_jobs = calloc(slots, sizeof(*s->part_jobs));
    s->touched = calloc(t->nnodes, sizeof(*s->touched));
    s->pools = calloc(t->nnodes, sizeof(*s->pools));
    s->result->start_s = calloc(t->njobs, sizeof(double));
    s->result->end_s = calloc(t->njobs, sizeof(double));
    if (s->nodes == NULL || s->running == NULL || s->free_slots == NULL || s->part_jobs == NULL ||
        s->touched == NULL || s->pools == NULL || s->result->start_s == NULL ||
        s->result->end_s == NULL)
        return -1;
    for (size_t i = 0; i < slots; i++) {
        s->running[i].job = NOT_RUNNING;
        s->free_slots[s->nfree++] = slots - 1 - i;
    }
    for (unsigned n = 0; n < t->nnodes; n++) {
        s->nodes[n].free_gpus = t->gpus;
        s->nodes[n].jobs = calloc(t->gpus, sizeof(*s->nodes[n].jobs));
        if (s->nodes[n].jobs == NULL)
            return -1;
    }
    return 0;
}

static void sim_free(struct sim *s)
{
    size_t slots = (size_t)s->trace->nnodes * s->trace->gpus;

    for (unsigned n = 0; s->nodes != NULL && n < s->trace->nnodes; n++)
        free(s->nodes[n].jobs);
    for (size_t i = 0; s->running != NULL && i < slots; i++)
        running_free(&s->running[i]);
    free(s->nodes);
    free(s->running);
    free(s->free_slots);
    free(s->part_jobs);
    free(s->touched);
    free(s->pools);
    free(s->heap);
    free(s->members);
    free(s->counts);
    free(s->even);
}

static int run_all(struct sim *s, char *error, size_t error_size)
{
    const struct trace *t = s->trace;
    unsigned *nodes = calloc(t->nnodes, sizeof(*nodes));
    struct marks marks = {calloc((size_t)t->nnodes * (t->gpus + 1u), sizeof(unsigned)), 0};
    int rc = nodes == NULL || marks.nodes == NULL ? -1 : 0;

    while (rc == 0 && (s->next_arrival < t->njobs || s->nfree < (size_t)t->nnodes * t->gpus))
        rc = step(s, nodes, &marks, error, error_size);
    if (rc == 0)
        rc = summarise(s);
    free(nodes);
    free(marks.nodes);
    return rc;
}

int sim_run(const struct trace *trace, const struct sim_options *options, struct sim_result *result,
            char *error, size_t error_size)
{
    struct sim s = {.trace = trace, .options = options, .result = result};
    int rc;

    *result = (struct sim_result){.worst_vs_own = RATIO_MAX};
    snprintf(error, error_size, "not enough memory");
    rc = sim_alloc(&s);
    if (rc == 0)
        rc = run_all(&s, error, error_size);
    sim_free(&s);
    if (rc < 0)
        sim_result_free(result);
    return rc;
}

void sim_result_free(struct sim_result *result)
{
    free(result->series);
    free(result->start_s);
    free(result->end_s);
    *result = (struct sim_result){0};
}

/* ---- the bound ----------------------------------------------------------------------------- */

/* The least of what a job needs: time alone with all it can use, GPU seconds, core seconds. */
struct least {
    double seconds, gpu_seconds, core_seconds;
};

static struct least least_of(const struct trace *t, const struct trace_job *job)
{
    const struct trace_curve *curve = &t->curves[job->curve];
    double cores = t->cores - (double)t->main_per_gpu * job->gpus, best = 0, thrift = 0;
    double each = job->work_samples / (job->gpus * (double)job->nodes);

    for (unsigned c = 0; c < curve->nrate; c++) {
        if (c <= cores / job->gpus + 1)
            best = fmax(best, curve_at(curve, fmin(c, cores / job->gpus)));
        if (c > 0)
            thrift = fmax(thrift, curve->rate[c] / c);
    }
    /* a curve that is above 0 without any core needs no core seconds */
    return (struct least){each / best, each * job->gpus * job->nodes / best,
                          curve->rate[0] > 0 ? 0 : each * job->gpus * job->nodes / thrift};
}

int sim_bound(const struct trace *t, struct sim_bound *bound)
{
    double gpu_seconds = 0, core_seconds = 0, work = 0;
    double gpus = (double)t->nnodes * t->gpus;
    double cores = (double)t->nnodes * t->cores;

    *bound = (struct sim_bound){0};
    /* from the last arrival back: what arrives from then on needs its capacity from then on */
    for (size_t j = t->njobs; j-- > 0;) {
        const struct trace_job *job = &t->jobs[j];
        struct least least = least_of(t, job);
        double after;

        gpu_seconds += least.gpu_seconds;
        core_seconds += least.core_seconds + t->main_per_gpu * least.gpu_seconds;
        work += job->work_samples;
        after = fmax(least.seconds, fmax(gpu_seconds / gpus, core_seconds / cores));
        bound->makespan_s = fmax(bound->makespan_s, job->arrival_s + after);
        bound->mean_completion_s += least.seconds / (double)t->njobs;
    }
    bound->samples_per_s = work / bound->makespan_s;
    return 0;
}
