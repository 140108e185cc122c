/* Slurm's sacct, run and read. See sacct.h. */
#include "config.h"

#include "sacct.h"

#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define FORMAT "JobID,JobIDRaw,State,User,JobName,NNodes,ElapsedRaw,AdminComment,Comment"

#ifdef ADL_SACCT
#define CONFIGURED_SACCT ADL_SACCT
#else
#define CONFIGURED_SACCT ""
#endif

/* ---- rows ---------------------------------------------------------------------------------- */

static int add_row(struct sacct *sacct, size_t *capacity, const struct sacct_row *row)
{
    if (sacct->nrows == *capacity) {
        size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
        struct sacct_row *bigger = realloc(sacct->rows, wanted * sizeof(*bigger));

        if (bigger == NULL)
            return -1;
        sacct->rows = bigger;
        *capacity = wanted;
    }
    sacct->rows[sacct->nrows++] = *row;
    return 0;
}

int sacct_split(char *output, const char *delimiter, struct sacct *sacct, char *error,
                size_t error_size)
{
    size_t capacity = 0, length = strlen(delimiter);
    char *at = output;

    *sacct = (struct sacct){.output = output};
    while (*at != '\0') {
        struct sacct_row row;

        for (int i = 0; i < SACCT_COLUMNS; i++) {
            char *end = strstr(at, delimiter);

            if (end == NULL) {
                (void)snprintf(error, error_size, "sacct's output ends within a row");
                free(sacct->rows);
                return -1;
            }
            row.column[i] = at;
            *end = '\0';
            at = end + length;
        }
        if (*at == '\n')
            at++;
        if (sacct->nrows >= SACCT_ROWS_MAX || add_row(sacct, &capacity, &row) < 0) {
            (void)snprintf(error, error_size, "sacct knows of more runs than can be shown (%u)",
                           SACCT_ROWS_MAX);
            free(sacct->rows);
            return -1;
        }
    }
    return 0;
}

void sacct_free(struct sacct *sacct)
{
    free(sacct->rows);
    free(sacct->output);
    sacct->rows = NULL;
    sacct->output = NULL;
}

/* ---- the process --------------------------------------------------------------------------- */

/* So that no value can look like the end of a cell. */
static int make_delimiter(char *delimiter, size_t size)
{
    uint64_t secret;

    if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
        return -1;
    (void)snprintf(delimiter, size, ":adl%016" PRIx64 ":", secret);
    return 0;
}

int sacct_run(const char *program, const char *jobs, struct sacct *sacct, char *error,
              size_t error_size)
{
    char delimiter[40], with_jobs[4096], with_delimiter[96];
    char *const argv[] = {(char[]){"sacct"},
                          (char[]){"-X"},
                          (char[]){"-D"},
                          (char[]){"-n"},
                          (char[]){"-p"},
                          with_delimiter,
                          (char[]){"--format=" FORMAT},
                          with_jobs,
                          NULL};
    struct command command;
    enum command_failure failure;

    if (program == NULL)
        program = CONFIGURED_SACCT[0] != '\0' && access(CONFIGURED_SACCT, X_OK) == 0
                      ? CONFIGURED_SACCT
                      : "sacct";
    if (make_delimiter(delimiter, sizeof(delimiter)) < 0) {
        (void)snprintf(error, error_size, "no random numbers: %s", strerror(errno));
        return -1;
    }
    (void)snprintf(with_delimiter, sizeof(with_delimiter), "--delimiter=%s", delimiter);
    if ((size_t)snprintf(with_jobs, sizeof(with_jobs), "--jobs=%s", jobs) >= sizeof(with_jobs)) {
        (void)snprintf(error, error_size, "these are too many jobs at once");
        return -1;
    }
    failure =
        command_run(program, argv, SACCT_TIMEOUT_MS, SACCT_OUTPUT_MAX, &command, error, error_size);
    if (failure == COMMAND_TOO_MUCH)
        (void)snprintf(error, error_size,
                       "sacct prints more than can be read; ask for fewer jobs at once");
    if (failure != 0)
        return -1;
    if (command.status == 0) {
        if (sacct_split(command.output, delimiter, sacct, error, error_size) == 0)
            return 0;
    } else {
        command.words[strcspn(command.words, "\n")] = '\0';
        (void)snprintf(error, error_size, "sacct failed: %s",
                       command.words[0] != '\0' ? command.words : "without a word");
    }
    free(command.output);
    return -1;
}
