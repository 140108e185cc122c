/*
 * Messages between agent, controller, tool and client library, packed into frames.
 *
 * What a field must be like is said once, in the valid_*() functions; writers refuse to send and
 * readers to accept a message that is not.
 */
#include "msg.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers on the wire: never reused for another meaning. */
enum msg_tag {
    TAG_NONCE = 1,
    TAG_CREDENTIAL_WANTED = 2,
    TAG_SERVER = 3,
    TAG_CREDENTIAL = 4,
    TAG_AGENT = 5,
    TAG_NODE = 6,
    TAG_HOST = 7,
    TAG_JOB = 8,
    TAG_STEP = 9,
    TAG_HET_JOB = 10,
    TAG_RESTART = 11,
    TAG_UID = 12,
    TAG_STEP_NODES = 13,
    TAG_TASKS = 14,
    TAG_OWN_CPUS = 15,
    TAG_HELD_CPUS = 16, /* there only if what is held is known */
    TAG_HELD_IS_OWN = 17,
    TAG_HELD_SEQ = 18,
    TAG_GPU = 19, /* a list */
    TAG_HINTS = 20,
    TAG_DIGEST = 21,
    TAG_AGE_MS = 22,
    TAG_STATE = 23,
    TAG_UNCONFINED = 24,
    TAG_INSTANCE = 25,
    TAG_LEASE_MS = 26,
    TAG_REPORT_MS = 27,
    TAG_SCAN_MS = 28,
    TAG_TOPOLOGY_WANTED = 29,
    TAG_XML = 30,
    TAG_SEQ = 31,
    TAG_OWN = 32,
    TAG_CPUS = 33,
    TAG_WORKERS = 34,
    TAG_REASON = 35,
    TAG_STATUS = 36,
    TAG_FAILED = 37,
    TAG_INTERVAL_MS = 38,
    TAG_RUNNABLE = 39,
    TAG_IO_WAIT = 40,
    TAG_LOADER_CPU_S = 41,
    TAG_MAIN_CPU_S = 42,
    TAG_QUEUE_S = 43,
    TAG_READ_BYTES = 44,
    TAG_GPU_BUSY = 45,
    TAG_SAMPLES = 46,
    TAG_WAIT_S = 47,
    TAG_BUSY_S = 48,
    TAG_DRIFT = 49,
    TAG_CODE = 50,
    TAG_RETRY_MS = 51,
    TAG_TEXT = 52,
    TAG_WHAT = 53,
    TAG_QUERY_JOB = 54,
    TAG_JSON = 55,
    TAG_TID = 56,
    TAG_ON = 57,
    TAG_MANAGED = 58,
    TAG_LOAN = 59,  /* a list */
    TAG_LOANS = 60, /* how long it is; without it: empty */
    TAG_MAIN_THREAD_S = 70,
    TAG_CPU_LIMIT = 71,
    TAG_ORPHANS = 72,
    TAG_LEFT_ALONE = 73,
    TAG_VERDICT = 74,
    TAG_CPU_BIND = 75,
    TAG_KEEP_CPUS = 76, /* there only if it is not what goes without saying */
    TAG_STANDBY = 77,
    TAG_PROOF = 78,
    TAG_COUNT
};

/* The kind of a tag's value; a known tag of another kind makes the frame contradictory. */
static enum wire_kind kind_of(uint16_t tag)
{
    switch (tag) {
    case TAG_NONCE:
    case TAG_CREDENTIAL:
    case TAG_STATE:
    case TAG_XML:
    case TAG_JSON:
    case TAG_LOAN:
    case TAG_PROOF:
        return WIRE_BYTES;
    case TAG_SERVER:
    case TAG_AGENT:
    case TAG_NODE:
    case TAG_HOST:
    case TAG_OWN_CPUS:
    case TAG_HELD_CPUS:
    case TAG_GPU:
    case TAG_HINTS:
    case TAG_DIGEST:
    case TAG_CPUS:
    case TAG_KEEP_CPUS:
    case TAG_REASON:
    case TAG_TEXT:
    case TAG_WHAT:
    case TAG_QUERY_JOB:
    case TAG_VERDICT:
    case TAG_CPU_BIND:
        return WIRE_STR;
    case TAG_LOADER_CPU_S:
    case TAG_MAIN_CPU_S:
    case TAG_QUEUE_S:
    case TAG_GPU_BUSY:
    case TAG_SAMPLES:
    case TAG_WAIT_S:
    case TAG_BUSY_S:
    case TAG_MAIN_THREAD_S:
    case TAG_CPU_LIMIT:
        return WIRE_F64;
    case TAG_TID:
        return WIRE_I64;
    default:
        return WIRE_U64;
    }
}

static bool is_list(uint16_t tag)
{
    return tag == TAG_GPU || tag == TAG_LOAN;
}

/* ---- what makes a value valid ---- */

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            return false;
    return true;
}

static bool is_digest(const char *text)
{
    return strspn(text, "0123456789abcdef") == strlen(text);
}

static bool is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

static bool is_amount_or_unknown(double value)
{
    return isnan(value) || is_amount(value);
}

static bool is_interval(uint32_t ms)
{
    return ms >= 1 && ms <= MSG_INTERVAL_MAX_MS;
}

static bool valid_challenge(const struct msg_challenge *m)
{
    return is_printable(m->server);
}

