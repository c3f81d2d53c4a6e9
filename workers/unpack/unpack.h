/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-unpack, inside. It alone reads archives that others made, and it is built so that it does not matter whether
 * they break it: it runs in a user namespace in which it owns nothing but what boxes may own, in an empty root, with a
 * stream to read, a folder to fill and a socket for one answer (launcher/unpack.c).
 *
 * put.c makes entries, each beneath the folder and through no symlink; tar.c and tree.c read the two kinds of stream.
 */
#pragma once

#include "artifact-bus/digest.h"
#include "workers/box/proto.h"

/* What went wrong first. `entry` is text of the archive: raw. */
struct bh_unpack_fault {
    enum bh_unpack_blame blame;
    int error;
    char why[BH_STEP_MAX];
    char entry[BH_UNPACK_ENTRY_MAX];
};

struct bh_dir_time {
    char *path;
    int64_t sec;
    int32_t nsec;
};

struct bh_putter {
    int root; /* the folder that is filled */
    enum bh_unpack_kind kind;
    bool ids; /* give each entry the owner that the archive says; else all is ours */
    int64_t max_entries, max_bytes;
    int64_t entries, bytes;
    bool looked; /* at the disk, and when that is to be done again */
    int64_t look_entries, look_bytes;
    const char *now; /* the entry that is being made, as the archive has it */
    int parent;      /* of the last entry, -1: none */
    char *parent_path;
    struct bh_dir_time *times; /* of directories: set last, since what is put into them changes them */
    size_t n_times, times_cap;
    struct bh_unpack_fault fault;
};

enum bh_put_type { BH_PUT_FILE, BH_PUT_DIR, BH_PUT_SYMLINK, BH_PUT_HARDLINK, BH_PUT_FIFO, BH_PUT_DEVICE };

struct bh_put_entry {
    const char *path;
    enum bh_put_type type;
    unsigned mode;
    int64_t uid, gid;
    int64_t sec;
    int32_t nsec;
    const char *link; /* target of either kind of link */
    int64_t size;     /* of a file */
};

void bh_putter_init(struct bh_putter *p, int root, enum bh_unpack_kind kind, bool ids, int64_t max_entries,
                    int64_t max_bytes);
void bh_putter_fini(struct bh_putter *p);

/* Sets the fault (the first one stays) and gives -1. BAD: the archive is at fault; HOST: errno says why we cannot. */
int bh_put_bad(struct bh_putter *p, const char *fmt, ...) BH_PRINTF(2, 3);
int bh_put_host(struct bh_putter *p, const char *what);
/* Where the disk has less left than the host's reserve: the fault is ENOSPC. */
int bh_put_room(struct bh_putter *p);

/* -1 and the fault. *ret_fd: of a file, to be written and ended; -1: there is nothing to write. */
int bh_put_begin(struct bh_putter *p, const struct bh_put_entry *e, int *ret_fd);
int bh_put_data(struct bh_putter *p, int fd, int64_t offset, const void *data, size_t len);
int bh_put_end(struct bh_putter *p, const struct bh_put_entry *e, int fd); /* takes fd */
int bh_put_finish(struct bh_putter *p);

/* The stream's bytes without their compression, and the digest of these. */
int bh_unpack_tar(struct bh_putter *p, int stream, struct bh_digest *ret_digest);
/* The stream that rootfs/image_tree.c writes of a directory. */
int bh_unpack_tree(struct bh_putter *p, int stream);
