/* Numbers in JSON documents: see number.h. */
#include "config.h"

#include "number.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>

struct json_object *number_json(double value)
{
    char text[64];

    if (!isfinite(value))
        return NULL;
    if (snprintf(text, sizeof(text), "%.10g", value) < 0)
        return NULL;
    return json_object_new_double_s(value, text);
}
