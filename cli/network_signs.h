/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program's last lines say that it looked for a network; boxes have none, and programs say that in many ways.
 */
#pragma once

#include "base/compiler.h"

/* `lines`: any number of them, each ends in a newline or at the end. A refused connection is no sign: something in the
 * box answered, unless it was asked for a name. */
bool bh_lines_want_network(const char *lines);
