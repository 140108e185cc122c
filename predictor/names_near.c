/* See names_near.h. */
#include "names_near.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LETTERS 64

static size_t normalise(const char *name, char *text)
{
    size_t n = 0;

    for (; *name != '\0' && n + 1 < LETTERS; name++)
        if (strchr("-_. ", *name) == NULL)
            text[n++] = (char)tolower((unsigned char)*name);
    text[n] = '\0';
    return n;
}

bool pred_names_equal(const char *a, const char *b)
{
    char left[LETTERS], right[LETTERS];

    return normalise(a, left) > 0 && normalise(b, right) > 0 && strcmp(left, right) == 0;
}

bool pred_names_contain(const char *whole, const char *part)
{
    char left[LETTERS], right[LETTERS];

    return normalise(whole, left) > 0 && normalise(part, right) > 0 && strstr(left, right) != NULL;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Optimal string alignment (Damerau 1964 with neighbours swapped once), three rows of its table. */
unsigned pred_names_distance(const char *name_a, const char *name_b)
{
    char a[LETTERS], b[LETTERS];
    size_t n = normalise(name_a, a), m = normalise(name_b, b);
    unsigned before[LETTERS + 1], last[LETTERS + 1], now[LETTERS + 1] = {0};

    for (size_t j = 0; j <= m; j++)
        before[j] = last[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            now[j] =
                least(least(last[j] + 1, now[j - 1] + 1), last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        memcpy(before, last, sizeof(before));
        memcpy(last, now, sizeof(last));
    }
    return last[m];
}

static bool begins_with(const char *name, const char *start)
{
    char a[LETTERS], b[LETTERS];
    size_t n = normalise(name, a), m = normalise(start, b);

    return m >= 2 && n > m && strncmp(a, b, m) == 0;
}

void pred_near_offer(struct pred_near *near, const char *name)
{
    char wanted[LETTERS];
    unsigned distance = pred_names_distance(near->wanted, name);
    unsigned far = (unsigned)normalise(near->wanted, wanted) / 2 + 1;
    unsigned at = near->n;

    if (begins_with(name, near->wanted) || begins_with(near->wanted, name))
        distance = least(distance, 1);
    if (distance > far)
        return;
    while (at > 0 && near->distance[at - 1] > distance)
        at--;
    if (at == PRED_NEAR)
        return;
    if (near->n < PRED_NEAR)
        near->n++;
    for (unsigned i = near->n - 1; i > at; i--) {
        near->names[i] = near->names[i - 1];
        near->distance[i] = near->distance[i - 1];
    }
    near->names[at] = name;
    near->distance[at] = distance;
}

void pred_near_print(const struct pred_near *near, char *text, size_t size)
{
    size_t used = 0;

    if (size > 0)
        text[0] = '\0';
    for (unsigned i = 0; i < near->n && used < size; i++) {
        const char *between = i == 0 ? "" : i + 1 == near->n ? " or " : ", ";
        int n = snprintf(text + used, size - used, "%s%s", between, near->names[i]);

        if (n < 0)
            return;
        used += (size_t)n;
    }
}
