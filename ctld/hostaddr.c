/* Is it this host? See hostaddr.h. */
#include "config.h"

#include "hostaddr.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static void first_label(const char *name, char *label, size_t size)
{
    (void)snprintf(label, size, "%.*s", (int)strcspn(name, "."), name);
}

/* By the kernel's name for this host. */
static bool is_our_name(const char *host)
{
    char full[256] = "", ours[256], theirs[256];

    if (gethostname(full, sizeof(full) - 1) < 0)
        return false;
    if (strcasecmp(full, host) == 0)
        return true;
    first_label(full, ours, sizeof(ours));
    first_label(host, theirs, sizeof(theirs));
    return strcasecmp(ours, theirs) == 0 &&
           (strchr(full, '.') == NULL || strchr(host, '.') == NULL);
}

/* Can a socket be bound to it? */
bool hostaddr_is_ours(const struct addrinfo *address)
{
    struct sockaddr_storage any_port;
    int fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ours;

    if (fd < 0)
        return false;
    memcpy(&any_port, address->ai_addr, address->ai_addrlen);
    if (address->ai_family == AF_INET)
        ((struct sockaddr_in *)&any_port)->sin_port = 0;
    else if (address->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
    ours = bind(fd, (const struct sockaddr *)&any_port, address->ai_addrlen) == 0;
    (void)close(fd);
    return ours;
}

bool hostaddr_is_this_host(const char *host)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *list = NULL;
    bool ours = is_our_name(host);

    if (ours || getaddrinfo(host, NULL, &hints, &list) != 0)
        return ours;
    for (const struct addrinfo *a = list; a != NULL && !ours; a = a->ai_next)
        ours = hostaddr_is_ours(a);
    freeaddrinfo(list);
    return ours;
}
