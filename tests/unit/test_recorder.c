/*
 * From members' ends to the written record: the real controller with agents that the test plays and
 * a helper of the test's own (fake_slurmjob.c) in the place of the one that speaks with Slurm; then
 * the controller's end of the helper, what agents keep, and the file of unwritten records.
 */
#include "config.h"

#include "fake_agents.h"

#include "clock.h"
#include "jobwriter.h"
#include "memberuse.h"
#include "rng.h"
#include "spool.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CONF                                                                                       \
    "SacctField=AdminComment\nSacctInterval=0s\nSacctRate=1000\nLeaseTime=300ms\n"                 \
    "ReportInterval=50ms\n"

static char bin[64];   /* the controller and the fake helper, beside each other */
static char slurm[96]; /* what the fake one has instead of Slurm */

/* ---- the stage ----------------------------------------------------------------------------- */

static void run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run_command(const char *format, ...)
{
    char command[1024];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    assert_int_equal(system(command), 0);
}

static int set_stage(void **state)
{
    const char *build = getenv("ADL_BUILDDIR");

    (void)state;
    if (build == NULL)
        build = ".";
    (void)snprintf(bin, sizeof(bin), "/tmp/adl-recorder-XXXXXX");
    assert_non_null(mkdtemp(bin));
    (void)snprintf(slurm, sizeof(slurm), "%s/slurm", bin);
    run_command("cp '%s/adloaderctld' '%s/adloaderctld'", build, bin);
    run_command("cp '%s/tests/unit/fake_slurmjob' '%s/" SLURMJOB_PROGRAM "'", build, bin);
    assert_int_equal(setenv("ADL_BUILDDIR", bin, 1), 0);
    assert_int_equal(setenv("ADL_FAKE_SLURM", slurm, 1), 0);
    return 0;
}

static int strike_stage(void **state)
{
    (void)state;
    run_command("rm -rf '%s'", bin);
    return 0;
}

static void write_text(const char *name, const char *text)
{
    char path[160];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", slurm, name);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void empty_slurm(const char *mode)
{
    run_command("rm -rf '%s' && mkdir '%s'", slurm, slurm);
    write_text("mode", mode);
}

static const char *read_text(const char *name)
{
    static char text[8192];
    char path[160];
    size_t n;
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", slurm, name);
    f = fopen(path, "r");
    n = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[n] = '\0';
    if (f != NULL)
        (void)fclose(f);
    return text;
}

static unsigned requests(void)
{
    unsigned n = 0;

    for (const char *c = read_text("requests"); *c != '\0'; c++)
        n += *c == '\n';
    return n;
}

static void sleep_ms(unsigned ms)
{
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL);
}

/* Until the job's field holds the text; its record then, which is checked to be one. */
static void wait_for(const char *job, const char *text, struct record *record)
{
    char reason[RECORD_REASON_SIZE];

    for (int i = 0; i < 1500 && strstr(read_text(job), text) == NULL; i++)
        sleep_ms(10);
    if (strstr(read_text(job), text) == NULL)
        fail_msg("job %s: no %s in its field: %s", job, text, read_text(job));
    if (record_parse(read_text(job), record, reason) < 0)
        fail_msg("%s: %s", reason, read_text(job));
}

static void begin(struct controller *c, const char *mode, const char *extra)
{
    char conf[512];

    empty_slurm(mode);
    (void)snprintf(conf, sizeof(conf), CONF "%s", extra);
    controller_prepare(c, conf);
    controller_start(c);
}

static void end(struct controller *c)
{
    assert_int_equal(controller_end(c, SIGTERM), 0);
    controller_discard(c, false);
}

/* A member that lives for a moment, with two loader tasks that use a core. */
static void live(const struct controller *c, struct agent *a, uint32_t job, uint32_t step,
                 const char *node)
{
    agent_init(a, job, step, node, "0-3");
    a->tasks_of_loader = 2;
    a->use_cores = 1;
    agent_register(c, a);
    assert_true(a->registered);
    agents_run(&a, 1, 100, 300);
}

