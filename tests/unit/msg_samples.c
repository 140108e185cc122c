/* Valid messages of every type from a seed, and one reader for all of them. */
#include "msg_samples.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum msg_type sample_types[SAMPLE_TYPES] = {
    MSG_CHALLENGE,     MSG_CREDENTIAL, MSG_REGISTER, MSG_WELCOME,       MSG_TOPOLOGY,
    MSG_ASSIGN,        MSG_ACK,        MSG_REPORT,   MSG_RENEW,         MSG_GOODBYE,
    MSG_REFUSE,        MSG_QUERY,      MSG_ANSWER,   MSG_CLIENT_LOADER, MSG_CLIENT_PROGRESS,
    MSG_CLIENT_CHANGE,
};

static uint32_t any_u32(struct rng *rng)
{
    return rng_chance(rng, 10) ? UINT32_MAX : (uint32_t)rng_next(rng) >> rng_below(rng, 32);
}

static uint64_t any_u64(struct rng *rng)
{
    return rng_chance(rng, 10) ? UINT64_MAX : rng_next(rng) >> rng_below(rng, 64);
}

static double any_amount(struct rng *rng)
{
    return (double)rng_below(rng, 1000000) / 64;
}

static double any_amount_or_unknown(struct rng *rng)
{
    return rng_chance(rng, 30) ? (double)NAN : any_amount(rng);
}

static uint32_t any_interval(struct rng *rng)
{
    return 1 + rng_below(rng, MSG_INTERVAL_MAX_MS);
}

static bool any_bool(struct rng *rng)
{
    return rng_chance(rng, 50);
}

static void any_bytes(struct rng *rng, uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)rng_next(rng);
}

/* 1 to size-1 letters of the set. */
static void any_text(struct rng *rng, char *text, size_t size, const char *letters)
{
    size_t length = 1 + rng_below(rng, rng_chance(rng, 10) ? (unsigned)size - 1 : 12);
    for (size_t i = 0; i < length; i++)
        text[i] = letters[rng_below(rng, (unsigned)strlen(letters))];
    text[length] = '\0';
}

static void any_cpus(struct rng *rng, struct cpus *set)
{
    unsigned limit = rng_chance(rng, 10) ? CPUS_MAX : 256;
    for (unsigned n = rng_below(rng, 12); n; n--)
        for (unsigned c = rng_below(rng, limit), k = 1 + rng_below(rng, 6); k && c < limit; k--)
            if (cpus_set(set, c++) < 0)
                abort();
}

static size_t any_state(struct rng *rng, uint8_t state[MSG_STATE_MAX])
{
    size_t length = rng_below(rng, rng_chance(rng, 20) ? MSG_STATE_MAX + 1 : 20);
    any_bytes(rng, state, length);
    return length;
}

#define NAME_LETTERS      "nodegpu-0123456789._"
#define PRINTABLE_LETTERS "abcXYZ 0123456789.:-_/()#\"\\"
#define HEX_LETTERS       "0123456789abcdef"

void sample_register(struct rng *rng, struct msg_register *m)
{
    memset(m, 0, sizeof(*m));
    any_bytes(rng, m->nonce, sizeof(m->nonce));
    any_text(rng, m->agent, sizeof(m->agent), PRINTABLE_LETTERS);
    m->node[0] = 'n';
    any_text(rng, m->node + 1, sizeof(m->node) - 1, NAME_LETTERS);
    any_text(rng, m->host, sizeof(m->host), PRINTABLE_LETTERS);
    m->job = 1 + any_u32(rng) / 2;
    m->step = any_u32(rng);
    m->het_job = any_u32(rng);
    m->restart = any_u32(rng);
    m->uid = any_u32(rng);
    m->step_nodes = any_u32(rng);
    m->tasks = any_u32(rng);
    any_cpus(rng, &m->own);
    m->held_valid = any_bool(rng);
    if (m->held_valid) {
        any_cpus(rng, &m->held);
        m->held_is_own = any_bool(rng);
        m->held_seq = any_u64(rng);
    }
    m->ngpus = rng_below(rng, rng_chance(rng, 10) ? MSG_GPUS_MAX + 1 : 4);
    for (unsigned i = 0; i < m->ngpus; i++)
        any_text(rng, m->gpus[i], MSG_GPU_MAX, "0123456789abcdef:.-GPU");
    m->hints.on = true;
    m->hints.report = any_bool(rng);
    m->hints.workers_min = rng_below(rng, HINTS_WORKERS_MAX + 1);
    m->hints.batch = rng_below(rng, 1000);
    m->hints.flops = (double)rng_below(rng, 1000000);
    if (any_bool(rng))
        any_text(rng, m->hints.model, sizeof(m->hints.model), NAME_LETTERS);
    if (m->hints.model[0] == '.') /* no name begins so */
        m->hints.model[0] = 'm';
    if (any_bool(rng))
        any_text(rng, m->topology_digest, sizeof(m->topology_digest), HEX_LETTERS);
    m->age_ms = any_u64(rng);
    m->state_length = any_state(rng, m->state);
    m->unconfined = any_bool(rng);
    m->proof_wanted = any_bool(rng);
    for (unsigned i = 0; m->proof_wanted && i < sizeof(m->proof); i++)
        m->proof[i] = (uint8_t)any_u32(rng);
    if (any_bool(rng))
        any_text(rng, m->cpu_bind, sizeof(m->cpu_bind), "abcdefghijklmnopqrstuvwxyz_");
}

