/* adloader doctor: Slurm's commands and settings, as far as adloader depends on them. */
#include "config.h"

#include "doctor.h"

#include "command.h"
#include "conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCONTROL_MS  15000u
#define SCONTROL_MAX (1024u * 1024u)

/* The first line of what a program complained about. */
static void first_line(char *words)
{
    words[strcspn(words, "\n")] = '\0';
}

static void ask_scontrol(struct doctor *d)
{
    char *const argv[] = {(char[]){"scontrol"}, (char[]){"show"}, (char[]){"config"}, NULL};
    char error[256];
    struct command c;

    if (command_run("scontrol", argv, SCONTROL_MS, SCONTROL_MAX, &c, error, sizeof(error)) != 0) {
        doctor_say(d, DOCTOR_PROBLEM, "slurm",
                   "see that slurmctld runs and that this host has Slurm's client commands", "%s",
                   error);
        return;
    }
    if (c.status == 0) {
        d->slurm = c.output;
        return;
    }
    first_line(c.words);
    free(c.output);
    doctor_say(
        d, DOCTOR_PROBLEM, "slurm",
        "see that slurmctld runs, that munged does, and that SLURM_CONF names this cluster's "
        "configuration; what depends on Slurm's settings is not looked at",
        "scontrol show config fails: %s", c.words);
}

/* "slurm-wlm 22.05.8": of the programs here, which may differ from slurmctld's. */
static void ask_version(struct doctor *d)
{
    char *const argv[] = {(char[]){"scontrol"}, (char[]){"--version"}, NULL};
    char error[256];
    struct command c;

    if (command_run("scontrol", argv, SCONTROL_MS, SCONTROL_MAX, &c, error, sizeof(error)) != 0)
        return;
    if (c.status == 0) {
        first_line(c.output);
        const char *blank = strrchr(c.output, ' ');
        if (blank != NULL)
            (void)snprintf(d->version, sizeof(d->version), "%s", blank + 1);
    }
    free(c.output);
}

static void check_version(struct doctor *d)
{
    char theirs[64] = "unknown";

    (void)doctor_slurm_value(d, "SLURM_VERSION", theirs, sizeof(theirs));
    doctor_say(d, DOCTOR_OK, "slurm", "", "slurmctld %s answers; Slurm here is %s", theirs,
               d->version[0] != '\0' ? d->version : "unknown");
}

/* Without a boundary around a step it is not known which CPUs are its own. */
static void check_boundary(struct doctor *d)
{
    bool affinity = doctor_slurm_lists(d, "TaskPlugin", "task/affinity") ||
                    doctor_slurm_lists(d, "TaskPlugin", "affinity");
    bool cgroup = doctor_slurm_lists(d, "TaskPlugin", "task/cgroup") ||
                  doctor_slurm_lists(d, "TaskPlugin", "cgroup");
    bool constrained = cgroup && doctor_slurm_lists(d, "ConstrainCores", "yes");
    char plugin[256];

    if (doctor_slurm_value(d, "TaskPlugin", plugin, sizeof(plugin)) == NULL)
        (void)snprintf(plugin, sizeof(plugin), "none");
    if (!affinity && !constrained)
        doctor_say(d, DOCTOR_PROBLEM, "task plugin",
                   "set TaskPlugin=task/cgroup,task/affinity in slurm.conf (and ConstrainCores=yes "
                   "in cgroup.conf) and restart slurmctld and slurmd",
                   "TaskPlugin=%s gives steps no CPUs of their own: they only watch, and lend and "
                   "borrow nothing",
                   plugin);
    else
        doctor_say(d, DOCTOR_OK, "task plugin", "", "TaskPlugin=%s", plugin);
    if (d->slurm == NULL)
        return;
    if (!constrained)
        doctor_say(d, DOCTOR_OK, "cgroups", "",
                   "Slurm does not constrain cores: masks alone keep steps apart");
    else if (d->conf != NULL && d->conf->scope == CONF_SCOPE_JOB)
        doctor_say(
            d, DOCTOR_OK, "cgroups", "",
            "ConstrainCores=yes and Scope=job: cores move within a job, whose steps' cpusets "
            "the agents widen");
    else
        doctor_say(d, DOCTOR_OK, "cgroups", "",
                   "ConstrainCores=yes: the agents widen the cpusets of their own steps");
}

