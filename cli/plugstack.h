/*
 * The plugin's line in Slurm's plugstack.conf, found as Slurm's own reader would: includes with
 * patterns, relative to the file that they stand in; comments; words parted by blanks.
 */
#ifndef ADLOADER_PLUGSTACK_H
#define ADLOADER_PLUGSTACK_H

#include <stdbool.h>
#include <stddef.h>

#define PLUGSTACK_PLUGIN    "spank_adloader.so"
#define PLUGSTACK_WORDS_MAX 32
#define PLUGSTACK_LINE_MAX  4096 /* bytes that Slurm reads of a line */
#define PLUGSTACK_FILES_MAX 256  /* that includes may name, nested ones counted */

struct plugstack {
    unsigned files;  /* that were read */
    unsigned lines;  /* that name the plugin; the first one counts */
    char file[4096]; /* where it stands */
    unsigned number; /* of the line, from 1 */
    bool required;   /* or optional */
    char text[PLUGSTACK_LINE_MAX];
    const char *path;                       /* as written, in text */
    const char *words[PLUGSTACK_WORDS_MAX]; /* behind it, in text */
    int nwords;
};

/*
 * Read file and what it includes. 0, or -1 with a sentence: the file, or one that it includes,
 * cannot be read. Without a line of the plugin lines is 0. p must not be moved.
 */
int plugstack_read(const char *file, struct plugstack *p, char *error, size_t error_size);

/*
 * The plugin's file: path itself if it is absolute, else the first that exists in the directories
 * of plugin_dir, parted by colons. 0, or -1: there is none; file then names where it should be.
 */
int plugstack_find(const char *path, const char *plugin_dir, char *file, size_t size);

#endif