static bool valid_register(const struct msg_register *m)
{
    if (m->ngpus > MSG_GPUS_MAX || m->state_length > MSG_STATE_MAX)
        return false;
    for (unsigned i = 0; i < m->ngpus; i++)
        if (!m->gpus[i][0] || !is_printable(m->gpus[i]))
            return false;
    return is_printable(m->agent) && msg_is_node_name(m->node) && is_printable(m->host) && m->job &&
           is_digest(m->topology_digest) && is_printable(m->cpu_bind);
}

static bool valid_welcome(const struct msg_welcome *m)
{
    return is_printable(m->server) && is_interval(m->lease_ms) && is_interval(m->report_ms) &&
           is_interval(m->scan_ms);
}

static bool valid_topology(const struct msg_topology *m)
{
    return m->digest[0] && is_digest(m->digest) && m->xml_length &&
           !memchr(m->xml, '\0', m->xml_length);
}

/* Each a part of the assignment, and of none before it. */
static bool valid_loans(const struct msg_assign *m)
{
    if (m->nloans > MSG_LOANS_MAX)
        return false;
    for (unsigned i = 0; i < m->nloans; i++) {
        const struct msg_loan *loan = &m->loans[i];
        if (loan->job == 0 || cpus_is_empty(&loan->cpus) || !cpus_is_subset(&loan->cpus, &m->cpus))
            return false;
        for (unsigned k = 0; k < i; k++)
            if (cpus_intersects(&m->loans[k].cpus, &loan->cpus))
                return false;
    }
    return true;
}

static bool valid_assign(const struct msg_assign *m)
{
    return is_interval(m->lease_ms) && m->state_length <= MSG_STATE_MAX && valid_loans(m);
}

static bool valid_ack(const struct msg_ack *m)
{
    return m->status <= MSG_ACK_FAILED;
}

static bool valid_report(const struct msg_report *m)
{
    return m->interval_ms && is_amount(m->loader_cpu_s) && is_amount(m->main_cpu_s) &&
           is_amount_or_unknown(m->queue_s) && is_amount_or_unknown(m->gpu_busy) &&
           !(m->gpu_busy > 1) && is_amount_or_unknown(m->samples) &&
           is_amount_or_unknown(m->wait_s) && is_amount_or_unknown(m->busy_s) &&
           is_amount_or_unknown(m->main_thread_s) && is_amount_or_unknown(m->cpu_limit);
}

static bool valid_goodbye(const struct msg_goodbye *m)
{
    return is_amount(m->loader_cpu_s) && is_amount_or_unknown(m->samples) &&
           is_amount_or_unknown(m->wait_s) && is_amount_or_unknown(m->busy_s);
}

static bool valid_refuse(const struct msg_refuse *m)
{
    return m->code >= MSG_REFUSED_VERSION && m->code <= MSG_REFUSED_STANDBY;
}

static bool valid_query(const struct msg_query *m)
{
    return m->what[0] && is_printable(m->what) && is_printable(m->job) && is_printable(m->node);
}

static bool valid_client_loader(const struct msg_client_loader *m)
{
    return m->tid > 0 && m->tid <= INT32_MAX;
}

static bool valid_client_progress(const struct msg_client_progress *m)
{
    return is_amount(m->samples) && is_amount(m->wait_s) && is_amount(m->busy_s);
}

static bool valid_credential(const char *credential, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (credential[i] <= 0x20 || credential[i] > 0x7e)
            return false;
    return length > 0;
}

/* ---- writing ---- */

static void put_cpus(struct wire_writer *w, uint16_t tag, const struct cpus *set)
{
    char buf[512]; /* enough for nearly all; the rest takes memory for a moment */
    if ((size_t)cpus_format(set, buf, sizeof(buf)) < sizeof(buf)) {
        wire_put_str(w, tag, buf);
        return;
    }
    char *text = cpus_to_string(set);
    if (!text)
        wire_fail(w, ENOMEM);
    else
        wire_put_str(w, tag, text);
    free(text);
}

/* NAN says "unknown", and so does a missing field. */
static void put_if_known(struct wire_writer *w, uint16_t tag, double value)
{
    if (!isnan(value))
        wire_put_f64(w, tag, value);
}

/* Text for people: made to pass the reader rather than refused. */
static void put_text(struct wire_writer *w, uint16_t tag, const char text[MSG_TEXT_MAX])
{
    char clean[MSG_TEXT_MAX];
    size_t length = strnlen(text, MSG_TEXT_MAX - 1);
    for (size_t i = 0; i < length; i++)
        clean[i] = ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) ? '?' : text[i];
    clean[length] = '\0';
    wire_put_str(w, tag, clean);
}

static void begin(struct wire_writer *w, enum msg_type type, size_t limit, bool valid)
{
    wire_begin(w, (uint8_t)type, limit);
    if (!valid)
        wire_fail(w, EINVAL);
}

int msg_challenge_write(struct wire_writer *w, const struct msg_challenge *m)
{
    begin(w, MSG_CHALLENGE, WIRE_SMALL_FRAME, valid_challenge(m));
    wire_put_bytes(w, TAG_NONCE, m->nonce, sizeof(m->nonce));
    wire_put_u64(w, TAG_CREDENTIAL_WANTED, m->credential_wanted);
    if (m->standby)
        wire_put_u64(w, TAG_STANDBY, true);
    wire_put_str(w, TAG_SERVER, m->server);
    return wire_end(w);
}

