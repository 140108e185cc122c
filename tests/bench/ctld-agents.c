/*
 * The controller under many agents: memory, registrations, reports and events a second, and how
 * fast one event is answered while all are connected.
 *
 *     ctld-agents CONTROLLER [AGENTS [A_NODE [EVENTS]]]     (20000, 10, 1000; the program's path)
 *
 * AGENTS is bounded by the limit of file descriptors. Every node has A_NODE steps of four CPUs
 * each; the first of them loads no data and lends, the others would take whatever they get. An
 * event is the start of a further step on a random node (time to its first assignment, which needs
 * the decision and, where its cores are lent, the borrower's confirmation), or its end (time to the
 * first assignment that a neighbour gets because of it, if there is one). One after the other, each
 * finds a controller that has slept; the rate under load is that of bursts, a step on each node
 * (BURST_MAX nodes at most) at once.
 */
#include "config.h"

#include "msg.h"
#include "rng.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CPUS_A_STEP 4u
#define BURST_MAX   400u
#define BURSTS      20u

struct agent {
    int fd;
    uint32_t job;
    unsigned node, slot; /* slot: which CPUs of the node */
    uint64_t seq;
    uint64_t answered_ns; /* when the last assignment came */
    unsigned cores;       /* that it has */
    bool welcome, own, refused;
    uint8_t state[MSG_STATE_MAX];
    size_t state_length;
};

static char directory[64], conf[80], path[80];
static pid_t controller;
static struct agent *agents;
static size_t nagents;
static unsigned a_node;
static int poller;
static uint64_t assignments;

