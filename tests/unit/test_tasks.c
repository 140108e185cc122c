/*
 * The inventory over /proc trees that this test lays out: cgroups version 1, version 2, hybrid,
 * none; processes that come, go, exec and change their names; hostile names.
 */
#include "config.h"

#include "own.h"
#include "tasks.h"

#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SELF         50 /* slurmstepd */
#define OLD_MS       (1000u * 1000u)

/* ---- laying out a tree ---- */

static char root[64];

static void put(const char *path, const char *format, ...)
{
    char full[512], text[8192];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *p = full + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = '\0';
        (void)mkdir(full, 0755);
        *p = '/';
    }
    /* who has the old file open finds it empty: the nearest that a disk comes to a task's end */
    if (truncate(full, 0) < 0 || unlink(full) < 0)
        assert_int_equal(errno, ENOENT);
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void put_bytes(const char *path, const char *bytes, size_t length)
{
    char full[512];
    put(path, "");
    snprintf(full, sizeof full, "%s%s", root, path);
    FILE *f = fopen(full, "w");
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    fclose(f);
}

struct fake {
    pid_t pid, ppid;
    uint64_t start;
    const char *comm, *program, *arguments, *cgroup;
    unsigned threads;
};

static void put_stat(const char *path, pid_t id, const struct fake *p, const char *comm)
{
    put(path,
        "%d (%s) S %d 1 1 0 -1 4194304 0 0 0 0 10 5 0 0 20 0 %u 0 %llu 0 0 18446744073709551615 "
        "0\n",
        (int)id, comm, (int)p->ppid, p->threads > 0 ? p->threads : 1, (unsigned long long)p->start);
}

static void put_thread(const struct fake *p, pid_t tid, const char *comm)
{
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)p->pid, (int)tid);
    put_stat(path, tid, p, comm);
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)p->pid, (int)tid);
    put(path, "1000000 2000000 3\n");
}

static void put_process(const struct fake *p)
{
    char path[128], link[256], target[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)p->pid);
    put_stat(path, p->pid, p, p->comm);
    put_thread(p, p->pid, p->comm);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)p->pid);
    put_bytes(path, p->arguments, strlen(p->arguments) + 1);
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)p->pid);
    put(path, "%s", p->cgroup != NULL ? p->cgroup : "0::/\n");
    snprintf(path, sizeof path, "/bin/%s", p->program);
    put(path, "program");
    snprintf(target, sizeof target, "%s/bin/%s", root, p->program);
    snprintf(link, sizeof link, "%s/proc/%d/exe", root, (int)p->pid);
    (void)unlink(link);
    assert_int_equal(symlink(target, link), 0);
}

