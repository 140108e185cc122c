/*
 * The executor, asked from helper processes that share memory alone, as Slurm makes them with
 * contain_spank: what is handed over runs in this process, with this process's descriptors.
 */
#define _GNU_SOURCE
#include "config.h"

#include "executor.h"

#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define HELPER_STACK (256u * 1024u)
#define PATIENT_MS   20000u
#define IMPATIENT_MS 5u

static struct {
    struct executor *executor;
    void (*work)(void);
    unsigned ms;
    bool done;
    int error;
    int fd; /* opened by work */
    pid_t ran_in;
    char order[16];
    sem_t gate;
} scene;

static void note_process(void)
{
    scene.ran_in = getpid();
}

static void open_event(void)
{
    scene.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void write_event(void)
{
    uint64_t one = 1;
    if (write(scene.fd, &one, sizeof one) < 0)
        scene.fd = -1;
}

static void append_a(void)
{
    strcat(scene.order, "a");
}

static void append_b(void)
{
    strcat(scene.order, "b");
}

static void wait_at_gate(void)
{
    while (sem_wait(&scene.gate) < 0 && errno == EINTR)
        ;
    append_a();
}

static int helper(void *unused)
{
    (void)unused;
    scene.done = executor_run(scene.executor, scene.work, scene.ms);
    scene.error = errno;
    _exit(0);
}

/* Hand work over from a helper process; its own threads and descriptors end with it. */
static void run_from_helper(void (*work)(void), unsigned ms)
{
    int status = -1;
    char *stack = malloc(HELPER_STACK);
    assert_non_null(stack);
    scene.work = work;
    scene.ms = ms;
    pid_t pid = clone(helper, stack + HELPER_STACK, CLONE_VM | SIGCHLD, NULL);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(stack);
}

static int begin(void **state)
{
    (void)state;
    memset(&scene, 0, sizeof scene);
    scene.fd = -1;
    if (sem_init(&scene.gate, 0, 0) < 0)
        return -1;
    scene.executor = executor_start();
    return scene.executor != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    bool joined = executor_join(scene.executor, PATIENT_MS);
    (void)sem_destroy(&scene.gate);
    return joined ? 0 : -1;
}

static void a_helper_has_work_done_in_this_process(void **state)
{
    (void)state;
    run_from_helper(note_process, PATIENT_MS);
    assert_true(scene.done);
    assert_int_equal(scene.ran_in, getpid());
}

static void descriptors_are_this_processs(void **state)
{
    uint64_t count = 0;
    (void)state;
    run_from_helper(open_event, PATIENT_MS);
    assert_true(scene.fd >= 0);
    run_from_helper(write_event, PATIENT_MS);
    assert_int_equal(read(scene.fd, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
    close(scene.fd);
}

static void who_cannot_wait_does_not_and_the_order_is_kept(void **state)
{
    (void)state;
    run_from_helper(wait_at_gate, IMPATIENT_MS);
    assert_false(scene.done);
    assert_int_equal(scene.error, ETIMEDOUT);
    run_from_helper(append_b, 0);
    assert_false(scene.done);
    assert_string_equal(scene.order, "");
    assert_int_equal(sem_post(&scene.gate), 0);
    run_from_helper(append_a, PATIENT_MS);
    assert_true(scene.done);
    assert_string_equal(scene.order, "aba");
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    assert_false(executor_run(scene.executor, wait_at_gate, IMPATIENT_MS));
    unsigned taken = 0;
    while (!executor_run(scene.executor, append_b, 0) && errno == ETIMEDOUT && taken < 100)
        taken++;
    assert_int_equal(errno, ENOBUFS);
    assert_in_range(taken, 1, 99);
    assert_int_equal(sem_post(&scene.gate), 0);
}

static void dismissed_it_ends_its_work_and_takes_no_more(void **state)
{
    (void)state;
    assert_false(executor_run(scene.executor, wait_at_gate, IMPATIENT_MS));
    assert_true(executor_dismiss(scene.executor, PATIENT_MS));
    run_from_helper(append_b, PATIENT_MS);
    assert_false(scene.done);
    assert_int_equal(scene.error, ESHUTDOWN);
    assert_false(executor_join(scene.executor, IMPATIENT_MS));
    assert_int_equal(sem_post(&scene.gate), 0);
    assert_true(executor_join(scene.executor, PATIENT_MS));
    assert_string_equal(scene.order, "a");
    scene.executor = executor_start(); /* for end() */
    assert_non_null(scene.executor);
}

/* Slurm kills helpers with the rest of a step: nobody may wait for one that is gone. */
static void a_helper_that_is_killed_holds_nobody_up(void **state)
{
    (void)state;
    char *stack = malloc(HELPER_STACK);
    assert_non_null(stack);
    for (unsigned i = 0; i < 20; i++) {
        int status = 0;
        scene.work = wait_at_gate;
        scene.ms = PATIENT_MS;
        pid_t pid = clone(helper, stack + HELPER_STACK, CLONE_VM | SIGCHLD, NULL);
        assert_true(pid > 0);
        usleep(3000); /* by then it mostly waits */
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(sem_post(&scene.gate), 0);
        run_from_helper(note_process, PATIENT_MS);
        assert_true(scene.done);
        if (strlen(scene.order) > 8)
            scene.order[0] = '\0';
        while (sem_trywait(&scene.gate) == 0) /* killed before it handed over */
            ;
    }
    free(stack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_helper_has_work_done_in_this_process, begin, end),
        cmocka_unit_test_setup_teardown(descriptors_are_this_processs, begin, end),
        cmocka_unit_test_setup_teardown(who_cannot_wait_does_not_and_the_order_is_kept, begin, end),
        cmocka_unit_test_setup_teardown(a_full_queue_refuses, begin, end),
        cmocka_unit_test_setup_teardown(a_helper_that_is_killed_holds_nobody_up, begin, end),
        cmocka_unit_test_setup_teardown(dismissed_it_ends_its_work_and_takes_no_more, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
