// SPDX-License-Identifier: Apache-2.0
// A ledger for programs. d3-format 1 writes negative numbers with the hyphen that every program reads as a minus.
const fs = require('fs');
const { format } = require('d3-format');
const money = format('.2f');
const rows = fs.readFileSync('bookings.csv', 'utf8').trim().split('\n').map((line) => line.split(','));
fs.writeFileSync('out/ledger.csv', rows.map(([month, amount]) => `${month},${money(+amount)}\n`).join(''));
console.log(`ledger with d3-format ${require('d3-format/package.json').version}`);
