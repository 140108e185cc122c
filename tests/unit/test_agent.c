/*
 * The agent against a controller that this test plays, on a training program of real processes and
 * threads. Masks are read from /proc/PID/task/TID/status, not with the code under test. Needs two
 * CPUs.
 */
#include "config.h"

#include "agent.h"
#include "clients.h"
#include "msg.h"
#include "wire.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS    10000   /* for what must happen; only failing tests wait so long */
#define LONG_LEASE_MS  600000u /* so that a loaded machine is no reason to fail */
#define SHORT_LEASE_MS 600u

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- the training program ---- */

struct victim {
    pid_t pid;
    FILE *to, *from;
};

static void victim_start(struct victim *v, const char *socket)
{
    char program[4096];
    int in[2], out[2];
    snprintf(program, sizeof program, "%s/tests/unit/agent_victim", getenv("ADL_BUILDDIR"));
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    v->pid = fork();
    assert_true(v->pid >= 0);
    if (v->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        setenv("ADLOADER_SOCKET", socket, 1);
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    v->to = fdopen(in[1], "w");
    v->from = fdopen(out[0], "r");
}

static int victim_do(struct victim *v, char command)
{
    int answer = -1;
    fputc(command, v->to);
    fflush(v->to);
    if (fscanf(v->from, "%d", &answer) != 1)
        fail_msg("the training program does not answer '%c'", command);
    return answer;
}

static void victim_stop(struct victim *v)
{
    fclose(v->to);
    waitpid(v->pid, NULL, 0);
    fclose(v->from);
}

/* ---- masks as the kernel tells them ---- */

static void read_mask(pid_t pid, pid_t tid, char *list, size_t size)
{
    static const char key[] = "Cpus_allowed_list:";
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    snprintf(list, size, "gone");
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, sizeof key - 1) == 0)
            sscanf(line + sizeof key - 1, "%31s", list);
    if (f != NULL)
        fclose(f);
}

static void expect_mask(pid_t pid, pid_t tid, const char *want)
{
    char list[32];
    read_mask(pid, tid, list, sizeof list);
    assert_string_equal(list, want);
}

static void await_mask(pid_t pid, pid_t tid, const char *want)
{
    char list[32];
    for (uint64_t until = now_ms() + PATIENCE_MS; now_ms() < until; usleep(2000)) {
        read_mask(pid, tid, list, sizeof list);
        if (strcmp(list, want) == 0)
            return;
    }
    fail_msg("task %d is on %s, not on %s", (int)tid, list, want);
}

/* ---- the scene: a victim, an agent on it, and this test as the controller ---- */

struct scene {
    char dir[64], socket[128], client_socket[128], both[32];
    int listener, peer;
    uint32_t lease_ms;
    uint8_t in[WIRE_SMALL_FRAME];
    size_t in_length, in_used;
    struct victim victim;
    struct rank rank;
    struct agent_step step;
    struct agent *agent;
};

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static uint64_t start_ticks(pid_t pid)
{
    struct procfs fs;
    struct procfs_stat stat;
    assert_int_equal(procfs_open(&fs, ""), 0);
    assert_int_equal(procfs_process_stat(&fs, pid, &stat), 0);
    procfs_close(&fs);
    return stat.start_ticks;
}

static void fill_step(struct scene *s)
{
    char error[256], controller[160];
    snprintf(controller, sizeof controller, "controller=unix:%s", s->socket);
    char *argv[] = {controller};
    assert_int_equal(args_parse(&s->step.args, 1, argv, error, sizeof error), 0);
    snprintf(s->step.args.rundir, sizeof s->step.args.rundir, "%s", s->dir);
    s->rank.pid = s->victim.pid;
    s->rank.start_ticks = start_ticks(s->victim.pid);
    assert_int_equal(cpus_get_affinity(s->victim.pid, &s->rank.home), 0);
    struct msg_register *about = &s->step.about;
    about->job = 12;
    about->step = 3;
    about->uid = (uint32_t)getuid();
    about->tasks = about->step_nodes = 1;
    about->hints.on = true;
    snprintf(about->node, sizeof about->node, "n1");
    snprintf(about->host, sizeof about->host, "h1");
    snprintf(about->agent, sizeof about->agent, "test");
    assert_int_equal(cpus_copy(&about->own, &s->rank.home), 0);
    s->step.ranks = &s->rank;
    s->step.nranks = 1;
}

