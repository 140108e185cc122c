/* Questions of the tool, answered with JSON. See query.h. */
#include "config.h"

#include "query.h"

#include "answer.h"
#include "clock.h"
#include "ctld.h"
#include "log.h"
#include "metrics.h"

#include <errno.h>
#include <json.h>
#include <stdlib.h>
#include <string.h>

/* "", "12", "12.0", "12.batch" */
struct selection {
    bool all;
    uint32_t job;
    const char *name; /* of the one step, or NULL: the whole job */
    const char *node; /* "" all */
};

static bool selected(const struct selection *s, const struct member *member)
{
    char name[64];

    if (s->node[0] != '\0' && strcmp(s->node, member->node->name) != 0)
        return false;
    if (s->all)
        return true;
    if (member->job->id != s->job)
        return false;
    if (s->name == NULL)
        return true;
    member_name(member, name, sizeof(name));
    return strcmp(name, s->name) == 0;
}

static bool parse_selection(const struct msg_query *query, struct selection *s)
{
    unsigned long job;
    char *end;

    *s = (struct selection){.all = query->job[0] == '\0', .node = query->node};
    if (s->all)
        return true;
    errno = 0;
    job = strtoul(query->job, &end, 10);
    if (query->job[0] < '0' || query->job[0] > '9' || errno != 0 || job == 0 || job > UINT32_MAX)
        return false;
    s->job = (uint32_t)job;
    if (*end == '.' && end[1] != '\0')
        s->name = query->job;
    else if (*end != '\0')
        return false;
    return true;
}

/* The members of one node. */
static bool add_node_members(const struct ctld *ctld, const struct node *node,
                             const struct selection *s, bool explain, json_object *members)
{
    for (size_t i = 0; i < node->nmembers; i++)
        if (selected(s, node->members[i]) &&
            !answer_add(members, answer_member(ctld, node->members[i], explain)))
            return false;
    return true;
}

static bool add_job_members(const struct ctld *ctld, const struct job *job,
                            const struct selection *s, bool explain, json_object *members)
{
    for (size_t i = 0; i < job->nmembers; i++)
        if (selected(s, job->members[i]) &&
            !answer_add(members, answer_member(ctld, job->members[i], explain)))
            return false;
    return true;
}

static bool add_members(const struct ctld *ctld, const struct selection *s, bool explain,
                        json_object *members)
{
    const struct registry *registry = &ctld->registry;
    const struct job *job;
    const struct node *node;

    if (!s->all) {
        job = registry_job(registry, s->job);
        return job == NULL || add_job_members(ctld, job, s, explain, members);
    }
    if (s->node[0] != '\0') {
        node = registry_node(registry, s->node);
        return node == NULL || add_node_members(ctld, node, s, explain, members);
    }
    for (size_t i = 0; i < registry->node_buckets; i++)
        for (node = registry->nodes[i]; node != NULL; node = node->next)
            if (!add_node_members(ctld, node, s, explain, members))
                return false;
    return true;
}

static bool add_nodes(const struct ctld *ctld, const char *only, json_object *nodes)
{
    const struct registry *registry = &ctld->registry;

    for (size_t i = 0; i < registry->node_buckets; i++)
        for (struct node *n = registry->nodes[i]; n != NULL; n = n->next)
            if ((only[0] == '\0' || strcmp(only, n->name) == 0) &&
                !answer_add(nodes, answer_node(ctld, n)))
                return false;
    return true;
}

static json_object *status(const struct ctld *ctld, const struct selection *s)
{
    json_object *root = json_object_new_object();
    json_object *nodes = json_object_new_array(), *members = json_object_new_array();

    if (root == NULL || nodes == NULL || members == NULL ||
        !answer_put(root, "controller", answer_controller(ctld)) ||
        !add_nodes(ctld, s->node, nodes) || !add_members(ctld, s, false, members)) {
        json_object_put(root);
        json_object_put(nodes);
        json_object_put(members);
        return NULL;
    }
    (void)answer_put(root, "nodes", nodes);
    (void)answer_put(root, "members", members);
    return root;
}

/* *empty: nothing is selected. */
static json_object *explain(const struct ctld *ctld, const struct selection *s, bool *empty)
{
    json_object *root = json_object_new_object(), *members = json_object_new_array();

    if (root == NULL || members == NULL ||
        !answer_put(root, "controller", answer_controller(ctld)) ||
        !add_members(ctld, s, true, members)) {
        json_object_put(root);
        json_object_put(members);
        return NULL;
    }
    *empty = json_object_array_length(members) == 0;
    (void)answer_put(root, "members", members);
    return root;
}

static json_object *metrics(const struct ctld *ctld)
{
    json_object *root = json_object_new_object();
    char *text = metrics_text(ctld);
    json_object *string = text != NULL ? json_object_new_string(text) : NULL;

    free(text);
    if (root == NULL || string == NULL) {
        json_object_put(root);
        json_object_put(string);
        return NULL;
    }
    (void)answer_put(root, "text", string);
    return root;
}

static void send_answer(struct session *session, json_object *root)
{
    struct wire_writer writer = {0}; /* of its own: it may be large */
    const char *text = root != NULL
                           ? json_object_to_json_string_ext(
                                 root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)
                           : NULL;

    if (text == NULL) {
        session_refuse(session, MSG_REFUSED_BUSY, 1000, "no memory for the answer");
    } else if (msg_answer_write(&writer, text) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0,
                       "the answer is too large; ask for one node or one job");
    } else {
        session_send(session, &writer);
        session_close(session);
    }
    wire_writer_free(&writer);
    json_object_put(root);
}

void query_answer(struct session *session, const struct wire_view *view)
{
    struct ctld *ctld = session->ctld;
    struct msg_query query;
    struct selection s;
    bool empty = false;

    if (msg_query_read(view, &query) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "the query cannot be read");
        return;
    }
    if (memcmp(query.nonce, session->nonce, sizeof(session->nonce)) != 0) {
        session_refuse(session, MSG_REFUSED_DENIED, 0, "the answer is not to this challenge");
        return;
    }
    if (!parse_selection(&query, &s)) {
        session_refuse(session, MSG_REFUSED_INVALID, 0,
                       "'%.64s' is no job; write JOB or JOB.STEP, as 12, 12.0 or 12.batch",
                       query.job);
        return;
    }
    ctld->queries++;
    if (strcmp(query.what, "status") == 0) {
        send_answer(session, status(ctld, &s));
    } else if (strcmp(query.what, "explain") == 0) {
        json_object *root = explain(ctld, &s, &empty);

        if (empty) {
            json_object_put(root);
            session_refuse(session, MSG_REFUSED_UNKNOWN, 0, "%s%.64s is not registered here%s%.64s",
                           s.all ? "no job" : "job ", query.job,
                           query.node[0] != '\0' ? " on node " : "", query.node);
        } else {
            send_answer(session, root);
        }
    } else if (strcmp(query.what, "metrics") == 0) {
        send_answer(session, metrics(ctld));
    } else {
        session_refuse(session, MSG_REFUSED_UNKNOWN, 0,
                       "'%.64s' cannot be asked; status, explain and metrics can", query.what);
    }
}
