/* The agent's thread: see agent.h. */
#include "config.h"

#include "agent.h"

#include "agent_state.h"
#include "log.h"
#include "thread.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES       (256u * 1024u)
#define DEFAULT_LEASE_MS  5000u
#define DEFAULT_REPORT_MS 1000u
#define CALM_MS           (3 * TICK_MS) /* how much later where there is no hurry */

/* ---- suspension ---- */

/* Are all ranks stopped? Slurm suspends a step so; its daemon goes on. */
static bool is_stopped(const struct agent *a)
{
    bool any = false;
    for (size_t i = 0; i < a->tasks.nranks; i++) {
        struct procfs_stat stat;
        const struct rank *rank = &a->tasks.ranks[i];
        if (procfs_process_stat(&a->tasks.fs, rank->pid, &stat) < 0 ||
            stat.start_ticks != rank->start_ticks)
            continue;
        if (stat.state != 'T')
            return false;
        any = true;
    }
    return any;
}

/* A suspended step lends and owns nothing: its CPUs may be given to other jobs now. */
static void look_if_stopped(struct agent *a, uint64_t now)
{
    bool stopped = is_stopped(a);
    if (stopped && a->phase != PHASE_STOPPED && a->phase != PHASE_DISMISSED) {
        log_info("the step is suspended: it takes no part until it is resumed");
        agent_end_loans(a);
        agent_go_home(a, "the step is suspended");
        agent_say_goodbye(a);
        link_close(&a->link);
        a->credential_stale = true;
        a->lease_until_ms = a->locks_at_ms = NEVER;
        a->phase = PHASE_STOPPED;
        agent_unlock_left(a);
    } else if (!stopped && a->phase == PHASE_STOPPED) {
        log_info("the step is resumed");
        agent_listen_for_borrowers(a);
        a->phase = PHASE_APART;
        agent_lock_own(a);
        a->backoff_ms = BACKOFF_MIN_MS;
        a->retry_ms = now;
    }
}

/* ---- another controller ---- */

/* It says nothing: while the lease still runs, another one may take us as we are. */
static void try_another(struct agent *a)
{
    agent_lose(a, "it has said nothing for half a lease; trying another");
    a->endpoint = (a->endpoint + 1) % a->args.ncontrollers;
}

/* ---- time ---- */

/* Does it matter to anybody at once that the step is suspended or resumed, or has new loaders? */
static bool concerned(const struct agent *a)
{
    return a->phase == PHASE_STOPPED || !a->binder.own || a->loans.nlenders > 0 ||
           a->loans.nborrowers > 0;
}

/* Is it looked for from time to time, and what chatty clients say heard with that? */
static bool looking(const struct agent *a)
{
    return a->phase == PHASE_MANAGED || concerned(a);
}

/*
 * When that is next. On its own placement and with nothing lent a step can wait: who borrows from
 * it meanwhile tells its agent, which looks then.
 */
static uint64_t next_look(const struct agent *a)
{
    if (!looking(a))
        return NEVER;
    return concerned(a) ? a->tick_at_ms : a->tick_at_ms + CALM_MS;
}

/* Does anybody need to know the tasks? Without a controller and on own placement nobody does. */
static bool watching(const struct agent *a)
{
    return a->phase == PHASE_MANAGED || !a->binder.own;
}

static uint64_t next_event(const struct agent *a)
{
    uint64_t at = a->lease_until_ms;
    if (a->phase == PHASE_APART)
        lower(&at, a->retry_ms);
    if (a->phase == PHASE_GREETING || a->phase == PHASE_WELCOMING)
        lower(&at, a->phase_deadline_ms);
    if (a->phase == PHASE_MANAGED)
        lower(&at, a->report_at_ms);
    if (watching(a))
        lower(&at, a->scan_at_ms);
    lower(&at, next_look(a));
    lower(&at, a->locks_at_ms);
    if (a->phase == PHASE_MANAGED)
        lower(&at, a->silent_at_ms);
    return at;
}

static void lease_over(struct agent *a)
{
    if (a->link.fd >= 0)
        agent_lose(a, "it has said nothing for the length of a lease");
    a->lease_until_ms = NEVER;
    agent_go_home(a, "no word from a controller for the length of a lease");
}