int msg_credential_write(struct wire_writer *w, const char *credential)
{
    size_t length = strlen(credential);
    begin(w, MSG_CREDENTIAL, WIRE_SMALL_FRAME, valid_credential(credential, length));
    wire_put_bytes(w, TAG_CREDENTIAL, credential, length);
    return wire_end(w);
}

static void put_held(struct wire_writer *w, const struct msg_register *m)
{
    if (!m->held_valid)
        return;
    put_cpus(w, TAG_HELD_CPUS, &m->held);
    wire_put_u64(w, TAG_HELD_IS_OWN, m->held_is_own);
    wire_put_u64(w, TAG_HELD_SEQ, m->held_seq);
}

int msg_register_write(struct wire_writer *w, const struct msg_register *m)
{
    bool valid = valid_register(m);
    begin(w, MSG_REGISTER, WIRE_SMALL_FRAME, valid);
    if (!valid)
        return wire_end(w);
    wire_put_bytes(w, TAG_NONCE, m->nonce, sizeof(m->nonce));
    wire_put_str(w, TAG_AGENT, m->agent);
    wire_put_str(w, TAG_NODE, m->node);
    wire_put_str(w, TAG_HOST, m->host);
    wire_put_u64(w, TAG_JOB, m->job);
    wire_put_u64(w, TAG_STEP, m->step);
    wire_put_u64(w, TAG_HET_JOB, m->het_job);
    wire_put_u64(w, TAG_RESTART, m->restart);
    wire_put_u64(w, TAG_UID, m->uid);
    wire_put_u64(w, TAG_STEP_NODES, m->step_nodes);
    wire_put_u64(w, TAG_TASKS, m->tasks);
    put_cpus(w, TAG_OWN_CPUS, &m->own);
    put_held(w, m);
    for (unsigned i = 0; i < m->ngpus; i++)
        wire_put_str(w, TAG_GPU, m->gpus[i]);
    char hints[HINTS_TEXT_MAX];
    (void)hints_format(&m->hints, hints, sizeof(hints)); /* its longest text fits */
    wire_put_str(w, TAG_HINTS, hints);
    wire_put_str(w, TAG_DIGEST, m->topology_digest);
    wire_put_u64(w, TAG_AGE_MS, m->age_ms);
    wire_put_bytes(w, TAG_STATE, m->state, m->state_length);
    if (m->cpu_bind[0] != '\0')
        wire_put_str(w, TAG_CPU_BIND, m->cpu_bind);
    if (m->proof_wanted)
        wire_put_bytes(w, TAG_PROOF, m->proof, sizeof(m->proof));
    wire_put_u64(w, TAG_UNCONFINED, m->unconfined);
    return wire_end(w);
}

int msg_welcome_write(struct wire_writer *w, const struct msg_welcome *m)
{
    begin(w, MSG_WELCOME, WIRE_SMALL_FRAME, valid_welcome(m));
    wire_put_str(w, TAG_SERVER, m->server);
    wire_put_u64(w, TAG_INSTANCE, m->instance);
    wire_put_u64(w, TAG_LEASE_MS, m->lease_ms);
    wire_put_u64(w, TAG_REPORT_MS, m->report_ms);
    wire_put_u64(w, TAG_SCAN_MS, m->scan_ms);
    if (m->proven)
        wire_put_bytes(w, TAG_PROOF, m->proof, sizeof(m->proof));
    wire_put_u64(w, TAG_TOPOLOGY_WANTED, m->topology_wanted);
    return wire_end(w);
}

int msg_topology_write(struct wire_writer *w, const struct msg_topology *m)
{
    begin(w, MSG_TOPOLOGY, WIRE_LARGE_FRAME, valid_topology(m));
    wire_put_str(w, TAG_DIGEST, m->digest);
    wire_put_bytes(w, TAG_XML, m->xml, m->xml_length);
    return wire_end(w);
}

#define LOAN_HEAD 8u /* job and step, four bytes each, low ones first; then the list of CPUs */

static void put_loan(struct wire_writer *w, const struct msg_loan *loan)
{
    char *list = cpus_to_string(&loan->cpus);
    size_t length = list ? strlen(list) : 0;
    uint8_t *bytes = list ? malloc(LOAN_HEAD + length) : NULL;
    if (!bytes) {
        wire_fail(w, ENOMEM);
        free(list);
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(loan->job >> (8 * i));
        bytes[4 + i] = (uint8_t)(loan->step >> (8 * i));
    }
    memcpy(bytes + LOAN_HEAD, list, length);
    wire_put_bytes(w, TAG_LOAN, bytes, LOAN_HEAD + length);
    free(bytes);
    free(list);
}

int msg_assign_write(struct wire_writer *w, const struct msg_assign *m)
{
    bool valid = valid_assign(m);
    begin(w, MSG_ASSIGN, WIRE_SMALL_FRAME, valid);
    if (!valid)
        return wire_end(w);
    wire_put_u64(w, TAG_SEQ, m->seq);
    wire_put_u64(w, TAG_OWN, m->own);
    wire_put_u64(w, TAG_LOANS, m->nloans);
    if (m->keep_valid)
        put_cpus(w, TAG_KEEP_CPUS, &m->keep);
    put_cpus(w, TAG_CPUS, &m->cpus);
    wire_put_u64(w, TAG_WORKERS, m->workers);
    wire_put_u64(w, TAG_LEASE_MS, m->lease_ms);
    put_text(w, TAG_REASON, m->reason);
    wire_put_bytes(w, TAG_STATE, m->state, m->state_length);
    for (unsigned i = 0; i < m->nloans; i++)
        put_loan(w, &m->loans[i]);
    return wire_end(w);
}

