/*
 * The client library against an agent played by the test: what it says, what it hears, and that
 * losing, restarting, hostile and absent agents, threads and forks do it no harm.
 */
#include "config.h"

#include "adloader.h"
#include "clock.h"
#include "msg.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_MS  10000 /* a deadline against hanging, never a measure */

/* ---- the agent ------------------------------------------------------------------------------- */

struct agent {
    char folder[64], path[96];
    int listener, connection;
    uint8_t in[65536];
    size_t length;
};

static void agent_listen(struct agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)unlink(agent->path);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", agent->path);
    agent->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(agent->listener >= 0);
    assert_int_equal(bind(agent->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(agent->listener, 16), 0);
}

static void agent_close(int *fd)
{
    if (*fd >= 0)
        assert_int_equal(close(*fd), 0);
    *fd = -1;
}

/* A socket in a folder of its own, named in the environment. */
static int set_up(void **state)
{
    struct agent *agent = calloc(1, sizeof *agent);

    assert_non_null(agent);
    (void)snprintf(agent->folder, sizeof agent->folder, "/tmp/test-client-XXXXXX");
    assert_non_null(mkdtemp(agent->folder));
    (void)snprintf(agent->path, sizeof agent->path, "%s/agent", agent->folder);
    agent->connection = -1;
    agent_listen(agent);
    assert_int_equal(setenv("ADLOADER_SOCKET", agent->path, 1), 0);
    assert_int_equal(unsetenv("ADLOADER_WORKERS"), 0);
    *state = agent;
    return 0;
}

static int tear_down(void **state)
{
    struct agent *agent = *state;

    agent_close(&agent->connection);
    agent_close(&agent->listener);
    (void)unlink(agent->path);
    (void)rmdir(agent->folder);
    free(agent);
    return 0;
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, timeout_ms) == 1;
}

