/* A real controller and agents played by the test. See fake_agents.h. */
#include "config.h"

#include "fake_agents.h"

#include "clock.h"
#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <munge.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the controller ------------------------------------------------------------------------ */

/* What the test does not say itself. */
static void put_default(FILE *f, const char *extra, const char *key, const char *value)
{
    if (strstr(extra, key) == NULL)
        (void)fprintf(f, "%s=%s\n", key, value);
}

void controller_write_conf(const struct controller *c, const char *extra)
{
    FILE *f = fopen(c->conf, "w");

    assert_non_null(f);
    (void)fputs(extra, f);
    put_default(f, extra, "ControllerSocket", c->socket);
    put_default(f, extra, "StateDir", c->state);
    put_default(f, extra, "PidFile", c->pid_file);
    put_default(f, extra, "ListenAddress", "none");
    put_default(f, extra, "LeaseTime", "3s");
    put_default(f, extra, "ReportInterval", "100ms");
    put_default(f, extra, "AckTimeout", "300ms");
    put_default(f, extra, "SettleTime", "200ms");
    put_default(f, extra, "LearnTime", "400ms");
    put_default(f, extra, "MinHoldTime", "200ms");
    put_default(f, extra, "SacctField", "none"); /* no Slurm here, and not the host's */
    assert_int_equal(fclose(f), 0);
}

void controller_prepare(struct controller *c, const char *extra)
{
    memset(c, 0, sizeof(*c));
    (void)snprintf(c->dir, sizeof(c->dir), "/tmp/adl-ctld-XXXXXX");
    assert_non_null(mkdtemp(c->dir));
    (void)snprintf(c->conf, sizeof(c->conf), "%s/conf", c->dir);
    (void)snprintf(c->socket, sizeof(c->socket), "%s/socket", c->dir);
    (void)snprintf(c->log, sizeof(c->log), "%s/log", c->dir);
    (void)snprintf(c->pid_file, sizeof(c->pid_file), "%s/pid", c->dir);
    (void)snprintf(c->state, sizeof(c->state), "%s/state", c->dir);
    controller_write_conf(c, extra);
}

unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static int connect_tcp(const struct controller *c)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)c->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int try_connect(const struct controller *c)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", c->socket);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* A copy of the one that runs, for the teardown after a failed test, whose own is gone then. */
static struct controller running;

int controller_teardown(void **state)
{
    (void)state;
    if (running.dir[0] != '\0')
        controller_discard(&running, true);
    return 0;
}

static void sleep_ms(unsigned ms)
{
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* The program under test; ADL_WRAP (say "valgrind -q") goes before it. */
static void exec_controller(const struct controller *c) __attribute__((noreturn));
static void exec_controller(const struct controller *c)
{
    const char *build = getenv("ADL_BUILDDIR");
    const char *wrap = getenv("ADL_WRAP");
    char command[1024];
    int log = open(c->log, O_WRONLY | O_CREAT | O_APPEND, 0644);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with the test, however that ends */
    if (log < 0 || dup2(log, 2) < 0 || dup2(log, 1) < 0)
        _exit(126);
    (void)snprintf(command, sizeof(command), "exec %s '%s/adloaderctld' -f -c '%s'",
                   wrap != NULL ? wrap : "", build != NULL ? build : ".", c->conf);
    (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

void controller_start(struct controller *c)
{
    int fd = -1;

    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0)
        exec_controller(c);
    for (int i = 0; i < 2000 && fd < 0; i++) {
        fd = try_connect(c);
        if (fd < 0)
            sleep_ms(5);
    }
    running = *c;
    assert_true(fd >= 0);
    (void)close(fd);
}

int controller_end(struct controller *c, int signal)
{
    int status = 0;

    assert_true(c->pid > 0);
    assert_int_equal(kill(c->pid, signal), 0);
    if (signal != SIGKILL)
        (void)kill(c->pid, SIGCONT);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    c->pid = running.pid = 0;
    return status;
}

/* Its last lines. */
static void show_file(const char *path)
{
    char command[256], line[512];
    FILE *f;

    (void)snprintf(command, sizeof(command), "tail -n 60 '%s'", path);
    f = popen(command, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        print_message("# %s", line);
    if (f != NULL)
        (void)pclose(f);
}

void controller_discard(struct controller *c, bool show)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", c->dir);
    if (c->pid > 0)
        (void)controller_end(c, SIGKILL);
    if (c->munged > 0) {
        (void)kill(c->munged, SIGKILL);
        (void)waitpid(c->munged, NULL, 0);
        c->munged = 0;
    }
    if (show)
        show_file(c->log);
    running.dir[0] = '\0';
    assert_int_equal(system(command), 0);
}

unsigned controller_log_count(const struct controller *c, const char *text)
{
    FILE *f = fopen(c->log, "r");
    char line[1024];
    unsigned count = 0;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        count += strstr(line, text) != NULL;
    if (f != NULL)
        (void)fclose(f);
    return count;
}

bool controller_logs(const struct controller *c, const char *text)
{
    for (int i = 0; i < 100; i++) {
        if (controller_log_count(c, text) > 0)
            return true;
        sleep_ms(10);
    }
    return false;
}

size_t controller_open_files(const struct controller *c)
{
    char path[64];
    size_t n = 0;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)c->pid);
    dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

/* ---- bytes --------------------------------------------------------------------------------- */

static bool send_all(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        at += n;
        length -= (size_t)n;
    }
    return true;
}

