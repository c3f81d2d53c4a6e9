/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers of store_kit.h. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

void kit_home_make(struct kit_home *h)
{
    h->dir = t_tmpdir();
    T_OK(bh_home_open(h->dir, true, &h->home, &err));
}

void kit_home_remove(struct kit_home *h)
{
    bh_home_close(&h->home);
    t_tmpdir_free(h->dir);
}

struct bh_run_id kit_run_id(unsigned n)
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    struct bh_run_id id;
    memset(id.s, '0', BH_ID_LEN);
    id.s[BH_ID_LEN] = '\0';
    id.s[0] = '1';
    for (int i = 0; i < 4; i++, n /= 32)
        id.s[9 - i] = alphabet[n % 32];
    assert_true(bh_run_id_valid(id.s));
    return id;
}

static void event_texts(int64_t seq, char kind[32], char payload[64])
{
    (void)snprintf(kind, 32, "kit.%lld", (long long)seq);
    (void)snprintf(payload, 64, "{\"seq\":%lld,\"text\":\"\xc3\xa4\"}", (long long)seq);
}

int kit_commit_events(struct bh_store *s, const char *run, int64_t first_seq, size_t n, struct bh_err **err)
{
    struct bh_store_event *events = calloc(n, sizeof(*events));
    char(*kinds)[32] = calloc(n, sizeof(*kinds));
    char(*payloads)[64] = calloc(n, sizeof(*payloads));
    for (size_t i = 0; i < n; i++) {
        int64_t seq = first_seq + (int64_t)i;
        event_texts(seq, kinds[i], payloads[i]);
        events[i] = (struct bh_store_event){.kind = kinds[i], .at = {seq * 1000}, .payload = payloads[i]};
    }
    struct bh_store_batch batch = {.run = run, .events = events, .n_events = n};
    int rc = bh_store_commit(s, &batch, err);
    free(events);
    free(kinds);
    free(payloads);
    return rc;
}

static int check_event(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload,
                       struct bh_err **err)
{
    int64_t *n = arg;
    char want_kind[32], want_payload[64];
    event_texts(++*n, want_kind, want_payload);
    if (seq == *n && at.us == seq * 1000 && strcmp(kind, want_kind) == 0 && strcmp(payload, want_payload) == 0)
        return 0;
    return bh_err_set(err, BH_E_INTERNAL, 0, "event %lld is not what was written: '%s'", (long long)seq, payload);
}

int kit_replay(struct bh_store *s, const char *run, int64_t *ret_n, struct bh_err **err)
{
    *ret_n = 0;
    return bh_store_replay(s, run, check_event, ret_n, err);
}

struct bh_run_row kit_run_row(const char *run, const char *status)
{
    char *id = (char *)(uintptr_t)run;
    return (struct bh_run_row){
        .run = id,
        .name = (char *)(uintptr_t) "audit",
        .status = (char *)(uintptr_t)status,
        .file = (char *)(uintptr_t) "/srv/audit.yaml",
        .created = {1000000},
        .started = {2000000},
        .params = (char *)(uintptr_t) "{\"depth\":2}",
    };
}

int kit_commit_run(struct bh_store *s, const char *run, const char *status, struct bh_err **err)
{
    struct bh_run_row row = kit_run_row(run, status);
    struct bh_store_batch batch = {.run = run, .run_row = &row};
    return bh_store_commit(s, &batch, err);
}

char *kit_mark_text(const struct bh_home *home, const char *run)
{
    char *path = bh_home_run_path(home, run, "head");
    struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_read_file(path, 4096, &text, &err));
    bh_free(path);
    return bh_buf_take(&text);
}

void kit_write_mark(const struct bh_home *home, const char *run, const char *text)
{
    char *folder = bh_home_run_path(home, run, NULL), *path = bh_home_run_path(home, run, "head");
    T_OK(bh_mkdir_p(folder, 0700, &err));
    T_OK(bh_write_file_atomic(path, text, strlen(text), 0600, &err));
    bh_free(folder);
    bh_free(path);
}
