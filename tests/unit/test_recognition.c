/*
 * Recognition as a whole, on scripted programs: processes and threads that start, fork, compute,
 * read and write in a /proc tree laid out by the test, seen by scans on a clock of its own. Each
 * case says who is what; what the scans made of all cases together is printed as a confusion table.
 * Cases that come from public reports bear the repository and number of the thread.
 */
#include "config.h"

#include "fake_proc.h"
#include "tasks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ACTORS_MAX   12
#define BOOT_MS      1000000u /* the clock when the rank starts */
#define RANK_PID     100
#define SELF         50

enum how { EXEC, FORK };

/* One process or thread of a case. */
struct actor {
    pid_t id, of; /* a thread's process; a process's parent, 0: slurmstepd */
    bool thread;
    enum how how;
    const char *comm;                /* NULL: the program's name */
    const char *program, *arguments; /* EXEC; NULL: python's */
    double cpu;                      /* cores that it uses ... */
    double cpu_until_s;              /* ... up to then; 0: to the end */
    double read_k, write_k;          /* kB/s by system calls */
    double from_s, until_s;          /* after the rank's start; until 0: to the end */
    bool gpu;
    double gpu_from_s;   /* when it opens it */
    enum task_role role; /* what it is */
    bool hidden;         /* nothing tells: that nothing is done is right, too */
};

struct recognition_case {
    const char *name;
    double seconds; /* 0: 4 */
    struct actor actors[ACTORS_MAX];
};

#define PYTHON .program = "python3", .comm = "python"
#define TRAIN  PYTHON, .arguments = "python train.py"
#define RANK                                                                                       \
    {                                                                                              \
        100, 0, TRAIN, .cpu = 0.3, .role = ROLE_MAIN                                               \
    }
#define GPU_RANK                                                                                   \
    {                                                                                              \
        100, 0, TRAIN, .cpu = 0.3, .gpu = true, .role = ROLE_MAIN                                  \
    }
#define IDLE_RANK                                                                                  \
    {                                                                                              \
        100, 0, TRAIN, .role = ROLE_MAIN                                                           \
    }
#define WORKER(id)                                                                                 \
    {                                                                                              \
        id, 100, .how = FORK, .comm = "python", .cpu = 0.5, .read_k = 900, .from_s = 0.5,          \
                 .role = ROLE_LOADER                                                               \
    }
#define FORKED_RANK(id, from)                                                                      \
    {                                                                                              \
        id, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = from, .role = ROLE_MAIN      \
    }
#define THREAD_OF(p, id, name, r, ...)                                                             \
    {                                                                                              \
        id, p, .thread = true, .comm = name, .role = r, ##__VA_ARGS__                              \
    }
#define THREAD(id, name, r, ...) THREAD_OF(100, id, name, r, ##__VA_ARGS__)
#define CHILD(id, args, r, ...)                                                                    \
    {                                                                                              \
        id, 100, PYTHON, .arguments = args, .from_s = 0.5, .role = r, ##__VA_ARGS__                \
    }
#define TOOL(id, name, r, ...)                                                                     \
    {                                                                                              \
        id, 100, .program = name, .comm = name, .arguments = name, .from_s = 0.5, .role = r,       \
                 ##__VA_ARGS__                                                                     \
    }
#define SPAWN   "python -c from/multiprocessing.spawn/import/spawn_main --multiprocessing-fork"
#define SERVER  "python -c from/multiprocessing.forkserver/import/main"
#define TRACKER "python -c from/multiprocessing.resource_tracker/import/main"

