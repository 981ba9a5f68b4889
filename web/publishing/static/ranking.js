// Ranks of a visitor's selection, computed in the browser as the registry computes a board's: registry/boards/selected.py
// and standings.py, and of registry/statistics bootstrap.py, paired.py, ranks.py and simultaneous.py, which say why.
// All steps that decide a digit are in the order of those; sums are of whole multiples, so that any order gives the same.
"use strict";

// The generator of the draws: PCG64 (XSL-RR), as NumPy has it. 128 bits are four numbers of 32, the lowest first.
const MULTIPLIER = [0x9fccf645, 0x4385df64, 0x1fc65da4, 0x2360ed05];

function high(a, b) {
  const al = a & 0xffff, ah = a >>> 16, bl = b & 0xffff, bh = b >>> 16;
  const one = al * bh, other = ah * bl;
  const middle = ((al * bl) >>> 16) + (one & 0xffff) + (other & 0xffff);
  return ah * bh + (one >>> 16) + (other >>> 16) + (middle >>> 16);
}

const low = (a, b) => Math.imul(a, b) >>> 0;
const limbs = (text) => [24, 16, 8, 0].map((at) => parseInt(text.slice(at, at + 8), 16));

// A function that gives the next number of 32 bits.
function unsigned32({ state, increment }) {
  let [a, b, c, d] = limbs(state);
  const [i, j, k, l] = limbs(increment);
  const [p, q, r, s] = MULTIPLIER;
  const TWO32 = 2 ** 32;
  let upper = 0, kept = false;
  return () => {
    if (kept) {
      kept = false;
      return upper;
    }
    const one = low(a, p) + i;
    const two = high(a, p) + low(a, q) + low(b, p) + j + Math.floor(one / TWO32);
    const three = high(a, q) + high(b, p) + low(a, r) + low(b, q) + low(c, p) + k + Math.floor(two / TWO32);
    const four = high(a, r) + high(b, q) + high(c, p) + low(a, s) + low(b, r) + low(c, q) + low(d, p) + l;
    d = (four + Math.floor(three / TWO32)) >>> 0;
    a = one >>> 0;
    b = two >>> 0;
    c = three >>> 0;
    const turned = d >>> 26, by = turned & 31;
    const first = turned & 32 ? b ^ d : a ^ c, second = turned & 32 ? a ^ c : b ^ d;
    kept = true;
    upper = (by ? (second >>> by) | (first << (32 - by)) : second) >>> 0;
    return (by ? (first >>> by) | (second << (32 - by)) : first) >>> 0;
  };
}

// How often each of so many units is drawn in each resample: (resamples, units).
function drawn(generator, units, resamples) {
  const counts = new Uint8Array(resamples * units);
  const next = unsigned32(generator);
  const threshold = (2 ** 32 - units) % units;
  for (let start = 0; start < counts.length; start += units) {
    for (let draw = 0; draw < units; draw++) {
      let unit = 0;
      while (units > 1) {
        const random = next();
        unit = high(random, units);
        if (low(random, units) >= threshold) break;
      }
      counts[start + unit]++;
    }
  }
  return counts;
}

// Distributions

const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

function logGamma(x) {
  if (x > 30) return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5);
  const t = x + 6.5;
  const sum = LANCZOS.reduce((total, of, at) => (at ? total + of / (x + at - 1) : of), 0);
  return Math.log(2 * Math.PI) / 2 + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

// The normal distribution (Marsaglia, Evaluating the Normal Distribution, 2004); of far tails a continued fraction.
function normal(x) {
  const density = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
  if (x < -4) {
    let fraction = -x;
    for (let k = 80; k > 0; k--) fraction = -x + k / fraction;
    return density / fraction;
  }
  let [sum, term] = [x, x];
  for (let k = 3; sum + term !== sum; k += 2) sum += term *= (x * x) / k;
  return 0.5 + sum * density;
}

// Student's t below x < 0 (Numerical Recipes, betacf).
function student(degrees, x) {
  const at = degrees / (degrees + x * x), a = degrees / 2, b = 0.5;
  const swap = at >= (a + 1) / (a + b + 2);
  const [p, q, y, z] = swap ? [b, a, 1 - at, at] : [a, b, at, 1 - at];
  const share = swap ? (x * x) / (degrees + x * x) : y;
  let c = 1, d = 1 / (1 - ((p + q) * share) / (p + 1)), h = d;
  for (let m = 1, change = 0; Math.abs(change - 1) > 1e-16 && m < 500; m++) {
    let of = (m * (q - m) * share) / ((p + 2 * m - 1) * (p + 2 * m));
    d = 1 / (1 + of * d);
    c = 1 + of / c;
    h *= d * c;
    of = (-(p + m) * (p + q + m) * share) / ((p + 2 * m) * (p + 2 * m + 1));
    d = 1 / (1 + of * d);
    c = 1 + of / c;
    change = d * c;
    h *= change;
  }
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + p * Math.log(share) + q * Math.log(swap ? z : (x * x) / (degrees + x * x)));
  const found = (front * h) / p;
  return (swap ? 1 - found : found) / 2;
}

function inverse(distribution, share) {
  let [from, to] = [-60, 60];
  for (let step = 0; step < 70; step++) {
    const middle = (from + to) / 2;
    if (distribution(middle) < share) from = middle;
    else to = middle;
  }
  return (from + to) / 2;
}

// By Newton's method from the middle, which never steps beyond what it looks for.
function normalQuantile(share) {
  let x = 0;
  for (let step = 0, by = 1; Math.abs(by) > 1e-16 * Math.max(1, Math.abs(x)) && step < 100; step++) {
    by = (share - normal(x)) * Math.sqrt(2 * Math.PI) * Math.exp((x * x) / 2);
    x += by;
  }
  return x;
}

const studentQuantile = (degrees, share) =>
  share > 0.5 ? -studentQuantile(degrees, 1 - share) : inverse((x) => (x < 0 ? student(degrees, x) : 1), share);

// Numbers

// The nearest whole number, of two the even one, below 2⁵¹: there a sum with NO_FRACTION has no room for a fraction.
const NO_FRACTION = 1.5 * 2 ** 52;
const rint = (x) => x + NO_FRACTION - NO_FRACTION;

// The nearest decimal, of two as near the even one, as Python rounds.
function fixed(value, decimals) {
  const tie = Number.isInteger(value * 2 ** (decimals + 1)) && !Number.isInteger(value * 2 ** decimals);
  const found = tie ? rint(value * 10 ** decimals) / 10 ** decimals : Number(value.toFixed(decimals));
  return (found + 0).toFixed(decimals);
}

const exactlyRounded = (value, decimals) => (value === null ? null : Number(fixed(value, decimals)));

// The exact sum, rounded once (Shewchuk 1997).
function exactSum(values) {
  const partials = [];
  for (let x of values) {
    let kept = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const sum = x + y, rest = y - (sum - x);
      if (rest) partials[kept++] = rest;
      x = sum;
    }
    partials.length = kept;
    partials.push(x);
  }
  let sum = 0, rest = 0;
  while (partials.length && !rest) {
    const x = sum, y = partials.pop();
    sum = x + y;
    rest = y - (sum - x);
  }
  if (partials.length && Math.sign(rest) === Math.sign(partials.at(-1))) {
    const twice = rest * 2, next = sum + twice;
    if (next - sum === twice) sum = next;
  }
  return sum;
}

// On the line between two points.
function between(x, x0, y0, x1, y1) {
  if (x <= x0 || x0 === -Infinity) return x0 === -Infinity ? y1 : y0;
  if (x >= x1 || x1 === Infinity) return x1 === Infinity ? y0 : y1;
  return ((y1 - y0) / (x1 - x0)) * (x - x0) + y0;
}

// In a sorted list, how many are below x.
function below(sorted, x) {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (sorted[middle] < x) from = middle + 1;
    else to = middle;
  }
  return from;
}

const TWO_MEANS = {
  pct_drop: (first, second) => (100 * (first - second)) / first,
  consistency_index: (first, second) => 1 - (first - second),
  cora: (first, second) => first * (1 - (first - second)),
};
const SHARE_OF_FIRST = new Set(["pct_drop"]);

function bytes(text) {
  const characters = atob(text), found = new Uint8Array(characters.length);
  for (let at = 0; at < found.length; at++) found[at] = characters.charCodeAt(at);
  return found;
}

