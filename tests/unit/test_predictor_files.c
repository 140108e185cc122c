/*
 * What the predictor reads from files: tables of models and GPUs, and profiles. They are hostile:
 * every bound is met from both sides, and changed bytes give a refusal or something sane, never a
 * crash (run with the sanitizers to see it).
 */
#include "config.h"

#include "calibration.h"
#include "keyvalue.h"
#include "known.h"
#include "names_near.h"
#include "profile.h"
#include "rng.h"
#include "tables.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/adl-test-predictor-XXXXXX";

static const char *path(const char *name)
{
    static char text[4][256];
    static unsigned turn;
    char *p = text[turn++ % 4];

    snprintf(p, sizeof(text[0]), "%s/%s", folder, name);
    return p;
}

static void write_file(const char *name, const char *text, size_t length)
{
    FILE *f = fopen(path(name), "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command);
}

static const char *source(void)
{
    static char text[4096];
    const char *dir = getenv("ADL_SRCDIR");

    snprintf(text, sizeof(text), "%s/predictor", dir != NULL ? dir : ".");
    return text;
}

/* ---- tables
 * -------------------------------------------------------------------------------------- */

static void the_tables_hold_what_is_promised(void **state)
{
    static const char *const MODELS[] = {"ResNet-18",
                                         "resnet50",
                                         "ResNet_101",
                                         "resnet152",
                                         "VGG-16",
                                         "MobileNet-V1",
                                         "mobilenetv2",
                                         "EfficientNet-B0",
                                         "efficientnet-b1",
                                         "efficientnet-b2",
                                         "efficientnet-b3",
                                         "efficientnet-b4",
                                         "efficientnet-b5",
                                         "efficientnet-b6",
                                         "EfficientNet-B7",
                                         "NASNet-A-mobile",
                                         "nasnet-a-large",
                                         "AlexNet",
                                         "ShuffleNetV2",
                                         "Inception-v3",
                                         "DenseNet-121",
                                         "ViT-B/16",
                                         "BERT-base",
                                         "bert-large",
                                         "GPT-2"};
    static const char *const GPUS[] = {"K40",      "K80",     "P100",   "V100",   "T4",
                                       "A100",     "H100",    "H200",   "L4",     "A10",
                                       "RTX 3090", "rtx4090", "MI250X", "MI300X", "GH200"};
    struct pred_tables t = {0};
    char error[256];

    (void)state;
    if (pred_tables_read(&t, source(), error, sizeof(error)) != 0)
        fail_msg("%s", error);
    for (size_t i = 0; i < sizeof(MODELS) / sizeof(MODELS[0]); i++) {
        char name[64];
        const struct pred_model *m;

        snprintf(name, sizeof(name), "%s", MODELS[i]);
        for (char *slash; (slash = strchr(name, '/')) != NULL;)
            *slash = '-';
        m = pred_tables_model(&t, name);
        if (m == NULL)
            fail_msg("no %s", MODELS[i]);
        assert_true(m->flops_forward > 0 && m->params > 0 && m->source[0] != '\0' &&
                    m->input[0] != '\0');
    }
    for (size_t i = 0; i < sizeof(GPUS) / sizeof(GPUS[0]); i++) {
        const struct pred_gpu *g = pred_tables_gpu(&t, GPUS[i]);

        if (g == NULL)
            fail_msg("no %s", GPUS[i]);
        assert_true(g->flops_per_s[PRED_FP32] > 0 && g->memory_bytes_per_s > 0 &&
                    g->link.bus_bytes_per_s > 0);
        assert_true(g->source[0] != '\0');
    }
    /* published: torchvision's weight metadata */
    assert_true(fabs(pred_tables_model(&t, "resnet50")->flops_forward - 8.178e9) < 1e6);
    assert_true(pred_tables_model(&t, "resnet51") == NULL);
    pred_tables_free(&t);
}

#define MODEL_HEAD "name,gmacs,params_m,acts_m,passes,input,sample_kb,source\n"

static void admins_file_adds_and_overrides(void **state)
{
    static const char MORE[] =
        "# ours\n" MODEL_HEAD "ResNet-50,9,9,-,-,x,-,ours\nour-net,1.5,2,3,4,5x5,6,ours\n";
    struct pred_tables t = {0};
    const struct pred_model *m;
    struct pred_job job;
    char error[256];
    size_t before;

    (void)state;
    assert_int_equal(pred_tables_read(&t, source(), error, sizeof(error)), 0);
    before = t.nmodels;
    write_file("models.csv", MORE, sizeof(MORE) - 1);
    assert_int_equal(pred_tables_read_models(&t, path("models.csv"), error, sizeof(error)), 0);
    assert_int_equal(t.nmodels, before + 1);
    assert_true(pred_tables_model(&t, "resnet50")->flops_forward == 18e9);
    m = pred_tables_model(&t, "our_net");
    assert_non_null(m);
    pred_job_init(&job);
    assert_true(pred_tables_apply(m, pred_tables_gpu(&t, "v100"), PRED_FP32, &job));
    assert_true(job.flops_forward == 3e9 && job.gradient_bytes == 8e6 && job.sample_bytes == 6000);
    assert_true(job.gpu_flops_per_s > 1e12 && job.sample_gpu_s > 0);
    assert_false(
        pred_tables_apply(m, pred_tables_gpu(&t, "v100"), PRED_TF32, &job)); /* it has none */
    assert_int_equal(pred_tables_read_models(&t, path("absent.csv"), error, sizeof(error)), -1);
    assert_int_equal(errno, ENOENT);
    pred_tables_free(&t);
}

/* A bad file is refused with its line and changes nothing. */
static void bad_tables_are_refused_whole(void **state)
{
    static const struct {
        const char *text, *says;
    } BAD[] = {
        {"", ":0: empty"},
        {"name,gmacs\n", ":1: a field is missing: params_m"},
        {"gmacs,name,params_m,acts_m,passes,input,sample_kb,source\n",
         ":1: this column has to be name"},
        {MODEL_HEAD "good,1,1,-,-,x,-,s\nbad,zero,1,-,-,x,-,s\n", ":3: gmacs has to be a number"},
        {MODEL_HEAD "bad,-1,1,-,-,x,-,s\n", ":2: gmacs"},
        {MODEL_HEAD "bad,nan,1,-,-,x,-,s\n", ":2: gmacs"},
        {MODEL_HEAD "bad,inf,1,-,-,x,-,s\n", ":2: gmacs"},
        {MODEL_HEAD "bad,1e300,1,-,-,x,-,s\n", ":2: gmacs"},
        {MODEL_HEAD "bad,1 2,1,-,-,x,-,s\n", ":2: gmacs"},
        {MODEL_HEAD "bad,1,-,-,-,x,-,s\n", ":2: params_m"},
        {MODEL_HEAD "bad,1,1,-,-,x,-,s,more\n", ":2: too many fields"},
        {MODEL_HEAD "bad,1,1,-,-\n", ":2: a field is missing: input"},
        {MODEL_HEAD "- -,1,1,-,-,x,-,s\n", ":2: a name is missing"},
        {MODEL_HEAD "ba\"d,1,1,-,-,x,-,s\n", ":2: an odd character"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct pred_tables t = {0};
        char error[512] = "";

        write_file("bad.csv", BAD[i].text, strlen(BAD[i].text));
        assert_int_equal(pred_tables_read_models(&t, path("bad.csv"), error, sizeof(error)), -1);
        if (strstr(error, BAD[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", error, BAD[i].says);
        assert_int_equal(t.nmodels, 0);
        pred_tables_free(&t);
    }
    {
        static char line[3000];
        struct pred_tables t = {0};
        char error[512];

        memset(line, 'a', sizeof(line));
        write_file("bad.csv", line, sizeof(line));
        assert_int_equal(pred_tables_read_models(&t, path("bad.csv"), error, sizeof(error)), -1);
        assert_non_null(strstr(error, "too long"));
    }
}

static size_t read_whole(const char *file, char *text, size_t size)
{
    FILE *f = fopen(file, "r");
    size_t n;

    assert_non_null(f);
    n = fread(text, 1, size, f);
    fclose(f);
    return n;
}

static void changed_tables_never_harm(void **state)
{
    static char text[65536], changed[65536];
    struct rng r = {11};
    char file[4200];
    unsigned accepted = 0;

    (void)state;
    snprintf(file, sizeof(file), "%s/gpus.csv", source());
    size_t n = read_whole(file, text, sizeof(text));

    for (unsigned round = 0; round < 3000; round++) {
        struct pred_tables t = {0};
        char error[256];
        size_t length = rng_chance(&r, 20) ? rng_below(&r, (unsigned)n) : n;

        memcpy(changed, text, n);
        for (unsigned k = rng_below(&r, 6); k > 0; k--)
            changed[rng_below(&r, (unsigned)n)] = "0123456789,.-e\n#x\0\xff"[rng_below(&r, 19)];
        write_file("gpus.csv", changed, length);
        if (pred_tables_read_gpus(&t, path("gpus.csv"), error, sizeof(error)) == 0) {
            accepted++;
            for (size_t i = 0; i < t.ngpus; i++) {
                struct pred_model m = {.flops_forward = 1e9,
                                       .params = 1e6,
                                       .activations = 1e6,
                                       .passes = 30,
                                       .sample_bytes = 1e5};
                struct pred_curve c;
                struct pred_job job;

                pred_job_init(&job);
                pred_tables_apply(&m, &t.gpus[i], PRED_FP32, &job);
                assert_int_equal(pred_curve_static(&job, 8, &c), 0);
                assert_true(isfinite(c.gpu_rate) && c.gpu_rate > 0);
                pred_curve_free(&c);
            }
        }
        pred_tables_free(&t);
    }
    assert_in_range(accepted, 100, 2900);
}

static void names_nearby(void **state)
{
    static const struct {
        const char *a, *b;
        unsigned distance;
    } ROWS[] = {
        {"ResNet-50", "resnet50", 0}, {"resent50", "resnet50", 1},
        {"resnet5", "resnet50", 1},   {"", "abc", 3},
        {"kitten", "sitting", 3},     {"a", "a", 0},
        {"v100", "p100", 1},
    };
    struct pred_tables t = {0};
    char error[256], text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        assert_int_equal(pred_names_distance(ROWS[i].a, ROWS[i].b), ROWS[i].distance);
        assert_int_equal(pred_names_distance(ROWS[i].b, ROWS[i].a), ROWS[i].distance);
    }
    assert_int_equal(pred_tables_read(&t, source(), error, sizeof(error)), 0);
    pred_tables_near_models(&t, "resnet5", text, sizeof(text));
    assert_non_null(strstr(text, "resnet50"));
    pred_tables_near_models(&t, "efficientnetb77", text, sizeof(text));
    assert_non_null(strstr(text, "efficientnet-b7"));
    pred_tables_near_gpus(&t, "v10", text, sizeof(text));
    assert_true(strncmp(text, "v100", 4) == 0);
    pred_tables_near_models(&t, "zzzzzzzzzzzz", text, sizeof(text));
    assert_string_equal(text, "");
    pred_tables_near_models(&t, "resnet", text, 12); /* a small buffer is not overrun */
    assert_true(strlen(text) < 12);
    pred_tables_free(&t);
}

/* ---- profiles
 * ------------------------------------------------------------------------------------- */

static struct pred_learner learned(double demand, double core_rate, double gpu_rate)
{
    struct pred_learner l;

    pred_learner_init(&l);
    l.reports = 100;
    l.use = l.demand = demand;
    l.demand_rel_sd = 0.05;
    l.core_rate = core_rate;
    l.beta = 0.05;
    l.gpu_rate = gpu_rate;
    return l;
}

static void learns_and_ages(void **state)
{
    struct pred_learner l = learned(8, 100, 600);
    struct pred_profile p;
    struct pred_job job;
    double fresh_sd;

    (void)state;
    assert_true(pred_profile_init(&p, "resnet50", "v100", "gold6132"));
    assert_true(pred_profile_learn(&p, &l, 4, 1e9));
    assert_true(p.core_rate == 100 && p.gpu_rate == 150 && p.demand == 2 && p.runs == 1);
    l = learned(8, 200, 600);
    assert_true(pred_profile_learn(&p, &l, 4, 1e9 + 86400));
    assert_true(p.core_rate > 110 && p.core_rate < 180); /* between both */
    assert_true(p.runs == 2);
    pred_job_init(&job);
    pred_profile_apply(&p, 2, 1e9 + 86400, &job);
    assert_true(job.core_rate.value == p.core_rate && job.gpu_rate.value == 2 * p.gpu_rate);
    assert_int_equal(job.core_rate.source, PRED_PROFILE);
    fresh_sd = job.core_rate.rel_sd;
    pred_job_init(&job);
    pred_profile_apply(&p, 2, 1e9 + 4 * 31557600.0, &job);
    assert_true(job.core_rate.rel_sd > 2 * fresh_sd); /* years later */
    /* what is old weighs little against a new run */
    l = learned(8, 400, 600);
    assert_true(pred_profile_learn(&p, &l, 4, 1e9 + 4 * 31557600.0));
    assert_true(p.core_rate > 350);
    /* too short, or only a guess: not learned */
    l.reports = 3;
    assert_false(pred_profile_learn(&p, &l, 4, 2e9));
    l = learned(8, 100, 600);
    l.exploring = true;
    assert_false(pred_profile_learn(&p, &l, 4, 2e9));
}

/* A demand alone, of a program that tells no samples, makes a relative curve. */
static void demand_alone_is_of_use(void **state)
{
    struct pred_learner l = learned(6, NAN, NAN);
    struct pred_profile p;
    struct pred_curve c;
    struct pred_job job;

    (void)state;
    l.beta = NAN;
    assert_true(pred_profile_init(&p, "their-net", "", ""));
    assert_true(pred_profile_learn(&p, &l, 1, 1e9));
    pred_job_init(&job);
    pred_profile_apply(&p, 1, 1e9, &job);
    pred_learner_init(&l);
    assert_int_equal(pred_learner_curve(&l, &job, 16, &c), 0);
    assert_true(c.relative && fabs(c.demand - 6) < 1e-6);
    assert_int_equal(c.source, PRED_PROFILE);
    assert_in_range(pred_curve_knee(&c, 0.02), 6, 8);
    pred_curve_free(&c);
}

static void stores_lists_and_forgets(void **state)
{
    struct pred_learner l = learned(8, 100, 600);
    struct pred_profile p, back, *all;
    char error[512];
    size_t n, corrupt;

    (void)state;
    assert_int_equal(
        pred_profile_read(path("store"), "a", "v100", "n", &back, error, sizeof(error)),
        PRED_STORED_NONE);
    for (unsigned i = 0; i < 3; i++) {
        static const char *const NAMES[] = {"c-net", "a-net", "b-net"};

        assert_true(pred_profile_init(&p, NAMES[i], i < 2 ? "v100" : "a100", "n"));
        assert_true(pred_profile_learn(&p, &l, 1, 1e9));
        if (pred_profile_write(path("store"), &p, error, sizeof(error)) != 0)
            fail_msg("%s", error);
    }
    assert_int_equal(
        pred_profile_read(path("store"), "b-net", "a100", "n", &back, error, sizeof(error)),
        PRED_STORED_OK);
    assert_true(back.core_rate == 100 && back.demand == 8 && back.runs == 1);
    assert_int_equal(pred_profile_list(path("store"), &all, &n, &corrupt, error, sizeof(error)), 0);
    assert_int_equal(n, 3);
    assert_string_equal(all[0].name, "a-net");
    assert_string_equal(all[2].name, "c-net");
    free(all);
    assert_int_equal(pred_profile_forget(path("store"), NULL, "v100", NULL, error, sizeof(error)),
                     2);
    assert_int_equal(pred_profile_forget(path("store"), "no-net", NULL, NULL, error, sizeof(error)),
                     0);
    assert_int_equal(pred_profile_list(path("store"), &all, &n, &corrupt, error, sizeof(error)), 0);
    assert_int_equal(n, 1);
    free(all);
    assert_false(pred_profile_init(&p, "../../etc/passwd", "", "")); /* cannot leave the folder */
    assert_false(pred_profile_init(&p, "a b", "", ""));
    assert_false(pred_profile_init(&p, "", "", ""));
    assert_false(pred_profile_init(&p, ".hidden", "", ""));
}

static void corrupt_ones_are_set_aside(void **state)
{
    static const char *const BAD[] = {"name=a\ngpu=g\nnode_type=n\ncore_rate=-5\n",
                                      "name=a\nname=b\n",
                                      "rubbish\n",
                                      "name=a\nwhat=1\n",
                                      "gpu=g\n",
                                      "name=a\ncore_rate=1e400\n",
                                      "name=a\ncore_rate=nan\n"};
    struct pred_profile p, *all;
    char error[512];
    size_t n, corrupt;

    (void)state;
    assert_int_equal(mkdir(path("bad"), 0755), 0);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        write_file("bad/a@g@n.profile", BAD[i], strlen(BAD[i]));
        assert_int_equal(pred_profile_read(path("bad"), "a", "g", "n", &p, error, sizeof(error)),
                         PRED_STORED_SET_ASIDE);
        assert_true(isnan(p.core_rate));
        assert_string_equal(p.name, "a");
        assert_non_null(strstr(error, "set aside as"));
        assert_int_equal(access(path("bad/a@g@n.profile"), F_OK), -1);
        assert_int_equal(access(path("bad/a@g@n.profile.corrupt"), F_OK), 0);
    }
    write_file("bad/x@g@n.profile", "\0\0\0", 3);
    write_file("bad/y@g@n.profile", "name=y\ndemand=3\n", 16);
    assert_int_equal(pred_profile_list(path("bad"), &all, &n, &corrupt, error, sizeof(error)), 0);
    assert_int_equal(n, 1);
    assert_int_equal(corrupt, 1);
    assert_true(all[0].demand == 3);
    free(all);
}

static void changed_profiles_never_harm(void **state)
{
    struct pred_learner l = learned(8, 100, 600);
    struct pred_profile p;
    struct rng r = {12};
    char text[4096], changed[4096], error[512];
    size_t n;
    unsigned accepted = 0;

    (void)state;
    assert_true(pred_profile_init(&p, "a", "g", "n"));
    assert_true(pred_profile_learn(&p, &l, 1, 1e9));
    assert_int_equal(pred_profile_write(path("fuzz"), &p, error, sizeof(error)), 0);
    n = read_whole(path("fuzz/a@g@n.profile"), text, sizeof(text));
    for (unsigned round = 0; round < 4000; round++) {
        memcpy(changed, text, n);
        for (unsigned k = 1 + rng_below(&r, 4); k > 0; k--)
            changed[rng_below(&r, (unsigned)n)] = "0123456789=.-e\n#\0\xff"[rng_below(&r, 18)];
        write_file("fuzz/a@g@n.profile", changed, n);
        if (pred_profile_read(path("fuzz"), "a", "g", "n", &p, error, sizeof(error)) ==
            PRED_STORED_OK) {
            struct pred_curve c;
            struct pred_job job;

            accepted++;
            pred_job_init(&job);
            pred_profile_apply(&p, 2, 1e9, &job);
            assert_int_equal(pred_curve_static(&job, 8, &c), 0);
            assert_true(isfinite(c.gpu_rate) && c.gpu_rate > 0 &&
                        c.rate[8] <= c.gpu_rate * (1 + 1e-9));
            pred_curve_free(&c);
        }
    }
    assert_in_range(accepted, 200, 3900);
}

/* ---- all of it, as a controller asks
 * ---------------------------------------------------------------- */

/* What was told, a line each. */
static char told[1024];

static void note(void *arg, const char *about, const char *sentence)
{
    size_t used = strlen(told);

    (void)arg;
    snprintf(told + used, sizeof(told) - used, "%s: %s\n", about != NULL ? about : "once",
             sentence);
}

static const struct pred_tell tell = {note, NULL};

static void known_before_and_after(void **state)
{
    struct pred_calibration c;
    struct pred_known *k;
    struct pred_learner l = learned(8, 300, 1600);
    struct pred_job job;
    struct hints hints;
    char error[1024];

    (void)state;
    assert_int_equal(mkdir(path("state"), 0755), 0);
    assert_int_equal(mkdir(path("state/calibration"), 0755), 0);
    pred_calibration_init(&c);
    snprintf(c.gpu, sizeof(c.gpu), "NVIDIA-Tesla-V100-SXM2-16GB");
    c.jpeg_rate = 400;
    assert_int_equal(pred_calibration_write(&c, path("state/calibration/n1"), error, sizeof(error)),
                     0);
    k = pred_known_new(source(), "/nowhere", path("state"), &tell);
    assert_non_null(k);
    assert_int_equal(
        hints_parse("model=ResNet-50,batch=64,workers=2-16", &hints, error, sizeof(error)), 0);

    pred_job_init(&job);
    job.gpus = job.gpus_total = 2;
    job.nodes = 1;
    pred_known_job(k, &hints, 7, "n1", 1e9, &job, &tell);
    assert_string_equal(told, "");
    assert_true(fabs(job.flops_forward - 8.178e9) < 1e6 && job.batch == 64 &&
                job.workers_max == 16);
    assert_true(job.core_rate.value == 400 && job.core_rate.source == PRED_STATIC);
    assert_true(fabs(job.gpu_flops_per_s - 15.7e12 * 0.75) < 1e9); /* a V100 */

    assert_true(pred_known_learn(k, &hints, 7, "n1", 2, &l, 1e9, &tell));
    pred_job_init(&job);
    job.gpus = job.gpus_total = 2;
    pred_known_job(k, &hints, 7, "n1", 1e9, &job, &tell);
    assert_true(fabs(job.core_rate.value - 300) < 1e-6 && job.core_rate.source == PRED_PROFILE);
    assert_true(fabs(job.gpu_rate.value - 1600) < 1e-3);

    /* another user does not start with that, unless an admin shares it */
    pred_job_init(&job);
    job.gpus = job.gpus_total = 2;
    pred_known_job(k, &hints, 8, "n1", 1e9, &job, &tell);
    assert_int_equal(job.core_rate.source, PRED_STATIC);
    {
        struct pred_profile shared;

        assert_true(pred_profile_init(&shared, "ResNet-50", "v100", ""));
        shared.core_rate = 250;
        shared.core_rate_sd = 0.1;
        assert_int_equal(pred_profile_write(path("state/profiles"), &shared, error, sizeof(error)),
                         0);
    }
    pred_known_job(k, &hints, 8, "n1", 1e9, &job, &tell);
    assert_true(job.core_rate.value == 250);

    /* what is bad is told with what it is about; a file that is set aside, as an event */
    write_file("state/profiles/resnet-50+9@v100@any.profile", "rubbish", 7);
    told[0] = '\0';
    pred_known_job(k, &hints, 9, "n1", 1e9, &job, &tell);
    assert_int_equal(strncmp(told, "once: ", 6), 0);
    assert_int_equal(mkdir(path("state/profiles/resnet-50+9@v100@any.profile"), 0755), 0);
    told[0] = '\0';
    pred_known_job(k, &hints, 9, "n1", 1e9, &job, &tell);
    assert_int_equal(strncmp(told, "read profile ResNet-50+9@v100: ", 31), 0);
    told[0] = '\0';

    /* an unknown node and model: nothing breaks, nothing is invented */
    assert_int_equal(hints_parse("model=their-net,flops=3e9", &hints, error, sizeof(error)), 0);
    pred_job_init(&job);
    pred_known_job(k, &hints, 7, "../n1", 1e9, &job, &tell);
    assert_true(job.flops_forward == 3e9 && isnan(job.core_rate.value) &&
                isnan(job.gpu_flops_per_s));
    assert_string_equal(told, "model their-net is in no table: model their-net is in no table\n");
    assert_int_equal(hints_parse("on", &hints, error, sizeof(error)), 0);
    assert_false(pred_known_learn(k, &hints, 7, "n1", 2, &l, 1e9, &tell));
    pred_known_free(k);
    told[0] = '\0';
    k = pred_known_new("/nowhere", "/nowhere", "", &tell);
    assert_non_null(k);
    assert_non_null(strstr(told, "/nowhere/models.csv"));
    pred_job_init(&job);
    pred_known_job(k, &hints, 7, "n1", 1e9, &job, &tell);
    pred_known_free(k);
}

/* No name that a hint may have is one that the store of profiles refuses. */
static void names_of_hints_name_profiles(void **state)
{
    static const char letters[] = "aZ09._+-/~@# ";
    struct rng r = {5};
    struct pred_known *k;
    unsigned accepted = 0;

    (void)state;
    k = pred_known_new(source(), "/nowhere", path("none"), &tell);
    assert_non_null(k);
    for (unsigned round = 0; round < 20000; round++) {
        char text[128], error[1024];
        struct pred_job job;
        struct hints hints;
        size_t n = (size_t)snprintf(text, sizeof(text), rng_chance(&r, 50) ? "profile=" : "model=");

        for (unsigned i = rng_below(&r, rng_chance(&r, 20) ? 70 : 5); i > 0; i--)
            text[n++] = letters[rng_below(&r, sizeof(letters) - 1)];
        text[n] = '\0';
        if (hints_parse(text, &hints, error, sizeof(error)) < 0)
            continue;
        accepted++;
        told[0] = '\0';
        pred_job_init(&job);
        pred_known_job(k, &hints, UINT32_MAX, "n1", 1e9, &job, &tell);
        if (strstr(told, "cannot name") != NULL || (hints.profile[0] != '\0' && told[0] != '\0'))
            fail_msg("%s: %s", text, told);
    }
    assert_in_range(accepted, 2000, 18000);
    pred_known_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_hold_what_is_promised),
        cmocka_unit_test(admins_file_adds_and_overrides),
        cmocka_unit_test(bad_tables_are_refused_whole),
        cmocka_unit_test(changed_tables_never_harm),
        cmocka_unit_test(names_nearby),
        cmocka_unit_test(learns_and_ages),
        cmocka_unit_test(demand_alone_is_of_use),
        cmocka_unit_test(stores_lists_and_forgets),
        cmocka_unit_test(corrupt_ones_are_set_aside),
        cmocka_unit_test(changed_profiles_never_harm),
        cmocka_unit_test(known_before_and_after),
        cmocka_unit_test(names_of_hints_name_profiles),
    };

    return cmocka_run_group_tests_name("predictor files", tests, make_folder, remove_folder);
}
