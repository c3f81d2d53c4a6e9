/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a message, and whatever decodes as a lease and as a result. What was understood must say the same again
 * after it was written and read once more.
 */
#include <stdint.h>
#include <stdlib.h>

#include "artifact-bus/lease.h"
#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/val.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

/* An error has a message that says something, and nothing else came of it. */
static void check_refusal(struct bh_err *err, const struct bh_val *body)
{
    must(err && !body && *bh_err_message(err));
    bh_err_free(err);
}

static void round_trip(const struct bh_val *body)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *back = NULL;
    if (bh_wire_encode(body, &text, NULL) != 0) /* the envelope of the input was shorter: only the limits may say no */
        return;
    must(bh_wire_decode(text.data, text.len, &back, NULL) == 0);
    must(bh_val_equal(body, back));
}

static void as_lease(const struct bh_val *body)
{
    struct bh_lease lease = {0}, again = {0};
    struct bh_err *err = NULL;
    if (bh_lease_from_val(body, &lease, &err) != 0) {
        check_refusal(err, NULL);
        return;
    }
    BH_CLEANUP_VAL struct bh_val *v = bh_lease_to_val(&lease);
    must(bh_lease_from_val(v, &again, NULL) == 0);
    bh_lease_fini(&lease);
    bh_lease_fini(&again);
}

static void as_result(const struct bh_val *body)
{
    struct bh_result result = {0}, again = {0};
    struct bh_err *err = NULL;
    if (bh_result_from_val(body, &result, &err) != 0) {
        check_refusal(err, NULL);
        return;
    }
    BH_CLEANUP_VAL struct bh_val *v = bh_result_to_val(&result);
    must(bh_result_from_val(v, &again, NULL) == 0);
    bh_result_fini(&result);
    bh_result_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    BH_CLEANUP_VAL struct bh_val *body = NULL;
    struct bh_err *err = NULL;
    if (bh_wire_decode(data, size, &body, &err) != 0) {
        check_refusal(err, body);
        return 0;
    }
    round_trip(body);
    as_lease(body);
    as_result(body);
    return 0;
}
