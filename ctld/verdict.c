/* Why a member's GPUs wait for data. See verdict.h. */
#include "config.h"

#include "verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SMOOTH_S     4.0  /* time constant of the measured values */
#define FIRST_S      4.0  /* looked at, before anything is said: the first batches are no measure */
#define FED          0.92 /* busy share from which data is in time */
#define FED_CLOCKED  0.95 /* ... by the loop's own clock, which knows no launch gaps */
#define SATURATED    0.85 /* of the cores that loaders may use */
#define CROWDED      0.5  /* queueing, of the time that loaders run */
#define WORKERS_BUSY 0.85 /* of the time, each, running or waiting for a CPU */
#define MAIN_BUSY    0.8  /* of the time: the interpreter's lock leaves little more */
#define IO_SHARE     0.25 /* of the workers, waiting for storage */
#define ASLEEP       0.6  /* of the workers' time: neither computing nor waiting for a CPU */
#define STILL_CORES  0.02 /* CPU use that is none */
#define THREADS_MANY 2.5  /* tasks a worker ... */
#define AT_ONCE      1.5  /* ... of which so many run or want to at once */
#define WARM_S       2.5
#define SHOWN_S      60.0

void verdict_init(struct verdict_state *s)
{
    *s = (struct verdict_state){
        .use = NAN,
        .queue = NAN,
        .io_wait = NAN,
        .main_use = NAN,
        .main_thread = NAN,
        .busy = NAN,
        .rate = NAN,
        .read_rate = NAN,
        .cores = NAN,
        .cpu_limit = NAN,
        .tasks = NAN,
        .workers = NAN,
    };
}

enum verdict verdict_kind(const struct verdict_state *s)
{
    return (enum verdict)s->kind;
}

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICTS] = {
        [VERDICT_UNKNOWN] = "unknown",         [VERDICT_GPU_BOUND] = "gpu-bound",
        [VERDICT_CPU_STARVED] = "cpu-starved", [VERDICT_WORKER_LIMITED] = "worker-limited",
        [VERDICT_IO_BOUND] = "io-bound",       [VERDICT_MAIN_THREAD_BOUND] = "main-thread-bound",
        [VERDICT_STALLED] = "stalled",         [VERDICT_ORPHANED] = "orphaned",
        [VERDICT_UNMANAGED] = "unmanaged",
    };
    return (unsigned)verdict < VERDICTS ? names[verdict] : "unknown";
}

/* ---- what was seen ---- */

static void smooth(float *mean, double value, double weight)
{
    if (isnan(value))
        *mean = NAN;
    else if (isnan(*mean))
        *mean = (float)value;
    else
        *mean += (float)(weight * (value - (double)*mean));
}

static void take(struct verdict_state *s, const struct verdict_look *l)
{
    double weight = 1 - exp(-l->interval_s / SMOOTH_S);

    /* The first batches are waited for by everybody: they are no measure of what follows. */
    if (l->tasks > 0 && s->warm_s < (float)WARM_S) {
        s->warm_s += (float)l->interval_s;
        weight = 1;
    }
    s->seconds = (float)fmin(SHOWN_S, (double)s->seconds + l->interval_s);
    smooth(&s->cores, l->cores, 1); /* known, not measured */
    smooth(&s->cpu_limit, l->cpu_limit, 1);
    smooth(&s->tasks, l->tasks, l->tasks == 0 ? 1 : weight);
    smooth(&s->workers, l->workers, l->workers == 0 ? 1 : weight);
    smooth(&s->use, l->use, weight);
    smooth(&s->queue, l->queue, weight);
    smooth(&s->io_wait, l->io_wait, weight);
    smooth(&s->main_use, l->main_use, weight);
    smooth(&s->main_thread, l->main_thread, weight);
    smooth(&s->busy, l->busy, weight);
    smooth(&s->rate, l->rate, weight);
    smooth(&s->read_rate, l->read_bytes_per_s, weight);
    s->clocked = l->clocked;
    s->unconfined = l->unconfined;
    s->bound = l->bound;
    s->gpus = l->gpus;
    s->orphans = (uint16_t)fmin(l->orphans, UINT16_MAX);
    s->left_alone = (uint16_t)fmin(l->left_alone, UINT16_MAX);
}

