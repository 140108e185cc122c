/*
 * A helper in the place of adloader-slurmjob, with a folder instead of Slurm: $ADL_FAKE_SLURM/JOB
 * holds the job's field, "mode" says what goes wrong, and "requests" gets a line for each request.
 *
 *   ok  hang  die  lose (does it, but dies before it answers)  unreachable  denied  wait
 *   impossible  nonsense  restart=N (that is the run's count)
 */
#include "config.h"

#include "slurmjob.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *folder;

static void read_file(const char *name, char *buf, size_t size)
{
    char path[512];
    FILE *f;

    buf[0] = '\0';
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "r");
    if (f == NULL)
        return;
    if (fgets(buf, (int)size, f) == NULL)
        buf[0] = '\0';
    (void)fclose(f);
}

static void write_file(const char *name, const char *mode, const char *text)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, mode);
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
        exit(2);
}

static void set(const struct slurmjob_request *request, const char *mode,
                struct slurmjob_reply *reply)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "%u", request->job);
    read_file(name, reply->found, sizeof(reply->found));
    if (strncmp(mode, "restart=", 8) == 0) {
        reply->restart_known = 1;
        reply->restart = (uint32_t)atoi(mode + 8);
    }
    if (strcmp(reply->found, request->expected) != 0 ||
        (reply->restart_known && reply->restart != request->restart)) {
        reply->outcome = SLURMJOB_CHANGED;
        return;
    }
    write_file(name, "w", request->text);
    reply->outcome = SLURMJOB_DONE;
}

static void answer(const struct slurmjob_request *request, const char *mode,
                   struct slurmjob_reply *reply)
{
    memset(reply, 0, sizeof(*reply));
    reply->version = SLURMJOB_VERSION;
    reply->serial = request->serial;
    (void)snprintf(reply->reason, sizeof(reply->reason), "as the test says");
    if (strcmp(mode, "unreachable") == 0)
        reply->outcome = SLURMJOB_UNREACHABLE;
    else if (strcmp(mode, "denied") == 0)
        reply->outcome = SLURMJOB_DENIED;
    else if (strcmp(mode, "wait") == 0)
        reply->outcome = SLURMJOB_WAIT;
    else if (strcmp(mode, "impossible") == 0)
        reply->outcome = SLURMJOB_IMPOSSIBLE;
    else
        set(request, mode, reply);
}

int main(void)
{
    static struct slurmjob_request request;
    static struct slurmjob_reply reply;
    char mode[64], line[4096];

    folder = getenv("ADL_FAKE_SLURM");
    if (folder == NULL)
        return 2;
    while (recv(STDIN_FILENO, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
        read_file("mode", mode, sizeof(mode));
        (void)snprintf(line, sizeof(line), "%u %s %s\n", request.job, mode, request.text);
        write_file("requests", "a", line);
        while (strcmp(mode, "hang") == 0)
            (void)pause();
        if (strcmp(mode, "die") == 0) {
            (void)fputs("first words\nfatal: as the test says\n", stderr);
            return 1;
        }
        if (strcmp(mode, "nonsense") == 0) {
            (void)send(STDIN_FILENO, "nonsense", 8, MSG_NOSIGNAL);
            continue;
        }
        answer(&request, mode, &reply);
        if (strcmp(mode, "lose") == 0)
            return 0;
        if (send(STDIN_FILENO, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply))
            return 1;
    }
    return 0;
}
