/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns libcurl: one multi handle on the loop, its sockets and its timer, and the easy handles, which are used again.
 * Assumes one thread. Must never leave a handle inside a callback of libcurl, which forbids it.
 */
#include "policies/broker/endpoint_transfer.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "policies/address.h"

enum {
    HEAD_MAX = 256 * 1024, /* of an answer */
    IDLE_HANDLES = 64,
    UPLOAD_BUFFER = 16 * 1024,
    CONNECT_S = 30,
};

struct bh_transfers {
    struct event_base *loop;
    CURLM *multi;
    struct event *timer, *cutter;
    CURL *idle[IDLE_HANDLES];
    size_t n_idle;
    int inside;           /* of libcurl */
    struct bh_list ended; /* cancelled inside */
    struct bh_list cut;   /* by what became of their data; to be ended */
    /* What came in this turn of the loop, of one transfer: libcurl tells of it in pieces of CURL_MAX_WRITE_SIZE. */
    struct bh_transfer *gathers;
    size_t n_gathered;
    char gathered[BH_TRANSFER_BEFORE + BH_TRANSFER_PIECE];
};

struct bh_transfer {
    struct bh_list link; /* of `ended` or `cut` */
    struct bh_transfers *pool;
    const struct bh_transfer_ops *ops; /* NULL: cancelled */
    void *arg;
    CURL *easy;
    struct curl_slist *headers;
    struct bh_buf head; /* lines of the answer, NUL-separated */
    size_t n_lines;
    long status;
    bool head_done;
    size_t piece;
    enum bh_flow flow;
    char refused[BH_ADDRESS_TEXT]; /* an address that may not be connected to */
    char problem[CURL_ERROR_SIZE];
};

/* --- the answer --- */

/* "name: value" in place; false where it is none. */
static bool split_header(char *line, struct bh_http_header *ret)
{
    char *colon = strchr(line, ':');
    if (!colon)
        return false;
    *colon = '\0';
    *ret = (struct bh_http_header){.name = line, .value = colon + 1 + strspn(colon + 1, " \t")};
    return bh_http_is_token(line, strlen(line));
}

static bool end_head(struct bh_transfer *t)
{
    struct bh_http_header *headers = bh_calloc(t->n_lines + 1, sizeof(*headers));
    size_t n = 0, at = 0;
    for (size_t i = 0; i < t->n_lines; i++) {
        char *line = t->head.data + at;
        at += strlen(line) + 1;
        n += split_header(line, &headers[n]);
    }
    t->head_done = true;
    bool on = t->ops->on_head(t->arg, t->status, headers, n);
    bh_free(headers);
    bh_buf_fini(&t->head);
    return on;
}

static void begin_head(struct bh_transfer *t, long status)
{
    bh_buf_clear(&t->head);
    t->n_lines = 0;
    t->status = status;
}

/* Of "HTTP/1.1 200 OK"; 0 where the line is none. */
static long status_of(const char *line, size_t len)
{
    const char *p = len > 12 || len == 12 ? memchr(line, ' ', len) : NULL;
    if (!p || memcmp(line, "HTTP/", 5) != 0 || line + len - p < 4)
        return 0;
    long status = 0;
    for (int i = 1; i <= 3; i++) {
        if (p[i] < '0' || p[i] > '9')
            return 0;
        status = status * 10 + (p[i] - '0');
    }
    return status;
}

/* libcurl hands over one whole line, that of the status first and the empty one last; trailers come here as well. */
static size_t on_header(char *data, size_t one, size_t whole, void *arg)
{
    struct bh_transfer *t = arg;
    size_t len = whole;
    (void)one;
    if (!t->ops || t->head.len + whole > HEAD_MAX)
        return 0;
    if (t->head_done)
        return whole;
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r' || data[len - 1] == ' '))
        len--;
    if (memchr(data, '\0', len))
        return 0;
    long status = status_of(data, len);
    if (status > 0) {
        begin_head(t, status);
        return whole;
    }
    if (len == 0) {
        if (t->status >= 200)
            return end_head(t) ? whole : 0;
        return whole;
    }
    bh_buf_add(&t->head, data, len);
    bh_buf_addc(&t->head, '\0');
    t->n_lines++;
    return whole;
}

/* Maybe of another one than the one that is being read. */
static void hand_over(struct bh_transfers *pool)
{
    struct bh_transfer *t = BH_TAKE(pool->gathers);
    size_t n = pool->n_gathered;
    pool->n_gathered = 0;
    if (!t || n == 0)
        return;
    t->flow = t->ops->on_data(t->arg, pool->gathered + BH_TRANSFER_BEFORE, n);
    if (t->ops && t->flow == BH_FLOW_CUT)
        bh_list_append(&pool->cut, &t->link);
}

