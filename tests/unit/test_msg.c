/*
 * Messages: every field arrives, and frames that are cut, damaged or contradictory are refused
 * whatever their type. The damage is done on the wire's level, without knowing the tags.
 */
#include "msg.h"
#include "msg_samples.h"
#include "rng.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct wire_writer writer;

static struct wire_view view_of(const struct wire_writer *w)
{
    struct wire_view view;
    assert_int_equal(wire_open(&view, w->data, w->length), 0);
    return view;
}

static bool same_number(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* ---- every field arrives ---- */

static void assert_same_register(const struct msg_register *a, const struct msg_register *b)
{
    assert_memory_equal(a->nonce, b->nonce, MSG_NONCE);
    assert_string_equal(a->agent, b->agent);
    assert_string_equal(a->node, b->node);
    assert_string_equal(a->host, b->host);
    assert_int_equal(a->job, b->job);
    assert_int_equal(a->step, b->step);
    assert_int_equal(a->het_job, b->het_job);
    assert_int_equal(a->restart, b->restart);
    assert_int_equal(a->uid, b->uid);
    assert_int_equal(a->step_nodes, b->step_nodes);
    assert_int_equal(a->tasks, b->tasks);
    assert_true(cpus_equal(&a->own, &b->own));
    assert_true(cpus_equal(&a->held, &b->held));
    assert_int_equal(a->held_valid, b->held_valid);
    assert_int_equal(a->held_is_own, b->held_is_own);
    assert_int_equal(a->held_seq, b->held_seq);
    assert_int_equal(a->ngpus, b->ngpus);
    for (unsigned i = 0; i < a->ngpus; i++)
        assert_string_equal(a->gpus[i], b->gpus[i]);
    assert_int_equal(a->hints.report, b->hints.report);
    assert_int_equal(a->hints.workers_min, b->hints.workers_min);
    assert_int_equal(a->hints.batch, b->hints.batch);
    assert_string_equal(a->hints.model, b->hints.model);
    assert_true(a->hints.flops == b->hints.flops);
    assert_string_equal(a->topology_digest, b->topology_digest);
    assert_int_equal(a->age_ms, b->age_ms);
    assert_int_equal(a->state_length, b->state_length);
    assert_memory_equal(a->state, b->state, a->state_length);
    assert_int_equal(a->unconfined, b->unconfined);
    assert_string_equal(a->cpu_bind, b->cpu_bind);
    assert_int_equal(a->proof_wanted, b->proof_wanted);
    assert_memory_equal(a->proof, b->proof, sizeof(a->proof));
}

static void register_arrives(void **state)
{
    (void)state;
    struct rng rng = {1};
    for (int round = 0; round < 500; round++) {
        struct msg_register sent, got;
        sample_register(&rng, &sent);
        assert_int_equal(msg_register_write(&writer, &sent), 0);
        struct wire_view view = view_of(&writer);
        assert_int_equal(view.type, MSG_REGISTER);
        assert_int_equal(msg_register_read(&view, &got), 0);
        assert_same_register(&sent, &got);
        msg_register_free(&sent);
        msg_register_free(&got);
    }
}

static void assign_arrives(void **state)
{
    (void)state;
    struct rng rng = {2};
    for (int round = 0; round < 500; round++) {
        struct msg_assign sent, got;
        sample_assign(&rng, &sent);
        assert_int_equal(msg_assign_write(&writer, &sent), 0);
        struct wire_view view = view_of(&writer);
        assert_int_equal(msg_assign_read(&view, &got), 0);
        assert_int_equal(got.seq, sent.seq);
        assert_int_equal(got.own, sent.own);
        assert_true(cpus_equal(&got.cpus, &sent.cpus));
        assert_int_equal(got.workers, sent.workers);
        assert_int_equal(got.lease_ms, sent.lease_ms);
        assert_string_equal(got.reason, sent.reason);
        assert_int_equal(got.state_length, sent.state_length);
        assert_memory_equal(got.state, sent.state, sent.state_length);
        assert_int_equal(got.nloans, sent.nloans);
        for (unsigned i = 0; i < sent.nloans; i++) {
            assert_int_equal(got.loans[i].job, sent.loans[i].job);
            assert_int_equal(got.loans[i].step, sent.loans[i].step);
            assert_true(cpus_equal(&got.loans[i].cpus, &sent.loans[i].cpus));
        }
        msg_assign_free(&sent);
        msg_assign_free(&got);
    }
}

static void report_arrives(void **state)
{
    (void)state;
    struct rng rng = {3};
    for (int round = 0; round < 500; round++) {
        struct msg_report sent, got;
        sample_report(&rng, &sent);
        assert_int_equal(msg_report_write(&writer, &sent), 0);
        struct wire_view view = view_of(&writer);
        assert_int_equal(msg_report_read(&view, &got), 0);
        assert_int_equal(got.interval_ms, sent.interval_ms);
        assert_int_equal(got.tasks, sent.tasks);
        assert_int_equal(got.workers, sent.workers);
        assert_int_equal(got.runnable, sent.runnable);
        assert_int_equal(got.io_wait, sent.io_wait);
        assert_true(got.loader_cpu_s == sent.loader_cpu_s && got.main_cpu_s == sent.main_cpu_s);
        assert_true(same_number(got.queue_s, sent.queue_s));
        assert_true(same_number(got.main_thread_s, sent.main_thread_s));
        assert_true(same_number(got.cpu_limit, sent.cpu_limit));
        assert_int_equal(got.orphans, sent.orphans);
        assert_int_equal(got.left_alone, sent.left_alone);
        assert_int_equal(got.read_bytes, sent.read_bytes);
        assert_true(same_number(got.gpu_busy, sent.gpu_busy));
        assert_true(same_number(got.samples, sent.samples));
        assert_true(same_number(got.wait_s, sent.wait_s));
        assert_true(same_number(got.busy_s, sent.busy_s));
        assert_int_equal(got.drift, sent.drift);
        assert_int_equal(got.failed, sent.failed);
        assert_int_equal(got.held_seq, sent.held_seq);
        assert_int_equal(got.held_is_own, sent.held_is_own);
    }
}

static void opening_messages_arrive(void **state)
{
    (void)state;
    struct msg_challenge c = {
        .nonce = "0123456789abcde", .credential_wanted = true, .server = "0.1.0 (x)"};
    struct msg_challenge c2;
    assert_int_equal(msg_challenge_write(&writer, &c), 0);
    struct wire_view view = view_of(&writer);
    assert_int_equal(msg_challenge_read(&view, &c2), 0);
    assert_memory_equal(c2.nonce, c.nonce, MSG_NONCE);
    assert_true(c2.credential_wanted);
    assert_string_equal(c2.server, c.server);

    const char *text;
    size_t length;
    assert_int_equal(msg_credential_write(&writer, "MUNGE:abc+/=:"), 0);
    view = view_of(&writer);
    assert_int_equal(msg_credential_read(&view, &text, &length), 0);
    assert_int_equal(length, 13);
    assert_memory_equal(text, "MUNGE:abc+/=:", 13);

    struct msg_welcome w = {"0.1.0", UINT64_MAX, 5000, 1000, 250, true, "a secret of 15b", true},
                       w2;
    assert_int_equal(msg_welcome_write(&writer, &w), 0);
    view = view_of(&writer);
    assert_int_equal(msg_welcome_read(&view, &w2), 0);
    assert_string_equal(w2.server, "0.1.0");
    assert_int_equal(w2.instance, UINT64_MAX);
    assert_int_equal(w2.lease_ms, 5000);
    assert_int_equal(w2.report_ms, 1000);
    assert_int_equal(w2.scan_ms, 250);
    assert_true(w2.topology_wanted);
    assert_true(w2.proven);
    assert_memory_equal(w2.proof, w.proof, sizeof(w.proof));

    struct msg_topology t = {"00ff", "<topology>\n</topology>", 22}, t2;
    assert_int_equal(msg_topology_write(&writer, &t), 0);
    view = view_of(&writer);
    assert_int_equal(msg_topology_read(&view, &t2), 0);
    assert_string_equal(t2.digest, "00ff");
    assert_int_equal(t2.xml_length, 22);
    assert_memory_equal(t2.xml, t.xml, 22);
}

static void small_messages_arrive(void **state)
{
    (void)state;
    struct wire_view view;
    struct msg_ack a = {7, MSG_ACK_PARTIAL, 64, 3}, a2;
    assert_int_equal(msg_ack_write(&writer, &a), 0);
    view = view_of(&writer);
    assert_int_equal(msg_ack_read(&view, &a2), 0);
    assert_int_equal(a2.seq, 7);
    assert_int_equal(a2.status, MSG_ACK_PARTIAL);
    assert_int_equal(a2.tasks, 64);
    assert_int_equal(a2.failed, 3);

    struct msg_renew r = {MSG_INTERVAL_MAX_MS, "io-bound: it reads"}, r2;
    assert_int_equal(msg_renew_write(&writer, &r), 0);
    view = view_of(&writer);
    assert_int_equal(msg_renew_read(&view, &r2), 0);
    assert_int_equal(r2.lease_ms, MSG_INTERVAL_MAX_MS);
    assert_string_equal(r2.verdict, "io-bound: it reads");
    r.verdict[0] = '\0'; /* as controllers that say none */
    assert_int_equal(msg_renew_write(&writer, &r), 0);
    view = view_of(&writer);
    assert_int_equal(msg_renew_read(&view, &r2), 0);
    assert_string_equal(r2.verdict, "");

    struct msg_goodbye g = {123456, 7.5, (double)NAN, 0.25, 3, 1, 2}, g2;
    assert_int_equal(msg_goodbye_write(&writer, &g), 0);
    view = view_of(&writer);
    assert_int_equal(msg_goodbye_read(&view, &g2), 0);
    assert_int_equal(g2.age_ms, 123456);
    assert_true(g2.loader_cpu_s == 7.5 && isnan(g2.samples) && g2.wait_s == 0.25 && g2.busy_s == 3);
    assert_int_equal(g2.drift, 1);
    assert_int_equal(g2.failed, 2);

    struct msg_refuse f = {MSG_REFUSED_BUSY, 1500, "too many\nagents"}, f2;
    assert_int_equal(msg_refuse_write(&writer, &f), 0);
    view = view_of(&writer);
    assert_int_equal(msg_refuse_read(&view, &f2), 0);
    assert_int_equal(f2.code, MSG_REFUSED_BUSY);
    assert_int_equal(f2.retry_ms, 1500);
    assert_string_equal(f2.text, "too many?agents"); /* made to pass */
}

static void query_and_client_messages_arrive(void **state)
{
    (void)state;
    struct wire_view view;
    struct msg_query q = {
        .nonce = "abcdefghijklmno", .what = "explain", .job = "12.0", .node = "n1"};
    struct msg_query q2;
    assert_int_equal(msg_query_write(&writer, &q), 0);
    view = view_of(&writer);
    assert_int_equal(msg_query_read(&view, &q2), 0);
    assert_memory_equal(q2.nonce, q.nonce, MSG_NONCE);
    assert_string_equal(q2.what, "explain");
    assert_string_equal(q2.job, "12.0");
    assert_string_equal(q2.node, "n1");

    const char *json;
    size_t length;
    assert_int_equal(msg_answer_write(&writer, "{\n}"), 0);
    view = view_of(&writer);
    assert_int_equal(msg_answer_read(&view, &json, &length), 0);
    assert_int_equal(length, 3);
    assert_memory_equal(json, "{\n}", 3);

    struct msg_client_loader l = {INT32_MAX, true}, l2;
    assert_int_equal(msg_client_loader_write(&writer, &l), 0);
    view = view_of(&writer);
    assert_int_equal(msg_client_loader_read(&view, &l2), 0);
    assert_true(l2.tid == INT32_MAX && l2.on);

    struct msg_client_progress p = {1e9, 12.5, 0}, p2;
    assert_int_equal(msg_client_progress_write(&writer, &p), 0);
    view = view_of(&writer);
    assert_int_equal(msg_client_progress_read(&view, &p2), 0);
    assert_true(p2.samples == 1e9 && p2.wait_s == 12.5 && p2.busy_s == 0);

    struct msg_client_change c = {.workers = 6, .managed = true}, c2;
    assert_int_equal(cpus_parse(&c.cpus, "1-3,900"), 0);
    assert_int_equal(msg_client_change_write(&writer, &c), 0);
    view = view_of(&writer);
    assert_int_equal(msg_client_change_read(&view, &c2), 0);
    assert_int_equal(c2.workers, 6);
    assert_true(c2.managed && cpus_equal(&c.cpus, &c2.cpus));
    msg_client_change_free(&c);
    msg_client_change_free(&c2);
}

/* ---- nothing is sent that the other end would refuse ---- */

static void assert_unsendable(int rc)
{
    assert_int_equal(rc, -1);
    assert_int_equal(errno, EINVAL);
}

static void writers_refuse_bad_registrations(void **state)
{
    (void)state;
    static const char *const bad_nodes[] = {"", ".", "..", ".n", "a/b", "a b", "n\n", "n\xc3\xbc"};
    struct rng rng = {4};
    struct msg_register m;
    sample_register(&rng, &m);
    for (size_t i = 0; i < COUNT(bad_nodes); i++) {
        (void)snprintf(m.node, sizeof(m.node), "%s", bad_nodes[i]);
        assert_unsendable(msg_register_write(&writer, &m));
        assert_false(msg_is_node_name(bad_nodes[i]));
    }
    (void)snprintf(m.node, sizeof(m.node), "n1");
    assert_int_equal(msg_register_write(&writer, &m), 0);
    m.job = 0;
    assert_unsendable(msg_register_write(&writer, &m));
    m.job = 1;
    m.ngpus = MSG_GPUS_MAX + 1;
    assert_unsendable(msg_register_write(&writer, &m));
    m.ngpus = 1;
    m.gpus[0][0] = '\0';
    assert_unsendable(msg_register_write(&writer, &m));
    m.ngpus = 0;
    m.state_length = MSG_STATE_MAX + 1;
    assert_unsendable(msg_register_write(&writer, &m));
    m.state_length = 0;
    (void)snprintf(m.topology_digest, sizeof(m.topology_digest), "../ff");
    assert_unsendable(msg_register_write(&writer, &m));
    (void)snprintf(m.topology_digest, sizeof(m.topology_digest), "FF");
    assert_unsendable(msg_register_write(&writer, &m));
    m.topology_digest[0] = '\0';
    (void)snprintf(m.host, sizeof(m.host), "(none)");
    assert_int_equal(msg_register_write(&writer, &m), 0);
    msg_register_free(&m);
}

static void writers_refuse_bad_numbers(void **state)
{
    (void)state;
    static const double bad[] = {-1, (double)INFINITY, -(double)INFINITY, -1e-300};
    struct rng rng = {5};
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct msg_report report;
        double *const amounts[] = {&report.loader_cpu_s, &report.main_cpu_s, &report.queue_s,
                                   &report.gpu_busy,     &report.samples,    &report.wait_s,
                                   &report.busy_s};
        for (size_t k = 0; k < COUNT(amounts); k++) {
            sample_report(&rng, &report);
            *amounts[k] = bad[i];
            assert_unsendable(msg_report_write(&writer, &report));
        }
        struct msg_goodbye goodbye = {.loader_cpu_s = bad[i]};
        assert_unsendable(msg_goodbye_write(&writer, &goodbye));
        struct msg_client_progress progress = {.wait_s = bad[i]};
        assert_unsendable(msg_client_progress_write(&writer, &progress));
    }
    struct msg_report report;
    sample_report(&rng, &report);
    report.loader_cpu_s = (double)NAN; /* always known */
    assert_unsendable(msg_report_write(&writer, &report));
    sample_report(&rng, &report);
    report.gpu_busy = 1.001;
    assert_unsendable(msg_report_write(&writer, &report));
    sample_report(&rng, &report);
    report.interval_ms = 0;
    assert_unsendable(msg_report_write(&writer, &report));
}