// A metric's values of the questions of one task: `models` × `questions`, of each model that has any.
class Values {
  constructor({ shape, levels, codes }, clusters) {
    [this.models, this.questions] = shape;
    const raw = bytes(codes);
    if (levels) {
      const known = levels.map((level) => level ?? NaN);
      this.values = new Float64Array(raw.length);
      for (let at = 0; at < raw.length; at++) this.values[at] = known[raw[at]];
    } else this.values = new Float64Array(raw.buffer);
    this.defined = !this.values.some(Number.isNaN);
    this.clusters = clusters;
    this.units = clusters ? Math.max(...clusters) + 1 : this.questions;
  }

  // The means over drawn units of the questions that are defined, of each model and resample.
  means(counts, resamples, whole) {
    const { models, questions, units, clusters, values } = this;
    const coarse = new Float64Array(models * units), rest = new Float64Array(models * units), known = new Float64Array(models * units);
    for (let model = 0; model < models; model++) {
      for (let question = 0; question < questions; question++) {
        const value = values[model * questions + question], at = model * units + (clusters ? clusters[question] : question);
        if (Number.isNaN(value)) continue;
        const main = rint(value * whole) / whole;
        coarse[at] += main;
        rest[at] += value - main;
        known[at]++;
      }
    }
    if (this.defined && !clusters) {
      const found = rest.every((part) => part === 0) ? this.#packed(coarse, counts, resamples) : this.#byLevel(counts, resamples, whole);
      if (found) return found;
    }
    const found = new Float64Array(models * resamples);
    for (let model = 0; model < models; model++) {
      const from = model * units;
      for (let resample = 0; resample < resamples; resample++) {
        const at = resample * units;
        let sum = 0, more = 0, n = 0;
        for (let unit = 0; unit < units; unit++) {
          const count = counts[at + unit];
          if (!count) continue;
          sum += count * coarse[from + unit];
          more += count * rest[from + unit];
          n += count * known[from + unit];
        }
        found[model * resamples + resample] = (sum + more) / n;
      }
    }
    return new Samples(found, null, resamples);
  }

  // Of values that are no such multiples, but few: how often each was drawn gives their sum.
  #byLevel(counts, resamples, whole) {
    const { values, units, models } = this, levels = [...new Set(values)].filter((level) => level);
    if (levels.length > 8) return null;
    const sums = new Float64Array(models * resamples), rests = new Float64Array(models * resamples);
    for (const level of levels) {
      const main = rint(level * whole) / whole, rest = level - main;
      const often = this.#packed(values.map((value) => Number(value === level)), counts, resamples);
      if (!often) return null;
      for (let at = 0; at < sums.length; at++) {
        sums[at] += often.codes[at] * main;
        rests[at] += often.codes[at] * rest;
      }
    }
    for (let at = 0; at < sums.length; at++) sums[at] = (sums[at] + rests[at]) / units;
    return new Samples(sums, null, resamples);
  }

  // Several resamples in one number, where values are small whole multiples of a power of two: their sums do not meet.
  #packed(coarse, counts, resamples) {
    const { models, units } = this;
    let largest = 0, least = 0, scale = 1;
    for (const value of coarse) {
      while (scale <= 256 && (value * scale) % 1 !== 0) scale *= 2;
      if (value > largest) largest = value;
      if (value < least) least = value;
    }
    if (least < 0 || scale > 256 || largest * scale * units >= 2 ** 16) return null;
    const found = new Uint16Array(models * resamples);
    let room = 2;
    while (room <= largest * scale * units) room *= 2;
    const fit = Math.floor(53 / Math.log2(room)), packs = Math.ceil(resamples / fit / 2) * 2;
    const means = Float64Array.from({ length: room }, (_, sum) => sum / scale / units);
    const scaled = coarse.map((value) => value * scale);
    const packed = new Float64Array(packs * units);
    for (let resample = resamples - 1; resample >= 0; resample--) {
      const to = Math.floor(resample / fit) * units, from = resample * units;
      for (let unit = 0; unit < units; unit++) packed[to + unit] = packed[to + unit] * room + counts[from + unit];
    }
    const unpack = (sum, model, pack) => {
      const end = model * resamples + Math.min(resamples, (pack + 1) * fit);
      for (let to = model * resamples + pack * fit; to < end; to++) {
        const upper = Math.floor(sum / room);
        found[to] = sum - upper * room;
        sum = upper;
      }
    };
    for (let pack = 0; pack < packs; pack += 2) {
      const one = packed.subarray(pack * units, (pack + 1) * units), other = packed.subarray((pack + 1) * units, (pack + 2) * units);
      for (let model = 0; model < models; model += 2) {
        const first = scaled.subarray(model * units, (model + 1) * units), second = model + 1 < models ? scaled.subarray((model + 1) * units, (model + 2) * units) : first;
        let a = 0, b = 0, c = 0, d = 0;
        for (let unit = 0; unit < units; unit++) {
          const x = one[unit], y = other[unit], p = first[unit], q = second[unit];
          a += x * p;
          b += y * p;
          c += x * q;
          d += y * q;
        }
        unpack(a, model, pack);
        unpack(b, model, pack + 1);
        if (model + 1 < models) {
          unpack(c, model + 1, pack);
          unpack(d, model + 1, pack + 1);
        }
      }
    }
    return new Samples(found, means, resamples);
  }
}

// Resampled means of the models on one task. codes: the means themselves, or each one's place in the table of means.
class Samples {
  constructor(codes, table, resamples) {
    Object.assign(this, { codes, table, resamples });
  }

  row(place) {
    const { codes, table, resamples } = this, own = codes.subarray(place * resamples, (place + 1) * resamples);
    return table ? Float64Array.from(own, (code) => table[code]) : own;
  }
}

// Adds a row, as often as the task counts. scaled: the table of means times that.
function addTo(sum, { codes, resamples }, at, scaled, times) {
  if (scaled) for (let resample = 0; resample < resamples; resample++, at++) sum[resample] += scaled[codes[at]];
  else for (let resample = 0; resample < resamples; resample++, at++) sum[resample] += times * codes[at];
}

// What is known of one column on one task; resamples are made when they are first asked for.
class Task {
  constructor(given, generator, limits) {
    Object.assign(this, { given, generator, limits, standings: given.standings });
    this.place = new Map(given.drawn.map((row, place) => [row, place]));
    this.questions = given.questions.map((coded) => new Values(coded, null));
    this.clustered = given.clusters ? given.questions.map((coded) => new Values(coded, given.clusters)) : null;
    this.cache = {};
  }

  // Of each part (models, resamples).
  samples(clustered = false) {
    const { resamples, whole } = this.limits;
    return (this.cache[clustered ? "clusters" : "alone"] ??= !this.questions.length
      ? [new Samples(new Float64Array(bytes(this.given.samples).buffer), null, resamples)]
      : (clustered ? this.clustered : this.questions).map((values) =>
          values.means(drawn(this.generator, values.units, resamples), resamples, whole),
        ));
  }

  // Of each pair of models in how many questions only the one is right, and how many both have a value for; where all
  // have a value for all, in how many they differ, and in how many each is right.
  get pairs() {
    return (this.cache.pairs ??= counted(this.questions[0]));
  }
}

function counted({ values, models, questions, defined }) {
  const words = Math.ceil(questions / 32);
  const right = new Int32Array(models * words), known = new Int32Array(models * words);
  for (let model = 0; model < models; model++) {
    for (let question = 0; question < questions; question++) {
      const value = values[model * questions + question], at = model * words + (question >> 5), bit = 1 << (question & 31);
      if (Number.isNaN(value)) continue;
      known[at] |= bit;
      if (value) right[at] |= bit;
    }
  }
  if (defined) {
    const differ = new Uint16Array(models * models), counts = new Float64Array(models);
    for (let one = 0; one < models; one++) {
      for (let word = 0; word < words; word++) counts[one] += bits(right[one * words + word]);
      for (let other = 0; other < one; other++) {
        let apart = 0;
        for (let word = 0, a = one * words, b = other * words; word < words; word++, a++, b++) apart += bits(right[a] ^ right[b]);
        differ[one * models + other] = differ[other * models + one] = apart;
      }
    }
    return { differ, counts, n: questions };
  }
  const only = new Uint16Array(models * models), both = new Uint16Array(models * models);
  for (let one = 0; one < models; one++) {
    for (let other = 0; other < models; other++) {
      let first = 0, shared = 0;
      for (let word = 0, a = one * words, b = other * words; word < words; word++, a++, b++) {
        first += bits(right[a] & known[b] & ~right[b]);
        shared += bits(known[a] & known[b]);
      }
      only[one * models + other] = first;
      both[one * models + other] = shared;
    }
  }
  return { only, both };
}

