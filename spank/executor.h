/*
 * A thread of this process that runs what it is handed, in order, and waits otherwise.
 *
 * It is for helper processes that share this process's memory and nothing else: with contain_spank
 * (Slurm 24.05 and later) user_init, task_post_fork and task_exit are called in processes made by
 * clone(CLONE_VM), which have entered the job's namespaces, have a copy of the table of
 * descriptors, and end with the call, and with them every thread that was started there. Memory,
 * and with it mutexes and condition variables, works between them as between threads; descriptors
 * that were opened after the helper was made do not. What needs a thread, a descriptor or a path as
 * this process sees it is handed to the executor.
 */
#ifndef ADLOADER_EXECUTOR_H
#define ADLOADER_EXECUTOR_H

#include <stdbool.h>

struct executor;

/* Start the thread, all signals blocked. NULL with errno. */
struct executor *executor_start(void);

/*
 * Have it run work after all that it was handed before, and wait until that is done, ms at most.
 * From this process or a helper. False: it will be done later, or, with a full queue or after
 * executor_dismiss(), never; errno is then ETIMEDOUT, ENOBUFS or ESHUTDOWN.
 */
bool executor_run(struct executor *executor, void (*work)(void), unsigned ms);

/*
 * It ends when it has done what it was handed, which is not waited for. May be called again. False:
 * a helper that was killed holds it, and it never ends.
 */
bool executor_dismiss(struct executor *executor, unsigned ms);

/*
 * Dismiss it and wait for its end until ms have passed; in the process that started it. True: it
 * has ended and is released. False: it is left to itself and may still be at work.
 */
bool executor_join(struct executor *executor, unsigned ms);

#endif