static void die(const char *what)
{
    (void)fprintf(stderr, "ctld-agents: %s: %s\n", what, strerror(errno));
    if (controller > 0)
        (void)kill(controller, SIGKILL);
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the controller ----------------------------------------------------------------------------
 */

static void write_conf(void)
{
    FILE *f;

    (void)snprintf(directory, sizeof(directory), "/tmp/ctld-agents-XXXXXX");
    if (mkdtemp(directory) == NULL)
        die("folder");
    (void)snprintf(conf, sizeof(conf), "%s/conf", directory);
    (void)snprintf(path, sizeof(path), "%s/socket", directory);
    f = fopen(conf, "w");
    if (f == NULL)
        die("configuration");
    (void)fprintf(f,
                  "ControllerSocket=%s\nStateDir=%s/state\nListenAddress=none\nLogLevel=error\n"
                  "LeaseTime=600s\nAckTimeout=10s\nLearnTime=1s\nMinHoldTime=0s\n"
                  "MainCoresPerTask=1\nSacctField=none\n",
                  path, directory);
    if (fclose(f) != 0)
        die("configuration");
}

static int try_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        die("socket");
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void start_controller(const char *program)
{
    int fd = -1;

    controller = fork();
    if (controller < 0)
        die("fork");
    if (controller == 0) {
        (void)execl(program, program, "-f", "-c", conf, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 2000 && fd < 0; i++) {
        fd = try_connect();
        if (fd < 0)
            (void)poll(NULL, 0, 5);
    }
    if (fd < 0)
        die("the controller does not start");
    (void)close(fd);
}

/* A line of /proc/PID/status, in kB. */
static long status_kb(const char *key)
{
    char file[64], line[256];
    long value = -1;
    FILE *f;

    (void)snprintf(file, sizeof(file), "/proc/%d/status", (int)controller);
    f = fopen(file, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtol(line + strlen(key) + 1, NULL, 10);
    if (f != NULL)
        (void)fclose(f);
    return value;
}

/* CPU time of the controller so far; of its loop alone, and to the nanosecond. */
static double cpu_s(void)
{
    char file[64];
    unsigned long long ns = 0;
    FILE *f;

    (void)snprintf(file, sizeof(file), "/proc/%d/schedstat", (int)controller);
    f = fopen(file, "r");
    if (f == NULL || fscanf(f, "%llu", &ns) != 1)
        die("schedstat");
    (void)fclose(f);
    return (double)ns / 1e9;
}

/* ---- agents
 * ---------------------------------------------------------------------------------------- */

static void send_frame(struct agent *a, struct wire_writer *w)
{
    size_t done = 0;

    while (done < w->length) {
        ssize_t n = send(a->fd, w->data + done, w->length - done, MSG_NOSIGNAL);

        if (n <= 0)
            die("send");
        done += (size_t)n;
    }
}

static void send_register(struct agent *a, const struct msg_challenge *challenge, uint64_t age_ms)
{
    static struct msg_register r;
    struct wire_writer w = {0};

    memset(&r, 0, sizeof(r));
    memcpy(r.nonce, challenge->nonce, sizeof(r.nonce));
    (void)snprintf(r.agent, sizeof(r.agent), "bench");
    (void)snprintf(r.node, sizeof(r.node), "node%u", a->node);
    (void)snprintf(r.host, sizeof(r.host), "%s", r.node);
    r.job = a->job;
    r.uid = 1000;
    r.tasks = r.step_nodes = 1;
    r.hints.on = true;
    r.age_ms = age_ms;
    r.held_valid = a->seq > 0;
    r.held_is_own = a->own;
    r.held_seq = a->seq;
    memcpy(r.state, a->state, a->state_length);
    r.state_length = a->state_length;
    for (unsigned c = 0; c < CPUS_A_STEP; c++)
        if (cpus_set(&r.own, a->slot * CPUS_A_STEP + c) < 0)
            die("memory");
    if (msg_register_write(&w, &r) < 0)
        die("registration");
    cpus_free(&r.own);
    send_frame(a, &w);
    wire_writer_free(&w);
}

static void send_ack(struct agent *a)
{
    struct msg_ack ack = {.seq = a->seq, .tasks = 8};
    struct wire_writer w = {0};

    if (msg_ack_write(&w, &ack) < 0)
        die("acknowledgement");
    send_frame(a, &w);
    wire_writer_free(&w);
}

static void send_report(struct agent *a)
{
    bool lends = a->slot == 0;
    struct msg_report r = {
        .interval_ms = 50,
        .tasks = lends ? 0 : 8,
        .workers = lends ? 0 : 8,
        .loader_cpu_s = lends ? 0 : (a->own ? CPUS_A_STEP : a->cores) * 0.05,
        .queue_s = NAN,
        .gpu_busy = NAN,
        .samples = NAN,
        .wait_s = NAN,
        .busy_s = NAN,
        .held_seq = a->seq,
        .held_is_own = a->own,
    };
    struct wire_writer w = {0};

    if (msg_report_write(&w, &r) < 0)
        die("report");
    send_frame(a, &w);
    wire_writer_free(&w);
}

static void send_goodbye(struct agent *a)
{
    struct msg_goodbye g = {.samples = NAN, .wait_s = NAN, .busy_s = NAN};
    struct wire_writer w = {0};

    if (msg_goodbye_write(&w, &g) < 0)
        die("goodbye");
    send_frame(a, &w);
    wire_writer_free(&w);
}

static void take_assign(struct agent *a, const struct wire_view *view)
{
    struct msg_assign assign;

    if (msg_assign_read(view, &assign) < 0)
        die("assignment");
    a->seq = assign.seq;
    a->own = assign.own;
    a->cores = cpus_count(&assign.cpus);
    memcpy(a->state, assign.state, assign.state_length);
    a->state_length = assign.state_length;
    a->answered_ns = now_ns();
    assignments++;
    msg_assign_free(&assign);
    send_ack(a);
}

static uint64_t start_age_ms;

static void take_frame(struct agent *a, const struct wire_view *view)
{
    struct msg_challenge challenge;

    switch (view->type) {
    case MSG_CHALLENGE:
        if (msg_challenge_read(view, &challenge) < 0)
            die("challenge");
        send_register(a, &challenge, start_age_ms);
        break;
    case MSG_WELCOME:
        a->welcome = true;
        break;
    case MSG_ASSIGN:
        take_assign(a, view);
        break;
    case MSG_REFUSE:
        a->refused = true;
        break;
    default:
        break;
    }
}

/* What has come for it; frames that are cut off are waited for. */
static void take_input(struct agent *a)
{
    static uint8_t buffer[WIRE_SMALL_FRAME * 2];
    size_t have = 0;

    for (;;) {
        ssize_t n = recv(a->fd, buffer + have, sizeof(buffer) - have, have > 0 ? 0 : MSG_DONTWAIT);
        ssize_t length;

        if (n <= 0)
            return;
        have += (size_t)n;
        while ((length = wire_frame_length(buffer, have, WIRE_SMALL_FRAME)) > 0) {
            struct wire_view view;

            if (wire_open(&view, buffer, (size_t)length) < 0)
                die("frame");
            take_frame(a, &view);
            have -= (size_t)length;
            memmove(buffer, buffer + length, have);
        }
        if (length < 0)
            die("frame");
        if (have == 0)
            return;
    }
}

static void connect_agent(struct agent *a)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = a};

    a->welcome = a->refused = false;
    a->fd = try_connect();
    if (a->fd < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, a->fd, &event) < 0)
        die("connect");
}

