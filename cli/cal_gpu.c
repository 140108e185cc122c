/*
 * GPUs are measured by a program of its own, adloader-calibrate-gpu: the tool must start where
 * there is no CUDA, and a driver that hangs or crashes must take nobody with it. It prints
 * key=value lines of a calibration, and remarks on standard error.
 */
#include "config.h"

#include "cal.h"

#include "clock.h"
#include "keyvalue.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "adloader-calibrate-gpu"
#define PATIENCE_S                                                                                 \
    45.0 /* beyond the time it was given: contexts and libraries take long to load                 \
          */

#define NUMBER(member, high)                                                                       \
    {                                                                                              \
#member, offsetof(struct pred_calibration, member), 0, 0, high, NULL                       \
    }
static const struct pred_kv_field FIELDS[] = {
    {"gpu", offsetof(struct pred_calibration, gpu), PRED_NAME_MAX, 0, 0, NULL},
    NUMBER(gpus, 1024),
    NUMBER(fp32_flops_per_s, 1e18),
    NUMBER(tf32_flops_per_s, 1e18),
    NUMBER(amp_flops_per_s, 1e18),
    NUMBER(gpu_memory_bytes_per_s, 1e15),
    NUMBER(host_to_gpu_bytes_per_s, 1e15),
    NUMBER(nccl_alpha_s, 10),
    NUMBER(nccl_bus_bytes_per_s, 1e15),
    {NULL, 0, 0, 0, 0, NULL},
};

/* Beside this program (in a build tree one level above .libs), or where it is installed. */
static bool find_program(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - sizeof("/../" PROGRAM) - 1);
    char *slash;

    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL) {
            *slash = '\0';
            if (slash - path >= 6 && strcmp(slash - 6, "/.libs") == 0)
                slash[-6] = '\0';
            strcat(path, "/" PROGRAM);
            if (access(path, X_OK) == 0)
                return true;
        }
    }
    return snprintf(path, size, "%s/" PROGRAM, ADL_PKGLIBEXECDIR) < (int)size &&
           access(path, X_OK) == 0;
}

static pid_t start(const char *path, double seconds, bool quiet, int *out)
{
    char time[32];
    int pipe_ends[2];
    pid_t child;

    snprintf(time, sizeof(time), "%.3f", seconds);
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
        return -1;
    child = fork();
    if (child == 0) {
        int null = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

        if (dup2(pipe_ends[1], STDOUT_FILENO) >= 0 && (null < 0 || dup2(null, STDERR_FILENO) >= 0))
            execl(path, PROGRAM, time, (char *)NULL);
        _exit(127);
    }
    close(pipe_ends[1]);
    if (child < 0)
        close(pipe_ends[0]);
    *out = pipe_ends[0];
    return child;
}

/* All that it prints until it ends or the deadline; -1: too late. */
static long collect(int fd, char *text, size_t size, double seconds)
{
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)(1000 * seconds);
    size_t used = 0;

    while (used < size) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_monotonic_ms();
        ssize_t n;

        if (now >= deadline)
            return -1;
        if (poll(&p, 1, (int)(deadline - now)) <= 0)
            continue;
        n = read(fd, text + used, size - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    return (long)used;
}

static void take(const struct pred_calibration *found, struct pred_calibration *out)
{
    memcpy(out->gpu, found->gpu, sizeof(out->gpu));
    out->gpus = found->gpus;
    out->fp32_flops_per_s = found->fp32_flops_per_s;
    out->tf32_flops_per_s = found->tf32_flops_per_s;
    out->amp_flops_per_s = found->amp_flops_per_s;
    out->gpu_memory_bytes_per_s = found->gpu_memory_bytes_per_s;
    out->host_to_gpu_bytes_per_s = found->host_to_gpu_bytes_per_s;
    out->nccl_alpha_s = found->nccl_alpha_s;
    out->nccl_bus_bytes_per_s = found->nccl_bus_bytes_per_s;
}

void cal_gpu(const struct cal_voice *voice, double seconds, struct pred_calibration *out)
{
    char path[4096], text[PRED_KV_TEXT_MAX], error[256];
    struct pred_calibration found;
    long length;
    int fd, status;
    pid_t child;

    if (!find_program(path, sizeof(path))) {
        cal_missing("GPU: not measured, " PROGRAM
                    " is not installed (adloader was built without CUDA)");
        return;
    }
    child = start(path, seconds, voice->quiet, &fd);
    if (child < 0) {
        cal_missing("GPU: not measured, %s cannot be started: %s", path, strerror(errno));
        return;
    }
    length = collect(fd, text, sizeof(text), seconds + PATIENCE_S);
    close(fd);
    if (length < 0) {
        cal_missing("GPU: not measured, the driver did not answer in time");
        (void)kill(child, SIGKILL);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (length < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return; /* it said why, or died */
    if (pred_kv_parse(text, (size_t)length, FIELDS, &found, error, sizeof(error)) != 0)
        cal_missing("GPU: " PROGRAM " printed nonsense: %s", error);
    else
        take(&found, out);
}
