/* The configuration file: defaults, every key's values, complaints with their lines, host lists. */
#include "conf.h"
#include "rng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char directory[] = "/tmp/adloader-test-conf-XXXXXX";
static char file[sizeof(directory) + 16];
static char complaints[16384];

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    (void)snprintf(file, sizeof(file), "%s/a.conf", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    char fifo[sizeof(directory) + 8];
    (void)snprintf(fifo, sizeof(fifo), "%s/fifo", directory); /* of a test that failed */
    (void)unlink(fifo);
    (void)unlink(file);
    return rmdir(directory);
}

static void write_bytes(const char *bytes, size_t length)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, length, out), length);
    assert_int_equal(fclose(out), 0);
}

static struct conf *read_text(const char *text)
{
    write_bytes(text, strlen(text));
    return conf_read(file, complaints, sizeof(complaints));
}

/* Read what must be good. */
static struct conf *accept(const char *text)
{
    struct conf *conf = read_text(text);
    if (!conf)
        fail_msg("refused: %s\n%s", text, complaints);
    assert_string_equal(complaints, "");
    return conf;
}

/* Read what must not be; the complaint must contain words. */
static void refuse(const char *text, const char *words)
{
    struct conf *conf = read_text(text);
    if (conf)
        fail_msg("accepted: %s", text);
    if (!strstr(complaints, words))
        fail_msg("%s: \"%s\" lacks %s", text, complaints, words);
}

/* The value of a key as conf_print() writes it; static storage. */
static const char *printed(const struct conf *conf, const char *key)
{
    static char value[8192];
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(conf_print(conf, out), 0);
    assert_int_equal(fclose(out), 0);
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), "%s=", key);
    const char *line = text;
    while (line && strncmp(line, wanted, strlen(wanted)) != 0) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!line || !*line)
        fail_msg("%s is not printed", key);
    else
        (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(line + strlen(wanted), "\n"),
                       line + strlen(wanted));
    free(text);
    return value;
}

/* ---- defaults ---- */

static void defaults(void **state)
{
    (void)state;
    struct conf *c = accept("");
    assert_string_equal(c->socket, CONF_DEFAULT_RUNDIR "/ctld.sock");
    assert_string_equal(c->listen_address, "none");
    assert_int_equal(c->port, 6830);
    assert_string_equal(c->munge_socket, "");
    assert_string_equal(c->pid_file, "");
    assert_string_equal(c->state_dir, "/var/lib/adloader");
    assert_string_equal(c->slurm_user, "slurm");
    assert_int_equal(c->max_agents, 100000);
    assert_int_equal(c->log_target, CONF_LOG_STDERR);
    assert_int_equal(c->log_level, LOG_LEVEL_INFO);
    assert_int_equal(c->lease_ms, 5000);
    assert_int_equal(c->report_ms, 1000);
    assert_int_equal(c->scan_ms, 1000);
    assert_int_equal(c->ack_ms, 250);
    assert_int_equal(c->settle_ms, 500);
    assert_int_equal(c->learn_ms, 10000);
    assert_int_equal(c->hold_ms, 5000);
    assert_int_equal(c->policy, CONF_POLICY_GPU_BUSY);
    assert_int_equal(c->guarantee, CONF_GUARANTEE_OWN);
    assert_int_equal(c->scope, CONF_SCOPE_NODE);
    assert_int_equal(c->main_cores_per_task, 1);
    assert_true(c->min_gain == 0.02);
    assert_int_equal(c->sacct_field, CONF_SACCT_ADMIN_COMMENT);
    assert_int_equal(c->sacct_interval_ms, 10000);
    assert_int_equal(c->sacct_rate, 20);
    assert_int_equal(c->sacct_retry_ms, 3600000);
    assert_int_equal(c->nnodes, 0);
    assert_null(conf_node(c, "n1"));
    conf_free(c);
    conf_free(NULL);
}

