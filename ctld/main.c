/*
 * adloaderctld: the controller. It learns from the agents which steps run where, what they need
 * and what they have, and tells each which cores its loaders may use.
 */
#include "config.h"

#include "agent.h"
#include "auth.h"
#include "clock.h"
#include "conf.h"
#include "confcheck.h"
#include "control.h"
#include "ctld.h"
#include "daemon.h"
#include "demand.h"
#include "known.h"
#include "log.h"
#include "query.h"
#include "recorder.h"
#include "reload.h"
#include "server.h"

#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

struct options {
    const char *file;       /* NULL: the default one */
    const char *controller; /* which of Controllers this is, NULL: found out */
    bool foreground, check, show;
    int verbose;
};

static void usage(FILE *out)
{
    (void)fputs(
        "Usage: adloaderctld [OPTION]...\n"
        "Move data-loader cores between the running Slurm jobs of a node.\n"
        "\n"
        "  -f, --foreground     do not go into the background\n"
        "  -c, --config FILE    read FILE instead of " CONF_DEFAULT_FILE "\n"
        "      --controller HOST[:PORT]\n"
        "                       which of Controllers this one is, if its host does not tell\n"
        "      --check-config   say what is wrong with the configuration, then exit\n"
        "      --show-config    print the configuration in force, then exit\n"
        "  -v, --verbose        log more than LogLevel says; twice for all\n"
        "      --version        print the version, then exit\n"
        "  -h, --help           print this, then exit\n"
        "\n"
        "SIGHUP reads the configuration again; SIGTERM ends the controller. Running jobs go\n"
        "on with their cores and are found again by the next controller.\n",
        out);
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
    enum { OPT_CHECK = 256, OPT_CONTROLLER, OPT_SHOW, OPT_VERSION };
    static const struct option table[] = {
        {"foreground", no_argument, NULL, 'f'},
        {"config", required_argument, NULL, 'c'},
        {"controller", required_argument, NULL, OPT_CONTROLLER},
        {"check-config", no_argument, NULL, OPT_CHECK},
        {"show-config", no_argument, NULL, OPT_SHOW},
        {"verbose", no_argument, NULL, 'v'},
        {"version", no_argument, NULL, OPT_VERSION},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "fc:vh", table, NULL)) != -1) {
        switch (c) {
        case 'f':
            options->foreground = true;
            break;
        case 'c':
            options->file = optarg;
            break;
        case OPT_CONTROLLER:
            options->controller = optarg;
            break;
        case OPT_CHECK:
            options->check = true;
            break;
        case OPT_SHOW:
            options->show = true;
            break;
        case 'v':
            options->verbose++;
            break;
        case OPT_VERSION:
            (void)puts("adloaderctld " CTLD_VERSION);
            return EXIT_SUCCESS;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        default:
            usage(stderr);
            return EXIT_FAILURE;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "adloaderctld: unexpected argument %s\n", argv[optind]);
        return EXIT_FAILURE;
    }
    return -1;
}

/* After daemonising the working folder is another one. */
static int make_absolute(struct options *options, char **kept)
{
    if (options->file == NULL)
        return 0;
    *kept = realpath(options->file, NULL);
    if (*kept == NULL) {
        (void)fprintf(stderr, "adloaderctld: cannot read %s: %s\n", options->file, strerror(errno));
        return -1;
    }
    options->file = *kept;
    return 0;
}

/* Who is this, and can it be reached? -1: said why. */
static int fit_host(struct ctld *ctld, const struct options *options)
{
    char error[3 * PATH_MAX];

    if (role_find_self(ctld->conf, options->controller, &ctld->self, error, sizeof(error)) == 0 &&
        confcheck_listen(ctld->conf, error, sizeof(error)) == 0 &&
        confcheck_paths(ctld->conf, error, sizeof(error)) == 0)
        return 0;
    (void)fprintf(stderr, "adloaderctld: %s\n", error);
    return -1;
}

static void warn(const char *sentence)
{
    (void)fprintf(stderr, "adloaderctld: warning: %s\n", sentence);
}