static void check_proctrack(struct doctor *d)
{
    char type[128];

    if (doctor_slurm_value(d, "ProctrackType", type, sizeof(type)) == NULL)
        return;
    if (strcmp(type, "proctrack/pgid") == 0)
        doctor_say(d, DOCTOR_WARNING, "process tracking",
                   "set ProctrackType=proctrack/cgroup in slurm.conf",
                   "%s: loaders that leave their process group are found by parentage alone", type);
    else if (strcmp(type, "proctrack/cgroup") == 0)
        doctor_say(d, DOCTOR_OK, "process tracking", "", "%s", type);
    else
        doctor_say(d, DOCTOR_OK, "process tracking", "",
                   "%s: loaders are found by parentage, those that daemonise are not", type);
}

void doctor_check_slurm(struct doctor *d)
{
    ask_version(d);
    ask_scontrol(d);
    if (d->slurm == NULL)
        return;
    check_version(d);
    if ((d->roles & (DOCTOR_NODE | DOCTOR_CONTROLLER)) == 0)
        return;
    check_boundary(d);
    check_proctrack(d);
}

/* ---- the job's record ---------------------------------------------------------------------- */

/* Does slurmdbd answer? It is asked for the clusters that it knows, as anybody may. */
static void check_dbd(struct doctor *d)
{
    char *const argv[] = {(char[]){"sacctmgr"}, (char[]){"-n"},      (char[]){"-P"},
                          (char[]){"show"},     (char[]){"cluster"}, NULL};
    char error[256] = "";
    struct command c;

    if (command_run("sacctmgr", argv, SCONTROL_MS, SCONTROL_MAX, &c, error, sizeof(error)) == 0) {
        if (c.status != 0) {
            first_line(c.words);
            (void)snprintf(error, sizeof(error), "sacctmgr fails: %.200s", c.words);
        }
        free(c.output);
    }
    if (error[0] == '\0')
        doctor_say(d, DOCTOR_OK, "accounting", "", "slurmdbd answers and keeps the jobs' records");
    else
        doctor_say(d, DOCTOR_WARNING, "accounting",
                   "see that slurmdbd runs; records wait meanwhile for as long as SacctRetryTime",
                   "slurmdbd does not answer: %s", error);
}

void doctor_check_accounting(struct doctor *d)
{
    char type[128];

    if (d->conf == NULL)
        return;
    if (d->conf->sacct_field == CONF_SACCT_NONE) {
        doctor_say(d, DOCTOR_OK, "accounting", "", "SacctField=none: no records are written");
        return;
    }
    if (d->slurm == NULL)
        return;
    if (doctor_slurm_value(d, "AccountingStorageType", type, sizeof(type)) == NULL ||
        strcmp(type, "accounting_storage/slurmdbd") != 0)
        doctor_say(d, DOCTOR_WARNING, "accounting",
                   "set SacctField=none in adloader.conf, or run slurmdbd",
                   "records of jobs are kept by slurmctld alone and are lost with the job: "
                   "AccountingStorageType is not slurmdbd");
    else if (d->conf->sacct_field == CONF_SACCT_COMMENT &&
             !doctor_slurm_lists(d, "AccountingStoreFlags", "job_comment"))
        doctor_say(d, DOCTOR_WARNING, "accounting",
                   "add job_comment to AccountingStoreFlags in slurm.conf",
                   "SacctField=Comment, but Slurm does not store comments");
    else
        check_dbd(d);
}
