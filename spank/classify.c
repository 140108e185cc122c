/* Which tasks of a step are loaders: see classify.h. */
#include "config.h"

#include "classify.h"

#include <stddef.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- names ---- */

/*
 * Names that known programs give their tasks, by prefix (the kernel keeps 15 characters). The first
 * match counts. Names are a strong hint where they exist; older releases leave "python" everywhere
 * and are recognised by what they do.
 */
static const struct {
    const char *prefix;
    enum name_kind kind;
} names[] = {
    /* PyTorch DataLoader, torch/utils/data/_utils: worker.py and pin_memory.py (from 2.6 on). The
     * pinning thread feeds the GPU and holds the interpreter's lock: it belongs to the main thread.
     */
    {"pt_data_worker", NAME_LOADER},
    {"pt_data_pin", NAME_PIN},
    /* PyTorch's own threads (c10::setThreadName): autograd, NCCL watchdog, stores, elastic agent.
     */
    {"pt_autograd", NAME_COMMUNICATION},
    {"pt_nccl", NAME_COMMUNICATION},
    {"pt_main_thread", NAME_NEVER},
    {"pt_", NAME_NEVER},
    /* NVIDIA DALI: thread pool "[DALI][TP<n>]..." and worker threads "[DALI][WT]..."; it runs more
     * of them than num_threads says, all for loading. */
    {"[DALI]", NAME_LOADER},
    /* tf.data: pool "tf_data_private_threadpool", "tf_data_parallel_map", ..._interleave..., cut to
     * 15 characters where the runtime names its threads at all. */
    {"tf_data", NAME_LOADER},
    /* SPDL: "spdl_worker_thread_<n>", where Python passes thread names on to the system (3.14). */
    {"spdl_worker", NAME_LOADER},
    /* adltrain, the reference application. */
    {"adl-loader", NAME_LOADER},
    /* The CUDA driver's and NCCL's helpers: only a process that drives a GPU has them. */
    {"cuda-", NAME_COMMUNICATION},
    {"cuda0", NAME_COMMUNICATION},
    {"NCCL ", NAME_COMMUNICATION},
};

enum name_kind classify_name(const char *comm)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (strncmp(comm, names[i].prefix, strlen(names[i].prefix)) == 0)
            return names[i].kind;
    return NAME_PLAIN;
}

/* ---- programs and command lines ---- */

/* Programs whose forked children are part of launching, not of loading. */
static const char *const launchers[] = {
    "sh",
    "bash",
    "dash",
    "ash",
    "zsh",
    "ksh",
    "ksh93",
    "mksh",
    "tcsh",
    "csh",
    "bsd-csh",
    "fish",
    "busybox",
    "srun",
    "sbatch",
    "salloc",
    "sattach",
    "mpirun",
    "mpiexec",
    "orterun",
    "orted",
    "prterun",
    "prted",
    "prte",
    "mpiexec.hydra",
    "hydra_pmi_proxy",
    "ssh",
    "sshd",
    "screen",
    "tmux",
    "make",
    "xargs",
    "env",
    "timeout",
    "tini",
    "apptainer",
    "singularity",
    "starter",
    "starter-suid",
    "enroot",
    "bwrap",
    "slurmstepd",
    "strace",
    "gdb",
    "parallel",
    "perl",
    "nohup",
};

bool classify_is_launcher(const char *program)
{
    for (size_t i = 0; i < COUNT(launchers); i++)
        if (strcmp(program, launchers[i]) == 0)
            return true;
    return false;
}

/* Parts of command lines and what they say. */
static const struct {
    const char *part;
    enum command_kind kind;
} commands[] = {
    {"torch/_inductor/compile_worker", COMMAND_HELPER}, /* compiles kernels */
    {"torch._inductor.compile_worker", COMMAND_HELPER},
    {"multiprocessing.resource_tracker", COMMAND_HELPER},
    {"multiprocessing.forkserver", COMMAND_SERVER},
    {"multiprocessing.spawn", COMMAND_SPAWNED},
};

