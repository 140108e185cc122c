/* Which tasks are loaders: a table of names, and of processes as they occur in training jobs. */
#include "config.h"

#include "classify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *comm;
        enum name_kind kind;
    } cases[] = {
        {"pt_data_worker", NAME_LOADER},
        {"pt_data_pin", NAME_PIN},
        {"pt_main_thread", NAME_NEVER},
        {"pt_autograd_0", NAME_COMMUNICATION},
        {"pt_autograd_15", NAME_COMMUNICATION},
        {"pt_nccl_watchdg", NAME_COMMUNICATION},
        {"pt_nccl_heartbt", NAME_COMMUNICATION},
        {"pt_tcpstore_uv", NAME_NEVER},
        {"pt_elastic", NAME_NEVER},
        {"[DALI][TP0]Thre", NAME_LOADER},
        {"[DALI][WT]CPU e", NAME_LOADER},
        {"tf_data_private", NAME_LOADER},
        {"tf_Compute", NAME_PLAIN},
        {"spdl_worker_thr", NAME_LOADER},
        {"adl-loader", NAME_LOADER},
        {"adl-monitor", NAME_PLAIN},
        {"cuda-EvtHandlr", NAME_COMMUNICATION},
        {"cuda00001400006", NAME_COMMUNICATION},
        {"NCCL Service 0", NAME_COMMUNICATION},
        {"python", NAME_PLAIN},
        {"python3", NAME_PLAIN},
        {"", NAME_PLAIN},
        {"a pt_data_worke", NAME_PLAIN},
        {"PT_DATA_WORKER", NAME_PLAIN},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (classify_name(cases[i].comm) != cases[i].kind)
            fail_msg("\"%s\" is %d, not %d", cases[i].comm, (int)classify_name(cases[i].comm),
                     (int)cases[i].kind);
}

static void programs(void **state)
{
    (void)state;
    assert_true(classify_is_launcher("bash"));
    assert_true(classify_is_launcher("dash"));
    assert_true(classify_is_launcher("srun"));
    assert_false(classify_is_launcher("python3.11"));
    assert_false(classify_is_launcher("adltrain"));
    assert_false(classify_is_launcher(""));
    static const char compile[] = "python\0-u\0/venv/torch/_inductor/compile_worker/__main__.py\0";
    static const char train[] = "python\0train.py\0--workers\0"
                                "8\0";
    static const char spawn[] = "python\0-c\0from multiprocessing.spawn import spawn_main; ...\0";
    static const char server[] = "python\0-c\0from multiprocessing.forkserver import main; ...\0";
    assert_int_equal(classify_command(compile, sizeof compile - 1), COMMAND_HELPER);
    assert_int_equal(classify_command(train, sizeof train - 1), COMMAND_PLAIN);
    assert_int_equal(classify_command(compile, 9), COMMAND_PLAIN); /* length counts, not NULs */
    assert_int_equal(classify_command(spawn, sizeof spawn - 1), COMMAND_SPAWNED);
    assert_int_equal(classify_command(server, sizeof server - 1), COMMAND_SERVER);
    assert_int_equal(classify_command("", 0), COMMAND_PLAIN);
}

/* What is seen of a process, as bits, so that a table can name those that it is about. */
enum {
    RANK = 1 << 0,
    OWN_IMAGE = 1 << 1,
    KNOWN_PARENT = 1 << 2,
    LOADER_PARENT = 1 << 3,
    SAME_IMAGE = 1 << 4,
    LAUNCHER = 1 << 5,
    HELPER_PARENT = 1 << 6,
    HAS_WORKERS = 1 << 7,
    TRAINER_THREADS = 1 << 8,
    ANNOUNCED = 1 << 9,
    WAS_LOADER = 1 << 10,
    GPU = 1 << 11,
    MASTER_GPU = 1 << 12,
    MASTER_ACTIVE = 1 << 13,
    MASTER_IDLE = 1 << 14,
    SPAWNED = 1 << 15,
    SERVER_PARENT = 1 << 16,
    OPENED_GPU = 1 << 17,
    TCP_KNOWN = 1 << 18,
    OWN_TCP = 1 << 19,
    ALL_BITS = (1 << 20) - 1,
    FORKED = KNOWN_PARENT | SAME_IMAGE, /* as PyTorch before 2.6 does: only its descent tells */
    SPAWN = KNOWN_PARENT | SPAWNED
};