/* Some of the CPUs, each from one of a few lenders. */
static void any_loans(struct rng *rng, struct msg_assign *m)
{
    m->nloans = rng_below(rng, 4);
    for (unsigned i = 0; i < m->nloans; i++) {
        m->loans[i].job = 1 + any_u32(rng) / 2;
        m->loans[i].step = any_u32(rng);
    }
    for (long c = cpus_next(&m->cpus, 0); c >= 0; c = cpus_next(&m->cpus, (unsigned long)c + 1)) {
        unsigned to = rng_below(rng, m->nloans + 1);
        if (to < m->nloans)
            (void)cpus_set(&m->loans[to].cpus, (unsigned)c);
    }
    unsigned kept = 0;
    for (unsigned i = 0; i < m->nloans; i++) {
        struct msg_loan *loan = &m->loans[i];
        if (cpus_is_empty(&loan->cpus))
            continue;
        m->loans[kept].job = loan->job;
        m->loans[kept].step = loan->step;
        if (kept != i)
            cpus_move(&m->loans[kept].cpus, &loan->cpus);
        kept++;
    }
    m->nloans = kept;
}

void sample_assign(struct rng *rng, struct msg_assign *m)
{
    memset(m, 0, sizeof(*m));
    m->seq = any_u64(rng);
    m->own = any_bool(rng);
    any_cpus(rng, &m->cpus);
    m->workers = any_u32(rng);
    m->lease_ms = any_interval(rng);
    any_text(rng, m->reason, sizeof(m->reason), PRINTABLE_LETTERS "\xc3\xbc");
    m->state_length = any_state(rng, m->state);
    any_loans(rng, m);
    m->keep_valid = any_bool(rng);
    if (m->keep_valid)
        any_cpus(rng, &m->keep);
}

void sample_report(struct rng *rng, struct msg_report *m)
{
    memset(m, 0, sizeof(*m));
    m->interval_ms = 1 + any_u64(rng) / 2;
    m->tasks = any_u32(rng);
    m->workers = any_u32(rng);
    m->runnable = any_u32(rng);
    m->io_wait = any_u32(rng);
    m->loader_cpu_s = any_amount(rng);
    m->main_cpu_s = any_amount(rng);
    m->queue_s = any_amount_or_unknown(rng);
    m->read_bytes = any_u64(rng);
    m->gpu_busy = any_bool(rng) ? (double)rng_below(rng, 1001) / 1000 : (double)NAN;
    m->samples = any_amount_or_unknown(rng);
    m->wait_s = any_amount_or_unknown(rng);
    m->busy_s = any_amount_or_unknown(rng);
    m->drift = any_u32(rng);
    m->failed = any_u32(rng);
    m->held_seq = any_u64(rng);
    m->held_is_own = any_bool(rng);
    m->main_thread_s = any_amount_or_unknown(rng);
    m->cpu_limit = any_amount_or_unknown(rng);
    m->orphans = any_u32(rng);
    m->left_alone = any_u32(rng);
}

static int write_register(struct rng *rng, struct wire_writer *w)
{
    struct msg_register m;
    sample_register(rng, &m);
    int rc = msg_register_write(w, &m);
    msg_register_free(&m);
    return rc;
}

static int write_assign(struct rng *rng, struct wire_writer *w)
{
    struct msg_assign m;
    sample_assign(rng, &m);
    int rc = msg_assign_write(w, &m);
    msg_assign_free(&m);
    return rc;
}

