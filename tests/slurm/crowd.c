/*
 * A program with a crowd of loaders, for tests and benchmarks: the main thread computes a little
 * all the time, as one that trains does; the loaders compute a little each, sleep, and do nothing
 * else.
 *
 *     crowd processes N [WORK_US [EVERY_MS]]   N forked workers; one that ends is replaced
 *     crowd restless N [WORK_US [EVERY_MS]]    N forked workers that put their mask back each time
 *     crowd threads N [WORK_US [EVERY_MS]]     N threads with a loader's name
 *     crowd churn TOTAL ALIVE LIFE_MS          workers that live up to LIFE_MS, ALIVE at a time,
 *                                              TOTAL in all; says "churned" when they are through
 *     crowd orphans N SECONDS                  N forked workers that go on when the main thread
 * ends (after SECONDS); their output is closed
 *
 * It runs until it is killed; workers end with their parent, but for orphans.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAIN_WORK_US  300 /* of every MAIN_EVERY_MS: 3 % of a core */
#define MAIN_EVERY_MS 10
#define STACK_BYTES   (64u * 1024u)

static long work_us = 200, every_ms = 100;
static bool restless;

static void die(const char *what)
{
    fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static long us_between(const struct timespec *from, const struct timespec *to)
{
    return (to->tv_sec - from->tv_sec) * 1000000 + (to->tv_nsec - from->tv_nsec) / 1000;
}

static void compute(long us)
{
    struct timespec from, now;
    volatile double x = 1;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    do {
        for (int i = 0; i < 1000; i++)
            x = x * 1.000001 + 0.1;
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (us_between(&from, &now) < us);
}

static void rest(long ms)
{
    const struct timespec t = {ms / 1000, (ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* What a program does that manages its affinity itself. */
static void put_mask_back(const cpu_set_t *first)
{
    if (restless && sched_setaffinity(0, sizeof *first, first) < 0)
        die("sched_setaffinity");
}

static void work_for_good(long us, long ms)
{
    cpu_set_t first;
    if (sched_getaffinity(0, sizeof first, &first) < 0)
        die("sched_getaffinity");
    for (;;) {
        put_mask_back(&first);
        compute(us);
        rest(ms);
    }
}

/* ---- loaders ---- */

static void *loader_thread(void *unused)
{
    (void)unused;
    (void)prctl(PR_SET_NAME, "adl-loader");
    work_for_good(work_us, every_ms);
    return NULL;
}

static pid_t start_worker(void)
{
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    return pid;
}

static void start_workers(long n, bool with_parent)
{
    for (long i = 0; i < n; i++) {
        if (start_worker() > 0)
            continue;
        if (with_parent)
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        else if (freopen("/dev/null", "w", stdout) == NULL ||
                 freopen("/dev/null", "w", stderr) == NULL)
            _exit(1);
        work_for_good(work_us, every_ms);
    }
}

static void work_and_replace(void)
{
    for (;;) {
        compute(MAIN_WORK_US);
        rest(MAIN_EVERY_MS);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            start_workers(1, true);
    }
}

static void start_threads(long n)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0)
        die("thread attributes");
    for (long i = 0; i < n; i++)
        if ((errno = pthread_create(&thread, &attributes, loader_thread, NULL)) != 0)
            die("pthread_create");
}

/* Each worker's life is drawn from 1 to life_ms. */
static void churn(long total, long alive, long life_ms)
{
    long started = 0, living = 0;
    while (started < total || living > 0) {
        if (started < total && living < alive) {
            if (start_worker() == 0) {
                srand((unsigned)getpid());
                compute(100);
                rest(1 + rand() % life_ms);
                _exit(0);
            }
            started++;
            living++;
        } else if (wait(NULL) > 0) {
            living--;
        }
    }
    printf("churned\n");
    fflush(stdout);
}

static long number(char **argv, int argc, int i, long otherwise)
{
    char *end;
    if (i >= argc)
        return otherwise;
    long value = strtol(argv[i], &end, 10);
    if (*end != '\0' || value < 1 || value > 1000000) {
        fprintf(stderr, "crowd: not a number from 1 to 1000000: %s\n", argv[i]);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    const char *form = argc > 2 ? argv[1] : "";
    long n = number(argv, argc, 2, 1);
    if (strcmp(form, "processes") == 0 || strcmp(form, "threads") == 0 ||
        strcmp(form, "restless") == 0) {
        restless = form[0] == 'r';
        work_us = number(argv, argc, 3, work_us);
        every_ms = number(argv, argc, 4, every_ms);
        if (form[0] == 't')
            start_threads(n);
        else
            start_workers(n, true);
    } else if (strcmp(form, "churn") == 0) {
        churn(n, number(argv, argc, 3, 1), number(argv, argc, 4, 100));
    } else if (strcmp(form, "orphans") == 0) {
        long seconds = number(argv, argc, 3, 1);
        start_workers(n, false);
        for (long i = 0; i < seconds * 1000 / MAIN_EVERY_MS; i++) {
            compute(MAIN_WORK_US);
            rest(MAIN_EVERY_MS);
        }
        return 0;
    } else {
        fprintf(stderr, "usage: crowd processes|restless|threads N [WORK_US [EVERY_MS]]\n"
                        "       crowd churn TOTAL ALIVE LIFE_MS\n"
                        "       crowd orphans N SECONDS\n");
        return 2;
    }
    work_and_replace();
}
