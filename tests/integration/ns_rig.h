/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's rig with boxes of the host instead of fake ones. */
#pragma once

struct rig;

/* Of the programs in $BH_BIN. NULL where this host makes no boxes, and then ns_rig_why says why. The caller frees it by
 * rig_free. */
struct rig *ns_rig_new(void);
const char *ns_rig_why(void);
