/*
 * From hwloc's tree to plain numbers: the one file that speaks hwloc.
 *
 * Everything is taken from a whole machine, also what the loading process may not use (a daemon's
 * cgroup says nothing about a job's). Nothing is ever restricted or bound, and no environment is
 * touched. NUMA domains are the normal objects that have memory attached, so that two kinds of
 * memory at one place count once and memory without CPUs not at all.
 */
#include "config.h"

#include "topo_internal.h"

#include <hwloc.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUS_MAX             65536
#define SYNTHETIC_PUS_MAX   8192 /* hwloc takes a time that grows with their square */
#define SYNTHETIC_BYTES_MAX 150  /* so that it fits into a message */

static void *fail(char *error, size_t size, const char *text)
{
    (void)topo_fail(error, size, "%s", text);
    return NULL;
}

static void *fail_memory(char *error, size_t size)
{
    (void)topo_fail(error, size, "out of memory");
    errno = ENOMEM;
    return NULL;
}

/* ---- loading ------------------------------------------------------------------------------- */

/*
 * Components that would bind this process to every CPU in turn (x86) or wake up GPU drivers. All
 * that is needed of GPUs is their place on PCI. A build without one of them refuses its name, which
 * is as good.
 */
static void without_side_effects(hwloc_topology_t topology)
{
    static const char *const names[] = {"x86", "cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                            names[i]);
}

static int prepare(hwloc_topology_t *topology, bool this_machine)
{
    unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;

#if HWLOC_API_VERSION >= 0x00020500
    flags |= HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
#endif
    if (hwloc_topology_init(topology) < 0)
        return -1;
    if (this_machine)
        without_side_effects(*topology);
    if (hwloc_topology_set_flags(*topology, flags) < 0 ||
        hwloc_topology_set_io_types_filter(*topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) < 0 ||
        hwloc_topology_set_type_filter(*topology, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE) <
            0) {
        hwloc_topology_destroy(*topology);
        return -1;
    }
    return 0;
}

/* ---- PUs ----------------------------------------------------------------------------------- */

static int ancestor_index(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t pu)
{
    hwloc_obj_t obj = hwloc_get_ancestor_obj_by_type(topology, type, pu);

    return obj != NULL ? (int)obj->logical_index : -1;
}

/* Does some memory attached to obj (perhaps behind a memory-side cache) belong to CPU os? */
static bool has_memory_for(hwloc_obj_t obj, unsigned os)
{
    for (hwloc_obj_t m = obj->memory_first_child; m != NULL; m = m->next_sibling)
        if (m->cpuset != NULL && hwloc_bitmap_isset(m->cpuset, os))
            return true;
    return false;
}

/* The nearest object with memory for that PU: its NUMA domain. */
static hwloc_obj_t domain_of(hwloc_obj_t pu)
{
    for (hwloc_obj_t obj = pu; obj != NULL; obj = obj->parent)
        if (has_memory_for(obj, pu->os_index))
            return obj;
    return NULL;
}

struct domains {
    hwloc_obj_t *at;
    unsigned n;
};

static int domain_index(struct domains *domains, hwloc_obj_t domain)
{
    if (domain == NULL)
        return -1;
    for (unsigned i = 0; i < domains->n; i++)
        if (domains->at[i] == domain)
            return (int)i;
    domains->at[domains->n] = domain;
    return (int)domains->n++;
}

static int compare_pu(const void *a, const void *b)
{
    unsigned x = ((const struct topo_pu *)a)->os, y = ((const struct topo_pu *)b)->os;

    return (x > y) - (x < y);
}

static void count_siblings(struct topo *topo)
{
    /* PUs are in hwloc's order here: those of a core stand together */
    for (size_t i = 1; i < topo->npus; i++)
        if (topo->pus[i].core >= 0 && topo->pus[i].core == topo->pus[i - 1].core)
            topo->pus[i].sibling = topo->pus[i - 1].sibling + 1;
}

static int take_pus(hwloc_topology_t topology, struct topo *topo, struct domains *domains)
{
    int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    hwloc_obj_t pu = NULL;

    if (n <= 0 || n > PUS_MAX)
        return -1;
    topo->pus = calloc((size_t)n, sizeof(*topo->pus));
    domains->at = calloc((size_t)n, sizeof(*domains->at));
    if (topo->pus == NULL || domains->at == NULL)
        return -1;
    while (topo->npus < (size_t)n &&
           (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != NULL) {
        if (pu->os_index >= CPUS_MAX)
            continue;
        topo->pus[topo->npus++] = (struct topo_pu){
            .os = pu->os_index,
            .core = ancestor_index(topology, HWLOC_OBJ_CORE, pu),
            .l3 = ancestor_index(topology, HWLOC_OBJ_L3CACHE, pu),
            .numa = domain_index(domains, domain_of(pu)),
            .package = ancestor_index(topology, HWLOC_OBJ_PACKAGE, pu),
            .sibling = 0,
            .speed = 1,
        };
    }
    count_siblings(topo);
    topo->ncores = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    topo->nl3 = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_L3CACHE);
    topo->npackages = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE);
    topo->nnuma = domains->n;
    return topo->npus > 0 ? 0 : -1;
}

