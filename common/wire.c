/* The wire format: frames of tagged fields, packed and unpacked with every bound checked. */
#include "wire.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES     4u /* the length word, which does not count itself */
#define FIELD_HEAD_BYTES 8u
#define NUMBER_BYTES     8u
#define FIRST_CAPACITY   512u

static void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void store_u32(uint8_t *p, uint32_t v)
{
    store_u16(p, (uint16_t)(v >> 16));
    store_u16(p + 2, (uint16_t)v);
}

static void store_u64(uint8_t *p, uint64_t v)
{
    store_u32(p, (uint32_t)(v >> 32));
    store_u32(p + 4, (uint32_t)v);
}

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)load_u16(p) << 16 | load_u16(p + 2);
}

static uint64_t load_u64(const uint8_t *p)
{
    return (uint64_t)load_u32(p) << 32 | load_u32(p + 4);
}

/* ---- writing ---- */

void wire_fail(struct wire_writer *w, int error)
{
    if (!w->error)
        w->error = error;
}

/* Room for more bytes at the end, or NULL and the writer has failed. */
static uint8_t *extend(struct wire_writer *w, size_t more)
{
    if (w->error)
        return NULL;
    if (w->limit < w->length || more > w->limit - w->length) {
        wire_fail(w, EMSGSIZE);
        return NULL;
    }
    size_t needed = w->length + more;
    if (needed > w->capacity) {
        size_t capacity = w->capacity ? w->capacity : FIRST_CAPACITY;
        while (capacity < needed)
            capacity *= 2; /* no overflow: needed is at most UINT32_MAX + 4 */
        uint8_t *data = realloc(w->data, capacity);
        if (!data) {
            wire_fail(w, ENOMEM);
            return NULL;
        }
        w->data = data;
        w->capacity = capacity;
    }
    uint8_t *place = w->data + w->length;
    w->length = needed;
    return place;
}

void wire_begin(struct wire_writer *w, uint8_t type, size_t limit)
{
    w->length = 0;
    w->error = 0;
    w->limit = limit < UINT32_MAX ? limit : UINT32_MAX;
    uint8_t *head = extend(w, WIRE_HEAD_BYTES);
    if (!head)
        return;
    store_u32(head, 0);
    head[4] = WIRE_VERSION;
    head[5] = type;
    store_u16(head + 6, 0);
}

/* A field's head, and the place for its value. */
static uint8_t *put_field(struct wire_writer *w, uint16_t tag, uint16_t kind, size_t length)
{
    if (length > UINT32_MAX - FIELD_HEAD_BYTES) {
        wire_fail(w, EMSGSIZE);
        return NULL;
    }
    uint8_t *head = extend(w, FIELD_HEAD_BYTES + length);
    if (!head)
        return NULL;
    store_u16(head, tag);
    store_u16(head + 2, kind);
    store_u32(head + 4, (uint32_t)length);
    return head + FIELD_HEAD_BYTES;
}

static void put_number(struct wire_writer *w, uint16_t tag, uint16_t kind, uint64_t bits)
{
    uint8_t *value = put_field(w, tag, kind, NUMBER_BYTES);
    if (value)
        store_u64(value, bits);
}

static void put_span(struct wire_writer *w, uint16_t tag, uint16_t kind, const void *bytes,
                     size_t length)
{
    uint8_t *value = put_field(w, tag, kind, length);
    if (value && length)
        memcpy(value, bytes, length);
}

void wire_put_u64(struct wire_writer *w, uint16_t tag, uint64_t value)
{
    put_number(w, tag, WIRE_U64, value);
}

void wire_put_i64(struct wire_writer *w, uint16_t tag, int64_t value)
{
    put_number(w, tag, WIRE_I64, (uint64_t)value);
}

void wire_put_f64(struct wire_writer *w, uint16_t tag, double value)
{
    uint64_t bits;
    _Static_assert(sizeof(bits) == sizeof(value), "the format needs IEEE 754 doubles");
    memcpy(&bits, &value, sizeof(bits));
    put_number(w, tag, WIRE_F64, bits);
}

void wire_put_str(struct wire_writer *w, uint16_t tag, const char *text)
{
    if (text)
        put_span(w, tag, WIRE_STR, text, strlen(text));
}

void wire_put_bytes(struct wire_writer *w, uint16_t tag, const void *bytes, size_t length)
{
    put_span(w, tag, WIRE_BYTES, bytes, length);
}

int wire_end(struct wire_writer *w)
{
    if (w->error) {
        errno = w->error;
        return -1;
    }
    store_u32(w->data, (uint32_t)(w->length - LENGTH_BYTES));
    return 0;
}

void wire_writer_free(struct wire_writer *w)
{
    free(w->data);
    *w = (struct wire_writer){0};
}

/* ---- reading ---- */

