/*
 * adltrain's loader pool: the order of samples, the queue of batches, threads that grow in number
 * and park, bad files, and a monitor that follows an agent's word.
 */
#include "config.h"

#include "batches.h"
#include "clock.h"
#include "dataset.h"
#include "loader.h"
#include "log.h"
#include "monitor.h"
#include "msg.h"
#include "sampler.h"
#include "workers.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_MS  20000 /* a deadline against hanging, never a measure */
#define SIDE         32
#define FLOATS       (3 * SIDE * SIDE)

/* ---- the sampler -------------------------------------------------------------------------------
 */

static void an_epoch_of_all_ranks_is_every_sample(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 40; count += 3) {
        for (unsigned ranks = 1; ranks <= 7; ranks++) {
            unsigned seen[40] = {0}, total = 0;

            for (unsigned rank = 0; rank < ranks; rank++) {
                struct sampler sampler;
                struct sample sample;

                assert_int_equal(sampler_init(&sampler, count, rank, ranks, 3), 0);
                for (;;) {
                    sample = sampler_next(&sampler);
                    if (sample.epoch > 0)
                        break;
                    assert_in_range(sample.index, 0, count - 1);
                    seen[sample.index]++;
                    total++;
                }
                sampler_free(&sampler);
            }
            /* as many for each rank, and none more often than that needs */
            assert_int_equal(total % ranks, 0);
            assert_true(total < count + ranks);
            for (uint32_t i = 0; i < count; i++)
                assert_in_range(seen[i], 1, ranks > count ? 1 + ranks / count : 2);
        }
    }
}

