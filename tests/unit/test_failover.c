/*
 * Several controllers: the real programs, and agents that this test plays, which keep the rule of
 * the node (spank/cpulock.h) with its real locks. After whatever happens no CPU has both a borrower
 * and somebody else.
 */
#include "config.h"

#include "fake_agents.h"

#include "clock.h"
#include "cpulock.h"
#include "rng.h"

#include <json.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#define AGENTS_MAX  6u
#define PATIENCE_MS 20000u

/* ---- an agent that keeps the rule ---- */

struct member {
    struct agent a;
    struct nodedir node;
    struct cpulock lock;
    bool want_own;
    struct cpus want, kept; /* kept: own ones that it does not lend */
};

/* Like spank/agent_place.c, but that it asks nobody to leave: that is for the agents' own tests. */
static bool settle(struct member *m)
{
    struct cpus shared = CPUS_EMPTY, foreign = CPUS_EMPTY, missing = CPUS_EMPTY;
    struct cpus use = CPUS_EMPTY;

    assert_int_equal(cpus_copy(&shared, &m->kept), 0);
    if (!m->want_own)
        assert_int_equal(cpus_or(&shared, &m->want), 0);
    cpus_and(&shared, &m->a.own_cpus);
    assert_int_equal(cpus_copy(&foreign, &m->want), 0);
    cpus_andnot(&foreign, &m->a.own_cpus);
    assert_int_equal(cpulock_take(&m->lock, &shared, false, &missing), 0);
    assert_int_equal(cpulock_take(&m->lock, &foreign, true, &missing), 0);
    assert_int_equal(cpus_copy(&use, m->want_own ? &shared : &m->want), 0);
    cpus_andnot(&use, &missing);
    m->a.on_own = m->want_own && cpus_is_empty(&missing);
    cpus_move(&m->a.loaders, &use);
    cpulock_keep(&m->lock, &shared, &foreign);

    bool all = cpus_is_empty(&missing);
    cpus_free(&shared);
    cpus_free(&foreign);
    cpus_free(&missing);
    return all;
}

static bool apply(struct agent *a, const struct msg_assign *assign)
{
    struct member *m = a->arg;

    m->want_own = assign->own;
    assert_int_equal(cpus_copy(&m->want, &assign->cpus), 0);
    if (assign->own)
        cpus_free(&m->want);
    assert_int_equal(cpus_copy(&m->kept, assign->keep_valid ? &assign->keep
                                         : assign->own      ? &a->own_cpus
                                                            : &assign->cpus),
                     0);
    cpus_and(&m->kept, &a->own_cpus);
    return settle(m);
}

static void go_home(struct member *m)
{
    m->want_own = true;
    cpus_free(&m->want);
    assert_int_equal(cpus_copy(&m->kept, &m->a.own_cpus), 0);
    (void)settle(m);
}

static void member_begin(struct member *m, const struct controller *c, uint32_t job,
                         const char *own, bool hungry)
{
    memset(m, 0, sizeof(*m));
    agent_init(&m->a, job, 0, "n1", own);
    m->a.apply = apply;
    m->a.arg = m;
    m->a.tasks_of_loader = hungry ? 16 : 0;
    m->a.use_cores = hungry ? 8 : 0;
    m->a.age_ms = 60000; /* LearnTime is over */
    assert_int_equal(nodedir_open(&m->node, c->dir, "n1"), 0);
    cpulock_init(&m->lock, &m->node);
    go_home(m);
}

static void member_end(struct member *m)
{
    agent_free(&m->a);
    cpulock_free(&m->lock);
    nodedir_close(&m->node);
    cpus_free(&m->want);
    cpus_free(&m->kept);
}

/* ---- what is true at each moment ---- */

static bool uses(const struct member *m, unsigned cpu)
{
    return cpus_isset(m->a.on_own ? &m->a.own_cpus : &m->a.loaders, cpu);
}

static void check(struct member *members, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        for (long c = cpus_next(&members[i].a.loaders, 0); c >= 0 && !members[i].a.on_own;
             c = cpus_next(&members[i].a.loaders, (unsigned long)c + 1)) {
            if (cpus_isset(&members[i].a.own_cpus, (unsigned)c))
                continue; /* its own */
            for (unsigned k = 0; k < n; k++)
                if (k != i && uses(&members[k], (unsigned)c))
                    fail_msg("CPU %ld is job %u's by a loan, and job %u is on it, too", c,
                             members[i].a.job, members[k].a.job);
        }
}

