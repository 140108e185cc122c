/*
 * The inventory of a step's processes and threads on this node, kept from scan to scan: who they
 * are (id and start time), which of them are loaders, and of the loaders what bind.c and sample.c
 * need to know. One owner, the agent's thread.
 *
 * A scan is bounded in processes and threads: those that were known before are kept, what is over
 * the bound is left alone, and that is said once.
 */
#ifndef ADLOADER_TASKS_H
#define ADLOADER_TASKS_H

#include "classify.h"
#include "cpus.h"
#include "procfs.h"
#include "stepgroup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TASKS_PROCESSES_MAX 4096u
#define TASKS_THREADS_MAX   8192u
#define TASKS_LISTED_MAX    16384u /* processes that a look at a step lists at most */
#define TASKS_FDS_MAX       512u   /* descriptors of loader tasks that are kept open */

/* A task that Slurm started, as it was at the last task_post_fork. */
struct rank {
    pid_t pid;
    uint64_t start_ticks;
    struct cpus home; /* its mask then: Slurm's own placement */
};

struct process {
    pid_t pid, ppid;
    uint64_t start_ticks;
    uint64_t cpu_ticks;      /* of all its threads, at the last scan */
    uint64_t cpu_ticks_last; /* at the last sample */
    uint64_t loader_ns;      /* sample.c: what its loader threads ran in this interval */
    uint64_t read_bytes_last;
    uint64_t command_hash;
    uint64_t stack;       /* procfs_stat */
    uint64_t forked_ms;   /* since boot, of the start of its youngest child; 0 none yet */
    uint64_t active_ms;   /* since boot, when it was last seen to have used CPU */
    uint64_t mark_ms;     /* of the look at its master that master_mark is from; 0 none yet */
    uint64_t master_mark; /* the master's cpu_ticks then */
    uint64_t idle_mark;   /* its own cpu_ticks when its master was last seen active */
    dev_t program_dev;
    ino_t program_ino;
    uint32_t seen, threads;
    uint32_t gpu_files; /* that it has open */
    uint32_t listed;    /* threads that its directory had when that was last read */
    int rank;           /* index of the rank it descends from, -1 unknown */
    enum task_role role;
    enum task_class class; /* of the role */
    enum command_kind command;
    char comm[PROCFS_COMM_MAX];
    uint8_t looks;        /* scans that it was seen in, up to a limit */
    uint8_t identity_age; /* scans since program and command line were read */
    bool sampled, is_rank, launcher, own_image, trainer_threads, announced;
    bool relist;             /* one of its threads was missed: its directory is to be read */
    bool keeps_threads;      /* of this scan: it was not */
    bool tcp_known, own_tcp; /* has, or had, TCP sockets of its own: looked at in who was forked */
    bool without_gpu;        /* has been seen without a GPU file */
    bool master_active, master_idle;        /* see classify.h */
    bool works_itself;                      /* has been a master_active's master */
    bool parent_known, forked, has_workers; /* of this scan */
};

/* Where a loader task stands. */
enum placement {
    PLACED_UNTOUCHED, /* never bound: has whatever mask it was born with */
    PLACED_ASSIGNED,
    PLACED_HOME /* was bound and is restored */
};

struct task {
    pid_t tid, pid;
    uint64_t start_ticks;
    uint64_t run_ns, wait_ns; /* at the last sample ... */
    uint64_t sampled_ms;      /* ... which was then, by the monotonic clock */
    uint64_t work_ms;         /* since boot, of the last look at its work; 0 none yet */
    uint64_t work_ns, read_chars, written_chars; /* at that look */
    uint64_t mask_hash;     /* bind.c: of the mask read back after the last bind, 0 none */
    uint64_t tries_from_ms; /* bind.c: start of the minute in which tries counts */
    uint32_t generation;    /* bind.c: target that it was last brought to */
    uint32_t round;         /* bind.c: when */
    uint32_t seen;
    int fd;         /* its schedstat, -1 not kept open */
    int pidfd;      /* of a process's main thread: the process, -1 not kept open */
    uint8_t looks;  /* how often its name was read */
    uint8_t kind;   /* enum name_kind of its name */
    uint8_t role;   /* enum task_role */
    uint8_t class;  /* enum task_class */
    uint8_t reads;  /* classify_reads() */
    uint8_t placed; /* enum placement */
    uint8_t tries;
    bool announced, sampled, given_up;
    bool own_mask; /* bind.c: it, or its program, has chosen where it runs */
    bool judged;   /* bind.c: that has been looked at */
    bool checked;  /* bind.c: looked at whether it has inherited a loader's mask */
};

