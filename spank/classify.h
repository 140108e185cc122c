/*
 * Which tasks of a step are loaders. Pure: takes what was seen of processes and threads, returns a
 * class; asks nobody, keeps nothing.
 *
 * The evidence, strongest first: the application said so (client library); a name that a known
 * loader gives its threads or processes; a process that was forked, without exec, by a training
 * process (such are the workers of most loaders that use processes). Against it: the main thread of
 * a rank, a name that communication, pinning or autograd threads bear, a shell or launcher, a
 * process that itself forks workers or holds a GPU's helper threads, which is a training process
 * however it was started.
 */
#ifndef ADLOADER_CLASSIFY_H
#define ADLOADER_CLASSIFY_H

#include <stdbool.h>
#include <stdint.h>

enum task_class {
    TASK_UNDECIDED, /* too young to tell: look again soon */
    TASK_OTHER,     /* main threads, helpers, whatever is not a loader: never touched */
    TASK_LOADER
};

/* Below this age a forked child may be on its way to exec another program. */
#define CLASSIFY_YOUNG_MS 60u

/* What a task's name says by itself. */
enum name_kind { NAME_PLAIN, NAME_LOADER, NAME_NEVER, NAME_TRAINER };

enum name_kind classify_name(const char *comm);

/* Is a program (base name of its file) a shell, launcher or tool that never loads data by itself?
 */
bool classify_is_launcher(const char *program);

/* Is a command line (arguments separated by NUL) that of a helper whose children are no loaders? */
bool classify_is_helper(const char *command_line, unsigned long length);

struct process_view {
    bool is_rank;         /* Slurm started it as a task of the step */
    bool not_yet_program; /* still slurmstepd's own image: it has not called exec */
    bool parent_known;    /* its parent is a process of the step */
    bool parent_loader;   /* its parent is a loader process: it works for that one */
    bool same_program;    /* same file and command line as the parent: forked without exec */
    bool launcher;        /* classify_is_launcher() of its program */
    bool parent_helper;   /* classify_is_helper() of the parent's command line */
    bool forks_workers;   /* has children of the same program itself */
    bool trainer_threads; /* one of its threads has a NAME_TRAINER name */
    bool announced;       /* the application called its main thread a loader */
    const char *comm;     /* of its main thread */
    uint64_t age_ms;
};

enum task_class classify_process(const struct process_view *view);

struct thread_view {
    enum task_class process; /* class of its process */
    bool is_main;            /* tid == pid */
    bool announced;
    enum name_kind kind; /* of its name */
};

enum task_class classify_thread(const struct thread_view *view);

#endif
