/* What every subcommand calls: complaints, options' values, the configuration, --json. See cli.h.
 */
#include "config.h"

#include "cli.h"
#include "conf.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void complain(const char *format, va_list arguments)
{
    char text[1024];

    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        return;
    for (char *c = text; *c != '\0'; c++)
        if (((unsigned char)*c < ' ' && *c != '\n') || *c == 0x7f || (unsigned char)*c >= 0x80)
            *c = '?';
    fprintf(stderr, "adloader: %s\n", text);
}

void cli_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
}

int cli_usage_error(const struct cli *cli, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    complain(format, arguments);
    va_end(arguments);
    if (cli->command != NULL)
        fprintf(stderr, "Try 'adloader %s --help'.\n", cli->command->name);
    else
        fprintf(stderr, "Try 'adloader --help'.\n");
    return CLI_USAGE;
}

const char *cli_value(const struct cli *cli, const char *option)
{
    const struct cli_option *options = cli->command->options;

    for (size_t i = 0; options != NULL && options[i].name != NULL; i++)
        if (strcmp(options[i].name, option) == 0)
            return cli->values[i];
    return NULL;
}

bool cli_number(const char *text, double min, double max, double *value)
{
    char *end = NULL;

    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(number) || number < min ||
        number > max)
        return false;
    *value = number;
    return true;
}

struct conf *cli_conf(const struct cli *cli)
{
    char error[2048] = "";
    struct conf *conf = conf_read(cli->config, error, sizeof(error));

    if (conf == NULL)
        cli_error("%s", error);
    return conf;
}

int cli_print_json(struct json_object *document)
{
    const char *text =
        json_object_to_json_string_ext(document, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                     JSON_C_TO_STRING_NOSLASHESCAPE);

    if (text == NULL) {
        cli_error("not enough memory to print the document");
        return CLI_FAILURE;
    }
    return fputs(text, stdout) < 0 || putchar('\n') == EOF ? CLI_FAILURE : CLI_OK;
}