function bits(word) {
  let n = word - ((word >>> 1) & 0x55555555);
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

// The rows of two tasks, one after the other.
function addTwo(sum, codes, others, at, from, scaled, means) {
  for (let resample = 0; resample < sum.length; resample++) sum[resample] = sum[resample] + scaled[codes[at++]] + means[others[from++]];
}

// Whether two models differ in so many questions of the tasks, of which each has parts.
function differ(tasks, places, one, other, { differing, equal }) {
  let apart = 0;
  for (let task = 0; task < tasks.length; task++) {
    const parts = tasks[task].questions, { questions } = parts[0];
    for (let a = places[task][one] * questions, b = places[task][other] * questions, end = a + questions; a < end; a++, b++) {
      for (let part = 0; part < parts.length; part++) {
        const { values } = parts[part];
        if (Math.abs(values[a] - values[b]) > equal) {
          if (++apart === differing) return true;
          break;
        }
      }
    }
  }
  return false;
}

// The values that are defined, and their mean.
function defined(samples) {
  let sum = 0;
  for (let at = 0; at < samples.length; at++) sum += samples[at];
  if (sum !== sum) return defined(samples.filter((value) => value === value));
  return { known: samples, mean: sum / samples.length };
}

const room = {};

// Numbers that are needed until the next column is ranked: each use has its own place, which is not cleared. Made anew,
// they would take as long to be collected as to be computed.
function scratch(place, n, Numbers = Float64Array) {
  if (!(room[place]?.length >= n)) room[place] = new Numbers(n);
  return room[place].length === n ? room[place] : room[place].subarray(0, n);
}

// The values that, times the sign, are above a limit.
function tailOf(values, sign, limit) {
  const found = scratch(sign < 0 ? "lower tail" : "upper tail", values.length);
  let n = 0;
  for (let at = 0; at < values.length; at++) if (sign * values[at] > limit) found[n++] = values[at];
  return found.subarray(0, n);
}

// The percentile interval of resampled values, as `percentile_interval` has it; null where none is stated. ofZero: only
// whether it holds 0 is asked, so that one that does by the number of values on either side is not looked for.
function interval(samples, units, limits, ofZero = false) {
  const { known, mean } = defined(samples), n = known.length;
  if (!n || n < (1 - limits.largest_undefined_share) * samples.length) return null;
  if (units < limits.minimum_questions) return null;
  let second = 0, third = 0;
  for (let at = 0; at < n; at++) {
    const off = known[at] - mean;
    second += off * off;
    third += off * off * off;
  }
  const rounded = scratch("rounded", n);
  let left = -Infinity, right = Infinity, near = Infinity, least = Infinity, most = -Infinity; // left and right of the mean
  for (let at = 0; at < n; at++) {
    const value = (rounded[at] = rint(known[at] * 1e12) / 1e12);
    if (Math.abs(value - mean) < near) {
      if (value > mean) right = Math.min(right, value);
      else left = Math.max(left, value);
      near = Math.max(mean - left, right - mean);
    }
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const skewness = third / n / (second / n) ** 1.5;
  if (least === most || Math.abs(skewness) > limits.largest_skewness) return null;
  let under = 0, until = 0, beyond = 0, zero = 0; // how many are below the left, not above it, the right, and 0
  for (let at = 0; at < n; at++) {
    under += rounded[at] < left;
    until += rounded[at] <= left;
    beyond += rounded[at] <= right;
    zero += rounded[at] <= 0;
  }
  const shift = 2 * normalQuantile(between(mean, left, (under + until) / 2 / n, right, (until + beyond) / 2 / n));
  const z = -widening(units, limits);
  const tenths = 10 ** limits.level_digits;
  const level = (at) => rint(normal(at) * tenths) / tenths;
  const first = level(shift + z), last = level(shift - z);
  if (ofZero && zero && zero < n && first <= zero / 2 / n && last >= (zero + n) / 2 / n) return [0, 0];
  // Both ends are mostly in the tails, which are sorted faster than all.
  const tail = 1.4 * Math.sqrt(second / n);
  const end = (share) => {
    const under = share < 0.5, sorted = (under ? tailOf(rounded, -1, tail - mean) : tailOf(rounded, 1, mean + tail)).sort();
    return atLevel(share, sorted, under ? 0 : n - sorted.length, n) ?? atLevel(share, rounded.sort(), 0, n);
  };
  return [end(first), end(last)];
}

// The value at a level of the mid-distribution of n values, of which some that follow each other are sorted, `from` are
// below these. null: it is not among them.
function atLevel(share, sorted, from, n) {
  const place = Math.min(Math.floor(share * n), n - 1) - from;
  if (place < 0 || place >= sorted.length) return null;
  const edges = (value) => {
    let [start, end] = [below(sorted, value), 0];
    for (end = start; end < sorted.length && sorted[end] === value; ) end++;
    return [start, end];
  };
  const near = sorted[place], [start, end] = edges(near);
  const level = ([one, other]) => (2 * from + one + other) / 2 / n;
  const up = level([start, end]) <= share, whole = sorted.length === n;
  if (up ? end === sorted.length : start === 0) return whole ? near : null;
  const other = sorted[up ? end : start - 1], around = edges(other);
  if (!whole && (up ? around[1] === sorted.length : around[0] === 0)) return null;
  if (!whole && (start === 0 || end === sorted.length)) return null;
  const [lower, upper] = up ? [[near, level([start, end])], [other, level(around)]] : [[other, level(around)], [near, level([start, end])]];
  return between(share, lower[1], lower[0], upper[1], upper[0]);
}

const widenings = new Map();

// By how many standard errors an interval on so many units reaches to either side.
function widening(units, { confidence }) {
  if (!widenings.has(units)) {
    const tail = (1 - confidence) / 2;
    widenings.set(
      units,
      units === null ? -normalQuantile(tail) : Math.sqrt(units / (units - 1)) * -studentQuantile(units - 1, tail),
    );
  }
  return widenings.get(units);
}

// A column of the selection

// One row's value over the tasks; its resamples are written to `to`, those of clusters in their place.
function overTasks(metric, rows, tasks, times, limits) {
  const { resamples } = limits;
  const total = times ? times.reduce((sum, of) => sum + of, 0) : tasks.length;
  const mean = (values) =>
    times ? exactSum(values.map((value, at) => times[at] * value)) / total : exactSum(values) / values.length;
  const weighed = tasks.map(() => new Map()); // of each task the tables of its means, times its weight
  const averaged = (rows) => {
    const sum = new Float64Array(resamples);
    rows.forEach((row, at) => {
      for (let resample = 0; resample < resamples; resample++) sum[resample] += (times ? times[at] : 1) * row[resample];
    });
    for (let resample = 0; resample < resamples; resample++) sum[resample] /= total;
    return sum;
  };
  const averageOf = (row, part, clustered, sum) => {
    const of = tasks.map((task) => task.samples(clustered && task.clustered !== null)[part]);
    if (of.length === 1) return sum.set(of[0].row(tasks[0].place.get(row)));
    sum.fill(0);
    const scaled = of.map(({ table }, at) => {
      if (table && !weighed[at].has(table)) weighed[at].set(table, table.map((mean) => (times ? times[at] : 1) * mean));
      return weighed[at].get(table);
    });
    const starts = tasks.map((task) => task.place.get(row) * resamples);
    for (let at = 0; at < of.length; at++) {
      if (scaled[at] && scaled[at + 1]) addTwo(sum, of[at].codes, of[at + 1].codes, starts[at], starts[at + 1], scaled[at], scaled[++at]);
      else addTo(sum, of[at], starts[at], scaled[at], times ? times[at] : 1);
    }
    for (let resample = 0; resample < resamples; resample++) sum[resample] /= total;
  };
  const combine = TWO_MEANS[metric], share = SHARE_OF_FIRST.has(metric);
  const combined = (first, second) =>
    first.map((value, at) => {
      const found = combine(value, second[at]);
      return Number.isFinite(found) ? found : NaN;
    });
  const macro = (row, at, clustered) => {
    const sum = scratch(clustered ? "clustered" : "alone", rows.length * resamples).subarray(at * resamples, (at + 1) * resamples);
    if (!combine || share) averageOf(row, 0, clustered, sum);
    if (!combine) return sum;
    if (share) {
      const second = scratch("second", resamples);
      averageOf(row, 1, clustered, second);
      for (let resample = 0; resample < resamples; resample++) {
        const found = combine(sum[resample], second[resample]);
        sum[resample] = Number.isFinite(found) ? found : NaN;
      }
      return sum;
    }
    const of = tasks.map((task) => {
      const [first, second] = task.samples(clustered && task.clustered !== null).map((one) => one.row(task.place.get(row)));
      return combined(first, second);
    });
    return of.length === 1 ? of[0] : averaged(of);
  };
  return rows.map((row, place) => {
    const of = tasks.map((task) => task.standings[row]);
    const n = of.reduce((sum, one) => sum + (one?.n ?? 0), 0);
    const standing = { row, value: null, n, interval: null, rank: null, rank_interval: null, tier: null, all_rank_interval: null, all_tier: null };
    if (of.some((one) => one === null || one.value === null)) {
      const unknown = of.find((one) => one?.unknown)?.unknown;
      return unknown ? { ...standing, unknown } : standing;
    }
    let value;
    if (combine && share) {
      const [first, second] = [0, 1].map((part) => mean(of.map(({ means }) => means[part])));
      value = first === 0 ? null : combine(first, second);
    } else value = mean(of.map((one) => one.value));
    const drawnEverywhere = tasks.every((task) => task.place.has(row));
    if (of.some((one) => one.estimated)) return { ...standing, ...estimated(value, of, tasks, row, times, total, limits) };
    standing.value = value;
    if (!drawnEverywhere) return standing;
    const alone = macro(row, place, false);
    const resting = Math.min(...of.map((one) => one.resting_on));
    Object.assign(standing, { samples: alone, interval: interval(alone, resting, limits), units: resting });
    standing.paired = tasks.every((task) => task.questions.length);
    if (of.some((one) => one.clusters)) {
      standing.samples = macro(row, place, true);
      standing.clusters = of.reduce((sum, one) => sum + (one.clusters || one.n), 0);
      standing.units = standing.clusters;
    }
    return standing;
  });
}

// Tasks of which only a sample was asked: the mean of their intervals' ends, which is too wide rather than too narrow.
function estimated(value, of, tasks, row, times, total, limits) {
  const ends = of.map((one, at) => {
    if (one.interval) return one.interval;
    if (!tasks[at].place.has(row)) return null;
    return interval(tasks[at].samples()[0].row(tasks[at].place.get(row)), one.resting_on, limits);
  });
  if (ends.includes(null)) return {};
  const sums = [0, 1, 2].map((part) => of.reduce((sum, one) => sum + (one.estimated?.[part] ?? 0), 0));
  return {
    value,
    interval: [0, 1].map((end) => exactSum(ends.map((one, at) => (times ? times[at] : 1) * one[end])) / total),
    estimated: { asked: sums[0], of: sums[1], prompts: sums[2] },
  };
}

function ranked(values, better, tolerance) {
  const sorted = Float64Array.from(values).sort();
  return values.map((value) => {
    if (better === "lower") return 1 + below(sorted, value - tolerance);
    let at = below(sorted, value + tolerance);
    while (at < sorted.length && sorted[at] <= value + tolerance) at++;
    return 1 + sorted.length - at;
  });
}

const AT_ONCE = 16;

// 95 % of each model's ranks over the resamples. In each one, values are put into as many drawers of equal width as there
// are models: all in lower drawers are lower, and only those in the same one are looked at.
function rankIntervals(standings, better, limits) {
  const models = standings.length, sign = better === "lower" ? 1 : -1, { resamples, rank_tolerance: tolerance } = limits;
  const counts = new Uint16Array(models * models); // of each model and rank
  const kept = new Uint16Array(models);
  const sorted = new Float64Array(models), several = new Float64Array(AT_ONCE * models);
  const starts = new Uint16Array(models + 1), ends = new Uint16Array(models + 1), drawers = new Uint16Array(models);
  const samples = standings.map((one) => one.samples);
  for (let resample = 0; resample < resamples; resample++) {
    // Models lie far apart in memory: each one's next values are read together.
    if (resample % AT_ONCE === 0) {
      for (let model = 0, end = Math.min(AT_ONCE, resamples - resample); model < models; model++) {
        for (let next = 0; next < end; next++) several[next * models + model] = sign * samples[model][resample + next];
      }
    }
    const from = (resample % AT_ONCE) * models, values = several.subarray(from, from + models);
    let least = Infinity, most = -Infinity;
    for (let model = 0; model < models; model++) {
      const value = values[model];
      if (value < least) least = value;
      if (value > most) most = value;
    }
    least -= tolerance;
    const scale = (models - 1) / (most - least);
    starts.fill(0);
    for (let model = 0; model < models; model++) {
      const value = values[model];
      if (value === value) starts[(drawers[model] = ((value - least) * scale) | 0) + 1]++;
    }
    for (let drawer = 1; drawer <= models; drawer++) starts[drawer] += starts[drawer - 1];
    ends.set(starts);
    for (let model = 0; model < models; model++) {
      const value = values[model];
      if (value === value) sorted[ends[drawers[model]]++] = value;
    }
    for (let model = 0; model < models; model++) {
      const value = values[model] - tolerance;
      if (value !== value) continue;
      const drawer = ((value - least) * scale) | 0, end = ends[drawer];
      let rank = starts[drawer];
      for (let at = rank; at < end; at++) rank += sorted[at] < value;
      counts[model * models + rank]++;
      kept[model]++;
    }
  }
  const tail = (1 - limits.confidence) / 2;
  return standings.map((_, model) => {
    const n = kept[model];
    if (!n) return null;
    return [tail, 1 - tail].map((share) => {
      const place = Math.max(0, Math.ceil(n * share - 1));
      let rank = 0;
      for (let until = counts[model * models]; until <= place; ) until += counts[model * models + ++rank];
      return rank + 1;
    });
  });
}

// What the questions say of each pair of models, as `paired` has it: models × models.
function pairsOf(metric, standings, tasks, times, limits) {
  const models = standings.length, size = models * models;
  const places = tasks.map((task) => standings.map(({ row }) => task.place.get(row)));
  if (!metric.zero_or_one) {
    const enough = new Uint8Array(size);
    for (let one = 0; one < models; one++) {
      for (let other = 0; other < one; other++) {
        enough[one * models + other] = enough[other * models + one] = differ(tasks, places, one, other, limits);
      }
    }
    return { enough, difference: null };
  }
  const number = times ? times.reduce((sum, of) => sum + of, 0) : tasks.length;
  const [difference, error, slack] = ["difference", "error", "slack"].map((place) => scratch(place, size).fill(0));
  const nearlyAll = (share) => ((share ** 2) ** 2) ** 2;
  const answered = tasks.flatMap((task, at) => {
    const { differ, counts, n: questions } = task.pairs, one2 = (times ? times[at] : 1) / (questions + 2), linear = one2 * one2;
    if (!differ) return [];
    const slacks = Float64Array.from({ length: questions + 1 }, (_, apart) => one2 * nearlyAll(questions ? apart / questions : 0));
    const right = Float64Array.from(places[at], (place) => counts[place]);
    return [{ differ, right, all: task.questions[0].models, to: Uint16Array.from(places[at]), slacks, one2, linear, square: linear / (questions + 2) }];
  });
  // Model by model rather than task by task: a row of the tables stays in a processor's cache.
  for (let one = 0; one < models; one++) {
    for (const { differ, right, all, to, slacks, one2, linear, square } of answered) {
      const row = differ.subarray(to[one] * all, (to[one] + 1) * all), own = right[one];
      for (let other = one + 1, place = one * models + other; other < models; other++, place++) {
        const apart = row[to[other]], off = own - right[other];
        difference[place] += one2 * off;
        error[place] += linear * (apart + 2) - square * off * off;
        if (slacks[apart] > slack[place]) slack[place] = slacks[apart];
      }
    }
  }
  tasks.forEach((task, at) => {
    const { only, both, differ } = task.pairs, all = task.questions[0].models, of = times ? times[at] : 1;
    if (differ) return;
    for (let one = 0; one < models; one++) {
      const from = places[at][one] * all;
      for (let other = one + 1; other < models; other++) {
        const to = places[at][other], n = both[from + to], b = only[from + to], c = only[to * all + places[at][one]];
        const first = (b + 1) / (n + 2), second = (c + 1) / (n + 2), off = first - second;
        const own = of * Math.sqrt((first + second - off * off) / (n + 2));
        const place = one * models + other;
        difference[place] += of * off;
        error[place] += own * own;
        slack[place] = Math.max(slack[place], (of / (n + 2)) * nearlyAll(n ? (b + c) / n : 0));
      }
    }
  });
  for (let one = 0; one < models; one++) {
    for (let other = one + 1; other < models; other++) {
      const place = one * models + other, reverse = other * models + one;
      difference[place] /= number;
      difference[reverse] = -difference[place];
      error[reverse] = error[place] = Math.sqrt(error[place]) / number;
      slack[reverse] = slack[place] /= number;
    }
  }
  return { enough: null, difference, error, slack };
}

// Products of matrices, of which hundreds of models ask hundreds of millions of multiplications

// A WebAssembly module of two functions, of double and single precision, that add the sums of products of four rows
// and a panel of columns to a table. Both are over panels of 32 bytes: of each resample the values of four or eight.
// Their parameters: addresses of the rows, of the panel, of the rows' end, and of the table; bytes of a row of it.
function kernels(memory) {
  const number = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...number(n >>> 7)]);
  const section = (id, ...content) => [id, ...number(content.flat().length), ...content.flat()];
  const get = (local) => [0x20, local], set = (local) => [0x21, local], simd = (code, ...rest) => [0xfd, ...number(code), ...rest];
  const load = (local, offset, code = 0) => [get(local), simd(code, 0, ...number(offset))].flat();
  const [LEFT, RIGHT, END, TABLE, STRIDE, SUMS, ONE, OTHER, VALUE] = [0, 1, 2, 3, 4, 5, 13, 14, 15];
  const tile = ({ size, splat, multiply, add }) => {
    const rows = [0, 1, 2, 3];
    const plus = (sum, of) => [get(sum), get(VALUE), get(of), simd(multiply), simd(add), set(sum)].flat();
    const store = (sum, offset) => [get(TABLE), load(TABLE, offset), get(sum), simd(add), simd(0x0b, 0, offset)].flat();
    const step = (local, by) => [get(local), by, 0x6a, set(local)].flat();
    const body = [
      [2, 0, 0x7f, 11, 0x7b], // locals: none of whole numbers, eleven vectors
      [0x03, 0x40], // loop
      [load(RIGHT, 0), set(ONE), load(RIGHT, 16), set(OTHER)],
      rows.map((row) => [load(LEFT, row * size, splat), set(VALUE), plus(SUMS + 2 * row, ONE), plus(SUMS + 2 * row + 1, OTHER)]),
      [step(LEFT, [0x41, 32]), step(RIGHT, [0x41, 32]), get(LEFT), get(END), 0x49, 0x0d, 0, 0x0b], // again, unless at the end
      rows.map((row) => [store(SUMS + 2 * row, 0), store(SUMS + 2 * row + 1, 16), step(TABLE, get(STRIDE))]),
      [0x0b],
    ].flat(Infinity);
    return [...number(body.length), ...body];
  };
  const double = tile({ size: 8, splat: 0x0a, multiply: 0xf2, add: 0xf0 });
  const single = tile({ size: 4, splat: 0x09, multiply: 0xe6, add: 0xe4 });
  const module = Uint8Array.from([
    [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    section(1, [1, 0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0]),
    section(2, [1, 1, 0x6d, 1, 0x6d, 2, 0, 1]), // the memory, m.m
    section(3, [2, 0, 0]),
    section(7, [2, 1, 0x64, 0, 0, 1, 0x73, 0, 1]), // d and s
    section(10, [2], double, single),
  ].flat());
  const { d, s } = new WebAssembly.Instance(new WebAssembly.Module(module), { m: { m: memory } }).exports;
  return { double: d, single: s };
}

let compiled = typeof WebAssembly === "undefined" ? null : undefined; // null where a browser or a policy allows none

function memoryOf(bytes) {
  if (compiled === undefined) {
    try {
      const memory = new WebAssembly.Memory({ initial: 1 });
      compiled = { memory, ...kernels(memory) };
    } catch (error) {
      if (!(error instanceof WebAssembly.CompileError)) throw error;
      compiled = null;
    }
  }
  if (compiled === null) return new ArrayBuffer(bytes);
  const { memory } = compiled;
  const lacking = bytes - memory.buffer.byteLength;
  if (lacking > 0) memory.grow(Math.ceil(lacking / 65536));
  return memory.buffer;
}

// Sums of products of the rows of two (models, resamples) tables; of one table the upper half.
// rough: in single precision, where the browser has it.
function products(left, right, resamples, rough = false) {
  const models = left.length, padded = Math.ceil(models / 8) * 8, same = left === right;
  memoryOf(0);
  const single = rough && compiled !== null, Numbers = single ? Float32Array : Float64Array;
  const size = Numbers.BYTES_PER_ELEMENT, wide = 32 / size, ofTable = padded * resamples * size, table = same ? ofTable : 2 * ofTable;
  const buffer = memoryOf(table + padded * padded * size);
  const panels = (rows, from) => {
    const found = new Numbers(buffer, from, padded * resamples).fill(0);
    rows.forEach((row, model) => {
      for (let at = Math.floor(model / wide) * wide * resamples + (model % wide), resample = 0; resample < resamples; resample++, at += wide) found[at] = row[resample];
    });
  };
  panels(left, 0);
  if (!same) panels(right, ofTable);
  const found = new Numbers(buffer, table, padded * padded).fill(0), all = new Float64Array(buffer, 0, single ? 0 : table / 8);
  const kernel = compiled?.[single ? "single" : "double"] ?? ((of, to, end, at, stride) => tile(all.subarray(of / 8, end / 8), all.subarray(to / 8), found, (at - table) / 8, stride / 8));
  for (let start = 0; start < resamples; start += 400) {
    const end = Math.min(resamples, start + 400);
    for (let row = 0; row < padded; row += 4) {
      const of = (Math.floor(row / wide) * resamples + start) * 32 + (row % wide) * size;
      for (let column = same ? row - (row % wide) : 0; column < padded; column += wide) {
        kernel(of, (same ? 0 : ofTable) + (column / wide) * resamples * 32 + start * 32, of + (end - start) * 32, table + (row * padded + column) * size, padded * size);
      }
    }
  }
  const kept = scratch(same ? "products" : "mixed", found.length, Numbers);
  kept.set(found);
  return same
    ? (row, column) => kept[Math.min(row, column) * padded + Math.max(row, column)]
    : (row, column) => kept[row * padded + column];
}

function tile(left, right, found, at, width) {
  let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0, c0 = 0, c1 = 0, c2 = 0, c3 = 0, d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  for (let k = 0; k < left.length; k += 4) {
    const a = left[k], b = left[k + 1], c = left[k + 2], d = left[k + 3];
    const w = right[k], x = right[k + 1], y = right[k + 2], z = right[k + 3];
    a0 += a * w; a1 += a * x; a2 += a * y; a3 += a * z;
    b0 += b * w; b1 += b * x; b2 += b * y; b3 += b * z;
    c0 += c * w; c1 += c * x; c2 += c * y; c3 += c * z;
    d0 += d * w; d1 += d * x; d2 += d * y; d3 += d * z;
  }
  found[at] += a0; found[at + 1] += a1; found[at + 2] += a2; found[at + 3] += a3;
  at += width;
  found[at] += b0; found[at + 1] += b1; found[at + 2] += b2; found[at + 3] += b3;
  at += width;
  found[at] += c0; found[at + 1] += c1; found[at + 2] += c2; found[at + 3] += c3;
  at += width;
  found[at] += d0; found[at + 1] += d1; found[at + 2] += d2; found[at + 3] += d3;
}

// All pairs at once, as `compare_all` has it: `beats`, which model is shown to be better than which.
function compareAll(metric, standings, pairs, units, limits) {
  const models = standings.length, size = models * models, { resamples } = limits;
  const better = metric.better === "higher" ? 1 : -1;
  const usable = [];
  const rows = standings.map(({ samples }, model) => {
    const { known, mean } = defined(samples), row = scratch("deviations", models * resamples).subarray(model * resamples, (model + 1) * resamples);
    usable.push(1 - known.length / resamples <= limits.largest_undefined_share);
    for (let at = 0; at < resamples; at++) row[at] = samples[at] === samples[at] ? better * (samples[at] - mean) : 0;
    return row;
  });
  const family = { models, beats: new Uint8Array(size), compared: new Uint8Array(size), critical: null };
  if (units < limits.minimum_questions) return family;
  const of = products(rows, rows, resamples);
  const adjusted = pairs !== null && pairs.difference !== null;
  const cubes = adjusted ? null : thirds(rows, resamples);
  const ratios = scratch("ratios", size).fill(0), weights = scratch("weights", size, Float32Array).fill(0), left = new Uint8Array(size);
  const clustered = standings.some(({ clusters }) => clusters);
  const own = Float64Array.from(standings, (_, model) => of(model, model) / resamples), cubed = own.map((variance) => variance ** 1.5);
  for (let one = 0; one < models; one++) {
    for (let other = one + 1; other < models; other++) {
      if (!usable[one] || !usable[other]) continue;
      const at = one * models + other, reverse = other * models + one;
      const both = own[one] + own[other];
      let variance = both - (2 * of(one, other)) / resamples;
      const resampled = Math.sqrt(Math.max(0, variance));
      if (variance <= limits.no_spread * both) variance = 0;
      const spread = Math.sqrt(variance), difference = better * (standings[one].value - standings[other].value);
      const weight = spread > 0 ? 1 / spread : 0;
      let ratio = difference * weight;
      let compared = true;
      if (adjusted) {
        const error = clustered ? Math.max(pairs.error[at], resampled) : pairs.error[at];
        const off = pairs.difference[at];
        ratio = better * ((Math.sign(off) * Math.max(0, Math.abs(off) - pairs.slack[at])) / error);
      } else {
        compared = (spread === 0 || cubes(one, other, limits.largest_skewness * variance * spread, cubed[one] + cubed[other])) && (!pairs || pairs.enough[at] === 1);
      }
      if (spread === 0 && Math.abs(difference) > limits.rank_tolerance) ratio = Math.sign(difference) * Infinity;
      ratios[at] = ratio;
      ratios[reverse] = -ratio;
      weights[at] = weights[reverse] = weight;
      family.compared[at] = family.compared[reverse] = compared;
      if (compared && ratio === Infinity) family.beats[at] = 1;
      if (compared && ratio === -Infinity) family.beats[reverse] = 1;
      left[at] = left[reverse] = compared && spread > 0;
    }
  }
  const found = new Maxima(rows, weights, models, limits);
  const one = widening(null, limits), alone = family.compared.reduce((n, compared) => n + compared, 0) === 2;
  for (let more = left.includes(1); more; ) {
    let critical = adjusted && alone ? one : found.quantile(left);
    if (adjusted) critical = Math.max(one, critical);
    family.critical ??= critical;
    const limit = Math.sqrt(units / (units - 1)) * -studentQuantile(units - 1, normal(-critical));
    more = false;
    for (let at = 0; at < size; at++) {
      if (left[at] && ratios[at] > limit) {
        family.beats[at] = 1;
        left[at] = 0;
        more = true;
      }
    }
    more &&= left.includes(1);
  }
  return family;
}

// Whether the third central moment of the difference of two models is within a limit. scale: cubes of both spreads, of
// which single precision misses less than a 500th.
function thirds(rows, resamples) {
  const squares = rows.map((row, model) => {
    const to = scratch("squares", rows.length * resamples).subarray(model * resamples, (model + 1) * resamples);
    for (let resample = 0; resample < resamples; resample++) to[resample] = row[resample] * row[resample];
    return to;
  });
  const mixed = products(squares, rows, resamples, true);
  return (one, other, limit, scale) => {
    const third = Math.abs(mixed(one, one) - mixed(other, other) - 3 * mixed(one, other) + 3 * mixed(other, one)) / resamples;
    if (Math.abs(third - limit) > scale / 500) return third <= limit;
    let exact = 0;
    for (let resample = 0; resample < resamples; resample++) exact += (rows[one][resample] - rows[other][resample]) ** 3;
    return Math.abs(exact / resamples) <= limit;
  };
}

const BLOCK = 16, SLIGHTLY = 0.03, MOST_KEPT = 1e6;

// The quantile of the largest ratio in each resample, of the pairs that are left. Models that answer alike are in one
// block; no ratio between two blocks exceeds the one's highest value less the other's lowest, times the largest weight.
class Maxima {
  constructor(rows, weights, models, { resamples, share_below: share }) {
    Object.assign(this, { weights, models, resamples });
    Object.assign(this, { above: [], floor: Infinity });
    this.place = Math.min(resamples, Math.ceil(share * resamples)) - 1;
    this.order = Int32Array.from(alike(weights, models));
    this.blocks = Math.ceil(models / BLOCK);
    this.values = scratch("values", models * resamples, Float32Array); // (models in that order, resamples)
    this.low = scratch("low", this.blocks * resamples, Float32Array).fill(Infinity);
    this.high = scratch("high", this.blocks * resamples, Float32Array).fill(-Infinity);
    this.order.forEach((model, at) => {
      const own = at * resamples, of = Math.floor(at / BLOCK) * resamples;
      for (let resample = 0; resample < resamples; resample++) {
        const value = Math.fround(rows[model][resample]);
        this.values[own + resample] = value;
        if (value < this.low[of + resample]) this.low[of + resample] = value;
        if (value > this.high[of + resample]) this.high[of + resample] = value;
      }
    });
  }

  // Fewer pairs are left with each call: the first one keeps the ratios from a floor just below the quantile on.
  quantile(left) {
    const { resamples, above } = this, maxima = new Float32Array(resamples).fill(-Infinity);
    for (let at = 0; at < above.length; at += 3) {
      if (left[above[at + 1]] && above[at + 2] > maxima[above[at]]) maxima[above[at]] = above[at + 2];
    }
    const known = maxima.sort()[this.place];
    return known >= this.floor ? known : this.#lookedFor(left);
  }

  #lookedFor(left) {
    const { blocks, order, models, resamples, values, low, high } = this;
    const weights = scratch("left weights", models * models, Float32Array).fill(-1); // in that order; below 0: the pair is not left
    const heavy = scratch("heavy", models * blocks, Float32Array).fill(-1); // of a model and a block the largest
    const heaviest = new Float32Array(blocks * blocks).fill(-1), usual = new Float64Array(blocks * blocks), counts = new Uint32Array(blocks * blocks);
    for (let one = 0; one < models; one++) {
      const from = order[one] * models, to = one * models, pairs = Math.floor(one / BLOCK) * blocks;
      for (let block = 0, start = 0; block < blocks; block++, start += BLOCK) {
        let most = -1;
        for (let other = start; other < Math.min(models, start + BLOCK); other++) {
          const at = from + order[other];
          if (!left[at]) continue;
          const weight = (weights[to + other] = this.weights[at]);
          if (weight > most) most = weight;
          usual[pairs + block] += weight;
          counts[pairs + block]++;
        }
        heavy[one * blocks + block] = most;
        if (most > heaviest[pairs + block]) heaviest[pairs + block] = most;
      }
    }
    const maxima = new Float32Array(resamples).fill(-Infinity), above = [];
    // The ratios of two blocks in a resample, those from the floor on.
    const look = (one, other, resample, floor) => {
      const to = Math.min(models, (one + 1) * BLOCK), end = Math.min(models, (other + 1) * BLOCK);
      const least = low[other * resamples + resample];
      for (let first = one * BLOCK; first < to; first++) {
        const value = values[first * resamples + resample], weight = heavy[first * blocks + other];
        if (weight < 0 || Math.fround(Math.fround(value - least) * weight) < floor) continue;
        for (let second = other * BLOCK; second < end; second++) {
          const of = weights[first * models + second];
          const ratio = Math.fround(Math.fround(value - values[second * resamples + resample]) * of);
          if (of < 0 || ratio < floor) continue;
          if (ratio > maxima[resample]) maxima[resample] = ratio;
          if (floor !== -Infinity && above.length < 3 * MOST_KEPT) above.push(resample, order[first] * models + order[second], ratio);
        }
      }
    };
    // In each resample the pair of blocks that would reach the most with its mean weight: nearly the maxima.
    const most = new Float32Array(resamples).fill(-1), reaches = new Uint16Array(resamples);
    for (let pair = 0; pair < blocks * blocks; pair++) {
      if (!counts[pair]) continue;
      const weight = usual[pair] / counts[pair];
      let up = Math.floor(pair / blocks) * resamples, down = (pair % blocks) * resamples;
      for (let resample = 0; resample < resamples; resample++) {
        const limit = Math.max(0, high[up++] - low[down++]) * weight;
        if (limit > most[resample]) {
          most[resample] = limit;
          reaches[resample] = pair;
        }
      }
    }
    for (let resample = 0; resample < resamples; resample++) look(Math.floor(reaches[resample] / blocks), reaches[resample] % blocks, resample, -Infinity);
    const nearly = maxima.slice().sort()[this.place], floor = nearly - SLIGHTLY * Math.abs(nearly);
    for (let one = 0; one < blocks; one++) {
      for (let other = 0; other < blocks; other++) {
        const weight = heaviest[one * blocks + other];
        if (weight < 0) continue;
        for (let resample = 0, up = one * resamples, down = other * resamples; resample < resamples; resample++) {
          const limit = Math.fround(Math.max(0, Math.fround(high[up++] - low[down++])) * weight);
          if (limit >= floor) look(one, other, resample, floor);
        }
      }
    }
    if (above.length < 3 * MOST_KEPT) Object.assign(this, { above, floor }); // else they are looked for again
    return maxima.sort()[this.place];
  }
}

