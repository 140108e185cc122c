/*
 * What a user may say about a job: the value of --adloader and of ADLOADER_OPTIONS. Hints describe
 * the job; none of them claims cores of others. One parser serves the submit side (which refuses),
 * the node and the controller (which distrusts).
 */
#ifndef ADLOADER_HINTS_H
#define ADLOADER_HINTS_H

#include <stdbool.h>
#include <stddef.h>

#define HINTS_NAME_MAX    64  /* bytes of a model's name with its NUL */
#define HINTS_PROFILE_MAX 52  /* of a profile's, to which "+UID" is added within HINTS_NAME_MAX */
#define HINTS_TEXT_MAX    512 /* bytes of a whole option value with its NUL */
#define HINTS_WORKERS_MAX 4096u

enum hints_data { HINTS_DATA_UNKNOWN, HINTS_DATA_JPEG, HINTS_DATA_RAW, HINTS_DATA_PACKED };

struct hints {
    bool on;              /* take part */
    bool report;          /* one line to the user at the end of the step */
    unsigned workers_min; /* 0: not said */
    unsigned workers_max; /* 0: not said */
    unsigned batch;       /* samples a step and GPU; 0: not said */
    double flops;         /* forward FLOPs a sample (2 x MACs); 0: not said */
    double params;        /* parameters of the model; 0: not said */
    enum hints_data data;
    char model[HINTS_NAME_MAX];      /* "" : not said */
    char profile[HINTS_PROFILE_MAX]; /* "" : not said */
};

/*
 * text: "on", "off", "1", "0", "yes", "no" or key=value pairs separated by commas. NULL, "" and
 * "(null)" mean "on", since Slurm hands a bare option over in all three forms. Returns 0, or -1
 * with a sentence in error that names the offending part and what is allowed.
 */
int hints_parse(const char *text, struct hints *hints, char *error, size_t error_size);

/* The canonical text, which hints_parse() reads back to the same hints. Length as snprintf. */
int hints_format(const struct hints *hints, char *buf, size_t size);

/* One paragraph that lists what may be said, for error messages and --help. */
const char *hints_usage(void);

#endif
