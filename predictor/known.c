/* See known.h. */
#include "config.h"

#include "known.h"

#include "calibration.h"
#include "declared.h"
#include "profile.h"
#include "tables.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER_MAX 2048

struct pred_known {
    struct pred_tables tables;
    char state[FOLDER_MAX]; /* "" none */
};

static void tell_of(const struct pred_tell *tell, const char *about, const char *sentence)
{
    tell->tell(tell->arg, about, sentence);
}

static void read_own(struct pred_known *k, const char *own, bool models,
                     const struct pred_tell *tell)
{
    char path[FOLDER_MAX + 16], line[512];

    if (snprintf(path, sizeof(path), "%s/%s", own, models ? "models.csv" : "gpus.csv") >=
        (int)sizeof(path))
        return;
    if ((models ? pred_tables_read_models(&k->tables, path, line, sizeof(line))
                : pred_tables_read_gpus(&k->tables, path, line, sizeof(line))) != 0 &&
        errno != ENOENT)
        tell_of(tell, path, line);
}

struct pred_known *pred_known_new(const char *tables, const char *own, const char *state,
                                  const struct pred_tell *tell)
{
    struct pred_known *k = calloc(1, sizeof(*k));
    char line[512];

    if (k == NULL)
        return NULL;
    if (pred_tables_read(&k->tables, tables, line, sizeof(line)) != 0)
        tell_of(tell, tables, line);
    read_own(k, own, true, tell);
    read_own(k, own, false, tell);
    if (strlen(state) < sizeof(k->state))
        memcpy(k->state, state, strlen(state) + 1);
    return k;
}

void pred_known_free(struct pred_known *known)
{
    if (known == NULL)
        return;
    pred_tables_free(&known->tables);
    free(known);
}

/* The node's calibration; false where there is none. tell NULL: it has been told already. */
static bool read_calibration(const struct pred_known *k, const char *node,
                             struct pred_calibration *c, const struct pred_tell *tell)
{
    char path[FOLDER_MAX + 512], line[512];

    if (k->state[0] == '\0' || node[0] == '\0' || strchr(node, '/') != NULL || node[0] == '.' ||
        snprintf(path, sizeof(path), "%s/" PRED_CALIBRATION_FOLDER "/%s", k->state, node) >=
            (int)sizeof(path))
        return false;
    if (pred_calibration_read(c, path, line, sizeof(line)) == 0)
        return true;
    if (errno != ENOENT && tell != NULL)
        tell_of(tell, path, line);
    return false;
}

static const char *given_name(const struct hints *hints)
{
    return hints->profile[0] != '\0' ? hints->profile : hints->model;
}

_Static_assert(HINTS_PROFILE_MAX + sizeof("+4294967295") - 1 <= PRED_PROFILE_NAME,
               "a profile's name has room for any user's number");

/* The name that a user's profiles go by; "" none. '/' stands in hints, not in files' names. */
static void profile_name(const struct hints *hints, unsigned uid, char *name, size_t size)
{
    const char *given = given_name(hints);

    name[0] = '\0';
    if (given[0] != '\0' && strlen(given) < HINTS_PROFILE_MAX)
        snprintf(name, size, "%s+%u", given, uid);
    for (char *slash; (slash = strchr(name, '/')) != NULL;)
        *slash = '-';
}

/* The same without the user: what an admin shares. */
static void shared_name(char *name)
{
    char *plus = strrchr(name, '+');

    if (plus != NULL)
        *plus = '\0';
}

static void profile_gpu(const struct pred_known *k, const char *node, char *gpu, size_t size)
{
    struct pred_calibration c;
    const struct pred_gpu *known;

    gpu[0] = '\0';
    if (!read_calibration(k, node, &c, NULL))
        return;
    known = pred_tables_gpu_in(&k->tables, c.gpu);
    if (known != NULL)
        snprintf(gpu, size, "%s", known->name);
}

/* A profile that could not be read or written. That one was set aside happens once. */
static void tell_of_profile(const struct pred_tell *tell, enum pred_stored stored, const char *verb,
                            const char *name, const char *gpu, const char *sentence)
{
    char about[PRED_PROFILE_NAME + PRED_NAME_MAX + 32];

    snprintf(about, sizeof(about), "%s profile %s@%s", verb, name, gpu);
    tell_of(tell, stored == PRED_STORED_SET_ASIDE ? NULL : about, sentence);
}

