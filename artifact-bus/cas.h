/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content store: cas/sha256/ab/REST, mode 0444, and REST.x, a second inode of mode 0555, where the bytes are
 * executable. The same content is stored once. An object is complete when its name exists: temp file, sync, rename
 * without replacing, folder sync. Blocks on the disk. Not shared between threads, but any number of processes may use
 * one store.
 */
#pragma once

#include "artifact-bus/digest.h"

struct bh_cas;

/*
 * `dir` is made where it is absent. Temporary files go to `tmp_dir` (same file system), which the caller empties. While
 * it is open nothing is swept from the store.
 */
int bh_cas_open(const char *dir, const char *tmp_dir, struct bh_cas **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_cas_close(struct bh_cas *cas);

struct bh_object {
    struct bh_digest digest;
    int64_t size;
    bool executable;
};

/*
 * Stores a copy of what can be read from `fd` (a regular file, from offset 0). `max_size` >= 0: more is -BH_E_TOO_LARGE
 * and nothing is kept. The copy is hashed by a helper thread while it is written. Not yet durable: call bh_cas_sync
 * before anything that names the object becomes durable.
 */
int bh_cas_put_fd(struct bh_cas *cas, int fd, bool executable, int64_t max_size, struct bh_object *ret,
                  struct bh_err **err) BH_MUST_CHECK;
int bh_cas_put_bytes(struct bh_cas *cas, const void *data, size_t len, struct bh_object *ret,
                     struct bh_err **err) BH_MUST_CHECK;
/* Makes everything put since the last call durable (one sync for many objects). */
int bh_cas_sync(struct bh_cas *cas, struct bh_err **err) BH_MUST_CHECK;

/* A read-only descriptor, or -BH_E_NOT_FOUND. */
int bh_cas_open_object(struct bh_cas *cas, const struct bh_digest *digest, int *ret_fd,
                       struct bh_err **err) BH_MUST_CHECK;
bool bh_cas_has(struct bh_cas *cas, const struct bh_digest *digest);
/* Hard-links the object as `name` beneath dirfd (parents are made). No bytes are copied. `executable` takes the 0555
 * inode, making it if needed. */
int bh_cas_link(struct bh_cas *cas, const struct bh_digest *digest, bool executable, int dirfd, const char *name,
                struct bh_err **err) BH_MUST_CHECK;
/* Hashes the stored bytes again: -BH_E_STORE_CORRUPT names the object where they differ. */
int bh_cas_verify(struct bh_cas *cas, const struct bh_digest *digest, struct bh_err **err) BH_MUST_CHECK;

/*
 * Removes objects that nobody wants any more. Whoever has the store open keeps it from that (bh_cas_open waits while it
 * goes on, so that nobody comes to rely on an object that is about to go). `wanted` is asked by the 64 hex digits of a
 * digest.
 */
struct bh_cas_sweep {
    bool dry_run;
    bool (*wanted)(void *arg, const char *hex);
    /* One that goes: its path below the store, the blocks that it takes, 0 or the errno of why it is still there. */
    void (*found)(void *arg, const char *path, int64_t bytes, int error);
    void *arg;
};
/* The store to oneself: a descriptor to be closed, -1 with errno (EWOULDBLOCK: somebody has it open). */
int bh_cas_hold(const char *dir);
/* By whoever holds it. Error: IO. A missing store is an empty one. */
int bh_cas_sweep(const char *dir, const struct bh_cas_sweep *how, struct bh_err **err) BH_MUST_CHECK;