static int say_good(const struct ctld *ctld)
{
    confcheck_suspect(ctld->conf, &ctld->self, warn);
    confcheck_missing(ctld->conf, warn);
    if (ctld->self.count > 0 &&
        printf("This is %s, number %u of %u controllers.\n", ctld->self.address,
               ctld->self.index + 1, ctld->self.count) < 0)
        return EXIT_FAILURE;
    return puts("The configuration is good.") < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static struct conf *read_conf(const struct options *options)
{
    char error[4096] = "";
    struct conf *conf = conf_read(options->file, error, sizeof(error));

    if (conf == NULL) {
        (void)fprintf(stderr, "adloaderctld: the configuration is refused:\n%s\n", error);
        return NULL;
    }
    if (options->verbose > 0 && conf->log_level < LOG_LEVEL_INFO)
        conf->log_level = LOG_LEVEL_INFO;
    if (options->verbose > 1)
        conf->log_level = LOG_LEVEL_DEBUG;
    return conf;
}

bool ctld_trusts(const struct ctld *ctld, uid_t uid)
{
    return uid != (uid_t)-1 && (uid == 0 || uid == ctld->slurm_uid);
}

/* ---- signals ------------------------------------------------------------------------------- */

#define NSIGNALS 3
static const int signals[NSIGNALS] = {SIGTERM, SIGINT, SIGHUP};

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct ctld *ctld = arg;

    (void)what;
    if (number == SIGHUP) {
        daemon_notify_reloading();
        reload_conf(ctld);
        daemon_notify("READY=1");
        return;
    }
    log_info("ending after %s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    (void)event_base_loopbreak(ctld->base);
}

static int signals_init(struct ctld *ctld, struct event *events[NSIGNALS])
{
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return -1;
    for (int i = 0; i < NSIGNALS; i++) {
        events[i] = evsignal_new(ctld->base, signals[i], on_signal, ctld);
        if (events[i] == NULL || evsignal_add(events[i], NULL) < 0)
            return -1;
    }
    return 0;
}

static void signals_fini(struct event *events[NSIGNALS])
{
    for (int i = 0; i < NSIGNALS; i++)
        if (events[i] != NULL)
            event_free(events[i]);
}

/* ---- running ------------------------------------------------------------------------------- */

static void log_libevent(int severity, const char *text)
{
    if (severity >= EVENT_LOG_WARN)
        log_warning("libevent: %s", text);
}

/* What is not to be had of it is told and left unknown: it is no reason not to start. */
static void know(struct ctld *ctld)
{
    const struct pred_tell tell = {warnonce_log, &ctld->warned};

    ctld->known =
        pred_known_new(ADL_DATADIR, ADL_SYSCONFDIR "/adloader", ctld->conf->state_dir, &tell);
}

static int core_init(struct ctld *ctld, char *error, size_t error_size)
{
    event_set_log_callback(log_libevent);
    ctld->started_ms = clock_monotonic_ms();
    ctld->base = event_base_new();
    if (ctld->base == NULL || registry_init(&ctld->registry) < 0 ||
        (ctld->store = topostore_new(ctld->base, ctld->conf->state_dir, &ctld->warned,
                                     agent_topology_ready, ctld)) == NULL ||
        getrandom(&ctld->instance, sizeof(ctld->instance), 0) != sizeof(ctld->instance)) {
        (void)snprintf(error, error_size, "cannot start: %s", strerror(errno));
        return -1;
    }
    know(ctld);
    return 0;
}

static void core_fini(struct ctld *ctld)
{
    pred_known_free(ctld->known);
    if (ctld->registry.nodes != NULL)
        registry_fini(&ctld->registry);
    topostore_free(ctld->store);
    if (ctld->base != NULL)
        event_base_free(ctld->base);
    wire_writer_free(&ctld->writer);
    libevent_global_shutdown();
}

static int serve(struct ctld *ctld, struct daemon *daemon)
{
    struct event *events[NSIGNALS] = {NULL};
    char error[512] = "out of memory";
    int rc = EXIT_FAILURE;

    if (core_init(ctld, error, sizeof(error)) == 0 &&
        daemon_pid_file(daemon, ctld->conf->pid_file, error, sizeof(error)) == 0 &&
        signals_init(ctld, events) == 0 && auth_init(ctld, error, sizeof(error)) == 0 &&
        recorder_init(ctld) == 0 && control_init(ctld) == 0 &&
        role_init(ctld, error, sizeof(error)) == 0 && query_init(ctld) == 0 &&
        server_init(ctld, error, sizeof(error)) == 0) {
        log_info("version %s, listening on %s", CTLD_VERSION, ctld->conf->socket);
        daemon_ready(daemon);
        rc = event_base_dispatch(ctld->base) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        daemon_notify("STOPPING=1");
    } else {
        log_error("%s", error);
        daemon_failed(daemon, error);
    }
    recorder_fini(ctld); /* first: agents that lose us now have not ended */
    server_fini(ctld);
    role_fini(ctld);
    query_fini(ctld);
    control_fini(ctld);
    auth_fini(ctld);
    signals_fini(events);
    daemon_fini(daemon);
    core_fini(ctld);
    return rc;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    struct ctld ctld = {.slurm_uid = (uid_t)-1};
    struct daemon daemon = {-1, -1, NULL};
    char *file = NULL;
    int rc = parse(argc, argv, &options);

    if (rc >= 0)
        return rc;
    log_to_stderr("adloaderctld");
    rc = EXIT_FAILURE;
    if (make_absolute(&options, &file) < 0)
        return rc;
    ctld.conf_file = options.file;
    ctld.conf = read_conf(&options);
    if (ctld.conf == NULL)
        rc = EXIT_FAILURE;
    else if (options.show)
        rc = conf_print(ctld.conf, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    else if (fit_host(&ctld, &options) < 0)
        rc = EXIT_FAILURE;
    else if (options.check)
        rc = say_good(&ctld);
    else if (options.foreground || daemon_detach(&daemon) == 0) {
        reload_apply(&ctld, options.foreground);
        rc = serve(&ctld, &daemon);
    }
    conf_free(ctld.conf);
    free(file);
    return rc;
}