/* ---- hybrid machines ----------------------------------------------------------------------- */

/*
 * The relative speed of a kind of core, in no particular unit; NAN unknown. The kernel's capacity
 * is measured work per second; failing that clock frequency, and for Intel's small cores, which
 * do about 60 % of a big one's work per clock and hardly differ in clock, that factor.
 */
#define ATOM_SPEED 0.6

static double info_number(const struct hwloc_info_s *infos, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(infos[i].name, name) == 0) {
            double v = strtod(infos[i].value, NULL);

            return isfinite(v) && v > 0 ? v : NAN;
        }
    return NAN;
}

static bool info_is(const struct hwloc_info_s *infos, unsigned n, const char *name,
                    const char *value)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(infos[i].name, name) == 0 && strcmp(infos[i].value, value) == 0)
            return true;
    return false;
}

struct kind {
    hwloc_bitmap_t cpuset;
    double capacity, clock;
    bool atom;
};

static int take_kind(hwloc_topology_t topology, unsigned index, struct kind *kind)
{
    struct hwloc_info_s *infos = NULL;
    unsigned ninfos = 0;
    int efficiency;

    kind->cpuset = hwloc_bitmap_alloc();
    if (kind->cpuset == NULL ||
        hwloc_cpukinds_get_info(topology, index, kind->cpuset, &efficiency, &ninfos, &infos, 0) < 0)
        return -1;
    kind->capacity = info_number(infos, ninfos, "LinuxCapacity");
    kind->clock = info_number(infos, ninfos, "FrequencyMaxMHz");
    kind->atom = info_is(infos, ninfos, "CoreType", "IntelAtom");
    return 0;
}

static void speeds_from_kinds(struct topo *topo, const struct kind *kinds, int nkinds)
{
    bool capacities = true, clocks = true;
    double fastest = 0;

    for (int k = 0; k < nkinds; k++) {
        capacities = capacities && !isnan(kinds[k].capacity);
        clocks = clocks && !isnan(kinds[k].clock);
    }
    for (size_t i = 0; i < topo->npus; i++) {
        struct topo_pu *pu = &topo->pus[i];

        for (int k = 0; k < nkinds; k++) {
            if (!hwloc_bitmap_isset(kinds[k].cpuset, pu->os))
                continue;
            pu->speed = capacities ? kinds[k].capacity : clocks ? kinds[k].clock : 1;
            if (!capacities && kinds[k].atom)
                pu->speed *= ATOM_SPEED;
            break;
        }
        fastest = fmax(fastest, pu->speed);
    }
    for (size_t i = 0; i < topo->npus; i++) {
        topo->pus[i].speed /= fastest;
        if (topo->pus[i].speed < 1)
            topo->hybrid = true;
    }
}

static int take_speeds(hwloc_topology_t topology, struct topo *topo)
{
    int nkinds = hwloc_cpukinds_get_nr(topology, 0), rc = 0;
    struct kind *kinds;

    if (nkinds <= 1)
        return 0;
    kinds = calloc((size_t)nkinds, sizeof(*kinds));
    if (kinds == NULL)
        return -1;
    for (int k = 0; rc == 0 && k < nkinds; k++)
        rc = take_kind(topology, (unsigned)k, &kinds[k]);
    if (rc == 0)
        speeds_from_kinds(topo, kinds, nkinds);
    for (int k = 0; k < nkinds; k++)
        hwloc_bitmap_free(kinds[k].cpuset);
    free(kinds);
    return rc;
}

/* ---- distances ----------------------------------------------------------------------------- */

/* The domain in which a NUMA node lies, or -1 (memory without CPUs). */
static int domain_of_node(const struct domains *domains, hwloc_obj_t node)
{
    for (hwloc_obj_t obj = node->parent; obj != NULL; obj = obj->parent)
        for (unsigned i = 0; i < domains->n; i++)
            if (domains->at[i] == obj)
                return (int)i;
    return -1;
}

