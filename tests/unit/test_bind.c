/*
 * Binding, on a /proc tree and masks that the test pretends: who is bound, who is left alone, and
 * how often a mask is set again that somebody else changes. Cases from public reports bear the
 * repository and number of the thread.
 */
#include "config.h"

#include "bind.h"
#include "fake_proc.h"
#include "quota.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SELF         50
#define NOW_MS       1000000u
#define WORKERS      4 /* 110 .. 113, forked by rank 100 */

/* ---- pretended masks: of CPUs 0 to 63 ---- */

#define TIDS_MAX 512
static uint64_t masks[TIDS_MAX];
static unsigned sets; /* calls that changed one */
static int set_error; /* errno of the next ones, 0 none */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    va_list args;
    va_start(args, number);
    pid_t tid = va_arg(args, pid_t);
    size_t length = va_arg(args, size_t);
    void *mask = va_arg(args, void *);
    va_end(args);
    assert_true(tid > 0 && tid < TIDS_MAX);
    if (number == SYS_sched_getaffinity) {
        assert_true(length >= sizeof masks[0]);
        memcpy(mask, &masks[tid], sizeof masks[0]);
        return sizeof masks[0];
    }
    assert_int_equal(number, SYS_sched_setaffinity);
    sets++;
    if (set_error != 0) {
        errno = set_error;
        return -1;
    }
    masks[tid] = 0;
    memcpy(&masks[tid], mask, length < sizeof masks[0] ? length : sizeof masks[0]);
    return 0;
}

static uint64_t bits(const char *list)
{
    struct cpus set = CPUS_EMPTY;
    uint64_t mask = 0;
    assert_int_equal(cpus_parse(&set, list), 0);
    for (long cpu = cpus_next(&set, 0); cpu >= 0; cpu = cpus_next(&set, (unsigned long)cpu + 1))
        mask |= UINT64_C(1) << cpu;
    cpus_free(&set);
    return mask;
}

#define assert_mask(tid, list) assert_int_equal(masks[tid], bits(list))

/* ---- a step: rank 100 with four workers, each with one more thread, on CPUs 0 to 7 ---- */

struct stand {
    struct tasks tasks;
    struct binder binder;
    struct bind_result result;
    uint64_t boot_ms;
};

static struct fake_task task_of(pid_t pid, pid_t tid)
{
    return (struct fake_task){.pid = pid,
                              .tid = tid,
                              .ppid = pid == 100 ? SELF : 100,
                              .start_ticks = 5000,
                              .stack = 4096,
                              .comm = pid != 100 && tid == pid ? "pt_data_worker" : "python",
                              .threads = pid == 100 ? 1 : 2,
                              .program = "python3",
                              .arguments = "python train.py",
                              .cpu_ticks = 10};
}

static void put(pid_t pid, pid_t tid)
{
    struct fake_task t = task_of(pid, tid);
    fake_proc_task(&t);
}

static int set_up(void **state)
{
    static struct stand stand;
    struct rank ranks[1] = {{.pid = 100, .start_ticks = 5000}};
    memset(&stand, 0, sizeof stand);
    (void)fake_proc_begin();
    put(100, 100);
    for (pid_t w = 110; w < 110 + WORKERS; w++) {
        put(w, w);
        put(w, w + 100);
    }
    for (size_t i = 0; i < TIDS_MAX; i++)
        masks[i] = bits("0-7");
    sets = 0;
    set_error = 0;
    assert_int_equal(cpus_parse(&ranks[0].home, "0-7"), 0);
    assert_int_equal(tasks_init(&stand.tasks, fake_proc_root(), ranks, 1, SELF), 0);
    cpus_free(&ranks[0].home);
    binder_init(&stand.binder);
    stand.boot_ms = NOW_MS;
    *state = &stand;
    return 0;
}

static int tear_down(void **state)
{
    struct stand *s = *state;
    binder_free(&s->binder);
    tasks_free(&s->tasks);
    fake_proc_end();
    return 0;
}

static void look(struct stand *s)
{
    s->boot_ms += 1000;
    assert_int_equal(tasks_scan(&s->tasks, TASKS_FULL, s->boot_ms), 0);
    binder_apply(&s->binder, &s->tasks, &s->result);
}

static void assign(struct stand *s, const char *list)
{
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_parse(&set, list != NULL ? list : ""), 0);
    assert_int_equal(binder_target(&s->binder, list == NULL, &set), 0);
    cpus_free(&set);
    look(s);
}

static void assert_workers(const char *list)
{
    for (pid_t w = 110; w < 110 + WORKERS; w++) {
        assert_mask(w, list);
        assert_mask(w + 100, list);
    }
}

/* ---- the tests ---- */

static void there_and_back(void **state)
{
    struct stand *s = *state;
    look(s);
    assert_int_equal(sets, 0); /* on own placement nothing is done */
    assign(s, "4-7,12");
    assert_workers("4-7,12");
    assert_mask(100, "0-7");
    assert_int_equal(s->result.tasks, 2 * WORKERS);
    assert_int_equal(s->result.failed, 0);
    assign(s, NULL);
    assert_workers("0-7");
    assert_int_equal(sets, 2 * 2 * WORKERS);
}