static struct process_view view_of(unsigned bits, const char *comm, uint64_t age_ms)
{
    return (struct process_view){.is_rank = bits & RANK,
                                 .not_yet_program = bits & OWN_IMAGE,
                                 .parent_known = bits & KNOWN_PARENT,
                                 .parent_loader = bits & LOADER_PARENT,
                                 .parent_helper = bits & HELPER_PARENT,
                                 .parent_server = bits & SERVER_PARENT,
                                 .forked = bits & SAME_IMAGE,
                                 .launcher = bits & LAUNCHER,
                                 .was_loader = bits & WAS_LOADER,
                                 .has_workers = bits & HAS_WORKERS,
                                 .trainer_threads = bits & TRAINER_THREADS,
                                 .announced = bits & ANNOUNCED,
                                 .gpu = bits & GPU,
                                 .master_gpu = bits & MASTER_GPU,
                                 .master_active = bits & MASTER_ACTIVE,
                                 .master_idle = bits & MASTER_IDLE,
                                 .opened_gpu = bits & OPENED_GPU,
                                 .tcp_known = bits & TCP_KNOWN,
                                 .own_tcp = bits & OWN_TCP,
                                 .command = bits & SPAWNED ? COMMAND_SPAWNED : COMMAND_PLAIN,
                                 .comm = comm,
                                 .age_ms = age_ms};
}

