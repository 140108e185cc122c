/* adloader doctor: the plugin's line in plugstack.conf, the file that it names, and whether Slurm
 * takes it. */
#include "config.h"

#include "doctor.h"

#include "command.h"
#include "elfword.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SRUN_MS  8000u
#define SRUN_MAX (1024u * 1024u)

/* Where a configless slurmd keeps what slurmctld has sent it. */
#define CONFIGLESS_FILE "/run/slurm/conf/plugstack.conf"

#define LINE_TO_ADD "optional " PLUGSTACK_PLUGIN " controller=HOST:PORT"

/* ---- plugstack.conf ------------------------------------------------------------------------ */

/* Where Slurm looks on this host: its PlugStackConfig, else beside slurm.conf. */
static const char *plugstack_file(const struct doctor *d, char *buf, size_t size)
{
    const char *given = cli_value(d->cli, "plugstack");
    char conf[PATH_MAX];

    if (given != NULL)
        return given;
    if (doctor_slurm_value(d, "PlugStackConfig", buf, size) != NULL && access(buf, R_OK) == 0)
        return buf;
    const char *env = getenv("SLURM_CONF");
    (void)snprintf(conf, sizeof(conf), "%s", env != NULL ? env : "/etc/slurm/slurm.conf");
    char *slash = strrchr(conf, '/');
    if (slash != NULL) {
        *slash = '\0';
        if (snprintf(buf, size, "%s/plugstack.conf", conf) < (int)size && access(buf, R_OK) == 0)
            return buf;
    }
    if (access(CONFIGLESS_FILE, R_OK) == 0)
        return CONFIGLESS_FILE;
    return doctor_slurm_value(d, "PlugStackConfig", buf, size) != NULL ? buf : NULL;
}

/* False: without the line there is no more to look at. */
static bool check_line(struct doctor *d)
{
    char buf[PATH_MAX], error[512];
    const char *file = plugstack_file(d, buf, sizeof(buf));
    struct plugstack *line = &d->line;

    if (file == NULL) {
        doctor_say(d, DOCTOR_PROBLEM, "plugstack.conf",
                   "make one beside slurm.conf with the line: " LINE_TO_ADD,
                   "there is none on this host");
        return false;
    }
    if (plugstack_read(file, line, error, sizeof(error)) < 0) {
        doctor_say(d, DOCTOR_PROBLEM, "plugstack.conf",
                   "make it readable for all, with the line: " LINE_TO_ADD, "%s", error);
        if (line->lines == 0)
            return false;
    } else if (line->lines == 0) {
        doctor_say(d, DOCTOR_PROBLEM, "plugstack.conf",
                   "add the line: " LINE_TO_ADD " (on configless clusters to the file itself: what "
                   "it includes may not reach the nodes)",
                   "%s, with what it includes (%u files), has no line for " PLUGSTACK_PLUGIN, file,
                   line->files);
        return false;
    }
    if (line->lines > 1)
        doctor_say(d, DOCTOR_WARNING, "plugstack.conf", "leave one line",
                   "%u lines name " PLUGSTACK_PLUGIN "; Slurm takes the first, %s line %u",
                   line->lines, line->file, line->number);
    if (line->required)
        doctor_say(d, DOCTOR_WARNING, "plugstack.conf", "write optional instead of required",
                   "%s line %u says required: where the plugin does not load, no job starts",
                   line->file, line->number);
    else
        doctor_say(d, DOCTOR_OK, "plugstack.conf", "", "%s line %u", line->file, line->number);
    return true;
}

/* The plugin's own reader judges its words. */
static void check_words(struct doctor *d)
{
    char *words[PLUGSTACK_WORDS_MAX], error[1024] = "";

    for (int i = 0; i < d->line.nwords; i++)
        words[i] = (char *)(size_t)d->line.words[i];
    if (args_parse(&d->args, d->line.nwords, words, error, sizeof(error)) < 0)
        doctor_say(d, DOCTOR_PROBLEM, "plugin's words",
                   "correct the line; a word that is not understood is as if it were not there",
                   "%s line %u: %s", d->line.file, d->line.number, error);
    else
        doctor_say(d, DOCTOR_OK, "plugin's words", "", "%d words, all understood", d->line.nwords);
}