static int set_up(void **state)
{
    cpu_set_t set;
    struct scene *s = calloc(1, sizeof *s);
    char error[256];
    *state = s;
    s->peer = -1;
    s->lease_ms = LONG_LEASE_MS;
    snprintf(s->dir, sizeof s->dir, "/tmp/adl-test-agent-XXXXXX");
    if (sched_getaffinity(0, sizeof set, &set) < 0 || !CPU_ISSET(0, &set) || !CPU_ISSET(1, &set))
        return 0; /* scene_ready() skips */
    /* whatever the machine has, the step owns CPUs 0 and 1 */
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    CPU_SET(1, &set);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->socket, sizeof s->socket, "%s/ctld.sock", s->dir);
    s->listener = listen_at(s->socket);
    assert_int_equal(clients_path(s->dir, "n1", 12, 3, s->client_socket, sizeof s->client_socket),
                     0);
    s->step.listener = clients_listen(s->client_socket, getuid(), error, sizeof error);
    assert_true(s->step.listener >= 0);
    victim_start(&s->victim, s->client_socket);
    (void)victim_do(&s->victim, 'n'); /* it has called exec for certain */
    snprintf(s->both, sizeof s->both, "0-1");
    fill_step(s);
    s->agent = agent_start(&s->step);
    assert_non_null(s->agent);
    return 0;
}

static struct scene *scene_ready(void **state)
{
    struct scene *s = *state;
    if (s->agent == NULL)
        skip();
    return s;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    if (s->agent != NULL) {
        agent_leave(s->agent);
        assert_true(agent_join(s->agent, 2000));
    }
    if (s->victim.pid > 0)
        victim_stop(&s->victim);
    if (s->peer >= 0)
        close(s->peer);
    if (s->listener > 0)
        close(s->listener);
    unlink(s->socket);
    unlink(s->client_socket);
    rmdir(s->dir);
    cpus_free(&s->rank.home);
    cpus_free(&s->step.about.own);
    free(s);
    return 0;
}

/* ---- this test as the controller ---- */

static void accept_agent(struct scene *s)
{
    struct pollfd fd = {.fd = s->listener, .events = POLLIN};
    if (poll(&fd, 1, PATIENCE_MS) != 1)
        fail_msg("the agent does not connect");
    if (s->peer >= 0)
        close(s->peer);
    s->peer = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(s->peer >= 0);
    s->in_length = s->in_used = 0;
}

static void hang_up(struct scene *s)
{
    close(s->peer);
    s->peer = -1;
}

static void say(struct scene *s, int written, struct wire_writer *w)
{
    assert_int_equal(written, 0);
    assert_int_equal(send(s->peer, w->data, w->length, MSG_NOSIGNAL), (ssize_t)w->length);
    wire_writer_free(w);
}

/* The next frame, or false at the end of the stream; fails when neither comes. */
static bool hear(struct scene *s, struct wire_view *view)
{
    memmove(s->in, s->in + s->in_used, s->in_length - s->in_used);
    s->in_length -= s->in_used;
    s->in_used = 0;
    for (;;) {
        ssize_t length = wire_frame_length(s->in, s->in_length, sizeof s->in);
        assert_true(length >= 0);
        if (length > 0) {
            assert_int_equal(wire_open(view, s->in, (size_t)length), 0);
            s->in_used = (size_t)length;
            return true;
        }
        struct pollfd fd = {.fd = s->peer, .events = POLLIN};
        if (poll(&fd, 1, PATIENCE_MS) != 1)
            fail_msg("the agent says nothing");
        ssize_t n = recv(s->peer, s->in + s->in_length, sizeof s->in - s->in_length, 0);
        if (n <= 0)
            return false;
        s->in_length += (size_t)n;
    }
}

/* The next frame of a type; others are passed over. */
static void hear_type(struct scene *s, enum msg_type type, struct wire_view *view)
{
    do {
        if (!hear(s, view))
            fail_msg("the agent hung up, message %d was expected", (int)type);
    } while (view->type != type);
}

static void greet(struct scene *s, struct msg_register *m)
{
    struct wire_writer w = {0};
    struct wire_view view;
    struct msg_challenge challenge = {.credential_wanted = false};
    memset(challenge.nonce, 7, sizeof challenge.nonce);
    snprintf(challenge.server, sizeof challenge.server, "test");
    say(s, msg_challenge_write(&w, &challenge), &w);
    hear_type(s, MSG_REGISTER, &view);
    assert_int_equal(msg_register_read(&view, m), 0);
    assert_memory_equal(m->nonce, challenge.nonce, sizeof m->nonce);
}