static void live_and_end(const struct controller *c, uint32_t job, uint32_t step, const char *node)
{
    struct agent a;

    live(c, &a, job, step, node);
    agent_goodbye(&a);
    agent_free(&a);
}

/* ---- what is written ----------------------------------------------------------------------- */

static void a_step_is_recorded(void **state)
{
    struct controller c;
    struct record record;

    (void)state;
    begin(&c, "ok", "");
    live_and_end(&c, 12, 0, "n1");
    wait_for("12", "\"i\":0", &record);
    assert_int_equal(record.nsteps, 1);
    assert_true(record.steps[0].use.loader_core_s > 0.2);
    assert_true(record.steps[0].use.cores_known_s > 0);
    assert_int_equal(record.restart, 0);
    end(&c);
}

static void steps_are_merged(void **state)
{
    struct controller c;
    struct record record;

    (void)state;
    begin(&c, "ok", "");
    live_and_end(&c, 12, 0, "n1");
    wait_for("12", "\"i\":0", &record);
    live_and_end(&c, 12, 1, "n1");
    wait_for("12", "\"i\":1", &record);
    assert_int_equal(record.nsteps, 2);
    /* the next life knows nothing of them but what it reads */
    assert_int_equal(controller_end(&c, SIGKILL), SIGKILL);
    controller_start(&c);
    live_and_end(&c, 12, 2, "n1");
    live_and_end(&c, 12, 0, "n2"); /* a late member of the first step */
    wait_for("12", "\"n\":2", &record);
    assert_int_equal(record.nsteps, 3);
    assert_int_equal(record.steps[0].use.members, 2);
    end(&c);
}

static void all_nodes_in_one_write(void **state)
{
    struct controller c;
    struct record record;
    struct agent a, b, *both[] = {&a, &b};

    (void)state;
    begin(&c, "ok", "");
    live(&c, &a, 12, 0, "n1");
    agent_init(&b, 12, 0, "n2", "0-3");
    agent_register(&c, &b);
    agents_run(both, 2, 100, 300);
    agent_goodbye(&a);
    agents_run(&both[1], 1, 50, 200);
    assert_string_equal(read_text("12"), "");
    agent_goodbye(&b);
    wait_for("12", "\"n\":2", &record);
    assert_int_equal(requests(), 1);
    agent_free(&a);
    agent_free(&b);
    end(&c);
}

static void writes_keep_their_distance(void **state)
{
    struct controller c;
    struct record record;
    uint64_t first;

    (void)state;
    begin(&c, "ok", "");
    controller_write_conf(&c, "SacctField=AdminComment\nSacctInterval=3s\nLeaseTime=300ms\n"
                              "ReportInterval=50ms\n");
    assert_int_equal(kill(c.pid, SIGHUP), 0);
    assert_true(controller_logs(&c, "configuration read again"));
    live_and_end(&c, 12, 0, "n1");
    wait_for("12", "\"i\":0", &record);
    first = clock_monotonic_ms();
    live_and_end(&c, 12, 1, "n1");
    live_and_end(&c, 12, 2, "n1");
    wait_for("12", "\"i\":2", &record);
    assert_int_equal(record.nsteps, 3);
    assert_true(clock_monotonic_ms() - first > 2500); /* SacctInterval less the polling */
    assert_int_equal(requests(), 2);
    end(&c);
}

static void foreign_texts_stay(void **state)
{
    static const char *const texts[] = {"note of the admin", "JS1:H4sI", "ADL1:{\"s\":[{}]}",
                                        "ADL1:"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct controller c;

        begin(&c, "ok", "");
        write_text("12", texts[i]);
        live_and_end(&c, 12, 0, "n1");
        assert_true(controller_logs(&c, "job 12: no record, since its field holds something else"));
        assert_string_equal(read_text("12"), texts[i]);
        end(&c);
    }
}

static void none_means_none(void **state)
{
    struct controller c;

    (void)state;
    empty_slurm("ok");
    controller_prepare(&c, "SacctField=none\n");
    controller_start(&c);
    live_and_end(&c, 12, 0, "n1");
    sleep_ms(300);
    assert_int_equal(requests(), 0);
    end(&c);
}

