/*
 * Warnings that are said once. One bad file would otherwise be told again for each step that meets
 * it. What was last said about which thing is remembered for so many things; the one that was
 * spoken of longest ago makes room. For the loop's thread alone.
 */
#ifndef ADLOADER_WARNONCE_H
#define ADLOADER_WARNONCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WARNONCE_THINGS 256u

struct warnonce { /* all zero: nothing said yet */
    struct {
        uint64_t about, sentence; /* their hashes */
        uint64_t used;            /* order of use, for making room */
    } said[WARNONCE_THINGS];
    size_t n;
    uint64_t uses;
};

/* Whether something else, or nothing, was last said about it; from now on this was. */
bool warnonce_is_new(struct warnonce *w, const char *about, const char *sentence);

/* A warning in the log, if it is new. about NULL: of what happened just now, told each time. A
 * pred_tell_fn (predictor/known.h) whose arg is a struct warnonce. */
void warnonce_log(void *w, const char *about, const char *sentence);

/* Everything is new again: somebody looks at the log. */
void warnonce_forget(struct warnonce *w);

#endif
