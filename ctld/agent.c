/* What agents say. See agent.h. */
#include "config.h"

#include "agent.h"

#include "clock.h"
#include "control.h"
#include "ctld.h"
#include "decide.h"
#include "demand.h"
#include "log.h"
#include "recorder.h"
#include "server.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_RETRY_MS    5000u
#define AWAY_RETRY_MS    250u
#define STATE_REFRESH_MS 30000u /* how old the learned state with the agent may become */
#define VERDICT_RETOLD   10u    /* reports, after which an agent hears the same verdict anew */
#define STATE_STALE_MS   3000u  /* the same where the demand is another one now */
#define NOTICE_FRACTION  0.1    /* a demand that moved less asks for no decision */

/* ---- registration -------------------------------------------------------------------------- */

/* Whether it is admitted; if not, it has been refused. */
static bool admitted(struct session *session, const struct msg_register *r)
{
    const struct ctld *ctld = session->ctld;

    if (!role_serves(ctld))
        session_refuse(session, MSG_REFUSED_STANDBY, AWAY_RETRY_MS, "%s is the controller now",
                       role_instead(ctld));
    else if (!ctld_trusts(ctld, session->uid))
        session_refuse(session, MSG_REFUSED_DENIED, 0,
                       "agents must run as root or as SlurmUser, not as user %d",
                       (int)session->uid);
    else if (memcmp(r->nonce, session->nonce, sizeof(session->nonce)) != 0)
        session_refuse(session, MSG_REFUSED_DENIED, 0, "the answer is not to this challenge");
    else if (r->node[0] == '\0' || r->job == 0 || r->step == MSG_STEP_EXTERN)
        session_refuse(session, MSG_REFUSED_INVALID, 0,
                       "a member needs a node, a job and a step that may have loaders");
    else if (!r->hints.on)
        session_refuse(session, MSG_REFUSED_OFF, 0, "the step said off");
    else if (cpus_is_empty(&r->own) && !r->unconfined)
        session_refuse(session, MSG_REFUSED_INVALID, 0, "the step owns no CPUs");
    else
        return true;
    return false;
}

/* The member to (re)use for this registration, or NULL with the session refused. */
static struct member *member_for(struct session *session, const struct msg_register *r)
{
    struct ctld *ctld = session->ctld;
    struct member *member = registry_member(&ctld->registry, r->node, r->job, r->step);

    if (member != NULL) {
        struct session *old = member->session;

        if (r->restart < member->restart) {
            session_refuse(session, MSG_REFUSED_REPLACED, 0,
                           "a later start of this step is registered already");
            return NULL;
        }
        if (old != NULL)
            session_refuse(old, MSG_REFUSED_REPLACED, 0, "another connection registered this step");
        /* The old connection took its member along. */
    }
    if (ctld->registry.nmembers >= ctld->conf->max_agents) {
        session_refuse(session, MSG_REFUSED_BUSY, BUSY_RETRY_MS, "MaxAgents=%u are connected",
                       ctld->conf->max_agents);
        return NULL;
    }
    member = registry_add(&ctld->registry, r->node, r->job, r->step);
    if (member == NULL)
        session_refuse(session, MSG_REFUSED_BUSY, BUSY_RETRY_MS, "no memory for another member");
    return member;
}

static int fill(struct ctld *ctld, struct member *member, const struct msg_register *r,
                uint64_t now)
{
    member->uid = r->uid;
    member->restart = r->restart;
    member->tasks = r->tasks;
    member->step_nodes = r->step_nodes;
    member->unconfined = r->unconfined;
    memcpy(member->cpu_bind, r->cpu_bind, sizeof(member->cpu_bind));
    member->registered_ms = member->state_sent_ms = now;
    member->started_ms = r->age_ms < now ? now - r->age_ms : 1;
    if (r->ngpus > 0) {
        member->gpus = calloc(r->ngpus, MSG_GPU_MAX);
        if (member->gpus == NULL)
            return -1;
        memcpy(member->gpus, r->gpus, (size_t)r->ngpus * MSG_GPU_MAX);
        member->ngpus = r->ngpus;
    }
    if (member_set_hints(member, &r->hints) < 0)
        return -1;
    demand_load(member, r->state, recorder_load(member, r->state, r->state_length, now), now);
    demand_know(member, ctld->known, &ctld->warned);
    return cpus_copy(&member->own, &r->own);
}

/* The node's topology, if it is known; whether to ask for it otherwise. */
static bool find_topology(struct ctld *ctld, struct node *node, const char *digest, uint64_t now)
{
    if (digest[0] == '\0')
        return false;
    if (node->topology == NULL || strcmp(node->digest, digest) != 0) {
        (void)snprintf(node->digest, sizeof(node->digest), "%s", digest);
        agent_use_topology(ctld, node);
    }
    return node->topology == NULL && topostore_wants(ctld->store, digest, now);
}

void agent_use_topology(struct ctld *ctld, struct node *node)
{
    struct topo_entry *entry = topostore_get(ctld->store, node->digest);

    topostore_release(node->topology);
    node->topology = entry;
    node->claims_stale = true;
}