/* Fill the matrix where both ends are known; the smallest value counts (two memories at a place).
 */
static void fill_distances(struct topo *topo, const struct domains *domains,
                           const struct hwloc_distances_s *d)
{
    for (unsigned i = 0; i < d->nbobjs; i++)
        for (unsigned j = 0; j < d->nbobjs; j++) {
            int a, b;
            double v = (double)d->values[(size_t)i * d->nbobjs + j], *at;

            if (d->objs[i] == NULL || d->objs[j] == NULL)
                continue;
            a = domain_of_node(domains, d->objs[i]);
            b = domain_of_node(domains, d->objs[j]);
            if (a < 0 || b < 0)
                continue;
            at = &topo->numa_distance[(size_t)a * topo->nnuma + (size_t)b];
            if (isnan(*at) || v < *at)
                *at = v;
        }
}

static int take_distances(hwloc_topology_t topology, struct topo *topo,
                          const struct domains *domains)
{
    struct hwloc_distances_s *d = NULL;
    unsigned n = 1;
    size_t cells = (size_t)topo->nnuma * topo->nnuma;

    if (topo->nnuma < 2 || cells > 1u << 20)
        return 0;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &n, &d,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) < 0 ||
        n == 0)
        return 0;
    topo->numa_distance = malloc(cells * sizeof(double));
    if (topo->numa_distance == NULL) {
        hwloc_distances_release(topology, d);
        return -1;
    }
    for (size_t i = 0; i < cells; i++)
        topo->numa_distance[i] = NAN;
    fill_distances(topo, domains, d);
    hwloc_distances_release(topology, d);
    for (size_t i = 0; i < cells; i++)
        if (isnan(topo->numa_distance[i])) {
            /* an incomplete matrix would favour what it happens to know */
            free(topo->numa_distance);
            topo->numa_distance = NULL;
            break;
        }
    return 0;
}

/* ---- GPUs ---------------------------------------------------------------------------------- */

/* A display, 3D or accelerator device of a vendor whose devices train. */
static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
    unsigned class = pci->class_id >> 8;

    return (pci->vendor_id == 0x10de || pci->vendor_id == 0x1002) &&
           (class == 0x03 || class == 0x12);
}

static void gpu_name(hwloc_obj_t pci, char *name, size_t size)
{
    const char *text = pci->name;

    for (hwloc_obj_t os = pci->io_first_child; os != NULL; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE && os->name != NULL &&
            (os->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC ||
             os->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU)) {
            text = os->name;
            break;
        }
    if (snprintf(name, size, "%s", text != NULL ? text : "") < 0)
        name[0] = '\0';
}

/*
 * PUs near the device. One that hangs at the root of a machine with several domains or packages
 * has no known place; where there is only one, it is near all.
 */
static int gpu_local(hwloc_topology_t topology, const struct topo *topo, hwloc_obj_t device,
                     struct topo_gpu *gpu)
{
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);

    gpu->numa = -1;
    if (near == NULL || near->cpuset == NULL)
        return 0;
    if (near->depth == 0 && (topo->nnuma > 1 || topo->npackages > 1))
        return 0;
    for (size_t i = 0; i < topo->npus; i++) {
        const struct topo_pu *pu = &topo->pus[i];

        if (!hwloc_bitmap_isset(near->cpuset, pu->os))
            continue;
        if (cpus_is_empty(&gpu->local))
            gpu->numa = pu->numa;
        else if (gpu->numa != pu->numa)
            gpu->numa = -1;
        if (cpus_set(&gpu->local, pu->os) < 0)
            return -1;
    }
    return 0;
}

static int compare_gpu(const void *a, const void *b)
{
    return strcmp(((const struct topo_gpu *)a)->pci, ((const struct topo_gpu *)b)->pci);
}

