/*
 * Text about machines from outside: bounds on XML before a parser sees it, spellings of PCI ids,
 * and the content hash. The XML check is no parser; it only counts, and refuses what no exported
 * topology contains.
 */
#include "config.h"

#include "topo_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX    128u
#define ELEMENTS_MAX 1000000u
#define DOMAIN_MAX   0xfffffffUL /* as many digits as topo_gpu.pci holds */

int topo_fail(char *error, size_t error_size, const char *format, ...)
{
    va_list ap;

    if (error != NULL && error_size > 0) {
        va_start(ap, format);
        if (vsnprintf(error, error_size, format, ap) < 0)
            error[0] = '\0';
        va_end(ap);
    }
    errno = EINVAL;
    return -1;
}

static bool starts(const char *at, const char *end, const char *word)
{
    size_t n = strlen(word);

    return (size_t)(end - at) >= n && memcmp(at, word, n) == 0;
}

/* The end of a tag that begins at '<', quotes respected; NULL if there is none. */
static const char *tag_end(const char *at, const char *end)
{
    char quote = '\0';

    for (; at < end; at++) {
        if (quote != '\0')
            quote = *at == quote ? '\0' : quote;
        else if (*at == '"' || *at == '\'')
            quote = *at;
        else if (*at == '>')
            return at;
    }
    return NULL;
}

/* A number that a tag gives to an attribute is within limit, or the attribute is not there. */
static bool attribute_within(const char *tag, const char *end, const char *attribute, long limit)
{
    size_t n = strlen(attribute);

    for (const char *at = tag; at + n < end; at++) {
        char digits[24] = "";
        size_t length = 0;

        if (memcmp(at, attribute, n) != 0)
            continue;
        for (at += n; at < end && *at >= '0' && *at <= '9' && length < sizeof(digits) - 1; at++)
            digits[length++] = *at;
        if (length >= 12 || strtol(digits, NULL, 10) > limit)
            return false;
    }
    return true;
}

/* Sets are as large as the highest PU or NUMA node; numbers of other objects are but names. */
static long os_index_limit(const char *at, const char *end)
{
    static const char pu[] = "type=\"PU\"", node[] = "type=\"NUMANode\"";

    for (; at + sizeof(node) < end; at++)
        if (starts(at, end, pu) || starts(at, end, node))
            return CPUS_MAX - 1;
    return INT32_MAX;
}

static int check_tag(const char *at, const char *end, unsigned *depth, char *error, size_t size)
{
    if (starts(at, end, "<!ENTITY") ||
        (starts(at, end, "<!") && memchr(at, '[', (size_t)(end - at))))
        return topo_fail(error, size, "topology XML: entities and inner declarations are refused");
    if (starts(at, end, "<?") || starts(at, end, "<!"))
        return 0;
    if (starts(at, end, "</")) {
        if (*depth == 0)
            return topo_fail(error, size, "topology XML: a tag closes that never opened");
        (*depth)--;
        return 0;
    }
    if (!attribute_within(at, end, "os_index=\"", os_index_limit(at, end)))
        return topo_fail(error, size, "topology XML: an OS index out of bounds");
    if (end[-1] != '/' && ++*depth > DEPTH_MAX)
        return topo_fail(error, size, "topology XML: nested deeper than %u", DEPTH_MAX);
    return 0;
}