static void every_preset_is_what_its_key_allows(void **state)
{
    (void)state;
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    struct conf *defaults_in_force = accept("");
    assert_true(count >= 21);
    for (size_t i = 0; i < count; i++) {
        char line[512], allowed[256];
        (void)snprintf(line, sizeof(line), "%s=%s\n", keys[i].name, keys[i].preset);
        struct conf *c = accept(line);
        assert_string_equal(printed(c, keys[i].name), keys[i].preset);
        assert_string_equal(printed(defaults_in_force, keys[i].name), keys[i].preset);
        int length = conf_key_allowed(&keys[i], allowed, sizeof(allowed));
        assert_true(length > 5 && (size_t)length < sizeof(allowed));
        assert_true(strlen(keys[i].meaning) > 5 && !strchr(keys[i].meaning, '\n'));
        conf_free(c);
    }
    conf_free(defaults_in_force);
}

/* ---- values ---- */

static void values_that_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *line, *key, *printed;
    } cases[] = {
        {"ControllerPort=1", "ControllerPort", "1"},
        {"controllerport = 65535", "ControllerPort", "65535"},
        {"CONTROLLERPORT=0080", "ControllerPort", "80"},
        {"LeaseTime=10", "LeaseTime", "10s"},
        {"LeaseTime=10s", "LeaseTime", "10s"},
        {"LeaseTime=3000MS", "LeaseTime", "3s"},
        {"LeaseTime=2.5", "LeaseTime", "2500ms"},
        {"LeaseTime=2.25s", "LeaseTime", "2250ms"},
        {"LeaseTime=3600", "LeaseTime", "3600s"},
        {"AckTimeout=.05", "AckTimeout", "50ms"},
        {"AckTimeout=10ms", "AckTimeout", "10ms"},
        {"AckTimeout=0.010s", "AckTimeout", "10ms"},
        {"LearnTime=0", "LearnTime", "0s"},
        {"Policy=NASH", "Policy", "nash"},
        {"Policy=max-min", "Policy", "max-min"},
        {"Policy=makespan", "Policy", "makespan"},
        {"Policy=even", "Policy", "even"},
        {"Policy=static", "Policy", "static"},
        {"Guarantee=Even", "Guarantee", "even"},
        {"Guarantee=none", "Guarantee", "none"},
        {"LogTarget=syslog", "LogTarget", "syslog"},
        {"LogLevel=Debug", "LogLevel", "debug"},
        {"MainCoresPerTask=0", "MainCoresPerTask", "0"},
        {"MinGain=0", "MinGain", "0.0"},
        {"SacctField=comment", "SacctField", "Comment"},
        {"SacctField=NONE", "SacctField", "none"},
        {"SacctRetryTime=604800", "SacctRetryTime", "604800s"},
        {"MinGain=1", "MinGain", "1.0"},
        {"MinGain=.125", "MinGain", "0.125"},
        {"MinGain=0.000001", "MinGain", "0.000001"},
        {"ListenAddress=", "ListenAddress", ""},
        {"ListenAddress=NONE", "ListenAddress", "none"},
        {"ListenAddress=::1", "ListenAddress", "::1"},
        {"ListenAddress=fe80::1%eth0", "ListenAddress", "fe80::1%eth0"},
        {"SlurmUser=", "SlurmUser", ""},
        {"SlurmUser=slurm-22.05", "SlurmUser", "slurm-22.05"},
        {"StateDir=/a b/c#d;e", "StateDir", "/a b/c#d;e"},
        {"StateDir=/a=b:c", "StateDir", "/a=b:c"},
        {"PidFile=/run/x.pid # why", "PidFile", "/run/x.pid"},
        {"PidFile=/run/x.pid\t#why", "PidFile", "/run/x.pid"},
        {"PidFile= # nothing", "PidFile", ""},
        {"  \t MaxAgents \t=\t 7 \r", "MaxAgents", "7"},
        {"# MaxAgents=9\n#\n\n  # x\nMaxAgents=7", "MaxAgents", "7"},
        {"\xef\xbb\xbfMaxAgents=7", "MaxAgents", "7"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct conf *c = accept(cases[i].line);
        assert_string_equal(printed(c, cases[i].key), cases[i].printed);
        conf_free(c);
    }
}

