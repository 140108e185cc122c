/* See steps.h. Columns: app, num_nodes_or_placement, num_replicas, local_bsz, step_time_s, and
 * table
 * ("placements": GPUs of each node as digits; "scalability": the number of nodes, evenly filled).
 */
#include "steps.h"

#include "csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct columns {
    unsigned app, placement, replicas, batch, step;
    int table;
};

/* Nodes evenly filled, as the scalability table means it. */
static bool even_placement(struct pred_step *step, double nodes, double replicas)
{
    if (!(nodes >= 1 && nodes <= replicas && replicas <= PRED_REPLICAS_MAX))
        return false;
    step->replicas = (unsigned)replicas;
    step->nodes = (unsigned)nodes;
    step->least = step->replicas / step->nodes;
    step->most = step->least + (step->replicas % step->nodes != 0);
    step->shape = step->layout = 0x1000000u * step->nodes + step->replicas;
    return true;
}

static bool row_step(const struct csv *csv, const struct columns *c, struct pred_step *step)
{
    const char *placement = csv->fields[c->placement];
    double replicas = csv_number(csv, c->replicas);

    *step =
        (struct pred_step){.batch = csv_number(csv, c->batch), .step_s = csv_number(csv, c->step)};
    if (!(step->batch > 0) || !(step->step_s > 0) || !(replicas >= 1))
        return false;
    if (c->table >= 0 && strcmp(csv->fields[c->table], "scalability") == 0)
        return even_placement(step, csv_number(csv, c->placement), replicas);
    return pred_step_placement(step, placement) == 0 && step->replicas == (unsigned)replicas;
}

static struct app_steps *app_of(struct steps *steps, const char *name)
{
    struct app_steps *app;

    for (size_t i = 0; i < steps->n; i++)
        if (strcmp(steps->apps[i].name, name) == 0)
            return &steps->apps[i];
    if (steps->n == STEPS_APPS_MAX || strlen(name) >= STEPS_NAME_MAX || *name == '\0' ||
        name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")] !=
            '\0')
        return NULL;
    app = &steps->apps[steps->n++];
    memcpy(app->name, name, strlen(name) + 1);
    return app;
}

static bool append(struct app_steps *app, const struct pred_step *step)
{
    if (app->n == app->room) {
        size_t room = app->room > 0 ? 2 * app->room : 256;
        struct pred_step *more = realloc(app->steps, room * sizeof(*more));

        if (more == NULL)
            return false;
        app->steps = more;
        app->room = room;
    }
    app->steps[app->n++] = *step;
    return true;
}

bool steps_read(struct steps *steps, const char *file)
{
    struct csv csv;
    struct columns c;
    bool ok = true;

    *steps = (struct steps){.n = 0};
    if (!csv_open(&csv, file))
        return false;
    c = (struct columns){
        .app = csv_need(&csv, "app"),
        .placement = csv_need(&csv, "num_nodes_or_placement"),
        .replicas = csv_need(&csv, "num_replicas"),
        .batch = csv_need(&csv, "local_bsz"),
        .step = csv_need(&csv, "step_time_s"),
        .table = csv_column(&csv, "table"),
    };
    while (ok && csv_next(&csv)) {
        struct pred_step step;
        struct app_steps *app = app_of(steps, csv.fields[c.app]);

        if (app == NULL || !row_step(&csv, &c, &step))
            fprintf(stderr, "%s:%u: left out, not a measured step\n", file, csv.line);
        else
            ok = append(app, &step);
    }
    csv_close(&csv);
    if (!ok)
        fprintf(stderr, "%s: out of memory\n", file);
    return ok;
}

const struct app_steps *steps_app(const struct steps *steps, const char *name)
{
    for (size_t i = 0; i < steps->n; i++)
        if (strcmp(steps->apps[i].name, name) == 0)
            return &steps->apps[i];
    return NULL;
}

void steps_free(struct steps *steps)
{
    for (size_t i = 0; i < steps->n; i++)
        free(steps->apps[i].steps);
    steps->n = 0;
}