static void close_agent(struct agent *a)
{
    (void)close(a->fd);
    a->fd = -1;
}

/* Serve whoever has something for at most that long; false: nobody had. */
static bool pump(int timeout_ms)
{
    struct epoll_event events[256];
    int n = epoll_wait(poller, events, 256, timeout_ms);

    for (int i = 0; i < n; i++)
        take_input(events[i].data.ptr);
    return n > 0;
}

static void pump_until_quiet(void)
{
    while (pump(300))
        ;
}

/* ---- what is measured ---------------------------------------------------------------------------
 */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_times(const char *what, double *ms, size_t n)
{
    if (n == 0) {
        (void)printf("%-48s none\n", what);
        return;
    }
    qsort(ms, n, sizeof(*ms), compare);
    (void)printf("%-48s p50 %8.3f ms   p99 %8.3f ms   max %8.3f ms   (%zu)\n", what, ms[n / 2],
                 ms[n * 99 / 100], ms[n - 1], n);
}

static void register_all(const char *what)
{
    uint64_t begin = now_ns(), last = begin;
    double cpu = cpu_s();
    size_t welcome = 0;

    for (size_t i = 0; i < nagents; i++) {
        connect_agent(&agents[i]);
        while (i % 64 == 63 && pump(0))
            ;
    }
    while (welcome < nagents) {
        (void)pump(10);
        while (welcome < nagents && agents[welcome].welcome)
            welcome++;
        if (welcome < nagents && agents[welcome].refused)
            die("an agent was refused");
        last = now_ns();
    }
    (void)printf("%-48s %8.0f a second, %.1f us of CPU each\n", what,
                 (double)nagents * 1e9 / (double)(last - begin),
                 (cpu_s() - cpu) * 1e6 / (double)nagents);
}

static void report_all(void)
{
    for (size_t i = 0; i < nagents; i++) {
        send_report(&agents[i]);
        while (i % 64 == 63 && pump(0))
            ;
    }
    pump_until_quiet();
}

static void measure_reports(void)
{
    double cpu = cpu_s();
    uint64_t begin = now_ns();

    report_all();
    (void)printf("%-48s %8.1f us of CPU each (%.1f s in all)\n", "reports",
                 (cpu_s() - cpu) * 1e6 / (double)nagents, (double)(now_ns() - begin) / 1e9);
}

static void measure_events(size_t events)
{
    double *start = calloc(events, sizeof(*start)), *end = calloc(events, sizeof(*end));
    struct rng rng = {7};
    size_t nstart = 0, nend = 0;
    double cpu = cpu_s();

    if (start == NULL || end == NULL)
        die("memory");
    for (size_t i = 0; i < events; i++) {
        unsigned node = rng_below(&rng, (unsigned)((nagents + a_node - 1) / a_node));
        size_t first = (size_t)node * a_node;
        struct agent extra = {
            .job = (uint32_t)(10000000 + i), .node = node, .slot = a_node, .own = true};
        uint64_t begin = now_ns(), limit = begin + 5000000000u;

        connect_agent(&extra);
        while (extra.answered_ns == 0 && now_ns() < limit)
            (void)pump(10);
        if (extra.answered_ns != 0)
            start[nstart++] = (double)(extra.answered_ns - begin) / 1e6;
        while (pump(2))
            ;
        send_goodbye(&extra);
        close_agent(&extra);
        while (pump(2))
            ;
        begin = now_ns();
        send_goodbye(&agents[first]);
        close_agent(&agents[first]);
        limit = begin + 20000000u; /* it lends to nobody */
        for (bool told = false; !told && now_ns() < limit;) {
            (void)pump(1);
            for (size_t k = first + 1; k < first + a_node && k < nagents && !told; k++) {
                told = agents[k].answered_ns > begin;
                if (told)
                    end[nend++] = (double)(agents[k].answered_ns - begin) / 1e6;
            }
        }
        agents[first].seq = 0; /* a new step like it, that lends at once again */
        agents[first].own = true;
        connect_agent(&agents[first]);
        while (pump(2))
            ;
    }
    print_times("start of a step to its assignment", start, nstart);
    print_times("end of a lending step to a borrower's assignment", end, nend);
    (void)printf("%-48s %8.1f us of CPU for two starts and two ends\n", "",
                 (cpu_s() - cpu) * 1e6 / (double)events);
    free(start);
    free(end);
}

static bool all_answered(const struct agent *extras, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (extras[i].answered_ns == 0)
            return false;
    return true;
}

/* Until the controller has nothing to do any more: it asks for no CPU. */
static void pump_until_idle(void)
{
    double before;

    do {
        before = cpu_s();
        while (pump(20))
            ;
    } while (cpu_s() - before > 1e-3);
}

