/* The agent's voice: the connection to the controller and what is said on it. */
#include "config.h"

#include "agent_state.h"

#include "exported.h"
#include "log.h"
#include "quota.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKOFF_MAX_MS   2000u
#define BACKOFF_FRESH_MS 400u   /* the most in the first while after a controller was lost: */
#define FRESH_LOSS_MS    10000u /* it is probably being restarted */
#define CONNECT_MS       1000u  /* for the connection itself */
#define SLACK_MS         200u   /* that an answer to a report may be late */
#define HANDSHAKE_MS     5000u  /* from connected to welcome: munged may be busy at both ends */
#define GOODBYE_MS       120u   /* for the controller to take the goodbye and close */
#define ANNOUNCE_MS      5u     /* announcements come in bursts: one scan for all of a burst */
#define QUOTA_REPORTS    30u    /* a quota is looked at anew at so many */

static uint32_t bounded(uint32_t ms)
{
    return ms < INTERVAL_MIN_MS ? INTERVAL_MIN_MS : ms > INTERVAL_MAX_MS ? INTERVAL_MAX_MS : ms;
}

/* ---- the connection ---- */

static void schedule_retry(struct agent *a, uint64_t now)
{
    a->endpoint = (a->endpoint + 1) % a->args.ncontrollers;
    if (a->endpoint == 0) { /* all were tried */
        bool fresh = a->lost_ms > 0 && now - a->lost_ms < FRESH_LOSS_MS;
        uint64_t most = fresh ? BACKOFF_FRESH_MS : BACKOFF_MAX_MS;
        a->retry_ms = now + jittered(a, a->backoff_ms);
        a->backoff_ms = a->backoff_ms * 2 > most ? most : a->backoff_ms * 2;
    } else {
        a->retry_ms = now;
    }
}

/* The connection is of no use any more. The tasks stay as they are until the lease runs out. */
void agent_lose(struct agent *a, const char *why)
{
    char name[ARGS_TEXT_MAX + 16];
    bool was_managed = a->phase == PHASE_MANAGED;
    if (was_managed || !a->silent)
        log_info("no controller at %s: %s",
                 args_endpoint_name(&a->args.controllers[a->endpoint], name, sizeof name), why);
    a->silent = true;
    link_close(&a->link);
    a->credential_stale = true;
    a->phase = PHASE_APART;
    if (a->binder.own)
        a->lease_until_ms = NEVER;
    if (was_managed) { /* the same one first: it may be restarting */
        a->lost_ms = clock_monotonic_ms();
        a->backoff_ms = BACKOFF_MIN_MS;
        a->retry_ms = a->lost_ms + jittered(a, BACKOFF_MIN_MS);
    } else {
        schedule_retry(a, clock_monotonic_ms());
    }
}

static void lose_errno(struct agent *a)
{
    agent_lose(a, errno == ECONNRESET ? "the connection was closed" : strerror(errno));
}

/*
 * Where the other controllers are is found out at once: when the first one is lost, there may be no
 * time to look up names.
 */
static void look_up_all(struct agent *a)
{
    for (unsigned i = 0; i < a->args.ncontrollers && !a->looked_up; i++)
        link_look_up(&a->args.controllers[i], &a->known[i]);
    a->looked_up = true;
}

void agent_connect_now(struct agent *a, uint64_t now)
{
    if (a->args.ncontrollers > 1)
        look_up_all(a);
    /* looking up a name can take long: not while a lease could run out meanwhile */
    if (link_open(&a->link, &a->args.controllers[a->endpoint], &a->known[a->endpoint],
                  a->binder.own) < 0) {
        lose_errno(a);
        return;
    }
    a->phase = PHASE_GREETING;
    a->phase_deadline_ms = now + CONNECT_MS;
}

static void send_frame(struct agent *a, int written, struct wire_writer *frame)
{
    if (written < 0)
        log_warning("a message could not be written: %s", strerror(errno));
    else if (link_send(&a->link, frame) < 0)
        lose_errno(a);
    wire_writer_free(frame);
}

