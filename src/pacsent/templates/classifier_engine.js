"use strict";
// The classifier in a worker: `predict_log_proba`, `AnswerRule`, `explain`, `TextCheck`, `verify`.
let model = null, check = null;
const countsOf = (items) => items.reduce((counts, item) => counts.set(item, (counts.get(item) || 0) + 1), new Map());
const sum = (values) => values.reduce((total, x) => total + x, 0);
const argmax = (row) => row.reduce((best, x, c) => (x > row[best] ? c : best), 0);

// ---- 64-bit hashes: HI and LO are the halves of the last result ---------------------------------
let HI = 0, LO = 0;
function multiply(ah, al, bh, bl) {
  const a0 = al & 0xffff, a1 = al >>> 16, b0 = bl & 0xffff, b1 = bl >>> 16;
  const low = a0 * b0, middle = a1 * b0 + (low >>> 16), second = a0 * b1 + (middle & 0xffff);
  LO = (second << 16) | (low & 0xffff);
  HI = (a1 * b1 + (middle >>> 16) + (second >>> 16) + Math.imul(ah, bl) + Math.imul(al, bh)) | 0;
}

function mix(h, l) {
  multiply(h, l ^ (h >>> 1), 0xff51afd7, 0xed558ccd);
  multiply(HI, LO ^ (HI >>> 1), 0xc4ceb9fe, 0x1a85ec53);
  LO = LO ^ (HI >>> 1) | 1;
}

function addByte(byte) { // FNV: times the prime 2^40 + 0x1b3
  LO ^= byte;
  const product = (LO >>> 0) * 0x1b3;
  HI = (Math.imul(HI, 0x1b3) + Math.floor(product / 4294967296) + (LO << 8)) | 0;
  LO = product | 0;
}

function hashCharacters(text, start, end) { // of their bytes in UTF-8
  HI = 0xcbf29ce4 | 0, LO = 0x84222325 | 0;
  for (let i = start, n; i < end; i += n === 4 ? 2 : 1) {
    const code = text.codePointAt(i);
    n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (n === 1) addByte(code >= 65 && code <= 90 ? code | 32 : code);
    else addByte((0xf00 >> n & 0xff) | code >> 6 * (n - 1));
    for (let shift = 6 * (n - 2); shift >= 0; shift -= 6) addByte(0x80 | (code >> shift & 0x3f));
  }
  mix(HI, LO);
}

class HashTable {
  constructor(high, low) { // halves of the hashes
    this.high = high, this.low = low;
    this.slots = new Int32Array(2 ** Math.ceil(Math.log2(2 * low.length + 1024))); // index + 1, or 0
    for (let i = 0; i < low.length; i++) this.slots[this.slotOf(high[i], low[i])] = i + 1;
  }
  slotOf(h, l) { // of a hash, or the free one where it would be
    const { slots, high, low } = this, mask = slots.length - 1;
    let slot = (l >>> 1) & mask;
    for (let i; (i = slots[slot] - 1) >= 0 && !(low[i] === l >>> 0 && high[i] === h >>> 0);) slot = (slot + 1) & mask;
    return slot;
  }
  find(h, l) { return this.slots[this.slotOf(h, l)] - 1; }
}

