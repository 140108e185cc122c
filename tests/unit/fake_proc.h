/*
 * A /proc tree that a test lays out, below a folder of its own: processes and threads with what
 * the agent reads of them.
 */
#ifndef ADLOADER_TEST_FAKE_PROC_H
#define ADLOADER_TEST_FAKE_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fake_task {
    pid_t pid, tid; /* tid == pid: the process's main thread, with the process itself */
    pid_t ppid;
    uint64_t start_ticks, stack;
    const char *comm;
    char state;       /* 0: 'S' */
    unsigned threads; /* of the process */
    uint64_t cpu_ticks, run_ns;
    uint64_t read_chars, written_chars;
    /* of a process only */
    const char *program, *arguments; /* a space parts arguments */
    unsigned gpu_files;              /* that it has open */
};

/* Make an empty tree and return the folder above /proc; fails the test if that is not possible. */
const char *fake_proc_begin(void);
const char *fake_proc_root(void);
void fake_proc_end(void);

void fake_proc_text(const char *path, const char *text);
void fake_proc_task(const struct fake_task *task);
/* Of a process "12" or a thread "12/task/13". */
void fake_proc_drop(const char *entry);

#endif
