/* Names of policies and guarantees, as configuration and documents write them. */
#include "config.h"

#include "alloc.h"

#include <string.h>

static const char *const policy_names[] = {"gpu-busy", "nash", "max-min",
                                           "makespan", "even", "static"};
static const char *const guarantee_names[] = {"own", "even", "none"};

static int name_parse(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; name != NULL && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

const char *alloc_policy_name(enum alloc_policy policy)
{
    size_t n = sizeof(policy_names) / sizeof(*policy_names);

    return (size_t)policy < n ? policy_names[policy] : "unknown";
}

int alloc_policy_parse(const char *name)
{
    return name_parse(policy_names, sizeof(policy_names) / sizeof(*policy_names), name);
}

const char *alloc_guarantee_name(enum alloc_guarantee guarantee)
{
    size_t n = sizeof(guarantee_names) / sizeof(*guarantee_names);

    return (size_t)guarantee < n ? guarantee_names[guarantee] : "unknown";
}

int alloc_guarantee_parse(const char *name)
{
    return name_parse(guarantee_names, sizeof(guarantee_names) / sizeof(*guarantee_names), name);
}
