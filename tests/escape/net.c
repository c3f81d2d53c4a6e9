/* SPDX-License-Identifier: Apache-2.0 */
/* The network. What the listeners of host.c see is judged by the script too: nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/escape/escape.h"

/* Whether it is connected, or (for what nobody answers) on its way. */
static bool connects(int family, const void *address, socklen_t len, bool sent_is_enough)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof(error);
    if (!tried(fd, "socket"))
        return false;
    if (connect(fd, address, len) == 0)
        return tried(0, "connect");
    if (errno != EINPROGRESS)
        return tried(-1, "connect");
    if (sent_is_enough)
        return note("a packet is on its way"), true;
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    if (poll(&polled, 1, 3000) <= 0)
        return note("no answer"), false;
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error;
    return tried(error ? -1 : 0, "connect");
}

static bool connects_four(const char *address, long port, bool sent_is_enough)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
        errno = ENETUNREACH;
        return tried(-1, "an address");
    }
    return connects(AF_INET, &to, sizeof(to), sent_is_enough);
}

static bool connects_six(const char *address, long port)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (port == 0) {
        errno = EAFNOSUPPORT;
        return tried(-1, "a listener");
    }
    return inet_pton(AF_INET6, address, &to.sin6_addr) == 1 && connects(AF_INET6, &to, sizeof(to), false);
}

static bool loopback(void)
{
    return connects_four("127.0.0.1", target_number("tcp"), false);
}

static bool any_address(void)
{
    return connects_four("0.0.0.0", target_number("tcp"), false);
}

static bool own_address(void)
{
    return connects_four(target("address"), target_number("tcp"), false);
}

static bool loopback_six(void)
{
    return connects_six("::1", target_number("tcp6"));
}

static bool mapped(void)
{
    return connects_six("::ffff:127.0.0.1", target_number("tcp"));
}

static bool metadata(void)
{
    return connects_four("169.254.169.254", 80, true);
}

static bool internet(void)
{
    return connects_four("192.0.2.1", 443, true);
}

static bool sends(const char *address, long port, const void *data, size_t len)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (port == 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1) {
        errno = ENODEV;
        return tried(-1, "a listener");
    }
    /* On loopback an unheard packet comes back as an error of the next call. */
    return tried(connect(fd, (void *)&to, sizeof(to)), "connect") && TRIED(send(fd, data, len, 0)) &&
           TRIED(send(fd, data, len, 0));
}

static bool datagram(void)
{
    return sends("127.0.0.1", target_number("udp"), "escaped", 7);
}

static const unsigned char question[] = {0x12, 0x34, 1,   0, 0,   1,   0,   0,   0,   0,   0,   0, 6, 's', 'e', 'c',
                                         'r',  'e',  't', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 1,   0,   1};

static bool resolver(void)
{
    return sends("127.0.0.1", target_number("dns"), question, sizeof(question));
}

/* Those that the system's resolver would ask. */
static bool name_servers(void)
{
    char text[4096];
    int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC);
    if (!tried(fd, "/etc/resolv.conf"))
        return false;
    (void)slurp(fd, text, sizeof(text));
    errno = ENETUNREACH;
    bool sent = tried(-1, "a name server");
    for (const char *at = strstr(text, "nameserver "); at && !sent; at = strstr(at + 1, "nameserver ")) {
        char address[64];
        (void)snprintf(address, sizeof(address), "%.*s", (int)strcspn(at + 11, " \n"), at + 11);
        sent = sends(address, 53, question, sizeof(question));
    }
    return sent;
}

static bool opens_socket(int family, int type, int protocol)
{
    return TRIED(socket(family, type | SOCK_CLOEXEC, protocol));
}

static bool raw(void)
{
    return opens_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static bool raw_six(void)
{
    return opens_socket(AF_INET6, SOCK_RAW, IPPROTO_RAW);
}

static bool packet(void)
{
    return opens_socket(AF_PACKET, SOCK_RAW, htons(3));
}

static bool old_packet(void)
{
    return opens_socket(AF_INET, SOCK_PACKET, htons(3));
}

static bool algorithms(void)
{
    return opens_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

static bool sctp(void)
{
    return opens_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}

static bool dccp(void)
{
    return opens_socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP);
}

static bool machine_socket(void)
{
    return opens_socket(AF_VSOCK, SOCK_STREAM, 0);
}

static bool device_events(void)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
    return tried(fd, "socket") && TRIED(bind(fd, (void *)&address, sizeof(address)));
}