static void apply_profile(const struct pred_known *k, const struct hints *hints, unsigned uid,
                          const char *node, double now_s, struct pred_job *job,
                          const struct pred_tell *tell)
{
    char folder[FOLDER_MAX + 16], line[512], gpu[PRED_NAME_MAX], name[PRED_PROFILE_NAME];
    struct pred_profile profile;
    enum pred_stored stored;

    profile_name(hints, uid, name, sizeof(name));
    if (k->state[0] == '\0' || name[0] == '\0')
        return;
    profile_gpu(k, node, gpu, sizeof(gpu));
    snprintf(folder, sizeof(folder), "%s/" PRED_PROFILE_FOLDER, k->state);
    stored = pred_profile_read(folder, name, gpu, "", &profile, line, sizeof(line));
    if (stored == PRED_STORED_NONE) {
        shared_name(name);
        stored = pred_profile_read(folder, name, gpu, "", &profile, line, sizeof(line));
    }
    if (stored == PRED_STORED_OK)
        pred_profile_apply(&profile, job->gpus, now_s, job);
    else if (stored != PRED_STORED_NONE)
        tell_of_profile(tell, stored, "read", name, gpu, line);
}

/* What the job says of itself beats the tables. */
static void apply_hints(const struct hints *hints, struct pred_job *job)
{
    if (hints->flops > 0)
        job->flops_forward = hints->flops;
    if (hints->params > 0)
        job->gradient_bytes = 4 * hints->params;
    job->batch = hints->batch;
    job->workers_min = hints->workers_min;
    job->workers_max = hints->workers_max;
}

static void tell_of_model(const struct pred_tell *tell, const char *model)
{
    char sentence[HINTS_NAME_MAX + 64];

    snprintf(sentence, sizeof(sentence), "model %s is in no table", model);
    tell_of(tell, sentence, sentence);
}

void pred_known_job(const struct pred_known *k, const struct hints *hints, unsigned uid,
                    const char *node, double now_s, struct pred_job *job,
                    const struct pred_tell *tell)
{
    struct pred_calibration calibration;
    struct pred_declared declared = {.data = hints->data, .precision = -1, .gpus = job->gpus};

    if (read_calibration(k, node, &calibration, tell)) {
        declared.calibration = &calibration;
        declared.gpu = pred_tables_gpu_in(&k->tables, calibration.gpu);
    }
    if (hints->model[0] != '\0') {
        declared.model = pred_tables_model(&k->tables, hints->model);
        if (declared.model == NULL)
            tell_of_model(tell, hints->model);
    }
    (void)pred_declare(&declared, job); /* with the GPU's usual precision it cannot fail */
    apply_hints(hints, job);
    apply_profile(k, hints, uid, node, now_s, job, tell);
}

bool pred_known_learn(const struct pred_known *k, const struct hints *hints, unsigned uid,
                      const char *node, unsigned gpus, const struct pred_learner *learner,
                      double now_s, const struct pred_tell *tell)
{
    char folder[FOLDER_MAX + 16], line[512], gpu[PRED_NAME_MAX], name[PRED_PROFILE_NAME];
    struct pred_profile profile;
    enum pred_stored stored;

    profile_name(hints, uid, name, sizeof(name));
    if (k->state[0] == '\0' || name[0] == '\0')
        return false;
    profile_gpu(k, node, gpu, sizeof(gpu));
    snprintf(folder, sizeof(folder), "%s/" PRED_PROFILE_FOLDER, k->state);
    stored = pred_profile_read(folder, name, gpu, "", &profile, line, sizeof(line));
    if (stored == PRED_STORED_ERROR || stored == PRED_STORED_SET_ASIDE)
        tell_of_profile(tell, stored, "read", name, gpu, line);
    if (stored == PRED_STORED_ERROR || !pred_profile_learn(&profile, learner, gpus, now_s))
        return false;
    if (pred_profile_write(folder, &profile, line, sizeof(line)) == 0)
        return true;
    tell_of_profile(tell, PRED_STORED_ERROR, "write", name, gpu, line);
    return false;
}
