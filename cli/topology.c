/*
 * adloader topology: this machine as placement sees it, and its export for the agents, which never
 * load a topology themselves. Run once a node at boot, by hand or by tmpfiles and a unit.
 */
#include "config.h"

#include "cli.h"
#include "cpus.h"
#include "replacefile.h"
#include "table.h"
#include "topo.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* ---- writing files ------------------------------------------------------------------------- */

/* Make the folder that path lies in (one level), readable for all whatever the umask. */
static int make_folder_of(const char *path)
{
    char folder[PATH_BYTES];
    const char *slash = strrchr(path, '/');

    if (slash == NULL || slash == path)
        return 0;
    size_t length = (size_t)(slash - path);
    if (length >= sizeof(folder)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, length);
    folder[length] = '\0';
    if (mkdir(folder, 0755) == 0)
        return chmod(folder, 0755);
    return errno == EEXIST ? 0 : -1;
}

/* FILE with .xml replaced by .digest, or with .digest behind it. */
static int digest_path(const char *path, char *buf, size_t size)
{
    size_t length = strlen(path);

    if (length > 4 && strcmp(path + length - 4, ".xml") == 0)
        length -= 4;
    int n = snprintf(buf, size, "%.*s.digest", (int)length, path);
    return n < 0 || (size_t)n >= size ? -1 : 0;
}

static int export_to(const char *path, const char *xml, size_t length, const char *digest)
{
    char beside[PATH_BYTES], content[TOPO_DIGEST_MAX + 1];

    if (strlen(path) >= PATH_BYTES || digest_path(path, beside, sizeof(beside)) != 0) {
        cli_error("--export: the path is too long");
        return CLI_FAILURE;
    }
    snprintf(content, sizeof(content), "%s\n", digest);
    if (path[0] == '\0' || path[strlen(path) - 1] == '/') {
        cli_error("--export: %s names no file", path[0] == '\0' ? "an empty path" : path);
        return CLI_FAILURE;
    }
    if (!replacefile_allowed(path) || !replacefile_allowed(beside)) {
        cli_error("--export %s: it, or %s, is there and is no regular file; it is left alone", path,
                  beside);
        return CLI_FAILURE;
    }
    if (make_folder_of(path) != 0) {
        cli_error("cannot make the folder of %s: %s", path, strerror(errno));
        return CLI_FAILURE;
    }
    const char *failed = replacefile(path, xml, length, true) != 0                  ? path
                         : replacefile(beside, content, strlen(content), true) != 0 ? beside
                                                                                    : NULL;
    if (failed != NULL) {
        cli_error("cannot write %s: %s", failed, strerror(errno));
        return CLI_FAILURE;
    }
    return CLI_OK;
}

/* ---- the summary --------------------------------------------------------------------------- */

static int print_gpus(const struct topo *topo)
{
    static const struct table_column columns[] = {
        {"GPU", false}, {"NAME", false}, {"NUMA", true}, {"LOCAL-CPUS", false}};

    if (topo->ngpus == 0)
        return puts("No GPU is known here.") == EOF ? -1 : 0;
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < topo->ngpus; i++) {
        char *local = cpus_to_string(&topo->gpus[i].local);
        table_cell(table, topo->gpus[i].pci);
        table_cell(table, topo->gpus[i].name);
        table_number(table, topo->gpus[i].numa < 0 ? (double)NAN : (double)topo->gpus[i].numa, 0);
        table_cell(table, local);
        free(local);
    }
    int result = table_print(table, stdout);
    table_free(table);
    return result;
}

/* The PUs of one NUMA domain or of one L3 as a list; the caller frees; NULL on lack of memory. */
static char *pus_of(const struct topo *topo, int numa)
{
    struct cpus set = CPUS_EMPTY;
    bool good = true;

    for (size_t i = 0; i < topo->npus && good; i++)
        if (topo->pus[i].numa == numa)
            good = cpus_set(&set, topo->pus[i].os) == 0;
    char *text = good ? cpus_to_string(&set) : NULL;
    cpus_free(&set);
    return text;
}