/* A thousand changes: each task once at each, the rank never. */
static void a_thousand_changes(void **state)
{
    struct stand *s = *state;
    for (unsigned i = 0; i < 1000; i++) {
        assign(s, i % 2 == 0 ? "1-3" : "4-7");
        assert_workers(i % 2 == 0 ? "1-3" : "4-7");
    }
    assert_mask(100, "0-7");
    assert_int_equal(sets, 1000 * 2 * WORKERS);
    assert_int_equal(s->binder.failed, 0);
    assert_int_equal(s->binder.drift, 0);
}

/* pytorch/pytorch#99625: after fork all workers sit on the first CPU, all their threads. */
static void squeezed_workers_are_spread(void **state)
{
    struct stand *s = *state;
    for (pid_t w = 110; w < 110 + WORKERS; w++)
        masks[w] = masks[w + 100] = bits("0");
    assign(s, "2-7");
    assert_workers("2-7");
    assert_int_equal(binder_left_alone(&s->tasks), 0);
}

/* pytorch/pytorch#91989: OpenMP has bound the initial thread, and what it forks. */
static void a_bound_main_thread_stays(void **state)
{
    struct stand *s = *state;
    masks[100] = bits("3");
    for (pid_t w = 110; w < 110 + WORKERS; w++)
        masks[w] = masks[w + 100] = bits("3");
    assign(s, "0-7");
    assert_workers("0-7");
    assert_mask(100, "3");
}

/* Two on one CPU that is not the first: nobody chooses that, though the first looked like it. */
static void two_on_one_cpu_are_squeezed(void **state)
{
    struct stand *s = *state;
    for (pid_t w = 110; w < 110 + WORKERS; w++)
        masks[w] = masks[w + 100] = bits("5");
    assign(s, "0-7");
    look(s);
    assert_workers("0-7");
    assert_int_equal(binder_left_alone(&s->tasks), 0);
}

/* pytorch/pytorch#101850, dmlc/dgl#3355: masks that the program has chosen. */
static void own_masks_are_left_alone(void **state)
{
    struct stand *s = *state;
    masks[110] = bits("1-3");
    masks[111] = bits("4");
    masks[112] = bits("5");
    assign(s, "6-7");
    assert_mask(110, "1-3");
    assert_mask(111, "4");
    assert_mask(112, "5");
    assert_mask(113, "6-7");
    assert_mask(210, "6-7"); /* its other thread has chosen nothing */
    assert_int_equal(binder_left_alone(&s->tasks), 3);
    assign(s, "0-1");
    assert_mask(110, "1-3");
    assign(s, NULL);
    assert_mask(110, "1-3");
    assert_mask(113, "0-7");
}

/* huggingface/accelerate: a mask wider than the step is no choice and no error. */
static void a_wider_mask_is_bound(void **state)
{
    struct stand *s = *state;
    for (pid_t w = 110; w < 110 + WORKERS; w++)
        masks[w] = masks[w + 100] = bits("0-31");
    assign(s, "0-3");
    assert_workers("0-3");
}

/* A worker that a bound worker forked has that one's mask: no choice of its own. */
static void inherited_assignments_are_known(void **state)
{
    struct stand *s = *state;
    struct fake_task late = task_of(120, 120);
    assign(s, "2-3");
    assign(s, "4-5");
    late.threads = 1;
    fake_proc_task(&late);
    masks[120] = bits("2-3");
    look(s);
    assert_mask(120, "4-5");
    assign(s, NULL);
    assert_mask(120, "0-7");
}

/* Somebody else sets a mask again and again: a few tries a minute, then it is his. */
static void contended_masks_are_given_up(void **state)
{
    struct stand *s = *state;
    uint64_t now = NOW_MS;
    assign(s, "4-7");
    sets = 0;
    for (unsigned i = 0; i < 30; i++, now += 1000) {
        masks[110] = bits("0-1");
        binder_check(&s->binder, &s->tasks, now);
    }
    assert_int_equal(sets, BIND_TRIES_A_MINUTE);
    assert_mask(110, "0-1");
    assert_mask(111, "4-7");
    assert_int_equal(binder_left_alone(&s->tasks), 1);
    assert_true(s->binder.drift >= BIND_TRIES_A_MINUTE);
    now += BIND_LEAVE_MS; /* much later, once more */
    masks[110] = bits("0-2");
    binder_check(&s->binder, &s->tasks, now);
    assert_mask(110, "4-7");
}

/* moby/moby#37241: what is not permitted is counted and told, without a storm of tries. */
static void refusals_are_counted(void **state)
{
    struct stand *s = *state;
    set_error = EPERM;
    assign(s, "4-7");
    assert_int_equal(s->result.failed, 2 * WORKERS);
    for (unsigned i = 0; i < 20; i++)
        binder_check(&s->binder, &s->tasks, NOW_MS + i * 1000);
    assert_true(sets <= 2 * WORKERS * (1 + BIND_TRIES_A_MINUTE));
    set_error = 0;
    assign(s, "2-7"); /* each assignment is a try */
    assert_workers("2-7");
    assert_int_equal(s->result.failed, 0);
}

