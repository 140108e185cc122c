/* The agent's hands: where the loaders are, whose CPUs those are, and what is lent and borrowed. */
#include "config.h"

#include "agent_state.h"

#include "log.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define UNDECIDED_MS 70u  /* until a task too young to be told is looked at again */
#define RECALL_MS    100u /* for borrowers to leave when the step ends */
#define LOCK_RETRY_MAX_MS                                                                          \
    1000u /* between tries to lock CPUs that others have; they begin at LOCK_RETRY_MIN_MS */
#define CLAIM_MS 1000u /* for the controllers to make strangers leave our CPUs */

/* ---- what others are told of the placement ---- */

/* For the last word to the user: on how many CPUs the loaders have been. */
static void note_change(struct agent *a)
{
    bool home = a->binder.own || cpus_is_empty(&a->binder.assigned);
    unsigned cores = cpus_count(home ? &a->about.own : &a->binder.assigned);
    pthread_mutex_lock(&a->summary_lock);
    if (a->binder.generation != a->summary.changes) {
        if (a->summary.changes == 0 || cores < a->summary.cores_min)
            a->summary.cores_min = cores;
        if (cores > a->summary.cores_max)
            a->summary.cores_max = cores;
    }
    a->summary.changes = a->binder.generation;
    pthread_mutex_unlock(&a->summary_lock);
}

void agent_describe(const struct agent *a, struct msg_client_change *change)
{
    *change = (struct msg_client_change){.workers = a->workers,
                                         .managed = a->phase == PHASE_MANAGED && !a->binder.own};
    if (!a->binder.own)
        (void)cpus_copy(&change->cpus, &a->binder.assigned); /* without memory: no list */
}

void agent_tell_clients(struct agent *a)
{
    struct msg_client_change change;
    agent_describe(a, &change);
    clients_tell(&a->clients, &change);
    msg_client_change_free(&change);
}

/* ---- cpusets, where Slurm confines the step ---- */

static const struct cpus *assigned(const struct agent *a)
{
    return a->binder.own ? NULL : &a->binder.assigned;
}

/* Before tasks are bound: what is assigned must be allowed. */
static void open_cpuset(struct agent *a, const struct cpus *cpus)
{
    if (!a->cpuset.available || cpuset_widen(&a->cpuset, cpus) == 0) {
        a->outside = false;
        return;
    }
    if (errno == EAGAIN || errno == EBUSY) /* another step starts: soon */
        lower(&a->scan_at_ms, clock_monotonic_ms() + UNDECIDED_MS);
    else if (!a->outside)
        log_info("the step's cpusets cannot be widened to all of its CPUs: %s", strerror(errno));
    a->outside = true;
}

/* After they have left. */
static void close_cpuset(struct agent *a)
{
    if (cpuset_narrow(&a->cpuset, assigned(a)) < 0)
        log_info("the step's cpusets cannot be narrowed: %s; tried again", strerror(errno));
}

/* Have others rewritten them? And has a dead step left its own widened? */
static void check_cpusets(struct agent *a)
{
    struct cpus allowed = CPUS_EMPTY;
    if (cpuset_check(&a->cpuset, assigned(a)))
        binder_redo(&a->binder, &a->tasks);
    else if (assigned(a) != NULL && cpuset_allowed(&a->cpuset, &allowed) == 0 &&
             !cpus_is_subset(assigned(a), &allowed) && nodedir_starting(&a->node, a->about.job))
        lower(&a->scan_at_ms, clock_monotonic_ms() + UNDECIDED_MS);
    cpus_free(&allowed);
    (void)cpuset_mend(&a->node, &a->tasks.fs);
}

/* A step without tasks is on its way out; all else is for admins, once. */
static void tell_blind(struct agent *a, int error)
{
    if (error == ESRCH || error == ENOENT || a->blind) {
        log_debug("the step's tasks cannot be listed: %s", strerror(error));
        return;
    }
    log_warning("the step's tasks cannot be listed: %s; tried again", strerror(error));
    a->blind = true;
}

/* Find tasks that are new and bring them where the others are. */
void agent_scan(struct agent *a, enum tasks_depth depth, struct bind_result *result)
{
    uint64_t now = clock_monotonic_ms(), from_ns = clock_monotonic_ns();
    if (tasks_scan(&a->tasks, depth, boot_ms()) < 0)
        tell_blind(a, errno);
    else
        a->blind = false;
    if (a->clients.npending > 0) {
        clients_announce(&a->clients, &a->tasks);
        tasks_classify(&a->tasks, boot_ms());
    }
    if (depth == TASKS_FULL) {
        a->scan_at_ms = again(a, now, a->scan_ms);
        check_cpusets(a);
    }
    binder_apply(&a->binder, &a->tasks, result);
    if (depth == TASKS_FULL)
        worktime_add(&a->scans, clock_monotonic_ns() - from_ns);
    if (a->tasks.undecided)
        lower(&a->scan_at_ms, now + UNDECIDED_MS);
}