static char *credential_of(const struct controller *c, const void *frame, size_t length)
{
    munge_ctx_t ctx = munge_ctx_create();
    char *credential = NULL;

    assert_non_null(ctx);
    assert_int_equal(munge_ctx_set(ctx, MUNGE_OPT_SOCKET, c->munge_socket), EMUNGE_SUCCESS);
    assert_int_equal(munge_encode(&credential, ctx, frame, (int)length), EMUNGE_SUCCESS);
    munge_ctx_destroy(ctx);
    return credential;
}

void agent_send(const struct controller *c, struct agent *a, const void *frame, size_t length)
{
    struct wire_writer w = {0};
    char *credential;

    if (!a->tcp) {
        if (!send_all(a->fd, frame, length))
            a->ended = true;
        return;
    }
    credential = credential_of(c, frame, length);
    assert_int_equal(msg_credential_write(&w, credential), 0);
    if (!send_all(a->fd, w.data, w.length))
        a->ended = true;
    wire_writer_free(&w);
    free(credential);
}

static void send_writer(struct agent *a, struct wire_writer *w)
{
    if (!send_all(a->fd, w->data, w->length))
        a->ended = true;
    wire_writer_free(w);
}

/* False: nothing to read now, or the end. */
static bool receive(struct agent *a)
{
    ssize_t n;

    if (a->input_capacity - a->input_length < 65536) {
        a->input_capacity += 131072;
        a->input = realloc(a->input, a->input_capacity);
        assert_non_null(a->input);
    }
    n = recv(a->fd, a->input + a->input_length, a->input_capacity - a->input_length, MSG_DONTWAIT);
    if (n > 0) {
        a->input_length += (size_t)n;
        return true;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR))
        a->ended = true;
    return false;
}

/* ---- an agent ------------------------------------------------------------------------------ */

void agent_init(struct agent *a, uint32_t job, uint32_t step, const char *node, const char *own)
{
    memset(a, 0, sizeof(*a));
    a->job = job;
    a->step = step;
    a->uid = 1000 + job;
    a->tasks = 1;
    a->fd = -1;
    a->gpu_busy = NAN;
    a->hints.on = true;
    a->on_own = true;
    (void)snprintf(a->node, sizeof(a->node), "%s", node);
    (void)snprintf(a->own, sizeof(a->own), "%s", own);
    assert_int_equal(cpus_parse(&a->own_cpus, own), 0);
}

void agent_hang_up(struct agent *a)
{
    if (a->fd >= 0)
        (void)close(a->fd);
    a->fd = -1;
    a->input_length = 0;
    a->registered = false;
}

void agent_free(struct agent *a)
{
    agent_hang_up(a);
    cpus_free(&a->own_cpus);
    cpus_free(&a->loaders);
    free(a->input);
    a->input = NULL;
}

static void note_loans(struct agent *a, const struct msg_assign *assign)
{
    size_t length = 0;

    a->loans[0] = '\0';
    for (unsigned i = 0; i < assign->nloans && length < sizeof(a->loans); i++) {
        const struct msg_loan *loan = &assign->loans[i];
        char name[64];
        char *list = cpus_to_string(&loan->cpus);

        assert_true(msg_step_name(loan->job, loan->step, name, sizeof(name)) > 0);
        assert_non_null(list);
        length += (size_t)snprintf(a->loans + length, sizeof(a->loans) - length, "%s%s:%s",
                                   i > 0 ? " " : "", name, list);
        free(list);
    }
}