static void epochs_differ_and_seeds_repeat(void **state)
{
    enum { SAMPLES = 50 };
    uint32_t order[2][2 * SAMPLES];
    unsigned moved = 0;

    (void)state;
    for (int run = 0; run < 2; run++) {
        struct sampler sampler;

        assert_int_equal(sampler_init(&sampler, SAMPLES, 0, 1, 11), 0);
        for (int i = 0; i < 2 * SAMPLES; i++)
            order[run][i] = sampler_next(&sampler).index;
        sampler_free(&sampler);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    for (int i = 0; i < SAMPLES; i++)
        moved += order[0][i] != order[0][SAMPLES + i];
    assert_true(moved > SAMPLES / 2);
}

/* ---- the queue ---------------------------------------------------------------------------------
 */

struct filler {
    struct batches *queue;
    unsigned number;
    atomic_uint *next; /* the number written into the next place */
    atomic_uint claims;
};

static void *fill(void *argument)
{
    struct filler *filler = argument;
    struct batch_place place;

    while (batches_claim(filler->queue, filler->number, &place)) {
        *place.sample = (float)(atomic_fetch_add(filler->next, 1) + 1);
        atomic_fetch_add(&filler->claims, 1);
        batches_fill(filler->queue, &place);
    }
    return NULL;
}

enum { FILLERS = 4, DEPTH = 3, SIZE = 7 };

struct queue_test {
    struct batches queue;
    atomic_uint next;
    struct filler fillers[FILLERS];
    pthread_t threads[FILLERS];
};

static void start_fillers(struct queue_test *test, unsigned allowed)
{
    assert_int_equal(batches_init(&test->queue, DEPTH, SIZE, 1, NULL), 0);
    batches_allow(&test->queue, allowed);
    atomic_init(&test->next, 0);
    for (unsigned i = 0; i < FILLERS; i++) {
        test->fillers[i] = (struct filler){.queue = &test->queue, .number = i, .next = &test->next};
        assert_int_equal(pthread_create(&test->threads[i], NULL, fill, &test->fillers[i]), 0);
    }
}

static void stop_fillers(struct queue_test *test)
{
    batches_stop(&test->queue);
    for (unsigned i = 0; i < FILLERS; i++)
        assert_int_equal(pthread_join(test->threads[i], NULL), 0);
    assert_null(batches_take(&test->queue));
    batches_free(&test->queue);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Each place is filled once, each batch is whole, and no batch is overtaken by more than the depth.
 */
static void batches_are_whole_and_in_order(void **state)
{
    enum { BATCHES = 500 };
    static float seen[BATCHES * SIZE];
    struct queue_test test;

    (void)state;
    start_fillers(&test, FILLERS);
    for (unsigned i = 0; i < BATCHES; i++) {
        const struct batch *batch = batches_take(&test.queue);

        assert_non_null(batch);
        for (unsigned place = 0; place < SIZE; place++) {
            float value = batch->samples[place];

            seen[i * SIZE + place] = value;
            assert_true(value > 0.0f && value <= (float)((i + 1 + DEPTH) * SIZE + FILLERS));
        }
        batches_release(&test.queue);
    }
    stop_fillers(&test);
    qsort(seen, COUNT(seen), sizeof seen[0], by_value);
    for (size_t i = 1; i < COUNT(seen); i++)
        assert_true(seen[i] > seen[i - 1]); /* none twice */
}

static void loaders_stay_within_the_depth(void **state)
{
    struct queue_test test;

    (void)state;
    start_fillers(&test, FILLERS);
    assert_non_null(batches_take(&test.queue)); /* taken, not released */
    for (int i = 0; i < 20 && atomic_load(&test.next) < DEPTH * SIZE; i++)
        (void)usleep(10000);
    (void)usleep(20000);
    assert_int_equal(atomic_load(&test.next), DEPTH * SIZE);
    stop_fillers(&test);
}

static void only_allowed_loaders_work(void **state)
{
    struct queue_test test;
    unsigned before;

    (void)state;
    start_fillers(&test, 0); /* there is room, but nobody may */
    (void)usleep(50000);
    assert_int_equal(atomic_load(&test.next), 0);

    batches_allow(&test.queue, 2);
    for (int i = 0; i < 100; i++) {
        assert_non_null(batches_take(&test.queue));
        batches_release(&test.queue);
    }
    assert_int_equal(atomic_load(&test.fillers[2].claims), 0);
    assert_int_equal(atomic_load(&test.fillers[3].claims), 0);

    batches_allow(&test.queue, 0); /* what is claimed is finished, then nothing comes any more */
    (void)usleep(50000);
    before = atomic_load(&test.next);
    while (atomic_load(&test.next) >= SIZE * (test.queue.next_take + 1)) {
        assert_non_null(batches_take(&test.queue));
        batches_release(&test.queue);
    }
    (void)usleep(50000);
    assert_int_equal(atomic_load(&test.next), before);

    batches_allow(&test.queue, FILLERS);
    for (int i = 0; i < 2000 && (atomic_load(&test.fillers[2].claims) == 0 ||
                                 atomic_load(&test.fillers[3].claims) == 0);
         i++) {
        assert_non_null(batches_take(&test.queue));
        batches_release(&test.queue);
        (void)usleep(100);
    }
    assert_true(atomic_load(&test.fillers[2].claims) > 0);
    assert_true(atomic_load(&test.fillers[3].claims) > 0);
    stop_fillers(&test);
}

/* ---- the pool ----------------------------------------------------------------------------------
 */

struct pool {
    char folder[64];
    struct store store;
    struct sampler sampler;
    struct batches queue;
    struct loader *loader;
};

enum { IMAGES = 8, BATCH = 4, THREADS_MAX = 5 };

static void make_pictures(const char *folder)
{
    struct dataset_config config = {
        .folder = folder, .images = IMAGES, .seed = 1, .mean_kb = 10.0, .classes = 2, .jobs = 1};
    struct dataset_result result;
    atomic_int stop = 0;

    assert_int_equal(dataset_make(&config, &stop, &result), 0);
}

static void start_pool(struct pool *pool, adloader_t *client)
{
    struct store_config config = {.folder = pool->folder, .format = STORE_JPEG};
    char error[FILES_ERROR_MAX];

    assert_int_equal(store_open(&config, &pool->store, error), 0);
    assert_int_equal(sampler_init(&pool->sampler, pool->store.count, 0, 1, 1), 0);
    assert_int_equal(batches_init(&pool->queue, 2, BATCH, FLOATS, NULL), 0);
    pool->loader = loader_new(&(struct loader_config){.store = &pool->store,
                                                      .sampler = &pool->sampler,
                                                      .queue = &pool->queue,
                                                      .client = client,
                                                      .seed = 1,
                                                      .threads_max = THREADS_MAX,
                                                      .side = SIDE});
    assert_non_null(pool->loader);
}

static void stop_pool(struct pool *pool)
{
    loader_free(pool->loader);
    batches_free(&pool->queue);
    sampler_free(&pool->sampler);
    store_close(&pool->store);
}

static int set_up(void **state)
{
    struct pool *pool = calloc(1, sizeof *pool);

    assert_non_null(pool);
    (void)snprintf(pool->folder, sizeof pool->folder, "/tmp/test-adltrain-XXXXXX");
    assert_non_null(mkdtemp(pool->folder));
    make_pictures(pool->folder);
    *state = pool;
    return 0;
}

static int tear_down(void **state)
{
    struct pool *pool = *state;
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", pool->folder);
    assert_int_equal(system(command), 0);
    free(pool);
    return 0;
}

/* Threads named adl-loader, from /proc: their number, and their thread ids if tids is not NULL. */
static unsigned loader_threads(int tids[THREADS_MAX])
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL && strcmp(name, "adl-loader\n") == 0) {
            assert_true(count < THREADS_MAX);
            if (tids != NULL)
                tids[count] = atoi(entry->d_name);
            count++;
        }
        (void)fclose(file);
    }
    (void)closedir(tasks);
    return count;
}