static void processes(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        unsigned bits;
        const char *comm;
        uint64_t age_ms;
        enum task_role role;
    } cases[] = {
        {"a forked worker of who trains", FORKED | MASTER_ACTIVE | TCP_KNOWN, "python", 5000,
         ROLE_LOADER},
        {"... not looked at whether it talks to others", FORKED | MASTER_ACTIVE, "python", 900,
         ROLE_UNDECIDED},
        {"forked by who trains, talks to others", FORKED | MASTER_ACTIVE | TCP_KNOWN | OWN_TCP,
         "python", 5000, ROLE_UNKNOWN},
        {"taken for a worker, then talks to others", FORKED | WAS_LOADER | TCP_KNOWN | OWN_TCP,
         "python", 5000, ROLE_UNKNOWN},
        {"a named worker that reads over the network", FORKED | TCP_KNOWN | OWN_TCP,
         "pt_data_worker", 5000, ROLE_LOADER},
        {"a worker with a GPU's files that reads over the network",
         FORKED | GPU | MASTER_GPU | TCP_KNOWN | OWN_TCP, "python", 5000, ROLE_LOADER},
        {"forked by who has a GPU since then", FORKED | MASTER_GPU, "python", 5000, ROLE_UNKNOWN},
        {"a forked worker, once told", FORKED | WAS_LOADER, "python", 5000, ROLE_LOADER},
        {"forked by who has not been seen to work yet", FORKED, "python", 900, ROLE_UNDECIDED},
        {"forked by who only waits", FORKED, "python", 5000, ROLE_UNKNOWN},
        {"a forked rank that opened a GPU as its parent did",
         FORKED | GPU | MASTER_GPU | OPENED_GPU, "python", 5000, ROLE_MAIN},
        {"slurmstepd's child before exec", FORKED | OWN_IMAGE, "python", 5000, ROLE_LAUNCHER},
        {"just forked, exec may follow", FORKED, "python", 3, ROLE_UNDECIDED},
        {"just forked, but named", FORKED, "pt_data_worker", 3, ROLE_LOADER},
        {"another program (wandb, ffmpeg)", KNOWN_PARENT, "ffmpeg", 5000, ROLE_UNKNOWN},
        {"started anew, but named", KNOWN_PARENT, "pt_data_worker", 5000, ROLE_LOADER},
        {"started anew", KNOWN_PARENT, "python", 5000, ROLE_UNKNOWN},
        {"somebody without a parent", 0, "python", 5000, ROLE_UNKNOWN},
        {"a worker that lost its parent", WAS_LOADER, "python", 5000, ROLE_LOADER},
        {"a worker that execs another program", KNOWN_PARENT | WAS_LOADER, "wandb", 5000,
         ROLE_UNKNOWN},
        {"a subshell", FORKED | LAUNCHER, "bash", 5000, ROLE_LAUNCHER},
        {"a child of the kernel compiler", FORKED | HELPER_PARENT, "python", 5000, ROLE_UNKNOWN},
        {"a forked rank with workers", FORKED | HAS_WORKERS, "python", 5000, ROLE_MAIN},
        {"a forked rank with a GPU's threads", FORKED | TRAINER_THREADS, "python", 5000, ROLE_MAIN},
        {"a forked rank that opened a GPU", FORKED | GPU, "python", 5000, ROLE_MAIN},
        {"a worker that inherited a GPU", FORKED | GPU | MASTER_GPU, "python", 5000, ROLE_LOADER},
        {"a forked rank by name", FORKED, "pt_autograd_0", 5000, ROLE_MAIN},
        {"a forked rank whose parent waits", FORKED | WAS_LOADER | MASTER_IDLE, "python", 90000,
         ROLE_UNKNOWN},
        {"a named worker that forks", FORKED | HAS_WORKERS, "pt_data_worker", 9, ROLE_LOADER},
        {"a decoder that a worker runs", KNOWN_PARENT | LOADER_PARENT, "ffmpeg", 9,
         ROLE_LOADER_HELPER},
        {"a shell that a worker runs", KNOWN_PARENT | LOADER_PARENT | LAUNCHER, "sh", 9,
         ROLE_LOADER_HELPER},
        {"announced", KNOWN_PARENT | ANNOUNCED, "reader", 9, ROLE_LOADER},
        {"spawned, nothing known", SPAWN, "python", 5000, ROLE_UNKNOWN},
        {"spawned by who trains", SPAWN | MASTER_ACTIVE, "python", 5000, ROLE_LOADER},
        {"spawned by who drives a GPU", SPAWN | MASTER_GPU, "python", 5000, ROLE_LOADER},
        {"spawned rank with a GPU", SPAWN | GPU | MASTER_GPU, "python", 5000, ROLE_MAIN},
        {"spawned worker, once told", SPAWN | WAS_LOADER, "python", 5000, ROLE_LOADER},
        {"spawned rank, told by its workers", SPAWN | WAS_LOADER | HAS_WORKERS, "python", 5000,
         ROLE_MAIN},
        {"a fork server's child", FORKED | SERVER_PARENT, "python", 5000, ROLE_UNKNOWN},
        {"... of who trains", FORKED | SERVER_PARENT | MASTER_ACTIVE, "python", 5000, ROLE_LOADER},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct process_view v = view_of(cases[i].bits, cases[i].comm, cases[i].age_ms);
        if (classify_process(&v) != cases[i].role)
            fail_msg("%s is %s, not %s", cases[i].what, classify_role_name(classify_process(&v)),
                     classify_role_name(cases[i].role));
    }
}

