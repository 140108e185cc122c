/* The job's record, from reports to the written text. See recorder.h. */
#include "config.h"

#include "recorder.h"

#include "clock.h"
#include "ctld.h"
#include "demand.h"
#include "jobwriter.h"
#include "log.h"
#include "memberuse.h"
#include "record.h"
#include "spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define BUCKETS          1024u /* a power of two */
#define JOBS_MAX         10000u
#define LOST_MAX         64u   /* members of a job held back */
#define LOST_EXTRA_MS    5000u /* beyond the lease: agents come back with growing pauses */
#define STEP_GATHER_MS   2000u /* a step's other members may take so long to end, too */
#define HELPER_LIMIT_MS  60000u
#define PAUSE_FIRST_MS   1000u
#define PAUSE_MAX_MS     60000u
#define PAUSE_ALL_MAX_MS 15000u /* when Slurm does not answer: also the delay when it is back */
#define CHANGES_MAX      10u /* of a field while we try to write it, then it is left for a while */
#define COMPLAINT_MS     600000u /* between two lines on the same trouble */
#define DROP_KINDS       8

struct lost { /* a member that may come back */
    struct lost *next;
    uint32_t step;
    uint64_t until_ms;
    struct member_use use;
    char node[];
};

struct pending {          /* a job with something to write, or that was written just now */
    struct pending *next; /* of the hash chain */
    TAILQ_ENTRY(pending) link;
    struct recorder *recorder;
    uint32_t job, restart;   /* restart count as the agents say, who do not always know */
    uint32_t run;            /* the same, as Slurm says; until then restart */
    int64_t moment_s;        /* wall clock, when it ran for sure */
    uint64_t since_ms;       /* that something waits to be written; 0 nothing does */
    uint64_t due_ms;         /* when it is to be written, 0 not yet known */
    uint64_t quiet_until_ms; /* SacctInterval after a write */
    unsigned failures, changes;
    bool queued;
    struct lost *lost;
    unsigned nlost;
    struct event *timer;
    struct record fresh;          /* ended since the last request was made */
    struct record asked;          /* in the request that is made or tried again */
    char text[RECORD_TEXT_SIZE];  /* of that request: known and asked merged; "": none */
    struct record known;          /* what the field holds, as far as we know */
    char found[RECORD_TEXT_SIZE]; /* its text */
};

TAILQ_HEAD(pending_list, pending);

/* A reason why records are dropped, which often is the same for one job after another. */
struct drop_kind {
    char why[128];
    uint64_t told_ms; /* 0: this place is free */
    unsigned untold;  /* records dropped since, without a line of their own */
};

struct recorder {
    struct ctld *ctld;
    struct jobwriter *writer;
    struct pending *buckets[BUCKETS];
    struct pending_list ready; /* due, first come first served */
    struct pending *in_flight;
    struct event *pump;
    uint64_t next_ms; /* rate and trouble: nothing is sent before */
    unsigned trouble; /* failures in a row, of whatever job */
    uint64_t complained_ms;
    struct drop_kind drops[DROP_KINDS]; /* why records were dropped, and when that was last told */
    unsigned njobs;
    struct recorder_counts counts;
};

static void pump(struct recorder *r);
static void arm(struct pending *p);

static struct timeval after(uint64_t at_ms, uint64_t now_ms)
{
    uint64_t ms = at_ms > now_ms ? at_ms - now_ms : 0;

    return (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
}

/* ---- the table of jobs --------------------------------------------------------------------- */

static struct pending **chain_of(struct recorder *r, uint32_t job)
{
    return &r->buckets[(job * 2654435761u >> 16) & (BUCKETS - 1)]; /* Knuth's multiplicative hash */
}

static struct pending *find(struct recorder *r, uint32_t job, uint32_t restart)
{
    struct pending *p = *chain_of(r, job);

