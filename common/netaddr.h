/*
 * Host names, addresses and ports as configuration files, plugstack.conf and command lines write
 * them. By their form alone: nothing is looked up.
 */
#ifndef ADLOADER_NETADDR_H
#define ADLOADER_NETADDR_H

#include <stdbool.h>
#include <stddef.h>

#define NETADDR_HOST_MAX 256 /* bytes of a host's name or address with its NUL */

/* Is text[0..length) a TCP port, 1 to 65535 in at most five digits? Then it is in *port. */
bool netaddr_port(const char *text, size_t length, unsigned *port);

/*
 * Can text[0..length) be a host: a name (labels of letters, digits, '-' and '_', parted by dots;
 * one dot may be at the end), an IPv4 address of four numbers, or an IPv6 address with or without a
 * zone ("fe80::1%eth0"), without brackets? Numbers and dots alone are no name (RFC 1123, 2.1), so
 * that "999.1.1.1" and "10.0.1" are nothing. A multicast address and 255.255.255.255 are not one
 * host's.
 */
bool netaddr_host(const char *text, size_t length);

/* "localhost", a name below it, 127.0.0.0/8 or ::1: what every host takes for itself. */
bool netaddr_is_loopback(const char *host);

#endif
