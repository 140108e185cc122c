/* Slurm's sacct, run and read. See sacct.h. */
#include "config.h"

#include "sacct.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORMAT "JobID,JobIDRaw,State,User,JobName,NNodes,ElapsedRaw,AdminComment,Comment"

#ifdef ADL_SACCT
#define CONFIGURED_SACCT ADL_SACCT
#else
#define CONFIGURED_SACCT ""
#endif

#define WORDS_SIZE 512

extern char **environ;

/* ---- rows ---------------------------------------------------------------------------------- */

static int add_row(struct sacct *sacct, size_t *capacity, const struct sacct_row *row)
{
    if (sacct->nrows == *capacity) {
        size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
        struct sacct_row *bigger = realloc(sacct->rows, wanted * sizeof(*bigger));

        if (bigger == NULL)
            return -1;
        sacct->rows = bigger;
        *capacity = wanted;
    }
    sacct->rows[sacct->nrows++] = *row;
    return 0;
}

int sacct_split(char *output, const char *delimiter, struct sacct *sacct, char *error,
                size_t error_size)
{
    size_t capacity = 0, length = strlen(delimiter);
    char *at = output;

    *sacct = (struct sacct){.output = output};
    while (*at != '\0') {
        struct sacct_row row;

        for (int i = 0; i < SACCT_COLUMNS; i++) {
            char *end = strstr(at, delimiter);

            if (end == NULL) {
                (void)snprintf(error, error_size, "sacct's output ends within a row");
                free(sacct->rows);
                return -1;
            }
            row.column[i] = at;
            *end = '\0';
            at = end + length;
        }
        if (*at == '\n')
            at++;
        if (sacct->nrows >= SACCT_ROWS_MAX || add_row(sacct, &capacity, &row) < 0) {
            (void)snprintf(error, error_size, "sacct knows of more runs than can be shown (%u)",
                           SACCT_ROWS_MAX);
            free(sacct->rows);
            return -1;
        }
    }
    return 0;
}

void sacct_free(struct sacct *sacct)
{
    free(sacct->rows);
    free(sacct->output);
    sacct->rows = NULL;
    sacct->output = NULL;
}

/* ---- the process --------------------------------------------------------------------------- */

