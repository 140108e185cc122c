/* When what is decided and sent. See control.h. */
#include "config.h"

#include "control.h"

#include "clock.h"
#include "ctld.h"
#include "decide.h"
#include "demand.h"
#include "loans.h"
#include "log.h"
#include "recorder.h"
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS         100u /* while something may become due soon, */
#define IDLE_TICK_MS    500u /* else, at most: */
#define LEASE_TICKS     8u   /* so many times a lease silence is looked for */
#define SETTLE_CAP_MS   2000u
#define SETTLE_EXTRA_MS 200u     /* after each registration while settling */
#define RUN_NS          2000000u /* of the loop's time for decisions at a stretch */
#define RETRY_MS        1000u
#define STALL_MS        1000u /* without a tick: we were stopped, and agents may have gone meanwhile */
#define MOVE_MS         500u /* for agents to come from another controller, beyond SettleTime */

static struct timeval milliseconds(uint64_t ms)
{
    return (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
}

/* ---- when to look for what is due ---------------------------------------------------------- */

/* Does anything wait for a moment that is worth meeting? The end of a lease may be met late. */
static bool expects_something(const struct control *control)
{
    return !TAILQ_EMPTY(&control->waiting) || !TAILQ_EMPTY(&control->later) ||
           !TAILQ_EMPTY(&control->ghosts);
}

static void arm_tick(struct control *control, unsigned ms)
{
    struct timeval wait = milliseconds(ms);

    control->tick_at_ms = clock_monotonic_ms() + ms;
    if (evtimer_add(control->tick, &wait) == 0)
        return;
    control->tick_at_ms = UINT64_MAX; /* the next that waits arms it */
    log_error("cannot arm a timer: what becomes due is noticed late");
}

/* Something waits for a moment from now on. A tick that comes earlier is not put off. */
static void tick_soon(struct control *control)
{
    if (control->tick_at_ms > clock_monotonic_ms() + TICK_MS)
        arm_tick(control, TICK_MS);
}

/* ---- marking ------------------------------------------------------------------------------- */

static struct node_list *list_of(struct control *control, enum node_queue queue)
{
    switch (queue) {
    case NODE_NOW:
        return &control->now;
    case NODE_DUE:
        return &control->due;
    case NODE_LATER:
        return &control->later;
    case NODE_IDLE:
        break;
    }
    return NULL;
}

static void set_queue(struct control *control, struct node *node, enum node_queue queue)
{
    if (node->queue != NODE_IDLE)
        TAILQ_REMOVE(list_of(control, node->queue), node, todo);
    node->queue = queue;
    if (queue != NODE_IDLE)
        TAILQ_INSERT_TAIL(list_of(control, queue), node, todo);
}

static bool has_work(const struct control *control)
{
    return !TAILQ_EMPTY(&control->now) || !TAILQ_EMPTY(&control->due);
}

static void arm_run(struct ctld *ctld)
{
    struct timeval at_once = {0, 0};

    if (!ctld->control.settling && !evtimer_pending(ctld->control.run, NULL) &&
        evtimer_add(ctld->control.run, &at_once) < 0)
        log_error("cannot arm a timer; decisions are delayed");
}

void control_touch(struct ctld *ctld, struct node *node)
{
    if (node->queue != NODE_NOW)
        set_queue(&ctld->control, node, NODE_NOW);
    arm_run(ctld);
}

/* A measurement's turn: after all starts and ends. */
static void touch_due(struct ctld *ctld, struct node *node)
{
    if (node->queue == NODE_IDLE || node->queue == NODE_LATER)
        set_queue(&ctld->control, node, NODE_DUE);
    arm_run(ctld);
}

void control_touch_later(struct ctld *ctld, struct node *node)
{
    if (node->queue != NODE_IDLE)
        return;
    node->due_ms = node->changed_ms + ctld->conf->hold_ms;
    if (node->changed_ms == 0 || node->due_ms <= clock_monotonic_ms()) {
        touch_due(ctld, node);
    } else {
        tick_soon(&ctld->control);
        set_queue(&ctld->control, node, NODE_LATER);
    }
}

void control_touch_all(struct ctld *ctld)
{
    const struct registry *registry = &ctld->registry;

    for (size_t i = 0; i < registry->node_buckets; i++)
        for (struct node *n = registry->nodes[i]; n != NULL; n = n->next)
            touch_due(ctld, n);
}

static void try_again(struct ctld *ctld, struct node *node)
{
    if (node->queue != NODE_IDLE)
        return;
    node->due_ms = clock_monotonic_ms() + RETRY_MS;
    tick_soon(&ctld->control);
    set_queue(&ctld->control, node, NODE_LATER);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void stop_waiting(struct control *control, struct member *member)
{
    if (!member->is_waiting)
        return;
    TAILQ_REMOVE(&control->waiting, member, waiting);
    member->is_waiting = false;
}

/* How many workers are worth running on these cores. */
static uint32_t workers_worth(const struct member *member, const struct recon_place *place)
{
    const struct hints *hints = member_hints(member);
    unsigned cores = cpus_count(&place->cpus);
    unsigned workers = cores > 0 ? cores : 1;

    if (hints->workers_max > 0 && workers > hints->workers_max)
        workers = hints->workers_max;
    if (workers < hints->workers_min)
        workers = hints->workers_min;
    return workers;
}

/*
 * Own CPUs that nobody else may use while the member is there: what it is assigned of them, and
 * main cores. Told only where it is not what the agent takes for granted anyway (msg.h).
 */
static int fill_keep(const struct member *member, const struct recon_place *place,
                     struct msg_assign *assign)
{
    struct cpus plain = CPUS_EMPTY;
    int rc = cpus_copy(&assign->keep, &place->cpus);

    if (rc == 0)
        rc = cpus_or(&assign->keep, &member->main);
    cpus_and(&assign->keep, &member->own);
    if (rc == 0)
        rc = cpus_copy(&plain, place->own ? &member->own : &place->cpus);
    cpus_and(&plain, &member->own);
    assign->keep_valid = rc == 0 && !cpus_equal(&assign->keep, &plain);
    cpus_free(&plain);
    return rc;
}

static int send_assign(struct ctld *ctld, struct member *member, const struct recon_place *place)
{
    uint64_t now = clock_monotonic_ms(), seq = member->place.seq + 1;
    struct msg_assign assign = {
        .seq = seq,
        .own = place->own,
        .cpus = place->cpus, /* borrowed for the call */
        .workers = workers_worth(member, place),
        .lease_ms = ctld->conf->lease_ms,
    };
    bool failed;

    (void)snprintf(assign.reason, sizeof(assign.reason), "%s",
                   member->reason != NULL ? member->reason : "");
    assign.state_length = demand_save(member, assign.state, sizeof(assign.state));
    assign.state_length += recorder_save(member, assign.state + assign.state_length,
                                         sizeof(assign.state) - assign.state_length);
    failed = fill_keep(member, place, &assign) < 0 || loans_fill(member, &assign) < 0 ||
             msg_assign_write(&ctld->writer, &assign) < 0 ||
             recon_sent(&member->place, place, seq, now) < 0;
    loans_free(&assign);
    cpus_free(&assign.keep);
    if (failed) {
        log_error("cannot write an assignment for job %u on %s: %s", member->job->id,
                  member->node->name, strerror(errno));
        return -1;
    }
    member->sent_loans = loans_mark(member, place);
    member->state_sent_ms = now;
    member->sent_demand = (float)member->learner.demand;
    ctld->assignments++;
    if (!member->is_waiting) {
        member->waiting_since_ms = now;
        member->is_waiting = true;
        tick_soon(&ctld->control);
        TAILQ_INSERT_TAIL(&ctld->control.waiting, member, waiting);
    }
    session_send(member->session, &ctld->writer);
    return 0;
}

static int gather(const struct node *node, struct recon_member ***list, size_t *count)
{
    size_t n = node->nmembers;

    for (const struct ghost *g = node->ghosts; g != NULL; g = g->next)
        n++;
    *list = malloc((n + 1) * sizeof(struct recon_member *));
    if (*list == NULL)
        return -1;
    *count = 0;
    for (size_t i = 0; i < node->nmembers; i++)
        (*list)[(*count)++] = &node->members[i]->place;
    for (struct ghost *g = node->ghosts; g != NULL; g = g->next)
        (*list)[(*count)++] = &g->place;
    return 0;
}

static int reconcile(struct ctld *ctld, struct node *node)
{
    struct recon_place next = {false, CPUS_EMPTY};
    struct recon_member **list = NULL;
    struct recon_view view;
    size_t count = 0;
    int rc;

    if (gather(node, &list, &count) < 0)
        return -1;
    rc = recon_view_make(&view, list, count);
    free(list);
    if (rc < 0)
        return -1;
    for (size_t i = 0; i < node->nmembers && rc == 0; i++) {
        struct member *m = node->members[i];

        rc = recon_next(&view, &m->place, &next);
        if (rc == 0 && (!m->place.ever_sent || !recon_place_equal(&next, &m->place.sent) ||
                        loans_mark(m, &next) != m->sent_loans))
            rc = send_assign(ctld, m, &next);
    }
    recon_place_free(&next);
    recon_view_free(&view);
    return rc;
}

void control_reconcile(struct ctld *ctld, struct node *node)
{
    if (ctld->control.settling)
        return;
    if (reconcile(ctld, node) < 0) {
        log_error("node %s: assignments could not be sent (%s); tried again", node->name,
                  strerror(errno));
        try_again(ctld, node);
    }
}

void control_ack(struct ctld *ctld, struct member *member, uint64_t seq)
{
    if (!recon_ack(&member->place, seq))
        return;
    ctld->acks++;
    stop_waiting(&ctld->control, member);
    control_reconcile(ctld, member->node);
}

void control_refresh(struct ctld *ctld, struct member *member)
{
    struct recon_place same = {false, CPUS_EMPTY};

    if (ctld->control.settling || !member->place.ever_sent || member->place.in_flight)
        return;
    if (recon_place_copy(&same, &member->place.sent) == 0)
        (void)send_assign(ctld, member, &same);
    recon_place_free(&same);
}

/* ---- deciding ------------------------------------------------------------------------------ */

/* Decide the node and all that belongs to it, whose turn this then was. */
static void decide_node(struct ctld *ctld, struct node *node)
{
    struct control *control = &ctld->control;
    const struct decide decide = {&ctld->registry, ctld->conf, clock_monotonic_ms(),
                                  ++control->walk};
    struct node *nodes[DECIDE_NODES_MAX];
    size_t n = decide_component(&decide, node, nodes), changed = 0;

    for (size_t i = 0; i < n; i++)
        set_queue(control, nodes[i], NODE_IDLE);
    if (decide_targets(&decide, nodes, n, &changed) < 0) {
        log_error("no decision for node %s: %s; tried again", node->name, strerror(errno));
        try_again(ctld, node);
        return;
    }
    control->decisions++;
    control->changes += changed;
    for (size_t i = 0; i < n; i++)
        control_reconcile(ctld, nodes[i]);
}

/* For a little while; then messages have their turn again. */
static void run(evutil_socket_t fd, short what, void *arg)
{
    struct ctld *ctld = arg;
    struct control *control = &ctld->control;
    uint64_t begin = clock_monotonic_ns(), took = 0;

    (void)fd;
    (void)what;
    while (has_work(control) && took < RUN_NS) {
        struct node *node = TAILQ_FIRST(&control->now);

        if (node == NULL)
            node = TAILQ_FIRST(&control->due);
        decide_node(ctld, node);
        registry_prune_node(&ctld->registry, node);
        took = clock_monotonic_ns() - begin;
    }
    if (has_work(control))
        arm_run(ctld);
    control->decide_ns += took;
    if (took > control->decide_ns_max)
        control->decide_ns_max = took;
}

/* ---- settling: what was begun, and its end below ---- */

/* Until nobody has come back for extra_ms, but for wait_ms at most if nobody comes at all. */
static void begin_settling(struct ctld *ctld, uint64_t now, unsigned wait_ms, unsigned extra_ms)
{
    struct control *control = &ctld->control;
    struct timeval wait = milliseconds(wait_ms);

    control->settling = true;
    control->taking_over = false;
    control->settle_extra_ms = extra_ms;
    control->settle_end_ms = now + wait_ms;
    control->settle_cap_ms = now + (wait_ms > SETTLE_CAP_MS ? wait_ms : SETTLE_CAP_MS);
    (void)evtimer_del(control->run);
    if (evtimer_add(control->settle, &wait) < 0)
        log_error("cannot arm a timer; nothing is decided");
}

/* Agents come at once, or when another controller has sent them here. */
static void settle_after_start(struct ctld *ctld, uint64_t now)
{
    begin_settling(ctld, now, ctld->conf->settle_ms + (ctld->self.count > 1 ? MOVE_MS : 0),
                   SETTLE_EXTRA_MS);
}

/* ---- what time brings ---------------------------------------------------------------------- */

/* From now on the owners of what it holds do not wait for it any more. */
static void become_overdue(struct ctld *ctld, struct member *m)
{
    char name[64];

    member_name(m, name, sizeof(name));
    log_warning("%s on %s has not confirmed its cores within %u ms; their owners get them back",
                name, m->node->name, ctld->conf->ack_ms);
    m->place.overdue = true;
    control_reconcile(ctld, m->node);
}

/* Messages do not get lost in a connection, so the other end is stuck. When it comes back it says
 * what it has. */
static void give_up(struct member *m)
{
    char name[64];

    member_name(m, name, sizeof(name));
    log_warning(
        "%s on %s has not confirmed its cores for a whole lease; its connection is given up", name,
        m->node->name);
    session_end(m->session);
}

static void look_for_overdue(struct ctld *ctld, uint64_t now)
{
    const struct conf *conf = ctld->conf;
    unsigned patience_ms = conf->lease_ms > conf->ack_ms ? conf->lease_ms : conf->ack_ms;
    struct member *m, *next;

    for (m = TAILQ_FIRST(&ctld->control.waiting); m != NULL; m = next) {
        next = TAILQ_NEXT(m, waiting);
        if (now - m->waiting_since_ms >= patience_ms)
            give_up(m);
        else if (now - m->waiting_since_ms >= conf->ack_ms && !m->place.overdue)
            become_overdue(ctld, m);
    }
}

static void drop_ghost(struct control *control, struct ghost *ghost)
{
    struct ghost **at = &ghost->node->ghosts;

    while (*at != ghost)
        at = &(*at)->next;
    *at = ghost->next;
    TAILQ_REMOVE(&control->ghosts, ghost, by_end);
    recon_member_free(&ghost->place);
    free(ghost);
}

static void look_for_ghosts(struct ctld *ctld, uint64_t now)
{
    struct ghost *ghost;

    while ((ghost = TAILQ_FIRST(&ctld->control.ghosts)) != NULL && ghost->until_ms <= now) {
        struct node *node = ghost->node;

        drop_ghost(&ctld->control, ghost);
        if (!registry_prune_node(&ctld->registry, node))
            control_reconcile(ctld, node);
    }
}

static void look_for_due(struct ctld *ctld, uint64_t now)
{
    struct node *node, *next;

    for (node = TAILQ_FIRST(&ctld->control.later); node != NULL; node = next) {
        next = TAILQ_NEXT(node, todo);
        if (node->due_ms <= now)
            touch_due(ctld, node);
    }
}

/* Who was stopped knows as little as who has just started. */
static void look_for_stall(struct ctld *ctld, uint64_t now)
{
    uint64_t gap_ms = now - ctld->control.ticked_ms;

    ctld->control.ticked_ms = now;
    if (gap_ms < STALL_MS + IDLE_TICK_MS || ctld->control.settling)
        return;
    log_warning("this process was stopped for %" PRIu64 " ms: nothing moves until agents are back",
                gap_ms);
    settle_after_start(ctld, now);
}

static unsigned idle_tick_ms(const struct ctld *ctld)
{
    unsigned ms = ctld->conf->lease_ms / LEASE_TICKS;

    return ms < TICK_MS ? TICK_MS : ms > IDLE_TICK_MS ? IDLE_TICK_MS : ms;
}

static void tick(evutil_socket_t fd, short what, void *arg)
{
    struct ctld *ctld = arg;
    uint64_t now = clock_monotonic_ms();

    (void)fd;
    (void)what;
    look_for_stall(ctld, now);
    look_for_overdue(ctld, now);
    look_for_ghosts(ctld, now);
    look_for_due(ctld, now);
    session_look_for_silent(ctld, now);
    arm_tick(&ctld->control, expects_something(&ctld->control) ? TICK_MS : idle_tick_ms(ctld));
}

/* ---- settling ------------------------------------------------------------------------------ */

static void arm_settle(struct ctld *ctld)
{
    uint64_t now = clock_monotonic_ms(), end = ctld->control.settle_end_ms;
    struct timeval rest = milliseconds(end > now ? end - now : 0);

    if (evtimer_add(ctld->control.settle, &rest) < 0)
        log_error("cannot arm a timer; nothing is decided");
}

static void settle(evutil_socket_t fd, short what, void *arg)
{
    struct ctld *ctld = arg;
    struct control *control = &ctld->control;
    uint64_t now = clock_monotonic_ms();

    (void)fd;
    (void)what;
    if (now < control->settle_end_ms) {
        arm_settle(ctld);
        return;
    }
    control->settling = control->taking_over = false;
    log_info("settled with %zu members on %zu nodes", ctld->registry.nmembers,
             ctld->registry.nnodes);
    control_touch_all(ctld);
    arm_run(ctld);
}

void control_registered(struct ctld *ctld, struct member *member)
{
    struct control *control = &ctld->control;
    uint64_t end = clock_monotonic_ms() + control->settle_extra_ms;

    for (struct ghost *g = member->node->ghosts, *next; g != NULL; g = next) {
        next = g->next;
        if (g->job == member->job->id && g->step == member->step)
            drop_ghost(control, g);
    }
    if (!control->settling) {
        control_touch(ctld, member->node);
        return;
    }
    if (end > control->settle_cap_ms)
        end = control->settle_cap_ms;
    if (control->taking_over && member->place.seq > 0) {
        control->taking_over = false; /* the others come now, too */
        control->settle_end_ms = end;
        arm_settle(ctld);
    } else if (end > control->settle_end_ms) {
        control->settle_end_ms = end;
    }
}

/* ---- leaving ------------------------------------------------------------------------------- */

/* In order of their ends, which mostly is the order of arrival. */
static void insert_ghost(struct control *control, struct ghost *ghost)
{
    struct ghost *at;

    tick_soon(control);
    TAILQ_FOREACH_REVERSE(at, &control->ghosts, ghost_list, by_end)
    {
        if (at->until_ms <= ghost->until_ms) {
            TAILQ_INSERT_AFTER(&control->ghosts, at, ghost, by_end);
            return;
        }
    }
    TAILQ_INSERT_HEAD(&control->ghosts, ghost, by_end);
}

/* Borrowed CPUs that the lost member's loaders may be on. Its own end with its step. */
static void leave_ghost(struct ctld *ctld, struct member *member, uint64_t until_ms)
{
    struct node *node = member->node;
    struct ghost *ghost;

    cpus_andnot(&member->place.held, &member->own);
    if (cpus_is_empty(&member->place.held))
        return;
    ghost = calloc(1, sizeof(*ghost));
    if (ghost == NULL) {
        log_error("out of memory: cores of a lost step on %s are given on at once", node->name);
        return;
    }
    ghost->node = node;
    ghost->job = member->job->id;
    ghost->step = member->step;
    ghost->until_ms = until_ms;
    cpus_move(&ghost->place.held, &member->place.held);
    ghost->place.gone = true;
    ghost->next = node->ghosts;
    node->ghosts = ghost;
    insert_ghost(&ctld->control, ghost);
}

void control_leave(struct ctld *ctld, struct member *member, uint64_t lease_end_ms)
{
    struct node *node = member->node;
    struct node *elsewhere = NULL;
    const struct job *job = member->job;

    stop_waiting(&ctld->control, member);
    if (lease_end_ms > clock_monotonic_ms())
        leave_ghost(ctld, member, lease_end_ms);
    /* The job moves together, so the others may have more than they need now. Most likely they end
     * too; and one of their nodes leads to all of them. */
    if (job->nmembers > 1)
        elsewhere = job->members[member->job_slot == 0 ? 1 : 0]->node;
    registry_remove(&ctld->registry, member);
    if (elsewhere != NULL && elsewhere != node)
        control_touch_later(ctld, elsewhere);
    control_touch(ctld, node);
}

void control_drop(struct ctld *ctld, struct member *member)
{
    stop_waiting(&ctld->control, member);
    registry_remove(&ctld->registry, member);
}

/* ---- other controllers --------------------------------------------------------------------- */

static void forget_nodes(struct ctld *ctld)
{
    struct registry *registry = &ctld->registry;

    for (size_t i = 0; i < registry->node_buckets; i++) {
        for (struct node *n = registry->nodes[i], *next; n != NULL; n = next) {
            next = n->next;
            set_queue(&ctld->control, n, NODE_IDLE);
            (void)registry_prune_node(registry, n);
        }
    }
}

void control_stand_by(struct ctld *ctld)
{
    struct control *control = &ctld->control;

    control->settling = true;
    (void)evtimer_del(control->settle);
    (void)evtimer_del(control->run);
    while (!TAILQ_EMPTY(&control->ghosts))
        drop_ghost(control, TAILQ_FIRST(&control->ghosts));
    forget_nodes(ctld);
}

/*
 * The agents of a dead controller come at once, those of a stopped one when they have heard nothing
 * for half a lease, within a report's interval of each other.
 */
void control_serve(struct ctld *ctld)
{
    const struct conf *conf = ctld->conf;

    begin_settling(ctld, clock_monotonic_ms(),
                   conf->settle_ms + conf->lease_ms / 2 + 2 * conf->report_ms,
                   conf->report_ms + SETTLE_EXTRA_MS);
    ctld->control.settle_cap_ms += conf->lease_ms;
    ctld->control.taking_over = true;
}

/* ---- init, fini ---------------------------------------------------------------------------- */

int control_init(struct ctld *ctld)
{
    struct control *control = &ctld->control;

    TAILQ_INIT(&control->now);
    TAILQ_INIT(&control->due);
    TAILQ_INIT(&control->later);
    TAILQ_INIT(&control->waiting);
    TAILQ_INIT(&control->ghosts);
    control->run = evtimer_new(ctld->base, run, ctld);
    control->tick = evtimer_new(ctld->base, tick, ctld);
    control->settle = evtimer_new(ctld->base, settle, ctld);
    if (control->run == NULL || control->tick == NULL || control->settle == NULL) {
        errno = ENOMEM;
        return -1;
    }
    arm_tick(control, TICK_MS);
    control->ticked_ms = clock_monotonic_ms();
    settle_after_start(ctld, control->ticked_ms);
    return 0;
}

void control_fini(struct ctld *ctld)
{
    struct control *control = &ctld->control;

    if (control->run != NULL)
        event_free(control->run);
    if (control->tick != NULL)
        event_free(control->tick);
    if (control->settle != NULL)
        event_free(control->settle);
    control->run = control->tick = control->settle = NULL;
}
