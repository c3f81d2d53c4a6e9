/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scheduler/dispatch/run_fixture.h"

#include <string.h>

#include "base/mem.h"
#include "base/val.h"
#include "tests/support/t.h"

struct fixture *run_fixture_new(const char *document)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    struct bh_errlist errors = {0};
    struct bh_plan_options options = {0};
    kit_home_make(&f->home);
    f->id = kit_run_id(1);
    T_OK(bh_store_open(&f->home.home, BH_STORE_WRITE, &f->store, &err));
    struct bh_live_run_new what = {.store = f->store,
                                   .run = f->id,
                                   .file = "p.yaml",
                                   .text = document,
                                   .text_len = strlen(document),
                                   .submission = bh_val_map()};
    if (bh_pipeline_load("p.yaml", document, strlen(document), &what.pipeline, &errors) != 0 ||
        bh_plan_make(what.pipeline, &options, &what.plan, &errors) != 0)
        fail_msg("%s", bh_err_message(errors.items[0]));
    T_OK(bh_live_run_create(&what, &f->run, &err));
    return f;
}

int run_fixture_tear_down(void **state)
{
    struct fixture *f = *state;
    bh_live_run_free(f->run);
    bh_store_close(f->store);
    kit_home_remove(&f->home);
    bh_free(f);
    return 0;
}