/* Steps start, end, and the nodes' lending steps end and start, each on all nodes at once. */
static void burst(struct agent *extras, unsigned n, unsigned round)
{
    for (unsigned i = 0; i < n; i++) {
        extras[i] = (struct agent){
            .job = 20000000 + round * BURST_MAX + i, .node = i, .slot = a_node, .own = true};
        connect_agent(&extras[i]);
    }
    for (uint64_t limit = now_ns() + 20000000000u; !all_answered(extras, n);) {
        (void)pump(10);
        if (now_ns() > limit)
            die("no assignment in time");
    }
    pump_until_idle();
    for (unsigned i = 0; i < n; i++) {
        send_goodbye(&extras[i]);
        close_agent(&extras[i]);
    }
    pump_until_idle();
    for (unsigned i = 0; i < n; i++) {
        struct agent *lender = &agents[(size_t)i * a_node];

        send_goodbye(lender);
        close_agent(lender);
        lender->seq = 0;
        lender->own = true;
    }
    pump_until_idle();
    for (unsigned i = 0; i < n; i++)
        connect_agent(&agents[(size_t)i * a_node]);
    pump_until_idle();
}

static void measure_bursts(void)
{
    static struct agent extras[BURST_MAX];
    unsigned nodes = (unsigned)((nagents + a_node - 1) / a_node);
    unsigned n = nodes < BURST_MAX ? nodes : BURST_MAX;
    double cpu = cpu_s(), events = 4.0 * n * BURSTS;

    for (unsigned round = 0; round < BURSTS; round++)
        burst(extras, n, round);
    cpu = cpu_s() - cpu;
    (void)printf("%-48s %8.1f us of CPU a start or end: %.0f a second on one core\n",
                 "in bursts, on all nodes at once", cpu * 1e6 / events, events / cpu);
}

static size_t file_limit(size_t wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("limit");
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < 200)
        return 1;
    return wanted < limit.rlim_cur - 100 ? wanted : (size_t)limit.rlim_cur - 100;
}

int main(int argc, char **argv)
{
    size_t wanted = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
    size_t events = argc > 4 ? strtoul(argv[4], NULL, 10) : 1000;
    char command[128];
    long empty_kb;
    uint64_t before;

    if (argc < 2) {
        (void)fputs("usage: ctld-agents CONTROLLER [AGENTS [A_NODE [EVENTS]]]\n", stderr);
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    a_node = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 10;
    nagents = file_limit(wanted);
    agents = calloc(nagents, sizeof(*agents));
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (agents == NULL || poller < 0 || a_node == 0)
        die("memory");
    for (size_t i = 0; i < nagents; i++)
        agents[i] = (struct agent){.fd = -1,
                                   .job = (uint32_t)(1 + i),
                                   .node = (unsigned)(i / a_node),
                                   .slot = (unsigned)(i % a_node),
                                   .own = true};
    write_conf();
    start_controller(argv[1]);
    empty_kb = status_kb("VmRSS");
    (void)printf("%zu agents, %u a node, %u CPUs each\n", nagents, a_node, CPUS_A_STEP);
    register_all("registrations");
    pump_until_quiet();
    (void)printf("%-48s %8ld kB, %.0f bytes an agent\n", "memory after registration",
                 status_kb("VmRSS"),
                 (double)(status_kb("VmRSS") - empty_kb) * 1024 / (double)nagents);
    (void)poll(NULL, 0, 1100); /* LearnTime */
    for (int i = 0; i < 8; i++) {
        (void)poll(NULL, 0, 100);
        report_all();
    }
    measure_reports();
    (void)printf("%-48s %8ld kB, %.0f bytes an agent (%llu assignments)\n", "memory in service",
                 status_kb("VmRSS"),
                 (double)(status_kb("VmRSS") - empty_kb) * 1024 / (double)nagents,
                 (unsigned long long)assignments);
    measure_events(events);
    measure_bursts();

    (void)kill(controller, SIGKILL);
    (void)waitpid(controller, NULL, 0);
    for (size_t i = 0; i < nagents; i++)
        close_agent(&agents[i]);
    start_age_ms = 60000;
    start_controller(argv[1]);
    before = now_ns();
    assignments = 0;
    register_all("registrations after a kill -9");
    (void)printf("%-48s %8.3f s\n", "all back after", (double)(now_ns() - before) / 1e9);

    (void)kill(controller, SIGTERM);
    (void)waitpid(controller, NULL, 0);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command) == 0 ? 0 : 1;
}