static const struct recognition_case cases[] = {
    /* PyTorch, workers as processes */
    {"forked workers without names", 0, {RANK, WORKER(110), WORKER(111)}},
    {"forked workers with names (pytorch#128448)",
     0,
     {RANK, {110, 100, .how = FORK, .comm = "pt_data_worker", .from_s = 0.5, .role = ROLE_LOADER}}},
    {"one busy worker of many (NVlabs/GCVit#14)",
     0,
     {RANK,
      WORKER(110),
      {111, 100, .how = FORK, .comm = "python", .from_s = 0.5, .role = ROLE_LOADER}}},
    {"persistent workers that sleep between epochs",
     8,
     {RANK, {110, 100, .how = FORK, .comm = "python", .from_s = 0.5, .role = ROLE_LOADER}}},
    {"workers forked anew each epoch (pytorch#15849)",
     6,
     {RANK,
      {110, 100, .how = FORK, .comm = "python", .from_s = 0.5, .until_s = 3, .role = ROLE_LOADER},
      {120, 100, .how = FORK, .comm = "python", .from_s = 3.2, .role = ROLE_LOADER}}},
    {"workers that rename themselves (setproctitle)",
     0,
     {RANK, {110, 100, .how = FORK, .comm = "loader: train", .from_s = 0.5, .role = ROLE_LOADER}}},
    {"spawned workers of a rank with a GPU",
     0,
     {GPU_RANK, CHILD(109, TRACKER, ROLE_LAUNCHER), CHILD(110, SPAWN, ROLE_LOADER, .cpu = 0.5)}},
    {"spawned workers of a rank that computes",
     0,
     {RANK, CHILD(109, TRACKER, ROLE_LAUNCHER), CHILD(110, SPAWN, ROLE_LOADER, .cpu = 0.5)}},
    {"spawned workers while all import, the rank waits",
     3,
     {IDLE_RANK, CHILD(110, SPAWN, ROLE_LOADER, .cpu = 0.9, .hidden = true)}},
    {"a fork server and its workers, GPU",
     0,
     {GPU_RANK,
      CHILD(109, SERVER, ROLE_LAUNCHER),
      {110, 109, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.7, .role = ROLE_LOADER}}},
    {"a fork server and its workers, no GPU",
     0,
     {RANK,
      CHILD(109, SERVER, ROLE_LAUNCHER),
      {110, 109, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.7, .role = ROLE_LOADER}}},
    {"a worker's math threads count to it (facebookresearch/PyTorch-BigGraph#6)",
     0,
     {RANK, WORKER(110), THREAD_OF(110, 111, "python", ROLE_LOADER_HELPER, .cpu = 0.9, .from_s = 1),
      THREAD_OF(110, 112, "python", ROLE_LOADER_HELPER, .cpu = 0.9, .from_s = 1)}},
    {"a decoder that a worker runs (ffmpeg)",
     0,
     {RANK,
      WORKER(110),
      {120, 110, .program = "ffmpeg", .comm = "ffmpeg", .arguments = "ffmpeg -i a", .cpu = 0.8,
       .from_s = 1, .role = ROLE_LOADER_HELPER}}},
    {"a decoder behind a shell",
     0,
     {RANK,
      WORKER(110),
      {120, 110, .program = "sh", .comm = "sh", .arguments = "sh -c", .from_s = 1,
       .role = ROLE_LOADER_HELPER},
      {121, 120, .program = "ffmpeg", .comm = "ffmpeg", .arguments = "ffmpeg", .from_s = 1,
       .role = ROLE_LOADER_HELPER}}},
    {"an idle worker that hangs (allenai/allennlp#4330)",
     0,
     {RANK, {110, 100, .how = FORK, .comm = "python", .from_s = 0.5, .role = ROLE_LOADER}}},
    {"a forked child before its exec",
     0.52,
     {RANK, {110, 100, .how = FORK, .comm = "python", .from_s = 0.5, .role = ROLE_UNDECIDED}}},
    {"a worker that outlives its rank (pytorch#26072)",
     6,
     {{100, 0, TRAIN, .cpu = 0.3, .until_s = 3, .role = ROLE_MAIN}, WORKER(110)}},
    {"workers forked by a thread of the rank",
     0,
     {RANK, THREAD(101, "python", ROLE_UNKNOWN), WORKER(110)}},

    /* threads of a rank's process */
    {"the pinning thread by name (pytorch#25010)",
     0,
     {RANK, THREAD(101, "pt_data_pin", ROLE_PIN, .cpu = 0.9, .read_k = 5000), WORKER(110)}},
    {"the pinning thread of an older release reads batches from a pipe",
     6,
     {RANK, THREAD(101, "python", ROLE_PIN, .cpu = 0.5, .read_k = 50000), WORKER(110)}},
    {"autograd", 0, {RANK, THREAD(101, "pt_autograd_0", ROLE_COMMUNICATION, .cpu = 0.9)}},
    {"NCCL's proxy, spinning (NVIDIA/nccl#1426)",
     6,
     {GPU_RANK, THREAD(101, "NCCL Progress 0", ROLE_COMMUNICATION, .cpu = 1)}},
    {"NCCL without a name, spinning",
     6,
     {GPU_RANK, THREAD(101, "python", ROLE_COMMUNICATION, .cpu = 1, .hidden = true)}},
    {"the watchdog", 0, {RANK, THREAD(101, "pt_nccl_watchdg", ROLE_COMMUNICATION)}},
    {"gloo reads by recv: no bytes of read()",
     6,
     {RANK, THREAD(101, "python", ROLE_COMMUNICATION, .cpu = 0.4, .hidden = true)}},
    {"a ring over write() and read()",
     6,
     {RANK, THREAD(101, "python", ROLE_COMMUNICATION, .cpu = 0.4, .read_k = 40000, .write_k = 40000,
                   .hidden = true)}},
    {"the CUDA driver's", 0, {GPU_RANK, THREAD(101, "cuda-EvtHandlr", ROLE_COMMUNICATION)}},
    {"math threads of the rank",
     6,
     {RANK, THREAD(101, "python", ROLE_UNKNOWN, .cpu = 0.9),
      THREAD(102, "python", ROLE_UNKNOWN, .cpu = 0.9)}},
    {"a checkpoint writer",
     6,
     {RANK, THREAD(101, "python", ROLE_UNKNOWN, .cpu = 0.3, .write_k = 90000)}},
    {"a logger",
     6,
     {RANK, THREAD(101, "python", ROLE_UNKNOWN, .cpu = 0.02, .read_k = 2, .write_k = 9)}},
    {"the store of torch.distributed",
     0,
     {RANK, THREAD(101, "pt_tcpstore_uv", ROLE_UNKNOWN, .cpu = 0.1)}},

    /* loaders that are threads */
    {"a pool of threads without names",
     5,
     {RANK, THREAD(101, "python", ROLE_LOADER, .cpu = 0.6, .read_k = 2000, .from_s = 0.5),
      THREAD(102, "python", ROLE_LOADER, .cpu = 0.6, .read_k = 2000, .from_s = 0.5)}},
    {"... that starts late",
     9,
     {RANK, THREAD(101, "python", ROLE_LOADER, .cpu = 0.6, .read_k = 2000, .from_s = 4)}},
    {"... of few, large decodes",
     6,
     {RANK, THREAD(101, "python", ROLE_LOADER, .cpu = 0.95, .read_k = 150, .from_s = 0.5)}},
    {"a pool that reads by memory maps",
     6,
     {RANK, THREAD(101, "python", ROLE_LOADER, .cpu = 0.9, .hidden = true)}},
    {"DALI, more threads than asked for (NVIDIA/DALI#5738)",
     0,
     {GPU_RANK, THREAD(101, "[DALI][WT]CPU e", ROLE_LOADER),
      THREAD(102, "[DALI][TP0]Thre", ROLE_LOADER, .cpu = 0.5),
      THREAD(103, "[DALI][TP1]Thre", ROLE_LOADER)}},
    {"tf.data's private pool (tensorflow#62821)",
     0,
     {RANK, THREAD(101, "tf_data_private", ROLE_LOADER), THREAD(102, "tf_Compute", ROLE_UNKNOWN)}},
    {"SPDL", 0, {RANK, THREAD(101, "spdl_worker_thr", ROLE_LOADER)}},
    {"adltrain",
     0,
     {{100, 0, .program = "adltrain", .comm = "adltrain", .arguments = "adltrain run",
       .role = ROLE_MAIN},
      THREAD(101, "adl-loader", ROLE_LOADER),
      THREAD(102, "adl-monitor", ROLE_UNKNOWN)}},
    {"a thread with a name only later",
     5,
     {RANK, THREAD(101, "python", ROLE_UNKNOWN, .until_s = 2),
      THREAD(102, "[DALI][WT]", ROLE_LOADER, .from_s = 2)}},

    /* ranks that Slurm did not start itself */
    {"torchrun: two ranks with workers",
     0,
     {{100, 0, PYTHON, .arguments = "torchrun train.py", .role = ROLE_MAIN},
      {110, 100, TRAIN, .cpu = 0.4, .from_s = 0.3, .role = ROLE_MAIN},
      {111, 100, TRAIN, .cpu = 0.4, .from_s = 0.3, .role = ROLE_MAIN},
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.8, .role = ROLE_LOADER},
      {121, 111, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.8, .role = ROLE_LOADER}}},
    {"torchrun without workers",
     0,
     {{100, 0, PYTHON, .arguments = "torchrun train.py", .role = ROLE_MAIN},
      {110, 100, TRAIN, .cpu = 0.9, .from_s = 0.3, .role = ROLE_MAIN}}},
    {"the program starts itself again, same command line (Lightning's ddp)",
     0,
     {RANK, {110, 100, TRAIN, .cpu = 0.9, .from_s = 0.5, .role = ROLE_MAIN}}},
    {"... with workers",
     0,
     {RANK,
      {110, 100, TRAIN, .cpu = 0.9, .from_s = 0.5, .role = ROLE_MAIN},
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.8, .role = ROLE_LOADER}}},
    {"mp.spawn: the parent waits, ranks compute",
     8,
     {IDLE_RANK, CHILD(110, SPAWN, ROLE_MAIN, .cpu = 0.9),
      CHILD(111, SPAWN, ROLE_MAIN, .cpu = 0.9)}},
    {"mp.spawn with GPUs", 8, {IDLE_RANK, CHILD(110, SPAWN, ROLE_MAIN, .cpu = 0.9, .gpu = true)}},
    {"mp.spawn, the parent looks at the GPUs",
     8,
     {GPU_RANK, CHILD(110, SPAWN, ROLE_MAIN, .cpu = 0.9, .gpu = true)}},
    {"mp.spawn with forked workers",
     4,
     {IDLE_RANK,
      CHILD(110, SPAWN, ROLE_MAIN, .cpu = 0.9),
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 1, .role = ROLE_LOADER}}},
    {"mp.spawn with spawned workers",
     4,
     {IDLE_RANK,
      CHILD(110, SPAWN, ROLE_MAIN, .cpu = 0.9),
      {120, 110, PYTHON, .arguments = SPAWN, .cpu = 0.5, .from_s = 1, .role = ROLE_LOADER}}},
    {"mp.spawn through a fork server, GPUs",
     4,
     {IDLE_RANK,
      CHILD(109, SERVER, ROLE_LAUNCHER),
      {110, 109, .how = FORK, .comm = "python", .cpu = 0.9, .gpu = true, .from_s = 0.8,
       .role = ROLE_MAIN}}},
    {"forked ranks with autograd threads",
     0,
     {IDLE_RANK,
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = 0.2, .role = ROLE_MAIN},
      THREAD_OF(110, 111, "pt_autograd_0", ROLE_COMMUNICATION, .from_s = 0.3)}},
    {"forked ranks that open GPUs",
     0,
     {IDLE_RANK,
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.9, .gpu = true, .from_s = 0.2,
       .role = ROLE_MAIN}}},
    {"forked ranks with workers of their own",
     0,
     {IDLE_RANK,
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = 0.2, .role = ROLE_MAIN},
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.5, .role = ROLE_LOADER}}},
    {"forked ranks, the parent only waits",
     5,
     {IDLE_RANK, FORKED_RANK(110, 0.5), FORKED_RANK(111, 0.6), FORKED_RANK(112, 0.7)}},
    {"... seen at once", 0.7, {IDLE_RANK, FORKED_RANK(110, 0.5)}},
    {"... for minutes", 130, {IDLE_RANK, FORKED_RANK(110, 0.5)}},
    {"forked ranks, the parent was busy with importing before",
     5,
     {{100, 0, TRAIN, .cpu = 1, .cpu_until_s = 3, .role = ROLE_MAIN},
      FORKED_RANK(110, 2.9),
      FORKED_RANK(111, 3)}},
    {"forked ranks, the parent is busy with forking a long time",
     8,
     {{100, 0, TRAIN, .cpu = 0.8, .cpu_until_s = 4, .role = ROLE_MAIN},
      FORKED_RANK(110, 0.5),
      FORKED_RANK(111, 1.1),
      FORKED_RANK(112, 1.8),
      FORKED_RANK(113, 2.5),
      FORKED_RANK(114, 3.2),
      FORKED_RANK(115, 3.9)}},
    {"forked ranks, the parent looks after them now and then",
     20,
     {{100, 0, TRAIN, .cpu = 0.004, .role = ROLE_MAIN},
      FORKED_RANK(110, 0.5),
      FORKED_RANK(111, 0.6)}},
    {"... for minutes, hardly using a CPU",
     150,
     {{100, 0, TRAIN, .cpu = 0.0011, .role = ROLE_MAIN}, FORKED_RANK(110, 0.5)}},
    {"forked ranks that load by themselves (read files)",
     8,
     {IDLE_RANK,
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.9, .read_k = 5000, .from_s = 0.5,
       .role = ROLE_MAIN},
      THREAD_OF(110, 111, "python", ROLE_UNKNOWN, .cpu = 0.9, .from_s = 1)}},
    {"forked ranks, each with forked workers",
     6,
     {IDLE_RANK,
      FORKED_RANK(110, 0.5),
      FORKED_RANK(111, 0.6),
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 1.2, .role = ROLE_LOADER},
      {121, 111, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 1.3, .role = ROLE_LOADER}}},
    {"forked ranks that open GPUs late, the parent has looked at the GPUs",
     6,
     {{100, 0, TRAIN, .cpu = 0.01, .gpu = true, .role = ROLE_MAIN},
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.9, .gpu = true, .gpu_from_s = 1,
       .from_s = 0.5, .role = ROLE_MAIN}}},
    {"torchrun forks its ranks and watches them",
     8,
     {{100, 0, PYTHON, .arguments = "torchrun train.py", .cpu = 0.005, .role = ROLE_MAIN},
      FORKED_RANK(110, 0.5),
      FORKED_RANK(111, 0.7)}},
    {"a program of C forks its ranks (no python, one name)",
     5,
     {{100, 0, .program = "trainer", .comm = "trainer", .arguments = "trainer -n 2",
       .role = ROLE_MAIN},
      {110, 100, .how = FORK, .comm = "trainer", .cpu = 0.99, .from_s = 0.1, .role = ROLE_MAIN},
      {111, 100, .how = FORK, .comm = "trainer", .cpu = 0.99, .from_s = 0.1, .role = ROLE_MAIN}}},
    {"workers of one that trains at its leisure",
     5,
     {{100, 0, TRAIN, .cpu = 0.05, .role = ROLE_MAIN}, WORKER(110), WORKER(111)}},
    {"workers of one that waits for them at first",
     8,
     {{100, 0, TRAIN, .cpu = 0.04, .from_s = 0, .role = ROLE_MAIN},
      {110, 100, .how = FORK, .comm = "python", .cpu = 1, .from_s = 0.5, .role = ROLE_LOADER}}},
    {"workers on slow storage, for which the rank mostly waits",
     12,
     {{100, 0, TRAIN, .cpu = 0.0125, .role = ROLE_MAIN},
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.02, .from_s = 0.5, .role = ROLE_LOADER}}},
    {"forked workers of a rank with a GPU that hardly uses a CPU",
     2,
     {{100, 0, TRAIN, .cpu = 0.001, .gpu = true, .role = ROLE_MAIN},
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.5, .gpu = true,
       .role = ROLE_LOADER}}},
    {"a pool that goes on forking (maxtasksperchild)",
     14,
     {RANK,
      {110, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = 0.5, .role = ROLE_LOADER},
      {111, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = 3.9, .until_s = 8,
       .role = ROLE_LOADER},
      {112, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = 8, .until_s = 12,
       .role = ROLE_LOADER},
      {113, 100, .how = FORK, .comm = "python", .cpu = 0.9, .from_s = 12, .role = ROLE_LOADER}}},
    {"mpirun inside a task",
     0,
     {{100, 0, .program = "mpirun", .comm = "mpirun", .arguments = "mpirun train",
       .role = ROLE_MAIN},
      {110, 100, TRAIN, .cpu = 0.9, .from_s = 0.3, .role = ROLE_MAIN},
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.8, .role = ROLE_LOADER}}},
    {"a shell script around the program",
     0,
     {{100, 0, .program = "bash", .comm = "bash", .arguments = "bash run.sh", .role = ROLE_MAIN},
      {110, 100, TRAIN, .cpu = 0.9, .from_s = 0.3, .role = ROLE_MAIN},
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.8, .role = ROLE_LOADER}}},
    {"a container's starter",
     0,
     {{100, 0, .program = "starter", .comm = "starter", .arguments = "apptainer exec",
       .role = ROLE_MAIN},
      {110, 100, TRAIN, .cpu = 0.9, .from_s = 0.3, .role = ROLE_MAIN},
      {120, 110, .how = FORK, .comm = "python", .cpu = 0.5, .from_s = 0.8, .role = ROLE_LOADER}}},
    {"elastic agent's name on a rank",
     0,
     {{100, 0, .program = "python3", .comm = "pt_elastic", .arguments = "torchrun",
       .role = ROLE_MAIN}}},

    /* what else is there */
    {"a subshell",
     0,
     {{100, 0, .program = "bash", .comm = "bash", .arguments = "bash run.sh", .role = ROLE_MAIN},
      {110, 100, .how = FORK, .comm = "bash", .from_s = 0.5, .role = ROLE_LAUNCHER}}},
    {"wandb's service", 0, {RANK, TOOL(110, "wandb-core", ROLE_UNKNOWN, .cpu = 0.2)}},
    {"nvidia-smi in a loop", 0, {GPU_RANK, TOOL(110, "nvidia-smi", ROLE_UNKNOWN, .gpu = true)}},
    {"a TensorBoard beside it",
     0,
     {RANK, CHILD(110, "python -m tensorboard.main", ROLE_UNKNOWN, .cpu = 0.3, .read_k = 9000)}},
    {"the kernel compiler's pool",
     0,
     {RANK,
      CHILD(110, "python torch/_inductor/compile_worker/__main__.py", ROLE_LAUNCHER),
      {120, 110, .how = FORK, .comm = "python", .cpu = 1, .from_s = 0.8, .role = ROLE_UNKNOWN}}},
    {"a name with a parenthesis and spaces",
     0,
     {{100, 0, .program = "python3", .comm = "a) S 1 (b", .arguments = "python train.py",
       .cpu = 0.3, .role = ROLE_MAIN},
      WORKER(110)}},
    {"a rank that bears a worker's name",
     0,
     {{100, 0, .program = "python3", .comm = "pt_data_worker", .arguments = "python train.py",
       .role = ROLE_MAIN}}},
    {"sleep alone (ROCm/spur#803)",
     0,
     {{100, 0, .program = "sleep", .comm = "sleep", .arguments = "sleep 900", .role = ROLE_MAIN}}},
    {"the main thread loads (niznik-dev/cruijff_kit#449)",
     6,
     {{100, 0, TRAIN, .cpu = 0.97, .read_k = 3000, .role = ROLE_MAIN}}},
    {"many more workers than CPUs (speechbrain#2972)",
     0,
     {RANK, WORKER(110), WORKER(111), WORKER(112), WORKER(113), WORKER(114), WORKER(115),
      WORKER(116), WORKER(117), WORKER(118)}},
};

