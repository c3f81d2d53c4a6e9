/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values to messages and back; the only user of the msgpack library.
 *
 * A message is {"v": version, "body": value}, or "error" and a text in place of the body, the version first and in a
 * fixed place so that it can be read before anything else is. Decoding goes in this order: length, version, pre-scan
 * (wire_scan.c), the library, our values. Only bytes that the pre-scan passed reach the library. Whatever decodes here
 * can be encoded again.
 */
#include "artifact-bus/wire.h"

#include <math.h>
#include <msgpack.h>

#include "artifact-bus/wire_scan_priv.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

enum { ENVELOPE_KEYS = 2, VERSION_AT = 3, ERROR_MAX = 4096 };

/* --- encoding --- */

struct encoder {
    msgpack_packer pk;
    struct bh_buf *out;
    size_t start; /* of this message in out */
    size_t objects;
};

static int append(void *arg, const char *data, size_t len)
{
    struct encoder *e = arg;
    if (e->out->len - e->start + len > BH_WIRE_MAX_CONTROL)
        return -1;
    bh_buf_add(e->out, data, len);
    return 0;
}

static int too_long(struct bh_err **err)
{
    return bh_err_set(err, BH_E_TOO_LARGE, 0, "the message is longer than %d bytes", BH_WIRE_MAX_CONTROL);
}

/* Texts of values are UTF-8 already. */
static int pack_text(struct encoder *e, const char *s, size_t len, struct bh_err **err)
{
    if (len > BH_WIRE_MAX_CONTROL || msgpack_pack_str(&e->pk, len) != 0 || msgpack_pack_str_body(&e->pk, s, len) != 0)
        return too_long(err);
    return 0;
}

static int pack(struct encoder *e, const struct bh_val *v, int depth, struct bh_err **err);