static int drop_entry(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

static void drop(const char *path)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", root, path);
    (void)nftw(full, drop_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/adl-test-tasks-XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    drop("");
    return 0;
}

/* ---- a step: rank 100, its workers 110 and 111, a stranger 200; slurmstepd is 50 ---- */

static const char v2_mounts[] = "24 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
static const char v1_mounts[] =
    "30 1 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "31 30 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:24 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
    "33 30 0:25 / /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw\n";

struct layout {
    const char *name, *mounts;
    const char *task, *stranger, *daemon;        /* /proc/PID/cgroup of each */
    const char *step_directory, *task_directory; /* where the pids are listed; NULL none */
    bool children;                               /* the kernel lists the children of threads */
};

static const struct layout layouts[] = {
    {"v2 of 22.05", v2_mounts,
     "0::/system.slice/n1_slurmstepd.scope/job_1/step_0/user/task_special\n",
     "0::/system.slice/n1_slurmstepd.scope/job_2/step_0/user/task_special\n",
     "0::/system.slice/n1_slurmstepd.scope/job_1/step_0/slurm\n",
     "/sys/fs/cgroup/system.slice/n1_slurmstepd.scope/job_1/step_0/user",
     "/sys/fs/cgroup/system.slice/n1_slurmstepd.scope/job_1/step_0/user/task_special", false},
    {"v2 of 26.05", v2_mounts,
     "0::/system.slice/slurmstepd.scope/sBF1M8KJG60C00/step_0/user/task_0\n",
     "0::/system.slice/slurmstepd.scope/sBF1M8KJG60C01/step_0/user/task_0\n",
     "0::/system.slice/slurmstepd.scope/sBF1M8KJG60C00/step_0/slurm\n",
     "/sys/fs/cgroup/system.slice/slurmstepd.scope/sBF1M8KJG60C00/step_0/user",
     "/sys/fs/cgroup/system.slice/slurmstepd.scope/sBF1M8KJG60C00/step_0/user/task_0", false},
    {"v1, hybrid", v1_mounts,
     "9:name=systemd:/\n5:cpu,cpuacct:/\n4:freezer:/slurm_n1/uid_0/job_1/step_batch\n0::/\n",
     "9:name=systemd:/\n5:cpu,cpuacct:/\n4:freezer:/slurm_n1/uid_0/job_1/step_batch2\n0::/\n",
     "9:name=systemd:/\n5:cpu,cpuacct:/\n4:freezer:/slurm_n1/uid_0/job_1\n0::/\n",
     "/sys/fs/cgroup/freezer/slurm_n1/uid_0/job_1/step_batch", NULL, false},
    {"v1, several controllers", v1_mounts,
     "5:cpu,cpuacct:/slurm/uid_0/job_1/step_3/task_0\n4:freezer:/\n",
     "5:cpu,cpuacct:/slurm/uid_0/job_1/step_30/task_0\n4:freezer:/\n",
     "5:cpu,cpuacct:/slurm/uid_0/job_1\n4:freezer:/\n",
     "/sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_1/step_3",
     "/sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_1/step_3/task_0", false},
    {"no groups", "1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", "0::/\n", "0::/\n", NULL, NULL,
     false},
    {"no groups, children listed", "1 1 0:1 / / rw - ext4 /dev/vda rw\n", "0::/\n", "0::/\n",
     "0::/\n", NULL, NULL, true},
};

static void list_pids(const struct layout *l, const char *pids)
{
    char path[512];
    if (l->step_directory == NULL)
        return;
    const char *user = strstr(l->step_directory, "/user");
    if (user != NULL) { /* slurmstepd and its helpers have a group beside the tasks' */
        snprintf(path, sizeof path, "%.*s/slurm/cgroup.procs", (int)(user - l->step_directory),
                 l->step_directory);
        put(path, "50\n51\n");
    }
    snprintf(path, sizeof path, "%s/cgroup.procs", l->step_directory);
    put(path, "%s", l->task_directory == NULL ? pids : "");
    if (l->task_directory == NULL)
        return;
    snprintf(path, sizeof path, "%s/cgroup.procs", l->task_directory);
    put(path, "%s", pids);
}

static struct fake rank_process(const struct layout *l)
{
    return (struct fake){100, SELF, 5000, "python", "python3", "python train.py", l->task, 3};
}

static struct fake worker_process(const struct layout *l, pid_t pid)
{
    return (struct fake){pid, 100, 6000, "python", "python3", "python train.py", l->task, 1};
}

static void lay_out(const struct layout *l)
{
    struct fake daemon = {SELF, 1, 10, "slurmstepd", "slurmstepd", "slurmstepd", l->daemon, 1};
    struct fake rank = rank_process(l), stranger = rank;
    struct fake first = worker_process(l, 110), second = worker_process(l, 111);
    put("/proc/self/mountinfo", "%s", l->mounts);
    stranger.pid = 200;
    stranger.ppid = 60;
    stranger.cgroup = l->stranger;
    put_process(&daemon);
    daemon.pid = 51;
    put_process(&daemon);
    put_process(&rank);
    put_thread(&rank, 101, "pt_data_pin");
    put_thread(&rank, 102, "[DALI][TP0]Thre");
    put_process(&first);
    put_process(&second);
    put_process(&stranger);
    list_pids(l, "111\n100\n110\n110\n");
    if (!l->children)
        return;
    put("/proc/50/task/50/children", "100 ");
    put("/proc/100/task/100/children", "110 ");
    put("/proc/100/task/101/children", "111 "); /* forked by another thread than the main one */
    put("/proc/100/task/102/children", "");
    put("/proc/110/task/110/children", "");
    put("/proc/111/task/111/children", "");
}

static void open_tasks(struct tasks *t)
{
    struct rank ranks[1] = {{.pid = 100, .start_ticks = 5000}};
    assert_int_equal(cpus_parse(&ranks[0].home, "0-7"), 0);
    assert_int_equal(tasks_init(t, root, ranks, 1, SELF), 0);
    cpus_free(&ranks[0].home);
}

static int class_of(const struct tasks *t, pid_t tid)
{
    const struct task *task = tasks_task(t, tid);
    return task != NULL ? (int)task->class : -1;
}

/* ---- the tests ---- */

/* A first scan, after which every process is known to work itself, and another. */
static void see_them_work(struct tasks *t, uint64_t boot_ms)
{
    assert_int_equal(tasks_scan(t, TASKS_FULL, boot_ms), 0);
    for (size_t i = 0; i < t->nprocesses; i++)
        t->processes[i].works_itself = true;
    assert_int_equal(tasks_scan(t, TASKS_FULL, boot_ms), 0);
}

static void every_layout_gives_the_same_answer(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct tasks t;
        lay_out(&layouts[i]);
        open_tasks(&t);
        if (t.grouped != (layouts[i].step_directory != NULL))
            fail_msg("%s: grouped %d", layouts[i].name, (int)t.grouped);
        see_them_work(&t, OLD_MS); /* threads are known from the first scan, asked at the second */
        if (t.nprocesses != 3 || t.ntasks != 5 || t.nloaders != 3)
            fail_msg("%s: %zu processes, %zu tasks, %zu loaders", layouts[i].name, t.nprocesses,
                     t.ntasks, t.nloaders);
        assert_int_equal(class_of(&t, 100), TASK_OTHER);
        assert_int_equal(class_of(&t, 101), TASK_OTHER);
        assert_int_equal(class_of(&t, 102), TASK_LOADER);
        assert_int_equal(class_of(&t, 110), TASK_LOADER);
        assert_int_equal(class_of(&t, 111), TASK_LOADER);
        assert_int_equal(class_of(&t, 200), -1);
        assert_int_equal(class_of(&t, SELF), -1);
        assert_int_equal(tasks_workers(&t), 3);
        assert_true(tasks_belongs(&t, 110));
        assert_false(tasks_belongs(&t, 200)); /* step_batch2 is not step_batch */
        assert_false(tasks_belongs(&t, SELF));
        assert_false(tasks_belongs(&t, 9999));
        tasks_free(&t);
        drop("");
        assert_int_equal(mkdir(root, 0700), 0);
    }
}

