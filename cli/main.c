/*
 * The adloader tool: reads the command line, finds the subcommand in one table and runs it. What a
 * subcommand sees is in cli.h, which also says how to add one.
 */
#include "config.h"

#include "cli.h"
#include "suggest.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command *const commands[] = {
    &cli_command_status,   &cli_command_top,       &cli_command_explain,  &cli_command_report,
    &cli_command_topology, &cli_command_allocate,  &cli_command_simulate, &cli_command_predict,
    &cli_command_profile,  &cli_command_calibrate, &cli_command_doctor,
};
#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

enum common { COMMON_JSON, COMMON_CONFIG, COMMON_CONTROLLER, COMMON_HELP, COMMON_VERSION };

static const struct cli_option common_options[] = {
    [COMMON_JSON] = {"json", NULL, "print one JSON document, with units in the key names"},
    [COMMON_CONFIG] = {"config", "FILE", "read FILE instead of the default adloader.conf"},
    [COMMON_CONTROLLER] = {"controller", "ADDRESS",
                           "where adloaderctld is: unix:/path or host:port, several with commas"},
    [COMMON_HELP] = {"help", NULL, "print this and exit"},
    [COMMON_VERSION] = {"version", NULL, "print the version and exit"},
};
#define NCOMMON (sizeof(common_options) / sizeof(common_options[0]))

#define OPTIONS_MAX 32u /* of one command, common ones included */

/* ---- help ------------------------------------------------------------------------------- */

static void print_option(const struct cli_option *option)
{
    char left[64];

    if (snprintf(left, sizeof(left), "--%s%s%s", option->name, option->argument ? " " : "",
                 option->argument ? option->argument : "") < 0)
        return;
    printf("  %-22s  %s\n", left, option->help);
}

static void print_common_options(void)
{
    printf("\nCommon options:\n");
    for (size_t i = 0; i < NCOMMON; i++)
        print_option(&common_options[i]);
}

static void print_help(void)
{
    printf("Usage: adloader SUBCOMMAND [OPTIONS] [ARGUMENTS]\n\n"
           "Shows and explains what adloader does with the data-loader cores of running jobs.\n\n"
           "Subcommands:\n");
    for (size_t i = 0; i < NCOMMANDS; i++)
        printf("  %-22s  %s\n", commands[i]->name, commands[i]->summary);
    print_common_options();
    printf("\n'adloader SUBCOMMAND --help' says more. Exit status: 0 success, 1 failure, 2 wrong "
           "usage.\n");
}

static void print_command_help(const struct cli_command *command)
{
    printf("Usage: adloader %s [OPTIONS]%s%s\n\n%s.\n", command->name,
           command->arguments[0] != '\0' ? " " : "", command->arguments, command->summary);
    if (command->text != NULL)
        printf("\n%s\n", command->text);
    if (command->options != NULL && command->options[0].name != NULL) {
        printf("\nOptions:\n");
        for (const struct cli_option *o = command->options; o->name != NULL; o++)
            print_option(o);
    }
    print_common_options();
}

/* ---- the command line --------------------------------------------------------------------- */

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const struct cli *cli, const char *name)
{
    const char *names[NCOMMANDS];
    char hint[256];

    for (size_t i = 0; i < NCOMMANDS; i++)
        names[i] = commands[i]->name;
    suggest(name, "", names, NCOMMANDS, hint, sizeof(hint));
    return cli_usage_error(cli, "there is no subcommand '%s'.%s", name, hint);
}

/* The options that are allowed at one point: getopt_long's form of the common ones and, behind
 * them, the command's own. An entry's val is its index plus one, so that it is never 0 or '?'. */
struct accepted {
    struct option getopt[OPTIONS_MAX + 1];
    const char *names[OPTIONS_MAX];
    size_t count;
};
#define OPTION_VAL 256

static void accept_option(struct accepted *accepted, const struct cli_option *option)
{
    size_t i = accepted->count;

    if (i >= OPTIONS_MAX)
        abort(); /* a table of ours outgrew OPTIONS_MAX */
    accepted->names[i] = option->name;
    accepted->getopt[i] = (struct option){
        .name = option->name,
        .has_arg = option->argument != NULL ? required_argument : no_argument,
        .val = OPTION_VAL + (int)i,
    };
    accepted->count = i + 1;
    accepted->getopt[i + 1] = (struct option){0};
}

static void accept_options(struct accepted *accepted, const struct cli_command *command)
{
    accepted->count = 0;
    for (size_t i = 0; i < NCOMMON; i++)
        accept_option(accepted, &common_options[i]);
    if (command != NULL && command->options != NULL)
        for (const struct cli_option *o = command->options; o->name != NULL; o++)
            accept_option(accepted, o);
}

