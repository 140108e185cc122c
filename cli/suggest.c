/* Finding the names nearest to a mistyped one: see suggest.h. */
#include "config.h"

#include "suggest.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WORD_MAX 64u
#define SHOWN    3u

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t suggest_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    /* three rows of the table: two back for a swap, one back, and the current one */
    size_t rows[3][WORD_MAX + 1];

    if (la > WORD_MAX || lb > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[la % 3][lb];
}

/* How far a name is from word for ranking; SIZE_MAX: not worth naming. */
static size_t rank(const char *word, const char *name)
{
    size_t length = strlen(word);

    if (length == 0)
        return SIZE_MAX;
    if (strncmp(word, name, length) == 0)
        return 0; /* only begun */
    size_t distance = suggest_distance(word, name);
    return distance <= 1 + length / 3 ? distance : SIZE_MAX;
}

void suggest(const char *word, const char *prefix, const char *const *names, size_t nnames,
             char *buf, size_t size)
{
    const char *best[SHOWN];
    size_t ranks[SHOWN], found = 0;

    if (size == 0)
        return;
    buf[0] = '\0';
    for (size_t i = 0; i < nnames; i++) {
        size_t r = rank(word, names[i]);
        if (r == SIZE_MAX)
            continue;
        size_t at = found;
        while (at > 0 && ranks[at - 1] > r)
            at--;
        if (at >= SHOWN)
            continue;
        size_t last = found < SHOWN ? found : SHOWN - 1;
        for (size_t k = last; k > at; k--) {
            best[k] = best[k - 1];
            ranks[k] = ranks[k - 1];
        }
        best[at] = names[i];
        ranks[at] = r;
        found = last + 1;
    }
    size_t used = 0;
    for (size_t i = 0; i < found; i++) {
        const char *before = i == 0 ? " Did you mean " : i + 1 == found ? " or " : ", ";
        int n = snprintf(buf + used, size - used, "%s%s%s%s", before, prefix, best[i],
                         i + 1 == found ? "?" : "");
        if (n < 0 || (size_t)n >= size - used) {
            buf[0] = '\0';
            return;
        }
        used += (size_t)n;
    }
}