static void workers_come_and_go(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct tasks t;
    lay_out(l);
    open_tasks(&t);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    struct task *task = tasks_task(&t, 110);
    task->placed = PLACED_ASSIGNED; /* what bind.c notes down stays with the task ... */
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(tasks_task(&t, 110)->placed, PLACED_ASSIGNED);
    struct fake other = worker_process(l, 110);
    other.start = 7000; /* ... and not with the number */
    put_process(&other);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(tasks_task(&t, 110)->placed, PLACED_UNTOUCHED);
    list_pids(l, "100\n110\n");
    drop("/proc/111");
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_null(tasks_task(&t, 111));
    drop("/proc/110"); /* still listed, but gone when it is looked at */
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(t.nprocesses, 1);
    tasks_free(&t);
}

/* Without groups the numbers are all there is: one in other hands must lead nowhere. */
static void a_number_in_other_hands(void **state)
{
    (void)state;
    for (size_t i = 4; i < COUNT(layouts); i++) {
        struct tasks t;
        struct fake worker = worker_process(&layouts[i], 110), strangers = worker, rank;
        lay_out(&layouts[i]);
        open_tasks(&t);
        assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
        assert_non_null(tasks_process(&t, 110));
        strangers.pid = 300; /* 110 is somebody else's now, with a child */
        worker.ppid = 200;
        worker.start = 9000;
        strangers.ppid = 110;
        put_process(&worker);
        put_process(&strangers);
        put("/proc/100/task/100/children", "");
        put("/proc/110/task/110/children", "300 ");
        put("/proc/300/task/300/children", "");
        assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
        assert_null(tasks_process(&t, 110));
        assert_null(tasks_process(&t, 300));
        assert_non_null(tasks_process(&t, 100));
        rank = rank_process(&layouts[i]);
        rank.start = 9000;
        put_process(&rank);
        put("/proc/100/task/100/children", "110 ");
        assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
        assert_null(tasks_process(&t, 100));
        assert_null(tasks_process(&t, 110));
        tasks_free(&t);
        drop("");
        assert_int_equal(mkdir(root, 0700), 0);
    }
}

