/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/evidence_text.h"

#include "base/buf.h"
#include "tests/support/t.h"

#define OWNER "{\"agent\":\"a\",\"attempt\":1,\"try\":2,\"instance\":\"r-1\",\"began\":\"T1\",\"ended\":\"T2\"}"
#define OTHER(more) \
    "{\"agent\":\"b\",\"attempt\":1,\"try\":1,\"instance\":\"r-2\",\"began\":\"T0\",\"ended\":null" more "}"

static void tells(const char *json, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    bh_evidence_tell(json, &out);
    T_STR(out.len > 0 ? out.data : "", want);
}

static void a_collision_has_owner_writers_and_suspects(void **state)
{
    (void)state;
    tells(
        "{\"kind\":\"collision\",\"box\":\"crew\",\"artifact\":\"x\",\"path\":\"/workspace/out/x\",\"changed\":\"T3\","
        "\"digest\":\"sha256:1\",\"digest_later\":null,\"owner\":" OWNER
        ",\"writers\":[" OTHER(",\"wrote\":\"T4\"") "," OTHER(",\"wrote\":null") "],\"alive\":[" OTHER("") "]}",
        "  evidence: 'x' (/workspace/out/x) of box 'crew' was changed last at T3\n"
        "    was collected as sha256:1\n"
        "    owned by agent 'a' (attempt 1, try 2), from T1 to T2\n"
        "    written by agent 'b' (attempt 1, try 1), from T0 on, as the kernel tells: last at T4\n"
        "    written by agent 'b' (attempt 1, try 1), from T0 on, as the kernel tells: it has it open\n"
        "    meanwhile there was agent 'b' (attempt 1, try 1), from T0 on\n");
}

static void a_wedge_has_everybodys_numbers(void **state)
{
    (void)state;
    tells(
        "{\"kind\":\"wedge\",\"what\":\"disk\",\"box\":\"x\",\"found\":\"T5\",\"agents\":[" OWNER
        "," OTHER(",\"caused\":true,\"cpu_ms\":5,\"memory_bytes\":1024,\"written_bytes\":null,\"processes\":3,"
                  "\"ports\":[80]") "]}",
        "  evidence: who had what of box 'x' (disk) at T5\n"
        "    it is agent 'a' (attempt 1, try 2), from T1 to T2\n"
        "    caused by agent 'b' (attempt 1, try 1), from T0 on: 5 ms of processor time, memory 1.0 KiB, processes: 3, "
        "tcp port 80\n");
}

/* It may be of a later version, or damaged. */
static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    tells(NULL, "");
    tells("", "");
    tells("[]", "");
    tells("{\"kind\":\"other\"}", "");
    tells("{\"kind\":3}", "");
    tells("{\"kind\":\"wedge\",\"agents\":3}", "  evidence: who had what of box '?' (?) at ?\n");
    tells("{\"kind\":\"collision\",\"owner\":[]}", "  evidence: '?' (?) of box '?' was changed last at ?\n"
                                                   "    owned by agent '?' (attempt 0, try 0), from ? on\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collision_has_owner_writers_and_suspects),
        cmocka_unit_test(a_wedge_has_everybodys_numbers),
        cmocka_unit_test(what_is_not_known_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