// Models in an order in which neighbours answer alike: each time the nearest of those that are left.
function alike(weights, models) {
  const order = [0], left = new Set(Array.from({ length: models - 1 }, (_, at) => at + 1));
  while (left.size) {
    const from = order.at(-1) * models;
    let [next, most] = [-1, -1];
    for (const model of left) if (weights[from + model] > most) [next, most] = [model, weights[from + model]];
    order.push(next);
    left.delete(next);
  }
  return order;
}

function tiersWhere(standings, better, apart) {
  const order = standings.map((_, at) => at);
  order.sort((one, other) => (better === "higher" ? -1 : 1) * (standings[one].value - standings[other].value) || one - other);
  const found = [];
  let [tier, leader] = [0, null];
  for (const model of order) {
    if (leader === null || apart(leader, model)) [tier, leader] = [tier + 1, model];
    found[model] = tier;
  }
  return { tiers: found, order };
}

// Ranks, rank intervals and tiers among the complete models; what all pairs come to.
function rank(metric, standings, tasks, times, limits) {
  const { better } = metric;
  if (better === "neither") return null;
  ranked(standings.map(({ value }) => value), better, limits.rank_tolerance).forEach((of, at) => (standings[at].rank = of));
  if (!standings.length || standings.some(({ samples }) => !samples)) return null;
  const models = standings.length, units = Math.min(...standings.map((one) => one.units));
  const pairs = standings.every((one) => one.paired) ? pairsOf(metric, standings, tasks, times, limits) : null;
  const compared = compareAll(metric, standings, pairs, units, limits);
  const { beats } = compared;
  const separated = (first, second) => {
    const at = first * models + second, [one, other] = [standings[first], standings[second]];
    if (pairs?.difference) {
      if (units < limits.minimum_questions) return false;
      let error = pairs.error[at];
      if (standings.some(({ clusters }) => clusters)) error = Math.max(error, resampledError(one.samples, other.samples));
      const half = widening(units, limits) * error + pairs.slack[at], middle = pairs.difference[at];
      return !(Math.max(-1, middle - half) <= 0 && 0 <= Math.min(1, middle + half));
    }
    const differences = scratch("differences", limits.resamples);
    for (let at = 0; at < differences.length; at++) differences[at] = one.samples[at] - other.samples[at];
    if (!pairs || pairs.enough[at]) {
      let least = Infinity, most = -Infinity;
      for (let at = 0; at < differences.length; at++) {
        if (differences[at] < least) least = differences[at];
        if (differences[at] > most) most = differences[at];
      }
      if (most - least <= limits.rank_tolerance && least !== Infinity) return Math.abs(one.value - other.value) > limits.rank_tolerance;
    } else return false;
    const found = interval(differences, units, limits, true);
    return found !== null && !(found[0] <= 0 && 0 <= found[1]);
  };
  const apart = (one, other) => Boolean(beats[one * models + other] || beats[other * models + one]);
  const alone = tiersWhere(standings, better, separated);
  const together = tiersWhere(standings, better, apart);
  const intervals = rankIntervals(standings, better, limits);
  standings.forEach((standing, at) => {
    let above = 0, under = 0;
    for (let other = 0; other < models; other++) {
      above += beats[other * models + at];
      under += beats[at * models + other];
    }
    standing.rank_interval = intervals[at];
    standing.tier = alone.tiers[at];
    standing.all_rank_interval = [1 + above, models - under];
    standing.all_tier = together.tiers[at];
  });
  let told = 0, counted = 0, neighbours = 0;
  for (let one = 0; one < models; one++) {
    for (let other = one + 1; other < models; other++) {
      told += apart(one, other);
      counted += compared.compared[one * models + other];
    }
    if (one) neighbours += apart(together.order[one - 1], together.order[one]);
  }
  return {
    models,
    pairs: counted,
    pairs_told_apart: told,
    neighbours: models - 1,
    neighbours_told_apart: neighbours,
    critical_value: exactlyRounded(compared.critical, 6),
  };
}