static void welcome(struct scene *s)
{
    struct wire_writer w = {0};
    struct msg_welcome m = {
        .server = "test", .instance = 1, .lease_ms = s->lease_ms, .report_ms = 100, .scan_ms = 100};
    say(s, msg_welcome_write(&w, &m), &w);
}

static void register_agent(struct scene *s)
{
    struct msg_register m;
    accept_agent(s);
    greet(s, &m);
    msg_register_free(&m);
    welcome(s);
}

static void assign(struct scene *s, uint64_t seq, const char *cpus, struct msg_ack *ack)
{
    struct wire_writer w = {0};
    struct wire_view view;
    struct msg_assign m = {.seq = seq, .own = cpus == NULL, .workers = 3, .lease_ms = s->lease_ms};
    if (cpus != NULL)
        assert_int_equal(cpus_parse(&m.cpus, cpus), 0);
    say(s, msg_assign_write(&w, &m), &w);
    cpus_free(&m.cpus);
    do {
        hear_type(s, MSG_ACK, &view);
        assert_int_equal(msg_ack_read(&view, ack), 0);
    } while (ack->seq != seq);
}

static void renew(struct scene *s)
{
    struct wire_writer w = {0};
    struct msg_renew m = {.lease_ms = s->lease_ms};
    say(s, msg_renew_write(&w, &m), &w);
}

/* Answer reports for a while, as a controller does; the last one is left in m. */
static void serve(struct scene *s, unsigned reports, struct msg_report *m)
{
    struct wire_view view;
    for (unsigned i = 0; i < reports; i++) {
        hear_type(s, MSG_REPORT, &view);
        assert_int_equal(msg_report_read(&view, m), 0);
        renew(s);
    }
}

/* ---- the tests ---- */

static void registration_says_what_the_step_is(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_register m;
    accept_agent(s);
    greet(s, &m);
    assert_int_equal(m.job, 12);
    assert_int_equal(m.step, 3);
    assert_int_equal(m.tasks, 1);
    assert_string_equal(m.node, "n1");
    assert_true(cpus_equal(&m.own, &s->step.about.own));
    assert_false(m.held_valid);
    assert_false(m.unconfined);
    msg_register_free(&m);
}

static void loaders_move_and_nothing_else(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    pid_t rank = s->victim.pid;
    pid_t loader = victim_do(&s->victim, 't'), plain = victim_do(&s->victim, 'p');
    pid_t pin = victim_do(&s->victim, 'n'), worker = victim_do(&s->victim, 'w');
    pid_t program = victim_do(&s->victim, 'x');
    usleep(100000); /* older than a child that is about to call exec */
    register_agent(s);
    assign(s, 1, "1", &ack);
    assert_int_equal(ack.status, MSG_ACK_APPLIED);
    assert_int_equal(ack.tasks, 2);
    assert_int_equal(ack.failed, 0);
    expect_mask(rank, loader, "1"); /* when the acknowledgement is here, it is done */
    expect_mask(worker, worker, "1");
    expect_mask(rank, rank, s->both);
    expect_mask(rank, plain, s->both);
    expect_mask(rank, pin, s->both);
    expect_mask(program, program, s->both);
    serve(s, 2, &report);
    assert_int_equal(report.tasks, 2);
    assert_int_equal(report.workers, 2);
    assert_false(report.held_is_own);
    assert_int_equal(report.held_seq, 1);
    assign(s, 2, NULL, &ack);
    assert_int_equal(ack.status, MSG_ACK_APPLIED);
    expect_mask(rank, loader, s->both);
    expect_mask(worker, worker, s->both);
}

static void new_loaders_are_found_and_bound(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    register_agent(s);
    assign(s, 1, "1", &ack);
    assert_int_equal(ack.tasks, 0);
    pid_t loader = victim_do(&s->victim, 't'), worker = victim_do(&s->victim, 'w');
    serve(s, 4, &report);
    expect_mask(s->victim.pid, loader, "1");
    expect_mask(worker, worker, "1");
    assert_int_equal(victim_do(&s->victim, 'k'), 0); /* one that ends is no failure */
    serve(s, 4, &report);
    assert_int_equal(report.tasks, 1);
    assert_int_equal(report.failed, 0);
}

