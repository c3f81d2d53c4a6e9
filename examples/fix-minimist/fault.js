// The fault of minimist 1.2.5 (CVE-2021-44906): a path of keys that leads through a constructor reaches what all objects
// of the process share.
var parse = require('minimist');
var test = require('tape');

function probe () {}

test('through an array to all functions', function (t) {
    parse(['--_.concat.constructor.prototype.polluted', '1']);
    t.equal(probe.polluted, undefined);
    parse(['--x', 'a', '--x', 'b', '--x.concat.constructor.prototype.spoiled', '1']);
    t.equal(probe.spoiled, undefined);
    t.end();
});

test('nothing that others have is changed', function (t) {
    t.notOk(Object.isFrozen(Function.prototype));
    t.end();
});
