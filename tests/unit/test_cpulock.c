/* Locks of CPUs between the agents of a node: what the kernel grants is held against a table. */
#include "config.h"

#include "cpulock.h"
#include "rng.h"

#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOCKERS 6u
#define CPUS    12u

/* Each has opened the node's directory by itself, as agents in processes of their own. */
struct locker {
    struct nodedir node;
    struct cpulock lock;
};

struct world {
    char root[64];
    struct locker lockers[LOCKERS];
};

static int begin(void **state)
{
    static struct world w;
    memset(&w, 0, sizeof w);
    snprintf(w.root, sizeof w.root, "/tmp/adl-cpulock-XXXXXX");
    if (mkdtemp(w.root) == NULL)
        return -1;
    for (unsigned i = 0; i < LOCKERS; i++) {
        if (nodedir_open(&w.lockers[i].node, w.root, "n1") < 0)
            return -1;
        cpulock_init(&w.lockers[i].lock, &w.lockers[i].node);
    }
    *state = &w;
    return 0;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int end(void **state)
{
    struct world *w = *state;
    for (unsigned i = 0; i < LOCKERS; i++) {
        cpulock_free(&w->lockers[i].lock);
        nodedir_close(&w->lockers[i].node);
    }
    return nftw(w->root, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct cpus list(const char *text)
{
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_parse(&set, text), 0);
    return set;
}

/* Take; what is refused, as a list. */
static const char *take(struct locker *l, const char *cpus, bool exclusive)
{
    static char text[128];
    struct cpus wanted = list(cpus), refused = CPUS_EMPTY;
    assert_int_equal(cpulock_take(&l->lock, &wanted, exclusive, &refused), 0);
    assert_true(cpus_format(&refused, text, sizeof text) < (int)sizeof text);
    cpus_free(&wanted);
    cpus_free(&refused);
    return text;
}

static void keep(struct locker *l, const char *shared, const char *exclusive)
{
    struct cpus s = list(shared), e = list(exclusive);
    cpulock_keep(&l->lock, &s, &e);
    cpus_free(&s);
    cpus_free(&e);
}

static void owners_share_and_a_borrower_does_not(void **state)
{
    struct world *w = *state;
    struct locker *owner = &w->lockers[0], *overlaps = &w->lockers[1], *borrower = &w->lockers[2],
                  *another = &w->lockers[3];
    assert_string_equal(take(owner, "0-3", false), "");
    assert_string_equal(take(overlaps, "2-5", false), "");
    assert_string_equal(take(borrower, "0-7", true), "0-5");
    keep(owner, "0-1", "");
    assert_string_equal(take(borrower, "2-5", true), "2-5"); /* the other owner is there */
    keep(overlaps, "5", "");
    assert_string_equal(take(borrower, "1-5", true), "1,5");
    assert_string_equal(take(another, "3-8", true), "3-7");
    assert_string_equal(take(owner, "0-3", false), "2-3"); /* lent, and not back yet */
    keep(borrower, "", "6");
    assert_string_equal(take(owner, "0-3", false), "");
    assert_string_equal(take(another, "4-7", true), "5-6");
}

/* A child that has locked CPU 0 and then sleeps; readable when it has. */
static pid_t start_holder(struct world *w, int *ready)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct locker mine;
        (void)close(ends[0]);
        if (nodedir_open(&mine.node, w->root, "n1") < 0)
            _exit(1);
        cpulock_init(&mine.lock, &mine.node);
        if (strcmp(take(&mine, "0", true), "") != 0 || write(ends[1], "x", 1) != 1)
            _exit(1);
        (void)poll(NULL, 0, 60000);
        _exit(1);
    }
    (void)close(ends[1]);
    *ready = ends[0];
    return pid;
}

