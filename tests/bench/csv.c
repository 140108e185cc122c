/* See csv.h. */
#include "csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned split(char *text, char **fields)
{
    unsigned n = 0;
    char *p = text;

    text[strcspn(text, "\r\n")] = '\0';
    while (n < CSV_COLUMNS_MAX) {
        char *end;

        if (*p == '"') {
            fields[n++] = ++p;
            end = strchr(p, '"');
            if (end == NULL)
                return n;
            *end++ = '\0';
        } else {
            fields[n++] = p;
            end = p;
        }
        end += strcspn(end, ",");
        if (*end == '\0')
            return n;
        *end = '\0';
        p = end + 1;
    }
    return n;
}

bool csv_open(struct csv *csv, const char *name)
{
    *csv = (struct csv){.name = name, .line = 1, .file = fopen(name, "r")};
    if (csv->file == NULL) {
        perror(name);
        return false;
    }
    if (fgets(csv->head, sizeof(csv->head), csv->file) == NULL) {
        fprintf(stderr, "%s: empty, a first line with the columns' names is needed\n", name);
        csv_close(csv);
        return false;
    }
    csv->ncolumns = split(csv->head, csv->columns);
    return true;
}

bool csv_next(struct csv *csv)
{
    while (fgets(csv->text, sizeof(csv->text), csv->file) != NULL) {
        csv->line++;
        if (csv->text[strspn(csv->text, " \r\n")] == '\0')
            continue;
        if (split(csv->text, csv->fields) == csv->ncolumns)
            return true;
        fprintf(stderr, "%s:%u: left out, it does not have %u fields\n", csv->name, csv->line,
                csv->ncolumns);
    }
    return false;
}

void csv_close(struct csv *csv)
{
    if (csv->file != NULL)
        fclose(csv->file);
    csv->file = NULL;
}

int csv_column(const struct csv *csv, const char *name)
{
    for (unsigned i = 0; i < csv->ncolumns; i++)
        if (strcmp(csv->columns[i], name) == 0)
            return (int)i;
    return -1;
}

unsigned csv_need(const struct csv *csv, const char *name)
{
    int column = csv_column(csv, name);

    if (column < 0) {
        fprintf(stderr, "%s: no column %s\n", csv->name, name);
        exit(2);
    }
    return (unsigned)column;
}

double csv_number(const struct csv *csv, unsigned column)
{
    const char *text = csv->fields[column];
    char *end;
    double value = strtod(text, &end);

    return end != text && *end == '\0' && isfinite(value) ? value : NAN;
}

bool csv_shared(const char *name, char *path, size_t size)
{
    const char *shared = getenv("ADLOADER_SHARED"), *source = getenv("ADL_SRCDIR");
    int length;

    if (shared != NULL)
        length = snprintf(path, size, "%s/data/%s", shared, name);
    else
        length = snprintf(path, size, "%s/../shared/data/%s", source != NULL ? source : ".", name);
    return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}