static void writers_refuse_the_rest(void **state)
{
    (void)state;
    struct msg_renew renew = {0};
    assert_unsendable(msg_renew_write(&writer, &renew));
    renew.lease_ms = MSG_INTERVAL_MAX_MS + 1;
    assert_unsendable(msg_renew_write(&writer, &renew));
    struct msg_welcome welcome = {.lease_ms = 1, .report_ms = 1, .scan_ms = 1};
    assert_int_equal(msg_welcome_write(&writer, &welcome), 0);
    welcome.scan_ms = 0;
    assert_unsendable(msg_welcome_write(&writer, &welcome));
    struct msg_assign assign = {.lease_ms = 0};
    assert_unsendable(msg_assign_write(&writer, &assign));
    assign.lease_ms = 1;
    assign.state_length = MSG_STATE_MAX + 1;
    assert_unsendable(msg_assign_write(&writer, &assign));
    assign.state_length = 0;
    assign.nloans = 1;
    assert_unsendable(msg_assign_write(&writer, &assign)); /* a loan of nothing, from nobody */
    assert_int_equal(cpus_set(&assign.loans[0].cpus, 3), 0);
    assign.loans[0].job = 7;
    assert_unsendable(msg_assign_write(&writer, &assign)); /* of what is not assigned */
    assert_int_equal(cpus_set(&assign.cpus, 3), 0);
    assert_int_equal(msg_assign_write(&writer, &assign), 0);
    assign.loans[1] = (struct msg_loan){.job = 8};
    assert_int_equal(cpus_set(&assign.loans[1].cpus, 3), 0);
    assign.nloans = 2;
    assert_unsendable(msg_assign_write(&writer, &assign)); /* from two at a time */
    assign.nloans = MSG_LOANS_MAX + 1;
    assert_unsendable(msg_assign_write(&writer, &assign));
    msg_assign_free(&assign);
    struct msg_ack ack = {.status = MSG_ACK_FAILED + 1};
    assert_unsendable(msg_ack_write(&writer, &ack));
    struct msg_refuse refuse = {.code = 0};
    assert_unsendable(msg_refuse_write(&writer, &refuse));
    refuse.code = MSG_REFUSED_STANDBY + 1;
    assert_unsendable(msg_refuse_write(&writer, &refuse));
    struct msg_query query = {.what = ""};
    assert_unsendable(msg_query_write(&writer, &query));
    struct msg_client_loader loader = {.tid = 0};
    assert_unsendable(msg_client_loader_write(&writer, &loader));
    loader.tid = (int64_t)INT32_MAX + 1;
    assert_unsendable(msg_client_loader_write(&writer, &loader));
    struct msg_topology topology = {"", "<x/>", 4};
    assert_unsendable(msg_topology_write(&writer, &topology));
    (void)snprintf(topology.digest, sizeof(topology.digest), "0a");
    topology.xml_length = 0;
    assert_unsendable(msg_topology_write(&writer, &topology));
    topology.xml = "a\0b";
    topology.xml_length = 3;
    assert_unsendable(msg_topology_write(&writer, &topology));
    assert_unsendable(msg_credential_write(&writer, ""));
    assert_unsendable(msg_credential_write(&writer, "MUNGE: x"));
}

