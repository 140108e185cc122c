/* bound_program.h: a program with loader threads, and the real agent beside it. */
#include "config.h"

#include "bound_program.h"

#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODE        "n1"
#define START_TRIES 600 /* tenths of a second */

static bool complain(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return false;
}

static pid_t run_on(char *const *command, unsigned long cpus)
{
    pid_t pid = fork();

    if (pid == 0) {
        cpu_set_t set;

        CPU_ZERO(&set);
        for (unsigned c = 0; c < sizeof(cpus) * 8; c++)
            if (cpus >> c & 1)
                CPU_SET(c, &set);
        if (sched_setaffinity(0, sizeof(set), &set) == 0)
            (void)execvp(command[0], command);
        (void)fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    return pid;
}

static bool has_name(pid_t pid, const char *tid, const char *prefix)
{
    char path[320], name[32] = "";
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, tid);
    f = fopen(path, "r");
    if (f == NULL)
        return false;
    if (fgets(name, sizeof(name), f) == NULL)
        name[0] = '\0';
    (void)fclose(f);
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static size_t find_loaders(struct bound_program *p, const char *prefix, size_t most)
{
    char path[64];
    const struct dirent *entry;
    DIR *dir;

    p->nloaders = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)p->pid);
    dir = opendir(path);
    if (dir == NULL)
        return 0;
    while (p->nloaders < most && (entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.' && has_name(p->pid, entry->d_name, prefix))
            p->loaders[p->nloaders++] = (pid_t)strtol(entry->d_name, NULL, 10);
    (void)closedir(dir);
    return p->nloaders;
}

bool bound_program_start(struct bound_program *p, char *const *command, unsigned long cpus,
                         const char *prefix, size_t count)
{
    const struct timespec tenth = {0, 100000000};

    *p = (struct bound_program){.loaders = calloc(count + 1, sizeof(pid_t))};
    if (p->loaders == NULL || (p->pid = run_on(command, cpus)) < 0)
        return complain("the program");
    for (int i = 0; i < START_TRIES && find_loaders(p, prefix, count) < count; i++) {
        if (waitpid(p->pid, NULL, WNOHANG) == p->pid) {
            (void)fprintf(stderr, "%s: it ended at once\n", command[0]);
            p->pid = 0;
            bound_program_stop(p);
            return false;
        }
        (void)nanosleep(&tenth, NULL);
    }
    if (p->nloaders == count)
        return true;
    (void)fprintf(stderr, "%s: %zu of %zu loader threads\n", command[0], p->nloaders, count);
    bound_program_stop(p);
    return false;
}

/* What slurmstepd knows of a step of one rank. */
static bool describe(struct agent_step *step, struct rank *rank, const char *socket,
                     const char *folder)
{
    struct procfs fs;
    struct procfs_stat stat;
    char controller[160], rundir[160], error[256];
    char *argv[] = {controller, rundir};
    bool known;

    (void)snprintf(controller, sizeof(controller), "controller=unix:%s", socket);
    (void)snprintf(rundir, sizeof(rundir), "rundir=%s", folder);
    if (args_parse(&step->args, 2, argv, error, sizeof(error)) < 0) {
        (void)fprintf(stderr, "the agent's arguments: %s\n", error);
        return false;
    }
    if (procfs_open(&fs, "") < 0)
        return complain("/proc");
    known = procfs_process_stat(&fs, rank->pid, &stat) == 0 &&
            cpus_get_affinity(rank->pid, &rank->home) == 0 &&
            cpus_copy(&step->about.own, &rank->home) == 0;
    procfs_close(&fs);
    if (!known)
        return complain("the program cannot be looked at");
    rank->start_ticks = stat.start_ticks;
    step->about.hints.on = true;
    step->about.uid = (uint32_t)getuid();
    step->about.tasks = step->about.step_nodes = 1;
    (void)snprintf(step->about.node, sizeof(step->about.node), NODE);
    (void)snprintf(step->about.host, sizeof(step->about.host), NODE);
    (void)snprintf(step->about.agent, sizeof(step->about.agent), "bench");
    step->ranks = rank;
    step->nranks = 1;
    step->listener = -1;
    return true;
}

bool bound_program_attach(struct bound_program *p, const char *socket, const char *folder,
                          unsigned job, unsigned step)
{
    struct rank *rank = calloc(1, sizeof(*rank));

    p->step = calloc(1, sizeof(*p->step));
    if (rank == NULL || p->step == NULL) {
        free(rank);
        free(p->step);
        p->step = NULL;
        return complain("the agent");
    }
    rank->pid = p->pid;
    p->step->about.job = job;
    p->step->about.step = step;
    p->step->ranks = rank;
    if (!describe(p->step, rank, socket, folder))
        return false;
    p->agent = agent_start(p->step);
    return p->agent != NULL || complain("the agent does not start");
}

bool bound_program_is_on(const struct bound_program *p, unsigned long cpus)
{
    for (size_t i = 0; i < p->nloaders; i++) {
        cpu_set_t set;

        if (sched_getaffinity(p->loaders[i], sizeof(set), &set) < 0)
            return false;
        for (unsigned c = 0; c < sizeof(cpus) * 8; c++)
            if (!CPU_ISSET(c, &set) != !(cpus >> c & 1))
                return false;
    }
    return true;
}

void bound_program_detach(struct bound_program *p)
{
    struct rank *rank;

    if (p->agent != NULL) {
        agent_leave(p->agent);
        (void)agent_join(p->agent, 1000);
        p->agent = NULL;
    }
    if (p->step == NULL)
        return;
    rank = (struct rank *)(uintptr_t)p->step->ranks;
    cpus_free(&p->step->about.own);
    cpus_free(&rank->home);
    free(rank);
    free(p->step);
    p->step = NULL;
}

void bound_program_stop(struct bound_program *p)
{
    bound_program_detach(p);
    if (p->pid > 0) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
    }
    free(p->loaders);
    *p = (struct bound_program){.pid = 0};
}
