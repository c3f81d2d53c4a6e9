/* SPDX-License-Identifier: Apache-2.0 */
/* What passes between `bulkhead shell` and the owner of a run: both come from one build, on one host, of one user. */
#pragma once

#include <stdint.h>

/* The name makes it a temporary file of the run's folder: whoever clears up after a dead owner removes it. */
#define BH_SHELL_SOCKET ".bh-tmp-shell"
#define BH_SHELL_NOTES "shells.jsonl"
#define BH_SHELL_VERSION 1
#define BH_SHELL_WHY 240

enum bh_shell_kind {
    BH_SHELL_ASK = 1, /* strings: agent, TERM or "", argv. Descriptors: the command's three streams */
    BH_SHELL_SIGNAL,  /* value: to be passed on */
    BH_SHELL_STARTED, /* value: whose attempt it is beside; why: the box */
    BH_SHELL_REFUSED, /* value: a bh_code; why */
    BH_SHELL_ENDED,   /* value: the status; why */
};
struct bh_shell_msg {
    uint32_t kind, version;
    int32_t value;
    uint32_t terminal, argc;
    int64_t attempt;
    char why[BH_SHELL_WHY];
};
