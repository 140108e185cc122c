/*
 * The agent against a controller that this test plays, on a training program of real processes and
 * threads. Masks are read from /proc/PID/task/TID/status, not with the code under test. Needs two
 * CPUs.
 */
#include "config.h"

#include "agent.h"
#include "agent_scene.h"
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

static int set_up(void **state)
{
    const struct scene_setup setup = {.cpus = "0-1", .step = 3};
    struct scene *s = calloc(1, sizeof *s);
    *state = s;
    if (s != NULL && scene_possible())
        scene_begin(s, &setup); /* else scene_ready() skips */
    return s != NULL ? 0 : -1;
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
    scene_end(s);
    free(s);
    return 0;
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
    expect_mask(rank, rank, "0-1");
    expect_mask(rank, plain, "0-1");
    expect_mask(rank, pin, "0-1");
    expect_mask(program, program, "0-1");
    serve(s, 2, &report);
    assert_int_equal(report.tasks, 2);
    assert_int_equal(report.workers, 2);
    assert_false(report.held_is_own);
    assert_int_equal(report.held_seq, 1);
    assign(s, 2, NULL, &ack);
    assert_int_equal(ack.status, MSG_ACK_APPLIED);
    expect_mask(rank, loader, "0-1");
    expect_mask(worker, worker, "0-1");
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
    expect_mask(s->victim.pid, heir, "0-1");
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
    expect_mask(s->victim.pid, loader, "0-1");
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
    expect_mask(s->victim.pid, loader, "0-1");
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
    await_mask(s->victim.pid, loader, "0-1"); /* the connection is open, but nobody speaks */
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
    await_mask(s->victim.pid, loader, "0-1");
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
    await_mask(s->victim.pid, loader, "0-1");
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
    expect_mask(s->victim.pid, loader, "0-1");
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
    expect_mask(s->victim.pid, plain, "0-1");
    assert_int_equal(victim_do(&s->victim, 'a'), 1);
    serve(s, 3, &report);
    expect_mask(s->victim.pid, plain, "1");
    assert_int_equal(victim_do(&s->victim, 'u'), 0);
    serve(s, 3, &report);
    expect_mask(s->victim.pid, plain, "0-1");
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

static void say_progress(int fd, double samples)
{
    struct wire_writer frame = {0};
    assert_int_equal(
        msg_client_progress_write(&frame, &(struct msg_client_progress){.samples = samples}), 0);
    assert_int_equal(send(fd, frame.data, frame.length, 0), (ssize_t)frame.length);
    wire_writer_free(&frame);
}

/* Who tells ten times a second how far it is shall not wake the agent as often. */
static void frequent_progress_is_heard_without_being_waited_for(void **state)
{
    struct clients clients;
    struct tasks nobody = {0};
    struct msg_client_change greet = {0};
    struct pollfd fds[CLIENTS_MAX + 1];
    double samples, wait_s, busy_s;
    bool announced = false;
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    clients_init(&clients, -1, getuid());
    clients.list[clients.n++] = calloc(1, sizeof **clients.list);
    assert_non_null(clients.list[0]);
    clients.list[0]->fd = ends[0];

    assert_int_equal(clients_poll(&clients, false, fds), 1);
    assert_int_equal(fds[0].fd, ends[0]); /* it may announce loaders: waited for */
    say_progress(ends[1], 10);
    fds[0].revents = POLLIN;
    clients_ready(&clients, fds, 1, &nobody, &greet, &announced);
    assert_int_equal(clients_poll(&clients, false, fds), 1);
    assert_int_equal(fds[0].fd, -1);
    assert_int_equal(clients_poll(&clients, true, fds), 1);
    assert_int_equal(fds[0].fd, ends[0]);

    for (double total = 11; total <= 40; total++) /* more than fits into one buffer */
        say_progress(ends[1], total);
    clients_hear(&clients, &nobody, &announced);
    clients_progress(&clients, &samples, &wait_s, &busy_s);
    assert_true(fabs(samples - 40) < 0.01);
    assert_false(announced);

    (void)close(ends[1]);
    clients_hear(&clients, &nobody, &announced);
    assert_int_equal(clients.n, 0);
    clients_free(&clients);
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
    expect_mask(s->victim.pid, loader, "0-1");
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
        cmocka_unit_test(frequent_progress_is_heard_without_being_waited_for),
        SCENE(a_stranger_is_turned_away),
        SCENE(an_unconfined_step_is_never_bound),
        SCENE(many_tasks_that_come_and_go),
        SCENE(only_dead_sockets_are_swept),
        SCENE(who_leaves_the_group_is_left_alone),
    };
    return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