/* How often a thread has left a CPU: it stays the same while it sleeps. */
static unsigned long context_switches(int tid)
{
    unsigned long sum = 0, count;
    char path[64], line[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1 ||
            sscanf(line, "nonvoluntary_ctxt_switches: %lu", &count) == 1)
            sum += count;
    (void)fclose(file);
    return sum;
}

static void consume(struct pool *pool, int batches)
{
    for (int i = 0; i < batches; i++) {
        const struct batch *batch = batches_take(&pool->queue);

        assert_non_null(batch);
        batches_release(&pool->queue);
    }
}

/* How many of the threads sleep while batches are loaded. */
static unsigned count_asleep(struct pool *pool, const int tids[THREADS_MAX])
{
    unsigned long switches[THREADS_MAX];
    unsigned asleep = 0;

    for (int i = 0; i < THREADS_MAX; i++)
        switches[i] = context_switches(tids[i]);
    consume(pool, 20);
    for (int i = 0; i < THREADS_MAX; i++)
        asleep += context_switches(tids[i]) == switches[i];
    return asleep;
}

static void threads_grow_park_and_return(void **state)
{
    struct pool *pool = *state;
    int before[THREADS_MAX], after[THREADS_MAX];
    uint64_t deadline;

    start_pool(pool, NULL);
    assert_int_equal(loader_threads(NULL), 0);
    assert_int_equal(loader_set_workers(pool->loader, 2), 2);
    assert_int_equal(loader_threads(NULL), 2);
    consume(pool, 5);
    assert_int_equal(loader_set_workers(pool->loader, 99), THREADS_MAX);
    assert_int_equal(loader_threads(before), THREADS_MAX);
    consume(pool, 5);

    /* one works on, the others sleep and are not even woken */
    assert_int_equal(loader_set_workers(pool->loader, 0), 1);
    assert_int_equal(loader_workers(pool->loader), 1);
    deadline = clock_monotonic_ms() + PATIENCE_MS;
    while (count_asleep(pool, before) != THREADS_MAX - 1) /* when all have finished their sample */
        assert_true(clock_monotonic_ms() < deadline);

    assert_int_equal(loader_set_workers(pool->loader, 4), 4);
    consume(pool, 20);
    assert_int_equal(loader_threads(after), THREADS_MAX);
    assert_memory_equal(before, after, sizeof before); /* no thread was restarted */
    stop_pool(pool);
    assert_int_equal(loader_threads(NULL), 0);
}