static void an_earlier_run_is_not_merged(void **state)
{
    struct controller c;
    struct record record;

    (void)state;
    begin(&c, "restart=1", "");
    write_text("12", "ADL1:{\"s\":[{\"i\":0,\"t\":500,\"c\":100,\"v\":\"gpu-bound\"}]}");
    live_and_end(&c, 12, 0, "n1"); /* which does not know that it is the second */
    wait_for("12", "\"r\":1", &record);
    assert_int_equal(record.nsteps, 1);
    assert_int_equal(record.steps[0].use.members, 1);
    assert_true(record.steps[0].use.loader_core_s < 50);
    end(&c);
}

/* A shell around the steps is no training, unless it loads data itself. */
static void bare_shells_are_left_out(void **state)
{
    struct controller c;
    struct record record;
    struct agent shell;

    (void)state;
    begin(&c, "ok", "");
    agent_init(&shell, 12, MSG_STEP_BATCH, "n1", "0-3");
    agent_register(&c, &shell);
    live_and_end(&c, 12, 0, "n1");
    wait_for("12", "\"i\":0", &record);
    agent_goodbye(&shell);
    agent_free(&shell);
    sleep_ms(300);
    assert_null(strstr(read_text("12"), "batch"));
    live_and_end(&c, 12, MSG_STEP_BATCH, "n1");
    wait_for("12", "\"i\":\"batch\"", &record);
    assert_int_equal(record.nsteps, 2);
    end(&c);
}

/* ---- lost connections ---------------------------------------------------------------------- */

static void who_comes_back_counts_once(void **state)
{
    struct controller c;
    struct record record;
    struct agent a;

    (void)state;
    begin(&c, "ok", "");
    live(&c, &a, 12, 0, "n1");
    agent_hang_up(&a);
    sleep_ms(100);
    agent_register(&c, &a);
    assert_true(a.registered);
    agent_goodbye(&a);
    wait_for("12", "\"i\":0", &record);
    assert_int_equal(record.steps[0].use.members, 1);
    assert_true(record.steps[0].use.loader_core_s > 0.2); /* from before */
    sleep_ms(300);
    assert_int_equal(requests(), 1);
    agent_free(&a);
    end(&c);
}

static void who_does_not_come_back_counts_too(void **state)
{
    struct controller c;
    struct record record;
    struct agent a;

    (void)state;
    begin(&c, "ok", "");
    live(&c, &a, 12, 0, "n1");
    agent_hang_up(&a);
    sleep_ms(1000);
    assert_string_equal(read_text("12"), "");
    wait_for("12", "\"i\":0", &record);
    assert_true(record.steps[0].use.loader_core_s > 0.2);
    agent_free(&a);
    end(&c);
}

/* ---- trouble ------------------------------------------------------------------------------- */

