/*
 * The masks of a control group's threads, kept over a change of its cpuset. A kernel before 6.2
 * forgets what a thread had asked for and gives every thread the whole new set; a later one
 * remembers it, but may then give a thread more than it had before, if it once asked for more than
 * was there. Either way the threads shall have what they had.
 */
#ifndef ADLOADER_THREADMASKS_H
#define ADLOADER_THREADMASKS_H

#include "cpus.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define THREADMASKS_MAX 8192u /* threads; more keep what the kernel gives them */

struct threadmasks {
    struct threadmask {
        pid_t tid;
        struct cpus mask;
    } * list;
    size_t n, capacity;
};

/* Of the threads in the directory and its task_T below; those of this process are left out. */
void threadmasks_read(struct threadmasks *masks, const char *directory, bool version2);

/* Give back to each thread what it had of the allowed CPUs, if that is not what it has. */
void threadmasks_restore(const struct threadmasks *masks, const struct cpus *allowed);
void threadmasks_free(struct threadmasks *masks);

#endif
