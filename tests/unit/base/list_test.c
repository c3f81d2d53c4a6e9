/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "tests/support/t.h"

struct item {
    int n;
    struct bh_list link;
};

static int digits_of(struct bh_list *head)
{
    int all = 0;
    BH_LIST_FOREACH (it, tmp, head)
        all = all * 10 + BH_CONTAINER(it, struct item, link)->n;
    return all;
}

static void test_order_and_removal(void **state)
{
    (void)state;
    struct bh_list head;
    struct item items[] = {{.n = 1}, {.n = 2}, {.n = 3}};
    bh_list_init(&head);
    T_TRUE(bh_list_empty(&head));
    T_INT(digits_of(&head), 0);
    for (size_t i = 0; i < BH_ARRAY_LEN(items); i++)
        bh_list_append(&head, &items[i].link);
    T_INT(digits_of(&head), 123);
    bh_list_remove(&items[1].link);
    T_INT(digits_of(&head), 13);
    bh_list_remove(&items[1].link); /* in no list any more: harmless */
    bh_list_append(&head, &items[1].link);
    T_INT(digits_of(&head), 132);
}

static void test_removal_inside_the_loop(void **state)
{
    (void)state;
    struct bh_list head;
    struct item items[] = {{.n = 1}, {.n = 2}, {.n = 3}, {.n = 4}};
    bh_list_init(&head);
    for (size_t i = 0; i < BH_ARRAY_LEN(items); i++)
        bh_list_append(&head, &items[i].link);
    BH_LIST_FOREACH (it, tmp, &head) {
        if (BH_CONTAINER(it, struct item, link)->n % 2 == 0)
            bh_list_remove(it);
    }
    T_INT(digits_of(&head), 13);
    BH_LIST_FOREACH (it, tmp, &head)
        bh_list_remove(it);
    T_TRUE(bh_list_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_removal),
        cmocka_unit_test(test_removal_inside_the_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
