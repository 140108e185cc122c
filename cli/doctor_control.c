/* adloader doctor: adloader.conf, its folders, munge, and the way to the controllers. */
#include "config.h"

#include "doctor.h"

#include "client.h"
#include "conf.h"
#include "doc.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <libgen.h>
#include <limits.h>
#include <munge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MUNGE_MS 8000u

/* ---- adloader.conf and the controller's folders --------------------------------------------- */

static const char *conf_file(const struct doctor *d)
{
    return d->cli->config != NULL ? d->cli->config : CONF_DEFAULT_FILE;
}

/* Topologies and learned profiles are kept there; without it they are learned anew. */
static void check_state_dir(struct doctor *d)
{
    const char *folder = d->conf->state_dir;
    struct statvfs space;
    struct stat st;

    if (folder[0] == '\0') {
        doctor_say(d, DOCTOR_OK, "StateDir", "", "none: nothing is kept over a restart");
        return;
    }
    if (lstat(folder, &st) < 0) {
        char copy[PATH_MAX];

        (void)snprintf(copy, sizeof(copy), "%s", folder);
        if (errno == ENOENT && access(dirname(copy), W_OK) == 0)
            doctor_say(d, DOCTOR_OK, "StateDir", "", "%s is made when the controller starts",
                       folder);
        else
            doctor_say(d, DOCTOR_PROBLEM, "StateDir", "make the folder, or set StateDir",
                       "%s is not there, and cannot be made: %s", folder, strerror(errno));
        return;
    }
    if (!S_ISDIR(st.st_mode)) {
        doctor_say(d, DOCTOR_PROBLEM, "StateDir", "set StateDir to a folder", "%s is no folder",
                   folder);
    } else if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        doctor_say(d, DOCTOR_PROBLEM, "StateDir", "chown root and chmod 755 it",
                   "others than root can write to %s", folder);
    } else if (d->root && access(folder, W_OK) < 0) {
        doctor_say(d, DOCTOR_PROBLEM, "StateDir", "mount it writable, or set StateDir",
                   "%s cannot be written to: %s", folder, strerror(errno));
    } else if (statvfs(folder, &space) == 0 && space.f_bavail < 16) {
        doctor_say(d, DOCTOR_PROBLEM, "StateDir", "make room there", "the disk of %s is full",
                   folder);
    } else {
        doctor_say(d, DOCTOR_OK, "StateDir", "", "%s", folder);
    }
}

/* The socket that the tool and the agents of this host use: everybody may ask there. */
static void check_socket(struct doctor *d)
{
    const char *path = d->conf->socket;
    struct stat st;

    if (lstat(path, &st) < 0) {
        if (errno != ENOENT) /* an absent one is told with the controller that does not answer */
            doctor_say(d, DOCTOR_PROBLEM, "ControllerSocket", "chmod 755 its folders",
                       "cannot look at %s: %s", path, strerror(errno));
        return;
    }
    if (!S_ISSOCK(st.st_mode))
        doctor_say(d, DOCTOR_PROBLEM, "ControllerSocket", "remove it, or set ControllerSocket",
                   "%s is no socket", path);
    else if ((st.st_mode & 0666) != 0666)
        doctor_say(d, DOCTOR_WARNING, "ControllerSocket", "restart adloaderctld, which sets it",
                   "mode %03o of %s keeps users from asking; it should be 666",
                   (unsigned)(st.st_mode & 0777), path);
    else
        doctor_say(d, DOCTOR_OK, "ControllerSocket", "", "%s, mode 666", path);
}

void doctor_check_conf(struct doctor *d)
{
    char error[1024] = "";

    d->conf = conf_read(d->cli->config, error, sizeof(error));
    if (d->conf == NULL) {
        doctor_say(d, DOCTOR_PROBLEM, "adloader.conf",
                   "correct it; adloaderctld --check-config says when it is good",
                   "%s is refused: %s", conf_file(d), error);
        return;
    }
    doctor_say(d, DOCTOR_OK, "adloader.conf", "", "%s%s", conf_file(d),
               access(conf_file(d), F_OK) == 0 ? " is good" : " is not there: all defaults");
    check_state_dir(d);
    check_socket(d);
}

/* ---- munge --------------------------------------------------------------------------------- */