function resampledError(one, other) {
  let [sum, squares, n] = [0, 0, 0];
  one.forEach((value, at) => {
    const off = value - other[at];
    if (!Number.isNaN(off)) [sum, squares, n] = [sum + off, squares + off * off, n + 1];
  });
  return Math.sqrt(Math.max(0, squares / n - (sum / n) ** 2));
}

// The ranks that estimates could have among the ranked models, by the ends of their intervals.
function placeEstimates(standings, better) {
  const sign = { higher: 1, lower: -1 }[better];
  const known = standings.filter((one) => one.rank !== null && one.value !== null).map(({ value }) => value);
  for (const standing of standings) {
    if (!standing.estimated || !standing.interval || !sign) continue;
    const [worst, best] = standing.interval.map((end) => sign * end).sort((one, other) => one - other);
    const above = (end) => 1 + known.filter((value) => sign * value > end).length;
    standing.rank_interval = [above(best), above(worst)];
  }
}

// Selections

class Refusal extends Error {}

const LISTS = { model: "names", family: "families", developer: "developers", licence: "licences" };
const FIELDS = { names: "model", families: "family", developers: "developer", licences: "licence" };

// The choice that a query string holds, as the website reads it.
function choiceOf(query) {
  const choice = { weights: {}, models: {}, columns: query.getAll("column"), sort: query.get("sort") || null };
  const weigh = (task, text) => {
    if (!/^\d{1,4}$/.test(text) || Number(text) > 1000) throw new Refusal(`weight=${task}:${text}: give TASK:N with a whole number from 0 to 1000`);
    choice.weights[task] = Number(text);
  };
  for (const [key, text] of query) {
    if (key.startsWith("weight.") && text.trim()) weigh(key.slice(7), text.trim());
    if (key === "weight") weigh(text.slice(0, text.lastIndexOf(":")), text.slice(text.lastIndexOf(":") + 1));
  }
  const { models } = choice;
  for (const [key, name] of Object.entries(LISTS)) {
    const given = query.getAll(key).filter(Boolean);
    if (given.length) models[name] = given;
  }
  const one = (key, pattern, read, what) => {
    const text = (query.get(key) ?? "").trim();
    if (!text) return;
    if (!pattern.test(text)) throw new Refusal(`${key}=${text}: give ${what}`);
    models[key] = read(text);
  };
  one("openness", /^(open|closed)$/, String, "open or closed");
  for (const key of ["parameters_from", "parameters_to"]) one(key, /^\d{1,18}$/, Number, "a whole number");
  for (const key of ["released_from", "released_to"]) one(key, /^\d{4}-\d\d-\d\d$/, String, "a day, YYYY-MM-DD");
  one("cost_to", /^\d{1,9}(\.\d{1,6})?$/, String, "an amount, such as 2.50");
  one("thinking", /^(yes|no)$/, (text) => text === "yes", "yes or no");
  return choice;
}