static void a_loader_s_mask_is_not_left_to_its_heirs(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    register_agent(s);
    pid_t loader = victim_do(&s->victim, 't');
    assign(s, 1, "1", &ack);
    expect_mask(s->victim.pid, loader, "1");
    pid_t heir = victim_do(&s->victim, 'i');
    serve(s, 3, &report);
    expect_mask(s->victim.pid, heir, s->both);
    expect_mask(s->victim.pid, loader, "1");
    assert_int_equal(report.tasks, 1);
}

static void an_assignment_outside_is_reported(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    pid_t loader = victim_do(&s->victim, 't');
    register_agent(s);
    assign(s, 1, "4000", &ack); /* no such CPU: the kernel refuses */
    assert_int_equal(ack.status, MSG_ACK_FAILED);
    assert_int_equal(ack.failed, 1);
    expect_mask(s->victim.pid, loader, s->both);
    assign(s, 2, "1,4000", &ack); /* it grants a part, silently: only reading back tells */
    assert_int_equal(ack.status, MSG_ACK_FAILED);
    expect_mask(s->victim.pid, loader, "1");
    serve(s, 2, &report);
    assert_int_equal(report.failed, 2);
    assert_int_equal(report.drift, 0); /* nobody else has changed anything */
}

static void an_empty_assignment_leaves_the_home_mask(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    pid_t loader = victim_do(&s->victim, 't');
    register_agent(s);
    assign(s, 1, "1", &ack);
    assign(s, 2, "", &ack);
    assert_int_equal(ack.status, MSG_ACK_APPLIED);
    expect_mask(s->victim.pid, loader, s->both);
}

static void silence_ends_the_lease(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_register m;
    pid_t loader = victim_do(&s->victim, 't');
    s->lease_ms = SHORT_LEASE_MS;
    register_agent(s);
    assign(s, 1, "1", &ack);
    uint64_t from = now_ms();
    expect_mask(s->victim.pid, loader, "1");
    await_mask(s->victim.pid, loader, s->both); /* the connection is open, but nobody speaks */
    assert_true(now_ms() - from >= SHORT_LEASE_MS - 50);
    accept_agent(s); /* and it tries anew */
    greet(s, &m);
    assert_true(m.held_valid);
    assert_true(m.held_is_own);
    msg_register_free(&m);
}

static void a_restart_within_the_lease_moves_nothing(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_register m;
    struct msg_report report;
    struct cpus one = CPUS_EMPTY;
    pid_t loader = victim_do(&s->victim, 't');
    s->lease_ms = 2000;
    register_agent(s);
    assign(s, 9, "1", &ack);
    hang_up(s);
    accept_agent(s);
    greet(s, &m);
    assert_true(m.held_valid);
    assert_false(m.held_is_own);
    assert_int_equal(m.held_seq, 9);
    assert_int_equal(cpus_parse(&one, "1"), 0);
    assert_true(cpus_equal(&m.held, &one));
    cpus_free(&one);
    msg_register_free(&m);
    expect_mask(s->victim.pid, loader, "1");
    welcome(s);
    serve(s, 30, &report); /* longer than the lease */
    expect_mask(s->victim.pid, loader, "1");
}

static void without_a_controller_the_lease_ends_too(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    pid_t loader = victim_do(&s->victim, 't');
    s->lease_ms = 2000;
    register_agent(s);
    assign(s, 1, "1", &ack);
    expect_mask(s->victim.pid, loader, "1");
    close(s->listener);
    s->listener = -1;
    hang_up(s);
    await_mask(s->victim.pid, loader, s->both);
}

static void garbage_is_answered_by_hanging_up(void **state)
{
    static const struct {
        const char *what, *bytes;
        size_t length;
    } cases[] = {
        {"text", "HTTP/1.1 400 Bad Request\r\n\r\n", 28},
        {"a huge length", "\xff\xff\xff\xff\x01\x01\0\0", 8},
        {"another version", "\0\0\0\x04\x63\x01\0\0", 8},
        {"a reserved word", "\0\0\0\x04\x01\x01\x01\x01", 8},
        {"an unknown type", "\0\0\0\x04\x01\x7f\0\0", 8},
        {"an empty challenge", "\0\0\0\x04\x01\x01\0\0", 8},
        {"a welcome before its time", "\0\0\0\x04\x01\x04\0\0", 8},
        {"an assignment before its time", "\0\0\0\x04\x01\x06\0\0", 8},
    };
    struct scene *s = scene_ready(state);
    struct wire_view view;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        accept_agent(s);
        assert_int_equal(send(s->peer, cases[i].bytes, cases[i].length, MSG_NOSIGNAL),
                         (ssize_t)cases[i].length);
        if (hear(s, &view))
            fail_msg("%s: the agent answers", cases[i].what);
    }
    accept_agent(s); /* it is still there */
}