static void take_assign(struct agent *a, const struct wire_view *view)
{
    struct msg_assign assign;
    struct msg_ack ack = {.status = MSG_ACK_APPLIED};
    struct wire_writer w = {0};

    assert_int_equal(msg_assign_read(view, &assign), 0);
    assert_true(assign.seq > a->seq); /* numbers grow */
    a->assigns++;
    if (!a->mute) {
        a->seq = assign.seq;
        note_loans(a, &assign);
        if (a->apply != NULL) {
            ack.status = a->apply(a, &assign) ? MSG_ACK_APPLIED : MSG_ACK_PARTIAL;
        } else {
            a->on_own = assign.own;
            cpus_move(&a->loaders, &assign.cpus);
        }
        memcpy(a->state, assign.state, assign.state_length);
        a->state_length = assign.state_length;
        (void)snprintf(a->reason, sizeof(a->reason), "%s", assign.reason);
        ack.seq = assign.seq;
        ack.tasks = a->tasks_of_loader;
        assert_int_equal(msg_ack_write(&w, &ack), 0);
        send_writer(a, &w);
    }
    msg_assign_free(&assign);
}

static void take_frame(struct agent *a, const struct wire_view *view)
{
    switch (view->type) {
    case MSG_CHALLENGE:
        assert_int_equal(msg_challenge_read(view, &a->challenge), 0);
        break;
    case MSG_WELCOME:
        assert_int_equal(msg_welcome_read(view, &a->welcome), 0);
        a->registered = true;
        break;
    case MSG_ASSIGN:
        take_assign(a, view);
        break;
    case MSG_RENEW:
        a->renewals++;
        break;
    case MSG_REFUSE:
        assert_int_equal(msg_refuse_read(view, &a->refusal), 0);
        a->refused = true;
        break;
    default:
        fail_msg("the controller sent a message of type %u", view->type);
    }
}

/* True: at least one frame came. */
static bool take_frames(struct agent *a)
{
    bool any = false;

    while (receive(a))
        ;
    for (;;) {
        ssize_t length = wire_frame_length(a->input, a->input_length, WIRE_ANSWER_FRAME);
        struct wire_view view;

        assert_true(length >= 0);
        if (length == 0)
            return any;
        assert_int_equal(wire_open(&view, a->input, (size_t)length), 0);
        take_frame(a, &view);
        a->input_length -= (size_t)length;
        memmove(a->input, a->input + length, a->input_length);
        any = true;
    }
}

static bool step_once(struct agent *const *agents, size_t n, int timeout_ms)
{
    struct pollfd *p = calloc(n + 1, sizeof(*p));
    bool any = false;

    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        bool reads = agents[i]->fd >= 0 && !agents[i]->ended && !agents[i]->deaf;

        p[i].fd = reads ? agents[i]->fd : -1;
        p[i].events = POLLIN;
    }
    (void)poll(p, n, timeout_ms);
    for (size_t i = 0; i < n; i++) {
        if (p[i].fd < 0 || p[i].revents == 0)
            continue;
        any = take_frames(agents[i]) || any;
        agents_check_disjoint(agents, n);
    }
    free(p);
    return any;
}

bool agents_pump(struct agent *const *agents, size_t n, unsigned timeout_ms,
                 bool (*condition)(struct agent *const *agents, size_t n))
{
    uint64_t end = clock_monotonic_ms() + timeout_ms;

    for (;;) {
        uint64_t now = clock_monotonic_ms();

        if (condition != NULL && condition(agents, n))
            return true;
        (void)step_once(agents, n, now >= end ? 0 : (int)(end - now < 20 ? end - now : 20));
        if (now >= end)
            return condition != NULL && condition(agents, n);
    }
}

void agents_settle(struct agent *const *agents, size_t n)
{
    uint64_t quiet_since = clock_monotonic_ms(), begin = quiet_since;

    while (clock_monotonic_ms() - quiet_since < 150 && clock_monotonic_ms() - begin < 10000)
        if (step_once(agents, n, 20))
            quiet_since = clock_monotonic_ms();
}

static bool challenged_or_over(struct agent *const *agents, size_t n)
{
    (void)n;
    return agents[0]->challenge.server[0] != '\0' || agents[0]->ended || agents[0]->refused;
}

