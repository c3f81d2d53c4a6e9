/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the last that an agent printed says that an address was in use. What it says is believed by nobody: it only
 * makes us look who listens.
 */
#pragma once

#include "base/compiler.h"

/* `path` of its log, which may not exist. Reads at most a MiB. */
bool bh_log_says_port_is_taken(const char *path);