static int write_query(struct rng *rng, struct wire_writer *w)
{
    struct msg_query m = {0};
    any_bytes(rng, m.nonce, sizeof(m.nonce));
    any_text(rng, m.what, sizeof(m.what), PRINTABLE_LETTERS);
    if (any_bool(rng))
        any_text(rng, m.job, sizeof(m.job), "0123456789.batch");
    if (any_bool(rng))
        any_text(rng, m.node, sizeof(m.node), NAME_LETTERS);
    return msg_query_write(w, &m);
}

static int write_topology(struct rng *rng, struct wire_writer *w)
{
    char xml[MSG_TEXT_MAX];
    struct msg_topology m = {.xml = xml};
    any_text(rng, m.digest, sizeof(m.digest), HEX_LETTERS);
    any_text(rng, xml, sizeof(xml), "<topology/>\n\t\xff ");
    m.xml_length = strlen(xml);
    return msg_topology_write(w, &m);
}

static int write_text(enum msg_type type, struct rng *rng, struct wire_writer *w)
{
    char text[MSG_TEXT_MAX];
    if (type == MSG_ANSWER) {
        any_text(rng, text, sizeof(text), "{\"a\": [1,\n2]}");
        return msg_answer_write(w, text);
    }
    any_text(rng, text, sizeof(text), "MUNGE:AwQDAAB+/=");
    return msg_credential_write(w, text);
}

static int write_client_change(struct rng *rng, struct wire_writer *w)
{
    struct msg_client_change m = {.workers = any_u32(rng), .managed = any_bool(rng)};
    any_cpus(rng, &m.cpus);
    int rc = msg_client_change_write(w, &m);
    msg_client_change_free(&m);
    return rc;
}

/* The messages that are a handful of numbers. */
static int write_small(enum msg_type type, struct rng *rng, struct wire_writer *w)
{
    switch (type) {
    case MSG_CHALLENGE: {
        struct msg_challenge m = {.credential_wanted = any_bool(rng)};
        any_bytes(rng, m.nonce, sizeof(m.nonce));
        any_text(rng, m.server, sizeof(m.server), PRINTABLE_LETTERS);
        return msg_challenge_write(w, &m);
    }
    case MSG_WELCOME: {
        struct msg_welcome m = {.instance = any_u64(rng),
                                .lease_ms = any_interval(rng),
                                .report_ms = any_interval(rng),
                                .scan_ms = any_interval(rng),
                                .topology_wanted = any_bool(rng),
                                .proven = any_bool(rng)};
        if (m.proven)
            any_bytes(rng, m.proof, sizeof(m.proof));
        any_text(rng, m.server, sizeof(m.server), PRINTABLE_LETTERS);
        return msg_welcome_write(w, &m);
    }
    case MSG_ACK: {
        struct msg_ack m = {any_u64(rng), rng_below(rng, MSG_ACK_FAILED + 1), any_u32(rng),
                            any_u32(rng)};
        return msg_ack_write(w, &m);
    }
    case MSG_RENEW: {
        struct msg_renew m = {.lease_ms = any_interval(rng)};
        any_text(rng, m.verdict, sizeof(m.verdict), PRINTABLE_LETTERS);
        return msg_renew_write(w, &m);
    }
    case MSG_GOODBYE: {
        struct msg_goodbye m = {any_u64(rng),
                                any_amount(rng),
                                any_amount_or_unknown(rng),
                                any_amount_or_unknown(rng),
                                any_amount_or_unknown(rng),
                                any_u32(rng),
                                any_u32(rng)};
        return msg_goodbye_write(w, &m);
    }
    case MSG_REFUSE: {
        struct msg_refuse m = {.code = 1 + rng_below(rng, MSG_REFUSED_STANDBY),
                               .retry_ms = any_u32(rng)};
        any_text(rng, m.text, sizeof(m.text), PRINTABLE_LETTERS);
        return msg_refuse_write(w, &m);
    }
    case MSG_CLIENT_LOADER: {
        struct msg_client_loader m = {1 + rng_below(rng, INT32_MAX), any_bool(rng)};
        return msg_client_loader_write(w, &m);
    }
    case MSG_CLIENT_PROGRESS: {
        struct msg_client_progress m = {any_amount(rng), any_amount(rng), any_amount(rng)};
        return msg_client_progress_write(w, &m);
    }
    default:
        abort();
    }
}