/* ---- what the controller says ---- */

static int fill_register(struct agent *a, const struct msg_challenge *challenge)
{
    struct msg_register *m = &a->about;
    memcpy(m->nonce, challenge->nonce, sizeof m->nonce);
    m->age_ms = clock_monotonic_ms() - a->started_ms;
    m->held_valid = a->held_seq > 0;
    m->held_is_own = a->binder.own;
    m->held_seq = a->held_seq;
    (void)exported_digest(a->args.rundir, m->topology_digest, sizeof m->topology_digest);
    if (!a->binder.own)
        return cpus_copy(&m->held, &a->binder.assigned);
    cpus_clear_all(&m->held);
    return 0;
}

static void ask_credential(struct agent *a, const struct wire_writer *frame)
{
    if (a->credential != NULL) {
        agent_lose(a, "munged on this node has not answered an earlier request yet");
        return;
    }
    a->credential = credential_start(frame->data, frame->length, a->args.munge_socket);
    a->credential_stale = false;
    if (a->credential == NULL)
        lose_errno(a);
}

/* The credential is finished: it goes out if the connection that it was for is still there. */
void agent_credential_work(struct agent *a)
{
    struct wire_writer frame = {0};
    char error[MSG_TEXT_MAX];
    char *text = credential_take(a->credential, error, sizeof error);
    a->credential = NULL;
    if (a->credential_stale) {
        free(text);
        return;
    }
    if (text == NULL) {
        agent_lose(a, error);
        return;
    }
    int written = msg_credential_write(&frame, text);
    free(text);
    send_frame(a, written, &frame);
}

/* Somebody else where the controller should be: worth a warning, once. */
static void disbelieve(struct agent *a, const char *why)
{
    char name[ARGS_TEXT_MAX + 16];
    if (!a->disbelieved)
        log_warning("what listens at %s is not root's controller: %s; see who holds that address",
                    args_endpoint_name(&a->args.controllers[a->endpoint], name, sizeof name), why);
    a->disbelieved = true;
    agent_lose(a, why);
}

/*
 * Is whoever listens there of our own user, root that is? On a Unix socket the kernel says so. Over
 * TCP only such a one can open our credential, and has to repeat the secret in it (on_welcome).
 */
static bool is_trusted(struct agent *a, const struct msg_challenge *challenge)
{
    struct msg_register *m = &a->about;
    struct ucred peer;
    socklen_t length = sizeof peer;
    m->proof_wanted = !a->args.controllers[a->endpoint].local;
    if (m->proof_wanted)
        return challenge->credential_wanted &&
               getrandom(m->proof, sizeof m->proof, 0) == (ssize_t)sizeof m->proof;
    return getsockopt(a->link.fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == 0 || peer.uid == getuid());
}

static void on_challenge(struct agent *a, const struct wire_view *view)
{
    struct msg_challenge challenge;
    struct wire_writer frame = {0};
    if (a->phase != PHASE_GREETING || msg_challenge_read(view, &challenge) < 0) {
        agent_lose(a, "its greeting makes no sense");
        return;
    }
    if (challenge.standby) {
        agent_lose(a, "it stands by for another");
        return;
    }
    if (!is_trusted(a, &challenge)) {
        disbelieve(a, challenge.credential_wanted ? "its user is another one"
                                                  : "it wants no credential");
        return;
    }
    if (fill_register(a, &challenge) < 0 || msg_register_write(&frame, &a->about) < 0) {
        agent_lose(a, strerror(errno));
        wire_writer_free(&frame);
        return;
    }
    a->phase = PHASE_WELCOMING;
    a->phase_deadline_ms = clock_monotonic_ms() + HANDSHAKE_MS;
    if (challenge.credential_wanted) {
        ask_credential(a, &frame);
        wire_writer_free(&frame);
    } else {
        send_frame(a, 0, &frame);
    }
}

