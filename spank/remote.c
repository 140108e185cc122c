/* The plugin's part in slurmstepd: see remote.h. */
#include "config.h"

#include "remote.h"

#include "agent.h"
#include "clients.h"
#include "clock.h"
#include "contained.h"
#include "cpubind.h"
#include "executor.h"
#include "launch.h"
#include "log.h"
#include "own.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN_MS   250u /* the longest that the end of a thread may hold up the step's */
#define HANDED_MS 10u  /* the longest that a helper process waits for slurmstepd's own thread */
#define ENV_SIZE  1024
#define RANKS_MAX 4096u

/* One slurmstepd serves one step. */
static struct {
    bool here;      /* in slurmstepd, not in an extern step */
    bool on;        /* the step takes part */
    pid_t pid;      /* of slurmstepd */
    uint32_t tasks; /* of the step on this node */
    struct args args;
    struct options options;
    struct msg_register about;
    struct rank *ranks;
    size_t nranks;
    unsigned exited;
    char socket[CLIENTS_PATH_MAX]; /* "" none */
    bool socket_made;
    char *cores;         /* S_STEP_ALLOC_CORES, NULL unknown */
    unsigned cpus_given; /* S_JOB_NCPUS */
    struct agent *agent;
    /* for callbacks in helper processes; NULL: this Slurm makes none, or there is no thread.
     * What it runs reads and sets what is above; from being handed the start it alone does. */
    struct executor *executor;
} step;

/* contain_spank: this callback runs in a helper process that shares our memory, see executor.h. */
static bool contained(void)
{
    return getpid() != step.pid;
}

/* ---- what Slurm knows ---- */

static uint32_t get_u32(spank_t spank, spank_item_t item, uint32_t otherwise)
{
    uint32_t value;
    return spank_get_item(spank, item, &value) == ESPANK_SUCCESS ? value : otherwise;
}

/* A variable of the job's environment; NULL if it is not set or too long to make sense. */
static const char *get_env(spank_t spank, const char *name, char *buf, size_t size)
{
    return spank_getenv(spank, name, buf, (int)size) == ESPANK_SUCCESS ? buf : NULL;
}

static uint32_t get_env_u32(spank_t spank, const char *name)
{
    char text[32], *end;
    if (get_env(spank, name, text, sizeof text) == NULL)
        return 0;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    return errno != 0 || end == text || *end != '\0' || value > UINT32_MAX ? 0 : (uint32_t)value;
}

static void read_names(spank_t spank)
{
    struct msg_register *m = &step.about;
    char text[MSG_NAME_MAX];
    /* slurmstepd's own, as slurmd set it, before what a user could have set */
    const char *node = getenv("SLURMD_NODENAME");
    if (node == NULL)
        node = get_env(spank, "SLURMD_NODENAME", text, sizeof text);
    if (gethostname(m->host, sizeof m->host) < 0)
        m->host[0] = '\0';
    m->host[sizeof m->host - 1] = '\0';
    if (node != NULL)
        snprintf(m->node, sizeof m->node, "%s", node);
    else
        snprintf(m->node, sizeof m->node, "%.*s", (int)strcspn(m->host, "."), m->host);
}

static void read_gpus(spank_t spank)
{
    struct msg_register *m = &step.about;
    char text[ENV_SIZE * 4], *saved = NULL;
    if (get_env(spank, "SLURM_STEP_GPUS", text, sizeof text) == NULL &&
        get_env(spank, "SLURM_JOB_GPUS", text, sizeof text) == NULL)
        return;
    for (char *gpu = strtok_r(text, ",", &saved); gpu != NULL && m->ngpus < MSG_GPUS_MAX;
         gpu = strtok_r(NULL, ",", &saved))
        if (strlen(gpu) < MSG_GPU_MAX)
            snprintf(m->gpus[m->ngpus++], MSG_GPU_MAX, "%s", gpu);
}

static void read_about(spank_t spank)
{
    struct msg_register *m = &step.about;
    uid_t uid = 0;
    snprintf(m->agent, sizeof m->agent, "%s", PACKAGE_VERSION);
    m->job = get_u32(spank, S_JOB_ID, 0);
    m->restart = get_u32(spank, S_SLURM_RESTART_COUNT, 0);
    m->step_nodes = get_u32(spank, S_JOB_NNODES, 1);
    if (m->step_nodes == 0 || m->step == MSG_STEP_BATCH) /* the batch step reads 0 */
        m->step_nodes = 1;
    m->het_job = get_env_u32(spank, "SLURM_HET_JOB_ID");
    if (spank_get_item(spank, S_JOB_UID, &uid) == ESPANK_SUCCESS)
        m->uid = (uint32_t)uid;
    step.tasks = get_u32(spank, S_JOB_LOCAL_TASK_COUNT, 1);
    if (step.tasks == 0)
        step.tasks = 1;
    m->tasks = step.tasks;
    read_gpus(spank);
}

