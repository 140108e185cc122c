/*
 * A training program for the agent's tests to work on: loader threads and forked workers that come
 * and go on command. Commands are letters on standard input, each answered on standard output:
 *
 *     t   start a thread named adl-loader      answer: its tid
 *     p   start a thread without a name        answer: its tid
 *     n   start a thread named pt_data_pin     answer: its tid
 *     w   fork a worker, without exec, named     answer: its pid
 *     x   fork a child that execs sleep        answer: its pid
 *     k   end the newest thread of 't'         answer: 0
 *     b   the newest 't' thread computes for 0.3 s of CPU time  answer: 0
 *     g   the newest 'p' thread reports 100 more samples        answer: 0
 *     i   the newest 't' thread starts one named plain          answer: its tid
 *     m   the newest 't' thread narrows its own mask to CPU 0   answer: 0
 *     a   the newest 'p' thread announces itself as a loader    answer: 1 connected, 0 not
 *     u   it takes that back                   answer: 0
 *
 * At the end of input it exits, and its workers with it.
 */
#include "config.h"

#include "adloader.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 2048

struct worker {
    pthread_t thread;
    const char *name;
    pid_t tid;
    sem_t ready, order;
    char command;
    int answer;
};

static struct worker workers[THREADS_MAX];
static unsigned nworkers;
static adloader_t *handle;

static double thread_cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *idle(void *argument)
{
    struct worker *w = argument;
    (void)prctl(PR_SET_NAME, "plain");
    w->tid = (pid_t)syscall(SYS_gettid);
    (void)sem_post(&w->ready);
    while (pause() < 0)
        continue;
    return NULL;
}

/* A thread that inherits the mask of the one that starts it, and is no loader. */
static int start_heir(void)
{
    static struct worker heir;
    if (sem_init(&heir.ready, 0, 0) < 0 || pthread_create(&heir.thread, NULL, idle, &heir) != 0)
        return -1;
    (void)sem_wait(&heir.ready);
    return (int)heir.tid;
}

static int obey(char command)
{
    static double samples;
    double until;

    cpu_set_t zero;
    switch (command) {
    case 'm':
        CPU_ZERO(&zero);
        CPU_SET(0, &zero);
        return sched_setaffinity(0, sizeof zero, &zero);
    case 'a':
        if (handle == NULL)
            handle = adloader_open();
        (void)adloader_loader_thread(handle, 1);
        for (int i = 0; i < 100 && !adloader_connected(handle); i++)
            usleep(10000);
        return adloader_connected(handle);
    case 'b':
        for (until = thread_cpu_s() + 0.3; thread_cpu_s() < until;)
            continue;
        return 0;
    case 'i':
        return start_heir();
    case 'g':
        samples += 100;
        adloader_progress(handle, samples, samples / 100, samples / 50);
        return 0;
    case 'u':
        return adloader_loader_thread(handle, 0);
    default:
        return 0;
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    if (w->name != NULL)
        (void)prctl(PR_SET_NAME, w->name);
    w->tid = (pid_t)syscall(SYS_gettid);
    (void)sem_post(&w->ready);
    for (;;) {
        (void)sem_wait(&w->order);
        if (w->command == 'k')
            return NULL;
        w->answer = obey(w->command);
        (void)sem_post(&w->ready);
    }
}

static int start(const char *name)
{
    if (nworkers == THREADS_MAX)
        return -1;
    struct worker *w = &workers[nworkers];
    w->name = name;
    (void)sem_init(&w->ready, 0, 0);
    (void)sem_init(&w->order, 0, 0);
    if (pthread_create(&w->thread, NULL, work, w) != 0)
        return -1;
    (void)sem_wait(&w->ready);
    nworkers++;
    return (int)w->tid;
}

static int order(char command, int named)
{
    for (unsigned i = nworkers; i-- > 0;) {
        struct worker *w = &workers[i];
        if ((w->name != NULL) != named || w->tid == 0)
            continue;
        w->command = command;
        (void)sem_post(&w->order);
        if (command == 'k') {
            (void)pthread_join(w->thread, NULL);
            w->tid = 0;
            return 0;
        }
        (void)sem_wait(&w->ready);
        return w->answer;
    }
    return -1;
}

static int spawn(int exec)
{
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (exec)
            (void)execlp("sleep", "sleep", "1000", (char *)NULL);
        (void)prctl(PR_SET_NAME, "pt_data_worker"); /* since its parent does not work */
        for (;;)
            pause();
    }
    return (int)child;
}

int main(void)
{
    int command;
    (void)signal(SIGCHLD, SIG_IGN);
    while ((command = getchar()) != EOF) {
        int answer = -1;
        switch (command) {
        case 't':
            answer = start("adl-loader");
            break;
        case 'p':
            answer = start(NULL);
            break;
        case 'n':
            answer = start("pt_data_pin");
            break;
        case 'w':
        case 'x':
            answer = spawn(command == 'x');
            break;
        case 'b':
        case 'i':
        case 'k':
        case 'm':
            answer = order((char)command, 1);
            break;
        case 'a':
        case 'g':
        case 'u':
            answer = order((char)command, 0);
            break;
        default:
            break;
        }
        printf("%d\n", answer);
        (void)fflush(stdout);
    }
    _exit(0);
}
