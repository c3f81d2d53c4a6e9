/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong values of keys whose behaviour comes with later versions: they are checked completely all the same. */
#include "base/buf.h"
#include "tests/unit/topologies/load_support.h"

#define TOP HEAD "agents: [{name: a, run: b}]\n" /* further keys from line 4 on */

static void test_secrets(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "secrets: [a]\n", 4, 10, "secrets", BH_E_WRONG_TYPE, "expected a map of name to secret, found a list", 0},
        {TOP "secrets: {a: sk-123}\n", 4, 14, "secrets.a", BH_E_WRONG_TYPE,
         "expected a secret as a map, found 'sk-123'", 0},
        {TOP "secrets: {a: {}}\n", 4, 14, "secrets.a", BH_E_INVALID, "exactly one of env, file and command", 0},
        {TOP "secrets: {a: {env: A, file: b}}\n", 4, 14, "secrets.a", BH_E_INVALID, "exactly one of", 0},
        {TOP "secrets: {a: {value: x}}\n", 4, 15, "secrets.a.value", BH_E_UNKNOWN_KEY,
         "the keys of a secret are env, file, command", 1},
        {TOP "secrets: {a: {command: pass show x}}\n", 4, 24, "secrets.a.command", BH_E_WRONG_TYPE,
         "expected a command as a list of strings", 0},
        {TOP "secrets: {a: {env: A=b}}\n", 4, 20, "secrets.a.env", BH_E_BAD_NAME, "no name of a variable", 0},
        {TOP "secrets: {a: {env: \"A B\"}}\n", 4, 20, "secrets.a.env", BH_E_BAD_NAME,
         "something else than letters, digits and '_'", 0},
        {TOP "secrets: {a: {env: 1A}}\n", 4, 20, "secrets.a.env", BH_E_BAD_NAME, "begins with a digit", 0},
        {TOP "secrets: {a b: {env: A}}\n", 4, 11, "secrets[\"a b\"]", BH_E_BAD_NAME, "'a b' is not a name of a secret",
         0},
    };
    (void)state;
    T_BAD(rows);
}

#define ENDPOINT(more) TOP "endpoints: {e: {upstream: \"https://x.org\", allow: [\"GET /\"]" more "}}\n"

