/* SPDX-License-Identifier: Apache-2.0 */
/* The text of bulkhead.py as part of the program: it is there whatever is installed, and of the same version. */
#include "workers/warm/helper.h"

__asm__(".pushsection .rodata\n"
        ".global bh_warm_helper\n"
        ".type bh_warm_helper, @object\n"
        "bh_warm_helper:\n"
        ".incbin \"" BH_WARM_HELPER_SOURCE "\"\n"
        ".byte 0\n"
        ".size bh_warm_helper, . - bh_warm_helper\n"
        ".popsection\n");