static void values_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"ControllerPort=0", "a whole number from 1 to 65535"},
        {"ControllerPort=65536", "a whole number from 1 to 65535"},
        {"ControllerPort=-1", "ControllerPort=-1 is not possible"},
        {"ControllerPort=80.0", "whole number"},
        {"ControllerPort=80 81", "whole number"},
        {"ControllerPort=", "whole number"},
        {"ControllerPort=99999999999999999999", "whole number"},
        {"LeaseTime=0", "a time from 100ms to 3600s"},
        {"LeaseTime=99ms", "a time from 100ms"},
        {"LeaseTime=3600.001", "a time from"},
        {"LeaseTime=1.5ms", "a time from"},
        {"LeaseTime=200.5ms", "a time from"},
        {"LeaseTime=2.0001", "a time from"},
        {"LeaseTime=5m", "a time from"},
        {"LeaseTime=5 s", "a time from"},
        {"LeaseTime=s", "a time from"},
        {"LeaseTime=1e3", "a time from"},
        {"LeaseTime=-5", "a time from"},
        {"LeaseTime=1.2.3", "a time from"},
        {"LeaseTime=4294967296", "a time from"},
        {"Policy=best", "gpu-busy, nash, max-min, makespan, even or static"},
        {"Policy=", "gpu-busy"},
        {"Guarantee=all", "own, even or none"},
        {"LogTarget=/var/log/x", "stderr or syslog"},
        {"LogLevel=9", "error, warning, info or debug"},
        {"MinGain=1.1", "a number from 0 to 1"},
        {"MinGain=-0.1", "a number from 0 to 1"},
        {"MinGain=2%", "a number from 0 to 1"},
        {"MinGain=nan", "a number from 0 to 1"},
        {"MinGain=0.0000001", "at most 6 decimals"},
        {"MainCoresPerTask=1025", "from 0 to 1024"},
        {"StateDir=", "absolute path"},
        {"SacctField=", "AdminComment, Comment or none"},
        {"SacctField=SystemComment", "AdminComment, Comment or none"},
        {"StateDir=relative/dir", "absolute path"},
        {"ControllerSocket=", "absolute path"},
        {"ControllerSocket=@abstract", "absolute path"},
        {"ListenAddress=a b", "host name or IP address"},
        {"ListenAddress=http://x", "host name or IP address"},
        {"\nListenAddress=224.0.0.1", ":2: ListenAddress=224.0.0.1 is not possible"},
        {"Controllers=ctl1,224.0.0.1", ":1: Controllers="},
        {"ListenAddress=999.1.1.1", ":1: ListenAddress=999.1.1.1 is not possible"},
        {"Controllers=ctl1,999.1.1.1", ":1: Controllers="},
        {"Controllers=ctl1,[:::]:7000", ":1: Controllers="},
        {"Controllers=ctl1,[ctl2]:7000", ":1: Controllers="},
        {"Controllers=ctl1,", ":1: Controllers="},
        {"ControllerSocket=/", "that ends in a name"},
        {"ControllerSocket=/run/adloader/", "that ends in a name"},
        {"MungeSocket=/run/..", "that ends in a name"},
        {"PidFile=/run/", "that ends in a name"},
        {"PidFile=/run/x\nControllerSocket=/run/x", "PidFile and ControllerSocket are both /run/x"},
        {"SlurmUser=-", "a user's name"},
        {"SlurmUser=a b", "a user's name"},
        {"Colour=red", "\"Colour\" is not a known key; allowed are NodeName, ControllerSocket"},
        {"MaxAgent=7", "MaxAgents"},
        {"just words", "not Key=Value"},
        {"=7", "not Key=Value"},
        {"Max Agents=7", "not Key=Value"},
        {"MaxAgents: 7", "not Key=Value"},
        {"MaxAgents:7=7", "not Key=Value"},
        {"[section]", "not Key=Value"},
        {"[section]\nMaxAgents=7", "not Key=Value"},
        {"; comment", "';'"},
        {"StateDir=/a ; comment", "';'"},
        {"StateDir=/a\x01", "control character"},
        {"StateDir=/a\x7f/b", "control character"},
        {"LeaseTime=1s\nReportInterval=0.6", "LeaseTime (1000 ms) must be at least twice"},
        {"MaxAgents=7\nmaxagents=7", "MaxAgents is already in line 1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        refuse(cases[i].line, cases[i].words);
}

