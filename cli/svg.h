/* Charts as SVG text: bars in groups, and lines. No styles from elsewhere, no scripts. */
#ifndef ADLOADER_SVG_H
#define ADLOADER_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct svg_series {
    const char *name;
    const double *x; /* NULL for bars: groups are evenly spaced */
    const double *y;
    size_t n;
    bool steps; /* y holds until the next x */
};

struct svg_chart {
    const char *title, *x_label, *y_label;
    const struct svg_series *series;
    size_t nseries;
    const char *const *groups; /* names of bars' groups, n of each series; NULL for lines */
    double base;               /* where bars begin, and a line to compare with; NAN none */
};

/* A page of charts in so many columns. 0, or -1 when out cannot be written. */
int svg_page(FILE *out, const struct svg_chart *charts, size_t ncharts, unsigned columns);

#endif