/* ---- playing a case ---- */

static const struct actor *actor_of(const struct recognition_case *c, pid_t id)
{
    for (size_t i = 0; i < ACTORS_MAX && c->actors[i].id != 0; i++)
        if (c->actors[i].id == id)
            return &c->actors[i];
    return NULL;
}

static bool there(const struct actor *a, double now)
{
    return now >= a->from_s && (a->until_s <= 0 || now < a->until_s);
}

/* fork keeps where the stack begins and the program; exec draws another. */
static const struct actor *image_of(const struct recognition_case *c, const struct actor *a)
{
    while (a->how == FORK && actor_of(c, a->of) != NULL)
        a = actor_of(c, a->of);
    return a;
}

static unsigned threads_of(const struct recognition_case *c, pid_t pid, double now)
{
    unsigned n = 1;

    for (size_t i = 0; i < ACTORS_MAX && c->actors[i].id != 0; i++)
        n += c->actors[i].thread && c->actors[i].of == pid && there(&c->actors[i], now);
    return n;
}

/* A program opens two; who was forked has those of its parent from the beginning. */
static unsigned gpu_files(const struct recognition_case *c, const struct actor *a, double now)
{
    const struct actor *parent = actor_of(c, a->of);
    bool inherits = a->how == FORK && parent != NULL && parent->gpu &&
                    parent->from_s <= a->from_s && parent->gpu_from_s <= a->from_s;
    bool opens = a->gpu && now >= a->gpu_from_s && !(inherits && a->gpu_from_s <= 0);

    return (inherits ? 2u : 0u) + (opens ? 2u : 0u);
}

