/*
 * A process of another user takes the number of a loader that has ended, again and again: the worst
 * that can happen to a program that keeps numbers.
 *
 *     reuse-id PARENT UID ROUNDS HOLD_MS
 *
 * Each round kills one child of process PARENT (a worker; its parent has to reap it), starts a
 * process with its number (clone3 with set_tid) under user UID, bound to one CPU or to two in turn,
 * and looks all the time whether that one's mask stays what it was. Prints "TOOK took a number,
 * KEPT kept their masks". Exit status 0 if so many rounds took place and all kept them, 1 if not,
 * 77 if the kernel does not let numbers be chosen. Needs root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ATTEMPTS 2000 /* of a millisecond, until the number is free */

static void rest(long us)
{
    const struct timespec t = {us / 1000000, (us % 1000000) * 1000};
    (void)nanosleep(&t, NULL);
}

/* One of its children, another one each time. */
static pid_t pick_child(pid_t parent, unsigned round)
{
    char path[64];
    pid_t children[4096];
    unsigned n = 0;
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return -1;
    while (n < 4096 && fscanf(f, "%d", &pid) == 1)
        children[n++] = pid;
    fclose(f);
    return n > 0 ? children[round % n] : -1;
}

static int start_as(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
    return (int)syscall(SYS_clone3, &args, sizeof args);
}

/* The other user's process: does its mask stay? */
static void be_stranger(uid_t uid, const cpu_set_t *mine, long hold_ms)
{
    if (setgid(uid) < 0 || setuid(uid) < 0)
        _exit(3);
    for (long i = 0; i < hold_ms; i++) {
        cpu_set_t now;
        if (sched_getaffinity(0, sizeof now, &now) < 0 || !CPU_EQUAL(&now, mine))
            _exit(1);
        rest(1000);
    }
    _exit(0);
}

static void choose_mask(unsigned round, cpu_set_t *set)
{
    CPU_ZERO(set);
    if (round % 3 != 1)
        CPU_SET(0, set);
    if (round % 3 != 0)
        CPU_SET(1, set);
}

/* 1 kept, 0 changed, -1 the round did not take place. */
static int play(pid_t parent, unsigned round, uid_t uid, long hold_ms)
{
    cpu_set_t set;
    int status = 0;
    pid_t got = -1, worker = pick_child(parent, round);
    choose_mask(round, &set);
    if (worker <= 0 || sched_setaffinity(0, sizeof set, &set) < 0 || kill(worker, SIGKILL) < 0)
        return -1;
    for (int i = 0; i < ATTEMPTS; i++) {
        got = start_as(worker);
        if (got == 0)
            be_stranger(uid, &set, hold_ms);
        if (got > 0)
            break;
        if (errno != EEXIST) {
            fprintf(stderr, "reuse-id: clone3: %s\n", strerror(errno));
            exit(77);
        }
        rest(1000);
    }
    if (got <= 0 || waitpid(got, &status, 0) != got || !WIFEXITED(status) ||
        WEXITSTATUS(status) > 1)
        return -1;
    return WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    unsigned took = 0, kept = 0;
    if (argc != 5) {
        fprintf(stderr, "usage: reuse-id PARENT UID ROUNDS HOLD_MS\n");
        return 2;
    }
    pid_t parent = (pid_t)atol(argv[1]);
    uid_t uid = (uid_t)atol(argv[2]);
    unsigned rounds = (unsigned)atol(argv[3]);
    for (unsigned i = 0; i < 2 * rounds && took < rounds; i++) {
        int outcome = play(parent, i, uid, atol(argv[4]));
        took += outcome >= 0;
        kept += outcome > 0;
    }
    printf("%u took a number, %u kept their masks\n", took, kept);
    return took == rounds && kept == took ? 0 : 1;
}
