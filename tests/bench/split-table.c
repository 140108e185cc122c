/*
 * split-table TABLE.csv TRAIN.csv TEST.csv random SEED [SHARE]     a random share (0.7) to train on
 * split-table TABLE.csv TRAIN.csv TEST.csv replicas N              at most N replicas to train on
 *
 * Splits a table of measured steps, so that an evaluation can be repeated by anybody: the same seed
 * gives the same split everywhere.
 */
#include "csv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 of seed and line: every line's lot is its own */
static double lot(uint64_t seed, uint64_t line)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + line * 0xd1b54a32d192ed03u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void write_row(FILE *out, char *const *fields, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%s%s", fields[i], i + 1 < n ? "," : "\n");
}

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s TABLE.csv TRAIN.csv TEST.csv random SEED [SHARE]\n"
            "       %s TABLE.csv TRAIN.csv TEST.csv replicas N\n",
            program, program);
    return 2;
}

int main(int argc, char **argv)
{
    bool random = argc >= 6 && strcmp(argv[4], "random") == 0;
    bool few = argc == 6 && strcmp(argv[4], "replicas") == 0;
    double number, share = argc == 7 ? strtod(argv[6], NULL) : 0.7;
    unsigned replicas = 0;
    FILE *train, *test;
    struct csv csv;
    int bad;

    if ((!random && !few) || argc > 7 || !(share > 0 && share < 1))
        return usage(argv[0]);
    number = strtod(argv[5], NULL);
    if (!(number >= 0 && number < 4e9) || !csv_open(&csv, argv[1]))
        return usage(argv[0]);
    if (few)
        replicas = csv_need(&csv, "num_replicas");
    train = fopen(argv[2], "w");
    test = fopen(argv[3], "w");
    if (train == NULL || test == NULL) {
        perror("cannot write the two parts");
        return 2;
    }
    write_row(train, csv.columns, csv.ncolumns);
    write_row(test, csv.columns, csv.ncolumns);
    while (csv_next(&csv)) {
        bool learn =
            few ? csv_number(&csv, replicas) <= number : lot((uint64_t)number, csv.line) < share;

        write_row(learn ? train : test, csv.fields, csv.ncolumns);
    }
    csv_close(&csv);
    bad = fclose(train);
    bad |= fclose(test);
    if (bad != 0)
        perror("cannot write the two parts");
    return bad != 0 ? 2 : 0;
}
