/*
 * Reading /proc: one file, one bounded read, one parser each. All paths are taken relative to a
 * directory descriptor, so that tests can lay out a tree of their own.
 *
 * Tasks vanish while they are looked at; that is no error. Every function then returns -1 with
 * errno ESRCH or ENOENT and the caller goes on with the next task.
 */
#ifndef ADLOADER_PROCFS_H
#define ADLOADER_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCFS_COMM_MAX 16 /* the kernel's TASK_COMM_LEN, with its NUL */

struct procfs {
    int fd;         /* of the proc directory */
    long tick_hz;   /* clock ticks a second, the unit of stat's times */
    char root[256]; /* "" in real life; prefix of every absolute path in tests */
};

/* Opens ROOT/proc; root "" is the real one. 0 or -1 (errno). */
int procfs_open(struct procfs *fs, const char *root);
void procfs_close(struct procfs *fs);

/* What /proc/PID/stat and /proc/PID/task/TID/stat say. Times are in clock ticks. */
struct procfs_stat {
    char comm[PROCFS_COMM_MAX];
    char state; /* 'R' 'S' 'D' ... */
    pid_t ppid; /* of the process; the same for all its threads */
    bool kernel_thread;
    uint64_t cpu_ticks;   /* user + system; of the whole process in /proc/PID/stat */
    uint32_t threads;     /* of the process */
    uint64_t start_ticks; /* since boot: with the id, the identity of the task */
    uint64_t stack;       /* where the stack begins: fork keeps it, exec draws another; 0 unknown */
};

/* text need not end in NUL. 0, or -1 (EBADMSG). */
int procfs_parse_stat(const char *text, size_t length, struct procfs_stat *stat);
int procfs_process_stat(const struct procfs *fs, pid_t pid, struct procfs_stat *stat);
int procfs_thread_stat(const struct procfs *fs, pid_t pid, pid_t tid, struct procfs_stat *stat);

/*
 * schedstat of a thread: nanoseconds on a CPU and waiting for one. The descriptor stays bound to
 * that very task: reading it after the task's end fails with ESRCH even if the id is in use again.
 */
int procfs_schedstat_open(const struct procfs *fs, pid_t pid, pid_t tid);
int procfs_schedstat_read(int fd, uint64_t *run_ns, uint64_t *wait_ns);

/* Bytes that the process has had read from storage. -1 also where the kernel does not count. */
int procfs_read_bytes(const struct procfs *fs, pid_t pid, uint64_t *bytes);

/* Bytes that a thread has read and written by system calls, from wherever. The same. */
int procfs_thread_io(const struct procfs *fs, pid_t pid, pid_t tid, uint64_t *read_bytes,
                     uint64_t *written_bytes);

/* How many files of GPUs the process has open. Of a table of many files the first are looked at. */
unsigned procfs_gpu_files(const struct procfs *fs, pid_t pid);

/*
 * Has the process a TCP socket that it has not inherited from its parent? One that the parent has
 * under the same number is. Of a table of many files the first are looked at.
 */
bool procfs_has_own_tcp(const struct procfs *fs, pid_t pid, pid_t parent);

/* The file that a process executes, as device and inode, and its base name cut to size. */
int procfs_program(const struct procfs *fs, pid_t pid, dev_t *dev, ino_t *ino, char *name,
                   size_t size);

/* The first bytes of the command line, arguments separated by NUL. Returns the length or -1. */
ssize_t procfs_command_line(const struct procfs *fs, pid_t pid, char *buf, size_t size);

/* The tid in our PID namespace of the thread that pid's own namespace calls inner; -1 if none. */
pid_t procfs_tid_from_inner(const struct procfs *fs, pid_t pid, pid_t inner);

/*
 * The numeric names in a directory (of processes "", of threads "PID/task"), at most max. Returns
 * how many there are in ids; *more says whether some were left out. -1 with errno.
 */
ssize_t procfs_list(const struct procfs *fs, const char *directory, pid_t *ids, size_t max,
                    bool *more);

/*
 * The children that a thread has forked, at most max. -1 with errno ENOENT also where the kernel
 * does not list them (CONFIG_PROC_CHILDREN).
 */
ssize_t procfs_children(const struct procfs *fs, pid_t pid, pid_t tid, pid_t *ids, size_t max,
                        bool *more);

/* A whole small file relative to the proc directory; NUL is added. Returns its length or -1. */
ssize_t procfs_read_file(const struct procfs *fs, const char *path, char *buf, size_t size);

/* Decimal text to a positive id; -1 if it is anything else. */
pid_t procfs_parse_id(const char *text);

#endif
