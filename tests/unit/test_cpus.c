/* CPU sets: list formats against tables, set algebra against arrays of bool, affinity. */
#include "config.h"

#include "cpus.h"
#include "rng.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- lists ---- */

static void lists_that_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *list, *canonical;
        unsigned count;
    } cases[] = {
        {"", "", 0},
        {"\n", "", 0},
        {"  ", "", 0},
        {"0", "0", 1},
        {"0-3,8", "0-3,8", 5},
        {"0-3,8\n", "0-3,8", 5},
        {" 8,0-3 ", "0-3,8", 5},
        {"3,2,1,0", "0-3", 4},
        {"0-3,2-5", "0-5", 6},
        {"7-7", "7", 1},
        {"0-8:2", "0,2,4,6,8", 5},
        {"0-9:3,1", "0-1,3,6,9", 5},
        {"5-6:9", "5", 1},
        {"007", "7", 1},
        {"63-64", "63-64", 2},
        {"62,63,64,65", "62-65", 4},
        {"127,128,191,192", "127-128,191-192", 4},
        {"0-2047", "0-2047", 2048},
        {"65535", "65535", 1},
        {"0-65535", "0-65535", 65536},
        {"1-65534", "1-65534", 65534},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cpus set = CPUS_EMPTY;
        assert_int_equal(cpus_parse(&set, cases[i].list), 0);
        assert_int_equal(cpus_count(&set), cases[i].count);
        char *text = cpus_to_string(&set);
        assert_string_equal(text, cases[i].canonical);
        free(text);
        cpus_free(&set);
    }
}

static void lists_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int error;
    } cases[] = {
        {NULL, EINVAL},
        {",", EINVAL},
        {"1,", EINVAL},
        {",1", EINVAL},
        {"1,,2", EINVAL},
        {"-1", EINVAL},
        {"1-", EINVAL},
        {"3-1", EINVAL},
        {"1-3:0", EINVAL},
        {"1-3:", EINVAL},
        {"1:2", EINVAL},
        {"1-2-3", EINVAL},
        {"a", EINVAL},
        {"1a", EINVAL},
        {"0x3", EINVAL},
        {"+1", EINVAL},
        {"1 2", EINVAL},
        {"1, 2", EINVAL},
        {"1;2", EINVAL},
        {"65536", ERANGE},
        {"0-65536", ERANGE},
        {"4294967296", ERANGE},
        {"18446744073709551616", ERANGE},
        {"99999999999999999999999999", ERANGE},
        {"0-65535,0", ERANGE},       /* names one CPU more than there can be */
        {"0-40000,0-40000", ERANGE}, /* so does this */
        {"0-3:99999999999", ERANGE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cpus set = CPUS_EMPTY;
        assert_int_equal(cpus_set(&set, 5), 0);
        errno = 0;
        assert_int_equal(cpus_parse(&set, cases[i].list), -1);
        assert_int_equal(errno, cases[i].error);
        assert_int_equal(cpus_count(&set), 1); /* untouched */
        assert_true(cpus_isset(&set, 5));
        cpus_free(&set);
    }
}

static void bytes_end_where_told(void **state)
{
    (void)state;
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_parse_bytes(&set, "1-23", 3), 0);
    assert_int_equal(cpus_count(&set), 2);
    assert_int_equal(cpus_parse_bytes(&set, "1\0002", 3), -1);
    assert_int_equal(cpus_parse_bytes(&set, "7", 0), 0);
    assert_true(cpus_is_empty(&set));
    cpus_free(&set);
}

static void format_keeps_to_the_buffer(void **state)
{
    (void)state;
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_parse(&set, "0-3,8,100-119"), 0);
    static const char whole[] = "0-3,8,100-119";
    for (size_t size = 0; size <= sizeof(whole) + 1; size++) {
        char buf[32];
        memset(buf, '#', sizeof(buf));
        assert_int_equal(cpus_format(&set, buf, size), (int)strlen(whole));
        size_t kept = size == 0 ? 0 : size - 1 < strlen(whole) ? size - 1 : strlen(whole);
        assert_memory_equal(buf, whole, kept);
        if (size)
            assert_int_equal(buf[kept], '\0');
        for (size_t i = size; i < sizeof(buf); i++)
            assert_int_equal(buf[i], '#');
    }
    cpus_free(&set);
}

