/* The plugin's words in plugstack.conf: see args.h. */
#include "config.h"

#include "args.h"

#include "netaddr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_SOCKET ADL_RUNDIR "/ctld.sock"
#define MAIN_CORES_MAX 1024

static int copy_text(char *to, size_t size, const char *from, size_t length)
{
    if (length == 0 || length >= size)
        return -1;
    memcpy(to, from, length);
    to[length] = '\0';
    return 0;
}

int args_parse_endpoint(const char *text, size_t length, struct endpoint *e)
{
    static const char unix_prefix[] = "unix:";
    const size_t prefix = sizeof unix_prefix - 1;
    memset(e, 0, sizeof *e);
    if (length > prefix && strncmp(text, unix_prefix, prefix) == 0) {
        e->local = true;
        /* a longer path does not fit into a socket's address */
        if (text[prefix] != '/' || length - prefix >= sizeof((struct sockaddr_un *)0)->sun_path)
            return -1;
        return copy_text(e->path, sizeof e->path, text + prefix, length - prefix);
    }
    const char *colon = memrchr(text, ':', length);
    if (colon == NULL)
        return -1;
    size_t host = (size_t)(colon - text), port = length - host - 1;
    unsigned number;
    if (!netaddr_port(colon + 1, port, &number) ||
        copy_text(e->port, sizeof e->port, colon + 1, port) < 0)
        return -1;
    bool brackets = host > 2 && text[0] == '[' && text[host - 1] == ']';
    if (brackets) {
        text++;
        host -= 2;
    }
    /* an IPv6 address without brackets is ambiguous */
    if (!netaddr_host(text, host) || brackets != (memchr(text, ':', host) != NULL))
        return -1;
    return copy_text(e->path, sizeof e->path, text, host);
}

const char *args_endpoint_name(const struct endpoint *e, char *buf, size_t size)
{
    if (e->local)
        snprintf(buf, size, "unix:%s", e->path);
    else
        snprintf(buf, size, strchr(e->path, ':') != NULL ? "[%s]:%s" : "%s:%s", e->path, e->port);
    return buf;
}

/* ---- one reader a word: 0, or -1 ---- */

static int read_controllers(struct args *args, const char *value)
{
    struct endpoint list[ARGS_ENDPOINTS_MAX];
    unsigned n = 0;
    for (const char *p = value;; p++) {
        size_t length = strcspn(p, ",");
        if (n == ARGS_ENDPOINTS_MAX || args_parse_endpoint(p, length, &list[n++]) < 0)
            return -1;
        p += length;
        if (*p == '\0')
            break;
    }
    memcpy(args->controllers, list, sizeof list[0] * n);
    args->ncontrollers = n;
    return 0;
}

static int read_path(char *to, const char *value)
{
    return value[0] == '/' ? copy_text(to, ARGS_TEXT_MAX, value, strlen(value)) : -1;
}

static int read_rundir(struct args *args, const char *value)
{
    return read_path(args->rundir, value);
}

static int read_munge_socket(struct args *args, const char *value)
{
    return read_path(args->munge_socket, value);
}

static int read_topology(struct args *args, const char *value)
{
    if (strcmp(value, "none") == 0)
        return copy_text(args->topology, sizeof args->topology, value, strlen(value));
    return read_path(args->topology, value);
}

static int read_default(struct args *args, const char *value)
{
    if (strcmp(value, "on") == 0)
        args->default_on = true;
    else if (strcmp(value, "off") == 0)
        args->default_on = false;
    else
        return -1;
    return 0;
}

static int read_main_cores(struct args *args, const char *value)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || n < 0 || n > MAIN_CORES_MAX)
        return -1;
    args->main_cores = (unsigned)n;
    return 0;
}

static int read_log(struct args *args, const char *value)
{
    int level = log_level_parse(value);
    if (level < 0)
        return -1;
    args->log_level = (enum log_level)level;
    return 0;
}

static const struct word {
    const char *key;
    int (*read)(struct args *args, const char *value);
    const char *allowed;
} words[] = {
    {"controller", read_controllers, "unix:/PATH or HOST:PORT, at most 4, separated by commas"},
    {"rundir", read_rundir, "an absolute path"},
    {"munge_socket", read_munge_socket, "an absolute path"},
    {"topology", read_topology, "the absolute path of the adloader program, or none"},
    {"default", read_default, "on or off"},
    {"main_cores", read_main_cores, "a number from 0 to 1024"},
    {"log", read_log, "error, warning, info or debug"},
};

static const struct word *find_word(const char *text, const char **value)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].key);
        if (strncmp(text, words[i].key, length) == 0 && text[length] == '=') {
            *value = text + length + 1;
            return &words[i];
        }
    }
    return NULL;
}

static void set_defaults(struct args *args)
{
    memset(args, 0, sizeof *args);
    (void)read_controllers(args, "unix:" DEFAULT_SOCKET);
    (void)read_rundir(args, ADL_RUNDIR);
    (void)read_topology(args, ADL_BINDIR "/adloader");
    args->main_cores = 1;
    args->log_level = LOG_LEVEL_INFO;
}

int args_parse(struct args *args, int argc, char *const argv[], char *error, size_t error_size)
{
    int rc = 0;
    set_defaults(args);
    for (int i = 0; i < argc; i++) {
        const char *value = NULL;
        const struct word *word = find_word(argv[i], &value);
        if (word != NULL && word->read(args, value) == 0)
            continue;
        if (rc == 0 && word != NULL)
            snprintf(error, error_size, "plugstack.conf: \"%s\" is not understood: %s= takes %s",
                     argv[i], word->key, word->allowed);
        else if (rc == 0)
            snprintf(error, error_size,
                     "plugstack.conf: unknown word \"%s\"; known are controller=, rundir=, "
                     "munge_socket=, topology=, default=, main_cores=, log=",
                     argv[i]);
        rc = -1;
    }
    return rc;
}
