/* SPDX-License-Identifier: Apache-2.0 */
/* The number of an attempt in the texts that may name it. */
#pragma once

/* `text` with each {{attempt}} replaced by the number; NULL for NULL. The caller owns it. */
char *bh_attempt_text(const char *text, int attempt);
