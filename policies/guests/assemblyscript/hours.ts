// Office hours. The configuration says when it is open, and what happens outside:
//
//   utc +60
//   open 1-5 08:00-18:00
//   open 6 09:00-12:00
//   outside deny
//
// Days are 1, Monday, to 7; utc is how many minutes local time is ahead. Outside, requests are denied, or with `outside times 3`
// weigh three times what they ask for. Lines that begin with # are for people.
import { deny, NO_OPINION, now } from "./permitd";
import { lines, number, words, wrong } from "./table";

const MINUTES_OF_DAY: i64 = 1440;
const OPEN_MAX: i32 = 32;

class Window {
  constructor(public fromDay: i64, public toDay: i64, public from: i64, public to: i64) {} // to is not open any more
}

const windows: Window[] = [];
let utc: i64 = 0;
let times: i64 = 0; // 0: deny

// The mark of the ABI: it has to be exported by the file that is compiled.
export function permitd_abi_v1(): void {}

// What stands before a character, and behind it: nothing if it is not there.
function before(word: string, at: string): string {
  const i = word.indexOf(at);
  return i < 0 ? word : word.substring(0, i);
}

function behind(word: string, at: string): string {
  const i = word.indexOf(at);
  return i < 0 ? "" : word.substring(i + 1);
}

// The minute of the day of 08:00, or -1.
function minute(word: string): i64 {
  const minutes = behind(word, ":");
  const h = number(before(word, ":"));
  const m = number(minutes);
  if (h < 0 || m < 0 || minutes.length != 2 || m > 59 || 60 * h + m > MINUTES_OF_DAY) return -1;
  return 60 * h + m;
}

function readOpen(days: string, hours: string): bool {
  const second = behind(days, "-");
  const fromDay = number(before(days, "-"));
  const toDay = second == "" ? fromDay : number(second);
  const from = minute(before(hours, "-"));
  const to = minute(behind(hours, "-"));
  if (fromDay < 1 || toDay > 7 || toDay < fromDay || from < 0 || to <= from || windows.length == OPEN_MAX) return false;
  windows.push(new Window(fromDay, toDay, from, to));
  return true;
}

function readUTC(by: string): bool {
  const signed = by.startsWith("-") || by.startsWith("+");
  const n = number(signed ? by.substring(1) : by);
  utc = by.startsWith("-") ? -n : n;
  return n >= 0 && n <= MINUTES_OF_DAY;
}

function readLine(line: string[]): bool {
  if (line[0] == "open" && line.length == 3) return readOpen(line[1], line[2]);
  if (line[0] == "utc" && line.length == 2) return readUTC(line[1]);
  if (line[0] == "outside" && line.length == 2) return line[1] == "deny";
  if (line[0] == "outside" && line.length == 3 && line[1] == "times") {
    times = number(line[2]);
    return times > 0;
  }
  return false;
}

export function configure(): i32 {
  const all = lines();
  for (let i = 0; i < all.length; i++) {
    if (!readLine(words(all[i]))) return wrong(all[i]);
  }
  return windows.length == 0 ? wrong("the configuration needs a line: open DAYS HOURS") : 0;
}

function isOpen(): bool {
  const minutes = now() / 60000 + utc;
  const day = ((minutes / MINUTES_OF_DAY + 3) % 7) + 1; // the epoch was a Thursday
  const minute = minutes % MINUTES_OF_DAY;
  for (let i = 0; i < windows.length; i++) {
    const w = windows[i];
    if (day >= w.fromDay && day <= w.toDay && minute >= w.from && minute < w.to) return true;
  }
  return false;
}

export function evaluate(requested: i64, limit: i64, available: i64, waiting: i64): i64 {
  if (isOpen()) return NO_OPINION;
  if (times == 0) return deny("outside office hours");
  return times * requested;
}
