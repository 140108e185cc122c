/*
 * Shrink before grow under everything that can happen to messages: they arrive late, in any order
 * between members, or not at all; members come, go and vanish; targets change at any time.
 *
 * The oracle is a model of the node that knows where each member's loaders really are, and it is
 * fed by deliveries alone.
 */
#include "config.h"

#include "reconcile.h"

#include "rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 6
#define CPUS    24u
#define QUEUE   64

struct message {
    bool own;
    struct cpus cpus;
    uint64_t seq;
};

struct peer { /* one member, as it really is */
    bool alive, mute;
    struct recon_member recon;
    struct cpus slurm; /* CPUs that Slurm gave it */
    /* its loaders */
    bool on_own;
    struct cpus on;
    /* under way */
    struct message down[QUEUE];
    size_t ndown;
    uint64_t up[QUEUE];
    size_t nup;
    uint64_t next_seq;
};

struct node_model {
    struct peer peers[MEMBERS];
    struct rng rng;
    bool losses; /* messages may be lost */
    bool steps;  /* steps end and new ones start on their cores, where loaders are at once */
    unsigned deliveries;
};

static void set_list(struct cpus *set, const char *list)
{
    assert_int_equal(cpus_parse(set, list), 0);
}

static void assert_list(const struct cpus *set, const char *list)
{
    char text[256];

    (void)cpus_format(set, text, sizeof(text));
    assert_string_equal(text, list);
}

/* ---- single steps -------------------------------------------------------------------------- */

static void next_of(struct recon_member *const *all, size_t n, size_t i, struct recon_place *next)
{
    struct recon_view view;

    assert_int_equal(recon_view_make(&view, all, n), 0);
    assert_int_equal(recon_next(&view, all[i], next), 0);
    recon_view_free(&view);
}

/* A lends 2-3 to B. */
static void test_a_loan(void **state)
{
    struct recon_member a = {0}, b = {0};
    struct recon_member *all[] = {&a, &b};
    struct recon_place next = {false, CPUS_EMPTY};

    (void)state;
    set_list(&a.loader, "0-3");
    set_list(&b.loader, "4-5");
    assert_int_equal(recon_begin(&a, true, NULL), 0);
    assert_int_equal(recon_begin(&b, true, NULL), 0);
    next_of(all, 2, 0, &next);
    assert_true(next.own);

    a.target.own = b.target.own = false;
    set_list(&a.target.cpus, "0-1");
    set_list(&b.target.cpus, "2-5");
    next_of(all, 2, 1, &next); /* A is still on 2-3 */
    assert_list(&next.cpus, "4-5");
    next_of(all, 2, 0, &next);
    assert_false(next.own);
    assert_list(&next.cpus, "0-1");
    assert_int_equal(recon_sent(&a, &next, 1, 0), 0);
    next_of(all, 2, 1, &next); /* told to leave is not left */
    assert_list(&next.cpus, "4-5");
    assert_false(recon_ack(&a, 7)); /* of something else */
    assert_true(recon_ack(&a, 1));
    assert_false(recon_ack(&a, 1)); /* once is enough */
    next_of(all, 2, 1, &next);
    assert_list(&next.cpus, "2-5");
    assert_int_equal(recon_sent(&b, &next, 1, 0), 0);

    /* A wants its own back: it waits for B, but not if B is overdue. */
    a.target.own = true;
    set_list(&a.target.cpus, "0-3");
    set_list(&b.target.cpus, "4-5");
    next_of(all, 2, 0, &next);
    assert_false(next.own);
    assert_list(&next.cpus, "0-1");
    b.overdue = true;
    next_of(all, 2, 0, &next);
    assert_true(next.own);
    recon_place_free(&next);
    recon_member_free(&a);
    recon_member_free(&b);
}

