/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/policies/egress_rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "policies/broker/control.h"
#include "policies/broker/egress.h"
#include "tests/support/t.h"

enum { WAIT_S = 20, BACKLOG = 4096 };

static int *lookups;

/* Runs in the broker's helpers. */
static int look_up(const char *name, unsigned char ret[BH_LOOKUP_MAX][BH_ADDRESS_LEN])
{
    static const struct {
        const char *name, *first, *second;
    } names[] = {
        {"up.example", "127.0.0.1", NULL},
        {"loop.example", "127.0.0.2", NULL},
        {"meta.example", "169.254.169.254", NULL},
        {"mixed.example", "127.0.0.2", "127.0.0.1"},
        {"mapped.example", "::ffff:127.0.0.2", NULL},
        {"six.example", "::1", NULL},
        {"nothing.example", NULL, NULL},
    };
    bool before = __atomic_fetch_add(lookups, 1, __ATOMIC_SEQ_CST) > 0;
    if (bh_streq(name, "broken.example"))
        return -1;
    if (bh_streq(name, "turning.example"))
        return bh_address_parse(before ? "127.0.0.2" : "127.0.0.1", ret[0]) ? 1 : 0;
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        int n = 0;
        if (!bh_streq(name, names[i].name))
            continue;
        n += names[i].first && bh_address_parse(names[i].first, ret[n]);
        n += names[i].second && bh_address_parse(names[i].second, ret[n]);
        return n;
    }
    return 0;
}

static int listen_somewhere(uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_TRUE(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, BACKLOG) == 0);
    T_TRUE(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

static void set_patience(int fd)
{
    const struct timeval tv = {.tv_sec = WAIT_S};
    T_TRUE(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) == 0);
    T_TRUE(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) == 0);
}

struct t_rig *t_rig_start(void)
{
    struct t_rig *rig = bh_alloc(sizeof(*rig));
    int pair[2];
    rig->lookups = mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    T_TRUE(rig->lookups != MAP_FAILED);
    lookups = rig->lookups;
    T_OK(bh_seqpacket_pair(pair, &err));
    rig->upstream = listen_somewhere(&rig->upstream_port);
    set_patience(rig->upstream);
    (void)fflush(NULL);
    rig->broker = fork();
    T_TRUE(rig->broker >= 0);
    if (rig->broker == 0) {
        bh_close(pair[0]);
        bh_close(rig->upstream);
        exit(bh_egress_serve(pair[1], look_up)); /* not _exit: what it leaks is looked for */
    }
    bh_close(pair[1]);
    rig->control = pair[0];
    set_patience(rig->control);
    return rig;
}

void t_rig_stop(struct t_rig *rig)
{
    int status;
    bh_close(rig->control);
    T_TRUE(waitpid(rig->broker, &status, 0) == rig->broker);
    T_TRUE(WIFEXITED(status));
    T_INT(WEXITSTATUS(status), 0);
    bh_close(rig->upstream);
    (void)munmap(rig->lookups, sizeof(int));
    bh_free(rig);
}

void t_rig_send(struct t_rig *rig, const char *json, int fd)
{
    T_TRUE(bh_msg_send(rig->control, json, strlen(json), &fd, fd >= 0 ? 1 : 0) == 0);
}

struct bh_val *t_rig_hear(struct t_rig *rig, const char *op)
{
    static char room[BH_CONTROL_MAX];
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    struct bh_val *v = NULL;
    ssize_t n = bh_msg_recv(rig->control, room, sizeof(room), fds, &nfds);
    if (n <= 0)
        fail_msg("no '%s' came", op);
    T_OK(bh_json_parse(room, (size_t)n, &v, &err));
    if (!bh_streq(bh_val_str_of(v, "op"), op))
        fail_msg("'%s' instead of '%s'", room, op);
    return v;
}

void t_rig_decision(struct t_rig *rig, const char *host, const char *verdict, const char *reason, int64_t *ret_up,
                    int64_t *ret_down)
{
    BH_CLEANUP_VAL struct bh_val *v = t_rig_hear(rig, "decision");
    T_STR(bh_val_str_of(v, "reason"), reason);
    T_STR(bh_val_str_of(v, "verdict"), verdict);
    T_STR(bh_val_str_of(v, "host"), host);
    if (ret_up)
        *ret_up = bh_val_int_of(v, "up");
    if (ret_down)
        *ret_down = bh_val_int_of(v, "down");
}

char *t_rig_policy(const struct t_rig *rig, const char *allow)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_buf_adds(&out, "{\"kind\":\"allow\",\"ranges\":[\"127.0.0.1\"],\"allow\":[");
    for (const char *s = allow; *s;) {
        size_t n = strcspn(s, ",");
        bh_buf_addf(&out, "\"%.*s:%u\"%s", (int)n, s, rig->upstream_port, s[n] ? "," : "");
        s += n + (s[n] ? 1 : 0);
    }
    bh_buf_adds(&out, "]}");
    return bh_buf_take(&out);
}

uint16_t t_rig_open(struct t_rig *rig, int64_t id, const char *allow, const char *limits)
{
    uint16_t port;
    BH_CLEANUP_FD int fd = listen_somewhere(&port);
    BH_CLEANUP_FREE char *policy = t_rig_policy(rig, allow);
    BH_CLEANUP_FREE char *json =
        bh_asprintf("{\"op\":\"open\",\"id\":%d,\"agent\":\"fetch\",\"phase\":\"run\",\"policy\":%s,\"limits\":%s}",
                    (int)id, policy, limits ? limits : "{}");
    t_rig_send(rig, json, fd);
    bh_val_free(t_rig_hear(rig, "ready"));
    return port;
}

int t_rig_client(uint16_t port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    T_TRUE(fd >= 0);
    set_patience(fd);
    T_TRUE(connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

int t_rig_accept(struct t_rig *rig)
{
    int fd = accept4(rig->upstream, NULL, NULL, SOCK_CLOEXEC);
    T_TRUE(fd >= 0);
    set_patience(fd);
    return fd;
}

void t_say(int fd, const void *data, size_t len)
{
    T_TRUE(bh_write_all(fd, data, len) == 0);
}

void t_says(int fd, const char *text)
{
    t_say(fd, text, strlen(text));
}

void t_hear_all(int fd, struct bh_buf *ret)
{
    T_OK(bh_read_all(fd, 1 << 24, ret, &err));
}

void t_hear(int fd, const void *data, size_t len)
{
    BH_CLEANUP_FREE char *room = bh_alloc(len + 1);
    ssize_t n = recv(fd, room, len, MSG_WAITALL);
    if (n != (ssize_t)len || memcmp(room, data, len) != 0)
        fail_msg("%zd bytes: '%s'", n, room);
}

void t_hears(int fd, const char *text)
{
    t_hear(fd, text, strlen(text));
}

void t_rig_tunnel(struct t_rig *rig, uint16_t port, const char *host, int *ret_client, int *ret_upstream)
{
    BH_CLEANUP_FREE char *ask = bh_asprintf("CONNECT %s:%u HTTP/1.1\r\nHost: x\r\n\r\n", host, rig->upstream_port);
    *ret_client = t_rig_client(port);
    t_says(*ret_client, ask);
    *ret_upstream = t_rig_accept(rig);
    t_hears(*ret_client, "HTTP/1.1 200 Connection established\r\n\r\n");
}
