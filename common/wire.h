/*
 * The wire format: how messages travel between agent, controller, tool and client library, over
 * Unix sockets and TCP. What each message says is in msg.h; here is only how it is packed.
 *
 * A frame, all numbers big-endian:
 *
 *     u32 length    of all that follows this word, at least 4
 *     u8  version   WIRE_VERSION; another one is refused
 *     u8  type      enum msg_type
 *     u16 zero      reserved, must be 0
 *     fields        until the end of the frame
 *
 * A field:
 *
 *     u16 tag       enum msg_tag; an unknown tag is skipped, so that fields can be added
 *     u16 kind      WIRE_U64 (8 bytes), WIRE_I64 (8), WIRE_F64 (8, IEEE 754), WIRE_STR (text
 * without NUL, any length), WIRE_BYTES u32 length    of the value value
 *
 * A tag may stand several times where msg.h calls it a list. Every reader names the largest frame
 * that it accepts before it reads one; a longer, truncated or contradictory frame is refused as
 * a whole. Nothing is allocated on the word of a length alone.
 */
#ifndef ADLOADER_WIRE_H
#define ADLOADER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WIRE_VERSION      1u
#define WIRE_HEAD_BYTES   8u
#define WIRE_SMALL_FRAME  (64u * 1024u)         /* agents, clients, queries */
#define WIRE_LARGE_FRAME  (4u * 1024u * 1024u)  /* a topology */
#define WIRE_ANSWER_FRAME (64u * 1024u * 1024u) /* a JSON answer to the tool */

enum wire_kind { WIRE_U64 = 1, WIRE_I64 = 2, WIRE_F64 = 3, WIRE_STR = 4, WIRE_BYTES = 5 };

/*
 * A frame being written. Zero-initialise; wire_begin() starts a frame (dropping an earlier one,
 * keeping its memory); limit bounds its whole length. After an out-of-memory or over-limit failure
 * every further call does nothing and wire_end() returns -1 with errno, so callers check once.
 */
struct wire_writer {
    uint8_t *data;
    size_t length, capacity, limit;
    int error; /* errno value of the first failure, ENOMEM or EMSGSIZE; 0 none */
};

void wire_begin(struct wire_writer *w, uint8_t type, size_t limit);
void wire_put_u64(struct wire_writer *w, uint16_t tag, uint64_t value);
void wire_put_i64(struct wire_writer *w, uint16_t tag, int64_t value);
void wire_put_f64(struct wire_writer *w, uint16_t tag, double value);
void wire_put_str(struct wire_writer *w, uint16_t tag, const char *text); /* NULL: no field */
void wire_put_bytes(struct wire_writer *w, uint16_t tag, const void *bytes, size_t length);
void wire_fail(struct wire_writer *w, int error); /* give the frame up */
int wire_end(struct wire_writer *w); /* patches the length; 0: data[0..length) is the frame */
void wire_writer_free(struct wire_writer *w);

/*
 * Is there a whole frame at the head of data? Returns its total length in bytes, 0 if more bytes
 * are needed, or -1 if it can never become acceptable (over limit, wrong version or reserved word).
 * A wrong version is told apart by errno EPROTONOSUPPORT, all else is EBADMSG.
 */
ssize_t wire_frame_length(const void *data, size_t available, size_t limit);

/* A received frame, checked: every field lies inside. Points into the caller's buffer. */
struct wire_view {
    uint8_t type;
    const uint8_t *fields;
    size_t length;
};

int wire_open(struct wire_view *view, const void *frame, size_t length); /* -1: EBADMSG */

struct wire_field {
    uint16_t tag;
    uint16_t kind;
    const uint8_t *value;
    size_t length;
};

/* Walk all fields: *cursor starts at 0; false at the end. */
bool wire_next(const struct wire_view *view, size_t *cursor, struct wire_field *field);

/* The first field of that tag and kind; false if absent (or, for strings, if it has a NUL or
 * control character inside or does not fit into size with its NUL). */
bool wire_get_u64(const struct wire_view *view, uint16_t tag, uint64_t *value);
bool wire_get_i64(const struct wire_view *view, uint16_t tag, int64_t *value);
bool wire_get_f64(const struct wire_view *view, uint16_t tag, double *value); /* finite only */
bool wire_get_str(const struct wire_view *view, uint16_t tag, char *buf, size_t size);
bool wire_get_bytes(const struct wire_view *view, uint16_t tag, const void **bytes, size_t *length);

/* The same for a field from wire_next(). */
bool wire_field_u64(const struct wire_field *field, uint64_t *value);
bool wire_field_i64(const struct wire_field *field, int64_t *value);
bool wire_field_f64(const struct wire_field *field, double *value);
bool wire_field_str(const struct wire_field *field, char *buf, size_t size);

#endif
