/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the writer and the reader of the audit log: where its files are, its head, how a line is sealed. */
#pragma once

#include "artifact-bus/digest.h"
#include "policies/audit.h"

#define BH_AUDIT_FOLDER "audit"
#define BH_AUDIT_LOG "audit.jsonl"
#define BH_AUDIT_HEAD "head"
/* `what` of the override that is added where the head was gone or no head: lines may be missing before it. */
#define BH_AUDIT_ABOUT_MARK "audit-mark"

enum { BH_AUDIT_LINE_MAX = 1024 * 1024 };

/* Where the log ends. All zero: before the first line. */
struct bh_audit_head {
    int64_t seq;  /* of the last line */
    int64_t size; /* of the log up to and with it */
    struct bh_digest hash;
};

/* 1 and the head, 0 where there is none, -BH_E_STORE_CORRUPT without a message where it is no head, -1 with errno. */
int bh_audit_head_read(int folder, struct bh_audit_head *ret);
int bh_audit_head_write(int folder, const struct bh_audit_head *head); /* 0, or -1 with errno */

/* What a line without its line end says of itself. */
struct bh_audit_line {
    int64_t seq;
    struct bh_digest prev, hash;
    struct bh_val *map; /* the caller's to free */
    bool sealed;        /* whether hash is that of the line */
};
/* False where the text is no line of an audit log at all. */
bool bh_audit_line_read(const char *text, size_t len, struct bh_audit_line *ret);
struct bh_buf;
/* Appends the line of `fields` behind `head`, line end and all, and moves the head on. */
void bh_audit_line_add(struct bh_buf *out, struct bh_audit_head *head, enum bh_audit_kind kind,
                       const struct bh_val *fields);