/* ---- before the tasks ---- */

static void log_to_slurm(enum log_level level, const char *line)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        slurm_error("adloader: %s", line);
        break;
    case LOG_LEVEL_WARNING:
        slurm_info("adloader: %s", line);
        break;
    case LOG_LEVEL_INFO:
        slurm_verbose("adloader: %s", line);
        break;
    case LOG_LEVEL_DEBUG:
        slurm_debug("adloader: %s", line);
        break;
    }
}

/* A thread that is left behind must not use the log of a program that is about to end. */
static void log_to_nobody(enum log_level level, const char *line)
{
    (void)level, (void)line;
}

void remote_init(spank_t spank, const struct args *args)
{
    memset(&step, 0, sizeof step);
    log_to_sink(log_to_slurm);
    log_set_level(args->log_level);
    read_names(spank);
    launch_begin(args->rundir, step.about.node, get_u32(spank, S_JOB_ID, 0));
    step.about.step = get_u32(spank, S_JOB_STEPID, MSG_STEP_EXTERN);
    if (step.about.step == MSG_STEP_EXTERN)
        return;
    step.here = true;
    step.pid = getpid();
    step.args = *args;
}

void remote_option(const char *value)
{
    char error[ENV_SIZE];
    if (step.here && options_take(&step.options, value, error, sizeof error) < 0)
        log_info("--adloader was ignored: %s", error);
}

/* A variable that the submit side has sent once more under another name. */
static const char *get_sent(spank_t spank, const char *name, const char *sent_name, char *buf,
                            size_t size)
{
    const char *value = get_env(spank, name, buf, size);
    return value != NULL ? value : get_env(spank, sent_name, buf, size);
}

/* Has the user bound the tasks? srun has described the binding, if any, in the environment. */
static void read_binding(spank_t spank)
{
    struct msg_register *m = &step.about;
    char mark[16], text[MSG_TEXT_MAX];
    if (m->step == MSG_STEP_BATCH || m->step == MSG_STEP_INTERACTIVE) /* those are never bound */
        return;
    if (get_env(spank, CPUBIND_MARK, mark, sizeof mark) == NULL ||
        get_env(spank, "SLURM_CPU_BIND_TYPE", text, sizeof text) == NULL)
        return;
    if (cpubind_kind(text, m->cpu_bind, sizeof m->cpu_bind))
        log_info("the user has bound the tasks (%s): they stay as they are", m->cpu_bind);
}

void remote_init_post_opt(spank_t spank)
{
    char env_switch[HINTS_TEXT_MAX], env_hints[HINTS_TEXT_MAX], error[ENV_SIZE];
    if (!step.here)
        return;
    /* Slurm before 23.11 keeps the option of sbatch --export=NONE from the batch step */
    const char *option = get_env(spank, OPTIONS_ENV_OPTION, env_hints, sizeof env_hints);
    if (!step.options.given && option != NULL)
        remote_option(option);
    if (options_resolve(
            &step.options,
            get_sent(spank, OPTIONS_ENV_SWITCH, OPTIONS_ENV_SWITCH_SENT, env_switch,
                     sizeof env_switch),
            get_sent(spank, OPTIONS_ENV_HINTS, OPTIONS_ENV_HINTS_SENT, env_hints, sizeof env_hints),
            step.args.default_on, &step.about.hints, error, sizeof error) < 0)
        log_info("ignored: %s", error);
    step.on = step.about.hints.on;
    if (!step.on)
        return;
    read_about(spank);
    read_binding(spank);
    if (step.tasks > RANKS_MAX) {
        log_info("%u tasks on one node are more than are managed", (unsigned)step.tasks);
        step.on = false;
        return;
    }
    step.ranks = calloc(step.tasks, sizeof *step.ranks);
    if (step.ranks == NULL) {
        log_warning("no memory for a list of the tasks: the step takes no part");
        step.on = false;
        return;
    }
    /* whether callbacks will be contained shows only in the first that is */
    if (CONTAINED_POSSIBLE && (step.executor = executor_start()) == NULL)
        log_debug("no thread for callbacks in helper processes: %s", strerror(errno));
}

/*
 * A step that is started from within another one, as in a batch script, inherits that one's
 * variables: its socket, and a number of workers that was made for other CPUs. A number that a user
 * has set is told apart by its difference from what we last set ourselves.
 */
static bool workers_are_users(spank_t spank)
{
    char now[32], ours[32];
    if (get_env(spank, "ADLOADER_WORKERS", now, sizeof now) == NULL)
        return false;
    return get_env(spank, "ADLOADER_WORKERS_AUTO", ours, sizeof ours) == NULL ||
           strcmp(now, ours) != 0;
}