/* ---- whose CPUs they are, on the node's own word (cpulock.h) ---- */

/* Own CPUs on which nobody else may be with this placement. */
static int wanted_shared(const struct agent *a, struct cpus *shared)
{
    if (a->phase == PHASE_STOPPED || a->about.unconfined)
        return 0;
    if (a->want_own && !a->kept_said)
        return cpus_copy(shared, &a->about.own);
    if (cpus_copy(shared, &a->want) < 0 || (a->kept_said && cpus_or(shared, &a->kept) < 0))
        return -1;
    cpus_and(shared, &a->about.own);
    return 0;
}

static void try_locks_later(struct agent *a)
{
    uint64_t now = clock_monotonic_ms();
    a->locks_at_ms = now + a->lock_retry_ms;
    if (a->lock_retry_ms < LOCK_RETRY_MAX_MS)
        a->lock_retry_ms *= 2;
}

/*
 * Others have loaders on CPUs of ours: ask them to leave, first our borrowers, then everybody. Who
 * does not answer loses them; Slurm gave them to us. False: from now on that is so.
 */
static bool ask_back(struct agent *a, const struct cpus *occupied)
{
    uint64_t now = clock_monotonic_ms();
    unsigned asked = loans_reclaim(&a->loans, occupied);
    if (a->occupied_since_ms == 0)
        a->occupied_since_ms = now;
    uint64_t age = now - a->occupied_since_ms;
    if (age >= CLAIM_MS && !a->claimed) {
        log_info("others are on CPUs of this step: all of the node are told");
        loans_claim(&a->loans, occupied);
        a->claimed = true;
        a->lock_retry_ms = LOCK_RETRY_MIN_MS;
    }
    if (age < (asked > 0 ? RECALL_MS : CLAIM_MS + RECALL_MS))
        return true;
    for (unsigned i = 0; i < a->loans.nborrowers; i++)
        if (cpus_intersects(&a->loans.borrowers[i].cpus, occupied))
            cpuset_take(&a->node, a->loans.borrowers[i].job, a->loans.borrowers[i].step, occupied);
    return false;
}

/*
 * Lock what the wanted placement needs. What cannot be had is added to missing: others' CPUs that
 * somebody else is on, and own ones that a borrower has not left yet.
 */
static int lock_wanted(struct agent *a, struct cpus *missing)
{
    struct cpus shared = CPUS_EMPTY, foreign = CPUS_EMPTY, occupied = CPUS_EMPTY;
    int rc = wanted_shared(a, &shared);
    if (rc == 0)
        rc = cpulock_take(&a->cpulock, &shared, false, &occupied);
    if (rc == 0 && !a->want_own)
        rc = cpus_copy(&foreign, &a->want);
    cpus_andnot(&foreign, &a->about.own);
    if (rc == 0)
        rc = cpulock_take(&a->cpulock, &foreign, true, missing);
    bool all = cpus_is_empty(&occupied) && cpus_is_empty(missing);
    if (cpus_is_empty(&occupied)) {
        a->occupied_since_ms = 0;
        a->claimed = false;
    } else if (ask_back(a, &occupied) && rc == 0) {
        rc = cpus_or(missing, &occupied);
    }
    if (all)
        a->locks_at_ms = NEVER;
    else
        try_locks_later(a);
    cpus_free(&shared);
    cpus_free(&foreign);
    cpus_free(&occupied);
    return rc;
}

/* Locks of what the loaders have left are released. */
void agent_unlock_left(struct agent *a)
{
    struct cpus shared = CPUS_EMPTY;
    if (wanted_shared(a, &shared) == 0)
        cpulock_keep(&a->cpulock, &shared, a->binder.own ? NULL : &a->binder.assigned);
    cpus_free(&shared);
}

/*
 * Where the loaders may be now: the wanted placement without what is missing. Who is on own
 * placement stays there, since Slurm put it there. 0, or -1: no memory.
 */
static int allowed_now(const struct agent *a, const struct cpus *missing, bool *own,
                       struct cpus *cpus)
{
    *own = a->want_own;
    if (a->want_own && (a->binder.own || !cpus_intersects(missing, &a->about.own)))
        return 0;
    if (cpus_copy(cpus, a->want_own ? &a->about.own : &a->want) < 0)
        return -1;
    cpus_andnot(cpus, missing);
    *own = a->want_own && cpus_is_empty(cpus);
    return 0;
}

/* Bind: the tasks known now at once, then those that a scan finds. */
static void bind_now(struct agent *a, bool own, const struct cpus *cpus, struct bind_result *result)
{
    if (!own)
        open_cpuset(a, cpus);
    if (binder_target(&a->binder, own, cpus) < 0) {
        log_warning("no memory for an assignment: the loaders stay where they are");
        result->failed = 1;
        return;
    }
    binder_apply(&a->binder, &a->tasks, result);
    agent_scan(a, TASKS_NEWCOMERS, result);
    close_cpuset(a);
    agent_unlock_left(a);
    note_change(a);
}

