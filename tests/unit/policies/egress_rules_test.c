/* SPDX-License-Identifier: Apache-2.0 */
/* Whom boxes may reach: tables of addresses, of names as people and attackers write them, and of decisions. */
#include <netinet/in.h>
#include <string.h>

#include "base/json.h"
#include "base/val.h"
#include "policies/broker/egress_policy.h"
#include "tests/support/t.h"

/* --- addresses --- */

static const struct {
    const char *address;
    enum bh_address_kind kind;
} addresses[] = {
    {"93.184.216.34", BH_ADDRESS_PUBLIC},
    {"1.1.1.1", BH_ADDRESS_PUBLIC},
    {"9.255.255.255", BH_ADDRESS_PUBLIC},
    {"10.0.0.0", BH_ADDRESS_PRIVATE},
    {"10.255.255.255", BH_ADDRESS_PRIVATE},
    {"11.0.0.0", BH_ADDRESS_PUBLIC},
    {"172.15.255.255", BH_ADDRESS_PUBLIC},
    {"172.16.0.1", BH_ADDRESS_PRIVATE},
    {"172.31.255.255", BH_ADDRESS_PRIVATE},
    {"172.32.0.0", BH_ADDRESS_PUBLIC},
    {"192.168.1.1", BH_ADDRESS_PRIVATE},
    {"127.0.0.1", BH_ADDRESS_LOOPBACK},
    {"127.255.255.254", BH_ADDRESS_LOOPBACK},
    {"169.254.1.1", BH_ADDRESS_LINK_LOCAL},
    {"169.254.169.254", BH_ADDRESS_METADATA},
    {"169.254.170.2", BH_ADDRESS_METADATA},
    {"168.63.129.16", BH_ADDRESS_METADATA},
    {"100.63.255.255", BH_ADDRESS_PUBLIC},
    {"100.64.0.1", BH_ADDRESS_CGNAT},
    {"100.127.255.255", BH_ADDRESS_CGNAT},
    {"100.128.0.0", BH_ADDRESS_PUBLIC},
    {"100.100.100.200", BH_ADDRESS_METADATA},
    {"0.0.0.0", BH_ADDRESS_NOWHERE},
    {"0.1.2.3", BH_ADDRESS_NOWHERE},
    {"192.0.2.1", BH_ADDRESS_RESERVED},
    {"198.18.0.1", BH_ADDRESS_RESERVED},
    {"198.20.0.1", BH_ADDRESS_PUBLIC},
    {"203.0.113.9", BH_ADDRESS_RESERVED},
    {"224.0.0.1", BH_ADDRESS_MULTICAST},
    {"239.255.255.255", BH_ADDRESS_MULTICAST},
    {"240.0.0.1", BH_ADDRESS_RESERVED},
    {"255.255.255.255", BH_ADDRESS_RESERVED},
    {"2606:4700:4700::1111", BH_ADDRESS_PUBLIC},
    {"::", BH_ADDRESS_NOWHERE},
    {"::1", BH_ADDRESS_LOOPBACK},
    {"::2", BH_ADDRESS_RESERVED},
    {"::7f00:1", BH_ADDRESS_RESERVED},         /* IPv4-compatible */
    {"::ffff:127.0.0.1", BH_ADDRESS_LOOPBACK}, /* IPv4-mapped */
    {"::ffff:a9fe:a9fe", BH_ADDRESS_METADATA},
    {"::ffff:93.184.216.34", BH_ADDRESS_PUBLIC},
    {"64:ff9b::127.0.0.1", BH_ADDRESS_LOOPBACK}, /* NAT64 */
    {"64:ff9b::10.1.2.3", BH_ADDRESS_PRIVATE},
    {"64:ff9b::a9fe:a9fe", BH_ADDRESS_METADATA},
    {"64:ff9b::93.184.216.34", BH_ADDRESS_PUBLIC},
    {"64:ff9b:1::1", BH_ADDRESS_RESERVED},
    {"2002:7f00:1::", BH_ADDRESS_RESERVED}, /* 6to4 */
    {"2001:0:1::1", BH_ADDRESS_RESERVED},   /* Teredo */
    {"2001:db8::1", BH_ADDRESS_RESERVED},
    {"3fff::1", BH_ADDRESS_RESERVED},
    {"fc00::1", BH_ADDRESS_PRIVATE},
    {"fdff::1", BH_ADDRESS_PRIVATE},
    {"fd00:ec2::254", BH_ADDRESS_METADATA},
    {"fe80::1", BH_ADDRESS_LINK_LOCAL},
    {"fec0::1", BH_ADDRESS_PRIVATE},
    {"ff02::1", BH_ADDRESS_MULTICAST},
    {"4000::1", BH_ADDRESS_RESERVED},
};

