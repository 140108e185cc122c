/*
 * A node's machine as plain numbers, for placement: which PU belongs to which core, cache, NUMA
 * domain and package, and where the GPUs are. topo.c is the one file that speaks hwloc.
 *
 * Indexes (core, l3, numa, package) are dense, 0-based, of this machine; -1 means unknown, never 0.
 * All PUs of the machine are here, also those that the loading process may not use: what may be
 * used is the caller's to say (own CPUs of members, pools), since a daemon's cgroup is not a job's.
 */
#ifndef ADLOADER_TOPO_H
#define ADLOADER_TOPO_H

#include "cpus.h"

#include <stdbool.h>
#include <stddef.h>

struct topo_pu {
    unsigned os;                 /* the CPU's number */
    int core, l3, numa, package; /* -1 unknown */
    int sibling;                 /* 0 for the first PU of its core, 1, 2.. for its SMT siblings */
    double speed; /* 1 = the fastest kind of core of this machine; hybrid machines have less */
};

struct topo_gpu {
    char pci[16];      /* "0000:07:00.0", lower case */
    char name[64];     /* the OS device's or vendor's name, "" unknown */
    struct cpus local; /* PUs local to it; empty: unknown */
    int numa;          /* -1 unknown */
};

struct topo {
    size_t npus;
    struct topo_pu *pus; /* ascending by os */
    unsigned ncores, nl3, nnuma, npackages;
    double *numa_distance; /* nnuma x nnuma, 10 = local; NULL unknown */
    size_t ngpus;
    struct topo_gpu *gpus; /* ascending by pci */
    bool hybrid;           /* speeds differ */
};

/* Build from exported XML (not NUL-terminated), an hwloc synthetic description ("pack:2 core:4
 * pu:2"), this machine, or, with nothing known, a flat set of CPUs where each is a core. NULL with
 * a sentence in error on bad input. The caller frees. */
struct topo *topo_from_xml(const char *xml, size_t length, char *error, size_t error_size);
struct topo *topo_from_xml_file(const char *path, char *error, size_t error_size);
struct topo *topo_from_synthetic(const char *text, char *error, size_t error_size);
struct topo *topo_from_this_machine(char *error, size_t error_size);
struct topo *topo_flat(const struct cpus *cpus);
void topo_free(struct topo *topo);

/* The PU with that OS number, or NULL. */
const struct topo_pu *topo_pu(const struct topo *topo, unsigned os);

/* The GPU that a step names: PCI id in any usual spelling ("00000000:07:00.0", "0000:07:00.0",
 * "07:00.0"), or NULL. UUIDs and indexes are resolved on the node, not here. */
const struct topo_gpu *topo_gpu(const struct topo *topo, const char *name);

/* Write this machine's topology as XML to a new string (free with free()), with its digest: hex of
 * a 128-bit content hash, a cache key between parties that trust each other. */
char *topo_export_this_machine(size_t *length, char *error, size_t error_size);
#define TOPO_DIGEST_MAX 65
void topo_digest(const char *xml, size_t length, char digest[TOPO_DIGEST_MAX]);

#endif
