/* Measured step times of several applications, read from a table in the form of Pollux's traces. */
#ifndef ADLOADER_BENCH_STEPS_H
#define ADLOADER_BENCH_STEPS_H

#include "steptime.h"

#include <stdbool.h>

#define STEPS_APPS_MAX 64
#define STEPS_NAME_MAX 64

struct app_steps {
    char name[STEPS_NAME_MAX];
    struct pred_step *steps;
    size_t n, room;
};

struct steps {
    struct app_steps apps[STEPS_APPS_MAX];
    size_t n;
};

bool steps_read(struct steps *steps, const char *file); /* false: a message was printed */
const struct app_steps *steps_app(const struct steps *steps, const char *name);
void steps_free(struct steps *steps);

#endif