void agent_topology_ready(const char *digest, void *arg)
{
    struct ctld *ctld = arg;
    size_t nodes = 0;

    for (size_t i = 0; i < ctld->registry.node_buckets; i++) {
        for (struct node *n = ctld->registry.nodes[i]; n != NULL; n = n->next) {
            if (n->topology != NULL || strcmp(n->digest, digest) != 0)
                continue;
            agent_use_topology(ctld, n);
            control_touch(ctld, n);
            nodes++;
        }
    }
    log_info("topology %s is known; %zu nodes have it", digest, nodes);
}

/* What the loaders are bound to right now, in the member's own words. */
static int begin_place(struct ctld *ctld, struct member *member, const struct msg_register *r)
{
    const struct decide decide = {&ctld->registry, ctld->conf, clock_monotonic_ms(), 0};
    bool own = !r->held_valid || r->held_is_own;

    if (decide_claims(&decide, member->node) < 0 ||
        recon_begin(&member->place, own, own ? NULL : &r->held) < 0)
        return -1;
    if (r->held_valid && r->held_seq < UINT64_MAX / 2)
        member->place.seq = r->held_seq; /* numbers only grow, across our restart too */
    return 0;
}

static int welcome(struct session *session, const struct msg_register *r, bool topology_wanted)
{
    struct ctld *ctld = session->ctld;
    struct msg_welcome w = {
        .server = CTLD_VERSION,
        .instance = ctld->instance,
        .lease_ms = ctld->conf->lease_ms,
        .report_ms = ctld->conf->report_ms,
        .scan_ms = ctld->conf->scan_ms,
        .topology_wanted = topology_wanted,
        .proven = r->proof_wanted,
    };

    memcpy(w.proof, r->proof, sizeof(w.proof));
    if (msg_welcome_write(&ctld->writer, &w) < 0)
        return -1;
    session->topology_wanted = topology_wanted;
    session_send(session, &ctld->writer);
    return 0;
}

static void log_registration(const struct member *member, const struct msg_register *r)
{
    char name[64];
    char *own = cpus_to_string(&r->own);

    member_name(member, name, sizeof(name));
    log_info("%s on %s registered: user %u, cpus %s, %u tasks%s%s%s%s", name, r->node, r->uid,
             own != NULL ? own : "?", r->tasks, r->unconfined ? ", unconfined" : "",
             r->cpu_bind[0] != '\0' ? ", bound by its user: " : "", r->cpu_bind,
             r->held_valid ? ", coming back" : "");
    free(own);
}

void agent_register(struct session *session, const struct wire_view *view)
{
    struct ctld *ctld = session->ctld;
    uint64_t now = clock_monotonic_ms();
    struct msg_register r;
    struct member *member;
    bool wanted;

    if (msg_register_read(view, &r) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "the registration cannot be read");
        return;
    }
    member = admitted(session, &r) ? member_for(session, &r) : NULL;
    if (member == NULL) {
        msg_register_free(&r);
        return;
    }
    wanted = find_topology(ctld, member->node, r.topology_digest, now);
    if (fill(ctld, member, &r, now) < 0 || begin_place(ctld, member, &r) < 0) {
        control_leave(ctld, member, 0);
        session_refuse(session, MSG_REFUSED_BUSY, BUSY_RETRY_MS, "no memory for another member");
        msg_register_free(&r);
        return;
    }
    member->state = MEMBER_SETTLING;
    member->session = session;
    session->deadline_ms = now + session_patience_ms(ctld);
    session_set_agent(session, member);
    ctld->registrations++;
    log_registration(member, &r);
    recorder_registered(ctld, member);
    control_registered(ctld, member);
    if (welcome(session, &r, wanted) < 0)
        session_end(session);
    msg_register_free(&r);
}

/* ---- the other messages -------------------------------------------------------------------- */

static void take_topology(struct session *session, const struct wire_view *view)
{
    struct ctld *ctld = session->ctld;
    struct msg_topology t;

    if (!session->topology_wanted || msg_topology_read(view, &t) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "a topology that was not asked for");
        return;
    }
    session->topology_wanted = false;
    if (!topostore_put(ctld->store, t.digest, t.xml, t.xml_length))
        log_warning("node %s: its topology is not used: too many are being read",
                    session->member->node->name);
}

static void take_ack(struct session *session, const struct wire_view *view)
{
    struct member *member = session->member;
    struct msg_ack ack;

    if (msg_ack_read(view, &ack) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "an acknowledgement cannot be read");
        return;
    }
    if (ack.seq != member->place.seq)
        return; /* a later one is under way */
    member->loader_tasks = ack.tasks;
    if (ack.status != MSG_ACK_APPLIED)
        log_warning("job %u on %s: %u of %u loader tasks could not be bound", member->job->id,
                    member->node->name, ack.failed, ack.tasks);
    member->changed_ms = clock_monotonic_ms();
    control_ack(session->ctld, member, ack.seq);
}