static void lists_too_long_for_a_frame_are_told(void **state)
{
    (void)state;
    struct msg_assign assign = {.lease_ms = 1};
    for (unsigned c = 0; c < CPUS_MAX; c += 2)
        assert_int_equal(cpus_set(&assign.cpus, c), 0);
    assert_int_equal(msg_assign_write(&writer, &assign), -1);
    assert_int_equal(errno, EMSGSIZE);
    for (unsigned c = 8192; c < CPUS_MAX; c++)
        cpus_clear(&assign.cpus, c);
    assert_int_equal(msg_assign_write(&writer, &assign), 0); /* every other of 8192 still fits */
    msg_assign_free(&assign);
}

/* ---- damage on the wire ---- */

/* A frame being damaged, in memory of exactly its size. */
struct frame {
    uint8_t *data;
    size_t length;
};

static struct frame frame_new(size_t length)
{
    struct frame f = {malloc(length), length};
    assert_non_null(f.data);
    return f;
}

static void set_length(struct frame *f)
{
    size_t n = f->length - 4;
    for (int i = 0; i < 4; i++)
        f->data[i] = (uint8_t)(n >> (24 - 8 * i));
}

static struct frame sample_frame(enum msg_type type, struct rng *rng)
{
    assert_int_equal(sample_write(type, rng, &writer), 0);
    struct frame f = frame_new(writer.length);
    memcpy(f.data, writer.data, writer.length);
    return f;
}

