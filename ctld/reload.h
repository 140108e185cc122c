/* SIGHUP: read the configuration again and keep all connections. */
#ifndef ADLOADER_RELOAD_H
#define ADLOADER_RELOAD_H

#include "conf.h"

struct ctld;

/* Log target, level and the user behind SlurmUser, from the configuration in force; warnings. */
void reload_apply(struct ctld *ctld, bool foreground);

/* Replace the configuration. A bad file is refused with its complaints; the old one stays. */
void reload_conf(struct ctld *ctld);

#endif
