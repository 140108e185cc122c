/*
 * The parts of adloader calibrate: each measures one thing of this node within a time budget, says
 * how it gets on, and leaves unknown (NAN) what it could not measure.
 */
#ifndef ADLOADER_CAL_H
#define ADLOADER_CAL_H

#include "calibration.h"

#include <stdbool.h>
#include <stddef.h>

/* Progress and remarks for people; nothing with --json or --quiet. */
struct cal_voice {
    bool quiet;
};
/* Why something is not measured; said always. */
void cal_missing(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cal_say(const struct cal_voice *voice, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Runs work() over and over on n threads, each bound to a CPU of its own as far as there are so
 * many, for so many seconds, and returns how many units all did a second; NAN where it failed. A
 * state belongs to each thread.
 */
struct cal_work {
    void *(*start)(unsigned thread, void *data); /* NULL: failed */
    double (*work)(void *state);                 /* units done; negative: failed */
    void (*stop)(void *state);
    void *data;
    bool by_cpu_time; /* units a CPU second: what others do on these CPUs then matters less */
};
double cal_parallel(const struct cal_work *work, unsigned n, double seconds);

/* CPUs that this process may use. */
unsigned cal_cpus(void);

/* 1, 2, 3, 4, 6, 8, 12, ... up to and with n; returns how many, at most `size`. */
unsigned cal_thread_counts(unsigned n, unsigned *counts, unsigned size);

/* JPEG to a normalised crop, as a training's loader does it; seconds for all. */
void cal_jpeg(const struct cal_voice *voice, unsigned threads, double seconds,
              struct pred_calibration *out);
void cal_memory(const struct cal_voice *voice, unsigned threads, double seconds,
                struct pred_calibration *out);
/* Random reads of the folder's files, past the page cache where the file system can. */
void cal_storage(const struct cal_voice *voice, const char *folder, double seconds,
                 struct pred_calibration *out);
/* Runs the program that knows CUDA and NCCL, which is built where they are. */
void cal_gpu(const struct cal_voice *voice, double seconds, struct pred_calibration *out);

#endif
