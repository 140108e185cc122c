/*
 * The cpusets on a step's path, on file trees laid out as cgroup version 1 and 2 do: what is
 * written where, in which order it may be, what several steps of a job need, and what is put back
 * after others or a crash.
 */
#include "config.h"

#include "cpuset.h"
#include "steprecord.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define V1    "/sys/fs/cgroup/cpuset/slurm_n1"
#define SCOPE "/sys/fs/cgroup/system.slice/n1_slurmstepd.scope"

struct world {
    char root[64];
    struct procfs fs;
    struct nodedir node;
};

static void make_directories(const char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(part, 0755);
        *p = '/';
    }
}

/* Write ROOT/path with its directories. */
static void put(const struct world *w, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", w->root, path);
    make_directories(full);
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* The set in ROOT/directory as a list; "-" if the file is missing. */
static const char *got(const struct world *w, const char *directory)
{
    static char text[4][256];
    static unsigned turn;
    char full[512];
    char *buf = text[turn++ % 4];
    snprintf(full, sizeof full, "%s%s/cpuset.cpus", w->root, directory);
    FILE *file = fopen(full, "r");
    if (file == NULL)
        return "-";
    if (fgets(buf, 256, file) == NULL)
        buf[0] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    fclose(file);
    return buf;
}

static void level(const struct world *w, const char *directory, const char *cpus)
{
    char path[512];
    snprintf(path, sizeof path, "%s/cpuset.cpus", directory);
    put(w, path, cpus);
}

static void process(const struct world *w, int pid, const char *cgroup)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    put(w, path, cgroup);
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    snprintf(text, sizeof text,
             "%d (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
             pid);
    put(w, path, text);
}

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char path[128];
    if (w == NULL)
        return -1;
    snprintf(w->root, sizeof w->root, "/tmp/adl-cpuset-XXXXXX");
    if (mkdtemp(w->root) == NULL)
        return -1;
    put(w, "/proc/self/mountinfo",
        "30 1 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "31 1 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put(w, "/proc/sys/kernel/random/boot_id", "b007\n");
    put(w, "/sys/devices/system/cpu/online", "0-5,7\n");
    process(w, (int)getpid(), "0::/\n");
    snprintf(path, sizeof path, "%s/run", w->root);
    if (procfs_open(&w->fs, w->root) < 0 || nodedir_open(&w->node, path, "n1") < 0)
        return -1;
    *state = w;
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
    nodedir_close(&w->node);
    procfs_close(&w->fs);
    int rc = nftw(w->root, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
    free(w);
    return rc;
}

static void version1(const struct world *w)
{
    level(w, "/sys/fs/cgroup/cpuset", "0-7\n");
    level(w, V1, "0-7\n");
    level(w, V1 "/uid_0", "0-7\n");
    level(w, V1 "/uid_0/job_1", "0-1\n");
    level(w, V1 "/uid_0/job_1/step_0", "0-1\n");
    level(w, V1 "/uid_0/job_1/step_1", "1\n");
    level(w, V1 "/uid_0/job_2", "2-3\n");
    level(w, V1 "/uid_0/job_2/step_0", "2-3\n");
    process(w, 100, "5:cpuset:/slurm_n1/uid_0/job_1/step_0\n3:freezer:/x\n0::/\n");
    process(w, 101, "5:cpuset:/slurm_n1/uid_0/job_1/step_1\n0::/\n");
}

static void version2(const struct world *w)
{
    level(w, "/sys/fs/cgroup", "0-7\n");
    level(w, SCOPE, "\n");
    level(w, SCOPE "/job_1", "0-1\n");
    level(w, SCOPE "/job_1/step_0", "\n");
    level(w, SCOPE "/job_1/step_0/user", "0-1\n");
    level(w, SCOPE "/job_1/step_0/user/task_0", "\n");
    level(w, SCOPE "/job_1/step_0/slurm", "\n");
    level(w, SCOPE "/job_1/step_1/user", "1\n");
    process(w, 100, "0::/system.slice/n1_slurmstepd.scope/job_1/step_0/user/task_0\n");
    process(w, 101, "0::/system.slice/n1_slurmstepd.scope/job_1/step_1/user/task_0\n");
}

static struct cpus list(const char *text)
{
    struct cpus set = CPUS_EMPTY;
    assert_int_equal(cpus_parse(&set, text), 0);
    return set;
}

static int widen(struct cpuset *set, const char *cpus)
{
    struct cpus c = list(cpus);
    int rc = cpuset_widen(set, &c);
    cpus_free(&c);
    return rc;
}

static int narrow(struct cpuset *set, const char *keep)
{
    struct cpus c = list(keep);
    int rc = cpuset_narrow(set, &c);
    cpus_free(&c);
    return rc;
}

static bool check_again(struct cpuset *set, const char *wanted)
{
    struct cpus c = list(wanted);
    bool yes = cpuset_check(set, &c);
    cpus_free(&c);
    return yes;
}

static unsigned records(struct world *w)
{
    unsigned n = 0;
    for (uint32_t job = 0; job < 4; job++)
        for (uint32_t step = 0; step < 4; step++) {
            char name[64];
            snprintf(name, sizeof name, "%u.%u.cpuset", (unsigned)job, (unsigned)step);
            n += faccessat(w->node.fd, name, F_OK, 0) == 0;
        }
    return n;
}

/* ---- one step ---- */

static void grows_and_shrinks_v1(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version1(w);
    level(w, V1 "/uid_0/job_1/step_0/task_0", "0-1\n");
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_true(set.available);
    assert_int_equal(set.nlevels, 3);
    assert_int_equal(widen(&set, "0-1,3"), 0);
    assert_string_equal(got(w, V1 "/uid_0"), "0-7");
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1,3");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1,3");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0/task_0"), "0-1,3");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "1");
    assert_string_equal(got(w, V1 "/uid_0/job_2"), "2-3");
    assert_int_equal(records(w), 1);
    assert_int_equal(narrow(&set, "0-1"), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0/task_0"), "0-1");
    assert_int_equal(records(w), 0);
    cpuset_free(&set);
}

static void narrow_user_level_v1(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version1(w);
    level(w, V1 "/uid_0", "0-3\n");
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_int_equal(widen(&set, "4"), 0);
    assert_string_equal(got(w, V1 "/uid_0"), "0-4");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1,4");
    assert_int_equal(cpuset_narrow(&set, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0"), "0-3");
    cpuset_free(&set);
}

static void grows_and_shrinks_v2(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version2(w);
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_true(set.available && set.version2);
    assert_int_equal(widen(&set, "2-3"), 0);
    assert_string_equal(got(w, SCOPE), "");
    assert_string_equal(got(w, SCOPE "/job_1"), "0-3");
    assert_string_equal(got(w, SCOPE "/job_1/step_0"), ""); /* inherits, and goes on doing so */
    assert_string_equal(got(w, SCOPE "/job_1/step_0/user"), "0-3");
    assert_string_equal(got(w, SCOPE "/job_1/step_0/user/task_0"), "");
    assert_string_equal(got(w, SCOPE "/job_1/step_0/slurm"), "");
    assert_string_equal(got(w, SCOPE "/job_1/step_1/user"), "1");
    assert_int_equal(narrow(&set, "2"), 0); /* one of two goes back */
    assert_string_equal(got(w, SCOPE "/job_1"), "0-2");
    assert_string_equal(got(w, SCOPE "/job_1/step_0/user"), "0-2");
    assert_int_equal(records(w), 1);
    assert_int_equal(cpuset_narrow(&set, NULL), 0);
    assert_string_equal(got(w, SCOPE "/job_1"), "0-1");
    assert_string_equal(got(w, SCOPE "/job_1/step_0/user"), "0-1");
    assert_int_equal(records(w), 0);
    cpuset_free(&set);
}

/* 26.05 calls the job's directory by another name. */
static void follows_other_names(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    level(w, "/sys/fs/cgroup", "0-7\n");
    level(w, SCOPE "/sBF1M8KJG60C00", "0\n");
    level(w, SCOPE "/sBF1M8KJG60C00/step_batch/user", "0\n");
    process(w, 100, "0::/system.slice/n1_slurmstepd.scope/sBF1M8KJG60C00/step_batch/user/task_0\n");
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0xfffffffb);
    assert_int_equal(widen(&set, "5"), 0);
    assert_string_equal(got(w, SCOPE "/sBF1M8KJG60C00"), "0,5");
    assert_string_equal(got(w, SCOPE "/sBF1M8KJG60C00/step_batch/user"), "0,5");
    cpuset_free(&set);
}

static void stays_within_what_is_there(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version1(w);
    level(w, V1, "0-4\n"); /* CPUs kept for the system, as CpuSpecList does */
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_int_equal(widen(&set, "3,5"), -1);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1,3");
    level(w, V1, "0-7\n");
    assert_int_equal(widen(&set, "6-7"), -1); /* 6 is offline */
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1,3,7");
    assert_int_equal(cpuset_narrow(&set, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    cpuset_free(&set);
}

static void nothing_confines(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    static const char *const groups[] = {
        "0::/\n",
        "5:cpuset:/\n0::/system.slice/slurmd.service\n",
        "5:cpuset:/slurm_n1/uid_0/job_9/step_0\n", /* its directory is missing */
        "0::/system.slice/n1_slurmstepd.scope/step_0\n",
        "4:freezer:/slurm_n1/uid_0/job_1/step_0\n",
    };
    version1(w);
    level(w, SCOPE "/step_0", "0\n"); /* a step right below Slurm's own directory is none */
    for (unsigned i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        process(w, 200, groups[i]);
        cpuset_init(&set, &w->fs, 200, &w->node, 9, 0);
        assert_false(set.available);
        assert_int_equal(widen(&set, "0-7"), -1);
        assert_int_equal(cpuset_narrow(&set, NULL), 0);
        assert_false(check_again(&set, "0-7"));
        cpuset_free(&set);
    }
    assert_string_equal(got(w, SCOPE "/step_0"), "0");
    assert_int_equal(records(w), 0);
}

/* ---- several steps of a job ---- */

static void shared_level_keeps_what_others_need(void **state)
{
    struct world *w = *state;
    struct cpuset a, b;
    version1(w);
    cpuset_init(&a, &w->fs, 100, &w->node, 1, 0);
    cpuset_init(&b, &w->fs, 101, &w->node, 1, 1);
    assert_int_equal(widen(&a, "2-3"), 0);
    assert_int_equal(widen(&b, "3-4"), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-4");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "1,3-4");
    assert_int_equal(cpuset_narrow(&a, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1,3-4"); /* 3 was a's first */
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    assert_int_equal(cpuset_narrow(&b, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "1");
    cpuset_free(&a);
    cpuset_free(&b);
}

/* Within a job, a step borrows what the job's level has anyway: that stays when it goes back. */
static void within_a_job(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version1(w);
    cpuset_init(&set, &w->fs, 101, &w->node, 1, 1);
    assert_int_equal(widen(&set, "0-1"), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "0-1");
    assert_int_equal(cpuset_narrow(&set, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "1");
    cpuset_free(&set);
}

/* ---- others write, too ---- */

static void external_rewrite_is_repaired(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version2(w);
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_int_equal(widen(&set, "2"), 0);
    assert_false(check_again(&set, "0-2"));
    level(w, SCOPE "/job_1", "0-1\n"); /* as Slurm does when it starts another step */
    put(w, SCOPE "/job_1/step_0/user/cpuset.cpus.effective", "0-1\n");
    assert_int_equal(widen(&set, "2"), -1); /* the kernel's word is still the old one */
    assert_string_equal(got(w, SCOPE "/job_1"), "0-2");
    put(w, SCOPE "/job_1/step_0/user/cpuset.cpus.effective", "0-2\n");
    level(w, SCOPE "/job_1/step_0/user", "0-1\n");
    put(w, SCOPE "/job_1/step_0/user/cpuset.cpus.effective", "");
    assert_true(check_again(&set, "0-2"));
    assert_int_equal(set.repairs, 1);
    assert_string_equal(got(w, SCOPE "/job_1/step_0/user"), "0-2");
    assert_false(check_again(&set, "0-2"));
    assert_int_equal(cpuset_narrow(&set, NULL), 0);
    assert_string_equal(got(w, SCOPE "/job_1"), "0-1");
    assert_string_equal(got(w, SCOPE "/job_1/step_0/user"), "0-1");
    cpuset_free(&set);
}

static void vanished_levels_are_no_error(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    char path[256];
    version1(w);
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_int_equal(widen(&set, "2"), 0);
    snprintf(path, sizeof path, "%s" V1 "/uid_0/job_1/step_0/cpuset.cpus", w->root);
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(cpuset_narrow(&set, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    assert_int_equal(records(w), 0);
    cpuset_free(&set);
}

/* Nothing that was there before is taken, even if all else is: a set never becomes empty. */
static void never_empty(void **state)
{
    struct world *w = *state;
    struct cpuset set;
    version1(w);
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    assert_int_equal(widen(&set, "2"), 0);
    level(w, V1 "/uid_0/job_1/step_0", "2\n"); /* somebody has made it so */
    assert_int_equal(cpuset_narrow(&set, NULL), -1);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "2");
    assert_int_equal(records(w), 1);
    level(w, V1 "/uid_0/job_1/step_0", "0-2\n");
    assert_false(check_again(&set, "0-1")); /* takes back what could not be before */
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    assert_int_equal(records(w), 0);
    cpuset_free(&set);
}

/* ---- while Slurm starts a step ---- */

static void makes_way_for_a_start(void **state)
{
    struct world *w = *state;
    struct nodedir starter;
    struct cpuset a, b;
    char path[128];
    version1(w);
    snprintf(path, sizeof path, "%s/run", w->root);
    assert_int_equal(nodedir_open(&starter, path, "n1"), 0);
    cpuset_init(&a, &w->fs, 100, &w->node, 1, 0);
    cpuset_init(&b, &w->fs, 101, &w->node, 1, 1);
    assert_int_equal(widen(&a, "2"), 0);
    assert_int_equal(widen(&b, "2-3"), 0);
    nodedir_start_begin(&starter, 1);
    cpuset_make_way(&starter, 1);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "1");
    assert_int_equal(records(w), 2);
    assert_true(nodedir_starting(&w->node, 1));
    assert_false(nodedir_starting(&w->node, 2));
    assert_false(check_again(&a, "0-2")); /* not now */
    assert_int_equal(widen(&b, "4"), -1);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    nodedir_start_end(&starter, 1);
    assert_true(check_again(&a, "0-2"));
    assert_true(check_again(&b, "1-3"));
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-3");
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-2");
    assert_int_equal(cpuset_narrow(&b, NULL), 0);
    assert_int_equal(cpuset_narrow(&a, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    cpuset_free(&a);
    cpuset_free(&b);
    nodedir_close(&starter);
}

/* ---- crashes ---- */

/* Run fn in a process of its own, which ends without cleaning up. */
static void in_another(struct world *w, void (*fn)(struct world *w))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        process(w, (int)getpid(), "0::/\n");
        fn(w);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    char path[128];
    snprintf(path, sizeof path, "%s/proc/%d/stat", w->root, (int)pid);
    (void)unlink(path); /* it is dead in this world, too */
}

static void widen_and_die(struct world *w)
{
    struct cpuset set;
    cpuset_init(&set, &w->fs, 100, &w->node, 1, 0);
    (void)widen(&set, "2-3");
    if (!nodedir_lock(&w->node, 0)) /* and with the lock held */
        _exit(1);
}

static void dead_steps_are_mended(void **state)
{
    struct world *w = *state;
    struct cpuset b;
    version1(w);
    cpuset_init(&b, &w->fs, 101, &w->node, 1, 1);
    assert_int_equal(widen(&b, "3"), 0);
    assert_int_equal(cpuset_mend(&w->node, &w->fs), 0); /* nobody is dead */
    in_another(w, widen_and_die);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-3");
    assert_int_equal(cpuset_mend(&w->node, &w->fs), 1);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1,3"); /* b lives */
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_1"), "1,3");
    assert_int_equal(records(w), 1);
    assert_int_equal(cpuset_narrow(&b, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1");
    cpuset_free(&b);
}

static void records_of_another_boot_touch_nothing(void **state)
{
    struct world *w = *state;
    version1(w);
    in_another(w, widen_and_die);
    put(w, "/proc/sys/kernel/random/boot_id", "b008\n");
    assert_int_equal(cpuset_mend(&w->node, &w->fs), 1);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-3"); /* as this boot made it */
    assert_int_equal(records(w), 0);
}

static void one_that_does_not_answer(void **state)
{
    struct world *w = *state;
    struct cpuset a;
    version1(w);
    cpuset_init(&a, &w->fs, 100, &w->node, 1, 0);
    assert_int_equal(widen(&a, "2-3"), 0);
    struct cpus two = list("2");
    cpuset_take(&w->node, 1, 0, &two);
    cpus_free(&two);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1,3");
    assert_string_equal(got(w, V1 "/uid_0/job_1"), "0-1,3");
    assert_int_equal(cpuset_narrow(&a, NULL), 0);
    assert_string_equal(got(w, V1 "/uid_0/job_1/step_0"), "0-1");
    cpuset_free(&a);
}

static void odd_records_are_left_alone(void **state)
{
    struct world *w = *state;
    static const char *const texts[] = {
        "",
        "adloader-cpuset 2\n",
        "adloader-cpuset 1\nlevel 0-3\n",
        "adloader-cpuset 1\nlevel x /sys\n",
        "adloader-cpuset 1\nlevel 1 sys\n",
        "adloader-cpuset 1\nwhat\n",
        "adloader-cpuset 1\nlevel - /a\nlevel - /a\nlevel - /a\nlevel - /a\nlevel - /a\n",
    };
    version1(w);
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put(w, "/run/node/n1/1.0.cpuset", texts[i]);
        assert_int_equal(cpuset_mend(&w->node, &w->fs), 0);
        assert_int_equal(records(w), 1);
    }
    put(w, "/run/node/n1/1.0.cpuset.old", "adloader-cpuset 1\n"); /* not a record's name */
    assert_int_equal(unlinkat(w->node.fd, "1.0.cpuset", 0), 0);
    assert_int_equal(cpuset_mend(&w->node, &w->fs), 0);
}

/* ---- the directory ---- */

static void directory_is_ours_alone(void **state)
{
    struct world *w = *state;
    struct nodedir dir;
    struct stat st;
    char path[128], below[160];
    assert_int_equal(fstat(w->node.fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/open", w->root);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(nodedir_open(&dir, path, "n1"), -1);
    assert_int_equal(dir.fd, -1);
    assert_false(nodedir_lock(&dir, 0));
    assert_false(nodedir_starting(&dir, 1));
    assert_int_equal(chmod(path, 0755), 0);
    snprintf(below, sizeof below, "%s/node", path);
    assert_int_equal(symlink("/tmp", below), 0); /* a link in its place is not followed */
    assert_int_equal(nodedir_open(&dir, path, "n1"), -1);
    assert_int_equal(unlink(below), 0);
    assert_int_equal(nodedir_open(&dir, path, "../../etc"), 0);
    nodedir_close(&dir);
    snprintf(below, sizeof below, "%s/etc", w->root);
    assert_int_equal(access(below, F_OK), -1);
}

static void lock_is_one_at_a_time(void **state)
{
    struct world *w = *state;
    struct nodedir other;
    char path[128];
    snprintf(path, sizeof path, "%s/run", w->root);
    assert_int_equal(nodedir_open(&other, path, "n1"), 0);
    assert_true(nodedir_lock(&w->node, 0));
    assert_false(nodedir_lock(&other, 5));
    nodedir_unlock(&w->node);
    assert_true(nodedir_lock(&other, 0));
    nodedir_close(&other); /* its end ends the lock */
    assert_true(nodedir_lock(&w->node, 0));
    nodedir_unlock(&w->node);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(grows_and_shrinks_v1),
        CASE(narrow_user_level_v1),
        CASE(grows_and_shrinks_v2),
        CASE(follows_other_names),
        CASE(stays_within_what_is_there),
        CASE(nothing_confines),
        CASE(shared_level_keeps_what_others_need),
        CASE(within_a_job),
        CASE(external_rewrite_is_repaired),
        CASE(vanished_levels_are_no_error),
        CASE(never_empty),
        CASE(makes_way_for_a_start),
        CASE(dead_steps_are_mended),
        CASE(records_of_another_boot_touch_nothing),
        CASE(one_that_does_not_answer),
        CASE(odd_records_are_left_alone),
        CASE(directory_is_ours_alone),
        CASE(lock_is_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
