/*
 * A fuzz target: one kind of input from outside. Each source file fuzz_<what>.c defines these; it
 * is linked either with driver.c (a plain program for `make check`) or with clang's libFuzzer.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "rng.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Take an input; a broken promise of the code under test aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Write a good input, as different as index is, into buf; its length, at most size. */
size_t fuzz_seed(unsigned index, uint8_t *buf, size_t size);

extern const char fuzz_name[];
extern const unsigned fuzz_inputs; /* mutated inputs that `make check` tries */

/* A promise of the code under test. */
#define PROMISE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