static void a_killed_holder_has_no_lock(void **state)
{
    struct world *w = *state;
    char byte;
    int ready;
    pid_t holder = start_holder(w, &ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    assert_string_equal(take(&w->lockers[0], "0-1", false), "0");
    assert_int_equal(kill(holder, SIGSTOP), 0);
    assert_string_equal(take(&w->lockers[0], "0-1", false), "0"); /* a stopped one has */
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    assert_string_equal(take(&w->lockers[0], "0-1", false), "");
    (void)close(ready);
}

static void without_a_directory_nobody_borrows(void **state)
{
    struct locker alone = {.node = {-1, -1}};
    (void)state;
    cpulock_init(&alone.lock, &alone.node);
    assert_string_equal(take(&alone, "0-3", false), "");
    assert_string_equal(take(&alone, "4-5", true), "4-5");
    keep(&alone, "", "");
    cpulock_free(&alone.lock);
}

/* ---- at random, against a table ---- */

enum use { NOT, SHARED, EXCLUSIVE };

/* Whether the rule allows it, by the table alone. */
static bool allowed(enum use table[LOCKERS][CPUS], unsigned who, unsigned cpu, enum use wanted)
{
    for (unsigned i = 0; i < LOCKERS; i++)
        if (i != who && table[i][cpu] != NOT && (wanted == EXCLUSIVE || table[i][cpu] == EXCLUSIVE))
            return false;
    return true;
}

static void try_take(struct world *w, enum use table[LOCKERS][CPUS], struct rng *rng)
{
    unsigned who = rng_below(rng, LOCKERS);
    bool exclusive = rng_chance(rng, 50);
    enum use use = exclusive ? EXCLUSIVE : SHARED;
    struct cpus wanted = CPUS_EMPTY, refused = CPUS_EMPTY;
    for (unsigned cpu = 0; cpu < CPUS; cpu++) /* nobody owns and borrows the same CPU */
        if (rng_chance(rng, 33) && (table[who][cpu] == NOT || table[who][cpu] == use))
            assert_int_equal(cpus_set(&wanted, cpu), 0);
    assert_int_equal(cpulock_take(&w->lockers[who].lock, &wanted, exclusive, &refused), 0);
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        if (!cpus_isset(&wanted, cpu)) {
            assert_false(cpus_isset(&refused, cpu));
            continue;
        }
        bool may = allowed(table, who, cpu, use);
        assert_int_equal(cpus_isset(&refused, cpu), !may);
        if (may)
            table[who][cpu] = use;
    }
    cpus_free(&wanted);
    cpus_free(&refused);
}

static void try_keep(struct world *w, enum use table[LOCKERS][CPUS], struct rng *rng)
{
    unsigned who = rng_below(rng, LOCKERS);
    struct cpus shared = CPUS_EMPTY, exclusive = CPUS_EMPTY;
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        if (rng_chance(rng, 50))
            assert_int_equal(cpus_set(&shared, cpu), 0);
        if (rng_chance(rng, 50))
            assert_int_equal(cpus_set(&exclusive, cpu), 0);
        if (table[who][cpu] != NOT &&
            !cpus_isset(table[who][cpu] == SHARED ? &shared : &exclusive, cpu))
            table[who][cpu] = NOT;
    }
    cpulock_keep(&w->lockers[who].lock, &shared, &exclusive);
    cpus_free(&shared);
    cpus_free(&exclusive);
}

static void never_two_of_whom_one_borrows(void **state)
{
    struct world *w = *state;
    enum use table[LOCKERS][CPUS] = {{NOT}};
    struct rng rng = {50};
    for (unsigned round = 0; round < 20000; round++) {
        if (rng_chance(&rng, 50))
            try_take(w, table, &rng);
        else
            try_keep(w, table, &rng);
        for (unsigned i = 0; i < LOCKERS; i++) /* and each knows what it has */
            for (unsigned cpu = 0; cpu < CPUS; cpu++) {
                assert_int_equal(cpus_isset(&w->lockers[i].lock.shared, cpu),
                                 table[i][cpu] == SHARED);
                assert_int_equal(cpus_isset(&w->lockers[i].lock.exclusive, cpu),
                                 table[i][cpu] == EXCLUSIVE);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(owners_share_and_a_borrower_does_not, begin, end),
        cmocka_unit_test_setup_teardown(a_killed_holder_has_no_lock, begin, end),
        cmocka_unit_test_setup_teardown(without_a_directory_nobody_borrows, begin, end),
        cmocka_unit_test_setup_teardown(never_two_of_whom_one_borrows, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
