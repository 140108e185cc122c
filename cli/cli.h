/*
 * The adloader tool, seen from a subcommand: what it gets from the command line, how it complains,
 * and how it ends. main.c reads the command line; a subcommand is one file with one struct
 * cli_command in it.
 *
 * To add a subcommand: write cli/NAME.c with `const struct cli_command cli_command_NAME`, declare
 * it below, put it into the table in main.c, the file into local.mk, and its options into
 * man/adloader.1 (tests/unit/man.sh compares them with --help).
 */
#ifndef ADLOADER_CLI_H
#define ADLOADER_CLI_H

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct conf;

/* How the tool exits; adloader(1) says the same. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILURE = 1, /* it could not be done: no controller, no such job, unreadable file, ... */
    CLI_USAGE = 2    /* the command line makes no sense */
};

struct cli_option {
    const char *name;     /* without the dashes; NULL ends a table */
    const char *argument; /* what it takes, for --help ("FILE"); NULL: it is a flag */
    const char *help;
};

struct cli_command;

/* One call of the tool. Everything in it belongs to main.c. */
struct cli {
    const struct cli_command *command;
    bool json;              /* --json: one JSON document to standard output, nothing else */
    const char *config;     /* --config FILE, NULL not given */
    const char *controller; /* --controller ADDRESS, NULL not given */
    const char **values;    /* of the command's own options, in its table's order */
    int argc;               /* what is left: the arguments proper */
    char **argv;
};

struct cli_command {
    const char *name;
    const char *arguments;            /* for the usage line: "JOB[.STEP]", "" */
    const char *summary;              /* a line for the list of subcommands */
    const char *text;                 /* a paragraph or more for its own --help; NULL none */
    const struct cli_option *options; /* beside the common ones; NULL none */
    int min_arguments, max_arguments;
    int (*run)(const struct cli *cli); /* returns enum cli_exit */
};

extern const struct cli_command cli_command_status;
extern const struct cli_command cli_command_explain;
extern const struct cli_command cli_command_top;
extern const struct cli_command cli_command_topology;
extern const struct cli_command cli_command_report;
extern const struct cli_command cli_command_allocate;
extern const struct cli_command cli_command_simulate;
extern const struct cli_command cli_command_predict;
extern const struct cli_command cli_command_profile;
extern const struct cli_command cli_command_calibrate;
extern const struct cli_command cli_command_doctor;

/*
 * The value of one of the command's own options: NULL if it was not given, "" for a flag that was.
 * The last one wins where it was given several times.
 */
const char *cli_value(const struct cli *cli, const char *option);

/* A number out of an option or argument: all of text, finite, within the bounds. */
bool cli_number(const char *text, double min, double max, double *value);

/* "adloader: ..." on standard error, one line, control characters replaced. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, with a pointer to --help; returns CLI_USAGE. */
int cli_usage_error(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The configuration named by --config, or the default one. NULL after a complaint on standard
 * error. The caller frees it with conf_free(). */
struct conf *cli_conf(const struct cli *cli);

/* Print a document for --json, indented, with a final newline; returns enum cli_exit. */
int cli_print_json(struct json_object *document);

#endif