/* ---- algebra, against arrays ---- */

#define ORACLE_CPUS 4096

struct oracle {
    bool in[ORACLE_CPUS];
};

/* Sets of all sorts: sparse and dense, short and long, with runs. */
static void fill(struct rng *rng, struct cpus *set, struct oracle *oracle)
{
    unsigned limit = 1 + rng_below(rng, ORACLE_CPUS);
    unsigned runs = rng_below(rng, 20);
    for (unsigned r = 0; r < runs; r++) {
        unsigned first = rng_below(rng, limit), length = 1 + rng_below(rng, 100);
        for (unsigned c = first; c < limit && c < first + length; c++) {
            assert_int_equal(cpus_set(set, c), 0);
            oracle->in[c] = true;
        }
    }
    for (unsigned n = rng_below(rng, 50); n; n--) {
        unsigned c = rng_below(rng, limit);
        cpus_clear(set, c);
        oracle->in[c] = false;
    }
}

static void assert_same(const struct cpus *set, const struct oracle *oracle)
{
    unsigned count = 0;
    long next = cpus_next(set, 0);
    for (unsigned c = 0; c < ORACLE_CPUS; c++) {
        assert_int_equal(cpus_isset(set, c), oracle->in[c]);
        if (!oracle->in[c])
            continue;
        count++;
        assert_int_equal(next, c);
        next = cpus_next(set, c + 1);
    }
    assert_int_equal(next, -1);
    assert_int_equal(cpus_count(set), count);
    assert_int_equal(cpus_is_empty(set), count == 0);
}

static void algebra_as_with_arrays(void **state)
{
    (void)state;
    struct rng rng = {20240501};
    for (int round = 0; round < 300; round++) {
        struct cpus a = CPUS_EMPTY, b = CPUS_EMPTY, or = CPUS_EMPTY, and = CPUS_EMPTY,
                    not = CPUS_EMPTY;
        static struct oracle oa, ob, oor, oand, onot;
        memset(&oa, 0, sizeof(oa));
        memset(&ob, 0, sizeof(ob));
        fill(&rng, &a, &oa);
        if (rng_chance(&rng, 80))
            fill(&rng, &b, &ob);
        bool subset = true, meet = false, equal = true;
        for (unsigned c = 0; c < ORACLE_CPUS; c++) {
            oor.in[c] = oa.in[c] || ob.in[c];
            oand.in[c] = oa.in[c] && ob.in[c];
            onot.in[c] = oa.in[c] && !ob.in[c];
            subset = subset && !onot.in[c];
            meet = meet || oand.in[c];
            equal = equal && oa.in[c] == ob.in[c];
        }
        assert_int_equal(cpus_copy(& or, &a), 0);
        assert_int_equal(cpus_or(& or, &b), 0);
        assert_int_equal(cpus_copy(&and, &a), 0);
        cpus_and(&and, &b);
        assert_int_equal(cpus_copy(&not, &a), 0);
        cpus_andnot(&not, &b);
        assert_same(&a, &oa);
        assert_same(&b, &ob);
        assert_same(& or, &oor);
        assert_same(&and, &oand);
        assert_same(&not, &onot);
        assert_int_equal(cpus_is_subset(&a, &b), subset);
        assert_int_equal(cpus_intersects(&a, &b), meet);
        assert_int_equal(cpus_equal(&a, &b), equal);
        assert_true(cpus_is_subset(&and, &a) && cpus_is_subset(&a, & or));
        assert_false(cpus_intersects(&not, &b));
        cpus_free(&a);
        cpus_free(&b);
        cpus_free(& or);
        cpus_free(&and);
        cpus_free(&not );
    }
}