static void renew(struct session *session)
{
    struct ctld *ctld = session->ctld;
    struct member *member = session->member;
    struct msg_renew renewal = {.lease_ms = ctld->conf->lease_ms};

    /* At the end the user wants to hear what was found out, not that loaders have ended since. */
    bool says = verdict_kind(&member->verdict) != VERDICT_UNKNOWN;

    if (member->verdict_news && (says || !member->verdict_told)) {
        demand_words(member, renewal.verdict, sizeof(renewal.verdict));
        member->verdict_told = says;
    }
    member->verdict_news = false;

    if (msg_renew_write(&ctld->writer, &renewal) == 0)
        session_send(session, &ctld->writer);
}

/* Does this report ask for a new decision? */
static void consider(struct ctld *ctld, struct member *member, bool first_loaders, uint64_t now)
{
    const struct conf *conf = ctld->conf;
    bool loaders = member_has_loaders(member, now, conf);
    double fraction = conf->min_gain > NOTICE_FRACTION ? conf->min_gain : NOTICE_FRACTION;

    if (ctld->control.settling)
        return;
    if (first_loaders || decide_state(member, conf, now) != member->state)
        control_touch(ctld, member->node);
    else if (member->state == MEMBER_MANAGED && demand_changed(member, loaders, fraction))
        control_touch_later(ctld, member->node);
}

/* So that our next life knows what we know. */
static void refresh_state(struct ctld *ctld, struct member *member, uint64_t now)
{
    uint64_t age_ms = now - member->state_sent_ms;

    if (age_ms > STATE_REFRESH_MS ||
        (age_ms > STATE_STALE_MS && demand_state_stale(member, NOTICE_FRACTION)))
        control_refresh(ctld, member);
}

static void take_report(struct session *session, const struct wire_view *view)
{
    struct ctld *ctld = session->ctld;
    struct member *member = session->member;
    uint64_t now = clock_monotonic_ms();
    struct msg_report r;
    bool first_loaders, clocked;

    if (msg_report_read(view, &r) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "a report cannot be read");
        return;
    }
    ctld->reports++;
    first_loaders = r.tasks > 0 && !member_has_loaders(member, now, ctld->conf);
    if (r.tasks > 0)
        member->loaders_seen_ms = now;
    if (first_loaders)
        member->loaders_new_ms = now;
    member->report_ms = now;
    member->loader_tasks = r.tasks;
    member->workers = r.workers;
    member->drift = r.drift;
    member->failed_binds = r.failed;
    member->gpu_busy = (float)demand_busy(&r, &clocked);
    member->quota = r.cpu_limit > 0 ? (float)r.cpu_limit : NAN;
    demand_observe(member, &r, now);
    if (demand_judge(member, &r))
        member->verdict_news = true;
    if (member->reports++ % VERDICT_RETOLD == 0 &&
        verdict_kind(&member->verdict) != VERDICT_UNKNOWN)
        member->verdict_news = true; /* its figures have changed */
    recorder_report(ctld, member, &r);
    renew(session);
    if (session->state != SESSION_AGENT)
        return;
    consider(ctld, member, first_loaders, now);
    refresh_state(ctld, member, now);
}

static void take_goodbye(struct session *session, const struct wire_view *view)
{
    struct msg_goodbye g;

    if (msg_goodbye_read(view, &g) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "a goodbye cannot be read");
        return;
    }
    session->goodbye = true;
    recorder_gone(session->ctld, session->member, &g);
    session_close(session);
}

void agent_frame(struct session *session, const struct wire_view *view)
{
    switch (view->type) {
    case MSG_ACK:
        take_ack(session, view);
        break;
    case MSG_REPORT:
        take_report(session, view);
        break;
    case MSG_TOPOLOGY:
        take_topology(session, view);
        break;
    case MSG_GOODBYE:
        take_goodbye(session, view);
        break;
    default:
        session_refuse(session, MSG_REFUSED_INVALID, 0, "message of type %u out of place",
                       view->type);
    }
}

void agent_gone(struct session *session, struct member *member)
{
    struct ctld *ctld = session->ctld;
    char name[64];

    member_name(member, name, sizeof(name));
    if (session->goodbye) {
        ctld->releases++;
        demand_teach(member, ctld->known, &ctld->warned);
        log_info("%s on %s released", name, member->node->name);
    } else {
        ctld->losses++;
        recorder_gone(ctld, member, NULL);
        log_warning("%s on %s: connection lost; its cores leave the pool", name,
                    member->node->name);
    }
    control_leave(ctld, member, session->goodbye ? 0 : session->sent_ms + ctld->conf->lease_ms);
}

/* The latest learned state goes along, so that the other one knows what we know. */
void agent_send_all_away(struct ctld *ctld, const char *where)
{
    struct session_list *agents = &ctld->server->agents;
    struct session *session;
    size_t n = 0;

    TAILQ_FOREACH(session, agents, link)
    control_refresh(ctld, session->member);
    while ((session = TAILQ_FIRST(agents)) != NULL) {
        struct member *member = session->member;

        session->member = NULL; /* it has not ended: the other controller has it next */
        control_drop(ctld, member);
        session_refuse(session, MSG_REFUSED_STANDBY, AWAY_RETRY_MS, "%s is the controller now",
                       where);
        n++;
    }
    log_info("%zu agents are sent to %s", n, where);
}
