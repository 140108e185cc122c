/*
 * Machines as plain numbers: all recorded topologies (where they are at hand), synthetic ones, this
 * machine, and XML that is broken, hostile or too new. hwloc's own messages must not reach stderr.
 */
#include "alloc_cases.h"
#include "shared.h"
#include "topo.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* What is true of each machine: by its vendor's data sheet, and by what its recording is known for.
 */
static const struct {
    const char *file;
    unsigned pus, cores, l3, numa, gpus, last_os;
    bool hybrid;
} machines[] = {
    {"mpibind-g4dnmetal", 96, 48, 2, 2, 8, 95, false},
    {"mpibind-epyc-corona", 96, 48, 16, 8, 4, 95, false},
    {"mpibind-epyc-corona-p2", 96, 48, 16, 2, 8, 95, false},
    {"mpibind-cts1-pascal", 72, 36, 2, 2, 2, 71, false},
    {"mpibind-arm64-ulna-hwloc1", 256, 64, 2, 2, 2, 255, false},    /* SMT4, hwloc 1 format */
    {"mpibind-knl-snc4-flat-hwloc1", 272, 68, 0, 4, 0, 271, false}, /* MCDRAM nodes have no CPU */
    {"hwloc-nvidiaDGX2", 4, 4, 2, 2, 16, 25, false},                /* a cgroup left 4 CPUs of 96 */
    {"hwloc-power8gpudistances", 16, 8, 8, 2, 4, 105, false},
    {"hwloc-32em64t-2n8c2t-1gpu", 32, 16, 2, 2, 4, 31, false},    /* three Teslas and a Radeon */
    {"hwloc-64intel64-disallowed16", 64, 64, 8, 8, 2, 63, false}, /* 48 of them not allowed */
    {"hwloc-192em64t-384pu", 384, 192, 24, 24, 0, 383, false},
    {"cpuid-AMD-19h-Zen4-2xEpyc-9654", 384, 192, 24, 1, 0, 383, false},
    {"cpuid-AMD-19h-Zen3-2xEpyc-7763", 128, 128, 16, 1, 0, 127, false},
    {"cpuid-Intel-SapphireRapids-2xXeonMax9460", 160, 80, 2, 1, 0, 159, false},
    {"cpuid-Intel-RaptorLake-Corei7-1370P", 20, 14, 1, 1, 0, 19, true},
    {"fsroot-nvidia-dgx-gb10", 20, 20, 2, 1, 0, 19, true},
    {"hwloc-fakecpukinds", 4, 2, 0, 1, 0, 3, true},
    {"fsroot-fakeheterocpunuma", 24, 12, 0, 3, 0, 23, true},
    {"hwloc-16em64t-offlines", 7, 6, 4, 1, 0, 15, false},
    {"hwloc-16amd64-cpusets", 10, 10, 0, 3, 0, 15, false},      /* two more nodes have no CPU */
    {"fsroot-32amd64-4s2n4c-cgroup2", 6, 6, 6, 2, 0, 5, false}, /* four more */
    {"fsroot-nvidiagpunumanodes", 32, 8, 4, 2, 0, 103, false},  /* PCI ids were not recorded */
    {"fsroot-128arm-2pa2n8cluster4co", 128, 128, 4, 4, 0, 127, false},
    {"fsroot-256ppc-8n8s4t", 256, 64, 64, 8, 0, 255, false},
    {"fsroot-2ps3-2t", 2, 1, 0, 1, 0, 1, false},
    {"fsroot-fakememinitiators-1np2c+1npp+gi", 8, 8, 0, 4, 0, 7, false},
    {"hwloc-KNL-SNC4-hybrid", 64, 16, 4, 4, 0, 63, false}, /* two memories a place count once */
    {"hwloc-96em64t-interleaved", 96, 96, 16, 4, 1, 95, false},
    {"hwloc-cascadelake-msc", 80, 40, 2, 4, 0, 79, false},   /* behind memory-side caches */
    {"hwloc-fakeheterodistances", 8, 0, 8, 8, 0, 42, false}, /* no cores at all */
    {"hwloc-manyVFs", 16, 16, 2, 2, 0, 15, false}, /* dozens of network functions are no GPUs */
};

static struct topo *load(const char *name)
{
    char path[512], error[256] = "";
    struct topo *topo;

    if (!shared_path(path, sizeof(path), "topologies/%s.xml", name))
        return NULL;
    topo = topo_from_xml_file(path, error, sizeof(error));
    if (topo == NULL)
        fail_msg("%s: %s", name, error);
    return topo;
}