int topo_xml_check(const char *xml, size_t length, char *error, size_t error_size)
{
    const char *end, *at = xml;
    unsigned depth = 0, elements = 0;

    if (xml == NULL || length == 0)
        return topo_fail(error, error_size, "topology XML: empty");
    if (length > TOPO_TEXT_MAX)
        return topo_fail(error, error_size, "topology XML: %zu bytes, at most %u", length,
                         TOPO_TEXT_MAX);
    if (memchr(xml, '\0', length) != NULL)
        return topo_fail(error, error_size, "topology XML: a NUL byte inside");
    end = xml + length;
    while ((at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        const char *close = tag_end(at, end);

        if (close == NULL)
            return topo_fail(error, error_size, "topology XML: cut off inside a tag");
        if (++elements > ELEMENTS_MAX)
            return topo_fail(error, error_size, "topology XML: more than %u tags", ELEMENTS_MAX);
        if (check_tag(at, close, &depth, error, error_size) < 0)
            return -1;
        at = close;
    }
    if (elements == 0)
        return topo_fail(error, error_size, "topology XML: not XML");
    if (depth != 0)
        return topo_fail(error, error_size, "topology XML: cut off, %u tags stay open", depth);
    return 0;
}

void topo_xml_version(const char *xml, size_t length, char *version, size_t size)
{
    static const char root[] = "<topology", key[] = "version=\"";
    const char *end = xml + length;

    version[0] = '\0';
    for (const char *at = xml; (at = memchr(at, '<', (size_t)(end - at))) != NULL; at++) {
        const char *close, *v;
        size_t n = 0;

        if (!starts(at, end, root))
            continue;
        close = tag_end(at, end);
        (void)snprintf(version, size, "1");
        for (v = at; close != NULL && v + sizeof(key) - 1 < close; v++)
            if (memcmp(v, key, sizeof(key) - 1) == 0)
                break;
        if (close == NULL || v + sizeof(key) - 1 >= close)
            return;
        for (v += sizeof(key) - 1;
             v < close && (isdigit((unsigned char)*v) || *v == '.') && n + 1 < size; v++)
            version[n++] = *v;
        version[n] = '\0';
        return;
    }
}

/* One hexadecimal number of at most max, and the character after it. */
static int hex_part(const char **at, char stop, unsigned long max, unsigned *value)
{
    char *end;
    unsigned long v;

    if (!isxdigit((unsigned char)**at))
        return -1;
    errno = 0;
    v = strtoul(*at, &end, 16);
    if (errno != 0 || v > max || *end != stop)
        return -1;
    *value = (unsigned)v;
    *at = end + (stop != '\0');
    return 0;
}

int topo_pci_parse(const char *name, unsigned pci[4])
{
    const char *at = name, *colon;

    if (name == NULL || (colon = strchr(name, ':')) == NULL)
        return -1;
    pci[0] = 0;
    if (strchr(colon + 1, ':') != NULL && hex_part(&at, ':', DOMAIN_MAX, &pci[0]) < 0)
        return -1;
    if (hex_part(&at, ':', 0xff, &pci[1]) < 0)
        return -1;
    if (strchr(at, '.') == NULL) {
        pci[3] = 0;
        return hex_part(&at, '\0', 0x1f, &pci[2]);
    }
    if (hex_part(&at, '.', 0x1f, &pci[2]) < 0)
        return -1;
    return hex_part(&at, '\0', 7, &pci[3]);
}

void topo_pci_format(const unsigned pci[4], char *buf, size_t size)
{
    if (snprintf(buf, size, "%04x:%02x:%02x.%x", pci[0], pci[1], pci[2], pci[3]) < 0)
        buf[0] = '\0';
}

/*
 * FNV-1a with 128 bits (parameters: draft-eastlake-fnv). Not cryptographic: it tells machines
 * apart, it does not resist a forger.
 */
void topo_digest(const char *xml, size_t length, char digest[TOPO_DIGEST_MAX])
{
    __extension__ typedef unsigned __int128 u128;
    const u128 prime = ((u128)1 << 88) + 0x13b;
    u128 hash = ((u128)0x6c62272e07bb0142ULL << 64) | 0x62b821756295c58dULL;

    for (size_t i = 0; i < length; i++) {
        hash ^= (unsigned char)xml[i];
        hash *= prime;
    }
    if (snprintf(digest, TOPO_DIGEST_MAX, "%016llx%016llx", (unsigned long long)(hash >> 64),
                 (unsigned long long)hash) < 0)
        digest[0] = '\0';
}
