/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/init/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int bh_fail(struct bh_fail *f, int error, const char *fmt, ...)
{
    va_list ap;
    f->error = error ? error : EIO;
    va_start(ap, fmt);
    int n = vsnprintf(f->step, sizeof(f->step), fmt, ap);
    va_end(ap);
    if (n < 0)
        f->step[0] = '\0';
    /* Parts of it may be names from a document; the worker refuses a report with control bytes. */
    for (char *p = f->step; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    }
    return -1;
}
