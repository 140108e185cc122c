/* Questions of the tool, answered with JSON. See query.h. */
#include "config.h"

#include "query.h"

#include "answer.h"
#include "clock.h"
#include "ctld.h"
#include "log.h"
#include "metrics.h"

#include <errno.h>
#include <event2/event.h>
#include <json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define SMALL_NODES        16u /* answers of so many nodes are small */
#define SMALL_MAX          64u /* of them being written at a time */
#define LARGE_MAX          2u  /* and of the others, which may take much memory */
#define TOO_LARGE          "the answer is too large; ask for one node or one job"
#define BUSY_RETRY_MS      500u
#define PIECE_NS           1000000u /* of the loop's time, then others have their turn */
#define METRICS_MAX_AGE_MS 500u     /* whoever asks more often gets the same again */

/* "", "12", "12.0", "12.batch"; on one node or on all. */
struct selection {
    bool all;
    uint32_t job;
    char name[MSG_NAME_MAX]; /* of the one step, or "": the whole job */
    char node[MSG_NAME_MAX]; /* "" all */
};

struct asking { /* an answer being written */
    TAILQ_ENTRY(asking) link;
    struct session *session;
    struct selection selection;
    bool explain;
    bool large;
    char **nodes; /* names of those to look at; some may be gone by then */
    size_t nnodes, next;
    size_t nmembers; /* found */
    FILE *out_nodes, *out_members;
    char *text_nodes, *text_members;
    size_t size_nodes, size_members;
};

TAILQ_HEAD(asking_list, asking);

struct queries {
    struct asking_list list;
    unsigned small, large; /* on the list */
    struct event *work;
    char *metrics;
    uint64_t metrics_ms;
};

/* ---- what is asked for ---------------------------------------------------------------------- */

static bool selected(const struct selection *s, const struct member *member)
{
    char name[64];

    if (s->all)
        return true;
    if (member->job->id != s->job)
        return false;
    if (s->name[0] == '\0')
        return true;
    member_name(member, name, sizeof(name));
    return strcmp(name, s->name) == 0;
}

static bool parse_selection(const struct msg_query *query, struct selection *s)
{
    unsigned long job;
    char *end;

    memset(s, 0, sizeof(*s));
    s->all = query->job[0] == '\0';
    (void)snprintf(s->node, sizeof(s->node), "%s", query->node);
    if (s->all)
        return true;
    errno = 0;
    job = strtoul(query->job, &end, 10);
    if (query->job[0] < '0' || query->job[0] > '9' || errno != 0 || job == 0 || job > UINT32_MAX)
        return false;
    s->job = (uint32_t)job;
    if (*end == '.' && end[1] != '\0')
        (void)snprintf(s->name, sizeof(s->name), "%s", query->job);
    else if (*end != '\0')
        return false;
    return true;
}