    while (p != NULL && (p->job != job || p->restart != restart))
        p = p->next;
    return p;
}

static void lost_free(struct pending *p)
{
    for (struct lost *l = p->lost, *next; l != NULL; l = next) {
        next = l->next;
        free(l);
    }
}

static void forget(struct pending *p)
{
    struct recorder *r = p->recorder;
    struct pending **at = chain_of(r, p->job);

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    r->njobs--;
    if (p->queued)
        TAILQ_REMOVE(&r->ready, p, link);
    if (r->in_flight == p)
        r->in_flight = NULL;
    if (p->timer != NULL)
        event_free(p->timer);
    lost_free(p);
    free(p);
}

static void on_timer(evutil_socket_t fd, short what, void *arg);

static struct pending *make(struct recorder *r, uint32_t job, uint32_t restart)
{
    struct pending *p, **chain = chain_of(r, job);

    if (r->njobs >= JOBS_MAX)
        return NULL;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->timer = evtimer_new(r->ctld->base, on_timer, p);
    if (p->timer == NULL) {
        free(p);
        return NULL;
    }
    p->recorder = r;
    p->job = job;
    p->restart = p->run = p->fresh.restart = restart;
    p->next = *chain;
    *chain = p;
    r->njobs++;
    return p;
}

/* ---- when ---------------------------------------------------------------------------------- */

static bool has_request(const struct pending *p)
{
    return p->text[0] != '\0';
}

static bool has_data(const struct pending *p)
{
    return has_request(p) || !record_is_empty(&p->fresh);
}

/* Something came that is to be written at at_ms, or earlier if that was planned. */
static void want(struct pending *p, uint64_t at_ms, uint64_t now_ms)
{
    if (at_ms < p->quiet_until_ms)
        at_ms = p->quiet_until_ms;
    if (p->since_ms == 0) {
        p->since_ms = now_ms;
        p->recorder->counts.pending++;
    }
    if (p->due_ms == 0 || at_ms < p->due_ms)
        p->due_ms = at_ms;
}

static void settled(struct pending *p)
{
    if (p->since_ms != 0)
        p->recorder->counts.pending--;
    p->since_ms = p->due_ms = 0;
    p->failures = p->changes = 0;
}

/* Nothing of it is to be written any more. */
static void clear(struct pending *p)
{
    settled(p);
    memset(&p->fresh, 0, sizeof(p->fresh));
    p->fresh.restart = p->run;
    p->text[0] = '\0';
}

/* Those that have not come back count as they were when they were lost. */
static void count_lost(struct pending *p, uint64_t now_ms)
{
    for (struct lost **at = &p->lost; *at != NULL;) {
        struct lost *l = *at;

        if (l->until_ms > now_ms) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        p->nlost--;
        record_add_step(&p->fresh, l->step, &l->use.sum);
        want(p, now_ms, now_ms);
        free(l);
    }
}

/* Look again when the next thing is due; forget the job when nothing is. */
static void arm(struct pending *p)
{
    uint64_t now = clock_monotonic_ms(), at = UINT64_MAX;
    struct timeval wait;

    if (p->queued || p->recorder->in_flight == p)
        return;
    if (p->due_ms != 0)
        at = p->due_ms;
    for (const struct lost *l = p->lost; l != NULL; l = l->next)
        if (l->until_ms < at)
            at = l->until_ms;
    if (at == UINT64_MAX) {
        if (p->quiet_until_ms <= now) {
            forget(p);
            return;
        }
        at = p->quiet_until_ms; /* remember till then that it was written */
    }
    wait = after(at, now);
    if (evtimer_add(p->timer, &wait) < 0)
        log_error("cannot arm a timer; the record of job %u is delayed", p->job);
}

/* The place of that reason, or the one that was told longest ago, for it to take. */
static struct drop_kind *drop_kind(struct recorder *r, const char *why)
{
    struct drop_kind *oldest = &r->drops[0];

