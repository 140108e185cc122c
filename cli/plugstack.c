/* The plugin's line in plugstack.conf: see plugstack.h. */
#include "config.h"

#include "plugstack.h"

#include <errno.h>
#include <glob.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLANKS    " \t\n\r"
#define DEPTH_MAX 8

struct reading {
    struct plugstack *p;
    char *error;
    size_t error_size;
    unsigned depth;
};

static int read_file(struct reading *r, const char *file);

static int fail(struct reading *r, const char *what, const char *file, const char *why)
{
    (void)snprintf(r->error, r->error_size, "%s %s: %s", what, file, why);
    return -1;
}

static bool names_plugin(const char *path)
{
    const char *slash = strrchr(path, '/');

    return strcmp(slash != NULL ? slash + 1 : path, PLUGSTACK_PLUGIN) == 0;
}

/* line: of file, without comment; it is kept if it is the first of the plugin. */
static void take_plugin(struct plugstack *p, const char *file, unsigned number, const char *line)
{
    char *saved = NULL, *word;

    if (p->lines++ > 0)
        return;
    (void)snprintf(p->file, sizeof(p->file), "%s", file);
    p->number = number;
    (void)snprintf(p->text, sizeof(p->text), "%s", line);
    word = strtok_r(p->text, BLANKS, &saved);
    p->required = word != NULL && strcmp(word, "required") == 0;
    p->path = strtok_r(NULL, BLANKS, &saved);
    while (p->nwords < PLUGSTACK_WORDS_MAX && (word = strtok_r(NULL, BLANKS, &saved)) != NULL)
        p->words[p->nwords++] = word;
}

static int take_include(struct reading *r, const char *file, const char *pattern)
{
    char beside[4096], folder[4096];
    glob_t found;
    int rc = 0;

    if (pattern[0] != '/') {
        (void)snprintf(folder, sizeof(folder), "%s", file);
        int n = snprintf(beside, sizeof(beside), "%s/%s", dirname(folder), pattern);
        if (n < 0 || (size_t)n >= sizeof(beside))
            return fail(r, "cannot include", pattern, "the path is too long");
        pattern = beside;
    }
    if (r->depth >= DEPTH_MAX)
        return fail(r, "cannot include", pattern, "files include each other too deeply");
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0; /* as Slurm does: a pattern may match nothing */
    r->depth++;
    for (size_t i = 0; i < found.gl_pathc && rc == 0; i++)
        rc = read_file(r, found.gl_pathv[i]);
    r->depth--;
    globfree(&found);
    return rc;
}

static int take_line(struct reading *r, const char *file, unsigned number, char *line)
{
    char copy[PLUGSTACK_LINE_MAX], *saved = NULL, *kind, *path;

    line[strcspn(line, "#")] = '\0';
    (void)snprintf(copy, sizeof(copy), "%s", line);
    kind = strtok_r(copy, BLANKS, &saved);
    path = kind != NULL ? strtok_r(NULL, BLANKS, &saved) : NULL;
    if (path == NULL)
        return 0;
    if (strcmp(kind, "include") == 0)
        return take_include(r, file, path);
    if ((strcmp(kind, "required") == 0 || strcmp(kind, "optional") == 0) && names_plugin(path))
        take_plugin(r->p, file, number, line);
    return 0;
}

static int read_file(struct reading *r, const char *file)
{
    char line[PLUGSTACK_LINE_MAX];
    unsigned number = 0;
    struct stat st;
    int rc = 0;

    if (++r->p->files > PLUGSTACK_FILES_MAX)
        return fail(r, "cannot read", file, "too many files are included");
    FILE *in = stat(file, &st) == 0 && S_ISREG(st.st_mode) ? fopen(file, "re") : NULL;
    if (in == NULL)
        return fail(r, "cannot read", file, errno != 0 ? strerror(errno) : "no regular file");
    while (rc == 0 && fgets(line, sizeof(line), in) != NULL)
        rc = take_line(r, file, ++number, line);
    if (rc == 0 && ferror(in) != 0)
        rc = fail(r, "cannot read", file, strerror(errno));
    (void)fclose(in);
    return rc;
}

int plugstack_read(const char *file, struct plugstack *p, char *error, size_t error_size)
{
    struct reading r = {p, error, error_size, 0};

    memset(p, 0, sizeof(*p));
    errno = 0;
    return read_file(&r, file);
}

int plugstack_find(const char *path, const char *plugin_dir, char *file, size_t size)
{
    int n = snprintf(file, size, "%s", path);

    if (path[0] == '/')
        return n >= 0 && (size_t)n < size && access(file, F_OK) == 0 ? 0 : -1;
    for (const char *at = plugin_dir; *at != '\0'; at += strspn(at, ":")) {
        size_t length = strcspn(at, ":");
        n = snprintf(file, size, "%.*s/%s", (int)length, at, path);
        if (n >= 0 && (size_t)n < size && access(file, F_OK) == 0)
            return 0;
        at += length;
    }
    return -1;
}