static void a_managed_agent_survives_garbage_too(void **state)
{
    struct scene *s = scene_ready(state);
    struct wire_view view;
    struct msg_ack ack;
    struct msg_register m;
    pid_t loader = victim_do(&s->victim, 't');
    register_agent(s);
    assign(s, 1, "1", &ack);
    assert_int_equal(send(s->peer, "\0\0\0\x04\x01\x06\0\0", 8, MSG_NOSIGNAL), 8);
    while (hear(s, &view))
        assert_int_equal(view.type, MSG_REPORT);
    accept_agent(s);
    greet(s, &m);
    assert_int_equal(m.held_seq, 1);
    msg_register_free(&m);
    expect_mask(s->victim.pid, loader, "1");
}

static void a_final_refusal_is_final(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct wire_writer w = {0};
    struct msg_refuse m = {.code = MSG_REFUSED_REPLACED, .retry_ms = 0, .text = "replaced"};
    pid_t loader = victim_do(&s->victim, 't');
    register_agent(s);
    assign(s, 1, "1", &ack);
    say(s, msg_refuse_write(&w, &m), &w);
    await_mask(s->victim.pid, loader, s->both);
    struct pollfd fd = {.fd = s->listener, .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 500), 0);
}

static void a_refusal_for_a_time_is_kept(void **state)
{
    struct scene *s = scene_ready(state);
    struct wire_writer w = {0};
    struct msg_refuse m = {.code = MSG_REFUSED_BUSY, .retry_ms = 400, .text = "busy"};
    accept_agent(s);
    say(s, msg_refuse_write(&w, &m), &w);
    uint64_t from = now_ms();
    accept_agent(s);
    assert_true(now_ms() - from >= 290); /* 400 less the jitter */
}

static void the_end_restores_and_says_goodbye(void **state)
{
    struct scene *s = scene_ready(state);
    struct wire_view view;
    struct msg_ack ack;
    struct msg_goodbye m;
    pid_t loader = victim_do(&s->victim, 't');
    register_agent(s);
    assign(s, 1, "1", &ack);
    agent_leave(s->agent);
    hear_type(s, MSG_GOODBYE, &view);
    assert_int_equal(msg_goodbye_read(&view, &m), 0);
    expect_mask(s->victim.pid, loader, s->both);
    assert_false(hear(s, &view));
    hang_up(s);
    assert_true(agent_join(s->agent, 1000));
    s->agent = NULL;
}

static void the_end_is_quick_with_a_dumb_controller(void **state)
{
    struct scene *s = scene_ready(state);
    uint64_t from;
    accept_agent(s); /* and never a word */
    from = now_ms();
    agent_leave(s->agent);
    assert_true(agent_join(s->agent, 1000));
    assert_true(now_ms() - from < 900); /* it does not wait for the handshake to time out */
    s->agent = NULL;
}

static void a_contended_mask_is_left_alone(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    pid_t loader = victim_do(&s->victim, 't');
    register_agent(s);
    assign(s, 1, "1", &ack);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(victim_do(&s->victim, 'm'), 0);
        serve(s, 3, &report);
        assert_int_equal(report.drift, i);
        expect_mask(s->victim.pid, loader, "1"); /* repaired */
    }
    assert_int_equal(victim_do(&s->victim, 'm'), 0);
    serve(s, 3, &report);
    assert_int_equal(report.drift, 4);
    expect_mask(s->victim.pid, loader, "0"); /* it is the application's */
}

static void an_announced_thread_is_a_loader(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    register_agent(s);
    assign(s, 1, "1", &ack);
    pid_t plain = victim_do(&s->victim, 'p');
    serve(s, 2, &report);
    expect_mask(s->victim.pid, plain, s->both);
    assert_int_equal(victim_do(&s->victim, 'a'), 1);
    serve(s, 3, &report);
    expect_mask(s->victim.pid, plain, "1");
    assert_int_equal(victim_do(&s->victim, 'u'), 0);
    serve(s, 3, &report);
    expect_mask(s->victim.pid, plain, s->both);
}

