/* Numbers in JSON documents of ours. */
#ifndef ADLOADER_NUMBER_H
#define ADLOADER_NUMBER_H

struct json_object;

/* With ten digits, which is more than anything here knows; null when not finite. */
struct json_object *number_json(double value);

#endif
