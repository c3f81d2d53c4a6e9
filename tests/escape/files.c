/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host, files that are read-only, and descriptors that lead out. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/escape/escape.h"

static bool shadow(void)
{
    return opens("/etc/shadow", O_RDONLY);
}

static bool host_file(void)
{
    return opens(target("secret"), O_RDONLY);
}

/* A folder deep enough, then as many steps up as there can be. */
static bool host_file_upwards(void)
{
    char path[2048] = "";
    for (int i = 0; i < 64; i++)
        strcat(path, "../");
    (void)snprintf(path + strlen(path), sizeof(path) - strlen(path), ".%s", target("secret"));
    return opens(path, O_RDONLY);
}

static bool host_file_by_process(void)
{
    char path[1100];
    (void)snprintf(path, sizeof(path), "/proc/%ld/root%s", target_number("pid"), target("secret"));
    return opens(path, O_RDONLY);
}

/* The folder that the pipeline came from: hooks, rc files and shims there would be run by people. */
static bool pipeline_folder(void)
{
    return opens(target("folder"), O_RDONLY | O_DIRECTORY);
}

static bool leaves_hook(void)
{
    static const char *const names[] = {".git/hooks/post-checkout", ".envrc", "pipeline.yaml", ".mcp.json"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[1100];
        (void)snprintf(path, sizeof(path), "%s/%s", target("folder"), names[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
        if (tried(fd, path)) {
            close(fd);
            if (outside)
                (void)unlink(path);
            return true;
        }
    }
    return false;
}

static bool state_directory(void)
{
    return opens(target("home"), O_RDONLY | O_DIRECTORY);
}

static bool content_store(void)
{
    char path[1100];
    (void)snprintf(path, sizeof(path), "%s/cas", target("home"));
    return opens(path, O_RDONLY | O_DIRECTORY);
}

static bool home_of_root(void)
{
    return opens("/root/.ssh", O_RDONLY | O_DIRECTORY) || opens("/root/.bashrc", O_WRONLY) ||
           opens("/root/.profile", O_RDONLY);
}

static bool host_logs(void)
{
    return opens("/var/lib/dpkg/status", O_RDONLY);
}

static bool machine_id(void)
{
    return opens("/etc/machine-id", O_RDONLY) || opens("/var/lib/dbus/machine-id", O_RDONLY);
}

static bool writes_usr(void)
{
    return opens("/usr/bin/base64", O_WRONLY);
}

static bool makes_in_usr(void)
{
    int fd = open("/usr/bh-escape", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    if (fd >= 0 && outside)
        (void)unlink("/usr/bh-escape");
    return tried(fd, "create /usr/bh-escape");
}

static bool path_shim(void)
{
    int fd = open("/usr/local/bin/git", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    if (fd >= 0 && outside)
        (void)unlink("/usr/local/bin/git");
    return tried(fd, "create /usr/local/bin/git");
}

static bool replaces_device(void)
{
    return TRIED(chmod("/dev/null", 0666)) || TRIED(unlink("/dev/null"));
}

static bool changes_stdin(void)
{
    struct stat st;
    if (fstat(0, &st) < 0 || !S_ISCHR(st.st_mode)) {
        int fd = open("/dev/null", O_RDONLY);
        return tried(fd, "open /dev/null") && TRIED(fchmod(fd, 0666));
    }
    return TRIED(fchmod(0, st.st_mode & 07777));
}

static bool is_overlay_or_own(const struct stat *st)
{
    return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode) || S_ISCHR(st->st_mode) || S_ISREG(st->st_mode);
}

/* Anything above the three streams, and any of the three that is a folder. */
static bool inherited_descriptor(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        struct stat st;
        int fd = atoi(e->d_name);
        if (e->d_name[0] == '.' || fd == dirfd(dir) || fstat(fd, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode) || !is_overlay_or_own(&st))
            return note("descriptor %d is a folder", fd), true;
    }
    note("no descriptor leads anywhere");
    return false;
}

/* Written through what was given for reading only. */
static bool reopens_stream(void)
{
    if (outside) {
        (void)close(0);
        int fd = open(target("secret"), O_RDONLY);
        if (fd != 0)
            return false;
    }
    struct stat st;
    if (fstat(0, &st) < 0 || !S_ISREG(st.st_mode))
        return note("standard input is no file"), false;
    return opens("/proc/self/fd/0", O_RDWR);
}

static bool passed_descriptor(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = target("abstract");
    size_t len = strlen(name);
    memcpy(address.sun_path + 1, name, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!tried(connect(fd, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1)), "connect"))
        return false;
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    if (!TRIED(recvmsg(fd, &msg, 0)) || !CMSG_FIRSTHDR(&msg))
        return false;
    int root;
    memcpy(&root, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(root));
    return TRIED(openat(root, target("secret") + 1, O_RDONLY | O_CLOEXEC));
}

/* --- the input at in/data; outside an ordinary file of that name --- */

static bool input_write(void)
{
    return opens("in/data", O_WRONLY);
}

static bool input_truncate(void)
{
    return TRIED(truncate("in/data", 0));
}

static bool input_replace(void)
{
    (void)close(open("data.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    return TRIED(rename("data.new", "in/data"));
}

static bool input_remove(void)
{
    return TRIED(unlink("in/data"));
}

static bool input_chmod(void)
{
    return TRIED(chmod("in/data", 0666));
}

static bool input_times(void)
{
    return TRIED(utimensat(AT_FDCWD, "in/data", NULL, 0));
}

static bool input_attribute(void)
{
    return TRIED(setxattr("in/data", "user.escape", "x", 1, 0));
}

static bool input_link_out(void)
{
    (void)unlink("linked");
    return TRIED(link("in/data", "linked"));
}

static bool input_reopen(void)
{
    char path[64];
    int fd = open("in/data", O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return opens(path, O_RDWR);
}

static bool input_add(void)
{
    int fd = open("in/more", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return tried(fd, "create in/more");
}

/* --- sockets and queues of the host that lie in the file system --- */

static int reached_sockets;

static int look(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)type;
    (void)at;
    if (strncmp(path, "/proc", 5) == 0)
        return FTW_SKIP_SUBTREE;
    if (!S_ISSOCK(st->st_mode) || strlen(path) >= 108)
        return FTW_CONTINUE;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(fd, (void *)&address, sizeof(address)) == 0) {
        note("connected to %s", path);
        reached_sockets++;
    }
    close(fd);
    return FTW_CONTINUE;
}

/* docker.sock, an agent of keys, a bus: whatever listens. */
static bool any_socket(void)
{
    if (outside)
        (void)nftw(target("dir"), look, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    else
        (void)nftw("/", look, 16, FTW_PHYS | FTW_ACTIONRETVAL | FTW_MOUNT * 0);
    if (reached_sockets == 0)
        note("no socket answers");
    return reached_sockets > 0;
}

static bool named_pipe(void)
{
    int fd = open(target("fifo"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return tried(fd, target("fifo")) && TRIED(write(fd, "x", 1));
}

static int reached_devices;

static int look_device(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)type;
    (void)at;
    static const unsigned known[][2] = {{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 2}};
    if (strncmp(path, "/proc", 5) == 0)
        return FTW_SKIP_SUBTREE;
    if (!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode))
        return FTW_CONTINUE;
    if (major(st->st_rdev) == 136 || (major(st->st_rdev) == 0 && minor(st->st_rdev) == 0))
        return FTW_CONTINUE;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (S_ISCHR(st->st_mode) && major(st->st_rdev) == known[i][0] && minor(st->st_rdev) == known[i][1])
            return FTW_CONTINUE;
    }
    note("%s is a device", path);
    reached_devices++;
    return FTW_CONTINUE;
}

static bool any_device(void)
{
    (void)nftw(outside ? "/dev" : "/", look_device, 16, FTW_PHYS | FTW_ACTIONRETVAL);
    if (reached_devices == 0)
        note("no device but the seven harmless ones");
    return reached_devices > 0;
}

const struct attempt attempts_files[] = {
    {"etc-shadow", "read /etc/shadow", shadow},
    {"host-file", "read a file of the host", host_file},
    {"host-file-up", "read a file of the host by ../..", host_file_upwards},
    {"host-file-proc", "read a file of the host through a process", host_file_by_process},
    {"pipeline-folder", "look into the folder of the pipeline", pipeline_folder},
    {"leave-hook", "leave a hook or an rc file in the folder of the pipeline", leaves_hook},
    {"state-directory", "look into bulkhead's state", state_directory},
    {"content-store", "look into the content store", content_store},
    {"root-home", "look into root's home", home_of_root, .may_lack = "a home of root"},
    {"host-var", "read what the host keeps in /var", host_logs, .may_lack = "dpkg"},
    {"machine-id", "read which machine this is", machine_id, .may_lack = "/etc/machine-id"},
    {"usr-write", "change a program of the host", writes_usr},
    {"usr-create", "make a file in /usr", makes_in_usr},
    {"path-shim", "put a program before others' in PATH", path_shim},
    {"dev-change", "change or remove a device node", replaces_device, .not_outside = "it would be changed"},
    {"stdin-chmod", "change the host's null device through a stream", changes_stdin},
    {"fd-inherited", "find a descriptor that leads out", inherited_descriptor,
     .not_outside = "the caller's may be any"},
    {"fd-reopen", "open a stream again for writing", reopens_stream},
    {"fd-passed", "be handed a descriptor of the host's root", passed_descriptor},
    {"input-write", "write to an input", input_write},
    {"input-truncate", "empty an input", input_truncate},
    {"input-replace", "put another file in an input's place", input_replace},
    {"input-chmod", "change an input's mode", input_chmod},
    {"input-times", "change an input's times", input_times},
    {"input-xattr", "change an input's attributes", input_attribute, .may_lack = "attributes of this file system"},
    {"input-link", "link an input out of its folder", input_link_out},
    {"input-reopen", "open an input again for writing", input_reopen},
    {"input-add", "add an input", input_add},
    {"input-remove", "remove an input", input_remove},
    {"any-socket", "talk to anything that listens in the file system", any_socket},
    {"named-pipe", "write to a named pipe of the host", named_pipe},
    {"any-device", "find a device", any_device},
    {NULL},
};