static void reports_tell_loaders_from_the_rest(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_report report;
    double loaders = 0, others = 0;
    (void)victim_do(&s->victim, 't');
    register_agent(s);
    serve(s, 2, &report);
    assert_int_equal(victim_do(&s->victim, 'b'), 0);
    for (unsigned i = 0; i < 100 && loaders < 0.29; i++) { /* some were sent before it computed */
        serve(s, 1, &report);
        loaders += report.loader_cpu_s;
        others += report.main_cpu_s;
        assert_true(report.interval_ms > 0);
        assert_true(isnan(report.gpu_busy));
        assert_true(isnan(report.samples));
    }
    assert_true(loaders > 0.29 && loaders < 0.6);
    assert_true(others < 0.1);
}

static void progress_of_the_application_is_passed_on(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_report report;
    double samples = 0, wait_s = 0, busy_s = 0;
    (void)victim_do(&s->victim, 'p');
    register_agent(s);
    assert_int_equal(victim_do(&s->victim, 'a'), 1);
    assert_int_equal(victim_do(&s->victim, 'g'), 0);
    usleep(200000); /* the library sends at most ten times a second */
    assert_int_equal(victim_do(&s->victim, 'g'), 0);
    for (unsigned i = 0; i < 30 && samples < 200; i++) {
        serve(s, 1, &report);
        if (isnan(report.samples))
            continue;
        samples += report.samples;
        wait_s += report.wait_s;
        busy_s += report.busy_s;
    }
    assert_true(fabs(samples - 200) < 0.01);
    assert_true(fabs(wait_s - 2) < 0.01);
    assert_true(fabs(busy_s - 4) < 0.01);
}

static void a_stranger_is_turned_away(void **state)
{
    struct scene *s = scene_ready(state);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct msg_ack ack;
    char byte;
    register_agent(s);
    assign(s, 1, "1", &ack);
    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", s->client_socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0); /* this test is no process of the step */
    close(fd);
}

static void an_unconfined_step_is_never_bound(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_register m;
    agent_leave(s->agent);
    assert_true(agent_join(s->agent, 1000));
    s->step.about.unconfined = true;
    s->step.listener = -1;
    s->agent = agent_start(&s->step);
    assert_non_null(s->agent);
    pid_t loader = victim_do(&s->victim, 't');
    accept_agent(s); /* of the first agent perhaps */
    struct wire_view view;
    struct pollfd fd = {.fd = s->peer, .events = POLLIN | POLLRDHUP};
    if (poll(&fd, 1, 100) == 1 && !hear(s, &view))
        accept_agent(s);
    greet(s, &m);
    assert_true(m.unconfined);
    msg_register_free(&m);
    welcome(s);
    assign(s, 1, "1", &ack);
    assert_int_equal(ack.status, MSG_ACK_FAILED);
    expect_mask(s->victim.pid, loader, s->both);
}

static void many_tasks_that_come_and_go(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct msg_report report;
    register_agent(s);
    for (unsigned round = 1; round <= 30; round++) {
        for (unsigned i = 0; i < 4; i++)
            assert_true(victim_do(&s->victim, 't') > 0);
        assign(s, round, round % 2 == 1 ? "1" : "0", &ack);
        assert_int_equal(ack.failed, 0);
        assert_int_equal(ack.tasks, 4); /* those that were not known yet are bound before the ACK */
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(victim_do(&s->victim, 'k'), 0);
    }
    serve(s, 2, &report);
    assert_int_equal(report.failed, 0);
    assert_int_equal(report.drift, 0);
    assert_int_equal(report.tasks, 0);
}

static void only_dead_sockets_are_swept(void **state)
{
    struct scene *s = scene_ready(state);
    char stale[128], other[128], file[128];
    snprintf(stale, sizeof stale, "%s/step-9.0-n1.sock", s->dir);
    snprintf(other, sizeof other, "%s/other.sock", s->dir);
    snprintf(file, sizeof file, "%s/step-8.0-n1.sock", s->dir);
    close(listen_at(stale));
    close(listen_at(other));
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(clients_sweep(s->dir), 1);
    assert_int_equal(access(stale, F_OK), -1);
    assert_int_equal(access(s->client_socket, F_OK), 0); /* this step's: somebody listens */
    assert_int_equal(unlink(other), 0);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(clients_sweep("/nonexistent"), 0);
}

