/* Names of the enumerations, as people and JSON see them. */
#include "predictor.h"

const char *pred_limit_name(enum pred_limit limit)
{
    switch (limit) {
    case PRED_LIMIT_GPU:
        return "gpu";
    case PRED_LIMIT_LOADER:
        return "loader";
    case PRED_LIMIT_WORKERS:
        return "workers";
    case PRED_LIMIT_IO:
        return "io";
    case PRED_LIMIT_MAIN_THREAD:
        return "main-thread";
    case PRED_LIMIT_QUOTA:
        return "quota";
    case PRED_LIMIT_UNKNOWN:
    case PRED_LIMITS:
        break;
    }
    return "unknown";
}

const char *pred_source_name(enum pred_source source)
{
    switch (source) {
    case PRED_STATIC:
        return "static";
    case PRED_PROFILE:
        return "profile";
    case PRED_MEASURED:
        return "measured";
    case PRED_UNKNOWN:
        break;
    }
    return "unknown";
}