static void totals_add_up(void **state)
{
    struct pool *pool = *state;
    struct loader_totals totals;
    struct cpus cpus = CPUS_EMPTY, own = CPUS_EMPTY;

    start_pool(pool, NULL);
    (void)loader_set_workers(pool->loader, 3);
    consume(pool, 10);
    assert_int_equal(loader_cpus(pool->loader, &cpus), 0);
    assert_int_equal(cpus_get_affinity(0, &own), 0);
    assert_true(cpus_equal(&cpus, &own));
    loader_totals(pool->loader, &totals);
    assert_in_range(totals.samples, 10 * BATCH, 12 * BATCH + THREADS_MAX);
    assert_int_equal(totals.skipped, 0);
    assert_true(totals.bytes > 10 * BATCH * 1000);
    assert_true(totals.decode_s > 0.0 && totals.augment_s > 0.0 && totals.read_s > 0.0);
    assert_true(totals.cpu_s > 0.0);
    cpus_free(&cpus);
    cpus_free(&own);
    stop_pool(pool);
}

static void damage_file(const char *path, size_t keep)
{
    assert_int_equal(truncate(path, (off_t)keep), 0);
}

static void bad_files_are_skipped_and_counted(void **state)
{
    struct pool *pool = *state;
    struct loader_totals totals;
    enum { BAD = 3, EPOCHS = 5 };

    start_pool(pool, NULL);
    damage_file(pool->store.files.paths[1], 0);
    damage_file(pool->store.files.paths[4], 500);
    assert_int_equal(unlink(pool->store.files.paths[6]), 0);
    (void)loader_set_workers(pool->loader, 2);
    consume(pool, EPOCHS * (IMAGES - BAD) / BATCH);
    loader_totals(pool->loader, &totals);
    assert_in_range(totals.skipped, (EPOCHS - 1) * BAD, (EPOCHS + 3) * BAD);
    assert_false(loader_failed(pool->loader));
    stop_pool(pool);
}

static void a_data_set_without_a_good_file_fails(void **state)
{
    struct pool *pool = *state;

    start_pool(pool, NULL);
    for (uint32_t i = 0; i < pool->store.count; i++)
        damage_file(pool->store.files.paths[i], 100);
    log_set_level(LOG_LEVEL_ERROR);
    (void)loader_set_workers(pool->loader, 3);
    assert_null(batches_take(&pool->queue));
    assert_true(loader_failed(pool->loader));
    stop_pool(pool);
}

/* ---- how many workers ---------------------------------------------------------------------------
 */

static void the_number_of_workers_has_one_order_of_sources(void **state)
{
    const struct {
        unsigned loaders;
        bool fixed;
        const char *environment, *per_task;
        unsigned mask, wanted;
    } cases[] = {
        {0, false, NULL, NULL, 6, 0 /* mask, within the CPUs online */},
        {8, false, NULL, NULL, 6, 8},
        {8, false, "3", NULL, 6, 3},
        {8, false, "30", NULL, 6, 8},
        {8, true, "3", NULL, 6, 8},
        {0, true, "1", NULL, 1, 1},
        {0, false, NULL, "1", 6, 1},
        {0, false, NULL, "junk", 1, 1},
    };

    (void)state;
    assert_int_equal(unsetenv("ADLOADER_SOCKET"), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct run_options options = {.loaders = cases[i].loaders, .fixed_loaders = cases[i].fixed};
        unsigned online = workers_max(&(struct run_options){0}), wanted = cases[i].wanted;
        adloader_t *client;

        (void)(cases[i].environment == NULL ? unsetenv("ADLOADER_WORKERS")
                                            : setenv("ADLOADER_WORKERS", cases[i].environment, 1));
        (void)(cases[i].per_task == NULL ? unsetenv("SLURM_CPUS_PER_TASK")
                                         : setenv("SLURM_CPUS_PER_TASK", cases[i].per_task, 1));
        if (wanted == 0)
            wanted = cases[i].mask < online ? cases[i].mask : online;
        client = adloader_open();
        assert_int_equal(workers_wanted(&options, cases[i].mask, client), wanted);
        adloader_close(client);
    }
    (void)unsetenv("ADLOADER_WORKERS");
    (void)unsetenv("SLURM_CPUS_PER_TASK");
}