static int pack_container(struct encoder *e, const struct bh_val *v, bool map, int depth, struct bh_err **err)
{
    size_t n = bh_val_len(v);
    if (depth == BH_WIRE_MAX_DEPTH)
        return bh_err_set(err, BH_E_TOO_LARGE, 0, "the message is nested deeper than %d levels", BH_WIRE_MAX_DEPTH);
    e->objects += map ? 2 * n : n;
    if (e->objects > BH_WIRE_MAX_OBJECTS)
        return bh_err_set(err, BH_E_TOO_LARGE, 0, "the message has more than %d values", BH_WIRE_MAX_OBJECTS);
    if ((map ? msgpack_pack_map(&e->pk, n) : msgpack_pack_array(&e->pk, n)) != 0)
        return too_long(err);
    for (size_t i = 0; i < n; i++) {
        const char *key = map ? bh_val_key_at(v, i) : NULL;
        int rc = map ? pack_text(e, key, strlen(key), err) : 0;
        if (rc == 0)
            rc = pack(e, bh_val_at(v, i), depth + 1, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int pack(struct encoder *e, const struct bh_val *v, int depth, struct bh_err **err)
{
    double d = bh_val_get_num(v);
    switch (bh_val_type(v)) {
    case BH_VAL_STR:
        return pack_text(e, bh_val_get_str(v), bh_val_str_len(v), err);
    case BH_VAL_LIST:
        return pack_container(e, v, false, depth, err);
    case BH_VAL_MAP:
        return pack_container(e, v, true, depth, err);
    case BH_VAL_NUM:
        if (!isfinite(d))
            return bh_err_set(err, BH_E_BAD_VALUE, 0, "a number of the message is not finite");
        return msgpack_pack_double(&e->pk, d) == 0 ? 0 : too_long(err);
    case BH_VAL_BOOL:
        return (bh_val_get_bool(v) ? msgpack_pack_true(&e->pk) : msgpack_pack_false(&e->pk)) == 0 ? 0 : too_long(err);
    case BH_VAL_INT:
        return msgpack_pack_int64(&e->pk, bh_val_get_int(v)) == 0 ? 0 : too_long(err);
    case BH_VAL_NULL:
        break;
    }
    return msgpack_pack_nil(&e->pk) == 0 ? 0 : too_long(err);
}

int bh_wire_encode(const struct bh_val *body, struct bh_buf *out, struct bh_err **err)
{
    static const char envelope[] = {
        (char)(0x80 | ENVELOPE_KEYS), (char)0xa1, 'v', BH_WIRE_VERSION, (char)0xa4, 'b', 'o', 'd', 'y'};
    struct encoder e = {.out = out, .start = out->len, .objects = 1 + 2 * ENVELOPE_KEYS};
    bh_buf_add(out, envelope, sizeof(envelope));
    msgpack_packer_init(&e.pk, &e, append);
    int rc = pack(&e, body, 1, err);
    if (rc != 0) {
        out->len = e.start;
        out->data[out->len] = '\0';
    }
    return rc;
}

void bh_wire_encode_error(const char *text, struct bh_buf *out)
{
    static const char envelope[] = {
        (char)(0x80 | ENVELOPE_KEYS), (char)0xa1, 'v', BH_WIRE_VERSION, (char)0xa5, 'e', 'r', 'r', 'o', 'r'};
    struct encoder e = {.out = out, .start = out->len};
    size_t len = strlen(text);
    bh_buf_add(out, envelope, sizeof(envelope));
    msgpack_packer_init(&e.pk, &e, append);
    if (len > ERROR_MAX)
        len = ERROR_MAX;
    len = bh_utf8_check(text, len); /* what comes before the first bad byte, or a whole number of characters */
    (void)msgpack_pack_str(&e.pk, len);
    (void)msgpack_pack_str_body(&e.pk, text, len);
}

/* --- decoding --- */

static int refuse(struct bh_err **err, const char *what)
{
    return bh_err_set(err, BH_E_PROTOCOL, 0, "the message %s", what);
}

static int check_version(const unsigned char *p, size_t len, struct bh_err **err)
{
    if (len <= VERSION_AT || (p[0] & 0xf0) != 0x80 || p[1] != 0xa1 || p[2] != 'v' || p[VERSION_AT] > 0x7f)
        return refuse(err, "does not begin with a protocol version");
    if (p[VERSION_AT] == BH_WIRE_VERSION)
        return 0;
    int rc = bh_err_set(err, BH_E_PROTOCOL, 0, "the message is of protocol version %d, this side speaks %d",
                        p[VERSION_AT], BH_WIRE_VERSION);
    bh_err_hint(err, "run the same version of bulkhead on both sides");
    return rc;
}

static int read_text(const msgpack_object *o, struct bh_val **ret, struct bh_err **err)
{
    if (bh_utf8_check(o->via.str.ptr, o->via.str.size) != o->via.str.size)
        return refuse(err, "holds text that is not UTF-8");
    *ret = bh_val_strn(o->via.str.ptr, o->via.str.size);
    return 0;
}

static int read_value(const msgpack_object *o, struct bh_val **ret, struct bh_err **err);

static int read_list(const msgpack_object *o, struct bh_val **ret, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    for (uint32_t i = 0; i < o->via.array.size; i++) {
        struct bh_val *item = NULL;
        int rc = read_value(&o->via.array.ptr[i], &item, err);
        if (rc != 0)
            return rc;
        bh_val_add(list, item);
    }
    *ret = BH_TAKE(list);
    return 0;
}

/* Keys become C strings, so one with a NUL in it could pass for another. */
static int read_key(const msgpack_object *key, char **ret, struct bh_err **err)
{
    if (memchr(key->via.str.ptr, '\0', key->via.str.size))
        return refuse(err, "has a key with a NUL in it");
    if (bh_utf8_check(key->via.str.ptr, key->via.str.size) != key->via.str.size)
        return refuse(err, "has a key that is not UTF-8");
    *ret = bh_strndup(key->via.str.ptr, key->via.str.size);
    return 0;
}

static int read_map(const msgpack_object *o, struct bh_val **ret, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *map = bh_val_map();
    for (uint32_t i = 0; i < o->via.map.size; i++) {
        BH_CLEANUP_FREE char *key = NULL;
        struct bh_val *item = NULL;
        int rc = read_key(&o->via.map.ptr[i].key, &key, err);
        if (rc != 0)
            return rc;
        if (bh_val_get(map, key))
            return refuse(err, "has the same key twice in one map");
        rc = read_value(&o->via.map.ptr[i].val, &item, err);
        if (rc != 0)
            return rc;
        bh_val_set(map, key, item);
    }
    *ret = BH_TAKE(map);
    return 0;
}

static int read_scalar(const msgpack_object *o, struct bh_val **ret, struct bh_err **err)
{
    switch ((int)o->type) {
    case MSGPACK_OBJECT_NIL:
        *ret = bh_val_null();
        return 0;
    case MSGPACK_OBJECT_BOOLEAN:
        *ret = bh_val_bool(o->via.boolean);
        return 0;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        if (o->via.u64 > INT64_MAX)
            return refuse(err, "holds an integer that is too large");
        *ret = bh_val_int((int64_t)o->via.u64);
        return 0;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *ret = bh_val_int(o->via.i64);
        return 0;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        if (!isfinite(o->via.f64))
            return refuse(err, "holds a number that is not finite");
        *ret = bh_val_num(o->via.f64);
        return 0;
    default: /* the pre-scan let nothing else through */
        return refuse(err, "holds a value of a type that is not used here");
    }
}

static int read_value(const msgpack_object *o, struct bh_val **ret, struct bh_err **err)
{
    if (o->type == MSGPACK_OBJECT_STR)
        return read_text(o, ret, err);
    if (o->type == MSGPACK_OBJECT_ARRAY)
        return read_list(o, ret, err);
    if (o->type == MSGPACK_OBJECT_MAP)
        return read_map(o, ret, err);
    return read_scalar(o, ret, err);
}

static bool same_text(const msgpack_object *a, const char *b, size_t len)
{
    return a->via.str.size == len && memcmp(a->via.str.ptr, b, len) == 0;
}

/* The peer refused what we sent. Its text is bytes of a stranger. */
static int read_error(const msgpack_object *o, struct bh_err **err)
{
    if (o->type != MSGPACK_OBJECT_STR)
        return refuse(err, "holds an error that is no text");
    BH_CLEANUP_VAL struct bh_val *text = NULL;
    int rc = read_text(o, &text, err);
    return rc != 0 ? rc : bh_err_set(err, BH_E_PROTOCOL, 0, "the other side refused it: %s", bh_val_get_str(text));
}

/* Fields of the envelope that this version does not know are ignored, whatever they hold. */
static int read_envelope(const msgpack_object *o, struct bh_val **ret_body, struct bh_err **err)
{
    const msgpack_object *body = NULL, *error = NULL;
    for (uint32_t i = 0; i < o->via.map.size; i++) {
        const msgpack_object *key = &o->via.map.ptr[i].key;
        for (uint32_t j = 0; j < i; j++) {
            if (same_text(&o->via.map.ptr[j].key, key->via.str.ptr, key->via.str.size))
                return refuse(err, "has the same key twice in one map");
        }
        if (same_text(key, "body", strlen("body")))
            body = &o->via.map.ptr[i].val;
        else if (same_text(key, "error", strlen("error")))
            error = &o->via.map.ptr[i].val;
    }
    if (error)
        return read_error(error, err);
    return body ? read_value(body, ret_body, err) : refuse(err, "has no body");
}

static int unpack(const void *data, size_t len, msgpack_zone *zone, struct bh_val **ret_body, struct bh_err **err)
{
    msgpack_object o;
    size_t at = 0;
    int rc = msgpack_unpack(data, len, &at, zone, &o);
    if (rc == MSGPACK_UNPACK_NOMEM_ERROR)
        return bh_err_set(err, BH_E_NOMEM, 0, "no memory to read a message of %zu bytes", len);
    if (rc != MSGPACK_UNPACK_SUCCESS)
        return refuse(err, "cannot be read");
    return read_envelope(&o, ret_body, err);
}

int bh_wire_decode(const void *data, size_t len, struct bh_val **ret_body, struct bh_err **err)
{
    if (len > BH_WIRE_MAX_CONTROL)
        return bh_err_set(err, BH_E_PROTOCOL, 0, "the message has %zu bytes, more than the %d that are allowed", len,
                          BH_WIRE_MAX_CONTROL);
    int rc = check_version(data, len, err);
    if (rc != 0)
        return rc;
    struct bh_wire_flaw flaw;
    if (!bh_wire_scan(data, len, &flaw))
        return bh_err_set(err, BH_E_PROTOCOL, 0, "the message is bad at byte %zu: the value %s", flaw.at, flaw.what);
    msgpack_zone zone;
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
        return bh_err_set(err, BH_E_NOMEM, 0, "no memory to read a message of %zu bytes", len);
    rc = unpack(data, len, &zone, ret_body, err);
    msgpack_zone_destroy(&zone);
    return rc;
}