int msg_ack_write(struct wire_writer *w, const struct msg_ack *m)
{
    begin(w, MSG_ACK, WIRE_SMALL_FRAME, valid_ack(m));
    wire_put_u64(w, TAG_SEQ, m->seq);
    wire_put_u64(w, TAG_STATUS, m->status);
    wire_put_u64(w, TAG_TASKS, m->tasks);
    wire_put_u64(w, TAG_FAILED, m->failed);
    return wire_end(w);
}

int msg_report_write(struct wire_writer *w, const struct msg_report *m)
{
    begin(w, MSG_REPORT, WIRE_SMALL_FRAME, valid_report(m));
    wire_put_u64(w, TAG_INTERVAL_MS, m->interval_ms);
    wire_put_u64(w, TAG_TASKS, m->tasks);
    wire_put_u64(w, TAG_WORKERS, m->workers);
    wire_put_u64(w, TAG_RUNNABLE, m->runnable);
    wire_put_u64(w, TAG_IO_WAIT, m->io_wait);
    wire_put_f64(w, TAG_LOADER_CPU_S, m->loader_cpu_s);
    wire_put_f64(w, TAG_MAIN_CPU_S, m->main_cpu_s);
    put_if_known(w, TAG_QUEUE_S, m->queue_s);
    wire_put_u64(w, TAG_READ_BYTES, m->read_bytes);
    put_if_known(w, TAG_GPU_BUSY, m->gpu_busy);
    put_if_known(w, TAG_SAMPLES, m->samples);
    put_if_known(w, TAG_WAIT_S, m->wait_s);
    put_if_known(w, TAG_BUSY_S, m->busy_s);
    wire_put_u64(w, TAG_DRIFT, m->drift);
    wire_put_u64(w, TAG_FAILED, m->failed);
    put_if_known(w, TAG_MAIN_THREAD_S, m->main_thread_s);
    put_if_known(w, TAG_CPU_LIMIT, m->cpu_limit);
    wire_put_u64(w, TAG_ORPHANS, m->orphans);
    wire_put_u64(w, TAG_LEFT_ALONE, m->left_alone);
    wire_put_u64(w, TAG_HELD_SEQ, m->held_seq);
    wire_put_u64(w, TAG_HELD_IS_OWN, m->held_is_own); /* last: so that a cut frame lacks it */
    return wire_end(w);
}

int msg_renew_write(struct wire_writer *w, const struct msg_renew *m)
{
    begin(w, MSG_RENEW, WIRE_SMALL_FRAME, is_interval(m->lease_ms));
    if (m->verdict[0] != '\0')
        put_text(w, TAG_VERDICT, m->verdict);
    wire_put_u64(w, TAG_LEASE_MS, m->lease_ms);
    return wire_end(w);
}

int msg_goodbye_write(struct wire_writer *w, const struct msg_goodbye *m)
{
    begin(w, MSG_GOODBYE, WIRE_SMALL_FRAME, valid_goodbye(m));
    wire_put_u64(w, TAG_AGE_MS, m->age_ms);
    wire_put_f64(w, TAG_LOADER_CPU_S, m->loader_cpu_s);
    put_if_known(w, TAG_SAMPLES, m->samples);
    put_if_known(w, TAG_WAIT_S, m->wait_s);
    put_if_known(w, TAG_BUSY_S, m->busy_s);
    wire_put_u64(w, TAG_DRIFT, m->drift);
    wire_put_u64(w, TAG_FAILED, m->failed);
    return wire_end(w);
}

int msg_refuse_write(struct wire_writer *w, const struct msg_refuse *m)
{
    begin(w, MSG_REFUSE, WIRE_SMALL_FRAME, valid_refuse(m));
    wire_put_u64(w, TAG_CODE, m->code);
    wire_put_u64(w, TAG_RETRY_MS, m->retry_ms);
    put_text(w, TAG_TEXT, m->text);
    return wire_end(w);
}

int msg_query_write(struct wire_writer *w, const struct msg_query *m)
{
    begin(w, MSG_QUERY, WIRE_SMALL_FRAME, valid_query(m));
    wire_put_bytes(w, TAG_NONCE, m->nonce, sizeof(m->nonce));
    wire_put_str(w, TAG_WHAT, m->what);
    wire_put_str(w, TAG_QUERY_JOB, m->job);
    wire_put_str(w, TAG_NODE, m->node);
    return wire_end(w);
}

int msg_answer_write(struct wire_writer *w, const char *json)
{
    begin(w, MSG_ANSWER, WIRE_ANSWER_FRAME, true);
    wire_put_bytes(w, TAG_JSON, json, strlen(json));
    return wire_end(w);
}

int msg_client_loader_write(struct wire_writer *w, const struct msg_client_loader *m)
{
    begin(w, MSG_CLIENT_LOADER, WIRE_SMALL_FRAME, valid_client_loader(m));
    wire_put_i64(w, TAG_TID, m->tid);
    wire_put_u64(w, TAG_ON, m->on);
    return wire_end(w);
}