static void hosts_by_their_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool host, loopback;
    } cases[] = {
        {"ctl", true, false},
        {"ctl-1.example.org", true, false},
        {"ctl_1.example.org.", true, false},
        {"1a", true, false},
        {"none", true, false},
        {"192.0.2.7", true, false},
        {"2001:db8::7", true, false},
        {"fe80::1%eth0.7", true, false},
        {"::ffff:192.0.2.7", true, false},
        {"localhost", true, true},
        {"LOCALHOST.", true, true},
        {"ctl.localhost", true, true},
        {"mylocalhost", true, false},
        {"127.0.0.1", true, true},
        {"127.1.2.3", true, true},
        {"128.0.0.1", true, false},
        {"::1", true, true},
        {"0:0::1", true, true},
        {"::ffff:127.0.0.1", true, true},
        {"0.0.0.0", true, false},
        {"::", true, false},
        {"223.255.255.255", true, false},
        {"224.0.0.0", false, false},
        {"239.255.255.255", false, false},
        {"240.0.0.1", true, false},
        {"255.255.255.254", true, false},
        {"255.255.255.255", false, false},
        {"fe00::1", true, false},
        {"ff02::1", false, false},
        {"ff02::1%eth0", false, false},
        {"::ffff:224.0.0.1", false, false},
        {"::ffff:255.255.255.255", false, false},
        {"::224.0.0.1", true, false},
        {"", false, false},
        {"999.1.1.1", false, false},
        {"1.2.3", false, false},
        {"127.1", false, false},
        {"7", false, false},
        {".", false, false},
        {"...", false, false},
        {"a..b", false, false},
        {".a", false, false},
        {"a b", false, false},
        {"-", false, false},
        {"-a", false, false},
        {"a-.b", false, false},
        {"a%b", false, false},
        {"[::1]", false, false},
        {":", false, false},
        {":::", false, false},
        {"::1%", false, false},
        {"::1%a/b", false, false},
        {"1:2:3:4:5:6:7:8:9", false, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (netaddr_host(cases[i].text, strlen(cases[i].text)) != cases[i].host)
            fail_msg("\"%s\" is %s", cases[i].text, cases[i].host ? "refused" : "taken");
        if (netaddr_is_loopback(cases[i].text) != cases[i].loopback)
            fail_msg("\"%s\": loopback is taken for %d", cases[i].text, !cases[i].loopback);
    }
    char label[80];
    memset(label, 'a', sizeof(label));
    assert_true(netaddr_host(label, 63));
    assert_false(netaddr_host(label, 64));
    unsigned port = 7;
    assert_true(netaddr_port("65535x", 5, &port));
    assert_int_equal(port, 65535);
    static const char *const bad[] = {"", "0", "65536", "+80", " 80", "80 ", "000080", "8o"};
    for (size_t i = 0; i < COUNT(bad); i++)
        if (netaddr_port(bad[i], strlen(bad[i]), &port))
            fail_msg("port \"%s\" is taken", bad[i]);
    assert_int_equal(port, 65535); /* untouched */
}

/* Each key with nothing, too much and itself again: refused with its line, or in force as written.
 */
static void every_key_with_nothing_too_much_and_twice(void **state)
{
    (void)state;
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char line[512], words[64];
        (void)snprintf(line, sizeof(line), "\n%s=%s\n%s=%s\n", keys[i].name, keys[i].preset,
                       keys[i].name, keys[i].preset);
        (void)snprintf(words, sizeof(words), ":3: %s is already in line 2", keys[i].name);
        refuse(line, words);
        (void)snprintf(line, sizeof(line), "\n%s=%0*d\n", keys[i].name, 190, 7);
        (void)snprintf(words, sizeof(words), ":2: ");
        struct conf *c = read_text(line);
        if (c && keys[i].kind != CONF_KIND_USER && keys[i].kind != CONF_KIND_COUNT &&
            keys[i].kind != CONF_KIND_TIME)
            fail_msg("accepted: %s", line);
        if (!c && !strstr(complaints, words))
            fail_msg("%s: no line is named", complaints);
        conf_free(c);
        (void)snprintf(line, sizeof(line), "\n%s=\n", keys[i].name);
        c = read_text(line);
        if (c)
            assert_string_equal(printed(c, keys[i].name), "");
        else if (!strstr(complaints, words))
            fail_msg("%s: no line is named", complaints);
        conf_free(c);
    }
}

