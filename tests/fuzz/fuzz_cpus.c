/* CPU lists and Slurm's counts: what is accepted prints as a list that reads back to itself. */
#include "cpus.h"
#include "fuzz.h"

#include <errno.h>
#include <string.h>

const char fuzz_name[] = "cpus";
const unsigned fuzz_inputs = 50000;

static void check_set(const struct cpus *set)
{
    struct cpus back = CPUS_EMPTY;
    char *text = cpus_to_string(set);
    PROMISE(text != NULL);
    PROMISE(cpus_count(set) <= CPUS_MAX);
    PROMISE(cpus_parse(&back, text) == 0);
    PROMISE(cpus_equal(set, &back));
    unsigned count = 0;
    for (long c = cpus_next(set, 0); c >= 0; c = cpus_next(set, (unsigned long)c + 1)) {
        PROMISE(c < (long)CPUS_MAX && cpus_isset(set, (unsigned)c));
        count++;
    }
    PROMISE(count == cpus_count(set));
    free(text);
    cpus_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cpus set = CPUS_EMPTY;
    if (cpus_parse_bytes(&set, (const char *)data, size) == 0)
        check_set(&set);
    else
        PROMISE((errno == EINVAL || errno == ERANGE) && cpus_is_empty(&set));
    cpus_free(&set);

    char *text = malloc(size + 1);
    PROMISE(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    for (unsigned index = 0; index < 4; index++)
        PROMISE(slurm_count_at(text, index) >= 0 || errno == EINVAL);
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size)
{
    static const char *const texts[] = {
        "0-3,8",       "0-65535",     "0-1023:2,5000\n", "1,3,5,7,9,11,13,15,17,19,21",
        "4(x2),1",     "2(x3),1(x4)", " 65535,0 ",       "0-7,64-71,128-135,192-199,2047",
        "100-199:100", "16",
    };
    const char *text = texts[index % (sizeof(texts) / sizeof(texts[0]))];
    size_t length = strlen(text);
    PROMISE(length <= size);
    memcpy(buf, text, length);
    return length;
}