static size_t on_data(char *data, size_t one, size_t len, void *arg)
{
    struct bh_transfer *t = arg;
    struct bh_transfers *pool = t->pool;
    (void)one;
    if (pool->gathers != t || pool->n_gathered + len > t->piece)
        hand_over(pool);
    if (!t->ops || t->flow == BH_FLOW_CUT || len > sizeof(pool->gathered) - BH_TRANSFER_BEFORE)
        return 0;
    if (t->flow == BH_FLOW_PAUSE)
        return CURL_WRITEFUNC_PAUSE;
    memcpy(pool->gathered + BH_TRANSFER_BEFORE + pool->n_gathered, data, len);
    pool->n_gathered += len;
    pool->gathers = t;
    return len;
}

/* What came goes on at once: nothing is kept for a later turn. That it is to pause, libcurl is told here: before it
 * reads more, which it would have to keep. */
static void end_turn(struct bh_transfers *pool)
{
    struct bh_transfer *t = pool->gathers;
    pool->inside++;
    hand_over(pool);
    if (t && t->ops && t->flow == BH_FLOW_PAUSE)
        (void)curl_easy_pause(t->easy, CURLPAUSE_RECV);
    pool->inside--;
}

/* --- the request --- */

static size_t give_body(char *room, size_t one, size_t size, void *arg)
{
    struct bh_transfer *t = arg;
    (void)one;
    ssize_t n = t->ops ? t->ops->give_body(t->arg, room, size) : -2;
    if (n == -1)
        return CURL_READFUNC_PAUSE;
    return n < 0 ? CURL_READFUNC_ABORT : (size_t)n;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct bh_transfer *t = arg;
    unsigned char address[16];
    (void)purpose;
    if (!t->ops || !bh_address_from_sockaddr(&to->addr, address))
        return CURL_SOCKET_BAD;
    if (!t->ops->permits(t->arg, address)) {
        (void)bh_address_format(address, t->refused);
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, to->protocol);
}

/* Nodes whose text is the caller's: nothing of a secret is copied. */
static struct curl_slist *push_header(struct curl_slist *list, const char *line)
{
    struct curl_slist *node = bh_alloc(sizeof(*node));
    memcpy(&node->data, &line, sizeof(line));
    node->next = list;
    return node;
}

static struct curl_slist *header_list(const struct bh_transfer_request *req)
{
    static const char *const kept_out[] = {"Expect:", "Accept:"};
    struct curl_slist *list = NULL;
    bool accepts = false;
    for (size_t i = 0; i < req->n_headers; i++) {
        accepts = accepts || !strncasecmp(req->headers[i], "accept:", 7);
        list = push_header(list, req->headers[i]);
    }
    for (size_t i = 0; i < req->n_more; i++) {
        accepts = accepts || !strncasecmp(req->more[i], "accept:", 7);
        list = push_header(list, req->more[i]);
    }
    list = push_header(list, kept_out[0]);
    return accepts ? list : push_header(list, kept_out[1]);
}

static void free_headers(struct curl_slist *list)
{
    while (list) {
        struct curl_slist *next = list->next;
        bh_free(list);
        list = next;
    }
}

static void set_callbacks(struct bh_transfer *t)
{
    CURL *e = t->easy;
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->problem);
    (void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(e, CURLOPT_READFUNCTION, give_body);
    (void)curl_easy_setopt(e, CURLOPT_READDATA, t);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
}

static CURLcode set_manners(CURL *e, size_t piece)
{
    const char *authorities = getenv("SSL_CERT_FILE");
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(e, CURLOPT_HTTP09_ALLOWED, 0L);
    (void)curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(e, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    (void)curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)piece);
    (void)curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long)UPLOAD_BUFFER);
    (void)curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, 60L);
    if (authorities && curl_easy_setopt(e, CURLOPT_CAINFO, authorities) != CURLE_OK)
        return CURLE_OUT_OF_MEMORY;
    /* What is relied upon is set last, and checked. */
    if (curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK ||
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L) != CURLE_OK ||
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L) != CURLE_OK)
        return CURLE_UNSUPPORTED_PROTOCOL;
    return curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "identity");
}

static bool is_method(const char *method, const char *const *list)
{
    for (; *list; list++) {
        if (!strcmp(method, *list))
            return true;
    }
    return false;
}

