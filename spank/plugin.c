/*
 * The SPANK symbols: each callback goes to the file of the context that it is called in.
 *
 *     srun, sbatch, salloc   submit.c    checks the option; hands the environment's on
 *     slurmstepd             remote.c    starts and ends the step's agent
 *     slurmd                 topology.c  has the topology exported, once; clears what steps that
 *                                        were killed have left
 *     prolog and epilog      nothing
 *
 * In slurmstepd and slurmd every callback returns 0, always: adloader never fails a job, holds it
 * up or drains a node.
 */
#include "config.h"

#include "args.h"
#include "clients.h"
#include "log.h"
#include "remote.h"
#include "submit.h"
#include "topology.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* All of the plugin is hidden but what Slurm looks up. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
#pragma GCC visibility pop

#define ERROR_SIZE 1024

static int option_callback(int value, const char *optarg, int is_remote)
{
    (void)value;
    if (!is_remote)
        return submit_option(optarg);
    remote_option(optarg);
    return 0;
}

static struct spank_option option = {
    .name = (char *)(size_t) "adloader",
    .arginfo = (char *)(size_t) "on|off|key=value,...",
    .usage = (char *)(size_t) "let adloader move this job's data-loader cores between jobs; "
                              "hints: workers=MIN[-MAX] model=NAME batch=N profile=NAME "
                              "data=jpeg|raw|packed report",
    .has_arg = 2, /* optional: how a bare option then arrives is in options.h */
    .val = 0,
    .cb = option_callback,
};

static void init_submit(spank_t spank, int argc, char **argv, bool is_srun)
{
    struct args args;
    char error[ERROR_SIZE] = "";
    (void)args_parse(&args, argc, argv, error, sizeof error);
    submit_init(&args, error, is_srun);
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
        slurm_error("adloader: the option --adloader cannot be registered");
}

static void init_remote(spank_t spank, int argc, char **argv)
{
    struct args args;
    char error[ERROR_SIZE] = "";
    if (args_parse(&args, argc, argv, error, sizeof error) < 0)
        slurm_info("adloader: %s", error);
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
        slurm_info("adloader: the option --adloader cannot be registered");
    remote_init(spank, &args);
}

static void init_slurmd(int argc, char **argv)
{
    struct args args;
    char error[ERROR_SIZE] = "";
    if (args_parse(&args, argc, argv, error, sizeof error) < 0)
        slurm_info("adloader: %s", error);
    (void)clients_sweep(args.rundir);
    if (topology_export(&args) < 0)
        slurm_info("adloader: the topology is not exported by %s: %s", args.topology,
                   strerror(errno));
}

#pragma GCC visibility push(default)

SPANK_PLUGIN(adloader, 1)

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    switch (spank_context()) {
    case S_CTX_LOCAL:
        init_submit(spank, argc, argv, true);
        break;
    case S_CTX_ALLOCATOR:
        init_submit(spank, argc, argv, false);
        break;
    case S_CTX_REMOTE:
        init_remote(spank, argc, argv);
        break;
    case S_CTX_SLURMD:
        init_slurmd(argc, argv);
        break;
    default:
        break;
    }
    return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    (void)argc, (void)argv;
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        return submit_check();
    case S_CTX_REMOTE:
        remote_init_post_opt(spank);
        break;
    default:
        break;
    }
    return 0;
}

int slurm_spank_local_user_init(spank_t spank, int argc, char **argv)
{
    (void)spank, (void)argc, (void)argv;
    submit_launch();
    return 0;
}

int slurm_spank_user_init(spank_t spank, int argc, char **argv)
{
    (void)argc, (void)argv;
    remote_user_init(spank);
    return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    (void)argc, (void)argv;
    remote_task_init(spank);
    return 0;
}

int slurm_spank_task_post_fork(spank_t spank, int argc, char **argv)
{
    (void)argc, (void)argv;
    remote_task_post_fork(spank);
    return 0;
}

int slurm_spank_task_exit(spank_t spank, int argc, char **argv)
{
    (void)argc, (void)argv;
    remote_task_exit(spank);
    return 0;
}

int slurm_spank_exit(spank_t spank, int argc, char **argv)
{
    (void)argc, (void)argv;
    if (spank_context() == S_CTX_REMOTE)
        remote_exit(spank);
    return 0;
}

#pragma GCC visibility pop
