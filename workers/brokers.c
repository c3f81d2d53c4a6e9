/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broker processes and the lines to them. A broker believes us and we believe it: it is ours. What it says all the same
 * goes no further than fields of a message, and one that says what nobody understands is ended like one that has died.
 */
#include "workers/brokers.h"

#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "workers/box/launcher_client.h"
#include "workers/box/outbox.h"

#define PROGRAM "bulkhead-broker"

enum { PACKET_MAX = 64 * 1024, N_MODES = BH_BROKER_ENDPOINTS + 1, CONTROL = 3 };

extern char **environ;

struct broker { /* one process */
    struct bh_brokers *owner;
    enum bh_broker_mode mode;
    int sock; /* -1: it does not run */
    pid_t pid;
    struct bh_outbox out;
    struct event *readable;
    struct bh_list lines;
};

struct bh_broker_line {
    struct bh_list link;
    struct broker *broker;
    int64_t id;
    bool over; /* the broker knows, or knows of no such line */
    struct bh_broker_events events;
    void *arg;
};

struct bh_brokers {
    struct event_base *loop;
    int64_t last_id;
    struct broker of[N_MODES];
};

static const char *const mode_words[N_MODES] = {[BH_BROKER_EGRESS] = "egress", [BH_BROKER_ENDPOINTS] = "endpoints"};

/* --- the process --- */

/* Who calls services resolves secrets, which variables of ours may hold; the other one parses what hostile hosts say,
 * and gets nothing but how much it is to log. */
static char **environment_of(enum bh_broker_mode mode)
{
    size_t n = 0, len = 0;
    while (environ[n])
        n++;
    char **env = bh_calloc(n + 1, sizeof(*env));
    for (size_t i = 0; i < n; i++) {
        if (mode == BH_BROKER_ENDPOINTS || bh_starts_with(environ[i], "BULKHEAD_LOG="))
            env[len++] = environ[i];
    }
    return env;
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int sock)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, 0, 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, sock, CONTROL);
    if (rc == 0)
        rc = posix_spawn_file_actions_addclosefrom_np(actions, CONTROL + 1);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(attr, &none);
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(attr, &all);
    if (rc == 0)
        rc = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    return rc;
}

