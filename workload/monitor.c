/* The thread beside the training loop. */
#include "config.h"

#include "monitor.h"

#include "clock.h"
#include "log.h"
#include "workers.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Launchers signal a process and its group: what comes so soon after the first is no second wish.
 */
#define SAME_REQUEST_NS 1000000000u

/* What a line is made of, at one moment. */
struct moment {
    struct totals totals;
    struct loader_totals loader;
};

struct monitor {
    struct monitor_config config;
    pthread_t thread;
    int signals, wake;
    uint64_t start_ns, next_ns; /* next line */
    uint64_t asked_ns;          /* when the first signal came */
    struct moment last;
    bool mute; /* standard output is gone */
};

static double since_start(const struct monitor *monitor)
{
    return 1e-9 * (double)(clock_monotonic_ns() - monitor->start_ns);
}

/* ---- looking --------------------------------------------------------------------------------- */

static struct moment look(struct monitor *monitor)
{
    struct moment moment = {.totals = progress_now(monitor->config.progress)};

    loader_totals(monitor->config.loader, &moment.loader);
    return moment;
}

/* The loaders' cores as they are now go to the record; returns their list form (free it) or NULL.
 */
static char *look_at_cores(struct monitor *monitor, unsigned *workers, unsigned *cores)
{
    struct cpus cpus = CPUS_EMPTY;
    char *list = NULL;

    *workers = loader_workers(monitor->config.loader);
    if (loader_cpus(monitor->config.loader, &cpus) == 0)
        list = cpus_to_string(&cpus);
    *cores = cpus_count(&cpus);
    cpus_free(&cpus);
    if (list != NULL)
        record_cores(monitor->config.record, since_start(monitor), *workers, *cores, list);
    return list;
}

static struct record_point point_between(double t_s, const struct moment *from,
                                         const struct moment *to)
{
    double elapsed = totals_elapsed(&to->totals) - totals_elapsed(&from->totals);
    double per_s = elapsed > 0.0 ? 1.0 / elapsed : 0.0;

    return (struct record_point){
        .t_s = t_s,
        .samples_per_s = per_s * (double)(to->totals.samples - from->totals.samples),
        .gpu_busy = totals_share(&from->totals, &to->totals, PHASE_COMPUTE),
        .wait = totals_share(&from->totals, &to->totals, PHASE_WAIT),
        .exchange = totals_share(&from->totals, &to->totals, PHASE_EXCHANGE),
        .loader_cpu_cores = per_s * (to->loader.cpu_s - from->loader.cpu_s),
    };
}

/* ---- saying ---------------------------------------------------------------------------------- */

static void print_line(struct monitor *monitor, const struct record_point *point, unsigned workers,
                       unsigned cores, const char *cpus)
{
    const struct run_options *options = monitor->config.options;

    if (options->quiet || monitor->mute)
        return;
    if (printf("adltrain rank=%u t_s=%.2f samples_per_s=%.1f gpu=%s gpu_busy=%.3f wait=%.3f "
               "exchange=%.3f loaders=%u cores=%u cpus=%s loader_cpu_cores=%.2f\n",
               monitor->config.rank, point->t_s, point->samples_per_s, options_gpu(options),
               point->gpu_busy, point->wait, point->exchange, workers, cores, cpus,
               point->loader_cpu_cores) < 0 ||
        fflush(stdout) != 0) {
        monitor->mute = true;
        log_warning("standard output is gone (%s): no more lines", strerror(errno));
    }
}

static void tick(struct monitor *monitor)
{
    struct moment now = look(monitor);
    struct record_point point = point_between(since_start(monitor), &monitor->last, &now);
    unsigned workers, cores;
    char *cpus = look_at_cores(monitor, &workers, &cores);

    record_point(monitor->config.record, &point);
    print_line(monitor, &point, workers, cores, cpus == NULL ? "?" : cpus);
    free(cpus);
    monitor->last = now;
}

/* ---- following ------------------------------------------------------------------------------- */

static void follow(struct monitor *monitor)
{
    const struct monitor_config *config = &monitor->config;
    struct adloader_change change;
    unsigned workers, cores;

    while (adloader_next_change(config->client, &change) == 1) {
        (void)loader_set_workers(
            config->loader, workers_wanted(config->options, config->mask_size, config->client));
        free(look_at_cores(monitor, &workers, &cores));
    }
}

