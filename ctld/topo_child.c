/*
 * Reading a topology in a child process. hwloc trusts what it imports: a damaged recording can
 * crash it, and a hostile one could do more. So the file is read by a child with bounds on time,
 * without stderr and with all signals blocked, which hands plain numbers back through a pipe; these
 * are checked like any other input. A child that dies has refused.
 */
#include "config.h"

#include "topo_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CPU_SECONDS_MAX 5u /* the largest recorded machine takes a fortieth of a second */
#define WAIT_MS_MAX     10000
#define ANSWER_MAX      (64u * 1024u * 1024u)
#define PUS_MAX         65536u
#define GPUS_MAX        65536u
#define NUMA_MAX        1024u
#define TEXT_MAX        256u

/* The head of an answer; what follows depends on it. */
struct head {
    uint32_t ok;
    uint32_t npus, ncores, nl3, nnuma, npackages, ngpus;
    uint32_t hybrid, distances;
    char error[TEXT_MAX];
};

struct gpu_head {
    char pci[16];
    char name[64];
    int32_t numa;
    uint32_t nlocal;
};

/* ---- the child ----------------------------------------------------------------------------- */

static int put(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = write(fd, at, length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

static int put_gpu(int fd, const struct topo_gpu *gpu)
{
    struct gpu_head head = {.numa = gpu->numa, .nlocal = cpus_count(&gpu->local)};

    memcpy(head.pci, gpu->pci, sizeof(head.pci));
    memcpy(head.name, gpu->name, sizeof(head.name));
    if (put(fd, &head, sizeof(head)) < 0)
        return -1;
    for (long c = cpus_next(&gpu->local, 0); c >= 0;
         c = cpus_next(&gpu->local, (unsigned long)c + 1)) {
        uint32_t os = (uint32_t)c;

        if (put(fd, &os, sizeof(os)) < 0)
            return -1;
    }
    return 0;
}

static int put_topo(int fd, const struct topo *topo)
{
    struct head head = {.ok = 1,
                        .npus = (uint32_t)topo->npus,
                        .ncores = topo->ncores,
                        .nl3 = topo->nl3,
                        .nnuma = topo->nnuma,
                        .npackages = topo->npackages,
                        .ngpus = (uint32_t)topo->ngpus,
                        .hybrid = topo->hybrid,
                        .distances = topo->numa_distance != NULL};

    if (put(fd, &head, sizeof(head)) < 0 || put(fd, topo->pus, topo->npus * sizeof(*topo->pus)) < 0)
        return -1;
    if (head.distances &&
        put(fd, topo->numa_distance, (size_t)topo->nnuma * topo->nnuma * sizeof(double)) < 0)
        return -1;
    for (size_t g = 0; g < topo->ngpus; g++)
        if (put_gpu(fd, &topo->gpus[g]) < 0)
            return -1;
    return 0;
}

/* Nothing of the parent's must happen here: no output, no signal handlers, no end of its own. */
static void confine(void)
{
    const struct rlimit cpu = {CPU_SECONDS_MAX, CPU_SECONDS_MAX}, no_core = {0, 0};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t all;

    (void)sigfillset(&all);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(null, STDERR_FILENO) < 0 || setrlimit(RLIMIT_CPU, &cpu) < 0 ||
        setrlimit(RLIMIT_CORE, &no_core) < 0 || sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        _exit(1);
    (void)signal(SIGSEGV, SIG_DFL);
    (void)signal(SIGABRT, SIG_DFL);
    (void)signal(SIGBUS, SIG_DFL);
    (void)signal(SIGFPE, SIG_DFL);
}

_Noreturn static void child(int fd, topo_loader *load, const void *text, size_t length)
{
    struct head refused = {.ok = 0};
    struct topo *topo;

    confine();
    topo = load(text, length, refused.error, sizeof(refused.error));
    if (topo != NULL)
        _exit(put_topo(fd, topo) < 0);
    _exit(put(fd, &refused, sizeof(refused)) < 0);
}

/* ---- the parent ---------------------------------------------------------------------------- */

struct answer {
    char *data;
    size_t length, at;
};

static long remaining_ms(const struct timespec *deadline)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0)
        return 0;
    return (long)(deadline->tv_sec - now.tv_sec) * 1000 +
           (deadline->tv_nsec - now.tv_nsec) / 1000000;
}

/* Read until the child closes; -1 when it takes too long or says too much. */
static int collect(int fd, struct answer *answer)
{
    struct timespec deadline;
    size_t capacity = 0;

    if (clock_gettime(CLOCK_MONOTONIC, &deadline) < 0)
        return -1;
    deadline.tv_sec += WAIT_MS_MAX / 1000;
    for (;;) {
        struct pollfd p = {fd, POLLIN, 0};
        long wait = remaining_ms(&deadline);
        ssize_t n;

        if (wait <= 0 || poll(&p, 1, (int)wait) == 0)
            return -1;
        if (answer->length == capacity) {
            char *more;

            capacity = capacity == 0 ? 65536 : 2 * capacity;
            more = capacity <= ANSWER_MAX ? realloc(answer->data, capacity) : NULL;
            if (more == NULL)
                return -1;
            answer->data = more;
        }
        n = read(fd, answer->data + answer->length, capacity - answer->length);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n == 0)
            return 0;
        if (n > 0)
            answer->length += (size_t)n;
    }
}