int msg_client_progress_write(struct wire_writer *w, const struct msg_client_progress *m)
{
    begin(w, MSG_CLIENT_PROGRESS, WIRE_SMALL_FRAME, valid_client_progress(m));
    wire_put_f64(w, TAG_SAMPLES, m->samples);
    wire_put_f64(w, TAG_WAIT_S, m->wait_s);
    wire_put_f64(w, TAG_BUSY_S, m->busy_s);
    return wire_end(w);
}

int msg_client_change_write(struct wire_writer *w, const struct msg_client_change *m)
{
    begin(w, MSG_CLIENT_CHANGE, WIRE_SMALL_FRAME, true);
    wire_put_u64(w, TAG_WORKERS, m->workers);
    wire_put_u64(w, TAG_MANAGED, m->managed);
    put_cpus(w, TAG_CPUS, &m->cpus);
    return wire_end(w);
}

/* ---- reading ---- */

/* A frame being read: its known fields by tag (the first, of a list), and whether all is well. */
struct reading {
    const struct wire_view *view;
    struct wire_field fields[TAG_COUNT]; /* kind 0: absent */
    int error;                           /* errno value of the first failure */
};

static void fail(struct reading *r, int error)
{
    if (!r->error)
        r->error = error;
}

/* Sort the fields by tag; a known one that comes twice or in another kind is a contradiction. */
static void open_message(struct reading *r, const struct wire_view *view, enum msg_type type)
{
    memset(r, 0, sizeof(*r));
    r->view = view;
    if (view->type != type)
        fail(r, EBADMSG);
    struct wire_field field;
    for (size_t cursor = 0; wire_next(view, &cursor, &field);) {
        if (field.tag == 0 || field.tag >= TAG_COUNT)
            continue; /* of a newer version */
        bool seen = r->fields[field.tag].kind != 0;
        if (field.kind != kind_of(field.tag) || (seen && !is_list(field.tag)))
            fail(r, EBADMSG);
        if (!seen)
            r->fields[field.tag] = field;
    }
}

static int finish(const struct reading *r)
{
    if (!r->error)
        return 0;
    errno = r->error;
    return -1;
}

static bool is_there(const struct reading *r, enum msg_tag tag)
{
    return r->fields[tag].kind != 0;
}

static uint64_t take_u64(struct reading *r, enum msg_tag tag, uint64_t max)
{
    uint64_t value;
    if (!wire_field_u64(&r->fields[tag], &value) || value > max) {
        fail(r, EBADMSG);
        return 0;
    }
    return value;
}

static uint32_t take_u32(struct reading *r, enum msg_tag tag)
{
    return (uint32_t)take_u64(r, tag, UINT32_MAX);
}

static bool take_bool(struct reading *r, enum msg_tag tag)
{
    return take_u64(r, tag, 1) == 1;
}

static int64_t take_i64(struct reading *r, enum msg_tag tag)
{
    int64_t value;
    if (!wire_field_i64(&r->fields[tag], &value)) {
        fail(r, EBADMSG);
        return 0;
    }
    return value;
}

static double take_f64(struct reading *r, enum msg_tag tag)
{
    double value;
    if (!wire_field_f64(&r->fields[tag], &value)) {
        fail(r, EBADMSG);
        return 0;
    }
    return value;
}

static double take_if_known(struct reading *r, enum msg_tag tag)
{
    return is_there(r, tag) ? take_f64(r, tag) : (double)NAN;
}

static void take_str(struct reading *r, enum msg_tag tag, char *buf, size_t size)
{
    if (!wire_field_str(&r->fields[tag], buf, size))
        fail(r, EBADMSG);
}

static void take_bytes(struct reading *r, enum msg_tag tag, const char **bytes, size_t *length)
{
    const struct wire_field *field = &r->fields[tag];
    if (!is_there(r, tag))
        fail(r, EBADMSG);
    *bytes = (const char *)field->value;
    *length = field->length;
}

static void take_nonce(struct reading *r, uint8_t nonce[MSG_NONCE])
{
    const struct wire_field *field = &r->fields[TAG_NONCE];
    if (field->length != MSG_NONCE)
        fail(r, EBADMSG);
    else
        memcpy(nonce, field->value, MSG_NONCE);
}

/* Whether it is there. */
static bool take_proof(struct reading *r, uint8_t proof[MSG_NONCE])
{
    const struct wire_field *field = &r->fields[TAG_PROOF];
    if (!is_there(r, TAG_PROOF))
        return false;
    if (field->length != MSG_NONCE)
        fail(r, EBADMSG);
    else
        memcpy(proof, field->value, MSG_NONCE);
    return true;
}

static size_t take_state(struct reading *r, uint8_t state[MSG_STATE_MAX])
{
    const struct wire_field *field = &r->fields[TAG_STATE];
    if (!is_there(r, TAG_STATE) || field->length > MSG_STATE_MAX) {
        fail(r, EBADMSG);
        return 0;
    }
    memcpy(state, field->value, field->length);
    return field->length;
}

/*
 * Blanks and strides are for files and people. On the wire a list is as cpus_format() writes it, so
 * that no short text stands for a long one.
 */
