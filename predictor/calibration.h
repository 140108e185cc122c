/*
 * What `adloader calibrate` measured of a node, kept as a file of key=value lines (keyvalue.h) that
 * an admin may read and edit. What could not be measured is not in it, and stays unknown.
 */
#ifndef ADLOADER_PREDICTOR_CALIBRATION_H
#define ADLOADER_PREDICTOR_CALIBRATION_H

#include "predictor.h"
#include "tables.h"

#include <stddef.h>

#define PRED_CALIBRATION_FOLDER "calibration" /* below the controller's StateDir, a file a node */

struct pred_calibration { /* NAN, "": unknown */
    char node[PRED_NAME_MAX], cpu[128];
    double cores;              /* PUs that it measured with */
    double measured_s;         /* seconds since the epoch */
    double jpeg_rate;          /* images/s of one core: 500x375 JPEG to a normalised 224x224 crop */
    double jpeg_beta;          /* contention over cores */
    double jpeg_ceiling;       /* images/s that no number of cores passed; unknown: none was met */
    double memory_bytes_per_s; /* all cores copying: read plus written */
    char storage[256];         /* the folder that was read */
    double storage_bytes_per_s, storage_latency_s; /* random reads; one of them alone */
    char gpu[PRED_NAME_MAX];
    double gpus;
    double fp32_flops_per_s, tf32_flops_per_s, amp_flops_per_s; /* large products */
    double gpu_memory_bytes_per_s, host_to_gpu_bytes_per_s;
    double nccl_alpha_s, nccl_bus_bytes_per_s; /* over all its GPUs */
};

void pred_calibration_init(struct pred_calibration *calibration); /* all unknown */

/* 0; -1 with a sentence in error (errno ENOENT where there is no such file). */
int pred_calibration_read(struct pred_calibration *calibration, const char *file, char *error,
                          size_t size);
/* Whole or not at all. */
int pred_calibration_write(const struct pred_calibration *calibration, const char *file,
                           char *error, size_t size);

#endif
