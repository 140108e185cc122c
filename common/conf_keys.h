/* The values behind the configuration file's keys: read from text and written as text. */
#ifndef ADLOADER_CONF_KEYS_H
#define ADLOADER_CONF_KEYS_H

#include "conf.h"

#include <stdio.h>

#define CONF_NODE_KEYS 3 /* entries of conf_node_keys() */

/*
 * Read text into the key's place in base (a struct conf or struct conf_node, zeroed or with an
 * earlier value, which is released). 0, or -1: EINVAL (see conf_key_allowed()) or ENOMEM.
 */
int conf_key_read(const struct conf_key *key, void *base, const char *text);

/* Read a comma list of controllers; port is that of those without one. How many, or -1. */
int conf_controllers_parse(const char *text, unsigned port,
                           struct conf_address list[CONF_CONTROLLERS_MAX]);

/* Write "Name=value" as conf_key_read() takes it back; -1 when out fails. */
int conf_key_print(const struct conf_key *key, const void *base, FILE *out);

/* Release what conf_key_read() took memory for. */
void conf_key_free(const struct conf_key *key, void *base);

#endif
