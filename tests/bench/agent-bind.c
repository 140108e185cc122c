/*
 * How fast an agent re-binds loader tasks, and what it costs when it only reports. The agent runs
 * in this process as it does in slurmstepd; this program plays its controller and watches the masks
 * from outside; the loaders are real threads or processes.
 *
 *     agent-bind [TASKS [ROUNDS [SECONDS]]]     (64, 500, 10; two CPUs are needed)
 *     agent-bind moves N COMMAND...             re-bind the loaders of a program N times while it
 * runs agent-bind churn [WORKERS]                (10000) memory while so many workers come and go
 *
 * Columns: from the assignment's sending to the moment that all tasks are seen on their new CPU,
 * and to the acknowledgement's arrival (which comes after a scan for new tasks); then the agent's
 * CPU time while it reports once a second, as a share of a core, and the process's growth in
 * memory.
 */
#include "config.h"

#include "agent.h"
#include "msg.h"
#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TASKS_LIMIT     2000
#define PROCESSES_LIMIT 1000 /* the agent looks at 1024, the program itself is one */
#define CHURN_BATCH     50   /* short-lived workers at a time */

static void die(const char *what)
{
    fprintf(stderr, "agent-bind: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the loaders ---- */

static pid_t victim;
static FILE *to_victim, *from_victim;

static void start_victim(const char *self)
{
    char path[PATH_MAX];
    int in[2], out[2];
    const char *slash = strrchr(self, '/');
    snprintf(path, sizeof path, "%.*s/../unit/agent_victim", slash ? (int)(slash - self) : 1,
             slash ? self : ".");
    if (pipe(in) < 0 || pipe(out) < 0 || (victim = fork()) < 0)
        die("fork");
    if (victim == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_victim = fdopen(in[1], "w");
    from_victim = fdopen(out[0], "r");
}

static pid_t ask_victim(char command)
{
    int answer = -1;
    fputc(command, to_victim);
    fflush(to_victim);
    if (fscanf(from_victim, "%d", &answer) != 1 || answer < 0)
        die("the loaders' program (tests/unit/agent_victim) does not answer");
    return (pid_t)answer;
}

/* ---- the controller ---- */

static char directory[] = "/tmp/adl-bench-agent-XXXXXX", path[64];
static int listener, peer;
static uint8_t in[WIRE_SMALL_FRAME];
static size_t in_length;

static void send_frame(int written, struct wire_writer *w)
{
    if (written < 0 || send(peer, w->data, w->length, MSG_NOSIGNAL) != (ssize_t)w->length)
        die("send");
    wire_writer_free(w);
}

/* Take the next frame's type if a whole one is there; MSG_ACK fills ack. */
static int take_frame(struct msg_ack *ack)
{
    struct wire_view view;
    ssize_t length = wire_frame_length(in, in_length, sizeof in);
    if (length <= 0)
        return 0;
    if (wire_open(&view, in, (size_t)length) < 0)
        die("frame");
    int type = view.type;
    if (type == MSG_ACK && msg_ack_read(&view, ack) < 0)
        die("acknowledgement");
    in_length -= (size_t)length;
    memmove(in, in + length, in_length);
    return type;
}

static void receive(int flags)
{
    ssize_t n = recv(peer, in + in_length, sizeof in - in_length, flags);
    if (n > 0)
        in_length += (size_t)n;
    else if (n == 0 || errno != EAGAIN)
        die("the agent hung up");
}

/* Take what has come meanwhile and drop it. */
static void receive_waiting(void)
{
    struct msg_ack ack;
    receive(MSG_DONTWAIT);
    while (take_frame(&ack) != 0)
        continue;
}

static void await_frame(int type)
{
    struct msg_ack ack;
    for (;;) {
        int got = take_frame(&ack);
        if (got == type)
            return;
        if (got == 0)
            receive(0);
    }
}

static pid_t owner; /* of the folder; its children leave it alone */

/* Also at a failure's exit. */
static void remove_folder(void)
{
    if (getpid() != owner)
        return;
    (void)unlink(path);
    (void)rmdir(directory);
}

static void listen_here(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (mkdtemp(directory) == NULL)
        die("mkdtemp");
    owner = getpid();
    if (atexit(remove_folder) != 0)
        die("atexit");
    snprintf(path, sizeof path, "%s/ctld", directory);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(listener, 4) < 0)
        die("listen");
}

static void admit(unsigned interval_ms)
{
    struct wire_writer w = {0};
    struct msg_challenge challenge = {.server = "bench"};
    struct msg_welcome welcome = {
        .server = "bench", .lease_ms = 600000, .report_ms = interval_ms, .scan_ms = interval_ms};
    peer = accept(listener, NULL, NULL);
    if (peer < 0)
        die("accept");
    in_length = 0;
    send_frame(msg_challenge_write(&w, &challenge), &w);
    await_frame(MSG_REGISTER);
    send_frame(msg_welcome_write(&w, &welcome), &w);
    await_frame(MSG_REPORT);
}

/* ---- the measurement ---- */

static bool all_on(const pid_t *tids, unsigned n, unsigned cpu)
{
    for (unsigned i = 0; i < n; i++) {
        cpu_set_t set;
        if (sched_getaffinity(tids[i], sizeof set, &set) < 0)
            die("a loader is gone");
        if (CPU_COUNT(&set) != 1 || !CPU_ISSET(cpu, &set))
            return false;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, unsigned n, double q)
{
    qsort(values, n, sizeof *values, compare);
    unsigned i = (unsigned)(q * n);
    return values[i < n ? i : n - 1];
}

static void move_once(uint64_t seq, const pid_t *tids, unsigned n, double *bound, double *acked)
{
    struct wire_writer w = {0};
    struct msg_assign assign = {.seq = seq, .lease_ms = 600000};
    struct msg_ack ack = {.seq = 0};
    unsigned cpu = seq % 2;
    if (cpus_set(&assign.cpus, cpu) < 0)
        die("cpus");
    *bound = *acked = -1;
    uint64_t from = now_ns();
    send_frame(msg_assign_write(&w, &assign), &w);
    while (*bound < 0 || *acked < 0) {
        if (*bound < 0 && all_on(tids, n, cpu))
            *bound = (double)(now_ns() - from) / 1e6;
        int type = take_frame(&ack);
        if (type == MSG_ACK && ack.seq == seq)
            *acked = (double)(now_ns() - from) / 1e6;
        else if (type == 0)
            receive(MSG_DONTWAIT);
    }
    if (ack.tasks != n || ack.failed != 0)
        fprintf(stderr, "agent-bind: %u tasks, %u failed\n", ack.tasks, ack.failed);
    cpus_free(&assign.cpus);
}

static pid_t agent_tid(void)
{
    pid_t found = -1;
    DIR *dir = opendir("/proc/self/task");
    struct dirent *e;
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char name[300], comm[32] = "";
        snprintf(name, sizeof name, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(name, "r");
        if (f != NULL && fgets(comm, sizeof comm, f) != NULL && strcmp(comm, "adl-agent\n") == 0)
            found = (pid_t)atoi(e->d_name);
        if (f != NULL)
            fclose(f);
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static uint64_t cpu_ns(pid_t tid)
{
    char name[64];
    unsigned long long ns = 0;
    snprintf(name, sizeof name, "/proc/self/task/%d/schedstat", (int)tid);
    FILE *f = fopen(name, "r");
    if (f == NULL || fscanf(f, "%llu", &ns) != 1)
        die("schedstat");
    fclose(f);
    return ns;
}

static long rss_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%*d %ld", &pages) != 1)
        die("statm");
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static double idle_share(unsigned seconds)
{
    pid_t tid = agent_tid();
    uint64_t before = cpu_ns(tid), from = now_ns();
    for (unsigned i = 0; i < seconds; i++)
        await_frame(MSG_REPORT);
    return (double)(cpu_ns(tid) - before) / (double)(now_ns() - from);
}

/* Start the agent for the victim as its only rank. */
static struct agent *begin(struct rank *rank, struct agent_step *step)
{
    struct procfs fs;
    struct procfs_stat stat;
    char word[96], error[256];
    char *argv[] = {word};
    snprintf(word, sizeof word, "controller=unix:%s", path);
    rank->pid = victim;
    if (args_parse(&step->args, 1, argv, error, sizeof error) < 0 || procfs_open(&fs, "") < 0 ||
        procfs_process_stat(&fs, victim, &stat) < 0 || cpus_get_affinity(victim, &rank->home) < 0 ||
        cpus_copy(&step->about.own, &rank->home) < 0)
        die("the step cannot be described");
    procfs_close(&fs);
    rank->start_ticks = stat.start_ticks;
    step->about.job = 1;
    step->about.hints.on = true;
    step->about.tasks = step->about.step_nodes = 1;
    snprintf(step->about.node, sizeof step->about.node, "n1");
    snprintf(step->about.host, sizeof step->about.host, "n1");
    snprintf(step->about.agent, sizeof step->about.agent, "bench");
    step->ranks = rank;
    step->nranks = 1;
    struct agent *agent = agent_start(step);
    if (agent == NULL)
        die("the agent does not start");
    return agent;
}

static void stop_agent(struct agent *agent, struct rank *rank, struct agent_step *step)
{
    agent_leave(agent);
    close(peer);
    (void)agent_join(agent, 1000);
    cpus_free(&rank->home);
    cpus_free(&step->about.own);
}

static void end(struct agent *agent, struct rank *rank, struct agent_step *step)
{
    stop_agent(agent, rank, step);
    fclose(to_victim);
    fclose(from_victim);
    waitpid(victim, NULL, 0);
}

static void measure(const char *self, char kind, unsigned n, unsigned rounds, unsigned seconds)
{
    static pid_t tids[TASKS_LIMIT];
    struct agent_step step = {.listener = -1};
    struct rank rank = {.pid = 0};
    start_victim(self);
    for (unsigned i = 0; i < n; i++)
        tids[i] = ask_victim(kind);
    long rss = rss_kib();
    struct agent *agent = begin(&rank, &step);
    admit(1000);
    double *bound = calloc(rounds, sizeof *bound), *acked = calloc(rounds, sizeof *acked);
    if (bound == NULL || acked == NULL)
        die("calloc");
    pid_t tid = agent_tid();
    uint64_t before = cpu_ns(tid);
    for (unsigned i = 0; i < rounds; i++)
        move_once(i + 1, tids, n, &bound[i], &acked[i]);
    double per_move = (double)(cpu_ns(tid) - before) / 1e6 / rounds;
    double share = idle_share(seconds);
    printf("%-9s %5u | %8.3f %8.3f %8.3f | %8.3f %8.3f %8.3f | %8.3f | %7.3f %% %6ld KiB\n",
           kind == 't' ? "threads" : "processes", n, quantile(bound, rounds, 0.5),
           quantile(bound, rounds, 0.99), quantile(bound, rounds, 1), quantile(acked, rounds, 0.5),
           quantile(acked, rounds, 0.99), quantile(acked, rounds, 1), per_move, share * 100,
           rss_kib() - rss);
    free(bound);
    free(acked);
    end(agent, &rank, &step);
}

/* Workers that live for a few scans, and what the agent's process grows by. */
static void churn(const char *self, unsigned workers)
{
    struct agent_step step = {.listener = -1};
    struct rank rank = {.pid = 0};
    pid_t pids[CHURN_BATCH];
    start_victim(self);
    struct agent *agent = begin(&rank, &step);
    admit(50);
    long first = 0;
    printf("workers so far   memory of the process\n");
    for (unsigned done = 0; done < workers; done += CHURN_BATCH) {
        struct wire_writer w = {0};
        struct msg_assign assign = {.seq = done + 1, .lease_ms = 600000};
        for (unsigned i = 0; i < CHURN_BATCH; i++)
            pids[i] = ask_victim('w');
        if (cpus_set(&assign.cpus, done / CHURN_BATCH % 2) < 0)
            die("cpus");
        send_frame(msg_assign_write(&w, &assign), &w);
        cpus_free(&assign.cpus);
        for (unsigned i = 0; i < 3; i++)
            await_frame(MSG_REPORT);
        for (unsigned i = 0; i < CHURN_BATCH; i++)
            if (kill(pids[i], SIGKILL) < 0)
                die("kill");
        if (done == 0)
            first = rss_kib();
        if ((done + CHURN_BATCH) % (workers >= 5 * CHURN_BATCH ? workers / 5 : CHURN_BATCH) == 0)
            printf("%14u   %+6ld KiB\n", done + CHURN_BATCH, rss_kib() - first);
    }
    end(agent, &rank, &step);
}

/* Move whatever loaders there are; returns how many the agent says were bound. */
static unsigned move_blindly(uint64_t seq)
{
    struct wire_writer w = {0};
    struct msg_assign assign = {.seq = seq, .lease_ms = 600000};
    struct msg_ack ack = {.seq = 0};
    if (cpus_set(&assign.cpus, seq % 2) < 0)
        die("cpus");
    send_frame(msg_assign_write(&w, &assign), &w);
    cpus_free(&assign.cpus);
    while (ack.seq != seq)
        if (take_frame(&ack) == 0)
            receive(0);
    return ack.tasks - ack.failed;
}

/* A program of the user's, whose loaders are moved moves times. Returns its exit status. */
static int move_program(unsigned moves, char **command)
{
    const struct timespec pause = {0, 5000000};
    struct agent_step step = {.listener = -1};
    struct rank rank = {.pid = 0};
    unsigned done = 0;
    uint64_t seq = 0, tasks = 0;
    int status = 0;
    if ((victim = fork()) < 0)
        die("fork");
    if (victim == 0) {
        (void)execvp(command[0], command);
        _exit(127);
    }
    struct agent *agent = begin(&rank, &step);
    admit(100);
    while (waitpid(victim, &status, WNOHANG) == 0) {
        if (done < moves) {
            unsigned bound = move_blindly(++seq);
            tasks += bound;
            done += bound > 0;
        }
        receive_waiting();
        (void)nanosleep(&pause, NULL);
    }
    printf("%u moves of %.1f loader tasks in the mean; exit status %d\n", done,
           done > 0 ? (double)tasks / done : 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    stop_agent(agent, &rank, &step);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[1], "moves") == 0) {
        signal(SIGPIPE, SIG_IGN);
        log_set_level(LOG_LEVEL_WARNING);
        listen_here();
        int status = move_program((unsigned)atoi(argv[2]), argv + 3);
        return status;
    }
    if (argc > 1 && strcmp(argv[1], "churn") == 0) {
        signal(SIGPIPE, SIG_IGN);
        log_set_level(LOG_LEVEL_WARNING);
        listen_here();
        churn(argv[0], argc > 2 ? (unsigned)atoi(argv[2]) : 10000);
        return 0;
    }
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 64;
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 500;
    unsigned seconds = argc > 3 ? (unsigned)atoi(argv[3]) : 10;
    if (n < 1 || n > TASKS_LIMIT || rounds < 1 || seconds < 1) {
        fprintf(stderr, "usage: agent-bind [TASKS [ROUNDS [SECONDS]]], at most %d tasks\n",
                TASKS_LIMIT);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    listen_here();
    printf("loaders   tasks |  bound ms: p50      p99      max |  acked ms: p50      p99      max |"
           " CPU ms/move | reporting   memory\n");
    measure(argv[0], 't', n, rounds, seconds);
    if (n <= PROCESSES_LIMIT)
        measure(argv[0], 'w', n, rounds, seconds);
    return 0;
}