/* ---- the file ------------------------------------------------------------------------------ */

/* Slurm's root processes load it. */
static void check_owner(struct doctor *d, const char *file)
{
    struct stat st;

    if (stat(file, &st) == 0 && (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0))
        doctor_say(d, DOCTOR_PROBLEM, "plugin",
                   "chown root and chmod 755 the file, and see who "
                   "may write to its folder",
                   "%s can be changed by others than root, and root's slurmd loads it", file);
    if (access(file, R_OK) < 0)
        doctor_say(d, DOCTOR_PROBLEM, "plugin", "chmod 755 the file, and its folders 755",
                   "%s cannot be read by this user: %s", file, strerror(errno));
}

/* "22.05.8", and the part of it that has to agree: "22.05". */
static void check_version(struct doctor *d, const char *file)
{
    const char *theirs = d->version;
    char error[256], ours[16];
    uint32_t version;

    if (elfword_read(file, "plugin_version", &version, error, sizeof(error)) < 0) {
        doctor_say(d, DOCTOR_PROBLEM, "plugin", "install adloader anew", "%s %s", file, error);
        return;
    }
    (void)snprintf(ours, sizeof(ours), "%02u.%02u", (version >> 16) & 0xff, (version >> 8) & 0xff);
    if (theirs[0] == '\0')
        doctor_say(d, DOCTOR_OK, "plugin", "", "%s, for Slurm %s", file, ours);
    else if (strncmp(theirs, ours, strlen(ours)) == 0 && theirs[strlen(ours)] == '.')
        doctor_say(d, DOCTOR_OK, "plugin", "", "%s, for Slurm %s; this is %s", file, ours, theirs);
    else
        doctor_say(d, DOCTOR_PROBLEM, "plugin",
                   "build adloader with the headers of this release (configure says which one it "
                   "found) and install it",
                   "%s is for Slurm %s, and this is %s: it is not loaded", file, ours, theirs);
}

/* Slurm itself loads it: srun's help then knows the option. */
static void check_loads(struct doctor *d)
{
    char *const argv[] = {(char[]){"srun"}, (char[]){"--help"}, NULL};
    char error[256];
    struct command c;

    if (command_run("srun", argv, SRUN_MS, SRUN_MAX, &c, error, sizeof(error)) != 0) {
        doctor_say(d, DOCTOR_WARNING, "loading", "", "not tried: %s", error);
        return;
    }
    c.words[strcspn(c.words, "\n")] = '\0';
    if (strstr(c.output, "--adloader") != NULL)
        doctor_say(d, DOCTOR_OK, "loading", "", "srun loads the plugin and knows --adloader");
    else
        doctor_say(d, DOCTOR_PROBLEM, "loading",
                   "see the other findings about the plugin; srun -vvv "
                   "--help says more",
                   "srun does not know --adloader%s%s", c.words[0] != '\0' ? ": " : "", c.words);
    free(c.output);
}

void doctor_check_plugin(struct doctor *d)
{
    char file[PATH_MAX], folders[PATH_MAX] = "";

    if (!check_line(d))
        return;
    check_words(d);
    if (d->line.path[0] != '/' &&
        doctor_slurm_value(d, "PluginDir", folders, sizeof(folders)) == NULL) {
        doctor_say(d, DOCTOR_WARNING, "plugin", "",
                   "%s is looked for in Slurm's PluginDir, which is not known here", d->line.path);
    } else if (plugstack_find(d->line.path, folders, file, sizeof(file)) < 0) {
        doctor_say(d, DOCTOR_PROBLEM, "plugin",
                   "install adloader on this host, or correct the path (configure prints where the "
                   "plugin goes)",
                   "there is no %s%s%s", d->line.path, folders[0] != '\0' ? " in " : "", folders);
    } else {
        check_owner(d, file);
        check_version(d, file);
    }
    if (cli_value(d->cli, "plugstack") == NULL)
        check_loads(d);
}
