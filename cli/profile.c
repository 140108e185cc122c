/* adloader profile: what was learned of kinds of training; listed, shown, and forgotten on demand.
 */
#include "config.h"

#include "profile.h"

#include "cli.h"
#include "conf.h"
#include "table.h"

#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int folder_of(const struct cli *cli, char *path, size_t size)
{
    const char *folder = cli_value(cli, "profiles");
    struct conf *conf;
    int n;

    if (folder != NULL) {
        n = snprintf(path, size, "%s", folder);
    } else {
        conf = cli_conf(cli);
        if (conf == NULL)
            return CLI_FAILURE;
        n = snprintf(path, size, "%s/" PRED_PROFILE_FOLDER, conf->state_dir);
        conf_free(conf);
    }
    if (n < 0 || (size_t)n >= size) {
        cli_error("the folder's name is too long");
        return CLI_FAILURE;
    }
    return CLI_OK;
}

static void put_text(struct json_object *object, const char *key, const char *text)
{
    struct json_object *value = *text != '\0' ? json_object_new_string(text) : NULL;

    if (json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static void put_number(struct json_object *object, const char *key, double number)
{
    struct json_object *value = isfinite(number) ? json_object_new_double(number) : NULL;

    if (json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static struct json_object *to_json(const struct pred_profile *p)
{
    struct json_object *object = json_object_new_object();

    if (object == NULL)
        return NULL;
    put_text(object, "name", p->name);
    put_text(object, "gpu", p->gpu);
    put_text(object, "node_type", p->node_type);
    put_number(object, "core_rate_samples_per_s", p->core_rate);
    put_number(object, "core_rate_relative_sd", p->core_rate_sd);
    put_number(object, "beta", p->beta);
    put_number(object, "gpu_rate_samples_per_s_per_gpu", p->gpu_rate);
    put_number(object, "gpu_rate_relative_sd", p->gpu_rate_sd);
    put_number(object, "demand_cores_per_gpu", p->demand);
    put_number(object, "demand_relative_sd", p->demand_sd);
    put_number(object, "sample_bytes", p->sample_bytes);
    put_number(object, "runs", p->runs);
    put_number(object, "updated_unix_s", p->updated_s);
    return object;
}

static int print_json(const struct pred_profile *profiles, size_t n)
{
    struct json_object *list = json_object_new_array();
    int status = CLI_FAILURE;

    for (size_t i = 0; list != NULL && i < n; i++) {
        struct json_object *object = to_json(&profiles[i]);

        if (object == NULL || json_object_array_add(list, object) != 0) {
            json_object_put(object);
            json_object_put(list);
            list = NULL;
        }
    }
    if (list == NULL)
        cli_error("out of memory");
    else
        status = cli_print_json(list);
    json_object_put(list);
    return status;
}

static int print_list(const struct pred_profile *profiles, size_t n)
{
    static const struct table_column columns[] = {
        {"name", false}, {"GPU", false},      {"node", false}, {"core/s", true}, {"beta", true},
        {"GPU/s", true}, {"cores/GPU", true}, {"runs", true},  {"age", true}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));
    double now = (double)time(NULL);
    int rc;

    for (size_t i = 0; i < n; i++) {
        const struct pred_profile *p = &profiles[i];
        char age[32];

        table_cell(table, p->name);
        table_cell(table, p->gpu);
        table_cell(table, p->node_type);
        table_number(table, p->core_rate, 1);
        table_number(table, p->beta, 3);
        table_number(table, p->gpu_rate, 1);
        table_number(table, p->demand, 2);
        table_number(table, p->runs, 0);
        table_cell(table, format_age(now - p->updated_s, age, sizeof(age)));
    }
    rc = table_print(table, stdout);
    table_free(table);
    if (rc != 0)
        cli_error("out of memory");
    return rc == 0 ? CLI_OK : CLI_FAILURE;
}

static void show_number(const char *name, double value, double sd, const char *unit)
{
    printf("  %-16s ", name);
    if (isnan(value))
        printf("unknown\n");
    else if (isnan(sd))
        printf("%.4g %s\n", value, unit);
    else
        printf("%.4g %s (+- %.0f %%)\n", value, unit, 100 * sd);
}

static void show(const struct pred_profile *p)
{
    char age[32];

    print_clean(stdout, p->name, "?");
    printf(" on GPU ");
    print_clean(stdout, p->gpu, "any");
    printf(", node type ");
    print_clean(stdout, p->node_type, "any");
    printf("\n");
    show_number("one loader core", p->core_rate, p->core_rate_sd, "samples/s");
    show_number("contention", p->beta, NAN, "");
    show_number("one GPU", p->gpu_rate, p->gpu_rate_sd, "samples/s when data is never late");
    show_number("demand of a GPU", p->demand, p->demand_sd, "loader cores");
    show_number("read a sample", p->sample_bytes, NAN, "bytes from storage");
    printf("  %-16s %.0f runs, last %s ago\n", "learned from", isnan(p->runs) ? 0 : p->runs,
           format_age((double)time(NULL) - p->updated_s, age, sizeof(age)));
}

static bool wanted(const struct cli *cli, const struct pred_profile *p)
{
    const char *gpu = cli_value(cli, "gpu"), *node = cli_value(cli, "node-type");

    return (cli->argc < 2 || strcmp(p->name, cli->argv[1]) == 0) &&
           (gpu == NULL || strcmp(p->gpu, gpu) == 0) &&
           (node == NULL || strcmp(p->node_type, node) == 0);
}

static int list_or_show(const struct cli *cli, const char *folder, bool whole)
{
    struct pred_profile *all;
    size_t n, kept = 0, corrupt;
    char error[512];
    int status;

    if (pred_profile_list(folder, &all, &n, &corrupt, error, sizeof(error)) != 0) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    if (corrupt > 0)
        cli_error("%s%s", error, corrupt > 1 ? ", and more" : "");
    for (size_t i = 0; i < n; i++)
        if (wanted(cli, &all[i]))
            all[kept++] = all[i];
    if (kept == 0 && whole) {
        cli_error("there is no profile '%s' in %s", cli->argv[1], folder);
        status = CLI_FAILURE;
    } else if (cli->json) {
        status = print_json(all, kept);
    } else if (whole) {
        for (size_t i = 0; i < kept; i++)
            show(&all[i]);
        status = CLI_OK;
    } else {
        status = print_list(all, kept);
    }
    free(all);
    return status;
}

static int forget(const struct cli *cli, const char *folder)
{
    char error[512];
    long gone = pred_profile_forget(folder, cli->argv[1], cli_value(cli, "gpu"),
                                    cli_value(cli, "node-type"), error, sizeof(error));

    if (gone < 0) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    if (gone == 0) {
        cli_error("there is no profile '%s' in %s", cli->argv[1], folder);
        return CLI_FAILURE;
    }
    if (!cli->json)
        printf("%ld profile%s forgotten.\n", gone, gone == 1 ? "" : "s");
    return CLI_OK;
}

static int run(const struct cli *cli)
{
    char folder[4096];
    const char *what = cli->argv[0];
    bool named = strcmp(what, "show") == 0 || strcmp(what, "forget") == 0;
    int status;

    if (!named && strcmp(what, "list") != 0)
        return cli_usage_error(cli, "profile can list, show NAME and forget NAME, not '%s'", what);
    if (named && cli->argc < 2)
        return cli_usage_error(cli, "profile %s needs a name", what);
    status = folder_of(cli, folder, sizeof(folder));
    if (status != CLI_OK)
        return status;
    if (strcmp(what, "forget") == 0)
        return forget(cli, folder);
    return list_or_show(cli, folder, strcmp(what, "show") == 0);
}

static const struct cli_option options[] = {
    {"gpu", "NAME", "only profiles of this GPU type"},
    {"node-type", "NAME", "only profiles of this node type"},
    {"profiles", "FOLDER", "where they are, default StateDir/profiles"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_profile = {
    .name = "profile",
    .arguments = "list | show NAME | forget NAME",
    .summary = "List, show or forget what was learned of kinds of training",
    .text = "A profile is what earlier runs of a model taught: a training that names it starts "
            "with it.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = 2,
    .run = run,
};
