/* SPDX-License-Identifier: Apache-2.0 */
/* Documents that are wrong at the top level: its keys, params, boxes, stages, and names among each other. */
#include "tests/unit/topologies/load_support.h"

#define ONE "agents: [{name: a, run: b}]\n"
#define TOP HEAD ONE /* further keys from line 4 on */

static void test_keys(void **state)
{
    static const struct t_bad rows[] = {
        {"name: x\n" ONE, 1, 1, "version", BH_E_MISSING_KEY, "a pipeline needs 'version'", 0},
        {"version: 1\n" ONE, 1, 1, "name", BH_E_MISSING_KEY, "a pipeline needs 'name'", 0},
        {HEAD, 1, 1, "stages", BH_E_MISSING_KEY, "a pipeline needs 'stages' or 'agents'", 0},
        {TOP "stages: [{name: s, agents: [{name: c, run: d}]}]\n", 3, 1, "agents", BH_E_INVALID,
         "'stages' or 'agents', not both", 0},
        {HEAD "agent:\n- name: a\n", 3, 1, "agent", BH_E_UNKNOWN_KEY, "did you mean 'agents'?", 1},
        {TOP "parms: {}\n", 4, 1, "parms", BH_E_UNKNOWN_KEY, "did you mean 'params'?", 0},
        {TOP "zzz: {}\n", 4, 1, "zzz", BH_E_UNKNOWN_KEY, "the keys of a pipeline are version, name, description", 0},
        {TOP "Topology: auto\n", 4, 1, "Topology", BH_E_UNKNOWN_KEY, "did you mean 'topology'?", 0},
        {TOP "x: 1\n", 4, 1, "x", BH_E_UNKNOWN_KEY, "'x' is no key of a pipeline", 0},
        {TOP "'a b': 1\n", 4, 1, "[\"a b\"]", BH_E_UNKNOWN_KEY, "'a b' is no key", 0},
        {TOP "? \n: 1\n", 3, 28, "[\"\"]", BH_E_UNKNOWN_KEY, "'' is no key", 0},
        {TOP "services: {}\n", 4, 1, "services", BH_E_NOT_SUPPORTED, "'services' is reserved for a later version", 0},
        {TOP "use: other.yaml\n", 4, 1, "use", BH_E_NOT_SUPPORTED, "'use' is reserved", 0},
        {TOP "ask: who\n", 4, 1, "ask", BH_E_NOT_SUPPORTED, "'ask' is reserved", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_values(void **state)
{
    static const struct t_bad rows[] = {
        {"version: 2\nname: x\n" ONE, 1, 10, "version", BH_E_BAD_VALUE, "reads documents of version 1", 0},
        {"version: '1'\nname: x\n" ONE, 1, 10, "version", BH_E_WRONG_TYPE, "expected an integer, found the text '1'",
         0},
        {"version: \"1\"\nname: x\n" ONE, 1, 10, "version", BH_E_WRONG_TYPE, "take the quotes off", 0},
        {"version: 1.0\nname: x\n" ONE, 1, 10, "version", BH_E_WRONG_TYPE, "found '1.0'", 0},
        {"version:\nname: x\n" ONE, 1, 8, "version", BH_E_WRONG_TYPE, "expected an integer, found nothing", 0},
        {"version: 1\nname: Big\n" ONE, 2, 7, "name", BH_E_BAD_NAME, "'Big' is not a name", 0},
        {"version: 1\nname: ''\n" ONE, 2, 7, "name", BH_E_BAD_VALUE, "expected a name, found an empty text", 0},
        {"version: 1\nname: -x\n" ONE, 2, 7, "name", BH_E_BAD_NAME, "starts with a letter or a digit", 0},
        {"version: 1\nname: a.b\n" ONE, 2, 7, "name", BH_E_BAD_NAME, "'a.b'", 0},
        {"version: 1\nname: \xc3\xa9\n" ONE, 2, 7, "name", BH_E_BAD_NAME, "not a name", 0},
        {"version: 1\nname: [x]\n" ONE, 2, 7, "name", BH_E_WRONG_TYPE, "expected a name, found a list", 0},
        {"version: 1\nname: abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcd\n" ONE, 2, 7, "name",
         BH_E_BAD_NAME, "at most 63 long", 0},
        {TOP "description: [a]\n", 4, 14, "description", BH_E_WRONG_TYPE,
         "expected a description as a text, found a list", 0},
        {TOP "description: for {{params.x}}\n", 4, 14, "description", BH_E_BAD_VALUE,
         "'{{params.x}}' is not expanded here", 0},
        {TOP "topology: per-attempt\n", 4, 11, "topology", BH_E_BAD_VALUE, "expected auto, shared-box or per-agent", 0},
        {TOP "topology: shared_box\n", 4, 11, "topology", BH_E_BAD_VALUE, "did you mean 'shared-box'?", 0},
        {TOP "base: ubuntu\n", 4, 7, "base", BH_E_BAD_VALUE, "expected host, dir:PATH, oci:PATH or oci-archive:FILE",
         0},
        {TOP "base: docker://alpine\n", 4, 7, "base", BH_E_BAD_VALUE, "bulkhead fetches no images: 'skopeo copy", 0},
        {TOP "base: '{{params.x}}'\n", 4, 7, "base", BH_E_BAD_VALUE, "say the kind in the document", 0},
        {TOP "base: 'dir:'\n", 4, 7, "base", BH_E_BAD_VALUE, "found the text 'dir:'", 0},
        {TOP "base: dir:{{matrix.x}}\n", 4, 7, "base", BH_E_UNDEFINED, "outside of agents only {{params.NAME}}", 0},
        {TOP "max_parallel: 0\n", 4, 15, "max_parallel", BH_E_BAD_VALUE, "0 is out of range: it goes from 1", 0},
        {TOP "max_parallel: many\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "expected an integer, found 'many'", 0},
        {TOP "max_failures: -1\n", 4, 15, "max_failures", BH_E_BAD_VALUE, "-1 is out of range", 0},
        {TOP "max_failures: 101%\n", 4, 15, "max_failures", BH_E_BAD_VALUE, "a share between 0% and 100%", 0},
        {TOP "max_failures: '%'\n", 4, 15, "max_failures", BH_E_BAD_VALUE, "a share between 0% and 100%", 0},
        {TOP "max_failures: 1.5%\n", 4, 15, "max_failures", BH_E_BAD_VALUE, "found '1.5%'", 0},
        {TOP "deadline: soon\n", 4, 11, "deadline", BH_E_BAD_VALUE, "a duration like 30s, 10m or 1h30m, found 'soon'",
         0},
        {TOP "deadline: 90\n", 4, 11, "deadline", BH_E_BAD_VALUE, "add the unit: 90s", 0},
        {TOP "deadline: 0s\n", 4, 11, "deadline", BH_E_BAD_VALUE, "is not above zero", 0},
        {TOP "deadline: 999999999999d\n", 4, 11, "deadline", BH_E_BAD_VALUE, "expected a duration", 0},
        {TOP "finally: []\n", 4, 10, "finally", BH_E_BAD_VALUE, "the list has no agent", 0},
        {TOP "finally: [{name: z}]\n", 4, 11, "finally[0].run", BH_E_MISSING_KEY, "needs 'run' or 'brain'", 0},
    };
    (void)state;
    T_BAD(rows);
}

/* What other tools make of these is not what stands there. */
static void test_scalars(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "max_parallel: 1e3\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "decimal digits alone", 0},
        {TOP "max_parallel: 0o17\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '0o17'", 0},
        {TOP "max_parallel: 017\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '017'", 0},
        {TOP "max_parallel: 08\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '08'", 0},
        {TOP "max_parallel: 0x1f\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '0x1f'", 0},
        {TOP "max_parallel: 1_000\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '1_000'", 0},
        {TOP "max_parallel: +5\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '+5'", 0},
        {TOP "max_parallel: 12:30\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '12:30'", 0},
        {TOP "max_parallel: 2.0\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found '2.0'", 0},
        {TOP "max_parallel: yes\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found 'yes'", 0},
        {TOP "max_parallel: null\n", 4, 15, "max_parallel", BH_E_WRONG_TYPE, "found 'null'", 0},
        {TOP "max_parallel: 99999999999999999999\n", 4, 15, "max_parallel", BH_E_BAD_VALUE,
         "the integer 99999999999999999999 is out of range", 0},
        {TOP "max_parallel: -99999999999999999999\n", 4, 15, "max_parallel", BH_E_BAD_VALUE, "is out of range", 0},
        {TOP "max_parallel: 1000000001\n", 4, 15, "max_parallel", BH_E_BAD_VALUE, "it goes from 1 to 1000000000", 0},
        {TOP "deadline: 12:30\n", 4, 11, "deadline", BH_E_BAD_VALUE, "found '12:30'", 0},
        {TOP "deadline: 1h 30m\n", 4, 11, "deadline", BH_E_BAD_VALUE, "found '1h 30m'", 0},
        {TOP "deadline: 30m1h\n", 4, 11, "deadline", BH_E_BAD_VALUE, "found '30m1h'", 0},
        {TOP "deadline: -5s\n", 4, 11, "deadline", BH_E_BAD_VALUE, "found '-5s'", 0},
        {TOP "deadline: 5.5h\n", 4, 11, "deadline", BH_E_BAD_VALUE, "found '5.5h'", 0},
        {AGENT "  untrusted: no\n", 6, 14, "agents[0].untrusted", BH_E_WRONG_TYPE, "expected true or false, found 'no'",
         0},
        {AGENT "  untrusted: yes\n", 6, 14, "agents[0].untrusted", BH_E_WRONG_TYPE, "write true or false", 0},
        {AGENT "  untrusted: True\n", 6, 14, "agents[0].untrusted", BH_E_WRONG_TYPE, "write true or false", 0},
        {AGENT "  untrusted: 1\n", 6, 14, "agents[0].untrusted", BH_E_WRONG_TYPE, "write true or false", 0},
        {AGENT "  untrusted: 'true'\n", 6, 14, "agents[0].untrusted", BH_E_WRONG_TYPE, "take the quotes off", 0},
        {AGENT "  untrusted:\n", 6, 12, "agents[0].untrusted", BH_E_WRONG_TYPE, "found nothing", 0},
    };
    (void)state;
    T_BAD(rows);
}

#define PARAM HEAD ONE "params:\n" /* params from line 5 on */

static void test_params(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "params: [a]\n", 4, 9, "params", BH_E_WRONG_TYPE, "expected a map of name to param, found a list", 0},
        {PARAM "  n: string\n", 5, 6, "params.n", BH_E_WRONG_TYPE, "expected a param as a map, found 'string'", 0},
        {PARAM "  n:\n", 5, 4, "params.n", BH_E_WRONG_TYPE, "expected a param as a map, found nothing", 0},
        {PARAM "  1n: {}\n", 5, 3, "params.1n", BH_E_BAD_NAME, "'1n' is not a name of a param", 0},
        {PARAM "  a.b: {}\n", 5, 3, "params[\"a.b\"]", BH_E_BAD_NAME, "'a.b' is not a name of a param", 0},
        {PARAM "  n: {typ: int}\n", 5, 7, "params.n.typ", BH_E_UNKNOWN_KEY, "did you mean 'type'?", 0},
        {PARAM "  n: {type: integer}\n", 5, 13, "params.n.type", BH_E_BAD_VALUE,
         "expected string, int, number or bool, found 'integer'", 0},
        {PARAM "  n: {type: int, default: 1e3}\n", 5, 27, "params.n.default", BH_E_WRONG_TYPE,
         "expected an integer, found '1e3'", 0},
        {PARAM "  n: {type: int, default: '5'}\n", 5, 27, "params.n.default", BH_E_WRONG_TYPE, "take the quotes off",
         0},
        {PARAM "  n: {type: bool, default: no}\n", 5, 28, "params.n.default", BH_E_WRONG_TYPE,
         "expected true or false, found 'no'", 0},
        {PARAM "  n: {type: number, default: nan}\n", 5, 30, "params.n.default", BH_E_WRONG_TYPE,
         "expected a number, found 'nan'", 0},
        {PARAM "  n: {default: [a]}\n", 5, 16, "params.n.default", BH_E_WRONG_TYPE, "expected a text, found a list", 0},
        {PARAM "  n: {default: '{{params.m}}'}\n", 5, 16, "params.n.default", BH_E_BAD_VALUE, "is not expanded here",
         0},
        {PARAM "  n: {type: int, min: 5, default: 4}\n", 5, 35, "params.n.default", BH_E_BAD_VALUE,
         "is at least 5, not 4", 0},
        {PARAM "  n: {type: int, max: 5, default: 6}\n", 5, 35, "params.n.default", BH_E_BAD_VALUE,
         "is at most 5, not 6", 0},
        {PARAM "  n: {type: int, min: 6, max: 5}\n", 5, 31, "params.n.max", BH_E_INVALID,
         "max is 5, below min, which is 6", 0},
        {PARAM "  n: {min: 6}\n", 5, 7, "params.n.min", BH_E_INVALID, "for params of type int and number, not string",
         0},
        {PARAM "  n: {type: bool, max: 6}\n", 5, 19, "params.n.max", BH_E_INVALID, "not bool", 0},
        {PARAM "  n: {type: int, min: low}\n", 5, 23, "params.n.min", BH_E_WRONG_TYPE,
         "expected an integer, found 'low'", 0},
        {PARAM "  n: {enum: a}\n", 5, 13, "params.n.enum", BH_E_WRONG_TYPE, "expected a list of values, found 'a'", 0},
        {PARAM "  n: {enum: []}\n", 5, 13, "params.n.enum", BH_E_BAD_VALUE, "allows no value at all", 0},
        {PARAM "  n: {enum: [a, b], default: c}\n", 5, 30, "params.n.default", BH_E_BAD_VALUE, "it is not in its enum",
         0},
        {PARAM "  n: {type: int, enum: [1, x]}\n", 5, 28, "params.n.enum[1]", BH_E_WRONG_TYPE,
         "expected an integer, found 'x'", 0},
        {PARAM "  n: {pattern: '[a-z', default: a}\n", 5, 16, "params.n.pattern", BH_E_BAD_VALUE,
         "is no POSIX extended expression", 0},
        {PARAM "  n: {pattern: '[a-z]+', default: a1}\n", 5, 35, "params.n.default", BH_E_BAD_VALUE,
         "its pattern is [a-z]+", 0},
        {PARAM "  n: {pattern: '(a)\\1', default: aa}\n", 5, 16, "params.n.pattern", BH_E_BAD_VALUE,
         "refers back to a group", 0},
        {PARAM "  n: {pattern: '((a{1,255}){1,255}){1,255}'}\n", 5, 16, "params.n.pattern", BH_E_BAD_VALUE,
         "repeats more than 1000 times", 0},
        {PARAM "  n: {type: int, pattern: a}\n", 5, 18, "params.n.pattern", BH_E_INVALID,
         "'pattern' is for params of type string, not int", 0},
        {PARAM "  n: {description: {}}\n", 5, 20, "params.n.description", BH_E_WRONG_TYPE,
         "expected a description as a text, found a map", 0},
        {PARAM "  a-b: {}\n  a_b: {}\n", 6, 3, "params.a_b", BH_E_BAD_NAME,
         "'a_b' and 'a-b' are both the variable BULKHEAD_PARAM_A_B", 0},
        {PARAM "  topic: {}\n  Topic: {}\n", 6, 3, "params.Topic", BH_E_BAD_NAME, "BULKHEAD_PARAM_TOPIC", 0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_boxes(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "boxes: [lab]\n", 4, 8, "boxes", BH_E_WRONG_TYPE, "expected a map of name to box, found a list", 0},
        {TOP "boxes: {Lab: {}}\n", 4, 9, "boxes.Lab", BH_E_BAD_NAME, "'Lab' is not a name", 0},
        {TOP "boxes: {lab: }\n", 4, 12, "boxes.lab", BH_E_WRONG_TYPE, "expected a box as a map, found nothing", 0},
        {TOP "boxes: {lab: {netwrk: none}}\n", 4, 15, "boxes.lab.netwrk", BH_E_UNKNOWN_KEY, "did you mean 'network'?",
         0},
        {TOP "boxes: {lab: {env: {A: b}}}\n", 4, 15, "boxes.lab.env", BH_E_UNKNOWN_KEY,
         "the keys of a box are base, network, user, limits, setup, files", 0},
        {TOP "boxes: {lab: {services: []}}\n", 4, 15, "boxes.lab.services", BH_E_NOT_SUPPORTED, "reserved", 0},
        {TOP "boxes: {lab: {user: nobody}}\n", 4, 21, "boxes.lab.user", BH_E_BAD_VALUE,
         "expected agent or root, found 'nobody'", 0},
        {TOP "boxes: {lab: {setup: [\"{{item}}\"]}}\n", 4, 23, "boxes.lab.setup[0]", BH_E_UNDEFINED,
         "outside of agents", 0},
        {TOP "boxes: {lab: {files: {a: /b}}}\n", 4, 26, "boxes.lab.files.a", BH_E_BAD_VALUE, "is absolute", 0},
    };
    (void)state;
    T_BAD(rows);
}

#define STAGE HEAD "stages:\n- name: s\n  agents: [{name: a, run: b}]\n" /* further keys at 6:3 */

static void test_stages(void **state)
{
    static const struct t_bad rows[] = {
        {HEAD "stages: {}\n", 3, 9, "stages", BH_E_WRONG_TYPE, "expected a list of stages, found a map", 0},
        {HEAD "stages: []\n", 3, 9, "stages", BH_E_BAD_VALUE, "the list has no stage", 0},
        {HEAD "agents: []\n", 3, 9, "agents", BH_E_BAD_VALUE, "the list has no agent", 0},
        {HEAD "agents: {a: {run: b}}\n", 3, 9, "agents", BH_E_WRONG_TYPE, "expected a list of agents, found a map", 0},
        {HEAD "stages: [a]\n", 3, 10, "stages[0]", BH_E_WRONG_TYPE, "expected a stage as a map, found 'a'", 0},
        {HEAD "stages: [{name: s}]\n", 3, 10, "stages[0].agents", BH_E_MISSING_KEY, "a stage needs 'agents'", 0},
        {HEAD "stages: [{agents: [{name: a, run: b}]}]\n", 3, 10, "stages[0].name", BH_E_MISSING_KEY,
         "a stage needs 'name'", 0},
        {HEAD "stages: [{name: s, agents: []}]\n", 3, 28, "stages[0].agents", BH_E_BAD_VALUE, "the list has no agent",
         0},
        {HEAD "stages: [{name: s, agents: [a]}]\n", 3, 29, "stages[0].agents[0]", BH_E_WRONG_TYPE,
         "expected an agent as a map, found 'a'", 0},
        {STAGE "  foreach: {artifact: x, max: 2}\n", 6, 3, "stages[0].foreach", BH_E_UNKNOWN_KEY,
         "did you mean 'for_each'?", 0},
        {STAGE "  x-note: y\n", 6, 3, "stages[0].x-note", BH_E_UNKNOWN_KEY, "stand at the top level", 0},
        {STAGE "  use: y\n", 6, 3, "stages[0].use", BH_E_NOT_SUPPORTED, "reserved", 0},
        {STAGE "  for_each: x\n", 6, 13, "stages[0].for_each", BH_E_WRONG_TYPE,
         "expected 'for_each' as a map, found 'x'", 0},
        {STAGE "  for_each: {artifact: x}\n", 6, 13, "stages[0].for_each.max", BH_E_MISSING_KEY,
         "'for_each' needs 'max'", 0},
        {STAGE "  for_each: {artifact: a*, max: 2}\n", 6, 24, "stages[0].for_each.artifact", BH_E_BAD_NAME,
         "'a*' is not a name of an artifact", 0},
        {STAGE "  for_each: {artifact: a, max: 0}\n", 6, 32, "stages[0].for_each.max", BH_E_BAD_VALUE, "out of range",
         0},
        {STAGE "  repeat: {max: 3}\n", 6, 11, "stages[0].repeat.until", BH_E_MISSING_KEY, "'repeat' needs 'until'", 0},
        {STAGE "  repeat: {until: always}\n", 6, 11, "stages[0].repeat.max", BH_E_MISSING_KEY, "'repeat' needs 'max'",
         0},
        {STAGE "  repeat: {max: 3, until: always, else: stop}\n", 6, 41, "stages[0].repeat.else", BH_E_BAD_VALUE,
         "expected fail or keep, found 'stop'", 0},
        {STAGE "  repeat: {max: 3, until: {param: p, is: x}}\n", 6, 35, "stages[0].repeat.until.param", BH_E_UNDEFINED,
         "there is no param 'p'", 0},
        {STAGE "  gate: ask\n", 6, 9, "stages[0].gate", BH_E_BAD_VALUE, "expected approve, found 'ask'", 0},
        {STAGE "  when: sometimes\n", 6, 9, "stages[0].when", BH_E_BAD_VALUE,
         "expected succeeded, failed or always, found 'sometimes'", 0},
        {STAGE "- name: s\n  agents: [{name: c, run: d}]\n", 6, 9, "stages[1].name", BH_E_BAD_NAME,
         "there are two stages 's': the first at line 4, column 9", 0},
        {STAGE "- name: t\n  agents: [{name: a, run: d}]\n", 7, 19, "stages[1].agents[0].name", BH_E_BAD_NAME,
         "there are two agents 'a': the first at line 5, column 19", 0},
        {STAGE "finally: [{name: a, run: d}]\n", 6, 18, "finally[0].name", BH_E_BAD_NAME, "there are two agents 'a'",
         0},
    };
    (void)state;
    T_BAD(rows);
}

static void test_defaults(void **state)
{
    static const struct t_bad rows[] = {
        {TOP "defaults: []\n", 4, 11, "defaults", BH_E_WRONG_TYPE,
         "expected the defaults of agents as a map, found a list", 0},
        {TOP "defaults: {run: b}\n", 4, 12, "defaults.run", BH_E_UNKNOWN_KEY,
         "'run' is no key of the defaults of agents", 0},
        {TOP "defaults: {name: b}\n", 4, 12, "defaults.name", BH_E_UNKNOWN_KEY, "'name' is no key", 0},
        {TOP "defaults: {brain: b}\n", 4, 12, "defaults.brain", BH_E_UNKNOWN_KEY, "'brain' is no key", 0},
        {TOP "defaults: {outputs: [b]}\n", 4, 12, "defaults.outputs", BH_E_UNKNOWN_KEY, "'outputs' is no key", 0},
        {TOP "defaults: {timeot: 5m}\n", 4, 12, "defaults.timeot", BH_E_UNKNOWN_KEY, "did you mean 'timeout'?", 0},
        {TOP "defaults: {ask: x}\n", 4, 12, "defaults.ask", BH_E_NOT_SUPPORTED, "reserved", 0},
        {TOP "defaults: {timeout: 5}\n", 4, 21, "defaults.timeout", BH_E_BAD_VALUE, "add the unit", 0},
        {TOP "defaults: {needs: [zed]}\n", 4, 20, "defaults.needs[0]", BH_E_UNDEFINED, "there is no agent 'zed'", 0},
        {TOP "defaults: {endpoints: [zed]}\n", 4, 24, "defaults.endpoints[0]", BH_E_UNDEFINED,
         "this document declares no endpoint", 0},
        {HEAD "defaults: {env: {A: '{{foo}}'}}\nagents: [{name: a, run: b}, {name: c, run: d}]\n", 3, 21,
         "defaults.env.A", BH_E_UNDEFINED, "'{{foo}}' stands for nothing here", 0},
        {HEAD "defaults: {attempts: {count: 2}}\nagents: [{name: a, run: b, attempts: {each: [{A: b}]}}]\n", 4, 39,
         "agents[0].attempts.each", BH_E_INVALID, "'each' beside 'count'", 0},
    };
    (void)state;
    T_BAD(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),     cmocka_unit_test(test_values), cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_params),   cmocka_unit_test(test_boxes),  cmocka_unit_test(test_stages),
        cmocka_unit_test(test_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
