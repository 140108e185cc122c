/* The parts of the JSON answers. See answer.h. */
#include "config.h"

#include "answer.h"

#include "clock.h"
#include "ctld.h"
#include "demand.h"
#include "server.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An object being filled. json-c says null for NULL, so a failed allocation must be told apart
 * from an unknown value: `failed` collects failures, and is looked at once.
 */
struct filler {
    json_object *object;
    bool failed;
};

bool answer_put(json_object *object, const char *key, json_object *value)
{
    if (value == NULL)
        return false;
    if (json_object_object_add(object, key, value) != 0) {
        json_object_put(value);
        return false;
    }
    return true;
}

bool answer_add(json_object *array, json_object *value)
{
    if (value == NULL)
        return false;
    if (json_object_array_add(array, value) != 0) {
        json_object_put(value);
        return false;
    }
    return true;
}

static void put(struct filler *f, const char *key, json_object *value)
{
    if (f->object == NULL || !answer_put(f->object, key, value))
        f->failed = true;
}

static void put_null(struct filler *f, const char *key)
{
    if (f->object == NULL || json_object_object_add(f->object, key, NULL) != 0)
        f->failed = true;
}

static void put_text(struct filler *f, const char *key, const char *text)
{
    if (text == NULL)
        put_null(f, key);
    else
        put(f, key, json_object_new_string(text));
}

static void put_count(struct filler *f, const char *key, uint64_t value)
{
    put(f, key, json_object_new_int64((int64_t)value));
}

static void put_bool(struct filler *f, const char *key, bool value)
{
    put(f, key, json_object_new_boolean(value));
}

/* Six digits are more than any of these numbers is worth. */
static json_object *number(double value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%.6g", value);
    return json_object_new_double_s(value, text);
}

static void put_number(struct filler *f, const char *key, double value)
{
    if (isfinite(value))
        put(f, key, number(value));
    else
        put_null(f, key);
}

static void put_cpus(struct filler *f, const char *key, const struct cpus *cpus)
{
    char *text = cpus_to_string(cpus);

    put(f, key, text != NULL ? json_object_new_string(text) : NULL);
    free(text);
}

static json_object *finish(struct filler *f)
{
    if (!f->failed)
        return f->object;
    json_object_put(f->object);
    return NULL;
}

static double seconds_since(const struct ctld *ctld, uint64_t then_ms)
{
    (void)ctld;
    return (double)(clock_monotonic_ms() - then_ms) / 1000;
}

/* ---- controller, nodes --------------------------------------------------------------------- */

json_object *answer_controller(const struct ctld *ctld)
{
    struct filler f = {json_object_new_object(), false};
    char instance[24];

    (void)snprintf(instance, sizeof(instance), "%016" PRIx64, ctld->instance);
    put_text(&f, "version", CTLD_VERSION);
    put_text(&f, "instance", instance);
    put_number(&f, "uptime_s", seconds_since(ctld, ctld->started_ms));
    put_text(&f, "policy", conf_policy_name(ctld->conf->policy));
    put_text(&f, "guarantee", conf_guarantee_name(ctld->conf->guarantee));
    put_text(&f, "role", role_name(ctld));
    put_text(&f, "address", ctld->self.count > 0 ? ctld->self.address : NULL);
    put_bool(&f, "serving", role_serves(ctld));
    put_text(&f, "serving_instead", role_serves(ctld) ? NULL : role_instead(ctld));
    put_count(&f, "takeovers", role_takeovers(ctld));
    put_bool(&f, "settling", ctld->control.settling && role_serves(ctld));
    put_count(&f, "agents", ctld->server->nagents);
    put_count(&f, "nodes", ctld->registry.nnodes);
    return finish(&f);
}

json_object *answer_node(const struct ctld *ctld, const struct node *node)
{
    struct filler f = {json_object_new_object(), false};
    const struct conf_node *conf = conf_node(ctld->conf, node->name);
    const struct cpus none = CPUS_EMPTY;
    const struct topo *topo = node->topology != NULL ? topostore_topo(node->topology) : node->flat;

    put_text(&f, "name", node->name);
    put_text(&f, "topology", node->topology != NULL ? "known" : "flat");
    put_count(&f, "pus", topo != NULL ? topo->npus : 0);
    put_cpus(&f, "pool_cpus", &node->pool);
    put_cpus(&f, "free_cpus", &node->free);
    put_cpus(&f, "reserved_cpus", conf != NULL ? &conf->reserved : &none);
    put_count(&f, "members", node->nmembers);
    return finish(&f);
}

/* ---- loans --------------------------------------------------------------------------------- */

