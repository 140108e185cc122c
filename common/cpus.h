/*
 * Sets of CPUs (PUs, by OS number) without a fixed size, and the list formats in which Slurm
 * and the kernel write such sets and counts: "0-3,8" and "4(x2),1".
 *
 * A set is a value: zero-initialise it (CPUS_EMPTY), release it with cpus_free(). Functions that
 * may need memory return 0 or -1 (errno ENOMEM, or ERANGE past CPUS_MAX) and leave the set as it
 * was; all others cannot fail.
 */
#ifndef ADLOADER_CPUS_H
#define ADLOADER_CPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Highest OS number accepted plus one: a bound against hostile input, far over any machine. */
#define CPUS_MAX 65536u

struct cpus {
    size_t nwords;
    unsigned long *words;
};

#define CPUS_EMPTY ((struct cpus){0, NULL})

void cpus_free(struct cpus *set);
void cpus_clear_all(struct cpus *set);
void cpus_move(struct cpus *dst, struct cpus *src); /* dst takes src's memory; src becomes empty */
int cpus_copy(struct cpus *dst, const struct cpus *src);

int cpus_set(struct cpus *set, unsigned cpu);
void cpus_clear(struct cpus *set, unsigned cpu);
bool cpus_isset(const struct cpus *set, unsigned cpu);

bool cpus_is_empty(const struct cpus *set);
unsigned cpus_count(const struct cpus *set);
bool cpus_equal(const struct cpus *a, const struct cpus *b);
bool cpus_is_subset(const struct cpus *sub, const struct cpus *super);
bool cpus_intersects(const struct cpus *a, const struct cpus *b);

int cpus_or(struct cpus *dst, const struct cpus *src);      /* dst |= src  */
void cpus_and(struct cpus *dst, const struct cpus *src);    /* dst &= src  */
void cpus_andnot(struct cpus *dst, const struct cpus *src); /* dst &= ~src */

/* Iteration: the first member >= from, or -1. for (long c = cpus_next(s, 0); c >= 0; c =
 * cpus_next(s, c + 1)) */
long cpus_next(const struct cpus *set, unsigned long from);

/*
 * Read a list "0-3,8" ("" is the empty set; spaces and a final newline around it are accepted, as
 * the kernel prints one). Strides "0-8:2" are accepted as taskset does. On bad input -1 with
 * errno EINVAL (ERANGE: a number of CPUS_MAX or more, or a list that names more CPUs than that,
 * repeats counted) and set untouched.
 */
int cpus_parse(struct cpus *set, const char *list);
int cpus_parse_bytes(struct cpus *set, const char *list, size_t length); /* needs no NUL */

/*
 * Write the list form, at most size bytes with the final NUL. Returns the length needed without
 * the NUL, like snprintf; the text is complete if that is < size.
 */
int cpus_format(const struct cpus *set, char *buf, size_t size);

/* The list form in memory of its own; NULL on ENOMEM. The caller frees it. */
char *cpus_to_string(const struct cpus *set);

/* sched_getaffinity / sched_setaffinity of one thread for any number of CPUs; -1 with errno. */
int cpus_get_affinity(pid_t tid, struct cpus *set);
int cpus_set_affinity(pid_t tid, const struct cpus *set);

/*
 * The entry for node index (from 0) in Slurm's compressed counts, "8", "8(x2)", "2(x3),1": the
 * value, or -1 with errno EINVAL when text is NULL, empty, malformed or has no such index.
 */
long slurm_count_at(const char *text, unsigned index);

#endif