static void the_young_are_looked_at_again(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct tasks t;
    lay_out(l);
    open_tasks(&t);
    uint64_t born_ms = 6000 * 1000u / (uint64_t)sysconf(_SC_CLK_TCK);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, born_ms + 5), 0);
    assert_true(t.undecided);
    assert_int_equal(class_of(&t, 110), TASK_UNDECIDED);
    assert_int_equal(t.nloaders, 1);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, born_ms + 500), 0);
    assert_true(t.undecided); /* a rank, or a worker? that of one that works is a worker */
    tasks_process(&t, 100)->works_itself = true;
    struct fake execed = worker_process(l, 111); /* this one was on its way to another program */
    execed.comm = execed.program = "wandb";
    execed.arguments = "wandb service";
    put_process(&execed);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, born_ms + 500), 0);
    assert_false(t.undecided);
    assert_int_equal(class_of(&t, 110), TASK_LOADER);
    assert_int_equal(class_of(&t, 111), TASK_OTHER);
    tasks_free(&t);
}

static void a_thread_may_get_its_name_late(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct tasks t;
    struct fake rank = rank_process(l);
    lay_out(l);
    put_thread(&rank, 103, "python");
    open_tasks(&t);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(class_of(&t, 103), TASK_OTHER);
    put_thread(&rank, 103, "adl-loader");
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(class_of(&t, 103), TASK_LOADER);
    tasks_free(&t);
}

/* A launcher that forks its ranks: they have workers of their own, and are none. */
static void forked_ranks_are_no_loaders(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct tasks t;
    lay_out(l);
    struct fake grandchild = worker_process(l, 120);
    grandchild.ppid = 110;
    put_process(&grandchild);
    list_pids(l, "100\n110\n111\n120\n");
    open_tasks(&t);
    see_them_work(&t, OLD_MS);
    assert_int_equal(class_of(&t, 110), TASK_OTHER);
    assert_int_equal(class_of(&t, 111), TASK_LOADER);
    assert_int_equal(class_of(&t, 120), TASK_LOADER);
    assert_int_equal(tasks_process(&t, 120)->rank, 0);
    tasks_free(&t);
}