static bool is_plain_list(const struct wire_field *field)
{
    for (size_t i = 0; i < field->length; i++)
        if (!isdigit(field->value[i]) && field->value[i] != '-' && field->value[i] != ',')
            return false;
    return true;
}

static void take_cpus(struct reading *r, enum msg_tag tag, struct cpus *set)
{
    const struct wire_field *field = &r->fields[tag];
    if (r->error)
        return;
    if (!is_there(r, tag) || !is_plain_list(field))
        fail(r, EBADMSG);
    else if (cpus_parse_bytes(set, (const char *)field->value, field->length) < 0)
        fail(r, errno == ENOMEM ? ENOMEM : EBADMSG);
}

static void check(struct reading *r, bool valid)
{
    if (!valid)
        fail(r, EBADMSG);
}

int msg_challenge_read(const struct wire_view *v, struct msg_challenge *m)
{
    struct reading r;
    open_message(&r, v, MSG_CHALLENGE);
    memset(m, 0, sizeof(*m));
    take_nonce(&r, m->nonce);
    m->credential_wanted = take_bool(&r, TAG_CREDENTIAL_WANTED);
    m->standby = is_there(&r, TAG_STANDBY) && take_bool(&r, TAG_STANDBY);
    take_str(&r, TAG_SERVER, m->server, sizeof(m->server));
    check(&r, valid_challenge(m));
    return finish(&r);
}

int msg_credential_read(const struct wire_view *v, const char **credential, size_t *length)
{
    struct reading r;
    open_message(&r, v, MSG_CREDENTIAL);
    take_bytes(&r, TAG_CREDENTIAL, credential, length);
    check(&r, valid_credential(*credential, *length));
    return finish(&r);
}

static void take_held(struct reading *r, struct msg_register *m)
{
    m->held_valid = is_there(r, TAG_HELD_CPUS);
    if (!m->held_valid)
        return;
    take_cpus(r, TAG_HELD_CPUS, &m->held);
    m->held_is_own = take_bool(r, TAG_HELD_IS_OWN);
    m->held_seq = take_u64(r, TAG_HELD_SEQ, UINT64_MAX);
}

static void take_gpus(struct reading *r, struct msg_register *m)
{
    struct wire_field field;
    for (size_t cursor = 0; !r->error && wire_next(r->view, &cursor, &field);) {
        if (field.tag != TAG_GPU)
            continue;
        if (m->ngpus == MSG_GPUS_MAX || !wire_field_str(&field, m->gpus[m->ngpus], MSG_GPU_MAX))
            fail(r, EBADMSG);
        else
            m->ngpus++;
    }
}

static void take_hints(struct reading *r, struct hints *hints)
{
    char text[HINTS_TEXT_MAX], error[1];
    take_str(r, TAG_HINTS, text, sizeof(text));
    if (!r->error && hints_parse(text, hints, error, sizeof(error)) < 0)
        fail(r, EBADMSG);
}

int msg_register_read(const struct wire_view *v, struct msg_register *m)
{
    struct reading r;
    open_message(&r, v, MSG_REGISTER);
    memset(m, 0, sizeof(*m));
    take_nonce(&r, m->nonce);
    take_str(&r, TAG_AGENT, m->agent, sizeof(m->agent));
    take_str(&r, TAG_NODE, m->node, sizeof(m->node));
    take_str(&r, TAG_HOST, m->host, sizeof(m->host));
    m->job = take_u32(&r, TAG_JOB);
    m->step = take_u32(&r, TAG_STEP);
    m->het_job = take_u32(&r, TAG_HET_JOB);
    m->restart = take_u32(&r, TAG_RESTART);
    m->uid = take_u32(&r, TAG_UID);
    m->step_nodes = take_u32(&r, TAG_STEP_NODES);
    m->tasks = take_u32(&r, TAG_TASKS);
    take_gpus(&r, m);
    take_hints(&r, &m->hints);
    take_str(&r, TAG_DIGEST, m->topology_digest, sizeof(m->topology_digest));
    m->age_ms = take_u64(&r, TAG_AGE_MS, UINT64_MAX);
    m->state_length = take_state(&r, m->state);
    m->unconfined = take_bool(&r, TAG_UNCONFINED);
    if (is_there(&r, TAG_CPU_BIND))
        take_str(&r, TAG_CPU_BIND, m->cpu_bind, sizeof(m->cpu_bind));
    m->proof_wanted = take_proof(&r, m->proof);
    take_cpus(&r, TAG_OWN_CPUS, &m->own);
    take_held(&r, m);
    check(&r, valid_register(m));
    if (r.error)
        msg_register_free(m);
    return finish(&r);
}

int msg_welcome_read(const struct wire_view *v, struct msg_welcome *m)
{
    struct reading r;
    open_message(&r, v, MSG_WELCOME);
    memset(m, 0, sizeof(*m));
    take_str(&r, TAG_SERVER, m->server, sizeof(m->server));
    m->instance = take_u64(&r, TAG_INSTANCE, UINT64_MAX);
    m->lease_ms = take_u32(&r, TAG_LEASE_MS);
    m->report_ms = take_u32(&r, TAG_REPORT_MS);
    m->scan_ms = take_u32(&r, TAG_SCAN_MS);
    m->topology_wanted = take_bool(&r, TAG_TOPOLOGY_WANTED);
    m->proven = take_proof(&r, m->proof);
    check(&r, valid_welcome(m));
    return finish(&r);
}