static CURLcode set_request(struct bh_transfer *t, const struct bh_transfer_request *req)
{
    static const char *const with_length[] = {"POST", "PUT", "PATCH", NULL}; /* "0" is said of these */
    CURL *e = t->easy;
    if (req->length != 0 || is_method(req->method, with_length)) {
        (void)curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->length);
    } else if (!strcmp(req->method, "HEAD")) {
        (void)curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    } else {
        (void)curl_easy_setopt(e, CURLOPT_HTTPGET, 1L);
    }
    t->headers = header_list(req);
    (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    CURLcode rc = curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, req->method);
    return rc == CURLE_OK ? curl_easy_setopt(e, CURLOPT_URL, req->url) : rc;
}

/* --- a transfer's life --- */

static CURL *take_easy(struct bh_transfers *pool)
{
    return pool->n_idle > 0 ? pool->idle[--pool->n_idle] : curl_easy_init();
}

static void give_back(struct bh_transfers *pool, CURL *easy)
{
    if (pool->n_idle == IDLE_HANDLES) {
        curl_easy_cleanup(easy);
        return;
    }
    curl_easy_reset(easy);
    pool->idle[pool->n_idle++] = easy;
}

static void free_transfer(struct bh_transfer *t)
{
    if (t->easy) {
        (void)curl_multi_remove_handle(t->pool->multi, t->easy);
        give_back(t->pool, t->easy);
    }
    bh_list_remove(&t->link);
    if (t->pool->gathers == t)
        t->pool->gathers = NULL;
    free_headers(t->headers);
    bh_buf_fini(&t->head);
    bh_free(t);
}

struct bh_transfer *bh_transfer_start(struct bh_transfers *pool, const struct bh_transfer_request *req,
                                      const struct bh_transfer_ops *ops, void *arg)
{
    struct bh_transfer *t = bh_alloc(sizeof(*t));
    *t = (struct bh_transfer){.pool = pool, .ops = ops, .arg = arg, .head = BH_BUF_INIT, .easy = take_easy(pool)};
    t->piece = req->crowded ? CURL_MAX_WRITE_SIZE : BH_TRANSFER_PIECE;
    bh_list_init(&t->link);
    bool set = t->easy && set_manners(t->easy, t->piece) == CURLE_OK && set_request(t, req) == CURLE_OK;
    if (set)
        set_callbacks(t);
    pool->inside++;
    set = set && curl_multi_add_handle(pool->multi, t->easy) == CURLM_OK;
    pool->inside--;
    if (!set) {
        free_transfer(t);
        return NULL;
    }
    return t;
}

static void bury(struct bh_transfers *pool)
{
    if (pool->inside > 0)
        return;
    BH_LIST_FOREACH (it, next, &pool->ended) {
        free_transfer(BH_CONTAINER(it, struct bh_transfer, link));
    }
}

void bh_transfer_go_on(struct bh_transfer *t)
{
    struct bh_transfers *pool = t->pool;
    BH_ASSERT(pool->inside == 0);
    t->flow = t->flow == BH_FLOW_PAUSE ? BH_FLOW_ON : t->flow;
    pool->inside++;
    (void)curl_easy_pause(t->easy, CURLPAUSE_CONT);
    pool->inside--;
    end_turn(pool);
    if (!bh_list_empty(&pool->cut))
        event_active(pool->cutter, EV_TIMEOUT, 0);
    bury(pool);
}

void bh_transfer_cancel(struct bh_transfer *t)
{
    if (!t)
        return;
    struct bh_transfers *pool = t->pool;
    t->ops = NULL;
    if (pool->gathers == t)
        pool->gathers = NULL;
    bh_list_remove(&t->link);
    bh_list_append(&pool->ended, &t->link);
    bury(pool);
}

/* --- the loop --- */

static bool is_refused(const struct bh_transfer *t, CURLcode rc)
{
    return t->refused[0] && rc == CURLE_COULDNT_CONNECT;
}

static const char *problem_of(struct bh_transfer *t, CURLcode rc)
{
    if (rc == CURLE_OK)
        return NULL;
    if (is_refused(t, rc))
        (void)snprintf(t->problem, sizeof(t->problem),
                       "its address %s is not public, and the site's policy ('ranges') does not permit it", t->refused);
    return t->problem[0] ? t->problem : curl_easy_strerror(rc);
}

static void end(struct bh_transfer *t, CURLcode rc)
{
    const struct bh_transfer_ops *ops = t->ops;
    if (!ops)
        return; /* buried soon */
    void *arg = t->arg;
    BH_CLEANUP_FREE char *problem = bh_strdup(problem_of(t, rc));
    const char *reason = rc == CURLE_OPERATION_TIMEDOUT ? "timeout" : is_refused(t, rc) ? "address" : "upstream";
    free_transfer(t);
    ops->on_end(arg, problem, reason);
}