static void lists_of_any_set_read_back(void **state)
{
    (void)state;
    struct rng rng = {7};
    for (int round = 0; round < 200; round++) {
        struct cpus set = CPUS_EMPTY, back = CPUS_EMPTY;
        unsigned limit = round % 2 ? 2048 : CPUS_MAX;
        for (unsigned n = rng_below(&rng, 300); n; n--)
            for (unsigned c = rng_below(&rng, limit), k = rng_below(&rng, 5); k && c < limit; k--)
                assert_int_equal(cpus_set(&set, c++), 0);
        char *text = cpus_to_string(&set);
        assert_int_equal(cpus_parse(&back, text), 0);
        assert_true(cpus_equal(&set, &back));
        char *again = cpus_to_string(&back);
        assert_string_equal(text, again);
        free(text);
        free(again);
        cpus_free(&set);
        cpus_free(&back);
    }
}

static void sets_are_values(void **state)
{
    (void)state;
    struct cpus a = CPUS_EMPTY, b = CPUS_EMPTY;
    assert_int_equal(cpus_set(&a, CPUS_MAX), -1);
    assert_int_equal(errno, ERANGE);
    assert_true(cpus_is_empty(&a));
    assert_int_equal(cpus_set(&a, CPUS_MAX - 1), 0);
    cpus_clear(&a, CPUS_MAX + 5); /* not there: no matter */
    assert_false(cpus_isset(&a, CPUS_MAX + 5));
    assert_int_equal(cpus_next(&a, CPUS_MAX), -1);

    /* A long set with nothing in its upper words equals a short one. */
    cpus_clear(&a, CPUS_MAX - 1);
    assert_int_equal(cpus_set(&a, 1), 0);
    assert_int_equal(cpus_set(&b, 1), 0);
    assert_true(cpus_equal(&a, &b) && cpus_equal(&b, &a));
    assert_true(cpus_is_subset(&a, &b));

    /* A copy over a longer set leaves nothing of it. */
    assert_int_equal(cpus_set(&a, 40000), 0);
    assert_int_equal(cpus_copy(&a, &b), 0);
    assert_int_equal(cpus_count(&a), 1);
    assert_int_equal(cpus_copy(&a, &a), 0);
    cpus_move(&b, &a);
    assert_int_equal(cpus_count(&b), 1);
    assert_true(cpus_is_empty(&a));
    cpus_move(&b, &b);
    assert_int_equal(cpus_count(&b), 1);
    cpus_clear_all(&b);
    assert_true(cpus_is_empty(&b));
    cpus_free(&a);
    cpus_free(&b);
    cpus_free(&b); /* an empty set may be released again */
}

/* ---- affinity ---- */

/* When not 0, the affinity calls meet a kernel with masks of this many CPUs; else the real one. */
static size_t pretended_cpus;
static unsigned long pretended_mask[CPUS_MAX / 8 / sizeof(unsigned long)];

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* As the kernel: a buffer smaller than its masks is refused, and it fills or reads only its own. */
long __wrap_syscall(long number, ...)
{
    va_list args;
    va_start(args, number);
    pid_t tid = va_arg(args, pid_t);
    size_t length = va_arg(args, size_t);
    void *mask = va_arg(args, void *);
    va_end(args);
    if (!pretended_cpus)
        return __real_syscall(number, tid, length, mask);
    size_t own = pretended_cpus / 8;
    if (number == SYS_sched_getaffinity) {
        if (length < own || length % sizeof(unsigned long)) {
            errno = EINVAL;
            return -1;
        }
        memcpy(mask, pretended_mask, own);
        return (long)own;
    }
    assert_int_equal(number, SYS_sched_setaffinity);
    memset(pretended_mask, 0, sizeof(pretended_mask));
    memcpy(pretended_mask, mask, length < own ? length : own);
    return 0;
}

