/* SPDX-License-Identifier: Apache-2.0 */
/* Force-included into every file of the product: using one of these does not compile. Why: docs/adr/0003. */
#pragma once

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* alloca is a macro of the C library and is refused by -Walloca instead. */
#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets system popen usleep atoi atol atof
#ifndef BH_ALLOW_MALLOC
#pragma GCC poison malloc calloc realloc reallocarray strdup strndup asprintf vasprintf
#endif
