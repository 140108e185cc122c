/*
 * From a step's start or end to the last of a neighbour's loader threads on its new CPUs: the whole
 * way, over a real controller and real agents, with a real program that loads.
 *
 *     event-bind FOLDER [LOADERS [ROUNDS]]      (64, 200; two CPUs; FOLDER: a data set of adltrain)
 *
 * The program (adltrain) has CPU 0 of its own; its allocation's batch step has both CPUs and lends.
 * A round: a step that Slurm gave CPU 1 starts, the loaders leave it; that step ends, they have it
 * again. Time runs from the start of that step's agent, or from its order to leave. The loaders
 * compute all the time, on the CPUs that controller and agents need as well.
 */
#include "config.h"

#include "bound_program.h"
#include "fake_agents.h"
#include "log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define JOB         7u
#define OWN         0x1ul
#define VISITED     0x2ul
#define BOTH        0x3ul
#define LIMIT_MS    30e3
#define LOADER_NAME "adl-load"

static double now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Milliseconds since from until the loaders are on these CPUs; -1: they never were. */
static double until_on(const struct bound_program *p, unsigned long cpus, double from)
{
    while (!bound_program_is_on(p, cpus))
        if (now_ms() - from > LIMIT_MS)
            return -1;
    return now_ms() - from;
}

/* 100 to 200 ms, so that the rounds do not keep step with the agents' own looks. */
static void pause_between(void)
{
    const struct timespec t = {0, 100000000 + random() % 100000000};

    (void)nanosleep(&t, NULL);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_row(const char *event, double *ms, size_t n)
{
    qsort(ms, n, sizeof(*ms), compare);
    printf("%-6s %6zu | %8.3f %8.3f %8.3f\n", event, n, ms[n / 2], ms[n * 99 / 100], ms[n - 1]);
}

/* One step comes and goes. False: the loaders did not follow. */
static bool play_round(const struct controller *c, const struct bound_program *loaders,
                       struct bound_program *visitor, double *start, double *end)
{
    double from = now_ms();

    if (!bound_program_attach(visitor, c->socket, c->dir, JOB, 1))
        return false;
    *start = until_on(loaders, OWN, from);
    pause_between();
    from = now_ms();
    bound_program_detach(visitor);
    *end = until_on(loaders, BOTH, from);
    pause_between();
    return *start >= 0 && *end >= 0;
}

static int measure(const struct controller *c, const struct bound_program *loaders,
                   struct bound_program *visitor, unsigned rounds)
{
    double *start = calloc(rounds, sizeof(double)), *end = calloc(rounds, sizeof(double));
    unsigned done = 0;

    if (start == NULL || end == NULL)
        return 1;
    if (until_on(loaders, BOTH, now_ms()) >= 0)
        while (done < rounds && play_round(c, loaders, visitor, &start[done], &end[done]))
            done++;
    if (done == rounds) {
        printf("event  rounds |   ms: p50      p99      max\n");
        print_row("start", start, rounds);
        print_row("end", end, rounds);
    } else {
        (void)fprintf(stderr, "event-bind: the loaders did not follow in round %u\n", done);
    }
    free(start);
    free(end);
    return done == rounds ? 0 : 1;
}

/* Three programs, three agents, one controller. */
static int play(char *const *command, unsigned n, unsigned rounds)
{
    char *idle[] = {"sleep", "3600", NULL};
    struct bound_program loaders = {0}, lender = {0}, visitor = {0};
    struct controller c;
    int status = 1;

    controller_prepare(&c, "MainCoresPerTask=0\nLearnTime=1s\nMinHoldTime=0s\nSacctField=none\n");
    controller_start(&c);
    if (bound_program_start(&loaders, command, OWN, LOADER_NAME, n) &&
        bound_program_start(&lender, idle, BOTH, "", 0) &&
        bound_program_start(&visitor, idle, VISITED, "", 0) &&
        bound_program_attach(&lender, c.socket, c.dir, JOB, MSG_STEP_BATCH) &&
        bound_program_attach(&loaders, c.socket, c.dir, JOB, 0))
        status = measure(&c, &loaders, &visitor, rounds);
    bound_program_stop(&visitor);
    bound_program_stop(&loaders);
    bound_program_stop(&lender);
    (void)controller_end(&c, SIGTERM);
    controller_discard(&c, status != 0);
    return status;
}

int main(int argc, char **argv)
{
    char program[256], workers[16];
    const char *build = getenv("ADL_BUILDDIR");
    unsigned n = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 64;
    unsigned rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 200;

    if (argc < 2 || build == NULL || n < 1 || rounds < 1) {
        (void)fprintf(stderr, "usage: ADL_BUILDDIR=BUILD event-bind FOLDER [LOADERS [ROUNDS]]\n");
        return 2;
    }
    (void)snprintf(program, sizeof(program), "%s/adltrain", build);
    (void)snprintf(workers, sizeof(workers), "%u", n);
    char *command[] = {program,     "run",   "--data",     argv[1], "--fixed-loaders",
                       "--loaders", workers, "--gpu-rate", "20000", "--quiet",
                       "--seconds", "3600",  NULL};
    (void)signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    return play(command, n, rounds);
}
