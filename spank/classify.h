/*
 * Which tasks of a step are loaders. Pure: takes what was seen of processes and threads over time,
 * returns a role; asks nobody, keeps nothing.
 *
 * The rules are tables (classify.c): facts that must hold, facts that must not, the role that
 * follows; the first that fits decides. Where the facts do not tell, the role is ROLE_UNKNOWN and
 * nothing is done to the task.
 */
#ifndef ADLOADER_CLASSIFY_H
#define ADLOADER_CLASSIFY_H

#include <stdbool.h>
#include <stdint.h>

enum task_role {
    ROLE_UNDECIDED,     /* too young to tell: look again soon */
    ROLE_MAIN,          /* a rank, or a process that trains; its main thread is never narrowed */
    ROLE_LOADER,        /* prepares samples */
    ROLE_LOADER_HELPER, /* works for one that does: its math threads, a decoder that it runs */
    ROLE_PIN,           /* copies batches towards the GPU: belongs to the main thread */
    ROLE_COMMUNICATION, /* exchanges gradients, drives the GPU */
    ROLE_LAUNCHER,      /* starts ranks or workers, or serves them */
    ROLE_UNKNOWN        /* left alone */
};

/* What binding makes of a role. */
enum task_class {
    TASK_UNDECIDED, /* look again soon */
    TASK_OTHER,     /* never touched */
    TASK_LOADER
};

enum task_class classify_class(enum task_role role);
const char *classify_role_name(enum task_role role);

/* Below this age a forked child may be on its way to exec another program. */
#define CLASSIFY_YOUNG_MS 60u

/* Until that age it is looked at often whether a forked child's master works: nothing else tells a
 * worker of the one that trains from a rank of the one that only waits for its ranks. */
#define CLASSIFY_FRESH_MS 2500u

/* A process whose parent has used no CPU at all for so long, while it worked itself, does not work
 * for that parent: it is a rank that a launcher forked. Longer than any batch is waited for. */
#define CLASSIFY_IDLE_MS 60000u

/* What a task's name says by itself. */
enum name_kind {
    NAME_PLAIN,
    NAME_LOADER,
    NAME_PIN,
    NAME_NEVER,
    NAME_COMMUNICATION /* only in a process that trains */
};

enum name_kind classify_name(const char *comm);

/* Is a program (base name of its file) a shell, launcher or tool that never loads data by itself?
 */
bool classify_is_launcher(const char *program);

/* What a command line (arguments separated by NUL) says. */
enum command_kind {
    COMMAND_PLAIN,
    COMMAND_HELPER,  /* its children are no loaders */
    COMMAND_SPAWNED, /* started by multiprocessing.spawn: what it becomes is not written there */
    COMMAND_SERVER   /* multiprocessing.forkserver: its children are as if spawned by its parent */
};

enum command_kind classify_command(const char *command_line, unsigned long length);

/*
 * A process as seen up to now. Its master is who works with it: its parent, or that one's parent
 * where the parent is a fork server.
 */
struct process_view {
    bool is_rank;         /* Slurm started it as a task of the step */
    bool not_yet_program; /* still slurmstepd's own image: it has not called exec */
    bool parent_known;    /* its parent is a process of the step */
    bool parent_loader;   /* its parent is a loader process: it works for that one */
    bool parent_helper;   /* its parent's command line is a helper's */
    bool parent_server;   /* its parent is a fork server */
    bool forked;          /* from its parent, without exec since */
    bool launcher;        /* classify_is_launcher() of its program */
    bool was_loader;      /* at the last look */
    bool has_workers;     /* has children that look like workers itself */
    bool announced;       /* the application called its main thread a loader */
    bool trainer_threads; /* one of its threads has a NAME_COMMUNICATION name */
    bool gpu, master_gpu; /* has a GPU's device file open; its master has */
    bool tcp_known;       /* it has been looked at whether ... */
    bool own_tcp;         /* ... it has, or had, TCP sockets that it has not inherited */
    bool opened_gpu; /* it has opened that itself: it had none at first, or has more open than its
                        master */
    bool master_active; /* its master has used CPU since it was done with starting processes */
    bool master_idle;   /* its master has used none for CLASSIFY_IDLE_MS, this process has */
    enum command_kind command;
    const char *comm; /* of its main thread */
    uint64_t age_ms;
};

enum task_role classify_process(const struct process_view *view);

/*
 * What a thread did, look by look: how sure it is that it reads and prepares data, from 0 to
 * READS_MAX. A file's bytes count, wherever they come from (storage or cache).
 */
#define READS_MAX 4u
#define READS_ON  2u /* a loader from here ... */

struct thread_work { /* since the last look */
    double seconds, cpu_s;
    uint64_t read_bytes, written_bytes; /* by read() and write() and their like */
};

/* The next state after one more look; work that is too little to tell changes nothing. */
unsigned classify_reads(unsigned reads, const struct thread_work *work);

struct thread_view {
    enum task_role process; /* of its process */
    bool is_main;           /* tid == pid */
    bool announced;
    bool has_workers;    /* its process has worker processes */
    bool was_loader;     /* at the last look */
    enum name_kind kind; /* of its name */
    unsigned reads;      /* classify_reads() */
};

enum task_role classify_thread(const struct thread_view *view);

#endif
