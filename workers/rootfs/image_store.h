/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HOME/bases/images while an image comes into it. What is unpacked lies in a folder of this process beside it (named
 * with BH_TEMPORARY_PREFIX, locked as long as we live) until all of it is on the disk; then each part is renamed to its
 * name for ever. Two processes may make the same at once: the first rename wins, the other's work is thrown away.
 */
#pragma once

#include "artifact-bus/digest.h"
#include "workers/box/proto.h"
#include "workers/rootfs/image.h"

struct bh_bases {
    const struct bh_image_host *host;
    const char *base; /* of the document, for messages */
    char *path;
    int parent, fd, program; /* bases, bases/images */
    char *stage;             /* NULL: nothing was unpacked yet */
    int stage_fd;
    struct bh_bases_part {
        char *staged, *name;
        bool placed;
    } * parts;
    size_t n_parts, parts_cap;
};

int bh_bases_open(const struct bh_image_host *host, const char *base, struct bh_bases *ret,
                  struct bh_err **err) BH_MUST_CHECK;
/* Removes what is not in place. */
void bh_bases_close(struct bh_bases *b);

/* "range-" or the like, before the names of all that depends on how ids lie on disk. */
char *bh_bases_name(const struct bh_bases *b, const char *kind, const struct bh_digest *digest);
/* In place already, or about to be by this process. */
bool bh_bases_has(const struct bh_bases *b, const char *name);
/* root/ of a part, wherever it lies now; -1 with errno. */
int bh_bases_open_root(const struct bh_bases *b, const char *name);
/* A new, empty part: *ret_root is the descriptor of its root/. `name` NULL: for this process alone. */
int bh_bases_new_part(struct bh_bases *b, const char *name, int *ret_part, int *ret_root,
                      struct bh_err **err) BH_MUST_CHECK;
/* Names the last part that was made without a name. */
void bh_bases_name_part(struct bh_bases *b, const char *name);

/*
 * Runs bulkhead-unpack on what `feed` sends to the socket: 0, or -1 where the program wants no more of it. What it says
 * of the archive is in *ret; an error is of the host (or of feed). `what` for messages: "layer 'sha256:…'".
 */
typedef int bh_feed_fn(void *arg, int sock, struct bh_err **err);
int bh_bases_unpack(struct bh_bases *b, enum bh_unpack_kind kind, int root, bh_feed_fn *feed, void *arg,
                    const char *what, struct bh_msg_unpacked *ret, struct bh_err **err) BH_MUST_CHECK;
/* 0 where it is whole; else words what the program says. */
int bh_bases_judge(const struct bh_bases *b, const struct bh_msg_unpacked *said, const char *what,
                   struct bh_err **err) BH_MUST_CHECK;
/* All of it to the socket. -1 with errno EPIPE where nobody reads any more. */
int bh_feed_bytes(int sock, const void *data, size_t len);

/* All parts that have a name: to the disk, then in place. */
int bh_bases_commit(struct bh_bases *b, struct bh_err **err) BH_MUST_CHECK;