static int take_gpus(hwloc_topology_t topology, struct topo *topo)
{
    int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PCI_DEVICE);
    hwloc_obj_t device = NULL;

    if (n <= 0)
        return 0;
    topo->gpus = calloc((size_t)n, sizeof(*topo->gpus));
    if (topo->gpus == NULL)
        return -1;
    while (topo->ngpus < (size_t)n && (device = hwloc_get_next_pcidev(topology, device)) != NULL) {
        const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
        struct topo_gpu *gpu = &topo->gpus[topo->ngpus];

        if (!is_gpu(pci))
            continue;
        topo_pci_format((unsigned[4]){pci->domain, pci->bus, pci->dev, pci->func}, gpu->pci,
                        sizeof(gpu->pci));
        gpu_name(device, gpu->name, sizeof(gpu->name));
        topo->ngpus++;
        if (gpu_local(topology, topo, device, gpu) < 0)
            return -1;
    }
    qsort(topo->gpus, topo->ngpus, sizeof(*topo->gpus), compare_gpu);
    return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static struct topo *convert(hwloc_topology_t topology, char *error, size_t error_size)
{
    struct topo *topo = calloc(1, sizeof(*topo));
    struct domains domains = {NULL, 0};
    int rc = topo == NULL ? -1 : take_pus(topology, topo, &domains);

    if (topo != NULL && topo->pus != NULL && rc < 0 && domains.at != NULL) {
        free(domains.at);
        topo_free(topo);
        return fail(error, error_size, "the topology has no CPU that can be named");
    }
    if (rc == 0)
        rc = take_speeds(topology, topo);
    if (rc == 0)
        rc = take_distances(topology, topo, &domains);
    if (rc == 0)
        rc = take_gpus(topology, topo);
    free(domains.at);
    if (rc < 0) {
        topo_free(topo);
        return fail_memory(error, error_size);
    }
    qsort(topo->pus, topo->npus, sizeof(*topo->pus), compare_pu);
    return topo;
}

static void explain_xml(const char *xml, size_t length, char *error, size_t size)
{
    char version[16];

    topo_xml_version(xml, length, version, sizeof(version));
    if (version[0] == '\0')
        (void)topo_fail(error, size, "topology XML: no topology inside");
    else if (strtod(version, NULL) >= 3)
        (void)topo_fail(error, size,
                        "topology XML: format %s is newer than this hwloc reads; export it with "
                        "\"lstopo --export-xml-flags v2\"",
                        version);
    else
        (void)topo_fail(error, size, "topology XML: hwloc cannot read it (format %s)", version);
}

static struct topo *load_xml(const void *xml, size_t length, char *error, size_t error_size)
{
    hwloc_topology_t topology;
    struct topo *topo = NULL;
    char *copy;

    if (length >= INT32_MAX || prepare(&topology, false) < 0)
        return fail_memory(error, error_size);
    /* hwloc counts a final NUL into the length */
    copy = malloc(length + 1);
    if (copy == NULL) {
        hwloc_topology_destroy(topology);
        return fail_memory(error, error_size);
    }
    memcpy(copy, xml, length);
    copy[length] = '\0';
    if (hwloc_topology_set_xmlbuffer(topology, copy, (int)length + 1) < 0 ||
        hwloc_topology_load(topology) < 0)
        explain_xml(xml, length, error, error_size);
    else
        topo = convert(topology, error, error_size);
    hwloc_topology_destroy(topology);
    free(copy);
    return topo;
}

struct topo *topo_from_xml(const char *xml, size_t length, char *error, size_t error_size)
{
    if (topo_xml_check(xml, length, error, error_size) < 0)
        return NULL;
    return topo_in_child(load_xml, xml, length, error, error_size);
}