static void take_signal(struct monitor *monitor)
{
    struct signalfd_siginfo info;
    uint64_t now_ns;

    if (read(monitor->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    now_ns = clock_monotonic_ns();
    if (atomic_load(monitor->config.stop) != 0 && now_ns < monitor->asked_ns + SAME_REQUEST_NS)
        return;
    if (atomic_load(monitor->config.stop) != 0) {
        log_error("second signal: ending at once");
        _exit(128 + (int)info.ssi_signo);
    }
    log_info("%s: stopping after this step", strsignal((int)info.ssi_signo));
    monitor->asked_ns = now_ns;
    atomic_store(monitor->config.stop, (int)info.ssi_signo);
    batches_stop(monitor->config.queue);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int milliseconds_to(uint64_t at_ns)
{
    uint64_t now = clock_monotonic_ns();
    return at_ns <= now ? 0 : (int)((at_ns - now + 999999u) / 1000000u);
}

static void *watch(void *argument)
{
    struct monitor *monitor = argument;
    uint64_t interval_ns = (uint64_t)(monitor->config.options->interval_s * 1e9);
    int client = adloader_fd(monitor->config.client);

    for (;;) {
        struct pollfd entries[3] = {
            {.fd = monitor->wake, .events = POLLIN},
            {.fd = monitor->signals, .events = POLLIN},
            {.fd = client, .events = POLLIN}, /* -1, no client, is passed over */
        };

        if (poll(entries, 3, milliseconds_to(monitor->next_ns)) < 0 && errno != EINTR) {
            log_error("poll: %s: no more lines, and signals are not taken", strerror(errno));
            return NULL;
        }
        if (entries[0].revents != 0)
            return NULL;
        if (entries[1].revents != 0)
            take_signal(monitor);
        if (entries[2].revents != 0)
            follow(monitor);
        if (clock_monotonic_ns() >= monitor->next_ns) {
            tick(monitor);
            while (monitor->next_ns <= clock_monotonic_ns())
                monitor->next_ns += interval_ns;
        }
    }
}

static void monitor_free(struct monitor *monitor)
{
    if (monitor->signals >= 0)
        (void)close(monitor->signals);
    if (monitor->wake >= 0)
        (void)close(monitor->wake);
    free(monitor);
}

static int open_sources(struct monitor *monitor)
{
    sigset_t set;

    if (sigemptyset(&set) < 0 || sigaddset(&set, SIGTERM) < 0 || sigaddset(&set, SIGINT) < 0)
        return -1;
    monitor->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    monitor->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return monitor->signals < 0 || monitor->wake < 0 ? -1 : 0;
}

struct monitor *monitor_start(const struct monitor_config *config)
{
    struct monitor *monitor = calloc(1, sizeof *monitor);
    unsigned workers, cores;
    int rc;

    if (monitor == NULL) {
        log_error("out of memory");
        return NULL;
    }
    monitor->config = *config;
    monitor->signals = monitor->wake = -1;
    monitor->start_ns = clock_monotonic_ns();
    monitor->next_ns = monitor->start_ns + (uint64_t)(config->options->interval_s * 1e9);
    monitor->last = look(monitor);
    if (open_sources(monitor) < 0) {
        log_error("cannot watch for signals: %s", strerror(errno));
        monitor_free(monitor);
        return NULL;
    }
    free(look_at_cores(monitor, &workers, &cores));
    rc = pthread_create(&monitor->thread, NULL, watch, monitor);
    if (rc != 0) {
        log_error("cannot start the monitor thread: %s", strerror(rc));
        monitor_free(monitor);
        return NULL;
    }
    (void)pthread_setname_np(monitor->thread, "adl-monitor");
    return monitor;
}

void monitor_stop(struct monitor *monitor)
{
    uint64_t one = 1;
    unsigned workers, cores;

    if (monitor == NULL)
        return;
    if (write(monitor->wake, &one, sizeof one) < 0)
        log_warning("cannot wake the monitor thread: %s", strerror(errno));
    (void)pthread_join(monitor->thread, NULL);
    free(look_at_cores(monitor, &workers, &cores));
    monitor_free(monitor);
}