    for (size_t i = 0; i < DROP_KINDS; i++) {
        struct drop_kind *k = &r->drops[i];

        if (k->told_ms != 0 && strncmp(k->why, why, sizeof(k->why) - 1) == 0)
            return k;
        if (k->told_ms < oldest->told_ms)
            oldest = k;
    }
    *oldest = (struct drop_kind){.told_ms = 0};
    (void)snprintf(oldest->why, sizeof(oldest->why), "%s", why);
    return oldest;
}

/* A line for the first record that a reason costs; for the next ones a count now and then. */
static void drop(struct pending *p, const char *why)
{
    struct recorder *r = p->recorder;
    struct drop_kind *kind = drop_kind(r, why);
    uint64_t now = clock_monotonic_ms();

    if (kind->told_ms != 0 && now - kind->told_ms < COMPLAINT_MS) {
        kind->untold++;
        log_debug("job %u: its record is dropped: %s", p->job, why);
    } else {
        log_warning(
            "job %u: its record is dropped: %s; %u jobs before it had the same, and the next "
            "ones are told in %u min",
            p->job, why, kind->untold, COMPLAINT_MS / 60000);
        kind->told_ms = now;
        kind->untold = 0;
    }
    r->counts.dropped++;
    clear(p);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct pending *p = arg;
    struct recorder *r = p->recorder;
    uint64_t now = clock_monotonic_ms();

    (void)fd;
    (void)what;
    count_lost(p, now);
    if (p->due_ms == 0 || p->due_ms > now || !has_data(p)) {
        arm(p);
        return;
    }
    p->due_ms = 0;
    p->queued = true;
    TAILQ_INSERT_TAIL(&r->ready, p, link);
    pump(r);
}

/* ---- sending ------------------------------------------------------------------------------- */

/* The text of what is known and what is asked for. */
static void compose(struct pending *p)
{
    struct record merged;

    record_merge(&merged, &p->asked, &p->known);
    (void)record_format(&merged, p->text);
}

static void make_request(struct pending *p)
{
    p->asked = p->fresh;
    memset(&p->fresh, 0, sizeof(p->fresh));
    p->fresh.restart = p->run;
    compose(p);
}

/* At most one line on it in a while, since it may hold for thousands of jobs. */
static void complain(struct recorder *r, uint32_t job, const char *reason)
{
    uint64_t now = clock_monotonic_ms();

    r->counts.failures++;
    log_debug("job %u: its record cannot be written yet: %s", job, reason);
    if (r->complained_ms != 0 && now - r->complained_ms < COMPLAINT_MS)
        return;
    r->complained_ms = now;
    log_warning("records of jobs cannot be written, %s; tried again for %u s each (%u waiting)",
                reason, r->ctld->conf->sacct_retry_ms / 1000, r->counts.pending);
}

static uint64_t pause_ms(unsigned failures, uint64_t max)
{
    uint64_t pause = PAUSE_FIRST_MS;

    while (failures-- > 1 && pause < max)
        pause *= 2;
    return pause < max ? pause : max;
}

/* It did not work: later again, or never. */
static void try_later(struct pending *p, const char *reason)
{
    uint64_t now = clock_monotonic_ms();

    p->failures++;
    if (now - p->since_ms >= p->recorder->ctld->conf->sacct_retry_ms)
        drop(p, reason);
    else
        p->due_ms = now + pause_ms(p->failures, PAUSE_MAX_MS);
    arm(p);
}

/* Nobody's record can be written now. */
static void hold_all(struct recorder *r, struct pending *p, const char *reason)
{
    r->trouble++;
    r->next_ms = clock_monotonic_ms() + pause_ms(r->trouble, PAUSE_ALL_MAX_MS);
    complain(r, p->job, reason);
    try_later(p, reason);
    pump(r);
}

static void send_one(struct recorder *r, struct pending *p)
{
    static struct slurmjob_request request;
    const struct conf *conf = r->ctld->conf;
    char reason[512];

    memset(&request, 0, sizeof(request));
    request.job = p->job;
    request.restart = p->run;
    request.field =
        conf->sacct_field == CONF_SACCT_COMMENT ? SLURMJOB_COMMENT : SLURMJOB_ADMIN_COMMENT;
    request.moment_s = p->moment_s;
    memcpy(request.expected, p->found, sizeof(request.expected));
    memcpy(request.text, p->text, sizeof(request.text));
    r->next_ms = clock_monotonic_ms() + 1000 / conf->sacct_rate;
    r->in_flight = p;
    if (jobwriter_send(r->writer, &request, reason, sizeof(reason)) < 0) {
        r->in_flight = NULL;
        hold_all(r, p, reason);
    }
}

static void on_pump(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    pump(arg);
}

/* The next one that is due, or NULL; then the timer tells when to look again. */
static struct pending *next_ready(struct recorder *r)
{
    uint64_t now = clock_monotonic_ms();
    struct pending *p = TAILQ_FIRST(&r->ready);
    struct timeval wait;

