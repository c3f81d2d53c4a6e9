/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The snapshot store, $BULKHEAD_HOME/snapshots: prepared states that attempts, and later runs, start from.
 *
 *   snapshots/KEY/{root,usr,opt}   as in runs/RUN/layers/NAME: the upper of the box that was frozen; immutable
 *   snapshots/KEY/manifest         what it is, what it stands on, its seal, and (when it has been read) its digest
 *   snapshots/KEY/lock             held shared (flock) by whoever uses it; its time is that of the last use
 *   snapshots/.old-…               was replaced or is being removed
 *
 * KEY is the address of all that a snapshot was made of; who computes it sees to it that the label is in it. A snapshot
 * is used by the same user alone and with the ids that it was made with. All calls block on the disk.
 *
 * Nothing is believed that lies there: before a snapshot is used the first time, its seal (seal.h) is computed again,
 * and so are those of what it stands on. One that was not read to its end before the host stopped is not used either;
 * one that was is read again by whoever finds it first after that.
 */
#pragma once

#include "base/clock.h"
#include "workers/rootfs/seal.h"

#define BH_SNAPSHOTS "snapshots" /* below home */
#define BH_SNAPSHOT_OLD ".old-"
#define BH_SNAPSHOTS_MAX 48 /* a longer stack is squashed when it is frozen */

struct bh_snapshot_spec { /* all borrowed */
    const char *key;
    const char *kind; /* "setup", "prepare" */
    const char *run, *agent;
    const char *base;         /* digest or name of the base: part of the digest */
    const char *const *below; /* keys of the stack that it stands on, newest first */
    size_t n_below;
    uint32_t owner; /* whose the files of a box's root are */
};

struct bh_snapshot {
    char *key, *kind, *run, *agent, *base;
    struct bh_wall made;
    char **stack; /* newest first, itself included */
    size_t n_stack;
    struct bh_seal seal;
    char *digest; /* "sha256:…" of its content and of all that it stands on; NULL: not read yet */
};
void bh_snapshot_fini(struct bh_snapshot *s);

/* HOME/snapshots, made where it is missing; a box's root may go through, not list. Descriptor, or a negative code. */
int bh_snapshots_open(const char *home, struct bh_err **err) BH_MUST_CHECK;

/*
 * The snapshot `spec->key` if it may be used. NOT_FOUND: there is none. STORE_CORRUPT: there is one, and it or what it
 * stands on was changed, is gone, or stands on something else than spec->below; the message says what.
 */
int bh_snapshot_find(int store, const struct bh_snapshot_spec *spec, struct bh_snapshot *ret,
                     struct bh_err **err) BH_MUST_CHECK;
/* Each of these (newest first) is there and unchanged; the same errors. *ret_digest: of the newest, NULL where it has
 * not been read yet. */
int bh_snapshots_verify(int store, const char *const *keys, size_t n, char **ret_digest,
                        struct bh_err **err) BH_MUST_CHECK;

/*
 * The tree `upper` beneath dirfd (on the same file system; nobody writes to it any more) becomes the snapshot
 * spec->key. Where there is one already that is good (somebody else was faster), that one is given and the tree left as
 * it is; one that is bad is put aside.
 */
int bh_snapshot_put(int dirfd, const char *upper, int store, const struct bh_snapshot_spec *spec,
                    struct bh_snapshot *ret, struct bh_err **err) BH_MUST_CHECK;
/*
 * Reads it all: gives its digest, which is noted in its manifest. Takes as long as the bytes take.
 * The digests of what it stands on come first. `stop` as in seal.h.
 */
int bh_snapshot_read(int store, const char *key, const bool *stop, char **ret_digest,
                     struct bh_err **err) BH_MUST_CHECK;

/* Puts it out of sight and, where nobody uses it, removes it. A missing one is fine. */
int bh_snapshot_retire(int store, const char *key, struct bh_err **err) BH_MUST_CHECK;
/* A descriptor that says, as long as it is open, that the snapshot is in use; -1 with errno. Notes the time. */
int bh_snapshot_use(int store, const char *key);

/* --- for whoever clears up --- */

struct bh_snapshot_item {
    char *key;
    bool good; /* has a manifest that can be read; the rest is only known then */
    char *kind, *run, *agent;
    struct bh_wall made, used;
    int64_t bytes;
    bool in_use;
};
void bh_snapshot_items_free(struct bh_snapshot_item *items, size_t n);
/* Of the store of this home; none where there is no store. `.old-` ones too. */
int bh_snapshots_list(const char *home, struct bh_snapshot_item **ret, size_t *ret_n,
                      struct bh_err **err) BH_MUST_CHECK;
/* BUSY where somebody uses it. */
int bh_snapshot_remove(const char *home, const char *key, struct bh_err **err) BH_MUST_CHECK;