enum command_kind classify_command(const char *command_line, unsigned long length)
{
    for (size_t i = 0; i < COUNT(commands); i++)
        if (memmem(command_line, length, commands[i].part, strlen(commands[i].part)) != NULL)
            return commands[i].kind;
    return COMMAND_PLAIN;
}

/* ---- processes ---- */

/* The facts that rules are made of. */
enum {
    RANK = 1u << 0,
    NOT_YET = 1u << 1,
    PARENT = 1u << 2, /* known */
    PARENT_LOADER = 1u << 3,
    PARENT_HELPER = 1u << 4,
    PARENT_SERVER = 1u << 5,
    FORKED = 1u << 6,
    LAUNCHER = 1u << 7,
    WAS_LOADER = 1u << 8,
    HAS_WORKERS = 1u << 9,
    ANNOUNCED = 1u << 10,
    TRAINER = 1u << 11, /* by its name or its threads' names */
    GPU = 1u << 12,
    MASTER_GPU = 1u << 13,
    MASTER_ACTIVE = 1u << 14,
    MASTER_IDLE = 1u << 15,
    SPAWNED = 1u << 16,
    SERVER = 1u << 17,
    HELPER = 1u << 18,
    NAMED_LOADER = 1u << 19,
    YOUNG = 1u << 20,
    /* of threads */
    IS_MAIN = 1u << 21,
    IN_LOADER = 1u << 22,
    IN_UNDECIDED = 1u << 23,
    NAMED_PIN = 1u << 24,
    NAMED_COMMUNICATION = 1u << 25,
    NAMED_NEVER = 1u << 26,
    READS = 1u << 27, /* files, and there are no workers who would */
    /* of processes again */
    OPENED_GPU = 1u << 28,
    FRESH = 1u << 29,
    OWN_TCP = 1u << 30,
    TCP_KNOWN = 1u << 31,
};

struct rule {
    uint32_t all, none; /* facts that must hold, and of which none may */
    enum task_role role;
};

static const struct rule process_rules[] = {
    /* What Slurm started is the user's program, whatever it is called. */
    {RANK, 0, ROLE_MAIN},
    /* slurmstepd's own helpers, or a rank before its exec. */
    {NOT_YET, 0, ROLE_LAUNCHER},
    /* The application knows best, then names that loaders give themselves. */
    {ANNOUNCED, 0, ROLE_LOADER},
    {NAMED_LOADER, 0, ROLE_LOADER},
    /* Part of multiprocessing's own machinery. */
    {SERVER, 0, ROLE_LAUNCHER},
    {HELPER, 0, ROLE_LAUNCHER},
    /* A decoder that a worker started: it has inherited the worker's CPUs. */
    {PARENT_LOADER, 0, ROLE_LOADER_HELPER},
    /* Exchanges gradients, or has workers of its own: a rank, however it was started
     * (torchrun, torch.multiprocessing.spawn, mpirun, a fork). */
    {TRAINER, 0, ROLE_MAIN},
    {HAS_WORKERS, 0, ROLE_MAIN},
    /* It lost its parent and is still here: an orphan goes on as what it was. */
    {WAS_LOADER, PARENT, ROLE_LOADER},
    {0, PARENT, ROLE_UNKNOWN},
    /* A shell in the middle, and what a kernel compiler forks. */
    {LAUNCHER, 0, ROLE_LAUNCHER},
    {PARENT_HELPER, 0, ROLE_UNKNOWN},
    /* It has opened a GPU that its master has not, or that it had not at first: it trains. Workers
     * that are forked inherit their master's open files, so that a GPU in both says nothing; one
     * that was started anew has opened the GPU itself. */
    {GPU, MASTER_GPU, ROLE_MAIN},
    {OPENED_GPU, 0, ROLE_MAIN},
    {GPU | SPAWNED, 0, ROLE_MAIN},
    {GPU | PARENT_SERVER, 0, ROLE_MAIN},
    /* Its master only waits for it to end. */
    {MASTER_IDLE, 0, ROLE_UNKNOWN},
    /* Forked by a fork server, or started by multiprocessing's spawn: a worker, or a rank that
     * torch.multiprocessing started. A worker's master trains: it drives a GPU, or computes, while
     * that of ranks waits. Once told, it stays so. */
    {PARENT_SERVER | WAS_LOADER, 0, ROLE_LOADER},
    {PARENT_SERVER | MASTER_GPU, YOUNG, ROLE_LOADER},
    {PARENT_SERVER | MASTER_ACTIVE, 0, ROLE_LOADER},
    {PARENT_SERVER, 0, ROLE_UNKNOWN},
    {SPAWNED | WAS_LOADER, 0, ROLE_LOADER},
    {SPAWNED | MASTER_GPU, 0, ROLE_LOADER},
    {SPAWNED | MASTER_ACTIVE, 0, ROLE_LOADER},
    {SPAWNED, 0, ROLE_UNKNOWN},
    /* Forked without exec: by one that trains, such are most loaders' workers; by one that waits,
     * its ranks. As long as that is not seen nothing is done. */
    {FORKED | YOUNG, 0, ROLE_UNDECIDED},
    {FORKED | GPU | MASTER_GPU, 0, ROLE_LOADER}, /* inherited */
    /* It talks to others: a rank that a rank has forked, perhaps, or a worker that reads over the
     * network. */
    {FORKED | OWN_TCP, 0, ROLE_UNKNOWN},
    {FORKED | WAS_LOADER, 0, ROLE_LOADER},
    {FORKED | MASTER_ACTIVE | TCP_KNOWN, 0, ROLE_LOADER},
    {FORKED | FRESH, 0, ROLE_UNDECIDED},
    {FORKED, 0, ROLE_UNKNOWN},
    /* Another program: a logger, a launcher's rank, a profiler. */
    {0, 0, ROLE_UNKNOWN},
};

