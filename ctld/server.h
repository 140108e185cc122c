/*
 * Where connections come from: the Unix socket (anybody may connect; the kernel says who it is) and
 * TCP (a munge credential says it).
 */
#ifndef ADLOADER_SERVER_H
#define ADLOADER_SERVER_H

#include "session.h"

#include <stddef.h>
#include <sys/types.h>

struct ctld;
struct evconnlistener;
struct event;

struct server {
    struct session_list hello, agents, closing, dead;
    size_t nsessions, nagents;
    struct event *reap; /* frees the dead */
    struct evconnlistener *unix_listener;
    struct evconnlistener **tcp_listeners;
    size_t ntcp_listeners;
    struct event *resume;   /* listening again after descriptors ran out */
    uint64_t complained_ms; /* when the last complaint about that was logged; 0 never */
    char *path;             /* of the Unix socket */
    dev_t device;           /* and which file it is, to remove no other */
    ino_t inode;
};

/* Create sockets and listen. 0, or -1 with a sentence in error. */
int server_init(struct ctld *ctld, char *error, size_t error_size);

/* Stop listening, remove the socket, close all connections. */
void server_fini(struct ctld *ctld);

#endif