struct child {
    pid_t pid;
    int out, err; /* our ends; -1 closed */
    char *output; /* NUL-terminated */
    size_t length, capacity;
    char words[WORDS_SIZE]; /* the beginning of what it said on standard error */
    size_t words_length;
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

static int start(struct child *child, const char *program, const char *jobs, const char *delimiter,
                 char *error, size_t error_size)
{
    char with_jobs[4096], with_delimiter[96];
    char *const argv[] = {(char[]){"sacct"},
                          (char[]){"-X"},
                          (char[]){"-D"},
                          (char[]){"-n"},
                          (char[]){"-p"},
                          with_delimiter,
                          (char[]){"--format=" FORMAT},
                          with_jobs,
                          NULL};
    int out[2] = {-1, -1}, err[2] = {-1, -1}, rc;

    *child = (struct child){.pid = -1, .out = -1, .err = -1};
    (void)snprintf(with_delimiter, sizeof(with_delimiter), "--delimiter=%s", delimiter);
    if ((size_t)snprintf(with_jobs, sizeof(with_jobs), "--jobs=%s", jobs) >= sizeof(with_jobs)) {
        (void)snprintf(error, error_size, "these are too many jobs at once");
        return -1;
    }
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        rc = errno;
    else
        rc = spawn(program, argv, out[1], err[1], &child->pid);
    close_fd(&out[1]);
    close_fd(&err[1]);
    child->out = out[0];
    child->err = err[0];
    if (rc == 0)
        return 0;
    close_fd(&child->out);
    close_fd(&child->err);
    (void)snprintf(error, error_size, "cannot run %s: %s; is Slurm's client installed here?",
                   program, strerror(rc));
    return -1;
}

static bool make_room(struct child *child)
{
    size_t wanted = child->capacity == 0 ? 65536 : child->capacity * 2;
    char *bigger;

    if (child->length + 1 < child->capacity)
        return true;
    if (child->capacity >= SACCT_OUTPUT_MAX)
        return false;
    bigger = realloc(child->output, wanted);
    if (bigger == NULL)
        return false;
    child->output = bigger;
    child->capacity = wanted;
    return true;
}

/* False: too much. The end closes it. */
static bool take_output(struct child *child)
{
    ssize_t n;

    if (!make_room(child))
        return false;
    n = read(child->out, child->output + child->length, child->capacity - child->length - 1);
    if (n > 0)
        child->length += (size_t)n;
    else if (n == 0 || errno != EINTR)
        close_fd(&child->out);
    child->output[child->length] = '\0';
    return true;
}

static void take_words(struct child *child)
{
    char bytes[256];
    ssize_t n = read(child->err, bytes, sizeof(bytes));
    size_t room = sizeof(child->words) - 1 - child->words_length;

    if (n == 0 || (n < 0 && errno != EINTR))
        close_fd(&child->err);
    if (n <= 0)
        return;
    if ((size_t)n < room)
        room = (size_t)n;
    memcpy(child->words + child->words_length, bytes, room);
    child->words_length += room;
}

/* Until both ends are closed; 0, or -1 with a sentence. */
static int listen_to(struct child *child, char *error, size_t error_size)
{
    uint64_t until = clock_monotonic_ms() + SACCT_TIMEOUT_MS;

    while (child->out >= 0 || child->err >= 0) {
        struct pollfd fds[2] = {{.fd = child->out, .events = POLLIN},
                                {.fd = child->err, .events = POLLIN}};
        uint64_t now = clock_monotonic_ms();

        if (now >= until) {
            (void)snprintf(error, error_size, "sacct did not end within %u s",
                           SACCT_TIMEOUT_MS / 1000);
            return -1;
        }
        if (poll(fds, 2, (int)(until - now)) < 0 && errno != EINTR)
            return -1;
        if (fds[0].revents != 0 && !take_output(child)) {
            (void)snprintf(error, error_size,
                           "sacct prints more than can be read; ask for fewer "
                           "jobs at once");
            return -1;
        }
        if (fds[1].revents != 0)
            take_words(child);
    }
    return 0;
}

/* Its exit status, after it was killed if it has to be. */
static int finish(struct child *child, bool give_up)
{
    int status = 0;

    close_fd(&child->out);
    close_fd(&child->err);
    if (give_up)
        (void)kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* So that no value can look like the end of a cell. */
static int make_delimiter(char *delimiter, size_t size)
{
    uint64_t secret;

    if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
        return -1;
    (void)snprintf(delimiter, size, ":adl%016" PRIx64 ":", secret);
    return 0;
}

int sacct_run(const char *program, const char *jobs, struct sacct *sacct, char *error,
              size_t error_size)
{
    char delimiter[40];
    struct child child;
    int rc, status;

    if (program == NULL)
        program = CONFIGURED_SACCT[0] != '\0' && access(CONFIGURED_SACCT, X_OK) == 0
                      ? CONFIGURED_SACCT
                      : "sacct";
    if (make_delimiter(delimiter, sizeof(delimiter)) < 0) {
        (void)snprintf(error, error_size, "no random numbers: %s", strerror(errno));
        return -1;
    }
    if (start(&child, program, jobs, delimiter, error, error_size) < 0)
        return -1;
    rc = listen_to(&child, error, error_size);
    status = finish(&child, rc < 0);
    if (rc == 0 && status != 0) {
        child.words[strcspn(child.words, "\n")] = '\0';
        (void)snprintf(error, error_size, "sacct failed: %s",
                       child.words[0] != '\0' ? child.words : "without a word");
        rc = -1;
    }
    if (rc == 0 && child.output == NULL) /* closed before anything came */
        rc = -1;
    if (rc == 0)
        rc = sacct_split(child.output, delimiter, sacct, error, error_size);
    if (rc < 0)
        free(child.output);
    return rc;
}
