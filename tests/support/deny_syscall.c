/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deny_syscall NAME[=ENOSYS|EPERM]... -- CMD [ARG...]: runs CMD under a filter that answers these calls with an errno,
 * as an old kernel (ENOSYS, the default) or a container runtime (EPERM) does. $BH_DENIED tells CMD what was denied.
 * The NAME O_TMPFILE denies only nameless files, as a file system that has none.
 * Exit 77 where no filter can be installed, 99 on a mistake in the call.
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(const char *why)
{
    fprintf(stderr, "deny_syscall: %s\nusage: deny_syscall NAME[=ENOSYS|EPERM]... -- CMD [ARG...]\n", why);
    return 99;
}

static int deny(scmp_filter_ctx filter, char *spec)
{
    const struct scmp_arg_cmp nameless = SCMP_A2_64(SCMP_CMP_MASKED_EQ, O_TMPFILE, O_TMPFILE);
    if (strcmp(spec, "O_TMPFILE") == 0)
        return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(openat), 1, nameless);
    char *value = strchr(spec, '=');
    int answer = ENOSYS;
    if (value) {
        if (strcmp(value, "=EPERM") == 0)
            answer = EPERM;
        else if (strcmp(value, "=ENOSYS") != 0)
            return -1;
        *value = '\0';
    }
    int nr = seccomp_syscall_resolve_name(spec);
    return nr == __NR_SCMP_ERROR ? -1 : seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)answer), nr, 0);
}

int main(int argc, char **argv)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int i = 1;
    if (!filter)
        return 77;
    if (argc > 1)
        (void)setenv("BH_DENIED", argv[1], 1);
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (deny(filter, argv[i]) != 0)
            return usage("no such call or errno");
    }
    if (i == 1 || i + 1 >= argc)
        return usage("what to deny, and what to run?");
    if (seccomp_load(filter) != 0) {
        fprintf(stderr, "SKIP seccomp: no filter can be installed here\n");
        return 77;
    }
    seccomp_release(filter);
    (void)execvp(argv[i + 1], &argv[i + 1]);
    perror("deny_syscall: exec");
    return 99;
}