/* A new step starts on cores that somebody still borrows: it stays off them until they are left. */
static void test_new_owner_waits(void **state)
{
    struct recon_member borrower = {0}, owner = {0};
    struct recon_member *all[] = {&borrower, &owner};
    struct recon_place next = {false, CPUS_EMPTY};
    struct cpus held = CPUS_EMPTY;

    (void)state;
    set_list(&held, "0-5");
    set_list(&borrower.loader, "0-3");
    set_list(&owner.loader, "4-7");
    assert_int_equal(recon_begin(&borrower, false, &held), 0);
    assert_int_equal(recon_begin(&owner, true, NULL), 0);
    borrower.target.own = true;
    set_list(&borrower.target.cpus, "0-3");
    next_of(all, 2, 1, &next);
    assert_false(next.own);
    assert_list(&next.cpus, "6-7");
    next_of(all, 2, 0, &next);
    assert_true(next.own);
    assert_int_equal(recon_sent(&borrower, &next, 1, 0), 0);
    assert_true(recon_ack(&borrower, 1));
    next_of(all, 2, 1, &next);
    assert_true(next.own);
    cpus_free(&held);
    recon_place_free(&next);
    recon_member_free(&borrower);
    recon_member_free(&owner);
}

/* A third member waits even for one that is overdue or gone. */
static void test_overdue_blocks_strangers(void **state)
{
    struct recon_member b = {0}, c = {0};
    struct recon_member *all[] = {&b, &c};
    struct recon_place next = {false, CPUS_EMPTY};
    struct cpus held = CPUS_EMPTY;

    (void)state;
    set_list(&held, "2-5");
    set_list(&c.loader, "8");
    assert_int_equal(recon_begin(&b, false, &held), 0);
    assert_int_equal(recon_begin(&c, true, NULL), 0);
    b.gone = true;
    c.target.own = false;
    set_list(&c.target.cpus, "2-3,8");
    next_of(all, 2, 1, &next);
    assert_list(&next.cpus, "8");
    next_of(&all[1], 1, 0, &next); /* without it */
    assert_list(&next.cpus, "2-3,8");
    cpus_free(&held);
    recon_place_free(&next);
    recon_member_free(&b);
    recon_member_free(&c);
}

/* ---- the model ----------------------------------------------------------------------------- */

/* Live members' loader sets are disjoint: each owns a slice of the CPUs. */
static void give_slice(struct peer *p, unsigned index)
{
    cpus_clear_all(&p->slurm);
    for (unsigned c = index * (CPUS / MEMBERS); c < (index + 1) * (CPUS / MEMBERS); c++)
        assert_int_equal(cpus_set(&p->slurm, c), 0);
    assert_int_equal(cpus_copy(&p->recon.loader, &p->slurm), 0);
}

static void occupied(const struct peer *p, struct cpus *out)
{
    assert_int_equal(cpus_copy(out, p->on_own ? &p->slurm : &p->on), 0);
}

/* The rule: two members on one CPU means that one of them got it from Slurm. */
static void check_rule(const struct node_model *m)
{
    struct cpus a = CPUS_EMPTY, b = CPUS_EMPTY;

    for (unsigned i = 0; i < MEMBERS; i++) {
        for (unsigned k = 0; k < i; k++) {
            if (!m->peers[i].alive || !m->peers[k].alive)
                continue;
            occupied(&m->peers[i], &a);
            occupied(&m->peers[k], &b);
            cpus_and(&a, &b);
            cpus_andnot(&a, &m->peers[i].slurm);
            cpus_andnot(&a, &m->peers[k].slurm);
            assert_true(cpus_is_empty(&a));
        }
    }
    cpus_free(&a);
    cpus_free(&b);
}

/* Nobody is sent to a CPU on which another member still is. */
static void check_gain(const struct node_model *m, const struct peer *p, const struct message *next)
{
    struct cpus before = CPUS_EMPTY, gain = CPUS_EMPTY, other = CPUS_EMPTY;

    occupied(p, &before);
    assert_int_equal(cpus_copy(&gain, next->own ? &p->slurm : &next->cpus), 0);
    cpus_andnot(&gain, &before);
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (&m->peers[i] == p || !m->peers[i].alive)
            continue;
        occupied(&m->peers[i], &other);
        assert_false(cpus_intersects(&gain, &other));
    }
    cpus_free(&before);
    cpus_free(&gain);
    cpus_free(&other);
}