static void check_numbers(const struct topo *topo)
{
    for (size_t i = 0; i < topo->npus; i++) {
        const struct topo_pu *pu = &topo->pus[i];

        assert_true(i == 0 || topo->pus[i - 1].os < pu->os);
        assert_true(pu->core >= -1 && pu->core < (int)topo->ncores);
        assert_true(pu->l3 >= -1 && pu->l3 < (int)topo->nl3);
        assert_true(pu->numa >= -1 && pu->numa < (int)topo->nnuma);
        assert_true(pu->package >= -1 && pu->package < (int)topo->npackages);
        assert_true(pu->speed > 0 && pu->speed <= 1);
        assert_ptr_equal(topo_pu(topo, pu->os), pu);
    }
    assert_null(topo_pu(topo, topo->pus[topo->npus - 1].os + 1));
    for (size_t g = 0; g < topo->ngpus; g++) {
        assert_true(g == 0 || strcmp(topo->gpus[g - 1].pci, topo->gpus[g].pci) < 0);
        assert_ptr_equal(topo_gpu(topo, topo->gpus[g].pci), &topo->gpus[g]);
    }
    if (topo->numa_distance != NULL)
        for (unsigned a = 0; a < topo->nnuma; a++)
            for (unsigned b = 0; b < topo->nnuma; b++)
                assert_true(topo->numa_distance[a * topo->nnuma + a] <=
                            topo->numa_distance[a * topo->nnuma + b]);
}

static void recorded_machines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
        struct topo *t = load(machines[i].file);

        if (t == NULL)
            skip();
        if (t->npus != machines[i].pus || t->ncores != machines[i].cores ||
            t->nl3 != machines[i].l3 || t->nnuma != machines[i].numa ||
            t->ngpus != machines[i].gpus || t->hybrid != machines[i].hybrid ||
            t->pus[t->npus - 1].os != machines[i].last_os)
            fail_msg("%s: %zu PUs to %u, %u cores, %u L3, %u NUMA, %zu GPUs, hybrid %d",
                     machines[i].file, t->npus, t->pus[t->npus - 1].os, t->ncores, t->nl3, t->nnuma,
                     t->ngpus, t->hybrid);
        check_numbers(t);
        topo_free(t);
    }
}

static void expect_cpus(const struct cpus *cpus, const char *want)
{
    char *text = cpus_to_string(cpus);

    assert_non_null(text);
    assert_string_equal(text, want);
    free(text);
}

/* GPU order is not core order, and both spellings of a PCI id name the same device. */
static void gpu_locality(void **state)
{
    static const struct {
        const char *file, *gpu, *local;
        int numa;
    } table[] = {
        {"mpibind-g4dnmetal", "0000:18:00.0", "0-23,48-71", 0},
        {"mpibind-g4dnmetal", "00000000:F5:00.0", "24-47,72-95", 1},
        {"mpibind-epyc-corona", "13:00.0", "6-11,54-59", 1},
        {"mpibind-cts1-pascal", "0000:04:00.0", "0-17,36-53", 0},
        {"hwloc-32em64t-2n8c2t-1gpu", "0000:84:00.0", "8-15,24-31", 1},
        {"hwloc-power8gpudistances", "0002:01:00.0", "0-1,8-9,16-17,24-25", 0},
        {"hwloc-64intel64-disallowed16", "0002:01:00.0", "32-39", 4},
        {"hwloc-nvidiaDGX2", "0000:b7:00", "24-25", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        struct topo *t = load(table[i].file);
        const struct topo_gpu *gpu;

        if (t == NULL)
            skip();
        gpu = topo_gpu(t, table[i].gpu);
        if (gpu == NULL)
            fail_msg("%s: no GPU %s", table[i].file, table[i].gpu);
        expect_cpus(&gpu->local, table[i].local);
        assert_int_equal(gpu->numa, table[i].numa);
        assert_null(topo_gpu(t, "GPU-6c0b1f3e"));
        assert_null(topo_gpu(t, "0"));
        assert_null(topo_gpu(t, ""));
        assert_null(topo_gpu(t, "0000:18:00.0x"));
        assert_null(topo_gpu(t, "99999999999999999999:18:00.0"));
        topo_free(t);
    }
}

/* Hybrid machines: the kernel's capacity, else the kind and the clock. */
static void hybrid_speeds(void **state)
{
    struct topo *raptor = load("cpuid-Intel-RaptorLake-Corei7-1370P");
    struct topo *gb10 = load("fsroot-nvidia-dgx-gb10");

    (void)state;
    if (raptor == NULL || gb10 == NULL)
        skip();
    for (unsigned os = 0; os < 20; os++) {
        double speed = topo_pu(raptor, os)->speed;

        /* PUs 12-19 are the small cores */
        assert_true(os < 12 ? speed > 0.99 : speed < 0.7);
        speed = topo_pu(gb10, os)->speed;
        /* 718/1024 and 731/1024 against 997/1024 and more */
        assert_true((os < 5 || (os >= 10 && os < 15)) ? speed < 0.72 : speed > 0.97);
    }
    topo_free(raptor);
    topo_free(gb10);
}

static void synthetic_machines(void **state)
{
    char error[256] = "";
    struct topo *t = topo_from_synthetic("pack:2 core:14 pu:2", error, sizeof(error));

    (void)state;
    assert_non_null(t);
    assert_int_equal(t->npus, 56);
    assert_int_equal(t->ncores, 28);
    assert_int_equal(t->pus[1].core, 0);
    assert_int_equal(t->pus[1].sibling, 1);
    check_numbers(t);
    topo_free(t);
    /* more CPUs than a fixed mask of 1024 holds */
    t = topo_from_synthetic("pack:4 numa:2 l3:4 core:16 pu:4", error, sizeof(error));
    assert_non_null(t);
    assert_int_equal(t->npus, 2048);
    assert_int_equal(t->nnuma, 8);
    assert_int_equal(topo_pu(t, 2047)->numa, 7);
    check_numbers(t);
    topo_free(t);
    {
        static const char *const bad[] = {
            "", "nonsense", "core:0", "pack:70000 core:70000", "pu:", "core:99999999999999999999"};

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
            error[0] = '\0';
            assert_null(topo_from_synthetic(bad[i], error, sizeof(error)));
            assert_true(error[0] != '\0');
        }
        assert_null(topo_from_synthetic(NULL, error, sizeof(error)));
    }
}

