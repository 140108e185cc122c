/* Slurm host lists "n[01-16],login" expanded to names. */
#include "conf.h"
#include "msg.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growing list of names, NULL-terminated from the first one on. */
struct names {
    char **list;
    size_t count, capacity;
};

static void names_free(struct names *names)
{
    int error = errno; /* of a failure being cleaned up after */
    conf_hostlist_free(names->list);
    *names = (struct names){0};
    errno = error;
}

/* Append prefix followed by text[0..length). */
static int names_add(struct names *names, const char *prefix, const char *text, size_t length)
{
    if (names->count == CONF_NODES_MAX) {
        errno = ERANGE;
        return -1;
    }
    size_t prefix_length = strlen(prefix);
    if (prefix_length + length >= MSG_NAME_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (names->count + 1 >= names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 16;
        char **list = realloc(names->list, capacity * sizeof(*list));
        if (!list)
            return -1;
        names->list = list;
        names->capacity = capacity;
        list[names->count] = NULL;
    }
    char *name = malloc(prefix_length + length + 1);
    if (!name)
        return -1;
    memcpy(name, prefix, prefix_length);
    memcpy(name + prefix_length, text, length);
    name[prefix_length + length] = '\0';
    names->list[names->count++] = name;
    names->list[names->count] = NULL;
    return 0;
}

/* One number of a bracket, with its width. At most 9 digits, so that it fits. */
static int read_index(const char **at, unsigned long *value, int *width)
{
    unsigned long v = 0;
    const char *start = *at;
    for (; isdigit((unsigned char)**at); (*at)++) {
        if (*at - start == 9)
            return -1;
        v = v * 10 + (unsigned long)(**at - '0');
    }
    *value = v;
    *width = (int)(*at - start);
    return *width ? 0 : -1;
}

/* "1-3" or "007": all its numbers behind each of the prefixes. */
static int expand_range(const char **at, const struct names *prefixes, struct names *out)
{
    unsigned long first, last;
    int width, last_width;
    if (read_index(at, &first, &width) < 0)
        goto malformed;
    last = first;
    if (**at == '-') {
        (*at)++;
        if (read_index(at, &last, &last_width) < 0 || last < first)
            goto malformed;
    }
    for (size_t i = 0; i < prefixes->count; i++)
        for (unsigned long n = first; n <= last; n++) {
            char digits[32];
            int length = snprintf(digits, sizeof(digits), "%0*lu", width, n);
            if (names_add(out, prefixes->list[i], digits, (size_t)length) < 0)
                return -1;
        }
    return 0;
malformed:
    errno = EINVAL;
    return -1;
}

/* "[1-3,7]", at its bracket: replaces the prefixes by their continuations. */
static int expand_bracket(const char **at, struct names *prefixes)
{
    struct names out = {0};
    do {
        (*at)++; /* the bracket or comma */
        if (expand_range(at, prefixes, &out) < 0)
            goto failed;
    } while (**at == ',');
    if (**at != ']') {
        errno = EINVAL;
        goto failed;
    }
    (*at)++;
    names_free(prefixes);
    *prefixes = out;
    return 0;
failed:
    names_free(&out);
    return -1;
}

/* Plain characters up to the next bracket or comma, behind each of the prefixes. */
static int expand_plain(const char **at, struct names *prefixes)
{
    struct names out = {0};
    size_t length = strcspn(*at, "[,");
    for (size_t i = 0; i < prefixes->count; i++)
        if (names_add(&out, prefixes->list[i], *at, length) < 0) {
            names_free(&out);
            return -1;
        }
    *at += length;
    names_free(prefixes);
    *prefixes = out;
    return 0;
}

/* One element of the list, up to its comma. */
static int expand_element(const char **at, struct names *out)
{
    struct names element = {0};
    if (names_add(&element, "", "", 0) < 0)
        return -1;
    while (**at && **at != ',') {
        int rc = **at == '[' ? expand_bracket(at, &element) : expand_plain(at, &element);
        if (rc < 0)
            goto failed;
    }
    for (size_t i = 0; i < element.count; i++) {
        const char *name = element.list[i];
        if (!msg_is_node_name(name)) {
            errno = EINVAL;
            goto failed;
        }
        if (names_add(out, name, "", 0) < 0)
            goto failed;
    }
    names_free(&element);
    return 0;
failed:
    names_free(&element);
    return -1;
}

char **conf_hostlist(const char *text, size_t *count)
{
    struct names names = {0};
    for (const char *at = text;; at++) {
        if (expand_element(&at, &names) < 0) {
            names_free(&names);
            return NULL;
        }
        if (!*at)
            break;
    }
    *count = names.count;
    return names.list;
}

void conf_hostlist_free(char **names)
{
    for (char **name = names; name && *name; name++)
        free(*name);
    free(names);
}
