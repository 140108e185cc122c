/* Host names, addresses and ports by their form. See netaddr.h. */
#include "netaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define LABEL_MAX 63u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter_or_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool netaddr_port(const char *text, size_t length, unsigned *port)
{
    unsigned value = 0;

    if (length == 0 || length > 5)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (!is_digit(text[i]))
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value < 1 || value > 65535)
        return false;
    *port = value;
    return true;
}

/* What stands behind '%': an interface's name or number. */
static bool is_zone(const char *text)
{
    size_t length = 0;

    for (; text[length] != '\0'; length++)
        if (!is_letter_or_digit(text[length]) && strchr("._-", text[length]) == NULL)
            return false;
    return length > 0;
}

static bool is_of_many_v4(uint32_t address)
{
    return IN_MULTICAST(address) || address == INADDR_BROADCAST;
}

static bool is_of_many_v6(const struct in6_addr *address)
{
    uint32_t v4;

    if (!IN6_IS_ADDR_V4MAPPED(address))
        return IN6_IS_ADDR_MULTICAST(address);
    memcpy(&v4, &address->s6_addr[12], sizeof(v4));
    return is_of_many_v4(ntohl(v4));
}

static bool is_ipv6(char *text)
{
    char *zone = strchr(text, '%');
    struct in6_addr address;

    if (zone != NULL) {
        *zone = '\0';
        if (!is_zone(zone + 1))
            return false;
    }
    return inet_pton(AF_INET6, text, &address) == 1 && !is_of_many_v6(&address);
}

static bool is_label(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!is_letter_or_digit(text[i]) && text[i] != '-' && text[i] != '_')
            return false;
    return length > 0 && length <= LABEL_MAX && text[0] != '-' && text[length - 1] != '-';
}

static bool is_name(const char *text)
{
    for (;;) {
        size_t length = strcspn(text, ".");

        if (!is_label(text, length))
            return false;
        text += length;
        if (*text == '\0' || *++text == '\0')
            return true;
    }
}

bool netaddr_host(const char *text, size_t length)
{
    char host[NETADDR_HOST_MAX];
    struct in_addr address;

    if (length == 0 || length >= sizeof(host) || memchr(text, '\0', length) != NULL)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    if (strchr(host, ':') != NULL)
        return is_ipv6(host);
    if (strspn(host, "0123456789.") == length)
        return inet_pton(AF_INET, host, &address) == 1 && !is_of_many_v4(ntohl(address.s_addr));
    return is_name(host);
}

bool netaddr_is_loopback(const char *host)
{
    static const char name[] = "localhost";
    size_t length = strlen(host), ours = sizeof(name) - 1;
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    if (length > ours && host[length - 1] == '.')
        length--;
    return length >= ours && strncasecmp(host + length - ours, name, ours) == 0 &&
           (length == ours || host[length - ours - 1] == '.');
}
