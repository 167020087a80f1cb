"use strict";
// The classifier in a worker: `predict_log_proba`, `AnswerRule`, `explain`, `DriftCheck`, `verify`.
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

// Indexes of the tokens that are words, of the text that `tokenise` read.
function wordTokens(text) {
  const words = [];
  for (let i = 1; i < tokens.n; i++) if (!NO_WORD.test(text.slice(tokens.start[i], tokens.start[i] + 2))) words.push(i);
  return words;
}

// The part of the words of this text that neither a training text nor a table of words holds.
function unknownShare(text, table) {
  const words = wordTokens(text), isUnknown = (known) => (i) => known.find(tokens.hi[i], tokens.lo[i]) < 0;
  return words.filter(isUnknown(model.ngrams.table)).filter(isUnknown(table)).length / Math.max(words.length, 1);
}

// Whether enough words of a text are known to answer it, as `TextClassifier.are_covered`.
function isCovered(text) {
  if (!model.listsWords) return true;
  const read = lowered(text);
  tokenise(read, false);
  const coverage = 1 - unknownShare(read, model.common);
  if (model.encoders.length) return coverage >= model.minCoverage;
  if (coverage > 0) return true;
  const scores = new Float64Array(model.intercept.length);
  model.characters.addScores(read, scores);
  return scores.some((x) => x !== 0);
}

// Decision values, and the share of the n-grams of characters in them.
function decide(text) {
  const { ngrams, characters, intercept, interceptCharacters, share, coefDense } = model;
  const read = lowered(text), k = intercept.length, values = new Float64Array(k), others = new Float64Array(k);
  ngrams.addScores(read, values);
  const more = Math.min(Math.max((unknownShare(read, model.known) - share.usual) / share.ramp, 0), 1);
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

// More than weights that are rounded move the logarithm of a probability: a text whose score is the
// threshold keeps its class, as in Python.
const ROUNDING = 1e-5;

// The answer to one text: { logProba, best, probability, inside, abstained, covered }.
function answer(text) {
  const { rule, classes } = model, fitted = logProbabilities(decide(text).values);
  const logProba = new Array(classes.length).fill(model.minLogProba); // of classes that were not fitted
  model.fitted.forEach((position, c) => { logProba[position] = fitted[c]; });
  const best = argmax(logProba), probability = Math.exp(logProba[best]);
  const covered = isCovered(text), means = covered && !hasNoFeatures(fitted);
  const inside = rule && rule.setThresholds && logProba.map((x, c) => !covered || x >= rule.setThresholds[c] - ROUNDING);
  const abstained = rule && !((means ? probability : -1) >= rule.threshold);
  return { logProba, best, probability, inside, abstained, covered };
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
    const wrong = logProba.map((row, i) => argmax(row) !== labels[i]), covered = Array.from(rows, (i) => calibration.covered[i]);
    const unit = { "": "texts", traffic: "rows", copies: "distinct texts" }[name];
    return { unit, n, nErrors, logProba, labels, wrong, covered };
  });
  if (Object.keys(certificate.losses).length) checks.push({ text: "The bound for groups is not recomputed here. Use `pacsent verify`.", verdict: "quiet" });
  else {
    for (const { unit, n, nErrors, labels, wrong } of samples) {
      const nWrong = sum(wrong.map(Number));
      check(`${grouped(nWrong)} of the ${grouped(labels.length)} calibration ${unit} are wrong. The certificate states ${grouped(nErrors)} of ${grouped(n)}.`, nWrong === nErrors && n === labels.length);
    }
    const delta = Object.values(certificate.corrections).reduce((d, alternatives) => d / alternatives, certificate.delta);
    const bound = Math.max(...samples.map(({ nErrors, n }) => upperLimit(nErrors, n, delta))), stated = certificate.error_upper;
    check(`Clopper-Pearson: the error rate is at most ${bound.toFixed(6)}. The certificate states ${stated.toFixed(6)}.`, isSame(bound, stated));
  }
  if (rule.setThresholds) {
    const thresholds = samples.map(({ logProba, labels, covered }) => {
      const scores = logProba.map((row, i) => (covered[i] ? -row[labels[i]] : -Infinity)).sort((a, b) => a - b), n = scores.length;
      let rank = n + 1;
      while (binomialCdf(n + 1 - rank, n, rule.setError) <= rule.setDelta) rank--;
      return { threshold: -scores[rank - 1], text: `of rank ${grouped(rank)} among ${grouped(n)}` };
    });
    const lowest = thresholds.reduce((a, b) => (b.threshold < a.threshold ? b : a));
    check(`Prediction sets: the threshold is the score ${lowest.text}.`, isSame(lowest.threshold, rule.setThresholds[0]));
  }
  if (rule.threshold <= 1) {
    for (const { unit, logProba, wrong, covered } of samples) {
      const isNever = (row, i) => !covered[i] || hasNoFeatures(model.fitted.map((c) => row[c]));
      const confidences = logProba.map((row, i) => (isNever(row, i) ? -1 : Math.exp(Math.max(...row))));
      const nAnswered = confidences.filter((x) => x >= rule.threshold).length;
      const nMissed = confidences.filter((x, i) => x >= rule.threshold && wrong[i]).length;
      const [fewer, p] = [nMissed - 1, nMissed].map((k) => binomialCdf(k, nAnswered, rule.error));
      const isPassed = (1 - rule.uniform) * fewer + rule.uniform * p <= rule.delta && p <= 2 * rule.delta;
      check(`Answers: ${grouped(nMissed)} of ${grouped(nAnswered)} calibration ${unit} above the threshold are wrong, p = ${p.toPrecision(3)} for an error rate of ${rule.error}.`, isPassed);
    }
  }
  return checks;
}