/* All report and take what comes, for so long; what locks have kept from them they try again. */
static void run(struct member *members, unsigned n, unsigned ms)
{
    struct agent *all[AGENTS_MAX];
    uint64_t end = clock_monotonic_ms() + ms;

    for (unsigned i = 0; i < n; i++)
        all[i] = &members[i].a;
    (void)agents_pump(all, n, 1, NULL); /* last words may have come meanwhile */
    do {
        for (unsigned i = 0; i < n; i++) {
            (void)settle(&members[i]);
            if (members[i].a.registered)
                agent_report(all[i], 50);
        }
        check(members, n);
        (void)agents_pump(all, n, 50, NULL);
        check(members, n);
    } while (clock_monotonic_ms() < end);
}

static bool is_at(const struct member *m, const char *where)
{
    char text[128];
    return strcmp(agent_at(&m->a, text, sizeof(text)), where) == 0;
}

/* Until both are there. */
static void await_both(struct member *members, const char *first, const char *second)
{
    uint64_t end = clock_monotonic_ms() + PATIENCE_MS;

    while (!is_at(&members[0], first) || !is_at(&members[1], second)) {
        char a[128], b[128];
        if (clock_monotonic_ms() > end)
            fail_msg("the members are at %s and %s, not at %s and %s",
                     agent_at(&members[0].a, a, sizeof(a)), agent_at(&members[1].a, b, sizeof(b)),
                     first, second);
        run(members, 2, 50);
    }
}

/* ---- two controllers ---- */

struct pair {
    struct controller c[2];
};

/* blind: the second has never heard of the first, and so serves, too. */
static void pair_begin(struct pair *p, const char *extra, bool blind)
{
    unsigned ports[] = {free_port(), free_port(), free_port()};

    for (unsigned i = 0; i < 2; i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text),
                       "ListenAddress=127.0.0.1\nControllerPort=%u\nTakeoverTime=2s\nLeaseTime=8s\n"
                       "MainCoresPerTask=0\nControllers=127.0.0.1:%u,127.0.0.1:%u\n%s",
                       ports[i], ports[i == 1 && blind ? 2 : 0], ports[1], extra);
        controller_prepare(&p->c[i], text);
        controller_start(&p->c[i]);
    }
}

static void pair_end(struct pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        if (p->c[i].pid > 0)
            assert_int_equal(controller_end(&p->c[i], SIGTERM), 0);
        controller_discard(&p->c[i], false);
    }
}

static json_object *controller_part(const struct controller *c, json_object **root)
{
    char *text = controller_ask(c, "status", "");
    json_object *part = NULL;

    *root = json_tokener_parse(text);
    if (!json_object_object_get_ex(*root, "controller", &part))
        fail_msg("no status: %s", text);
    free(text);
    return part;
}

static bool serves(const struct controller *c)
{
    json_object *root, *value = NULL;

    (void)json_object_object_get_ex(controller_part(c, &root), "serving", &value);
    bool yes = json_object_get_boolean(value);
    json_object_put(root);
    return yes;
}

static void await_serving(const struct controller *c, bool wanted)
{
    for (uint64_t end = clock_monotonic_ms() + PATIENCE_MS; serves(c) != wanted;) {
        if (clock_monotonic_ms() > end)
            fail_msg("it does not %s", wanted ? "serve" : "stand by");
        (void)poll(NULL, 0, 20);
    }
}

static void expect_text(const struct controller *c, const char *key, const char *wanted)
{
    json_object *root, *value = NULL;

    (void)json_object_object_get_ex(controller_part(c, &root), key, &value);
    assert_string_equal(json_object_get_string(value), wanted);
    json_object_put(root);
}

static void expect_metric(const struct controller *c, const char *line)
{
    char *text = controller_ask(c, "metrics", "");
    if (strstr(text, line) == NULL)
        fail_msg("the metrics have no %s", line);
    free(text);
}

static void join(const struct controller *c, struct member *m)
{
    agent_hang_up(&m->a);
    agent_register(c, &m->a);
    assert_true(m->a.registered);
}

static void is_sent_away(const struct controller *c, struct member *m)
{
    agent_hang_up(&m->a);
    agent_register(c, &m->a);
    assert_false(m->a.registered);
    assert_true(m->a.challenge.standby);
    assert_true(m->a.refused);
    assert_int_equal(m->a.refusal.code, MSG_REFUSED_STANDBY);
    assert_true(m->a.refusal.retry_ms > 0);
    agent_hang_up(&m->a);
}