static void send_topology(struct agent *a)
{
    struct exported xml;
    struct wire_writer frame = {0};
    if (exported_open(&xml, a->args.rundir) < 0) {
        log_debug("no exported topology to send: %s", strerror(errno));
        return;
    }
    struct msg_topology m = {.xml = xml.text, .xml_length = xml.length};
    memcpy(m.digest, a->about.topology_digest, sizeof m.digest);
    int written = msg_topology_write(&frame, &m);
    exported_close(&xml);
    send_frame(a, written, &frame);
}

static void renew(struct agent *a, uint32_t lease_ms)
{
    if (lease_ms > 0)
        a->lease_ms = bounded(lease_ms);
    uint64_t now = clock_monotonic_ms();
    a->lease_until_ms = now + a->lease_ms;
    if (a->args.ncontrollers > 1) {
        uint64_t half = a->lease_ms / 2, two = 2u * a->report_ms + SLACK_MS;
        a->silent_at_ms = now + (half > two ? half : two);
    }
}

static void on_welcome(struct agent *a, const struct wire_view *view)
{
    struct msg_welcome welcome;
    if (a->phase != PHASE_WELCOMING || msg_welcome_read(view, &welcome) < 0) {
        agent_lose(a, "its welcome makes no sense");
        return;
    }
    if (a->about.proof_wanted &&
        (!welcome.proven || memcmp(welcome.proof, a->about.proof, sizeof welcome.proof) != 0)) {
        disbelieve(a, "it could not open our credential");
        return;
    }
    uint64_t now = clock_monotonic_ms();
    struct bind_result result;
    a->phase = PHASE_MANAGED;
    a->backoff_ms = BACKOFF_MIN_MS;
    a->silent = false;
    a->report_ms = bounded(welcome.report_ms);
    a->scan_ms = bounded(welcome.scan_ms);
    renew(a, welcome.lease_ms);
    log_debug("registered with controller %s, lease %u ms", welcome.server, (unsigned)a->lease_ms);
    pthread_mutex_lock(&a->summary_lock);
    a->summary.registered = true;
    pthread_mutex_unlock(&a->summary_lock);
    agent_scan(a, TASKS_FULL, &result);
    a->sampler.last_ms = a->sampler.last_ms == 0 ? now : a->sampler.last_ms;
    a->report_at_ms = again(a, now, (uint32_t)jittered(a, a->report_ms));
    if (welcome.topology_wanted && a->about.topology_digest[0] != '\0')
        send_topology(a);
}

static void acknowledge(struct agent *a, uint64_t seq, const struct bind_result *result)
{
    struct msg_ack ack = {.seq = seq, .tasks = result->tasks, .failed = result->failed};
    struct wire_writer frame = {0};
    ack.status = result->failed == 0              ? MSG_ACK_APPLIED
                 : result->failed < result->tasks ? MSG_ACK_PARTIAL
                                                  : MSG_ACK_FAILED;
    int written = msg_ack_write(&frame, &ack);
    send_frame(a, written, &frame);
}

/* Without the CPUs whose lenders cannot be reached: they are about to end. Returns how many. */
static unsigned reach_lenders(struct agent *a, struct msg_assign *assign)
{
    unsigned missing = 0;
    for (unsigned i = 0; i < assign->nloans; i++) {
        const struct msg_loan *loan = &assign->loans[i];
        if (loans_borrow(&a->loans, loan) == 0)
            continue;
        log_debug("no contact with step %u.%u, which is to lend: nothing is borrowed from it",
                  (unsigned)loan->job, (unsigned)loan->step);
        missing += cpus_count(&loan->cpus);
        cpus_andnot(&assign->cpus, &loan->cpus);
    }
    return missing;
}

