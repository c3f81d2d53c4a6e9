/* SPDX-License-Identifier: Apache-2.0 */
/* The Python helper (bulkhead.py), which every preparation that may be warm finds in its box. */
#pragma once

#define BH_WARM_HELPER_DIR "/workspace/.bulkhead"
#define BH_WARM_HELPER_FILE ".bulkhead/bulkhead.py" /* below /workspace */

extern const char bh_warm_helper[]; /* its text */
