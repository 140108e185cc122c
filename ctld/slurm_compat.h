/*
 * What differs in libslurm's interface between 22.05 and 26.05, read in the headers of those
 * releases:
 *
 *   - List and ListIterator became pointers to list_t and list_itr_t; the functions kept names
 *   - job_desc_msg_t and slurm_job_info_t lost job_id to step_id.job_id (25.11)
 *   - slurm_load_job() takes a slurm_step_id_t (26.05)
 *   - slurm_free_ctl_conf() is called slurm_free_conf() (26.05)
 *   - slurm_get_errno() is gone: errno has done for all
 */
#ifndef ADLOADER_SLURM_COMPAT_H
#define ADLOADER_SLURM_COMPAT_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

/* The names that this release has for them. */
typedef __typeof__(slurm_list_create(NULL)) compat_list;
typedef __typeof__(slurm_list_iterator_create(NULL)) compat_iterator;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define COMPAT_JOB_ID(job) ((job)->step_id.job_id)
#else
#define COMPAT_JOB_ID(job) ((job)->job_id)
#endif

static inline void compat_free_conf(slurm_conf_t *conf)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    slurm_free_conf(conf);
#else
    slurm_free_ctl_conf(conf);
#endif
}

static inline int compat_load_job(job_info_msg_t **response, uint32_t job)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;

    id.job_id = job;
    return slurm_load_job(response, id, 0);
#else
    return slurm_load_job(response, job, 0);
#endif
}

#endif
