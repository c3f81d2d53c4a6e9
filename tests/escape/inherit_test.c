/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box has from whoever started bulkhead: nothing. The caller here is as odd as can be: limits, scheduling, mask,
 * ignored signals, open descriptors without CLOEXEC, a personality, a keyring; none of it arrives in a box. And no
 * process of ours holds a descriptor that it has no use for.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

static const struct rlimit no_limit = {RLIM_INFINITY, RLIM_INFINITY};

static void raise_soft(int resource)
{
    struct rlimit now;
    (void)getrlimit(resource, &now);
    now.rlim_cur = now.rlim_max;
    (void)setrlimit(resource, &now);
}

static void be_odd(void)
{
    static const int resources[] = {RLIMIT_CORE,   RLIMIT_STACK,      RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE,
                                    RLIMIT_NOFILE, RLIMIT_SIGPENDING, RLIMIT_NPROC};
    for (size_t i = 0; i < BH_ARRAY_LEN(resources); i++) {
        if (setrlimit(resources[i], &no_limit) < 0) /* root may */
            raise_soft(resources[i]);
    }
    (void)setrlimit(RLIMIT_RTPRIO, &(struct rlimit){50, 50});
    (void)setrlimit(RLIMIT_NICE, &(struct rlimit){40, 40});
    (void)setpriority(PRIO_PROCESS, 0, 3);
    (void)sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1});
    (void)syscall(SYS_ioprio_set, 1, 0, 3 << 13); /* idle */
    (void)prctl(PR_SET_TIMERSLACK, 1234567UL);
    (void)personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "odd");
    (void)syscall(SYS_add_key, "user", "odd", "secret", 6, KEY_SPEC_SESSION_KEYRING);
    (void)setenv("BH_ODD", "secret", 1);
    for (int i = 0; i < 8; i++)
        (void)open("/", O_RDONLY | O_DIRECTORY); /* without CLOEXEC, on purpose */
    umask(0077);
}

static struct kit_box box;

static char *printed(struct kit_box *b, const char *text)
{
    struct kit_exec e = {0};
    kit_sh(b, &e, text);
    if (e.result.end != BH_EXEC_EXITED || e.result.status != 0)
        fail_msg("'%s': status %d, '%s'", text, e.result.status, e.err.data);
    char *out = bh_strdup(e.out.data);
    kit_exec_fini(&e);
    return out;
}

static void check_printed(const char *text, const char *want)
{
    BH_CLEANUP_FREE char *got = printed(&box, text);
    if (strcmp(got, want) != 0)
        fail_msg("'%s' printed '%s', not '%s'", text, got, want);
}

static void limits_are_set(void **state)
{
    (void)state;
    const struct {
        const char *name, *soft, *hard;
    } want[] = {
        {"Max core file size", "1", "1"},
        {"Max stack size", "8388608", NULL},
        {"Max locked memory", "8388608", "8388608"},
        {"Max msgqueue size", "819200", "819200"},
        {"Max pending signals", "4096", "4096"},
        {"Max nice priority", "0", "0"},
        {"Max realtime priority", "0", "0"},
        {"Max cpu time", "unlimited", "unlimited"},
    };
    BH_CLEANUP_FREE char *text = printed(&box, "cat /proc/self/limits");
    for (size_t i = 0; i < BH_ARRAY_LEN(want); i++) {
        char soft[32], hard[32];
        const char *line = strstr(text, want[i].name);
        T_TRUE(line);
        T_INT(sscanf(line + 26, "%31s %31s", soft, hard), 2);
        struct rlimit core;
        (void)getrlimit(RLIMIT_CORE, &core);
        if (i == 0 && core.rlim_max == 0)
            continue; /* lowered by who runs the test, and only root could raise it */
        T_STR(soft, want[i].soft);
        if (want[i].hard)
            T_STR(hard, want[i].hard);
    }
}

static void scheduling_is_plain(void **state)
{
    (void)state;
    /* 5, idle: where no cpu group can be had, so that the host stays usable. */
    check_printed("grep -E '^(policy)' /proc/self/sched | tr -d ' ' | sed 's/:5/:0/'", "policy:0\n");
    check_printed("cat /proc/self/timerslack_ns", "50000\n");
    check_printed("cat /proc/self/personality", "00000000\n");
    check_printed("[ $(cat /proc/self/oom_score_adj) -ge 0 ] && echo fair", "fair\n");
}

static void signals_mask_and_environment_are_plain(void **state)
{
    (void)state;
    check_printed("grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2 | sort -u", "0000000000000000\n");
    check_printed("umask", "0022\n");
    check_printed("env | grep -v -E '^(PATH|PWD|OLDPWD|SHLVL|_)='; echo none", "none\n");
    check_printed("grep -E '^(NoNewPrivs|Seccomp|CapBnd):' /proc/self/status | tr -d '\\t\\n'",
                  "CapBnd:0000000000000000NoNewPrivs:1Seccomp:2");
}

static void there_is_no_terminal(void **state)
{
    (void)state;
    check_printed("(: < /dev/tty) 2>/dev/null || echo none", "none\n");
    check_printed("readlink /proc/self/fd/0; [ /dev/null -ef /proc/self/fd/0 ] && echo own", "/dev/null\nown\n");
    check_printed("ls -l /proc/self/fd | grep -c -e '->'", "4\n"); /* and the folder that is listed */
}