/* The frame with extra bytes at its end. */
static struct frame with_appended(const struct frame *f, const void *bytes, size_t length)
{
    struct frame longer = frame_new(f->length + length);
    memcpy(longer.data, f->data, f->length);
    memcpy(longer.data + f->length, bytes, length);
    set_length(&longer);
    return longer;
}

/* The frame without its bytes from at on, as many as length. */
static struct frame without(const struct frame *f, size_t at, size_t length)
{
    struct frame shorter = frame_new(f->length - length);
    memcpy(shorter.data, f->data, at);
    memcpy(shorter.data + at, f->data + at + length, f->length - at - length);
    set_length(&shorter);
    return shorter;
}

static enum reread reread(const struct frame *f)
{
    struct wire_view view;
    if (wire_open(&view, f->data, f->length) < 0)
        return REREAD_REFUSED;
    errno = 0;
    enum reread result = sample_reread(&view, &writer);
    if (result == REREAD_REFUSED)
        assert_int_equal(errno, EBADMSG);
    return result;
}

static void free_after(struct frame *f, enum reread expected)
{
    assert_int_equal(reread(f), expected);
    free(f->data);
}

/* Where a field lies in its frame. */
struct place {
    uint16_t tag, kind;
    size_t at, length; /* with its head */
};

static bool next_place(const struct frame *f, size_t *cursor, struct place *place)
{
    struct wire_view view;
    struct wire_field field;
    size_t before = *cursor;
    assert_int_equal(wire_open(&view, f->data, f->length), 0);
    if (!wire_next(&view, cursor, &field))
        return false;
    *place = (struct place){field.tag, field.kind, WIRE_HEAD_BYTES + before, *cursor - before};
    return true;
}

