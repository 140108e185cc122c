/* The controller as a whole: the real program, agents played by the test. */
#include "config.h"

#include "fake_agents.h"

#include "clock.h"
#include "rng.h"
#include "topo.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <json.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NO_MAIN "MainCoresPerTask=0\n"

static void assert_at(const struct agent *a, const char *expected)
{
    char buf[256];

    assert_string_equal(agent_at(a, buf, sizeof(buf)), expected);
}

/* A member whose loaders would take whatever they get. */
static void make_hungry(struct agent *a)
{
    a->tasks_of_loader = 16;
    a->use_cores = 0; /* set by use_all() */
}

static void use_all(struct agent *const *agents, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (agents[i]->tasks_of_loader > 0)
            agents[i]->use_cores = agents[i]->on_own || cpus_is_empty(&agents[i]->loaders)
                                       ? cpus_count(&agents[i]->own_cpus)
                                       : cpus_count(&agents[i]->loaders);
}

/* Reports in which hungry loaders use all they have. */
static void run_hungry(struct agent *const *agents, size_t n, unsigned total_ms)
{
    for (unsigned t = 0; t < total_ms; t += 100) {
        (void)agents_pump(agents, n, 100, NULL);
        use_all(agents, n);
        for (size_t i = 0; i < n; i++)
            agent_report(agents[i], 100);
    }
    agents_settle(agents, n);
}

static json_object *ask_json(const struct controller *c, const char *what, const char *job)
{
    char *text = controller_ask(c, what, job);
    json_object *root = json_tokener_parse(text);

    if (root == NULL)
        print_message("# %s\n", text);
    assert_non_null(root);
    free(text);
    return root;
}

static json_object *get(json_object *object, const char *key)
{
    json_object *value = NULL;

    if (!json_object_object_get_ex(object, key, &value))
        fail_msg("the answer has no %s", key);
    return value;
}

static json_object *member_of(json_object *root, const char *id)
{
    json_object *members = get(root, "members");

    for (size_t i = 0; i < json_object_array_length(members); i++) {
        json_object *m = json_object_array_get_idx(members, i);

        if (strcmp(json_object_get_string(get(m, "id")), id) == 0)
            return m;
    }
    fail_msg("%s is not in the answer", id);
    return NULL;
}

/* ---- the life of the program --------------------------------------------------------------- */

