/* adltrain's samples: raw pictures, JPEG files, and indexes of packs, whatever is in them. */
#include "config.h"

#include "fuzz.h"
#include "jpeg.h"
#include "pack.h"
#include "raw.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char fuzz_name[] = "samples";
const unsigned fuzz_inputs = 20000;

#define DATA_BYTES 1000u /* of the pack that the index is of */

static void check_image(const struct jpeg_image *image)
{
    size_t bytes = (size_t)image->width * image->height * 3;
    unsigned sum = 0;

    PROMISE(image->width > 0 && image->height > 0 && image->capacity >= bytes);
    for (size_t i = 0; i < bytes; i += 97) /* all of it is there to be read */
        sum += image->rgb[i];
    PROMISE(sum <= 255 * (bytes / 97 + 1));
}

static void try_image(const uint8_t *data, size_t size)
{
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX] = "";

    if (raw_decode(data, size, &image, error) == 0)
        check_image(&image);
    else
        PROMISE(error[0] != '\0');
    error[0] = '\0';
    if (jpeg_decode(data, size, size % 2 * 16, &image, error) == 0)
        check_image(&image);
    else
        PROMISE(error[0] != '\0');
    jpeg_image_free(&image);
}

static void try_index(const uint8_t *data, size_t size)
{
    char path[64], error[FILES_ERROR_MAX] = "";
    int fd = memfd_create("index", MFD_CLOEXEC);
    struct pack_index index;

    PROMISE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (pack_index_read(path, DATA_BYTES, &index, error) == 0) {
        PROMISE(index.count > 0 && index.format < SAMPLE_FORMATS);
        for (uint32_t i = 0; i < index.count; i++)
            PROMISE(index.entries[i].length > 0 &&
                    index.entries[i].offset + index.entries[i].length <= DATA_BYTES);
        pack_index_free(&index);
    } else {
        PROMISE(error[0] != '\0' && index.entries == NULL);
    }
    (void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_image(data, size);
    try_index(data, size);
    return 0;
}

static size_t seed_image(unsigned index, uint8_t *buf, size_t size)
{
    unsigned width = 1 + index % 23, height = 1 + index % 17;
    uint8_t pixels[23 * 17 * 3], *data = NULL;
    char error[JPEG_ERROR_MAX];
    size_t length = 0;

    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i + index);
    if (index % 2 == 0)
        PROMISE(raw_encode(pixels, width, height, &data, &length) == 0);
    else
        PROMISE(jpeg_encode(pixels, width, height, 30 + (int)(index % 60), &data, &length, error) ==
                0);
    length = length < size ? length : size;
    memcpy(buf, data, length);
    free(data);
    return length;
}

static size_t seed_index(unsigned number, uint8_t *buf, size_t size)
{
    struct pack_entry entries[8];
    struct pack_index index = {
        .format = number % SAMPLE_FORMATS, .count = 1 + number % 8, .entries = entries};
    char path[64], error[FILES_ERROR_MAX];
    struct file_bytes bytes = {0};
    size_t length;

    for (unsigned i = 0; i < 8; i++)
        entries[i] = (struct pack_entry){100 * i, 100};
    (void)snprintf(path, sizeof path, "/tmp/fuzz-samples-%ld.idx", (long)getpid());
    PROMISE(pack_index_write(path, &index, error) == 0 && file_read(path, &bytes, error) == 0);
    (void)unlink(path);
    length = bytes.length < size ? bytes.length : size;
    memcpy(buf, bytes.data, length);
    file_bytes_free(&bytes);
    return length;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    return index % 3 == 2 ? seed_index(index / 3, buf, size) : seed_image(index, buf, size);
}