static int spawn(struct broker *b, int sock, struct bh_err **err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    char parent[24];
    BH_CLEANUP_FREE char *program = bh_program_find(PROGRAM);
    if (!program) {
        int rc = bh_err_set(err, BH_E_HOST, 0, "cannot find '" PROGRAM "', through which boxes reach the network");
        bh_err_hint(err, "keep it beside bulkhead-launcher, or name the folder of both in BULKHEAD_LIBEXEC");
        return rc;
    }
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    char *argv[] = {program, (char *)(uintptr_t)mode_words[b->mode], parent, NULL};
    BH_CLEANUP_FREE char **env = environment_of(b->mode);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return bh_err_set(err, BH_E_HOST, ENOMEM, "cannot start '%s'", program);
    int why = posix_spawnattr_init(&attr);
    if (why == 0) {
        why = prepare(&actions, &attr, sock);
        if (why == 0)
            why = posix_spawn(&b->pid, program, &actions, &attr, argv, env);
        (void)posix_spawnattr_destroy(&attr);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return why == 0 ? 0 : bh_err_set(err, BH_E_HOST, why, "cannot start '%s'", program);
}

/* It is ended by force: a broker has nothing to lose but connections. */
static void stop(struct broker *b)
{
    if (b->sock < 0)
        return;
    event_free(BH_TAKE(b->readable));
    bh_outbox_fini(&b->out);
    bh_close(BH_TAKE_FD(b->sock));
    (void)kill(b->pid, SIGKILL);
    while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static void lose(struct broker *b, const char *why)
{
    bh_log(BH_LOG_ERROR, "broker.lost", "mode", mode_words[b->mode], "why", why, NULL);
    stop(b);
    while (!bh_list_empty(&b->lines)) {
        struct bh_broker_line *line = BH_CONTAINER(b->lines.next, struct bh_broker_line, link);
        bh_list_remove(&line->link);
        line->broker = NULL;
        line->events.lost(line->arg);
    }
}

/* --- what it says --- */

static struct bh_broker_line *find_line(struct broker *b, int64_t id)
{
    BH_LIST_FOREACH (it, tmp, &b->lines) {
        struct bh_broker_line *line = BH_CONTAINER(it, struct bh_broker_line, link);
        if (line->id == id)
            return line;
    }
    return NULL;
}

static void on_readable(evutil_socket_t sock, short what, void *arg)
{
    static char packet[PACKET_MAX];
    struct broker *b = arg;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    (void)what;
    /* One a turn: its callback may end the line, or the broker. */
    ssize_t n = bh_msg_recv(sock, packet, sizeof(packet), fds, &nfds);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    for (size_t i = 0; n > 0 && i < nfds; i++)
        bh_close(fds[i]);
    if (n <= 0) {
        lose(b, n == 0 ? "it has ended" : strerror(errno));
        return;
    }
    BH_CLEANUP_VAL struct bh_val *msg = NULL;
    const char *op = NULL;
    if (bh_json_parse(packet, (size_t)n, &msg, NULL) == 0)
        op = bh_val_str_of(msg, "op");
    if (!op) {
        lose(b, "it said what is no message");
        return;
    }
    struct bh_broker_line *line = find_line(b, bh_val_int_of(msg, "id"));
    if (!line)
        return; /* late, of one that was dropped */
    line->over = line->over || bh_streq(op, "failed") || bh_streq(op, "closed");
    line->events.said(line->arg, op, msg);
}

static int start(struct broker *b, struct bh_err **err)
{
    int pair[2];
    int rc = bh_seqpacket_pair(pair, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FD int ours = pair[0];
    /* A number above those that the child uses, so that no dup2 there overwrites it. */
    BH_CLEANUP_FD int theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, 16);
    bh_close(pair[1]);
    if (theirs < 0 || bh_fd_set_nonblock(ours, true) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot copy a descriptor");
    rc = spawn(b, theirs, err);
    if (rc != 0)
        return rc;
    b->sock = BH_TAKE_FD(ours);
    bh_outbox_init(&b->out, b->owner->loop, b->sock);
    b->readable = event_new(b->owner->loop, b->sock, EV_READ | EV_PERSIST, on_readable, b);
    BH_ASSERT(b->readable);
    (void)event_add(b->readable, NULL);
    return 0;
}

/* --- what it is told --- */

static int send_message(struct broker *b, const struct bh_val *msg, const int *fd, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format(msg, &text);
    if (text.len > PACKET_MAX) {
        int rc = bh_err_set(err, BH_E_TOO_LARGE, 0, "what a box may reach takes %zu bytes, at most %d are possible",
                            text.len, PACKET_MAX);
        bh_err_hint(err, "shorten the allow-list: '*.example.org:443' stands for all hosts below example.org");
        return rc;
    }
    if (bh_outbox_send(&b->out, text.data, text.len, fd, fd ? 1 : 0) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot speak to the broker of '%s'", mode_words[b->mode]);
    return 0;
}

int bh_broker_tell(struct bh_broker_line *line, const char *op, struct bh_val *msg, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *own = msg;
    if (!line->broker)
        return bh_err_set(err, BH_E_HOST, 0, "the broker has ended");
    bh_val_set_str(own, "op", op);
    bh_val_set_int(own, "id", line->id);
    line->over = line->over || bh_streq(op, "close");
    return send_message(line->broker, own, NULL, err);
}

int bh_broker_open(struct bh_brokers *owner, enum bh_broker_mode mode, struct bh_val *msg, int listener,
                   const struct bh_broker_events *events, void *arg, struct bh_broker_line **ret, struct bh_err **err)
{
    struct broker *b = &owner->of[mode];
    BH_CLEANUP_VAL struct bh_val *own = msg;
    int rc = b->sock < 0 ? start(b, err) : 0;
    if (rc != 0)
        return rc;
    bh_val_set_str(own, "op", "open");
    bh_val_set_int(own, "id", ++owner->last_id);
    rc = send_message(b, own, &listener, err);
    if (rc != 0)
        return rc;
    struct bh_broker_line *line = bh_alloc(sizeof(*line));
    *line = (struct bh_broker_line){.broker = b, .id = owner->last_id, .events = *events, .arg = arg};
    bh_list_init(&line->link);
    bh_list_append(&b->lines, &line->link);
    *ret = line;
    return 0;
}

void bh_broker_drop(struct bh_broker_line *line)
{
    if (!line)
        return;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (line->broker && !line->over)
        (void)!bh_broker_tell(line, "close", bh_val_map(), &err);
    bh_list_remove(&line->link);
    bh_free(line);
}

/* --- life --- */

struct bh_brokers *bh_brokers_new(struct event_base *loop)
{
    struct bh_brokers *owner = bh_alloc(sizeof(*owner));
    owner->loop = loop;
    for (int i = 0; i < N_MODES; i++) {
        owner->of[i] = (struct broker){.owner = owner, .mode = (enum bh_broker_mode)i, .sock = -1};
        bh_list_init(&owner->of[i].lines);
    }
    return owner;
}

void bh_brokers_free(struct bh_brokers *owner)
{
    if (!owner)
        return;
    for (int i = 0; i < N_MODES; i++) {
        BH_ASSERT(bh_list_empty(&owner->of[i].lines));
        stop(&owner->of[i]);
    }
    bh_free(owner);
}