#define ROUNDS 20 /* samples a type; each is damaged at every place */

typedef void damage(enum msg_type type, const struct frame *f);

static void damage_all(damage *how, uint64_t seed)
{
    struct rng rng = {seed};
    for (size_t i = 0; i < SAMPLE_TYPES; i++)
        for (int round = 0; round < ROUNDS; round++) {
            struct frame f = sample_frame(sample_types[i], &rng);
            how(sample_types[i], &f);
            free(f.data);
        }
}

static void same_bytes(enum msg_type type, const struct frame *f)
{
    (void)type;
    assert_int_equal(reread(f), REREAD_SAME_RULES);
    assert_int_equal(writer.length, f->length);
    assert_memory_equal(writer.data, f->data, f->length);
}

static void what_is_read_writes_the_same_bytes(void **state)
{
    (void)state;
    damage_all(same_bytes, 10);
}

static void cut_everywhere(enum msg_type type, const struct frame *f)
{
    (void)type;
    for (size_t length = WIRE_HEAD_BYTES; length < f->length; length++) {
        struct frame cut = without(f, length, f->length - length);
        free_after(&cut, REREAD_REFUSED);
    }
}

static void a_cut_frame_is_refused(void **state)
{
    (void)state;
    damage_all(cut_everywhere, 11);
}