static void affinity_of_this_thread(void **state)
{
    (void)state;
    struct cpus before = CPUS_EMPTY, one = CPUS_EMPTY, now = CPUS_EMPTY;
    assert_int_equal(cpus_get_affinity(0, &before), 0);
    assert_false(cpus_is_empty(&before));
    cpu_set_t libc;
    if (sched_getaffinity(0, sizeof(libc), &libc) == 0)
        for (size_t c = 0; c < CPU_SETSIZE; c++)
            assert_int_equal(cpus_isset(&before, (unsigned)c), CPU_ISSET(c, &libc) != 0);
    assert_int_equal(cpus_set(&one, (unsigned)cpus_next(&before, 0)), 0);
    assert_int_equal(cpus_set_affinity(0, &one), 0);
    assert_int_equal(cpus_get_affinity(0, &now), 0);
    assert_true(cpus_equal(&now, &one));
    assert_int_equal(cpus_set_affinity(0, &before), 0);
    assert_int_equal(cpus_get_affinity(0, &now), 0);
    assert_true(cpus_equal(&now, &before));
    cpus_free(&before);
    cpus_free(&one);
    cpus_free(&now);
}

static void affinity_errors_are_told(void **state)
{
    (void)state;
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_set_affinity(0, &set), -1); /* nowhere to run */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(cpus_set(&set, 9), 0);
    assert_int_equal(cpus_get_affinity(0x3fffffff, &set), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(cpus_count(&set), 1);
    assert_int_equal(cpus_set_affinity(0x3fffffff, &set), -1);
    assert_int_equal(errno, ESRCH);
    cpus_free(&set);
}

static void affinity_on_machines_of_any_size(void **state)
{
    (void)state;
    for (size_t cpus = 64; cpus <= CPUS_MAX; cpus *= 4) {
        struct cpus set = CPUS_EMPTY, back = CPUS_EMPTY;
        pretended_cpus = cpus;
        assert_int_equal(cpus_set(&set, 3), 0);
        assert_int_equal(cpus_set(&set, (unsigned)cpus - 1), 0);
        assert_int_equal(cpus_set_affinity(0, &set), 0);
        assert_int_equal(cpus_get_affinity(0, &back), 0);
        pretended_cpus = 0;
        assert_true(cpus_equal(&set, &back));
        cpus_free(&set);
        cpus_free(&back);
    }
}

/* ---- Slurm's compressed counts ---- */

static void counts_by_index(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned index;
        long value;
    } cases[] = {
        {"8", 0, 8},
        {"8", 1, -1},
        {"8(x2)", 0, 8},
        {"8(x2)", 1, 8},
        {"8(x2)", 2, -1},
        {"2(x3),1", 2, 2},
        {"2(x3),1", 3, 1},
        {"2(x3),1", 4, -1},
        {"4,8(x2),16", 0, 4},
        {"4,8(x2),16", 3, 16},
        {"0", 0, 0},
        {"1(x2147483647),5", 2147483647u, 5},
        {"1(x2147483647),2(x2147483647),3", 4294967294u, 3},
        {NULL, 0, -1},
        {"", 0, -1},
        {"8,", 0, -1},
        {",8", 0, -1},
        {"8(2)", 0, -1},
        {"8(x)", 0, -1},
        {"8(x0)", 0, -1},
        {"8(x2", 0, -1},
        {"8x2", 0, -1},
        {"8(x2)3", 0, -1},
        {"-8", 0, -1},
        {"8 ", 0, -1},
        {"8,nonsense", 0, -1},
        {"99999999999", 0, -1},
        {"1(x99999999999)", 0, -1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        errno = 0;
        assert_int_equal(slurm_count_at(cases[i].text, cases[i].index), cases[i].value);
        assert_int_equal(errno, cases[i].value < 0 ? EINVAL : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_that_are_read),
        cmocka_unit_test(lists_that_are_refused),
        cmocka_unit_test(bytes_end_where_told),
        cmocka_unit_test(format_keeps_to_the_buffer),
        cmocka_unit_test(algebra_as_with_arrays),
        cmocka_unit_test(lists_of_any_set_read_back),
        cmocka_unit_test(sets_are_values),
        cmocka_unit_test(affinity_of_this_thread),
        cmocka_unit_test(affinity_errors_are_told),
        cmocka_unit_test(affinity_on_machines_of_any_size),
        cmocka_unit_test(counts_by_index),
    };
    return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
