/*
 * Agents of one node whose controllers, which this test plays, contradict each other or are gone:
 * no CPU is in the hands of an owner and a borrower, or of two borrowers, at any look at the masks
 * that the kernel tells. Needs two CPUs: CPU 0 belongs to all steps here (they overlap), CPU 1 is
 * the one that changes hands.
 */
#include "config.h"

#include "agent_scene.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STEPS_MAX 3u

/* ---- looking ---- */

struct look {
    pthread_t thread;
    atomic_bool end;
    pid_t pid[STEPS_MAX], loader[STEPS_MAX];
    unsigned n;
    atomic_uint both, looks; /* with CPU 1 in two hands, and all */
};

static bool has_one(const struct look *l, unsigned i)
{
    char list[32];
    read_mask(l->pid[i], l->loader[i], list, sizeof list);
    return strcmp(list, "1") == 0 || strcmp(list, "0-1") == 0;
}

/* The first is looked at before and after the second: so it had the CPU at that moment, too. */
static void look_at_pair(struct look *l, unsigned a, unsigned b)
{
    if (has_one(l, a) && has_one(l, b) && has_one(l, a))
        atomic_fetch_add(&l->both, 1);
}

static void *keep_looking(void *argument)
{
    struct look *l = argument;
    while (!atomic_load(&l->end)) {
        for (unsigned a = 0; a < l->n; a++)
            for (unsigned b = a + 1; b < l->n; b++)
                look_at_pair(l, a, b);
        atomic_fetch_add(&l->looks, 1);
        (void)poll(NULL, 0, 1);
    }
    return NULL;
}

/* ---- the stage: steps 1, 2, 3 of a job on one node, each with a controller of its own ---- */

struct stage {
    struct scene s[STEPS_MAX];
    unsigned n;
    struct look look;
    bool looking;
};

static int begin(void **state)
{
    *state = calloc(1, sizeof(struct stage));
    return *state != NULL ? 0 : -1;
}

static struct scene *add_step(struct stage *stage, const char *cpus)
{
    struct scene *s = &stage->s[stage->n];
    struct scene_setup setup = {
        .dir = stage->n > 0 ? stage->s[0].dir : NULL, .cpus = cpus, .step = stage->n + 1};
    scene_begin(s, &setup);
    stage->look.pid[stage->n] = s->victim.pid;
    stage->look.loader[stage->n] = victim_do(&s->victim, 't');
    stage->n++;
    return s;
}

static void start_looking(struct stage *stage)
{
    stage->look.n = stage->n;
    atomic_init(&stage->look.end, false);
    assert_int_equal(pthread_create(&stage->look.thread, NULL, keep_looking, &stage->look), 0);
    stage->looking = true;
}

static void stop_looking(struct stage *stage)
{
    atomic_store(&stage->look.end, true);
    assert_int_equal(pthread_join(stage->look.thread, NULL), 0);
    stage->looking = false;
}

static void was_never_in_two_hands(struct stage *stage)
{
    stop_looking(stage);
    assert_true(atomic_load(&stage->look.looks) > 0);
    assert_int_equal(atomic_load(&stage->look.both), 0);
}

static int end(void **state)
{
    struct stage *stage = *state;
    if (stage->looking)
        stop_looking(stage);
    while (stage->n > 0)
        scene_end(&stage->s[--stage->n]);
    free(stage);
    return 0;
}

static pid_t loader(const struct stage *stage, unsigned i)
{
    return stage->look.loader[i];
}

static void await(const struct stage *stage, unsigned i, const char *cpus)
{
    await_mask(stage->s[i].victim.pid, loader(stage, i), cpus);
}

static void expect(const struct stage *stage, unsigned i, const char *cpus)
{
    expect_mask(stage->s[i].victim.pid, loader(stage, i), cpus);
}

/* Step 2 is to have CPU 1 of step 1, and says so or not. */
static bool lend(struct scene *to, uint64_t seq)
{
    struct msg_loan loan = {.job = 12, .step = 1};
    struct msg_ack ack;
    assert_int_equal(cpus_set(&loan.cpus, 1), 0);
    send_assign(to, seq, "0-1", &loan);
    hear_ack(to, seq, &ack);
    cpus_free(&loan.cpus);
    return ack.status == MSG_ACK_APPLIED;
}

/* It comes back to its controller, with what it holds as a list. */
static void comes_back_with(struct scene *s, const char *held)
{
    struct msg_register m;
    char list[64];
    accept_agent(s);
    greet(s, &m);
    assert_true(m.held_valid && !m.held_is_own);
    assert_true(cpus_format(&m.held, list, sizeof list) < (int)sizeof list);
    assert_string_equal(list, held);
    msg_register_free(&m);
    welcome(s);
}