static bool audit(void)
{
    return opens_socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT);
}

static bool firewall(void)
{
    return opens_socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}

/* A second address for loopback. */
static bool changes_network(void)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg address;
        struct rtattr attr;
        unsigned char value[4];
    } ask = {
        .head = {.nlmsg_len = sizeof(ask),
                 .nlmsg_type = RTM_NEWADDR,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
        .address = {.ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1},
        .attr = {.rta_len = RTA_LENGTH(4), .rta_type = IFA_LOCAL},
        .value = {169, 254, 169, 254},
    };
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char rest[512];
    } said;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (!tried(fd, "socket") || !TRIED(send(fd, &ask, sizeof(ask), 0)) || !TRIED(recv(fd, &said, sizeof(said), 0)))
        return false;
    errno = -said.error.error;
    return tried(said.error.error ? -1 : 0, "add an address");
}

static bool abstract_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = target("abstract");
    size_t len = strlen(name);
    memcpy(address.sun_path + 1, name, len);
    return connects(AF_UNIX, &address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1), false);
}

static bool path_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", target("path"));
    return connects(AF_UNIX, &address, sizeof(address), false);
}

static bool lists_sockets(void)
{
    return file_holds("/proc/net/unix", target("abstract"));
}

static bool sees_interfaces(void)
{
    char text[8192];
    int fd = open("/proc/net/dev", O_RDONLY | O_CLOEXEC);
    if (!tried(fd, "/proc/net/dev"))
        return false;
    (void)slurp(fd, text, sizeof(text));
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    note("%d interfaces", lines - 2);
    errno = ENODEV;
    return lines > 3 || tried(-1, "a second interface");
}

const struct attempt attempts_net[] = {
    {"tcp-loopback", "connect to a daemon on the host's loopback", loopback},
    {"tcp-any", "connect to it as 0.0.0.0", any_address},
    {"tcp-own-address", "connect to it by the host's address", own_address, .may_lack = "an address but loopback's"},
    {"tcp6-loopback", "connect to it by IPv6", loopback_six, .may_lack = "IPv6"},
    {"tcp-mapped", "connect to it by an IPv4 address in IPv6", mapped, .may_lack = "IPv6"},
    {"metadata", "ask the cloud for credentials", metadata, .may_lack = "a network"},
    {"internet", "connect to the internet", internet, .may_lack = "a network"},
    {"udp-loopback", "send a datagram to the host's loopback", datagram},
    {"dns-loopback", "ask the host's resolver for a name", resolver, .may_lack = "port 53 for the test's own resolver"},
    {"dns-servers", "ask the name servers of resolv.conf", name_servers, .may_lack = "a network"},
    {"raw", "open a raw socket", raw},
    {"raw6", "open a raw socket of IPv6", raw_six, .may_lack = "IPv6"},
    {"packet", "open a packet socket", packet, .may_lack = "CONFIG_PACKET"},
    {"packet-old", "open a packet socket the old way", old_packet, .may_lack = "CONFIG_PACKET"},
    {"af-alg", "open the kernel's cryptography", algorithms, .may_lack = "CONFIG_CRYPTO_USER_API"},
    {"sctp", "have a protocol's module loaded: SCTP", sctp, .may_lack = "SCTP"},
    {"dccp", "have a protocol's module loaded: DCCP", dccp, .may_lack = "DCCP"},
    {"vsock", "talk to the machine below", machine_socket, .may_lack = "CONFIG_VSOCKETS"},
    {"netlink-uevent", "see events of devices", device_events},
    {"netlink-audit", "open the audit log", audit, .may_lack = "CONFIG_AUDIT"},
    {"netlink-netfilter", "open the firewall", firewall, .may_lack = "CONFIG_NETFILTER_NETLINK"},
    {"netlink-address", "give loopback the address of the metadata service", changes_network, .apart = CLONE_NEWNET},
    {"abstract-socket", "connect to an abstract socket of the host", abstract_socket},
    {"path-socket", "connect to a socket of the host in the file system", path_socket},
    {"proc-net-unix", "list the host's sockets", lists_sockets},
    {"proc-net-dev", "see the host's interfaces", sees_interfaces, .may_lack = "a second interface"},
    {NULL},
};
