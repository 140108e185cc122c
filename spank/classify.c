/* Which tasks of a step are loaders: see classify.h. */
#include "config.h"

#include "classify.h"

#include <stddef.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Names that known programs give their tasks, by prefix (the kernel keeps 15 characters). The first
 * match counts. Names are a strong hint where they exist; older releases leave "python" everywhere
 * and are recognised by their processes alone.
 */
static const struct {
    const char *prefix;
    enum name_kind kind;
} names[] = {
    /* PyTorch DataLoader, torch/utils/data/_utils: worker.py and pin_memory.py (from 2.6 on). The
     * pinning thread feeds the GPU and holds the interpreter's lock: it belongs to the main thread.
     */
    {"pt_data_worker", NAME_LOADER},
    {"pt_data_pin", NAME_NEVER},
    /* PyTorch's own threads (c10::setThreadName): autograd, NCCL watchdog, stores, elastic agent.
     */
    {"pt_autograd", NAME_TRAINER},
    {"pt_nccl", NAME_TRAINER},
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
    {"cuda-", NAME_TRAINER},
    {"cuda0", NAME_TRAINER},
    {"NCCL ", NAME_TRAINER},
};

enum name_kind classify_name(const char *comm)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (strncmp(comm, names[i].prefix, strlen(names[i].prefix)) == 0)
            return names[i].kind;
    return NAME_PLAIN;
}

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

/* Parts of command lines: helpers of the training program whose forked children do other work. */
static const char *const helpers[] = {
    "torch/_inductor/compile_worker", /* compiles kernels */
    "torch._inductor.compile_worker",
    "multiprocessing.resource_tracker",
};

bool classify_is_helper(const char *command_line, unsigned long length)
{
    for (size_t i = 0; i < COUNT(helpers); i++)
        if (memmem(command_line, length, helpers[i], strlen(helpers[i])) != NULL)
            return true;
    return false;
}

enum task_class classify_process(const struct process_view *v)
{
    if (v->is_rank || v->not_yet_program)
        return TASK_OTHER;
    if (v->announced)
        return TASK_LOADER;
    enum name_kind kind = classify_name(v->comm);
    if (kind == NAME_LOADER)
        return TASK_LOADER;
    if (v->parent_loader) /* a decoder that a worker started: it has inherited the worker's CPUs */
        return TASK_LOADER;
    if (kind == NAME_TRAINER || v->trainer_threads || v->forks_workers)
        return TASK_OTHER;
    if (!v->parent_known || !v->same_program || v->launcher || v->parent_helper)
        return TASK_OTHER;
    return v->age_ms < CLASSIFY_YOUNG_MS ? TASK_UNDECIDED : TASK_LOADER;
}

enum task_class classify_thread(const struct thread_view *v)
{
    if (v->process == TASK_LOADER)
        return TASK_LOADER;
    if (v->is_main) /* of a rank or training process, whatever it is called */
        return v->process;
    if (v->announced)
        return TASK_LOADER;
    return v->kind == NAME_LOADER ? TASK_LOADER : TASK_OTHER;
}