static void this_machine(void **state)
{
    char error[256] = "", digest[TOPO_DIGEST_MAX], again[TOPO_DIGEST_MAX];
    struct topo *here = topo_from_this_machine(error, sizeof(error)), *back;
    struct cpus before = CPUS_EMPTY, after = CPUS_EMPTY;
    size_t length = 0;
    char *xml;

    (void)state;
    if (here == NULL)
        fail_msg("%s", error);
    check_numbers(here);
    /* reading the machine binds nobody */
    assert_int_equal(cpus_get_affinity(0, &before), 0);
    xml = topo_export_this_machine(&length, error, sizeof(error));
    assert_int_equal(cpus_get_affinity(0, &after), 0);
    assert_true(cpus_equal(&before, &after));
    assert_non_null(xml);
    assert_int_equal(strlen(xml), length);
    back = topo_from_xml(xml, length, error, sizeof(error));
    if (back == NULL)
        fail_msg("%s", error);
    assert_int_equal(back->npus, here->npus);
    for (size_t i = 0; i < back->npus; i++) {
        assert_int_equal(back->pus[i].os, here->pus[i].os);
        assert_int_equal(back->pus[i].core, here->pus[i].core);
        assert_int_equal(back->pus[i].numa, here->pus[i].numa);
    }
    topo_digest(xml, length, digest);
    topo_digest(xml, length, again);
    assert_string_equal(digest, again);
    assert_int_equal(strlen(digest), 32);
    xml[length / 2] ^= 1;
    topo_digest(xml, length, again);
    assert_string_not_equal(digest, again);
    free(xml);
    cpus_free(&before);
    cpus_free(&after);
    topo_free(here);
    topo_free(back);
}

static void flat_machine(void **state)
{
    struct cpus cpus = CPUS_EMPTY;
    struct topo *t;

    (void)state;
    assert_int_equal(cpus_parse(&cpus, "3-4,1500"), 0);
    t = topo_flat(&cpus);
    assert_non_null(t);
    assert_int_equal(t->npus, 3);
    /* locality unknown stays unknown */
    assert_int_equal(t->pus[2].os, 1500);
    assert_int_equal(t->pus[2].numa, -1);
    assert_int_equal(t->pus[2].l3, -1);
    assert_int_equal(t->pus[2].core, 2);
    check_numbers(t);
    topo_free(t);
    cpus_clear_all(&cpus);
    t = topo_flat(&cpus);
    assert_non_null(t);
    assert_null(topo_pu(t, 0));
    topo_free(t);
    cpus_free(&cpus);
}

/* ---- hostile XML --------------------------------------------------------------------------- */

/* What is written to stderr meanwhile goes to a file; returns its length. */
static int silence(FILE *sink)
{
    int saved = dup(STDERR_FILENO);

    assert_true(saved >= 0);
    (void)fflush(stderr);
    assert_true(dup2(fileno(sink), STDERR_FILENO) >= 0);
    return saved;
}

static off_t unsilence(FILE *sink, int saved)
{
    struct stat st;

    (void)fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    assert_int_equal(close(saved), 0);
    assert_int_equal(fstat(fileno(sink), &st), 0);
    return st.st_size;
}

#define HEAD                                                                                       \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"