static void shells_and_their_children(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct tasks t;
    lay_out(l);
    struct fake shell = rank_process(l), sub = worker_process(l, 110), py = worker_process(l, 111);
    struct fake worker = worker_process(l, 130);
    shell.comm = sub.comm = shell.program = sub.program = "bash";
    shell.arguments = sub.arguments = "bash job.sh";
    shell.threads = 1;
    worker.ppid = 111;
    put_process(&shell);
    put_process(&sub);    /* ( ... ) */
    put_process(&py);     /* python train.py */
    put_process(&worker); /* its worker */
    list_pids(l, "100\n110\n111\n130\n");
    open_tasks(&t);
    see_them_work(&t, OLD_MS);
    assert_int_equal(class_of(&t, 100), TASK_OTHER);
    assert_int_equal(class_of(&t, 110), TASK_OTHER);
    assert_int_equal(class_of(&t, 111), TASK_OTHER);
    assert_int_equal(class_of(&t, 130), TASK_LOADER);
    tasks_free(&t);
}

static void announcements(void **state)
{
    (void)state;
    struct tasks t;
    lay_out(&layouts[0]);
    open_tasks(&t);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(tasks_announce(&t, 100, 100, true), -1); /* a rank's main thread */
    assert_int_equal(errno, EPERM);
    assert_int_equal(tasks_announce(&t, 100, 110, true), -1); /* of another process */
    assert_int_equal(errno, ESRCH);
    assert_int_equal(tasks_announce(&t, 100, 101, true), 0);
    tasks_classify(&t, OLD_MS);
    assert_int_equal(class_of(&t, 100), TASK_OTHER);
    assert_int_equal(class_of(&t, 101), TASK_LOADER);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(class_of(&t, 101), TASK_LOADER);
    assert_int_equal(tasks_announce(&t, 100, 101, false), 0);
    tasks_classify(&t, OLD_MS);
    assert_int_equal(class_of(&t, 101), TASK_OTHER);
    tasks_free(&t);
}

static void slurmstepd_s_own_image_is_no_program(void **state)
{
    (void)state;
    const struct layout *l = &layouts[4];
    struct tasks t;
    lay_out(l);
    struct fake rank = rank_process(l), helper = worker_process(l, 110);
    rank.program = helper.program = "slurmstepd"; /* before exec; TaskProlog's fork beside it */
    rank.arguments = helper.arguments = "slurmstepd: [1.0]";
    put_process(&rank);
    put_process(&helper);
    open_tasks(&t);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(class_of(&t, 110), TASK_OTHER);
    tasks_free(&t);
}

/* Lists of pids from..to and that of the rank, of which only those that are laid out are there. */
static void list_many(const struct layout *l, unsigned from, unsigned to)
{
    static char pids[2u * TASKS_LISTED_MAX * 8];
    size_t length = 0;
    for (unsigned pid = from; pid < to; pid++)
        length += (size_t)snprintf(pids + length, sizeof pids - length, "%u\n", pid);
    length += (size_t)snprintf(pids + length, sizeof pids - length, "100\n");
    char full[512];
    snprintf(full, sizeof full, "%s/cgroup.procs", l->task_directory);
    put_bytes(full, pids, length);
}

/* A list that is cut lacks processes, but none that was known before. */
static void a_cut_list_keeps_who_is_known(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct tasks t;
    lay_out(l);
    open_tasks(&t);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(t.nprocesses, 3);
    assert_false(t.cut);
    list_many(l, 1000, 1000 + TASKS_LISTED_MAX);
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_true(t.cut);
    assert_int_equal(t.nprocesses, 3);
    tasks_free(&t);
}

