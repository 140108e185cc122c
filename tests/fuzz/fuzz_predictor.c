/*
 * What the predictor takes from outside, by the first byte: a learner's saved state, reports,
 * tables, profiles. Whatever is accepted gives a curve of finite, rising, bounded numbers.
 */
#include "config.h"

#include "fuzz.h"
#include "keyvalue.h"
#include "predictor.h"
#include "profile.h"
#include "profile_text.h"
#include "tables.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char fuzz_name[] = "predictor";
const unsigned fuzz_inputs = 60000;

enum kind { STATE, REPORTS, MODELS, GPUS, PROFILE, KINDS };

static void check_curve(const struct pred_curve *c)
{
    PROMISE(isfinite(c->gpu_rate) && c->gpu_rate > 0);
    PROMISE(isfinite(c->demand) && c->demand >= 0 && c->demand <= PRED_CORES_MAX);
    PROMISE(isfinite(c->demand_rel_sd) && c->demand_rel_sd >= 0);
    for (unsigned i = 0; i <= c->ncores; i++) {
        PROMISE(isfinite(c->rate[i]) && c->rate[i] >= 0 && c->rate[i] <= c->gpu_rate * (1 + 1e-9));
        PROMISE(c->low[i] >= 0 && c->low[i] <= c->rate[i]);
        PROMISE(isfinite(c->high[i]) && c->high[i] >= c->rate[i]);
        PROMISE(i == 0 || c->rate[i] >= c->rate[i - 1]);
    }
}

static void check_learner(const struct pred_learner *learner, const struct pred_job *job)
{
    struct pred_curve curve;

    PROMISE(pred_learner_curve(learner, job, 12, &curve) == 0);
    check_curve(&curve);
    pred_curve_free(&curve);
}

static void take_reports(struct pred_learner *learner, const struct pred_job *job,
                         const uint8_t *data, size_t size)
{
    for (; size >= 24; data += 24, size -= 24) {
        float number[3];
        struct pred_observation o = {.interval_s = data[0] / 16.0,
                                     .cores = data[1] % 64,
                                     .tasks = data[2],
                                     .workers = data[3] % (data[2] + 1u)};

        memcpy(number, data + 4, sizeof(number));
        o.loader_cpu_s = (double)number[0];
        o.samples = (double)number[1];
        o.read_bytes = (double)number[2];
        o.gpu_busy = data[16] < 200 ? data[16] / 199.0 : NAN;
        o.wait_s = data[17] < 250 ? data[17] / 16.0 : NAN;
        o.busy_s = data[18] < 250 ? data[18] / 16.0 : NAN;
        o.queue_s = data[19] < 250 ? data[19] : NAN;
        o.io_wait = data[20] < 250 ? data[20] : NAN;
        pred_learner_observe(learner, job, &o);
        check_learner(learner, job);
    }
}

static void take_state(const struct pred_job *job, const uint8_t *data, size_t size)
{
    const uint8_t report[24] = {16, 4, 8, 8, 0, 0, 64, 64};
    struct pred_learner learner, back;
    uint8_t saved[PRED_STATE_MAX];
    size_t length;

    pred_learner_init(&learner);
    if (pred_learner_load(&learner, data, size) != 0)
        return;
    length = pred_learner_save(&learner, saved, sizeof(saved));
    PROMISE(length > 0 && length <= PRED_STATE_MAX);
    PROMISE(pred_learner_load(&back, saved, length) == 0);
    check_learner(&learner, job);
    take_reports(&learner, job, report, sizeof(report));
}

static void take_table(bool models, const uint8_t *data, size_t size)
{
    struct pred_tables tables = {0};
    char name[64], error[512];
    int fd = memfd_create("table", MFD_CLOEXEC);

    PROMISE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    if ((models ? pred_tables_read_models(&tables, name, error, sizeof(error))
                : pred_tables_read_gpus(&tables, name, error, sizeof(error))) != 0) {
        PROMISE(error[0] != '\0' && tables.nmodels == 0 && tables.ngpus == 0);
    } else {
        for (size_t i = 0; i < tables.nmodels; i++)
            PROMISE(isfinite(tables.models[i].flops_forward) &&
                    tables.models[i].flops_forward > 0 && tables.models[i].params >= 0);
        for (size_t i = 0; i < tables.ngpus; i++)
            PROMISE(isfinite(tables.gpus[i].memory_bytes_per_s) &&
                    tables.gpus[i].memory_bytes_per_s > 0);
    }
    pred_tables_free(&tables);
    close(fd);
}