// What a selection's definition has of OF_A_SELECTION, as `narrowed` makes it.
function narrowed(board, choice) {
  const definition = { ...board.definition };
  const chosen = Object.keys(choice.models).length > 0;
  if (definition.models && chosen) throw new Refusal(`board ${board.board} takes only some models itself; choose from a board that takes all`);
  if (chosen) definition.models = choice.models;
  if (Object.keys(choice.weights).length) {
    const out = Object.entries(definition.weights ?? {}).filter(([, times]) => times === 0);
    const given = { ...choice.weights, ...Object.fromEntries(out) };
    definition.weights = Object.fromEntries(Object.entries(given).filter(([, times]) => times !== 1));
  }
  if (choice.columns.length) definition.columns = choice.columns;
  const names = columnsOf(board, definition);
  if (choice.sort) definition.sort = choice.sort;
  else if (!definition.columns.includes(definition.sort)) delete definition.sort;
  if (definition.sort && !names.includes(definition.sort)) throw new Refusal(`sort=${definition.sort}: not a column; use one of ${names.join(", ")}`);
  return Object.fromEntries(Object.entries(definition).filter(([, value]) => value === true || Object.keys(value).length));
}

function columnsOf(board, definition) {
  const names = definition.columns;
  const unknown = names.find((name) => !(name in board.columns));
  if (unknown) throw new Refusal(`column=${unknown}: this site has ${Object.keys(board.columns).join(", ")}`);
  return names;
}

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const keys = Object.keys(value).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

