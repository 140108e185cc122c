/* The parts of the JSON answers: keys carry units, null is unknown, CPU lists are Slurm lists. */
#ifndef ADLOADER_ANSWER_H
#define ADLOADER_ANSWER_H

#include "registry.h"

#include <json.h>
#include <stdbool.h>

struct ctld;

/* Each returns a new object, or NULL (ENOMEM). */
json_object *answer_controller(const struct ctld *ctld);
json_object *answer_node(const struct ctld *ctld, const struct node *node);
json_object *answer_member(const struct ctld *ctld, const struct member *member, bool explain);

/* Add value (taken over, also on failure) under key, or to the array. False: no memory. */
bool answer_put(json_object *object, const char *key, json_object *value);
bool answer_add(json_object *array, json_object *value);

#endif
