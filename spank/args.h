/*
 * The words after the plugin's path in plugstack.conf: where the controller is and what the site's
 * defaults are.
 *
 *     optional spank_adloader.so controller=unix:/run/adloader/ctld.sock rundir=/run/adloader
 */
#ifndef ADLOADER_ARGS_H
#define ADLOADER_ARGS_H

#include "log.h"

#include <stdbool.h>
#include <stddef.h>

#define ARGS_ENDPOINTS_MAX 4
#define ARGS_TEXT_MAX      256

struct endpoint {
    bool local;               /* a Unix socket at path; else TCP to host and port */
    char path[ARGS_TEXT_MAX]; /* or the host's name or address */
    char port[8];
};

struct args {
    struct endpoint controllers[ARGS_ENDPOINTS_MAX]; /* controller=, tried in turn */
    unsigned ncontrollers;
    char rundir[ARGS_TEXT_MAX];       /* rundir=, client sockets and the exported topology */
    char munge_socket[ARGS_TEXT_MAX]; /* munge_socket=, "" libmunge's default */
    char topology[ARGS_TEXT_MAX];     /* topology=, the program that exports it, "none" */
    bool default_on;                  /* default=on|off, without option and environment */
    unsigned main_cores;              /* main_cores=, of a task; for ADLOADER_WORKERS only */
    enum log_level log_level;         /* log= */
};

/*
 * Fill args with the defaults and what argv says. Bad or unknown words are skipped; what is wrong
 * with the first of them is written to error. Returns 0, or -1 if there was one.
 */
int args_parse(struct args *args, int argc, char *const argv[], char *error, size_t error_size);

/* "unix:/path" or "HOST:PORT" ("[::1]:6830" too). 0, or -1. */
int args_parse_endpoint(const char *text, size_t length, struct endpoint *endpoint);

/* How it is written, for messages. */
const char *args_endpoint_name(const struct endpoint *endpoint, char *buf, size_t size);

#endif