/* Lender 0 and borrower 1 with the loan made, each with its controller. */
static struct stage *with_loan(void **state)
{
    struct stage *stage = *state;
    struct msg_ack ack;
    if (!scene_possible())
        skip();
    struct scene *lender = add_step(stage, "0-1"), *borrower = add_step(stage, "0");
    register_agent(lender);
    register_agent(borrower);
    assign(lender, 1, "0", &ack);
    assert_true(lend(borrower, 1));
    expect(stage, 0, "0");
    expect(stage, 1, "0-1");
    start_looking(stage);
    return stage;
}

/* ---- the tests ---- */

static void what_the_owner_uses_is_not_to_be_had(void **state)
{
    struct stage *stage = *state;
    struct msg_ack ack;
    if (!scene_possible())
        skip();
    struct scene *lender = add_step(stage, "0-1"), *borrower = add_step(stage, "0");
    register_agent(lender);
    register_agent(borrower);
    start_looking(stage);
    assert_false(lend(borrower, 1)); /* its controller knows nothing of the lender's */
    expect(stage, 1, "0");
    expect(stage, 0, "0-1");
    assign(lender, 1, "0", &ack); /* now it lends */
    await(stage, 1, "0-1");       /* and the borrower has the CPU without being told again */
    was_never_in_two_hands(stage);
}

static void the_owner_has_it_back_by_its_own_controller(void **state)
{
    struct stage *stage = with_loan(state);
    struct msg_ack ack;
    assign(&stage->s[0], 2, NULL, &ack); /* the borrower's controller does not know */
    await(stage, 0, "0-1");
    expect(stage, 1, "0");
    was_never_in_two_hands(stage);
    start_looking(stage);
    comes_back_with(&stage->s[1], "0");
    assert_false(lend(&stage->s[1], 7)); /* it goes on where it was: to no effect */
    expect(stage, 1, "0");
    assign(&stage->s[0], 3, "0", &ack);
    await(stage, 1, "0-1");
    was_never_in_two_hands(stage);
}

static void the_owner_s_lease_ends_first(void **state)
{
    struct stage *stage = with_loan(state);
    stage->s[0].lease_ms = SHORT_LEASE_MS;
    renew(&stage->s[0]); /* the last word of its controller */
    await(stage, 0, "0-1");
    await(stage, 1, "0");
    was_never_in_two_hands(stage);
}

static void the_owner_goes_to_another_controller_and_takes_it_back(void **state)
{
    struct stage *stage = with_loan(state);
    struct msg_ack ack;
    hang_up(&stage->s[0]);
    comes_back_with(&stage->s[0], "0"); /* to one that has never heard of the borrower */
    assign(&stage->s[0], 9, NULL, &ack);
    await(stage, 0, "0-1");
    await(stage, 1, "0");
    was_never_in_two_hands(stage);
}

/* CPU 1 belongs to nobody here: it is the admin's. */
static void the_pool_s_cpu_goes_to_one_of_two(void **state)
{
    struct stage *stage = *state;
    struct msg_ack first, second;
    if (!scene_possible())
        skip();
    struct scene *a = add_step(stage, "0"), *b = add_step(stage, "0");
    register_agent(a);
    register_agent(b);
    start_looking(stage);
    send_assign(a, 1, "0-1", NULL);
    send_assign(b, 1, "0-1", NULL);
    hear_ack(a, 1, &first);
    hear_ack(b, 1, &second);
    assert_true((first.status == MSG_ACK_APPLIED) != (second.status == MSG_ACK_APPLIED));
    unsigned has = first.status == MSG_ACK_APPLIED ? 0 : 1;
    expect(stage, has, "0-1");
    expect(stage, 1 - has, "0");
    assign(&stage->s[has], 2, "0", &first);
    await(stage, 1 - has, "0-1");
    was_never_in_two_hands(stage);
}

/* A step that starts inside of the lender's CPUs, and whose controller knows nothing of the others.
 */
static void a_new_owner_makes_strangers_leave(void **state)
{
    struct stage *stage = with_loan(state);
    stop_looking(stage);
    register_agent(add_step(stage, "1"));
    await(stage, 1, "0"); /* it is told by the new step's agent alone */
    comes_back_with(&stage->s[1], "0");
    assert_false(lend(&stage->s[1], 7));
    start_looking(stage); /* the lender's loader is on CPU 0 all the time */
    (void)poll(NULL, 0, 200);
    expect(stage, 2, "1");
    expect(stage, 1, "0");
    was_never_in_two_hands(stage);
}