static int get(struct answer *answer, void *out, size_t length)
{
    if (answer->length - answer->at < length)
        return -1;
    memcpy(out, answer->data + answer->at, length);
    answer->at += length;
    return 0;
}

static bool index_within(int index, unsigned n)
{
    return index >= -1 && index < (int)n;
}

static bool pus_are_sane(const struct topo *topo)
{
    for (size_t i = 0; i < topo->npus; i++) {
        const struct topo_pu *pu = &topo->pus[i];

        if (pu->os >= CPUS_MAX || (i > 0 && topo->pus[i - 1].os >= pu->os) ||
            !index_within(pu->core, topo->ncores) || !index_within(pu->l3, topo->nl3) ||
            !index_within(pu->numa, topo->nnuma) || !index_within(pu->package, topo->npackages) ||
            pu->sibling < 0 || !(pu->speed > 0 && pu->speed <= 1))
            return false;
    }
    return true;
}

static int get_gpu(struct answer *answer, const struct topo *topo, struct topo_gpu *gpu)
{
    struct gpu_head head;

    if (get(answer, &head, sizeof(head)) < 0 || head.nlocal > topo->npus ||
        !index_within(head.numa, topo->nnuma))
        return -1;
    memcpy(gpu->pci, head.pci, sizeof(gpu->pci));
    memcpy(gpu->name, head.name, sizeof(gpu->name));
    gpu->pci[sizeof(gpu->pci) - 1] = '\0';
    gpu->name[sizeof(gpu->name) - 1] = '\0';
    gpu->numa = head.numa;
    for (uint32_t i = 0; i < head.nlocal; i++) {
        uint32_t os;

        if (get(answer, &os, sizeof(os)) < 0 || cpus_set(&gpu->local, os) < 0)
            return -1;
    }
    return 0;
}

static int get_arrays(struct answer *answer, const struct head *head, struct topo *topo)
{
    size_t cells = (size_t)head->nnuma * head->nnuma;

    topo->pus = calloc(head->npus, sizeof(*topo->pus));
    topo->gpus = calloc(head->ngpus + 1u, sizeof(*topo->gpus));
    if (topo->pus == NULL || topo->gpus == NULL ||
        get(answer, topo->pus, head->npus * sizeof(*topo->pus)) < 0 || !pus_are_sane(topo))
        return -1;
    if (head->distances) {
        topo->numa_distance = malloc(cells * sizeof(double) + 1);
        if (topo->numa_distance == NULL ||
            get(answer, topo->numa_distance, cells * sizeof(double)) < 0)
            return -1;
    }
    for (; topo->ngpus < head->ngpus; topo->ngpus++)
        if (get_gpu(answer, topo, &topo->gpus[topo->ngpus]) < 0) {
            cpus_free(&topo->gpus[topo->ngpus].local);
            return -1;
        }
    return 0;
}

static struct topo *understand(struct answer *answer, char *error, size_t error_size)
{
    struct head head;
    struct topo *topo;

    if (get(answer, &head, sizeof(head)) < 0) {
        (void)topo_fail(error, error_size, "topology: reading it failed; it is damaged");
        return NULL;
    }
    if (!head.ok) {
        head.error[TEXT_MAX - 1] = '\0';
        (void)topo_fail(error, error_size, "%s", head.error);
        return NULL;
    }
    topo = calloc(1, sizeof(*topo));
    if (topo == NULL || head.npus == 0 || head.npus > PUS_MAX || head.ngpus > GPUS_MAX ||
        head.nnuma > PUS_MAX || (head.distances && head.nnuma > NUMA_MAX) ||
        head.ncores > PUS_MAX || head.nl3 > PUS_MAX || head.npackages > PUS_MAX) {
        free(topo);
        (void)topo_fail(error, error_size, "topology: numbers out of bounds");
        return NULL;
    }
    *topo = (struct topo){.npus = head.npus,
                          .ncores = head.ncores,
                          .nl3 = head.nl3,
                          .nnuma = head.nnuma,
                          .npackages = head.npackages,
                          .hybrid = head.hybrid != 0};
    if (get_arrays(answer, &head, topo) < 0) {
        topo_free(topo);
        (void)topo_fail(error, error_size, "topology: reading it ended half way");
        return NULL;
    }
    return topo;
}

static void reap(pid_t pid, bool kill_it)
{
    if (kill_it)
        (void)kill(pid, SIGKILL);
    /* where the program ignores SIGCHLD there is nothing to wait for */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

struct topo *topo_in_child(topo_loader *load, const void *text, size_t length, char *error,
                           size_t error_size)
{
    struct answer answer = {0};
    struct topo *topo = NULL;
    int fd[2];
    pid_t pid;

    if (pipe2(fd, O_CLOEXEC) < 0) {
        (void)topo_fail(error, error_size, "topology: no pipe: %s", strerror(errno));
        return NULL;
    }
    pid = fork();
    if (pid == 0)
        child(fd[1], load, text, length);
    (void)close(fd[1]);
    if (pid < 0) {
        (void)topo_fail(error, error_size, "topology: no child process: %s", strerror(errno));
    } else {
        bool whole = collect(fd[0], &answer) == 0;

        reap(pid, !whole);
        if (whole)
            topo = understand(&answer, error, error_size);
        else
            (void)topo_fail(error, error_size, "topology: reading it takes too long");
    }
    (void)close(fd[0]);
    free(answer.data);
    return topo;
}