static void look_for_ends(struct bh_transfers *pool)
{
    CURLMsg *msg;
    int left;
    bury(pool);
    while (!bh_list_empty(&pool->cut))
        end(BH_CONTAINER(pool->cut.next, struct bh_transfer, link), CURLE_WRITE_ERROR);
    while ((msg = curl_multi_info_read(pool->multi, &left))) {
        void *t = NULL;
        CURLcode rc = msg->data.result;
        if (msg->msg != CURLMSG_DONE || curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&t) != CURLE_OK)
            continue;
        end(t, rc);
    }
    bury(pool);
}

/* True where more is likely to be there, and to fit. */
static bool act_once(struct bh_transfers *pool, curl_socket_t fd, int what)
{
    int running;
    size_t before = pool->n_gathered;
    pool->inside++;
    (void)curl_multi_socket_action(pool->multi, fd, what, &running);
    pool->inside--;
    size_t n = pool->n_gathered;
    return pool->gathers && n >= before + CURL_MAX_WRITE_SIZE && n + CURL_MAX_WRITE_SIZE <= pool->gathers->piece;
}

/* Of TLS, libcurl reads one record at a time: as many as a piece holds go on together. */
static void act(struct bh_transfers *pool, curl_socket_t fd, int what)
{
    while (act_once(pool, fd, what) && fd != CURL_SOCKET_TIMEOUT)
        continue;
    end_turn(pool);
    look_for_ends(pool);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static void on_cut(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    look_for_ends(arg);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    act(arg, fd, (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0));
}

static int want_timer(CURLM *multi, long ms, void *arg)
{
    struct bh_transfers *pool = arg;
    struct timeval when = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    (void)multi;
    return (ms < 0 ? event_del(pool->timer) : event_add(pool->timer, &when)) < 0 ? -1 : 0;
}

static int want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *of_socket)
{
    struct bh_transfers *pool = arg;
    struct event *ev = of_socket;
    (void)easy;
    if (ev)
        event_free(ev);
    if (what == CURL_POLL_REMOVE)
        return curl_multi_assign(pool->multi, fd, NULL) == CURLM_OK ? 0 : -1;
    short flags = (short)(EV_PERSIST | (what & CURL_POLL_IN ? EV_READ : 0) | (what & CURL_POLL_OUT ? EV_WRITE : 0));
    ev = event_new(pool->loop, fd, flags, on_socket, pool);
    if (!ev || event_add(ev, NULL) < 0 || curl_multi_assign(pool->multi, fd, ev) != CURLM_OK)
        return -1;
    return 0;
}

int bh_transfers_new(struct event_base *loop, struct bh_transfers **ret, struct bh_err **err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return bh_err_set(err, BH_E_HOST, 0, "cannot start libcurl");
    struct bh_transfers *pool = bh_alloc(sizeof(*pool));
    *pool = (struct bh_transfers){.loop = loop, .multi = curl_multi_init()};
    bh_list_init(&pool->ended);
    bh_list_init(&pool->cut);
    pool->timer = event_new(loop, -1, 0, on_timer, pool);
    pool->cutter = event_new(loop, -1, 0, on_cut, pool);
    if (!pool->multi || !pool->timer || !pool->cutter) {
        bh_transfers_free(pool);
        return bh_err_set(err, BH_E_HOST, 0, "cannot start libcurl");
    }
    (void)curl_multi_setopt(pool->multi, CURLMOPT_SOCKETFUNCTION, want_socket);
    (void)curl_multi_setopt(pool->multi, CURLMOPT_SOCKETDATA, pool);
    (void)curl_multi_setopt(pool->multi, CURLMOPT_TIMERFUNCTION, want_timer);
    (void)curl_multi_setopt(pool->multi, CURLMOPT_TIMERDATA, pool);
    *ret = pool;
    return 0;
}

void bh_transfers_free(struct bh_transfers *pool)
{
    if (!pool)
        return;
    bury(pool);
    for (size_t i = 0; i < pool->n_idle; i++)
        curl_easy_cleanup(pool->idle[i]);
    if (pool->multi)
        (void)curl_multi_cleanup(pool->multi);
    if (pool->timer)
        event_free(pool->timer);
    if (pool->cutter)
        event_free(pool->cutter);
    bh_free(pool);
    curl_global_cleanup();
}

int64_t bh_transfer_parse_date(const char *text)
{
    return curl_getdate(text, NULL);
}
