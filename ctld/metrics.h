/* The controller's figures in Prometheus' text form. */
#ifndef ADLOADER_METRICS_H
#define ADLOADER_METRICS_H

struct ctld;

/* A new string that the caller frees, or NULL (ENOMEM). */
char *metrics_text(const struct ctld *ctld);

#endif
