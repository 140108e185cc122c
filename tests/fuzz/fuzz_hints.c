/* Values of --adloader: what is accepted has a canonical text that reads back to itself. */
#include "fuzz.h"
#include "hints.h"

#include <string.h>

const char fuzz_name[] = "hints";
const unsigned fuzz_inputs = 300000;

static void check_error(const char *error)
{
    PROMISE(error[0] != '\0');
    for (; *error; error++)
        PROMISE(*error >= 0x20 && *error <= 0x7e);
}

static void check_accepted(const struct hints *hints)
{
    char once[HINTS_TEXT_MAX], twice[HINTS_TEXT_MAX], error[64];
    struct hints back;
    PROMISE(hints->workers_max == 0 || hints->workers_max >= hints->workers_min);
    PROMISE(hints->workers_max <= HINTS_WORKERS_MAX && hints->workers_min <= HINTS_WORKERS_MAX);
    PROMISE(hints->flops >= 0 && hints->flops <= 1e18 && hints->params >= 0 &&
            hints->params <= 1e18);
    PROMISE((size_t)hints_format(hints, once, sizeof(once)) < sizeof(once));
    PROMISE(hints_parse(once, &back, error, sizeof(error)) == 0);
    PROMISE((size_t)hints_format(&back, twice, sizeof(twice)) < sizeof(twice));
    PROMISE(strcmp(once, twice) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hints hints;
    char error[256];
    char *text = malloc(size + 1);
    PROMISE(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    if (hints_parse(text, &hints, error, sizeof(error)) < 0)
        check_error(error);
    else
        check_accepted(&hints);
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    static const char *const texts[] = {
        "on",
        "off",
        "report",
        "workers=4",
        "workers=2-16,batch=256",
        "model=resnet50,data=JPEG,flops=4.1G,params=25.6M",
        "profile=team/a+b-1.0_x,report,workers=1-4096",
        "flops=.5e3K,params=1e18,batch=16777216,data=packed",
    };
    const char *text = texts[index % (sizeof(texts) / sizeof(texts[0]))];
    size_t length = strlen(text);
    PROMISE(length <= size);
    memcpy(buf, text, length);
    return length;
}
