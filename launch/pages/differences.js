// SPDX-License-Identifier: Apache-2.0
"use strict";
// The words of a text with what is between them; of one that is written without spaces, its characters.
const wordsOf = text => {
  const words = text.match(/\s+|[^\s]+/gu) ?? [];
  const characters = Array.from(text);
  const unspaced = characters.filter(c => /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u.test(c));
  return 2 * unspaced.length > characters.length ? characters : words;
};

// What of `from` is gone in `to`, what is new, and what is the same: [kind, text] in the order of reading, by a
// longest common subsequence of words. Texts of very many words are compared as wholes.
function differences(from, to) {
  const [a, b] = [wordsOf(from), wordsOf(to)];
  if (a.length * b.length > 1e6) return from === to ? [["same", to]] : [["gone", from], ["new", to]];
  const common = Array.from({length: a.length + 1}, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; --i) for (let j = b.length - 1; j >= 0; --j)
    common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
  const parts = [];
  const add = (kind, text) => {
    if (parts.length && parts[parts.length - 1][0] === kind) parts[parts.length - 1][1] += text;
    else parts.push([kind, text]);
  };
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { add("same", b[j]); ++i; ++j; }
    else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) add("gone", a[i++]);
    else add("new", b[j++]);
  }
  return parts;
}

// The text, with what it changes in `from`.
function addChanged(parent, from, text) {
  for (const [kind, part] of differences(from, text)) make(kind === "gone" ? "del" : kind === "new" ? "ins" : "span", parent, visible(part));
  if (!text) parent.append("\u2013");
}