/* What borrower has of lender's loader CPUs. */
static bool loan(const struct member *borrower, const struct member *lender, struct cpus *cpus)
{
    if (borrower == lender || cpus_copy(cpus, &borrower->place.target.cpus) < 0)
        return false;
    cpus_and(cpus, &lender->place.loader);
    return !cpus_is_empty(cpus);
}

/* Adds {id, cpus} for each partner of the member; returns the number of cores. */
static unsigned put_loans(struct filler *f, const char *key, const struct member *member,
                          bool lends)
{
    json_object *array = json_object_new_array();
    struct cpus cpus = CPUS_EMPTY;
    unsigned cores = 0;

    for (size_t i = 0; i < member->node->nmembers; i++) {
        const struct member *other = member->node->members[i];
        struct filler entry = {NULL, false};
        char name[64];

        if (!(lends ? loan(other, member, &cpus) : loan(member, other, &cpus)))
            continue;
        cores += cpus_count(&cpus);
        entry.object = json_object_new_object();
        member_name(other, name, sizeof(name));
        put_text(&entry, "id", name);
        put_cpus(&entry, "cpus", &cpus);
        if (array == NULL || !answer_add(array, finish(&entry)))
            f->failed = true;
    }
    cpus_free(&cpus);
    put(f, key, array);
    return cores;
}

/* ---- members ------------------------------------------------------------------------------- */

static void put_placement(struct filler *f, const struct member *m)
{
    const struct recon_member *p = &m->place;
    struct cpus held = CPUS_EMPTY, beyond = CPUS_EMPTY;

    put_cpus(f, "own_cpus", &m->own);
    put_cpus(f, "claim_cpus", &m->claim);
    put_cpus(f, "main_cpus", &m->main);
    put_cpus(f, "loader_cpus", &p->target.cpus);
    if (recon_occupied(p, &held) == 0)
        put_cpus(f, "held_cpus", &held);
    else
        f->failed = true;
    put_text(f, "placement", p->target.own ? "own" : "assigned");
    put_count(f, "loader_cores", cpus_count(&p->target.cpus));
    put_count(f, "own_loader_cores", cpus_count(&p->loader));
    put_count(f, "lent_cores", put_loans(f, "lent_to", m, true));
    /* The admin's pool lends too, so count what is not its own instead of the partners' parts. */
    (void)put_loans(f, "borrowed_from", m, false);
    if (cpus_copy(&beyond, &p->target.cpus) == 0)
        cpus_andnot(&beyond, &p->loader);
    else
        f->failed = true;
    put_count(f, "borrowed_cores", cpus_count(&beyond));
    cpus_free(&held);
    cpus_free(&beyond);
}

static void put_verdict_words(struct filler *f, const struct member *m)
{
    char text[VERDICT_TEXT_SIZE];

    (void)verdict_evidence(&m->verdict, text, sizeof(text));
    put_text(f, "evidence", text);
    (void)verdict_advice(&m->verdict, (double)m->demand, text, sizeof(text));
    put_text(f, "advice", text);
}

static void put_measured(struct filler *f, const struct ctld *ctld, const struct member *m)
{
    bool reported = m->report_ms != 0;

    put_count(f, "tasks", m->tasks);
    put_count(f, "loader_tasks", m->loader_tasks);
    put_count(f, "workers", m->workers);
    put_number(f, "loader_use_cores", reported ? m->learner.use : NAN);
    put_number(f, "gpu_busy_share", (double)m->gpu_busy);
    put_number(f, "samples_per_s", m->learner.rate);
    put_number(f, "demand_cores", (double)m->demand);
    put_number(f, "quota_cores", (double)m->quota);
    put_text(f, "verdict", demand_verdict(m));
    put_verdict_words(f, m);
    put_count(f, "moves", m->moves);
    put_count(f, "drift", m->drift);
    put_count(f, "failed_binds", m->failed_binds);
    put_number(f, "age_s", seconds_since(ctld, m->started_ms));
    put_number(f, "report_age_s", reported ? seconds_since(ctld, m->report_ms) : NAN);
}

static void put_hints(struct filler *f, const struct hints *hints)
{
    char text[HINTS_TEXT_MAX];

    if (hints_format(hints, text, sizeof(text)) < (int)sizeof(text))
        put_text(f, "hints", text);
    else
        put_null(f, "hints");
}

static json_object *numbers(const double *values, unsigned count)
{
    json_object *array = json_object_new_array();

    for (unsigned i = 0; array != NULL && i < count; i++) {
        if (!answer_add(array, number(values[i]))) {
            json_object_put(array);
            return NULL;
        }
    }
    return array;
}

