/* A user's own --cpu-bind: see cpubind.h. */
#include "config.h"

#include "cpubind.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

/* Words of --cpu-bind that bind nothing. */
static bool binds_nothing(const char *text, size_t length)
{
    static const char *const words[] = {"",  "q",  "quiet", "v",   "verbose",
                                        "n", "no", "none",  "help"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_word(text, length, words[i]))
            return true;
    return false;
}

bool cpubind_kind(const char *text, char *kind, size_t size)
{
    while (text != NULL && *text != '\0') {
        size_t part = strcspn(text, ",;"), name = strcspn(text, ",;:");
        if (!binds_nothing(text, name)) {
            snprintf(kind, size, "%.*s", (int)name, text);
            return true;
        }
        text += part + (text[part] != '\0');
    }
    return false;
}

/*
 * The value of --cpu-bind in this word, NULL if it is another one; "" if the value is the next
 * word. getopt takes any beginning of the name that is not another option's, and Slurm the name
 * with an underline, too.
 */
static const char *option_value(const char *word)
{
    static const char name[] = "--cpu-bind";
    size_t length = strcspn(word, "=");
    if (length < strlen("--cpu-b") || length >= sizeof name)
        return NULL;
    for (size_t i = 0; i < length; i++)
        if (word[i] != name[i] && !(i == strlen("--cpu") && word[i] == '_'))
            return NULL;
    return word[length] == '=' ? word + length + 1 : "";
}

/*
 * Words of the program are looked at, too, since only srun knows where its own end: so at worst a
 * program with such an option under an srun with --hint is left alone.
 */
bool cpubind_on_command_line(const char *words, size_t length)
{
    char kind[2];
    bool next_is_value = false;
    for (size_t at = 0; at < length;) {
        const char *word = words + at, *value = next_is_value ? word : option_value(word);
        next_is_value = !next_is_value && value != NULL && *value == '\0';
        if (value != NULL && cpubind_kind(value, kind, sizeof kind))
            return true;
        at += strlen(word) + 1;
    }
    return false;
}

/* Are the four variables as srun and slurmstepd set them, so that the whole is made of its parts?
 */
static bool made_by_slurm(const struct cpubind_env *env)
{
    size_t verbose, type;
    if (env->verbose == NULL || env->type == NULL || env->list == NULL)
        return false;
    verbose = strlen(env->verbose);
    type = strlen(env->type);
    if (strncmp(env->whole, env->verbose, verbose) != 0)
        return false;
    const char *rest = env->whole + verbose;
    if (type == 0)
        return *rest == '\0';
    return *rest == ',' && strncmp(rest + 1, env->type, type) == 0 &&
           strcmp(rest + 1 + type, env->list) == 0;
}

bool cpubind_wished(const char *words, size_t length, const struct cpubind_env *env, bool marked)
{
    char kind[2];
    if (cpubind_on_command_line(words, length))
        return true;
    if (!cpubind_kind(env->whole, kind, sizeof kind))
        return false;
    /* a step within a step: as the outer one's user wished */
    return made_by_slurm(env) ? marked : true;
}
