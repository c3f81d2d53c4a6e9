/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress broker as a process, over real sockets: the test is the worker, the clients and the host that they want.
 * Names resolve by a table of the rig, in the broker's own helpers. Every read waits at most some seconds.
 */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/val.h"

struct t_rig {
    pid_t broker;
    int control;
    int upstream; /* listens */
    uint16_t upstream_port;
    int *lookups; /* how many names were asked for, in all processes */
};

/*
 * Names: up.example is 127.0.0.1, which the site permits here; loop.example 127.0.0.2, which it does not; meta.example
 * the metadata service; mixed.example both; turning.example the first at the first question, the second after that;
 * nothing.example has no address, broken.example cannot be asked for.
 */
struct t_rig *t_rig_start(void);
void t_rig_stop(struct t_rig *rig); /* the broker must end well */

/* Opens a way out and gives its port. `allow`: entries for upstream's port, with commas: "up.example,loop.example".
 * `limits`: JSON of them, or NULL. */
uint16_t t_rig_open(struct t_rig *rig, int64_t id, const char *allow, const char *limits);
void t_rig_send(struct t_rig *rig, const char *json, int fd);
/* {"kind":"allow",…}; the caller owns it. */
char *t_rig_policy(const struct t_rig *rig, const char *allow);
/* The next message, whose op it has to be. The caller owns it. */
struct bh_val *t_rig_hear(struct t_rig *rig, const char *op);
/* The next message is this decision; gives bytes up and down where they are asked for. */
void t_rig_decision(struct t_rig *rig, const char *host, const char *verdict, const char *reason, int64_t *ret_up,
                    int64_t *ret_down);

int t_rig_client(uint16_t port);
int t_rig_accept(struct t_rig *rig);
void t_say(int fd, const void *data, size_t len);
void t_says(int fd, const char *text);
/* Up to the end of the stream. */
void t_hear_all(int fd, struct bh_buf *ret);
/* Exactly these bytes come next. */
void t_hears(int fd, const char *text);
void t_hear(int fd, const void *data, size_t len);
/* A tunnel to `host` at upstream's port, open at both ends. */
void t_rig_tunnel(struct t_rig *rig, uint16_t port, const char *host, int *ret_client, int *ret_upstream);
