/* Raw samples. */
#include "raw.h"

#include "little.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t MAGIC[8] = {'A', 'D', 'L', 'R', 'A', 'W', '1', 0};

int raw_encode(const uint8_t *rgb, unsigned width, unsigned height, uint8_t **data, size_t *length)
{
    size_t bytes = (size_t)width * height * 3;

    *data = malloc(RAW_HEADER + bytes);
    if (*data == NULL)
        return -1;
    memcpy(*data, MAGIC, sizeof MAGIC);
    little_put(*data + 8, width, 4);
    little_put(*data + 12, height, 4);
    memcpy(*data + RAW_HEADER, rgb, bytes);
    *length = RAW_HEADER + bytes;
    return 0;
}

static int fail(char *error, const char *sentence)
{
    (void)snprintf(error, JPEG_ERROR_MAX, "%s", sentence);
    return -1;
}

int raw_decode(const void *data, size_t length, struct jpeg_image *image, char *error)
{
    const uint8_t *bytes = data;
    uint32_t width, height;
    size_t wanted;

    if (length < RAW_HEADER || memcmp(bytes, MAGIC, sizeof MAGIC) != 0)
        return fail(error, "not a raw sample of adltrain");
    width = (uint32_t)little_get(bytes + 8, 4);
    height = (uint32_t)little_get(bytes + 12, 4);
    if (width < 1 || height < 1 || width > RAW_SIDE_MAX || height > RAW_SIDE_MAX)
        return fail(error, "a raw sample of an impossible size");
    wanted = (size_t)width * height * 3;
    if (length - RAW_HEADER != wanted)
        return fail(error, "a raw sample that is cut or too long");
    if (image->capacity < wanted) {
        uint8_t *grown = realloc(image->rgb, wanted);

        if (grown == NULL)
            return fail(error, "out of memory");
        image->rgb = grown;
        image->capacity = wanted;
    }
    memcpy(image->rgb, bytes + RAW_HEADER, wanted);
    image->width = width;
    image->height = height;
    return 0;
}