function takes(models, row) {
  const cost = row.cost;
  return (
    Object.entries(FIELDS).every(([list, field]) => !models[list] || models[list].includes(row[field])) &&
    ["openness", "thinking"].every((key) => models[key] === undefined || models[key] === row[key]) &&
    ["parameters", "released"].every(
      (key) =>
        (models[`${key}_from`] === undefined || (row[key] !== null && row[key] >= models[`${key}_from`])) &&
        (models[`${key}_to`] === undefined || (row[key] !== null && row[key] <= models[`${key}_to`])),
    ) &&
    (models.cost_to === undefined || (cost !== null && cost <= Number(models.cost_to)))
  );
}

// What ranks the columns of a board. column: what gives the values of a column, by its name.
class Columns {
  constructor(board, column) {
    Object.assign(this, { board, column });
    this.read = new Map();
  }

  #tasks(name) {
    const { board, column, read } = this;
    const made = (given) => new Map(Object.entries(given).map(([task, values]) => [task, new Task(values, board.tasks[task], board.limits)]));
    if (!read.has(name)) read.set(name, column(name).then(made));
    return read.get(name);
  }

  // Makes everything that does not rest on a choice by ranking all models, which also has a browser compile what it takes.
  async prepare(name) {
    const { rows, tasks } = this.board, all = rows.map((_, number) => number);
    const complete = all.filter((number) => rows[number].whole.every(Boolean));
    await this.rank(name, { tasks: Object.keys(tasks), rows: all, complete, times: null });
  }

  // By row the standing in one column, and what all pairs come to. rows, complete: numbers of rows of the board;
  // times: how much each of the tasks counts, null where all count alike.
  async rank(name, { tasks, rows, complete, times }) {
    const { limits } = this.board, metric = this.board.columns[name], whole = new Set(complete);
    const known = await this.#tasks(name), of = tasks.map((task) => known.get(task));
    const standings = overTasks(metric.metric, rows, of, times, limits);
    const together = rank(metric, standings.filter((one) => whole.has(one.row) && one.value !== null && !one.estimated), of, times, limits);
    placeEstimates(standings, metric.better);
    return { together, standings: standings.map((one) => [one.row, stated(one, limits)]) };
  }
}

