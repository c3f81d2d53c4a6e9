/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attempts aim at, as a host has it: listeners on loopback, an abstract socket that hands out a descriptor of the
 * root, a socket and a file in the file system, shared memory, queues, a key. Writes DIR/targets and says "up"; every
 * packet, connection or byte that reaches it is a line of DIR/hits. Ends with its standard input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/escape/escape.h"

enum { TCP4, TCP6, UDP4, DNS, ABSTRACT, PATH, FIFO, SOCKETS };
static const char *const names[SOCKETS] = {"tcp", "tcp6", "udp", "dns", "abstract", "path", "fifo"};

static int socks[SOCKETS];
static FILE *targets, *hits;
static int shm_id = -1, msg_id = -1, sem_id = -1;
static char mq_name[64], shm_name[64], dir[512];

static int bind_inet(int family, int type, int port, int *ret_port)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}, .sin_port = htons((uint16_t)port)};
    if (port)
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(family, type | SOCK_CLOEXEC, 0), one = 1;
    socklen_t len = family == AF_INET ? sizeof(four) : sizeof(six);
    void *address = family == AF_INET ? (void *)&four : (void *)&six;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 || bind(fd, address, len) < 0 ||
        (type == SOCK_STREAM && listen(fd, 64) < 0) || getsockname(fd, address, &len) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *ret_port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
    return fd;
}

static int bind_unix(const char *name, bool abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(address.sun_path + abstract, name, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (void *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1)) < 0 ||
        listen(fd, 64) < 0) {
        perror("escape host: unix socket");
        exit(2);
    }
    return fd;
}

static void make_sockets(void)
{
    char name[600];
    int port = 0;
    if ((socks[TCP4] = bind_inet(AF_INET, SOCK_STREAM, 0, &port)) < 0)
        exit(2);
    fprintf(targets, "tcp=%d\n", port);
    if ((socks[TCP6] = bind_inet(AF_INET6, SOCK_STREAM, 0, &port)) >= 0)
        fprintf(targets, "tcp6=%d\n", port);
    if ((socks[UDP4] = bind_inet(AF_INET, SOCK_DGRAM, 0, &port)) < 0)
        exit(2);
    fprintf(targets, "udp=%d\n", port);
    if ((socks[DNS] = bind_inet(AF_INET, SOCK_DGRAM, 53, &port)) >= 0) /* root only, and where nobody else is there */
        fprintf(targets, "dns=%d\n", port);
    (void)snprintf(name, sizeof(name), "bh-escape-%d", (int)getpid());
    socks[ABSTRACT] = bind_unix(name, true);
    fprintf(targets, "abstract=%s\n", name);
    (void)snprintf(name, sizeof(name), "%s/sock", dir);
    socks[PATH] = bind_unix(name, false);
    (void)chmod(name, 0777);
    fprintf(targets, "path=%s\n", name);
    (void)snprintf(name, sizeof(name), "%s/fifo", dir);
    if (mkfifo(name, 0666) < 0 || chmod(name, 0666) < 0)
        exit(2);
    socks[FIFO] = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    fprintf(targets, "fifo=%s\n", name);
}

static void name_address(void)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) < 0)
        return;
    for (struct ifaddrs *i = all; i; i = i->ifa_next) {
        char text[64];
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || i->ifa_flags & IFF_LOOPBACK)
            continue;
        const struct sockaddr_in *in = (const void *)i->ifa_addr;
        fprintf(targets, "address=%s\n", inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text)));
        break;
    }
    freeifaddrs(all);
}