// ---- rows that are left out ---------------------------------------------------------------------
const NEW = 0, EMPTY = 1, FITTED = 2, REPEATED = 3, SKETCH = 64, NEAR = 0.5;
const INVISIBLE = /[\u00ad\u200b\u200c\u200d\u2060\ufeff]/g;
const visible = (text) => (isAscii(text) ? text : text.replace(INVISIBLE, "").normalize("NFKC"));
const hashAt = (i) => (tokens.hi[i] >>> 0) * 4294967296 + (tokens.lo[i] >>> 0);

// Near-duplicates of training texts, by the 64 smallest hashes of their words and pairs of words.
class TrainingTexts {
  constructor(sketches) {
    this.n = sketches.length / SKETCH, this.postings = new Map(), this.counts = countsOf(sketches);
    this.cosines = new Float64Array(this.n);
    for (let row = 0; row < this.n; row++) {
      const ids = sketches.subarray(SKETCH * row, SKETCH * (row + 1)).filter(Boolean);
      this.weights(ids).forEach((weight, i) => {
        if (!this.postings.has(ids[i])) this.postings.set(ids[i], []);
        this.postings.get(ids[i]).push(row, weight);
      });
    }
  }
  weights(ids) {
    const idf = Array.from(ids, (id) => Math.log((1 + this.n) / (1 + (this.counts.get(id) || 0))) + 1);
    const length = Math.sqrt(sum(idf.map((x) => x * x)));
    return idf.map((x) => x / length);
  }
  isNear(text) {
    const hashes = new Map(), { cosines } = this;
    tokenise(lowered(visible(text)), false);
    eachGram(1, 2, (h, l) => hashes.set((h >>> 0) * 4294967296 + (l >>> 0), h >>> 0));
    const ids = [...hashes].sort((a, b) => a[0] - b[0]).slice(0, SKETCH).map((pair) => pair[1]);
    cosines.fill(0);
    this.weights(ids).forEach((weight, i) => {
      const rows = this.postings.get(ids[i]) || [];
      for (let at = 0; at < rows.length; at += 2) cosines[rows[at]] += rows[at + 1] * weight;
    });
    return cosines.some((cosine) => cosine >= NEAR - 1e-6);
  }
}

// Insertions, deletions and replacements of words between a and b; limit + 1 if more.
function editDistance(a, b, limit) {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j - 1] + (a[i - 1] !== b[j - 1]), row[j] + 1, next[j - 1] + 1);
    if (Math.min(...next) > limit) return limit + 1;
    row = next;
  }
  return Math.min(row[b.length], limit + 1);
}