static void timers(struct agent *a)
{
    struct bind_result result;
    uint64_t now = clock_monotonic_ms();
    if (now >= a->lease_until_ms)
        lease_over(a);
    if (now >= next_look(a) || (a->phase == PHASE_MANAGED && now >= a->report_at_ms)) {
        a->tick_at_ms = with_tick(a, now + TICK_MS);
        look_if_stopped(a, now); /* so that none reports that it stands still */
        agent_hear_clients(a);
    }
    if ((a->phase == PHASE_GREETING || a->phase == PHASE_WELCOMING) && now >= a->phase_deadline_ms)
        agent_lose(a, "no answer in time");
    if (now >= a->locks_at_ms)
        agent_try_locks(a);
    if (a->phase == PHASE_MANAGED && now >= a->silent_at_ms)
        try_another(a);
    if (a->phase == PHASE_APART && now >= a->retry_ms)
        agent_connect_now(a, now);
    if (watching(a) && now >= a->scan_at_ms)
        agent_scan(a, TASKS_FULL, &result);
    if (a->phase == PHASE_MANAGED && now >= a->report_at_ms) {
        agent_send_report(a);
        a->report_at_ms = again(a, now, a->report_ms);
    }
}

/* ---- the thread ---- */

static int timeout_until(uint64_t at)
{
    uint64_t now = clock_monotonic_ms();
    if (at == NEVER)
        return -1;
    if (at <= now)
        return 0;
    return at - now > INTERVAL_MAX_MS ? INTERVAL_MAX_MS : (int)(at - now);
}

static void client_work(struct agent *a, const struct pollfd *fds, unsigned n)
{
    struct msg_client_change greet;
    bool announced = false;
    agent_describe(a, &greet);
    clients_ready(&a->clients, fds, n, &a->tasks, &greet, &announced);
    msg_client_change_free(&greet);
    agent_scan_announced(a, announced);
}

static void wait_and_work(struct agent *a)
{
    struct pollfd fds[3 + 1 + CLIENTS_MAX + LOAN_POLL_MAX];
    fds[0] = (struct pollfd){.fd = a->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = a->link.fd, .events = link_events(&a->link)};
    fds[2] = (struct pollfd){.fd = a->credential != NULL ? credential_fd(a->credential) : -1,
                             .events = POLLIN};
    unsigned n = clients_poll(&a->clients, !looking(a), fds + 3);
    struct pollfd *loans = fds + 3 + n;
    unsigned nloans = loans_poll(&a->loans, loans);
    int ready = poll(fds, 3 + n + nloans, timeout_until(next_event(a)));
    if (ready < 0 && errno != EINTR) {
        log_warning("poll: %s", strerror(errno));
        (void)poll(NULL, 0, 1000); /* whatever it is, do not spin */
    }
    if (ready <= 0)
        return;
    client_work(a, fds + 3,
                n); /* before what tells clients: those that are gone are dropped then */
    agent_loan_work(a, loans, nloans);
    if (fds[1].fd >= 0 && fds[1].fd == a->link.fd && fds[1].revents != 0)
        agent_link_work(a, fds[1].revents);
    if (fds[2].fd >= 0 && fds[2].revents != 0)
        agent_credential_work(a);
}

static void release(struct agent *a)
{
    link_close(&a->link);
    loans_free(&a->loans);
    cpuset_free(&a->cpuset);
    cpulock_free(&a->cpulock);
    nodedir_close(&a->node);
    credential_abandon(a->credential);
    clients_free(&a->clients);
    binder_free(&a->binder);
    tasks_free(&a->tasks);
    cpus_free(&a->want);
    cpus_free(&a->kept);
    msg_register_free(&a->about);
}

/* What the agents of the node share, and what Slurm confines the step to. */
static void join_node(struct agent *a)
{
    if (nodedir_open(&a->node, a->args.rundir, a->about.node) < 0)
        log_info("no directory for the node below %s: %s; nothing can be borrowed from this step, "
                 "nor by it",
                 a->args.rundir, strerror(errno));
    loans_sweep(&a->node);
    agent_listen_for_borrowers(a);
    for (size_t i = 0; i < a->tasks.nranks && !a->cpuset.available; i++)
        cpuset_init(&a->cpuset, &a->tasks.fs, a->tasks.ranks[i].pid, &a->node, a->about.job,
                    a->about.step);
    (void)cpuset_mend(&a->node, &a->tasks.fs);
    agent_lock_own(a);
}