static void put(const struct recognition_case *c, const struct actor *a, double now)
{
    const struct actor *process = a->thread ? actor_of(c, a->of) : a;
    const struct actor *image = image_of(c, process);
    const struct actor *parent = actor_of(c, process->of);
    const double age = now - a->from_s, hz = (double)sysconf(_SC_CLK_TCK);
    const double busy =
        a->cpu_until_s > 0 && now > a->cpu_until_s ? a->cpu_until_s - a->from_s : age;
    const struct fake_task t = {
        .pid = process->id,
        .tid = a->id,
        .ppid = process->of == 0                       ? SELF
                : parent != NULL && there(parent, now) ? process->of
                                                       : 1,
        .start_ticks = (uint64_t)((BOOT_MS / 1000.0 + a->from_s) * hz),
        .stack = 140000000000000u + (uint64_t)image->id * 4096,
        .comm = a->comm,
        .threads = threads_of(c, process->id, now),
        .cpu_ticks = (uint64_t)(a->cpu * busy * hz),
        .run_ns = (uint64_t)(a->cpu * busy * 1e9),
        .read_chars = (uint64_t)(a->read_k * age * 1000),
        .written_chars = (uint64_t)(a->write_k * age * 1000),
        .program = image->program,
        .arguments = image->arguments,
        .gpu_files = gpu_files(c, process, now),
    };

    fake_proc_task(&t);
}

