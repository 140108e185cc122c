/* What adltrain --help says. */
#ifndef ADLTRAIN_USAGE_H
#define ADLTRAIN_USAGE_H

extern const char usage_text[];

#endif
