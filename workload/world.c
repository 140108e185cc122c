/* Where this process stands among the ranks of its job. */
#include "config.h"

#include "world.h"

#include "conf.h"
#include "log.h"
#include "netaddr.h"
#include "rng.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define STEP_NUMBER_LAST 0xffffffefl /* Slurm's special steps (batch, extern...) lie above */

#define PORT_FIRST 20000u
#define PORT_COUNT                                                                                 \
    12000u /* below the kernel's range for outgoing connections, which starts at 32768 */

/* A number from the environment, or -1. */
static long number_from(const char *name, long highest)
{
    const char *text = getenv(name);
    long value;
    char *end;

    if (text == NULL || *text == '\0')
        return -1;
    errno = 0;
    value = strtol(text, &end, 10);
    return errno != 0 || *end != '\0' || value < 0 || value > highest ? -1 : value;
}

static bool resolves(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;

    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    freeaddrinfo(found);
    return true;
}

/* HOST:PORT or [IPv6]:PORT. */
static int parse_master(const char *text, struct world *world)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon == NULL ? 0 : (size_t)(colon - text);
    unsigned port;

    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof world->master ||
        !netaddr_port(colon + 1, strlen(colon + 1), &port)) {
        log_error("--master %s: HOST:PORT is wanted, with a port from 1 to 65535", text);
        return -1;
    }
    memcpy(world->master, text, length);
    world->master[length] = '\0';
    world->port = (uint16_t)port;
    return 0;
}

static int set_master(struct world *world, const char *host)
{
    if (host == NULL || strlen(host) >= sizeof world->master)
        return -1;
    (void)snprintf(world->master, sizeof world->master, "%s", host);
    return 0;
}

/* Rank 0's node: the first one of the step. */
static int find_master(struct world *world)
{
    const char *list = getenv("SLURM_STEP_NODELIST"),
               *launcher = getenv("SLURM_LAUNCH_NODE_IPADDR");
    size_t count = 0;
    char **names = list == NULL ? NULL : conf_hostlist(list, &count);
    int rc = -1;

    if (names != NULL && count == 1)
        rc = set_master(world, "127.0.0.1");
    else if (names != NULL && count > 1 && resolves(names[0]))
        rc = set_master(world, names[0]);
    else if (launcher != NULL && *launcher != '\0')
        rc = set_master(world, launcher);
    if (rc < 0)
        log_error("cannot tell where rank 0 is: SLURM_STEP_NODELIST is %s; give --master HOST:PORT",
                  list == NULL ? "not set" : list);
    conf_hostlist_free(names);
    return rc;
}

static uint64_t mix_text(uint64_t state, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        state = rng_mix(state ^ (unsigned char)*text);
    return state;
}

static int find_meeting_point(const char *master, struct world *world)
{
    uint64_t who = rng_mix(rng_mix((uint64_t)world->job) ^ (uint64_t)world->step);

    world->port = (uint16_t)(PORT_FIRST + who % PORT_COUNT);
    world->token = rng_mix(mix_text(who, master) ^ world->ranks);
    if (master != NULL)
        return parse_master(master, world);
    if (world->job < 0) {
        log_error("--ranks %u outside Slurm needs --master HOST:PORT, the address of rank 0",
                  world->ranks);
        return -1;
    }
    return find_master(world);
}

/*
 * Only srun numbers steps and their tasks: the batch script's own environment is not a rank, though
 * it has SLURM_PROCID, and its step, where it is named at all, has a number from the top.
 */
static bool is_task_of_a_step(void)
{
    long step = number_from("SLURM_STEP_ID", STEP_NUMBER_LAST);

    return step >= 0 && getenv("SLURM_PROCID") != NULL && getenv("SLURM_STEP_NUM_TASKS") != NULL;
}

static int find_in_slurm(struct world *world)
{
    long rank = number_from("SLURM_PROCID", WORLD_RANKS_MAX - 1);
    long ranks = number_from("SLURM_STEP_NUM_TASKS", WORLD_RANKS_MAX), nodes;

    if (rank < 0 || ranks < 1 || rank >= ranks) {
        log_error("SLURM_PROCID %s of SLURM_STEP_NUM_TASKS %s makes no sense (at most %u ranks): "
                  "give --rank and --ranks",
                  getenv("SLURM_PROCID"), getenv("SLURM_STEP_NUM_TASKS"), WORLD_RANKS_MAX);
        return -1;
    }
    world->rank = (unsigned)rank;
    world->ranks = (unsigned)ranks;
    world->job = number_from("SLURM_JOB_ID", (long)UINT32_MAX);
    world->step = number_from("SLURM_STEP_ID", STEP_NUMBER_LAST);
    world->local = (int)number_from("SLURM_LOCALID", WORLD_RANKS_MAX - 1);
    nodes = number_from("SLURM_STEP_NUM_NODES", ranks);
    world->nodes = nodes < 1 ? 1 : (unsigned)nodes;
    return 0;
}

int world_find(long rank, long ranks, const char *master, struct world *world)
{
    *world = (struct world){.ranks = 1, .job = -1, .step = -1, .nodes = 1, .local = -1};
    if (rank >= 0) {
        world->rank = (unsigned)rank;
        world->ranks = (unsigned)ranks;
    } else if (is_task_of_a_step() && find_in_slurm(world) < 0) {
        return -1;
    }
    return world->ranks == 1 ? 0 : find_meeting_point(master, world);
}