static void take_profile(const uint8_t *data, size_t size)
{
    struct pred_profile profile;
    struct pred_curve curve;
    struct pred_job job;
    char error[256];

    if (pred_kv_parse((const char *)data, size, PRED_PROFILE_FIELDS, &profile, error,
                      sizeof(error)) != 0) {
        PROMISE(error[0] != '\0');
        return;
    }
    pred_job_init(&job);
    pred_profile_apply(&profile, 4, 1.8e9, &job);
    PROMISE(pred_curve_static(&job, 12, &curve) == 0);
    check_curve(&curve);
    pred_curve_free(&curve);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pred_learner learner;
    struct pred_job job;

    if (size < 1)
        return 0;
    pred_job_init(&job);
    pred_learner_init(&learner);
    switch (data[0] % KINDS) {
    case STATE:
        take_state(&job, data + 1, size - 1);
        break;
    case REPORTS:
        take_reports(&learner, &job, data + 1, size - 1);
        break;
    case MODELS:
    case GPUS:
        take_table(data[0] % KINDS == MODELS, data + 1, size - 1);
        break;
    default:
        take_profile(data + 1, size - 1);
    }
    return 0;
}

static size_t seed_text(const char *text, uint8_t *buf, size_t size)
{
    size_t n = strlen(text);

    PROMISE(n + 1 <= size);
    memcpy(buf + 1, text, n);
    return n + 1;
}

static size_t seed_reports(unsigned index, uint8_t *buf, size_t size)
{
    size_t n = 1;

    for (unsigned i = 0; i < 20 && n + 24 <= size; i++, n += 24) {
        const float number[3] = {1.0f + (float)(index % 7), (float)(100 * (i % 3 + 1)), 1e6f};

        memset(buf + n, 255, 24); /* all else unknown */
        buf[n] = 16;
        buf[n + 1] = (uint8_t)(4 + index % 5);
        buf[n + 2] = buf[n + 3] = 8;
        memcpy(buf + n + 4, number, sizeof(number));
        if (index % 2 == 0)
            buf[n + 16] = 120;
    }
    return n;
}

static size_t seed_state(unsigned index, uint8_t *buf, size_t size)
{
    struct pred_learner learner;
    struct pred_job job;
    uint8_t reports[512];
    size_t n = seed_reports(index, reports, sizeof(reports));

    pred_job_init(&job);
    pred_learner_init(&learner);
    take_reports(&learner, &job, reports + 1, n - 1);
    return 1 + pred_learner_save(&learner, buf + 1, size - 1);
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    buf[0] = (uint8_t)(index % KINDS);
    switch (index % KINDS) {
    case STATE:
        return seed_state(index / KINDS, buf, size);
    case REPORTS:
        return seed_reports(index / KINDS, buf, size);
    case MODELS:
        return seed_text("# "
                         "c\nname,gmacs,params_m,acts_m,passes,input,sample_kb,source\nresnet50,4."
                         "1,25.6,11.1,30,3x224x224,110,tv\nx,1,2,-,-,y,-,z\n",
                         buf, size);
    case GPUS:
        return seed_text("name,fp32,tf32,amp,eff,eff_amp,mem_gbs,bus_gbs,alpha_us,link,"
                         "source\nv100,15.7,-,125,0.75,0.7,900,130,6,NVLink2,ds\n",
                         buf, size);
    default:
        return seed_text(
            "# c\nname=a\ngpu=v100\nnode_type=n\ncore_rate=100  # "
            "x\ncore_rate_sd=0.1\nbeta=0.05\ngpu_rate=600\ndemand=3\nruns=2\nupdated_s=1.7e9\n",
            buf, size);
    }
}
