/* While Slurm sets up a step: see launch.h. */
#include "config.h"

#include "launch.h"

#include "cpuset.h"
#include "log.h"
#include "nodedir.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static struct {
    bool under_way;
    pid_t pid; /* whose descriptors the node's are */
    struct nodedir node;
    uint32_t job;
} launch;

void launch_begin(const char *rundir, const char *node, uint32_t job)
{
    if (launch.under_way || job == 0)
        return;
    if (nodedir_open(&launch.node, rundir, node) < 0) {
        log_debug("no directory for the node below %s: %s", rundir, strerror(errno));
        return;
    }
    launch.under_way = true;
    launch.pid = getpid();
    launch.job = job;
    nodedir_start_begin(&launch.node, job);
    cpuset_make_way(&launch.node, job);
}

void launch_end(void)
{
    if (!launch.under_way)
        return;
    nodedir_start_end(&launch.node, launch.job);
    if (getpid() != launch.pid)
        return; /* a helper process (executor.h) has copies: it can unlock, but not close */
    nodedir_close(&launch.node);
    launch.under_way = false;
}