/* ---- following an agent
 * -------------------------------------------------------------------------- */

static int listen_as_agent(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

static void advise(int fd, uint32_t workers)
{
    struct msg_client_change change = {.workers = workers, .managed = true};
    struct wire_writer frame = {0};

    assert_int_equal(cpus_parse(&change.cpus, "0"), 0);
    assert_int_equal(msg_client_change_write(&frame, &change), 0);
    assert_true(send(fd, frame.data, frame.length, MSG_NOSIGNAL) == (ssize_t)frame.length);
    wire_writer_free(&frame);
    msg_client_change_free(&change);
}

static void await_workers(struct pool *pool, unsigned wanted)
{
    uint64_t deadline = clock_monotonic_ms() + PATIENCE_MS;

    while (loader_workers(pool->loader) != wanted) {
        assert_true(clock_monotonic_ms() < deadline);
        (void)usleep(2000);
    }
}

static void the_monitor_follows_an_agent(void **state)
{
    struct pool *pool = *state;
    struct run_options options = {.loaders = THREADS_MAX, .quiet = true, .interval_s = 3600.0};
    struct progress progress;
    struct record record = {0};
    atomic_int stop = 0;
    struct monitor *monitor;
    adloader_t *client;
    char path[96];
    int listener, agent;

    (void)snprintf(path, sizeof path, "%s/agent", pool->folder);
    listener = listen_as_agent(path);
    assert_int_equal(setenv("ADLOADER_SOCKET", path, 1), 0);
    client = adloader_open();
    agent = accept(listener, NULL, NULL);
    assert_true(agent >= 0);
    start_pool(pool, client);
    assert_int_equal(progress_init(&progress), 0);
    (void)loader_set_workers(pool->loader, workers_wanted(&options, 1, client));
    monitor = monitor_start(&(struct monitor_config){.options = &options,
                                                     .mask_size = 1,
                                                     .client = client,
                                                     .loader = pool->loader,
                                                     .queue = &pool->queue,
                                                     .progress = &progress,
                                                     .record = &record,
                                                     .stop = &stop});
    assert_non_null(monitor);
    assert_int_equal(loader_workers(pool->loader), THREADS_MAX);
    advise(agent, 2);
    await_workers(pool, 2);
    advise(agent, 4);
    await_workers(pool, 4);
    advise(agent, 1000);
    await_workers(pool, THREADS_MAX);
    advise(agent, 1);
    await_workers(pool, 1);
    (void)close(agent); /* lost: back to what the program would do without */
    await_workers(pool, THREADS_MAX);

    monitor_stop(monitor);
    /* the record tells the same story */
    assert_int_equal(record.ncores, 6);
    assert_int_equal(record.cores[1].workers, 2);
    assert_int_equal(record.cores[2].workers, 4);
    assert_int_equal(record.cores[5].workers, THREADS_MAX);
    for (size_t i = 1; i < record.ncores; i++)
        assert_true(record.cores[i].t_s >= record.cores[i - 1].t_s);
    record_free(&record);
    stop_pool(pool);
    adloader_close(client);
    progress_free(&progress);
    (void)close(listener);
    assert_int_equal(unsetenv("ADLOADER_SOCKET"), 0);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_of_all_ranks_is_every_sample),
        cmocka_unit_test(epochs_differ_and_seeds_repeat),
        cmocka_unit_test(batches_are_whole_and_in_order),
        cmocka_unit_test(loaders_stay_within_the_depth),
        cmocka_unit_test(only_allowed_loaders_work),
        IN_FOLDER(threads_grow_park_and_return),
        IN_FOLDER(totals_add_up),
        IN_FOLDER(bad_files_are_skipped_and_counted),
        IN_FOLDER(a_data_set_without_a_good_file_fails),
        cmocka_unit_test(the_number_of_workers_has_one_order_of_sources),
        IN_FOLDER(the_monitor_follows_an_agent),
    };

    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("adltrain pool", tests, NULL, NULL);
}