static void test_endpoints(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "endpoints: {e: {allow: [\"GET /\"]}}\n", 4, 16, "endpoints.e.upstream", BH_E_MISSING_KEY,
         "an endpoint needs 'upstream'", 0},
        {TOP "endpoints: {e: {upstream: \"https://x.org\"}}\n", 4, 16, "endpoints.e.allow", BH_E_MISSING_KEY,
         "an endpoint needs 'allow'", 0},
        {TOP "endpoints: {e: {upstream: x.org, allow: [\"GET /\"]}}\n", 4, 27, "endpoints.e.upstream", BH_E_BAD_VALUE,
         "expected a URL like https://", 0},
        {TOP "endpoints: {e: {upstream: \"http://\", allow: [\"GET /\"]}}\n", 4, 27, "endpoints.e.upstream",
         BH_E_BAD_VALUE, "expected a URL", 0},
        {TOP "endpoints: {e: {upstream: \"http://u:p@x\", allow: [\"GET /\"]}}\n", 4, 27, "endpoints.e.upstream",
         BH_E_BAD_VALUE, "expected a URL", 0},
        {TOP "endpoints: {e: {upstream: \"https://u:p@x/v1\", allow: [\"GET /\"]}}\n", 4, 27, "endpoints.e.upstream",
         BH_E_BAD_VALUE, "credentials belong in 'headers'", 0},
        {TOP "endpoints: {e: {upstream: \"https://x/?q=1\", allow: [\"GET /\"]}}\n", 4, 27, "endpoints.e.upstream",
         BH_E_BAD_VALUE, "no query and no fragment", 0},
        {TOP "endpoints: {e: {upstream: \"https://x/#a\", allow: [\"GET /\"]}}\n", 4, 27, "endpoints.e.upstream",
         BH_E_BAD_VALUE, "no query and no fragment", 0},
        {TOP "endpoints: {e: {upstream: \"http://x\", allow: []}}\n", 4, 46, "endpoints.e.allow", BH_E_BAD_VALUE,
         "allows nothing", 0},
        {TOP "endpoints: {e: {upstream: \"http://x\", allow: [/v1]}}\n", 4, 47, "endpoints.e.allow[0]", BH_E_BAD_VALUE,
         "'/v1' starts with no method", 0},
        {TOP "endpoints: {e: {upstream: \"http://x\", allow: [GET v1]}}\n", 4, 47, "endpoints.e.allow[0]",
         BH_E_BAD_VALUE, "no path that starts with '/'", 0},
        {TOP "endpoints: {e: {upstream: \"http://x\", allow: [\"GET /a b\"]}}\n", 4, 47, "endpoints.e.allow[0]",
         BH_E_BAD_VALUE, "a character in its path", 0},
        {ENDPOINT(", headers: {x-api-key: \"{{secrets.k}}\"}"), 4, 83, "endpoints.e.headers.x-api-key", BH_E_UNDEFINED,
         "there is no secret 'k'", 0},
        {ENDPOINT(", headers: {x-api-key: \"{{params.k}}\"}"), 4, 83, "endpoints.e.headers.x-api-key", BH_E_UNDEFINED,
         "only {{secrets.NAME}} is known", 0},
        {ENDPOINT(", headers: {\"a b\": c}"), 4, 72, "endpoints.e.headers[\"a b\"]", BH_E_BAD_NAME,
         "'a b' is not a name of a header", 0},
        {ENDPOINT(", headers: {a: \"b\\r\\nc: d\"}"), 4, 75, "endpoints.e.headers.a", BH_E_BAD_VALUE,
         "one line without control characters", 0},
        {ENDPOINT(", env: {U: \"{{secrets.k}}\"}"), 4, 71, "endpoints.e.env.U", BH_E_UNDEFINED, "only {{url}} is known",
         0},
        {ENDPOINT(", tainted: 1"), 4, 71, "endpoints.e.tainted", BH_E_WRONG_TYPE, "expected true or false", 0},
        {ENDPOINT(", max_parallel: 0"), 4, 76, "endpoints.e.max_parallel", BH_E_BAD_VALUE, "out of range", 0},
        {ENDPOINT(", taint: true"), 4, 62, "endpoints.e.taint", BH_E_UNKNOWN_KEY, "did you mean 'tainted'?", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_sources(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "sources: [a]\n", 4, 10, "sources", BH_E_WRONG_TYPE, "expected a map of artifact name to source", 0},
        {TOP "sources: {a: ./a}\n", 4, 14, "sources.a", BH_E_WRONG_TYPE, "expected a source as a map, found './a'", 0},
        {TOP "sources: {a.txt: {fle: b}}\n", 4, 19, "sources[\"a.txt\"].fle", BH_E_UNKNOWN_KEY, "did you mean 'file'?",
         0},
        {TOP "sources: {../a: {file: b}}\n", 4, 11, "sources[\"../a\"]", BH_E_BAD_NAME, "has '..' as a segment", 0},
        {TOP "sources: {a: {file: b, dir: c}}\n", 4, 14, "sources.a", BH_E_INVALID, "a file or a folder, not both", 0},
        {TOP "sources: {a: {file: /var/lib/dpkg/status}}\n", 4, 21, "sources.a.file", BH_E_BAD_VALUE, "is absolute", 0},
        {TOP "sources: {a: {dir: ../..}}\n", 4, 20, "sources.a.dir", BH_E_BAD_VALUE, "leads out of the folder", 0},
        {TOP "sources: {a: {file: \"{{params.f}}\"}}\n", 4, 21, "sources.a.file", BH_E_BAD_VALUE,
         "is not expanded here", 0},
        {TOP "sources: {a: {file: b, private: yes}}\n", 4, 33, "sources.a.private", BH_E_WRONG_TYPE,
         "write true or false", 0},
        {TOP "sources: {a: {git: b}}\n", 4, 15, "sources.a.git", BH_E_NOT_SUPPORTED, "'git' is reserved", 0},
        {TOP "sources: {a: {run: b}}\n", 4, 15, "sources.a.run", BH_E_NOT_SUPPORTED, "'run' is reserved", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_network(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  network: open\n", 6, 12, "agents[0].network", BH_E_BAD_VALUE,
         "expected none, public or host, found 'open'", 0},
        {AGENT "  network: [public]\n", 6, 12, "agents[0].network", BH_E_WRONG_TYPE,
         "expected none, public, host or {allow", 0},
        {AGENT "  network: {allow: []}\n", 6, 20, "agents[0].network.allow", BH_E_BAD_VALUE, "allows nothing", 0},
        {AGENT "  network: {allow: x}\n", 6, 20, "agents[0].network.allow", BH_E_WRONG_TYPE,
         "expected a list of host:port", 0},
        {AGENT "  network: {allow: ['*']}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE, "has no port", 0},
        {AGENT "  network: {allow: [x.org]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "'x.org' has no port: write host:port", 0},
        {AGENT "  network: {allow: [\"https://x.org:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "is a URL", 0},
        {AGENT "  network: {allow: [\"*:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name that can be allowed", 0},
        {AGENT "  network: {allow: [\"*.:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "whole top-level domain", 0},
        {AGENT "  network: {allow: [\"*.org:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "whole top-level domain", 0},
        {AGENT "  network: {allow: [\"x.org..:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"*.org.:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "whole top-level domain", 0},
        {AGENT "  network: {allow: [\"127.0.0.1.:443\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"x.org:0\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no port between 1 and 65535", 0},
        {AGENT "  network: {allow: [\"x.org:99999\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no port between", 0},
        {AGENT "  network: {allow: [\"0177.0.0.1:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"0x7f000001:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"2130706433:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"1.2.3.256:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"[::1:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "has no port", 0},
        {AGENT "  network: {allow: [\"[zz]:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE, "IPv6", 0},
        {AGENT "  network: {allow: [\"-x.org:80\"]}\n", 6, 21, "agents[0].network.allow[0]", BH_E_BAD_VALUE,
         "no host name", 0},
        {AGENT "  network: {allow: [\"x.org:80\"], run: none}\n", 6, 34, "agents[0].network.run", BH_E_UNKNOWN_KEY,
         "'run' does not go beside 'allow'", 0},
        {AGENT "  network: {alow: [\"x.org:80\"]}\n", 6, 12, "agents[0].network.allow", BH_E_MISSING_KEY,
         "a network needs 'allow'", 1},
        {AGENT "  network: {rum: none}\n", 6, 13, "agents[0].network.rum", BH_E_UNKNOWN_KEY, "did you mean 'run'?", 0},
        {AGENT "  network: {run: {run: none}}\n", 6, 19, "agents[0].network.run.run", BH_E_UNKNOWN_KEY,
         "the keys of a network are allow", 1},
    };
    (void)state;
    T_BAD(rows);
}

static void test_limits(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  limits: 2GiB\n", 6, 11, "agents[0].limits", BH_E_WRONG_TYPE, "expected limits as a map, found '2GiB'",
         0},
        {AGENT "  limits: {mem: 2GiB}\n", 6, 12, "agents[0].limits.mem", BH_E_UNKNOWN_KEY, "did you mean 'memory'?", 0},
        {AGENT "  limits: {memory: 2}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "memory 2 is too small: the least is 4MiB", 0},
        {AGENT "  limits: {memory: 67108864}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "add the unit: 67108864B", 0},
        {AGENT "  limits: {memory: 64M}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "did you mean 64MB or 64MiB?", 0},
        {AGENT "  limits: {memory: 64mb}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "did you mean 64MB or 64MiB?", 0},
        {AGENT "  limits: {memory: '64 MiB'}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "did you mean 64MiB?", 0},
        {AGENT "  limits: {memory: 64gib}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE, "did you mean 64GiB?",
         0},
        {AGENT "  limits: {memory: 500m}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "did you mean 500MB or 500MiB?", 0},
        {AGENT "  limits: {memory: 1.5GiB}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "instead of 1.5GiB write 1536MiB", 0},
        {AGENT "  limits: {memory: 64Mx}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE, "a size like 512KiB", 0},
        {AGENT "  limits: {memory: 99999999TiB}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "the size 99999999TiB is out of range", 0},
        {AGENT "  limits: {memory: 2G}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE, "a size like 512KiB", 0},
        {AGENT "  limits: {memory: 99999999999PiB}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "the size 99999999999PiB is out of range", 0},
        {AGENT "  limits: {cpus: two}\n", 6, 18, "agents[0].limits.cpus", BH_E_WRONG_TYPE,
         "expected a number of cpus like 2 or 0.5, found 'two'", 0},
        {AGENT "  limits: {cpus: 0}\n", 6, 18, "agents[0].limits.cpus", BH_E_BAD_VALUE,
         "0 cpus are out of range: at least 0.01", 0},
        {AGENT "  limits: {cpus: inf}\n", 6, 18, "agents[0].limits.cpus", BH_E_WRONG_TYPE, "found 'inf'", 0},
        {AGENT "  limits: {cpus: -1}\n", 6, 18, "agents[0].limits.cpus", BH_E_BAD_VALUE, "-1 cpus are out of range", 0},
        {AGENT "  limits: {cpus: 0.001}\n", 6, 18, "agents[0].limits.cpus", BH_E_BAD_VALUE,
         "cpus 0.001 is too small: the least is 0.01", 0},
        {AGENT "  limits: {pids: 0}\n", 6, 18, "agents[0].limits.pids", BH_E_BAD_VALUE,
         "0 is too small: the least is 4", 0},
        {AGENT "  limits: {pids: -1}\n", 6, 18, "agents[0].limits.pids", BH_E_BAD_VALUE,
         "-1 is too small: the least is 4", 0},
        {AGENT "  limits: {pids: 3}\n", 6, 18, "agents[0].limits.pids", BH_E_BAD_VALUE,
         "pids 3 is too small: the least is 4", 0},
        {AGENT "  limits: {pids: 99999999999999999999}\n", 6, 18, "agents[0].limits.pids", BH_E_BAD_VALUE,
         "the integer 99999999999999999999 is out of range", 0},
        {AGENT "  limits: {memory: 0B}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "memory 0B is too small: the least is 4MiB", 0},
        {AGENT "  limits: {memory: -1GiB}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE, "a size like 512KiB",
         0},
        {AGENT "  limits: {memory: 4095KiB}\n", 6, 20, "agents[0].limits.memory", BH_E_BAD_VALUE,
         "memory 4095KiB is too small: the least is 4MiB", 0},
        {AGENT "  limits: {disk: 1KiB}\n", 6, 18, "agents[0].limits.disk", BH_E_BAD_VALUE,
         "disk 1KiB is too small: the least is 64KiB", 0},
        {AGENT "  limits: {inodes: 63}\n", 6, 20, "agents[0].limits.inodes", BH_E_BAD_VALUE, "the least is 64", 0},
        {AGENT "  limits: {nofile: 2}\n", 6, 20, "agents[0].limits.nofile", BH_E_BAD_VALUE, "the least is 16", 0},
        {AGENT "  limits: {output: 1B}\n", 6, 20, "agents[0].limits.output", BH_E_BAD_VALUE,
         "output 1B is too small: the least is 1KiB", 0},
        {AGENT "  limits: {tokens: 1.5}\n", 6, 20, "agents[0].limits.tokens", BH_E_WRONG_TYPE,
         "expected an integer, found '1.5'", 0},
        {AGENT "  limits: {gpus: 1}\n", 6, 12, "agents[0].limits.gpus", BH_E_NOT_SUPPORTED, "'gpus' is reserved", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_attempts(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  attempts: 0\n", 6, 13, "agents[0].attempts", BH_E_BAD_VALUE, "out of range", 0},
        {AGENT "  attempts: 10001\n", 6, 13, "agents[0].attempts", BH_E_BAD_VALUE, "out of range", 0},
        {AGENT "  attempts: some\n", 6, 13, "agents[0].attempts", BH_E_WRONG_TYPE, "expected an integer, found 'some'",
         0},
        {AGENT "  attempts: {}\n", 6, 13, "agents[0].attempts.count", BH_E_MISSING_KEY,
         "attempts need 'count' or 'each'", 0},
        {AGENT "  attempts: {cnt: 2}\n", 6, 14, "agents[0].attempts.cnt", BH_E_UNKNOWN_KEY,
         "the keys of attempts are count, each", 1},
        {AGENT "  attempts: {count: 2, each: [{A: b}]}\n", 6, 24, "agents[0].attempts.each", BH_E_INVALID,
         "'each' beside 'count'", 0},
        {AGENT "  attempts: {each: []}\n", 6, 20, "agents[0].attempts.each", BH_E_BAD_VALUE, "no attempt at all", 0},
        {AGENT "  attempts: {each: [A]}\n", 6, 21, "agents[0].attempts.each[0]", BH_E_WRONG_TYPE,
         "expected a map of variable to text, found 'A'", 0},
        {AGENT "  attempts: {count: 2, select: worst}\n", 6, 32, "agents[0].attempts.select", BH_E_BAD_VALUE,
         "expected first-pass, best or all", 0},
        {AGENT "  attempts: {count: 2, select: best}\n", 6, 13, "agents[0].attempts.score", BH_E_MISSING_KEY,
         "'select: best' needs 'score'", 0},
        {AGENT "  attempts: {count: 2, order: min}\n", 6, 13, "agents[0].attempts.score", BH_E_MISSING_KEY,
         "'order' needs 'score'", 0},
        {AGENT "  attempts: {count: 2, score: ../s}\n", 6, 31, "agents[0].attempts.score", BH_E_BAD_VALUE,
         "has '..' in it", 0},
        {AGENT "  attempts: {count: 2, score: out/s}\n  outputs: [s]\n", 6, 31, "agents[0].attempts.score",
         BH_E_INVALID, "the score 'out/s' is a declared output", 0},
        {AGENT "  attempts: {count: 2, score: out}\n", 6, 31, "agents[0].attempts.score", BH_E_INVALID,
         "the score 'out' is the folder of the outputs", 0},
        {AGENT "  attempts: {count: 2, score: /workspace/./out/}\n  outputs: [s]\n", 6, 31, "agents[0].attempts.score",
         BH_E_INVALID, "the score 'out' is the folder of the outputs", 0},
        {AGENT "  attempts: {count: 2, score: out/d}\n  outputs: [d/s]\n", 6, 31, "agents[0].attempts.score",
         BH_E_INVALID, "the score 'out/d' is a folder of the output 'out/d/s'", 0},
        {AGENT "  attempts: {count: 2, score: m}\n  outputs: [{name: s, path: m/s}]\n", 6, 31,
         "agents[0].attempts.score", BH_E_INVALID, "the score 'm' is a folder of the output 'm/s'", 0},
        {AGENT "  attempts: {count: 2, score: out/d}\n  outputs: [{glob: 'd/*'}]\n", 6, 31, "agents[0].attempts.score",
         BH_E_INVALID, "the score 'out/d' is a folder of the output 'out/d/*'", 0},
        {AGENT "  attempts: {count: 2, select: all, stop_losers: true}\n", 6, 37, "agents[0].attempts.stop_losers",
         BH_E_INVALID, "for 'select: first-pass' alone", 0},
        {AGENT "  attempts: {count: 2, min_success: 3}\n", 6, 37, "agents[0].attempts.min_success", BH_E_INVALID,
         "3 of 2 attempts cannot succeed", 0},
        {AGENT "  check: {box: fresh}\n", 6, 10, "agents[0].check.run", BH_E_MISSING_KEY, "a check needs 'run'", 0},
        {AGENT "  check: {run: x, box: new}\n", 6, 24, "agents[0].check.box", BH_E_BAD_VALUE,
         "expected same or fresh, found 'new'", 0},
        {AGENT "  check: {run: x, network: any}\n", 6, 28, "agents[0].check.network", BH_E_BAD_VALUE,
         "expected none, public or host", 0},
        {AGENT "  prepare: {warm: true}\n", 6, 12, "agents[0].prepare.run", BH_E_MISSING_KEY,
         "a preparation needs 'run'", 0},
        {AGENT "  prepare: {run: x, warm: hot}\n", 6, 27, "agents[0].prepare.warm", BH_E_WRONG_TYPE,
         "expected true or false, found 'hot'", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_matrix(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  matrix: [a]\n", 6, 11, "agents[0].matrix", BH_E_WRONG_TYPE,
         "expected a map of axis to list of values, found a list", 0},
        {AGENT "  matrix: {}\n", 6, 11, "agents[0].matrix", BH_E_BAD_VALUE, "the matrix has no axis", 0},
        {AGENT "  matrix: {m: x}\n", 6, 15, "agents[0].matrix.m", BH_E_WRONG_TYPE,
         "expected a list of values, found 'x'", 0},
        {AGENT "  matrix: {m: []}\n", 6, 15, "agents[0].matrix.m", BH_E_BAD_VALUE, "the axis has no value", 0},
        {AGENT "  matrix: {m: [a, [b]]}\n", 6, 19, "agents[0].matrix.m[1]", BH_E_WRONG_TYPE,
         "expected a text, found a list", 0},
        {AGENT "  matrix: {m: [a, b, a]}\n", 6, 22, "agents[0].matrix.m[2]", BH_E_INVALID,
         "the value 'a' is here already", 0},
        {AGENT "  matrix: {1m: [a]}\n", 6, 12, "agents[0].matrix.1m", BH_E_BAD_NAME, "'1m' is not a name of an axis",
         0},
        {AGENT "  matrix: {m: [a], include: {m: b}}\n", 6, 29, "agents[0].matrix.include", BH_E_WRONG_TYPE,
         "expected a list of maps of axis to value, found a map", 0},
        {AGENT "  matrix: {m: [a], exclude: [{n: b}]}\n", 6, 31, "agents[0].matrix.exclude[0].n", BH_E_UNDEFINED,
         "'n' is no axis of this matrix", 0},
        {AGENT "  matrix: {m: [a], exclude: [{}]}\n", 6, 30, "agents[0].matrix.exclude[0]", BH_E_BAD_VALUE,
         "the map names no axis", 0},
        {AGENT "  matrix: {m: [a], include: [{m: [b]}]}\n", 6, 34, "agents[0].matrix.include[0].m", BH_E_WRONG_TYPE,
         "expected a text, found a list", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_predicates(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  when: suceeded\n", 6, 9, "agents[0].when", BH_E_BAD_VALUE, "did you mean 'succeeded'?", 0},
        {AGENT "  when: [failed]\n", 6, 9, "agents[0].when", BH_E_WRONG_TYPE,
         "expected succeeded, failed, always or a map, found a list", 0},
        {AGENT "  when: {}\n", 6, 9, "agents[0].when.param", BH_E_MISSING_KEY,
         "a predicate needs 'param' or 'artifact'", 1},
        {AGENT "  when: {artifact: x}\n", 6, 9, "agents[0].when.is", BH_E_MISSING_KEY,
         "a predicate needs 'is' or 'not'", 0},
        {AGENT "  when: {artifact: x, is: y, not: z}\n", 6, 30, "agents[0].when.not", BH_E_INVALID,
         "'is' or 'not', not both", 0},
        {AGENT "  when: {artifact: 'x*', is: y}\n", 6, 20, "agents[0].when.artifact", BH_E_BAD_NAME,
         "'x*' is not a name of an artifact", 0},
        {AGENT "  when: {artifact: x, at: a/b, is: y}\n", 6, 27, "agents[0].when.at", BH_E_BAD_VALUE,
         "a JSON pointer like /verdict/valid", 0},
        {AGENT "  when: {artifact: x, at: /a~2, is: y}\n", 6, 27, "agents[0].when.at", BH_E_BAD_VALUE, "a JSON pointer",
         0},
        {AGENT "  when: {artifact: x, is: []}\n", 6, 27, "agents[0].when.is", BH_E_BAD_VALUE,
         "no value to compare with", 0},
        {AGENT "  when: {artifact: x, is: {a: b}}\n", 6, 27, "agents[0].when.is", BH_E_WRONG_TYPE,
         "expected a text or a list of texts, found a map", 0},
        {AGENT "  when: {artifact: x, is: '{{params.p}}'}\n", 6, 27, "agents[0].when.is", BH_E_BAD_VALUE,
         "is not expanded here", 0},
        {AGENT "  when: {artifact: x, equals: y}\n", 6, 23, "agents[0].when.equals", BH_E_UNKNOWN_KEY,
         "the keys of a predicate are param, artifact, at, is, not", 1},
        {AGENT "  when: {param: p, at: /x, is: y}\nparams: {p: {}}\n", 6, 20, "agents[0].when.at", BH_E_INVALID,
         "'at' looks into an artifact", 0},
        {AGENT "  gate: human\n", 6, 9, "agents[0].gate", BH_E_BAD_VALUE, "expected approve, found 'human'", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_accept(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  accept: [x]\n", 6, 11, "agents[0].accept", BH_E_WRONG_TYPE,
         "expected a map of artifact to what is asked of it", 0},
        {AGENT "  accept: {x: yes}\n", 6, 15, "agents[0].accept.x", BH_E_WRONG_TYPE,
         "expected an acceptance as a map, found 'yes'", 0},
        {AGENT "  accept: {x: {}}\n", 6, 15, "agents[0].accept.x.validate", BH_E_MISSING_KEY,
         "needs 'validate', or 'approve: true'", 0},
        {AGENT "  accept: {x: {approve: false}}\n", 6, 15, "agents[0].accept.x.validate", BH_E_MISSING_KEY,
         "needs 'validate'", 0},
        {AGENT "  accept: {x: {endorse: true}}\n", 6, 15, "agents[0].accept.x.validate", BH_E_MISSING_KEY,
         "needs 'validate'", 0},
        {AGENT "  accept: {x: {validate: {kind: json}, approve: true}}\n", 6, 40, "agents[0].accept.x.approve",
         BH_E_INVALID, "'validate' or 'approve', not both", 0},
        {AGENT "  accept: {x: {validate: {max_lines: 0}}}\n", 6, 38, "agents[0].accept.x.validate.max_lines",
         BH_E_BAD_VALUE, "out of range", 0},
        {AGENT "  accept: {a b: {approve: true}}\n", 6, 12, "agents[0].accept[\"a b\"]", BH_E_BAD_NAME,
         "'a b' is not a name of an artifact", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_hands(void **state)
{
    static const struct t_bad rows[] = {
        {AGENT "  hands: {mode: session}\n", 6, 3, "agents[0].hands", BH_E_INVALID, "'hands' without 'brain'", 0},
        {HEAD "agents: [{name: a, brain: b, hands: [x]}]\n", 3, 37, "agents[0].hands", BH_E_WRONG_TYPE,
         "expected hands as a map, found a list", 0},
        {HEAD "agents: [{name: a, brain: b, hands: {mode: x}}]\n", 3, 44, "agents[0].hands.mode", BH_E_BAD_VALUE,
         "expected session or per-call", 0},
        {HEAD "agents: [{name: a, brain: b, hands: {tools: [rm]}}]\n", 3, 46, "agents[0].hands.tools[0]",
         BH_E_BAD_VALUE, "expected exec, read, write, list, search or patch", 0},
        {HEAD "agents: [{name: a, brain: b, hands: {max_calls: 0}}]\n", 3, 49, "agents[0].hands.max_calls",
         BH_E_BAD_VALUE, "out of range", 0},
        {HEAD "agents: [{name: a, brain: b, hands: {idle: 0s}}]\n", 3, 44, "agents[0].hands.idle", BH_E_BAD_VALUE,
         "is not above zero", 0},
        {HEAD "agents: [{name: a, brain: b, hands: {agents: [c]}}]\n", 3, 38, "agents[0].hands.agents",
         BH_E_NOT_SUPPORTED, "'agents' is reserved", 0},
        {HEAD "agents: [{name: a, brain: b, hands: {approve: x}}]\n", 3, 47, "agents[0].hands.approve", BH_E_WRONG_TYPE,
         "expected a list of patterns", 0},
        {HEAD "agents: [{name: a, brain: 'b {{mcp_config}}'}]\n", 3, 27, "agents[0].brain", BH_E_BAD_VALUE,
         "in a command that is a string", 0},
    };
    (void)state;
    T_BAD(rows);
}

/* What a broker could not be told is found before anything runs. */
static void test_a_long_allow_list(void **state)
{
    (void)state;
    static const struct {
        int entries;
        size_t errors;
    } rows[] = {{1000, 0}, {1800, 1}};
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        struct bh_pipeline *p = NULL;
        struct bh_errlist errors = {0};
        bh_buf_adds(&text, AGENT "  network: {allow: [");
        for (int k = 0; k < rows[i].entries; k++)
            bh_buf_addf(&text, "'host-%04d.example.org:443', ", k);
        bh_buf_adds(&text, "'x.org:1']}\n");
        (void)!bh_pipeline_load("t.yaml", text.data, text.len, &p, &errors);
        T_INT(errors.len, rows[i].errors);
        if (rows[i].errors > 0)
            assert_string_equal(bh_err_message(errors.items[0]),
                                "the list has 1801 entries of more than 48 KiB together");
        bh_errlist_fini(&errors);
        bh_pipeline_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_attempts),
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_predicates),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_hands),
        cmocka_unit_test(test_a_long_allow_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
