/* --adloader[=VALUE] and its environment forms: see options.h. */
#include "config.h"

#include "options.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define REASON_SIZE 1024

/* Is it one of the forms that carry no hints? */
static bool is_bare(const char *value)
{
    static const char *const forms[] = {"", "(null)", "on", "off", "1", "0", "yes", "no"};
    if (value == NULL)
        return true;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (strcasecmp(value, forms[i]) == 0)
            return true;
    return false;
}

int options_take(struct options *options, const char *value, char *error, size_t error_size)
{
    struct hints hints;
    if (hints_parse(value, &hints, error, error_size) < 0)
        return -1;
    bool bare = is_bare(value);
    if (options->given && bare && !options->bare)
        options->hints.on = hints.on;
    else {
        options->hints = hints;
        options->bare = bare;
    }
    options->given = true;
    return 0;
}

static int read_environment(const char *name, const char *value, struct hints *hints, char *error,
                            size_t error_size)
{
    char reason[REASON_SIZE];
    if (hints_parse(value, hints, reason, sizeof reason) == 0)
        return 0;
    snprintf(error, error_size, "%s in the environment: %s", name, reason);
    return -1;
}

int options_resolve(const struct options *options, const char *env_switch, const char *env_hints,
                    bool default_on, struct hints *hints, char *error, size_t error_size)
{
    struct hints named;
    bool bare = true;
    memset(hints, 0, sizeof *hints);
    hints->on = default_on;
    if (options->given) {
        *hints = options->hints;
        bare = options->bare;
    } else if (env_switch != NULL) {
        if (read_environment("ADLOADER", env_switch, hints, error, error_size) < 0) {
            memset(hints, 0, sizeof *hints);
            return -1;
        }
        bare = is_bare(env_switch);
    }
    if (!hints->on || !bare || env_hints == NULL || env_hints[0] == '\0')
        return 0;
    if (read_environment("ADLOADER_OPTIONS", env_hints, &named, error, error_size) < 0)
        return -1;
    named.on = true;
    *hints = named;
    return 0;
}
