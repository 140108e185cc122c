/* The controller's status document: fetched, filtered and printed; status, top and explain share
 * it. */
#ifndef ADLOADER_STATUS_H
#define ADLOADER_STATUS_H

#include "client.h"
#include "doc.h"

#include <stdio.h>

/* The types of the controller's part and of one member; explain adds its own keys to a member's. */
extern const struct doc_rule status_controller_rules[];
extern const struct doc_rule status_borrow_rules[];

/* The keys that a member has in every document. */
#define STATUS_MEMBER_RULES                                                                        \
    {"id", DOC_TEXT, true, NULL}, {"job", DOC_NUMBER, false, NULL},                                \
        {"step", DOC_TEXT, false, NULL}, {"node", DOC_TEXT, true, NULL},                           \
        {"uid", DOC_NUMBER, false, NULL}, {"state", DOC_TEXT, false, NULL},                        \
        {"cpu_bind", DOC_TEXT, false, NULL}, {"own_cpus", DOC_TEXT, false, NULL},                  \
        {"claim_cpus", DOC_TEXT, false, NULL}, {"main_cpus", DOC_TEXT, false, NULL},               \
        {"loader_cpus", DOC_TEXT, false, NULL}, {"held_cpus", DOC_TEXT, false, NULL},              \
        {"placement", DOC_TEXT, false, NULL}, {"loader_cores", DOC_NUMBER, false, NULL},           \
        {"own_loader_cores", DOC_NUMBER, false, NULL}, {"lent_cores", DOC_NUMBER, false, NULL},    \
        {"borrowed_cores", DOC_NUMBER, false, NULL},                                               \
        {"borrowed_from", DOC_OBJECTS, false, status_borrow_rules},                                \
        {"lent_to", DOC_OBJECTS, false, status_borrow_rules}, {"tasks", DOC_NUMBER, false, NULL},  \
        {"loader_tasks", DOC_NUMBER, false, NULL}, {"workers", DOC_NUMBER, false, NULL},           \
        {"loader_use_cores", DOC_NUMBER, false, NULL},                                             \
        {"gpu_busy_share", DOC_NUMBER, false, NULL}, {"samples_per_s", DOC_NUMBER, false, NULL},   \
        {"demand_cores", DOC_NUMBER, false, NULL}, {"verdict", DOC_TEXT, false, NULL},             \
        {"quota_cores", DOC_NUMBER, false, NULL}, {"evidence", DOC_TEXT, false, NULL},             \
        {"advice", DOC_TEXT, false, NULL}, {"moves", DOC_NUMBER, false, NULL},                     \
        {"drift", DOC_NUMBER, false, NULL}, {"failed_binds", DOC_NUMBER, false, NULL},             \
        {"age_s", DOC_NUMBER, false, NULL}, {"report_age_s", DOC_NUMBER, false, NULL},             \
    {                                                                                              \
        "hints", DOC_TEXT, false, NULL                                                             \
    }

/* What of it to show. */
struct status_filter {
    const char *job;  /* "12" or "12.0"; NULL all */
    const char *node; /* NULL all */
};

/* Read --job and --node of a command; false after a complaint (then the exit status is CLI_USAGE).
 */
bool status_filter_options(const struct cli *cli, struct status_filter *filter);

/* Is text a job, or a job and step ("12", "12.0", "12.batch")? */
bool status_is_job(const char *text);

/* Parse and check an answer. A new document, or NULL with a sentence in error. */
struct json_object *status_parse(const char *text, size_t length, char *error, size_t error_size);

/* Ask, parse, check and filter. Returns a new document, or NULL with a sentence in error. */
struct json_object *status_fetch(const struct client_address *address,
                                 const struct status_filter *filter, char *error,
                                 size_t error_size);

/* The tables for people; 0 or -1 (no memory). */
int status_print(struct json_object *document, FILE *out);

/* The line that says who answered, and under what policy. */
void status_print_controller(struct json_object *controller, FILE *out);

#endif
