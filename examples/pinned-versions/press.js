// SPDX-License-Identifier: Apache-2.0
// A report for people. d3-format 2 writes negative numbers with a true minus sign, U+2212, which is why press wants it.
const fs = require('fs');
const { format } = require('d3-format');
const money = format(',.2f');
const rows = fs.readFileSync('bookings.csv', 'utf8').trim().split('\n').map((line) => line.split(','));
const lines = rows.map(([month, amount]) => `| ${month} | ${money(+amount)} |`);
fs.writeFileSync('out/report.md', ['| month | result |', '|---|--:|', ...lines, ''].join('\n'));
console.log(`report with d3-format ${require('d3-format/package.json').version}`);
