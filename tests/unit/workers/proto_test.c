/* SPDX-License-Identifier: Apache-2.0 */
/* What a hostile init may say is refused, field by field. */
#include "workers/box/proto.h"

#include <errno.h>

#include "tests/support/t.h"
#include "workers/box/box.h"

static struct bh_msg_report ended(uint32_t end, int32_t status)
{
    return (struct bh_msg_report){.kind = BH_MSG_ENDED, .end = end, .status = status, .id = 7};
}

static void packs_and_unpacks(void **state)
{
    (void)state;
    struct bh_buf buf = BH_BUF_INIT;
    bh_pack_str(&buf, "one");
    bh_pack_str(&buf, "");
    struct bh_unpack u = {buf.data, buf.data + buf.len};
    T_STR(bh_unpack_str(&u), "one");
    T_TRUE(!bh_unpack_done(&u));
    T_STR(bh_unpack_str(&u), "");
    T_TRUE(bh_unpack_done(&u));
    T_TRUE(bh_unpack_str(&u) == NULL);
    T_TRUE(!bh_unpack_done(&u)); /* more was read than was there */
    bh_buf_fini(&buf);
}

static void refuses_a_string_without_end(void **state)
{
    (void)state;
    const char bytes[] = {'a', 0, 'b', 'c'};
    struct bh_unpack u = {bytes, bytes + sizeof(bytes)};
    T_STR(bh_unpack_str(&u), "a");
    T_TRUE(bh_unpack_str(&u) == NULL);
    T_TRUE(bh_unpack_str(&u) == NULL);
    T_TRUE(!bh_unpack_done(&u));
}

static void cuts_a_step(void **state)
{
    (void)state;
    char step[BH_STEP_MAX], text[2 * BH_STEP_MAX];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memset(step, 'y', sizeof(step));
    bh_step_set(step, text);
    T_INT(strlen(step), BH_STEP_MAX - 1);
    bh_step_set(step, "short");
    T_STR(step, "short");
    T_INT(step[BH_STEP_MAX - 1], 0);
}

static void accepts_what_a_box_may_say(void **state)
{
    (void)state;
    struct bh_msg_report good[] = {
        ended(BH_EXEC_EXITED, 0),
        ended(BH_EXEC_EXITED, 255),
        ended(BH_EXEC_SIGNALED, 9),
        ended(BH_EXEC_NOT_STARTED, ENOENT),
        {.kind = BH_MSG_READY},
        {.kind = BH_MSG_FAILED, .status = EPERM},
        {.kind = BH_MSG_STARTED, .status = 99999},
        {.kind = BH_MSG_QUIET},
        {.kind = BH_MSG_QUIET, .status = EBUSY},
        {.kind = BH_MSG_OPENED, .status = ELOOP},
        {.kind = BH_MSG_LISTENING, .status = EADDRINUSE},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(good); i++)
        T_TRUE(bh_report_valid(&good[i], sizeof(good[i]), 0));
    struct bh_msg_report opened = {.kind = BH_MSG_OPENED};
    struct bh_msg_report listening = {.kind = BH_MSG_LISTENING};
    T_TRUE(bh_report_valid(&opened, sizeof(opened), 1));
    T_TRUE(bh_report_valid(&listening, sizeof(listening), 1));
}

