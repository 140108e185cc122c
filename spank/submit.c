/* The plugin's part in srun, sbatch and salloc: see submit.h. */
#include "config.h"

#include "submit.h"

#include "cpubind.h"
#include "msg.h"
#include "options.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <slurm/spank.h>

#define TEXT_SIZE  2048
#define WORDS_SIZE (64u * 1024u) /* of srun's command line; what lies behind is the program's */

static struct options options;
static bool default_on;
static bool on; /* submit_check() found so */
static char plugstack_error[TEXT_SIZE];

/* ---- what travels in the environment ---- */

/* Say a variable once more under a name that --export=NONE lets through. */
static void send_along(const char *name, const char *sent_name)
{
    const char *value = getenv(name);
    if (value != NULL && setenv(sent_name, value, 1) < 0)
        slurm_error("adloader: %s cannot be handed on: out of memory", name);
}

/* As the user has set it, or as it came from the command that started this one. */
static const char *sent(const char *name, const char *sent_name)
{
    const char *value = getenv(name);
    return value != NULL ? value : getenv(sent_name);
}

/* This command's words, a NUL behind each. Returns how many bytes; 0 if they cannot be read. */
static size_t command_line(char *words, size_t size)
{
    size_t length = 0;
    ssize_t n = 1;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (length < size - 1 && n > 0) {
        n = read(fd, words + length, size - 1 - length);
        length += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    words[length] = '\0';
    return length;
}

/* Note for the step's nodes whether the user wishes a binding of the tasks. */
static void note_binding(void)
{
    const struct cpubind_env env = {getenv("SLURM_CPU_BIND"), getenv("SLURM_CPU_BIND_VERBOSE"),
                                    getenv("SLURM_CPU_BIND_TYPE"), getenv("SLURM_CPU_BIND_LIST")};
    char *words = malloc(WORDS_SIZE);
    size_t length = words != NULL ? command_line(words, WORDS_SIZE) : 0;
    if (!cpubind_wished(words, length, &env, getenv(CPUBIND_MARK) != NULL))
        (void)unsetenv(CPUBIND_MARK);
    else if (setenv(CPUBIND_MARK, "1", 1) < 0)
        slurm_error("adloader: --cpu-bind cannot be handed on: out of memory");
    free(words);
}

/* ---- the callbacks ---- */

void submit_init(const struct args *args, const char *args_error, bool is_srun)
{
    memset(&options, 0, sizeof options);
    default_on = args->default_on;
    snprintf(plugstack_error, sizeof plugstack_error, "%s", args_error);
    send_along(OPTIONS_ENV_SWITCH, OPTIONS_ENV_SWITCH_SENT);
    send_along(OPTIONS_ENV_HINTS, OPTIONS_ENV_HINTS_SENT);
    if (is_srun)
        note_binding();
}

int submit_option(const char *value)
{
    char error[TEXT_SIZE];
    if (options_take(&options, value, error, sizeof error) == 0)
        return 0;
    slurm_error("--adloader: %s", error);
    return -1;
}

int submit_check(void)
{
    char error[TEXT_SIZE];
    struct hints hints;
    if (options_resolve(&options, sent(OPTIONS_ENV_SWITCH, OPTIONS_ENV_SWITCH_SENT),
                        sent(OPTIONS_ENV_HINTS, OPTIONS_ENV_HINTS_SENT), default_on, &hints, error,
                        sizeof error) < 0) {
        slurm_error("adloader: %s", error);
        return -1;
    }
    on = hints.on;
    if (on && plugstack_error[0] != '\0')
        slurm_spank_log("adloader: %s", plugstack_error);
    return 0;
}

/* srun has described its binding in the environment by now. */
void submit_launch(void)
{
    char kind[MSG_BIND_MAX];
    if (on && getenv(CPUBIND_MARK) != NULL &&
        cpubind_kind(getenv("SLURM_CPU_BIND"), kind, sizeof kind))
        slurm_spank_log("adloader: you have bound the tasks (--cpu-bind=%s): they stay as they "
                        "are, and this step neither lends nor borrows cores",
                        kind);
}