static void flip_every_bit(enum msg_type type, const struct frame *f)
{
    (void)type;
    struct frame copy = frame_new(f->length);
    memcpy(copy.data, f->data, f->length);
    size_t bits = f->length * 8;
    size_t stride = bits > 4000 ? 7 : 1; /* long frames: not each, but all positions in a byte */
    for (size_t bit = 0; bit < bits; bit += stride) {
        copy.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(reread(&copy), REREAD_UNWRITABLE);
        copy.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(reread(&copy), REREAD_SAME_RULES);
    free(copy.data);
}

static void a_flipped_bit_is_refused_or_harmless(void **state)
{
    (void)state;
    damage_all(flip_every_bit, 12);
}

/* GPUs are a list; the tag is learned from a registration with two of them. */
static uint16_t list_tag(void)
{
    struct rng rng = {13};
    struct msg_register m;
    sample_register(&rng, &m);
    m.ngpus = 2;
    (void)snprintf(m.gpus[0], MSG_GPU_MAX, "0");
    (void)snprintf(m.gpus[1], MSG_GPU_MAX, "1");
    assert_int_equal(msg_register_write(&writer, &m), 0);
    msg_register_free(&m);
    struct wire_view view = view_of(&writer);
    struct wire_field field;
    unsigned last = 0;
    for (size_t cursor = 0; wire_next(&view, &cursor, &field); last = field.tag)
        if (field.tag == last)
            return field.tag;
    fail_msg("no tag comes twice");
    return 0;
}

static void double_every_field(enum msg_type type, const struct frame *f)
{
    uint16_t gpus = list_tag();
    struct place p;
    for (size_t cursor = 0; next_place(f, &cursor, &p);) {
        if (type == MSG_REGISTER && p.tag == gpus)
            continue;
        struct frame twice = with_appended(f, f->data + p.at, p.length);
        free_after(&twice, REREAD_REFUSED);
    }
}

static void a_field_twice_is_refused(void **state)
{
    (void)state;
    damage_all(double_every_field, 14);
}

static void change_every_kind(enum msg_type type, const struct frame *f)
{
    (void)type;
    struct place p;
    for (size_t cursor = 0; next_place(f, &cursor, &p);)
        for (uint8_t kind = 0; kind <= WIRE_BYTES + 1; kind++) {
            if (kind == p.kind)
                continue;
            struct frame other = with_appended(f, "", 0);
            other.data[p.at + 3] = kind;
            free_after(&other, REREAD_REFUSED);
        }
}

static void a_field_of_another_kind_is_refused(void **state)
{
    (void)state;
    damage_all(change_every_kind, 15);
}

static void drop_every_field(enum msg_type type, const struct frame *f)
{
    uint16_t gpus = list_tag();
    unsigned accepted = 0;
    struct place p;
    for (size_t cursor = 0; next_place(f, &cursor, &p);) {
        if (type == MSG_REGISTER && p.tag == gpus)
            continue;
        struct frame fewer = without(f, p.at, p.length);
        bool may_be_unknown = p.kind == WIRE_F64 && (type == MSG_REPORT || type == MSG_GOODBYE);
        if (may_be_unknown)
            assert_int_not_equal(reread(&fewer), REREAD_UNWRITABLE);
        else
            accepted += reread(&fewer) != REREAD_REFUSED;
        free(fewer.data);
    }
    /* Without its list of held CPUs a registration is one that holds nothing, without its kind of
     * binding one of tasks that nobody bound, and it and a welcome without a proof are of a Unix
     * socket; an assignment without the number of its loans is an older controller's if there are
     * none, and so is one without the CPUs to keep, and a renewal without a verdict; a report
     * without orphans and tasks left alone is an older agent's. */
    static const unsigned optional[MSG_CLIENT_CHANGE + 1] = {
        [MSG_REGISTER] = 3, [MSG_WELCOME] = 1, [MSG_ASSIGN] = 2, [MSG_REPORT] = 2, [MSG_RENEW] = 1};
    assert_true(type < COUNT(optional) && accepted <= optional[type]);
}

static void a_missing_field_is_refused(void **state)
{
    (void)state;
    damage_all(drop_every_field, 16);
}

static void add_unknown_fields(enum msg_type type, const struct frame *f)
{
    (void)type;
    static const uint8_t unknown[] = {0x7f, 0xff, 0, 99, 0, 0, 0, 3, 1, 2, 3};
    struct frame once = with_appended(f, unknown, sizeof(unknown));
    struct frame twice = with_appended(&once, unknown, sizeof(unknown));
    free_after(&once, REREAD_SAME_RULES);
    free_after(&twice, REREAD_SAME_RULES);
}

static void fields_of_later_versions_are_skipped(void **state)
{
    (void)state;
    damage_all(add_unknown_fields, 17);
}

static void spoil_every_value(enum msg_type type, const struct frame *f)
{
    (void)type;
    static const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -1};
    struct place p;
    for (size_t cursor = 0; next_place(f, &cursor, &p);) {
        if (p.kind == WIRE_F64) {
            for (size_t i = 0; i < COUNT(bad); i++) {
                struct frame spoilt = with_appended(f, "", 0);
                uint64_t bits;
                memcpy(&bits, &bad[i], sizeof(bits));
                for (size_t k = 0; k < 8; k++)
                    spoilt.data[p.at + 8 + k] = (uint8_t)(bits >> (56 - 8 * k));
                free_after(&spoilt, REREAD_REFUSED);
            }
        } else if (p.kind == WIRE_STR && p.length > 8) {
            struct frame spoilt = with_appended(f, "", 0);
            spoilt.data[p.at + p.length - 1] = (uint8_t)(f->length % 32); /* a control character */
            free_after(&spoilt, REREAD_REFUSED);
        }
    }
}