/*
 * Does nothing move? A GPU that is busy without a sample being done is no progress, either: a
 * kernel that waits for another rank spins.
 */
static bool is_still(const struct verdict_look *l)
{
    bool works = l->use + fmax(0, l->main_use) >= STILL_CORES;

    if (l->rate > 0 || l->read_bytes_per_s > 4096)
        return false;
    if (!isnan(l->rate)) /* the application counts, and nothing came */
        return l->use < STILL_CORES;
    return !works && !(l->busy > 0.02);
}

/* ---- the rules ---- */

/* In shares and cores; NAN compares false, so that what is unknown speaks for nothing. */
struct signs {
    bool fed;       /* data is in time */
    bool late;      /* it is not, for sure */
    bool saturated; /* the loaders use all that they may */
    bool crowded;   /* or would, did others not use it too */
    bool waiting;   /* they wait for a CPU longer than they have one */
    bool throttled; /* or the quota */
    bool all_busy;  /* no worker has time left */
    bool storage;   /* they wait for storage */
    bool asleep;    /* they neither compute nor wait for a CPU */
    bool nobody;    /* and there is no GPU that might, nor does the program itself */
    bool main_busy;
};

static struct signs read_signs(const struct verdict_state *s)
{
    double cores = (double)s->cores, use = (double)s->use, workers = fmax(1, (double)s->workers);
    double queue = s->queue > 0 ? (double)s->queue : 0, busy = (double)s->busy;
    double could = fmin(cores, fmax(workers, use));
    double fed = s->clocked ? FED_CLOCKED : FED;
    /* It stands when the cores beyond its workers have been taken away. */
    double spare = s->kind == VERDICT_WORKER_LIMITED ? 0.5 : -0.5;

    return (struct signs){
        .fed = busy >= fed,
        .late = busy<fed, .saturated = use >= SATURATED * cores, .crowded = queue> CROWDED * use &&
                use + queue >= SATURATED * could,
        .waiting = queue > use && use + queue >= ASLEEP * could,
        .throttled = use + (double)s->main_use >= SATURATED * (double)s->cpu_limit,
        .all_busy = use + queue >= WORKERS_BUSY * workers && workers < cores + spare,
        .storage = (double)s->io_wait >= fmax(0.3, IO_SHARE * workers),
        .asleep = use + queue < ASLEEP * fmin(cores, workers),
        .nobody = !s->gpus && isnan(s->busy) && (double)s->main_use < ASLEEP,
        .main_busy = (double)s->main_thread >= MAIN_BUSY,
    };
}

static enum verdict judge(const struct verdict_state *s)
{
    struct signs g = read_signs(s);

    if (s->unconfined || s->bound)
        return VERDICT_UNMANAGED;
    if (s->orphans > 0 && (float)s->orphans >= s->workers)
        return VERDICT_ORPHANED;
    if (s->moved && s->still_s >= (float)VERDICT_STALL_S)
        return VERDICT_STALLED;
    if (!(s->tasks >= 0.5f)) /* nobody loads but, perhaps, the main thread itself */
        return g.main_busy && !g.fed ? VERDICT_MAIN_THREAD_BOUND : VERDICT_UNKNOWN;
    if (s->left_alone > 0 && (float)s->left_alone >= 0.9f * s->tasks)
        return VERDICT_UNMANAGED;
    if (g.fed)
        return VERDICT_GPU_BOUND;
    if (g.storage && !g.saturated)
        return VERDICT_IO_BOUND;
    if (g.all_busy && !g.throttled)
        return VERDICT_WORKER_LIMITED;
    if (g.saturated || g.throttled || (g.crowded && !g.main_busy))
        return VERDICT_CPU_STARVED;
    if (g.main_busy)
        return VERDICT_MAIN_THREAD_BOUND;
    if (g.crowded || g.waiting)
        return VERDICT_CPU_STARVED;
    if ((g.late || g.nobody) && g.asleep)
        return VERDICT_IO_BOUND;
    /* Loaders with time to spare, that nobody is known to wait for: what takes their data limits.
     */
    return g.late ? VERDICT_UNKNOWN : VERDICT_GPU_BOUND;
}

