/* Between topo.c, which speaks hwloc, topo_text.c, which judges text before hwloc sees it, and
 * topo_child.c, which keeps hwloc's accidents away from the program. */
#ifndef ADLOADER_TOPO_INTERNAL_H
#define ADLOADER_TOPO_INTERNAL_H

#include "topo.h"

#define TOPO_TEXT_MAX (16u * 1024u * 1024u) /* bytes of an XML or synthetic description */

/*
 * Is this text bounded in what it makes an XML reader do (size, depth, elements, entities, numbers
 * of PUs)? 0, or -1 with a sentence.
 */
int topo_xml_check(const char *xml, size_t length, char *error, size_t error_size);

/* The format version that the root element claims: "1" when there is none, "" when not found. */
void topo_xml_version(const char *xml, size_t length, char *version, size_t size);

/* Reads "[domain:]bus:dev.fn" in any usual spelling. 0, or -1. */
int topo_pci_parse(const char *name, unsigned pci[4]);
void topo_pci_format(const unsigned pci[4], char *buf, size_t size);

/* Makes a topology from text, in this process. */
typedef struct topo *topo_loader(const void *text, size_t length, char *error, size_t error_size);

/* topo_child.c: the same in a child process that may crash or hang without harm. */
struct topo *topo_in_child(topo_loader *load, const void *text, size_t length, char *error,
                           size_t error_size);

int topo_fail(char *error, size_t error_size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