static void bad_numbers_and_texts_are_refused(void **state)
{
    (void)state;
    damage_all(spoil_every_value, 18);
}

/* The frame with the field at p made longer by as many letters as more. */
static struct frame with_longer_field(const struct frame *f, const struct place *p, size_t more)
{
    struct frame longer = frame_new(f->length + more);
    size_t end = p->at + p->length, value = p->length - 8 + more;
    memcpy(longer.data, f->data, end);
    memset(longer.data + end, 'a', more);
    memcpy(longer.data + end + more, f->data + end, f->length - end);
    longer.data[p->at + 6] = (uint8_t)(value >> 8);
    longer.data[p->at + 7] = (uint8_t)value;
    set_length(&longer);
    return longer;
}

static void lengthen_every_field(enum msg_type type, const struct frame *f)
{
    bool unbounded = type == MSG_CREDENTIAL || type == MSG_TOPOLOGY || type == MSG_ANSWER;
    struct place p;
    for (size_t cursor = 0; next_place(f, &cursor, &p);) {
        if (unbounded && p.kind == WIRE_BYTES)
            continue;
        struct frame longer = with_longer_field(f, &p, MSG_STATE_MAX + 1);
        free_after(&longer, REREAD_REFUSED);
    }
}

static void fields_too_long_are_refused(void **state)
{
    (void)state;
    damage_all(lengthen_every_field, 22);
}

/* Numbers of 32 bits and switches on the wire have 64: what does not fit must not be cut off. */
static void overflow_every_number(enum msg_type type, const struct frame *f)
{
    (void)type;
    struct place p;
    for (size_t cursor = 0; next_place(f, &cursor, &p);) {
        if (p.kind != WIRE_U64)
            continue;
        struct frame over = with_appended(f, "", 0);
        over.data[p.at + 8 + 3] = 1; /* adds 2^32 */
        struct frame before = with_appended(&over, "", 0);
        if (reread(&over) == REREAD_SAME_RULES) /* a number of 64 bits: it comes back whole */
            assert_memory_equal(writer.data, before.data, before.length);
        free(over.data);
        free(before.data);
    }
}

static void numbers_are_never_cut_off(void **state)
{
    (void)state;
    damage_all(overflow_every_number, 19);
}

static void readers_want_their_own_type(void **state)
{
    (void)state;
    struct rng rng = {20};
    for (size_t i = 0; i < SAMPLE_TYPES; i++)
        for (unsigned type = 0; type < 256; type++) {
            struct frame f = sample_frame(sample_types[i], &rng);
            f.data[5] = (uint8_t)type;
            if (type == sample_types[i])
                assert_int_equal(reread(&f), REREAD_SAME_RULES);
            else
                assert_int_not_equal(reread(&f), REREAD_UNWRITABLE);
            free(f.data);
        }
    struct msg_renew renew;
    struct msg_assign assign;
    sample_assign(&rng, &assign);
    assert_int_equal(msg_assign_write(&writer, &assign), 0);
    struct wire_view view = view_of(&writer);
    assert_int_equal(msg_renew_read(&view, &renew), -1); /* though it has a lease */
    msg_assign_free(&assign);
}