static bool answered(struct agent *const *agents, size_t n)
{
    (void)n;
    return agents[0]->registered || agents[0]->refused || agents[0]->ended;
}

void agent_connect(const struct controller *c, struct agent *a)
{
    struct agent *one[] = {a};

    for (int i = 0; i < 1000 && a->fd < 0; i++) {
        a->fd = a->tcp ? connect_tcp(c) : try_connect(c);
        if (a->fd < 0)
            sleep_ms(5);
    }
    assert_true(a->fd >= 0);
    a->registered = a->refused = a->ended = false;
    memset(&a->challenge, 0, sizeof(a->challenge));
    a->input_length = 0;
    (void)agents_pump(one, 1, 10000, challenged_or_over);
}

void agent_register(const struct controller *c, struct agent *a)
{
    struct agent *one[] = {a};
    struct wire_writer w = {0};
    struct msg_register r = {
        .job = a->job,
        .step = a->step,
        .uid = a->uid,
        .tasks = a->tasks,
        .restart = a->restart,
        .step_nodes = 1,
        .own = a->own_cpus,
        .held = a->loaders,
        .held_valid = a->seq > 0,
        .held_is_own = a->on_own,
        .held_seq = a->seq,
        .hints = a->hints,
        .age_ms = a->age_ms,
        .unconfined = a->unconfined,
        .state_length = a->state_length,
    };

    if (a->fd < 0)
        agent_connect(c, a);
    memcpy(r.nonce, a->challenge.nonce, sizeof(r.nonce));
    memcpy(r.state, a->state, a->state_length);
    (void)snprintf(r.agent, sizeof(r.agent), "test");
    (void)snprintf(r.topology_digest, sizeof(r.topology_digest), "%s", a->digest);
    (void)snprintf(r.node, sizeof(r.node), "%s", a->node);
    (void)snprintf(r.host, sizeof(r.host), "%s", a->node);
    assert_int_equal(msg_register_write(&w, &r), 0);
    agent_send(c, a, w.data, w.length);
    wire_writer_free(&w);
    assert_true(agents_pump(one, 1, 10000, answered));
}

void agent_send_topology(struct agent *a, const char *digest, const char *xml, size_t length)
{
    struct msg_topology t = {.xml = xml, .xml_length = length};
    struct wire_writer w = {0};

    (void)snprintf(t.digest, sizeof(t.digest), "%s", digest);
    assert_int_equal(msg_topology_write(&w, &t), 0);
    send_writer(a, &w);
}

void agent_report(struct agent *a, unsigned interval_ms)
{
    struct wire_writer w = {0};
    struct msg_report r = {
        .interval_ms = interval_ms,
        .tasks = a->tasks_of_loader,
        .workers = a->tasks_of_loader,
        .loader_cpu_s = a->use_cores * interval_ms / 1000,
        .queue_s = NAN,
        .gpu_busy = a->gpu_busy,
        .samples = NAN,
        .wait_s = NAN,
        .busy_s = NAN,
        .held_seq = a->seq,
        .held_is_own = a->on_own,
    };

    if (a->fd < 0 || a->ended)
        return;
    assert_int_equal(msg_report_write(&w, &r), 0);
    send_writer(a, &w);
}

void agent_goodbye(struct agent *a)
{
    struct wire_writer w = {0};
    struct msg_goodbye g = {.samples = NAN, .wait_s = NAN, .busy_s = NAN};

    cpus_clear_all(&a->loaders);
    a->on_own = true;
    cpus_clear_all(&a->own_cpus);
    assert_int_equal(msg_goodbye_write(&w, &g), 0);
    send_writer(a, &w);
    agent_hang_up(a);
}

void agents_run(struct agent *const *agents, size_t n, unsigned interval_ms, unsigned total_ms)
{
    for (unsigned t = 0; t < total_ms; t += interval_ms) {
        (void)agents_pump(agents, n, interval_ms, NULL);
        for (size_t i = 0; i < n; i++)
            agent_report(agents[i], interval_ms);
    }
    agents_settle(agents, n);
}

const char *agent_at(const struct agent *a, char *buf, size_t size)
{
    if (a->on_own)
        (void)snprintf(buf, size, "own");
    else
        (void)cpus_format(&a->loaders, buf, size);
    return buf;
}