struct tasks {
    struct procfs fs;
    struct stepgroup group;
    bool grouped;   /* group is valid; else the ranks' descendants are followed */
    bool gpus;      /* the machine has some */
    bool childless; /* the kernel lists no children: descendants by a pass over all processes */
    pid_t self;     /* slurmstepd: never one of the step's */
    dev_t self_dev;
    ino_t self_ino;
    struct rank *ranks;
    size_t nranks;
    struct cpus home; /* of all ranks together */

    struct process *processes; /* sorted by pid */
    size_t nprocesses;
    struct task *tasks; /* sorted by tid */
    size_t ntasks;
    size_t nloaders;

    uint32_t scan;      /* number of the current scan */
    unsigned tcp_looks; /* of the current scan */
    bool undecided;     /* something was too young at the last scan */
    bool cut;           /* bounds were hit at the last scan */
    bool gone;          /* the step's group has vanished */
    unsigned nfds, fds_max;
    size_t processes_max, threads_max;
};

/*
 * root "" is the machine's own /proc. ranks are copied with their masks. self: the calling process.
 * 0, or -1 (errno).
 */
int tasks_init(struct tasks *tasks, const char *root, const struct rank *ranks, size_t nranks,
               pid_t self);
void tasks_free(struct tasks *tasks);

/*
 * Look for processes and threads and classify them. FULL looks at all anew; NEWCOMERS takes what is
 * known as it is and looks at what has been added, which is quick. boot_ms: milliseconds since
 * boot, the clock of start times. 0, or -1 if nothing could be listed (ENOMEM, or no process is
 * left; EMFILE, ENFILE: what was known stays).
 */
enum tasks_depth { TASKS_FULL, TASKS_NEWCOMERS };
int tasks_scan(struct tasks *tasks, enum tasks_depth depth, uint64_t boot_ms);

/*
 * The ids of the step's processes now, sorted, in pids, which has room for TASKS_LISTED_MAX.
 * Returns how many, or -1.
 */
ssize_t tasks_list(const struct tasks *tasks, pid_t *pids);

/* Classify what the last scan saw anew, after tasks_announce(). */
void tasks_classify(struct tasks *tasks, uint64_t boot_ms);

/* The tasks' process and rank's mask; NULL if unknown. */
struct process *tasks_process(const struct tasks *tasks, pid_t pid);
struct task *tasks_task(const struct tasks *tasks, pid_t tid);
const struct cpus *tasks_home(const struct tasks *tasks, const struct task *task);

/* Does the process belong to the step now? Asks the kernel, not the last scan. */
bool tasks_belongs(const struct tasks *tasks, pid_t pid);

/*
 * The application says that thread tid (in our PID namespace) of its process pid is a loader, or no
 * longer. The main thread of a rank is refused. 0, -1 (EPERM, ESRCH).
 */
int tasks_announce(struct tasks *tasks, pid_t pid, pid_t tid, bool on);

/* Loader processes plus loader threads of other processes: what takes samples. */
unsigned tasks_workers(const struct tasks *tasks);

/* Loader processes whose rank is gone. */
unsigned tasks_orphans(const struct tasks *tasks);

/* Is it the turn of a task to be looked at, of those that need not be at every time? One in four,
 * of many tasks fewer. count: of the times that the caller looks. */
bool tasks_turn(const struct tasks *tasks, uint32_t count, pid_t id);

/* A task was not what it was known as: it and its process are looked at anew at the next scan. */
void tasks_distrust(struct tasks *tasks, struct task *task);

/* Is the task still the one that was scanned? */
bool tasks_alive(const struct tasks *tasks, const struct task *task);

#endif
