/* Is it this host? See hostaddr.h. */
#include "config.h"

#include "hostaddr.h"

#include "netaddr.h"

#include <errno.h>
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

/* Can it be one host's by its form? A name's may be any. */
static bool is_one_hosts(const struct addrinfo *address)
{
    char text[NETADDR_HOST_MAX];

    return getnameinfo(address->ai_addr, address->ai_addrlen, text, sizeof(text), NULL, 0,
                       NI_NUMERICHOST) == 0 &&
           netaddr_host(text, strlen(text));
}

/* A subnet's broadcast address can be bound to, and spoken to by who asked for that. */
static bool is_broadcast(int fd, const struct sockaddr *address, socklen_t length)
{
    return connect(fd, address, length) < 0 && errno == EACCES;
}

/* Can a socket be bound to it, and is it no other's as well? */
bool hostaddr_is_ours(const struct addrinfo *address)
{
    struct sockaddr_storage any_port;
    bool ours;
    int fd;

    if (!is_one_hosts(address))
        return false;
    fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    memcpy(&any_port, address->ai_addr, address->ai_addrlen);
    if (address->ai_family == AF_INET)
        ((struct sockaddr_in *)&any_port)->sin_port = 0;
    else if (address->ai_family == AF_INET6)
        ((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
    ours = bind(fd, (const struct sockaddr *)&any_port, address->ai_addrlen) == 0 &&
           !is_broadcast(fd, (const struct sockaddr *)&any_port, address->ai_addrlen);
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