int msg_topology_read(const struct wire_view *v, struct msg_topology *m)
{
    struct reading r;
    open_message(&r, v, MSG_TOPOLOGY);
    memset(m, 0, sizeof(*m));
    take_str(&r, TAG_DIGEST, m->digest, sizeof(m->digest));
    take_bytes(&r, TAG_XML, &m->xml, &m->xml_length);
    check(&r, valid_topology(m));
    return finish(&r);
}

static void take_loan(struct reading *r, const struct wire_field *field, struct msg_loan *loan)
{
    struct wire_field list = *field;
    if (field->length < LOAN_HEAD) {
        fail(r, EBADMSG);
        return;
    }
    for (unsigned i = 0; i < 4; i++) {
        loan->job |= (uint32_t)field->value[i] << (8 * i);
        loan->step |= (uint32_t)field->value[4 + i] << (8 * i);
    }
    list.value += LOAN_HEAD;
    list.length -= LOAN_HEAD;
    if (!is_plain_list(&list))
        fail(r, EBADMSG);
    else if (cpus_parse_bytes(&loan->cpus, (const char *)list.value, list.length) < 0)
        fail(r, errno == ENOMEM ? ENOMEM : EBADMSG);
}

static void take_loans(struct reading *r, struct msg_assign *m)
{
    struct wire_field field;
    for (size_t cursor = 0; !r->error && wire_next(r->view, &cursor, &field);) {
        if (field.tag != TAG_LOAN)
            continue;
        if (m->nloans == MSG_LOANS_MAX)
            fail(r, EBADMSG);
        else
            take_loan(r, &field, &m->loans[m->nloans++]);
    }
    uint64_t said = is_there(r, TAG_LOANS) ? take_u64(r, TAG_LOANS, MSG_LOANS_MAX) : 0;
    if (said != m->nloans)
        fail(r, EBADMSG);
}

int msg_assign_read(const struct wire_view *v, struct msg_assign *m)
{
    struct reading r;
    open_message(&r, v, MSG_ASSIGN);
    memset(m, 0, sizeof(*m));
    m->seq = take_u64(&r, TAG_SEQ, UINT64_MAX);
    m->own = take_bool(&r, TAG_OWN);
    m->workers = take_u32(&r, TAG_WORKERS);
    m->lease_ms = take_u32(&r, TAG_LEASE_MS);
    take_str(&r, TAG_REASON, m->reason, sizeof(m->reason));
    m->state_length = take_state(&r, m->state);
    take_cpus(&r, TAG_CPUS, &m->cpus);
    m->keep_valid = is_there(&r, TAG_KEEP_CPUS);
    if (m->keep_valid)
        take_cpus(&r, TAG_KEEP_CPUS, &m->keep);
    take_loans(&r, m);
    check(&r, !r.error && valid_assign(m));
    if (r.error)
        msg_assign_free(m);
    return finish(&r);
}

int msg_ack_read(const struct wire_view *v, struct msg_ack *m)
{
    struct reading r;
    open_message(&r, v, MSG_ACK);
    memset(m, 0, sizeof(*m));
    m->seq = take_u64(&r, TAG_SEQ, UINT64_MAX);
    m->status = take_u32(&r, TAG_STATUS);
    m->tasks = take_u32(&r, TAG_TASKS);
    m->failed = take_u32(&r, TAG_FAILED);
    check(&r, valid_ack(m));
    return finish(&r);
}

int msg_report_read(const struct wire_view *v, struct msg_report *m)
{
    struct reading r;
    open_message(&r, v, MSG_REPORT);
    memset(m, 0, sizeof(*m));
    m->interval_ms = take_u64(&r, TAG_INTERVAL_MS, UINT64_MAX);
    m->tasks = take_u32(&r, TAG_TASKS);
    m->workers = take_u32(&r, TAG_WORKERS);
    m->runnable = take_u32(&r, TAG_RUNNABLE);
    m->io_wait = take_u32(&r, TAG_IO_WAIT);
    m->loader_cpu_s = take_f64(&r, TAG_LOADER_CPU_S);
    m->main_cpu_s = take_f64(&r, TAG_MAIN_CPU_S);
    m->queue_s = take_if_known(&r, TAG_QUEUE_S);
    m->read_bytes = take_u64(&r, TAG_READ_BYTES, UINT64_MAX);
    m->gpu_busy = take_if_known(&r, TAG_GPU_BUSY);
    m->samples = take_if_known(&r, TAG_SAMPLES);
    m->wait_s = take_if_known(&r, TAG_WAIT_S);
    m->busy_s = take_if_known(&r, TAG_BUSY_S);
    m->drift = take_u32(&r, TAG_DRIFT);
    m->failed = take_u32(&r, TAG_FAILED);
    m->held_seq = take_u64(&r, TAG_HELD_SEQ, UINT64_MAX);
    m->held_is_own = take_bool(&r, TAG_HELD_IS_OWN);
    m->main_thread_s = take_if_known(&r, TAG_MAIN_THREAD_S);
    m->cpu_limit = take_if_known(&r, TAG_CPU_LIMIT);
    m->orphans = is_there(&r, TAG_ORPHANS) ? take_u32(&r, TAG_ORPHANS) : 0;
    m->left_alone = is_there(&r, TAG_LEFT_ALONE) ? take_u32(&r, TAG_LEFT_ALONE) : 0;
    check(&r, valid_report(m));
    return finish(&r);
}