static void send_next(struct peer *p, const struct recon_place *next)
{
    struct message *message;

    if (p->ndown == QUEUE) {
        return;
    }
    message = &p->down[p->ndown++];
    message->own = next->own;
    message->seq = ++p->next_seq;
    assert_int_equal(cpus_copy(&message->cpus, &next->cpus), 0);
    assert_int_equal(recon_sent(&p->recon, next, message->seq, 0), 0);
}

/* What control.c does after anything has changed. */
static void reconcile(struct node_model *m)
{
    struct recon_member *all[MEMBERS];
    struct peer *peers[MEMBERS];
    struct recon_view view;
    struct recon_place next = {false, CPUS_EMPTY};
    size_t n = 0;

    for (unsigned i = 0; i < MEMBERS; i++) {
        if (!m->peers[i].alive)
            continue;
        peers[n] = &m->peers[i];
        all[n++] = &m->peers[i].recon;
    }
    assert_int_equal(recon_view_make(&view, all, n), 0);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(recon_next(&view, all[i], &next), 0);
        if (!all[i]->ever_sent || !recon_place_equal(&next, &all[i]->sent))
            send_next(peers[i], &next);
    }
    recon_view_free(&view);
    recon_place_free(&next);
}

static void start_peer(struct node_model *m, unsigned i)
{
    struct peer *p = &m->peers[i];

    give_slice(p, i);
    p->alive = true;
    p->mute = false;
    p->on_own = true;
    cpus_clear_all(&p->on);
    p->ndown = p->nup = 0;
    assert_int_equal(recon_begin(&p->recon, true, NULL), 0);
}

/* Its step is over: it leaves all cores, its own go out of everybody's target. */
static void end_peer(struct node_model *m, unsigned i)
{
    struct peer *p = &m->peers[i];

    p->alive = false;
    for (unsigned k = 0; k < MEMBERS; k++) {
        struct recon_place *t = &m->peers[k].recon.target;

        if (cpus_intersects(&t->cpus, &p->slurm))
            cpus_andnot(&t->cpus, &p->slurm);
    }
}

static void new_targets(struct node_model *m)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        cpus_clear_all(&m->peers[i].recon.target.cpus);
    for (unsigned c = 0; c < CPUS; c++) {
        unsigned owner = c / (CPUS / MEMBERS), to;

        if (!m->peers[owner].alive)
            continue; /* not in the pool */
        to = rng_chance(&m->rng, 50) ? owner : rng_below(&m->rng, MEMBERS);
        if (m->peers[to].alive)
            assert_int_equal(cpus_set(&m->peers[to].recon.target.cpus, c), 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct recon_member *r = &m->peers[i].recon;

        r->target.own = cpus_equal(&r->target.cpus, &r->loader);
    }
}

static void deliver_down(struct node_model *m, struct peer *p, bool lost)
{
    struct message first;

    if (p->ndown == 0)
        return;
    first = p->down[0];
    memmove(&p->down[0], &p->down[1], --p->ndown * sizeof(p->down[0]));
    p->down[p->ndown].cpus = (struct cpus)CPUS_EMPTY;
    if (!lost) {
        if (!m->losses && !m->steps)
            check_gain(m, p, &first);
        p->on_own = first.own;
        assert_int_equal(cpus_copy(&p->on, &first.cpus), 0);
        if (!p->mute && p->nup < QUEUE)
            p->up[p->nup++] = first.seq;
        m->deliveries++;
    }
    cpus_free(&first.cpus);
}

static void deliver_up(struct peer *p, bool lost)
{
    uint64_t seq;

    if (p->nup == 0)
        return;
    seq = p->up[0];
    memmove(&p->up[0], &p->up[1], --p->nup * sizeof(p->up[0]));
    if (!lost)
        (void)recon_ack(&p->recon, seq);
}

