/*
 * What a configuration that is well formed needs of this host, and of the others that the same file
 * is for: what cannot work is refused before the start, what may not work as it is is warned of.
 */
#ifndef ADLOADER_CONFCHECK_H
#define ADLOADER_CONFCHECK_H

#include "conf.h"
#include "role.h"

#include <stddef.h>
#include <sys/types.h>

/* Can PidFile and ControllerSocket be made where they are to be? 0, or -1 with a sentence in error.
 */
int confcheck_paths(const struct conf *conf, char *error, size_t error_size);

/* Can this host listen on ListenAddress? 0, or -1 with a sentence in error. Looks names up. */
int confcheck_listen(const struct conf *conf, char *error, size_t error_size);

typedef void confcheck_warn(const char *sentence);

/* What is suspicious, at the start and whenever the configuration is read again. */
void confcheck_suspect(const struct conf *conf, const struct role_self *self, confcheck_warn *warn);

/* The user behind SlurmUser, or (uid_t)-1: none, which is warned of if one was meant. */
uid_t confcheck_user(const struct conf *conf, confcheck_warn *warn);

/* What the start itself would complain of, for those who only ask. */
void confcheck_missing(const struct conf *conf, confcheck_warn *warn);

#endif