static void drop_inherited(spank_t spank)
{
    char text[CLIENTS_PATH_MAX];
    if (get_env(spank, "ADLOADER_SOCKET", text, sizeof text) == NULL)
        return;
    (void)spank_unsetenv(spank, "ADLOADER_SOCKET");
    if (!workers_are_users(spank))
        (void)spank_unsetenv(spank, "ADLOADER_WORKERS");
    (void)spank_unsetenv(spank, "ADLOADER_WORKERS_AUTO");
}

void remote_user_init(spank_t spank)
{
    launch_end();
    if (!step.here)
        return;
    drop_inherited(spank);
    if (!step.on)
        return;
    if (clients_path(step.args.rundir, step.about.node, step.about.job, step.about.step,
                     step.socket, sizeof step.socket) < 0) {
        log_info("no client socket: its path below %s would be too long", step.args.rundir);
        step.socket[0] = '\0';
        return;
    }
    if (spank_setenv(spank, "ADLOADER_SOCKET", step.socket, 1) != ESPANK_SUCCESS)
        log_debug("ADLOADER_SOCKET could not be set");
}

/* How many workers are worth starting on so many CPUs, within the bounds that the user gave. */
static unsigned workers_for(unsigned cpus)
{
    const struct hints *hints = &step.about.hints;
    unsigned workers = cpus > step.args.main_cores ? cpus - step.args.main_cores : 1;
    if (hints->workers_min > 0 && workers < hints->workers_min)
        workers = hints->workers_min;
    if (hints->workers_max > 0 && workers > hints->workers_max)
        workers = hints->workers_max;
    return workers;
}

/* In the child, just before exec, where the mask is final. */
void remote_task_init(spank_t spank)
{
    struct cpus mask = CPUS_EMPTY;
    char text[16];
    if (!step.on || workers_are_users(spank) || cpus_get_affinity(0, &mask) < 0)
        return;
    snprintf(text, sizeof text, "%u", workers_for(cpus_count(&mask)));
    cpus_free(&mask);
    (void)spank_setenv(spank, "ADLOADER_WORKERS", text, 1);
    (void)spank_setenv(spank, "ADLOADER_WORKERS_AUTO", text, 1);
}

/* ---- the tasks start ---- */

/* What Slurm says that it gave the step. */
static void read_grant(spank_t spank)
{
    char *cores = NULL;
    uint16_t ncpus = 0;
    if (spank_get_item(spank, S_STEP_ALLOC_CORES, &cores) == ESPANK_SUCCESS && cores != NULL)
        step.cores = strdup(cores);
    if (spank_get_item(spank, S_JOB_NCPUS, &ncpus) == ESPANK_SUCCESS)
        step.cpus_given = ncpus;
}

static void judge_confinement(void)
{
    struct msg_register *m = &step.about;
    struct own_grant grant = {.abstract_cores = step.cores, .cpus = step.cpus_given};
    const char *cores = step.cores != NULL ? step.cores : "?";
    long first = cpus_next(&m->own, 0);
    grant.threads_per_core = own_threads_per_core("", first >= 0 ? (unsigned)first : 0);
    long machine = sysconf(_SC_NPROCESSORS_ONLN);
    m->unconfined = own_is_unconfined(&m->own, &grant, machine > 0 ? (unsigned)machine : UINT_MAX);
    char list[ENV_SIZE];
    (void)cpus_format(&m->own, list, sizeof list);
    if (m->unconfined)
        log_warning("the tasks may run on CPUs %s, which is more than Slurm gave the step (cores "
                    "%s, %u CPUs): its CPUs are not known and it only watches; use "
                    "TaskPlugin=task/affinity or task/cgroup",
                    list, cores, step.cpus_given);
    else
        log_debug("own CPUs %s (Slurm says cores %s, %u CPUs)", list, cores, step.cpus_given);
}

static int make_socket(void)
{
    char error[ENV_SIZE];
    if (step.socket[0] == '\0')
        return -1;
    int fd = clients_listen(step.socket, step.about.uid, error, sizeof error);
    if (fd < 0)
        log_info("%s", error);
    step.socket_made = fd >= 0;
    return fd;
}

/* In slurmstepd itself: threads, descriptors and paths are to be its own. */
static void start_agent(void)
{
    if (own_read(step.ranks, step.nranks, &step.about.own) < 0) {
        log_info("the masks of the tasks cannot be read: %s", strerror(errno));
        return;
    }
    judge_confinement();
    struct agent_step start = {.args = step.args,
                               .about = step.about,
                               .ranks = step.ranks,
                               .nranks = step.nranks,
                               .listener = make_socket()};
    step.agent = agent_start(&start);
    if (step.agent == NULL) {
        log_warning("the agent cannot be started: %s", strerror(errno));
        if (start.listener >= 0)
            close(start.listener);
    }
}