// The index of the text that each text repeats; its own if it repeats none: `near_duplicate_clusters`
// in Python.
function repeatedTexts(texts) {
  const firstOf = new Map(), firstText = [], distinct = []; // distinct: { at, words }
  texts.forEach((text, at) => {
    const read = lowered(visible(text)), all = [];
    tokenise(read, false);
    for (let i = 1; i < tokens.n; i++) all.push(hashAt(i));
    const key = all.join();
    if (!firstOf.has(key)) {
      firstOf.set(key, distinct.length);
      distinct.push({ at, words: wordTokens(read).map((i) => all[i - 1]) });
    }
    firstText.push(firstOf.get(key));
  });
  // Words are numbered by rarity; the second use in a text is another word, to count common ones.
  const uses = countsOf(distinct.flatMap(({ words }) => words));
  const order = [...uses.keys()].sort((a, b) => uses.get(a) - uses.get(b) || a - b);
  const rank = new Map(order.map((word, i) => [word, i])), listed = new Map(), representative = [];
  distinct.forEach((text, i) => {
    text.ranks = text.words.map((word) => rank.get(word));
    const a = text.ranks, n = a.length, nRare = Math.min(n, Math.floor(n / 4) + 1 + Math.floor(n / 6)), common = new Map();
    const sorted = [...a].sort((x, y) => x - y), rare = [];
    for (let k = 0, use = 0; k < nRare; k++) {
      use = k > 0 && sorted[k] === sorted[k - 1] ? use + 1 : 0;
      rare.push(sorted[k] + use * order.length);
    }
    for (const word of rare) for (const other of listed.get(word) || []) common.set(other, (common.get(other) || 0) + 1);
    let best = n, joinsDirectly = true;
    representative[i] = i;
    for (const [other, nCommon] of common) {
      const b = distinct[other].ranks;
      if (nCommon <= Math.floor(Math.min(n, b.length) / 6)) continue;
      const isFirst = representative[other] === other;
      let limit = Math.floor(Math.max(n, b.length) / 4);
      if (!isFirst) limit = representative[i] === i ? Math.min(limit, 1) : -1;
      else if (joinsDirectly) limit = Math.min(limit, best - 1);
      const distance = editDistance(a, b, limit);
      if (distance > limit) continue;
      best = distance, joinsDirectly = isFirst, representative[i] = representative[other];
    }
    if (!joinsDirectly) return;
    for (const word of rare) {
      if (!listed.has(word)) listed.set(word, []);
      listed.get(word).push(i);
    }
  });
  return firstText.map((i) => distinct[representative[i]].at);
}

// Of each text, in the order of the file, whether it is new or why it is left out.
function rowStatus(texts) {
  const training = new TrainingTexts(model.sketches);
  const status = texts.map((text) => (isEmpty(text) ? EMPTY : training.isNear(text) ? FITTED : NEW));
  const rows = status.flatMap((of, row) => (of === NEW ? [row] : []));
  repeatedTexts(rows.map((row) => texts[row])).forEach((first, i) => { if (first !== i) status[rows[i]] = REPEATED; });
  return status;
}