static void trouble_heals(void **state)
{
    static const struct {
        const char *mode, *logged;
    } cases[] = {
        {"die", "adloader-slurmjob ended: fatal: as the test says"},
        {"unreachable", "records of jobs cannot be written, as the test says"},
        {"denied", "records of jobs cannot be written, as the test says"},
        {"nonsense", "is of another version"},
        {"wait", "job 12: its record waits: as the test says"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct controller c;
        struct record record;
        char *answer;

        begin(&c, cases[i].mode, "LogLevel=debug\n");
        live_and_end(&c, 12, 0, "n1");
        if (!controller_logs(&c, cases[i].logged))
            fail_msg("%s: not logged: %s", cases[i].mode, cases[i].logged);
        answer = controller_ask(&c, "status", "");
        assert_non_null(strstr(answer, "\"members\""));
        free(answer);
        write_text("mode", "ok");
        wait_for("12", "\"i\":0", &record);
        assert_int_equal(record.steps[0].use.members, 1);
        end(&c);
    }
}

/* The helper did it, but its answer was lost: not counted twice. */
static void a_lost_answer_does_not_double(void **state)
{
    struct controller c;
    struct record record;

    (void)state;
    begin(&c, "lose", "LogLevel=debug\n");
    live_and_end(&c, 12, 0, "n1");
    wait_for("12", "\"i\":0", &record);
    write_text("mode", "ok");
    assert_true(controller_logs(&c, "cannot be written"));
    live_and_end(&c, 12, 1, "n1"); /* meanwhile */
    wait_for("12", "\"i\":1", &record);
    assert_int_equal(record.nsteps, 2);
    assert_int_equal(record.steps[0].use.members, 1);
    assert_int_equal(record.steps[1].use.members, 1);
    end(&c);
}

static void it_is_given_up_in_the_end(void **state)
{
    struct controller c;

    (void)state;
    begin(&c, "unreachable", "SacctRetryTime=1s\n");
    live_and_end(&c, 12, 0, "n1");
    for (int i = 0; i < 6 && !controller_logs(&c, "job 12: its record is dropped"); i++)
        ;
    assert_true(controller_logs(&c, "job 12: its record is dropped: as the test says"));
    write_text("mode", "ok");
    sleep_ms(300);
    assert_string_equal(read_text("12"), "");
    end(&c);

    begin(&c, "impossible", "");
    live_and_end(&c, 12, 0, "n1");
    assert_true(controller_logs(&c, "job 12: its record is dropped: as the test says"));
    end(&c);
}

/* Without slurmdbd, say, no record can be kept: one line says so, not one for each of many jobs. */
static void many_given_up_are_told_once(void **state)
{
    struct controller c;

    (void)state;
    begin(&c, "impossible", "LogLevel=info\n");
    live_and_end(&c, 12, 0, "n1");
    assert_true(controller_logs(&c, "job 12: its record is dropped: as the test says"));
    for (unsigned job = 13; job < 16; job++)
        live_and_end(&c, job, 0, "n1");
    for (int i = 0; i < 50; i++) {
        char *text = controller_ask(&c, "metrics", "");
        bool all = strstr(text, "adloader_records_dropped_total 4") != NULL;

        free(text);
        if (all)
            break;
        assert_true(i < 49);
        sleep_ms(100);
    }
    assert_false(controller_logs(&c, "job 13: its record is dropped"));
    assert_false(controller_logs(&c, "job 15: its record is dropped"));
    end(&c);
}

static void a_hanging_helper_holds_nothing_up(void **state)
{
    struct controller c;
    uint64_t begun;
    char *answer;

    (void)state;
    begin(&c, "hang", "");
    for (uint32_t job = 1; job <= 5; job++)
        live_and_end(&c, job, 0, "n1");
    begun = clock_monotonic_ms();
    answer = controller_ask(&c, "status", "");
    assert_non_null(strstr(answer, "\"members\""));
    free(answer);
    assert_int_equal(requests(), 1);
    assert_int_equal(controller_end(&c, SIGTERM), 0); /* and its end neither */
    assert_true(clock_monotonic_ms() - begun < 20000);
    controller_discard(&c, false);
}

static void what_was_not_written_waits_for_the_next_life(void **state)
{
    struct controller c;
    struct record record;
    char path[160];
    struct stat status;

    (void)state;
    begin(&c, "unreachable", "");
    live_and_end(&c, 12, 0, "n1");
    live_and_end(&c, 13, 0, "n1");
    assert_true(controller_logs(&c, "cannot be written"));
    assert_int_equal(controller_end(&c, SIGTERM), 0);
    assert_true(controller_logs(&c, "the records of 2 jobs are kept in"));
    (void)snprintf(path, sizeof(path), "%s/records", c.state);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    write_text("mode", "ok");
    controller_start(&c);
    wait_for("12", "\"i\":0", &record);
    assert_true(record.steps[0].use.loader_core_s > 0.2);
    wait_for("13", "\"i\":0", &record);
    assert_int_equal(stat(path, &status), -1);
    end(&c);
}

/* ---- the controller's end of the helper ---------------------------------------------------- */

struct answer {
    struct event_base *base;
    bool called;
    int outcome; /* -1: none came */
    char reason[256];
};

static void take_answer(void *arg, const struct slurmjob_reply *reply, const char *reason)
{
    struct answer *answer = arg;

    answer->called = true;
    answer->outcome = reply != NULL ? (int)reply->outcome : -1;
    (void)snprintf(answer->reason, sizeof(answer->reason), "%s", reason);
    (void)event_base_loopbreak(answer->base);
}

static void ask(struct jobwriter *writer, struct answer *answer, uint32_t job)
{
    static struct slurmjob_request request;
    char reason[256];

    memset(&request, 0, sizeof(request));
    request.job = job;
    (void)snprintf(request.text, sizeof(request.text), "ADL1:{\"s\":[]}");
    answer->called = false;
    assert_int_equal(jobwriter_send(writer, &request, reason, sizeof(reason)), 0);
    assert_true(jobwriter_busy(writer));
    assert_true(event_base_dispatch(answer->base) >= 0);
    assert_true(answer->called);
    assert_false(jobwriter_busy(writer));
}

static void helpers_are_killed_and_reaped(void **state)
{
    struct answer answer = {.base = event_base_new()};
    char program[128], reason[256];
    struct slurmjob_request request;
    struct jobwriter *writer;

    (void)state;
    assert_non_null(answer.base);
    (void)snprintf(program, sizeof(program), "%s/" SLURMJOB_PROGRAM, bin);
    writer = jobwriter_new(answer.base, program, 300, take_answer, &answer);
    assert_non_null(writer);
    empty_slurm("ok");
    ask(writer, &answer, 1);
    assert_int_equal(answer.outcome, SLURMJOB_DONE);
    ask(writer, &answer, 2); /* the same process */
    assert_int_equal(answer.outcome, SLURMJOB_DONE);
    write_text("mode", "hang");
    ask(writer, &answer, 3);
    assert_int_equal(answer.outcome, -1);
    assert_non_null(strstr(answer.reason, "no answer within"));
    write_text("mode", "die");
    sleep_ms(100);
    ask(writer, &answer, 4);
    assert_int_equal(answer.outcome, -1);
    assert_non_null(strstr(answer.reason, "fatal: as the test says"));
    write_text("mode", "ok");
    sleep_ms(100);
    ask(writer, &answer, 5);
    assert_int_equal(answer.outcome, SLURMJOB_DONE);
    jobwriter_free(writer);
    sleep_ms(200);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
    assert_int_equal(errno, ECHILD);

    writer = jobwriter_new(answer.base, "/no/such/program", 300, take_answer, &answer);
    assert_non_null(writer);
    memset(&request, 0, sizeof(request));
    assert_int_equal(jobwriter_send(writer, &request, reason, sizeof(reason)), -1);
    assert_non_null(strstr(reason, "cannot run /no/such/program"));
    jobwriter_free(writer);
    event_base_free(answer.base);
}

/* ---- what agents keep ---------------------------------------------------------------------- */

static void open_sums_survive(void **state)
{
    struct msg_report report = {.interval_ms = 1000,
                                .tasks = 4,
                                .loader_cpu_s = 2.5,
                                .gpu_busy = 0.75,
                                .samples = 640,
                                .wait_s = 0.25,
                                .busy_s = 0.75};
    struct member_use before, after;
    uint8_t buf[512] = {1, 2, 3};
    size_t length;

    (void)state;
    memberuse_begin(&before, 1000);
    memberuse_report(&before, &report, 3, VERDICT_CPU_STARVED, 2000);
    memberuse_report(&before, &report, 5, VERDICT_GPU_BOUND, 4000);
    length = memberuse_save(&before, buf + 3, sizeof(buf) - 3);
    assert_true(length > 0);
    memberuse_begin(&after, 9000);
    assert_int_equal(memberuse_load(&after, buf, length + 3), 3);
    assert_memory_equal(&after.sum, &before.sum, sizeof(after.sum));
    assert_true(after.loaders);
    assert_int_equal(after.at_ms, 9000);
    assert_true(after.sum.cores_s == 3 + 2 * 5);
    assert_int_equal(after.sum.cores_min, 3);
    assert_int_equal(after.sum.cores_max, 5);
    assert_int_equal(memberuse_save(&before, buf, length - 1), 0); /* no room */
}

static void strange_states_do_no_harm(void **state)
{
    struct rng rng = {5};
    struct member_use use, untouched;

    (void)state;
    memberuse_begin(&untouched, 7);
    for (int round = 0; round < 100000; round++) {
        uint8_t buf[256];
        size_t length = rng_below(&rng, sizeof(buf) + 1);

        for (size_t i = 0; i < length; i++)
            buf[i] = (uint8_t)rng_next(&rng);
        memberuse_begin(&use, 7);
        if (round % 2 == 0 && memberuse_save(&untouched, buf, sizeof(buf)) > 0) {
            length = memberuse_save(&untouched, buf, sizeof(buf));
            buf[rng_below(&rng, (unsigned)length)] = (uint8_t)rng_next(&rng);
        }
        assert_true(memberuse_load(&use, buf, length) <= length);
        assert_true(use.sum.cores_min <= use.sum.cores_max);
        assert_true(isfinite(use.sum.samples) && use.sum.samples >= 0);
        assert_true(isfinite(use.sum.cores_s) && use.sum.cores_s >= 0);
    }
}

/* A member that ended: shares, and the time that nobody reported. */
static void goodbyes_close_the_sum(void **state)
{
    struct msg_goodbye goodbye = {.age_ms = 90000,
                                  .loader_cpu_s = 40,
                                  .samples = NAN,
                                  .wait_s = NAN,
                                  .busy_s = NAN,
                                  .drift = 2};
    struct msg_report report = {.interval_ms = 1000,
                                .tasks = 1,
                                .loader_cpu_s = 1,
                                .gpu_busy = NAN,
                                .samples = NAN,
                                .wait_s = NAN,
                                .busy_s = NAN};
    struct member_use use;

    (void)state;
    memberuse_begin(&use, 1000);
    memberuse_report(&use, &report, 2, VERDICT_UNKNOWN, 2000);
    memberuse_end(&use, &goodbye, 4, 3, 5000, 3000);
    assert_int_equal(use.sum.members, 1);
    assert_int_equal(use.sum.moves, 3);
    assert_int_equal(use.sum.drift, 2);
    assert_true(use.sum.life_s == 90); /* the agent knows of the time before us */
    assert_true(use.sum.loader_core_s == 40);
    assert_true(use.sum.cores_s == 2 + 4);
    assert_int_equal(use.sum.cores_max, 4);
    assert_false(use.sum.samples_known);
    assert_true(use.sum.loop_s == 0);

    memberuse_begin(&use, 1000);
    memberuse_report(&use, &report, 2, VERDICT_UNKNOWN, 2000);
    memberuse_end(&use, NULL, 4, 0, 5000, 3000);
    assert_true(use.sum.life_s == 5);
    assert_true(use.sum.cores_s == 2); /* after the last report nothing is known */
}

/* ---- the file of unwritten records --------------------------------------------------------- */

static struct spooled taken[8];
static size_t ntaken;

static void take(void *arg, const struct spooled *s)
{
    (void)arg;
    assert_true(ntaken < sizeof(taken) / sizeof(taken[0]));
    taken[ntaken++] = *s;
}

static void the_file_keeps_records(void **state)
{
    struct spooled s = {.job = 12, .restart = 1, .moment_s = 1700000000};
    struct record_use use = {.members = 1, .life_s = 2, .loader_core_s = 3};
    struct spool *spool;
    size_t bad = 9;

    (void)state;
    empty_slurm("ok");
    ntaken = 0;
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 0);
    assert_int_equal(bad, 0);
    spool = spool_begin(slurm);
    assert_non_null(spool);
    record_add_step(&s.fresh, 4, &use);
    spool_add(spool, &s);
    s.job = 13;
    s.asked = s.fresh;
    memset(&s.fresh, 0, sizeof(s.fresh));
    (void)record_format(&s.asked, s.text);
    spool_add(spool, &s);
    assert_int_equal(spool_end(spool), 0);
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 2);
    assert_int_equal(bad, 0);
    assert_int_equal(taken[0].job, 12);
    assert_int_equal(taken[0].restart, 1);
    assert_true(taken[0].moment_s == 1700000000);
    assert_int_equal(taken[0].fresh.steps[0].step, 4);
    assert_int_equal(taken[0].fresh.restart, 1);
    assert_string_equal(taken[0].text, "");
    assert_true(record_is_empty(&taken[1].fresh));
    assert_string_equal(taken[1].text, s.text);
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 0); /* once */
    spool = spool_begin(slurm);
    assert_non_null(spool);
    assert_int_equal(spool_end(spool), 0); /* nothing to keep: no file */
    assert_string_equal(read_text("records"), "");
}

