/*
 * Frames from a socket: cut into frames as a receiver does, each read as the message that it says
 * it is. What a reader accepts can be sent again and then reads the same.
 */
#include "fuzz.h"
#include "msg_samples.h"

#include <errno.h>
#include <string.h>

const char fuzz_name[] = "frames";
const unsigned fuzz_inputs = 40000;

static void take_frame(const uint8_t *data, size_t length)
{
    struct wire_view view;
    struct wire_writer first = {0}, second = {0};
    if (wire_open(&view, data, length) == 0) {
        enum reread result = sample_reread(&view, &first);
        PROMISE(result != REREAD_UNWRITABLE);
        if (result == REREAD_SAME_RULES) {
            struct wire_view again;
            PROMISE(wire_open(&again, first.data, first.length) == 0);
            PROMISE(sample_reread(&again, &second) == REREAD_SAME_RULES);
            PROMISE(first.length == second.length);
            PROMISE(memcmp(first.data, second.data, first.length) == 0);
        }
    }
    wire_writer_free(&first);
    wire_writer_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    while (size) {
        ssize_t length = wire_frame_length(data, size, WIRE_SMALL_FRAME);
        if (length <= 0) {
            PROMISE(length == 0 || errno == EBADMSG || errno == EPROTONOSUPPORT);
            break;
        }
        PROMISE((size_t)length <= size);
        take_frame(data, (size_t)length);
        data += length;
        size -= (size_t)length;
    }
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    struct rng rng = {index};
    struct wire_writer w = {0};
    size_t length = 0;
    for (unsigned n = 0; n < 1 + index % 2; n++) {
        PROMISE(sample_write(sample_types[(index + n) % SAMPLE_TYPES], &rng, &w) == 0);
        if (w.length > size - length)
            break;
        memcpy(buf + length, w.data, w.length);
        length += w.length;
    }
    wire_writer_free(&w);
    return length;
}