/* Beyond the bounds nobody is looked at, and nobody who was is lost for somebody new. */
static void bounds_hold(void **state)
{
    (void)state;
    const struct layout *l = &layouts[0];
    struct fake worker;
    struct tasks t;
    lay_out(l);
    open_tasks(&t);
    t.processes_max = 4;
    t.threads_max = 6;
    see_them_work(&t, OLD_MS);
    assert_int_equal(t.nprocesses, 3);
    assert_int_equal(t.ntasks, 5);
    assert_false(t.cut);
    for (pid_t pid = 103; pid < 108; pid++) { /* before those known, in the list's order */
        worker = worker_process(l, pid);
        worker.threads =
            pid == 103 ? 1 : 2; /* in what order its threads are listed is the host's */
        put_process(&worker);
        if (worker.threads == 2)
            put_thread(&worker, pid + 1000, "python");
    }
    list_pids(l, "111\n100\n110\n103\n104\n105\n106\n107\n");
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_true(t.cut);
    assert_int_equal(t.nprocesses, 4);
    assert_int_equal(t.ntasks, 6);
    assert_int_equal(class_of(&t, 110), TASK_LOADER);
    assert_int_equal(class_of(&t, 111), TASK_LOADER);
    assert_int_equal(class_of(&t, 103), TASK_LOADER);
    t.threads_max = 9;
    drop("/proc/110");
    list_pids(l, "111\n100\n103\n104\n105\n106\n107\n");
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0); /* it makes room for the next */
    assert_int_equal(tasks_scan(&t, TASKS_FULL, OLD_MS), 0);
    assert_int_equal(t.nprocesses, 4);
    assert_int_equal(class_of(&t, 104), TASK_LOADER);
    tasks_free(&t);
}

/* A child's sockets: none of its own, a socket pair, a TCP socket. */
static void sockets_of_forked_children(void **state)
{
    static const struct {
        int domain; /* of what the child opens, 0 nothing */
        bool own;
    } cases[] = {{0, false}, {AF_UNIX, false}, {AF_INET, true}, {AF_INET6, true}};
    struct procfs fs;
    (void)state;
    int inherited = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(inherited >= 0);
    assert_int_equal(procfs_open(&fs, ""), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        int ready[2];
        char word = 'n';
        assert_int_equal(pipe(ready), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            word = cases[i].domain == 0 || socket(cases[i].domain, SOCK_STREAM, 0) >= 0 ? 'y' : 'n';
            if (write(ready[1], &word, 1) == 1)
                (void)pause();
            _exit(0);
        }
        assert_int_equal(read(ready[0], &word, 1), 1);
        bool own = procfs_has_own_tcp(&fs, child, getpid());
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        if (word == 'y') /* the kernel has such sockets */
            assert_int_equal(own, cases[i].own);
        close(ready[0]);
        close(ready[1]);
    }
    assert_false(procfs_has_own_tcp(&fs, getpid(), getpid()));
    procfs_close(&fs);
    close(inherited);
}

