/* SPDX-License-Identifier: Apache-2.0 */
/* Capability sets, by the raw calls: the static init links no library for it. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workers/init/init.h"

static int set_caps(uint64_t caps)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {
        {.effective = (uint32_t)caps, .permitted = (uint32_t)caps},
        {.effective = (uint32_t)(caps >> 32), .permitted = (uint32_t)(caps >> 32)},
    };
    return (int)syscall(SYS_capset, &head, data);
}

#define CAP(x) (UINT64_C(1) << (x))

int bh_caps_of_init(bool warm)
{
    /* Mounts of each exec and its root, its processes, its files, its ids, and (one id) the map of its user namespace.
     */
    return set_caps(CAP(CAP_SYS_ADMIN) | CAP(CAP_SYS_CHROOT) | CAP(CAP_KILL) | CAP(CAP_CHOWN) | CAP(CAP_DAC_OVERRIDE) |
                    CAP(CAP_DAC_READ_SEARCH) | CAP(CAP_FOWNER) | CAP(CAP_FSETID) | CAP(CAP_SETUID) | CAP(CAP_SETGID) |
                    CAP(CAP_SETPCAP) | CAP(CAP_SETFCAP) | (warm ? CAP(CAP_SYS_PTRACE) : 0));
}

int bh_caps_unbound(void)
{
    for (int cap = 0; cap <= 63; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return errno == EINVAL && cap > 0 ? 0 : -1; /* past the last one */
    }
    return 0;
}

int bh_caps_to_kill(void)
{
    return set_caps(CAP(CAP_KILL));
}

int bh_caps_none(void)
{
    return set_caps(0);
}
