/* A bounded run of another program: see command.h. */
#include "config.h"

#include "command.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUTPUT_FIRST 65536u

extern char **environ;

struct child {
    pid_t pid;
    int out, err; /* our ends; -1 closed */
    size_t capacity, output_max;
    size_t words_length;
    struct command *command;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static int spawn(const char *program, char *const argv[], int out, int err, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawnp(pid, program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* 0, or an error number. */
static int start(struct child *child, const char *program, char *const argv[])
{
    int out[2] = {-1, -1}, err[2] = {-1, -1}, rc;

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        rc = errno;
    else
        rc = spawn(program, argv, out[1], err[1], &child->pid);
    close_fd(&out[1]);
    close_fd(&err[1]);
    child->out = out[0];
    child->err = err[0];
    if (rc != 0) {
        close_fd(&child->out);
        close_fd(&child->err);
    }
    return rc;
}

static bool make_room(struct child *child)
{
    size_t wanted = child->capacity == 0 ? OUTPUT_FIRST : child->capacity * 2;
    char *bigger;

    if (child->command->length + 1 < child->capacity)
        return true;
    if (child->capacity >= child->output_max)
        return false;
    bigger = realloc(child->command->output, wanted);
    if (bigger == NULL)
        return false;
    child->command->output = bigger;
    child->capacity = wanted;
    return true;
}

/* False: too much. The end closes it. */
static bool take_output(struct child *child)
{
    struct command *c = child->command;
    ssize_t n;

    if (!make_room(child))
        return false;
    n = read(child->out, c->output + c->length, child->capacity - c->length - 1);
    if (n > 0)
        c->length += (size_t)n;
    else if (n == 0 || errno != EINTR)
        close_fd(&child->out);
    c->output[c->length] = '\0';
    return true;
}

static void take_words(struct child *child)
{
    char bytes[256];
    ssize_t n = read(child->err, bytes, sizeof(bytes));
    size_t room = sizeof(child->command->words) - 1 - child->words_length;

    if (n == 0 || (n < 0 && errno != EINTR))
        close_fd(&child->err);
    if (n <= 0)
        return;
    if ((size_t)n < room)
        room = (size_t)n;
    memcpy(child->command->words + child->words_length, bytes, room);
    child->words_length += room;
}

/* Until both ends are closed. */
static enum command_failure listen_to(struct child *child, uint64_t until)
{
    while (child->out >= 0 || child->err >= 0) {
        struct pollfd fds[2] = {{.fd = child->out, .events = POLLIN},
                                {.fd = child->err, .events = POLLIN}};
        uint64_t now = clock_monotonic_ms();

        if (now >= until || (poll(fds, 2, (int)(until - now)) < 0 && errno != EINTR))
            return COMMAND_TOO_LONG;
        if (fds[0].revents != 0 && !take_output(child))
            return COMMAND_TOO_MUCH;
        if (fds[1].revents != 0)
            take_words(child);
    }
    return 0;
}

/* Its exit status, after it was killed if it has to be. */
static int finish(struct child *child, bool give_up, uint64_t until)
{
    const struct timespec moment = {0, 5000000};
    int status = 0;
    pid_t ended = 0;

    close_fd(&child->out);
    close_fd(&child->err);
    while (!give_up && ended == 0) { /* it may have closed both and gone on */
        ended = waitpid(child->pid, &status, WNOHANG);
        if (ended == 0)
            (void)nanosleep(&moment, NULL);
        give_up = clock_monotonic_ms() >= until;
    }
    if (ended > 0)
        return status;
    (void)kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

enum command_failure command_run(const char *program, char *const argv[], unsigned timeout_ms,
                                 size_t output_max, struct command *command, char *error,
                                 size_t error_size)
{
    struct child child = {
        .pid = -1, .out = -1, .err = -1, .output_max = output_max, .command = command};
    enum command_failure failure;
    uint64_t until;
    int rc;

    *command = (struct command){.output = NULL};
    rc = start(&child, program, argv);
    if (rc != 0) {
        (void)snprintf(error, error_size, "cannot run %s: %s; is Slurm's client installed here?",
                       program, strerror(rc));
        return COMMAND_NOT_RUN;
    }
    until = clock_monotonic_ms() + timeout_ms;
    failure = listen_to(&child, until);
    command->status = finish(&child, failure != 0, until);
    if (failure == 0 && command->output == NULL) { /* closed before anything came */
        command->output = calloc(1, 1);
        if (command->output == NULL)
            failure = COMMAND_TOO_MUCH;
    }
    if (failure == COMMAND_TOO_LONG)
        (void)snprintf(error, error_size, "%s did not end within %u s", argv[0], timeout_ms / 1000);
    else if (failure != 0)
        (void)snprintf(error, error_size, "%s prints more than can be read", argv[0]);
    if (failure != 0) {
        free(command->output);
        command->output = NULL;
    }
    return failure;
}