/* At random: three controllers say what they like. Owners are 0 and 1, which overlap. */
static void whatever_controllers_say(void **state)
{
    static const char *const words[] = {"0", "0-1", NULL};
    struct stage *stage = *state;
    unsigned random = 12345;
    if (!scene_possible())
        skip();
    for (unsigned i = 0; i < STEPS_MAX; i++)
        register_agent(add_step(stage, i == 0 ? "0-1" : "0"));
    start_looking(stage);
    for (uint64_t seq = 1; seq <= 100; seq++)
        for (unsigned i = 0; i < STEPS_MAX; i++) {
            struct pollfd fd = {.fd = stage->s[i].peer, .events = POLLRDHUP};
            if (poll(&fd, 1, 0) == 1) { /* evicted: it registers anew */
                struct msg_register m;
                accept_agent(&stage->s[i]);
                greet(&stage->s[i], &m);
                msg_register_free(&m);
                welcome(&stage->s[i]);
            }
            random = random * 1103515245u + 12345u;
            send_assign(&stage->s[i], seq,
                        words[random >> 16 & 1   ? 1
                              : random >> 17 & 1 ? 0
                                                 : 2],
                        NULL);
            (void)poll(NULL, 0, (int)(random >> 20 & 7));
        }
    was_never_in_two_hands(stage);
}

/* ---- one agent, two controllers ---- */

static struct scene *with_backup(void **state)
{
    struct stage *stage = *state;
    struct scene_setup setup = {.cpus = "0-1", .step = 1, .two_controllers = true};
    if (!scene_possible())
        skip();
    scene_begin(&stage->s[0], &setup);
    stage->look.loader[0] = victim_do(&stage->s[0].victim, 't');
    stage->n = 1;
    return &stage->s[0];
}

static void registers_with(struct scene *s, bool held)
{
    struct msg_register m;
    greet(s, &m);
    assert_int_equal(m.held_valid, held);
    if (held) {
        assert_true(cpus_isset(&m.held, 1));
        assert_false(cpus_isset(&m.held, 0));
    }
    msg_register_free(&m);
    welcome(s);
}

static void say_standby(struct scene *s)
{
    struct wire_writer w = {0};
    struct msg_challenge challenge = {.standby = true, .server = "test"};
    say(s, msg_challenge_write(&w, &challenge), &w);
}

static void one_that_stands_by_is_passed_over(void **state)
{
    struct scene *s = with_backup(state);
    accept_agent(s);
    say_standby(s);
    accept_agent_at_second(s);
    registers_with(s, false);
}

static void a_silent_one_is_left_before_the_lease_ends(void **state)
{
    struct scene *s = with_backup(state);
    const struct stage *stage = *state;
    struct msg_ack ack;
    uint64_t from;
    accept_agent(s);
    s->lease_ms = 3000;
    registers_with(s, false);
    from = now_ms();
    assign(s, 1, "1", &ack);
    int silent = s->peer; /* its connection stays, as a stopped controller's does */
    s->peer = -1;
    accept_agent_at_second(s);
    assert_true(now_ms() - from >= 1000);
    registers_with(s, true);
    expect(stage, 0, "1");
    s->lease_ms = LONG_LEASE_MS;
    renew(s);
    (void)poll(NULL, 0, 3000); /* longer than the first one's lease */
    expect(stage, 0, "1");
    (void)close(silent);
}

static void one_that_steps_down_sends_to_the_first(void **state)
{
    struct scene *s = with_backup(state);
    const struct stage *stage = *state;
    struct wire_writer w = {0};
    struct msg_ack ack;
    struct msg_refuse refuse = {
        .code = MSG_REFUSED_STANDBY, .retry_ms = 250, .text = "another is the controller now"};
    accept_agent(s);
    say_standby(s);
    accept_agent_at_second(s);
    registers_with(s, false);
    assign(s, 1, "1", &ack);
    say(s, msg_refuse_write(&w, &refuse), &w);
    accept_agent(s);
    registers_with(s, true);
    expect(stage, 0, "1");
}

#define STAGE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE(what_the_owner_uses_is_not_to_be_had),
        STAGE(the_owner_has_it_back_by_its_own_controller),
        STAGE(the_owner_s_lease_ends_first),
        STAGE(the_owner_goes_to_another_controller_and_takes_it_back),
        STAGE(the_pool_s_cpu_goes_to_one_of_two),
        STAGE(a_new_owner_makes_strangers_leave),
        STAGE(whatever_controllers_say),
        STAGE(one_that_stands_by_is_passed_over),
        STAGE(a_silent_one_is_left_before_the_lease_ends),
        STAGE(one_that_steps_down_sends_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
