/*
 * adltrain's gradient exchange between real processes over TCP: sums against plain arithmetic,
 * that nobody gets ahead of the others, and ranks that are absent, dead, silent, doubled or
 * strangers. Also where a rank finds itself from the environment.
 */
#include "config.h"

#include "clock.h"
#include "log.h"
#include "ring.h"
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { RANKS_MAX = 5 };

/* ---- ranks are processes ------------------------------------------------------------------------
 */

/* What ranks tell each other behind the ring's back. */
struct shared {
    atomic_uint_fast64_t began_ns[RANKS_MAX], ended_ns[RANKS_MAX];
};
static struct shared *shared;

/* What a rank does; 0 is success. */
typedef int (*rank_body)(const struct world *world);

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    assert_int_equal(close(fd), 0);
    return ntohs(address.sin_port);
}

static struct world world_of(unsigned rank, unsigned ranks, uint16_t port)
{
    struct world world = {.rank = rank, .ranks = ranks, .port = port, .token = 77};

    (void)snprintf(world.master, sizeof world.master, "127.0.0.1");
    return world;
}

static pid_t start_rank(rank_body body, struct world world)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(60); /* nothing may hang */
        _exit(body(&world));
    }
    return pid;
}

static int status_of(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* bodies[r] for rank r; their exit statuses go to statuses. */
static void run_ranks(const rank_body *bodies, unsigned ranks, int *statuses)
{
    uint16_t port = free_port();
    pid_t pids[RANKS_MAX];

    for (unsigned rank = 0; rank < ranks; rank++)
        pids[rank] = start_rank(bodies[rank], world_of(rank, ranks, port));
    for (unsigned rank = 0; rank < ranks; rank++)
        statuses[rank] = status_of(pids[rank]);
}

static void all_do(rank_body body, unsigned ranks)
{
    rank_body bodies[RANKS_MAX] = {NULL};
    int statuses[RANKS_MAX];

    for (unsigned rank = 0; rank < ranks; rank++)
        bodies[rank] = body;
    run_ranks(bodies, ranks, statuses);
    for (unsigned rank = 0; rank < ranks; rank++)
        assert_int_equal(statuses[rank], 0);
}

static struct ring *join(const struct world *world, double timeout_s, double step_timeout_s)
{
    static atomic_int stop;
    return ring_join(world, timeout_s, step_timeout_s, &stop);
}

/* ---- sums -------------------------------------------------------------------------------------
 */

static float value_of(unsigned rank, size_t i)
{
    return (float)((rank + 1) * (i % 1000 + 1));
}

static bool is_sum(const float *values, size_t count, unsigned ranks)
{
    for (size_t i = 0; i < count; i++) {
        float wanted = (float)(ranks * (ranks + 1) / 2 * (i % 1000 + 1));

        if (values[i] < wanted || values[i] > wanted)
            return false;
    }
    return true;
}

/* Fewer values than ranks, numbers that do not divide, more than socket buffers hold. */
static int sum_many(const struct world *world)
{
    static const size_t counts[] = {1, 2, 3, 7, 1000, 100003, 3000001};
    struct ring *ring = join(world, 30.0, 30.0);

    if (ring == NULL)
        return 1;
    for (size_t c = 0; c < COUNT(counts); c++) {
        float *values = malloc(counts[c] * sizeof *values);

        if (values == NULL)
            return 2;
        for (size_t i = 0; i < counts[c]; i++)
            values[i] = value_of(world->rank, i);
        if (ring_sum(ring, values, counts[c]) < 0)
            return 3;
        if (!is_sum(values, counts[c], world->ranks))
            return 4;
        free(values);
    }
    ring_leave(ring);
    return 0;
}

static void sums_are_exact(void **state)
{
    (void)state;
    for (unsigned ranks = 1; ranks <= RANKS_MAX; ranks++)
        all_do(sum_many, ranks);
}

/* Ranks 0..2 meet at that host. */
static void sum_at(const char *master)
{
    uint16_t port = free_port();
    pid_t pids[3];

    for (unsigned rank = 0; rank < 3; rank++) {
        struct world world = world_of(rank, 3, port);

        (void)snprintf(world.master, sizeof world.master, "%s", master);
        pids[rank] = start_rank(sum_many, world);
    }
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(status_of(pids[rank]), 0);
}

/* An address of this host that is up, of that family, and loopback or not; false: it has none. */
static bool own_address(int family, bool loopback, char *text, socklen_t size)
{
    struct ifaddrs *all;
    bool found = false;

    assert_int_equal(getifaddrs(&all), 0);
    for (struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next) {
        socklen_t length =
            family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

        if (one->ifa_addr != NULL && one->ifa_addr->sa_family == family &&
            (one->ifa_flags & IFF_UP) && !(one->ifa_flags & IFF_LOOPBACK) == !loopback)
            found = getnameinfo(one->ifa_addr, length, text, size, NULL, 0, NI_NUMERICHOST) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* Where ranks see each other's true addresses, as on several nodes. */
static void ranks_meet_at_an_outside_address(void **state)
{
    char address[WORLD_HOST_MAX];

    (void)state;
    if (!own_address(AF_INET, false, address, sizeof address))
        skip();
    sum_at(address);
}

static void ranks_meet_over_ipv6(void **state)
{
    char address[WORLD_HOST_MAX];

    (void)state;
    if (!own_address(AF_INET6, true, address, sizeof address))
        skip();
    sum_at(address);
}

struct block {
    double rank, square;
    char text[13];
};

static int gather_blocks(const struct world *world)
{
    struct block blocks[RANKS_MAX] = {0};
    struct ring *ring = join(world, 30.0, 30.0);

    if (ring == NULL)
        return 1;
    blocks[world->rank] = (struct block){.rank = world->rank, .square = world->rank * world->rank};
    (void)snprintf(blocks[world->rank].text, sizeof blocks->text, "rank %u", world->rank);
    if (ring_gather(ring, blocks, sizeof blocks[0]) < 0)
        return 2;
    ring_leave(ring);
    for (unsigned rank = 0; rank < world->ranks; rank++) {
        char text[16];

        (void)snprintf(text, sizeof text, "rank %u", rank);
        if (strcmp(blocks[rank].text, text) != 0 || (unsigned)blocks[rank].square != rank * rank)
            return 3;
    }
    return 0;
}

static void blocks_reach_everybody(void **state)
{
    (void)state;
    for (unsigned ranks = 1; ranks <= RANKS_MAX; ranks++)
        all_do(gather_blocks, ranks);
}

/* The last rank comes late to each exchange. */
static int exchange_with_a_late_rank(const struct world *world)
{
    struct ring *ring = join(world, 30.0, 30.0);
    float value = 1.0f;

    if (ring == NULL)
        return 1;
    if (world->rank == world->ranks - 1)
        (void)usleep(150000);
    atomic_store(&shared->began_ns[world->rank], clock_monotonic_ns());
    if (ring_sum(ring, &value, 1) < 0)
        return 2;
    atomic_store(&shared->ended_ns[world->rank], clock_monotonic_ns());
    ring_leave(ring);
    return 0;
}

static void nobody_ends_before_all_have_begun(void **state)
{
    (void)state;
    all_do(exchange_with_a_late_rank, 3);
    for (int ended = 0; ended < 3; ended++)
        for (int began = 0; began < 3; began++)
            assert_true(atomic_load(&shared->ended_ns[ended]) >=
                        atomic_load(&shared->began_ns[began]));
}

/* ---- ranks that fail ----------------------------------------------------------------------------
 */

static int vanish(const struct world *world)
{
    struct ring *ring = join(world, 30.0, 30.0);
    float value = 1.0f;

    if (ring == NULL || ring_sum(ring, &value, 1) < 0)
        return 1;
    return 0; /* dies with the ring open */
}

static int fall_silent(const struct world *world)
{
    struct ring *ring = join(world, 30.0, 30.0);
    float value = 1.0f;

    if (ring == NULL || ring_sum(ring, &value, 1) < 0)
        return 1;
    (void)sleep(4); /* longer than the others' patience */
    return 0;
}

/* 0: the first exchange went well and the second failed. */
static int expect_a_loss(const struct world *world)
{
    struct ring *ring = join(world, 30.0, 1.0);
    float values[1000] = {0};

    log_set_level(LOG_LEVEL_ERROR);
    if (ring == NULL || ring_sum(ring, values, 1) < 0)
        return 1;
    if (ring_sum(ring, values, COUNT(values)) == 0)
        return 2;
    ring_leave(ring);
    return 0;
}

static void a_lost_rank_is_noticed_by_all(void **state)
{
    const rank_body losses[] = {vanish, fall_silent};

    (void)state;
    for (size_t i = 0; i < COUNT(losses); i++) {
        rank_body bodies[] = {expect_a_loss, expect_a_loss, losses[i]};
        int statuses[3];

        run_ranks(bodies, 3, statuses);
        for (int rank = 0; rank < 3; rank++)
            assert_int_equal(statuses[rank], 0);
    }
}

static int stay_away(const struct world *world)
{
    (void)world;
    return 0;
}

static int expect_no_ring(const struct world *world)
{
    struct ring *ring = join(world, 0.7, 1.0);
    return ring == NULL ? 0 : 1;
}

static void an_absent_rank_ends_the_meeting(void **state)
{
    rank_body absent[] = {expect_no_ring, expect_no_ring, stay_away};
    rank_body no_master[] = {stay_away, expect_no_ring, expect_no_ring};
    int statuses[3];

    (void)state;
    run_ranks(absent, 3, statuses);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(statuses[rank], 0);
    run_ranks(no_master, 3, statuses);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(statuses[rank], 0);
}

static int expect_no_ring_long(const struct world *world)
{
    return join(world, 30.0, 1.0) == NULL ? 0 : 1;
}

static void two_of_the_same_rank_are_refused(void **state)
{
    uint16_t port = free_port();
    pid_t pids[3];

    (void)state;
    pids[0] = start_rank(expect_no_ring_long, world_of(0, 3, port));
    pids[1] = start_rank(expect_no_ring_long, world_of(1, 3, port));
    pids[2] = start_rank(expect_no_ring_long, world_of(1, 3, port));
    for (int i = 0; i < 3; i++)
        assert_int_equal(status_of(pids[i]), 0);
}

/* A stranger at the door: a connection with that content, kept open until the end. */
static int knock(uint16_t port, const void *data, size_t length)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (int i = 0; i < 200; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
            if (length > 0)
                assert_true(send(fd, data, length, MSG_NOSIGNAL) == (ssize_t)length);
            return fd;
        }
        (void)close(fd);
        (void)usleep(20000);
    }
    fail_msg("rank 0 does not listen");
    return -1;
}

static void strangers_do_not_disturb(void **state)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything\r\n\r\n";
    uint16_t port = free_port();
    struct world foreign = world_of(1, 3, port);
    int strangers[2];
    pid_t pids[4];

    (void)state;
    foreign.token = 78; /* a rank of another job */
    pids[0] = start_rank(sum_many, world_of(0, 3, port));
    strangers[0] = knock(port, request, sizeof request - 1);
    strangers[1] = knock(port, NULL, 0); /* silent */
    pids[3] = start_rank(expect_no_ring, foreign);
    assert_int_equal(status_of(pids[3]), 0);
    pids[1] = start_rank(sum_many, world_of(1, 3, port));
    pids[2] = start_rank(sum_many, world_of(2, 3, port));
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(status_of(pids[rank]), 0);
    (void)close(strangers[0]);
    (void)close(strangers[1]);
}