/* A borrower with cores 0-3 that has 4-7 of a lender, too, with the primary. */
static void begin_with_loan(struct pair *p, struct member *members)
{
    pair_begin(p, "", false);
    member_begin(&members[0], &p->c[0], 1, "0-3", true);
    member_begin(&members[1], &p->c[0], 2, "4-7", false);
    join(&p->c[0], &members[0]);
    join(&p->c[0], &members[1]);
    await_both(members, "0-7", "");
}

static void all_end(struct pair *p, struct member *members, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        member_end(&members[i]);
    pair_end(p);
}

static void the_backup_takes_over_and_steps_down(void **state)
{
    struct pair p;
    struct member members[2];

    (void)state;
    begin_with_loan(&p, members);
    expect_text(&p.c[0], "role", "primary");
    expect_text(&p.c[1], "role", "backup");
    assert_true(serves(&p.c[0]));
    assert_false(serves(&p.c[1]));
    expect_metric(&p.c[0], "adloader_role{role=\\\"primary\\\"} 1");
    expect_metric(&p.c[1], "adloader_serving 0");
    (void)controller_end(&p.c[0], SIGKILL);
    await_serving(&p.c[1], true);
    for (unsigned i = 2; i-- > 0;)
        join(&p.c[1], &members[i]);
    expect_metric(&p.c[1], "adloader_serving 1");
    expect_metric(&p.c[1], "adloader_takeovers_total ");
    for (unsigned t = 0; t < 30; t++) { /* until long after it has settled */
        run(members, 2, 100);
        assert_true(is_at(&members[0], "0-7") && is_at(&members[1], ""));
    }
    controller_start(&p.c[0]);
    await_serving(&p.c[1], false);
    for (uint64_t end = clock_monotonic_ms() + PATIENCE_MS;
         !members[0].a.refused || !members[1].a.refused;) {
        assert_true(clock_monotonic_ms() < end);
        run(members, 2, 50);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(members[i].a.refusal.code, MSG_REFUSED_STANDBY);
        join(&p.c[0], &members[i]);
    }
    for (unsigned t = 0; t < 20; t++) {
        run(members, 2, 100);
        assert_true(is_at(&members[0], "0-7") && is_at(&members[1], ""));
    }
    all_end(&p, members, 2);
}

static void who_is_cut_from_the_primary_alone_has_its_own_cores(void **state)
{
    struct pair p;
    struct member members[2];

    (void)state;
    begin_with_loan(&p, members);
    agent_hang_up(&members[1].a); /* the lender; the network lets it through to the backup only */
    is_sent_away(&p.c[1], &members[1]);
    go_home(&members[1]);
    await_both(members, "own", "own");
    is_sent_away(&p.c[1], &members[1]);
    all_end(&p, members, 2);
}

/* The lender is with the backup while the borrower has heard nothing from the primary yet. */
static void a_stopped_primary_that_goes_on(void **state)
{
    struct pair p;
    struct member members[2];

    (void)state;
    begin_with_loan(&p, members);
    assert_int_equal(kill(p.c[0].pid, SIGSTOP), 0);
    await_serving(&p.c[1], true);
    join(&p.c[1], &members[1]);
    run(members, 2, 3500); /* the backup gives the lender its cores back: the borrower has them */
    assert_true(is_at(&members[0], "0-7"));
    assert_true(members[1].want_own && is_at(&members[1], ""));
    go_home(&members[0]); /* its lease is over */
    await_both(members, "own", "own");
    assert_int_equal(kill(p.c[0].pid, SIGCONT), 0);
    run(members, 2, 500); /* what the primary says now, it says to one that is at home */
    await_serving(&p.c[1], false);
    for (unsigned i = 0; i < 2; i++)
        join(&p.c[0], &members[i]);
    await_both(members, "0-7", "");
    all_end(&p, members, 2);
}