/*
 * A helper process hands the start over. It waits a moment, so that the client socket is there and
 * the masks have been read before the tasks run; later does no harm.
 */
static void have_agent_started(void)
{
    if (step.executor == NULL) {
        log_warning("the agent cannot be started: callbacks run in helper processes "
                    "(contain_spank), and there is no thread to start it in slurmstepd");
        step.on = false;
        return;
    }
    if (!executor_run(step.executor, start_agent, HANDED_MS))
        log_debug("the agent is started later: %s", strerror(errno));
}

static void all_forked(spank_t spank)
{
    read_grant(spank);
    if (contained()) {
        have_agent_started();
        return;
    }
    start_agent();
    if (step.executor != NULL)
        (void)executor_dismiss(step.executor, HANDED_MS); /* it may wait for the step's end, too */
}

void remote_task_post_fork(spank_t spank)
{
    pid_t pid = -1;
    launch_end(); /* an extern step has no user's part */
    if (!step.on || step.nranks == step.tasks)
        return;
    if (spank_get_item(spank, S_TASK_PID, &pid) != ESPANK_SUCCESS || pid <= 0) {
        log_info("a task has no process id: no agent is started");
        step.on = false;
        return;
    }
    step.ranks[step.nranks++].pid = pid;
    if (step.nranks == step.tasks)
        all_forked(spank);
}

/* ---- the tasks end ---- */

/* How long the GPU waited for input, why, what would help. */
static void tell_what_was_seen(const char *name, const struct agent_summary *s)
{
    char waited[96] = "how long the GPU waited for input is not known", cores[64] = "";
    if (s->loop_s > 0)
        snprintf(waited, sizeof waited, "%.0f of %.0f s (%.0f %%) waited for input", s->wait_s,
                 s->loop_s, 100 * s->wait_s / s->loop_s);
    if (s->cores_min != s->cores_max)
        snprintf(cores, sizeof cores, "%u to %u CPUs in %u changes", s->cores_min, s->cores_max,
                 s->changes);
    else
        snprintf(cores, sizeof cores, "%u CPU%s", s->cores_max, s->cores_max == 1 ? "" : "s");
    slurm_spank_log("adloader: step %s on %s: %s; %s [loaders: %s, %.1f CPU seconds]", name,
                    step.about.node, waited,
                    s->verdict[0] != '\0' ? s->verdict : "unknown: nothing was measured", cores,
                    s->loader_cpu_s);
    if (s->cut)
        slurm_spank_log("adloader: step %s on %s had more than %u processes or %u threads: those "
                        "beyond were not looked at and stayed as they were",
                        name, step.about.node, TASKS_PROCESSES_MAX, TASKS_THREADS_MAX);
}

/* One line for who asked for it (report). */
static void tell_user(void)
{
    struct agent_summary s;
    char name[64];
    if (!step.about.hints.report)
        return;
    agent_summary(step.agent, &s);
    if (msg_step_name(step.about.job, step.about.step, name, sizeof name) < 0)
        return;
    if (!s.registered)
        slurm_spank_log(
            "adloader: step %s on %s was not managed: no controller answered before it ended", name,
            step.about.node);
    else
        tell_what_was_seen(name, &s);
}

static void all_ended(void)
{
    if (step.agent == NULL)
        return;
    tell_user();
    agent_leave(step.agent);
}

void remote_task_exit(spank_t spank)
{
    (void)spank;
    if (!step.on || step.nranks != step.tasks || ++step.exited != step.tasks)
        return;
    if (!contained())
        all_ended();
    else if (!executor_run(step.executor, all_ended, HANDED_MS))
        log_debug("the agent is told of the end later: %s", strerror(errno));
}

static void leave_behind(void)
{
    log_info("the agent is late and was left behind");
    log_to_sink(log_to_nobody);
}

static void free_step(void)
{
    for (size_t i = 0; i < step.nranks; i++)
        cpus_free(&step.ranks[i].home);
    free(step.ranks);
    free(step.cores);
    cpus_free(&step.about.own);
    memset(&step, 0, sizeof step);
}

void remote_exit(spank_t spank)
{
    (void)spank;
    launch_end();
    if (!step.here)
        return;
    if (step.executor != NULL && !executor_join(step.executor, JOIN_MS)) {
        if (step.agent != NULL)
            agent_leave(step.agent);
        leave_behind(); /* what they may be using is left, too */
        return;
    }
    if (step.socket_made && unlink(step.socket) < 0 && errno != ENOENT)
        log_debug("%s cannot be removed: %s", step.socket, strerror(errno));
    if (step.agent != NULL) {
        agent_leave(step.agent);
        if (!agent_join(step.agent, JOIN_MS))
            leave_behind();
    }
    free_step();
}