static void socket_paths_fit_an_address(void **state)
{
    (void)state;
    char line[256];
    (void)snprintf(line, sizeof(line), "ControllerSocket=/%0*d", 106, 7);
    conf_free(accept(line));
    (void)snprintf(line, sizeof(line), "ControllerSocket=/%0*d", 107, 7);
    refuse(line, "at most 107 bytes");
}

static void words_read_back(void **state)
{
    (void)state;
    for (int p = CONF_POLICY_GPU_BUSY; p <= CONF_POLICY_STATIC; p++)
        assert_int_equal(conf_policy_parse(conf_policy_name((enum conf_policy)p)), p);
    for (int g = CONF_GUARANTEE_OWN; g <= CONF_GUARANTEE_NONE; g++)
        assert_int_equal(conf_guarantee_parse(conf_guarantee_name((enum conf_guarantee)g)), g);
    assert_int_equal(conf_policy_parse("GPU-Busy"), CONF_POLICY_GPU_BUSY);
    assert_int_equal(conf_policy_parse("gpu busy"), -1);
    assert_int_equal(conf_policy_parse(NULL), -1);
    assert_int_equal(conf_guarantee_parse(""), -1);
}

/* ---- complaints ---- */

static void all_complaints_come_at_once(void **state)
{
    (void)state;
    refuse("# a file with much that is wrong\n"
           "Policy=best\n"
           "MaxAgents=0\n"
           "LeaseTime=1s\n"
           "\n"
           "nonsense\n"
           "Colour=red\n"
           "MaxAgents=7\n"
           "NodeName=n[1-3] PoolCores=0-1 ReservedCores=1\n"
           "NodeName=n4 Colour=red PoolCores=x\n"
           "NodeName=n[5-\n"
           "NodeName=n7\n"
           "NodeName=n[6-8]",
           "Policy=best");
    static const char *const places[] = {":2: Policy=",
                                         ":3: MaxAgents=",
                                         ":6: not",
                                         ":7: \"Colour\"",
                                         ":8: MaxAgents is",
                                         ":9: PoolCores and",
                                         ":10: \"Colour",
                                         ":10: PoolCores=x",
                                         ":11: NodeName=",
                                         ":13: node n7 is already in line 12",
                                         ": LeaseTime (1000 ms)"};
    for (size_t i = 0; i < COUNT(places); i++)
        if (!strstr(complaints, places[i]))
            fail_msg("%s\nlacks %s", complaints, places[i]);
    size_t lines = 0;
    for (const char *at = complaints; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, COUNT(places)); /* and none besides */
}

static void complaints_that_do_not_fit_are_counted(void **state)
{
    (void)state;
    char text[4096] = "";
    for (int i = 0; i < 100; i++)
        (void)strncat(text, "nonsense\n", sizeof(text) - strlen(text) - 1);
    write_bytes(text, strlen(text));
    for (size_t size = 1; size < 600; size += 7) {
        char *error = malloc(size);
        assert_non_null(error);
        memset(error, '#', size);
        assert_null(conf_read(file, error, size));
        assert_non_null(memchr(error, '\0', size));
        unsigned shown = 0, more = 0;
        for (const char *p = error; (p = strstr(p, "not Key=Value\n")); p++)
            shown++;
        const char *rest = strstr(error, "and ");
        if (rest)
            assert_int_equal(sscanf(rest, "and %u", &more), 1);
        if (shown)
            assert_int_equal(shown + more, 100);
        free(error);
    }
    assert_null(conf_read(file, NULL, 0));
}

/* ---- files ---- */

