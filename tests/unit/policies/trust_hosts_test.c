/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that a document names: what is malformed is exit 3, what is never public exit 5 unless the site permits it. */
#include "base/mem.h"
#include "trust_rows.h"

#define ALLOW(entry) "agents: [{name: a, run: x, network: {allow: ['" entry "']}}]\n"
#define NO(entry, kind)                                                                  \
    {                                                                                    \
        entry, ALLOW(entry), "policy: the network '" entry "' is not public: " kind "\n" \
    }
#define BAD(entry, why)                                         \
    {                                                           \
        entry, ALLOW(entry), "bad-value: '" entry "' " why "\n" \
    }
#define GOOD(entry)             \
    {                           \
        entry, ALLOW(entry), "" \
    }
#define UPSTREAM(url) \
    "endpoints: {e: {upstream: '" url "', allow: ['POST /x']}}\nagents: [{name: a, run: x, endpoints: [e]}]\n"

static const struct trust_row never[] = {
    NO("127.0.0.1:80", "loopback"),
    NO("127.9.9.9:80", "loopback"),
    NO("[::1]:80", "loopback"),
    NO("localhost:80", "loopback"),
    NO("LocalHost:80", "loopback"),
    NO("localhost.:80", "loopback"),
    NO("db.localhost:5432", "loopback"),
    NO("*.db.localhost:80", "loopback"),
    NO("10.0.0.1:443", "private"),
    NO("172.31.255.255:443", "private"),
    NO("192.168.1.1:443", "private"),
    NO("[fd00::1]:443", "private"),
    NO("[::ffff:10.0.0.1]:443", "private"),
    NO("[64:ff9b::a00:1]:443", "private"),
    NO("169.254.7.7:80", "link-local"),
    NO("[fe80::1]:80", "link-local"),
    NO("169.254.169.254:80", "metadata"),
    NO("metadata.google.internal:80", "metadata"),
    NO("[::ffff:169.254.169.254]:80", "metadata"),
    NO("100.64.0.1:80", "cgnat"),
    NO("224.0.0.1:80", "multicast"),
    NO("0.0.0.0:80", "unspecified"),
    NO("[::]:80", "unspecified"),
    NO("192.0.2.1:80", "reserved"),
};

static const struct trust_row malformed[] = {
    BAD("*", "has no port: write host:port"),
    BAD("*:443", "has no host name that can be allowed"),
    BAD("*.", "has no port: write host:port"),
    BAD("*.:443", "allows a whole top-level domain"),
    BAD("*.org:443", "allows a whole top-level domain"),
    BAD("*.org.:443", "allows a whole top-level domain"),
    BAD("example.org", "has no port: write host:port"),
    BAD("http://example.org:80", "is a URL: write host:port"),
    BAD("example.org:http", "has no port between 1 and 65535"),
    BAD("example.org:0", "has no port between 1 and 65535"),
    BAD("0177.0.0.1:80", "has no host name that can be allowed"),
    BAD("0x7f.0.0.1:80", "has no host name that can be allowed"),
    BAD("0x7f000001:80", "has no host name that can be allowed"),
    BAD("2130706433:80", "has no host name that can be allowed"),
    BAD("127.1:80", "has no host name that can be allowed"),
    BAD("a..b.org:443", "has no host name that can be allowed"),
    BAD("a*.example.org:443", "has no host name that can be allowed"),
    BAD("example.org\t:443", "has no host name that can be allowed"),
};

static const struct trust_row good[] = {
    GOOD("example.org:443"),   GOOD("EXAMPLE.org:443"),          GOOD("example.org.:443"),
    GOOD("*.example.org:443"), GOOD("bücher.example:443"),       GOOD("xn--bcher-kva.example:443"),
    GOOD("93.184.216.34:443"), GOOD("[2606:2800:220:1::1]:443"), GOOD("localhost.example.org:443"),
    GOOD("notlocalhost:443"),
};