static void drop(const struct actor *a)
{
    char entry[64];

    if (a->thread)
        (void)snprintf(entry, sizeof entry, "%d/task/%d", (int)a->of, (int)a->id);
    else
        (void)snprintf(entry, sizeof entry, "%d", (int)a->id);
    fake_proc_drop(entry);
}

static void play_until(const struct recognition_case *c, double now)
{
    for (size_t i = 0; i < ACTORS_MAX && c->actors[i].id != 0; i++)
        if (there(&c->actors[i], now))
            put(c, &c->actors[i], now);
        else
            drop(&c->actors[i]);
}

/* ---- the verdict ---- */

#define ROLES (ROLE_UNKNOWN + 1)
static unsigned confusion[ROLES][ROLES];
static unsigned bound_wrongly, loaders_missed, ncases;

static bool is_loader(enum task_role role)
{
    return classify_class(role) == TASK_LOADER;
}

static void judge(const struct recognition_case *c, const struct actor *a, const struct tasks *t)
{
    const struct task *task = tasks_task(t, a->id);
    enum task_role given;

    if (task == NULL)
        fail_msg("%s: %d is not seen", c->name, (int)a->id);
    given = (enum task_role)task->role;
    confusion[a->role][given]++;
    if (is_loader(given) && !is_loader(a->role)) {
        bound_wrongly++;
        fail_msg("%s: %d is %s and would be bound as %s", c->name, (int)a->id,
                 classify_role_name(a->role), classify_role_name(given));
    }
    if (is_loader(a->role) && !is_loader(given)) {
        loaders_missed++;
        if (!a->hidden)
            fail_msg("%s: loader %d is taken for %s", c->name, (int)a->id,
                     classify_role_name(given));
    }
}