static int unknown_option(const struct cli *cli, const struct accepted *accepted, const char *text)
{
    char hint[256], name[64];

    /* without dashes and value, for the comparison */
    const char *begin = text + strspn(text, "-");
    if (snprintf(name, sizeof(name), "%.*s", (int)strcspn(begin, "="), begin) < 0)
        name[0] = '\0';
    suggest(name, "--", accepted->names, accepted->count, hint, sizeof(hint));
    if (cli->command == NULL)
        return cli_usage_error(cli, "there is no option '%s' before the subcommand.%s", text, hint);
    return cli_usage_error(cli, "'%s' has no option '%s'.%s", cli->command->name, text, hint);
}

/* What getopt_long could not take: a sentence for each kind. */
static int bad_option(const struct cli *cli, const struct accepted *accepted, int kind, char **argv)
{
    size_t i = optopt >= OPTION_VAL ? (size_t)(optopt - OPTION_VAL) : accepted->count;

    if (kind == ':' && i < accepted->count)
        return cli_usage_error(cli, "--%s needs a value", accepted->names[i]);
    if (i < accepted->count)
        return cli_usage_error(cli, "--%s takes no value", accepted->names[i]);
    if (optopt != 0) { /* a short one */
        char text[3] = {'-', (char)optopt, '\0'};
        return unknown_option(cli, accepted, text);
    }
    return unknown_option(cli, accepted, argv[optind - 1]);
}

enum { PARSED_GO_ON = -1 };

static int take_option(struct cli *cli, size_t index, const char *value)
{
    switch (index) {
    case COMMON_JSON:
        cli->json = true;
        break;
    case COMMON_CONFIG:
        cli->config = value;
        break;
    case COMMON_CONTROLLER:
        cli->controller = value;
        break;
    case COMMON_HELP:
        if (cli->command != NULL)
            print_command_help(cli->command);
        else
            print_help();
        return CLI_OK;
    case COMMON_VERSION:
        printf("adloader %s\n", PACKAGE_VERSION);
        return CLI_OK;
    default:
        cli->values[index - NCOMMON] = value != NULL ? value : "";
        break;
    }
    return PARSED_GO_ON;
}

/* Take all options of argv (argv[0] is a name); leaves optind at the first argument. Returns
 * PARSED_GO_ON or the exit status. */
static int take_options(struct cli *cli, int argc, char **argv, const char *spelling)
{
    struct accepted accepted;
    int kind;

    accept_options(&accepted, cli->command);
    opterr = 0;
    optind = 0; /* glibc: begin anew */
    while ((kind = getopt_long(argc, argv, spelling, accepted.getopt, NULL)) != -1) {
        int result;
        if (kind == 'h')
            result = take_option(cli, COMMON_HELP, NULL);
        else if (kind == 'V')
            result = take_option(cli, COMMON_VERSION, NULL);
        else if (kind >= OPTION_VAL)
            result = take_option(cli, (size_t)(kind - OPTION_VAL), optarg);
        else
            result = bad_option(cli, &accepted, kind, argv);
        if (result != PARSED_GO_ON)
            return result;
    }
    return PARSED_GO_ON;
}

static int check_arguments(const struct cli *cli)
{
    const struct cli_command *command = cli->command;

    if (cli->argc < command->min_arguments)
        return cli_usage_error(cli, "%s needs %s", command->name, command->arguments);
    if (cli->argc > command->max_arguments)
        return cli_usage_error(cli, "%s does not take '%s'", command->name,
                               cli->argv[command->max_arguments]);
    return PARSED_GO_ON;
}

static int run(int argc, char **argv)
{
    const char *values[OPTIONS_MAX] = {NULL};
    struct cli cli = {.values = values};
    int result = take_options(&cli, argc, argv, "+:hV");

    if (result != PARSED_GO_ON)
        return result;
    if (optind >= argc)
        return cli_usage_error(&cli, "a subcommand is missing");
    argc -= optind;
    argv += optind;
    const struct cli_command *command = find_command(argv[0]);
    if (command == NULL)
        return unknown_command(&cli, argv[0]);
    cli.command = command;
    result = take_options(&cli, argc, argv, ":hV");
    if (result != PARSED_GO_ON)
        return result;
    cli.argc = argc - optind;
    cli.argv = argv + optind;
    result = check_arguments(&cli);
    return result != PARSED_GO_ON ? result : command->run(&cli);
}

int main(int argc, char **argv)
{
    int result = run(argc, argv);

    if (fflush(stdout) != 0 || ferror(stdout)) {
        cli_error("cannot write to standard output: %s", strerror(errno));
        return result != CLI_OK ? result : CLI_FAILURE;
    }
    return result;
}
