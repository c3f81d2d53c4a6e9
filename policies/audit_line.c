/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a line of the audit log looks like, how it is chained to the one before, and the mark of the log's end.
 * Knows nothing of what the fields mean. The hash is taken over bytes, not over values, so that anybody can check it
 * with sed and sha256sum.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/audit_priv.h"

#define SEAL ",\"hash\":\""
enum {
    TEXT_MAX = 1024,
    SEAL_LEN = sizeof(SEAL) - 1 + BH_DIGEST_TEXT - 1 + 2, /* ,"hash":"sha256:…"} */
    DIGITS = 19,
    HEAD_LEN = DIGITS + 1 + DIGITS + 1 + BH_DIGEST_TEXT - 1 + 1,
};

static const char *const kinds[] = {"grant", "denial", "gate", "secret", "egress", "call", "override"};
_Static_assert(BH_ARRAY_LEN(kinds) == BH_AUDIT_KINDS_, "each kind has its text");

const char *bh_audit_kind_text(enum bh_audit_kind kind)
{
    BH_ASSERT(kind < BH_AUDIT_KINDS_);
    return kinds[kind];
}

/* --- a line --- */

static bool is_reserved(const char *key)
{
    static const char *const ours[] = {"seq", "time", "kind", "prev", "hash"};
    for (size_t i = 0; i < BH_ARRAY_LEN(ours); i++) {
        if (strcmp(key, ours[i]) == 0)
            return true;
    }
    return false;
}

/* Whoever is noted chose some of the texts: none may be so long that the line is lost. */
static struct bh_val *cut_text(const char *s, size_t len)
{
    if (len <= TEXT_MAX)
        return bh_val_strn(s, len);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    size_t keep = TEXT_MAX;
    while (keep > 0 && ((unsigned char)s[keep] & 0xc0) == 0x80)
        keep--;
    bh_buf_add(&out, s, keep);
    bh_buf_adds(&out, "…");
    return bh_val_strn(out.data, out.len);
}

static struct bh_val *cut(const struct bh_val *v)
{
    enum bh_val_type type = bh_val_type(v);
    if (type == BH_VAL_STR)
        return cut_text(bh_val_get_str(v), bh_val_str_len(v));
    if (type != BH_VAL_LIST && type != BH_VAL_MAP)
        return bh_val_copy(v);
    struct bh_val *out = type == BH_VAL_LIST ? bh_val_list() : bh_val_map();
    for (size_t i = 0; i < bh_val_len(v); i++) {
        if (type == BH_VAL_LIST)
            bh_val_add(out, cut(bh_val_at(v, i)));
        else
            bh_val_set(out, bh_val_key_at(v, i), cut(bh_val_at(v, i)));
    }
    return out;
}

static void set_digest(struct bh_val *map, const char *key, const struct bh_digest *d)
{
    char text[BH_DIGEST_TEXT];
    bh_val_set_str(map, key, bh_digest_format(d, text));
}

void bh_audit_line_add(struct bh_buf *out, struct bh_audit_head *head, enum bh_audit_kind kind,
                       const struct bh_val *fields)
{
    BH_CLEANUP_VAL struct bh_val *line = bh_val_map();
    char now[BH_WALL_TEXT], hash[BH_DIGEST_TEXT];
    size_t start = out->len;
    bh_val_set_int(line, "seq", ++head->seq);
    bh_val_set_str(line, "time", bh_wall_format(bh_wall_now(), now));
    bh_val_set_str(line, "kind", bh_audit_kind_text(kind));
    for (size_t i = 0; i < bh_val_len(fields); i++) {
        const char *key = bh_val_key_at(fields, i);
        BH_ASSERT(!is_reserved(key));
        bh_val_set(line, key, cut(bh_val_at(fields, i)));
    }
    set_digest(line, "prev", &head->hash);
    bh_json_format(line, out);
    BH_ASSERT(out->data[out->len - 1] == '}');
    out->data[--out->len] = '\0';
    head->hash = bh_digest_of(out->data + start, out->len - start);
    bh_buf_addf(out, SEAL "%s\"}\n", bh_digest_format(&head->hash, hash));
    head->size += (int64_t)(out->len - start);
}

static bool digest_of_key(const struct bh_val *map, const char *key, struct bh_digest *ret)
{
    const char *text = bh_val_str_of(map, key);
    return text && bh_digest_parse(text, ret) == 0;
}

bool bh_audit_line_read(const char *text, size_t len, struct bh_audit_line *ret)
{
    BH_CLEANUP_VAL struct bh_val *map = NULL;
    if (bh_utf8_check(text, len) != len || bh_json_parse(text, len, &map, NULL) != 0 ||
        bh_val_type(map) != BH_VAL_MAP || !digest_of_key(map, "prev", &ret->prev) ||
        !digest_of_key(map, "hash", &ret->hash))
        return false;
    ret->seq = bh_val_int_of(map, "seq");
    ret->sealed = false;
    if (len > SEAL_LEN && memcmp(text + len - SEAL_LEN, SEAL, strlen(SEAL)) == 0) {
        struct bh_digest hash = bh_digest_of(text, len - SEAL_LEN);
        ret->sealed = bh_digest_equal(&hash, &ret->hash);
    }
    ret->map = BH_TAKE(map);
    return true;
}

/* --- the mark of the end --- */

static bool parse_number(const char *text, int64_t *ret)
{
    *ret = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*ret, 10, ret) ||
            __builtin_add_overflow(*ret, text[i] - '0', ret))
            return false;
    }
    return true;
}

static bool parse_head(const char *text, struct bh_audit_head *ret)
{
    char digest[BH_DIGEST_TEXT] = {0};
    const char *size = text + DIGITS + 1, *hash = size + DIGITS + 1;
    memcpy(digest, hash, sizeof(digest) - 1);
    return parse_number(text, &ret->seq) && parse_number(size, &ret->size) && text[DIGITS] == ' ' &&
           size[DIGITS] == ' ' && text[HEAD_LEN - 1] == '\n' && bh_digest_parse(digest, &ret->hash) == 0;
}

int bh_audit_head_read(int folder, struct bh_audit_head *ret)
{
    char text[HEAD_LEN + 1] = {0};
    BH_CLEANUP_FD int fd = openat(folder, BH_AUDIT_HEAD, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    ssize_t n = read(fd, text, sizeof(text));
    if (n < 0)
        return -1;
    return n == HEAD_LEN && parse_head(text, ret) ? 1 : -BH_E_STORE_CORRUPT;
}

int bh_audit_head_write(int folder, const struct bh_audit_head *head)
{
    char text[HEAD_LEN + 1], hash[BH_DIGEST_TEXT];
    int n = snprintf(text, sizeof(text), "%0*lld %0*lld %s\n", DIGITS, (long long)head->seq, DIGITS,
                     (long long)head->size, bh_digest_format(&head->hash, hash));
    BH_ASSERT(n == HEAD_LEN);
    BH_CLEANUP_FD int fd =
        openat(folder, BH_AUDIT_HEAD, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return -1;
    ssize_t put = pwrite(fd, text, HEAD_LEN, 0);
    if (put >= 0 && put != HEAD_LEN)
        errno = ENOSPC;
    return put == HEAD_LEN ? 0 : -1;
}
