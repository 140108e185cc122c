/* The plugin's part in slurmd: see topology.h. */
#include "config.h"

#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT_SECONDS 120u

/* In the grandchild: only calls that are safe after a fork of a program with threads. */
static void become(const char *program, const char *file)
{
    sigset_t none;
    static const int dispositions[] = {SIGALRM, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD};
    for (size_t i = 0; i < sizeof dispositions / sizeof dispositions[0]; i++)
        (void)signal(dispositions[i], SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        (void)dup2(null, fd);
    for (int fd = 3; fd < 1024; fd++)
        (void)close(fd);
    (void)alarm(EXPORT_SECONDS); /* survives the exec */
    char *const argv[] = {(char *)(size_t)program, (char *)(size_t) "topology",
                          (char *)(size_t) "--export", (char *)(size_t)file, NULL};
    char *const environment[] = {(char *)(size_t) "PATH=/usr/bin:/bin", (char *)(size_t) "LC_ALL=C",
                                 NULL};
    (void)execve(program, argv, environment);
    _exit(127);
}

int topology_export(const struct args *args)
{
    char file[PATH_MAX];
    if (strcmp(args->topology, "none") == 0)
        return 0;
    if (access(args->topology, X_OK) < 0)
        return -1;
    if (mkdir(args->rundir, 0755) < 0 && errno != EEXIST)
        return -1;
    snprintf(file, sizeof file, "%s/topology.xml", args->rundir);
    /* twice, so that the program is no child of slurmd's and nobody has to wait for it */
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        (void)setsid();
        pid_t grandchild = fork();
        if (grandchild == 0)
            become(args->topology, file);
        _exit(grandchild < 0 ? 1 : 0);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno == ECHILD ? 0 : -1;
    return status == 0 ? 0 : -1;
}