// A text without a token, as `is_empty` in Python: it has no class.
const HAS_TOKEN = /[\p{L}\p{N}_!?,.\-:;()"\u00a2-\u00a5\u20a0-\u20cf\u2190-\u2bff\u{1f000}-\u{1faff}]/u;
const isEmpty = (text) => !HAS_TOKEN.test(text);

const grouped = (n) => n.toLocaleString("en");
const countOf = (n, noun, plural = `${noun}s`) => `${n.toLocaleString("en")} ${n === 1 ? noun : plural}`;

// The sentence about rows that are no distinct texts; "" where there are none.
function describeCounts(status) {
  const n = status.length, of = (kind) => status.filter((x) => x === kind).length, parts = [];
  const add = (k, one, many) => { if (k) parts.push(`${grouped(k)} ${k === 1 ? one : many}`); };
  add(of(FITTED), "that nearly equals a training text", "that nearly equal a training text");
  add(of(REPEATED), "that nearly equals an earlier row", "that nearly equal an earlier row");
  add(of(EMPTY), "without text", "without text");
  return parts.length ? ` Of ${countOf(n, "row")}, not counted as distinct texts: ${parts.join(", ")}.` : "";
}

// ---- drift --------------------------------------------------------------------------------------
const N_COMPARED = 3000, N_KEPT = 20000, ALPHA = 0.01; // rows, drawn at random; the chance of a false alarm
const MONITORS = ["length in words", "OOV rate", "distance of vectors", "copies of training texts"], COPIES = 3;
const tailBet = (end) => (p) => (p < end ? 0.1 : (1 - 0.1 * end) / (1 - end));
const BETS = [-0.9, -0.45, 0, 0.45, 0.9].map((slope) => (p) => 1 + slope * (2 * p - 1));
BETS.push(...[0.25, 0.1].flatMap((end) => [tailBet(end), (p) => tailBet(end)(1 - p)]));

function monitorsOf(text, isFitted) {
  const words = text.toLowerCase().match(MONITORED_WORD) || [];
  let nUnknown = 0;
  for (const [word, uses] of countsOf(words)) {
    tokenise(lowered(word), false);
    if (tokens.n !== 2 || model.ngrams.table.find(tokens.hi[1], tokens.lo[1]) < 0) nUnknown += uses;
  }
  const distance = Math.hypot(...vectorOf(text).map((x, d) => x - model.mean[d]));
  return [words.length, nUnknown / Math.max(1, words.length), distance, Number(isFitted)];
}

// Test martingales of several quantities against one sample of calibration rows.
class ConformalTest {
  constructor(columns, names, known) {
    this.columns = columns, this.names = columns.map((c) => names[c]), this.n = 0;
    this.sorted = columns.map((c) => known.map((row) => row[c]).sort((a, b) => a - b));
    this.before = this.sorted.map((values) => sum(values) / values.length);
    this.spread = this.sorted.map((values, q) => Math.sqrt(sum(values.map((x) => (x - this.before[q]) ** 2)) / values.length));
    this.sums = columns.map(() => 0), this.changed = columns.map(() => false);
    this.capitals = columns.map(() => BETS.map(() => 1 / BETS.length));
  }
  get alarm() { return this.changed.includes(true); }
  add(values, ties) {
    this.n++;
    this.columns.forEach((c, q) => {
      const scores = this.sorted[q], value = values[c], smaller = bisect(scores, (x) => x < value), stop = bisect(scores, (x) => x <= value);
      const p = (smaller + ties[c] * (stop - smaller + 1)) / (scores.length + 1), mean = sum(this.capitals[q]) / BETS.length;
      scores.splice(stop, 0, value);
      this.sums[q] += value;
      this.capitals[q] = this.capitals[q].map((capital, b) => (0.995 * capital + 0.005 * mean) * BETS[b](p));
      if (sum(this.capitals[q]) >= this.columns.length / ALPHA) this.changed[q] = true;
    });
  }
  // The two quantities that moved most, in standard deviations, and the number of the others.
  describe() {
    const after = this.sums.map((total) => total / Math.max(this.n, 1)), move = (q) => Math.abs(after[q] - this.before[q]) / Math.max(this.spread[q], 1e-12);
    const order = this.names.map((_, q) => q).filter((q) => this.changed[q]).sort((a, b) => move(b) - move(a));
    const shown = order.slice(0, 2).map((q) => `${this.names[q]} (mean ${short(this.before[q])}, now ${short(after[q])})`);
    if (order.length > 2) shown.push(countOf(order.length - 2, "other quantity", "other quantities"));
    return shown.length < 3 ? shown.join(" and ") : `${shown[0]}, ${shown[1]} and ${shown[2]}`;
  }
}

const short = (x) => String(Number(x.toPrecision(3)));

// The number of values, sorted, before the first for which isBefore is false.
function bisect(values, isBefore) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(values[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}

const IF_TRAFFIC = "The distinct texts differ from the calibration texts, the rows do not: guarantees hold only if repeats are traffic, that is, if rows are drawn one by one as they come.";
const IF_COPIES = "The rows differ from the calibration rows, the distinct texts do not: guarantees hold only if repeats are copies that were made by collecting.";

class DriftCheck { // compares rows with the calibration set, in a random order
  constructor() { this.sample = [], this.nRows = 0, this.nDrawn = 0, this.ties = model.seed; }
  random() {
    mix(this.ties, ++this.nDrawn);
    return (HI >>> 0) / 4294967296;
  }
  add(text, logProba) {
    mix(model.seed, ++this.nRows);
    this.sample.push({ key: (HI >>> 0) / 4294967296, row: this.nRows, text, logProba });
    if (this.sample.length >= 2 * N_KEPT) this.cut();
  }
  cut() { this.sample = this.sample.sort((a, b) => a.key - b.key || a.row - b.row).slice(0, N_KEPT); }
  result() {
    this.cut();
    const { calibration, classes } = model, inFile = [...this.sample].sort((a, b) => a.row - b.row);
    const status = rowStatus(inFile.map(({ text }) => text)), note = describeCounts(status);
    inFile.forEach((item, i) => { item.status = status[i]; });
    // Ties depend on the texts, so that users with as many texts do not share them.
    for (const { text } of this.sample) hashCharacters(text, 0, text.length), this.ties = (this.ties ^ HI) | 0;
    const names = ["confidence", ...classes.map((name) => `probability of class '${name}'`), ...MONITORS], first = classes.length + 1;
    const quantities = (logProba, monitors) => [Math.exp(Math.max(...logProba)), ...Array.from(logProba, Math.exp), ...monitors];
    const { logProba, monitors, rows: samples, rowsHaveCopies } = calibration, k = classes.length;
    const read = (at) => Array.from(at, (i) => quantities(logProba.subarray(i * k, (i + 1) * k), monitors.subarray(4 * i, 4 * i + 4)));
    const isNew = (row) => row[first + COPIES] <= 0, only = Object.values(samples)[0];
    let ofRows = read(samples.traffic || only);
    const ofTexts = read(samples.copies || only).filter(isNew);
    if (!rowsHaveCopies) ofRows = ofRows.filter(isNew);
    const all = names.map((_, c) => c).filter((c) => c < first || ofRows.some((row) => row[c] >= (c === first + COPIES ? 1 : 0)));
    const rows = new ConformalTest(all, names, ofRows), texts = new ConformalTest(all.filter((c) => c !== first + COPIES), names, ofTexts);
    let isWithdrawn = false;
    const compared = this.sample.slice(0, N_COMPARED);
    for (const { text, logProba, status } of compared) {
      if (status === EMPTY) continue;
      const values = quantities(logProba, monitorsOf(text, status === FITTED)), ties = names.map(() => this.random());
      if (status !== FITTED || rowsHaveCopies) rows.add(values, ties);
      if (status === NEW) texts.add(values, ties);
      isWithdrawn = isWithdrawn || (rows.alarm && texts.alarm);
    }
    const n = texts.n, howMany = countOf(n, "distinct text") + (compared.length < this.nRows ? ` of ${countOf(compared.length, "row")} drawn at random` : "");
    const changed = (test) => `Changed most in ${howMany}: ${test.describe()}.${note}`;
    if (isWithdrawn) return { differs: true, message: `These texts differ from the calibration texts: no guarantee. ${changed(texts)}` };
    if (rows.alarm) return { differs: false, isConditional: true, message: `${IF_COPIES} ${changed(rows)}` };
    if (texts.alarm) return { differs: false, isConditional: true, message: `${IF_TRAFFIC} ${changed(texts)}` };
    const power = describePower(n);
    if (!power) return { differs: null, message: `Not checked: ${countOf(n, "distinct text is", "distinct texts are")} too few to compare with the calibration set.${note}` };
    return { differs: false, message: `Compared with the calibration set: ${howMany}, no drift detected. ${power}${note}` };
  }
}

// The power of a comparison of n texts; "" where it is too small.
function describePower(n) {
  const { fractions, times, kind } = model.power, nFiles = times.length / fractions.length;
  const found = fractions.map((_, f) => times.subarray(f * nFiles, (f + 1) * nFiles).filter((time) => time <= n).length / nFiles);
  if (found.at(-1) < 0.5) return "";
  const good = found.findIndex((part) => part >= 0.8), f = good < 0 ? fractions.length - 1 : good;
  return `It would find about ${Math.min(100 * found[f], 99).toFixed(0)}% of files in which ${(100 * fractions[f]).toFixed(0)}% of the texts are of another kind, all of them with a confidence as low as that of the least confident ${(100 * kind).toFixed(0)}% of the calibration texts; it finds milder kinds less often and cannot exclude a difference.`;
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
  model.known = tableOf(model.encoders.flatMap((part) => part.words));
  model.common = tableOf(model.encoders.flatMap((part) => part.words.slice(0, model.nCommonWords)));
}

// A table of the hashes of words; those that begin with ## are subwords.
function tableOf(words) {
  const high = [], low = [];
  for (const word of words.filter((name) => !name.startsWith("##"))) {
    tokenise(lowered(word), false);
    if (tokens.n === 2) high.push(tokens.hi[1]), low.push(tokens.lo[1]);
  }
  return new HashTable(Uint32Array.from(high), Uint32Array.from(low));
}

const ACTIONS = {
  open: ({ data }) => open(data).then(() => ({ classes: model.classes, rule: model.rule, certificate: model.certificate })),
  start: () => { check = model.rule && new DriftCheck(); },
  classify: ({ texts }) => texts.map((text) => {
    const { logProba, best, probability, inside, abstained, covered } = answer(text);
    if (check) check.add(text, logProba);
    if (isEmpty(text)) return null;
    return [best, probability, abstained, inside && inside.flatMap((is, c) => (is ? [c] : [])), covered ? "" : model.coverageReason];
  }),
  finish: () => check && check.result(),
  verify, explain: ({ text, label, nShown }) => explain(text, label, nShown),
};

self.onmessage = ({ data, ports: [port] }) => Promise.resolve(data).then(ACTIONS[data.action]).then(
  (result) => port.postMessage({ result }),
  (error) => port.postMessage({ error: error.message }),
);
