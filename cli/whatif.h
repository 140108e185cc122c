/*
 * A what-if question: nodes and members as a document says them, taken to claims, curves, an
 * allocation and a placement by the same code that the controller uses. The document's keys are in
 * adloader-allocate(5).
 */
#ifndef ADLOADER_WHATIF_H
#define ADLOADER_WHATIF_H

#include "alloc.h"
#include "cpus.h"
#include "predictor.h"
#include "topo.h"

#include <stdbool.h>
#include <stddef.h>

struct json_object;

struct whatif_node {
    const char *name; /* the document's */
    struct topo *topo;
    bool described; /* the topology was given; else every CPU named is a core of its own */
    struct cpus reserved, extra; /* reserved_cpus, pool_cpus */
    struct cpus owned;           /* by members */
    struct cpus main;            /* main cores of all */
    struct cpus pool;            /* to divide */
    size_t first, nmembers;      /* whatif.by_node[first .. first + nmembers) run here */
};

struct whatif_member {
    const char *id, *job; /* the document's */
    unsigned node, job_index, tasks, ngpus;
    struct cpus own, main, claim, held, near;
    struct cpus cpus; /* answer: which */
    double *rate;     /* T(c), nrate values */
    unsigned nrate;
    double gpu_rate;
    bool held_given;
    /* answer */
    unsigned cores, even_cores;
    double rate_now, rate_own, rate_even; /* with the job's other members */
    double local;                         /* NAN unknown */
    bool floor_kept;
};

struct whatif {
    struct json_object *document; /* owns the names */
    enum alloc_policy policy;
    enum alloc_guarantee guarantee;
    unsigned main_cores_per_task;
    struct whatif_node *nodes;
    size_t nnodes;
    struct whatif_member *members;
    struct alloc_member *input; /* a member */
    size_t nmembers, njobs;
    size_t *by_node; /* indexes of members, in the order of their nodes */
    double io_bytes_per_s, min_gain;
    struct alloc_result result;
};

/* Reads a document. tables: the folder of models.csv and gpus.csv. NULL with a sentence in error.
 */
struct whatif *whatif_read(const char *text, size_t length, const char *tables, char *error,
                           size_t error_size);

/* Allocates and places; 0, or -1 with a sentence in error. */
int whatif_solve(struct whatif *whatif, char *error, size_t error_size);

void whatif_free(struct whatif *whatif);

#endif