bool verdict_update(struct verdict_state *s, const struct verdict_look *l)
{
    enum verdict now;

    if (!(l->interval_s > 0) || !(l->use >= 0))
        return false;
    take(s, l);
    s->moved = s->moved || (l->tasks > 0 && l->use >= STILL_CORES) || l->rate > 0;
    s->still_s = is_still(l) ? (float)fmin(1e6, (double)s->still_s + l->interval_s) : 0;
    if ((double)s->seconds < FIRST_S && !s->unconfined && !s->bound)
        return false;
    now = judge(s);
    if (now != s->candidate) {
        s->candidate = (uint8_t)now;
        s->candidate_s = 0;
    }
    s->candidate_s += (float)l->interval_s;
    if (s->candidate == s->kind)
        return false;
    /* The first verdict, and facts that are no measurements, need not wait. */
    if (s->kind != VERDICT_UNKNOWN && now != VERDICT_STALLED && now != VERDICT_UNMANAGED &&
        (double)s->candidate_s < VERDICT_HOLD_S)
        return false;
    s->kind = s->candidate;
    return true;
}

/* ---- in words ---- */

struct text {
    char *at;
    size_t left;
    int length;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(t->at, t->left, format, ap);
    va_end(ap);
    if (n < 0)
        return;
    t->length += n;
    n = (size_t)n < t->left ? n : (int)t->left - (t->left > 0);
    t->at += n;
    t->left -= (size_t)n;
}

static double known(float value)
{
    return isnan(value) ? 0 : (double)value;
}

static const char *plural(float number)
{
    return number < 1.5f ? "" : "s";
}

/* "the GPU waited for data 42 % of the time; " where that is known */
static void say_wait(struct text *t, const struct verdict_state *s)
{
    if (isnan(s->busy))
        return;
    say(t,
        s->clocked ? "the training loop waited for data %.0f %% of the time, and "
                   : "the GPU was idle %.0f %% of the time, and ",
        100 * fmax(0, 1 - (double)s->busy));
}

static void say_use(struct text *t, const struct verdict_state *s)
{
    say(t, "loaders used %.2g of %.0f cores", known(s->use), known(s->cores));
    if (s->queue >= 0.1f)
        say(t, ", while on average %.1f of them waited for a CPU", (double)s->queue);
}

static bool many_threads(const struct verdict_state *s)
{
    return s->workers >= 1 && s->tasks >= (float)THREADS_MANY * s->workers &&
           s->use + s->queue >= (float)AT_ONCE * s->workers;
}

