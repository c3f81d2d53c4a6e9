/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include "cli/network_signs.h"

static void programs_that_look_for_a_network_are_known(void **state)
{
    static const char *const lines[] = {
        "curl: (6) Could not resolve host: example.org\n",
        "    | x\n    | socket.gaierror: [Errno -3] Temporary failure in name resolution\n",
        "ssh: Could not resolve hostname github.com: Temporary failure\n",
        "wget: x: Name or service not known",
        "OSError: [Errno 101] Network is unreachable\n",
        "dial tcp 1.2.3.4:443: connect: network is unreachable\n",
        "Error: getaddrinfo ENOTFOUND registry.example.org\n",
        "npm error code EAI_AGAIN\n",
        "connect ENETUNREACH 1.2.3.4:443\n",
        "dial tcp: lookup example.org on [::1]:53: read udp [::1]:4->[::1]:53: read: connection refused\n",
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(lines); i++) {
        if (!bh_lines_want_network(lines[i]))
            fail_msg("not seen: %s", lines[i]);
    }
}

static void other_errors_are_not_taken_for_it(void **state)
{
    static const char *const lines[] = {
        "",
        "\n\n",
        "FileNotFoundError: [Errno 2] No such file or directory: 'x'\n",
        "ModuleNotFoundError: No module named 'requests'\n",
        "MY_ENOTFOUND\n",
        "ENOTFOUNDATION\n",
        "enotfound\n",
        "ConnectionRefusedError: [Errno 111] Connection refused\n",
        "curl: (7) Failed to connect to localhost port 8080: Connection refused\n",
        "connect ECONNREFUSED 127.0.0.1:53\n",
        "dial tcp [::1]:5432: connect: connection refused\n",
        "name\nresolution\n",
    };
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(lines); i++) {
        if (bh_lines_want_network(lines[i]))
            fail_msg("taken for a network: %s", lines[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_that_look_for_a_network_are_known),
        cmocka_unit_test(other_errors_are_not_taken_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