static int print_numa(const struct topo *topo)
{
    static const struct table_column columns[] = {{"NUMA", true}, {"CPUS", false}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

    for (unsigned n = 0; n < topo->nnuma; n++) {
        char *text = pus_of(topo, (int)n);
        table_cellf(table, "%u", n);
        table_cell(table, text);
        free(text);
    }
    int result = table_print(table, stdout);
    table_free(table);
    return result;
}

static int print_summary(const struct topo *topo, const char *digest)
{
    printf("CPUs (PUs) %zu, cores %u%s, L3 caches %u, NUMA domains %u, packages %u\n", topo->npus,
           topo->ncores, topo->hybrid ? " of different speeds" : "", topo->nl3, topo->nnuma,
           topo->npackages);
    printf("digest %s\n\n", digest);
    if (print_numa(topo) != 0)
        return -1;
    putchar('\n');
    return print_gpus(topo);
}

static struct json_object *gpu_document(const struct topo_gpu *gpu)
{
    struct json_object *object = json_object_new_object();
    char *local = cpus_to_string(&gpu->local);

    json_object_object_add(object, "pci", json_object_new_string(gpu->pci));
    json_object_object_add(object, "name", json_object_new_string(gpu->name));
    json_object_object_add(object, "numa", gpu->numa < 0 ? NULL : json_object_new_int(gpu->numa));
    json_object_object_add(object, "local_cpus",
                           json_object_new_string(local != NULL ? local : ""));
    free(local);
    return object;
}

static struct json_object *pu_document(const struct topo_pu *pu)
{
    const struct {
        const char *key;
        int value;
    } indexes[] = {
        {"core", pu->core}, {"l3", pu->l3}, {"numa", pu->numa}, {"package", pu->package}};
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "cpu", json_object_new_int64(pu->os));
    for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++)
        json_object_object_add(object, indexes[i].key,
                               indexes[i].value < 0 ? NULL : json_object_new_int(indexes[i].value));
    json_object_object_add(object, "sibling", json_object_new_int(pu->sibling));
    json_object_object_add(object, "relative_speed", json_object_new_double(pu->speed));
    return object;
}

static int print_document(const struct topo *topo, const char *digest)
{
    struct json_object *document = json_object_new_object();
    struct json_object *gpus = json_object_new_array(), *pus = json_object_new_array();

    for (size_t i = 0; i < topo->ngpus; i++)
        json_object_array_add(gpus, gpu_document(&topo->gpus[i]));
    for (size_t i = 0; i < topo->npus; i++)
        json_object_array_add(pus, pu_document(&topo->pus[i]));
    json_object_object_add(document, "digest", json_object_new_string(digest));
    json_object_object_add(document, "cores", json_object_new_int64(topo->ncores));
    json_object_object_add(document, "l3_caches", json_object_new_int64(topo->nl3));
    json_object_object_add(document, "numa_domains", json_object_new_int64(topo->nnuma));
    json_object_object_add(document, "packages", json_object_new_int64(topo->npackages));
    json_object_object_add(document, "hybrid", json_object_new_boolean(topo->hybrid));
    json_object_object_add(document, "pus", pus);
    json_object_object_add(document, "gpus", gpus);
    int status = cli_print_json(document);
    json_object_put(document);
    return status;
}

/* ---- the subcommand ------------------------------------------------------------------------ */

static int show(const struct cli *cli, const char *xml, size_t length, const char *digest)
{
    char error[512];
    struct topo *topo = topo_from_xml(xml, length, error, sizeof(error));

    if (topo == NULL) {
        cli_error("the exported topology does not load again: %s", error);
        return CLI_FAILURE;
    }
    int status = CLI_OK;
    if (cli->json) {
        status = print_document(topo, digest);
    } else if (print_summary(topo, digest) != 0) {
        cli_error("not enough memory for the tables");
        status = CLI_FAILURE;
    }
    topo_free(topo);
    return status;
}

static int run(const struct cli *cli)
{
    const char *file = cli_value(cli, "export");
    bool raw = cli_value(cli, "xml") != NULL;
    char error[512] = "", digest[TOPO_DIGEST_MAX];
    size_t length = 0;

    if (raw && cli->json)
        return cli_usage_error(cli, "--xml and --json exclude each other");
    if (file != NULL && file[0] == '\0')
        return cli_usage_error(cli, "--export needs the name of a file");
    char *xml = topo_export_this_machine(&length, error, sizeof(error));
    if (xml == NULL) {
        cli_error("cannot read this machine's topology: %s", error);
        return CLI_FAILURE;
    }
    topo_digest(xml, length, digest);
    int status = file != NULL ? export_to(file, xml, length, digest) : CLI_OK;
    if (status == CLI_OK && raw)
        status = fwrite(xml, 1, length, stdout) == length ? CLI_OK : CLI_FAILURE;
    else if (status == CLI_OK && (file == NULL || cli->json))
        status = show(cli, xml, length, digest);
    free(xml);
    return status;
}

static const struct cli_option options[] = {
    {"export", "FILE", "write the topology as XML to FILE, its digest beside it"},
    {"xml", NULL, "print the XML itself"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_topology = {
    .name = "topology",
    .arguments = "",
    .summary = "Show or export the CPUs, caches, NUMA domains and GPUs of this machine",
    .text = "The agents on a node look for " ADL_RUNDIR "/topology.xml and\n" ADL_RUNDIR
            "/topology.digest; --export writes both, each atomically.\n"
            "Run it once a node after boot.",
    .options = options,
    .run = run,
};
