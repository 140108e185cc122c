/* Nodes, jobs and members, found by hash. See registry.h. */
#include "config.h"

#include "registry.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKETS_FIRST 64

/* ---- hash ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) /* finaliser of MurmurHash3, public domain constants */
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    x ^= x >> 33;
    return x;
}

static uint64_t hash_name(const struct registry *registry, const char *name)
{
    uint64_t h = registry->seed;

    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++)
        h = (h ^ *p) * 0x100000001b3ULL; /* FNV-1a */
    return mix(h);
}

static uint64_t hash_job(const struct registry *registry, uint32_t id)
{
    return mix(registry->seed ^ id);
}

static struct node **node_chain(const struct registry *registry, const char *name)
{
    return &registry->nodes[hash_name(registry, name) & (registry->node_buckets - 1)];
}

static struct job **job_chain(const struct registry *registry, uint32_t id)
{
    return &registry->jobs[hash_job(registry, id) & (registry->job_buckets - 1)];
}

/* Failing to grow only makes look-ups slower. */
static void grow_nodes(struct registry *registry)
{
    size_t nold = registry->node_buckets;
    struct node **old = registry->nodes, **new = calloc(nold * 2, sizeof(struct node *));

    if (new == NULL)
        return;
    registry->nodes = new;
    registry->node_buckets = nold * 2;
    for (size_t i = 0; i < nold; i++) {
        for (struct node *n = old[i], *next; n != NULL; n = next) {
            struct node **chain = node_chain(registry, n->name);

            next = n->next;
            n->next = *chain;
            *chain = n;
        }
    }
    free(old);
}

static void grow_jobs(struct registry *registry)
{
    size_t nold = registry->job_buckets;
    struct job **old = registry->jobs, **new = calloc(nold * 2, sizeof(struct job *));

    if (new == NULL)
        return;
    registry->jobs = new;
    registry->job_buckets = nold * 2;
    for (size_t i = 0; i < nold; i++) {
        for (struct job *j = old[i], *next; j != NULL; j = next) {
            struct job **chain = job_chain(registry, j->id);

            next = j->next;
            j->next = *chain;
            *chain = j;
        }
    }
    free(old);
}