static void one_address_has_one_form(void **state)
{
    static const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {.s_addr = 0x0100000a}}; /* big-endian */
    static const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = {.s6_addr = {0x20, 0x01, [15] = 7}}};
    static const struct sockaddr other = {.sa_family = AF_UNIX};
    static const unsigned char four[] = {10, 0, 0, 1};
    unsigned char a[BH_ADDRESS_LEN], b[BH_ADDRESS_LEN] = {0};
    (void)state;
    T_TRUE(bh_address_parse("10.0.0.1", a));
    bh_address_from_v4(four, b);
    T_TRUE(memcmp(a, b, sizeof(a)) == 0);
    memset(b, 0, sizeof(b));
    T_TRUE(bh_address_from_sockaddr((const struct sockaddr *)&v4, b));
    T_TRUE(memcmp(a, b, sizeof(a)) == 0);
    T_TRUE(!bh_address_from_sockaddr(&other, b));
    T_TRUE(memcmp(a, b, sizeof(a)) == 0);
    T_TRUE(bh_address_parse("2001::7", a) && bh_address_from_sockaddr((const struct sockaddr *)&v6, b));
    T_TRUE(memcmp(a, b, sizeof(a)) == 0);
}

static void kinds_of_addresses(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(addresses); i++) {
        unsigned char bytes[BH_ADDRESS_LEN];
        T_TRUE(bh_address_parse(addresses[i].address, bytes));
        if (bh_address_kind(bytes) != addresses[i].kind)
            fail_msg("%s is %s", addresses[i].address, bh_address_kind_text(bh_address_kind(bytes)));
    }
}

static const struct {
    const char *address, *range;
    bool permitted;
} permits[] = {
    {"10.1.2.3", "10.0.0.0/8", true},
    {"10.1.2.3", "10.1.2.4", false},
    {"::ffff:10.1.2.3", "10.0.0.0/8", true},
    {"64:ff9b::10.1.2.3", "10.0.0.0/8", true},
    {"127.0.0.1", "127.0.0.0/8", true},
    {"127.0.0.1", "::1", false},
    {"fd00::1", "fd00::/8", true},
    {"169.254.1.1", "169.254.0.0/16", true},
    {"169.254.169.254", "169.254.0.0/16", false}, /* not by the way */
    {"169.254.169.254", "169.254.169.254", true},
    {"fd00:ec2::254", "fd00::/8", false},
    {"224.0.0.1", "0.0.0.0/0", false},
    {"0.0.0.0", "0.0.0.0/0", false},
    {"::", "::/0", false},
};

static void ranges_of_the_site(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(permits); i++) {
        unsigned char bytes[BH_ADDRESS_LEN];
        struct bh_range range;
        T_TRUE(bh_address_parse(permits[i].address, bytes) && bh_range_parse(permits[i].range, &range));
        if (bh_address_is_permitted(bytes, &range, 1) != permits[i].permitted)
            fail_msg("%s by %s", permits[i].address, permits[i].range);
    }
}

/* --- hosts --- */

static const struct {
    const char *text, *name; /* NULL: no host */
} hosts[] = {
    {"example.org", "example.org"},
    {"EXAMPLE.Org", "example.org"},
    {"example.org.", "example.org"},
    {"example.org..", NULL},
    {".example.org", NULL},
    {"a..b", NULL},
    {"", NULL},
    {".", NULL},
    {"localhost", "localhost"},
    {"_dmarc.example.org", "_dmarc.example.org"},
    {"-a.example.org", NULL},
    {"a-.example.org", NULL},
    {"b\xc3\xbc"
     "cher.example",
     "xn--bcher-kva.example"},
    {"B\xc3\x9c"
     "CHER.example",
     "xn--bcher-kva.example"},
    {"xn--bcher-kva.example", "xn--bcher-kva.example"},
    {"b\xc3.example", NULL},
    {"example\xe3\x80\x82org", "example.org"},            /* ideographic full stop */
    {"\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", NULL}, /* full-width digits */
    {"127.0.0.1", "127.0.0.1"},
    {"127.0.0.1.", NULL},
    {"127.1", NULL},
    {"0177.0.0.1", NULL},
    {"0x7f.0.0.1", NULL},
    {"0x7f000001", NULL},
    {"2130706433", NULL},
    {"127.0.0.01", NULL},
    {"1.2.3.4.5", NULL},
    {"example.123", NULL},
    {"example.0x1", NULL},
    {"123.example", "123.example"},
    {"::1", "::1"},
    {"[::1]", "::1"},
    {"[::FFFF:127.0.0.1]", "127.0.0.1"},
    {"[::ffff:7f00:1]", "127.0.0.1"},
    {"[127.0.0.1]", NULL},
    {"[example.org]", NULL},
    {"[fe80::1%eth0]", NULL},
    {"[2001:DB8:0:0::1]", "2001:db8::1"},
    {"exam ple.org", NULL},
    {"example.org\r\nX: y", NULL},
    {"user@example.org", NULL},
    {"*.example.org", NULL},
    {"*", NULL},
    {"example.org%00", NULL},
    {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.org", NULL}, /* a label of 64 */
};

static void hosts_in_one_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(hosts); i++) {
        struct bh_host host;
        bool is = bh_host_read(hosts[i].text, strlen(hosts[i].text), &host);
        if (is != (hosts[i].name != NULL) || (is && strcmp(host.name, hosts[i].name) != 0))
            fail_msg("'%s' is '%s'", hosts[i].text, is ? host.name : "no host");
    }
}