int msg_renew_read(const struct wire_view *v, struct msg_renew *m)
{
    struct reading r;
    open_message(&r, v, MSG_RENEW);
    memset(m, 0, sizeof(*m));
    m->lease_ms = take_u32(&r, TAG_LEASE_MS);
    if (is_there(&r, TAG_VERDICT))
        take_str(&r, TAG_VERDICT, m->verdict, sizeof(m->verdict));
    check(&r, is_interval(m->lease_ms));
    return finish(&r);
}

int msg_goodbye_read(const struct wire_view *v, struct msg_goodbye *m)
{
    struct reading r;
    open_message(&r, v, MSG_GOODBYE);
    memset(m, 0, sizeof(*m));
    m->age_ms = take_u64(&r, TAG_AGE_MS, UINT64_MAX);
    m->loader_cpu_s = take_f64(&r, TAG_LOADER_CPU_S);
    m->samples = take_if_known(&r, TAG_SAMPLES);
    m->wait_s = take_if_known(&r, TAG_WAIT_S);
    m->busy_s = take_if_known(&r, TAG_BUSY_S);
    m->drift = take_u32(&r, TAG_DRIFT);
    m->failed = take_u32(&r, TAG_FAILED);
    check(&r, valid_goodbye(m));
    return finish(&r);
}

int msg_refuse_read(const struct wire_view *v, struct msg_refuse *m)
{
    struct reading r;
    open_message(&r, v, MSG_REFUSE);
    memset(m, 0, sizeof(*m));
    m->code = take_u32(&r, TAG_CODE);
    m->retry_ms = take_u32(&r, TAG_RETRY_MS);
    take_str(&r, TAG_TEXT, m->text, sizeof(m->text));
    check(&r, valid_refuse(m));
    return finish(&r);
}

int msg_query_read(const struct wire_view *v, struct msg_query *m)
{
    struct reading r;
    open_message(&r, v, MSG_QUERY);
    memset(m, 0, sizeof(*m));
    take_nonce(&r, m->nonce);
    take_str(&r, TAG_WHAT, m->what, sizeof(m->what));
    take_str(&r, TAG_QUERY_JOB, m->job, sizeof(m->job));
    take_str(&r, TAG_NODE, m->node, sizeof(m->node));
    check(&r, valid_query(m));
    return finish(&r);
}

int msg_answer_read(const struct wire_view *v, const char **json, size_t *length)
{
    struct reading r;
    open_message(&r, v, MSG_ANSWER);
    take_bytes(&r, TAG_JSON, json, length);
    check(&r, *length == 0 || !memchr(*json, '\0', *length));
    return finish(&r);
}

int msg_client_loader_read(const struct wire_view *v, struct msg_client_loader *m)
{
    struct reading r;
    open_message(&r, v, MSG_CLIENT_LOADER);
    memset(m, 0, sizeof(*m));
    m->tid = take_i64(&r, TAG_TID);
    m->on = take_bool(&r, TAG_ON);
    check(&r, valid_client_loader(m));
    return finish(&r);
}

int msg_client_progress_read(const struct wire_view *v, struct msg_client_progress *m)
{
    struct reading r;
    open_message(&r, v, MSG_CLIENT_PROGRESS);
    memset(m, 0, sizeof(*m));
    m->samples = take_f64(&r, TAG_SAMPLES);
    m->wait_s = take_f64(&r, TAG_WAIT_S);
    m->busy_s = take_f64(&r, TAG_BUSY_S);
    check(&r, valid_client_progress(m));
    return finish(&r);
}

int msg_client_change_read(const struct wire_view *v, struct msg_client_change *m)
{
    struct reading r;
    open_message(&r, v, MSG_CLIENT_CHANGE);
    memset(m, 0, sizeof(*m));
    m->workers = take_u32(&r, TAG_WORKERS);
    m->managed = take_bool(&r, TAG_MANAGED);
    take_cpus(&r, TAG_CPUS, &m->cpus);
    if (r.error)
        msg_client_change_free(m);
    return finish(&r);
}

/* ---- the rest ---- */

void msg_register_free(struct msg_register *m)
{
    cpus_free(&m->own);
    cpus_free(&m->held);
}

void msg_assign_free(struct msg_assign *m)
{
    cpus_free(&m->cpus);
    cpus_free(&m->keep);
    for (unsigned i = 0; i < MSG_LOANS_MAX; i++)
        cpus_free(&m->loans[i].cpus);
}

void msg_client_change_free(struct msg_client_change *m)
{
    cpus_free(&m->cpus);
}

bool msg_is_node_name(const char *text)
{
    if (*text == '.')
        return false;
    size_t length = 0;
    for (; text[length]; length++) {
        char c = text[length];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-')
            return false;
    }
    return length > 0 && length < MSG_NAME_MAX;
}

int msg_step_name(uint32_t job, uint32_t step, char *buf, size_t size)
{
    switch (step) {
    case MSG_STEP_BATCH:
        return snprintf(buf, size, "%u.batch", job);
    case MSG_STEP_INTERACTIVE:
        return snprintf(buf, size, "%u.interactive", job);
    case MSG_STEP_EXTERN:
        return snprintf(buf, size, "%u.extern", job);
    default:
        return snprintf(buf, size, "%u.%u", job, step);
    }
}