static void a_stop_ends_the_meeting(void **state)
{
    struct world world = world_of(0, 2, free_port());
    atomic_int stop = 15;

    (void)state;
    assert_null(ring_join(&world, 3600.0, 3600.0, &stop));
}

/* ---- where am I ---------------------------------------------------------------------------------
 */

struct setting {
    const char *name, *value;
};

static const char *const names[] = {
    "SLURM_STEP_ID", "SLURM_PROCID",        "SLURM_STEP_NUM_TASKS",     "SLURM_NTASKS",
    "SLURM_JOB_ID",  "SLURM_STEP_NODELIST", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_STEP_NUM_NODES",
    "SLURM_LOCALID",
};

static void set_environment(const struct setting *settings)
{
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(unsetenv(names[i]), 0);
    for (; settings->name != NULL; settings++)
        assert_int_equal(setenv(settings->name, settings->value, 1), 0);
}

static void the_place_among_ranks_comes_from_slurm_or_options(void **state)
{
    static const struct setting none[] = {{NULL, NULL}};
    static const struct setting batch[] = {
        {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "5"}, {NULL, NULL}};
    static const struct setting batch_step[] = {{"SLURM_STEP_ID", "4294967291"},
                                                {"SLURM_PROCID", "0"},
                                                {"SLURM_STEP_NUM_TASKS", "4"},
                                                {"SLURM_JOB_ID", "5"},
                                                {NULL, NULL}};
    static const struct setting one_node[] = {{"SLURM_STEP_ID", "0"},
                                              {"SLURM_PROCID", "2"},
                                              {"SLURM_STEP_NUM_TASKS", "4"},
                                              {"SLURM_NTASKS", "9"},
                                              {"SLURM_JOB_ID", "5"},
                                              {"SLURM_STEP_NODELIST", "nowhere7"},
                                              {NULL, NULL}};
    static const struct setting two_nodes[] = {{"SLURM_STEP_ID", "1"},
                                               {"SLURM_PROCID", "3"},
                                               {"SLURM_STEP_NUM_TASKS", "5"},
                                               {"SLURM_JOB_ID", "5"},
                                               {"SLURM_STEP_NODELIST", "localhost,nowhere7"},
                                               {NULL, NULL}};
    static const struct setting unresolved[] = {{"SLURM_STEP_ID", "1"},
                                                {"SLURM_PROCID", "0"},
                                                {"SLURM_STEP_NUM_TASKS", "2"},
                                                {"SLURM_JOB_ID", "5"},
                                                {"SLURM_STEP_NODELIST", "nowhere[7-8].invalid"},
                                                {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.9"},
                                                {NULL, NULL}};
    static const struct setting nonsense[] = {
        {"SLURM_STEP_ID", "1"}, {"SLURM_PROCID", "4"}, {"SLURM_STEP_NUM_TASKS", "2"}, {NULL, NULL}};
    static const struct setting no_number[] = {{"SLURM_STEP_ID", "1"},
                                               {"SLURM_PROCID", "2x"},
                                               {"SLURM_STEP_NUM_TASKS", "4"},
                                               {NULL, NULL}};
    const struct {
        const struct setting *environment;
        long rank, ranks;
        const char *master;
        int rc;
        unsigned found_rank, found_ranks;
        const char *found_master;
    } cases[] = {
        {none, -1, -1, NULL, 0, 0, 1, ""},
        {none, 1, 2, "127.0.0.1:9999", 0, 1, 2, "127.0.0.1"},
        {none, 1, 2, "[::1]:9999", 0, 1, 2, "::1"},
        {none, 1, 2, NULL, -1, 0, 0, NULL},
        {none, 1, 2, "127.0.0.1", -1, 0, 0, NULL},
        {none, 1, 2, "127.0.0.1:0", -1, 0, 0, NULL},
        {none, 1, 2, "127.0.0.1:70000", -1, 0, 0, NULL},
        {none, 1, 2, ":1000", -1, 0, 0, NULL},
        {none, 1, 2, "host:12x", -1, 0, 0, NULL},
        {batch, -1, -1, NULL, 0, 0, 1, ""},
        {one_node, -1, -1, NULL, 0, 2, 4, "127.0.0.1"},
        {two_nodes, -1, -1, NULL, 0, 3, 5, "localhost"},
        {two_nodes, -1, -1, "127.0.0.1:9", 0, 3, 5, "127.0.0.1"},
        {two_nodes, 0, 1, NULL, 0, 0, 1, ""},
        {batch_step, -1, -1, NULL, 0, 0, 1, ""},
        {unresolved, -1, -1, NULL, 0, 0, 2, "127.0.0.9"},
        {nonsense, -1, -1, NULL, -1, 0, 0, NULL},
        {no_number, -1, -1, NULL, -1, 0, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct world world;

        set_environment(cases[i].environment);
        assert_int_equal(world_find(cases[i].rank, cases[i].ranks, cases[i].master, &world),
                         cases[i].rc);
        if (cases[i].rc < 0)
            continue;
        assert_int_equal(world.rank, cases[i].found_rank);
        assert_int_equal(world.ranks, cases[i].found_ranks);
        assert_string_equal(world.master, cases[i].found_master);
        assert_true(world.ranks == 1 || world.port > 0);
    }
    set_environment(none);
}

/* All ranks of a step must agree; two steps should not. */
static void ranks_of_a_step_agree_on_where_to_meet(void **state)
{
    struct world worlds[2][2];

    (void)state;
    for (int step = 0; step < 2; step++) {
        for (int rank = 0; rank < 2; rank++) {
            const struct setting settings[] = {{"SLURM_STEP_ID", step == 0 ? "0" : "1"},
                                               {"SLURM_PROCID", rank == 0 ? "0" : "1"},
                                               {"SLURM_STEP_NUM_TASKS", "2"},
                                               {"SLURM_JOB_ID", "4711"},
                                               {"SLURM_STEP_NODELIST", "n1"},
                                               {NULL, NULL}};

            set_environment(settings);
            assert_int_equal(world_find(-1, -1, NULL, &worlds[step][rank]), 0);
        }
        assert_int_equal(worlds[step][0].port, worlds[step][1].port);
        assert_true(worlds[step][0].token == worlds[step][1].token);
    }
    assert_int_not_equal(worlds[0][0].port, worlds[1][0].port);
    assert_true(worlds[0][0].token != worlds[1][0].token);
    set_environment(&(struct setting){NULL, NULL});
}

static void nodes_and_local_numbers_are_known_as_far_as_slurm_says(void **state)
{
    const struct {
        const char *nodes, *local;
        unsigned found_nodes;
        int found_local;
    } cases[] = {
        {"2", "1", 2, 1},  {NULL, NULL, 1, -1}, {"0", "-1", 1, -1},
        {"9", "x", 1, -1}, {"4", "0", 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct setting settings[] = {
            {"SLURM_STEP_ID", "0"},
            {"SLURM_PROCID", "2"},
            {"SLURM_STEP_NUM_TASKS", "4"},
            {"SLURM_JOB_ID", "5"},
            {"SLURM_STEP_NODELIST", "n1"},
            {cases[i].nodes == NULL ? NULL : "SLURM_STEP_NUM_NODES", cases[i].nodes},
            {cases[i].local == NULL ? NULL : "SLURM_LOCALID", cases[i].local},
            {NULL, NULL}};
        struct world world;

        set_environment(settings);
        assert_int_equal(world_find(-1, -1, NULL, &world), 0);
        assert_int_equal(world.nodes, cases[i].found_nodes); /* never more than ranks */
        assert_int_equal(world.local, cases[i].found_local);
    }
    set_environment(&(struct setting){NULL, NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(ranks_meet_at_an_outside_address),
        cmocka_unit_test(ranks_meet_over_ipv6),
        cmocka_unit_test(blocks_reach_everybody),
        cmocka_unit_test(nobody_ends_before_all_have_begun),
        cmocka_unit_test(a_lost_rank_is_noticed_by_all),
        cmocka_unit_test(an_absent_rank_ends_the_meeting),
        cmocka_unit_test(two_of_the_same_rank_are_refused),
        cmocka_unit_test(strangers_do_not_disturb),
        cmocka_unit_test(a_stop_ends_the_meeting),
        cmocka_unit_test(the_place_among_ranks_comes_from_slurm_or_options),
        cmocka_unit_test(ranks_of_a_step_agree_on_where_to_meet),
        cmocka_unit_test(nodes_and_local_numbers_are_known_as_far_as_slurm_says),
    };

    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("adltrain ring", tests, NULL, NULL);
}