static int add_name(struct asking *asking, size_t *capacity, const char *name)
{
    if (asking->nnodes == *capacity) {
        size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
        char **bigger = realloc(asking->nodes, wanted * sizeof(char *));

        if (bigger == NULL)
            return -1;
        asking->nodes = bigger;
        *capacity = wanted;
    }
    asking->nodes[asking->nnodes] = strdup(name);
    if (asking->nodes[asking->nnodes] == NULL)
        return -1;
    asking->nnodes++;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Members of a job on one node would bring its name several times. */
static void drop_doubles(struct asking *asking)
{
    size_t kept = 0;

    qsort(asking->nodes, asking->nnodes, sizeof(char *), compare_names);
    for (size_t i = 0; i < asking->nnodes; i++) {
        if (kept > 0 && strcmp(asking->nodes[kept - 1], asking->nodes[i]) == 0)
            free(asking->nodes[i]);
        else
            asking->nodes[kept++] = asking->nodes[i];
    }
    asking->nnodes = kept;
}

/* The nodes to look at, as of now. */
static int list_nodes(const struct registry *registry, struct asking *asking)
{
    const struct selection *s = &asking->selection;
    size_t capacity = 0;
    int rc = 0;

    if (s->node[0] != '\0') {
        rc = add_name(asking, &capacity, s->node);
    } else if (!s->all) {
        const struct job *job = registry_job(registry, s->job);

        for (size_t i = 0; job != NULL && i < job->nmembers && rc == 0; i++)
            rc = add_name(asking, &capacity, job->members[i]->node->name);
    } else {
        for (size_t i = 0; i < registry->node_buckets; i++)
            for (struct node *n = registry->nodes[i]; n != NULL && rc == 0; n = n->next)
                rc = add_name(asking, &capacity, n->name);
    }
    if (rc == 0 && asking->nnodes > 1)
        drop_doubles(asking);
    return rc;
}

/* ---- writing it -------------------------------------------------------------------------------
 */

/* One more element of an array being written. Takes the object; false: no memory. */
static bool write_element(FILE *out, bool first, json_object *object)
{
    const char *text = object != NULL
                           ? json_object_to_json_string_ext(
                                 object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                           : NULL;
    bool good = text != NULL && (first || fputc(',', out) != EOF) && fputs(text, out) != EOF;

    json_object_put(object);
    return good;
}

static bool write_node(const struct ctld *ctld, struct asking *asking, const struct node *node)
{
    if (!asking->explain &&
        !write_element(asking->out_nodes, ftell(asking->out_nodes) == 0, answer_node(ctld, node)))
        return false;
    for (size_t i = 0; i < node->nmembers; i++) {
        const struct member *member = node->members[i];

        if (!selected(&asking->selection, member))
            continue;
        if (!write_element(asking->out_members, asking->nmembers == 0,
                           answer_member(ctld, member, asking->explain)))
            return false;
        asking->nmembers++;
    }
    return true;
}

static void asking_free(struct asking *asking)
{
    for (size_t i = 0; i < asking->nnodes; i++)
        free(asking->nodes[i]);
    free(asking->nodes);
    if (asking->out_nodes != NULL)
        (void)fclose(asking->out_nodes);
    if (asking->out_members != NULL)
        (void)fclose(asking->out_members);
    free(asking->text_nodes);
    free(asking->text_members);
    free(asking);
}

/* How many of its size are being written. */
static unsigned *count_of(struct queries *queries, const struct asking *asking)
{
    return asking->large ? &queries->large : &queries->small;
}

static void remove_asking(struct ctld *ctld, struct asking *asking)
{
    TAILQ_REMOVE(&ctld->queries->list, asking, link);
    --*count_of(ctld->queries, asking);
    asking_free(asking);
}

void query_forget(struct asking *asking)
{
    remove_asking(asking->session->ctld, asking);
}

static void no_memory(struct session *session)
{
    session_refuse(session, MSG_REFUSED_BUSY, BUSY_RETRY_MS, "no memory for the answer");
}

static void send_text(struct session *session, const char *text)
{
    struct wire_writer writer = {0}; /* of its own: it may be large */

    if (msg_answer_write(&writer, text) == 0) {
        session_send_large(session, &writer);
        session_close(session);
    } else if (errno == ENOMEM) {
        no_memory(session);
    } else {
        session_refuse(session, MSG_REFUSED_INVALID, 0, TOO_LARGE);
    }
    wire_writer_free(&writer);
}

/* The parts put together, or NULL. */
static char *whole_answer(const struct ctld *ctld, struct asking *asking)
{
    json_object *controller = answer_controller(ctld);
    const char *head = controller != NULL
                           ? json_object_to_json_string_ext(controller, JSON_C_TO_STRING_PLAIN)
                           : NULL;
    char *text = NULL;
    int rc = -1;

    if (head != NULL && fflush(asking->out_nodes) == 0 && fflush(asking->out_members) == 0) {
        if (asking->explain)
            rc =
                asprintf(&text, "{\"controller\":%s,\"members\":[%s]}", head, asking->text_members);
        else
            rc = asprintf(&text, "{\"controller\":%s,\"nodes\":[%s],\"members\":[%s]}", head,
                          asking->text_nodes, asking->text_members);
    }
    json_object_put(controller);
    return rc >= 0 ? text : NULL;
}

static void refuse_unknown(struct session *session, const struct selection *s)
{
    char job[64] = "no job";

    if (s->name[0] != '\0')
        (void)snprintf(job, sizeof(job), "step %.48s", s->name);
    else if (!s->all)
        (void)snprintf(job, sizeof(job), "job %u", s->job);
    session_refuse(session, MSG_REFUSED_UNKNOWN, 0, "%s is not registered here%s%.64s", job,
                   s->node[0] != '\0' ? " on node " : "", s->node);
}

static void finish(struct ctld *ctld, struct asking *asking)
{
    struct session *session = asking->session;
    bool empty = asking->explain && asking->nmembers == 0;
    struct selection selection = asking->selection;
    char *text = empty ? NULL : whole_answer(ctld, asking);

    session->asking = NULL;
    remove_asking(ctld, asking);
    if (empty)
        refuse_unknown(session, &selection);
    else if (text == NULL)
        no_memory(session);
    else
        send_text(session, text);
    free(text);
}

static void arm(struct queries *queries)
{
    const struct timeval at_once = {0, 0};

    if (!TAILQ_EMPTY(&queries->list) && !evtimer_pending(queries->work, NULL))
        (void)evtimer_add(queries->work, &at_once);
}

static bool too_large(const struct asking *asking)
{
    return ftell(asking->out_members) > (long)WIRE_ANSWER_FRAME;
}

/* Give up: no memory, or more than fits into an answer. */
static void abandon(struct ctld *ctld, struct asking *asking)
{
    struct session *session = asking->session;
    bool large = too_large(asking);

    session->asking = NULL;
    remove_asking(ctld, asking);
    if (large)
        session_refuse(session, MSG_REFUSED_INVALID, 0, TOO_LARGE);
    else
        no_memory(session);
}

/* A piece of the first answer, which then goes to the end of the list. */
static void work(evutil_socket_t fd, short what, void *arg)
{
    struct ctld *ctld = arg;
    struct asking *asking = TAILQ_FIRST(&ctld->queries->list);
    uint64_t begin = clock_monotonic_ns();
    bool good = true;

    (void)fd;
    (void)what;
    if (asking == NULL)
        return;
    TAILQ_REMOVE(&ctld->queries->list, asking, link);
    TAILQ_INSERT_TAIL(&ctld->queries->list, asking, link);
    while (good && asking->next < asking->nnodes && clock_monotonic_ns() - begin < PIECE_NS) {
        const struct node *node = registry_node(&ctld->registry, asking->nodes[asking->next++]);

        good = node == NULL || write_node(ctld, asking, node);
        good = good && !too_large(asking);
    }
    if (!good)
        abandon(ctld, asking);
    else if (asking->next == asking->nnodes)
        finish(ctld, asking);
    arm(ctld->queries);
}

/* ---- beginning --------------------------------------------------------------------------------
 */

static struct asking *asking_new(const struct ctld *ctld, struct session *session,
                                 const struct selection *selection, bool explain)
{
    struct asking *asking = calloc(1, sizeof(*asking));

    if (asking == NULL)
        return NULL;
    asking->session = session;
    asking->selection = *selection;
    asking->explain = explain;
    asking->out_nodes = open_memstream(&asking->text_nodes, &asking->size_nodes);
    asking->out_members = open_memstream(&asking->text_members, &asking->size_members);
    if (asking->out_nodes == NULL || asking->out_members == NULL ||
        list_nodes(&ctld->registry, asking) < 0) {
        asking_free(asking);
        return NULL;
    }
    asking->large = asking->nnodes > SMALL_NODES;
    return asking;
}

static void begin(struct session *session, const struct selection *selection, bool explain)
{
    struct ctld *ctld = session->ctld;
    struct asking *asking;

    asking = asking_new(ctld, session, selection, explain);
    if (asking == NULL) {
        no_memory(session);
        return;
    }
    if (*count_of(ctld->queries, asking) >= (asking->large ? LARGE_MAX : SMALL_MAX)) {
        asking_free(asking);
        session_refuse(session, MSG_REFUSED_BUSY, BUSY_RETRY_MS,
                       "others are being answered; ask again");
        return;
    }
    ++*count_of(ctld->queries, asking);
    TAILQ_INSERT_TAIL(&ctld->queries->list, asking, link);
    session_set_asking(session, asking);
    arm(ctld->queries);
}

static void metrics(struct session *session)
{
    struct ctld *ctld = session->ctld;
    struct queries *queries = ctld->queries;
    uint64_t now = clock_monotonic_ms();
    json_object *root = json_object_new_object();

    if (queries->metrics == NULL || now - queries->metrics_ms > METRICS_MAX_AGE_MS) {
        free(queries->metrics);
        queries->metrics = metrics_text(ctld);
        queries->metrics_ms = now;
    }
    if (root == NULL || queries->metrics == NULL ||
        !answer_put(root, "text", json_object_new_string(queries->metrics)))
        no_memory(session);
    else
        send_text(session, json_object_to_json_string_ext(
                               root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
}

void query_answer(struct session *session, const struct wire_view *view)
{
    struct msg_query query;
    struct selection selection;

    if (msg_query_read(view, &query) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "the query cannot be read");
    } else if (memcmp(query.nonce, session->nonce, sizeof(session->nonce)) != 0) {
        session_refuse(session, MSG_REFUSED_DENIED, 0, "the answer is not to this challenge");
    } else if (!parse_selection(&query, &selection)) {
        session_refuse(session, MSG_REFUSED_INVALID, 0,
                       "'%.64s' is no job; write JOB or JOB.STEP, as 12, 12.0 or 12.batch",
                       query.job);
    } else {
        session->ctld->queries_total++;
        if (strcmp(query.what, "status") == 0)
            begin(session, &selection, false);
        else if (strcmp(query.what, "explain") == 0)
            begin(session, &selection, true);
        else if (strcmp(query.what, "metrics") == 0)
            metrics(session);
        else
            session_refuse(session, MSG_REFUSED_UNKNOWN, 0,
                           "'%.64s' cannot be asked; status, explain and metrics can", query.what);
    }
}

int query_init(struct ctld *ctld)
{
    struct queries *queries = calloc(1, sizeof(*queries));

    ctld->queries = queries;
    if (queries == NULL)
        return -1;
    TAILQ_INIT(&queries->list);
    queries->work = evtimer_new(ctld->base, work, ctld);
    if (queries->work != NULL)
        return 0;
    errno = ENOMEM;
    return -1;
}

void query_fini(struct ctld *ctld)
{
    struct queries *queries = ctld->queries;
    struct asking *asking;

    if (queries == NULL)
        return;
    while ((asking = TAILQ_FIRST(&queries->list)) != NULL) {
        TAILQ_REMOVE(&queries->list, asking, link);
        asking_free(asking);
    }
    if (queries->work != NULL)
        event_free(queries->work);
    free(queries->metrics);
    free(queries);
    ctld->queries = NULL;
}