static enum task_role first_match(const struct rule *rules, size_t nrules, uint32_t facts)
{
    for (size_t i = 0; i < nrules; i++)
        if ((facts & rules[i].all) == rules[i].all && (facts & rules[i].none) == 0)
            return rules[i].role;
    return ROLE_UNKNOWN;
}

static uint32_t fact(bool holds, uint32_t bit)
{
    return holds ? bit : 0;
}

enum task_role classify_process(const struct process_view *v)
{
    enum name_kind name = classify_name(v->comm);
    uint32_t facts =
        fact(v->is_rank, RANK) | fact(v->not_yet_program, NOT_YET) | fact(v->parent_known, PARENT) |
        fact(v->parent_loader, PARENT_LOADER) | fact(v->parent_helper, PARENT_HELPER) |
        fact(v->parent_server, PARENT_SERVER) | fact(v->forked, FORKED) |
        fact(v->launcher, LAUNCHER) | fact(v->was_loader, WAS_LOADER) |
        fact(v->has_workers, HAS_WORKERS) | fact(v->announced, ANNOUNCED) |
        fact(v->trainer_threads || name == NAME_COMMUNICATION, TRAINER) | fact(v->gpu, GPU) |
        fact(v->master_gpu, MASTER_GPU) | fact(v->master_active, MASTER_ACTIVE) |
        fact(v->master_idle, MASTER_IDLE) | fact(v->command == COMMAND_SPAWNED, SPAWNED) |
        fact(v->command == COMMAND_SERVER && !v->parent_server, SERVER) |
        fact(v->command == COMMAND_HELPER, HELPER) | fact(name == NAME_LOADER, NAMED_LOADER) |
        fact(v->age_ms < CLASSIFY_YOUNG_MS, YOUNG) | fact(v->age_ms < CLASSIFY_FRESH_MS, FRESH) |
        fact(v->opened_gpu, OPENED_GPU) | fact(v->own_tcp, OWN_TCP) | fact(v->tcp_known, TCP_KNOWN);
    return first_match(process_rules, COUNT(process_rules), facts);
}

/* ---- threads ---- */

