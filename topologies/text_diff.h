/* SPDX-License-Identifier: Apache-2.0 */
/* Two texts of one file as a patch that patch(1) takes. Pure. */
#pragma once

#include "base/compiler.h"

struct bh_buf;

/*
 * Appends the unified diff with three lines of context, named `file` on both sides; nothing where they are equal. The
 * shortest one where what differs has at most a few thousand lines, else one that replaces it as a whole.
 */
void bh_text_diff(const char *file, const char *from, size_t from_len, const char *to, size_t to_len,
                  struct bh_buf *out);
