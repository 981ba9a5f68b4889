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

function* unsigned32({ state, increment }) {
  let [a, b, c, d] = limbs(state);
  const [i, j, k, l] = limbs(increment);
  const [p, q, r, s] = MULTIPLIER;
  const TWO32 = 2 ** 32;
  for (;;) {
    const one = low(a, p) + i;
    const two = high(a, p) + low(a, q) + low(b, p) + j + Math.floor(one / TWO32);
    const three = high(a, q) + high(b, p) + low(a, r) + low(b, q) + low(c, p) + k + Math.floor(two / TWO32);
    const four = high(a, r) + high(b, q) + high(c, p) + low(a, s) + low(b, r) + low(c, q) + low(d, p) + l;
    d = (four + Math.floor(three / TWO32)) % TWO32;
    [a, b, c] = [one >>> 0, two % TWO32, three % TWO32];
    let lower = (a ^ c) >>> 0, upper = (b ^ d) >>> 0;
    const turned = d >>> 26;
    if (turned & 32) [lower, upper] = [upper, lower];
    const by = turned & 31;
    yield by ? ((lower >>> by) | (upper << (32 - by))) >>> 0 : lower;
    yield by ? ((upper >>> by) | (lower << (32 - by))) >>> 0 : upper;
  }
}

// How often each of so many units is drawn in each resample: (resamples, units).
function drawn(generator, units, resamples) {
  const counts = new Uint8Array(resamples * units);
  const bits = unsigned32(generator);
  const threshold = (2 ** 32 - units) % units;
  for (let start = 0; start < counts.length; start += units) {
    for (let draw = 0; draw < units; draw++) {
      let unit = 0;
      while (units > 1) {
        const random = bits.next().value;
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

const normalQuantile = (share) => inverse(normal, share);
const studentQuantile = (degrees, share) =>
  share > 0.5 ? -studentQuantile(degrees, 1 - share) : inverse((x) => (x < 0 ? student(degrees, x) : 1), share);

// Numbers

const rint = (x) => {
  const found = Math.round(x);
  return found - x === 0.5 && found % 2 !== 0 ? found - 1 : found;
};

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

function interpolated(x, xs, ys, length) {
  if (x <= xs[0]) return ys[0];
  if (x >= xs[length - 1]) return ys[length - 1];
  let [from, to] = [0, length - 1];
  while (to - from > 1) {
    const middle = (from + to) >> 1;
    if (xs[middle] <= x) from = middle;
    else to = middle;
  }
  return ((ys[from + 1] - ys[from]) / (xs[from + 1] - xs[from])) * (x - xs[from]) + ys[from];
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

const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

// A metric's values of the questions of one task: `models` × `questions`, of each model that has any.
class Values {
  constructor({ shape, levels, codes }, clusters) {
    [this.models, this.questions] = shape;
    const raw = bytes(codes);
    if (levels) {
      this.values = Float64Array.from(raw, (code) => levels[code] ?? NaN);
    } else this.values = new Float64Array(raw.buffer);
    this.defined = !this.values.some(Number.isNaN);
    this.clusters = clusters;
    this.units = clusters ? Math.max(...clusters) + 1 : this.questions;
  }

  // The sums over drawn units, divided by how many of the drawn questions are defined: (models, resamples).
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
    const found = new Float64Array(models * resamples);
    const alike = this.defined && !clusters;
    const exact = rest.every((part) => part === 0);
    const packed = exact && alike ? this.#packed(coarse, counts, resamples, found) : false;
    if (packed) return found;
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
    return found;
  }

  // Three resamples in one number, where values are small whole multiples of a power of two: their sums do not meet.
  #packed(coarse, counts, resamples, found) {
    const { models, units } = this;
    const largest = coarse.reduce((most, value) => Math.max(most, value), 0), least = coarse.reduce((most, value) => Math.min(most, value), 0);
    let scale = 1;
    while (scale <= 256 && coarse.some((value) => (value * scale) % 1 !== 0)) scale *= 2;
    const room = 2 ** 17;
    if (least < 0 || scale > 256 || largest * scale * units >= room) return false;
    const means = Float64Array.from({ length: room }, (_, sum) => sum / scale / units);
    const scaled = coarse.map((value) => value * scale);
    const three = new Float64Array(units);
    for (let resample = 0; resample < resamples; resample += 3) {
      const [one, two, last] = [resample, Math.min(resample + 1, resamples - 1), Math.min(resample + 2, resamples - 1)];
      for (let unit = 0; unit < units; unit++) {
        three[unit] = counts[one * units + unit] + room * (counts[two * units + unit] + room * counts[last * units + unit]);
      }
      for (let model = 0; model < models; model++) {
        let sum = 0;
        const from = model * units;
        for (let unit = 0; unit < units; unit++) sum += three[unit] * scaled[from + unit];
        const upper = Math.floor(sum / room), to = model * resamples;
        found[to + one] = means[sum - upper * room];
        found[to + two] = means[upper % room];
        found[to + last] = means[Math.floor(upper / room)];
      }
    }
    return true;
  }
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
      ? [new Float64Array(bytes(this.given.samples).buffer)]
      : (clustered ? this.clustered : this.questions).map((values) =>
          values.means(drawn(this.generator, values.units, resamples), resamples, whole),
        ));
  }

  // Of each pair of models in how many questions only the one, only the other, and how many both have a value for.
  get pairs() {
    return (this.cache.pairs ??= counted(this.questions[0]));
  }

  get differing() {
    return (this.cache.differing ??= differing(this.questions, this.limits));
  }
}

function counted({ values, models, questions }) {
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

function differing(parts, { differing: enough, equal }) {
  const { models, questions } = parts[0];
  const found = new Uint8Array(models * models);
  for (let one = 0; one < models; one++) {
    for (let other = 0; other < one; other++) {
      let apart = 0;
      for (let question = 0; question < questions && apart < enough; question++) {
        const [a, b] = [one * questions + question, other * questions + question];
        if (parts.some(({ values }) => Math.abs(values[a] - values[b]) > equal)) apart++;
      }
      found[one * models + other] = found[other * models + one] = apart;
    }
  }
  return found;
}

function defined(samples) {
  for (let at = 0; at < samples.length; at++) if (samples[at] !== samples[at]) return samples.filter((value) => value === value);
  return samples;
}

// The percentile interval of resampled values, as `percentile_interval` has it; null where none is stated.
function interval(samples, units, limits) {
  const known = defined(samples);
  if (!known.length || known.length < (1 - limits.largest_undefined_share) * samples.length) return null;
  if (units < limits.minimum_questions) return null;
  let mean = 0;
  for (const value of known) mean += value;
  mean /= known.length;
  let second = 0, third = 0;
  for (const value of known) {
    const off = value - mean;
    second += off * off;
    third += off * off * off;
  }
  const sorted = new Float64Array(known.length);
  for (let at = 0; at < known.length; at++) sorted[at] = rint(known[at] * 1e12) / 1e12;
  sorted.sort();
  const levels = new Float64Array(sorted.length), values = new Float64Array(sorted.length);
  let distinct = 0;
  for (let from = 0, to; from < sorted.length; from = to) {
    for (to = from + 1; to < sorted.length && sorted[to] === sorted[from]; ) to++;
    values[distinct] = sorted[from];
    levels[distinct++] = (to - (to - from) / 2) / known.length;
  }
  const skewness = third / known.length / (second / known.length) ** 1.5;
  if (distinct === 1 || Math.abs(skewness) > limits.largest_skewness) return null;
  const shift = 2 * normalQuantile(interpolated(mean, values, levels, distinct));
  const z = -widening(units, limits);
  const tenths = 10 ** limits.level_digits;
  return [shift + z, shift - z].map((at) => interpolated(rint(normal(at) * tenths) / tenths, levels, values, distinct));
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
  const averaged = (parts) => {
    if (parts.length === 1) return parts[0];
    const sum = new Float64Array(resamples);
    parts.forEach((part, at) => {
      const of = times ? times[at] : 1;
      for (let resample = 0; resample < resamples; resample++) sum[resample] += of * part[resample];
    });
    for (let resample = 0; resample < resamples; resample++) sum[resample] /= total;
    return sum;
  };
  const combine = TWO_MEANS[metric], share = SHARE_OF_FIRST.has(metric);
  const combined = (first, second) =>
    first.map((value, at) => {
      const found = combine(value, second[at]);
      return Number.isFinite(found) ? found : NaN;
    });
  const macro = (row, clustered) => {
    const parts = tasks.map((task) =>
      task.samples(clustered && task.clustered !== null).map((of) => {
        const at = task.place.get(row) * resamples;
        return of.subarray(at, at + resamples);
      }),
    );
    if (combine && share) return combined(averaged(parts.map(([first]) => first)), averaged(parts.map(([, second]) => second)));
    return averaged(parts.map(([first, second]) => (combine ? combined(first, second) : first)));
  };
  return rows.map((row) => {
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
    const alone = macro(row, false);
    const resting = Math.min(...of.map((one) => one.resting_on));
    Object.assign(standing, { samples: alone, interval: interval(alone, resting, limits), units: resting });
    standing.paired = tasks.every((task) => task.questions.length);
    if (of.some((one) => one.clusters)) {
      standing.samples = macro(row, true);
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
    const from = tasks[at].place.get(row) * limits.resamples;
    return interval(tasks[at].samples()[0].subarray(from, from + limits.resamples), one.resting_on, limits);
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

// 95 % of each model's ranks over the resamples.
function rankIntervals(standings, better, limits) {
  const models = standings.length, sign = better === "lower" ? 1 : -1;
  const found = Array.from({ length: models }, () => new Uint16Array(limits.resamples));
  const kept = new Uint16Array(models);
  const values = new Float64Array(models);
  for (let resample = 0; resample < limits.resamples; resample++) {
    for (let model = 0; model < models; model++) values[model] = sign * standings[model].samples[resample];
    const sorted = values.slice().sort();
    for (let model = 0; model < models; model++) {
      if (!Number.isNaN(values[model])) found[model][kept[model]++] = 1 + below(sorted, values[model] - limits.rank_tolerance);
    }
  }
  const tail = (1 - limits.confidence) / 2;
  return found.map((ranks, model) => {
    const n = kept[model];
    if (!n) return null;
    const sorted = ranks.subarray(0, n).sort();
    return [tail, 1 - tail].map((share) => sorted[Math.max(0, Math.ceil(n * share - 1))]);
  });
}

// What the questions say of each pair of models, as `paired` has it: models × models.
function pairsOf(metric, standings, tasks, times, limits) {
  const models = standings.length, size = models * models;
  const places = tasks.map((task) => standings.map(({ row }) => task.place.get(row)));
  if (!metric.zero_or_one) {
    const enough = new Uint8Array(size);
    for (let one = 0; one < models; one++) {
      for (let other = 0; other < models; other++) {
        let apart = 0;
        tasks.forEach((task, at) => {
          apart += task.differing[places[at][one] * task.questions[0].models + places[at][other]];
        });
        enough[one * models + other] = apart >= limits.differing;
      }
    }
    return { enough, difference: null };
  }
  const number = times ? times.reduce((sum, of) => sum + of, 0) : tasks.length;
  const difference = new Float64Array(size), error = new Float64Array(size), slack = new Float64Array(size);
  tasks.forEach((task, at) => {
    const { only, both } = task.pairs, all = task.questions[0].models, of = times ? times[at] : 1;
    for (let one = 0; one < models; one++) {
      const from = places[at][one] * all;
      for (let other = one + 1; other < models; other++) {
        const to = places[at][other], n = both[from + to], b = only[from + to], c = only[to * all + places[at][one]];
        const first = (b + 1) / (n + 2), second = (c + 1) / (n + 2), off = first - second;
        const own = of * Math.sqrt((first + second - off * off) / (n + 2));
        const share = n ? (b + c) / n : 0, square = share * share, fourth = square * square;
        const place = one * models + other;
        difference[place] += of * off;
        error[place] += own * own;
        slack[place] = Math.max(slack[place], of * ((fourth * fourth) / (n + 2)));
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

// Sums of products of the rows of two (models, resamples) tables, four by four at a time; of one table the upper half.
function products(left, right, resamples) {
  const models = left.length, padded = Math.ceil(models / 4) * 4;
  const one = panels(left, padded, resamples), other = left === right ? one : panels(right, padded, resamples);
  const found = new Float64Array(padded * padded);
  for (let start = 0; start < resamples; start += 400) {
    const end = Math.min(resamples, start + 400);
    for (let row = 0; row < padded; row += 4) {
      const of = one.subarray(row * resamples + start * 4, row * resamples + end * 4);
      for (let column = left === right ? row : 0; column < padded; column += 4) {
        tile(of, other.subarray(column * resamples + start * 4, column * resamples + end * 4), found, row * padded + column, padded);
      }
    }
  }
  return left === right
    ? (row, column) => found[Math.min(row, column) * padded + Math.max(row, column)]
    : (row, column) => found[row * padded + column];
}

function panels(rows, padded, resamples) {
  const found = new Float64Array(padded * resamples);
  rows.forEach((row, model) => {
    for (let at = (model >> 2) * 4 * resamples + (model & 3), resample = 0; resample < resamples; resample++, at += 4) found[at] = row[resample];
  });
  return found;
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
  const rows = standings.map(({ samples }) => {
    const known = defined(samples), row = new Float64Array(resamples);
    let mean = 0;
    for (let at = 0; at < known.length; at++) mean += known[at];
    mean /= known.length;
    for (let at = 0; at < resamples; at++) row[at] = samples[at] === samples[at] ? better * (samples[at] - mean) : 0;
    return row;
  });
  const usable = standings.map(({ samples }) => 1 - defined(samples).length / resamples <= limits.largest_undefined_share);
  const family = { models, beats: new Uint8Array(size), compared: new Uint8Array(size), critical: null };
  if (units < limits.minimum_questions) return family;
  const of = products(rows, rows, resamples);
  const adjusted = pairs !== null && pairs.difference !== null;
  const cubes = adjusted ? null : thirds(rows, resamples);
  const ratios = new Float64Array(size), weights = new Float32Array(size), left = new Uint8Array(size);
  const clustered = standings.some(({ clusters }) => clusters);
  for (let one = 0; one < models; one++) {
    for (let other = 0; other < models; other++) {
      if (one === other || !usable[one] || !usable[other]) continue;
      const at = one * models + other;
      const both = of(one, one) / resamples + of(other, other) / resamples;
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
        compared = (spread === 0 || Math.abs(cubes(one, other)) <= limits.largest_skewness * spread ** 3) && (!pairs || pairs.enough[at] === 1);
      }
      if (spread === 0 && Math.abs(difference) > limits.rank_tolerance) ratio = Math.sign(difference) * Infinity;
      ratios[at] = ratio;
      weights[at] = weight;
      family.compared[at] = compared;
      if (compared && ratio === Infinity) family.beats[at] = 1;
      left[at] = compared && spread > 0;
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

// Third central moments of the difference of each pair.
function thirds(rows, resamples) {
  const mixed = products(rows.map((row) => row.map((value) => value * value)), rows, resamples);
  return (one, other) => (mixed(one, one) - mixed(other, other) - 3 * mixed(one, other) + 3 * mixed(other, one)) / resamples;
}

const BLOCK = 16;

// The quantile of the largest ratio in each resample, of the pairs that are left. Models that answer alike are in one
// block; no ratio between two blocks exceeds the one's highest value less the other's lowest, times the largest weight.
class Maxima {
  constructor(rows, weights, models, { resamples, share_below: share }) {
    Object.assign(this, { weights, models, resamples });
    this.place = Math.min(resamples, Math.ceil(share * resamples)) - 1;
    this.order = alike(weights, models);
    this.blocks = Math.ceil(models / BLOCK);
    this.values = new Float32Array(models * resamples); // (models in that order, resamples)
    this.low = new Float32Array(this.blocks * resamples).fill(Infinity);
    this.high = new Float32Array(this.blocks * resamples).fill(-Infinity);
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

  quantile(left) {
    const { blocks, order, models, resamples, values, low, high } = this;
    const maxima = new Float32Array(resamples).fill(-Infinity);
    const weights = new Float32Array(models * models).fill(-1); // in that order; below 0: the pair is not left
    const heavy = new Float32Array(models * blocks).fill(-1); // of a model and a block the largest
    const heaviest = new Float32Array(blocks * blocks).fill(-1);
    for (let one = 0; one < models; one++) {
      for (let other = 0; other < models; other++) {
        const at = order[one] * models + order[other], block = Math.floor(other / BLOCK);
        if (!left[at]) continue;
        const weight = (weights[one * models + other] = this.weights[at]);
        if (weight > heavy[one * blocks + block]) heavy[one * blocks + block] = weight;
        const pair = Math.floor(one / BLOCK) * blocks + block;
        if (weight > heaviest[pair]) heaviest[pair] = weight;
      }
    }
    const look = (one, other, resample) => {
      const to = Math.min(models, (one + 1) * BLOCK), end = Math.min(models, (other + 1) * BLOCK);
      const least = low[other * resamples + resample];
      let most = maxima[resample];
      for (let first = one * BLOCK; first < to; first++) {
        const value = values[first * resamples + resample], weight = heavy[first * blocks + other];
        if (weight < 0 || Math.fround(Math.fround(value - least) * weight) <= most) continue;
        for (let second = other * BLOCK; second < end; second++) {
          const of = weights[first * models + second];
          const ratio = Math.fround(Math.fround(value - values[second * resamples + resample]) * of);
          if (ratio > most && of >= 0) most = ratio;
        }
      }
      maxima[resample] = most;
    };
    const known = () => maxima.slice().sort()[this.place];
    const limit = (at, under, weight) => {
      const apart = Math.fround(high[at] - low[under]);
      return apart > 0 ? Math.fround(apart * weight) : 0;
    };
    for (let resample = 0; resample < resamples; resample++) {
      let most = -1, best = 0, worst = 0;
      for (let one = 0; one < blocks; one++) {
        for (let other = 0; other < blocks; other++) {
          const weight = heaviest[one * blocks + other];
          if (weight < 0) continue;
          const found = limit(one * resamples + resample, other * resamples + resample, weight);
          if (found > most) [most, best, worst] = [found, one, other];
        }
      }
      look(best, worst, resample);
    }
    for (let one = 0; one < blocks; one++) {
      const reached = known();
      for (let other = 0; other < blocks; other++) {
        const weight = heaviest[one * blocks + other];
        if (weight < 0) continue;
        for (let resample = 0; resample < resamples; resample++) {
          const found = limit(one * resamples + resample, other * resamples + resample, weight);
          if (found > reached && found > maxima[resample]) look(one, other, resample);
        }
      }
    }
    return known();
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
    const differences = one.samples.map((value, resample) => value - other.samples[resample]);
    if (!pairs || pairs.enough[at]) {
      const [least, most] = differences.reduce(([from, to], value) => (Number.isNaN(value) ? [from, to] : [Math.min(from, value), Math.max(to, value)]), [Infinity, -Infinity]);
      if (most - least <= limits.rank_tolerance && least !== Infinity) return Math.abs(one.value - other.value) > limits.rank_tolerance;
    } else return false;
    const found = interval(differences, units, limits);
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
  const names = definition.columns.flatMap((column) => (definition.errata ?? ["as-published"]).map((key) => column + board.treatments[key]));
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

// A board as the site has it. column: what gives the values of a column, by its name.
class Rankings {
  constructor(board, column) {
    Object.assign(this, { board, column });
    this.tasks = new Map();
  }

  async #task(name, task) {
    const key = `${name}\n${task}`;
    if (!this.tasks.has(key)) {
      const { board } = this, given = await this.column(name);
      for (const [of, values] of Object.entries(given)) this.tasks.set(`${name}\n${of}`, new Task(values, board.tasks[of], board.limits));
    }
    return this.tasks.get(key);
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
    const complete = new Set(rows.filter((number) => places.every((place) => board.rows[number].whole[place])));
    const own = tasks.map((task) => weights[task] ?? 1);
    const times = new Set(own).size === 1 ? null : own;
    const values = {}, together = {};
    for (const name of names) {
      const metric = board.columns[name];
      const of = await Promise.all(tasks.map((task) => this.#task(name, task)));
      const standings = overTasks(metric.metric, rows, of, times, limits);
      const known = standings.filter((one) => complete.has(one.row) && one.value !== null && !one.estimated);
      const found = rank(metric, known, of, times, limits);
      if (found) together[name] = found;
      placeEstimates(standings, metric.better);
      values[name] = new Map(standings.map((one) => [one.row, stated(one, limits)]));
    }
    const sort = definition.sort ?? board.sorted.flatMap((metric) => names.filter((name) => name.startsWith(`${metric}@`)))[0] ?? names[0];
    const sign = board.columns[sort].better === "lower" ? 1 : -1;
    const listed = rows.map((number) => ({
      model: board.rows[number].model,
      name: board.rows[number].model.toLowerCase(),
      revision: board.rows[number].revision,
      complete: complete.has(number),
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

if (typeof module !== "undefined") module.exports = { Rankings };
