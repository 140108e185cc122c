/* Names as people write them: comparison without case and separators, and the nearest of a list. */
#ifndef ADLOADER_PREDICTOR_NAMES_NEAR_H
#define ADLOADER_PREDICTOR_NAMES_NEAR_H

#include <stdbool.h>
#include <stddef.h>

bool pred_names_equal(const char *a, const char *b);
bool pred_names_contain(const char *whole, const char *part);

/* Changes (insert, delete, replace one letter, swap two neighbours) between the normalised names.
 */
unsigned pred_names_distance(const char *a, const char *b);

/* Collects the nearest names one by one; then prints them. */
#define PRED_NEAR 3
struct pred_near {
    const char *wanted;
    unsigned n;
    const char *names[PRED_NEAR];
    unsigned distance[PRED_NEAR];
};
void pred_near_offer(struct pred_near *near, const char *name);
void pred_near_print(const struct pred_near *near, char *text, size_t size); /* "a, b or c" */

#endif
