/* The record of a run over time. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

void record_free(struct record *record)
{
    for (size_t i = 0; i < record->ncores; i++)
        free(record->cores[i].cpus);
    free(record->cores);
    free(record->points);
    *record = (struct record){0};
}

/* Room for one entry more; false: the record is full or memory ran out. */
static bool make_room(struct record *record, void **array, size_t *capacity, size_t count,
                      size_t size)
{
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *grown;

    if (count < *capacity)
        return true;
    grown = count < RECORD_POINTS_MAX ? realloc(*array, wanted * size) : NULL;
    if (grown == NULL) {
        record->truncated = true;
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

void record_cores(struct record *record, double t_s, unsigned workers, unsigned cores,
                  const char *cpus)
{
    const struct record_cores *last =
        record->ncores == 0 ? NULL : &record->cores[record->ncores - 1];
    void *array = record->cores;
    char *copy;

    if (last != NULL && last->workers == workers && strcmp(last->cpus, cpus) == 0)
        return;
    copy = strdup(cpus);
    if (copy == NULL || !make_room(record, &array, &record->cores_capacity, record->ncores,
                                   sizeof *record->cores)) {
        record->truncated = true;
        free(copy);
        return;
    }
    record->cores = array;
    record->cores[record->ncores++] =
        (struct record_cores){.t_s = t_s, .workers = workers, .cores = cores, .cpus = copy};
}

void record_point(struct record *record, const struct record_point *point)
{
    void *array = record->points;

    if (!make_room(record, &array, &record->points_capacity, record->npoints,
                   sizeof *record->points))
        return;
    record->points = array;
    record->points[record->npoints++] = *point;
}