static void strange_files_do_no_harm(void **state)
{
    static const char lines[] = "garbage\n"
                                "12 0 5 - - -\n"
                                "0 0 5 ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\"}]} - -\n"
                                "12 0 5 JS1:x - -\n"
                                "12 0 5 ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\"}]} - - more\n"
                                "14 0 5 ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\"}]} - -\n"
                                "15 0 5 ADL1:{\"s\":[";
    char path[160], other[160];
    size_t bad;

    (void)state;
    empty_slurm("ok");
    (void)snprintf(path, sizeof(path), "%s/records", slurm);
    (void)snprintf(other, sizeof(other), "%s/other", slurm);
    write_text("records", lines);
    assert_int_equal(chmod(path, 0600), 0);
    ntaken = 0;
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 1);
    assert_int_equal(bad, 6);
    assert_int_equal(taken[0].job, 14);

    write_text("records", lines); /* anybody may write to it */
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 0);
    assert_int_equal(unlink(path), 0);
    write_text("other", lines); /* it is somewhere else */
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* and would make us wait */
    assert_int_equal(spool_read(slurm, take, NULL, &bad), 0);
    assert_null(spool_begin("/no/such/folder"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_step_is_recorded, controller_teardown),
        cmocka_unit_test_teardown(steps_are_merged, controller_teardown),
        cmocka_unit_test_teardown(all_nodes_in_one_write, controller_teardown),
        cmocka_unit_test_teardown(writes_keep_their_distance, controller_teardown),
        cmocka_unit_test_teardown(foreign_texts_stay, controller_teardown),
        cmocka_unit_test_teardown(none_means_none, controller_teardown),
        cmocka_unit_test_teardown(an_earlier_run_is_not_merged, controller_teardown),
        cmocka_unit_test_teardown(bare_shells_are_left_out, controller_teardown),
        cmocka_unit_test_teardown(who_comes_back_counts_once, controller_teardown),
        cmocka_unit_test_teardown(who_does_not_come_back_counts_too, controller_teardown),
        cmocka_unit_test_teardown(trouble_heals, controller_teardown),
        cmocka_unit_test_teardown(a_lost_answer_does_not_double, controller_teardown),
        cmocka_unit_test_teardown(it_is_given_up_in_the_end, controller_teardown),
        cmocka_unit_test_teardown(many_given_up_are_told_once, controller_teardown),
        cmocka_unit_test_teardown(a_hanging_helper_holds_nothing_up, controller_teardown),
        cmocka_unit_test_teardown(what_was_not_written_waits_for_the_next_life,
                                  controller_teardown),
        cmocka_unit_test(helpers_are_killed_and_reaped),
        cmocka_unit_test(open_sums_survive),
        cmocka_unit_test(strange_states_do_no_harm),
        cmocka_unit_test(goodbyes_close_the_sum),
        cmocka_unit_test(the_file_keeps_records),
        cmocka_unit_test(strange_files_do_no_harm),
    };

    return cmocka_run_group_tests_name("recorder", tests, set_stage, strike_stage);
}