/* 0, or 1 with why not. */
static int try_munge(const void *argument, char *text, size_t size)
{
    const char *socket = argument, *why = NULL;
    munge_ctx_t context = munge_ctx_create();
    char *credential = NULL;
    munge_err_t result = EMUNGE_NO_MEMORY;
    uid_t uid;
    gid_t gid;

    if (context != NULL)
        result = EMUNGE_SUCCESS;
    if (result == EMUNGE_SUCCESS && socket[0] != '\0')
        result = munge_ctx_set(context, MUNGE_OPT_SOCKET, socket);
    if (result == EMUNGE_SUCCESS)
        result = munge_encode(&credential, context, NULL, 0);
    if (result == EMUNGE_SUCCESS)
        result = munge_decode(credential, context, NULL, NULL, &uid, &gid);
    if (result == EMUNGE_SUCCESS)
        return 0;
    if (context != NULL)
        why = munge_ctx_strerror(context);
    (void)snprintf(text, size, "%s", why != NULL ? why : munge_strerror(result));
    return 1;
}

/* Is one of the addresses, parted by commas, reached over TCP? */
static bool has_remote(const char *list)
{
    for (const char *at = list;; at++) {
        if (at[0] != '/' && strncmp(at, "unix:", 5) != 0)
            return true;
        at += strcspn(at, ",");
        if (*at == '\0')
            return false;
    }
}

static bool needs_munge(const struct doctor *d)
{
    const char *from, *named = client_named(d->cli, &from);

    if (named != NULL && has_remote(named))
        return true;
    for (unsigned i = 0; i < d->args.ncontrollers; i++)
        if (!d->args.controllers[i].local)
            return true;
    return d->conf != NULL && strcmp(d->conf->listen_address, "none") != 0;
}

/* False: no credential is to be had. */
static bool check_munge(struct doctor *d)
{
    const char *socket = d->args.munge_socket;
    char text[512];

    if (!needs_munge(d))
        return true;
    if (socket[0] == '\0' && d->conf != NULL)
        socket = d->conf->munge_socket;
    switch (doctor_bounded(try_munge, socket, MUNGE_MS, text, sizeof(text))) {
    case 0:
        doctor_say(d, DOCTOR_OK, "munge", "", "a credential was made and read");
        return true;
    case 1:
        doctor_say(d, DOCTOR_PROBLEM, "munge",
                   "see that munged runs here with the cluster's key (systemctl status munge), and "
                   "that munge_socket= or MungeSocket names its socket",
                   "no credential: %s", text);
        return false;
    default:
        doctor_say(d, DOCTOR_PROBLEM, "munge", "restart munged",
                   "munged%s%s does not answer within %u s", socket[0] != '\0' ? " at " : "",
                   socket, MUNGE_MS / 1000);
        return false;
    }
}

/* ---- controllers --------------------------------------------------------------------------- */

/* Is the node, by the name of this host, known without its topology? */
static bool is_flat(json_object *nodes, const char *host)
{
    for (size_t i = 0; i < doc_count(nodes); i++) {
        json_object *node = doc_at(nodes, i);
        const char *name = doc_text(node, "name"), *topology = doc_text(node, "topology");

        if (name != NULL && strcmp(name, host) == 0)
            return topology != NULL && strcmp(topology, "flat") == 0;
    }
    return false;
}

static void look_at_answer(struct doctor *d, const char *shown, json_object *document)
{
    json_object *controller = doc_member(document, "controller");
    const char *version = doc_text(controller, "version");
    const char *instead = doc_text(controller, "serving_instead");
    char host[256] = "";

    if (version == NULL || strcmp(version, PACKAGE_VERSION) != 0)
        doctor_say(d, DOCTOR_WARNING, "controller",
                   "install the same release of adloader on all hosts",
                   "%s is version %s, and this host has " PACKAGE_VERSION, shown,
                   version != NULL ? version : "unknown");
    else
        doctor_say(d, DOCTOR_OK, "controller", "", "%s answers, version %s%s%s", shown, version,
                   instead != NULL ? ", and stands by for " : "", instead != NULL ? instead : "");
    if ((d->roles & DOCTOR_NODE) == 0 || gethostname(host, sizeof(host) - 1) < 0)
        return;
    host[strcspn(host, ".")] = '\0';
    if (is_flat(doc_member(document, "nodes"), host))
        doctor_say(
            d, DOCTOR_WARNING, "topology", "restart slurmd here, or run adloader topology --export",
            "the controller knows no topology of %s: it takes all cores there for equal", host);
}

static void ask(struct doctor *d, const struct client_address *address)
{
    const struct status_filter all = {NULL, NULL};
    char error[1024];
    json_object *document = status_fetch(address, &all, error, sizeof(error));

    if (document != NULL)
        look_at_answer(d, address->shown, document);
    else if (strstr(error, "xpired") != NULL || strstr(error, "ewound") != NULL)
        doctor_say(d, DOCTOR_PROBLEM, "controller", "set the clocks of both hosts (chrony, ntp)",
                   "%s", error);
    else if (d->args.ncontrollers > 1)
        doctor_say(d, DOCTOR_WARNING, "controller",
                   "start adloaderctld there, if it is not meant to be the one in reserve", "%s",
                   error);
    else
        doctor_say(d, DOCTOR_PROBLEM, "controller",
                   "start adloaderctld there, or correct controller=", "%s", error);
    json_object_put(document);
}