static const struct trust_row places[] = {
    {"by phase",
     "agents: [{name: a, run: x, network: {setup: {allow: ['x.org:443', '10.0.0.1:1']}, run: {allow: "
     "['127.0.0.1:2']}}}]\n",
     "policy: the network '127.0.0.1:2' is not public: loopback\npolicy: the network '10.0.0.1:1' is not public: "
     "private\n"},
    {"by the defaults, once for all",
     "defaults: {network: {allow: ['10.0.0.1:1']}}\nagents: [{name: a, run: x}, {name: b, run: x, topology: "
     "per-agent}]\n",
     "policy: the network '10.0.0.1:1' is not public: private\n"},
    {"of a box", "boxes: {lab: {network: {allow: ['10.0.0.1:1']}}}\nagents: [{name: a, run: x, box: lab}]\n",
     "policy: the network '10.0.0.1:1' is not public: private\n"},
    {"an international name that is none", "agents: [{name: a, run: x, network: {allow: ['\xe2\x80\x8b.org:443']}}]\n",
     "bad-value: the network '\xe2\x80\x8b.org:443' has no host that can be reached\n"},
    {"an upstream", UPSTREAM("https://api.example.org"), ""},
    {"an upstream with a port", UPSTREAM("https://api.example.org:8443/v1"), ""},
    {"an upstream here", UPSTREAM("http://127.0.0.1:8080"),
     "policy: the upstream 'http://127.0.0.1:8080' is not public: loopback\n"},
    {"an upstream here by name", UPSTREAM("http://localhost:8080/x"),
     "policy: the upstream 'http://localhost:8080/x' is not public: loopback\n"},
    {"an upstream in brackets", UPSTREAM("http://[::1]:8080"),
     "policy: the upstream 'http://[::1]:8080' is not public: loopback\n"},
    {"an upstream within", UPSTREAM("https://10.1.2.3"),
     "policy: the upstream 'https://10.1.2.3' is not public: private\n"},
    {"an upstream in octal", UPSTREAM("https://0177.0.0.1/"),
     "bad-value: the upstream 'https://0177.0.0.1/' has no host that can be reached\n"},
    {"the metadata service", UPSTREAM("http://169.254.169.254/latest"),
     "policy: the upstream 'http://169.254.169.254/latest' is not public: metadata\n"},
    {"an upstream that nobody uses",
     "endpoints: {e: {upstream: 'http://127.0.0.1', allow: ['POST /x']}}\nagents: [{name: a, run: x}]\n", ""},
};

/* What the site permits, and no more. */
static const struct trust_row permitted[] = {
    GOOD("10.0.0.1:443"),
    NO("10.1.0.1:443", "private"),
    GOOD("localhost:80"),
    NO("[::1]:80", "loopback"),
    NO("169.254.169.254:80", "metadata"),
    {"an upstream", UPSTREAM("http://127.0.0.1:8080"), ""},
    {"another", UPSTREAM("http://192.168.0.1"), "policy: the upstream 'http://192.168.0.1' is not public: private\n"},
};

static void test_permitted(void **state)
{
    (void)state;
    char *ranges[] = {(char[]){"10.0.0.0/16"}, (char[]){"127.0.0.0/8"}, (char[]){"169.254.0.0/16"}};
    struct bh_policy policy = {.n = 1};
    policy.sites[0].file = (char[]){"site.yaml"};
    policy.sites[0].rules.lists[BH_SITE_RANGES] = (struct bh_site_list){.items = ranges, .n = 3, .line = 1};
    trust_rows_check(permitted, BH_ARRAY_LEN(permitted), &policy);
}

#define TEST(name)                                        \
    static void test_##name(void **state)                 \
    {                                                     \
        (void)state;                                      \
        trust_rows_check(name, BH_ARRAY_LEN(name), NULL); \
    }
TEST(never)
TEST(malformed)
TEST(good)
TEST(places)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never),  cmocka_unit_test(test_malformed), cmocka_unit_test(test_good),
        cmocka_unit_test(test_places), cmocka_unit_test(test_permitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