int registry_init(struct registry *registry)
{
    memset(registry, 0, sizeof(*registry));
    if (getrandom(&registry->seed, sizeof(registry->seed), 0) != sizeof(registry->seed))
        return -1;
    registry->nodes = calloc(BUCKETS_FIRST, sizeof(struct node *));
    registry->jobs = calloc(BUCKETS_FIRST, sizeof(struct job *));
    registry->node_buckets = registry->job_buckets = BUCKETS_FIRST;
    registry->conf_generation = 1;
    if (registry->nodes == NULL || registry->jobs == NULL) {
        registry_fini(registry);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* ---- making and freeing -------------------------------------------------------------------- */

static void history_free(struct history *history)
{
    if (history == NULL)
        return;
    for (unsigned i = 0; i < history->count; i++) {
        free(history->changes[i].cpus);
        free(history->changes[i].reason);
    }
    free(history);
}

static void member_free(struct member *member)
{
    cpus_free(&member->own);
    cpus_free(&member->claim);
    cpus_free(&member->main);
    recon_member_free(&member->place);
    history_free(member->history);
    free(member->reason);
    free(member->own_hints);
    free(member->use);
    free(member->gpus);
    free(member->declared);
    free(member);
}

static void node_free(struct node *node)
{
    for (struct ghost *g = node->ghosts, *next; g != NULL; g = next) {
        next = g->next;
        recon_member_free(&g->place);
        free(g);
    }
    topo_free(node->flat);
    topostore_release(node->topology);
    cpus_free(&node->pool);
    cpus_free(&node->free);
    free(node->members);
    free(node->name);
    free(node);
}

static void job_free(struct job *job)
{
    free(job->members);
    free(job);
}

void registry_fini(struct registry *registry)
{
    for (size_t i = 0; registry->nodes != NULL && i < registry->node_buckets; i++) {
        for (struct node *n = registry->nodes[i], *next; n != NULL; n = next) {
            next = n->next;
            for (size_t k = 0; k < n->nmembers; k++)
                member_free(n->members[k]);
            node_free(n);
        }
    }
    for (size_t i = 0; registry->jobs != NULL && i < registry->job_buckets; i++) {
        for (struct job *j = registry->jobs[i], *next; j != NULL; j = next) {
            next = j->next;
            job_free(j);
        }
    }
    free(registry->nodes);
    free(registry->jobs);
    memset(registry, 0, sizeof(*registry));
}

static struct node *add_node(struct registry *registry, const char *name)
{
    struct node *node = registry_node(registry, name);
    struct node **chain;

    if (node != NULL)
        return node;
    node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->name = strdup(name);
    if (node->name == NULL) {
        free(node);
        return NULL;
    }
    if (registry->nnodes >= registry->node_buckets)
        grow_nodes(registry);
    chain = node_chain(registry, name);
    node->next = *chain;
    *chain = node;
    registry->nnodes++;
    return node;
}

static struct job *add_job(struct registry *registry, uint32_t id)
{
    struct job *job = registry_job(registry, id);
    struct job **chain;

    if (job != NULL)
        return job;
    job = calloc(1, sizeof(*job));
    if (job == NULL)
        return NULL;
    job->id = id;
    if (registry->njobs >= registry->job_buckets)
        grow_jobs(registry);
    chain = job_chain(registry, id);
    job->next = *chain;
    *chain = job;
    registry->njobs++;
    return job;
}

static void prune_job(struct registry *registry, struct job *job)
{
    if (job->nmembers > 0)
        return;
    for (struct job **at = job_chain(registry, job->id); *at != NULL; at = &(*at)->next) {
        if (*at == job) {
            *at = job->next;
            registry->njobs--;
            job_free(job);
            return;
        }
    }
}

bool registry_prune_node(struct registry *registry, struct node *node)
{
    if (node->nmembers > 0 || node->ghosts != NULL || node->queue != NODE_IDLE)
        return false;
    for (struct node **at = node_chain(registry, node->name); *at != NULL; at = &(*at)->next) {
        if (*at == node) {
            *at = node->next;
            registry->nnodes--;
            node_free(node);
            return true;
        }
    }
    return false;
}

/* ---- finding ------------------------------------------------------------------------------- */

struct node *registry_node(const struct registry *registry, const char *name)
{
    struct node *n = *node_chain(registry, name);

    while (n != NULL && strcmp(n->name, name) != 0)
        n = n->next;
    return n;
}

struct job *registry_job(const struct registry *registry, uint32_t id)
{
    struct job *j = *job_chain(registry, id);

    while (j != NULL && j->id != id)
        j = j->next;
    return j;
}

/* Where the member stands or would stand on its node. */
static size_t member_slot(const struct node *node, uint32_t job, uint32_t step)
{
    size_t low = 0, high = node->nmembers;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct member *m = node->members[mid];

        if (m->job->id < job || (m->job->id == job && m->step < step))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct member *registry_member(const struct registry *registry, const char *node_name, uint32_t job,
                               uint32_t step)
{
    const struct node *node = registry_node(registry, node_name);
    size_t slot;

    if (node == NULL)
        return NULL;
    slot = member_slot(node, job, step);
    if (slot < node->nmembers && node->members[slot]->job->id == job &&
        node->members[slot]->step == step)
        return node->members[slot];
    return NULL;
}

/* ---- members ------------------------------------------------------------------------------- */

static int reserve(struct member ***array, size_t used, size_t *capacity)
{
    size_t wanted = *capacity == 0 ? 4 : *capacity * 2;
    struct member **bigger;

    if (used < *capacity)
        return 0;
    bigger = realloc(*array, wanted * sizeof(struct member *));
    if (bigger == NULL)
        return -1;
    *array = bigger;
    *capacity = wanted;
    return 0;
}

static void link_member(struct registry *registry, struct member *member)
{
    struct node *node = member->node;
    struct job *job = member->job;
    size_t slot = member_slot(node, job->id, member->step);

    memmove(&node->members[slot + 1], &node->members[slot],
            (node->nmembers - slot) * sizeof(struct member *));
    node->members[slot] = member;
    node->nmembers++;
    member->job_slot = job->nmembers;
    job->members[job->nmembers++] = member;
    registry->nmembers++;
}

struct member *registry_add(struct registry *registry, const char *node_name, uint32_t job_id,
                            uint32_t step)
{
    struct member *member;
    struct node *node;
    struct job *job;

    if (registry_member(registry, node_name, job_id, step) != NULL) {
        errno = EEXIST;
        return NULL;
    }
    node = add_node(registry, node_name);
    if (node == NULL)
        return NULL;
    job = add_job(registry, job_id);
    member = calloc(1, sizeof(*member));
    if (job == NULL || member == NULL || reserve(&node->members, node->nmembers, &node->capacity) ||
        reserve(&job->members, job->nmembers, &job->capacity)) {
        free(member);
        if (job != NULL)
            prune_job(registry, job);
        registry_prune_node(registry, node);
        errno = ENOMEM;
        return NULL;
    }
    member->node = node;
    member->job = job;
    member->step = step;
    member->demand = NAN;
    member->gpu_busy = NAN;
    member->quota = NAN;
    verdict_init(&member->verdict);
    pred_learner_init(&member->learner);
    link_member(registry, member);
    node->claims_stale = true;
    return member;
}

void registry_remove(struct registry *registry, struct member *member)
{
    struct node *node = member->node;
    struct job *job = member->job;
    size_t slot = member_slot(node, job->id, member->step);

    memmove(&node->members[slot], &node->members[slot + 1],
            (node->nmembers - slot - 1) * sizeof(struct member *));
    node->nmembers--;
    job->nmembers--;
    job->members[member->job_slot] = job->members[job->nmembers];
    job->members[member->job_slot]->job_slot = member->job_slot;
    registry->nmembers--;
    node->claims_stale = true;
    prune_job(registry, job);
    member_free(member);
}

const struct conf_node *registry_node_conf(const struct registry *registry, struct node *node,
                                           const struct conf *conf)
{
    if (node->conf_generation != registry->conf_generation) {
        node->conf = conf_node(conf, node->name);
        node->conf_generation = registry->conf_generation;
        node->claims_stale = true;
    }
    return node->conf;
}

const struct topo *registry_node_topo(struct node *node, const struct conf_node *conf)
{
    struct cpus all = CPUS_EMPTY;
    int rc = 0;

    if (node->topology != NULL)
        return topostore_topo(node->topology);
    for (size_t i = 0; i < node->nmembers && rc == 0; i++)
        rc = cpus_or(&all, &node->members[i]->own);
    if (rc == 0 && conf != NULL)
        rc = cpus_or(&all, &conf->pool);
    for (size_t i = 0; node->flat != NULL && i < node->flat->npus; i++)
        cpus_clear(&all, node->flat->pus[i].os);
    if (rc == 0 && (node->flat == NULL || !cpus_is_empty(&all))) {
        struct topo *bigger;

        for (size_t i = 0; node->flat != NULL && i < node->flat->npus && rc == 0; i++)
            rc = cpus_set(&all, node->flat->pus[i].os);
        bigger = rc == 0 ? topo_flat(&all) : NULL;
        if (bigger != NULL) {
            topo_free(node->flat);
            node->flat = bigger;
        } else {
            rc = -1;
        }
    }
    cpus_free(&all);
    return rc == 0 ? node->flat : NULL;
}

/* Most say nothing, and there may be many. */
static const struct hints only_on = {.on = true};

const struct hints *member_hints(const struct member *member)
{
    return member->own_hints != NULL ? member->own_hints : &only_on;
}

bool member_is_bystander(const struct member *member)
{
    return member->unconfined || member->cpu_bind[0] != '\0';
}

static bool says_only_on(const struct hints *hints)
{
    char all[HINTS_TEXT_MAX], on[HINTS_TEXT_MAX];

    (void)hints_format(hints, all, sizeof(all));
    (void)hints_format(&only_on, on, sizeof(on));
    return strcmp(all, on) == 0;
}

int member_set_hints(struct member *member, const struct hints *hints)
{
    if (says_only_on(hints))
        return 0;
    member->own_hints = malloc(sizeof(*member->own_hints));
    if (member->own_hints == NULL)
        return -1;
    *member->own_hints = *hints;
    return 0;
}

void member_name(const struct member *member, char *buf, size_t size)
{
    (void)msg_step_name(member->job->id, member->step, buf, size);
}

/* Room for one more, or for the newest instead of the oldest. False: no memory. */
static bool history_room(struct history **history)
{
    unsigned capacity = *history != NULL ? (*history)->capacity : 0;
    unsigned wanted = capacity == 0 ? 2 : capacity * 2;
    struct history *bigger;

    if (*history != NULL && ((*history)->count < capacity || capacity >= HISTORY_MAX))
        return true;
    bigger = realloc(*history, sizeof(*bigger) + wanted * sizeof(bigger->changes[0]));
    if (bigger == NULL)
        return *history != NULL;
    if (capacity == 0)
        bigger->count = 0;
    bigger->next = bigger->count; /* it was full, and so in order */
    bigger->capacity = wanted;
    *history = bigger;
    return true;
}

void member_note(struct member *member, uint64_t now_ms, const char *reason)
{
    struct history *history;
    struct change *change;

    member->moves++;
    if (!history_room(&member->history))
        return;
    history = member->history;
    change = &history->changes[history->next];
    if (history->count < history->capacity) {
        history->count++;
    } else {
        free(change->cpus);
        free(change->reason);
    }
    history->next = (history->next + 1) % history->capacity;
    change->at_ms = now_ms;
    change->cores = cpus_count(&member->place.target.cpus);
    change->cpus = cpus_to_string(&member->place.target.cpus);
    change->reason = strdup(reason);
}

bool member_has_loaders(const struct member *member, uint64_t now_ms, const struct conf *conf)
{
    uint64_t reports_ms = 3ull * conf->report_ms; /* one may be late */
    uint64_t patience_ms = conf->learn_ms > reports_ms ? conf->learn_ms : reports_ms;

    return member->loaders_seen_ms != 0 && now_ms - member->loaders_seen_ms < patience_ms;
}

const char *member_state_name(enum member_state state)
{
    static const char *const names[] = {
        [MEMBER_LEARNING] = "learning",
        [MEMBER_MANAGED] = "managed",
        [MEMBER_BYSTANDER] = "bystander",
        [MEMBER_SETTLING] = "settling",
    };

    return names[state];
}
