/*
 * Runs a fuzz target without libFuzzer: mutates good inputs, the same in every run, for a bounded
 * number of inputs, and reports in TAP. With files as arguments it takes those instead; with
 * --seeds DIRECTORY it writes the good inputs there, for libFuzzer to start from. An input that
 * makes the target abort is kept in fuzz-<name>.input.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define INPUT_MAX 65536u
#define SEEDS     64u

static uint8_t input[INPUT_MAX];
static size_t input_length;
static char kept_file[128];

/* AddressSanitizer ends a program with _exit() unless told to abort, and then nothing were kept. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "abort_on_error=1";
}

static void keep_input(int signal_number)
{
    (void)signal_number;
    int fd = open(kept_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0) {
        ssize_t written = write(fd, input, input_length);
        (void)written; /* the program is dying: nothing more can be done */
        (void)close(fd);
    }
}

/* The target gets memory of exactly the input's size, so that a byte too far is seen. */
static void try_input(void)
{
    uint8_t *copy = malloc(input_length ? input_length : 1);
    PROMISE(copy != NULL);
    memcpy(copy, input, input_length);
    (void)LLVMFuzzerTestOneInput(copy, input_length);
    free(copy);
}

static void remove_bytes(struct rng *rng)
{
    if (!input_length)
        return;
    size_t at = rng_below(rng, (unsigned)input_length);
    size_t length = 1 + rng_below(rng, 16);
    if (length > input_length - at)
        length = input_length - at;
    memmove(input + at, input + at + length, input_length - at - length);
    input_length -= length;
}

/* Bytes from another place of the input, or new ones. */
static void insert_bytes(struct rng *rng)
{
    uint8_t bytes[16];
    size_t length = 1 + rng_below(rng, sizeof(bytes));
    if (input_length + length > INPUT_MAX)
        return;
    size_t from = rng_below(rng, (unsigned)input_length + 1);
    size_t at = rng_below(rng, (unsigned)input_length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = from + i < input_length ? input[from + i] : (uint8_t)rng_next(rng);
    memmove(input + at + length, input + at, input_length - at);
    memcpy(input + at, bytes, length);
    input_length += length;
}

static void change_byte(struct rng *rng)
{
    static const uint8_t telling[] = {0,   1,   0x7f, 0x80, 0xff, '0', '9',
                                      ',', '-', '=',  '\n', '[',  ']'};
    if (!input_length)
        return;
    uint8_t *byte = &input[rng_below(rng, (unsigned)input_length)];
    switch (rng_below(rng, 4)) {
    case 0:
        *byte ^= (uint8_t)(1u << rng_below(rng, 8));
        break;
    case 1:
        *byte = (uint8_t)rng_next(rng);
        break;
    case 2:
        *byte = telling[rng_below(rng, sizeof(telling))];
        break;
    default:
        *byte = (uint8_t)(*byte + (rng_chance(rng, 50) ? 1 : 255));
        break;
    }
}

static void mutate(struct rng *rng)
{
    for (unsigned n = rng_below(rng, 5); n; n--)
        switch (rng_below(rng, 4)) {
        case 0:
            remove_bytes(rng);
            break;
        case 1:
            insert_bytes(rng);
            break;
        default:
            change_byte(rng);
            break;
        }
}

static void try_mutations(void)
{
    struct rng rng = {0xad10ade5};
    for (unsigned n = 0; n < fuzz_inputs; n++) {
        input_length = fuzz_seed(n % SEEDS, input, sizeof(input));
        if (n >= SEEDS) /* the seeds first as they are */
            mutate(&rng);
        try_input();
    }
}

static int try_file(const char *file)
{
    FILE *in = fopen(file, "rb");
    if (!in) {
        (void)fprintf(stderr, "%s: %s\n", file, strerror(errno));
        return -1;
    }
    input_length = fread(input, 1, sizeof(input), in);
    (void)fclose(in);
    try_input();
    return 0;
}

static int write_seed(const char *directory, unsigned index)
{
    char path[4096];
    int length = snprintf(path, sizeof(path), "%s/%s-%u", directory, fuzz_name, index);
    FILE *out = length > 0 && (size_t)length < sizeof(path) ? fopen(path, "wb") : NULL;
    if (!out) {
        (void)fprintf(stderr, "%s: a seed cannot be written there: %s\n", directory,
                      strerror(errno));
        return -1;
    }
    input_length = fuzz_seed(index, input, sizeof(input));
    size_t written = fwrite(input, 1, input_length, out);
    if (fclose(out) != 0 || written != input_length) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--seeds")) {
        for (unsigned index = 0; index < SEEDS; index++)
            if (write_seed(argv[2], index) < 0)
                return 1;
        return 0;
    }
    struct sigaction action = {.sa_handler = keep_input, .sa_flags = (int)SA_RESETHAND};
    (void)snprintf(kept_file, sizeof(kept_file), "fuzz-%s.input", fuzz_name);
    if (sigaction(SIGABRT, &action, NULL) < 0) {
        perror("sigaction");
        return 1;
    }
    for (int i = 1; i < argc; i++)
        if (try_file(argv[i]) < 0)
            return 1;
    if (argc > 1)
        return 0;
    (void)printf("1..1\n");
    (void)fflush(stdout);
    try_mutations();
    (void)printf("ok 1 - %s: %u inputs\n", fuzz_name, fuzz_inputs);
    return 0;
}