static void files_that_are_none(void **state)
{
    (void)state;
    char path[sizeof(directory) + 32];
    (void)snprintf(path, sizeof(path), "%s/absent.conf", directory);
    assert_null(conf_read(path, complaints, sizeof(complaints)));
    assert_non_null(strstr(complaints, "absent.conf: cannot be opened: No such file"));
    assert_null(conf_read(directory, complaints, sizeof(complaints)));
    assert_non_null(strstr(complaints, "not a regular file"));
    (void)snprintf(path, sizeof(path), "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(conf_read(path, complaints, sizeof(complaints))); /* and does not wait */
    assert_non_null(strstr(complaints, "not a regular file"));
    assert_int_equal(unlink(path), 0);
    write_bytes("MaxAgents=7\0\n", 13);
    assert_null(conf_read(file, complaints, sizeof(complaints)));
    assert_non_null(strstr(complaints, "NUL"));
}

static void size_is_bounded(void **state)
{
    (void)state;
    size_t size = CONF_FILE_MAX + 1;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '\n', size);
    write_bytes(text, size - 1);
    struct conf *c = conf_read(file, complaints, sizeof(complaints));
    assert_non_null(c);
    conf_free(c);
    write_bytes(text, size);
    assert_null(conf_read(file, complaints, sizeof(complaints)));
    assert_non_null(strstr(complaints, "larger than 1048576 bytes"));
    memset(text, '#', size - 1); /* one long comment is fine */
    write_bytes(text, size - 1);
    c = conf_read(file, complaints, sizeof(complaints));
    assert_non_null(c);
    conf_free(c);
    memset(text, 'a', size - 1); /* one long key is not */
    memcpy(text, "StateDir=/", 10);
    write_bytes(text, size - 1);
    assert_null(conf_read(file, complaints, sizeof(complaints)));
    assert_non_null(strstr(complaints, ":1: longer than"));
    free(text);
}

/* ---- nodes ---- */

static void nodes_get_their_own(void **state)
{
    (void)state;
    struct conf *c = accept("MainCoresPerTask=3\n"
                            "NodeName=n[09-10],gpu PoolCores=0-1,5 ReservedCores=7 # x\n"
                            "nodename = big \t maincorespertask=0\n"
                            "NodeName=bare\n"
                            "NodeName=none PoolCores= ReservedCores=\n");
    assert_int_equal(c->nnodes, 6);
    for (size_t i = 1; i < c->nnodes; i++)
        assert_true(strcmp(c->nodes[i - 1].name, c->nodes[i].name) < 0);
    const struct conf_node *n = conf_node(c, "n09");
    assert_non_null(n);
    assert_int_equal(cpus_count(&n->pool), 3);
    assert_true(cpus_isset(&n->pool, 5) && cpus_isset(&n->reserved, 7));
    assert_int_equal(cpus_count(&n->reserved), 1);
    assert_int_equal(n->main_cores_per_task, -1);
    assert_non_null(conf_node(c, "n10"));
    assert_null(conf_node(c, "n9"));
    assert_null(conf_node(c, "N10"));
    n = conf_node(c, "big");
    assert_non_null(n);
    assert_int_equal(n->main_cores_per_task, 0);
    assert_true(cpus_is_empty(&n->pool) && cpus_is_empty(&n->reserved));
    assert_non_null(conf_node(c, "bare"));
    assert_non_null(conf_node(c, "none"));
    assert_string_equal(printed(c, "NodeName=big PoolCores= ReservedCores= MainCoresPerTask"), "0");
    assert_string_equal(printed(c, "NodeName=n10 PoolCores=0-1,5 ReservedCores"), "7");
    conf_free(c);
}

static void node_lines_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"NodeName=", ":1: NodeName lacks a host list"},
        {"NodeName= PoolCores=0", ":1: NodeName lacks a host list"},
        {"NodeName=PoolCores=0 n1", ":1: NodeName lacks a host list"},
        {"NodeName=n1 CPUs=4", "\"CPUs=4\" is not known on a NodeName line; allowed are PoolCores"},
        {"NodeName=n1 PoolCores", "allowed are PoolCores"},
        {"NodeName=n1 PoolCores=0 poolcores=1", "PoolCores stands twice"},
        {"NodeName=n1 PoolCores=3-1", "a CPU list such as 0-3,8"},
        {"NodeName=n1 PoolCores=0-99999", "a CPU list such as 0-3,8"},
        {"NodeName=n1 PoolCores=0-3 ReservedCores=3", "share CPUs"},
        {"NodeName=n1 MainCoresPerTask=-1", "from 0 to 1024"},
        {"NodeName=n1,n1", "n1 is already in line 1"},
        {"NodeName=n[1-2]\nNodeName=n2", ":2: node n2 is already in line 1"},
        {"NodeName=n[0-65535],x", "at most 65536 names"},
        {"NodeName=a[0-65535]\nNodeName=b", ":2: more than 65536 nodes"},
        {"NodeName=.n", "is not a host list"},
        {"PoolCores=0-3", "not a known key"}, /* only on a NodeName line */
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        refuse(cases[i].line, cases[i].words);
}

