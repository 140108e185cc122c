/*
 * What one member did, summed up from its reports while it lives and closed with its goodbye: its
 * part of the job's record. Pure.
 */
#ifndef ADLOADER_MEMBERUSE_H
#define ADLOADER_MEMBERUSE_H

#include "msg.h"
#include "record.h"

#include <stdbool.h>
#include <stdint.h>

struct member_use {
    struct record_use sum;
    uint64_t at_ms; /* up to when cores and verdict are counted */
    bool loaders;   /* loader tasks were seen */
};

void memberuse_begin(struct member_use *use, uint64_t now_ms);

/* cores: that its loaders may use now; verdict: on it now. */
void memberuse_report(struct member_use *use, const struct msg_report *report, unsigned cores,
                      enum verdict verdict, uint64_t now_ms);

/* Closes the sum, which then is one member's. goodbye NULL: it was lost, after life_ms. A goodbye
 * knows of the time before our own start, too. */
void memberuse_end(struct member_use *use, const struct msg_goodbye *goodbye, unsigned cores,
                   unsigned moves, uint64_t life_ms, uint64_t now_ms);

/*
 * The open sum rides behind the learned state that the agent keeps for our next life. Save returns
 * the bytes added to buf, 0 where there is no room. Load takes them off the end of a state again:
 * it returns what is left, and leaves *use alone where there are none or they make no sense.
 */
size_t memberuse_save(const struct member_use *use, uint8_t *buf, size_t size);
size_t memberuse_load(struct member_use *use, const uint8_t *buf, size_t length);

#endif
