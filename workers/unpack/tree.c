/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of a directory. It comes from our own walker; what it says is checked all the same. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/rootfs/image_tree.h"
#include "workers/unpack/unpack.h"

#define CHUNK (256 * 1024)

static int read_exactly(struct bh_putter *p, int stream, void *data, size_t len)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = read(stream, at, len);
        if (n < 0 && errno != EINTR)
            return bh_put_host(p, "read the stream");
        if (n == 0)
            return bh_put_bad(p, "it ends too early");
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int copy_content(struct bh_putter *p, int stream, int fd, int64_t size, char *chunk)
{
    for (int64_t at = 0; at < size;) {
        size_t n = size - at < CHUNK ? (size_t)(size - at) : CHUNK;
        if (read_exactly(p, stream, chunk, n) < 0 || bh_put_data(p, fd, at, chunk, n) < 0)
            return -1;
        at += (int64_t)n;
    }
    return 0;
}

static enum bh_put_type type_of(uint32_t type)
{
    static const enum bh_put_type types[] = {
        [BH_TREE_FILE] = BH_PUT_FILE,         [BH_TREE_DIR] = BH_PUT_DIR,   [BH_TREE_SYMLINK] = BH_PUT_SYMLINK,
        [BH_TREE_HARDLINK] = BH_PUT_HARDLINK, [BH_TREE_FIFO] = BH_PUT_FIFO,
    };
    return types[type];
}

static int put_entry(struct bh_putter *p, int stream, const struct bh_tree_head *head, char *texts, char *chunk)
{
    char *link = texts + PATH_MAX;
    int fd;
    if (head->type > BH_TREE_FIFO || head->path_len >= PATH_MAX || head->link_len >= PATH_MAX || head->size < 0)
        return bh_put_bad(p, "it is no stream of a directory");
    if (read_exactly(p, stream, texts, head->path_len) < 0 || read_exactly(p, stream, link, head->link_len) < 0)
        return -1;
    texts[head->path_len] = link[head->link_len] = '\0';
    const struct bh_put_entry e = {
        .path = texts,
        .type = type_of(head->type),
        .mode = head->mode,
        .uid = head->uid,
        .gid = head->gid,
        .sec = head->sec,
        .nsec = head->nsec,
        .link = link,
        .size = head->size,
    };
    if (bh_put_begin(p, &e, &fd) < 0)
        return -1;
    if (fd >= 0 && copy_content(p, stream, fd, head->size, chunk) < 0) {
        bh_close(fd);
        return -1;
    }
    return bh_put_end(p, &e, fd);
}

int bh_unpack_tree(struct bh_putter *p, int stream)
{
    char magic[sizeof(BH_TREE_MAGIC)];
    BH_CLEANUP_FREE char *texts = bh_alloc(2 * PATH_MAX);
    BH_CLEANUP_FREE char *chunk = bh_alloc(CHUNK);
    if (read_exactly(p, stream, magic, sizeof(magic)) < 0)
        return -1;
    if (memcmp(magic, BH_TREE_MAGIC, sizeof(magic)) != 0)
        return bh_put_bad(p, "it is no stream of a directory");
    for (;;) {
        struct bh_tree_head head;
        p->now = NULL;
        if (read_exactly(p, stream, &head, sizeof(head)) < 0)
            return -1;
        if (head.type == BH_TREE_END)
            return bh_put_finish(p);
        if (put_entry(p, stream, &head, texts, chunk) < 0)
            return -1;
    }
}
