/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/image_store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/box/launcher_client.h"
#include "workers/rootfs/base_stage.h"

#define MAX_ENTRIES 1000000
#define MAX_BYTES (INT64_C(256) << 30)

static int io_error(const struct bh_bases *b, const char *what, struct bh_err **err)
{
    return bh_err_set(err, BH_E_IO, errno, "cannot %s in '%s'", what, b->path);
}

/* --- the folder --- */

/* How ids lie on disk: the launcher has found out. */
int bh_image_host_ask(struct bh_image_host *host, struct bh_err **err)
{
    struct bh_msg_hello msg = {.kind = BH_MSG_HELLO, .version = BH_PROTO_VERSION};
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    if (bh_msg_send(host->launcher, &msg, sizeof(msg), NULL, 0) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot speak to the launcher");
    ssize_t n = bh_msg_recv(host->launcher, &msg, sizeof(msg), fds, &nfds);
    for (size_t i = 0; n > 0 && i < nfds; i++)
        bh_close(fds[i]);
    if (n != (ssize_t)sizeof(msg) || msg.kind != BH_MSG_HELLO)
        return bh_err_set(err, BH_E_HOST, 0, "the launcher has ended");
    msg.step[BH_STEP_MAX - 1] = '\0';
    if (msg.mode == BH_IDS_NONE)
        return bh_err_set(err, BH_E_HOST, msg.error, "this host cannot make boxes: cannot %s", msg.step);
    host->owner = (struct bh_box_owner){.mode = (enum bh_id_mode)msg.mode, .first_id = msg.first_id};
    return 0;
}

int bh_bases_open(const struct bh_image_host *host, const char *base, struct bh_bases *ret, struct bh_err **err)
{
    *ret = (struct bh_bases){.host = host, .base = base, .parent = -1, .fd = -1, .program = -1, .stage_fd = -1};
    ret->path = bh_asprintf("%s/" BH_IMAGES_DIR, host->home);
    int rc = bh_mkdir_p(ret->path, 0700, err);
    if (rc != 0)
        return rc;
    ret->fd = open(ret->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ret->parent = ret->fd >= 0 ? openat(ret->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    /* Root of a box must be able to go through, though not to list: the folders above are closed to it anyway. */
    if (ret->parent < 0 || (host->owner.mode == BH_IDS_RANGE && fchmod(ret->fd, 0711) < 0))
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", ret->path);
    return 0;
}

void bh_bases_close(struct bh_bases *b)
{
    if (b->stage)
        (void)bh_rmtree_at(b->parent, b->stage);
    for (size_t i = 0; i < b->n_parts; i++) {
        bh_free(b->parts[i].staged);
        bh_free(b->parts[i].name);
    }
    bh_free(b->parts);
    bh_free(b->stage);
    bh_free(b->path);
    bh_close(b->stage_fd);
    bh_close(b->program);
    bh_close(b->fd);
    bh_close(b->parent);
    *b = (struct bh_bases){.parent = -1, .fd = -1, .program = -1, .stage_fd = -1};
}

char *bh_bases_name(const struct bh_bases *b, const char *kind, const struct bh_digest *digest)
{
    char text[BH_DIGEST_TEXT], mode[24] = "single";
    const struct bh_box_owner *owner = &b->host->owner;
    if (owner->mode == BH_IDS_RANGE && owner->first_id == BH_RANGE_FIRST)
        (void)snprintf(mode, sizeof(mode), "range");
    else if (owner->mode == BH_IDS_RANGE)
        (void)snprintf(mode, sizeof(mode), "range%u", owner->first_id);
    bh_digest_format(digest, text);
    return bh_asprintf("%s-%s%s%s", mode, kind, *kind ? "-" : "", strchr(text, ':') + 1);
}

static const struct bh_bases_part *find_part(const struct bh_bases *b, const char *name)
{
    for (size_t i = 0; i < b->n_parts; i++) {
        if (!b->parts[i].placed && bh_streq(b->parts[i].name, name))
            return &b->parts[i];
    }
    return NULL;
}

bool bh_bases_has(const struct bh_bases *b, const char *name)
{
    return find_part(b, name) || faccessat(b->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int bh_bases_open_root(const struct bh_bases *b, const char *name)
{
    const struct bh_bases_part *part = find_part(b, name);
    BH_CLEANUP_FREE char *path = bh_path_join(part ? part->staged : name, "root");
    return bh_open_beneath(part ? b->stage_fd : b->fd, path, O_RDONLY | O_DIRECTORY, 0);
}

static int make_root(struct bh_bases *b, int part)
{
    const struct bh_box_owner *owner = &b->host->owner;
    if (fchmod(part, 0755) < 0 || mkdirat(part, "root", 0700) < 0 || fchmodat(part, "root", 0755, 0) < 0)
        return -1;
    if (owner->mode == BH_IDS_RANGE && fchownat(part, "root", owner->first_id, owner->first_id, 0) < 0)
        return -1;
    return openat(part, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int bh_bases_new_part(struct bh_bases *b, const char *name, int *ret_part, int *ret_root, struct bh_err **err)
{
    if (b->stage_fd < 0)
        b->stage_fd = bh_base_stage(b->parent, "image", &b->stage);
    if (b->stage_fd < 0)
        return io_error(b, "make a folder", err);
    if (b->n_parts == 0 && b->host->progress)
        b->host->progress(b->host->arg, b->base);
    BH_CLEANUP_FREE char *staged = bh_asprintf("%zu", b->n_parts);
    if (mkdirat(b->stage_fd, staged, 0700) < 0)
        return io_error(b, "make a folder", err);
    BH_CLEANUP_FD int part = openat(b->stage_fd, staged, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int root = part >= 0 ? make_root(b, part) : -1;
    if (root < 0)
        return io_error(b, "make a folder", err);
    *BH_PUSH(b->parts, b->n_parts, b->parts_cap) =
        (struct bh_bases_part){.staged = BH_TAKE(staged), .name = bh_strdup(name)};
    *ret_part = BH_TAKE_FD(part);
    *ret_root = root;
    return 0;
}

void bh_bases_name_part(struct bh_bases *b, const char *name)
{
    for (size_t i = b->n_parts; i > 0; i--) {
        if (!b->parts[i - 1].name) {
            b->parts[i - 1].name = bh_strdup(name);
            return;
        }
    }
}

/* --- unpacking --- */

static int open_program(struct bh_bases *b, struct bh_err **err)
{
    if (b->program >= 0)
        return 0;
    BH_CLEANUP_FREE char *path = bh_program_find("bulkhead-unpack");
    b->program = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (b->program >= 0)
        return 0;
    int rc = bh_err_set(err, BH_E_HOST, path ? errno : 0, "cannot find 'bulkhead-unpack'");
    bh_err_hint(err, "keep bulkhead-unpack beside bulkhead-launcher");
    return rc;
}

/* The socket may be one that does not wait: others use it too. */
static int ask(int launcher, const struct bh_buf *msg, const int fds[3])
{
    struct pollfd polled = {.fd = launcher, .events = POLLOUT};
    while (bh_msg_send(launcher, msg->data, msg->len, fds, 3) < 0) {
        if ((errno != EAGAIN && errno != EINTR) || (poll(&polled, 1, -1) < 0 && errno != EINTR))
            return -1;
    }
    return 0;
}

static char *path_of(int fd)
{
    char link[64], path[4096];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    return n > 0 ? bh_strndup(path, (size_t)n) : NULL;
}

/* The request: which folder below home is filled. */
static int make_request(const struct bh_bases *b, enum bh_unpack_kind kind, int root, struct bh_buf *out)
{
    const struct bh_msg_unpack msg = {
        .kind = BH_MSG_UNPACK, .what = kind, .max_entries = MAX_ENTRIES, .max_bytes = MAX_BYTES};
    BH_CLEANUP_FD int home = open(b->host->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FREE char *above = home >= 0 ? path_of(home) : NULL, *path = path_of(root);
    size_t len = above ? strlen(above) : 0;
    if (!above || !path || strncmp(path, above, len) != 0 || path[len] != '/')
        return -1;
    bh_buf_add(out, &msg, sizeof(msg));
    bh_pack_str(out, path + len + 1);
    return 0;
}

/* The program sees the end of the stream when we close our side of it. */
static int start(struct bh_bases *b, enum bh_unpack_kind kind, int root, int *ret_answer, int *ret_stream,
                 struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf msg = BH_BUF_INIT;
    int answer[2], stream[2];
    if (make_request(b, kind, root, &msg) < 0)
        return bh_err_set(err, BH_E_INTERNAL, errno, "cannot name the folder that an image is unpacked in");
    int rc = open_program(b, err);
    if (rc == 0)
        rc = bh_seqpacket_pair(answer, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FD int answer_ours = answer[0], answer_theirs = answer[1];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot make a socket");
    BH_CLEANUP_FD int ours = stream[0], theirs = stream[1];
    const int fds[] = {answer_theirs, b->program, theirs};
    if (ask(b->host->launcher, &msg, fds) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot speak to the launcher");
    *ret_answer = BH_TAKE_FD(answer_ours);
    *ret_stream = BH_TAKE_FD(ours);
    return 0;
}

int bh_feed_bytes(int sock, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(sock, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static int receive(int answer, const char *what, struct bh_msg_unpacked *ret, struct bh_err **err)
{
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    ssize_t n = bh_msg_recv(answer, ret, sizeof(*ret), fds, &nfds);
    for (size_t i = 0; n > 0 && i < nfds; i++)
        bh_close(fds[i]);
    if (n != (ssize_t)sizeof(*ret) || ret->kind != BH_MSG_UNPACKED || ret->blame > BH_UNPACK_HOST)
        return bh_err_set(err, BH_E_HOST, 0, "bulkhead-unpack has died of %s", what);
    ret->why[sizeof(ret->why) - 1] = '\0';
    ret->entry[sizeof(ret->entry) - 1] = '\0';
    return 0;
}

int bh_bases_unpack(struct bh_bases *b, enum bh_unpack_kind kind, int root, bh_feed_fn *feed, void *arg,
                    const char *what, struct bh_msg_unpacked *ret, struct bh_err **err)
{
    int answer = -1, stream = -1;
    int rc = start(b, kind, root, &answer, &stream, err);
    if (rc == 0)
        rc = feed(arg, stream, err);
    bh_close(stream);
    if (rc == 0)
        rc = receive(answer, what, ret, err);
    bh_close(answer);
    return rc;
}

int bh_bases_judge(const struct bh_bases *b, const struct bh_msg_unpacked *said, const char *what, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf entry = BH_BUF_INIT, why = BH_BUF_INIT;
    if (said->blame == BH_UNPACK_DONE)
        return 0;
    bh_escape_terminal(&entry, said->entry, strlen(said->entry));
    bh_escape_terminal(&why, said->why, strlen(said->why));
    const char *open = entry.len ? " at '" : "", *close_ = entry.len ? "'" : "";
    if (said->blame == BH_UNPACK_HOST)
        return bh_err_set(err, said->error == ENOSPC || said->error == EDQUOT ? BH_E_IO : BH_E_HOST, said->error,
                          "cannot unpack %s of '%s'%s%s%s: cannot %s", what, b->base, open, entry.data, close_,
                          why.data);
    int rc = bh_err_set(err, BH_E_INVALID, 0, "%s of '%s' cannot be used%s%s%s: %s", what, b->base,
                        entry.len ? ": the entry '" : "", entry.data, close_, why.data);
    bh_err_hint(err, "fetch or build the image again; nothing of it was kept");
    return rc;
}

/* --- in place --- */

static int put_in_place(struct bh_bases *b, const struct bh_bases_part *part, struct bh_err **err)
{
    if (renameat2(b->stage_fd, part->staged, b->fd, part->name, RENAME_NOREPLACE) == 0 || errno == EEXIST)
        return 0;
    return io_error(b, "put a base in place", err);
}

int bh_bases_commit(struct bh_bases *b, struct bh_err **err)
{
    int rc = 0;
    if (b->stage_fd < 0)
        return 0;
    if (syncfs(b->stage_fd) < 0)
        return io_error(b, "sync", err);
    for (size_t i = 0; rc == 0 && i < b->n_parts; i++) {
        if (!b->parts[i].name || b->parts[i].placed)
            continue;
        rc = put_in_place(b, &b->parts[i], err);
        b->parts[i].placed = rc == 0;
    }
    if (rc == 0 && fsync(b->fd) < 0)
        rc = io_error(b, "sync", err);
    return rc;
}