static void agent_accept(struct agent *agent)
{
    assert_true(readable(agent->listener, PATIENCE_MS));
    agent->connection = accept4(agent->listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(agent->connection >= 0);
    agent->length = 0;
}

/* What the library said next, or false after timeout_ms of silence. */
struct said {
    uint8_t type;
    struct msg_client_loader loader;
    struct msg_client_progress progress;
};

static bool agent_hear(struct agent *agent, struct said *said, int timeout_ms)
{
    ssize_t frame;
    struct wire_view view;

    while ((frame = wire_frame_length(agent->in, agent->length, 512)) == 0) {
        ssize_t n;

        if (!readable(agent->connection, timeout_ms))
            return false;
        n = recv(agent->connection, agent->in + agent->length, sizeof agent->in - agent->length, 0);
        if (n <= 0)
            return false;
        agent->length += (size_t)n;
    }
    assert_true(frame > 0);
    assert_int_equal(wire_open(&view, agent->in, (size_t)frame), 0);
    said->type = view.type;
    if (view.type == MSG_CLIENT_LOADER)
        assert_int_equal(msg_client_loader_read(&view, &said->loader), 0);
    else if (view.type == MSG_CLIENT_PROGRESS)
        assert_int_equal(msg_client_progress_read(&view, &said->progress), 0);
    else
        fail_msg("the library sent a frame of type %u", view.type);
    agent->length -= (size_t)frame;
    memmove(agent->in, agent->in + frame, agent->length);
    return true;
}

static void send_bytes(int fd, const void *data, size_t length)
{
    const uint8_t *at = data;

    while (length > 0) {
        ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

        assert_true(n > 0);
        at += n;
        length -= (size_t)n;
    }
}

static void agent_say(struct agent *agent, uint32_t workers, bool managed, const char *cpus)
{
    struct msg_client_change change = {.workers = workers, .managed = managed};
    struct wire_writer frame = {0};

    assert_int_equal(cpus_parse(&change.cpus, cpus), 0);
    assert_int_equal(msg_client_change_write(&frame, &change), 0);
    send_bytes(agent->connection, frame.data, frame.length);
    wire_writer_free(&frame);
    msg_client_change_free(&change);
}

/* Wait as a program's event loop would until there is a change. */
static struct adloader_change await_change(adloader_t *handle)
{
    struct adloader_change change;
    uint64_t deadline = clock_monotonic_ms() + PATIENCE_MS;

    while (adloader_next_change(handle, &change) == 0) {
        assert_true(clock_monotonic_ms() < deadline);
        (void)readable(adloader_fd(handle), 1000);
    }
    return change;
}

static void assert_change(struct adloader_change change, unsigned workers, unsigned cpus,
                          int managed)
{
    assert_int_equal(change.workers, workers);
    assert_int_equal(change.cpus, cpus);
    assert_int_equal(change.managed, managed);
}

/* ---- without an agent ------------------------------------------------------------------------ */

static void assert_no_op(adloader_t *handle)
{
    struct adloader_change change;

    assert_int_equal(adloader_connected(handle), 0);
    assert_int_equal(adloader_loader_thread(handle, 1), 0);
    assert_int_equal(adloader_workers(handle, 7), 7);
    adloader_progress(handle, 1.0, 2.0, 3.0);
    assert_int_equal(adloader_next_change(handle, &change), 0);
    assert_int_equal(adloader_loader_thread(handle, 0), 0);
}

static void everything_is_harmless_without_an_agent(void **state)
{
    static char too_long[256];
    const char *const paths[] = {NULL,     "",         "relative/path", "/nowhere/at/all",
                                 too_long, "/dev/null"};

    (void)state;
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[0] = '/';
    for (size_t i = 0; i < COUNT(paths); i++) {
        adloader_t *handle;

        if (paths[i] == NULL)
            assert_int_equal(unsetenv("ADLOADER_SOCKET"), 0);
        else
            assert_int_equal(setenv("ADLOADER_SOCKET", paths[i], 1), 0);
        handle = adloader_open();
        assert_non_null(handle);
        assert_no_op(handle);
        assert_true(adloader_fd(handle) >= 0);
        adloader_close(handle);
    }
}

static void a_null_handle_is_accepted(void **state)
{
    (void)state;
    assert_no_op(NULL);
    assert_int_equal(adloader_fd(NULL), -1);
    adloader_close(NULL);
    assert_string_equal(adloader_version(), PACKAGE_VERSION);
}

static void workers_come_from_the_environment(void **state)
{
    const struct {
        const char *text;
        unsigned workers;
    } cases[] = {{"6", 6},  {"0", 9}, {"", 9},          {"-3", 9},    {"4x", 9},
                 {" 4", 9}, {"1", 1}, {"65536", 65536}, {"65537", 9}, {"99999999999999999999", 9}};

    (void)state;
    assert_int_equal(unsetenv("ADLOADER_SOCKET"), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        adloader_t *handle;

        assert_int_equal(setenv("ADLOADER_WORKERS", cases[i].text, 1), 0);
        handle = adloader_open();
        assert_int_equal(adloader_workers(handle, 9), cases[i].workers);
        adloader_close(handle);
    }
    assert_int_equal(unsetenv("ADLOADER_WORKERS"), 0);
}

/* ---- the conversation ------------------------------------------------------------------------ */

static void a_thread_is_announced_and_a_change_heard(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    struct adloader_change change;
    struct said said;

    agent_accept(agent);
    assert_int_equal(adloader_connected(handle), 1);
    assert_int_equal(adloader_loader_thread(handle, 1), 0);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(said.type, MSG_CLIENT_LOADER);
    assert_int_equal(said.loader.tid, gettid());
    assert_true(said.loader.on);

    assert_false(readable(adloader_fd(handle), 0));
    agent_say(agent, 3, true, "0-1,5");
    assert_true(readable(adloader_fd(handle), PATIENCE_MS));
    assert_change(await_change(handle), 3, 3, 1);
    assert_int_equal(adloader_workers(handle, 9), 3);
    assert_int_equal(adloader_next_change(handle, &change), 0);
    assert_false(readable(adloader_fd(handle), 0));

    /* own placement: the list does not count, and no opinion leaves the fallback */
    agent_say(agent, 0, false, "0-1");
    assert_change(await_change(handle), 0, 0, 0);
    assert_int_equal(adloader_workers(handle, 9), 9);

    assert_int_equal(adloader_loader_thread(handle, 1), 0); /* known already */
    assert_int_equal(adloader_loader_thread(handle, 0), 0);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_false(said.loader.on);
    assert_int_equal(said.loader.tid, gettid());
    adloader_close(handle);
    assert_false(agent_hear(agent, &said, PATIENCE_MS)); /* the end, and nothing before it */
}

/* A call that is not next_change may be the one that reads the socket: the descriptor still tells.
 */
static void a_change_read_by_another_call_is_not_lost(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    uint64_t deadline = clock_monotonic_ms() + PATIENCE_MS;

    agent_accept(agent);
    agent_say(agent, 5, true, "0");
    while (adloader_workers(handle, 1) != 5)
        assert_true(clock_monotonic_ms() < deadline);
    adloader_progress(handle, 1.0, 0.0, 0.0);
    assert_true(readable(adloader_fd(handle), 0));
    assert_change(await_change(handle), 5, 1, 1);
    assert_false(readable(adloader_fd(handle), 0));
    adloader_close(handle);
}

static void only_the_newest_of_many_changes_counts(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    struct adloader_change change;

    agent_accept(agent);
    for (uint32_t i = 1; i <= 200; i++)
        agent_say(agent, i, true, "0");
    do
        change = await_change(handle);
    while (change.workers < 200);
    assert_change(change, 200, 1, 1);
    assert_int_equal(adloader_next_change(handle, &change), 0);
    /* the same once more is no change */
    agent_say(agent, 200, true, "0");
    assert_true(readable(adloader_fd(handle), PATIENCE_MS));
    assert_int_equal(adloader_next_change(handle, &change), 0);
    adloader_close(handle);
}

/* More frames in one read than a call hears: what is left in memory keeps the descriptor readable.
 */
static void a_call_hears_no_more_than_its_share(void **state)
{
    static const uint8_t frame[] = {0, 0, 0, 4, 1, 200, 0, 0};
    enum { FRAMES = 300 };
    uint8_t frames[FRAMES * sizeof frame];
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    struct adloader_change change;
    unsigned calls = 0;

    agent_accept(agent);
    for (int i = 0; i < FRAMES; i++)
        memcpy(frames + (size_t)i * sizeof frame, frame, sizeof frame);
    send_bytes(agent->connection, frames, sizeof frames);
    agent_say(agent, 2, true, "0");
    do {
        assert_true(readable(adloader_fd(handle), 0));
        calls++;
    } while (adloader_next_change(handle, &change) == 0);
    assert_change(change, 2, 1, 1);
    assert_in_range(calls, 2, FRAMES);
    adloader_close(handle);
}

static void progress_is_sent_at_most_ten_times_a_second(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    uint64_t start = clock_monotonic_ms(), elapsed;
    unsigned heard = 0;
    double calls = 0.0;
    struct said said;

    agent_accept(agent);
    while (clock_monotonic_ms() - start < 350) {
        calls += 1.0;
        adloader_progress(handle, calls, 0.25 * calls, 0.5 * calls);
        (void)usleep(200);
    }
    elapsed = clock_monotonic_ms() - start;
    adloader_progress(handle, NAN, 0.0, 0.0); /* no news, and no end of the connection */
    adloader_progress(handle, -1.0, 0.0, 0.0);
    adloader_close(handle); /* sends the last word */
    while (agent_hear(agent, &said, PATIENCE_MS)) {
        assert_int_equal(said.type, MSG_CLIENT_PROGRESS);
        heard++;
    }
    assert_true(heard >= 2);
    assert_true(heard <= elapsed / 100 + 2);
    assert_true(said.progress.samples >= calls && said.progress.samples <= calls);
    assert_true(said.progress.wait_s >= 0.25 * calls && said.progress.wait_s <= 0.25 * calls);
    assert_true(said.progress.busy_s >= 0.5 * calls && said.progress.busy_s <= 0.5 * calls);
}

/* ---- agents that fail -------------------------------------------------------------------------
 */

static void a_lost_agent_is_found_again(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    int fd = adloader_fd(handle);
    struct said said;

    agent_accept(agent);
    assert_int_equal(adloader_loader_thread(handle, 1), 0);
    adloader_progress(handle, 10.0, 1.0, 2.0);
    agent_say(agent, 4, true, "0-3");
    assert_change(await_change(handle), 4, 4, 1);

    /* with data unread on its side, so that the end is a reset: no SIGPIPE may come of it */
    agent_close(&agent->connection);
    agent_close(&agent->listener);
    assert_change(await_change(handle), 0, 0, 0);
    assert_int_equal(adloader_connected(handle), 0);
    adloader_progress(handle, 11.0, 1.0, 2.0);

    agent_listen(agent);
    while (!readable(agent->listener, 0)) { /* nothing but the descriptor's own call drives it */
        struct adloader_change change;

        assert_true(readable(fd, PATIENCE_MS));
        assert_int_equal(adloader_next_change(handle, &change), 0);
    }
    assert_int_equal(adloader_fd(handle), fd);
    agent_accept(agent);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(said.type, MSG_CLIENT_LOADER);
    assert_int_equal(said.loader.tid, gettid());
    assert_true(said.loader.on);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(said.type, MSG_CLIENT_PROGRESS);
    assert_float_equal(said.progress.samples, 11.0, 0.0);
    agent_say(agent, 2, true, "0-1");
    assert_change(await_change(handle), 2, 2, 1);
    adloader_close(handle);
}

static void *announce_and_end(void *argument)
{
    assert_int_equal(adloader_loader_thread(argument, 1), 0);
    return NULL;
}

static void a_thread_that_ended_is_not_announced_again(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    pthread_t thread;
    struct said said;

    agent_accept(agent);
    assert_int_equal(pthread_create(&thread, NULL, announce_and_end, handle), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(adloader_loader_thread(handle, 1), 0);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    agent_close(&agent->connection);
    while (!readable(agent->listener, 10))
        (void)adloader_workers(handle, 1);
    agent_accept(agent);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(said.loader.tid, gettid());
    adloader_close(handle);
    assert_false(agent_hear(agent, &said, PATIENCE_MS));
}

static void garbage_ends_the_connection_and_slows_attempts_down(void **state)
{
    static const uint8_t longer[] = {0, 1, 0, 1, 1, 34, 0, 0};   /* than a client may be sent */
    static const uint8_t shorter[] = {0, 0, 0, 3, 1, 34, 0, 0};  /* than a head */
    static const uint8_t version[] = {0, 0, 0, 4, 9, 34, 0, 0};  /* of tomorrow */
    static const uint8_t reserved[] = {0, 0, 0, 4, 1, 34, 0, 1}; /* not zero */
    static const uint8_t empty[] = {0, 0, 0, 4, 1, 34, 0, 0};    /* a change without fields */
    static const uint8_t field[] = {0, 0, 0, 12, 1, 34, 0, 0,    /* a field that ends outside */
                                    0, 1, 0, 1,  0, 0,  0, 255};
    static const uint8_t text[] = "HTTP/1.1 200 OK\r\n\r\n";
    const struct {
        const uint8_t *bytes;
        size_t length;
    } cases[] = {{longer, sizeof longer},     {shorter, sizeof shorter}, {version, sizeof version},
                 {reserved, sizeof reserved}, {empty, sizeof empty},     {field, sizeof field},
                 {text, sizeof text - 1}};
    struct agent *agent = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        adloader_t *handle = adloader_open();
        uint64_t start = clock_monotonic_ms();
        unsigned connections = 0;

        while (clock_monotonic_ms() - start < 700) {
            if (readable(agent->listener, 1)) {
                agent_accept(agent);
                connections++;
                send_bytes(agent->connection, cases[i].bytes, cases[i].length);
                while (adloader_connected(handle) == 1)
                    assert_true(clock_monotonic_ms() - start < PATIENCE_MS);
                agent_close(&agent->connection);
            }
            assert_int_equal(adloader_workers(handle, 8), 8);
        }
        /* after 50-100, 100-200, 200-400, 400-800 ms: five at most in 700 ms */
        assert_in_range(connections, 2, 5);
        adloader_close(handle);
    }
}

/* A frame of a type that a newer agent may know is passed over. */
static void an_unknown_message_is_passed_over(void **state)
{
    static const uint8_t unknown[] = {0, 0, 0, 4, 1, 200, 0, 0};
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();

    agent_accept(agent);
    send_bytes(agent->connection, unknown, sizeof unknown);
    agent_say(agent, 6, true, "0");
    assert_change(await_change(handle), 6, 1, 1);
    assert_int_equal(adloader_connected(handle), 1);
    adloader_close(handle);
}

/* An agent that is stopped takes no bytes: calls go on, and what was last true is said in the end.
 */
static void an_agent_that_does_not_read_holds_nobody_up(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    struct said said, last = {0};
    unsigned heard = 0;

    agent_accept(agent);
    for (int i = 0; i < 20001; i++)
        assert_int_equal(adloader_loader_thread(handle, i % 2 == 0), 0);
    while (agent_hear(agent, &said, 100)) {
        last = said;
        heard++;
        (void)adloader_connected(handle);
    }
    assert_true(heard > 0 && heard < 20001); /* it did fill up, or this shows nothing */
    assert_true(last.loader.on);
    assert_int_equal(adloader_connected(handle), 1);
    adloader_close(handle);
}

/* With bytes waiting to be sent, so that the next call writes to a closed socket: no SIGPIPE. */
static void an_agent_that_dies_while_bytes_wait_kills_nobody(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();

    agent_accept(agent);
    for (int i = 0; i < 20001; i++)
        assert_int_equal(adloader_loader_thread(handle, i % 2 == 0), 0);
    agent_close(&agent->connection);
    assert_int_equal(adloader_connected(handle), 0);
    adloader_close(handle);
}

/* The backlog of an agent that never accepts runs full. */
static void an_agent_that_does_not_accept_holds_nobody_up(void **state)
{
    enum { HANDLES = 40 }; /* more than the backlog */
    adloader_t *handles[HANDLES];
    unsigned connected = 0;

    (void)state;
    for (int i = 0; i < HANDLES; i++) {
        handles[i] = adloader_open();
        assert_int_equal(adloader_loader_thread(handles[i], 1), 0);
        connected += (unsigned)adloader_connected(handles[i]);
    }
    assert_in_range(connected, 1, HANDLES - 1);
    for (int i = 0; i < HANDLES; i++)
        adloader_close(handles[i]);
}

/* ---- processes and threads ---------------------------------------------------------------------
 */

static void assert_child_succeeds(pid_t child)
{
    int status;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* In the child no cmocka: an exit status tells. */
static int child_speaks(adloader_t *handle, int fd)
{
    if (adloader_fd(handle) != fd)
        return 1;
    if (adloader_workers(handle, 7) != 7) /* the parent's advice is not the child's */
        return 2;
    adloader_progress(handle, 5.0, 0.0, 0.0);
    if (adloader_connected(handle) != 1)
        return 3;
    adloader_close(handle);
    return 0;
}

static void a_forked_child_speaks_for_itself(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    int fd = adloader_fd(handle), parents;
    struct ucred peer;
    socklen_t length = sizeof peer;
    struct said said;
    pid_t child;

    agent_accept(agent);
    parents = agent->connection;
    assert_int_equal(adloader_loader_thread(handle, 1), 0);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    agent_say(agent, 3, true, "0-2");
    assert_change(await_change(handle), 3, 3, 1);

    child = fork();
    if (child == 0)
        _exit(child_speaks(handle, fd));
    agent_accept(agent); /* a connection of the child's own */
    assert_int_equal(getsockopt(agent->connection, SOL_SOCKET, SO_PEERCRED, &peer, &length), 0);
    assert_int_equal(peer.pid, child);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(said.type, MSG_CLIENT_PROGRESS); /* and not the parent's loader */
    assert_float_equal(said.progress.samples, 5.0, 0.0);
    assert_child_succeeds(child);
    agent_close(&agent->connection);

    /* the parent's connection and descriptor are as before */
    agent->connection = parents;
    agent->length = 0;
    assert_false(readable(parents, 0));
    assert_false(readable(fd, 0));
    agent_say(agent, 1, true, "0");
    assert_true(readable(fd, PATIENCE_MS));
    assert_change(await_change(handle), 1, 1, 1);
    adloader_progress(handle, 1.0, 0.0, 0.0);
    assert_true(agent_hear(agent, &said, PATIENCE_MS));
    assert_int_equal(said.type, MSG_CLIENT_PROGRESS);
    adloader_close(handle);
}

struct busy {
    adloader_t *handle;
    atomic_bool stop;
};

static void *keep_calling(void *argument)
{
    struct busy *busy = argument;
    double samples = 0.0;

    while (!atomic_load(&busy->stop)) {
        adloader_progress(busy->handle, ++samples, 0.0, 0.0);
        (void)adloader_workers(busy->handle, 1);
    }
    return NULL;
}

/* While another thread is inside calls nearly always, so that a lock held at fork would show. */
static void a_fork_amid_calls_does_not_lock_the_child_out(void **state)
{
    struct agent *agent = *state;
    struct busy busy = {.handle = adloader_open()};
    pthread_t thread;

    agent_accept(agent);
    assert_int_equal(pthread_create(&thread, NULL, keep_calling, &busy), 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();

        if (child == 0) {
            (void)alarm(10);
            (void)adloader_workers(busy.handle, 1);
            adloader_close(busy.handle);
            _exit(0);
        }
        assert_child_succeeds(child);
    }
    atomic_store(&busy.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    adloader_close(busy.handle);
}

enum { THREADS = 8 };

static void *be_a_loader(void *argument)
{
    adloader_t *handle = argument;
    struct adloader_change change;

    assert_int_equal(adloader_loader_thread(handle, 1), 0);
    for (int i = 0; i < 200; i++) {
        (void)adloader_workers(handle, 1);
        (void)adloader_next_change(handle, &change);
        adloader_progress(handle, i, 0.0, 0.0);
    }
    assert_int_equal(adloader_loader_thread(handle, 0), 0);
    return NULL;
}

static void many_threads_share_a_handle(void **state)
{
    struct agent *agent = *state;
    adloader_t *handle = adloader_open();
    pthread_t threads[THREADS];
    unsigned on = 0, off = 0;
    struct said said;

    agent_accept(agent);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, be_a_loader, handle), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    adloader_close(handle);
    while (agent_hear(agent, &said, PATIENCE_MS)) {
        on += said.type == MSG_CLIENT_LOADER && said.loader.on;
        off += said.type == MSG_CLIENT_LOADER && !said.loader.on;
    }
    assert_int_equal(on, THREADS);
    assert_int_equal(off, THREADS);
}

enum { DESCRIPTORS = 256 };

static void note_open(bool open[DESCRIPTORS])
{
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void all_descriptors_are_closed_on_exec_and_at_the_end(void **state)
{
    bool before[DESCRIPTORS], during[DESCRIPTORS], after[DESCRIPTORS];
    adloader_t *handle;
    int opened = 0;

    (void)state;
    note_open(before);
    handle = adloader_open();
    note_open(during);
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        if (during[fd] && !before[fd]) {
            assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
            opened++;
        }
    }
    assert_true(opened >= 2); /* the descriptor to poll and the socket at least */
    adloader_close(handle);
    note_open(after);
    assert_memory_equal(before, after, sizeof before);
}

#define WITH_AGENT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_harmless_without_an_agent),
        cmocka_unit_test(a_null_handle_is_accepted),
        cmocka_unit_test(workers_come_from_the_environment),
        WITH_AGENT(a_thread_is_announced_and_a_change_heard),
        WITH_AGENT(a_change_read_by_another_call_is_not_lost),
        WITH_AGENT(only_the_newest_of_many_changes_counts),
        WITH_AGENT(a_call_hears_no_more_than_its_share),
        WITH_AGENT(progress_is_sent_at_most_ten_times_a_second),
        WITH_AGENT(a_lost_agent_is_found_again),
        WITH_AGENT(a_thread_that_ended_is_not_announced_again),
        WITH_AGENT(garbage_ends_the_connection_and_slows_attempts_down),
        WITH_AGENT(an_unknown_message_is_passed_over),
        WITH_AGENT(an_agent_that_does_not_read_holds_nobody_up),
        WITH_AGENT(an_agent_that_dies_while_bytes_wait_kills_nobody),
        WITH_AGENT(an_agent_that_does_not_accept_holds_nobody_up),
        WITH_AGENT(a_forked_child_speaks_for_itself),
        WITH_AGENT(a_fork_amid_calls_does_not_lock_the_child_out),
        WITH_AGENT(many_threads_share_a_handle),
        WITH_AGENT(all_descriptors_are_closed_on_exec_and_at_the_end),
    };

    return cmocka_run_group_tests_name("client library", tests, NULL, NULL);
}
