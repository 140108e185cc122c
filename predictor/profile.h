/*
 * Profiles: what was learned of a kind of training, so that the next one of the same kind starts
 * with it. A kind is (model or profile name, GPU type, node type).
 *
 * A profile is a file of key=value lines (keyvalue.h) that an admin may read and edit. What it says
 * grows less certain with age, and each run that ends is fused with what was there by the two
 * uncertainties. The store is a folder: bounded, written atomically, and a file that cannot be
 * understood is set aside (renamed to NAME.corrupt) with a message, never believed or deleted.
 */
#ifndef ADLOADER_PREDICTOR_PROFILE_H
#define ADLOADER_PREDICTOR_PROFILE_H

#include "predictor.h"

#include <stddef.h>

#define PRED_PROFILE_NAME 64
#define PRED_PROFILES_MAX 10000u

struct pred_profile { /* NAN: unknown; sd: relative */
    char name[PRED_PROFILE_NAME], gpu[PRED_PROFILE_NAME], node_type[PRED_PROFILE_NAME];
    double core_rate, core_rate_sd; /* samples/s of one loader core */
    double beta;
    double gpu_rate, gpu_rate_sd; /* G a GPU, samples/s */
    double demand, demand_sd;     /* loader cores a GPU */
    double sample_bytes;          /* read from storage a sample */
    double runs;                  /* that it was learned from */
    double updated_s;             /* seconds since the epoch */
};

/* Everything unknown but the key. False where a part of the key is too long, or odd. */
bool pred_profile_init(struct pred_profile *profile, const char *name, const char *gpu,
                       const char *node_type);

/* A run has ended: fuse what was learned in it. gpus of the member (0: as one). Returns whether
 * there was enough to learn from. */
bool pred_profile_learn(struct pred_profile *profile, const struct pred_learner *learner,
                        unsigned gpus, double now_s);

/* What the profile says, put into job where job does not know better (declared beats a profile only
 * if it is more certain). */
void pred_profile_apply(const struct pred_profile *profile, unsigned gpus, double now_s,
                        struct pred_job *job);

/* ---- the store ------------------------------------------------------------------------------- */

enum pred_stored { PRED_STORED_OK, PRED_STORED_NONE, PRED_STORED_SET_ASIDE, PRED_STORED_ERROR };

/* Read the profile of that key. On anything but OK profile is as pred_profile_init() makes it, and
 * for SET_ASIDE and ERROR a sentence stands in error. */
enum pred_stored pred_profile_read(const char *folder, const char *name, const char *gpu,
                                   const char *node_type, struct pred_profile *profile, char *error,
                                   size_t size);

/* Creates the folder if need be. When it holds PRED_PROFILES_MAX others, the one not updated for
 * the longest time goes. 0, or -1 with a sentence in error. */
int pred_profile_write(const char *folder, const struct pred_profile *profile, char *error,
                       size_t size);

/* All of them, sorted by key; the caller frees. corrupt: how many were set aside just now. -1 with
 * a sentence in error where the folder cannot be read; a folder that is not there holds none. */
int pred_profile_list(const char *folder, struct pred_profile **profiles, size_t *n,
                      size_t *corrupt, char *error, size_t size);

/* Removes those that match; NULL matches all. Returns how many, or -1 with a sentence in error. */
long pred_profile_forget(const char *folder, const char *name, const char *gpu,
                         const char *node_type, char *error, size_t size);

/* The folder below the controller's StateDir. */
#define PRED_PROFILE_FOLDER "profiles"

#endif