ssize_t wire_frame_length(const void *data, size_t available, size_t limit)
{
    const uint8_t *p = data;
    if (available < LENGTH_BYTES)
        return 0;
    uint64_t total = (uint64_t)load_u32(p) + LENGTH_BYTES;
    if (total < WIRE_HEAD_BYTES) {
        errno = EBADMSG;
        return -1;
    }
    /* The version first: a newer one may know larger frames, and deserves the clearer answer. */
    if (available > 4 && p[4] != WIRE_VERSION) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    bool reserved_set = (available > 6 && p[6]) || (available > 7 && p[7]);
    if (total > limit || reserved_set) {
        errno = EBADMSG;
        return -1;
    }
    return available >= total ? (ssize_t)total : 0;
}

/* The field at offset, if it lies wholly inside and a number has a number's size. */
static bool field_at(const struct wire_view *view, size_t offset, struct wire_field *field)
{
    if (offset > view->length || view->length - offset < FIELD_HEAD_BYTES)
        return false;
    const uint8_t *head = view->fields + offset;
    field->tag = load_u16(head);
    field->kind = load_u16(head + 2);
    field->length = load_u32(head + 4);
    field->value = head + FIELD_HEAD_BYTES;
    if (field->length > view->length - offset - FIELD_HEAD_BYTES)
        return false;
    bool number = field->kind == WIRE_U64 || field->kind == WIRE_I64 || field->kind == WIRE_F64;
    return !number || field->length == NUMBER_BYTES;
}

bool wire_next(const struct wire_view *view, size_t *cursor, struct wire_field *field)
{
    if (!field_at(view, *cursor, field))
        return false;
    *cursor += FIELD_HEAD_BYTES + field->length;
    return true;
}

int wire_open(struct wire_view *view, const void *frame, size_t length)
{
    ssize_t total = wire_frame_length(frame, length, length);
    if (total <= 0 || (size_t)total != length) {
        errno = EBADMSG;
        return -1;
    }
    const uint8_t *p = frame;
    struct wire_view opened = {p[5], p + WIRE_HEAD_BYTES, length - WIRE_HEAD_BYTES};
    struct wire_field field;
    size_t cursor = 0;
    while (wire_next(&opened, &cursor, &field))
        ;
    if (cursor != opened.length) {
        errno = EBADMSG;
        return -1;
    }
    *view = opened;
    return 0;
}

static bool find(const struct wire_view *view, uint16_t tag, uint16_t kind,
                 struct wire_field *field)
{
    size_t cursor = 0;
    while (wire_next(view, &cursor, field))
        if (field->tag == tag && field->kind == kind)
            return true;
    return false;
}

bool wire_field_u64(const struct wire_field *field, uint64_t *value)
{
    if (field->kind != WIRE_U64)
        return false;
    *value = load_u64(field->value);
    return true;
}

bool wire_field_i64(const struct wire_field *field, int64_t *value)
{
    if (field->kind != WIRE_I64)
        return false;
    uint64_t bits = load_u64(field->value);
    memcpy(value, &bits, sizeof(*value));
    return true;
}

bool wire_field_f64(const struct wire_field *field, double *value)
{
    if (field->kind != WIRE_F64)
        return false;
    uint64_t bits = load_u64(field->value);
    double v;
    memcpy(&v, &bits, sizeof(v));
    if (!isfinite(v))
        return false;
    *value = v;
    return true;
}

static bool is_control(uint8_t c)
{
    return c < 0x20 || c == 0x7f;
}

bool wire_field_str(const struct wire_field *field, char *buf, size_t size)
{
    if (field->kind != WIRE_STR || field->length >= size)
        return false;
    for (size_t i = 0; i < field->length; i++)
        if (is_control(field->value[i]))
            return false;
    memcpy(buf, field->value, field->length);
    buf[field->length] = '\0';
    return true;
}

bool wire_get_u64(const struct wire_view *view, uint16_t tag, uint64_t *value)
{
    struct wire_field field;
    return find(view, tag, WIRE_U64, &field) && wire_field_u64(&field, value);
}

bool wire_get_i64(const struct wire_view *view, uint16_t tag, int64_t *value)
{
    struct wire_field field;
    return find(view, tag, WIRE_I64, &field) && wire_field_i64(&field, value);
}

bool wire_get_f64(const struct wire_view *view, uint16_t tag, double *value)
{
    struct wire_field field;
    return find(view, tag, WIRE_F64, &field) && wire_field_f64(&field, value);
}

bool wire_get_str(const struct wire_view *view, uint16_t tag, char *buf, size_t size)
{
    struct wire_field field;
    return find(view, tag, WIRE_STR, &field) && wire_field_str(&field, buf, size);
}

bool wire_get_bytes(const struct wire_view *view, uint16_t tag, const void **bytes, size_t *length)
{
    struct wire_field field;
    if (!find(view, tag, WIRE_BYTES, &field))
        return false;
    *bytes = field.value;
    *length = field.length;
    return true;
}