static void check_address(struct doctor *d, const char *text, const char *munge_socket)
{
    struct client_address address;
    char error[1024];

    if (client_address_parse(text, &address, error, sizeof(error)) < 0) {
        doctor_say(d, DOCTOR_PROBLEM, "controller", "", "%s", error);
        return;
    }
    (void)snprintf(address.munge_socket, sizeof(address.munge_socket), "%s", munge_socket);
    ask(d, &address);
}

#define LIST_SIZE 2048

/* What controller= of the plugin's line says, as it is written. */
static void list_of_agents(const struct doctor *d, char *list, size_t size)
{
    char name[ARGS_TEXT_MAX + 16];
    size_t used = 0;

    for (unsigned i = 0; i < d->args.ncontrollers && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s", i > 0 ? "," : "",
                                 args_endpoint_name(&d->args.controllers[i], name, sizeof(name)));
}

static void list_of_controllers(const struct doctor *d, char *list, size_t size)
{
    struct conf_address addresses[CONF_CONTROLLERS_MAX];
    char name[CONF_HOST_MAX + 16];
    int n = conf_controllers(d->conf, addresses);
    size_t used = 0;

    list[0] = '\0';
    for (int i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(list + used, size - used, "%s%s", i > 0 ? "," : "",
                                 conf_address_text(&addresses[i], name, sizeof(name)));
}

/* Agents and controllers have to go by the same list, or two of them serve at once. */
static void check_list(struct doctor *d)
{
    char agents[LIST_SIZE] = "", controllers[LIST_SIZE] = "";

    if (d->conf == NULL || d->line.lines == 0)
        return;
    list_of_agents(d, agents, sizeof(agents));
    list_of_controllers(d, controllers, sizeof(controllers));
    if (strcmp(agents, controllers) == 0)
        doctor_say(d, DOCTOR_OK, "controllers", "",
                   "controller= and Controllers are the same list: %s", agents);
    else if (d->args.ncontrollers > 1 || controllers[0] != '\0')
        doctor_say(d, DOCTOR_WARNING, "controllers",
                   "write the same list into both, in the same order",
                   "plugstack.conf has controller=%s, and adloader.conf Controllers=%s", agents,
                   controllers);
}

static void miss_munge(struct doctor *d, const char *shown)
{
    doctor_say(d, DOCTOR_WARNING, "controller", "mend munge first",
               "%s was not asked, for lack of a credential", shown);
}

/* That of the plugin's line: whether it is this one, too. */
static bool check_agents(struct doctor *d, bool munge, const char *this_one)
{
    char text[512];
    bool is_there = false;

    for (unsigned i = 0; d->line.lines > 0 && i < d->args.ncontrollers; i++) {
        const struct endpoint *e = &d->args.controllers[i];

        (void)args_endpoint_name(e, text, sizeof(text));
        if (e->local || munge)
            check_address(d, text, d->args.munge_socket);
        else
            miss_munge(d, text);
        is_there = is_there || strcmp(text, this_one) == 0 ||
                   (e->local && strcmp(e->path, this_one) == 0); /* "unix:" may be left out */
    }
    return is_there;
}

/* Those that the tool is told to ask instead of its configuration's. */
static void check_named(struct doctor *d, bool munge, const char *from, const char *named)
{
    struct client_address address;
    int status;

    if (has_remote(named) && !munge)
        miss_munge(d, named);
    else if (client_address(d->cli, &address, &status) < 0) /* which says why */
        doctor_say(d, DOCTOR_PROBLEM, "controller", "give unix:/path or host:port",
                   "%s %s cannot be used", from, named);
    else
        ask(d, &address);
}

/* The agents' controllers, and the one that the tool itself would ask. */
void doctor_check_contact(struct doctor *d)
{
    const char *from, *named = client_named(d->cli, &from);
    const char *own = named != NULL ? named : d->conf != NULL ? d->conf->socket : "";
    bool munge = check_munge(d);
    char text[512];

    check_list(d);
    if (check_agents(d, munge, own))
        return;
    if (named != NULL) {
        check_named(d, munge, from, named);
    } else if (d->conf != NULL) {
        (void)snprintf(text, sizeof(text), "unix:%s", d->conf->socket);
        check_address(d, text, "");
    }
}
