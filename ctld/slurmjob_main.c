/* adloader-slurmjob: takes the controller's requests and has slurmjob.c do them. See slurmjob.h. */
#include "config.h"

#include "slurmjob.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONTROLLER STDIN_FILENO

static bool terminated(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_sound(const struct slurmjob_request *request, ssize_t length)
{
    return length == (ssize_t)sizeof(*request) && request->version == SLURMJOB_VERSION &&
           terminated(request->expected, sizeof(request->expected)) &&
           terminated(request->text, sizeof(request->text)) && request->job != 0;
}

/* False: the controller is gone, or nothing has come for long. */
static bool next_request(struct slurmjob_request *request)
{
    struct pollfd fd = {.fd = CONTROLLER, .events = POLLIN};
    ssize_t length;
    int ready;

    do
        ready = poll(&fd, 1, SLURMJOB_IDLE_S * 1000);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return false;
    length = recv(CONTROLLER, request, sizeof(*request), MSG_TRUNC);
    return is_sound(request, length);
}

int main(void)
{
    static struct slurmjob_request request;
    static struct slurmjob_reply reply;
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);

    if (getsockname(CONTROLLER, (struct sockaddr *)&address, &length) < 0 ||
        address.ss_family != AF_UNIX) {
        (void)fputs(SLURMJOB_PROGRAM " is started by adloaderctld, not by hand.\n", stderr);
        return EXIT_FAILURE;
    }
    /* libslurm may be stuck when the controller dies. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return EXIT_FAILURE;
    slurmjob_init();
    while (next_request(&request)) {
        slurmjob_update(&request, &reply);
        if (send(CONTROLLER, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply))
            return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
