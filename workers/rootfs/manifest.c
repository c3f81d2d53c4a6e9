/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"

#define NAME "manifest"
#define NEW "manifest.new"
#define SIZE_MAX_ ((size_t)256 << 10)
#define VERSION 1

void bh_manifest_fini(struct bh_manifest *m)
{
    bh_snapshot_fini(&m->s);
    for (size_t i = 0; i < m->n_below; i++)
        bh_free(m->below[i].key);
    bh_free(m->below);
    *m = (struct bh_manifest){0};
}

struct bh_snapshot bh_manifest_take(struct bh_manifest *m)
{
    struct bh_snapshot s = m->s;
    m->s = (struct bh_snapshot){0};
    return s;
}

/* --- to text --- */

static void set_digest(struct bh_val *map, const char *key, const struct bh_digest *d)
{
    char text[BH_DIGEST_TEXT];
    bh_val_set_str(map, key, bh_digest_format(d, text));
}

static struct bh_val *to_val(const struct bh_manifest *m)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "version", VERSION);
    bh_val_set_str(v, "key", m->s.key);
    bh_val_set_str(v, "kind", m->s.kind);
    bh_val_set_str(v, "run", m->s.run);
    bh_val_set_str(v, "agent", m->s.agent);
    bh_val_set_str(v, "base", m->s.base);
    bh_val_set_int(v, "made_us", m->s.made.us);
    bh_val_set_str(v, "boot", m->boot);
    bh_val_set_int(v, "owner", m->owner);
    bh_val_set_int(v, "uid", m->uid);
    set_digest(v, "seal", &m->s.seal.digest);
    bh_val_set_int(v, "entries", m->s.seal.entries);
    bh_val_set_int(v, "bytes", m->s.seal.bytes);
    bh_val_set_str(v, "digest", m->s.digest);
    struct bh_val *below = bh_val_set(v, "below", bh_val_list());
    for (size_t i = 0; i < m->n_below; i++) {
        struct bh_val *b = bh_val_add(below, bh_val_map());
        bh_val_set_str(b, "key", m->below[i].key);
        set_digest(b, "seal", &m->below[i].seal);
    }
    struct bh_val *stack = bh_val_set(v, "stack", bh_val_list());
    for (size_t i = 0; i < m->s.n_stack; i++)
        bh_val_add(stack, bh_val_str(m->s.stack[i]));
    return v;
}

int bh_manifest_write(int dir, const struct bh_manifest *m, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *v = to_val(m);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(v, &text);
    bh_buf_addc(&text, '\n');
    BH_CLEANUP_FD int fd = openat(dir, NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || bh_write_all(fd, text.data, text.len) < 0 || renameat(dir, NEW, dir, NAME) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot write the manifest of snapshot '%.12s'", m->s.key);
    return 0;
}

/* --- from text --- */

static char *name_of(const struct bh_val *v)
{
    const char *text = bh_val_get_str(v);
    return text && bh_path_is_clean(text) && !strchr(text, '/') ? bh_strdup(text) : NULL;
}

static bool read_stack(const struct bh_val *list, struct bh_manifest *m)
{
    size_t cap = 0;
    for (size_t i = 0; i < bh_val_len(list); i++) {
        char *name = name_of(bh_val_at(list, i));
        if (!name)
            return false;
        *BH_PUSH(m->s.stack, m->s.n_stack, cap) = name;
    }
    return m->s.n_stack > 0 && m->s.n_stack <= BH_SNAPSHOTS_MAX;
}

static bool read_below(const struct bh_val *list, struct bh_manifest *m)
{
    size_t cap = 0;
    for (size_t i = 0; i < bh_val_len(list); i++) {
        const struct bh_val *v = bh_val_at(list, i);
        struct bh_manifest_below *b = BH_PUSH(m->below, m->n_below, cap);
        b->key = name_of(bh_val_get(v, "key"));
        if (!b->key || bh_digest_parse(bh_val_str_of(v, "seal"), &b->seal) != 0)
            return false;
    }
    return m->s.n_stack == 1 || m->s.n_stack == m->n_below + 1;
}

static bool read_texts(const struct bh_val *v, struct bh_manifest *m)
{
    const char *boot = bh_val_str_of(v, "boot");
    m->s.key = name_of(bh_val_get(v, "key"));
    m->s.kind = bh_strdup(bh_val_str_of(v, "kind"));
    m->s.run = bh_strdup(bh_val_str_of(v, "run"));
    m->s.agent = bh_strdup(bh_val_str_of(v, "agent"));
    m->s.base = bh_strdup(bh_val_str_of(v, "base"));
    m->s.digest = bh_strdup(bh_val_str_of(v, "digest"));
    (void)snprintf(m->boot, sizeof(m->boot), "%s", boot ? boot : "");
    return m->s.key && m->s.kind && m->s.run && m->s.agent && m->s.base && boot;
}

static bool from_val(const struct bh_val *v, struct bh_manifest *m)
{
    struct bh_digest digest;
    m->s.made.us = bh_val_int_of(v, "made_us");
    m->owner = (uint32_t)bh_val_int_of(v, "owner");
    m->uid = (uint32_t)bh_val_int_of(v, "uid");
    m->s.seal.entries = bh_val_int_of(v, "entries");
    m->s.seal.bytes = bh_val_int_of(v, "bytes");
    return bh_val_int_of(v, "version") == VERSION && read_texts(v, m) && read_stack(bh_val_get(v, "stack"), m) &&
           read_below(bh_val_get(v, "below"), m) && bh_streq(m->s.stack[0], m->s.key) &&
           bh_digest_parse(bh_val_str_of(v, "seal"), &m->s.seal.digest) == 0 &&
           (!m->s.digest || bh_digest_parse(m->s.digest, &digest) == 0);
}

int bh_manifest_read(int dir, struct bh_manifest *ret, struct bh_err **err)
{
    struct bh_manifest m = {0};
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = openat(dir, NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return bh_err_set(err, BH_E_NOT_FOUND, errno, "cannot open the manifest");
    int rc = bh_read_all(fd, SIZE_MAX_, &text, err);
    if (rc == 0)
        rc = bh_json_parse(text.data, text.len, &v, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "reading the manifest");
    if (!from_val(v, &m)) {
        bh_manifest_fini(&m);
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the manifest is none");
    }
    *ret = m;
    return 0;
}
