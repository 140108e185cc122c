/* See calibration.h. */
#include "config.h"

#include "calibration.h"

#include "keyvalue.h"

#include <errno.h>
#include <stdio.h>

#define TEXT(member)                                                                               \
    offsetof(struct pred_calibration, member), sizeof(((struct pred_calibration *)0)->member), 0,  \
        0, NULL
#define NUMBER(member, low, high, comment)                                                         \
    offsetof(struct pred_calibration, member), 0, low, high, comment

static const struct pred_kv_field FIELDS[] = {
    {"node", TEXT(node)},
    {"cpu", TEXT(cpu)},
    {"cores", NUMBER(cores, 1, 65536, "PUs that it was measured with")},
    {"measured_s", NUMBER(measured_s, 0, 1e12, "seconds since the epoch")},
    {"jpeg_rate", NUMBER(jpeg_rate, 1e-3, 1e9, "images/s of one core")},
    {"jpeg_beta", NUMBER(jpeg_beta, 0, 0.95, "contention over cores, 0 none")},
    {"jpeg_ceiling", NUMBER(jpeg_ceiling, 1e-3, 1e12, "images/s whatever the cores")},
    {"memory_bytes_per_s", NUMBER(memory_bytes_per_s, 1, 1e15, "all cores copying")},
    {"storage", TEXT(storage)},
    {"storage_bytes_per_s", NUMBER(storage_bytes_per_s, 1, 1e15, "random reads")},
    {"storage_latency_s", NUMBER(storage_latency_s, 1e-9, 1e4, "of one read")},
    {"gpu", TEXT(gpu)},
    {"gpus", NUMBER(gpus, 0, 1024, NULL)},
    {"fp32_flops_per_s", NUMBER(fp32_flops_per_s, 1, 1e18, NULL)},
    {"tf32_flops_per_s", NUMBER(tf32_flops_per_s, 1, 1e18, NULL)},
    {"amp_flops_per_s", NUMBER(amp_flops_per_s, 1, 1e18, "FP16 with FP32 sums")},
    {"gpu_memory_bytes_per_s", NUMBER(gpu_memory_bytes_per_s, 1, 1e15, NULL)},
    {"host_to_gpu_bytes_per_s", NUMBER(host_to_gpu_bytes_per_s, 1, 1e15, "pinned memory")},
    {"nccl_alpha_s", NUMBER(nccl_alpha_s, 1e-9, 10, "one step of a small all-reduce")},
    {"nccl_bus_bytes_per_s", NUMBER(nccl_bus_bytes_per_s, 1, 1e15, "large all-reduce")},
    {NULL, 0, 0, 0, 0, NULL},
};

static const char HEAD[] =
    "# adloader: what was measured of this node by adloader calibrate. Lines may be changed\n"
    "# or taken out: what is not here is unknown.\n";

void pred_calibration_init(struct pred_calibration *calibration)
{
    pred_kv_clear(FIELDS, calibration);
}

int pred_calibration_read(struct pred_calibration *calibration, const char *file, char *error,
                          size_t size)
{
    char text[PRED_KV_TEXT_MAX], why[256];
    long length = pred_kv_read_file(file, text, error, size);

    pred_calibration_init(calibration);
    if (length < 0)
        return -1;
    if (pred_kv_parse(text, (size_t)length, FIELDS, calibration, why, sizeof(why)) == 0)
        return 0;
    pred_calibration_init(calibration);
    snprintf(error, size, "%s: %s", file, why);
    errno = EINVAL;
    return -1;
}

int pred_calibration_write(const struct pred_calibration *calibration, const char *file,
                           char *error, size_t size)
{
    char text[PRED_KV_TEXT_MAX];

    if (pred_kv_format(FIELDS, calibration, HEAD, text, sizeof(text)) >= (int)sizeof(text)) {
        snprintf(error, size, "%s: too much to write", file);
        errno = EOVERFLOW;
        return -1;
    }
    return pred_kv_write_file(file, text, true, error, size);
}