static void refuses_what_it_may_not(void **state)
{
    (void)state;
    struct bh_msg_report bad[] = {
        ended(BH_EXEC_EXITED, 256),
        ended(BH_EXEC_EXITED, -1),
        ended(BH_EXEC_SIGNALED, 0),
        ended(BH_EXEC_SIGNALED, 65),
        ended(BH_EXEC_NOT_STARTED, 0),
        ended(BH_EXEC_NOT_STARTED, 4096),
        ended(BH_EXEC_BOX_LOST, 0), /* that is not for a box to say */
        ended(77, 0),
        {.kind = BH_MSG_READY, .status = 1},
        {.kind = BH_MSG_FAILED},
        {.kind = BH_MSG_QUIET, .status = -5},
        {.kind = BH_MSG_OPENED, .status = 5000},
        {.kind = BH_MSG_OPENED}, /* without its descriptor */
        {.kind = BH_MSG_LISTENING},
        {.kind = BH_MSG_STARTED}, /* nobody's number */
        {.kind = BH_MSG_STARTED, .status = 1},
        {.kind = BH_MSG_STARTED, .status = -7},
        {.kind = BH_MSG_EXEC},
        {.kind = BH_MSG_CREATED},
        {.kind = 0},
        {.kind = 0xffffffff},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        T_TRUE(!bh_report_valid(&bad[i], sizeof(bad[i]), 0));
}

/* What is said of warm forks: each kind with exactly its descriptors. */
static void warm_kinds_carry_what_they_must(void **state)
{
    static const struct {
        enum bh_msg_kind kind;
        size_t nfds;
    } kinds[] = {{BH_MSG_WARM, BH_WARM_FDS}, {BH_MSG_FORKED, 1}, {BH_MSG_ADOPTED, 0}};
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(kinds); i++) {
        struct bh_msg_report r = {.kind = (uint32_t)kinds[i].kind};
        for (size_t nfds = 0; nfds <= 4; nfds++)
            T_INT(bh_report_valid(&r, sizeof(r), nfds), nfds == kinds[i].nfds);
        r.status = EPERM;
        T_TRUE(!bh_report_valid(&r, sizeof(r), kinds[i].nfds));
    }
    struct bh_msg_report orphan = ended(BH_EXEC_SIGNALED, 9);
    orphan.kind = BH_MSG_ORPHAN;
    T_TRUE(bh_report_valid(&orphan, sizeof(orphan), 0));
    T_TRUE(!bh_report_valid(&orphan, sizeof(orphan), 1));
    orphan.status = 65;
    T_TRUE(!bh_report_valid(&orphan, sizeof(orphan), 0));
    const struct bh_msg_report asked = {.kind = BH_MSG_GO}, other = {.kind = BH_MSG_ADOPT, .status = 2};
    T_TRUE(!bh_report_valid(&asked, sizeof(asked), 0)); /* those are for the worker to say */
    T_TRUE(!bh_report_valid(&other, sizeof(other), 0));
}

static void refuses_lengths_descriptors_and_text(void **state)
{
    (void)state;
    struct bh_msg_report r = ended(BH_EXEC_EXITED, 0);
    T_TRUE(!bh_report_valid(&r, sizeof(r) - 1, 0));
    T_TRUE(!bh_report_valid(&r, 4, 0));
    T_TRUE(!bh_report_valid(&r, sizeof(r), 1));
    r.cpu_ms = -1;
    T_TRUE(!bh_report_valid(&r, sizeof(r), 0));
    r = ended(BH_EXEC_EXITED, 0);
    r.max_rss_bytes = INT64_MIN;
    T_TRUE(!bh_report_valid(&r, sizeof(r), 0));
    r = ended(BH_EXEC_NOT_STARTED, ENOENT);
    memset(r.step, 'x', sizeof(r.step)); /* never ends */
    T_TRUE(!bh_report_valid(&r, sizeof(r), 0));
    bh_step_set(r.step, "a\033[2J");
    T_TRUE(!bh_report_valid(&r, sizeof(r), 0));
    bh_step_set(r.step, "copy b\xc3\xa4r.txt"); /* names of files may be any text */
    T_TRUE(bh_report_valid(&r, sizeof(r), 0));
    struct bh_msg_report failed = {.kind = BH_MSG_OPENED, .status = ENOENT};
    T_TRUE(!bh_report_valid(&failed, sizeof(failed), 1)); /* a refusal that brings a descriptor */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_and_unpacks),
        cmocka_unit_test(refuses_a_string_without_end),
        cmocka_unit_test(cuts_a_step),
        cmocka_unit_test(accepts_what_a_box_may_say),
        cmocka_unit_test(refuses_what_it_may_not),
        cmocka_unit_test(warm_kinds_carry_what_they_must),
        cmocka_unit_test(refuses_lengths_descriptors_and_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
