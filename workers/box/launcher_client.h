/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking questions to the launcher, for before its socket is on a loop. */
#pragma once

#include "base/err.h"
#include "workers/box/proto.h"

int bh_launcher_hello(int sock, struct bh_msg_hello *ret, struct bh_err **err) BH_MUST_CHECK;