static void on_assign(struct agent *a, const struct wire_view *view)
{
    struct msg_assign assign;
    struct bind_result result = {0, 0};
    if (a->phase != PHASE_MANAGED || msg_assign_read(view, &assign) < 0) {
        agent_lose(a, "its assignment makes no sense");
        return;
    }
    /* where it is unknown what Slurm gave the step, or its user has bound its tasks, nothing is
     * taken from it nor given */
    bool own = assign.own || a->about.unconfined || a->about.cpu_bind[0] != '\0';
    unsigned missing = own ? 0 : reach_lenders(a, &assign);
    a->kept_said = assign.keep_valid;
    cpus_move(&a->kept, &assign.keep);
    agent_place(a, own, &assign.cpus, &result);
    loans_keep(&a->loans, assign.loans, own ? 0 : assign.nloans);
    if (own != assign.own)
        result.failed = result.tasks > 0 ? result.tasks : 1;
    else if (missing > 0 && result.failed == 0)
        result.failed = 1;
    a->held_seq = assign.seq;
    a->workers = assign.workers;
    memcpy(a->about.state, assign.state, assign.state_length);
    a->about.state_length = assign.state_length;
    renew(a, assign.lease_ms);
    acknowledge(a, assign.seq, &result);
    log_debug("assignment %llu: %u loader tasks, %u not as wanted: %s",
              (unsigned long long)assign.seq, result.tasks, result.failed, assign.reason);
    msg_assign_free(&assign);
    agent_tell_clients(a);
}

static void on_renew(struct agent *a, const struct wire_view *view)
{
    struct msg_renew m;
    if (a->phase != PHASE_MANAGED || msg_renew_read(view, &m) < 0)
        agent_lose(a, "its renewal makes no sense");
    else
        renew(a, m.lease_ms);
    if (a->phase != PHASE_MANAGED || m.verdict[0] == '\0')
        return;
    pthread_mutex_lock(&a->summary_lock);
    memcpy(a->summary.verdict, m.verdict, sizeof a->summary.verdict);
    pthread_mutex_unlock(&a->summary_lock);
}

static void on_refuse(struct agent *a, const struct wire_view *view)
{
    struct msg_refuse m;
    if (msg_refuse_read(view, &m) < 0) {
        agent_lose(a, "its refusal makes no sense");
        return;
    }
    agent_lose(a, m.text);
    if (m.code == MSG_REFUSED_STANDBY) { /* then an earlier one serves */
        a->endpoint = 0;
        return;
    }
    if (m.retry_ms > 0) {
        lower(&a->retry_ms, NEVER - 1);
        uint64_t earliest = clock_monotonic_ms() + jittered(a, bounded(m.retry_ms));
        if (a->retry_ms < earliest)
            a->retry_ms = earliest;
        return;
    }
    log_info("refused by the controller: %s", m.text);
    a->phase = PHASE_DISMISSED;
    agent_go_home(a, "refused by the controller");
}

static void hear(struct agent *a, const struct wire_view *view)
{
    switch (view->type) {
    case MSG_CHALLENGE:
        on_challenge(a, view);
        break;
    case MSG_WELCOME:
        on_welcome(a, view);
        break;
    case MSG_ASSIGN:
        on_assign(a, view);
        break;
    case MSG_RENEW:
        on_renew(a, view);
        break;
    case MSG_REFUSE:
        on_refuse(a, view);
        break;
    default:
        agent_lose(a, "it sends messages that are not for an agent");
    }
}

/* Another version does not go away by itself: it is told even where the loss has been. */
static void lose_sense(struct agent *a, int error)
{
    bool other = error == EPROTONOSUPPORT;
    if (other && !a->other_version)
        a->silent = false;
    a->other_version = other;
    agent_lose(a,
               other ? "it speaks another version of the protocol" : "it sends what is no message");
}

void agent_link_work(struct agent *a, short revents)
{
    struct wire_view view;
    if (link_ready(&a->link, revents) < 0) {
        lose_errno(a);
        return;
    }
    while (a->link.fd >= 0) {
        int got = link_next(&a->link, &view);
        if (got == 0)
            return;
        if (got < 0)
            lose_sense(a, errno);
        else
            hear(a, &view);
    }
}

/* ---- what the agent says by itself ---- */

/* Share of time that the training loop computed rather than waited, of what it told; NAN unknown.
 */