static void hostile_stat(void **state)
{
    (void)state;
    static const struct {
        const char *text, *comm; /* comm NULL: refused */
    } cases[] = {
        {"7 (a) b) (c) S 1 1 1 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 99 0\n", "a) b) (c"},
        {"7 (sh) R 2 1 1 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 99", "sh"},
        {"7 () S 1 1 1 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 99 0\n", ""},
        {"7 (kworker/0:1H-kblockd) I 2 0 0 0 -1 2097152 0 0 0 0 3 4 0 0 20 0 1 0 99 0",
         "kworker/0:1H-kb"},
        {"", NULL},
        {"7", NULL},
        {"7 (sh", NULL},
        {")sh(", NULL},
        {"7 (sh)", NULL},
        {"7 (sh) ", NULL},
        {"7 (sh) S 1 1 1", NULL},
        {"7 (sh) S 1 x 1 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 99 0", NULL},
        {"7 (sh) S 99999999999999999999 1 1 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 99 0", NULL},
        {"7 (sh)SS1 1 1 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 99 0", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct procfs_stat stat;
        size_t length = strlen(cases[i].text);
        char *exact = malloc(length + 1); /* so that a sanitizer sees a step beyond */
        memcpy(exact, cases[i].text, length);
        int rc = procfs_parse_stat(exact, length, &stat);
        free(exact);
        if (cases[i].comm == NULL) {
            if (rc == 0)
                fail_msg("\"%s\" was taken", cases[i].text);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_string_equal(stat.comm, cases[i].comm);
        assert_int_equal(stat.cpu_ticks, 7);
        assert_int_equal(stat.start_ticks, 99);
        assert_int_equal(stat.kernel_thread, strncmp(stat.comm, "kworker", 7) == 0);
    }
}

static void ids_of_other_namespaces(void **state)
{
    (void)state;
    struct procfs fs;
    put("/proc/300/status", "Name:\tpython\nNSpid:\t300\t7\n");
    put("/proc/300/task/300/status", "Name:\tpython\nNSpid:\t300\t7\n");
    put("/proc/300/task/305/status", "Name:\tpython\nNSpid:\t305\t12\n");
    put("/proc/400/status", "Name:\tpython\nNSpid:\t400\n");
    put("/proc/400/task/401/status", "Name:\tpython\nNSpid:\t401\n");
    assert_int_equal(procfs_open(&fs, root), 0);
    assert_int_equal(procfs_tid_from_inner(&fs, 300, 12), 305);
    assert_int_equal(procfs_tid_from_inner(&fs, 300, 7), 300);
    assert_int_equal(procfs_tid_from_inner(&fs, 300, 305), -1); /* an outer number means nothing */
    assert_int_equal(procfs_tid_from_inner(&fs, 400, 401), 401);
    assert_int_equal(procfs_tid_from_inner(&fs, 400, 305), -1); /* of another process */
    assert_int_equal(procfs_tid_from_inner(&fs, 999, 1), -1);
    procfs_close(&fs);
}

static void confinement(void **state)
{
    (void)state;
    static const struct {
        const char *own, *cores;
        unsigned cpus, threads, machine;
        bool unconfined;
    } cases[] = {
        {"0", "0", 1, 1, 2, false},
        {"0-1", "0", 1, 1, 2, true},  /* no task plugin: the whole machine */
        {"0,4", "0", 1, 2, 8, false}, /* one core with both threads */
        {"0-7", "0-3", 4, 2, 8, false},
        {"4-5,20-21", "0-3", 4, 1, 32, false}, /* abstract 0-3 says how many, not which */
        {"0-31", "0-3", 4, 1, 32, true},
        {"1", "0-3", 4, 1, 32, false}, /* narrower by --cpu-bind */
        {"0-3", NULL, 4, 1, 8, false},
        {"0-3", NULL, 0, 1, 8, false}, /* nothing known, but not all */
        {"0-7", NULL, 0, 1, 8, true},
        {"0", NULL, 0, 1, 1, false},
        {"0-3", "garbage", 4, 1, 8, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct cpus own = CPUS_EMPTY;
        struct own_grant grant = {cases[i].cores, cases[i].cpus, cases[i].threads};
        assert_int_equal(cpus_parse(&own, cases[i].own), 0);
        if (own_is_unconfined(&own, &grant, cases[i].machine) != cases[i].unconfined)
            fail_msg("case %zu", i);
        cpus_free(&own);
    }
    put("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "3,51\n");
    assert_int_equal(own_threads_per_core(root, 3), 2);
    assert_int_equal(own_threads_per_core(root, 4), 1);
}

#define TREE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE(every_layout_gives_the_same_answer),
        TREE(workers_come_and_go),
        TREE(a_number_in_other_hands),
        TREE(the_young_are_looked_at_again),
        TREE(a_thread_may_get_its_name_late),
        TREE(forked_ranks_are_no_loaders),
        TREE(shells_and_their_children),
        TREE(announcements),
        TREE(slurmstepd_s_own_image_is_no_program),
        TREE(bounds_hold),
        cmocka_unit_test(sockets_of_forked_children),
        TREE(a_cut_list_keeps_who_is_known),
        cmocka_unit_test(hostile_stat),
        TREE(ids_of_other_namespaces),
        TREE(confinement),
    };
    return cmocka_run_group_tests_name("tasks", tests, NULL, NULL);
}
