/*
 * --adloader[=VALUE] and its environment forms. Pure: the callers fetch the texts, since each side
 * of Slurm keeps its environment elsewhere.
 *
 *     --adloader, --adloader=on, --adloader=off, --adloader=key=value,...
 *     ADLOADER=on|off         as the option, where there is no option
 *     ADLOADER_OPTIONS=...    hints for whenever it is on without hints of its own
 *
 * What --export keeps from the steps would lose the two variables on their way. Slurm sends names
 * that begin with SLURM in any case, so the submit side says the same once more under such names.
 */
#ifndef ADLOADER_OPTIONS_H
#define ADLOADER_OPTIONS_H

#include "hints.h"

#include <stdbool.h>
#include <stddef.h>

#define OPTIONS_ENV_SWITCH      "ADLOADER"
#define OPTIONS_ENV_HINTS       "ADLOADER_OPTIONS"
#define OPTIONS_ENV_SWITCH_SENT "SLURM_ADLOADER"
#define OPTIONS_ENV_HINTS_SENT  "SLURM_ADLOADER_OPTIONS"
/* where sbatch and salloc leave the option for the commands inside */
#define OPTIONS_ENV_OPTION "SLURM_SPANK__SLURM_SPANK_OPTION_adloader_adloader"

struct options {
    bool given; /* the option was there */
    bool bare;  /* ... without hints: NULL, "", "(null)", on, off */
    struct hints hints;
};

/*
 * Take one occurrence of the option; Slurm may hand the same one over several times, and in nested
 * commands an inherited one before the command line's. The last one counts, but one that only says
 * "on" keeps hints that an earlier one gave. 0, or -1 with a sentence that says what is allowed.
 */
int options_take(struct options *options, const char *value, char *error, size_t error_size);

/*
 * What is in force: the option, else ADLOADER (NULL: not set), else the site's default; with the
 * option's hints, else those of ADLOADER_OPTIONS (NULL: not set). 0, or -1 with a sentence if a
 * value of the environment that would count is bad: a bad switch counts as off, bad hints as none.
 */
int options_resolve(const struct options *options, const char *env_switch, const char *env_hints,
                    bool default_on, struct hints *hints, char *error, size_t error_size);

#endif
