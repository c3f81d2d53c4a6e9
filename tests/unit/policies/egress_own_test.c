/* SPDX-License-Identifier: Apache-2.0 */
/* A host that has public addresses of its own, imitated in a network namespace: boxes do not reach it by them. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "policies/broker/egress_priv.h"
#include "tests/support/t.h"

#define OWN "93.184.216.34"

enum { DONE = 0, WRONG = 1, NO_NAMESPACE = 2 };

static bool own_by_text(const char *text)
{
    unsigned char address[BH_ADDRESS_LEN];
    return bh_address_parse(text, address) && bh_address_is_own(address);
}

static int give_address(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    struct sockaddr_in at = {.sin_family = AF_INET};
    BH_CLEANUP_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || inet_pton(AF_INET, OWN, &at.sin_addr) != 1)
        return -1;
    memcpy(&request.ifr_addr, &at, sizeof(at));
    if (ioctl(fd, SIOCSIFADDR, &request) < 0)
        return -1;
    request.ifr_flags = IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &request);
}

static int in_a_namespace(void)
{
    if (unshare((geteuid() == 0 ? 0 : CLONE_NEWUSER) | CLONE_NEWNET) < 0 || give_address() < 0)
        return NO_NAMESPACE;
    return own_by_text(OWN) && own_by_text("::ffff:" OWN) && !own_by_text("93.184.216.35") ? DONE : WRONG;
}

static void an_address_of_the_host(void **state)
{
    int status;
    (void)state;
    pid_t pid = fork();
    T_TRUE(pid >= 0);
    if (pid == 0)
        _exit(in_a_namespace());
    T_TRUE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        t_skip("netns", "no network namespace can be made here");
    T_INT(WEXITSTATUS(status), DONE);
}

static void an_address_of_another(void **state)
{
    (void)state;
    assert_false(own_by_text(OWN));
    assert_false(own_by_text("2606:4700:4700::1111"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_of_the_host),
        cmocka_unit_test(an_address_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
