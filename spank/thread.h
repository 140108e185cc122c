/*
 * A thread in a program that is not ours: its stack is small, and every signal is blocked in it,
 * since none of the host's signals is ours to take.
 */
#ifndef ADLOADER_THREAD_H
#define ADLOADER_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* thread NULL: nobody will join it, it is detached. 0 or an error's number. */
int thread_start(pthread_t *thread, size_t stack_bytes, void *(*run)(void *), void *argument);

#endif
