/*
 * Which of several controllers this one is, and whether it serves now. Controllers= of
 * adloader.conf lists them in order, the same on all hosts. The first is the primary and always
 * serves. Each other one looks a few times a second whether those before it live, by connecting and
 * waiting for the greeting that every connection gets. While one of them does, it stands by: it
 * answers questions and tells agents to go on looking. When all of them have said nothing for
 * TakeoverTime it serves, until one of them is back; then it sends its agents there with all that
 * it knows of them.
 *
 * Nothing depends on this for safety: two that serve at once, because they cannot see each other,
 * give no core twice (docs/failover.md). It only decides who is asked.
 */
#ifndef ADLOADER_ROLE_H
#define ADLOADER_ROLE_H

#include "conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctld;
struct role;

/* What the configuration says about this controller. */
struct role_self {
    unsigned index; /* in Controllers; 0 also where it is empty */
    unsigned count; /* of Controllers */
    unsigned port;  /* to listen on */
    char address[CONF_ADDRESS_TEXT];
};

/*
 * Find this host in Controllers: the entry that name says (HOST or HOST:PORT, --controller), or the
 * one whose host is this one; of several on this host, the one with ControllerPort. 0, or -1 with a
 * sentence in error.
 */
int role_find_self(const struct conf *conf, const char *name, struct role_self *self, char *error,
                   size_t error_size);

/* Begin to look for the others; before connections come. 0, or -1 with a sentence in error. */
int role_init(struct ctld *ctld, char *error, size_t error_size);
void role_fini(struct ctld *ctld);

bool role_serves(const struct ctld *ctld);

/* "only", "primary" or "backup". */
const char *role_name(const struct ctld *ctld);

/* Who is asked instead of us, "" nobody. */
const char *role_instead(const struct ctld *ctld);

/* Since the start. */
uint64_t role_takeovers(const struct ctld *ctld);

#endif
