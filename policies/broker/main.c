/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-broker MODE PARENT: started by the worker with its control socket as descriptor 3, once for each MODE:
 * `egress` lets boxes out to hosts that they may reach. What the modes know is kept apart, each in a process of its
 * own.
 *
 * Before the first message the process gives up what it does not need: privileges, descriptors, core dumps, being
 * looked into. It dies with its worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "base/units.h"
#include "policies/broker/egress.h"
#include "policies/broker/endpoint.h"

#define CONTROL 3
#define NOBODY 65534

struct mode {
    const char *name;
    int (*serve)(int control_fd);
    bool needs_files; /* of the user who started it; who needs none is nobody */
};

static const struct mode modes[] = {
    {"egress", bh_egress_main, false},
    {"endpoints", bh_endpoints_main, true},
};

static const struct mode *find_mode(const char *name)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(modes); i++) {
        if (bh_streq(modes[i].name, name))
            return &modes[i];
    }
    return NULL;
}

/* Root can; in a user namespace with one id nobody else is there, and an ordinary user stays who they are. */
static void be_nobody(void)
{
    if (geteuid() != 0 || setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0)
        return;
    if (setresuid(NOBODY, NOBODY, NOBODY) < 0)
        _exit(1); /* half of it is worse than nothing */
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    (void)syscall(SYS_capset, &head, none);
}

static void take_every_file(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

static void set_up_process(const struct mode *mode)
{
    const struct rlimit none = {0, 0};
    sigset_t empty;
    (void)close_range(CONTROL + 1, ~0U, 0);
    (void)bh_fd_set_cloexec(CONTROL, true);
    (void)!chdir("/");
    umask(077);
    take_every_file();
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&empty);
    (void)sigprocmask(SIG_SETMASK, &empty, NULL);
    if (!mode->needs_files)
        be_nobody();
    drop_capabilities();
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0);
}

/* After the last change of who we are, which would undo it. */
static int be_mortal(const char *parent)
{
    int64_t pid;
    if (bh_parse_int(parent, &pid) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -1;
    return getppid() == (pid_t)pid ? 0 : -1;
}

int main(int argc, char **argv)
{
    const struct mode *mode = argc == 3 ? find_mode(argv[1]) : NULL;
    if (!mode || fcntl(CONTROL, F_GETFD) < 0) {
        (void)fprintf(stderr, "bulkhead-broker: this program is started by bulkhead\n");
        return 2;
    }
    set_up_process(mode);
    return be_mortal(argv[2]) < 0 ? 1 : mode->serve(CONTROL);
}
