/*
 * adloader doctor: what is wrong with an installation, on this host, and how to mend it. doctor.c
 * finds out what kind of host this is and prints; the checks stand in one file a subject and only
 * add findings. They look, and change nothing. What other programs and files say is not trusted:
 * programs run without a shell and are bounded in time and size (command.h), and so is everything
 * that may hang (doctor_bounded()).
 */
#ifndef ADLOADER_DOCTOR_H
#define ADLOADER_DOCTOR_H

#include "args.h"
#include "cli.h"
#include "plugstack.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum doctor_level { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM };

/* What this host is for; several may be true. */
enum doctor_role { DOCTOR_LOGIN = 1, DOCTOR_NODE = 2, DOCTOR_CONTROLLER = 4 };

struct doctor_finding;

struct doctor {
    const struct cli *cli;
    unsigned roles;        /* enum doctor_role */
    bool root;             /* some things only root may look at */
    pid_t slurmd;          /* a slurmd of this host, 0 none */
    char *slurm;           /* `scontrol show config`, NULL: it does not answer */
    char version[32];      /* of Slurm on this host, "22.05.8"; "" unknown */
    struct conf *conf;     /* adloader.conf, NULL: not looked at, or refused */
    struct plugstack line; /* lines 0: there is none */
    struct args args;      /* of the line, or the defaults */
    struct doctor_finding *findings;
    size_t nfindings, capacity;
    bool lost; /* a finding was lost for lack of memory */
};

/*
 * Add a finding: about what ("munge"), what is so, and what to do ("" : nothing). All text is made
 * printable when it is shown.
 */
void doctor_say(struct doctor *d, enum doctor_level level, const char *about, const char *todo,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The value of Slurm's configuration key in buf, NULL: unknown or "(null)". */
const char *doctor_slurm_value(const struct doctor *d, const char *key, char *buf, size_t size);

/* Is word in the comma separated list that a key's value is? False if it is unknown. */
bool doctor_slurm_lists(const struct doctor *d, const char *key, const char *word);

/*
 * Run fn in a process of its own, timeout_ms at most, and take its exit status (0..255, what of fn
 * wrote to text is in text). -1: it did not end in time, or could not be run.
 */
int doctor_bounded(int (*fn)(const void *argument, char *text, size_t size), const void *argument,
                   unsigned timeout_ms, char *text, size_t size);

/* The checks. */
void doctor_check_slurm(struct doctor *d);      /* doctor_slurm.c: Slurm's commands and settings */
void doctor_check_accounting(struct doctor *d); /* ... the job's record */
void doctor_check_plugin(struct doctor *d);     /* doctor_plugin.c: plugstack.conf and the plugin */
void doctor_check_conf(struct doctor *d);       /* doctor_control.c: adloader.conf, its folders */
void doctor_check_contact(struct doctor *d);    /* ... munge, controllers */
void doctor_check_node(struct doctor *d);       /* doctor_node.c: run directory, kernel, hardware */

#endif
