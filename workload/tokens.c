/* Samples of text. */
#include "tokens.h"

#include "little.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER 12u

static const uint8_t MAGIC[8] = {'A', 'D', 'L', 'T', 'O', 'K', '1', 0};

int tokens_encode(const uint32_t *tokens, uint32_t count, uint8_t **data, size_t *length)
{
    *length = HEADER + (size_t)count * 4;
    *data = malloc(*length);
    if (*data == NULL)
        return -1;
    memcpy(*data, MAGIC, sizeof MAGIC);
    little_put(*data + 8, count, 4);
    for (uint32_t i = 0; i < count; i++)
        little_put(*data + HEADER + (size_t)i * 4, tokens[i], 4);
    return 0;
}

static int fail(char *error, const char *sentence)
{
    (void)snprintf(error, TOKENS_ERROR_MAX, "%s", sentence);
    return -1;
}

int tokens_window(const void *data, size_t length, struct rng *rng, uint32_t wanted, float *out,
                  char *error)
{
    const uint8_t *bytes = data;
    uint32_t count, first;

    if (length < HEADER || memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return fail(error, "not a sample of tokens of adltrain");
    count = (uint32_t)little_get(bytes + 8, 4);
    if (count > TOKENS_MAX || length - HEADER != (size_t)count * 4)
        return fail(error, "a sample of tokens that is cut or too long");
    if (count < wanted) {
        (void)snprintf(error, TOKENS_ERROR_MAX, "%u tokens where %u are wanted", count, wanted);
        return -1;
    }
    first = rng_below(rng, count - wanted + 1);
    for (uint32_t i = 0; i < wanted; i++)
        out[i] = (float)little_get(bytes + HEADER + (size_t)(first + i) * 4, 4);
    return 0;
}
