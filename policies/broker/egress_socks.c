/* SPDX-License-Identifier: Apache-2.0 */
/* The two versions' requests. Every length is checked before it is used. */
#include "policies/broker/egress_socks.h"

#include <string.h>

enum { V4 = 4, V5 = 5, CONNECT = 1, NO_AUTHENTICATION = 0, USER_MAX = 255 };
enum { ATYP_V4 = 1, ATYP_NAME = 3, ATYP_V6 = 4 };

static long fail(enum bh_egress_reason why, enum bh_egress_reason *ret)
{
    *ret = why;
    return -1;
}

long bh_egress_socks_greeting(const unsigned char *data, size_t len, enum bh_egress_reason *ret)
{
    if (len < 2 || len < 2 + (size_t)data[1])
        return 0;
    if (!memchr(data + 2, NO_AUTHENTICATION, data[1]))
        return fail(BH_EGRESS_METHOD, ret);
    return 2 + (long)data[1];
}

static uint16_t port_at(const unsigned char *data)
{
    return (uint16_t)(data[0] << 8 | data[1]);
}

static void read_v4(const unsigned char *data, struct bh_host *ret)
{
    *ret = (struct bh_host){.is_address = true};
    bh_address_from_v4(data, ret->address);
    (void)bh_address_format(ret->address, ret->name);
}

static void read_v6(const unsigned char *data, struct bh_host *ret)
{
    *ret = (struct bh_host){.is_address = true};
    memcpy(ret->address, data, BH_ADDRESS_LEN);
    (void)bh_address_format(ret->address, ret->name);
}

/* What is at 4: the address in one of three forms, then the port. */
static long read_fifth(const unsigned char *data, size_t len, struct bh_egress_socks *ret, enum bh_egress_reason *why)
{
    if (len < 5)
        return 0;
    size_t head = data[3] == ATYP_NAME ? 5 : 4;
    size_t size = data[3] == ATYP_NAME ? data[4] : data[3] == ATYP_V4 ? 4 : BH_ADDRESS_LEN;
    if (data[3] != ATYP_NAME && data[3] != ATYP_V4 && data[3] != ATYP_V6)
        return fail(BH_EGRESS_BAD_HOST, why);
    if (len < head + size + 2)
        return 0;
    ret->port = port_at(data + head + size);
    if (data[3] == ATYP_V4)
        read_v4(data + head, &ret->host);
    else if (data[3] == ATYP_V6)
        read_v6(data + head, &ret->host);
    else if (!bh_host_read((const char *)data + head, size, &ret->host))
        return fail(BH_EGRESS_BAD_HOST, why);
    if (data[1] != CONNECT)
        return fail(BH_EGRESS_METHOD, why);
    return ret->port == 0 ? fail(BH_EGRESS_BAD_HOST, why) : (long)(head + size + 2);
}

/* The length of a text that ends with NUL, 0 where the NUL is not there, -1 where it is too long. */
static long text_len(const unsigned char *data, size_t len)
{
    const unsigned char *end = memchr(data, '\0', len);
    if (end)
        return end - data + 1;
    return len > USER_MAX ? -1 : 0;
}

/* 0.0.0.x with x not 0: the name follows behind the user's (4a). */
static long read_fourth(const unsigned char *data, size_t len, struct bh_egress_socks *ret, enum bh_egress_reason *why)
{
    if (len < 9)
        return 0;
    long user = text_len(data + 8, len - 8), name = 0;
    bool named = data[4] == 0 && data[5] == 0 && data[6] == 0 && data[7] != 0;
    if (user < 0)
        return fail(BH_EGRESS_BAD_REQUEST, why);
    if (user > 0 && named)
        name = text_len(data + 8 + user, len - 8 - (size_t)user);
    if (user == 0 || (named && name == 0))
        return 0;
    if (name < 0)
        return fail(BH_EGRESS_BAD_REQUEST, why);
    ret->port = port_at(data + 2);
    if (!named)
        read_v4(data + 4, &ret->host);
    else if (!bh_host_read((const char *)data + 8 + user, (size_t)name - 1, &ret->host))
        return fail(BH_EGRESS_BAD_HOST, why);
    if (data[1] != CONNECT)
        return fail(BH_EGRESS_METHOD, why);
    return ret->port == 0 ? fail(BH_EGRESS_BAD_HOST, why) : 8 + user + name;
}

long bh_egress_socks_request(const unsigned char *data, size_t len, struct bh_egress_socks *ret,
                             enum bh_egress_reason *ret_reason)
{
    *ret = (struct bh_egress_socks){0};
    if (len == 0)
        return 0;
    ret->fifth = data[0] == V5;
    if (data[0] == V5)
        return read_fifth(data, len, ret, ret_reason);
    return data[0] == V4 ? read_fourth(data, len, ret, ret_reason) : fail(BH_EGRESS_BAD_REQUEST, ret_reason);
}

size_t bh_egress_socks_answer(bool fifth, enum bh_egress_reason reason, unsigned char ret[static BH_SOCKS_ANSWER_MAX])
{
    memset(ret, 0, BH_SOCKS_ANSWER_MAX);
    if (!fifth) {
        ret[1] = bh_egress_reason_socks(reason) == 0 ? 0x5a : 0x5b;
        return 8;
    }
    ret[0] = V5;
    ret[1] = (unsigned char)bh_egress_reason_socks(reason);
    ret[3] = ATYP_V4;
    return BH_SOCKS_ANSWER_MAX;
}
