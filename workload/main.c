/* adltrain: the reference training job, and the maker of its data. */
#include "config.h"

#include "clock.h"
#include "dataset.h"
#include "log.h"
#include "options.h"
#include "summary.h"
#include "trainer.h"
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static atomic_int stop_signal; /* for make-data; a run takes its signals by descriptor */

static void note_signal(int number)
{
    atomic_store(&stop_signal, number);
}

static int make_data(const struct dataset_config *config)
{
    struct sigaction action = {.sa_handler = note_signal};
    struct dataset_result result;
    uint64_t start = clock_monotonic_ns();
    int rc;

    if (sigaction(SIGTERM, &action, NULL) < 0 || sigaction(SIGINT, &action, NULL) < 0)
        log_warning("cannot take signals: %s", strerror(errno));
    rc = dataset_make(config, &stop_signal, &result);
    if (rc < 0)
        return 1;
    if (printf("adltrain make-data %s: %" PRIu32 " images made (mean %.1f kB), %" PRIu32
               " were there, %.1f s%s\n",
               config->folder, result.made,
               result.made == 0 ? 0.0 : 1e-3 * (double)result.bytes / result.made, result.kept,
               1e-9 * (double)(clock_monotonic_ns() - start),
               rc == 1 ? "; stopped: the same command continues it" : "") < 0)
        return 1;
    return rc == 1 ? 128 + atomic_load(&stop_signal) : 0;
}

/* Signals are blocked before any thread starts; the monitor takes them. */
static int run(struct run_options *options)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct world world;
    sigset_t set;

    if (sigemptyset(&set) < 0 || sigaddset(&set, SIGTERM) < 0 || sigaddset(&set, SIGINT) < 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) < 0 || sigaction(SIGPIPE, &ignore, NULL) < 0) {
        log_error("cannot set up signals: %s", strerror(errno));
        return 1;
    }
    if (world_find(options->rank, options->ranks, options->master, &world) < 0)
        return 2;
    if (summary_check(options->json, world.rank) < 0) /* not after hours of training */
        return 1;
    return trainer_run(options);
}

int main(int argc, char **argv)
{
    struct options options;
    int status = 0;

    log_to_stderr("adltrain");
    if (options_parse(argc, argv, &options) < 0)
        status = 2;
    else if (options.command == OPTIONS_MAKE_DATA)
        status = make_data(&options.make);
    else if (options.command == OPTIONS_RUN)
        status = run(&options.run);
    options_free(&options);
    return status;
}