/* Neither knows of the other; agents go from one to the other, end and begin. */
static void two_that_serve_at_once(void **state)
{
    static const char *const owns[AGENTS_MAX] = {"0-3", "4-7", "8-11", "0-7", "8-11", "12"};
    struct pair p;
    struct member members[AGENTS_MAX];
    struct rng rng = {51};
    unsigned borrowed = 0, both = 0;

    (void)state;
    pair_begin(&p, "NodeName=n1 PoolCores=16-17\n", true);
    await_serving(&p.c[0], true);
    await_serving(&p.c[1], true);
    for (unsigned i = 0; i < AGENTS_MAX; i++) {
        member_begin(&members[i], &p.c[0], i + 1, owns[i], i % 2 == 0);
        join(&p.c[rng_below(&rng, 2)], &members[i]);
    }
    for (unsigned round = 0; round < 60; round++) {
        struct member *m = &members[rng_below(&rng, AGENTS_MAX)];
        bool used[2] = {false, false};

        if (rng_chance(&rng, 20)) { /* it loads, or no more */
            m->a.tasks_of_loader = m->a.tasks_of_loader > 0 ? 0 : 16;
            m->a.use_cores = m->a.tasks_of_loader > 0 ? 8 : 0;
        } else if (rng_chance(&rng, 20)) {
            agent_hang_up(&m->a);
            go_home(m);
        } else {
            join(&p.c[rng_below(&rng, 2)], m);
        }
        run(members, AGENTS_MAX, 60);
        for (unsigned i = 0; i < AGENTS_MAX; i++) {
            borrowed += !members[i].a.on_own &&
                        !cpus_is_subset(&members[i].a.loaders, &members[i].a.own_cpus);
            if (members[i].a.registered)
                used[i % 2] = true;
        }
        both += used[0] && used[1];
    }
    assert_true(borrowed > 20); /* or it would say nothing */
    assert_true(both > 0);
    all_end(&p, members, AGENTS_MAX);
}

/* ---- which one it is ---- */

static int try_check(const char *controllers, const char *more, const char *options)
{
    struct controller c;
    char command[512], text[512];

    (void)snprintf(text, sizeof(text), "Controllers=%s\n%s", controllers, more);
    controller_prepare(&c, text);
    (void)snprintf(command, sizeof(command),
                   "'%s/adloaderctld' -c '%s' --check-config %s >'%s' 2>&1", getenv("ADL_BUILDDIR"),
                   c.conf, options, c.log);
    int status = system(command);
    controller_discard(&c, false);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void each_knows_which_one_it_is(void **state)
{
    static const struct {
        const char *controllers, *more, *options;
        int status;
    } cases[] = {
        {"127.0.0.1,192.0.2.7", "ListenAddress=\n", "", 0},
        {"192.0.2.7,[::ffff:127.0.0.1]:7000", "ListenAddress=\n", "", 0},
        {"192.0.2.7,192.0.2.8", "ListenAddress=\n", "", 1}, /* neither is this host */
        {"192.0.2.7,192.0.2.8", "ListenAddress=\n", "--controller 192.0.2.8", 0},
        {"192.0.2.7,192.0.2.8", "ListenAddress=\n", "--controller 192.0.2.8:6830", 0},
        {"192.0.2.7,192.0.2.8", "ListenAddress=\n", "--controller 192.0.2.9", 1},
        {"127.0.0.1:7001,127.0.0.1:7002", "ListenAddress=\n", "", 1}, /* both are */
        {"127.0.0.1:7001,127.0.0.1:7002", "ListenAddress=\nControllerPort=7002\n", "", 0},
        {"127.0.0.1:7001,127.0.0.1:7002", "ListenAddress=\n", "--controller 127.0.0.1", 1},
        {"127.0.0.1:7001,127.0.0.1:7002", "ListenAddress=\n", "--controller 127.0.0.1:7001", 0},
        {"127.0.0.1,192.0.2.7", "", "", 1}, /* the other one could not reach it */
        {"127.0.0.1,192.0.2.7", "ListenAddress=\nTakeoverTime=3s\n", "", 1}, /* LeaseTime=3s */
        {"127.0.0.1,127.0.0.1", "ListenAddress=\n", "", 1},
        {"", "", "--controller 127.0.0.1", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (try_check(cases[i].controllers, cases[i].more, cases[i].options) != cases[i].status)
            fail_msg("Controllers=%s %s: exit status %d was expected", cases[i].controllers,
                     cases[i].options, cases[i].status);
}

#define T(name) cmocka_unit_test_teardown(name, controller_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_knows_which_one_it_is),
        T(the_backup_takes_over_and_steps_down),
        T(who_is_cut_from_the_primary_alone_has_its_own_cores),
        T(a_stopped_primary_that_goes_on),
        T(two_that_serve_at_once),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
