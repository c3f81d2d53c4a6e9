/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the person in charge of a host should do about what cannot be had on it. The errno decides, then the switches
 * of this kernel that can be behind it, which are read; no text of another program is ever looked at.
 */
#pragma once

#include "base/buf.h"
#include "workers/launcher/tries.h"

void bh_cause_of(const struct bh_launcher *l, enum bh_try what, const struct bh_fail *fail, struct bh_buf *out);
/* For what l->fail says where no try names it. */
void bh_cause_of_setup(const struct bh_launcher *l, struct bh_buf *out);
/* "ext4", "NFS", "0x1234" of the file system of a descriptor. */
void bh_cause_filesystem(int fd, struct bh_buf *out);