static void say_seen(struct text *t, const struct verdict_state *s)
{
    switch ((enum verdict)s->kind) {
    case VERDICT_GPU_BOUND:
        if (!isnan(s->busy))
            say(t, "%s worked %.0f %% of the time, data was not late",
                s->clocked ? "the training loop" : "the GPU", 100 * (double)s->busy);
        else
            say(t, "loaders had time to spare: they used %.2g of %.0f cores", known(s->use),
                known(s->cores));
        break;
    case VERDICT_CPU_STARVED:
        say_wait(t, s);
        say_use(t, s);
        if (s->cpu_limit < s->cores)
            say(t, "; a CPU quota limits the step to %.1f cores", (double)s->cpu_limit);
        if (many_threads(s))
            say(t, "; each worker runs %.0f threads", (double)(s->tasks / s->workers));
        break;
    case VERDICT_WORKER_LIMITED:
        say_wait(t, s);
        say(t, "its %.0f worker%s had work all the time, while %.0f cores were there for them",
            known(s->workers), plural(s->workers), known(s->cores));
        break;
    case VERDICT_IO_BOUND:
        say_wait(t, s);
        if (s->io_wait >= 0.3f)
            say(t, "%.1f of %.0f workers waited for storage", (double)s->io_wait,
                known(s->workers));
        else
            say(t, "its %.0f worker%s mostly slept, using %.2g of %.0f cores", known(s->workers),
                plural(s->workers), known(s->use), known(s->cores));
        if (s->read_rate > 0)
            say(t, "; %.1f MB/s came from storage", (double)s->read_rate / 1e6);
        break;
    case VERDICT_MAIN_THREAD_BOUND:
        say_wait(t, s);
        say(t, "a main thread had work %.0f %% of the time, while ", 100 * known(s->main_thread));
        if (s->tasks >= 0.5f)
            say(t, "loaders used %.2g of %.0f cores", known(s->use), known(s->cores));
        else
            say(t, "no loader workers were running");
        break;
    case VERDICT_STALLED:
        say(t, "nothing has moved for %.0f s: no CPU use, no samples, nothing read",
            (double)s->still_s);
        break;
    case VERDICT_ORPHANED:
        say(t, "%u loader workers have lost their rank and are still running", s->orphans);
        break;
    case VERDICT_UNMANAGED:
        if (s->unconfined)
            say(t, "the CPUs of the step are not known");
        else if (s->bound)
            say(t, "the step's tasks are bound by --cpu-bind, and stay so");
        else
            say(t, "the application manages affinity: %u of %.0f loader tasks keep their own masks",
                s->left_alone, known(s->tasks));
        break;
    case VERDICT_UNKNOWN:
    case VERDICTS:
        say(t, s->tasks >= 0.5f ? "what was measured does not tell" : "no loader was seen");
        break;
    }
}

int verdict_evidence(const struct verdict_state *s, char *buf, size_t size)
{
    struct text t = {buf, size, 0};

    if (size > 0)
        buf[0] = '\0';
    say_seen(&t, s);
    return t.length;
}

static void say_advice(struct text *t, const struct verdict_state *s, double demand)
{
    switch ((enum verdict)s->kind) {
    case VERDICT_CPU_STARVED:
        if (many_threads(s))
            say(t,
                "set OMP_NUM_THREADS=1 (or the library's own limit) for the workers first; then ");
        if (s->cpu_limit < s->cores)
            say(t, "ask for a larger CPU quota");
        else
            say(t,
                "more loader cores would help: a larger --cpus-per-task, or neighbours that lend");
        if (demand > (double)s->cores + 0.5)
            say(t, " (about %.0f are wanted)", ceil(demand - 0.1));
        break;
    case VERDICT_WORKER_LIMITED:
        say(t, "start more workers (num_workers=%.0f or so), if there is memory for each of them",
            fmax(2, floor(known(s->cores))));
        break;
    case VERDICT_IO_BOUND:
        say(t,
            "more cores will not help: read from faster or local storage, from packed shards, or "
            "ahead with more workers");
        break;
    case VERDICT_MAIN_THREAD_BOUND:
        if (s->tasks >= 0.5f)
            say(t, "more loader cores will not help: move work from the training loop into the "
                   "workers, or into fewer, larger operations");
        else
            say(t, "let workers load (num_workers=2 or more)");
        break;
    case VERDICT_STALLED:
        say(t, "look for a deadlock: a worker that waits for a lock held at fork, a rank that is "
               "gone");
        break;
    case VERDICT_ORPHANED:
        say(t, "end the step: its workers have nobody to work for");
        break;
    case VERDICT_UNMANAGED:
        say(t, s->unconfined ? "the administrator has to enable task/affinity or task/cgroup"
               : s->bound
                   ? "leave out --cpu-bind and unset SLURM_CPU_BIND, if adloader may manage it"
                   : "leave affinity to adloader in the program, if it may manage it");
        break;
    case VERDICT_GPU_BOUND:
        say(t, "more loader cores will not help");
        break;
    case VERDICT_UNKNOWN:
    case VERDICTS:
        break;
    }
}

int verdict_advice(const struct verdict_state *s, double demand, char *buf, size_t size)
{
    struct text t = {buf, size, 0};

    if (size > 0)
        buf[0] = '\0';
    say_advice(&t, s, demand);
    return t.length;
}