static ssize_t read_bounded(int fd, char *buf, size_t size)
{
    size_t got = 0;

    while (got < size) {
        ssize_t n = read(fd, buf + got, size - got);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

struct topo *topo_from_xml_file(const char *path, char *error, size_t error_size)
{
    struct topo *topo = NULL;
    struct stat st;
    ssize_t n = -1;
    char *xml = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)topo_fail(error, error_size, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        (void)topo_fail(error, error_size, "%s: not a regular file", path);
    } else if (st.st_size > (off_t)TOPO_TEXT_MAX) {
        (void)topo_fail(error, error_size, "%s: %lld bytes, at most %u", path,
                        (long long)st.st_size, TOPO_TEXT_MAX);
    } else if ((xml = malloc((size_t)st.st_size + 1)) == NULL) {
        (void)fail_memory(error, error_size);
    } else if ((n = read_bounded(fd, xml, (size_t)st.st_size)) < 0) {
        (void)topo_fail(error, error_size, "%s: %s", path, strerror(errno));
    } else {
        topo = topo_from_xml(xml, (size_t)n, error, error_size);
    }
    free(xml);
    if (fd >= 0)
        (void)close(fd);
    return topo;
}

static struct topo *load_synthetic(const void *text, size_t length, char *error, size_t error_size)
{
    hwloc_topology_t topology;
    struct topo *topo = NULL;

    (void)length; /* the text is terminated */
    if (prepare(&topology, false) < 0)
        return fail_memory(error, error_size);
    if (hwloc_topology_set_synthetic(topology, text) < 0 || hwloc_topology_load(topology) < 0)
        (void)topo_fail(error, error_size,
                        "synthetic topology \"%s\": hwloc cannot read it; "
                        "an example is \"pack:2 core:14 pu:2\"",
                        (const char *)text);
    else
        topo = convert(topology, error, error_size);
    hwloc_topology_destroy(topology);
    return topo;
}

struct topo *topo_from_synthetic(const char *text, char *error, size_t error_size)
{
    double pus = 1;

    if (text == NULL || strlen(text) > SYNTHETIC_BYTES_MAX)
        return fail(error, error_size, "synthetic topology: text is missing or too long");
    for (const char *colon = text; (colon = strchr(colon, ':')) != NULL; colon++)
        pus *= fmax(1, strtod(colon + 1, NULL));
    if (!(pus <= SYNTHETIC_PUS_MAX)) {
        (void)topo_fail(error, error_size, "synthetic topology \"%s\": more than %d PUs", text,
                        SYNTHETIC_PUS_MAX);
        return NULL;
    }
    return topo_in_child(load_synthetic, text, strlen(text) + 1, error, error_size);
}

struct topo *topo_from_this_machine(char *error, size_t error_size)
{
    hwloc_topology_t topology;
    struct topo *topo;

    if (prepare(&topology, true) < 0)
        return fail_memory(error, error_size);
    if (hwloc_topology_load(topology) < 0) {
        hwloc_topology_destroy(topology);
        return fail(error, error_size, "hwloc cannot read this machine's topology");
    }
    topo = convert(topology, error, error_size);
    hwloc_topology_destroy(topology);
    return topo;
}

struct topo *topo_flat(const struct cpus *cpus)
{
    struct topo *topo = calloc(1, sizeof(*topo));

    if (topo == NULL)
        return NULL;
    topo->pus = calloc((size_t)cpus_count(cpus) + 1, sizeof(*topo->pus));
    if (topo->pus == NULL) {
        free(topo);
        return NULL;
    }
    for (long c = cpus_next(cpus, 0); c >= 0; c = cpus_next(cpus, (unsigned long)c + 1)) {
        topo->pus[topo->npus] = (struct topo_pu){.os = (unsigned)c,
                                                 .core = (int)topo->npus,
                                                 .l3 = -1,
                                                 .numa = -1,
                                                 .package = -1,
                                                 .speed = 1};
        topo->npus++;
    }
    topo->ncores = (unsigned)topo->npus;
    return topo;
}

void topo_free(struct topo *topo)
{
    if (topo == NULL)
        return;
    for (size_t i = 0; i < topo->ngpus; i++)
        cpus_free(&topo->gpus[i].local);
    free(topo->gpus);
    free(topo->pus);
    free(topo->numa_distance);
    free(topo);
}

const struct topo_pu *topo_pu(const struct topo *topo, unsigned os)
{
    const struct topo_pu key = {.os = os};

    if (topo->npus == 0)
        return NULL;
    return bsearch(&key, topo->pus, topo->npus, sizeof(*topo->pus), compare_pu);
}

const struct topo_gpu *topo_gpu(const struct topo *topo, const char *name)
{
    struct topo_gpu key;
    unsigned pci[4];

    if (topo->ngpus == 0 || topo_pci_parse(name, pci) < 0)
        return NULL;
    topo_pci_format(pci, key.pci, sizeof(key.pci));
    return bsearch(&key, topo->gpus, topo->ngpus, sizeof(*topo->gpus), compare_gpu);
}

char *topo_export_this_machine(size_t *length, char *error, size_t error_size)
{
    hwloc_topology_t topology;
    char *buffer = NULL, *copy = NULL;
    int n = 0;

    if (prepare(&topology, true) < 0)
        return fail_memory(error, error_size);
    if (hwloc_topology_load(topology) < 0 ||
        hwloc_topology_export_xmlbuffer(topology, &buffer, &n, 0) < 0) {
        hwloc_topology_destroy(topology);
        return fail(error, error_size, "hwloc cannot export this machine's topology");
    }
    /* n counts the final NUL */
    copy = n > 0 ? malloc((size_t)n) : NULL;
    if (copy != NULL) {
        memcpy(copy, buffer, (size_t)n);
        copy[n - 1] = '\0';
        *length = (size_t)n - 1;
    } else {
        (void)fail_memory(error, error_size);
    }
    hwloc_free_xmlbuffer(topology, buffer);
    hwloc_topology_destroy(topology);
    return copy;
}
