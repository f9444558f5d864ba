// Times and amounts as people read them. All times are minutes from the moment of the state ("now" = 0). Pure, but for the
// settings at the top.

const settings = { epoch: 0, utc: false, unit: "GPU" };

/** Set the moment of the state, in seconds since the epoch. @param {number} seconds */
export const setMoment = (seconds) => void (settings.epoch = seconds);
/** Show times in UTC, or in the zone of the browser. @param {boolean} utc */
export const setUtc = (utc) => void (settings.utc = utc);
/** Set the resource that is drawn. @param {string} resource */
export const setUnit = (resource) => void (settings.unit = resource === "cpu" ? "CPU" : "GPU");

export const unitWord = () => settings.unit;
export const unitsWord = () => `${settings.unit}s`;

/** A moment whose UTC fields are those that are shown. @param {number} minutes */
export function shown(minutes) {
  const seconds = settings.epoch + minutes * 60;
  const offset = settings.utc ? 0 : new Date(seconds * 1000).getTimezoneOffset();
  return new Date((seconds - offset * 60) * 1000);
}

/** The zone's name as it stands behind a time. */
export function zone() {
  if (settings.utc) return "UTC";
  const parts = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(settings.epoch * 1000);
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "";
}

const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
const day = (/** @type {Date} */ date) => Math.floor(date.getTime() / 86400000);
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** `14:20`. @param {number} minutes */
export const clock = (minutes) => `${two(shown(minutes).getUTCHours())}:${two(shown(minutes).getUTCMinutes())}`;

/** `Tue 16`. @param {number} minutes */
export const date = (minutes) => `${DAYS[shown(minutes).getUTCDay()]} ${shown(minutes).getUTCDate()}`;

/** Minutes since midnight. @param {number} minutes */
export const ofDay = (minutes) => shown(minutes).getUTCHours() * 60 + shown(minutes).getUTCMinutes();

/** `14:20`; with the day if that is not the day of now: `tomorrow 02:20`, `Thu 18 Jun 02:20`. @param {number} minutes */
export function moment(minutes) {
  const days = day(shown(minutes)) - day(shown(0));
  if (days === 0) return clock(minutes);
  if (days === 1) return `tomorrow ${clock(minutes)}`;
  if (days === -1) return `yesterday ${clock(minutes)}`;
  return `${date(minutes)} ${MONTHS[shown(minutes).getUTCMonth()]} ${clock(minutes)}`;
}

/** `45m`, `3h 20m`, `1d 4h`: two units at most; below one minute `40s`. @param {number} minutes */
export function span(minutes) {
  if (minutes < 0.99) return `${Math.max(0, Math.round(minutes * 60))}s`;
  const m = Math.max(1, Math.round(minutes));
  if (m < 60) return `${m}m`;
  if (m < 1440) return m % 60 ? `${Math.floor(m / 60)}h ${m % 60}m` : `${m / 60}h`;
  const d = Math.floor(m / 1440);
  const h = Math.floor((m % 1440) / 60);
  return h ? `${d}d ${h}h` : `${d}d`;
}

/** @typedef {(number | null)[]} Expected the starts that 5, 25, 50, 75, 95 % are earlier than, and the latest */

/** An expected start in a few words: `now–14:20`, `after tomorrow 14:00`. @param {Expected | null} x */
export function expectedText(x) {
  if (!x) return "";
  const [, from, , to] = x;
  if (from === null) return "later than was played forward";
  if (to === null) return `after ${moment(from)}`;
  if (from === to) return to <= 1 ? "now" : moment(to);
  const left = from <= 2 ? "now" : moment(from);
  const same = day(shown(from)) === day(shown(to));
  if (left === "now" && to <= 2) return "now";
  return `${left}–${same ? clock(to) : moment(to)}`;
}

/** True if only time limits tell: the quantiles are all the latest start. @param {Expected | null} x */
export const byLimits = (x) => !!x && x[0] !== null && x[0] === x[4];

/** A reason's sentence, short: without the bracket of details that the page draws itself. @param {string} text */
export const brief = (text) =>
  text
    .replace(/nvidia\.com\/gpu/g, "GPUs")
    .replace(/ \((?:[^()]|\([^()]*\))*\)$/, "")
    .replace(/:\d\d UTC/g, " UTC");

/** @param {number} n */
export const count = (n) => amount(n).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, "\u202f");
/** A number with at most two digits behind the point. @param {number} n */
export const amount = (n) => String(Math.round(n * 100) / 100);
/** @param {number} n @param {string} one @param {string} many */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
/** `1 GPU`, `8 GPUs`, `3.5 CPUs`. @param {number} n */
export const units = (n) => `${count(n)} ${n === 1 ? unitWord() : unitsWord()}`;
/** `8 GPU hours`. @param {number} n */
export const unitHours = (n) =>
  `${n >= 100 ? count(Math.round(n)) : amount(Math.round(n * 10) / 10)} ${unitWord()} hours`;