/* ---- the way back ---- */

static char *print(const struct conf *conf)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    assert_int_equal(conf_print(conf, out), 0);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* A line for the key with a value that it allows. */
static void random_line(struct rng *rng, const struct conf_key *key, char *line, size_t size)
{
    static const char *const paths[] = {"/run/a", "/var/lib/b c", "/x#y"};
    unsigned number = key->max > key->min ? key->min + rng_below(rng, key->max - key->min + 1) : 0;
    switch (key->kind) {
    case CONF_KIND_SOCKET:
    case CONF_KIND_FILE:
    case CONF_KIND_FOLDER:
        (void)snprintf(line, size, "%s=%s%s\n", key->name, paths[rng_below(rng, COUNT(paths))],
                       key->name); /* no two the same */
        break;
    case CONF_KIND_COUNT:
        (void)snprintf(line, size, "%s=%u\n", key->name, number);
        break;
    case CONF_KIND_TIME:
        (void)snprintf(line, size, "%s=%ums\n", key->name, number);
        break;
    case CONF_KIND_FRACTION:
        (void)snprintf(line, size, "%s=0.%06u\n", key->name, rng_below(rng, 1000000));
        break;
    case CONF_KIND_POLICY:
        (void)snprintf(line, size, "%s=%s\n", key->name,
                       conf_policy_name((enum conf_policy)rng_below(rng, 6)));
        break;
    case CONF_KIND_GUARANTEE:
        (void)snprintf(line, size, "%s=%s\n", key->name,
                       conf_guarantee_name((enum conf_guarantee)rng_below(rng, 3)));
        break;
    case CONF_KIND_SCOPE:
        (void)snprintf(line, size, "%s=%s\n", key->name, rng_below(rng, 2) ? "job" : "node");
        break;
    default:
        line[0] = '\0';
        break;
    }
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    struct rng rng = {31};
    size_t count;
    const struct conf_key *keys = conf_keys(&count);
    unsigned read = 0;
    for (int round = 0; round < 200; round++) {
        char text[8192] = "NodeName=n[1-3] PoolCores=0-3,9 MainCoresPerTask=2\nNodeName=z\n";
        for (size_t i = 0; i < count; i++) {
            char line[256];
            random_line(&rng, &keys[i], line, sizeof(line));
            (void)strncat(text, line, sizeof(text) - strlen(text) - 1);
        }
        struct conf *first = read_text(text);
        if (!first) { /* only the lease against the reports can be wrong */
            assert_non_null(strstr(complaints, "must be at least twice"));
            continue;
        }
        read++;
        char *once = print(first);
        struct conf *second = accept(once);
        char *twice = print(second);
        assert_string_equal(once, twice);
        free(once);
        free(twice);
        conf_free(first);
        conf_free(second);
    }
    assert_in_range(read, 20, 199); /* both ways were walked */
}

static void a_full_device_is_noticed(void **state)
{
    (void)state;
    struct conf *c = accept("");
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        assert_int_equal(conf_print(c, full), -1);
        (void)fclose(full);
    }
    conf_free(c);
}

/* ---- host lists ---- */