static void a_host_holds_no_nul(void **state)
{
    struct bh_host host;
    (void)state;
    assert_false(bh_host_read("example.org\0.evil.example", 25, &host));
}

static const struct {
    const char *text;
    bool good;
} destinations[] = {
    {"example.org:443", true},
    {"*.example.org:443", true},
    {"[::1]:443", true},
    {"127.0.0.1:80", true},
    {"example.org", false},
    {"example.org:", false},
    {"example.org:0", false},
    {"example.org:65536", false},
    {"example.org:+80", false},
    {"example.org:80 ", false},
    {"example.org:080", true},
    {":443", false},
    {"*:443", false},
    {"*.:443", false},
    {"*.127.0.0.1:443", false},
    {"*.*.org:443", false},
    {"a.*.example.org:443", false},
    {"::1:443", false},
    {"http://example.org:80", false},
    {"[::1]", false},
    {"example.org:443:443", false},
    {"*.[::1]:443", false},
    {"0x7f.1:80", false},
    {"example.org:99999999999", false},
};

static void destinations_are_read_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(destinations); i++) {
        struct bh_destination d;
        if (bh_destination_read(destinations[i].text, strlen(destinations[i].text), true, &d) != destinations[i].good)
            fail_msg("'%s'", destinations[i].text);
    }
}

/* --- decisions --- */

#define LIST                                                                                           \
    "{\"kind\":\"allow\",\"allow\":[\"example.org:443\",\"*.pypi.org:443\",\"API.Example.com.:8443\"," \
    "\"93.184.216.34:80\",\"[2606:4700::1111]:443\",\"b\xc3\xbc"                                       \
    "cher.example:443\",\"127.0.0.1:22\"]}"
#define PUBLIC "{\"kind\":\"public\"}"
#define NONE "{\"kind\":\"none\"}"
#define LEAVE "{\"kind\":\"allow\",\"allow\":[\"10.1.2.3:80\",\"127.0.0.1:22\"],\"ranges\":[\"10.0.0.0/8\"]}"

static const struct {
    const char *policy, *host;
    uint16_t port;
    const char *reason; /* of the address too where the host is one */
} decisions[] = {
    {LIST, "example.org", 443, "listed"},
    {LIST, "EXAMPLE.ORG", 443, "listed"},
    {LIST, "example.org.", 443, "listed"},
    {LIST, "example.org", 80, "not-listed"},
    {LIST, "www.example.org", 443, "not-listed"},
    {LIST, "example.org.evil.example", 443, "not-listed"},
    {LIST, "notexample.org", 443, "not-listed"},
    {LIST, "files.pypi.org", 443, "listed"},
    {LIST, "a.b.pypi.org", 443, "listed"},
    {LIST, "FILES.PYPI.ORG.", 443, "listed"},
    {LIST, "pypi.org", 443, "not-listed"},
    {LIST, "evilpypi.org", 443, "not-listed"},
    {LIST, "pypi.org.evil.example", 443, "not-listed"},
    {LIST, "files.pypi.org", 80, "not-listed"},
    {LIST, "api.example.com", 8443, "listed"},
    {LIST, "api.example.com", 443, "not-listed"},
    {LIST, "93.184.216.34", 80, "public"},
    {LIST, "::ffff:93.184.216.34", 80, "public"},
    {LIST, "93.184.216.34", 443, "not-listed"},
    {LIST, "2606:4700:0::1111", 443, "public"},
    {LIST, "xn--bcher-kva.example", 443, "listed"},
    {LIST,
     "b\xc3\x9c"
     "cher.example",
     443, "listed"},
    {LIST, "bucher.example", 443, "not-listed"},
    {LIST, "127.0.0.1", 22, "loopback"}, /* whatever the list says */
    {LIST, "::ffff:127.0.0.1", 22, "loopback"},
    {LIST, "127.0.0.2", 22, "not-listed"},
    {PUBLIC, "example.org", 443, "public"},
    {PUBLIC, "example.org", 80, "public"},
    {PUBLIC, "example.org", 22, "port"},
    {PUBLIC, "example.org", 8080, "port"},
    {PUBLIC, "93.184.216.34", 443, "public"},
    {PUBLIC, "10.0.0.1", 443, "private"},
    {PUBLIC, "192.168.0.1", 80, "private"},
    {PUBLIC, "127.0.0.1", 80, "loopback"},
    {PUBLIC, "::1", 80, "loopback"},
    {PUBLIC, "169.254.169.254", 80, "metadata"},
    {PUBLIC, "::ffff:169.254.169.254", 80, "metadata"},
    {PUBLIC, "64:ff9b::a9fe:a9fe", 80, "metadata"},
    {PUBLIC, "168.63.129.16", 80, "metadata"},
    {PUBLIC, "fd00:ec2::254", 80, "metadata"},
    {PUBLIC, "169.254.0.1", 80, "link-local"},
    {PUBLIC, "fe80::1", 80, "link-local"},
    {PUBLIC, "100.64.0.1", 80, "cgnat"},
    {PUBLIC, "224.0.0.1", 80, "multicast"},
    {PUBLIC, "ff02::1", 80, "multicast"},
    {PUBLIC, "0.0.0.0", 80, "unspecified"},
    {PUBLIC, "::", 80, "unspecified"},
    {PUBLIC, "192.0.2.1", 80, "reserved"},
    {PUBLIC, "2002:7f00:1::", 80, "reserved"},
    {NONE, "example.org", 443, "network-none"},
    {NONE, "93.184.216.34", 80, "network-none"},
    {LEAVE, "10.1.2.3", 80, "public"},
    {LEAVE, "10.1.2.4", 80, "not-listed"}, /* the site permits, the document does not ask */
    {LEAVE, "127.0.0.1", 22, "loopback"},
};