/* Bring the loaders to what is wanted, as far as others let us; the rest follows when they do. */
static void settle(struct agent *a, struct bind_result *result)
{
    struct cpus missing = CPUS_EMPTY, cpus = CPUS_EMPTY;
    bool own;
    if (lock_wanted(a, &missing) < 0 || allowed_now(a, &missing, &own, &cpus) < 0) {
        log_warning("no memory for an assignment: the loaders stay where they are");
        result->failed = 1;
    } else {
        bind_now(a, own, &cpus, result);
        if (!cpus_is_empty(&missing) && result->failed == 0)
            result->failed = 1;
    }
    cpus_free(&missing);
    cpus_free(&cpus);
}

void agent_place(struct agent *a, bool own, const struct cpus *cpus, struct bind_result *result)
{
    struct cpus want = CPUS_EMPTY;
    *result = (struct bind_result){0, 0};
    if (!own && cpus_copy(&want, cpus) < 0) {
        log_warning("no memory for an assignment: the loaders stay where they are");
        result->failed = 1;
        return;
    }
    cpus_move(&a->want, &want);
    a->want_own = own;
    a->lock_retry_ms = LOCK_RETRY_MIN_MS;
    settle(a, result);
}

/* Others may have left meanwhile. */
void agent_try_locks(struct agent *a)
{
    struct bind_result result = {0, 0};
    uint32_t before = a->binder.generation;
    settle(a, &result);
    if (a->binder.generation != before)
        agent_tell_clients(a);
}

/* What is not lent is for nobody else: from the start of the step until it is suspended or ends. */
void agent_lock_own(struct agent *a)
{
    struct cpus missing = CPUS_EMPTY;
    if (lock_wanted(a, &missing) < 0)
        log_debug("no memory to lock the step's CPUs");
    cpus_free(&missing);
}

void agent_go_home(struct agent *a, const char *why)
{
    struct bind_result result;
    a->kept_said = false;
    if (!a->binder.own) {
        log_info("loaders back on own placement: %s", why);
        a->workers = 0;
        agent_place(a, true, NULL, &result);
        agent_tell_clients(a);
    } else {
        a->want_own = true;
        cpus_free(&a->want);
        agent_lock_own(a);
    }
    loans_keep(&a->loans, NULL, 0);
}

/* ---- lenders and borrowers ---- */

/* Loans are over: the loaders leave those CPUs, whatever the controller says or does not say. */
static void give_back(struct agent *a, const struct cpus *ended)
{
    struct cpus rest = CPUS_EMPTY;
    struct bind_result result;
    if (a->want_own || !cpus_intersects(&a->want, ended)) {
        loans_keep_living(&a->loans);
        return;
    }
    log_debug("a loan is over: the loaders leave its CPUs");
    if (cpus_copy(&rest, &a->want) < 0) {
        agent_go_home(a, "a loan is over, and there is no memory for what is left");
        return;
    }
    cpus_andnot(&rest, ended);
    agent_place(a, false, &rest, &result);
    cpus_free(&rest);
    loans_keep_living(&a->loans);
    agent_tell_clients(a);
}

/* Our controller had another word: it hears anew what we hold. */
static void tell_of_eviction(struct agent *a)
{
    a->loans.evicted = false;
    if (a->phase == PHASE_MANAGED)
        agent_lose(a, "an owner of borrowed CPUs has them back; registering anew");
}

void agent_loan_work(struct agent *a, const struct pollfd *fds, unsigned n)
{
    struct cpus ended = CPUS_EMPTY;
    bool gone = false;
    loans_ready(&a->loans, fds, n, &ended, &gone);
    give_back(a, &ended);
    cpus_free(&ended);
    if (a->loans.evicted)
        tell_of_eviction(a);
    if (gone) { /* it may have died */
        (void)cpuset_mend(&a->node, &a->tasks.fs);
        if (a->locks_at_ms != NEVER)
            a->locks_at_ms = 0;
    }
}

void agent_listen_for_borrowers(struct agent *a)
{
    if (a->node.fd >= 0 && loans_listen(&a->loans) < 0)
        log_info("no socket for borrowers: %s; nothing can be borrowed from this step",
                 strerror(errno));
}

/*
 * What others have borrowed is free when this returns, if they answer. Of one that does not, the
 * cpuset is narrowed over its head.
 */
void agent_end_loans(struct agent *a)
{
    loans_recall(&a->loans);
    if (loans_wait(&a->loans, RECALL_MS) == 0)
        return;
    for (unsigned i = 0; i < a->loans.nborrowers; i++) {
        const struct loan_borrower *b = &a->loans.borrowers[i];
        log_info("step %u.%u does not give back what it has borrowed", (unsigned)b->job,
                 (unsigned)b->step);
        cpuset_take(&a->node, b->job, b->step, &b->cpus);
    }
}