/* ---- a real control group, where this test may make one ---- */

struct group {
    char outer[96], step[128];
};

static bool put_into(const char *directory, pid_t pid)
{
    char file[160];
    snprintf(file, sizeof file, "%s/cgroup.procs", directory);
    FILE *f = fopen(file, "w");
    bool ok = f != NULL && fprintf(f, "%d\n", (int)pid) > 0;
    return f != NULL && fclose(f) == 0 && ok;
}

static bool make_group(struct group *g, pid_t pid)
{
    static const char *const mounts[] = {"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified",
                                         "/sys/fs/cgroup"};
    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        snprintf(g->outer, sizeof g->outer, "%s/adl-test-%d", mounts[i], (int)getpid());
        snprintf(g->step, sizeof g->step, "%s/step_3", g->outer);
        if (mkdir(g->outer, 0755) == 0 && mkdir(g->step, 0755) == 0 && put_into(g->step, pid))
            return true;
        rmdir(g->step);
        rmdir(g->outer);
    }
    return false;
}

static void who_leaves_the_group_is_left_alone(void **state)
{
    struct scene *s = scene_ready(state);
    struct msg_ack ack;
    struct group g;
    agent_leave(s->agent);
    assert_true(agent_join(s->agent, 1000));
    s->step.listener = -1;
    s->agent = NULL;
    if (!make_group(&g, s->victim.pid))
        skip();
    s->agent = agent_start(&s->step);
    assert_non_null(s->agent);
    pid_t loader = victim_do(&s->victim, 't'), stays = victim_do(&s->victim, 'w');
    pid_t leaves = victim_do(&s->victim, 'w');
    usleep(100000);
    accept_agent(s); /* that of the first agent perhaps: then it has hung up */
    struct pollfd fd = {.fd = s->peer, .events = POLLIN | POLLRDHUP};
    struct wire_view view;
    if (poll(&fd, 1, 100) == 1 && !hear(s, &view))
        accept_agent(s);
    struct msg_register m;
    greet(s, &m);
    msg_register_free(&m);
    welcome(s);
    assign(s, 1, "1", &ack);
    assert_int_equal(ack.tasks, 3);
    expect_mask(leaves, leaves, "1");
    assert_true(put_into(g.outer, leaves));
    assign(s, 2, "0", &ack);
    expect_mask(s->victim.pid, loader, "0");
    expect_mask(stays, stays, "0");
    expect_mask(leaves, leaves, "1"); /* not ours any more: nothing is done to it */
    assert_int_equal(ack.tasks, 2);
    victim_stop(&s->victim);
    s->victim.pid = 0;
    for (unsigned i = 0; i < 1000 && rmdir(g.step) < 0; i++)
        usleep(10000); /* until the workers are gone */
    for (unsigned i = 0; i < 1000 && rmdir(g.outer) < 0; i++)
        usleep(10000);
}

#define SCENE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE(registration_says_what_the_step_is),
        SCENE(loaders_move_and_nothing_else),
        SCENE(new_loaders_are_found_and_bound),
        SCENE(a_loader_s_mask_is_not_left_to_its_heirs),
        SCENE(an_assignment_outside_is_reported),
        SCENE(an_empty_assignment_leaves_the_home_mask),
        SCENE(silence_ends_the_lease),
        SCENE(a_restart_within_the_lease_moves_nothing),
        SCENE(without_a_controller_the_lease_ends_too),
        SCENE(garbage_is_answered_by_hanging_up),
        SCENE(a_managed_agent_survives_garbage_too),
        SCENE(a_final_refusal_is_final),
        SCENE(a_refusal_for_a_time_is_kept),
        SCENE(the_end_restores_and_says_goodbye),
        SCENE(the_end_is_quick_with_a_dumb_controller),
        SCENE(a_contended_mask_is_left_alone),
        SCENE(an_announced_thread_is_a_loader),
        SCENE(reports_tell_loaders_from_the_rest),
        SCENE(progress_of_the_application_is_passed_on),
        SCENE(a_stranger_is_turned_away),
        SCENE(an_unconfined_step_is_never_bound),
        SCENE(many_tasks_that_come_and_go),
        SCENE(only_dead_sockets_are_swept),
        SCENE(who_leaves_the_group_is_left_alone),
    };
    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