static void play(const struct recognition_case *c)
{
    const double end = c->seconds > 0 ? c->seconds : 4;
    struct rank ranks[1] = {{.pid = RANK_PID}};
    struct tasks t;
    double now = 0.01;

    ranks[0].start_ticks = (uint64_t)(BOOT_MS / 1000.0 * (double)sysconf(_SC_CLK_TCK));
    assert_int_equal(cpus_parse(&ranks[0].home, "0-7"), 0);
    play_until(c, now);
    assert_int_equal(tasks_init(&t, fake_proc_root(), ranks, 1, SELF), 0);
    cpus_free(&ranks[0].home);
    for (;;) {
        play_until(c, now);
        assert_int_equal(tasks_scan(&t, TASKS_FULL, BOOT_MS + (uint64_t)(now * 1000)), 0);
        if (now >= end)
            break;
        now = fmin(end, now + (t.undecided ? 0.07 : 1)); /* as the agent does */
    }
    for (size_t i = 0; i < ACTORS_MAX && c->actors[i].id != 0; i++)
        if (there(&c->actors[i], now))
            judge(c, &c->actors[i], &t);
    tasks_free(&t);
    ncases++;
}

static void scripted_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        (void)fake_proc_begin();
        play(&cases[i]);
        fake_proc_end();
    }
    assert_true(ncases >= 60);
    assert_int_equal(bound_wrongly, 0);
}

static void print_confusion(void)
{
    printf("# %u cases; rows: what a task is, columns: what it was taken for\n# %-14s", ncases, "");
    for (unsigned given = 0; given < ROLES; given++)
        printf(" %13s", classify_role_name((enum task_role)given));
    printf("\n");
    for (unsigned is = 0; is < ROLES; is++) {
        printf("# %-14s", classify_role_name((enum task_role)is));
        for (unsigned given = 0; given < ROLES; given++)
            printf(" %13u", confusion[is][given]);
        printf("\n");
    }
    printf("# bound although no loader: %u; loaders left alone: %u\n", bound_wrongly,
           loaders_missed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(scripted_cases)};
    int failed = cmocka_run_group_tests_name("recognition", tests, NULL, NULL);

    print_confusion();
    return failed;
}
