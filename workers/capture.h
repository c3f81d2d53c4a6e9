/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of one execution print: pipes read on the loop, a bounded amount of each per turn so that many
 * agents share it fairly, into the one log file of the instance. An agent that prints faster than the disk takes it is
 * slowed down by its full pipe. A log that cannot be written never ends an agent: the bytes are dropped and counted.
 */
#pragma once

#include "base/err.h"
#include "workers/logs/log_file.h"

struct bh_mask;
struct event_base;

/* The log of one instance. Counted, because a shared box that is being set up writes into the log of who came first. */
struct bh_capture;
/*
 * Never fails. The file is made when the first byte comes: an instance that printed nothing has none. `limit`: bytes of
 * output that are kept, over both streams and all commands; 0: the default.
 */
#define BH_CAPTURE_LIMIT (INT64_C(64) * 1024 * 1024)
struct bh_capture *bh_capture_new(const char *path, const struct bh_log_tags *tags, int64_t limit);
/* From here on what `mask` finds is taken out before it is written, and no earlier one is. Takes a reference. */
void bh_capture_mask(struct bh_capture *c, struct bh_mask *mask);
struct bh_capture *bh_capture_ref(struct bh_capture *c);
void bh_capture_unref(struct bh_capture *c); /* the last one closes the file; NULL is fine */
/*
 * NULL where every byte was written, else "120 bytes of its output could not be logged: no space left on device". The
 * caller owns it.
 */
char *bh_capture_problem(const struct bh_capture *c);
/* Bytes between the head and the tail that are gone because they lay beyond the limit. */
uint64_t bh_capture_dropped(const struct bh_capture *c);

/* The two pipes of one command. */
struct bh_pipes;
int bh_pipes_new(struct event_base *loop, struct bh_capture *capture, struct bh_pipes **ret,
                 struct bh_err **err) BH_MUST_CHECK;
/* The ends to give away; they stay open here until bh_pipes_end. */
int bh_pipes_stdout(const struct bh_pipes *p);
int bh_pipes_stderr(const struct bh_pipes *p);
/*
 * The command has ended: takes what lies in the pipes at this moment, whoever still holds the other ends, and ends the
 * last lines.
 */
void bh_pipes_end(struct bh_pipes *p);
/* Nothing is read any more and the log is let go; the ends given away stay open here until bh_pipes_free. */
void bh_pipes_abandon(struct bh_pipes *p);
void bh_pipes_free(struct bh_pipes *p); /* NULL is fine; without bh_pipes_end what lies in the pipes is lost */