// ---- tokens and n-grams -------------------------------------------------------------------------
const EDGE_HI = 0xa0761d64 | 0, EDGE_LO = 0x78bd642f | 0; // before the first token, after words
const SYMBOLS = "\\xa2-\\xa5\\u20a0-\\u20cf\\u2190-\\u2bff\\u{1f000}-\\u{1faff}";
// Scripts without spaces between words: every character is a token, as are symbols.
const SPACELESS = "\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff\\u3000-\\u313f\\u3400-\\u9fff";
const WHOLE = `${SYMBOLS}${SPACELESS}\\u10a0-\\u10bf`;
const LETTER = "[0-9A-Za-z_\\x80-\\u{10ffff}]", OTHER_LETTER = `(?![${WHOLE}])${LETTER}`;
const RUN = new RegExp(`${LETTER}(?:${LETTER}|'(?=${LETTER}))*`, "gu");
const TOKEN = new RegExp(`[!?,.:;()"\\-${WHOLE}]|${OTHER_LETTER}(?:${OTHER_LETTER}|'(?=${LETTER}))*`, "gu");
const NO_WORD = /^[!?,.:;()"\-\xa2-\xa5\u2000-\u2fff\u{1f000}-\u{1ffff}]/u;
const FOREIGN_MARKS = new RegExp(`([\\p{L}\\p{N}_]?)([^\\x00-\\x7f\\p{L}\\p{N}${SYMBOLS}]+)`, "gu");
const CONTINUES = /^[\p{M}\u200c\u200d\u0e33\u0eb3]*/u;
// What explanations are about: a run without spaces, or a symbol with all that is joined to it.
const CHUNK = new RegExp(`[${WHOLE}](?:[\\p{M}\\u{1f3fb}-\\u{1f3ff}]|\\u200d[${WHOLE}]?)*|(?:(?![${WHOLE}])\\S)+`, "gu");
const MONITORED_WORD = new RegExp(`(?=[\\p{L}\\p{N}_])[${SPACELESS}]|(?:(?![${SPACELESS}])[\\p{L}\\p{N}_])+`, "gu");
const isAscii = (text) => /^[\x00-\x7f]*$/.test(text);

// Lower-cased beyond ASCII, with spaces for marks beyond ASCII; accents and joiners stay.
function lowered(text) {
  if (isAscii(text)) return text;
  return text.replaceAll("’", "'").toLowerCase().replace(FOREIGN_MARKS, (_, word, marks) => {
    const kept = word && marks.match(CONTINUES)[0];
    return word + kept + " ".repeat(Array.from(marks.slice(kept.length)).length);
  });
}

// Hashes and places of the tokens of a `lowered` text; token 0 is an edge.
const tokens = { n: 0, hi: [], lo: [], start: [], end: [] };

function addToken(start, end, hi = HI, lo = LO) {
  const n = tokens.n++;
  tokens.hi[n] = hi, tokens.lo[n] = lo, tokens.start[n] = start, tokens.end[n] = end;
}

function tokenise(text, ofCharacters) {
  if (tokens.hi.length < 2 * text.length + 2) {
    for (const name of ["hi", "lo", "start", "end"]) tokens[name] = new Int32Array(3 * text.length + 64);
  }
  tokens.n = 0;
  addToken(0, 0, EDGE_HI, EDGE_LO);
  for (const match of text.matchAll(ofCharacters ? RUN : TOKEN)) {
    const stop = match.index + match[0].length;
    for (let i = match.index, end; i < stop; i = end) {
      end = ofCharacters ? i + (text.codePointAt(i) > 0xffff ? 2 : 1) : stop;
      hashCharacters(text, i, end);
      addToken(i, end);
    }
    if (ofCharacters) addToken(stop, stop, EDGE_HI, EDGE_LO);
  }
  if (tokens.n === 1) tokens.n = 0;
}

// Calls use(hi, lo, first token, number of tokens) for every n-gram of the last text.
function eachGram(low, high, use) {
  const { hi, lo, n } = tokens;
  for (let i = 0; i < n; i++) {
    let h = hi[i], l = lo[i];
    if (low <= 1 && !(h === EDGE_HI && l === EDGE_LO)) use(h, l, i, 1);
    for (let size = 2; size <= Math.min(high, n - i); size++) {
      const nextHi = hi[i + size - 1], nextLo = lo[i + size - 1];
      multiply(h, l, 0x9e3779b9, 0x7f4a7c15);
      const total = (LO >>> 0) + (nextLo >>> 0);
      mix((HI + nextHi + (total > 0xffffffff ? 1 : 0)) | 0, total | 0);
      h = HI, l = LO;
      if (size >= low) use(h, l, i, size);
      if (nextHi === EDGE_HI && nextLo === EDGE_LO) break;
    }
  }
}

class NGrams {
  constructor(part, ofCharacters) {
    const { high, low } = part; // of the differences between sorted hashes
    for (let i = 1; i < low.length; i++) low[i] += low[i - 1], high[i] += high[i - 1] + (low[i] < low[i - 1]);
    part.weights.forEach((x, i, weights) => { weights[i] = x >>> 1 ^ -(x & 1); }); // the sign was the last bit
    Object.assign(this, part, { ofCharacters, table: new HashTable(high, low) }); // sizes, rows of n-grams, idf and weights of rows, step
  }
  // Adds tf-idf times the weights to `scores`.
  addScores(text, scores) {
    const { idf, rows, weights, step } = this, k = scores.length, sums = new Float64Array(k), columns = [];
    tokenise(text, this.ofCharacters);
    eachGram(...this.sizes, (h, l) => {
      const column = this.table.find(h, l);
      if (column >= 0) columns.push(column);
    });
    const counts = countsOf(columns);
    let squares = 0;
    for (const [column, uses] of counts) {
      const row = rows[column], value = idf[row] * (1 + Math.log(uses));
      squares += value * value;
      for (let c = 0, at = row * k; c < k; c++, at++) sums[c] += value * weights[at];
    }
    if (squares > 0) sums.forEach((x, c) => { scores[c] += x * step / Math.sqrt(squares); });
    return { counts, length: Math.sqrt(squares) };
  }
}

// ---- sentence vectors ---------------------------------------------------------------------------
const DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

class WordVectors {
  constructor(part) {
    // words, subwords, unit, dims, and a table: codes, head, scales, levels, bits, centre, spread
    Object.assign(this, part, { words: part.words.split("\n"), sums: new Float64Array(part.dims) });
    this.index = new Map(this.words.map((word, i) => [word, i]));
  }
  // Rows of the words of a text, those of subwords for OOV words.
  ids(text) {
    const ids = [];
    for (const token of text.match(/[a-zA-Z]+|[0-9]/g) || []) {
      const word = token < ":" ? DIGITS[token] : token.toLowerCase(), id = this.index.get(word);
      if (id !== undefined) ids.push(id);
      else if (this.subwords && word.length <= 64 && token > ":") ids.push(...this.split(word));
    }
    return ids;
  }
  split(word) {
    const ids = [];
    for (let start = 0, end, id; start < word.length; start = end, id = undefined) {
      for (end = word.length; end > start && id === undefined; end--) id = this.index.get((start ? "##" : "") + word.slice(start, end));
      if (id === undefined) return [];
      ids.push(id);
      end++;
    }
    return ids;
  }
  sum(ids) {
    const { sums, dims, codes, head, scales, levels, bits, centre, spread } = this;
    sums.fill(0);
    const nHead = head.length / scales.length, width = codes.length / scales.length, mask = 2 ** bits - 1;
    for (const [id, uses] of countsOf(ids)) {
      const scale = uses * scales[id];
      let d = nHead;
      for (let h = 0; h < nHead; h++) sums[h] += uses * head[id * nHead + h];
      for (let b = id * width; b < (id + 1) * width; b++) {
        for (let code = codes[b], bit = 0; bit < 8 && d < dims; bit += bits, d++) sums[d] += scale * levels[(code >> bit) & mask];
      }
    }
    for (let d = 0; d < dims; d++) sums[d] = sums[d] * spread[d] + ids.length * centre[d];
    return sums;
  }
}

// The vector of a text; calls use(part, ids, factor of the sum, first dimension) for every part.
function vectorOf(text, use) {
  const vector = new Float64Array(model.mean.length);
  let place = 0;
  for (const part of model.encoders) {
    const ids = part.ids(text), sums = part.sum(ids);
    const length = part.unit ? Math.hypot(...sums) : ids.length;
    const scale = length > 0 ? model.factor / length : 0;
    for (let d = 0; d < part.dims; d++) vector[place + d] = sums[d] * scale;
    if (use) use(part, ids, scale, place);
    place += part.dims;
  }
  return vector;
}

// ---- the linear model ---------------------------------------------------------------------------
// Logarithms of the probabilities of the fitted classes, averaged over inverse temperatures.
function logProbabilities(values) {
  const rows = model.inverseTemperature.map((scale) => {
    const z = Array.from(values.length === 1 ? [0, values[0]] : values, (value) => value * scale);
    const largest = Math.max(...z), total = Math.log(sum(z.map((x) => Math.exp(x - largest))));
    return z.map((x) => x - largest - total);
  });
  return rows[0].map((_, c) => {
    const largest = Math.max(...rows.map((row) => row[c]));
    return largest + Math.log(sum(rows.map((row) => Math.exp(row[c] - largest))) / rows.length);
  });
}

// The part of the words of the text that `tokenise` read that are unknown.
function unknownShare(text) {
  const { n, hi, lo, start } = tokens, words = [];
  for (let i = 1; i < n; i++) if (!NO_WORD.test(text.slice(start[i], start[i] + 2))) words.push(i);
  const isUnknown = (table) => (i) => table.find(hi[i], lo[i]) < 0;
  return words.filter(isUnknown(model.ngrams.table)).filter(isUnknown(model.known)).length / Math.max(words.length, 1);
}

// Decision values, and the share of the n-grams of characters in them.
function decide(text) {
  const { ngrams, characters, intercept, interceptCharacters, share, coefDense } = model;
  const read = lowered(text), k = intercept.length, values = new Float64Array(k), others = new Float64Array(k);
  ngrams.addScores(read, values);
  const more = Math.min(Math.max((unknownShare(read) - share.usual) / share.ramp, 0), 1);
  const vector = vectorOf(text);
  for (let d = 0, at = 0; d < vector.length; d++) for (let c = 0; c < k; c++, at++) values[c] += vector[d] * coefDense[at];
  let part = share.least + (1 - share.least) * more;
  if (part > 0) {
    characters.addScores(read, others);
    if (!others.some((x) => x !== 0)) part = share.least;
  }
  for (let c = 0; c < k; c++) {
    values[c] += intercept[c];
    values[c] += part * (others[c] + interceptCharacters[c] - values[c]);
  }
  return { values, part, read };
}

const hasNoFeatures = (fitted) => fitted.every((x, c) => Math.abs(x - model.alone[c]) <= 1e-12 + 1e-12 * Math.abs(model.alone[c]));

// The answer to one text: { logProba, best, probability, inside, abstained }.
function answer(text) {
  const { rule, classes } = model, fitted = logProbabilities(decide(text).values);
  const logProba = new Array(classes.length).fill(model.minLogProba); // of classes that were not fitted
  model.fitted.forEach((position, c) => { logProba[position] = fitted[c]; });
  const best = argmax(logProba), probability = Math.exp(logProba[best]);
  const inside = rule && rule.setThresholds && logProba.map((x, c) => x >= rule.setThresholds[c]);
  const abstained = rule && !((hasNoFeatures(fitted) ? -1 : probability) >= rule.threshold);
  return { logProba, best, probability, inside, abstained };
}

// ---- explanations -------------------------------------------------------------------------------
// What the n-grams of a text add to the decision of a column, each shared by its tokens.
function sharedValues(ngrams, text, column) {
  const k = model.intercept.length, { counts, length } = ngrams.addScores(text, new Float64Array(k));
  const out = new Float64Array(tokens.n);
  eachGram(...ngrams.sizes, (h, l, first, size) => {
    const at = ngrams.table.find(h, l), real = [];
    if (at < 0) return;
    for (let t = first; t < first + size; t++) if (tokens.end[t] > tokens.start[t]) real.push(t);
    const uses = counts.get(at), row = ngrams.rows[at], weight = ngrams.step * ngrams.weights[row * k + column];
    const value = ngrams.idf[row] * (1 + Math.log(uses)) / uses / length * weight;
    for (const t of real) out[t] += value / real.length;
  });
  return out;
}

// The decision for a class as a sum over the chunks of the text, [{ start, end, value }, ...].
function explain(text, label, nShown) {
  const { values, part, read } = decide(text), at = Math.max(model.fitted.indexOf(label), 0), k = model.intercept.length;
  const column = k === 1 ? 0 : at, sign = k === 1 && at === 0 ? -1 : 1, chunkOf = []; // of each place of `read`
  const chunks = Array.from(text.matchAll(CHUNK), (match) => ({ start: match.index, end: match.index + match[0].length, value: 0 }));
  for (let i = 0, c = 0, size; i < text.length; i += size) {
    size = text.codePointAt(i) > 0xffff ? 2 : 1;
    while (c + 1 < chunks.length && chunks[c].end <= i) c++;
    for (let n = text.slice(i, i + size).toLowerCase().length; n > 0; n--) chunkOf.push(chunks[c]);
  }
  const share = (ngrams, weight) => sharedValues(ngrams, read, column).forEach((x, t) => {
    if (x) chunkOf[tokens.start[t]].value += sign * weight * x;
  });
  share(model.ngrams, 1 - part);
  if (part > 0) share(model.characters, part);
  vectorOf(text, (encoder, _, scale, place) => {
    const valueOf = (word) => encoder.sum(encoder.ids(word)).reduce((total, x, d) => total + x * model.coefDense[(place + d) * k + column], 0);
    const known = new Map(); // a long text has many words more than once
    for (const chunk of chunks) {
      const word = text.slice(chunk.start, chunk.end);
      if (!known.has(word)) known.set(word, sign * (1 - part) * scale * valueOf(word));
      chunk.value += known.get(word);
    }
  });
  const decision = sign * values[column], rest = decision - sum(chunks.map((chunk) => chunk.value));
  return { chunks: chunks.slice(0, nShown), isComplete: chunks.length <= nShown, decision, rest };
}

// ---- exact statements from counts ---------------------------------------------------------------
// The probability of at most k errors among n, each of probability p.
function binomialCdf(k, n, p) {
  let term = n * Math.log1p(-p), total = 0;
  for (let i = 0; i <= Math.min(k, n); i++) {
    total += Math.exp(term);
    term += Math.log((n - i) / (i + 1) * p / (1 - p));
  }
  return total;
}

// Clopper-Pearson: with probability 1 - delta the error rate is at most this.
function upperLimit(nErrors, n, delta) {
  let low = nErrors / n, high = 1;
  for (let step = 0; step < 200 && nErrors < n; step++) {
    const middle = (low + high) / 2, isLow = binomialCdf(nErrors, n, middle) > delta * (1 - 1e-9);
    [low, high] = isLow ? [middle, high] : [low, middle];
  }
  return high;
}

// Recomputes everything that is guaranteed from its parts: [{ text, verdict }, ...]. Where texts repeat, there
// are two samples of the calibration texts, and what holds is what each of them permits.
function verify() {
  const { certificate, calibration, rule } = model, checks = [], k = model.classes.length;
  const check = (text, isRight) => checks.push({ text, verdict: isRight ? "right" : "wrong" });
  const isSame = (a, b) => Math.abs(a - b) <= 1e-8 * Math.max(Math.abs(b), 1e-12);
  const isOther = (name) => name !== certificate.sample;
  const samples = Object.entries(calibration.rows).map(([name, rows]) => {
    const { n, n_errors: nErrors } = isOther(name) ? certificate.other : certificate;
    const logProba = Array.from(rows, (i) => calibration.logProba.subarray(i * k, (i + 1) * k));
    const labels = Array.from(rows, (i) => calibration.labels[i]);
    const wrong = logProba.map((row, i) => argmax(row) !== labels[i]);
    const unit = { "": "texts", traffic: "rows", copies: "distinct texts" }[name];
    return { unit, n, nErrors, logProba, labels, wrong };
  });
  if (Object.keys(certificate.losses).length) checks.push({ text: "The bound for groups is not recomputed here. Use `pacsent verify`.", verdict: "quiet" });
  else {
    for (const { unit, n, nErrors, labels, wrong } of samples) {
      const nWrong = sum(wrong.map(Number));
      check(`${nWrong} of the ${labels.length} calibration ${unit} are wrong. The certificate states ${nErrors} of ${n}.`, nWrong === nErrors && n === labels.length);
    }
    const delta = Object.values(certificate.corrections).reduce((d, alternatives) => d / alternatives, certificate.delta);
    const bound = Math.max(...samples.map(({ nErrors, n }) => upperLimit(nErrors, n, delta))), stated = certificate.error_upper;
    check(`Clopper-Pearson: the error rate is at most ${bound.toFixed(6)}. The certificate states ${stated.toFixed(6)}.`, isSame(bound, stated));
  }
  if (rule.setThresholds) {
    const thresholds = samples.map(({ logProba, labels }) => {
      const scores = logProba.map((row, i) => -row[labels[i]]).sort((a, b) => a - b), n = scores.length;
      let rank = n + 1;
      while (binomialCdf(n + 1 - rank, n, rule.setError) <= rule.setDelta) rank--;
      return { threshold: -scores[rank - 1], text: `of rank ${rank} among ${n}` };
    });
    const lowest = thresholds.reduce((a, b) => (b.threshold < a.threshold ? b : a));
    check(`Prediction sets: the threshold is the score ${lowest.text}.`, isSame(lowest.threshold, rule.setThresholds[0]));
  }
  if (rule.threshold <= 1) {
    for (const { unit, logProba, wrong } of samples) {
      const confidences = logProba.map((row) => (hasNoFeatures(model.fitted.map((c) => row[c])) ? -1 : Math.exp(Math.max(...row))));
      const nAnswered = confidences.filter((x) => x >= rule.threshold).length;
      const nMissed = confidences.filter((x, i) => x >= rule.threshold && wrong[i]).length;
      const [fewer, p] = [nMissed - 1, nMissed].map((k) => binomialCdf(k, nAnswered, rule.error));
      const isPassed = (1 - rule.uniform) * fewer + rule.uniform * p <= rule.delta && p <= 2 * rule.delta;
      check(`Answers: ${nMissed} of ${nAnswered} calibration ${unit} above the threshold are wrong, p = ${p.toPrecision(3)} for an error rate of ${rule.error}.`, isPassed);
    }
  }
  return checks;
}

// ---- drift --------------------------------------------------------------------------------------
const N_COMPARED = 2000, ALPHA = 0.01; // texts, drawn at random; the chance of a false alarm
const MONITORS = ["length in words", "OOV rate", "distance of vectors"];
const INVISIBLE = /[\u00ad\u200b\u200c\u200d\u2060\ufeff]/g;
const tailBet = (end) => (p) => (p < end ? 0.1 : (1 - 0.1 * end) / (1 - end));
const BETS = [-0.9, -0.45, 0, 0.45, 0.9].map((slope) => (p) => 1 + slope * (2 * p - 1));
BETS.push(...[0.25, 0.1].flatMap((end) => [tailBet(end), (p) => tailBet(end)(1 - p)]));

function monitorsOf(text) {
  const words = text.toLowerCase().match(MONITORED_WORD) || [];
  let nUnknown = 0;
  for (const [word, uses] of countsOf(words)) {
    tokenise(lowered(word), false);
    if (tokens.n !== 2 || model.ngrams.table.find(tokens.hi[1], tokens.lo[1]) < 0) nUnknown += uses;
  }
  return [words.length, nUnknown / Math.max(1, words.length), Math.hypot(...vectorOf(text).map((x, d) => x - model.mean[d]))];
}

// Near-duplicates of fitted and of earlier texts, by the 64 smallest hashes of words and pairs.
class KnownTexts {
  constructor(sketches) {
    this.n = this.nFitted = sketches.length / 64, this.postings = new Map(), this.counts = countsOf(sketches);
    this.cosines = new Float64Array(this.n + N_COMPARED);
    for (let row = 0; row < this.n; row++) this.add(sketches.subarray(64 * row, 64 * row + 64).filter(Boolean), row);
  }
  weights(ids) {
    const idf = Array.from(ids, (id) => Math.log((1 + this.nFitted) / (1 + (this.counts.get(id) || 0))) + 1);
    const length = Math.sqrt(sum(idf.map((x) => x * x)));
    return idf.map((x) => x / length);
  }
  add(ids, row) {
    this.weights(ids).forEach((weight, i) => {
      if (!this.postings.has(ids[i])) this.postings.set(ids[i], []);
      this.postings.get(ids[i]).push(row, weight);
    });
  }
  isNear(text) {
    const hashes = new Map(), { cosines } = this;
    tokenise(lowered(isAscii(text) ? text : text.replace(INVISIBLE, "").normalize("NFKC")), false);
    eachGram(1, 2, (h, l) => hashes.set((h >>> 0) * 4294967296 + (l >>> 0), h >>> 0));
    const ids = [...hashes].sort((a, b) => a[0] - b[0]).slice(0, 64).map((pair) => pair[1]);
    cosines.fill(0);
    this.weights(ids).forEach((weight, i) => {
      const rows = this.postings.get(ids[i]) || [];
      for (let at = 0; at < rows.length; at += 2) cosines[rows[at]] += rows[at + 1] * weight;
    });
    this.add(ids, this.n++);
    return cosines.some((cosine) => cosine >= 0.5 - 1e-6);
  }
}

class TextCheck { // compares texts with the calibration set, in a random order
  constructor() { this.sample = [], this.nDrawn = 0; }
  random() {
    mix(model.seed, ++this.nDrawn);
    return (HI >>> 0) / 4294967296;
  }
  add(text, logProba) {
    if (text.trim()) this.sample.push({ key: this.random(), text, logProba });
    if (this.sample.length >= 2 * N_COMPARED) this.cut();
  }
  cut() { this.sample = this.sample.sort((a, b) => a.key - b.key).slice(0, N_COMPARED); }
  result() {
    this.cut();
    const { calibration, classes, shiftSizes } = model, k = classes.length, texts = new KnownTexts(model.sketches);
    const watched = [0, 1, 2].filter((m) => calibration.monitors.some((x, i) => i % 3 === m && x >= 0));
    const names = ["confidence", ...classes.map((name) => `probability of class '${name}'`), ...watched.map((m) => MONITORS[m])];
    const quantities = (logProba, monitors) => [Math.exp(Math.max(...logProba)), ...Array.from(logProba, Math.exp), ...watched.map((m) => monitors[m])];
    const distinct = calibration.rows.copies || Object.values(calibration.rows)[0];
    const known = Array.from(distinct, (i) => quantities(calibration.logProba.subarray(i * k, (i + 1) * k), calibration.monitors.subarray(3 * i, 3 * i + 3)));
    const before = names.map((_, q) => Float64Array.from({ length: known.length + N_COMPARED }, (_, i) => (known[i] ? known[i][q] : NaN)));
    const capitals = names.map(() => BETS.map(() => 1 / BETS.length)), changes = new Set();
    let n = 0;
    for (const { text, logProba } of this.sample) {
      if (texts.isNear(text)) continue;
      n++;
      quantities(logProba, monitorsOf(text)).forEach((value, q) => {
        let smaller = 0, equal = 0;
        for (let i = 0; i < known.length + n; i++) smaller += before[q][i] < value, equal += before[q][i] === value;
        const p = (smaller + this.random() * (equal + 1)) / (known.length + n), mean = sum(capitals[q]) / BETS.length;
        before[q][known.length + n - 1] = value;
        capitals[q] = capitals[q].map((capital, b) => (0.995 * capital + 0.005 * mean) * BETS[b](p));
        if (sum(capitals[q]) / names.length >= 1 / ALPHA) changes.add(names[q]);
      });
    }
    if (changes.size) return { differs: true, message: `These texts differ from the calibration texts in ${[...changes].slice(0, 5).join(", ")}${changes.size > 5 ? ` and ${changes.size - 5} more` : ""}: no guarantee.` };
    const shift = shiftSizes.findIndex((needed) => needed <= n);
    if (shift < 0) return { differs: null, message: `Not checked: ${n} ${n === 1 ? "text is" : "texts are"} too few to compare with the calibration set.` };
    return { differs: false, message: `Compared with the calibration set: ${n} texts without near-duplicates, no drift detected (shifts of ${10 * shift + 10} percentiles or more would probably be detected).` };
  }
}

// ---- messages from the page ---------------------------------------------------------------------
// Two characters out of 91, "#" to "~" but "<", are 13 bits; the first four bytes are the number of the others.
function bytesOf(text) {
  const bytes = new Uint8Array(Math.floor(13 / 16 * text.length)), digit = (i) => text.charCodeAt(i) - (text.charCodeAt(i) > 60 ? 36 : 35);
  for (let i = 0, at = 0, bits = 0, n = 0; i < text.length; i += 2) {
    bits = (bits & 127) << 13 | 91 * digit(i) + digit(i + 1);
    for (n += 13; n >= 8; n -= 8) bytes[at++] = bits >> n - 8;
  }
  return bytes.subarray(4, 4 + new DataView(bytes.buffer).getUint32(0));
}

async function open(text) {
  if (!self.DecompressionStream) throw new Error("This browser is too old for the file. Use one of 2023 or later.");
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer(), [size] = new Uint32Array(buffer, 0, 1);
  model = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)), (_, value) => {
    if (!value || value.array === undefined) return value;
    const Type = self[value.array], numbers = new Type(value.length), bytes = new Uint8Array(numbers.buffer);
    const stored = new Uint8Array(buffer, 8 + size + value.offset), width = Type.BYTES_PER_ELEMENT; // first bytes, second ones, ...
    for (let b = 0, at = 0; b < width; b++) for (let i = b; i < bytes.length; i += width) bytes[i] = stored[at++];
    return numbers;
  });
  model.ngrams = new NGrams(model.ngrams, false);
  model.characters = new NGrams(model.characters, true);
  model.encoders = model.encoders.map((part) => new WordVectors(part));
  model.alone = logProbabilities(model.intercept.map((x, c) => x + model.share.least * (model.interceptCharacters[c] - x)));
  const high = [], low = [];
  for (const word of model.encoders.flatMap((part) => part.words).filter((name) => !name.startsWith("##"))) {
    tokenise(lowered(word), false);
    if (tokens.n === 2) high.push(tokens.hi[1]), low.push(tokens.lo[1]);
  }
  model.known = new HashTable(Uint32Array.from(high), Uint32Array.from(low));
}

// A text without a token, as in pacsent.text.ngrams.is_empty: it has no class.
const TOKEN = /[\p{L}\p{N}_!?,.\-:;()"\u00a2-\u00a5\u20a0-\u20cf\u2190-\u2bff\u{1f000}-\u{1faff}]/u;

const ACTIONS = {
  open: ({ data }) => open(data).then(() => ({ classes: model.classes, rule: model.rule, certificate: model.certificate })),
  start: () => { check = model.rule && new TextCheck(); },
  classify: ({ texts }) => texts.map((text) => {
    if (!TOKEN.test(text)) return null;
    const { logProba, best, probability, inside, abstained } = answer(text);
    if (check) check.add(text, logProba);
    return [best, probability, abstained, inside && inside.flatMap((is, c) => (is ? [c] : []))];
  }),
  finish: () => check && check.result(),
  verify, explain: ({ text, label, nShown }) => explain(text, label, nShown),
};

self.onmessage = ({ data, ports: [port] }) => Promise.resolve(data).then(ACTIONS[data.action]).then(
  (result) => port.postMessage({ result }),
  (error) => port.postMessage({ error: error.message }),
);