static void test_starts_and_ends(void **state)
{
    struct controller c;
    struct stat st;
    int status;

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    assert_int_equal(stat(c.socket, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    assert_int_equal(stat(c.pid_file, &st), 0);
    status = controller_end(&c, SIGTERM);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(stat(c.socket, &st), -1);
    assert_int_equal(stat(c.pid_file, &st), -1);
    controller_discard(&c, false);
}

static int run_program(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run_program(const char *format, ...)
{
    char arguments[256], command[768];
    va_list args;
    int status;

    va_start(args, format);
    (void)vsnprintf(arguments, sizeof(arguments), format, args);
    va_end(args);
    (void)snprintf(command, sizeof(command), "timeout 30 '%s/adloaderctld' %s >/dev/null 2>&1",
                   getenv("ADL_BUILDDIR") != NULL ? getenv("ADL_BUILDDIR") : ".", arguments);
    status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_options(void **state)
{
    struct controller c;

    (void)state;
    controller_prepare(&c, "");
    assert_int_equal(run_program("--version"), 0);
    assert_int_equal(run_program("--help"), 0);
    assert_int_equal(run_program("--nonsense"), 1);
    assert_int_equal(run_program("-f -c '%s' extra", c.conf), 1);
    assert_int_equal(run_program("--check-config -c '%s'", c.conf), 0);
    assert_int_equal(run_program("--show-config -c '%s'", c.conf), 0);
    assert_int_equal(run_program("--check-config -c /nonexistent"), 1);
    controller_write_conf(&c, "Policy=best\n");
    assert_int_equal(run_program("--check-config -c '%s'", c.conf), 1);
    assert_int_equal(run_program("-f -c '%s'", c.conf), 1);
    controller_discard(&c, false);
}

/* What --check-config prints with the lines, and its status. */
static int check(struct controller *c, const char *lines, char *text, size_t size)
{
    char command[768];
    FILE *f;
    size_t n;
    int status;

    controller_write_conf(c, lines);
    (void)snprintf(command, sizeof(command), "'%s/adloaderctld' --check-config -c '%s' 2>&1",
                   getenv("ADL_BUILDDIR") != NULL ? getenv("ADL_BUILDDIR") : ".", c->conf);
    f = popen(command, "r");
    assert_non_null(f);
    n = fread(text, 1, size - 1, f);
    text[n] = '\0';
    status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What this host and the others would make of a file that is well formed. */
static void test_check_config(void **state)
{
    static const struct {
        const char *lines, *words, *not_words;
        int status;
    } cases[] = {
        {"", "The configuration is good.", "MungeSocket", 0},
        {"ListenAddress=999.1.1.1\n", "ListenAddress=999.1.1.1 is not possible", "good", 1},
        {"ListenAddress=192.0.2.7\n", "ListenAddress=192.0.2.7 is no address of this host", "good",
         1},
        {"ListenAddress=no-such-host.invalid\n", "no-such-host.invalid is not to be found", "good",
         1},
        {"\nListenAddress=224.0.0.1\n", "/conf:2: ListenAddress=224.0.0.1 is not possible", "good",
         1},
        {"ListenAddress=ff02::1\n", "/conf:1: ListenAddress=ff02::1 is not possible", "good", 1},
        {"ListenAddress=0xe0000001\n", /* a name by its form, which stands for 224.0.0.1 */
         "/conf:1: ListenAddress=0xe0000001 is no address of this host", "good", 1},
        {"ListenAddress=127.255.255.255\n", /* a broadcast address of this host */
         "/conf:1: ListenAddress=127.255.255.255 is no address of this host", "good", 1},
        {"ListenAddress=127.0.0.1\n", "good", "no address of", 0},
        {"MungeSocket=/nonexist\n", "warning: MungeSocket=/nonexist: No such file", NULL, 0},
        {"MungeSocket=/dev/null\n", "warning: MungeSocket=/dev/null is no socket", NULL, 0},
        {"Controllers=localhost:7001,localhost:7002\nControllerPort=7001\nListenAddress=\n",
         "warning: Controllers lists localhost, which every host takes for itself", NULL, 0},
        {"Controllers=localhost\nListenAddress=\n", "good", "lists localhost", 0},
        {"PidFile=/nonexist/pid\n", "warning: PidFile=/nonexist/pid: its folder /nonexist", NULL,
         0},
        {"SlurmUser=no-such-user\n", "warning: SlurmUser=no-such-user is not known", NULL, 0},
    };
    struct controller c;
    char text[4096];

    (void)state;
    controller_prepare(&c, "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char lines[512];
        int status;

        (void)snprintf(lines, sizeof(lines), "%s", cases[i].lines);
        status = check(&c, lines, text, sizeof(text));
        if (status != cases[i].status || strstr(text, cases[i].words) == NULL ||
            (cases[i].not_words != NULL && strstr(text, cases[i].not_words) != NULL))
            fail_msg("%s: status %d and %s", cases[i].lines, status, text);
    }
    controller_discard(&c, false);
}

/* A path that is taken by something else is refused by the check and by the start, and what is
 * there stays. */
static void test_paths_in_use(void **state)
{
    static const struct {
        const char *key, *name, *words; /* NULL: nothing is wrong with it */
    } cases[] = {
        {"PidFile", "folder", "is a folder;"},
        {"PidFile", "letter", "holds something else than a process id;"},
        {"PidFile", "link", "is no ordinary file;"}, /* to one that is */
        {"PidFile", "number", NULL},
        {"PidFile", "empty", NULL},
        {"PidFile", "new", NULL},
        {"ControllerSocket", "folder", "is a folder;"},
        {"ControllerSocket", "letter", "is no socket;"},
        {"ControllerSocket", "empty", "is no socket;"},
        {"ControllerSocket", "new", NULL},
    };
    struct controller c;
    struct stat st;
    char command[512], text[4096];

    (void)state;
    controller_prepare(&c, "");
    (void)snprintf(
        command, sizeof(command),
        "cd '%s' && mkdir folder && echo 12 > number && : > empty && ln -s number link && "
        "printf 'dear 12\n' > letter",
        c.dir);
    assert_int_equal(system(command), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[256], expected[512];
        int status;

        (void)snprintf(line, sizeof(line), "\n%s=%s/%s\n", cases[i].key, c.dir, cases[i].name);
        (void)snprintf(expected, sizeof(expected), "%s:2: %s=%s/%s %s", c.conf, cases[i].key, c.dir,
                       cases[i].name, cases[i].words != NULL ? cases[i].words : "");
        status = check(&c, line, text, sizeof(text));
        if (cases[i].words == NULL) {
            if (status != 0)
                fail_msg("%s: status %d and %s", line, status, text);
            continue;
        }
        if (status != 1 || strstr(text, expected) == NULL)
            fail_msg("%s: status %d and %s, not %s", line, status, text, expected);
        assert_int_equal(run_program("-f -c '%s'", c.conf), 1);
    }
    (void)snprintf(command, sizeof(command),
                   "cd '%s' && rmdir folder && [ \"$(cat number letter)\" = \"$(echo 12; echo dear "
                   "12)\" ] && [ -L link ] && [ ! -s empty ]",
                   c.dir);
    assert_int_equal(system(command), 0);
    (void)snprintf(text, sizeof(text), "%s/new", c.dir);
    assert_int_equal(stat(text, &st), -1);
    controller_discard(&c, false);
}

static void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void assert_text(const char *path, const char *expected)
{
    char text[128] = "";
    FILE *f = fopen(path, "r");

    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    (void)fclose(f);
    assert_string_equal(text, expected);
}

/* The pid file is its controller's alone: one that was left over is taken, that of another which
 * runs is not, and what somebody puts there is neither written nor removed. */
static void test_pid_file(void **state)
{
    struct controller c, second;
    char ours[32], other[96];

    (void)state;
    controller_prepare(&c, "");
    put_text(c.pid_file, "2147483646\n");
    controller_start(&c);
    (void)snprintf(ours, sizeof(ours), "%ld\n", (long)c.pid);
    assert_text(c.pid_file, ours);

    second = c;
    (void)snprintf(second.conf, sizeof(second.conf), "%s/conf2", c.dir);
    (void)snprintf(second.socket, sizeof(second.socket), "%s/socket2", c.dir);
    controller_write_conf(&second, "");
    assert_int_equal(run_program("-f -c '%s'", second.conf), 1);
    assert_text(c.pid_file, ours);

    (void)snprintf(other, sizeof(other), "%s/other", c.dir);
    put_text(other, "dear diary\n");
    assert_int_equal(rename(other, c.pid_file), 0);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    assert_text(c.pid_file, "dear diary\n");
    assert_int_equal(run_program("-f -c '%s'", c.conf), 1);
    assert_text(c.pid_file, "dear diary\n");
    controller_discard(&c, false);
}

/* The starter returns when the daemon listens, or fails with it. */
static void test_daemon(void **state)
{
    struct controller c;
    char command[512];
    FILE *f;
    long pid = 0;

    (void)state;
    controller_prepare(&c, "");
    assert_int_equal(run_program("-c '%s'", c.conf), 0);
    f = fopen(c.pid_file, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &pid), 1);
    (void)fclose(f);
    assert_true(pid > 1);
    free(controller_ask(&c, "status", "")); /* it listens already */
    assert_int_equal(run_program("-c '%s'", c.conf), 1);
    assert_int_equal(kill((pid_t)pid, SIGTERM), 0);
    for (int i = 0; i < 400 && access(c.pid_file, F_OK) == 0; i++)
        (void)poll(NULL, 0, 10);
    assert_int_equal(access(c.pid_file, F_OK), -1);
    (void)snprintf(command, sizeof(command), "%s/no/such/folder/socket", c.dir);
    (void)snprintf(c.socket, sizeof(c.socket), "%.90s", command);
    controller_write_conf(&c, "");
    assert_int_equal(run_program("-c '%s'", c.conf), 1);
    controller_discard(&c, false);
}

static void test_stale_socket(void **state)
{
    struct controller c;
    struct stat st;

    (void)state;
    controller_prepare(&c, "PidFile=\n");
    controller_start(&c);
    assert_int_equal(run_program("-f -c '%s'", c.conf), 1); /* one is there and answers */
    (void)controller_end(&c, SIGKILL);
    assert_int_equal(stat(c.socket, &st), 0); /* left over */
    controller_start(&c);
    (void)controller_end(&c, SIGKILL);
    assert_int_equal(unlink(c.socket), 0);
    assert_int_equal(mkdir(c.socket, 0700), 0); /* not ours to remove */
    assert_int_equal(run_program("-f -c '%s'", c.conf), 1);
    assert_int_equal(stat(c.socket, &st), 0);
    controller_discard(&c, false);
}

/* systemd's side of READY=1 */
static void test_notify(void **state)
{
    struct controller c;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char text[256];
    ssize_t n;

    (void)state;
    controller_prepare(&c, "");
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", c.dir);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
    controller_start(&c);
    n = recv(fd, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "READY=1"));
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    n = recv(fd, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "RELOADING=1\nMONOTONIC_USEC="));
    n = recv(fd, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    (void)controller_end(&c, SIGTERM);
    n = recv(fd, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    assert_string_equal(text, "STOPPING=1");
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    (void)close(fd);
    controller_discard(&c, false);
}

/* ---- cores move ---------------------------------------------------------------------------- */

/* Two CPUs: a batch script that owns both, its steps A and B one each. */
static void test_two_steps(void **state)
{
    struct controller c;
    struct agent batch, a, b;
    struct agent *all[] = {&batch, &a, &b};

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&batch, 7, MSG_STEP_BATCH, "n1", "0-1");
    agent_init(&a, 7, 0, "n1", "0");
    agent_init(&b, 7, 1, "n1", "1");
    make_hungry(&a);
    make_hungry(&b);

    agent_register(&c, &batch);
    assert_true(batch.registered);
    agent_register(&c, &a);
    run_hungry(all, 2, 1500);
    assert_at(&a, "0-1");
    assert_at(&batch, "");

    agent_register(&c, &b);
    run_hungry(all, 3, 1000);
    assert_at(&a, "own");
    assert_at(&b, "own");

    agent_goodbye(&a);
    run_hungry(all, 3, 1000);
    assert_at(&b, "0-1");
    agent_goodbye(&b);
    agents_run(all, 1, 100, 600);
    assert_at(&batch, "own");
    agent_goodbye(&batch);
    assert_true(controller_logs(&c, "7.batch on n1 released"));
    for (int i = 0; i < 3; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Whatever a user says about his job: a neighbour who needs his own cores keeps them. */
static void test_hints_claim_nothing(void **state)
{
    struct controller c;
    struct agent modest, boaster;
    struct agent *all[] = {&modest, &boaster};

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&modest, 1, 0, "n1", "0-3");
    agent_init(&boaster, 2, 0, "n1", "4-7");
    boaster.hints.workers_min = boaster.hints.workers_max = HINTS_WORKERS_MAX;
    boaster.hints.batch = 1000000;
    boaster.hints.flops = 1e18;
    (void)snprintf(boaster.hints.model, sizeof(boaster.hints.model), "resnet50");
    make_hungry(&modest);
    make_hungry(&boaster);
    agent_register(&c, &modest);
    agent_register(&c, &boaster);
    run_hungry(all, 2, 2000);
    assert_at(&modest, "own");
    assert_at(&boaster, "own");
    agent_free(&modest);
    agent_free(&boaster);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* What the tool is told. */
static void test_status_and_explain(void **state)
{
    struct controller c;
    struct agent idle, hungry;
    struct agent *all[] = {&idle, &hungry};
    json_object *root, *m, *list;
    char *text;

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&idle, 1, 0, "n1", "0-3");
    agent_init(&hungry, 2, 0, "n1", "4-7");
    make_hungry(&hungry);
    agent_register(&c, &idle);
    agent_register(&c, &hungry);
    run_hungry(all, 2, 2500);

    root = ask_json(&c, "status", "");
    assert_string_equal(json_object_get_string(get(get(root, "controller"), "policy")), "gpu-busy");
    assert_int_equal(json_object_get_int(get(get(root, "controller"), "agents")), 2);
    list = get(root, "nodes");
    assert_int_equal(json_object_array_length(list), 1);
    m = json_object_array_get_idx(list, 0);
    assert_string_equal(json_object_get_string(get(m, "pool_cpus")), "0-7");
    assert_string_equal(json_object_get_string(get(m, "topology")), "flat");
    m = member_of(root, "2.0");
    assert_string_equal(json_object_get_string(get(m, "own_cpus")), "4-7");
    assert_string_equal(json_object_get_string(get(m, "state")), "managed");
    assert_int_equal(json_object_get_int(get(m, "own_loader_cores")), 4);
    assert_int_equal(json_object_get_int(get(m, "borrowed_cores")), 4);
    list = get(m, "borrowed_from");
    assert_int_equal(json_object_array_length(list), 1);
    assert_string_equal(json_object_get_string(get(json_object_array_get_idx(list, 0), "id")),
                        "1.0");
    m = member_of(root, "1.0");
    assert_int_equal(json_object_get_int(get(m, "lent_cores")), 4);
    json_object_put(root);

    root = ask_json(&c, "explain", "2");
    m = member_of(root, "2.0");
    assert_true(json_object_array_length(get(get(m, "curve"), "rate")) == 9);
    assert_true(json_object_array_length(get(m, "history")) >= 1);
    assert_non_null(strstr(json_object_get_string(get(m, "reason")), "borrows 4"));
    json_object_put(root);
    root = ask_json(&c, "explain", "2.0");
    assert_int_equal(json_object_array_length(get(root, "members")), 1);
    json_object_put(root);

    text = controller_ask(&c, "explain", "3");
    assert_string_equal(text, "refused: job 3 is not registered here");
    free(text);
    text = controller_ask(&c, "explain", "x");
    assert_non_null(strstr(text, "refused: 'x' is no job"));
    free(text);
    text = controller_ask(&c, "nonsense", "");
    assert_non_null(strstr(text, "refused: 'nonsense' cannot be asked"));
    free(text);
    root = ask_json(&c, "metrics", "");
    assert_non_null(
        strstr(json_object_get_string(get(root, "text")), "\nadloader_borrowed_cpus 4\n"));
    json_object_put(root);
    agent_free(&idle);
    agent_free(&hungry);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* A verdict makes the curve flat: it gets no cores for nothing, and explain says why. */
static bool shared_two_and_six(const struct agent *few, const struct agent *hungry)
{
    return cpus_count(&few->loaders) == 2 && cpus_count(&hungry->loaders) == 6;
}

static void test_verdict_bounds_curve(void **state)
{
    struct controller c;
    struct agent few, hungry;
    struct agent *all[] = {&few, &hungry};
    json_object *root, *curve, *rates;

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&few, 1, 0, "n1", "0-3");
    agent_init(&hungry, 2, 0, "n1", "4-7");
    few.tasks_of_loader = 2; /* that always have work, while a GPU waits */
    few.use_cores = 1.98;
    few.gpu_busy = 0.3;
    make_hungry(&hungry);
    agent_register(&c, &few);
    agent_register(&c, &hungry);
    for (int i = 0; i < 30 || (i < 300 && !shared_two_and_six(&few, &hungry)); i++) {
        (void)agents_pump(all, 2, 100, NULL);
        use_all(all + 1, 1);
        agent_report(&few, 1000); /* time passes quickly */
        agent_report(&hungry, 100);
    }
    agents_settle(all, 2);

    root = ask_json(&c, "explain", "1.0");
    curve = get(member_of(root, "1.0"), "curve");
    assert_string_equal(json_object_get_string(get(member_of(root, "1.0"), "verdict")),
                        "worker-limited");
    assert_int_equal(json_object_get_int(get(curve, "flat_from_cores")), 2);
    assert_string_equal(json_object_get_string(get(curve, "flat_because")), "workers");
    rates = get(curve, "rate");
    for (size_t n = 3; n < json_object_array_length(rates); n++) {
        double rate = json_object_get_double(json_object_array_get_idx(rates, n));
        assert_true(rate == json_object_get_double(json_object_array_get_idx(rates, 2)));
        assert_string_equal(
            json_object_get_string(json_object_array_get_idx(get(curve, "limit"), n)), "workers");
    }
    assert_int_equal(json_object_get_int(get(member_of(root, "1.0"), "loader_cores")), 2);
    json_object_put(root);
    root = ask_json(&c, "explain", "2.0");
    assert_true(json_object_is_type(get(get(member_of(root, "2.0"), "curve"), "flat_from_cores"),
                                    json_type_null));
    assert_int_equal(json_object_get_int(get(member_of(root, "2.0"), "loader_cores")), 6);
    json_object_put(root);
    agent_free(&few);
    agent_free(&hungry);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* The new holder gets a core only after the old one said that it left. */
static void test_ack_order(void **state)
{
    struct controller c;
    struct agent batch, a, b;
    struct agent *all[] = {&batch, &a, &b};

    (void)state;
    controller_prepare(&c, NO_MAIN "AckTimeout=2s\n");
    controller_start(&c);
    agent_init(&batch, 7, MSG_STEP_BATCH, "n1", "0-3");
    agent_init(&a, 7, 0, "n1", "0-1");
    make_hungry(&a);
    agent_register(&c, &batch);
    agent_register(&c, &a);
    run_hungry(all, 2, 1500);
    assert_at(&a, "0-3");
    /* B owns 2-3, which A still holds and, deaf, does not leave. */
    a.deaf = true;
    agent_init(&b, 7, 1, "n1", "2-3");
    agent_register(&c, &b);
    (void)agents_pump(all, 3, 600, NULL);
    assert_false(b.on_own);
    assert_int_equal(cpus_count(&b.loaders), 0);
    a.deaf = false;
    (void)agents_pump(all, 3, 600, NULL);
    assert_at(&a, "own");
    assert_at(&b, "own");
    for (int i = 0; i < 3; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

static bool has_own_cores(const struct agent *a)
{
    return a->on_own || cpus_is_subset(&a->own_cpus, &a->loaders);
}

/* A member that never confirms does not keep the owner from its cores, nor its place for ever. */
static void test_mute_member(void **state)
{
    struct controller c;
    struct agent lender, mute;
    struct agent *all[] = {&lender, &mute};

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&lender, 1, 0, "n1", "0-3");
    agent_init(&mute, 2, 0, "n1", "4-7");
    make_hungry(&mute);
    agent_register(&c, &lender);
    agent_register(&c, &mute);
    run_hungry(all, 2, 2000);
    assert_at(&mute, "0-7");
    mute.mute = true;
    make_hungry(&lender); /* its loaders wake up: it wants its own back */
    for (int i = 0; i < 50 && !has_own_cores(&lender); i++)
        run_hungry(all, 2, 100);
    assert_true(has_own_cores(&lender));
    assert_false(mute.ended); /* it was not waited for */
    assert_true(controller_logs(&c, "2.0 on n1 has not confirmed its cores"));
    for (int i = 0; i < 50 && !mute.ended; i++)
        run_hungry(all, 2, 100);
    assert_true(mute.ended);
    assert_true(controller_logs(&c, "its connection is given up"));
    run_hungry(all, 2, 500);
    assert_at(&lender, "own");
    agent_free(&lender);
    agent_free(&mute);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* The lender's connection breaks: its cores are out of the pool at once. */
static void test_lost_lender(void **state)
{
    struct controller c;
    struct agent lender, borrower;
    struct agent *all[] = {&borrower, &lender};
    uint64_t begin;

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&lender, 1, 0, "n1", "0-3");
    agent_init(&borrower, 2, 0, "n1", "4-7");
    make_hungry(&borrower);
    agent_register(&c, &lender);
    agent_register(&c, &borrower);
    run_hungry(all, 2, 2000);
    assert_at(&borrower, "0-7");
    agent_hang_up(&lender);
    begin = clock_monotonic_ms();
    while (!borrower.on_own && clock_monotonic_ms() - begin < 2000)
        (void)agents_pump(all, 1, 10, NULL);
    assert_at(&borrower, "own");
    assert_true(clock_monotonic_ms() - begin < 1000);
    assert_true(controller_logs(&c, "1.0 on n1: connection lost"));
    agent_free(&lender);
    agent_free(&borrower);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* A lost borrower may still be on what it borrowed: the owner has it at once, others wait. */
static void test_lost_borrower(void **state)
{
    struct controller c;
    struct agent lender, lost, third;
    struct agent *all[] = {&lender, &third, &lost};

    (void)state;
    controller_prepare(&c, NO_MAIN "LeaseTime=1500ms\n");
    controller_start(&c);
    agent_init(&lender, 1, 0, "n1", "0-3");
    agent_init(&lost, 2, 0, "n1", "4-7");
    agent_init(&third, 3, 0, "n1", "8-9");
    make_hungry(&lost);
    agent_register(&c, &lender);
    agent_register(&c, &lost);
    run_hungry(all, 3, 2000);
    assert_at(&lost, "0-7");
    agent_hang_up(&lost); /* keeps 0-7 in our bookkeeping: nobody else may get 0-3 */
    agent_register(&c, &third);
    make_hungry(&third);
    run_hungry(all, 2, 1000); /* checks at each step */
    cpus_clear_all(&lost.loaders);
    run_hungry(all, 2, 4000);
    assert_at(&third, "0-3,8-9");
    for (int i = 0; i < 3; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

static int moves_of(const struct controller *c, const char *id)
{
    json_object *root = ask_json(c, "status", "");
    int moves = json_object_get_int(get(member_of(root, id), "moves"));

    json_object_put(root);
    return moves;
}

/* gpu_busy NAN: nothing is known of their GPUs. */
static void play_equals(double gpu_busy)
{
    struct controller c;
    struct agent a, b;
    struct agent *all[] = {&a, &b};
    struct rng rng = {11};

    controller_prepare(&c, NO_MAIN "MinHoldTime=0s\nNodeName=n1 PoolCores=8\n");
    controller_start(&c);
    agent_init(&a, 1, 0, "n1", "0-3");
    agent_init(&b, 2, 0, "n1", "4-7");
    make_hungry(&a);
    make_hungry(&b);
    agent_register(&c, &a);
    agent_register(&c, &b);
    for (unsigned t = 0; t < 50; t++) {
        (void)agents_pump(all, 2, 100, NULL);
        use_all(all, 2);
        for (unsigned i = 0; i < 2; i++) {
            all[i]->use_cores *= 1 - rng_below(&rng, 10) / 100.0;
            all[i]->gpu_busy = gpu_busy * (1 - rng_below(&rng, 20) / 100.0);
            agent_report(all[i], 100);
        }
    }
    agents_settle(all, 2);
    assert_in_range(moves_of(&c, "1.0") + moves_of(&c, "2.0"), 1, 2);
    agent_free(&a);
    agent_free(&b);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Two equal jobs and a core too many: whoever has it keeps it, whatever the noise. */
static void test_no_ping_pong(void **state)
{
    (void)state;
    play_equals(NAN);
    play_equals(0.6);
}

/* ---- restart, reload ----------------------------------------------------------------------- */

#define MANY 8

static void connect_all(const struct controller *c, struct agent *agents, struct agent **all)
{
    for (unsigned i = 0; i < MANY; i++) {
        char node[16], own[16];

        (void)snprintf(node, sizeof(node), "n%u", i % 2);
        (void)snprintf(own, sizeof(own), "%u-%u", i / 2 * 4, i / 2 * 4 + 3);
        agent_init(&agents[i], 100 + i, 0, node, own);
        if (i % 3 != 0)
            make_hungry(&agents[i]);
        agent_register(c, &agents[i]);
        all[i] = &agents[i];
    }
}

static void test_restart_moves_nothing(void **state)
{
    struct controller c;
    struct agent agents[MANY], *all[MANY];
    char before[MANY][64], after[64];
    unsigned assigned = 0;

    (void)state;
    controller_prepare(&c, "SettleTime=2s\nReportInterval=1s\n"); /* all come back in that */
    controller_start(&c);
    connect_all(&c, agents, all);
    run_hungry(all, MANY, 4000);
    for (unsigned i = 0; i < MANY; i++) {
        (void)agent_at(all[i], before[i], sizeof(before[i]));
        assigned += !agents[i].on_own;
    }
    assert_true(assigned >= 4); /* or there would be nothing to keep */
    (void)controller_end(&c, SIGKILL);
    for (unsigned i = 0; i < MANY; i++)
        agent_hang_up(all[i]);
    controller_start(&c);
    for (unsigned i = MANY; i-- > 0;) { /* in another order than before */
        agents[i].age_ms = 60000;
        agent_register(&c, all[i]);
        assert_true(agents[i].registered);
    }
    for (unsigned t = 0; t < 16; t++) { /* at no time anything else */
        run_hungry(all, MANY, 100);
        for (unsigned i = 0; i < MANY; i++)
            assert_string_equal(agent_at(all[i], after, sizeof(after)), before[i]);
    }
    for (unsigned i = 0; i < MANY; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

static void test_reload(void **state)
{
    struct controller c;
    struct agent lender, borrower;
    struct agent *all[] = {&lender, &borrower};
    json_object *root;

    (void)state;
    controller_prepare(&c, NO_MAIN);
    controller_start(&c);
    agent_init(&lender, 1, 0, "n1", "0-3");
    agent_init(&borrower, 2, 0, "n1", "4-7");
    make_hungry(&borrower);
    agent_register(&c, &lender);
    agent_register(&c, &borrower);
    run_hungry(all, 2, 2000);
    assert_at(&borrower, "0-7");

    controller_write_conf(&c, NO_MAIN "Policy=static\nMinGain=7\n"); /* not possible */
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    run_hungry(all, 2, 500);
    assert_true(controller_logs(&c, "the new configuration is refused"));
    assert_at(&borrower, "0-7");

    controller_write_conf(&c, NO_MAIN "Policy=static\n");
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    run_hungry(all, 2, 500);
    assert_at(&borrower, "own");
    assert_at(&lender, "own");
    root = ask_json(&c, "status", "");
    assert_string_equal(json_object_get_string(get(get(root, "controller"), "policy")), "static");
    json_object_put(root);

    controller_write_conf(&c, NO_MAIN "NodeName=n1 ReservedCores=0 PoolCores=9\n");
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    run_hungry(all, 2, 1500);
    assert_at(&borrower, "1-7,9");
    assert_false(lender.ended || borrower.ended);
    agent_free(&lender);
    agent_free(&borrower);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Whose cores are borrowed is said with them; those of the pool are nobody's. */
static void test_loans_are_named(void **state)
{
    struct controller c;
    struct agent a, b, borrower;
    struct agent *all[] = {&borrower, &a, &b};

    (void)state;
    controller_prepare(&c, NO_MAIN "NodeName=n1 PoolCores=9\n");
    controller_start(&c);
    agent_init(&a, 1, 0, "n1", "0-1");
    agent_init(&b, 1, MSG_STEP_BATCH, "n1", "0-3");
    agent_init(&borrower, 2, 3, "n1", "4-5");
    make_hungry(&borrower);
    for (int i = 2; i >= 0; i--)
        agent_register(&c, all[i]);
    run_hungry(all, 3, 2500);
    assert_at(&borrower, "0-5,9");
    assert_string_equal(borrower.loans, "1.0:0-1 1.batch:2-3");
    assert_string_equal(a.loans, "");
    agent_goodbye(&a);
    run_hungry(all, 3, 1000);
    assert_at(&borrower, "0-5,9");
    assert_string_equal(borrower.loans, "1.batch:0-3"); /* the script's again */
    agent_goodbye(&b);
    run_hungry(all, 1, 1000);
    assert_at(&borrower, "4-5,9");
    assert_string_equal(borrower.loans, "");
    for (int i = 0; i < 3; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Scope=job: steps of one job use each other's cores, and nobody else's. */
static void test_scope(void **state)
{
    struct controller c;
    struct agent idle, a, b, other;
    struct agent *all[] = {&idle, &a, &b, &other};

    (void)state;
    controller_prepare(&c, NO_MAIN "Scope=job\nNodeName=n1 PoolCores=9\n");
    controller_start(&c);
    agent_init(&idle, 1, 0, "n1", "0-3");
    agent_init(&a, 2, 0, "n1", "4-5");
    agent_init(&b, 2, 1, "n1", "6-7");
    agent_init(&other, 3, 0, "n1", "8");
    make_hungry(&a);
    make_hungry(&other);
    for (int i = 0; i < 4; i++)
        agent_register(&c, all[i]);
    run_hungry(all, 4, 2000);
    assert_at(&idle, "own");
    assert_at(&a, "4-7");
    assert_string_equal(a.loans, "2.1:6-7");
    assert_at(&b, "");
    assert_at(&other, "own");

    controller_write_conf(&c, NO_MAIN "Scope=node\n");
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    run_hungry(all, 4, 2500);
    assert_at(&idle, "");
    assert_int_equal(cpus_count(&a.loaders) + cpus_count(&other.loaders), 9);

    controller_write_conf(&c, NO_MAIN "Scope=job\n");
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    run_hungry(all, 4, 1500);
    assert_at(&idle, "own");
    assert_at(&a, "4-7");
    assert_at(&other, "own");
    for (int i = 0; i < 4; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* ---- hostile and broken peers -------------------------------------------------------------- */

static void test_refusals(void **state)
{
    struct controller c;
    struct agent a;

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    agent_init(&a, 5, 0, "n1", "0-3");
    agent_connect(&c, &a);
    a.challenge.nonce[3] ^= 1; /* an answer to another challenge */
    agent_register(&c, &a);
    assert_true(a.refused);
    assert_int_equal(a.refusal.code, MSG_REFUSED_DENIED);
    agent_free(&a);

    agent_init(&a, 5, MSG_STEP_EXTERN, "n1", "0-3");
    agent_register(&c, &a);
    assert_int_equal(a.refusal.code, MSG_REFUSED_INVALID);
    agent_free(&a);

    agent_init(&a, 5, 0, "n1", "");
    agent_register(&c, &a);
    assert_int_equal(a.refusal.code, MSG_REFUSED_INVALID);
    agent_free(&a);

    agent_init(&a, 5, 0, "n1", "0-3");
    a.hints.on = false;
    agent_register(&c, &a);
    assert_int_equal(a.refusal.code, MSG_REFUSED_OFF);
    agent_free(&a);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Only root and SlurmUser may speak for steps; anybody may ask. */
static void test_other_users(void **state)
{
    struct controller c;
    struct agent a;
    char *text;

    (void)state;
    if (geteuid() != 0)
        skip();
    controller_prepare(&c, "SlurmUser=\n");
    controller_start(&c);
    assert_int_equal(chmod(c.dir, 0755), 0);
    assert_int_equal(seteuid(65534), 0);
    agent_init(&a, 5, 0, "n1", "0-3");
    agent_register(&c, &a);
    text = controller_ask(&c, "status", "");
    assert_int_equal(seteuid(0), 0);
    assert_true(a.refused);
    assert_int_equal(a.refusal.code, MSG_REFUSED_DENIED);
    assert_non_null(strstr(text, "\"members\":[]"));
    free(text);
    agent_free(&a);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

static void test_replaced(void **state)
{
    struct controller c;
    struct agent first, second, older;
    struct agent *both[] = {&first, &second};

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    agent_init(&first, 5, 0, "n1", "0-3");
    agent_init(&second, 5, 0, "n1", "0-3");
    agent_init(&older, 5, 0, "n1", "0-3");
    first.restart = second.restart = 2;
    older.restart = 1;
    agent_register(&c, &first);
    agent_register(&c, &second);
    agents_settle(both, 2);
    assert_true(first.refused && second.registered);
    assert_int_equal(first.refusal.code, MSG_REFUSED_REPLACED);
    agent_register(&c, &older);
    assert_true(older.refused);
    agents_settle(both, 2);
    assert_false(second.ended);
    agent_free(&first);
    agent_free(&second);
    agent_free(&older);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Each of these ends that one connection, with a reason or without, and nothing else. */
static void test_garbage(void **state)
{
    static const struct {
        const char *what;
        unsigned char bytes[24];
        size_t length;
        bool hang_up; /* in the middle */
    } cases[] = {
        {"text", "GET / HTTP/1.1\r\n\r\n", 18, false},
        {"zeroes", {0}, 16, false},
        {"all ones", {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9, false},
        {"other version", {0, 0, 0, 4, 9, 3, 0, 0}, 8, false},
        {"reserved bits", {0, 0, 0, 4, 1, 3, 0, 1}, 8, false},
        {"too long", {0x7f, 0, 0, 0, 1, 3, 0, 0}, 8, false},
        {"large topology unasked", {0, 0x20, 0, 0, 1, 5, 0, 0}, 8, false},
        {"empty registration", {0, 0, 0, 4, 1, 3, 0, 0}, 8, false},
        {"type of a server", {0, 0, 0, 4, 1, 4, 0, 0}, 8, false},
        {"credential on this socket", {0, 0, 0, 4, 1, 2, 0, 0}, 8, false},
        {"field beyond the end",
         {0, 0, 0, 12, 1, 3, 0, 0, 0, 1, 0, 4, 0, 0, 0xff, 0xff},
         16,
         false},
        {"half a frame", {0, 0, 0, 99, 1, 3, 0, 0, 1, 2, 3}, 11, true},
        {"half a head", {0, 0}, 2, true},
        {"nothing", {0}, 0, true},
    };
    struct controller c;
    size_t files;

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    free(controller_ask(&c, "status", ""));
    files = controller_open_files(&c);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent a;
        struct agent *one[] = {&a};
        uint64_t begin = clock_monotonic_ms();

        agent_init(&a, 1, 0, "n1", "0");
        agent_connect(&c, &a);
        assert_int_equal(send(a.fd, cases[i].bytes, cases[i].length, MSG_NOSIGNAL),
                         cases[i].length);
        while (!cases[i].hang_up && !a.ended && clock_monotonic_ms() - begin < 3000)
            (void)agents_pump(one, 1, 10, NULL);
        if (!cases[i].hang_up && !(a.ended && a.refused))
            fail_msg("%s: neither refused nor closed", cases[i].what);
        agent_free(&a);
    }
    for (int i = 0; i < 200 && controller_open_files(&c) > files; i++)
        (void)poll(NULL, 0, 10);
    assert_true(controller_open_files(&c) <= files);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* An agent that talks without end and never listens is dropped before it costs memory. */
static void test_deaf_agent(void **state)
{
    struct controller c;
    struct agent a;
    uint64_t begin = clock_monotonic_ms();

    (void)state;
    controller_prepare(&c, "LeaseTime=60s\n");
    controller_start(&c);
    agent_init(&a, 1, 0, "n1", "0-3");
    agent_register(&c, &a);
    while (!a.ended && clock_monotonic_ms() - begin < 30000)
        agent_report(&a, 100);
    assert_true(a.ended);
    assert_true(controller_logs(&c, "does not read what it is sent"));
    agent_free(&a);
    free(controller_ask(&c, "status", ""));
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Those who ask for everything again and again, and hang up in between, keep nobody waiting. */
static void test_many_questions(void **state)
{
    enum { ASKERS = 60 };
    struct controller c;
    struct agent a, askers[ASKERS];
    struct agent *one[] = {&a};
    struct msg_query q = {.what = "status"};

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    agent_init(&a, 1, 0, "n1", "0-3");
    agent_register(&c, &a);
    for (unsigned i = 0; i < ASKERS; i++) {
        struct wire_writer w = {0};

        agent_init(&askers[i], 1, 0, "-", "");
        agent_connect(&c, &askers[i]);
        memcpy(q.nonce, askers[i].challenge.nonce, sizeof(q.nonce));
        assert_int_equal(msg_query_write(&w, &q), 0);
        agent_send(&c, &askers[i], w.data, w.length);
        wire_writer_free(&w);
        if (i % 3 == 0)
            agent_hang_up(&askers[i]);
    }
    agents_run(one, 1, 100, 500);
    assert_true(a.renewals >= 4 && !a.ended);
    for (unsigned i = 0; i < ASKERS; i++)
        agent_free(&askers[i]);
    free(controller_ask(&c, "status", ""));
    agent_free(&a);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* A registered agent that sends what it should not. */
static void test_garbage_from_agent(void **state)
{
    struct controller c;
    struct agent a;
    struct agent *one[] = {&a};
    static const unsigned char frame[] = {0, 0, 0, 4, 1, 3, 0, 0}; /* a second registration */

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    agent_init(&a, 1, 0, "n1", "0-3");
    agent_register(&c, &a);
    assert_int_equal(send(a.fd, frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
    agents_settle(one, 1);
    assert_true(a.refused && a.ended);
    assert_int_equal(a.refusal.code, MSG_REFUSED_INVALID);
    agent_free(&a);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Those who say nothing are dropped: strangers after a fixed time, agents after their lease. */
static void test_silent_peers(void **state)
{
    struct controller c;
    struct agent stranger, agent;
    struct agent *all[] = {&agent, &stranger};
    uint64_t begin, agent_ms = 0, stranger_ms = 0;

    (void)state;
    controller_prepare(&c, "LeaseTime=1s\n");
    controller_start(&c);
    agent_init(&stranger, 1, 0, "n1", "0");
    agent_init(&agent, 1, 0, "n1", "0-3");
    agent_connect(&c, &stranger);
    agent_register(&c, &agent);
    begin = clock_monotonic_ms();
    while ((agent_ms == 0 || stranger_ms == 0) && clock_monotonic_ms() - begin < 10000) {
        (void)agents_pump(all, 2, 20, NULL);
        if (agent.ended && agent_ms == 0)
            agent_ms = clock_monotonic_ms() - begin;
        if (stranger.ended && stranger_ms == 0)
            stranger_ms = clock_monotonic_ms() - begin;
    }
    assert_true(agent_ms >= 900 && agent_ms <= 3000);
    assert_true(stranger_ms >= 4000);
    agent_free(&stranger);
    agent_free(&agent);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* Many connections, of agents and of peers that only sit there. */
static void test_many_connections(void **state)
{
    enum { AGENTS = 500, SITTERS = 300 };
    struct controller c;
    static struct agent agents[AGENTS], sitters[SITTERS];
    struct agent *all[AGENTS];
    json_object *root;

    (void)state;
    controller_prepare(&c, "AckTimeout=30s\nLeaseTime=60s\n"); /* none is served meanwhile */
    controller_start(&c);
    for (unsigned i = 0; i < SITTERS; i++) {
        agent_init(&sitters[i], 1, 0, "n", "0");
        agent_connect(&c, &sitters[i]);
    }
    for (unsigned i = 0; i < AGENTS; i++) {
        char node[16], own[16];

        (void)snprintf(node, sizeof(node), "n%u", i / 10);
        (void)snprintf(own, sizeof(own), "%u-%u", i % 10 * 4, i % 10 * 4 + 3);
        agent_init(&agents[i], 1000 + i, 0, node, own);
        agent_register(&c, &agents[i]);
        assert_true(agents[i].registered);
        all[i] = &agents[i];
    }
    agents_run(all, AGENTS, 100, 300);
    root = ask_json(&c, "status", "");
    assert_int_equal(json_object_get_int(get(get(root, "controller"), "agents")), AGENTS);
    assert_int_equal(json_object_get_int(get(get(root, "controller"), "nodes")), AGENTS / 10);
    assert_int_equal(json_object_array_length(get(root, "members")), AGENTS);
    json_object_put(root);
    for (unsigned i = 0; i < AGENTS; i++)
        agent_goodbye(all[i]);
    for (int i = 0; i < 100; i++) {
        root = ask_json(&c, "status", "");
        if (json_object_get_int(get(get(root, "controller"), "agents")) == 0)
            break;
        json_object_put(root);
        root = NULL;
    }
    assert_non_null(root);
    assert_int_equal(json_object_get_int(get(get(root, "controller"), "nodes")), 0);
    json_object_put(root);
    for (unsigned i = 0; i < AGENTS; i++)
        agent_free(&agents[i]);
    for (unsigned i = 0; i < SITTERS; i++)
        agent_free(&sitters[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* ---- topologies --------------------------------------------------------------------------------
 */

/* "known" or "flat" */
static const char *topology_of(const struct controller *c, char *buf, size_t size)
{
    json_object *root = ask_json(c, "status", "");
    json_object *node = json_object_array_get_idx(get(root, "nodes"), 0);

    (void)snprintf(buf, size, "%s", json_object_get_string(get(node, "topology")));
    json_object_put(root);
    return buf;
}

static bool becomes_known(const struct controller *c)
{
    char buf[16];

    for (int i = 0; i < 300; i++) {
        if (strcmp(topology_of(c, buf, sizeof(buf)), "known") == 0)
            return true;
        (void)poll(NULL, 0, 20);
    }
    return false;
}

static void with_digest(struct agent *a, uint32_t job, const char *node, const char *digest)
{
    agent_init(a, job, 0, node, "0");
    (void)snprintf(a->digest, sizeof(a->digest), "%s", digest);
}

/* Asked for once, kept over a restart. */
static void test_topology(void **state)
{
    struct controller c;
    struct agent first, second;
    char digest[TOPO_DIGEST_MAX], error[256] = "";
    size_t length = 0;
    char *xml = topo_export_this_machine(&length, error, sizeof(error));

    (void)state;
    assert_non_null(xml);
    topo_digest(xml, length, digest);
    controller_prepare(&c, "");
    controller_start(&c);
    with_digest(&first, 1, "n1", digest);
    with_digest(&second, 2, "n1", digest);
    agent_register(&c, &first);
    agent_register(&c, &second);
    assert_true(first.welcome.topology_wanted);
    assert_false(second.welcome.topology_wanted); /* one is enough */
    agent_send_topology(&first, digest, xml, length);
    assert_true(becomes_known(&c));
    (void)controller_end(&c, SIGKILL);
    agent_hang_up(&first);
    agent_hang_up(&second);
    controller_start(&c);
    agent_register(&c, &second);
    assert_false(second.welcome.topology_wanted);
    assert_true(becomes_known(&c));
    agent_free(&first);
    agent_free(&second);
    free(xml);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* What is not the topology that was announced, or none at all, changes nothing. */
static void test_bad_topology(void **state)
{
    static const char doctype[] = "<?xml version=\"1.0\"?>\n"
                                  "<!DOCTYPE topology SYSTEM \"/etc/passwd\">\n<topology/>";
    static const char *const texts[] = {"<topology>", "", doctype};
    struct controller c;
    struct agent a;
    struct agent *one[] = {&a};
    char digest[TOPO_DIGEST_MAX], buf[16], path[200];
    FILE *f;

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    for (unsigned i = 0; i < 3; i++) {
        if (texts[i][0] == '\0')
            (void)snprintf(digest, sizeof(digest), "%032x", 7u); /* not its digest */
        else
            topo_digest(texts[i], strlen(texts[i]), digest);
        with_digest(&a, 1 + i, "n1", digest);
        agent_register(&c, &a);
        assert_true(a.welcome.topology_wanted);
        agent_send_topology(&a, digest, texts[i][0] == '\0' ? "else" : texts[i],
                            texts[i][0] == '\0' ? 4 : strlen(texts[i]));
        assert_true(controller_logs(&c, digest));
        agents_run(one, 1, 100, 300);
        assert_false(a.ended || a.refused);
        assert_string_equal(topology_of(&c, buf, sizeof(buf)), "flat");
        agent_goodbye(&a);
        agent_free(&a);
    }
    /* A damaged file is not used, and goes; next time somebody is asked. */
    (void)snprintf(digest, sizeof(digest), "%032x", 9u);
    (void)snprintf(path, sizeof(path), "%s/topologies/%s.xml", c.state, digest);
    f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs("<topology/>", f);
    (void)fclose(f);
    with_digest(&a, 9, "n1", digest);
    agent_register(&c, &a);
    assert_false(a.welcome.topology_wanted);
    assert_true(controller_logs(&c, digest));
    assert_int_equal(access(path, F_OK), -1);
    agent_send_topology(&a, digest, "<topology/>", 11); /* not asked for */
    agents_settle(one, 1);
    assert_true(a.refused && a.ended);
    agent_free(&a);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* ---- warnings ------------------------------------------------------------------------------- */

static void reload(struct controller *c, unsigned nth)
{
    assert_int_equal(kill(c->pid, SIGHUP), 0);
    for (unsigned i = 0; i < 500; i++) {
        if (controller_log_count(c, "configuration read again") >= nth)
            return;
        (void)poll(NULL, 0, 10);
    }
    fail_msg("the configuration is not read again");
}

/* A job's agent says that its node's topology is that text, and sends it. The controller asks for
 * it within seconds again only if it has asked for many others meanwhile. */
static void offer_topology(const struct controller *c, uint32_t job, const char *text)
{
    char digest[TOPO_DIGEST_MAX], other[TOPO_DIGEST_MAX];
    bool sent = false;

    topo_digest(text, strlen(text), digest);
    for (unsigned i = 0; i < 200 && !sent; i++) {
        struct agent a;
        bool ours = i % 20 == 0;

        (void)snprintf(other, sizeof(other), "%016x%016x", job, i);
        with_digest(&a, job, "n1", ours ? digest : other);
        agent_register(c, &a);
        sent = ours && a.welcome.topology_wanted;
        if (sent)
            agent_send_topology(&a, digest, text, strlen(text));
        agent_goodbye(&a);
        agent_free(&a);
    }
    assert_true(sent);
    assert_true(controller_logs(c, digest));
}

/* A bad topology is told once, not for each step whose node has it, until somebody reloads. */
static void test_warned_of_topology_once(void **state)
{
    static const char text[] = "<topology>";
    char digest[TOPO_DIGEST_MAX], said[TOPO_DIGEST_MAX + 32];
    struct controller c;

    (void)state;
    topo_digest(text, strlen(text), digest);
    (void)snprintf(said, sizeof(said), "topology %s is not used", digest);
    controller_prepare(&c, "");
    controller_start(&c);
    offer_topology(&c, 1, text);
    offer_topology(&c, 2, text);
    offer_topology(&c, 3, text);
    offer_topology(&c, 4, "<else>"); /* told after the others, which are read by then */
    assert_int_equal(controller_log_count(&c, said), 1);
    reload(&c, 1);
    offer_topology(&c, 5, text);
    offer_topology(&c, 6, "<other>");
    assert_int_equal(controller_log_count(&c, said), 2);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* A step of user 7's profile "mine" comes and goes. */
static void use_profile(const struct controller *c, uint32_t job)
{
    struct agent a;

    agent_init(&a, job, 0, "n1", "0");
    a.uid = 7;
    (void)snprintf(a.hints.profile, sizeof(a.hints.profile), "mine");
    agent_register(c, &a);
    agent_goodbye(&a);
    agent_free(&a);
}

/* So is a bad profile; what is wrong with it now is told again. */
static void test_warned_of_profile_once(void **state)
{
    struct controller c;
    char profiles[128], path[192];

    (void)state;
    controller_prepare(&c, "");
    controller_start(&c);
    (void)snprintf(profiles, sizeof(profiles), "%s/profiles", c.state);
    (void)snprintf(path, sizeof(path), "%s/mine+7@any@any.profile", profiles);
    assert_int_equal(mkdir(profiles, 0755), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    for (uint32_t job = 1; job <= 4; job++)
        use_profile(&c, job);
    assert_int_equal(controller_log_count(&c, path), 1);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink(path, path), 0); /* a loop */
    for (uint32_t job = 5; job <= 8; job++)
        use_profile(&c, job);
    assert_int_equal(controller_log_count(&c, path), 2);
    reload(&c, 1);
    for (uint32_t job = 9; job <= 12; job++)
        use_profile(&c, job);
    assert_int_equal(controller_log_count(&c, path), 3);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* ---- whatever comes
 * ------------------------------------------------------------------------------ */

#define LIVES 12

static void live_or_die(const struct controller *c, struct rng *rng, struct agent *a, unsigned slot)
{
    char node[16], own[16];

    if (a->fd >= 0 && !a->ended) {
        if (rng_chance(rng, 60))
            agent_goodbye(a);
        agent_free(a);
        return;
    }
    agent_free(a);
    (void)snprintf(node, sizeof(node), "n%u", slot % 2);
    (void)snprintf(own, sizeof(own), "%u-%u", slot / 2 * 3, slot / 2 * 3 + 2);
    agent_init(a, 1 + rng_below(rng, 1000000), 0, node, own);
    if (rng_chance(rng, 70))
        make_hungry(a);
    agent_register(c, a);
    assert_true(a->registered);
}

/* At the end everybody is where the controller thinks. */
static void assert_agreement(const struct controller *c, struct agent *const *all)
{
    json_object *root = ask_json(c, "status", "");

    for (unsigned i = 0; i < LIVES; i++) {
        json_object *m;
        char id[32], at[256];

        if (all[i]->fd < 0)
            continue;
        (void)snprintf(id, sizeof(id), "%u.0", all[i]->job);
        m = member_of(root, id);
        (void)agent_at(all[i], at, sizeof(at));
        if (all[i]->on_own)
            assert_string_equal(json_object_get_string(get(m, "placement")), "own");
        else
            assert_string_equal(json_object_get_string(get(m, "loader_cpus")), at);
        assert_string_equal(json_object_get_string(get(m, "loader_cpus")),
                            json_object_get_string(get(m, "held_cpus")));
    }
    json_object_put(root);
}

static void test_random_life(void **state)
{
    struct controller c;
    static struct agent agents[LIVES];
    struct agent *all[LIVES];
    struct rng rng = {42};

    (void)state;
    controller_prepare(&c, NO_MAIN "LeaseTime=1s\nMinHoldTime=0s\nLearnTime=200ms\n");
    controller_start(&c);
    for (unsigned i = 0; i < LIVES; i++) {
        agent_init(&agents[i], 1, 0, "n0", "");
        all[i] = &agents[i];
    }
    for (unsigned event = 0; event < 250; event++) {
        unsigned i = rng_below(&rng, LIVES);

        live_or_die(&c, &rng, all[i], i);
        if (rng_chance(&rng, 30))
            run_hungry(all, LIVES, 100);
        else
            (void)agents_pump(all, LIVES, rng_below(&rng, 20), NULL);
        if (event == 125) { /* and a crash in the middle of it */
            (void)controller_end(&c, SIGKILL);
            for (unsigned k = 0; k < LIVES; k++)
                agent_hang_up(all[k]);
            controller_start(&c);
            for (unsigned k = 0; k < LIVES; k++)
                if (!cpus_is_empty(&all[k]->own_cpus))
                    agent_register(&c, all[k]);
        }
    }
    run_hungry(all, LIVES, 3000);
    assert_agreement(&c, all);
    for (unsigned i = 0; i < LIVES; i++)
        agent_free(all[i]);
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    controller_discard(&c, false);
}

/* ---- TCP ------------------------------------------------------------------------------------ */

static void start_tcp(struct controller *c)
{
    char extra[256];

    controller_prepare(c, "");
    c->port = free_port();
    if (!controller_start_munged(c)) {
        controller_discard(c, false);
        skip();
    }
    (void)snprintf(extra, sizeof(extra),
                   "SlurmUser=\nListenAddress=127.0.0.1\nControllerPort=%u\nMungeSocket=%s\n",
                   c->port, c->munge_socket);
    controller_write_conf(c, extra);
    controller_start(c);
}

static void end_tcp(struct controller *c)
{
    assert_int_equal(controller_end(c, SIGTERM), 0);
    controller_discard(c, false);
}

static void test_tcp_credential(void **state)
{
    struct controller c;
    struct agent a;
    struct agent *one[] = {&a};
    char *text;

    (void)state;
    start_tcp(&c);
    agent_init(&a, 5, 0, "n1", "0-3");
    a.tcp = true;
    agent_register(&c, &a);
    assert_true(a.challenge.credential_wanted && a.registered);
    agents_run(one, 1, 100, 500);
    assert_true(a.renewals >= 3 && a.assigns >= 1);
    text = controller_ask_tcp(&c, "status", "");
    assert_non_null(strstr(text, "\"id\":\"5.0\""));
    free(text);
    agent_goodbye(&a);
    assert_true(controller_logs(&c, "5.0 on n1 released"));
    agent_free(&a);
    end_tcp(&c);
}

static void test_tcp_refusals(void **state)
{
    struct controller c;
    struct agent a;
    struct wire_writer w = {0};
    struct agent *one[] = {&a};
    char *text;

    (void)state;
    start_tcp(&c);
    /* without a credential */
    agent_init(&a, 5, 0, "n1", "0-3");
    a.tcp = true;
    agent_connect(&c, &a);
    a.tcp = false;
    agent_register(&c, &a);
    assert_int_equal(a.refusal.code, MSG_REFUSED_DENIED);
    agent_free(&a);
    /* for another connection */
    agent_init(&a, 5, 0, "n1", "0-3");
    a.tcp = true;
    agent_connect(&c, &a);
    a.challenge.nonce[0] ^= 0x80;
    agent_register(&c, &a);
    assert_int_equal(a.refusal.code, MSG_REFUSED_DENIED);
    agent_free(&a);
    /* that is none */
    agent_init(&a, 5, 0, "n1", "0-3");
    a.tcp = true;
    agent_connect(&c, &a);
    assert_int_equal(msg_credential_write(&w, "MUNGE:AwQFAAC6kxIU6d0=:"), 0);
    assert_int_equal(send(a.fd, w.data, w.length, MSG_NOSIGNAL), w.length);
    wire_writer_free(&w);
    agents_settle(one, 1);
    assert_int_equal(a.refusal.code, MSG_REFUSED_DENIED);
    agent_free(&a);
    /* of a user who is neither root nor SlurmUser, but may ask */
    if (geteuid() == 0) {
        assert_int_equal(seteuid(65534), 0);
        agent_init(&a, 5, 0, "n1", "0-3");
        a.tcp = true;
        agent_register(&c, &a);
        text = controller_ask_tcp(&c, "status", "");
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(a.refusal.code, MSG_REFUSED_DENIED);
        assert_non_null(strstr(text, "\"members\":[]"));
        free(text);
        agent_free(&a);
    }
    end_tcp(&c);
}

/* munged stands still: those who need it wait, and nobody else. */
static void test_munged_stopped(void **state)
{
    enum { WAITING = 12 };
    struct controller c;
    struct agent local, waiting[WAITING];
    struct agent *one[] = {&local};
    uint64_t begin;

    (void)state;
    start_tcp(&c);
    agent_init(&local, 5, 0, "n1", "0-3");
    agent_register(&c, &local);
    for (unsigned i = 0; i < WAITING; i++) {
        struct wire_writer w = {0};

        agent_init(&waiting[i], 6, i, "n1", "4");
        waiting[i].tcp = true;
        agent_connect(&c, &waiting[i]);
        assert_int_equal(msg_credential_write(&w, "MUNGE:AwQFAAC6kxIU6d0=:"), 0);
        if (i == 0)
            assert_int_equal(kill(c.munged, SIGSTOP), 0);
        assert_int_equal(send(waiting[i].fd, w.data, w.length, MSG_NOSIGNAL), w.length);
        wire_writer_free(&w);
    }
    begin = clock_monotonic_ms();
    agents_run(one, 1, 100, 500);
    free(controller_ask(&c, "status", ""));
    assert_true(clock_monotonic_ms() - begin < 3000);
    assert_true(local.renewals >= 3 && !local.ended);
    for (unsigned i = 0; i < WAITING; i++)
        agent_free(&waiting[i]);
    agent_free(&local);
    /* and the controller ends in time, whatever its workers wait for */
    begin = clock_monotonic_ms();
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    assert_true(clock_monotonic_ms() - begin < 2000);
    assert_int_equal(kill(c.munged, SIGCONT), 0);
    controller_discard(&c, false);
}

#define T(name) cmocka_unit_test_teardown(name, controller_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_starts_and_ends),
        T(test_options),
        T(test_check_config),
        T(test_paths_in_use),
        T(test_pid_file),
        T(test_daemon),
        T(test_stale_socket),
        T(test_notify),
        T(test_two_steps),
        T(test_hints_claim_nothing),
        T(test_status_and_explain),
        T(test_verdict_bounds_curve),
        T(test_ack_order),
        T(test_mute_member),
        T(test_lost_lender),
        T(test_lost_borrower),
        T(test_no_ping_pong),
        T(test_restart_moves_nothing),
        T(test_reload),
        T(test_loans_are_named),
        T(test_scope),
        T(test_refusals),
        T(test_other_users),
        T(test_replaced),
        T(test_garbage),
        T(test_deaf_agent),
        T(test_many_questions),
        T(test_garbage_from_agent),
        T(test_silent_peers),
        T(test_many_connections),
        T(test_topology),
        T(test_bad_topology),
        T(test_warned_of_topology_once),
        T(test_warned_of_profile_once),
        T(test_random_life),
        T(test_tcp_credential),
        T(test_tcp_refusals),
        T(test_munged_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
