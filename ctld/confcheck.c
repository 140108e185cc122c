/* What a configuration needs of this host and of others. See confcheck.h. */
#include "config.h"

#include "confcheck.h"

#include "daemon.h"
#include "hostaddr.h"
#include "netaddr.h"

#include <errno.h>
#include <limits.h>
#include <munge.h>
#include <netdb.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(confcheck_warn *warn, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(confcheck_warn *warn, const char *format, ...)
{
    char sentence[PATH_MAX + 512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    warn(sentence);
}

static bool has_tcp(const struct conf *conf)
{
    return strcmp(conf->listen_address, "none") != 0;
}

/* ---- PidFile and ControllerSocket ---------------------------------------------------------- */

#define WHERE_MAX (PATH_MAX + 16)

/* Whoever may not look there is not the one to start it. */
static int refuse_socket(const struct conf *conf, char *error, size_t error_size)
{
    char where[WHERE_MAX];
    struct stat st;

    if (lstat(conf->socket, &st) < 0 || S_ISSOCK(st.st_mode))
        return 0;
    (void)snprintf(error, error_size,
                   "%sControllerSocket=%s is %s; name another path, or remove what is there",
                   conf_where(conf, "ControllerSocket", where, sizeof(where)), conf->socket,
                   S_ISDIR(st.st_mode) ? "a folder" : "no socket");
    return -1;
}

static int refuse_pid_file(const struct conf *conf, char *error, size_t error_size)
{
    char where[WHERE_MAX];
    const char *trouble = conf->pid_file[0] != '\0' ? daemon_no_pid_file(conf->pid_file) : NULL;

    if (trouble == NULL)
        return 0;
    (void)snprintf(error, error_size, "%sPidFile=%s %s; name another path, or remove what is there",
                   conf_where(conf, "PidFile", where, sizeof(where)), conf->pid_file, trouble);
    return -1;
}

int confcheck_paths(const struct conf *conf, char *error, size_t error_size)
{
    return refuse_socket(conf, error, error_size) < 0 ||
                   refuse_pid_file(conf, error, error_size) < 0
               ? -1
               : 0;
}

/* ---- ListenAddress ------------------------------------------------------------------------- */

int confcheck_listen(const struct conf *conf, char *error, size_t error_size)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    const char *where = conf->listen_address;
    char line[WHERE_MAX];
    bool ours = false;
    int rc;

    if (!has_tcp(conf) || where[0] == '\0')
        return 0;
    (void)conf_where(conf, "ListenAddress", line, sizeof(line));
    rc = getaddrinfo(where, NULL, &hints, &list);
    if (rc != 0) {
        (void)snprintf(error, error_size,
                       "%sListenAddress=%s is not to be found: %s; give an address of this host, "
                       "leave it empty for all of them, or none for no TCP",
                       line, where, gai_strerror(rc));
        return -1;
    }
    for (const struct addrinfo *a = list; a != NULL && !ours; a = a->ai_next)
        ours = hostaddr_is_ours(a);
    freeaddrinfo(list);
    if (ours)
        return 0;
    (void)snprintf(error, error_size,
                   "%sListenAddress=%s is no address of this host; leave it empty for all of them, "
                   "or none for no TCP",
                   line, where);
    return -1;
}

/* ---- Controllers --------------------------------------------------------------------------- */

static void suspect_controllers(const struct conf *conf, const struct role_self *self,
                                confcheck_warn *warn)
{
    struct conf_address list[CONF_CONTROLLERS_MAX];
    int n = conf_controllers(conf, list);
    bool all_local = true;

    if (n < 2)
        return; /* one alone is found by whoever is on its host */
    for (int i = 0; i < n; i++)
        if (netaddr_is_loopback(list[i].host))
            say(warn,
                "Controllers lists %s, which every host takes for itself: that works only while "
                "all controllers are on one host",
                list[i].host);
        else
            all_local = false;
    if (!all_local && netaddr_is_loopback(conf->listen_address))
        say(warn, "ListenAddress=%s: the other controllers cannot reach %s there",
            conf->listen_address, self->address);
}

