/* How busy the step's GPUs are: see nvml.h. */
#include "config.h"

#include "nvml.h"

#include "log.h"
#include "thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_BYTES (256u * 1024u) /* the library needs more than we do */
#define DEVICES_MAX 64u
#define SAMPLE_MS   500
#define FAILED_MAX  20u /* samples in a row without any value, until it is given up */

/* ---- the library's interface, as its manual documents it ---- */

typedef void *nvml_device;
typedef int nvml_result; /* 0 is success */

struct nvml_utilization {
    unsigned gpu, memory; /* per cent of the last sample period */
};

struct nvml_calls {
    nvml_result (*init)(void);
    nvml_result (*shutdown)(void);
    nvml_result (*count)(unsigned *count);
    nvml_result (*by_index)(unsigned index, nvml_device *device);
    nvml_result (*by_uuid)(const char *uuid, nvml_device *device);
    nvml_result (*by_pci)(const char *address, nvml_device *device);
    nvml_result (*minor)(nvml_device device, unsigned *minor);
    nvml_result (*utilization)(nvml_device device, struct nvml_utilization *utilization);
    nvml_result (*mig_mode)(nvml_device device, unsigned *current, unsigned *pending); /* or NULL */
};

struct nvml {
    atomic_uint users; /* the thread, and who started it: the last one frees it */
    atomic_bool leaving;
    _Atomic double busy;
    char library[256];
    char gpus[DEVICES_MAX][MSG_GPU_MAX];
    unsigned ngpus;
};

static void release(struct nvml *n)
{
    if (atomic_fetch_sub(&n->users, 1) == 1)
        free(n);
}

/* ---- in the thread ---- */

/* A function's address, by way of memory: ISO C has no conversion from an object's. */
static bool find(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_calls(void *handle, struct nvml_calls *c)
{
    (void)find(handle, "nvmlDeviceGetMigMode", &c->mig_mode);
    return find(handle, "nvmlInit_v2", &c->init) && find(handle, "nvmlShutdown", &c->shutdown) &&
           find(handle, "nvmlDeviceGetCount_v2", &c->count) &&
           find(handle, "nvmlDeviceGetHandleByIndex_v2", &c->by_index) &&
           find(handle, "nvmlDeviceGetHandleByUUID", &c->by_uuid) &&
           find(handle, "nvmlDeviceGetHandleByPciBusId_v2", &c->by_pci) &&
           find(handle, "nvmlDeviceGetMinorNumber", &c->minor) &&
           find(handle, "nvmlDeviceGetUtilizationRates", &c->utilization);
}

/* The library's own order of GPUs is none that Slurm or CUDA use: minor numbers are compared. */
static bool by_minor(const struct nvml_calls *c, unsigned long wanted, nvml_device *device)
{
    unsigned count = 0, minor;
    if (c->count(&count) != 0)
        return false;
    for (unsigned i = 0; i < count && i < DEVICES_MAX; i++)
        if (c->by_index(i, device) == 0 && c->minor(*device, &minor) == 0 && minor == wanted)
            return true;
    return false;
}

static bool find_device(const struct nvml_calls *c, const char *name, nvml_device *device)
{
    unsigned current = 0, pending = 0;
    char *end;
    errno = 0;
    unsigned long number = strtoul(name, &end, 10);
    bool found;
    if (strncmp(name, "MIG", 3) == 0)
        return false;
    if (strncmp(name, "GPU-", 4) == 0)
        found = c->by_uuid(name, device) == 0;
    else if (strchr(name, ':') != NULL)
        found = c->by_pci(name, device) == 0;
    else
        found = name[0] >= '0' && name[0] <= '9' && *end == '\0' && errno == 0 &&
                by_minor(c, number, device);
    return found &&
           (c->mig_mode == NULL || c->mig_mode(*device, &current, &pending) != 0 || current == 0);
}

/* NAN if none tells. */
static double sample(const struct nvml_calls *c, const nvml_device *devices, unsigned n)
{
    double sum = 0;
    unsigned known = 0;
    for (unsigned i = 0; i < n; i++) {
        struct nvml_utilization u = {0, 0};
        if (c->utilization(devices[i], &u) != 0 || u.gpu > 100)
            continue;
        sum += u.gpu / 100.0;
        known++;
    }
    return known > 0 ? sum / known : (double)NAN;
}

static void watch(struct nvml *n, const struct nvml_calls *c)
{
    const struct timespec pause = {0, SAMPLE_MS * 1000000L};
    nvml_device devices[DEVICES_MAX];
    unsigned ndevices = 0, failed = 0;
    for (unsigned i = 0; i < n->ngpus; i++)
        if (find_device(c, n->gpus[i], &devices[ndevices]))
            ndevices++;
        else
            log_debug("GPU %s: its use is not known", n->gpus[i]);
    double mean = (double)NAN;
    while (ndevices > 0 && failed < FAILED_MAX && !atomic_load(&n->leaving)) {
        double now = sample(c, devices, ndevices);
        failed = isnan(now) ? failed + 1 : 0;
        mean = isnan(now) || isnan(mean) ? now : (mean + now) / 2;
        atomic_store(&n->busy, mean);
        (void)nanosleep(&pause, NULL);
    }
    atomic_store(&n->busy, (double)NAN);
}

static void *run(void *argument)
{
    struct nvml *n = argument;
    struct nvml_calls calls;
    (void)pthread_setname_np(pthread_self(), "adl-nvml");
    void *handle = dlopen(n->library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        log_debug("GPU use is not known: %s", dlerror());
    } else if (!find_calls(handle, &calls) || calls.init() != 0) {
        log_debug("GPU use is not known: %s does not work here", n->library);
    } else {
        watch(n, &calls);
        (void)calls.shutdown();
    }
    if (handle != NULL)
        dlclose(handle);
    release(n);
    return NULL;
}

/* ---- from outside ---- */

struct nvml *nvml_start(const char *library, const char (*gpus)[MSG_GPU_MAX], unsigned ngpus)
{
    struct nvml *n = ngpus > 0 ? calloc(1, sizeof *n) : NULL;
    if (n == NULL || strlen(library) >= sizeof n->library) {
        free(n);
        return NULL;
    }
    memcpy(n->library, library, strlen(library) + 1);
    n->ngpus = ngpus < DEVICES_MAX ? ngpus : DEVICES_MAX;
    memcpy(n->gpus, gpus, n->ngpus * sizeof n->gpus[0]);
    atomic_init(&n->busy, (double)NAN);
    atomic_init(&n->users, 2);
    int rc = thread_start(NULL, STACK_BYTES, run, n);
    if (rc == 0)
        return n;
    log_debug("GPU use is not known: no thread for it: %s", strerror(rc));
    free(n);
    return NULL;
}

double nvml_busy(const struct nvml *n)
{
    return n != NULL ? atomic_load(&n->busy) : (double)NAN;
}

void nvml_stop(struct nvml *n)
{
    if (n == NULL)
        return;
    atomic_store(&n->leaving, true);
    release(n);
}
