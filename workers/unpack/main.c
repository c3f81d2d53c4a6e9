/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-unpack KIND IDS MAX_ENTRIES MAX_BYTES: started by bulkhead-launcher with descriptors 3 to 7, in namespaces
 * of its own. It gives up what is left of the host's file system before it reads a byte: what libraries load later by
 * name (converters of character sets) must never come from the folder that is being filled.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/units.h"
#include "workers/unpack/fds.h"
#include "workers/unpack/unpack.h"

static int drop_chroot(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) < 0)
        return -1;
    data[0].effective &= ~(1u << CAP_SYS_CHROOT);
    data[0].permitted = data[0].effective;
    data[0].inheritable = data[1].inheritable = 0;
    return (int)syscall(SYS_capset, &head, data);
}

static int load_filter(void)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (lseek(BH_UNPACK_FD_FILTER, 0, SEEK_SET) < 0 || bh_read_all(BH_UNPACK_FD_FILTER, 1 << 20, &text, NULL) != 0)
        return -1;
    struct sock_fprog program = {.len = (unsigned short)(text.len / sizeof(struct sock_filter)),
                                 .filter = (struct sock_filter *)(void *)text.data};
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* Whoever takes this program over holds the folder: it must be the root of its mount, so that no path leads upwards. */
static bool is_alone(int folder)
{
    struct stat here, above;
    BH_CLEANUP_FD int up = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return up >= 0 && fstat(folder, &here) == 0 && fstat(up, &above) == 0 && here.st_dev == above.st_dev &&
           here.st_ino == above.st_ino;
}

static int confine(struct bh_putter *p)
{
    if (!is_alone(BH_UNPACK_FD_ROOT) || !is_alone(BH_UNPACK_FD_EMPTY)) {
        errno = EXDEV;
        return bh_put_host(p, "keep to the folder");
    }
    if (fchdir(BH_UNPACK_FD_EMPTY) < 0 || chroot(".") < 0 || close(BH_UNPACK_FD_EMPTY) < 0)
        return bh_put_host(p, "enter an empty root");
    if (drop_chroot() < 0)
        return bh_put_host(p, "drop capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || load_filter() < 0)
        return bh_put_host(p, "load the system call filter");
    return 0;
}

static int work(struct bh_putter *p, struct bh_digest *digest)
{
    if (confine(p) < 0)
        return -1;
    return p->kind == BH_UNPACK_TREE ? bh_unpack_tree(p, BH_UNPACK_FD_STREAM)
                                     : bh_unpack_tar(p, BH_UNPACK_FD_STREAM, digest);
}

static int answer(const struct bh_putter *p, const struct bh_digest *digest)
{
    static struct bh_msg_unpacked msg = {.kind = BH_MSG_UNPACKED};
    msg.blame = p->fault.blame;
    msg.error = p->fault.error;
    msg.entries = p->entries;
    msg.bytes = p->bytes;
    memcpy(msg.digest, digest->b, sizeof(msg.digest));
    memcpy(msg.why, p->fault.why, sizeof(msg.why));
    memcpy(msg.entry, p->fault.entry, sizeof(msg.entry));
    return bh_msg_send(BH_UNPACK_FD_ANSWER, &msg, sizeof(msg), NULL, 0) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct bh_putter p;
    struct bh_digest digest = {{0}};
    struct stat st;
    int64_t numbers[4] = {0};
    bool good = argc == 5 && fstat(BH_UNPACK_FD_ANSWER, &st) == 0 && S_ISSOCK(st.st_mode);
    for (int i = 0; good && i < 4; i++)
        good = bh_parse_int(argv[i + 1], &numbers[i]) == 0;
    if (!good) {
        fputs("bulkhead-unpack: started by bulkhead only\n", stderr);
        return 2;
    }
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* names are bytes to us, and libarchive shall not convert them */
    umask(022);
    bh_hasher_free(bh_hasher_new()); /* what libcrypto loads it has loaded */
    bh_putter_init(&p, BH_UNPACK_FD_ROOT, (enum bh_unpack_kind)numbers[0], numbers[1] != 0, numbers[2], numbers[3]);
    (void)work(&p, &digest); /* how it went is in the fault */
    int status = answer(&p, &digest);
    bh_putter_fini(&p);
    return status;
}