static void ways_to_fill_memory_have_an_end(void **state)
{
    (void)state;
    check_printed("df -B1 --output=size,itotal /dev/shm | tail -n 1 | tr -s ' '", "268435456 16384\n");
}

/* --- descriptors of every process of ours, from outside --- */

enum role { LAUNCHER, SPAWNER, BOX, HOST_BOX };

static bool is_our_program(const char *target)
{
    const char *name = strrchr(target, '/');
    return name && strcmp(name, "/bulkhead-init") == 0;
}

static bool is_expected(const char *target, enum role role)
{
    static const char *const kinds[] = {"socket:", "pipe:",         "anon_inode:", "user:[",
                                        "mnt:[",   "/memfd:filter", "/dev/null"};
    for (size_t i = 0; i < BH_ARRAY_LEN(kinds); i++) {
        if (bh_starts_with(target, kinds[i]))
            return true;
    }
    /* Of a box's init the root of agents, and where it is in the host's network its own one; of who makes shells the
     * network namespaces; of the launcher the state directory, the control groups of boxes, and the program that it
     * starts once more for boxes in the host's network. */
    if ((role == SPAWNER || role == HOST_BOX) && bh_starts_with(target, "net:["))
        return true;
    if (role == SPAWNER)
        return false;
    if (role == LAUNCHER && is_our_program(target))
        return true;
    if (role == BOX || role == HOST_BOX)
        return strcmp(target, "/box") == 0 || strcmp(target, "/") == 0;
    return strcmp(target, "/home") == 0 || strcmp(target, "/") == 0 || bh_starts_with(target, "/sys/fs/cgroup/") ||
           bh_starts_with(target, kit.home);
}

static unsigned check_descriptors(const char *pid, enum role role)
{
    static const char *const names[] = {"launcher", "who makes shells", "init", "init in the host's network"};
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    struct dirent *e;
    unsigned n = 0;
    if (!dir)
        return 0; /* it has ended meanwhile */
    while ((e = readdir(dir))) {
        char target[512];
        ssize_t len = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        n++;
        if (role == LAUNCHER && strtol(e->d_name, NULL, 10) < 3)
            continue; /* it writes its last words where the worker's go */
        if (!is_expected(target, role))
            fail_msg("process %s (%s) has descriptor %s: %s", pid, names[role], e->d_name, target);
    }
    (void)closedir(dir);
    return n;
}

/* It alone of the launcher's children is in no pid namespace of its own. */
static enum role role_of(const char *pid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%s/status", pid);
    const char *line = bh_read_file(path, 4096, &text, NULL) == 0 ? strstr(text.data, "NSpid:") : NULL;
    return line && strcspn(line + 7, "\t\n") == strcspn(line + 7, "\n") ? SPAWNER : BOX;
}

static void nobody_holds_what_it_does_not_need(void **state)
{
    (void)state;
    const char *mode = getenv("BH_MODE");
    if (!mode || strcmp(mode, "root") != 0)
        return; /* only root may look */
    struct kit_box host;
    T_INT(kit_create(&kit, &host, &(struct kit_how){.host_network = true}), 0);
    BH_CLEANUP_FREE char *launcher = bh_asprintf("%lld", (long long)kit.launcher);
    BH_CLEANUP_FREE char *host_init = bh_asprintf("%lld", (long long)kit_init_pid(&host));
    T_TRUE(check_descriptors(launcher, LAUNCHER) < 56); /* groups that it keeps among them */
    DIR *dir = opendir("/proc");
    struct dirent *e;
    unsigned inits = 0;
    while ((e = readdir(dir))) {
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%s/stat", e->d_name);
        BH_CLEANUP_FREE char *parent = bh_asprintf(" %s ", launcher);
        if (!isdigit((unsigned char)e->d_name[0]) || bh_read_file(path, 4096, &text, NULL) != 0)
            continue;
        const char *after = strrchr(text.data, ')'); /* state and parent follow */
        if (!after || strncmp(after + 3, parent, strlen(parent)) != 0)
            continue;
        inits++;
        enum role role = strcmp(e->d_name, host_init) == 0 ? HOST_BOX : role_of(e->d_name);
        T_TRUE(check_descriptors(e->d_name, role) < 16);
    }
    (void)closedir(dir);
    T_TRUE(inits >= 4); /* those that make shells, and our boxes */
    T_INT(kit_destroy(&host, false), 0);
}

static int set_up(void **state)
{
    (void)state;
    return kit_create(&kit, &box, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    return kit_destroy(&box, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_set),
        cmocka_unit_test(scheduling_is_plain),
        cmocka_unit_test(signals_mask_and_environment_are_plain),
        cmocka_unit_test(there_is_no_terminal),
        cmocka_unit_test(ways_to_fill_memory_have_an_end),
        cmocka_unit_test(nobody_holds_what_it_does_not_need),
    };
    be_odd();
    int rc = kit_begin();
    if (rc != 0)
        return rc;
    rc = cmocka_run_group_tests(tests, set_up, tear_down);
    kit_end();
    return rc;
}