static void make_memory(const char *secret)
{
    size_t len = strlen(secret) + 1;
    shm_id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0666);
    msg_id = msgget(IPC_PRIVATE, IPC_CREAT | 0666);
    sem_id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0666);
    char *at = shmat(shm_id, NULL, 0);
    if (at == (void *)-1 || msg_id < 0 || sem_id < 0)
        exit(2);
    memcpy(at, secret, len);
    (void)snprintf(mq_name, sizeof(mq_name), "/bh-escape-%d", (int)getpid());
    (void)snprintf(shm_name, sizeof(shm_name), "/bh-escape-%d", (int)getpid());
    (void)umask(0);
    mqd_t mq = mq_open(mq_name, O_CREAT | O_RDWR, 0666, NULL);
    int shm = shm_open(shm_name, O_CREAT | O_RDWR, 0666);
    if (shm < 0 || write(shm, secret, len) != (ssize_t)len)
        exit(2);
    fprintf(targets, "shm=%d\nmsg=%d\nsem=%d\n", shm_id, msg_id, sem_id);
    if (mq != (mqd_t)-1)
        fprintf(targets, "mq=%s\n", mq_name);
    fprintf(targets, "devshm=/dev/shm%s\n", shm_name);
    long key = syscall(SYS_add_key, "user", "bh-escape", secret, len, KEY_SPEC_USER_KEYRING);
    (void)syscall(SYS_keyctl, KEYCTL_SETPERM, key, 0x3f3f3f3f);
    fprintf(targets, "key=%ld\n", key);
}

static void make_files(const char *secret)
{
    char name[600];
    (void)snprintf(name, sizeof(name), "%s/secret", dir);
    FILE *f = fopen(name, "we");
    if (!f || fputs(secret, f) < 0 || fclose(f) != 0)
        exit(2);
    (void)chmod(name, 0644);
    fprintf(targets, "dir=%s\nsecret=%s\npid=%d\n", dir, name, (int)getpid());
    char cwd[512];
    if (getcwd(cwd, sizeof(cwd)))
        fprintf(targets, "folder=%s\n", cwd);
}

static void hit(int which, const char *from)
{
    fprintf(hits, "%s %s\n", names[which], from);
    (void)fflush(hits);
}

/* To whoever connects to the abstract socket: the root of the host. */
static void hand_out(int fd)
{
    int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char byte = 'r', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &root, sizeof(int));
    (void)sendmsg(fd, &msg, MSG_NOSIGNAL);
    close(root);
}

static void serve(int which)
{
    char bytes[1500] = "";
    if (which == UDP4 || which == DNS || which == FIFO) {
        if (read(socks[which], bytes, sizeof(bytes) - 1) > 0)
            hit(which, "data");
        return;
    }
    int fd = accept4(socks[which], NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    hit(which, "connection");
    if (which == ABSTRACT)
        hand_out(fd);
    close(fd);
}

static void clean_up(void)
{
    (void)shmctl(shm_id, IPC_RMID, NULL);
    (void)msgctl(msg_id, IPC_RMID, NULL);
    (void)semctl(sem_id, 0, IPC_RMID);
    (void)mq_unlink(mq_name);
    (void)shm_unlink(shm_name);
}

static FILE *open_file(const char *name)
{
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    if (!f)
        exit(2);
    (void)chmod(path, 0644);
    return f;
}

int host_main(int argc, char **argv)
{
    const char *secret = getenv("BH_CANARY");
    if (argc < 2 || !secret)
        return 2;
    (void)prctl(PR_SET_DUMPABLE, 1);
    (void)snprintf(dir, sizeof(dir), "%s", argv[1]);
    targets = open_file("targets");
    hits = open_file("hits");
    make_files(secret);
    make_sockets();
    name_address();
    make_memory(secret);
    (void)fclose(targets);
    puts("up");
    (void)fflush(stdout);
    for (;;) {
        struct pollfd polled[SOCKETS + 1] = {[SOCKETS] = {.fd = 0, .events = POLLIN}};
        for (int i = 0; i < SOCKETS; i++)
            polled[i] = (struct pollfd){.fd = socks[i], .events = POLLIN};
        if (poll(polled, SOCKETS + 1, -1) < 0 && errno != EINTR)
            break;
        if (polled[SOCKETS].revents)
            break;
        for (int i = 0; i < SOCKETS; i++) {
            if (polled[i].revents)
                serve(i);
        }
    }
    clean_up();
    return 0;
}