void agents_check_disjoint(struct agent *const *agents, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (agents[i]->on_own)
            continue;
        for (long c = cpus_next(&agents[i]->loaders, 0); c >= 0;
             c = cpus_next(&agents[i]->loaders, (unsigned long)c + 1)) {
            if (cpus_isset(&agents[i]->own_cpus, (unsigned)c))
                continue;
            for (size_t k = 0; k < n; k++)
                if (k != i && strcmp(agents[k]->node, agents[i]->node) == 0 && !agents[k]->on_own &&
                    !cpus_isset(&agents[k]->own_cpus, (unsigned)c) &&
                    cpus_isset(&agents[k]->loaders, (unsigned)c))
                    fail_msg("CPU %ld of %s is lent to jobs %u and %u at once", c, agents[i]->node,
                             agents[i]->job, agents[k]->job);
        }
    }
}

/* ---- questions ----------------------------------------------------------------------------- */

static char *answer_text(const struct agent *a)
{
    struct wire_view view;
    struct msg_refuse refusal;
    const char *json;
    size_t length;
    char *text = NULL;
    ssize_t total = wire_frame_length(a->input, a->input_length, WIRE_ANSWER_FRAME);

    if (total <= 0)
        return NULL;
    assert_int_equal(wire_open(&view, a->input, (size_t)total), 0);
    if (view.type == MSG_REFUSE) {
        assert_int_equal(msg_refuse_read(&view, &refusal), 0);
        assert_true(asprintf(&text, "refused: %s", refusal.text) > 0);
        return text;
    }
    assert_int_equal(view.type, MSG_ANSWER);
    assert_int_equal(msg_answer_read(&view, &json, &length), 0);
    text = strndup(json, length);
    assert_non_null(text);
    return text;
}

static char *ask(const struct controller *c, const char *what, const char *job, bool tcp)
{
    struct msg_query q = {0};
    struct wire_writer w = {0};
    struct agent asker;
    char *text = NULL;

    agent_init(&asker, 1, 0, "-", "");
    asker.tcp = tcp;
    agent_connect(c, &asker);
    memcpy(q.nonce, asker.challenge.nonce, sizeof(q.nonce));
    (void)snprintf(q.what, sizeof(q.what), "%s", what);
    (void)snprintf(q.job, sizeof(q.job), "%s", job);
    assert_int_equal(msg_query_write(&w, &q), 0);
    agent_send(c, &asker, w.data, w.length);
    wire_writer_free(&w);
    for (int i = 0; i < 2000 && text == NULL; i++) {
        struct pollfd p = {asker.fd, POLLIN, 0};

        (void)poll(&p, 1, 10);
        while (receive(&asker))
            ;
        text = answer_text(&asker);
    }
    agent_free(&asker);
    assert_non_null(text);
    return text;
}

char *controller_ask(const struct controller *c, const char *what, const char *job)
{
    return ask(c, what, job, false);
}

char *controller_ask_tcp(const struct controller *c, const char *what, const char *job)
{
    return ask(c, what, job, true);
}

/* ---- munged ------------------------------------------------------------------------------------
 */

static void exec_munged(const struct controller *c) __attribute__((noreturn));
static void exec_munged(const struct controller *c)
{
    char command[1024];
    const char *d = c->dir;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* exec, so that the process to signal is munged itself */
    (void)snprintf(
        command, sizeof(command),
        "PATH=$PATH:/usr/sbin; exec munged -F -f -M --num-threads=2 -S '%s' --key-file='%s/key' "
        "--pid-file='%s/munged.pid' --log-file='%s/munged.log' --seed-file='%s/seed' "
        ">/dev/null 2>&1",
        c->munge_socket, d, d, d, d);
    (void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void write_key(const struct controller *c)
{
    char path[128], key[64];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/key", c->dir);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (char)(i * 37 + 11);
    assert_int_equal(write(fd, key, sizeof(key)), sizeof(key));
    (void)close(fd);
}

bool controller_start_munged(struct controller *c)
{
    int status;

    assert_int_equal(chmod(c->dir, 0755), 0);
    (void)snprintf(c->munge_socket, sizeof(c->munge_socket), "%s/munge", c->dir);
    write_key(c);
    c->munged = fork();
    assert_true(c->munged >= 0);
    if (c->munged == 0)
        exec_munged(c);
    running = *c;
    for (int i = 0; i < 500; i++) {
        if (access(c->munge_socket, F_OK) == 0)
            return true;
        if (waitpid(c->munged, &status, WNOHANG) == c->munged)
            break;
        sleep_ms(10);
    }
    c->munged = running.munged = 0;
    return false;
}
