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
        {"pt_data_worker", NAME_LOADER},   {"pt_data_pin", NAME_NEVER},
        {"pt_main_thread", NAME_NEVER},    {"pt_autograd_0", NAME_TRAINER},
        {"pt_autograd_15", NAME_TRAINER},  {"pt_nccl_watchdg", NAME_TRAINER},
        {"pt_nccl_heartbt", NAME_TRAINER}, {"pt_tcpstore_uv", NAME_NEVER},
        {"pt_elastic", NAME_NEVER},        {"[DALI][TP0]Thre", NAME_LOADER},
        {"[DALI][WT]CPU e", NAME_LOADER},  {"tf_data_private", NAME_LOADER},
        {"tf_Compute", NAME_PLAIN},        {"spdl_worker_thr", NAME_LOADER},
        {"adl-loader", NAME_LOADER},       {"adl-monitor", NAME_PLAIN},
        {"cuda-EvtHandlr", NAME_TRAINER},  {"cuda00001400006", NAME_TRAINER},
        {"NCCL Service 0", NAME_TRAINER},  {"python", NAME_PLAIN},
        {"python3", NAME_PLAIN},           {"", NAME_PLAIN},
        {"a pt_data_worke", NAME_PLAIN},   {"PT_DATA_WORKER", NAME_PLAIN},
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
    assert_true(classify_is_helper(compile, sizeof compile - 1));
    assert_false(classify_is_helper(train, sizeof train - 1));
    assert_false(classify_is_helper(compile, 9)); /* length counts, not NULs */
}

/* What is seen of a process, as bits, so that a table can name those that it is about. */
enum {
    RANK = 1,
    OWN_IMAGE = 2,
    KNOWN_PARENT = 4,
    LOADER_PARENT = 8,
    SAME_PROGRAM = 16,
    LAUNCHER = 32,
    HELPER_PARENT = 64,
    FORKS_WORKERS = 128,
    TRAINER_THREADS = 256,
    ANNOUNCED = 512,
    ALL_BITS = 1023,
    FORKED = KNOWN_PARENT | SAME_PROGRAM /* as PyTorch before 2.6 does: only its descent tells */
};

static struct process_view view_of(unsigned bits, const char *comm, uint64_t age_ms)
{
    return (struct process_view){.is_rank = bits & RANK,
                                 .not_yet_program = bits & OWN_IMAGE,
                                 .parent_known = bits & KNOWN_PARENT,
                                 .parent_loader = bits & LOADER_PARENT,
                                 .same_program = bits & SAME_PROGRAM,
                                 .launcher = bits & LAUNCHER,
                                 .parent_helper = bits & HELPER_PARENT,
                                 .forks_workers = bits & FORKS_WORKERS,
                                 .trainer_threads = bits & TRAINER_THREADS,
                                 .announced = bits & ANNOUNCED,
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
        enum task_class class;
    } cases[] = {
        {"a forked worker", FORKED, "python", 5000, TASK_LOADER},
        {"slurmstepd's child before exec", FORKED | OWN_IMAGE, "python", 5000, TASK_OTHER},
        {"just forked, exec may follow", FORKED, "python", 3, TASK_UNDECIDED},
        {"just forked, but named", FORKED, "pt_data_worker", 3, TASK_LOADER},
        {"another program (wandb, ffmpeg)", KNOWN_PARENT, "ffmpeg", 5000, TASK_OTHER},
        {"spawned, not forked, but named", KNOWN_PARENT, "pt_data_worker", 5000, TASK_LOADER},
        {"spawned, not forked", KNOWN_PARENT, "python", 5000, TASK_OTHER},
        {"an orphan", 0, "python", 5000, TASK_OTHER},
        {"a subshell", FORKED | LAUNCHER, "bash", 5000, TASK_OTHER},
        {"a child of the kernel compiler", FORKED | HELPER_PARENT, "python", 5000, TASK_OTHER},
        {"a forked rank with workers", FORKED | FORKS_WORKERS, "python", 5000, TASK_OTHER},
        {"a forked rank with a GPU", FORKED | TRAINER_THREADS, "python", 5000, TASK_OTHER},
        {"a forked rank by name", FORKED, "pt_autograd_0", 5000, TASK_OTHER},
        {"a named worker that forks", FORKED | FORKS_WORKERS, "pt_data_worker", 9, TASK_LOADER},
        {"a decoder that a worker runs", KNOWN_PARENT | LOADER_PARENT, "ffmpeg", 9, TASK_LOADER},
        {"a shell that a worker runs", KNOWN_PARENT | LOADER_PARENT | LAUNCHER, "sh", 9,
         TASK_LOADER},
        {"announced", KNOWN_PARENT | ANNOUNCED, "reader", 9, TASK_LOADER},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct process_view v = view_of(cases[i].bits, cases[i].comm, cases[i].age_ms);
        if (classify_process(&v) != cases[i].class)
            fail_msg("%s is %d, not %d", cases[i].what, (int)classify_process(&v),
                     (int)cases[i].class);
    }
}

static void threads(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct thread_view view;
        enum task_class class;
    } cases[] = {
        {"main thread of a rank", {TASK_OTHER, true, false, NAME_PLAIN}, TASK_OTHER},
        {"... named like a loader", {TASK_OTHER, true, false, NAME_LOADER}, TASK_OTHER},
        {"... announced", {TASK_OTHER, true, true, NAME_PLAIN}, TASK_OTHER},
        {"a plain thread of a rank", {TASK_OTHER, false, false, NAME_PLAIN}, TASK_OTHER},
        {"a named thread of a rank", {TASK_OTHER, false, false, NAME_LOADER}, TASK_LOADER},
        {"an announced thread of a rank", {TASK_OTHER, false, true, NAME_PLAIN}, TASK_LOADER},
        {"a pinning thread", {TASK_OTHER, false, false, NAME_NEVER}, TASK_OTHER},
        {"an autograd thread", {TASK_OTHER, false, false, NAME_TRAINER}, TASK_OTHER},
        {"main thread of a worker", {TASK_LOADER, true, false, NAME_PLAIN}, TASK_LOADER},
        {"a math thread of a worker", {TASK_LOADER, false, false, NAME_PLAIN}, TASK_LOADER},
        {"main thread of a young child", {TASK_UNDECIDED, true, false, NAME_PLAIN}, TASK_UNDECIDED},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (classify_thread(&cases[i].view) != cases[i].class)
            fail_msg("%s is %d, not %d", cases[i].what, (int)classify_thread(&cases[i].view),
                     (int)cases[i].class);
}

/* Whatever else is seen of it: a rank's process is never a loader, nor is its main thread. */
static void a_rank_is_never_a_loader(void **state)
{
    (void)state;
    static const char *const comms[] = {"python", "pt_data_worker", "[DALI][TP0]", "adl-loader"};
    for (unsigned bits = 0; bits <= ALL_BITS; bits++)
        for (size_t c = 0; c < COUNT(comms); c++) {
            struct process_view v = view_of(bits | RANK, comms[c], bits);
            enum task_class class = classify_process(&v);
            assert_int_equal(class, TASK_OTHER);
            struct thread_view main_thread = {class, true, v.announced, classify_name(comms[c])};
            assert_int_equal(classify_thread(&main_thread), TASK_OTHER);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(programs),
        cmocka_unit_test(processes),
        cmocka_unit_test(threads),
        cmocka_unit_test(a_rank_is_never_a_loader),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, NULL);
}