static json_object *limits(const uint8_t *values, unsigned count)
{
    json_object *array = json_object_new_array();

    for (unsigned i = 0; array != NULL && i < count; i++) {
        const char *name = pred_limit_name((enum pred_limit)values[i]);

        if (!answer_add(array, json_object_new_string(name))) {
            json_object_put(array);
            return NULL;
        }
    }
    return array;
}

static void put_cap(struct filler *f, const struct member *m)
{
    enum pred_limit limit;
    unsigned cores;

    if (demand_cap(m, &cores, &limit)) {
        put_count(f, "flat_from_cores", cores);
        put_text(f, "flat_because", pred_limit_name(limit));
    } else {
        put_null(f, "flat_from_cores");
        put_null(f, "flat_because");
    }
}

static json_object *curve_object(const struct member *m, const struct pred_curve *curve)
{
    struct filler f = {json_object_new_object(), false};
    unsigned count = curve->ncores + 1;

    put_text(&f, "unit", curve->relative ? "relative" : "samples/s");
    put(&f, "rate", numbers(curve->rate, count));
    put(&f, "low", numbers(curve->low, count));
    put(&f, "high", numbers(curve->high, count));
    put(&f, "limit", limits(curve->limit, count));
    put_number(&f, "gpu_rate", curve->gpu_rate);
    put_number(&f, "demand_cores", curve->demand);
    put_text(&f, "source", pred_source_name(curve->source));
    put_cap(&f, m);
    return finish(&f);
}

static double rate_at(const struct pred_curve *curve, unsigned cores)
{
    return curve->rate[cores < curve->ncores ? cores : curve->ncores];
}

static void put_curve(struct filler *f, const struct member *m)
{
    unsigned pool = cpus_count(&m->node->pool), own = cpus_count(&m->place.loader);
    unsigned have = cpus_count(&m->place.target.cpus);
    size_t members = m->node->nmembers;
    struct pred_curve curve;

    if (pool < own)
        pool = own;
    if (demand_curve(m, pool < PRED_CORES_MAX ? pool : PRED_CORES_MAX, &curve) < 0) {
        put_null(f, "curve");
        put_null(f, "rate_now");
        put_null(f, "rate_own");
        put_null(f, "rate_even");
        return;
    }
    put(f, "curve", curve_object(m, &curve));
    put_number(f, "rate_now", rate_at(&curve, have));
    put_number(f, "rate_own", rate_at(&curve, own));
    put_number(f, "rate_even", rate_at(&curve, (unsigned)(pool / (members > 0 ? members : 1))));
    pred_curve_free(&curve);
}

static json_object *change_object(const struct ctld *ctld, const struct change *change)
{
    struct filler f = {json_object_new_object(), false};

    put_number(&f, "age_s", seconds_since(ctld, change->at_ms));
    put_count(&f, "cores", change->cores);
    put_text(&f, "cpus", change->cpus);
    put_text(&f, "reason", change->reason);
    return finish(&f);
}

/* Oldest first. */
static json_object *history_array(const struct ctld *ctld, const struct history *history)
{
    json_object *array = json_object_new_array();
    unsigned count = history != NULL ? history->count : 0;

    for (unsigned i = 0; array != NULL && i < count; i++) {
        unsigned at = (history->next + history->capacity - count + i) % history->capacity;

        if (!answer_add(array, change_object(ctld, &history->changes[at]))) {
            json_object_put(array);
            return NULL;
        }
    }
    return array;
}

json_object *answer_member(const struct ctld *ctld, const struct member *m, bool explain)
{
    struct filler f = {json_object_new_object(), false};
    char id[64], step[64];
    const char *dot;

    member_name(m, id, sizeof(id));
    dot = strchr(id, '.');
    (void)snprintf(step, sizeof(step), "%s", dot != NULL ? dot + 1 : id);
    put_text(&f, "id", id);
    put_count(&f, "job", m->job->id);
    put_text(&f, "step", step);
    put_text(&f, "node", m->node->name);
    put_count(&f, "uid", m->uid);
    put_text(&f, "state", member_state_name(ctld->control.settling ? MEMBER_SETTLING : m->state));
    put_text(&f, "cpu_bind", m->cpu_bind[0] != '\0' ? m->cpu_bind : NULL);
    put_placement(&f, m);
    put_measured(&f, ctld, m);
    put_hints(&f, member_hints(m));
    if (explain) {
        put_curve(&f, m);
        put_number(&f, "predicted_error", m->learner.error);
        put_text(&f, "reason", m->reason);
        put(&f, "history", history_array(ctld, m->history));
    }
    return finish(&f);
}