/* ---- hostile registrations ---- */

static void too_many_gpus_are_refused(void **state)
{
    (void)state;
    struct rng rng = {21};
    struct msg_register m;
    sample_register(&rng, &m);
    m.ngpus = MSG_GPUS_MAX;
    for (unsigned i = 0; i < MSG_GPUS_MAX; i++)
        (void)snprintf(m.gpus[i], MSG_GPU_MAX, "%u", i);
    assert_int_equal(msg_register_write(&writer, &m), 0);
    msg_register_free(&m);
    struct frame f = frame_new(writer.length);
    memcpy(f.data, writer.data, writer.length);
    uint16_t gpus = list_tag();
    struct place p = {0};
    for (size_t cursor = 0; next_place(&f, &cursor, &p) && p.tag != gpus;)
        ;
    assert_int_equal(reread(&f), REREAD_SAME_RULES);
    struct frame more = with_appended(&f, f.data + p.at, p.length);
    free_after(&more, REREAD_REFUSED);
    free(f.data);
}

/* Lists that cpus_parse() reads but that no writer writes. */
static void lists_are_plain(void **state)
{
    (void)state;
    static const char *const lists[] = {"0-7 ", " 0-7", "0-7\n", "0-7:2"};
    for (size_t i = 0; i < COUNT(lists); i++) {
        struct msg_client_change m = {.workers = 1};
        assert_int_equal(cpus_parse(&m.cpus, "100"), 0);
        assert_int_equal(msg_client_change_write(&writer, &m), 0);
        msg_client_change_free(&m);
        struct frame f = frame_new(writer.length);
        memcpy(f.data, writer.data, writer.length);
        struct place p;
        for (size_t cursor = 0; next_place(&f, &cursor, &p) && p.kind != WIRE_STR;)
            ;
        struct frame other = with_longer_field(&f, &p, strlen(lists[i]) - 3);
        assert_int_equal(reread(&other), REREAD_REFUSED); /* "100aa": the damage is as meant */
        memcpy(other.data + p.at + 8, lists[i], strlen(lists[i]));
        free_after(&other, REREAD_REFUSED);
        free(f.data);
    }
}

static void step_names(void **state)
{
    (void)state;
    char text[64];
    assert_int_equal(msg_step_name(12, 0, text, sizeof(text)), 4);
    assert_string_equal(text, "12.0");
    (void)msg_step_name(12, MSG_STEP_BATCH, text, sizeof(text));
    assert_string_equal(text, "12.batch");
    (void)msg_step_name(12, MSG_STEP_INTERACTIVE, text, sizeof(text));
    assert_string_equal(text, "12.interactive");
    (void)msg_step_name(4294967295u, MSG_STEP_EXTERN, text, sizeof(text));
    assert_string_equal(text, "4294967295.extern");
    assert_int_equal(msg_step_name(12, 345, text, 4), 6);
    assert_string_equal(text, "12.");
}

static int release(void **state)
{
    (void)state;
    wire_writer_free(&writer);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(register_arrives),
        cmocka_unit_test(assign_arrives),
        cmocka_unit_test(report_arrives),
        cmocka_unit_test(opening_messages_arrive),
        cmocka_unit_test(small_messages_arrive),
        cmocka_unit_test(query_and_client_messages_arrive),
        cmocka_unit_test(writers_refuse_bad_registrations),
        cmocka_unit_test(writers_refuse_bad_numbers),
        cmocka_unit_test(writers_refuse_the_rest),
        cmocka_unit_test(lists_too_long_for_a_frame_are_told),
        cmocka_unit_test(what_is_read_writes_the_same_bytes),
        cmocka_unit_test(a_cut_frame_is_refused),
        cmocka_unit_test(a_flipped_bit_is_refused_or_harmless),
        cmocka_unit_test(a_field_twice_is_refused),
        cmocka_unit_test(a_field_of_another_kind_is_refused),
        cmocka_unit_test(a_missing_field_is_refused),
        cmocka_unit_test(fields_of_later_versions_are_skipped),
        cmocka_unit_test(bad_numbers_and_texts_are_refused),
        cmocka_unit_test(fields_too_long_are_refused),
        cmocka_unit_test(numbers_are_never_cut_off),
        cmocka_unit_test(readers_want_their_own_type),
        cmocka_unit_test(too_many_gpus_are_refused),
        cmocka_unit_test(lists_are_plain),
        cmocka_unit_test(step_names),
    };
    return cmocka_run_group_tests_name("msg", tests, NULL, release);
}
