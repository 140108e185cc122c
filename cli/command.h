/*
 * Another program, run without a shell: standard input empty, output and time bounded, killed when
 * it exceeds them. What it prints is not trusted.
 */
#ifndef ADLOADER_COMMAND_H
#define ADLOADER_COMMAND_H

#include <stddef.h>

#define COMMAND_WORDS_MAX 1024

struct command {
    char *output; /* standard output, NUL-terminated, never NULL after 0; free it */
    size_t length;
    int status;                    /* as of waitpid(2) */
    char words[COMMAND_WORDS_MAX]; /* the beginning of standard error */
};

enum command_failure { COMMAND_NOT_RUN = 1, COMMAND_TOO_LONG, COMMAND_TOO_MUCH };

/*
 * Run program (searched for in PATH) with argv. 0: it has ended, however; or the failure, with a
 * sentence in error that names argv[0]; there is no output then.
 */
enum command_failure command_run(const char *program, char *const argv[], unsigned timeout_ms,
                                 size_t output_max, struct command *command, char *error,
                                 size_t error_size);

#endif