static void note_progress(struct agent *a, const struct msg_report *m)
{
    pthread_mutex_lock(&a->summary_lock);
    if (isfinite(m->wait_s) && isfinite(m->busy_s)) {
        a->summary.wait_s += m->wait_s;
        a->summary.loop_s += m->wait_s + m->busy_s;
    } else if (isfinite(m->gpu_busy)) {
        a->summary.wait_s += (1 - m->gpu_busy) * (double)m->interval_ms / 1000;
        a->summary.loop_s += (double)m->interval_ms / 1000;
    }
    pthread_mutex_unlock(&a->summary_lock);
}

/* Threads that were announced are scanned for in a moment. */
void agent_scan_announced(struct agent *a, bool announced)
{
    if (announced)
        lower(&a->scan_at_ms, clock_monotonic_ms() + ANNOUNCE_MS);
}

/* Those that tell so often how far they are that they are not waited for. */
void agent_hear_clients(struct agent *a)
{
    bool announced = false;
    clients_hear(&a->clients, &a->tasks, &announced);
    agent_scan_announced(a, announced);
}

void agent_publish(struct agent *a)
{
    pthread_mutex_lock(&a->summary_lock);
    a->summary.loader_cpu_s = a->sampler.loader_cpu_s;
    a->summary.drift = a->binder.drift;
    a->summary.failed = a->binder.failed;
    a->summary.cut = a->summary.cut || a->tasks.cut;
    pthread_mutex_unlock(&a->summary_lock);
}

void agent_send_report(struct agent *a)
{
    struct msg_report m = {.gpu_busy = nvml_busy(a->nvml)};
    struct wire_writer frame = {0};
    uint64_t now = clock_monotonic_ms(), from_ns = clock_monotonic_ns();
    agent_hear_clients(a); /* it is to be as new as the rest */
    binder_check(&a->binder, &a->tasks, now);
    sampler_take(&a->sampler, &a->tasks, now, boot_ms(), &m);
    clients_progress(&a->clients, &m.samples, &m.wait_s, &m.busy_s);
    m.drift = a->binder.drift;
    m.failed = a->binder.failed;
    m.left_alone = binder_left_alone(&a->tasks);
    if (a->reports++ % QUOTA_REPORTS == 0 && a->tasks.nranks > 0)
        a->cpu_limit = quota_cores(&a->tasks.fs, a->tasks.ranks[0].pid);
    m.cpu_limit = a->cpu_limit;
    m.held_seq = a->held_seq;
    m.held_is_own = a->binder.own;
    note_progress(a, &m);
    int written = msg_report_write(&frame, &m);
    send_frame(a, written, &frame);
    agent_publish(a);
    worktime_add(&a->reporting, clock_monotonic_ns() - from_ns);
}

/* Let the controller take the last bytes: a close with unread ones could take them back. */
static void drain(struct link *link)
{
    uint64_t until = clock_monotonic_ms() + GOODBYE_MS;
    (void)shutdown(link->fd, SHUT_WR);
    for (uint64_t now = clock_monotonic_ms(); now < until; now = clock_monotonic_ms()) {
        struct pollfd fd = {.fd = link->fd, .events = POLLIN};
        char rest[4096];
        if (poll(&fd, 1, (int)(until - now)) <= 0 || recv(link->fd, rest, sizeof rest, 0) <= 0)
            return;
    }
}

void agent_say_goodbye(struct agent *a)
{
    struct msg_goodbye m = {.age_ms = clock_monotonic_ms() - a->started_ms,
                            .samples = NAN,
                            .wait_s = NAN,
                            .busy_s = NAN};
    struct wire_writer frame = {0};
    if (a->phase != PHASE_MANAGED)
        return;
    m.loader_cpu_s = a->sampler.loader_cpu_s;
    m.drift = a->binder.drift;
    m.failed = a->binder.failed;
    int written = msg_goodbye_write(&frame, &m);
    send_frame(a, written, &frame);
    if (a->link.fd >= 0)
        drain(&a->link);
}
