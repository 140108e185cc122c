/*
 * What the step's tasks did since the last sample: CPU time of loaders and of the rest, time spent
 * waiting for a CPU, states, bytes read. One pass over the inventory of the last scan.
 */
#ifndef ADLOADER_SAMPLE_H
#define ADLOADER_SAMPLE_H

#include "msg.h"
#include "tasks.h"

#include <stdint.h>

struct sampler {
    uint64_t last_ms, last_boot_ms;
    double loader_cpu_s; /* since the start */
    uint32_t samples;
};

/*
 * Fills interval_ms, tasks, workers, orphans, runnable, io_wait, loader_cpu_s, main_cpu_s,
 * main_thread_s, queue_s and read_bytes of the report. runnable is the mean over the interval,
 * io_wait what a look at the end of it finds (of many tasks, at a part of them). Of more loaders
 * than may be kept open the others are read by turns, each for the time since its last one. CPU
 * time that a task used before it was first seen counts if the task began since the last sample.
 * What a task does after the last sample that sees it is not counted.
 */
void sampler_take(struct sampler *s, struct tasks *tasks, uint64_t now_ms, uint64_t boot_ms,
                  struct msg_report *report);

#endif