/* Its ACK is overdue. */
static void be_late(struct peer *p)
{
    if (p->recon.in_flight)
        p->recon.overdue = true;
}

/* The connection breaks with all that is under way, and comes back: the member says what it has,
 * and the decision is as it was. */
static void reconnect(struct peer *p)
{
    struct recon_place target = {false, CPUS_EMPTY};

    for (size_t k = 0; k < p->ndown; k++)
        cpus_free(&p->down[k].cpus);
    p->ndown = p->nup = 0;
    assert_int_equal(recon_place_copy(&target, &p->recon.target), 0);
    assert_int_equal(recon_begin(&p->recon, p->on_own, &p->on), 0);
    assert_int_equal(recon_place_copy(&p->recon.target, &target), 0);
    recon_place_free(&target);
}

static void free_model(struct node_model *m)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct peer *p = &m->peers[i];

        recon_member_free(&p->recon);
        cpus_free(&p->slurm);
        cpus_free(&p->on);
        for (size_t k = 0; k < QUEUE; k++)
            cpus_free(&p->down[k].cpus);
    }
}

/* All messages arrive from now on: everybody is where the last targets say. */
static void check_converges(struct node_model *m)
{
    for (int round = 0; round < 400; round++) {
        for (unsigned i = 0; i < MEMBERS; i++) {
            m->peers[i].mute = false;
            deliver_down(m, &m->peers[i], false);
            deliver_up(&m->peers[i], false);
            if (round == 100 && m->peers[i].alive && m->peers[i].recon.in_flight)
                reconnect(&m->peers[i]); /* a message was lost, which ends a connection */
        }
        reconcile(m);
        check_rule(m);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct peer *p = &m->peers[i];

        if (!p->alive)
            continue;
        assert_false(p->recon.in_flight);
        assert_int_equal(p->on_own, p->recon.target.own);
        if (!p->on_own)
            assert_true(cpus_equal(&p->on, &p->recon.target.cpus));
    }
}

static void random_event(struct node_model *m)
{
    unsigned i = rng_below(&m->rng, MEMBERS);
    struct peer *p = &m->peers[i];

    switch (rng_below(&m->rng, 10)) {
    case 0:
        new_targets(m);
        break;
    case 1:
        if (!m->steps)
            break;
        if (p->alive && rng_chance(&m->rng, 40))
            end_peer(m, i);
        else if (!p->alive)
            start_peer(m, i);
        break;
    case 2:
        if (m->losses && p->alive && rng_chance(&m->rng, 70))
            be_late(p);
        else if (m->losses && p->alive)
            reconnect(p);
        break;
    case 3:
        p->mute = m->losses && rng_chance(&m->rng, 20);
        break;
    case 4:
    case 5:
    case 6:
        if (p->alive)
            deliver_down(m, p, m->losses && rng_chance(&m->rng, 10));
        break;
    default:
        if (p->alive)
            deliver_up(p, m->losses && rng_chance(&m->rng, 20));
    }
}

static void run(uint64_t seed, bool steps, bool losses)
{
    struct node_model m = {.rng = {seed}, .losses = losses, .steps = steps};

    for (unsigned i = 0; i < MEMBERS; i++)
        start_peer(&m, i);
    for (unsigned i = 0; i < 400; i++) {
        random_event(&m);
        reconcile(&m);
        check_rule(&m);
    }
    check_converges(&m);
    assert_true(m.deliveries > 50);
    free_model(&m);
}

static void test_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        run(seed, false, false);
}

static void test_steps_come_and_go(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        run(seed * 31, true, false);
}

static void test_losses(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        run(seed * 7919, true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_loan),
        cmocka_unit_test(test_new_owner_waits),
        cmocka_unit_test(test_overdue_blocks_strangers),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_steps_come_and_go),
        cmocka_unit_test(test_losses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
