/* adloader doctor: what a compute node needs: the run directory and what lies in it, the exported
 * topology, the kernel, GPUs, quotas. */
#include "config.h"

#include "doctor.h"

#include "clients.h"
#include "conf.h"
#include "exported.h"
#include "nvml.h"
#include "procfs.h"
#include "quota.h"
#include "steprecord.h"
#include "topo.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NVML_MS     10000u
#define TOPOLOGY_MS 60000u

/* ---- the run directory --------------------------------------------------------------------- */

/* False: it is not there, or not to be trusted. */
static bool check_directory(struct doctor *d, const char *path, mode_t most, bool must_be_there)
{
    struct stat st;

    if (lstat(path, &st) < 0) {
        if (errno == ENOENT && must_be_there)
            doctor_say(d, DOCTOR_WARNING, "run directory",
                       "restart slurmd, whose plugin makes it and exports the topology",
                       "%s is not there yet: slurmd has not loaded the plugin since this boot",
                       path);
        else if (errno != ENOENT)
            doctor_say(d, DOCTOR_PROBLEM, "run directory", "chmod 755 its folders",
                       "cannot look at %s: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISDIR(st.st_mode)) {
        doctor_say(d, DOCTOR_PROBLEM, "run directory",
                   "remove it, or set rundir= in plugstack.conf", "%s is %s", path,
                   S_ISLNK(st.st_mode) ? "a symbolic link" : "no directory");
        return false;
    }
    if (st.st_uid != 0) {
        doctor_say(d, DOCTOR_PROBLEM, "run directory", "chown root it",
                   "%s belongs to uid %u: the agents do not use it", path, (unsigned)st.st_uid);
        return false;
    }
    if ((st.st_mode & 0777 & ~most) != 0) {
        doctor_say(d, DOCTOR_PROBLEM, "run directory",
                   most == 0700 ? "chmod 700 it" : "chmod 755 it",
                   "mode %03o of %s lets others in: the agents do not use it",
                   (unsigned)(st.st_mode & 0777), path);
        return false;
    }
    if (most == 0755 && (st.st_mode & 0555) != 0555) {
        doctor_say(d, DOCTOR_PROBLEM, "run directory", "chmod 755 it",
                   "mode %03o of %s keeps users' programs from their step's socket",
                   (unsigned)(st.st_mode & 0777), path);
        return false;
    }
    return true;
}

/* Records of steps that have widened cpusets and are gone. */
static bool has_dead_records(int node)
{
    struct nodedir dir = {.fd = node, .locks = -1};
    struct procfs fs;
    bool dead = false;

    if (procfs_open(&fs, "") < 0)
        return false;
    dead = steprecord_any_dead(&dir, &fs);
    procfs_close(&fs);
    return dead;
}

static void check_nodes(struct doctor *d, const char *path)
{
    DIR *nodes = opendir(path);
    const struct dirent *entry;

    while (nodes != NULL && (entry = readdir(nodes)) != NULL) {
        char below[PATH_MAX];

        if (entry->d_name[0] == '.' ||
            snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >= (int)sizeof(below) ||
            !check_directory(d, below, 0700, false))
            continue;
        int fd = open(below, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (has_dead_records(fd))
            doctor_say(d, DOCTOR_WARNING, "leftovers",
                       "start any step with --adloader on this node: its agent undoes it",
                       "a step daemon that was killed has left widened cpusets, on record in %s",
                       below);
        (void)close(fd);
    }
    if (nodes != NULL)
        (void)closedir(nodes);
}

static void check_rundir(struct doctor *d)
{
    const char *rundir = d->args.rundir;
    char nodes[PATH_MAX];
    size_t before = d->nfindings;

    if (!check_directory(d, rundir, 0755, true))
        return;
    int sockets = clients_leftovers(rundir);
    if (sockets > 0)
        doctor_say(d, DOCTOR_WARNING, "leftovers",
                   "nothing needs to be done: slurmd removes them at its next start",
                   "%d socket%s of step daemons that were killed in %s", sockets,
                   sockets == 1 ? "" : "s", rundir);
    (void)snprintf(nodes, sizeof(nodes), "%s/node", rundir);
    if (access(nodes, F_OK) == 0 && check_directory(d, nodes, 0700, false)) {
        if (d->root)
            check_nodes(d, nodes);
        else
            doctor_say(d, DOCTOR_WARNING, "leftovers", "run it as root",
                       "only root can see what is in %s", nodes);
    }
    if (d->nfindings == before)
        doctor_say(d, DOCTOR_OK, "run directory", "", "%s, root's, and nothing left over", rundir);
}

/* ---- topology ------------------------------------------------------------------------------ */

/* hwloc looks at the whole machine, which may take long: text gets the digest, or what failed. */
static int read_topology(const void *argument, char *text, size_t size)
{
    char error[512] = "", digest[TOPO_DIGEST_MAX];
    size_t length = 0;
    char *xml = topo_export_this_machine(&length, error, sizeof(error));

    (void)argument;
    if (xml == NULL) {
        (void)snprintf(text, size, "%s", error);
        return 1;
    }
    topo_digest(xml, length, digest);
    (void)snprintf(text, size, "%s", digest);
    free(xml);
    return 0;
}

static void check_topology(struct doctor *d)
{
    char digest[600], exported[TOPO_DIGEST_MAX] = "";

    switch (doctor_bounded(read_topology, NULL, TOPOLOGY_MS, digest, sizeof(digest))) {
    case 0:
        break;
    case 1:
        doctor_say(d, DOCTOR_PROBLEM, "topology", "see whether lstopo works here",
                   "hwloc cannot read this machine: %s", digest);
        return;
    default:
        doctor_say(d, DOCTOR_PROBLEM, "topology", "see whether lstopo works here",
                   "hwloc did not read this machine within %u s", TOPOLOGY_MS / 1000);
        return;
    }
    if (exported_digest(d->args.rundir, exported, sizeof(exported)) < 0)
        doctor_say(d, DOCTOR_WARNING, "topology",
                   "restart slurmd here, or run adloader topology --export",
                   "%s/topology.xml is not there: all cores are taken for equal", d->args.rundir);
    else if (strcmp(exported, digest) != 0)
        doctor_say(d, DOCTOR_WARNING, "topology",
                   "restart slurmd here, or run adloader topology --export",
                   "%s/topology.xml is not what hwloc sees now", d->args.rundir);
    else
        doctor_say(d, DOCTOR_OK, "topology", "", "%s/topology.xml is this machine's",
                   d->args.rundir);
}

/* ---- kernel -------------------------------------------------------------------------------- */

static void check_kernel(struct doctor *d)
{
    struct utsname name;
    struct statfs fs;
    int major = 0, minor = 0;
    bool version2 = statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
    const char *cgroups = version2                                     ? "cgroup v2"
                          : access("/sys/fs/cgroup/cpuset", F_OK) == 0 ? "cgroup v1"
                                                                       : "no cgroups";

    if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
        return;
    if (major < 6 || (major == 6 && minor < 2))
        doctor_say(
            d, DOCTOR_OK, "kernel", "",
            "%s, %s; before 6.2 a kernel forgets masks when a cpuset changes: the agents keep "
            "them",
            name.release, cgroups);
    else
        doctor_say(d, DOCTOR_OK, "kernel", "", "%s, %s", name.release, cgroups);
    if (doctor_slurm_lists(d, "ConstrainCores", "yes") && strcmp(cgroups, "no cgroups") == 0)
        doctor_say(d, DOCTOR_PROBLEM, "cgroups", "mount the cpuset controller",
                   "ConstrainCores=yes, but no cpusets are to be seen in /sys/fs/cgroup");
}

static void check_quota(struct doctor *d)
{
    struct procfs fs;
    double cores;

    if (procfs_open(&fs, "") < 0)
        return;
    cores = quota_cores(&fs, d->slurmd != 0 ? d->slurmd : getpid());
    procfs_close(&fs);
    if (isnan(cores))
        doctor_say(d, DOCTOR_OK, "CPU quota", "", "none on slurmd's group");
    else
        doctor_say(
            d, DOCTOR_WARNING, "CPU quota",
            "take CPUQuota off slurmd's unit, if steps run in "
            "its group",
            "slurmd's group may use %.1f cores: what runs in it is throttled, whatever cores "
            "it has",
            cores);
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

/* Load it as the agent does, and start it: that may take long, or for ever with a broken GPU. */
static int try_nvml(const void *argument, char *text, size_t size)
{
    const char *library = argument;
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    union {
        void *object;
        int (*function)(void);
    } init;

    if (handle == NULL) {
        (void)snprintf(text, size, "%s", dlerror());
        return 1;
    }
    init.object = dlsym(handle, "nvmlInit_v2");
    if (init.object == NULL) {
        (void)snprintf(text, size, "%s has no nvmlInit_v2", library);
        return 1;
    }
    int code = init.function();
    if (code != 0)
        (void)snprintf(text, size, "nvmlInit_v2 returns %d", code);
    return code == 0 ? 0 : 1;
}

static void check_nvml(struct doctor *d)
{
    char text[512];

    if (access("/dev/nvidiactl", F_OK) < 0) {
        doctor_say(d, DOCTOR_OK, "GPUs", "", "no NVIDIA GPU here");
        return;
    }
    switch (doctor_bounded(try_nvml, NVML_LIBRARY, NVML_MS, text, sizeof(text))) {
    case 0:
        doctor_say(d, DOCTOR_OK, "GPUs", "", NVML_LIBRARY " works");
        break;
    case 1:
        doctor_say(d, DOCTOR_WARNING, "GPUs",
                   "install the driver's libnvidia-ml for slurmd to find",
                   "how busy GPUs are is not known: %s", text);
        break;
    default:
        doctor_say(d, DOCTOR_WARNING, "GPUs",
                   "see whether nvidia-smi answers; enable persistence "
                   "mode (nvidia-persistenced)",
                   NVML_LIBRARY " did not start within %u s", NVML_MS / 1000);
    }
}

void doctor_check_node(struct doctor *d)
{
    check_rundir(d);
    check_topology(d);
    check_kernel(d);
    check_quota(d);
    check_nvml(d);
}
