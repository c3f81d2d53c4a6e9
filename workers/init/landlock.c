/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second wall around an agent, by another part of the kernel than namespaces. Where the first one holds nothing is
 * felt of it; where it had a hole, an agent that got hold of a descriptor or a name of something outside its root could
 * still not open what lies behind it: only what is beneath the box's root is allowed, and there everything but making
 * device nodes. With it goes that no mount can be changed, no process outside be traced and (since Linux 6.12) none be
 * signalled and no abstract socket outside be reached. One rule: an exec pays about 17 us for it.
 *
 * The network is left alone: the box's own loopback is all there is, or the host's network was asked for. Of that an
 * agent gets what goes over the internet's protocols: the names of abstract sockets go with a network too, and behind
 * the host's are desktops and daemons that ask nothing of who is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/init/init.h"

/* Of the kernel's interface, where the C library's headers are older. */
struct ruleset {
    uint64_t fs, net, scoped;
};
#define SCOPE_ABSTRACT_SOCKETS 1u
#define SCOPE_SIGNALS 2u
#define LOG_SUBDOMAINS_OFF 4u /* agents cannot fill the host's audit log by domains of their own */

#define DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

/* Rights by version: 13 at first, moving between folders, truncating, commands to devices. */
static uint64_t rights_of(long abi)
{
    return (UINT64_C(1) << (abi >= 5 ? 16 : abi >= 3 ? 15 : 14)) - 1;
}

static int allow_root(int rules, uint64_t rights)
{
    BH_CLEANUP_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct landlock_path_beneath_attr beneath = {.allowed_access = rights & ~(uint64_t)DEVICES, .parent_fd = root};
    return root < 0 ? -1 : (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
}

int bh_landlock_enter(bool talks, struct bh_fail *fail)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 2) /* none; or the first, under which no file could be moved to another folder */
        return 0;
    /* Agents of one box may talk to each other, where nobody else is in their network. */
    struct ruleset all = {.fs = rights_of(abi), .scoped = SCOPE_SIGNALS | (talks ? 0 : SCOPE_ABSTRACT_SOCKETS)};
    size_t size = abi >= 6 ? sizeof(all) : sizeof(all.fs);
    BH_CLEANUP_FD int rules = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (rules < 0 || allow_root(rules, all.fs) < 0 ||
        syscall(SYS_landlock_restrict_self, rules, abi >= 7 ? LOG_SUBDOMAINS_OFF : 0) < 0)
        return bh_fail(fail, errno, "restrict the agent by Landlock");
    return 0;
}
