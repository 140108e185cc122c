/*
 * Slurm's sacct, run without a shell, its output bounded in size and time, and cut into rows. What
 * it prints comes partly from users and is not trusted.
 */
#ifndef ADLOADER_SACCT_H
#define ADLOADER_SACCT_H

#include <stddef.h>

#define SACCT_ROWS_MAX   10000u
#define SACCT_OUTPUT_MAX (16u * 1024u * 1024u)
#define SACCT_TIMEOUT_MS 60000u

enum sacct_column {            /* in the order in which they are asked for */
                    SACCT_JOB, /* "12", "12_3" an array's task, "12+1" a het job's component */
                    SACCT_RAW_JOB,
                    SACCT_STATE,
                    SACCT_USER,
                    SACCT_NAME,
                    SACCT_NODES, /* number of nodes */
                    SACCT_ELAPSED_S,
                    SACCT_ADMIN_COMMENT,
                    SACCT_COMMENT,
                    SACCT_COLUMNS
};

struct sacct_row {
    const char *column[SACCT_COLUMNS]; /* never NULL */
};

struct sacct {
    char *output; /* that the rows point into */
    struct sacct_row *rows;
    size_t nrows;
};

/*
 * Ask for these jobs, all runs of requeued ones, oldest first. program NULL: where configure found
 * it, else in PATH. jobs consists of digits and "_+," alone (the caller sees to it). 0, or -1 with
 * a sentence in error; sacct_free() only after 0.
 */
int sacct_run(const char *program, const char *jobs, struct sacct *sacct, char *error,
              size_t error_size);
void sacct_free(struct sacct *sacct);

/* Cut output, which is changed, into rows of SACCT_COLUMNS cells that each end with the delimiter.
 * The same results as above. Values may contain line ends. */
int sacct_split(char *output, const char *delimiter, struct sacct *sacct, char *error,
                size_t error_size);

#endif