static const struct rule thread_rules[] = {
    /* All of a worker works for it: math threads count to the worker that started them. */
    {IN_LOADER | IS_MAIN, 0, ROLE_LOADER},
    {IN_LOADER, 0, ROLE_LOADER_HELPER},
    {IN_UNDECIDED, 0, ROLE_UNDECIDED},
    /* The main thread of a rank or of a process that trains, whatever it is called or calls
     * itself, and of what is not known. */
    {IS_MAIN, 0, ROLE_MAIN},
    {ANNOUNCED, 0, ROLE_LOADER},
    {NAMED_LOADER, 0, ROLE_LOADER},
    {NAMED_PIN, 0, ROLE_PIN},
    {NAMED_COMMUNICATION, 0, ROLE_COMMUNICATION},
    {NAMED_NEVER, 0, ROLE_UNKNOWN},
    /* A pool of loader threads. Where there are worker processes a thread that reads a lot takes
     * their batches, to pin them: that fact is then not given. */
    {READS, 0, ROLE_LOADER},
    /* Math, communication, logging: they compute or wait, but do not read files. */
    {0, 0, ROLE_UNKNOWN},
};

enum task_role classify_thread(const struct thread_view *v)
{
    bool reads = v->reads >= READS_ON || (v->was_loader && v->reads > 0);
    bool in_loader = classify_class(v->process) == TASK_LOADER;
    uint32_t facts =
        fact(v->is_main, IS_MAIN) | fact(in_loader, IN_LOADER) |
        fact(v->process == ROLE_UNDECIDED, IN_UNDECIDED) | fact(v->announced, ANNOUNCED) |
        fact(v->kind == NAME_LOADER, NAMED_LOADER) | fact(v->kind == NAME_PIN, NAMED_PIN) |
        fact(v->kind == NAME_COMMUNICATION, NAMED_COMMUNICATION) |
        fact(v->kind == NAME_NEVER, NAMED_NEVER) | fact(reads && !v->has_workers, READS);
    return first_match(thread_rules, COUNT(thread_rules), facts);
}

/*
 * What tells a loader thread without a name from the others of a training process: it reads files
 * and computes on what it read. Math threads compute without reading; communication threads read
 * from sockets with recv(), which does not count as read, or write as much as they read; loggers
 * and checkpoint writers write.
 */
#define READS_BYTES_PER_S  (128.0 * 1024) /* a few small pictures a second */
#define SILENT_BYTES_PER_S (8.0 * 1024)
#define WORKS_SHARE        0.01 /* of a core: so little CPU tells nothing */
#define COMPUTES_SHARE     0.2  /* computes a lot without reading: no loader */

unsigned classify_reads(unsigned reads, const struct thread_work *w)
{
    if (!(w->seconds > 0) || w->cpu_s < WORKS_SHARE * w->seconds)
        return reads;
    double rate = (double)w->read_bytes / w->seconds;
    if (rate >= READS_BYTES_PER_S && w->read_bytes / 4 >= w->written_bytes)
        return reads < READS_MAX ? reads + 1 : READS_MAX;
    if (rate < SILENT_BYTES_PER_S && w->cpu_s >= COMPUTES_SHARE * w->seconds)
        return reads > 0 ? reads - 1 : 0;
    return reads;
}

/* ---- roles ---- */

enum task_class classify_class(enum task_role role)
{
    switch (role) {
    case ROLE_LOADER:
    case ROLE_LOADER_HELPER:
        return TASK_LOADER;
    case ROLE_UNDECIDED:
        return TASK_UNDECIDED;
    case ROLE_MAIN:
    case ROLE_PIN:
    case ROLE_COMMUNICATION:
    case ROLE_LAUNCHER:
    case ROLE_UNKNOWN:
        break;
    }
    return TASK_OTHER;
}

const char *classify_role_name(enum task_role role)
{
    static const char *const role_names[] = {
        "undecided", "main",          "loader",   "loader-helper",
        "pin",       "communication", "launcher", "unknown",
    };
    return (unsigned)role < COUNT(role_names) ? role_names[role] : "?";
}