// A board as the site has it. columns: what ranks its columns, such as Columns.
class Rankings {
  constructor(board, columns) {
    Object.assign(this, { board, columns });
  }

  // A selection's rows, in order, with their standings; its text, whose SHA-256 is its digest.
  async select(query) {
    const { board } = this, { limits } = board;
    const definition = narrowed(board, choiceOf(query));
    const names = columnsOf(board, definition);
    const weights = definition.weights ?? {};
    const unknown = Object.keys(weights).find((task) => !(task in board.tasks));
    if (unknown !== undefined) throw new Refusal(`weight=${unknown}: no such task; there are ${Object.keys(board.tasks).join(", ")}`);
    const order = [...new Set(board.entries.map((entry) => entry.task))];
    const tasks = order.filter((task) => weights[task] ?? 1);
    if (!tasks.length) throw new Refusal("no task is left; give one of them a weight of 1");
    const asked = board.rows.length * tasks.length * names.length;
    if (asked > limits.most_values) {
      throw new Refusal(
        `${board.rows.length} models × ${tasks.length} tasks × ${names.length} columns are ${asked} values; choose fewer tasks or columns, so that there are at most ${limits.most_values}`,
      );
    }
    const places = board.entries.flatMap((entry, place) => (tasks.includes(entry.task) ? [place] : []));
    const rows = board.rows.flatMap((row, number) =>
      takes(definition.models ?? {}, row) && places.some((place) => row.asked[place]) ? [number] : [],
    );
    const complete = rows.filter((number) => places.every((place) => board.rows[number].whole[place])), whole = new Set(complete);
    const own = tasks.map((task) => weights[task] ?? 1);
    const times = new Set(own).size === 1 ? null : own;
    const values = {}, together = {};
    const ranked = await Promise.all(names.map((name) => this.columns.rank(name, { tasks, rows, complete, times })));
    ranked.forEach((found, at) => {
      if (found.together) together[names[at]] = found.together;
      values[names[at]] = new Map(found.standings);
    });
    const sort = definition.sort ?? board.sorted.flatMap((metric) => names.filter((name) => name.startsWith(`${metric}@`)))[0] ?? names[0];
    const sign = board.columns[sort].better === "lower" ? 1 : -1;
    const listed = rows.map((number) => ({
      model: board.rows[number].model,
      name: board.rows[number].model.toLowerCase(),
      revision: board.rows[number].revision,
      complete: whole.has(number),
      lacking: places.filter((place) => !board.rows[number].asked[place]).map((place) => board.entries[place]),
      values: Object.fromEntries(names.map((name) => [name, values[name].get(number)])),
    }));
    const key = ({ values: of }) => of[sort].value;
    listed.sort(
      (one, other) =>
        other.complete - one.complete ||
        (key(one) === null) - (key(other) === null) ||
        sign * ((key(one) ?? 0) - (key(other) ?? 0)) ||
        Number(one.name > other.name) - Number(one.name < other.name) ||
        one.revision - other.revision,
    );
    return { sort, columns: names, tasks, together, rows: listed, definition, selection: canonical({ snapshot: board.snapshot, ...definition }) };
  }
}

// A standing as a snapshot has it.
function stated({ samples, units, paired, row, clusters, ...standing }, { decimals }) {
  const all = (ends) => ends && ends.map((end) => exactlyRounded(end, decimals));
  return { ...standing, value: exactlyRounded(standing.value, decimals), interval: all(standing.interval) };
}

// As a worker it ranks one column of a board, whose values it is given first.
if (typeof WorkerGlobalScope !== "undefined") {
  let columns;
  addEventListener("message", async ({ data: { id, name, board, values, plan } }) => {
    try {
      columns ??= new Columns(board, async () => JSON.parse(values));
      if (plan) postMessage({ id, found: await columns.rank(name, plan) });
      else await columns.prepare(name);
    } catch (error) {
      postMessage({ id, error: String(error) });
    }
  });
}

if (typeof module !== "undefined") module.exports = { Columns, Rankings };