static void threads(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct thread_view view;
        enum task_role role;
    } cases[] = {
        {"main thread of a rank", {.process = ROLE_MAIN, .is_main = true}, ROLE_MAIN},
        {"... named like a loader",
         {.process = ROLE_MAIN, .is_main = true, .kind = NAME_LOADER},
         ROLE_MAIN},
        {"... announced", {.process = ROLE_MAIN, .is_main = true, .announced = true}, ROLE_MAIN},
        {"... that reads", {.process = ROLE_MAIN, .is_main = true, .reads = READS_MAX}, ROLE_MAIN},
        {"a plain thread of a rank", {.process = ROLE_MAIN}, ROLE_UNKNOWN},
        {"... that reads", {.process = ROLE_MAIN, .reads = READS_ON}, ROLE_LOADER},
        {"... that has read once", {.process = ROLE_MAIN, .reads = READS_ON - 1}, ROLE_UNKNOWN},
        {"... that was a loader",
         {.process = ROLE_MAIN, .reads = READS_ON - 1, .was_loader = true},
         ROLE_LOADER},
        {"... that reads what workers give",
         {.process = ROLE_MAIN, .reads = READS_MAX, .has_workers = true},
         ROLE_UNKNOWN},
        {"a named thread of a rank", {.process = ROLE_MAIN, .kind = NAME_LOADER}, ROLE_LOADER},
        {"an announced thread of a rank", {.process = ROLE_MAIN, .announced = true}, ROLE_LOADER},
        {"a pinning thread",
         {.process = ROLE_MAIN, .kind = NAME_PIN, .reads = READS_MAX},
         ROLE_PIN},
        {"an autograd thread",
         {.process = ROLE_MAIN, .kind = NAME_COMMUNICATION, .reads = READS_MAX},
         ROLE_COMMUNICATION},
        {"main thread of a worker", {.process = ROLE_LOADER, .is_main = true}, ROLE_LOADER},
        {"a math thread of a worker", {.process = ROLE_LOADER}, ROLE_LOADER_HELPER},
        {"main thread of a young child",
         {.process = ROLE_UNDECIDED, .is_main = true},
         ROLE_UNDECIDED},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (classify_thread(&cases[i].view) != cases[i].role)
            fail_msg("%s is %s, not %s", cases[i].what,
                     classify_role_name(classify_thread(&cases[i].view)),
                     classify_role_name(cases[i].role));
}

static void reading(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        unsigned before, after;
        struct thread_work work;
    } cases[] = {
        {"reads and computes", 0, 1, {1, 0.5, 2000000, 0}},
        {"... and is sure", READS_MAX, READS_MAX, {1, 0.5, 2000000, 0}},
        {"sleeps", 2, 2, {1, 0, 0, 0}},
        {"computes without reading", 2, 1, {1, 0.5, 0, 0}},
        {"... never below nothing", 0, 0, {1, 0.5, 0, 0}},
        {"writes as much as it reads", 0, 0, {1, 0.5, 2000000, 2000000}},
        {"reads little", 0, 0, {1, 0.5, 20000, 0}},
        {"no time has passed", 1, 1, {0, 0.5, 2000000, 0}},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (classify_reads(cases[i].before, &cases[i].work) != cases[i].after)
            fail_msg("%s: %u", cases[i].what, classify_reads(cases[i].before, &cases[i].work));
}

/* Whatever else is seen of it: a rank's process is never a loader, nor is its main thread. */
static void a_rank_is_never_a_loader(void **state)
{
    (void)state;
    static const char *const comms[] = {"python", "pt_data_worker", "[DALI][TP0]", "adl-loader"};
    for (unsigned bits = 0; bits <= ALL_BITS; bits++)
        for (size_t c = 0; c < COUNT(comms); c++) {
            struct process_view v = view_of(bits | RANK, comms[c], bits);
            enum task_role role = classify_process(&v);
            assert_int_equal(role, ROLE_MAIN);
            struct thread_view main_thread = {.process = role,
                                              .is_main = true,
                                              .announced = v.announced,
                                              .kind = classify_name(comms[c]),
                                              .reads = bits % (READS_MAX + 1)};
            assert_int_equal(classify_class(classify_thread(&main_thread)), TASK_OTHER);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),     cmocka_unit_test(programs),
        cmocka_unit_test(processes), cmocka_unit_test(threads),
        cmocka_unit_test(reading),   cmocka_unit_test(a_rank_is_never_a_loader),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