static void say_worktimes(const struct agent *a)
{
    log_debug("scans took %.3f ms in the median, %.3f at most; reports %.3f and %.3f",
              worktime_median_ms(&a->scans), worktime_longest_ms(&a->scans),
              worktime_median_ms(&a->reporting), worktime_longest_ms(&a->reporting));
}

static void *run(void *argument)
{
    struct agent *a = argument;
    a->nvml = nvml_start(NVML_LIBRARY, (const char(*)[MSG_GPU_MAX])a->about.gpus, a->about.ngpus);
    (void)pthread_setname_np(pthread_self(), "adl-agent");
    join_node(a);
    while (!atomic_load(&a->leaving)) {
        timers(a);
        if (!atomic_load(&a->leaving))
            wait_and_work(a);
    }
    agent_end_loans(a);
    agent_go_home(a, "the step ends"); /* loaders that outlive their rank for a moment, too */
    agent_say_goodbye(a);
    say_worktimes(a);
    agent_publish(a);
    nvml_stop(a->nvml);
    release(a);
    return NULL;
}

/* ---- from outside ---- */

static int copy_about(struct msg_register *to, const struct msg_register *from)
{
    *to = *from;
    to->own = to->held = CPUS_EMPTY;
    return cpus_copy(&to->own, &from->own);
}

static struct agent *create(const struct agent_step *step)
{
    struct agent *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    a->args = step->args;
    a->started_ms = clock_monotonic_ms();
    a->random = ((uint64_t)getpid() << 32) ^ clock_monotonic_ns() ^ step->about.job;
    a->random = a->random != 0 ? a->random : 1;
    a->tick_phase = jittered(a, 4 * TICK_MS) % TICK_MS;
    a->backoff_ms = BACKOFF_MIN_MS;
    a->lease_ms = DEFAULT_LEASE_MS;
    a->report_ms = a->scan_ms = DEFAULT_REPORT_MS;
    a->lease_until_ms = a->silent_at_ms = a->locks_at_ms = NEVER;
    a->lock_retry_ms = LOCK_RETRY_MIN_MS;
    a->want_own = true;
    binder_init(&a->binder);
    link_init(&a->link);
    clients_init(&a->clients, -1, step->about.uid);
    (void)pthread_mutex_init(&a->summary_lock, NULL);
    a->tasks.fs.fd = a->wake = a->node.fd = a->node.locks = -1;
    cpulock_init(&a->cpulock, &a->node);
    loans_init(&a->loans, &a->node, step->about.job, step->about.step, &a->about.own);
    if (copy_about(&a->about, &step->about) == 0 &&
        tasks_init(&a->tasks, "", step->ranks, step->nranks, getpid()) == 0 &&
        (a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0)
        return a;
    int saved = errno;
    release(a);
    free(a);
    errno = saved;
    return NULL;
}

struct agent *agent_start(const struct agent_step *step)
{
    struct agent *a = create(step);
    if (a == NULL)
        return NULL;
    a->clients.listener = step->listener;
    int rc = thread_start(&a->thread, STACK_BYTES, run, a);
    if (rc == 0)
        return a;
    a->clients.listener = -1;
    close(a->wake);
    release(a);
    free(a);
    errno = rc;
    return NULL;
}

void agent_leave(struct agent *a)
{
    uint64_t one = 1;
    atomic_store(&a->leaving, true);
    if (write(a->wake, &one, sizeof one) < 0) /* full: it is awake */
        return;
}

bool agent_join(struct agent *a, unsigned ms)
{
    struct timespec until;
    if (clock_gettime(CLOCK_REALTIME, &until) < 0)
        return false;
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    if (pthread_timedjoin_np(a->thread, NULL, &until) != 0)
        return false;
    close(a->wake);
    (void)pthread_mutex_destroy(&a->summary_lock);
    free(a);
    return true;
}

void agent_summary(struct agent *a, struct agent_summary *summary)
{
    pthread_mutex_lock(&a->summary_lock);
    *summary = a->summary;
    pthread_mutex_unlock(&a->summary_lock);
}