static void host_lists_expand(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        size_t count;
        const char *names[8]; /* the first ones */
    } cases[] = {
        {"n1", 1, {"n1"}},
        {"n1,n2,login", 3, {"n1", "n2", "login"}},
        {"n[1-3,7],gpu01", 5, {"n1", "n2", "n3", "n7", "gpu01"}},
        {"n[08-11]", 4, {"n08", "n09", "n10", "n11"}},
        {"n[8-11]", 4, {"n8", "n9", "n10", "n11"}},
        {"n[001]", 1, {"n001"}},
        {"n[1-2]-ib", 2, {"n1-ib", "n2-ib"}},
        {"r[1-2]n[1-2]", 4, {"r1n1", "r1n2", "r2n1", "r2n2"}},
        {"[1-2]", 2, {"1", "2"}},
        {"n[0-65535]", 65536, {"n0", "n1"}},
        {"n[1][2][3]", 1, {"n123"}},
        {"n[1,1]", 2, {"n1", "n1"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t count = 0;
        char **names = conf_hostlist(cases[i].list, &count);
        assert_non_null(names);
        assert_int_equal(count, cases[i].count);
        size_t listed = 0;
        while (names[listed])
            listed++;
        assert_int_equal(listed, count);
        for (size_t k = 0; k < 8 && cases[i].names[k]; k++) {
            size_t found = 0;
            while (found < count && strcmp(names[found], cases[i].names[k]) != 0)
                found++;
            if (found == count)
                fail_msg("%s lacks %s", cases[i].list, cases[i].names[k]);
        }
        conf_hostlist_free(names);
    }
    conf_hostlist_free(NULL);
}

static void host_lists_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        int error;
    } cases[] = {
        {"", EINVAL},
        {",", EINVAL},
        {"n1,", EINVAL},
        {",n1", EINVAL},
        {"n1,,n2", EINVAL},
        {"n[", EINVAL},
        {"n]", EINVAL},
        {"n[]", EINVAL},
        {"n[1", EINVAL},
        {"n[1-", EINVAL},
        {"n[1-]", EINVAL},
        {"n[-3]", EINVAL},
        {"n[3-1]", EINVAL},
        {"n[1,]", EINVAL},
        {"n[a-b]", EINVAL},
        {"n[1-2-3]", EINVAL},
        {"n[1[2]]", EINVAL},
        {"n 1", EINVAL},
        {"n/1", EINVAL},
        {"../n", EINVAL},
        {"n[1234567890]", EINVAL}, /* ten digits */
        {"n[1-65537]", ERANGE},
        {"n[0-65535],m", ERANGE},
        {"n[1-1000][1-1000]", ERANGE},
        {"n[0-999999999]", ERANGE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t count = 0;
        errno = 0;
        if (conf_hostlist(cases[i].list, &count))
            fail_msg("accepted: %s", cases[i].list);
        assert_int_equal(errno, cases[i].error);
    }
    char longest[300];
    size_t count;
    memset(longest, 'a', sizeof(longest));
    longest[255] = '\0';
    char **names = conf_hostlist(longest, &count);
    assert_non_null(names);
    conf_hostlist_free(names);
    longest[255] = 'a';
    longest[256] = '\0';
    assert_null(conf_hostlist(longest, &count));
    assert_int_equal(errno, EINVAL);
}

static void a_value_is_found_where_it_was_said(void **state)
{
    (void)state;
    char where[256], expected[256];
    struct conf *conf = read_text("# first\n\npolicy=nash\nMinGain=0\n");
    assert_non_null(conf);
    (void)snprintf(expected, sizeof(expected), "%s:3: ", file);
    assert_string_equal(conf_where(conf, "Policy", where, sizeof(where)), expected);
    (void)snprintf(expected, sizeof(expected), "%s:4: ", file);
    assert_string_equal(conf_where(conf, "mingain", where, sizeof(where)), expected);
    assert_string_equal(conf_where(conf, "PidFile", where, sizeof(where)), "");
    assert_string_equal(conf_where(conf, "NoKey", where, sizeof(where)), "");
    conf_free(conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(every_preset_is_what_its_key_allows),
        cmocka_unit_test(values_that_are_taken),
        cmocka_unit_test(values_that_are_refused),
        cmocka_unit_test(hosts_by_their_form),
        cmocka_unit_test(every_key_with_nothing_too_much_and_twice),
        cmocka_unit_test(socket_paths_fit_an_address),
        cmocka_unit_test(words_read_back),
        cmocka_unit_test(all_complaints_come_at_once),
        cmocka_unit_test(complaints_that_do_not_fit_are_counted),
        cmocka_unit_test(files_that_are_none),
        cmocka_unit_test(size_is_bounded),
        cmocka_unit_test(nodes_get_their_own),
        cmocka_unit_test(node_lines_that_are_refused),
        cmocka_unit_test(what_is_printed_reads_back),
        cmocka_unit_test(a_full_device_is_noticed),
        cmocka_unit_test(a_value_is_found_where_it_was_said),
        cmocka_unit_test(host_lists_expand),
        cmocka_unit_test(host_lists_that_are_refused),
    };
    return cmocka_run_group_tests_name("conf", tests, make_directory, remove_directory);
}
