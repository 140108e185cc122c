/* The lines of a profile's file, known to profile.c and profile_store.c. */
#ifndef ADLOADER_PREDICTOR_PROFILE_TEXT_H
#define ADLOADER_PREDICTOR_PROFILE_TEXT_H

#include "keyvalue.h"

extern const struct pred_kv_field PRED_PROFILE_FIELDS[];

#endif