static void read_policy(const char *json, struct bh_egress_policy *ret)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    T_OK(bh_json_parse(json, strlen(json), &v, &err));
    T_OK(bh_egress_policy_read(v, ret, &err));
}

static void decisions_by_name_and_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(decisions); i++) {
        struct bh_egress_policy p;
        struct bh_host host;
        read_policy(decisions[i].policy, &p);
        T_TRUE(bh_host_read(decisions[i].host, strlen(decisions[i].host), &host));
        enum bh_egress_reason reason = bh_egress_decide_name(&p, &host, decisions[i].port);
        if (!bh_egress_is_denial(reason) && host.is_address)
            reason = bh_egress_decide_address(&p, host.address);
        bh_egress_policy_fini(&p);
        if (strcmp(bh_egress_reason_text(reason), decisions[i].reason) != 0)
            fail_msg("%s:%u by %s: %s", decisions[i].host, decisions[i].port, decisions[i].policy,
                     bh_egress_reason_text(reason));
    }
}

static void policies_that_cannot_be_read(void **state)
{
    static const struct {
        const char *json, *message;
    } bad[] = {
        {"{}", "'' is no kind of network"},
        {"{\"kind\":\"host\"}", "'host' is no kind of network"},
        {"{\"kind\":\"allow\",\"allow\":[\"*\"]}", "'*' is no host and port"},
        {"{\"kind\":\"allow\",\"allow\":[\"a.example:1\",\"0x7f.1:80\"]}", "'0x7f.1:80' is no host and port"},
        {"{\"kind\":\"allow\",\"allow\":[7]}", "'' is no host and port"},
        {"{\"kind\":\"public\",\"ranges\":[\"10.0.0.1/8\"]}", "'10.0.0.1/8' is no range of addresses"},
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        BH_CLEANUP_VAL struct bh_val *v = NULL;
        struct bh_egress_policy p;
        T_OK(bh_json_parse(bad[i].json, strlen(bad[i].json), &v, &err));
        T_ERR(bh_egress_policy_read(v, &p, &err), BH_E_BAD_VALUE, bad[i].message);
    }
}

static void reasons_are_told_apart(void **state)
{
    (void)state;
    assert_false(bh_egress_is_denial(BH_EGRESS_LISTED) || bh_egress_is_denial(BH_EGRESS_PUBLIC));
    assert_true(bh_egress_is_denial(BH_EGRESS_BAD_REQUEST) && bh_egress_is_denial(BH_EGRESS_CONNECTIONS));
    assert_false(bh_egress_is_denial(BH_EGRESS_UNRESOLVED) || bh_egress_is_denial(BH_EGRESS_CLOSED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_address_has_one_form),
        cmocka_unit_test(kinds_of_addresses),
        cmocka_unit_test(ranges_of_the_site),
        cmocka_unit_test(hosts_in_one_form),
        cmocka_unit_test(a_host_holds_no_nul),
        cmocka_unit_test(destinations_are_read_strictly),
        cmocka_unit_test(decisions_by_name_and_address),
        cmocka_unit_test(policies_that_cannot_be_read),
        cmocka_unit_test(reasons_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