/* ---- munge --------------------------------------------------------------------------------- */

/* Where libmunge would look; the caller frees it. NULL: it does not say. */
static char *default_munge_socket(void)
{
    munge_ctx_t context = munge_ctx_create();
    char *socket = NULL, *copy = NULL;

    if (context == NULL)
        return NULL;
    if (munge_ctx_get(context, MUNGE_OPT_SOCKET, &socket) == EMUNGE_SUCCESS && socket != NULL)
        copy = strdup(socket);
    munge_ctx_destroy(context);
    return copy;
}

/* It may come later, with munged; so nothing is refused. */
static void suspect_munge(const struct conf *conf, confcheck_warn *warn)
{
    bool said = conf->munge_socket[0] != '\0';
    char *socket = said            ? strdup(conf->munge_socket)
                   : has_tcp(conf) ? default_munge_socket()
                                   : NULL;
    struct stat st;

    if (socket == NULL)
        return;
    if (stat(socket, &st) < 0)
        say(warn,
            "%s%s: %s; agents and tools of other hosts are not admitted until munged listens "
            "there",
            said ? "MungeSocket=" : "munge's socket ", socket, strerror(errno));
    else if (!S_ISSOCK(st.st_mode))
        say(warn,
            "%s%s is no socket; agents and tools of other hosts are not admitted until "
            "munged listens there",
            said ? "MungeSocket=" : "munge's socket ", socket);
    free(socket);
}

void confcheck_suspect(const struct conf *conf, const struct role_self *self, confcheck_warn *warn)
{
    suspect_controllers(conf, self, warn);
    suspect_munge(conf, warn);
}

/* ---- what the start would say itself ------------------------------------------------------- */

/* The folder in which key's path is to be made. The default one comes with the service. */
static void miss_folder(const char *key, const char *path, confcheck_warn *warn)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == NULL ? NULL : strndup(path, slash > path ? (size_t)(slash - path) : 1);
    struct stat st;

    if (folder != NULL && strcmp(folder, CONF_DEFAULT_RUNDIR) != 0) {
        if (stat(folder, &st) < 0)
            say(warn, "%s=%s: its folder %s: %s", key, path, folder, strerror(errno));
        else if (!S_ISDIR(st.st_mode))
            say(warn, "%s=%s: %s is no folder", key, path, folder);
    }
    free(folder);
}

/* The start makes StateDir, but not what is above it. */
static void miss_state_dir(const char *path, confcheck_warn *warn)
{
    struct stat st;

    if (stat(path, &st) == 0) {
        if (!S_ISDIR(st.st_mode))
            say(warn, "StateDir=%s is no folder", path);
    } else if (errno == ENOENT) {
        miss_folder("StateDir", path, warn);
    } else {
        say(warn, "StateDir=%s: %s", path, strerror(errno));
    }
}

uid_t confcheck_user(const struct conf *conf, confcheck_warn *warn)
{
    struct passwd entry, *found = NULL;
    char buffer[4096];

    if (conf->slurm_user[0] == '\0')
        return (uid_t)-1;
    if (getpwnam_r(conf->slurm_user, &entry, buffer, sizeof(buffer), &found) == 0 && found != NULL)
        return entry.pw_uid;
    say(warn, "SlurmUser=%s is not known on this host: only root's agents are admitted",
        conf->slurm_user);
    return (uid_t)-1;
}

void confcheck_missing(const struct conf *conf, confcheck_warn *warn)
{
    miss_folder("ControllerSocket", conf->socket, warn);
    if (conf->pid_file[0] != '\0')
        miss_folder("PidFile", conf->pid_file, warn);
    miss_state_dir(conf->state_dir, warn);
    (void)confcheck_user(conf, warn);
}