    if (p == NULL || r->in_flight != NULL || evtimer_pending(r->pump, NULL))
        return NULL;
    if (now < r->next_ms) {
        wait = after(r->next_ms, now);
        if (evtimer_add(r->pump, &wait) < 0)
            log_error("cannot arm a timer; records of jobs are delayed");
        return NULL;
    }
    TAILQ_REMOVE(&r->ready, p, link);
    p->queued = false;
    return p;
}

static void pump(struct recorder *r)
{
    struct pending *p;

    while ((p = next_ready(r)) != NULL) {
        if (r->ctld->conf->sacct_field == CONF_SACCT_NONE) {
            drop(p, "SacctField is none now");
            arm(p);
            continue;
        }
        if (!has_request(p))
            make_request(p);
        send_one(r, p);
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

static void written(struct pending *p, bool at_end)
{
    struct recorder *r = p->recorder;
    uint64_t now = clock_monotonic_ms();

    r->counts.written++;
    r->counts.written_at_end += at_end;
    log_debug("job %u: its record is written%s: %s", p->job, at_end ? " after its end" : "",
              p->text);
    settled(p);
    memcpy(p->found, p->text, sizeof(p->found));
    record_merge(&p->known, &p->asked, &p->known);
    p->text[0] = '\0';
    p->quiet_until_ms = now + r->ctld->conf->sacct_interval_ms;
    if (!record_is_empty(&p->fresh)) /* came while the request was under way */
        want(p, now, now);
    arm(p);
}

/* Is it somebody else's text? *known gets it if not. */
static bool is_foreign(const char *found, struct record *known, char reason[RECORD_REASON_SIZE])
{
    if (found[0] == '\0')
        return false;
    if (strlen(found) > RECORD_TEXT_MAX) {
        (void)snprintf(reason, RECORD_REASON_SIZE, "it is longer than any record");
        return true;
    }
    return record_parse(found, known, reason) < 0;
}

/* Somebody wrote, or we did and did not hear of it: decide on what is there now. */
static void changed(struct pending *p, const struct slurmjob_reply *reply)
{
    char reason[RECORD_REASON_SIZE];
    bool same_run = !reply->restart_known || reply->restart == p->run;

    if (same_run && strcmp(reply->found, p->text) == 0) {
        written(p, reply->at_end != 0);
        return;
    }
    memset(&p->known, 0, sizeof(p->known));
    if (is_foreign(reply->found, &p->known, reason)) {
        log_info("job %u: no record, since its field holds something else already: %s", p->job,
                 reason);
        p->recorder->counts.foreign++;
        clear(p);
        arm(p);
        return;
    }
    if (reply->restart_known)
        p->run = p->asked.restart = p->fresh.restart = reply->restart;
    if (p->known.restart != p->run) /* of an earlier run, which has a row of its own */
        memset(&p->known, 0, sizeof(p->known));
    (void)snprintf(p->found, sizeof(p->found), "%s", reply->found);
    compose(p);
    if (++p->changes > CHANGES_MAX) {
        try_later(p, "its field changes all the time");
        return;
    }
    p->queued = true; /* first of all, while the job still runs */
    TAILQ_INSERT_HEAD(&p->recorder->ready, p, link);
}

static void on_reply(void *arg, const struct slurmjob_reply *reply, const char *reason)
{
    struct recorder *r = arg;
    struct pending *p = r->in_flight;

    r->in_flight = NULL;
    if (p == NULL)
        return;
    if (reply == NULL) {
        hold_all(r, p, reason);
        return;
    }
    if (reply->outcome == SLURMJOB_UNREACHABLE || reply->outcome == SLURMJOB_DENIED) {
        hold_all(r, p, reply->reason);
        return;
    }
    if (r->trouble > 0 && r->complained_ms != 0)
        log_info("records of jobs can be written again (%u waiting)", r->counts.pending);
    r->trouble = 0;
    r->complained_ms = 0;
    switch (reply->outcome) {
    case SLURMJOB_DONE:
        written(p, reply->at_end != 0);
        break;
    case SLURMJOB_CHANGED:
        changed(p, reply);
        break;
    case SLURMJOB_WAIT:
        log_debug("job %u: its record waits: %s", p->job, reply->reason);
        try_later(p, reply->reason);
        break;
    default:
        drop(p, reply->reason);
        arm(p);
    }
    pump(r);
}

/* ---- members ------------------------------------------------------------------------------- */

static bool wanted(const struct ctld *ctld)
{
    return ctld->recorder != NULL && ctld->conf->sacct_field != CONF_SACCT_NONE;
}

static unsigned cores_of(const struct member *member)
{
    return cpus_count(&member->place.target.cpus);
}

static struct member_use *use_of(struct member *member, uint64_t now_ms)
{
    if (member->use == NULL) {
        member->use = malloc(sizeof(*member->use));
        if (member->use != NULL)
            memberuse_begin(member->use, now_ms);
    }
    return member->use;
}

size_t recorder_save(const struct member *member, uint8_t *buf, size_t size)
{
    return member->use != NULL ? memberuse_save(member->use, buf, size) : 0;
}

size_t recorder_load(struct member *member, const uint8_t *buf, size_t length, uint64_t now_ms)
{
    struct member_use *use = length > 0 ? use_of(member, now_ms) : NULL;

    return use != NULL ? memberuse_load(use, buf, length) : length;
}

/* One that was lost is back: it goes on where it was. */
void recorder_registered(struct ctld *ctld, struct member *member)
{
    struct pending *p =
        ctld->recorder != NULL ? find(ctld->recorder, member->job->id, member->restart) : NULL;

    for (struct lost **at = p != NULL ? &p->lost : NULL; at != NULL && *at != NULL;
         at = &(*at)->next) {
        struct lost *l = *at;
        struct member_use *use;

        if (l->step != member->step || strcmp(l->node, member->node->name) != 0)
            continue;
        use = use_of(member, clock_monotonic_ms());
        if (use != NULL)
            *use = l->use; /* which is newer than what its agent keeps */
        *at = l->next;
        p->nlost--;
        free(l);
        return;
    }
}

void recorder_report(struct ctld *ctld, struct member *member, const struct msg_report *report)
{
    uint64_t now = clock_monotonic_ms();
    struct member_use *use;

    if (!wanted(ctld))
        return;
    use = use_of(member, member->registered_ms);
    if (use == NULL)
        return;
    memberuse_report(use, report, cores_of(member), record_verdict_by_name(demand_verdict(member)),
                     now);
}

/* A script's shell around the steps, or a shell in an allocation: of interest only if it loads. */
static bool is_bare_shell(const struct member *member, const struct member_use *use)
{
    return (member->step == MSG_STEP_BATCH || member->step == MSG_STEP_INTERACTIVE) &&
           !use->loaders;
}

static bool is_last_of_step(const struct member *member)
{
    const struct job *job = member->job;

    for (size_t i = 0; i < job->nmembers; i++)
        if (job->members[i] != member && job->members[i]->step == member->step)
            return false;
    return true;
}

static int hold_back(struct pending *p, const struct member *member, const struct member_use *use,
                     uint64_t until_ms)
{
    size_t length = strlen(member->node->name) + 1;
    struct lost *l = p->nlost < LOST_MAX ? malloc(sizeof(*l) + length) : NULL;

    if (l == NULL)
        return -1;
    l->step = member->step;
    l->until_ms = until_ms;
    l->use = *use;
    memcpy(l->node, member->node->name, length);
    l->next = p->lost;
    p->lost = l;
    p->nlost++;
    return 0;
}

static struct pending *find_or_make(struct ctld *ctld, const struct member *member)
{
    struct recorder *r = ctld->recorder;
    struct pending *p = find(r, member->job->id, member->restart);

    if (p == NULL)
        p = make(r, member->job->id, member->restart);
    if (p == NULL) {
        r->counts.dropped++;
        complain(r, member->job->id, "since too many wait already, or for lack of memory");
    }
    return p;
}

void recorder_gone(struct ctld *ctld, struct member *member, const struct msg_goodbye *goodbye)
{
    uint64_t now = clock_monotonic_ms(), patience = ctld->conf->lease_ms + LOST_EXTRA_MS;
    struct member_use *use;
    struct pending *p;

    if (!wanted(ctld))
        return;
    use = use_of(member, member->registered_ms);
    if (use == NULL)
        return;
    memberuse_end(use, goodbye, cores_of(member), member->moves, now - member->started_ms, now);
    if (is_bare_shell(member, use))
        return;
    p = find_or_make(ctld, member);
    if (p == NULL)
        return;
    p->moment_s = (int64_t)clock_wall_s();
    if (goodbye == NULL && hold_back(p, member, use, now + patience) == 0) {
        arm(p);
        return;
    }
    record_add_step(&p->fresh, member->step, &use->sum);
    want(p, is_last_of_step(member) ? now : now + STEP_GATHER_MS, now);
    arm(p);
}

/* ---- from life to life --------------------------------------------------------------------- */

static void keep_job(struct spool *spool, const struct pending *p)
{
    struct spooled s = {.job = p->job, .restart = p->run, .moment_s = p->moment_s};

    if (!has_data(p))
        return;
    s.fresh = p->fresh;
    if (has_request(p)) {
        s.asked = p->asked;
        memcpy(s.text, p->text, sizeof(s.text));
    }
    spool_add(spool, &s);
}

/* Those that were lost and have not come back yet come back to our next life, or never. */
static void keep_all(struct recorder *r)
{
    const char *directory = r->ctld->conf->state_dir;
    struct spool *spool = r->counts.pending > 0 ? spool_begin(directory) : NULL;

    if (r->counts.pending == 0)
        return;
    for (size_t i = 0; spool != NULL && i < BUCKETS; i++)
        for (const struct pending *p = r->buckets[i]; p != NULL; p = p->next)
            keep_job(spool, p);
    if (spool == NULL || spool_end(spool) < 0)
        log_error("the records of %u jobs are lost: they were not written yet, and %s cannot keep "
                  "them: %s",
                  r->counts.pending, directory, strerror(errno));
    else
        log_info("the records of %u jobs are kept in %s until the next start", r->counts.pending,
                 directory);
}

static void take_back(void *arg, const struct spooled *s)
{
    struct recorder *r = arg;
    uint64_t now = clock_monotonic_ms();
    struct pending *p = find(r, s->job, s->restart);

    if (p == NULL)
        p = make(r, s->job, s->restart);
    if (p == NULL || has_data(p))
        return;
    p->moment_s = s->moment_s;
    p->fresh = s->fresh;
    p->asked = s->asked;
    memcpy(p->text, s->text, sizeof(p->text));
    want(p, now, now);
    arm(p);
}

static void take_all_back(struct recorder *r)
{
    const char *directory = r->ctld->conf->state_dir;
    size_t bad, count = spool_read(directory, take_back, r, &bad);

    if (count > 0 || bad > 0)
        log_info("%zu records of the last run are to be written still%s", count,
                 bad > 0 ? "; some could not be read" : "");
}

/* ---- init, fini ---------------------------------------------------------------------------- */

#ifdef HAVE_LIBSLURM
static const bool has_helper = true;
#else
static const bool has_helper = false;
#endif

int recorder_init(struct ctld *ctld)
{
    struct recorder *r;

    if (!has_helper) {
        if (ctld->conf->sacct_field != CONF_SACCT_NONE)
            log_warning("built without libslurm: jobs get no record (SacctField=none says so)");
        return 0;
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return -1;
    r->ctld = ctld;
    TAILQ_INIT(&r->ready);
    r->pump = evtimer_new(ctld->base, on_pump, r);
    r->writer = jobwriter_new(ctld->base, NULL, HELPER_LIMIT_MS, on_reply, r);
    ctld->recorder = r;
    if (r->pump == NULL || r->writer == NULL)
        return -1;
    take_all_back(r);
    return 0;
}

void recorder_fini(struct ctld *ctld)
{
    struct recorder *r = ctld->recorder;

    if (r == NULL)
        return;
    ctld->recorder = NULL;
    keep_all(r);
    jobwriter_free(r->writer);
    for (size_t i = 0; i < BUCKETS; i++)
        while (r->buckets[i] != NULL)
            forget(r->buckets[i]);
    if (r->pump != NULL)
        event_free(r->pump);
    free(r);
}

void recorder_get_counts(const struct ctld *ctld, struct recorder_counts *counts)
{
    memset(counts, 0, sizeof(*counts));
    if (ctld->recorder != NULL)
        *counts = ctld->recorder->counts;
}