int sample_write(enum msg_type type, struct rng *rng, struct wire_writer *w)
{
    struct msg_report report;
    switch (type) {
    case MSG_REGISTER:
        return write_register(rng, w);
    case MSG_ASSIGN:
        return write_assign(rng, w);
    case MSG_REPORT:
        sample_report(rng, &report);
        return msg_report_write(w, &report);
    case MSG_QUERY:
        return write_query(rng, w);
    case MSG_TOPOLOGY:
        return write_topology(rng, w);
    case MSG_ANSWER:
    case MSG_CREDENTIAL:
        return write_text(type, rng, w);
    case MSG_CLIENT_CHANGE:
        return write_client_change(rng, w);
    default:
        return write_small(type, rng, w);
    }
}

/* ---- reading any type ---- */

static enum reread rewritten(int rc)
{
    return rc == 0 ? REREAD_SAME_RULES : REREAD_UNWRITABLE;
}

/* name: of a message struct that owns no memory. */
#define REREAD_PLAIN(name)                                                                         \
    static enum reread reread_##name(const struct wire_view *view, struct wire_writer *w)          \
    {                                                                                              \
        struct msg_##name m;                                                                       \
        if (msg_##name##_read(view, &m) < 0)                                                       \
            return REREAD_REFUSED;                                                                 \
        return rewritten(msg_##name##_write(w, &m));                                               \
    }

/* And of one that does. */
#define REREAD_OWNING(name)                                                                        \
    static enum reread reread_##name(const struct wire_view *view, struct wire_writer *w)          \
    {                                                                                              \
        struct msg_##name m;                                                                       \
        if (msg_##name##_read(view, &m) < 0)                                                       \
            return REREAD_REFUSED;                                                                 \
        enum reread result = rewritten(msg_##name##_write(w, &m));                                 \
        msg_##name##_free(&m);                                                                     \
        return result;                                                                             \
    }

/* And of a text in the frame. */
#define REREAD_TEXT(name)                                                                          \
    static enum reread reread_##name(const struct wire_view *view, struct wire_writer *w)          \
    {                                                                                              \
        const char *text;                                                                          \
        size_t length;                                                                             \
        if (msg_##name##_read(view, &text, &length) < 0)                                           \
            return REREAD_REFUSED;                                                                 \
        char *copy = strndup(text, length);                                                        \
        if (!copy)                                                                                 \
            abort();                                                                               \
        enum reread result = rewritten(msg_##name##_write(w, copy));                               \
        free(copy);                                                                                \
        return result;                                                                             \
    }

REREAD_PLAIN(challenge)
REREAD_PLAIN(welcome)
REREAD_PLAIN(topology)
REREAD_PLAIN(ack)
REREAD_PLAIN(report)
REREAD_PLAIN(renew)
REREAD_PLAIN(goodbye)
REREAD_PLAIN(refuse)
REREAD_PLAIN(query)
REREAD_PLAIN(client_loader)
REREAD_PLAIN(client_progress)
REREAD_OWNING(register)
REREAD_OWNING(assign)
REREAD_OWNING(client_change)
REREAD_TEXT(credential)
REREAD_TEXT(answer)

enum reread sample_reread(const struct wire_view *view, struct wire_writer *w)
{
    static enum reread (*const readers[])(const struct wire_view *, struct wire_writer *) = {
        [MSG_CHALLENGE] = reread_challenge,
        [MSG_CREDENTIAL] = reread_credential,
        [MSG_REGISTER] = reread_register,
        [MSG_WELCOME] = reread_welcome,
        [MSG_TOPOLOGY] = reread_topology,
        [MSG_ASSIGN] = reread_assign,
        [MSG_ACK] = reread_ack,
        [MSG_REPORT] = reread_report,
        [MSG_RENEW] = reread_renew,
        [MSG_GOODBYE] = reread_goodbye,
        [MSG_REFUSE] = reread_refuse,
        [MSG_QUERY] = reread_query,
        [MSG_ANSWER] = reread_answer,
        [MSG_CLIENT_LOADER] = reread_client_loader,
        [MSG_CLIENT_PROGRESS] = reread_client_progress,
        [MSG_CLIENT_CHANGE] = reread_client_change,
    };
    size_t n = sizeof(readers) / sizeof(readers[0]);
    if (view->type >= n || !readers[view->type]) {
        errno = EBADMSG;
        return REREAD_REFUSED;
    }
    return readers[view->type](view, w);
}
