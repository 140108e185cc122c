/*
 * A management library of GPUs that are not there, for the agent to load: three of them, numbered
 * by the library otherwise than by minor number; the third is cut into MIG instances.
 *
 * Environment: FAKE_NVML_BROKEN makes its start fail; FAKE_NVML_UNSUPPORTED its figures.
 */
#include <stdlib.h>
#include <string.h>

#define DEVICES 3u

struct utilization {
    unsigned gpu, memory;
};

static const struct device {
    const char *uuid, *address;
    unsigned minor, busy, mig;
} devices[DEVICES] = {
    {"GPU-aaaa", "0000:07:00.0", 2, 80, 0},
    {"GPU-bbbb", "0000:0A:00.0", 0, 20, 0},
    {"GPU-cccc", "0000:47:00.0", 1, 99, 1},
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, const void **device);
int nvmlDeviceGetHandleByUUID(const char *uuid, const void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, const void **device);
int nvmlDeviceGetMinorNumber(const void *device, unsigned *minor);
int nvmlDeviceGetMigMode(const void *device, unsigned *current, unsigned *pending);
int nvmlDeviceGetUtilizationRates(const void *device, struct utilization *utilization);

int nvmlInit_v2(void)
{
    return getenv("FAKE_NVML_BROKEN") != NULL ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = DEVICES;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, const void **device)
{
    *device = &devices[index < DEVICES ? index : 0];
    return index < DEVICES ? 0 : 2;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, const void **device)
{
    for (unsigned i = 0; i < DEVICES; i++)
        if (strcmp(devices[i].uuid, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2(i, device);
    return 6;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, const void **device)
{
    for (unsigned i = 0; i < DEVICES; i++)
        if (strcmp(devices[i].address, address) == 0)
            return nvmlDeviceGetHandleByIndex_v2(i, device);
    return 6;
}

int nvmlDeviceGetMinorNumber(const void *device, unsigned *minor)
{
    *minor = ((const struct device *)device)->minor;
    return 0;
}

int nvmlDeviceGetMigMode(const void *device, unsigned *current, unsigned *pending)
{
    *current = *pending = ((const struct device *)device)->mig;
    return 0;
}

int nvmlDeviceGetUtilizationRates(const void *device, struct utilization *utilization)
{
    utilization->gpu = ((const struct device *)device)->busy;
    utilization->memory = 1;
    return getenv("FAKE_NVML_UNSUPPORTED") != NULL ? 3 : 0;
}
