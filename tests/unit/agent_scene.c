/* The scene of the agent's tests: see agent_scene.h. */
#include "config.h"

#include "agent_scene.h"

#include "clients.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- the training program ---- */

void victim_start(struct victim *v, const char *socket)
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

int victim_do(struct victim *v, char command)
{
    int answer = -1;
    fputc(command, v->to);
    fflush(v->to);
    if (fscanf(v->from, "%d", &answer) != 1)
        fail_msg("the training program does not answer '%c'", command);
    return answer;
}

void victim_stop(struct victim *v)
{
    fclose(v->to);
    waitpid(v->pid, NULL, 0);
    fclose(v->from);
}

/* ---- masks as the kernel tells them ---- */

void read_mask(pid_t pid, pid_t tid, char *list, size_t size)
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

void expect_mask(pid_t pid, pid_t tid, const char *want)
{
    char list[32];
    read_mask(pid, tid, list, sizeof list);
    assert_string_equal(list, want);
}

void await_mask(pid_t pid, pid_t tid, const char *want)
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

int listen_at(const char *path)
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
    char error[256], controllers[320];
    int n = snprintf(controllers, sizeof controllers, "controller=unix:%s", s->socket);
    if (s->second >= 0)
        snprintf(controllers + n, sizeof controllers - (size_t)n, ",unix:%s", s->second_socket);
    char *argv[] = {controllers};
    assert_int_equal(args_parse(&s->step.args, 1, argv, error, sizeof error), 0);
    snprintf(s->step.args.rundir, sizeof s->step.args.rundir, "%s", s->dir);
    s->rank.pid = s->victim.pid;
    s->rank.start_ticks = start_ticks(s->victim.pid);
    assert_int_equal(cpus_get_affinity(s->victim.pid, &s->rank.home), 0);
    struct msg_register *about = &s->step.about;
    about->job = 12;
    about->step = s->number;
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

/* Whatever the machine has, this process and what it starts are on these CPUs. */
static bool be_on(const char *list)
{
    struct cpus cpus = CPUS_EMPTY;
    bool done = cpus_parse(&cpus, list) == 0 && cpus_set_affinity(0, &cpus) == 0;
    cpus_free(&cpus);
    return done;
}

bool scene_possible(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_ISSET(0, &set) && CPU_ISSET(1, &set);
}

void scene_begin(struct scene *s, const struct scene_setup *setup)
{
    char error[256];
    s->peer = s->second = -1;
    s->lease_ms = LONG_LEASE_MS;
    s->number = setup->step;
    s->shares = setup->dir != NULL;
    snprintf(s->dir, sizeof s->dir, "%s", s->shares ? setup->dir : "/tmp/adl-test-agent-XXXXXX");
    if (!s->shares)
        assert_non_null(mkdtemp(s->dir));
    assert_true(be_on(setup->cpus));
    snprintf(s->socket, sizeof s->socket, "%s/ctld-%u.sock", s->dir, s->number);
    s->listener = listen_at(s->socket);
    if (setup->two_controllers) {
        snprintf(s->second_socket, sizeof s->second_socket, "%s/second-%u.sock", s->dir, s->number);
        s->second = listen_at(s->second_socket);
    }
    assert_int_equal(
        clients_path(s->dir, "n1", 12, s->number, s->client_socket, sizeof s->client_socket), 0);
    s->step.listener = clients_listen(s->client_socket, getuid(), error, sizeof error);
    assert_true(s->step.listener >= 0);
    victim_start(&s->victim, s->client_socket);
    (void)victim_do(&s->victim, 'n'); /* it has called exec for certain */
    fill_step(s);
    assert_true(be_on("0-1"));
    s->agent = agent_start(&s->step);
    assert_non_null(s->agent);
}

void scene_end(struct scene *s)
{
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
    if (s->second > 0)
        close(s->second);
    unlink(s->socket);
    unlink(s->second_socket);
    unlink(s->client_socket);
    if (!s->shares) {
        char nodes[sizeof(s->dir) + 8];

        (void)snprintf(nodes, sizeof(nodes), "%s/node", s->dir);
        (void)rmdir(nodes);
        (void)rmdir(s->dir);
    }
    cpus_free(&s->rank.home);
    cpus_free(&s->step.about.own);
}

/* ---- this test as the controller ---- */

static void accept_at(struct scene *s, int listener)
{
    struct pollfd fd = {.fd = listener, .events = POLLIN};
    if (poll(&fd, 1, PATIENCE_MS) != 1)
        fail_msg("the agent does not connect");
    if (s->peer >= 0)
        close(s->peer);
    s->peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(s->peer >= 0);
    s->in_length = s->in_used = 0;
}

void accept_agent(struct scene *s)
{
    accept_at(s, s->listener);
}

void accept_agent_at_second(struct scene *s)
{
    accept_at(s, s->second);
}

void hang_up(struct scene *s)
{
    close(s->peer);
    s->peer = -1;
}

void say(struct scene *s, int written, struct wire_writer *w)
{
    assert_int_equal(written, 0);
    assert_int_equal(send(s->peer, w->data, w->length, MSG_NOSIGNAL), (ssize_t)w->length);
    wire_writer_free(w);
}

/* The next frame, or false at the end of the stream; fails when neither comes. */
bool hear(struct scene *s, struct wire_view *view)
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
void hear_type(struct scene *s, enum msg_type type, struct wire_view *view)
{
    do {
        if (!hear(s, view))
            fail_msg("the agent hung up, message %d was expected", (int)type);
    } while (view->type != type);
}

void greet(struct scene *s, struct msg_register *m)
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

void welcome(struct scene *s)
{
    struct wire_writer w = {0};
    struct msg_welcome m = {
        .server = "test", .instance = 1, .lease_ms = s->lease_ms, .report_ms = 100, .scan_ms = 100};
    say(s, msg_welcome_write(&w, &m), &w);
}

void register_agent(struct scene *s)
{
    struct msg_register m;
    accept_agent(s);
    greet(s, &m);
    msg_register_free(&m);
    welcome(s);
}

void send_assign(struct scene *s, uint64_t seq, const char *cpus, const struct msg_loan *loan)
{
    struct wire_writer w = {0};
    struct msg_assign m = {.seq = seq, .own = cpus == NULL, .workers = 3, .lease_ms = s->lease_ms};
    if (cpus != NULL)
        assert_int_equal(cpus_parse(&m.cpus, cpus), 0);
    if (loan != NULL)
        m.loans[m.nloans++] = *loan;
    say(s, msg_assign_write(&w, &m), &w);
    cpus_free(&m.cpus);
}

void hear_ack(struct scene *s, uint64_t seq, struct msg_ack *ack)
{
    struct wire_view view;
    do {
        hear_type(s, MSG_ACK, &view);
        assert_int_equal(msg_ack_read(&view, ack), 0);
    } while (ack->seq != seq);
}

void renew(struct scene *s)
{
    struct wire_writer w = {0};
    struct msg_renew m = {.lease_ms = s->lease_ms};
    say(s, msg_renew_write(&w, &m), &w);
}

void assign(struct scene *s, uint64_t seq, const char *cpus, struct msg_ack *ack)
{
    send_assign(s, seq, cpus, NULL);
    hear_ack(s, seq, ack);
}

/* Answer reports for a while, as a controller does; the last one is left in m. */
void serve(struct scene *s, unsigned reports, struct msg_report *m)
{
    struct wire_view view;
    for (unsigned i = 0; i < reports; i++) {
        hear_type(s, MSG_REPORT, &view);
        assert_int_equal(msg_report_read(&view, m), 0);
        renew(s);
    }
}