static void refuses_bad_xml(void **state)
{
    static const struct {
        const char *xml, *says;
    } table[] = {
        {"", "empty"},
        {"hello", "not XML"},
        {HEAD, "topology"},
        {HEAD "<topology version=\"2.0\"></topology>", "cannot read"},
        {HEAD "<topology version=\"3.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x1\" "
              "gp_index=\"1\"/></topology>",
         "newer"},
        {HEAD "<topology version=\"2.0\"><object type=\"Machine\"", "cut off"},
        {HEAD "<topology version=\"2.0\"><object>", "stay open"},
        {"</topology>", "never opened"},
        {"<!DOCTYPE t [<!ENTITY a \"b\">]><topology>&a;</topology>", "refused"},
        {HEAD "<topology version=\"2.0\"><object type=\"PU\" os_index=\"4000000000\"/></topology>",
         "OS index"},
        {HEAD "<topology version=\"2.0\"><object type=\"Group\"/></topology>", "cannot read"},
    };
    FILE *sink = tmpfile();
    int saved;

    (void)state;
    assert_non_null(sink);
    saved = silence(sink);
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        char error[256] = "";
        struct topo *t = topo_from_xml(table[i].xml, strlen(table[i].xml), error, sizeof(error));

        if (t != NULL || strstr(error, table[i].says) == NULL) {
            (void)unsilence(sink, saved);
            fail_msg("case %zu: %s", i, t != NULL ? "accepted" : error);
        }
    }
    assert_int_equal(unsilence(sink, saved), 0);
    assert_int_equal(fclose(sink), 0);
}

static void refuses_depth_and_size(void **state)
{
    size_t length = 0, size = 17u << 20;
    char *xml = malloc(size), error[256] = "";

    (void)state;
    assert_non_null(xml);
    for (unsigned i = 0; i < 200; i++)
        length += (size_t)sprintf(xml + length, "<object>");
    for (unsigned i = 0; i < 200; i++)
        length += (size_t)sprintf(xml + length, "</object>");
    assert_null(topo_from_xml(xml, length, error, sizeof(error)));
    assert_non_null(strstr(error, "deeper"));
    memset(xml, ' ', size);
    assert_null(topo_from_xml(xml, size, error, sizeof(error)));
    assert_non_null(strstr(error, "bytes"));
    memcpy(xml, "<a>\0</a>", 8);
    assert_null(topo_from_xml(xml, 8, error, sizeof(error)));
    free(xml);
    assert_null(topo_from_xml_file("/nonexistent/machine.xml", error, sizeof(error)));
    assert_non_null(strstr(error, "/nonexistent/machine.xml"));
    assert_null(topo_from_xml_file("/", error, sizeof(error)));
}

/* A recording with a few bytes changed or cut off: read or refused, never worse. */
static void survives_damage(void **state)
{
    static const char *const files[] = {"hwloc-nvidiaDGX2", "fsroot-fakeheterocpunuma",
                                        "hwloc-fakecpukinds"};
    struct dice dice = {99};
    unsigned read = 0, refused = 0;
    FILE *sink = tmpfile();

    (void)state;
    assert_non_null(sink);
    for (size_t f = 0; f < sizeof(files) / sizeof(*files); f++) {
        size_t length;
        char path[512], *xml, *copy;
        int saved;

        if (!shared_path(path, sizeof(path), "topologies/%s.xml", files[f]))
            skip();
        xml = shared_read(path, &length);
        copy = malloc(length);
        assert_non_null(xml);
        assert_non_null(copy);
        saved = silence(sink);
        for (unsigned n = 0; n < 150; n++) {
            size_t keep = dice_below(&dice, 4) == 0 ? dice_below(&dice, (unsigned)length) : length;
            char error[256] = "";
            struct topo *t;

            memcpy(copy, xml, length);
            for (unsigned k = dice_below(&dice, 6); k > 0; k--)
                copy[dice_below(&dice, (unsigned)length)] = (char)(32 + dice_below(&dice, 95));
            t = topo_from_xml(copy, keep, error, sizeof(error));
            read += t != NULL;
            refused += t == NULL;
            topo_free(t);
        }
        (void)unsilence(sink, saved);
        free(xml);
        free(copy);
    }
    assert_int_equal(fclose(sink), 0);
    print_message("# damaged recordings: %u read, %u refused\n", read, refused);
    assert_true(read > 0 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_machines), cmocka_unit_test(gpu_locality),
        cmocka_unit_test(hybrid_speeds),     cmocka_unit_test(synthetic_machines),
        cmocka_unit_test(this_machine),      cmocka_unit_test(flat_machine),
        cmocka_unit_test(refuses_bad_xml),   cmocka_unit_test(refuses_depth_and_size),
        cmocka_unit_test(survives_damage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
