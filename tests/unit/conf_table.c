/*
 * The configuration file's keys as text, for the shell tests that compare manual page and example
 * with them:
 *
 *     conf_table keys          a line each, parted by tabs: KEY, DEFAULT, MEANING, ALLOWED
 *     conf_table check FILE    is FILE accepted? Prints the complaints if not.
 *     conf_table print FILE    what is in force with it
 */
#include "conf.h"

#include <stdio.h>
#include <string.h>

/* Never empty, since the shell's read takes two tabs for one. */
static const char *shown(const char *preset)
{
    if (preset == NULL)
        return "-";
    return preset[0] != '\0' ? preset : "\"\"";
}

static int print_keys(const struct conf_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char allowed[512];
        int n = conf_key_allowed(&keys[i], allowed, sizeof(allowed));
        if (n < 0 || (size_t)n >= sizeof(allowed))
            return 1;
        printf("%s\t%s\t%s\t%s\n", keys[i].name, shown(keys[i].preset), keys[i].meaning, allowed);
    }
    return 0;
}

static int print_tables(void)
{
    size_t count;
    const struct conf_key *keys = conf_keys(&count);

    if (print_keys(keys, count) != 0)
        return 1;
    keys = conf_node_keys(&count);
    return print_keys(keys, count);
}

static int read_file(const char *file, int print)
{
    char error[4096];
    struct conf *conf = conf_read(file, error, sizeof(error));

    if (conf == NULL) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    int result = print && conf_print(conf, stdout) != 0;
    conf_free(conf);
    return result;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "keys") == 0)
        return print_tables();
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        return read_file(argv[2], 0);
    if (argc == 3 && strcmp(argv[1], "print") == 0)
        return read_file(argv[2], 1);
    fprintf(stderr, "usage: conf_table keys | check FILE | print FILE\n");
    return 2;
}
