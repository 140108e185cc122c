/* Is it this host? Names and addresses against what the kernel and the resolver say of it. */
#ifndef ADLOADER_HOSTADDR_H
#define ADLOADER_HOSTADDR_H

#include <netdb.h>
#include <stdbool.h>

/* Is it one of this host's addresses? (Whatever its port.) */
bool hostaddr_is_ours(const struct addrinfo *address);

/* Is it this host's name, in full or up to the first dot of either, or one of its addresses? */
bool hostaddr_is_this_host(const char *host);

#endif