/* The number of a worker is another process's now: it keeps its mask. */
static void a_number_in_other_hands(void **state)
{
    struct stand *s = *state;
    struct fake_task other = task_of(111, 111);
    assign(s, "4-7");
    other.start_ticks = 9000;
    other.ppid = 1;
    other.threads = 1;
    other.program = "sshd";
    other.comm = "sshd";
    fake_proc_drop("111");
    fake_proc_task(&other);
    masks[111] = bits("0-7");
    assign(s, "2-3");
    assert_mask(111, "0-7");
    assign(s, NULL);
    assert_mask(111, "0-7");
    assert_mask(110, "0-7");
}

/* Its number may be another's before its mask could be set. */
static void a_worker_that_ends_is_not_touched(void **state)
{
    struct stand *s = *state;
    assign(s, "4-7");
    assert_mask(111, "4-7");
    struct fake_task ended = task_of(111, 111);
    ended.state = 'Z';
    fake_proc_task(&ended);
    assign(s, "2-3");
    assert_mask(111, "4-7");
    assert_mask(110, "2-3");
}

/* ---- quotas ---- */

static void quota_texts(void **state)
{
    static const struct {
        const char *text;
        double cores; /* 0: none */
    } cases[] = {{"400000 100000", 4},
                 {"50000 100000", 0.5},
                 {"max 100000", 0},
                 {"-1 100000", 0},
                 {"", 0},
                 {"400000", 0},
                 {"400000 0", 0},
                 {"x 1", 0},
                 {"150000 100000 5", 1.5}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        double cores = quota_parse(cases[i].text);
        if (cases[i].cores > 0 ? !(cores > cases[i].cores - 1e-9 && cores < cases[i].cores + 1e-9)
                               : cores == cores)
            fail_msg("\"%s\": %f", cases[i].text, cores);
    }
}

/* kubernetes-sigs/inference-perf#722: the least of a group's quota and of those above it. */
static void quota_of_groups(void **state)
{
    static const struct {
        const char *mounts, *groups, *below, *file, *text, *above_file, *above, *period_file;
        double cores;
    } cases[] = {
        {"24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/a/job_1/step_0/user/task_0\n",
         "/sys/fs/cgroup/a/job_1/step_0/user/task_0", "cpu.max", "max 100000\n",
         "/sys/fs/cgroup/a/cpu.max", "250000 100000\n", NULL, 2.5},
        {"24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/a/b\n", "/sys/fs/cgroup/a/b",
         "cpu.max", "max 100000\n", "/sys/fs/cgroup/a/cpu.max", "max 100000\n", NULL, 0},
        {"31 1 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
         "5:cpu,cpuacct:/job\n0::/\n", "/sys/fs/cgroup/cpu,cpuacct/job", "cpu.cfs_quota_us",
         "300000\n", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n",
         "/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", 3},
        {"1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", "/nowhere", "cpu.max", "1 1\n",
         "/nowhere/x", "", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct procfs fs;
        char path[256];
        (void)fake_proc_begin();
        put(100, 100);
        fake_proc_text("/proc/self/mountinfo", cases[i].mounts);
        fake_proc_text("/proc/100/cgroup", cases[i].groups);
        (void)snprintf(path, sizeof path, "%s/%s", cases[i].below, cases[i].file);
        fake_proc_text(path, cases[i].text);
        fake_proc_text(cases[i].above_file, cases[i].above);
        if (cases[i].period_file != NULL)
            fake_proc_text(cases[i].period_file, "100000\n");
        assert_int_equal(procfs_open(&fs, fake_proc_root()), 0);
        double cores = quota_cores(&fs, 100);
        if (cases[i].cores > 0 ? !(cores > cases[i].cores - 1e-9 && cores < cases[i].cores + 1e-9)
                               : cores == cores)
            fail_msg("case %zu: %f", i, cores);
        procfs_close(&fs);
        fake_proc_end();
    }
}

#define STAND(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAND(there_and_back),
        STAND(a_thousand_changes),
        STAND(squeezed_workers_are_spread),
        STAND(a_bound_main_thread_stays),
        STAND(two_on_one_cpu_are_squeezed),
        STAND(own_masks_are_left_alone),
        STAND(a_wider_mask_is_bound),
        STAND(inherited_assignments_are_known),
        STAND(contended_masks_are_given_up),
        STAND(refusals_are_counted),
        STAND(a_number_in_other_hands),
        STAND(a_worker_that_ends_is_not_touched),
        cmocka_unit_test(quota_texts),
        cmocka_unit_test(quota_of_groups),
    };
    return cmocka_run_group_tests_name("bind", tests, NULL, NULL);
}
